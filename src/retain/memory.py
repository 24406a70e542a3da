"""The values that travel between Retain's layers, and what memories are called.

They are named tuples, not dataclasses: importing `dataclasses` pulls in `inspect` and would
cost every command about one bare interpreter start. Annotations are not strings here, because
`NamedTuple` would compile each of them, which costs every command a millisecond.
"""

import time
import unicodedata
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import BadName, UsageError
from retain.text.sanitize import shorten

if TYPE_CHECKING:
    from datetime import datetime

Data = dict[str, object]  # a value as JSON has it, behind every door; see docs/json.md

DEFAULT_TYPE: Final = "journal"
FREE_TYPES: Final = (DEFAULT_TYPE, "plan", "fact", "observation", "reflection")
MAX_CAUTIONS: Final = 3  # that stand with a hit in a prompt
FAR_BEHIND: Final = 0.25  # of the best score: what is below it is noise
ENOUGH: Final = 0.5  # confidence from which on an answer counts as found
STATUSES: Final = ("active", "archived", "retired")

_TITLE_FROM_TEXT = 50  # characters of the first line that stand in for a missing title


def now() -> str:
    """The present time as Retain writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def parse_time(text: str) -> "datetime | None":
    """A time as memories state it, in UTC, also if it names no zone; None for what is none."""
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text.strip())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _text(value: object) -> str:
    return "" if value is None else str(value)


def texts(value: object) -> tuple[str, ...]:
    """A list of strings from what a person may have written: a list, or words with commas."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        value = [value]
    return tuple(text for item in value if (text := _text(item).strip()))


class Memory(NamedTuple):
    """One memory as it stands in its file."""

    id: str
    collection: str
    path: str
    meta: Mapping[str, object]
    body: str
    data: bytes = b""
    problem: str = ""
    scope: str = ""

    @property
    def hash(self) -> str:
        """The SHA-256 of the file's bytes, which `--expect` compares."""
        import hashlib

        return hashlib.sha256(self.data).hexdigest()

    @property
    def ref(self) -> str:
        """The memory's name within its bank: `collection/id`, or the id alone at the root."""
        return f"{self.collection}/{self.id}" if self.collection else self.id

    @property
    def address(self) -> str:
        """A reference that names this memory alone, whatever else shares its id."""
        return f"{self.collection}/{self.id}"

    @property
    def title(self) -> str:
        stated = _text(self.meta.get("title")).strip()
        return stated or heading(self.body) or _first_line(self.body) or self.id

    @property
    def type(self) -> str:
        return _text(self.meta.get("type")).strip() or DEFAULT_TYPE

    @property
    def status(self) -> str:
        return _text(self.meta.get("status")).strip() or "active"

    @property
    def tags(self) -> tuple[str, ...]:
        return texts(self.meta.get("tags"))

    @property
    def related_to(self) -> tuple[str, ...]:
        return texts(self.meta.get("related_to"))

    @property
    def merged_from(self) -> tuple[str, ...]:
        """The memories that this one stands for, as they were called."""
        return texts(self.meta.get("merged_from"))

    @property
    def superseded_by(self) -> str:
        """The memory that replaces this one, if its frontmatter names one."""
        names = texts(self.meta.get("superseded_by"))
        return names[0].removeprefix("memory:") if names else ""

    @property
    def supersedes(self) -> tuple[str, ...]:
        """The memories that this one replaces, as its frontmatter names them."""
        return tuple(name.removeprefix("memory:") for name in texts(self.meta.get("supersedes")))

    def text(self, key: str) -> str:
        """A frontmatter value as text, empty when it is missing."""
        return _text(self.meta.get(key))

    def to_dict(self, *, content: bool = False) -> Data:
        """The memory as every listing shows it; with `content`, everything there is."""
        data: Data = {
            "id": self.id,
            "title": self.title,
            "collection": self.collection,
            "type": self.type,
            "status": self.status,
            "tags": list(self.tags),
            "category": self.meta.get("category"),
            "created_at": self.meta.get("created_at"),
            "updated_at": self.meta.get("updated_at"),
            "scope": self.scope,
            "file_path": self.path,
        }
        if content:
            data |= {
                "content": self.body,
                "metadata": dict(self.meta),
                "hash": self.hash,
                "problem": self.problem or None,
            }
        return data


