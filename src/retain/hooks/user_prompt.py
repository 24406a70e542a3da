"""Add the memories that fit a prompt, each once for as long as it is in the conversation."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.daemon.client import ask
from retain.errors import RetainError
from retain.hooks import Answer, Call
from retain.hooks.session_state import SessionState
from retain.locate import BankLocation
from retain.memory import ENOUGH, FAR_BEHIND, MAX_CAUTIONS
from retain.memory import Answer as Found

# Search is loaded where no warm process answers, and the context where there is something to show.
if TYPE_CHECKING:
    from retain.search.request import SearchRequest

Hit = Mapping[str, Any]  # as `Hit.to_dict` gives it, here or in a warm process

_MIN_CHARS: Final = 10  # of a prompt that asks for anything
_MAX_CHARS: Final = 10_000
_MAX_HITS: Final = 20
_CANDIDATES: Final = 60  # chunks that are ranked; more take longer than they are worth
_MAX_SYNCED: Final = 200  # files of a bank without an index that a hook makes one for
_SYNC_SECONDS: Final = 0.8  # for that, once
_KEPT_BACK: Final = 0.04  # seconds of the deadline for whoever is not answered
_EDITED: Final = "edited since it was indexed, read the file"


def answer(call: Call) -> Answer:
    """Answer a prompt with the memories that fit it."""
    prompt = (call.text("prompt") or call.text("user_prompt"))[:_MAX_CHARS]
    if len(prompt.strip()) < _MIN_CHARS:
        return Answer(reason=f"The prompt is too short: fewer than {_MIN_CHARS} characters.")
    if prompt.lstrip().startswith(("<task-notification>", "<system-reminder>")):
        return Answer(reason="The host itself speaks, of an agent in the background say.")
    if reason := call.find_silence_reason():
        return Answer(reason=reason)
    for key in ("retrieval.max_inject", "retrieval.budget"):
        if not call.config.number(key):
            return Answer(reason=f"{key} is 0 ({call.config.value(key).origin}).")
    place = call.banks[0][0]
    request = {"op": "search", "query": prompt, "limit": _MAX_HITS, "scope": place.scope}
    found = ask(place.root, request, max(0.0, call.left - _KEPT_BACK))
    if found is None or "hits" not in found:
        found = _search(call, prompt)
    state = SessionState(place, call.text("session_id"), call.env)
    hits, reason = choose(found, state, call.config.number("retrieval.max_inject"))
    return _show(call, hits, state, reason) if hits else Answer(reason=reason)


def choose(
    found: Mapping[str, Any], state: SessionState, most: int
) -> tuple[list[dict[str, Any]], str]:
    """Decide which hits of a search a prompt is given, and say why."""
    hits = found["hits"]
    confidence = f"The confidence is {found['confidence']:.2f}, and {ENOUGH:g} is enough."
    if not found["confident"]:
        nearest = ", ".join(f"{hit['title']} ({hit['score']:.2f})" for hit in hits[:3])
        nearest = f"The nearest: {nearest}." if hits else "None has any of its words."
        return [], f"No memory fits the prompt well enough. {confidence} {nearest}"
    near = [hit for hit in hits if hit["score"] >= FAR_BEHIND * hits[0]["score"]]
    fresh = _new_hits(near, state)[:most]
    return fresh, confidence if fresh else "All that fits is in the conversation already."


def _search(call: Call, prompt: str) -> dict[str, Any]:
    """Search by words alone, where no warm process answers: each index as it is, or a new one."""
    from retain.index.fulltext import Snapshot
    from retain.search.request import SearchRequest
    from retain.search.search import search

    request = SearchRequest(prompt, limit=_MAX_HITS, mode="text", min_candidates=_CANDIDATES)
    answers: list[Found] = []
    for place, _ in call.banks:
        try:
            answers.append(search([Snapshot(place, call.end)], request))
        except RetainError:
            if not call.is_late():
                answers += _index_and_search(place, request)
    hits = sorted((hit for found in answers for hit in found.hits), key=lambda hit: -hit.score)
    return {
        "hits": [{**hit.to_dict(), "stamp": hit.stamp} for hit in hits],
        "confidence": max((found.confidence for found in answers), default=0.0),
        "confident": any(found.is_confident for found in answers),
    }


def _index_and_search(place: BankLocation, request: SearchRequest) -> list[Found]:
    """Index a bank that has no index yet, if it is small, and search that."""
    from concurrent.futures import ThreadPoolExecutor  # 5 ms

    from retain.bank.bank import Bank
    from retain.index.index import Index
    from retain.search.search import search

    def work() -> list[Found]:
        bank = Bank(place)
        if len(bank.names()) > _MAX_SYNCED:
            return []
        with contextlib.closing(Index(bank, os.environ)) as index:
            return [search([index], request)]

    # In a thread, because another process may hold the index for longer than a host waits.
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(_SYNC_SECONDS)
    except (RetainError, TimeoutError):  # the next command says so
        return []
    finally:
        pool.shutdown(wait=False)


def _new_hits(hits: Sequence[Hit], state: SessionState) -> list[dict[str, Any]]:
    """The hits that still exist and are not in the conversation, with a stamp of each file."""
    fresh = []
    for hit in hits:
        try:
            status = os.lstat(hit["file_path"])
        except OSError:  # deleted since it was indexed
            continue
        stamp = f"{status.st_size}:{status.st_mtime_ns}"
        if not state.is_new(hit["file_path"], stamp):
            continue
        current = {**hit, "stamp": stamp}
        if hit.get("stamp", stamp) != stamp:
            # Its words are not known any more; a title may be the first of them.
            notes = [*hit["cautions"], _EDITED]
            current |= {"title": hit["id"], "tags": [], "text": "", "cautions": notes}
        if not hit["created_at"]:  # one that states no date is as old as its file
            current["created_at"] = time.strftime("%Y-%m-%d", time.gmtime(status.st_mtime))
        fresh.append(current)
    return fresh


def _show(call: Call, hits: Sequence[Hit], state: SessionState, reason: str) -> Answer:
    """Put hits into the context, as many as the budget has room for, and note them as shown."""
    from retain.hooks.context import Entry, Part, build_context, describe_categories, short_path

    first = call.banks[0][0]
    places = {place.scope: place for place, _ in call.banks}
    entries = {
        Entry(
            hit["type"],
            hit["title"],
            short_path(hit["file_path"], places.get(hit["scope"], first), call.env),
            tuple(hit["tags"]),
            hit["text"],
            (hit["created_at"][:10], *hit["cautions"][:MAX_CAUTIONS]),
        ): hit
        for hit in hits
    }
    about = describe_categories(call.config, (hit["type"] for hit in hits))
    text, shown = build_context(call, [Part("", list(entries))], about)
    if not text:
        return Answer(reason=f"{hits[0]['title']!r} fits, and finds no room in retrieval.budget.")
    state.show({entries[entry]["file_path"]: entries[entry]["stamp"] for entry in shown})
    state.save()
    return call.reply({"additionalContext": text})._replace(reason=reason)
