"""One table put into a TOML file or taken out of it, with the comments around it left alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any, Final

from retain.errors import Unreadable
from retain.hosts.masking import MASK, is_secret, masks

__all__ = ["block", "insert", "load", "masked", "remove"]

_PROPOSALS: Final = 5
_HEADER: Final = re.compile(r"[ \t]*\[")
_BARE: Final = re.compile(r"[ \t]*(?:#.*)?\r?\n?")  # a line with nothing on it, or a comment


def load(text: str) -> dict[str, Any]:
    """What a text says, or Unreadable with the reason."""
    import tomllib

    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not valid TOML: {error}") from error


def insert(text: str, path: Sequence[str], value: object) -> str:
    """The text with a value at a path of keys; a new table is put at its end."""
    expected = load(text)
    within = expected
    for key in path[:-1]:
        within = within.setdefault(key, {})
        if not isinstance(within, dict):
            raise Unreadable(f"{key!r} in it is not a table")
    is_new = path[-1] not in within
    within[path[-1]] = value
    if is_new and isinstance(value, dict):
        new = _appended(text, block(path, value))
        if _says(new, expected):
            return new
    return _checked(_assigned(text, path, value), expected)


def remove(text: str, path: Sequence[str]) -> str:
    """The text without what is at a path, and without the tables below it."""
    expected = load(text)
    within = expected
    for key in path[:-1]:
        within = within.get(key, {})
        if not isinstance(within, dict):
            return text
    if path[-1] not in within:
        return text
    del within[path[-1]]
    expected = _pruned(expected, path[:-1])
    for new in _without_tables(text, path):
        if _says(new, expected):
            return new
    return _checked(_deleted(text, path), expected)


def masked(text: str) -> str:
    """The text as it may be shown: what servers are given as secrets is hidden."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text.removeprefix("\ufeff"))
        _hide(document, hides=False)
        shown = tomlkit.dumps(document)
        is_whole = not _leaks(load(shown), hides=False)
    except (TOMLKitError, KeyError, TypeError, ValueError, Unreadable):
        is_whole = False
    # Rather nothing but the names than a value too many.
    return shown if is_whole else "".join(_named(line) for line in text.splitlines(keepends=True))


def _hide(within: Any, *, hides: bool) -> None:
    pairs = within.items() if isinstance(within, dict) else enumerate(within)
    for key, value in list(pairs):
        below = hides or is_secret(str(key))
        if isinstance(value, dict | list):
            _hide(value, hides=below)
        elif below and masks(value):
            within[key] = MASK


def _leaks(value: object, *, hides: bool) -> bool:
    """Whether something is still to be seen."""
    if isinstance(value, dict):
        return any(_leaks(one, hides=hides or is_secret(key)) for key, one in value.items())
    if isinstance(value, list):
        return any(_leaks(one, hides=hides) for one in value)
    return hides and value != MASK and masks(value)


def _named(line: str) -> str:
    """A line's table or key, without a value."""
    name, _, _ = line.partition("=")
    end = "\n" if line.endswith("\n") else ""
    if name != line:
        return f"{name}= {MASK}{end}"
    return line if _HEADER.match(line) or not line.strip() else f"{MASK}{end}"


def block(path: Sequence[str], table: dict[str, Any]) -> str:
    """A table as it stands in a file, under its header."""
    import tomlkit

    document = tomlkit.document()
    outer: MutableMapping[str, Any] = document
    for key in path[:-1]:
        outer[key] = tomlkit.table(is_super_table=True)
        outer = outer[key]
    inner = tomlkit.table()
    inner.update(table)
    outer[path[-1]] = inner
    return tomlkit.dumps(document)


def _checked(text: str, expected: dict[str, Any]) -> str:
    """The text, if it says what it should: a last look before a file of someone's is changed."""
    if not _says(text, expected):
        raise Unreadable("it cannot be changed without disturbing something else in it")
    return text


def _says(text: str, expected: dict[str, Any]) -> bool:
    try:
        found = load(text)
    except Unreadable:
        return False
    return repr(_full(found)) == repr(_full(expected))


def _full(value: object) -> object:
    """A value without tables that hold nothing: whether those are written is all the same."""
    if isinstance(value, list):
        return [_full(one) for one in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _full(value[key]) for key in sorted(value)}
    return {key: one for key, one in inner.items() if one != {}}


def _pruned(whole: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The same without the tables on a path that hold nothing."""
    if path and not (left := _pruned(whole.get(path[0], {}), path[1:])):
        return {key: one for key, one in whole.items() if key != path[0]}
    return {**whole, path[0]: left} if path else whole


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _appended(text: str, table: str) -> str:
    newline = _newline(text)
    if text and not text.endswith("\n"):
        text += newline
    return (text + newline if text.strip() else text) + table.replace("\n", newline)


def _assigned(text: str, path: Sequence[str], value: object) -> str:
    """The text with one key set where it stands, as tomlkit does it."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        within: MutableMapping[str, Any] = document
        for key in path[:-1]:
            within = within[key]
        within[path[-1]] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError) as error:
        raise Unreadable(f"it cannot be changed: {error}") from error


def _deleted(text: str, path: Sequence[str]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        within: MutableMapping[str, Any] = document
        for key in path[:-1]:
            within = within[key]
        del within[path[-1]]
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError) as error:
        raise Unreadable(f"it cannot be changed: {error}") from error


def _without_tables(text: str, path: Sequence[str]) -> Iterator[str]:
    """The text without a table's lines and those of the tables in it; comments after them stay.

    Lines are told apart by how they start, which a string over several lines can feign: so there
    are several proposals, and whoever calls looks at what each says.
    """
    ours = re.compile(
        r"[ \t]*\[[ \t]*" + r"[ \t]*\.[ \t]*".join(rf'["\']?{re.escape(key)}["\']?' for key in path)
        + r"[ \t]*[.\]]"
    )  # fmt: skip
    lines = text.splitlines(keepends=True)
    headers = [number for number, line in enumerate(lines) if _HEADER.match(line)] + [len(lines)]
    doomed = []
    for start, end in itertools.pairwise(headers):
        if ours.match(lines[start]):
            last = end
            while _BARE.fullmatch(lines[last - 1]):
                last -= 1
            has_gap = start > 0 and not lines[start - 1].strip()
            doomed.append(range(start - has_gap, last))
    for first in range(min(len(doomed), _PROPOSALS)):
        gone = set(itertools.chain.from_iterable(doomed[first:]))
        yield "".join(line for number, line in enumerate(lines) if number not in gone)
