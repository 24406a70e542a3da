"""The page about a bank's health: what it knows, and what its buttons do."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.stage import Begin, Served, started

pytestmark = pytest.mark.slow

FACT = "The banks kettle boils a litre of water in two minutes."


@pytest.fixture
def served(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    """A project's bank with something of everything that wants to be looked at."""
    with started(tmp_path, project=True, begin=begin) as server:
        server.store(f"# Kettle\n\n{FACT}", id="kettle", tags=["kitchen"])
        server.store(f"# The kettle\n\n{FACT}", id="kettle-again", tags=["water"])
        server.store("# Links\n\nSee [[nothing-there]].", id="links")
        server.store("# Gone\n\nIn the trash.", id="gone")
        server.run("delete", "gone")
        (server.bank / "memories" / "broken.md").write_bytes(b"---\ntitle: [\n---\nbody\n")
        yield server


def looked(served: Served, work: str = "look") -> Any:
    """The bank's health after a work."""
    for _ in range(200):
        if served.post("/api/v1/health/work", {"work": work}).status_code == 200:
            break
        time.sleep(0.1)
    for _ in range(600):
        found = served.api("GET", "/health")
        if not found["under"]["work"]:
            return found
        time.sleep(0.1)
    raise AssertionError("the work never ends")


def test_an_empty_place_is_in_order(tmp_path: Path, page: Page) -> None:
    with started(tmp_path / "none") as empty:
        assert empty.api("GET", "/health")["memories"] == 0
        assert "no bank yet" in looked(empty)["under"]["said"]
        text = empty.get("/health").text
        assert text.count("There is no bank yet.") == 1
        assert "All is in order" not in text
        assert len(re.findall(r'<section id="health-\w+"[^>]* hidden>', text)) == 5


def test_the_first_sentence_does_not_contradict_what_stands_below(tmp_path: Path) -> None:
    with started(tmp_path, project=True) as server:
        file = server.work / "src" / "pool.py"
        file.parent.mkdir()
        file.write_text("size = 20\n", encoding="utf-8")
        head = "---\nid: pool\ntitle: Pool\nrelated_files: [src/pool.py]\n---\n"
        (server.bank / "memories").mkdir(exist_ok=True)
        (server.bank / "memories" / "pool.md").write_text(
            f"{head}\nThe numbers stand in [[src/pool.py]].\n", encoding="utf-8"
        )
        assert looked(server)["found"]["links"] == []
        assert "All is in order." in server.get("/health").text
        file.unlink()
        links = looked(server)["found"]["links"]
        assert [one["state"] for one in links] == ["gone"]
        page = server.get("/health").text
        assert "All is in order" not in page
        assert "Nothing is broken. 1 suggestion stands below." in page
        assert page.count('class="badge gone"') == 1
        assert "ghost:" not in page


def test_what_wants_to_be_looked_at_is_told(served: Served) -> None:
    found = looked(served)
    assert found["memories"] == 4
    assert found["trashed"] == 1
    assert found["index"]["pending"] == 0
    told = found["found"]
    assert [Path(one["path"]).name for one in told["problems"]] == ["broken.md"]
    assert told["faults"] == []
    pairs = [{one["older"]["id"], one["newer"]["id"]} for one in told["pairs"]]
    assert pairs == [{"kettle", "kettle-again"}]
    assert [(one["target"], one["state"]) for one in told["links"]] == [
        ("nothing-there", "dangling")
    ]


@pytest.mark.parametrize("work", ["sync", "vectors", "rebuild", "repair"])
def test_a_work_says_what_it_came_to(served: Served, work: str) -> None:
    found = looked(served, work)
    assert not found["under"]["bad"], found["under"]["said"]
    assert re.search(r"added|vectors made|made anew|in order", found["under"]["said"])
    assert found["found"]["faults"] == []


def test_one_work_at_a_time(served: Served) -> None:
    statuses = [
        served.post("/api/v1/health/work", {"work": "rebuild"}).status_code for _ in range(6)
    ]
    assert set(statuses) <= {200, 409}
    assert statuses[0] == 200
    assert served.get("/").status_code == 200


def test_a_file_whose_name_is_no_text_harms_nothing(served: Served) -> None:
    folder = os.fsencode(served.bank / "memories")
    with open(os.path.join(folder, b"odd-\xff.md"), "wb") as stream:
        stream.write(b"# Odd\n")
    looked(served)
    assert served.get("/health").status_code == 200


