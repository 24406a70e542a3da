"""What was written into a bank past Retain: kept if it is a memory, put aside if it is none."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from retain.hooks import Answer
from tests.hooks.door import CONTENT, ask, kept, nothing, record

WARNING = "WARNING: Write to memory file bypassed PreToolUse guard: "
VALID = "WARNING: File is valid but was written directly (bypassed guard): "


def wrote(path: Path) -> Answer:
    """What is said after a tool has written a file."""
    answer = ask("post-tool-use", tool_name="Write", tool_input={"file_path": str(path)})
    assert answer.code == 0
    return answer


def refused(path: Path) -> str:
    """Why a file is no memory."""
    answer = wrote(path)
    said = json.loads(answer.out)
    assert said["decision"] == "block"
    assert answer.err.startswith(f"{WARNING}{path}\n")
    assert answer.err.endswith(f"ERROR: {said['reason']}\n")
    return str(said["reason"])


def aside(folder: Path) -> list[str]:
    """The files that were put aside, without their times."""
    found = (re.fullmatch(r"(.*)\.invalid\.\d{10}", name) for name in os.listdir(folder))
    return sorted(match[1] for match in found if match)


@pytest.mark.parametrize("category", [*CONTENT, ""])
def test_a_valid_memory_stays_and_is_mentioned(category: str, bank: Path) -> None:
    path = kept(bank, category) if category else bank / "note.md"
    if not category:
        path.write_text("# Note\n", encoding="utf-8")
    before = path.read_bytes()
    answer = wrote(path)
    assert (answer.out, answer.err) == ("", f"{WARNING}{path}\n{VALID}{path}\n")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["USER.md", "skills/x/SKILL.md", "../x.json", "decisions/gone.json", "decisions"]
)
def test_what_is_no_memory_to_look_at_is_nobody_s_business(name: str, bank: Path) -> None:
    path = bank / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name == "decisions":
        path.mkdir()
    elif "gone" not in name:
        path.write_text("{", encoding="utf-8")
    assert nothing(wrote(path))
    assert path.exists() == ("gone" not in name)


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"title": None}, "title"),
    ({"content": {**CONTENT["decision"], "status": "unsure"}}, "status"),
    ({"category": "runbook"}, "category 'runbook' does not match the folder decisions"),
    ({"category": "unheard_of"}, "category"),
]


@pytest.mark.parametrize("change, word", BROKEN, ids=str)
def test_a_record_that_breaks_a_rule_is_put_aside(
    change: dict[str, Any], word: str, store: Path
) -> None:
    path = kept(store, "decision")
    path.write_text(json.dumps(record("decision") | change), encoding="utf-8")
    before = path.read_bytes()
    reason = refused(path)
    assert reason.startswith("Schema validation failed: ")
    assert word in reason
    (name,) = [entry for entry in os.listdir(path.parent) if entry.startswith("one.json.invalid.")]
    assert f"File quarantined to {name}." in reason
    assert "retain record write" in reason
    assert not path.exists()
    assert (path.parent / name).read_bytes() == before


@pytest.mark.parametrize(
    "data",
    [b"", b"[" * 10_000, b"{}"],
    ids=lambda data: ascii(data[:20]),
)
def test_what_is_no_record_is_put_aside(data: bytes, store: Path) -> None:
    path = store / "decisions" / "one.json"
    path.write_bytes(data)
    assert refused(path).startswith("Schema validation failed: ")
    assert aside(path.parent) == ["one.json"]


def test_a_record_in_no_category_s_folder_is_judged_by_its_own_word(store: Path) -> None:
    (store / "elsewhere").mkdir()
    path = store / "elsewhere" / "one.json"
    path.write_text(json.dumps(record("decision")), encoding="utf-8")
    assert wrote(path).out == ""
    path.write_text('{"title": "x"}', encoding="utf-8")
    assert "cannot determine category" in refused(path)


@pytest.mark.parametrize("name", ["index.md", "notes.txt", "decisions/picture.png", "note.md"])
def test_what_is_never_read_as_a_memory_is_refused_and_stays(
    name: str, store: Path, work: Path
) -> None:
    path = store / name
    path.write_text("x", encoding="utf-8")
    assert "Direct write to a file that is no memory blocked: " in refused(path)
    if name == "note.md":  # which other stores read
        assert aside(store) == [name]
    else:
        assert path.read_text(encoding="utf-8") == "x"


def test_a_bank_s_settings_are_not_taken_away(bank: Path) -> None:
    refused(bank / "config.toml")
    assert (bank / "config.toml").exists()


def test_a_link_and_a_giant_are_no_memories(store: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(record("decision")), encoding="utf-8")
    link = store / "decisions" / "one.json"
    link.symlink_to(outside)
    wrote(link)  # it leads out of the bank, so nothing was written into one
    assert (link.is_symlink(), outside.exists()) == (True, True)
    giant = store / "decisions" / "giant.json"
    giant.write_bytes(b" " * 2_000_001)
    assert "is larger than" in refused(giant)


def test_a_memory_may_be_as_large_as_the_settings_say(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_MEMORY_MAX_BYTES", "3000000")
    path = bank / "memories" / "note.md"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"# Note\n" + b"word " * 500_000)
    assert wrote(path).out == ""


def test_one_that_was_put_aside_is_not_replaced_by_the_next(store: Path) -> None:
    path = store / "decisions" / "one.json"
    for text in ("{1", "{2", "{3"):
        path.write_text(text, encoding="utf-8")
        refused(path)
    kept_aside = sorted(path.parent.iterdir())
    assert [one.read_text(encoding="utf-8") for one in kept_aside] == ["{1", "{2", "{3"]


def test_a_file_that_cannot_be_renamed_is_named_as_it_is(store: Path) -> None:
    name = "n" * 245 + ".json"  # with a time behind it, it would be longer than a name can be
    path = store / "decisions" / name
    path.write_text("{", encoding="utf-8")
    answer = wrote(path)
    assert json.loads(answer.out)["decision"] == "block"
    assert f"It is still at {path}." in json.loads(answer.out)["reason"]
    assert f"WARNING: {path} could not be put aside: " in answer.err
    assert path.exists()


@pytest.mark.parametrize("whose", ["project", "person"])
def test_without_settings_no_file_is_judged(whose: str, bank: Path, home: Path) -> None:
    root = bank if whose == "project" else home / ".retain"
    root.mkdir(exist_ok=True)
    (root / "config.toml").write_text("= [", encoding="utf-8")
    for path in (kept(bank, "decision"), kept(bank, "decision", "bad", title=None)):
        assert nothing(wrote(path))
        assert path.exists()


# In a bank of our own


@pytest.mark.parametrize("text", ["---\ntitle: [\n---\nx", "---\ntitle: x\n"], ids=ascii)
def test_frontmatter_that_makes_no_sense_is_put_aside(text: str, bank: Path) -> None:
    path = bank / "memories" / "note.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    assert refused(path).startswith("Schema validation failed: ")
    assert aside(path.parent) == ["note.md"]
