"""`retain install`: shown first, asked at a terminal, written once, taken away again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from retain.hosts.registry import HOSTS
from tests.cli.door import answered, call, done


def answer(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done("install", *words, "--json"))
    return found


def command_of(*words: str) -> list[str]:
    entry = answer("cursor", "--dry-run", *words)["entry"]
    return [entry["command"], *entry["args"]]


@pytest.fixture
def tree(home: Path) -> set[Path]:
    return set(home.rglob("*"))


@pytest.mark.parametrize("host", HOSTS)
def test_second_time_there_is_nothing_to_do(host: str) -> None:
    first = done("install", host)
    assert f"{HOSTS[host].title} knows retain now.\nFile: /" in first
    assert HOSTS[host].check in first
    again = done("install", host)
    assert again.startswith(f"Nothing to do: {HOSTS[host].title} knows retain already.\n")
    assert (answer(host)["status"], answer(host)["diff"]) == ("unchanged", "")
    assert answer(host, "--uninstall")["status"] == "removed"
    assert "does not know retain" in done("install", host, "--uninstall")


def test_without_a_host_they_are_listed_with_what_is_on_this_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home / "bin" / "codex"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    done("install cursor")
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text("no JSON", encoding="utf-8")
    tree = set(home.rglob("*"))
    told = {one["host"]: one for one in json.loads(done("install --json"))}
    assert list(told) == list(HOSTS)
    assert told["codex"]["found"] == str(program)
    assert told["claude-code"]["found"] == ""
    assert [name for name, one in told.items() if one["has_retain"]] == ["cursor"]
    ran = call("install")
    assert ran.code == 0
    assert ran.out.startswith("Host ")
    assert "not found" in ran.out
    assert done("install --quiet") == "codex\ncursor\ngemini\n"
    assert set(home.rglob("*")) == tree


def test_bank_that_is_named_is_passed_on_whole(home: Path) -> None:
    assert command_of()[1:] == ["mcp"]
    assert command_of("--bank", "notes")[1:] == ["mcp", "--bank", str(home / "work" / "notes")]
    assert command_of("--bank", "~/n")[1:] == ["mcp", "--bank", str(home / "n")]
    assert command_of("--global")[1:] == ["mcp", "--global"]
    assert command_of("--local")[1:] == ["mcp", "--local"]
    assert answer("cursor", "--global", "--tools", "core")["status"] == "installed"
    assert command_of("--tools", "all")[1:] == ["mcp", "--global", "--tools", "all"]
    assert answer("cursor", "--local")["status"] == "updated"


@pytest.fixture
def script(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `retain` in a directory of the person's own, which is the one that runs."""
    path = home / "tools" / "bin" / "retain"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "argv", [str(path)])
    return path