def test_a_memory_whose_last_links_do_not_count_is_listed(served: Served) -> None:
    file = served.bank / "memories" / "index.md"
    file.write_text("# Index\n\n" + "[[kettle]]\n" * 10_001, encoding="utf-8")
    reasons = {Path(one["path"]).name: one["reason"] for one in looked(served)["found"]["problems"]}
    assert "read only in part" in reasons["index.md"]
    assert reasons["index.md"] in served.get("/health").text


def test_a_pair_becomes_one_under_the_name_that_stays(served: Served) -> None:
    body = {"action": "merge", "keep": "memories/kettle-again", "others": ["memories/kettle"]}
    done = served.api("POST", "/health/settle", body)
    assert (done["status"], done["id"]) == ("merged", "kettle-again")
    found = served.api("GET", "/memories/here/memories/kettle-again")
    assert found["content"].count(FACT) == 2 or found["content"].count(FACT) == 1
    assert set(found["tags"]) == {"kitchen", "water"}
    assert served.get("/api/v1/memories/here/memories/kettle").status_code == 404
    assert looked(served)["found"]["pairs"] == []


def test_the_older_is_replaced_retired_and_restored(served: Served) -> None:
    older, newer = "memories/kettle", "memories/kettle-again"
    keep = {"action": "retire", "keep": older}
    assert served.api("POST", "/health/settle", keep)["status"] == "retired"
    assert looked(served)["found"]["pairs"] == []
    served.api("POST", "/health/settle", {**keep, "action": "restore"})
    assert len(looked(served)["found"]["pairs"]) == 1
    served.api("POST", "/health/settle", {"action": "supersede", "keep": newer, "others": [older]})
    assert looked(served)["found"]["pairs"] == []


def taken_back(served: Served, done: Any) -> None:
    """Make the calls that undo a change, as a page makes them."""
    for one in done["undo"]:
        served.api(one["method"], one["path"], one["body"])


def state(served: Served) -> dict[str, bytes]:
    """Every memory's file."""
    folder = served.bank / "memories"
    return {one.name: one.read_bytes() for one in sorted(folder.glob("*.md"))}


@pytest.mark.parametrize("action", ["merge", "supersede", "retire"])
def test_whatever_was_settled_can_be_taken_back(served: Served, action: str) -> None:
    older, newer = "memories/kettle", "memories/kettle-again"
    keep = older if action == "retire" else newer
    before = served.api("GET", "/health"), state(served)
    others = [] if action == "retire" else [older]
    done = served.api("POST", "/health/settle", {"action": action, "keep": keep, "others": others})
    assert state(served) != before[1]
    taken_back(served, done)
    now = state(served)
    if action != "retire":  # a step of life leaves its date behind
        assert now == before[1]
    assert [b"retired" in one for one in now.values()] == [False] * len(now)
    assert len(looked(served)["found"]["pairs"]) == 1


def test_three_that_are_alike_become_one_and_three_again(served: Served) -> None:
    served.store(f"# A third kettle\n\n{FACT}", id="kettle-third")
    (group,) = looked(served)["found"]["groups"]
    before = state(served)
    keep, *others = (f"{one['collection']}/{one['id']}" for one in group["memories"])
    body = {"action": "merge", "keep": keep, "others": others}
    done = served.api("POST", "/health/settle", body)
    assert len(state(served)) == len(before) - 2
    taken_back(served, done)
    assert state(served) == before
    # The same refusal for a group, and for each pair of it.
    served.api("POST", "/health/settle", {**body, "action": "ignore"})
    found = looked(served)["found"]
    assert (found["pairs"], found["groups"]) == ([], [])
    assert found["ignored"] == [sorted([keep, *others])]


def test_what_is_ignored_is_ignored_by_the_command_line_too(served: Served) -> None:
    pair = {"keep": "memories/kettle", "others": ["memories/kettle-again"]}
    assert "kettle-again" in served.run("dedupe")
    done = served.api("POST", "/health/settle", {"action": "ignore", **pair})
    assert served.run("dedupe", "--json").strip() == "[]"
    assert looked(served)["found"]["pairs"] == []
    taken_back(served, done)
    assert "kettle-again" in served.run("dedupe")
    assert len(looked(served)["found"]["pairs"]) == 1


def test_what_is_not_there_is_not_settled(served: Served) -> None:
    for body in (
        {"action": "retire", "keep": "memories/nowhere"},
        {"action": "merge", "keep": "memories/kettle", "others": ["memories/nowhere"]},
    ):
        assert served.post("/api/v1/health/settle", body).status_code == 404
    alone = {"action": "merge", "keep": "memories/kettle"}
    assert served.post("/api/v1/health/settle", alone).status_code == 400
    assert served.get("/api/v1/memories/here/memories/kettle").status_code == 200


