"""Whether the files a memory speaks of are still what they were when it was written.

A file that has not been touched since is fresh, and one look at the disk tells. Else the content
decides: the fingerprint taken when the memory was written, or what git had at that time. Without
either, a later date is all there is to go by. A file that is gone is looked for where git saw it
go, and where the same content stands now. One of which neither git nor the memory ever saw
anything is planned: a memory may speak of what is still to be made.

What cannot be seen without a fingerprint: a change that keeps an old date (`cp -p`, `tar`), and a
merge of commits older than the memory. Work that was not committed until after the memory was
written counts as changed once only git remembers the dates, as in a clone.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import HistoryError
from retain.links import normal

if TYPE_CHECKING:
    from retain.git import Repository

__all__ = ["Freshness", "Project"]

LARGEST_FILE: Final = 5_000_000  # bytes read to take a fingerprint
FINGERPRINT: Final = 20  # hex digits
THERE: Final = "there"  # in place of one, for a folder and for what is too large to be read
LONGEST_TARGET: Final = 4096
MOST_COMMITS: Final = 5000  # looked through for changes
MOST_RENAMES: Final = 2000  # commits looked through for renames, which cost more
MOST_ENTRIES: Final = 20_000  # looked through for a moved file where there is no git
MOST_READ: Final = 50  # untracked files read to find one that was moved

_LINE: Final = re.compile(r"(?:#[^/]*|(?::[0-9]+(?:[-:,][0-9]+)*))$")
_ENDING: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9_+-]{0,9}$")
_SHA1_DIGITS: Final = 40
_LATEST: Final = 253402300799  # the last second of the year 9999

# What a repository's own settings could otherwise change in the output.
_PLAIN: Final = ("--raw", "-z", "--no-abbrev", "--no-color", "--no-ext-diff", "--no-textconv")
_LOG: Final = ("--format=%ct", "--no-follow", "--no-show-signature", "--no-notes")
_MERGES: Final = ("--no-relative", "--diff-merges=off")


class Freshness(NamedTuple):
    """How a linked file is now: fresh, changed, moved, gone, planned, or empty: nobody can tell."""

    state: str
    path: str  # as it is linked
    now_at: str = ""
    since: str = ""  # when it last changed, moved or went, as far as that is known


class _Found(NamedTuple):
    """A path in the project, links resolved, and what stands there if anything does."""

    path: str
    facts: os.stat_result | None


class _Change(NamedTuple):
    """What one commit did to one file; the newest commit is at position 0."""

    position: int
    time: int
    status: str
    old: str
    new: str
    source: str
    path: str


class _Log(NamedTuple):
    """A piece of history, newest first, and how far it goes."""

    changes: list[_Change]
    commits: int
    oldest: int


class Project:
    """The files around a bank as they are at one moment; make a new one for each search."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self._found: dict[str, _Found | None] = {}
        self._known_names: dict[str, list[str]] = {}

    def check(self, target: str, written_at: float, seen: str = "") -> Freshness:
        """Tell how a linked file is, compared with when the memory was written.

        `seen` is the fingerprint it had then, if that is known; then nothing else matters.
        """
        found = self._find(target)
        if found is None:
            return Freshness("", target)
        if found.facts is None:
            return self._missing(target, found.path, written_at, seen)
        touched = found.facts.st_mtime
        if stat.S_ISDIR(found.facts.st_mode):
            was_file = seen not in ("", THERE)
            return _changed(target, touched) if was_file else _fresh(target)
        if not stat.S_ISREG(found.facts.st_mode):
            return Freshness("", target)
        if seen not in ("", THERE) and (names := self._names(found)):
            is_same = any(name.startswith(seen) for name in names)
            return _fresh(target) if is_same else _changed(target, touched)
        return self._by_date(target, found, written_at, touched)

    def fingerprint(self, target: str) -> str:
        """A short hash of a linked file's content now; empty where there is nothing."""
        found = self._find(target)
        if found is None or found.facts is None:
            return ""
        # As git names contents, so that they can be looked up in git's own listings.
        names = self._names(found)
        return names[0][:FINGERPRINT] if names else THERE

    def fingerprint_at(self, target: str, written_at: float) -> str:
        """The fingerprint a linked file had when a memory was written, if the past is known.

        For memories that come from elsewhere: asked for once, it spares every search git.
        """
        found = self._find(target)
        if found is None:
            return ""
        if found.facts and not _is_after(found.facts.st_mtime, written_at):
            return self.fingerprint(target)
        blob = self._history.blob_at(found.path, written_at) if self._history else None
        # In a repository of SHA-256 names they are not to be compared with ours.
        if blob and len(blob) == _SHA1_DIGITS:
            return blob[:FINGERPRINT]
        return THERE if blob or found.facts else ""

    def meant(self, path: str, cwd: str) -> list[str]:
        """What a path given in a directory means here, as links name it; nothing if outside.

        As it stands there, or as links name it: the first of the two that is there, else both.
        """
        given = path.strip()
        whole = os.path.expanduser(given) if given.startswith("~") else given
        here = self._inside(os.path.join(cwd, whole)) if given else ""
        is_elsewhere = whole.startswith("/") or _leaves(os.path.normpath(given))
        found = [one for one in (here, "" if is_elsewhere else normal(given)) if one]
        return [one for one in found if self.has(one)][:1] or list(dict.fromkeys(found))

    def has(self, path: str) -> bool:
        """Whether there is something at a path that links may name."""
        found = self._find(path)
        return found is not None and found.facts is not None

    def _inside(self, path: str) -> str:
        """A whole path as seen from the root, empty for one that is elsewhere."""
        plain = os.path.normpath(path)
        if "\0" in plain:
            return ""
        real = os.path.join(os.path.realpath(os.path.dirname(plain)), os.path.basename(plain))
        for one in (plain, real):
            inside = os.path.relpath(one, self.root)
            if not _leaves(inside):
                return inside
        return ""

    # Where a target leads

    def _find(self, target: str) -> _Found | None:
        """Return what a target leads to, None for what is no path in the project."""
        if target not in self._found:
            found = self._walk(_steps(target))
            bare = _LINE.sub("", target)
            if bare != target and (found is None or found.facts is None):
                found = self._walk(_steps(bare))
            self._found[target] = found
        return self._found[target]

    def _walk(self, steps: list[str], *, is_real: bool = False) -> _Found | None:
        """Go down step by step, so that no link leads out unseen."""
        here, facts = self.root, None
        try:
            for step in steps:
                here = f"{here}/{step}"
                facts = os.lstat(here)
                if stat.S_ISLNK(facts.st_mode):
                    return None if is_real else self._resolve(steps)
        except (FileNotFoundError, NotADirectoryError):
            return _Found("/".join(steps), None)
        except (OSError, ValueError):
            return None
        return _Found("/".join(steps), facts) if facts else None

    def _resolve(self, steps: list[str]) -> _Found | None:
        real = os.path.realpath(os.path.join(self.root, *steps))
        # What is outside keeps its slash in front. Links that go in a circle stay as they are.
        inside = _steps(real.removeprefix(os.path.join(self.root, "")))
        return self._walk(inside, is_real=True)

    def _is_file(self, path: str) -> bool:
        """Tell whether a path that git names is a file here that may be shown to a person."""
        found = self._walk(_steps(path), is_real=True) if path.isprintable() else None
        return bool(found and found.facts and stat.S_ISREG(found.facts.st_mode))

    def _content(self, found: _Found | None) -> bytes | None:
        if found is None or found.facts is None:
            return None
        return _read(f"{self.root}/{found.path}", found.facts)

    def _names(self, found: _Found) -> list[str]:
        """Return git's names for a file's content, none for one that cannot be read."""
        if found.path not in self._known_names:
            data = self._content(found)
            self._known_names[found.path] = [] if data is None else _blob_names(data)
        return self._known_names[found.path]

    # Files that are there

    @cached_property
    def _history(self) -> _History | None:
        from retain.git import Repository

        repository = Repository.containing(self.root)
        return _History(repository, self.root) if repository else None

    def _by_date(self, target: str, found: _Found, written_at: float, touched: float) -> Freshness:
        if not _is_after(touched, written_at):
            return _fresh(target)
        if self._history is None:
            return _changed(target, touched)
        return self._compared(target, found, written_at, self._history)

    def _compared(self, target: str, found: _Found, written_at: float, git: _History) -> Freshness:
        """Compare a file with what git had when the memory was written."""
        then = git.blob_at(found.path, written_at)
        last = git.last_change(found.path, written_at)
        now = self._now(found, git, len(then or ""))
        if not now:
            return _changed(target, last.time) if last else Freshness("", target)
        if then is None or then in now:
            return Freshness("" if then is None else "fresh", target)
        if last and (last.new in now or not found.facts):
            return _changed(target, last.time)
        return _changed(target, found.facts.st_mtime if found.facts else 0.0)

    def _now(self, found: _Found, git: _History, digits: int) -> list[str]:
        """Return git's names for what a file is now; one left out of the work tree is HEAD's."""
        if found.facts is None:
            return [git.blob(found.path)]
        data = self._content(found)
        return [] if data is None else _blob_names(data, digits)

    # Files that are not there

    def _missing(self, target: str, path: str, written_at: float, seen: str) -> Freshness:
        if not seen and not self._may_be_file(target, path):
            return Freshness("", target)
        git = self._history
        content = "" if seen == THERE else seen
        if git is None:
            now_at = self._same_name(path, content) if content else ""
            return _lost(target, now_at, was_there=bool(seen))
        head = git.blob(path)
        if head and git.is_left_out(path):
            return self._compared(target, _Found(path, None), written_at, git)
        last = None if head else git.follow(path, self._is_file)
        at = last.path if last else path
        since = _iso(last.time) if last else ""
        if at != path and self._is_file(at):
            return Freshness("moved", target, at, since)
        blob = git.blob(at) or (last.old if last else "")
        now_at = git.renamed_to(at)
        if not self._is_file(now_at):
            now_at = self._same_content(git, path, (blob, content))
        was_there = True if now_at or blob or seen else git.had(path)
        return _lost(target, now_at, was_there=was_there, since=since)

    def _may_be_file(self, target: str, path: str) -> bool:
        """Tell `src/auth.py` from `TCP/IP` and an idea, for which nobody needs to ask git."""
        top, slash, _ = path.partition("/")
        if ":" in top:
            return False
        if target.endswith("/") or _ENDING.search(path):
            return True
        above = self._walk([top]) if slash else None
        return above is not None and above.facts is not None

    def _same_content(self, git: _History, path: str, wanted: Iterable[str]) -> str:
        """Return the one other place where the content of a file is now, if there is one."""
        name = os.path.basename(path)
        for content in filter(_is_telling, wanted):
            found = [one for one in git.holding(content) if self._is_file(one)]
            if not found:
                untracked = sorted(git.untracked, key=lambda one: os.path.basename(one) != name)
                found = self._holding(content, untracked[:MOST_READ])
            if where := _only(found, name):
                return where
        return ""

    def _holding(self, content: str, places: Iterable[str]) -> list[str]:
        return [one for one in places if self._is_file(one) and self._holds(one, content)]

    def _same_name(self, path: str, seen: str) -> str:
        name = os.path.basename(path)
        places = self._files_by_name.get(name, ()) if _is_telling(seen) else ()
        return _only(self._holding(seen, places), name)

    def _holds(self, path: str, content: str) -> bool:
        data = self._content(self._walk(_steps(path), is_real=True))
        return data is not None and _blob_name(data, len(content)).startswith(content)

    @cached_property
    def _files_by_name(self) -> dict[str, list[str]]:
        """The project's files by their names, as far as a short walk gets."""
        files: dict[str, list[str]] = {}
        left = MOST_ENTRIES
        for folder, folders, names in os.walk(self.root):
            left -= len(folders) + len(names)
            if left < 0:
                break
            folders[:] = sorted(one for one in folders if not one.startswith("."))
            inside = os.path.relpath(folder, self.root)
            for name in names:
                files.setdefault(name, []).append(os.path.normpath(os.path.join(inside, name)))
        return files


