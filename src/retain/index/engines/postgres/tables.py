"""A bank's tables in Postgres: made where they are missing, looked at, dropped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, LiteralString

from retain.index.engines.arm import EngineRefused

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

    from retain.index.engines.naming import Names
    from retain.index.engines.postgres.connections import Connections
    from retain.index.engines.postgres.settings import PostgresSettings


_OLDEST: Final = 140_000
_MAKING: Final = 0x52657461  # the lock under which tables are made
BUILDING: Final = _MAKING + 1  # and graphs, which takes long


class Tables:
    """The tables of a bank for one arm: one of memories, one of pieces with all its partitions."""

    _kind: LiteralString

    def __init__(self, wire: Connections, names: Names, settings: PostgresSettings) -> None:
        self._wire = wire
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
            self._make_schema(connection)
            for statement in self._foundation():
                connection.execute(statement)
        for name in missing:
            if name not in there:
                for statement in self._partition(name):
                    connection.execute(statement)

    def _make_schema(self, connection: Connection) -> None:
        from psycopg.sql import SQL, Identifier

        found = connection.execute(
            "SELECT 1 FROM pg_namespace WHERE nspname = %s", (self._space,)
        ).fetchone()
        # Even IF NOT EXISTS asks for a right that who only owns the schema need not have.
        if found is None:
            connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(self._space)))

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
        from psycopg.sql import SQL

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

    def drop(self) -> None:
        from psycopg.sql import SQL

        with self._wire.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MAKING,))
            for table in (self._pieces, self._memories):
                connection.execute(SQL("DROP TABLE IF EXISTS {}").format(table))

    @contextmanager
    def _existing(self) -> Iterator[Connection | None]:
        """A connection if there is anything of the bank's to ask about."""
        with self._wire.transaction() as connection:
            yield connection if self._bank in self._there(connection) else None


def estimate(connection: Connection, space: str, table: str, each: int) -> int:
    """About how many pieces there are, by the room they take; the statistics may be a day old."""
    row = connection.execute(
        "SELECT coalesce(sum(pg_table_size(t.relid)), 0)::bigint FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "CROSS JOIN LATERAL pg_partition_tree(c.oid) t WHERE n.nspname = %s AND c.relname = %s",
        (space, table),
    ).fetchone()
    return int(row[0]) // each if row else 0
