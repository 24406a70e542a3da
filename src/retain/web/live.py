"""What happens in the bank, told to every page that is open, within a moment."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Final

from retain.capture import inbox
from retain.errors import RetainError
from retain.httpd.faults import described, log_fault
from retain.web.office import HERE, OWN, Office

__all__ = ["Live"]

_MOST_WAITING: Final = 64  # words that one page may be behind; each says "look", so one is enough
_MOST_PAGES: Final = 100  # fewer than the connections of a server, so that others are still served
_INBOX_SECONDS: Final = 0.5  # between two looks at the inboxes: one system call each
_AGAIN_SECONDS: Final = 5.0  # after a fault, until the watch goes on
_BREATH_SECONDS: Final = 15.0  # a sign of life, by which a page that is gone is noticed


class Live:
    """A thread that watches the files, and the pages that listen."""

    def __init__(self, office: Office, *, again: float = _AGAIN_SECONDS) -> None:
        self._office, self._again = office, again
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pages: set[asyncio.Queue[str]] = set()
        self._is_over = False
        self.at_end: list[Callable[[], None]] = []  # whoever else has pages that listen

    def start(self) -> None:
        """Watch from now on; called where the pages' loop runs."""
        self._loop = asyncio.get_running_loop()
        for scope in (HERE, OWN):
            self._begin(f"retain-watch-{scope}", partial(self._watch, scope))
        self._begin("retain-inbox", self._watch_inboxes)

    def _begin(self, name: str, watch: Callable[[], None]) -> None:
        threading.Thread(target=self._keep, args=(watch,), name=name, daemon=True).start()

    def _keep(self, watch: Callable[[], None]) -> None:
        """Watch until it ends by itself; a fault is logged, once, and then it goes on."""
        known = ""
        while not self._office.ended.is_set():
            try:
                watch()
                break
            except RetainError:
                pass  # no bank that could be opened, so far
            except Exception as error:  # noqa: BLE001 - else open pages would hear nothing more
                # What comes while everything is closed is no fault.
                if not self._office.ended.is_set() and described(error) != known:
                    known = described(error)
                    log_fault(error, "watching for changes")
            self._office.ended.wait(self._again)

    def _watch(self, scope: str) -> None:
        if scope == OWN and self._office.is_one:
            return  # nobody needs to hear everything twice
        for found in self._office.changes(scope):
            counts = {"added": found.added, "changed": found.changed, "removed": found.removed}
            self.tell("memories", counts)

    def _watch_inboxes(self) -> None:
        """Tell when a proposal comes or goes: whichever way that happens, its folder changes."""
        roots: list[str] = []
        seen: list[int] = []
        while not self._office.ended.wait(_INBOX_SECONDS):
            with contextlib.suppress(RetainError):  # no bank that could be opened, so far
                roots = roots or self._office.roots()
                now = list(map(_stamp, roots))
                if seen and now != seen:
                    self.tell("inbox", {"count": sum(map(inbox.count, roots))})
                seen = now

    def tell(self, event: str, data: Mapping[str, object]) -> None:
        """Say something to every page, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            line = f"event: {event}\ndata: {json.dumps(data)}\n\n"
            self._loop.call_soon_threadsafe(self._spread, line)

    def _spread(self, line: str) -> None:
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
            yield "retry: 2000\n\n"
            while not self._is_over:
                try:
                    line = await asyncio.wait_for(page.get(), _BREATH_SECONDS)
                except TimeoutError:
                    line = ": still here\n\n"
                if line:
                    yield line
        finally:
            self._pages.discard(page)


def _stamp(root: str) -> int:
    """What changes with every file that comes into an inbox or leaves it; 0 before the first."""
    try:
        return os.stat(os.path.join(root, inbox.FOLDER)).st_mtime_ns
    except OSError:
        return 0
