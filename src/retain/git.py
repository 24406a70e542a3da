"""Git, the only module that starts it: history is read and commits are made beside the user's work.

A repository is written by strangers, so nothing in its configuration may start a process: every
command runs from an absolute path with a scrubbed environment, no terminal, no hooks, no filters,
no network and a deadline. A commit is built in a private index, so staged work is never part of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from retain.errors import HistoryError

__all__ = ["Commit", "Outcome", "Repository"]

TIMEOUT_SECONDS = 10.0
LARGEST_BLOB = 64 * 1024 * 1024
LONGEST_REVISION = 250
LONGEST_MESSAGE = 16_000
LEFTOVER_AGE_SECONDS = 3600.0
ARGUMENT_BYTES = 100_000
HEAD_MOVED_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
INDEX_LOCKED_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.0)

# Any other status, also that of a killed process, is a failure and not an answer.
YES_OR_NO = (0, 1)
FILE_MODES = ("100644", "100755")
TREE_MODE = "040000"
ROOM_PREFIX = "retain-commit-"
LOCK_NAME = "retain-commit.lock"
SAVED = "the file is saved and will be committed with its next change"

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

# The command line is the last word in git's configuration, so these win over the repository's own.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=",
    "core.sshCommand=false",
    "core.gitProxy=none",
    "core.alternateRefsCommand=false",
    "core.quotePath=false",
    # A split index would leave its shared half in the git directory.
    "core.splitIndex=false",
    "core.untrackedCache=keep",
    "credential.helper=",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "commit.gpgSign=false",
    "gpg.program=false",
    "log.showSignature=false",
    "log.showRoot=true",
    "diff.external=",
    "diff.orderFile=/dev/null",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "user.useConfigOnly=true",
    "gc.auto=0",
    "maintenance.auto=false",
)

VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    # protocol.allow alone loses to a hostile protocol.<name>.allow; an empty list loses to nothing.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TRACE2": "0",
    "GIT_TRACE2_EVENT": "0",
    "GIT_TRACE2_PERF": "0",
}

NOBODY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Retain"), ("EMAIL", "retain@localhost"))
}

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
CONTROL_BUT_NEWLINE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
FULL_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Commit(NamedTuple):
    """One commit that changed a file, and the file's path at that commit."""

    hash: str
    time: str
    author: str
    subject: str
    path: str


class Outcome(NamedTuple):
    """What became of a commit: its hash if there is one, and what the person should know."""

    commit: str | None
    warning: str


class _Answer(NamedTuple):
    """What a git process leaves behind."""

    status: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        return os.fsdecode(self.out).rstrip("\n")


class _Head(NamedTuple):
    """Where HEAD is: no branch when detached, no commit when the branch is unborn."""

    branch: str
    commit: str


class _Entry(NamedTuple):
    """A path's mode and object in a tree or an index."""

    mode: str
    object: str
    size: str = ""


class _Seen(NamedTuple):
    """One state of the user's index file."""

    inode: int
    size: int
    changed: int
    mode: int


