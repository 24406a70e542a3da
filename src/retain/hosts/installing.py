"""Our entry in a host's configuration: planned first, shown, then written whole."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.errors import Conflict, LimitExceeded, RetainError, Unreadable, Unsafe, UsageError
from retain.fsio import make_folder, saving, write_whole
from retain.hosts import jsonedit, tomledit
from retain.hosts.table import HOSTS, NAME, Host, Server

__all__ = ["BACKUP", "Plan", "apply", "plan"]

BACKUP: Final = ".retain-backup"
MAX_BYTES: Final = 50_000_000  # a host that keeps its history in the same file may need many

_MARKS: Final = (".git", ".retain")


class Plan(NamedTuple):
    """What a host's file is and what it is to be."""

    host: str
    scope: str
    path: str  # where the file really is, links followed
    before: bytes | None  # None: there is no such file
    after: bytes | None  # None: there need be none any more
    entry: dict[str, Any] | None  # ours, as it will be; None: it will be gone
    had: bool  # whether there is an entry of ours now

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.before == self.after

    @property
    def backup(self) -> str:
        """Where the file is copied before it is changed; empty when there is nothing to keep."""
        keeps = self.before is not None and self.after is not None and not self.is_done
        return self.path + BACKUP if keeps else ""

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        lines = difflib.unified_diff(
            _lines(self.before),
            _lines(self.after),
            "/dev/null" if self.before is None else self.path,
            "/dev/null" if self.after is None else self.path,
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "replace").splitlines(keepends=True)


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
        before = _read(path)
        text = _text(before, path)
        with _about(path):
            current = _entry(host, text)
            if server is None:
                after = _taken(host, text, path) if current is not None else before
                return Plan(name, scope, path, before, after, None, current is not None)
            target = _target(host, text, current, server)
            new = _put(host, text, current, target)
    is_same = current is not None and new == text
    after = before if is_same else new.encode()
    return Plan(name, scope, path, before, after, target, current is not None)


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
        write_whole(plan.backup, plan.before)
    if plan.after is None:
        with saving(plan.path):
            os.unlink(plan.path)
        return
    with saving(plan.path):
        make_folder(os.path.dirname(plan.path))
    write_whole(plan.path, plan.after)


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
    if current is None:
        is_usual = _keys(host, _load(host, text)) == host.keys
        return {**wanted, **host.once} if is_usual else wanted
    target = {key: one for key, one in current.items() if key in wanted or key not in host.written}
    for key, value in wanted.items():
        old = current.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        target[key] = {**old, **value} if both else value  # type: ignore[dict-item]
    return target


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


def _taken(host: Host, text: str, path: str) -> bytes | None:
    """The file without our entry: as it was before, if nothing else has changed since."""
    original = _original(host, path)
    if original is not None and _put(host, original, None, _entry(host, text) or {}) == text:
        return original.encode()
    keys = _keys(host, _load(host, text))
    if host.is_toml:
        new = tomledit.remove(text, (*keys, NAME))
    else:
        new = jsonedit.remove(text, (*keys, NAME), keep=_kept(host, keys, path, original))
    is_ours = not os.path.lexists(path + BACKUP) and not _load(host, new)
    if is_ours and not _remarks(host, new):
        return None  # it was made for our entry alone
    return new.encode()


def _original(host: Host, path: str) -> str | None:
    """The file as it was before our entry came into it, if that is known."""
    with contextlib.suppress(RetainError):
        data = _read(path + BACKUP)
        if data is not None:
            text = _text(data, path)
            return text if _entry(host, text) is None else None
    return None


def _kept(host: Host, keys: Sequence[str], path: str, original: str | None) -> int:
    """How many of the objects around our entry were there before it, and so stay if empty."""
    if original is None:
        return len(keys) if os.path.lexists(path + BACKUP) else 0
    within: Any = _load(host, original)
    for depth, key in enumerate(keys):
        within = within.get(key)
        if not isinstance(within, dict):
            return depth
    return len(keys)


def _remarks(host: Host, text: str) -> bool:
    """Whether a file that says nothing still has a comment."""
    return bool(text.strip()) and (host.is_toml or text.strip().strip("{}\ufeff \t\r\n") != "")
