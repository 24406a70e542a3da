"""Read and change settings.

Values come from, in rising order: defaults, your config, the project's, the environment.
A project's config may set only the keys that `list` marks so. `retain config` alone lists.

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

from retain import config
from retain.app import App
from retain.categories import Rules
from retain.cli.command import Output, arg, command, flag
from retain.cli.render import Table
from retain.config import Scalar
from retain.errors import ConfigError, NewerFormat, UsageError

_KEY = arg("key KEY")


@command("config", about=__doc__)
def _config(app: App) -> Output:
    return _list(app, section="", every=False)


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
    if _is_known(app, key):
        value, origin = _in_force(app, key)
        data |= {"value": value, "origin": origin}
        lines.append(f"In force: {_format(value)} ({origin})")
    return Output(data, [*lines, f"File: {path}"], quiet="")


@command(
    "config list",
    arg("section SECTION", "only memory, hooks, engine ...", nargs="?", default=""),
    flag("--all", "also the settings of engines that nobody has set", dest="every"),
)
def _list(app: App, section: str, every: bool) -> Output:
    """the settings by section, their values and where these come from"""
    settings = [item for item, _ in config.list_settings(app.config) if _is_known(app, item.key)]
    sections = dict.fromkeys(map(_section, settings))
    if section and section not in sections:
        hint = f"There are: {', '.join(sections)}."
        raise UsageError(f"there is no section {section!r}", hint=hint)
    data, left_out = [], 0
    rows: list[tuple[str, ...]] = []
    for setting in settings:
        if section and _section(setting) != section:
            continue
        value, origin = _in_force(app, setting.key)
        facts = {"about": setting.about, "project": setting.project}
        data.append({"key": setting.key, "value": value, "origin": origin, **facts})
        if _section(setting) == "engine" and origin == "default" and not (every or section):
            left_out += 1
            continue
        if rows and not rows[-1][0].startswith(f"{_section(setting)}."):
            rows.append(("", "", "", ""))
        rows.append((setting.key, _format(value), origin, "yes" if setting.project else "no"))
    more = f"{left_out} engine settings at their defaults are not shown: retain config list engine"
    columns = ("Key", "Value", "From", "A project may set it")
    return Output(
        data,
        table=Table(columns, rows, flexible=("Value",)),
        messages=[more if left_out else ""],
        warnings=[*app.config.warnings, *_rules(app).warnings],
    )


def _section(setting: config.Setting) -> str:
    return setting.key.partition(".")[0]


@command("config path")
def _path(app: App) -> Output:
    """the config files that are read"""
    paths = list(dict.fromkeys(app.config_files()))
    return Output([{"file": path, "exists": os.path.exists(path)} for path in paths], paths)


@command("config check")
def _check(app: App) -> Output:
    """what is wrong or ignored in them"""
    from retain.records.schema import find_schema_faults

    notes = []
    try:
        warnings = [*app.config.warnings, *_rules(app).warnings]
        for category in _rules(app).categories.values():
            for fault in find_schema_faults(category.schema)[:1] if category.schema else ():
                name = category.name
                warnings.append(f"the schema of the category {name} cannot be used: {fault}")
        if off := config.switched_off(app.config):
            notes = [f"memory is {off}"]
    except (ConfigError, NewerFormat) as error:
        warnings = [error.message]
    lines = warnings or ["The configuration is fine."]
    return Output(
        {"warnings": warnings, "notes": notes},
        [*lines, *(f"Note: {note}" for note in notes)],
        code=1 if warnings else 0,
    )


def _refuse_unclear(key: str, value: str) -> None:
    """An address that is read in two ways could send a part of a password anywhere."""
    from retain.index.engines.addresses import fault
    from retain.index.engines.settings import parse_banks

    if key == "engine.banks":
        try:
            parse_banks(value)
        except ConfigError as error:
            raise UsageError(error.message, hint=error.hint) from None
    if key.endswith("url") and value and (expected := fault(key.split(".")[1], value)):
        # Not the address itself: what cannot be read may be a password anywhere.
        raise UsageError(f"that is no address for {key}", hint=f"It {expected}")


def _refuse_unknown(app: App, key: str) -> None:
    """A setting of a category that there is not is a slip of the pen."""
    if not _is_known(app, key):
        name = key.split(".")[1]
        raise UsageError(
            f"there is no category {name!r}, only {', '.join(_rules(app).categories)}",
            hint=f"`retain config set categories.{name}.folder FOLDER` adds one.",
        )


def _is_known(app: App, key: str) -> bool:
    """Whether a setting is of no category, or of one that is not ignored."""
    return not key.startswith("categories.") or key.split(".")[1] in _rules(app).categories


def _rules(app: App) -> Rules:
    return config.rules(app.config, app.location.root)


def _in_force(app: App, key: str) -> tuple[Scalar, str]:
    """A setting's value as anyone may see it, and where it comes from."""
    value, origin = app.config.value(key)
    return _mask_password(key, value), origin


def _mask_password(key: str, value: Scalar) -> Scalar:
    """A value as anyone may see it: an address may hold a password."""
    if not isinstance(value, str) or not (key.endswith("url") or "://" in value):
        return value
    from retain.index.engines.addresses import masked

    return masked(value)


def _format(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
