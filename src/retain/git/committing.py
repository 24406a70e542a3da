"""One commit in the making, built in a private index beside the user's own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from retain.errors import HistoryError
from retain.git import process
from retain.git.process import NOBODY, TIMEOUT_SECONDS, Answer, failed, shown
from retain.git.repository import FILE_MODES, Entry, Outcome, Repository

__all__ = ["commit"]

LONGEST_MESSAGE = 16_000
LEFTOVER_AGE_SECONDS = 3600.0
HEAD_MOVED_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
INDEX_LOCKED_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.0)
TREE_MODE = "040000"
ROOM_PREFIX = "retain-commit-"
LOCK_NAME = "retain-commit.lock"
SAVED = "the file is saved and will be committed with its next change"
CONTROL_BUT_NEWLINE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")

# A file in the git directory tells what is under way without starting a process.
UNDER_WAY = (
    ("rebase-merge", "a rebase is under way"),
    ("rebase-apply", "a rebase or a patch series is under way"),
    ("MERGE_HEAD", "a merge is under way"),
    ("CHERRY_PICK_HEAD", "a cherry-pick is under way"),
    ("REVERT_HEAD", "a revert is under way"),
    ("sequencer", "a cherry-pick or a revert is under way"),
    ("BISECT_LOG", "a bisect is under way"),
)


def commit(repository: Repository, changes: Mapping[str, bytes | None], message: str) -> Outcome:
    """Commit just these files, with nothing of the user's staged work, or say why not."""
    git_dir = repository.git_dir
    try:
        wanted = {repository.relative(path): content for path, content in changes.items()}
        reason = _under_way(git_dir)
        if reason:
            return _postponed(reason)
        with _one_at_a_time(git_dir), _room_in(git_dir) as room:
            return _Making(repository, room).commit(wanted, _clean_message(message))
    except HistoryError as error:
        return _postponed(error.message)
    except OSError as error:
        return _postponed(f"{error.strerror or error} in {shown(git_dir)}")


def _under_way(git_dir: str) -> str:
    for name, reason in UNDER_WAY:
        if os.path.lexists(os.path.join(git_dir, name)):
            return reason
    return ""


class _Seen(NamedTuple):
    """One state of the user's index file."""

    inode: int
    size: int
    changed: int
    mode: int


