"""A chat workspace of plain files brought into a bank: profiles, facts and sessions, nothing twice.

Such a workspace has `context/system_prompt.md`, `memories/` with three profiles and perhaps other
notes, `sessions/`, and perhaps a database (`retain.db`, `spark.db`) that holds the same sessions
once more. It is only read. What the bank has already stays as it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain import chats
from retain.bank import trash
from retain.bank.files import Directory, WriteTransaction
from retain.bank.markdown import parse_file
from retain.errors import Conflict, ImportRefused, NotFound, RetainError, UsageError
from retain.facts import memory_md
from retain.facts.compare import same_key
from retain.facts.store import COLLECTION, TYPE, Facts
from retain.memory import PROFILES, slug
from retain.sessions import formats
from retain.sessions.model import Chat, whole
from retain.text.secrets import redact

if TYPE_CHECKING:
    from retain.app import App
    from retain.bank.bank import Bank


PROMPT: Final = ("context", "system_prompt.md")
DATABASES: Final = ("retain.db", "spark.db")
MAX_DATABASE: Final = 2_000_000_000  # bytes
_MEMORIES: Final = "memories"
_SESSIONS: Final = "sessions"
_NAME_IT: Final = "Name the workspace or the directory it is in: retain migrate PATH"
_MOST_MESSAGES: Final = 2_000_000


class Told(NamedTuple):
    """A fact that the workspace knows, and where it says so."""

    fact: str
    source: str
    category: str = ""
    created_at: str = ""


class Plan(NamedTuple):
    """Everything that a workspace holds, read and not yet stored."""

    source: str
    files: Sequence[tuple[str, bytes]]  # the place in the bank, the bytes
    notes: Sequence[tuple[str, bytes]]  # other files of its memories, by their names
    facts: Sequence[Told]  # of its database; its list is among the files
    chats: Sequence[Chat]
    warnings: Sequence[str]


class Copied(NamedTuple):
    """A profile, the prompt or a note, and what became of it."""

    name: str
    status: str  # copied, unchanged, kept (the bank has its own), deleted (here), facts (its lines)


class Migrated(NamedTuple):
    """What was done, or in a dry run would be."""

    source: str
    dry_run: bool
    files: Sequence[Copied]
    facts: Sequence[str]  # those that are new, as they are stored
    known_facts: int
    sessions: chats.Imported
    warnings: Sequence[str]


# Reading


def plan(path: str, max_bytes: int) -> Plan:
    """Read a workspace, or the directory that has one."""
    root = _workspace(os.path.realpath(path))
    warnings: list[str] = []
    with Directory.open(root) as folder:
        files = list(_files(folder, max_bytes, warnings))
        notes = list(_notes(folder, max_bytes, warnings))
    found: list[Chat] = []
    told: list[Told] = []
    sessions = os.path.join(root, _SESSIONS)
    if os.path.isdir(sessions):
        for read in chats.read_all(sessions, warnings):
            found += read.chats
    for name in DATABASES:
        if os.path.isfile(os.path.join(root, name)):
            more, facts = _from_database(os.path.join(root, name), warnings)
            found, told = _merged([*more, *found]), [*told, *facts]
    return Plan(root, files, notes, told, found, warnings)


def _workspace(path: str) -> str:
    for root in (os.path.join(path, "workspace"), path):
        parts = (_MEMORIES, _SESSIONS, PROMPT[0], *DATABASES)
        if any(os.path.exists(os.path.join(root, part)) for part in parts):
            return root
    if not os.path.isdir(path):
        raise NotFound(
            f"there is no directory {path}", unchanged="Nothing was migrated.", hint=_NAME_IT
        )
    raise ImportRefused(
        f"{path} is no chat workspace: it has no memories/, sessions/ or context/",
        unchanged="Nothing was migrated.",
        hint=_NAME_IT,
    )


def _files(folder: Directory, limit: int, warnings: list[str]) -> Iterator[tuple[str, bytes]]:
    """The prompt and the profiles that are there."""
    places = [("/".join(PROMPT), *PROMPT), *((name, _MEMORIES, name) for name in PROFILES)]
    for target, below, name in places:
        try:
            with folder.child(below) as inner:
                yield target, inner.read(name, limit)
        except NotFound:
            continue
        except RetainError as error:
            warnings.append(f"left behind: {error.message}")


def _notes(folder: Directory, limit: int, warnings: list[str]) -> Iterator[tuple[str, bytes]]:
    """Whatever else was noted beside the profiles."""
    with contextlib.suppress(NotFound), folder.child(_MEMORIES) as inner:
        for name in sorted(one.name for one in inner.entries()):
            if not name.lower().endswith(".md") or name in PROFILES or name.startswith("."):
                continue
            try:
                yield name, inner.read(name, limit)
            except RetainError as error:
                warnings.append(f"left behind: {error.message}")


# Its database


def _from_database(path: str, warnings: list[str]) -> tuple[list[Chat], list[Told]]:
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
                # Whoever made the file may have put anything into its views.
                connection.execute("PRAGMA trusted_schema = 0")
                connection.execute("PRAGMA cell_size_check = 1")
                return _chats(connection, path, warnings), _facts(connection, path)
        except (sqlite3.Error, OverflowError) as error:
            warnings.append(f"left behind: {path}: {error}")
            return [], []


def _chats(connection: sqlite3.Connection, path: str, warnings: list[str]) -> list[Chat]:
    said: dict[object, list[dict[str, object]]] = {}
    query = "SELECT session_id, role, content, timestamp, token_count FROM messages ORDER BY id"
    for session, *values in connection.execute(f"{query} LIMIT {_MOST_MESSAGES}"):
        keys = ("role", "content", "timestamp", "token_count")
        said.setdefault(session, []).append(dict(zip(keys, values, strict=True)))
    found = []
    columns = "id, title, summary, created_at, updated_at, tags"
    for row in connection.execute(f"SELECT {columns} FROM sessions ORDER BY id"):  # noqa: S608
        record = dict(zip(columns.split(", "), row, strict=True))
        if record["id"] in said:  # one in which nothing was said is nothing to bring along
            record |= {"messages": said[record["id"]], "tags": _listed(record["tags"])}
            chat = formats.chat_of(record, warnings, f"{path}: {record['id']}")
            found += [chat] if chat else []
    return found


def _listed(tags: object) -> object:
    import json

    try:
        return json.loads(str(tags))
    except (ValueError, RecursionError):
        return []


def _facts(connection: sqlite3.Connection, path: str) -> list[Told]:
    query = "SELECT fact, category, created_at FROM memories WHERE superseded_by IS NULL"
    source = f"workspace {os.path.basename(path)}"
    return [
        Told(
            " ".join(whole(fact).split()),
            source,
            "" if category in (None, "general") else str(category),
            formats.moment(created),
        )
        for fact, category, created in connection.execute(query)
        if isinstance(fact, str)
    ]


def _merged(found: Sequence[Chat]) -> list[Chat]:
    """Chats of which the database and a file each have a copy, once: the longer one."""
    kept: list[Chat] = []
    for chat in sorted(found, key=lambda one: -len(one.said)):
        if not any(_is_part(chat, other) for other in kept):
            kept.append(chat)
    return sorted(kept, key=lambda one: (one.created_at, one.id))


def _is_part(chat: Chat, other: Chat) -> bool:
    return chat.id == other.id and all(
        one.role == there.role and one.content == there.content
        for one, there in zip(chat.said, other.said, strict=False)
    )


# Storing


def migrate(
    app: App, source: str, *, allow_secret: bool = False, dry_run: bool = False
) -> Migrated:
    """Bring a chat workspace of plain files into the bank in force, nothing of it twice."""
    app.refuse_switched_off()
    path = os.path.join(app.cwd, os.path.expanduser(source))
    wanted = plan(path, app.config.number("memory.max_bytes"))
    if not dry_run:
        app.ensure_bank()
    is_bare = allow_secret or not app.config.flag("guard.redact_secrets")
    bank = app.opened
    if bank.location.kind != "retain":
        raise UsageError(
            f"{bank.root} is a store of another kind, without profiles",
            unchanged="Nothing was migrated.",
            hint="Make a bank first: retain init",
        )
    warnings: list[str] = []
    clean = [(name, _clean(name, data, is_bare, warnings)) for name, data in wanted.files]
    files = [Copied(name, _copied(bank, name, data, dry_run=dry_run)) for name, data in clean]
    notes = [(name, _clean(name, data, is_bare, warnings)) for name, data in wanted.notes]
    lists = [one for one in notes if _is_list(one[1])]
    keeping = _Keeping(app, bank, is_bare, dry_run, warnings)
    files += [
        Copied(name, "facts" if (name, data) in lists else keeping.kept(name, data))
        for name, data in notes
    ]
    lists += [one for one in clean if one[0] == memory_md.NAME]
    told = _unique([*_listed_in(lists), *wanted.facts], is_bare)
    known = _known(bank)
    news = [one for key, one in told.items() if key not in known]
    stored = [one.fact for one in news] if dry_run else _stored(app, news, is_bare, warnings)
    thrown = _thrown_chats(app.own.bank)
    several = [one for one in wanted.chats if one.origin not in thrown]
    if not is_bare:
        several = chats.cleaned(several, warnings)
    taken = app.sessions.take_in(several, dry_run=dry_run) if several else []
    imported = chats.counted(wanted.source, taken, ())
    return Migrated(
        wanted.source,
        dry_run,
        files,
        stored,
        len(told) - len(news),
        imported._replace(warnings=()),
        [*wanted.warnings, *warnings, *imported.warnings],
    )


def _listed_in(files: Sequence[tuple[str, bytes]]) -> Iterator[Told]:
    """The bullets of lists, by the rules by which the bank's own MEMORY.md is read."""
    for name, data in files:
        for item in memory_md.parse(data.decode("utf-8", "surrogateescape")).bullets:
            yield Told(item.text, _origin(name))


