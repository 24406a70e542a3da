"""What can be chosen about Qdrant."""

from __future__ import annotations

from typing import Literal, NamedTuple


class QdrantSettings(NamedTuple):
    """What a collection is made with, and how it is asked."""

    shards: int = 1  # parts that a collection is split into
    replicas: int = 1  # copies of each part
    write_consistency: int = 1  # copies that must have a write before it counts
    log: int = 8  # megabytes of a collection's log that are set aside from the start
    write_ordering: Literal["weak", "medium", "strong"] = "medium"
    read_consistency: Literal["one", "majority", "quorum", "all"] = "one"  # of the copies are asked
    m: int = 16  # edges of each point in the graph
    ef_construct: int = 128  # neighbours looked at when a point is added
    ef: int = 128  # and when one is looked for
    # Of one bit a number too little is left: of the ten nearest more than one would be others.
    quantization: Literal["none", "int8"] = "none"
    oversampling: float = 2.0  # with quantization: how many more are compared again exactly
    on_disk: bool = False  # vectors are read from disk, not kept in memory
    payload_on_disk: bool = True
    lanes: int = 8  # requests at a time
    batch: int = 256  # pieces in one request
