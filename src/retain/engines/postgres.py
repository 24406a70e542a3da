"""Postgres as a text arm and, with pgvector, as a vector arm.

Each arm has a schema of its own. In it a bank has one row for each memory, and one for each
piece in a table that is partitioned by collection. A memory's row is what two writers meet at:
it is replaced only by a version that is not older, in the same transaction as its pieces.
"""

from __future__ import annotations

import math
import select
import socket
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, LiteralString, NamedTuple

from retain.engines.arm import (
    GRAVE,
    EngineDown,
    EngineError,
    EngineRefused,
    Held,
    Match,
    Piece,
    Sieve,
)
from retain.engines.spelling import digest, kept, meant
from retain.guard.characters import flat

if TYPE_CHECKING:
    from psycopg import Connection, Error
    from psycopg.sql import Composable, Composed

    from retain.engines.naming import Names
    from retain.index.vectors import Floats

__all__ = ["PostgresSettings", "PostgresText", "PostgresVectors"]


_OLDEST: Final = 140_000
_OLDEST_VECTOR: Final = (0, 8)  # that goes on looking where a condition leaves too few
_MAKING: Final = 0x52657461  # the lock under which tables are made
_BUILDING: Final = _MAKING + 1  # and graphs, which takes long
_PAGE: Final = 2_000  # rows fetched at once
_PORTION: Final = 100  # pieces written in one transaction, unless one memory has more
_EACH: Final = 0.05  # seconds that each of them may add to what a transaction may take
_IDLE: Final = 8  # connections kept open for the next question
_TERMS: Final = 64  # asked for at once
_LONGEST: Final = 255  # bytes of a term as it is; Postgres takes 2046
_TIMES: Final = 16  # a term counts in one piece: more make no difference to the rank
_RANKED: Final = 6_000  # pieces that common terms may bring in to be ranked
_BYTES: Final = 1_200  # of one on disk, about
_B: Final = 0.4  # how much a piece's length counts against it, as in the embedded index
# SQLSTATEs that pass; the last two are of a table that another machine has just dropped.
_LATER: Final = ("08", "40", "53", "55", "57", "58", "XX", "25006", "42P01", "3F000")
_FULL: Final = ("53100", "53400", "54")  # and those among them that do not
# While a connection is made Postgres tells only in words what is wrong. Another language of the
# server's makes these a server that is down, which is tried again and shown in its own words.
_REFUSALS: Final = ("authentication failed", "pg_hba.conf", "does not exist", "not permitted")


class PostgresSettings(NamedTuple):
    """What can be chosen; replicas are the server's own business."""

    schema: str = "retain"  # what the names of the two schemas begin with
    half: bool = False  # whether vectors are kept in 16 bits a number; for more than 2,000 always
    m: int = 16  # neighbours of a point in the HNSW graph
    ef_construction: int = 64  # candidates while it is built
    ef: int = 200  # candidates while it is searched
    exact: int = 5_000  # pieces of a collection up to which it has no graph: all are compared
    building: float = 900.0  # seconds that the building of a graph may take
    memory: str = "256MB"  # for that
    synchronous: bool = True  # whether a write waits for the disk, and for replicas that must


