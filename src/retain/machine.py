"""The key of this machine, by which a file of our own is told from one that came with a repository.

Names, modes and even inodes can be brought along or come about by chance. The key lies outside any
bank, in the person's own state directory, and what was made with it nobody else can make.

Hooks load this: `hashlib` and `hmac` would cost them more than all the rest of it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from _blake2 import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["digest", "key", "key_path"]

_LENGTH: Final = 32  # bytes of the key, and of a digest
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def key_path() -> str:
    """Where the key is kept; a state directory that is no full path counts as none."""
    given = os.environ.get("XDG_STATE_HOME", "")
    base = given if os.path.isabs(given) else os.path.expanduser("~/.local/state")
    return os.path.join(base, "retain", "seal.key")


def key(*, make: bool = False) -> bytes:
    """This machine's key, made at need if wished; empty where there is none and none can be made.

    What is digested without a key still names places on this disk that nobody else knows.
    """
    path = key_path()
    found = _read(path)
    if not found and make:
        with contextlib.suppress(OSError):
            _make(path)
        found = _read(path)
    return found


def digest(secret: bytes, *parts: bytes) -> str:
    """What only the holder of the key can say about the parts, each told from the next."""
    told = blake2b(key=secret, digest_size=_LENGTH)
    for part in parts:
        told.update(len(part).to_bytes(8, "big"))
        told.update(part)
    return told.hexdigest()


def _read(path: str) -> bytes:
    """The key, if it is whole and nobody else can read it."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return b""
    try:
        facts = os.fstat(fd)
        is_private = facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
        found = os.read(fd, _LENGTH + 1) if is_private and stat.S_ISREG(facts.st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)
    return found if len(found) == _LENGTH else b""


def _make(path: str) -> None:
    """Put a new key in place, whole, and never over another one: several processes may try."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    draft = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    fd = os.open(draft, _NEW, 0o600)
    try:
        try:
            os.fchmod(fd, 0o600)  # a umask may have taken bits away
            os.write(fd, os.urandom(_LENGTH))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(draft, path)
    finally:
        os.unlink(draft)
