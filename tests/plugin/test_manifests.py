"""The plugin's JSON: one version, hooks without a shell, and hosts that accept it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retain
from retain.hooks import EVENTS
from tests.conftest import ROOT
from tests.e2e.claude_code.session import CLIENT, PLUGIN

WRITES = "Write|Edit|MultiEdit|NotebookEdit"


def loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def handlers(file: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every hook of a file, with its event and matcher."""
    for event, groups in loaded(PLUGIN / "hooks" / file)["hooks"].items():
        for group in groups:
            for handler in group["hooks"]:
                yield event, group.get("matcher", ""), handler


MANIFESTS = [
    PLUGIN / ".claude-plugin/plugin.json",
    PLUGIN / ".codex-plugin/plugin.json",
]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.parent.name)
def test_every_manifest_has_the_version_of_the_package(path: Path) -> None:
    manifest = loaded(path)
    assert (manifest["name"], manifest["version"]) == ("retain", retain.__version__)
    assert manifest["description"] == loaded(MANIFESTS[0])["description"]


def test_the_marketplaces_lead_to_the_plugin() -> None:
    claude = loaded(ROOT / ".claude-plugin/marketplace.json")
    codex = loaded(ROOT / ".agents/plugins/marketplace.json")
    (offered,), (codexs,) = claude["plugins"], codex["plugins"]
    assert claude["name"] == codex["name"] == offered["name"] == codexs["name"] == "retain"
    assert offered["version"] == retain.__version__
    assert (ROOT / offered["source"]).samefile(PLUGIN)
    assert (ROOT / codexs["source"]["path"]).samefile(PLUGIN)


def test_claude_code_starts_the_command_itself_and_no_shell() -> None:
    found = list(handlers("hooks.json"))
    named = {event: name for name, event in EVENTS.items()}
    assert {event for event, _, _ in found} == set(EVENTS.values())
    for event, matcher, handler in found:
        assert handler["type"] == "command"
        assert [handler["command"], *handler["args"]] == ["retain", "hook", named[event]]
        assert "shell" not in handler
        assert matcher == (WRITES if event.endswith("ToolUse") else "")


def test_codex_gets_the_same_hooks_in_the_form_it_knows() -> None:
    ours = {event: handler for event, _, handler in handlers("hooks.json")}
    codexs = {event: handler for event, _, handler in handlers("codex.json")}
    # Its patches name no file in a hook's payload, so that a guard would only cost time.
    assert ours.keys() - codexs.keys() == {"PreToolUse", "PostToolUse"}
    assert codexs.keys() < ours.keys()
    for event, handler in codexs.items():
        assert "args" not in handler
        assert handler["command"] == " ".join([ours[event]["command"], *ours[event]["args"]])
        assert handler["statusMessage"] == ours[event]["statusMessage"]


@pytest.mark.parametrize("file", ["hooks.json", "codex.json"])
def test_no_hook_can_hold_a_session_up_for_long(file: str) -> None:
    for event, _, handler in handlers(file):
        assert 0 < handler["timeout"] <= (10 if event == "Stop" else 5)
        # The host writes this in the place of the command into its transcripts.
        assert handler["statusMessage"].startswith("Retain: ")


def test_the_server_is_the_command() -> None:
    servers = loaded(PLUGIN / ".mcp.json")["mcpServers"]
    assert servers == {"retain": {"command": "retain", "args": ["mcp"]}}


def test_no_manifest_for_all_hosts_hides_the_hooks_from_codex() -> None:
    """Codex prefers a plugin.json at the root, which has no hooks and starts servers elsewhere."""
    assert not (PLUGIN / "plugin.json").exists()


@pytest.mark.slow
@pytest.mark.skipif(CLIENT is None, reason="scripts/check installs Claude Code")
@pytest.mark.parametrize("words", [("./plugin", "--strict"), (".", "--strict")])
def test_claude_code_finds_nothing_wrong(words: tuple[str, ...], home: Path) -> None:
    done = subprocess.run(
        [str(CLIENT), "plugin", "validate", *words],
        cwd=ROOT,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validation passed" in done.stdout
