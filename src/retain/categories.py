"""The categories of typed memories, and the rules a bank keeps its records by."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from retain.errors import ConfigError
from retain.memory import key

_MAX_SCHEMA: Final = 100_000  # characters
_MAX_DESCRIPTION: Final = 500
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


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


DEFAULTS: Final[Mapping[str, Category]] = {
    category.name: category
    for category in (
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
        """Return a category by its name."""
        return self.categories.get(name)

    def of_folder(self, folder: str) -> Category | None:
        """Return the category whose records are in a collection."""
        folders = {key(category.folder): category for category in self.categories.values()}
        return folders.get(key(folder))


def is_name(name: str) -> bool:
    """Say whether a category may be called so: a small letter, then letters, digits and '_'."""
    return _NAME.fullmatch(name) is not None


def load_categories(
    settings: Mapping[str, Mapping[str, object]], root: str
) -> tuple[dict[str, Category], list[str]]:
    """Return the categories of a bank from what is set for each, and what had to be ignored.

    The values are of the right type already. No two categories share a folder, and those of the
    six belong to them whatever is set.
    """
    categories, warnings = dict(DEFAULTS), []
    owners = {key(category.folder): name for name, category in DEFAULTS.items()}
    for name, fields in settings.items():
        values = dict(fields)
        values["description"] = str(values.get("description", ""))[:_MAX_DESCRIPTION]
        if text := str(values.pop("schema", "")):
            try:
                values["schema"] = _load_schema(text, root)
            except ConfigError as error:
                warnings.append(f"the schema of the category {name} is not used: {error.message}")
        usual = DEFAULTS.get(name, Category(name, ""))
        category = usual._replace(**values)  # type: ignore[arg-type]
        folder = category.folder
        owner = owners.setdefault(key(folder), name) if folder else ""
        if owner == name:
            categories[name] = category
        elif name in DEFAULTS:
            warnings.append(
                f"the folder {folder} is taken; the category {name} keeps {usual.folder}"
            )
            categories[name] = category._replace(folder=usual.folder)
        else:
            where = f"the folder {folder} is {owner}'s" if owner else "it has no folder"
            warnings.append(f"{where}; the category {name} is ignored")
    return categories, warnings


def _load_schema(text: str, root: str) -> dict[str, object]:
    """Return the schema that a setting holds, or names as a file in the bank."""
    if not text.lstrip().startswith("{"):
        text = _read_schema(text, root)
    if len(text) > _MAX_SCHEMA:
        raise ConfigError(f"it is longer than {_MAX_SCHEMA:,} characters")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not valid JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError("it is not a JSON object")
    return schema


def _read_schema(name: str, root: str) -> str:
    path, inside = os.path.join(root, name), os.path.join(os.path.realpath(root), "")
    # A project can name no file outside the bank.
    if "\0" in name or not name.endswith(".json") or not os.path.realpath(path).startswith(inside):
        raise ConfigError(f"{name[:60]!r} is no .json file in {root}")
    try:
        # Not a pipe, which would never end, and no more than a schema needs.
        fd = os.open(os.path.realpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(fd, encoding="utf-8-sig") as file:
            return file.read(_MAX_SCHEMA + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
