r"""Which kinds of memories a conversation calls for, by its words alone.

Words, weights, windows and thresholds are those of claude-memory, so that a store and a config
made for it behave as before. They are kept as they are, also where they look odd: three lines that
speak of a limit give a constraint 0.4737, which is less than the 0.5 it takes.

A hook waits for this. Each pattern is compiled when one of its words occurs in the text, and tried
only on the lines that have one; plain searching for words is many times faster than a pattern.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, islice

from retain.capture.transcript import Message, said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = [
    "CATEGORIES",
    "EXCERPTS",
    "SIGNALS",
    "SUMMARY",
    "Hit",
    "Settings",
    "Signals",
    "judged",
]

_NEAR: Final = 4  # lines between a word and what backs it up
_AROUND: Final = 10  # lines of context on each side
# Twice of what is written, so that a secret at the edge is still seen whole.
_LOOKED_AT: Final = 100_000
_SNIPPET: Final = 120
# People paste logs of megabytes. What they say about them stands before or after, and a window of
# fifty such messages must not take longer than the host waits.
_SCORED: Final = 20_000
_BLOCK: Final = 16_000  # characters that are looked through between two looks at the clock
# Five lines make a score and a few hundred fill a context. The rest is looked at only for words
# that back one another up, and not for ever.
_MOST_PLACES: Final = 5_000


class Signals(NamedTuple):
    """The words that speak for a category, those that back them up, and what both weigh."""

    primary: str
    booster: str
    primary_weight: float
    boosted_weight: float
    denominator: float
    max_primary: int = 3
    max_boosted: int = 2


# In the order in which they are judged; a session's summary comes last.
SIGNALS: Final[Mapping[str, Signals]] = {
    "decision": Signals(
        r"decided|chose|selected|went\s+with|picked",
        r"because|due\s+to|reason|rationale|over|instead\s+of|rather\s+than",
        0.3, 0.5, 1.9,
    ),
    "runbook": Signals(
        r"error|exception|traceback|stack\s*trace|failed|failure|crash",
        r"fixed\s+by|resolved|root\s+cause|solution|workaround|the\s+fix",
        0.2, 0.6, 1.8,
    ),
    "constraint": Signals(
        r"limitation|api\s+limit|cannot|restricted|not\s+supported|quota|rate\s+limit",
        r"discovered|found\s+that|turns\s+out|permanently|enduring|platform",
        0.3, 0.5, 1.9,
    ),
    "tech_debt": Signals(
        r"TODO|deferred|tech\s+debt|workaround|hack|will\s+address\s+later|technical\s+debt",
        r"because|for\s+now|temporary|acknowledged|deferring|cost|risk",
        0.3, 0.5, 1.9,
    ),
    "preference": Signals(
        r"always\s+use|prefer|convention|from\s+now\s+on|standard|never\s+use|established",
        r"agreed|going\s+forward|consistently|rule|practice|workflow",
        0.35, 0.5, 2.05,
    ),
}  # fmt: skip

SUMMARY: Final = "session_summary"
EXCERPTS: Final = "Relevant transcript excerpts:\n\n"  # what begins the context of a hit
CATEGORIES: Final = (*SIGNALS, SUMMARY)


class Settings(NamedTuple):
    """What a config may change; categories are in lower case, numbers are taken as they are."""

    max_messages: int
    thresholds: Mapping[str, float]
    parallel: Mapping[str, object]
    descriptions: Mapping[str, str]
    captured: tuple[str, ...]


class Hit(NamedTuple):
    """A category that a conversation calls for, and why."""

    category: str
    score: float
    snippets: tuple[str, ...]
    context: str  # what an agent can draft a memory from, without secrets as the snippets are
    start: int  # the bytes of the transcript that it came from
    end: int
    # What a person is shown: the sentence that speaks for it, and what was said around those that
    # do, with their code, which only the score leaves out.
    title: str = ""
    passage: str = ""
    description: str = ""  # from the config, as it stands there


class _Place(NamedTuple):
    line: int
    column: int


class _Tally(NamedTuple):
    score: float
    counted: list[_Place]  # the lines that made the score
    backing: list[_Place]  # and those that backed them up
    windows: list[tuple[int, int]]  # the lines around every word of the category


class _Block(NamedTuple):
    first: int  # the number of its first line
    folded: str


class _Kept(NamedTuple):
    """A text without some of its parts, and where each part that was kept came from."""

    text: str
    starts: list[int]
    origins: list[int]

    def origin(self, position: int) -> int:
        part = bisect_right(self.starts, position) - 1
        return self.origins[part] + position - self.starts[part]


class _Talk(NamedTuple):
    """The messages as lines of text without code, and the way back from a line to its message."""

    messages: Sequence[Message]
    texts: list[str]  # what is looked at of each
    begins: list[int]  # of each message, in their joined texts
    prose: _Kept
    unfenced: _Kept
    lines: list[str]
    blocks: list[_Block]
    line_starts: list[int]

    def message(self, place: _Place) -> Message:
        return self.messages[self.origin(place)[0]]

    def origin(self, place: _Place) -> tuple[int, int]:
        """The number of the message that a place came from, and where in its text it was."""
        position = self.line_starts[place.line] + place.column
        position = self.unfenced.origin(self.prose.origin(position))
        number = bisect_right(self.begins, position) - 1
        return number, position - self.begins[number]


def _never() -> bool:
    return False


def judged(
    messages: Sequence[Message],
    settings: Settings,
    last: str = "",
    is_late: Callable[[], bool] | None = None,
) -> list[Hit]:
    """Return the categories whose score reaches their threshold.

    `last` is what the host says the assistant said last: its transcript is written late. Once
    `is_late` says so, no more words are looked for, and what was found is judged.
    """
    window = _window(messages, settings.max_messages, last)
    if not window:
        return []
    talk = _talk(window)
    hits = []
    for category in CATEGORIES:
        if category not in settings.captured:
            continue
        least = settings.thresholds[category]
        hit = (
            _by_activity(window, least)
            if category == SUMMARY
            else _by_words(talk, category, least, is_late or _never)
        )
        if hit is not None:
            hits.append(hit._replace(description=settings.descriptions.get(category, "")))
    return hits


@cache
def _words(alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"\b({alternatives})\b", re.IGNORECASE)


@cache
def _needles(alternatives: str) -> tuple[str, ...]:
    """Return, of each alternative, the longest word: no text without it can match."""
    plain = alternatives.replace(r"\s*", " ").replace(r"\s+", " ").lower()
    longest = {max(phrase.split(), key=len) for phrase in plain.split("|")}
    return tuple(sorted(longest))


def _window(messages: Sequence[Message], most: int, last: str) -> list[Message]:
    window = list(messages)
    last = said(last)
    newest = next((message.text for message in reversed(window) if message.role == "assistant"), "")
    # The host gives the last text of an answer, of which there may be several.
    if last and not newest.strip().endswith(last):
        end = window[-1].end if window else 0
        window.append(Message("assistant", last, (), end, end))
    return window[-most:] if most > 0 else []


def _talk(messages: Sequence[Message]) -> _Talk:
    texts = [_ends(message.text) for message in messages]
    begins = list(accumulate((len(text) + 1 for text in texts[:-1]), initial=0))
    unfenced, prose = _prose("\n".join(texts))
    lines = prose.text.split("\n")
    line_starts = list(accumulate((len(line) + 1 for line in lines[:-1]), initial=0))
    return _Talk(messages, texts, begins, prose, unfenced, lines, list(_blocks(lines)), line_starts)


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    first = length = 0
    for number, line in enumerate(lines, 1):
        length += len(line) + 1
        if length >= _BLOCK or number == len(lines):
            yield _Block(first, _folded("\n".join(lines[first:number])))
            first, length = number, 0


def _ends(text: str) -> str:
    if len(text) <= 2 * _SCORED:
        return text
    return f"{text[:_SCORED]}\n{text[-_SCORED:]}"


def _prose(text: str) -> tuple[_Kept, _Kept]:
    """Take out fences, then inline code; a fence opened in one message may end in another."""
    unfenced = _kept(text, _fences(text))
    return unfenced, _kept(unfenced.text, _inline(unfenced.text))


def _fences(text: str) -> Iterator[tuple[int, int]]:
    start = text.find("```")
    while start >= 0:
        end = text.find("```", start + 3)
        if end < 0:
            return
        yield start, end + 3
        start = text.find("```", end + 3)


def _inline(text: str) -> Iterator[tuple[int, int]]:
    start = text.find("`")
    while start >= 0:
        end = text.find("`", start + 1)
        if end < 0:
            return
        if end == start + 1:  # two in a row hold nothing; the second may open
            start = end
            continue
        yield start, end + 1
        start = text.find("`", end + 1)


def _kept(text: str, spans: Iterable[tuple[int, int]]) -> _Kept:
    parts, starts, origins = [], [], []
    at = length = 0
    for start, end in (*spans, (len(text), len(text))):
        parts.append(text[at:start])
        starts.append(length)
        origins.append(at)
        length += start - at
        at = end
    return _Kept("".join(parts), starts, origins)


def _folded(text: str) -> str:
    """Return a text in which every word a pattern finds is found in plain lower case.

    Patterns that ignore case take a dotted or dotless i for an i and a long s for an s.
    """
    folded = text.lower()
    if folded.isascii():
        return folded
    return folded.replace("\u0307", "").replace("\u0131", "i").replace("\u017f", "s")


def _places(talk: _Talk, alternatives: str, is_late: Callable[[], bool]) -> Iterator[_Place]:
    """Yield the lines that match, each with the place of its first match."""
    needles = _needles(alternatives)
    for first, folded in talk.blocks:
        if is_late():
            return
        numbers = {number for needle in needles for number in _lines_with(folded, needle)}
        for number in sorted(numbers):
            match = _words(alternatives).search(talk.lines[first + number])
            if match:
                yield _Place(first + number, match.start())


def _lines_with(folded: str, needle: str) -> Iterator[int]:
    number = counted = 0
    at = folded.find(needle)
    while at >= 0:
        number += folded.count("\n", counted, at)
        yield number
        counted = folded.find("\n", at)
        at = -1 if counted < 0 else folded.find(needle, counted)


def _by_words(talk: _Talk, category: str, least: float, is_late: Callable[[], bool]) -> Hit | None:
    tally = _tally(talk, SIGNALS[category], is_late)
    if tally.score < least:
        return None
    messages = [talk.message(place) for place in tally.counted] or talk.messages
    title, passage = _quoted(talk, tally)
    return Hit(
        category=category,
        score=tally.score,
        snippets=_snippets(talk, tally.counted),
        context=_excerpts(talk, tally.windows),
        start=messages[0].start,
        end=messages[-1].end,
        title=title,
        passage=passage,
    )


def _tally(talk: _Talk, signals: Signals, is_late: Callable[[], bool]) -> _Tally:
    backing = _Backing(talk, signals.booster)
    around = _Around(talk)
    counted: list[_Place] = []
    backed: list[_Place] = []
    primary = boosted = 0
    for place in islice(_places(talk, signals.primary, is_late), _MOST_PLACES):
        around.add(place.line)
        near = backing.nearest(place.line) if boosted < signals.max_boosted else None
        if near:
            boosted += 1
            counted.append(place)
            backed.append(near)
        elif primary < signals.max_primary:
            primary += 1
            counted.append(place)
        elif around.is_full and (boosted == signals.max_boosted or not backing.is_there):
            break
    weight = primary * signals.primary_weight + boosted * signals.boosted_weight
    return _Tally(min(1.0, weight / signals.denominator), counted, backed, around.windows)


class _Backing:
    """The lines with words that back others up, looked at only where there are such others."""

    def __init__(self, talk: _Talk, alternatives: str) -> None:
        self._lines = talk.lines
        self._alternatives = alternatives
        self._known: dict[int, int] = {}
        needles = _needles(alternatives)
        self.is_there = any(needle in block.folded for block in talk.blocks for needle in needles)

    def nearest(self, line: int) -> _Place | None:
        if not self.is_there:
            return None
        last = min(len(self._lines), line + _NEAR + 1)
        near = sorted(range(max(0, line - _NEAR), last), key=lambda number: abs(number - line))
        return next(
            (_Place(number, self._column(number)) for number in near if self._column(number) >= 0),
            None,
        )

    def _column(self, number: int) -> int:
        if number not in self._known:
            self._known[number] = _column(self._lines[number], self._alternatives)
        return self._known[number]


class _Around:
    """The lines around places that come in their order; windows that touch are one."""

    def __init__(self, talk: _Talk) -> None:
        self.windows: list[tuple[int, int]] = []
        self._lines = talk.lines
        self._length = 0

    @property
    def is_full(self) -> bool:
        return self._length > _LOOKED_AT

    def add(self, number: int) -> None:
        start, end = max(0, number - _AROUND), min(len(self._lines), number + _AROUND + 1)
        begin = start
        if self.windows and start <= self.windows[-1][1]:
            start, begin = self.windows.pop()
        self.windows.append((start, end))
        self._length += sum(len(line) + 1 for line in self._lines[begin:end])


def _column(line: str, alternatives: str) -> int:
    """Where a line first has one of these words; -1 where it has none."""
    folded = _folded(line)
    if not any(needle in folded for needle in _needles(alternatives)):
        return -1
    match = _words(alternatives).search(line)
    return match.start() if match else -1


def _snippets(talk: _Talk, places: Iterable[_Place]) -> tuple[str, ...]:
    from retain.guard.characters import strip_invisible
    from retain.guard.secrets import redact

    # Secrets go before the line is cut, as half of one would not be known for what it is, and
    # after what nobody sees is gone, which could part one.
    seen = (strip_invisible(talk.lines[place.line]).strip() for place in places)
    lines = (redact(line).text for line in seen)
    return tuple(dict.fromkeys(line[:_SNIPPET] for line in lines))


def _excerpts(talk: _Talk, windows: Iterable[tuple[int, int]]) -> str:
    from retain.guard.secrets import redact

    excerpts = "\n---\n".join("\n".join(talk.lines[start:end]) for start, end in windows)
    return f"{EXCERPTS}{redact(excerpts[:_LOOKED_AT]).text}"


def _quoted(talk: _Talk, tally: _Tally) -> tuple[str, str]:
    """The sentence that first speaks for a category, and what was said around all that do."""
    from retain.capture.passages import Sentences
    from retain.guard.secrets import redact

    places: dict[int, list[int]] = {}
    for place in (*tally.counted, *tally.backing):
        number, position = talk.origin(place)
        places.setdefault(number, []).append(position)
    apart = {number: Sentences(talk.texts[number], _fences, _inline) for number in places}
    passages = [
        passage for number in sorted(places) for passage in apart[number].around(places[number])
    ]
    title = ""
    if tally.counted:
        number, position = talk.origin(tally.counted[0])
        title = " ".join(apart[number].at(position).split())
    said = "\n\n".join(passages)[:_LOOKED_AT]
    return redact(title).text, redact(said).text


def _by_activity(messages: Sequence[Message], least: float) -> Hit | None:
    tools = [tool for message in messages for tool in message.tools]
    distinct = len(set(tools))
    exchanges = sum(1 for message in messages if message.text)
    # In hundredths, as a sum of decimal fractions could miss a threshold that it reaches.
    score = min(1.0, (5 * len(tools) + 10 * distinct + 2 * exchanges) / 100)
    if score < least:
        return None
    snippet = f"{len(tools)} tool uses across {distinct} tools, {exchanges} exchanges"
    return Hit(
        category=SUMMARY,
        score=score,
        snippets=(snippet,) if score > 0 else (),
        context=(
            f"Activity Metrics:\n  Tool uses: {len(tools)}\n"
            f"  Distinct tools: {distinct}\n  Exchanges: {exchanges}"
        ),
        start=messages[0].start,
        end=messages[-1].end,
    )
