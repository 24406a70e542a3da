"""Whole banks in and out: exports, and the stores of other tools, all or nothing."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Final, NamedTuple

from retain import __version__, records
from retain.bank import Bank, now
from retain.config import FILE as CONFIG
from retain.config import config_file, read_file
from retain.errors import (
    Conflict,
    ImportRefused,
    NewerFormat,
    NotFound,
    NotSaved,
    RetainError,
    Unreadable,
    UsageError,
)
from retain.fsio import Directory, make_folder, saving, write_whole
from retain.guard.secrets import redact, redact_value
from retain.model import Memory, Problem
from retain.paths import KINDS, PROFILES, SUFFIXES, check_collection, check_id, find_bank, key

__all__ = ["Exported", "Imported", "Incoming", "Plan", "export", "plan", "take_over"]

MANIFEST: Final = "retain-export.json"
MAX_MANIFEST: Final = 100_000_000
MAX_FILES: Final = 200_000
MAX_TOTAL: Final = 2_000_000_000
BOMB_TOTAL: Final = 100_000_000  # text that unpacks to more than this ...
BOMB_RATIO: Final = 100  # ... and to this many times its archive is no text


class Exported(NamedTuple):
    """What an export wrote, and what had to be left out."""

    path: str
    memories: int
    warnings: Sequence[str]


class Incoming(NamedTuple):
    """One memory on its way in."""

    collection: str
    name: str
    data: bytes


class Plan(NamedTuple):
    """Everything a source holds, checked, and what of it is left behind."""

    source: str
    incoming: Sequence[Incoming]
    warnings: Sequence[str]


class Imported(NamedTuple):
    """What an import did: new memories, ones already here, and ones kept as they were."""

    source: str
    created: Sequence[str]
    unchanged: Sequence[str]
    kept: Sequence[str]
    replaced: Sequence[str]
    warnings: Sequence[str]
    changes: Mapping[str, bytes]
    commit: str = ""


# What zipfile raises for damaged, encrypted and unknown entries; zlib.error is an Exception only.
_UNPACKING: Final = (
    zipfile.BadZipFile,
    RuntimeError,
    NotImplementedError,
    OSError,
    EOFError,
    zlib.error,
)

# Out


def export(bank: Bank, target: str) -> Exported:
    """Write every memory as it is, with a manifest of hashes, to a directory or a .zip."""
    target = os.path.abspath(target)
    if os.path.join(os.path.realpath(target), "").startswith(os.path.join(bank.root, "")):
        raise UsageError(
            f"{target} is inside the bank",
            unchanged="Nothing was written.",
            hint="Export to a place outside it.",
        )
    problems: list[Problem] = []
    files: dict[str, bytes] = {}
    for memory in bank.memories(problems=problems):
        name = memory.ref + os.path.splitext(memory.path)[1]
        if name.isprintable():
            files[name] = memory.data
        else:
            problems.append(Problem(memory.path, "its name cannot be stored everywhere"))
    count = len(files)
    files |= _profiles(bank)
    files[MANIFEST] = _manifest(bank, files)
    write = _export_zip if target.endswith(".zip") else _export_directory
    write(target, files)
    left_out = [
        f"left out: {problem.path}: {problem.reason}"
        for problem in problems
        if not problem.is_minor
    ]
    return Exported(target, count, left_out)


def _profiles(bank: Bank) -> dict[str, bytes]:
    if bank.place.kind != "retain" or not bank.place.exists:
        return {}
    with Directory.open(bank.root) as root:
        return {name: root.read(name, bank.max_bytes) for name in PROFILES if root.has(name)}


def _manifest(bank: Bank, files: dict[str, bytes]) -> bytes:
    manifest = {
        "format": 1,
        "retain": __version__,
        "exported_at": now(),
        "kind": bank.place.kind,
        "files": {name: _digest(data) for name, data in sorted(files.items())},
    }
    return json.dumps(manifest, ensure_ascii=False, indent=2).encode() + b"\n"


def _export_zip(target: str, files: dict[str, bytes]) -> None:
    if os.path.lexists(target):
        raise _there_already(target)
    import io

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    write_whole(target, buffer.getvalue())


def _export_directory(target: str, files: dict[str, bytes]) -> None:
    if os.path.lexists(target) and not (os.path.isdir(target) and not os.listdir(target)):
        raise _there_already(target)
    try:
        with saving(target):
            for name, data in sorted(files.items()):
                path = os.path.join(target, name)
                make_folder(os.path.dirname(path))
                write_whole(path, data)
    except NotSaved:
        # Half an export would be taken for a whole one.
        for name in os.listdir(target) if os.path.isdir(target) else ():
            _remove(os.path.join(target, name))
        raise


def _remove(path: str) -> None:
    import shutil

    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        os.unlink(path)


def _there_already(target: str) -> Conflict:
    return Conflict(
        f"{target} exists already",
        unchanged="Nothing was written.",
        hint="Name a new file, or a new or empty directory.",
    )


# In


def take_over(bank: Bank, wanted: Plan, *, replace: bool, allow_secret: bool) -> Imported:
    """Store everything or nothing; what is here already is not doubled or overwritten."""
    incoming, news = _guarded(wanted.incoming, allow_secret)
    here = {(key(m.collection), key(m.id)): m for m in bank.memories()}
    new: list[Incoming] = []
    same: list[str] = []
    differing: list[tuple[Memory, Incoming]] = []
    for one in incoming:
        old = here.get((key(one.collection), key(os.path.splitext(one.name)[0])))
        if old is None:
            new.append(one)
        elif old.data == one.data:
            same.append(old.ref)
        else:
            differing.append((old, one))
    placed = bank.place_all(new, [(old, one.data) for old, one in differing if replace])
    kept = [old.ref for old, _ in differing]
    return Imported(
        wanted.source,
        [memory.ref for memory in placed[: len(new)]],
        same,
        [] if replace else kept,
        kept if replace else [],
        [*wanted.warnings, *news],
        {memory.path: memory.data for memory in placed},
    )


def _guarded(
    incoming: Sequence[Incoming], allow_secret: bool
) -> tuple[Sequence[Incoming], Sequence[str]]:
    """What may be stored, and what has to be said about secrets in it."""
    clean: list[Incoming] = []
    warnings: list[str] = []
    for one in incoming:
        path = f"{one.collection}/{one.name}"
        # Bytes that are no text pass through as they are, with the text around them looked at.
        text, kinds = redact(one.data.decode("utf-8", "surrogateescape"))
        data = text.encode("utf-8", "surrogateescape")
        if one.name.endswith(".json"):
            data, more = _clean_record(data)
            kinds = (*kinds, *more)
        named = redact(path)[1]
        if named and not allow_secret:
            raise ImportRefused(
                f"a file's name looks like a secret ({', '.join(named)})",
                unchanged="Nothing was imported.",
                hint="Rename it, or take it as it is with --allow-secret.",
            )
        if kinds:
            verb = "stored as given, with" if allow_secret else "replaced"
            warnings.append(f"{path}: {verb} {', '.join(sorted(set(kinds)))}")
        clean.append(one if allow_secret or not kinds else one._replace(data=data))
    return clean, warnings


def _clean_record(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """A record without the secrets that its quoting hides from a look at the text."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return data, ()
    clean, kinds = redact_value(record)
    if not kinds or not isinstance(clean, dict):
        return data, ()
    changes = {name: value for name, value in clean.items() if record.get(name) != value}
    try:
        return records.edit(data, changes), kinds
    except Unreadable:
        return json.dumps(clean, ensure_ascii=False, indent=2).encode(), kinds


