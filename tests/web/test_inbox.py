"""The inbox: proposals looked at, accepted, changed, dropped, and each of that undone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web import stage
from tests.web.stage import Begin, Served

HOSTILE = "<img src=x onerror=alert(1)>"
_PROPOSE = """
import json, os, sys
from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal
root, every = json.load(sys.stdin)
for fields in every:
    print(Inbox(root, os.environ).propose(Proposal("", **fields)))
"""


@pytest.fixture
def served(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    """A server for each test: what one accepts another must not find there."""
    with stage.started(
        tmp_path, project=True, env={"RETAIN_RECALL_EMBEDDER": "none"}, begin=begin
    ) as server:
        yield server


def propose(served: Served, *titles: str, root: Path | None = None, **more: Any) -> str:
    """Propose as a hook does, in a process of its own."""
    every = [
        {
            "category": "decision",
            "title": title,
            "text": f"Text of {title}. Because it is so.",
            "host": "claude-code",
            "session_id": "s1",
            "created_at": "2026-11-15T10:00:00Z",
            **more,
        }
        for title in titles
    ]
    done = subprocess.run(
        [sys.executable, "-c", _PROPOSE],
        input=json.dumps([str(root or served.bank), every]).encode(),
        env=stage.world(served.home),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def inbox(served: Served) -> Any:
    return served.api("GET", "/inbox")


def waiting(served: Served) -> list[str]:
    return [one["title"] for one in inbox(served)["proposals"]]


def of(*names: str) -> dict[str, Any]:
    return {"proposals": [{"id": name} for name in names]}


def test_proposals_are_listed_with_their_words_and_where_they_are_from(served: Served) -> None:
    propose(served, "Use Postgres")
    (one,) = inbox(served)["proposals"]
    assert one["title"] == "Use Postgres"
    assert one["text"].startswith("Text of Use Postgres.")
    assert one["source"] == "claude-code session s1"
    assert one["scope"] == "here"
    assert served.api("GET", "/inbox/count") == {"count": 1}


def test_proposals_of_the_persons_own_bank_are_there_as_well(served: Served) -> None:
    served.api("POST", "/memories/global", {"text": "# Mine\n"})
    name = propose(served, "Mine", root=served.home / ".retain")
    (one,) = inbox(served)["proposals"]
    assert one["scope"] == "global"
    assert served.api("POST", "/inbox/global/accept", of(name))["accepted"][0]["title"] == "Mine"
    assert list((served.home / ".retain" / "decisions").iterdir())


def test_accepted_proposal_is_a_memory_and_can_be_taken_back(served: Served) -> None:
    name = propose(served, "Use Postgres")
    (done,) = served.api("POST", "/inbox/here/accept", of(name))["accepted"]
    assert waiting(served) == []
    where = f"/memories/here/{done['collection']}/{done['id']}"
    assert served.api("GET", where)["title"] == "Use Postgres"
    back = {"memory": f"{done['collection']}/{done['id']}", "expect": done["hash"]}
    assert served.api("POST", f"/inbox/here/{name}/reopen", back) == {"id": name}
    assert waiting(served) == ["Use Postgres"]
    assert served.get(f"/api/v1{where}").status_code == 404


def test_memory_that_was_changed_since_is_not_taken_back(served: Served) -> None:
    name = propose(served, "Use Postgres")
    (done,) = served.api("POST", "/inbox/here/accept", of(name))["accepted"]
    back = {"memory": f"{done['collection']}/{done['id']}", "expect": "0" * 64}
    assert served.post(f"/api/v1/inbox/here/{name}/reopen", back).status_code == 409
    assert waiting(served) == []


def test_dropped_proposal_is_restored(served: Served) -> None:
    name = propose(served, "Use Postgres")
    assert served.api("POST", "/inbox/here/drop", of(name))["dropped"] == [name]
    assert [one["id"] for one in inbox(served)["dropped"]] == [name]
    assert served.api("POST", "/inbox/here/restore", of(name))["restored"] == [name]
    assert waiting(served) == ["Use Postgres"]


def test_several_are_accepted_and_one_that_is_refused_stays(served: Served) -> None:
    names = [propose(served, title) for title in ("One", "Two")]
    odd = propose(served, "Odd", category="gossip")
    done = served.api("POST", "/inbox/here/accept", of(*names, odd))
    assert len(done["accepted"]) == 2
    assert [one["id"] for one in done["refused"]] == [odd]
    assert waiting(served) == ["Odd"]


def test_words_are_changed_unless_someone_else_changed_them_first(served: Served) -> None:
    name = propose(served, "Use Postgres")
    (seen,) = inbox(served)["proposals"]
    words = {"title": "Use MySQL", "category": "constraint", "text": "New.", "expect": seen["hash"]}
    changed = served.api("PUT", f"/inbox/here/{name}", words)
    assert (changed["title"], changed["category"], changed["text"]) == (
        "Use MySQL",
        "constraint",
        "New.",
    )
    assert served.put(f"/api/v1/inbox/here/{name}", words).status_code == 409
    stale = {"proposals": [{"id": name, "expect": seen["hash"]}]}
    assert served.post("/api/v1/inbox/here/accept", stale).status_code == 409
    assert waiting(served) == ["Use MySQL"]


def test_secret_in_changed_words_is_taken_out(served: Served) -> None:
    name = propose(served, "Use Postgres")
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    words = {"title": "Key", "category": "decision", "text": f"The key is {secret}."}
    assert secret not in served.api("PUT", f"/inbox/here/{name}", words)["text"]


@pytest.mark.parametrize(
    "method, path, body, status",
    [
        ("POST", "/inbox/here/accept", of("0" * 16), 404),
        ("POST", "/inbox/here/accept", of("../x"), 400),
        ("POST", "/inbox/here/drop", {"proposals": []}, 400),
        ("POST", "/inbox/elsewhere/drop", of("0" * 16), 404),
        ("PUT", "/inbox/here/nothing", {"title": "a", "category": "b", "text": "c"}, 404),
        ("GET", "/inbox/here/..%2f..%2fx/talk", None, 404),
        ("POST", "/inbox/here/0000000000000000/reopen", {"memory": "a", "expect": "b"}, 404),
    ],
)
def test_what_is_not_there_or_not_understood_is_refused(
    method: str, path: str, body: object, status: int, served: Served
) -> None:
    propose(served, "Use Postgres")
    assert served.ask(method, f"/api/v1{path}", json=body).status_code == status
    assert waiting(served) == ["Use Postgres"]


def transcript(served: Served) -> tuple[str, int]:
    folder = served.home / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    file = folder / "s1.jsonl"
    said = [("user", "Postgres or MySQL?"), ("assistant", f"Postgres, {HOSTILE}")]
    lines = [
        {"type": role, "message": {"role": role, "content": text}, "timestamp": "2026-11-15"}
        for role, text in said
    ]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return str(file), file.stat().st_size


def test_what_was_said_is_read_back_and_its_absence_is_explained(served: Served) -> None:
    file, end = transcript(served)
    name = propose(served, "Use Postgres", transcript_path=file, start=0, end=end)
    talk = served.api("GET", f"/inbox/here/{name}/talk")
    assert [one["role"] for one in talk["messages"]] == ["user", "assistant"]
    other = propose(served, "Another")
    assert served.api("GET", f"/inbox/here/{other}/talk")["missing"]


@pytest.mark.slow
def test_many_proposals_are_shown_a_page_at_a_time(served: Served) -> None:
    propose(served, *(f"Title {number}" for number in range(53)))
    shown = served.get("/inbox").text
    assert "53 proposals wait" in shown
    assert shown.count("<article") == 50
    assert "3 more wait" in shown
    assert 'href="/inbox?limit=100"' in shown
    assert served.get("/inbox?limit=100").text.count("<article") == 53


def test_empty_inbox_says_where_proposals_come_from(served: Served) -> None:
    assert "Proposals come from the sessions of your agents" in served.get("/inbox").text


# In a browser


def card(page: Page, title: str) -> Locator:
    return page.locator(".proposal").filter(has=page.get_by_role("heading", name=title))


@pytest.mark.slow
def test_proposal_is_accepted_and_that_is_undone(page: Page, served: Served) -> None:
    propose(served, "Use Postgres")
    page.goto("/inbox")
    expect(page.locator("#inbox-count")).to_have_text("1")
    card(page, "Use Postgres").get_by_role("button", name="Accept").click()
    expect(page.locator(".proposal")).to_have_count(0)
    expect(page.locator("#inbox-count")).to_be_hidden()
    assert list((served.bank / "decisions").iterdir())
    page.get_by_role("button", name="Undo").click()
    expect(card(page, "Use Postgres")).to_be_visible()
    assert not list((served.bank / "decisions").glob("*.md"))


@pytest.mark.slow
def test_keys_go_through_the_inbox(page: Page, served: Served) -> None:
    for number, title in enumerate(("First", "Second", "Third")):
        propose(served, title, created_at=f"2026-11-15T10:0{number}:00Z")
    page.goto("/inbox")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("d")
    expect(page.locator(".proposal")).to_have_count(2)
    expect(card(page, "Second")).to_have_count(0)
    expect(card(page, "Third").get_by_role("button", name="Accept")).to_be_focused()
    page.keyboard.press("a")
    expect(card(page, "Third")).to_have_count(0)
    expect(card(page, "First").get_by_role("button", name="Accept")).to_be_focused()
    page.keyboard.press("u")
    expect(card(page, "Third")).to_be_visible()


@pytest.mark.slow
def test_escape_closes_a_form_without_a_word_in_it_and_keeps_the_place(
    page: Page, served: Served
) -> None:
    for number, title in enumerate(("First", "Second")):
        propose(served, title, created_at=f"2026-11-15T10:0{number}:00Z")
    page.goto("/inbox")
    shown = page.locator(".proposal h2").all_inner_texts()
    page.keyboard.press("j")
    page.keyboard.press("e")
    page.keyboard.press("Escape")
    expect(page.locator(".proposal form").first).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("e")
    page.get_by_label("Title").last.press("End")
    page.keyboard.type("!")
    page.keyboard.press("Escape")
    expect(card(page, shown[1])).to_be_focused()
    expect(page.locator(".proposal form").last).to_be_visible()  # what is written stays
    page.keyboard.press("k")
    page.keyboard.press("e")
    card(page, shown[0]).get_by_role("button", name="Accept", exact=True).click()
    expect(card(page, shown[0])).to_have_count(0)


@pytest.mark.slow
def test_proposal_is_edited_and_then_accepted(page: Page, served: Served) -> None:
    propose(served, "Use Postgres")
    page.goto("/inbox")
    page.keyboard.press("j")
    page.keyboard.press("e")
    page.get_by_label("Title").fill("Use MySQL")
    page.get_by_label("Category").select_option("constraint")
    page.get_by_label("Text").fill("It is what there is.")
    page.get_by_role("button", name="Save and accept").click()
    expect(page.locator(".proposal")).to_have_count(0)
    (file,) = (served.bank / "constraints").glob("*.md")
    assert "Use MySQL" in file.read_text(encoding="utf-8")


@pytest.mark.slow
def test_several_are_chosen_and_dropped_at_once(page: Page, served: Served) -> None:
    for title in ("First", "Second", "Third"):
        propose(served, title)
    page.goto("/inbox")
    for title in ("First", "Third"):
        page.get_by_label(f"Choose {title}").check()
    page.get_by_role("button", name="Drop chosen").click()
    expect(page.locator(".proposal")).to_have_count(1)
    page.get_by_text("Dropped (2)").click()
    page.get_by_role("button", name="Restore First").click()
    expect(card(page, "First")).to_be_visible()
    page.get_by_role("checkbox", name="All").check()
    page.get_by_role("button", name="Accept chosen").click()
    expect(page.locator(".proposal")).to_have_count(0)
    page.get_by_role("button", name="Undo").last.click()
    expect(page.locator(".proposal")).to_have_count(2)


@pytest.mark.slow
def test_an_undo_of_several_goes_on_where_one_is_refused(
    page: Page, served: Served, trouble: stage.Trouble
) -> None:
    trouble.expects("409")
    for title in ("First", "Second", "Third"):
        propose(served, title)
    page.goto("/inbox")
    page.get_by_role("checkbox", name="All").check()
    page.get_by_role("button", name="Accept chosen").click()
    expect(page.locator(".proposal")).to_have_count(0)
    served.run("update", "decisions/first", "--title", "Changed elsewhere")
    page.get_by_role("button", name="Undo").last.click()
    expect(page.locator("dialog .failures li")).to_have_count(1)
    expect(page.locator(".proposal")).to_have_count(2)


@pytest.mark.slow
def test_refusal_is_said_and_the_proposal_stays(page: Page, served: Served) -> None:
    propose(served, "Odd", category="gossip")
    page.goto("/inbox")
    card(page, "Odd").get_by_role("button", name="Accept").click()
    expect(page.locator(".toast.bad")).to_be_visible()
    expect(card(page, "Odd")).to_be_visible()


@pytest.mark.slow
def test_proposal_arrives_while_one_looks_and_takes_no_word_from_who_is_writing(
    page: Page, served: Served
) -> None:
    propose(served, "First")
    page.goto("/inbox")
    expect(page.locator("#inbox-count")).to_have_text("1")
    propose(served, "Second")
    expect(card(page, "Second")).to_be_visible()
    card(page, "First").get_by_role("button", name="Edit").click()
    field = card(page, "First").get_by_label("Title")
    field.fill("Half a wor")
    propose(served, "Third")
    expect(card(page, "Third")).to_be_visible()
    expect(field).to_have_value("Half a wor")
    expect(field).to_be_focused()


@pytest.mark.slow
def test_a_renewal_under_way_takes_no_word_from_who_began_to_write(
    page: Page, served: Served
) -> None:
    propose(served, "First")
    page.goto("/inbox")
    expect(page.locator("#inbox-count")).to_have_text("1")
    page.route("**/inbox", lambda _: None)
    with page.expect_request("**/inbox"):
        propose(served, "Second")
    card(page, "First").get_by_role("button", name="Edit").click()
    field = card(page, "First").get_by_label("Title")
    field.fill("Half a wor")
    page.unroute("**/inbox")  # which lets those that are held go on
    expect(card(page, "Second")).to_be_visible()
    expect(field).to_have_value("Half a wor")
    expect(field).to_be_focused()
    card(page, "Second").get_by_role("button", name="Drop").click()
    expect(card(page, "Second")).to_have_count(0)
    expect(field).to_have_value("Half a wor")


@pytest.mark.slow
def test_what_is_written_into_proposals_is_not_lost(
    page: Page, served: Served, trouble: stage.Trouble
) -> None:
    trouble.expects("409", "401", "dialog: ")
    names = {title: propose(served, title) for title in ("First", "Second", "Third")}
    page.goto("/inbox")
    fields = {title: card(page, title).get_by_label("Title") for title in ("First", "Second")}
    for title, field in fields.items():
        card(page, title).get_by_role("button", name="Edit").click()
        field.fill(f"Half of {title}")
    card(page, "Third").get_by_role("button", name="Drop").click()
    expect(card(page, "Third")).to_have_count(0)
    page.get_by_label("Choose First").check()
    page.get_by_role("button", name="Accept chosen").click()
    expect(page.locator(".toast.bad")).to_contain_text("Save or cancel")
    words = {"title": "First", "category": "decision", "text": "Theirs."}
    served.api("PUT", f"/inbox/here/{names['First']}", words)
    card(page, "First").get_by_role("button", name="Save", exact=True).click()
    expect(card(page, "First").locator(".overtaken")).to_be_visible()
    cookies = page.context.cookies()
    page.context.clear_cookies()
    with page.expect_response(lambda answer: answer.status == 401):
        card(page, "Second").get_by_role("button", name="Save", exact=True).click()
    for title, field in fields.items():
        expect(field).to_have_value(f"Half of {title}")
    page.context.add_cookies([{**one} for one in cookies])  # type: ignore[typeddict-item]
    with page.expect_event("dialog") as asked:
        page.evaluate("location.reload()")
    assert asked.value.type == "beforeunload"
    card(page, "Second").get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Undo").last.click()
    expect(fields["Second"]).to_have_value("Half of Second")
    card(page, "Second").get_by_role("button", name="Accept", exact=True).click()
    expect(card(page, "Second")).to_have_count(0)
    assert list((served.bank / "decisions").glob("half-of-second.md"))


def overtaken(page: Page, served: Served, trouble: stage.Trouble) -> Locator:
    """A proposal that another changed while someone wrote another title into it."""
    trouble.expects("409")
    name = propose(served, "Use Postgres")
    page.goto("/inbox")
    card(page, "Use Postgres").get_by_role("button", name="Edit").click()
    page.get_by_label("Title").fill("Use MySQL")
    words = {"title": "Use SQLite", "category": "constraint", "text": "Theirs."}
    served.api("PUT", f"/inbox/here/{name}", words)
    page.get_by_role("button", name="Save", exact=True).click()
    shown = page.get_by_role("region", name="Someone else changed it first")
    expect(shown).to_be_visible()
    return shown


@pytest.mark.slow
def test_what_one_wrote_is_saved_over_what_another_did_once_both_were_seen(
    page: Page, served: Served, trouble: stage.Trouble
) -> None:
    shown = overtaken(page, served, trouble)
    expect(shown).to_contain_text("theirs “Use SQLite”, yours “Use MySQL”")
    expect(page.get_by_role("heading", name="Someone else changed")).to_be_focused()
    page.keyboard.press("Enter")  # in haste: it decides nothing
    assert waiting(served) == ["Use SQLite"]
    # Only what was written here is another's to lose.
    expect(page.get_by_label("Category")).to_have_value("constraint")
    expect(page.get_by_label("Text")).to_have_value("Theirs.")
    page.get_by_label("Text").fill("Theirs.\n\nAnd mine.")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(shown.locator(".added", has_text="And mine.")).to_be_visible()
    expect(shown.locator("th").first).to_have_text("Theirs, as it is now")
    assert waiting(served) == ["Use SQLite"]
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shown.get_by_role("button", name="Save mine over it").click()
    expect(page.get_by_role("heading", name="Use MySQL")).to_be_visible()
    expect(shown).to_have_count(0)
    (one,) = inbox(served)["proposals"]
    assert (one["title"], one["category"]) == ("Use MySQL", "constraint")
    assert one["text"] == "Theirs.\n\nAnd mine."


@pytest.mark.slow
def test_what_another_wrote_is_taken_and_ones_own_is_not_lost(
    page: Page, served: Served, trouble: stage.Trouble
) -> None:
    shown = overtaken(page, served, trouble)
    shown.get_by_role("button", name="Take theirs").click()
    expect(page.get_by_role("heading", name="Use SQLite")).to_be_visible()
    expect(shown).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_label("Title")).to_have_value("Use MySQL")
    page.get_by_role("button", name="Save and accept").click()
    expect(page.locator(".proposal")).to_have_count(0)
    assert list((served.bank / "constraints").glob("use-mysql.md"))


@pytest.mark.slow
def test_count_is_shown_on_other_pages_as_well(page: Page, served: Served) -> None:
    page.goto("/timeline")
    expect(page.locator("#inbox-count")).to_be_hidden()
    propose(served, "First")
    expect(page.locator("#inbox-count")).to_have_text("1")


@pytest.mark.slow
def test_hostile_words_are_words(page: Page, served: Served) -> None:
    file, end = transcript(served)
    more: dict[str, Any] = {"transcript_path": file, "start": 0, "end": end}
    propose(served, HOSTILE, text=f"{HOSTILE} <script>alert(2)</script>", **more)
    page.goto("/inbox")
    expect(page.get_by_role("heading", name=HOSTILE)).to_be_visible()
    page.get_by_text("What was said").click()
    expect(page.locator(".said")).to_contain_text(f"Postgres, {HOSTILE}")
    propose(served, "Another")
    expect(card(page, "Another")).to_be_visible()
    expect(page.locator(".talk[open] .said")).to_contain_text(f"Postgres, {HOSTILE}")
    assert page.locator("#inbox img, #inbox script").count() == 0


@pytest.mark.slow
def test_phone_shows_it_all(page: Page, served: Served) -> None:
    propose(served, "A title that is long enough to need more than one line on a phone")
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/inbox")
    expect(page.get_by_role("button", name="Accept", exact=True)).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
