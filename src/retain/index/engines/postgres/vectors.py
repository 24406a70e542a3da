"""Vectors in Postgres with pgvector, and the graphs that are built of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index.engines.arm import EngineRefused, EngineUnfit, Match, Piece, Sieve
from retain.index.engines.postgres.conditions import condition_of
from retain.index.engines.postgres.neighbours import Search, spelt
from retain.index.engines.postgres.rows import Rows
from retain.index.engines.postgres.settings import PostgresSettings, Replica
from retain.index.engines.postgres.tables import BUILDING, estimate
from retain.index.engines.spelling import kept
from retain.index.engines.trouble import release

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

    from retain.index.engines.naming import Names
    from retain.index.vectors import Floats


_OLDEST_VECTOR: Final = (0, 8)  # that goes on looking where a condition leaves too few
_WHOLE: Final = 2_000  # numbers of a vector; no index takes longer ones in 32 bits each


class _Graph(NamedTuple):
    table: str
    name: str
    made: str  # its options, as the server writes them


class PostgresVectors(Rows):
    """A bank's vectors in Postgres with pgvector."""

    _kind = "vector"
    _columns = ("memory", "model", "vector")

    def __init__(
        self,
        address: str,
        key: str,
        names: Names,
        *,
        patience: float,
        dimension: int = 0,
        settings: PostgresSettings = PostgresSettings(),  # noqa: B008 - a tuple
        replica: Replica | None = None,
    ) -> None:
        super().__init__(address, key, names, patience, settings, replica)
        self._dimension = dimension  # 0 until the first vector says it
        self._half = settings.half  # until it is known what is there

    def ready(self, collections: Iterable[str]) -> None:
        # Without a dimension no table can be made: the first vectors that are put bring it.
        if self._dimension:
            super().ready(collections)

    def put(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            if piece.vector is not None:
                self._dimension = self._dimension or len(piece.vector)
                self._check_length(piece.vector)
        super().put(pieces)
        for name in {self._names.of(piece.collection) for piece in pieces}:
            self._build(name)

    def _ready(self, connection: Connection, wanted: Iterable[str]) -> None:
        if not self._dimension:
            self._dimension = self._made_for(connection)
        if not self._dimension:
            raise EngineRefused(
                "Postgres cannot be given a bank of deleted memories only.",
                hint="Save a memory first: its vector says how long all of them are.",
            )
        super()._ready(connection, wanted)

    def _made_for(self, connection: Connection) -> int:
        """How long the vectors of the table are that is there; 0 if none is."""
        row = connection.execute(
            "SELECT a.atttypmod, t.typname FROM pg_attribute a "
            "JOIN pg_type t ON t.oid = a.atttypid "
            "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND a.attname = 'vector'",
            (self._space, self._bank),
        ).fetchone()
        self._half = row[1] == "halfvec" if row else self._settings.half
        return int(row[0]) if row else 0

    def _check(self, connection: Connection) -> None:
        made = self._made_for(connection)
        if made != self._dimension:
            raise EngineUnfit(
                f"The bank in Postgres at {self.address} holds vectors of {made} numbers, not of "
                f"{self._dimension}: another model made them."
            )

    def _check_length(self, vector: Floats) -> None:
        if len(vector) != self._dimension:
            raise EngineRefused(
                f"Postgres at {self.address} is used with vectors of {self._dimension} numbers, "
                f"not of {len(vector)}."
            )

    def _check_version(self, connection: Connection) -> None:
        super()._check_version(connection)
        found = self._extension(connection)
        if not found:
            from psycopg.errors import Error

            try:
                with connection.transaction():
                    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except Error:
                raise EngineRefused(
                    f"Postgres at {self.address} lacks pgvector.",
                    hint="Have its administrator run CREATE EXTENSION vector in that database.",
                ) from None
            found = self._extension(connection)
        numbers = re.match(r"(\d{1,9})\.(\d{1,9})", found)
        if not numbers or (int(numbers[1]), int(numbers[2])) < _OLDEST_VECTOR:
            wanted = ".".join(map(str, _OLDEST_VECTOR))
            raise EngineRefused(
                f"Postgres at {self.address} has pgvector {release(found)}; "
                f"{wanted} or newer is needed.",
                hint="After it is installed: ALTER EXTENSION vector UPDATE.",
            )

    @staticmethod
    def _extension(connection: Connection) -> str:
        row = connection.execute(
            "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        ).fetchone()
        return str(row[0]) if row else ""

    @property
    def _bytes(self) -> int:
        """Of one piece on disk, about."""
        return (2 if self._is_half else 4) * self._dimension + 250

    @property
    def _is_half(self) -> bool:
        return self._half or self._dimension > _WHOLE

    def _own_columns(self) -> list[Composable]:
        from psycopg.sql import SQL, Literal

        self._half = self._settings.half
        kind = SQL("halfvec") if self._is_half else SQL("vector")
        vector = SQL("vector {}({})").format(kind, Literal(self._dimension))
        return [SQL("memory text NOT NULL"), SQL("model text NOT NULL"), vector]

    def _build(self, name: str) -> None:
        """Give a collection that has become large a graph of its vectors, unless it has one."""
        # All at once that takes a tenth of the time that it takes with each piece that comes.
        with self._wire.transaction() as connection:
            # Asked each time: another machine may have dropped the bank and filled it anew.
            if estimate(
                connection, self._space, name, self._bytes
            ) <= self._settings.exact or self._has_graph(connection, name):
                return
        settings = self._settings
        with self._wire.transaction(settings.building) as connection:
            row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (BUILDING,)).fetchone()
            if row != (True,):
                return  # another machine builds one; the next put sees to it
            if not self._has_graph(connection, name):
                connection.execute(
                    "SELECT set_config('maintenance_work_mem', %s, true)", (settings.memory,)
                )
                connection.execute(self._graph(name))

    def _has_graph(self, connection: Connection, name: str) -> bool:
        row = connection.execute(
            "SELECT 1 FROM pg_indexes WHERE schemaname = %s AND tablename = %s "
            "AND indexdef LIKE '%%USING hnsw%%'",
            (self._space, name),
        ).fetchone()
        return row is not None

    def _graph(self, name: str) -> Composed:
        from psycopg.sql import SQL, Literal

        return SQL(
            "CREATE INDEX ON {} USING hnsw (vector {}) WITH (m = {}, ef_construction = {})"
        ).format(
            self._table(name),
            SQL("halfvec_ip_ops") if self._is_half else SQL("vector_ip_ops"),
            Literal(self._settings.m),
            Literal(self._settings.ef_construction),
        )

    def otherwise(self) -> list[str]:
        with self._existing() as connection:
            if connection is None:
                return []
            found = [
                f"{graph.table}: its graph has {graph.made}" for graph in self._odd(connection)
            ]
            made = self._made_for(connection)
            if made and made <= _WHOLE and self._half != self._settings.half:
                kept, wanted = (16, 32) if self._half else (32, 16)
                found.append(f"{self._bank}: a number takes {kept} bits, and {wanted} are set")
            return found

    def adapt(self) -> None:
        """Build graphs anew that were built otherwise; until one is there the old one is used."""
        with self._existing() as connection:
            graphs = self._odd(connection) if connection else []
        for graph in graphs:
            with self._wire.transaction(self._settings.building) as connection:
                self._made_for(connection)
                self._rebuild(connection, graph)

    def _rebuild(self, connection: Connection, graph: _Graph) -> None:
        from psycopg.sql import SQL

        connection.execute(
            "SELECT set_config('maintenance_work_mem', %s, true)", (self._settings.memory,)
        )
        connection.execute(self._graph(graph.table))
        connection.execute(SQL("DROP INDEX IF EXISTS {}").format(self._table(graph.name)))

    def _odd(self, connection: Connection) -> list[_Graph]:
        """The bank's graphs that were not built as the settings say."""
        rows = connection.execute(
            "SELECT t.relname, i.relname, coalesce(array_to_string(i.reloptions, ', '), '') "
            "FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid "
            "JOIN pg_am a ON a.oid = i.relam JOIN pg_class t ON t.oid = x.indrelid "
            "JOIN pg_namespace n ON n.oid = t.relnamespace "
            "WHERE n.nspname = %s AND starts_with(t.relname, %s) AND a.amname = 'hnsw'",
            (self._space, self._names.prefix),
        )
        settings = self._settings
        wanted = f"m={settings.m}, ef_construction={settings.ef_construction}"
        return [graph for graph in map(_Graph._make, rows) if graph.made != wanted]

    def _own_values(self, piece: Piece) -> tuple[object, ...]:
        vector = None if piece.vector is None else spelt(piece.vector)
        return kept(piece.memory), kept(piece.model), vector

    def nearest(
        self, vectors: Sequence[Floats], model: str, sieve: Sieve, limits: Sequence[int]
    ) -> list[list[Match]]:
        if not vectors:
            return []
        condition, values = condition_of(sieve, self._names)
        values["model"] = kept(model)
        with self._asking() as connection:
            if connection is None:
                return [[] for _ in vectors]
            self._dimension = self._dimension or self._made_for(connection)
            for vector in vectors:
                self._check_length(vector)
            self._check(connection)
            search = Search(connection, self._nearest(condition), values, self._settings.ef)
            return [
                search.nearest(spelt(vector), limit)
                for vector, limit in zip(vectors, limits, strict=True)
            ]

    def _nearest(self, condition: Composable) -> Composed:
        from psycopg.sql import SQL

        kind = SQL("halfvec") if self._is_half else SQL("vector")
        return SQL(
            "SELECT p.memory, p.place, p.digest, -(p.vector <#> %(vector)s::{}) FROM {} p "
            "WHERE p.model = %(model)s AND p.vector IS NOT NULL AND {} "
            "ORDER BY p.vector <#> %(vector)s::{} LIMIT %(limit)s"
        ).format(kind, self._pieces, condition, kind)
