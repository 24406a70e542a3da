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
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from retain.errors import Busy, Conflict, LimitExceeded, NotFound, NotSaved, RetainError, Unsafe
from retain.locate import make_private_directory, open_directory, state_directory

LOCK_SECONDS: Final = 10.0
TRASH: Final = ".trash"  # deleted files, and drafts under hidden names
JOURNAL: Final = ".journal"  # a mark in the trash: a batch is not finished
VERSIONS: Final = ".versions"
DRAFT: Final = ".new-"  # how the name of a file begins that is not yet in place

_ANY_SIZE: Final = 1 << 40
_JOURNAL_FILE: Final = "unfinished.json"  # in the state directory: what the mark stands for
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_DIRECTORY
# A link, or a thing of another kind.
_ODD: Final = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR)


class Directory:
    """An open directory; its entries are reached by handle, so no link is ever followed."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def open(cls, path: str) -> Directory:
        """Open a bank's root, whose own path the caller has resolved."""
        if not os.path.lexists(path):
            raise NotFound(
                f"there is no bank at {path}",
                hint="`retain init` makes one here, `retain init --bank PATH` anywhere.",
            )
        with reading(path):
            fd = os.open(path, _FOLDER)
        with contextlib.suppress(FileNotFoundError):  # a system without /proc
            if os.readlink(f"/proc/self/fd/{fd}") != os.path.abspath(path):
                os.close(fd)  # a link has crept in above it
                raise _refuse(OSError(errno.ELOOP, ""), path)
        return cls(path, fd)

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
        path, made = os.path.join(self.path, name), False
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=self.fd)
                made = True
                os.fsync(self.fd)
        try:
            folder = Directory(path, os.open(name, _FOLDER, dir_fd=self.fd))
        except OSError as error:
            if create and error.errno not in _ODD:
                raise  # a refusal to save, which the writer puts in words
            raise _refuse(error, path) from error
        with contextlib.ExitStack() as opened:
            opened.enter_context(folder)
            if made:
                os.fchmod(folder.fd, 0o700)  # a umask may have taken bits away
            if create and name.startswith(".") and not folder.has(".gitignore"):
                # A directory of Retain's own stays out of whatever repository the bank is in.
                folder.put(".gitignore", b"*\n")
            opened.pop_all()
        return folder

    def descend(self, *names: str, create: bool = False) -> Directory:
        """A directory further down, one link-free step at a time."""
        here = self.child("")
        for name in filter(None, names):
            with here:
                here = here.child(name, create=create)
        return here

    def entries(self) -> list[os.DirEntry[str]]:
        """What is in the directory, in a fixed order."""
        with reading(self.path), os.scandir(self.fd) as entries:
            return sorted(entries, key=lambda entry: entry.name)

    def has(self, name: str) -> bool:
        with contextlib.suppress(NotFound), reading(os.path.join(self.path, name)):
            _stat(self, name)
            return True
        return False

    def read(self, name: str, limit: int) -> bytes:
        """A plain file's bytes, up to a limit; links and devices are refused."""
        return self.read_with_facts(name, limit)[0]

    def read_with_facts(self, name: str, limit: int) -> tuple[bytes, os.stat_result]:
        """The same, with what the file system said of the file just before."""
        path = f"{self.path}/{name}"
        with reading(path), open(os.open(name, _READ, dir_fd=self.fd), "rb", 0) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise Unsafe(f"{path} is not a plain file")
            if facts.st_size > limit:
                raise LimitExceeded(f"{path} is larger than {limit:,} bytes")
            return file.read(), facts

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
        try:
            _create(self, self, name, data)
        except Conflict:
            return False
        return True

    def put(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Put a file in place, whatever has that name; a link is replaced, not followed."""
        with _write_draft(self, os.path.join(self.path, name), data, mode, ".tmp-") as draft:
            os.rename(draft, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
            self.sync()

    def rename(self, name: str, new: str) -> None:
        """Give a file another name here, or raise Conflict for one that is taken."""
        _rename_new(self, name, self, new)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn the disk's refusals into errors that name the path."""
    try:
        yield
    except OSError as error:
        raise _refuse(error, path) from error


def _refuse(error: OSError, path: str) -> RetainError:
    if error.errno == errno.ENOENT:
        return NotFound(f"there is no {path}")
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


def write_whole(path: str, data: bytes) -> None:
    """Write a file that is not a memory: a config, an export. Wholly old or wholly new."""
    folder, name = os.path.split(path)
    with saving(path), open_directory(folder or ".") as fd:
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.isfile(path) else 0o600
        Directory(folder, fd).put(name, data, mode)


class FileWrite(NamedTuple):
    """One file of a batch: a new one, or the new text of one that has the expected text."""

    collection: str
    name: str
    data: bytes
    expected: bytes | None = None
    label: str = ""  # the version that the old text becomes


_Journal = Sequence[tuple[str, str, str, str]]  # collection, name, digest and version of each file


def versions_dir(root: Directory, collection: str, name: str, *, create: bool = False) -> Directory:
    """The directory of a memory's earlier texts; `name` is its id."""
    return root.descend(VERSIONS, collection, name, create=create)


class WriteTransaction:
    """The right to write in one bank, held by one process at a time.

    A text is written into the trash directory under a hidden name and gets its real name when it
    is synced, so a killed writer's text is found there.
    """

    def __init__(self, root: Directory, drafts: Directory) -> None:
        self.root = root
        self._drafts = drafts

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, root: Directory, purpose: str, *, patience: float | None = None
    ) -> Iterator[WriteTransaction]:
        """Wait for the bank's lock, and hold it until the work on `purpose` is done."""
        with saving(purpose), locked(root, patience), root.child(TRASH, create=True) as drafts:
            transaction = cls(root, drafts)
            transaction._recover()
            yield transaction

    def create(self, folder: Directory, name: str, data: bytes) -> None:
        """Place a new file; one that is already there is left alone."""
        _create(self._drafts, folder, name, data)

    def replace(
        self,
        folder: Directory,
        name: str,
        data: bytes,
        expected: bytes,
        versions: Directory | None = None,
        label: str = "",
    ) -> None:
        """Give a file a new text, unless it is no longer the one expected; keep the old one."""
        path, mode = os.path.join(folder.path, name), 0o600
        with contextlib.suppress(FileNotFoundError):
            mode = _stat(folder, name).st_mode & 0o777
        with _write_draft(self._drafts, path, data, mode) as draft:
            try:
                if versions:
                    _link(folder, name, versions, label)
                    versions.sync()
                self._swap(folder, name, draft, expected)
            except BaseException as error:
                with contextlib.suppress(FileNotFoundError):
                    # The version is a second name of the file, unless it is the only one left.
                    if versions and _stat(folder, name).st_ino == _stat(versions, label).st_ino:
                        os.unlink(label, dir_fd=versions.fd)
                if isinstance(error, FileNotFoundError) and not folder.has(name):
                    raise changed_error(path) from error
                raise

    def _swap(self, folder: Directory, name: str, draft: str, expected: bytes) -> None:
        """Exchange a file with its draft, and back again if it was not what was expected."""
        path = os.path.join(folder.path, name)
        exchange = (self._drafts.fd, draft, folder.fd, name, _EXCHANGE)
        if _renameat2(*exchange):
            with contextlib.ExitStack() as undo:
                undo.callback(_renameat2, *exchange)
                # Nothing at all is there when someone deletes the trash at this moment; the old
                # text has its second name, and there is no way back.
                if not self._drafts.holds(draft, expected) and self._drafts.has(draft):
                    raise changed_error(path)
                folder.sync()
                undo.pop_all()
        else:
            if not folder.holds(name, expected):
                raise changed_error(path)
            os.rename(draft, name, src_dir_fd=self._drafts.fd, dst_dir_fd=folder.fd)
            folder.sync()

    def move(self, source: Directory, name: str, target: Directory, new: str) -> None:
        """Rename a file, never over another one."""
        _rename_new(source, name, target, new)
        try:
            target.sync()
            source.sync()
        except OSError:
            _rename_new(target, new, source, name)
            raise

    def remove(self, folder: Directory, name: str) -> None:
        """Remove a file for good."""
        os.unlink(name, dir_fd=folder.fd)
        folder.sync()

    def write_all(self, files: Sequence[FileWrite]) -> None:
        """Place many files, new ones and new texts of old ones: all of them or none.

        A journal names them before the first is placed; whoever finds one, this process after a
        failure or the next after a kill, undoes what it names. It lies in the person's own state
        directory, where no repository can plant one; the bank has a mark that it is there.
        """
        journal = [(file.collection, file.name, _digest(file.data), file.label) for file in files]
        mark, begun = _unique(), 0
        with _journal_directory(self.root) as state:
            state.put(_JOURNAL_FILE, json.dumps([mark, journal]).encode())
        self._drafts.put(JOURNAL, mark.encode())
        try:
            for collection, name, data, expected, label in files:
                begun += 1
                with self.root.child(collection, create=True) as folder:
                    if expected is None:
                        self.create(folder, name, data)
                    else:
                        with versions_dir(
                            self.root, collection, _stem(name), create=True
                        ) as versions:
                            self.replace(folder, name, data, expected, versions, label)
            self._end_journal(mark)
        except BaseException as error:
            # What was refused is someone else's; what was interrupted may be in its place.
            self._undo(journal[: begun - isinstance(error, RetainError)])
            self._end_journal(mark)
            for entry in self._leftovers():  # whose texts the caller still has
                os.unlink(entry.name, dir_fd=self._drafts.fd)
            raise

    def _undo(self, journal: _Journal) -> None:
        """Undo what an unfinished batch did, except where someone has changed it since."""
        for collection, name, digest, label in journal:
            with contextlib.suppress(RetainError, OSError), self.root.child(collection) as folder:
                data = folder.read(name, _ANY_SIZE)
                if _digest(data) != digest:
                    continue
                if label:
                    with versions_dir(self.root, collection, _stem(name)) as versions:
                        self.replace(folder, name, versions.read(label, _ANY_SIZE), data)
                        self.remove(versions, label)
                else:  # a draft again, which is kept in the trash
                    self.move(folder, name, self._drafts, f"{DRAFT}{_unique()}")

    def _end_journal(self, mark: str) -> None:
        """Say in the state directory that nothing is to be undone, then remove the mark."""
        with _journal_directory(self.root) as state:
            state.put(_JOURNAL_FILE, json.dumps([mark, []]).encode())
        with contextlib.suppress(FileNotFoundError):
            self.remove(self._drafts, JOURNAL)

    def _read_journal(self) -> tuple[str, _Journal]:
        """The mark in the bank and the files it stands for; nothing if it is not this person's."""
        try:
            found = self._drafts.read(JOURNAL, 200).decode()
            with _journal_directory(self.root) as state:
                mark, journal = json.loads(state.read(_JOURNAL_FILE, _ANY_SIZE))
        except (RetainError, OSError, ValueError, TypeError):
            return "", ()
        return (mark, journal) if mark == found else ("", ())

    def _leftovers(self) -> list[os.DirEntry[str]]:
        """Drafts of a killed writer: only the holder of the lock writes any."""
        return [
            entry
            for entry in self._drafts.entries()
            if entry.name.startswith((DRAFT, ".tmp-")) and entry.is_file(follow_symlinks=False)
        ]

    def _recover(self) -> None:
        """Undo a killed batch, and show a killed writer's draft among what was deleted.

        It may be an unfinished new text or an old one that is no version yet: keep it either
        way, unless it is empty or has its place elsewhere already.
        """
        if self._drafts.has(JOURNAL):
            mark, journal = self._read_journal()
            if mark:
                self._undo(journal)
                self._end_journal(mark)
        stamp = time.strftime("%Y%m%d_%H%M%S", time.gmtime())
        for entry in self._leftovers():
            facts = entry.stat(follow_symlinks=False)
            if not facts.st_size or facts.st_nlink > 1 or not entry.name.startswith(DRAFT):
                os.unlink(entry.name, dir_fd=self._drafts.fd)
            else:
                new = f"recovered-{entry.name.removeprefix(DRAFT)[:50]}_{stamp}.md"
                self.move(self._drafts, entry.name, self._drafts, new)


