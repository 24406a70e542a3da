"""Try a hook: a made-up event, answered by the real hook in its own process.

What only reads meets the bank in force. What would propose, block or put something aside meets an
empty bank with the same settings, which is gone afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.capture import stop_message, triage
from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal
from retain.config import FILE
from retain.errors import NotFound
from retain.foreign import CLAUDE_FILE
from retain.hooks import EVENTS, respond
from retain.hooks.session_state import SessionState
from retain.locate import BankLocation

SESSION: Final = "retain-hook-test"

_READING: Final = ("session-start", "user-prompt-submit", "pre-tool-use")
_OUT_OF_TIME: Final = "There was no time: with more than hooks.deadline_ms it has an answer."
_LONG_DEADLINE: Final = "10000"  # milliseconds
_TIMEOUT: Final = 30  # seconds
_NO_MEMORY: Final = '{"category": "decision", "title": "Written past Retain"}\n'
_FIRST_ANSWER: Final = (
    "I compared both and chose Postgres, because several processes write at once.\n"
    "SQLite was the other candidate: simpler, but a single writer."
)
_LAST_ANSWER: Final = "We decided on Postgres over SQLite because one writer is not enough."
_SUMMARY: Final = (
    "The database was chosen: Postgres, because one writer is not enough. The schema is moved; "
    "the backups are next."
)
_TOOLS: Final = ("Read", "Grep", "Edit", "Bash", "Read", "Edit", "Write", "Bash")
_TOOL_CALL: Final[Mapping[str, object]] = {
    "tool_name": "Write",
    "tool_input": {"content": _NO_MEMORY},
    "tool_use_id": "toolu_retain_hook_test",
}
# What Claude Code sends with each event, besides what it sends with all of them.
_SAMPLES: Final[Mapping[str, Mapping[str, object]]] = {
    "session-start": {"source": "startup"},
    "user-prompt-submit": {"prompt": "What did we decide about the database?"},
    "pre-tool-use": _TOOL_CALL,
    "post-tool-use": {**_TOOL_CALL, "tool_response": {"type": "create"}, "duration_ms": 7},
    "stop": {
        "stop_hook_active": False,
        "last_assistant_message": _LAST_ANSWER,
        "background_tasks": [],
    },
    "pre-compact": {"trigger": "manual", "custom_instructions": None},
    "post-compact": {"trigger": "manual", "compact_summary": _SUMMARY},
    "session-end": {"reason": "other"},
}


class Trial(NamedTuple):
    """What a hook was sent, what it answered, and how long its process took."""

    event: str
    payload: Mapping[str, object]
    code: int
    milliseconds: float
    out: str
    err: str
    proposals: Sequence[Proposal]
    reason: str = ""  # why it said that, or nothing; empty when that is not known


def run_trial(
    event: str,
    place: BankLocation,
    env: Mapping[str, str],
    fields: Mapping[str, object],
    *,
    is_named: bool = False,
    file: str = "",
) -> Trial:
    """Answer one event about a bank; `fields` replace parts of the made-up payload."""
    state = SessionState(place, SESSION, env)
    state.delete()
    try:
        with tempfile.TemporaryDirectory(prefix="retain-hook-test-") as folder:
            scratch = os.path.realpath(folder)
            root, cwd = place.root, os.getcwd()
            more = {"RETAIN_BANK": root} if is_named else {}
            if event not in _READING:
                root, cwd, more = _copy_bank(place, scratch)
            own = {"session_id": SESSION, "cwd": cwd}  # which no field replaces
            payload: dict[str, Any] = {
                "session_id": SESSION,
                "transcript_path": _write_transcript(scratch),
                "cwd": cwd,
                "permission_mode": "default",
                "hook_event_name": EVENTS[event],
                **_SAMPLES[event],
                **fields,
                **own,
            }
            if event in ("pre-tool-use", "post-tool-use"):
                stated = payload["tool_input"] if isinstance(payload["tool_input"], dict) else {}
                file = file or str(stated.get("file_path") or stated.get("notebook_path") or "")
                path = os.path.join(root, "decisions", "written-past-retain.json")
                if event == "post-tool-use":
                    path = _copy_written(file, place.root, root, path)
                elif file:
                    path = os.path.abspath(file)
                payload["tool_input"] = {**stated, "file_path": path}
            elif file:
                payload["transcript_path"] = os.path.abspath(file)
            return _run(event, payload, {**env, **more}, state, "" if event in _READING else root)
    finally:
        state.delete()
        for category in triage.CATEGORIES:
            stop_message.remove_context(category, SESSION)


def _run(
    event: str,
    payload: Mapping[str, object],
    env: Mapping[str, str],
    state: SessionState,
    root: str,
) -> Trial:
    """Call the hook; `root` is the copy of the bank whose inbox tells what was proposed."""
    start = time.perf_counter()
    process = subprocess.run(
        # -P: a module in the project must not take the place of one of ours.
        [sys.executable, "-P", "-m", "retain", "hook", event],
        input=json.dumps(payload).encode(),
        env={**env},
        cwd=str(payload["cwd"]),
        capture_output=True,
        timeout=_TIMEOUT,
        check=False,
    )
    milliseconds = (time.perf_counter() - start) * 1000
    out, err = (text.decode(errors="replace") for text in (process.stdout, process.stderr))
    proposals = Inbox(root, env).proposals() if root else []
    is_silent, reason = not (out.strip() or err.strip() or proposals), ""
    if is_silent or not root:
        # The same question asked again, with time enough: a process tells no reasons.
        state.delete()
        patient = {**env, "RETAIN_HOOKS_DEADLINE_MS": _LONG_DEADLINE}
        answer = respond(event, payload, patient, time.monotonic())
        has_answer = answer.out or answer.err or (root and Inbox(root, env).count())
        reason = _OUT_OF_TIME if is_silent and has_answer else answer.reason
    return Trial(event, payload, process.returncode, milliseconds, out, err, proposals, reason)


def _copy_bank(place: BankLocation, scratch: str) -> tuple[str, str, dict[str, str]]:
    """An empty bank with the same settings: its root, a working directory, the environment."""
    cwd = os.path.join(scratch, "project")
    root = os.path.join(cwd, *((".claude", "memory") if place.kind == "claude" else (".retain",)))
    os.makedirs(root)
    for name in (FILE, CLAUDE_FILE):
        with contextlib.suppress(OSError):
            shutil.copyfile(os.path.join(place.root, name), os.path.join(root, name))
    # A hook reads transcripts only where hosts keep them.
    where = {"RETAIN_BANK": root, "CODEX_HOME": scratch, "XDG_STATE_HOME": f"{scratch}/state"}
    return root, cwd, where


def _copy_written(file: str, bank: str, copy: str, path: str) -> str:
    """Copy the file a tool has written into the copy of its bank; without one, write a sample."""
    if file:
        real = os.path.realpath(file)
        inside = os.path.relpath(real, bank)
        path = os.path.join(copy, inside)
        if inside.startswith(os.pardir):  # it may be of another bank, where it must stay
            path = os.path.join(os.path.dirname(copy), "elsewhere", os.path.basename(real))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not file:
        with open(path, "w", encoding="utf-8") as sample:
            sample.write(_NO_MEMORY)
        return path
    try:
        shutil.copyfile(real, path)
    except OSError as error:
        hint = "--file takes the path of a file that is there."
        raise NotFound(f"{file} cannot be read: {error.strerror}", hint=hint) from error
    return path


def _write_transcript(scratch: str) -> str:
    """A session that decides something, as a host writes it down."""
    turns: list[tuple[str, object, str]] = [
        ("user", "We need a database for the new service. Please choose one.", "")
    ]
    for number, name in enumerate(_TOOLS):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "ok"}
        turns += [("assistant", [use], f"msg_{number}"), ("user", [result], "")]
    turns += [
        ("assistant", [{"type": "text", "text": _FIRST_ANSWER}], "msg_first"),
        ("user", "Good. Write down why.", ""),
        ("assistant", [{"type": "text", "text": _LAST_ANSWER}], "msg_last"),
    ]
    path = os.path.join(scratch, f"{SESSION}.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for role, content, answer in turns:
            message = {"role": role, "content": content, **({"id": answer} if answer else {})}
            line = {"type": role, "isSidechain": False, "sessionId": SESSION, "message": message}
            file.write(f"{json.dumps(line)}\n")
    return path
