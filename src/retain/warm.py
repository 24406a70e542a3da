"""A process that is warm already, asked over a Unix socket in place of doing the work cold.

Whoever asks pays for a look at one file when nobody listens: the standard library's own modules
for sockets and JSON are loaded only then, and nothing else ever is.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Mapping

from retain import __version__
from retain.paths import STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812 - a class, whatever its module calls it
    from typing import Any, Final

__all__ = [
    "MOST_BYTES",
    "REFUSED",
    "address",
    "answered",
    "ask",
    "asked",
    "is_safe_folder",
    "peer",
    "receive",
]

MOST_BYTES: Final = 1 << 20  # of a question or an answer
REFUSED: Final = "refused"  # the code of an error that means: do it yourself

_NAME: Final = "warm"
_ENDING: Final = ".sock"
_LONGEST: Final = 103  # bytes of a socket's path, on the system that takes the fewest
_HEX: Final = 16
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def address(bank: str) -> str:
    """Where a warm process for a bank listens.

    That is in the bank's own directory of derived things, or, where its path is too long for a
    socket, under a short name in a directory of the person's own.
    """
    root = os.path.realpath(bank)
    path = os.path.join(root, STATE, _NAME + _ENDING)
    if _fits(path):
        return path
    import hashlib

    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:_HEX] + _ENDING
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    path = os.path.join(given, "retain", name)
    if os.path.isabs(path) and _fits(path):
        return path
    return f"/tmp/retain-{os.geteuid()}/{name}"  # noqa: S108 - made and checked to be private


def _fits(path: str) -> bool:
    return len(os.fsencode(path)) <= _LONGEST


def ask(bank: str, request: Mapping[str, object], timeout: float = 0.5) -> dict[str, Any] | None:
    """What a warm process of this version answers; None when nobody does, in time and in order."""
    question = asked(bank, request, timeout)
    return answered(question) if question else None


def asked(
    bank: str, request: Mapping[str, object], timeout: float = 0.5
) -> tuple[Socket, float] | None:
    """A question on its way, with something else to do meanwhile; None if nobody listens."""
    path = address(bank)
    if not (_is_ours(path, stat.S_ISSOCK, _OTHERS) and is_safe_folder(os.path.dirname(path))):
        return None
    import _socket  # `socket` loads `selectors` and `enum` besides
    import json

    stated = {"version": __version__, "bank": os.path.realpath(bank), **request}
    end = time.monotonic() + timeout
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
        if peer(connection) == os.geteuid():
            connection.sendall(json.dumps(stated).encode() + b"\n")
            return connection, end
    except (OSError, ValueError):
        pass
    connection.close()
    return None


def answered(question: tuple[Socket, float]) -> dict[str, Any] | None:
    """The answer to a question that is on its way; None if there is none, in time and in order."""
    import json

    connection, end = question
    try:
        answer = json.loads(receive(connection, end))
    except (OSError, ValueError, RecursionError):
        return None
    finally:
        connection.close()
    return answer if isinstance(answer, dict) and not _is_refused(answer) else None


def _is_refused(answer: Mapping[str, Any]) -> bool:
    error = answer.get("error")
    return isinstance(error, dict) and error.get("code") == REFUSED


def is_safe_folder(path: str) -> bool:
    """Whether a folder with a socket in it is no link and is ours; outside a bank, ours alone."""
    shared = 0 if os.path.basename(path) == STATE else _OTHERS
    return _is_ours(path, stat.S_ISDIR, shared)


def _is_ours(path: str, is_kind: Callable[[int], bool], without: int = 0) -> bool:
    """Whether a file is of a kind, belongs to this user and lacks these permissions."""
    try:
        facts = os.lstat(path)
    except (OSError, ValueError):
        return False
    mode = facts.st_mode
    return is_kind(mode) and facts.st_uid == os.geteuid() and not mode & without


def peer(connection: Socket) -> int:
    """The user at the other end; where the system does not say, the file's mode must do."""
    import _socket

    option = getattr(_socket, "SO_PEERCRED", None)
    if option is None:
        return os.geteuid()
    # Three numbers of four bytes: process, user, group.
    found = connection.getsockopt(_socket.SOL_SOCKET, option, 12)
    return int.from_bytes(found[4:8], sys.byteorder)


def receive(connection: Socket, end: float) -> bytes:
    """One line, whole by a time of the monotonic clock; ValueError for what is none."""
    data = bytearray()
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(65536)
        data += part
        line, newline, _ = data.partition(b"\n") if b"\n" in part else (data, b"", b"")
        if len(line) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        if newline:
            return bytes(line)
        if not part:
            raise ValueError("it ends before its line does")
