"""The only writer: directories held by handle, files placed whole, one lock per bank.

Every path below a bank's root is reached through a directory handle and opened without
following links, so what was checked is what is used. A new text is written beside the bank's
files, synced, and then put in place by one rename; an old text gets its place among the versions
first, is swapped out, never overwritten, and is looked at once more before it is let go. What the
disk refuses half way is taken back.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence

from retain.errors import (
    Busy,
    Conflict,
    LimitExceeded,
    NotFound,
    NotSaved,
    RetainError,
    Unsafe,
)
from retain.paths import STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = [
    "Directory",
    "Placing",
    "Workshop",
    "changed_meanwhile",
    "make_folder",
    "saving",
    "shelf",
    "turn",
    "write_whole",
]

LOCK_SECONDS: Final = 10.0
JOURNAL: Final = "journal"  # the files of a batch that is not finished
VERSIONS: Final = ".versions"
INBOX: Final = ".inbox"  # what hooks propose, until a person has looked at it
DRAFT: Final = ".new-"  # how the name of a file begins that is not yet in place

_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
_ODD: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)  # a link, or a thing of another kind
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class Directory:
    """An open directory; its entries are reached by handle, so no link is ever followed."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def open(cls, path: str) -> Directory:
        """Open a bank's root, whose own path the caller has settled."""
        try:
            return cls(path, _open_settled(path))
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
        if "/" in name or "\0" in name or name in (".", ".."):
            raise Unsafe(f"{name!r} is not the name of a directory in {self.path}")
        made = create and self._make(name)
        folder = self._open(name, create)
        try:
            if made:
                # A umask may have taken bits away.
                os.fchmod(folder.fd, 0o700)
            if create and name.startswith("."):
                folder._hide_from_git()
        except BaseException:
            folder.close()
            raise
        return folder

    def _open(self, name: str, create: bool) -> Directory:
        path = os.path.join(self.path, name)
        try:
            return Directory(path, os.open(name, _FOLDER, dir_fd=self.fd))
        except OSError as error:
            if create and error.errno not in _ODD:
                raise  # a refusal to save, which the writer puts in words
            if error.errno == errno.ENOENT:
                raise NotFound(f"there is no directory {path}") from error
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
        os.fsync(self.fd)
        return True

    def _hide_from_git(self) -> None:
        """Keep a directory of Retain's own out of whatever repository the bank is in.

        A file of that name that came with the repository may hide nothing at all.
        """
        try:
            lines = self.read(".gitignore", 1000).replace(b"\r\n", b"\n").split(b"\n")
        except RetainError:
            lines = []
        if b"*" not in lines or any(line.startswith(b"!") for line in lines):
            _write_at(self.fd, ".gitignore", b"*\n", f".gitignore.{_draft_name()}")

    def entries(self) -> list[os.DirEntry[str]]:
        """What is in the directory, in a fixed order."""
        try:
            with os.scandir(self.fd) as found:
                return sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            raise _refused(error, self.path) from error

    def has(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _refused(error, os.path.join(self.path, name)) from error
        return True

    def read(self, name: str, limit: int) -> bytes:
        """A plain file's bytes, up to a limit; links and devices are refused."""
        return self.read_with_facts(name, limit)[0]

    def read_with_facts(self, name: str, limit: int) -> tuple[bytes, os.stat_result]:
        """The same, with what the file system said of the file just before."""
        path = f"{self.path}/{name}"
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
            return _read_all(fd, facts.st_size, limit, path), facts
        except OSError as error:
            raise _refused(error, path) from error
        finally:
            os.close(fd)

    def holds(self, name: str, expected: bytes) -> bool:
        """Whether a plain file has just these bytes."""
        try:
            return self.read(name, len(expected)) == expected
        except RetainError:
            return False

    def sync(self) -> None:
        os.fsync(self.fd)

    # For a directory that needs no lock, because its files are only ever placed whole

    def place(self, name: str, data: bytes) -> bool:
        """Put a new private file in place, all of it; False if there is one of that name."""
        draft = f"{DRAFT}{_draft_name()}"
        try:
            _write_new(self.fd, draft, data, 0o600)
            if not _link_new(self, draft, self, name):
                _rename_new(self, draft, self, name)
            _settle(self, draft, self, name, self)
        except Conflict:
            return False
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=self.fd)
        return True

    def put(self, name: str, data: bytes, mode: int = 0o600, *, sync: bool = True) -> None:
        """Put a file in place, whatever has that name; a link is replaced, not followed.

        Without `sync` it is whole as well, but a machine that stops just now may lose it.
        """
        _write_at(self.fd, name, data, f"{DRAFT}{_draft_name()}", mode, sync=sync)

    def sweep(self, oldest: float) -> None:
        """Remove the files that nobody has written to since a time."""
        for entry in self.entries():
            facts = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(facts.st_mode) and facts.st_mtime < oldest:
                os.unlink(entry.name, dir_fd=self.fd)

    def rename(self, name: str, new: str) -> None:
        """Give a file another name here, or raise Conflict for one that is taken."""
        if not _link_new(self, name, self, new):
            _rename_new(self, name, self, new)

    def shift(self, name: str, target: Directory, limit: int) -> None:
        """Move a file to another directory, never over another text."""
        try:
            _rename_new(self, name, target, name)
        except Conflict:
            # A system without such a rename may have been stopped between the two names.
            if not target.holds(name, self.read(name, limit)):
                raise
            os.unlink(name, dir_fd=self.fd)
            self.sync()
            return
        _settle(self, name, target, name, target, self)


