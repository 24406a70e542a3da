r"""Score which kinds of memories a conversation calls for, by its words alone.

Words, weights, windows and thresholds are those of claude-memory, so that a store and a config
made for it behave as before. They are kept as they are, also where they look odd: three lines that
speak of a limit give a constraint 0.4737, which is less than the 0.5 it takes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from retain.capture.transcript import Message, strip_injected
from retain.text.sanitize import shorten, strip_invisible

_NEAR: Final = 4  # lines between a word and what backs it up
_AROUND: Final = 10  # lines of context on each side
# Twice of what is written, so that a secret at the edge is still seen whole.
_MAX_CONTEXT: Final = 100_000
_MAX_SNIPPET: Final = 120
_MAX_TITLE: Final = 100
_MAX_QUOTE: Final = 4_000  # characters of a request and of an answer in a session's summary
_MAX_PRIMARY: Final = 3  # lines of a category that count by themselves
_MAX_BOOSTED: Final = 2  # and those that something near backs up
# People paste logs of megabytes. What they say about them stands before or after, and a window of
# fifty such messages must not take longer than the host waits.
_MAX_SCORED: Final = 20_000
# Five lines make a score and a few hundred fill a context: the rest only costs time.
_MAX_PLACES: Final = 5_000
_FENCE: Final = re.compile(r"```.*?```", re.DOTALL)
_INLINE_CODE: Final = re.compile(r"`[^`]+`")
_FILLER: Final = "\0"  # stands for each character of code: a place in the prose is one in the text
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
    """A category that a conversation calls for, and why; without secrets."""

    category: str
    score: float
    snippets: tuple[str, ...]
    context: str  # what an agent can draft a memory from
    start: int  # the bytes of the transcript that it came from
    end: int
    # What a proposal says: the sentence that first speaks for the category, and the sentences
    # around all that do, with their code, which only the score leaves out.
    title: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The fields of a proposal that a finding knows."""
        names = ("category", "score", "title", "text", "start", "end")
        return {name: getattr(self, name) for name in names}


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
            score, finding = conversation.judge(category, least, is_late)
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
    asked = (message.text for message in messages if message.role == "user")
    said = (message.text for message in reversed(messages) if message.role == "assistant")
    request, last = (
        _redact(next(filter(None, texts), "")[:_MAX_CONTEXT]) for texts in (asked, said)
    )
    text = f"Asked for: {request[:_MAX_QUOTE]}\n\nLast answer: {last[:_MAX_QUOTE]}\n\n{context}"
    return score, Finding(
        category=SUMMARY,
        score=score,
        snippets=(snippet,) if score > 0 else (),
        context=context,
        start=messages[0].start,
        end=messages[-1].end,
        title=make_title(request),
        text=text,
    )


def make_title(request: str) -> str:
    """What a session is called: the first line of what was asked for, without secrets."""
    lines = filter(None, map(str.strip, _redact(request[:_MAX_CONTEXT]).splitlines()))
    return shorten(next(lines, "A session"), _MAX_TITLE)


