"""YAML frontmatter, read safely and changed one key at a time.

Reading is strict where YAML is dangerous and plain where YAML is surprising: no tags, no
aliases, no merge keys, bounded depth and size; `no`, `012`, `12:30` and dates stay strings.
Changing a key rewrites the bytes of that key's value and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final, NamedTuple

from retain.errors import LimitExceeded, Unreadable
from retain.text.sanitize import escape

MAX_CHARS: Final = 65_536  # larger heads are attacks or accidents; PyYAML needs ~1 s per MB
MAX_DEPTH: Final = 40

_KEY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,127}):(?:[ ]+(.*))?")
_ITEM = re.compile(r"([ ]*)- (.*)")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,99})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{1,40}(?:[eE][-+]?[0-9]{1,3})?")
# A time that every YAML reader can make a date of; 29 February is not worth telling leap years.
_UTC = re.compile(
    r"(?!0000|....-02-(?:29|3)|....-(?:04|06|09|11)-31)"
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
)
_FLOW_MARKS: Final = frozenset("[]{},:?")
_SPACE: Final = " \t\r\n\x85\u2028\u2029"  # what YAML takes for space and line breaks

_CONSTANTS: Final[Mapping[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Words that YAML 1.1 or 1.2 readers elsewhere would not take as strings.
_AMBIGUOUS: Final = frozenset("y n yes no on off true false null nan inf".split())


class _NotPlain(Exception):
    """The head uses more of YAML than the quick reader knows."""


def split(text: str) -> tuple[int, int, int] | None:
    """Where the head starts and ends and where the body starts, or None without frontmatter.

    One blank line between the closing mark and the body belongs to neither.
    """
    if not text.startswith("---"):
        return None
    first = text.find("\n")
    if text[3 : first if first >= 0 else None].strip():
        if text[3] == "\r":
            raise Unreadable("the lines end in a lone carriage return")
        return None
    if first < 0:
        raise Unreadable("the frontmatter is not closed")
    at = start = first + 1
    while at < len(text):
        end = text.find("\n", at)
        after = len(text) if end < 0 else end + 1
        if text.startswith("---", at) and not text[at + 3 : after].strip():
            blank = "\r\n" if text.startswith("\r\n", after) else "\n"
            return start, at, after + len(blank) * text.startswith(blank, after)
        at = after
    raise Unreadable("the frontmatter is not closed")


def parse(text: str) -> tuple[dict[str, object], str]:
    """A text's metadata and its body; without frontmatter all of it is body."""
    parts = split(text)
    return (load(text[parts[0] : parts[1]]), text[parts[2] :]) if parts else ({}, text)


def load(head: str) -> dict[str, object]:
    """Parse a head into a mapping, or say why it cannot be."""
    if len(head) > MAX_CHARS:
        raise Unreadable(f"the frontmatter is larger than {MAX_CHARS:,} characters")
    try:
        return _load_plain(head)
    except _NotPlain:
        return _load_yaml(head).values


# The quick reader: the part of YAML that Retain and most people write. It is ten times faster
# than PyYAML and spares `get` the import; whatever it does not know for certain it hands over.
# tests/text/test_frontmatter.py holds it to PyYAML's answer.


def _load_plain(head: str) -> dict[str, object]:
    values: dict[str, object] = {}
    items: list[object] | None = None  # of the list under a key with nothing on its own line
    list_key, list_indent = "", -1
    for line in head.split("\n"):
        text = line.removesuffix("\r")
        if not text.isprintable():
            raise _NotPlain  # a tab, or a line break of YAML's own
        if not text or text[0] == "#":
            continue
        if text[0] in " -" and (match := _ITEM.fullmatch(text)):
            indent = len(match[1])
            if items is None or list_indent not in (-1, indent):
                raise _NotPlain
            items.append(_read_plain(match[2], flow=False))
            values[list_key], list_indent = items, indent
            continue
        match = _KEY.fullmatch(text)
        if not match or match[1] in values:
            raise _NotPlain
        key, value = match.groups()
        values[key] = None
        items, list_key, list_indent = None if value else [], key, -1
        if value and value[0] == "[":
            if value[-1] != "]":
                raise _NotPlain
            parts = value[1:-1].split(",")
            values[key] = [_read_plain(item.strip(" "), flow=True) for item in parts]
        elif value:
            values[key] = _read_plain(value, flow=False)
    return values


