"""The collections on a Qdrant server: made, and changed where they were made otherwise."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.index.engines.arm import EngineRefused

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.http import models as q

    from retain.index.engines.qdrant.clients import Clients
    from retain.index.engines.qdrant.settings import QdrantSettings
    from retain.index.engines.trouble import Speaker


# All that is ever asked for has an index: a server may refuse to search without.
_WORDS: Final = ("memory", "collection", "type", "status", "tags", "model")
_SEEN: Final = 10.0  # seconds until a change is seen, after which nobody waits for it
_WHOLE: Final = ("place", "second", "order")


class _Made(NamedTuple):
    """What a collection is made with, by the names of the settings."""

    shards: int
    replicas: int
    write_consistency: int
    m: int
    ef_construct: int
    quantization: str
    on_disk: bool
    payload_on_disk: bool


class Collections:
    """Collections as the settings say, and those known to be there."""

    def __init__(self, clients: Clients, settings: QdrantSettings, speaker: Speaker) -> None:
        self._clients, self._settings, self._speaker = clients, settings, speaker
        self._ready: set[str] = set()

    def make(self, name: str, dimension: int) -> None:
        """Have it there, with its indexes; one that is of something else is refused."""
        if name in self._ready or not dimension:
            return
        info = self._clients.there(lambda client: client.get_collection(name), None)
        if info is None:
            self._create(name, dimension)
            info = self._clients.ask(lambda client: client.get_collection(name))
        self._check(name, info, dimension)
        self._index(name, info)
        self._ready.add(name)

    def forget(self, name: str) -> None:
        """Look for it again: it is not there any more."""
        self._ready.discard(name)

    def _check(self, name: str, info: q.CollectionInfo, dimension: int) -> None:
        from qdrant_client.http import models as q

        vectors = info.config.params.vectors
        if not isinstance(vectors, q.VectorParams) or vectors.distance != q.Distance.DOT:
            raise self._speaker.refused(f"has a collection {name} that Retain did not make")
        if vectors.size != dimension:
            raise self._speaker.unfit(
                f"has vectors of dimension {vectors.size} in {name}, and these have {dimension}"
            )

    def _create(self, name: str, dimension: int) -> None:
        from qdrant_client.http import models as q

        wanted = self._settings

        def create(client: QdrantClient) -> None:
            client.create_collection(
                name,
                vectors_config=q.VectorParams(
                    size=dimension, distance=q.Distance.DOT, on_disk=wanted.on_disk
                ),
                hnsw_config=q.HnswConfigDiff(m=wanted.m, ef_construct=wanted.ef_construct),
                quantization_config=_quantization(wanted.quantization),
                wal_config=q.WalConfigDiff(wal_capacity_mb=wanted.log),
                shard_number=wanted.shards,
                replication_factor=wanted.replicas,
                write_consistency_factor=wanted.write_consistency,
                on_disk_payload=wanted.payload_on_disk,
            )

        try:
            self._clients.ask(create)
        except EngineRefused:
            # Another machine may have made it in the meantime: that one is looked at next.
            if not self._clients.there(lambda client: client.collection_exists(name), False):
                raise

    def _index(self, name: str, info: q.CollectionInfo) -> None:
        from qdrant_client.http import models as q

        kinds: dict[str, Any] = {
            **dict.fromkeys(_WORDS, q.PayloadSchemaType.KEYWORD),
            **dict.fromkeys(_WHOLE, q.PayloadSchemaType.INTEGER),
            "created": q.PayloadSchemaType.FLOAT,
        }

        def index(client: QdrantClient) -> None:
            for field, kind in kinds.items():
                if field not in info.payload_schema:
                    client.create_payload_index(name, field, kind, wait=True)

        self._clients.ask(index)

    def differs(self, name: str) -> list[str]:
        """What is made otherwise than the settings say, a line each."""
        info = self._clients.there(lambda client: client.get_collection(name), None)
        if info is None:
            return []
        wanted, made = self._settings, _made(info)
        found = [
            f"{name}: {field} is {value}, and {getattr(wanted, field)} is set"
            for field, value in made._asdict().items()
            if value != getattr(wanted, field)
        ]
        copies = self._copies(name)
        if copies < wanted.replicas:
            found.append(f"{name}: parts of it have {copies} copies, and {wanted.replicas} are set")
        return found

    def _copies(self, name: str) -> int:
        """How many copies the part has that has the fewest."""
        if self._settings.replicas < 2:
            return 1
        info = self._clients.ask(
            lambda client: client.http.distributed_api.collection_cluster_info(name).result
        )
        shards = [one.shard_id for one in info.local_shards] if info else []
        shards += [one.shard_id for one in info.remote_shards] if info else []
        return min(Counter(shards).values(), default=0)

    def change(self, name: str) -> None:
        """Make it as the settings say, as far as that can be changed."""
        from qdrant_client.http import models as q

        wanted = self._settings
        # What is as it should be is not set again: the server may begin to build everything anew.
        if self._is_as_set(name):
            return

        def change(client: QdrantClient) -> None:
            client.update_collection(
                name,
                vectors_config={"": q.VectorParamsDiff(on_disk=wanted.on_disk)},
                hnsw_config=q.HnswConfigDiff(m=wanted.m, ef_construct=wanted.ef_construct),
                quantization_config=_quantization(wanted.quantization) or q.Disabled.DISABLED,
                collection_params=q.CollectionParamsDiff(
                    replication_factor=wanted.replicas,
                    write_consistency_factor=wanted.write_consistency,
                    on_disk_payload=wanted.payload_on_disk,
                ),
            )

        self._clients.there(change, None)
        # The nodes of a cluster agree on it first, and until then each tells of what was before.
        end = time.monotonic() + _SEEN
        while not self._is_as_set(name) and time.monotonic() < end:
            time.sleep(0.05)

    def _is_as_set(self, name: str) -> bool:
        """Whether all is as the settings say that can be changed; also where nothing is there."""
        info = self._clients.there(lambda client: client.get_collection(name), None)
        wanted = self._settings
        return info is None or _made(info)._replace(shards=wanted.shards) == _as_set(wanted)


def _quantization(kind: str) -> Any:
    from qdrant_client.http import models as q

    if kind == "int8":
        scalar = q.ScalarQuantizationConfig(type=q.ScalarType.INT8, quantile=0.99, always_ram=True)
        return q.ScalarQuantization(scalar=scalar)
    return None


def _as_set(settings: QdrantSettings) -> _Made:
    return _Made(*(getattr(settings, field) for field in _Made._fields))


def _made(info: q.CollectionInfo) -> _Made:
    from qdrant_client.http import models as q

    params, hnsw, small = (
        info.config.params,
        info.config.hnsw_config,
        info.config.quantization_config,
    )
    kinds = {q.ScalarQuantization: "int8", type(None): "none"}
    return _Made(
        params.shard_number or 1,
        params.replication_factor or 1,
        params.write_consistency_factor or 1,
        hnsw.m,
        hnsw.ef_construct,
        kinds.get(type(small), "another"),
        isinstance(params.vectors, q.VectorParams) and bool(params.vectors.on_disk),
        bool(params.on_disk_payload),
    )
