"""The contract of an engine: a server that holds a copy of one arm of a bank's index.

An engine holds documents, one for each chunk of a memory. A document never changes: its id is a
digest of all that it says. So putting one twice changes nothing, several machines may fill one
copy, and a copy is right when its ids are those of the index. What an engine finds counts only
where the local index knows its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from retain.errors import RetainError

if TYPE_CHECKING:
    from retain.index.vectors import Floats


class EngineError(RetainError):
    """An engine could not do what it was asked; the files and the local index are as they were."""

    code = "engine"
    usually_unchanged = "The memories and the bank's own index are as they were."
    usual_hint = "`retain engine status` shows how it is."

    def __init__(
        self, message: str, *, words: str = "", unchanged: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, unchanged=unchanged, hint=hint)
        # What the server said: a stranger's words, which an agent must never take for Retain's.
        self.words = words


class EngineDown(EngineError):
    """It did not answer, not in time, or had trouble of its own: worth another try later."""

    code = "engine-down"


class EngineRefused(EngineError):
    """It answered, and trying again will not help: a wrong key, version, dimension, or no room."""

    code = "engine-refused"


class Document(NamedTuple):
    """One chunk as an engine holds it."""

    id: str  # a UUID made from all the rest
    collection: str
    type: str
    status: str
    tags: tuple[str, ...]  # in lower case
    created: float  # seconds, 0 where nothing is known
    vector: Floats | None = None  # of length 1; for a vector engine
    terms: str = ""  # cut and stemmed, parted by spaces; for a text engine

    def fields(self, spell: Callable[[str], str] = str) -> dict[str, Any]:
        """What searches are narrowed by, each value as a server takes it."""
        return {
            "collection": spell(self.collection),
            "type": spell(self.type),
            "status": spell(self.status),
            "tags": [spell(tag) for tag in self.tags],
            "created": float(self.created),
        }


class Filter(NamedTuple):
    """What documents must be to be found; what is empty sets no condition."""

    collections: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # any of them, in lower case
    statuses: tuple[str, ...] = ()
    without_statuses: tuple[str, ...] = ()
    since: float | None = None  # a document without a date passes neither of these
    until: float | None = None

    @property
    def wanted(self) -> dict[str, tuple[str, ...]]:
        """The fields that must have one of some values, with these."""
        fields = ("collection", "type", "tags", "status")
        values = (self.collections, self.types, self.tags, self.statuses)
        return {field: some for field, some in zip(fields, values, strict=True) if some}


class Match(NamedTuple):
    """A document that was found."""

    id: str
    score: float


class Engine(Protocol):
    """What every engine can do, for one bank; all of it may be done again without harm.

    No more than a thousand documents are put or deleted at once.
    """

    def version(self) -> str:
        """The server's version."""

    def put(self, documents: Sequence[Document]) -> None:
        """Store documents, and first make what they are stored in; they are found from then on."""

    def delete(self, ids: Sequence[str]) -> None:
        """Remove documents; those that are not there are no fault."""

    def ids(self) -> Iterator[str]:
        """The ids of all documents."""

    def count(self) -> int:
        """How many documents there are."""

    def drop(self, *, others: bool = False) -> int:
        """Remove all documents of this bank, with `others` only other models'; how many."""

    def close(self) -> None:
        """Let go of connections."""


class VectorEngine(Engine, Protocol):
    """An engine that finds by meaning."""

    def nearest(self, vector: Floats, where: Filter, limit: int) -> list[Match]:
        """The documents whose vectors have the highest product with this one, best first."""


class TextEngine(Engine, Protocol):
    """An engine that finds by words."""

    def matching(self, terms: Mapping[str, float], where: Filter, limit: int) -> list[Match]:
        """The documents that have these terms, each worth its weight, best first."""
