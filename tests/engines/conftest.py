"""One row for each arm of each engine; every row's server is started once and shared."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.index.engines.naming import Names
from tests.engines.contract import Bench, Row
from tests.engines.rows import ROWS
from tests.engines.servers import Server

_NUMBERS = itertools.count()


class Servers:
    """The servers that run, by the name of their row."""

    def __init__(self, directories: pytest.TempPathFactory) -> None:
        self._directories = directories
        self._running: dict[str, Server] = {}

    def of(self, row: Row) -> Server:
        if row.product not in self._running:
            directory: Path = self._directories.mktemp(row.product)
            server = row.server(directory)
            server.start()
            self._running[row.product] = server
        return self._running[row.product]

    def end(self) -> None:
        for server in self._running.values():
            server.kill()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers that many tests share."""
    found = Servers(tmp_path_factory)
    yield found
    found.end()


@pytest.fixture(params=ROWS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    """Each arm of each engine in turn."""
    found: Row = request.param
    return found


@pytest.fixture
def bench(row: Row, servers: Servers) -> Iterator[Bench]:
    """A bank of a name of its own on a server that runs."""
    made = Bench(row, servers.of(row), Names(f"t{os.getpid()}-{next(_NUMBERS)}"))
    yield made
    made.end()


@pytest.fixture
def own(row: Row, tmp_path: Path) -> Iterator[Bench]:
    """The same on a server of its own, which the test may end and start again."""
    directory = tmp_path / "server"
    directory.mkdir()
    server = row.server(directory)
    server.start()
    made = Bench(row, server, Names("own"))
    yield made
    made.close()
    server.kill()
    shutil.rmtree(directory, ignore_errors=True)  # a hundred megabytes, which may lie in memory
