"""Memories that say nearly the same: found when written, and proposed; nothing is done unasked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import retain
from retain.app import App
from retain.index.embed import MINILM
from retain.search.duplicates import Cluster, Proposal

PAIRS = {  # what is said first, what is said later, and what that is
    "skiing": ("JR loves skiing", "JR enjoys skiing at Taos", "supersede"),
    "port": (
        "The database listens on port 5432.",
        "The database listens on port 5433.",
        "supersede",
    ),
    "node": ("The build needs Node 18.", "The build needs Node 20.", "supersede"),
    "flags": (
        "Feature flags are enabled in production.",
        "Feature flags are not enabled in production.",
        "supersede",
    ),
    "drink": ("Anna prefers tea.", "Anna prefers coffee.", "supersede"),
    "limit": (
        "The API rate limit is 100 requests per minute.",
        "The API rate limit is 100 requests per minute",
        "merge",
    ),
}
UNRELATED = {
    "kettle": "Kettles boil water.",
    "tax": "The tax return is due in April.",
    "staging": "Staging runs on Ubuntu in Frankfurt.",
    "prod": "Invoices are written by Greta.",
}


@pytest.fixture
def memory(thinking: App) -> App:
    return thinking


def fill(memory: App) -> None:
    for day, (name, (old, new, _)) in enumerate(PAIRS.items(), 1):
        for text, which, month in ((new, "new", 2), (old, "old", 1)):  # written out of order
            fields = {"created_at": f"2026-{month:02}-{day:02}T00:00:00Z"}
            memory.put(text, id=f"{name}-{which}", metadata=fields)
    for name, text in UNRELATED.items():
        memory.put(text, id=name)


def alike(memory: App, name: str) -> dict[str, bool]:
    found = memory.alike("memories", name)
    return {one.member.id: one.is_same for one in found}


# Found when written


def test_fact_that_is_stated_again_is_found_when_it_is_put(memory: App) -> None:
    fill(memory)
    for name, (_, _, action) in PAIRS.items():
        assert alike(memory, f"{name}-new") == {f"{name}-old": action == "merge"}, name
        assert alike(memory, f"{name}-old") == {f"{name}-new": action == "merge"}, name
    for name in UNRELATED:
        assert alike(memory, name) == {}


def test_what_is_replaced_or_put_away_is_not_found_again(memory: App) -> None:
    memory.put("JR loves skiing", id="old", metadata={"superseded_by": "new"})
    memory.put("JR loves skiing!", id="shelf", metadata={"status": "archived"})
    memory.put("JR enjoys skiing at Taos", id="new")
    assert alike(memory, "new") == {}
    assert memory.dedupe() == []


def test_the_score_is_the_share_of_the_words_of_both(memory: App) -> None:
    memory.put("Deploy on Monday only.", id="short")
    longer = "only on Tuesday and after the review by the platform team."
    memory.put(f"We never deploy on Monday, {longer}", id="long")
    memory.put("The staging key: [REDACTED:aws-access-key]", id="staging")
    memory.put("Greta's laptop: [REDACTED:aws-access-key]", id="laptop")
    for name in ("short", "long", "staging", "laptop"):
        assert alike(memory, name) == {}
    memory.put("Flags are enabled here.", id="on")
    memory.put("Flags are not enabled here.", id="off")
    (opposite,) = memory.alike("memories", "on")
    (pair,) = memory.dedupe()
    assert 0.3 < pair.score < 0.9
    assert 0.3 < opposite.score < 0.9


def test_essays_are_not_compared_as_facts(memory: App) -> None:
    essay = "JR loves skiing in winter, and this is a long story about it. " * 12
    memory.put(essay, id="one")
    memory.put(essay, id="two")
    assert alike(memory, "two") == {}
    assert memory.dedupe() == []


def test_without_a_model_the_words_decide(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    with retain.open("bank", background=False) as memory:
        memory.put("JR loves skiing", id="a")
        memory.put("JR loves skiing", id="b")
        memory.put("JR enjoys skiing", id="c")
        assert alike(memory, "b") == {"a": True, "c": False}
        assert memory.dedupe() == []
        assert memory.suggest_merges() == []


# Which is newer


def stated(memory: App, *, created: str, first: int, second: int) -> Proposal:
    """The proposal for two facts of one second, by when their files were written."""
    for name, text, modified in (("a", "Node 18.", first), ("b", "Node 20.", second)):
        fields = {"created_at": created}
        path = memory.put(f"The build needs {text}", id=name, metadata=fields).memory.path
        os.utime(path, ns=(modified, modified))
    (found,) = memory.dedupe()
    return found


def test_of_two_facts_of_one_second_the_file_written_later_is_newer(memory: App) -> None:
    now = 1_790_000_000_000_000_000
    found = stated(memory, created="2026-09-21T00:00:00Z", first=now + 1000, second=now)
    assert (found.action, found.older.id, found.newer.id) == ("supersede", "b", "a")


def test_where_nobody_can_tell_which_fact_is_newer_a_merge_is_proposed(memory: App) -> None:
    now = 1_790_000_000_000_000_000
    found = stated(memory, created="2026-09-21T00:00:00Z", first=now, second=now)
    assert (found.action, found.reason) == (
        "merge",
        "they state the same fact, and nobody can tell which is newer",
    )


def test_dates_are_compared_as_moments_and_not_as_text(memory: App) -> None:
    memory.put("The build needs Node 18.", id="a", metadata={"created_at": "2026-05-01T01:00:00Z"})
    later = {"created_at": "2026-04-30T23:00:00-05:00"}
    memory.put("The build needs Node 20.", id="b", metadata=later)
    (found,) = memory.dedupe()
    assert (found.older.id, found.newer.id) == ("a", "b")


# Proposals


def test_pairs_are_proposed_as_superseding_or_merging(memory: App) -> None:
    fill(memory)
    proposed = {(one.older.id, one.newer.id): one.action for one in memory.dedupe()}
    assert proposed == {
        (f"{name}-old", f"{name}-new"): action for name, (_, _, action) in PAIRS.items()
    }
    scores = [one.score for one in memory.dedupe()]
    assert scores == sorted(scores, reverse=True)
    assert all(one.reason for one in memory.dedupe())
    assert len(memory.list()) == 2 * len(PAIRS) + len(UNRELATED)


def test_what_a_memory_says_it_replaces_is_not_proposed_again(memory: App) -> None:
    memory.put("The build needs Node 18.", id="old")
    memory.put("The build needs Node 20. This replaces [[old]].", id="new")
    assert memory.dedupe() == []
    assert memory.alike("memories", "new") == []


# Clusters


JOURNALS = {
    "login-1": "Fixed the login bug: the session cookie had no SameSite attribute.",
    "login-2": "Fixed the login bug, the session cookie lacked a SameSite attribute.",
    "login-3": "Login bug fixed: session cookie was missing its SameSite attribute.",
    "deploy-1": "Deployed version two to production without problems.",
    "deploy-2": "Deployed version two to production with no problems.",
    "bread": "Baked bread with rye flour.",
}


@pytest.fixture
def journals(memory: App) -> App:
    for name, text in JOURNALS.items():
        memory.put(text, id=name)
    memory.put(JOURNALS["login-1"], id="fact", type="fact")
    return memory


def ids(cluster: Cluster) -> list[str]:
    return [member.id for member in cluster.members]


def test_groups_are_those_of_document_003(journals: App) -> None:
    found = journals.suggest_merges()
    assert sorted(map(ids, found)) == [["deploy-1", "deploy-2"], ["login-1", "login-2", "login-3"]]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    member = found[0].members[0]
    assert member.path == str(Path("bank/memories", f"{member.id}.md").absolute())
    assert member.preview == JOURNALS[member.id]


def test_groups_are_connected_directly_or_by_way_of_others(memory: App) -> None:
    chain = [
        "Fixed the login bug in the session cookie.",
        "Fixed the login bug.",
        "Fixed the login page design.",
    ]
    for number, text in enumerate(chain):
        memory.put(text, id=f"n{number}")
    vectors = MINILM.embed(chain)
    first, second, across = (float(vectors[a] @ vectors[b]) for a, b in ((0, 1), (1, 2), (0, 2)))
    threshold = (second + across) / 2
    assert first > second > threshold + 0.01 > across + 0.02
    (cluster,) = memory.suggest_merges(threshold)
    assert ids(cluster) == ["n0", "n1", "n2"]
    assert cluster.score == pytest.approx((first + second) / 2, abs=0.005)


def test_only_the_type_asked_for_is_grouped(journals: App) -> None:
    assert all("fact" not in ids(one) for one in journals.suggest_merges())
    assert journals.suggest_merges(type="fact") == []
    assert journals.suggest_merges(type="plan") == []
    journals.put(JOURNALS["login-2"], id="fact-2", type="fact")
    assert [ids(one) for one in journals.suggest_merges(type="fact")] == [["fact", "fact-2"]]
    (login,) = (one for one in journals.suggest_merges(type="") if "login-1" in ids(one))
    assert {"fact", "fact-2"} <= set(ids(login))


def test_retired_memories_are_in_no_group(memory: App) -> None:
    memory.put("The very same text.", id="a")
    memory.put("The very same text.", id="b", metadata={"status": "retired"})
    assert memory.suggest_merges() == []
    assert memory.dedupe() == []
