"""What an engine is still to be told: the difference between the index and what was delivered.

There is no queue that could be lost or fall out of step. The index says what each memory is now,
the table `delivered` what the engine was given of it last; whatever differs waits. Only the newest
state of a memory is ever sent, so deliveries of one memory cannot overtake each other.

Notes are about one arm on one server: `arm` is the key of a `Wire`. What was told to a server that
a person had before is still known when they come back to it, and so is what was deleted since.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index import database
from retain.index.engines.arm import Held, Piece

if TYPE_CHECKING:
    from retain.index.engines.naming import Names
    from retain.index.vectors import Floats


Notes = Mapping[str, str]  # of each memory what is noted
Kept = tuple[Sequence[tuple[object, ...]], Sequence[tuple[object, ...]]]  # notes and their servers


_AHEAD_OF_TIME: Final = 86_400.0  # seconds


class Waiting(NamedTuple):
    """Memories that an engine has to be told of, as far as they fit into one go."""

    changed: tuple[int, ...]  # their numbers
    deleted: tuple[str, ...]  # collection/file


# How texts are cut, their words stemmed and their vectors joined: raised when any of that is done
# in another way, so that every engine is told again though no file has changed.
CUT: Final = 1
HASH: Final = f"lower(hex(m.hash)) || '-{CUT}'"  # of a memory, as engines hold it
# In place of what an engine has: it holds something newer, from another machine or from a clock
# that is ahead. It is not told again, and its word does not count: this memory is looked at here.
AHEAD: Final = "ahead:"
# A delivery was begun and not seen to its end, or it has an older version: it may hold any of these
# hashes, each of which is ours to replace or to bury. It is told again, whatever it says it has: of
# a server's copies some may have heard of it and others not.
BEGUN: Final = "begun:"
# It was told that the memory is deleted; when, and what it had before. A memory that is here again
# takes the place of that mark, and a server that has come back from an older copy is told again.
BURIED: Final = "buried:"
ANY: Final = "*"  # in place of a hash: whatever it holds is ours
_EITHER: Final = "|"  # between them
_PLACE: Final = 3  # words of a target: the product, where it is, and what the bank is called there
_VERSIONS: Final = 8  # of them that are kept, the newest

# Whatever changes gets a new number, higher than any before: up to `:floor` nothing has to be
# looked at again, and of a hundred thousand memories only the last few are.
_BESIDE: Final = (
    "FROM memories m LEFT JOIN delivered d ON d.arm = :arm AND d.collection = m.collection "
    "AND d.file = m.file WHERE m.number > :floor"
)
_OTHER: Final = f"(d.hash IS NULL OR d.hash NOT IN ({HASH}, '{AHEAD}' || {HASH}))"
# What is missing from disk together with most others is held, not deleted: see `sync`.
_CHANGED: Final = f"SELECT m.number {_BESIDE} AND NOT m.is_gone AND {_OTHER}"
_FIRST: Final = f"SELECT min(m.number) {_BESIDE} AND {_OTHER}"
_AHEAD: Final = (
    "SELECT m.number FROM delivered d JOIN memories m ON m.collection = d.collection "  # noqa: S608 - our own words
    f"AND m.file = d.file WHERE d.arm = :arm AND d.hash GLOB '{AHEAD}*' "
    f"AND NOT m.is_gone AND d.hash = '{AHEAD}' || {HASH}"
)
LACKS: Final = (
    "EXISTS (SELECT 1 FROM chunks c JOIN pending p ON p.chunk = c.number WHERE c.memory = m.number)"
)
_DELETED: Final = (
    "SELECT d.collection || '/' || d.file FROM delivered d LEFT JOIN memories m "
    "ON m.collection = d.collection AND m.file = d.file "
    "WHERE d.arm = :arm AND d.is_left AND m.number IS NULL"
)
_MARK: Final = (
    "INSERT OR REPLACE INTO delivered (arm, collection, file, hash, is_left) "  # noqa: S608 - our own words
    "VALUES (?1, ?2, ?3, "
    # Somebody may have deleted it while it was on its way.
    f"?4, ?4 NOT GLOB '{BURIED}*' AND NOT EXISTS "
    "(SELECT 1 FROM memories WHERE collection = ?2 AND file = ?3))"
)
_LEAVE: Final = (
    "UPDATE delivered SET is_left = 1 WHERE arm = ? AND NOT is_left "  # noqa: S608 - our own words
    f"AND hash NOT GLOB '{BURIED}*' "
    "AND NOT EXISTS (SELECT 1 FROM memories m "
    "WHERE m.collection = delivered.collection AND m.file = delivered.file)"
)


def waiting(
    connection: sqlite3.Connection, arm: str, most: int, *, needs_vectors: bool, after: int = 0
) -> Waiting:
    """The next memories to send, in the order of their numbers; those up to `after` had theirs."""
    condition = f" AND NOT {LACKS}" if needs_vectors else ""
    values = {"arm": arm, "floor": max(after, floor(connection, arm)), "most": most}
    changed = connection.execute(f"{_CHANGED}{condition} ORDER BY m.number LIMIT :most", values)
    numbers = tuple(number for (number,) in changed)
    deleted = connection.execute(f"{_DELETED} LIMIT :most", values)
    return Waiting(numbers, tuple(name for (name,) in deleted))


def unknown(connection: sqlite3.Connection, arm: str, most: int) -> list[int]:
    """The memories that an engine does not hold as they are here."""
    query = f"{_CHANGED} UNION ALL {_AHEAD} LIMIT :most"
    found = connection.execute(query, {**_about(connection, arm), "most": most})
    return [number for (number,) in found]


def lacking(connection: sqlite3.Connection, arm: str) -> int:
    """How many memories wait that have no vectors yet, and so cannot be sent."""
    return _count(connection, f"{_CHANGED} AND {LACKS}", arm)


def told(connection: sqlite3.Connection, arm: str) -> int:
    """How many memories an engine was given."""
    query = (
        "SELECT 1 FROM delivered WHERE arm = :arm "  # noqa: S608 - our own words
        f"AND hash NOT GLOB '{BEGUN}*' AND hash NOT GLOB '{BURIED}*'"
    )
    return _count(connection, query, arm)


def left(connection: sqlite3.Connection, arm: str) -> int:
    """How many changes wait for an engine."""
    return _count(connection, _CHANGED, arm) + _count(connection, _DELETED, arm)


def _count(connection: sqlite3.Connection, query: str, arm: str) -> int:
    counting = f"SELECT count(*) FROM ({query})"  # noqa: S608 - our own words
    return int(connection.execute(counting, _about(connection, arm)).fetchone()[0])


def _about(connection: sqlite3.Connection, arm: str) -> dict[str, object]:
    return {"arm": arm, "floor": floor(connection, arm)}


def floor(connection: sqlite3.Connection, arm: str) -> int:
    """Up to which number an engine was told of every memory."""
    return int(str(database.fact(connection, _floor(arm)) or 0))


def raise_floor(connection: sqlite3.Connection, arm: str) -> None:
    """Note how far that goes by now; only what came since has to be looked at for it."""
    (first,) = connection.execute(_FIRST, _about(connection, arm)).fetchone()
    # A number that was given before is never given again.
    found = int(first) - 1 if first is not None else database.last_number(connection, "memories")
    if found != floor(connection, arm):
        database.set_fact(connection, _floor(arm), found)


def ahead(connection: sqlite3.Connection, arm: str) -> int:
    """Of how many memories an engine holds something newer."""
    return _count(connection, _AHEAD, arm)


def _floor(arm: str) -> str:
    # Of this way to cut texts: in another one every memory is a new one.
    return f"engine:{arm}:floor-{CUT}"


def given(connection: sqlite3.Connection, arm: str, memories: Sequence[str]) -> dict[str, str]:
    """What is noted of these memories."""
    query = "SELECT hash FROM delivered WHERE arm = ? AND collection = ? AND file = ?"
    found = {}
    for name in memories:
        row = connection.execute(query, (arm, *_parted(name))).fetchone()
        if row:
            found[name] = row[0]
    return found


def mark(
    connection: sqlite3.Connection, arm: str, given: Mapping[str, str], gone: Iterable[str]
) -> None:
    """Note what an engine has now: each memory's hash, and those it was told are deleted."""
    connection.executemany(_MARK, ((arm, *_parted(name), hash_) for name, hash_ in given.items()))
    connection.executemany(
        "DELETE FROM delivered WHERE arm = ? AND collection = ? AND file = ?",
        ((arm, *_parted(name)) for name in gone),
    )


