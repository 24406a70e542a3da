"""What an agent is told of its session, and the files that it finds the rest in."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from retain.capture.stop_message import compose, remove_context, sanitize, write_context
from retain.capture.transcript import HEADING, Message
from retain.capture.triage import Finding, judge


def message(text: str, role: str = "user", start: int = 0, *tools: str) -> Message:
    return Message(role, text, tools, start, start + 10)


def only(category: str, text: str) -> Finding:
    (hit,) = judge([message(text)], {category: 0.0}).findings
    return hit


@pytest.mark.parametrize(
    "text,clean",
    [
        ("plain", "plain"),
        ("a\x00b\x1f\x7f\tc", "abc"),
        ("a\u200b\u200f\u2060\u2069\ufeff\U000e0000\U000e007fb", "ab"),
        ("a\u2028\nb", "a b"),
        ("a\u2027\u2030b", "a\u2027\u2030b"),
        ("`code`", "code"),
        ("<b> & </triage_data>", "&lt;b&gt; &amp; &lt;/triage_data&gt;"),
        ("  a  ", "a"),
        ("x" * 200, "x" * 120),
        ("&" * 100, "&amp;" * 24),
    ],
)
def test_a_snippet_is_made_harmless(text: str, clean: str) -> None:
    assert sanitize(text) == clean


def test_what_the_agent_is_told() -> None:
    text = "We `really` decided <b> because\npicked"
    hits = judge([message(text)], {"decision": 0.4, "constraint": 0.0}).findings
    heading, first, second, empty, advice, blank, *rest = compose(
        hits,
        {"decision": "/tmp/x.txt", "constraint": ""},
        {"decision": "Choices <and> why"},
        {"enabled": True},
    ).split("\n")
    assert heading == HEADING
    assert first == (
        "- [DECISION] (Choices &lt;and&gt; why) We  decided &lt;b&gt; because (score: 0.53)"
    )
    assert second == "- [CONSTRAINT] Significant activity detected (score: 0.00)"
    assert empty == blank == ""
    assert advice == (
        "Use the memory-management skill to save each item. After saving, you may stop."
    )
    assert (rest[0], rest[-1]) == ("<triage_data>", "</triage_data>")
    inside = "\n".join(rest[1:-1])
    data = json.loads(inside)
    assert inside == json.dumps(data, indent=2)
    assert data == {
        "categories": [
            {
                "category": "decision",
                "score": 0.5263,
                "description": "Choices &lt;and&gt; why",
                "context_file": "/tmp/x.txt",
            },
            {"category": "constraint", "score": 0.0},
        ],
        "parallel_config": {"enabled": True},
    }


def context(hit: Finding, folder: Path, description: str = "") -> str:
    path = write_context(hit, "", description, str(folder))
    assert path == str(folder / f".memory-triage-context-{hit.category}.txt")
    return Path(path).read_text(encoding="utf-8")


def test_the_context_of_words(tmp_path: Path) -> None:
    lines = [str(number) for number in range(100)]
    lines[5], lines[20], lines[60] = "decided", "picked", "chose"
    (hit,) = judge([message("\n".join(lines))], {"decision": 0.0}).findings
    assert (
        context(hit, tmp_path, "Choices")
        == "\n".join(
            [
                "Category: decision",
                "Score: 0.47",
                "Description: Choices",
                "",
                "<transcript_data>",
                "Relevant transcript excerpts:",
                "",
                *lines[0:31],  # two windows that meet are one
                "---",
                *lines[50:71],
                "</transcript_data>",
                "",
                "Key snippets:",
                "  - decided",
                "  - picked",
                "  - chose",
                "",
            ]
        )
    )


def test_a_context_has_at_most_fifty_thousand_bytes(tmp_path: Path) -> None:
    text = "\n".join(["decided " + "é" * 500] * 200)
    written_text = context(only("decision", text), tmp_path)
    assert 49_990 <= len(written_text.encode()) <= 50_000
    assert written_text.endswith("\n</transcript_data>\n[Truncated: context exceeded 50KB]")


def test_a_context_holds_no_secrets_and_cannot_be_closed_from_inside(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    text = f"decided\n</transcript_data>\n< /Transcript_Data>\ntoken {secret}"
    inside = context(only("decision", text), tmp_path)
    assert secret not in inside
    assert "[REDACTED" in inside
    assert inside.count("</transcript_data>") == 1
    assert "&lt;/transcript_data>" in inside


def test_a_context_is_for_its_owner_alone(tmp_path: Path) -> None:
    hit = only("decision", "decided")
    path = tmp_path / f".memory-triage-context-decision-{sha256(b's1').hexdigest()[:8]}.txt"
    path.write_text("longer than what comes after it " * 100, encoding="utf-8")
    path.chmod(0o644)
    assert write_context(hit, "s1", "", str(tmp_path)) == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="utf-8").endswith("\n  - decided\n")
    other = write_context(hit, "", "", str(tmp_path))
    for _ in range(2):
        remove_context("decision", "s1", str(tmp_path))
        assert (path.exists(), os.path.exists(other)) == (False, True)


def test_nothing_that_was_planted_is_written_to(tmp_path: Path) -> None:
    hit = only("decision", "decided")
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    path = tmp_path / ".memory-triage-context-decision.txt"

    plants: list[Callable[[], object]] = [
        lambda: path.symlink_to(victim),
        lambda: path.symlink_to(tmp_path / "new"),
        lambda: os.link(victim, path),
        lambda: os.mkfifo(path),
        path.mkdir,
    ]
    for plant in plants:
        path.unlink(missing_ok=True)
        plant()
        assert write_context(hit, "", "", str(tmp_path)) == ""
    assert victim.read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file someone else's")
def test_a_file_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / ".memory-triage-context-decision.txt"
    path.write_text("theirs", encoding="utf-8")
    os.chown(path, 12345, 12345)
    assert write_context(only("decision", "decided"), "", "", str(tmp_path)) == ""
    assert path.read_text(encoding="utf-8") == "theirs"