def heading(body: str) -> str:
    """The first level-one heading outside a code fence."""
    if "# " not in body:
        return ""
    fence = ""
    for line in body.splitlines():
        text = line.strip()
        if fence:
            if text.startswith(fence) and not text.strip(fence[0]):
                fence = ""
        elif text.startswith(("```", "~~~")):
            fence = text[: len(text) - len(text.lstrip(text[0]))]
        elif line.startswith("# "):
            title = text[1:].strip()
            closed = title.rstrip("#")
            return closed.rstrip() if closed[-1:] in ("", " ") else title
    return ""


def _first_line(body: str) -> str:
    for line in body.splitlines():
        text = line.strip().lstrip("#>*- ").replace("**", "").strip()
        if text:
            return shorten(text, _TITLE_FROM_TEXT)
    return ""


class Problem(NamedTuple):
    """A file Retain leaves alone, or reads only in part, and why."""

    path: str
    reason: str
    is_minor: bool = False  # nobody would take it for a memory

    def to_dict(self) -> Data:
        return self._asdict()


class Written(NamedTuple):
    """What a write did; `status` is created, replaced, updated, appended, moved, unchanged ..."""

    memory: Memory
    status: str
    kept: str = ""
    commit: str = ""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> Data:
        memory = self.memory
        return {
            "id": memory.id,
            "collection": memory.collection,
            "file_path": memory.path,
            "status": self.status,
            "hash": memory.hash,
            "created_at": memory.meta.get("created_at"),
            "updated_at": memory.meta.get("updated_at"),
            "previous_version": self.kept or None,
            "commit": self.commit or None,
            "warnings": list(self.warnings),
        }


class Trashed(NamedTuple):
    """One soft-deleted file."""

    name: str
    id: str
    collection: str
    deleted_at: str
    path: str
    size: int

    def to_dict(self) -> Data:
        return self._asdict()


class Deleted(NamedTuple):
    """What a deletion did."""

    trashed: Trashed
    commit: str = ""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> Data:
        return {
            "status": "deleted",
            "id": self.trashed.id,
            "collection": self.trashed.collection,
            "moved_to": self.trashed.path,
            "commit": self.commit or None,
            "warnings": list(self.warnings),
        }


class Merged(NamedTuple):
    """What a merge did: the new memory, and where the others went."""

    written: Written
    trashed: tuple[Trashed, ...]

    def to_dict(self) -> Data:
        return {
            **self.written.to_dict(),
            "status": "merged",
            "target": self.written.memory.ref,
            "sources_merged": len(self.trashed),
            "trashed": [entry.name for entry in self.trashed],
        }


class Linked(NamedTuple):
    """A file or a memory that a memory links to, and how the file is now."""

    target: str
    edge: str
    context: str
    line: int
    freshness: str = ""  # fresh, changed, moved, gone, planned; empty when it cannot be told
    now_at: str = ""
    anchor: str = ""  # the place in the file, after a #
    label: str = ""  # what the link is called in the text, after a |

    def to_dict(self) -> Data:
        return {
            "target": self.target,
            "edge_type": self.edge,
            "anchor_context": self.context,
            "line": self.line,
            **{name: getattr(self, name) or None for name in self._fields[4:]},
        }


