"""JSON records as memories: the second codec. A change keeps the order, indent and line ends.

A record's `category` is a memory's type and its `record_status` a memory's status; its `content`
object is shown as readable text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from retain.bank.markdown import Document
from retain.errors import Unreadable
from retain.text.frontmatter import MAX_DEPTH, is_deep, same

_TO_RECORD: Final = {"type": "category", "status": "record_status"}
_FROM_RECORD: Final = {theirs: ours for ours, theirs in _TO_RECORD.items()}
_YES_NO: Final = {True: "yes", False: "no"}
_LAYOUT: Final = re.compile(r"\ufeff?\s*\{\r?\n([ \t]*)")  # a file of one key per line


def parse(data: bytes) -> Document:
    """Read a record; one that makes no sense is all body, with the problem named."""
    try:
        record = load(data)
    except Unreadable as error:
        return Document({}, data.decode("utf-8", "replace"), error.message)
    meta = {_FROM_RECORD.get(key, key): value for key, value in record.items() if key != "content"}
    return Document(_relations(record) | meta, render(record.get("content")))


def _relations(record: Mapping[str, object]) -> dict[str, object]:
    """What replaced a record and what it replaces; its schema leaves only its changes to say so."""
    changes, relations = record.get("changes"), dict[str, Any]()
    for entry in changes if isinstance(changes, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("new_value"), str):
            continue
        if entry.get("field") == "superseded_by":
            relations["superseded_by"] = entry["new_value"]
        elif entry.get("field") == "supersedes":
            relations.setdefault("supersedes", []).append(entry["new_value"])
    return relations


def load(data: bytes) -> dict[str, object]:
    """A record's fields as they stand in its file, or Unreadable with the reason."""
    try:
        text = data.decode("utf-8-sig")
        record = json.loads(text, object_pairs_hook=_object)
        # NaN and 1e999 are no JSON numbers. Half a character, as in "\\ud800", can be written in
        # JSON but not in any file.
        json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not valid JSON: {error}") from error
    if not isinstance(record, dict):
        raise Unreadable("the JSON is not an object")
    if is_deep(record):
        raise Unreadable(f"the record is nested deeper than {MAX_DEPTH} levels")
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for name, value in pairs:
        if name in record:
            raise Unreadable(f"the key {name!r} stands twice in the record")
        record[name] = value
    return record


def render(content: object) -> str:
    """A record's content as text a person can read."""
    if not isinstance(content, dict):
        return "" if content is None else str(content)
    lines: list[str] = []
    for key, value in content.items():
        name = key.replace("_", " ").capitalize()
        if isinstance(value, list):
            lines += [f"{name}:", *(f"- {_inline(item)}" for item in value)]
        elif value is not None:
            lines.append(f"{name}: {_inline(value)}")
    return "\n".join(lines)


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{key.replace('_', ' ')}: {_inline(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_inline, value))
    return _YES_NO[value] if isinstance(value, bool) else str(value)


def edit(data: bytes, changes: Mapping[str, object], body: str | None = None) -> bytes:
    """Change keys (None removes one) or, given a JSON object, the content; the order stays."""
    wanted = {_TO_RECORD.get(key, key): value for key, value in changes.items()}
    if body is not None:
        wanted["content"] = _content(body)
    before = load(data)
    after = {**before, **wanted}
    for key, value in wanted.items():
        if value is None:
            del after[key]
    if same(before, after):
        return data
    text = data.decode("utf-8")
    layout = _LAYOUT.match(text)
    indent = layout[1] if layout else None
    new = json.dumps(after, ensure_ascii=False, indent=indent)
    if "\r\n" in text:
        new = new.replace("\n", "\r\n")
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    new_data = f"{mark}{new}{text[len(text.rstrip()) :]}".encode()
    load(new_data)  # nothing is written that could not be read
    return new_data


def _content(body: str) -> object:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Unreadable(
            "a record's content is a JSON object, and the text given is not one",
            unchanged="The record was left as it is.",
            hint='Give an object such as {"rule": "...", "impact": ["..."]}.',
        )
    return content
