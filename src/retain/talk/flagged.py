"""What a reply flags with `[MEMORY]`: a fact behind the tag, or facts as bullets below it.

The tag counts anywhere in a line and in any line, except in code. What stands behind it on the line
is a fact, up to the end of the first sentence; a heading such as `Updated facts:` is not, and
announces the bullets below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final, NamedTuple

from retain.facts.compare import same_key
from retain.facts.memory_md import fence_after

TAG: Final = "[MEMORY]"

_MOST: Final = 1_000  # facts of one reply; more is a model gone wild

_FENCE: Final = re.compile(r" {0,3}(?:> ?)*[ \t]*(`{3,}|~{3,})(.*)")
_BULLET: Final = re.compile(r"[ \t>]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+(.*)")
_BLOCK: Final = re.compile(r"[ \t]*(?:[-*+\u2022#>]|\d{1,3}[.)])[ \t]")  # a line that begins anew
_TICKS: Final = re.compile(r"`+")
_ADDED: Final = re.compile(r"(?:added|updated) to [\w.-]{1,80}:\s*", re.IGNORECASE)
_ANNOUNCING: Final = re.compile(
    r"(?:(?:updated|new|added|saved|noted|key|important|remembered) ){0,2}"
    r"(?:facts?|memory|memories|notes?|preferences?|details?)",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"[.!?](?:[\"')\]*_\u201d\u2019]{0,3}(?=\s))|[\u3002\uff01\uff1f]")
_CLOSING: Final = re.compile(r":?[*_]{1,3}(?=[\s:]|$)")  # of an emphasis on the tag alone
_SHORTENED: Final = frozenset(
    "dr mr mrs ms st prof vs e.g i.e etc no approx jr sr inc ltd co corp dept fig vol est cf "
    "ca u.s u.k a.m p.m ph.d".split()
)
_AROUND: Final = "*_ \t"


_REPLACES: Final = re.compile(r"(.*\S)\s*[(\[]replaces:?\s+(.*\S)\s*[)\]]", re.IGNORECASE)


class _Line(NamedTuple):
    text: str
    plain: str  # the same length, with a space for every character that is code
    is_code: bool = False


def found(reply: str) -> list[str]:
    """The facts that a reply flags, each once, in their order."""
    if TAG not in reply:
        return []
    return _unique(_lines(reply))


def anywhere(text: str) -> list[str]:
    """The same where the tag counts in code as well: what others wrote is not parted from it."""
    if TAG not in text:
        return []
    return _unique([_Line(line, line) for line in text.splitlines()])


def parted(fact: str) -> tuple[str, str]:
    """A flagged fact, and the one that it says it replaces: `new (replaces: old)`."""
    match = _REPLACES.fullmatch(fact)
    return (match[1].rstrip(".;,"), match[2]) if match else (fact, "")


def without(text: str) -> str:
    """A text without what it flags, which is kept as facts and may no longer hold."""
    if TAG not in text:
        return text
    kept: list[str] = []
    is_below = False  # a tag, in whose list a line may stand
    for line in text.splitlines():
        before, *flagged = line.split(TAG)
        is_below = bool(flagged) or (is_below and bool(not line.strip() or _BULLET.match(line)))
        if not is_below:
            kept.append(line)
        elif flagged:
            kept.append(" ".join([before.rstrip(_AROUND), *map(_after_first_sentence, flagged)]))
    return "\n".join(line.rstrip() for line in kept)


def _unique(lines: Sequence[_Line]) -> list[str]:
    facts: dict[str, str] = {}
    for fact in map(_tidy, islice(_flagged(lines), _MOST)):
        facts.setdefault(same_key(fact), fact)
    facts.pop("", None)
    return list(facts.values())


def _flagged(lines: Sequence[_Line]) -> Iterator[str]:
    for number, line in enumerate(lines):
        tags = list(_tags(line.plain))
        for tag, after in pairwise([*tags, len(line.text)]):
            inline = _bare(line.text[tag + len(TAG) : after])
            is_awaited = _announces(inline)
            if not is_awaited:
                added = _ADDED.match(inline)
                yield _first_sentence(inline[added.end() :] if added else inline)
            # Beside a bullet that is a fact itself, the others are whatever the list is about.
            if tag == tags[-1] and (is_awaited or not _BULLET.match(line.text)):
                yield from _bullets(lines, number + 1, is_awaited)


def _tags(plain: str) -> Iterator[int]:
    """Where the tag stands; one that is escaped, or that names or makes a link, is no tag."""
    at = plain.find(TAG)
    while at >= 0:
        end = at + len(TAG)
        if plain[at - 1 : at] not in ("\\", "[", "!") and plain[end : end + 1] not in ("(", "["):
            yield at
        at = plain.find(TAG, end)


def _bare(text: str) -> str:
    """What stands behind a tag, without what a writer put around the tag itself."""
    text = " ".join(text.split())
    mark = _CLOSING.match(text)
    return (text[mark.end() :] if mark else text).lstrip(": ")


def _announces(inline: str) -> bool:
    """Whether the words behind a tag only say that facts follow."""
    words = inline.rstrip(_AROUND)
    return not words or words.endswith(":") or bool(_ANNOUNCING.fullmatch(words))


def _bullets(lines: Sequence[_Line], first: int, is_awaited: bool) -> list[str]:
    """The bullets below a tag; a blank line ends them, unless they were announced and are to come.

    A bullet with a tag of its own is that tag's.
    """
    bullets: list[list[str]] = []
    if is_awaited and first < len(lines) and not lines[first].text.strip():
        first += 1
    for number in range(first, len(lines)):
        line = lines[number]
        if line.is_code or TAG in line.plain:
            break
        bullet = _BULLET.match(line.text)
        if bullet:
            bullets.append([bullet[1]])
        elif bullets and line.text[:1] in (" ", "\t") and line.text.strip():
            bullets[-1].append(line.text)
        else:
            break
    return [" ".join(parts) for parts in bullets]


def _first_sentence(text: str) -> str:
    """A text up to its second sentence; the only one loses the point at its end."""
    for end in _SENTENCE.finditer(text):
        follows = text[end.end() : end.end() + 2].lstrip()[:1]
        is_new = follows.isupper() or (follows.isalpha() and not follows.isascii())
        if is_new and not _is_shortened(text[max(0, end.start() - 20) : end.start()]):
            return text[: end.end()]
    return text.rstrip(_AROUND).rstrip(".!?\u3002\uff01\uff1f")


def _after_first_sentence(text: str) -> str:
    text = _bare(text)
    return text[len(_first_sentence(text)) :].strip(f"{_AROUND}.!?\u3002\uff01\uff1f")


def _is_shortened(before: str) -> bool:
    """Whether a point ends an abbreviation or an initial, and no sentence."""
    word = before.rpartition(" ")[2].lstrip("(\"'*_")
    return word.casefold() in _SHORTENED or (len(word) == 1 and word.isupper())


def _tidy(fact: str) -> str:
    """A fact as one line, without invisible characters and without emphasis around all of it."""
    from retain.text.sanitize import strip_invisible

    fact = " ".join(strip_invisible(fact).split())
    for mark in ("**", "__", "*", "_"):
        if len(fact) > 2 * len(mark) and fact.startswith(mark) and fact.endswith(mark):
            fact = fact[len(mark) : -len(mark)].strip()
        elif fact.endswith(mark) and fact.count(mark) == 1:
            fact = fact.removesuffix(mark).rstrip()  # it was opened before the tag
    return fact


# Code


def _lines(reply: str) -> list[_Line]:
    """The lines of a reply, with what is code in them blotted out."""
    lines: list[_Line] = []
    paragraph: list[str] = []
    fence, is_list, is_after_blank = "", False, True
    for text in reply.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        mark = _FENCE.match(text)
        is_blank = not text.strip()
        is_indented = text.startswith(("    ", "\t")) and not is_list and is_after_blank
        if fence or is_indented or (mark and not ("`" in mark[2] and mark[1][0] == "`")):
            lines += _plain(paragraph)
            paragraph = []
            lines.append(_Line(text, " " * len(text), True))
            fence = fence_after(fence, mark) if not (is_indented and not fence) else ""
            is_after_blank = is_indented and not fence
            continue
        if is_blank or _BLOCK.match(text):
            lines += _plain(paragraph)
            paragraph = []
        if not is_blank:
            is_list = bool(_BULLET.match(text)) or (is_list and text[:1] in " \t")
        is_after_blank = is_blank
        paragraph.append(text)
    return lines + _plain(paragraph)


def _plain(paragraph: Sequence[str]) -> list[_Line]:
    """The lines of a paragraph without its code spans, which may go over several lines."""
    text = "\n".join(paragraph)
    if "`" in text:
        parts, done = [], 0
        for start, end in _spans(text):
            code = "".join("\n" if char == "\n" else " " for char in text[start:end])
            parts += [text[done:start], code]
            done = end
        text = "".join([*parts, text[done:]])
    plain = text.split("\n") if paragraph else []
    return [_Line(one, other) for one, other in zip(paragraph, plain, strict=True)]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Code between backticks: a run of them up to the next run of the same length."""
    runs = [match.span() for match in _TICKS.finditer(text)]
    later: dict[int, list[int]] = {}
    for number in range(len(runs) - 1, -1, -1):
        later.setdefault(runs[number][1] - runs[number][0], []).append(number)
    number = 0
    while number < len(runs):
        same = later[runs[number][1] - runs[number][0]]
        while same and same[-1] <= number:
            same.pop()
        if same:
            yield runs[number][0], runs[same[-1]][1]
            number = same[-1]
        number += 1
