"""Memories moved, merged and tagged: within a bank, into the other one, and back again."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.conftest import command
from tests.guard_samples import TOKENS
from tests.records.filing import draft
from tests.web import stage
from tests.web.stage import Served, Trouble

PLAIN = {"RETAIN_RECALL_EMBEDDER": "none"}
TYPED = """---
id: db
title: Use Postgres
type: decision
tags: [db]
content:
  status: accepted
  context: one writer is not enough
  decision: Postgres 17
  rationale: [transactions]
---
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A project's bank, and the person's own beside it."""
    with stage.started(tmp_path_factory.mktemp("moving"), project=True, env=PLAIN) as server:
        (server.bank / "memories").mkdir(parents=True)
        yield server


def taken_back(served: Served, done: Any) -> None:
    """Make the calls that undo a change, as a page makes them."""
    for one in done["undo"]:
        served.api(one["method"], one["path"], one["body"])


def state(root: Path) -> dict[str, bytes]:
    """Every memory's file, by where it is."""
    return {
        str(one.relative_to(root)): one.read_bytes()
        for one in sorted(root.rglob("*"))
        if one.suffix in (".md", ".json")
        and not any(part.startswith(".") for part in one.relative_to(root).parts)
    }


def both(served: Served) -> list[dict[str, bytes]]:
    return [state(served.bank), state(served.home / ".retain")]


def test_a_memory_goes_to_the_other_bank_and_comes_back(served: Served) -> None:
    served.store("# Tea\n\nSee [[tea-pot]].", id="tea", tags=["hot", "green"], type="plan")
    served.store("# Tea pot\n\nGoes with [[tea]].", id="tea-pot")
    before = both(served)
    done = served.api("POST", "/memories/here/memories/tea/move", {"scope": "global"})
    assert (done["scope"], done["status"]) == ("global", "moved")
    moved = served.api("GET", "/memories/global/memories/tea")
    assert (moved["tags"], moved["type"]) == (["hot", "green"], "plan")
    assert moved["content"].strip() == "# Tea\n\nSee [[tea-pot]]."
    assert served.get("/api/v1/memories/here/memories/tea").status_code == 404
    assert served.get(done["page"]).status_code == 200
    assert served.get("/memory/here/memories/tea-pot").status_code == 200
    taken_back(served, done)
    assert both(served)[0] == before[0]
    assert served.get("/api/v1/memories/global/memories/tea").status_code == 404


@pytest.mark.slow
def test_a_page_moves_its_memory_to_the_other_bank_and_back(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("404")  # it may have asked for its memory just before that went
    served.store("# Kettle\n\nWhistles.", id="kettle")
    page.goto("/memory/here/memories/kettle")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Move or rename").click()
    page.get_by_label("Bank").select_option("global")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page).to_have_url(re.compile("/memory/global/memories/kettle$"))
    page.locator(".toast", has_text="Moved.").get_by_role("button", name="Undo").click()
    expect(page).to_have_url(re.compile("/memory/here/memories/kettle$"))
    assert served.get("/api/v1/memories/global/memories/kettle").status_code == 404


@pytest.mark.parametrize("scope", ["here", "global"])
def test_the_other_bank_gets_the_very_bytes(served: Served, scope: str) -> None:
    roots = {"here": served.bank, "global": served.home / ".retain"}
    other = "global" if scope == "here" else "here"
    text = (
        b"---\r\ncreated_by: Ada # long ago\r\nodd:   [a,  b]\r\n---\r\n# Hers\r\n\r\nAs it is.  "
    )
    file = roots[scope] / "memories" / f"hers-{scope}.md"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(text)
    path = f"/memories/{scope}/memories/hers-{scope}/move"
    done = served.api("POST", path, {"scope": other})
    assert (roots[other] / "memories" / file.name).read_bytes() == text
    assert not file.exists()
    taken_back(served, done)
    assert file.read_bytes() == text


def test_another_name_changes_nothing_but_the_name(served: Served) -> None:
    file = served.bank / "memories" / "old-name.md"
    file.write_bytes(b"---\nid: old-name\ncreated_by: Ada\n---\n# It\n")
    place = {"scope": "global", "id": "new-name"}
    served.api("POST", "/memories/here/memories/old-name/move", place)
    made = served.home / ".retain" / "memories" / "new-name.md"
    assert made.read_bytes() == b"---\nid: new-name\ncreated_by: Ada\n---\n# It\n"


