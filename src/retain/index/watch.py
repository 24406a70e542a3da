"""Changes of a bank's files, as the system tells of them; only a process that stays loads this."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

import watchfiles

from retain.locate import is_network

_POLL_SECONDS: Final = 2.0  # between two looks where nothing can be heard
_LOOK_SECONDS: Final = 60.0  # between two looks where everything should be heard
_STOP_SECONDS: Final = 0.2  # between two looks whether it is over
_log = logging.getLogger(__name__)


class Watcher:
    """A thread that counts the changes of a bank's files."""

    def __init__(self, root: str) -> None:
        self.count = 0  # 0 until every change is heard
        # The disk is a network's, or the system watches too much already: files must be looked at.
        self.is_deaf = False
        self._root = root
        self._process = os.getpid()
        self._ended = threading.Event()
        self._counted = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="retain-watch", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs; a forked process has none."""
        return self._process == os.getpid() and self._thread.is_alive()

    def wait(self, seen: int, ended: threading.Event) -> None:
        """Wait until more than `seen` changes were counted, or it is time to look without that."""
        start = time.monotonic()
        with self._counted:
            while self.count == seen and self.is_alive and not ended.is_set():
                pause = _POLL_SECONDS if self.is_deaf else _LOOK_SECONDS
                left = start + pause - time.monotonic()
                if left <= 0:
                    break
                self._counted.wait(min(left, _STOP_SECONDS))

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self.is_deaf = is_network(self._root)
                if not self.is_deaf:
                    self._listen()
            # The directory is gone, the system watches too much already, or a name is not UTF-8.
            except (OSError, RuntimeError) as error:
                self.is_deaf = True
                _log.debug("%s cannot be watched: %s", self._root, error)
            if self.is_deaf:
                self._ended.wait(_POLL_SECONDS)

    def _listen(self) -> None:
        """Count changes until the directory is replaced by another one."""
        directory, is_first = _identity(self._root), True
        for changes in watchfiles.watch(
            self._root,
            # Trash and versions are in hidden directories.
            watch_filter=lambda _change, path: "/." not in path.removeprefix(self._root),
            debounce=50,  # milliseconds: changes that come together are told together
            step=25,
            stop_event=self._ended,
            rust_timeout=1000,  # how often the bank's own directory is looked at
            yield_on_timeout=True,
            ignore_permission_denied=True,
        ):
            # What happened before the first answer may not have been heard.
            if changes or is_first:
                with self._counted:
                    self.count += 1
                    self._counted.notify_all()
            is_first = False
            if _identity(self._root) != directory:
                break

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self.is_alive:
            self._thread.join()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
