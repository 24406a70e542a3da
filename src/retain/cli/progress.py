"""A progress bar on standard error, for people who watch; nothing is loaded for anyone else."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Bar", "resumable"]


@contextlib.contextmanager
def resumable(note: str) -> Iterator[None]:
    """Say, when a person breaks a long work off, what becomes of what is done."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\n{note}", file=sys.stderr)
        raise


class Bar:
    """Called with how much is done and how much there is; false when nobody watches."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown: Progress | None = None
        self._task: TaskID | None = None

    def __bool__(self) -> bool:
        return sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        """Draw the bar, from the first call on that has something left to wait for."""
        if not self or (self._shown is None and done >= total):
            return
        if self._shown is None:
            self._shown = self._begun(total)
        if self._task is not None:
            self._shown.update(self._task, completed=done, total=total)

    def _begun(self, total: int) -> Progress:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        shown = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = shown.add_task(self._what, total=total)
        shown.start()
        return shown

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown is not None:
            self._shown.stop()
