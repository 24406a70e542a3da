"""One name in two banks: what is found is what is read, and nothing else is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retain.app import App
from retain.errors import NotFound
from retain.mcp.tools import CORE, TOOLS, Call
from tests.cli.door import done


@pytest.fixture
def app(home: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init", "--global")
    done("init")
    done("put", "-", "--global", "--id", "first", input="The kettle whistles in the morning.")
    done("put", "-", "--id", "first", input="A zebra crosses the road.")
    return App(cwd=str(home / "work"))


def run(app: App, name: str, **args: Any) -> dict[str, Any]:
    return TOOLS[name].function(Call(app), **TOOLS[name].parse(args))


def test_a_global_hit_is_the_one_that_is_read(app: App) -> None:
    (hit,) = run(app, "search_memories", query="kettle whistles")["result"]
    assert (hit["scope"], hit["memory_id"]) == ("global", "memory:global:memories/first")
    for name in (hit["memory_id"], hit["handle"]):
        found = run(app, "read_memory", filename=name)
        assert "kettle" in found["content"]
        assert found["scope"] == "global"
    (ours,) = run(app, "search_memories", query="zebra road")["result"]
    for name in (ours["memory_id"], ours["handle"]):
        assert "zebra" in run(app, "read_memory", filename=name)["content"]


@pytest.mark.parametrize("name", ["update_memory", "append_memory", "delete_memory"])
def test_a_global_hit_is_not_a_way_to_change_the_projects_memory(app: App, name: str) -> None:
    content = {} if name == "delete_memory" else {"content": "x"}
    with pytest.raises(NotFound, match="global"):
        run(app, name, filename="memory:global:memories/first", **content)
    assert "zebra" in run(app, "read_memory", filename="memories/first")["content"]


def test_a_handle_of_a_brief_leads_to_its_own_bank(app: App) -> None:
    brief = run(app, "get_brief", query="the kettle whistles in the morning")
    (item,) = [one for one in brief["items"] if one["scope"] == "global"]
    assert "kettle" in done("get", item["handle"])


def test_tags_with_commas_are_tags(app: App) -> None:
    run(app, "create_memory", filename="odd", content="x", tags=["a,b"])
    assert run(app, "list_memories", filter_tags=["A,B"])["total"] == 1
    assert run(app, "list_memories", filter_tags=["a"])["total"] == 0


def test_what_core_deletes_core_brings_back() -> None:
    assert {"delete_memory", "restore_memory"} <= set(CORE)
    assert TOOLS["restore_memory"].destroys


def test_a_typed_memory_is_replaced_when_asked_for(app: App) -> None:
    content = {"topic": "indent", "value": "4", "reason": "r", "strength": "strong"}
    run(app, "record_memory", category="preference", content=content, id="indent")
    again = {**content, "value": "2"}
    done_again = run(
        app, "record_memory", category="preference", content=again, id="indent", replace=True
    )
    assert done_again["status"] == "created"
    assert 'value: "2"' in run(app, "read_memory", filename="preferences/indent")["content"]


def test_no_agent_is_told_how_to_get_round_the_guard(app: App) -> None:
    token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    said = run(app, "create_memory", filename="secret", content=f"token {token}")["warnings"]
    assert said
    assert not any("--allow-secret" in one for one in said)
