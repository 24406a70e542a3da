"""One event as the host tells it: what is read, how long, and what is printed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import pytest

from retain.hooks import EVENTS, MAX_BYTES, Answer, Call, print_answer, read_payload
from tests.hooks.door import ask


@pytest.fixture
def pipe() -> Iterator[int]:
    """The other end of standard input, for as long as a test lasts."""
    kept = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)
    yield writing
    os.dup2(kept, 0)
    os.close(kept)


@pytest.mark.parametrize(
    "data, wanted",
    [
        *((data, None) for data in (b"", b"{", b"[]", b"7", b"\xff\xfe\x00", b"[" * 60_000)),
        (b"{}", {}),
        (b'{"a": 1}\n', {"a": 1}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{"a": "}"}', {"a": "}"}),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_only_an_object_is_a_payload(pipe: int, data: bytes, wanted: object) -> None:
    os.write(pipe, data)
    os.close(pipe)
    assert read_payload() == wanted


def test_too_much_is_nothing(pipe: int) -> None:
    def write() -> None:
        with os.fdopen(pipe, "wb") as file, contextlib.suppress(BrokenPipeError):
            file.write(b'{"a": "' + b"x" * MAX_BYTES + b'"}')

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert read_payload() is None


def test_an_answer_is_printed_with_its_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert print_answer(Answer("out é\n", "half \ud800\n", 2)) == 2
    assert capfd.readouterr() == ("out é\n", "half ?\n")


@pytest.mark.parametrize("given", [None, 7, "", "relative", "/nul\0", ["x"]], ids=ascii)
def test_a_working_directory_that_makes_no_sense_is_our_own(given: object) -> None:
    assert Call("stop", {"cwd": given}, os.environ, 0).cwd == os.getcwd()


def test_the_deadline_is_what_the_settings_say() -> None:
    env = {**os.environ, "RETAIN_HOOKS_DEADLINE_MS": "9000"}
    call = Call("stop", {}, env, time.monotonic())
    assert call.left <= 0.12
    assert call.config
    assert 0.12 < call.left <= 9


@pytest.mark.parametrize("event", EVENTS)
def test_fields_of_the_wrong_kind_hurt_nobody(event: str) -> None:
    fields = (
        "compact_summary cwd hook_event_name last_assistant_message prompt session_id source "
        "stop_hook_active tool_input tool_name transcript_path"
    ).split()
    values: list[object] = [None, 7, -1.5, True, [], [1], {}, {"file_path": {}}]
    for value in (*values, "", "\0", "\ud800" * 20):
        answer = ask(event, dict.fromkeys(fields, value))
        assert (answer.out, answer.code) == ("", 0)


def test_events_have_the_host_s_names() -> None:
    for event, name in EVENTS.items():
        assert "".join(part.capitalize() for part in event.split("-")) == name
