"""Whether the files a memory links to are still what they were when it was written.

A file that has not been touched since is fresh. Else its content decides: compared with the
fingerprint taken when the memory was written, or with what git had at that time. Without either,
a later date is all there is to go by. A file that is gone is looked for where git saw it go, and
under its own name elsewhere. One that neither git nor the memory ever saw is planned.

In a shallow, partial or sparse clone git lacks a part of the answer, and the state is unknown.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import HistoryError
from retain.text.links import normalize_target

if TYPE_CHECKING:
    from retain.bank.git import Repository


LARGEST_FILE: Final = 5_000_000  # bytes read to take a fingerprint
FINGERPRINT: Final = 20  # hex digits
THERE: Final = "there"  # in place of one, for a folder and for what is too large to be read
LONGEST_TARGET: Final = 4096
MOST_COMMITS: Final = 3000  # read from git's log
MOST_ENTRIES: Final = 20_000  # looked through for a file that moved behind git's back

_LINE: Final = re.compile(r"(?:#[^/]*|(?::[0-9]+(?:[-:,][0-9]+)*))$")
_ENDING: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9_+-]{0,9}$")

# What a repository's own settings could otherwise change in the output.
_LOG: Final = (
    "--raw", "-z", "--format=%ct", "--no-abbrev", "--no-color", "--no-ext-diff", "--no-textconv",
    "--no-follow", "--no-show-signature", "--no-notes", "--no-relative", "--diff-merges=off",
    "--find-renames", "-l100",
)  # fmt: skip


class Freshness(NamedTuple):
    """How a linked file is now: fresh, changed, moved, gone, planned, or empty: unknown."""

    state: str
    path: str  # as it is linked
    now_at: str = ""


class _Place(NamedTuple):
    """A path in the project, links resolved, and what stands there if anything does."""

    path: str
    facts: os.stat_result | None


class Project:
    """The files around a bank as they are at one moment; make a new one for each search."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._places: dict[str, _Place | None] = {}
        self._blobs: dict[str, list[str]] = {}

    def check(self, target: str, written_at: float, seen: str = "") -> Freshness:
        """How a linked file is, compared with when the memory was written.

        `seen` is the fingerprint it had then, if that is known; then nothing else matters.
        """
        place = self._find(target)
        if place is None:
            return Freshness("", target)
        if place.facts is None:
            return self._check_missing(target, place.path, seen)
        content = "" if seen == THERE else seen
        is_fresh: bool | None = None
        if stat.S_ISDIR(place.facts.st_mode):
            is_fresh = not content
        elif stat.S_ISREG(place.facts.st_mode):
            if content and (blobs := self._blobs_at(place)):
                is_fresh = any(blob.startswith(content) for blob in blobs)
            elif not _is_after(place.facts.st_mtime, written_at):
                is_fresh = True
            elif self._history is None:
                is_fresh = False
            else:
                then = self._history.blob_at(place.path, written_at)
                blobs = self._blobs_at(place)
                if blobs and then is not None:
                    is_fresh = then in blobs
                elif then != self._history.blob(place.path):  # too large to be read
                    is_fresh = None if then is None else False
        return Freshness("" if is_fresh is None else "fresh" if is_fresh else "changed", target)

    def _check_missing(self, target: str, path: str, seen: str) -> Freshness:
        if not seen and not self._may_be_file(target, path):
            return Freshness("", target)
        git, at, content = self._history, path, "" if seen == THERE else seen
        if git is not None:
            last = git.follow(path, self)
            at = last.path if last else path
            if at != path and self.is_file(at):
                return Freshness("moved", target, at)
            content = content or git.blob(path) or (last.old if last else "")
        now_at = self._find_namesake(at, content)
        if now_at:
            return Freshness("moved", target, now_at)
        was_there = True if seen else git.had(path) if git else False
        if was_there:
            return Freshness("gone", target)
        # `Node.js` is no file, for all one knows; `src/node.js` may be.
        is_planned = was_there is not None and "/" in target
        return Freshness("planned" if is_planned else "", target)

    def fingerprint(self, target: str) -> str:
        """A short hash of a linked file's content now; empty where there is nothing."""
        place = self._find(target)
        if place is None or place.facts is None:
            return ""
        blobs = self._blobs_at(place)
        return blobs[0][:FINGERPRINT] if blobs else THERE

    def fingerprint_at(self, target: str, written_at: float) -> str:
        """The fingerprint a linked file had when a memory was written, if the past is known.

        For memories that come from elsewhere: asked for once, it spares every search git.
        """
        place = self._find(target)
        if place is None:
            return ""
        if place.facts and not _is_after(place.facts.st_mtime, written_at):
            return self.fingerprint(target)
        blob = self._history.blob_at(place.path, written_at) if self._history else None
        return blob[:FINGERPRINT] if blob else THERE if place.facts else ""

    def meant(self, path: str, cwd: str) -> list[str]:
        """What a path given in a directory means here, as links name it; nothing if outside.

        As it stands there, or as links name it: the first of the two that is there, else both.
        """
        given = path.strip()
        whole = os.path.expanduser(given) if given.startswith("~") else given
        here = self._inside(os.path.join(cwd, whole)) if given else ""
        is_elsewhere = whole.startswith("/") or _leaves(os.path.normpath(given))
        paths = [
            inner for inner in (here, "" if is_elsewhere else normalize_target(given)) if inner
        ]
        return [inner for inner in paths if self.has(inner)][:1] or list(dict.fromkeys(paths))

    def has(self, path: str) -> bool:
        """Whether there is something at a path that links may name."""
        place = self._find(path)
        return place is not None and place.facts is not None

    def is_file(self, path: str) -> bool:
        """Whether a path that git names is a file here that may be shown to a person."""
        place = self._walk(_steps(path), is_real=True) if path.isprintable() else None
        return bool(place and place.facts and stat.S_ISREG(place.facts.st_mode))

    def _inside(self, path: str) -> str:
        """A whole path as seen from the root, empty for one that is elsewhere."""
        plain = os.path.normpath(path)
        if "\0" in plain:
            return ""
        real = os.path.join(os.path.realpath(os.path.dirname(plain)), os.path.basename(plain))
        inner = (os.path.relpath(one, self.root) for one in (plain, real))
        return next((one for one in inner if not _leaves(one)), "")

    def _find(self, target: str) -> _Place | None:
        """What a target leads to, None for what is no path in the project."""
        if target not in self._places:
            place = self._walk(_steps(target))
            bare = _LINE.sub("", target)
            if bare != target and (place is None or place.facts is None):
                place = self._walk(_steps(bare))
            self._places[target] = place
        return self._places[target]

    def _walk(self, steps: list[str], *, is_real: bool = False) -> _Place | None:
        """Go down step by step, so that no link leads out unseen."""
        here, facts = self.root, None
        try:
            for step in steps:
                here = f"{here}/{step}"
                facts = os.lstat(here)
                if stat.S_ISLNK(facts.st_mode):
                    if is_real:
                        return None
                    real = os.path.realpath(os.path.join(self.root, *steps))
                    # What is outside keeps its slash in front, and is refused.
                    inner = real.removeprefix(os.path.join(self.root, ""))
                    return self._walk(_steps(inner), is_real=True)
        except (FileNotFoundError, NotADirectoryError):
            return _Place("/".join(steps), None)
        except (OSError, ValueError):
            return None
        return _Place("/".join(steps), facts) if facts else None

    def _blobs_at(self, place: _Place) -> list[str]:
        """Git's names for a file's content, as it is and with the line ends git would store."""
        if place.path not in self._blobs:
            data = _read(f"{self.root}/{place.path}", place.facts)
            contents = [] if data is None else [data, data.replace(b"\r\n", b"\n")]
            self._blobs[place.path] = [_blob(content) for content in dict.fromkeys(contents)]
        return self._blobs[place.path]

    @cached_property
    def _history(self) -> _History | None:
        """What git knows; None where there is no commit, so that dates are all there is."""
        from retain.bank.git import Repository  # subprocess, which a search without links spares

        repository = Repository.containing(self.root)
        history = _History(repository, self.root) if repository else None
        return history if history is not None and history.is_born else None

    def _may_be_file(self, target: str, path: str) -> bool:
        """Tell `src/auth.py` from `TCP/IP` and an idea, for which nobody needs to ask git."""
        top, slash, _ = path.partition("/")
        if ":" in top:
            return False
        if target.endswith("/") or _ENDING.search(path):
            return True
        above = self._walk([top]) if slash else None
        return above is not None and above.facts is not None

    def _find_namesake(self, path: str, content: str) -> str:
        """The one other file of the same name and content; of several nobody can tell."""
        if not content or _blob(b"").startswith(content):
            return ""  # an empty file is like any other
        same = []
        for candidate in self._files_by_name.get(os.path.basename(path), ()):
            place = self._walk(_steps(candidate), is_real=True)
            if place and self.is_file(candidate):
                blobs = self._blobs_at(place)
                same += [candidate] if blobs and blobs[0].startswith(content) else []
        return same[0] if len(same) == 1 else ""

    @cached_property
    def _files_by_name(self) -> dict[str, list[str]]:
        """The project's files by their names, as far as a short walk gets."""
        files = defaultdict(list)
        left = MOST_ENTRIES
        for folder, folders, names in os.walk(self.root):
            left -= len(folders) + len(names)
            if left < 0:
                break
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inner = os.path.relpath(folder, self.root)
            for name in names:
                files[name].append(os.path.normpath(os.path.join(inner, name)))
        return files


