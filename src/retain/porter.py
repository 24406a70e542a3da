"""Whole banks in and out: exports, and the stores of other tools, all or nothing."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO, Final, NamedTuple

from retain import __version__, guard
from retain.bank import Bank, now
from retain.errors import Conflict, ImportRefused, NotFound, RetainError
from retain.fsio import Directory, write_whole
from retain.model import Memory
from retain.paths import KINDS, PROFILES, SUFFIXES, check_collection, check_id, find_bank, key

__all__ = ["Exported", "Imported", "Incoming", "export", "plan", "take_over"]

MANIFEST: Final = "retain-export.json"
MAX_FILES: Final = 200_000
MAX_TOTAL: Final = 2_000_000_000


class Exported(NamedTuple):
    """What an export wrote."""

    path: str
    memories: int


class Incoming(NamedTuple):
    """One memory on its way in."""

    collection: str
    name: str
    data: bytes


class Imported(NamedTuple):
    """What an import did: new memories, ones already here, and ones kept as they were."""

    source: str
    created: Sequence[str]
    unchanged: Sequence[str]
    kept: Sequence[str]
    replaced: Sequence[str]
    warnings: Sequence[str]


# Out


def export(bank: Bank, target: str) -> Exported:
    """Write every memory as it is, with a manifest of hashes, to a directory or a .zip."""
    files = {
        memory.ref + os.path.splitext(memory.path)[1]: memory.data for memory in bank.memories()
    }
    files |= _profiles(bank)
    files[MANIFEST] = _manifest(bank, files)
    if target.endswith(".zip"):
        _export_zip(target, files)
    else:
        _export_directory(target, files)
    return Exported(os.path.abspath(target), sum(name.endswith(SUFFIXES) for name in files) - 1)


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
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    return json.dumps(manifest, ensure_ascii=False, indent=2).encode() + b"\n"


def _export_zip(target: str, files: dict[str, bytes]) -> None:
    if os.path.exists(target):
        raise _there_already(target)
    import io

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    write_whole(os.path.abspath(target), buffer.getvalue())


def _export_directory(target: str, files: dict[str, bytes]) -> None:
    if os.path.isdir(target) and os.listdir(target):
        raise _there_already(target)
    for name, data in sorted(files.items()):
        path = os.path.join(os.path.abspath(target), name)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        write_whole(path, data)


def _there_already(target: str) -> Conflict:
    return Conflict(
        f"{target} exists already",
        unchanged="Nothing was written.",
        hint="Name a new file, or a new or empty directory.",
    )


# In


def take_over(
    bank: Bank, incoming: Sequence[Incoming], source: str, *, replace: bool, redact: bool
) -> Imported:
    """Store everything or nothing; what is here already is not doubled or overwritten."""
    warnings: list[str] = []
    if redact:
        incoming, warnings = _redacted(incoming)
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
    created = bank.create_all(new)
    replaced: list[str] = []
    for old, one in differing if replace else ():
        bank.change(old.address, functools.partial(_text_of, one), status="replaced")
        replaced.append(old.ref)
    return Imported(
        source,
        [memory.ref for memory in created],
        same,
        [] if replace else [old.ref for old, _ in differing],
        replaced,
        warnings,
    )


def _text_of(incoming: Incoming, _: Memory) -> bytes:
    return incoming.data


def _redacted(incoming: Sequence[Incoming]) -> tuple[list[Incoming], list[str]]:
    clean: list[Incoming] = []
    warnings: list[str] = []
    for one in incoming:
        try:
            text = one.data.decode("utf-8")
        except UnicodeDecodeError:
            clean.append(one)
            continue
        redacted, kinds = guard.redact(text)
        if kinds:
            warnings.append(
                f"{one.collection}/{one.name}: replaced {', '.join(sorted(set(kinds)))}"
            )
        clean.append(one._replace(data=redacted.encode()) if kinds else one)
    return clean, warnings


def plan(source: str, max_bytes: int) -> list[Incoming]:
    """Read everything a source holds, checked, before anything is written."""
    source = os.path.abspath(os.path.expanduser(source))
    if os.path.isfile(source):
        if zipfile.is_zipfile(source):
            found = _from_zip(source, max_bytes)
        elif source.endswith(SUFFIXES):
            found = _one_file(source, max_bytes)
        else:
            raise ImportRefused(
                f"{source} is not a zip file or a memory",
                unchanged="Nothing was imported.",
                hint="Give a zip from `retain export`, a store's directory, or a .md file.",
            )
    elif os.path.isdir(source):
        found = _from_directory(source, max_bytes)
    else:
        raise NotFound(f"there is nothing at {source}", unchanged="Nothing was imported.")
    return _checked(found, source)


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
        twin = seen.setdefault((key(named.collection), key(stem)), one.name)
        if twin != one.name:
            raise ImportRefused(
                f"{twin} and {one.name} in {source} would be one memory",
                unchanged="Nothing was imported.",
                hint="Rename one of them.",
            )
        incoming.append(named)
    if not incoming:
        raise ImportRefused(f"there are no memories in {source}", unchanged="Nothing was imported.")
    return incoming


def _one_file(path: str, max_bytes: int) -> Iterator[Incoming]:
    with Directory.open(os.path.dirname(path)) as folder:
        name = os.path.basename(path)
        yield Incoming("memories", name, folder.read(name, max_bytes))


def _from_directory(source: str, max_bytes: int) -> Iterator[Incoming]:
    """A bank of any kind, or a directory that holds one."""
    place = find_bank(source, {}, bank=source)
    bank = Bank(place, max_bytes=max_bytes)
    default = KINDS[place.kind].default_collection or "memories"
    in_root = "" if place.kind == "retain" and place.root.endswith(".retain") else default
    for memory in bank.memories():
        if memory.id == MANIFEST.removesuffix(".json") and not memory.collection:
            continue
        yield Incoming(memory.collection or in_root, os.path.basename(memory.path), memory.data)


def _from_zip(source: str, max_bytes: int) -> Iterator[Incoming]:
    with zipfile.ZipFile(source) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        if len(entries) > MAX_FILES:
            raise ImportRefused(f"{source} holds more than {MAX_FILES:,} files")
        for entry in entries:
            name = _safe_name(entry, source)
            if name.endswith(SUFFIXES) and name not in (MANIFEST, *PROFILES):
                collection, _, file = name.rpartition("/")
                yield Incoming(collection, file, _unpacked(archive, entry, max_bytes, source))


def _safe_name(entry: zipfile.ZipInfo, source: str) -> str:
    mode = entry.external_attr >> 16
    parts = entry.filename.split("/")
    if stat.S_ISLNK(mode) or ".." in parts or entry.filename.startswith("/") or len(parts) > 2:
        raise ImportRefused(
            f"{source}: the entry {entry.filename!r} is a link or leads out of the bank",
            unchanged="Nothing was imported.",
        )
    return entry.filename


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, limit: int, source: str) -> bytes:
    file: IO[bytes]
    try:
        with archive.open(entry) as file:
            # What the archive says of its sizes is not to be believed.
            data = file.read(limit + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
        raise ImportRefused(
            f"{source}: {entry.filename!r} cannot be unpacked: {error}",
            unchanged="Nothing was imported.",
        ) from error
    if len(data) > limit:
        raise ImportRefused(
            f"{source}: {entry.filename!r} unpacks to more than {limit:,} bytes",
            unchanged="Nothing was imported.",
        )
    return data
