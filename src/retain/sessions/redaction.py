"""Secrets left out of what is kept of a chat, in its texts and in its blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from retain.errors import LimitExceeded
from retain.sessions.model import Block, Chat, Compaction
from retain.text.secrets import redact, redact_value

# Names are random and no text: a provider finds a call by its id, and knows a thought of its model
# by a seal that every change breaks. Only secrets of a known shape count in them.
_NAMES: Final = ("type", "id", "model")
_SEALED: Final = ("type", "signature", "data")


class Redacted(NamedTuple):
    """A message without its secrets, and the kinds of those there were."""

    content: str
    blocks: tuple[Block, ...]
    kinds: tuple[str, ...]


def redact_message(content: str, blocks: Sequence[Block] = ()) -> Redacted:
    """Take the secrets out of a message; a thought that has one is left out, being sealed."""
    text, text_kinds = redact(content)
    kinds, kept = list(text_kinds), []
    for block in blocks:
        clean, found = _redact_block(block)
        if clean is not None:
            kept.append(clean)
        # The text is among the blocks as well, and a secret in it is one secret.
        known = text_kinds if block.get("type") == "text" else ()
        kinds += [kind for kind in found if kind not in known]
    return Redacted(text, tuple(kept), tuple(kinds))


def _redact_block(block: Block) -> tuple[Block | None, Sequence[str]]:
    data = block.get("data")
    if block.get("type") == "thought" and isinstance(data, Mapping):
        try:
            open_values = {key: value for key, value in data.items() if key not in _SEALED}
            sealed = [data.get(key) for key in _SEALED]
            kinds = (*redact_value(open_values)[1], *secrets_in(sealed))
        except LimitExceeded:
            kinds = ("unsearchable",)
        return (None if kinds else block), kinds
    clean: dict[str, object] = {}
    found: list[str] = []
    for key, value in block.items():
        if key in _NAMES and isinstance(value, str):
            kinds = secrets_in(value)
            # The same name again for a use and its result.
            digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
            clean[key] = f"call_{digest[:24]}" if kinds else value
        else:
            try:
                kept, kinds = redact_value({key: value})
            except LimitExceeded:  # no tool takes such a value, and it cannot be searched
                kept, kinds = {key: {}}, ()
            clean.update(kept if isinstance(kept, dict) else {})
        found += kinds
    return clean, found


def secrets_in(value: object) -> tuple[str, ...]:
    """The kinds of secrets in what is random by nature, where only their shapes tell them."""
    return tuple(kind for kind in redact_value(value)[1] if kind != "high-entropy")


def redact_chat(chat: Chat) -> tuple[Chat, Sequence[str]]:
    """Take the secrets out of a chat from elsewhere; also the kinds of those there were."""
    kinds: list[str] = []

    def clean(text: str) -> str:
        redacted, found = redact(text)
        kinds.extend(found)
        return redacted

    messages = []
    for message in chat.messages:
        redacted = redact_message(message.content, message.blocks)
        kinds += redacted.kinds
        messages.append(message._replace(content=redacted.content, blocks=redacted.blocks))
    redacted_chat = chat._replace(
        title=clean(chat.title),
        summary=clean(chat.summary),
        model=clean(chat.model),
        tags=tuple(clean(tag) for tag in chat.tags),
        messages=tuple(messages),
        compactions=tuple(
            Compaction(count, clean(summary), when) for count, summary, when in chat.compactions
        ),
    )
    return redacted_chat, kinds
