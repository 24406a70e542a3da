"""What a server's log says about a fault: where it was, and nothing of what was in it."""

from __future__ import annotations

import io
import re
import sys

import pytest

from retain.httpd.logging import describe, log_fault

SECRET = "sk-a-secret-0123456789"


def inner(value: str) -> None:
    raise KeyError(value)


def outer() -> None:
    try:
        inner(SECRET)
    except KeyError as error:
        raise ValueError(f"with {SECRET}") from error


def fault() -> Exception:
    try:
        outer()
    except ValueError as error:
        return error
    raise AssertionError


def test_every_step_has_a_place_and_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    log_fault(ExceptionGroup("two", [TypeError(SECRET), fault()]), "telling")
    text = capsys.readouterr().err
    assert text.startswith("retain: a fault while telling: ExceptionGroup\n  from TypeError\n")
    assert re.search(r"tests/httpd/test_logging\.py:\d+ in outer\n  from KeyError\n", text)
    assert re.search(r"test_logging\.py:\d+ in inner\n", text)
    assert SECRET not in text
    assert " /" not in text  # no path of this machine


def test_a_recursion_without_end_is_cut() -> None:
    def recurse() -> None:
        recurse()

    with pytest.raises(RecursionError) as caught:
        recurse()
    assert describe(caught.value).count("\n") <= 30


def test_a_log_that_is_closed_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    log_fault(fault())
