"""Work that is done in lanes."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from retain.index.engines.portions import Lanes

WHO: ContextVar[str] = ContextVar("WHO")


def test_lanes_work_at_the_same_time_and_answer_in_order() -> None:
    together = threading.Barrier(3)
    WHO.set("someone")

    def act(name: str) -> str:
        together.wait(30)  # broken unless three are here at once
        return f"{name} for {WHO.get()}"

    names = list("abcdef")
    assert Lanes(3).each(act, names) == [f"{name} for someone" for name in names]
    assert Lanes(3).each(str.upper, []) == []


def test_a_failure_is_raised_and_nothing_more_is_begun() -> None:
    begun = []

    def act(name: str) -> None:
        begun.append(name)
        raise OSError(name)

    with pytest.raises(OSError, match=r"[ab]"):
        Lanes(2).each(act, list("abcdefgh"))
    assert len(begun) <= 2


@pytest.mark.slow
def test_a_program_does_not_wait_for_a_lane_that_hangs() -> None:
    code = (
        "import threading, time\n"
        "from retain.index.engines.portions import Lanes\n"
        "run = lambda: Lanes(2).each(lambda name: time.sleep(600), ['a', 'b', 'c'])\n"
        "threading.Thread(target=run, daemon=True).start()\n"
        "time.sleep(0.5)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
