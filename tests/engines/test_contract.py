"""What every engine must do, whatever the server behind it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import numpy as np
import pytest

from retain.index.engines.engine import (
    Engine,
    EngineDown,
    EngineError,
    EngineRefused,
    Filter,
    TextEngine,
    VectorEngine,
)
from retain.index.vectors import Floats
from tests.engines.conftest import (
    DIMENSION,
    KEY,
    REAL,
    Bench,
    document,
    put_all,
    unit,
    uuid,
    uuids,
)
from tests.engines.servers import Odd, free_port, odd

WRONG: Final = "sk-NorMayTheySeeThat"
DAY: Final = 86_400.0
HOSTILE: Final = (
    "foo-bar", "c++", "it's", '" OR 1=1', "' OR '1'='1", '"quoted"', "nul\x00inside", "*", "%_",
    "\\", "\\' OR 1=1 --", "a AND b", "[x] (y) {z}", "../../etc", "zeile\nzwei", "日本語",
    "\N{COMBINING ACUTE ACCENT}\N{RIGHT-TO-LEFT OVERRIDE}\N{GRINNING FACE}", "x" * 10_000,
)  # fmt: skip


def _only(part: str) -> pytest.MarkDecorator:
    rows = [row for row in REAL if row.part in part]
    params = [pytest.param(row, marks=pytest.mark.slow, id=row.name) for row in rows]
    return pytest.mark.parametrize("row", params, indirect=True)


only_real, only_text, only_vector = map(_only, ("text vector", "text", "vector"))


# Documents


def test_nothing_is_there_before_anything_was_put(bench: Bench) -> None:
    assert bench.engine.version()
    assert bench.find() == set()
    assert list(bench.engine.ids()) == []
    assert bench.engine.count() == 0
    bench.engine.put([])
    bench.engine.delete([uuid(1)])
    assert bench.engine.drop() == 0


def test_what_was_put_is_found_at_once_and_may_be_put_again(bench: Bench) -> None:
    documents = [document(1), document(2, collection="work"), document(3)]
    for _ in range(2):
        bench.engine.put(documents)
        assert bench.find() == uuids(1, 2, 3)
        assert sorted(bench.engine.ids()) == sorted(uuids(1, 2, 3))
        assert bench.engine.count() == 3
    assert len(bench.find(limit=2)) == 2


def test_what_was_deleted_is_gone_and_nothing_else_is(bench: Bench) -> None:
    bench.engine.put([document(1), document(2), document(3)])
    for _ in range(2):
        bench.engine.delete([uuid(2), uuid(99)])
        assert bench.find() == uuids(1, 3)
        assert set(bench.engine.ids()) == uuids(1, 3)
    bench.engine.put([document(2)])
    assert bench.find() == uuids(1, 2, 3)


def test_a_large_bank_is_put_and_listed_whole(bench: Bench) -> None:
    many = range(6_000)
    documents = [document(number) for number in many]
    put_all(bench.engine, documents)
    assert set(bench.engine.ids()) == uuids(*many)
    assert bench.engine.count() == len(many)
    for start in range(0, len(many), 2_000):
        bench.engine.delete([uuid(number) for number in many[start : start + 2_000 : 2]])
    assert set(bench.engine.ids()) == uuids(*many[1::2])


def test_two_banks_on_one_server_do_not_see_each_other(bench: Bench) -> None:
    near = bench.another(f"{bench.bank}-2")
    bench.engine.put([document(1)])
    near.put([document(1), document(2)])
    assert bench.find() == uuids(1)
    bench.engine.delete([uuid(2)])
    assert bench.engine.drop() == 1
    assert list(bench.engine.ids()) == []
    assert bench.find(engine=near) == uuids(1, 2)
    assert near.drop(others=True) == 0
    assert near.drop() == 2


def test_a_bank_can_be_filled_again_after_another_machine_dropped_it(bench: Bench) -> None:
    bench.engine.put([document(1)])
    other = bench.another()
    assert bench.find(engine=other) == uuids(1)
    assert other.drop() == 1
    assert bench.find() == set()
    assert bench.engine.count() == 0
    bench.engine.put([document(2)])
    assert set(other.ids()) == uuids(2)


# Filters


def test_each_condition_of_a_filter_is_kept(bench: Bench) -> None:
    bench.engine.put(
        [
            document(1, collection="a", tags=("x", "y"), created=10 * DAY),
            document(2, collection="a", type="fact", tags=("y",), created=20 * DAY),
            document(3, collection="b", status="archived", created=30 * DAY),
            document(4, collection="b/c", type="rule", tags=("x z",), created=0.0),
        ]
    )
    many = tuple(f"t{n}" for n in range(100))
    cases: list[tuple[Filter, tuple[int, ...]]] = [
        (Filter(), (1, 2, 3, 4)),
        (Filter(collections=("a",)), (1, 2)),
        (Filter(collections=("b",)), (3,)),
        (Filter(collections=("a", "b/c")), (1, 2, 4)),
        (Filter(collections=("none",)), ()),
        (Filter(types=("note",)), (1, 3)),
        (Filter(types=("fact", "rule", *many)), (2, 4)),
        (Filter(tags=("x",)), (1,)),
        (Filter(tags=("x", "y", *many)), (1, 2)),
        (Filter(tags=("x z",)), (4,)),
        (Filter(statuses=("archived",)), (3,)),
        (Filter(without_statuses=("archived",)), (1, 2, 4)),
        (Filter(statuses=("active", "archived"), without_statuses=("active",)), (3,)),
        (Filter(since=20 * DAY), (2, 3)),
        (Filter(until=20 * DAY), (1, 2)),
        (Filter(since=15 * DAY, until=25 * DAY), (2,)),
        (Filter(since=0.0), (1, 2, 3)),
        (Filter(collections=("a",), types=("note",), tags=("y",), since=DAY), (1,)),
    ]
    for where, expected in cases:
        assert bench.find(where) == uuids(*expected), where


@pytest.mark.parametrize("field", ["tags", "type", "status", "collection"])
def test_hostile_values_are_nothing_but_values(bench: Bench, field: str) -> None:
    """S9: no value can end a quotation, match like a pattern or reach another document."""

    def fields(value: str) -> dict[str, Any]:
        return {field: (value,) if field == "tags" else value}

    plain = document(99, tags=("foo", "x"), type="foo")
    documents = [document(number, **fields(value)) for number, value in enumerate(HOSTILE)]
    bench.engine.put([plain, *documents])
    filters: dict[str, Callable[[str], Filter]] = {
        "tags": lambda value: Filter(tags=(value,)),
        "type": lambda value: Filter(types=(value,)),
        "status": lambda value: Filter(statuses=(value,)),
        "collection": lambda value: Filter(collections=(value,)),
    }
    for number, value in enumerate(HOSTILE):
        assert bench.find(filters[field](value)) == uuids(number), value[:50]
    if field == "status":
        assert bench.find(Filter(without_statuses=HOSTILE)) == uuids(99)


# Vectors


@only_vector
def test_the_nearest_are_those_of_an_exact_scan(bench: Bench) -> None:
    documents = [document(number) for number in range(3_000)]
    put_all(bench.engine, documents)
    matrix = np.stack([cast(Floats, one.vector) for one in documents])
    hits = 0
    for n in range(20):
        probe = unit(f"question {n}")
        products = matrix @ probe
        matches = cast(VectorEngine, bench.engine).nearest(probe * 0.7, Filter(), 10)
        hits += len(uuids(*np.argsort(-products)[:10]) & {match.id for match in matches})
        assert matches[0].score == pytest.approx(0.7 * float(products.max()), abs=1e-3)
    assert hits >= 0.95 * 10 * 20


@only_vector
def test_a_vector_of_another_length_is_refused(bench: Bench) -> None:
    bench.engine.put([document(1)])
    short = cast(Floats, unit("q")[: DIMENSION // 2])
    with pytest.raises(EngineRefused):
        cast(VectorEngine, bench.engine).nearest(short, Filter(), 10)
    with pytest.raises(EngineRefused):
        bench.another().put([document(2, vector=short)])
    assert list(bench.engine.ids()) == [uuid(1)]


# Words


@only_text
def test_only_whole_terms_match(bench: Bench) -> None:
    engine = cast(TextEngine, bench.engine)
    terms = ["foo-bar", "foo", "foobar", "c++", "it's", "v1.2.3", "snake_case", "日本", "naïv"]
    engine.put([document(number, terms=term) for number, term in enumerate(terms)])
    for number, term in enumerate(terms):
        found = engine.matching({term: 1.0}, Filter(), 20)
        assert [match.id for match in found] == [uuid(number)], term
    for absent in ("fo", "bar", "v1", "runs", "running", "snake", "the"):
        assert engine.matching({absent: 1.0}, Filter(), 20) == [], absent


@only_text
def test_rare_terms_count_most_and_hostile_ones_are_only_terms(bench: Bench) -> None:
    engine = cast(TextEngine, bench.engine)
    engine.put(
        [
            *(document(number, terms="often usual") for number in range(20)),
            document(20, terms="zebra"),
        ]
    )
    found = engine.matching({"often": 0.1, "usual": 0.1, "zebra": 5.0}, Filter(), 5)
    assert (found[0].id, len(found)) == (uuid(20), 5)
    many = {f"absent{number}": 0.5 for number in range(2_000)}
    assert [match.id for match in engine.matching(many | {"zebra": 9.0}, Filter(), 5)] == [uuid(20)]
    for value in HOSTILE:  # S9
        assert engine.matching({value: 2.0}, Filter(), 5) == [], value[:50]
        found = engine.matching({value: 2.0, "zebra": 1.0}, Filter(), 5)
        assert [match.id for match in found] == [uuid(20)], value[:50]
    assert engine.matching({}, Filter(), 5) == []


# A server that is gone, wrong or hostile is an error of one line, soon, and with no secret

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
_ACTS: Final[dict[str, Callable[[Bench, Engine], object]]] = {
    "version": lambda _, engine: engine.version(),
    "put": lambda _, engine: engine.put([document(1)]),
    "delete": lambda _, engine: engine.delete([uuid(1)]),
    "ids": lambda _, engine: list(engine.ids()),
    "count": lambda _, engine: engine.count(),
    "find": lambda bench, engine: bench.find(engine=engine),
    "drop": lambda _, engine: engine.drop(),
}


def _fails(
    bench: Bench,
    make: Callable[[], Engine],
    kind: type[EngineError],
    secrets: Sequence[str],
    acts: Sequence[str] = tuple(_ACTS),
) -> None:
    """Each act fails in one line that holds no secret; all are begun at once."""

    def act(name: str) -> None:
        with pytest.raises(kind) as caught:
            _ACTS[name](bench, make())
        error = caught.value
        lines = "".join(traceback.format_exception(error))
        shown = "\n".join([str(error), repr(error), repr(vars(error)), error.hint, lines])
        assert not [secret for secret in secrets if secret in shown], name
        assert str(error).isprintable(), name
        assert bench.row.kind in str(error).casefold(), name
        assert len(str(error)) < 500, name

    with ThreadPoolExecutor(len(acts)) as pool:
        for done in [pool.submit(act, name) for name in acts]:
            done.result()


@only_real
def test_nobody_listens(bench: Bench) -> None:
    user = "" if bench.row.kind in {"meilisearch", "upstash"} else f"user:{WRONG}@"
    address = f"{bench.row.scheme}://{user}127.0.0.1:{free_port()}"
    engine = bench.another(address=address, key=WRONG, seconds=2.0)
    assert WRONG not in repr(engine)
    _fails(bench, lambda: engine, EngineDown, [WRONG])


@only_real
def test_a_wrong_key_is_refused_and_never_shown(bench: Bench) -> None:
    bench.engine.put([document(1)])
    engine = bench.another(key=WRONG)
    acts = [act for act in _ACTS if act != "version"]  # which some tell anybody
    _fails(bench, lambda: engine, EngineRefused, [WRONG, KEY], acts)
    assert list(bench.engine.ids()) == [uuid(1)]


@only_real
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", list(_ODD))
def test_a_server_that_does_not_behave_is_left_soon(bench: Bench, how: Odd) -> None:
    is_http = bench.row.scheme == "http"
    if not is_http and how in {"error", "busy", "html"}:
        pytest.skip("it speaks another protocol")
    with odd(how) as port:
        address = f"{bench.row.scheme}://127.0.0.1:{port}"
        kind = _ODD[how] if is_http or how == "hang" else EngineError
        _fails(bench, lambda: bench.another(address=address, key=WRONG, seconds=0.5), kind, [WRONG])


@only_real
def test_a_server_that_was_killed_is_down_and_holds_all_when_it_is_back(own: Bench) -> None:
    own.engine.put([document(number) for number in range(60)])
    own.server.kill()
    _fails(own, lambda: own.engine, EngineDown, [KEY])
    own.server.start()
    assert set(own.engine.ids()) == uuids(*range(60))
    own.engine.put([document(60)])
    assert len(own.find(limit=1_000)) == 61
    own.server.stop()
    _fails(own, lambda: own.engine, EngineDown, [KEY], ["find"])
    own.server.start()
    assert len(own.find(limit=1_000)) == 61
