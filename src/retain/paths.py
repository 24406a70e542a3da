"""Where banks are and what things in them may be called."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from retain.errors import BadName, ConfigError, NewerFormat, NotFound, RetainError, UsageError
from retain.place import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = [
    "APPROVALS",
    "KINDS",
    "PROFILES",
    "STATE",
    "Kind",
    "check_collection",
    "check_id",
    "find_bank",
    "from_home",
    "global_root",
    "is_inside",
    "key",
    "memory_id",
    "nfc",
    "refuse_link",
    "slug",
    "split_ref",
]

STATE: Final = ".index"  # derived things: the index, locks, what hooks remember of a session
PROFILES: Final = ("USER.md", "PREFERENCES.md", "MEMORY.md")
APPROVALS: Final = "approvals.json"  # what a person allows a chat to do without asking
SUFFIXES: Final = (".md", ".json")
GLOBAL: Final = "global:"  # before a reference: in the person's own bank, whatever a project has
SCHEMA: Final = ".schema.json"  # of a category of the person's own

MAX_ID_BYTES: Final = 180  # leaves room for a trash timestamp within 255
MAX_COLLECTION_BYTES: Final = 100
MAX_SLUG: Final = 50

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

# What other programs keep their settings in: a memory there would be an order to them.
_OTHERS: Final = (".claude", ".codex", ".cursor", ".gemini", ".config")
_MARKS: Final[Mapping[str, str]] = {
    ".retain": "retain",
    ".arcaneum": "arcaneum",
    ".memories": "memories",
    ".claude/memory": "claude",
}
ARCANEUM_VERSION: Final = 1


# Names


def nfc(text: str) -> str:
    """A text in the one form in which equal letters are equal."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)


def key(name: str) -> str:
    """The form in which two names are one: what a Mac or a Windows disk would confuse."""
    return nfc(nfc(name).casefold())


def check_id(name: str) -> str:
    """A name that may become a file, in NFC, or BadName with the reason."""
    return _check(name, "id", MAX_ID_BYTES)


def check_collection(name: str) -> str:
    """A name that may become a directory of a bank; empty means the bank's root."""
    return _check(name, "collection", MAX_COLLECTION_BYTES) if name else ""


def _check(name: str, what: str, limit: int) -> str:
    name = nfc(name)
    reason = _fault(name, limit)
    if reason:
        shown = name if len(name) <= 60 else name[:57] + "..."
        raise BadName(
            f"{shown!r} cannot be used as {'an id' if what == 'id' else 'a collection'}: {reason}",
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
    for char in _plain_latin(_plain_latin(text).casefold()):
        is_attached = bool(parts) and parts[-1] != "-"
        if char not in _BLANK and (char.isalnum() or (is_attached and _is_mark(char))):
            parts.append(char)
        elif is_attached:
            parts.append("-")
    name = nfc("".join(parts)).strip("-")[:MAX_SLUG]
    while len(name.encode()) > MAX_ID_BYTES:
        name = name[:-1]
    name = name.strip("-")
    return f"{name}-memory" if name in _RESERVED else name


def _plain_latin(text: str) -> str:
    """Latin letters without their accents; every other script as it is."""
    if text.isascii():
        return text
    import unicodedata

    parts: list[str] = []
    for char in unicodedata.normalize("NFKD", text):
        if not (parts and parts[-1].isascii() and _is_mark(char)):
            parts.append(char)
    return unicodedata.normalize("NFC", "".join(parts))


def _is_mark(char: str) -> bool:
    if char.isascii():
        return False
    import unicodedata

    return unicodedata.category(char)[0] == "M"


def memory_id(title: str, body: str) -> str:
    """The id of a memory that was given none: from its title, its heading or its content."""
    from retain.model import heading

    name = slug(title) or slug(heading(body))
    if name:
        return name
    import hashlib

    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:12]


# Banks


def global_root(env: Mapping[str, str]) -> str:
    """The person's own bank: RETAIN_HOME, else ~/.retain."""
    given = env.get("RETAIN_HOME", "")
    return os.path.realpath(os.path.expanduser(given or "~/.retain"))


def from_home(path: str, home: str) -> str:
    """A path as a person would write it: `~` for their home directory."""
    home = home.rstrip("/")
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def find_bank(
    cwd: str,
    env: Mapping[str, str],
    *,
    bank: str = "",
    local: bool = False,
    everywhere: bool = False,
) -> Place:
    """The bank in force: the one named, else the nearest above `cwd`, else the global one."""
    if bool(bank) + local + everywhere > 1:
        raise UsageError("--bank, --local and --global exclude each other")
    if everywhere:
        return _global(env, "--global")
    named, by = (bank, "--bank") if bank else (env.get("RETAIN_BANK", ""), "RETAIN_BANK")
    if named and not local:
        return _named(os.path.join(cwd, os.path.expanduser(named)), by)
    found = _nearest(cwd, env)
    if found:
        return found
    if local:
        raise NotFound(
            f"no project bank in {cwd} or above it",
            hint="Run `retain init` in the project's root to make one.",
        )
    reason = f"no project bank in {cwd} or above it, so the global one"
    for mark in _passed_over(cwd):
        reason += f"; {mark} belongs to another user (--bank uses it all the same)"
    return _global(env, reason)


def _global(env: Mapping[str, str], reason: str) -> Place:
    root = global_root(env)
    return Place(root, "retain", "global", reason, os.path.isdir(root))


