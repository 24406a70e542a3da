"""What an engine holds and what it can be asked: the one contract that every adapter keeps.

An engine holds *pieces*: one for each chunk of a memory, with what a search is narrowed by. It
knows nothing of files. What it answers is looked up in the local index, so it can never show a
memory that is not there, nor a text that is no longer so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from retain.errors import RetainError

if TYPE_CHECKING:
    from retain.index.vectors import Floats


GRAVE: Final = -1  # the place of the piece that says: this memory was deleted, and when


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
    """It did not answer, or not in time, or said that something is wrong with itself: try later."""

    code = "engine-down"


class EngineRefused(EngineError):
    """It answered, and trying again will not help: a wrong key, version, dimension, or no room."""

    code = "engine-refused"


class EngineLocked(EngineRefused):
    """It wants another key, or any: who knows where keys come from says which to set."""

    code = "engine-locked"


class EngineAbsent(EngineRefused):
    """It answered that what was asked about is not there."""

    code = "engine-absent"


class EngineUnfit(EngineRefused):
    """It is made for vectors of another length than these: another model's."""

    code = "engine-unfit"


class Piece(NamedTuple):
    """One chunk as an engine holds it."""

    id: str  # a UUID that follows from the bank, the memory and the place
    memory: str  # collection/file
    place: int  # among the chunks of its memory, from 0; GRAVE for a deleted memory's only piece
    pieces: int  # of its memory
    collection: str
    type: str
    status: str
    tags: tuple[str, ...]  # in lower case
    created: float  # seconds, 0 where nothing is known
    hash: str  # of the memory's whole file
    written: float  # when that was last written, in seconds
    digest: str  # of the text that the vector was made from
    model: str = ""  # that made the vector
    vector: Floats | None = None  # of the chunk with its neighbours, of length 1
    terms: str = ""  # cut and stemmed, parted by spaces


class Held(NamedTuple):
    """What an engine holds of one memory."""

    memory: str
    hash: str
    written: float
    pieces: int  # that it should have
    found: int  # that are there
    model: str = ""

    @property
    def is_whole(self) -> bool:
        return self.found == self.pieces

    @property
    def is_grave(self) -> bool:
        """Whether this says that the memory was deleted."""
        return not self.hash


def wins(hash_: str, written: float, held: Held | None) -> bool:
    """Whether a version of a memory takes the place of what is held: the last writer does.

    Where two wrote in the same moment the hash decides, so that every machine decides alike.
    """
    return held is None or (written, hash_) > (held.written, held.hash)


class Sieve(NamedTuple):
    """What pieces must be to be found; what is empty sets no condition."""

    collections: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # any of them, in lower case
    statuses: tuple[str, ...] = ()
    without_statuses: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None


class Match(NamedTuple):
    """A piece that was found."""

    memory: str
    place: int
    digest: str
    score: float


class Arm(Protocol):
    """What every engine can do. All of it may be done again without harm."""

    name: str  # of the product
    address: str  # as a person may see it, without secrets

    def load(self) -> None:
        """Load what it takes to ask; nothing is asked yet, and no server is to blame for it."""

    def version(self) -> str:
        """The server's version; the cheapest question there is."""

    def ready(self, collections: Iterable[str]) -> None:
        """Make what is missing for these collections; EngineRefused where it is made otherwise."""

    def put(self, pieces: Sequence[Piece]) -> None:
        """Store whole memories: pieces of theirs that are not among these are gone afterwards."""

    def remove(self, memories: Sequence[str]) -> None:
        """Forget memories altogether."""

    def held(self, memories: Sequence[str]) -> Mapping[str, Held]:
        """What is held of these."""

    def manifest(self) -> Iterator[Held]:
        """What is held of all."""

    def prune(self, before: float) -> int:
        """Remove the marks of memories that were deleted before this moment; how many there were.

        Only marks: what someone has written anew meanwhile stays.
        """

    def count(self, sieve: Sieve) -> int:
        """How many pieces pass; those of deleted memories never do."""

    def otherwise(self) -> list[str]:
        """What is made otherwise than the settings want, a line for each; empty if nothing is."""

    def adapt(self) -> None:
        """Change that in place, as far as the server can; the rest is still told of afterwards."""

    def drop(self) -> None:
        """Remove everything of this bank, and nothing else."""

    def close(self) -> None:
        """Let go of connections."""


class VectorArm(Arm, Protocol):
    """An engine that finds by meaning."""

    def nearest(
        self, vectors: Sequence[Floats], model: str, sieve: Sieve, limits: Sequence[int]
    ) -> list[list[Match]]:
        """For each vector the pieces of the highest product with it, best first."""


class TextArm(Arm, Protocol):
    """An engine that finds by words."""

    def matching(self, terms: Mapping[str, float], sieve: Sieve, limit: int) -> list[Match]:
        """The pieces that have these terms, each worth its weight, best first."""