class _History:
    """What git remembers of a project's files: a few listings, each asked for once."""

    def __init__(self, repository: Repository, root: str) -> None:
        self._repository = repository
        inside = os.path.relpath(root, repository.root)
        self._prefix = "" if inside == "." else f"{inside}/"
        self._changes: dict[str, list[_Change]] = {}
        self._reach = float("inf")
        self._is_at_end = False
        self._is_silent = False
        self._is_unread = False

    def after(self, path: str, written_at: float) -> list[_Change] | None:
        """Return what commits did to a file later than this, newest first; None if unknown."""
        written_at = max(written_at, 0.0)
        if written_at < self._reach and not self._is_at_end:
            self._look_back(written_at)
        if written_at < self._reach:
            return None
        changes = self._changes.get(path, ())
        return [change for change in changes if _is_after(change.time, written_at)]

    def last_change(self, path: str, written_at: float) -> _Change | None:
        changes = self.after(path, written_at)
        return changes[0] if changes else None

    def blob_at(self, path: str, written_at: float) -> str | None:
        """Return what was at a path at a time, empty if git had nothing, None if unknown."""
        changes = self.after(path, written_at)
        if not changes:
            blob = "" if changes is None else self.blob(path)
            is_known = blob or not (changes is None or self._is_silent or self._is_nested(path))
            return blob if is_known else None
        first = changes[-1]
        if first.status != "A":
            return first.old
        # Not in git at that time: what was committed first is the nearest to what was seen.
        return None if self._is_shallow else first.new

    def _look_back(self, written_at: float) -> None:
        # Twice as far as asked: the next memory may be older, and each look is a process.
        reach = max(0, int(min(2 * written_at - time.time(), written_at, _LATEST)))
        limits = (f"--max-count={MOST_COMMITS}", f"--max-age={reach}")
        out = self._log("--no-renames", *limits)
        if out is None:
            self._is_at_end = True
            return
        log = self._parsed(out)
        self._changes = {}
        for change in log.changes:
            self._changes.setdefault(change.path, []).append(change)
        self._is_at_end = log.commits >= MOST_COMMITS
        self._reach = log.oldest if self._is_at_end else reach

    def follow(self, path: str, is_there: Callable[[str], bool]) -> _Change | None:
        """Return the last that commits did to a file that is gone, from one name to the next."""
        last, at = None, path
        while change := self._left.get(at):
            # A name can be used again: only what happened later belongs to this file.
            if last and change.position >= last.position:
                break
            last, at = change, change.path
            if change.status == "D" or is_there(at):
                break
        return last

    @cached_property
    def _left(self) -> dict[str, _Change]:
        """How each path that commits took away went, the last time."""
        out = self._with_renames(lambda *how: self._log(*how, f"--max-count={MOST_RENAMES}"))
        self._is_unread = out is None
        left: dict[str, _Change] = {}
        for change in self._parsed(out or b"").changes:
            if change.status in ("D", "R"):
                left.setdefault(change.source, change)
        return left

    def had(self, path: str) -> bool | None:
        """Tell whether anything was ever there, as far back as is looked; None if unknown."""
        name = self._name(path)
        if _facts(self._index, name) or b"\t%b/" % name in self._index:
            return True
        if path in self._left or path in self._left_folders:
            return True
        # In a history that was cut off, or cannot be read, a file may have come and gone.
        is_unknown = self._is_silent or self._is_unread or self._is_shallow
        return None if is_unknown else False

    @cached_property
    def _left_folders(self) -> set[str]:
        """The folders that had something in them that commits took away."""
        folders: set[str] = set()
        for path in self._left:
            above = os.path.dirname(path)
            while above and above not in folders:
                folders.add(above)
                above = os.path.dirname(above)
        return folders

    def _with_renames(self, ask: Callable[..., bytes | None]) -> bytes | None:
        # A partial clone lacks contents, and then only those that stayed the same can be paired.
        out = ask("--find-renames", "-l100")
        return ask("--find-renames=100%") if out is None else out

    def blob(self, path: str) -> str:
        """Return what HEAD has at a path, or an empty string."""
        # The index and its difference from HEAD, since to list HEAD is to unpack all of it, and
        # a hostile tree of a few kilobytes can hold more names than any disk.
        if self._staged is None:
            return ""
        if change := self._staged.get(path):
            return change.old
        facts = _facts(self._index, self._name(path))
        return facts[2] if facts and path not in self._added else ""

    def renamed_to(self, path: str) -> str:
        """Return the new name of a file whose rename is in the index and in no commit yet."""
        change = self._staged.get(path) if self._staged else None
        return change.path if change and change.status == "R" else ""

    def is_left_out(self, path: str) -> bool:
        """Tell whether a file is in the repository and left out of the work tree on purpose."""
        return _facts(self._index, self._name(path))[:1] == ["S"]

    def _is_nested(self, path: str) -> bool:
        # A listing of files has a folder's name only where another repository begins.
        parts = path.split("/")
        return any(self.blob("/".join(parts[:depth])) for depth in range(1, len(parts)))

    @cached_property
    def _index(self) -> bytes:
        return self._ask("ls-files", "-z", "-t", "--stage") or b""

    @cached_property
    def _uncommitted(self) -> list[_Change] | None:
        """What is staged, None without a commit to compare it with."""
        how = (*_PLAIN, "--no-relative", "HEAD")
        out = self._with_renames(lambda *way: self._ask("diff-index", "--cached", *way, *how))
        return None if out is None else self._parsed(out).changes

    @cached_property
    def _staged(self) -> dict[str, _Change] | None:
        """The staged changes of what HEAD has, None without a HEAD."""
        if self._uncommitted is None:
            return None
        return {one.source: one for one in self._uncommitted if one.status in "MTDR"}

    @cached_property
    def _added(self) -> set[str]:
        """The paths that are in the index and not in HEAD."""
        return {one.path for one in self._uncommitted or () if one.status not in "MTD"}

    def holding(self, content: str) -> list[str]:
        """Return the tracked files with just this content, by the start of its name."""
        needle = f" {content}".encode()
        return [
            self._inside(path)
            for record in self._index.split(b"\0")
            if needle in record
            for facts, _, path in [record.partition(b"\t")]
            if needle in facts
        ]

    @cached_property
    def untracked(self) -> list[str]:
        """The files that are neither in the index nor ignored."""
        out = self._ask("ls-files", "-z", "--others", "--exclude-standard") or b""
        return [self._inside(name) for name in out.split(b"\0") if name]

    @cached_property
    def _is_shallow(self) -> bool:
        """Whether history was cut off, so that a file's first commit here need not be its first."""
        out = self._ask("rev-parse", "--is-shallow-repository") or b""
        return not out.startswith(b"false\n")

    def _log(self, *how: str) -> bytes | None:
        out = self._ask("log", *how, *_PLAIN, *_LOG, *_MERGES, "--end-of-options", "HEAD")
        return b"" if out is None and self._is_unborn else out

    @cached_property
    def _is_unborn(self) -> bool:
        try:
            return not self._is_silent and not self._repository.head().commit
        except HistoryError:
            return False

    def _ask(self, *arguments: str) -> bytes | None:
        """Return what git says about the project, None when it fails; one that hangs is left."""
        if self._is_silent:
            return None
        within = (self._prefix,) if self._prefix else ()
        try:
            # The dashes also tell HEAD from a file of that name.
            answer = self._repository.ask(*arguments, "--", *within)
        except HistoryError:
            self._is_silent = True
            return None
        return None if answer.status else answer.out

    def _name(self, path: str) -> bytes:
        return os.fsencode(self._prefix + path)

    def _inside(self, name: bytes) -> str:
        return os.fsdecode(name).removeprefix(self._prefix)

    def _parsed(self, out: bytes) -> _Log:
        """Read the output of `log --raw -z` or `diff-index --raw -z`."""
        changes: list[_Change] = []
        commits, when = 0, 0
        words = iter(out.split(b"\0"))
        for word in words:
            text = word.lstrip(b"\n")
            if text.startswith(b":"):
                _, _, old, new, status = text.decode("ascii").split(" ")
                source = self._inside(next(words, b""))
                path = self._inside(next(words, b"")) if status[0] in "RC" else source
                changes.append(_Change(commits, when, status[0], old, new, source, path))
            elif text:
                commits, when = commits + 1, int(text)
        return _Log(changes, commits, when)


