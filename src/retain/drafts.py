"""What a person or an agent hands in, and how it becomes a memory's bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from retain import frontmatter, markdown
from retain.bank import now
from retain.codec import codec
from retain.errors import Unreadable, UsageError
from retain.model import Memory

__all__ = [
    "Draft",
    "Given",
    "appended",
    "changes",
    "cleaned",
    "given",
    "merged",
    "ordered",
    "replaced",
    "revised",
    "tags",
    "touched",
    "unsigned",
]


class Draft(NamedTuple):
    """What a person or an agent wants to store or change; empty and None mean not given."""

    text: str | None = None
    title: str = ""
    type: str = ""
    tags: Sequence[str] | None = None
    merge_tags: bool = False
    fields: Mapping[str, object] = {}
    allow_secret: bool = False


class Given(NamedTuple):
    """A text as it was handed in, taken apart."""

    meta: Mapping[str, object]
    body: str
    source: bytes
    has_head: bool = False
    warnings: tuple[str, ...] = ()

    def composed(self, fields: Mapping[str, object]) -> bytes:
        """The file to store: the text's own frontmatter with these fields set, or a new one."""
        if self.has_head:
            return markdown.edit(self.source, fields)
        return markdown.compose(fields, self.body)


def given(draft: Draft) -> Given:
    text = (draft.text or "").removeprefix("\ufeff")
    try:
        parts = frontmatter.split(text)
        meta = frontmatter.load(text[parts[0] : parts[1]]) if parts else {}
    except Unreadable as error:
        # Whatever it is, it is the person's text: keep it whole as the body.
        return Given({}, text, b"", False, (f"{error.message}; all of it was kept as text",))
    body = text[parts[2] :] if parts else text
    if not body.strip() and not meta:
        raise UsageError("there is no text to store", unchanged="Nothing was changed.")
    return Given(meta, body, text.encode(), parts is not None)


def cleaned(draft: Draft) -> tuple[Draft, tuple[str, ...]]:
    """The draft without its secrets, and which kinds they were."""
    from retain.guard.secrets import redact, redact_value  # large, and reads never need it

    given = dict(draft.fields)
    if frontmatter.is_deep(given):
        raise UsageError("the metadata is nested too deeply", unchanged="Nothing was stored.")
    for text in (draft.text or "", draft.title, *(draft.tags or ()), *_strings(given)):
        _check_text(text)
    text, kinds = redact(draft.text or "")
    title, more = redact(draft.title)
    fields, rest = redact_value(given)
    tags, last = redact_value(list(draft.tags or ()))
    assert isinstance(fields, dict) and isinstance(tags, list)  # noqa: S101, PT018 - shapes are kept
    clean = draft._replace(
        text=None if draft.text is None else text,
        title=title,
        fields=fields,
        tags=None if draft.tags is None else tags,
    )
    return clean, (*kinds, *more, *rest, *last)