def _read_plain(text: str, *, flow: bool) -> object:
    if not text:
        raise _NotPlain
    quote = text[0]
    if quote in "\"'":
        inner = text[1:-1]
        if len(text) < 2 or text[-1] != quote or quote in inner or "\\" in inner:
            raise _NotPlain
        return inner
    if not _is_plain(text, flow=flow):
        raise _NotPlain
    return _resolve(text)


def _is_plain(text: str, *, flow: bool) -> bool:
    """Whether text is surely a plain scalar: unquoted, and the same in every YAML reader."""
    if not (text[0].isalnum() or text[0] in "/_(." or (text[0] in "+-" and text[1:2].isdigit())):
        return False
    if text[-1] in ": " or ": " in text or " #" in text:
        return False
    return not flow or _FLOW_MARKS.isdisjoint(text)


def _resolve(text: str) -> object:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] in "+-0123456789":
        if _INT.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text) and abs(number := float(text)) != inf:
            return number
    return text


class _Span(NamedTuple):
    """Where one top-level key and its value start and end, in characters of the head."""

    key_start: int
    key_end: int
    value_start: int
    value_end: int


class _Parsed(NamedTuple):
    values: dict[str, object]
    spans: dict[str, _Span]
    indent: int = 0
    is_flow: bool = False  # written as {...}, not as the usual lines


def _load_yaml(head: str) -> _Parsed:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Reader(yaml, yaml.parse(head, Loader=loader)).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 2}" if mark is not None else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "bad YAML"
        raise Unreadable(f"the frontmatter is not valid YAML: {reason}{where}") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the frontmatter is not valid YAML: {error}") from error


class _Reader:
    """Builds values from parser events: no recursion in the parser, no constructors to abuse."""

    def __init__(self, yaml: Any, events: Iterator[Any]) -> None:
        self._yaml = yaml
        self._events = events
        self._end = 0  # of the last value, in characters of the head

    def document(self) -> _Parsed:
        yaml = self._yaml
        event = next(self._events)
        while isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            event = next(self._events)
        parsed = _Parsed({}, {})
        is_empty = isinstance(event, yaml.ScalarEvent) and not event.value and event.implicit[0]
        if isinstance(event, yaml.MappingStartEvent):
            spans: dict[str, _Span] = {}
            values = self._mapping(event, 1, spans)
            parsed = _Parsed(values, spans, event.start_mark.column, event.flow_style)
        elif not is_empty and not isinstance(event, yaml.StreamEndEvent):
            raise Unreadable("the frontmatter is not a list of `key: value` lines")
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                raise Unreadable("the frontmatter holds a second YAML document")
        return parsed

    def _mapping(
        self, start: Any, depth: int, spans: dict[str, _Span] | None = None
    ) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_event in self._inside(start, depth, self._yaml.MappingEndEvent):
            if not isinstance(key_event, self._yaml.ScalarEvent):
                raise Unreadable("a key of the frontmatter is not a plain word")
            self._scalar(key_event)
            key: str = key_event.value
            if key in values:
                raise Unreadable(f"the key {key!r} stands twice in the frontmatter")
            value_event = next(self._events)
            values[key] = self._value(value_event, depth + 1)
            if spans is not None:
                spans[key] = _Span(
                    key_event.start_mark.index,
                    key_event.end_mark.index,
                    value_event.start_mark.index,
                    self._end,
                )
        return values

    def _value(self, event: Any, depth: int) -> object:
        yaml = self._yaml
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(event, depth)
        if isinstance(event, yaml.SequenceStartEvent):
            items = self._inside(event, depth, yaml.SequenceEndEvent)
            return [self._value(item, depth + 1) for item in items]
        raise Unreadable("the frontmatter uses a YAML alias, which Retain does not follow")

    def _inside(self, start: Any, depth: int, end: Any) -> Iterator[Any]:
        """The events up to the end of a collection."""
        if depth > MAX_DEPTH:
            raise Unreadable(f"the frontmatter is nested deeper than {MAX_DEPTH} levels")
        if start.tag is not None:
            raise Unreadable(f"the frontmatter uses the YAML tag {start.tag}")
        while not isinstance(event := next(self._events), end):
            yield event
        # The end of a block collection is marked at the next token, past comments and blank
        # lines that are not its own; its last leaf says where it really ends.
        if start.flow_style:
            self._end = event.end_mark.index

    def _scalar(self, event: Any) -> object:
        if event.tag is not None and event.tag != "!":
            raise Unreadable(f"the frontmatter uses the YAML tag {event.tag}")
        self._end = event.end_mark.index
        text: str = event.value
        if event.style == '"':
            text.encode()  # half a character, as in "\\ud800", is a ValueError here and later
        return _resolve(text) if event.implicit[0] else text


