"""The settings of other tools' stores, in Retain's words.

Loaded only where there is such a store: a hook reads the config each time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from retain.config import CLAUDE_FILE, FALSE, MAX_CHARS, flat, no_link, shown
from retain.settings import SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

__all__ = ["settings_of"]


def settings_of(path: str, warnings: list[str]) -> dict[str, object]:
    """What an `.arcaneum` file or a `memory-config.json` sets, by Retain's keys."""
    if os.path.basename(path) == CLAUDE_FILE:
        return _from_claude(path, warnings)
    return _from_arcaneum(path)


def _from_arcaneum(path: str) -> dict[str, object]:
    """The settings of document-style `.arcaneum` files in Retain's words."""
    from retain.paths import arcaneum_settings

    theirs = arcaneum_settings(path)
    ours: dict[str, object] = {}
    # `versioning: git` and `history: false` leave history to git, which `auto` does; it keeps a
    # few copies besides, because what was never committed would otherwise be lost.
    if theirs.get("versioning") == "custom":
        ours["versioning.mode"] = "numbered"
    if str(theirs.get("auto_version")).lower() in FALSE:
        ours["versioning.mode"] = "off"
    if "max_versions" in theirs:
        ours["versioning.max_versions"] = theirs["max_versions"]
    return ours


_CLAUDES: Final[Mapping[str, str]] = {
    "delete.grace_period_days": "records.grace_period_days",
    "delete.archive_retired": "records.archive_retired",
    "max_memories_per_category": "records.max_per_category",
    "retrieval.match_strategy": "records.match_strategy",
    "auto_commit": "versioning.auto_commit",
    **{key: key for key in SETTINGS if key.startswith(("retrieval.", "triage.", "hooks."))},
}


def _from_claude(path: str, warnings: list[str]) -> dict[str, object]:
    """The settings of a `memory-config.json` in Retain's words.

    A file that cannot be read leaves the defaults.
    """
    import json

    from retain.categories import FIELDS

    try:
        with open(path, encoding="utf-8-sig", opener=no_link) as file:
            text = file.read(MAX_CHARS + 1)
        theirs = json.loads(text) if len(text) <= MAX_CHARS else None
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        warnings.append(f"{path} cannot be read, so the defaults apply: {error}")
        return {}
    if not isinstance(theirs, dict):
        warnings.append(f"{path} is too large or no JSON object, so the defaults apply")
        return {}
    warnings += [f"{path}: {where} is no JSON object; ignored" for where in _no_tables(theirs)]
    found = {_lowered(key): _leniently(key, value) for key, value in flat(theirs)}
    ours = {_CLAUDES[key]: value for key, value in found.items() if key in _CLAUDES}
    return ours | {
        key: value
        for key, value in found.items()
        if key.startswith("categories.") and key.rpartition(".")[2] in FIELDS
    }


def _lowered(key: str) -> str:
    """A key of that file, in which the categories of thresholds may stand in capitals."""
    return key.lower() if key.startswith("triage.thresholds.") else key


def _leniently(key: str, value: object) -> object:
    """A value of that file, whose numbers may be texts and whose models may stand in capitals."""
    if key == "retrieval.max_inject" and isinstance(value, str | float):
        try:
            return int(value)
        except (ValueError, OverflowError):
            return value
    is_model = isinstance(value, str) and key.startswith("triage.parallel.")
    return value.lower() if is_model and isinstance(value, str) else value


def _no_tables(theirs: Mapping[str, object]) -> Iterator[str]:
    """Where a `memory-config.json` has a value in place of settings that are read."""
    sections = dict.fromkeys(key.split(".")[0] for key in _CLAUDES if "." in key)
    yield from (name for name in sections if not isinstance(theirs.get(name, {}), dict))
    categories = theirs.get("categories", {})
    if isinstance(categories, dict):
        wrong = (name for name, fields in categories.items() if not isinstance(fields, dict))
        yield from (f"categories.{shown(name)[1:-1]}" for name in wrong)
    else:
        yield "categories"
