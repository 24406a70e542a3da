"""Ask a warm process over its Unix socket, in place of doing the work cold.

Whoever asks pays for a look at one file when nobody listens. Both ends check that the other one is
the same user, and an answer counts only from the same version of Retain.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from retain import __version__
from retain.locate import state_home

# `socket` takes 4 ms to load, which a hook pays only where somebody listens.
if TYPE_CHECKING:
    import socket

MAX_BYTES: Final = 1 << 20  # of a question or an answer
REFUSED: Final = "refused"  # the code of an error that means: do it yourself

_MAX_PATH: Final = 103  # bytes of a socket's path, on the system that takes the fewest
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def socket_path(bank: str) -> str:
    """Where a warm process for a bank listens: in a directory of the person's own."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(bank))).hexdigest()[:16]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    directory = os.path.join(runtime, "retain")
    if not os.path.isabs(runtime):
        directory = os.path.join(state_home(os.environ), "run")
    path = os.path.join(directory, f"{digest}.sock")
    if len(os.fsencode(path)) <= _MAX_PATH:
        return path
    return f"/tmp/retain-{os.geteuid()}/{digest}.sock"  # noqa: S108 - made and checked to be private


def ask(bank: str, request: Mapping[str, object], timeout: float = 0.5) -> dict[str, Any] | None:
    """What a warm process of this version answers; None when nobody does, in time and in order."""
    question = Question.send(bank, request, timeout)
    return question.answer() if question else None


class Question:
    """A question on its way to a warm process, with time for something else meanwhile."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._connection, self._end = connection, end

    @classmethod
    def send(
        cls, bank: str, request: Mapping[str, object], timeout: float = 0.5
    ) -> Question | None:
        """Send a question; None if nobody listens."""
        path = socket_path(bank)
        if not (is_private(path, stat.S_IFSOCK) and is_private(os.path.dirname(path))):
            return None
        import socket

        stated = {"version": __version__, "bank": os.path.realpath(bank), **request}
        end = time.monotonic() + timeout
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(path)
            if peer_uid(connection) == os.geteuid():
                connection.sendall(json.dumps(stated).encode() + b"\n")
                return cls(connection, end)
        except (OSError, ValueError):
            pass
        connection.close()
        return None

    def answer(self) -> dict[str, Any] | None:
        """Wait for the answer; None if there is none, in time and in order."""
        try:
            answer = json.loads(receive_line(self._connection, self._end))
        except (OSError, ValueError, RecursionError):
            return None
        finally:
            self._connection.close()
        if not isinstance(answer, dict):
            return None
        error = answer.get("error")
        return None if isinstance(error, dict) and error.get("code") == REFUSED else answer


def is_private(path: str, kind: int = stat.S_IFDIR) -> bool:
    """Whether a directory, or a file of another kind, is no link and open to this user alone."""
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return False
    mode = facts.st_mode
    return stat.S_IFMT(mode) == kind and facts.st_uid == os.geteuid() and not mode & _OTHERS


def peer_uid(connection: socket.socket) -> int:
    """The user at the other end; where the system does not say, the file's mode must do."""
    import socket

    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return os.geteuid()
    # Three numbers of four bytes: process, user, group.
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def receive_line(connection: socket.socket, end: float) -> bytes:
    """One line, whole by a time of the monotonic clock; an OSError where there is none."""
    data = bytearray()
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(65536)
        data += part
        line, newline, _ = data.partition(b"\n") if b"\n" in part else (data, b"", b"")
        if len(line) > MAX_BYTES:
            raise ConnectionError(f"more than {MAX_BYTES:,} bytes")
        if newline:
            return bytes(line)
        if not part:
            raise ConnectionError("it ends before its line does")
