"""config get, set, unset, list, path, check."""

from __future__ import annotations

import argparse
import os

from retain import config
from retain.app import App
from retain.categories import Rules
from retain.cli.parser import Command, Parser, add_common, open_app
from retain.cli.render import Output, Table
from retain.errors import ConfigError, NewerFormat, UsageError
from retain.settings import Scalar

__all__ = ["config_command"]


def _arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.required = True
    one = actions.add_parser("get", help="print one value")
    one.add_argument("key", metavar="KEY")
    put = actions.add_parser("set", help="write one value: yours with --global, else the bank's")
    put.add_argument("key", metavar="KEY")
    put.add_argument("value", metavar="VALUE")
    gone = actions.add_parser("unset", help="take one value out again, where `set` would write it")
    gone.add_argument("key", metavar="KEY")
    actions.add_parser("list", help="every setting, its value and where that comes from")
    actions.add_parser("path", help="the config files that are read")
    actions.add_parser("check", help="what is wrong or ignored in them")
    for action in actions.choices.values():
        add_common(action)


def _config(args: argparse.Namespace) -> Output:
    app = open_app(args)
    actions = {
        "get": _get,
        "set": _set,
        "unset": _unset,
        "list": _list,
        "path": _path,
        "check": _check,
    }
    return actions[args.action](app, args)


def _get(app: App, args: argparse.Namespace) -> Output:
    _refuse_unknown(app, config.setting(args.key).key)
    value, origin = config.in_force(app.config, _rules(app), args.key)
    data = {"key": args.key, "value": _open(args.key, value), "origin": origin}
    return Output(data, f"{_shown(_open(args.key, value))}\n")


def _set(app: App, args: argparse.Namespace) -> Output:
    setting = config.setting(args.key)
    if not args.key.endswith(".folder"):
        _refuse_unknown(app, args.key)
    value = config.parse_value(setting, args.value)
    _refuse_forbidden(app, args.key, value)
    if args.key.startswith("engine."):
        _refuse_unclear(args.key, str(value))
    path = app.workspace.set_config(setting, value)
    value = _open(args.key, value)
    data = {"key": args.key, "value": value, "file": path}
    return Output(data, f"{args.key} = {_shown(value)}\nFile: {path}\n", quiet="")


def _unset(app: App, args: argparse.Namespace) -> Output:
    setting = config.setting(args.key)
    path, was_set = app.workspace.unset_config(setting)
    data: dict[str, object] = {"key": args.key, "file": path, "changed": was_set}
    text = f"{args.key} is no longer set there.\n" if was_set else f"{args.key} is not set there.\n"
    if _is_kept(args.key, _rules(app)):
        value, origin = config.in_force(app.config, _rules(app), args.key)
        value = _open(args.key, value)
        data |= {"value": value, "origin": origin}
        text += f"In force: {_shown(value)} ({origin})\n"
    return Output(data, f"{text}File: {path}\n", quiet="")


def _list(app: App, args: argparse.Namespace) -> Output:  # noqa: ARG001 - one shape for all
    kept = _rules(app)
    found = []
    for one, _ in config.listed(app.config):
        if _is_kept(one.key, kept):
            value, origin = config.in_force(app.config, kept, one.key)
            found.append((one, (_open(one.key, value), origin)))
    rows = [
        (one.key, _brief(one.key, _shown(value)), origin, "yes" if one.project else "no")
        for one, (value, origin) in found
    ]
    data = [
        {
            "key": one.key,
            "value": value,
            "origin": origin,
            "about": one.about,
            "project": one.project,
        }
        for one, (value, origin) in found
    ]
    table = Table(("Key", "Value", "From", "A project may set it"), rows)
    return Output(data, table=table, warnings=[*app.config.warnings, *kept.warnings])


def _path(app: App, args: argparse.Namespace) -> Output:  # noqa: ARG001 - one shape for all
    files = dict.fromkeys(app.workspace.config_files())
    data = [{"file": path, "exists": os.path.exists(path)} for path in files]
    return Output(data, "".join(f"{path}\n" for path in files))


def _check(app: App, args: argparse.Namespace) -> Output:  # noqa: ARG001 - one shape for all
    try:
        warnings = [*app.config.warnings, *_rules(app).warnings]
        warnings += _unusable(app)
    except (ConfigError, NewerFormat) as error:
        warnings = [error.message]
    text = "".join(f"{warning}\n" for warning in warnings) or "The configuration is fine.\n"
    return Output({"warnings": warnings}, text, code=1 if warnings else 0)


def _refuse_forbidden(app: App, key: str, value: Scalar) -> None:
    """A setting that would be ignored where it is written is not written."""
    own, path = app.workspace.config_files()
    why = config.forbidden(key, value)
    if why and path != own:
        raise UsageError(
            f"a project cannot set {key} to {_shown(value)}: {why}",
            unchanged="Nothing was changed.",
            hint=f"Set it in your own config: `retain config set {key} {_shown(value)} --global`.",
        )


def _refuse_unclear(key: str, value: str) -> None:
    """An address that is read in two ways could send a part of a password anywhere."""
    if key == "engine.banks":
        from retain.engines.naming import banks

        try:
            banks(value)
        except ConfigError as error:
            raise UsageError(error.message, hint=error.hint) from None
    if not key.endswith("url") or not value:
        return
    from retain.engines.addresses import fault

    if expected := fault(key.split(".")[1], value):
        # Not the address itself: what cannot be read may be a password anywhere.
        raise UsageError(f"that is no address for {key}", hint=f"It {expected}")


def _is_kept(key: str, kept: Rules) -> bool:
    """Whether a setting is of no category, or of one that is not ignored."""
    return not key.startswith("categories.") or key.split(".")[1] in kept.categories


def _refuse_unknown(app: App, key: str) -> None:
    """A setting of a category that there is not is a slip of the pen."""
    if not key.startswith("categories."):
        return
    name, known = key.split(".")[1], _rules(app).categories
    if name not in known:
        raise UsageError(
            f"there is no category {name!r}, only {', '.join(known)}",
            hint=f"`retain config set categories.{name}.folder FOLDER` adds one.",
        )


def _unusable(app: App) -> list[str]:
    """The schemas that nothing can be checked against."""
    given = [one for one in _rules(app).categories.values() if one.schema is not None]
    if not given:
        return []
    from retain.schema import schema_fault

    told = ((one.name, schema_fault(one.schema or {})) for one in given)
    return [f"the schema of the category {name} cannot be used: {why}" for name, why in told if why]


def _rules(app: App) -> Rules:
    return config.rules(app.config, app.place.root)


def _open(key: str, value: Scalar) -> Scalar:
    """A setting's value as anyone may see it: an address may hold a password."""
    if not isinstance(value, str) or not (key.endswith("url") or "://" in value):
        return value
    from retain.engines.addresses import masked

    return masked(value)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _brief(key: str, text: str) -> str:
    """A value for a cell; a whole schema is none."""
    is_long = key.endswith((".schema", ".description")) and len(text) > 60
    return f"{text[:57]}..." if is_long else text


config_command = Command(
    _arguments,
    _config,
    """Values come from, in rising order: defaults, your config, the project's, the environment.
A project's config may set only the keys that `list` marks so.

  retain config list
  retain config get versioning.max_versions
  retain config set versioning.auto_commit true
  retain config unset versioning.auto_commit
  retain config set memory.created_by "Ada" --global
  retain config set categories.decision.retention_days 365
  retain config set categories.incident.folder incidents   # a category of your own
  retain config check""",
)
