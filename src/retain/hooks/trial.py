"""Try a hook on a made-up event: what a host would be told, and why.

What only reads meets the bank in force. What would propose, block or put something aside meets an
empty bank with the same settings, which is gone afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.capture import stop_message, triage
from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal
from retain.config import FILE
from retain.foreign import CLAUDE_FILE
from retain.hooks import EVENTS, SESSION_EVENTS, Answer, respond
from retain.hooks.session_state import SessionState
from retain.locate import BankLocation

SESSION: Final = "retain-hook-test"

_NO_MEMORY: Final = '{"category": "decision", "title": "Written past Retain"}\n'
_LAST_ANSWER: Final = "We decided on Postgres over SQLite because one writer is not enough."
_TALK: Final = (
    ("user", "We need a database for the new service. Please choose one."),
    *(("assistant", tool) for tool in ("Read", "Grep", "Edit", "Bash", "Read", "Edit", "Bash")),
    ("assistant", "I compared both and chose Postgres, because several processes write at once."),
    ("user", "Good. Write down why."),
    ("assistant", _LAST_ANSWER),
)
# What a host sends with each event, besides what it sends with all of them.
_SAMPLES: Final[Mapping[str, Mapping[str, object]]] = {
    "session-start": {"source": "startup"},
    "user-prompt-submit": {"prompt": "What did we decide about the database?"},
    "pre-tool-use": {"tool_name": "Write", "tool_input": {"content": _NO_MEMORY}},
    "post-tool-use": {"tool_name": "Write", "tool_input": {"content": _NO_MEMORY}},
    "stop": {"stop_hook_active": False, "last_assistant_message": _LAST_ANSWER},
    "pre-compact": {"trigger": "manual"},
    "post-compact": {"trigger": "manual", "compact_summary": f"They chose. {_LAST_ANSWER}"},
    "session-end": {"reason": "other"},
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
    with tempfile.TemporaryDirectory(prefix="retain-hook-test-") as folder:
        scratch = os.path.realpath(folder)
        root, cwd = place.root, os.getcwd()
        # Without a bank a session is left alone; a file may be of another bank even so.
        is_copied = event == "post-tool-use" or (event in SESSION_EVENTS and place.exists)
        if is_copied:
            root, cwd = _copy_bank(place, scratch), os.path.join(scratch, "project")
            # A hook reads transcripts only where hosts keep them.
            env = {**env, "RETAIN_BANK": root, "CODEX_HOME": scratch, "XDG_STATE_HOME": scratch}
        own = {"session_id": SESSION, "cwd": cwd}  # which no field replaces
        payload: dict[str, Any] = {
            **own,
            "transcript_path": _write_transcript(scratch),
            "hook_event_name": EVENTS[event],
            **_SAMPLES[event],
            **fields,
            **own,
        }
        if "tool_input" in _SAMPLES[event]:
            stated = payload["tool_input"] if isinstance(payload["tool_input"], dict) else {}
            file = file or str(stated.get("file_path") or stated.get("notebook_path") or "")
            path = file or os.path.join(place.root, "decisions", "written-past-retain.json")
            path = os.path.abspath(path)
            if event == "post-tool-use":
                path = _copy_written(path, place.root, root)
            payload["tool_input"] = {**stated, "file_path": path}
        elif file:
            payload["transcript_path"] = os.path.abspath(file)
        start = time.monotonic()
        try:
            answer = respond(event, payload, env, start)
        finally:
            SessionState(place, SESSION, env).delete()
            for category in triage.CATEGORIES:
                stop_message.remove_context(category, SESSION)
        milliseconds = (time.monotonic() - start) * 1000
        proposals = Inbox(root, env).proposals() if is_copied else []
        return Trial(payload, answer, milliseconds, proposals)


def _copy_bank(place: BankLocation, scratch: str) -> str:
    """Make an empty bank with the same settings, and return its root."""
    inside = ".claude/memory" if place.kind == "claude" else ".retain"
    root = os.path.join(scratch, "project", inside)
    os.makedirs(root)
    for name in (FILE, CLAUDE_FILE):
        with contextlib.suppress(OSError):
            shutil.copyfile(os.path.join(place.root, name), os.path.join(root, name))
    return root


def _copy_written(path: str, bank: str, root: str) -> str:
    """Copy the file a tool has written into the copy of its bank; without one, make a sample."""
    real = os.path.realpath(path)
    inside = os.path.relpath(real, bank)
    copy = os.path.join(root, inside)
    if inside.startswith(os.pardir):  # it may be of another bank, where it must stay
        copy = os.path.join(os.path.dirname(root), "elsewhere", os.path.basename(real))
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    if os.path.exists(real):
        shutil.copyfile(real, copy)
    else:
        with open(copy, "w", encoding="utf-8") as file:
            file.write(_NO_MEMORY)
    return copy


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
