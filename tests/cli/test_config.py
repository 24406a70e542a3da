"""config set and unset: where a value goes, and what is said where it cannot go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.door import call, done


def test_what_was_set_is_unset_and_comments_stay(home: Path) -> None:
    done("init")
    file = home / "work/.retain/config.toml"
    done("config set hooks.stop false")
    file.write_text(f"{file.read_text(encoding='utf-8')}# mine\n", encoding="utf-8")
    said = done("config unset hooks.stop")
    assert said.splitlines()[:2] == [
        "hooks.stop is no longer set there.",
        "In force: true (default)",
    ]
    assert "stop" not in file.read_text(encoding="utf-8")
    assert file.read_text(encoding="utf-8").endswith("# mine\n")
    before = file.read_bytes()
    assert "hooks.stop is not set there." in done("config unset hooks.stop")
    assert file.read_bytes() == before
    assert call("config unset hooks.stopp").code == 2


def test_your_own_setting_is_unset_with_global(home: Path) -> None:
    done("config set memory.created_by Ada --global")
    done("init")
    assert "is not set there" in done("config unset memory.created_by")
    told = json.loads(done("config unset memory.created_by --global --json"))
    assert (told["changed"], told["file"]) == (True, str(home / ".retain/config.toml"))
    assert done("config get memory.created_by") != "Ada\n"


def test_a_store_of_claude_memory_says_where_its_settings_are(home: Path) -> None:
    store = home / "work/.claude/memory"
    store.mkdir(parents=True)
    for key, theirs in (("hooks.stop", "hooks.stop"), ("versioning.auto_commit", "auto_commit")):
        ran = call("config", "set", key, "true")
        assert ran.code == 2
        assert f"{store}/memory-config.json" in ran.err
        assert f"Change {theirs} in it" in ran.err


def test_what_that_file_cannot_say_is_for_your_own_config(home: Path) -> None:
    (home / "work/.claude/memory").mkdir(parents=True)
    ran = call("config set memory.enabled false")
    assert ran.code == 2
    assert "--global" in ran.err


@pytest.mark.parametrize(
    "value",
    [
        "http://bob:hun/pa55word@127.0.0.1:9",
        "http://bob:hun?pa55word@h",
        "http://bob:hun#pa55word@h",
        "host=h password='it''s a pa55word'",
    ],
)
def test_an_address_whose_password_is_not_escaped_is_not_taken(value: str, home: Path) -> None:
    ran = call("config", "set", "engine.postgres.url", value, "--global")
    assert ran.code == 2
    assert "%2F" in ran.err
    assert "pa55word" not in ran.out + ran.err
    assert not (home / ".retain/config.toml").exists()


def test_an_address_is_never_shown_with_its_password(home: Path) -> None:
    done("config set engine.qdrant.url http://bob:pa55word@db.example:6333 --global")
    assert done("config get engine.qdrant.url") == "http://bob:***@db.example:6333\n"


@pytest.mark.parametrize("value", ["team=.retain", "team=~nobody-here/.retain", "team="])
def test_a_bank_has_no_name_by_a_path_from_anywhere(value: str, home: Path) -> None:
    ran = call("config", "set", "engine.banks", value, "--global")
    assert ran.code == 2
    assert "engine.banks is not understood" in ran.err
    assert not (home / ".retain/config.toml").exists()


def test_config_alone_lists() -> None:
    assert done("config") == done("config list")
