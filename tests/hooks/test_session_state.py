"""What hooks remember of a session, and that losing it hurts nobody."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retain.hooks.session_state import SessionState
from retain.locate import BankLocation
from tests.hooks.door import SESSION, state_file


def state_of(root: Path, session: str = SESSION) -> SessionState:
    return SessionState(BankLocation(str(root), "retain", "project", "", True), session, os.environ)


def test_a_state_is_kept_private_and_not_in_the_bank(bank: Path) -> None:
    before = sorted(bank.rglob("*"))
    state = state_of(bank)
    state.save()
    folder = state_file(bank).parent
    assert not folder.exists()  # there is nothing to keep yet
    state.show({"project:a": "1"})
    state.judged, state.last, state.is_summarised = 7, "digest", True
    state.raised, state.raised_at = [{"category": "decision"}], 5.0
    state.save()
    assert vars(state_of(bank)) | {"_saved": ""} == vars(state) | {"_saved": ""}
    assert not state_of(bank).is_new("project:a", "1")
    assert state_of(bank).is_new("project:a", "2")
    assert os.listdir(folder) == [state_file(bank).name]
    assert stat.S_IMODE(state_file(bank).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(bank.rglob("*")) == before


@pytest.mark.parametrize(
    "session", ["../../x", "/etc/passwd", "..", "x" * 300, "é", "\0", "\ud800"]
)
def test_any_session_s_id_becomes_a_name_in_the_folder(session: str, bank: Path) -> None:
    state = state_of(bank, session)
    state.judged = 7
    state.save()
    (name,) = os.listdir(state_file(bank).parent)
    assert (len(name) < 80, name.endswith(".json")) == (True, True)
    assert state_of(bank, session).judged == 7


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 20_000], ids=lambda it: it[:4])
def test_a_broken_state_is_an_empty_one(data: bytes, bank: Path) -> None:
    state_file(bank).parent.mkdir(parents=True)
    state_file(bank).write_bytes(data)
    state = state_of(bank)
    assert (state.shown, state.judged, state.last, state.raised) == ({}, 0, "", [])
    state.judged = 9
    state.save()
    assert state_of(bank).judged == 9


def test_what_cannot_be_kept_is_done_without(bank: Path) -> None:
    state_file(bank).parent.parent.mkdir(parents=True)
    state_file(bank).parent.write_text("in the way", encoding="utf-8")
    for session in (SESSION, ""):
        state = state_of(bank, session)
        state.judged = 7
        state.save()
        assert state_of(bank, session).judged == 0
