"""A memory as it is read: its typed fields laid out by their schema, its text, its links' pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from retain.bank.markdown import parse_file
from retain.memory import Memory
from retain.records.codec import is_record, load_record
from retain.web.markdown import Renderer
from retain.web.wikilinks import Pages, find_targets, resolver

# Where the order of a list is the order of doing.
_STEPS: Final = ("steps", "next_actions")
# Fields whose value is one of a few words.
_SHORT: Final = 40

_Render = Callable[[str], Markup]


class Field(NamedTuple):
    """One field of a typed memory, ready to be laid out."""

    name: str
    kind: str  # word, text, list, steps, rows, fields
    value: Any


class Content(NamedTuple):
    """A memory's content: its fields, if it is a typed one, and its text."""

    fields: tuple[Field, ...]
    body: Markup


def parsed(suffix: str, text: str, *, is_body: bool = False) -> Memory:
    """A memory that has no file yet, from the text of one, or from its body alone."""
    data = text.encode("utf-8", "replace")
    if is_body:
        return Memory("", "", f"x{suffix}", {}, text, data)
    document = parse_file(f"x{suffix}", data)
    return Memory("", "", f"x{suffix}", document.meta, document.body, data, document.problem)


def targets(memory: Memory) -> list[str]:
    """What a memory links to, in its text and in its fields."""
    return find_targets([memory.body, *_texts(memory.meta.get("content"))])


def content(memory: Memory, pages: Pages) -> Content:
    """A memory's content as HTML that can do nothing; the title is not said a second time."""
    render = Renderer(resolver(pages)).render  # one for all: a memory may have very many fields
    fields: tuple[Field, ...] = ()
    body = memory.body
    if is_record(memory):
        inner = load_record(memory).get("content")
        fields = tuple(_fields(inner, render)) if isinstance(inner, dict) else ()
        if memory.path.endswith(".json") and fields:
            body = ""  # there it is the same fields once more, as plain text
    return Content(fields, render(_untitled(body, memory.title)))


def _untitled(body: str, title: str) -> str:
    """A text without a first heading that says what stands above it anyway."""
    start = body.lstrip()
    first, _, rest = start.partition("\n")
    if first.startswith("# ") and first[2:].strip().rstrip("#").strip() == title:
        return rest
    return body


def _fields(inner: Mapping[str, Any], render: _Render) -> Iterable[Field]:
    for name, value in inner.items():
        if value not in (None, "", [], {}):
            yield _field(name, value, render)


def _field(name: str, value: Any, render: _Render) -> Field:
    label = str(name).replace("_", " ").capitalize()
    if isinstance(value, bool):
        return Field(label, "word", "yes" if value else "no")
    if isinstance(value, dict):
        return Field(label, "fields", tuple(_fields(value, render)))
    if isinstance(value, list):
        if value and all(isinstance(one, dict) for one in value):
            return Field(label, "rows", [tuple(_fields(one, render)) for one in value])
        kind = "steps" if name in _STEPS else "list"
        return Field(label, kind, [render(_line(one)) for one in value])
    text = str(value)
    if len(text) <= _SHORT and text.isascii() and text.replace("_", "").isalnum():
        return Field(label, "word", text.replace("_", " "))
    return Field(label, "text", render(text))


def _line(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_line(one)}" for name, one in value.items())
    return ", ".join(map(_line, value)) if isinstance(value, list) else str(value)


def _texts(value: object) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for one in value for text in _texts(one)] if isinstance(value, list) else []
