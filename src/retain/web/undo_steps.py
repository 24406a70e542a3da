"""How each change is taken back: calls of the interface itself, handed out with the change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from retain.bank import records_json
from retain.memory import Memory, Trashed, Written
from retain.records.lifecycle import STATE_FIELDS
from retain.web.operation import ROOT
from retain.web.rendering import address

if TYPE_CHECKING:
    from retain.app import App
    from retain.records.service import Outcome


Data = dict[str, Any]

# The step that takes each step of a memory's life back.
_BACK = {
    "retired": "restore",
    "archived": "unarchive",
    "restored": "retire",
    "unarchived": "archive",
}
# Where a step leaves when it was taken, and what it did; its status and reason count by themselves.
_TRACES: Final = frozenset(("status", "record_status", "updated_at", "changes", *STATE_FIELDS))


def api_path(scope: str, collection: str, name: str, *more: str) -> str:
    """A memory's place in the interface, below /api/v1."""
    parts = (scope, collection or ROOT, name, *more)
    return "/".join(["/memories", *(quote(part, safe="") for part in parts)])


def changed(
    scope: str, memory: Memory, status: str, warnings: Sequence[str], undo: Sequence[Data]
) -> Data:
    """What a change did, with the calls that undo it."""
    return {
        "id": memory.id,
        "collection": memory.collection,
        "scope": scope,
        "page": address(scope, memory.collection, memory.id),
        "title": memory.title,
        "status": status,
        "hash": memory.hash,
        "warnings": list(warnings),
        "undo": list(undo),
    }


def to_call(method: str, path: str, body: Mapping[str, object] | None) -> Data:
    """One call of the interface, as whoever undoes something makes it."""
    return {"method": method, "path": path, "body": None if body is None else dict(body)}


def said(memory: Memory) -> str:
    """A digest of what a memory says and in which state it is, whenever it came to be so.

    A step and the step back leave their times and their entries among a memory's changes. By the
    hash of its file, of several steps only the last could be taken back.
    """
    is_json = memory.path.endswith(".json") and not memory.problem
    fields = records_json.load(memory.data) if is_json else {**memory.meta, "": memory.body}
    stated = {str(name): value for name, value in fields.items() if name not in _TRACES}
    state = [memory.status, memory.text(f"{memory.status}_reason")]
    text = json.dumps([state, sorted(stated.items())], default=str)
    return sha256(text.encode()).hexdigest()


def to_version(app: App, scope: str, before: Memory, done: Written) -> list[Data]:
    """Back to the text before a change: the version that was kept of it, or what it said."""
    if done.status == "unchanged":
        return []
    after = done.memory
    kept = done.kept or _kept(app, before, after)
    path = api_path(scope, after.collection, after.id)
    if kept:
        body = {"expect": after.hash, "exact": True}
        return [to_call("POST", f"{path}/versions/{kept}/restore", body)]
    source = before.data.decode("utf-8", "replace")
    return [to_call("PUT", f"{path}/source", {"source": source, "expect": after.hash})]


def _kept(app: App, before: Memory, after: Memory) -> str:
    """The numbered version that has these very bytes."""
    for version in app.bank.versions(after):
        if app.bank.read_version(after, version.number) == before.data:
            return f"v{version.number}"
    return ""


def restoring(app: App, scope: str, before: Memory, done: Outcome) -> list[Data]:
    """The step back, for a step of a memory's life; else its earlier text."""
    after = done.memory
    if after.hash == before.hash:
        return []
    if done.status in _BACK:
        reason = before.text(f"{before.status}_reason")
        body = {"reason": reason} if done.status in ("restored", "unarchived") else {}
        body["said"] = said(after)
        path = api_path(scope, after.collection, after.id, _BACK[done.status])
        return [to_call("POST", path, body)]
    return to_version(app, scope, before, Written(after, done.status))


def untrashing(scope: str, trashed: Sequence[Trashed]) -> list[Data]:
    """Out of the trash again."""
    return [
        to_call("POST", f"/trash/{quote(scope)}", {"name": f"{one.collection}/{one.name}"})
        for one in trashed
    ]


def deleting(scope: str, memory: Memory) -> Data:
    """Into the trash, unless someone has changed it by then."""
    path = api_path(scope, memory.collection, memory.id)
    return to_call("DELETE", f"{path}?expect={memory.hash}", None)


def moving(scope: str, before: Memory, after: Memory) -> Data:
    """Back to where it was."""
    body = {"collection": before.collection or ROOT, "id": before.id, "said": said(after)}
    return to_call("POST", api_path(scope, after.collection, after.id, "move"), body)
