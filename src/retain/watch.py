"""A bank kept in step with its files while someone works on them, on the kernel's word."""

from __future__ import annotations

import contextlib
import os
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
_Stamps = dict[str, tuple[int, int, int]]


def changes(
    look: Look, folders: Folders, ended: Event, *, all_events: bool = False
) -> Iterator[Changes]:
    """Look whenever something changed, and yield what each look took in, until `ended` is set.

    With `all_events` also looks that took in nothing: another process, or another thread, may
    have indexed a change already, and whoever shows it has not heard of that. The first look is
    one of them, for nobody knows what happened before it.
    """
    watched = _Watched(None, ())
    held, heard = 0, True
    seen: _Stamps = {}
    try:
        while not ended.is_set():
            watched = _renewed(watched, folders)
            if all_events and watched.notice is None:
                before, seen = seen, _stamps(watched.folders)
                heard = heard or seen != before
            try:
                found = look()
            except Busy:  # another process is at work: there will be something to see later
                ended.wait(_POLL_SECONDS)
                continue
            if found.any or found.held != held or (all_events and heard):
                yield found
            held = found.held
            heard = _heard(watched.notice, ended)
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
            if present == watched.folders and not watched.notice.is_lost:
                return watched
            watched.notice.close()
        watched = _Watched(Notice.on(present), present)
        if watched.notice is None:
            return watched


def _stamps(folders: Sequence[str]) -> _Stamps:
    """What changes with every file that is written, where no kernel tells of it."""
    found: _Stamps = {}
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    found[entry.path] = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
    return found


def _heard(notice: Notice | None, ended: Event) -> bool:
    """Wait until it is time to look; whether the kernel told of something, or lost count."""
    if notice is None:
        ended.wait(_POLL_SECONDS)
        return False
    while not ended.is_set():
        if notice.wait(_HEARING_SECONDS):
            _settle(notice)
            return True
    return False


def _settle(notice: Notice) -> None:
    """Wait until whoever writes has paused; where events were lost, there will be a new watch."""
    end = time.monotonic() + _LONGEST_SECONDS
    while notice.changed() is not None:
        if not notice.wait(_QUIET_SECONDS) or time.monotonic() > end:
            return
