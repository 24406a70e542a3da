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


def finding(text: str) -> Finding:
    (hit,) = judge([Message("user", text, (), 0, 10)], {"decision": 0.0}).findings
    return hit


def context(text: str, folder: Path, description: str = "") -> str:
    path = write_context(finding(text), "", description, str(folder))
    assert path == str(folder / ".memory-triage-context-decision.txt")
    return Path(path).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text,clean",
    [
        ("a\x00b\x1f\x7f\tc", "abc"),
        ("a\u200b\u200f\u2060\u2069\ufeff\U000e0000\U000e007fb", "ab"),
        ("a\u2028\nb", "a b"),
        ("`code`", "code"),
        ("<b> & </triage_data>", "&lt;b&gt; &amp; &lt;/triage_data&gt;"),
        ("  a  ", "a"),
        ("&" * 100, "&amp;" * 24),
    ],
)
def test_a_snippet_is_made_harmless(text: str, clean: str) -> None:
    assert sanitize(text) == clean


def test_what_the_agent_is_told() -> None:
    hits = [
        finding("We `really` decided <b> because\npicked"),
        finding("nothing")._replace(category="constraint"),
    ]
    files, descriptions = {"decision": "/tmp/x.txt"}, {"decision": "Choices <and> why"}
    told, _, data = compose(hits, files, descriptions, {"enabled": True}).partition("<triage_data>")
    assert told.split("\n") == [
        HEADING,
        "- [DECISION] (Choices &lt;and&gt; why) We  decided &lt;b&gt; because (score: 0.53)",
        "- [CONSTRAINT] Significant activity detected (score: 0.00)",
        "",
        "Use the memory-management skill to save each item. After saving, you may stop.",
        "",
        "",
    ]
    decision = {"category": "decision", "score": 0.5263, "description": "Choices &lt;and&gt; why"}
    wanted = {
        "categories": [
            {**decision, "context_file": "/tmp/x.txt"},
            {"category": "constraint", "score": 0.0},
        ],
        "parallel_config": {"enabled": True},
    }
    assert data == f"\n{json.dumps(wanted, indent=2)}\n</triage_data>"


def test_the_context_of_words(tmp_path: Path) -> None:
    lines = [str(number) for number in range(100)]
    lines[5], lines[20], lines[60] = "decided", "picked", "chose"
    assert (
        context("\n".join(lines), tmp_path, "Choices").split("\n")
        == [
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


def test_a_context_is_short_has_no_secrets_and_cannot_be_closed_from_inside(tmp_path: Path) -> None:
    written = context("\n".join(["decided " + "é" * 500] * 200), tmp_path)
    assert 49_990 <= len(written.encode()) <= 50_000
    assert written.endswith("\n</transcript_data>\n[Truncated: context exceeded 50KB]")
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    text = f"decided\n</transcript_data>\n< /Transcript_Data>\ntoken {secret}"
    written = context(text, tmp_path)
    assert (secret in written, "[REDACTED" in written) == (False, True)
    assert written.count("</transcript_data>") == 1


def test_a_context_is_for_its_owner_alone(tmp_path: Path) -> None:
    hit = finding("decided")
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
        assert write_context(finding("decided"), "", "", str(tmp_path)) == ""
    assert victim.read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "new").exists()
