r"""Score which kinds of memories a conversation calls for, by its words alone.

Words, weights, windows and thresholds are those of claude-memory, so that a store and a config
made for it behave as before. They are kept as they are, also where they look odd: three lines that
speak of a limit give a constraint 0.4737, which is less than the 0.5 it takes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
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
# Five lines make a score and a few hundred fill a context: the rest only costs time.
_MAX_PLACES: Final = 5_000
_FENCE: Final = re.compile(r"```.*?```", re.DOTALL)
_INLINE_CODE: Final = re.compile(r"`[^`]+`")
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
    primary, booster = (
        re.compile(rf"\b({words})\b", re.IGNORECASE) for words in (signals.primary, signals.booster)
    )
    places: list[_Place] = []  # where each line first has a word of this category
    for number in range(len(conversation.lines)):
        if is_late() or len(places) == _MAX_PLACES:
            break
        if place := conversation.find(primary, number):
            places.append(place)
    counted: list[_Place] = []  # the lines that make the score
    backing: list[_Place] = []  # and those that back them up
    plain = 0
    for place in places:
        near = conversation.find_near(booster, place.line) if len(backing) < _MAX_BOOSTED else None
        if near:
            backing.append(near)
        elif plain < _MAX_PRIMARY:
            plain += 1
        else:
            continue
        counted.append(place)
    weight = plain * signals.primary_weight + len(backing) * signals.boosted_weight
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
        self._texts = [
            text if len(text) <= 2 * _MAX_SCORED else f"{text[:_MAX_SCORED]}\n{text[-_MAX_SCORED:]}"
            for text in (message.text for message in messages)
        ]
        self._starts = _starts(self._texts)  # of each message, in their joined texts
        # A fence opened in one message may end in another.
        self._unfenced = _Rest("\n".join(self._texts), _FENCE)
        self._prose = _Rest(self._unfenced.text, _INLINE_CODE)
        self.lines = self._prose.text.split("\n")
        self._line_starts = _starts(self.lines)

    def find(self, pattern: re.Pattern[str], number: int) -> _Place | None:
        """The first match of a pattern in a line."""
        match = pattern.search(self.lines[number])
        return _Place(number, match.start()) if match else None

    def find_near(self, pattern: re.Pattern[str], line: int) -> _Place | None:
        """The match that is nearest to a line, within a few lines of it."""
        numbers = range(max(0, line - _NEAR), min(len(self.lines), line + _NEAR + 1))
        by_distance = sorted(numbers, key=lambda number: abs(number - line))
        return next(filter(None, (self.find(pattern, number) for number in by_distance)), None)

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


class _Rest:
    """A text without what matches a pattern, and where each part that is left came from."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        parts = []
        self._starts: list[int] = []
        self._origins: list[int] = []
        at = length = 0
        spans = (match.span() for match in pattern.finditer(text))
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


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences and lines of a message stand; a block of code is one of them."""
    first = 0
    fences = (match.span() for match in _FENCE.finditer(text))
    for fence_start, fence_end in (*fences, (len(text), len(text))):
        code = [match.span() for match in _INLINE_CODE.finditer(text, first, fence_start)]
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


def _starts(texts: Sequence[str]) -> list[int]:
    """Where each text begins when they are joined by a character."""
    return list(accumulate((len(text) + 1 for text in texts[:-1]), initial=0))


def _redact(text: str) -> str:
    from retain.text.secrets import redact  # its patterns cost 10 ms, and most stops find nothing

    return redact(strip_invisible(text)).text  # what nobody sees could part a secret
