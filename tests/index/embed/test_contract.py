"""What every embedder promises, whichever it is."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from retain.index.embed import Embedder, EmbedderError, embedder
from tests.daemon.process import listening
from tests.index.embed import models, server

TEXTS = ["the tea is hot", "", "rain", "the tea is hot", "a\ud800b", "tea " * 5000, "ünïcödé 茶"]


@pytest.fixture(params=["bundled", "directory", "http", "warm"])
def any_embedder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Embedder]:
    if request.param == "http":
        with server.running() as running:
            yield made(running.base, model="m")
    elif request.param == "directory":
        yield made(str(models.write(tmp_path / "tiny")))
    elif request.param == "warm":
        with listening(str(tmp_path / "bank")) as bank:
            found = embedder(warm=[bank])
            assert found is not None
            yield found
    else:
        yield made("bundled")


def made(spec: str, *, model: str = "") -> Embedder:
    found = embedder(spec, model=model)
    assert found is not None
    return found


def test_a_text_gives_a_unit_vector(any_embedder: Embedder) -> None:
    vectors = any_embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), len(any_embedder.query("tea")))
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert vectors[0] == pytest.approx(vectors[3], abs=1e-5)
    assert abs(vectors[0] @ vectors[2]) < 0.999


def test_a_query_is_the_vector_of_its_text(any_embedder: Embedder) -> None:
    together = any_embedder.embed(TEXTS)
    alone = np.stack([any_embedder.query(text) for text in TEXTS])
    assert alone == pytest.approx(together, abs=1e-5)


def test_no_texts_give_no_vectors(any_embedder: Embedder) -> None:
    assert len(any_embedder.embed([])) == 0


@pytest.mark.slow
def test_threads_get_what_one_alone_gets(any_embedder: Embedder) -> None:
    texts = [f"note {n}: " + "the tea is hot " * (n % 5) for n in range(24)]
    with ThreadPoolExecutor(4) as pool:
        queries = list(pool.map(any_embedder.query, texts))
        parts = list(pool.map(any_embedder.embed, [texts[n::4] for n in range(4)]))
    alone = any_embedder.embed(texts)
    assert np.stack(queries) == pytest.approx(alone, abs=1e-5)
    for n, part in enumerate(parts):
        assert part == pytest.approx(alone[n::4], abs=1e-5)


def test_none_is_no_embedder() -> None:
    assert embedder("none") is None


@pytest.mark.parametrize("spec", ["", "minilm", "ftp://host/v1", "Bundled"])
def test_an_unknown_embedder_is_refused_with_what_there_is(spec: str) -> None:
    with pytest.raises(EmbedderError) as caught:
        embedder(spec)
    assert "bundled" in caught.value.hint
    assert caught.value.code == "embedder"


@pytest.mark.parametrize("spec", ["bundled", "none", "/nowhere", "http://127.0.0.1:9/v1"])
def test_an_embedder_is_named_before_anything_heavy_is_imported(spec: str) -> None:
    code = (
        "import sys; from retain.index.embed import embedder\n"
        f"found = embedder({spec!r}, model='m')\n"
        f"if {spec!r} in ('bundled', 'http://127.0.0.1:9/v1'): found.name\n"
        "print([name for name in ('numpy', 'tokenizers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )
    assert done.stdout == "[]\n"
