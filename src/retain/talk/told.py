"""What a conversation gave a model to read: a fact that stands there alone is not its own.

A file or a memory may flag a fact itself, or ask to have one saved. Whether the model does that by
a tag in its reply or by a tool, it is the same: what nobody but a quoted text says is not kept
unless the person agrees. What the person keeps themselves, their facts and what was said earlier,
is no such text: they may say it again, or go back to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from retain.facts.judging import same_key
from retain.talk import flagged
from retain.talk.events import ToolResult, ToolUse
from retain.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retain.talk.events import Turn
    from retain.talk.prompt import Prompt

__all__ = ["Told"]

_SAVING = "save_memory"  # what it gives is the model's own words again
_SEARCHING = "search_memory"  # what it gives is remembered already, unless it is flagged there
_WORD = re.compile(r"\w+")
_OWN_WORDS = 2 / 3  # of a fact, beside who it is about, in a message that says the same


class Told:
    """All that was told in one conversation, in the form in which two facts are one."""

    def __init__(self) -> None:
        self._flagged: set[str] = set()
        self._parts: set[str] = set()  # what else it read, as far as that is not the person's
        self._results: dict[str, str] = {}  # what tools gave, by their calls
        self._said: dict[str, str] = {}  # by the person, by how they said it
        self._newest = ""  # of that

    def read(self, prompt: Prompt) -> None:
        """Take in what a model is sent; what it was sent before stays told."""
        for part in prompt.parts:
            if part.is_data:
                self._flagged.update(map(same_key, flagged.anywhere(part.text)))
                self._parts.add(_whole(part.text))
        self._read_turns(prompt.turns)

    def _read_turns(self, turns: Iterable[Turn]) -> None:
        names: dict[str, str] = {}
        for turn in turns:
            for block in turn.blocks:
                if isinstance(block, ToolUse):
                    names[block.id] = block.name
                elif isinstance(block, ToolResult):
                    self._hear(block, names.get(block.id, ""))

    def _hear(self, result: ToolResult, tool: str) -> None:
        if result.id not in self._results and tool != _SAVING:  # later it may be shortened
            self._results[result.id] = "" if tool == _SEARCHING else _whole(result.text)
            self._flagged.update(map(same_key, flagged.anywhere(result.text)))

    def say(self, text: str) -> None:
        """Take in what the person says; what an earlier history has of them may be anyone's."""
        self._newest = text if text.strip() else self._newest
        if text not in self._said:
            self._said[text] = _whole(text)

    def is_quoted(self, fact: str) -> bool:
        """Whether a fact stands in what was read, and in nothing that the person said."""
        key, whole = same_key(fact), _whole(fact)
        texts = (*self._results.values(), *self._parts)
        is_read = key in self._flagged or any(whole in text for text in texts)
        return is_read and not self._is_said(fact)

    def _is_said(self, fact: str) -> bool:
        """Whether the person said it: as it stands, or just now with most of its words.

        A fact begins with whom it is about, and a person says `I`.
        """
        if any(_whole(fact) in said for said in self._said.values()):
            return True
        told = list(dict.fromkeys(words(fact)))
        shared = set(told).intersection(words(self._newest))
        about = told[1:]
        return len(shared) > 1 and len(shared.intersection(about)) >= _OWN_WORDS * len(about)


def _whole(text: str) -> str:
    """A text in which only whole words are found, whatever signs stand between them."""
    return f" {' '.join(_WORD.findall(same_key(text)))} "
