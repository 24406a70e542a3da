"""Words in Postgres, and vectors with pgvector: a table for a bank in a schema for each of them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import select
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ConnectionTimeout, QueryCanceled
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Composable, Composed, Identifier, Literal

from retain.index.engines.engine import Document, EngineDown, EngineError, Filter, Match
from retain.index.engines.server import Server
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.index.vectors import Floats

_OLDEST: Final = (14, 0)
_OLDEST_VECTOR: Final = (0, 8)  # that goes on looking where a condition leaves too few
_MAKE_LOCK: Final = 0x52657461  # under which tables are made, and graphs under the next
_MAX_IDLE: Final = 8  # connections kept open for the next question
_MAX_WHOLE: Final = 2_000  # numbers of a vector: no index takes longer ones in 32 bits each
_MAX_TERMS: Final = 64  # asked for at once
_MAX_TERM: Final = 255  # bytes of a term as it is; Postgres takes 2046
_MAX_TIMES: Final = 16  # that a term counts in one document: more make no difference
_RANKED: Final = 6_000  # documents that common terms may bring in to be ranked
_TEXT_BYTES: Final = 1_200  # of one document on disk, about
_B: Final = 0.4  # how much a document's length counts against it, as in the embedded index
# A NUL and half of a surrogate pair are in no text that Postgres takes.
_UNTAKEN: Final = re.compile("[\x00\ud800-\udfff]")
# SQLSTATEs that pass.
_LATER: Final = ("08", "40", "53", "55", "57", "58", "XX", "25006")
_FULL: Final = ("53100", "53400", "54")  # and those among them that do not
_ABSENT: Final = ("42P01", "3F000")  # there is no such table or schema
_NO_RIGHT: Final = "42501"
# While a connection is made Postgres tells only in words what is wrong. Another language of the
# server's makes these a server that is down, which is tried again and shown in its own words.
_LOCKED: Final = re.compile("no password supplied|authentication failed")
_NOT_LET_IN: Final = re.compile(
    r'pg_hba\.conf|(database|role) "[^"]*" does not exist|not permitted'
)


class _Absent(EngineDown):
    """There is no table of the bank's, or another machine has just dropped it."""


class _Connections:
    """Connections to one address, each used by one thread at a time, for one transaction."""

    def __init__(self, server: Server, address: str) -> None:
        self._server = server
        try:
            self._options: dict[str, Any] = dict(conninfo_to_dict(address))
        except psycopg.ProgrammingError:  # whose words hold parts of the address
            raise server.refused("has no address that can be used") from None
        # A password in the address is for that server; one in the environment may be another's.
        if server.key and not self._options.get("password"):
            self._options["password"] = server.key
        self._idle: list[Connection] = []
        self._is_closed = False
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self, more_seconds: float = 0.0) -> Iterator[Connection]:
        """A connection for one transaction, which is over in time or broken off."""
        try:
            connection = self._take()
            try:
                with connection.transaction():
                    # For each anew: a pooler may give each to another of its own connections.
                    connection.execute(
                        "SELECT set_config('statement_timeout', %s, true), "
                        "set_config('lock_timeout', %s, true), "
                        "set_config('synchronous_commit', %s, true)",
                        (
                            str(math.ceil((self._server.seconds + more_seconds) * 1000)),
                            str(math.ceil(self._server.seconds * 1000)),
                            "on" if self._server.settings["synchronous"] else "off",
                        ),
                    )
                    yield connection
            finally:
                self._give_back(connection)
        except psycopg.Error as error:
            raise self._failure(error) from None
        except (OSError, UnicodeError):
            raise self._server.down("cannot be reached") from None

    def _take(self) -> Connection:
        """An idle connection that the server has not ended, or a new one."""
        with self._lock:
            while self._idle:
                connection = self._idle.pop()
                # A server that waits for a question says nothing, unless it is going.
                if not connection.closed and not select.select([connection], [], [], 0)[0]:
                    return connection
                connection.close()
        options = {
            "connect_timeout": max(2, math.ceil(self._server.seconds)),  # libpq knows no shorter
            "keepalives_idle": 30,  # seconds after which a machine that is gone is noticed
            "keepalives_interval": 10,
            "application_name": "retain",
            **self._options,
            "client_encoding": "utf8",
        }
        # A pooler between would not know what was prepared, so nothing is.
        return psycopg.connect(**options, autocommit=True, prepare_threshold=None)

    def _give_back(self, connection: Connection) -> None:
        is_free = connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if is_free and not self._is_closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _failure(self, error: psycopg.Error) -> EngineError:
        server, words, state = self._server, str(error), error.sqlstate or ""
        if isinstance(error, ConnectionTimeout | QueryCanceled):
            return server.down("did not answer in time")
        if state in _ABSENT:
            return _Absent(f"{server} has no table for this bank.")
        if state == _NO_RIGHT:
            hint = "docs/engines-clusters.md has what it needs, under `A role for Postgres`."
            return server.refused(f"does not let its user do that ({state})", hint, words)
        if state:
            code = state if state.isalnum() else "?"
            if state.startswith(_LATER) and not state.startswith(_FULL):
                return server.down(f"cannot do that at the moment ({code})", words)
            return server.refused(f"refused ({code})", words=words)
        if _LOCKED.search(words):
            return server.locked("did not accept the user or the password", words)
        if _NOT_LET_IN.search(words):
            hint = "Does engine.postgres.url say the right server, user and database?"
            return server.refused("does not let this user in", hint, words)
        return server.down("cannot be reached", words)

    def close(self) -> None:
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for connection in idle:
            connection.close()