def _open_settled(path: str) -> int:
    """Open a directory, and make sure that no link has crept in above it meanwhile."""
    fd = os.open(path, _FOLDER)
    with contextlib.suppress(FileNotFoundError):  # a system without /proc
        if os.readlink(f"/proc/self/fd/{fd}") != os.path.abspath(path):
            os.close(fd)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return fd


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
    if error.errno in _ODD:
        return Unsafe(
            f"{path} is a link or not of the kind it should be; Retain does not follow it",
            unchanged="Nothing was read or changed.",
        )
    return RetainError(f"{path} cannot be read: {error.strerror}")


@contextlib.contextmanager
def saving(path: str) -> Iterator[None]:
    """Turn the disk's refusals into news about the file that was to be saved."""
    try:
        yield
    except OSError as error:
        raise NotSaved(
            f"not saved: {path}: {error.strerror or error}",
            unchanged="The old file, if there was one, is intact.",
            hint="Free space or mend the permissions, then run the command again.",
        ) from error


def make_folder(path: str) -> None:
    """Make a private directory and what is missing above it, each synced into its parent."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        make_folder(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)
        with _opened(above) as fd:
            os.fsync(fd)


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is not a memory: a config, an export. Wholly old or wholly new."""
    folder, name = os.path.split(path)
    with saving(path), _opened(folder or ".") as fd:
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.isfile(path) else 0o600
        _write_at(fd, name, data, f".{name}.{_draft_name()}", mode)


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _write_at(
    folder: int, name: str, data: bytes, draft: str, mode: int = 0o600, *, sync: bool = True
) -> None:
    try:
        _write_new(folder, draft, data, mode, sync=sync)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        if sync:
            os.fsync(folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


class Placing(NamedTuple):
    """One file of a batch: a new one, or the new text of one that has the expected text."""

    collection: str
    name: str
    data: bytes
    expected: bytes | None = None
    label: str = ""  # the version that the old text becomes


_Listed = tuple[str, str, str, str]


def shelf(root: Directory, collection: str, name: str, *, create: bool = False) -> Directory:
    """The directory of a memory's earlier texts; `name` may be its id or its file."""
    stem = os.path.splitext(name)[0] if name.endswith((".md", ".json")) else name
    return root.descend(VERSIONS, collection, stem, create=create)


class Workshop:
    """The right to write in one bank, held by one process at a time."""

    def __init__(self, root: Directory, state: Directory, work: Directory) -> None:
        self.root = root
        self._state = state
        self._work = work

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, root: Directory, purpose: str, *, patience: float | None = None
    ) -> Iterator[Workshop]:
        """Wait for the bank's lock, and hold it until the work on `purpose` is done."""
        with saving(purpose), contextlib.ExitStack() as held:
            wait = LOCK_SECONDS if patience is None else patience
            state = held.enter_context(_locked(root, wait))
            work = held.enter_context(state.child("unfinished", create=True))
            shop = cls(root, state, work)
            shop._recover()
            yield shop

    def create(self, folder: Directory, name: str, data: bytes) -> None:
        """Place a new file; one that is already there is left alone."""
        with self._written(folder, name, data, 0o600) as draft:
            # Tried first because it spares a new memory the import of ctypes.
            if not _link_new(self._work, draft, folder, name):
                _rename_new(self._work, draft, folder, name)
            _settle(self._work, draft, folder, name, folder)

    def place_all(self, files: Sequence[Placing]) -> None:
        """Place many files, new ones and new texts of old ones: all of them or none.

        A journal names them before the first is placed; whoever finds one, this process after a
        failure or the next after a kill, takes back what it names.
        """
        listed = [(one.collection, one.name, _digest(one.data), one.label) for one in files]
        self._write_journal(listed)
        placed = 0
        try:
            for one in files:
                with self.root.child(one.collection, create=True) as folder:
                    self._place_one(folder, one)
                placed += 1
            self._end_journal()
        except BaseException:
            self._take_back(listed[:placed])
            raise

    def _place_one(self, folder: Directory, one: Placing) -> None:
        if one.expected is None:
            self.create(folder, one.name, one.data)
            return
        with shelf(self.root, one.collection, one.name, create=True) as old:
            self.replace(folder, one.name, one.data, one.expected, old, one.label)

    def _write_journal(self, listed: Sequence[_Listed]) -> None:
        import json

        with saving(os.path.join(self._state.path, JOURNAL)):
            _write_at(self._state.fd, JOURNAL, json.dumps(listed).encode(), f"{JOURNAL}.new")

    def _end_journal(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(JOURNAL, dir_fd=self._state.fd)
        self._state.sync()

    def _take_back(self, listed: Sequence[_Listed]) -> None:
        """Undo what an unfinished batch did, except where someone has changed it since."""
        for collection, name, digest, label in listed:
            with contextlib.suppress(RetainError), self.root.child(collection) as folder:
                if _digest(folder.read(name, 1 << 40)) != digest:
                    continue
                if label:
                    self._put_back(folder, collection, name, label)
                else:
                    os.unlink(name, dir_fd=folder.fd)
                folder.sync()
        for entry in self._work.entries():
            if entry.is_file(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=self._work.fd)
        self._end_journal()

    def _put_back(self, folder: Directory, collection: str, name: str, label: str) -> None:
        """Make the text that was shelved as `label` the present one again."""
        with shelf(self.root, collection, name) as old:
            draft = _draft_name()
            _link(old, label, self._work, draft)
            _exchange(self._work, draft, folder, name)
            os.unlink(label, dir_fd=old.fd)

    def remove(self, folder: Directory, name: str) -> None:
        """Remove a file for good."""
        os.unlink(name, dir_fd=folder.fd)
        folder.sync()

    def replace(
        self,
        folder: Directory,
        name: str,
        data: bytes,
        expected: bytes,
        shelf: Directory | None = None,
        label: str = "",
    ) -> None:
        """Give a file a new text, unless it is no longer the one expected; shelve the old one."""
        with contextlib.ExitStack() as held:
            mode = _mode(folder, name)
            draft = held.enter_context(self._written(folder, name, data, mode))
            held.enter_context(_present(folder, name))
            if shelf:
                held.enter_context(_second_name(folder, name, shelf, label))
            self._swap(folder, name, draft, expected)
            # The old text has another name, or nobody wants it kept. Should this fail, it is
            # not the write that failed: whoever recovers deals with it.
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=self._work.fd)

    def _swap(self, folder: Directory, name: str, draft: str, expected: bytes) -> None:
        """Exchange a file with its draft, and back again if it was not what was expected."""
        _exchange(self._work, draft, folder, name)
        with contextlib.ExitStack() as undo:
            undo.callback(_exchange, self._work, draft, folder, name)
            # Nothing at all is there when someone deletes the derived things at this moment; the
            # old text has its second name, and there is no way back.
            if not self._work.holds(draft, expected) and self._work.has(draft):
                raise changed_meanwhile(os.path.join(folder.path, name))
            folder.sync()
            undo.pop_all()

    def move(self, source: Directory, name: str, target: Directory, new: str) -> None:
        """Rename a file, never over another one."""
        _rename_new(source, name, target, new)
        _settle(source, name, target, new, target, source)

    @contextlib.contextmanager
    def _written(self, folder: Directory, name: str, data: bytes, mode: int) -> Iterator[str]:
        """A finished, synced draft of a file; removed again when placing it fails."""
        draft = _draft_name()
        with saving(os.path.join(folder.path, name)):
            made = 0
            try:
                made = _write_new(self._work.fd, draft, data, mode)
                yield draft
            except BaseException:
                # Under this name may be the old text by now, if it could not be swapped back:
                # that is left to whoever recovers.
                with contextlib.suppress(OSError):
                    if made in (0, _inode(self._work, draft)):
                        os.unlink(draft, dir_fd=self._work.fd)
                raise

    def _recover(self) -> None:
        """Put what a killed writer left behind into the trash, where a person can see it.

        Only the lock's holder writes drafts, so whatever is here now belongs to nobody. It may
        be an unfinished new text or an old one that nobody shelved: keep it either way, unless
        it is empty or has its place elsewhere already.
        """
        if self._state.has(JOURNAL):
            self._take_back(_journal(self._state))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{JOURNAL}.new", dir_fd=self._state.fd)
        stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
        for entry in self._work.entries():
            facts = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(facts.st_mode):
                continue  # none of ours
            if not facts.st_size or facts.st_nlink > 1:
                os.unlink(entry.name, dir_fd=self._work.fd)
                continue
            with self.root.child(".trash", create=True) as trash:
                new = f"recovered-{_draft_name()}_{stamp}.md"
                _rename_new(self._work, entry.name, trash, new)
                _settle(self._work, entry.name, trash, new, trash)


