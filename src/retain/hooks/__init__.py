"""What a host's hooks call: `retain hook EVENT`, JSON on standard input, an answer on output.

Whatever goes wrong here, the host goes on as if there were no hook: nothing is printed, or whole
JSON, and the exit code is 0 but for the one block that a stop may get. Only what an event needs is
loaded, and never anything but the standard library and Retain's own lighter half.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from retain.hooks.call import Answer

__all__ = ["EVENTS", "TOOLS", "called", "is_event", "main", "respond"]

# Each event, by the name it has in a command, and what its host calls it.
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
TOOLS = ("stats", "test")  # what a person may ask for in an event's place
_TERMINATED = 15
_MISTAKE = 2


def is_event(words: list[str]) -> bool:
    """Whether a host calls, whatever follows: were it told of a mistake, it would be blocked."""
    return bool(words) and not words[0].startswith("-") and words[0] not in TOOLS


def main(event: str) -> NoReturn:
    """Answer one event of the host's on standard output, and leave."""
    import _signal  # type: ignore[import-not-found]  # `signal` loads `enum` besides

    start = time.monotonic()
    code = 0
    try:
        # A host that has no more time is told nothing; whatever is printed is printed at once.
        _signal.signal(_TERMINATED, lambda *_: os._exit(0))
        name = called(event)
        if name:
            from retain.hooks.call import printed, received

            code = printed(respond(name, received(), os.environ, start))
        elif os.isatty(0):  # a person mistyped; a host may have events that are new to us
            known = ", ".join((*TOOLS, *EVENTS))
            os.write(2, f"retain: there is no hook {event!r}\nThere are: {known}.\n".encode())
            code = _MISTAKE
    except BaseException as error:  # noqa: BLE001 - a hook never breaks its host
        _complain(error)
    os._exit(code)  # the interpreter's own end takes longer than many an answer


def _complain(error: BaseException) -> None:
    try:
        os.write(
            2, f"retain hook: {type(error).__name__}: {error}\n"[:2000].encode(errors="replace")
        )
    except OSError:
        return


def called(event: str) -> str:
    """The name of an event here, by that or by what the host calls it; empty for any other."""
    if event in EVENTS:
        return event
    return next((name for name, theirs in EVENTS.items() if theirs == event), "")


def respond(
    event: str, payload: Mapping[str, object] | None, env: Mapping[str, str], start: float
) -> Answer:
    """The answer to one event; RetainError and others are for whoever calls to bear."""
    from retain.hooks.call import Answer, Call

    if payload is None:
        return Answer()
    call = Call(event, payload, env, start)
    if event in ("pre-tool-use", "post-tool-use"):
        from retain.hooks import guarding

        return guarding.answer(call)
    if event == "user-prompt-submit":
        from retain.hooks import prompting

        return prompting.answer(call)
    if event == "stop":
        from retain.hooks import stopping

        return stopping.answer(call)
    if event == "session-start":
        from retain.hooks import opening

        return opening.answer(call)
    from retain.hooks import closing

    return closing.answer(call)
