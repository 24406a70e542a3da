"""Answer a host's hooks: `retain hook EVENT` reads JSON on standard input and prints JSON.

Whatever goes wrong here, the host goes on as if there were no hook: nothing is printed, or whole
JSON, and the exit code is 0 but for the one block that a stop may get. Only what an event needs is
loaded, and never anything but the standard library and Retain's own lighter half.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from retain.config import Config
    from retain.locate import BankLocation, Locator

# Each event by the name it has in a command, and what its host calls it.
EVENTS = {
    "session-start": "SessionStart",
    "user-prompt-submit": "UserPromptSubmit",
    "pre-tool-use": "PreToolUse",
    "post-tool-use": "PostToolUse",
    "stop": "Stop",
    "pre-compact": "PreCompact",
    "post-compact": "PostCompact",
    "session-end": "SessionEnd",
}
SESSION_EVENTS = ("stop", "pre-compact", "post-compact", "session-end")  # which look for memories
MAX_BYTES = 32_000_000  # of a payload: a tool's whole input is in it
DEADLINE = 0.12  # seconds, until the settings are known
_WAIT = 2000  # milliseconds for a host that neither goes on nor says that it is done
_HANDLERS = {
    "session-start": "session_start",
    "user-prompt-submit": "user_prompt",
    "pre-tool-use": "pre_tool",
    "post-tool-use": "pre_tool",  # which calls post_tool for a file in a bank
    **dict.fromkeys(SESSION_EVENTS, "stop"),
}


class Answer(NamedTuple):
    """What the host is told, and for `retain hook test` the reason."""

    out: str = ""
    err: str = ""
    code: int = 0
    reason: str = ""


class Call:
    """One event of the host: its payload, its working directory and its deadline."""

    def __init__(
        self,
        event: str,
        payload: Mapping[str, object],
        env: Mapping[str, str],
        start: float,
        *,
        is_trial: bool = False,
    ) -> None:
        self.event, self.payload, self.env = event, payload, env
        self._start, self.end = start, start + DEADLINE
        self.is_trial = is_trial  # a person tries it, and no file is to be renamed

    def text(self, key: str) -> str:
        """A text of the payload; empty when there is none."""
        value = self.payload.get(key)
        return value if isinstance(value, str) else ""

    @property
    def cwd(self) -> str:
        """The directory the host works in."""
        path = self.text("cwd")
        return path if os.path.isabs(path) and "\0" not in path else os.getcwd()

    @cached_property
    def locator(self) -> Locator:
        """The banks in force in the working directory."""
        from retain.locate import Locator  # 8 ms, which a file outside of every bank does not take

        return Locator(self.cwd, self.env)

    @cached_property
    def config(self) -> Config:
        """The settings in force in the working directory."""
        config = self.locator.config
        self.set_deadline(config)
        return config

    @cached_property
    def banks(self) -> list[tuple[BankLocation, Config]]:
        """The banks that are there: the one in force first, then the person's own."""
        return [bank for bank in self.locator.locations() if bank[0].exists]

    def set_deadline(self, config: Config) -> None:
        """Set the deadline that some settings ask for."""
        self.end = self._start + config.number("hooks.deadline_ms") / 1000

    def find_off_reason(self, config: Config) -> str:
        """Why some settings switch this event off; empty where it is on."""
        switch = find_off_switch(self.event, config)
        return f"It is switched off: {switch} ({config.value(switch).origin})." if switch else ""

    def find_silence_reason(self) -> str:
        """Why there is nothing to do: the event is switched off, or there is no bank."""
        no_bank = "There is no bank here: `retain init` makes one."
        return self.find_off_reason(self.config) or ("" if self.banks else no_bank)

    @property
    def left(self) -> float:
        """How many seconds there are until an answer is due."""
        return self.end - time.monotonic()

    def is_late(self) -> bool:
        """Whether an answer is due by now."""
        return self.left < 0

    def reply(self, fields: Mapping[str, object], **common: object) -> Answer:
        """An answer with fields of this event alone, and with those any event may have."""
        data = dict(common)
        if fields:
            data["hookSpecificOutput"] = {"hookEventName": EVENTS[self.event], **fields}
        return Answer(json.dumps(data) + "\n" if data else "")


def find_off_switch(event: str, config: Config) -> str:
    """The setting that switches an event off; empty where it is on."""
    switches = ["memory.enabled", f"hooks.{event.replace('-', '_')}"]
    if event == "user-prompt-submit":
        switches.append("retrieval.enabled")
    elif event in SESSION_EVENTS:
        switches.append("triage.enabled")
    return next((key for key in switches if not config.flag(key)), "")


def is_event(words: list[str]) -> bool:
    """Whether a host calls: it gets no usage error, because that would block it."""
    return bool(words) and not words[0].startswith("-") and words[0] != "test"


def main(event: str) -> None:
    """Answer one event of the host's on standard output, and leave the process."""
    start = time.monotonic()
    code = 0
    try:
        # A host that has no more time is told nothing; whatever is printed is printed at once.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        if os.isatty(0):
            text = "retain hook: the host's JSON belongs on standard input.\n"
            text += f"Try one: retain hook test {'|'.join(EVENTS)}\n"
            code = print_answer(Answer(err=text, code=2))
        elif event in EVENTS and (payload := read_payload()) is not None:
            code = print_answer(respond(Call(event, payload, os.environ, start)))
    except BaseException as error:  # noqa: BLE001 - a hook never breaks its host
        print_answer(Answer(err=f"retain hook: {type(error).__name__}: {error}\n"[:2000]))
    os._exit(code)  # the interpreter's own end takes longer than many an answer


def respond(call: Call) -> Answer:
    """The answer to one event; only the code that the event needs is loaded."""
    handler = import_module(f"retain.hooks.{_HANDLERS[call.event]}")
    answer: Answer = handler.answer(call)
    if call.is_late() and not (answer.out or answer.err):
        return answer._replace(reason="There was no time: hooks.deadline_ms allows no more.")
    return answer


def read_payload() -> dict[str, object] | None:
    """The host's JSON object from standard input; None for anything else.

    Some hosts never close the other end, so a whole object ends the reading as well. A long text
    may look whole at the end of many of its parts, and is parsed only when it has doubled.
    """
    poll = select.poll()
    poll.register(0, select.POLLIN)
    data, tried = bytearray(), 0
    while len(data) <= MAX_BYTES and poll.poll(_WAIT) and (part := os.read(0, 1 << 16)):
        data += part
        if part.rstrip().endswith(b"}") and len(data) >= 2 * tried:
            tried = len(data)
            if (payload := _parse(data)) is not None:
                return payload
    return _parse(data)


def _parse(data: bytearray) -> dict[str, object] | None:
    try:
        payload = json.loads(data) if len(data) <= MAX_BYTES else None
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def print_answer(answer: Answer) -> int:
    """Write an answer, each stream at once, and return its exit code."""
    for number, text in ((1, answer.out), (2, answer.err)):
        # Nobody may listen, and then nobody need be told.
        with contextlib.suppress(OSError), open(number, "wb", closefd=False) as stream:
            stream.write(text.encode(errors="replace"))
    return answer.code
