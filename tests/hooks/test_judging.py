"""A transcript judged by the settings in force, from where it was judged last."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from retain.hooks.call import Call
from retain.hooks.judging import judge, stated
from retain.hooks.memo import Memo
from tests.capture.settings import DEFAULTS
from tests.hooks.door import DECIDED, SESSION, said


def call(**payload: object) -> Call:
    whole = {"session_id": SESSION, "cwd": os.getcwd(), **payload}
    return Call("stop", whole, os.environ, time.monotonic())


def test_settings_by_default_are_those_of_triage(bank: Path, work: Path) -> None:
    found = judge(call(transcript_path=said(work / "t.jsonl", "x")))
    assert found
    assert found.settings._replace(captured=()) == DEFAULTS._replace(captured=())
    assert set(found.settings.captured) == set(DEFAULTS.captured)


def test_every_setting_of_triage_is_taken_over(
    bank: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("MAX_MESSAGES", "77"),
        ("THRESHOLDS_RUNBOOK", "0.9"),
        ("PARALLEL_ENABLED", "false"),
        ("PARALLEL_VERIFICATION_MODEL", "opus"),
        ("PARALLEL_CATEGORY_MODELS_DECISION", "haiku"),
    ):
        monkeypatch.setenv(f"RETAIN_TRIAGE_{name}", value)
    monkeypatch.setenv("RETAIN_CATEGORIES_RUNBOOK_DESCRIPTION", "What to do")
    monkeypatch.setenv("RETAIN_CATEGORIES_PREFERENCE_AUTO_CAPTURE", "false")
    found = judge(call(transcript_path=said(work / "t.jsonl", "x")))
    assert found
    settings = found.settings
    assert (settings.max_messages, settings.thresholds["runbook"]) == (77, 0.9)
    assert settings.parallel["enabled"] is False
    assert settings.parallel["verification_model"] == "opus"
    models = settings.parallel["category_models"]
    assert isinstance(models, dict)
    assert models["decision"] == "haiku"
    assert settings.descriptions == {"runbook": "What to do"}
    assert "preference" not in settings.captured


def test_a_hit_is_kept_with_what_a_proposal_needs(bank: Path, work: Path) -> None:
    path = said(work / "t.jsonl", DECIDED)
    found = judge(call(transcript_path=path))
    assert found
    memo = Memo(str(bank), SESSION)
    found.look(memo)
    (hit,) = map(stated, found.hits)
    assert (hit["category"], hit["score"]) == ("decision", 0.5263)
    assert hit["title"] == DECIDED.partition("\n")[0]
    assert DECIDED in hit["text"]
    assert 0 < hit["start"] < hit["end"] == os.stat(path).st_size
    found.close(memo)
    assert memo.judged == os.stat(path).st_size


@pytest.mark.parametrize("path", ["", "/etc/hostname", "/no/such/file", "nul\0"])
def test_what_may_not_be_read_is_not_judged(path: str, bank: Path) -> None:
    assert judge(call(transcript_path=path)) is None