class _Arm:
    """What both arms do."""

    name = "Postgres"
    _kind: LiteralString
    _columns: tuple[LiteralString, ...]

    def __init__(
        self, address: str, key: str, names: Names, patience: float, settings: PostgresSettings
    ) -> None:
        self._wire = _Wire(address, key, patience, settings)
        self.address = self._wire.address
        self._names = names
        self._settings = settings
        self._space = f"{settings.schema}_{self._kind}"
        # Neither can be a collection's: those begin with the prefix and its last dash.
        self._bank = names.prefix.removesuffix("-")
        self._pieces, self._memories = (
            self._table(self._bank),
            self._table(f"{self._bank}.memories"),
        )

    def version(self) -> str:
        with self._wire.transaction() as connection:
            return _one(connection, "SHOW server_version")

    def ready(self, collections: Iterable[str]) -> None:
        with self._wire.transaction() as connection:
            self._ready(connection, {self._names.of(name) for name in collections})

    def _ready(self, connection: Connection, wanted: Iterable[str]) -> None:
        there = self._there(connection)
        missing = [name for name in sorted(wanted) if name not in there]
        if self._bank in there:
            self._check(connection)
        if not missing and self._bank in there:
            return
        # Two that make the same table at once would both fail.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
        there = self._there(connection)
        if self._bank not in there:
            self._check_version(connection)
            for statement in self._foundation():
                connection.execute(statement)
        for name in missing:
            if name not in there:
                for statement in self._partition(name):
                    connection.execute(statement)

    def _there(self, connection: Connection) -> set[str]:
        """The bank's tables; those of others in the same schema have another prefix."""
        rows = connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND (c.relname = %s OR starts_with(c.relname, %s)) "
            "AND c.relkind IN ('r', 'p')",
            (self._space, self._bank, self._names.prefix),
        )
        return {name for (name,) in rows}

    def _check(self, connection: Connection) -> None:
        """Raise EngineRefused if what is there was made for something else."""

    def _check_version(self, connection: Connection) -> None:
        if connection.info.server_version < _OLDEST:
            raise EngineRefused(
                f"Postgres at {self.address} is too old; {_OLDEST // 10_000} or newer is needed."
            )

    def _foundation(self) -> Iterator[Composed]:
        """The statements that make what a bank's collections stand on."""
        from psycopg.sql import SQL, Identifier

        yield SQL("CREATE SCHEMA IF NOT EXISTS {}").format(Identifier(self._space))
        # "C" so that hashes and names are compared byte by byte, as everywhere else.
        yield SQL(
            "CREATE TABLE {} (owner uuid PRIMARY KEY, memory text NOT NULL, "
            'hash text COLLATE "C" NOT NULL, written float8 NOT NULL, pieces int NOT NULL, '
            "model text NOT NULL)"
        ).format(self._memories)
        yield SQL(
            "CREATE TABLE {} (part text NOT NULL, owner uuid NOT NULL REFERENCES {} "
            "ON DELETE CASCADE, place int NOT NULL, type text NOT NULL, status text NOT NULL, "
            "tags text[] NOT NULL, created float8 NOT NULL, digest text NOT NULL, {}, "
            "PRIMARY KEY (owner, place, part)) PARTITION BY LIST (part)"
        ).format(self._pieces, self._memories, SQL(", ").join(self._own_columns()))
        yield SQL("CREATE INDEX ON {} USING gin (tags)").format(self._pieces)
        yield SQL("CREATE INDEX ON {} (created)").format(self._pieces)

    def _own_columns(self) -> list[Composable]:
        raise NotImplementedError

    def _partition(self, name: str) -> Iterator[Composed]:
        from psycopg.sql import SQL, Literal

        yield SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES IN ({})").format(
            self._table(name), self._pieces, Literal(name)
        )

    def _table(self, name: str) -> Composable:
        from psycopg.sql import Identifier

        return Identifier(self._space, name)

    def _owner(self, memory: str) -> str:
        """One short name for all pieces of a memory, however long its own is."""
        return self._names.piece(memory, GRAVE)

    def put(self, pieces: Sequence[Piece]) -> None:
        memories: dict[str, list[Piece]] = defaultdict(list)
        for piece in pieces:
            memories[self._owner(piece.memory)].append(piece)
        if not memories:
            return
        # Apart from what follows: while a table is made nobody reads those beside it.
        with self._wire.transaction() as connection:
            self._ready(connection, {self._names.of(piece.collection) for piece in pieces})
        for portion in _portions(memories):
            more = _EACH * sum(map(len, portion.values()))
            with self._wire.transaction(more) as connection:
                won = self._won(connection, portion)
                self._replace(connection, [p for owner in won for p in portion[owner]], won)

    def _won(self, connection: Connection, memories: Mapping[str, Sequence[Piece]]) -> list[str]:
        """Enter memories, and say which of them are not older than what was there."""
        from psycopg.sql import SQL

        # In one order everywhere, or two writers could wait for each other.
        firsts = [(owner, memories[owner][0]) for owner in sorted(memories)]
        rows = connection.execute(
            SQL(
                "INSERT INTO {} AS held SELECT * FROM unnest(%s::uuid[], %s::text[], %s::text[], "
                "%s::float8[], %s::int[], %s::text[]) ON CONFLICT (owner) DO UPDATE SET "
                "hash = excluded.hash, written = excluded.written, pieces = excluded.pieces, "
                "model = excluded.model WHERE (held.written, held.hash) <= "
                "(excluded.written, excluded.hash) RETURNING owner"
            ).format(self._memories),
            (
                [owner for owner, _ in firsts],
                [kept(first.memory) for _, first in firsts],
                [first.hash for _, first in firsts],
                [first.written for _, first in firsts],
                [first.pieces for _, first in firsts],
                [kept(first.model) for _, first in firsts],
            ),
        )
        return [str(owner) for (owner,) in rows]

    def _replace(self, connection: Connection, pieces: Sequence[Piece], owners: list[str]) -> None:
        from psycopg.sql import SQL, Identifier

        connection.execute(
            SQL("DELETE FROM {} WHERE owner = ANY(%s::uuid[])").format(self._pieces), (owners,)
        )
        columns = ("part", "owner", "place", "type", "status", "tags", "created", "digest")
        names = SQL(", ").join(map(Identifier, (*columns, *self._columns)))
        with (
            connection.cursor() as cursor,
            cursor.copy(SQL("COPY {} ({}) FROM STDIN").format(self._pieces, names)) as copy,
        ):
            for piece in pieces:
                copy.write_row(
                    (
                        self._names.of(piece.collection),
                        self._owner(piece.memory),
                        piece.place,
                        kept(piece.type),
                        kept(piece.status),
                        [kept(tag) for tag in piece.tags],
                        piece.created,
                        piece.digest,
                        *self._own_values(piece),
                    )
                )

    def _own_values(self, piece: Piece) -> tuple[object, ...]:
        raise NotImplementedError

    def remove(self, memories: Sequence[str]) -> None:
        from psycopg.sql import SQL

        with self._existing() as connection:
            if connection is not None:
                statement = SQL("DELETE FROM {} WHERE owner = ANY(%s::uuid[])")
                owners = sorted(map(self._owner, memories))
                connection.execute(statement.format(self._memories), (owners,))

    def held(self, memories: Sequence[str]) -> Mapping[str, Held]:
        from psycopg.sql import SQL

        with self._existing() as connection:
            if connection is None:
                return {}
            rows = connection.execute(
                self._holding(SQL("WHERE m.owner = ANY(%s::uuid[])")),
                (list(map(self._owner, memories)),),
            ).fetchall()
        return {held.memory: held for held in map(_held, rows)}

    def manifest(self) -> Iterator[Held]:
        from psycopg.sql import SQL

        # By pages that each are a question of their own: no transaction stays open while
        # someone takes their time with what was read.
        last = "00000000-0000-0000-0000-000000000000"
        while True:
            with self._existing() as connection:
                if connection is None:
                    return
                rows = connection.execute(
                    self._holding(SQL("WHERE m.owner > %s::uuid ORDER BY m.owner LIMIT %s")),
                    (last, _PAGE),
                ).fetchall()
            yield from map(_held, rows)
            if len(rows) < _PAGE:
                return
            last = str(rows[-1][0])

    def _holding(self, which: Composable) -> Composed:
        from psycopg.sql import SQL

        return SQL(
            "SELECT m.owner, m.memory, m.hash, m.written, m.pieces, m.model, (SELECT count(*) "
            "FROM {} p WHERE p.owner = m.owner) FROM {} m {}"
        ).format(self._pieces, self._memories, which)

    def count(self, sieve: Sieve) -> int:
        from psycopg.sql import SQL

        condition, values = _condition(sieve, self._names)
        with self._existing() as connection:
            if connection is None:
                return 0
            query = SQL("SELECT count(*) FROM {} p WHERE {}").format(self._pieces, condition)
            ((found,),) = connection.execute(query, values).fetchall()
            return int(found)

    def drop(self) -> None:
        from psycopg.sql import SQL

        with self._wire.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            for table in (self._pieces, self._memories):
                connection.execute(SQL("DROP TABLE IF EXISTS {}").format(table))

    def close(self) -> None:
        self._wire.close()

    @contextmanager
    def _existing(self) -> Iterator[Connection | None]:
        """A connection if there is anything of the bank's to ask about."""
        with self._wire.transaction() as connection:
            yield connection if self._bank in self._there(connection) else None


