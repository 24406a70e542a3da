"""Settings in layers: defaults < the person's config < the project's < environment.

A project's config comes from whoever wrote the repository, so it may set only the keys marked
`project`; anything else in it is ignored, and said so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from retain.errors import ConfigError, NewerFormat, UsageError

__all__ = [
    "FORMAT",
    "SETTINGS",
    "Config",
    "Scalar",
    "Setting",
    "Value",
    "changed",
    "load",
    "parse_value",
    "setting",
]

FORMAT: Final = 1
MAX_CHARS: Final = 100_000
MAX_DOTS: Final = 100
FILE: Final = "config.toml"

_MOST: Final = 10**12  # no number in a config is larger

_TRUE: Final = ("1", "true", "yes", "on")
_FALSE: Final = ("0", "false", "no", "off")


Scalar = bool | int | float | str


class Setting(NamedTuple):
    """One key a person may set."""

    key: str
    default: Scalar
    about: str
    project: bool = False
    choices: tuple[str, ...] = ()
    least: int = 0

    @property
    def variable(self) -> str:
        """The environment variable that sets this key."""
        return "RETAIN_" + self.key.upper().replace(".", "_")


SETTINGS: Final[Mapping[str, Setting]] = {
    setting.key: setting
    for setting in (
        Setting("memory.enabled", True, "Whether memories are read and written here.", True),
        Setting(
            "memory.storage_strategy",
            "project",
            "`project`: the nearest project bank; `user`: always the global one.",
            True,
            ("project", "user"),
        ),
        Setting(
            "memory.recency_boost_days",
            7,
            "How many days a memory counts as recent when hits are ranked.",
            True,
        ),
        Setting(
            "memory.recency_boost_factor",
            1.2,
            "What the score of a recent memory is multiplied by.",
            True,
        ),
        Setting(
            "memory.recency_by_type",
            "",
            "The same for single types: `plan=14:1.3, fact=0:1` (days, then factor).",
            True,
        ),
        Setting(
            "memory.default_collection",
            "",
            "Where `put` stores without --collection; empty means the store's own default.",
            True,
        ),
        Setting("memory.max_bytes", 2_000_000, "The largest file that is stored or read.", least=1),
        Setting("memory.created_by", "", "Who `put` names as author; empty means found out."),
        Setting(
            "versioning.mode",
            "auto",
            "`auto`: git's history in a work tree, numbered copies everywhere; "
            "`numbered`: copies only; `off`: no copies.",
            True,
            ("auto", "numbered", "off"),
        ),
        Setting(
            "versioning.max_versions", 10, "How many numbered copies a memory keeps.", True, (), 1
        ),
        Setting("versioning.auto_commit", False, "Commit every change of a memory to git.", True),
        Setting(
            "recall.embedder",
            "bundled",
            "Where vectors come from: `bundled`, `none`, a directory with a BERT-family model, or "
            "the address of an OpenAI-compatible `/v1/embeddings`.",
        ),
        Setting("recall.model", "", "Which model to ask for at that address."),
        Setting("guard.redact_secrets", True, "Replace secrets by [REDACTED:kind] on the way in."),
    )
}


class Value(NamedTuple):
    """A setting's value, and where it comes from."""

    value: Scalar
    origin: str


class Config(NamedTuple):
    """Every setting's value, with what had to be ignored on the way."""

    values: Mapping[str, Value]
    warnings: tuple[str, ...]

    def flag(self, key: str) -> bool:
        return bool(self.values[key].value)

    def number(self, key: str) -> int:
        return int(self.values[key].value)

    def text(self, key: str) -> str:
        return str(self.values[key].value)


def setting(key: str) -> Setting:
    """A setting by its key, or an error that names the nearest one."""
    if key in SETTINGS:
        return SETTINGS[key]
    import difflib

    near = difflib.get_close_matches(key, SETTINGS, 1, 0.4)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"there is no setting {key!r}",
        unchanged="Nothing was changed.",
        hint=f"{guess}`retain config list` shows them all.",
    )


def parse_value(of: Setting, text: str) -> Scalar:
    """A value as a person types it, in the setting's own type."""
    lowered = text.strip().lower()
    if isinstance(of.default, bool):
        if lowered not in _TRUE + _FALSE:
            raise UsageError(f"{of.key} is true or false, not {text!r}")
        return lowered in _TRUE
    if isinstance(of.default, int | float):
        try:
            return _checked(of, type(of.default)(text))
        except ValueError:
            kind = "a whole number" if isinstance(of.default, int) else "a number"
            raise UsageError(f"{of.key} is {kind}, not {text!r}") from None
    return _checked(of, text)


def _checked(of: Setting, value: object) -> Scalar:
    """The value if it fits its setting, else a UsageError that says what would."""
    default = of.default
    if type(value) in (int, float) and not of.least <= value <= _MOST:  # type: ignore[operator]
        raise UsageError(f"{of.key} is between {of.least} and {_MOST:,}, not {_shown(value)}")
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise UsageError(f"{of.key} is of type {type(default).__name__}, not {_shown(value)}")
    if of.choices and value not in of.choices:
        raise UsageError(f"{of.key} is one of {', '.join(of.choices)}, not {_shown(value)}")
    assert isinstance(value, bool | int | float | str)  # noqa: S101 - the type was compared above
    return value


