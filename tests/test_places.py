"""Which banks are in force around a directory, and that each is looked up once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retain.errors import ConfigError
from retain.places import Places
from tests.cli.door import done


def places(*, local: bool = False) -> Places:
    return Places("", local, False, os.getcwd(), os.environ)


def config(root: Path, text: str) -> None:
    (root / "config.toml").write_text(f"format = 1\n{text}\n", encoding="utf-8")


@pytest.fixture
def banks(home: Path) -> tuple[Path, Path]:
    """The project's bank, and the person's own."""
    done("init")
    done("init", "--global")
    return home / "work" / ".retain", home / ".retain"


def test_the_project_s_bank_is_read_before_the_person_s(banks: tuple[Path, Path]) -> None:
    assert [place.root for place, _ in places().readable()] == list(map(str, banks))
    assert [place.root for place, _ in places(local=True).readable()] == [str(banks[0])]


def test_a_bank_of_the_person_s_that_is_switched_off_is_not_read(banks: tuple[Path, Path]) -> None:
    config(banks[1], "[memory]\nenabled = false")
    config(banks[0], "[memory]\nenabled = true")
    assert [place.root for place, _ in places().readable()] == [str(banks[0])]
    config(banks[0], "[memory]\nenabled = false")
    with pytest.raises(ConfigError, match="switched off"):
        places().readable()


def test_settings_are_read_once_until_they_are_forgotten(banks: tuple[Path, Path]) -> None:
    found = places()
    first = found.load(found.place)
    config(banks[0], "[retrieval]\nmax_inject = 3")
    assert found.load(found.place) is first is found.config
    assert found.own is found.own
    found.forget()
    assert found.config.number("retrieval.max_inject") == 3


def test_a_strategy_leads_to_the_person_s_own_bank(banks: tuple[Path, Path]) -> None:
    config(banks[1], '[memory]\nstorage_strategy = "user"')
    assert places().place.root == str(banks[1])
    assert places(local=True).place.root == str(banks[0])


def test_a_bank_that_was_made_meanwhile_is_found_once_asked_again(home: Path) -> None:
    found = places()
    assert not found.own.exists
    done("init", "--global")
    found.forget()
    assert found.own.exists
