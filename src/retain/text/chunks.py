"""Cut a memory's text into the pieces that are searched: sections, paragraphs, spoken turns.

Lines end at `\\n` alone, as in every Markdown reader; a form feed or U+2028 is only a character.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Final, NamedTuple

_MOST: Final = 1200  # characters of a chunk
_LEAST: Final = 200  # characters that are worth a chunk of their own
_TITLE: Final = 120  # characters of a heading that its path takes over


class Chunk(NamedTuple):
    """An excerpt of a body: whole lines, or a part of a line that is longer than a chunk."""

    text: str
    header_path: str
    line: int
    who: str = ""
    spoken: str = ""
    is_heading: bool = False  # and nothing more: what it is about comes with the next chunk


class _Text(NamedTuple):
    body: str
    lines: Sequence[str]
    starts: Sequence[int]
    coded: Sequence[int]  # per line, the number of its code fence; 0 is outside of one


class _Section(NamedTuple):
    path: tuple[str, ...]
    first: int
    inner: int  # the first line below the heading
    last: int


class _Turn(NamedTuple):
    first: int
    last: int
    who: str
    said: int  # where in the body the speaker's words start
    is_explicit: bool
    is_bare: bool  # the name stands on a line of its own
    is_item: bool  # of a list


class _Part(NamedTuple):
    path: tuple[str, ...]
    first: int
    last: int
    start: int
    end: int
    who: str = ""
    said: int = 0
    is_fixed: bool = False  # not to be merged: it stands in a section with spoken turns
    is_heading: bool = False  # without a text of its own


class _Block(NamedTuple):
    start: int
    end: int
    kind: str


def split_chunks(body: str) -> list[Chunk]:
    """Cut a body at its headings, turns and paragraphs; every line that is not blank is kept."""
    lines = body.split("\n")
    starts = list(accumulate([len(line) + 1 for line in lines], initial=0))
    coded = [0] * len(lines)
    if "```" in body or "~~~" in body:
        for number, (first, last) in enumerate(find_fences(lines), 1):
            coded[first:last] = [number] * (last - first)
    text = _Text(body, lines, starts, coded)
    parts = [part for section in _find_sections(text) for part in _find_parts(text, section)]
    return [chunk for part in _fill_headings(_merge_short(parts)) for chunk in _cut(text, part)]


# Code fences

FENCE: Final = re.compile(r"[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(.*)")


def find_fences(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Find the code fences as ranges of lines; one that is never closed reaches to the end."""
    mark, opened, number = "", 0, -1
    for number, line in enumerate(lines):
        if "```" not in line and "~~~" not in line:
            continue
        if mark:
            text = line.strip().lstrip("> \t")
            if text.startswith(mark) and not text.strip(mark[0]):
                yield opened, number + 1
                mark = ""
        else:
            match = FENCE.match(line)
            if match and not (match[1][0] == "`" and "`" in match[2]):  # code within a line
                mark, opened = match[1], number
    if mark:
        yield opened, number + 1


# Headings

_ATX: Final = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
# A lone mark is more often a list item that is still empty.
_UNDERLINE: Final = re.compile(r" {0,3}(?:={2,}|-{2,})\s*$")
_NO_TITLE: Final = re.compile(r"\s*(?:[>|<]|(?:[-*+]|\d{1,9}[.)])\s)| {4}|\t")


def _find_sections(text: _Text) -> Iterator[_Section]:
    path: tuple[str, ...] = ()
    first = inner = 0
    above: list[tuple[int, str]] = []  # the levels and titles of the headings in force
    for number, line in enumerate(text.lines):
        mark = line.lstrip(" ")[:1]
        if not mark or mark not in "#=-" or text.coded[number]:
            continue
        start = number
        if match := _ATX.match(line):
            level, title = len(match[1]), " ".join(line[match.end() :].split())
            closed = title.rstrip("#")
            title = (closed if closed[-1:] in ("", " ") else title)[:_TITLE].rstrip()
        elif _UNDERLINE.match(line) and _is_underlined(text, number - 1, inner):
            start = number - 1
            level, title = 1 if mark == "=" else 2, " ".join(text.lines[start].split())
        else:
            continue
        yield _Section(path, first, inner, start)
        while above and above[-1][0] >= level:
            above.pop()
        above.append((level, title))
        path = tuple(title for _, title in above if title)
        first, inner = start, number + 1
    yield _Section(path, first, inner, len(text.lines))