def _fresh(target: str) -> Freshness:
    return Freshness("fresh", target)


def _changed(target: str, moment: float) -> Freshness:
    return Freshness("changed", target, since=_iso(moment))


def _lost(target: str, now_at: str, *, was_there: bool | None, since: str = "") -> Freshness:
    """Say what became of a file; `Node.js` is none, for all one knows, `src/node.js` may be."""
    if now_at:
        return Freshness("moved", target, now_at, since)
    if was_there:
        return Freshness("gone", target, since=since)
    is_planned = was_there is not None and "/" in target
    return Freshness("planned" if is_planned else "", target)


def _read(path: str, facts: os.stat_result) -> bytes | None:
    """Return the content of the very file that was looked at, None if it cannot be had."""
    if not stat.S_ISREG(facts.st_mode) or facts.st_size > LARGEST_FILE:
        return None
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        now = os.fstat(fd)
        # Another file, if a folder above became a link to elsewhere meanwhile.
        if (now.st_dev, now.st_ino) != (facts.st_dev, facts.st_ino):
            return None
        return os.read(fd, min(now.st_size, LARGEST_FILE))
    except OSError:
        return None
    finally:
        os.close(fd)


def _iso(moment: float) -> str:
    seconds = min(max(int(moment), 0), _LATEST)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _is_after(moment: float, written_at: float) -> bool:
    """Tell whether something came after a memory, whose date may be any moment of its second."""
    is_whole = float(written_at).is_integer()
    return moment >= written_at + 1 if is_whole else moment > written_at