def _journal(state: Directory) -> Sequence[_Listed]:
    """The files a journal names; one that came with a cloned project may name anything."""
    import json

    try:
        listed = [
            (str(collection), str(name), str(digest), str(label))
            for collection, name, digest, label in json.loads(state.read(JOURNAL, 1 << 26))
        ]
    except (ValueError, TypeError, RecursionError):
        # Ours are whole, so this is none of ours and stands for nothing.
        return ()
    return [
        one
        for one in listed
        if one[1].endswith((".md", ".json")) and all(map(_is_inside, (one[0], one[1], one[3])))
    ]


def _is_inside(name: str) -> bool:
    return "/" not in name and "\0" not in name and not name.startswith(".")


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


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _draft_name() -> str:
    return f"{os.getpid()}-{time.monotonic_ns():x}-{os.urandom(3).hex()}"


def _write_new(folder: int, name: str, data: bytes, mode: int, *, sync: bool = True) -> int:
    """Write and sync a file of a name that is free, and return its inode."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        os.fchmod(fd, mode)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        if sync:
            os.fsync(fd)
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def _mode(folder: Directory, name: str) -> int:
    """A file's permissions, private ones for a file that is gone."""
    with contextlib.suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_mode & 0o777
    return 0o600


def _inode(folder: Directory, name: str) -> int:
    return os.stat(name, dir_fd=folder.fd, follow_symlinks=False).st_ino


