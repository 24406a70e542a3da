"""What a session would have remembered goes to the bank's inbox, for a person to look at."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from retain.config import rules
from retain.errors import RetainError
from retain.fsio import Directory
from retain.paths import SUFFIXES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from retain.hooks.call import Call
    from retain.hooks.memo import Memo

__all__ = ["SUMMARY", "propose", "settle"]

SUMMARY: Final = "session_summary"


def propose(call: Call, found: Mapping[str, Any]) -> str:
    """Put one finding into the inbox of the bank in force; why that could not be, in words."""
    from retain.capture import inbox

    place = call.places.place
    if not place.exists:
        return "there is no bank to propose a memory to"
    proposal = inbox.Proposal(
        id="",
        category=str(found.get("category", "")),
        title=str(found.get("title", "")),
        text=str(found.get("text", "")),
        score=float(found.get("score") or 0.0),
        created_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        event=call.event,
        host=_host(call),
        session_id=call.text("session_id"),
        transcript_path=call.text("transcript_path"),
        start=int(found.get("start") or 0),
        end=int(found.get("end") or 0),
        cwd=call.cwd,
    )
    try:
        inbox.propose(place.root, proposal)
    except RetainError as error:
        return error.message
    return ""


def _host(call: Call) -> str:
    """Which program calls: one says so itself, the other gives its plugins a variable."""
    is_codex = "PLUGIN_ROOT" in call.env and "CLAUDECODE" not in call.env
    return "codex" if is_codex or "turn_id" in call.payload else "claude-code"


def settle(call: Call, memo: Memo) -> list[str]:
    """Propose what the agent was asked to save and has not saved; what went wrong, in words.

    What it was to be drafted from is removed.
    """
    asked_at, raised = memo.raised
    if raised:
        from retain.capture import raising

        suffix = raising.suffix(call.text("session_id"))
        for one in raised:
            raising.remove_context(str(one.get("category")), suffix=suffix)
    notes = [
        propose(call, one)
        for one in raised
        if not _is_saved(call, str(one.get("category")), asked_at)
    ]
    saved = any(one.get("category") == SUMMARY for one in raised)
    memo.is_summarised = memo.is_summarised or saved
    memo.raise_now(())
    return [note for note in notes if note]


def _is_saved(call: Call, name: str, since: float) -> bool:
    """Whether a memory of a category was made or changed since a time, by its own word.

    A file may be new only here, with whatever a repository brings. What is proposed once too often
    is seen by a person, and what is not is lost.
    """
    root = call.places.place.root
    category = rules(call.config, root).category(name)
    if category is None:
        return False
    most = call.config.number("memory.max_bytes")
    try:
        with Directory.open(root) as bank, bank.child(category.folder) as folder:
            return any(
                _is_dated(folder, entry.name, since, most)
                for entry in folder.entries()
                # A file system may count time in whole seconds.
                if entry.stat(follow_symlinks=False).st_mtime >= since - 1
            )
    except (RetainError, OSError):
        return False


def _is_dated(folder: Directory, name: str, since: float, most: int) -> bool:
    from retain.codec import codec

    if not name.endswith(SUFFIXES):
        return False
    with contextlib.suppress(RetainError):
        meta = codec(name).parse(folder.read(name, most)).meta
        # Dates are in UTC, to the second at least.
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
        return any(str(meta.get(key) or "") >= start for key in ("updated_at", "created_at"))
    return False
