"""Markdown memories: bytes in, values out, and back without losing a byte."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from retain.errors import Unreadable
from retain.memory import Memory
from retain.text import frontmatter

_CONFLICT: Final = "git's marks of an unsettled merge are in it (<<<<<<<); settle it in an editor"
_BOM: Final = "\ufeff"


class Document(NamedTuple):
    """A file's metadata and text; `problem` says what could not be read."""

    meta: dict[str, object]
    body: str
    problem: str = ""


def parse_file(name: str, data: bytes) -> Document:
    """Read a memory's file, by its ending: Markdown, or a JSON record."""
    if name.endswith(".json"):
        from retain.bank import records_json

        return records_json.parse(data)
    return parse(data)


def edit_file(
    name: str, data: bytes, changes: Mapping[str, object], body: str | None = None
) -> bytes:
    """Change keys or the body of a memory's file, by its ending."""
    if name.endswith(".json"):
        from retain.bank import records_json

        return records_json.edit(data, changes, body)
    return edit(data, changes, body)


def parse(data: bytes) -> Document:
    """Read a memory; a file that makes no sense is all body, with the problem named."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Document({}, data.decode("utf-8", "replace"), f"not UTF-8 at byte {error.start}")
    text = body = text.removeprefix(_BOM)
    meta: dict[str, object] = {}
    problem = ""
    try:
        if parts := frontmatter.split(text):
            meta, body = frontmatter.load(text[parts[0] : parts[1]]), text[parts[2] :]
    except Unreadable as error:
        problem = error.message
    if _is_conflicted(text):
        problem = _CONFLICT
    elif len(body) < len(text) and body.startswith("---") and _has_head(body):
        problem = "a second frontmatter block stands after the first"
    elif not text.strip():
        problem = "the file is empty"
    elif "\0" in text and not problem:
        problem = "the file holds a NUL character"
    return Document(meta, body, problem)


def searchable(memory: Memory) -> str:
    """A memory's text; a typed one has it in its frontmatter."""
    content = memory.meta.get("content")
    if not isinstance(content, dict):
        return memory.body
    from retain.bank.records_json import render

    return f"{memory.body}\n\n{render(content)}".strip("\n") if memory.body else render(content)


def _is_conflicted(text: str) -> bool:
    """Whether git left its marks of a merge that nobody has settled yet."""
    if "<<<<<<< " not in text:
        return False
    lines = text.splitlines()
    return all(
        any(line.startswith(mark) for line in lines) for mark in ("<<<<<<< ", "=======", ">>>>>>> ")
    )


def _has_head(text: str) -> bool:
    try:
        parts = frontmatter.split(text)
        return parts is not None and bool(frontmatter.load(text[parts[0] : parts[1]]))
    except Unreadable:
        return False


def compose(meta: Mapping[str, object], body: str) -> bytes:
    """A new file from metadata and a body, which keeps its own line endings."""
    newline = "\r\n" if "\r\n" in body[:4096] else "\n"
    head = frontmatter.dump(meta, newline)
    return f"---{newline}{head}---{newline}{newline}{body}".encode()


def edit(data: bytes, changes: Mapping[str, object], body: str | None = None) -> bytes:
    """Change keys (None removes one) or the body; every other byte stays as it was."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error
    mark = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    parts = frontmatter.split(text)
    if parts is None:
        # It gets frontmatter only when there is something to put in it, or a body that would be
        # taken to start with one.
        wanted = {key: value for key, value in changes.items() if value is not None}
        new = text if body is None else body
        is_headed = wanted or (new != text and _looks_headed(new))
        return mark.encode() + (compose(wanted, new) if is_headed else new.encode())
    start, end, rest = parts
    # Read even when no key changes: a head that makes no sense is not to be built upon.
    head = frontmatter.change(text[start:end], changes)
    after = text[end:]
    if body is not None and body != text[rest:]:
        after = _parted(text[end:rest], body) + body
    return (mark + text[:start] + head + after).encode()


def _parted(closing: str, body: str) -> str:
    """The closing mark with the line breaks that keep it and the body apart."""
    newline = "\r\n" if "\r\n" in closing else "\n"
    lines = closing.count("\n")
    if not lines:
        closing += newline  # it was the file's last line
    if lines < 2 and body.startswith(("\n", "\r\n")):
        closing += newline  # or the body's own first line would be taken for the blank one
    return closing


def _looks_headed(text: str) -> bool:
    """Whether a text without frontmatter would be taken to start with one."""
    try:
        return text.startswith(_BOM) or frontmatter.split(text) is not None
    except Unreadable:
        return True