class Repository:
    """A work tree and its git directory."""

    def __init__(self, root: str, git_dir: str, hash_digits: int) -> None:
        self.root = root
        self._git_dir = git_dir
        self._index = os.path.join(git_dir, "index")
        self._nothing = _Entry("0", "0" * hash_digits)

    @classmethod
    def containing(cls, directory: str) -> Repository | None:
        """Return the repository whose work tree holds the directory, or None without any fuss."""
        try:
            real = os.path.realpath(directory)
            marked = _nearest_with_git(real)
            return cls._opened(marked, real) if marked else None
        except (HistoryError, OSError, ValueError):
            return None

    @classmethod
    def _opened(cls, marked: str, directory: str) -> Repository | None:
        question = ("--show-toplevel", "--git-dir", "--show-object-format")
        answer = _run(("rev-parse", "--path-format=absolute", *question), marked)
        lines = answer.line.split("\n")
        # A git older than 2.31 echoes --path-format as one more line, and so shows its age.
        if answer.status or len(lines) != len(question):
            return None
        root, git_dir, kind = os.path.realpath(lines[0]), lines[1], lines[2]
        # core.worktree can name any place at all; only a tree around the directory is of use.
        if not _is_inside(directory, root) or _is_inside(directory, os.path.realpath(git_dir)):
            return None
        return cls(root, git_dir, 64 if kind == "sha256" else 40)

    def relative(self, path: str) -> str:
        """Return an absolute path as a path in the work tree."""
        if not os.path.isabs(path) or "\0" in path:
            raise HistoryError(f"not an absolute path: {_shown(path)}")
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            raise HistoryError(f"not the path of a file: {_shown(path)}")
        # Only the folder is resolved: a link in the file's own place is refused later, by its mode.
        whole = os.path.join(os.path.realpath(folder), name)
        if not _is_inside(whole, self.root):
            raise HistoryError(f"{_shown(path)} is outside the work tree {_shown(self.root)}")
        inner = whole[len(self.root.rstrip("/")) + 1 :]
        if not inner or ".git" in inner.lower().split("/") or not _is_encodable(inner):
            raise HistoryError(f"git cannot hold the path {_shown(path)}")
        return inner

    def log(self, path: str, limit: int = 0) -> list[Commit]:
        """Return the commits that changed a file, newest first, through its renames."""
        inner = self.relative(path)
        # Renames need file contents, which a partial clone may lack: then history without them.
        for following in (("--follow",), ("--no-renames",)):
            answer = self._git(*_log_arguments(following, limit), "HEAD", "--", inner)
            if not answer.status:
                return _parse_log(answer.out, inner)
        if not self._head().commit:
            return []
        raise _failed("git could not list the history", answer)

    def resolve(self, revision: str) -> str:
        """Return the full hash of the commit a revision names."""
        hint = "list the versions with `retain versions ID`"
        if _is_unfit_revision(revision):
            raise HistoryError(f"not a version: {_shown(revision[:80])}", hint=hint)
        name = f"{revision}^{{commit}}"
        answer = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        # `^HEAD` resolves too, to something that is no hash.
        if answer.status or not FULL_HASH.fullmatch(answer.line):
            raise HistoryError(f"no such version: {_shown(revision)}", hint=hint)
        return answer.line

    def read(self, revision: str, path: str) -> bytes | None:
        """Return a file's bytes at a commit, under the name it had then, or None."""
        commit, inner = self.resolve(revision), self.relative(path)
        entry = self._file_at(commit, inner)
        if entry is None:
            older = self._name_at(commit, path)
            entry = self._file_at(commit, older) if older not in ("", inner) else None
        return None if entry is None else self._blob(entry, inner)

    def is_ignored(self, path: str) -> bool:
        """Tell whether the project's ignore rules exclude a file that git does not track."""
        inner = self.relative(path)
        excluded = self._check_ignore("--quiet", "--", f"./{inner}").status == 0
        return excluded and inner not in self._staged([inner])

    def tracked_as(self, path: str) -> bytes | None:
        """Return a file's bytes in HEAD, or None."""
        inner, head = self.relative(path), self._head()
        entry = self._file_at(head.commit, inner) if head.commit else None
        return None if entry is None else self._blob(entry, inner)

    def commit(self, changes: Mapping[str, bytes | None], message: str) -> Outcome:
        """Commit just these files, with nothing of the user's staged work, or say why not."""
        try:
            wanted = {self.relative(path): content for path, content in changes.items()}
            reason = self._under_way()
            if reason:
                return _postponed(reason)
            with _one_at_a_time(self._git_dir), _room_in(self._git_dir) as room:
                return self._commit_wanted(room, wanted, _clean_message(message))
        except HistoryError as error:
            return _postponed(error.message)
        except OSError as error:
            return _postponed(f"{error.strerror or error} in {_shown(self._git_dir)}")

    def _git(self, *arguments: str, stdin: str = os.devnull, **variables: str) -> _Answer:
        return _run(arguments, self.root, stdin, variables)

    def _asked(self, *arguments: str, stdin: str = os.devnull, **variables: str) -> _Answer:
        answer = _run(arguments, self.root, stdin, variables)
        if answer.status:
            raise _failed(f"git {arguments[0]} failed", answer)
        return answer

    def _under_way(self) -> str:
        for name, reason in UNDER_WAY:
            if os.path.lexists(os.path.join(self._git_dir, name)):
                return reason
        return ""

    def _head(self) -> _Head:
        branch = self._git("symbolic-ref", "--quiet", "HEAD")
        if branch.status not in YES_OR_NO:
            raise _failed("git could not read HEAD", branch)
        # Not peeled to ^{commit}: a branch whose commit is missing is broken, not unborn.
        commit = self._git("rev-parse", "--verify", "--quiet", "HEAD")
        return _Head(branch.line, "" if commit.status else commit.line)

    def _entries(self, commit: str, paths: Iterable[str], *options: str) -> dict[str, _Entry]:
        """Return what a commit holds at these paths."""
        found: dict[str, _Entry] = {}
        for some in _batches(paths) if commit else ():
            answer = self._asked("ls-tree", "-z", "-t", *options, commit, "--", *some)
            for facts, path in _records(answer.out):
                mode, _kind, name, *size = facts.split()
                found[path] = _Entry(mode, name, *size)
        return found

    def _file_at(self, commit: str, inner: str) -> _Entry | None:
        entry = self._entries(commit, [inner], "--long").get(inner)
        return entry if entry and entry.mode in FILE_MODES else None

    def _blob(self, entry: _Entry, inner: str) -> bytes:
        # A few kilobytes of a hostile repository can unpack to gigabytes.
        if entry.size.isdigit() and int(entry.size) > LARGEST_BLOB:
            raise HistoryError(f"{_shown(inner)} is too large in git: {entry.size} bytes")
        return self._asked("cat-file", "blob", entry.object).out

    def _name_at(self, commit: str, path: str) -> str:
        """Return the name a file had at a commit, or an empty string."""
        names: list[Commit] = []
        for entry in self.log(path):
            if names and names[-1].path == entry.path:
                names.pop()
            names.append(entry)
        # Newest name first: the first one already taken by then is the one in force then.
        for taken in names:
            if not self._git("merge-base", "--is-ancestor", taken.hash, commit).status:
                return taken.path
        return ""

    def _commit_wanted(self, room: str, wanted: dict[str, bytes | None], message: str) -> Outcome:
        ignored = self._ignored(room, [p for p, c in wanted.items() if c is not None])
        note = _ignored_note(ignored)
        blobs = self._store(room, {p: c for p, c in wanted.items() if p not in ignored})
        for pause in HEAD_MOVED_PAUSES if blobs else ():
            head = self._head()
            if not head.branch:
                return _postponed("HEAD is detached")
            before = self._editable(head.commit, blobs)
            after = _edits(before, blobs)
            if not after:
                return Outcome(None, note)
            commit = self._write_commit(room, head.commit, after, message)
            if self._advance(head.commit, commit, message):
                return Outcome(commit, _joined(note, self._refresh_index(room, before, after)))
            time.sleep(pause)
        return _postponed("the branch kept moving") if blobs else Outcome(None, note)

    def _ignored(self, room: str, paths: list[str]) -> set[str]:
        if not paths:
            return set()
        given = _written(room, "paths", b"".join(b"./%b\0" % os.fsencode(p) for p in paths))
        out = self._check_ignore("-z", "--stdin", stdin=given).out
        excluded = {os.fsdecode(path.removeprefix(b"./")) for path in out.split(b"\0") if path}
        return excluded.difference(self._staged(excluded))

    def _check_ignore(self, *arguments: str, stdin: str = os.devnull) -> _Answer:
        # This command alone refuses literal paths: a leading ./ keeps :(magic) out, and --no-index
        # keeps it from matching the index by wildcard, so tracked files are left to the caller.
        plain = {"GIT_LITERAL_PATHSPECS": "0"}
        answer = self._git("check-ignore", "--no-index", *arguments, stdin=stdin, **plain)
        if answer.status not in YES_OR_NO:
            raise _failed("git could not read the ignore rules", answer)
        return answer

    def _store(self, room: str, wanted: Mapping[str, bytes | None]) -> dict[str, str]:
        """Store the new contents as blobs and return each path's, empty for a deletion."""
        blobs = dict.fromkeys(wanted, "")
        kept = {path: content for path, content in wanted.items() if content is not None}
        if not kept:
            return blobs
        files = [_written(room, f"blob-{n}", text) for n, text in enumerate(kept.values())]
        given = _written(room, "files", b"".join(os.fsencode(name) + b"\n" for name in files))
        answer = self._asked("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=given)
        return blobs | dict(zip(kept, answer.line.split("\n"), strict=True))

    def _editable(self, commit: str, paths: Iterable[str]) -> dict[str, _Entry]:
        """Return what HEAD holds at these paths, refusing what is not an ordinary file."""
        targets = list(paths)
        folders = sorted({folder for path in targets for folder in _folders(path)})
        found = self._entries(commit, [*folders, *targets])
        for path, expected in (
            *((f, (TREE_MODE,)) for f in folders),
            *((t, FILE_MODES) for t in targets),
        ):
            if path in found and found[path].mode not in expected:
                raise HistoryError(f"{_shown(path)} is {_kind(found[path].mode)} in git")
        return {path: found[path] for path in targets if path in found}

    def _write_commit(
        self, room: str, parent: str, after: Mapping[str, _Entry | None], message: str
    ) -> str:
        """Write HEAD's tree with these edits and a commit of it, which nothing names yet."""
        index = os.path.join(room, "index")
        self._on_index(room, index, "read-tree", "--no-recurse-submodules", parent or "--empty")
        edits = _written(room, "edits", _index_info(after, self._nothing))
        self._on_index(room, index, "update-index", "-z", "--index-info", stdin=edits)
        # A partial clone lacks blobs beside ours, and must not fetch them to be told they exist.
        tree = self._on_index(room, index, "write-tree", "--missing-ok").line
        text = _written(room, "message", message.encode())
        parents = ("-p", parent) if parent else ()
        return self._commit_tree("--no-gpg-sign", *parents, "-F", "-", tree, stdin=text)

    def _commit_tree(self, *arguments: str, stdin: str) -> str:
        # user.useConfigOnly makes git refuse to guess an identity, which costs nothing to find out.
        answer = self._git("commit-tree", *arguments, stdin=stdin)
        if answer.status:
            answer = self._asked("commit-tree", *arguments, stdin=stdin, **NOBODY)
        return answer.line

    def _advance(self, old: str, new: str, message: str) -> bool:
        """Move the branch from the old commit to the new one, unless someone else moved it."""
        reason = f"commit (retain): {message.partition(chr(10))[0][:200]}"
        # HEAD, not the branch's name: a branch switched to meanwhile at this commit is right too.
        # A named identity for the reflog spares git the host name lookup that a guess would take.
        try:
            answer = self._git("update-ref", "-m", reason, "HEAD", new, old, **NOBODY)
        except HistoryError:
            return self._head().commit == new
        return answer.status == 0 or self._head().commit == new

    def _on_index(self, room: str, index: str, *arguments: str, stdin: str = os.devnull) -> _Answer:
        """Run a command on an index file, from where no file of the work tree can be seen."""
        # Whoever writes an index looks again at files changed a moment ago, through their filters:
        # commands of the repository's choice. In an empty work tree there is nothing to look at.
        empty = os.path.join(room, "tree")
        os.makedirs(empty, exist_ok=True)
        places = {"GIT_DIR": self._git_dir, "GIT_WORK_TREE": empty, "GIT_INDEX_FILE": index}
        answer = _run(arguments, empty, stdin, places)
        if answer.status:
            raise _failed(f"git {arguments[0]} failed", answer)
        return answer

    def _refresh_index(
        self, room: str, before: Mapping[str, _Entry], after: Mapping[str, _Entry | None]
    ) -> str:
        """Bring the user's index up to date where nothing is staged, or say what to run."""
        try:
            for pause in INDEX_LOCKED_PAUSES:
                # Copied anew each time: whoever holds the lock may be staging one of these paths.
                copy, seen = self._copied_index(room)
                staged = self._staged(after, GIT_INDEX_FILE=copy)
                ours = {p: e for p, e in after.items() if staged.get(p) == before.get(p)}
                if not ours or self._replace_index(room, copy, seen, ours):
                    rest = (p for p in after if p not in ours and staged.get(p) != after[p])
                    return _staged_note(rest)
                time.sleep(pause)
        except (HistoryError, OSError):
            pass
        return (
            f"committed, but git's index is locked or broken: run {_reset(after)} when it is free"
        )

    def _copied_index(self, room: str) -> tuple[str, _Seen | None]:
        copy = os.path.join(room, "users-index")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy)
        seen = _seen(self._index)
        if seen:
            with open(self._index, "rb") as file:
                _written(room, "users-index", file.read())
        return copy, seen

    def _replace_index(
        self, room: str, copy: str, seen: _Seen | None, edits: Mapping[str, _Entry | None]
    ) -> bool:
        """Put an edited copy in the place of the user's index, unless that changed or is locked."""
        given = _written(room, "refresh", _index_info(edits, self._nothing))
        self._on_index(room, copy, "update-index", "-z", "--index-info", stdin=given)
        if seen:
            os.chmod(copy, seen.mode)
            # An unchanged date keeps git's own doubt about files changed in the same instant.
            os.utime(copy, ns=(seen.changed, seen.changed))
        return _swap(copy, self._index, seen)

    def _staged(self, paths: Iterable[str], **variables: str) -> dict[str, _Entry]:
        found: dict[str, _Entry] = {}
        for some in _batches(paths):
            answer = self._asked("ls-files", "-z", "--stage", "--", *some, **variables)
            for facts, path in _records(answer.out):
                mode, name, stage = facts.split()
                found[path] = _Entry(mode if stage == "0" else "unmerged", name)
        return found


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