def _is_underlined(text: _Text, number: int, inner: int) -> bool:
    """Whether a line is one that an underline makes a heading: a short paragraph of its own."""
    if number < inner or text.coded[number]:
        return False
    line = text.lines[number].rstrip()
    if not line or len(line) > _TITLE or _NO_TITLE.match(line):
        return False
    return number == inner or not text.lines[number - 1].strip() or text.coded[number - 1] > 0


# Parts of a section


def _find_parts(text: _Text, section: _Section) -> Iterator[_Part]:
    turns = _find_turns(text, section)
    spans = []
    at = section.first
    for turn in turns:
        spans += [(at, turn.first, "", 0), (turn.first, turn.last, turn.who, turn.said)]
        at = turn.last
    for start, stop, who, said in (*spans, (at, section.last, "", 0)):
        first, last = start, stop
        while first < last and not text.lines[first].strip():
            first += 1
        while first < last and not text.lines[last - 1].strip():
            last -= 1
        if first < last:
            end = text.starts[last - 1] + len(text.lines[last - 1].rstrip())
            places = first, last, text.starts[first], end
            yield _Part(section.path, *places, who, said, bool(turns), last <= section.inner)


def _merge_short(parts: list[_Part]) -> list[_Part]:
    """Join short sections to their neighbours, the deepest first, so that none leaves its own."""
    for depth in range(max([len(part.path) for part in parts], default=0) - 1, -1, -1):
        merged = parts[:1]
        for part in parts[1:]:
            above = merged[-1]
            if (
                min(above.end - above.start, part.end - part.start) < _LEAST
                and part.end - above.start <= _MOST
                and max(len(above.path), len(part.path)) <= depth + 1
                and above.path[:depth] == part.path[:depth]
                and not above.is_fixed
                and not part.is_fixed
            ):
                shared = above.path if above.path == part.path else above.path[:depth]
                merged[-1] = part._replace(
                    # Any heading says more than none.
                    path=shared or above.path or part.path,
                    first=above.first,
                    start=above.start,
                    is_heading=above.is_heading and part.is_heading,
                )
            else:
                merged.append(part)
        parts = merged
    return parts