class _Postgres:
    """What both arms do with a bank's table."""

    _kind: LiteralString
    _columns: tuple[LiteralString, ...]
    _indexes: tuple[LiteralString, ...] = ("USING gin (tags)", "(collection)", "(created)")

    def __init__(self, server: Server) -> None:

        self._server, self._settings = server, server.settings
        self._primary = _Connections(server, server.url)
        replica = str(server.settings["read_url"])
        self._replica = _Connections(server, replica) if replica else None
        self._schema = f"{server.settings['schema']}_{self._kind}"
        self._table = Identifier(self._schema, server.container)
        self._mark = os.path.join(server.notes, f"postgres-{self._kind}.lsn")

    def version(self) -> str:
        with self._primary.transaction() as connection:
            return flat(_value(connection, "SHOW server_version"), 40)

    def put(self, documents: Sequence[Document]) -> None:
        if not documents:
            return
        with self._primary.transaction() as connection:
            self._make(connection, documents)
        names = ("id", "collection", "type", "status", "tags", "created", *self._columns)
        statement = SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT (id) DO NOTHING").format(
            self._table,
            SQL(", ").join(map(Identifier, names)),
            SQL(", ").join([SQL("%s")] * len(names)),
        )
        rows = [
            (
                document.id,
                _kept(document.collection),
                _kept(document.type),
                _kept(document.status),
                list(map(_kept, document.tags)),
                document.created,
                *self._values(document),
            )
            for document in documents
        ]
        with self._primary.transaction() as connection, connection.cursor() as cursor:
            cursor.executemany(statement, rows)
        self._note_log()

    def _values(self, document: Document) -> tuple[object, ...]:
        raise NotImplementedError

    def delete(self, ids: Sequence[str]) -> None:
        statement = SQL("DELETE FROM {} WHERE id = ANY(%s::uuid[]) RETURNING id")
        self._rows(statement, (sorted(ids),))

    def ids(self) -> Iterator[str]:
        return (str(id_) for (id_,) in self._rows(SQL("SELECT id FROM {}")))

    def count(self) -> int:
        return sum(count for (count,) in self._rows(SQL("SELECT count(*) FROM {}")))

    def _rows(self, query: SQL, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a query of the bank's table finds; nothing where there is no table yet."""
        try:
            with self._primary.transaction() as connection:
                return connection.execute(query.format(self._table), values).fetchall()
        except _Absent:
            return []

    def drop(self, *, others: bool = False) -> int:
        dropped = 0
        with self._primary.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKE_LOCK,))
            for name in self._tables(connection):
                if self._server.is_of_bank(name) and not (
                    others and name == self._server.container
                ):
                    table = Identifier(self._schema, name)
                    dropped += int(_value(connection, SQL("SELECT count(*) FROM {}").format(table)))
                    connection.execute(SQL("DROP TABLE {}").format(table))
        return dropped

    def close(self) -> None:
        self._primary.close()
        if self._replica:
            self._replica.close()

    # The table

    def _tables(self, connection: Connection) -> list[str]:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        return [name for (name,) in connection.execute(query, (self._schema,))]

    def _make(self, connection: Connection, documents: Sequence[Document]) -> None:
        if self._server.container in self._tables(connection):
            self._check(connection, documents)
            return
        # Two that make the same table at once would both fail.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKE_LOCK,))
        self._check_version(connection)
        # Even IF NOT EXISTS asks for a right that who only owns the schema need not have.
        schema = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if not _value(connection, schema, (self._schema,)):
            connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(self._schema)))
        connection.execute(
            SQL(
                "CREATE TABLE IF NOT EXISTS {} (id uuid PRIMARY KEY, collection text NOT NULL, "
                "type text NOT NULL, status text NOT NULL, tags text[] NOT NULL, "
                "created float8 NOT NULL, {})"
            ).format(self._table, self._own_columns(documents))
        )
        for index in self._indexes:
            connection.execute(SQL("CREATE INDEX ON {} {}").format(self._table, SQL(index)))

    def _own_columns(self, documents: Sequence[Document]) -> Composable:
        raise NotImplementedError

    def _check(self, connection: Connection, documents: Sequence[Document]) -> None:
        """Refuse documents that the table was not made for."""

    def _check_version(self, connection: Connection) -> None:
        self._server.check_version(_value(connection, "SHOW server_version"), _OLDEST)

    def _estimate(self, connection: Connection, bytes_each: int) -> int:
        """About how many documents there are, by their room: statistics may be a day old."""
        query = (
            "SELECT coalesce(sum(pg_table_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s"
        )
        return int(_value(connection, query, (self._schema, self._server.container))) // bytes_each

    # Replicas

    def _note_log(self) -> None:
        """Note how far the log is: a replica that has not come so far lacks what was put."""
        if self._replica is None:
            return
        with self._primary.transaction() as connection:
            position = _value(connection, "SELECT pg_current_wal_insert_lsn()")
        with open(self._mark, "w", encoding="ascii") as file:
            file.write(position)

    def _search(self, work: Callable[[Connection], list[Match]]) -> list[Match]:
        """Search a replica if there is one that is not behind, else the primary."""
        try:
            if self._replica is not None:
                with self._replica.transaction() as connection:
                    if self._is_level(connection):
                        return work(connection)
            with self._primary.transaction() as connection:
                return work(connection)
        except _Absent:
            return []

    def _is_level(self, connection: Connection) -> bool:
        """Whether a replica has all that this machine has put."""
        try:
            with open(self._mark, encoding="ascii") as file:
                position = file.read()
        except FileNotFoundError:
            return True
        # One that is no replica of this kind cannot say, and is believed.
        query = "SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= %s::pg_lsn"
        return _value(connection, query, (position,)) == "True"


