"""Settings in layers: defaults < the person's config < the project's < environment.

A project's config comes from whoever wrote the repository, so it may set only the keys marked
`project`; anything else in it is ignored, and said so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from math import isfinite

from retain.errors import ConfigError, NewerFormat, UsageError
from retain.settings import MOST, SETTINGS, Setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple

    from retain.categories import Rules
    from retain.settings import Scalar
else:
    from retain.tuples import NamedTuple

__all__ = [
    "FORMAT",
    "Config",
    "Value",
    "changed",
    "forbidden",
    "in_force",
    "listed",
    "load",
    "parse_value",
    "rules",
    "setting",
]

FORMAT: Final = 1
MAX_CHARS: Final = 100_000
MAX_DOTS: Final = 100
FILE: Final = "config.toml"
CLAUDE_FILE: Final = "memory-config.json"

_TRUE: Final = ("1", "true", "yes", "on")
FALSE: Final = ("0", "false", "no", "off")


class Value(NamedTuple):
    """A setting's value, and where it comes from."""

    value: Scalar
    origin: str


class Config(NamedTuple):
    """Every setting's value, with what had to be ignored on the way.

    Of the categories' settings, `values` has only those that are set; `value` knows the others.
    """

    values: Mapping[str, Value]
    warnings: tuple[str, ...]

    def value(self, key: str) -> Value:
        """A setting's value by its key, or an error that names the nearest one."""
        return self.values.get(key) or Value(setting(key).default, "default")

    def flag(self, key: str) -> bool:
        return bool(self.values[key].value)

    def number(self, key: str) -> int:
        return int(self.values[key].value)

    def text(self, key: str) -> str:
        return str(self.values[key].value)


def setting(key: str) -> Setting:
    """A setting by its key, or an error that names the nearest one."""
    if known := _known(key):
        return known
    import difflib

    near = difflib.get_close_matches(key, [*SETTINGS, *_category_keys()], 1, 0.4)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"there is no setting {key!r}",
        unchanged="Nothing was changed.",
        hint=f"{guess}`retain config list` shows them all.",
    )


def _known(key: str) -> Setting | None:
    """A setting by its key; a category's are made for its name."""
    if not key.startswith("categories."):
        return SETTINGS.get(key)
    from retain.categories import DEFAULTS, FIELDS, Category, is_name

    name, _, field = key.removeprefix("categories.").partition(".")
    if field not in FIELDS or not is_name(name):
        return None
    default = getattr(DEFAULTS.get(name) or Category(name, ""), field)
    return Setting(key, "" if default is None else default, FIELDS[field], True)


def _category_keys(names: Iterable[str] = ()) -> list[str]:
    from retain.categories import DEFAULTS, FIELDS

    return [f"categories.{name}.{field}" for name in names or DEFAULTS for field in FIELDS]


def parse_value(of: Setting, text: str) -> Scalar:
    """A value as a person types it, in the setting's own type."""
    lowered = text.strip().lower()
    if isinstance(of.default, bool):
        if lowered not in _TRUE + FALSE:
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
    if type(value) in (int, float) and not of.least <= value <= of.highest:  # type: ignore[operator]
        raise UsageError(f"{of.key} is between {of.least:g} and {of.highest:,}, not {shown(value)}")
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise UsageError(f"{of.key} is of type {type(default).__name__}, not {shown(value)}")
    if of.choices and value not in of.choices:
        raise UsageError(f"{of.key} is one of {', '.join(of.choices)}, not {shown(value)}")
    assert isinstance(value, bool | int | float | str)  # noqa: S101 - the type was compared above
    is_folder = of.key.startswith("categories.") and of.key.endswith(".folder")
    return _folder(of.key, str(value)) if is_folder else value


def _folder(key: str, name: str) -> str:
    """A name that a category's collection may have."""
    from retain.paths import KINDS, check_collection

    taken = [name for kind in KINDS.values() for name in kind.not_collections]
    if not name or name in taken:
        raise UsageError(f"{key} is the name of a collection for memories, not {shown(name)}")
    return check_collection(name)


def shown(value: object) -> str:
    """A value for a message, however large or deep a stranger's config made it."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > MOST:
        return "a huge number"
    return repr(value)[:60]


def load(user_file: str, bank_file: str, env: Mapping[str, str], foreign: str = "") -> Config:
    """Read every layer; `foreign` is the file of another tool's store that stands for a project's.

    That is an `.arcaneum` file or a `memory-config.json`.
    """
    values = {key: Value(one.default, "default") for key, one in SETTINGS.items()}
    warnings: list[str] = []
    layers = [(user_file, dict(flat(read_file(user_file))), False)]
    if bank_file != user_file:
        layers.append((bank_file, dict(flat(read_file(bank_file, follow=False))), True))
    if foreign:
        from retain.foreign import settings_of  # most banks have no such file

        layers.append((foreign, settings_of(foreign, warnings), True))
    for origin, found, is_project in layers:
        for key, value in found.items():
            _set(values, warnings, key, value, origin, is_project)
    for one in [*SETTINGS.values(), *_categories_in(env)]:
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
    known = _known(key)
    if known is None:
        warnings.append(f"{origin}: {key} is not a setting Retain knows; ignored")
    elif is_project and not known.project:
        warnings.append(
            f"{origin}: {key} may only be set in your own config, not by a project; ignored"
        )
    elif is_project and (why := forbidden(key, value)):
        warnings.append(f"{origin}: {why}, in your own config; ignored")
    else:
        try:
            values[key] = Value(_checked(known, _clamped(known, _written(key, value))), origin)
        except UsageError as error:
            warnings.append(f"{origin}: {error.message}; ignored")


def _clamped(of: Setting, value: object) -> object:
    """A number beyond the ends that a setting has of its own counts as the nearest one."""
    if not of.most or type(value) is bool or not isinstance(value, int | float):
        return value
    if isinstance(value, float) and not isfinite(value):
        return value
    return type(of.default)(max(of.least, min(of.most, value)))


def forbidden(key: str, value: object) -> str:
    """Why a project may not set a key that it may set to this value; empty if it may."""
    if (key, value) == ("records.archive_retired", False):
        return "only you can have retired memories destroyed"
    if (key, value) == ("memory.storage_strategy", "user"):
        # Else what an agent saves in somebody's project would speak in all the others.
        return "only you can have what is saved here go to your own bank"
    return "only you can switch versions off" if (key, value) == ("versioning.mode", "off") else ""


def _written(key: str, value: object) -> object:
    """A category's schema may stand in a config as it is; its value is then the text of it."""
    if not (isinstance(value, dict) and key.startswith("categories.") and key.endswith(".schema")):
        return value
    import json

    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):  # TOML has dates, and JSON has not
        return value


