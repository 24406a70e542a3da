"""Chats from files, directories and archives into a bank's own: whole files, nothing twice."""

from __future__ import annotations

import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from retain.capture import transcript
from retain.errors import ImportRefused, NotFound, RetainError
from retain.sessions import formats, redaction
from retain.sessions.formats import Read
from retain.sessions.model import Chat, Taken
from retain.sessions.store import Sessions
from retain.text.secrets import redact

MAX_FILE: Final = 500_000_000  # bytes
MAX_FILES: Final = 100_000
BOMB_TOTAL: Final = 100_000_000  # what unpacks to more than this ...
BOMB_RATIO: Final = 100  # ... and to this many times its archive is no text
_SUFFIXES: Final = (".json", ".jsonl")
_DEPTH: Final = 8  # directories below the one that was named
_UNPACKING: Final = (
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    OSError,
    EOFError,
    ValueError,
    zlib.error,
)


class Imported(NamedTuple):
    """What became of the chats of a source, by the ids they have here."""

    source: str
    new: Sequence[str]
    grown: Sequence[str]
    unchanged: Sequence[str]
    differing: Sequence[str]
    messages: int
    warnings: Sequence[str]


class _Source(NamedTuple):
    name: str
    data: bytes


def take_over(
    sessions: Sessions, source: str, *, allow_secret: bool, dry_run: bool = False
) -> Imported:
    """Import the chats of a file, an archive or a directory, each file whole or not at all."""
    taken: list[Taken] = []
    warnings: list[str] = []
    reads = read_all(source, warnings)
    if not os.path.isdir(source):
        # An archive is one file: all of it is read before anything is stored.
        reads = iter([Read([chat for found in list(reads) for chat in found.chats], [])])
    for found in reads:
        chats = found.chats if allow_secret else cleaned(found.chats, warnings)
        taken += sessions.take_in(chats, dry_run=dry_run)
    if not taken:
        reason = f": {warnings[0]}" if len(warnings) == 1 else ""
        raise ImportRefused(
            f"there are no chats in {source}{reason}",
            hint="Name a .json or .jsonl file, a .zip of them, or a directory.",
        )
    return counted(source, taken, warnings)


def counted(source: str, taken: Sequence[Taken], warnings: Sequence[str]) -> Imported:
    """What was done, by kinds."""

    def ids(status: str) -> list[str]:
        return list(dict.fromkeys(one.session_id for one in taken if one.status == status))

    differing = [
        f"{one.session_id} ({one.title}) differs from what is here, and was left as it is here"
        for one in taken
        if one.status == "differs"
    ]
    return Imported(
        source,
        ids("new"),
        ids("grown"),
        ids("unchanged"),
        ids("differs"),
        sum(one.added for one in taken),
        [*warnings, *differing],
    )


def read_all(source: str, warnings: list[str]) -> Iterator[Read]:
    """The chats of each file; in a directory, a file that has none is named and passed over."""
    if os.path.isdir(source):
        for path in _files(source, warnings):
            try:
                yield _reported(_Source(path, _bytes(path)), warnings)
            except RetainError as error:
                warnings.append(f"left out: {error.message}")
    elif not os.path.exists(source):
        raise NotFound(f"there is nothing at {source}", unchanged="Nothing was imported.")
    elif zipfile.is_zipfile(source):
        for one in _unpacked(source):
            yield _reported(one, warnings)
    else:
        yield _reported(_Source(source, _bytes(source)), warnings)


def _reported(source: _Source, warnings: list[str]) -> Read:
    name = source.name
    found = formats.read(source.data, name) or _transcript(source.data, name)
    if not found.chats and found.problems:
        raise ImportRefused(found.problems[-1])
    warnings += found.problems
    return found


def _files(source: str, warnings: list[str]) -> Iterator[str]:
    """Files that may hold chats, in a fixed order; links lead elsewhere and are passed over."""
    count = 0
    top = source.rstrip("/").count("/")
    for folder, folders, names in os.walk(source):
        is_deep = folder.count("/") - top >= _DEPTH
        folders[:] = [] if is_deep else sorted(one for one in folders if one[0] != ".")
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(_SUFFIXES) or name[0] == ".":
                continue
            if os.path.islink(path):
                warnings.append(f"left out: {path} is a link")
                continue
            count += 1
            if count > MAX_FILES:
                raise ImportRefused(f"{source} holds more than {MAX_FILES:,} files")
            yield path


