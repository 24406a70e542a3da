"""The text arm over the files: as good as over an index, and no longer than there is time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from retain.recall.found import Found
from retain.recall.unindexed import unindexed
from tests import indexes

ASKED = "which oil does the lantern burn"


def never() -> bool:
    return False


def found(
    root: Path, question: str = ASKED, limit: int = 20, is_late: Callable[[], bool] = never
) -> list[Found]:
    return unindexed(indexes.place(root), question, limit, is_late, 2_000_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    for name in ("a", "b", "c"):
        indexes.write(root, f"notes/{name}", f"# {name}\n\nThe lantern burns whale oil.\n")
    return root


def test_a_memory_is_found_in_its_file_with_all_that_a_prompt_needs(root: Path) -> None:
    text = "---\ntitle: Kettle\ntags: [tea]\n---\nThe kettle whistles.\n"
    path = indexes.write(root, "notes/kettle", text)
    (one,) = found(root, "does the kettle whistle")
    assert (one.id, one.ref, one.title, one.tags) == ("kettle", "notes/kettle", "Kettle", ("tea",))
    assert "The kettle whistles." in one.text
    assert (one.path, one.size, one.cautions) == (str(path), -1, ())
    assert not (root / ".index" / "index.db").exists()


def test_nothing_is_found_by_words_that_nobody_wrote(root: Path) -> None:
    assert found(root, "xylophone zebra") == []
    assert found(root, "") == []


def test_no_more_than_asked_for(root: Path) -> None:
    assert [one.id for one in found(root, limit=2)] == ["a", "b"]


def test_what_is_out_of_force_is_left_out_or_marked_and_ranked_lower(root: Path) -> None:
    for name, more in (
        ("old", "superseded_by: notes/a"),
        ("shelf", "status: archived"),
        ("gone", "status: retired"),
    ):
        text = f"---\n{more}\n---\n# {name}\n\nThe lantern burns whale oil.\n"
        indexes.write(root, f"notes/{name}", text)
    hits = {one.id: one for one in found(root)}
    assert list(hits)[:3] == ["a", "b", "c"]
    assert set(hits) == {"a", "b", "c", "old", "shelf"}
    assert hits["old"].cautions == ("superseded by notes/a",)
    assert hits["shelf"].cautions == ("archived",)


@pytest.mark.parametrize("most", [0, 1, 2])
def test_once_it_is_late_no_more_is_read(most: int, root: Path) -> None:
    asked = count()
    names = [one.id for one in found(root, is_late=lambda: next(asked) >= most)]
    assert names == ["a", "b", "c"][:most]
    assert next(asked) == most + 1
