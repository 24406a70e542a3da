"""The names that a person gives to banks on servers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retain.engines.naming import banks
from retain.errors import ConfigError


def test_banks_are_named_by_whole_paths(home: Path) -> None:
    assert banks("") == []
    found = banks(f"team = ~/work/.retain, other={home}/b , team={home}/c")
    assert found == [
        ("team", os.path.realpath(home / "work/.retain")),
        ("other", os.path.realpath(home / "b")),
        ("team", os.path.realpath(home / "c")),
    ]


@pytest.mark.parametrize("said", ["team=.retain", "team=a/.retain", "team=", "team", "Te am=/a"])
def test_a_path_from_anywhere_names_no_bank(said: str) -> None:
    with pytest.raises(ConfigError, match="not understood"):
        banks(said)
