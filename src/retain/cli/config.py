"""Read and change settings.

Values come from, in rising order: defaults, your config, the project's, the environment.
A project's config may set only the keys that `list` marks so.

  retain config list
  retain config get versioning.max_versions
  retain config set versioning.auto_commit true
  retain config unset versioning.auto_commit
  retain config set memory.created_by "Ada" --global
  retain config set categories.decision.retention_days 365
  retain config set categories.incident.folder incidents   # a category of your own
  retain config check
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from retain import config
from retain.app import App
from retain.categories import Rules
from retain.cli.command import Args, Output, arg, command, command_group, flag
from retain.cli.render import Table
from retain.config import Scalar
from retain.errors import ConfigError, NewerFormat, UsageError

_KEY = arg("key KEY")

command_group("config", about=__doc__)


@command("config get", _KEY)
def _get(app: App, key: str) -> Output:
    """print one value"""
    _refuse_unknown(app, config.setting(key).key)
    value, origin = _in_force(app, key)
    return Output({"key": key, "value": value, "origin": origin}, [_format(value)])


@command("config set", _KEY, arg("value VALUE"))
def _set(app: App, key: str, value: str) -> Output:
    """write one value: yours with --global, else the bank's"""
    setting = config.setting(key)
    if not key.endswith(".folder"):
        _refuse_unknown(app, key)
    parsed = config.parse_value(setting, value)
    own, path = app.config_files()
    reason = config.forbidden(key, parsed)
    if reason and path != own:  # it would be ignored there
        text = _format(parsed)
        raise UsageError(
            f"a project cannot set {key} to {text}: {reason}",
            unchanged="Nothing was changed.",
            hint=f"Set it in your own config: `retain config set {key} {text} --global`.",
        )
    if key.startswith("engine."):
        _refuse_unclear(key, str(parsed))
    path, _ = app.set_config(setting, parsed)
    shown = _mask_password(key, parsed)
    data = {"key": key, "value": shown, "file": path}
    return Output(data, [f"{key} = {_format(shown)}", f"File: {path}"], quiet="")


@command("config unset", _KEY)
def _unset(app: App, key: str) -> Output:
    """take one value out again, where `set` would write it"""
    path, was_set = app.set_config(config.setting(key), None)
    data: dict[str, object] = {"key": key, "file": path, "changed": was_set}
    lines = [f"{key} is {'no longer' if was_set else 'not'} set there."]
    if _is_known(key, _rules(app)):
        value, origin = _in_force(app, key)
        data |= {"value": value, "origin": origin}
        lines.append(f"In force: {_format(value)} ({origin})")
    return Output(data, [*lines, f"File: {path}"], quiet="")


@command(
    "config list",
    arg("section SECTION", "only memory, hooks, engine ...", nargs="?", default=""),
    flag("--all", "also the settings of engines that nobody has set"),
)
def _list(app: App, section: str, args: Args) -> Output:
    """the settings by section, their values and where these come from"""
    rules = _rules(app)
    settings = [item for item, _ in config.list_settings(app.config) if _is_known(item.key, rules)]
    sections = dict.fromkeys(setting.key.partition(".")[0] for setting in settings)
    if section and section not in sections:
        raise UsageError(
            f"there is no section {section!r}", hint=f"There are: {', '.join(sections)}."
        )
    data = []
    rows: list[Sequence[str]] = []
    left_out = 0
    for setting in settings:
        name = setting.key.partition(".")[0]
        if section and name != section:
            continue
        value, origin = _in_force(app, setting.key)
        facts = {"about": setting.about, "project": setting.project}
        data.append({"key": setting.key, "value": value, "origin": origin, **facts})
        if name == "engine" and origin == "default" and not (args.all or section):
            left_out += 1
            continue
        if rows and rows[-1][0].partition(".")[0] != name:
            rows.append(("", "", "", ""))
        text = _format(value)
        if setting.key.endswith((".schema", ".description")) and len(text) > 60:
            text = f"{text[:57]}..."  # a whole schema is not for a cell
        rows.append((setting.key, text, origin, "yes" if setting.project else "no"))
    more = f"{left_out} settings of engines are as they come: retain config list engine"
    return Output(
        data,
        table=Table(("Key", "Value", "From", "A project may set it"), rows),
        messages=[more if left_out else ""],
        warnings=[*app.config.warnings, *rules.warnings],
    )


@command("config path")
def _path(app: App) -> Output:
    """the config files that are read"""
    paths = list(dict.fromkeys(app.config_files()))
    return Output([{"file": path, "exists": os.path.exists(path)} for path in paths], paths)


@command("config check")
def _check(app: App) -> Output:
    """what is wrong or ignored in them"""
    try:
        warnings = [*app.config.warnings, *_rules(app).warnings, *_unusable_schemas(app)]
    except (ConfigError, NewerFormat) as error:
        return Output({"warnings": [error.message], "notes": []}, [error.message], code=1)
    off = config.switched_off(app.config)
    notes = [f"memory is {off}"] if off else []
    lines = warnings or ["The configuration is fine."]
    return Output(
        {"warnings": warnings, "notes": notes},
        [*lines, *(f"Note: {note}" for note in notes)],
        code=1 if warnings else 0,
    )


def _unusable_schemas(app: App) -> list[str]:
    """The schemas of categories that nothing can be checked against."""
    categories = [item for item in _rules(app).categories.values() if item.schema is not None]
    if not categories:
        return []
    from retain.records.schema import find_schema_faults

    return [
        f"the schema of the category {category.name} cannot be used: {fault}"
        for category in categories
        for fault in find_schema_faults(category.schema)[:1]
    ]


def _refuse_unclear(key: str, value: str) -> None:
    """An address that is read in two ways could send a part of a password anywhere."""
    if key == "engine.banks":
        from retain.index.engines.naming import banks

        try:
            banks(value)
        except ConfigError as error:
            raise UsageError(error.message, hint=error.hint) from None
    if not key.endswith("url") or not value:
        return
    from retain.index.engines.addresses import fault

    if expected := fault(key.split(".")[1], value):
        # Not the address itself: what cannot be read may be a password anywhere.
        raise UsageError(f"that is no address for {key}", hint=f"It {expected}")


def _refuse_unknown(app: App, key: str) -> None:
    """A setting of a category that there is not is a slip of the pen."""
    if key.startswith("categories.") and not _is_known(key, rules := _rules(app)):
        name = key.split(".")[1]
        raise UsageError(
            f"there is no category {name!r}, only {', '.join(rules.categories)}",
            hint=f"`retain config set categories.{name}.folder FOLDER` adds one.",
        )


def _is_known(key: str, rules: Rules) -> bool:
    """Whether a setting is of no category, or of one that is not ignored."""
    return not key.startswith("categories.") or key.split(".")[1] in rules.categories


def _in_force(app: App, key: str) -> tuple[Scalar, str]:
    """A setting's value as anyone may see it, and where it comes from."""
    value, origin = app.config.value(key)
    return _mask_password(key, value), origin


def _rules(app: App) -> Rules:
    return config.rules(app.config, app.location.root)


def _mask_password(key: str, value: Scalar) -> Scalar:
    """A value as anyone may see it: an address may hold a password."""
    if not isinstance(value, str) or not (key.endswith("url") or "://" in value):
        return value
    from retain.index.engines.addresses import masked

    return masked(value)


def _format(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
