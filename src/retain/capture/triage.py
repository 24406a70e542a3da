r"""Score which kinds of memories a conversation calls for, by its words alone.

Words, weights, windows and thresholds are those of claude-memory, so that a store and a config
made for it behave as before. They are kept as they are, also where they look odd: three lines that
speak of a limit give a constraint 0.4737, which is less than the 0.5 it takes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

from retain.capture.transcript import Message, strip_injected
from retain.text.sanitize import strip_invisible

_NEAR: Final = 4  # lines between a word and what backs it up
_AROUND: Final = 10  # lines of context on each side
# Twice of what is written, so that a secret at the edge is still seen whole.
_MAX_CONTEXT: Final = 100_000
_MAX_SNIPPET: Final = 120
_MAX_PRIMARY: Final = 3  # lines of a category that count by themselves
_MAX_BOOSTED: Final = 2  # and those that something near backs up
# People paste logs of megabytes. What they say about them stands before or after, and a window of
# fifty such messages must not take longer than the host waits.
_MAX_SCORED: Final = 20_000
_BLOCK: Final = 16_000  # characters that are looked through between two looks at the clock
# Five lines make a score and a few hundred fill a context: the rest only costs time.
_MAX_PLACES: Final = 5_000
# A line's end, or a sentence's; the number of an item in a list ends none.
_SENTENCE_END: Final = re.compile(r"\n+|(?<=[.!?])(?<!\d\.)[ \t]+|(?<=[\u3002\uff01\uff1f])")


class Signals(NamedTuple):
    """The words that speak for a category, those that back them up, and what both weigh."""

    primary: str
    booster: str
    primary_weight: float
    boosted_weight: float
    denominator: float


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
EXCERPTS: Final = "Relevant transcript excerpts:\n\n"  # what begins the context of a finding
CATEGORIES: Final = (*SIGNALS, SUMMARY)


class Finding(NamedTuple):
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


class Verdict(NamedTuple):
    """The categories that reach their threshold, and the score of each that was judged."""

    findings: list[Finding]
    scores: dict[str, float]


def judge(
    messages: Sequence[Message],
    thresholds: Mapping[str, float],
    last: str = "",
    is_late: Callable[[], bool] = lambda: False,
) -> Verdict:
    """Score each category that has a threshold.

    `last` is what the host says the assistant said last: its transcript is written late. Once
    `is_late` says so, no more words are looked for, and what was found is judged.
    """
    last = strip_injected(last)
    answers = (message.text for message in reversed(messages) if message.role == "assistant")
    # The host gives the last text of an answer, of which there may be several.
    if last and not next(answers, "").strip().endswith(last):
        end = messages[-1].end if messages else 0
        messages = [*messages, Message("assistant", last, (), end, end)]
    verdict = Verdict([], {})
    if not messages:
        return verdict
    conversation = _Conversation(messages)
    for category in filter(thresholds.__contains__, CATEGORIES):
        least = thresholds[category]
        if category == SUMMARY:
            score, finding = _judge_activity(messages, least)
        else:
            score, finding = _judge_words(conversation, category, least, is_late)
        verdict.scores[category] = score
        if finding is not None:
            verdict.findings.append(finding)
    return verdict


def _judge_activity(messages: Sequence[Message], least: float) -> tuple[float, Finding | None]:
    tools = [tool for message in messages for tool in message.tools]
    distinct = len(set(tools))
    exchanges = sum(1 for message in messages if message.text)
    # In hundredths, as a sum of decimal fractions could miss a threshold that it reaches.
    score = min(1.0, (5 * len(tools) + 10 * distinct + 2 * exchanges) / 100)
    if score < least:
        return score, None
    snippet = f"{len(tools)} tool uses across {distinct} tools, {exchanges} exchanges"
    context = (
        f"Activity Metrics:\n  Tool uses: {len(tools)}\n"
        f"  Distinct tools: {distinct}\n  Exchanges: {exchanges}"
    )
    snippets = (snippet,) if score > 0 else ()
    return score, Finding(SUMMARY, score, snippets, context, messages[0].start, messages[-1].end)


def _judge_words(
    conversation: _Conversation, category: str, least: float, is_late: Callable[[], bool]
) -> tuple[float, Finding | None]:
    signals = SIGNALS[category]
    boosters = _Words(conversation, signals.booster)
    places = list(islice(_Words(conversation, signals.primary).places(is_late), _MAX_PLACES))
    counted: list[_Place] = []  # the lines that make the score
    backing: list[_Place] = []  # and those that back them up
    primary = 0
    for place in places:
        near = boosters.nearest(place.line) if len(backing) < _MAX_BOOSTED else None
        if near:
            backing.append(near)
            counted.append(place)
        elif primary < _MAX_PRIMARY:
            primary += 1
            counted.append(place)
    weight = primary * signals.primary_weight + len(backing) * signals.boosted_weight
    score = min(1.0, weight / signals.denominator)
    if score < least:
        return score, None
    messages = [conversation.messages[conversation.origin(place)[0]] for place in counted]
    messages = messages or list(conversation.messages)
    title, passage = conversation.quote(counted, backing)
    return score, Finding(
        category=category,
        score=score,
        snippets=conversation.snippets(counted),
        context=conversation.excerpts(places),
        start=messages[0].start,
        end=messages[-1].end,
        title=title,
        passage=passage,
    )


class _Place(NamedTuple):
    line: int
    column: int


class _Conversation:
    """The messages as lines of text without code, and the way back from a line to its message."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self._texts = [_cut_middle(message.text) for message in messages]
        self._starts = _starts(self._texts)  # of each message, in their joined texts
        # A fence opened in one message may end in another.
        joined = "\n".join(self._texts)
        self._unfenced = _Rest(joined, _fences(joined))
        self._prose = _Rest(self._unfenced.text, _inline_code(self._unfenced.text))
        self.folded = _fold(self._prose.text)
        self.lines, self.folded_lines = self._prose.text.split("\n"), self.folded.split("\n")
        self._line_starts = _starts(self.lines)

    def origin(self, place: _Place) -> tuple[int, int]:
        """The number of the message that a place came from, and where in its text it was."""
        position = self._line_starts[place.line] + place.column
        position = self._unfenced.origin(self._prose.origin(position))
        number = bisect_right(self._starts, position) - 1
        return number, position - self._starts[number]

    def snippets(self, places: Iterable[_Place]) -> tuple[str, ...]:
        # Secrets go before the line is cut, as half of one would not be known for what it is.
        lines = (_redact(self.lines[place.line]).strip() for place in places)
        return tuple(dict.fromkeys(line[:_MAX_SNIPPET] for line in lines))

    def excerpts(self, places: Iterable[_Place]) -> str:
        """The lines around some places; windows that touch are one."""
        windows: list[tuple[int, int]] = []
        for place in places:
            start, end = max(0, place.line - _AROUND), place.line + _AROUND + 1
            if windows and start <= windows[-1][1]:
                start, _ = windows.pop()
            windows.append((start, end))
        excerpts = "\n---\n".join("\n".join(self.lines[start:end]) for start, end in windows)
        return f"{EXCERPTS}{_redact(excerpts[:_MAX_CONTEXT])}"

    def quote(self, counted: Sequence[_Place], backing: Sequence[_Place]) -> tuple[str, str]:
        """The sentence that first speaks for a category, and what was said around all that do."""
        positions: dict[int, list[int]] = {}  # by the number of their message
        for place in (*counted, *backing):
            number, position = self.origin(place)
            positions.setdefault(number, []).append(position)
        title, passages = "", []
        first = self.origin(counted[0]) if counted else None
        for number in sorted(positions):
            text = self._texts[number]
            spans = [(start, end) for start, end in _sentences(text) if text[start:end].strip()]
            starts = [start for start, _ in spans]
            chosen: list[tuple[int, int]] = []
            for position in sorted(positions[number]):
                at = max(0, bisect_right(starts, position) - 1)
                if (number, position) == first:
                    title = " ".join(text[slice(*spans[at])].split())
                # With the sentences beside it; what touches is one passage.
                low, high = max(0, at - 1), min(len(spans) - 1, at + 1)
                if chosen and low <= chosen[-1][1] + 1:
                    low, _ = chosen.pop()
                chosen.append((low, high))
            passages += [text[spans[low][0] : spans[high][1]].strip("\n") for low, high in chosen]
        return _redact(title), _redact("\n\n".join(passages)[:_MAX_CONTEXT])