def _leaves(path: str) -> bool:
    return path == ".." or path.startswith("../")


def _steps(target: str) -> list[str]:
    """Return a target as names below the project's root, none for what leads elsewhere."""
    if len(target) > LONGEST_TARGET or target.startswith(("/", "~")):
        return []
    steps = [step for step in target.removesuffix("/").split("/") if step != "."]
    if any(step in ("", "..") or step.lower() == ".git" for step in steps):
        return []
    return steps


def _facts(listing: bytes, name: bytes) -> list[str]:
    """Return what a listing of git's says of a path, without taking all of it apart."""
    at = -1
    while (at := listing.find(b"\t%b\0" % name, at + 1)) >= 0:
        facts = listing[listing.rfind(b"\0", 0, at) + 1 : at]
        # A name may hold a tab, and then its end looks like another name.
        if b"\t" not in facts:
            return facts.decode("ascii").split(" ")
    return []


def _blob_names(data: bytes, digits: int = _SHA1_DIGITS) -> list[str]:
    """Return git's name for a content, and for the same with the line ends git would store."""
    contents = [data, data.replace(b"\r\n", b"\n")] if b"\r\n" in data else [data]
    return [_blob_name(content, digits) for content in contents]


def _blob_name(data: bytes, digits: int) -> str:
    import hashlib

    kind = "sha256" if digits == 64 else "sha1"
    made = hashlib.new(kind, b"blob %d\0" % len(data), usedforsecurity=False)
    made.update(data)
    return made.hexdigest()


def _is_telling(content: str) -> bool:
    """Tell whether a content names a file; an empty one is like any other."""
    return bool(content) and not _blob_name(b"", len(content)).startswith(content)


def _only(places: list[str], name: str) -> str:
    """Return the one place, or the one of the same name; of several nobody can tell."""
    best = [one for one in places if os.path.basename(one) == name] or places
    return best[0] if len(best) == 1 else ""
