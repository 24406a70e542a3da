"""Settings in layers: defaults < the person's config < the project's < environment.

A project's config comes from whoever wrote the repository, so it may set only the keys marked
`project`; anything else in it is ignored, and a warning says so.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import ConfigError, NewerFormat, UsageError

if TYPE_CHECKING:
    from retain.categories import Rules

Scalar = bool | int | float | str

FORMAT: Final = 1
MAX_CHARS: Final = 100_000
FILE: Final = "config.toml"
FALSE: Final = ("0", "false", "no", "off")

_TRUE: Final = ("1", "true", "yes", "on")
_MAX_DOTS: Final = 100  # in a line: tomllib takes quadratic time for a key of thousands of parts
_MAX_NUMBER: Final = 10**12  # no number in a config is larger
_TYPES: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
_CATEGORY: Final = "categories."
_DEPTHS: Final = {"categories": 3, "engine": 3, "triage": 4}  # parts of a section's longest keys

# What a project may not set a key to that it may set to other values.
_FORBIDDEN: Final[Mapping[tuple[str, object], str]] = {
    ("records.archive_retired", False): "only you can have retired memories destroyed",
    # Else what an agent saves in somebody's project would speak in all the others.
    ("memory.storage_strategy", "user"): "only you can have what is saved here go to your own bank",
    ("versioning.mode", "off"): "only you can switch versions off",
}


class Setting(NamedTuple):
    """One key a person may set; `settings.json` lists them all."""

    key: str
    default: Scalar
    about: str
    project: bool = False  # whether a project may set it, too
    choices: Sequence[str] = ()
    least: float = 0
    most: float = 0  # 0 means no end; what lies beyond it in a file counts as this

    @property
    def highest(self) -> float:
        return self.most or _MAX_NUMBER

    @property
    def variable(self) -> str:
        """The environment variable that sets this key."""
        return "RETAIN_" + self.key.upper().replace(".", "_")


def _load_settings() -> dict[str, Setting]:
    with open(os.path.join(os.path.dirname(__file__), "settings.json"), encoding="utf-8") as file:
        return {row["key"]: Setting(**row) for row in json.load(file)}


SETTINGS: Final[Mapping[str, Setting]] = _load_settings()


class Value(NamedTuple):
    """A setting's value, and where it comes from."""

    value: Scalar
    origin: str


class Layer(NamedTuple):
    """What one file sets, by flat keys."""

    origin: str
    values: Mapping[str, object]
    is_project: bool
    warnings: tuple[str, ...] = ()


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


# Single settings


def setting(key: str) -> Setting:
    """A setting by its key, or an error that names the nearest one."""
    if known := _known(key):
        return known
    import difflib  # 5 ms, and only for this error

    near = difflib.get_close_matches(key, SETTINGS, 1, 0.4)
    guess = f"Did you mean {near[0]}? " if near else ""
    raise UsageError(
        f"there is no setting {key!r}",
        unchanged="Nothing was changed.",
        hint=f"{guess}`retain config list` shows them all.",
    )


def _known(key: str) -> Setting | None:
    """A setting by its key; those of a category are made for its name."""
    if not key.startswith(_CATEGORY):
        return SETTINGS.get(key)
    from retain import categories  # 0.4 ms, and few configs set something of them

    name, _, field = key.removeprefix(_CATEGORY).partition(".")
    if field not in categories.FIELDS or not categories.is_name(name):
        return None
    category = categories.DEFAULTS.get(name) or categories.Category(name, "")
    default = getattr(category, field)
    return Setting(key, "" if default is None else default, categories.FIELDS[field], True)


def parse_value(setting: Setting, text: str) -> Scalar:
    """A value as a person types it, in the setting's own type."""
    value: Scalar = text
    if isinstance(setting.default, bool):
        lowered = text.strip().lower()
        value = lowered in _TRUE if lowered in _TRUE + FALSE else text
    elif isinstance(setting.default, int | float):
        with contextlib.suppress(ValueError):
            value = type(setting.default)(text)
    return _check(setting, value)


