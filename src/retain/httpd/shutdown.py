"""The end of a server's process: at once, with what is under way given a moment."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn


def leave(cleanup: Callable[[], None], grace: float, code: int = 0) -> NoReturn:
    """Clean up and end now: an interpreter that waits for its threads may wait for ever."""
    cleaner = threading.Thread(target=cleanup, daemon=True)
    cleaner.start()
    cleaner.join(grace)
    end = time.monotonic() + grace / 3
    for thread in threading.enumerate():
        if not thread.daemon and thread is not threading.main_thread():
            thread.join(max(0.0, end - time.monotonic()))
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)