def _is_list(data: bytes) -> bool:
    """Whether there are bullets in a file and nothing else, so that facts say all of it."""
    page = memory_md.parse(data.decode("utf-8", "surrogateescape"))
    listed = {line for item in page.bullets for line in range(item.first, item.end)}
    others = (line for number, line in enumerate(page.lines) if number not in listed)
    return bool(listed) and not any(line.strip() for line in others)


def _origin(name: str) -> str:
    return f"workspace {name}"


class _Keeping(NamedTuple):
    """How notes are stored: each as a memory, known again by where it came from."""

    app: App
    bank: Bank
    is_bare: bool
    dry_run: bool
    warnings: list[str]

    def kept(self, name: str, data: bytes) -> str:
        """Store a note, unless it came before; what was made of it here stays."""
        text = data.decode("utf-8-sig", "replace")
        if not text.strip():
            return "unchanged"
        if status := self._known(name, text):
            return status
        return "copied" if self.dry_run else self._stored(name, text)

    @property
    def _collection(self) -> str:
        return self.bank.kind.default_collection

    def _known(self, name: str, text: str) -> str:
        if not os.path.isdir(self.bank.root):
            return ""
        for memory in self.bank.memories(self._collection):
            if memory.text("source") == _origin(name):
                body = parse_file("note.md", text.encode()).body
                return "unchanged" if memory.body.strip() == body.strip() else "kept"
        thrown = (parse_file(path, data) for path, data in _thrown(self.bank, self._collection))
        return "deleted" if any(it.meta.get("source") == _origin(name) for it in thrown) else ""

    def _stored(self, name: str, text: str) -> str:
        stem = slug(os.path.splitext(name)[0]) or "note"
        number = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:6]
        for wanted in (stem, f"{stem}-{number}"):
            try:
                done = self.app.put(
                    text,
                    id=f"{self._collection}/{wanted}",
                    is_new=True,
                    metadata={"source": _origin(name)},
                    allow_secret=self.is_bare,
                )
            except Conflict:  # another memory has that name
                continue
            except RetainError as error:
                self.warnings.append(f"left behind: {name}: {error.message}")
                return "kept"
            self.warnings.extend(done.warnings)
            return "copied"
        self.warnings.append(f"left behind: {name}: no name is free for it")
        return "kept"