def _check(setting: Setting, value: object) -> Scalar:
    """The value if it fits its setting, else a UsageError that says what would."""
    key, default = setting.key, setting.default
    if type(value) in (int, float) and not setting.least <= value <= setting.highest:  # type: ignore[operator]
        raise UsageError(f"{_range(setting)}, not {shown(value)}")
    if isinstance(default, float) and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise UsageError(f"{key} is {_TYPES[type(default)]}, not {shown(value)}")
    if setting.choices and value not in setting.choices:
        raise UsageError(f"{key} is one of {', '.join(setting.choices)}, not {shown(value)}")
    assert isinstance(value, bool | int | float | str)  # noqa: S101 - the type was compared above
    if key.startswith(_CATEGORY) and key.endswith(".folder"):
        from retain.memory import KINDS, check_collection  # 2 ms, which a guard does not have

        taken = [name for kind in KINDS.values() for name in kind.not_collections]
        if not value or value in taken:
            raise UsageError(f"{key} is the name of a collection for memories, not {shown(value)}")
        return check_collection(str(value))
    return value


def _range(setting: Setting) -> str:
    return f"{setting.key} is between {setting.least:g} and {setting.highest:,}"


def shown(value: object) -> str:
    """A value for a message, however large or deep a stranger's config made it."""
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        return "a huge number"
    return repr(value)[:60]


def forbidden(key: str, value: object) -> str:
    """Why a project may not set a key to this value; empty if it may."""
    return _FORBIDDEN.get((key, value), "") if isinstance(value, bool | str) else ""


# Loading


def load(
    user_file: str, bank_file: str, env: Mapping[str, str], other: Layer | None = None
) -> Config:
    """Read every layer; `other` is what the config of another tool's store sets."""
    values = {key: Value(setting.default, "default") for key, setting in SETTINGS.items()}
    warnings: list[str] = []
    layers = [Layer(user_file, flat(read_file(user_file)), False)]
    if bank_file != user_file:
        layers.append(Layer(bank_file, flat(read_file(bank_file, follow=False)), True))
    if other:
        layers.append(other)
    for layer in layers:
        warnings += layer.warnings
        for key, value in layer.values.items():
            try:
                values[key] = Value(_accept(layer, key, value, warnings), layer.origin)
            except UsageError as error:
                warnings.append(f"{layer.origin}: {error.message}; ignored")
    for variable, setting in _variables(env):
        try:
            values[setting.key] = Value(parse_value(setting, env[variable]), variable)
        except UsageError as error:
            warnings.append(f"{variable} is ignored: {error.message}")
    return Config(values, tuple(warnings))


def _accept(layer: Layer, key: str, value: object, warnings: list[str]) -> Scalar:
    """The value that a layer sets a key to, or a UsageError that says why it may not.

    A number beyond the ends that a setting has of its own counts as the nearest one.
    """
    known = _known(key)
    if known is None:
        raise UsageError(f"{key} is not a setting Retain knows")
    if layer.is_project and not known.project:
        raise UsageError(f"{key} may only be set in your own config, not by a project")
    if layer.is_project and (reason := forbidden(key, value)):
        raise UsageError(f"{key} = {shown(value)}: {reason}, in your own config")
    if isinstance(value, dict) and key.startswith(_CATEGORY) and key.endswith(".schema"):
        # A schema may stand in a config as it is; its value is then the text of it.
        with contextlib.suppress(TypeError, ValueError, RecursionError):  # JSON has no dates
            value = json.dumps(value, ensure_ascii=False)
    is_number = type(value) is int or (isinstance(value, float) and isfinite(value))
    if known.most and is_number and not known.least <= value <= known.most:  # type: ignore[operator]
        nearest = max(known.least, min(known.most, value))  # type: ignore[call-overload]
        used = f"{nearest:g} is used"
        warnings.append(f"{layer.origin}: {_range(known)}, not {shown(value)}; {used}")
        value = type(known.default)(nearest)
    return _check(known, value)


def _variables(env: Mapping[str, str]) -> Iterator[tuple[str, Setting]]:
    """The environment variables that set something, with their settings."""
    variables = [name for name in env if name.startswith("RETAIN_") and env[name]]
    keys = {known.variable: key for key, known in SETTINGS.items()} if variables else {}
    for variable in variables:
        key = keys.get(variable, "")
        if variable.startswith("RETAIN_CATEGORIES_"):
            from retain.categories import FIELDS  # as above

            name = variable.removeprefix("RETAIN_CATEGORIES_").lower()
            field = next((field for field in FIELDS if name.endswith(f"_{field}")), "")
            key = f"{_CATEGORY}{name.removesuffix(f'_{field}')}.{field}"
        if known := _known(key):
            yield variable, known


