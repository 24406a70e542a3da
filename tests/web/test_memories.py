"""Memories in a real browser: searched as one types, narrowed down, edited, chosen, undone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.web import stage
from tests.web.stage import Begin, Served, Trouble

pytestmark = pytest.mark.slow

ONE = "/memory/here/memories"
PLAIN = {"RETAIN_RECALL_EMBEDDER": "none"}  # words are enough here, and no model has to be loaded


@pytest.fixture
def served(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    """A server of its own for each test, with three memories."""
    with stage.started(tmp_path / "web", env=PLAIN, begin=begin) as server:
        server.store("# Green tea\n\nBoil the water, wait, then brew.", id="tea", tags=["hot"])
        server.store("# Iced tea\n\nBrewed cold, over ice.", id="iced", tags=["cold"])
        server.store("# Bread\n\nBakes for an hour; goes with [[tea]].", id="bread", type="plan")
        yield server


def _titles(page: Page) -> Any:
    return page.locator("#results h2")


def _file(served: Served, name: str) -> Path:
    return served.bank / "memories" / f"{name}.md"


def _has_toast(page: Page, text: str) -> None:
    expect(page.locator(".toast", has_text=text)).to_be_visible()


def _take_back(page: Page, text: str) -> None:
    page.locator(".toast", has_text=text).get_by_role("button", name="Undo").click()


def _more(page: Page, action: str) -> None:
    page.locator(".menu summary").click()
    page.get_by_role("button", name=action).click()


# Looking


def test_results_follow_the_typing_and_the_address_follows_both(page: Page) -> None:
    page.goto("/")
    expect(_titles(page)).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type("brewing", delay=20)
    # The stem is marked, whatever form it has.
    expect(page.locator("#results mark").first).to_have_text(re.compile("brew", re.IGNORECASE))
    expect(_titles(page)).to_have_count(2)
    expect(page).to_have_url(re.compile(r"/\?q=brewing$"))
    expect(page.locator("#said")).to_contain_text("2 found")
    page.locator("details.why summary").first.click()
    expect(page.locator("details.why dl").first).to_contain_text("words")
    page.reload()
    expect(_titles(page)).to_have_count(2)
    page.go_back()
    expect(_titles(page)).to_have_count(3)
    expect(page.locator("#q")).to_have_value("")


def test_an_answer_that_does_not_fit_says_so(page: Page) -> None:
    page.goto("/?q=hour+meeting+quarterly+budget")
    expect(page.locator("#results")).to_contain_text(re.compile("Nothing fits"))


def test_facets_narrow_down_without_a_reload_and_without_javascript(
    page: Page, served: Served
) -> None:
    page.goto("/")
    page.evaluate("window.isSame = true")
    page.get_by_role("link", name=re.compile("^hot")).first.click()
    expect(_titles(page)).to_have_text(["Green tea"])
    expect(page.locator("[data-focus='tag:hot']")).to_be_focused()
    page.locator("[data-focus='tag:cold']").click()
    expect(_titles(page)).to_have_count(2)
    assert page.evaluate("window.isSame")
    assert 'data-id="tea"' in served.get("/?tag=hot").text
    assert 'data-id="iced"' not in served.get("/?tag=hot").text


def test_a_search_is_kept_and_forgotten_and_kept_after_all(page: Page) -> None:
    page.goto("/?tag=hot")
    page.get_by_role("button", name="Keep this search").click()
    expect(page.get_by_label("Name")).to_have_value("hot")
    page.keyboard.type("Hot things")  # in the place of what was proposed
    page.keyboard.press("Enter")
    kept = page.get_by_role("link", name="Hot things", exact=True)
    expect(kept).to_be_visible()
    page.goto("/")
    page.get_by_role("button", name="Forget the search Hot things").click()
    expect(kept).to_have_count(0)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(kept).to_be_visible()
    kept.click()
    expect(_titles(page)).to_have_text(["Green tea"])


def test_a_file_changed_in_an_editor_changes_the_list_and_the_page(
    page: Page, served: Served
) -> None:
    page.goto("/")
    expect(_titles(page)).to_have_count(3)
    other = page.context.new_page()
    other.goto(f"{ONE}/tea")
    path = _file(served, "tea")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Boil the water", "Heat the kettle"), encoding="utf-8")
    expect(page.locator("#results")).to_contain_text("Heat the kettle")
    expect(other.locator(".prose")).to_contain_text("Heat the kettle")
    path.unlink()
    expect(_titles(page)).to_have_count(2)
    other.close()


def test_what_another_program_stores_appears_as_well(page: Page, served: Served) -> None:
    page.goto("/")
    expect(_titles(page)).to_have_count(3)
    served.run("put", "-", "--id", "cake", input="# Cake\n\nSweet.\n")
    expect(page.locator("#results")).to_contain_text("Cake")


# One memory


def test_a_memory_is_shown_once_titled_with_its_links_both_ways(page: Page) -> None:
    page.goto(f"{ONE}/tea")
    expect(page.get_by_role("heading", name="Green tea")).to_have_count(1)
    expect(page.locator(".around")).to_contain_text("goes with tea.")
    page.locator(".around").get_by_role("link", name="Bread").click()
    expect(page.locator(".prose a.wiki")).to_have_attribute("href", f"{ONE}/tea")


def test_tags_are_added_and_removed_in_place_and_undone(page: Page, served: Served) -> None:
    page.goto(f"{ONE}/tea")
    page.get_by_label("Add a tag").fill("green")
    page.keyboard.press("Enter")
    expect(page.locator(".tags")).to_contain_text("green")
    expect(page.get_by_label("Add a tag")).to_be_focused()
    page.get_by_role("button", name="Remove the tag hot").click()
    expect(page.locator(".tags")).not_to_contain_text("hot")
    page.locator(".toast", has_text="Removed").get_by_role("button", name="Undo").click()
    expect(page.locator(".tags")).to_contain_text("hot")
    assert served.api("GET", "/memories/here/memories/tea")["tags"] == ["hot", "green"]


def test_a_memory_is_retired_renamed_and_deleted_and_each_is_undone(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("404")  # word of a deletion may come before the page has left
    page.goto(f"{ONE}/tea")
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Retire").click()
    page.get_by_label("Why").fill("gone off")
    page.keyboard.press("Enter")
    expect(page.locator(".badge.retired")).to_be_visible()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".badge.retired")).to_have_count(0)

    page.locator(".menu summary").click()
    page.get_by_role("button", name="Move or rename").click()
    page.get_by_label("Id, which").fill("sencha")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/sencha$"))
    page.locator(".toast", has_text="Moved").get_by_role("button", name="Undo").click()
    expect(page).to_have_url(re.compile("/tea$"))

    page.locator(".menu summary").click()
    page.get_by_role("button", name="Delete").click()
    expect(_titles(page)).to_have_count(2)
    assert not _file(served, "tea").exists()
    _has_toast(page, "trash")
    page.keyboard.press("u")
    expect(_titles(page)).to_have_count(3)
    assert _file(served, "tea").exists()


def test_another_memory_is_found_by_its_meaning_and_merged_and_apart_again(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("404")
    page.goto(f"{ONE}/tea")
    _more(page, "Merge with another")
    field = page.get_by_role("combobox")
    options = page.get_by_role("option")
    late = re.compile("q=bread")
    page.route(late, lambda _: None)
    with page.expect_request(late):
        field.fill("bread")
    field.fill("brewing")  # which stands in no name
    expect(options).to_have_text(["Iced tea memories/iced"])
    with page.expect_response(late):
        page.unroute(late)  # which lets those that are held go on
    expect(options).to_have_text(["Iced tea memories/iced"])
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("brewing")  # said where it was asked
    field.fill("memories/")  # what the names of all begin with
    expect(options).to_have_count(2)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    chosen = field.input_value()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Merge", exact=True).click()
    expect(page).to_have_url(re.compile("/tea-merged$"))
    assert not _file(served, "tea").exists()
    assert not (served.bank / f"{chosen}.md").exists()
    _take_back(page, "Merged.")
    expect(page).to_have_url(re.compile("/tea$"))
    assert not _file(served, "tea-merged").exists()
    assert all(_file(served, name).exists() for name in ("tea", "iced", "bread"))


def test_each_step_of_a_memorys_life_is_taken_and_taken_back(page: Page, served: Served) -> None:
    page.goto(f"{ONE}/tea")
    _more(page, "Supersede by another")
    page.get_by_role("combobox").fill("iced")
    page.get_by_role("option", name="Iced tea").click()
    page.get_by_role("button", name="Supersede", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("Superseded by memories/iced")
    _take_back(page, "Superseded.")
    expect(page.locator(".notice")).to_have_count(0)
    expect(page).to_have_url(re.compile("/tea$"))

    _more(page, "Archive")
    page.get_by_label("Why").fill("tidied")
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_contain_text("tidied")
    page.get_by_role("button", name="Take off the shelf").click()
    expect(page.locator(".badge.archived")).to_have_count(0)
    _take_back(page, "Off the shelf.")
    expect(page.locator(".badge.archived")).to_be_visible()
    _take_back(page, "Archived.")  # what that undid is there again, and is undone in its turn
    expect(page.locator(".badge.archived")).to_have_count(0)

    served.api("POST", "/memories/here/memories/tea/retire")
    expect(page.locator(".badge.retired")).to_be_visible()
    page.get_by_role("button", name="Put in force again").click()
    expect(page.locator(".badge.retired")).to_have_count(0)
    _take_back(page, "In force again.")
    expect(page.locator(".badge.retired")).to_be_visible()


def test_an_earlier_text_is_compared_and_restored_and_that_is_undone(
    page: Page, served: Served
) -> None:
    text = "# Green tea\n\nHeat the water, wait, then brew."
    served.api("PUT", "/memories/here/memories/tea", {"text": text})
    page.goto(f"{ONE}/tea")
    page.locator(".versions a").first.click()
    expect(page.locator(".compared del").first).to_have_text("Boil")
    expect(page.locator(".compared ins", has_text="Heat")).to_be_visible()
    page.get_by_role("button", name="Restore v1").click()
    expect(page.locator(".prose")).to_contain_text("Boil")
    page.locator(".toast", has_text="Restored").get_by_role("button", name="Undo").click()
    expect(page.locator(".prose")).to_contain_text("Heat")


# Writing


def test_a_new_memory_is_written_with_a_preview(page: Page, served: Served) -> None:
    page.goto("/")
    page.keyboard.press("n")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("# Cake\n\nGoes with [[tea]] and **cream**.")
    expect(page.locator("#preview strong")).to_have_text("cream")
    expect(page.locator("#preview a.wiki")).to_have_text("Green tea")
    page.get_by_label("Tags").fill("sweet, cold")
    page.get_by_label("Text, in").press("Control+Enter")
    expect(page.get_by_role("heading", name="Cake")).to_be_visible()
    assert "sweet" in _file(served, "cake").read_text(encoding="utf-8")


def test_a_link_is_completed_while_it_is_typed(page: Page) -> None:
    page.goto(f"{ONE}/tea/edit")
    page.keyboard.press("Control+End")
    page.keyboard.type(" See [[baking")  # which stands in no name
    links = page.locator("#links").get_by_role("option")
    expect(links).to_have_text(["Bread memories/bread"])
    text = page.locator("#text")
    expect(text).to_have_attribute("aria-activedescendant", "links-0")
    page.keyboard.press("Enter")
    expect(text).to_have_value(re.compile(r"See \[\[memories/bread\]\]$"))
    expect(page.locator("#preview a.wiki")).to_have_attribute("href", f"{ONE}/bread")
    page.keyboard.press("Control+z")
    expect(text).to_have_value(re.compile(r"See \[\[baking$"))
    page.keyboard.press("Control+End")
    page.keyboard.type(" bread")
    expect(links).to_have_count(1)
    page.keyboard.press("Escape")
    expect(links).to_have_count(0)
    expect(text).to_be_focused()


def test_undoing_a_new_memory_leads_back_to_the_others(page: Page, served: Served) -> None:
    page.goto("/new")
    page.keyboard.type("# Cake\n\nSweet.")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile("/cake$"))
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page).to_have_url(re.compile(r":\d+/$"))
    expect(page.locator(".toast")).to_have_count(1)
    _has_toast(page, "Undone: “Cake” is in the trash.")
    assert not _file(served, "cake").exists()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(_titles(page)).to_have_count(4)


def test_a_link_that_leads_nowhere_leads_to_writing_what_is_missing(
    page: Page, served: Served
) -> None:
    served.store("# Cups\n\nSee [[memory:notes/tea-cups]] and [[Big & small: cups?]].", id="cups")
    page.goto(f"{ONE}/cups")
    page.locator(".prose a.ghost").nth(1).click()
    expect(page.get_by_label("Title")).to_have_value("Big & small: cups?")
    page.goto(f"{ONE}/cups")
    page.locator(".prose a.ghost").first.click()
    expect(page.get_by_label("Id")).to_have_value("tea-cups")
    expect(page.get_by_label("Collection")).to_have_value("notes")
    page.locator("#text").fill("# China\n\nOf porcelain.")
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile("/memory/here/notes/tea-cups$"))
    page.goto(f"{ONE}/cups")
    expect(page.locator(".prose a.wiki")).to_have_attribute("href", "/memory/here/notes/tea-cups")


def test_who_comes_back_from_a_memory_goes_on_where_it_was_opened(page: Page) -> None:
    page.goto("/?sort=title")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/tea$"))
    page.go_back()
    expect(page.locator("#results a", has_text="Green tea")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#results a", has_text="Iced tea")).to_be_focused()


def test_two_who_write_see_both_texts_and_nothing_is_lost(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("409")
    page.goto(f"{ONE}/tea")
    page.keyboard.press("e")
    box = page.locator("#text")
    box.fill("# Green tea\n\nMine: eighty degrees.")
    served.run("update", "tea", "--content", "-", input="# Green tea\n\nTheirs: ninety.\n")
    # Word of it comes, and touches nothing that was typed.
    expect(page.locator("#notice")).to_contain_text("changed elsewhere")
    expect(box).to_have_value("# Green tea\n\nMine: eighty degrees.")
    box.press("Control+Enter")
    expect(page.locator("#conflict")).to_be_visible()
    expect(page.locator("#differences")).to_contain_text("Theirs: ninety.")
    expect(page.locator("#differences")).to_contain_text("Mine: eighty degrees.")
    assert "Theirs" in _file(served, "tea").read_text(encoding="utf-8")
    page.get_by_role("button", name="Take theirs").click()
    expect(box).to_have_value(re.compile("Theirs: ninety"))
    page.get_by_role("button", name="Bring mine back").click()
    expect(box).to_have_value(re.compile("Mine: eighty"))
    served.run("update", "tea", "--content", "-", input="# Green tea\n\nTheirs: again.\n")
    expect(page.locator("#notice")).to_contain_text("changed elsewhere")
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("button", name="Merge by hand").click()
    page.locator("#merged").fill("# Green tea\n\nEighty, or ninety.")
    page.get_by_role("button", name="Save the merged text").click()
    expect(page).to_have_url(re.compile("/tea$"))
    expect(page.locator(".prose")).to_contain_text("Eighty, or ninety.")
    assert "Eighty, or ninety." in _file(served, "tea").read_text(encoding="utf-8")


def test_who_leaves_without_saving_is_asked_and_loses_nothing_all_the_same(
    page: Page, served: Served
) -> None:
    bare = page.context.new_page()  # whose dialogs are no trouble
    asked: list[str] = []

    def leave(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    bare.on("dialog", leave)
    bare.goto(f"{ONE}/tea/edit")
    bare.locator("#text").fill("# Green tea\n\nHalf a thought")
    bare.reload()
    assert asked == ["beforeunload"]
    expect(bare.locator("#text")).to_have_value("# Green tea\n\nHalf a thought")
    expect(bare.locator("#notice")).to_contain_text("is back")
    assert "Half" not in _file(served, "tea").read_text(encoding="utf-8")
    bare.get_by_role("button", name="Discard it").click()
    expect(bare.locator("#text")).to_have_value(re.compile("Boil the water"))


# Several at once


def test_several_are_tagged_and_deleted_and_each_is_undone_at_once(
    page: Page, served: Served
) -> None:
    page.goto("/?sort=title")
    boxes = page.locator("#results [data-item] input[type=checkbox]")
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(page.locator("#chosen")).to_have_text("3 chosen")
    page.locator("[data-bulk=tag]").click()
    page.get_by_label("Tags, with commas").fill("kitchen")
    page.keyboard.press("Enter")
    _has_toast(page, "3 memories tagged")
    expect(page.locator("#results .tag", has_text="kitchen")).to_have_count(3)
    page.locator(".toast", has_text="tagged").get_by_role("button", name="Undo").click()
    expect(page.locator("#results .tag", has_text="kitchen")).to_have_count(0)
    boxes.nth(0).click()
    boxes.nth(1).click()
    page.locator("[data-bulk=delete]").click()
    expect(_titles(page)).to_have_count(1)
    page.locator(".toast", has_text="trash").get_by_role("button", name="Undo").click()
    expect(_titles(page)).to_have_count(3)
    assert all(_file(served, name).exists() for name in ("tea", "iced", "bread"))


def test_what_is_refused_of_several_is_said_for_each(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("422")
    served.api("POST", "/memories/here/memories/tea/archive")
    page.goto("/?sort=title")
    for number in range(3):
        page.locator("#results [data-item] input[type=checkbox]").nth(number).click()
    page.locator("[data-bulk=retire]").click()
    page.keyboard.press("Enter")
    expect(page.locator("dialog li")).to_contain_text("Green tea")
    _has_toast(page, "2 memories retired")
    page.get_by_role("button", name="Close").last.click()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(_titles(page)).to_have_count(3)


def test_an_undo_of_several_goes_on_where_one_is_refused(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("409")
    before = {name: _file(served, name).read_bytes() for name in ("tea", "iced", "bread")}
    page.goto("/")
    for box in page.locator("#results [data-item] input").all():
        box.check()
    page.get_by_role("button", name="Tag", exact=True).click()
    page.get_by_label("Tags, with commas").fill("all")
    page.get_by_role("button", name="Add tags").click()
    _has_toast(page, "3 memories tagged.")
    served.run("update", "iced", "--title", "Changed elsewhere")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("dialog .failures li")).to_have_count(1)
    expect(page.locator("dialog .failures")).to_contain_text("Iced tea")
    _has_toast(page, "2 of 3 undone.")
    for name in ("tea", "bread"):
        assert _file(served, name).read_bytes() == before[name]
    assert "Changed elsewhere" in _file(served, "iced").read_text(encoding="utf-8")


@pytest.mark.parametrize("step", ["archive", "retire", "move"])
def test_an_undo_of_steps_of_several_leaves_alone_the_one_that_another_changed(
    page: Page, served: Served, trouble: Trouble, step: str
) -> None:
    trouble.expects("409")
    page.goto("/")
    for box in page.locator("#results [data-item] input").all():
        box.check()
    page.locator(f"[data-bulk={step}]").click()
    if step == "move":
        page.get_by_label("Collection").fill("drinks")
    if step != "archive":
        page.keyboard.press("Enter")
    _has_toast(page, f"3 memories {'moved' if step == 'move' else step + 'd'}.")
    served.run("update", "iced", "--title", "Changed elsewhere")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("dialog .failures li")).to_have_count(1)
    expect(page.locator("dialog .failures")).to_contain_text("Look at it as it is now")
    _has_toast(page, "2 of 3 undone.")
    for name in ("tea", "bread"):
        assert served.api("GET", f"/memories/here/memories/{name}")["status"] == "active"
    there = "drinks" if step == "move" else "memories"
    found = served.api("GET", f"/memories/here/{there}/iced")
    assert found["title"] == "Changed elsewhere"
    assert found["status"] == ("active" if step == "move" else f"{step}d")


def test_an_undo_that_nobody_heard_can_be_tried_again(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("net::ERR")
    page.goto("/")
    before = _file(served, "tea").read_bytes()
    page.get_by_label("Choose Green tea").check()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.context.set_offline(True)
    page.get_by_role("button", name="Undo").click()
    again = page.locator(".toast", has_text="Retain does not answer.").get_by_role("button")
    expect(again).to_be_visible()
    page.context.set_offline(False)
    again.click()
    _has_toast(page, "Undone.")
    assert _file(served, "tea").read_bytes() == before


def test_what_was_changed_since_it_was_chosen_is_neither_merged_nor_deleted(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("409")
    page.goto("/?sort=title")
    for number in (1, 2):
        with page.expect_response(re.compile("/api/v1/memories/here/")):
            page.locator("#results [data-item] input[type=checkbox]").nth(number).click()
    page.locator("[data-bulk=merge]").click()
    expect(page.get_by_label("Title")).to_have_value("Green tea")
    served.run("update", "iced", "--content", "-", input="# Iced tea\n\nWith lemon.\n")
    page.get_by_role("button", name="Merge", exact=True).last.click()
    expect(page.get_by_role("alert")).to_contain_text("changed by someone else")
    page.keyboard.press("Escape")  # nothing was written, so nothing is asked
    expect(page.locator("#chosen")).to_have_text("2 chosen")
    page.locator("[data-bulk=delete]").click()
    expect(page.locator("dialog li")).to_contain_text("Iced tea")
    assert not _file(served, "tea").exists()
    assert "With lemon." in _file(served, "iced").read_text(encoding="utf-8")


def test_a_merged_text_outlives_every_refusal(page: Page, served: Served, trouble: Trouble) -> None:
    trouble.expects("404", "409")
    page.goto("/?sort=title")
    for number in (1, 2):
        page.locator("#results [data-item] input[type=checkbox]").nth(number).click()
    page.locator("[data-bulk=merge]").click()
    dialog = page.locator("dialog[open]")
    text, name, done = dialog.locator("[name=text]"), dialog.locator("[name=id]"), "# Tea\n\nBoth."
    merge = dialog.get_by_role("button", name="Merge", exact=True)
    text.fill(done)
    name.fill("bread")
    merge.click()
    expect(dialog.get_by_role("alert")).to_contain_text("bread")
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(dialog.get_by_role("button", name="Discard it")).to_be_visible()
    served.run("update", "iced", "--content", "-", input="# Iced tea\n\nWith lemon.\n")
    name.fill("teas")
    merge.click()
    expect(dialog.get_by_label("“Iced tea”, as it is now")).to_have_value(re.compile("With lemon"))
    expect(text).to_have_value(done)
    merge.click()
    expect(page).to_have_url(re.compile("/teas$"))
    assert done in _file(served, "teas").read_text(encoding="utf-8")
    _take_back(page, "Merged 2 memories.")
    expect(page).to_have_url(re.compile("/tea$"))
    assert not _file(served, "teas").exists()
    assert "With lemon." in _file(served, "iced").read_text(encoding="utf-8")
    assert _file(served, "tea").exists()


def test_several_are_untagged_and_moved_and_each_is_undone_at_once(
    page: Page, served: Served
) -> None:
    page.goto("/?sort=title")
    hot = page.locator("#results .tag", has_text="hot")
    boxes = page.locator("#results [data-item] input[type=checkbox]")
    for number in (0, 1):
        boxes.nth(number).click()
    page.locator("[data-bulk=untag]").click()
    page.get_by_label("Tags, with commas").fill("hot")
    page.keyboard.press("Enter")
    expect(hot).to_have_count(0)
    _take_back(page, "2 memories untagged")
    expect(hot).to_have_count(1)
    for number in (0, 1):
        boxes.nth(number).click()
    page.locator("[data-bulk=move]").click()
    page.get_by_label("Collection").fill("kitchen")
    page.keyboard.press("Enter")
    _has_toast(page, "2 memories moved")
    assert {one.name for one in (served.bank / "kitchen").glob("*.md")} == {"bread.md", "tea.md"}
    expect(page.locator("#results [data-collection=kitchen]")).to_have_count(2)
    _take_back(page, "2 memories moved")
    expect(page.locator("#results [data-collection=memories]")).to_have_count(3)
    assert all(_file(served, name).exists() for name in ("tea", "iced", "bread"))


def test_all_of_a_page_are_chosen_at_once_and_put_in_force_again(
    page: Page, served: Served
) -> None:
    served.api("POST", "/memories/here/memories/tea/archive")
    served.api("POST", "/memories/here/memories/iced/retire")
    page.goto("/?sort=title&status=active&status=archived&status=retired")
    expect(_titles(page)).to_have_count(3)
    page.keyboard.press("Shift+X")
    expect(page.locator("#chosen")).to_have_text("3 chosen")
    page.get_by_label("Choose Bread").uncheck()
    everything = page.get_by_label("Choose all on this page")
    assert everything.evaluate("(one) => one.indeterminate")
    everything.check()
    expect(page.locator("#chosen")).to_have_text("3 chosen")
    page.get_by_role("button", name="Put in force again").click()
    expect(page.locator("#results .badge")).to_have_count(0)
    _take_back(page, "3 memories in force again")
    expect(page.locator("#results .badge.archived")).to_have_count(1)
    expect(page.locator("#results .badge.retired")).to_have_count(1)
    for key in ("Shift+X", "Shift+X"):
        page.keyboard.press(key)
    expect(page.locator("#bulk")).to_be_hidden()
    page.get_by_label("Choose Bread").check()
    expect(page.get_by_role("button", name="Put in force again")).to_be_hidden()


def test_everything_can_be_done_by_keys_alone(page: Page, served: Served) -> None:
    page.goto("/?sort=title")
    expect(_titles(page)).to_have_text(["Bread", "Green tea", "Iced tea"])
    for key in ("j", "j", "x", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator("#chosen")).to_have_text("2 chosen")
    page.keyboard.press("b")
    expect(page.locator("[data-bulk=tag]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#results a", has_text="Iced tea")).to_be_focused()
    page.keyboard.press("b")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#results .badge.archived")).to_have_count(2)
    expect(page.locator("#results a", has_text="Iced tea")).to_be_focused()
    page.keyboard.press("u")
    expect(page.locator("#results .badge.archived")).to_have_count(0)
    page.keyboard.press("k")
    page.keyboard.press("k")
    page.keyboard.press("k")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/tea$"))
    page.wait_for_load_state()  # keys count once the page's script runs
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("/edit$"))
    page.wait_for_load_state()
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type(" Sip.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".prose")).to_contain_text("Sip.")


def test_keys_go_on_while_the_list_is_renewed(page: Page, served: Served) -> None:
    with page.expect_response("**/api/v1/events"):  # from then on it hears of changes
        page.goto("/?sort=title")
    page.keyboard.press("j")
    expect(page.locator("#results a", has_text="Bread")).to_be_focused()
    address = re.compile(r"/\?sort=title$")
    page.route(address, lambda _: None)
    with page.expect_request(address):
        served.run("update", "iced", "--tags", "chilled")
    page.keyboard.press("j")
    page.unroute(address)  # which lets those that are held go on
    expect(page.locator("#results")).to_contain_text("chilled")
    expect(page.locator("#results a", has_text="Green tea")).to_be_focused()


def test_an_empty_bank_teaches_the_first_step(page: Page, served: Served) -> None:
    for name in ("tea", "iced", "bread"):
        served.api("DELETE", f"/memories/here/memories/{name}")
    page.goto("/")
    expect(page.locator("#results")).to_contain_text("retain put -")
    served.run("put", "-", "--id", "first", input="# The first\n\nOne.\n")
    expect(_titles(page)).to_have_text(["The first"])
