"""What is Postgres' alone: its rights, its graphs, its ranking, and a connection that hangs."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, cast

import numpy as np
import psycopg
import pytest

from retain.index.engines.client import Breaker, Client
from retain.index.engines.engine import (
    EngineDown,
    EngineRefused,
    Filter,
    TextEngine,
    VectorEngine,
)
from retain.index.vectors import Floats
from tests.engines import servers
from tests.engines.conftest import KEY, REAL, Bench, document, put_all, unit, uuid, uuids

pytestmark = pytest.mark.slow
_text, _vector = (
    pytest.mark.parametrize(
        "row", [row for row in REAL if (row.kind, row.part) == ("postgres", part)], indirect=True
    )
    for part in ("text", "vector")
)


@pytest.fixture
def sql(bench: Bench) -> Iterator[psycopg.Connection]:
    with psycopg.connect(bench.server.address, password=KEY, autocommit=True) as connection:
        yield connection


@_text
@pytest.mark.parametrize(
    "of, to, key, said",
    [
        ("/postgres", "/nosuch", KEY, "does not let this user in"),
        ("retain@", "nobody@", KEY, "did not accept the user or the password"),
        ("retain@", "retain:sk-OfAnother@", KEY, "did not accept the user or the password"),
        ("retain@", "retain@", "", "did not accept the user or the password"),
    ],
)
def test_what_keeps_it_from_connecting_is_told_apart(
    bench: Bench, of: str, to: str, key: str, said: str
) -> None:
    engine = bench.another(address=bench.server.address.replace(of, to), key=key)
    with pytest.raises(EngineRefused, match=said) as caught:
        engine.version()
    assert "sk-" not in str(caught.value) + caught.value.words
    right = bench.server.address.replace("retain@", f"retain:{KEY}@")
    assert bench.another(address=right, key="sk-OfAnother").version()


@_vector
@pytest.mark.parametrize("half", [False, True])
def test_a_large_table_gets_a_graph_that_finds_what_a_scan_finds(
    bench: Bench, sql: psycopg.Connection, half: bool
) -> None:
    engine = cast(VectorEngine, bench.another(exact=500, half=half))
    documents = [
        document(number, tags=("rare",) if number % 50 == 0 else ()) for number in range(4_000)
    ]
    put_all(engine, documents)  # the last of them into the graph that is there
    for where, pool in (
        (Filter(), documents),
        (Filter(tags=("rare",)), [one for one in documents if one.tags]),
    ):
        matrix = np.stack([cast(Floats, one.vector) for one in pool])
        hits = 0
        for n in range(20):
            probe = unit(f"question {n}")
            best = {pool[at].id for at in np.argsort(-(matrix @ probe))[:10]}
            hits += len(best & {match.id for match in engine.nearest(probe, where, 10)})
        assert hits >= 0.95 * 200, where
    # All there are, though the graph would have stopped before.
    assert len(engine.nearest(unit("q"), Filter(tags=("rare",)), 200)) == 80
    (graph,) = sql.execute(
        "SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%hnsw%'"
    ).fetchall()
    assert graph == (1,)


@_text
def test_terms_are_ranked_as_bm25_ranks_them(bench: Bench) -> None:
    engine = cast(TextEngine, bench.engine)
    dice = random.Random(7)
    words, odds = [f"w{n}" for n in range(300)], [1 / (n + 1) for n in range(300)]
    bags = {uuid(n): dice.choices(words, odds, k=dice.randint(20, 200)) for n in range(600)}
    engine.put([document(n)._replace(terms=" ".join(bags[uuid(n)])) for n in range(600)])
    counts = Counter(word for bag in bags.values() for word in set(bag))
    average = sum(map(len, bags.values())) / len(bags)
    hits = total = 0
    for _ in range(20):
        asked = dice.sample(words, 5)
        weights = {w: math.log(1 + (600 - counts[w] + 0.5) / (counts[w] + 0.5)) for w in asked}
        found = engine.matching(weights, Filter(), 10)

        def score(id_: str, weights: dict[str, float] = weights) -> float:
            times, length = Counter(bags[id_]), len(bags[id_])
            weight = 0.645 * (0.6 + 0.4 * length / average)
            return sum(w * times[term] / (times[term] + weight) for term, w in weights.items())

        best = sorted(bags, key=score, reverse=True)[: len(found)]
        hits += len({match.id for match in found} & set(best))
        total += len(found)
    assert hits >= 0.9 * total


@_text
def test_machines_make_and_fill_one_table_at_once(bench: Bench) -> None:
    engines = [bench.another() for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda at: engines[at].put([document(at), document(9)]), range(6)))
    assert set(bench.engine.ids()) == uuids(*range(6), 9)


@_text
def test_a_connection_that_hangs_is_left_in_time(bench: Bench, sql: psycopg.Connection) -> None:
    client = Client("text", "postgres", "here", bench.bank, lambda _: bench.engine, 1.0)
    client.call(lambda engine: engine.put([document(1)]))
    query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'retain'"
    with ExitStack() as frozen:
        for (pid,) in sql.execute(query).fetchall():  # what our connections are served by
            frozen.enter_context(servers.frozen(pid))
        with pytest.raises(EngineDown, match="did not answer"):
            client.call(lambda engine: engine.count(), 1.0)
    Breaker.servers.clear()
    assert client.call(lambda engine: engine.count()) == 1


@_text
def test_a_table_that_someone_holds_is_left_in_time(bench: Bench, sql: psycopg.Connection) -> None:
    bench.engine.put([document(1)])
    hasty = cast(TextEngine, bench.another(seconds=2.0))
    with sql.transaction():
        sql.execute(f'LOCK TABLE retain_text."{bench.bank}-retain" IN ACCESS EXCLUSIVE MODE')
        with pytest.raises(EngineDown):
            hasty.matching({"common": 1.0}, Filter(), 5)
    hasty.put([document(2)])


@_text
def test_a_server_that_only_reads_is_one_to_try_later(bench: Bench) -> None:
    bench.engine.put([document(1)])
    address = f"{bench.server.address}?options=-c%20default_transaction_read_only%3Don"
    replica = bench.another(address=address)
    assert replica.count() == 1
    with pytest.raises(EngineDown):
        replica.put([document(2)])


@pytest.mark.parametrize("row", [row for row in REAL if row.kind == "postgres"], indirect=True)
def test_a_role_needs_a_schema_of_its_own_and_no_other_right(
    bench: Bench, sql: psycopg.Connection
) -> None:
    part = bench.row.part
    admin = bench.server.address.replace("/postgres", f"/team_{part}")

    def run(connection: psycopg.Connection, *statements: str) -> None:
        for statement in statements:
            connection.execute(statement.encode())

    run(sql, f"CREATE DATABASE team_{part}", f"CREATE ROLE team_{part} LOGIN PASSWORD '{KEY}'")
    engine = bench.another(address=admin.replace("retain@", f"team_{part}@"))
    schema: dict[str, Any] = {"schema": f"retain_{part}"}
    with pytest.raises(EngineRefused) as caught:
        engine.put([document(1)])
    assert "42501" in str(caught.value) or "pgvector" in str(caught.value)
    with psycopg.connect(admin, password=KEY, autocommit=True) as connection:
        run(connection, "CREATE EXTENSION vector")
        run(connection, f"CREATE SCHEMA {schema['schema']} AUTHORIZATION team_{part}")
    engine.put([document(1), document(2)])
    engine.delete([uuid(2)])
    assert engine.count() == 1
    assert engine.drop() == 1