def _strings(value: object) -> Iterator[str]:
    """Every string in a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _check_text(text: str) -> None:
    if "\0" in text:
        raise UsageError("the text holds a NUL character", unchanged="Nothing was stored.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("the text is not valid UTF-8", unchanged="Nothing was stored.") from None


def changes(draft: Draft, present: Sequence[str]) -> dict[str, object]:
    """The frontmatter keys a draft sets."""
    changes = dict(draft.fields)
    if draft.title:
        changes["title"] = draft.title
    if draft.type:
        changes["type"] = draft.type
    if draft.tags is not None:
        tags = [*present, *draft.tags] if draft.merge_tags else draft.tags
        changes["tags"] = list(dict.fromkeys(tags))
    return changes


def tags(given: Sequence[str]) -> list[str]:
    """Tags as they are written: without spaces around them, none twice, and none that is empty."""
    found = dict.fromkeys(" ".join(tag.split()) for tag in given)
    if any("," in tag for tag in found):
        raise UsageError("a tag has no comma in it", hint="Give several tags one by one.")
    return [tag for tag in found if tag]


_ORDER: Final = ("id", "title", "type", "status", "tags", "created_at", "created_by", "context")


def ordered(fields: Mapping[str, object]) -> dict[str, object]:
    """New frontmatter in the order a person reads it."""
    first = {key: fields[key] for key in _ORDER if fields.get(key) is not None}
    return first | {key: value for key, value in fields.items() if key not in first}


def merged(memories: Sequence[Memory], name: str, draft: Draft, given: Given, author: str) -> bytes:
    """The file that stands for several: their tags and links live on in it."""
    tags = dict.fromkeys(tag for memory in memories for tag in memory.tags)
    kept = _kept_links(memories, given.body)
    fields: dict[str, object] = {
        "id": name,
        "tags": given.meta.get("tags") or list(tags) or None,
        "created_at": given.meta.get("created_at") or now(),
        "created_by": given.meta.get("created_by") or author,
        "merged_from": list(dict.fromkeys(_former_names(memories))),
        "related_to": [*_listed(given.meta.get("related_to")), *kept] or None,
        **changes(draft, ()),
    }
    return given.composed(ordered({key: value for key, value in fields.items() if value}))


def _former_names(memories: Sequence[Memory]) -> Iterator[str]:
    """What the memories are called by others, and what those were that they stand for."""
    for memory in memories:
        yield memory.ref
        yield from (str(name) for name in _listed(memory.meta.get("merged_from")))


def _kept_links(memories: Sequence[Memory], body: str) -> list[str]:
    """What the memories link to and the text that replaces them does not."""
    from retain.links import links  # many patterns, which only a merge needs

    there = {link.target for link in links(body)}
    old = dict.fromkeys(
        target
        for memory in memories
        for target in (*(link.target for link in links(memory.body)), *memory.related_to)
    )
    own = {name for memory in memories for name in (memory.id, memory.ref)}
    return [target for target in old if target not in there and target not in own]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value] if value else []


def replaced(memory: Memory, draft: Draft, given: Given) -> bytes:
    """A memory's bytes with a new text; metadata that neither draft nor text names stays."""
    # A text that is all frontmatter speaks of metadata alone.
    body = given.body if given.body.strip() or not given.meta else None
    return revised(memory, {**_unborn(given.meta), **changes(draft, memory.tags)}, body)


def unsigned(draft: Draft) -> Draft:
    """The draft for a memory that exists: what it was born with, it keeps."""
    return draft._replace(fields=_unborn(draft.fields))


def _unborn(fields: Mapping[str, object]) -> dict[str, object]:
    born = ("id", "created_at", "created_by")
    return {key: value for key, value in fields.items() if key not in born}


def touched(memory: Memory, data: bytes) -> bytes:
    """Hand-edited bytes, with `updated_at` moved if the person did not move it."""
    edit, new = codec(memory.path).edit, codec(memory.path).parse(data)
    moved = new.meta.get("updated_at") != memory.meta.get("updated_at")
    if data == memory.data or moved or not new.meta:
        return data
    return edit(data, {"updated_at": now()})


def revised(memory: Memory, changes: Mapping[str, object], body: str | None) -> bytes:
    """A memory's new bytes; `updated_at` moves only when something else did."""
    edit = codec(memory.path).edit
    data = edit(memory.data, changes, body)
    has_head = memory.meta or any(value is not None for value in changes.values())
    if data == memory.data or "updated_at" in changes or not has_head:
        return data
    return edit(memory.data, {**changes, "updated_at": now()}, body)


def appended(body: str, addition: str) -> str:
    newline = "\r\n" if "\r\n" in body else "\n"
    end = newline if body.endswith("\n") and not addition.endswith("\n") else ""
    before = body.rstrip()
    return f"{before}{newline * 2 if before else ''}{addition}{end}"