class PostgresText(_Arm):
    """A bank's terms in Postgres, each a lexeme of its own."""

    _kind = "text"
    _columns = ("memory", "words", "bag")

    def __init__(
        self,
        address: str,
        key: str,
        names: Names,
        *,
        patience: float,
        settings: PostgresSettings = PostgresSettings(),  # noqa: B008 - a tuple
    ) -> None:
        super().__init__(address, key, names, patience, settings)

    def _own_columns(self) -> list[Composable]:
        from psycopg.sql import SQL

        return [SQL("memory text NOT NULL"), SQL("words int NOT NULL"), SQL("bag tsvector")]

    def _foundation(self) -> Iterator[Composed]:
        from psycopg.sql import SQL

        yield from super()._foundation()
        yield SQL("CREATE INDEX ON {} USING gin (bag)").format(self._pieces)

    def _own_values(self, piece: Piece) -> tuple[object, ...]:
        terms = piece.terms.split()
        return kept(piece.memory), len(terms), _tsvector(terms)

    def matching(self, terms: Mapping[str, float], sieve: Sieve, limit: int) -> list[Match]:
        best = sorted(((w, term) for term, w in terms.items() if w > 0), reverse=True)[:_TERMS]
        if not best or limit <= 0:
            return []
        condition, values = _condition(sieve, self._names)
        with self._existing() as connection:
            if connection is None:
                return []
            chosen: Sequence[tuple[float, str]] = best
            # Every search leaves out what is retired, which are few; other conditions leave few in.
            if sieve._replace(without_statuses=()) == Sieve():
                chosen = _telling(best, _estimate(connection, self._space, self._bank, _BYTES))
            rows = connection.execute(
                self._ranking(condition),
                {
                    **values,
                    "any": " | ".join(_lexeme(term) for _, term in chosen),
                    "terms": [_lexeme(term) for _, term in best],
                    "weights": [weight for weight, _ in best],
                    "b": _B,
                    "limit": limit,
                },
            ).fetchall()
        return [Match(meant(name), place, mark, score) for name, place, mark, score in rows]

    def _ranking(self, condition: Composable) -> Composed:
        """BM25 in Postgres' words.

        With weights of 1 `ts_rank` of one term is a sum of 1/n² over its places, as a part of the
        sum of all: 0.61, 0.76, 0.83 ... That is n / (n + 0.645) but for a hundredth, BM25's own
        saturation, which the piece's length then bends.
        """
        from psycopg.sql import SQL

        return SQL(
            "WITH found AS MATERIALIZED (SELECT p.memory, p.place, p.digest, p.words, p.bag "
            "FROM {} p WHERE p.bag @@ %(any)s::tsquery AND {}), "
            "mean AS (SELECT greatest(avg(words), 1) AS words FROM found) "
            "SELECT f.memory, f.place, f.digest, s.score FROM found f CROSS JOIN mean "
            "CROSS JOIN LATERAL (SELECT sum(t.weight * r.rank / (r.rank + (1 - r.rank) * "
            "(1 - %(b)s + %(b)s * f.words / mean.words))) AS score "
            "FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS t (term, weight) "
            "CROSS JOIN LATERAL (SELECT ts_rank('{{1,1,1,1}}', f.bag, t.term::tsquery)::float8 "
            "AS rank) r) s ORDER BY s.score DESC, f.memory, f.place LIMIT %(limit)s"
        ).format(self._pieces, condition)


