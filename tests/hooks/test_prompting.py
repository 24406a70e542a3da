"""What a prompt brings with it: nothing twice, nothing stale, nothing that came from strangers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.sizes import tokens
from tests import indexes
from tests.cli.door import done
from tests.conftest import command
from tests.hooks.door import ask, kept, nothing, prompt
from tests.warm.process import running

ASKED = "which oil does the lantern burn"


def put(name: str, text: str, *words: str) -> None:
    done("put", "-", "--id", name, *words, input=text)


@pytest.fixture
def lantern(bank: Path) -> Path:
    """A bank that knows which oil the lantern burns, among other things."""
    put("lantern", "The lantern burns whale oil.", "--title", "Lantern", "--tags", "light,oil")
    put("rope", "The rope is forty yards long and tarred.")
    put("anchor", "The anchor weighs nine hundred pounds.")
    return bank


def test_a_prompt_brings_the_memory_that_fits_it(lantern: Path) -> None:
    head, entry, said, foot = prompt(ASKED).split("\n")
    assert head.startswith('<memory-context source=".retain/" ')
    assert entry == "- [JOURNAL] Lantern -> .retain/memories/lantern.md #tags:light,oil"
    assert said.endswith(": The lantern burns whale oil.")
    assert foot == "</memory-context>"


def test_the_event_is_named_in_the_answer(lantern: Path) -> None:
    said = json.loads(ask("user-prompt-submit", prompt=ASKED).out)
    assert list(said) == ["hookSpecificOutput"]
    assert said["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"


def test_the_older_name_of_a_prompt_is_known(lantern: Path) -> None:
    assert "whale" in prompt("", user_prompt=ASKED)


@pytest.mark.parametrize(
    "words",
    ["", "short", "lantern  ", " " * 50 + "lantern", "the and of is was are", "?!... --- ;;; ,,,"],
    ids=ascii,
)
def test_a_prompt_that_asks_for_nothing_brings_nothing(words: str, lantern: Path) -> None:
    assert nothing(ask("user-prompt-submit", prompt=words))


@pytest.mark.parametrize(
    "words", ["how do I bake sourdough bread at home", "日本の首都はどこですか、教えてください"]
)
def test_a_prompt_that_nothing_fits_brings_nothing(words: str, lantern: Path) -> None:
    assert nothing(ask("user-prompt-submit", prompt=words))


def test_without_a_bank_a_prompt_brings_nothing() -> None:
    assert nothing(ask("user-prompt-submit", prompt=ASKED))


def test_without_an_index_the_files_are_read_and_none_is_made(lantern: Path) -> None:
    shutil.rmtree(lantern / ".index")
    assert "whale oil" in prompt(ASKED)
    assert not (lantern / ".index" / "index.db").exists()


@pytest.mark.parametrize("value", ["0", "-1", "99", '"many"', "2"])
def test_how_many_a_prompt_brings_is_a_setting(value: str, bank: Path) -> None:
    for number in range(8):
        put(f"n{number}", f"The lantern number {number} burns whale oil in room {number}.")
    text = f"format = 1\n[retrieval]\nmax_inject = {value}\n"
    (bank / "config.toml").write_text(text, encoding="utf-8")
    wanted = {"0": 0, "-1": 0, "99": 8, '"many"': 5, "2": 2}[value]
    assert prompt(ASKED).count("\n- [") == wanted


@pytest.mark.parametrize(
    "text, wanted",
    [
        ('{"retrieval": {"max_inject": 1}}', 1),
        ('{"retrieval": {"max_inject": "2"}}', 2),
        ('{"retrieval": {"max_inject": 0}}', 0),
        ('{"retrieval": {"max_inject": null}}', 5),
        ('{"retrieval": {"max_inject": 1000}}', 8),
        ('{"retrieval": {"enabled": false}}', 0),
        ('{"retrieval": 7}', 5),
        ('{"retrieval"', 5),
        ("[]", 5),
        ("", 5),
    ],
    ids=ascii,
)
def test_a_memory_config_says_it_too_and_a_broken_one_nothing(
    text: str, wanted: int, store: Path
) -> None:
    for number in range(8):
        kept(store, "decision", f"n{number}", content={"decision": f"Lantern {number}: whale oil"})
    done("sync")
    (store / "memory-config.json").write_text(text, encoding="utf-8")
    assert prompt("which oil for the lantern, whale").count("\n- [") == wanted


def test_descriptions_of_categories_come_along(store: Path) -> None:
    kept(store, "decision", content={"decision": "The lantern burns whale oil"})
    done("sync")
    config = {"categories": {"decision": {"description": "What we settled on"}}}
    (store / "memory-config.json").write_text(json.dumps(config), encoding="utf-8")
    text = prompt(ASKED)
    assert ' descriptions="decision=What we settled on" ' in text.split("\n")[0]
    assert (
        "- [DECISION] The one of its kind -> .claude/memory/decisions/one.json #tags:kept" in text
    )


@pytest.mark.parametrize("odd", ["\ud800", "\0", "\u202e", '"', "%", "NEAR(", "🙂", "\n" * 999])
def test_odd_characters_in_a_prompt_hurt_nobody(odd: str, lantern: Path) -> None:
    assert "whale" in prompt(f"{odd} {ASKED} {odd}")


# Once in a conversation


def test_a_memory_comes_once_in_a_session(lantern: Path) -> None:
    assert "whale" in prompt(ASKED)
    assert prompt(ASKED) == ""
    assert "whale" in prompt(ASKED, session_id="another")


def test_a_memory_that_changed_comes_again(lantern: Path) -> None:
    assert "whale" in prompt(ASKED)
    put("lantern", "The lantern burns olive oil now.")
    assert "olive" in prompt(ASKED)
    assert prompt(ASKED) == ""


def test_a_memory_comes_again_after_a_compaction(lantern: Path) -> None:
    assert "whale" in prompt(ASKED)
    ask("post-compact", compact_summary="They talked about lanterns.")
    assert "whale" in prompt(ASKED)


def test_without_a_session_nothing_is_remembered(lantern: Path) -> None:
    for _ in range(2):
        assert "whale" in prompt(ASKED, session_id="")
    assert not (lantern / ".index" / "hooks").exists()


def test_what_found_no_room_comes_the_next_time(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        put(f"n{number}", f"The lantern of room {number} burns whale oil.")
    monkeypatch.setenv("RETAIN_RETRIEVAL_BUDGET", "80")
    seen = [prompt(ASKED) for _ in range(4)]
    shown = [line for text in seen for line in text.split("\n") if line.startswith("- [")]
    assert len(shown) == len(set(shown)) == 3
    assert seen[-1] == ""


# As the files are now


def test_a_deleted_memory_is_not_shown(lantern: Path) -> None:
    (lantern / "memories" / "lantern.md").unlink()
    assert "whale" not in prompt(ASKED)
    put("lantern", "The lantern burns whale oil.")
    done("delete", "lantern")
    assert "whale" not in prompt(ASKED)


@pytest.mark.parametrize("title", [(), ("--title", "Whale oil", "--tags", "whale")], ids=str)
def test_a_memory_edited_by_hand_is_shown_without_its_old_words(
    title: tuple[str, ...], lantern: Path
) -> None:
    put("lantern", "The lantern burns whale oil.", *title)
    path = lantern / "memories" / "lantern.md"
    path.write_text("The lantern burns olive oil now.", encoding="utf-8")
    text = prompt(ASKED)
    assert "whale" not in text.casefold()
    assert "- [JOURNAL] lantern -> .retain/memories/lantern.md\n" in text
    assert "edited since it was indexed, read the file" in text


def test_a_memory_replaced_by_a_link_is_not_followed(lantern: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("numbat", encoding="utf-8")
    (lantern / "memories" / "lantern.md").unlink()
    (lantern / "memories" / "lantern.md").symlink_to(secret)
    assert "numbat" not in prompt(ASKED)


def test_a_retired_record_is_not_shown_and_an_archived_one_is_marked(store: Path) -> None:
    kept(store, "decision", "gone", record_status="retired", content={"decision": "whale oil"})
    kept(store, "decision", "shelf", record_status="archived", content={"decision": "whale oil"})
    kept(store, "decision", "here", content={"decision": "whale oil for lanterns"})
    done("sync")
    text = prompt("do we burn whale oil in lanterns")
    assert "gone.json" not in text
    assert "here.json" in text
    assert "· archived" in text


def test_a_superseded_memory_says_so_and_comes_last(bank: Path) -> None:
    put("old", "The lantern burns whale oil.", "--metadata", '{"superseded_by": "new"}')
    put("new", "The lantern burns olive oil.")
    text = prompt(ASKED)
    assert text.index("memories/new.md") < text.index("memories/old.md")
    assert "superseded by a newer memory" in text


# Both banks


def test_the_person_s_own_memories_come_too(home: Path, lantern: Path) -> None:
    done("init", "--global")
    done("put", "-", "--id", "mine", "--global", input="Ada likes lantern oil from whales.")
    text = prompt(ASKED)
    assert "-> .retain/memories/lantern.md" in text
    assert "-> ~/.retain/memories/mine.md" in text


def test_one_name_in_both_banks_is_two_memories(home: Path, lantern: Path) -> None:
    done("init", "--global")
    done("put", "-", "--id", "lantern", "--global", input="Ada's lantern burns whale oil.")
    text = prompt(ASKED)
    assert text.count("lantern.md") == 2
    assert prompt(ASKED) == ""


def test_a_global_bank_alone_is_enough(home: Path) -> None:
    done("init", "--global")
    done("put", "-", "--id", "mine", "--global", input="The lantern burns whale oil.")
    assert "-> ~/.retain/memories/mine.md" in prompt(ASKED)


# The budget


@pytest.mark.slow
@pytest.mark.parametrize("budget", ["50", "100", "700", "2000"])
@pytest.mark.parametrize(
    "letters", ["whale oil ", "whale\noil\n", "whale oil 鯨油 ", "whale&<oil> "]
)
def test_huge_memories_keep_the_budget(
    budget: str, letters: str, bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RETRIEVAL_BUDGET", budget)
    monkeypatch.setenv("RETAIN_RETRIEVAL_MAX_INJECT", "20")
    for number in range(20):
        name = f"collection/{number}-{'n' * 100}"
        indexes.write(bank, name, f"# {'lantern ' * 40}{number}\n\n{letters * 400}")
    done("sync")
    text = prompt("whale oil for the lantern")
    assert tokens(text) <= int(budget)
    assert len(text) < 10_000
    assert bool(text) == (int(budget) >= 700)


def test_a_budget_of_nothing_brings_nothing(lantern: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RETRIEVAL_BUDGET", "0")
    assert prompt(ASKED) == ""


def test_a_long_prompt_is_looked_at_up_to_a_point(lantern: Path) -> None:
    assert "whale" in prompt(f"{ASKED} {'and ' * 500_000}")


# An index that is not as we left it


def test_an_index_from_a_repository_is_not_believed(lantern: Path, work: Path) -> None:
    with contextlib.closing(sqlite3.connect(lantern / ".index" / "index.db")) as connection:
        connection.execute("UPDATE chunks SET text = 'a forged lantern'")
        connection.commit()
    clone = work / "clone"
    shutil.copytree(lantern, clone / ".retain")
    for extra in ((), ("index.db-wal",)):
        for name in extra:
            (clone / ".retain" / ".index" / name).touch()
        text = prompt(ASKED, cwd=str(clone), session_id="")
        assert "whale oil" in text
        assert "forged" not in text


@pytest.mark.parametrize("name", ["index.db", "index.seal"])
@pytest.mark.parametrize("kind", ["empty", "noise", "link", "pipe", "directory"])
def test_a_broken_index_is_done_without(name: str, kind: str, lantern: Path) -> None:
    path = lantern / ".index" / name
    other = path.rename(path.with_suffix(".moved"))
    if kind == "link":
        path.symlink_to(other)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.write_bytes(b"" if kind == "empty" else os.urandom(5000))
    assert "whale oil" in prompt(ASKED)


def test_a_damaged_page_is_done_without(lantern: Path) -> None:
    path = lantern / ".index" / "index.db"
    facts = path.stat()
    with open(path, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (facts.st_size - 4096))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert "whale oil" in prompt(ASKED)


def test_an_index_in_use_is_read_all_the_same(lantern: Path) -> None:
    with contextlib.closing(sqlite3.connect(lantern / ".index" / "index.db")) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        assert "whale" in prompt(ASKED)


# A warm process


@pytest.fixture
def short(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:
        monkeypatch.chdir(folder)
        yield Path(folder).resolve()
        monkeypatch.chdir(home)


@pytest.mark.slow
def test_a_warm_process_finds_what_words_do_not(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done("init")
    monkeypatch.delenv("RETAIN_RECALL_EMBEDDER")
    put("lantern", "The lantern burns whale oil.")
    put("token", "Session tokens expire after twelve hours.", "--title", "Tokens")
    with running(*command(), "serve"):
        text = prompt("when does a login run out?", session_id="warm")
        assert "memories/token.md" in text
        assert ": Session tokens expire after twelve hours." in text
        assert prompt("when does a login run out?", session_id="warm") == ""
        assert "whale" in prompt(ASKED, session_id="warm")
        assert prompt("how do I bake sourdough bread at home", session_id="warm") == ""
        path = short / ".retain" / "memories" / "lantern.md"
        path.write_text("The lantern burns olive oil.", encoding="utf-8")
        text = prompt(ASKED, session_id="warm")
        assert "whale" not in text
        path.unlink()
        assert prompt(ASKED, session_id="after") == ""


def test_a_warm_process_of_a_project_looks_in_both_banks(short: Path, home: Path) -> None:
    done("init")
    done("init", "--global")
    put("lantern", "The lantern burns whale oil.")
    done("put", "-", "--id", "mine", "--global", input="Ada's lantern burns whale oil too.")
    with running(*command(), "serve"):
        text = prompt(ASKED)
    assert "-> .retain/memories/lantern.md" in text
    assert "-> ~/.retain/memories/mine.md" in text


def test_a_socket_that_nobody_answers_is_done_without(short: Path) -> None:
    import socket

    done("init")
    put("lantern", "The lantern burns whale oil.")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(short / ".retain" / ".index" / "warm.sock"))
        os.chmod(short / ".retain" / ".index" / "warm.sock", 0o600)
        assert "whale" in prompt(ASKED)


def test_a_warm_process_tells_what_to_beware_of(short: Path) -> None:
    done("init")
    put("old", "The lantern burns whale oil.", "--metadata", '{"superseded_by": "new"}')
    put("new", "The lantern burns olive oil.")
    root = short / ".retain"
    (short / "oil.py").write_text("oil = 1\n", encoding="utf-8")
    put("linked", "The lantern burns oil as in [[oil.py]].")
    (short / "oil.py").unlink()
    kept(root, "decision", "gone", record_status="retired", content={"decision": "lantern oil"})
    kept(root, "decision", "shelf", record_status="archived", content={"decision": "lantern oil"})
    with running(*command(), "serve"):
        text = prompt(ASKED)
    assert text.index("memories/new.md") < text.index("memories/old.md")
    assert "· superseded by memories/new\n" in text
    assert "· oil.py has gone since" in text, text
    assert "gone.json" not in text
    assert "shelf.json" not in text or "· archived" in text


def test_what_the_host_itself_says_brings_nothing(lantern: Path) -> None:
    assert prompt(f"<task-notification>{ASKED}</task-notification>") == ""
