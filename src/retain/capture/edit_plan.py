"""Review many proposals in one text file: compose it, and parse what the person made of it.

Each proposal is a section: a line with an action and its id, its category and title, a blank line
and its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.capture.proposal import MAX_TEXT, Proposal
from retain.errors import Unreadable
from retain.text.sanitize import visible

ACTIONS: Final = ("keep", "accept", "drop")

_SECTION: Final = re.compile(r"===(?:\s|$)")
_QUOTED: Final = re.compile(r"\\*===(?:\s|$)")  # a line of a text that begins like a section
_HELP: Final = """\
# {count}. The word after === says what becomes of each:
#   keep    leave it in the inbox, with the words as they are below (k)
#   accept  store it as a memory (a)
#   drop    take it out of the inbox; `retain inbox restore` brings it back (d)
# Category, title and text may be changed. A section that is taken out is kept as it was.
# Nothing is done if some of it cannot be understood; an empty file does nothing.
"""


class Step(NamedTuple):
    """What becomes of one proposal: an action, and its words before and after the edit."""

    action: str
    before: Proposal
    after: Proposal

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def compose(proposals: Sequence[Proposal], about: Mapping[str, str]) -> str:
    """The text to edit; `about` says where each proposal is from."""
    count = f"{len(proposals)} proposal{'s' if len(proposals) != 1 else ''}"
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
    sections: list[tuple[int, list[str]]] = [(1, [])]  # each with the number of its first line
    for number, line in enumerate(text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n"), 1):
        if _SECTION.match(line):
            sections.append((number, []))
        sections[-1][1].append(line)
    above = [line for line in sections.pop(0)[1] if line.strip() and not line.startswith("#")]
    faults = [f"text above the first section: {line[:60]}" for line in above[:1]]
    steps = []
    for number, lines in sections:
        try:
            steps.append(_step(number, lines, known))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        hint = "`retain inbox edit` begins anew."
        raise Unreadable("\n".join(faults), unchanged="Nothing was done.", hint=hint)
    return steps


def _step(number: int, lines: Sequence[str], known: dict[str, Proposal]) -> Step:
    """Parse a section and take its proposal; raise ValueError with the line of a fault."""
    words = lines[0].split()
    if len(words) != 3:
        raise ValueError(f"line {number}: expected `=== ACTION ID`, got {lines[0][:60]!r}")
    action = next((name for name in ACTIONS if words[1] in (name, name[0])), "")
    if not action:
        raise ValueError(f"line {number}: {words[1]!r} is none of {', '.join(ACTIONS)}")
    before = known.pop(words[2], None)
    if before is None:
        raise ValueError(f"line {number}: {words[2]!r} was not opened, or is there twice")
    fields = _fields(number, lines)
    if tuple(fields.values()) == _editable(before):
        return Step(action, before, before)
    for name, value in fields.items():
        if not value and action != "drop":
            raise ValueError(f"line {number}: it has no {name}")
    if len(fields["text"]) > MAX_TEXT:
        raise ValueError(f"line {number}: its text has more than {MAX_TEXT:,} characters")
    return Step(action, before, before._replace(**fields))


def _fields(number: int, lines: Sequence[str]) -> dict[str, Any]:
    """A section's category and title, and the text below them."""
    fields = {"category": "", "title": ""}
    end = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    for at, line in enumerate(lines[1:end], number + 1):
        name, colon, value = line.partition(":")
        if name.strip() in fields and colon and not fields[name.strip()]:
            fields[name.strip()] = value.strip()
        elif not line.startswith("#"):
            what = "expected `category:` and `title:`, then a blank line and the text"
            raise ValueError(f"line {at}: {what}")
    body = (line[1:] if _QUOTED.match(line) else line for line in lines[end:])
    return {**fields, "text": "\n".join(body).strip()}
