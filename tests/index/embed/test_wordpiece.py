"""BERT's tokenizer, held to the answers of the `tokenizers` library (0.23.3) in wordpiece.json."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retain.index.embed
from retain.index.embed.bert import WordPiece

HERE = Path(__file__).parent
MINILM = Path(retain.index.embed.__file__).parent / "minilm" / "tokenizer.json"
ANSWERS = json.loads((HERE / "wordpiece.json").read_text(encoding="utf-8"))
PIECES = WordPiece(json.loads(MINILM.read_text(encoding="utf-8")))


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: ascii(answer["text"][:20]))
def test_a_text_is_cut_as_the_library_cuts_it(answer: dict[str, object]) -> None:
    assert PIECES.encode(str(answer["text"]), 10_000) == answer["ids"]


@given(st.text(), st.integers(2, 40))
def test_every_text_fits_between_its_marks(text: str, most: int) -> None:
    ids = PIECES.encode(text, most)
    assert (ids[0], ids[-1]) == (101, 102)
    assert len(ids) <= most
    assert all(0 <= number < len(PIECES) for number in ids)


def test_marks_in_a_text_are_only_text() -> None:
    assert 103 not in PIECES.encode("[MASK]", 20)
    assert PIECES.encode("[SEP]", 20).count(102) == 1