class _Conversation:
    """The messages as one text, and as lines of prose with a filler in place of code."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages
        texts = [
            text if len(text) <= 2 * _MAX_SCORED else f"{text[:_MAX_SCORED]}\n{text[-_MAX_SCORED:]}"
            for text in (message.text for message in messages)
        ]
        self._starts = _starts(texts)
        self._text = self._prose = "\n".join(texts)
        for code in (_FENCE, _INLINE_CODE):  # a fence opened in one message may end in another
            self._prose = code.sub(lambda match: _FILLER * len(match[0]), self._prose)
        self._lines = self._prose.split("\n")
        self._line_starts = _starts(self._lines)

    def judge(
        self, category: str, least: float, is_late: Callable[[], bool]
    ) -> tuple[float, Finding | None]:
        """Score a category by the lines that have its words; a finding if that is enough."""
        signals = SIGNALS[category]
        primary, booster = (
            re.compile(rf"\b({words})\b", re.IGNORECASE)
            for words in (signals.primary, signals.booster)
        )
        places: list[int] = []  # where each line first has a word of this category
        counted: list[int] = []  # those that make the score
        backing: list[int] = []  # and what backs them up
        plain = 0
        for number in range(len(self._lines)):
            if is_late() or len(places) == _MAX_PLACES:
                break
            place = self._find(primary, number)
            if place is None:
                continue
            places.append(place)
            near = self._find_near(booster, number) if len(backing) < _MAX_BOOSTED else None
            if near is not None:
                backing.append(near)
                counted.append(place)
            elif plain < _MAX_PRIMARY:
                plain += 1
                counted.append(place)
        weight = plain * signals.primary_weight + len(backing) * signals.boosted_weight
        score = min(1.0, weight / signals.denominator)
        if score < least:
            return score, None
        numbers = [self._message_at(place) for place in counted] or [0, -1]
        # Secrets go before a line is cut, as half of one would not be known for what it is.
        lines = (_redact(self._lines[self._line_at(place)]).strip() for place in counted)
        title, text = self._quote(counted, backing)
        return score, Finding(
            category=category,
            score=score,
            snippets=tuple(dict.fromkeys(line[:_MAX_SNIPPET] for line in lines)),
            context=self._excerpts(places),
            start=self._messages[numbers[0]].start,
            end=self._messages[numbers[-1]].end,
            title=title,
            text=text,
        )

    def _find(self, pattern: re.Pattern[str], number: int) -> int | None:
        """Where a line first matches a pattern, by its place in the whole text."""
        match = pattern.search(self._lines[number])
        return self._line_starts[number] + match.start() if match else None

    def _find_near(self, pattern: re.Pattern[str], line: int) -> int | None:
        """The match that is nearest to a line, within a few lines of it."""
        numbers = range(max(0, line - _NEAR), min(len(self._lines), line + _NEAR + 1))
        by_distance = sorted(numbers, key=lambda number: abs(number - line))
        places = (self._find(pattern, number) for number in by_distance)
        return next((place for place in places if place is not None), None)

    def _line_at(self, place: int) -> int:
        return bisect_right(self._line_starts, place) - 1

    def _message_at(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def _excerpts(self, places: Iterable[int]) -> str:
        """The lines around some places; windows that touch are one."""
        windows: list[tuple[int, int]] = []
        for line in map(self._line_at, places):
            start, end = max(0, line - _AROUND), line + _AROUND + 1
            if windows and start <= windows[-1][1]:
                start, _ = windows.pop()
            windows.append((start, end))
        excerpts = "\n---\n".join("\n".join(self._lines[start:end]) for start, end in windows)
        return f"{EXCERPTS}{_redact(excerpts.replace(_FILLER, '')[:_MAX_CONTEXT])}"

    @cached_property
    def _sentences(self) -> list[tuple[int, int]]:
        """Where the sentences stand, none of them in two messages; a block of code is one."""
        sentences = []
        for at, following in pairwise([*self._starts, len(self._text) + 1]):
            start, last = at, following - 1
            ends = [end.span() for end in _SENTENCE_END.finditer(self._prose, start, last)]
            for end, after in (*ends, (last, last)):
                if self._text[start:end].strip():
                    sentences.append((start, end))
                start = after
        return sentences

    def _quote(self, counted: Sequence[int], backing: Sequence[int]) -> tuple[str, str]:
        """The sentence that first speaks for a category, and those around all that do."""
        title, passages = "", list[tuple[int, int]]()
        starts = [start for start, _ in self._sentences]
        chosen: set[int] = set()
        for place in (*counted, *backing):
            at = bisect_right(starts, place) - 1
            start, end = self._sentences[at]
            title = title or " ".join(self._text[start:end].split())
            message = self._message_at(start)
            beside = range(max(0, at - 1), min(len(starts), at + 2))
            chosen.update(near for near in beside if self._message_at(starts[near]) == message)
        for at in sorted(chosen):
            start, end = self._sentences[at]
            if at - 1 in chosen and self._message_at(starts[at - 1]) == self._message_at(start):
                start, _ = passages.pop()  # what touches is one passage
            passages.append((start, end))
        text = "\n\n".join(self._text[start:end].strip("\n") for start, end in passages)
        return _redact(title), _redact(text[:_MAX_CONTEXT])


def _starts(texts: Sequence[str]) -> list[int]:
    """Where each text begins when they are joined by a character."""
    return list(accumulate((len(text) + 1 for text in texts[:-1]), initial=0))


def _redact(text: str) -> str:
    """A text without secrets, nor what nobody sees, which could part one."""
    from retain.text.secrets import redact  # its patterns cost 10 ms, and most stops find nothing

    return redact(strip_invisible(text)).text