def plan(source: str, max_bytes: int) -> Plan:
    """Read everything a source holds, checked, before anything is written."""
    folder, name = os.path.split(os.path.abspath(source))
    source = os.path.join(os.path.realpath(folder), name)  # a person may be behind a link
    warnings: list[str] = []
    if os.path.isfile(source):
        if zipfile.is_zipfile(source):
            found = _from_zip(source, max_bytes, warnings)
        elif source.endswith(SUFFIXES):
            found = _one_file(source, max_bytes)
        else:
            raise ImportRefused(
                f"{source} is not a zip file or a memory",
                unchanged="Nothing was imported.",
                hint="Give a zip from `retain export`, a store's directory, or a .md file.",
            )
    elif os.path.isdir(source):
        found = _from_directory(source, max_bytes, warnings)
    else:
        raise NotFound(f"there is nothing at {source}", unchanged="Nothing was imported.")
    incoming = _checked(found, source)
    _check_manifest(source, incoming, warnings)
    return Plan(source, incoming, warnings)


def _check_manifest(source: str, incoming: Sequence[Incoming], warnings: list[str]) -> None:
    """Refuse an export that lost files on its way; say which were changed."""
    listed = _listed_in(source)
    here = {f"{one.collection}/{one.name}".lstrip("/"): one.data for one in incoming}
    missing = [name for name in listed if name not in here and name not in PROFILES]
    if missing:
        raise ImportRefused(
            f"{source} is not whole: {missing[0]} and {len(missing) - 1} more are missing"
            if missing[1:]
            else f"{source} is not whole: {missing[0]} is missing",
            unchanged="Nothing was imported.",
            hint=f"Export it again, or delete {MANIFEST} to take what is there.",
        )
    changed = [n for n, data in here.items() if n in listed and _digest(data) != listed[n]]
    warnings += [f"changed since it was exported: {name}" for name in changed]


