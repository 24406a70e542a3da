"""What happens in the bank, told to every page that is open, within a moment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from retain.capture.inbox import Inbox
from retain.errors import RetainError
from retain.httpd.logging import describe, log_fault
from retain.web.bank_pool import HERE, OWN, BankPool

_MOST_WAITING: Final = 64  # words that one page may be behind; each says "look", so one is enough
_MOST_PAGES: Final = 100  # fewer than the connections of a server, so that others are still served
_GLANCE_SECONDS: Final = 0.5  # between two looks at inboxes and chats: a system call for each file
_AGAIN_SECONDS: Final = 5.0  # after a fault, until the watch goes on
_BREATH_SECONDS: Final = 15.0  # a sign of life, by which a page that is gone is noticed


class Live:
    """A thread that watches the files, and the pages that listen."""

    def __init__(self, banks: BankPool, *, again: float = _AGAIN_SECONDS) -> None:
        self._banks, self._again = banks, again
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pages: set[asyncio.Queue[str]] = set()
        self._is_over = False
        # Goes up with every word: a page that was made before it has missed something.
        self.count = time.time_ns()
        self.at_end: list[Callable[[], None]] = []  # whoever else has pages that listen

    def start(self) -> None:
        """Watch from now on; called where the pages' loop runs."""
        self._loop = asyncio.get_running_loop()
        for scope in (HERE, OWN):
            self._begin(f"retain-watch-{scope}", partial(self._watch, scope))
        self._begin("retain-watch-others", self._watch_others)

    def _begin(self, name: str, watch: Callable[[], None]) -> None:
        threading.Thread(target=self._keep, args=(watch,), name=name, daemon=True).start()

    def _keep(self, watch: Callable[[], None]) -> None:
        """Watch until it ends by itself; a fault is logged, once, and then it goes on."""
        known = ""
        while not self._banks.ended.is_set():
            try:
                watch()
                break
            except RetainError:
                pass  # no bank that could be opened, so far
            except Exception as error:  # noqa: BLE001 - else open pages would hear nothing more
                # What comes while everything is closed is no fault.
                if not self._banks.ended.is_set() and describe(error) != known:
                    known = describe(error)
                    log_fault(error, "watching for changes")
            self._banks.ended.wait(self._again)

    def _watch(self, scope: str) -> None:
        if scope == OWN and self._banks.is_one:
            return  # nobody needs to hear everything twice
        for found in self._banks.changes(scope):
            counts = {"added": found.added, "changed": found.changed, "removed": found.removed}
            self.tell("memories", counts)

    def _watch_others(self) -> None:
        """Tell of proposals and chats, whoever changes them: with them a folder or a file does."""
        roots: list[str] = []
        proposals, chats = _Glance(_proposals), _Glance(_chats)
        while not self._banks.ended.wait(_GLANCE_SECONDS):
            with contextlib.suppress(RetainError):  # no bank that could be opened, so far
                roots = roots or self._banks.roots()
                if proposals.is_other(roots):
                    count = sum(Inbox(root, os.environ).count() for root in roots)
                    self.tell("inbox", {"count": count})
                if chats.is_other([self._banks.chats()]):
                    self.tell("sessions", {})

    def tell(self, event: str, data: Mapping[str, object]) -> None:
        """Say something to every page, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            line = f"event: {event}\ndata: {json.dumps(data)}\n\n"
            self._loop.call_soon_threadsafe(self._spread, line)

    def _spread(self, line: str) -> None:
        self.count += 1
        for page in self._pages:
            if page.qsize() < _MOST_WAITING:
                page.put_nowait(line)

    @property
    def is_full(self) -> bool:
        """Whether so many pages listen that one more would be at the cost of others."""
        return len(self._pages) >= _MOST_PAGES

    def close(self) -> None:
        """Let every page go, so that nobody waits for them at the end."""
        self._is_over = True
        for page in self._pages:
            page.put_nowait("")
        for end in self.at_end:
            end()

    async def listen(self) -> AsyncIterator[str]:
        """The words for one page, for as long as it listens."""
        page: asyncio.Queue[str] = asyncio.Queue()
        self._pages.add(page)
        try:
            # By the count a page sees that something was told after it was made, and before this.
            yield f"retry: 2000\nevent: count\ndata: {self.count}\n\n"
            while not self._is_over:
                try:
                    line = await asyncio.wait_for(page.get(), _BREATH_SECONDS)
                except TimeoutError:
                    line = ": still here\n\n"
                if line:
                    yield line
        finally:
            self._pages.discard(page)


class _Glance:
    """Whether something is another than at the last look; at the first, nobody knows."""

    def __init__(self, look: Callable[[str], object]) -> None:
        self._look = look
        self._seen: list[object] = []

    def is_other(self, roots: Sequence[str]) -> bool:
        before, self._seen = self._seen, list(map(self._look, roots))
        return self._seen != before


def _proposals(root: str) -> object:
    """What changes with every file that comes into an inbox or leaves it."""
    return _stamp(Inbox(root, os.environ).path)


def _chats(path: str) -> object:
    """What changes with every word that is written to the chats, be it only to the log so far."""
    return [_stamp(f"{path}{ending}") for ending in ("", "-wal")]


def _stamp(path: str) -> tuple[int, int]:
    """When something was changed last; nothing where it is empty, for a reader leaves that too."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return (found.st_mtime_ns, found.st_size) if found.st_size else (0, 0)
