"""Looking a bank over in the background: what fails is never told as what is in order."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from retain.app import App
from retain.web.checkup import Checkup, State
from tests.conftest import own_world
from tests.web.stage import started


def done(open_app: object) -> State:
    """What a look comes to."""
    ended = threading.Event()

    def tell(_name: str, values: Mapping[str, object]) -> None:
        if not values["work"]:
            ended.set()

    checkup = Checkup(open_app, tell)  # type: ignore[arg-type]
    checkup.look_first()
    assert ended.wait(120)
    for thread in threading.enumerate():
        if thread.name == "retain-checkup":
            thread.join(120)
    return checkup.state


def opened(home: Path, **env: str) -> App:
    return App(cwd=str(home), env={**own_world(home), **env})


def stored(home: Path) -> None:
    app = opened(home)
    app.put("# Kettle\n\nIt boils. See [[nowhere]].", id="kettle")
    app.close()
    (Path(app.location.root) / "memories" / "broken.md").write_bytes(b"---\ntitle: [\n---\nbody\n")


def test_a_model_that_cannot_be_asked_hides_nothing_else(tmp_path: Path) -> None:
    stored(tmp_path)
    state = done(lambda _own: opened(tmp_path, RETAIN_RECALL_EMBEDDER="openai"))
    assert state.found is not None, state.said
    assert [Path(one.path).name for one in state.found.problems] == ["broken.md"]
    assert [one.target for one in state.found.loose] == ["nowhere"]
    assert state.found.unsure


def test_nobody_is_told_that_nothing_is_stated_twice_when_it_was_not_looked_for(
    tmp_path: Path,
) -> None:
    stored(tmp_path)
    state = done(lambda _own: opened(tmp_path, RETAIN_RECALL_EMBEDDER="none"))
    assert state.found is not None
    assert "recall.embedder" in state.found.unsure


def test_work_that_breaks_off_is_bad_and_no_log_has_its_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def broken(_own: bool) -> App:
        raise ValueError("what a memory says")

    state = done(broken)
    assert state.is_bad
    assert state.said
    assert state.work == ""
    logged = capfd.readouterr().err
    assert "ValueError" in logged
    assert "what a memory says" not in logged


@pytest.mark.slow
def test_the_page_does_not_say_in_order_when_it_knows_nothing(tmp_path: Path) -> None:
    with started(tmp_path, env={"RETAIN_RECALL_EMBEDDER": "openai"}) as served:
        assert "All is in order" not in served.get("/health").text
        served.store("# Kettle\n\nIt boils.", id="kettle")
        served.post("/api/v1/health/work", {"work": "look"})
        for _ in range(600):
            found = served.api("GET", "/health")
            if not found["under"]["work"] and found["found"]:
                break
            threading.Event().wait(0.1)
        page = served.get("/health").text
        assert "All is in order" not in page
        assert "No fact seems to be stated twice" not in page
        assert "Not known:" in page
