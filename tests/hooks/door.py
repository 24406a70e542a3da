"""A hook called in this process, and what one needs to call it: records and transcripts."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retain.hooks import Answer, Call, respond
from retain.locate import state_directory
from tests.capture import transcripts
from tests.records.filing import CONTENT, FOLDERS

# Each process has its own, as what hooks leave in /tmp is named after it.
SESSION = f"0c3cb3c4-2f57-4ae8-9a4e-{os.getpid():012x}"
OTHER = f"1c3cb3c4-2f57-4ae8-9a4e-{os.getpid():012x}"
NOW = "2026-05-08T12:00:00Z"
# Two lines that decide something for a reason: a score of 0.53, where 0.4 is enough.
DECIDED = "We decided on Postgres because it is known.\nWe chose argon2 over bcrypt."


def ask(event: str, payload: Mapping[str, object] | None = None, /, **more: object) -> Answer:
    """What a hook answers to a payload of the working directory's session."""
    whole = {"session_id": SESSION, "cwd": os.getcwd(), **(payload or {}), **more}
    return respond(Call(event, whole, os.environ, time.monotonic()))


def state_file(root: Path, session: str = SESSION) -> Path:
    """Where the state of a session about a bank is kept."""
    name = hashlib.sha256(session.encode()).hexdigest()[:32]
    return Path(state_directory(str(root), os.environ), "hooks", f"{name}.json")


def prompt(words: str, **more: object) -> str:
    """The context that a prompt brings; empty for none."""
    return context(ask("user-prompt-submit", prompt=words, **more))


def begin(source: str = "startup", **more: object) -> str:
    """The context that a session begins with; empty for none."""
    return context(ask("session-start", source=source, **more))


def context(answer: Answer) -> str:
    assert answer.code == 0
    if not answer.out:
        return ""
    said = json.loads(answer.out).get("hookSpecificOutput", {})
    return str(said.get("additionalContext", ""))


def nothing(answer: Answer) -> bool:
    """Whether a host is told nothing at all."""
    return (answer.out, answer.err, answer.code) == ("", "", 0)


def record(category: str, name: str = "one", **more: Any) -> dict[str, Any]:
    """A whole typed memory, as claude-memory writes it."""
    content = {**CONTENT[category], **more.pop("content", {})}
    return {
        "schema_version": "1.0",
        "category": category,
        "id": name,
        "title": f"The {name} of its kind",
        "created_at": NOW,
        "updated_at": NOW,
        "tags": ["kept"],
        "record_status": "active",
        "content": content,
        **more,
    }


def kept(root: Path, category: str, name: str = "one", **more: Any) -> Path:
    """A typed memory in its folder, written past Retain."""
    path = root / FOLDERS[category] / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(record(category, name, **more)), encoding="utf-8")
    return path


def saved(root: Path, category: str, name: str = "one") -> Path:
    """The same, made just now."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return kept(root, category, name, created_at=now, updated_at=now)


def said(path: Path, *texts: str) -> str:
    """A transcript of Claude Code's in which a person asks and an agent answers these texts."""
    lines: list[object] = [transcripts.user("Please look at the store.")]
    lines += [
        transcripts.assistant(transcripts.text(text), answer=f"m{number}")
        for number, text in enumerate(texts)
    ]
    return transcripts.written(path, lines)


def busy(path: Path, uses: int = 12, request: str = "Please mend the lantern.") -> str:
    """A transcript with so many uses of tools that a session's summary is called for."""
    lines: list[object] = [transcripts.user(request)]
    for number in range(uses):
        name = ("Bash", "Read", "Edit")[number % 3]
        lines.append(transcripts.assistant(transcripts.tool(name), answer=f"m{number}"))
        lines.append(transcripts.user([transcripts.result("fine")]))
    lines.append(transcripts.assistant(transcripts.text("It burns again."), answer="last"))
    return transcripts.written(path, lines)
