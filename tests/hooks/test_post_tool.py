"""What was written into a bank past Retain: kept if it is a memory, put aside if it is none."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from retain.hooks import Answer
from tests.hooks.door import ask, kept, nothing, record
from tests.records.filing import CONTENT

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


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("category", [*CONTENT, ""])
def test_a_valid_memory_stays_and_is_mentioned(category: str, bank: Path) -> None:
    path = kept(bank, category) if category else put(bank / "note.md", "# Note\n")
    before = path.read_bytes()
    answer = wrote(path)
    assert (answer.out, answer.err) == ("", f"{WARNING}{path}\n{VALID}{path}\n")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["USER.md", "skills/x/SKILL.md", "../x.json", "decisions/gone.json", "decisions"]
)
def test_what_is_no_memory_to_look_at_is_nobody_s_business(name: str, bank: Path) -> None:
    path = bank / name
    if name == "decisions":
        path.mkdir()
    elif "gone" not in name:
        put(path, "{")
    assert nothing(wrote(path))
    assert path.exists() == ("gone" not in name)


@pytest.mark.parametrize(
    "change, word",
    [
        ({"title": None}, "title"),
        ({"content": {**CONTENT["decision"], "status": "unsure"}}, "status"),
        ({"category": "runbook"}, "category 'runbook' does not match the folder decisions"),
        ({"category": "unheard_of"}, "category"),
    ],
    ids=str,
)
def test_a_record_that_breaks_a_rule_is_put_aside(
    change: dict[str, Any], word: str, store: Path
) -> None:
    data = json.dumps(record("decision") | change)
    path = put(store / "decisions" / "one.json", data)
    reason = refused(path)
    assert reason.startswith("Schema validation failed: ")
    assert word in reason
    (name,) = os.listdir(path.parent)
    assert re.fullmatch(r"one\.json\.invalid\.\d{10}", name)
    assert f"File quarantined to {name}." in reason
    assert "retain record write" in reason
    assert (path.parent / name).read_text(encoding="utf-8") == data


@pytest.mark.parametrize(
    "kind, name, data",
    [
        ("store", "decisions/one.json", b""),
        ("store", "decisions/one.json", b"[" * 10_000),
        ("store", "decisions/one.json", b"{}"),
        ("store", "elsewhere/one.json", b'{"title": "x"}'),
        ("store", "decisions/giant.json", b" " * 2_000_001),
        ("bank", "memories/note.md", b"---\ntitle: [\n---\nx"),
        ("bank", "memories/note.md", b"---\ntitle: x\n"),
    ],
    ids=lambda value: ascii(value[:20]),
)
def test_what_is_no_memory_is_put_aside(
    kind: str, name: str, data: bytes, request: pytest.FixtureRequest
) -> None:
    root: Path = request.getfixturevalue(kind)
    path = put(root / name, data)
    assert refused(path).startswith("Schema validation failed: ")
    assert aside(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["index.md", "notes.txt", "decisions/picture.png", "note.md"])
def test_what_is_never_read_as_a_memory_is_refused_and_stays(name: str, store: Path) -> None:
    path = put(store / name, "x")
    assert "Direct write to a file that is no memory blocked: " in refused(path)
    assert aside(store) == ([name] if name == "note.md" else [])  # which other stores read


def test_a_bank_s_settings_are_not_taken_away(bank: Path) -> None:
    refused(bank / "config.toml")
    assert (bank / "config.toml").exists()


def test_a_link_that_leads_out_of_the_bank_is_left_alone(store: Path, tmp_path: Path) -> None:
    outside = put(tmp_path / "outside.json", json.dumps(record("decision")))
    link = store / "decisions" / "one.json"
    link.symlink_to(outside)
    wrote(link)
    assert (link.is_symlink(), outside.exists()) == (True, True)


def test_a_file_that_cannot_be_renamed_is_named_as_it_is(store: Path) -> None:
    name = "n" * 245 + ".json"  # with a time behind it, it would be longer than a name can be
    path = put(store / "decisions" / name, "{")
    answer = wrote(path)
    assert f"It is still at {path}." in json.loads(answer.out)["reason"]
    assert f"WARNING: {path} could not be put aside: " in answer.err
    assert path.exists()


@pytest.mark.parametrize("whose", ["project", "person"])
def test_without_settings_no_file_is_judged(whose: str, bank: Path, home: Path) -> None:
    put((bank if whose == "project" else home / ".retain") / "config.toml", "= [")
    for path in (kept(bank, "decision"), kept(bank, "decision", "bad", title=None)):
        assert nothing(wrote(path))
        assert path.exists()
