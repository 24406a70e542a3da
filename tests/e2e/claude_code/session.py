"""The real Claude Code, started once for each turn, with this tree's plugin and command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import ROOT

__all__ = ["CLIENT", "PLUGIN", "Turn", "client", "environment", "turn"]

PLUGIN = ROOT / "plugin"
_PATIENCE = 55  # seconds: two turns end before pytest's own patience does


def client() -> Path | None:
    """The client that npm installed, if it did.

    The package has one program for each kind of machine beside it; a script of its own would put
    the right one in place, but the project lets no package run scripts.
    """
    found = sorted((ROOT / "node_modules" / "@anthropic-ai").glob("claude-code-*/claude"))
    return found[0] if found else None


CLIENT = client()


class Turn(NamedTuple):
    """What a run of the client left behind."""

    code: int
    events: list[dict[str, Any]]
    err: str

    @property
    def result(self) -> str:
        """What the client says at the end."""
        return next((e.get("result", "") for e in self.events if e.get("type") == "result"), "")

    @property
    def session(self) -> str:
        return next(e["session_id"] for e in self.events if "session_id" in e)

    def named(self, subtype: str) -> list[dict[str, Any]]:
        """The events of the client itself, such as `init` or `compact_boundary`."""
        return [e for e in self.events if e.get("subtype") == subtype]


def turn(
    url: str, prompt: str, *flags: str, tools: Sequence[str] = (), patience: float = _PATIENCE
) -> Turn:
    """Hands a prompt to a new process of the client and waits until it is done.

    The client and all it starts are one process group, which is ended whole if it takes too long.
    """
    assert CLIENT is not None
    words = [
        str(CLIENT),
        *("--print", "--verbose", "--output-format", "stream-json", "--include-hook-events"),
        *("--plugin-dir", str(PLUGIN), "--model", "claude-sonnet-4-5"),
        *(("--allowedTools", ",".join(tools)) if tools else ()),
        *flags,
    ]
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(url),
        start_new_session=True,
    )
    try:
        out, err = process.communicate(prompt, timeout=patience)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return Turn(process.returncode, events, err)


def environment(url: str) -> dict[str, str]:
    """The test's own world, where `retain` is this tree's and the model is on loopback."""
    home = os.environ["HOME"]
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "CLAUDE_CONFIG_DIR": f"{home}/.claude",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "x",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "RETAIN_RECALL_EMBEDDER": "none",
        # The first request waits for the server, so that the model can call its tools at once.
        "MCP_CONNECTION_NONBLOCKING": "0",
        "MCP_CONNECT_TIMEOUT_MS": "30000",
        # What a hook says must not depend on how busy the machine is.
        "RETAIN_HOOKS_DEADLINE_MS": "4000",
    }
