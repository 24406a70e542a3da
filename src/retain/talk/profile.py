"""The files that tell a chat who it talks to: USER.md, PREFERENCES.md and MEMORY.md.

The first two are the person's own and are read as they are; a line is added to USER.md when
someone asks for it. MEMORY.md is kept in step with the facts.
"""

from __future__ import annotations

import contextlib
from typing import Final, NamedTuple

from retain import paths
from retain.app import App
from retain.drafts import Draft
from retain.errors import Conflict, NotFound, RetainError, UsageError
from retain.facts import view
from retain.facts.carrying import Synced
from retain.facts.judging import same_key
from retain.facts.keeping import Facts
from retain.fsio import Directory
from retain.reading import Reader

__all__ = ["Profile", "Text"]

USER: Final = "USER.md"

_TRIES: Final = 50
_HEAD: Final = "# About me\n\n"


class Text(NamedTuple):
    """A profile file of one of the banks in force."""

    name: str
    scope: str
    text: str
    note: str = ""  # why there is no text, where there could be


class Profile:
    """What is known about the person, in the banks of one working directory."""

    def __init__(self, app: App, facts: Facts | None = None) -> None:
        self._app = app
        self.facts = facts or Facts(app)

    def sync(self, *, force: bool = False) -> Synced:
        """Bring MEMORY.md and the facts in step; nearly free when nothing changed."""
        return self.facts.sync(force=force)

    def texts(self) -> list[Text]:
        """The profile files that are there and have something in them, the project's own first."""
        return [
            text
            for opened in self._app.workspace.banks()
            if opened.bank.place.exists
            for name in paths.PROFILES
            if name in opened.bank.kind.not_memories and (text := _read(opened.bank, name))
        ]

    def remember_about_user(self, text: str) -> str:
        """Add a line to USER.md, unless it is there; what was added, without secrets."""
        draft, _ = self._app.gate.admitted(Draft(text=" ".join(text.split())))
        line = draft.text or ""
        if not same_key(line):
            raise UsageError("there is nothing to remember in this text")
        self._app.workspace.make()
        bank = self._app.bank
        if USER not in bank.kind.not_memories:
            raise UsageError(f"{bank.root} is a store of another kind, and has no {USER}")
        for _ in range(_TRIES):
            data = _bytes(bank, USER)
            before = (data or b"").decode("utf-8", "surrogateescape")
            after = _with_line(before, line)
            if after == before:
                return line
            with contextlib.suppress(Conflict):
                bank.rewrite(USER, after.encode("utf-8", "surrogateescape"), data)
                return line
        raise Conflict(f"{USER} is being written to all the time", unchanged="It was left alone.")


def _read(bank: Reader, name: str) -> Text | None:
    """A profile file, None where there is nothing to say about it."""
    try:
        data = _bytes(bank, name)
    except RetainError as error:
        return Text(name, bank.place.scope, "", error.message)
    text = (data or b"").decode("utf-8-sig", "replace")
    return Text(name, bank.place.scope, text) if text.strip() else None


def _bytes(bank: Reader, name: str) -> bytes | None:
    with contextlib.suppress(NotFound), Directory.open(bank.root) as root:
        return root.read(name, bank.max_bytes)
    return None


def _with_line(text: str, line: str) -> str:
    """A text with a bullet at its end; what is there stays as it is, to the byte."""
    page = view.page(text)
    if any(same_key(item.text) == same_key(line) for item in page.items):
        return text
    new, end = page.newline, "" if not text or text.endswith(("\n", "\r")) else page.newline
    if page.is_blank:
        return f"{text}{_HEAD.replace(chr(10), new) if not text.strip() else ''}- {line}{new}"
    is_list = bool(page.items) and page.items[-1].end == len(page.lines)
    return f"{text}{end}{'' if is_list else new}- {line}{new}"
