"""What every arm of every engine must do, whatever the server behind it.

The classes here are collected by `test_contract`, once for each row of `rows`.
"""

from __future__ import annotations

import hashlib
import random
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

import numpy as np
import pytest

from retain.index.engines.arm import (
    GRAVE,
    Arm,
    EngineDown,
    EngineError,
    EngineRefused,
    Held,
    Match,
    Piece,
    Sieve,
    TextArm,
    VectorArm,
)
from retain.index.engines.naming import Names
from retain.index.vectors import Floats
from tests.engines.servers import Odd, Server, free_port, odd

__all__ = [
    "DIMENSION",
    "HOSTILE",
    "KEY",
    "MODEL",
    "Bench",
    "EveryArm",
    "Faults",
    "Row",
    "TextContract",
    "VectorContract",
    "forged",
    "grave",
    "memory",
    "unit",
]

DIMENSION: Final = 32
MODEL: Final = "contract-model"
KEY: Final = "sk-N0bodyMaySeeThis"  # of the servers
WRONG: Final = "sk-NorMayTheySeeThat"
COMMON: Final = "common"  # a term that every piece has
HOSTILE: Final = (
    "foo-bar",
    "c++",
    "it's",
    '" OR 1=1',
    "' OR '1'='1",
    '"quoted"',
    "nul\x00inside",
    "*",
    "%_",
    "\\",
    "\\' OR 1=1 --",
    "a AND b",
    "[x] (y) {z}",
    "../../etc",
    "zeile\nzwei",
    "日本語",
    "\N{COMBINING ACUTE ACCENT}\N{RIGHT-TO-LEFT OVERRIDE}\N{GRINNING FACE}",
    "x" * 10_000,
)


class Row(NamedTuple):
    """One arm of one engine."""

    name: str
    product: str  # rows of one product share a server
    kind: Literal["vector", "text"]
    server: Callable[[Path], Server]  # not started yet, with KEY as its key
    arm: Callable[[str, str, Names, float], Arm]  # from address, key, names and patience
    speaks_http: bool = True
    scheme: str = "http"  # of its addresses


class Bench:
    """A bank of its own on a server, and what a test asks of it."""

    def __init__(self, row: Row, server: Server, names: Names) -> None:
        self.row, self.server, self.names = row, server, names
        self._made: list[Arm] = []
        self.arm = self.another(names)

    @property
    def vectors(self) -> VectorArm:
        if self.row.kind != "vector":
            pytest.skip("this arm finds by words")
        return cast(VectorArm, self.arm)

    @property
    def text(self) -> TextArm:
        if self.row.kind != "text":
            pytest.skip("this arm finds by meaning")
        return cast(TextArm, self.arm)

    def another(
        self, names: Names, *, address: str = "", key: str | None = None, patience: float = 30.0
    ) -> Arm:
        """One more arm; it is closed with the others."""
        key = self.server.key if key is None else key
        arm = self.row.arm(address or self.server.address, key, names, patience)
        self._made.append(arm)
        return arm

    def put(self, *memories: list[Piece], arm: Arm | None = None) -> None:
        (arm or self.arm).put([piece for pieces in memories for piece in pieces])

    def find(
        self, sieve: Sieve | None = None, limit: int = 100, arm: Arm | None = None
    ) -> set[str]:
        """The memories that are found when nothing but the sieve decides."""
        return {match.memory for match in self.matches(sieve, limit, arm)}

    def matches(
        self, sieve: Sieve | None = None, limit: int = 100, arm: Arm | None = None
    ) -> list[Match]:
        asked = arm or self.arm
        sieve = sieve or Sieve()
        if self.row.kind == "vector":
            probe = unit("probe")
            (found,) = cast(VectorArm, asked).nearest([probe], MODEL, sieve, [limit])
            return found
        return cast(TextArm, asked).matching({COMMON: 1.0}, sieve, limit)

    def manifest(self, arm: Arm | None = None) -> dict[str, Held]:
        """What the server says it holds; no memory may be named twice."""
        listed = list((arm or self.arm).manifest())
        found = {held.memory: held for held in listed}
        assert len(found) == len(listed)
        return found

    def close(self) -> None:
        for arm in self._made:
            arm.close()

    def end(self) -> None:
        self.arm.drop()
        self.close()