def test_command_is_named_as_every_shell_finds_it(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command_of()[0] == str(script)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    assert command_of()[0] == "retain"
    assert answer("claude-desktop", "--dry-run")["entry"]["command"] == str(script)
    monkeypatch.setenv("VIRTUAL_ENV", str(script.parent.parent))
    assert command_of()[0] == str(script)


def test_paths_of_this_machine_in_a_shared_file_are_pointed_out(script: Path, home: Path) -> None:
    command = f"warning: {script} is a path of this machine"
    assert command in call("install cursor --project --dry-run").err
    assert "warning" not in call("install cursor --dry-run").err
    bank = f"warning: {home}/work/b is a path of this machine"
    assert bank in call("install cursor --project --bank ./b").err
    assert bank in call("install cursor --project").err, "it is still in the file"
    assert bank not in call("install cursor --project --local").err
    assert bank not in call("install cursor --bank ./b").err


def test_address_is_written_without_the_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_TOKEN", "top-secret-value")
    words = ("--http", "http://127.0.0.1:7878/mcp", "--token-env", "RETAIN_TOKEN")
    told = answer("gemini", *words)
    assert told["entry"] == {
        "httpUrl": "http://127.0.0.1:7878/mcp",
        "headers": {"Authorization": "Bearer ${RETAIN_TOKEN}"},
    }
    assert told["warnings"] == []
    text = (home / ".gemini" / "settings.json").read_text(encoding="utf-8")
    assert "top-secret-value" not in text
    far = answer("cursor", "--http", "http://example.com/mcp", "--token-env", "RETAIN_TOKEN")
    assert "unencrypted" in far["warnings"][0]


@pytest.mark.parametrize(
    "words",
    [
        ("--uninstall",),
        ("--http", "http://x/mcp"),
        ("cursor", "--bank", ""),
        ("cursor", "--http", "ftp://x"),
        ("cursor", "--http", "nonsense"),
        ("cursor", "--http", "http://[x"),
        ("cursor", "--http", "http://a b/"),
        ("cursor", "--http", "https://me:pw@example.com/mcp"),
        ("cursor", "--http", "https://example.com/mcp", "--token-env", "sk-live-token"),
        ("cursor", "--token-env", "NAME"),
        ("cursor", "--http", "https://example.com/mcp", "--bank", "x"),
        ("cursor", "--http", "https://example.com/mcp", "--tools", "core"),
        ("cursor", "--tools", "some"),
        ("cursor", "--user", "--project"),
        ("claude-desktop", "--project"),
        ("claude-desktop", "--http", "https://example.com/mcp"),
        ("notepad",),
    ],
    ids=" ".join,
)
def test_calls_that_make_no_sense_are_refused(
    words: tuple[str, ...], home: Path, tree: set[Path]
) -> None:
    ran = call("install", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "sk-live-token" not in ran.err
    assert "pw@" not in ran.err
    assert set(home.rglob("*")) == tree


@pytest.mark.parametrize("indent", [None, 2])
def test_values_that_servers_are_given_are_not_shown(indent: int | None, home: Path) -> None:
    (home / ".cursor").mkdir()
    mine = {
        "mcpServers": {
            "a": {"env": {"API_KEY": "hunter2", "PIN": 7431}, "args": ["ghp_" + "a1B2" * 9]},
            "b": {"headers": {"Authorization": "Bearer abcdef"}, "url": "https://b.example"},
            "retain": {"command": "/old/retain", "args": ["mcp"], "env": {"MINE": "hunter3"}},
        }
    }
    path = home / ".cursor" / "mcp.json"
    path.write_text(json.dumps(mine, indent=indent), encoding="utf-8")
    for words in ((), ("--uninstall",)):
        told = answer("cursor", "--dry-run", *words)
        shown = json.dumps(told) + done("install", "cursor", "--dry-run", *words)
        assert not [one for one in ("hunter", "7431", "abcdef", "a1B2") if one in shown]
    assert "***" in told["diff"]
    answer("cursor")
    assert "hunter3" in path.read_text(encoding="utf-8")


def test_backup_of_a_shared_file_is_not_left_in_the_repository(home: Path) -> None:
    work = home / "work"
    (work / ".git").mkdir()
    (work / ".mcp.json").write_text('{ "mcpServers": {} }', encoding="utf-8")
    told = answer("claude-code", "--project")
    assert sorted(one.name for one in work.iterdir()) == [".git", ".mcp.json"]
    backup = Path(told["backup"])
    assert backup.parent == home / ".retain" / ".backups"
    assert backup.read_text(encoding="utf-8") == '{ "mcpServers": {} }'
    assert (backup.parent / ".gitignore").read_text(encoding="utf-8") == "*\n"
    assert json.loads(done("list --global --json")) == []
    answer("claude-code", "--project", "--uninstall")
    assert (work / ".mcp.json").read_text(encoding="utf-8") == '{ "mcpServers": {} }'
    assert sorted(one.name for one in work.iterdir()) == [".git", ".mcp.json"]
    done("init --global")


@pytest.mark.parametrize(
    "typed, is_written", [("y", True), ("yes", True), ("n", False), ("", False)]
)
def test_person_is_shown_the_change_and_asked(typed: str, is_written: bool, home: Path) -> None:
    code, screen = answered(typed, "install", "gemini")
    path = home / ".gemini" / "settings.json"
    assert (code, path.exists()) == ((0, True) if is_written else (2, False))
    assert screen.index("mcpServers") < screen.index(f"Write this to {path}? [y/N]")
    assert "\x1b[32m+" in screen
    assert ("knows retain now" in screen) == is_written
    code, screen = answered("n", "install", "gemini", "--yes")
    assert (code, "[y/N]" in screen) == (0, False)


def test_the_plugin_brings_a_server_and_a_second_one_wants_force(home: Path) -> None:
    plugins = home / ".claude" / "plugins"
    plugins.mkdir(parents=True)
    known = {"version": 2, "plugins": {"retain@retain": [{"scope": "user"}]}}
    (plugins / "installed_plugins.json").write_text(json.dumps(known), encoding="utf-8")
    ran = call("install claude-code")
    assert (ran.code, ran.out) == (4, "")
    assert "has the plugin retain@retain" in ran.err
    assert "claude plugin uninstall retain@retain" in ran.err
    assert not (home / ".claude.json").exists()
    assert call("install codex").code == 0
    assert call("install claude-code --uninstall").code == 0
    assert call("install claude-code --force").code == 0
    assert call("install claude-code --uninstall").code == 0
    known["plugins"] = {"other@retain": [{}], "retain@old": []}
    (plugins / "installed_plugins.json").write_text(json.dumps(known), encoding="utf-8")
    assert call("install claude-code").code == 0