@contextlib.contextmanager
def _present(folder: Directory, name: str) -> Iterator[None]:
    """Tell a file that someone took away from a disk that refuses."""
    try:
        yield
    except (FileNotFoundError, NotFound) as error:
        if folder.has(name):
            raise
        raise changed_meanwhile(os.path.join(folder.path, name)) from error


@contextlib.contextmanager
def _second_name(folder: Directory, name: str, shelf: Directory, label: str) -> Iterator[None]:
    """Let a file be found under another name as well, unless the work that follows fails."""
    _link(folder, name, shelf, label)
    try:
        shelf.sync()
        yield
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            if _inode(folder, name) == _inode(shelf, label):
                os.unlink(label, dir_fd=shelf.fd)
        raise


@contextlib.contextmanager
def _locked(root: Directory, patience: float) -> Iterator[Directory]:
    """Hold the bank's lock; yields the directory of derived things.

    Two locks: that directory may be deleted at any time, and a lock file with it, while the
    bank's root stays; but network file systems lock files only.
    """
    import fcntl

    give_up = time.monotonic() + patience
    _wait_for(root.fd, root.path, give_up)
    try:
        with root.child(STATE, create=True) as state:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = os.open("lock", flags, 0o600, dir_fd=state.fd)
            try:
                _wait_for(fd, os.path.join(state.path, "lock"), give_up)
                yield state
            finally:
                os.close(fd)
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(root.fd, fcntl.LOCK_UN)


