"""What a command loads, seen in a child process by the list of its modules; never by a clock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.door import done

PROGRAM = """
import sys
from retain.cli import main
try:
    main()
except SystemExit as leaving:
    code = leaving.code
sys.stderr.write("\\nLOADED " + " ".join(sorted(sys.modules)))
sys.exit(code)
"""


def loaded(*words: str, input: bytes = b"") -> set[str]:
    """The packages and modules that a command needs beyond a bare interpreter."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        input=input,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    text = ran.stderr.decode().rpartition("\nLOADED ")[2]
    assert ran.returncode == 0, ran.stderr
    return {name.partition(".")[0] for name in text.split()}


@pytest.fixture(autouse=True)
def bank(home: Path) -> None:
    done("init")
    done("put", "-", "--id", "note", "--tags", "a,b", "--context", "why: so", input="# Note\n")


HEAVY = {"yaml", "rich", "tomlkit", "argcomplete", "pydantic", "numpy", "asyncio", "mcp", "textual"}


@pytest.mark.parametrize(
    "words",
    [("--help",), ("--version",), ("get", "note"), ("list",), ("list", "--json"), ("status",)],
    ids=str,
)
def test_reading_loads_no_large_library(words: tuple[str, ...]) -> None:
    assert loaded(*words) & HEAVY == set()


def test_storing_loads_no_large_library() -> None:
    words = ("put", "-", "--id", "new", "--tags", "a,b", "--title", "New: one")
    assert loaded(*words, input=b"# New\n\nText.\n") & HEAVY == set()


@pytest.mark.parametrize(
    "words", [("search", "note", "--text"), ("linked", "a.py"), ("graph",), ("stats",)], ids=str
)
def test_recall_by_words_loads_no_model(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    assert loaded(*words) & HEAVY == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("get", "note"),
        ("list",),
        ("status",),
        ("versions", "note"),
        ("search", "note"),
        ("brief", "note"),
        ("sync",),
        ("doctor",),
    ],
    ids=str,
)
def test_no_command_opens_a_network_module(words: tuple[str, ...]) -> None:
    assert not loaded(*words) & {"socket", "ssl", "http", "urllib", "asyncio"}
