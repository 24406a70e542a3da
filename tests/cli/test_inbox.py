"""`retain inbox`: what sessions propose becomes a memory only when a person says so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.capture.proposals import DECISION, inbox
from tests.cli.door import call, done, types
from tests.crash import together

PREFERENCE = DECISION._replace(
    category="preference",
    title="Tabs",
    text="Always tabs.",
    created_at="2026-11-15T18:01:00Z",
)


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")
    return home / "work" / ".retain"


@pytest.fixture
def two(bank: Path) -> tuple[str, str]:
    """Two proposals that wait, the older one first."""
    return inbox(bank).propose(DECISION), inbox(bank).propose(PREFERENCE)


def answer(*words: str) -> Any:
    return json.loads(done("inbox", *words, "--json"))


def waiting(bank: Path) -> list[str]:
    return [one.title for one in inbox(bank).proposals()]


# Looking


def test_proposal_is_named_by_number_id_or_its_beginning(two: tuple[str, str], bank: Path) -> None:
    for ref in ("1", two[0], two[0][:8].upper(), two[0][:4]):
        shown = answer("show", ref)
        assert (shown["id"], "is gone" in shown["missing"]) == (two[0], True)
    done("inbox", "drop", two[0])
    assert answer("show", two[0])["title"] == "Use Postgres"
    done("inbox", "restore", two[0])
    file = Path(inbox(bank).path, f"{two[0]}.json")
    other = f"{two[0][:-1]}{'b' if two[0][-1] == 'a' else 'a'}.json"
    file.with_name(other).write_bytes(file.read_bytes())
    ran = call("inbox", "accept", two[0][:4])
    assert (ran.code, "several proposals" in ran.err) == (4, True)


@pytest.mark.parametrize("ref", ["0", "3", "ffffffff", "ab", "../x"])
def test_what_is_not_there_is_said_to_be(two: tuple[str, str], ref: str, bank: Path) -> None:
    for tool in ("show", "accept", "drop", "restore"):
        ran = call("inbox", tool, "--", ref)
        assert (ran.code, ran.out) == (3, "")
        assert "no proposal" in ran.err
        if ref == "ab":
            assert "by its number in the list, or by 4 characters of its id at least" in ran.err
    assert len(waiting(bank)) == 2


def test_show_has_the_text_and_what_was_said(bank: Path, home: Path) -> None:
    said = {"type": "user", "message": {"role": "user", "content": "Which \x1b[31mdatabase?"}}
    path = home / "s1.jsonl"
    path.write_text(json.dumps(said) + "\n", encoding="utf-8")
    name = inbox(bank).propose(
        DECISION._replace(transcript_path=str(path), start=0, end=path.stat().st_size)
    )
    shown = done("inbox", "show", "1")
    assert name in shown
    assert DECISION.text in shown
    assert "    Which \\x1b[31mdatabase?" in shown
    assert answer("show", "1")["messages"] == [{"role": "user", "text": "Which \x1b[31mdatabase?"}]


def test_words_of_a_session_are_inert_on_a_terminal(bank: Path) -> None:
    name = inbox(bank).propose(DECISION)
    file = Path(inbox(bank).path, f"{name}.json")
    fields = json.loads(file.read_bytes())
    evil = "a\x1b]52;c;aGk=\x07b\u202e\nc"
    for field in ("category", "title", "text", "host", "session_id", "event", "cwd"):
        fields[field] = evil
    file.write_text(json.dumps(fields), encoding="utf-8")
    for words in ((), ("show", "1"), ("accept", "1"), ("drop", "1"), ("list", "--dropped")):
        for style in ((), ("--json",)):
            ran = call("inbox", *words, *style)
            assert not re.search("[\x1b\x07\u202e]", ran.out + ran.err)


# Accepting


def test_accepted_proposal_is_a_typed_memory_that_says_where_it_is_from(
    two: tuple[str, str], bank: Path
) -> None:
    assert done("inbox", "accept", "1") == "Stored: decisions/use-postgres\n"
    memory = json.loads(done("get", "use-postgres", "--json"))
    assert memory["type"] == "decision"
    assert memory["tags"] == ["captured", "claude-code"]
    assert memory["metadata"]["content"]["decision"] == "Use Postgres"
    assert memory["metadata"]["source"] == (
        f"claude-code session {DECISION.session_id}, /nowhere/s1.jsonl bytes 10-90"
    )
    assert waiting(bank) == ["Tabs"]
    assert inbox(bank).propose(DECISION) == two[0]
    assert waiting(bank) == ["Tabs"]


def test_memory_that_is_near_is_named(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
    inbox(bank).propose(DECISION)
    done("inbox", "accept", "1")
    inbox(bank).propose(DECISION._replace(title="Use Postgres everywhere", session_id="s2"))
    ran = done("inbox", "accept", "1")
    assert "Near to it: .retain/decisions/use-postgres.md (Use Postgres)" in ran


def test_same_title_with_other_words_is_refused_and_stays(two: tuple[str, str], bank: Path) -> None:
    done("inbox", "accept", "1")
    before = (bank / "decisions/use-postgres.md").read_bytes()
    inbox(bank).propose(DECISION._replace(text="Something else.", session_id="s2"))
    ran = call("inbox", "accept", "--all", "--json")
    told = json.loads(ran.out)
    assert ran.code == 4
    assert [one["id"] for one in told["accepted"]] == ["tabs"]
    assert [one["code"] for one in told["refused"]] == ["conflict"]
    assert "use-postgres is there already" in ran.err
    assert waiting(bank) == ["Use Postgres"]
    assert (bank / "decisions/use-postgres.md").read_bytes() == before


def test_two_people_accepting_at_once_make_one_memory(two: tuple[str, str], bank: Path) -> None:
    outcomes = together([lambda: call("inbox", "accept", two[0]).out] * 4)
    assert any("Stored: decisions/use-postgres" in str(one.value) for one in outcomes)
    assert len(list((bank / "decisions").glob("*.md"))) == 1
    assert waiting(bank) == ["Tabs"]


def test_long_titles_that_end_differently_are_two_memories(bank: Path, editor: Path) -> None:
    title = "We take the storage engine that was proposed by the team at the offsite in autumn, "
    for end in ("Postgres", "SQLite"):
        inbox(bank).propose(DECISION._replace(title=f"{title}{end}", session_id=end))
    types(editor, "sed -i 's/^=== keep/=== accept/' \"$1\"")
    (first, second) = answer("edit")["accepted"]
    assert len({first["id"], second["id"]}) == 2
    assert first["id"].startswith(second["id"].rpartition("-")[0])
    assert waiting(bank) == []
    # The same title again is still the same memory, which says something else.
    inbox(bank).propose(DECISION._replace(title=f"{title}Postgres", text="Other.", session_id="x"))
    assert call("inbox", "accept", "1").code == 4


@pytest.mark.parametrize("tool", ["accept", "drop", "restore"])
def test_ids_or_all_but_not_both_and_not_none(two: tuple[str, str], tool: str, bank: Path) -> None:
    for words in ((), ("1", "--all")):
        ran = call("inbox", tool, *words)
        assert (ran.code, ran.out) == (2, "")
    assert len(waiting(bank)) == 2


# Editing


def test_plan_in_the_editor_is_carried_out(two: tuple[str, str], bank: Path, editor: Path) -> None:
    inbox(bank).propose(DECISION._replace(category="constraint", title="Limit", created_at="2027"))
    types(
        editor,
        f"sed -i -e 's/^=== keep {two[0]}/=== accept {two[0]}/' -e 's/^=== keep {two[1]}/=== d "
        f"{two[1]}/' -e 's/^title: Limit/title: Hard limit/' -e 's/enough/plenty/' \"$1\"",
    )
    told = answer("edit")
    assert [one["id"] for one in told["accepted"]] == ["use-postgres"]
    assert told["dropped"] == [two[1]]
    assert told["refused"] == []
    assert "plenty" in done("get", "use-postgres")
    (left,) = inbox(bank).proposals()
    assert (left.title, left.text) == ("Hard limit", DECISION.text.replace("enough", "plenty"))
    assert [one.title for one in inbox(bank).proposals(dropped=True)] == ["Tabs"]


def test_plan_that_cannot_be_understood_does_nothing_and_is_kept(
    two: tuple[str, str], bank: Path, editor: Path
) -> None:
    types(editor, "sed -i 's/^title: Tabs/title:/' \"$1\"")
    ran = call("inbox", "edit")
    assert (ran.code, ran.out) == (1, "")
    assert "it has no title" in ran.err
    assert "Nothing was done." in ran.err
    kept = re.search(r"Your text is in (\S+)\.", ran.err)
    assert kept
    assert "Always tabs." in Path(kept[1]).read_text(encoding="utf-8")
    assert waiting(bank) == ["Use Postgres", "Tabs"]


@pytest.mark.parametrize(
    "change, fault, left",
    [
        ("s/^category: preference/category: gossip/; s/keep/a/", "no category 'gossip'", ["Tabs"]),
        ("s/^category: preference/category: gossip/", "'gossip'", ["Use Postgres", "Tabs"]),
        ("s/^title: Use Postgres/title: Taken/; s/keep/a/", "taken is there already", ["Taken"]),
        (
            "s/^category: p.*/category: decision/; s/^title: Tabs/title: Use Postgres/; s/keep/a/",
            "use-postgres is there already",
            ["Use Postgres"],
        ),
    ],
)
def test_step_that_is_refused_stops_no_other_and_the_text_is_kept(
    two: tuple[str, str], bank: Path, editor: Path, change: str, fault: str, left: list[str]
) -> None:
    done("inbox", "accept", inbox(bank).propose(DECISION._replace(title="Taken", text="Another.")))
    types(editor, f"sed -i '{change}' \"$1\"")
    ran = call("inbox", "edit")
    assert ran.code > 0
    assert fault in ran.err
    assert re.search(r"Your text is in (\S+)\.", ran.err)
    assert waiting(bank) == left


def test_kept_plan_is_taken_up_from_its_file(
    two: tuple[str, str], bank: Path, editor: Path
) -> None:
    types(editor, f"sed -i 's/^=== keep {two[0]}/=== acept {two[0]}/' \"$1\"")
    ran = call("inbox", "edit")
    kept = re.search(r"`retain inbox edit --file (\S+)` takes it up", ran.err)
    assert kept
    path = Path(kept[1])
    ran = call("inbox", "edit", "--file", str(path))
    assert ran.code == 1
    assert "'acept' is none of" in ran.err
    assert f"Mend {path}" in ran.err
    path.write_text(path.read_text(encoding="utf-8").replace("acept", "accept"), encoding="utf-8")
    assert "Stored: decisions/use-postgres" in done("inbox", "edit", "--file", str(path))
    assert waiting(bank) == ["Tabs"]
    assert call("inbox", "edit", "--file", "nowhere.txt").code == 3