def change(head: str, changes: Mapping[str, object]) -> str:
    """Set keys to new values (None removes one) and leave every other character as it is."""
    newline = "\r\n" if "\r\n" in head else "\n"
    before = load(head)
    wanted = {key: value for key, value in before.items() if key not in changes}
    wanted |= {key: value for key, value in changes.items() if value is not None}
    _refuse_deep(wanted)
    differing = {
        key: value
        for key, value in changes.items()
        if (key in before) != (key in wanted) or not same(before.get(key), value)
    }
    if differing:
        parsed = _load_yaml(head)
        if parsed.is_flow:
            raise Unreadable("frontmatter written as {...} is read, but not changed")
        edits = [
            _edit(head, parsed, key, value, newline)
            for key, value in differing.items()
            if key in parsed.spans
        ]
        # From the end to the start, so that no edit moves the place of another.
        for start, stop, text in sorted(edits, reverse=True):
            head = head[:start] + text + head[stop:]
        for key, value in differing.items():
            if key not in parsed.spans:
                if head and not head.endswith("\n"):
                    head += newline
                text = _entry_value(key, value, parsed.indent, newline, flow=False)
                head += f"{' ' * parsed.indent}{dump_scalar(key, flow=True)}:{text}{newline}"
    return _check(head, wanted)


def _refuse_deep(values: dict[str, object]) -> None:
    if is_deep(values):
        raise LimitExceeded(
            f"a value is nested deeper than {MAX_DEPTH} levels", unchanged="Nothing was changed."
        )


def _check(head: str, wanted: Mapping[str, object]) -> str:
    """The head, if it reads back as what was meant: nothing is written that cannot be read."""
    if len(head) > MAX_CHARS:
        raise LimitExceeded(
            f"the frontmatter would have {len(head):,} characters, and {MAX_CHARS:,} is the limit",
            unchanged="Nothing was changed.",
            hint="Put long texts into the body.",
        )
    try:
        is_meant = same(load(head), wanted)
    except Unreadable:
        is_meant = False
    if not is_meant:
        raise Unreadable("the frontmatter cannot be changed without disturbing its other keys")
    return head


def same(one: object, other: object) -> bool:
    """Equal in value and type: 1, 1.0 and True are three things here."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def is_deep(value: object, levels: int = MAX_DEPTH) -> bool:
    """Whether a value is nested deeper than Retain reads."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return False
    return levels <= 0 or any(is_deep(item, levels - 1) for item in value)


