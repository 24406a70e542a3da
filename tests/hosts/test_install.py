"""Our entry in six hosts' files: where it goes, what stays, and how it leaves."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from retain.errors import Conflict, Unreadable, Unsafe, UsageError
from retain.hosts.install import Plan, apply, plan
from retain.hosts.registry import HOSTS, Server

LOCAL = Server(("retain", "mcp"))
REMOTE = Server(url="http://127.0.0.1:7878/mcp", token_env="RETAIN_TOKEN")
SCOPES = [(host, scope) for host in HOSTS for scope in ("user", "project")]
SCOPES.remove(("claude-desktop", "project"))
STDIO = {"command": "retain", "args": ["mcp"]}
URL = REMOTE.url

# Host -> its file for a person and for a project, where the entry is in it, and the entry.
EXPECTED: dict[str, tuple[str, str, tuple[str, ...], dict[str, Any], dict[str, Any]]] = {
    "claude-code": (
        ".claude.json",
        ".mcp.json",
        ("mcpServers", "retain"),
        {"type": "stdio", **STDIO},
        {"type": "http", "url": URL, "headers": {"Authorization": "Bearer ${RETAIN_TOKEN}"}},
    ),
    "codex": (
        ".codex/config.toml",
        ".codex/config.toml",
        ("mcp_servers", "retain"),
        STDIO,
        {"url": URL, "bearer_token_env_var": "RETAIN_TOKEN"},
    ),
    "cursor": (
        ".cursor/mcp.json",
        ".cursor/mcp.json",
        ("mcpServers", "retain"),
        STDIO,
        {"url": URL, "headers": {"Authorization": "Bearer ${env:RETAIN_TOKEN}"}},
    ),
    "gemini": (
        ".gemini/settings.json",
        ".gemini/settings.json",
        ("mcpServers", "retain"),
        STDIO,
        {"httpUrl": URL, "headers": {"Authorization": "Bearer ${RETAIN_TOKEN}"}},
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        "opencode.json",
        ("mcp", "retain"),
        {"type": "local", "command": ["retain", "mcp"], "enabled": True},
        {
            "type": "remote",
            "url": URL,
            "headers": {"Authorization": "Bearer {env:RETAIN_TOKEN}"},
            "enabled": True,
        },
    ),
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "",
        ("mcpServers", "retain"),
        STDIO,
        {},
    ),
}


def planned(host: str, server: Server | None = LOCAL, scope: str = "user") -> Plan:
    return plan(host, scope, os.environ, server, cwd=os.getcwd())


def installed(host: str, server: Server | None = LOCAL, scope: str = "user") -> Plan:
    apply(made := planned(host, server, scope))
    return made


def file_of(host: str, home: Path, scope: str = "user") -> Path:
    user, project, *_ = EXPECTED[host]
    return home / user if scope == "user" else home / "work" / project


def entry_in(host: str, path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    found: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    for key in EXPECTED[host][2]:
        found = found[key]
    return found


@pytest.fixture(autouse=True)
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")


@pytest.mark.parametrize("host, scope", SCOPES)
def test_entry_is_made_kept_and_taken_away(host: str, scope: str, home: Path) -> None:
    made = installed(host, scope=scope)
    path = file_of(host, home, scope)
    assert made.path == str(path)
    assert entry_in(host, path) == EXPECTED[host][3] == made.entry
    assert planned(host, scope=scope).is_done
    assert (made.backup, list(path.parent.glob("*.retain-backup"))) == ("", [])
    assert path.stat().st_mode & 0o777 == 0o600
    assert planned(host, None, scope).after is None
    installed(host, None, scope)
    assert not path.exists()
    assert planned(host, None, scope).is_done


@pytest.mark.parametrize("host", [host for host in HOSTS if HOSTS[host].url_key])
def test_address_and_the_name_of_the_token_are_written_as_the_host_reads_them(
    host: str, home: Path
) -> None:
    for server, entry in ((REMOTE, 4), (LOCAL, 3), (REMOTE, 4)):
        installed(host, server)
        assert entry_in(host, file_of(host, home)) == EXPECTED[host][entry]


def test_desktop_takes_no_address_and_no_project() -> None:
    with pytest.raises(UsageError, match="no address"):
        planned("claude-desktop", REMOTE)
    with pytest.raises(UsageError, match="project"):
        planned("claude-desktop", scope="project")


JSON_FILES = [
    '{\n  "theme": "dark",\n  "mcpServers": {\n    "a": {"x": [1, 2]}\n  }\n}\n',
    "{}",
    "{\n}\n",
    '{"a":1}',
    '\ufeff{\r\n\t"numStartups": 3,\r\n\t"mcpServers": {}\r\n}\r\n',
    "",
    " \n",
]
TOML_FILES = ["", "# mine\n", 'model = "x" # best', "[mcp_servers.a]\ncommand = 'x'\n\n\n"]


@pytest.mark.parametrize("text", [*JSON_FILES, *TOML_FILES])
@pytest.mark.parametrize("host", HOSTS)
def test_install_and_uninstall_leave_the_bytes_there_were(host: str, text: str, home: Path) -> None:
    if (text in TOML_FILES) != (host == "codex") and text:
        return
    path = file_of(host, home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    path.chmod(0o640)
    made = installed(host)
    assert Path(made.backup).read_bytes() == text.encode()
    assert Path(made.backup).stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o640
    assert planned(host).is_done
    installed(host, None)
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize("before, after", [('{"x": 1}', {"x": 1, "y": 2}), ("{}", {"y": 2})])
def test_object_we_made_goes_even_if_the_host_rewrote_the_file(
    before: str, after: object, home: Path
) -> None:
    path = home / ".claude.json"
    path.write_text(before, encoding="utf-8")
    installed("claude-code")
    rewritten = {**json.loads(path.read_text(encoding="utf-8")), "y": 2}
    path.write_text(json.dumps(rewritten, indent=4), encoding="utf-8")
    installed("claude-code", None)
    assert json.loads(path.read_text(encoding="utf-8")) == after


def test_what_a_person_added_to_our_entry_stays(home: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    mine = {"command": "/old/retain", "args": ["mcp"], "env": {"A": "b"}, "disabled": True}
    path.write_text(json.dumps({"mcpServers": {"retain": mine}}, indent=2), encoding="utf-8")
    installed("cursor")
    assert entry_in("cursor", path) == {**mine, "command": "retain"}
    installed("cursor", Server(url=URL))
    assert entry_in("cursor", path) == {"url": URL}  # another transport: written anew
    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["mcpServers"]["retain"]["headers"] = {"X-Mine": "1"}
    path.write_text(json.dumps(whole), encoding="utf-8")
    installed("cursor", REMOTE)
    assert entry_in("cursor", path)["headers"] == {
        "X-Mine": "1",
        "Authorization": "Bearer ${env:RETAIN_TOKEN}",
    }


def test_codex_keeps_what_was_added_and_other_servers(home: Path) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(
        "[mcp_servers.retain]\ncommand = 'retain'\nargs = ['mcp']\nstartup_timeout_sec = 9\n\n"
        "[mcp_servers.retain.env]\nA = 'b'\n\n[mcp_servers.other]\ncommand = 'o'\n",
        encoding="utf-8",
    )
    assert planned("codex").is_done
    installed("codex", LOCAL._replace(tools="core"))
    kept = {"startup_timeout_sec": 9, "env": {"A": "b"}}
    assert entry_in("codex", path) == {**kept, **STDIO, "args": ["mcp", "--tools", "core"]}
    installed("codex", REMOTE)
    assert entry_in("codex", path) == EXPECTED["codex"][4]
    assert tomllib.loads(path.read_text(encoding="utf-8"))["mcp_servers"]["other"] == {
        "command": "o"
    }


BANK = ("--bank", "/b")


@pytest.mark.parametrize(
    "command, now, then",
    [
        (["retain", "mcp", "--tools", "core"], LOCAL, ["mcp", "--tools", "core"]),
        (["/old/retain", "--bank", "mcp", "mcp"], LOCAL, ["--bank", "mcp", "mcp"]),
        (["py", "-m", "retain", "mcp", "--no-socket"], LOCAL, ["mcp", "--no-socket"]),
        (
            ["retain", "mcp", "--bank=/a", "--no-socket"],
            LOCAL._replace(bank=BANK),
            ["mcp", *BANK, "--no-socket"],
        ),
        (["retain", "--global", "mcp", "--local"], LOCAL._replace(bank=BANK), [*BANK, "mcp"]),
        (["retain", "mcp", *BANK], LOCAL._replace(tools="core"), ["mcp", *BANK, "--tools", "core"]),
        (["retain", "serve"], LOCAL, ["mcp"]),
        (["other", "mcp", "--x"], LOCAL, ["mcp"]),
        (["retain", "mcp", 1], LOCAL, ["mcp"]),
    ],
)
@pytest.mark.parametrize("host", ["cursor", "codex", "opencode"])
def test_options_of_the_command_stay(
    host: str, command: list[Any], now: Server, then: list[str], home: Path
) -> None:
    path = file_of(host, home)
    installed(host)
    entry: dict[str, Any] = {"command": command[0], "args": command[1:]}
    if host == "opencode":
        entry = {"type": "local", "command": command}
    outer = EXPECTED[host][2][0]
    whole = json.dumps({outer: {"retain": entry}})
    if host == "codex":
        whole = f"[{outer}.retain]\ncommand = {command[0]!r}\nargs = {command[1:]!r}\n"
    path.write_text(whole, encoding="utf-8")
    installed(host, now)
    found = entry_in(host, path)
    argv = found["command"] if host == "opencode" else [found["command"], *found["args"]]
    assert argv == ["retain", *then]
    assert planned(host, now).is_done


def test_other_headers_stay_and_the_token_is_for_one_server_only(home: Path) -> None:
    path = file_of("cursor", home)
    token = {"Authorization": "Bearer ${env:RETAIN_TOKEN}"}
    path.parent.mkdir()
    mine = {"url": URL, "headers": {"X-Mine": "1", **token}, "disabled": False}
    path.write_text(json.dumps({"mcpServers": {"retain": mine}}), encoding="utf-8")
    near = URL.replace("/mcp", "/other")
    installed("cursor", Server(url=near))
    assert entry_in("cursor", path) == {**mine, "url": near}
    far = Server(url="https://example.com/mcp")
    installed("cursor", far)
    assert entry_in("cursor", path) == {**mine, "url": far.url, "headers": {"X-Mine": "1"}}
    path.write_text(
        json.dumps(
            {"mcpServers": {"retain": {"url": "http://[x", "headers": {"authorization": "o"}}}}
        ),
        encoding="utf-8",
    )
    assert planned("cursor", far).entry == {"url": far.url}
    assert planned("cursor", REMOTE).entry == EXPECTED["cursor"][4]
    installed("codex", REMOTE)
    assert planned("codex", Server(url=URL)).is_done
    assert planned("codex", far).entry == {"url": far.url}


def test_server_that_was_switched_off_stays_off(home: Path) -> None:
    path = home / ".config" / "opencode" / "opencode.json"
    installed("opencode")
    path.write_text(path.read_text(encoding="utf-8").replace("true", "false"), encoding="utf-8")
    assert planned("opencode").is_done


def test_opencode_file_that_is_there_is_the_one_that_is_used(home: Path) -> None:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.jsonc").write_text("{}", encoding="utf-8")
    assert planned("opencode").path == str(folder / "opencode.jsonc")
    installed("opencode")
    (folder / "opencode.json").write_text("{}", encoding="utf-8")
    assert planned("opencode").is_done
    assert planned("opencode", None).path == str(folder / "opencode.jsonc")


def test_opencode_servers_one_level_down_are_added_to(home: Path) -> None:
    path = home / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True)
    text = '{"mcp": {"servers": {"a": {"type": "local", "command": ["x"]}}}}'
    path.write_text(text, encoding="utf-8")
    installed("opencode")
    servers = json.loads(path.read_text(encoding="utf-8"))["mcp"]["servers"]
    assert servers["retain"] == {"type": "local", "command": ["retain", "mcp"]}
    assert planned("opencode").is_done
    installed("opencode", None)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "host, name, file",
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
    ],
)
def test_host_that_was_moved_is_followed(
    host: str, name: str, file: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, str(home / "moved"))
    assert planned(host).path == str(home / "moved" / file)


@pytest.mark.parametrize(
    "platform, folder", [("darwin", "Library/Application Support"), ("win32", "AppData/Roaming")]
)
def test_desktop_is_found_on_every_system(
    platform: str, folder: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    expected = home / folder / "Claude" / "claude_desktop_config.json"
    assert planned("claude-desktop").path == str(expected)


def test_project_starts_where_its_repository_does(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "work" / ".git").mkdir()
    (home / "work" / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(home / "work" / "src" / "deep")
    assert planned("cursor", scope="project").path == str(home / "work" / ".cursor" / "mcp.json")


COMMENTED = '{\n  // mine\n  "mcpServers": {}\n}\n'
BROKEN = [
    "{", "[]", "null", "{'a': 1}", COMMENTED, '{"a": 1, "a": 2}',
    '{"mcpServers": []}', '{"mcpServers": {"retain": 1}}',
]  # fmt: skip


@pytest.mark.parametrize("data", [*(text.encode() for text in BROKEN), b"\xff{}", b"{}\x00"])
@pytest.mark.parametrize("server", [LOCAL, None])
def test_file_that_cannot_be_read_is_left_alone_and_the_entry_is_told(
    data: bytes, server: Server | None, home: Path
) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(Unreadable) as caught:
        planned("cursor", server)
    assert str(path) in caught.value.message
    if server:
        snippet = json.loads(caught.value.hint.partition("\n")[2])
        assert snippet == {"mcpServers": {"retain": STDIO}}
        assert json.loads(str(caught.value.details["snippet"])) == snippet
    assert path.read_bytes() == data
    assert [one.name for one in path.parent.iterdir()] == ["mcp.json"]


def test_comments_are_named_as_the_reason_in_json_and_stay_in_toml(home: Path) -> None:
    (home / ".claude.json").write_text(COMMENTED, encoding="utf-8")
    with pytest.raises(Unreadable, match="comments"):
        planned("claude-code")
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    text = '# mine\n[mcp_servers.retain] # ours\ncommand = "old" # why\nargs = []\n'
    path.write_text(text, encoding="utf-8")
    installed("codex")
    assert entry_in("codex", path) == STDIO
    kept = path.read_text(encoding="utf-8")
    assert [comment in kept for comment in ("# mine", "# ours", "# why")] == [True] * 3
    path.write_text("a =", encoding="utf-8")
    with pytest.raises(Unreadable) as caught:
        planned("codex")
    assert tomllib.loads(str(caught.value.details["snippet"])) == {"mcp_servers": {"retain": STDIO}}


def test_link_to_a_file_of_ones_own_is_followed_and_stays(home: Path) -> None:
    real = home / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}", encoding="utf-8")
    (home / ".claude.json").symlink_to(real)
    made = installed("claude-code")
    assert made.path == str(real)
    assert (home / ".claude.json").is_symlink()
    assert entry_in("claude-code", real) == EXPECTED["claude-code"][3]


def test_links_and_things_that_are_no_plain_files_are_refused(home: Path) -> None:
    path = home / ".claude.json"
    os.mkfifo(home / "pipe")
    for target in ("nowhere", "pipe", ".claude.json", "/dev/null", "work"):
        path.symlink_to(home / target)
        with pytest.raises(Unsafe):
            planned("claude-code")
        path.unlink()
    path.mkdir()
    with pytest.raises(Unsafe):
        planned("claude-code")
    assert not (home / "nowhere").exists()


def test_file_of_someone_else_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / ".claude.json").write_text("{}", encoding="utf-8")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(Unsafe, match="someone else"):
        planned("claude-code")
    (home / "theirs").mkdir()
    (home / ".cursor").symlink_to(home / "theirs")
    with pytest.raises(Unsafe, match="someone else"):
        planned("cursor")


def test_file_that_changed_since_it_was_shown_is_not_written(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text("{}", encoding="utf-8")
    made = planned("claude-code")
    path.write_text('{"new": 1}', encoding="utf-8")
    with pytest.raises(Conflict):
        apply(made)
    assert path.read_text(encoding="utf-8") == '{"new": 1}'
    assert not Path(made.backup).exists()


def test_backup_does_not_follow_a_link(home: Path) -> None:
    (home / "precious").write_text("precious", encoding="utf-8")
    (home / ".claude.json").write_text("{}", encoding="utf-8")
    (home / ".claude.json.retain-backup").symlink_to(home / "precious")
    installed("claude-code")
    assert (home / "precious").read_text(encoding="utf-8") == "precious"