class Hit(NamedTuple):
    """One answer of a search: a memory's best chunk, or a chunk."""

    id: str
    collection: str
    score: float
    text: str
    header_path: str
    line: int
    title: str
    type: str
    status: str
    tags: tuple[str, ...]
    created_at: str
    who: str
    scope: str
    path: str
    is_superseded: bool = False
    links: tuple[Linked, ...] = ()
    explanation: Mapping[str, object] | None = None
    superseded_by: str = ""  # the memory that replaces it, as far as one is named
    question: str = ""  # the turn before a spoken one, where that one asks
    changed: float = 0.0  # when it was written last, in seconds
    stamp: str = ""  # size and time of the file when it was indexed

    @property
    def ref(self) -> str:
        return f"{self.collection}/{self.id}" if self.collection else self.id

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to beware of: that it is out of date, or that a file it links to changed."""
        notes = []
        if self.is_superseded:
            notes.append(f"superseded by {self.superseded_by or 'a newer memory'}")
        if self.status != "active":
            notes.append(self.status)
        for link in self.links:
            if link.freshness in ("changed", "gone"):
                notes.append(f"{link.target} has {link.freshness.replace('gone', 'gone since')}")
            elif link.freshness == "moved":
                notes.append(f"{link.target} has moved to {link.now_at}")
        planned = [link.target for link in self.links if link.freshness == "planned"]
        return (*notes, *(f"{target} is not there yet" for target in planned))

    def to_dict(self) -> Data:
        data: Data = {
            **{name: getattr(self, name) for name in self._fields[:9]},
            "tags": list(self.tags),
            "created_at": self.created_at or None,
            "who": self.who or None,
            "scope": self.scope,
            "file_path": self.path,
            "superseded": self.is_superseded,
            "superseded_by": self.superseded_by or None,
            "links": [link.to_dict() for link in self.links],
            "cautions": list(self.cautions),
        }
        if self.explanation is not None:
            data["explanation"] = dict(self.explanation)
        return data

    def to_backlink(self) -> Data:
        """The hit as a memory that links to a document, with how it does."""
        first = self.links[0]
        return {
            "memory_id": f"memory:{self.ref}",
            "id": self.id,
            "collection": self.collection,
            "score": self.score,
            "title": self.title,
            "type": self.type,
            "content": self.text,
            "anchor_context": first.context,
            "edge_type": first.edge,
            "file_path": self.path,
            "freshness": first.freshness or None,
            "line": first.line,
            "links": [link.to_dict() for link in self.links],
        }


class Degraded(NamedTuple):
    """In what an answer falls short of the best one; false when it does not."""

    pending: int = 0  # chunks without a vector
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pending or self.reasons)

    def to_dict(self) -> Data | None:
        """None where the answer is as good as it gets."""
        return {"pending": self.pending, "reasons": list(self.reasons)} if self else None

    @classmethod
    def of(cls, several: "Iterable[Degraded]") -> "Degraded":
        """In what several answers together fall short; a reason that they share counts once."""
        answers = list(several)
        reasons = dict.fromkeys(reason for answer in answers for reason in answer.reasons)
        return cls(sum(answer.pending for answer in answers), tuple(reasons))


class Answer(NamedTuple):
    """What recall found, how sure it is that anything fits, and what it had to do without."""

    hits: tuple[Hit, ...]
    confidence: float
    is_confident: bool
    degraded: Degraded

    def to_dict(self) -> Data:
        return {
            "hits": [hit.to_dict() for hit in self.hits],
            "confidence": self.confidence,
            "confident": self.is_confident,
            "degraded": self.degraded.to_dict(),
        }


class Version(NamedTuple):
    """One earlier text of a memory: a git commit or a numbered copy."""

    version: str
    time: str
    author: str
    message: str
    source: str

    def to_dict(self) -> Data:
        return self._asdict()


# What memories and collections are called

PROFILES: Final = ("USER.md", "PREFERENCES.md", "MEMORY.md")
APPROVALS: Final = "approvals.json"  # what a person allows a chat to do without asking
SUFFIXES: Final = (".md", ".json")
GLOBAL: Final = "global:"  # before a reference: in the person's own bank, whatever a project has
SCHEMA: Final = ".schema.json"  # of a category of the person's own

_MAX_ID_BYTES: Final = 180  # leaves room for a trash timestamp within 255
_MAX_COLLECTION_BYTES: Final = 100
_MAX_SLUG: Final = 50

_FORBIDDEN: Final = frozenset('/\\:*?"<>|')
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")  # letters without a shape
_RESERVED: Final = frozenset(
    ("con", "prn", "aux", "nul")
    + tuple(f"{port}{digit}" for port in ("com", "lpt") for digit in range(1, 10))
)


class Kind(NamedTuple):
    """How one kind of store lays out its files."""

    name: str
    default_collection: str
    not_memories: tuple[str, ...]
    not_collections: tuple[str, ...]
    listing: str = ""  # the file in which the store lists its records

    def keeps(self, name: str) -> bool:
        """Whether a file of that name at the root is the store's own and no memory."""
        return name in self.not_memories or name.endswith(SCHEMA)


KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("retain", "memories", (*PROFILES, APPROVALS), ("skills", "context")),
        Kind("arcaneum", "memories", (), ()),
        Kind("memories", "", (), ("indices",)),
        Kind("claude", "memories", ("index.md", "memory-config.json"), (), "index.md"),
    )
}


def nfc(text: str) -> str:
    """A text in the one form in which equal letters are equal."""
    return unicodedata.normalize("NFC", text)


def key(name: str) -> str:
    """The form in which two names are one: what a Mac or a Windows disk would confuse."""
    return nfc(nfc(name).casefold())


def check_id(name: str) -> str:
    """A name that may become a file, in NFC, or BadName with the reason."""
    return _check(name, "an id", _MAX_ID_BYTES)


def check_collection(name: str) -> str:
    """A name that may become a directory of a bank; empty means the bank's root."""
    return _check(name, "a collection", _MAX_COLLECTION_BYTES) if name else ""


def _check(name: str, what: str, limit: int) -> str:
    name = nfc(name)
    if reason := _fault(name, limit):
        shown = name if len(name) <= 60 else name[:57] + "..."
        raise BadName(
            f"{shown!r} cannot be used as {what}: {reason}",
            unchanged="Nothing was changed.",
            hint="Use letters, digits, '-', '_' and '.', for example gpu-patterns.",
        )
    return name


def _fault(name: str, limit: int) -> str:
    """Why a name cannot be used, empty if it can."""
    forbidden = next((char for char in name if char in _FORBIDDEN), "")
    faults = (
        (not name.strip(), "it is empty"),
        (
            not name.isprintable() or not _BLANK.isdisjoint(name),
            "it holds control, invisible or line-breaking characters",
        ),
        (bool(forbidden), f"it holds {forbidden!r}"),
        (
            name[:1] in (".", "-", "~", " ") or name[-1:] in (".", " "),
            "it starts with '.', '-', '~' or a space, or ends with '.' or a space",
        ),
        (name.lower().endswith(SUFFIXES), "it ends like a file's name"),
        ("%2" in name or "%5c" in name.lower(), "it holds an encoded path separator"),
        (
            name.split(".", 1)[0].casefold() in _RESERVED,
            "some systems reserve that name for a device",
        ),
        (len(name.encode("utf-8", "replace")) > limit, f"it is longer than {limit} bytes"),
    )
    return next((reason for is_so, reason in faults if is_so), "")


def split_ref(ref: str, collection: str | None = None) -> tuple[str | None, str]:
    """The collection (None: any) and id that `id`, `id.md`, `collection/id` or `/id` name."""
    head, slash, tail = ref.rpartition("/")
    if tail.endswith(SUFFIXES):
        tail = tail.rpartition(".")[0]
    name = check_id(tail)
    if not slash:
        return (None if collection is None else check_collection(collection)), name
    named = check_collection(head)
    if collection is not None and key(collection) != key(named):
        raise UsageError(f"{ref!r} names the collection {named!r}, --collection {collection!r}")
    return named, name


def slug(text: str) -> str:
    """A file name for a title, readable in its own script; empty if nothing can be used."""
    parts: list[str] = []
    for char in _plain_latin(_plain_latin(text[: 20 * _MAX_SLUG]).casefold()):
        is_attached = bool(parts) and parts[-1] != "-"
        if char not in _BLANK and (char.isalnum() or (is_attached and _is_mark(char))):
            parts.append(char)
        elif is_attached:
            parts.append("-")
    name = nfc("".join(parts)).strip("-")[:_MAX_SLUG]
    name = name.encode()[:_MAX_ID_BYTES].decode("utf-8", "ignore").strip("-")
    return f"{name}-memory" if name in _RESERVED else name


def _plain_latin(text: str) -> str:
    """Latin letters without their accents; every other script as it is."""
    parts: list[str] = []
    for char in unicodedata.normalize("NFKD", text):
        if not (parts and parts[-1].isascii() and _is_mark(char)):
            parts.append(char)
    return nfc("".join(parts))


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M"


def memory_id(title: str, body: str) -> str:
    """The id of a memory that was given none: from its title, its heading or its content."""
    name = slug(title) or slug(heading(body))
    if name:
        return name
    import hashlib  # 3 ms, which most commands can do without

    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]