def _bytes(path: str) -> bytes:
    # Not blocking: a pipe in the place of a file must not hold the reader for ever.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read: {error.strerror}") from error
    with open(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise ImportRefused(f"{path} is not a plain file")
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ImportRefused(f"{path} has more than {MAX_FILE:,} bytes")
    return data


def _unpacked(source: str) -> Iterator[_Source]:
    """The files of an archive that hold chats; only read, so their names can do no harm."""
    try:
        with zipfile.ZipFile(source) as archive:
            entries = [one for one in archive.infolist() if one.filename.endswith(_SUFFIXES)]
            # What ChatGPT and Claude export has other files beside the one with the chats.
            known = [one for one in entries if _is_conversations(one.filename)]
            most = max(BOMB_TOTAL, os.path.getsize(source) * BOMB_RATIO)
            for entry in (known or entries)[:MAX_FILES]:
                data = _unpack(archive, entry, min(most, MAX_FILE))
                most -= len(data)
                yield _Source(f"{source}: {entry.filename}", data)
    except _UNPACKING as error:
        raise ImportRefused(f"{source} cannot be unpacked: {error}") from error


def _is_conversations(name: str) -> bool:
    return os.path.basename(name).startswith("conversations")


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int) -> bytes:
    # The others unpack whole what they are asked for a part of, however much that is.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename!r} is packed in an uncommon way")
    with archive.open(entry) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{entry.filename!r} unpacks to far more than any text would")
    return data


# Transcripts of agents


def _transcript(data: bytes, name: str) -> Read:
    """A session of Claude Code or Codex: what was said, without tools and what hooks put in."""
    messages = [one for one in transcript.all_messages(data) if one.text]
    if not messages:
        raise ImportRefused(
            f"{name} holds no chats that Retain knows how to read",
            hint="It reads its own exports, those of ChatGPT and Claude, and transcripts of "
            "Claude Code.",
        )
    about = _about(data)
    times = [_time(data, one.start) for one in messages]
    created = next(filter(None, times), "") or formats.moment(0)
    said = [
        {"role": one.role, "content": one.text, "timestamp": when or created}
        for one, when in zip(messages, times, strict=True)
    ]
    session = about["session"] or os.path.basename(name).partition(".")[0]
    record = {"title": about["title"], "created_at": created, "messages": said}
    found = Read([], [])
    chat = formats.chat_of(record, found.problems, name)
    if chat:
        found.chats.append(chat._replace(origin=f"{about['host']}:{session}"[:300]))
    return found


def _about(data: bytes) -> dict[str, str]:
    """Which session this is, and what its host calls it."""
    about = {"session": "", "title": "", "host": "claude-code"}
    for line in data.split(b"\n"):
        marks = (b'"sessionId"', b'"summary"', b'"session_meta"', b'"customTitle"')
        if not any(mark in line for mark in marks):
            continue
        record = _record(line)
        about["session"] = about["session"] or _text(record, "sessionId")
        if record.get("type") == "session_meta" and isinstance(record.get("payload"), dict):
            about |= {"session": _text(record["payload"], "id"), "host": "codex"}
        if record.get("type") == "summary":
            about["title"] = about["title"] or _text(record, "summary")
        about["title"] = _text(record, "customTitle") or about["title"]
    return about


def _time(data: bytes, start: int) -> str:
    """When the message was said that begins at a byte."""
    end = data.find(b"\n", start)
    return formats.moment(_record(data[start : end if end >= 0 else None]).get("timestamp"))


def _record(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line.strip(b"\0 \t\r"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(record: object, key: str) -> str:
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


# Secrets


def cleaned(chats: Sequence[Chat], warnings: list[str]) -> list[Chat]:
    """The chats without their secrets; what was replaced is said."""
    clean = []
    for chat in chats:
        kinds: list[str] = []
        clean.append(redaction.chat(chat, kinds))
        if kinds:
            names = ", ".join(sorted(set(kinds)))
            count = f"{len(kinds)} secret{'s' * (len(kinds) > 1)}"
            called = chat.title or chat.id or chat.origin
            warnings.append(
                f"{redact(called).text}: replaced {count} ({names}) by [REDACTED:...]; "
                "--allow-secret stores them as they are"
            )
    return clean
