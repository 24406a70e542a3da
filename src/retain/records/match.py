"""Find the record that new information belongs to, and say what may be done about it.

The words of the information are compared with titles and tags; the best record of the category
is the candidate if it has at least three points. What follows from it is fixed by tables, so that
an agent decides only what is left open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cache
from typing import Any, Final

from retain.categories import Category
from retain.memory import Memory
from retain.records.codec import load_record
from retain.records.forms import KEY_FIELDS
from retain.text.tokens import query, words

DELETE_DISALLOWED: Final = frozenset({"decision", "preference", "session_summary"})
LIFECYCLE_EVENTS: Final = frozenset({"resolved", "removed", "reversed", "superseded", "deprecated"})

_STOP_WORDS: Final = "yes let please help need want know think make like use get go see"
_ENOUGH: Final = 3
_MOST: Final = 10  # points of a hit with the best score of a search
_SHORTEST: Final = 3
_SHORTEST_PREFIX: Final = 4
_FIELD_CHARACTERS: Final = 200
_CUSTOM_KEY_FIELDS: Final = 3


def _telling(terms: Iterable[str]) -> set[str]:
    """Return the terms that count: no short ones, unless their script has no longer words."""
    is_long = {term for term in terms if len(term) >= _SHORTEST or not term.isascii()}
    return is_long - _stop_terms()


@cache
def _stop_terms() -> Set[str]:
    return frozenset(words(_STOP_WORDS))


def score(news: str, title: str, tags: Iterable[str]) -> int:
    """Give two points for a word of the title, three for a tag, one for the beginning of either.

    A tag counts when all of its words are there.
    """
    new, title_terms = _telling(query(news)), _telling(words(title))
    tag_terms = list(filter(None, (_telling(query(tag)) for tag in set(tags))))
    named = [terms for terms in tag_terms if terms <= new]
    known = title_terms.union(*tag_terms)
    begun = [
        term
        for term in new - title_terms.union(*named)
        if len(term) >= _SHORTEST_PREFIX and any(word.startswith(term) for word in known)
    ]
    return 2 * len(new & title_terms) + 3 * len(named) + len(begun)


def select(
    memories: Iterable[Memory], news: str, strategy: str = "title_tags"
) -> tuple[Memory, int] | None:
    """Return the best record with its points; among equals the one with the first path."""
    scored = []
    for memory in memories:
        title = "" if strategy == "tags" else memory.title
        points = score(news, title, () if strategy == "title" else memory.tags)
        if points >= _ENOUGH:
            scored.append((memory, points))
    return min(scored, key=lambda it: (-it[1], it[0].path), default=None)


def select_hit(
    memories: Iterable[Memory], hits: Sequence[tuple[str, float]]
) -> tuple[Memory, int] | None:
    """Return the first record among a search's paths and scores, on the same scale of points."""
    known = {memory.path: memory for memory in memories}
    for path, points in hits:
        # That an answer is a sure one says nothing of what stands far below its best.
        if path in known and points >= hits[0][1] / 2:
            return known[path], _ENOUGH + round(points * (_MOST - _ENOUGH))
    return None


def make_excerpt(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an agent needs to see of a candidate."""
    changes, content = record.get("changes"), record.get("content")
    last = changes[-1] if isinstance(changes, list) and changes else {"summary": "Initial creation"}
    content = content if isinstance(content, dict) else {}
    names = KEY_FIELDS.get(str(record.get("category")))
    if names is None:
        texts = [name for name, value in content.items() if isinstance(value, str | list)]
        names = tuple(texts[:_CUSTOM_KEY_FIELDS])
    values = {name: content[name] for name in names if content.get(name) is not None}
    return {
        "title": record.get("title", ""),
        "record_status": record.get("record_status", "active"),
        "tags": record.get("tags", []),
        "last_change_summary": str(last.get("summary", "")) if isinstance(last, dict) else "",
        "key_fields": {
            name: ("; ".join(map(str, value)) if isinstance(value, list) else str(value))[
                :_FIELD_CHARACTERS
            ]
            for name, value in values.items()
        },
    }


def decide(
    kind: Category, best: tuple[Memory, int] | None, event: str | None, project: str
) -> dict[str, Any]:
    """Say what may be done: the candidate, the action its table allows, vetoes and hints."""
    is_deletable = kind.name not in DELETE_DISALLOWED
    pre_action = None if best else "NOOP" if event else "CREATE"
    candidate, vetoes = None, []
    hints = [f"lifecycle_event={event} with no matching candidate; NOOP"] if event else []
    if best:
        memory, points = best
        candidate = {
            "path": os.path.relpath(memory.path, project),
            "title": memory.title,
            "tags": list(memory.tags),
            "excerpt": make_excerpt(load_record(memory)),
        }
        hints = [f"1 candidate found (score={points})"]
        advice = "suggests DELETE if eligible"
        if not is_deletable:
            vetoes = [f"Cannot DELETE {kind.name} (triage-initiated)"]
            advice = f"present but DELETE disallowed for {kind.name}; consider UPDATE"
        if event:
            hints.append(f"lifecycle_event={event} {advice}")
    if not kind.auto_capture:
        hints.append(f"auto_capture is off for {kind.name}; save only what was asked for")
    return {
        "candidate": candidate,
        "lifecycle_event": event,
        "delete_allowed": is_deletable,
        "pre_action": pre_action,
        "structural_cud": pre_action or ("UPDATE_OR_DELETE" if is_deletable else "UPDATE"),
        "vetoes": vetoes,
        "hints": hints,
    }
