"""Git, and the only place that starts it: history read, commits made beside the user's work.

A repository is written by strangers, so nothing in its configuration may start a process: every
command runs from an absolute path with a scrubbed environment, no terminal, no hooks, no filters,
no network and a deadline. Commits go through `git fast-import`, which looks at no work tree and no
index, so staged work is never part of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from retain.bank.files import Directory, locked
from retain.errors import HistoryError, RetainError

TIMEOUT_SECONDS: Final = 10.0
LARGEST_BLOB: Final = 64 * 1024 * 1024
LONGEST_REVISION: Final = 250
LONGEST_MESSAGE: Final = 16_000
MOST_PATHS: Final = 100  # of 4 kB each: they fit a command line
INDEX_TRIES: Final = 5
SAVED: Final = "the file is saved and will be committed with its next change"

_YES_OR_NO: Final = (0, 1)  # any other status, also that of a killed process, is a failure
_FILE_MODES: Final = ("100644", "100755")
_LATEST: Final = 253402300799  # the last second of the year 9999
_NOBODY: Final = b"Retain <retain@localhost>"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_BUT_NEWLINE: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_NOT_IN_PATHS: Final = re.compile(r"[\0\ud800-\udc7f\udd00-\udfff]")
_FULL_HASH: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")

# The command line is the last word in git's configuration, so these win over the repository's own.
# A split index would leave its shared half in the git directory.
_SETTINGS: Final = """
core.hooksPath=/dev/null core.fsmonitor=false core.pager=cat core.editor=false core.askPass=
core.sshCommand=false core.gitProxy=none core.alternateRefsCommand=false core.quotePath=false
core.splitIndex=false core.untrackedCache=keep credential.helper= protocol.allow=never
safe.bareRepository=explicit submodule.recurse=false commit.gpgSign=false gpg.program=false
log.showSignature=false log.showRoot=true diff.external= diff.orderFile=/dev/null
i18n.commitEncoding=UTF-8 i18n.logOutputEncoding=UTF-8 user.useConfigOnly=true gc.auto=0
maintenance.auto=false
""".split()

# protocol.allow alone loses to a hostile protocol.<name>.allow; an empty list loses to nothing.
_VARIABLES: Final = dict(
    pair.split("=")
    for pair in """
LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_LITERAL_PATHSPECS=1
GIT_ALLOW_PROTOCOL= GIT_TRACE2=0 GIT_TRACE2_EVENT=0 GIT_TRACE2_PERF=0
""".split()
)

# Three NULs cannot come from an author, a subject or a path, and so they part the records.
_LOG: Final = """
--no-ext-diff --no-textconv --no-color --no-notes --no-mailmap --no-show-signature
--no-relative --diff-filter=d --diff-merges=off --encoding=UTF-8 -z --name-only
--format=%x00%x00H%H%x00%at%x00%an%x00%s
""".split()

# A file in the git directory tells what is under way without starting a process.
_UNDER_WAY: Final = {
    "rebase-merge": "a rebase is under way",
    "rebase-apply": "a rebase or a patch series is under way",
    "MERGE_HEAD": "a merge is under way",
    "CHERRY_PICK_HEAD": "a cherry-pick is under way",
    "REVERT_HEAD": "a revert is under way",
    "sequencer": "a cherry-pick or a revert is under way",
    "BISECT_LOG": "a bisect is under way",
}

# An entry of a tree or an index by its path: its mode and object, parted by a space.
_Entries = dict[str, str]


class Answer(NamedTuple):
    """What a git process leaves behind."""

    status: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        return os.fsdecode(self.out).rstrip("\n")


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


def run(
    arguments: Iterable[str],
    directory: str,
    stdin: bytes = b"",
    variables: Mapping[str, str] | None = None,
) -> Answer:
    """Run one git command and return what it says."""
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    kept.pop("SSH_ASKPASS", None)
    # A relative entry of PATH could name a file in the work tree.
    program = shutil.which("git", path=":".join(filter(os.path.isabs, os.get_exec_path())))
    if program is None:
        raise HistoryError("git is not installed", hint="install git 2.31 or later")
    try:
        done = subprocess.run(
            [program, "--no-pager", *settings, *arguments],
            cwd=directory,
            env=kept | _VARIABLES | dict(variables or {}),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
            start_new_session=True,  # without a terminal to prompt on
        )
    except subprocess.TimeoutExpired as error:
        raise HistoryError(f"git did not answer within {TIMEOUT_SECONDS:g} s") from error
    except (OSError, ValueError) as error:
        raise HistoryError(f"git could not be started: {error}") from error
    return Answer(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def _failure(what: str, answer: Answer) -> HistoryError:
    last = answer.err.strip().rpartition("\n")[2]
    return HistoryError(f"{what}: {_printable(last)}" if last else what)


def _printable(text: str) -> str:
    """Text that is safe in a message: no control characters, no broken encoding."""
    return _CONTROL.sub("?", text.encode("utf-8", "replace").decode())


class Repository:
    """A work tree and its git directory."""

    def __init__(self, root: str, git_dir: str, algorithm: str) -> None:
        self.root = root
        self.git_dir = git_dir
        self._algorithm = algorithm

    @classmethod
    def containing(cls, directory: str) -> Repository | None:
        """The repository whose work tree holds the directory, or None without any fuss."""
        try:
            directory = above = os.path.realpath(directory)
            while not os.path.lexists(os.path.join(above, ".git")):
                above, below = os.path.dirname(above), above
                if above == below:
                    return None  # and no process was started
            question = ("--show-toplevel", "--git-dir", "--show-object-format")
            answer = run(("rev-parse", "--path-format=absolute", *question), above)
        except (HistoryError, OSError, ValueError):
            return None
        lines = answer.line.split("\n")
        # A git older than 2.31 echoes --path-format as one more line, and so shows its age.
        if answer.status or len(lines) != len(question):
            return None
        root, git_dir = os.path.realpath(lines[0]), os.path.realpath(lines[1])
        # core.worktree can name any place at all; only a tree around the directory is of use.
        inside = [os.path.commonpath((directory, place)) == place for place in (root, git_dir)]
        return cls(root, lines[1], lines[2]) if inside == [True, False] else None

    def relative(self, path: str) -> str:
        """An absolute path as a path in the work tree."""
        folder, name = os.path.split(path)
        inner = ""
        if os.path.isabs(path) and not _NOT_IN_PATHS.search(path):
            # Only the folder is resolved: the file itself may be a link.
            inner = os.path.relpath(os.path.join(os.path.realpath(folder), name), self.root)
        parts = inner.lower().split("/")
        if name in ("", ".", "..") or parts[0] in ("", ".", "..") or ".git" in parts:
            raise HistoryError(f"{_printable(path)} is not a file of the work tree {self.root}")
        return inner

    def ask(self, *arguments: str) -> Answer:
        """Run a command in the work tree; its status is the caller's to judge."""
        return run(arguments, self.root)

    def _tell(self, *arguments: str) -> Answer:
        answer = self.ask(*arguments)
        if answer.status:
            raise _failure(f"git {arguments[0]} failed", answer)
        return answer

    # History

    def head(self) -> str:
        """The commit that HEAD names, empty while its branch is unborn."""
        # Not peeled to ^{commit}: a branch whose commit is missing is broken, not unborn.
        answer = self.ask("rev-parse", "--verify", "--quiet", "HEAD")
        return "" if answer.status else answer.line

    def log(self, path: str, limit: int = 0) -> list[Commit]:
        """The commits that gave a file its texts, newest first, through its renames."""
        inner = self.relative(path)
        count = (f"--max-count={limit}",) if limit > 0 else ()
        # Renames need file contents, which a partial clone may lack: then history without them.
        for renames in ("--follow", "--no-renames"):
            answer = self.ask(
                "log", renames, *_LOG, *count, "--end-of-options", "HEAD", "--", inner
            )
            if not answer.status:
                return _parse_log(answer.out, inner)
        if not self.head():
            return []
        raise _failure("git could not list the history", answer)

    def resolve(self, revision: str) -> str:
        """The full hash of the commit a revision names."""
        hint = "list the versions with `retain versions ID`"
        is_fit = revision.isprintable() and 0 < len(revision) <= LONGEST_REVISION
        if not is_fit or revision[0] == "-":
            raise HistoryError(f"not a version: {_printable(revision[:80])}", hint=hint)
        name = f"{revision}^{{commit}}"
        answer = self.ask("rev-parse", "--verify", "--quiet", "--end-of-options", name)
        # `^HEAD` resolves too, to something that is no hash.
        if answer.status or not _FULL_HASH.fullmatch(answer.line):
            raise HistoryError(f"no such version: {_printable(revision)}", hint=hint)
        return answer.line

    def read(self, commit: str, path: str) -> bytes | None:
        """A file's bytes at a commit (its full hash), under the name it had then, or None."""
        names = (entry.path for entry in self.log(path) if entry.hash == commit)
        inner = next(names, self.relative(path))
        answer = self._tell("ls-tree", "-z", "--long", commit, "--", inner)
        for (mode, _, blob, size), _ in _records(answer.out):
            if mode in _FILE_MODES:
                # A few kilobytes of a hostile repository can unpack to gigabytes.
                if int(size) > LARGEST_BLOB:
                    raise HistoryError(f"{_printable(inner)} is too large in git: {size} bytes")
                return self._tell("cat-file", "blob", blob).out
        return None

    def is_tracked(self, path: str) -> bool:
        """Whether HEAD has a file."""
        return not self.ask("cat-file", "-e", f"HEAD:{self.relative(path)}").status

    def _entries(self, commit: str, paths: Collection[str]) -> _Entries:
        """The files that a commit holds at these paths."""
        if not commit:
            return {}
        few = paths if len(paths) <= MOST_PATHS else ()  # none asks for everything
        answer = self._tell("ls-tree", "-z", *([] if few else ["-r"]), commit, "--", *few)
        entries = {path: f"{mode} {name}" for (mode, _, name), path in _records(answer.out)}
        return {path: entry for path, entry in entries.items() if entry[0] == "1"}

    def _staged(self, paths: Collection[str]) -> _Entries:
        """What the user's index holds at these paths."""
        few = paths if len(paths) <= MOST_PATHS else ()
        answer = self._tell("ls-files", "-z", "--stage", "--", *few)
        return {
            path: f"{mode} {name}" if stage == "0" else "unmerged"
            for (mode, name, stage), path in _records(answer.out)
        }

    # Commits

    def commit(self, changes: Mapping[str, bytes | None], message: str) -> Outcome:
        """Commit just these files, with nothing of the user's staged work, or say why not."""
        text = message.replace("\r\n", "\n").replace("\t", " ").encode("utf-8", "replace").decode()
        text = _CONTROL_BUT_NEWLINE.sub("", text).strip()[:LONGEST_MESSAGE] or "Update memories"
        try:
            wanted = {self.relative(path): content for path, content in changes.items()}
            for name, reason in _UNDER_WAY.items():
                if os.path.lexists(os.path.join(self.git_dir, name)):
                    return _postpone(reason)
            with Directory.open(os.path.realpath(self.git_dir)) as folder, locked(folder):
                return self._commit(wanted, f"{text}\n".encode())
        except RetainError as error:
            return _postpone(error.message)
        except OSError as error:
            return _postpone(f"{error.strerror or error} in {_printable(self.git_dir)}")

    def _commit(self, wanted: Mapping[str, bytes | None], message: bytes) -> Outcome:
        if self.ask("symbolic-ref", "--quiet", "HEAD").status == 1:
            return _postpone("HEAD is detached")
        if os.path.lexists(os.path.join(self.git_dir, "index.lock")):
            # With an index that lacks it, the user's next commit would take the memory out again.
            return _postpone("git's index is locked")
        ignored = self._find_ignored([path for path in wanted if wanted[path] is not None])
        note = ""
        if ignored:
            note = f"not committed: .gitignore excludes {_list_some(ignored)}; "
            note += "the file is saved on disk only"
        parent = self.head()
        before = self._entries(parent, wanted)
        after: _Entries = {}  # what will differ; an empty entry is to be removed
        for path in wanted.keys() - ignored:
            content, old, new = wanted[path], before.get(path, ""), ""
            if content is not None:
                mode = old.partition(" ")[0]
                blob = b"blob %d\0%b" % (len(content), content)
                name = hashlib.new(self._algorithm, blob, usedforsecurity=False).hexdigest()
                new = f"{mode if mode in _FILE_MODES else _FILE_MODES[0]} {name}"
            if new != old:
                after[path] = new
        if not after:
            return Outcome(None, note)
        commit = self._import(parent, after, wanted, message)
        if not commit:
            return _postpone("the branch has moved meanwhile")
        notes = (note, self._refresh_index(before, after))
        return Outcome(commit, "; ".join(filter(None, notes)))

    def _find_ignored(self, paths: Sequence[str]) -> set[str]:
        if not paths:
            return set()
        # This command alone refuses literal paths; a leading ./ keeps :(magic) out.
        stdin = b"".join(b"./%b\0" % os.fsencode(path) for path in paths)
        question = ("check-ignore", "-z", "--stdin")
        answer = run(question, self.root, stdin, {"GIT_LITERAL_PATHSPECS": "0"})
        if answer.status not in _YES_OR_NO:
            raise _failure("git could not read the ignore rules", answer)
        names = filter(None, answer.out.split(b"\0"))
        return {os.fsdecode(name.removeprefix(b"./")) for name in names}

    def _import(
        self, parent: str, edits: _Entries, contents: Mapping[str, bytes | None], message: bytes
    ) -> str:
        """Commit edits on top of `parent`; the new hash, or nothing if the branch has moved."""
        # user.useConfigOnly makes git refuse to guess an identity, which costs nothing to find out.
        answer = self.ask("var", "GIT_AUTHOR_IDENT")
        who = b"%b %d +0000" % (_NOBODY, time.time()) if answer.status else answer.out.strip()
        # HEAD, not the branch's name: a branch switched to meanwhile at this commit is right too.
        lines = [b"commit HEAD\nmark :1\ncommitter %b\n" % who]
        lines.append(b"data %d\n%b\n" % (len(message), message))
        lines += [f"from {parent}\n".encode()] if parent else []
        for path, entry in edits.items():
            text = os.fsencode(path).replace(b"\\", b"\\\\").replace(b'"', b'\\"')
            quoted = b'"%b"' % text.replace(b"\n", b"\\n")
            content = contents[path]
            if content is None:
                lines.append(b"D %b\n" % quoted)
            else:
                lines.append(b"M %b inline %b\n" % (entry.partition(" ")[0].encode(), quoted))
                lines.append(b"data %d\n%b\n" % (len(content), content))
        lines.append(b"\nget-mark :1\n")
        answer = run(("fast-import", "--quiet"), self.root, b"".join(lines))
        if answer.status not in _YES_OR_NO:
            raise _failure("git fast-import failed", answer)
        return "" if answer.status else answer.line

    def _refresh_index(self, before: _Entries, after: _Entries) -> str:
        """Bring the user's index up to date where nothing is staged, or say what to run."""
        with contextlib.suppress(HistoryError, OSError):
            for _ in range(INDEX_TRIES):  # an editor's `git status` may hold the index's lock
                staged = self._staged(after)
                same = {path for path in after if staged.get(path, "") == before.get(path, "")}
                if not same or self._edit_index({path: after[path] for path in same}):
                    theirs = {path for path in after if staged.get(path, "") != after[path]} - same
                    note = f"committed, but other content of {_list_some(theirs)} is staged and "
                    note += "was left alone: the next `git commit` brings it back unless you run "
                    return f"{note}{_reset(theirs)}" if theirs else ""
                time.sleep(0.1)
        return (
            f"committed, but git's index is locked or broken: run {_reset(after)} when it is free"
        )

    def _edit_index(self, edits: _Entries) -> bool:
        """Set entries of the user's index, unless it is locked."""
        index = os.path.join(self.git_dir, "index")
        facts = os.stat(index) if os.path.exists(index) else None
        nothing = f"0 {'0' * hashlib.new(self._algorithm).digest_size * 2}"  # mode 0 removes
        stdin = b"".join(
            b"%b\t%b\0" % ((entry or nothing).encode(), os.fsencode(path))
            for path, entry in edits.items()
        )
        # Whoever writes an index looks again at files changed a moment ago, through their filters:
        # commands of the repository's choice. In an empty work tree there is nothing to look at.
        with tempfile.TemporaryDirectory() as empty:
            places = {"GIT_DIR": self.git_dir, "GIT_WORK_TREE": empty}
            answer = run(("update-index", "-z", "--index-info"), empty, stdin, places)
        if facts and not answer.status:
            # An unchanged date keeps git's own doubt about files changed in the same instant.
            os.utime(index, ns=(facts.st_mtime_ns, facts.st_mtime_ns))
        return not answer.status


