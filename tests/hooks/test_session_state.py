"""What hooks remember of a session, and that losing it hurts nobody."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retain.hooks.session_state import SessionState
from retain.locate import BankLocation
from tests.hooks.door import SESSION, memo_file


def memo_of(root: Path, session: str = SESSION) -> SessionState:
    return SessionState(BankLocation(str(root), "retain", "project", "", True), session, os.environ)


def test_a_memo_keeps_what_it_is_told(bank: Path) -> None:
    state = memo_of(bank)
    state.show({"project:a": "1"})
    state.judged, state.last, state.is_summarised = 7, "digest", True
    state.raised, state.raised_at = [{"category": "decision"}], 5.0
    state.save()
    state = memo_of(bank)
    assert not state.is_new("project:a", "1")
    assert state.is_new("project:a", "2")
    assert (state.judged, state.last, state.is_summarised) == (7, "digest", True)
    assert (state.raised, state.raised_at) == ([{"category": "decision"}], 5.0)
    state.shown.clear()
    assert state.is_new("project:a", "1")


def test_a_memo_is_private_whole_and_not_in_the_bank(bank: Path) -> None:
    before = sorted(bank.rglob("*"))
    state = memo_of(bank)
    state.save()
    folder = memo_file(bank).parent
    assert not folder.exists()  # there is nothing to keep yet
    state.judged = 1
    state.save()
    assert os.listdir(folder) == [f"{SESSION}.json"]
    assert stat.S_IMODE(memo_file(bank).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(bank.rglob("*")) == before


@pytest.mark.parametrize(
    "session",
    ["../../x", "/etc/passwd", "a/b", "..", "x" * 300, "é", "\0", "\ud800", "A b"],
    ids=ascii,
)
def test_any_session_s_id_becomes_a_name_in_the_folder(session: str, bank: Path) -> None:
    state = memo_of(bank, session)
    state.judged = 7
    state.save()
    (name,) = os.listdir(memo_file(bank).parent)
    assert len(name) < 80
    assert name.endswith(".json")
    assert memo_of(bank, session).judged == 7


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 20_000], ids=lambda data: ascii(data[:40])
)
def test_a_broken_memo_is_an_empty_one(data: bytes, bank: Path) -> None:
    memo_file(bank).parent.mkdir(parents=True)
    memo_file(bank).write_bytes(data)
    state = memo_of(bank)
    assert state.is_new("a", "1")
    assert (state.judged, state.last, state.raised, state.is_summarised) == (0, "", [], False)
    state.judged = 9
    state.save()
    assert memo_of(bank).judged == 9


def test_what_cannot_be_kept_is_done_without(bank: Path) -> None:
    memo_file(bank).parent.parent.mkdir(parents=True)
    memo_file(bank).parent.write_text("in the way", encoding="utf-8")
    for session in (SESSION, ""):
        state = memo_of(bank, session)
        state.judged = 7
        state.save()
        assert memo_of(bank, session).judged == 0