def _unique(told: Sequence[Told], is_bare: bool) -> dict[str, Told]:
    """Each fact once, by the form in which two are the same one."""
    found: dict[str, Told] = {}
    for one in told:
        found.setdefault(same_key(one.fact if is_bare else redact(one.fact).text), one)
    found.pop("", None)
    return found


def _clean(name: str, data: bytes, is_bare: bool, warnings: list[str]) -> bytes:
    if is_bare:
        return data
    text, kinds = redact(data.decode("utf-8", "surrogateescape"))
    if kinds:
        warnings.append(f"{name}: replaced {', '.join(sorted(set(kinds)))} by [REDACTED:...]")
    return text.encode("utf-8", "surrogateescape") if kinds else data


def _copied(bank: Bank, name: str, data: bytes, *, dry_run: bool) -> str:
    """Put a file where the bank has none; one that is there is never overwritten."""
    below, _, file = name.rpartition("/")
    if os.path.isdir(bank.root):
        with (
            Directory.open(bank.root) as root,
            contextlib.suppress(NotFound),
            root.child(below) as folder,
        ):
            if folder.has(file):
                return "unchanged" if folder.holds(file, data) else "kept"
    if dry_run:
        return "copied"
    with (
        Directory.open(bank.root) as root,
        WriteTransaction.open(root, os.path.join(bank.root, name)) as shop,
        shop.root.child(below, create=True) as folder,
        contextlib.suppress(Conflict),
    ):
        shop.create(folder, file, data)
        return "copied"
    return "kept"


