"""The text arm alone: what words can find, where it is, and when there is nothing to say."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

import pytest

from retain.index.glance import glance
from retain.recall.found import Found
from retain.recall.quick import quick
from tests import indexes
from tests.recall.little_banks import BANKS


def found(root: Path, question: str, limit: int = 20) -> list[Found]:
    look = partial(quick, place=indexes.place(root), question=question, limit=limit)
    return glance(str(root), look, time.monotonic() + 60) or []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return indexes.new(tmp_path / "bank")


@pytest.mark.parametrize("name", BANKS)
def test_questions_that_share_a_rare_word_find_their_note(name: str, root: Path) -> None:
    bank = BANKS[name]
    for note, text in bank.notes.items():
        indexes.write(root, f"notes/{note}", text)
    indexes.build(root)
    top = {question: found(root, question)[:1] for question in bank.answered}
    right = [bool(hits) and hits[0].id == bank.answered[asked] for asked, hits in top.items()]
    wrong = [bool(hits) and hits[0].id != bank.answered[asked] for asked, hits in top.items()]
    assert sum(right) >= len(right) // 2
    assert sum(wrong) <= len(wrong) // 5
    quiet = [not found(root, question) for question in bank.unanswered]
    assert sum(quiet) >= len(quiet) // 2


def test_a_memory_is_told_with_all_that_a_prompt_needs(root: Path) -> None:
    path = indexes.write(
        root,
        "notes/lantern",
        "---\ntitle: Lantern\ntype: fact\ntags: [oil, light]\ncreated_at: 2026-05-08T12:00:00Z\n"
        "---\n# Lantern\n\nIt burns whale oil.\n",
    )
    indexes.build(root)
    (one,) = found(root, "which whale oil does it burn")
    assert one[:6] == ("lantern", "notes", "Lantern", "fact", ("oil", "light"), one.created_at)
    assert one.created_at.startswith("2026-05-08")
    assert "It burns whale oil." in one.text
    assert (one.path, one.ref, one.scope, one.cautions) == (str(path), "notes/lantern", "bank", ())
    facts = os.stat(path)
    assert (one.size, one.modified) == (facts.st_size, facts.st_mtime_ns)
    assert 0 < one.score <= 1


def test_a_memory_is_found_once_and_no_more_than_asked_for(root: Path) -> None:
    for number in range(12):
        parts = "".join(f"\n## Part {part}\n\n{'whale oil ' * 100}\n" for part in range(3))
        indexes.write(root, f"notes/m{number}", f"# Memory {number}\n{parts}")
    indexes.build(root)
    names = [one.ref for one in found(root, "whale oil", 5)]
    assert len(names) == len(set(names)) == 5
    assert [one.ref for one in found(root, "whale oil", 5)] == names


def test_what_is_out_of_force_is_left_out_or_marked_and_ranked_lower(root: Path) -> None:
    for status in ("active", "archived", "retired"):
        text = f"---\nstatus: {status}\n---\nThe lantern burns whale oil.\n"
        indexes.write(root, f"notes/{status}", text)
    text = "---\nsuperseded_by: notes/active\n---\nThe lantern burns whale oil.\n"
    indexes.write(root, "notes/old", text)
    indexes.build(root)
    hits = {one.id: one for one in found(root, "which oil does the lantern burn")}
    assert next(iter(hits)) == "active"
    assert set(hits) == {"active", "archived", "old"}
    assert hits["archived"].cautions == ("archived",)
    assert hits["old"].cautions == ("superseded by a newer memory",)
    assert all(hits["active"].score > hits[name].score for name in ("archived", "old"))


@pytest.mark.parametrize(
    "question",
    [
        "",
        " ",
        "the of and",
        "\0",
        "\ud800",
        '"',
        "NEAR(a b)",
        "a" * 100_000,
        "lantern " * 5000,
        "🙂",
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_no_question_is_too_odd(question: str, root: Path) -> None:
    indexes.write(root, "notes/lantern", "The lantern burns whale oil.")
    indexes.build(root)
    assert len(found(root, question)) <= 1
