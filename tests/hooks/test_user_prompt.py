"""What a prompt brings with it: nothing twice, nothing stale, nothing that came from strangers."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.daemon.client import socket_path
from tests import indexes
from tests.cli.door import done
from tests.conftest import command
from tests.daemon.process import running
from tests.hooks.door import ask, kept, nothing, prompt

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
    answer = json.loads(ask("user-prompt-submit", user_prompt=ASKED, session_id="").out)
    assert list(answer) == ["hookSpecificOutput"]
    assert answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"


@pytest.mark.parametrize(
    "words",
    [
        "",
        "lantern  ",
        " " * 50 + "lantern",
        "the and of is was are",
        "?!... --- ;;; ,,,",
        "how do I bake sourdough bread at home",
        "日本の首都はどこですか、教えてください",
        f"<task-notification>{ASKED}</task-notification>",
    ],
    ids=ascii,
)
def test_a_prompt_that_asks_for_nothing_known_brings_nothing(words: str, lantern: Path) -> None:
    assert nothing(ask("user-prompt-submit", prompt=words))


def test_a_large_bank_without_an_index_waits_for_one_and_the_prompt_does_not(bank: Path) -> None:
    for number in range(201):
        indexes.write(bank, f"notes/m{number}", f"The lantern burns whale oil {number}.")
    assert nothing(ask("user-prompt-submit", prompt=ASKED))
    done("sync")
    assert "whale oil" in prompt(ASKED)


@pytest.mark.parametrize(
    "text, wanted",
    [
        ('{"retrieval": {"max_inject": 1}}', 1),
        ('{"retrieval": {"max_inject": 0}}', 0),
        ('{"retrieval": {"max_inject": 1000}}', 8),
        ('{"retrieval": {"enabled": false}}', 0),
        ('{"retrieval": {"budget": 0}}', 0),
        ('{"retrieval"', 5),
    ],
    ids=ascii,
)
def test_how_many_a_prompt_brings_is_a_setting(text: str, wanted: int, store: Path) -> None:
    for number in range(8):
        kept(store, "decision", f"n{number}", content={"decision": f"Lantern {number}: whale oil"})
    done("sync")
    (store / "memory-config.json").write_text(text, encoding="utf-8")
    assert prompt("which oil for the lantern, whale").count("\n- [") == wanted


@pytest.mark.parametrize(
    "odd", ["\ud800", "\0", "\u202e", '"', "%", "NEAR(", "🙂", "\n" * 999, "and " * 500_000]
)
def test_odd_characters_in_a_prompt_hurt_nobody(odd: str, lantern: Path) -> None:
    assert "whale" in prompt(f"{odd[:9]} {ASKED} {odd}")


# Once in a conversation


def test_a_memory_comes_once_in_a_conversation_unless_it_changed(lantern: Path) -> None:
    assert "whale" in prompt(ASKED)
    assert prompt(ASKED) == ""
    assert "whale" in prompt(ASKED, session_id="another")
    put("lantern", "The lantern burns olive oil now.")
    assert "olive" in prompt(ASKED)
    assert prompt(ASKED) == ""
    ask("post-compact", compact_summary="They talked about lanterns.")
    assert "olive" in prompt(ASKED)


# As the files are now


@pytest.mark.parametrize("way", ["unlinked", "deleted", "link"])
def test_a_memory_that_is_gone_is_not_shown(way: str, lantern: Path, tmp_path: Path) -> None:
    path = lantern / "memories" / "lantern.md"
    if way == "deleted":
        done("delete", "lantern")
    else:
        path.unlink()
    if way == "link":
        (tmp_path / "secret.md").write_text("numbat", encoding="utf-8")
        path.symlink_to(tmp_path / "secret.md")
    text = prompt(ASKED)
    assert "whale" not in text
    assert "numbat" not in text


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


# Both banks


def test_one_name_in_both_banks_is_two_memories(home: Path, lantern: Path) -> None:
    done("init", "--global")
    done("put", "-", "--id", "lantern", "--global", input="Ada's lantern burns whale oil.")
    text = prompt(ASKED)
    assert "-> .retain/memories/lantern.md" in text
    assert "-> ~/.retain/memories/lantern.md" in text
    assert prompt(ASKED) == ""
    assert "-> ~/.retain/memories/lantern.md" in prompt(ASKED, cwd=str(home))


# An index that is not as we left it


@pytest.mark.parametrize("kind", ["none", "empty", "noise", "directory", "pages"])
def test_a_small_bank_without_a_sound_index_gets_one(kind: str, lantern: Path) -> None:
    path = indexes.database(lantern)
    data = path.read_bytes()
    path.unlink()
    damaged = {"empty": b"", "noise": os.urandom(5000), "pages": data[:4096] + b"\xff" * 9000}
    if kind == "directory":
        path.mkdir()
    elif kind in damaged:
        path.write_bytes(damaged[kind])
    assert "whale oil" in prompt(ASKED)


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
        text = prompt("when does a login run out?")
        assert "memories/token.md" in text
        assert ": Session tokens expire after twelve hours." in text
        assert prompt("when does a login run out?") == ""
        assert prompt("how do I bake sourdough bread at home") == ""
        path = short / ".retain" / "memories" / "lantern.md"
        path.write_text("The lantern burns olive oil.", encoding="utf-8")
        assert "whale" not in prompt(ASKED)
        path.unlink()
        assert prompt(ASKED, session_id="after") == ""


def test_a_socket_that_nobody_answers_is_done_without(short: Path) -> None:
    import socket

    done("init")
    put("lantern", "The lantern burns whale oil.")
    with socket.socket(socket.AF_UNIX) as deaf:
        path = socket_path(str(short / ".retain"))
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        deaf.bind(path)
        os.chmod(path, 0o600)
        assert "whale" in prompt(ASKED)
