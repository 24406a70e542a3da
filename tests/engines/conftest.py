"""Every engine, each on a real server that is started once and shared."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np
import pytest

from retain.config import SETTINGS
from retain.index.engines.client import Breaker
from retain.index.engines.engine import Document, Engine, Filter, TextEngine, VectorEngine
from retain.index.engines.server import Server as Place
from retain.index.engines.settings import make_engine
from retain.index.vectors import Floats
from tests.conftest import ROOT
from tests.engines import servers
from tests.engines.servers import Server
from tests.engines.upstash_server import Upstash

DIMENSION: Final = 32
KEY: Final = "sk-N0bodyMaySeeThis"  # of the servers
EVERYTHING: Final = Filter()
COMMON: Final = "common"  # a term that every document has
_NUMBERS = itertools.count()


@cache
def example_engine() -> type[Any]:
    """The engine that the docs show, as a class."""
    text = (ROOT / "docs" / "engines.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    found: dict[str, Any] = {}
    exec(code, found)  # noqa: S102 - our own docs
    return cast(type[Any], found["InMemory"])


def in_memory(container: str) -> Any:
    """The example for a bank."""
    return example_engine()(Place("example", "http://nowhere", "", container))


class _Nowhere:
    """No server: the example keeps everything itself."""

    address, key = "http://127.0.0.1:9", ""

    def start(self) -> None:
        pass

    def kill(self) -> None:
        pass

    stop = kill


class Row(NamedTuple):
    """One arm of one engine."""

    kind: str  # the product; rows of one product share a server
    part: Literal["vector", "text"]
    server: Callable[[Path], Server]  # not started yet, with KEY as its key
    scheme: str = "http"  # of its addresses

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.part}"

    @property
    def is_real(self) -> bool:
        return self.kind != "example"


EXAMPLES: Final = [
    Row("example", part, lambda _directory: _Nowhere()) for part in ("vector", "text")
]
REAL: Final = [
    Row("qdrant", "vector", lambda directory: servers.qdrant(directory, KEY)),
    Row("meilisearch", "text", lambda directory: servers.meilisearch(directory, KEY)),
    Row("postgres", "text", lambda directory: servers.postgres(directory, KEY), "postgresql"),
    Row("postgres", "vector", lambda directory: servers.postgres(directory, KEY), "postgresql"),
    Row("upstash", "vector", lambda _directory: Upstash(KEY, DIMENSION)),
]
ROWS: Final = [*EXAMPLES, *(pytest.param(row, marks=pytest.mark.slow) for row in REAL)]


def defaults(kind: str, **others: Any) -> dict[str, Any]:
    """The settings of a product as they come, but for some."""
    prefix = f"engine.{kind}."
    found = {
        key.removeprefix(prefix): one.default for key, one in SETTINGS.items() if prefix in key
    }
    return found | others


class Bench:
    """A bank of its own on a server, and what a test asks of it."""

    def __init__(self, row: Row, server: Server, bank: str) -> None:
        self.row, self.server, self.bank = row, server, bank
        self._made: list[Engine] = []
        self.engine = self.another()

    def another(
        self,
        bank: str = "",
        *,
        address: str = "",
        key: str | None = None,
        seconds: float = 30.0,
        container: str = "",
        **settings: Any,
    ) -> Engine:
        """One more engine; it is closed with the others."""
        kind, part = self.row.kind, self.row.part
        model = "-0a1b2c3d" if part == "vector" else ""
        container = container or f"{bank or self.bank}-retain{model}"
        key = self.server.key if key is None else key
        place = Place(
            kind, address or self.server.address, key, container, seconds=seconds,
            settings=defaults(kind, **settings), notes=str(self._notes),
        )  # fmt: skip
        engine = make_engine(place, part) if self.row.is_real else example_engine()(place)
        self._made.append(engine)
        return engine

    _notes = Path("/nonexistent")

    def find(
        self, where: Filter = EVERYTHING, limit: int = 100, engine: Engine | None = None
    ) -> set[str]:
        """The ids that are found when nothing but the filter decides, the best first."""
        asked = engine or self.engine
        if self.row.part == "vector":
            matches = cast(VectorEngine, asked).nearest(unit("probe"), where, limit)
        else:
            matches = cast(TextEngine, asked).matching({COMMON: 1.0}, where, limit)
        scores = [match.score for match in matches]
        assert scores == sorted(scores, reverse=True)
        assert len(matches) <= limit
        return {match.id for match in matches}

    def close(self) -> None:
        for engine in self._made:
            engine.close()


def unit(seed: str) -> Floats:
    """A vector of length 1, always the same for the same seed."""
    dice = np.random.default_rng(list(seed.encode("utf-8", "surrogatepass")))
    vector: Floats = dice.standard_normal(DIMENSION).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def document(
    number: int, *, terms: str = "", vector: Floats | None = None, **fields: Any
) -> Document:
    """A document whose id says its number."""
    usual: dict[str, Any] = {
        "collection": "notes", "type": "note", "status": "active", "tags": (),
        "created": 1_700_000_000.0,
    }  # fmt: skip
    vector = unit(f"document {number}") if vector is None else vector
    return Document(
        uuid(number), **(usual | fields), vector=vector, terms=f"{COMMON} {terms}".strip()
    )


def put_all(engine: Engine, documents: Sequence[Document]) -> None:
    """Put documents, a thousand at once."""
    for start in range(0, len(documents), 1_000):
        engine.put(documents[start : start + 1_000])


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012x}"


def uuids(*numbers: int) -> set[str]:
    return set(map(uuid, numbers))


class Servers:
    """The servers that run, by their product."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._running: dict[str, Server] = {}

    def of(self, row: Row) -> Server:
        if row.kind not in self._running:
            server = row.server(self._directories.mktemp(row.kind))
            server.start()
            self._running[row.kind] = server
        return self._running[row.kind]

    def end(self) -> None:
        for server in self._running.values():
            server.kill()


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers that many tests share."""
    found = Servers(tmp_path_factory)
    yield found
    found.end()


@pytest.fixture(autouse=True)
def no_failures() -> Iterator[None]:
    """No server is known to have failed before."""
    Breaker.servers.clear()
    yield
    Breaker.servers.clear()


@pytest.fixture(params=ROWS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Each arm of each engine in turn."""
    found: Row = request.param
    return found


@pytest.fixture
def bench(row: Row, running: Servers) -> Iterator[Bench]:
    """A bank of a name of its own on a server that runs."""
    made = Bench(row, running.of(row), f"t{os.getpid()}-{next(_NUMBERS)}")
    yield made
    made.engine.drop()
    made.close()


@pytest.fixture
def own(row: Row, tmp_path: Path) -> Iterator[Bench]:
    """The same on a server of its own, which the test may end and start again."""
    directory = tmp_path / "server"
    directory.mkdir()
    server = row.server(directory)
    server.start()
    made = Bench(row, server, "own")
    yield made
    made.close()
    server.kill()
    shutil.rmtree(directory, ignore_errors=True)  # a hundred megabytes, which may lie in memory
