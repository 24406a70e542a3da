"""config get, set, list, path, check."""

from __future__ import annotations

import argparse
import os

from retain import config
from retain.app import App
from retain.cli.parser import Command, Parser, add_common, open_app
from retain.cli.render import Output, Table
from retain.errors import ConfigError, NewerFormat

__all__ = ["config_command"]


def _arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    actions.required = True
    one = actions.add_parser("get", help="print one value")
    one.add_argument("key", metavar="KEY")
    put = actions.add_parser("set", help="write one value: yours with --global, else the bank's")
    put.add_argument("key", metavar="KEY")
    put.add_argument("value", metavar="VALUE")
    actions.add_parser("list", help="every setting, its value and where that comes from")
    actions.add_parser("path", help="the config files that are read")
    actions.add_parser("check", help="what is wrong or ignored in them")
    for action in actions.choices.values():
        add_common(action)


def _config(args: argparse.Namespace) -> Output:
    app = open_app(args)
    actions = {"get": _get, "set": _set, "list": _list, "path": _path, "check": _check}
    return actions[args.action](app, args)


def _get(app: App, args: argparse.Namespace) -> Output:
    key = config.setting(args.key).key
    value, origin = app.config.values[key]
    data = {"key": args.key, "value": value, "origin": origin}
    return Output(data, f"{_shown(value)}\n")


def _set(app: App, args: argparse.Namespace) -> Output:
    setting = config.setting(args.key)
    value = config.parse_value(setting, args.value)
    path = app.workspace.set_config(setting, value)
    data = {"key": args.key, "value": value, "file": path}
    return Output(data, f"{args.key} = {_shown(value)}\nFile: {path}\n", quiet="")


def _list(app: App, args: argparse.Namespace) -> Output:  # noqa: ARG001 - one shape for all
    rows = [
        (key, _shown(value), origin, "yes" if config.SETTINGS[key].project else "no")
        for key, (value, origin) in app.config.values.items()
    ]
    data = [
        {
            "key": key,
            "value": value,
            "origin": origin,
            "about": config.SETTINGS[key].about,
            "project": config.SETTINGS[key].project,
        }
        for key, (value, origin) in app.config.values.items()
    ]
    table = Table(("Key", "Value", "From", "A project may set it"), rows)
    return Output(data, table=table, warnings=app.config.warnings)


def _path(app: App, args: argparse.Namespace) -> Output:  # noqa: ARG001 - one shape for all
    files = dict.fromkeys(app.workspace.config_files())
    data = [{"file": path, "exists": os.path.exists(path)} for path in files]
    return Output(data, "".join(f"{path}\n" for path in files))


def _check(app: App, args: argparse.Namespace) -> Output:  # noqa: ARG001 - one shape for all
    try:
        warnings = list(app.config.warnings)
    except (ConfigError, NewerFormat) as error:
        warnings = [error.message]
    text = "".join(f"{warning}\n" for warning in warnings) or "The configuration is fine.\n"
    return Output({"warnings": warnings}, text, code=1 if warnings else 0)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


config_command = Command(
    _arguments,
    _config,
    """Values come from, in rising order: defaults, your config, the project's, the environment.
A project's config may set only the keys that `list` marks so.

  retain config list
  retain config get versioning.max_versions
  retain config set versioning.auto_commit true
  retain config set memory.created_by "Ada" --global
  retain config check""",
)
