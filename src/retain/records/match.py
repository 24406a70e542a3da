"""Find the record that new information belongs to, and say what may be done about it.

The words of the information are compared with titles and tags; the best record of the category
is the candidate if it has at least three points. What follows from it is fixed by tables, so that
an agent decides only what is left open.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise
from typing import Any, Final, NamedTuple
from unicodedata import category as unicode_category
from unicodedata import normalize

from retain.categories import Category

STOP_WORDS: Final = frozenset(
    "a an the is was are were be been being do does did have has had will would could can should "
    "may might shall must i you we they he she it me my your this that these those what which who "
    "whom how when where why if then else so and or but not no yes to of in on at for with from by "
    "about up out into just also very too let please help need want know think make like use get "
    "go see".split()
)
DELETE_DISALLOWED: Final = frozenset({"decision", "preference", "session_summary"})
LIFECYCLE_EVENTS: Final = frozenset({"resolved", "removed", "reversed", "superseded", "deprecated"})

_ENOUGH: Final = 3
_MOST: Final = 10  # points of a hit with the best score of a search
_SHORTEST: Final = 3
_SHORTEST_PREFIX: Final = 4
_FIELD_CHARACTERS: Final = 200
_KEY_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "session_summary": ("goal", "outcome"),
    "decision": ("context", "decision", "rationale"),
    "runbook": ("trigger", "root_cause"),
    "constraint": ("rule", "impact"),
    "tech_debt": ("description", "reason_deferred"),
    "preference": ("topic", "value", "reason"),
}
_CUSTOM_KEY_FIELDS: Final = 3

# Scripts without spaces between words: Han, katakana, Hangul, Thai, Lao, Myanmar, Khmer.
_UNSPACED: Final = (
    "\u3005-\u3007\u30a0-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U000323af\u1100-\u11ff\uac00-\ud7ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\ua9e0-\ua9ff\uaa60-\uaa7f"
)
_HIRAGANA: Final = "\u3041-\u309f"  # nearly all grammar, and so left out like a stop word


class Entry(NamedTuple):
    """A record as far as it is needed to compare it."""

    path: str
    title: str
    tags: tuple[str, ...]


def tokens(text: str) -> set[str]:
    """Return the telling words of a text; scripts without spaces between words count in pairs."""
    if text.isascii():
        return {word for word in re.findall(r"[a-z0-9]+", text.lower()) if _is_telling(word)}
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    # The vowels of many scripts are marks, without which a word would fall apart.
    kept = {c: c if c.isalnum() or unicode_category(c)[0] == "M" else " " for c in set(folded)}
    terms: set[str] = set()
    plain = "".join(map(kept.__getitem__, folded))
    for run in re.finditer(f"([{_UNSPACED}]+)|[^\\s{_UNSPACED}{_HIRAGANA}]+", plain):
        word = run[0]
        if run[1] and len(word) > 1:
            terms.update(first + second for first, second in pairwise(word))
        elif run[1] or _is_telling(word):
            terms.add(word)
    return terms


def _is_telling(word: str) -> bool:
    return len(word) >= _SHORTEST and word not in STOP_WORDS


def score(new_tokens: Set[str], title: str, tags: Iterable[str]) -> int:
    """Give two points for a word of the title, three for a tag, one for the beginning of either."""
    title_words = tokens(title)
    named = {_tag_words(tag) for tag in tags}
    tagged = [words for words in named if words and words <= new_tokens]
    rest = new_tokens - title_words.union(*tagged)
    words = sorted(title_words.union(*named))
    # A token begins a word if it begins the first one that does not come before it.
    begun = sum(
        len(token) >= _SHORTEST_PREFIX and "".join(words[at : at + 1]).startswith(token)
        for token in rest
        for at in (bisect_left(words, token),)
    )
    return 2 * len(new_tokens & title_words) + 3 * len(tagged) + begun


def _tag_words(tag: str) -> frozenset[str]:
    """Return the words that must all be there for a tag to match.

    An ASCII tag is one word with its hyphens and spaces, and so one with such never matches as a
    whole; a tag in another script may be several pairs, and could not match otherwise.
    """
    return frozenset({tag.lower()} if tag.isascii() else tokens(tag))


def select(
    entries: Iterable[Entry], news: str, strategy: str = "title_tags"
) -> tuple[Entry, int] | None:
    """Return the best entry with its points; among equals the one with the first path."""
    words = tokens(news)
    scored = []
    for entry in entries:
        title = "" if strategy == "tags" else entry.title
        points = score(words, title, () if strategy == "title" else entry.tags)
        if points >= _ENOUGH:
            scored.append((entry, points))
    return min(scored, key=lambda it: (-it[1], it[0].path), default=None)


def select_hit(
    entries: Mapping[str, Entry], hits: Sequence[tuple[str, float]]
) -> tuple[Entry, int] | None:
    """Return the first entry among a search's paths and scores, on the same scale of points."""
    for path, points in hits:
        # That an answer is a sure one says nothing of what stands far below its best.
        if path in entries and points >= hits[0][1] / 2:
            return entries[path], _ENOUGH + round(points * (_MOST - _ENOUGH))
    return None


def excerpt(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an agent needs to see of a candidate."""
    changes, content = record.get("changes"), record.get("content")
    summary = "Initial creation"
    if isinstance(changes, list) and changes:
        last = changes[-1] if isinstance(changes[-1], dict) else {"summary": changes[-1]}
        summary = str(last.get("summary", "Unknown change"))
    content = content if isinstance(content, dict) else {}
    names = _KEY_FIELDS.get(str(record.get("category")))
    if names is None:
        names = tuple(name for name, value in content.items() if isinstance(value, str | list))
        names = names[:_CUSTOM_KEY_FIELDS]
    values = {name: content[name] for name in names if content.get(name) is not None}
    texts = {
        name: "; ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in values.items()
    }
    return {
        "title": record.get("title", ""),
        "record_status": record.get("record_status", "active"),
        "tags": record.get("tags", []),
        "last_change_summary": summary,
        "key_fields": {name: text[:_FIELD_CHARACTERS] for name, text in texts.items()},
    }


def verdict(
    kind: Category,
    best: tuple[Entry, int] | None,
    event: str | None,
    excerpt: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Say what may be done: the candidate, the action its table allows, vetoes and hints."""
    is_deletable = kind.name not in DELETE_DISALLOWED
    pre_action = None if best else "NOOP" if event else "CREATE"
    candidate, vetoes = None, []
    hints = [f"lifecycle_event={event} with no matching candidate; NOOP"] if event else []
    if best:
        entry, points = best
        candidate = {
            "path": entry.path,
            "title": entry.title,
            "tags": list(entry.tags),
            "excerpt": excerpt,
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