def test_a_secret_does_not_go_to_a_bank_that_takes_none(served: Served) -> None:
    _, secret = TOKENS[0]
    file = served.bank / "memories" / "secret.md"
    file.write_text(f"# Secret\n\n{secret}\n", encoding="utf-8")
    before = both(served)
    answer = served.post("/api/v1/memories/here/memories/secret/move", {"scope": "global"})
    assert answer.status_code == 400
    assert both(served) == before


def test_a_name_that_is_taken_there_changes_nothing(served: Served) -> None:
    served.store("# Mine\n\nOf the project.", id="same")
    served.api("POST", "/memories/global", {"text": "# Own\n\nOf the person.", "id": "same"})
    before = both(served)
    place = {"scope": "global"}
    assert served.post("/api/v1/memories/here/memories/same/move", place).status_code == 409
    assert both(served) == before
    other = {"scope": "global", "id": "same-again", "collection": "kept"}
    done = served.api("POST", "/memories/here/memories/same/move", other)
    assert (done["collection"], done["id"]) == ("kept", "same-again")
    taken_back(served, done)
    assert both(served)[0] == before[0]


def test_a_typed_memory_keeps_its_fields(served: Served) -> None:
    file = served.bank / "decisions" / "db.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text(TYPED, encoding="utf-8")
    done = served.api("POST", "/memories/here/decisions/db/move", {"scope": "global"})
    source = served.api("GET", "/memories/global/decisions/db")["source"]
    assert "context: one writer is not enough" in source
    taken_back(served, done)
    assert file.read_text(encoding="utf-8") == TYPED


def test_what_links_to_a_memory_follows_it_into_another_collection(served: Served) -> None:
    served.store("# Harbour\n\nDeep.", id="harbour")
    served.store("# Ship\n\nLies in [[harbour]].", id="ship")
    done = served.api("POST", "/memories/here/memories/harbour/move", {"collection": "places"})
    around = served.api("GET", "/memories/here/memories/ship/links")
    assert "places/harbour" in json.dumps(around)
    taken_back(served, done)
    assert "memories/harbour" in json.dumps(served.api("GET", "/memories/here/memories/ship/links"))


def test_several_become_one_and_several_again(served: Served) -> None:
    for name in ("one", "two", "three"):
        served.store(f"# {name}\n\nSee [[{name}-more]].", id=name, tags=[name])
    before = state(served.bank)
    body = {"sources": [f"memories/{one}" for one in ("one", "two", "three")], "text": "# All"}
    for taken in ("one", "two"):  # a name that is there already
        assert served.post("/api/v1/merges/here", {**body, "id": taken}).status_code == 409
    assert state(served.bank) == before
    done = served.api("POST", "/merges/here", {**body, "id": "all"})
    merged = served.api("GET", "/memories/here/memories/all")
    assert set(merged["tags"]) == {"one", "two", "three"}
    assert all(f"{one}-more" in merged["source"] for one in ("one", "two", "three"))
    taken_back(served, done)
    assert state(served.bank) == before


@pytest.mark.slow
def test_a_store_of_records_has_its_undo_of_a_successor(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("npm", "pnpm"):
        at = f".claude/memory/decisions/{name}.json"
        subprocess.run(
            [*command(), "record", "write", "--action", "create", "--category", "decision"]
            + ["--input", "-", "--target", at],
            input=json.dumps(draft(title=f"Use {name}")).encode(),
            env=stage.world(tmp_path),
            cwd=work,
            check=True,
            capture_output=True,
        )
    root = work / ".claude" / "memory"
    with stage.started(tmp_path, env=PLAIN) as server:
        before = {name: json.loads(data) for name, data in state(root).items() if "/" in name}
        assert set(before) == {"decisions/npm.json", "decisions/pnpm.json"}
        done = server.api(
            "POST", "/memories/here/decisions/npm/supersede", {"by": "decisions/pnpm"}
        )
        assert b"superseded_by" in state(root)["decisions/npm.json"]
        assert "Superseded by" in server.get("/memory/here/decisions/npm").text
        taken_back(server, done)
        for name, old in before.items():
            now = json.loads(state(root)[name])
            assert now == old
            assert server.get(f"/memory/here/{name.removesuffix('.json')}").status_code == 200
        assert "Superseded by" not in server.get("/memory/here/decisions/npm").text
        assert server.run("record", "index", "--validate")
        # The first step only: what was done before is not dropped with it.
        given = {"exact": True}
        path = "/api/v1/memories/here/decisions/npm/versions/v1/restore"
        assert server.post(path, given).status_code == 400