def _nearest_with_git(directory: str) -> str:
    """Return the nearest directory upwards that holds a `.git`, without starting a process."""
    while not os.path.lexists(os.path.join(directory, ".git")):
        directory, below = os.path.dirname(directory), directory
        if directory == below:
            return ""
    return directory


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True


def _is_unfit_revision(revision: str) -> bool:
    if not revision or revision.startswith("-") or len(revision) > LONGEST_REVISION:
        return True
    return bool(CONTROL.search(revision)) or not _is_encodable(revision)


def _executable() -> str:
    """Return git's absolute path; a relative entry of PATH could name a file in the work tree."""
    for directory in os.get_exec_path():
        candidate = os.path.join(directory, "git")
        if os.path.isabs(directory) and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise HistoryError("git is not installed", hint="install git 2.31 or later")


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    kept.pop("SSH_ASKPASS", None)
    return kept | VARIABLES | dict(variables)


def _run(
    arguments: Iterable[str],
    directory: str,
    stdin: str = os.devnull,
    variables: Mapping[str, str] | None = None,
) -> _Answer:
    """Run one git command with a file as its input, and return what it says."""
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    command = [_executable(), "--no-pager", *settings, *arguments]
    try:
        return _spawn(command, directory, stdin, _environment(variables or {}))
    except (OSError, ValueError) as error:
        raise HistoryError(f"git could not be started: {error}") from error