def read_file(path: str, *, follow: bool = True) -> dict[str, object]:
    """A config file as nested tables; empty when there is none."""
    try:
        with open(path, encoding="utf-8", opener=None if follow else no_link) as file:
            text = file.read(MAX_CHARS + 1)
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
    lines = [line for line in map(str.strip, text.splitlines()) if line and line[0] != "#"]
    if len(text) > MAX_CHARS or any(line.count(".") > _MAX_DOTS for line in lines):
        raise ConfigError(f"{path} is no config of ours: too large, or with a key of many parts")
    # A file as `retain init` writes it needs no parser, and most are: that saves a tenth of `get`.
    if set(lines) <= {f"format = {FORMAT}"}:
        return {}
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}",
            unchanged="Nothing was read or changed.",
            hint="Mend it in an editor; `retain config path` shows where it is.",
        ) from error


def flat(tables: Mapping[str, object]) -> dict[str, object]:
    """Every key as `section.name`; deeper tables are values, except where settings go deeper."""
    values: dict[str, object] = {}

    def add(key: str, value: object, depth: int) -> None:
        if depth and isinstance(value, dict):
            for name, inner in value.items():
                add(f"{key}.{name}", inner, depth - 1)
        else:
            values[key] = value

    for section, value in tables.items():
        add(section, value, _DEPTHS.get(section, 2) - 1)
    return values


# The settings in force


def rules(config: Config, root: str) -> Rules:
    """How the bank at `root` keeps its typed memories."""
    from retain.categories import Rules, load_categories  # as above

    fields: dict[str, dict[str, object]] = {}
    for key, (value, _) in config.values.items():
        if key.startswith(_CATEGORY):
            _, name, field = key.split(".")
            fields.setdefault(name, {})[field] = value
    categories, warnings = load_categories(fields, root)
    return Rules(
        categories,
        config.number("records.grace_period_days"),
        config.flag("records.archive_retired"),
        config.number("records.max_per_category"),
        config.text("records.match_strategy"),
        tuple(warnings),
    )


def switched_off(config: Config) -> str:
    """That memory is switched off, and where; empty if it is on."""
    is_on, origin = config.values["memory.enabled"]
    return "" if is_on else f"switched off (memory.enabled = false: {origin})"


def list_settings(config: Config) -> Iterator[tuple[Setting, Value]]:
    """Every setting with its value; of the categories', those that say something."""
    from retain.categories import DEFAULTS, FIELDS  # as above

    for known in SETTINGS.values():
        yield known, config.values[known.key]
    named = [key.split(".")[1] for key in config.values if key.startswith(_CATEGORY)]
    for name in dict.fromkeys([*DEFAULTS, *named]):
        for field in FIELDS:
            known = setting(f"{_CATEGORY}{name}.{field}")
            if (
                known.key in config.values
                or known.default != setting(f"{_CATEGORY}x.{field}").default
            ):
                yield known, config.value(known.key)


# Writing


def config_file(root: str) -> str:
    """A bank's own config file."""
    return os.path.join(root, FILE)


def set_key(text: str, key: str, value: Scalar | None) -> str:
    """A config file's text with one key set, or with None left out; all else stays as it is."""
    import tomlkit  # 20 ms, and only `retain config set` needs it

    document = tomlkit.parse(text or f"format = {FORMAT}\n")
    *sections, name = key.split(".")
    table: MutableMapping[str, object] = document
    around: list[MutableMapping[str, object]] = []  # the tables that each section stands in
    for depth, part in enumerate(sections, 1):
        if part not in table:
            if value is None:
                return text
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
        around.append(table)
        table = inner
    if value is not None:
        table[name] = value
        return tomlkit.dumps(document)
    if table.pop(name, None) is None:
        return text
    for outer, section in zip(reversed(around), reversed(sections), strict=True):
        # An empty table goes too, unless somebody wrote a comment in it.
        if not outer[section] and "#" not in getattr(outer[section], "as_string", str)():
            del outer[section]
    return tomlkit.dumps(document)


# Numbers that a program hands in


def whole(name: str, value: int, least: int = 1) -> int:
    """A number of things as a program gives it, or a UsageError that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return number


def share(name: str, value: object) -> float:
    """A score or a threshold as a program gives it, or a UsageError that names the argument."""
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UsageError(f"{name} is a number from 0 to 1, not {value!r}")
    return float(value)
