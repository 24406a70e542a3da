"""Whole banks in and out: exports, and the stores of other tools, all or nothing."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from retain import __version__
from retain.bank import markdown
from retain.bank.bank import Bank
from retain.bank.files import Directory, saving, write_whole
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
from retain.locate import find_bank, make_private_directory
from retain.memory import (
    KINDS,
    PROFILES,
    SUFFIXES,
    Data,
    Memory,
    Problem,
    check_collection,
    check_id,
    key,
    now,
)
from retain.text import frontmatter
from retain.text.secrets import redact, redact_value

MANIFEST: Final = "retain-export.json"
MAX_MANIFEST: Final = 100_000_000
MAX_FILES: Final = 200_000
BOMB_TOTAL: Final = 100_000_000  # an archive that unpacks to more than this ...
BOMB_RATIO: Final = 100  # ... and to this many times its size is no text

_NOT_WRITTEN: Final = "Nothing was written."
_FIELD: Final = re.compile(r"([A-Za-z_][\w-]{0,63}):[ \t]+(\S.*)")
# What zipfile raises for damaged, encrypted and unknown entries; zlib.error is an Exception only.
_UNPACKING: Final = (zipfile.BadZipFile, zlib.error, RuntimeError, OSError, EOFError, ValueError)

_Files = dict[str, bytes]  # by `collection/name`, or the name alone at the root


class Exported(NamedTuple):
    """What an export wrote, and what had to be left out."""

    path: str
    memories: int
    warnings: Sequence[str]


class Plan(NamedTuple):
    """Everything a source holds, checked, and what of it is left behind."""

    source: str
    files: _Files
    warnings: Sequence[str]


class Imported(NamedTuple):
    """What an import did: new memories, ones already here, and ones kept as they were."""

    source: str
    created: Sequence[str]
    unchanged: Sequence[str]
    kept: Sequence[str]
    replaced: Sequence[str]
    warnings: Sequence[str]
    changes: Mapping[str, bytes]  # by path, for the index and git
    commit: str = ""

    def to_dict(self) -> Data:
        return {name: value for name, value in self._asdict().items() if name != "changes"}


# Out


def export(bank: Bank, target: str) -> Exported:
    """Write every memory as it is, with a manifest of hashes, to a directory or a .zip."""
    target = os.path.abspath(target)
    if os.path.join(os.path.realpath(target), "").startswith(os.path.join(bank.root, "")):
        hint = "Export to a place outside it."
        raise UsageError(f"{target} is inside the bank", unchanged=_NOT_WRITTEN, hint=hint)
    if target.endswith((".tar", ".tgz", ".gz", ".bz2", ".xz", ".7z")):
        hint = "Name a .zip file or a directory."
        raise UsageError("an export is a .zip file", unchanged=_NOT_WRITTEN, hint=hint)
    is_zip, folder = target.endswith(".zip"), os.path.dirname(target)
    if is_zip and not os.path.isdir(folder):
        message, hint = f"there is no directory {folder}", "Make it first, or name another."
        raise NotFound(message, unchanged=_NOT_WRITTEN, hint=hint)
    is_empty = os.path.isdir(target) and not is_zip and not os.listdir(target)
    if os.path.lexists(target) and not is_empty:
        hint = "Name a new file, or a new or empty directory."
        raise Conflict(f"{target} exists already", unchanged=_NOT_WRITTEN, hint=hint)
    problems: list[Problem] = []
    files: _Files = {}
    for memory in bank.memories(problems=problems):
        name = memory.ref + os.path.splitext(memory.path)[1]
        if name.isprintable():
            files[name] = memory.data
        else:
            problems.append(Problem(memory.path, "its name cannot be stored everywhere"))
    memories = len(files)
    files |= _read_profiles(bank)
    manifest = {
        "format": 1,
        "retain": __version__,
        "exported_at": now(),
        "kind": bank.location.kind,
        "files": {name: _digest(data) for name, data in sorted(files.items())},
    }
    files[MANIFEST] = json.dumps(manifest, ensure_ascii=False, indent=2).encode() + b"\n"
    if is_zip:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, data in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        write_whole(target, buffer.getvalue())
    else:
        _write_directory(target, files)
    warnings = [f"left out: {it.path}: {it.reason}" for it in problems if not it.is_minor]
    return Exported(target, memories, warnings)


def _read_profiles(bank: Bank) -> _Files:
    if bank.location.kind != "retain" or not bank.location.exists:
        return {}
    with Directory.open(bank.root) as root:
        return {name: root.read(name, bank.max_bytes) for name in PROFILES if root.has(name)}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write_directory(target: str, files: _Files) -> None:
    try:
        with saving(target):
            for name, data in files.items():
                path = os.path.join(target, name)
                make_private_directory(os.path.dirname(path))
                write_whole(path, data)
    except NotSaved:
        shutil.rmtree(target, ignore_errors=True)  # half an export would be taken for a whole one
        raise


# In


def import_files(bank: Bank, plan: Plan, *, replace: bool, allow_secret: bool) -> Imported:
    """Store everything or nothing; what is here already is not doubled or overwritten."""
    warnings = [*plan.warnings]
    here = {(key(memory.collection), key(memory.id)): memory for memory in bank.memories()}
    new: list[tuple[str, str, bytes]] = []
    same: list[str] = []
    differing: list[tuple[Memory, bytes]] = []
    for path, raw in plan.files.items():
        data = _redact(path, raw, warnings, allow_secret=allow_secret)
        collection, _, name = path.rpartition("/")
        old = here.get((key(collection), key(os.path.splitext(name)[0])))
        if old is None:
            new.append((collection, name, data))
        elif old.data == data:
            same.append(old.ref)
        else:
            differing.append((old, data))
    written = bank.write_all(new, differing if replace else ())
    others = [old.ref for old, _ in differing]
    return Imported(
        plan.source,
        created=[memory.ref for memory in written[: len(new)]],
        unchanged=same,
        kept=[] if replace else others,
        replaced=others if replace else [],
        warnings=warnings,
        changes={memory.path: memory.data for memory in written},
    )


def _redact(path: str, raw: bytes, warnings: list[str], *, allow_secret: bool) -> bytes:
    """A file as it may be stored; what has to be said about secrets goes into `warnings`."""
    named = redact(path)[1]
    if named and not allow_secret:
        raise _refuse(
            f"a file's name looks like a secret ({', '.join(named)})",
            "Rename it, or take it as it is with --allow-secret.",
        )
    # Bytes that are no text pass through as they are, with the text around them looked at.
    text, kinds = redact(raw.decode("utf-8", "surrogateescape"))
    data = text.encode("utf-8", "surrogateescape")
    if path.endswith(".json"):
        with contextlib.suppress(ValueError, RecursionError):
            # The quoting of a record hides secrets from a look at the text.
            clean, hidden = redact_value(json.loads(data))
            if hidden:
                kinds += hidden
                data = json.dumps(clean, ensure_ascii=False, indent=2).encode() + b"\n"
    if not kinds:
        return raw
    verb = "stored as given, with" if allow_secret else "replaced"
    warnings.append(f"{path}: {verb} {', '.join(sorted(set(kinds)))}")
    return raw if allow_secret else data


def read_source(source: str, max_bytes: int) -> Plan:
    """Read everything a source holds, checked, before anything is written."""
    folder, name = os.path.split(os.path.abspath(source))
    source = os.path.join(os.path.realpath(folder), name)  # a person may be behind a link
    warnings: list[str] = []
    if os.path.isdir(source):
        files = _read_directory(source, max_bytes, warnings)
    elif not os.path.isfile(source):
        hint = "Give a zip from `retain export`, a store's directory, or a .md file."
        message = f"there is nothing at {source}"
        raise NotFound(message, unchanged="Nothing was imported.", hint=hint)
    elif zipfile.is_zipfile(source):
        files = _read_zip(source, max_bytes, warnings)
    elif source.endswith(SUFFIXES):
        with Directory.open(os.path.dirname(source)) as directory:
            files = {f"memories/{name}": directory.read(name, max_bytes)}
    else:
        raise _refuse(
            f"{source} is not a zip file or a memory",
            "Give a zip from `retain export`, a store's directory, or a .md file.",
        )
    manifest = files.pop(MANIFEST, b"")
    files = _check_names(source, files)
    if not _check_manifest(source, manifest, files, warnings):
        files = {path: _mend_head(path, data, warnings) for path, data in files.items()}
    return Plan(source, files, warnings)


def _read_directory(source: str, max_bytes: int, warnings: list[str]) -> _Files:
    """The files of a bank of any kind, or of a directory that holds one."""
    location = find_bank(source, {}, bank=source)
    read_file(config_file(location.root), follow=False)  # a newer format is refused
    bank = Bank(location, max_bytes=max_bytes)
    manifest = os.path.join(location.root, MANIFEST)
    is_bank = location.kind == "retain" and any(
        os.path.isfile(path) for path in (manifest, os.path.join(location.root, CONFIG))
    )
    at_root = "" if is_bank else KINDS[location.kind].default_collection or "memories"
    problems: list[Problem] = []
    files: _Files = {}
    for memory in bank.memories(problems=problems):
        if memory.path != manifest:
            path = f"{memory.collection or at_root}/{os.path.basename(memory.path)}"
            files[path.removeprefix("/")] = memory.data
    for path, reason, is_minor in problems:
        if is_minor or path == manifest:
            continue
        if os.path.islink(path) or not os.path.isdir(path):
            hint = "Move it away, then import again."
            raise _refuse(f"{path} cannot be taken over: {reason}", hint)
        warnings.append(f"left behind: {path}: {reason}")
    warnings += [_left_behind(name) for name in _read_profiles(bank)]
    with contextlib.suppress(RetainError), Directory.open(location.root) as root:
        files[MANIFEST] = root.read(MANIFEST, MAX_MANIFEST)
    return files


def _read_zip(source: str, max_bytes: int, warnings: list[str]) -> _Files:
    """The files in an archive; what it says of their sizes is not believed."""
    room = max(BOMB_TOTAL, os.path.getsize(source) * BOMB_RATIO)
    files: _Files = {}
    name = ""
    try:
        with zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_FILES:
                raise _refuse_zip(source, f"it has more than {MAX_FILES:,} entries")
            for entry in entries:
                name = "" if entry.is_dir() else _check_entry(entry, source)
                if name in PROFILES:
                    warnings.append(_left_behind(name))
                elif name.endswith(SUFFIXES):
                    limit = MAX_MANIFEST if name == MANIFEST else max_bytes
                    with archive.open(entry) as file:
                        data = file.read(limit + 1)
                    room -= len(data)
                    if len(data) > limit or room < 0:
                        raise _refuse_zip(source, f"{name!r} is larger than any text would be")
                    if name in files:
                        raise _refuse_zip(source, f"{name!r} is in it twice")
                    files[name] = data
    except _UNPACKING as error:
        raise _refuse_zip(source, f"{name!r}: {error}" if name else str(error)) from error
    return files


def _check_entry(entry: zipfile.ZipInfo, source: str) -> str:
    """An entry's name; empty for what an operating system adds of its own accord."""
    name = entry.filename
    parts = name.split("/")
    leads_out = ".." in parts or name.startswith("/") or "\\" in name
    if leads_out or stat.S_ISLNK(entry.external_attr >> 16):
        raise _refuse_zip(source, f"the entry {name!r} is a link or leads out of the bank")
    if parts[0] == "__MACOSX" or any(part.startswith(".") for part in parts):
        return ""
    if len(parts) > 2:
        raise _refuse(
            f"{source}: {name!r} lies deeper than collection/memory",
            "Unpack it, and import the directory that holds the collections.",
        )
    # The others unpack whole what they are asked for a part of, however much that is.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _refuse_zip(source, f"{name!r} is packed in an uncommon way")
    return name


