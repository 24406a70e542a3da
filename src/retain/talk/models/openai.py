"""OpenAI's models and all that speak its protocol, through its own package.

Ollama, LM Studio, vLLM and most providers do. The only module that knows of that package.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from retain.talk.events import (
    Ask,
    Event,
    Finished,
    Reason,
    Text,
    TextDelta,
    Thinking,
    ToolResult,
    ToolUse,
    Turn,
    Usage,
)
from retain.talk.models import turns
from retain.talk.models.remote import RemoteModel, tls

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_REASONS: Final[Mapping[str, Reason]] = {
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}


class Compatible(RemoteModel):
    """A model behind `/v1/chat/completions`."""

    provider = "openai"

    def _load(self) -> None:
        import openai.resources.chat
        import openai.resources.models  # noqa: F401 - the package itself loads these late

        tls()

    def _client(self) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=self._to.key,
            base_url=self._to.base_url,
            max_retries=0,  # ours are shown, and never repeat a reply that has begun
            http_client=self._http_client(),
        )

    def _list(self, client: AsyncOpenAI) -> AsyncIterator[Any]:
        return aiter(client.models.list())

    def _request(self, ask: Ask) -> dict[str, Any]:
        return _request(self.name, ask, is_official=self._to.is_official)

    async def _open(self, client: AsyncOpenAI, request: dict[str, Any]) -> Any:
        return await client.chat.completions.create(**request, stream=True)

    def _reply(self) -> _Reply:
        return _Reply()


class _Call:
    """A tool's use being put together."""

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.name = ""
        self.text = ""


class _Reply:
    """A reply being put together from the chunks of its stream."""

    def __init__(self) -> None:
        self.has_begun = False
        self.stop = ""
        self._text = ""
        self._refused = False
        self._usage: Any = None
        self._calls: list[_Call] = []
        self._at: dict[int | None, _Call] = {}

    def take(self, chunk: Any) -> Iterator[Event]:
        self._usage = chunk.usage or self._usage
        for choice in (chunk.choices or [])[:1]:
            self.has_begun = True
            yield from self._grow(choice.delta)
            self.stop = choice.finish_reason or self.stop

    def _grow(self, delta: Any) -> Iterator[Event]:
        if delta is None:
            return
        # Not OpenAI's, but what most servers of thinking models send, under two names.
        thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
        if isinstance(thought, str):
            yield Thinking(thought)
        if refusal := getattr(delta, "refusal", None):
            self._refused = True
            yield self._more(refusal)
        if delta.content:
            yield self._more(delta.content)
        for part in delta.tool_calls or ():
            self._called(part)

    def _more(self, text: str) -> TextDelta:
        self._text += text
        return TextDelta(text)

    def _called(self, part: Any) -> None:
        call = self._at.get(part.index)
        # Some servers give every call the same index; a new id is then a new call.
        if call is None or (part.id and call.id != part.id):
            call = self._at[part.index] = _Call(part.id or "")
            self._calls.append(call)
        call.name += (part.function and part.function.name) or ""
        call.text += (part.function and part.function.arguments) or ""

    def finish(self, ask: Ask) -> Iterator[Event]:
        reason = self._reason()
        ids = {call.id for call in self._calls}
        for number, call in enumerate(self._calls):
            id_ = call.id if call.id and len(ids) == len(self._calls) else f"call_{number}"
            use = turns.called(id_, call.name, call.text)
            if not (use.broken and reason == "length"):
                yield use
        yield self._used() or turns.estimate(ask, self._text + "".join(c.text for c in self._calls))
        yield Finished(reason)

    def _reason(self) -> Reason:
        if self._refused:
            return "refused"
        reason = _REASONS.get(self.stop, "end")
        return "tools" if reason == "end" and self._calls else reason

    def _used(self) -> Usage | None:
        details = getattr(self._usage, "prompt_tokens_details", None)
        found = turns.counts(
            getattr(self._usage, "prompt_tokens", None),
            getattr(self._usage, "completion_tokens", None),
            getattr(details, "cached_tokens", None),
        )
        if not found or not found[0]:
            return None
        read, written, cached = found
        return Usage(read, written, cached)


def _request(model: str, ask: Ask, *, is_official: bool) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": model,
        "messages": list(_messages(model, ask)),
        "stream_options": {"include_usage": True},
    }
    if ask.max_tokens:
        # OpenAI's newer models refuse the old name, and most other servers know no other.
        name = "max_completion_tokens" if is_official else "max_tokens"
        request[name] = ask.max_tokens
    if ask.tools:
        request["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": one.name,
                    "description": one.description,
                    "parameters": dict(one.schema),
                },
            }
            for one in ask.tools
        ]
        if not ask.may_use_tools:
            request["tool_choice"] = "none"
    return request


def _messages(model: str, ask: Ask) -> Iterator[dict[str, Any]]:
    system = filter(None, (turns.clean(part).strip() for part in ask.system))
    if text := turns.PARTING.join(system):
        yield {"role": "system", "content": text}
    for turn in turns.mended(ask.messages, model):
        yield from _said(turn)


def _said(turn: Turn) -> Iterator[dict[str, Any]]:
    """A turn as messages: each tool's result is one of its own, before what was said with it."""
    for one in turn.blocks:
        if isinstance(one, ToolResult):
            yield {"role": "tool", "tool_call_id": one.id, "content": one.text}
    text = "\n\n".join(one.text for one in turn.blocks if isinstance(one, Text))
    calls = list(_calls(turn.blocks))
    if calls:
        yield {"role": turn.role, "content": text or None, "tool_calls": calls}
    elif text:
        yield {"role": turn.role, "content": text}


def _calls(blocks: Iterable[object]) -> Iterator[dict[str, Any]]:
    for one in blocks:
        if isinstance(one, ToolUse):
            function = {"name": one.name, "arguments": turns.arguments(one)}
            yield {"id": one.id, "type": "function", "function": function}
