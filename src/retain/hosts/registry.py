"""The hosts there are: where each keeps its configuration, and how a server is written there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

NAME: Final = "retain"  # what our entry is called in every host
_CHECK: Final = "Start a new session; /mcp lists retain."


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
    files: tuple[str, ...]  # below the folders of `_folders`; the first is made if none is there
    project: tuple[str, ...]  # the same in a project; none: it has no such file
    keys: tuple[str, ...]  # where the servers are in it
    check: str = _CHECK  # how a person sees that it works
    command: str = ""  # by which it is started from a shell; none: it is not
    types: tuple[str, str] | None = None  # the `type` of a server that is started, and called
    url_key: str = "url"  # empty: its file cannot name a server at an address
    variable: str = "${NAME}"  # how it spells a variable; a file in TOML has a key for the token
    has_argv: bool = False  # whether `command` is the whole command, not the program alone
    once: Mapping[str, Any] = {}  # written with a new entry, then the person's to change
    is_toml: bool = False
    own_path: bool = False  # whether it is started without the PATH of a shell

    def user_files(self, env: Mapping[str, str]) -> list[str]:
        """The files of a person's own configuration, the usual one first."""
        return [file.format(**_folders(env)) for file in self.files]

    def entry(self, server: Server) -> dict[str, Any]:
        """A new entry for a server."""
        entry: dict[str, Any] = {"type": self.types[bool(server.url)]} if self.types else {}
        if server.url:
            entry[self.url_key] = server.url
            if server.token_env and self.is_toml:
                entry["bearer_token_env_var"] = server.token_env
            elif server.token_env:
                variable = self.variable.replace("NAME", server.token_env)
                entry["headers"] = {"Authorization": f"Bearer {variable}"}
        elif self.has_argv:
            entry["command"] = list(server.argv)
        else:
            entry |= {"command": server.argv[0], "args": list(server.argv[1:])}
        return entry


def _folders(env: Mapping[str, str]) -> dict[str, str]:
    """The folders in which hosts keep their files."""
    home = env.get("HOME") or os.path.expanduser("~")
    config = env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    desktop = {
        "darwin": os.path.join(home, "Library", "Application Support"),
        "win32": env.get("APPDATA") or os.path.join(home, "AppData", "Roaming"),
    }
    return {
        "home": home,
        "config": config,
        "claude": env.get("CLAUDE_CONFIG_DIR") or home,
        "codex": env.get("CODEX_HOME") or os.path.join(home, ".codex"),
        "gemini": env.get("GEMINI_CLI_HOME") or home,
        "desktop": desktop.get(sys.platform, config),
    }


def find_host(host: Host, env: Mapping[str, str]) -> str:
    """What shows that a host is on this machine, its command or its files; empty: nothing does."""
    import shutil

    if host.command and (program := shutil.which(host.command, path=env.get("PATH"))):
        return program
    files = host.user_files(env)
    folders = [os.path.dirname(path) for path in files]
    signs = [*files, *(folder for folder in folders if folder != _folders(env)["home"])]
    return next((path for path in signs if os.path.exists(path)), "")


HOSTS: Final[Mapping[str, Host]] = {
    "claude-code": Host(
        "Claude Code",
        ("{claude}/.claude.json",),
        (".mcp.json",),
        ("mcpServers",),
        command="claude",
        types=("stdio", "http"),
    ),
    "codex": Host(
        "Codex",
        ("{codex}/config.toml",),
        (".codex/config.toml",),
        ("mcp_servers",),
        command="codex",
        is_toml=True,
    ),
    "cursor": Host(
        "Cursor",
        ("{home}/.cursor/mcp.json",),
        (".cursor/mcp.json",),
        ("mcpServers",),
        "Restart Cursor; its settings list retain among the MCP servers.",
        command="cursor",
        variable="${env:NAME}",
    ),
    "gemini": Host(
        "Gemini CLI",
        ("{gemini}/.gemini/settings.json",),
        (".gemini/settings.json",),
        ("mcpServers",),
        command="gemini",
        url_key="httpUrl",  # older versions take `url` for another protocol
    ),
    "opencode": Host(
        "OpenCode",
        ("{config}/opencode/opencode.json", "{config}/opencode/opencode.jsonc"),
        (
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ),
        ("mcp",),
        "Start a new session; `opencode mcp list` lists retain.",
        command="opencode",
        types=("local", "remote"),
        variable="{env:NAME}",
        has_argv=True,
        once={"enabled": True},
    ),
    "claude-desktop": Host(
        "Claude Desktop",
        ("{desktop}/Claude/claude_desktop_config.json",),
        (),
        ("mcpServers",),
        "Quit Claude Desktop and open it again; its developer settings list retain.",
        url_key="",
        own_path=True,
    ),
}
