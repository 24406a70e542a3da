"""Making banks, and finding the way back to the one a command was told to use."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.cli.door import call, done


def test_init_makes_a_project_bank_once(home: Path) -> None:
    assert done("init").startswith("Made a bank: ")
    config = (home / "work" / ".retain" / "config.toml").read_bytes()
    assert done("init").startswith("There is a bank already: ")
    assert (home / "work" / ".retain" / "config.toml").read_bytes() == config


def test_init_where_another_tools_store_is_says_what_it_hides(home: Path) -> None:
    (home / "work" / ".memories").mkdir()
    (home / "work" / ".memories" / "a.md").write_text("# A\n", encoding="utf-8")
    ran = call("init")
    assert ran.code == 0
    assert "retain import" in ran.err
    assert done("list") == ""
    done("import .memories")
    assert done("list --quiet") == "memories/a\n"
    assert call("init").err == ""


def test_init_in_the_home_directory_is_the_global_bank(home: Path) -> None:
    os.chdir(home)
    assert json.loads(done("init --json"))["scope"] == "global"
    assert json.loads(done("status --json"))["root"] == str(home / ".retain")


def test_init_elsewhere_makes_that_bank(home: Path) -> None:
    assert json.loads(done("init", "--bank", "a b/c", "--json"))["root"] == str(
        home / "work" / "a b" / "c"
    )
    done("put", "-", "--id", "x", "--bank", "a b/c", input="x")
    ran = call("delete", "x", "--bank", "a b/c")
    assert "retain restore x --bank 'a b/c'\n" in ran.err
    done("restore", "--trash", "x", "--bank", "a b/c")


def test_hint_after_a_delete_leads_to_the_same_bank(home: Path) -> None:
    done("init")
    done("put - --id x --global", input="x")
    assert "restore x --global\n" in call("delete x --global").err


def test_text_cannot_name_its_own_author_or_id(home: Path) -> None:
    done("put - --id x --created-by Ada", input="x")
    text = "---\nid: y\ncreated_by: The Boss\npriority: high\n---\nnew\n"
    done("update x --content -", input=text)
    metadata = json.loads(done("get x --json"))["metadata"]
    assert (metadata["id"], metadata["created_by"]) == ("x", "Ada")
    assert metadata["priority"] == "high"
