"""What is loaded before the chat is on the screen, seen in a child process by its modules."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from io import RawIOBase
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_first_paint_waits_for_no_engine_and_no_providers_package(tmp_path: Path) -> None:
    listed = tmp_path / "modules"
    program = f"""
import sys
from retain.chat import screen

def painted(self):
    with open({str(listed)!r}, "w", encoding="utf-8") as file:
        file.write(" ".join(sorted(sys.modules)))
    self.exit()

screen.Terminal._begin = painted
from retain.cli import main
sys.argv = ["retain", "chat"]
main()
"""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as reader:
        running = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(theirs)
        seen = _all(reader)
        assert running.wait(60) == 0, seen
    names = set(listed.read_text(encoding="utf-8").split())
    roots = {name.partition(".")[0] for name in names}
    assert not roots & {"anthropic", "openai", "httpx2", "numpy", "pydantic", "mcp", "jsonschema"}
    assert not names & {"retain.app", "retain.index", "retain.talk", "retain.sessions", "sqlite3"}


def _all(reader: RawIOBase) -> bytes:
    seen = b""
    try:
        while part := reader.read(65536):
            seen += part
    except OSError:
        pass  # how a terminal says that nobody is at the other end
    return seen
