"""Where answers go: pipes, closed streams, odd encodings, directories that are gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.door import done
from tests.conftest import Ran, Run


def shell(script: str, **variables: str) -> Ran:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        check=False,
    )
    return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())


@pytest.mark.slow
def test_closed_output_is_no_crash_and_reaches_no_file(home: Path) -> None:
    done("put - --id note", input="text")
    found = (path for path in home.rglob("*") if path.is_file() and ".local" not in path.parts)
    files = {path: path.read_bytes() for path in found}
    assert shell("retain list >&-") == Ran(0, "", "")
    assert shell("retain get note --format raw >&-") == Ran(0, "", "")
    assert shell("retain get nothing >&- 2>&-").code == 3
    assert shell("echo new | retain put - --id new >&- 2>&-").code == 0
    assert shell("retain put - <&-").code == 2
    for path, data in files.items():
        assert path.read_bytes() == data


@pytest.mark.slow
def test_reader_that_has_seen_enough_is_no_error() -> None:
    for number in range(3):
        done("put", "-", "--id", f"note-{number}", input="text\n" * 50_000)
    ran = shell("retain get note-1 --format raw | head -1")
    assert (ran.code, ran.out, ran.err) == (0, "text\n", "")


def test_output_that_cannot_show_a_character_escapes_it() -> None:
    done("put", "-", "--id", "note", "--title", "Größe 日本", input="text")
    ran = shell("retain list", PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert "Gr\\xf6\\xdfe" in ran.out
    answer = shell("retain list --json", PYTHONIOENCODING="ascii")
    assert json.loads(answer.out)[0]["title"] == "Größe 日本"


def test_directory_that_is_gone_is_an_error_a_person_understands() -> None:
    ran = shell("mkdir gone && cd gone && rmdir ../gone && retain list")
    assert ran.code == 3
    assert ran.err.startswith("retain: the directory you are in no longer exists\n")


def test_refusal_nobody_expected_is_one_line(run: Run) -> None:
    done("put - --id note", input="text")
    for target in ("/proc/nothing/x", "/dev/null/x"):
        ran = run("export", target)
        assert ran.code == 1
        assert "Traceback" not in ran.err
        assert target in ran.err


def test_raw_into_a_pipe_is_byte_exact(home: Path, run: Run) -> None:
    body = "\x1b[31mred\x1b[0m \u202eabc\u202c\r\nno newline at the end\t"
    done("put - --id raw", input=body)
    ran = shell("retain get raw --format raw | od -An -tx1 -v | tr -d ' \\n'")
    assert bytes.fromhex(ran.out) == body.encode()
    head = b"---\nid: odd\n---\n"
    path = home / ".retain" / "memories" / "odd.md"
    path.write_bytes(head + b"\xff\xfe not UTF-8 \x00")
    ran = shell("retain get odd --format raw | od -An -tx1 -v | tr -d ' \\n'")
    assert bytes.fromhex(ran.out) == path.read_bytes()
