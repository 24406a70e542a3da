"""The only writer: directories held by handle, files placed whole, one lock per bank.

Every path below a bank's root is reached through a directory handle and opened without
following links, so what was checked is what is used. A new text is written beside the bank's
files, synced, and then put in place by one rename; an old text is swapped out, never
overwritten, and looked at once more before it is let go.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from retain.errors import Busy, Conflict, LimitExceeded, NotFound, NotSaved, RetainError

__all__ = ["Directory", "Swapped", "Unsafe", "Workshop", "not_saved", "write_whole"]

LOCK_SECONDS: Final = 10.0
JOURNAL: Final = "journal"  # the files of a batch that is not finished
STATE: Final = ".index"  # derived things: the lock, unfinished files, later the index

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class Unsafe(RetainError):
    """A link or a special file where a plain file or directory belongs."""

    code = "unsafe"


class Swapped(NamedTuple):
    """The text that a replacement took out, waiting to be kept or dropped."""

    name: str
    data: bytes


class Directory:
    """An open directory; its entries are reached by handle, so no link is ever followed."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def open(cls, path: str) -> Directory:
        """Open a bank's root, whose own path the caller has settled."""
        try:
            return cls(path, os.open(path, _FOLDER))
        except FileNotFoundError as error:
            raise NotFound(
                f"there is no bank at {path}",
                hint="`retain init` makes one here, `retain init --bank PATH` anywhere.",
            ) from error
        except (NotADirectoryError, OSError) as error:
            raise _refused(error, path) from error

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def child(self, name: str, *, create: bool = False) -> Directory:
        """A directory in this one; the root's own name is the empty string."""
        if not name:
            return Directory(self.path, os.dup(self.fd))
        path = os.path.join(self.path, name)
        if create and self._make(name) and name.startswith("."):
            self._hide_from_git(name)
        try:
            return Directory(path, os.open(name, _FOLDER, dir_fd=self.fd))
        except FileNotFoundError as error:
            raise NotFound(f"there is no directory {path}") from error
        except OSError as error:
            raise _refused(error, path) from error

    def descend(self, *names: str, create: bool = False) -> Directory:
        """A directory further down, one link-free step at a time."""
        here = self.child("")
        for name in filter(None, names):
            with here:
                here = here.child(name, create=create)
        return here

    def _make(self, name: str) -> bool:
        try:
            os.mkdir(name, 0o700, dir_fd=self.fd)
        except FileExistsError:
            return False
        # A umask may have taken bits away; nothing may have been added.
        os.chmod(name, 0o700, dir_fd=self.fd)
        os.fsync(self.fd)
        return True

    def _hide_from_git(self, name: str) -> None:
        """Keep a directory of Retain's own out of whatever repository the bank is in."""
        with self.child(name) as folder, contextlib.suppress(FileExistsError):
            _write_new(folder.fd, ".gitignore", b"*\n", 0o600)

    def entries(self) -> list[os.DirEntry[str]]:
        """What is in the directory, in a fixed order."""
        with os.scandir(self.fd) as found:
            return sorted(found, key=lambda entry: entry.name)

    def has(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, limit: int) -> bytes:
        """A plain file's bytes, up to a limit; links and devices are refused."""
        path = os.path.join(self.path, name)
        try:
            fd = os.open(name, _READ, dir_fd=self.fd)
        except FileNotFoundError as error:
            raise NotFound(f"there is no file {path}") from error
        except OSError as error:
            raise _refused(error, path) from error
        try:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise Unsafe(f"{path} is not a plain file")
            if facts.st_size > limit:
                raise LimitExceeded(f"{path} is larger than {limit:,} bytes")
            return _read_all(fd, facts.st_size, limit, path)
        finally:
            os.close(fd)

    def sync(self) -> None:
        os.fsync(self.fd)


def _read_all(fd: int, size: int, limit: int, path: str) -> bytes:
    data = os.read(fd, size + 1)
    while len(data) > size:
        # It grew while it was read; go on, but never past the limit.
        more = os.read(fd, 1 << 20)
        if not more:
            break
        data += more
        if len(data) > limit:
            raise LimitExceeded(f"{path} is larger than {limit:,} bytes")
    return data


def _refused(error: OSError, path: str) -> RetainError:
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return Unsafe(
            f"{path} is a link or not of the kind it should be; Retain does not follow it",
            unchanged="Nothing was read or changed.",
        )
    return RetainError(f"{path} cannot be read: {error.strerror}")


