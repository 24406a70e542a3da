"""The command line called in this process: the same commands and output, without a start."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from retain.cli.command import run
from tests.conftest import Ran, command


class Terminal(io.TextIOWrapper):
    """A standard stream whose bytes can be read back."""

    def __init__(self, data: bytes = b"") -> None:
        self.raw_bytes = io.BytesIO(data)
        super().__init__(self.raw_bytes, encoding="utf-8", newline="")

    def written(self) -> str:
        self.flush()
        return self.raw_bytes.getvalue().decode("utf-8")


def call(*args: str, input: str | bytes = b"") -> Ran:
    """What `retain args` answers; a single argument is a whole line."""
    args = tuple(shlex.split(args[0])) if len(args) == 1 else args
    data = input.encode("utf-8") if isinstance(input, str) else input
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", Terminal(data))
        patch.setattr(sys, "stdout", out := Terminal())
        patch.setattr(sys, "stderr", err := Terminal())
        try:
            code = run(list(args))
        except SystemExit as leaving:  # --help and --version leave from within argparse
            code = int(leaving.code or 0)
        return Ran(code, out.written(), err.written())


def done(*args: str, input: str | bytes = b"") -> str:
    """The standard output of a call that must succeed."""
    ran = call(*args, input=input)
    assert ran.code == 0, ran.err
    return ran.out


def types(editor: Path, script: str) -> None:
    """Have a person's editor do what a script says."""
    editor.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")


def answered(answer: str, *words: str) -> tuple[int, str]:
    """The exit code and screen of a command at a terminal whose person types an answer."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm"}
    child = subprocess.Popen(
        [*command(), *words], stdin=follower, stdout=follower, stderr=follower, env=env
    )
    os.close(follower)
    os.write(leader, f"{answer}\n".encode())
    seen = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while data := os.read(leader, 65536):
            seen += data
    code = child.wait(60)
    os.close(leader)
    return code, seen.decode()
