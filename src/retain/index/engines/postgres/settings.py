"""What can be chosen about Postgres, and where questions may go instead."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class PostgresSettings(NamedTuple):
    """What can be chosen; how many replicas there are is the server's own business."""

    schema: str = "retain"  # what the names of the two schemas begin with
    half: bool = False  # whether vectors are kept in 16 bits a number; for more than 2,000 always
    m: int = 16  # neighbours of a point in the HNSW graph
    ef_construction: int = 64  # candidates while it is built
    ef: int = 200  # candidates while it is searched
    exact: int = 5_000  # pieces of a collection up to which it has no graph: all are compared
    building: float = 900.0  # seconds that the building of a graph may take
    memory: str = "256MB"  # for that
    synchronous: bool = True  # whether a write waits for the disk, and for replicas that must


class Mark(Protocol):
    """How far the primary's log was when it was last told something, or said what it holds.

    Whoever searches may be another process than the one that delivered, so it is kept somewhere.
    """

    def read(self) -> str: ...

    def note(self, place: str) -> None: ...


class Replica(NamedTuple):
    """Where questions go, instead of to the server that is written to."""

    address: str
    mark: Mark
