"""What a request may bring has an end, whichever call it is for."""

from __future__ import annotations

import errno
import json
import sqlite3
import tracemalloc
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request

from retain.bank.files import saving
from retain.errors import LimitExceeded, NotFound, NotSaved, RetainError
from retain.web import operation
from retain.web.app import OPERATIONS
from retain.web.inbox import Several
from retain.web.memory_api import Merging
from retain.web.operation import Given

MODELS = sorted({model for one in OPERATIONS for model in (one.query, one.takes) if model}, key=str)
COUNT = 20_000
FLOODS = {
    "tags": {"text": "x", "tags": [1] * COUNT},
    "empty lists": {"tags": [[] for _ in range(COUNT)]},
    "empty objects": {"proposals": [{} for _ in range(COUNT)]},
    "unknown keys": {f"k{number}": 1 for number in range(COUNT)},
    "a list": [1] * COUNT,
    "lists of lists": [[[0] * 100 for _ in range(100)] for _ in range(COUNT // 10_000)],
}


def schemas(found: Any) -> Iterator[dict[str, Any]]:
    """Each description of a value within that of a model."""
    if isinstance(found, dict):
        if isinstance(found.get("type"), str):
            yield found
        for name, one in found.items():
            if name != "metadata":
                yield from schemas(one)
    elif isinstance(found, list | tuple):
        for one in found:
            yield from schemas(one)


@pytest.mark.parametrize("model", MODELS, ids=lambda one: one.__name__)
def test_whatever_holds_several_values_has_a_limit_and_one_fault(model: type[Given]) -> None:
    for one in schemas(model.__pydantic_core_schema__):
        if one["type"] in ("tuple", "list", "set", "frozenset", "generator", "dict"):
            assert one.get("max_length"), f"give {one} a limit"
            assert one.get("fail_fast"), f"make {one} one of Many"
        assert one["type"] != "any", "say what it may be"


def test_the_look_at_a_list_ends_with_its_first_fault() -> None:
    for model, values in (
        (Several, {"proposals": [1] * 5_000}),
        (Merging, {"sources": [1] * 5_000, "id": "x"}),
    ):
        with pytest.raises(ValidationError) as caught:
            model.model_validate(values)
        assert caught.value.error_count() < 10


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_values_is_refused_before_each_is_looked_at(name: str) -> None:
    data = json.dumps(FLOODS[name]).encode()
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            operation._checked(MODELS[0], operation._parsed(data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * len(data)


def test_a_value_that_is_too_deep_is_refused() -> None:
    for text in ("[" * 50 + "]" * 50, "[" * 500_000, '{"a":' * 50 + "1" + "}" * 50):
        for model in MODELS[:3]:
            with pytest.raises(RetainError):
                operation._checked(model, operation._parsed(text.encode()))


def test_few_of_many_faults_are_told() -> None:
    with pytest.raises(RetainError) as caught:
        operation._checked(operation.Nothing, {f"key{number}": 1 for number in range(1_000)})
    assert caught.value.message.count("key") <= operation._MOST_FAULTS


@pytest.mark.parametrize(
    "number, status", [(errno.ENOSPC, 507), (errno.EDQUOT, 507), (errno.EIO, 500)]
)
def test_a_disk_that_refuses_is_no_fault_of_who_asked(number: int, status: int) -> None:
    with pytest.raises(NotSaved) as caught, saving("a-file"):
        raise OSError(number, "no")
    assert operation.failed(caught.value).status_code == status

    async def refused(_call: operation.Call) -> object:
        raise OSError(number, "no")

    one = operation.Operation("GET", "/x", "x", "x", refused)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/x",
        "query_string": b"",
        "headers": [],
        "path_params": {},
        "app": Starlette(),
    }
    scope["app"].state.banks = None  # type: ignore[attr-defined]
    answer = anyio.run(one.__call__, Request(scope))
    assert answer.status_code == status
    assert json.loads(bytes(answer.body))["error"]["message"] == "no"


def test_chats_that_find_no_room_say_so() -> None:
    full = sqlite3.OperationalError("full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    error = NotSaved("not saved")
    error.__cause__ = full
    assert operation.status_of(error) == 507
    missing = NotFound("none")
    missing.__cause__ = OSError(errno.ENOENT, "none")
    assert operation.status_of(missing) == 404
