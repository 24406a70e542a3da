"""Cut a memory's text into the pieces that are searched: sections, paragraphs, spoken turns.

Lines end at `\\n` alone, as in every Markdown reader; a form feed or U+2028 is only a character.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Final, NamedTuple

__all__ = ["Chunk", "chunks", "fences"]

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


class _Heading(NamedTuple):
    level: int
    title: str
    first: int
    last: int


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

    @property
    def size(self) -> int:
        return self.end - self.start


class _Block(NamedTuple):
    start: int
    end: int
    kind: str


def chunks(body: str) -> list[Chunk]:
    """Cut a body at its headings, turns and paragraphs; every line that is not blank is kept."""
    if len(body) <= _MOST and not any(mark in body for mark in _MARKS):
        return _whole(body)
    text = _read(body)
    can_speak = ":" in body or "\uff1a" in body
    parts = [part for section in _sections(text) for part in _parts(text, section, can_speak)]
    return [chunk for part in _filled_headings(_merged(parts)) for chunk in _cut(text, part)]


# Without these a text has no heading and nobody speaks in it.
_MARKS: Final = ("#", ":", "==", "--", "\uff1a")


def _whole(body: str) -> list[Chunk]:
    rest = body.lstrip()
    if not rest:
        return []
    start = body.rfind("\n", 0, len(body) - len(rest)) + 1
    return [Chunk(body[start:].rstrip(), "", body.count("\n", 0, start) + 1)]


def _read(body: str) -> _Text:
    lines = body.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    coded = [0] * len(lines)
    if "```" in body or "~~~" in body:
        for number, (first, last) in enumerate(fences(lines), 1):
            coded[first:last] = [number] * (last - first)
    return _Text(body, lines, starts, coded)


# Code fences

_FENCE: Final = re.compile(r"[ \t]*(?:(?:>|[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}|~{3,})(.*)")


def fences(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """The code fences as ranges of lines; one that is never closed reaches to the end."""
    mark, opened, number = "", 0, -1
    for number, line in enumerate(lines):
        if "```" not in line and "~~~" not in line:
            continue
        if not mark:
            mark, opened = _opens(line), number
        elif _closes(line, mark):
            yield opened, number + 1
            mark = ""
    if mark:
        yield opened, number + 1


def _opens(line: str) -> str:
    """The mark of the fence that a line opens, if it does."""
    found = _FENCE.match(line)
    if not found or (found[1][0] == "`" and "`" in found[2]):  # code within a line
        return ""
    return found[1]


def _closes(line: str, mark: str) -> bool:
    text = line.strip().lstrip("> \t")
    return text.startswith(mark) and not text.strip(mark[0])


# Headings

_ATX: Final = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
# A lone mark is more often a list item that is still empty.
_UNDERLINE: Final = re.compile(r" {0,3}(?:={2,}|-{2,})\s*$")
_NO_TITLE: Final = re.compile(r"\s*(?:[>|<]|(?:[-*+]|\d{1,9}[.)])\s)| {4}|\t")


def _sections(text: _Text) -> Iterator[_Section]:
    path: tuple[str, ...] = ()
    first = inner = 0
    above: list[_Heading] = []
    for heading in _headings(text):
        yield _Section(path, first, inner, heading.first)
        while above and above[-1].level >= heading.level:
            above.pop()
        above.append(heading)
        path = tuple(one.title for one in above if one.title)
        first, inner = heading.first, heading.last
    yield _Section(path, first, inner, len(text.lines))


def _headings(text: _Text) -> Iterator[_Heading]:
    last = 0  # the end of the heading before
    for number, line in enumerate(text.lines):
        mark = line.lstrip(" ")[:1]
        if not mark or mark not in "#=-" or text.coded[number]:
            continue
        if found := _ATX.match(line):
            last = number + 1
            yield _Heading(len(found[1]), _title(line[found.end() :]), number, last)
        elif _UNDERLINE.match(line) and _is_underlined(text, number - 1, last):
            last = number + 1
            title = " ".join(text.lines[number - 1].split())
            yield _Heading(1 if mark == "=" else 2, title, number - 1, last)


def _title(text: str) -> str:
    title = " ".join(text.split())
    closed = title.rstrip("#")
    return (closed if closed[-1:] in ("", " ") else title)[:_TITLE].rstrip()


def _is_underlined(text: _Text, number: int, last: int) -> bool:
    """Whether a line is one that an underline makes a heading: a short paragraph of its own."""
    if number < last or text.coded[number]:
        return False
    line = text.lines[number].rstrip()
    if not line or len(line) > _TITLE or _NO_TITLE.match(line):
        return False
    return number == last or not text.lines[number - 1].strip() or text.coded[number - 1] > 0


# Parts of a section


def _parts(text: _Text, section: _Section, can_speak: bool) -> Iterator[_Part]:
    turns = _turns(text, section) if can_speak else []
    at = section.first
    for turn in turns:
        yield from _part(text, section, at, turn.first, is_fixed=True)
        part = _part(text, section, turn.first, turn.last, is_fixed=True)
        yield from (one._replace(who=turn.who, said=turn.said) for one in part)
        at = turn.last
    yield from _part(text, section, at, section.last, is_fixed=bool(turns))


def _part(
    text: _Text, section: _Section, first: int, last: int, *, is_fixed: bool
) -> Iterator[_Part]:
    """The lines from first to last without the blank ones around them, if any are left."""
    while first < last and not text.lines[first].strip():
        first += 1
    while first < last and not text.lines[last - 1].strip():
        last -= 1
    if first < last:
        end = text.starts[last - 1] + len(text.lines[last - 1].rstrip())
        start, is_heading = text.starts[first], last <= section.inner
        yield _Part(section.path, first, last, start, end, is_fixed=is_fixed, is_heading=is_heading)


def _merged(parts: list[_Part]) -> list[_Part]:
    """Join short sections to their neighbours, the deepest first, so that none leaves its own."""
    if len(parts) > 1:
        for depth in range(max(len(part.path) for part in parts) - 1, -1, -1):
            parts = _merged_below(parts, depth)
    return parts


def _merged_below(parts: list[_Part], depth: int) -> list[_Part]:
    done = parts[:1]
    for part in parts[1:]:
        if _belong(done[-1], part, depth):
            done[-1] = _joined(done[-1], part)
        else:
            done.append(part)
    return done


def _belong(one: _Part, other: _Part, depth: int) -> bool:
    """Whether two parts are one chunk: the same heading stands above them, and one is short."""
    return (
        min(one.size, other.size) < _LEAST
        and other.end - one.start <= _MOST
        and len(one.path) <= depth + 1
        and len(other.path) <= depth + 1
        and one.path[:depth] == other.path[:depth]
        and not one.is_fixed
        and not other.is_fixed
    )


def _joined(one: _Part, other: _Part) -> _Part:
    # Any heading says more than none.
    path = _shared(one.path, other.path) or one.path or other.path
    is_heading = one.is_heading and other.is_heading
    return _Part(path, one.first, other.last, one.start, other.end, is_heading=is_heading)


def _filled_headings(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Give a heading without a text of its own to the text below it, unless that is spoken."""
    heading: _Part | None = None
    for part in parts:
        if heading and part.who:
            yield heading
        own = part if not heading or part.who else _under(heading, part)
        heading = own if own.is_heading else None
        if not heading:
            yield own
    if heading:  # the last of all, with nothing below it
        yield heading._replace(is_heading=False)


