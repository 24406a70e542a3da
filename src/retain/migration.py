"""A chat workspace of plain files brought into a bank: profiles, skills, facts and sessions.

Such a workspace has `context/system_prompt.md`, `memories/` with three profiles and perhaps other
notes, `skills/`, `sessions/`, and perhaps a database (`retain.db`, `spark.db`) that holds the same
sessions once more. It is only read, and all of it is read before anything is stored. What the bank
has already stays as it is, so a second time changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank import trash
from retain.bank.files import Directory, WriteTransaction
from retain.bank.markdown import parse_file
from retain.errors import Conflict, ImportRefused, NotFound, RetainError, UsageError
from retain.facts import memory_md
from retain.facts.compare import same_key
from retain.facts.store import COLLECTION, TYPE, Facts
from retain.memory import PROFILES, slug
from retain.sessions import formats
from retain.sessions.files import ImportReport, make_report, read_source, redact_chats
from retain.sessions.model import Chat, clean_unicode
from retain.text.secrets import redact

if TYPE_CHECKING:
    from retain.app import App
    from retain.bank.bank import Bank

PROMPT: Final = "context/system_prompt.md"
DATABASES: Final = ("retain.db", "spark.db")
MAX_DATABASE: Final = 2_000_000_000  # bytes
_PARTS: Final = ("memories", "sessions", "context", "skills", *DATABASES)
_HINT: Final = "Name the workspace or the directory it is in: retain migrate PATH"


class WorkspaceFact(NamedTuple):
    """A fact that the workspace knows, and where it says so."""

    fact: str
    source: str
    category: str = ""
    created_at: str = ""


class Workspace(NamedTuple):
    """Everything that a workspace holds, read and not yet stored."""

    root: str
    files: Sequence[tuple[str, bytes]]  # profiles, the prompt and skills: path in the bank, bytes
    notes: Sequence[tuple[str, bytes]]  # other files of its memories, by their names
    facts: Sequence[WorkspaceFact]  # of its database
    chats: Sequence[Chat]


class MigratedFile(NamedTuple):
    """A profile, the prompt, a skill's file or a note, and what became of it."""

    name: str
    status: str  # copied, unchanged, kept (the bank has its own), deleted (here), facts (its lines)


class Migrated(NamedTuple):
    """What was done, or in a dry run would be."""

    source: str
    dry_run: bool
    files: Sequence[MigratedFile]
    facts: Sequence[str]  # those that are new, as they are stored
    known_facts: int
    sessions: ImportReport
    warnings: Sequence[str]


def migrate(
    app: App, source: str, *, allow_secret: bool = False, dry_run: bool = False
) -> Migrated:
    """Bring a chat workspace of plain files into the bank in force, nothing of it twice."""
    app.refuse_switched_off()
    warnings: list[str] = []
    path = os.path.realpath(os.path.join(app.cwd, os.path.expanduser(source)))
    workspace = _read_workspace(path, app.config.number("memory.max_bytes"), warnings)
    if not dry_run:
        app.ensure_bank()
    bank = app.opened
    if bank.location.kind != "retain":
        raise UsageError(
            f"{bank.root} is a store of another kind, without profiles",
            unchanged="Nothing was migrated.",
            hint="Make a bank first: retain init",
        )
    redacts = not allow_secret and app.config.flag("guard.redact_secrets")
    if redacts:
        workspace = _redact_workspace(workspace, warnings)
    files = [MigratedFile(name, _copy(bank, name, data, dry_run)) for name, data in workspace.files]
    lists = [(name, data) for name, data in workspace.notes if _is_list(data)]
    for name, data in workspace.notes:
        is_list = (name, data) in lists
        status = "facts" if is_list else _store_note(app, name, data, redacts, dry_run, warnings)
        files.append(MigratedFile(name, status))
    lists += [(name, data) for name, data in workspace.files if name == memory_md.NAME]
    facts: dict[str, WorkspaceFact] = {}
    for fact in [*_facts_in_lists(lists), *workspace.facts]:
        facts.setdefault(same_key(fact.fact), fact)
    facts.pop("", None)
    known = _known_facts(bank)
    new = [fact for key, fact in facts.items() if key not in known]
    stored = [fact.fact for fact in new] if dry_run else _store_facts(app, new, redacts, warnings)
    deleted = _deleted_chats(app.own.bank)
    chats = [chat for chat in workspace.chats if chat.origin not in deleted]
    imported = app.sessions.import_chats(chats, dry_run=dry_run) if chats else []
    report = make_report(workspace.root, imported, ())
    return Migrated(
        workspace.root,
        dry_run,
        files,
        stored,
        len(facts) - len(new),
        report._replace(warnings=()),
        [*warnings, *report.warnings],
    )