def _named(path: str, by: str) -> Place:
    root = os.path.realpath(path)
    if os.path.basename(root) in _OTHERS or {".git", ".ssh"} & set(root.split(os.sep)):
        raise UsageError(
            f"{root} is another program's own, and no bank ({by})",
            unchanged="Nothing was read or changed.",
            hint="Name a directory of memories.",
        )
    reason = f"named by {by}"
    for mark, kind in _marks(root):
        if inside := _place(root, mark, kind):
            return inside._replace(scope="bank", reason=reason)
    parent = os.path.dirname(root)
    for project in (parent, os.path.dirname(parent)):
        for mark, kind in _marks(project):
            # What else lies there was not named, and is nobody's concern if it is broken.
            with contextlib.suppress(RetainError):
                beside = _place(project, mark, kind)
                if beside and beside.root == root:
                    return beside._replace(scope="bank", reason=reason)
    return Place(root, "retain", "bank", reason, os.path.isdir(root))


def _nearest(cwd: str, env: Mapping[str, str]) -> Place | None:
    home, own = os.path.realpath(os.path.expanduser("~")), global_root(env)
    for directory in _upwards(os.path.realpath(cwd)):
        if directory == home:
            return None
        for place in _banks_in(directory):
            if place.root != own:
                return place
    return None


def _upwards(directory: str) -> Iterator[str]:
    while True:
        yield directory
        parent = os.path.dirname(directory)
        if parent == directory:
            return
        directory = parent


def _banks_in(project: str) -> Iterator[Place]:
    for mark, kind in _marks(project):
        if not _is_foreign(mark, project):
            place = _place(project, mark, kind)
            if place and not _is_foreign(place.root, project):
                yield place


def _marks(project: str) -> Iterator[tuple[str, str]]:
    """What shows that a directory has a bank, the first in force: a path and a kind of store."""
    for name, kind in _MARKS.items():
        path = os.path.join(project, name)
        if os.path.isfile(path) if kind == "arcaneum" else os.path.isdir(path):
            yield path, kind


def _passed_over(cwd: str) -> list[str]:
    """Banks on the way up that are not used because someone else owns them."""
    return [
        mark
        for directory in _upwards(os.path.realpath(cwd))
        for mark, _ in _marks(directory)
        if _is_foreign(mark, directory)
    ]


def is_inside(path: str, root: str) -> bool:
    """Whether a path is below a directory, links resolved."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), ""))


def _is_foreign(path: str, project: str) -> bool:
    """Whether another user put this here: /tmp/.retain must not reach into anyone's session.

    Root may work in anybody's project, and in it uses the bank of the one whose project it is.
    """
    user = os.geteuid()
    try:
        ours = (user, 0) if user else (0, os.stat(project).st_uid)
        return os.lstat(path).st_uid not in ours
    except FileNotFoundError:
        return False


def _place(project: str, mark: str, kind: str) -> Place | None:
    if kind == "arcaneum":
        return _arcaneum(project, mark)
    found = f"found {os.path.relpath(mark, project)} in {project}"
    return Place(refuse_link(mark), kind, "project", found, True)


def refuse_link(root: str) -> str:
    """The root itself, refused when a cloned project points it somewhere else."""
    parent = os.path.dirname(root)
    if os.path.islink(root) or (os.path.basename(parent) == ".claude" and os.path.islink(parent)):
        raise RetainError(
            f"{root} is a symbolic link; Retain does not follow links into other places",
            unchanged="Nothing was read or changed.",
            hint=f"If you trust it, name its target: --bank {os.path.realpath(root)}",
        )
    return root


def arcaneum_settings(config: str) -> dict[str, object]:
    """The `retain` section of an `.arcaneum` file, YAML or JSON."""
    from retain import frontmatter

    try:
        with open(config, encoding="utf-8-sig") as file:
            text = file.read(frontmatter.MAX_CHARS + 1)
        values = _json(text) or frontmatter.load(text)
    except (RetainError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{config} cannot be read: {error}",
            unchanged="Nothing was read or changed.",
            hint="It is YAML or JSON.",
        ) from error
    version = values.get("version", ARCANEUM_VERSION)
    if str(version) != str(ARCANEUM_VERSION):
        raise NewerFormat(
            f"{config} says version: {version}, and this Retain knows {ARCANEUM_VERSION}: "
            "the store is left untouched",
            hint="Upgrade Retain: pip install --upgrade retain-bank",
        )
    section = values.get("retain")
    return section if isinstance(section, dict) else {}


def _json(text: str) -> dict[str, object] | None:
    """An object in JSON, which is not always YAML: tabs and half of all emoji are not."""
    if not text.lstrip().startswith("{"):
        return None
    import json

    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def _arcaneum(project: str, config: str) -> Place | None:
    settings = arcaneum_settings(config)
    if str(settings.get("enabled")).lower() not in ("true", "yes", "on"):
        return None
    given = str(settings.get("path") or ".arcaneum-retain")
    root = os.path.normpath(os.path.join(project, given))
    if "\0" in given or os.path.isabs(given) or _leads_out(root, project):
        raise ConfigError(
            f"{config}: retain.path {given!r} leads out of the project",
            unchanged="Nothing was read or changed.",
            hint="Use a directory inside the project, such as .arcaneum-retain.",
        )
    return Place(root, "arcaneum", "project", f"named by {config}", os.path.isdir(root))


def _leads_out(root: str, project: str) -> bool:
    real, top = os.path.realpath(root), os.path.realpath(project)
    inside = os.path.relpath(real, top).split(os.sep)
    return inside[0] in (os.curdir, os.pardir) or ".git" in inside or os.path.islink(root)
