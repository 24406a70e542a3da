from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Text that is kept for a person stays in the test's own directory."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def editor(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that stands for the person's editor; `$1` is the file they edit."""
    script = scratch / "my editor"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", f"'{script}'")
    return script
