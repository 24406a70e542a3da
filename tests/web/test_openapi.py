"""The description of the interface: complete, and what the server gives."""

from __future__ import annotations

import re

import pytest

from retain.web.app import OPERATIONS
from retain.web.openapi import document
from retain.web.operation import Operation
from tests.web.stage import Served


@pytest.mark.parametrize("one", OPERATIONS, ids=lambda one: one.name)
def test_an_operation_says_what_it_answers(one: Operation) -> None:
    assert one.gives is not None, "name a type for its answer"
    answer = document([one])["paths"]
    (methods,) = answer.values()
    (method,) = methods.values()
    given = method["responses"]["200"]["content"]["application/json"]["schema"]
    assert given.get("properties") or given.get("$ref") or given.get("items"), given
    assert one.about
    assert one.method in ("GET", "POST", "PUT", "DELETE", "PATCH")


def test_names_of_operations_and_of_paths_are_there_once() -> None:
    names = [one.name for one in OPERATIONS]
    assert len(names) == len(set(names))
    calls = [(one.method, re.sub(r"{\w+}", "{}", one.path)) for one in OPERATIONS]
    assert len(calls) == len(set(calls))


def test_the_server_gives_the_description(served: Served) -> None:
    assert served.get("/api/v1/openapi.json").json() == document(OPERATIONS)
