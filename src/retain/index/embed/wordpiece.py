"""BERT's tokenizer: a text as the numbers of the word pieces a model knows.

Written out because it is small, and the library that has it brings a client of a model hub with
it. `tests/index/embed/` holds it to that library's answers.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Final

_LONGEST_WORD: Final = 100  # characters; a longer word is unknown, as it was in training
_CONTROL: Final = ("Cc", "Cf", "Co", "Cs")
_CACHED: Final = 50_000
_PLAIN: Final = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_HAN: Final = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f"
)
_IS_HAN: Final = re.compile(f"([{_HAN}])")


class WordPiece:
    """A vocabulary, and how a text is cut into it."""

    def __init__(self, vocabulary: Mapping[str, int], *, lower: bool = True) -> None:
        self._vocabulary = vocabulary
        self._lower = lower
        try:
            self._unknown = vocabulary["[UNK]"]
            self._first, self._last = vocabulary["[CLS]"], vocabulary["[SEP]"]
        except KeyError as error:
            raise ValueError(f"its tokenizer's vocabulary has no {error}") from error
        self._known: dict[str, tuple[int, ...]] = {}

    @classmethod
    def read(cls, data: str | bytes) -> WordPiece:
        """Read a `tokenizer.json`; one of another kind is refused, not misread."""
        try:
            parts = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"its tokenizer.json is not valid JSON: {error}") from error
        if not isinstance(parts, dict):
            raise ValueError("its tokenizer.json holds no object")  # noqa: TRY004 - bad content
        model = parts.get("model") or {}
        normalizer = parts.get("normalizer") or {}
        is_bert = normalizer.get("type") == "BertNormalizer"
        if model.get("type") != "WordPiece" or not is_bert:
            raise ValueError("its tokenizer is not BERT's WordPiece")
        return cls(model["vocab"], lower=bool(normalizer.get("lowercase", True)))

    def __len__(self) -> int:
        return max(self._vocabulary.values()) + 1

    def encode(self, text: str, most: int) -> list[int]:
        """The pieces of a text between their first and last marks, cut at `most` in all."""
        pieces: list[int] = [self._first]
        for word in self._words(text):
            pieces += self._pieces(word)
            if len(pieces) >= most:
                break
        return [*pieces[: most - 1], self._last]

    def _words(self, text: str) -> list[str]:
        if text.isascii():
            # Control characters vanish, so that the letters around them meet.
            plain = text if text.isprintable() else _clean(text)
            return _PLAIN.findall(plain.lower() if self._lower else plain)
        text = _IS_HAN.sub(r" \1 ", _clean(text))
        if self._lower:
            letters = unicodedata.normalize("NFD", text)
            text = "".join(c for c in letters if unicodedata.category(c) != "Mn").lower()
        # Every punctuation mark is a word by itself.
        return "".join(f" {c} " if _is_punctuation(c) else c for c in text).split()

    def _pieces(self, word: str) -> tuple[int, ...]:
        pieces = self._known.get(word)
        if pieces is None:
            if len(self._known) > _CACHED:
                self._known.clear()
            pieces = self._known[word] = self._cut(word)
        return pieces

    def _cut(self, word: str) -> tuple[int, ...]:
        """The longest pieces from the left; a word that does not come out even is unknown."""
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end, mark = len(word), "##" if start else ""
            while end > start and mark + word[start:end] not in self._vocabulary:
                end -= 1
            if end == start:
                return (self._unknown,)
            pieces.append(self._vocabulary[mark + word[start:end]])
            start = end
        return tuple(pieces)


def _clean(text: str) -> str:
    """Remove control characters, and make every space the same."""
    return "".join(
        " " if c in "\t\n\r" or unicodedata.category(c) == "Zs" else c
        for c in text
        if c in "\t\n\r" or not (c in "\0\ufffd" or unicodedata.category(c) in _CONTROL)
    )


def _is_punctuation(char: str) -> bool:
    if char.isascii():
        return bool(_PLAIN.fullmatch(char)) and not char.isalnum()
    return unicodedata.category(char)[0] == "P"
