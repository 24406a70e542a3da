"""The timeline: what happened, by whom and when, and a year of it at a glance."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web import stage
from tests.web.stage import Served, Trouble

NOW = datetime.now(UTC)
HOSTILE = "<script>alert(1)</script>"


def day(ago: int) -> str:
    """A day, as the server's calendar has it: the tests run where the server does."""
    return (NOW - timedelta(days=ago)).astimezone().date().isoformat()


def memory(bank: Path, name: str, ago: int, author: str, more: str = "", title: str = "") -> None:
    when = (NOW - timedelta(days=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    (bank / "notes").mkdir(exist_ok=True)
    (bank / "notes" / f"{name}.md").write_text(
        f"---\nid: {name}\ntitle: '{title or name}'\ncreated_at: {when}\nupdated_at: {when}\n"
        f"created_by: '{author}'\n{more}---\n\nText of {name}.\n",
        encoding="utf-8",
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Seventy old memories of an agent, one of a person, one of a chat, and one that is gone."""
    with stage.started(tmp_path_factory.mktemp("web"), project=True) as server:
        for number in range(70):
            memory(server.bank, f"old-{number}", 40, "Claude")
        memory(server.bank, "fresh", 2, "sam")
        memory(server.bank, "said", 3, "some-model", "source: session:20261101-001\n")
        memory(server.bank, "ancient", 800, "sam")
        memory(server.bank, "hostile", 5, HOSTILE, title=HOSTILE)
        server.run("put", "-", "--id", "doomed", input="# Doomed\n")
        server.run("delete", "doomed")
        yield server


def told(served: Served, **query: Any) -> Any:
    return served.api("GET", "/timeline", **query)


def test_timeline_tells_the_newest_first_and_by_whom(served: Served) -> None:
    found = told(served, limit=500)
    assert found["events"][0]["kind"] == "deleted"
    whens = [one["when"] for one in found["events"]]
    assert whens == sorted(whens, reverse=True)
    by = {one["id"]: (one["by"], one["who"]) for one in found["events"]}
    assert by["old-1"] == ("agent", "Claude")
    assert by["fresh"] == ("person", "sam")
    assert by["said"] == ("chat", "some-model")
    assert found["by"] == {"agent": 70, "person": 3, "chat": 1}
    assert found["kinds"]["deleted"] == 1


def test_days_of_the_last_year_are_counted_and_earlier_ones_are_only_listed(served: Served) -> None:
    found = told(served, limit=500)
    assert found["days"][day(40)] == 70
    assert found["days"][day(2)] == 1
    assert day(800) not in found["days"]
    assert any(one["id"] == "ancient" for one in found["events"])


def test_pages_follow_each_other_without_a_gap(served: Served) -> None:
    first, second = told(served, limit=50), told(served, limit=50, offset=50)
    every = told(served, limit=500)
    assert first["total"] == second["total"] == len(every["events"])
    assert first["events"] + second["events"] == every["events"]


@pytest.mark.parametrize(
    "query, expected",
    [
        ({"who": "sam"}, {"fresh", "ancient"}),
        ({"by": "chat"}, {"said"}),
        ({"kind": "deleted"}, {"doomed"}),
        ({"day": day(2)}, {"fresh"}),
        ({"who": "sam", "day": day(2)}, {"fresh"}),
        ({"who": "' OR 1=1 --"}, set()),
        ({"scope": "global"}, set()),
    ],
)
def test_filter_leaves_what_fits(query: dict[str, str], expected: set[str], served: Served) -> None:
    assert {one["id"] for one in told(served, **query)["events"]} == expected


@pytest.mark.parametrize(
    "query", ["day=yesterday", "kind=odd", "by=me", "limit=0", "offset=-1", "odd=1"]
)
def test_what_is_not_understood_is_refused(query: str, served: Served) -> None:
    assert served.get(f"/api/v1/timeline?{query}").status_code == 400
    assert served.get(f"/timeline?{query}").status_code == 400


def test_page_works_without_scripts(served: Served) -> None:
    text = served.get("/timeline", by="agent").text
    assert ">Older</a>" in text
    assert f'data-day="{day(40)}"' in text
    assert f'data-day="{day(2)}"' not in text
    assert HOSTILE not in served.get("/timeline").text


@pytest.mark.slow
def test_looking_at_an_empty_bank_changes_nothing(tmp_path: Path) -> None:
    with stage.started(tmp_path) as server:
        before = sorted(server.home.rglob("*"))
        assert told(server)["events"] == []
        assert "Nothing has happened yet" in server.get("/timeline").text
        assert sorted(server.home.rglob("*")) == before


# In a browser


@pytest.mark.slow
def test_day_is_chosen_in_the_heat_map_and_let_go_again(page: Page) -> None:
    page.goto("/timeline")
    cell = page.locator(f'a[data-day="{day(2)}"]')
    expect(cell).to_have_accessible_name(f"{named(2)}: 1 event")
    cell.click()
    expect(page.locator("#timeline-events [data-item]")).to_have_count(1)
    expect(page.locator("#timeline-events")).to_contain_text("fresh")
    expect(cell).to_have_attribute("aria-current", "date")
    page.wait_for_url(f"**/timeline?day={day(2)}")
    cell.click()
    page.wait_for_url("**/timeline")


def named(ago: int) -> str:
    at = datetime.fromisoformat(day(ago))
    return f"{at:%A}, {at.day} {at:%b} {at.year}"


@pytest.mark.slow
def test_keys_walk_through_the_days(page: Page) -> None:
    page.goto("/timeline")
    assert page.locator("#timeline-heat a[tabindex='0']").count() == 1
    page.locator(f'a[data-day="{day(2)}"]').focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.day") == day(3)
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.dataset.day") == day(5)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#timeline-events")).to_contain_text("said")
    assert page.evaluate("document.activeElement.dataset.day") == day(3)


@pytest.mark.slow
def test_filters_act_at_once(page: Page) -> None:
    page.goto("/timeline")
    page.get_by_label("By").select_option("person")
    expect(page.locator("#timeline-events [role=status]")).to_contain_text("3 events")
    page.get_by_label("Who").select_option("sam")
    expect(page.locator("#timeline-events [role=status]")).to_contain_text("2 events")


@pytest.mark.slow
def test_a_change_while_a_filter_is_fetched_asks_for_the_same(page: Page, served: Served) -> None:
    with page.expect_response("**/api/v1/events"):
        page.goto("/timeline")
    page.route("**/timeline?by=agent", lambda _: None)  # an answer that takes its time
    with page.expect_request("**/timeline?by=agent"):
        page.get_by_label("By").select_option("agent")
    with page.expect_request("**/timeline*") as asked:
        memory(served.bank, "meanwhile", 1, "Claude")
    assert asked.value.url.endswith("/timeline?by=agent")
    page.unroute("**/timeline?by=agent")
    expect(page.locator("#timeline-events")).to_contain_text("meanwhile")
    expect(page.locator("#timeline-events")).not_to_contain_text("sam")
    (served.bank / "notes" / "meanwhile.md").unlink()


@pytest.mark.slow
def test_a_filter_that_is_refused_is_said_and_tried_again_with_the_next_change(
    page: Page, trouble: Trouble
) -> None:
    trouble.expects("503")
    page.goto("/timeline")
    page.route("**/timeline?by=person", lambda route: route.fulfill(status=503))
    page.get_by_label("By").select_option("person")
    expect(page.locator("#toasts")).to_contain_text("That could not be shown.")
    page.unroute("**/timeline?by=person")
    page.evaluate("document.dispatchEvent(new CustomEvent('retain:memories'))")
    expect(page.locator("#timeline-events [role=status]")).to_contain_text("3 events")


@pytest.mark.slow
def test_event_leads_to_its_memory(page: Page) -> None:
    page.goto(f"/timeline?day={day(2)}")
    page.get_by_role("link", name="fresh").click()
    page.wait_for_url("**/memory/here/notes/fresh")


@pytest.mark.slow
def test_what_happens_appears_while_one_looks(page: Page, served: Served) -> None:
    page.goto("/timeline?kind=learned")
    expect(page.locator("#timeline-events")).to_contain_text("fresh")
    (served.bank / "notes" / "just-now.md").write_text("# Just now\n", encoding="utf-8")
    expect(page.locator("#timeline-events")).to_contain_text("Just now")


@pytest.mark.slow
def test_phone_has_the_newest_weeks_in_sight_and_nothing_sticks_out(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/timeline")
    expect(page.locator(f'a[data-day="{day(2)}"]')).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.slow
def test_a_change_leads_to_what_it_changed(tmp_path: Path) -> None:
    with stage.started(tmp_path, env={"RETAIN_RECALL_EMBEDDER": "none"}) as server:
        server.store("# First\n")  # makes the bank
        memory(server.bank, "tea", 3, "sam")
        for text in ("Black.", "White."):
            server.api("PUT", "/memories/here/notes/tea", {"text": text})
        last, first = (one for one in told(server)["events"] if one["kind"] == "changed")
        assert "newer=v2" in first["diff"]
        assert "newer=current" in last["diff"]
        shown = server.get(first["diff"]).text
        assert "Black" in shown
        assert "White" not in shown
        assert f'href="{last["diff"].replace("&", "&amp;")}"' in server.get("/timeline").text
        # The history compares any version with the one after it, too.
        assert "?older=v1&amp;newer=v2" in server.get("/memory/here/notes/tea/history").text
