"""Whether the files a memory links to are still what they were when it was written.

A file that has not been touched since is fresh. Else its content decides: compared with the
fingerprint taken when the memory was written, or with what git had at that time. Without either,
a later date is all there is to go by. A file that is gone is looked for where git saw it go. One
that neither git nor the memory ever saw is planned.

In a shallow, partial or sparse clone git lacks a part of the answer, and the state is unknown.
"""

from __future__ import annotations

import contextlib
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
_MOST_COMMITS: Final = 3000  # read from git's log

_LINE: Final = re.compile(r"(?:#[^/]*|(?::[0-9]+(?:[-:,][0-9]+)*))$")
_ENDING: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9_+-]{0,9}$")

# What a repository's own settings could otherwise change in the output. Of a merge only those files
# are listed that are like neither parent's.
_DIFF: Final = ("--raw", "-z", "--no-abbrev", "--find-renames", "-l100", "--no-relative")
_LOG: Final = (
    *_DIFF, "--format=%ct", "--no-color", "--no-ext-diff", "--no-textconv", "--no-follow",
    "--no-show-signature", "--no-notes", "--diff-merges=combined",
    f"--max-count={_MOST_COMMITS}", "--end-of-options", "HEAD",
)  # fmt: skip
_STAGED: Final = ("--cached", *_DIFF, "--diff-filter=R", "HEAD")


class Freshness(NamedTuple):
    """How a linked file is now: fresh, changed, moved, gone, planned, or empty: unknown."""

    state: str
    now_at: str = ""


class _Place(NamedTuple):
    """A path in the project, links resolved, and what stands there if anything does."""

    path: str
    status: os.stat_result | None

    @property
    def is_file(self) -> bool:
        return self.status is not None and stat.S_ISREG(self.status.st_mode)


