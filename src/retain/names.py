"""What memories, collections and the files of a bank are called."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping
from typing import Final, NamedTuple

from retain.errors import BadName, UsageError

PROFILES: Final = ("USER.md", "PREFERENCES.md", "MEMORY.md")
APPROVALS: Final = "approvals.json"  # what a person allows a chat to do without asking
SUFFIXES: Final = (".md", ".json")
GLOBAL: Final = "global:"  # before a reference: in the person's own bank, whatever a project has
SCHEMA: Final = ".schema.json"  # of a category of the person's own

MAX_ID_BYTES: Final = 180  # leaves room for a trash timestamp within 255
MAX_COLLECTION_BYTES: Final = 100
MAX_SLUG: Final = 50

_FORBIDDEN: Final = frozenset('/\\:*?"<>|')
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")  # letters without a shape
_RESERVED: Final = frozenset(
    ("con", "prn", "aux", "nul")
    + tuple(f"{port}{digit}" for port in ("com", "lpt") for digit in range(1, 10))
)


class Kind(NamedTuple):
    """How one kind of store lays out its files."""

    name: str
    default_collection: str
    not_memories: tuple[str, ...]
    not_collections: tuple[str, ...]
    listing: str = ""  # the file in which the store lists its records

    def keeps(self, name: str) -> bool:
        """Whether a file of that name at the root is the store's own and no memory."""
        return name in self.not_memories or name.endswith(SCHEMA)


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("retain", "memories", (*PROFILES, APPROVALS), ("skills", "context")),
        Kind("arcaneum", "memories", (), ()),
        Kind("memories", "", (), ("indices",)),
        Kind("claude", "memories", ("index.md", "memory-config.json"), (), "index.md"),
    )
}


def nfc(text: str) -> str:
    """A text in the one form in which equal letters are equal."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", text)


def key(name: str) -> str:
    """The form in which two names are one: what a Mac or a Windows disk would confuse."""
    return nfc(nfc(name).casefold())


def check_id(name: str) -> str:
    """A name that may become a file, in NFC, or BadName with the reason."""
    return _check(name, "id", MAX_ID_BYTES)


def check_collection(name: str) -> str:
    """A name that may become a directory of a bank; empty means the bank's root."""
    return _check(name, "collection", MAX_COLLECTION_BYTES) if name else ""


def _check(name: str, what: str, limit: int) -> str:
    name = nfc(name)
    reason = _fault(name, limit)
    if reason:
        shown = name if len(name) <= 60 else name[:57] + "..."
        raise BadName(
            f"{shown!r} cannot be used as {'an id' if what == 'id' else 'a collection'}: {reason}",
            unchanged="Nothing was changed.",
            hint="Use letters, digits, '-', '_' and '.', for example gpu-patterns.",
        )
    return name


def _fault(name: str, limit: int) -> str:
    """Why a name cannot be used, empty if it can."""
    forbidden = next((char for char in name if char in _FORBIDDEN), "")
    faults = (
        (not name.strip(), "it is empty"),
        (
            not name.isprintable() or not _BLANK.isdisjoint(name),
            "it holds control, invisible or line-breaking characters",
        ),
        (bool(forbidden), f"it holds {forbidden!r}"),
        (
            name[:1] in (".", "-", "~", " ") or name[-1:] in (".", " "),
            "it starts with '.', '-', '~' or a space, or ends with '.' or a space",
        ),
        (name.lower().endswith(SUFFIXES), "it ends like a file's name"),
        ("%2" in name or "%5c" in name.lower(), "it holds an encoded path separator"),
        (
            name.split(".", 1)[0].casefold() in _RESERVED,
            "some systems reserve that name for a device",
        ),
        (len(name.encode("utf-8", "replace")) > limit, f"it is longer than {limit} bytes"),
    )
    return next((reason for is_so, reason in faults if is_so), "")


def split_ref(ref: str, collection: str | None = None) -> tuple[str | None, str]:
    """The collection (None: any) and id that `id`, `id.md`, `collection/id` or `/id` name."""
    head, slash, tail = ref.rpartition("/")
    if tail.endswith(SUFFIXES):
        tail = tail.rpartition(".")[0]
    name = check_id(tail)
    if not slash:
        return (None if collection is None else check_collection(collection)), name
    named = check_collection(head)
    if collection is not None and key(collection) != key(named):
        raise UsageError(f"{ref!r} names the collection {named!r}, --collection {collection!r}")
    return named, name


def slug(text: str) -> str:
    """A file name for a title, readable in its own script; empty if nothing can be used."""
    parts: list[str] = []
    for char in _plain_latin(_plain_latin(text[: 20 * MAX_SLUG]).casefold()):
        is_attached = bool(parts) and parts[-1] != "-"
        if char not in _BLANK and (char.isalnum() or (is_attached and _is_mark(char))):
            parts.append(char)
        elif is_attached:
            parts.append("-")
    name = nfc("".join(parts)).strip("-")[:MAX_SLUG]
    while len(name.encode()) > MAX_ID_BYTES:
        name = name[:-1]
    name = name.strip("-")
    return f"{name}-memory" if name in _RESERVED else name


def _plain_latin(text: str) -> str:
    """Latin letters without their accents; every other script as it is."""
    if text.isascii():
        return text
    parts: list[str] = []
    for char in unicodedata.normalize("NFKD", text):
        if not (parts and parts[-1].isascii() and _is_mark(char)):
            parts.append(char)
    return unicodedata.normalize("NFC", "".join(parts))


def _is_mark(char: str) -> bool:
    if char.isascii():
        return False
    return unicodedata.category(char)[0] == "M"


def memory_id(title: str, body: str) -> str:
    """The id of a memory that was given none: from its title, its heading or its content."""
    from retain.memory import heading  # 2 ms, which a hook that refuses a write does without

    name = slug(title) or slug(heading(body))
    if name:
        return name
    import hashlib  # 3 ms, which most commands can do without

    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def is_inside(path: str, root: str) -> bool:
    """Whether a path is below a directory, links resolved."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), ""))