def unit(seed: str) -> Floats:
    """A vector of length 1, always the same for the same seed."""
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()
    dice = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    vector: Floats = dice.standard_normal(DIMENSION).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def memory(
    names: Names,
    name: str,
    *,
    chunks: int = 1,
    version: int = 1,
    type: str = "note",
    status: str = "active",
    tags: Sequence[str] = (),
    created: float = 1_700_000_000.0,
    written: float | None = None,
    terms: Sequence[str] = (),
    vectors: Sequence[Floats] = (),
    model: str = MODEL,
) -> list[Piece]:
    """A memory in so many pieces; a later version has another hash and was written later."""
    collection = name.rpartition("/")[0]
    hash_ = hashlib.sha256(f"{name} {version}".encode("utf-8", "surrogatepass")).hexdigest()
    return [
        Piece(
            id=names.piece(name, place),
            memory=name,
            place=place,
            pieces=chunks,
            collection=collection,
            type=type,
            status=status,
            tags=tuple(tags),
            created=created,
            hash=hash_,
            written=1_750_000_000.123456 + version if written is None else written,
            digest=hashlib.sha256(f"{hash_} {place}".encode()).hexdigest(),
            model=model,
            vector=vectors[place] if vectors else unit(f"{name} {version} {place}"),
            terms=" ".join([COMMON, *terms]),
        )
        for place in range(chunks)
    ]


def grave(names: Names, name: str, *, version: int = 2) -> list[Piece]:
    """The piece that says: this memory was deleted."""
    return [
        Piece(
            id=names.piece(name, GRAVE),
            memory=name,
            place=GRAVE,
            pieces=1,
            collection=name.rpartition("/")[0],
            type="",
            status="",
            tags=(),
            created=0.0,
            hash="",
            written=1_750_000_000.123456 + version,
            digest="",
        )
    ]


def forged(piece: Piece, hash_: str) -> list[Piece]:
    """The same memory at the same moment with another content."""
    return [piece._replace(hash=hash_, digest=f"digest of {hash_}")]


def shown(error: BaseException) -> str:
    """All that anyone may ever see of an error."""
    hint = getattr(error, "hint", "")
    lines = "".join(traceback.format_exception(error))
    return "\n".join([str(error), repr(error), repr(vars(error)), hint, lines])


def is_held(held: Held, pieces: Sequence[Piece]) -> bool:
    first = pieces[0]
    return (held.hash, held.written, held.pieces, held.found) == (
        first.hash,
        first.written,
        first.pieces,
        len(pieces),
    )