class PostgresVectors(_Arm):
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
    ) -> None:
        super().__init__(address, key, names, patience, settings)
        self._dimension = dimension  # 0 until the first vector says it
        self._built: set[str] = set()  # collections that are known to have a graph

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
        for name in {self._names.of(piece.collection) for piece in pieces} - self._built:
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
            "SELECT a.atttypmod FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND a.attname = 'vector'",
            (self._space, self._bank),
        ).fetchone()
        return int(row[0]) if row else 0

    def _check(self, connection: Connection) -> None:
        made = self._made_for(connection)
        if made != self._dimension:
            raise EngineRefused(
                f"The bank in Postgres at {self.address} holds vectors of {made} numbers, not of "
                f"{self._dimension}: another model made them.",
                hint="Drop the bank there, and fill it again with `retain engine push`.",
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
        if tuple(int(part) for part in found.split(".")[:2]) < _OLDEST_VECTOR:
            wanted = ".".join(map(str, _OLDEST_VECTOR))
            raise EngineRefused(
                f"Postgres at {self.address} has pgvector {found}; {wanted} or newer is needed.",
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
        return self._settings.half or self._dimension > 2_000  # no index takes longer ones whole

    def _own_columns(self) -> list[Composable]:
        from psycopg.sql import SQL, Literal

        kind = SQL("halfvec") if self._is_half else SQL("vector")
        vector = SQL("vector {}({})").format(kind, Literal(self._dimension))
        return [SQL("memory text NOT NULL"), SQL("model text NOT NULL"), vector]

    def _build(self, name: str) -> None:
        """Give a collection that has become large a graph of its vectors, unless it has one."""
        # All at once that takes a tenth of the time that it takes with each piece that comes.
        with self._wire.transaction() as connection:
            if _estimate(connection, self._space, name, self._bytes) <= self._settings.exact:
                return
        settings = self._settings
        with self._wire.transaction(settings.building) as connection:
            row = connection.execute(
                "SELECT pg_try_advisory_xact_lock(%s)", (_BUILDING,)
            ).fetchone()
            if row != (True,):
                return  # another machine builds one; the next put sees to it
            self._built.add(name)
            if self._has_graph(connection, name):
                return
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

    def _own_values(self, piece: Piece) -> tuple[object, ...]:
        vector = None if piece.vector is None else _spelt(piece.vector)
        return kept(piece.memory), kept(piece.model), vector

    def nearest(
        self, vectors: Sequence[Floats], model: str, sieve: Sieve, limits: Sequence[int]
    ) -> list[list[Match]]:
        if not vectors:
            return []
        condition, values = _condition(sieve, self._names)
        values["model"] = kept(model)
        with self._existing() as connection:
            if connection is None:
                return [[] for _ in vectors]
            self._dimension = self._dimension or self._made_for(connection)
            for vector in vectors:
                self._check_length(vector)
            self._check(connection)
            search = _Search(connection, self._nearest(condition), values, self._settings.ef)
            return [
                search.nearest(_spelt(vector), limit)
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


class _Search:
    """One question's search for neighbours, within one transaction."""

    def __init__(
        self, connection: Connection, query: Composed, values: Mapping[str, object], ef: int
    ) -> None:
        self._connection, self._query, self._values, self._ef = connection, query, values, ef

    def nearest(self, vector: str, limit: int) -> list[Match]:
        found = self._rows(
            vector,
            limit,
            {
                "hnsw.ef_search": str(min(1_000, max(self._ef, limit))),
                "hnsw.iterative_scan": "strict_order",
                "enable_indexscan": "on",
                "enable_seqscan": "off",  # where there is a graph: a collection without is read
            },
        )
        if len(found) < limit:
            # Too few passed the condition among all that the graphs came by, or there are no more.
            found = self._rows(vector, limit, {"enable_indexscan": "off", "enable_seqscan": "on"})
        return found

    def _rows(self, vector: str, limit: int, options: Mapping[str, str]) -> list[Match]:
        for name, value in options.items():
            self._connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        rows = self._connection.execute(
            self._query, {**self._values, "vector": vector, "limit": limit}
        ).fetchall()
        return [Match(meant(name), place, mark, score) for name, place, mark, score in rows]


class _Wire:
    """Connections, each used by one at a time, with one end to what is asked: in time or not."""

    def __init__(self, address: str, key: str, patience: float, settings: PostgresSettings) -> None:
        self._options, self.address = _parsed(address)
        if key and self._options:
            self._options["password"] = key
        self._secrets = [str(self._options[n]) for n in _SECRET if self._options.get(n)]
        self._patience = patience
        self._synchronous = settings.synchronous
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self, more: float = 0.0) -> Iterator[Connection]:
        """A connection for one transaction, which is over in time or broken off.

        It may take so many seconds more than others, but not to wait for what someone else holds.
        """
        from psycopg import Error

        try:
            connection = self._taken() or self._connected()
            try:
                with self._watched(connection, more), connection.transaction():
                    self._set(connection, more)
                    yield connection
            finally:
                self._give(connection)
        except Error as error:
            raise self._failed(error) from None
        except OSError:
            raise self.failure("it cannot be reached") from None

    def _set(self, connection: Connection, more: float) -> None:
        """Say how long a statement may take, and whether a write waits for the disk."""
        # For each transaction anew: a pooler may give each to another of its own connections.
        connection.execute(
            "SELECT set_config('statement_timeout', %s, true), "
            "set_config('lock_timeout', %s, true), set_config('synchronous_commit', %s, true)",
            (
                str(math.ceil((self._patience + more) * 1000)),
                str(max(1, math.ceil(self._patience * 1000))),
                "on" if self._synchronous else "off",
            ),
        )

    def _taken(self) -> Connection | None:
        """An idle connection that the server has not ended."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            # A server that waits for a question says nothing, unless it is going.
            if not connection.closed and not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()

    def _connected(self) -> Connection:
        import psycopg

        if not self._options:
            raise EngineRefused(
                "The address of Postgres cannot be read.",
                hint="It looks like postgresql://user@host:5432/database.",
            )
        options = {
            "connect_timeout": max(2, math.ceil(self._patience)),  # libpq knows no shorter one
            "application_name": "retain",
            **self._options,
            "client_encoding": "utf8",
        }
        # A pooler between would not know what was prepared, so nothing is.
        return psycopg.connect(**options, autocommit=True, prepare_threshold=None)

    @contextmanager
    def _watched(self, connection: Connection, more: float) -> Iterator[None]:
        """Break a connection off whose server neither answers nor goes away."""
        from psycopg import Error

        is_over = threading.Event()

        def break_off() -> None:
            is_over.set()
            with suppress(OSError, Error), socket.socket(fileno=connection.fileno()) as ours:
                try:
                    ours.shutdown(socket.SHUT_RDWR)
                finally:
                    ours.detach()  # it stays psycopg's

        # The server itself ends a statement in time; so this is for one that cannot.
        timer = threading.Timer(self._patience + more + 0.5, break_off)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if is_over.is_set():
                connection.close()

    def _give(self, connection: Connection) -> None:
        from psycopg.pq import TransactionStatus

        is_free = connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if is_free and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _failed(self, error: Error) -> EngineError:
        from psycopg.errors import ConnectionTimeout, QueryCanceled

        if isinstance(error, ConnectionTimeout | QueryCanceled):
            return self.failure(f"it did not answer within {self._patience:g} seconds")
        said, state = str(error), error.sqlstate or ""
        if state:
            later = state.startswith(_LATER) and not state.startswith(_FULL)
        else:
            later = not any(sign in said for sign in _REFUSALS)
        hint = "Set the engine's address and key again." if not state and not later else ""
        return self.failure(said, refused=not later, hint=hint)

    def failure(self, reason: str, *, refused: bool = False, hint: str = "") -> EngineError:
        """What is raised for a reason; a server's own words are shortened and made harmless."""
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        kind = EngineRefused if refused else EngineDown
        return kind(f"Postgres at {self.address}: {flat(reason, 200).rstrip('.')}.", hint=hint)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


_SECRET: Final = ("password", "sslpassword", "oauth_client_secret")


def _parsed(address: str) -> tuple[dict[str, Any], str]:
    """What a DSN says, and what of it may be seen."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise EngineRefused(
            "Postgres needs a package that is not installed.",
            hint="Install it: pip install 'retain-bank[postgres]'.",
        ) from None
    try:
        options = dict(conninfo_to_dict(address))
    except ProgrammingError:  # whose words hold parts of the address
        options = {}
    if not options:
        return {}, "an address that cannot be read"
    hosts = str(options.get("host") or options.get("hostaddr") or "localhost").split(",")
    ports = str(options.get("port") or "5432").split(",")
    places = [f"{host}:{ports[min(at, len(ports) - 1)]}" for at, host in enumerate(hosts)]
    name = options.get("dbname")
    return options, flat(f"postgresql://{','.join(places)}" + (f"/{name}" if name else ""), 120)


def _portions(memories: Mapping[str, list[Piece]]) -> Iterator[dict[str, list[Piece]]]:
    """Whole memories, a few at a time: what took too long together would never be written."""
    portion: dict[str, list[Piece]] = {}
    size = 0
    for owner in sorted(memories):
        if portion and size + len(memories[owner]) > _PORTION:
            yield portion
            portion, size = {}, 0
        portion[owner] = memories[owner]
        size += len(memories[owner])
    if portion:
        yield portion


def _one(connection: Connection, query: LiteralString) -> str:
    ((value,),) = connection.execute(query).fetchall()
    return flat(str(value), 40)


def _held(row: tuple[Any, ...]) -> Held:
    _, memory, hash_, written, pieces, model, found = row
    return Held(meant(memory), hash_, written, pieces, found, meant(model))


def _condition(sieve: Sieve, names: Names) -> tuple[Composable, dict[str, object]]:
    """A sieve in SQL; every value goes as a value, never as a part of it."""
    from psycopg.sql import SQL

    parts: list[LiteralString] = ["p.place >= 0"]
    values: dict[str, object] = {}
    if sieve.collections:
        parts.append("p.part = ANY(%(parts)s)")
        values["parts"] = [names.of(collection) for collection in sieve.collections]
    lists: tuple[tuple[LiteralString, str, tuple[str, ...]], ...] = (
        ("p.type = ANY(%(types)s)", "types", sieve.types),
        ("p.tags && %(tags)s::text[]", "tags", sieve.tags),
        ("p.status = ANY(%(statuses)s)", "statuses", sieve.statuses),
        ("NOT p.status = ANY(%(without)s)", "without", sieve.without_statuses),
    )
    for part, name, wanted in lists:
        if wanted:
            parts.append(part)
            values[name] = [kept(value) for value in wanted]
    moments: tuple[tuple[LiteralString, str, float | None], ...] = (
        ("p.created >= %(since)s", "since", sieve.since),
        ("p.created <= %(until)s", "until", sieve.until),
    )
    for part, name, moment in moments:
        if moment is not None:
            parts += ["p.created <> 0", part]
            values[name] = moment
    return SQL(" AND ").join(map(SQL, parts)), values


def _estimate(connection: Connection, space: str, table: str, each: int) -> int:
    """About how many pieces there are, by the room they take; the statistics may be a day old."""
    row = connection.execute(
        "SELECT coalesce(sum(pg_table_size(t.relid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "CROSS JOIN LATERAL pg_partition_tree(c.oid) t WHERE n.nspname = %s AND c.relname = %s",
        (space, table),
    ).fetchone()
    return int(row[0]) // each if row else 0


def _telling(best: Sequence[tuple[float, str]], pieces: int) -> Sequence[tuple[float, str]]:
    """The rarest terms, as many as may bring in pieces; the others still count in what these do.

    A weight is a rarity, the logarithm of one in how many pieces has the term.
    """
    ranked, most = 0.0, 0
    for weight, _ in best:
        ranked += pieces * math.exp(-weight)
        if most >= 3 and ranked > _RANKED:
            break
        most += 1
    return best[:most]


def _spelt(vector: Floats) -> str:
    # Nine digits are all that a number of 32 bits has.
    return "[" + ("%.9g," * len(vector) % tuple(vector.tolist()))[:-1] + "]"


def _tsvector(terms: Sequence[str]) -> str:
    """Terms as a tsvector is written; no configuration looks at them, so they stay as they are."""
    return " ".join(
        f"{_lexeme(term)}:{','.join(map(str, range(1, min(times, _TIMES) + 1)))}"
        for term, times in Counter(terms).items()
    )


def _lexeme(term: str) -> str:
    """A term between quotes, where only quotes and backslashes mean anything."""
    term = kept(term)
    if len(term.encode()) > _LONGEST:
        term = digest(term)
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
