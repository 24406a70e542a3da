"""The part of a transcript that a proposal was made from, read back for the person who reviews it.

A proposal may come with a cloned repository, and name any file: only messages of a transcript are
ever shown, never the bytes of another file, and none of the secrets in them.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from typing import Final, NamedTuple

from retain.capture.inbox import Proposal

__all__ = ["Said", "Span", "span"]

_MOST_BYTES: Final = 2_000_000
_MOST_SAID: Final = 4_000  # characters of one message
_MOST_MESSAGES: Final = 50


class Said(NamedTuple):
    """What one side said."""

    role: str
    text: str


class Span(NamedTuple):
    """The messages, or why there are none; and whether there was more than is shown."""

    messages: tuple[Said, ...] = ()
    missing: str = ""
    is_cut: bool = False


def span(proposal: Proposal) -> Span:
    """The messages that a proposal was made from."""
    path, length = proposal.transcript_path, proposal.end - proposal.start
    if not path or length <= 0:
        return Span(missing="it does not name a part of a transcript")
    if not os.path.isabs(path) or not path.endswith(".jsonl") or "\0" in path:
        return Span(missing=f"{path} is not a transcript")
    try:
        data = _part(path, proposal.start, min(length, _MOST_BYTES))
    except OSError as error:
        return Span(missing=f"{path}: {error.strerror or error}")
    said = list(_messages(data))
    if not said:
        return Span(missing=f"{path} holds no messages there any more")
    is_cut = length > _MOST_BYTES or len(said) > _MOST_MESSAGES
    shown = [Said(one.role, _shown(one.text)) for one in said[:_MOST_MESSAGES]]
    return Span(tuple(shown), is_cut=is_cut)


def _part(path: str, start: int, length: int) -> bytes:
    # Not blocking: a pipe in the place of a file must not hold the reader for ever.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError("not a plain file")
        return os.pread(fd, length, start)
    finally:
        os.close(fd)


def _messages(data: bytes) -> Iterator[Said]:
    for line in data.split(b"\n"):
        try:
            stated = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(stated, dict):
            message = stated.get("message") or stated.get("payload") or stated
            if isinstance(message, dict) and (text := _text(message.get("content"))):
                role = message.get("role") or stated.get("type")
                yield Said(role if isinstance(role, str) else "message", text)


def _text(content: object) -> str:
    """The text of a message, whether it is one or comes in blocks."""
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def _shown(text: str) -> str:
    from retain.guard.secrets import redact

    clean = redact(text[:_MOST_BYTES]).text
    return clean if len(clean) <= _MOST_SAID else clean[: _MOST_SAID - 1] + "…"
