"""Merging: one memory in the place of several, all of it or nothing, and it can be undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retain
from retain.app import App, memories
from retain.app.banks import Banks
from retain.errors import BadName, Conflict, LimitExceeded, NotFound, RetainError, UsageError
from retain.memory import Written
from tests.guard_samples import TOKENS


@pytest.fixture
def memory(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """Three notes on one matter, and one that links to them."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    with retain.open("bank", background=False) as opened:
        opened.put("Tokens expire. See [[src/auth.py]].", id="auth-notes-1", tags=["auth", "bug"])
        opened.put("Tokens are signed. See [[other]].", id="auth-notes-2", tags=["auth"])
        opened.put("Keys rotate.", id="auth-notes-3", collection="keys", tags=["ops"])
        opened.put("Based on [[auth-notes-1]] and [[keys/auth-notes-3]].", id="other")
        yield opened


SOURCES = ["auth-notes-1", "auth-notes-2", "auth-notes-3"]
SUMMARY = (
    '---\ntype: "journal"\ntags: ["auth", "consolidated"]\n---\n\n'
    "# Auth Notes Consolidated\n\nKey insights from auth work..."
)


def files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path("bank").rglob("*") if path.is_file()}


def refs(memory: App, query: str) -> list[str]:
    return sorted(hit.ref for hit in memory.search(query).hits)


# The example of a merge that people know


def test_merge_keeps_what_its_sources_had(memory: App) -> None:
    merged = memory.merge(SOURCES, "auth-consolidated", SUMMARY)
    new = merged.written.memory
    assert (merged.written.status, new.ref) == ("merged", "memories/auth-consolidated")
    assert new.type == "journal"
    assert new.body.strip() == "# Auth Notes Consolidated\n\nKey insights from auth work..."
    assert [one.id for one in merged.trashed] == SOURCES
    assert all(Path(one.path).exists() for one in merged.trashed)
    assert sorted(one.ref for one in memory.list()) == [
        "memories/auth-consolidated",
        "memories/other",
    ]
    assert refs(memory, "insights consolidated") == ["memories/auth-consolidated"]
    for word in ("expire", "signed", "rotate"):
        assert refs(memory, word) == []


def test_names_of_earlier_merges_live_on_as_a_person_may_write_them(memory: App) -> None:
    memory.put("---\nmerged_from: first, second\n---\nText.", id="third")
    new = memory.merge(["third", "other"], "all", "All of it.").written.memory
    assert new.merged_from == ("memories/third", "first", "second", "memories/other")


def test_tags_links_and_names_live_on(memory: App) -> None:
    new = memory.merge(SOURCES, "auth", "All of it.").written.memory
    assert new.tags == ("auth", "bug", "ops")
    assert new.meta["merged_from"] == [
        "memories/auth-notes-1",
        "memories/auth-notes-2",
        "keys/auth-notes-3",
    ]
    assert set(new.related_to) == {"src/auth.py", "other"}
    assert [hit.id for hit in memory.linked("src/auth.py").hits] == ["auth"]
    for name in ("auth-notes-1", "memories/auth-notes-1", "keys/auth-notes-3", "auth"):
        assert [hit.id for hit in memory.linked(name).hits] == ["other"], name
    graph = memory.graph("other", 1)
    assert {(edge.source, edge.target) for edge in graph.edges} == {
        ("memories/other", "memories/auth"),
        ("memories/auth", "memories/other"),
    }


def test_collection_is_that_of_the_first_and_the_type_the_one_all_have(memory: App) -> None:
    for name, kind in (("a", "fact"), ("b", "fact"), ("c", "plan"), ("d", "fact")):
        memory.put(name, id=name, collection=kind, type=kind)
    facts = memory.merge(["a", "b"], "both", "a and b").written.memory
    assert (facts.ref, facts.type) == ("fact/both", "fact")
    mixed = memory.merge(["c", "d"], "elsewhere/both", "c and d").written.memory
    assert (mixed.ref, mixed.type) == ("elsewhere/both", "journal")


# All or nothing