# Read


def _read_workspace(path: str, max_bytes: int, warnings: list[str]) -> Workspace:
    """Read a workspace, or the one in a directory."""
    for root in (os.path.join(path, "workspace"), path):
        if any(os.path.exists(os.path.join(root, part)) for part in _PARTS):
            break
    else:
        if not os.path.isdir(path):
            raise NotFound(
                f"there is no directory {path}", unchanged="Nothing was migrated.", hint=_HINT
            )
        raise ImportRefused(
            f"{path} is no chat workspace: it has no memories/, sessions/ or context/",
            unchanged="Nothing was migrated.",
            hint=_HINT,
        )
    with Directory.open(root) as folder:
        memories = dict(_read_files(folder, "memories", max_bytes, warnings))
        prompt = dict(_read_files(folder, "context", max_bytes, warnings))
        skills = [*_read_files(folder, "skills", max_bytes, warnings)]
    files = [(PROMPT, prompt[PROMPT])] if PROMPT in prompt else []
    files += [(n, memories[f"memories/{n}"]) for n in PROFILES if f"memories/{n}" in memories]
    notes = [
        (name.removeprefix("memories/"), data)
        for name, data in memories.items()
        if name.lower().endswith(".md") and name.count("/") == 1
    ]
    chats: list[Chat] = []
    facts: list[WorkspaceFact] = []
    if os.path.isdir(os.path.join(root, "sessions")):
        for found in read_source(os.path.join(root, "sessions"), warnings):
            chats += found
    for name in DATABASES:
        if os.path.isfile(os.path.join(root, name)):
            more, told = _read_database(os.path.join(root, name), warnings)
            chats, facts = [*more, *chats], [*facts, *told]
    notes = [note for note in notes if note[0] not in PROFILES]
    return Workspace(root, [*files, *skills], notes, facts, _merge_copies(chats))


def _read_files(
    folder: Directory, path: str, max_bytes: int, warnings: list[str]
) -> Iterator[tuple[str, bytes]]:
    """The plain files below a directory, by their paths; links are named and passed over."""
    with contextlib.suppress(NotFound), folder.descend(*path.split("/")) as inner:
        for entry in inner.entries():
            name = f"{path}/{entry.name}"
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _read_files(folder, name, max_bytes, warnings)
                continue
            try:
                yield name, inner.read(entry.name, max_bytes)
            except RetainError as error:
                warnings.append(f"left behind: {error.message}")


def _read_database(path: str, warnings: list[str]) -> tuple[list[Chat], list[WorkspaceFact]]:
    """Sessions and facts of a database, read from a copy: to look at one in use would touch it."""
    if os.path.getsize(path) > MAX_DATABASE:
        warnings.append(f"left behind: {path} has more than {MAX_DATABASE:,} bytes")
        return [], []
    with tempfile.TemporaryDirectory(prefix="retain-") as folder:
        copy = os.path.join(folder, "copy.db")
        for ending in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(path + ending, copy + ending)
        try:
            with contextlib.closing(sqlite3.connect(copy)) as connection:
                connection.row_factory = sqlite3.Row
                # Whoever made the file may have put anything into its views.
                connection.execute("PRAGMA trusted_schema = 0")
                connection.execute("PRAGMA cell_size_check = 1")
                return _database_chats(connection, path, warnings), _database_facts(
                    connection, path
                )
        except (sqlite3.Error, OverflowError) as error:
            warnings.append(f"left behind: {path}: {error}")
            return [], []