@contextlib.contextmanager
def turn(root: Directory, name: str, *, patience: float | None = None) -> Iterator[Directory]:
    """Wait for a turn at a job that one process of a bank does at a time, besides its writes.

    Yields the directory of derived things, which may be deleted at any time with the lock in it:
    whatever is done here must also be right when two do it.
    """
    give_up = time.monotonic() + (LOCK_SECONDS if patience is None else patience)
    with root.child(STATE, create=True) as state:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(name, flags, 0o600, dir_fd=state.fd)
        try:
            _wait_for(fd, os.path.join(state.path, name), give_up)
            yield state
        finally:
            os.close(fd)


def _wait_for(fd: int, path: str, give_up: float) -> None:
    import fcntl

    pause = 0.001
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise Busy(
                    f"another process has held the lock on {path} for {LOCK_SECONDS:g} seconds",
                    unchanged="Nothing was changed.",
                    hint="Try again; if it persists, see which process holds it open.",
                ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        except OSError:
            return  # this file system has no such locks
        else:
            return


_NOREPLACE: Final = 1
_EXCHANGE: Final = 2


def _exchange(one: Directory, name: str, other: Directory, other_name: str) -> None:
    """Swap two files: in one step, or in three that leave no name empty where that is lacking."""
    if _renameat2(one.fd, name, other.fd, other_name, _EXCHANGE):
        return
    aside = _draft_name()
    _link(other, other_name, one, aside)
    os.rename(name, other_name, src_dir_fd=one.fd, dst_dir_fd=other.fd)
    os.rename(aside, name, src_dir_fd=one.fd, dst_dir_fd=one.fd)


def _rename_new(source: Directory, name: str, target: Directory, new: str) -> None:
    """Rename a file or a directory, never over another one."""
    try:
        if _renameat2(source.fd, name, target.fd, new, _NOREPLACE):
            return
    except FileExistsError as error:
        raise _taken(target, new) from error
    if _link_new(source, name, target, new):
        return
    if target.has(new):
        raise _taken(target, new)
    os.rename(name, new, src_dir_fd=source.fd, dst_dir_fd=target.fd)


def _link_new(source: Directory, name: str, target: Directory, new: str) -> bool:
    """Rename a file by way of a second name, which cannot be taken; False without links."""
    try:
        os.link(name, new, src_dir_fd=source.fd, dst_dir_fd=target.fd, follow_symlinks=False)
    except FileExistsError as error:
        raise _taken(target, new) from error
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    try:
        os.unlink(name, dir_fd=source.fd)
    except OSError:
        os.unlink(new, dir_fd=target.fd)
        raise
    return True


def _settle(source: Directory, name: str, target: Directory, new: str, *folders: Directory) -> None:
    """Sync what a rename changed, and rename back when the disk cannot promise to remember it."""
    try:
        for folder in folders:
            folder.sync()
    except OSError:
        _rename_new(target, new, source, name)
        raise


def _link(folder: Directory, name: str, other: Directory, new: str) -> None:
    """Give a file a second name, or a copy where the disk knows only one name per file."""
    try:
        os.link(name, new, src_dir_fd=folder.fd, dst_dir_fd=other.fd, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _write_new(other.fd, new, folder.read(name, 1 << 40), _mode(folder, name))


def _renameat2(one: int, name: str, other: int, other_name: str, flag: int) -> bool:
    """Whether the system made this kind of rename; False where it or its disk cannot."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(one, os.fsencode(name), other, os.fsencode(other_name), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code))
