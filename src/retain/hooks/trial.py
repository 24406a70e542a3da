"""Try a hook on a made-up event: what a host would be told, and why.

The bank in force is only read: proposals, the state of the session and what a stop leaves behind
go to a directory that is gone afterwards, and no file is put aside.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.capture import stop_message, triage
from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal
from retain.hooks import EVENTS, SESSION_EVENTS, Answer, Call, respond
from retain.hooks.session_state import SessionState
from retain.locate import BankLocation

SESSION: Final = "retain-hook-test"

_LAST_ANSWER: Final = "We decided on Postgres over SQLite because one writer is not enough."
_TALK: Final = (
    ("user", "We need a database for the new service. Please choose one."),
    *(("assistant", tool) for tool in ("Read", "Grep", "Edit", "Bash", "Read", "Edit", "Bash")),
    ("assistant", "I compared both and chose Postgres, because several processes write at once."),
    ("user", "Good. Write down why."),
    ("assistant", _LAST_ANSWER),
)
# What a host sends with an event, besides what it sends with all of them.
_SAMPLES: Final[Mapping[str, Mapping[str, object]]] = {
    "session-start": {"source": "startup"},
    "user-prompt-submit": {"prompt": "What did we decide about the database?"},
    "pre-tool-use": {"tool_name": "Write"},
    "post-tool-use": {"tool_name": "Write"},
    "stop": {"stop_hook_active": False, "last_assistant_message": _LAST_ANSWER},
    "post-compact": {"compact_summary": f"They chose. {_LAST_ANSWER}"},
}


class Trial(NamedTuple):
    """What a hook was sent, what it answered and proposed, and how long it took."""

    payload: Mapping[str, object]
    answer: Answer
    milliseconds: float
    proposals: Sequence[Proposal]


def run_trial(
    event: str,
    place: BankLocation,
    env: Mapping[str, str],
    fields: Mapping[str, object],
    file: str = "",
) -> Trial:
    """Answer one event about a bank; `fields` replace parts of the made-up payload."""
    with tempfile.TemporaryDirectory(prefix="retain-hook-test-") as scratch:
        cwd, is_apart = os.getcwd(), event in SESSION_EVENTS and place.exists
        if is_apart:
            # A hook reads transcripts only where hosts keep them.
            state = {"XDG_STATE_HOME": scratch, "CODEX_HOME": scratch}
            cwd, env = scratch, {**env, "RETAIN_BANK": place.root, **state}
        own = {"session_id": SESSION, "cwd": cwd}  # which no field replaces
        transcript = os.path.abspath(file) if file else _write_transcript(scratch)
        payload: dict[str, Any] = {
            **own,
            "transcript_path": transcript,
            "hook_event_name": EVENTS[event],
            **_SAMPLES.get(event, {}),
            **fields,
            **own,
        }
        if event in ("pre-tool-use", "post-tool-use"):
            default = {"file_path": os.path.join(place.root, "decisions", "past-retain.json")}
            stated = {"file_path": os.path.abspath(file)} if file else payload.get("tool_input")
            payload["tool_input"] = stated or default
        start = time.monotonic()
        try:
            answer = respond(Call(event, payload, env, start, is_trial=True))
        finally:
            SessionState(place, SESSION, env).delete()
            for category in triage.CATEGORIES:
                stop_message.remove_context(category, SESSION)
        milliseconds = (time.monotonic() - start) * 1000
        proposals = Inbox(place.root, env).proposals() if is_apart else []
        return Trial(payload, answer, milliseconds, proposals)


def _write_transcript(scratch: str) -> str:
    """A session that decides something, as a host writes it down."""
    path = os.path.join(scratch, f"{SESSION}.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for role, text in _TALK:
            is_tool = " " not in text
            block = (
                {"type": "tool_use", "name": text} if is_tool else {"type": "text", "text": text}
            )
            file.write(json.dumps({"type": role, "message": {"content": [block]}}) + "\n")
    return path
