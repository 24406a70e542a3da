"""What is Postgres' own: two arms in one database, writers that meet, graphs, and addresses."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import numpy as np
import psycopg
import pytest

from retain.index.engines.addresses import hello
from retain.index.engines.arm import (
    EngineDown,
    EngineError,
    EngineLocked,
    EngineRefused,
    Piece,
    Sieve,
)
from retain.index.engines.naming import Names
from retain.index.engines.postgres import PostgresSettings, PostgresText, PostgresVectors
from retain.index.engines.wire import _silence
from retain.index.vectors import Floats
from tests.engines.contract import DIMENSION, KEY, MODEL, grave, memory, shown, unit
from tests.engines.servers import Process, frozen, odd, postgres

pytestmark = pytest.mark.slow

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    found = postgres(tmp_path_factory.mktemp("postgres"), KEY)
    found.start()
    yield found
    found.kill()


@pytest.fixture
def names() -> Names:
    return Names(f"p{os.getpid()}-{next(_NUMBERS)}")


@pytest.fixture
def text(server: Process, names: Names) -> Iterator[PostgresText]:
    arm = PostgresText(server.address, KEY, names, patience=30.0)
    yield arm
    arm.drop()
    arm.close()


@pytest.fixture
def vectors(server: Process, names: Names) -> Iterator[PostgresVectors]:
    settings = PostgresSettings(exact=500)
    arm = PostgresVectors(server.address, KEY, names, patience=30.0, settings=settings)
    yield arm
    arm.drop()
    arm.close()


@pytest.fixture
def sql(server: Process) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.address, password=KEY, autocommit=True) as connection:
        yield connection


def test_a_password_in_the_address_is_not_replaced_by_one_for_another_server(
    server: Process, names: Names
) -> None:
    other = "sk-OfAnother"
    for address in (
        server.address.replace("retain@", f"retain:{KEY}@"),
        f"{server.address}?password={KEY}",
    ):
        arm = PostgresText(address, other, names, patience=30.0)
        arm.ready(["notes"])
        arm.close()
    wrong = server.address.replace("retain@", f"retain:{other}@")
    arm = PostgresText(wrong, KEY, names, patience=30.0)
    with pytest.raises(EngineLocked) as caught:
        arm.version()
    assert other not in shown(caught.value)
    arm.close()


def test_nothing_is_loaded_until_an_arm_is_made() -> None:
    code = (
        "import sys, retain.index.engines.postgres, retain.index.engines.meilisearch; "
        "print(sorted(set(sys.modules) & {'psycopg', 'meilisearch', 'requests', 'pydantic'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "of, to, key, kind, said",
    [
        ("/postgres", "/nosuch", KEY, EngineRefused, "it has no such database"),
        ("retain@", "nobody@", KEY, EngineLocked, "did not accept the user or the password"),
        ("", "", "wrong", EngineLocked, "did not accept the user or the password"),
        ("", "", "", EngineLocked, "it asks for a password"),
    ],
)
def test_what_keeps_it_from_connecting_is_told_apart(
    server: Process, names: Names, of: str, to: str, key: str, kind: type[EngineError], said: str
) -> None:
    address = server.address.replace(of, to) if of else server.address + to
    arm = PostgresText(address, key, names, patience=30.0)
    with pytest.raises(kind, match=said) as caught:
        arm.version()
    assert type(caught.value) is kind
    arm.close()


def test_the_two_arms_of_a_bank_share_a_database(
    text: PostgresText, vectors: PostgresVectors, names: Names
) -> None:
    one = memory(names, "notes/a.md", chunks=2)
    text.put(one)
    assert list(vectors.manifest()) == []
    vectors.put(one)
    text.drop()
    assert vectors.count(Sieve()) == 2
    assert text.count(Sieve()) == 0


def test_the_dimension_comes_with_the_first_vectors(
    vectors: PostgresVectors, server: Process, names: Names
) -> None:
    vectors.ready(["notes"])
    with pytest.raises(EngineRefused):
        vectors.put(grave(names, "notes/dead.md"))
    vectors.put(memory(names, "notes/a.md"))
    vectors.put(grave(names, "notes/dead.md"))
    other = PostgresVectors(server.address, KEY, names, patience=30.0, dimension=DIMENSION + 1)
    with pytest.raises(EngineRefused, match=f"{DIMENSION} numbers, not of {DIMENSION + 1}"):
        other.ready(["notes"])
    again = PostgresVectors(server.address, KEY, names, patience=30.0)
    (found,) = again.nearest([unit("q")], MODEL, Sieve(), [5])
    assert [match.memory for match in found] == ["notes/a.md"]
    other.close()
    again.close()


@pytest.mark.parametrize("half", [False, True])
def test_a_large_collection_gets_a_graph_that_finds_what_a_scan_finds(
    server: Process, names: Names, sql: psycopg.Connection, half: bool
) -> None:
    settings = PostgresSettings(exact=500, half=half)
    arm = PostgresVectors(server.address, KEY, names, patience=30.0, settings=settings)
    bank = [
        memory(names, f"{'ab'[n % 2]}/{n}.md", chunks=2, tags=("rare",) if n % 50 == 0 else ())
        for n in range(2_000)
    ]
    arm.put([piece for pieces in bank[:1_900] for piece in pieces])
    arm.put([piece for pieces in bank[1_900:] for piece in pieces])  # into the graph that is there
    arm.put(memory(names, "small/1.md"))
    graphs = sql.execute(
        "SELECT tablename FROM pg_indexes WHERE indexdef LIKE '%USING hnsw%' ORDER BY tablename"
    ).fetchall()
    assert graphs == [(names.of("a"),), (names.of("b"),)]
    pieces = [*(piece for pieces in bank for piece in pieces), *memory(names, "small/1.md")]
    for sieve, pool in (
        (Sieve(), pieces),
        (Sieve(collections=("a",)), [p for p in pieces if p.collection == "a"]),
        (Sieve(tags=("rare",)), [p for p in pieces if p.tags]),
    ):
        assert _overlap(arm, sieve, pool) >= 0.95, sieve
    (found,) = arm.nearest([unit("q")], MODEL, Sieve(tags=("rare",)), [200])
    assert len(found) == 80  # all there are, though the graph would have stopped before
    arm.drop()
    arm.close()


def _overlap(arm: PostgresVectors, sieve: Sieve, pieces: list[Piece]) -> float:
    matrix = np.stack([cast(Floats, piece.vector) for piece in pieces])
    probes = [unit(f"question {n}") for n in range(20)]
    found = arm.nearest(probes, MODEL, sieve, [10] * len(probes))
    hits = 0
    for probe, matches in zip(probes, found, strict=True):
        best = {pieces[at].digest for at in np.argsort(-(matrix @ probe))[:10]}
        hits += len(best & {match.digest for match in matches})
    return hits / (10 * len(probes))


def test_of_many_writers_at_once_the_newest_wins_whole(
    server: Process, text: PostgresText, names: Names
) -> None:
    versions = [memory(names, "notes/a.md", chunks=1 + n % 4, version=n) for n in range(24)]
    random.Random(4).shuffle(versions)
    arms = [PostgresText(server.address, KEY, names, patience=30.0) for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: arms[n % 4].put(versions[n]), range(24)))
    for arm in arms:
        arm.close()
    newest = max(versions, key=lambda pieces: pieces[0].written)
    (held,) = text.manifest()
    assert (held.hash, held.found) == (newest[0].hash, len(newest))
    assert {m.digest for m in text.matching({"common": 1.0}, Sieve(), 9)} == {
        piece.digest for piece in newest
    }


def test_terms_are_ranked_as_bm25_ranks_them(text: PostgresText, names: Names) -> None:
    dice = random.Random(7)
    words = [f"w{n}" for n in range(300)]
    odds = [1 / (n + 1) for n in range(300)]
    bags = {f"notes/{n}.md": dice.choices(words, odds, k=dice.randint(20, 200)) for n in range(600)}
    text.put(
        [
            piece._replace(terms=" ".join(bag))
            for name, bag in bags.items()
            for piece in memory(names, name)
        ]
    )
    counts = Counter(word for bag in bags.values() for word in set(bag))
    hits = total = 0
    for _ in range(20):
        asked = dice.sample(words, 5)
        weights = {w: math.log(1 + (600 - counts[w] + 0.5) / (counts[w] + 0.5)) for w in asked}
        found = text.matching(weights, Sieve(), 10)
        best = sorted(bags, key=lambda name: -_bm25(bags[name], weights, bags))[: len(found)]
        hits += len({match.memory for match in found} & set(best))
        total += len(found)
    assert hits >= 0.9 * total


def _bm25(bag: list[str], weights: dict[str, float], bags: dict[str, list[str]]) -> float:
    average = sum(map(len, bags.values())) / len(bags)
    weight = 0.645 * (0.6 + 0.4 * len(bag) / average)
    times = Counter(bag)
    return sum(w * times[term] / (times[term] + weight) for term, w in weights.items())


def test_a_server_that_stops_answering_is_left_in_time(tmp_path: Path, names: Names) -> None:
    server = postgres(tmp_path, KEY)
    server.start()
    arm = PostgresText(server.address, KEY, names, patience=5.0)
    try:
        arm.put(memory(names, "notes/a.md"))
        with psycopg.connect(server.address, password=KEY) as other:
            row = other.execute(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'retain'"
            ).fetchone()
        assert row
        with frozen(row[0]), pytest.raises(EngineDown):  # what our connection is served by
            arm.count(Sieve())
        assert arm.count(Sieve()) == 1
    finally:
        arm.close()
        server.kill()


def test_a_server_that_hangs_is_found_out_before_anything_is_asked(server: Process) -> None:
    port, words = urlsplit(server.address).port or 0, hello(server.address)
    assert _silence("127.0.0.1", port, 30.0, words) == ""
    assert server.pid is not None
    with frozen(server.pid):  # the kernel still takes connections for it
        assert "did not answer" in _silence("127.0.0.1", port, 0.2, words)


def test_a_table_that_someone_holds_is_left_in_time(
    server: Process, text: PostgresText, names: Names, sql: psycopg.Connection
) -> None:
    text.put(memory(names, "notes/a.md"))
    hasty = PostgresText(server.address, KEY, names, patience=2.0)
    with sql.transaction():
        sql.execute(f'LOCK TABLE retain_text."{names.of("notes")}" IN ACCESS EXCLUSIVE MODE')
        with pytest.raises(EngineDown):
            hasty.matching({"common": 1.0}, Sieve(), 5)
        with pytest.raises(EngineDown):
            hasty.put(memory(names, "notes/a.md", version=2))
    hasty.put(memory(names, "notes/a.md", version=2))
    hasty.close()


def test_a_server_that_only_reads_is_one_to_try_later(
    server: Process, text: PostgresText, names: Names
) -> None:
    text.put(memory(names, "notes/a.md"))
    address = f"{server.address}?options=-c%20default_transaction_read_only%3Don"
    replica = PostgresText(address, KEY, names, patience=30.0)
    assert replica.count(Sieve()) == 1
    with pytest.raises(EngineDown):
        replica.put(memory(names, "notes/a.md", version=2))
    replica.close()


def test_a_user_who_may_not_make_anything_is_told_so(
    server: Process, names: Names, sql: psycopg.Connection
) -> None:
    sql.execute("CREATE ROLE reader LOGIN PASSWORD 'sk-reader'")
    address = server.address.replace("retain@", "reader@")
    arm = PostgresText(address, "sk-reader", names, patience=30.0)
    with pytest.raises(EngineRefused, match=r"its user may not do that \(42501\)") as caught:
        arm.put(memory(names, "notes/a.md"))
    assert "permission denied" in caught.value.words  # which are the server's, not Retain's
    arm.close()
    sql.execute("DROP ROLE reader")


@pytest.mark.parametrize(
    "address, seen",
    [
        ("postgresql://me:sk-secret@127.0.0.1:1/bank", "postgresql://127.0.0.1:1/bank"),
        ("host=127.0.0.1 port=1 user=me password=sk-secret", "postgresql://127.0.0.1:1"),
        ("postgresql://127.0.0.1:1/bank?password=sk-secret", "postgresql://127.0.0.1:1/bank"),
        ("postgresql://me:sk-secret@127.0.0.1:1,127.0.0.2:2/", "postgresql://127.0.0.1:1,127.0.0.2:2"),
        ("host=127.0.0.1 pasword sk-secret", "an address that cannot be read"),
        ("postgresql://me:sk-secret@[127.0.0.1:1/bank", "an address that cannot be read"),
        ("postgresql://me:1/sk-secret@127.0.0.1:1/bank", "an address that cannot be read"),
        ("postgresql://me:x?sk-secret@127.0.0.1:1/bank", "an address that cannot be read"),
        ("host=127.0.0.1 port=1 password='it''s sk-secret'", "an address that cannot be read"),
        ("host=127.0.0.1 port=1 dbname='postgresql://me:sk-secret@h/x'", "postgresql://127.0.0.1:1/***"),
        ("", "an address that cannot be read"),
    ],
)  # fmt: skip
def test_a_password_in_an_address_is_never_shown(address: str, seen: str, names: Names) -> None:
    arm = PostgresText(address, "", names, patience=2.0)
    assert arm.address == seen
    with pytest.raises(EngineError) as caught:
        arm.version()
    assert "sk-secret" not in shown(caught.value)


def test_a_server_that_repeats_the_password_is_not_repeated(names: Names) -> None:
    with odd("hang") as port:
        arm = PostgresText(f"postgresql://127.0.0.1:{port}/x", "sk-secret", names, patience=0.5)
        with pytest.raises(EngineDown) as caught:
            arm.count(Sieve())
    assert "sk-secret" not in shown(caught.value)


def test_connections_are_shared_and_closed(
    text: PostgresText, names: Names, sql: psycopg.Connection
) -> None:
    text.put(memory(names, "notes/a.md"))
    barrier = threading.Barrier(12)

    def ask(_: int) -> int:
        barrier.wait()
        return text.count(Sieve())

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(12))) == [1] * 12
    text.close()
    assert text.count(Sieve()) == 1  # it may be used again


def test_what_was_made_with_other_settings_is_told_and_graphs_are_built_anew(
    server: Process, names: Names, sql: psycopg.Connection
) -> None:
    first = PostgresVectors(
        server.address, KEY, names, patience=30.0, settings=PostgresSettings(exact=100)
    )
    bank = [piece for n in range(600) for piece in memory(names, f"notes/{n}.md")]
    first.put(bank)
    assert first.otherwise() == []
    wanted = PostgresSettings(exact=100, m=24, ef_construction=100, half=True)
    arm = PostgresVectors(server.address, KEY, names, patience=30.0, settings=wanted)
    table = names.of("notes")
    in_16_bits = f"{names.prefix[:-1]}: a number takes 32 bits, and 16 are set"
    assert arm.otherwise() == [
        f"{table}: its graph has m=16, ef_construction=64",
        in_16_bits,
    ]
    arm.adapt()
    assert arm.otherwise() == [in_16_bits]
    options = sql.execute(
        "SELECT reloptions FROM pg_class c JOIN pg_indexes i ON i.indexname = c.relname "
        "WHERE i.tablename = %s AND i.indexdef LIKE '%%USING hnsw%%'",
        (table,),
    ).fetchall()
    assert options == [(["m=24", "ef_construction=100"],)]
    # And whatever is set, what is there is searched and written as it was made.
    fresh = PostgresVectors(server.address, KEY, names, patience=30.0, settings=wanted)
    assert _overlap(fresh, Sieve(), bank) >= 0.95
    fresh.put(memory(names, "notes/new.md"))
    assert fresh.count(Sieve()) == 601
    for one in (first, arm, fresh):
        one.close()
    again = PostgresVectors(server.address, KEY, names, patience=30.0)
    again.drop()
    again.close()


def test_a_graph_that_could_not_be_built_is_tried_again_with_the_next_put(
    server: Process, names: Names, sql: psycopg.Connection
) -> None:
    settings = PostgresSettings(exact=200)
    arm = PostgresVectors(server.address, KEY, names, patience=30.0, settings=settings)
    sql.execute(
        "CREATE FUNCTION no_graph() RETURNS event_trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'no graph today'; END $$"
    )
    arm.ready(["notes"])
    arm.put(memory(names, "notes/a.md"))
    sql.execute(
        "CREATE EVENT TRIGGER no_graph ON ddl_command_start WHEN TAG IN ('CREATE INDEX') "
        "EXECUTE FUNCTION no_graph()"
    )
    bank = [piece for n in range(600) for piece in memory(names, f"notes/{n}.md")]
    try:
        with pytest.raises(EngineRefused):
            arm.put(bank)
    finally:
        sql.execute("DROP EVENT TRIGGER no_graph")
        sql.execute("DROP FUNCTION no_graph")
    arm.put(memory(names, "notes/a.md"))
    assert _graphs(sql, names) == 1
    arm.drop()
    arm.close()


def test_a_bank_that_was_dropped_by_anyone_gets_its_graph_again(
    server: Process, names: Names, vectors: PostgresVectors, sql: psycopg.Connection
) -> None:
    other = PostgresVectors(
        server.address, KEY, names, patience=30.0, settings=PostgresSettings(exact=500)
    )
    bank = [piece for n in range(1_000) for piece in memory(names, f"notes/{n}.md")]
    for who in (vectors, other):
        vectors.put(bank)
        assert _graphs(sql, names) == 1
        who.drop()
        assert _graphs(sql, names) == 0
    other.put(bank[:10])  # not so many that it would be who builds
    vectors.put(bank)
    assert _graphs(sql, names) == 1
    other.close()


def _graphs(sql: psycopg.Connection, names: Names) -> int:
    return sql.execute(
        "SELECT 1 FROM pg_indexes WHERE tablename = %s AND indexdef LIKE '%%hnsw%%'",
        (names.of("notes"),),
    ).rowcount


@pytest.mark.parametrize("version, is_fine", [("0.9-dev", True), ("0.7.4", False), ("new", False)])
def test_a_version_of_pgvector_may_be_written_in_any_way(
    server: Process, names: Names, sql: psycopg.Connection, version: str, is_fine: bool
) -> None:
    sql.execute("CREATE EXTENSION IF NOT EXISTS vector")
    ((before,),) = sql.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    change = "UPDATE pg_extension SET extversion = %s WHERE extname = 'vector'"
    arm = PostgresVectors(server.address, KEY, names, patience=30.0, dimension=DIMENSION)
    sql.execute(change, (version,))
    try:
        if is_fine:
            arm.ready(["notes"])
        else:
            with pytest.raises(EngineRefused, match=f"pgvector {version}"):
                arm.ready(["notes"])
    finally:
        sql.execute(change, (before,))
        arm.drop()
        arm.close()
