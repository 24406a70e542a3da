"""A prompt brings the memories that fit it, each once for as long as it is in the conversation."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import partial

from retain import warm
from retain.hooks.call import Answer, Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket as Socket  # noqa: N812 - a class, whatever its module calls it
    from typing import Final

    from retain.hooks.context import Entry
    from retain.hooks.memo import Memo
    from retain.place import Place
    from retain.recall.found import Found

__all__ = ["answer"]

_LEAST_CHARS: Final = 10  # of a prompt that asks for anything
_MOST_CHARS: Final = 10_000
_MOST: Final = 20
_KEPT_BACK: Final = 0.04  # seconds of the deadline for whoever is not answered
_EDITED: Final = "edited since it was indexed, read the file"


def answer(call: Call) -> Answer:
    """What is known already about what a prompt asks for."""
    prompt = (call.text("prompt") or call.text("user_prompt"))[:_MOST_CHARS]
    if len(prompt.strip()) < _LEAST_CHARS or _is_machine(prompt) or not call.is_on:
        return Answer()
    config = call.config
    most, budget = config.number("retrieval.max_inject"), config.number("retrieval.budget")
    if not (config.flag("retrieval.enabled") and most and budget):
        return Answer()
    places = [place for place, _ in call.places.readable() if place.exists]
    if not places:
        return Answer()
    # Whoever is asked thinks about it while what comes next is loaded.
    question = _asked(call, places[0], prompt)
    from retain.hooks.memo import Memo

    memo = Memo.of(call.places.place, call.text("session_id"), call.env)
    fresh = _unseen(recalled(call, places, prompt, question), memo)[:most]
    return _answered(call, places, fresh, memo) if fresh else Answer()


def _is_machine(prompt: str) -> bool:
    """Whether the host itself speaks, of an agent in the background say."""
    return prompt.lstrip().startswith(("<task-notification>", "<system-reminder>"))


def _answered(
    call: Call, places: Sequence[Place], fresh: Sequence[tuple[Found, str]], memo: Memo
) -> Answer:
    from retain.hooks import context
    from retain.hooks.context import Part

    by_scope = {place.scope: place for place in places}
    entries = [_entry(found, by_scope.get(found.scope, places[0]), call) for found, _ in fresh]
    source = context.located(f"{places[0].root}/", places[0], call.env)
    about = context.described(call.config, (found.type for found, _ in fresh))
    budget = call.config.number("retrieval.budget")
    text, shown = context.fenced([Part("", entries)], f"{source.rstrip('/')}/", budget, about)
    if not text:
        return Answer()
    pairs = zip(entries, fresh, strict=True)
    memo.show({_name(found): stamp for entry, (found, stamp) in pairs if entry in shown})
    memo.save()
    return Answer.special(call, {"additionalContext": text})


def recalled(
    call: Call, places: Sequence[Place], prompt: str, question: tuple[Socket, float] | None = None
) -> list[Found]:
    """The memories that fit a prompt, from a warm process if one was asked and answers."""
    found = _warmly(question) if question else None
    if found is None:
        found = _quickly(call, places, prompt)
    from retain.recall.found import FAR_BEHIND

    return [one for one in found if one.score >= FAR_BEHIND * found[0].score]


def _asked(call: Call, place: Place, prompt: str) -> tuple[Socket, float] | None:
    """The prompt as a question to a warm process, if there is one and time for it."""
    question = {"op": "search", "query": prompt, "limit": _MOST, "scope": place.scope}
    return warm.asked(place.root, question, max(0.0, call.left - _KEPT_BACK))


def _warmly(question: tuple[Socket, float]) -> list[Found] | None:
    """What a warm process finds, by words and by meaning; None when nobody answers in time."""
    # Needed for any answer, and loaded while one is made.
    from retain.hooks import context  # noqa: F401
    from retain.recall.found import MOST_CAUTIONS, Found

    told = warm.answered(question)
    hits = told.get("hits") if told else None
    if told is None or not isinstance(hits, list):
        return None
    return [
        Found(
            hit["id"],
            hit["collection"],
            hit["title"],
            hit["type"],
            tuple(hit["tags"]),
            hit["created_at"] or "",
            hit["text"],
            hit["file_path"],
            hit["scope"],
            hit["score"],
            tuple(hit["cautions"])[:MOST_CAUTIONS],
        )
        for hit in hits
        if told["confident"]
    ]


def _quickly(call: Call, places: Sequence[Place], prompt: str) -> list[Found]:
    """What the words of a prompt find, bank by bank, with nobody's help."""
    from retain.index.glance import glance
    from retain.recall.quick import quick

    found: list[Found] = []
    for place in places:
        look = partial(quick, place=place, question=prompt, limit=_MOST)
        told = glance(place.root, look, call.end)
        found += _in_files(call, place, prompt) if told is None else told
    return sorted(found, key=lambda one: -one.score)


def _in_files(call: Call, place: Place, prompt: str) -> list[Found]:
    """The same from the files, where there is no index that can be looked at."""
    if call.is_late():
        return []
    from retain.recall.unindexed import unindexed

    largest = call.config.number("memory.max_bytes")
    return unindexed(place, prompt, _MOST, call.is_late, largest)


def _unseen(found: Sequence[Found], memo: Memo) -> list[tuple[Found, str]]:
    """What still exists and is not in the conversation, with a stamp of each file."""
    fresh = []
    for one in found:
        try:
            facts = os.lstat(one.path)
        except OSError:  # deleted since it was indexed
            continue
        stamp = f"{facts.st_size}:{facts.st_mtime_ns}"
        if one.size >= 0 and (one.size, one.modified) != (facts.st_size, facts.st_mtime_ns):
            one = _edited(one)  # noqa: PLW2901 - the same memory, as it is now
        if memo.is_new(_name(one), stamp):
            fresh.append((_dated(one, facts.st_mtime), stamp))
    return fresh


def _dated(one: Found, modified: float) -> Found:
    """A memory with a date; one that states none is as old as its file."""
    if one.created_at:
        return one
    return one._replace(created_at=time.strftime("%Y-%m-%d", time.gmtime(modified)))


def _edited(one: Found) -> Found:
    """A memory whose words are not known any more; a title may be the first of them."""
    return one._replace(title=one.id, tags=(), text="", cautions=(*one.cautions, _EDITED))


def _name(one: Found) -> str:
    return f"{one.scope}:{one.ref}"


def _entry(one: Found, place: Place, call: Call) -> Entry:
    from retain.hooks import context

    return context.Entry(
        one.type,
        one.title,
        context.located(one.path, place, call.env),
        one.tags,
        one.text,
        (one.created_at[:10], *one.cautions),
    )