def not_saved(error: OSError, path: str) -> NotSaved:
    """What to tell a person when the disk refuses."""
    return NotSaved(
        f"not saved: {path}: {error.strerror or error}",
        unchanged="The old file, if there was one, is intact.",
        hint="Free space or mend the permissions, then run the command again.",
    )


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is not a memory: a config, an export. Wholly old or wholly new."""
    folder, name = os.path.split(path)
    draft = f".{name}.{_draft_name()}"
    with _saving(path):
        fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write_new(fd, draft, data, 0o600)
            os.rename(draft, name, src_dir_fd=fd, dst_dir_fd=fd)
            os.fsync(fd)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=fd)
            raise
        finally:
            os.close(fd)


class Workshop:
    """The right to write in one bank, held by one process at a time."""

    def __init__(self, root: Directory, state: Directory, work: Directory) -> None:
        self.root = root
        self._state = state
        self._work = work

    @classmethod
    @contextlib.contextmanager
    def open(cls, root: Directory, purpose: str) -> Iterator[Workshop]:
        """Wait for the bank's lock, and hold it until the work on `purpose` is done."""
        with contextlib.ExitStack() as held:
            with _saving(purpose):
                state = held.enter_context(root.child(STATE, create=True))
                held.callback(os.close, _lock(state))
                work = held.enter_context(state.child("unfinished", create=True))
                shop = cls(root, state, work)
                shop._recover()
            yield shop

    def create(self, folder: Directory, name: str, data: bytes) -> None:
        """Place a new file; one that is already there is left alone."""
        with self._written(folder, name, data) as draft:
            try:
                os.link(draft, name, src_dir_fd=self._work.fd, dst_dir_fd=folder.fd)
            except FileExistsError as error:
                raise _taken(folder, name) from error
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self._move(self._work, draft, folder, name)
                folder.sync()
                return
            os.unlink(draft, dir_fd=self._work.fd)
            folder.sync()

    def create_all(self, files: Sequence[tuple[str, str, bytes]]) -> None:
        """Place many new files (collection, name, bytes), all of them or none.

        A journal names them before the first is placed; whoever finds one, this process after a
        failure or the next after a kill, takes back what it names.
        """
        listed = [(collection, name, _digest(data)) for collection, name, data in files]
        self._write_journal(listed)
        try:
            for collection, name, data in files:
                with self.root.child(collection, create=True) as folder:
                    self.create(folder, name, data)
        except BaseException:
            self._take_back(listed)
            raise
        os.unlink(JOURNAL, dir_fd=self._state.fd)
        self._state.sync()

    def _write_journal(self, listed: Sequence[tuple[str, str, str]]) -> None:
        import json

        path = os.path.join(self._state.path, JOURNAL)
        with _saving(path):
            _write_new(self._state.fd, f"{JOURNAL}.new", json.dumps(listed).encode(), 0o600)
            os.rename(
                f"{JOURNAL}.new", JOURNAL, src_dir_fd=self._state.fd, dst_dir_fd=self._state.fd
            )
            self._state.sync()

    def _take_back(self, listed: Sequence[Sequence[str]]) -> None:
        """Remove what an unfinished batch placed, unless someone has changed it since."""
        for collection, name, digest in listed:
            with contextlib.suppress(RetainError), self.root.child(collection) as folder:
                if _digest(folder.read(name, 1 << 40)) == digest:
                    os.unlink(name, dir_fd=folder.fd)
        for entry in self._work.entries():
            os.unlink(entry.name, dir_fd=self._work.fd)
        os.unlink(JOURNAL, dir_fd=self._state.fd)

    def replace(self, folder: Directory, name: str, data: bytes, expected: bytes) -> Swapped:
        """Swap a file's text for a new one, unless it is no longer the text expected."""
        mode = os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mode & 0o777
        with self._written(folder, name, data, mode) as draft:
            exchanged = _exchange(self._work.fd, draft, folder.fd, name)
            if not exchanged:
                return self._overwrite(folder, name, draft, expected)
            try:
                found = self._work.read(draft, max(len(expected), 1) * 2 + 1024)
                if found == expected:
                    folder.sync()
                    return Swapped(draft, found)
            except (RetainError, OSError) as error:
                _exchange(self._work.fd, draft, folder.fd, name)
                if isinstance(error, OSError):
                    raise
            else:
                _exchange(self._work.fd, draft, folder.fd, name)
            os.unlink(draft, dir_fd=self._work.fd)
            raise changed_meanwhile(os.path.join(folder.path, name))

    def _overwrite(self, folder: Directory, name: str, draft: str, expected: bytes) -> Swapped:
        """Replace where the system cannot swap: keep the old file by a second name first."""
        old = _draft_name()
        os.link(name, old, src_dir_fd=folder.fd, dst_dir_fd=self._work.fd, follow_symlinks=False)
        if self._work.read(old, max(len(expected), 1) * 2 + 1024) != expected:
            os.unlink(old, dir_fd=self._work.fd)
            os.unlink(draft, dir_fd=self._work.fd)
            raise changed_meanwhile(os.path.join(folder.path, name))
        os.rename(draft, name, src_dir_fd=self._work.fd, dst_dir_fd=folder.fd)
        folder.sync()
        return Swapped(old, expected)

    def keep(self, old: Swapped, folder: Directory, name: str) -> None:
        """Give a swapped-out text its place among the versions."""
        with _saving(os.path.join(folder.path, name)):
            self._move(self._work, old.name, folder, name)
            folder.sync()

    def drop(self, old: Swapped) -> None:
        """Let a swapped-out text go."""
        os.unlink(old.name, dir_fd=self._work.fd)

    def move(self, source: Directory, name: str, target: Directory, new: str) -> None:
        """Rename a file, never over another one."""
        with _saving(os.path.join(target.path, new)):
            self._move(source, name, target, new)
            target.sync()
            source.sync()

    def _move(self, source: Directory, name: str, target: Directory, new: str) -> None:
        if _rename_new(source.fd, name, target.fd, new):
            return
        if target.has(new):
            raise _taken(target, new)
        os.rename(name, new, src_dir_fd=source.fd, dst_dir_fd=target.fd)

    @contextlib.contextmanager
    def _written(
        self, folder: Directory, name: str, data: bytes, mode: int = 0o600
    ) -> Iterator[str]:
        """A finished, synced draft of a file; removed again when placing it fails."""
        draft = _draft_name()
        with _saving(os.path.join(folder.path, name)):
            try:
                _write_new(self._work.fd, draft, data, mode)
                yield draft
            except OSError:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=self._work.fd)
                raise
            except Conflict:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=self._work.fd)
                raise

    def _recover(self) -> None:
        """Put what a killed writer left behind into the trash, where a person can see it.

        Only the lock's holder writes drafts, so whatever is here now belongs to nobody. It may
        be an unfinished new text or an old one on its way to the versions: keep it either way.
        """
        if self._state.has(JOURNAL):
            import json

            self._take_back(json.loads(self._state.read(JOURNAL, 1 << 30)))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{JOURNAL}.new", dir_fd=self._state.fd)
        left = self._work.entries()
        if not left:
            return
        stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
        with self.root.child(".trash", create=True) as trash:
            for number, entry in enumerate(left):
                if entry.stat(follow_symlinks=False).st_size == 0:
                    os.unlink(entry.name, dir_fd=self._work.fd)
                    continue
                name = f"recovered-{os.getpid()}-{number}_{stamp}.md"
                self._move(self._work, entry.name, trash, name)
            trash.sync()


