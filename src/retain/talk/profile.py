"""The files that tell a chat who it talks to: USER.md, PREFERENCES.md and MEMORY.md.

The first two are the person's own and are read as they are. MEMORY.md is kept in step with the
facts.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from retain.app import App
from retain.bank.bank import Bank
from retain.bank.files import Directory
from retain.errors import NotFound, RetainError
from retain.facts.known import Known
from retain.facts.store import Synced
from retain.memory import PROFILES


class Text(NamedTuple):
    """A profile file of one of the banks in force."""

    name: str
    scope: str
    text: str
    note: str = ""  # why there is no text, where there could be


class Profile:
    """What is known about the person, in the banks of one working directory."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.facts = Known(app)

    def sync(self, *, force: bool = False) -> Synced:
        """Bring MEMORY.md and the facts in step, of each bank; nearly free if nothing changed."""
        return self.facts.sync(force=force)

    def texts(self) -> list[Text]:
        """The profile files that are there and have something in them, the project's own first."""
        return [
            text
            for bank in self._app.readable()
            if bank.location.exists
            for name in PROFILES
            if name in bank.kind.not_memories and (text := _read(bank, name))
        ]


def _read(bank: Bank, name: str) -> Text | None:
    """A profile file, None where there is nothing to say about it."""
    try:
        data = _bytes(bank, name)
    except RetainError as error:
        return Text(name, bank.location.scope, "", error.message)
    text = (data or b"").decode("utf-8-sig", "replace")
    return Text(name, bank.location.scope, text) if text.strip() else None


def _bytes(bank: Bank, name: str) -> bytes | None:
    with contextlib.suppress(NotFound), Directory.open(bank.root) as root:
        return root.read(name, bank.max_bytes)
    return None
