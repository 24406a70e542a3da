"""What is Upstash's alone: its scores, its namespaces, and that queries see a write late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast, get_args

import numpy as np
import pytest

from retain.index.engines.engine import Filter, VectorEngine
from retain.index.vectors import Floats
from tests.engines.conftest import DIMENSION, KEY, REAL, Bench, document, unit
from tests.engines.upstash_server import BadFilter, Function, Upstash, parsed


@pytest.fixture(params=get_args(Function))
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A bank in an index of each kind, whose queries see a write late."""
    server = Upstash(KEY, DIMENSION, request.param, delay=0.2)
    server.start()
    row = next(row for row in REAL if row.kind == "upstash")
    found = Bench(row, server, "bank")
    yield found
    found.close()
    server.kill()


def _answer(bench: Bench, path: str, body: object = None) -> object:
    return cast(Upstash, bench.server).index.answer(path, body)


def test_scores_are_products_whatever_the_index_compares_by(bench: Bench) -> None:
    documents = [document(number) for number in range(20)]
    bench.engine.put(documents)
    probe = cast(Floats, unit("q") * np.float32(2.5))
    found = cast(VectorEngine, bench.engine).nearest(probe, Filter(), 20)
    products = {one.id: float(cast(Floats, one.vector) @ probe) for one in documents}
    assert {match.id: match.score for match in found} == pytest.approx(products, abs=1e-4)


def test_only_what_is_needed_is_sent_and_namespaces_of_others_are_left_alone(bench: Bench) -> None:
    body = {"id": "1", "vector": unit("x").tolist()}
    others = ["", "mine", "bank", "bank-retained", "xbank-retain-0a1b2c3d"]
    for name in others:
        _answer(bench, f"/upsert/{name}".rstrip("/"), body)
    bench.find(Filter(collections=("none",)))  # a question makes no namespace
    assert sorted(cast(list[str], _answer(bench, "/list-namespaces"))) == sorted(others)
    bench.engine.put([document(1, terms="secretword")])
    listed = {"cursor": "0", "limit": 10, "includeMetadata": True, "includeData": True}
    stored = str(_answer(bench, "/range/bank-retain-0a1b2c3d", listed))
    assert "notes" in stored
    assert "secretword" not in stored
    assert bench.engine.drop() == 1
    assert sorted(cast(list[str], _answer(bench, "/list-namespaces"))) == sorted(others)
    for path, headers in cast(Upstash, bench.server).asked:
        assert KEY not in path
        assert [name for name, value in headers.items() if KEY in value] == ["Authorization"]
        assert not [name for name in headers if "telemetry" in name.casefold()]


_SAID = {
    "city": "Istanbul",
    "is_capital": False,
    "population": 15460000,
    "industries": ["Tourism", "Textiles", "Finance"],
}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", True),
        ("city = 'Ankara' OR population > 5", True),
        ("city = 'Ankara' AND population > 5 OR city = 'Istanbul'", True),
        ("city = 'Ankara' AND (population > 5 OR city = 'Istanbul')", False),
        ("city != 'Ankara'", True),
        ("absent != 'Ankara'", False),
        ("city IN ('Ankara', 'Istanbul')", True),
        ("city not in ('Ankara', 'Istanbul')", False),
        ("industries CONTAINS 'Tourism'", True),
        ("population = '15460000'", False),
        ("population <= -1.5", False),
    ],
)
def test_the_filter_language_of_the_tests_own_server(text: str, expected: bool) -> None:
    assert parsed(text)(_SAID) is expected


@pytest.mark.parametrize(
    "text", ["city", "city =", "= 'x'", "city = 'it's'", "(city = 'x'", "a ~ 1"]
)
def test_a_filter_that_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(BadFilter):
        parsed(text)
