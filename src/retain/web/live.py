"""What happens in the bank, told to every page that is open, within a moment."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from retain.web.office import Office

__all__ = ["Live"]

_MOST_WAITING: Final = 64  # words that one page may be behind; then it is told to look anew
_BREATH_SECONDS: Final = 15.0  # a sign of life, by which a page that is gone is noticed


class Live:
    """A thread that watches the files, and the pages that listen."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pages: set[asyncio.Queue[str]] = set()
        self._is_over = False
        self.at_end: list[Callable[[], None]] = []  # whoever else has pages that listen

    def start(self) -> None:
        """Watch from now on; called where the pages' loop runs."""
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._watch, name="retain-watch", daemon=True).start()

    def _watch(self) -> None:
        for found in self._office.changes():
            counts = {"added": found.added, "changed": found.changed, "removed": found.removed}
            self.tell("memories", counts)

    def tell(self, event: str, data: Mapping[str, object]) -> None:
        """Say something to every page, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            line = f"event: {event}\ndata: {json.dumps(data)}\n\n"
            self._loop.call_soon_threadsafe(self._spread, line)

    def _spread(self, line: str) -> None:
        for page in self._pages:
            if page.qsize() < _MOST_WAITING:
                page.put_nowait(line)

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
