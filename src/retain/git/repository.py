"""A work tree and its git directory: what a file was, and when."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from retain.errors import HistoryError
from retain.git import process
from retain.git.process import CONTROL, YES_OR_NO, Answer, failed, is_encodable, shown

__all__ = ["FILE_MODES", "Commit", "Entry", "Outcome", "Repository"]

LARGEST_BLOB = 64 * 1024 * 1024
LONGEST_REVISION = 250
ARGUMENT_BYTES = 100_000
FILE_MODES = ("100644", "100755")
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


class _Head(NamedTuple):
    """Where HEAD is: no branch when detached, no commit when the branch is unborn."""

    branch: str
    commit: str


class Entry(NamedTuple):
    """A path's mode and object in a tree or an index."""

    mode: str
    object: str
    size: str = ""


class Repository:
    """A work tree and its git directory."""

    def __init__(self, root: str, git_dir: str, hash_digits: int) -> None:
        self.root = root
        self.git_dir = git_dir
        self.nothing = Entry("0", "0" * hash_digits)

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
        answer = process.run(("rev-parse", "--path-format=absolute", *question), marked)
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
            raise HistoryError(f"not an absolute path: {shown(path)}")
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            raise HistoryError(f"not the path of a file: {shown(path)}")
        # Only the folder is resolved: a link in the file's own place is refused later, by its mode.
        whole = os.path.join(os.path.realpath(folder), name)
        if not _is_inside(whole, self.root):
            raise HistoryError(f"{shown(path)} is outside the work tree {shown(self.root)}")
        inner = whole[len(self.root.rstrip("/")) + 1 :]
        if not inner or ".git" in inner.lower().split("/") or not is_encodable(inner):
            raise HistoryError(f"git cannot hold the path {shown(path)}")
        return inner

    def log(self, path: str, limit: int = 0) -> list[Commit]:
        """Return the commits that changed a file, newest first, through its renames."""
        inner = self.relative(path)
        # Renames need file contents, which a partial clone may lack: then history without them.
        for following in (("--follow",), ("--no-renames",)):
            answer = self.ask(*_log_arguments(following, limit), "HEAD", "--", inner)
            if not answer.status:
                return _parse_log(answer.out, inner)
        if not self.head().commit:
            return []
        raise failed("git could not list the history", answer)

    def resolve(self, revision: str) -> str:
        """Return the full hash of the commit a revision names."""
        hint = "list the versions with `retain versions ID`"
        if _is_unfit_revision(revision):
            raise HistoryError(f"not a version: {shown(revision[:80])}", hint=hint)
        name = f"{revision}^{{commit}}"
        answer = self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        # `^HEAD` resolves too, to something that is no hash.
        if answer.status or not FULL_HASH.fullmatch(answer.line):
            raise HistoryError(f"no such version: {shown(revision)}", hint=hint)
        return answer.line

    def read(self, revision: str, path: str) -> bytes | None:
        """Return a file's bytes at a commit, under the name it had then, or None."""
        commit, inner = self.resolve(revision), self.relative(path)
        entry = self._file_at(commit, inner)
        if entry is None:
            older = self._name_at(commit, path)
            entry = self._file_at(commit, older) if older not in ("", inner) else None
        return None if entry is None else self._blob(entry, inner)

    def is_tracked(self, path: str) -> bool:
        """Tell whether HEAD has a file."""
        inner, head = self.relative(path), self.head()
        return bool(head.commit) and self._file_at(head.commit, inner) is not None

    def commit(self, changes: Mapping[str, bytes | None], message: str) -> Outcome:
        """Commit just these files, with nothing of the user's staged work, or say why not."""
        from retain.git import committing

        return committing.commit(self, changes, message)

    def ask(self, *arguments: str, stdin: str = os.devnull, **variables: str) -> Answer:
        return process.run(arguments, self.root, stdin, variables)

    def tell(self, *arguments: str, stdin: str = os.devnull, **variables: str) -> Answer:
        answer = process.run(arguments, self.root, stdin, variables)
        if answer.status:
            raise failed(f"git {arguments[0]} failed", answer)
        return answer

    def head(self) -> _Head:
        branch = self.ask("symbolic-ref", "--quiet", "HEAD")
        if branch.status not in YES_OR_NO:
            raise failed("git could not read HEAD", branch)
        # Not peeled to ^{commit}: a branch whose commit is missing is broken, not unborn.
        commit = self.ask("rev-parse", "--verify", "--quiet", "HEAD")
        return _Head(branch.line, "" if commit.status else commit.line)

    def entries(self, commit: str, paths: Iterable[str], *options: str) -> dict[str, Entry]:
        """Return what a commit holds at these paths."""
        found: dict[str, Entry] = {}
        for some in _batches(paths) if commit else ():
            answer = self.tell("ls-tree", "-z", "-t", *options, commit, "--", *some)
            for facts, path in _records(answer.out):
                mode, _kind, name, *size = facts.split()
                found[path] = Entry(mode, name, *size)
        return found

    def _file_at(self, commit: str, inner: str) -> Entry | None:
        entry = self.entries(commit, [inner], "--long").get(inner)
        return entry if entry and entry.mode in FILE_MODES else None

    def _blob(self, entry: Entry, inner: str) -> bytes:
        # A few kilobytes of a hostile repository can unpack to gigabytes.
        if entry.size.isdigit() and int(entry.size) > LARGEST_BLOB:
            raise HistoryError(f"{shown(inner)} is too large in git: {entry.size} bytes")
        return self.tell("cat-file", "blob", entry.object).out

    def _name_at(self, commit: str, path: str) -> str:
        """Return the name a file had at a commit, or an empty string."""
        names: list[Commit] = []
        for entry in self.log(path):
            if names and names[-1].path == entry.path:
                names.pop()
            names.append(entry)
        # Newest name first: the first one already taken by then is the one in force then.
        for taken in names:
            if not self.ask("merge-base", "--is-ancestor", taken.hash, commit).status:
                return taken.path
        return ""

    def check_ignore(self, *arguments: str, stdin: str = os.devnull) -> Answer:
        # This command alone refuses literal paths: a leading ./ keeps :(magic) out, and --no-index
        # keeps it from matching the index by wildcard, so tracked files are left to the caller.
        plain = {"GIT_LITERAL_PATHSPECS": "0"}
        answer = self.ask("check-ignore", "--no-index", *arguments, stdin=stdin, **plain)
        if answer.status not in YES_OR_NO:
            raise failed("git could not read the ignore rules", answer)
        return answer

    def staged(self, paths: Iterable[str], **variables: str) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for some in _batches(paths):
            answer = self.tell("ls-files", "-z", "--stage", "--", *some, **variables)
            for facts, path in _records(answer.out):
                mode, name, stage = facts.split()
                found[path] = Entry(mode if stage == "0" else "unmerged", name)
        return found


def _nearest_with_git(directory: str) -> str:
    """Return the nearest directory upwards that holds a `.git`, without starting a process."""
    while not os.path.lexists(os.path.join(directory, ".git")):
        directory, below = os.path.dirname(directory), directory
        if directory == below:
            return ""
    return directory


def _is_inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _is_unfit_revision(revision: str) -> bool:
    if not revision or revision.startswith("-") or len(revision) > LONGEST_REVISION:
        return True
    return bool(CONTROL.search(revision)) or not is_encodable(revision)


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