class PostgresText(_Postgres):
    """A bank's terms in Postgres, each a lexeme of its own."""

    _kind = "text"
    _columns = ("words", "bag")
    _indexes = (*_Postgres._indexes, "USING gin (bag)")

    def _own_columns(self, documents: Sequence[Document]) -> Composable:  # noqa: ARG002

        return SQL("words int NOT NULL, bag tsvector")

    def _values(self, document: Document) -> tuple[object, ...]:
        terms = document.terms.split()
        # No configuration looks at them, so they stay as they are.
        places = {
            term: ",".join(map(str, range(1, min(times, _MAX_TIMES) + 1)))
            for term, times in Counter(terms).items()
        }
        return len(terms), " ".join(f"{_lexeme(term)}:{at}" for term, at in places.items())

    def matching(self, terms: Mapping[str, float], where: Filter, limit: int) -> list[Match]:
        """BM25 in Postgres' words.

        With weights of 1 `ts_rank` of one term is a sum of 1/n² over its places, as a part of the
        sum of all: 0.61, 0.76, 0.83 ... That is n / (n + 0.645) but for a hundredth, BM25's own
        saturation, which the document's length then bends.
        """
        best = sorted(((w, term) for term, w in terms.items() if w > 0), reverse=True)[:_MAX_TERMS]
        if not best or limit <= 0:
            return []
        condition, values = _condition(where)
        query = SQL(
            "WITH found AS MATERIALIZED (SELECT p.id, p.words, p.bag "
            "FROM {} p WHERE p.bag @@ %(any)s::tsquery AND {}), "
            "mean AS (SELECT greatest(avg(words), 1) AS words FROM found) "
            "SELECT f.id, s.score FROM found f CROSS JOIN mean "
            "CROSS JOIN LATERAL (SELECT sum(t.weight * r.rank / (r.rank + (1 - r.rank) * "
            "(1 - %(b)s + %(b)s * f.words / mean.words))) AS score "
            "FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS t (term, weight) "
            "CROSS JOIN LATERAL (SELECT ts_rank('{{1,1,1,1}}', f.bag, t.term::tsquery)::float8 "
            "AS rank) r) s ORDER BY s.score DESC, f.id LIMIT %(limit)s"
        ).format(self._table, condition)

        def match(connection: Connection) -> list[Match]:
            # Every search leaves out what is retired, which are few; other conditions leave few in.
            is_open = where._replace(without_statuses=()) == Filter()
            documents = self._estimate(connection, _TEXT_BYTES) if is_open else 0
            more = {
                "any": _choose_terms(best, documents),
                "terms": [_lexeme(term) for _, term in best],
                "weights": [weight for weight, _ in best],
                "b": _B,
                "limit": limit,
            }
            rows = connection.execute(query, values | more).fetchall()
            return [Match(str(id_), float(score)) for id_, score in rows]

        return self._search(match)


