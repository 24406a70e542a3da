"""What is typed is never lost, and a file that changes on disk changes on the page."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.web import stage
from tests.web.stage import Begin, Served, Trouble

pytestmark = pytest.mark.slow

PLAIN = {"RETAIN_RECALL_EMBEDDER": "none"}
EDIT = "/memory/here/memories/tea/edit"
HANG = 60_000  # milliseconds that nothing takes but what never comes
TYPED = "# Tea\n\nTyped by hand, for an hour."


@pytest.fixture
def served(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    """A project's bank and the person's own, each with a memory."""
    with stage.started(tmp_path / "web", project=True, env=PLAIN, begin=begin) as server:
        server.store("# Tea\n\nBoil the water.", id="tea", tags=["hot"])
        server.api("POST", "/memories/global", {"text": "# Own\n\nMine.", "id": "own"})
        yield server


def _file(served: Served, name: str = "tea") -> Path:
    return served.bank / "memories" / f"{name}.md"


def _saved(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def _typed(page: Page) -> None:
    page.goto(EDIT)
    page.locator("#text").fill(TYPED)


def _overtaken(page: Page, served: Served, trouble: Trouble, **theirs: object) -> None:
    """Someone else saves while one types, and no word of it comes."""
    trouble.expects("409", "ERR_FAILED")
    page.route("**/api/v1/events", lambda route: route.abort())
    _typed(page)
    served.api("PUT", "/memories/here/memories/tea", {"text": "# Tea\n\nTheirs.", **theirs})


def _merging(page: Page, served: Served, trouble: Trouble) -> Locator:
    """The box in which the two texts are merged by hand."""
    _overtaken(page, served, trouble)
    _saved(page)
    page.get_by_role("button", name="Merge by hand").click()
    merged = page.locator("#merged")
    merged.fill("# Tea\n\nBoth of them.")
    return merged


# Writing


def test_a_draft_outlives_the_tab(page: Page, context: BrowserContext) -> None:
    _typed(page)
    page.close(run_before_unload=False)
    other = context.new_page()
    other.goto(EDIT)
    expect(other.locator("#text")).to_have_value(TYPED)
    expect(other.locator("#notice")).to_contain_text("not saved is back")
    _saved(other)
    expect(other).to_have_url(re.compile("/memory/here/memories/tea$"))
    other.goto(EDIT)
    expect(other.locator("#notice")).to_be_empty()


def test_a_text_merged_by_hand_outlives_a_reload(
    page: Page, served: Served, trouble: Trouble
) -> None:
    _merging(page, served, trouble)
    other = page.context.new_page()
    page.close(run_before_unload=False)
    other.goto(EDIT)
    expect(other.locator("#text")).to_have_value("# Tea\n\nBoth of them.")


def test_a_key_saves_the_text_merged_by_hand_and_a_further_conflict_leaves_it(
    page: Page, served: Served, trouble: Trouble
) -> None:
    merged = _merging(page, served, trouble)
    expect(page.locator("#preview")).to_contain_text("Both of them.")
    served.api("PUT", "/memories/here/memories/tea", {"text": "# Tea\n\nTheirs, again."})
    merged.press("Control+Enter")
    expect(page.locator("#theirs")).to_have_value("# Tea\n\nTheirs, again.")
    expect(merged).to_have_value("# Tea\n\nBoth of them.")
    page.get_by_label("Title").press("Enter")
    expect(page).to_have_url(re.compile("/memory/here/memories/tea$"))
    stored = served.api("GET", "/memories/here/memories/tea")
    assert stored["content"].strip() == "# Tea\n\nBoth of them."


def test_what_is_typed_while_word_of_a_change_comes_is_not_lost(page: Page, served: Served) -> None:
    path = "**/api/v1/memories/here/memories/tea"
    with page.expect_response("**/api/v1/events"):  # from then on it hears of changes
        page.goto(EDIT)
    page.evaluate("window.isSame = true")
    served.api("PUT", "/memories/here/memories/tea", {"text": "# Tea\n\nTheirs.", "tags": ["new"]})
    expect(page.locator("#text")).to_have_value("# Tea\n\nTheirs.")
    expect(page.get_by_label("Tags")).to_have_value("new")
    page.route(path, lambda _: None)
    with page.expect_request(path):
        served.api("PUT", "/memories/here/memories/tea", {"text": "# Tea\n\nAgain."})
    page.locator("#text").fill(TYPED)
    page.unroute(path)  # which lets those that are held go on
    expect(page.locator("#notice")).to_contain_text("changed elsewhere")
    expect(page.locator("#text")).to_have_value(TYPED)
    assert page.evaluate("window.isSame")


def _held(page: Page, path: str, script: str) -> re.Pattern[str]:
    """Open a page whose own script does not come until it is let go."""
    held = re.compile(rf"/{script}\.js")
    page.route(held, lambda _: None)
    page.goto(path, wait_until="commit")
    return held


@pytest.mark.parametrize("how", ["key", "button", "field"])
def test_who_saves_before_the_script_of_the_page_has_come_has_saved_once_it_is_there(
    page: Page, served: Served, how: str
) -> None:
    script = _held(page, EDIT, "edit")
    page.locator("#text").fill(TYPED)
    if how == "key":
        page.keyboard.press("Control+Enter")
    elif how == "button":
        _saved(page)
    else:
        page.get_by_label("Title").press("Enter")
    expect(page.locator("#text")).to_have_value(TYPED)
    page.unroute(script)  # which lets it come
    expect(page).to_have_url(re.compile("/memory/here/memories/tea$"))
    assert served.api("GET", "/memories/here/memories/tea")["content"].strip() == TYPED


def test_without_its_script_a_form_leaves_the_text_where_it_is(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("ERR_FAILED")
    page.route(re.compile(r"/(early|edit)\.js"), lambda route: route.abort())
    _typed(page)
    page.keyboard.press("Control+Enter")
    _saved(page)
    page.get_by_label("Title").press("Enter")
    expect(page).to_have_url(f"{served.url}{EDIT}")  # no text in an address, where anyone reads it
    expect(page.locator("#text")).to_have_value(TYPED)


def test_what_is_done_to_a_list_before_its_script_has_come_is_done_once(page: Page) -> None:
    script = _held(page, "/", "memories")
    box = page.get_by_role("checkbox", name="Tea")
    box.click()
    page.locator("#q").focus()
    page.keyboard.type("boil")
    page.keyboard.press("Enter")
    page.unroute(script)
    expect(page).to_have_url(re.compile(r"\?q=boil$"))
    expect(page.locator("#results a", has_text="Tea")).to_be_focused()
    expect(page.locator("#chosen")).to_have_text("1 chosen")


def test_letters_before_the_script_has_come_are_no_commands(page: Page, served: Served) -> None:
    page.goto(EDIT)
    page.locator("#text").fill(TYPED)
    _saved(page)
    expect(page.locator(".toast", has_text="Saved")).to_be_visible()  # which `u` would take back
    script = re.compile(r"/(main|memory)\.js")
    page.route(script, lambda _: None)
    page.goto("/memory/here/memories/tea", wait_until="commit")
    expect(page.locator(".prose")).to_contain_text("Typed by hand")
    page.keyboard.type("/usen")  # where "/" did not lead to the search yet
    page.unroute(script)
    page.wait_for_load_state()
    expect(page.locator("#inbox-count")).to_be_attached()
    expect(page).to_have_url(re.compile("/tea$"))
    assert served.api("GET", "/memories/here/memories/tea")["content"].strip() == TYPED


def test_who_presses_again_for_want_of_an_answer_is_asked_once(page: Page) -> None:
    script = _held(page, "/memory/here/memories/tea", "memory")
    page.locator(".menu summary").click()
    for _ in range(3):
        page.get_by_role("button", name="Move or rename").click()
    page.unroute(script)
    expect(page.locator("dialog[open]")).to_have_count(1)


def test_what_is_typed_to_the_chat_before_its_script_has_come_stays_beside_a_draft(
    page: Page,
) -> None:
    page.goto("/chat")
    page.locator("#say").fill("Of yesterday")
    script = _held(page, "/chat", "chat")
    page.locator("#say").focus()
    page.keyboard.type("Of today")
    page.unroute(script)
    page.wait_for_load_state()
    expect(page.locator("#say")).to_have_value("Of today")
    page.locator("#say").fill("")
    page.locator("#say").press("ArrowUp")
    expect(page.locator("#say")).to_have_value("Of yesterday")


def test_two_tabs_on_one_memory_have_a_draft_each(page: Page, context: BrowserContext) -> None:
    _typed(page)
    other = context.new_page()
    other.goto(EDIT)
    expect(other.locator("#preview")).to_contain_text("Boil the water.")
    expect(other.locator("#notice")).to_be_empty()  # the first is open still, and no other's
    other.locator("#text").fill("# Tea\n\nOf the other tab.")
    other.close(run_before_unload=False)
    page.close(run_before_unload=False)
    third = context.new_page()
    third.goto(EDIT)
    expect(third.locator("#text")).to_have_value("# Tea\n\nOf the other tab.")
    third.locator("#notice p").first.get_by_role("button", name="Discard it").click()
    expect(third.locator("#text")).to_have_value(TYPED)


def test_a_draft_is_offered_where_its_tab_is_closed_later(
    page: Page, context: BrowserContext
) -> None:
    other = context.new_page()
    for tab in (page, other):
        tab.goto("/new")
        expect(tab.locator("#notice")).to_be_empty()
    page.locator("#text").fill("# Closed")
    other.locator("#text").fill("# Open")
    page.close(run_before_unload=False)
    expect(other.locator("#notice")).to_contain_text("“# Closed”")
    expect(other.locator("#text")).to_have_value("# Open")


def test_a_draft_stays_with_its_tab_while_that_is_reloaded(
    page: Page, context: BrowserContext
) -> None:
    other = context.new_page()
    other.on("dialog", lambda dialog: dialog.accept())
    _typed(other)
    page.goto(EDIT)
    expect(page.locator("#preview")).to_contain_text("Boil the water.")
    other.reload()
    expect(other.locator("#text")).to_have_value(TYPED)
    page.wait_for_timeout(3000)  # as long as it takes to be sure that nobody holds it
    expect(page.locator("#text")).not_to_have_value(TYPED)
    expect(page.locator("#notice")).to_be_empty()


@pytest.mark.parametrize("how", ["", "?whole=1"])
def test_the_editor_is_ready_to_be_typed_into(page: Page, how: str) -> None:
    page.goto(EDIT + how)
    expect(page.locator("#text")).to_be_focused()


def test_a_key_pressed_in_haste_decides_no_conflict(
    page: Page, served: Served, trouble: Trouble
) -> None:
    _overtaken(page, served, trouble)
    page.locator("#text").press("Control+Enter")
    expect(page.locator("#conflict-title")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.locator("#conflict")).to_be_visible()
    expect(page.locator("#conflict button.main").first).to_have_text("Merge by hand")
    assert "Theirs." in _file(served).read_text(encoding="utf-8")


def test_tags_that_another_set_outlive_a_draft_that_is_saved_over_it(
    page: Page, context: BrowserContext, served: Served
) -> None:
    _typed(page)
    page.get_by_label("Title").fill("My tea")
    page.close(run_before_unload=False)
    theirs = {"text": "# Tea\n\nTheirs.", "tags": ["hot", "theirs"], "title": "Their tea"}
    served.api("PUT", "/memories/here/memories/tea", theirs)
    other = context.new_page()
    other.goto(EDIT)
    expect(other.locator("#text")).to_have_value(TYPED)
    expect(other.get_by_label("Tags")).to_have_value("hot, theirs")
    _saved(other)
    expect(other.locator("#heads-apart")).to_contain_text("Their tea”, yours “My tea”")
    other.get_by_role("button", name="Save mine over it").click()
    expect(other).to_have_url(re.compile("/memory/here/memories/tea$"))
    found = served.api("GET", "/memories/here/memories/tea")
    assert found["tags"] == ["hot", "theirs"]
    assert found["title"] == "My tea"
    assert found["content"].strip() == TYPED


def test_all_of_mine_comes_back_after_theirs_was_taken(
    page: Page, served: Served, trouble: Trouble
) -> None:
    _overtaken(page, served, trouble, tags=["theirs"], title="Their tea", type="plan")
    page.get_by_label("Title").fill("My tea")
    page.get_by_label("Tags").fill("mine")
    _saved(page)
    page.get_by_role("button", name="Take theirs").click()
    expect(page.get_by_label("Title")).to_have_value("Their tea")
    page.get_by_role("button", name="Bring mine back").click()
    expect(page.locator("#text")).to_have_value(TYPED)
    expect(page.get_by_label("Title")).to_have_value("My tea")
    expect(page.get_by_label("Tags")).to_have_value("mine")
    expect(page.get_by_label("Type")).to_have_value("plan")
    _saved(page)
    expect(page).to_have_url(re.compile("/memory/here/memories/tea$"))
    found = served.api("GET", "/memories/here/memories/tea")
    assert (found["title"], found["tags"]) == ("My tea", ["mine"])


def test_what_is_refused_is_said_in_whole_sentences(page: Page, trouble: Trouble) -> None:
    trouble.expects("400")
    page.goto("/new")
    _saved(page)
    said = page.locator(".toast.bad span")
    expect(said).to_have_text(re.compile(r"^[A-Z][^.]*\. What you typed is still here\.$"))


def test_two_tabs_of_new_memories_have_a_draft_each(
    page: Page, context: BrowserContext, trouble: Trouble
) -> None:
    trouble.expects("dialog")
    other = context.new_page()
    for tab, words in ((page, "# One"), (other, "# Two")):
        tab.goto("/new")
        expect(tab.locator("#notice")).to_be_empty()  # the first is open still, and no other's
        tab.locator("#text").fill(words)
    _saved(other)
    expect(other).to_have_url(re.compile("/memory/here/memories/two$"))
    page.close(run_before_unload=False)
    other.goto("/new")
    expect(other.locator("#notice")).to_contain_text("“# One”")
    expect(other.locator("#text")).to_have_value("")
    other.get_by_role("button", name="Bring it back").click()
    expect(other.locator("#text")).to_have_value("# One")
    other.on("dialog", lambda dialog: dialog.accept())
    other.reload()
    expect(other.locator("#text")).to_have_value("# One")
    expect(other.locator("#notice")).to_contain_text("is back")


def test_a_draft_stays_with_its_bank(page: Page, served: Served, tmp_path: Path) -> None:
    _typed(page)
    mine = page.evaluate(
        "Object.keys(localStorage).filter((one) => one.startsWith('retain-draft'))"
    )
    with stage.started(tmp_path / "web" / "else", project=True, env=PLAIN) as another:
        found = re.search(r'data-bank="(\w+)"', another.get("/").text)
    assert found
    assert len(mine) == 1
    assert found[1] not in mine[0]
    assert page.locator("html").get_attribute("data-bank") in mine[0]


def test_word_of_a_change_moves_nothing_under_the_hands(page: Page, served: Served) -> None:
    _typed(page)
    before = page.locator("#text").bounding_box()
    served.api("PUT", "/memories/here/memories/tea", {"text": "# Tea\n\nTheirs."})
    expect(page.locator("#notice")).to_contain_text("changed elsewhere")
    assert page.locator("#text").bounding_box() == before
    expect(page.get_by_role("button", name="Compare")).to_be_in_viewport()


def test_a_lost_cookie_costs_no_word(
    page: Page, context: BrowserContext, served: Served, trouble: Trouble
) -> None:
    trouble.expects("401")
    _typed(page)
    context.clear_cookies()
    _saved(page)
    expect(page.locator("#notice")).to_contain_text("no longer let in")
    expect(page.locator("#text")).to_have_value(TYPED)
    name, value = served.cookie()
    context.add_cookies([{"name": name, "value": value, "url": served.url, "httpOnly": True}])
    _saved(page)
    expect(page).to_have_url(re.compile("/memory/here/memories/tea$"))
    assert "for an hour" in _file(served).read_text(encoding="utf-8")


def test_a_server_that_ended_costs_no_word(page: Page, served: Served, trouble: Trouble) -> None:
    trouble.expects("ERR_", "Failed to load")
    _typed(page)
    served.end()
    _saved(page)
    expect(page.locator("#toasts")).to_contain_text("What you typed is still here")
    expect(page.locator("#text")).to_have_value(TYPED)
    kept = page.evaluate("Object.entries(localStorage).find(([key]) => key.includes('/tea/edit#'))")
    assert "for an hour" in kept[1]


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_what_was_typed_into_a_memory_that_is_gone_becomes_one(
    page: Page, served: Served, trouble: Trouble, how: str
) -> None:
    trouble.expects("404")
    _typed(page)
    if how == "deleted":
        _file(served).unlink()
    else:
        served.run("move", "tea", "--id", "chai")
    expect(page.locator("#notice")).to_contain_text("This memory is gone")
    expect(page.locator("#text")).to_have_value(TYPED)
    page.get_by_role("button", name="Store it as a new memory").click()
    expect(page.locator("#toasts")).to_contain_text("Stored as tea")
    stored = served.api("GET", "/memories/here/memories/tea")
    assert (stored["content"].strip(), stored["tags"]) == (TYPED, ["hot"])


def test_what_was_typed_into_a_file_that_broke_is_kept(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("409", "422")
    _typed(page)
    _file(served).write_bytes(b"---\ntitle: [\n---\nbroken\n")
    expect(page.locator("#notice")).to_contain_text("changed elsewhere")
    _saved(page)
    expect(page.locator("#text")).to_have_value(TYPED)
    page.get_by_role("button", name="Store it as a new memory").click()
    expect(page.locator("#toasts")).to_contain_text("Stored as tea-")
    assert _file(served).read_bytes().endswith(b"broken\n")


# What happens on disk


def test_each_way_of_writing_a_file_shows_by_itself(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("404")
    page.goto("/memory/here/memories/tea")
    text = page.locator("#memory .prose")
    _file(served).write_text("# Tea\n\nWritten in place.", encoding="utf-8")
    expect(text).to_contain_text("Written in place", timeout=HANG)
    draft = _file(served).with_name(".tea.md.swp")
    draft.write_text("# Tea\n\nPut in its place at once.", encoding="utf-8")
    os.replace(draft, _file(served))
    expect(text).to_contain_text("Put in its place at once", timeout=HANG)
    _file(served).unlink()
    expect(page.locator("#toasts")).to_contain_text("This memory is gone", timeout=HANG)


def test_files_of_both_banks_come_and_go_in_the_list(page: Page, served: Served) -> None:
    page.goto("/")
    titles = page.locator("#results h2")
    expect(titles).to_have_count(2)
    for folder in (served.bank / "memories", served.home / ".retain" / "memories"):
        (folder / "new.md").write_text(f"# New in {folder.parent.parent.name}", encoding="utf-8")
    expect(titles).to_have_count(4, timeout=HANG)
    (served.home / ".retain" / "memories" / "new.md").unlink()
    expect(titles).to_have_count(3, timeout=HANG)
    assert _file(served, "new").exists()


def test_a_checkout_of_many_files_leaves_what_is_typed_alone(page: Page, served: Served) -> None:
    def git(*args: str) -> None:
        names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *names, *args], cwd=served.work, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for number in range(50):
        _file(served, f"many-{number}").write_text(f"# Many {number}\n\nOld.", encoding="utf-8")
    git("add", "-A")
    git("commit", "-qm", "old")
    git("checkout", "-qb", "new")
    for number in range(50):
        _file(served, f"many-{number}").write_text(f"# Fresh {number}\n\nNew.", encoding="utf-8")
    git("commit", "-qam", "new")
    git("checkout", "-q", "main")
    _typed(page)
    other = page.context.new_page()
    other.goto("/?q=fresh")
    git("checkout", "-q", "new")
    expect(other.locator("#results h2").first).to_contain_text("Fresh", timeout=HANG)
    expect(page.locator("#text")).to_have_value(TYPED)
    expect(page.locator("#notice")).to_be_empty()
