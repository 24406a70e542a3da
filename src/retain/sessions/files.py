"""Chats in files, directories and archives: exported to a new file, imported, nothing twice."""

from __future__ import annotations

import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from retain.bank.files import Directory, saving
from retain.capture import transcript
from retain.errors import Conflict, ImportRefused, NotFound, RetainError, UsageError
from retain.sessions import formats
from retain.sessions.formats import ReadChats
from retain.sessions.model import Chat, ImportedChat
from retain.sessions.redaction import redact_chat
from retain.sessions.store import Sessions
from retain.text.secrets import redact

MAX_FILE: Final = 500_000_000  # bytes
MAX_UNPACKED: Final = 100_000_000  # what unpacks to more than this ...
MAX_RATIO: Final = 100  # ... and to this many times its archive is no text
_SUFFIXES: Final = (".json", ".jsonl")
_UNPACK_ERRORS: Final = (
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    OSError,
    EOFError,
    ValueError,
    zlib.error,
)


class ImportReport(NamedTuple):
    """What became of the chats of a source, by the ids they have here."""

    source: str
    new: Sequence[str]
    grown: Sequence[str]
    unchanged: Sequence[str]
    differing: Sequence[str]
    messages: int
    warnings: Sequence[str]


# Out


def export(path: str, *chats: Chat, form: str = "") -> None:
    """Write chats to a file that is not there yet; JSON unless its ending or `form` says else."""
    ending = os.path.splitext(path)[1].lower().removeprefix(".")
    data = formats.FORMATS[form or (ending if ending in formats.FORMATS else "json")](*chats)
    folder, name = os.path.split(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a directory", hint="Name a file in it.")
    if not os.path.isdir(folder):
        raise NotFound(f"there is no directory {folder}", hint="Make it first, or name another.")
    # Put there whole, and never over something that appears in the same moment.
    with saving(path), Directory.open(os.path.realpath(folder)) as directory:
        if not directory.place(name, data.encode("utf-8", "replace")):
            raise Conflict(
                f"{path} exists already",
                unchanged="Nothing was written.",
                hint="Name a new file.",
            )


# In


def import_source(
    sessions: Sessions, source: str, *, allow_secret: bool, dry_run: bool = False
) -> ImportReport:
    """Import the chats of a file, an archive or a directory, each file whole or not at all."""
    imported: list[ImportedChat] = []
    warnings: list[str] = []
    reads = read_source(source, warnings)
    if not os.path.isdir(source):  # an archive is one file: it is read before anything is stored
        reads = iter([[chat for chats in list(reads) for chat in chats]])
    for chats in reads:
        clean = chats if allow_secret else redact_chats(chats, warnings)
        imported += sessions.import_chats(clean, dry_run=dry_run)
    if not imported:
        reason = f": {warnings[0]}" if len(warnings) == 1 else ""
        raise ImportRefused(
            f"there are no chats in {source}{reason}",
            hint="Name a .json or .jsonl file, a .zip of them, or a directory.",
        )
    return make_report(source, imported, warnings)


def make_report(
    source: str, imported: Sequence[ImportedChat], warnings: Sequence[str]
) -> ImportReport:
    """What was done, by kinds."""

    def ids(status: str) -> list[str]:
        return list(dict.fromkeys(chat.session_id for chat in imported if chat.status == status))

    differing = [
        f"{chat.session_id} ({chat.title}) differs from what is here, and was left as it is here"
        for chat in imported
        if chat.status == "differs"
    ]
    return ImportReport(
        source,
        ids("new"),
        ids("grown"),
        ids("unchanged"),
        ids("differs"),
        sum(chat.added for chat in imported),
        [*warnings, *differing],
    )


def redact_chats(chats: Sequence[Chat], warnings: list[str]) -> list[Chat]:
    """Take the secrets out of chats, and say what was replaced."""
    clean = []
    for chat in chats:
        redacted, kinds = redact_chat(chat)
        clean.append(redacted)
        if kinds:
            name = redact(chat.title or chat.id or chat.origin).text
            count = f"{len(kinds)} secret{'' if len(kinds) == 1 else 's'}"
            warnings.append(
                f"{name}: replaced {count} ({', '.join(sorted(set(kinds)))}) by [REDACTED:...]; "
                "--allow-secret stores them as they are"
            )
    return clean


def read_source(source: str, warnings: list[str]) -> Iterator[Sequence[Chat]]:
    """The chats of each file; in a directory, a file that has none is named and passed over."""
    if os.path.isdir(source):
        for path in _find_files(source, warnings):
            try:
                yield _read_chats(path, _read_file(path), warnings)
            except RetainError as error:
                warnings.append(f"left out: {error.message}")
    elif not os.path.exists(source):
        raise NotFound(f"there is nothing at {source}", unchanged="Nothing was imported.")
    elif zipfile.is_zipfile(source):
        for name, data in _unpack(source):
            yield _read_chats(name, data, warnings)
    else:
        yield _read_chats(source, _read_file(source), warnings)


def _read_chats(name: str, data: bytes, warnings: list[str]) -> Sequence[Chat]:
    found = formats.parse(data, name) or _read_transcript(data, name)
    if not found.chats and found.problems:
        raise ImportRefused(found.problems[-1])
    warnings += found.problems
    return found.chats


def _find_files(source: str, warnings: list[str]) -> Iterator[str]:
    """Files that may hold chats, in a fixed order; links lead elsewhere and are passed over."""
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(_SUFFIXES) or name[0] == ".":
                continue
            if os.path.islink(path):
                warnings.append(f"left out: {path} is a link")
            else:
                yield path


def _read_file(path: str) -> bytes:
    # Not blocking: a pipe in the place of a file must not hold the reader for ever.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read: {error.strerror}") from error
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ImportRefused(f"{path} is not a plain file")
        data = file.read(MAX_FILE + 1)
    if len(data) > MAX_FILE:
        raise ImportRefused(f"{path} has more than {MAX_FILE:,} bytes")
    return data


def _unpack(source: str) -> Iterator[tuple[str, bytes]]:
    """The files of an archive that hold chats; only read, so their names can do no harm."""
    try:
        with zipfile.ZipFile(source) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(_SUFFIXES)]
            # What ChatGPT and Claude export has other files beside the one with the chats.
            known = [
                entry
                for entry in entries
                if os.path.basename(entry.filename).startswith("conversations")
            ]
            room = max(MAX_UNPACKED, os.path.getsize(source) * MAX_RATIO)
            for entry in known or entries:
                # The other methods unpack whole what they are asked for a part of.
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise ValueError(f"{entry.filename!r} is packed in an uncommon way")
                limit = min(room, MAX_FILE)
                with archive.open(entry) as file:
                    data = file.read(limit + 1)
                if len(data) > limit:
                    raise ValueError(f"{entry.filename!r} unpacks to far more than any text would")
                room -= len(data)
                yield f"{source}: {entry.filename}", data
    except _UNPACK_ERRORS as error:
        raise ImportRefused(f"{source} cannot be unpacked: {error}") from error