def _categories_in(env: Mapping[str, str]) -> Iterator[Setting]:
    """The settings of categories that variables are there for."""
    prefix = "RETAIN_CATEGORIES_"
    for variable in env:
        if variable.startswith(prefix):
            from retain.categories import FIELDS

            given = variable.removeprefix(prefix).lower()
            field = next((one for one in FIELDS if given.endswith(f"_{one}")), "")
            known = _known(f"categories.{given.removesuffix(f'_{field}')}.{field}")
            if known and known.variable == variable:
                yield known


def read_file(path: str, *, follow: bool = True) -> dict[str, object]:
    """A config file as nested tables; empty when there is none."""
    try:
        with open(path, encoding="utf-8", opener=None if follow else no_link) as file:
            text = file.read(1_000_000)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    values = _parse(text, path)
    version = values.pop("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise NewerFormat(
            f"{path} says format = {shown(version)}, and this Retain knows {FORMAT}: "
            "the bank was made by a newer Retain and is left untouched",
            hint="Upgrade Retain: pip install --upgrade retain-bank",
        )
    return values


def no_link(path: str, flags: int) -> int:
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


_DEPTHS: Final = {
    "categories": 3,
    "engine": 3,
    "triage": 4,
}  # parts of the longest keys of a section


def flat(tables: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Every key as `section.name`; deeper tables are values, except where settings go deeper."""
    for section, value in tables.items():
        yield from _leaves(section, value, _DEPTHS.get(section, 2) - 1)


def _leaves(key: str, value: object, depth: int) -> Iterator[tuple[str, object]]:
    if depth and isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner, depth - 1)
    else:
        yield key, value


def rules(config: Config, root: str) -> Rules:
    """How the bank at `root` keeps its typed memories."""
    from retain.categories import Rules, gathered

    given: dict[str, dict[str, object]] = {}
    for key, (value, _) in config.values.items():
        if key.startswith("categories."):
            _, name, field = key.split(".")
            given.setdefault(name, {})[field] = value
    categories, warnings = gathered(given, root)
    return Rules(
        categories,
        config.number("records.grace_period_days"),
        config.flag("records.archive_retired"),
        config.number("records.max_per_category"),
        config.text("records.match_strategy"),
        tuple(warnings),
    )


def in_force(config: Config, kept: Rules, key: str) -> Value:
    """A setting's value; a category whose folder is another's keeps its own."""
    stated = config.value(key)
    parts = key.split(".")
    kind = kept.category(parts[1]) if parts[0] == "categories" and parts[2] == "folder" else None
    return stated if kind is None or kind.folder == stated.value else Value(kind.folder, "default")


def listed(config: Config) -> Iterator[tuple[Setting, Value]]:
    """Every setting with its value; of a category's, those that say something."""
    from retain.categories import DEFAULTS, Category

    for known in SETTINGS.values():
        yield known, config.values[known.key]
    set_ones = [key for key in config.values if key.startswith("categories.")]
    names = dict.fromkeys([*DEFAULTS, *(key.split(".")[1] for key in set_ones)])
    usual = {**Category._field_defaults, "schema": ""}
    for key in _category_keys(names):
        known = setting(key)
        if key in config.values or known.default != usual.get(key.rpartition(".")[2], ""):
            yield known, config.value(key)


def config_file(root: str) -> str:
    """A bank's own config file."""
    return os.path.join(root, FILE)


def changed(text: str, to: Setting, value: Scalar) -> str:
    """A config file's text with one key set; comments and order stay as they are."""
    import tomlkit

    document = tomlkit.parse(text or f"format = {FORMAT}\n")
    *sections, name = to.key.split(".")
    table: MutableMapping[str, object] = document
    for depth, part in enumerate(sections, 1):
        if part not in table:
            is_inline = isinstance(table, tomlkit.items.InlineTable)
            is_super = depth < len(sections)
            table[part] = tomlkit.inline_table() if is_inline else tomlkit.table(is_super)
        inner = table[part]
        if not isinstance(inner, dict):
            section = ".".join(sections[:depth])
            raise UsageError(
                f"the config has {section!r} as a value, where a table [{section}] belongs",
                unchanged="Nothing was changed.",
                hint="Mend it in an editor; `retain config path` shows where it is.",
            )
        table = inner
    table[name] = value
    return tomlkit.dumps(document)