class EveryArm:
    """Upsert, delete, filtered query, count, manifest and drop."""

    def test_nothing_is_held_before_anything_was_put(self, bench: Bench) -> None:
        assert bench.arm.version()
        assert bench.find() == set()
        assert bench.manifest() == {}
        assert bench.arm.held(["notes/a.md"]) == {}
        assert bench.arm.count(Sieve()) == 0
        bench.arm.remove(["notes/a.md"])
        assert bench.arm.prune(2e9) == 0
        bench.arm.drop()

    def test_nothing_is_asked_and_nothing_is_put(self, bench: Bench) -> None:
        bench.arm.ready([])
        bench.arm.put([])
        bench.arm.remove([])
        assert bench.arm.held([]) == {}

    def test_what_was_put_is_found_at_once_and_held_as_it_was(self, bench: Bench) -> None:
        one = memory(bench.names, "notes/a.md", chunks=3)
        two = memory(bench.names, "work/b.md", written=1_763_294_861.7182818)
        bench.arm.ready(["notes", "work"])
        bench.put(one, two)
        assert bench.find() == {"notes/a.md", "work/b.md"}
        assert {(m.memory, m.place, m.digest) for m in bench.matches()} == {
            (p.memory, p.place, p.digest) for p in [*one, *two]
        }
        held = bench.arm.held(["notes/a.md", "work/b.md", "work/none.md"])
        assert set(held) == {"notes/a.md", "work/b.md"}
        assert is_held(held["notes/a.md"], one)
        assert is_held(held["work/b.md"], two)
        assert bench.manifest() == dict(held)
        assert bench.arm.count(Sieve()) == 4

    def test_ready_and_put_may_be_done_again(self, bench: Bench) -> None:
        one = memory(bench.names, "notes/a.md", chunks=2)
        for _ in range(3):
            bench.arm.ready(["notes"])
            bench.put(one)
        assert bench.arm.count(Sieve()) == 2
        assert is_held(bench.manifest()["notes/a.md"], one)

    def test_a_collection_that_was_never_made_ready_is_made_by_put(self, bench: Bench) -> None:
        bench.put(memory(bench.names, "new/a.md"))
        assert bench.find(Sieve(collections=("new",))) == {"new/a.md"}

    def test_a_shorter_version_leaves_no_pieces_of_the_longer_one(self, bench: Bench) -> None:
        bench.put(memory(bench.names, "notes/a.md", chunks=5), memory(bench.names, "notes/b.md"))
        shorter = memory(bench.names, "notes/a.md", chunks=2, version=2)
        bench.put(shorter)
        assert bench.arm.count(Sieve()) == 3
        assert is_held(bench.arm.held(["notes/a.md"])["notes/a.md"], shorter)
        digests = {m.digest for m in bench.matches() if m.memory == "notes/a.md"}
        assert digests == {p.digest for p in shorter}

    def test_a_longer_version_replaces_all_of_the_shorter_one(self, bench: Bench) -> None:
        bench.put(memory(bench.names, "notes/a.md", chunks=1))
        longer = memory(bench.names, "notes/a.md", chunks=4, version=2)
        bench.put(longer)
        assert {m.digest for m in bench.matches()} == {p.digest for p in longer}
        assert is_held(bench.manifest()["notes/a.md"], longer)

    def test_removed_memories_are_gone_and_others_are_not(self, bench: Bench) -> None:
        bench.put(
            memory(bench.names, "notes/a.md", chunks=3),
            memory(bench.names, "notes/aa.md"),
            memory(bench.names, "work/a.md"),
        )
        bench.arm.remove(["notes/a.md", "other/none.md"])
        assert bench.find() == {"notes/aa.md", "work/a.md"}
        assert set(bench.manifest()) == {"notes/aa.md", "work/a.md"}

    def test_a_grave_hides_a_memory_but_is_held(self, bench: Bench) -> None:
        bench.put(memory(bench.names, "notes/a.md", chunks=3), memory(bench.names, "notes/b.md"))
        dead = grave(bench.names, "notes/a.md")
        bench.put(dead)
        assert bench.find() == {"notes/b.md"}
        assert bench.arm.count(Sieve()) == 1
        assert bench.arm.count(Sieve(collections=("notes",))) == 1
        for held in (bench.arm.held(["notes/a.md"]), bench.manifest()):
            assert held["notes/a.md"].is_grave
            assert held["notes/a.md"].is_whole
            assert held["notes/a.md"].written == dead[0].written

    def test_a_memory_rises_from_its_grave_when_it_is_written_again(self, bench: Bench) -> None:
        bench.put(memory(bench.names, "notes/a.md", chunks=2))
        bench.put(grave(bench.names, "notes/a.md", version=2))
        again = memory(bench.names, "notes/a.md", chunks=1, version=3)
        bench.put(again)
        assert bench.find() == {"notes/a.md"}
        assert is_held(bench.manifest()["notes/a.md"], again)

    def test_a_grave_may_come_first_and_into_an_empty_bank(self, bench: Bench) -> None:
        bench.put(grave(bench.names, "notes/a.md"))
        assert bench.manifest()["notes/a.md"].is_grave
        assert bench.find() == set()
        bench.arm.remove(["notes/a.md"])
        assert bench.manifest() == {}

    def test_only_old_graves_are_pruned(self, bench: Bench) -> None:
        bench.put(
            memory(bench.names, "notes/old.md", version=0),  # no grave, however old
            memory(bench.names, "notes/b.md"),
            grave(bench.names, "notes/a.md", version=10),
            grave(bench.names, "work/c.md", version=20),
            grave(bench.names, "work/d.md", version=10),
        )
        bench.put(
            grave(bench.names, "notes/b.md", version=10),
            memory(bench.names, "work/d.md", version=11),  # and this one has risen from its grave
        )
        moment = grave(bench.names, "", version=15)[0].written
        assert bench.arm.prune(moment) == 2
        held = bench.manifest()
        assert set(held) == {"notes/old.md", "work/c.md", "work/d.md"}
        assert held["work/c.md"].is_grave
        assert bench.find() == {"notes/old.md", "work/d.md"}
        assert bench.arm.prune(moment) == 0

    def test_an_older_version_does_not_replace_a_newer_one(self, bench: Bench) -> None:
        newer = memory(bench.names, "notes/a.md", chunks=2, version=3)
        bench.put(newer)
        bench.put(memory(bench.names, "notes/a.md", chunks=5, version=1))
        assert is_held(bench.manifest()["notes/a.md"], newer)
        assert bench.arm.count(Sieve()) == 2
        bench.put(grave(bench.names, "notes/a.md", version=2))
        assert is_held(bench.manifest()["notes/a.md"], newer)
        assert {m.digest for m in bench.matches()} == {p.digest for p in newer}

    def test_an_older_version_does_not_raise_the_dead(self, bench: Bench) -> None:
        bench.put(grave(bench.names, "notes/a.md", version=5))
        bench.put(memory(bench.names, "notes/a.md", chunks=3, version=4))
        assert bench.find() == set()
        assert bench.manifest()["notes/a.md"].is_grave

    def test_of_two_at_the_same_moment_the_greater_hash_stays(self, bench: Bench) -> None:
        (piece,) = memory(bench.names, "notes/a.md")
        low, high = "1f" * 32, "e0" * 32
        for order in ((low, high), (high, low)):
            bench.arm.remove(["notes/a.md"])
            for hash_ in order:
                bench.put(forged(piece, hash_))
            assert bench.manifest()["notes/a.md"].hash == high

    def test_moments_are_told_apart_as_finely_as_they_are_written(self, bench: Bench) -> None:
        early = np.float64(1_763_294_861.25)
        late = float(np.nextafter(early, 2e9))
        newer = memory(bench.names, "notes/a.md", version=1, written=late)
        older = memory(bench.names, "notes/a.md", version=2, written=float(early))
        for first, second in ((newer, older), (older, newer)):
            bench.arm.remove(["notes/a.md"])
            bench.put(first)
            bench.put(second)
            assert is_held(bench.manifest()["notes/a.md"], newer)

    def test_of_many_memories_in_one_put_only_the_older_ones_are_refused(
        self, bench: Bench
    ) -> None:
        bench.put(memory(bench.names, "notes/new.md", chunks=2, version=9))
        bench.put(
            memory(bench.names, "notes/new.md", chunks=3, version=1),
            memory(bench.names, "notes/other.md", chunks=2, version=1),
        )
        held = bench.manifest()
        assert is_held(
            held["notes/new.md"], memory(bench.names, "notes/new.md", chunks=2, version=9)
        )
        assert is_held(held["notes/other.md"], memory(bench.names, "notes/other.md", chunks=2))
        assert bench.arm.count(Sieve()) == 4

    def test_lost_pieces_show_in_held_and_manifest(self, bench: Bench) -> None:
        whole = memory(bench.names, "notes/a.md", chunks=4)
        bench.put([whole[0], whole[2]])
        assert bench.arm.held(["notes/a.md"])["notes/a.md"].found == 2
        assert not bench.manifest()["notes/a.md"].is_whole
        bench.put(whole)
        assert bench.manifest()["notes/a.md"].is_whole

    def test_a_lost_first_piece_shows_in_held_and_manifest(self, bench: Bench) -> None:
        whole = memory(bench.names, "notes/a.md", chunks=3)
        bench.put(whole[1:])
        assert bench.arm.held(["notes/a.md"])["notes/a.md"].found == 2
        assert bench.manifest()["notes/a.md"].found == 2
        bench.put(whole)
        assert is_held(bench.manifest()["notes/a.md"], whole)

    def test_a_large_bank_is_put_and_listed_whole(self, bench: Bench) -> None:
        dice = random.Random(9)
        put = {
            name: memory(bench.names, name, chunks=dice.choice([1, 1, 2, 5]))
            for name in (f"{dice.choice('abc')}/{n}.md" for n in range(700))
        }
        bench.put(*put.values())
        held = bench.manifest()
        assert set(held) == set(put)
        assert all(is_held(held[name], pieces) for name, pieces in put.items())
        assert bench.arm.count(Sieve()) == sum(map(len, put.values()))
        some = dict(list(put.items())[::3])
        assert set(bench.arm.held(list(some))) == set(some)
        bench.arm.remove(list(some))
        assert set(bench.manifest()) == set(put) - set(some)

    def test_a_memory_of_very_many_pieces_is_one(self, bench: Bench) -> None:
        large = memory(bench.names, "notes/large.md", chunks=1_500)
        bench.put(large)
        assert is_held(bench.manifest()["notes/large.md"], large)
        small = memory(bench.names, "notes/large.md", chunks=1, version=2)
        bench.put(small)
        assert is_held(bench.manifest()["notes/large.md"], small)
        assert bench.arm.count(Sieve()) == 1

    def test_each_condition_of_a_sieve_is_kept(self, bench: Bench) -> None:
        day = 86_400.0
        bench.put(
            memory(bench.names, "a/1.md", type="note", tags=("x", "y"), created=10 * day),
            memory(bench.names, "a/2.md", type="fact", tags=("y",), created=20 * day),
            memory(bench.names, "b/3.md", type="note", status="archived", created=30 * day),
            memory(bench.names, "b/c/4.md", type="rule", tags=("x z",), created=0.0),
        )
        cases: list[tuple[Sieve, str]] = [
            (Sieve(), "1234"),
            (Sieve(collections=("a",)), "12"),
            (Sieve(collections=("b",)), "3"),
            (Sieve(collections=("a", "b/c")), "124"),
            (Sieve(collections=("none",)), ""),
            (Sieve(types=("note",)), "13"),
            (Sieve(types=("fact", "rule")), "24"),
            (Sieve(tags=("x",)), "1"),
            (Sieve(tags=("x", "y")), "12"),
            (Sieve(tags=("x z",)), "4"),
            (Sieve(statuses=("archived",)), "3"),
            (Sieve(without_statuses=("archived",)), "124"),
            (Sieve(statuses=("active", "archived"), without_statuses=("active",)), "3"),
            (Sieve(since=20 * day), "23"),
            (Sieve(until=20 * day), "12"),
            (Sieve(since=15 * day, until=25 * day), "2"),
            (Sieve(since=0.0), "123"),
            (Sieve(until=99 * day), "123"),
            (Sieve(collections=("a",), types=("note",), tags=("y",), since=day), "1"),
        ]
        for sieve, expected in cases:
            found = "".join(sorted(name[-4] for name in bench.find(sieve)))
            assert found == expected, sieve
            assert bench.arm.count(sieve) == len(expected), sieve

    def test_the_limit_is_kept_and_the_best_come_first(self, bench: Bench) -> None:
        for name in "abc":
            bench.put(*(memory(bench.names, f"{name}/{n}.md") for n in range(8)))
        whole = bench.matches(limit=100)
        assert len(whole) == 24
        scores = [match.score for match in whole]
        assert scores == sorted(scores, reverse=True)
        assert len(bench.matches(limit=5)) == 5

    @pytest.mark.parametrize("field", ["tag", "type", "status", "collection", "file"])
    def test_hostile_values_are_nothing_but_values(self, bench: Bench, field: str) -> None:
        """S9: no value can end a quotation, match like a pattern or reach another memory."""
        put: dict[str, list[Piece]] = {}
        for number, value in enumerate(HOSTILE):
            name = f"h/{number}.md"
            if field == "collection":
                name = f"{value}/{number}.md"
            elif field == "file":
                name = f"h/{number} {value}"
            put[value] = memory(
                bench.names,
                name,
                type=value if field == "type" else "note",
                status=value if field == "status" else "active",
                tags=(value,) if field == "tag" else (),
            )
        plain = memory(bench.names, "h/plain.md", tags=("foo", "x"), type="foo")
        bench.put(plain, *put.values())
        sieves: dict[str, Callable[[str], Sieve]] = {
            "tag": lambda value: Sieve(tags=(value,)),
            "type": lambda value: Sieve(types=(value,)),
            "status": lambda value: Sieve(statuses=(value,)),
            "collection": lambda value: Sieve(collections=(value,)),
        }
        held = bench.manifest()
        for value, pieces in put.items():
            name = pieces[0].memory
            assert is_held(held[name], pieces)
            assert set(bench.arm.held([name])) == {name}
            if field in sieves:
                assert bench.find(sieves[field](value)) == {name}, value[:50]
                assert bench.arm.count(sieves[field](value)) == 1
        if field == "status":
            without = bench.find(Sieve(without_statuses=HOSTILE))
            assert without == {"h/plain.md"}
        first = put[HOSTILE[3]][0].memory
        bench.arm.remove([first])
        assert set(bench.manifest()) == set(held) - {first}

    def test_many_values_at_once_are_a_condition_like_any_other(self, bench: Bench) -> None:
        bench.put(
            memory(bench.names, "a/1.md", tags=("t7",), type="t3"), memory(bench.names, "a/2.md")
        )
        many = tuple(f"t{n}" for n in range(100))
        assert bench.find(Sieve(tags=many, types=many)) == {"a/1.md"}
        assert bench.arm.count(Sieve(tags=many)) == 1

    def test_two_banks_on_one_server_do_not_see_each_other(self, bench: Bench) -> None:
        near = Names(f"{bench.names.prefix.removesuffix('-retain-')}-2")
        other = bench.another(near)
        try:
            bench.put(memory(bench.names, "notes/a.md"))
            bench.put(memory(near, "notes/a.md", version=5), memory(near, "notes/b.md"), arm=other)
            assert bench.find() == {"notes/a.md"}
            assert bench.arm.count(Sieve()) == 1
            bench.arm.remove(["notes/b.md"])
            assert bench.find(arm=other) == {"notes/a.md", "notes/b.md"}
            bench.arm.drop()
            assert bench.manifest() == {}
            assert set(bench.manifest(other)) == {"notes/a.md", "notes/b.md"}
        finally:
            other.drop()

    def test_another_machine_sees_what_this_one_put(self, bench: Bench) -> None:
        other = bench.another(bench.names)
        assert bench.find(arm=other) == set()
        bench.put(memory(bench.names, "notes/a.md"))
        assert bench.find(arm=other) == {"notes/a.md"}
        bench.put(memory(bench.names, "later/b.md"))
        assert bench.find(arm=other) == {"notes/a.md", "later/b.md"}
        assert bench.find(Sieve(collections=("later",)), arm=other) == {"later/b.md"}

    def test_a_bank_can_be_filled_again_after_another_machine_dropped_it(
        self, bench: Bench
    ) -> None:
        bench.put(memory(bench.names, "notes/a.md"))
        bench.another(bench.names).drop()
        assert bench.find() == set()
        assert bench.arm.count(Sieve()) == 0
        assert bench.arm.held(["notes/a.md"]) == {}
        bench.put(memory(bench.names, "notes/b.md"))
        assert set(bench.manifest()) == {"notes/b.md"}

    def test_what_a_person_sees_of_an_arm_has_no_secret(self, bench: Bench) -> None:
        assert bench.arm.name
        for text in (bench.arm.name, bench.arm.address, repr(bench.arm), str(bench.arm)):
            assert KEY not in text


