"""Typed memories are written in fields: on Markdown and on JSON, and no word of it is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.web import stage
from tests.web.stage import Served, Trouble

pytestmark = pytest.mark.slow

PLAIN = {"RETAIN_RECALL_EMBEDDER": "none"}
SCHEMA = {
    "type": "object",
    "properties": {
        "impact": {"type": "string"},
        "minutes": {"type": "integer", "minimum": 0},
        "paged": {"type": "boolean"},
        "causes": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "numbers": {"type": "array", "items": {"type": "number"}},
    },
    "required": ["impact", "causes"],
}
CONTENT: Mapping[str, dict[str, Any]] = {
    "decision": {
        "status": "accepted",
        "context": "One writer is not enough",
        "decision": "Postgres 17",
        "rationale": ["transactional DDL", "we know it"],
        "alternatives": [{"option": "MySQL", "rejected_reason": "no transactional DDL"}],
    },
    "runbook": {
        "trigger": "the queue is stuck",
        "steps": ["look", "end the worker"],
        "verification": "it moves",
    },
    "incident": {
        "impact": "no orders",
        "minutes": 34,
        "causes": ["a certificate"],
        "odd": {"a": [1]},
    },
}
FOLDERS = {"decision": "decisions", "runbook": "runbooks", "incident": "incidents"}
_NAMES = count()


@pytest.fixture(scope="module", params=["markdown", "json"])
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A project's bank, or a store of JSON records, with a category of its own."""
    home = tmp_path_factory.mktemp("sheets")
    own = {"folder": "incidents", "schema": ".schemas/incident.json"}
    if request.param == "markdown":
        bank = home / "work" / ".retain"
        lines = ["[categories.incident]", *(f'{key} = "{value}"' for key, value in own.items())]
        config, text = "config.toml", "\n".join(lines)
    else:
        bank = home / "work" / ".claude" / "memory"
        config, text = "memory-config.json", json.dumps({"categories": {"incident": own}})
    (bank / ".schemas").mkdir(parents=True)
    (bank / ".schemas" / "incident.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (bank / config).write_text(text, encoding="utf-8")
    with stage.started(home, env=PLAIN) as server:
        yield server


def content_of(shown: Mapping[str, Any]) -> dict[str, Any]:
    head = (
        json.loads(shown["source"]) if shown["file_path"].endswith(".json") else shown["metadata"]
    )
    found: dict[str, Any] = head["content"]
    return found


class Stored:
    """A typed memory of its own for a test."""

    def __init__(self, served: Served, category: str = "decision", **more: Any) -> None:
        self.served, self.name = served, f"one-{next(_NAMES)}"
        self.collection = FOLDERS[category]
        content = {**CONTENT[category], **more}
        given = {"category": category, "content": content, "title": "Use Postgres", "id": self.name}
        served.api("POST", "/records/here", {**given, "tags": ["sql"]})

    @property
    def api(self) -> str:
        return f"/memories/here/{self.collection}/{self.name}"

    @property
    def page(self) -> str:
        return f"/memory/here/{self.collection}/{self.name}"

    @property
    def content(self) -> dict[str, Any]:
        return content_of(self.shown)

    @property
    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = self.served.api("GET", self.api)
        return found

    @property
    def path(self) -> Path:
        return Path(self.shown["file_path"])

    def changed(self, **fields: object) -> None:
        """Someone else changes it."""
        self.served.api("PUT", f"{self.api}/content", {"content": fields})


def opened(page: Page, path: str) -> None:
    """A page that hears of changes."""
    with page.expect_response("**/api/v1/events"):
        page.goto(path)
    stage.until(
        page, "navigator.locks.query().then === undefined || document.getElementById('edit')"
    )


def field(page: Page, label: str) -> Locator:
    return page.get_by_label(re.compile(f"^{label}\\b"))


def alternatives(page: Page) -> Locator:
    return page.get_by_role("group", name="Alternatives").get_by_role("listitem")


def save(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()


def at(page: Page, path: str) -> None:
    expect(page).to_have_url(re.compile(f"{re.escape(path)}$"))


# Editing


def test_a_decision_is_changed_where_it_was_touched_and_nowhere_else(
    page: Page, served: Served
) -> None:
    one = Stored(served)
    if one.path.suffix == ".md":
        text = one.path.read_text(encoding="utf-8").replace("title:", "mine: [a,  b]\ntitle:", 1)
        one.path.write_text(f"{text}\nBelow.\r\n", encoding="utf-8", newline="")
    with page.expect_request("**/content") as sent:
        page.goto(f"{one.page}/edit")
        expect(field(page, "Status")).to_be_focused()
        field(page, "Status").select_option("deprecated")
        field(page, "Rationale").fill("transactional DDL\n\n  and it is fast  \n")
        save(page)
    at(page, one.page)
    body: dict[str, Any] = sent.value.post_data_json or {}
    assert body.keys() == {"content", "expect"}
    assert body["content"] == {
        "status": "deprecated",
        "rationale": ["transactional DDL", "and it is fast"],
    }
    assert one.content == {**CONTENT["decision"], **body["content"]}
    if one.path.suffix == ".md":
        raw = one.path.read_bytes()
        assert raw.endswith(b"\nBelow.\r\n")
        assert b"mine: [a,  b]\n" in raw
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("Undone")
    assert one.content == CONTENT["decision"]


def test_rows_are_added_and_taken_out(page: Page, served: Served) -> None:
    one = Stored(served)
    page.goto(f"{one.page}/edit")
    rows = alternatives(page)
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Add one to Alternatives").click()
    expect(rows.nth(1).get_by_label("Option")).to_be_focused()
    rows.nth(1).get_by_label("Option").fill("SQLite")
    rows.nth(1).get_by_label("Rejected reason").fill("one writer")
    rows.nth(0).get_by_role("button", name="Remove").click()
    save(page)
    at(page, one.page)
    assert one.content["alternatives"] == [{"option": "SQLite", "rejected_reason": "one writer"}]
    page.goto(f"{one.page}/edit")
    rows.get_by_role("button", name="Remove").click()
    save(page)
    at(page, one.page)
    assert "alternatives" not in one.content


def test_a_row_that_lacks_something_is_pointed_at(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("422")
    one = Stored(served)
    page.goto(f"{one.page}/edit")
    page.get_by_role("button", name="Add one to Alternatives").click()
    page.keyboard.type("SQLite")
    save(page)
    box = alternatives(page).nth(1).get_by_label("Rejected reason")
    expect(box).to_be_focused()
    expect(box).to_have_attribute("aria-invalid", "true")
    assert one.content == CONTENT["decision"]


def test_a_runbook_is_edited_with_keys_alone(page: Page, served: Served) -> None:
    one = Stored(served, "runbook")
    page.goto(one.page)
    page.keyboard.press("e")
    at(page, f"{one.page}/edit")
    expect(field(page, "Trigger")).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(field(page, "Steps")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nwatch it")
    page.keyboard.press("Control+Enter")
    at(page, one.page)
    assert one.content == {
        **CONTENT["runbook"],
        "steps": ["look", "end the worker", "watch it"],
    }


def test_a_category_of_ones_own_keeps_what_its_form_does_not_know(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("422")
    one = Stored(served, "incident")
    page.goto(f"{one.page}/edit")
    expect(page.locator("#sheet")).to_contain_text("It also has odd")
    field(page, "Minutes").fill("many")
    field(page, "Paged").select_option("no")
    field(page, "Numbers").fill("[1, 2")
    save(page)
    expect(field(page, "Numbers")).to_be_focused()
    expect(page.locator("[data-field=numbers] .fault")).to_have_text("Expected JSON; got [1, 2.")
    field(page, "Numbers").fill("[1, 2.5]")
    expect(page.locator(".fault")).to_have_count(0)
    save(page)
    expect(field(page, "Minutes")).to_be_focused()
    expect(page.locator("[data-field=minutes] .fault")).to_contain_text('got "many"')
    field(page, "Minutes").fill("35")
    save(page)
    at(page, one.page)
    more = {"minutes": 35, "paged": False, "numbers": [1, 2.5]}
    assert one.content == {**CONTENT["incident"], **more}


def test_a_value_that_no_box_gives_back_is_shown_as_json_and_stays(
    page: Page, served: Served
) -> None:
    one = Stored(served, rationale=["two\nlines", "one"])
    page.goto(f"{one.page}/edit")
    expect(field(page, "Rationale")).to_have_value(re.compile(r'"two\\nlines"'))
    field(page, "Context").fill("Another")
    save(page)
    at(page, one.page)
    assert one.content["rationale"] == ["two\nlines", "one"]


def test_title_and_tags_are_changed_beside_the_fields(page: Page, served: Served) -> None:
    one = Stored(served)
    page.goto(f"{one.page}/edit")
    page.get_by_label("Title").fill("Use Postgres 18")
    page.get_by_label("Tags").fill("sql, storage")
    save(page)
    at(page, one.page)
    assert (one.shown["title"], one.shown["tags"]) == ("Use Postgres 18", ["sql", "storage"])
    assert one.content == CONTENT["decision"]


def test_the_whole_file_can_still_be_edited(page: Page, served: Served) -> None:
    one = Stored(served)
    page.goto(f"{one.page}/edit")
    page.get_by_role("link", name="Edit the whole file").click()
    expect(page.locator("#text")).to_have_value(re.compile("Postgres 17"))
    page.get_by_role("link", name="Edit the fields").click()
    expect(field(page, "Decision")).to_have_value("Postgres 17")


# Nothing is lost


def test_what_the_schema_refuses_is_said_at_its_field_and_kept(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("422")
    one = Stored(served)
    page.goto(f"{one.page}/edit")
    field(page, "Context").fill("")
    field(page, "Decision").fill("Mine")
    save(page)
    box = field(page, "Context")
    expect(box).to_be_focused()
    expect(box).to_have_attribute("aria-invalid", "true")
    assert "Expected a string" in str(
        page.evaluate(
            "() => document.getElementById("
            "document.activeElement.getAttribute('aria-describedby')).textContent"
        )
    )
    expect(page.locator("#toasts")).to_contain_text("What you typed is still here")
    expect(page.locator("#notice")).to_be_empty()
    expect(field(page, "Decision")).to_have_value("Mine")
    box.fill("There is one")
    expect(box).not_to_have_attribute("aria-invalid", "true")
    save(page)
    at(page, one.page)


def test_a_draft_of_fields_outlives_the_tab(
    page: Page, context: BrowserContext, served: Served
) -> None:
    one = Stored(served)
    page.goto(f"{one.page}/edit")
    field(page, "Context").fill("Typed for an hour")
    page.get_by_role("button", name="Add one to Alternatives").click()
    page.keyboard.type("SQLite")
    page.close(run_before_unload=False)
    other = context.new_page()
    other.goto(f"{one.page}/edit")
    expect(field(other, "Context")).to_have_value("Typed for an hour")
    expect(alternatives(other).nth(1).get_by_label("Option")).to_have_value("SQLite")
    expect(other.locator("#notice")).to_contain_text("not saved is back")
    expect(field(other, "Status")).to_have_value("accepted")
    alternatives(other).nth(1).get_by_label("Rejected reason").fill("one writer")
    save(other)
    at(other, one.page)
    assert one.content["context"] == "Typed for an hour"
    assert [row["option"] for row in one.content["alternatives"]] == ["MySQL", "SQLite"]


@pytest.mark.parametrize("keeps", ["mine", "theirs"])
def test_two_who_changed_the_same_see_both_and_decide(
    page: Page, served: Served, trouble: Trouble, keeps: str
) -> None:
    trouble.expects("409", "ERR_FAILED")
    one = Stored(served)
    page.route("**/api/v1/events", lambda route: route.abort())  # no word of the other's change
    page.goto(f"{one.page}/edit")
    field(page, "Context").fill("Mine")
    one.changed(context="Theirs", rationale=["theirs alone"])
    save(page)
    expect(page.locator("#conflict-title")).to_be_focused()
    sides = page.locator("#differences tr", has_text="Theirs").locator("td")
    expect(sides.nth(0)).to_contain_text("Theirs")
    expect(sides.nth(1)).to_contain_text("Mine")
    expect(page.locator("#heads-apart")).to_contain_text("Context: both of you changed it.")
    expect(page.locator("#heads-apart")).to_contain_text("Rationale: theirs stays")
    assert one.content["context"] == "Theirs"
    if keeps == "theirs":
        page.get_by_role("button", name="Take theirs").click()
        expect(field(page, "Context")).to_have_value("Theirs")
        expect(field(page, "Rationale")).to_have_value("theirs alone")
        page.get_by_role("button", name="Bring mine back").click()
        expect(field(page, "Context")).to_have_value("Mine")
        save(page)
    else:
        page.get_by_role("button", name="Save mine over it").click()
    at(page, one.page)
    assert (one.content["context"], one.content["rationale"]) == ("Mine", ["theirs alone"])


def choices(page: Page, label: str) -> Locator:
    """The two of a field that both have changed: theirs, then one's own."""
    return page.locator("#heads-apart").get_by_role("group", name=label).get_by_role("radio")


def disagreed(page: Page, one: Stored) -> None:
    """Two have changed a text, rows and the title; each also something that the other has not."""
    page.route("**/api/v1/events", lambda route: route.abort())  # no word of the other's change
    page.goto(f"{one.page}/edit")
    field(page, "Context").fill("Mine")
    field(page, "Decision").fill("Mine too")
    field(page, "Status").select_option("deprecated")
    page.get_by_role("button", name="Add one to Alternatives").click()
    alternatives(page).last.get_by_label("Option").fill("Mine")
    alternatives(page).last.get_by_label("Rejected reason").fill("none")
    page.get_by_label("Title", exact=True).fill("Mine")
    theirs = {"option": "Theirs", "rejected_reason": "slow"}
    one.changed(context="Theirs", decision="Theirs", rationale=["x"], alternatives=[theirs])
    one.served.api("PUT", f"{one.api}/content", {"title": "Theirs"})
    save(page)
    expect(page.locator("#conflict-title")).to_be_focused()


def test_of_each_field_that_both_changed_one_is_chosen_with_keys_alone(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("409", "ERR_FAILED")
    one = Stored(served)
    disagreed(page, one)
    groups = page.locator("#heads-apart").get_by_role("group")
    labels = ["Title", "Context", "Decision", "Alternatives"]
    assert sorted(groups.locator("strong").all_inner_texts()) == sorted(labels)
    expect(page.locator("#heads-apart")).to_contain_text("Status: yours stays")
    expect(page.locator("#heads-apart")).to_contain_text("Rationale: theirs stays")
    expect(
        groups.get_by_label("Keep theirs: “Option: Theirs Rejected reason: slow”")
    ).to_be_visible()
    for label in labels:
        expect(choices(page, label).nth(1)).to_be_checked()
    for label in ("Context", "Alternatives"):
        for _ in range(20):
            if choices(page, label).nth(1).evaluate("one => one === document.activeElement"):
                break
            page.keyboard.press("Tab")
        page.keyboard.press("ArrowUp")
        expect(choices(page, label).nth(0)).to_be_checked()
    page.get_by_role("button", name="Save as chosen").focus()
    with page.expect_request("**/content") as sent:
        page.keyboard.press("Enter")
    at(page, one.page)
    body: dict[str, Any] = sent.value.post_data_json or {}
    assert body["content"] == {"status": "deprecated", "decision": "Mine too"}
    assert (one.shown["title"], one.content["rationale"]) == ("Mine", ["x"])
    assert (one.content["context"], one.content["decision"]) == ("Theirs", "Mine too")
    assert [row["option"] for row in one.content["alternatives"]] == ["Theirs"]


def test_what_was_chosen_outlives_another_change_and_what_was_typed_a_refusal(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("409", "ERR_FAILED")
    one = Stored(served)
    disagreed(page, one)
    choices(page, "Context").nth(0).check()
    page.get_by_label("Title", exact=True).press("Enter")  # decides nothing
    expect(page.locator("#conflict-title")).to_be_focused()
    expect(choices(page, "Context").nth(0)).to_be_checked()
    one.changed(decision="Theirs again")
    page.get_by_role("button", name="Save as chosen").click()
    expect(page.locator("#theirs")).to_have_value(re.compile("Theirs again"))
    expect(field(page, "Context")).to_have_value("Mine")  # nothing that was typed is gone
    expect(choices(page, "Context").nth(0)).to_be_checked()
    expect(choices(page, "Decision").nth(1)).to_be_checked()
    assert one.content["decision"] == "Theirs again"
    field(page, "Context").fill("Mine, after all")
    page.get_by_role("button", name="Save as chosen").click()
    at(page, one.page)
    assert (one.content["context"], one.content["decision"]) == ("Mine, after all", "Mine too")


def test_word_of_a_change_fills_the_fields_until_something_is_typed(
    page: Page, served: Served
) -> None:
    one = Stored(served)
    opened(page, f"{one.page}/edit")
    page.evaluate("window.isSame = true")
    field(page, "Context").focus()
    one.changed(context="Theirs", alternatives=[{"option": "a", "rejected_reason": "b"}] * 2)
    expect(field(page, "Context")).to_have_value("Theirs")
    expect(field(page, "Context")).to_be_focused()
    expect(alternatives(page)).to_have_count(2)
    field(page, "Decision").fill("Mine")
    one.changed(context="Theirs again", decision="Theirs too")
    expect(page.locator("#notice")).to_contain_text("changed elsewhere")
    expect(field(page, "Context")).to_have_value("Theirs")
    expect(field(page, "Decision")).to_have_value("Mine")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#heads-apart")).to_contain_text("Decision: both of you changed it.")
    page.get_by_role("button", name="Save mine over it").click()
    at(page, one.page)
    assert (one.content["context"], one.content["decision"]) == ("Theirs again", "Mine")
    assert page.evaluate("window.isSame === undefined")


def test_what_was_typed_into_a_typed_memory_that_is_gone_becomes_one(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("404")
    one = Stored(served)
    opened(page, f"{one.page}/edit")
    field(page, "Context").fill("Mine")
    one.path.unlink()
    expect(page.locator("#notice")).to_contain_text("This memory is gone")
    page.get_by_role("button", name="Store it as a new memory").click()
    expect(page.locator("#toasts")).to_contain_text(f"Stored as {one.name}")
    assert one.content == {**CONTENT["decision"], "context": "Mine"}


def test_a_file_that_broke_meanwhile_costs_no_word(
    page: Page, served: Served, trouble: Trouble
) -> None:
    trouble.expects("422", "409")
    one = Stored(served)
    opened(page, f"{one.page}/edit")
    field(page, "Context").fill("Mine")
    path = one.path
    broken = b'{"content": ' if path.suffix == ".json" else b"---\ncontent: [\n---\n"
    path.write_bytes(broken)
    expect(page.locator("#notice")).to_contain_text("cannot be shown in these fields any more")
    save(page)
    expect(field(page, "Context")).to_have_value("Mine")
    page.get_by_role("button", name="Store it as a new memory").click()
    expect(page.locator("#toasts")).to_contain_text(f"Stored as {one.name}-")
    assert path.read_bytes() == broken
    path.unlink()


# New ones


def test_a_decision_is_begun_in_its_form(page: Page, served: Served, trouble: Trouble) -> None:
    trouble.expects("422")
    page.goto("/new")
    page.get_by_label("Form").select_option("Decision")
    expect(page.locator("#text")).to_be_hidden()
    expect(field(page, "Collection")).to_be_hidden()
    title = f"Use Postgres {next(_NAMES)}"
    page.get_by_label("Title").fill(title)
    save(page)
    expect(field(page, "Status")).to_be_focused()
    expect(page.locator(".fault")).to_have_count(4)
    field(page, "Status").select_option("proposed")
    field(page, "Context").fill("A")
    field(page, "Decision").fill("B")
    field(page, "Rationale").fill("one\ntwo")
    save(page)
    name = title.lower().replace(" ", "-")
    at(page, f"/memory/here/decisions/{name}")
    found = served.api("GET", f"/memories/here/decisions/{name}")
    assert content_of(found) == {
        "status": "proposed",
        "context": "A",
        "decision": "B",
        "rationale": ["one", "two"],
    }
    assert found["type"] == "decision"
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#toasts")).to_contain_text("Undone")
    assert served.get(f"/api/v1/memories/here/decisions/{name}").status_code == 404


def test_the_name_of_a_category_in_the_field_for_types_means_its_form(
    page: Page, served: Served
) -> None:
    page.goto("/new")
    page.locator("#text").fill("The queue is stuck")
    page.get_by_label("Type").fill("runbook")
    page.get_by_label("Type").press("Tab")
    expect(field(page, "Trigger")).to_have_value("The queue is stuck")
    field(page, "Steps").fill("look")
    field(page, "Verification").fill("it moves")
    page.get_by_label("Form").select_option("Incident")
    expect(field(page, "Impact")).to_have_value("The queue is stuck")
    page.get_by_label("Form").select_option("Free text")
    expect(page.locator("#text")).to_have_value("The queue is stuck")
    page.get_by_label("Form").select_option("Runbook")
    expect(field(page, "Steps")).to_have_value("look")
    page.get_by_label("Title").fill(f"Queue {next(_NAMES)}")
    save(page)
    at(page, f"/memory/here/runbooks/queue-{next(_NAMES) - 1}")
    expect(page.locator("#memory")).to_contain_text("it moves")


def test_a_draft_of_a_new_incident_comes_back_in_its_form(
    page: Page, context: BrowserContext
) -> None:
    tab = context.new_page()  # one that nobody watches, and so may ask before it is left
    tab.on("dialog", lambda dialog: dialog.accept())
    tab.goto("/new")
    tab.get_by_label("Form").select_option("Incident")
    field(tab, "Impact").fill("No orders at all")
    field(tab, "Causes").fill("a certificate")
    tab.reload()
    expect(field(tab, "Impact")).to_have_value("No orders at all")
    expect(tab.get_by_label("Form")).to_have_value("incident")
    tab.close(run_before_unload=False)
    other = page
    other.goto("/new")
    expect(other.locator("#notice")).to_contain_text("“No orders at all”")
    other.get_by_role("button", name="Bring it back").click()
    expect(field(other, "Causes")).to_have_value("a certificate")
    title = f"Down {next(_NAMES)}"
    other.get_by_label("Title").fill(title)
    save(other)
    at(other, f"/memory/here/incidents/{title.lower().replace(' ', '-')}")


def test_a_new_one_in_the_other_bank_has_the_categories_of_that_bank(
    page: Page, served: Served
) -> None:
    page.goto("/new?type=incident")
    expect(field(page, "Impact")).to_be_visible()
    page.get_by_label("Bank").select_option("yours")
    expect(page.locator("#text")).to_be_visible()
    expect(page.get_by_label("Form").locator("option", has_text="Incident")).to_have_count(0)
    page.get_by_label("Form").select_option("Preference")
    for name in ("Topic", "Value", "Reason"):
        field(page, name).fill(name.lower())
    field(page, "Strength").select_option("soft")
    field(page, "Prefer").fill("tabs\nspaces")
    title = f"Taste {next(_NAMES)}"
    page.get_by_label("Title").fill(title)
    save(page)
    name = title.lower().replace(" ", "-")
    at(page, f"/memory/global/preferences/{name}")
    found = served.api("GET", f"/memories/global/preferences/{name}")
    assert content_of(found)["examples"] == {"prefer": ["tabs", "spaces"]}


def test_a_form_fits_a_phone(browser: Browser, served: Served, trouble: Trouble) -> None:
    one = Stored(served, context="word " * 200)
    made = browser.new_context(
        base_url=served.url, reduced_motion="reduce", viewport={"width": 360, "height": 700}
    )
    page = stage.enter(made, served, trouble)
    for path in (f"{one.page}/edit", "/new?type=preference"):
        page.goto(path)
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0
        last = page.locator("#sheet textarea").last
        last.scroll_into_view_if_needed()
        expect(last).to_be_in_viewport()
        box = last.bounding_box()
        assert box
        assert box["width"] > 250
    made.close()
    assert not trouble.seen


def test_hostile_words_are_words_in_every_field(
    page: Page, served: Served, trouble: Trouble
) -> None:
    bad = '"></textarea><script>window.pwned=1</script><img src=x onerror=window.pwned=1>'
    content: dict[str, Any] = {
        "context": bad,
        "decision": f"\n{bad}",
        "rationale": [bad, f"'{bad}"],
        "alternatives": [{"option": bad, "rejected_reason": bad}],
    }
    one = Stored(served, **content)
    opened(page, f"{one.page}/edit")
    assert field(page, "Context").input_value() == bad
    assert field(page, "Decision").input_value() == f"\n{bad}"
    assert field(page, "Option").input_value() == bad
    one.changed(consequences=[bad])
    expect(field(page, "Consequences")).to_have_value(bad)
    field(page, "Context").fill(f"{bad}!")
    save(page)
    at(page, one.page)
    assert one.content["context"] == f"{bad}!"
    assert one.content["decision"] == f"\n{bad}"
    assert page.evaluate("window.pwned") is None