def _fill_headings(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Give a heading without a text of its own to the text below it, unless that is spoken."""
    heading: _Part | None = None
    for part in parts:
        own = part
        if heading and part.who:
            yield heading
        elif heading:
            own = part._replace(first=heading.first, start=heading.start)
        heading = own if own.is_heading else None
        if not heading:
            yield own
    if heading:  # the last of all, with nothing below it
        yield heading._replace(is_heading=False)


# Spoken turns

_STAMP: Final = (
    r"(?:[\[(]\d[^\])\n]{0,39}[\])]"
    r"|(?:\d{4}-\d\d-\d\d|\d{1,2}[/.]\d{1,2}[/.]\d{2,4})(?:,?[T \t]{1,3}\d{1,2}:\d\d(?::\d\d)?)?"
    r"|\d{1,2}:\d\d(?::\d\d)?)"
    r"Z?(?:[ \t]?[AaPp][Mm])?[ \t]{1,8}(?:[-\u2013][ \t]{1,8})?"
)
_NAME: Final = r"[^\W\d_][\w.'\u2019 -]{0,39}"
_SPEAKER: Final = re.compile(
    rf"[ \t]{{0,8}}(?P<item>[-*+][ \t]{{1,8}})?(?:{_STAMP})?"
    rf"(?:\*\*(?P<bold>{_NAME})(?::\*\*|\*\*:|\uff1a\*\*|\*\*\uff1a)"
    rf"|(?P<plain>{_NAME})(?::(?=\s|$)|\uff1a))"
)
_ROLES: Final = frozenset("user assistant system human ai agent tool".split())
# Words that people write before a colon without anybody speaking.
_LABELS: Final = frozenset(
    """
    a action actions address advantage advantages after agenda aim alternative alternatives answer
    api approach architecture assumption assumptions attendees audience author backend background
    before benefit benefits blocker blockers branch budget bug bugs build cause caveat caveats
    challenges change changed changes city command comment components conclusion conclusions config
    configuration cons consequence consequences constraint constraints contact content contents
    context cost created criteria critical current data database date day deadline debug december
    decision decisions default definition dependencies deploy description design details
    disadvantages done downside due edge effort email environment error evidence example examples
    expected fact fatal feature features february feedback file files findings first fix fixed
    fixes focus follow-up for format friday from frontend goal goals gotcha gotchas guideline
    guidelines high highlights hint home host how https hypothesis id idea ideas impact
    implementation important info input insight insights install interface issue issues item items
    january job july key keyword keywords kind language last learned lesson lessons level license
    limit limitation limitations link links list location log low main maintainer march medium
    meeting message method metric metrics migration milestone minor mitigation mitigations mode
    model monday motivation name never new next no non-goals note notes november objective
    objectives observation observations october old on open opportunities option options outcome
    outcomes output overview owner package parameters participants password path pattern
    performance phone plan plans platform points policy port preference prerequisites principle
    principles priority pro problem problems process production progress project prompt proposal
    pros purpose q question questions rationale reason reasons recommendation recommendations
    reference references region related release remember reminder repo repository requirement
    requirements resolution responsibilities result results return returns review risk risks role
    root rule rules run saturday scenario schedule scope script section security see september
    server service session setting settings setup severity size solution source sources stack
    staging stakeholders start state status step steps storage strategy strengths style subject
    suggestion summary sunday symptom symptoms table tag tags takeaway takeaways target task tasks
    team tech test tests thursday time timeline tip title tldr to today todo token tomorrow tools
    topic topics trade-off trade-offs tradeoff tradeoffs trigger tuesday type understanding update
    updated url usage use username value verdict version warn warning weaknesses wednesday week
    what when where which who why work workaround workflow yes yesterday
    """.split()
)
_TALK: Final = re.compile(
    r"\b(?:i|you|we|me|my|your|us|our|yes|yeah|no|ok|okay|sure|hi|hello|hey|thanks|please)\b"
    r"|[!?\u2026]",
    re.IGNORECASE,
)


def _find_turns(text: _Text, section: _Section) -> list[_Turn]:
    found = []
    for number in range(section.inner, section.last):
        line = text.lines[number]
        if (":" in line or "\uff1a" in line) and not text.coded[number]:
            match = _SPEAKER.match(line)
            if match and (turn := _read_turn(match, number, text.starts[number])):
                found.append(turn)
    turns = _extend(text, found, section.last)
    if turns and not _is_talk(text, section, turns):
        # A line that is no turn after all belongs to the one above it.
        turns = _extend(text, [turn for turn in found if turn.is_explicit], section.last)
    return turns


def _read_turn(match: re.Match[str], number: int, start: int) -> _Turn | None:
    """Read a line that starts with what could be a name and a colon."""
    who = (match["bold"] or match["plain"]).strip()
    words = who.split()
    is_role = who.lower() in _ROLES
    is_bold, is_item = match["bold"] is not None, match["item"] is not None
    is_bare = not match.string[match.end() :].strip()
    starts_well = not who[0].islower() or words[0].lower() in _ROLES
    if not starts_well or len(words) > 4 or who.lower().rstrip(".") in _LABELS:
        return None
    if is_bare and not is_bold and not is_role:
        return None
    is_explicit = is_bold and (is_role or (_is_proper(who) and not is_bare and not is_item))
    return _Turn(number, number + 1, who, start + match.end(), is_explicit, is_bare, is_item)


def _is_proper(who: str) -> bool:
    """Whether a name is one at first sight: every word has a capital, and none is a label."""
    return all(not word[0].islower() and word.lower() not in _LABELS for word in who.split())


def _extend(text: _Text, turns: Sequence[_Turn], end: int) -> list[_Turn]:
    """Give turns their following lines: up to a blank one, unless the name stands alone."""
    extended = []
    for turn, stop in zip(turns, [*[turn.first for turn in turns[1:]], end], strict=False):
        last = turn.last
        while last < stop and (turn.is_bare or text.coded[last] or text.lines[last].strip()):
            last += 1
        extended.append(turn._replace(last=last))
    return extended


def _is_talk(text: _Text, section: _Section, turns: Sequence[_Turn]) -> bool:
    """Whether lines that only look spoken are: they fill their section, and someone returns."""
    spans = [(section.inner, section.last), *((turn.first, turn.last) for turn in turns)]
    filled, *spoken = (sum(map(bool, map(str.strip, text.lines[a:b]))) for a, b in spans)
    if len(turns) < 2 or 2 * sum(spoken) < filled:
        return False
    if len({turn.who for turn in turns}) < len(turns):
        # Lists repeat their labels; that is talk only if most of it sounds so.
        listed = [turn for turn in turns if turn.is_item]
        return 2 * sum(_sounds_spoken(text, turn) for turn in listed) >= len(listed)
    # A few lines by different people may be a list of properties.
    if len(turns) > 3 or any(turn.is_bare for turn in turns):
        return False
    if not all(turn.who[0].isupper() and _is_proper(turn.who) for turn in turns):
        return False
    return any(_sounds_spoken(text, turn) for turn in turns)


def _sounds_spoken(text: _Text, turn: _Turn) -> bool:
    words = text.body[turn.said : text.starts[turn.last]].rstrip()
    # Items of a list are often whole sentences, but seldom speak to anybody.
    return bool(_TALK.search(words)) or (words.endswith(".") and not turn.is_item)


# Chunks of a part

# How a block that is too long is cut, and what the pieces are; a word is cut anywhere.
_FINER: Final = {
    "fence": (r"\n", "line"),
    "paragraph": (r"\n(?=[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])", "item"),
    "item": (r"\n", "line"),
    "line": (
        r"[.!?\u2026][\"')\]*_\u2019\u201d]*\s+|[\u3002\uff01\uff1f][\u300d\u300f\u201d]*\s*",
        "sentence",
    ),
    "sentence": (r"\s+", "word"),
}


def _cut(text: _Text, part: _Part) -> Iterator[Chunk]:
    path = " > ".join(part.path)
    for start, end in _find_pieces(text, part):
        spoken = text.body[max(start, part.said) : end].strip() if part.who else ""
        line = bisect_right(text.starts, start)
        yield Chunk(text.body[start:end], path, line, part.who, spoken, part.is_heading)


def _find_pieces(text: _Text, part: _Part) -> Iterator[tuple[int, int]]:
    """Cut a part into pieces of about the same length, at the best places there are."""
    size = part.end - part.start
    if size <= _MOST:
        yield part.start, part.end
        return
    goal = size / -(-size // _MOST)
    todo = _find_blocks(text, part)[::-1]
    start = end = 0
    while todo:
        block = todo.pop()
        if start == end:
            start = end = block.start
        # A block that does not fit waits for the next piece, if it fits there or if what stands
        # before it is worth a chunk: a heading should not be left alone.
        is_whole = block.kind == "fence" and block.end - block.start <= _MOST
        if block.end - start <= _MOST and end - start < goal:
            end = block.end
        elif start < end and (is_whole or block.start - start >= _LEAST):
            yield start, end
            start = end
            todo.append(block)
        elif block.kind == "word":
            most = start + _MOST
            todo += [_Block(most, block.end, "word"), _Block(block.start, most, "word")]
        else:
            todo += _split_block(text.body, block)[::-1]
    yield start, end


def _find_blocks(text: _Text, part: _Part) -> list[_Block]:
    """The paragraphs and the code fences of a part."""
    kinds = [
        text.coded[number] or -bool(text.lines[number].strip())
        for number in range(part.first, part.last)
    ]
    blocks = []
    first = part.first
    for kind, same in groupby(kinds):
        last = first + len(list(same))
        if kind:
            end = text.starts[last - 1] + len(text.lines[last - 1].rstrip())
            blocks.append(_Block(text.starts[first], end, "fence" if kind > 0 else "paragraph"))
        first = last
    return blocks


def _split_block(body: str, block: _Block) -> list[_Block]:
    pattern, kind = _FINER[block.kind]
    ends = [match.end() for match in re.compile(pattern).finditer(body, block.start, block.end)]
    return [
        _Block(start, start + len(piece), kind)
        for start, end in pairwise((block.start, *ends, block.end))
        if (piece := body[start:end].rstrip())
    ]
