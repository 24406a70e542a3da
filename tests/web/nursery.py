"""Processes of `retain` that begin with its code loaded already.

A test that must have a server to itself would spend most of its time on loading the same code once
more. Here one process loads it and splits itself for each server: a process like any other, with
an environment, a directory, streams and an end of its own. That the installed command itself starts
from nothing is shown by every module whose tests share a server, and by those of the entrance.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Child", "Nursery"]

# Nothing but imports happens before the split: no thread, no file, no setting is shared.
_MOTHER = """
import json, os, signal, sys, time
import numpy
import retain.cli.command, retain.cli.server
import retain.web.serving

children = {}


def poll(pid):
    if children[pid] is None:
        found, status = os.waitpid(pid, os.WNOHANG)
        children[pid] = os.waitstatus_to_exitcode(status) if found else None
    return children[pid]


def next_child():
    for line in sys.stdin:
        asked = json.loads(line)
        if "poll" in asked:
            answer = poll(asked["poll"])
        else:
            answer = os.fork()
            if not answer:
                return asked
            children[answer] = None
        print(json.dumps(answer), flush=True)
    for pid in children:
        if poll(pid) is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    sys.exit()


born = next_child()
for number, path, flags in (
    (0, os.devnull, os.O_RDONLY),
    (1, os.devnull, os.O_WRONLY),
    (2, born["log"], os.O_WRONLY),
):
    handle = os.open(path, flags)
    os.dup2(handle, number)
    os.close(handle)
os.environ.clear()
os.environ.update(born["env"])
time.tzset()
os.chdir(born["cwd"])
sys.argv = ["retain", *born["args"]]
retain.cli.main()
"""


class Nursery:
    """The process that splits itself; whoever is still there at its end is ended with it."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MOTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def begin(self, args: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> Child:
        """`retain` with these arguments; what it says on standard error is in the log."""
        log.write_bytes(b"")  # there before anyone reads it
        asked = {"args": [*args], "env": {**env}, "cwd": str(cwd), "log": str(log)}
        return Child(self, self.asked(asked))

    def asked(self, what: Mapping[str, object]) -> Any:
        """What the process answers."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(what).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the nursery is gone"
        return json.loads(line)


class Child:
    """A process of a nursery, used like one of `subprocess`."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.asked({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, how: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, how)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
