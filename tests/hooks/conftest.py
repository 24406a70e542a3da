"""Every test of a hook has time enough, and a machine's own temporary files are left as found."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.door import done
from tests.hooks.door import OTHER, SESSION


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the deadline longer than a busy machine takes, and search by words alone."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("RETAIN_HOOKS_DEADLINE_MS", "10000")
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Remove the context files that a test has made, and no other process's."""
    yield
    for session in (SESSION, OTHER):
        digest = hashlib.sha256(session.encode()).hexdigest()[:8]
        for path in glob.glob(f"/tmp/.memory-triage-context-*-{digest}.txt"):
            os.unlink(path)


@pytest.fixture
def work(home: Path) -> Path:
    """The directory of the project, which is the working directory."""
    return home / "work"


@pytest.fixture
def bank(work: Path) -> Path:
    """A bank of our own in the project."""
    done("init")
    return work / ".retain"


@pytest.fixture
def store(work: Path) -> Path:
    """A store of claude-memory in the project."""
    root = work / ".claude" / "memory"
    (root / "decisions").mkdir(parents=True)
    return root
