"""What hooks remember of a session, and that losing it hurts nobody."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from retain.hooks.memo import Memo
from retain.place import Place
from tests.hooks.door import OTHER, SESSION


def folder(root: Path) -> Path:
    return root / ".index" / "hooks"


def test_a_memo_keeps_what_it_is_told(bank: Path) -> None:
    memo = Memo(str(bank), SESSION)
    memo.show({"project:a": "1"})
    memo.judged, memo.last, memo.is_summarised = 7, "digest", True
    memo.raise_now([{"category": "decision"}])
    memo.save()
    memo = Memo(str(bank), SESSION)
    assert not memo.is_new("project:a", "1")
    assert memo.is_new("project:a", "2")
    assert (memo.judged, memo.last, memo.is_summarised) == (7, "digest", True)
    assert memo.raised[1] == [{"category": "decision"}]
    memo.raise_now(())
    memo.forget_shown()
    assert memo.raised == (0.0, [])
    assert memo.is_new("project:a", "1")


def test_a_memo_is_private_and_whole(bank: Path) -> None:
    memo = Memo(str(bank), SESSION)
    memo.save()
    assert not folder(bank).exists()  # there is nothing to keep yet
    memo.judged = 1
    memo.save()
    memo.save()
    (name,) = os.listdir(folder(bank))
    assert name == f"{SESSION}.json"
    assert stat.S_IMODE((folder(bank) / name).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "session",
    ["../../x", "/etc/passwd", "a/b", "..", "x" * 300, "é", "\0", "\ud800", "A b"],
    ids=ascii,
)
def test_any_session_s_id_becomes_a_name_in_the_folder(session: str, bank: Path) -> None:
    memo = Memo(str(bank), session)
    memo.judged = 7
    memo.save()
    (name,) = os.listdir(folder(bank))
    assert len(name) < 80
    assert name.endswith(".json")
    assert Memo(str(bank), session).judged == 7


BROKEN = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff",
    b"[" * 20_000,
    b'{"a": "' + b"x" * 2_000_000 + b'"}',
    b'{"shown": [], "judged": [], "last": [], "raised": [], "summarised": []}',
    b'{"shown": 7, "judged": -1, "raised": {"at": "x", "hits": 7}}',
    b'{"judged": true, "raised": {"at": "x", "hits": [1]}}',
]


@pytest.mark.parametrize("data", BROKEN, ids=lambda data: ascii(data[:40]))
def test_a_broken_memo_is_an_empty_one(data: bytes, bank: Path) -> None:
    folder(bank).mkdir(parents=True)
    (folder(bank) / f"{SESSION}.json").write_bytes(data)
    memo = Memo(str(bank), SESSION)
    assert memo.is_new("a", "1")
    assert (memo.judged, memo.last, memo.raised[1], memo.is_summarised) == (0, "", [], False)
    memo.show({"a": "1"})
    memo.judged = 9
    memo.save()
    assert Memo(str(bank), SESSION).judged == 9


def test_links_are_not_followed(bank: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    folder(bank).parent.mkdir(exist_ok=True)
    folder(bank).symlink_to(theirs)
    memo = Memo(str(bank), SESSION)
    memo.judged = 7
    memo.save()
    Memo.sweep(str(bank), os.environ)
    assert os.listdir(theirs) == []
    folder(bank).unlink()
    folder(bank).mkdir()
    victim = tmp_path / "victim"
    victim.write_text('{"judged": 3}', encoding="utf-8")
    (folder(bank) / f"{SESSION}.json").symlink_to(victim)
    memo = Memo(str(bank), SESSION)
    assert memo.judged == 0
    memo.judged = 7
    memo.save()
    assert victim.read_text(encoding="utf-8") == '{"judged": 3}'


def test_without_a_bank_or_a_session_nothing_is_kept(work: Path, bank: Path) -> None:
    for root, session in ((work / "none", SESSION), (bank, "")):
        memo = Memo(str(root), session)
        memo.judged = 7
        memo.save()
        Memo.sweep(str(root), os.environ)
        assert Memo(str(root), session).judged == 0
    assert not (work / "none").exists()


def test_only_so_many_memories_are_remembered(bank: Path) -> None:
    memo = Memo(str(bank), SESSION)
    memo.show({f"m{number}": "1" for number in range(2500)})
    memo.save()
    memo = Memo(str(bank), SESSION)
    assert memo.is_new("m0", "1")
    assert not memo.is_new("m2499", "1")


def test_a_memo_without_a_bank_is_kept_and_swept_where_the_call_says(
    work: Path, tmp_path: Path
) -> None:
    env = {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    (tmp_path / "run").mkdir()
    none = Place(str(work / "none"), "retain", "project", "", False)
    for session in (SESSION, OTHER):
        memo = Memo.of(none, session, env)
        memo.judged = 7
        memo.save()
    (kept,) = (tmp_path / "run").iterdir()
    old = folder(kept) / f"{SESSION}.json"
    os.utime(old, (time.time() - 41 * 86_400,) * 2)
    Memo.sweep(none.root, env)
    assert Memo.of(none, OTHER, env).judged == 7
    assert Memo.of(none, SESSION, env).judged == 0
