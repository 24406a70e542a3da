"""Which record new information belongs to, and what may be done about it.

The words of the information are compared with titles and tags; the best record of the category
is the candidate if it has at least three points. What follows from it is fixed by tables, so that
an agent decides only what is left open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

__all__ = [
    "DELETE_DISALLOWED",
    "LIFECYCLE_EVENTS",
    "STOP_WORDS",
    "Entry",
    "excerpt",
    "score",
    "select",
    "tokens",
    "verdict",
]


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

_ASCII = re.compile(r"[a-z0-9]+")
_HAN: Final = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HIRAGANA: Final = "\u3041-\u309f"
_KATAKANA: Final = "\u30a0-\u30ff\u31f0-\u31ff"
_HANGUL: Final = "\u1100-\u11ff\uac00-\ud7ff"
_SOUTH_EAST: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"


class Entry(NamedTuple):
    """A record as far as it is needed to compare it."""

    path: str
    title: str
    tags: tuple[str, ...]
    category: str


def tokens(text: str) -> set[str]:
    """The telling words of a text; scripts that do not part their words count in pairs.

    Of Japanese only what is not hiragana is told apart, for that is nearly all grammar: a stop
    list of another kind.
    """
    if text.isascii():
        return set(filter(_is_telling, _ASCII.findall(text.lower())))
    found: set[str] = set()
    for run in _runs()(_folded(text)):
        kind, word = run.lastgroup, run[0]
        if kind == "spaced":
            found |= {word} if _is_telling(word) else set()
        elif kind == "han" and len(word) == 1:
            found.add(word)
        elif kind != "hiragana":
            found |= {one + other for one, other in pairwise(word)}
    return found


def _is_telling(word: str) -> bool:
    return len(word) >= _SHORTEST and word not in STOP_WORDS


def _folded(text: str) -> str:
    """A text in lower case and compatible forms, with spaces for all but letters and digits."""
    from unicodedata import category, normalize

    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    # The vowels of many scripts are marks, without which a word would fall apart.
    kept = {c: c if c.isalnum() or category(c)[0] == "M" else " " for c in set(folded)}
    return "".join(map(kept.__getitem__, folded))


@cache
def _runs() -> Callable[[str], Iterable[re.Match[str]]]:
    unspaced = _HIRAGANA + _KATAKANA + _HAN + _HANGUL + _SOUTH_EAST
    return re.compile(
        f"(?P<hiragana>[{_HIRAGANA}]+)|(?P<katakana>[{_KATAKANA}]+)|(?P<han>[{_HAN}]+)"
        f"|(?P<hangul>[{_HANGUL}]+)|(?P<other>[{_SOUTH_EAST}]+)|(?P<spaced>[^\\s{unspaced}]+)"
    ).finditer


def score(new_tokens: Set[str], title: str, tags: Iterable[str]) -> int:
    """Two points for a word of the title, three for a tag, one for the beginning of either."""
    title_words = tokens(title)
    named = {_tag_words(tag) for tag in tags}
    tagged = [words for words in named if words and words <= new_tokens]
    rest = new_tokens - title_words.union(*tagged)
    beginnings = {
        word[:end]
        for word in title_words.union(*named)
        for end in range(_SHORTEST_PREFIX, len(word) + 1)
    }
    return 2 * len(new_tokens & title_words) + 3 * len(tagged) + len(rest & beginnings)


def _tag_words(tag: str) -> frozenset[str]:
    """The words that must all be there for a tag to match.

    An ASCII tag is one word with its hyphens and spaces, and so one with such never matches as a
    whole; a tag in another script may be several pairs, and could not match otherwise.
    """
    return frozenset({tag.lower()} if tag.isascii() else tokens(tag))


def select(
    entries: Iterable[Entry], category: str, new_info: str, strategy: str = "title_tags"
) -> tuple[Entry, int] | None:
    """The best entry of a category with at least three points; among equals the first path."""
    wanted = tokens(new_info)
    scored = [
        (
            entry,
            score(
                wanted,
                "" if strategy == "tags" else entry.title,
                () if strategy == "title" else entry.tags,
            ),
        )
        for entry in entries
        if entry.category == category
    ]
    enough = (one for one in scored if one[1] >= _ENOUGH)
    return min(enough, key=lambda one: (-one[1], one[0].path), default=None)


def excerpt(record: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent needs to see of a candidate."""
    return {
        "title": record.get("title", ""),
        "record_status": record.get("record_status", "active"),
        "tags": record.get("tags", []),
        "last_change_summary": _last_change(record.get("changes")),
        "key_fields": _key_fields(record),
    }


def _last_change(changes: object) -> str:
    if not isinstance(changes, list) or not changes:
        return "Initial creation"
    last = changes[-1]
    return str(last.get("summary", "Unknown change")) if isinstance(last, dict) else str(last)


def _key_fields(record: Mapping[str, Any]) -> dict[str, str]:
    content = record.get("content")
    if not isinstance(content, dict):
        return {}
    names = _KEY_FIELDS.get(str(record.get("category")))
    if names is None:
        texts = [name for name, value in content.items() if isinstance(value, str | list)]
        names = tuple(texts[:_CUSTOM_KEY_FIELDS])
    return {name: _flat(content[name]) for name in names if content.get(name) is not None}


def _flat(value: object) -> str:
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text[:_FIELD_CHARACTERS]


def verdict(
    category: str,
    candidate: Entry | None,
    event: str | None = None,
    score: int = 0,
    excerpt: Mapping[str, Any] | None = None,
    *,
    is_path_valid: bool = True,
) -> dict[str, Any]:
    """What may be done: the candidate, the action its table allows, vetoes and hints.

    A candidate whose path leads out of the store, or to no record, counts as none.
    """
    found = candidate if is_path_valid else None
    is_deletable = category not in DELETE_DISALLOWED
    pre_action = None if found else "NOOP" if event else "CREATE"
    if candidate and not found:
        hints = [f"Candidate path invalid; falling back to {pre_action}"]
    else:
        hints = _hints(category, event, score if found else None)
    return {
        "candidate": _shown(found, excerpt) if found else None,
        "lifecycle_event": event,
        "delete_allowed": is_deletable,
        "pre_action": pre_action,
        "structural_cud": pre_action or ("UPDATE_OR_DELETE" if is_deletable else "UPDATE"),
        "vetoes": (
            [f"Cannot DELETE {category} (triage-initiated)"] if found and not is_deletable else []
        ),
        "hints": hints,
    }


def _shown(found: Entry, excerpt: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "path": found.path,
        "title": found.title,
        "tags": list(found.tags),
        "excerpt": dict(excerpt) if excerpt is not None else None,
    }


def _hints(category: str, event: str | None, score: int | None) -> list[str]:
    if score is None:
        return [f"lifecycle_event={event} with no matching candidate; NOOP"] if event else []
    hints = [f"1 candidate found (score={score})"]
    if event and category in DELETE_DISALLOWED:
        hints.append(
            f"lifecycle_event={event} present but DELETE disallowed for {category}; consider UPDATE"
        )
    elif event:
        hints.append(f"lifecycle_event={event} suggests DELETE if eligible")
    return hints
