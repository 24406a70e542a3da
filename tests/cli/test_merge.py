"""merge, suggest-merges and dedupe: what is proposed, and what is done only when asked."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.door import call, done


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")
    return home / "work" / ".retain"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bundled model, which takes a moment to load."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")


def put(name: str, text: str, *words: str) -> None:
    done("put", "-", "--id", name, "--quiet", *words, input=text)


def ids() -> set[str]:
    return set(done("list --quiet").split())


# merge


@pytest.fixture
def three(bank: Path) -> None:
    put("auth-1", "# One\n\nTokens expire. See [[src/auth.py]].", "--tags", "auth,bug")
    put("auth-2", "# Two\n\nTokens are signed.", "--tags", "auth", "--collection", "notes")
    put("other", "Links to [[auth-1]].")


def test_merge_says_how_to_undo_it_and_that_works(three: None) -> None:
    ran = call("merge auth-1 notes/auth-2 --into auth --content -", input="# A")
    assert ran.code == 0
    assert ran.out.startswith("Merged 2 memories into: memories/auth\n")
    for line in ran.err.splitlines()[1:]:
        done(*shlex.split(line)[1:])
    done("delete auth")
    assert ids() == {"memories/auth-1", "notes/auth-2", "memories/other"}


def test_memory_of_the_global_bank_is_not_merged_from_a_project(three: None) -> None:
    put("mine", "mine", "--global")
    ran = call("merge auth-1 mine --into new --content -", input="x")
    assert ran.code == 3
    assert "--global" in ran.err


# suggest-merges


def test_groups_of_like_memories_come_with_the_command_that_merges_them(model: None) -> None:
    put("day-1", "Fixed the login bug: the session cookie had no SameSite attribute.")
    put("day-2", "Fixed the login bug, the session cookie lacked a SameSite attribute.")
    put("day-3", "Baked bread with rye flour.")
    put("fact", "The session cookie of the login lacks a SameSite attribute.", "--type", "fact")
    (cluster,) = json.loads(done("suggest-merges --json"))
    assert (cluster["cluster_id"], cluster["memory_count"]) == (0, 2)
    assert cluster["score"] > 0.85
    assert cluster["reason"] == "High vector similarity (> 0.85)"
    assert [set(one) for one in cluster["memories"]] == [{"id", "file_path", "preview"}] * 2
    assert [one["id"] for one in cluster["memories"]] == ["memories/day-1", "memories/day-2"]
    line = done("suggest-merges").splitlines()[-1].strip()
    assert line == "retain merge memories/day-1 memories/day-2 --into NEW --content FILE"
    assert cluster["command"] == line
    words = [word.replace("NEW", "day").replace("FILE", "-") for word in shlex.split(line)[1:]]
    done(*words, input="Fixed the login bug.")
    assert call("suggest-merges").err == (
        "No memories are alike enough to be merged.\n"
        "Only memories of the type journal were compared; --type all takes any.\n"
    )
    (cluster,) = json.loads(done("suggest-merges --type all --threshold 0.6 --json"))
    assert {one["id"] for one in cluster["memories"]} == {"memories/day", "memories/fact"}


def test_without_a_model_nothing_is_proposed_and_it_says_why() -> None:
    put("a", "the same text here")
    put("b", "the same text here")
    for name in ("suggest-merges", "dedupe"):
        ran = call(name)
        assert (ran.code, ran.out) == (0, "")
        assert "recall.embedder is none" in ran.err
        assert json.loads(done(name, "--json")) == []


# dedupe


def test_fact_that_is_stated_anew_is_offered_as_superseding(model: None) -> None:
    put("ski-1", "JR loves skiing.", "--metadata", '{"created_at": "2026-01-01T00:00:00Z"}')
    put("ski-2", "JR enjoys skiing at Taos.")
    put("tea", "Kettles boil water.")
    (one,) = json.loads(done("dedupe --json"))
    assert (one["action"], one["older"]["id"], one["newer"]["id"]) == (
        "supersede",
        "ski-1",
        "ski-2",
    )
    assert one["command"] in done("dedupe")
    done(*shlex.split(one["command"])[1:])
    assert call("dedupe").err == "No fact seems to be stated twice.\n"
    assert ids() == {"memories/ski-1", "memories/ski-2", "memories/tea"}
    hits = json.loads(done("search", "JR skiing", "--json"))["hits"]
    assert [(hit["id"], hit["superseded"]) for hit in hits[:2]] == [
        ("ski-2", False),
        ("ski-1", True),
    ]
    assert "superseded by memories/ski-2" in done("search", "JR skiing")


# What put says


def test_put_of_a_fact_that_is_there_already_says_so(model: None) -> None:
    put("ski-1", "JR loves skiing.")
    ran = call("put - --id ski-2", input="JR loves skiing at Taos.")
    assert ran.code == 0
    assert ran.err.startswith("Looks like memories/ski-1 (")
    assert "retain supersede memories/ski-1 --by memories/ski-2" in ran.err
    assert "retain merge memories/ski-1 memories/ski-2 --into NEW" in ran.err
    told = json.loads(done("put - --id ski-3 --json", input="JR loves skiing a lot."))
    assert {one["id"] for one in told["similar"]} == {"ski-1", "ski-2"}
    assert call("put - --id ski-4 --quiet", input="JR loves to ski.").err == ""


def test_put_succeeds_when_the_model_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a", "JR loves skiing.")
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "/no/such/model")
    ran = call("put - --id b --json", input="JR loves skiing so much.")
    assert ran.code == 0
    (similar,) = json.loads(ran.out)["similar"]
    assert (similar["id"], similar["same"]) == ("a", False)
