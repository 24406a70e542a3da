"""Our entry in a host's configuration: planned first, shown, then written whole."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from retain.errors import Conflict, LimitExceeded, RetainError, Unreadable, Unsafe, UsageError
from retain.fsio import make_folder, saving, write_whole
from retain.hosts import jsonedit, tomledit
from retain.hosts.arguments import merged
from retain.hosts.masking import masked
from retain.hosts.table import HOSTS, NAME, Host, Server
from retain.paths import global_root

__all__ = ["BACKUP", "Plan", "apply", "plan"]

BACKUP: Final = ".retain-backup"
MAX_BYTES: Final = 50_000_000  # a host that keeps its history in the same file may need many

_MARKS: Final = (".git", ".retain")
_BACKUPS: Final = ".backups"  # of files in projects, in the person's own bank


class Plan(NamedTuple):
    """What a host's file is and what it is to be."""

    host: str
    scope: str
    path: str  # where the file really is, links followed
    before: bytes | None  # None: there is no such file
    after: bytes | None  # None: there need be none any more
    entry: dict[str, Any] | None  # ours, as it will be; None: it will be gone
    had: bool  # whether there is an entry of ours now
    spare: str  # where a copy of the file has its place

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.before == self.after

    @property
    def backup(self) -> str:
        """Where the file is copied before it is changed; empty when there is nothing to keep."""
        keeps = self.before is not None and self.after is not None and not self.is_done
        return self.spare if keeps else ""

    @property
    def diff(self) -> str:
        """The change as a unified diff, without what servers are given as secrets."""
        if self.is_done:
            return ""
        lines = difflib.unified_diff(
            _lines(self.host, self.before),
            _lines(self.host, self.after),
            "/dev/null" if self.before is None else self.path,
            "/dev/null" if self.after is None else self.path,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    @property
    def shown(self) -> dict[str, Any] | None:
        """The entry, without what a person gave it as secrets."""
        return None if self.entry is None else dict(masked(self.entry))


def _lines(host: str, data: bytes | None) -> list[str]:
    text = (data or b"").decode("utf-8", "replace")
    if text.strip():
        text = (tomledit if HOSTS[host].is_toml else jsonedit).masked(text)
    return text.splitlines(keepends=True)


def plan(
    name: str,
    scope: str,
    env: Mapping[str, str],
    server: Server | None,
    *,
    cwd: str,
) -> Plan:
    """What has to change for a host to know this server; without one, to know none of ours."""
    host = HOSTS[name]
    if server and server.url and not host.remote:
        raise UsageError(
            f"{host.title} takes no address from its file",
            hint="Leave --http out, or add the address in its settings, under Connectors.",
        )
    paths = _paths(host, scope, env, cwd)
    with _told(host, server):
        path = _chosen(host, paths)
        spare = _spare(path, scope, env)
        before = _read(path)
        text = _text(before, path)
        with _about(path):
            current = _entry(host, text)
            if server is None:
                after = _taken(host, text, spare) if current is not None else before
                return Plan(name, scope, path, before, after, None, current is not None, spare)
            target = _target(host, text, current, server)
            new = _put(host, text, current, target)
    is_same = current is not None and new == text
    after = before if is_same else new.encode()
    return Plan(name, scope, path, before, after, target, current is not None, spare)


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
        _keep(plan.backup, plan.before)
    if plan.after is None:
        with saving(plan.path):
            os.unlink(plan.path)
        return
    with saving(plan.path):
        make_folder(os.path.dirname(plan.path))
    write_whole(plan.path, plan.after)


def _spare(path: str, scope: str, env: Mapping[str, str]) -> str:
    """Where a file is copied before it is changed: beside it, but never into a repository."""
    if scope == "user":
        return path + BACKUP
    known = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    name = f"{known}-{os.path.basename(path)}{BACKUP}"
    return os.path.join(global_root(env), _BACKUPS, name)


def _keep(path: str, data: bytes) -> None:
    """Write a copy; a bank that is a repository itself does not take it in."""
    folder = os.path.dirname(path)
    if os.path.basename(folder) == _BACKUPS:
        with saving(path):
            make_folder(folder)
        write_whole(os.path.join(folder, ".gitignore"), b"*\n")
    write_whole(path, data)


def _paths(host: Host, scope: str, env: Mapping[str, str], cwd: str) -> list[str]:
    """The files a host reads in that scope, the usual one first."""
    if scope == "user":
        return [os.path.abspath(path) for path in host.user(env)]
    if not host.project:
        raise UsageError(f"{host.title} has no configuration of a project's own")
    root = _project(cwd, env, host.project)
    return [os.path.join(root, path) for path in host.project]


def _project(cwd: str, env: Mapping[str, str], files: Sequence[str]) -> str:
    """The directory a project starts in: the nearest with its marks, below the person's home."""
    home = os.path.realpath(env.get("HOME") or os.path.expanduser("~"))
    here = os.path.realpath(cwd)
    while here not in (home, os.path.dirname(here)):
        if any(os.path.lexists(os.path.join(here, mark)) for mark in (*_MARKS, *files)):
            return here
        here = os.path.dirname(here)
    return os.path.realpath(cwd)


def _chosen(host: Host, paths: Sequence[str]) -> str:
    """The one of a host's files that has our entry, else the first there is."""
    there = [_followed(path) for path in paths if os.path.lexists(path)]
    if len(there) > 1:
        for path in there:
            with contextlib.suppress(RetainError):
                if _entry(host, _text(_read(path), path)) is not None:
                    return path
    return there[0] if there else _followed(paths[0])


def _followed(path: str) -> str:
    """Where a file really is; a link may lead only to what belongs to the person."""
    real = os.path.realpath(path)
    if not os.path.lexists(real):
        if os.path.islink(path):
            raise Unsafe(f"{path} is a link that leads nowhere")
        _check_folder(path, real)
        return real
    try:
        facts = os.stat(real, follow_symlinks=False)
    except OSError as error:
        raise Unsafe(f"{path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(facts.st_mode):
        raise Unsafe(f"{real} is not a plain file")
    if facts.st_uid != os.geteuid():
        raise Unsafe(f"{real} belongs to someone else")
    return real


def _check_folder(path: str, real: str) -> None:
    """Refuse to make a file where a link leads into a directory of someone else's."""
    folder = os.path.dirname(real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if real != os.path.abspath(path) and os.stat(folder).st_uid != os.geteuid():
        raise Unsafe(f"{path} lies behind a link, in {folder}, which belongs to someone else")


def _read(path: str) -> bytes | None:
    """A file's bytes, or None where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unsafe(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Unsafe(f"{path} is not a plain file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise LimitExceeded(f"{path} is larger than {MAX_BYTES:,} bytes")
    return data


def _text(data: bytes | None, path: str) -> str:
    try:
        return (data or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path}: it is not UTF-8 at byte {error.start}") from error


@contextlib.contextmanager
def _about(path: str) -> Iterator[None]:
    """Say which file it is that cannot be used."""
    try:
        yield
    except Unreadable as error:
        error.message = f"{path}: {error.message}"
        raise


@contextlib.contextmanager
def _told(host: Host, server: Server | None) -> Iterator[None]:
    """Tell whoever has a file that is left alone what to do in it by hand."""
    try:
        yield
    except (Unreadable, Unsafe, LimitExceeded) as error:
        error.unchanged = "The file was left as it is, byte for byte."
        if server is None:
            error.hint = f"Take the entry {NAME!r} out of it in an editor."
        else:
            pasted = _snippet(host, {**host.entry(server), **host.once})
            error.hint = f"Mend it, or put this into it in an editor:\n{pasted}"
            error.details = {**error.details, "snippet": pasted}
        raise


def _snippet(host: Host, entry: dict[str, Any]) -> str:
    path = (*host.keys, NAME)
    if host.is_toml:
        return tomledit.block(path, entry).rstrip("\n")
    whole: dict[str, Any] = entry
    for key in reversed(path):
        whole = {key: whole}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def _load(host: Host, text: str) -> dict[str, Any]:
    if host.is_toml:
        return tomledit.load(text)
    return jsonedit.load(text) if text.strip() else {}


def _keys(host: Host, whole: Mapping[str, Any]) -> tuple[str, ...]:
    """Where the servers are; OpenCode has them one level down in files of its second version."""
    servers = whole.get(host.keys[0])
    inner = servers.get("servers") if host.keys == ("mcp",) and isinstance(servers, dict) else None
    is_nested = isinstance(inner, dict) and not {"type", "enabled"} & inner.keys()
    return (*host.keys, "servers") if is_nested else host.keys


def _entry(host: Host, text: str) -> dict[str, Any] | None:
    """Our entry in a file, or None."""
    whole = _load(host, text)
    within: Any = whole
    for key in _keys(host, whole):
        within = within.get(key, {})
        if not isinstance(within, dict):
            raise Unreadable(f"{key!r} in it is not an object")
    found = within.get(NAME)
    if found is None or isinstance(found, dict):
        return found
    raise Unreadable(f"{NAME!r} in it is not an object")


def _target(
    host: Host, text: str, current: dict[str, Any] | None, server: Server
) -> dict[str, Any]:
    """Our entry as it is to be: what a person added to it stays."""
    wanted = host.entry(server)
    if current is not None and server.command:
        wanted = host.entry(server._replace(command=merged(current, server), bank=(), tools=""))
    if current is None:
        is_usual = _keys(host, _load(host, text)) == host.keys
        return {**wanted, **host.once} if is_usual else wanted
    kept = current if server.command or host.is_toml else _headers(current, wanted)
    target = {key: one for key, one in kept.items() if _stays(host, key, current, wanted)}
    for key, value in wanted.items():
        old = kept.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        target[key] = {**old, **value} if both else value  # type: ignore[dict-item]
    return target


def _stays(host: Host, key: str, current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a key of our entry has a place beside what is to be in it."""
    if key in wanted:
        return True
    is_command = "command" in wanted
    foreign = host.only_address if is_command else host.only_command
    if any(fnmatch.fnmatchcase(key, one) for one in foreign):
        return False
    if key == "headers":
        return not is_command
    if key == "bearer_token_env_var":
        return _is_same_server(current, wanted)
    return key not in host.written


def _headers(current: dict[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The entry without a token that is not for the server it is to call."""
    headers = current.get("headers")
    is_new = "headers" in wanted or not _is_same_server(current, wanted)
    if not isinstance(headers, dict) or not is_new:
        return current
    known = wanted.get("headers", {})
    left = {
        key: one for key, one in headers.items() if key in known or key.lower() != "authorization"
    }
    rest = {**current, "headers": left}
    return rest if left else {key: one for key, one in rest.items() if key != "headers"}


def _is_same_server(current: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether both are addresses of one machine, so that a token for the one is for the other."""
    origins = set()
    for entry in (current, wanted):
        url = entry.get("httpUrl") or entry.get("url")
        try:
            origins.add(urlsplit(str(url))[:2] if url else object())
        except ValueError:
            return False
    return len(origins) == 1


def _put(host: Host, text: str, current: dict[str, Any] | None, target: dict[str, Any]) -> str:
    """The file's text with our entry in it."""
    path = (*_keys(host, _load(host, text)), NAME)
    if not host.is_toml and not text.strip():
        return f"{_snippet(host, target)}\n"
    if current is None:
        edit = tomledit.insert if host.is_toml else jsonedit.insert
        return edit(text, path, target)
    for inner, value in _differences(current, target):
        text = _changed(host, text, (*path, *inner), value)
    return text


def _changed(host: Host, text: str, path: tuple[str, ...], value: object) -> str:
    """The text with one key set, or gone if its value is None."""
    if value is None:
        if host.is_toml:
            return tomledit.remove(text, path)
        return jsonedit.remove(text, path, keep=len(path) - 1)
    return (tomledit.insert if host.is_toml else jsonedit.insert)(text, path, value)


def _differences(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], object]]:
    """The paths at which two objects differ, with the new value; None: it is gone."""
    for key in old:
        if key not in new:
            yield (key,), None
    for key, value in new.items():
        if key in old and isinstance(value, dict) and isinstance(old[key], dict):
            for path, inner in _differences(old[key], value):
                yield (key, *path), inner
        elif key not in old or old[key] != value:
            yield (key,), value


def _taken(host: Host, text: str, spare: str) -> bytes | None:
    """The file without our entry: as it was before, if nothing else has changed since."""
    original = _original(host, spare)
    if original is not None and _put(host, original, None, _entry(host, text) or {}) == text:
        return original.encode()
    keys = _keys(host, _load(host, text))
    if host.is_toml:
        new = tomledit.remove(text, (*keys, NAME))
    else:
        new = jsonedit.remove(text, (*keys, NAME), keep=_kept(host, keys, spare, original))
    is_ours = not os.path.lexists(spare) and not _load(host, new)
    if is_ours and not _remarks(host, new):
        return None  # it was made for our entry alone
    return new.encode()


def _original(host: Host, spare: str) -> str | None:
    """The file as it was before our entry came into it, if that is known."""
    with contextlib.suppress(RetainError):
        data = _read(spare)
        if data is not None:
            text = _text(data, spare)
            return text if _entry(host, text) is None else None
    return None


def _kept(host: Host, keys: Sequence[str], spare: str, original: str | None) -> int:
    """How many of the objects around our entry were there before it, and so stay if empty."""
    if original is None:
        return len(keys) if os.path.lexists(spare) else 0
    within: Any = _load(host, original)
    for depth, key in enumerate(keys):
        within = within.get(key)
        if not isinstance(within, dict):
            return depth
    return len(keys)


def _remarks(host: Host, text: str) -> bool:
    """Whether a file that says nothing still has a comment."""
    return bool(text.strip()) and (host.is_toml or text.strip().strip("{}\ufeff \t\r\n") != "")