class Project:
    """The files around a bank as they are at one moment; make a new one for each search."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._blobs: dict[str, list[str]] = {}

    def check(self, target: str, written_at: float, seen: str = "") -> Freshness:
        """How a linked file is, compared with when the memory was written.

        `seen` is the fingerprint it had then, if that is known; then nothing else matters.
        """
        place = self._find(target)
        if place is None:
            return Freshness("")
        if place.status is None:
            return self._check_missing(target, place.path, was_seen=bool(seen))
        is_fresh: bool | None = None
        content = "" if seen == THERE else seen
        if stat.S_ISDIR(place.status.st_mode):
            is_fresh = not content
        elif place.is_file:
            blobs = self._blobs_at(place)
            if content and blobs:
                is_fresh = any(blob.startswith(content) for blob in blobs)
            elif not _is_after(place.status.st_mtime, written_at):
                is_fresh = True
            elif self._history is None:
                is_fresh = False
            elif blobs and (then := self._history.blob_at(place.path, written_at)) is not None:
                is_fresh = then in blobs
        return Freshness("" if is_fresh is None else "fresh" if is_fresh else "changed")

    def _check_missing(self, target: str, path: str, *, was_seen: bool) -> Freshness:
        # Tell `src/auth.py` from `TCP/IP` and an idea, for which nobody needs to ask git.
        top, slash, _ = path.partition("/")
        is_path = target.endswith("/") or _ENDING.search(path) or (slash and self.has(top))
        if ":" in top or not (was_seen or is_path):
            return Freshness("")
        history = self._history
        now_at = history.follow(path) if history else path
        if now_at != path and self._is_shown(now_at):
            return Freshness("moved", now_at)
        was_there = was_seen or (history.had(path) if history else False)
        # `Node.js` is no file, for all one knows; `src/node.js` may be.
        is_planned = was_there is False and "/" in target
        return Freshness("gone" if was_there else "planned" if is_planned else "")

    def fingerprint(self, target: str, written_at: float | None = None) -> str:
        """A short hash of a linked file's content; empty where there is nothing.

        As it is now, or was when a memory from elsewhere was written, if the past is known: asked
        for once, it spares every search git.
        """
        place = self._find(target)
        if place is None:
            return ""
        is_now = place.status and (
            written_at is None or not _is_after(place.status.st_mtime, written_at)
        )
        if is_now:
            blob = next(iter(self._blobs_at(place)), None)
        elif written_at is not None and self._history:
            blob = self._history.blob_at(place.path, written_at)
        else:
            blob = None
        return blob[:FINGERPRINT] if blob else THERE if place.status else ""

    def targets_of(self, path: str, cwd: str) -> list[str]:
        """What a path given in a directory is called in links; nothing if it is outside.

        As it stands there, or as links name it: the first of the two that is there, else both.
        """
        path = path.strip()
        if not path or "\0" in path:
            return []
        whole = os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))
        real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
        inner = [os.path.relpath(each, self.root) for each in (whole, real)]
        paths = [each for each in inner if not _leaves(each)][:1]
        if not path.startswith(("/", "~")) and not _leaves(os.path.normpath(path)):
            paths.append(normalize_target(path))
        return [each for each in paths if self.has(each)][:1] or list(dict.fromkeys(paths))

    def has(self, path: str) -> bool:
        """Whether there is something at a path that links may name."""
        place = self._find(path)
        return place is not None and place.status is not None

    def _is_shown(self, path: str) -> bool:
        """Whether a path is that of a file, no link, that may be shown to a person."""
        place = self._resolve(path) if path.isprintable() else None
        return place is not None and place.is_file and place.path == path

    def _find(self, target: str) -> _Place | None:
        """What a target leads to, None for what is no path in the project."""
        place = self._resolve(target)
        bare = _LINE.sub("", target)
        if bare != target and (place is None or place.status is None):
            place = self._resolve(bare)
        return place

    def _resolve(self, target: str) -> _Place | None:
        """A path below the root with every link resolved, None for what leads elsewhere."""
        try:
            real = os.path.realpath(os.path.join(self.root, target))
            status = os.lstat(real)
        except (FileNotFoundError, NotADirectoryError):
            status = None
        except (OSError, ValueError):
            return None
        path = os.path.relpath(real, self.root)
        is_refused = path == "." or _leaves(path) or ".git" in path.lower().split("/")
        # What is still a link leads to itself.
        is_loop = status is not None and stat.S_ISLNK(status.st_mode)
        return None if is_refused or is_loop or target[:1] == "~" else _Place(path, status)

    def _blobs_at(self, place: _Place) -> list[str]:
        """Git's names for a file's content, as it is and with the line ends git would store."""
        if place.path not in self._blobs:
            contents = []
            if place.is_file and place.status and place.status.st_size <= LARGEST_FILE:
                with contextlib.suppress(OSError), open(f"{self.root}/{place.path}", "rb") as file:
                    data = file.read(LARGEST_FILE)
                    contents = [data, data.replace(b"\r\n", b"\n")]
            self._blobs[place.path] = [_blob(content) for content in dict.fromkeys(contents)]
        return self._blobs[place.path]

    @cached_property
    def _history(self) -> _History | None:
        """What git knows; None where there is no commit, so that dates are all there is."""
        from retain.bank.git import Repository  # subprocess, which a search without links spares

        repository = Repository.containing(self.root)
        history = _History(repository, self.root) if repository else None
        return history if history and history.is_born else None


class _Change(NamedTuple):
    """What one commit did to one file."""

    time: int
    status: str
    old: str
    new: str
    source: str
    path: str


class _History:
    """What git remembers of a project's files; nothing where it fails or hangs."""

    def __init__(self, repository: Repository, root: str) -> None:
        self._repository = repository
        inner = os.path.relpath(root, repository.root)
        self._prefix = "" if inner == "." else f"{inner}/"
        self._changes: dict[str, list[_Change]] = defaultdict(list)  # by both paths, newest first
        self._reach = float("inf")  # changes before this moment are not known
        self.is_born = True
        with contextlib.suppress(HistoryError):
            head = repository.ask("rev-parse", "--is-shallow-repository", "HEAD")
            self.is_born = not head.status
            is_shallow, _, commit = head.line.partition("\n")
            if self.is_born and is_shallow == "false" and len(commit) == len(_blob(b"")):
                within = ("--", *filter(None, [self._prefix]))
                log = repository.ask("log", *_LOG, *within)
                staged = repository.ask("diff-index", *_STAGED, *within)
                if not log.status and not staged.status:
                    self._parse(staged.out + log.out)

    def _parse(self, out: bytes) -> None:
        """Read the output of `log --raw -z`."""
        commits, when = 0, 0
        words = iter(out.split(b"\0"))
        for word in words:
            text = word.lstrip(b"\n").decode("ascii")
            if text.startswith(":"):
                # As many modes and objects as the commit has parents, and one more.
                *facts, status = text.lstrip(":").split(" ")
                names = [next(words, b"") for _ in range(2 if status[0] in "RC" else 1)]
                source, path = (
                    os.fsdecode(name).removeprefix(self._prefix) for name in (names[0], names[-1])
                )
                change = _Change(when, status[0], facts[len(facts) // 2], facts[-1], source, path)
                for name in {path, source} if status[0] == "R" else {path}:
                    self._changes[name].append(change)
            elif text:
                commits, when = commits + 1, int(text)
        self._reach = when if commits >= _MOST_COMMITS else 0.0

    def blob_at(self, path: str, written_at: float) -> str | None:
        """What was at a path at a time, empty if git had nothing, None if unknown."""
        moment = max(written_at, 0.0)
        if moment < self._reach:
            return None
        later = [each for each in self._changes.get(path, ()) if _is_after(each.time, moment)]
        if not later:
            return self._blob(path)
        # Not in git at that time: what was committed first is the nearest to what was seen.
        first = later[-1]
        return first.new if first.path == path and first.status in "ARC" else first.old

    def _blob(self, path: str) -> str:
        """What HEAD has at a path, or an empty string."""
        last = self._changes.get(path, [None])[0]
        return last.new if last and last.path == path and last.status != "D" else ""

    def follow(self, path: str) -> str:
        """Where a file that is gone was last, from one name to the next."""
        passed = {path}
        while changes := self._changes.get(path):
            if changes[0].source != path or changes[0].path in passed:
                break
            path = changes[0].path
            passed.add(path)
        return path

    def had(self, path: str) -> bool | None:
        """Whether anything was ever there, as far back as is looked; None if unknown."""
        if self._reach == float("inf"):
            return None
        if self._blob(path):
            # Git may have left out what HEAD has.
            sparse = self._repository.ask("config", "--type=bool", "core.sparseCheckout")
            return None if sparse.line == "true" else True
        return path in self._changes or any(name.startswith(f"{path}/") for name in self._changes)


def _is_after(moment: float, written_at: float) -> bool:
    """Whether something came after a memory, whose date may be any moment of its second."""
    is_whole = float(written_at).is_integer()
    return moment >= written_at + 1 if is_whole else moment > written_at


def _leaves(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _blob(data: bytes) -> str:
    """Git's name for a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
