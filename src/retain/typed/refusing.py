"""How a broken rule is reported: as lines that a program reads, and as a sentence for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retain.errors import RecordError

__all__ = ["Block", "refusal"]


class Block(NamedTuple):
    """One broken rule: a code such as MERGE_ERROR, then names and values, the last named `fix`."""

    code: str
    lines: Sequence[tuple[str, str]]

    def __str__(self) -> str:
        return "\n".join((self.code, *(f"{name}: {value}" for name, value in self.lines)))

    @property
    def sentence(self) -> str:
        """What is wrong, without what to do about it."""
        values = dict(self.lines)
        if self.code == "VALIDATION_ERROR":
            return f"{values['field']}: expected {values['expected']}; got {values['got']}"
        said = ", ".join(f"{name} {value}" for name, value in self.lines if name != "fix")
        return f"{self.code.replace('_', ' ').lower()}: {said}"


def refusal(*blocks: Block) -> RecordError:
    """The error for broken rules; `raise refusal(Block(...))`."""
    # What a block says about a wrong value, its sentence has said already.
    fixes = (
        value
        for block in blocks
        for name, value in block.lines
        if name == "fix" and not value.startswith("Correct the value")
    )
    error = RecordError(
        "\n".join(block.sentence for block in blocks), hint=" ".join(dict.fromkeys(fixes))
    )
    error.blocks = tuple(map(str, blocks))
    return error