def begin(connection: sqlite3.Connection, arm: str, told: Mapping[str, str]) -> None:
    """Note what an engine is about to be told, each memory's hash: it may hear and not answer."""
    before = given(connection, arm, list(told))
    notes = {}
    for name, hash_ in told.items():
        versions = dict.fromkeys([hash_, *versions_of(before.get(name, ""))])
        notes[name] = BEGUN + _EITHER.join(list(versions)[:_VERSIONS])
    mark(connection, arm, notes, ())


def spoil(connection: sqlite3.Connection, arm: str, memories: Sequence[str]) -> None:
    """Have memories told again, whatever is noted; what an engine may hold of them stays known."""
    noted = given(connection, arm, memories)
    begin(connection, arm, {name: versions_of(note)[0] for name, note in noted.items()})
    doubt(connection, arm)


def claim(connection: sqlite3.Connection, arm: str, memories: Sequence[str]) -> None:
    """Have memories told as they are here, or as deleted, whatever an engine holds of them."""
    mark(connection, arm, dict.fromkeys(memories, BEGUN + ANY), ())
    doubt(connection, arm)


def buried(note: str, at: float) -> str:
    """What is noted of a memory once an engine has the mark that it is deleted, dated so."""
    return f"{BURIED}{at}{_EITHER}{_EITHER.join(versions_of(note))}"