# Transcripts of agents


def _read_transcript(data: bytes, name: str) -> ReadChats:
    """A session of Claude Code or Codex: what was said, without tools and what hooks put in."""
    messages = [message for message in transcript.all_messages(data) if message.text]
    if not messages:
        hint = formats.UNKNOWN
        raise ImportRefused(f"{name} holds no chats that Retain knows how to read", hint=hint)
    host, session, title = _describe_transcript(data)
    times = []
    for message in messages:
        end = data.find(b"\n", message.start)
        record = _load_line(data[message.start : end if end >= 0 else None])
        times.append(formats.utc_time(record.get("timestamp")))
    created = next(filter(None, times), "") or formats.utc_time(0)
    entries = [
        {"role": message.role, "content": message.text, "timestamp": when or created}
        for message, when in zip(messages, times, strict=True)
    ]
    found = ReadChats([], [])
    record = {"title": title, "created_at": created, "messages": entries}
    if chat := formats.chat_from_dict(record, found.problems, name):
        session = session or os.path.basename(name).partition(".")[0]
        found.chats.append(chat._replace(origin=f"{host}:{session}"[:300]))
    return found


def _describe_transcript(data: bytes) -> tuple[str, str, str]:
    """The host of a transcript, its session there, and what the host calls it."""
    host, session, title = "claude-code", "", ""
    for line in data.split(b"\n"):
        marks = (b'"sessionId"', b'"summary"', b'"session_meta"', b'"customTitle"')
        if not any(mark in line for mark in marks):
            continue
        record = _load_line(line)
        session = session or _text(record, "sessionId")
        if record.get("type") == "session_meta" and isinstance(record.get("payload"), dict):
            host, session = "codex", _text(record["payload"], "id")
        if record.get("type") == "summary":
            title = title or _text(record, "summary")
        title = _text(record, "customTitle") or title
    return host, session, title


def _load_line(line: bytes) -> dict[str, object]:
    try:
        record = json.loads(line.strip(b"\0 \t\r"))
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _text(record: object, key: str) -> str:
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""
