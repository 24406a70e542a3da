"""The configs of other tools' stores, in Retain's words: `.arcaneum` and `memory-config.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final, NoReturn

from retain.categories import FIELDS
from retain.config import FALSE, MAX_CHARS, SETTINGS, Layer, Scalar, flat, no_link, shown
from retain.errors import ConfigError, NewerFormat, RetainError, UsageError
from retain.text import frontmatter

ARCANEUM_VERSION: Final = 1
CLAUDE_FILE: Final = "memory-config.json"

# What a `memory-config.json` calls settings of ours.
_CLAUDE_KEYS: Final[Mapping[str, str]] = {
    "delete.grace_period_days": "records.grace_period_days",
    "delete.archive_retired": "records.archive_retired",
    "max_memories_per_category": "records.max_per_category",
    "retrieval.match_strategy": "records.match_strategy",
    "auto_commit": "versioning.auto_commit",
    **{key: key for key in SETTINGS if key.startswith(("retrieval.", "triage.", "hooks."))},
}
_SECTIONS: Final = {"categories", *(key.split(".")[0] for key in _CLAUDE_KEYS if "." in key)}


def read_arcaneum(path: str) -> dict[str, object]:
    """The `retain` section of an `.arcaneum` file, YAML or JSON."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(frontmatter.MAX_CHARS + 1)
        values = _json_object(text) or frontmatter.load(text)
    except (RetainError, OSError, UnicodeDecodeError) as error:
        mark = getattr(error.__cause__, "problem_mark", None)
        reason = getattr(error.__cause__, "problem", None) or error
        where = f"{path}, line {mark.line + 1}," if mark else path
        raise ConfigError(
            f"{where} cannot be read: {reason}",
            unchanged="Nothing was read or changed.",
            hint="It is YAML or JSON; mend it in an editor.",
        ) from error
    version = values.get("version", ARCANEUM_VERSION)
    if str(version) != str(ARCANEUM_VERSION):
        raise NewerFormat(
            f"{path} says version: {version}, and this Retain knows {ARCANEUM_VERSION}: "
            "the store is left untouched",
            hint="Upgrade Retain: pip install --upgrade retain-bank",
        )
    section = values.get("retain")
    return section if isinstance(section, dict) else {}


def arcaneum_root(project: str, path: str) -> str:
    """The directory that an `.arcaneum` file names for memories; empty if they are switched off."""
    section = read_arcaneum(path)
    if str(section.get("enabled")).lower() not in ("true", "yes", "on"):
        return ""
    stated = str(section.get("path") or ".arcaneum-retain")
    root = os.path.normpath(os.path.join(project, stated))
    is_outside = "\0" in stated or os.path.isabs(stated)
    if not is_outside:
        steps = os.path.relpath(os.path.realpath(root), os.path.realpath(project)).split(os.sep)
        is_outside = steps[0] in (os.curdir, os.pardir) or ".git" in steps or os.path.islink(root)
    if is_outside:
        raise ConfigError(
            f"{path}: retain.path {stated!r} leads out of the project",
            unchanged="Nothing was read or changed.",
            hint="Use a directory inside the project, such as .arcaneum-retain.",
        )
    return root


def _json_object(text: str) -> dict[str, object] | None:
    """An object in JSON, which is not always YAML: tabs and half of all emoji are not."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def arcaneum_layer(path: str) -> Layer:
    """What an `.arcaneum` file sets, by Retain's keys."""
    theirs = read_arcaneum(path)
    ours: dict[str, object] = {}
    if theirs.get("versioning") == "custom":
        ours["versioning.mode"] = "numbered"
    if "max_versions" in theirs:
        ours["versioning.max_versions"] = theirs["max_versions"]
    # History is left to git; the one text before the last change is kept all the same, because
    # what was never committed would else be lost.
    if any(str(theirs.get(key)).lower() in FALSE for key in ("history", "auto_version")):
        ours["versioning.max_versions"] = 1
    warnings = []
    if theirs.get("collections"):
        warnings.append(
            f"{path}: retain.collections has no effect: every directory of the bank is a collection"
        )
    return Layer(path, ours, True, tuple(warnings))


def claude_layer(path: str) -> Layer:
    """What a `memory-config.json` sets, by Retain's keys; nothing if it cannot be read."""
    try:
        with open(path, encoding="utf-8-sig", opener=no_link) as file:
            text = file.read(MAX_CHARS + 1)
        theirs = json.loads(text) if len(text) <= MAX_CHARS else None
    except FileNotFoundError:
        return Layer(path, {}, True)
    except (OSError, ValueError, RecursionError) as error:
        return Layer(path, {}, True, (f"{path} cannot be read, so the defaults apply: {error}",))
    if not isinstance(theirs, dict):
        reason = f"{path} is too large or no JSON object, so the defaults apply"
        return Layer(path, {}, True, (reason,))
    ours: dict[str, object] = {}
    warnings = []
    for key, value in flat(theirs).items():
        # The categories of thresholds may stand in capitals.
        name = key.lower() if key.startswith("triage.thresholds.") else key
        if name in _CLAUDE_KEYS:
            ours[_CLAUDE_KEYS[name]] = _lenient(name, value)
        elif name.startswith("categories.") and name.rpartition(".")[2] in FIELDS:
            ours[name] = value
        elif key in _SECTIONS or (key.startswith("categories.") and key.count(".") == 1):
            warnings.append(f"{path}: {shown(key)[1:-1]} is no JSON object; ignored")
    return Layer(path, ours, True, tuple(warnings))


def _lenient(key: str, value: object) -> object:
    """A value of that file, whose numbers may be texts and whose models may stand in capitals."""
    if key == "retrieval.max_inject" and isinstance(value, str | float):
        try:
            return int(value)
        except (ValueError, OverflowError):
            return value
    if isinstance(value, str) and key.startswith("triage.parallel."):
        return value.lower()
    return value


def claude_key(key: str) -> str:
    """What a `memory-config.json` calls a setting; empty if it has none such."""
    if key.startswith("categories."):
        return key
    return next((theirs for theirs, ours in _CLAUDE_KEYS.items() if ours == key), "")


def refuse_setting(root: str, path: str, key: str, value: Scalar | None) -> NoReturn:
    """Say why another tool's config is not written to, and what belongs into it."""
    message = f"{root} is a store of another kind, with a config of its own"
    hint = "Set it in your own config with --global."
    theirs = claude_key(key) if os.path.basename(path) == CLAUDE_FILE else ""
    if theirs:
        message = f"the settings of {root} are in {path}, which is yours to edit"
        hint = f"Take {theirs} out of it in an editor."
        if value is not None:
            nested: object = value
            for part in reversed(theirs.split(".")):
                nested = {part: nested}
            hint = f"Put this into it: {json.dumps(nested)}; or set it for yourself with --global."
    raise UsageError(message, unchanged="Nothing was changed.", hint=hint)
