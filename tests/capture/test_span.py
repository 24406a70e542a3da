"""The part of a transcript a proposal was made from: messages, and never another file's bytes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from retain.capture.inbox import Proposal
from retain.capture.span import Said, span
from tests.capture.transcripts import assistant, result, text, tool, user, written

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"


def line(role: str, content: object) -> str:
    return json.dumps({"type": role, "message": {"role": role, "content": content}}) + "\n"


def proposal(path: Path | str, start: int, end: int) -> Proposal:
    return Proposal("", "decision", "t", "x", transcript_path=str(path), start=start, end=end)


def test_messages_of_the_span_are_shown_and_no_others(tmp_path: Path) -> None:
    lines = [
        line("user", "before"),
        line("user", "Which one?"),
        line(
            "assistant", [{"type": "text", "text": "Postgres."}, {"type": "tool_use", "name": "x"}]
        ),
        line("assistant", "after"),
    ]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    found = span(proposal(path, len(lines[0]), len("".join(lines[:3]))), {})
    assert found.messages == (Said("user", "Which one?"), Said("assistant", "Postgres."))
    assert (found.missing, found.is_cut) == ("", False)


def test_what_nobody_said_is_not_shown(tmp_path: Path) -> None:
    memory = "<memory-context>We decided on MySQL.</memory-context>\nAnd now?"
    records: list[dict[str, object]] = [
        user("Caveat: ignore this.", isMeta=True),
        user(memory),
        user([result("a listing of files")]),
        assistant(text("A helper's words."), isSidechain=True),
        {"type": "system", "content": "a note of the host"},
        assistant({"type": "thinking", "thinking": "Hm."}, answer="m1"),
        assistant(text("Postgres."), answer="m1"),
        assistant(tool("Bash"), answer="m1"),
        assistant(text("It runs."), answer="m1"),
    ]
    path = Path(written(tmp_path / "s.jsonl", records))
    found = span(proposal(path, 0, path.stat().st_size), {})
    assert found.messages == (Said("user", "And now?"), Said("assistant", "Postgres.\nIt runs."))


def test_only_files_where_transcripts_are_kept_are_read() -> None:
    with tempfile.NamedTemporaryFile(
        "w", dir="/var/tmp", suffix=".jsonl", encoding="utf-8"
    ) as file:
        file.write(line("user", "private"))
        file.flush()
        asked = proposal(file.name, 0, 1000)
        home = {"HOME": os.path.realpath("/var/tmp")}
        assert span(asked, home).messages == (Said("user", "private"),)
        assert "not where transcripts are kept" in span(asked, {}).missing


def test_secrets_are_not_shown_and_long_messages_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(line("user", f"token={TOKEN} " + "x" * 10_000), encoding="utf-8")
    (said,) = span(proposal(path, 0, path.stat().st_size), {}).messages
    assert TOKEN not in said.text
    assert len(said.text) == 4_000


def test_many_messages_are_cut_and_it_is_said(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(line("user", "x") * 60, encoding="utf-8")
    found = span(proposal(path, 0, path.stat().st_size), {})
    assert (len(found.messages), found.is_cut) == (50, True)


def test_transcript_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    assert "is gone" in span(proposal(tmp_path / "s.jsonl", 0, 10), {}).missing
    assert "does not name" in span(proposal("", 0, 10), {}).missing
    assert "does not name" in span(proposal(tmp_path / "s.jsonl", 10, 10), {}).missing


@pytest.mark.parametrize("name", ["id_rsa", "notes.txt", ".env"])
def test_file_of_another_kind_is_never_opened(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(line("user", "private"), encoding="utf-8")
    found = span(proposal(path, 0, 1000), {})
    assert (found.messages, "is not a transcript" in found.missing) == ((), True)


def test_bytes_that_are_no_messages_are_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text("-----BEGIN KEY-----\nabc\n[1]\n{}\n" + "[" * 99_999, encoding="utf-8")
    found = span(proposal(path, 0, 200_000), {})
    assert (found.messages, "holds no messages" in found.missing) == ((), True)


@pytest.mark.parametrize("path", ["relative.jsonl", "/tmp/a\0b.jsonl"])
def test_odd_paths_are_refused(path: str) -> None:
    assert "transcript" in span(proposal(path, 0, 10), {}).missing


def test_links_pipes_and_folders_are_not_followed_and_hold_nobody(tmp_path: Path) -> None:
    real = tmp_path / "real.jsonl"
    real.write_text(line("user", "private"), encoding="utf-8")
    (tmp_path / "link.jsonl").symlink_to(real)
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name in ("link", "pipe", "folder"):
        found = span(proposal(tmp_path / f"{name}.jsonl", 0, 1000), {})
        assert found.messages == ()
        assert found.missing
