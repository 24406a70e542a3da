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
    path = socket_path(bank)
    if not (is_private(path, stat.S_IFSOCK) and is_private(os.path.dirname(path))):
        return None
    import socket

    end = time.monotonic() + timeout
    stated = {"version": __version__, "bank": os.path.realpath(bank), **request}
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            connection.connect(path)
            if peer_uid(connection) != os.geteuid():
                return None
            connection.sendall(json.dumps(stated).encode() + b"\n")
            answer = json.loads(receive_line(connection, end))
    except (OSError, ValueError, RecursionError):
        return None
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
    data = b""
    while b"\n" not in data:
        connection.settimeout(max(end - time.monotonic(), 0.001))
        part = connection.recv(65536)
        data += part
        if not part or len(data) > MAX_BYTES or time.monotonic() > end:
            raise ConnectionError("no whole line in time, or one without end")
    return data.partition(b"\n")[0]