def _under(heading: _Part, part: _Part) -> _Part:
    return part._replace(first=heading.first, start=heading.start)


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return one[:at]
    return min(one, other, key=len)


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
    a abstract acceptance access account accounts action actions added address addresses
    advantage advantages after afternoon age agenda aim aliases allergies alternative
    alternatives always answer answers api app apps architecture area args argument arguments
    assumption assumptions attendees attention attributes audience auth authentication author
    authorization authors avoid backend background backlog bad bcc because before behavior
    behaviour benefit benefits birthday blocker blockers book books born branch breakfast budget
    bug bugfix bugs build cache calls case cases category cause causes caution caveat caveats cc
    challenge challenges change changed changelog changes channel check checklist choice choices
    ci city class cloud code color colour column columns command commands comment comments
    commit commits company compatibility complexity component components con conclusion
    conclusions config configuration cons consequence consequences constraint constraints
    contact content contents context convention conventions copyright correctness cost costs
    country cpu created credentials criteria critical current danger data database date dates
    day db deadline debug decision decisions default defaults definition demo dependencies
    dependency deploy deployment deprecated description design details development diet
    difference dinner disk dislikes docker docs documentation domain done dont downside due
    duration edge education effect effects efficiency effort email employer endpoint endpoints
    entry environment error errors estimate evening evidence example examples exception expected
    experience fact facts failed family faq fatal favorite favourite feature features feedback
    field fields file filename files finding findings first fitness fix fixed fixes fixme flow
    focus folder follow-up followup food for format framework frequency from frontend function
    future fyi gender gist git github go goal goals good gotcha gotchas gpu guideline guidelines
    hardware health height high hint hints history hobbies hobby home host hostname hotfix how http
    https id idea ideas image impact implementation important improvement improvements in
    include includes info information infrastructure input inputs install installation instead
    instructions interests interface ios issue issues item items java javascript job jobs kafka
    key keys keyword keywords kind known kubernetes language languages last latency learned
    lesson lessons level libraries library license likes limit limitation limitations limits
    line link links linter list location log logs low lunch macos main maintainability
    maintainer major medium meeting memories memory message metadata method methods metric
    metrics migration milestone minor mitigation mitigations mode model module monitoring
    morning motivation movie movies music mysql name names namespace nationality nb network
    never new next nickname night no node.js not note notes notice objective objectives
    observation observations occupation off ok old on only open opportunities option optional
    options order os other outcome outcomes output outputs overview owner owners p.s package
    packages page param parameter parameters params participants password path paths pattern
    patterns pending performance pets phase phone place plan plans platform point points policy
    port ports postgres postgresql preference preferences prerequisite prerequisites price
    primary priority pro problem problems process production progress project prompt property
    pros protocol ps purpose python q query question questions queue quote raises ram range
    rationale re read readability reason reasons recommendation recommendations redis reference
    references regex region related release reliability remember reminder removed repo
    repository request requirement requirements requires resolution resolved resource resources
    response responsibilities rest result results return returns review reviewers risk risks
    role root row rows rule rules run rust scalability schedule schema school scope script
    secondary secret section security see semantics server service services session sessions
    setting settings setup severity side signal signals simplicity since size software solution
    solutions source sources spec speed sqlite stack stage staging start started state status
    step steps storage strategy strength strengths structure style subject subtitle suggestion
    suggestions summary symptom symptoms syntax table tag tags takeaway takeaways target task
    tasks tech technology template test tested testing tests theme then theory threats
    throughput time timeline times tip tips title tldr to today todo token tomorrow tools topic
    topics trace trade-off trade-offs tradeoff tradeoffs travel trigger type types typescript ui
    updated upside url urls usability usage use used username validation value values verdict
    version versions via view warn warning warnings weakness weaknesses website week weight
    weights what when where which who why windows work workaround workflow year yes yesterday
    monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun january
    february march july september october november december
    """.split()
)
_TALK: Final = re.compile(
    r"\b(?:i|you|we|me|my|your|us|our|yes|yeah|no|ok|okay|sure|hi|hello|hey|thanks|please)\b"
    r"|[!?\u2026]",
    re.IGNORECASE,
)


def _turns(text: _Text, section: _Section) -> list[_Turn]:
    found = list(_marked(text, section))
    turns = _reaching(text, found, section.last)
    if turns and not _is_talk(text, section, turns):
        # A line that is no turn after all belongs to the one above it.
        turns = _reaching(text, [turn for turn in found if turn.is_explicit], section.last)
    return turns


def _marked(text: _Text, section: _Section) -> Iterator[_Turn]:
    """The lines that could be spoken: each starts with what could be a name and a colon."""
    for number in range(section.inner, section.last):
        line = text.lines[number]
        if (":" in line or "\uff1a" in line) and not text.coded[number]:
            found = _SPEAKER.match(line)
            if found and (turn := _turn(found, number, text.starts[number])):
                yield turn


def _turn(found: re.Match[str], number: int, start: int) -> _Turn | None:
    who = (found["bold"] or found["plain"]).strip()
    is_role = who.lower() in _ROLES
    is_bold = found["bold"] is not None
    is_bare = not found.string[found.end() :].strip()
    if not _is_name(who) or (is_bare and not is_bold and not is_role):
        return None
    is_item = found["item"] is not None
    is_explicit = is_bold and (is_role or (_is_proper(who) and not is_bare and not is_item))
    return _Turn(number, number + 1, who, start + found.end(), is_explicit, is_bare, is_item)


def _is_name(who: str) -> bool:
    words = who.split()
    starts_well = not who[0].islower() or words[0].lower() in _ROLES
    return starts_well and len(words) <= 4 and who.lower().rstrip(".") not in _LABELS


def _is_proper(who: str) -> bool:
    """Whether a name is one at first sight: every word has a capital, and none is a label."""
    return all(not word[0].islower() and word.lower() not in _LABELS for word in who.split())


def _reaching(text: _Text, turns: Sequence[_Turn], last: int) -> list[_Turn]:
    """Give turns their following lines: up to a blank one, unless the name stands alone."""
    stops = [*(turn.first for turn in turns[1:]), last]
    return [
        turn._replace(last=_reach(text, turn, stop))
        for turn, stop in zip(turns, stops, strict=False)
    ]


def _reach(text: _Text, turn: _Turn, stop: int) -> int:
    last = turn.last
    while last < stop and (turn.is_bare or text.coded[last] or text.lines[last].strip()):
        last += 1
    return last


def _is_talk(text: _Text, section: _Section, turns: Sequence[_Turn]) -> bool:
    """Whether lines that only look spoken are: they fill their section, and someone returns."""
    if len(turns) < 2:
        return False
    spoken = sum(_filled(text, turn.first, turn.last) for turn in turns)
    if 2 * spoken < _filled(text, section.inner, section.last):
        return False
    if len({turn.who for turn in turns}) == len(turns):
        return _is_exchange(text, turns)
    # Lists repeat their labels; that is talk only if most of it sounds so.
    listed = [turn for turn in turns if turn.is_item]
    return 2 * sum(_sounds_spoken(text, turn) for turn in listed) >= len(listed)


def _filled(text: _Text, first: int, last: int) -> int:
    return sum(1 for line in text.lines[first:last] if line.strip())


def _is_exchange(text: _Text, turns: Sequence[_Turn]) -> bool:
    """Whether a few lines by different people are talk, not a list of properties."""
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

_ITEM_START: Final = re.compile(r"\n(?=[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t])")
_LINE_END: Final = re.compile(r"\n")
_SENTENCE_END: Final = re.compile(
    r"[.!?\u2026][\"')\]*_\u2019\u201d]*\s+|[\u3002\uff01\uff1f][\u300d\u300f\u201d]*\s*"
)
_SPACE: Final = re.compile(r"\s+")
# How a block that is too long is cut, and what the pieces are; a word is cut anywhere.
_FINER: Final = {
    "fence": (_LINE_END, "line"),
    "paragraph": (_ITEM_START, "item"),
    "item": (_LINE_END, "line"),
    "line": (_SENTENCE_END, "sentence"),
    "sentence": (_SPACE, "word"),
}


def _cut(text: _Text, part: _Part) -> Iterator[Chunk]:
    path = " > ".join(part.path)
    for start, end in _pieces(text, part):
        spoken = text.body[max(start, part.said) : end].strip() if part.who else ""
        line = bisect_right(text.starts, start)
        yield Chunk(text.body[start:end], path, line, part.who, spoken, part.is_heading)


def _pieces(text: _Text, part: _Part) -> Iterator[tuple[int, int]]:
    """Cut a part into pieces of about the same length, at the best places there are."""
    if part.size <= _MOST:
        yield part.start, part.end
        return
    goal = part.size / -(-part.size // _MOST)
    todo = list(_blocks(text, part))[::-1]
    start = end = 0
    while todo:
        block = todo.pop()
        if start == end:
            start = end = block.start
        if block.end - start <= _MOST and end - start < goal:
            end = block.end
        elif start < end and _starts_anew(block, start):
            yield start, end
            start = end
            todo.append(block)
        else:
            todo.extend(_finer(text.body, block, start + _MOST))
    yield start, end


def _blocks(text: _Text, part: _Part) -> Iterator[_Block]:
    """The paragraphs and the code fences of a part."""

    def kind(number: int) -> int:
        return text.coded[number] or -bool(text.lines[number].strip())

    first = part.first
    for number, lines in groupby(range(part.first, part.last), kind):
        last = first + sum(1 for _ in lines)
        if number:
            end = text.starts[last - 1] + len(text.lines[last - 1].rstrip())
            yield _Block(text.starts[first], end, "fence" if number > 0 else "paragraph")
        first = last


def _starts_anew(block: _Block, start: int) -> bool:
    """Whether a block that does not fit waits for the next piece, instead of being cut.

    What stands before it must be worth a chunk: a heading should not be left alone.
    """
    is_whole = block.kind == "fence" and block.end - block.start <= _MOST
    return is_whole or block.start - start >= _LEAST


def _finer(body: str, block: _Block, most: int) -> list[_Block]:
    """The pieces of a block, last one first."""
    if block.kind == "word":
        return [_Block(most, block.end, "word"), _Block(block.start, most, "word")]
    pattern, kind = _FINER[block.kind]
    ends = (found.end() for found in pattern.finditer(body, block.start, block.end))
    pieces = []
    for start, end in pairwise((block.start, *ends, block.end)):
        if piece := body[start:end].rstrip():
            pieces.append(_Block(start, start + len(piece), kind))
    return pieces[::-1]
