"""What a reply flags with `[MEMORY]`: a fact behind the tag, or facts as bullets below it.

The tag counts anywhere in a line and in any line, except in code. What stands behind it on the line
is a fact, up to the end of the first sentence; a heading such as `Updated facts:` is not, and
announces the bullets below it. A person sees what became of each fact instead: `hide_tags`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from retain.text.chunks import FENCE
from retain.text.links import blank_code
from retain.text.sanitize import strip_invisible

TAG: Final = "[MEMORY]"

_MAX_FACTS: Final = 1_000  # of one reply; more is a model gone wild

_BULLET: Final = re.compile(r"[ \t>]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+(.*)")
_ADDED: Final = re.compile(r"(?:added|updated) to [\w.-]{1,80}:\s*", re.IGNORECASE)
_ANNOUNCEMENT: Final = re.compile(
    r"(?:(?:updated|new|added|saved|noted|key|important|remembered) ){0,2}"
    r"(?:facts?|memory|memories|notes?|preferences?|details?)",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"[.!?](?:[\"')\]*_\u201d\u2019]{0,3}(?=\s))|[\u3002\uff01\uff1f]")
_CLOSING: Final = re.compile(r":?[*_]{1,3}(?=[\s:]|$)")  # of an emphasis on the tag alone
_REPLACES: Final = re.compile(r"(.*\S)\s*[(\[]replaces:?\s+(.*\S)\s*[)\]]", re.IGNORECASE)
_ABBREVIATIONS: Final = frozenset(
    "dr mr mrs ms st prof vs e.g i.e etc no approx jr sr inc ltd co corp dept fig vol est cf "
    "ca u.s u.k a.m p.m ph.d".split()
)
_AROUND: Final = "*_ \t"
_LEAD: Final = re.compile(r"[ \t>*_+\u2022-]*+(?:\d{1,3}[.)]?)?[ \t*_]*+")  # before a line's text
_ENDS: Final = ".!?\u3002\uff01\uff1f"


# Finding


def find_facts(reply: str) -> list[str]:
    """List the facts that a reply flags, each once, in their order."""
    if TAG not in reply:
        return []
    text = reply.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    return _unique(lines, _blank_indented(lines, blank_code(text).split("\n")))


def find_facts_anywhere(text: str) -> list[str]:
    """List the facts that a text flags, in code as well: what others wrote may be all code."""
    lines = text.splitlines() if TAG in text else []
    return _unique(lines, lines)


def split_replaced(fact: str) -> tuple[str, str]:
    """Part a flagged fact from the one that it says it replaces: `new (replaces: old)`."""
    match = _REPLACES.fullmatch(fact)
    return (match[1].rstrip(".;,"), match[2]) if match else (fact, "")


def _blank_indented(lines: Sequence[str], plain: Sequence[str]) -> list[str]:
    """Blank the lines that are code because they are indented, outside of any list."""
    blanked = []
    is_list, is_after_blank = False, True
    for line, without_code in zip(lines, plain, strict=True):
        is_indented = line.startswith(("    ", "\t"))
        is_code = is_indented and is_after_blank and not is_list
        if line.strip():
            is_list = bool(_BULLET.match(line)) or (is_list and line[0] in " \t")
        is_after_blank = is_code or not line.strip()
        blanked.append(" " * len(line) if is_code else without_code)
    return blanked


def _unique(lines: Sequence[str], plain: Sequence[str]) -> list[str]:
    facts: dict[str, str] = {}
    for fact in map(_tidy, islice(_find(lines, plain), _MAX_FACTS)):
        facts.setdefault(fact.casefold().rstrip(_ENDS), fact)
    facts.pop("", None)
    return list(facts.values())


def _find(lines: Sequence[str], plain: Sequence[str]) -> Iterator[str]:
    """Find the facts in lines; `plain` are the same with spaces in the place of code."""
    for number, line in enumerate(lines):
        tags = list(_find_tags(plain[number]))
        for tag, after in pairwise([*tags, len(line)]):
            inline = _after_tag(line[tag + len(TAG) : after])
            is_announced = _announces(inline)
            if not is_announced:
                added = _ADDED.match(inline)
                yield _first_sentence(inline[added.end() :] if added else inline)
            # Beside a bullet that is a fact itself, the others are whatever the list is about.
            if tag == tags[-1] and (is_announced or not _BULLET.match(line)):
                yield from _find_bullets(lines, plain, number + 1, is_announced)


def _find_tags(plain: str) -> Iterator[int]:
    """Find where the tag stands; one that is escaped, or that names or makes a link, is no tag."""
    at = plain.find(TAG)
    while at >= 0:
        end = at + len(TAG)
        if plain[at - 1 : at] not in ("\\", "[", "!") and plain[end : end + 1] not in ("(", "["):
            yield at
        at = plain.find(TAG, end)


def _after_tag(text: str) -> str:
    """Return what stands behind a tag, without what a writer put around the tag itself."""
    text = " ".join(text.split())
    mark = _CLOSING.match(text)
    return (text[mark.end() :] if mark else text).lstrip(": ")


def _announces(inline: str) -> bool:
    """Whether the words behind a tag only say that facts follow."""
    words = inline.rstrip(_AROUND)
    return not words or words.endswith(":") or bool(_ANNOUNCEMENT.fullmatch(words))


def _find_bullets(
    lines: Sequence[str], plain: Sequence[str], first: int, is_announced: bool
) -> list[str]:
    """List the bullets below a tag; a blank line ends them, or may come before announced ones.

    A bullet with a tag of its own is that tag's.
    """
    bullets: list[list[str]] = []
    if is_announced and first < len(lines) and not lines[first].strip():
        first += 1
    for number in range(first, len(lines)):
        line = lines[number]
        if TAG in plain[number] or (line.strip() and not plain[number].strip()):
            break
        bullet = _BULLET.match(line)
        if bullet:
            bullets.append([bullet[1]])
        elif bullets and line[:1] in (" ", "\t") and line.strip():
            bullets[-1].append(line)
        else:
            break
    return [" ".join(parts) for parts in bullets]


def _first_sentence(text: str) -> str:
    """Cut a text before its second sentence; the only one loses the point at its end."""
    for end in _SENTENCE.finditer(text):
        follows = text[end.end() : end.end() + 2].lstrip()[:1]
        is_new = follows.isupper() or (follows.isalpha() and not follows.isascii())
        word = text[max(0, end.start() - 20) : end.start()].rpartition(" ")[2].lstrip("(\"'*_")
        is_initial = len(word) == 1 and word.isupper()
        if is_new and not is_initial and word.casefold() not in _ABBREVIATIONS:
            return text[: end.end()]
    return text.rstrip(_AROUND).rstrip(_ENDS)


def _tidy(fact: str) -> str:
    """Put a fact on one line, without invisible characters or emphasis around all of it."""
    fact = " ".join(strip_invisible(fact).split())
    for mark in ("**", "__", "*", "_"):
        if len(fact) > 2 * len(mark) and fact.startswith(mark) and fact.endswith(mark):
            fact = fact[len(mark) : -len(mark)].strip()
        elif fact.endswith(mark) and fact.count(mark) == 1:
            fact = fact.removesuffix(mark).rstrip()  # it was opened before the tag
    return fact


# Hiding


def hide_tags(text: str) -> str:
    """Return all of a reply that is for the person: without tags and the facts they flag."""
    if TAG not in text:
        return text
    tags = TagFilter()
    return tags.feed(text) + tags.finish()


class TagFilter:
    """The same for a reply that comes in pieces: what may turn out to be a tag is held back."""

    def __init__(self) -> None:
        self._line = ""
        self._shown = 0  # characters of the line that were given out
        self._fence = ""
        self._below = ""  # what the line above was: a heading, a fact, a bullet, or nothing

    def feed(self, text: str) -> str:
        """Return what can be shown, now that this has come."""
        *whole, last = (self._line + text).split("\n")
        shown = []
        for line in whole:
            shown.append(f"{self._hide(line)[self._shown :]}\n")
            self._shown = 0
        self._line = last
        end = self._safe_end(last)
        if end > self._shown:
            shown.append(last[self._shown : end])
            self._shown = end
        return "".join(shown)

    def finish(self) -> str:
        """Return what is left at the end."""
        left = self._hide(self._line)[self._shown :]
        self._line, self._shown = "", 0
        return left

    def _safe_end(self, line: str) -> int:
        """Return how much of an unfinished line is for the person, whatever comes."""
        if self._fence:
            return len(line)
        if self._below:
            return 0
        at = line.find("[", self._shown)
        while at >= 0 and not (line.startswith(TAG, at) or TAG.startswith(line[at:])):
            at = line.find("[", at + 1)
        start = line if at < 0 else line[:at]
        return 0 if _LEAD.fullmatch(start) else len(start.rstrip(_AROUND))

    def _hide(self, line: str) -> str:
        """Return what of a whole line is for the person."""
        if self._is_code(line):
            self._below = ""
            return line
        tags = list(_find_tags(blank_code(line)))
        if not tags:
            self._below = self._follow(line)
            return "" if self._below else line
        before = line[: tags[0]].rstrip(_AROUND)
        rests = []
        for tag, after in pairwise([*tags, len(line)]):
            inline = _after_tag(line[tag + len(TAG) : after])
            is_heading = _announces(inline)
            rest = "" if is_heading else inline[len(_first_sentence(inline)) :]
            rests.append(rest.strip(_AROUND).lstrip(f"{_ENDS} "))
        if is_heading:
            self._below = "heading"
        else:
            self._below = "" if rests[-1] or _BULLET.match(line) else "fact"
        return " ".join(filter(None, ["" if _LEAD.fullmatch(before) else before, *rests]))

    def _follow(self, line: str) -> str:
        """Return what a line without a tag is, below one."""
        if not self._below:
            return ""
        if _BULLET.match(line):
            return "bullet"
        if not line.strip():
            return "heading" if self._below == "heading" else ""
        return "bullet" if self._below == "bullet" and line[0] in " \t" else ""

    def _is_code(self, line: str) -> bool:
        """Whether a line belongs to a code fence, its ends included."""
        if self._fence:
            text = line.strip().lstrip("> \t")
            if text.startswith(self._fence) and not text.strip(self._fence[0]):
                self._fence = ""
            return True
        mark = FENCE.match(line)
        if mark and not (mark[1][0] == "`" and "`" in mark[2]):  # code within a line
            self._fence = mark[1]
        return bool(self._fence)