def _edit(
    head: str, parsed: _Parsed, key: str, value: object, newline: str
) -> tuple[int, int, str]:
    """The span of the head that a new value of one key replaces, and its text."""
    span = parsed.spans[key]
    colon = head.find(":", span.key_end)
    # A block scalar counts the blank lines after it as its own; they are not.
    stop = max(colon + 1, len(head[: span.value_end].rstrip(_SPACE)))
    line_end = head.find("\n", stop)
    line_end = len(head) if line_end < 0 else line_end
    if value is None:
        line_start = head.rfind("\n", 0, span.key_start) + 1
        return line_start, min(len(head), line_end + 1), ""
    comment = head[colon + 1 : span.value_start].rstrip(_SPACE)
    is_beside = bool(comment + head[stop:line_end].removesuffix("\r"))  # a comment on its line
    text = _entry_value(key, value, parsed.indent, newline, flow=is_beside)
    return colon + 1, stop, text + comment


def dump(values: Mapping[str, object], newline: str = "\n") -> str:
    """A new head, one key a line, in the order given; keys without a value are left out."""
    wanted = {key: value for key, value in values.items() if value is not None}
    _refuse_deep(wanted)
    lines = (
        f"{dump_scalar(key, flow=True)}:{_entry_value(key, value, 0, newline, flow=False)}{newline}"
        for key, value in wanted.items()
    )
    return _check("".join(lines), wanted)


def _entry_value(key: str, value: object, indent: int, newline: str, flow: bool) -> str:
    """What follows a top-level key and its colon."""
    if isinstance(value, str) and key.endswith("_at") and _UTC.fullmatch(value):
        return f" {value}"
    is_words = isinstance(value, list | tuple) and not any(map(_is_nested, value))
    if flow or is_words:
        return f" {_flow(value, inside=flow)}"
    return newline.join(_block(value, indent + 2))


def _is_nested(value: object) -> bool:
    return isinstance(value, dict | list | tuple) and bool(value)


def _flow(value: object, *, inside: bool = True) -> str:
    """A value on one line; `inside` is within brackets, where commas and colons part things."""
    if isinstance(value, dict):
        pairs = (f"{dump_scalar(name, flow=True)}: {_flow(item)}" for name, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return dump_scalar(value, flow=inside)


def _block(value: object, indent: int) -> list[str]:
    """What stands after `key:` or `-` on its line, and the lines below it."""
    pad = " " * indent
    if isinstance(value, dict) and value:
        named = ((f"{pad}{dump_scalar(name, flow=True)}:", item) for name, item in value.items())
        return ["", *(line for start, item in named for line in _lines(start, item, indent))]
    if isinstance(value, list | tuple) and value:
        return ["", *(line for item in value for line in _lines(f"{pad}-", item, indent))]
    if isinstance(value, str) and _is_literal(value):
        mark = " |" if value.endswith("\n") else " |-"
        return [mark, *(line and pad + line for line in value.removesuffix("\n").split("\n"))]
    return [f" {_flow(value, inside=False)}"]


def _lines(start: str, value: object, indent: int) -> list[str]:
    first, *rest = _block(value, indent + 2)
    if not first and start.endswith("-"):
        first, *rest = rest
        first = f" {first.lstrip(' ')}"
    return [start + first, *rest]


def _is_literal(text: str) -> bool:
    """Whether a text reads line by line as `|` writes it, in every YAML reader."""
    lines = text.removesuffix("\n").split("\n")
    return (
        len(lines) > 1
        and bool(lines[0] and lines[-1])
        and lines[0][0] != " "
        and all(line.isprintable() and line[-1:] != " " for line in lines)
    )


def dump_scalar(value: object, *, flow: bool) -> str:
    """One value on one line, quoted whenever some YAML reader might take it for another type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, float):
        digits, e, exponent = repr(value).partition("e")
        return digits + ".0" * ("." not in digits) + e + exponent
    text = str(value)
    is_word = text[:1].isalpha() or text[:1] in ("/", "_")
    is_clear = is_word and text.isprintable() and text.lower() not in _AMBIGUOUS
    if is_clear and _is_plain(text, flow=flow):
        return text
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else escape(char) for char in text) + '"'
