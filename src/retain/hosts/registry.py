"""The hosts there are: where each keeps its configuration, and how a server is written there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

NAME: Final = "retain"  # what our entry is called in every host


class Server(NamedTuple):
    """What a host is to start, a command, or to call, an address."""

    command: tuple[str, ...] = ()
    bank: tuple[str, ...] = ()  # the option that names its bank; none: as the entry has it
    tools: str = ""  # which it offers; empty: as the entry has it
    url: str = ""
    token_env: str = ""  # the variable that holds the token; the token itself is written nowhere

    @property
    def argv(self) -> tuple[str, ...]:
        """The whole command, as a new entry has it."""
        return (*self.command, *self.bank, *(("--tools", self.tools) if self.tools else ()))


class Host(NamedTuple):
    """A program that agents run in."""

    title: str
    user: Callable[[Mapping[str, str]], tuple[str, ...]]  # its files; the first is made if none is
    project: tuple[str, ...]  # the same in a project; none: it has no such file
    keys: tuple[str, ...]  # where the servers are in it
    entry: Callable[[Server], dict[str, Any]]
    check: str  # how a person sees that it works
    command: str = ""  # by which it is started from a shell; none: it is not
    once: Mapping[str, Any] = {}  # written with a new entry, then the person's to change
    is_toml: bool = False
    remote: bool = True  # whether its file can name a server at an address
    own_path: bool = False  # whether it is started without the PATH of a shell


def find_host(host: Host, env: Mapping[str, str]) -> str:
    """What shows that a host is on this machine, its command or its files; empty: nothing does."""
    import shutil

    if host.command and (there := shutil.which(host.command, path=env.get("PATH"))):
        return there
    folders = [os.path.dirname(path) for path in host.user(env)]
    kept = [*host.user(env), *(one for one in folders if one != _home(env))]
    return next((one for one in kept if os.path.exists(one)), "")


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


def _config(env: Mapping[str, str]) -> str:
    return env.get("XDG_CONFIG_HOME") or os.path.join(_home(env), ".config")


def _claude_code(env: Mapping[str, str]) -> tuple[str, ...]:
    return (os.path.join(env.get("CLAUDE_CONFIG_DIR") or _home(env), ".claude.json"),)


def _codex(env: Mapping[str, str]) -> tuple[str, ...]:
    folder = env.get("CODEX_HOME") or os.path.join(_home(env), ".codex")
    return (os.path.join(folder, "config.toml"),)


def _cursor(env: Mapping[str, str]) -> tuple[str, ...]:
    return (os.path.join(_home(env), ".cursor", "mcp.json"),)


def _gemini(env: Mapping[str, str]) -> tuple[str, ...]:
    folder = env.get("GEMINI_CLI_HOME") or _home(env)
    return (os.path.join(folder, ".gemini", "settings.json"),)


def _opencode(env: Mapping[str, str]) -> tuple[str, ...]:
    folder = os.path.join(_config(env), "opencode")
    return (os.path.join(folder, "opencode.json"), os.path.join(folder, "opencode.jsonc"))


def _claude_desktop(env: Mapping[str, str]) -> tuple[str, ...]:
    folders = {
        "darwin": os.path.join(_home(env), "Library", "Application Support"),
        "win32": env.get("APPDATA") or os.path.join(_home(env), "AppData", "Roaming"),
    }
    folder = folders.get(sys.platform) or _config(env)
    return (os.path.join(folder, "Claude", "claude_desktop_config.json"),)


def _started(server: Server) -> dict[str, Any]:
    return {"command": server.argv[0], "args": list(server.argv[1:])}


def _bearer(server: Server, variable: str) -> dict[str, Any]:
    """The header that carries the token, with the variable as the host spells it."""
    if not server.token_env:
        return {}
    return {"headers": {"Authorization": f"Bearer {variable.replace('NAME', server.token_env)}"}}


def _for_claude(server: Server) -> dict[str, Any]:
    if server.url:
        return {"type": "http", "url": server.url, **_bearer(server, "${NAME}")}
    return {"type": "stdio", **_started(server)}


def _for_codex(server: Server) -> dict[str, Any]:
    if server.url:
        token = {"bearer_token_env_var": server.token_env} if server.token_env else {}
        return {"url": server.url, **token}
    return _started(server)


def _for_cursor(server: Server) -> dict[str, Any]:
    if server.url:
        return {"url": server.url, **_bearer(server, "${env:NAME}")}
    return _started(server)


def _for_gemini(server: Server) -> dict[str, Any]:
    if server.url:
        # Its older versions take `url` for another protocol, and newer ones still take this.
        return {"httpUrl": server.url, **_bearer(server, "${NAME}")}
    return _started(server)


def _for_opencode(server: Server) -> dict[str, Any]:
    if server.url:
        return {"type": "remote", "url": server.url, **_bearer(server, "{env:NAME}")}
    return {"type": "local", "command": list(server.argv)}


HOSTS: Final[Mapping[str, Host]] = {
    "claude-code": Host(
        "Claude Code",
        _claude_code,
        (".mcp.json",),
        ("mcpServers",),
        _for_claude,
        "Start a new session; /mcp lists retain.",
        "claude",
    ),
    "codex": Host(
        "Codex",
        _codex,
        (".codex/config.toml",),
        ("mcp_servers",),
        _for_codex,
        "Start a new session; /mcp lists retain.",
        "codex",
        is_toml=True,
    ),
    "cursor": Host(
        "Cursor",
        _cursor,
        (".cursor/mcp.json",),
        ("mcpServers",),
        _for_cursor,
        "Restart Cursor; its settings list retain among the MCP servers.",
        "cursor",
    ),
    "gemini": Host(
        "Gemini CLI",
        _gemini,
        (".gemini/settings.json",),
        ("mcpServers",),
        _for_gemini,
        "Start a new session; /mcp lists retain.",
        "gemini",
    ),
    "opencode": Host(
        "OpenCode",
        _opencode,
        (
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ),
        ("mcp",),
        _for_opencode,
        "Start a new session; `opencode mcp list` lists retain.",
        "opencode",
        once={"enabled": True},
    ),
    "claude-desktop": Host(
        "Claude Desktop",
        _claude_desktop,
        (),
        ("mcpServers",),
        _started,
        "Quit Claude Desktop and open it again; its developer settings list retain.",
        remote=False,
        own_path=True,
    ),
}