class _Words:
    """The lines of a conversation that have one of some words.

    A pattern is tried only on lines that have the longest word of one of its phrases: searching
    for plain words is many times faster.
    """

    def __init__(self, conversation: _Conversation, alternatives: str) -> None:
        self._conversation = conversation
        self._pattern = re.compile(rf"\b({alternatives})\b", re.IGNORECASE)
        phrases = alternatives.replace(r"\s*", " ").replace(r"\s+", " ").lower().split("|")
        longest = {max(phrase.split(), key=len) for phrase in phrases}
        self._needles = [word for word in longest if word in conversation.folded]
        self._found: dict[int, _Place | None] = {}

    def places(self, is_late: Callable[[], bool]) -> Iterator[_Place]:
        """The lines that match, each with the place of its first match."""
        unchecked = _BLOCK
        for number, line in enumerate(self._conversation.lines if self._needles else ()):
            if unchecked >= _BLOCK:
                if is_late():
                    return
                unchecked = 0
            unchecked += len(line) + 1
            if place := self._find(number):
                yield place

    def nearest(self, line: int) -> _Place | None:
        """The match that is nearest to a line, within a few lines of it."""
        last = min(len(self._conversation.lines), line + _NEAR + 1)
        numbers = range(max(0, line - _NEAR), last) if self._needles else ()
        by_distance = sorted(numbers, key=lambda number: abs(number - line))
        return next(filter(None, map(self._find, by_distance)), None)

    def _find(self, number: int) -> _Place | None:
        """Where a line first has one of these words."""
        if number not in self._found:
            match, folded = None, self._conversation.folded_lines[number]
            if any(needle in folded for needle in self._needles):
                match = self._pattern.search(self._conversation.lines[number])
            self._found[number] = _Place(number, match.start()) if match else None
        return self._found[number]