def _shown(value: object) -> str:
    """A value for a message, however large or deep a stranger's config made it."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > _MOST:
        return "a huge number"
    return repr(value)[:60]


def load(user_file: str, bank_file: str, env: Mapping[str, str], foreign: str = "") -> Config:
    """Read every layer; `foreign` is an `.arcaneum` file whose settings stand for a project's."""
    values = {key: Value(one.default, "default") for key, one in SETTINGS.items()}
    warnings: list[str] = []
    layers = [(user_file, dict(_flat(read_file(user_file))), False)]
    if bank_file != user_file:
        layers.append((bank_file, dict(_flat(read_file(bank_file, follow=False))), True))
    if foreign:
        layers.append((foreign, _from_arcaneum(foreign), True))
    for origin, found, is_project in layers:
        for key, value in found.items():
            _set(values, warnings, key, value, origin, is_project)
    for one in SETTINGS.values():
        if given := env.get(one.variable, ""):
            try:
                values[one.key] = Value(parse_value(one, given), one.variable)
            except UsageError as error:
                warnings.append(f"{one.variable} is ignored: {error.message}")
    return Config(values, tuple(warnings))


def _set(
    values: dict[str, Value],
    warnings: list[str],
    key: str,
    value: object,
    origin: str,
    is_project: bool,
) -> None:
    known = SETTINGS.get(key)
    if known is None:
        warnings.append(f"{origin}: {key} is not a setting Retain knows; ignored")
    elif is_project and not known.project:
        warnings.append(
            f"{origin}: {key} may only be set in your own config, not by a project; ignored"
        )
    elif is_project and (key, value) == ("versioning.mode", "off"):
        warnings.append(f"{origin}: only you can switch versions off, in your own config; ignored")
    else:
        try:
            values[key] = Value(_checked(known, value), origin)
        except UsageError as error:
            warnings.append(f"{origin}: {error.message}; ignored")


def read_file(path: str, *, follow: bool = True) -> dict[str, object]:
    """A config file as nested tables; empty when there is none."""
    try:
        with open(path, encoding="utf-8", opener=None if follow else _no_link) as file:
            text = file.read(1_000_000)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    values = _parse(text, path)
    version = values.pop("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise NewerFormat(
            f"{path} says format = {_shown(version)}, and this Retain knows {FORMAT}: "
            "the bank was made by a newer Retain and is left untouched",
            hint="Upgrade Retain: pip install --upgrade retain-bank",
        )
    return values


def _no_link(path: str, flags: int) -> int:
    """Open a project's config, which must not lead to a file or a device elsewhere."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _parse(text: str, path: str) -> dict[str, object]:
    lines = (line.strip() for line in text.splitlines())
    # A file as `retain init` writes it needs no parser, and most are: that saves a tenth of `get`.
    if {line for line in lines if line and line[0] != "#"} <= {f"format = {FORMAT}"}:
        return {}
    import tomllib

    # tomllib takes quadratic time for a key of thousands of parts.
    if len(text) > MAX_CHARS or max(line.count(".") for line in text.splitlines()) > MAX_DOTS:
        raise ConfigError(f"{path} is no config of ours: too large, or with a key of many parts")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}",
            unchanged="Nothing was read or changed.",
            hint="Mend it in an editor; `retain config path` shows where it is.",
        ) from error


def _flat(tables: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Every key as `section.name`; deeper tables are no settings of ours."""
    for section, table in tables.items():
        if isinstance(table, dict):
            for name, value in table.items():
                yield f"{section}.{name}", value
        else:
            yield section, table


def _from_arcaneum(path: str) -> dict[str, object]:
    """The settings of document-style `.arcaneum` files in Retain's words."""
    from retain.paths import arcaneum_settings

    theirs = arcaneum_settings(path)
    ours: dict[str, object] = {}
    # `versioning: git` and `history: false` leave history to git, which `auto` does; it keeps a
    # few copies besides, because what was never committed would otherwise be lost.
    if theirs.get("versioning") == "custom":
        ours["versioning.mode"] = "numbered"
    if str(theirs.get("auto_version")).lower() in _FALSE:
        ours["versioning.mode"] = "off"
    if "max_versions" in theirs:
        ours["versioning.max_versions"] = theirs["max_versions"]
    return ours


def config_file(root: str) -> str:
    """A bank's own config file."""
    return os.path.join(root, FILE)


def changed(text: str, to: Setting, value: Scalar) -> str:
    """A config file's text with one key set; comments and order stay as they are."""
    import tomlkit

    document = tomlkit.parse(text or f"format = {FORMAT}\n")
    section, _, name = to.key.partition(".")
    table = document.setdefault(section, tomlkit.table())
    if not isinstance(table, dict):
        raise UsageError(
            f"the config has {section!r} as a value, where a table [{section}] belongs",
            unchanged="Nothing was changed.",
            hint="Mend it in an editor; `retain config path` shows where it is.",
        )
    table[name] = value
    return tomlkit.dumps(document)
