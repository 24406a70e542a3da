"""Review many proposals in one text file: compose it, and parse what the person made of it.

Each proposal is a section: a line with an action and its id, its category and title, a blank line
and its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from retain.capture.proposal import MAX_TEXT, Proposal
from retain.errors import Unreadable
from retain.text.sanitize import visible

ACTIONS: Final = ("keep", "accept", "drop")

_SECTION: Final = re.compile(r"^(?====(?:\s|$))", re.M)
_QUOTED: Final = re.compile(r"^\\*===(?=\s|$)", re.M)  # a line of a text that begins like a section
_FORM: Final = "`=== ACTION ID`, `category: ...`, `title: ...`, a blank line and the text"
_FIELDS: Final = re.compile(
    r"=== *(\S+) +(\S+) *\n(?:#.*\n)*category:(.*)\ntitle:(.*)\n(?:[ \t]*\n((?s:.*)))?"
)
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
        text = _QUOTED.sub(lambda line: f"\\{line[0]}", text)
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
    above, *sections = _SECTION.split(text.replace("\r\n", "\n").removeprefix("\ufeff") + "\n")
    faults = [
        f"line {number}: text above the first section: {line[:60]}"
        for number, line in enumerate(above.split("\n"), 1)
        if line.strip() and not line.startswith("#")
    ]
    steps, number = [], above.count("\n") + 1
    for section in sections:
        try:
            steps.append(_parse_section(section, known))
        except ValueError as error:
            faults.append(f"line {number}: {error}")
        number += section.count("\n")
    if faults:
        hint = "`retain inbox edit` begins anew."
        raise Unreadable("\n".join(faults), unchanged="Nothing was done.", hint=hint)
    return steps


def _parse_section(section: str, known: dict[str, Proposal]) -> Step:
    """Parse a section and take its proposal; raise ValueError for a fault."""
    match = _FIELDS.fullmatch(section)
    if not match:
        raise ValueError(f"expected {_FORM}")
    action = next((name for name in ACTIONS if match[1] in (name, name[0])), "")
    if not action:
        raise ValueError(f"{match[1]!r} is none of {', '.join(ACTIONS)}")
    before = known.pop(match[2], None)
    if before is None:
        raise ValueError(f"{match[2]!r} was not opened, or is there twice")
    text = _QUOTED.sub(lambda line: line[0][1:], match[5] or "").strip()
    category, title = match[3].strip(), match[4].strip()
    if (category, title, text) == _editable(before):
        return Step(action, before, before)
    after = before._replace(category=category, title=title, text=text)
    for name, value in (("category", category), ("title", title), ("text", text)):
        if not value and action != "drop":
            raise ValueError(f"it has no {name}")
    if len(text) > MAX_TEXT:
        raise ValueError(f"its text has more than {MAX_TEXT:,} characters")
    return Step(action, before, after)