class _Making:
    """A commit in the making, with a private directory for its index and its files."""

    def __init__(self, repository: Repository, room: str) -> None:
        self._repository = repository
        self._room = room
        self._index = os.path.join(repository.git_dir, "index")

    def commit(self, wanted: dict[str, bytes | None], message: str) -> Outcome:
        ignored = self._ignored([p for p, c in wanted.items() if c is not None])
        note = _ignored_note(ignored)
        blobs = self._store({p: c for p, c in wanted.items() if p not in ignored})
        for pause in HEAD_MOVED_PAUSES if blobs else ():
            head = self._repository.head()
            if not head.branch:
                return _postponed("HEAD is detached")
            before = self._editable(head.commit, blobs)
            after = _edits(before, blobs)
            if not after:
                return Outcome(None, note)
            commit = self._write_commit(head.commit, after, message)
            if self._advance(head.commit, commit, message):
                return Outcome(commit, _joined(note, self._refresh_index(before, after)))
            time.sleep(pause)
        return _postponed("the branch kept moving") if blobs else Outcome(None, note)

    def _ignored(self, paths: list[str]) -> set[str]:
        if not paths:
            return set()
        given = _written(self._room, "paths", b"".join(b"./%b\0" % os.fsencode(p) for p in paths))
        out = self._repository.check_ignore("-z", "--stdin", stdin=given).out
        excluded = {os.fsdecode(path.removeprefix(b"./")) for path in out.split(b"\0") if path}
        return excluded.difference(self._repository.staged(excluded))

    def _store(self, wanted: Mapping[str, bytes | None]) -> dict[str, str]:
        """Store the new contents as blobs and return each path's, empty for a deletion."""
        blobs = dict.fromkeys(wanted, "")
        kept = {path: content for path, content in wanted.items() if content is not None}
        if not kept:
            return blobs
        files = [_written(self._room, f"blob-{n}", text) for n, text in enumerate(kept.values())]
        given = _written(self._room, "files", b"".join(os.fsencode(name) + b"\n" for name in files))
        answer = self._repository.tell(
            "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=given
        )
        return blobs | dict(zip(kept, answer.line.split("\n"), strict=True))

    def _editable(self, commit: str, paths: Iterable[str]) -> dict[str, Entry]:
        """Return what HEAD holds at these paths, refusing what is not an ordinary file."""
        targets = list(paths)
        folders = sorted({folder for path in targets for folder in _folders(path)})
        found = self._repository.entries(commit, [*folders, *targets])
        for path, expected in (
            *((f, (TREE_MODE,)) for f in folders),
            *((t, FILE_MODES) for t in targets),
        ):
            if path in found and found[path].mode not in expected:
                raise HistoryError(f"{shown(path)} is {_kind(found[path].mode)} in git")
        return {path: found[path] for path in targets if path in found}

    def _write_commit(self, parent: str, after: Mapping[str, Entry | None], message: str) -> str:
        """Write HEAD's tree with these edits and a commit of it, which nothing names yet."""
        index = os.path.join(self._room, "index")
        self._on_index(index, "read-tree", "--no-recurse-submodules", parent or "--empty")
        edits = _written(self._room, "edits", _index_info(after, self._repository.nothing))
        self._on_index(index, "update-index", "-z", "--index-info", stdin=edits)
        # A partial clone lacks blobs beside ours, and must not fetch them to be told they exist.
        tree = self._on_index(index, "write-tree", "--missing-ok").line
        text = _written(self._room, "message", message.encode())
        parents = ("-p", parent) if parent else ()
        return self._commit_tree("--no-gpg-sign", *parents, "-F", "-", tree, stdin=text)

    def _commit_tree(self, *arguments: str, stdin: str) -> str:
        # user.useConfigOnly makes git refuse to guess an identity, which costs nothing to find out.
        answer = self._repository.ask("commit-tree", *arguments, stdin=stdin)
        if answer.status:
            answer = self._repository.tell("commit-tree", *arguments, stdin=stdin, **NOBODY)
        return answer.line

    def _advance(self, old: str, new: str, message: str) -> bool:
        """Move the branch from the old commit to the new one, unless someone else moved it."""
        reason = f"commit (retain): {message.partition(chr(10))[0][:200]}"
        # HEAD, not the branch's name: a branch switched to meanwhile at this commit is right too.
        # A named identity for the reflog spares git the host name lookup that a guess would take.
        try:
            answer = self._repository.ask("update-ref", "-m", reason, "HEAD", new, old, **NOBODY)
        except HistoryError:
            return self._repository.head().commit == new
        return answer.status == 0 or self._repository.head().commit == new

    def _on_index(self, index: str, *arguments: str, stdin: str = os.devnull) -> Answer:
        """Run a command on an index file, from where no file of the work tree can be seen."""
        # Whoever writes an index looks again at files changed a moment ago, through their filters:
        # commands of the repository's choice. In an empty work tree there is nothing to look at.
        empty = os.path.join(self._room, "tree")
        os.makedirs(empty, exist_ok=True)
        places = {
            "GIT_DIR": self._repository.git_dir,
            "GIT_WORK_TREE": empty,
            "GIT_INDEX_FILE": index,
        }
        answer = process.run(arguments, empty, stdin, places)
        if answer.status:
            raise failed(f"git {arguments[0]} failed", answer)
        return answer

    def _refresh_index(self, before: Mapping[str, Entry], after: Mapping[str, Entry | None]) -> str:
        """Bring the user's index up to date where nothing is staged, or say what to run."""
        try:
            for pause in INDEX_LOCKED_PAUSES:
                # Copied anew each time: whoever holds the lock may be staging one of these paths.
                copy, seen = self._copied_index()
                staged = self._repository.staged(after, GIT_INDEX_FILE=copy)
                ours = {p: e for p, e in after.items() if staged.get(p) == before.get(p)}
                if not ours or self._replace_index(copy, seen, ours):
                    rest = (p for p in after if p not in ours and staged.get(p) != after[p])
                    return _staged_note(rest)
                time.sleep(pause)
        except (HistoryError, OSError):
            pass
        return (
            f"committed, but git's index is locked or broken: run {_reset(after)} when it is free"
        )

    def _copied_index(self) -> tuple[str, _Seen | None]:
        copy = os.path.join(self._room, "users-index")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy)
        seen = _seen(self._index)
        if seen:
            with open(self._index, "rb") as file:
                _written(self._room, "users-index", file.read())
        return copy, seen

    def _replace_index(
        self, copy: str, seen: _Seen | None, edits: Mapping[str, Entry | None]
    ) -> bool:
        """Put an edited copy in the place of the user's index, unless that changed or is locked."""
        given = _written(self._room, "refresh", _index_info(edits, self._repository.nothing))
        self._on_index(copy, "update-index", "-z", "--index-info", stdin=given)
        if seen:
            os.chmod(copy, seen.mode)
            # An unchanged date keeps git's own doubt about files changed in the same instant.
            os.utime(copy, ns=(seen.changed, seen.changed))
        return _swap(copy, self._index, seen)


