"""Questions are asked only of a person at a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.door import done
from tests.conftest import command


def answered(answer: str, *words: str) -> tuple[int, str]:
    """The exit code and screen of a command whose person types an answer."""
    leader, follower = pty.openpty()
    child = subprocess.Popen([*command(), *words], stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    seen = b""
    asked = False
    try:
        while data := os.read(leader, 65536):
            seen += data
            if not asked and b"/" in seen.rpartition(b"[")[2] and seen.endswith(b"] "):
                asked = True
                os.write(leader, f"{answer}\n".encode())
    except OSError:  # how Linux says that the other end is closed
        pass
    code = child.wait(60)
    os.close(leader)
    return code, seen.decode()


@pytest.mark.parametrize("answer, left", [("n", 1), ("", 1), ("y", 0), ("yes", 0)])
def test_trash_is_emptied_only_after_a_yes(answer: str, left: int, home: Path) -> None:
    done("put", "-", "--id", "x", input="x")
    done("delete", "x")
    code, screen = answered(answer, "trash", "empty")
    assert code == (2 if left else 0)
    assert "Destroy 1 trashed file(s) for good? [y/N]" in screen
    assert len(json.loads(done("trash", "list", "--json"))) == left


def test_text_that_cannot_be_saved_may_be_mended(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done("put", "-", "--id", "x", input="x")
    script = tmp_path / "editor"
    script.write_text(
        "#!/bin/sh\n"
        "if [ -e ~/again ]; then printf 'mended\\n' >\"$1\"; exit; fi\n"
        "touch ~/again\n"
        "printf -- '---\\na: [\\n---\\nnew\\n' >\"$1\"\n",
        encoding="utf-8",
    )
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(script))
    code, screen = answered("y", "edit", "x")
    assert code == 0, screen
    assert "Edit it again?" in screen
    assert done("get", "x", "--format", "raw") == "mended\n"
