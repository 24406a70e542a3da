"""The values that chats are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from retain.text.sanitize import shorten

ROLES: Final = ("user", "assistant", "system")
NEW: Final = "New session"  # the title until the person has said something
_MAX_TITLE: Final = 60  # characters of the first message that become the title

Block = Mapping[str, object]


class Session(NamedTuple):
    """One chat, without its messages."""

    id: str
    title: str
    summary: str
    created_at: str
    updated_at: str
    tags: tuple[str, ...]
    messages: int
    tokens: int
    model: str
    project: str = ""  # the bank that it was held in; empty for the person's own
    is_question: bool = False  # one question of `retain ask`, listed apart


class Message(NamedTuple):
    """What one side said; the blocks are given where the text alone is not the whole."""

    id: int
    session_id: str
    role: str
    content: str
    timestamp: str
    token_count: int | None
    blocks: tuple[Block, ...]


class Fact(NamedTuple):
    """What a chat saved as a memory, whose file `ref` names."""

    id: int
    fact: str
    category: str
    session_id: str
    created_at: str
    superseded_by: int | None
    ref: str


class SessionHit(NamedTuple):
    """A message or a fact that a search found."""

    kind: str  # "message" or "memory"
    session_id: str
    title: str
    role: str
    text: str
    timestamp: str
    score: float
    message: int = 0  # its number, where it is a message


class Summary(NamedTuple):
    """What a chat was about, with a vector if one was kept for just this text."""

    session_id: str
    title: str
    date: str
    summary: str
    vector: bytes | None


class ChatMessage(NamedTuple):
    """A message on its way in or out."""

    role: str
    content: str
    timestamp: str
    token_count: int | None = None
    blocks: tuple[Block, ...] = ()


class Compaction(NamedTuple):
    """A summary that stands for the first messages of a chat when a model is asked."""

    messages: int
    summary: str
    created_at: str


class Chat(NamedTuple):
    """A whole chat on its way in or out.

    The origin tells where it first came from, so that it is known when it comes again.
    """

    id: str
    title: str
    created_at: str
    updated_at: str
    tags: tuple[str, ...]
    messages: tuple[ChatMessage, ...]
    origin: str = ""
    summary: str = ""
    model: str = ""
    compactions: tuple[Compaction, ...] = ()


class ImportedChat(NamedTuple):
    """What became of a chat that was handed in: new, grown, unchanged or differs."""

    session_id: str
    title: str
    status: str
    added: int


def make_title(content: str) -> str:
    """The title that a chat gets from its first message, cut at a word."""
    return shorten(" ".join(content[: _MAX_TITLE * 20].split()), _MAX_TITLE)


def clean_unicode(text: str) -> str:
    """A text that can be written as UTF-8: JSON and models may hand over halves of characters."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
