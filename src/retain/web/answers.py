"""What the operations on memories answer with, described for the interface's document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class Again(BaseModel):
    """A call that takes something back; its path is below /api/v1."""

    method: Literal["POST", "PUT", "DELETE"]
    path: str
    body: dict[str, Any] | None


class Changed(BaseModel):
    """What a change of a memory did, and the calls that undo it, to be made in this order."""

    id: str
    collection: str
    scope: str
    page: str
    title: str
    status: str
    hash: str
    warnings: list[str]
    undo: list[Again]


class Deleted(BaseModel):
    """Where a memory lies now, and the call that brings it back."""

    id: str
    collection: str
    status: Literal["deleted"]
    trash: str
    warnings: list[str]
    undo: list[Again]


class Listed(BaseModel):
    """A memory in a list."""

    id: str
    collection: str
    scope: str
    page: str
    title: str
    type: str
    status: str
    tags: list[str]
    created_at: str | None
    superseded: bool
    start: str


class Memories(BaseModel):
    """One page of a list, and how many memories each value of each facet has."""

    total: int
    memories: list[Listed]
    facets: dict[str, dict[str, int]]


class Name(BaseModel):
    """What a memory is called."""

    id: str
    collection: str
    scope: str
    page: str
    title: str


class Names(BaseModel):
    """Memories that may be meant, the likeliest first."""

    memories: list[Name]


class Hits(BaseModel):
    """One page of what a search found; facets count what the question alone brings up."""

    query: str
    mode: str
    total: int
    hits: list[dict[str, Any]]
    confidence: float
    confident: bool
    degraded: dict[str, Any] | None
    facets: dict[str, dict[str, int]]


class Memory(BaseModel):
    """A memory with everything that stands in its file."""

    id: str
    title: str
    collection: str
    type: str
    status: str
    tags: list[str]
    category: Any
    created_at: Any
    updated_at: Any
    scope: str
    file_path: str
    content: str
    metadata: dict[str, Any]
    hash: str
    problem: str | None
    source: str


class Links(BaseModel):
    """What a memory links to, what links to it, and what else is near it."""

    nodes: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    related: list[dict[str, Any]]


class Version(BaseModel):
    """One earlier text."""

    version: str
    time: str
    author: str
    message: str
    source: str


class Versions(BaseModel):
    """The earlier texts of a memory, the newest first, and why those of git are missing."""

    versions: list[Version]
    problem: str


class Trashed(BaseModel):
    """A deleted memory."""

    name: str
    id: str
    collection: str
    deleted_at: str
    size: int


class Trash(BaseModel):
    """What can be brought back, the newest first."""

    trashed: list[Trashed]


class Preview(BaseModel):
    """A text as it would be shown; the HTML holds no script, style or picture."""

    html: str


class Compared(BaseModel):
    """Two texts side by side, as HTML."""

    html: str
    removed: int
    added: int


class Search(BaseModel):
    """A search that was kept under a name; its query is the end of the list's address."""

    name: str
    query: str


class Searches(BaseModel):
    """All searches that were kept."""

    searches: list[Search]


class SearchesChanged(Searches):
    """The same after a change, with the calls that undo it."""

    undo: list[Again]