def test_the_page_shows_it_and_its_buttons_work(page: Page, served: Served) -> None:
    page.goto("/health")
    pair = page.locator("article.pair")
    expect(pair).to_have_count(1, timeout=60_000)
    expect(page.get_by_role("cell", name="memories/broken.md")).to_be_visible()
    expect(page.get_by_role("cell", name="nothing-there")).to_be_visible()

    page.get_by_role("button", name="Ignore").click()
    expect(pair).to_have_count(0)
    page.reload()
    expect(pair).to_have_count(0)
    page.get_by_role("link", name="Show 1 that is ignored").click()
    page.get_by_role("button", name="Ignore no longer").click()
    expect(page.get_by_role("button", name="Ignore", exact=True)).to_be_visible()
    page.goto("/health")
    expect(pair).to_be_visible()

    for action, said in (
        ("Retire the older", "Retired memories/kettle"),
        ("The newer one replaces it", "Replaced: memories/kettle"),
        ("Merge into one", "Merged into memories/kettle"),
    ):
        page.get_by_role("button", name=action).click()
        expect(page.locator("#toasts")).to_contain_text(said)
        expect(page.get_by_text("No fact seems to be stated twice.")).to_be_visible(timeout=60_000)
        page.locator(".toast", has_text=said).get_by_role("button", name="Undo").click()
        expect(pair).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Merge into one").click()
    expect(page.get_by_text("No fact seems to be stated twice.")).to_be_visible(timeout=60_000)

    page.get_by_role("button", name="Restore gone").click()
    expect(page.locator("#toasts")).to_contain_text("Restored gone")
    assert (served.bank / "memories" / "gone.md").exists()
    page.locator(".toast", has_text="Restored gone").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Restore gone")).to_be_visible()
    page.get_by_role("button", name="Empty the trash").click()
    page.get_by_role("button", name="Keep it").click()
    assert served.api("GET", "/health")["trashed"] >= 3
    page.get_by_role("button", name="Empty the trash").click()
    page.get_by_role("button", name="Destroy it").click()
    expect(page.get_by_text("The trash is empty.")).to_be_visible()


def test_a_work_that_was_begun_is_shown_to_its_end(page: Page, served: Served) -> None:
    looked(served)
    page.goto("/health")
    page.get_by_role("button", name="Rebuild the index").click()
    expect(page.locator(".going")).to_contain_text("The index was made anew", timeout=60_000)
    expect(page.get_by_role("button", name="Rebuild the index")).to_be_enabled()


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_fits_a_phone(page: Page, served: Served, colours: Any) -> None:
    looked(served)
    page.emulate_media(color_scheme=colours)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/health")
    expect(page.locator("article.pair")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_own_bank_has_its_numbers_and_its_trash_inside_a_project(
    page: Page, served: Served
) -> None:
    for name in ("mine", "spare"):
        served.api("POST", "/memories/global", {"text": f"# {name}", "id": name})
        served.api("DELETE", f"/memories/global/memories/{name}")
    page.goto("/health")
    expect(page.get_by_role("button", name="Restore gone")).to_be_visible()
    expect(page.get_by_role("button", name="Restore mine")).to_have_count(0)
    page.get_by_role("link", name="Yours", exact=True).click()
    expect(page.get_by_role("link", name="Yours", exact=True)).to_have_attribute(
        "aria-current", "page"
    )
    expect(page.get_by_role("button", name="Restore gone")).to_have_count(0)
    expect(page.get_by_role("button", name="Rebuild the index")).to_be_hidden()
    page.get_by_role("button", name="Restore mine").click()
    expect(page.locator("#toasts")).to_contain_text("Restored mine")
    expect(page.get_by_role("button", name="Restore mine")).to_have_count(0)
    assert (served.home / ".retain" / "memories" / "mine.md").exists()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Restore mine")).to_be_visible()
    page.get_by_role("button", name="Empty the trash").click()
    page.get_by_role("button", name="Destroy it").click()
    expect(page.get_by_text("The trash is empty.")).to_be_visible()
    assert served.api("GET", "/trash/global")["trashed"] == []
    assert [one["id"] for one in served.api("GET", "/trash/here")["trashed"]] == ["gone"]


def test_a_bank_that_there_is_not_has_no_health(served: Served) -> None:
    assert served.get("/health", bank="odd").status_code == 404


def test_one_bank_alone_is_no_choice(tmp_path: Path, begin: Begin) -> None:
    with started(tmp_path / "one", begin=begin) as server:
        server.store("# Tea", id="tea")
        text = server.get("/health", bank="global").text
        assert 'aria-label="Bank"' not in text
        assert 'data-scope="here"' in text