def _spawn(command: list[str], directory: str, stdin: str, environment: dict[str, str]) -> _Answer:
    with (
        open(stdin, "rb") as given,
        subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A session of its own has no terminal to prompt on, and is stopped as a whole.
            start_new_session=True,
        ) as process,
    ):
        try:
            out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            _stop(process)
            raise HistoryError(f"git did not answer within {TIMEOUT_SECONDS:g} s") from None
        except BaseException:
            _stop(process)
            raise
    return _Answer(process.returncode, out, err.decode("utf-8", "replace"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a git process and its children, first in the way that lets git remove its lock files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)


def _failed(what: str, answer: _Answer) -> HistoryError:
    last = answer.err.strip().rpartition("\n")[2]
    return HistoryError(f"{what}: {_shown(last)}" if last else what)


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


def _batches(paths: Iterable[str]) -> Iterator[list[str]]:
    """Split paths so that each part fits a command line."""
    some: list[str] = []
    room = ARGUMENT_BYTES
    for path in paths:
        room -= len(os.fsencode(path)) + 1
        if some and room < 0:
            yield some
            some, room = [], ARGUMENT_BYTES
        some.append(path)
    if some:
        yield some


def _records(out: bytes) -> Iterator[tuple[str, str]]:
    """Yield the facts and the path of each record of ls-tree or ls-files."""
    for record in out.split(b"\0"):
        facts, tab, path = record.partition(b"\t")
        if tab:
            yield facts.decode("ascii"), os.fsdecode(path)


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _kind(mode: str) -> str:
    kinds = {"120000": "a symlink", "160000": "a submodule", TREE_MODE: "a directory"}
    return kinds.get(mode, "a file")


def _edits(before: Mapping[str, _Entry], blobs: Mapping[str, str]) -> dict[str, _Entry | None]:
    """Return the entries that differ from HEAD, None for one to remove."""
    edits: dict[str, _Entry | None] = {}
    for path, blob in blobs.items():
        old = before.get(path)
        new = _Entry(old.mode if old else FILE_MODES[0], blob) if blob else None
        if new != old:
            edits[path] = new
    return edits


def _index_info(edits: Mapping[str, _Entry | None], nothing: _Entry) -> bytes:
    """Write edits in the form that update-index reads: mode 0 removes."""
    lines = ((entry or nothing, path) for path, entry in edits.items())
    return b"".join(f"{e.mode} {e.object}\t".encode() + os.fsencode(p) + b"\0" for e, p in lines)


def _log_arguments(following: tuple[str, ...], limit: int) -> list[str]:
    # Three NULs cannot come from an author, a subject or a path, and so they part the records.
    fields = "%x00%x00H%H%x00%at%x00%an%x00%s"
    plain = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-notes", "--no-mailmap")
    quiet = ("--no-show-signature", "--no-relative", "--diff-merges=off", "--encoding=UTF-8")
    count = (f"--max-count={limit}",) if limit > 0 else ()
    shape = ("-z", "--name-only", f"--format={fields}")
    return ["log", *following, *plain, *quiet, *count, *shape, "--end-of-options"]


def _parse_log(out: bytes, newest_name: str) -> list[Commit]:
    commits: list[Commit] = []
    path = newest_name
    for record in (b"\0" + out).split(b"\0\0\0H")[1:]:
        name, when, author, subject, rest = (record + b"\0").split(b"\0", 4)
        # Git writes one newline, and only one, before the path.
        changed = rest.removeprefix(b"\n").strip(b"\0")
        path = os.fsdecode(changed) if changed else path
        commits.append(Commit(name.decode(), _utc(when), _text(author), _text(subject), path))
    return commits


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _utc(seconds: bytes) -> str:
    """Write a commit's own idea of the time, which may be absurd, as UTC."""
    latest = 253402300799
    moment = min(max(int(seconds or b"0"), 0), latest)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _clean_message(message: str) -> str:
    text = message.replace("\r\n", "\n").replace("\t", " ").encode("utf-8", "replace").decode()
    text = CONTROL_BUT_NEWLINE.sub("", text).strip()[:LONGEST_MESSAGE]
    return f"{text or 'Update memories'}\n"


def _shown(text: str) -> str:
    """Return text that is safe in a message: no control characters, no broken encoding."""
    readable = text.encode("utf-8", "surrogateescape" if _is_encodable(text) else "replace")
    return CONTROL.sub("?", readable.decode("utf-8", "replace"))


def _postponed(reason: str) -> Outcome:
    return Outcome(None, f"not committed: {reason}; {SAVED}")


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _listed(paths: Iterable[str]) -> str:
    names = sorted(paths)
    first, rest = names[:3], names[3:]
    more = f" and {len(rest)} more" if rest else ""
    return ", ".join(map(_shown, first)) + more


def _reset(paths: Iterable[str]) -> str:
    return f"`git reset -q -- {' '.join(shlex.quote(_shown(path)) for path in sorted(paths))}`"


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
