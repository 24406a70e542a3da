"""What both arms do with a bank's rows: written, removed, told again, on a replica or not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, LiteralString

from retain.index.engines.arm import GRAVE, Held, Piece, Sieve
from retain.index.engines.postgres.conditions import condition_of
from retain.index.engines.postgres.connections import Connections
from retain.index.engines.postgres.tables import Tables
from retain.index.engines.spelling import kept, meant
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

    from retain.index.engines.naming import Names
    from retain.index.engines.postgres.settings import PostgresSettings, Replica


_PAGE: Final = 2_000  # rows fetched at once
_PORTION: Final = 100  # pieces written in one transaction, unless one memory has more
_EACH: Final = 0.05  # seconds that each of them may add to what a transaction may take


class Rows(Tables):
    """What both arms do."""

    name = "Postgres"
    _columns: tuple[LiteralString, ...]

    def __init__(
        self,
        address: str,
        key: str,
        names: Names,
        patience: float,
        settings: PostgresSettings,
        replica: Replica | None,
    ) -> None:
        super().__init__(Connections(address, key, patience, settings), names, settings)
        self._replica = Connections(replica.address, key, patience, settings) if replica else None
        self._mark = replica.mark if replica else None

    def load(self) -> None:
        """It was loaded to read the address."""

    def version(self) -> str:
        with self._wire.transaction() as connection:
            return _one(connection, "SHOW server_version")

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
        self._note()

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

    def _owner(self, memory: str) -> str:
        """One short name for all pieces of a memory, however long its own is."""
        return self._names.piece(memory, GRAVE)

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
        self._note()
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
            self._note()
            yield from map(_held, rows)
            if len(rows) < _PAGE:
                return
            last = str(rows[-1][0])

    def prune(self, before: float) -> int:
        from psycopg.sql import SQL

        with self._existing() as connection:
            if connection is None:
                return 0
            statement = SQL("DELETE FROM {} WHERE hash = '' AND written < %s")
            return connection.execute(statement.format(self._memories), (before,)).rowcount

    def _holding(self, which: Composable) -> Composed:
        from psycopg.sql import SQL

        return SQL(
            "SELECT m.owner, m.memory, m.hash, m.written, m.pieces, m.model, (SELECT count(*) "
            "FROM {} p WHERE p.owner = m.owner) FROM {} m {}"
        ).format(self._pieces, self._memories, which)

    def count(self, sieve: Sieve) -> int:
        from psycopg.sql import SQL

        condition, values = condition_of(sieve, self._names)
        with self._existing() as connection:
            if connection is None:
                return 0
            query = SQL("SELECT count(*) FROM {} p WHERE {}").format(self._pieces, condition)
            ((found,),) = connection.execute(query, values).fetchall()
            return int(found)

    def otherwise(self) -> list[str]:
        return []

    def adapt(self) -> None:
        """There is nothing about words that could be made in another way."""

    def close(self) -> None:
        self._wire.close()
        if self._replica:
            self._replica.close()

    def _note(self) -> None:
        """Note how far the log is: a replica that has not come so far lacks what was told."""
        if self._mark is None:
            return
        now: LiteralString = "SELECT pg_current_wal_lsn()"  # behind what was committed by now,
        if not self._settings.synchronous:  # unless nobody waits until that is written
            now = "SELECT pg_current_wal_insert_lsn()"
        with self._wire.transaction() as connection:
            self._mark.note(_one(connection, now))

    @contextmanager
    def _asking(self) -> Iterator[Connection | None]:
        """A connection to search by: a replica's if there is one that is not behind."""
        if self._replica is not None:
            with self._replica.transaction() as connection:
                if self._is_level(connection):
                    yield connection if self._bank in self._there(connection) else None
                    return
        with self._existing() as connection:
            yield connection

    def _is_level(self, connection: Connection) -> bool:
        """Whether a replica has all that this machine has told, or knows to be there."""
        place = self._mark.read() if self._mark else ""
        if not place:
            return True
        # One that is no replica of this kind cannot say, and is believed.
        row = connection.execute(
            "SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= %s::pg_lsn", (place,)
        ).fetchone()
        return row == (True,)


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