def unbury(connection: sqlite3.Connection, arm: str, before: float) -> None:
    """Forget what was deleted before this moment."""
    connection.execute(
        f"DELETE FROM delivered WHERE arm = ? AND hash GLOB '{BURIED}*' "  # noqa: S608 - our own words
        f"AND CAST(substr(hash, {len(BURIED) + 1}) AS REAL) < ?",
        (arm, before),
    )


def owned(note: str) -> str:
    """The same note where whatever an engine holds is ours."""
    return note if ANY in versions_of(note) else f"{note}{_EITHER}{ANY}"


def is_ours(note: str, held: Held) -> bool:
    """Whether what an engine holds is what it was told from here: then it is ours to replace.

    That is so whatever the dates say: a person who changes a file by hand, or brings an older text
    back, changes no date in it.
    """
    versions = versions_of(note)
    if ANY in versions:
        return True
    if held.is_grave or not note.startswith(BURIED):
        return note.startswith(BURIED) if held.is_grave else held.hash in versions
    # What is later than the mark somebody has brought back; what is earlier, an older copy has.
    at = float(note.removeprefix(BURIED).partition(_EITHER)[0])
    return held.hash in versions and held.written < at


def versions_of(note: str) -> list[str]:
    """The hashes that an engine may hold of a memory because it was told of them from here."""
    if note.startswith(BURIED):
        return note.split(_EITHER)[1:]
    return note.removeprefix(AHEAD).removeprefix(BEGUN).split(_EITHER)


def notes(connection: sqlite3.Connection, arm: str) -> dict[str, str]:
    """All that is noted of an arm."""
    query = "SELECT collection || '/' || file, hash FROM delivered WHERE arm = ?"
    return dict(connection.execute(query, (arm,)))


def known(connection: sqlite3.Connection, arm: str, target: str) -> list[Notes]:
    """What is noted of an arm; before it is met, also what the same bank's others were told.

    An address may have changed and the server not: what was deleted or edited here since it was
    told is known by the old address alone.
    """
    found: list[Notes] = [notes(connection, arm)]
    if is_met(connection, arm):
        return found
    part = arm.partition("-")[0]
    query = "SELECT name, value FROM facts WHERE name GLOB ? AND name NOT GLOB 'engine:*:*'"
    for name, other in connection.execute(query, (f"engine:{part}-*",)).fetchall():
        if _bank_of(str(other)) == _bank_of(target):
            found.append(notes(connection, name.removeprefix("engine:")))
    return found


def about(known: Sequence[Notes], held: Held) -> str:
    """The note that makes what an engine holds ours, else the engine's own, which may be empty."""
    found = [notes.get(held.memory, "") for notes in known]
    return next((note for note in found if is_ours(note, held)), found[0])


def _bank_of(target: str) -> str:
    """What the bank is called on the server that a `Wire` leads to."""
    return target.split(" ")[2]


def kept(connection: sqlite3.Connection) -> Kept:
    """All that is noted, to be kept while an index is made anew."""
    rows_ = connection.execute("SELECT arm, collection, file, hash FROM delivered").fetchall()
    servers = "SELECT name, value FROM facts WHERE name GLOB 'engine:*-*' AND name NOT GLOB '*:*:*'"
    return rows_, connection.execute(servers).fetchall()


def keep(connection: sqlite3.Connection, kept: Kept) -> None:
    """Note it again in an index that has all its memories; each server is asked before it counts.

    By that it is known what was deleted or edited here and not told yet.
    """
    told, servers = kept
    connection.executemany("INSERT OR REPLACE INTO delivered VALUES (?, ?, ?, ?, 0)", told)
    for name, target in servers:
        connection.execute("DELETE FROM facts WHERE name GLOB ? || ':*'", (name,))
        database.set_fact(connection, str(name), str(target))
        connection.execute(_LEAVE, (str(name).removeprefix("engine:"),))


