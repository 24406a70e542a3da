"""`retain inbox`: what sessions propose becomes a memory only when a person says so."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from retain.capture import inbox
from retain.capture.inbox import Proposal, proposals, propose
from retain.model import TYPED
from tests.capture.proposals import DECISION
from tests.cli.door import call, done, types
from tests.cli.test_asking import answered
from tests.conftest import Run
from tests.crash import together
from tests.typed.filing import FOLDERS

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
    return propose(str(bank), DECISION), propose(str(bank), PREFERENCE)


def answer(*words: str) -> Any:
    return json.loads(done("inbox", *words, "--json"))


def waiting(bank: Path) -> list[str]:
    return [one.title for one in proposals(str(bank))]


# Looking


def test_empty_inbox_is_one_friendly_line() -> None:
    ran = call("inbox")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "The inbox is empty: nothing waits to be reviewed.\n"
    assert answer() == []


def test_list_is_numbered_and_says_where_each_is_from(two: tuple[str, str]) -> None:
    head, first, second = done("inbox").splitlines()
    assert head.split() == ["#", "ID", "Category", "Age", "Title", "From"]
    assert first.split()[:3] == ["1", two[0][:8], "decision"]
    assert "Use Postgres" in first
    assert first.endswith("claude-code 3f2a9c1e stop")
    assert second.split()[:3] == ["2", two[1][:8], "preference"]
    assert done("inbox", "list") == done("inbox")
    assert done("inbox", "--quiet") == f"{two[0]}\n{two[1]}\n"


@pytest.mark.parametrize("ref", ["1", "whole", "short", "prefix"])
def test_proposal_is_named_by_number_id_or_its_beginning(two: tuple[str, str], ref: str) -> None:
    named = {"1": "1", "whole": two[0], "short": two[0][:8].upper(), "prefix": two[0][:4]}
    assert answer("show", named[ref])["id"] == two[0]


@pytest.mark.parametrize("ref", ["0", "3", "ffffffff", "ab", "../x", ""])
def test_what_is_not_there_is_said_to_be(two: tuple[str, str], ref: str, bank: Path) -> None:
    for tool in ("show", "accept", "drop", "restore"):
        ran = call("inbox", tool, "--", ref)
        assert (ran.code, ran.out) == (3, "")
        assert "no proposal" in ran.err
    assert len(waiting(bank)) == 2


def test_too_short_an_id_is_said_to_be(two: tuple[str, str]) -> None:
    ran = call("inbox", "show", "abc")
    assert ran.code == 3
    assert "by its number, or by 4 characters of its id at least" in ran.err


def test_list_ends_with_what_can_be_done(two: tuple[str, str]) -> None:
    assert "Next: retain inbox show 1, accept 1, drop 1 or edit\n" in call("inbox").err
    elsewhere = call("inbox", "--bank", ".retain").err
    assert "retain inbox --bank .retain show 1" in elsewhere
    assert call("inbox", "--bank", ".retain", "show", "1").code == 0
    assert call("inbox", "--quiet").err == ""
    done("inbox", "drop", "--all")
    assert "retain inbox restore 1" in call("inbox", "list", "--dropped").err


def test_where_a_proposal_is_from_gives_way_to_its_title(bank: Path) -> None:
    one = DECISION._replace(title="Use Postgres for everything", session_id="0123456789")
    propose(str(bank), one._replace(category="session_summary", event="session-end"))
    _, screen = answered("", "inbox")
    assert "Use Postgres for everything" in screen
    assert "claude-code 01234567 session-end" not in screen


def test_beginning_of_two_ids_is_ambiguous(bank: Path) -> None:
    told: dict[str, Proposal] = {}
    for number in range(10_000):
        one = DECISION._replace(text=f"Text {number}")
        beginning = inbox._name(one)[:4]
        if beginning in told:
            break
        told[beginning] = one
    for twin in (told[beginning], one):
        assert propose(str(bank), twin).startswith(beginning)
    ran = call("inbox", "accept", beginning)
    assert ran.code == 4
    assert "several proposals" in ran.err


def test_show_has_the_text_and_what_was_said(bank: Path, tmp_path: Path) -> None:
    said = {"type": "user", "message": {"role": "user", "content": "Which \x1b[31mdatabase?"}}
    path = tmp_path / "s1.jsonl"
    path.write_text(json.dumps(said) + "\n", encoding="utf-8")
    name = propose(
        str(bank), DECISION._replace(transcript_path=str(path), start=0, end=path.stat().st_size)
    )
    shown = done("inbox", "show", "1")
    assert name in shown
    assert DECISION.text in shown
    assert "    Which \\x1b[31mdatabase?" in shown
    assert answer("show", "1")["messages"] == [{"role": "user", "text": "Which \x1b[31mdatabase?"}]


def test_show_says_that_the_transcript_is_gone(two: tuple[str, str]) -> None:
    assert "The transcript cannot be shown: /nowhere/s1.jsonl is gone" in done("inbox", "show", "1")
    assert "is gone" in answer("show", "1")["missing"]


def test_dropped_proposal_can_be_looked_at(two: tuple[str, str]) -> None:
    done("inbox", "drop", two[0])
    assert answer("show", two[0])["title"] == "Use Postgres"


def test_planted_words_are_inert_on_a_terminal(bank: Path) -> None:
    """A file with our own permissions may still hold anything."""
    name = propose(str(bank), DECISION)
    file = bank / ".inbox" / f"{name}.json"
    fields = json.loads(file.read_bytes())
    evil = "a\x1b]52;c;aGk=\x07b\u202e\nc"
    for field in ("category", "title", "text", "host", "session_id", "event", "cwd"):
        fields[field] = evil
    file.write_text(json.dumps(fields), encoding="utf-8")
    for words in ((), ("show", "1"), ("accept", "1"), ("drop", "1"), ("list", "--dropped")):
        for style in ((), ("--json",)):
            ran = call("inbox", *words, *style)
            assert not re.search("[\x1b\x07\u202e]", ran.out + ran.err)


def test_file_that_is_not_our_own_is_named_and_left_alone(two: tuple[str, str], bank: Path) -> None:
    file = bank / ".inbox" / f"{two[0]}.json"
    file.chmod(0o644)
    ran = call("inbox")
    assert "Use Postgres" not in ran.out
    assert str(file) in ran.err
    assert "not private" in done("status")
    assert file.exists()


def test_linked_inbox_is_refused(bank: Path, tmp_path: Path) -> None:
    (bank / ".inbox").symlink_to(tmp_path)
    assert call("inbox").code == 1
    assert "symbolic link" in done("status")


def test_status_says_how_many_wait(two: tuple[str, str]) -> None:
    assert "Inbox:       2 proposals to review: retain inbox\n" in done("status")
    assert json.loads(done("status", "--json"))["proposals"] == 2
    done("inbox", "drop", "--all")
    assert "Inbox:" not in done("status")


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
    assert propose(str(bank), DECISION) == two[0]
    assert waiting(bank) == ["Tabs"]


def test_home_is_not_named_in_a_memory_that_may_be_shared(bank: Path, home: Path) -> None:
    propose(str(bank), DECISION._replace(transcript_path=f"{home}/.claude/s1.jsonl"))
    done("inbox", "accept", "1")
    assert str(home) not in (bank / "decisions/use-postgres.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("category", TYPED)
def test_every_category_is_accepted_in_both_formats(category: str, bank: Path, home: Path) -> None:
    store = home / "work" / "other" / ".claude" / "memory"
    store.mkdir(parents=True)
    (store / "memory-config.json").write_text("{}", encoding="utf-8")
    for root in (bank, store):
        propose(str(root), DECISION._replace(category=category))
        at = ("--bank", str(root))
        (one,) = answer("accept", "--all", *at)["accepted"]
        assert (one["status"], one["collection"]) == ("created", FOLDERS[category])
        assert json.loads(done("status", "--json", *at))["problems"] == []
        assert waiting(root) == []


def test_json_record_has_its_source_in_its_history(home: Path) -> None:
    store = home / "work" / "other" / ".claude" / "memory"
    store.mkdir(parents=True)
    (store / "memory-config.json").write_text("{}", encoding="utf-8")
    propose(str(store), DECISION)
    done("inbox", "accept", "1", "--bank", str(store))
    record = json.loads((store / "decisions/use-postgres.json").read_bytes())
    (entry,) = record["changes"]
    assert (entry["field"], DECISION.session_id in entry["summary"]) == ("source", True)
    assert entry["new_value"].endswith("/nowhere/s1.jsonl bytes 10-90")


def test_memory_that_is_near_is_named(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
    propose(str(bank), DECISION)
    done("inbox", "accept", "1")
    propose(str(bank), DECISION._replace(title="Use Postgres everywhere", session_id="s2"))
    ran = done("inbox", "accept", "1")
    assert "Near to it: .retain/decisions/use-postgres.md (Use Postgres)" in ran


def test_same_title_with_other_words_is_refused_and_stays(two: tuple[str, str], bank: Path) -> None:
    done("inbox", "accept", "1")
    before = (bank / "decisions/use-postgres.md").read_bytes()
    propose(str(bank), DECISION._replace(text="Something else.", session_id="s2"))
    ran = call("inbox", "accept", "--all", "--json")
    told = json.loads(ran.out)
    assert ran.code == 4
    assert [one["id"] for one in told["accepted"]] == ["tabs"]
    assert [one["code"] for one in told["refused"]] == ["conflict"]
    assert "use-postgres is there already" in ran.err
    assert waiting(bank) == ["Use Postgres"]
    assert (bank / "decisions/use-postgres.md").read_bytes() == before


def test_accept_that_was_cut_short_is_finished_by_the_next(
    two: tuple[str, str], bank: Path
) -> None:
    done("inbox", "accept", "1")
    file = f"{two[0]}.json"
    (bank / ".inbox/accepted" / file).rename(bank / ".inbox" / file)
    assert done("inbox", "accept", two[0]) == "There already: decisions/use-postgres\n"
    assert waiting(bank) == ["Tabs"]


def test_two_people_accepting_at_once_make_one_memory(two: tuple[str, str], bank: Path) -> None:
    outcomes = together([lambda: call("inbox", "accept", two[0]).out] * 4)
    assert any("Stored: decisions/use-postgres" in str(one.value) for one in outcomes)
    assert len(list((bank / "decisions").glob("*.md"))) == 1
    assert waiting(bank) == ["Tabs"]


def test_sessions_with_one_goal_are_two_memories(bank: Path) -> None:
    for text in ("- did one thing", "- did another"):
        propose(str(bank), DECISION._replace(category="session_summary", text=text))
    (first, second) = answer("accept", "--all")["accepted"]
    assert first["id"] == "use-postgres"
    assert re.fullmatch("use-postgres-[0-9a-f]{8}", second["id"])


def test_long_titles_that_end_differently_are_two_memories(bank: Path, editor: Path) -> None:
    title = "We take the storage engine that was proposed by the team at the offsite in autumn, "
    for end in ("Postgres", "SQLite"):
        propose(str(bank), DECISION._replace(title=f"{title}{end}", session_id=end))
    types(editor, "sed -i 's/^=== keep/=== accept/' \"$1\"")
    (first, second) = answer("edit")["accepted"]
    assert len({first["id"], second["id"]}) == 2
    assert first["id"].startswith(second["id"].rpartition("-")[0])
    assert waiting(bank) == []
    # The same title again is still the same memory, which says something else.
    propose(str(bank), DECISION._replace(title=f"{title}Postgres", text="Other.", session_id="x"))
    assert call("inbox", "accept", "1").code == 4


def test_unknown_category_is_refused_with_those_there_are(bank: Path) -> None:
    propose(str(bank), DECISION._replace(category="gossip"))
    ran = call("inbox", "accept", "1")
    assert ran.code == 2
    assert "no category 'gossip'" in ran.err
    assert "decision" in ran.err
    assert len(waiting(bank)) == 1


def test_category_of_ones_own_is_accepted(bank: Path) -> None:
    with (bank / "config.toml").open("a", encoding="utf-8") as file:
        file.write('[categories.incident]\nfolder = "incidents"\n')
    propose(str(bank), DECISION._replace(category="incident"))
    assert done("inbox", "accept", "1") == "Stored: incidents/use-postgres\n"


@pytest.mark.parametrize("tool", ["accept", "drop", "restore"])
def test_ids_or_all_but_not_both_and_not_none(two: tuple[str, str], tool: str, bank: Path) -> None:
    for words in ((), ("1", "--all")):
        ran = call("inbox", tool, *words)
        assert (ran.code, ran.out) == (2, "")
    assert len(waiting(bank)) == 2


def test_quiet_accept_prints_what_was_stored(two: tuple[str, str]) -> None:
    printed = done("inbox", "accept", "--all", "--quiet")
    assert printed == "decisions/use-postgres\npreferences/tabs\n"


# Dropping and restoring


def test_dropped_proposals_are_listed_and_restored(two: tuple[str, str], bank: Path) -> None:
    ran = call("inbox", "drop", "2", two[0])
    assert sorted(ran.out.splitlines()) == [
        f"Dropped: {two[0][:8]} Use Postgres" if two[0] < two[1] else f"Dropped: {two[1][:8]} Tabs",
        f"Dropped: {two[1][:8]} Tabs" if two[0] < two[1] else f"Dropped: {two[0][:8]} Use Postgres",
    ]
    assert "retain inbox restore" in ran.err
    assert [row["id"] for row in answer("list", "--dropped")] == list(two)
    assert done("inbox", "restore", "1") == f"Restored: {two[0][:8]} Use Postgres\n"
    assert waiting(bank) == ["Use Postgres"]
    assert answer("restore", "--all")["restored"] == [two[1]]


# Editing


def test_plan_in_the_editor_is_carried_out(two: tuple[str, str], bank: Path, editor: Path) -> None:
    propose(str(bank), DECISION._replace(category="constraint", title="Limit", created_at="2027"))
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
    (left,) = proposals(str(bank))
    assert (left.title, left.text) == ("Hard limit", DECISION.text.replace("enough", "plenty"))
    assert [one.title for one in proposals(str(bank), dropped=True)] == ["Tabs"]


def test_only_the_named_proposals_are_in_the_file(two: tuple[str, str], editor: Path) -> None:
    types(editor, 'cp "$1" seen.txt')
    told = answer("edit", "2")
    assert told["kept"] == [two[1]]
    text = Path("seen.txt").read_text(encoding="utf-8")
    assert f"=== keep {two[1]}\n" in text
    assert two[0] not in text


@pytest.mark.parametrize("script", [': > "$1"', "sed -i '/^[^#]/d' \"$1\""])
def test_emptied_file_does_nothing(
    two: tuple[str, str], bank: Path, editor: Path, script: str
) -> None:
    types(editor, script)
    assert done("inbox", "edit") == "Nothing was done.\n"
    assert waiting(bank) == ["Use Postgres", "Tabs"]


def test_untouched_file_keeps_everything(two: tuple[str, str], bank: Path, editor: Path) -> None:
    before = {path: path.stat() for path in (bank / ".inbox").iterdir()}
    assert answer("edit")["kept"] == list(two)
    assert {path: path.stat() for path in (bank / ".inbox").iterdir()} == before
    assert not list(editor.parent.glob("retain-edit-*"))


@pytest.mark.parametrize(
    "change, fault",
    [
        ("s/^=== keep/=== frob/", "'frob' is none of keep, accept, drop"),
        ("s/^category: preference/category: gossip/; s/keep/accept/", "no category 'gossip'"),
        ("s/^category: preference/category: gossip/", "no category 'gossip'"),
        (f"s/^title: Tabs/title: {'x' * 130}/; s/keep/accept/", "120 characters"),
        ("s/^title: Tabs/title:/", "it has no title"),
        (
            "s/^category: p.*/category: decision/; s/^title: Tabs/title: Use Postgres/; s/keep/a/",
            "is to become decisions/use-postgres as well",
        ),
    ],
)
def test_broken_plan_does_nothing_and_is_kept(
    two: tuple[str, str], bank: Path, editor: Path, change: str, fault: str
) -> None:
    types(editor, f"sed -i '{change}' \"$1\"")
    ran = call("inbox", "edit")
    assert (ran.code, ran.out) == (1, "")
    assert fault in ran.err
    assert "Nothing was done." in ran.err
    kept = re.search(r"Your text is in (\S+)\.", ran.err)
    assert kept
    assert "Always tabs." in Path(kept[1]).read_text(encoding="utf-8")
    assert waiting(bank) == ["Use Postgres", "Tabs"]
    assert not (bank / "decisions").exists()
    assert not (bank / "preferences").exists()


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


@pytest.mark.slow
def test_typo_on_a_terminal_may_be_mended(two: tuple[str, str], bank: Path, editor: Path) -> None:
    types(
        editor,
        f'if [ -e ~/again ]; then sed -i s/acept/accept/ "$1"; exit; fi; touch ~/again\n'
        f"sed -i 's/^=== keep {two[0]}/=== acept {two[0]}/' \"$1\"",
    )
    code, screen = answered("y", "inbox", "edit")
    assert code == 0, screen
    assert "Edit it again? [Y/n]" in screen
    assert waiting(bank) == ["Tabs"]


def test_no_terminal_and_no_editor_is_refused(two: tuple[str, str], bank: Path, run: Run) -> None:
    ran = run("inbox", "edit")
    assert ran.code == 1
    assert "there is no terminal to edit on" in ran.err
    assert "EDITOR" in ran.err
    assert len(waiting(bank)) == 2


def test_plan_over_a_memory_that_says_something_else_is_refused_first(
    two: tuple[str, str], bank: Path, editor: Path
) -> None:
    done("inbox", "accept", "1")
    propose(str(bank), DECISION._replace(text="Something else.", session_id="s2"))
    types(editor, "sed -i 's/^=== keep/=== accept/' \"$1\"")
    ran = call("inbox", "edit")
    assert ran.code == 1
    assert "use-postgres is there already" in ran.err
    assert waiting(bank) == ["Use Postgres", "Tabs"]


def test_editor_that_fails_does_nothing(two: tuple[str, str], bank: Path, editor: Path) -> None:
    types(editor, 'sed -i s/keep/accept/ "$1"; exit 3')
    ran = call("inbox", "edit")
    assert ran.code == 1
    assert "ended with code 3" in ran.err
    assert "The inbox is as it was." in ran.err
    assert len(waiting(bank)) == 2


@pytest.mark.slow
def test_what_another_did_meanwhile_is_reported_and_the_text_is_kept(
    two: tuple[str, str], bank: Path, editor: Path, run: Run
) -> None:
    types(
        editor,
        f"mv {bank}/.inbox/{two[0]}.json {bank}/.inbox/gone.json\n"
        "sed -i -e 's/^=== keep/=== accept/' -e 's/enough/plenty/' \"$1\"",
    )
    ran = run("inbox", "edit", "--json")
    told = json.loads(ran.out)
    assert ran.code == 3
    assert [one["id"] for one in told["accepted"]] == ["tabs"]
    assert [one["id"] for one in told["refused"]] == [two[0]]
    kept = re.search(r"Your text is in (\S+)\.", ran.err)
    assert kept
    assert "plenty" in Path(kept[1]).read_text(encoding="utf-8")


def test_empty_inbox_opens_no_editor(editor: Path) -> None:
    types(editor, "touch opened")
    ran = call("inbox", "edit")
    assert (ran.code, ran.out) == (0, "")
    assert "The inbox is empty" in ran.err
    assert not Path("opened").exists()


def test_memory_that_is_switched_off_has_no_inbox_to_review(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_MEMORY_ENABLED", "false")
    assert call("inbox", "accept", "--all").code == 1


def test_secret_in_an_edited_text_is_not_stored(
    two: tuple[str, str], bank: Path, editor: Path
) -> None:
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    types(editor, f"sed -i -e 's/^=== keep/=== accept/' -e 's/enough/enough {token}/' \"$1\"")
    done("inbox", "edit", "1")
    files = [
        path.read_text(encoding="utf-8")
        for path in bank.rglob("*.*")
        if path.is_file() and path.suffix in (".md", ".json")
    ]
    assert not any(token in text for text in files)
    assert os.path.exists(bank / "decisions/use-postgres.md")
