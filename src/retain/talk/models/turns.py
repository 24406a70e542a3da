"""A conversation as any provider takes it: every tool's use with its result, and no empty text."""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from retain.sessions.redaction import secrets_in
from retain.talk.events import Ask, Block, Role, Text, Thought, ToolResult, ToolUse, Turn, Usage
from retain.text.sizes import count_tokens

PARTING: Final = "\n\n---\n\n"
_UNFINISHED: Final = "This was interrupted, and there is no result."
_NOTHING: Final = "(no output)"
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_MOST_NAME: Final = 64
_MOST_TOKENS: Final = 2**40  # more than anything can be read or written; a server may say more


def mended(turns: Iterable[Turn], model: str) -> list[Turn]:
    """The turns without what a provider refuses.

    A conversation may have been cut, resumed after a crash, or begun with another model: a use
    without its result is given one, a result without its use is dropped, and so are the thoughts
    of another model and a reply to nothing at the beginning.
    """
    kept: list[Turn] = []
    for role, given in turns:
        blocks = tuple(_usable(given, model))
        found = {one.id: one for one in blocks if isinstance(one, ToolResult)}
        rest = tuple(one for one in blocks if not isinstance(one, ToolResult))
        if blocks:
            _put(kept, "user", _results(kept, found))
        if rest and (kept or role != "assistant"):
            _put(kept, role, rest)
    _put(kept, "user", _results(kept, {}))
    return kept


def _results(kept: Sequence[Turn], found: Mapping[str, ToolResult]) -> tuple[Block, ...]:
    """A result for each use in the newest turn."""
    uses = (one for one in kept[-1].blocks if isinstance(one, ToolUse)) if kept else ()
    return tuple(found.get(one.id) or ToolResult(one.id, _UNFINISHED, True) for one in uses)


def _put(kept: list[Turn], role: Role, blocks: tuple[Block, ...]) -> None:
    """Neighbours of one side are one turn."""
    if blocks and kept and kept[-1].role == role:
        kept[-1] = Turn(role, kept[-1].blocks + blocks)
    elif blocks:
        kept.append(Turn(role, blocks))


def _usable(blocks: Iterable[Block], model: str) -> Iterator[Block]:
    for one in blocks:
        match one:
            case Text(text) if text.strip():
                yield Text(clean(text))
            case ToolUse(name=name):
                # A name that a model made up, or that was redacted, is refused by its provider.
                yield one._replace(name=_NOT_IN_A_NAME.sub("_", name)[:_MOST_NAME] or "_")
            case ToolResult(id_, text, is_error):
                yield ToolResult(id_, clean(text).strip() or _NOTHING, is_error)
            case Thought() if one.model == model:
                yield one
            case _:
                pass


def clean(text: str) -> str:
    """A text that can be encoded, whatever a file name or a broken pipe put into it."""
    return text.encode("utf-8", "replace").decode("utf-8")


def arguments(use: ToolUse) -> str:
    """A tool's input as JSON."""
    return json.dumps(dict(use.input), ensure_ascii=True, default=str)


def called(id_: object, name: object, text: str) -> ToolUse:
    """A tool's use from the JSON of its input, which a model may have got wrong."""
    if not (isinstance(id_, str) and isinstance(name, str)):
        raise TypeError("a tool is called by its name, and a call has an id")
    if secrets_in(id_):  # it stands in the history as it is, for the result to be found by
        id_ = f"call_{uuid.uuid4().hex}"
    try:
        given = json.loads(text or "{}", parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError):
        given = None
    if isinstance(given, dict):
        return ToolUse(id_, name, given)
    return ToolUse(id_, name, {}, broken=text)


def _number(text: str) -> float:
    """A number that JSON has; Python would take others, and no server does when it is sent them."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def counts(*given: object) -> list[int] | None:
    """Numbers of tokens as a server states them; None if one of them cannot be right."""
    found = [0 if one is None else one for one in given]
    sound = [one for one in found if type(one) is int and 0 <= one <= _MOST_TOKENS]
    return sound if len(sound) == len(found) else None


def estimate(ask: Ask, reply: str) -> Usage:
    """About how many tokens went each way, for a server that does not say."""
    read = [*ask.system, *(f"{one.description} {dict(one.schema)}" for one in ask.tools)]
    for turn in ask.messages:
        read += [arguments(one) if isinstance(one, ToolUse) else _text(one) for one in turn.blocks]
    return Usage(sum(map(count_tokens, read)), count_tokens(reply), estimated=True)


def _text(one: Block) -> str:
    return one.text if isinstance(one, Text | ToolResult) else ""
