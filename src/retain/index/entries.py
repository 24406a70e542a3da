"""What the index holds of one memory: its fields, its chunks with their terms, its links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final, NamedTuple

from retain.chunks import Chunk, chunks
from retain.links import links, normal
from retain.model import Memory, heading
from retain.paths import key
from retain.records import searchable
from retain.words import bag, is_question, words

__all__ = ["FILE_ENDING", "ChunkRow", "Entry", "LinkRow", "digest", "entry", "vector_text"]

# Frontmatter that people search by, beside title and tags.
_SEARCHED: Final = ("context", "category", "project")
_BRACKETED: Final = re.compile(r"\[[^\[\]]*\]")
_SENTENCE: Final = re.compile(r"[^.!?]+[.!?]*")
FILE_ENDING: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")  # of a file that is no memory
# Frontmatter that names other memories; each is also the edge it makes.
_RELATIONS: Final = ("related_to", "supersedes", "superseded_by", "merged_from")


class ChunkRow(NamedTuple):
    """One chunk: where it stands, what it says, and the terms it is found by."""

    line: int
    length: int
    is_question: bool
    asks: float
    is_heading: bool
    who: str
    skip: int
    lead: str
    digest: bytes
    header_path: str
    text: str
    terms: str


class LinkRow(NamedTuple):
    """One link: from where, to what, and in which sense."""

    target: str
    kind: str
    edge: str
    memory_edge: str
    label: str
    anchor: str
    line: int
    context: str


class Entry(NamedTuple):
    """One memory as the index holds it."""

    type: str
    status: str
    created: str
    written: float
    is_superseded: bool
    title: str
    tags: str
    meta: str
    problem: str
    chunks: tuple[ChunkRow, ...]
    links: tuple[LinkRow, ...]


def entry(memory: Memory, modified: float) -> Entry:
    """Derive everything from a memory; `modified` stands in for a date it does not give."""
    body = searchable(memory)
    # A body is the tail of its file, so the lines above it are those it does not have.
    above = memory.data.count(b"\n") - memory.body.count("\n") if memory.body else 0
    tags = memory.tags
    first, *others = chunks(body) or [Chunk("", "", 1)]
    rows = [_first_row(first, above, memory, tags)]
    rows += [_chunk_row(chunk, above) for chunk in others]
    linked = tuple(_linked(body, above))
    return Entry(
        type=memory.type,
        status=memory.status,
        created=memory.text("created_at") or memory.text("date"),
        written=_written(memory, modified),
        is_superseded=bool(memory.text("superseded_by")) or any(map(_replaces, linked)),
        title=memory.title,
        tags=_json(tags) if tags else "[]",
        meta=_json(memory.meta),
        problem=memory.problem,
        chunks=tuple(rows),
        links=(*_related(memory.meta), *linked),
    )


_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode


def digest(text: str) -> bytes:
    """By what a chunk's vector is known: the text it was made from."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _first_row(chunk: Chunk, above: int, memory: Memory, tags: Sequence[str]) -> ChunkRow:
    """The first chunk, which is also found by the memory's title, tags, id and context."""
    title = memory.text("title").strip()
    if title and title == heading(memory.body):
        title = ""
    around = (title, memory.id, *tags, *map(memory.text, _SEARCHED))
    return _chunk_row(chunk, above, title, around)


def _chunk_row(chunk: Chunk, above: int, lead: str = "", around: Iterable[str] = ()) -> ChunkRow:
    """A chunk with the terms of its text, and before them those around it that it lacks."""
    text, who = chunk.text, chunk.who
    said = chunk.spoken if who else text
    skip = len(text) - len(said) if who and text.endswith(said) else 0
    terms = bag(said)
    length = terms.count(" ") + 1 if terms else 0
    if around:
        there = f" {terms} "
        more = [term for term in dict.fromkeys(words(" ".join(around))) if f" {term} " not in there]
        terms = " ".join([*more, terms])
        length += len(more)
    return ChunkRow(
        line=chunk.line + above,
        length=length,
        # Only in a talk is a question answered by what comes next.
        is_question=bool(who) and is_question(said),
        asks=_asking(said) if who else 0.0,
        is_heading=chunk.is_heading,
        who=who,
        skip=skip,
        lead=lead,
        digest=digest(vector_text(lead, text[skip:])),
        header_path=chunk.header_path,
        text=text,
        terms=terms,
    )


def _asking(said: str) -> float:
    """The share of what was said that stands in questions."""
    if "?" not in said:
        return 0.0
    sentences = _SENTENCE.findall(_BRACKETED.sub("", said))
    lengths = [len(sentence.split()) for sentence in sentences]
    asked = sum(n for n, sentence in zip(lengths, sentences, strict=True) if "?" in sentence[-2:])
    return asked / max(sum(lengths), 1)


def vector_text(title: str, text: str) -> str:
    """What a chunk's vector is made from."""
    return f"{title}. {text}" if title else text


def _written(memory: Memory, modified: float) -> float:
    """When the text was last changed, as the memory says or as its file does."""
    stated = memory.text("updated_at") or memory.text("created_at")
    try:
        moment = datetime.fromisoformat(stated)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return modified


def _linked(body: str, above: int) -> Iterable[LinkRow]:
    if "[[" not in body:
        return
    for link in links(body):
        yield LinkRow(
            _target(link.target, link.kind),
            link.kind,
            link.edge,
            link.memory_edge,
            link.label,
            link.anchor,
            link.line + above,
            link.context,
        )


def _replaces(link: LinkRow) -> bool:
    """Whether a memory says of itself that what it links to has taken its place."""
    return link.memory_edge == "superseded_by" and link.kind != "ghost"


def _target(target: str, kind: str) -> str:
    """A link's target as it is looked up: memories in any spelling, files as they are written."""
    return normal(target) if kind == "ghost" else key(target)


def _related(meta: Mapping[str, object]) -> Iterable[LinkRow]:
    for name in _RELATIONS:
        value = meta.get(name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and item.strip():
                target = item.strip().removeprefix("memory:")
                kind = "ghost" if FILE_ENDING.search(target) else "memory"
                place = _target(target, kind)
                # What was merged is still called by its id alone as well.
                places = {place, place.rpartition("/")[2]} if name == "merged_from" else {place}
                for one in sorted(places):
                    yield LinkRow(one, kind, name, name, "", "", 0, f"{name}: {target}")
    files = meta.get("related_files")  # of a typed memory, always paths of the project
    for file in files if isinstance(files, list) else ():
        if isinstance(file, str) and file.strip():
            path = _target(file.strip(), "ghost")
            yield LinkRow(path, "ghost", "mentions", "", "", "", 0, f"related_files: {file}")
