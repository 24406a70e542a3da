"""A chat's tools in a project of their own, with someone who answers every question."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from retain.app import App
from retain.talk.approval import Answer, Question
from retain.talk.tools import Toolbox

__all__ = ["Box"]


class Box:
    """A toolbox, what was asked, and what is answered."""

    def __init__(self, work: Path, says: str = "once") -> None:
        self.work = work
        self.answer = Answer(says)
        self.asked: list[Question] = []
        self.saved: list[str] = []
        self.before: Callable[[], object] = lambda: None  # done while the person thinks
        self.app = App(cwd=str(work))
        self.doubtful: set[str] = set()
        self.tools = Toolbox(
            self.app,
            str(work),
            ask=self._ask,
            save=self._save,
            is_doubtful=lambda fact, _: fact in self.doubtful,
        )

    async def _ask(self, question: Question) -> Answer:
        self.asked.append(question)
        self.before()
        return self.answer

    def _save(self, fact: str, replaces: str) -> str:
        self.saved.append(f"{fact} for {replaces}" if replaces else fact)
        return f"Memory saved: {fact}"

    def call(self, name: str, /, **given: object) -> tuple[str, bool]:
        return asyncio.run(self.tools.run("call-1", name, given))

    def good(self, name: str, /, **given: object) -> str:
        text, is_error = self.call(name, **given)
        assert not is_error, text
        return text

    def bad(self, name: str, /, **given: object) -> str:
        text, is_error = self.call(name, **given)
        assert is_error, text
        return text


def snapshot(root: Path) -> dict[str, bytes]:
    """Every file below a directory, with its bytes."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            found[str(path)] = b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
    return found