def _seen(index: str) -> _Seen | None:
    """Return what tells one state of an index file from another, or None where there is none."""
    try:
        found = os.lstat(index)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise HistoryError("git's index is not an ordinary file")
    return _Seen(found.st_ino, found.st_size, found.st_mtime_ns, stat.S_IMODE(found.st_mode))


def _swap(prepared: str, index: str, seen: _Seen | None) -> bool:
    """Take git's own lock on the index for just as long as the exchange takes."""
    lock = f"{index}.lock"
    try:
        os.link(prepared, lock)
    except FileExistsError:
        return False
    if _seen(index) != seen:
        os.unlink(lock)
        return False
    os.rename(lock, index)
    return True


@contextlib.contextmanager
def _one_at_a_time(git_dir: str) -> Iterator[None]:
    """Queue Retain's own commits; without the lock they still cannot overwrite each other."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(os.path.join(git_dir, LOCK_NAME), flags, 0o600)
    try:
        _wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:
            # A file system without locks: compare-and-swap alone has to do.
            return
        else:
            return


@contextlib.contextmanager
def _room_in(git_dir: str) -> Iterator[str]:
    """Lend a private directory in the git directory, where no work tree can see it."""
    _sweep(git_dir)
    room = os.path.join(git_dir, f"{ROOM_PREFIX}{os.urandom(8).hex()}")
    os.mkdir(room, 0o700)
    try:
        yield room
    finally:
        _clear(room)


def _sweep(git_dir: str) -> None:
    """Remove the rooms of processes that were killed long ago."""
    long_ago = time.time() - LEFTOVER_AGE_SECONDS
    for name in os.listdir(git_dir):
        room = os.path.join(git_dir, name)
        if name.startswith(ROOM_PREFIX) and os.lstat(room).st_mtime < long_ago:
            _clear(room)


def _clear(room: str) -> None:
    with contextlib.suppress(OSError), os.scandir(room) as entries:
        for entry in entries:
            (os.rmdir if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)
        os.rmdir(room)


def _written(room: str, name: str, content: bytes) -> str:
    path = os.path.join(room, name)
    with open(path, "wb") as file:
        file.write(content)
    return path


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _kind(mode: str) -> str:
    kinds = {"120000": "a symlink", "160000": "a submodule", TREE_MODE: "a directory"}
    return kinds.get(mode, "a file")


def _edits(before: Mapping[str, Entry], blobs: Mapping[str, str]) -> dict[str, Entry | None]:
    """Return the entries that differ from HEAD, None for one to remove."""
    edits: dict[str, Entry | None] = {}
    for path, blob in blobs.items():
        old = before.get(path)
        new = Entry(old.mode if old else FILE_MODES[0], blob) if blob else None
        if new != old:
            edits[path] = new
    return edits


def _index_info(edits: Mapping[str, Entry | None], nothing: Entry) -> bytes:
    """Write edits in the form that update-index reads: mode 0 removes."""
    lines = ((entry or nothing, path) for path, entry in edits.items())
    return b"".join(f"{e.mode} {e.object}\t".encode() + os.fsencode(p) + b"\0" for e, p in lines)


def _clean_message(message: str) -> str:
    text = message.replace("\r\n", "\n").replace("\t", " ").encode("utf-8", "replace").decode()
    text = CONTROL_BUT_NEWLINE.sub("", text).strip()[:LONGEST_MESSAGE]
    return f"{text or 'Update memories'}\n"


def _postponed(reason: str) -> Outcome:
    return Outcome(None, f"not committed: {reason}; {SAVED}")


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _listed(paths: Iterable[str]) -> str:
    names = sorted(paths)
    first, rest = names[:3], names[3:]
    more = f" and {len(rest)} more" if rest else ""
    return ", ".join(map(shown, first)) + more


def _reset(paths: Iterable[str]) -> str:
    return f"`git reset -q -- {' '.join(shlex.quote(shown(path)) for path in sorted(paths))}`"


def _ignored_note(ignored: set[str]) -> str:
    if not ignored:
        return ""
    return f"not committed: .gitignore excludes {_listed(ignored)}; the file is saved on disk only"


def _staged_note(paths: Iterable[str]) -> str:
    names = sorted(paths)
    if not names:
        return ""
    return (
        f"committed, but other content of {_listed(names)} is staged and was left alone: "
        f"the next `git commit` brings it back unless you run {_reset(names)}"
    )
