"""What an agent is told of its session, and the files that it finds the rest in."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from retain.capture.raising import remove_context, sanitized, suffix, told, write_context
from retain.capture.transcript import HEADING, Message, tail
from retain.capture.triage import Hit, judged
from tests.capture.settings import ANYTHING, DEFAULTS
from tests.capture.transcripts import written


def message(text: str, role: str = "user", start: int = 0, *tools: str) -> Message:
    return Message(role, text, tools, start, start + 10)


def only(category: str, text: str) -> Hit:
    (hit,) = judged([message(text)], ANYTHING._replace(captured=(category,)))
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
    assert sanitized(text) == clean


def test_what_the_agent_is_told() -> None:
    settings = DEFAULTS._replace(
        thresholds={**DEFAULTS.thresholds, "constraint": 0.0},
        descriptions={"decision": "Choices <and> why"},
        captured=("decision", "constraint"),
    )
    text = "We `really` decided <b> because\npicked"
    hits = judged([message(text)], settings)
    heading, first, second, empty, advice, blank, *rest = told(
        hits, settings, {"decision": "/tmp/x.txt", "constraint": ""}
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
        "parallel_config": {
            "enabled": True,
            "category_models": {
                "session_summary": "haiku",
                "decision": "sonnet",
                "runbook": "haiku",
                "constraint": "sonnet",
                "tech_debt": "haiku",
                "preference": "haiku",
            },
            "verification_model": "sonnet",
            "default_model": "haiku",
        },
    }
    assert told([], settings, {}) == ""


def test_what_the_agent_was_told_is_never_judged(tmp_path: Path) -> None:
    hits = judged([message("We decided x because y.\nWe chose z over a.")], DEFAULTS)
    feedback = told(hits, DEFAULTS, {})
    records = [{"type": "user", "message": {"role": "user", "content": feedback}}]
    assert tail(written(tmp_path / "t.jsonl", records), 50) == []


def context(hit: Hit, folder: Path) -> str:
    path = write_context(hit, str(folder))
    assert path == str(folder / f".memory-triage-context-{hit.category}.txt")
    return Path(path).read_text(encoding="utf-8")


def test_the_context_of_words(tmp_path: Path) -> None:
    lines = [str(number) for number in range(100)]
    lines[5], lines[20], lines[60] = "decided", "picked", "chose"
    settings = ANYTHING._replace(descriptions={"decision": "Choices"}, captured=("decision",))
    (hit,) = judged([message("\n".join(lines))], settings)
    assert (
        context(hit, tmp_path)
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


def test_the_context_of_a_session(tmp_path: Path) -> None:
    messages = [message("", "assistant", 0, *["Bash"] * 9, "Read"), message("hm")]
    (hit,) = judged(messages, DEFAULTS)
    assert context(hit, tmp_path).splitlines() == [
        "Category: session_summary",
        "Score: 0.72",
        "",
        "<transcript_data>",
        "Activity Metrics:",
        "  Tool uses: 10",
        "  Distinct tools: 2",
        "  Exchanges: 1",
        "</transcript_data>",
        "",
        "Key snippets:",
        "  - 10 tool uses across 2 tools, 1 exchanges",
    ]


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
    path = tmp_path / ".memory-triage-context-decision-s1.txt"
    path.write_text("longer than what comes after it " * 100, encoding="utf-8")
    path.chmod(0o644)
    assert write_context(hit, str(tmp_path), "-s1") == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text(encoding="utf-8").endswith("\n  - decided\n")
    assert write_context(hit, str(tmp_path)) != str(path)


def test_nothing_that_was_planted_is_written_to(tmp_path: Path) -> None:
    hit = only("decision", "decided")
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    path = tmp_path / ".memory-triage-context-decision.txt"

    path.symlink_to(victim)
    assert write_context(hit, str(tmp_path)) == ""
    path.unlink()
    path.symlink_to(tmp_path / "new")
    assert write_context(hit, str(tmp_path)) == ""
    path.unlink()
    os.link(victim, path)
    assert write_context(hit, str(tmp_path)) == ""
    path.unlink()
    os.mkfifo(path)
    assert write_context(hit, str(tmp_path)) == ""
    path.unlink()
    path.mkdir()
    assert write_context(hit, str(tmp_path)) == ""

    assert victim.read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file someone else's")
def test_a_file_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / ".memory-triage-context-decision.txt"
    path.write_text("theirs", encoding="utf-8")
    os.chown(path, 12345, 12345)
    assert write_context(only("decision", "decided"), str(tmp_path)) == ""
    assert path.read_text(encoding="utf-8") == "theirs"


@pytest.mark.parametrize("suffix", ["/../x", "-a/b", "\0", "x" * 300])
def test_a_suffix_cannot_lead_elsewhere(tmp_path: Path, suffix: str) -> None:
    assert write_context(only("decision", "decided"), str(tmp_path), suffix) == ""
    assert write_context(only("decision", "decided"), str(tmp_path / "none")) == ""
    assert list(tmp_path.parent.glob("x*")) == []


def test_a_context_is_removed_if_it_is_there(tmp_path: Path) -> None:
    hit = only("decision", "decided")
    path = write_context(hit, str(tmp_path), suffix("s1"))
    other = write_context(hit, str(tmp_path), suffix("s2"))
    remove_context("decision", str(tmp_path), suffix("s1"))
    remove_context("decision", str(tmp_path), suffix("s1"))
    assert (os.path.exists(path), os.path.exists(other)) == (False, True)
    assert suffix("") == ""