def _known(bank: Bank) -> set[str]:
    """The facts that the bank has, also those retired or deleted: they are not wanted back."""
    if not os.path.isdir(bank.root):
        return set()
    present = {
        same_key(memory.body)
        for memory in bank.memories()
        if memory.type == TYPE or memory.collection == COLLECTION
    }
    thrown = (parse_file(path, data).body for path, data in _thrown(bank, COLLECTION))
    return present.union(map(same_key, thrown))


def _thrown_chats(bank: Bank) -> set[str]:
    """Where the chats in the trash came from, by which they are known when they come again."""
    origins: set[str] = set()
    for path, data in _thrown(bank, trash.CHATS):
        with contextlib.suppress(RetainError):  # someone's own file in the trash
            found = formats.read(data, os.path.basename(path))
            origins.update(chat.origin for chat in (found.chats if found else ()) if chat.origin)
    return origins


def _thrown(bank: Bank, collection: str) -> Iterator[tuple[str, bytes]]:
    """What lies in the trash of a collection, as far as it can be read."""
    for one in bank.trash.entries():
        if one.collection == collection:
            with (
                contextlib.suppress(RetainError),
                Directory.open(os.path.dirname(one.path)) as folder,
            ):
                yield one.path, folder.read(os.path.basename(one.path), one.size)


def _stored(app: App, news: Sequence[Told], is_bare: bool, warnings: list[str]) -> list[str]:
    """Store facts as memories, and bring the bank's list in step with them."""
    facts = Facts(app)
    refs = []
    for one in news:
        try:
            added = facts.take(
                one.fact,
                allow_secret=is_bare,
                source=one.source,
                category=one.category,
                created_at=one.created_at,
            )
        except RetainError as error:  # one that is refused stands in nobody else's way
            warnings.append(f"left behind: {error.message}")
            continue
        warnings += added.notes
        app.sessions.remember(added.text, one.category, "", added.ref)
        refs.append(added.ref)
    warnings += facts.sync().notes  # also where nothing is new: the list may be
    return refs
