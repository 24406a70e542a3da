"""How a broken rule is reported: as lines that a program reads, and as a sentence for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from retain.errors import RecordError

__all__ = ["Block", "refusal"]


class Block(NamedTuple):
    """One broken rule: a code such as MERGE_ERROR, then names and values, the last named `fix`."""

    code: str
    lines: Sequence[tuple[str, str]]

    def __str__(self) -> str:
        lines = (f"{name}: {value}".replace("\n", "\\n") for name, value in self.lines)
        return "\n".join((self.code, *lines))

    @property
    def sentence(self) -> str:
        """What is wrong, without what to do about it."""
        values = dict(self.lines)
        for code, needed, said in _SENTENCES:
            if code in ("", self.code) and needed <= values.keys():
                return said.format_map(values)
        said = ", ".join(f"{name} {value}" for name, value in self.lines if name != "fix")
        return f"{self.code.replace('_', ' ').lower()}: {said}"

    @property
    def advice(self) -> str:
        """What to do about it, in the commands that people know."""
        if self.code == "VALIDATION_ERROR" or "rule" in dict(self.lines):
            return ""  # the sentence says what was expected
        return _ACTION.sub(_as_command, dict(self.lines).get("fix", ""))

    @property
    def exit_code(self) -> int:
        """As of every other error: 3 for what is not there, 4 for what another one has."""
        if self.code in ("CREATE_ERROR", "OCC_CONFLICT", "ANTI_RESURRECTION_ERROR"):
            return 4
        return 3 if {name for name, _ in self.lines} == {"target", "fix"} else 1


# A code (any: empty), the lines it must have, and how a person is told.
_SENTENCES: Final[Sequence[tuple[str, set[str], str]]] = (
    ("VALIDATION_ERROR", {"field"}, "{field}: expected {expected}; got {got}"),
    ("CREATE_ERROR", {"record_status"}, "{target} exists already and is {record_status}"),
    ("ANTI_RESURRECTION_ERROR", {"retired_at"}, "{target} was retired only at {retired_at}"),
    ("OCC_CONFLICT", {"target"}, "{target} was changed by someone else since it was read"),
    ("READ_ERROR", {"error"}, "{target} cannot be read: {error}"),
    ("LIMIT_ERROR", {"limit"}, "there are {active} active memories of {category}, {limit} at most"),
    ("MERGE_ERROR", {"rule"}, "{field}: {rule}"),
    ("PATH_ERROR", {"target"}, "{target} is no place for a record"),
    ("", {"target", "record_status"}, "{target} is {record_status}"),
    ("", {"target"}, "there is no record {target}"),
)
_MOST: Final = 100  # faults that are told one by one
_LONGEST: Final = 800  # characters of each part of one
_ACTION: Final = re.compile(r"--action (\w+)")
_COMMANDS: Final = {"create": "new", "delete": "retire"}


def _as_command(found: re.Match[str]) -> str:
    return f"`retain {_COMMANDS.get(found[1], found[1])}`"


def _fault(values: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with one field, for a form to say beside it."""
    return {name: values.get(name, "")[:_LONGEST] for name in ("field", "expected", "got")}


def refusal(*blocks: Block) -> RecordError:
    """The error for broken rules; `raise refusal(Block(...))`."""
    advice = dict.fromkeys(block.advice for block in blocks if block.advice)
    said = "\n".join(block.sentence for block in blocks)
    faults = [dict(block.lines) for block in blocks if block.code == "VALIDATION_ERROR"]
    details = {"faults": [_fault(one) for one in faults[:_MOST]]} if faults else {}
    error = RecordError(said, hint=" ".join(advice), details=details)
    error.blocks = tuple(map(str, blocks))
    error.exit_code = blocks[0].exit_code
    return error
