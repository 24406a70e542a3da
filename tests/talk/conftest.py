"""A project with a bank, and a chat's tools in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.app import App
from tests.talk.box import Box


@pytest.fixture
def work(home: Path) -> Path:
    """A project that has a bank."""
    App(cwd=str(home / "work")).init()
    return home / "work"


@pytest.fixture
def box(work: Path) -> Iterator[Box]:
    """Its tools, with a person who agrees once to everything."""
    box = Box(work)
    yield box
    box.app.close()
