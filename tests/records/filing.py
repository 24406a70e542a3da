"""Records for tests, and a store of either kind to file them in."""

from __future__ import annotations

import copy
import functools
import json
import os
from pathlib import Path
from typing import Any

from retain.app import App
from retain.memory import Memory
from retain.records import codec
from tests.cli.door import call
from tests.conftest import Ran

Record = dict[str, Any]

FOLDERS = {
    "session_summary": "sessions",
    "decision": "decisions",
    "runbook": "runbooks",
    "constraint": "constraints",
    "tech_debt": "tech-debt",
    "preference": "preferences",
}
CONTENT: dict[str, Record] = {
    "session_summary": {
        "goal": "Move the queue",
        "outcome": "success",
        "completed": ["queue moved"],
        "next_actions": [],
    },
    "decision": {
        "status": "accepted",
        "context": "one writer is not enough",
        "decision": "Postgres 17",
        "rationale": ["transactions"],
    },
    "runbook": {"trigger": "queue stuck", "steps": ["restart it"], "verification": "it drains"},
    "constraint": {
        "kind": "limitation",
        "rule": "ten requests a second",
        "impact": ["slow imports"],
        "severity": "high",
        "active": True,
    },
    "tech_debt": {
        "status": "open",
        "priority": "low",
        "description": "no retries",
        "reason_deferred": "no time",
    },
    "preference": {
        "topic": "indent",
        "value": "spaces",
        "reason": "house style",
        "strength": "strong",
    },
}


def draft(category: str = "decision", title: str = "Use Postgres", **fields: Any) -> Record:
    """A record as an agent hands it in."""
    return {
        "title": title,
        "tags": ["db"],
        "content": copy.deepcopy(CONTENT[category]),
        **fields,
    }


def keys(block: str) -> list[str]:
    """The first line of an error block and the names that follow it."""
    first, *lines = block.strip().split("\n")
    return [first, *(line.partition(":")[0] for line in lines)]


class Store:
    """A store of records, JSON or Markdown, worked on through the command line."""

    def __init__(self, project: Path, suffix: str) -> None:
        self.project, self.suffix = project, suffix
        self.is_json = suffix == ".json"
        self.root = project / (".claude/memory" if self.is_json else ".retain")
        self.root.mkdir(parents=True)
        self.input = project.parent / "draft.json"
        assert str(self.input).startswith("/tmp/")

    def target(self, ref: str) -> str:
        return os.path.relpath(self.root / (ref + self.suffix), self.project)

    def path(self, ref: str) -> Path:
        return self.root / (ref + self.suffix)

    def write(self, action: str, ref: str, *words: str, given: Record | None = None) -> Ran:
        options = [*words]
        if given is not None:
            self.input.write_text(json.dumps(given), encoding="utf-8")
            options += ["--input", str(self.input)]
        return call("record", "write", "--action", action, "--target", self.target(ref), *options)

    def create(
        self,
        ref: str = "decisions/use-postgres",
        *words: str,
        category: str = "decision",
        given: Record | None = None,
    ) -> Ran:
        wanted = draft(category) if given is None else given
        return self.write("create", ref, "--category", category, *words, given=wanted)

    def answer(self, ran: Ran) -> Record:
        """What a call that must succeed says."""
        assert ran.code == 0, ran.out + ran.err
        assert ran.out.count("\n") == 1
        said: Record = json.loads(ran.out)
        return said

    @functools.cached_property
    def app(self) -> App:
        return App(bank=str(self.root), cwd=str(self.project))

    def memory(self, ref: str) -> Memory:
        return self.app.bank.find(ref)

    def record(self, ref: str) -> Record:
        return codec.load_record(self.memory(ref))

    def configure(self, categories: Record, **settings: object) -> None:
        """Set what typed memories are kept by, in the words of the store's own config."""
        if self.is_json:
            text = json.dumps({"categories": categories, **settings})
            (self.root / "memory-config.json").write_text(text, encoding="utf-8")
            return
        lines = ["format = 1"]
        for name, fields in categories.items():
            lines.append(f"[categories.{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
        if "max_memories_per_category" in settings:
            lines += ["[records]", f"max_per_category = {settings['max_memories_per_category']}"]
        (self.root / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def age(self, ref: str, field: str, value: str = "2020-01-01T00:00:00Z") -> None:
        """Give a record another time, as if it had been there for years."""
        path, stamp = self.path(ref), self.record(ref)[field]
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(stamp, value), encoding="utf-8")

    def index(self) -> str:
        return (self.root / "index.md").read_text(encoding="utf-8")

    def entries(self) -> list[str]:
        return [line for line in self.index().splitlines() if line.startswith("- [")]

    def files(self) -> dict[str, bytes]:
        """What a person or a tool reads: all but what Retain keeps for itself."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not str(path.relative_to(self.root)).startswith(".")
        }

    def index_agrees(self) -> None:
        """Whether index.md is what a rebuild makes, byte for byte."""
        if not self.is_json:
            return
        here = self.index()
        assert call("record", "index", "--rebuild", "--root", str(self.root)).code == 0
        assert self.index() == here
        paths = [line.split(" -> ")[1].split(" #")[0] for line in self.entries()]
        assert len(paths) == len(set(paths))