def _create(drafts: Directory, folder: Directory, name: str, data: bytes) -> None:
    """Place a new file by way of a draft; one that is already there is left alone."""
    path = os.path.join(folder.path, name)
    with _write_draft(drafts, path, data, 0o600) as draft:
        try:
            _link(drafts, draft, folder, name)
        except FileExistsError as error:
            raise taken_error(path) from error
        try:
            folder.sync()
        except OSError:
            os.unlink(name, dir_fd=folder.fd)
            raise


@contextlib.contextmanager
def _write_draft(
    drafts: Directory, path: str, data: bytes, mode: int, prefix: str = DRAFT
) -> Iterator[str]:
    """A finished, synced draft of a file; its name is removed when the file is in its place."""
    draft, made = f"{prefix}{_unique()}", 0
    with saving(path):
        try:
            made = _write_new(drafts.fd, draft, data, mode)
            yield draft
        except BaseException:
            # Under this name may be the old text by now, if it could not be swapped back:
            # that is left to the next writer.
            with contextlib.suppress(OSError):
                if made in (0, _stat(drafts, draft).st_ino):
                    os.unlink(draft, dir_fd=drafts.fd)
            raise
        # Should this fail, it is not the write that failed: the next writer removes it.
        with contextlib.suppress(OSError):
            os.unlink(draft, dir_fd=drafts.fd)


