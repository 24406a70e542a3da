"""What is Upstash's own: its scores, its filter language, and that queries see a write later."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from retain.index.engines.arm import EngineRefused, Sieve
from retain.index.engines.naming import Names
from retain.index.engines.upstash import UpstashSettings, UpstashVectors
from retain.index.vectors import Floats
from tests.engines.contract import DIMENSION, HOSTILE, KEY, MODEL, grave, memory, unit
from tests.engines.upstash_server import BadFilter, Function, Upstash, parsed

pytestmark = pytest.mark.slow

NAMES = Names("bank")
SAID: dict[str, Any] = {
    "city": "Istanbul",
    "is_capital": False,
    "population": 15460000,
    "geography": {"continent": "Asia", "coordinates": {"latitude": 41.0082}},
    "economy": {"industries": ["Tourism", "Textiles", "Finance"]},
}


@pytest.fixture(params=["COSINE", "DOT_PRODUCT", "EUCLIDEAN"])
def server(request: pytest.FixtureRequest) -> Iterator[Upstash]:
    """An index of each kind."""
    function: Function = request.param
    found = Upstash(KEY, DIMENSION, function)
    found.start()
    yield found
    found.kill()


@pytest.fixture
def slow() -> Iterator[Upstash]:
    """An index whose queries see a write much later."""
    found = Upstash(KEY, DIMENSION, delay=0.5)
    found.start()
    yield found
    found.kill()


def _arm(server: Upstash, settings: UpstashSettings | None = None) -> UpstashVectors:
    return UpstashVectors(
        server.address, KEY, NAMES, patience=30, dimension=DIMENSION, settings=settings
    )


def test_scores_are_products_whatever_the_index_compares_by(server: Upstash) -> None:
    arm = _arm(server)
    pieces = [piece for n in range(20) for piece in memory(NAMES, f"notes/{n}.md")]
    arm.put(pieces)
    probe = cast(Floats, unit("q") * np.float32(2.5))
    (found,) = arm.nearest([probe], MODEL, Sieve(), [20])
    products = {p.digest: float(cast(Floats, p.vector) @ probe) for p in pieces}
    assert {m.digest: m.score for m in found} == pytest.approx(products, abs=1e-4)
    arm.close()


def test_a_put_waits_until_queries_see_it(slow: Upstash) -> None:
    arm = _arm(slow)
    arm.put(memory(NAMES, "notes/a.md"))
    assert len(arm.nearest([unit("q")], MODEL, Sieve(), [5])[0]) == 1
    arm.close()


def test_a_put_waits_no_longer_than_is_set(slow: Upstash) -> None:
    arm = _arm(slow, UpstashSettings(settle=0.0))
    arm.put(memory(NAMES, "notes/a.md"))
    assert set(arm.held(["notes/a.md"])) == {"notes/a.md"}
    arm.close()


def test_nothing_but_the_key_tells_who_asks(slow: Upstash) -> None:
    arm = _arm(slow)
    arm.put(memory(NAMES, "notes/a.md"))
    arm.nearest([unit("q")], MODEL, Sieve(), [5])
    for path, headers in slow.asked:
        assert KEY not in path
        assert [name for name, value in headers.items() if KEY in value] == ["Authorization"]
        assert not [name for name in headers if "telemetry" in name.casefold()]
    arm.close()


def test_what_a_memory_says_is_not_sent(slow: Upstash) -> None:
    arm = _arm(slow)
    arm.put(memory(NAMES, "notes/a.md", terms=["secretword"]))
    asked = {"cursor": "0", "limit": 10, "includeMetadata": True, "includeData": True}
    stored = json.dumps(slow.index.answer("/range/bank-retain-notes", "", asked))
    assert "notes/a.md" in stored
    assert "secretword" not in stored
    arm.close()


def test_namespaces_of_others_are_left_alone(slow: Upstash) -> None:
    arm = _arm(slow)
    body = {"id": "1", "vector": unit("x").tolist()}
    for name in ("", "/mine", "/bank", "/bank-retained", "/xbank-retain-notes"):
        slow.index.answer(f"/upsert{name}", "", body)
    arm.put(memory(NAMES, "notes/a.md"))
    arm.drop()
    left = slow.index.answer("/list-namespaces", "", None)
    assert set(left) == {"", "mine", "bank", "bank-retained", "xbank-retain-notes"}
    arm.close()


def test_a_question_makes_no_namespace(slow: Upstash) -> None:
    arm = _arm(slow)
    arm.nearest([unit("q")], MODEL, Sieve(collections=HOSTILE), [5])
    arm.count(Sieve(collections=("none",)))
    assert slow.index.answer("/list-namespaces", "", None) == [""]
    arm.close()


def test_an_index_of_another_dimension_is_refused_before_anything_is_changed(
    slow: Upstash,
) -> None:
    arm = _arm(slow)
    arm.put(memory(NAMES, "notes/a.md", chunks=3))
    short = cast(Floats, unit("q")[:5])
    with pytest.raises(EngineRefused, match=f"dimension {DIMENSION}"):
        arm.put(memory(NAMES, "notes/a.md", version=2, vectors=[short]))
    assert arm.held(["notes/a.md"])["notes/a.md"].is_whole
    other = UpstashVectors(slow.address, KEY, NAMES, patience=30, dimension=7)
    with pytest.raises(EngineRefused, match="these vectors have 7"):
        other.ready([])
    arm.close()
    other.close()


def test_the_end_of_a_longer_version_that_was_left_behind_is_removed(slow: Upstash) -> None:
    arm = _arm(slow)
    longer = memory(NAMES, "notes/a.md", chunks=200)
    arm.put(longer)
    shorter = memory(NAMES, "notes/a.md", chunks=2, version=2)
    # As two machines leave it that write at once: the ends of both are there.
    ours = [{"id": p.id, "vector": unit("x").tolist()} for p in shorter]
    ranged = {"cursor": "0", "limit": 1000, "includeMetadata": True}
    stored = slow.index.answer("/range/bank-retain-notes", "", ranged)["vectors"]
    said = {one["id"]: one["metadata"] for one in stored}
    for item, piece in zip(ours, shorter, strict=True):
        item["metadata"] = said[piece.id] | {
            "hash": piece.hash,
            "written": repr(piece.written),
            "pieces": 2,
        }
    slow.index.answer("/upsert/bank-retain-notes", "", ours)
    assert not arm.held(["notes/a.md"])["notes/a.md"].is_whole
    assert [held.is_whole for held in arm.manifest()] == [False]
    arm.put(shorter)
    assert [held.is_whole for held in arm.manifest()] == [True]
    assert arm.count(Sieve()) == 2
    arm.close()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", True),
        ("population >= 1000000 AND geography.continent = 'Asia'", True),
        ('geography.continent = "Asia"', True),
        ("city = 'Ankara' OR population > 5", True),
        ("city = 'Ankara' AND population > 5 OR city = 'Istanbul'", True),
        ("city = 'Ankara' AND (population > 5 OR city = 'Istanbul')", False),
        ("city != 'Ankara'", True),
        ("absent != 'Ankara'", False),
        ("absent NOT IN ('a')", False),
        ("city IN ('Ankara', 'Istanbul')", True),
        ("city not in ('Ankara', 'Istanbul')", False),
        ("city GLOB '?[sz]*[^m-z]'", True),
        ("city NOT GLOB 'A*'", True),
        ("economy.industries CONTAINS 'Tourism'", True),
        ("economy.industries NOT CONTAINS 'Steel'", True),
        ("economy.industries[0] = 'Tourism'", True),
        ("economy.industries[#-1] = 'Finance'", True),
        ("is_capital = false", True),
        ("is_capital = 0", True),
        ("geography.coordinates.latitude < 41.1", True),
        ("population = '15460000'", False),
        ("population <= -1.5", False),
    ],
)
def test_the_filter_language_of_the_tests_own_server(text: str, expected: bool) -> None:
    assert parsed(text)(SAID) is expected


@pytest.mark.parametrize(
    "text",
    [
        "city",
        "city =",
        "= 'x'",
        "city = 'x",
        "city = 'it's'",
        "(city = 'x'",
        "city = 'x' city",
        "a ~ 1",
    ],
)
def test_a_filter_that_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(BadFilter):
        parsed(text)


def test_everything_is_counted_without_being_read(slow: Upstash) -> None:
    arm = _arm(slow, UpstashSettings(settle=30))
    arm.put([piece for n in range(30) for piece in memory(NAMES, f"notes/{n}.md")])
    size = arm.count(Sieve())
    arm.put([*grave(NAMES, "notes/0.md"), *grave(NAMES, "notes/gone.md")])
    before = len(slow.asked)
    assert arm.count(Sieve()) == size - len(memory(NAMES, "notes/0.md"))
    assert not [path for path, _ in slow.asked[before:] if "range" in path]
    arm.close()


def test_so_many_marks_that_no_query_shows_them_all_are_counted(
    slow: Upstash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retain.index.engines.upstash.vectors._PAGE", 4)
    arm = _arm(slow, UpstashSettings(settle=30))
    arm.put(memory(NAMES, "notes/there.md"))
    arm.put([piece for n in range(9) for piece in grave(NAMES, f"notes/{n}.md")])
    assert arm.count(Sieve()) == len(memory(NAMES, "notes/there.md"))
    arm.close()
