"""The key of this machine, from which the names of banks on servers are made: nobody guesses them.

It lies in the person's own state directory, outside any bank.
"""

from __future__ import annotations

import contextlib
import hmac
import os
from typing import Final

from retain.locate import state_home

_LENGTH: Final = 32  # bytes


def key_path() -> str:
    """Where the key is kept."""
    return os.path.join(state_home(os.environ), "machine.key")


def digest(*parts: bytes) -> str:
    """What only the holder of the key can say about the parts, each told from the next."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(_key(), framed, "sha256").hexdigest()


def _key() -> bytes:
    """This machine's key, made at need; empty where none can be made."""
    path = key_path()
    if not os.path.lexists(path):
        with contextlib.suppress(OSError):
            _make(path)
    try:
        with open(path, "rb") as file:
            key = file.read(_LENGTH)
    except OSError:
        return b""
    return key if len(key) == _LENGTH else b""


def _make(path: str) -> None:
    """Put a new key in place, whole, and never over another one: several processes may try."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(os.urandom(_LENGTH))
            file.flush()
            os.fsync(fd)
        os.link(draft, path)
    finally:
        os.unlink(draft)