def _database_chats(connection: sqlite3.Connection, path: str, warnings: list[str]) -> list[Chat]:
    chats = []
    columns = "id, title, summary, created_at, updated_at, tags"
    for row in connection.execute(f"SELECT {columns} FROM sessions ORDER BY id"):  # noqa: S608
        messages = connection.execute(
            "SELECT role, content, timestamp, token_count FROM messages WHERE session_id = ? "
            "ORDER BY id",
            (row["id"],),
        ).fetchall()
        tags: object = None
        with contextlib.suppress(ValueError, RecursionError):
            tags = json.loads(str(row["tags"]))
        if messages:  # one in which nothing was said is nothing to bring along
            record = {**dict(row), "tags": tags, "messages": [*map(dict, messages)]}
            chat = formats.chat_from_dict(record, warnings, f"{path}: {row['id']}")
            chats += [chat] if chat else []
    return chats


def _database_facts(connection: sqlite3.Connection, path: str) -> list[WorkspaceFact]:
    query = "SELECT fact, category, created_at FROM memories WHERE superseded_by IS NULL"
    source = f"workspace {os.path.basename(path)}"
    return [
        WorkspaceFact(
            " ".join(clean_unicode(fact).split()),
            source,
            "" if category in (None, "general") else str(category),
            formats.utc_time(created),
        )
        for fact, category, created in connection.execute(query)
        if isinstance(fact, str)
    ]


def _merge_copies(chats: Sequence[Chat]) -> list[Chat]:
    """Chats of which the database and a file each have a copy, once: the longer one."""
    kept: list[Chat] = []
    longest: dict[str, Chat] = {}
    for chat in sorted(chats, key=lambda chat: -len(chat.messages)):
        longer = longest.setdefault(chat.origin, chat)
        pairs = zip(chat.messages, longer.messages, strict=False)
        is_same = all(one[:2] == other[:2] for one, other in pairs)  # role and content
        if longer is chat or not is_same:
            kept.append(chat)
    return sorted(kept, key=lambda chat: (chat.created_at, chat.id))


