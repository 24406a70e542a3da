"""What a bank's things are called on a server that others use as well."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from typing import Final

from retain.errors import ConfigError

_FOLDER: Final = ".retain"
_PLAIN: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,22}[a-z0-9])?")
_ELSE: Final = re.compile(r"[^a-z0-9]+")
_SHORT: Final = 14  # characters of a name that is no plain one; its digest makes it certain


def is_identity(name: str) -> bool:
    """Whether a bank may be called so: letters, digits and dashes, as every server takes them."""
    # Else one bank's names could begin like another's.
    return _PLAIN.fullmatch(name) is not None and "-retain-" not in f"-{name}-"


def banks(said: str) -> list[tuple[str, str]]:
    """The banks that a person has named, as `engine.banks` has them: each name with a path."""
    found: dict[str, str] = {}
    for part in filter(None, map(str.strip, said.split(","))):
        name, _, path = map(str.strip, part.partition("="))
        path = os.path.expanduser(path)
        if not is_identity(name):
            raise _unclear(part, "A name is of small letters, digits and single dashes.")
        # A path from where one happens to be would give any repository the name of this bank.
        if not os.path.isabs(path) or ";" in path:
            raise _unclear(part, "A path begins with / or ~, and a comma parts two banks.")
        where = _bank_at(path)
        if where in found:
            raise _unclear(part, f"That bank is called {found[where]} already.")
        found[where] = name
    return [(name, path) for path, name in found.items()]


def _unclear(part: str, why: str) -> ConfigError:
    example = "Write name=/path/to/bank, for example team-notes=~/work/app/.retain"
    return ConfigError(f"engine.banks is not understood at {part[:80]!r}", hint=f"{why} {example}")


def _bank_at(path: str) -> str:
    """A bank's own folder, also where a person names the project around it."""
    within = os.path.join(path, _FOLDER)
    # A folder of that name inside a bank is a repository's own, and changes no bank's name.
    is_project = os.path.basename(os.path.normpath(path)) != _FOLDER and os.path.isdir(within)
    return standing(within if is_project else path)


def standing(path: str) -> str:
    """Where something stands, links on the way resolved, but not what it leads to itself.

    A repository's `.retain` may be a link to the person's own bank, which must not get the name of
    a team's by that.
    """
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(folder), name)


class Names:
    """The names of one bank: `{identity}-retain-{collection}`, in at most 63 characters."""

    def __init__(self, identity: str) -> None:
        if not is_identity(identity):
            raise ValueError(identity)
        self.prefix = f"{identity}-retain-"
        self._space = uuid.uuid5(uuid.NAMESPACE_URL, f"retain:{identity}")

    def of(self, collection: str) -> str:
        """What a collection is called; a name that some server would not take gets a digest."""
        # What ends like a digest gets one of its own, or another name's could be guessed.
        if _PLAIN.fullmatch(collection) and not re.search(r"-[0-9a-f]{8}$", collection):
            return self.prefix + collection
        digest = hashlib.sha256(collection.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        readable = _ELSE.sub("-", collection.lower()).strip("-")[:_SHORT].strip("-")
        return f"{self.prefix}{readable or 'root'}-{digest}"

    def piece(self, memory: str, place: int) -> str:
        """The id of a piece, the same on every machine."""
        return str(uuid.uuid5(self._space, f"{memory}#{place}"))
