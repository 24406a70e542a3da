"""How long our hooks took and what they put before the model, by the host's own transcripts.

Claude Code notes a hook in one of several ways, and one that says nothing in none at all:

- an attachment `hook_success` (or another kind of `hook_...`) with the command, how long it took,
  and what it printed;
- an attachment `hook_additional_context` with what was injected, without a time or a command;
- a line `stop_hook_summary` for all hooks of a stop; one that blocks has no time there;
- the result of a tool that was refused, with the hook's reason.

The command is noted by its status message where it has one. So a hook is ours if its command says
so, or if what it said can be nobody else's.

It stands beside the readers of what was said because it reads the same files; no hook loads it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Final, NamedTuple

from retain.sizes import tokens

__all__ = ["Read", "Tally", "injected", "percentile", "read", "transcripts"]

_LONGEST_LINE: Final = 4_000_000
_LONGEST_RUN: Final = 1e9  # milliseconds; JSON has numbers beyond any time, and beyond any float
_LONGEST_NAME: Final = 200  # of a project's folder; beyond it the host adds a digest
_OFTEN: Final = 8_000_000  # bytes between two looks at how far it is

_COMMAND: Final = re.compile(r"^(Retain: |retain$)|(^|[/\s\"'])retain(\.exe)?[\"']?\s+hook\b")
_OURS: Final = 'note="Notes kept from earlier work: '
_REFUSED: Final = "Direct writes to the memory directory are blocked: Retain "
_MARKS: Final = (b'"hook_', b'"stop_hook_summary"', _REFUSED.encode())
_FAILED: Final = ("hook_non_blocking_error", "hook_error_during_execution", "hook_cancelled")
_BLOCKED: Final = 2  # the exit code of a hook that means to block

Progress = Callable[[int, int], object]


class Tally:
    """What is known of the runs of one event."""

    def __init__(self) -> None:
        self.runs = self.failures = self.blocks = 0
        self.characters = self.tokens = self.memories = 0
        self.times: list[float] = []  # milliseconds, of those runs the host timed

    def inject(self, text: str) -> None:
        """Count what was put before the model."""
        self.characters += len(text)
        self.tokens += tokens(text)
        self.memories += sum(line.startswith("- [") for line in text.splitlines())


class Read(NamedTuple):
    """What transcripts say, event by event, and what could not be read of them."""

    events: Mapping[str, Tally]
    transcripts: int
    bad_lines: int


# Which files


def _project_folder(env: Mapping[str, str], cwd: str) -> str:
    """Where the host keeps the transcripts of the project around a directory; empty: nowhere."""
    base, home = _base(env), os.path.realpath(os.path.expanduser("~"))
    while cwd not in (home, os.path.dirname(cwd)):
        if found := _folder(base, re.sub(r"[^a-zA-Z0-9]", "-", cwd)):
            return found
        cwd = os.path.dirname(cwd)
    return ""


def _base(env: Mapping[str, str]) -> str:
    given = env.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    return os.path.join(given, "projects")


def _folder(base: str, name: str) -> str:
    if len(name) <= _LONGEST_NAME:
        path = os.path.join(base, name)
        return path if os.path.isdir(path) and not os.path.islink(path) else ""
    beginning = f"{name[:_LONGEST_NAME]}-"
    return next(
        (path for path in _folders(base) if os.path.basename(path).startswith(beginning)), ""
    )


def _folders(base: str) -> list[str]:
    return sorted(entry.path for entry in _entries(base) if entry.is_dir(follow_symlinks=False))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def transcripts(env: Mapping[str, str], cwd: str, *, everywhere: bool = False) -> list[str]:
    """The transcripts of the project around a directory, or of every project; links are left."""
    own = _project_folder(env, cwd)
    folders = _folders(_base(env)) if everywhere else [own] if own else []
    return sorted(
        entry.path
        for folder in folders
        for entry in _entries(folder)
        if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False)
    )


# What they say


def read(paths: Sequence[str], since: str = "", progress: Progress | None = None) -> Read:
    """Gather what transcripts say of our hooks, from a time on (as `2026-11-15T18:00:00`)."""
    total, done = sum(map(_size, paths)), 0
    gathering = _Gathering(since)
    for path in paths:
        with _opened(path) as file:
            gathering.begin()
            start = seen = 0
            for raw in _lines(file):
                gathering.take(raw)
                seen += len(raw)
                if progress and seen - start > _OFTEN:
                    start = seen
                    progress(min(done + seen, total), total)
        done += _size(path)
        if progress:
            progress(min(done, total), total)
    return Read(gathering.events, len(paths), gathering.bad_lines)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _opened(path: str) -> IO[bytes]:
    """A regular file, no link; anything else reads as if it were empty."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags)
    except (OSError, ValueError):
        return open(os.devnull, "rb")
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return open(os.devnull, "rb")
    return open(fd, "rb")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, without those that are too long, one at a time in memory."""
    while raw := file.readline(_LONGEST_LINE):
        if raw.endswith(b"\n") or len(raw) < _LONGEST_LINE:
            yield raw
            continue
        while (part := file.readline(_LONGEST_LINE)) and not part.endswith(b"\n"):
            pass


class _Gathering:
    """Lines of transcripts, one after the other, made into tallies."""

    def __init__(self, since: str) -> None:
        self.events: dict[str, Tally] = {}
        self.bad_lines = 0
        self._since = since
        self._seen: set[str] = set()  # a session that goes on elsewhere takes its lines along
        self._told: dict[str, str] = {}  # by event, what was counted as injected just now
        self._stops: dict[str, int] = {}  # by the stop's id, runs on lines of their own

    def begin(self) -> None:
        """Begin another file."""
        self._told.clear()

    def take(self, raw: bytes) -> None:
        """Count a line, if it is about a hook of ours."""
        if not any(mark in raw for mark in _MARKS):
            return
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError):
            self.bad_lines += 1
            return
        if not isinstance(record, dict) or self._is_known(record):
            return
        attachment = record.get("attachment")
        if record.get("type") == "attachment" and isinstance(attachment, dict):
            self._attachment(attachment)
        elif record.get("subtype") == "stop_hook_summary":
            self._stop(record)
        elif record.get("type") == "user":
            self._refusals(record)

    def _is_known(self, record: Mapping[str, Any]) -> bool:
        """Whether a line was counted before, or is too old to be."""
        if self._since and str(record.get("timestamp") or "") < self._since:
            return True
        name = str(record.get("uuid") or "")
        is_known = bool(name) and name in self._seen
        self._seen.add(name)
        return is_known

    def _attachment(self, given: Mapping[str, Any]) -> None:
        kind, event = str(given.get("type")), str(given.get("hookEvent") or "")
        if not event or not kind.startswith("hook_"):
            return
        if kind == "hook_additional_context":
            self._context(event, _texts(given.get("content")))
            return
        said = injected(str(given.get("stdout") or ""))
        command = str(given.get("command") or "")
        if not (_COMMAND.search(command) or _OURS in said) or kind == "hook_system_message":
            return
        code = given.get("exitCode")
        is_block = kind == "hook_blocking_error" or code == _BLOCKED
        has_failed = not is_block and (kind in _FAILED or code not in (0, None))
        # How soon a command was not found says nothing about how long ours takes.
        tally = self._run(event, None if has_failed else given.get("durationMs"))
        tally.blocks += is_block
        tally.failures += has_failed
        if event == "Stop" and (stop := str(given.get("toolUseID") or "")):
            self._stops[stop] = self._stops.get(stop, 0) + 1
        tally.inject(said)
        self._told[event] = said

    def _context(self, event: str, said: str) -> None:
        """Count what was injected; the run may have been noted on a line of its own."""
        if _OURS not in said:
            return
        if self._told.pop(event, "").strip() == said.strip():
            return
        self._run(event, None).inject(said)

    def _stop(self, record: Mapping[str, Any]) -> None:
        infos, errors = record.get("hookInfos"), record.get("hookErrors")
        ours = [
            info
            for info in (infos if isinstance(infos, list) else ())
            if isinstance(info, dict) and _COMMAND.search(str(info.get("command") or ""))
        ]
        # One that had something to say was counted on a line of its own, just before this one.
        counted = self._stops.pop(str(record.get("toolUseID") or ""), 0)
        for info in ours[counted:]:
            self._run("Stop", info.get("durationMs"))
        blocks = [
            error
            for error in (errors if isinstance(errors, list) else ())
            if _COMMAND.search(str(error).removeprefix("[").partition("]")[0])
        ]
        for number, _ in enumerate(blocks):
            # A block is named by its command where the run itself may have another name.
            tally = self.events["Stop"] if number < len(ours) else self._run("Stop", None)
            tally.blocks += 1

    def _refusals(self, record: Mapping[str, Any]) -> None:
        """Count writes into a bank that were refused."""
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        for block in content if isinstance(content, list) else ():
            said = block.get("content") if isinstance(block, dict) else None
            if isinstance(said, str) and said.startswith("PreToolUse:") and _REFUSED in said:
                self._run("PreToolUse", None).blocks += 1

    def _run(self, event: str, took: object) -> Tally:
        tally = self.events.setdefault(event, Tally())
        tally.runs += 1
        if isinstance(took, int | float) and 0 <= took < _LONGEST_RUN:
            tally.times.append(took)
        return tally


def injected(stdout: str) -> str:
    """What a hook's output puts before the model: its own context, or all that it printed."""
    if not stdout.lstrip().startswith("{"):
        return stdout
    try:
        said = json.loads(stdout)
    except (ValueError, RecursionError):
        return stdout
    special = said.get("hookSpecificOutput") if isinstance(said, dict) else None
    context = special.get("additionalContext") if isinstance(special, dict) else ""
    return context if isinstance(context, str) else ""


def _texts(content: object) -> str:
    parts = content if isinstance(content, list) else [content]
    return "\n".join(part for part in parts if isinstance(part, str))


def percentile(times: Sequence[float], share: float) -> float | None:
    """The time that a share of the runs did not exceed; None where none was timed."""
    if not times:
        return None
    at = max(1, -(-len(times) * share // 1))
    return sorted(times)[int(at) - 1]