@pytest.mark.parametrize(
    "sources, into, text, error",
    [
        ([], "new", "text", UsageError),
        (["auth-notes-1"], "new", "text", UsageError),
        (["auth-notes-1", "memories/auth-notes-1"], "new", "text", UsageError),
        (["auth-notes-1", "nothing"], "new", "text", NotFound),
        (["nothing"], "new", "text", NotFound),
        (SOURCES, "other", "text", Conflict),
        (SOURCES, "auth-notes-1", "text", Conflict),
        (SOURCES, "Other", "text", Conflict),
        (SOURCES, "../new", "text", BadName),
        (SOURCES, "", "text", UsageError),
        (SOURCES, "new", "", UsageError),
        (SOURCES, "new", "   \n", UsageError),
        (SOURCES, "new", "a\0b", UsageError),
        (SOURCES, "new", "\ud800", UsageError),
        (["../auth-notes-1"], "new", "text", RetainError),
        (SOURCES, "new", "x" * 3_000_000, LimitExceeded),
        (SOURCES, TOKENS[0][1], "text", UsageError),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_merge_that_cannot_be_done_changes_nothing(
    sources: list[str], into: str, text: str, error: type[RetainError], memory: App
) -> None:
    before = files()
    with pytest.raises(error):
        memory.merge(sources, into, text)
    assert files() == before
    assert refs(memory, "tokens") == ["memories/auth-notes-1", "memories/auth-notes-2"]


def test_merged_memory_says_what_stands_for_it_now(memory: App) -> None:
    memory.merge(["auth-notes-1", "keys/auth-notes-3"], "auth", "All of it.")
    memory.merge(["auth", "auth-notes-2"], "all", "All of it and more.")
    for ref in (
        "auth-notes-1",
        "Auth-Notes-1",
        "memories/auth-notes-1",
        "keys/auth-notes-3",
        "auth",
    ):
        with pytest.raises(NotFound, match=f"{ref} was merged into memories/all") as caught:
            memory.get(ref)
        assert caught.value.hint == "See: retain get memories/all"
        assert caught.value.details == {"merged_into": "memories/all"}
    with pytest.raises(NotFound, match="was merged into"):
        memory.update("auth-notes-1", "New.")
    for ref in ("elsewhere/auth-notes-1", "none", "None"):
        with pytest.raises(NotFound, match="there is no memory"):
            memory.get(ref)


# Undone


def test_what_was_merged_can_be_brought_back_and_owns_its_name_again(memory: App) -> None:
    before = {name: data for name, data in files().items() if ".trash" not in name}
    merged = memory.merge(SOURCES, "auth", "All of it.")
    app = App(bank="bank")
    for one in merged.trashed:
        app.untrash(one.name)
    edges = {(edge.source, edge.target) for edge in memory.graph("other", 1).edges}
    assert ("memories/other", "memories/auth-notes-1") in edges
    assert ("memories/other", "memories/auth") not in edges
    memory.delete("auth")
    app.close()
    after = {name: data for name, data in files().items() if ".trash" not in name}
    assert after == before
    assert refs(memory, "tokens") == ["memories/auth-notes-1", "memories/auth-notes-2"]
    assert [hit.id for hit in memory.linked("auth-notes-1").hits] == ["other"]


# Guarded


def test_secrets_do_not_come_in_by_a_merge(memory: App) -> None:
    kind, secret = TOKENS[0]
    merged = memory.merge(SOURCES[:2], "auth", f"The key is {secret} today.")
    assert f"[REDACTED:{kind}]" in merged.written.memory.body
    assert "REDACTED" in " ".join(merged.written.warnings)
    assert not any(secret.encode() in data for data in files().values())


def test_merge_is_one_commit(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.bank.test_git import new_project, run_git

    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    monkeypatch.setenv("RETAIN_VERSIONING_AUTO_COMMIT", "true")
    root = new_project(home / "work" / "project")
    monkeypatch.chdir(root)
    App().init()
    for name in ("a", "b"):
        App().put(name, id=name)
    merged = App().merge(["a", "b"], "ab", "both")
    assert merged.written.commit
    shown = run_git(root, "show", "--name-status", "--format=%s", "HEAD")
    assert "merge memories/a, memories/b into memories/ab" in str(shown)


def _files(app: App) -> dict[str, bytes]:
    folder = Path(app.location.root) / "memories"
    return {one.name: one.read_bytes() for one in sorted(folder.glob("*.md"))}


def _three(app: App) -> dict[str, bytes]:
    app.init()
    for name in ("one", "two", "three"):
        app.put(f"# {name}\n\nText of {name}.", id=name, collection="memories")
    return _files(app)


def test_several_become_one_under_the_name_of_the_first_unless_it_is_taken_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(bank=str(tmp_path / "bank"))
    _three(app)
    move = memories.move

    def move_late(banks: Banks, ref: str, **to: Any) -> Written:
        (tmp_path / "bank/memories/one.md").write_text("# Met", encoding="utf-8")
        return move(banks, ref, **to)

    keep, others = "memories/one", ["memories/two", "memories/three"]
    assert app.merge_into_first(keep, others).written.memory.ref == keep
    assert list(_files(app)) == ["one.md"]
    _three(app)
    monkeypatch.setattr(memories, "move", move_late)
    with pytest.raises(Conflict, match="memories/one cannot be its name") as caught:
        app.merge_into_first(keep, others)
    now = _files(app)
    assert now.pop("one.md") == b"# Met"
    (made,) = now.values()
    assert all(f"Text of {name}.".encode() in made for name in ("one", "two", "three"))
    assert "All the texts are in memories/one-" in caught.value.unchanged
    app.close()