def _listed_in(source: str) -> dict[str, str]:
    """The files an export's manifest names and their hashes; empty when it has none."""
    try:
        if os.path.isdir(source):
            with Directory.open(os.path.realpath(source)) as folder:
                text = folder.read(MANIFEST, MAX_MANIFEST)
        else:
            with zipfile.ZipFile(source) as archive, archive.open(MANIFEST) as file:
                text = file.read(MAX_MANIFEST)
        manifest = json.loads(text)
        files = manifest["files"]
        version = manifest.get("format", 1)
    except (RetainError, *_UNPACKING, KeyError, ValueError, TypeError, AttributeError):
        return {}
    if version != 1:
        raise NewerFormat(
            f"{source} was exported by a newer Retain (format {version})",
            unchanged="Nothing was imported.",
            hint="Upgrade Retain: pip install --upgrade retain-bank",
        )
    try:
        return {str(name): str(digest) for name, digest in files.items()}
    except AttributeError:
        return {}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked(found: Iterator[Incoming], source: str) -> list[Incoming]:
    """Everything, under names that can be stored, none of them twice."""
    incoming: list[Incoming] = []
    seen: dict[tuple[str, str], str] = {}
    total = 0
    for one in found:
        total += len(one.data)
        if len(incoming) >= MAX_FILES or total > MAX_TOTAL:
            raise ImportRefused(
                f"{source} holds more than {MAX_FILES:,} files or {MAX_TOTAL:,} bytes",
                unchanged="Nothing was imported.",
            )
        stem, suffix = os.path.splitext(one.name)
        try:
            named = one._replace(
                collection=check_collection(one.collection), name=check_id(stem) + suffix
            )
        except RetainError as error:
            raise ImportRefused(error.message, unchanged="Nothing was imported.") from error
        place = (key(named.collection), key(stem))
        if place in seen:
            raise ImportRefused(
                f"{seen[place]} and {one.name} in {source} would be one memory",
                unchanged="Nothing was imported.",
                hint="Rename one of them.",
            )
        seen[place] = one.name
        incoming.append(named)
    if not incoming:
        raise ImportRefused(f"there are no memories in {source}", unchanged="Nothing was imported.")
    return incoming


