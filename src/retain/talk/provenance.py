"""What a conversation gave a model to read, and what the person said in it.

A file, a command or a project's memory may ask to have a fact saved: whole, in halves, or in words
that stand nowhere in it. Whether the model does that by a tag in its reply or by a tool, it is the
same: from the first text on that is not the person's, only what can be tied to their own words is
kept without their agreeing. What they keep themselves, their facts and what was said earlier, is no
such text: they may say it again, or go back to it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.facts.compare import same_key
from retain.talk.events import ToolResult, ToolUse
from retain.text.memory_tags import find_facts_anywhere
from retain.text.tokens import words

if TYPE_CHECKING:
    from retain.talk.events import Turn
    from retain.talk.prompt import Prompt


_SAVING: Final = "save_memory"  # what it gives is the model's own words again
_OWN_WORDS: Final = 2 / 3  # of a fact, beside who it is about, in a message that says the same
_NEAR: Final = 60  # words of a message that can be about one thing: in a long paste stands any word
_DOING: Final = {"life": "live", "leaf": "leav"}  # a person lives, and leaves
_WORD: Final = re.compile(r"\w+")
# What changes all that a fact says, or where it leads, is none of the words that may be missing.
_DENYING: Final = re.compile(
    r"\b(?:not?|never|none|nothing|nobody|neither|without|cannot|\w+n['\u2019]t)\b", re.IGNORECASE
)
_POINTING: Final = re.compile(r"\d|\w[./:@\\~]+\w")
_AROUND: Final = "\"'()[]{}<>,.;:!?*_`\u201c\u201d\u2018\u2019"


class _Said(NamedTuple):
    """A message of the person's."""

    text: str
    whole: str
    words: tuple[str, ...]


class Provenance:
    """All that was told in one conversation."""

    def __init__(self) -> None:
        self._is_foreign = False  # something was read that is not the person's
        self._flagged: set[str] = set()  # in what else was read
        self._parts: set[str] = set()  # of that, as it stands
        self._said: dict[str, _Said] = {}

    def read(self, prompt: Prompt, own: Collection[str] = ()) -> None:
        """Take in what a model is sent; what it was sent before stays told.

        `own` are the calls of tools that gave nothing but what the person keeps.
        """
        for part in prompt.parts:
            if part.is_foreign and part.text:
                self.distrust()
            elif part.is_data:
                self._take_in(part.text)
                self._parts.add(_whole(part.text))
        for tool, result in _results(prompt.turns):
            if result.id in own:
                self._take_in(result.text)
            elif tool != _SAVING:
                self.distrust()

    def distrust(self) -> None:
        """From here on the model may say what someone else wants it to."""
        self._is_foreign = True

    def _take_in(self, text: str) -> None:
        self._flagged.update(map(same_key, find_facts_anywhere(text)))

    def say(self, text: str) -> None:
        """Take in what the person says; what an earlier history has of them may be anyone's."""
        if text not in self._said:
            plain = text.casefold()
            self._said[text] = _Said(plain, _whole(text), tuple(_terms(text)))

    def is_doubtful(self, fact: str, replaces: str = "") -> bool:
        """Whether a fact, or that it takes another's place, may be nobody's but a read text's."""
        is_read = (
            self._is_foreign
            or same_key(fact) in self._flagged
            or any(_whole(fact) in text for text in self._parts)
        )
        return is_read and not (self._is_said(fact) and self._is_change(fact, replaces))

    def _is_said(self, fact: str) -> bool:
        """Whether the person said it: as it stands, or in one message with most of its words."""
        whole = _whole(fact)
        return any(whole in said.whole or _says(said, fact) for said in self._said.values())

    def _is_change(self, fact: str, replaces: str) -> bool:
        """Whether a fact is about what it replaces, or the person spoke of that.

        Whom they are about is not enough: nearly all facts are about the person.
        """
        old = set(_terms(replaces)[1:])
        return (
            not replaces
            or not old.isdisjoint(_terms(fact)[1:])
            or any(not old.isdisjoint(said.words) for said in self._said.values())
        )


def _results(turns: Iterable[Turn]) -> Iterator[tuple[str, ToolResult]]:
    """What tools gave, each with the tool's name; some servers call several uses the same."""
    names: dict[str, str] = {}
    for turn in turns:
        for block in turn.blocks:
            if isinstance(block, ToolUse):
                names[block.id] = block.name
            elif isinstance(block, ToolResult):
                yield names.get(block.id, ""), block


def _says(said: _Said, fact: str) -> bool:
    """Whether a message says a fact in words of its own.

    A fact begins with whom it is about, and a person says `I`.
    """
    if _DENYING.search(fact) and not _DENYING.search(said.text):
        return False
    pointing = filter(_POINTING.search, fact.split())
    if any(one.strip(_AROUND).casefold() not in said.text for one in pointing):
        return False
    told = list(dict.fromkeys(_terms(fact)))
    about = told[1:]
    for start in range(0, max(len(said.words) - _NEAR // 2, 1), _NEAR // 2):
        shared = set(told).intersection(said.words[start : start + _NEAR])
        if len(shared) > 1 and len(shared.intersection(about)) >= _OWN_WORDS * len(about):
            return True
    return False


def _terms(text: str) -> list[str]:
    """The words of a text as they are searched by, but what someone does is no thing."""
    return [_DOING.get(word, word) for word in words(text)]


def _whole(text: str) -> str:
    """A text in which only whole words are found, whatever signs stand between them."""
    return f" {' '.join(_WORD.findall(same_key(text)))} "