class VectorContract:
    """An engine that finds by meaning finds what an exact scan finds."""

    def test_the_nearest_are_those_of_an_exact_scan(self, bench: Bench) -> None:
        arm = bench.vectors
        bank = [memory(bench.names, f"{'ab'[n % 2]}/{n}.md", chunks=3) for n in range(1_000)]
        bench.put(*bank)
        pieces = [piece for pieces in bank for piece in pieces]
        matrix = np.stack([cast(Floats, piece.vector) for piece in pieces])
        probes = [unit(f"question {n}") for n in range(20)]
        found = arm.nearest(probes, MODEL, Sieve(), [10] * len(probes))
        hits = 0
        for probe, matches in zip(probes, found, strict=True):
            products = matrix @ probe
            best = [pieces[at] for at in np.argsort(-products)[:10]]
            hits += len({p.digest for p in best} & {m.digest for m in matches})
            assert matches[0].score == pytest.approx(float(products.max()), abs=1e-3)
        assert hits >= 0.95 * 10 * len(probes)

    def test_each_vector_has_its_own_limit(self, bench: Bench) -> None:
        arm = bench.vectors
        bench.put(*(memory(bench.names, f"{'ab'[n % 2]}/{n}.md") for n in range(20)))
        found = arm.nearest([unit("q1"), unit("q2"), unit("q1")], MODEL, Sieve(), [3, 7, 1])
        assert [len(matches) for matches in found] == [3, 7, 1]
        assert found[2] == found[0][:1]
        assert arm.nearest([], MODEL, Sieve(), []) == []

    def test_vectors_of_another_model_are_not_compared(self, bench: Bench) -> None:
        arm = bench.vectors
        bench.put(
            memory(bench.names, "notes/a.md"), memory(bench.names, "notes/b.md", model="other")
        )
        (found,) = arm.nearest([unit("q")], "other", Sieve(), [10])
        assert [match.memory for match in found] == ["notes/b.md"]

    def test_a_vector_of_another_dimension_is_refused(self, bench: Bench) -> None:
        bench.put(memory(bench.names, "notes/a.md"))
        short = cast(Floats, unit("q")[: DIMENSION // 2])
        with pytest.raises(EngineRefused):
            bench.vectors.nearest([short], MODEL, Sieve(), [10])
        with pytest.raises(EngineRefused):
            bench.put(memory(bench.names, "notes/b.md", vectors=[short]))
        assert set(bench.manifest()) == {"notes/a.md"}


class TextContract:
    """An engine that finds by words finds exactly those words, and rare ones first."""

    def test_only_whole_terms_match(self, bench: Bench) -> None:
        arm = bench.text
        terms = ["foo-bar", "foo", "foobar", "c++", "it's", "v1.2.3", "snake_case", "日本", "naïv"]
        bench.put(*(memory(bench.names, f"a/{n}.md", terms=[t]) for n, t in enumerate(terms)))
        for number, term in enumerate(terms):
            found = arm.matching({term: 1.0}, Sieve(), 20)
            assert [m.memory for m in found] == [f"a/{number}.md"], term
        for absent in ("fo", "bar", "v1", "runs", "running", "snake", "the"):
            assert arm.matching({absent: 1.0}, Sieve(), 20) == [], absent

    def test_rare_terms_count_most(self, bench: Bench) -> None:
        arm = bench.text
        bench.put(
            *(memory(bench.names, f"a/{n}.md", terms=["often", "usual"]) for n in range(20)),
            memory(bench.names, "a/rare.md", terms=["zebra"]),
        )
        found = arm.matching({"often": 0.1, "usual": 0.1, "zebra": 5.0}, Sieve(), 5)
        assert found[0].memory == "a/rare.md"
        assert len(found) == 5

    def test_hostile_terms_are_nothing_but_terms(self, bench: Bench) -> None:
        """S9."""
        arm = bench.text
        bench.put(memory(bench.names, "a/1.md", terms=["word"]))
        for value in HOSTILE:
            assert arm.matching({value: 2.0}, Sieve(), 5) == [], value[:50]
            found = arm.matching({value: 2.0, "word": 1.0}, Sieve(), 5)
            assert [m.memory for m in found] == ["a/1.md"], value[:50]
        assert arm.matching({}, Sieve(), 5) == []

    def test_of_very_many_terms_the_rarest_are_asked_for(self, bench: Bench) -> None:
        arm = bench.text
        bench.put(memory(bench.names, "a/1.md", terms=["needle"]))
        terms = {f"absent{n}": 0.5 for n in range(2_000)} | {"needle": 9.0}
        assert [m.memory for m in arm.matching(terms, Sieve(), 5)] == ["a/1.md"]


_ODD: Final[dict[Odd, type[EngineError]]] = {
    "hang": EngineDown,
    "drip": EngineDown,
    "endless": EngineError,
    "error": EngineDown,
    "busy": EngineDown,
    "garbage": EngineError,
    "html": EngineError,
    "cut": EngineDown,
}
_SILENT: Final[tuple[Odd, ...]] = ("hang", "drip")

# All that an arm can be asked.
_ACTS: Final[dict[str, Callable[[Bench, Arm], object]]] = {
    "ready": lambda _, arm: arm.ready(["notes"]),
    "put": lambda bench, arm: arm.put(memory(bench.names, "notes/a.md")),
    "remove": lambda _, arm: arm.remove(["notes/a.md"]),
    "held": lambda _, arm: arm.held(["notes/a.md"]),
    "manifest": lambda _, arm: list(arm.manifest()),
    "prune": lambda _, arm: arm.prune(0.0),
    "count": lambda _, arm: arm.count(Sieve()),
    "find": lambda bench, arm: bench.matches(arm=arm),
    "find in one": lambda bench, arm: bench.matches(Sieve(collections=("notes",)), arm=arm),
    "drop": lambda _, arm: arm.drop(),
}


class Faults:
    """A server that is gone, wrong or hostile is an error of one line, soon, and with no secret."""

    @classmethod
    def _fails(
        cls, bench: Bench, arm: Arm, kind: type[EngineError], secrets: Sequence[str]
    ) -> None:
        for name in _ACTS:
            cls._fails_at(name, bench, arm, kind, secrets)

    @staticmethod
    def _fails_at(
        name: str, bench: Bench, arm: Arm, kind: type[EngineError], secrets: Sequence[str]
    ) -> None:
        with pytest.raises(kind) as caught:
            _ACTS[name](bench, arm)
        text = shown(caught.value)
        assert not [secret for secret in secrets if secret in text], name
        assert "\n" not in str(caught.value), name
        assert "\x1b" not in str(caught.value), name
        assert arm.name.casefold() in str(caught.value).casefold(), name
        assert len(str(caught.value)) < 500, name

    def test_nobody_listens(self, bench: Bench) -> None:
        address = f"{bench.row.scheme}://127.0.0.1:{free_port()}"
        arm = bench.another(bench.names, address=address, key=WRONG, patience=2.0)
        with pytest.raises(EngineDown):
            arm.version()
        self._fails(bench, arm, EngineDown, [WRONG])

    def test_a_wrong_key_is_refused_and_never_shown(self, bench: Bench) -> None:
        bench.put(memory(bench.names, "notes/a.md"))
        arm = bench.another(bench.names, key=WRONG)
        self._fails(bench, arm, EngineRefused, [WRONG, KEY])
        assert set(bench.manifest()) == {"notes/a.md"}

    def test_secrets_in_an_address_are_never_shown(self, bench: Bench) -> None:
        address = f"{bench.row.scheme}://user:{WRONG}@127.0.0.1:{free_port()}/x?key={WRONG}"
        arm = bench.another(bench.names, address=address, key=WRONG, patience=2.0)
        assert WRONG not in arm.address
        assert WRONG not in repr(arm)
        self._fails(bench, arm, EngineError, [WRONG])

    @pytest.mark.timeout(120)
    @pytest.mark.parametrize("how", list(_ODD))
    def test_a_server_that_does_not_behave_is_left_soon(self, bench: Bench, how: Odd) -> None:
        if not bench.row.speaks_http and how in {"error", "busy", "html"}:
            pytest.skip("it speaks another protocol")
        with odd(how) as port:
            address = f"{bench.row.scheme}://127.0.0.1:{port}"
            kind = _ODD[how] if bench.row.speaks_http or how == "hang" else EngineError

            def another() -> Arm:
                return bench.another(bench.names, address=address, key=WRONG, patience=0.5)

            if how not in _SILENT:
                self._fails(bench, another(), kind, [WRONG])
                return
            # Each is waited for as long as patience lasts, so all are asked at the same time.
            with ThreadPoolExecutor(len(_ACTS)) as pool:
                asked = [
                    pool.submit(self._fails_at, name, bench, arm, kind, [WRONG])
                    for name, arm in [(name, another()) for name in _ACTS]
                ]
            for one in asked:
                one.result()

    def test_a_server_that_was_killed_is_down_and_holds_all_when_it_is_back(
        self, own: Bench
    ) -> None:
        own.arm.ready(["notes"])
        put = [memory(own.names, f"notes/{n}.md", chunks=2) for n in range(30)]
        own.put(*put)
        own.server.kill()
        self._fails(own, own.arm, EngineDown, [KEY])
        own.server.start()
        held = own.manifest()
        assert all(is_held(held[pieces[0].memory], pieces) for pieces in put)
        own.put(memory(own.names, "notes/new.md"))
        assert len(own.find(limit=1_000)) == 31

    def test_a_server_that_was_stopped_is_down(self, own: Bench) -> None:
        own.put(memory(own.names, "notes/a.md"))
        own.server.stop()
        self._fails(own, own.arm, EngineDown, [KEY])
        own.server.start()
        assert own.find() == {"notes/a.md"}
