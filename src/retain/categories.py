"""The categories of typed memories, and the rules a bank keeps its records by."""

from __future__ import annotations

import os
from collections.abc import Mapping

from retain import paths
from retain.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = ["DEFAULTS", "FIELDS", "Category", "Rules", "gathered", "is_name"]

MAX_SCHEMA: Final = 100_000
MAX_DESCRIPTION: Final = 500
MAX_NAME: Final = 40

_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_NAME: Final = _LETTERS | frozenset("0123456789_")


class Category(NamedTuple):
    """One kind of record: where it is kept, for how long, and what its content must look like."""

    name: str
    folder: str
    enabled: bool = True
    auto_capture: bool = True
    retention_days: int = 0
    max_retained: int = 0
    description: str = ""
    schema: Mapping[str, object] | None = None

    @property
    def display(self) -> str:
        """The name as index.md shows it."""
        return self.name.upper()


DEFAULTS: Final[Mapping[str, Category]] = {
    one.name: one
    for one in (
        Category("session_summary", "sessions", retention_days=90, max_retained=5),
        Category("decision", "decisions"),
        Category("runbook", "runbooks"),
        Category("constraint", "constraints"),
        Category("tech_debt", "tech-debt"),
        Category("preference", "preferences"),
    )
}

FIELDS: Final[Mapping[str, str]] = {
    "folder": "The collection its records are in; setting it adds a category of your own.",
    "enabled": "Whether new records of it may be made.",
    "auto_capture": "Whether a session's end may propose such records.",
    "retention_days": "After how many days a record is retired; 0 means never.",
    "max_retained": "How many active records it keeps, the oldest retired first; 0 means all.",
    "description": "What it is for, in a sentence.",
    "schema": "A JSON Schema its content must fit: a .json file in the bank, or the schema itself.",
}


class Rules(NamedTuple):
    """How a bank keeps its records, with what had to be ignored on the way."""

    categories: Mapping[str, Category]
    grace_period_days: int = 30
    archive_retired: bool = True
    max_per_category: int = 100
    match_strategy: str = "title_tags"
    warnings: tuple[str, ...] = ()

    def category(self, name: str) -> Category | None:
        """A category by its name."""
        return self.categories.get(name)

    def of_folder(self, folder: str) -> Category | None:
        """The category whose records are in a collection."""
        wanted = paths.key(folder)
        return next(
            (one for one in self.categories.values() if paths.key(one.folder) == wanted), None
        )


def is_name(name: str) -> bool:
    """Whether a category may be called so: a small letter, then letters, digits and '_'."""
    return len(name) <= MAX_NAME and name[:1] in _LETTERS and name != "" and _NAME.issuperset(name)


def gathered(
    given: Mapping[str, Mapping[str, object]], root: str
) -> tuple[dict[str, Category], list[str]]:
    """The categories of a bank from what is set for each, and what had to be ignored.

    The values are of the right type already; whether folders are apart and schemas can be read is
    seen here.
    """
    found, warnings = dict(DEFAULTS), []
    for name, fields in given.items():
        if name not in DEFAULTS and not fields.get("folder"):
            warnings.append(f"the category {name} has no folder; ignored")
            continue
        values = dict(fields)
        values["description"] = str(values.get("description", ""))[:MAX_DESCRIPTION]
        if text := str(values.pop("schema", "")):
            try:
                values["schema"] = _schema(text, root)
            except ConfigError as error:
                warnings.append(f"the schema of the category {name} is not used: {error.message}")
        found[name] = found.get(name, Category(name, ""))._replace(**values)  # type: ignore[arg-type]
    return _apart(found, warnings), warnings


def _apart(found: dict[str, Category], warnings: list[str]) -> dict[str, Category]:
    """Each category with a folder of its own: the six go back to theirs, others are left out."""
    while moved := [
        one
        for one in found.values()
        if one.name in DEFAULTS and one.folder != DEFAULTS[one.name].folder and _rival(one, found)
    ]:
        one = moved[0]
        folder = DEFAULTS[one.name].folder
        warnings.append(f"the folder {one.folder} is taken; the category {one.name} keeps {folder}")
        found[one.name] = one._replace(folder=folder)
    for one in [one for one in reversed(found.values()) if one.name not in DEFAULTS]:
        if rival := _rival(one, found):
            warnings.append(
                f"the folder {one.folder} is {rival}'s; the category {one.name} is ignored"
            )
            del found[one.name]
    return found


def _rival(one: Category, found: Mapping[str, Category]) -> str:
    """Another category with the same folder; one of the six yields to no one but the six."""
    folder = paths.key(one.folder)
    others = (other for other in found.values() if other.name != one.name)
    return next((other.name for other in others if paths.key(other.folder) == folder), "")


def _schema(text: str, root: str) -> dict[str, object]:
    """The schema that a setting holds or names."""
    import json

    if not text.lstrip().startswith("{"):
        text = _file(text, root)
    if len(text) > MAX_SCHEMA:
        raise ConfigError(f"it is longer than {MAX_SCHEMA:,} characters")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not valid JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError("it is not a JSON object")
    return schema


def _file(name: str, root: str) -> str:
    """The text of a file in the bank; a project can name no other."""
    path = os.path.join(root, name)
    if "\0" in name or not name.endswith(".json") or not paths.is_inside(path, root):
        raise ConfigError(f"{name[:60]!r} is no .json file in {root}")
    try:
        # Not a pipe, which would never end, and no more than a schema needs.
        fd = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(fd, encoding="utf-8-sig") as file:
            return file.read(MAX_SCHEMA + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