def _check_names(source: str, files: _Files) -> _Files:
    """The files under names that can be stored, no two of them one memory."""
    checked: _Files = {}
    seen: dict[tuple[str, str], str] = {}
    for path, data in files.items():
        collection, _, name = path.rpartition("/")
        stem, suffix = os.path.splitext(name)
        try:
            collection, stem = check_collection(collection), check_id(stem)
        except RetainError as error:
            raise _refuse(error.message) from error
        twin = seen.setdefault((key(collection), key(stem)), path)
        if twin != path:
            message = f"{twin} and {path} in {source} would be one memory"
            raise _refuse(message, "Rename one of them.")
        checked[f"{collection}/{stem}{suffix}".removeprefix("/")] = data
    if not checked:
        raise _refuse(f"there are no memories in {source}")
    return checked


def _check_manifest(source: str, manifest: bytes, files: _Files, warnings: list[str]) -> bool:
    """Refuse an export that lost files, say which were changed, and whether it is an export."""
    try:
        facts = json.loads(manifest)
        version, listed = facts.get("format", 1), dict(facts["files"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return False
    if version != 1:
        raise NewerFormat(
            f"{source} was exported by a newer Retain (format {version})",
            unchanged="Nothing was imported.",
            hint="Upgrade Retain: pip install --upgrade retain-bank",
        )
    missing = [name for name in listed if name not in files and name not in PROFILES]
    if missing:
        more = f" and {len(missing) - 1} more are missing" if missing[1:] else " is missing"
        raise _refuse(
            f"{source} is not whole: {missing[0]}{more}",
            f"Export it again, or delete {MANIFEST} to take what is there.",
        )
    for name, data in files.items():
        if name in listed and listed[name] != _digest(data):
            warnings.append(f"changed since it was exported: {name}")
    return bool(listed)


def _mend_head(path: str, data: bytes, warnings: list[str]) -> bytes:
    """Quote what other tools write and YAML cannot read, such as `title: GPU: a survey`."""
    if not path.endswith(".md") or not data.startswith(b"---"):
        return data
    problem = markdown.parse(data).problem
    if not problem:
        return data
    with contextlib.suppress(Unreadable, UnicodeDecodeError):
        text = data.decode("utf-8")
        start, end, _ = frontmatter.split(text) or (0, 0, 0)
        lines = map(_mend_line, text[start:end].split("\n"))
        mended = (text[:start] + "\n".join(lines) + text[end:]).encode("utf-8")
        if not markdown.parse(mended).problem:
            warnings.append(f"{path}: its frontmatter was no YAML, and values were quoted")
            return mended
    warnings.append(f"{path}: its title, tags and other fields are not understood: {problem}")
    return data


def _mend_line(line: str) -> str:
    field = _FIELD.fullmatch(line.rstrip(" \t\r"))
    try:
        frontmatter.load(line)
    except Unreadable:
        if field:
            value = frontmatter.dump_scalar(field[2], flow=False)
            return f"{field[1]}: {value}" + "\r" * line.endswith("\r")
    return line


def _left_behind(profile: str) -> str:
    return f"left behind: {profile}, which speaks for one person; copy it yourself if it is yours"


def _refuse(message: str, hint: str = "") -> ImportRefused:
    return ImportRefused(message, unchanged="Nothing was imported.", hint=hint)


def _refuse_zip(source: str, reason: str) -> ImportRefused:
    return _refuse(f"{source} cannot be unpacked: {reason}")
