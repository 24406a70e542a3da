"""Our entry in a host's configuration: planned first, shown, then written whole."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from retain.bank.files import Directory, saving, write_whole
from retain.errors import Conflict, NotFound, RetainError, Unreadable, Unsafe, UsageError
from retain.hosts.config_file import mask, parse, plain, render
from retain.hosts.registry import HOSTS, NAME, Host, Server
from retain.locate import global_root, make_private_directory

BACKUP: Final = ".retain-backup"
MAX_BYTES: Final = 50_000_000  # a host that keeps its history in the same file may need many

_MARKS: Final = (".git", ".retain")
_BACKUPS: Final = ".backups"  # of files in projects, in the person's own bank
_BANK_OPTIONS: Final = ("--bank", "--global", "--local")
_OPTIONS_WITH_VALUE: Final = ("--bank", "--tools", "--host", "--port", "--allow-host")
_PLUGIN_PREFIX: Final = "retain@"  # the plugin's name, before that of its marketplace
_MAX_PLUGIN_BYTES: Final = 4_000_000


class Plan(NamedTuple):
    """What a host's file is and what it is to be."""

    host: str
    scope: str
    path: str  # where the file really is, links followed
    before: bytes | None  # None: there is no such file
    after: bytes | None  # None: there need be none any more
    entry: dict[str, Any] | None  # ours, as it will be; None: it will be gone
    had_entry: bool
    backup_path: str

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.before == self.after

    @property
    def backup(self) -> str:
        """Where the file is copied before it is changed; empty when there is nothing to keep."""
        keeps = self.before is not None and self.after is not None and not self.is_done
        return self.backup_path if keeps else ""

    @property
    def diff(self) -> str:
        """The change as a unified diff, without what servers are given as secrets."""
        if self.is_done:
            return ""
        lines = difflib.unified_diff(
            _masked_lines(self.host, self.before),
            _masked_lines(self.host, self.after),
            "/dev/null" if self.before is None else self.path,
            "/dev/null" if self.after is None else self.path,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    @property
    def masked_entry(self) -> dict[str, Any] | None:
        """The entry, without what a person gave it as secrets."""
        return None if self.entry is None else dict(mask(self.entry))


def _masked_lines(name: str, data: bytes | None) -> list[str]:
    if data is None or not data.strip():
        return []
    text, is_toml = data.decode("utf-8"), HOSTS[name].is_toml
    masked = mask(plain(parse(text, is_toml=is_toml)))
    return render(masked, text, is_toml=is_toml).splitlines(keepends=True)


def plan(name: str, scope: str, env: Mapping[str, str], server: Server | None, *, cwd: str) -> Plan:
    """Plan the change after which a host knows this server; without one, none of ours."""
    host = HOSTS[name]
    if server and server.url and not host.url_key:
        raise UsageError(
            f"{host.title} takes no address from its file",
            hint="Leave --http out, or add the address in its settings, under Connectors.",
        )
    paths = _paths(host, scope, env, cwd)
    path = paths[0]
    try:
        path = _choose_path(host, paths)
        backup = _backup_path(path, scope, env)
        before = _read(path)
        text = _decode(before)
        document = parse(text, is_toml=host.is_toml)
        current = _entry(host, plain(document))
        if server is None:
            after = before if current is None else _remove(host, text, current, backup)
            return Plan(name, scope, path, before, after, None, current is not None, backup)
        target = _target(host, plain(document), current, server)
        after = before if current == target else _insert(host, text, target).encode()
    except RetainError as error:
        if isinstance(error, Unreadable):
            error.message = f"{path}: {error.message}"
        _add_snippet(error, host, server)
        raise
    return Plan(name, scope, path, before, after, target, current is not None, backup)


def _add_snippet(error: RetainError, host: Host, server: Server | None) -> None:
    """Say what to change by hand in a file that is left alone."""
    error.unchanged = "The file was left as it is, byte for byte."
    if server is None:
        error.hint = f"Take the entry {NAME!r} out of it in an editor."
        return
    snippet = _insert(host, "", {**host.entry(server), **host.once}).rstrip("\n")
    error.hint = f"Mend it, or put this into it in an editor:\n{snippet}"
    error.details = {**error.details, "snippet": snippet}


def apply(plan: Plan) -> None:
    """Write what was planned, unless the file is no longer the one that was looked at."""
    if plan.is_done:
        return
    if _read(plan.path) != plan.before:
        raise Conflict(
            f"{plan.path} has changed meanwhile",
            unchanged="Nothing was changed.",
            hint="Run the command again.",
        )
    if plan.backup and plan.before is not None:
        folder = os.path.dirname(plan.backup)
        if os.path.basename(folder) == _BACKUPS:  # a bank that is a repository leaves it out
            with saving(plan.backup):
                make_private_directory(folder)
            write_whole(os.path.join(folder, ".gitignore"), b"*\n")
        write_whole(plan.backup, plan.before)
    with saving(plan.path):
        if plan.after is None:
            os.unlink(plan.path)
            return
        make_private_directory(os.path.dirname(plan.path))
    write_whole(plan.path, plan.after)


def find_plugin(env: Mapping[str, str]) -> str:
    """What Claude Code calls the plugin of ours that it has installed; empty if it has none."""
    home = env.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    path = os.path.join(home, "plugins", "installed_plugins.json")
    try:
        with open(path, encoding="utf-8") as file:
            plugins = json.loads(file.read(_MAX_PLUGIN_BYTES))["plugins"]
        names = [name for name, where in plugins.items() if where]
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return ""
    return next((name for name in names if name.startswith(_PLUGIN_PREFIX)), "")


# The file


def _backup_path(path: str, scope: str, env: Mapping[str, str]) -> str:
    """Where a file is copied before it is changed: beside it, but never into a repository."""
    if scope == "user":
        return path + BACKUP
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    name = f"{digest}-{os.path.basename(path)}{BACKUP}"
    return os.path.join(os.path.realpath(global_root(env)), _BACKUPS, name)


def _paths(host: Host, scope: str, env: Mapping[str, str], cwd: str) -> list[str]:
    """The files a host reads in that scope, the usual one first."""
    if scope == "user":
        return [os.path.abspath(path) for path in host.user_files(env)]
    if not host.project:
        raise UsageError(f"{host.title} has no configuration of a project's own")
    root = _project(cwd, env, host.project)
    return [os.path.join(root, path) for path in host.project]


def _project(cwd: str, env: Mapping[str, str], files: Sequence[str]) -> str:
    """The directory a project starts in: the nearest with its marks, below the person's home."""
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    directory = os.path.realpath(cwd)
    while directory not in (home, os.path.dirname(directory)):
        if any(os.path.lexists(os.path.join(directory, mark)) for mark in (*_MARKS, *files)):
            return directory
        directory = os.path.dirname(directory)
    return os.path.realpath(cwd)


def _choose_path(host: Host, paths: Sequence[str]) -> str:
    """The one of a host's files that has our entry, else the first there is."""
    existing = [_resolve(path) for path in paths if os.path.lexists(path)]
    if len(existing) > 1:
        for path in existing:
            with contextlib.suppress(RetainError):
                if _read_entry(host, path) is not None:
                    return path
    return existing[0] if existing else _resolve(paths[0])


def _resolve(path: str) -> str:
    """Where a file really is; a link may lead only to what belongs to the person."""
    real = os.path.realpath(path)
    if not os.path.lexists(real):
        if os.path.islink(path):
            raise Unsafe(f"{path} is a link that leads nowhere")
        folder = os.path.dirname(real)
        while not os.path.lexists(folder):
            folder = os.path.dirname(folder)
        if real != os.path.abspath(path) and os.stat(folder).st_uid != os.geteuid():
            raise Unsafe(f"{path} lies behind a link, in {folder}, which belongs to someone else")
    return real


def _read(path: str) -> bytes | None:
    """A file's bytes, or None where there is none; only a plain file of the person's is read."""
    folder, name = os.path.split(path)
    try:
        with Directory.open(folder) as directory:
            data, facts = directory.read_with_facts(name, MAX_BYTES)
    except NotFound:
        return None
    if facts.st_uid != os.geteuid():
        raise Unsafe(f"{path} belongs to someone else")
    return data


def _decode(data: bytes | None) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 at byte {error.start}") from error


# The entry


def _keys(host: Host, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the servers are; OpenCode has them one level down in files of its second version."""
    servers = values.get(host.keys[0])
    inner = servers.get("servers") if host.keys == ("mcp",) and isinstance(servers, dict) else None
    is_nested = isinstance(inner, dict) and not {"type", "enabled"} & inner.keys()
    return (*host.keys, "servers") if is_nested else host.keys


def _entry(host: Host, values: dict[str, Any]) -> dict[str, Any] | None:
    """Our entry in a file's values, or None."""
    within: Any = values
    for key in (*_keys(host, values), NAME):
        within = within.get(key, {} if key != NAME else None)
        if not isinstance(within, dict) and not (key == NAME and within is None):
            raise Unreadable(f"{key!r} in it is not an object")
    return within  # type: ignore[no-any-return]


def _read_entry(host: Host, path: str) -> dict[str, Any] | None:
    return _entry(host, plain(parse(_decode(_read(path)), is_toml=host.is_toml)))


def _insert(host: Host, text: str, entry: dict[str, Any]) -> str:
    """The file's text with our entry in it; of one that is there only what differs is changed."""
    document = parse(text, is_toml=host.is_toml)
    within = document
    keys = _keys(host, plain(document))
    for key in keys:
        if key not in within:
            within[key] = _new_table(host, is_outer=True)
        within = within[key]
    if NAME not in within:
        within[NAME] = _new_table(host)
    _update(within[NAME], entry)
    expected = plain(document)
    new = render(document, text, is_toml=host.is_toml)
    # A last look before a person's file is changed: TOML can be laid out in ways tomlkit bends.
    if plain(parse(new, is_toml=host.is_toml)) != expected:
        raise Unreadable("it cannot be changed without disturbing something else in it")
    return new


def _new_table(host: Host, *, is_outer: bool = False) -> Any:
    if not host.is_toml:
        return {}
    import tomlkit

    return tomlkit.table(is_super_table=is_outer)


def _update(table: Any, target: Mapping[str, Any]) -> None:
    for key in [key for key in table if key not in target]:
        del table[key]
    for key, value in target.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _update(table[key], value)
        elif key not in table or table[key] != value:
            table[key] = value


def _remove(host: Host, text: str, entry: dict[str, Any], backup: str) -> bytes | None:
    """The file without our entry: as it was before, if nothing else has changed since."""
    with contextlib.suppress(RetainError):
        original = _decode(_read(backup))
        if _insert(host, original, entry) == text:
            return original.encode() if os.path.lexists(backup) else None
    document = parse(text, is_toml=host.is_toml)
    tables, keys = [document], (*_keys(host, plain(document)), NAME)
    for key in keys[:-1]:
        tables.append(tables[-1][key])
    for table, key in reversed([*zip(tables, keys, strict=True)]):
        if key == NAME or not table[key]:  # the objects around the entry, if nothing else is left
            del table[key]
    return render(document, text, is_toml=host.is_toml).encode()


def _target(
    host: Host, values: Mapping[str, Any], current: dict[str, Any] | None, server: Server
) -> dict[str, Any]:
    """Our entry as it is to be: what a person added to one of the same transport stays."""
    wanted = host.entry(server)
    if current is None or bool(_address(current)) != bool(server.url):
        is_usual = _keys(host, values) == host.keys
        return {**wanted, **(host.once if is_usual else {})}
    target = dict(current)
    if server.command:
        command = _merge_command(current, server)
        wanted = host.entry(server._replace(command=command, bank=(), tools=""))
    elif server.token_env or _origin(_address(current)) != _origin(server.url):
        # A token is for one server only.
        target.pop("bearer_token_env_var", None)
        headers = target.pop("headers", None)
        if isinstance(headers, dict):
            kept = {key: headers[key] for key in headers if key.lower() != "authorization"}
            target |= {"headers": kept} if kept else {}
    for key, value in wanted.items():
        old = target.get(key)
        is_table = isinstance(old, dict) and isinstance(value, dict)
        target[key] = {**old, **value} if is_table else value  # type: ignore[dict-item]
    return target


def _address(entry: Mapping[str, Any]) -> str:
    """The address of a server in an entry; empty for one that is started by a command."""
    return str(entry.get("httpUrl") or entry.get("url") or "")


def _origin(url: str) -> tuple[str, ...]:
    """The scheme and the server of an address; nothing for what is none."""
    try:
        return urlsplit(url)[:2]
    except ValueError:
        return ()


# The command in the entry


def parse_command(entry: Mapping[str, Any]) -> list[str]:
    """The command of an entry with its arguments; empty if it has none that is understood."""
    command, more = entry.get("command"), entry.get("args", [])
    words = (
        command if isinstance(command, list) else [command, *more] if isinstance(more, list) else []
    )
    return list(words) if all(isinstance(word, str) for word in words) else []


def _merge_command(entry: Mapping[str, Any], server: Server) -> tuple[str, ...]:
    """The command for an entry that is there: its options stay, those given now replace them."""
    words = parse_command(entry)
    if tuple(words[1:3]) == ("-m", "retain"):
        options = _split_options(words[3:])
    elif words and os.path.basename(words[0]).removesuffix(".exe") == "retain":
        options = _split_options(words[1:])
    else:
        return server.argv
    if ("mcp",) not in options:
        return server.argv
    if server.bank:
        options = _replace_option(options, _BANK_OPTIONS, server.bank)
    if server.tools:
        options = _replace_option(options, ("--tools",), ("--tools", server.tools))
    return (*server.command[:-1], *(word for option in options for word in option))


def option_value(words: Sequence[str], name: str) -> str:
    """What an option is given in a command, empty if it is not there."""
    for option in _split_options(words):
        key, _, value = option[0].partition("=")
        if key == name:
            return option[1] if len(option) > 1 else value
    return ""


def _split_options(words: Sequence[str]) -> list[tuple[str, ...]]:
    options, start = [], 0
    while start < len(words):
        length = 2 if words[start] in _OPTIONS_WITH_VALUE else 1
        options.append(tuple(words[start : start + length]))
        start += length
    return options


def _replace_option(
    options: Sequence[tuple[str, ...]], names: Sequence[str], new: tuple[str, ...]
) -> list[tuple[str, ...]]:
    """The options with one in the place of those with these names, else at the end."""
    replaced: list[tuple[str, ...]] = []
    for option in options:
        if option[0].partition("=")[0] not in names:
            replaced.append(option)
        elif new not in replaced:
            replaced.append(new)
    return replaced if new in replaced else [*replaced, new]
