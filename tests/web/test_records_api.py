"""Typed memories over HTTP: stored, changed field by field, refused field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web import stage
from tests.web.stage import Served

pytestmark = pytest.mark.slow

PLAIN = {"RETAIN_RECALL_EMBEDDER": "none"}
DECISION = {
    "status": "accepted",
    "context": "One writer is not enough",
    "decision": "Postgres 17",
    "rationale": ["transactional DDL", "we know it"],
}
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # of no account
MARKDOWN = """---
id: {name}
title: Use Postgres  # as we said
type: decision
tags: [storage]
created_at: 2026-11-01T08:00:00Z
mine: [kept, "as is"]
content:
  status: accepted
  context: One writer is not enough
  decision: Postgres 17
  rationale: [we know it]
---

Below it is **text**,\r
of two lines.
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with stage.started(tmp_path_factory.mktemp("records"), project=True, env=PLAIN) as server:
        yield server


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for a store of JSON records."""
    home = tmp_path_factory.mktemp("store")
    (home / "work" / ".claude" / "memory").mkdir(parents=True)
    with stage.started(home, env=PLAIN) as server:
        yield server


def written(served: Served, name: str, text: str = MARKDOWN) -> Path:
    path = served.bank / "decisions" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.replace("{name}", name).encode())
    return path


def api(name: str) -> str:
    return f"/memories/here/decisions/{name}"


def shown(served: Served, name: str) -> dict[str, Any]:
    found: dict[str, Any] = served.api("GET", api(name))
    return found


def taken_back(served: Served, done: dict[str, Any]) -> None:
    for one in done["undo"]:
        served.api(one["method"], one["path"], one["body"])


def test_a_record_is_stored_as_the_command_line_stores_it(served: Served) -> None:
    given = {"category": "decision", "content": DECISION, "title": "Use Postgres", "tags": ["SQL"]}
    done = served.api("POST", "/records/here", {**given, "id": "by-page"})
    pairs = [
        f"--field={name}={one}"
        for name, value in DECISION.items()
        for one in (value if isinstance(value, list) else [value])
    ]
    served.run("new", "decision", "--title=Use Postgres", "--tags=SQL", "--id=by-hand", *pairs)
    page, hand = (
        (served.bank / "decisions" / f"{name}.md").read_text(encoding="utf-8").splitlines()
        for name in ("by-page", "by-hand")
    )
    apart = [(one, two) for one, two in zip(page, hand, strict=True) if one != two]
    assert {one.partition(":")[0] for one, _ in apart} <= {"id", "created_at", "updated_at"}
    assert done["page"] == "/memory/here/decisions/by-page"
    taken_back(served, done)
    assert not (served.bank / "decisions" / "by-page.md").exists()


def test_each_fault_is_told_with_its_field_and_nothing_is_stored(served: Served) -> None:
    given = {"category": "decision", "content": {"status": "maybe", "decision": "x"}}
    answer = served.post("/api/v1/records/here", {**given, "id": "never"})
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert [one["field"] for one in error["faults"]] == [
        "content.status",
        "content.context",
        "content.rationale",
    ]
    assert error["faults"][0]["got"] == '"maybe"'
    assert "proposed" in error["faults"][0]["expected"]
    assert not (served.bank / "decisions" / "never.md").exists()


def test_a_category_that_is_none_is_refused(served: Served) -> None:
    answer = served.post("/api/v1/records/here", {"category": "hope", "content": {"a": 1}})
    assert answer.status_code == 400
    assert "decision" in answer.json()["error"]["hint"]


def test_a_name_that_is_taken_is_not_written_over(served: Served) -> None:
    path = written(served, "taken")
    before = path.read_bytes()
    given = {"category": "decision", "content": DECISION, "id": "taken"}
    answer = served.post("/api/v1/records/here", given)
    assert answer.status_code == 422
    assert "exists already" in answer.json()["error"]["message"]
    assert path.read_bytes() == before


def test_only_what_is_named_changes(served: Served) -> None:
    path = written(served, "field")
    changes = {"content": {"decision": "Postgres 18", "consequences": ["a server"]}}
    done = served.api("PUT", f"{api('field')}/content", changes)
    assert done["status"] == "updated"
    text = path.read_bytes().decode()
    assert text.endswith("---\n\nBelow it is **text**,\r\nof two lines.\n")
    assert "title: Use Postgres  # as we said\n" in text
    assert 'mine: [kept, "as is"]\n' in text
    content = shown(served, "field")["metadata"]["content"]
    assert content == {
        "status": "accepted",
        "context": "One writer is not enough",
        "decision": "Postgres 18",
        "rationale": ["we know it"],
        "consequences": ["a server"],
    }
    noted = shown(served, "field")["metadata"]["changes"]
    assert {one["field"] for one in noted} == {"content.decision", "content.consequences"}
    taken_back(served, done)
    assert shown(served, "field")["metadata"]["content"]["decision"] == "Postgres 17"


def test_a_field_that_is_null_is_taken_out(served: Served) -> None:
    written(served, "out")
    put = f"{api('out')}/content"
    served.api("PUT", put, {"content": {"consequences": ["x"]}})
    served.api("PUT", put, {"content": {"consequences": None}})
    assert "consequences" not in shown(served, "out")["metadata"]["content"]
    answer = served.put(f"/api/v1{put}", {"content": {"decision": None}})
    assert answer.json()["error"]["faults"][0]["field"] == "content.decision"
    assert shown(served, "out")["metadata"]["content"]["decision"] == "Postgres 17"


def test_what_was_not_seen_is_not_changed(served: Served) -> None:
    path = written(served, "stale")
    seen = shown(served, "stale")["hash"]
    served.api("PUT", f"{api('stale')}/content", {"content": {"context": "theirs"}})
    before = path.read_bytes()
    given = {"content": {"context": "mine"}, "expect": seen}
    assert served.put(f"/api/v1{api('stale')}/content", given).status_code == 409
    assert path.read_bytes() == before


def test_title_and_tags_are_mended_and_that_is_said(served: Served) -> None:
    written(served, "heads")
    done = served.api(
        "PUT", f"{api('heads')}/content", {"title": " Now -> then ", "tags": ["B", "a", "b"]}
    )
    found = shown(served, "heads")
    assert (found["title"], found["tags"]) == ("Now - then", ["a", "b"])
    assert any("mended: title" in one for one in done["warnings"])
    served.api("PUT", f"{api('heads')}/content", {"tags": [], "title": ""})
    assert shown(served, "heads")["tags"] == ["untagged"]
    assert "title" not in shown(served, "heads")["metadata"]


def test_nothing_named_changes_nothing(served: Served) -> None:
    path = written(served, "same")
    before = path.read_bytes()
    done = served.api("PUT", f"{api('same')}/content", {"content": {"status": "accepted"}})
    assert (done["status"], done["undo"]) == ("unchanged", [])
    assert path.read_bytes() == before


def test_a_secret_is_looked_for_in_what_is_given_and_in_nothing_else(served: Served) -> None:
    path = written(served, "secret", MARKDOWN.replace("One writer is not enough", KEY))
    done = served.api("PUT", f"{api('secret')}/content", {"content": {"decision": f"use {KEY}"}})
    assert any("secret" in one for one in done["warnings"])
    text = path.read_text(encoding="utf-8")
    assert f"context: {KEY}" in text
    assert "decision: use [REDACTED" in text
    answer = served.api(
        "POST", "/records/here",
        {"category": "decision", "content": {**DECISION, "context": KEY}, "id": "kept"},
    )  # fmt: skip
    assert any("secret" in one for one in answer["warnings"])
    assert KEY not in (served.bank / "decisions" / "kept.md").read_text(encoding="utf-8")


def test_what_has_no_fields_is_refused(served: Served) -> None:
    served.store("# Tea", id="tea", collection="decisions")
    assert served.put(f"/api/v1{api('tea')}/content", {"content": {"a": 1}}).status_code == 400
    path = written(served, "broken", "---\ncontent: [\n---\nx\n")
    answer = served.put(f"/api/v1{api('broken')}/content", {"content": {"a": 1}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unreadable")
    assert path.read_bytes() == b"---\ncontent: [\n---\nx\n"
    written(served, "strange", MARKDOWN.replace("type: decision", "type: hope"))
    assert served.put(f"/api/v1{api('strange')}/content", {"content": {}}).status_code == 400


def test_a_store_of_json_is_written_in_json_and_keeps_what_it_has(other: Served) -> None:
    given = {"category": "decision", "content": DECISION, "title": "Use Postgres"}
    done = other.api("POST", "/records/here", given)
    path = other.work / ".claude" / "memory" / "decisions" / "use-postgres.json"
    before = path.read_bytes()
    assert json.loads(before)["content"] == DECISION
    put = "/memories/here/decisions/use-postgres/content"
    changed = other.api("PUT", put, {"content": {"status": "deprecated"}, "expect": done["hash"]})
    after = json.loads(path.read_bytes())
    assert after["content"] == {**DECISION, "status": "deprecated"}
    assert after["times_updated"] == 1
    assert "use-postgres" in (path.parent.parent / "index.md").read_text(encoding="utf-8")
    taken_back(other, changed)
    assert json.loads(path.read_bytes())["content"] == DECISION
    assert (
        other.put(f"/api/v1{put}", {"title": ""}).json()["error"]["faults"][0]["field"] == "title"
    )


@pytest.mark.parametrize("kind", ["served", "other"])
def test_steps_of_a_record_are_taken_back_unless_another_changed_it(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server: Served = request.getfixturevalue(kind)
    given = {"category": "decision", "content": DECISION, "title": "Steps", "id": "steps"}
    server.api("POST", "/records/here", given)
    moved = server.api("POST", f"{api('steps')}/move", {"id": "walk"})
    taken = [
        server.api("POST", f"{api('walk')}/{step}", {})
        for step in ("archive", "unarchive", "retire")
    ]
    for done in reversed(taken):
        taken_back(server, done)
    assert shown(server, "walk")["status"] == "active"
    again = server.api("POST", f"{api('walk')}/archive", {})
    server.run("update", "walk", "--title", "Changed elsewhere")
    for done in (again, moved):
        (one,) = done["undo"]
        answer = server.ask(one["method"], f"/api/v1{one['path']}", json=one["body"])
        assert answer.status_code == 409
    found = shown(server, "walk")
    assert (found["title"], found["status"]) == ("Changed elsewhere", "archived")
