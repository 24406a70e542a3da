"""How an engine is asked: what is waited for, and what is not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from retain.engines.arm import EngineDown, EngineRefused
from retain.engines.asking import Wire, said
from retain.engines.naming import Names
from retain.engines.upstash import UpstashVectors
from tests import indexes
from tests.engines.servers import odd


def _wire(tmp_path: Path, port: int, patience: float, loading: float) -> Wire[UpstashVectors]:
    def make(patience: float) -> UpstashVectors:
        time.sleep(loading)
        return UpstashVectors(f"http://127.0.0.1:{port}", "k", Names("b"), patience=patience)

    store = indexes.indexed(indexes.new(tmp_path / "bank"), None).store
    return Wire("vector", f"upstash 127.0.0.1:{port} b m", make, store, patience, b"GET / \r\n\r\n")


def test_what_a_client_takes_to_load_is_not_counted(tmp_path: Path) -> None:
    with odd("html") as port:
        wire = _wire(tmp_path, port, patience=0.2, loading=0.5)
        assert wire.ask(lambda _arm: "answered")() == "answered"
        assert wire.trouble() is None


def test_a_server_that_hangs_is_found_out_before_a_client_is_loaded(tmp_path: Path) -> None:
    with odd("hang") as port:
        wire = _wire(tmp_path, port, patience=0.2, loading=3600)
        with pytest.raises(EngineDown, match="did not answer"):
            wire.ask(lambda _arm: "never")()
        trouble = wire.trouble()
        assert trouble is not None
        assert "did not answer" in trouble.why
        with odd("html") as other:
            assert _wire(tmp_path, other, patience=0.2, loading=0).trouble() is None


def test_what_only_a_person_can_mend_is_told_with_how() -> None:
    assert said(EngineRefused("No client.", hint="Install it.")) == "No client. Install it."
    assert said(EngineDown("Gone.", hint="Nothing is lost.")) == "Gone."
