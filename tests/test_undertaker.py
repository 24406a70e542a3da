"""A run of tests that is killed leaves no server behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT

RUN = """
import subprocess, time
from tests import undertaker

ended = subprocess.Popen(["true"])
undertaker.minds(ended.pid)
ended.wait()
undertaker.lets_go(ended.pid)
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
undertaker.minds(server.pid)
print(server.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_server_ends_with_a_run_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", RUN], cwd=ROOT, stdout=subprocess.PIPE) as run:
        try:
            assert run.stdout
            server = Path("/proc") / run.stdout.readline().decode("ascii").strip()
            assert _runs(server)
        finally:
            run.kill()
    end = time.monotonic() + 60
    while _runs(server) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _runs(server)


def _runs(process: Path) -> bool:
    """Whether it does; one that nobody has buried yet does not."""
    try:
        return ") Z " not in (process / "stat").read_text(encoding="ascii")
    except OSError:
        return False
