"""Whether a bank's chats are part of a repository.

Retain's own `.gitignore` keeps them out. Where git has them all the same, whoever wrote the
repository may have written them, and what is said next goes to everyone who has it.
"""

from __future__ import annotations

import os
import shlex

from retain.errors import RetainError
from retain.git import Repository
from retain.sessions import BESIDE, FILE

__all__ = ["warning"]


def warning(root: str) -> str:
    """What a person should know of a chat file that git tracks; empty if it does not.

    A git that gives no answer stops nobody from talking.
    """
    try:
        tracked = _tracked(root)
    except (RetainError, OSError):
        return ""
    if not tracked:
        return ""
    command = shlex.join(["git", "rm", "--cached", *tracked])
    return (
        f"{FILE} is part of the repository: chats in it may be someone else's, and yours would be "
        f"published. `{command}` takes it out; delete it as well if its chats are not yours."
    )


def _tracked(root: str) -> list[str]:
    """The chat file and what SQLite would read with it, as far as git's index has them."""
    beside = (os.path.join(root, f"{FILE}{ending}") for ending in BESIDE)
    present = [path for path in beside if os.path.lexists(path)]
    # Most banks have no chats, and git need not be started for them.
    repository = Repository.containing(root) if present else None
    if repository is None:
        return []
    files = {repository.relative(path): path for path in present}
    return [files[inner] for inner in repository.staged(files) if inner in files]
