"""The configs of other tools' stores, in Retain's words: `.arcaneum` and `memory-config.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final, NoReturn

from retain.categories import FIELDS
from retain.config import FALSE, MAX_CHARS, SETTINGS, Layer, flat, no_link, shown
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
        # JSON is not always YAML: tabs and half of all emoji are not.
        is_json = text.lstrip().startswith("{")
        values = json.loads(text) if is_json else frontmatter.load(text)
    except (RetainError, OSError, ValueError, RecursionError) as error:
        mark = getattr(error.__cause__, "problem_mark", None)
        reason = getattr(error.__cause__, "problem", None) or error
        where = f"{path}, line {mark.line + 1}," if mark else path
        raise ConfigError(
            f"{where} cannot be read: {str(reason).replace('the frontmatter', 'it')}",
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
    note = f"{path}: retain.collections has no effect: every directory of the bank is a collection"
    return Layer(path, ours, True, (note,) if theirs.get("collections") else ())


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
        # The categories of thresholds and the names of models may stand in capitals.
        name = key.lower() if key.startswith("triage.thresholds.") else key
        is_model = isinstance(value, str) and key.startswith("triage.parallel.")
        if name in _CLAUDE_KEYS:
            ours[_CLAUDE_KEYS[name]] = str(value).lower() if is_model else value
        elif name.startswith("categories.") and name.rpartition(".")[2] in FIELDS:
            ours[name] = value
        elif key in _SECTIONS or (key.startswith("categories.") and key.count(".") == 1):
            warnings.append(f"{path}: {shown(key)[1:-1]} is no JSON object; ignored")
    return Layer(path, ours, True, tuple(warnings))


def refuse_setting(root: str, path: str, key: str) -> NoReturn:
    """Say why another tool's config is not written to, and where the setting is changed."""
    message = f"{root} is a store of another kind, with a config of its own"
    hint = "Set it in your own config with --global."
    names = {ours: theirs for theirs, ours in _CLAUDE_KEYS.items()}
    theirs = key if key.startswith("categories.") else names.get(key, "")
    if theirs and os.path.basename(path) == CLAUDE_FILE:
        message = f"the settings of {root} are in {path}, which is yours to edit"
        hint = f"Change {theirs} in it; or set {key} for yourself with --global."
    raise UsageError(message, unchanged="Nothing was changed.", hint=hint)