@contextlib.contextmanager
def _journal_directory(root: Directory) -> Iterator[Directory]:
    folder = state_directory(root.path, os.environ)
    make_private_directory(folder)
    with Directory.open(folder) as state:
        yield state


def changed_error(path: str, what: str = "changed") -> Conflict:
    """What to tell a person who came second."""
    return Conflict(
        f"{path} was changed by someone else since it was read",
        unchanged=f"It is as they left it, and was not {what}.",
        hint="Read it again with `retain get`, then repeat your change.",
    )


def taken_error(path: str, hint: str = "") -> Conflict:
    """What to tell a person who wants a name that another file has."""
    return Conflict(
        f"{path} exists already",
        unchanged="It was left as it is.",
        hint=hint or "Choose another id, or change that memory with `retain update`.",
    )


def _digest(data: bytes) -> str:
    import hashlib  # loads OpenSSL, which a hook does not need

    return hashlib.sha256(data).hexdigest()


def _stem(name: str) -> str:
    return os.path.splitext(name)[0]


def _unique() -> str:
    return f"{os.getpid()}-{time.monotonic_ns():x}-{os.urandom(3).hex()}"


def _write_new(folder: int, name: str, data: bytes, mode: int) -> int:
    """Write and sync a file of a name that is free, and return its inode."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        os.fchmod(fd, mode)
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def _stat(folder: Directory, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder.fd, follow_symlinks=False)


@contextlib.contextmanager
def locked(root: Directory, patience: float | None = None) -> Iterator[None]:
    """Hold the bank's lock, which is on its own directory: no file is made for it.

    Whoever holds it may take it again through the same handle; the first to end it ends it.
    """
    _wait_for(root.fd, root.path, patience)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            fcntl.flock(root.fd, fcntl.LOCK_UN)


@contextlib.contextmanager
def lock_state(folder: str, patience: float | None = None) -> Iterator[Directory]:
    """Hold the lock of a state directory, made if it is new.

    It may be deleted at any time: whatever is done here must also be right when two do it.
    """
    make_private_directory(folder)
    with Directory.open(folder) as state, locked(state, patience):
        yield state


def _wait_for(fd: int, path: str, patience: float | None) -> None:
    patience = LOCK_SECONDS if patience is None else patience
    give_up = time.monotonic() + patience
    pause = 0.001
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise Busy(
                    f"another process has held the lock on {path} for {patience:g} seconds",
                    unchanged="Nothing was changed.",
                    hint="Try again; if it persists, see which process holds it open.",
                ) from None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        except OSError:
            return None  # this file system has no such locks


_NOREPLACE: Final = 1
_EXCHANGE: Final = 2


def _rename_new(source: Directory, name: str, target: Directory, new: str) -> None:
    """Rename a file, never over another one."""
    try:
        if not _renameat2(source.fd, name, target.fd, new, _NOREPLACE):
            _link(source, name, target, new)
            os.unlink(name, dir_fd=source.fd)
    except FileExistsError as error:
        raise taken_error(os.path.join(target.path, new)) from error


def _link(folder: Directory, name: str, other: Directory, new: str) -> None:
    """Give a file a second name."""
    os.link(name, new, src_dir_fd=folder.fd, dst_dir_fd=other.fd, follow_symlinks=False)


def _renameat2(one: int, name: str, other: int, other_name: str, flag: int) -> bool:
    """Whether the system made this kind of rename; False where it or its disk cannot."""
    import ctypes  # 4 ms, which a new memory does not need

    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(one, os.fsencode(name), other, os.fsencode(other_name), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code))