def _one_file(path: str, max_bytes: int) -> Iterator[Incoming]:
    with Directory.open(os.path.dirname(path)) as folder:
        name = os.path.basename(path)
        yield Incoming("memories", name, folder.read(name, max_bytes))


def _from_directory(source: str, max_bytes: int, warnings: list[str]) -> Iterator[Incoming]:
    """A bank of any kind, or a directory that holds one."""
    place = find_bank(source, {}, bank=source)
    read_file(config_file(place.root), follow=False)  # a newer format is refused
    bank = Bank(place, max_bytes=max_bytes)
    default = KINDS[place.kind].default_collection or "memories"
    is_bank = place.kind == "retain" and _has_any(place.root, MANIFEST, CONFIG)
    problems: list[Problem] = []
    for memory in bank.memories(problems=problems):
        if memory.id == MANIFEST.removesuffix(".json") and not memory.collection:
            continue
        collection = memory.collection or ("" if is_bank else default)
        yield Incoming(collection, os.path.basename(memory.path), memory.data)
    for problem in (one for one in problems if not one.is_minor):
        if os.path.islink(problem.path) or not os.path.isdir(problem.path):
            raise ImportRefused(
                f"{problem.path} cannot be taken over: {problem.reason}",
                unchanged="Nothing was imported.",
                hint="Move it away, then import again.",
            )
        warnings.append(f"left behind: {problem.path}: {problem.reason}")
    warnings += [_left_behind(name) for name in _profiles(bank)]


def _has_any(root: str, *names: str) -> bool:
    return any(os.path.isfile(os.path.join(root, name)) for name in names)


def _left_behind(profile: str) -> str:
    return f"left behind: {profile}, which speaks for one person; copy it yourself if it is yours"


def _from_zip(source: str, max_bytes: int, warnings: list[str]) -> Iterator[Incoming]:
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise _broken(source, str(error)) from error
    with archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if len(entries) > MAX_FILES:
            raise _broken(source, f"more than {MAX_FILES:,} files")
        most = max(BOMB_TOTAL, os.path.getsize(source) * BOMB_RATIO)
        for entry in entries:
            name = _safe_name(entry, source)
            if name in PROFILES:
                warnings.append(_left_behind(name))
            elif name.endswith(SUFFIXES) and name != MANIFEST:
                collection, _, file = name.rpartition("/")
                data = _unpacked(archive, entry, max_bytes, source)
                most -= len(data)
                if most < 0:
                    raise _broken(source, "it unpacks to far more than any text would")
                yield Incoming(collection, file, data)


def _safe_name(entry: zipfile.ZipInfo, source: str) -> str:
    """An entry's name; empty for what an operating system adds of its own accord."""
    name = entry.filename
    parts = name.split("/")
    leads_out = ".." in parts or name.startswith("/") or "\\" in name
    if leads_out or stat.S_ISLNK(entry.external_attr >> 16):
        raise _broken(source, f"the entry {name!r} is a link or leads out of the bank")
    if parts[0] == "__MACOSX" or any(part.startswith(".") for part in parts):
        return ""
    if len(parts) > 2:
        raise ImportRefused(
            f"{source}: {name!r} lies deeper than collection/memory",
            unchanged="Nothing was imported.",
            hint="Unpack it, and import the directory that holds the collections.",
        )
    return name


def _broken(source: str, reason: str) -> ImportRefused:
    return ImportRefused(
        f"{source} cannot be unpacked: {reason}", unchanged="Nothing was imported."
    )


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int, source: str) -> bytes:
    file: IO[bytes]
    # The others unpack whole what they are asked for a part of, however much that is.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _broken(source, f"{entry.filename!r} is packed in an uncommon way")
    try:
        with archive.open(entry) as file:
            # What the archive says of its sizes is not to be believed.
            data = file.read(limit + 1)
    except _UNPACKING as error:
        raise _broken(source, f"{entry.filename!r}: {error}") from error
    if len(data) > limit:
        raise _broken(source, f"{entry.filename!r} has more than {limit:,} bytes")
    return data