def _redact_workspace(workspace: Workspace, warnings: list[str]) -> Workspace:
    """Take the secrets out of all that a workspace holds, and say what was replaced."""

    def redact_files(files: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
        clean = []
        for name, data in files:
            text, kinds = redact(data.decode("utf-8", "surrogateescape"))
            if kinds:
                kinds_text = ", ".join(sorted(set(kinds)))
                warnings.append(f"{name}: replaced {kinds_text} by [REDACTED:...]")
            clean.append((name, text.encode("utf-8", "surrogateescape")))
        return clean

    return workspace._replace(
        files=redact_files(workspace.files),
        notes=redact_files(workspace.notes),
        facts=[fact._replace(fact=redact(fact.fact).text) for fact in workspace.facts],
        chats=redact_chats(workspace.chats, warnings),
    )


# Store


def _copy(bank: Bank, name: str, data: bytes, dry_run: bool) -> str:
    """Put a file where the bank has none; one that is there is never overwritten."""
    *folders, file = name.split("/")
    if os.path.isdir(bank.root):
        with (
            contextlib.suppress(NotFound),
            Directory.open(bank.root) as root,
            root.descend(*folders) as folder,
        ):
            if folder.has(file):
                return "unchanged" if folder.holds(file, data) else "kept"
    if not dry_run:
        with (
            Directory.open(bank.root) as root,
            WriteTransaction.open(root, os.path.join(bank.root, name)) as transaction,
            root.descend(*folders, create=True) as folder,
        ):
            try:
                transaction.create(folder, file, data)
            except Conflict:
                return "kept"
    return "copied"


def _store_note(
    app: App, name: str, data: bytes, redacts: bool, dry_run: bool, warnings: list[str]
) -> str:
    """Store a note as a memory, known again by its source; what was made of it here stays."""
    text, source = data.decode("utf-8-sig", "replace"), f"workspace {name}"
    if not text.strip():
        return "unchanged"
    bank = app.opened
    collection = bank.kind.default_collection
    if os.path.isdir(bank.root):
        body = parse_file("note.md", text.encode()).body.strip()
        for memory in bank.memories(collection):
            if memory.text("source") == source:
                return "unchanged" if memory.body.strip() == body else "kept"
        for path, trashed in _read_trash(bank, collection):
            if parse_file(path, trashed).meta.get("source") == source:
                return "deleted"
    if not dry_run:
        try:
            done = app.put(
                text,
                id=f"{collection}/{slug(os.path.splitext(name)[0]) or 'note'}",
                is_new=True,
                metadata={"source": source},
                allow_secret=not redacts,
            )
        except RetainError as error:  # another memory has that name, or it is refused
            warnings.append(f"left behind: {name}: {error.message}")
            return "kept"
        warnings += done.warnings
    return "copied"


def _is_list(data: bytes) -> bool:
    """Whether there are bullets in a file and nothing else, so that facts say all of it."""
    page = memory_md.parse(data.decode("utf-8", "surrogateescape"))
    listed = {line for item in page.bullets for line in range(item.first, item.end)}
    others = (line for number, line in enumerate(page.lines) if number not in listed)
    return bool(listed) and not any(line.strip() for line in others)


def _facts_in_lists(files: Sequence[tuple[str, bytes]]) -> Iterator[WorkspaceFact]:
    """The bullets of lists, by the rules by which the bank's own MEMORY.md is read."""
    for name, data in files:
        for item in memory_md.parse(data.decode("utf-8", "surrogateescape")).bullets:
            yield WorkspaceFact(item.text, f"workspace {name}")


def _store_facts(
    app: App, new: Sequence[WorkspaceFact], redacts: bool, warnings: list[str]
) -> list[str]:
    """Store facts as memories, and bring the bank's list in step with them."""
    facts = Facts(app)
    refs = []
    for fact in new:
        try:
            added = facts.take(
                fact.fact,
                allow_secret=not redacts,
                source=fact.source,
                category=fact.category,
                created_at=fact.created_at,
            )
        except RetainError as error:  # one that is refused stands in nobody else's way
            warnings.append(f"left behind: {error.message}")
            continue
        warnings += added.notes
        app.sessions.remember(added.text, fact.category, "", added.ref)
        refs.append(added.ref)
    warnings += facts.sync().notes  # also where nothing is new: the list may be
    return refs


# What the bank knows, also what was deleted there: that is not wanted back


def _known_facts(bank: Bank) -> set[str]:
    if not os.path.isdir(bank.root):
        return set()
    present = {
        same_key(memory.body)
        for memory in bank.memories()
        if memory.type == TYPE or memory.collection == COLLECTION
    }
    return present | {
        same_key(parse_file(path, data).body) for path, data in _read_trash(bank, COLLECTION)
    }


def _deleted_chats(bank: Bank) -> set[str]:
    """Where the chats in the trash came from, by which they are known when they come again."""
    origins: set[str] = set()
    for path, data in _read_trash(bank, trash.CHATS):
        with contextlib.suppress(RetainError):  # someone's own file in the trash
            found = formats.parse(data, os.path.basename(path))
            origins.update(chat.origin for chat in (found.chats if found else ()))
    return origins


def _read_trash(bank: Bank, collection: str) -> Iterator[tuple[str, bytes]]:
    """The files in the trash of a collection, as far as they can be read."""
    for entry in bank.trash.entries():
        if entry.collection == collection:
            with (
                contextlib.suppress(RetainError),
                Directory.open(os.path.dirname(entry.path)) as folder,
            ):
                yield entry.path, folder.read(os.path.basename(entry.path), entry.size)