def _choose_terms(best: Sequence[tuple[float, str]], documents: int) -> str:
    """Which documents are ranked: those with the rarest terms; the others still count in these.

    A weight is a rarity, the logarithm of one in how many documents has the term.
    """
    ranked, most = 0.0, 0
    for weight, _ in best:
        ranked += documents * math.exp(-weight)
        if ranked > _RANKED:
            break
        most += 1
    if most:
        return " | ".join(_lexeme(term) for _, term in best[:most])
    return " & ".join(_lexeme(term) for _, term in best[:3])  # all are common: where they meet


def _lexeme(term: str) -> str:
    """A term between quotes, where only quotes and backslashes mean anything."""
    term = _kept(term)
    if len(term.encode()) > _MAX_TERM:
        term = hashlib.sha256(term.encode()).hexdigest()
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


class PostgresVectors(_Postgres):
    """A bank's vectors in Postgres with pgvector."""

    _kind = "vector"
    _columns = ("vector",)

    def put(self, documents: Sequence[Document]) -> None:
        documents = [document for document in documents if document.vector is not None]
        super().put(documents)
        if documents:
            self._build_graph()

    def _values(self, document: Document) -> tuple[object, ...]:
        return (_spell(document.vector),) if document.vector is not None else (None,)

    def _own_columns(self, documents: Sequence[Document]) -> Composable:
        length = _length(documents)
        is_half = self._settings["half"] or length > _MAX_WHOLE
        kind = SQL("halfvec") if is_half else SQL("vector")
        return SQL("vector {}({})").format(kind, Literal(length))

    def _check(self, connection: Connection, documents: Sequence[Document]) -> None:
        made, _ = self._made(connection)
        if made != _length(documents):
            raise self._server.unfit(made, _length(documents))

    def _made(self, connection: Connection) -> tuple[int, bool]:
        """How long the vectors of the table are, and whether their numbers take 16 bits."""
        query = (
            "SELECT a.atttypmod, t.typname = 'halfvec' "
            "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
            "JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND a.attname = 'vector'"
        )
        row = connection.execute(query, (self._schema, self._server.container)).fetchone()
        return (int(row[0]), bool(row[1])) if row else (0, False)

    def _check_version(self, connection: Connection) -> None:
        super()._check_version(connection)
        query: LiteralString = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        if not _value(connection, query):
            try:
                with connection.transaction():
                    connection.execute("CREATE EXTENSION vector")
            except psycopg.Error:
                hint = "Have its administrator run CREATE EXTENSION vector in that database."
                raise self._server.refused("lacks pgvector", hint) from None
        self._server.check_version(_value(connection, query), _OLDEST_VECTOR, "pgvector")

    def nearest(self, vector: Floats, where: Filter, limit: int) -> list[Match]:
        condition, values = _condition(where)
        values |= {"vector": _spell(vector), "limit": limit}

        def match(connection: Connection) -> list[Match]:
            made, is_half = self._made(connection)
            if made and made != len(vector):
                raise self._server.unfit(made, len(vector))
            query = SQL(
                "SELECT p.id, -(p.vector <#> %(vector)s::{0}) FROM {1} p WHERE {2} "
                "ORDER BY p.vector <#> %(vector)s::{0} LIMIT %(limit)s"
            ).format(SQL("halfvec" if is_half else "vector"), self._table, condition)
            breadth = min(1_000, max(int(self._settings["ef"]), limit))
            _configure(
                connection,
                {
                    "hnsw.ef_search": str(breadth),
                    "hnsw.iterative_scan": "strict_order",
                    "enable_seqscan": "off",  # where there is a graph: a table without is read
                },
            )
            rows = connection.execute(query, values).fetchall()
            if len(rows) < limit:
                # Too few passed the condition among all that the graph came by, or all are there.
                _configure(connection, {"enable_indexscan": "off", "enable_seqscan": "on"})
                rows = connection.execute(query, values).fetchall()
            return [Match(str(id_), float(score)) for id_, score in rows]

        return self._search(match)

    # The graph: all at once it takes a tenth of the time that it takes with each vector that comes

    def _build_graph(self) -> None:
        with self._primary.transaction() as connection:
            made, is_half = self._made(connection)
            size = (2 if is_half else 4) * made + 250
            is_small = self._estimate(connection, size) <= self._settings["exact"]
            if is_small or self._has_graph(connection):
                return
        with self._primary.transaction(float(self._settings["building"])) as connection:
            lock = _value(connection, "SELECT pg_try_advisory_xact_lock(%s)", (_MAKE_LOCK + 1,))
            # Where another machine builds one, the next put sees to it.
            if lock != "True" or self._has_graph(connection):
                return
            _configure(connection, {"maintenance_work_mem": str(self._settings["memory"])})
            statement = SQL(
                "CREATE INDEX ON {} USING hnsw (vector {}) WITH (m = {}, ef_construction = {})"
            ).format(
                self._table,
                SQL("halfvec_ip_ops") if is_half else SQL("vector_ip_ops"),
                Literal(self._settings["m"]),
                Literal(self._settings["ef_construction"]),
            )
            connection.execute(statement)

    def _has_graph(self, connection: Connection) -> bool:
        query = (
            "SELECT 1 FROM pg_indexes WHERE schemaname = %s AND tablename = %s "
            "AND indexdef LIKE '%%USING hnsw%%'"
        )
        return _value(connection, query, (self._schema, self._server.container)) == "1"