def changed_meanwhile(path: str) -> Conflict:
    """What to tell a person whose update came second."""
    return Conflict(
        f"{path} was changed by someone else meanwhile",
        unchanged="The file is as they left it.",
        hint="Read it again with `retain get`, then repeat your change.",
    )


def _taken(folder: Directory, name: str) -> Conflict:
    return Conflict(
        f"{os.path.join(folder.path, name)} exists already",
        unchanged="It was left as it is.",
    )


@contextlib.contextmanager
def _saving(path: str) -> Iterator[None]:
    """Turn the disk's refusals into news about the file that was to be saved."""
    try:
        yield
    except OSError as error:
        raise not_saved(error, path) from error


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _draft_name() -> str:
    return f"{os.getpid()}-{time.monotonic_ns():x}-{os.urandom(3).hex()}"


def _write_new(folder: int, name: str, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        os.fchmod(fd, mode)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _lock(state: Directory) -> int:
    """Take the bank's lock file, waiting for whoever holds it."""
    import fcntl

    path = os.path.join(state.path, "lock")
    give_up = time.monotonic() + LOCK_SECONDS
    pause = 0.001
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        fd = os.open("lock", flags, 0o600, dir_fd=state.fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            if time.monotonic() > give_up:
                raise Busy(
                    f"another process has held {path} for {LOCK_SECONDS:.0f} seconds",
                    unchanged="Nothing was changed.",
                    hint="Try again; if it persists, see which process holds the lock file open.",
                ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
            continue
        # The index directory may be deleted at any time: a lock on a file that is gone is none.
        with contextlib.suppress(FileNotFoundError):
            if os.stat("lock", dir_fd=state.fd).st_ino == os.fstat(fd).st_ino:
                return fd
        os.close(fd)


_NOREPLACE: Final = 1
_EXCHANGE: Final = 2


def _exchange(one: int, name: str, other: int, other_name: str) -> bool:
    """Swap two files in one step; False where the system or its disk cannot."""
    return _renameat2(one, name, other, other_name, _EXCHANGE)


def _rename_new(one: int, name: str, other: int, new: str) -> bool:
    """Rename in one step that fails when the new name is taken; False where unsupported."""
    return _renameat2(one, name, other, new, _NOREPLACE)


def _renameat2(one: int, name: str, other: int, other_name: str, flag: int) -> bool:
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(one, os.fsencode(name), other, os.fsencode(other_name), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    if code == errno.EEXIST:
        raise Conflict(f"{other_name} exists already", unchanged="It was left as it is.")
    raise OSError(code, os.strerror(code))
