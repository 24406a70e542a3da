"""An agent that stops is asked, once, to save what its session has shown to be worth keeping.

What it does not save then goes to the inbox, where everything goes if the person says so.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time

from retain.hooks.call import Answer, Call
from retain.hooks.judging import Judged, judge, stated
from retain.hooks.memo import Memo
from retain.hooks.proposing import propose, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

__all__ = ["answer"]

_FLAG: Final = ".stop_hook_active"
_FLAG_SECONDS: Final = 300
_BLOCKED: Final = 2  # the exit code by which a host keeps its agent at work


def answer(call: Call) -> Answer:
    """Block a stop that would lose something; let every other one pass."""
    if not (call.is_on and call.config.flag("triage.enabled")):
        return Answer()
    memo = Memo.of(call.places.place, call.text("session_id"))
    found = judge(call)
    # Both are asked: the flag must go even where the host keeps count itself.
    was_blocked = _take_flag(call.cwd)
    if was_blocked or call.payload.get("stop_hook_active") is True:
        _tidy(call, memo)
        notes = settle(call, memo)
        if found:  # what an agent says about its saving is no news
            found.close(memo)
        memo.save()
        return Answer(err=_lines(notes))
    if found is None:
        return Answer()
    found.look(memo)
    if not found.hits:
        return Answer()
    found.close(memo)
    if call.config.text("triage.capture") == "inbox":
        notes = [propose(call, stated(hit)) for hit in found.hits]
        memo.save()
        return Answer(err=_lines(notes))
    memo.raise_now(map(stated, found.hits))
    memo.save()
    return _blocked(call, found)


def _tidy(call: Call, memo: Memo) -> None:
    from retain.capture import raising

    suffix = raising.suffix(call.text("session_id"))
    for one in memo.raised[1]:
        raising.remove_context(str(one.get("category")), suffix=suffix)


def _blocked(call: Call, found: Judged) -> Answer:
    from retain.capture import raising

    suffix = raising.suffix(call.text("session_id"))
    files = {hit.category: raising.write_context(hit, suffix=suffix) for hit in found.hits}
    _set_flag(call.cwd)
    return Answer(err=f"{raising.told(found.hits, found.settings, files)}\n", code=_BLOCKED)


def _lines(notes: Sequence[str]) -> str:
    return "".join(f"retain hook: {note}\n" for note in notes if note)


# The flag, by which an agent is asked once in a while only


def _take_flag(cwd: str) -> bool:
    """Whether a stop was blocked just now; the flag is gone afterwards, old or new."""
    path = os.path.join(cwd, ".claude", _FLAG)
    try:
        facts = os.lstat(path)
        os.unlink(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(facts.st_mode) and time.time() - facts.st_mtime < _FLAG_SECONDS


def _set_flag(cwd: str) -> None:
    folder = os.path.join(cwd, ".claude")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError, ValueError):
        if os.path.islink(folder):  # it leads to somebody else's files
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        fd = os.open(os.path.join(folder, _FLAG), flags, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            file.write(f"{time.time()}")