class _Change(NamedTuple):
    """What one commit did to one file; the newest commit is at position 1, what is staged at 0."""

    position: int
    time: int
    status: str
    old: str
    new: str
    source: str
    path: str


class _History:
    """What git remembers of a project's files, read at once; nothing where it fails or hangs."""

    def __init__(self, repository: Repository, root: str) -> None:
        self._repository = repository
        inner = os.path.relpath(root, repository.root)
        self._prefix = "" if inner == "." else f"{inner}/"
        self._index = b""
        self._changes: dict[str, list[_Change]] = defaultdict(list)  # newest first
        self._left: dict[str, _Change] = {}  # how each path that was taken away went last
        self._staged: list[_Change] = []
        self._reach = float("inf")  # changes before this moment are not known
        self.is_born = True
        try:
            commit = repository.head().commit
            self.is_born = bool(commit)
            if len(commit) == len(_blob(b"")):  # and not SHA-256
                self._read()
        except HistoryError:
            self._reach = float("inf")

    def _read(self) -> None:
        is_whole = self._ask("rev-parse", "--is-shallow-repository").startswith(b"false\n")
        if not is_whole:
            return
        self._index = self._ask("ls-files", "-z", "-t", "--stage")
        how = ("--raw", "-z", "--no-abbrev", "--find-renames", "-l100", "--no-relative")
        self._staged = self._parse(self._ask("diff-index", "--cached", *how, "HEAD"))
        out = self._ask("log", f"--max-count={MOST_COMMITS}", *_LOG, "--end-of-options", "HEAD")
        changes = self._parse(out)
        for change in changes:
            self._changes[change.path].append(change)
        for change in (*self._staged, *changes):
            if change.status in ("D", "R"):
                self._left.setdefault(change.source, change)
        is_cut = bool(changes) and changes[-1].position >= MOST_COMMITS
        self._reach = changes[-1].time if is_cut else 0.0

    def _ask(self, *arguments: str) -> bytes:
        within = (self._prefix,) if self._prefix else ()
        # The dashes also tell HEAD from a file of that name.
        answer = self._repository.ask(*arguments, "--", *within)
        if answer.status:
            raise HistoryError(f"git {arguments[0]} failed")
        return answer.out

    def _parse(self, out: bytes) -> list[_Change]:
        """Read the output of `log --raw -z` or `diff-index --raw -z`."""
        changes: list[_Change] = []
        commits, when = 0, 0
        words = iter(out.split(b"\0"))
        for word in words:
            text = word.lstrip(b"\n")
            if text.startswith(b":"):
                _, _, old, new, status = text.decode("ascii").split(" ")
                names = [next(words, b"") for _ in range(2 if status[0] in "RC" else 1)]
                source, path = (
                    os.fsdecode(name).removeprefix(self._prefix) for name in (names[0], names[-1])
                )
                changes.append(_Change(commits, when, status[0], old, new, source, path))
            elif text:
                commits, when = commits + 1, int(text)
        return changes

    def blob_at(self, path: str, written_at: float) -> str | None:
        """What was at a path at a time, empty if git had nothing, None if unknown."""
        later = [one for one in self._changes[path] if _is_after(one.time, max(written_at, 0.0))]
        if max(written_at, 0.0) < self._reach:
            return None
        if not later:
            # The index has a folder's name only where another repository begins.
            parts = path.split("/")
            is_nested = any(self.blob("/".join(parts[:depth])) for depth in range(1, len(parts)))
            return None if is_nested else self.blob(path)
        # Not in git at that time: what was committed first is the nearest to what was seen.
        return later[-1].old if later[-1].status in ("M", "T", "D") else later[-1].new

    def follow(self, path: str, project: Project) -> _Change | None:
        """The last that happened to a file that is gone, from one name to the next."""
        last, at = None, path
        while change := self._left.get(at):
            # A name can be used again: only what happened later belongs to this file.
            if last and change.position >= last.position:
                break
            last, at = change, change.path
            if change.status == "D" or project.is_file(at):
                break
        return last

    def had(self, path: str) -> bool | None:
        """Whether anything was ever there, as far back as is looked; None if unknown."""
        if self._reach == float("inf") or self._facts(path)[:1] == ["S"]:  # left out by sparse
            return None
        if self.blob(path) or b"\t%b/" % os.fsencode(self._prefix + path) in self._index:
            return True
        return path in self._left or any(name.startswith(f"{path}/") for name in self._left)

    def blob(self, path: str) -> str:
        """What HEAD has at a path, or an empty string."""
        # The index and its difference from HEAD, since to list HEAD is to unpack all of it, and
        # a hostile tree of a few kilobytes can hold more names than any disk.
        for change in self._staged:
            if path in (change.source, change.path):
                return change.old if path == change.source and change.status != "A" else ""
        return (self._facts(path) or ["", "", ""])[2]

    def _facts(self, path: str) -> list[str]:
        """What the index says of a path, without taking all of it apart."""
        name, at = os.fsencode(self._prefix + path), -1
        while (at := self._index.find(b"\t%b\0" % name, at + 1)) >= 0:
            facts = self._index[self._index.rfind(b"\0", 0, at) + 1 : at]
            # A name may hold a tab, and then its end looks like another name.
            if b"\t" not in facts:
                return facts.decode("ascii").split(" ")
        return []


def _read(path: str, facts: os.stat_result | None) -> bytes | None:
    """The content of the very file that was looked at, None if it cannot be had."""
    if facts is None or not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_FILE:
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        now = os.fstat(fd)
        # Another file, if a folder above became a link to elsewhere meanwhile.
        is_same = (now.st_dev, now.st_ino) == (facts.st_dev, facts.st_ino)
        return os.read(fd, min(now.st_size, LARGEST_FILE)) if is_same else None
    except OSError:
        return None
    finally:
        os.close(fd)


def _is_after(moment: float, written_at: float) -> bool:
    """Whether something came after a memory, whose date may be any moment of its second."""
    is_whole = float(written_at).is_integer()
    return moment >= written_at + 1 if is_whole else moment > written_at


def _leaves(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _steps(target: str) -> list[str]:
    """A target as names below the project's root, none for what leads elsewhere."""
    if len(target) > LONGEST_TARGET or target.startswith(("/", "~")):
        return []
    steps = [step for step in target.removesuffix("/").split("/") if step != "."]
    is_refused = any(step in ("", "..") or step.lower() == ".git" for step in steps)
    return [] if is_refused else steps


def _blob(data: bytes) -> str:
    """Git's name for a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
