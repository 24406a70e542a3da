"""What changes shows by itself, and takes nothing from who reads, chooses or types meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web import stage
from tests.web.stage import Begin, Served, Trouble

pytestmark = pytest.mark.slow

TEA = "/memory/here/memories/tea"
PLAIN = {"RETAIN_RECALL_EMBEDDER": "none"}
EVENTS = "**/api/v1/events"
SELECT = """(selector) => {
  const range = document.createRange();
  range.selectNodeContents(document.querySelector(selector));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}"""
SELECTED = "getSelection().toString()"


@pytest.fixture
def served(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    """A server of its own for each test, with two memories that link to each other."""
    with stage.started(tmp_path / "web", env=PLAIN, begin=begin) as server:
        server.store("# Green tea\n\nGoes with [[bread]].\n\nServed hot.", id="tea", tags=["hot"])
        server.store("# Bread\n\nGoes with [[tea]].", id="bread", tags=["food"])
        yield server


def _live(page: Page, path: str) -> None:
    """Open a page that hears of changes from now on."""
    with page.expect_response(EVENTS):
        page.goto(path)


def _linked(page: Page, served: Served, name: str) -> None:
    """Another memory that links to this one is stored, and shown beside it."""
    served.store(f"# {name}\n\nSee [[tea]].")
    expect(page.locator(".around a", has_text=name)).to_be_visible()


# Nothing is taken from the person


def test_a_memory_keeps_its_focus_and_selection_when_another_changes(
    page: Page, served: Served
) -> None:
    _live(page, TEA)
    link = page.locator(".prose a", has_text="bread")
    link.focus()
    page.evaluate(SELECT, ".prose p:last-child")
    page.get_by_label("Add a tag").evaluate("(field) => { field.value = 'half a ta'; }")
    _linked(page, served, "Cake")
    expect(link).to_be_focused()
    assert page.evaluate(SELECTED) == "Served hot."
    expect(page.get_by_label("Add a tag")).to_have_value("half a ta")


def test_a_range_that_is_chosen_begins_where_it_began_though_the_list_changed(
    page: Page, served: Served
) -> None:
    _live(page, "/?sort=title")
    boxes = page.locator("#results [data-item] input[type=checkbox]")
    boxes.first.click()
    served.store("# Cake\n\nSweet.")
    expect(page.locator("#results h2")).to_have_count(3)
    boxes.last.click(modifiers=["Shift"])
    expect(page.locator("#chosen")).to_have_text("3 chosen")


def test_a_list_keeps_half_a_date_the_focus_and_what_is_chosen(page: Page, served: Served) -> None:
    _live(page, "/")
    row = page.locator("#results [data-item]", has_text="Green tea")
    row.get_by_role("checkbox").check()
    page.locator("#since").focus()
    page.keyboard.type("11")  # the month; as long as there is no more, no script can read it
    served.store("# Cake\n\nSweet.")
    expect(page.locator("#results h2")).to_have_count(3)
    expect(page.locator("#since")).to_be_focused()
    page.keyboard.type("152026")
    expect(page.locator("#since")).to_have_value("2026-11-15")
    expect(page.get_by_role("checkbox", checked=True)).to_have_count(1)
    expect(row.get_by_role("checkbox")).to_be_checked()
    row.get_by_role("link", name="Green tea").focus()
    page.evaluate(SELECT, "#results [data-id=tea] .passage")
    served.api("DELETE", "/memories/here/memories/bread")
    expect(page.locator("#results h2")).to_have_count(2)
    expect(row.get_by_role("link", name="Green tea")).to_be_focused()
    assert "Served hot." in page.evaluate(SELECTED)
    # What is applied and let go again is no longer in the field.
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("link", name="Show everything again").click()
    expect(page.locator("#since")).to_have_value("")


def test_what_had_the_focus_and_is_gone_leaves_it_to_what_follows(
    page: Page, served: Served
) -> None:
    _live(page, "/?sort=title")
    page.locator("#results a", has_text="Bread").focus()
    served.api("DELETE", "/memories/here/memories/bread")
    expect(page.locator("#results h2")).to_have_count(1)
    expect(page.locator("#results a", has_text="Green tea")).to_be_focused()


def test_health_keeps_the_focus(page: Page, served: Served) -> None:
    for name in ("cake", "jam"):
        served.store(f"# {name}", id=name)
        served.api("DELETE", f"/memories/here/memories/{name}")
    _live(page, "/health")
    page.get_by_role("button", name="Restore cake").focus()
    served.api("DELETE", "/memories/here/memories/bread")
    expect(page.get_by_role("button", name="Restore bread")).to_be_visible()
    expect(page.get_by_role("button", name="Restore cake")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Restore cake")).to_have_count(0)
    expect(page.locator("#health-trash [data-item] button:focus")).to_have_count(1)


# A memory's history


LINES = [f"Line {number} of the recipe." for number in range(80)]
HISTORY = f"{TEA}/history"


def _written(served: Served, *lines: str) -> str:
    """Give the memory a text, through the door of programs; its new hash."""
    path = "/memories/here/memories/tea"
    found: str = served.api("PUT", path, {"text": "\n".join(lines)})["hash"]
    return found


def _turned(lines: list[str]) -> list[str]:
    """The same with every fourth line another, so that all of them are shown when compared."""
    return [f"Now {line}" if at % 4 == 0 else line for at, line in enumerate(lines)]


def test_a_history_shows_what_is_saved_and_takes_nothing_from_its_reader(
    page: Page, served: Served
) -> None:
    _written(served, *LINES)
    _written(served, *_turned(LINES))
    _live(page, f"{HISTORY}?older=v2")
    page.get_by_role("link", name="beside v2").focus()
    line = page.locator(".compared tr", has_text="Line 41 of").first.locator(".old .line")
    line.scroll_into_view_if_needed()
    line.evaluate("(one) => getSelection().selectAllChildren(one)")
    before, place = page.evaluate("scrollY"), line.bounding_box()
    assert before > 0
    assert place
    # With an editor: no version is kept, and the text is another.
    file = served.bank / "memories" / "tea.md"
    text = file.read_text(encoding="utf-8").replace("Line 1 of", "Line one of")
    file.write_text(text.replace("Line 2 of", "A new line.\nLine 2 of"), encoding="utf-8")
    expect(page.locator(".compared ins", has_text="one").first).to_be_attached()
    hash_now = _written(served, "A first line.", *_turned(LINES))
    expect(page.get_by_role("link", name="beside v3")).to_be_attached()
    expect(page.locator(".compared .new", has_text="A first line.")).to_be_attached()
    assert page.evaluate(SELECTED) == "Line 41 of the recipe."
    after = line.bounding_box()
    assert after
    assert abs(after["y"] - place["y"]) < 40  # a line that came above it is not scrolled to
    expect(page.get_by_role("link", name="beside v2")).to_be_focused()
    expect(page.locator(".versions a[aria-current]")).to_have_attribute(
        "href", f"{HISTORY}?older=v2"
    )
    expect(page.locator("#history")).to_have_attribute("data-hash", hash_now)
    page.get_by_role("button", name="Restore v2").click()
    expect(page.locator(".toast", has_text="Restored v2.")).to_be_visible()
    assert "Now" not in file.read_text(encoding="utf-8")


def test_a_history_shows_the_last_change_but_to_who_is_about_to_restore(
    page: Page, served: Served
) -> None:
    _live(page, HISTORY)
    expect(page.get_by_text("It has not been changed")).to_be_visible()
    _written(served, "One.")
    button = page.locator("#restore")
    expect(button).to_have_text("Restore v1")
    button.focus()
    _written(served, "Two.")
    expect(page.locator(".versions li")).to_have_count(3)
    expect(page.locator(".compared .new", has_text="Two.")).to_be_visible()
    expect(button).to_have_text("Restore v1")
    expect(button).to_be_focused()
    page.locator("#content").focus()
    _written(served, "Three.")
    expect(button).to_have_text("Restore v3")
    button.click()
    expect(page.locator(".toast", has_text="Restored v3.")).to_be_visible()
    expect(page.locator(".prose")).to_have_text("Two.")


def test_a_history_says_once_that_its_memory_is_gone(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("404")
    _written(served, "One.")
    _live(page, HISTORY)
    served.api("DELETE", "/memories/here/memories/tea")
    gone = page.locator(".toast", has_text="This memory is gone")
    expect(gone).to_be_visible()
    expect(page.locator(".compared .new", has_text="One.")).to_be_visible()
    with page.expect_response(f"**{HISTORY}"):
        served.store("# Cake")
    assert gone.count() <= 1


def test_a_version_that_is_no_longer_kept_is_no_memory_that_is_gone(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("404")
    for number in range(10):
        _written(served, f"Text {number}.")
    _live(page, f"{HISTORY}?older=v1")
    _written(served, "One more.")
    expect(page.locator(".toast")).to_have_text("The version that is shown here is no longer kept.")


# What comes at a bad moment is shown later


def test_a_change_behind_a_dialog_shows_when_it_is_closed(page: Page, served: Served) -> None:
    _live(page, TEA)
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Move or rename").click()
    with page.expect_event("console", lambda message: message.text == "told"):
        page.evaluate("document.addEventListener('retain:memories', () => console.log('told'))")
        served.store("# Cake\n\nSee [[tea]].")
    expect(page.locator(".around a", has_text="Cake")).to_have_count(0)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".around a", has_text="Cake")).to_be_visible()


def test_a_memory_that_cannot_be_shown_for_a_moment_is_not_gone(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("503")
    _live(page, TEA)
    refusals = [503, 503]

    def refuse(route: Route) -> None:
        if refusals:
            route.fulfill(status=refusals.pop())
        else:
            route.continue_()

    page.route(f"**{TEA}", refuse)
    _linked(page, served, "Cake")
    assert not refusals
    expect(page.locator(".toast")).to_have_count(0)


# Whether word comes at all


def test_what_changes_before_a_page_listens_is_shown(page: Page, served: Served) -> None:
    file = served.bank / "memories" / "tea.md"

    def late(route: Route) -> None:
        bearer = {"Authorization": f"Bearer {stage.TOKEN}"}
        with served.http.stream("GET", f"{served.url}/api/v1/events", headers=bearer) as events:
            lines = events.iter_lines()
            next(line for line in lines if line.startswith("data:"))
            file.write_text("# Green tea\n\nWritten in place.", encoding="utf-8")
            next(line for line in lines if line == "event: memories")
        route.continue_()

    page.route(EVENTS, late)
    page.goto(TEA)
    expect(page.locator("#memory .prose")).to_contain_text("Written in place")


def test_who_hears_nothing_is_told_so_until_the_server_is_there_again(
    page: Page, served: Served, trouble: Trouble, begin: Begin
) -> None:
    trouble.expects("ERR_", "Failed to load")
    _live(page, TEA)
    line = page.locator("#unheard")
    expect(line).to_be_empty()
    served.end()
    expect(line).to_have_text("Not connected: what changes is not shown.")
    with stage.started(served.home, "--port", str(served.port), env=PLAIN, begin=begin) as again:
        expect(line).to_be_empty()
        _linked(page, again, "Cake")


@pytest.mark.parametrize("status", [429, 503])
def test_who_was_refused_asks_again(
    page: Page, served: Served, trouble: Trouble, status: int
) -> None:
    trouble.expects(str(status))
    refusals = [status, status]

    def refuse(route: Route) -> None:
        if refusals:
            route.fulfill(status=refusals.pop())
        else:
            route.continue_()

    page.route(EVENTS, refuse)
    page.goto(TEA)
    expect(page.locator("#unheard")).to_contain_text("Not connected")
    expect(page.locator("#unheard")).to_be_empty()
    _linked(page, served, "Cake")


def test_who_is_locked_out_while_listening_is_told_so(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("401")
    page.route(EVENTS, lambda route: route.fulfill(status=401))
    page.goto(TEA)
    expect(page.locator("#unheard")).to_contain_text("Not connected")
    page.context.clear_cookies()
    expect(page.get_by_text("This browser does not know the way in")).to_be_visible()


# Keys and words that come and go


def test_letters_can_be_turned_off_and_stay_off(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Keys: all of them").click()
    page.get_by_label("Single keys").uncheck()
    page.get_by_role("button", name="Close").click()
    for _ in range(2):
        page.keyboard.press("j")
        page.keyboard.press("/")
        page.keyboard.press("?")
        expect(page.locator("#results :focus, #q:focus, #help[open]")).to_have_count(0)
        page.reload()
        expect(page.locator("#letters")).not_to_be_checked()
    page.locator("#q").focus()
    page.keyboard.type("hot")  # what is typed is typed
    expect(page.locator("#results h2")).to_have_text(["Green tea"])
    page.get_by_role("button", name="Keys: all of them").click()
    page.get_by_label("Single keys").check()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("j")
    expect(page.locator("#results a:focus")).to_have_count(1)


def _untagged(page: Page) -> None:
    page.clock.install()
    page.goto(TEA)
    page.get_by_role("button", name="Remove the tag hot").click()
    expect(page.locator(".toast")).to_contain_text("Removed")


@pytest.mark.parametrize("way", ["hover", "focus"])
def test_an_undo_waits_for_who_is_at_it(page: Page, way: str) -> None:
    _untagged(page)
    undo = page.get_by_role("button", name="Undo")
    undo.hover() if way == "hover" else undo.focus()
    page.clock.fast_forward("01:00")
    expect(undo).to_be_visible()
    page.mouse.move(1, 1)
    page.locator("#content").focus()
    page.clock.fast_forward("01:00")
    expect(undo).to_have_count(0)


def test_what_was_done_last_is_taken_back_after_its_words_are_gone(
    page: Page, served: Served
) -> None:
    _untagged(page)
    page.mouse.move(1, 1)
    page.clock.fast_forward("01:00")
    expect(page.locator(".toast")).to_have_count(0)
    page.keyboard.press("u")
    expect(page.locator(".toast", has_text="Undone.")).to_be_visible()
    assert served.api("GET", "/memories/here/memories/tea")["tags"] == ["hot"]
    page.keyboard.press("u")
    expect(page.locator(".toast", has_text="Nothing was done")).to_be_visible()


def test_an_undo_that_came_too_late_says_so(page: Page, served: Served, trouble: Trouble) -> None:
    trouble.expects("409")
    _untagged(page)
    served.api("PUT", "/memories/here/memories/tea", {"text": "Changed by another."})
    expect(page.locator(".prose")).to_contain_text("Changed by another.")
    page.keyboard.press("u")
    expect(page.locator(".toast.bad")).to_be_visible()
    assert "another" in served.api("GET", "/memories/here/memories/tea")["content"]
