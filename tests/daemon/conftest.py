"""A bank whose path is short enough for a socket, however deep the tests' own directory is."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.door import done


@pytest.fixture
def short(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory a test works in."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:
        monkeypatch.chdir(folder)
        yield Path(folder).resolve()
        monkeypatch.chdir(home)


@pytest.fixture
def bank(short: Path) -> str:
    done("init")
    return str(short / ".retain")


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short place for what lives as long as a session."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)
