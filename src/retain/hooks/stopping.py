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
    from typing import Final

__all__ = ["answer"]

_FLAG: Final = ".stop_hook_active"
_SECONDS: Final = 300  # for which a stop that was blocked is remembered
_BLOCKED: Final = 2  # the exit code by which a host keeps its agent at work


def answer(call: Call) -> Answer:
    """Block a stop that would lose something; let every other one pass."""
    if not (call.is_on and call.config.flag("triage.enabled")):
        return Answer()
    memo = Memo.of(call.places.place, call.text("session_id"), call.env)
    found = judge(call)
    asked_at, asked = memo.raised
    is_again = _is_again(call, asked_at)
    notes = settle(call, memo) if asked else []
    if found and asked and is_again and _is_saving(call, found, memo):
        found.close(memo)  # what an agent says about its saving is no news
    elif found and (asked or not is_again):
        found.look(memo)
    if found is None or not found.hits:
        memo.save()
        return Answer.noting(notes)
    found.close(memo)
    if is_again or call.config.text("triage.capture") == "inbox":
        notes += [propose(call, stated(hit)) for hit in found.hits]
        memo.save()
        return Answer.noting(notes)
    memo.raise_now(map(stated, found.hits))
    memo.save()
    return _blocked(call, found)


def _is_again(call: Call, asked_at: float) -> bool:
    """Whether this session was kept from stopping just now, and so is not again.

    By the host's word or by the memo. The flag in the project, which may be another session's,
    counts for a session without a name alone; it goes whoever finds it.
    """
    is_flagged = _take_flag(call.cwd) and not call.text("session_id")
    is_recent = 0 <= time.time() - asked_at < _SECONDS
    return is_flagged or is_recent or call.payload.get("stop_hook_active") is True


def _is_saving(call: Call, found: Judged, memo: Memo) -> bool:
    """Whether all that was said since a block is about saving: nobody has asked for more."""
    return call.payload.get("stop_hook_active") is True or not found.is_asked(memo)


def _blocked(call: Call, found: Judged) -> Answer:
    from retain.capture import raising

    suffix = raising.suffix(call.text("session_id"))
    files = {
        hit.category: raising.write_context(hit, suffix=suffix)
        for hit in found.hits
        if not call.is_late()
    }
    _set_flag(call.cwd)
    return Answer(err=f"{raising.told(found.hits, found.settings, files)}\n", code=_BLOCKED)


# The flag, by which an agent is asked once in a while only


def _take_flag(cwd: str) -> bool:
    """Whether a stop was blocked just now; the flag is gone afterwards, old or new."""
    path = os.path.join(cwd, ".claude", _FLAG)
    try:
        if os.path.islink(os.path.dirname(path)):
            return False
        facts = os.lstat(path)
        os.unlink(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(facts.st_mode) and time.time() - facts.st_mtime < _SECONDS


def _set_flag(cwd: str) -> None:
    folder = os.path.join(cwd, ".claude")
    # Only where there is none: what a stranger has put there is neither emptied nor waited for.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError, ValueError):
        if os.path.islink(folder):  # it leads to somebody else's files
            return
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        fd = os.open(os.path.join(folder, _FLAG), flags, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            file.write(f"{time.time()}")
