"""Facts and MEMORY.md: whichever side changes, the other follows, and nothing is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retain.app import App
from retain.errors import UsageError
from retain.facts.store import COLLECTION, Facts, Synced
from tests import crash, indexes

HEAD = "# MEMORY.md - Persistent Memories\n\n## General Facts\n\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "bank"
    crash.new_bank(root)
    return root


def opened(root: Path, **env: str) -> App:
    """The app without a model, unless one is asked for: most of this is about files."""
    known = {"USER": "tester", "HOME": str(root.parent), "RETAIN_RECALL_EMBEDDER": "none"}
    return App(bank=str(root), cwd=str(root), env=known | env)


def of(root: Path) -> Facts:
    return Facts(opened(root))


def listed(root: Path) -> str:
    return (root / "MEMORY.md").read_text(encoding="utf-8")


def by_hand(root: Path, text: str) -> None:
    """Save the list as a person does, a while ago."""
    path = root / "MEMORY.md"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    settle(path)


def settle(path: Path) -> None:
    if path.exists():
        os.utime(path, (time.time() - 10, time.time() - 10))


def bodies(root: Path) -> dict[str, str]:
    """The facts in force, by id."""
    return {fact.id: fact.text for fact in of(root).present()}


def trashed(root: Path) -> set[str]:
    return {it.id for it in opened(root).trashed() if it.collection == COLLECTION}


def add(root: Path, *texts: str) -> None:
    facts = of(root)
    for text in texts:
        assert facts.add(text).status == "saved", text
    settle(root / "MEMORY.md")


NAMES = "apple banana cherry damson elder fig grape".split()


# Saving


def test_fact_is_saved_with_its_origin(root: Path) -> None:
    added = of(root).add("Uses Bun", by="claude-x", source="session:s1")
    memory = opened(root).get(added.ref)
    assert (added.status, added.ref) == ("saved", "facts/uses-bun")
    assert (memory.type, memory.body) == ("fact", "Uses Bun\n")
    assert memory.meta["created_by"] == "claude-x"
    assert memory.meta["source"] == "session:s1"


def test_same_fact_is_known_whatever_its_case_and_punctuation(root: Path) -> None:
    facts = of(root)
    first = facts.add("Uses Bun")
    again = facts.add(" uses BUN! ")
    assert (again.status, again.ref) == ("known", first.ref)
    assert len(bodies(root)) == 1


def test_beginning_of_a_known_fact_is_a_fact_of_its_own(root: Path) -> None:
    add(root, "Uses Bundler", "Uses Bun")
    assert len(bodies(root)) == 2


def test_fact_in_other_words_is_known_and_a_newer_one_supersedes(root: Path) -> None:
    facts = Facts(opened(root, RETAIN_RECALL_EMBEDDER="bundled"))
    facts.add("JR loves skiing")
    assert facts.add("JR enjoys skiing").status == "known"
    facts.add("Anna prefers tea")
    added = facts.add("Anna prefers coffee")
    assert (added.status, added.replaced) == ("supersedes", ("facts/anna-prefers-tea",))
    app = opened(root)
    old, new = app.get("facts/anna-prefers-tea"), app.get(added.ref)
    assert (old.superseded_by, new.meta["supersedes"]) == (new.ref, old.ref)
    assert old.body == "Anna prefers tea\n"
    facts.sync()
    assert listed(root) == HEAD + "- JR loves skiing\n- Anna prefers coffee\n"


def test_without_a_model_both_are_kept_and_it_is_said(root: Path) -> None:
    facts = of(root)
    facts.add("Anna prefers tea")
    added = facts.add("Anna prefers coffee")
    assert added.status == "saved"
    assert "no embedding model" in added.notes[0]
    assert facts.add("The build needs Node 18").notes == ()
    assert facts.add("The build needs Node 20").status == "supersedes"


def test_fact_that_holds_again_takes_its_place_again(root: Path) -> None:
    facts = of(root)
    first = facts.add("The build needs Node 18")
    facts.add("The build needs Node 20")
    again = facts.add("The build needs Node 18")
    assert (again.status, again.replaced) == ("supersedes", ("facts/the-build-needs-node-20",))
    assert again.ref != first.ref
    assert list(bodies(root).values()) == ["The build needs Node 18"]


def test_secrets_are_redacted_before_anything_is_written(root: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 23 + "AA"
    facts = of(root)
    added = facts.add(f"The key is {secret}")
    facts.sync()
    assert "REDACTED" in added.text
    assert facts.add(f"The key is {secret}").status == "known"
    with pytest.raises(UsageError, match="no fact"):
        facts.add(f"{secret}.")
    assert not [name for name, data in crash.files(root).items() if secret.encode() in data]


# From the list to the facts


def test_bullet_added_by_hand_becomes_a_fact(root: Path) -> None:
    text = "Notes\n\n- Uses Bun\n- Likes\n  tea\n"
    by_hand(root, text)
    done = of(root).sync()
    assert done.learned == ("facts/uses-bun", "facts/likes")
    assert bodies(root) == {"uses-bun": "Uses Bun", "likes": "Likes\ntea"}
    memory = opened(root).get("uses-bun")
    assert (memory.meta["source"], memory.meta["created_by"]) == ("MEMORY.md", "tester")
    assert listed(root) == text


def test_bullet_changed_by_hand_changes_its_fact(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    by_hand(root, listed(root).replace("Uses npm", "Uses Bun now"))
    assert of(root).sync().changed == ("facts/uses-npm",)
    assert bodies(root)["uses-npm"] == "Uses Bun now"
    app = opened(root)
    assert app.get("uses-npm", version="v1").body == "Uses npm\n"


def test_changed_case_is_a_change_too(root: Path) -> None:
    add(root, "uses bun")
    of(root).sync()
    by_hand(root, listed(root).replace("uses bun", "Uses Bun."))
    assert of(root).sync().changed == ("facts/uses-bun",)
    assert bodies(root) == {"uses-bun": "Uses Bun."}


def test_bullet_removed_by_hand_goes_to_the_trash(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    by_hand(root, listed(root).replace("- Uses npm\n", ""))
    assert of(root).sync().forgotten == ("facts/uses-npm",)
    assert list(bodies(root)) == ["likes-tea"]
    opened(root).untrash("uses-npm")
    assert of(root).sync().listed == ("facts/uses-npm",)


def test_bullet_replaced_by_quite_another_is_not_that_fact_changed(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    by_hand(root, listed(root).replace("Uses npm", "The office has moved to Frankfurt"))
    done = of(root).sync()
    assert done.forgotten == ("facts/uses-npm",)
    assert done.learned == ("facts/the-office-has-moved-to-frankfurt",)


def test_bullets_may_be_moved_and_doubled(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    text = "- Likes tea\n\n## Code\n\n- Uses npm\n- uses npm.\n"
    by_hand(root, text)
    done = of(root).sync()
    assert (done.learned, done.changed, done.forgotten, done.listed) == ((), (), (), ())
    assert listed(root) == text


def test_secret_in_a_bullet_is_redacted_in_its_fact(root: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 23 + "AA"
    by_hand(root, f"- key {secret}\n")
    of(root).sync()
    assert bodies(root) == {"key-redacted-anthropic-key": "key [REDACTED:anthropic-key]"}
    assert of(root).sync() == Synced()
    assert listed(root) == "- key [REDACTED:anthropic-key]\n"


def test_bullet_that_cannot_be_stored_stands_in_nobodys_way(root: Path) -> None:
    by_hand(root, "- bad \udcff byte\n- Uses Bun\n")
    done = of(root).sync()
    assert done.learned == ("facts/uses-bun",)
    assert "not valid UTF-8" in done.notes[0]
    assert (root / "MEMORY.md").read_bytes() == b"- bad \xff byte\n- Uses Bun\n"


def test_bullet_too_long_to_be_a_fact_is_left_as_it_is(root: Path) -> None:
    text = f"- {'long ' * 500}\n- Uses Bun\n"
    by_hand(root, text)
    for _ in range(2):
        assert "too long" in of(root).sync().notes[0]
        assert (listed(root), list(bodies(root))) == (text, ["uses-bun"])


@pytest.mark.parametrize("more", [" long" * 500, " \udcff"])
def test_change_that_is_refused_is_tried_again(root: Path, more: str) -> None:
    add(root, "Uses npm for everything there is", "Likes tea")
    of(root).sync()
    before = listed(root)
    by_hand(root, before.replace("there is", f"there is{more}"))
    changed = (root / "MEMORY.md").read_bytes()
    for _ in range(2):
        assert "is as it was" in of(root).sync().notes[0]
        assert (root / "MEMORY.md").read_bytes() == changed
    by_hand(root, before.replace("there is", "there was"))
    assert len(of(root).sync().changed) == 1
    assert len(bodies(root)) == 2


def test_memory_of_another_type_is_no_fact(root: Path) -> None:
    opened(root).put("Uses Bun", collection=COLLECTION, id="uses-bun")
    by_hand(root, "- Uses Bun\n")
    assert len(of(root).sync().learned) == 1
    assert of(root).sync() == Synced()
    assert listed(root) == "- Uses Bun\n"


@pytest.mark.slow
def test_long_list_becomes_facts_in_several_goes(root: Path) -> None:
    text = "".join(f"- word{n}x thing{n}y\n" for n in range(230))
    by_hand(root, text)
    first = of(root).sync()
    assert (len(first.learned), first.listed) == (200, ())
    assert "30 more bullets" in first.notes[0]
    assert len(of(root).sync().learned) == 30
    assert listed(root) == text


# From the facts to the list


def test_list_is_made_only_for_something_to_put_in(root: Path) -> None:
    before = crash.files(root)
    assert of(root).sync() == Synced()
    assert set(crash.files(root)) == set(before)
    add(root, "Uses Bun")
    assert of(root).sync().listed == ("facts/uses-bun",)
    assert listed(root) == HEAD + "- Uses Bun\n"


def test_fact_changed_elsewhere_changes_its_bullet_alone(root: Path) -> None:
    by_hand(root, "\ufeff---\na: 1\n---\r\n# Me\r\n\r\nprose\r\n*  Uses npm\r\n- Likes tea\r\nend")
    of(root).sync()
    opened(root).update("uses-npm", "Uses Bun")
    of(root).sync()
    text = "\ufeff---\na: 1\n---\r\n# Me\r\n\r\nprose\r\n*  Uses Bun\r\n- Likes tea\r\nend"
    assert (root / "MEMORY.md").read_bytes() == text.encode()


@pytest.mark.parametrize("step", ["delete", "archive", "retire", "long", "move"])
def test_fact_that_is_put_away_elsewhere_loses_its_bullet(root: Path, step: str) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    app = opened(root)
    if step == "delete":
        app.delete("uses-npm")
    elif step == "long":
        app.update("uses-npm", "x" * 5000)
    elif step == "move":
        app.move("uses-npm", to_collection="elsewhere", to_id="")
    else:
        getattr(app, step)("uses-npm")
    of(root).sync()
    assert listed(root) == HEAD + "- Likes tea\n"
    assert of(root).sync() == Synced()


def test_fact_goes_to_the_section_of_its_tag_or_category(root: Path) -> None:
    by_hand(root, "## Code\n\n- Uses npm\n\n## Home\n\n- Has a dog\n")
    of(root).sync()
    opened(root).put("Likes ruff", type="fact", tags=["code"], collection=COLLECTION, id="ruff")
    of(root).sync()
    assert listed(root) == "## Code\n\n- Uses npm\n- Likes ruff\n\n## Home\n\n- Has a dog\n"


def test_two_files_that_say_the_same_have_one_bullet(root: Path) -> None:
    for name in ("one", "two"):
        opened(root).put("Uses Bun", type="fact", collection=COLLECTION, id=name)
    of(root).sync()
    assert listed(root) == HEAD + "- Uses Bun\n"
    assert of(root).sync() == Synced()
    by_hand(root, HEAD)
    assert of(root).sync().forgotten == ("facts/one", "facts/two")


def test_file_that_cannot_be_read_keeps_its_bullet(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    before = listed(root)
    (root / "facts/uses-npm.md").write_text("---\nbroken: [\n---\nUses npm\n", encoding="utf-8")
    assert "cannot be found or read" in of(root).sync().notes[0]
    assert listed(root) == before


# Both


def test_fact_changed_on_both_sides_is_kept_twice(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    by_hand(root, listed(root).replace("Uses npm", "Uses Bun"))
    opened(root).update("uses-npm", "Uses yarn")
    done = of(root).sync()
    assert "both texts are kept" in done.notes[0]
    assert listed(root) == HEAD + "- Uses Bun\n- Likes tea\n- Uses yarn\n"
    assert set(bodies(root).values()) == {"Uses Bun", "Uses yarn", "Likes tea"}
    assert of(root).sync() == Synced()


def test_same_change_on_both_sides_is_one(root: Path) -> None:
    add(root, "Uses npm")
    of(root).sync()
    by_hand(root, listed(root).replace("Uses npm", "Uses Bun"))
    opened(root).update("uses-npm", "Uses Bun")
    assert of(root).sync()._replace(notes=()) == Synced()
    assert bodies(root) == {"uses-npm": "Uses Bun"}


def test_fact_removed_here_and_changed_there_is_back(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    by_hand(root, listed(root).replace("- Uses npm\n", ""))
    opened(root).update("uses-npm", "Uses yarn")
    of(root).sync()
    assert listed(root) == HEAD + "- Likes tea\n- Uses yarn\n"


def test_bullet_changed_here_whose_fact_is_gone_is_a_new_fact(root: Path) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    by_hand(root, listed(root).replace("Uses npm", "Uses Bun"))
    opened(root).delete("uses-npm")
    assert of(root).sync().learned == ("facts/uses-bun",)


@pytest.mark.parametrize("change", ["none", "by hand", "elsewhere"])
def test_what_was_noted_about_the_list_may_be_deleted(root: Path, change: str) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    shutil.rmtree(indexes.state(root))
    if change == "by hand":
        by_hand(root, listed(root).replace("Uses npm", "Uses Bun"))
    elif change == "elsewhere":
        opened(root).update("uses-npm", "Uses Bun")
    done = of(root).sync()
    assert done.forgotten == ()
    texts = {"none": {"Uses npm"}, "by hand": {"Uses npm", "Uses Bun"}}
    expected = texts.get(change, {"Uses npm", "Uses Bun"}) | {"Likes tea"}
    assert set(bodies(root).values()) == expected
    assert {line[2:] for line in listed(root).splitlines() if line[:1] == "-"} == expected


@pytest.mark.parametrize("planted", [b"", b"[]", b"[1]", b"\xff", b"[1,[[1,2]]]", b"[" * 100_000])
def test_foreign_note_about_the_list_stands_for_nothing(root: Path, planted: bytes) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    (indexes.state(root) / "facts" / "facts.json").write_bytes(planted)
    assert of(root).sync() == Synced()


# Accidents


@pytest.mark.parametrize("text", [None, "", " \n\n", "\ufeff"])
def test_list_that_is_emptied_or_deleted_deletes_nothing(root: Path, text: str | None) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    if text is None:
        (root / "MEMORY.md").unlink()
    else:
        by_hand(root, text)
    done = of(root).sync()
    assert "lists its 2 facts again" in done.notes[0]
    assert listed(root).removeprefix("\ufeff").removeprefix(HEAD) == "- Uses npm\n- Likes tea\n"
    assert len(bodies(root)) == 2


def test_more_than_half_of_the_bullets_gone_at_once_purges_nothing(root: Path) -> None:
    add(root, *NAMES)
    of(root).sync()
    before = bodies(root)
    by_hand(root, HEAD + "- apple\n- banana\n- cherry\n")
    done = of(root).sync()
    assert len(done.held) == 4
    assert "their facts were kept" in done.notes[0]
    assert bodies(root) == before
    add(root, "new one", "new two", "new three", "new four")
    assert len(of(root).sync().held) == 4  # however many others there are by now
    by_hand(root, listed(root) + "- damson\n")
    assert len(of(root).sync().held) == 3
    assert set(of(root).sync(force=True).forgotten) == {"facts/elder", "facts/fig", "facts/grape"}
    assert trashed(root) == {"elder", "fig", "grape"}
    assert of(root).sync() == Synced()


def test_half_of_the_bullets_may_be_removed(root: Path) -> None:
    add(root, *NAMES)
    of(root).sync()
    by_hand(root, HEAD + "".join(f"- {name}\n" for name in NAMES[3:]))
    assert len(of(root).sync().forgotten) == 3


def test_facts_that_vanish_together_keep_their_bullets(root: Path) -> None:
    add(root, *NAMES)
    of(root).sync()
    before = listed(root)
    shutil.move(root / "facts", root.parent / "away")
    assert "cannot be found" in of(root).sync().notes[0]
    assert listed(root) == before
    shutil.move(root.parent / "away", root / "facts")
    assert of(root).sync() == Synced()
    for name in NAMES:
        opened(root).delete(name)  # on purpose
    of(root).sync()
    assert listed(root) == HEAD


@pytest.mark.parametrize("torn", ["<<<<<<< HEAD\n- x\n=======\n", "```\n", "<!--\n"])
def test_list_in_the_middle_of_an_edit_is_left_alone(root: Path, torn: str) -> None:
    add(root, "Uses npm", "Likes tea")
    of(root).sync()
    text = torn + listed(root)
    by_hand(root, text)
    assert "in the middle of an edit" in of(root).sync().notes[0]
    assert (listed(root), len(bodies(root))) == (text, 2)


def test_a_place_of_facts_that_is_a_loop_is_said_and_stops_nobody(root: Path) -> None:
    (root / "facts").symlink_to("facts")
    (note,) = of(root).sync().notes
    assert "not in step" in note


def test_link_in_the_lists_place_is_not_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("- Uses npm\n", encoding="utf-8")
    (root / "MEMORY.md").symlink_to(outside)
    add(root, "Likes tea")
    assert "does not follow it" in of(root).sync().notes[0]
    assert outside.read_text(encoding="utf-8") == "- Uses npm\n"
    assert list(bodies(root)) == ["likes-tea"]


def test_bank_that_cannot_be_written_to_is_a_note(root: Path) -> None:
    add(root, "Likes tea")
    crashed = crash.in_child(
        crash.failing("rename", 1, 28, lambda: of(root).sync().notes or "nothing")
    )
    assert crashed.code == ""


def test_store_of_another_kind_has_no_list(tmp_path: Path) -> None:
    folder = tmp_path / "project/.memories"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("- a memory of its own\n", encoding="utf-8")
    app = App(cwd=str(folder.parent), env={"HOME": str(tmp_path), "USER": "t"})
    assert Facts(app).sync() == Synced()
    assert not (folder / "facts").exists()


def test_list_is_committed_where_the_bank_commits(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q", project], check=True)
    app = App(cwd=str(project), env=os.environ | {"RETAIN_VERSIONING_AUTO_COMMIT": "true"})
    app.init()
    app = App(cwd=str(project), env=os.environ | {"RETAIN_VERSIONING_AUTO_COMMIT": "true"})
    facts = Facts(app)
    facts.add("Uses Bun")
    assert facts.sync().notes == ()
    tracked = subprocess.run(
        ["git", "-C", project, "ls-files"], check=True, capture_output=True, encoding="utf-8"
    ).stdout
    assert ".retain/MEMORY.md" in tracked.split()
    assert [one.id for one in app.list()] == ["uses-bun"]
    assert app.index_facts().memories == 1  # the list itself is no memory
    app.close()


def test_nothing_is_read_while_nothing_changes(root: Path) -> None:
    add(root, "Uses npm")
    facts = of(root)
    facts.sync()
    time.sleep(0.15)
    facts.sync()
    (indexes.state(root) / "facts" / "facts.json").unlink()
    facts.sync()
    assert not (indexes.state(root) / "facts" / "facts.json").exists()
    by_hand(root, listed(root) + "- Likes tea\n")
    assert facts.sync().learned == ("facts/likes-tea",)


# Kills and company


def _mended(root: Path, before: Sequence[str]) -> None:
    """After a kill: the next look brings both in step, and the next one finds nothing to do."""
    settle(root / "MEMORY.md")
    done = of(root).sync()
    assert not done.forgotten
    texts = list(bodies(root).values())
    bullets = [line[2:] for line in listed(root).splitlines() if line[:1] == "-"]
    assert sorted(texts) == sorted(bullets)
    assert set(before) <= set(bullets)
    settle(root / "MEMORY.md")
    assert of(root).sync() == Synced()


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: a killed process does not lose what it wrote."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_kill_at_every_step_is_mended_by_the_next_look(scratch: Path, after: bool) -> None:
    model = scratch / "model"
    crash.new_bank(model)
    add(model, "Uses npm", "Likes tea")
    of(model).sync()
    by_hand(model, listed(model).replace("Uses npm", "Uses yarn") + "- Has a dog\n")

    def act(root: Path) -> None:
        facts = of(root)
        facts.add("Lives in Rome")
        facts.sync()

    number, outcome = 0, crash.Outcome(signal=signal.SIGKILL)
    while outcome.signal:
        number += 1
        root = scratch / f"kill-{number}"
        shutil.copytree(model, root, symlinks=True)
        outcome = crash.killed_at(number, partial(act, root), after=after)
        assert not outcome.code, outcome.message
        _mended(root, ["Uses yarn", "Likes tea", "Has a dog"])
        shutil.rmtree(root)
    assert number > 20


def _chat(root: Path, writer: int) -> list[str]:
    facts = of(root)
    notes: list[str] = []
    for turn in range(8):
        facts.add(f"writer {writer} says word{turn}x{writer}")
        facts.add(f"everyone says shared{turn}")
        notes += facts.sync().notes
    return notes


@pytest.mark.slow
def test_eight_chats_on_one_bank_lose_nothing(root: Path) -> None:
    by_hand(root, "# Mine\n\nprose stays\n\n- hand made\n")
    outcomes = crash.together([partial(_chat, root, writer) for writer in range(8)])
    assert [outcome.message for outcome in outcomes] == [""] * 8
    assert [outcome.value for outcome in outcomes] == [[]] * 8
    of(root).sync()
    texts = sorted(bodies(root).values())
    assert len(texts) == 8 * 8 + 8 + 1
    bullets = sorted(line[2:] for line in listed(root).splitlines() if line[:1] == "-")
    assert bullets == texts
    assert listed(root).startswith("# Mine\n\nprose stays\n\n- hand made\n")
    assert of(root).sync() == Synced()
    assert crash.leftovers(root) == []


def _edits(root: Path) -> list[str]:
    """A person whose editor saves again and again, each time with a line more; what they saved."""
    path, saved = root / "MEMORY.md", []
    for turn in range(30):
        seen = path.read_text(encoding="utf-8")
        draft = root.parent / "draft"
        draft.write_text(f"{seen}line {turn} by hand\n", encoding="utf-8")
        if path.read_text(encoding="utf-8") == seen:
            os.replace(draft, path)
            saved.append(f"line {turn} by hand")
        time.sleep(0.02)
    return saved


@pytest.mark.slow
def test_person_who_saves_meanwhile_keeps_their_lines(root: Path) -> None:
    by_hand(root, "# Mine\n\n- hand made\n")
    person, *chats = crash.together(
        [partial(_edits, root), *(partial(_chat, root, writer) for writer in range(2))]
    )
    assert [one.message for one in (person, *chats)] == [""] * 3
    of(root).sync()
    text = listed(root)
    assert [line for line in person.value if line not in text.splitlines()] == []
    assert "# Mine\n\n- hand made\n" in text
    assert len(bodies(root)) == 2 * 8 + 8 + 1
    bullets = sorted(line[2:] for line in text.splitlines() if line[:1] == "-")
    assert bullets == sorted(bodies(root).values())


# Against a model: whatever people and chats do, in any order

WORDS = [
    f"{a}{b}" for a in "kilo lima mike nova oscar papa".split() for b in "one two six ten".split()
]


class World:
    """A bank, and what must be true of it."""

    def __init__(self, root: Path, seed: int) -> None:
        crash.new_bank(root)
        self.root, self.random, self.words = root, random.Random(seed), iter(WORDS * 9)
        self.prose: list[str] = []
        self.count = 0
        by_hand(root, "# Top\n\n")
        self.prose = ["# Top"]

    def text(self) -> str:
        """A fact that is like no other."""
        self.count += 1
        word = self.random.choice(WORDS)
        return f"{word}{self.count} {self.random.choice(WORDS)}{self.count}"

    def lines(self) -> list[str]:
        return listed(self.root).splitlines()

    def bullets(self) -> list[int]:
        return [n for n, line in enumerate(self.lines()) if line[:2] == "- "]

    def step(self, name: str) -> None:
        getattr(self, name)()

    def save(self, lines: Sequence[str]) -> None:
        by_hand(self.root, "".join(f"{line}\n" for line in lines))

    def hand_adds(self) -> None:
        lines = self.lines()
        lines.insert(self.random.randint(1, len(lines)), f"- {self.text()}")
        self.save(lines)

    def hand_changes(self) -> None:
        lines, found = self.lines(), self.bullets()
        if found:
            lines[self.random.choice(found)] += f" more{self.count}"
            self.count += 1
            self.save(lines)

    def hand_removes(self) -> None:
        lines, found = self.lines(), self.bullets()
        if found:
            del lines[self.random.choice(found)]
            self.save(lines)

    def hand_writes(self) -> None:
        self.count += 1
        lines = self.lines()
        prose = self.random.choice(["## Part", "words", "<!-- aside", "1. number"])
        prose = f"{prose} {self.count}{' -->' if prose[0] == '<' else ''}"
        lines.insert(self.random.randint(1, len(lines)), prose)
        self.prose = [line for line in lines if line.strip() and line[:2] != "- "]
        self.save(lines)

    def hand_shuffles(self) -> None:
        lines, found = self.lines(), self.bullets()
        places = self.random.sample(found, len(found))
        self.save([lines[places[found.index(n)]] if n in found else x for n, x in enumerate(lines)])

    def chat_adds(self) -> None:
        of(self.root).add(self.text())

    def chat_supersedes(self) -> None:
        facts = of(self.root).present()
        if facts:
            ref = of(self.root).add(self.text()).ref
            old = self.random.choice(facts)
            opened(self.root).supersede(f"facts/{old.id}", ref)

    def elsewhere_changes(self) -> None:
        facts = of(self.root).present()
        if facts:
            opened(self.root).update(self.random.choice(facts).id, self.text())

    def elsewhere_deletes(self) -> None:
        facts = of(self.root).present()
        if facts:
            opened(self.root).delete(self.random.choice(facts).id)

    def index_is_deleted(self) -> None:
        shutil.rmtree(indexes.state(self.root), ignore_errors=True)

    def sync(self) -> None:
        by_person = [line[2:] for line in self.lines() if line[:2] == "- "]
        known_before = {it.body.strip() for it in opened(self.root).list(status="all")}
        done = of(self.root).sync()
        self.check(done, by_person, known_before)

    def check(self, done: Synced, by_person: Sequence[str], known_before: set[str]) -> None:
        lines = iter(self.lines())
        assert all(line in lines for line in self.prose)
        bullets = [line[2:] for line in self.lines() if line[:2] == "- "]
        in_force = [fact.text for fact in of(self.root).present()]
        held = {ref.partition("/")[2] for ref in done.held}
        shown = [fact.text for fact in of(self.root).present() if fact.id not in held]
        assert sorted(bullets) == sorted(shown)
        away = {it.body.strip() for it in opened(self.root).list(status="all")} - {*in_force}
        thrown = {
            path.read_text(encoding="utf-8").rpartition("---\n")[2].strip()
            for path in (self.root / ".trash/facts").glob("*.md")
        }
        versions = {
            path.read_text(encoding="utf-8").rpartition("---\n")[2].strip()
            for path in (self.root / ".versions/facts").rglob("*.md")
        }
        everywhere = {*bullets, *in_force, *away, *thrown, *versions}
        assert not [text for text in by_person if text not in everywhere]
        assert not [text for text in known_before if text not in everywhere]
        assert of(self.root).sync()._replace(notes=()) == Synced(held=done.held)


STEPS = [
    "hand_adds", "hand_adds", "hand_changes", "hand_removes", "hand_writes", "hand_shuffles",
    "chat_adds", "chat_adds", "chat_supersedes", "elsewhere_changes", "elsewhere_deletes",
    "index_is_deleted", "sync", "sync",
]  # fmt: skip


@given(st.lists(st.sampled_from(STEPS), min_size=3, max_size=14), st.integers(0, 1 << 30))
@settings(max_examples=12)
def test_nothing_is_ever_lost_and_both_agree(steps: list[str], seed: int) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        world = World(Path(folder).resolve() / "bank", seed)
        for step in (*steps, "sync"):
            world.step(step)
