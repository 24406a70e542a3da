"""One key put into a JSON file or taken out of it, and every other byte as it was.

The file may have comments and trailing commas, as editors' settings do. What is put in follows the
file's own indentation and line ends, in such a way that taking it out again gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from retain.errors import Unreadable
from retain.hosts.masking import MASK, is_secret, masks

__all__ = ["insert", "load", "masked", "remove"]

_SPACE: Final = " \t\r\n"
_TOKEN: Final = re.compile(
    r"""(?P<line>//[^\r\n]*)
    |(?P<block>/\*.*?\*/)
    |(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*")
    |(?P<mark>[{}\[\],:])
    |(?P<word>[^ \t\r\n{}\[\],:"/]+)""",
    re.DOTALL | re.VERBOSE,
)
_NEWLINE: Final = re.compile(r"\r\n?|\n")
_NOT_NEWLINE: Final = re.compile(r"[^\r\n]")
_OPENING: Final = ("", "{", "[", ",", ":")  # after which a comma is no trailing one


class _Token(NamedTuple):
    """A piece of the text; a mark's kind is the mark itself."""

    kind: str
    start: int
    end: int

    @property
    def is_comment(self) -> bool:
        return self.kind in ("line", "block")


class _Member(NamedTuple):
    """A key with its value: the numbers of its first token, its value's first, and its last."""

    key: str
    first: int
    value: int
    last: int


class _Object(NamedTuple):
    """An object: the numbers of its braces, and what is between them."""

    start: int
    end: int
    members: list[_Member]

    def member(self, key: str) -> _Member | None:
        found = [one for one in self.members if one.key == key]
        if len(found) > 1:
            raise Unreadable(f"the key {key!r} stands twice in it")
        return found[0] if found else None


class _Page(NamedTuple):
    """A text with its tokens and its value."""

    text: str
    tokens: list[_Token]
    value: dict[str, Any]

    @property
    def root(self) -> _Object:
        return self.inside(_significant(self.tokens, 0))

    def inside(self, start: int) -> _Object:
        """The object that opens at a token."""
        members = []
        at = _significant(self.tokens, start + 1)
        while self.tokens[at].kind != "}":
            value = _significant(self.tokens, _significant(self.tokens, at + 1) + 1)
            last = _last(self.tokens, value)
            members.append(_Member(json.loads(self._at(at)), at, value, last))
            at = _significant(self.tokens, last + 1)
            if self.tokens[at].kind == ",":
                at = _significant(self.tokens, at + 1)
        return _Object(start, at, members)

    def _at(self, number: int) -> str:
        token = self.tokens[number]
        return self.text[token.start : token.end]

    def before(self, number: int) -> str:
        """The space in front of a token."""
        return self.text[self.tokens[number - 1].end : self.tokens[number].start]

    def after(self, number: int) -> str:
        """The space behind a token."""
        return self.text[self.tokens[number].end : self.tokens[number + 1].start]

    def indentation(self, number: int) -> str:
        """The space at the start of the line that a token is on."""
        start = self.tokens[number].start
        line = self.text[:start].replace("\r", "\n").rpartition("\n")[2].removeprefix("\ufeff")
        return line[: len(line) - len(line.lstrip(" \t"))]

    @property
    def newline(self) -> str:
        found = _NEWLINE.search(self.text)
        return found[0] if found else "\n"

    @property
    def step(self) -> str:
        """What one more level is indented by; empty in a file that is all on one line."""
        inner = [one.first for one in self.root.members]
        gaps = [self.before(number) for number in inner]
        if not gaps:
            return "  "
        found = next((gap for gap in gaps if _has_newline(gap)), None)
        if found is None:
            inside = self.text[self.tokens[0].start : self.tokens[-1].end]
            return "  " if _has_newline(inside) else ""
        return found.rpartition("\n")[2].rpartition("\r")[2] or "  "


def load(text: str) -> dict[str, Any]:
    """The object that a text holds, or Unreadable with the reason."""
    return _read(text).value


def insert(text: str, path: Sequence[str], value: object) -> str:
    """The text with a value at a path of keys; what is missing on the way is made."""
    page = _read(text)
    expected = _with(page.value, path, value)
    return _checked(_inserted(page, path, value), expected)


def remove(text: str, path: Sequence[str], *, keep: int = 0) -> str:
    """The text without the value at a path, nor the objects around it that this leaves empty.

    The first `keep` keys of the path stay whatever they hold.
    """
    page = _read(text)
    found = _walk(page, path)
    if len(found) < len(path):
        return text
    while len(found) - 1 > keep and _holds_only_one(page, found[-1][0]):
        found.pop()
    expected = _without(page.value, path[: len(found)])
    return _checked(_cut(page.text, _cuts(page, *found[-1])), expected)


def masked(text: str) -> str:
    """The text as it may be shown: what servers are given as secrets is hidden."""
    page = _read(text)
    pieces, at = [], 0
    end = -1  # of the value that is hidden just now
    for number, token in enumerate(page.tokens):
        after = number + 1
        if token.kind == "string":
            while after < len(page.tokens) and page.tokens[after].is_comment:
                after += 1
        is_key = after < len(page.tokens) and page.tokens[after].kind == ":"
        found = text[token.start : token.end]
        if is_key and token.kind == "string":
            if number > end and is_secret(json.loads(found, strict=False)):
                end = _last(page.tokens, _significant(page.tokens, after + 1))
            continue
        if number <= end and (hidden := _hidden(token, found)) != found:
            pieces += [text[at : token.start], hidden]
            at = token.end
    return "".join([*pieces, text[at:]])


def _hidden(token: _Token, found: str) -> str:
    """A piece of a value that is not to be shown."""
    if token.is_comment:
        return f"// {MASK}" if token.kind == "line" else f"/* {MASK} */"
    if token.kind not in ("string", "word") or not masks(json.loads(found)):
        return found
    return json.dumps(MASK)


def _checked(text: str, expected: dict[str, Any]) -> str:
    """The text, if it says what it should: a last look before a file of someone's is changed."""
    if json.dumps(load(text)) != json.dumps(expected):
        raise Unreadable("it cannot be changed without disturbing something else in it")
    return text


def _read(text: str) -> _Page:
    tokens = list(_tokens(text))
    try:
        value = json.loads(_plain(text, tokens), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise Unreadable("it is JSON, but not an object")
    return _Page(text, tokens, value)


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _tokens(text: str) -> Iterable[_Token]:
    at = 1 if text.startswith("\ufeff") else 0
    while True:
        while at < len(text) and text[at] in _SPACE:
            at += 1
        if at == len(text):
            return
        match = _TOKEN.match(text, at)
        if match is None:
            line = len(_NEWLINE.findall(text, 0, at)) + 1
            raise Unreadable(f"it is not valid JSON: line {line} has something unexpected")
        kind = str(match.lastgroup)
        yield _Token(match[0] if kind == "mark" else kind, at, match.end())
        at = match.end()


def _plain(text: str, tokens: Sequence[_Token]) -> str:
    """The text as plain JSON: without comments and trailing commas, lines where they were."""
    doomed, before, last = [], "", None
    for token in tokens:
        if token.is_comment:
            doomed.append(token)
            continue
        if last and last.kind == "," and token.kind in ("}", "]") and before not in _OPENING:
            doomed.append(last)
        before, last = last.kind if last else "", token
    parts, at = [], int(text.startswith("\ufeff"))
    for token in sorted(doomed, key=lambda one: one.start):
        parts += [text[at : token.start], _NOT_NEWLINE.sub(" ", text[token.start : token.end])]
        at = token.end
    return "".join([*parts, text[at:]])


def _significant(tokens: Sequence[_Token], at: int) -> int:
    """The first token from here on that is no comment."""
    while tokens[at].is_comment:
        at += 1
    return at


def _last(tokens: Sequence[_Token], at: int) -> int:
    """The last token of the value that starts here."""
    depth = 0
    while True:
        depth += (tokens[at].kind in ("{", "[")) - (tokens[at].kind in ("}", "]"))
        if depth == 0:
            return at
        at += 1


def _with(whole: dict[str, Any], path: Sequence[str], value: object) -> dict[str, Any]:
    """The same value with one more in it; none that was there is changed in place."""
    key, *rest = path
    if not rest:
        return {**whole, key: value}
    inner = whole.get(key, {})
    if not isinstance(inner, dict):
        raise Unreadable(f"{key!r} in it is not an object")
    return {**whole, key: _with(inner, rest, value)}


def _without(whole: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    key, *rest = path
    if not rest:
        return {name: one for name, one in whole.items() if name != key}
    return {**whole, key: _without(whole[key], rest)}


def _walk(page: _Page, path: Sequence[str]) -> list[tuple[_Object, _Member]]:
    """The members on a path, as far as there are any, each with the object it is in."""
    found: list[tuple[_Object, _Member]] = []
    within = page.root
    for key in path:
        if found:
            opening = found[-1][1].value
            if page.tokens[opening].kind != "{":
                break
            within = page.inside(opening)
        member = within.member(key)
        if member is None:
            break
        found.append((within, member))
    return found


def _holds_only_one(page: _Page, within: _Object) -> bool:
    """Whether an object has one member and nothing else, not even a comment."""
    if len(within.members) != 1:
        return False
    member = within.members[0]
    around = (*page.tokens[within.start : member.first], *page.tokens[member.last : within.end])
    return not any(token.is_comment for token in around)


def _inserted(page: _Page, path: Sequence[str], value: object) -> str:
    found = _walk(page, path)
    if len(found) < len(path):
        within = page.inside(found[-1][1].value) if found else page.root
        for outer in reversed(path[len(found) + 1 :]):
            value = {outer: value}
        return _added(page, within, path[len(found)], value)
    member = found[-1][1]
    start, end = page.tokens[member.value].start, page.tokens[member.last].end
    gap = page.before(member.first) if _has_newline(page.before(member.first)) else ""
    return page.text[:start] + _dump(page, value, gap) + page.text[end:]


def _added(page: _Page, within: _Object, key: str, value: object) -> str:
    """The text with a new last member in an object."""
    text, tokens = page.text, page.tokens
    comma, tail = "", ""
    last = within.end - 1  # a comment, a comma, the last member's end, or the opening brace
    at = tokens[last].end
    if within.members:
        member = within.members[-1]
        gap = _line_gap(page, page.before(member.first))
        if any(token.kind == "," for token in tokens[member.last + 1 : within.end]):
            tail = ","  # as the file has it
        else:
            comma = ","
        if tokens[last].kind == "line" and not _has_newline(gap):
            gap = page.newline + "  "
        split = tokens[member.last].end
        pair = f"{gap}{json.dumps(key)}: {_dump(page, value, gap)}{tail}"
        return f"{text[:split]}{comma}{text[split:at]}{pair}{text[at:]}"
    outer = page.newline + page.indentation(within.start)
    gap = outer + page.step if page.step else ""
    if tokens[last].kind == "line" and not gap:
        gap = page.newline + "  "
    if last == within.start:
        # What space there is stays in front, so that it is known which to leave later.
        at = tokens[within.end].start
        tail = outer if gap else ""
        if gap and text[at - 1] == "\r":
            gap = "\r" + gap.lstrip("\r\n")  # or the two would become one line end
    return f"{text[:at]}{gap}{json.dumps(key)}: {_dump(page, value, gap)}{tail}{text[at:]}"


def _line_gap(page: _Page, space: str) -> str:
    """The space before a new member, as its neighbour has it but without empty lines."""
    if not _has_newline(space):
        return space
    return page.newline + space.rpartition("\n")[2].rpartition("\r")[2]


def _has_newline(text: str) -> bool:
    return "\n" in text or "\r" in text


def _dump(page: _Page, value: object, gap: str) -> str:
    """A value over several lines, or on one where the file is written so."""
    if not _has_newline(gap):
        return json.dumps(value, ensure_ascii=False)
    pad = gap.rpartition("\n")[2].rpartition("\r")[2]
    lines = json.dumps(value, ensure_ascii=False, indent=page.step or "  ")
    return lines.replace("\n", page.newline + pad)


def _cuts(page: _Page, within: _Object, member: _Member) -> list[tuple[int, int]]:
    """What goes with a member: the space before it and one comma."""
    tokens = page.tokens
    above = tokens[member.first - 1]
    start, end = above.end, tokens[member.last].end
    after = _significant(tokens, member.last + 1)
    before = member.first - 1
    while tokens[before].is_comment:
        before -= 1
    cuts = []
    if tokens[after].kind == ",":
        cuts.append((tokens[after].start, tokens[after].end))
    elif tokens[before].kind == ",":
        cuts.append((tokens[before].start, tokens[before].end))
    if len(within.members) == 1 and above.kind == "{":
        space = page.before(member.first)
        lines = list(_NEWLINE.finditer(space))
        start += lines[-1].start() if lines else len(space)
        if lines and tokens[member.last + 1].kind == "}":
            end = tokens[within.end].start
    elif above.kind == "line":
        behind = [cut for cut in cuts if cut[0] > start]
        rest = _cut(page.text, [*behind, (start, end)])[start:].lstrip(" \t")
        if not rest.startswith(("\n", "\r")):
            start = tokens[member.first].start  # or the comment would swallow what follows
    return [*cuts, (start, end)]


def _cut(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    return text