def _length(documents: Sequence[Document]) -> int:
    """The length of the vectors, of which there is one at least."""
    return next(len(document.vector) for document in documents if document.vector is not None)


def _spell(vector: Floats) -> str:
    # Nine digits are all that a number of 32 bits has.
    return f"[{','.join(f'{number:.9g}' for number in vector.tolist())}]"


def _configure(connection: Connection, options: Mapping[str, str]) -> None:
    """Set options for the rest of a transaction."""
    for name, value in options.items():
        connection.execute("SELECT set_config(%s, %s, true)", (name, value))


def _value(
    connection: Connection, query: LiteralString | Composed, values: Sequence[object] = ()
) -> str:
    """The first column of the first row, empty where there is none."""
    row = connection.execute(query, values).fetchone()
    return str(row[0]) if row else ""


def _kept(text: str) -> str:
    """A text as Postgres keeps it."""
    return json.dumps(text) if text.startswith('"') or _UNTAKEN.search(text) else text


def _condition(where: Filter) -> tuple[Composable, dict[str, Any]]:
    """A filter in SQL; every value goes as a value, never as a part of it."""
    conditions: dict[LiteralString, object] = {
        "p.collection = ANY(%(c0)s)": where.collections,
        "p.type = ANY(%(c1)s)": where.types,
        "p.tags && %(c2)s::text[]": where.tags,
        "p.status = ANY(%(c3)s)": where.statuses,
        "NOT p.status = ANY(%(c4)s)": where.without_statuses,
        "p.created <> 0 AND p.created >= %(c5)s": where.since,
        "p.created <> 0 AND p.created <= %(c6)s": where.until,
    }
    parts: list[LiteralString] = ["true"]
    values: dict[str, Any] = {}
    for number, (part, value) in enumerate(conditions.items()):
        if value is not None and value != ():
            parts.append(part)
            values[f"c{number}"] = list(map(_kept, value)) if isinstance(value, tuple) else value
    return SQL(" AND ").join(map(SQL, parts)), values
