"""What a server's log says about a fault: where it was, and nothing of what was in it."""

from __future__ import annotations

import io
import re
import sys

import pytest

from retain.httpd.faults import described, log_fault

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
    log_fault(fault(), "telling")
    said = capsys.readouterr().err
    assert said.startswith("retain: a fault while telling: ValueError\n")
    assert re.search(r"tests/httpd/test_faults\.py:\d+ in outer\n  from KeyError\n", said)
    assert re.search(r"test_faults\.py:\d+ in inner\n", said)
    assert SECRET not in said
    assert " /" not in said  # no path of this machine


def test_a_recursion_without_end_is_cut() -> None:
    def again() -> None:
        again()

    with pytest.raises(RecursionError) as caught:
        again()
    assert described(caught.value).count("\n") <= 30


def test_those_of_a_group_are_all_told() -> None:
    found = described(ExceptionGroup("two", [fault(), TypeError(SECRET)]))
    for name in ("ExceptionGroup", "ValueError", "KeyError", "TypeError"):
        assert name in found
    assert SECRET not in found


def test_a_log_that_is_closed_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    log_fault(fault())
