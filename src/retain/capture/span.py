"""The part of a transcript that a proposal was made from, read back for the person who reviews it.

A proposal may come with a cloned repository, and name any file: only messages of a transcript are
ever shown, never the bytes of another file, and none of the secrets in them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, NamedTuple

from retain.capture.inbox import Proposal
from retain.capture.transcript import between, is_readable

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


def span(proposal: Proposal, env: Mapping[str, str]) -> Span:
    """The messages that a proposal was made from."""
    path, start, length = proposal.transcript_path, proposal.start, proposal.end - proposal.start
    if not path or length <= 0:
        return Span(missing="it does not name a part of a transcript")
    if not os.path.isabs(path) or not path.endswith(".jsonl"):
        return Span(missing=f"{path} is not a transcript")
    if not is_readable(path, env):
        return Span(missing=f"{path} is gone, or is not where transcripts are kept")
    heard = between(path, start, start + min(length, _MOST_BYTES))
    said = [Said(one.role, one.text) for one in heard if one.text]
    if not said:
        return Span(missing=f"{path} holds no messages there any more")
    is_cut = length > _MOST_BYTES or len(said) > _MOST_MESSAGES
    shown = [one._replace(text=_shown(one.text)) for one in said[:_MOST_MESSAGES]]
    return Span(tuple(shown), is_cut=is_cut)


def _shown(text: str) -> str:
    from retain.guard.secrets import redact

    clean = redact(text).text
    return clean if len(clean) <= _MOST_SAID else clean[: _MOST_SAID - 1] + "…"