def _records(out: bytes) -> Iterator[tuple[list[str], str]]:
    """The three facts and the path of each record of ls-tree or ls-files."""
    for record in out.split(b"\0"):
        facts, tab, path = record.partition(b"\t")
        if tab:
            yield facts.decode("ascii").split(), os.fsdecode(path)


def _parse_log(out: bytes, newest_name: str) -> list[Commit]:
    commits: list[Commit] = []
    path = newest_name
    for record in (b"\0" + out).split(b"\0\0\0H")[1:]:
        name, seconds, author, subject, rest = (record + b"\0").split(b"\0", 4)
        # Git writes one newline, and only one, before the path.
        changed = rest.removeprefix(b"\n").strip(b"\0")
        path = os.fsdecode(changed) if changed else path
        moment = time.gmtime(min(max(int(seconds or b"0"), 0), _LATEST))  # it may be absurd
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)
        who, what = author.decode("utf-8", "replace"), subject.decode("utf-8", "replace")
        commits.append(Commit(name.decode(), when, who, what, path))
    return commits


def _postpone(reason: str) -> Outcome:
    return Outcome(None, f"not committed: {reason}; {SAVED}")


def _list_some(paths: Iterable[str]) -> str:
    names = sorted(paths)
    more = f" and {len(names) - 3} more" if names[3:] else ""
    return ", ".join(map(_printable, names[:3])) + more


def _reset(paths: Iterable[str]) -> str:
    return f"`git reset -q -- {' '.join(shlex.quote(_printable(path)) for path in sorted(paths))}`"
