"""Review many proposals in one text file: compose it, and parse what the person made of it.

Each proposal is a section: a line with an action and its id, its category and title, a blank line
and its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from retain.capture.inbox import MAX_TEXT, Proposal
from retain.errors import Unreadable
from retain.text.sanitize import visible

ACTIONS: Final = ("keep", "accept", "drop")

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
    """One section of the file: an action, and the proposal before and after the edit."""

    action: str
    before: Proposal
    after: Proposal
    line: int  # where its section begins

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def compose(proposals: Sequence[Proposal], about: Mapping[str, str]) -> str:
    """The text to edit; `about` says where each proposal is from."""
    count = f"{len(proposals)} proposal{'s' * (len(proposals) != 1)}"
    sections = [_HELP.format(count=count)]
    for proposal in proposals:
        category, title, text = _editable(proposal)
        text = "\n".join(f"\\{line}" if _QUOTED.match(line) else line for line in text.split("\n"))
        sections.append(
            f"=== keep {proposal.id}\n# {visible(about[proposal.id], keep_newlines=False)}\n"
            f"category: {category}\ntitle: {title}\n\n{text}\n"
        )
    return "\n".join(sections)


def _editable(proposal: Proposal) -> tuple[str, str, str]:
    """A proposal's category, title and text as an editor shows them."""
    return (
        visible(proposal.category, keep_newlines=False).strip(),
        visible(proposal.title, keep_newlines=False).strip(),
        visible(proposal.text).strip(),
    )


def parse(text: str, proposals: Sequence[Proposal]) -> list[Step]:
    """Parse an edited file into steps; raise Unreadable with all faults at once."""
    known = {proposal.id: proposal for proposal in proposals}
    faults: list[str] = []
    sections: list[tuple[int, list[str]]] = []  # each with the number of its first line
    for number, line in enumerate(text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n"), 1):
        if _SECTION.match(line):
            sections.append((number, [line]))
        elif sections:
            sections[-1][1].append(line)
        elif line.strip() and not line.startswith("#") and not faults:
            faults.append(f"line {number}: text above the first section: {line[:60]}")
    steps: dict[str, Step] = {}
    for number, lines in sections:
        try:
            step = _step(number, lines, known)
            if step.before.id in steps:
                raise _fault(number, f"{step.before.id} is there twice")
            steps[step.before.id] = step
        except Unreadable as error:
            faults.append(error.message)
    if faults:
        raise Unreadable(
            "\n".join(faults),
            unchanged="Nothing was done.",
            hint="`retain inbox edit` begins anew.",
        )
    return list(steps.values())


def _step(number: int, lines: Sequence[str], known: Mapping[str, Proposal]) -> Step:
    words = lines[0].split()
    if len(words) != 3 or words[0] != "===":
        raise _fault(number, f"expected `=== ACTION ID`, got {lines[0][:60]!r}")
    action = next((name for name in ACTIONS if words[1] in (name, name[0])), "")
    if not action:
        raise _fault(number, f"{words[1]!r} is none of {', '.join(ACTIONS)}")
    if words[2] not in known:
        raise _fault(number, f"{words[2]!r} is none of the proposals that were opened")
    before = known[words[2]]
    category, title, text = _fields(number, lines)
    if (category, title, text) == _editable(before):
        return Step(action, before, before, number)
    for name, value in (("category", category), ("title", title), ("text", text)):
        if not value and action != "drop":
            raise _fault(number, f"it has no {name}")
    if len(text) > MAX_TEXT:
        raise _fault(number, f"its text has more than {MAX_TEXT:,} characters")
    after = before._replace(category=category, title=title, text=text)
    return Step(action, before, after, number)


def _fields(number: int, lines: Sequence[str]) -> tuple[str, str, str]:
    """A section's category and title, and the text below them."""
    heads: dict[str, str] = {}
    body: Sequence[str] = ()
    for at, line in enumerate(lines[1:], 1):
        if not line.strip():
            body = lines[at:]
            break
        if line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if name.strip() not in _HEADS or not colon or name.strip() in heads:
            what = "expected `category:` and `title:`, then a blank line and the text"
            raise _fault(number + at, what)
        heads[name.strip()] = value.strip()
    text = "\n".join(line[1:] if _QUOTED.match(line) else line for line in body).strip()
    return heads.get("category", ""), heads.get("title", ""), text


def _fault(line: int, what: str) -> Unreadable:
    return Unreadable(f"line {line}: {what}")
