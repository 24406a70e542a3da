"""Chats written to a new file, in the form that its name or the person asks for."""

from __future__ import annotations

import os

from retain.bank.files import Directory, saving
from retain.errors import Conflict, NotFound, UsageError
from retain.sessions.formats import FORMATS
from retain.sessions.model import Chat


def export(path: str, *chats: Chat, form: str = "") -> None:
    """Write chats to a file that is not there yet; JSON unless its ending or `form` says else."""
    ending = os.path.splitext(path)[1].lower().removeprefix(".")
    data = FORMATS[form or (ending if ending in FORMATS else "json")](*chats)
    folder, name = os.path.split(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory", hint="Name a file in it.")
    if not os.path.isdir(folder):
        raise NotFound(f"there is no directory {folder}", hint="Make it first, or name another.")
    # Put there whole, and never over something that appears in the same moment.
    with saving(path), Directory.open(os.path.realpath(folder)) as place:
        if not place.place(name, data.encode("utf-8", "replace")):
            raise Conflict(
                f"{path} exists already",
                unchanged="Nothing was written.",
                hint="Name a new file.",
            )
