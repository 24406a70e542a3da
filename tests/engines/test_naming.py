"""The names that a person gives to banks on servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retain.errors import ConfigError
from retain.index.engines.naming import banks, standing


def test_banks_are_named_by_whole_paths(home: Path) -> None:
    assert banks("") == []
    found = banks(f"team = ~/work/.retain, other={home}/b , third={home}/c")
    assert found == [
        ("team", os.path.realpath(home / "work/.retain")),
        ("other", os.path.realpath(home / "b")),
        ("third", os.path.realpath(home / "c")),
    ]


@pytest.mark.parametrize(
    "said, why",
    [
        ("team=.retain", "A path begins with"),
        ("team=a/.retain", "A path begins with"),
        ("team=", "A path begins with"),
        ("team", "A path begins with"),
        ("team=/a; other=/b", "a comma parts"),
        ("Te am=/a", "A name is of"),
        ("one=/a, two=/a/", "is called one already"),
    ],
)
def test_what_names_no_bank_is_told(said: str, why: str) -> None:
    with pytest.raises(ConfigError, match="not understood") as caught:
        banks(said)
    assert why in caught.value.hint


def test_a_folder_inside_a_bank_takes_its_name_from_nobody(home: Path) -> None:
    (home / "app/.retain/.retain").mkdir(parents=True)
    assert [path for _, path in banks("team=~/app/.retain")] == [
        standing(str(home / "app/.retain"))
    ]


def test_a_project_may_be_named_in_place_of_its_bank(home: Path) -> None:
    (home / "app/.retain").mkdir(parents=True)
    assert banks("team=~/app") == banks("team=~/app/.retain")


def test_a_link_in_a_repository_gives_what_it_leads_to_no_name(home: Path) -> None:
    (home / ".retain").mkdir()
    (home / "app").mkdir()
    (home / "app/.retain").symlink_to(home / ".retain")
    own = standing(str(home / ".retain"))
    for said in ("team=~/app/.retain", "team=~/app"):
        assert [path for _, path in banks(said)] != [own]
    (home / "elsewhere").symlink_to(home / "app")
    assert standing(str(home / "elsewhere/.retain")) == standing(str(home / "app/.retain"))
