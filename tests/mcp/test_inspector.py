"""The protocol's own inspector, as a host that others wrote."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from retain.app import App
from tests.conftest import ROOT, command

INSPECTOR = ROOT / "node_modules" / ".bin" / "mcp-inspector-cli"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not INSPECTOR.exists(), reason="scripts/check installs the inspector"),
]


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    App().init()


def inspected(method: str, *words: str) -> Any:
    """What the inspector prints of an answer."""
    done = subprocess.run(
        [str(INSPECTOR), "--cli", *command(), "mcp", "--method", method, *words],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=dict(os.environ),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_calls_reads_and_prompts() -> None:
    tools = inspected("tools/list")["tools"]
    assert [tool["name"] for tool in tools][:2] == ["create_memory", "read_memory"]
    assert len(tools) == 14
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools)

    words = ["filename=gpu.md", "content=Metal beats OpenCL", 'tags=["gpu","metal"]']
    args = [word for one in words for word in ("--tool-arg", one)]
    made = inspected("tools/call", "--tool-name", "create_memory", *args)
    assert made["structuredContent"]["status"] == "created"
    assert json.loads(made["content"][0]["text"]) == made["structuredContent"]

    (content,) = inspected("resources/read", "--uri", "memory://memories/gpu")["contents"]
    assert "tags: [gpu, metal]" in content["text"]
    assert content["text"].endswith("Metal beats OpenCL")

    named = ("--prompt-name", "recall_before_work", "--prompt-args", "task=Metal or OpenCL")
    (message,) = inspected("prompts/get", *named)["messages"]
    assert "memories/gpu" in message["content"]["text"]
