"""Secrets left out of what is kept of a chat, in its texts and in its blocks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retain.errors import LimitExceeded
from retain.sessions.model import Block, Chat, Compaction, Said
from retain.text.secrets import Redacted, redact, redact_value

_LONG = 10_000  # characters from which on it pays to remember what was searched

# What stands there is no text, and random as it is: a provider finds a call by its id, and knows
# its model's thoughts by a seal that every change breaks.
_NAMES = ("type", "id", "model")
_SEALED = ("type", "signature", "data")


class Clean(NamedTuple):
    """A message without its secrets, and the kinds of those there were."""

    content: str
    blocks: tuple[Block, ...]
    kinds: tuple[str, ...]


class Redactor:
    """Takes secrets out of messages, and searches a reply that grows only where it has grown."""

    def __init__(self) -> None:
        self._settled = ("", Redacted("", ()))  # the beginning of the last long text
        self._ids: dict[str, str] = {}  # given in the place of those that were secrets

    def said(self, content: str, given: Sequence[Block] = ()) -> Clean:
        """What one side said, as it may be kept."""
        text, found = self.text(content)
        kept: list[Block] = []
        kinds = list(found)
        for one in given:
            block, more = self._block(one)
            # The text is among the blocks as well, and a secret in it is one secret.
            is_text = one.get("type") == "text"
            kinds += [kind for kind in more if not is_text or kind not in found]
            # A thought that has one is left out, as it cannot be changed.
            if not (more and one.get("type") == "thought"):
                kept.append(block)
        return Clean(text, tuple(kept), tuple(kinds))

    def text(self, given: str) -> Redacted:
        """A text without its secrets."""
        if len(given) < _LONG:
            return redact(given)
        head, clean = self._settled
        if not head or not given.startswith(head):
            head, clean = "", Redacted("", ())
        # No secret goes across an empty line, but for a key in a block of its own.
        end = given.rfind("\n\n", len(head), -_LONG // 10)
        if end > 0 and "PRIVATE KEY" not in given[len(head) :]:
            clean = _joined(clean, redact(given[len(head) : end]))
            head = given[:end]
            self._settled = head, clean
        return _joined(clean, redact(given[len(head) :]))

    def _block(self, one: Block) -> tuple[Block, Sequence[str]]:
        text, data = one.get("text"), one.get("data")
        if one.get("type") == "text" and isinstance(text, str):
            clean = self.text(text)
            return {**one, "text": clean.text}, clean.kinds
        if one.get("type") == "thought" and isinstance(data, Mapping):
            return one, _thought(data)
        return self._redacted(one)

    def _redacted(self, one: Block) -> tuple[Block, Sequence[str]]:
        clean: dict[str, object] = {}
        kinds: list[str] = []
        for key, value in one.items():
            if key in _NAMES and isinstance(value, str):
                found: Sequence[str] = secrets_in(value)
                clean[key] = self._named(value) if found else value
            else:
                kept, found = _value(key, value)
                clean.update(kept)
            kinds += found
        return clean, kinds

    def _named(self, id_: str) -> str:
        """Another id for one that is a secret, the same for a use and its result."""
        return self._ids.setdefault(id_, f"call_{uuid.uuid4().hex}")


def _thought(data: Mapping[str, object]) -> Sequence[str]:
    """The kinds of secrets in a model's thought, and that it cannot be searched."""
    open_to_all = {key: value for key, value in data.items() if key not in _SEALED}
    try:
        sealed = [kind for key in _SEALED for kind in secrets_in(data.get(key))]
        return (*redact_value(open_to_all)[1], *sealed)
    except LimitExceeded:
        return ("unsearchable",)


def secrets_in(value: object) -> tuple[str, ...]:
    """The kinds of secrets in what is random by nature, where only their shapes tell them."""
    return tuple(kind for kind in redact_value(value)[1] if kind != "high-entropy")


def _joined(one: Redacted, other: Redacted) -> Redacted:
    return Redacted(one.text + other.text, one.kinds + other.kinds)


def _value(key: str, value: object) -> tuple[dict[str, object], Sequence[str]]:
    try:
        kept, found = redact_value({key: value})
    except LimitExceeded:  # no tool takes such a value, and none can be searched
        return {key: {}}, ()
    assert isinstance(kept, dict)  # noqa: S101 - as it was handed in
    return kept, found


def chat(whole: Chat, kinds: list[str]) -> Chat:
    """A chat from elsewhere as it may be kept; the kinds of its secrets are added to a list."""

    redactor = Redactor()

    def without(text: str) -> str:
        clean, found = redact(text)
        kinds.extend(found)
        return clean

    def spoken(one: Said) -> Said:
        clean = redactor.said(one.content, one.blocks)
        kinds.extend(clean.kinds)
        return one._replace(content=clean.content, blocks=clean.blocks)

    return whole._replace(
        title=without(whole.title),
        summary=without(whole.summary),
        model=without(whole.model),
        tags=tuple(map(without, whole.tags)),
        said=tuple(map(spoken, whole.said)),
        compactions=tuple(
            Compaction(one.messages, without(one.summary), one.created_at)
            for one in whole.compactions
        ),
    )