def _parted(name: str) -> tuple[str, str]:
    collection, _, file = name.rpartition("/")
    return collection, file


def is_met(connection: sqlite3.Connection, arm: str) -> bool:
    """Whether a server was ever asked what it holds, and so told anything."""
    return bool(database.fact(connection, f"engine:{arm}"))


def learn(
    connection: sqlite3.Connection,
    arm: str,
    target: str,
    given: Mapping[str, str],
    here: Iterable[str],
) -> None:
    """Note what a server says it holds of the memories that are here; `target` says which it is.

    What was delivered and is not here any more stays noted: by that it is known to be deleted.
    """
    before = notes(connection, arm)  # most of it is as it was, and need not be written
    new = {name: note for name, note in given.items() if before.get(name) != note}
    mark(connection, arm, new, (set(here) - given.keys()) & before.keys())
    connection.execute(_LEAVE, (arm,))
    database.set_fact(connection, f"engine:{arm}", target)
    doubt(connection, arm)


def servers(connection: sqlite3.Connection) -> dict[str, str]:
    """The servers that something is noted of: each arm, and the target of its `Wire`."""
    query = "SELECT name, value FROM facts WHERE name GLOB 'engine:*-*' AND name NOT GLOB '*:*:*'"
    found = connection.execute(query).fetchall()
    return {str(name).removeprefix("engine:"): str(target) for name, target in found}


def namesakes(connection: sqlite3.Connection, part: str, target: str) -> list[str]:
    """The arms of a part that are noted for the same bank on the same server, by any model."""
    here = target.split(" ")[:_PLACE]
    return [
        arm
        for arm, other in servers(connection).items()
        if arm.startswith(f"{part}-") and other.split(" ")[:_PLACE] == here
    ]


def forget(connection: sqlite3.Connection, arm: str) -> None:
    """Know nothing any more about what an engine holds."""
    connection.execute("DELETE FROM delivered WHERE arm = ?", (arm,))
    connection.execute(
        "DELETE FROM facts WHERE name = ?1 OR name GLOB ?1 || ':*'", (f"engine:{arm}",)
    )


def doubt(connection: sqlite3.Connection, arm: str) -> None:
    """Do not take for granted any longer what an engine was told of."""
    connection.execute("DELETE FROM facts WHERE name = ?", (_floor(arm),))


# Memories as pieces

_MEMORY: Final = (
    f"SELECT number, collection, file, {HASH}, chunks, type, status, created, written, "  # noqa: S608 - our own words
    "tags FROM memories m WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number"
)
_CHUNK: Final = (
    "SELECT c.number, lower(hex(c.digest)), t.c0 FROM chunks c "
    "LEFT JOIN terms_content t ON t.id = c.number WHERE c.memory = ? ORDER BY c.number"
)


def pieces(
    connection: sqlite3.Connection, names: Names, numbers: Sequence[int], model: str = ""
) -> Iterator[list[Piece]]:
    """Each of these memories as its pieces; with a model's vectors if one is named."""
    for row in connection.execute(_MEMORY, (json.dumps(list(numbers)),)).fetchall():
        yield _pieces(connection, names, row, model)


def _pieces(
    connection: sqlite3.Connection, names: Names, row: Sequence[object], model: str
) -> list[Piece]:
    number, collection, file, hash_, count, kind, status, created, written, tags = row
    memory = f"{collection}/{file}"
    chunks = connection.execute(_CHUNK, (number,)).fetchall()
    vectors = _vectors(connection, int(str(number)), model) if model else {}
    return [
        Piece(
            id=names.piece(memory, place),
            memory=memory,
            place=place,
            pieces=int(str(count)),
            collection=str(collection),
            type=str(kind),
            status=str(status),
            tags=tuple(dict.fromkeys(tag.casefold() for tag in json.loads(str(tags)))),
            created=_seconds(str(created)),
            hash=str(hash_),
            # A clock that is far ahead would win against all that is ever written after it.
            written=min(float(str(written)), time.time() + _AHEAD_OF_TIME),
            digest=digest,
            model=model,
            vector=vectors.get(chunk),
            terms=terms or "",
        )
        for place, (chunk, digest, terms) in enumerate(chunks)
    ]


def _vectors(connection: sqlite3.Connection, memory: int, model: str) -> dict[int, Floats]:
    """A memory's vectors, each with its neighbours added, as the embedded arm compares them."""
    from retain.index.vectors import of_memory

    return of_memory(connection, memory, model)


def _seconds(created: str) -> float:
    try:
        moment = datetime.fromisoformat(created)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
