"""Proposals on disk: private, whole, each once, and never more than text a person reads."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retain import machine
from retain.capture import inbox
from retain.capture.inbox import drop, proposals, propose, restore, revise
from retain.errors import Conflict, LimitExceeded, NotFound, NotSaved, Unsafe
from tests.capture.proposals import DECISION
from tests.crash import Outcome, failing, in_child, killed_at, new_bank, together

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "bank"
    new_bank(path)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_proposal_comes_back_as_it_was_given(root: Path) -> None:
    name = propose(str(root), DECISION)
    assert len(name) == 16
    assert proposals(str(root)) == [DECISION._replace(id=name)]


def test_files_are_private_and_hidden_from_git(root: Path) -> None:
    before = os.umask(0)
    try:
        name = propose(str(root), DECISION)
    finally:
        os.umask(before)
    folder = root / ".inbox"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / f"{name}.json").stat().st_mode) == 0o600
    assert (folder / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert names(folder) == [".gitignore", f"{name}.json"]


def test_same_words_of_the_same_session_are_one_proposal(root: Path) -> None:
    first = propose(str(root), DECISION)
    file = root / ".inbox" / f"{first}.json"
    before = file.stat()
    later = DECISION._replace(created_at="2026-11-16T18:00:00Z", score=0.9)
    assert propose(str(root), later) == first
    assert file.stat() == before
    others = [
        propose(str(root), DECISION._replace(session_id="s2")),
        propose(str(root), DECISION._replace(category="preference")),
        propose(str(root), DECISION._replace(text="Something else.")),
    ]
    assert len({first, *others}) == 4


def test_what_a_person_has_decided_on_does_not_come_again(root: Path) -> None:
    name = propose(str(root), DECISION)
    drop(str(root), name)
    assert propose(str(root), DECISION) == name
    assert proposals(str(root)) == []
    restore(str(root), name)
    inbox.accepted(str(root), name)
    assert propose(str(root), DECISION) == name
    assert proposals(str(root)) == []


def test_oldest_come_first_and_those_of_one_second_as_they_came(root: Path) -> None:
    for title in "bcde":
        propose(str(root), DECISION._replace(title=title, text=title))
        time.sleep(0.002)  # a file system's clock may stand still for a moment
    propose(str(root), DECISION._replace(title="a", text="a", created_at="2025-01-01T00:00:00Z"))
    assert [one.title for one in proposals(str(root))] == list("abcde")


def test_secrets_and_terminal_sequences_are_never_written(root: Path) -> None:
    text = (
        f"\x1b[31mred\x1b[0m \x1b]0;title\x07token={TOKEN[:8]}\x1b[1m{TOKEN[8:]}\u202e end\r\nnext"
    )
    name = propose(str(root), DECISION._replace(title=f"Keep\n{TOKEN}\x07", text=text))
    data = (root / ".inbox" / f"{name}.json").read_bytes()
    assert TOKEN.encode() not in data
    assert b"\x1b" not in data
    assert b"\\u001b" not in data
    (one,) = proposals(str(root))
    assert one.title == "Keep [REDACTED:github-token]"
    assert one.text == "red token=[REDACTED:github-token] end\nnext"


def test_half_a_character_and_endless_text_are_made_fit(root: Path) -> None:
    propose(str(root), DECISION._replace(title="", text="\ud83d first line\n" + "x" * 200_000))
    (one,) = proposals(str(root))
    assert one.title == "? first line"
    assert len(one.text) == inbox.LONGEST
    assert one.text.endswith("…")


def test_numbers_that_json_does_not_know_are_made_fit(root: Path) -> None:
    propose(str(root), DECISION._replace(score=float("nan"), start=-5, end=-1))
    (one,) = proposals(str(root))
    assert (one.score, one.start, one.end) == (0.0, 0, 0)


def test_count_is_of_what_waits_and_is_ours(root: Path) -> None:
    assert inbox.count(str(root)) == 0
    first, second = (propose(str(root), DECISION._replace(text=text)) for text in "ab")
    assert inbox.count(str(root)) == 2
    drop(str(root), first)
    (root / ".inbox" / f"{second}.json").chmod(0o644)
    assert inbox.count(str(root)) == 0


def test_time_is_filled_in_where_none_is_given(root: Path) -> None:
    propose(str(root), DECISION._replace(created_at=""))
    assert proposals(str(root))[0].created_at.endswith("Z")


def test_full_inbox_refuses_the_newest_and_deletes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MOST", 3)
    kept = [propose(str(root), DECISION._replace(text=str(number))) for number in range(3)]
    with pytest.raises(LimitExceeded, match="3 proposals wait"):
        propose(str(root), DECISION)
    assert {one.id for one in proposals(str(root))} == set(kept)
    assert propose(str(root), DECISION._replace(text="1")) == kept[1]
    drop(str(root), kept[0])
    propose(str(root), DECISION)


def test_bank_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        propose(str(tmp_path / "nowhere"), DECISION)
    assert proposals(str(tmp_path / "nowhere")) == []
    assert not (tmp_path / "nowhere").exists()


def test_reading_makes_no_inbox(root: Path) -> None:
    assert proposals(str(root)) == []
    assert not (root / ".inbox").exists()


# Dropped, restored, revised


def test_dropped_proposal_can_be_restored(root: Path) -> None:
    name = propose(str(root), DECISION)
    drop(str(root), name)
    assert proposals(str(root)) == []
    assert [one.id for one in proposals(str(root), dropped=True)] == [name]
    restore(str(root), name)
    assert [one.id for one in proposals(str(root))] == [name]
    assert proposals(str(root), dropped=True) == []


@pytest.mark.parametrize("name", ["0123456789abcdef", "../config", "x" * 16, ""])
def test_what_is_not_there_cannot_be_dropped(root: Path, name: str) -> None:
    propose(str(root), DECISION)
    for step in (drop, restore, inbox.accepted):
        with pytest.raises(NotFound):
            step(str(root), name)
    assert (root / "config.toml").exists()


def test_drop_that_was_stopped_between_two_names_ends_with_one(root: Path) -> None:
    name = propose(str(root), DECISION)
    drop(str(root), name)
    file = f"{name}.json"
    os.link(root / ".inbox/dropped" / file, root / ".inbox" / file)
    drop(str(root), name)
    assert proposals(str(root)) == []
    assert len(proposals(str(root), dropped=True)) == 1


def test_restoring_never_goes_over_other_words(root: Path) -> None:
    name = propose(str(root), DECISION)
    file = root / ".inbox" / f"{name}.json"
    old = file.read_bytes()
    drop(str(root), name)
    file.write_bytes(old.replace(b"Postgres", b"MariaDB!"))
    file.chmod(0o600)
    with pytest.raises(Conflict):
        restore(str(root), name)
    assert b"MariaDB!" in file.read_bytes()


def test_revised_words_keep_the_id(root: Path) -> None:
    name = propose(str(root), DECISION)
    (old,) = proposals(str(root))
    revise(str(root), old, old._replace(title="Use MariaDB", text="Because of it."))
    (new,) = proposals(str(root))
    assert new == old._replace(title="Use MariaDB", text="Because of it.")
    assert new.id == name


def test_revision_of_words_that_someone_changed_is_refused(root: Path) -> None:
    propose(str(root), DECISION)
    (old,) = proposals(str(root))
    revise(str(root), old, old._replace(title="Theirs"))
    with pytest.raises(Conflict, match="changed by someone else"):
        revise(str(root), old, old._replace(title="Mine"))
    assert proposals(str(root))[0].title == "Theirs"


# Strangers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({**DECISION._asdict(), "title": 3}),
        json.dumps({**DECISION._asdict(), "score": "high"}),
        json.dumps({**DECISION._asdict(), "score": float("nan")}),
        json.dumps({**DECISION._asdict(), "start": -1}),
        json.dumps({**DECISION._asdict(), "start": True}),
        json.dumps({**DECISION._asdict(), "text": "x" * 2_000_000}),
    ],
    ids=range(11),
)
def test_unreadable_file_is_skipped_named_and_never_deleted(root: Path, text: str) -> None:
    name = propose(str(root), DECISION)
    file = root / ".inbox" / "0123456789abcdef.json"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    problems: list[str] = []
    assert [one.id for one in proposals(str(root), problems=problems)] == [name]
    assert len(problems) == 1
    assert str(file) in problems[0]
    assert file.read_text(encoding="utf-8") == text


def test_file_that_git_would_have_put_there_is_not_a_proposal(root: Path) -> None:
    """A checkout makes files that others may read; ours never are."""
    name = propose(str(root), DECISION)
    file = root / ".inbox" / f"{name}.json"
    file.chmod(0o644)
    problems: list[str] = []
    assert proposals(str(root), problems=problems) == []
    assert "not private" in problems[0]
    with pytest.raises(Unsafe):
        inbox.read(str(root), name)


def _copied(source: Path, target: Path, name: str) -> None:
    data = (source / ".inbox" / f"{name}.json").read_bytes()
    target.joinpath(".inbox").mkdir(exist_ok=True)
    file = target / ".inbox" / f"{name}.json"
    file.write_bytes(data)
    file.chmod(0o600)  # as an archive, or git with a strict umask, leaves it


@pytest.mark.parametrize("kind", ["unsealed", "edited", "renamed", "another bank", "another key"])
def test_a_private_file_that_is_not_sealed_here_is_neither_shown_nor_counted(
    root: Path, tmp_path: Path, kind: str
) -> None:
    name = propose(str(root), DECISION)
    file, where = root / ".inbox" / f"{name}.json", root
    data = file.read_bytes()
    if kind == "unsealed":
        file.write_bytes(b"{\n" + data.partition(b"\n")[2])
    elif kind == "edited":
        file.write_bytes(data.replace(b"Postgres", b"MariaDB!"))
    elif kind == "renamed":
        file.rename(file.with_name("0123456789abcdef.json"))
    elif kind == "another bank":
        where = tmp_path / "other"
        where.mkdir()
        _copied(root, where, name)
    else:
        os.unlink(machine.key_path())
    problems: list[str] = []
    assert proposals(str(where), problems=problems) == []
    assert "was not written by Retain on this machine" in problems[0]
    assert inbox.count(str(where)) == 0


def test_private_planted_files_do_not_fill_the_inbox(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "MOST", 2)
    propose(str(root), DECISION)
    for number in range(5):
        planted = root / ".inbox" / f"{number:016x}.json"
        planted.write_text("{}", encoding="utf-8")
        planted.chmod(0o600)
    propose(str(root), DECISION._replace(text="another"))
    assert inbox.count(str(root)) == len(proposals(str(root))) == 2


def test_planted_files_do_not_fill_the_inbox(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "MOST", 3)
    (root / ".inbox").mkdir(mode=0o755)
    for number in range(5):
        planted = root / ".inbox" / f"{number:016x}.json"
        planted.write_text("{}", encoding="utf-8")
        planted.chmod(0o644)
    propose(str(root), DECISION)
    assert len(proposals(str(root))) == 1
    assert stat.S_IMODE((root / ".inbox").stat().st_mode) == 0o700


def test_linked_inbox_is_refused_and_its_target_left_alone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / ".inbox").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unsafe):
        propose(str(root), DECISION)
    with pytest.raises(Unsafe):
        proposals(str(root))
    assert names(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("name", ["dropped", "accepted"])
def test_linked_folder_inside_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    proposed = propose(str(root), DECISION)
    (root / ".inbox" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unsafe):
        (drop if name == "dropped" else inbox.accepted)(str(root), proposed)
    assert names(tmp_path / "elsewhere") == []
    assert len(proposals(str(root))) == 1


def test_linked_proposal_is_not_read(root: Path, tmp_path: Path) -> None:
    name = propose(str(root), DECISION)
    file = root / ".inbox" / f"{name}.json"
    file.rename(tmp_path / "secret.json")
    file.symlink_to(tmp_path / "secret.json")
    problems: list[str] = []
    assert proposals(str(root), problems=problems) == []
    assert len(problems) == 1


def test_pipe_in_the_place_of_a_proposal_holds_nobody(root: Path) -> None:
    propose(str(root), DECISION)
    os.mkfifo(root / ".inbox" / "0123456789abcdef.json", 0o600)
    assert len(proposals(str(root))) == 1


@pytest.mark.parametrize("is_link", [False, True])
def test_planted_gitignore_is_put_right(root: Path, tmp_path: Path, is_link: bool) -> None:
    (root / ".inbox").mkdir()
    target = tmp_path / "mine"
    target.write_text("mine", encoding="utf-8")
    planted = root / ".inbox" / ".gitignore"
    if is_link:
        planted.symlink_to(target)
    else:
        planted.write_text("!*\n", encoding="utf-8")
    propose(str(root), DECISION)
    assert planted.read_text(encoding="utf-8") == "*\n"
    assert not planted.is_symlink()
    assert target.read_text(encoding="utf-8") == "mine"


# Many processes, kills and full disks


@pytest.mark.slow
def test_eight_processes_with_one_proposal_leave_one_file(root: Path) -> None:
    outcomes = together([lambda: propose(str(root), DECISION)] * 8)
    (one,) = proposals(str(root))
    assert outcomes == [Outcome(one.id)] * 8
    assert names(root / ".inbox") == [".gitignore", f"{one.id}.json"]


@pytest.mark.slow
def test_eight_processes_with_eight_proposals_leave_eight(root: Path) -> None:
    works = [
        lambda number=number: propose(str(root), DECISION._replace(text=f"number {number}"))
        for number in range(8)
    ]
    assert [outcome.code for outcome in together(works)] == [""] * 8
    assert len(proposals(str(root))) == 8


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_kill_at_any_call_leaves_a_whole_proposal_or_none(root: Path, after: bool) -> None:
    number, outcome = 0, Outcome(signal=9)
    while outcome.signal:
        number += 1
        one = DECISION._replace(text=f"attempt {number}")
        outcome = killed_at(number, lambda one=one: propose(str(root), one), after=after)  # type: ignore[misc]
        problems: list[str] = []
        found = proposals(str(root), problems=problems)
        assert problems == []
        assert all(other.text.startswith("attempt") for other in found)
        assert propose(str(root), one) in {other.id for other in proposals(str(root))}
    assert number > 4


def test_what_a_killed_writer_left_is_swept_out_after_a_while(root: Path) -> None:
    propose(str(root), DECISION)
    stale, fresh = root / ".inbox/.new-1", root / ".inbox/.new-2"
    for draft in (stale, fresh):
        draft.write_text("{", encoding="utf-8")
    os.utime(stale, (0, 0))
    propose(str(root), DECISION._replace(text="another"))
    assert not stale.exists()
    assert fresh.exists()


@pytest.mark.parametrize("call", ["open", "write", "fsync", "link"])
def test_disk_that_refuses_is_said_and_leaves_nothing(root: Path, call: str) -> None:
    propose(str(root), DECISION)
    before = names(root / ".inbox")
    another = DECISION._replace(text="another")
    work = failing(call, 1, errno.ENOSPC, lambda: propose(str(root), another))
    outcome = in_child(work)
    assert outcome.code == NotSaved.code
    assert names(root / ".inbox") == before
    propose(str(root), another)


# The rest of the bank does not see it


def test_inbox_is_no_collection_and_not_indexed_exported_or_listed(
    root: Path, tmp_path: Path
) -> None:
    app = new_bank(root)
    propose(str(root), DECISION)
    assert app.collections() == []
    assert app.list() == []
    assert app.library.facts().memories == 0
    assert app.export(str(tmp_path / "out")).memories == 0
    assert not (tmp_path / "out" / ".inbox").exists()
    found = app.status()
    assert (found.proposals, found.problems) == (1, ())
    app.close()


def test_new_banks_ignore_the_inbox_in_git(root: Path) -> None:
    assert ".inbox/\n" in (root / ".gitignore").read_text(encoding="utf-8")


def test_old_bank_in_git_does_not_show_its_inbox(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".retain").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    name = propose(str(project / ".retain"), DECISION)
    drop(str(project / ".retain"), name)
    propose(str(project / ".retain"), DECISION._replace(text="another"))
    asked = ["git", "-C", str(project), "status", "--porcelain", "-uall"]
    assert subprocess.run(asked, check=True, capture_output=True).stdout == b""


def test_hook_loads_only_light_modules_for_it() -> None:
    program = "import sys, retain.capture.inbox; print(' '.join(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, encoding="utf-8"
    )
    loaded = set(ran.stdout.split())
    large = {"bank", "cli", "config", "guard", "markdown", "model", "reading", "typed", "words"}
    assert loaded.isdisjoint(f"retain.{name}" for name in large)
    heavy = {"pathlib", "dataclasses", "inspect", "enum", "subprocess", "ctypes", "hashlib", "yaml"}
    bare = subprocess.run(
        [sys.executable, "-c", "import sys, json; print(' '.join(sys.modules))"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    assert (loaded & heavy) - set(bare.stdout.split()) == set()
