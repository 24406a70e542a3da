"""Many proposals as one text: a person says what becomes of each, and the text is read back.

Each proposal is a section: a line with an action and its id, its category and title, a blank line
and its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from retain.capture.inbox import LONGEST, Proposal
from retain.errors import Unreadable
from retain.guard.characters import visible

__all__ = ["ACTIONS", "Step", "composed", "read"]

ACTIONS: Final = ("keep", "accept", "drop")

_MARK: Final = "=== "
_SECTION: Final = re.compile(r"===(?:\s|$)")
_QUOTED: Final = re.compile(r"\\*===(?:\s|$)")  # a line of a text that begins like a section
_HEADS: Final = ("category", "title")
_HELP: Final = """\
# {count}. The word after === says what becomes of each:
#   keep    leave it in the inbox, with the words as they are below (k)
#   accept  store it as a memory (a)
#   drop    take it out of the inbox; `retain inbox restore` brings it back (d)
# Category, title and text may be changed. A section that is taken out is kept as it was.
# Nothing is done before all of it has been checked; an empty file does nothing.
"""


class Step(NamedTuple):
    """What is to become of a proposal, and what it is to say."""

    action: str
    before: Proposal
    after: Proposal
    line: int  # where its section begins

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def composed(proposals: Sequence[Proposal], about: Mapping[str, str]) -> str:
    """The text to edit; `about` says where each proposal is from."""
    count = f"{len(proposals)} proposal{'s' * (len(proposals) != 1)}"
    sections = [_HELP.format(count=count)]
    for one in proposals:
        category, title, text = _words(one)
        head = f"{_MARK}keep {one.id}\n# {visible(about[one.id], keep_newlines=False)}\n"
        text = "\n".join(f"\\{line}" if _QUOTED.match(line) else line for line in text.split("\n"))
        sections.append(f"{head}category: {category}\ntitle: {title}\n\n{text}\n")
    return "\n".join(sections)


def _words(one: Proposal) -> tuple[str, str, str]:
    """A proposal's words as an editor shows them."""
    return (
        visible(one.category, keep_newlines=False).strip(),
        visible(one.title, keep_newlines=False).strip(),
        visible(one.text).strip(),
    )


def read(text: str, proposals: Sequence[Proposal]) -> list[Step]:
    """The steps that a text asks for, in its order; every fault is named at once."""
    known = {one.id: one for one in proposals}
    faults: list[str] = []
    steps: list[Step] = []
    for number, lines in _sections(text.replace("\r\n", "\n").removeprefix("\ufeff"), faults):
        try:
            step = _step(number, lines, known)
            if any(step.before.id == other.before.id for other in steps):
                raise _fault(number, f"{step.before.id} is there twice")
            steps.append(step)
        except Unreadable as error:
            faults.append(error.message)
    if faults:
        raise Unreadable("\n".join(faults), unchanged="Nothing was done.", hint=_hint())
    return steps


def _sections(text: str, faults: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Each section with the number of its first line; above the first is room for comments."""
    number, lines = 0, list[str]()
    for at, line in enumerate(text.split("\n"), 1):
        if _SECTION.match(line):
            if lines:
                yield number, lines
            number, lines = at, [line]
        elif lines:
            lines.append(line)
        elif line.strip() and not line.startswith("#") and not faults:
            faults.append(f"line {at}: text above the first section: {line[:60]}")
    if lines:
        yield number, lines


def _step(number: int, lines: Sequence[str], known: Mapping[str, Proposal]) -> Step:
    words = lines[0].split()
    if len(words) != 3 or words[0] != "===":
        raise _fault(number, f"expected `=== ACTION ID`, got {lines[0][:60]!r}")
    action = next((one for one in ACTIONS if words[1] in (one, one[0])), "")
    if not action:
        raise _fault(number, f"{words[1]!r} is none of {', '.join(ACTIONS)}")
    if words[2] not in known:
        raise _fault(number, f"{words[2]!r} is none of the proposals that were opened")
    before = known[words[2]]
    heads, body = _head(number, lines)
    told = (*(heads.get(name, "") for name in _HEADS), body)
    if told == _words(before):
        return Step(action, before, before, number)
    if action != "drop" and not all(told):
        lacking = next(name for name, one in zip((*_HEADS, "text"), told, strict=True) if not one)
        raise _fault(number, f"it has no {lacking}")
    category, title, text = told
    if len(text) > LONGEST:
        raise _fault(number, f"its text has more than {LONGEST:,} characters")
    after = before._replace(category=category, title=title, text=text)
    return Step(action, before, after, number)


def _head(number: int, lines: Sequence[str]) -> tuple[dict[str, str], str]:
    """A section's category and title, and the text below them."""
    heads: dict[str, str] = {}
    rest = len(lines)
    for at, line in enumerate(lines[1:], 1):
        if not line.strip():
            rest = at
            break
        if line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if name.strip() not in _HEADS or not colon or name.strip() in heads:
            place = number + at
            raise _fault(place, "expected `category:` and `title:`, then a blank line and the text")
        heads[name.strip()] = value.strip()
    body = [line[1:] if _QUOTED.match(line) else line for line in lines[rest:]]
    return heads, "\n".join(body).strip()


def _fault(line: int, what: str) -> Unreadable:
    return Unreadable(f"line {line}: {what}")


def _hint() -> str:
    return "`retain inbox edit` begins anew."
