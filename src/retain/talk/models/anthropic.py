"""Claude, through Anthropic's own package; the only module that knows of it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.talk.events import (
    Ask,
    Block,
    Event,
    Finished,
    Reason,
    Text,
    TextDelta,
    Thinking,
    Thought,
    ToolResult,
    ToolUse,
    Turn,
    Usage,
)
from retain.talk.models import turns
from retain.talk.models.remote import RemoteModel, tls

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


_MAX_TOKENS: Final = 16_000  # the API wants a number; thinking counts as well
_CACHED: Final = {"cache_control": {"type": "ephemeral"}}
_NOT_IN_AN_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_REASONS: Final[Mapping[str, Reason]] = {
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


class Claude(RemoteModel):
    """A model behind the Messages API."""

    provider = "anthropic"

    def _load(self) -> None:
        import anthropic.resources.messages
        import anthropic.resources.models  # noqa: F401 - the package itself loads these late

        tls()

    def _client(self) -> AsyncAnthropic:
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(
            api_key=self._to.key,
            base_url=self._to.base_url,
            max_retries=0,  # ours are shown, and never repeat a reply that has begun
            open_telemetry=False,
            http_client=self._http_client(),
        )

    def _list(self, client: AsyncAnthropic) -> AsyncIterator[Any]:
        return aiter(client.models.list(limit=100))

    def _request(self, ask: Ask) -> dict[str, Any]:
        return _request(self.name, ask)

    async def _open(self, client: AsyncAnthropic, request: dict[str, Any]) -> Any:
        return await client.messages.create(**request, stream=True)

    def _reply(self) -> _Reply:
        return _Reply(self.name)


class _Reply:
    """A reply being put together from the events of its stream."""

    def __init__(self, model: str) -> None:
        self.has_begun = False
        self.stop = ""
        self._model = model
        self._text = ""
        self._usage: Any = None
        self._written = 0
        self._blocks: dict[int, dict[str, Any]] = {}
        self._broken: list[ToolUse] = []

    def take(self, event: Any) -> Iterator[Event]:
        match event.type:
            case "message_start":
                self.has_begun, self._usage = True, event.message.usage
            case "content_block_start":
                yield from self._start(event.index, event.content_block)
            case "content_block_delta":
                yield from self._grow(self._blocks[event.index], event.delta)
            case "content_block_stop":
                yield from self._end(self._blocks.pop(event.index))
            case "message_delta":
                self.stop = event.delta.stop_reason or self.stop
                self._written = event.usage.output_tokens or self._written

    def _start(self, index: int, block: Any) -> Iterator[Event]:
        self._blocks[index] = {**block.to_dict(), "json": ""}
        if block.type == "text" and block.text:
            yield self._more(block.text)
        elif block.type == "thinking":
            yield Thinking("")

    def _grow(self, block: dict[str, Any], delta: Any) -> Iterator[Event]:
        match delta.type:
            case "text_delta":
                yield self._more(delta.text)
            case "input_json_delta":
                block["json"] += delta.partial_json
            case "thinking_delta":
                block["thinking"] += delta.thinking
                yield Thinking(delta.thinking)
            case "signature_delta":
                block["signature"] = delta.signature

    def _end(self, block: dict[str, Any]) -> Iterator[Event]:
        text = block.pop("json")
        if block["type"] in ("thinking", "redacted_thinking"):
            yield Thought(self._model, block)
        elif block["type"] == "tool_use":
            text = text or json.dumps(block.get("input") or {})
            use = turns.called(block["id"], block["name"], text)
            if use.broken:
                self._broken.append(use)  # whether it was cut short is known at the end
            else:
                yield use

    def _more(self, text: str) -> TextDelta:
        self._text += text
        return TextDelta(text)

    def finish(self, ask: Ask) -> Iterator[Event]:
        reason = _REASONS.get(self.stop, "end")
        if reason != "length":
            yield from self._broken
        yield self._used() or turns.estimate(ask, self._text)
        yield Finished(reason)

    def _used(self) -> Usage | None:
        found = turns.counts(
            getattr(self._usage, "input_tokens", None),
            getattr(self._usage, "cache_creation_input_tokens", None),
            getattr(self._usage, "cache_read_input_tokens", None),
            self._written or getattr(self._usage, "output_tokens", None),
        )
        if not found or not found[0]:
            return None
        fresh, stored, cached, written = found
        return Usage(fresh + stored + cached, written, cached)


def _request(model: str, ask: Ask) -> dict[str, Any]:
    """The request's body; what stays the same from one to the next is marked for the cache."""
    said = [one._replace(role="user") if one.role == "system" else one for one in ask.messages]
    messages = [_message(turn) for turn in turns.mended(said, model)]
    for message in _kept(messages):
        _mark(message["content"])
    request: dict[str, Any] = {
        "model": model,
        "max_tokens": ask.max_tokens or _MAX_TOKENS,
        "messages": messages,
    }
    if system := _system(ask):
        request["system"] = system
    if ask.tools:
        request["tools"] = [
            {"name": one.name, "description": one.description, "input_schema": dict(one.schema)}
            for one in ask.tools
        ]
        if not ask.may_use_tools:
            request["tool_choice"] = {"type": "none"}
    return request


def _kept(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages up to which a provider keeps what it reads.

    Up to the newest, for the next round of the same reply; and up to those before the last two
    things that the person said: with what a person said goes what was recalled for it, once, so
    the next request has only what comes before in common with this one.
    """
    said = [
        at
        for at, one in enumerate(messages)
        if one["role"] == "user" and any(block["type"] == "text" for block in one["content"])
    ]
    ends = {at - 1 for at in said[-2:] if at} | {len(messages) - 1}
    return [messages[at] for at in sorted(ends) if at >= 0]


def _system(ask: Ask) -> list[dict[str, Any]]:
    parts = [turns.clean(part).strip() for part in ask.system]
    stable = turns.PARTING.join(filter(None, parts[: ask.stable]))
    rest = turns.PARTING.join(filter(None, parts[ask.stable :]))
    blocks: list[dict[str, Any]] = []
    if stable:
        blocks.append({"type": "text", "text": stable, **_CACHED})
    if rest:
        parting = turns.PARTING.lstrip() if stable else ""
        blocks.append({"type": "text", "text": parting + rest})
    return blocks


def _message(turn: Turn) -> dict[str, Any]:
    return {"role": turn.role, "content": [_block(one) for one in turn.blocks]}


def _block(one: Block) -> dict[str, Any]:
    match one:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolUse(id_, name, given):
            return {"type": "tool_use", "id": _id(id_), "name": name, "input": dict(given)}
        case ToolResult(id_, text, is_error):
            result = {"type": "tool_result", "tool_use_id": _id(id_), "content": text}
            return {**result, "is_error": True} if is_error else result
        case Thought(_, data):
            return dict(data)


def _id(given: str) -> str:
    """An id of another provider's model as this one takes it."""
    return _NOT_IN_AN_ID.sub("_", given) or "_"


def _mark(content: Sequence[dict[str, Any]]) -> None:
    """Mark the last block that can be; thoughts cannot."""
    for block in reversed(content):
        if block["type"] in ("text", "tool_use", "tool_result"):
            block.update(_CACHED)
            return
