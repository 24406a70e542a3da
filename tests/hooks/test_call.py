"""One event as the host tells it: what is read, how long, and what is printed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import pytest

from retain import hooks
from retain.hooks import EVENTS, MAX_BYTES, Answer, Call, print_answer, read_payload


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
        (b"", None),
        (b" \n", None),
        (b"{", None),
        (b"not JSON", None),
        (b"[]", None),
        (b'"text"', None),
        (b"7", None),
        (b"null", None),
        (b"\xff\xfe\x00", None),
        (b"[" * 60_000, None),
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


def test_a_terminal_is_told_what_belongs_there(capfd: pytest.CaptureFixture[str]) -> None:
    import pty

    kept = os.dup(0)
    leader, follower = pty.openpty()
    os.dup2(follower, 0)
    try:
        assert read_payload() is None
    finally:
        os.dup2(kept, 0)
        for fd in (kept, leader, follower):
            os.close(fd)
    assert "retain hook test" in capfd.readouterr().err


def test_an_answer_is_printed_with_its_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert print_answer(Answer("out é\n", "half \ud800\n", 2)) == 2
    assert capfd.readouterr() == ("out é\n", "half ?\n")


def call(payload: dict[str, object] | None = None, **env: str) -> Call:
    return Call("stop", payload or {}, {**os.environ, **env}, time.monotonic())


@pytest.mark.parametrize("given", [None, 7, "", "relative", "/nul\0", ["x"]], ids=ascii)
def test_a_working_directory_that_makes_no_sense_is_our_own(given: object) -> None:
    assert call({"cwd": given}).cwd == os.getcwd()
    assert call({"cwd": "/somewhere"}).cwd == "/somewhere"


def test_the_deadline_is_what_the_settings_say() -> None:
    late = call(RETAIN_HOOKS_DEADLINE_MS="9000")
    assert 0 < late.left <= 0.12
    assert late.config
    assert 5 < late.left <= 9


# Dispatching

FIELDS = (
    "compact_summary",
    "cwd",
    "hook_event_name",
    "last_assistant_message",
    "prompt",
    "session_id",
    "source",
    "stop_hook_active",
    "tool_input",
    "tool_name",
    "transcript_path",
)


@pytest.mark.parametrize("event", EVENTS)
def test_fields_of_the_wrong_kind_hurt_nobody(event: str) -> None:
    values: list[object] = [None, 7, -1.5, True, [], [1], {}, {"file_path": {}}]
    payloads = [dict.fromkeys(FIELDS, value) for value in (*values, "", "\0", "\ud800" * 20)]
    for payload in (None, {}, *payloads):
        answer = hooks.respond(event, payload, os.environ, time.monotonic())
        assert (answer.out, answer.code) == ("", 0)


def test_events_have_the_host_s_names() -> None:
    assert hooks.event_name("subagent-stop") == hooks.event_name("SubagentStop") == ""
    for event, name in EVENTS.items():
        assert hooks.event_name(event) == hooks.event_name(name) == event
        assert "".join(part.capitalize() for part in event.split("-")) == name
