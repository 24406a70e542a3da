"""A bank kept in step with its files while someone works on them, on the kernel's word."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Event
from typing import Final, NamedTuple

from retain.errors import Busy
from retain.notice import Notice
from retain.sync import Changes

__all__ = ["changes"]

_QUIET_SECONDS: Final = 0.05  # how long nothing must happen before it is worth a look
_LONGEST_SECONDS: Final = 1.0  # how long a stream of changes may put the look off
_POLL_SECONDS: Final = 2.0  # where the kernel does not tell
_HEARING_SECONDS: Final = 0.25  # how soon the end is noticed

Look = Callable[[], Changes]
Folders = Callable[[], Sequence[str]]


def changes(
    look: Look, folders: Folders, ended: Event, *, all_events: bool = False
) -> Iterator[Changes]:
    """Look whenever something changed, and yield what each look took in, until `ended` is set.

    With `all_events` also looks that took in nothing: another process, or another thread, may
    have indexed a change already, and whoever shows it has not heard of that.
    """
    watched = _Watched(None, ())
    held, heard = 0, False
    try:
        while not ended.is_set():
            watched = _renewed(watched, folders)
            try:
                found = look()
            except Busy:  # another process is at work: there will be something to see later
                ended.wait(_POLL_SECONDS)
                continue
            if found.any or found.held != held or (all_events and heard):
                yield found
            held = found.held
            watched = watched._replace(notice=_next(watched.notice, ended))
            heard = watched.notice is not None
    finally:
        if watched.notice is not None:
            watched.notice.close()


class _Watched(NamedTuple):
    notice: Notice | None
    folders: Sequence[str]


def _renewed(watched: _Watched, folders: Folders) -> _Watched:
    """A watch on every folder; listed again once it is there, for what was made in between."""
    while True:
        present = folders()
        if watched.notice is not None:
            if present == watched.folders:
                return watched
            watched.notice.close()
        watched = _Watched(Notice.on(present), present)
        if watched.notice is None:
            return watched


def _next(notice: Notice | None, ended: Event) -> Notice | None:
    """Wait until there is something to look at; None when nothing can be heard any more."""
    if notice is None:
        ended.wait(_POLL_SECONDS)
        return None
    while not ended.is_set():
        if notice.wait(_HEARING_SECONDS):
            return notice if _settled(notice) else None
    return notice


def _settled(notice: Notice) -> bool:
    """Wait until whoever writes has paused; false when events were lost."""
    end = time.monotonic() + _LONGEST_SECONDS
    while True:
        if notice.changed() is None:
            notice.close()
            return False
        if not notice.wait(_QUIET_SECONDS) or time.monotonic() > end:
            return True