class _Rest:
    """A text without some of its parts, and where each part that is left came from."""

    def __init__(self, text: str, spans: Iterable[tuple[int, int]]) -> None:
        parts = []
        self._starts: list[int] = []
        self._origins: list[int] = []
        at = length = 0
        for start, end in (*spans, (len(text), len(text))):
            parts.append(text[at:start])
            self._starts.append(length)
            self._origins.append(at)
            length += start - at
            at = end
        self.text = "".join(parts)

    def origin(self, position: int) -> int:
        part = bisect_right(self._starts, position) - 1
        return self._origins[part] + position - self._starts[part]


def _fences(text: str) -> Iterator[tuple[int, int]]:
    start = text.find("```")
    while start >= 0:
        end = text.find("```", start + 3)
        if end < 0:
            return
        yield start, end + 3
        start = text.find("```", end + 3)


def _inline_code(text: str) -> Iterator[tuple[int, int]]:
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


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences and lines of a message stand; a block of code is one of them."""
    first = 0
    for fence_start, fence_end in (*_fences(text), (len(text), len(text))):
        code = [(first + a, first + b) for a, b in _inline_code(text[first:fence_start])]
        starts = [start for start, _ in code]
        at = first
        for end in _SENTENCE_END.finditer(text, first, fence_start):
            before = bisect_right(starts, end.start()) - 1
            is_code = before >= 0 and end.start() < code[before][1]
            # Two odd marks can be lines apart; code within a sentence is on one line.
            if is_code and not end[0].startswith("\n"):
                continue
            yield at, end.start()
            at = end.end()
        yield at, fence_start
        yield fence_start, fence_end
        first = fence_end


def _cut_middle(text: str) -> str:
    if len(text) <= 2 * _MAX_SCORED:
        return text
    return f"{text[:_MAX_SCORED]}\n{text[-_MAX_SCORED:]}"


def _starts(texts: Sequence[str]) -> list[int]:
    """Where each text begins when they are joined by a character."""
    return list(accumulate((len(text) + 1 for text in texts[:-1]), initial=0))


def _fold(text: str) -> str:
    """A text in which every word a pattern finds is found in plain lower case.

    Patterns that ignore case take a dotted or dotless i for an i and a long s for an s.
    """
    folded = text.lower()
    if folded.isascii():
        return folded
    return folded.replace("\u0307", "").replace("\u0131", "i").replace("\u017f", "s")


def _redact(text: str) -> str:
    from retain.text.secrets import redact  # its patterns cost 10 ms, and most stops find nothing

    return redact(strip_invisible(text)).text  # what nobody sees could part a secret
