"""Past chats in the browser: found, read, named, taken out, deleted and brought back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from retain.sessions.model import Session
from retain.web import sessions
from tests.talk.servers import Server, claude, running
from tests.web import stage
from tests.web.stage import Served, Trouble

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture(scope="module")
def model() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def forgetful(model: Server) -> None:
    """No test hears the answers that another one left behind."""
    model._queue.clear()


@pytest.fixture(scope="module")
def served(model: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": model.url}
    home = tmp_path_factory.mktemp("sessions")
    with stage.started(home, project=True, env=env) as server:
        for name, place in (("lighthouse", ()), ("harbour", ("--global",))):
            file = home / f"{name}.json"
            file.write_text(json.dumps(chat(name)), encoding="utf-8")
            server.run("sessions", "import", str(file), *place)
        yield server


def chat(name: str, **more: object) -> dict[str, Any]:
    """A chat with everything in it."""
    use = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": f"{name}.txt"}}
    result = {"type": "tool_result", "id": "t1", "text": f"the {name} stands", "is_error": False}
    when = "2026-11-01T08:00:00Z"
    return {
        "id": f"session_20261101_{len(name):03}",
        "title": f"About the {name}",
        "created_at": when,
        "updated_at": when,
        "tags": ["sea", name],
        "summary": f"It was about the {name}.",
        "model": "claude-old",
        "messages": [
            {"role": "user", "content": f"How tall is the {name}? {HOSTILE}", "timestamp": when},
            {
                "role": "assistant",
                "content": "I **look**.",
                "timestamp": when,
                "blocks": [{"type": "text", "text": "I **look**."}, use],
            },
            {"role": "user", "content": "", "timestamp": when, "blocks": [result]},
            {"role": "assistant", "content": f"Forty metres. {HOSTILE}", "timestamp": when},
        ],
        "compactions": [{"messages": 2, "summary": "They *measured* it.", "created_at": when}],
        **more,
    }


def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never came")


def words(served: Served, talk: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.api("GET", f"/chats/{talk}/words")["words"]
    return found


def stored(served: Served, tmp_path: Path, **more: object) -> str:
    """The id of another chat in the bank in force."""
    file = tmp_path / "another.json"
    file.write_text(json.dumps(chat("another", **more)), encoding="utf-8")
    return served.run("--quiet", "sessions", "import", str(file)).strip()


# The interface


def test_chats_of_both_banks_are_listed_and_found(served: Served) -> None:
    listed = served.api("GET", "/sessions")["sessions"]
    assert {one["scope"] for one in listed} == {"here", "global"}
    (found,) = served.api("GET", "/sessions", q="harbour")["sessions"]
    assert found["scope"] == "global"
    assert found["title"] == "About the harbour"
    assert found["tags"] == ["sea", "harbour"]
    assert "harbour" in found["excerpt"]
    assert served.api("GET", "/sessions", q="volcano")["sessions"] == []


def test_words_are_looked_for_once_each_and_only_so_many() -> None:
    text = "The start. " + "filling " * 100 + "a Straße and the end"
    words = ["straße", *(f"w{number}" for number in range(1_000))]
    session = Session("x", "", "", "", "", (), 0, 0, "")
    one = sessions.Listed("here", session, text, 3)
    (found,) = sessions._excerpted([one], " ".join(words))
    assert "Straße" in found.excerpt
    assert found.message == 3
    (found,) = sessions._excerpted([one], " ".join(reversed(words)))
    assert found.excerpt.startswith("The start.")  # that one word was beyond the limit


def test_a_chat_is_read_and_taken_out(served: Served) -> None:
    (one,) = served.api("GET", "/sessions", q="lighthouse")["sessions"]
    path = f"/sessions/here/{one['id']}"
    assert len(served.api("GET", path)["messages"]) == 4
    written = served.api("GET", f"{path}/export", format="md")
    assert written["name"] == f"{one['id']}.md"
    assert written["text"].startswith("# About the lighthouse")
    file = served.get(f"{path}/export", format="json")
    assert file.headers["content-disposition"].startswith("attachment")
    assert json.loads(file.text)["title"] == "About the lighthouse"
    assert served.get(f"{path}/export", format="exe").status_code == 400


def test_a_title_and_tags_are_changed(served: Served, tmp_path: Path) -> None:
    name = stored(served, tmp_path)
    path = f"/sessions/here/{name}"
    changed = served.api("PUT", path, {"title": "Named anew", "tags": ["one", "two"]})
    assert (changed["title"], changed["tags"]) == ("Named anew", ["one", "two"])
    kept = served.api("PUT", path, {"tags": []})
    assert (kept["title"], kept["tags"]) == ("Named anew", [])
    served.api("DELETE", path)


def test_the_new_title_of_a_chat_is_on_its_open_pages(served: Served, tmp_path: Path) -> None:
    name = stored(served, tmp_path)
    talk = served.api("POST", "/chats", {"session": name})["id"]
    served.api("PUT", f"/sessions/here/{name}", {"title": "Named while open"})
    (state,) = [one for one in words(served, talk) if one["kind"] == "state"]
    assert state["title"] == "Named while open"
    served.api("DELETE", f"/sessions/here/{name}")


def test_a_deleted_chat_lies_in_the_trash_and_comes_back_whole(
    served: Served, tmp_path: Path
) -> None:
    name = stored(served, tmp_path)
    path = f"/sessions/here/{name}"
    before = served.api("GET", path)
    kept = served.api("DELETE", path)["name"]
    assert served.get(f"/api/v1{path}").status_code == 404
    assert served.api("POST", "/deleted-sessions/here", {"name": kept})["id"] == name
    assert served.api("GET", path) == before
    served.api("DELETE", path)


def test_only_what_lies_in_the_trash_is_brought_back(served: Served, tmp_path: Path) -> None:
    outside = tmp_path / "chat.json"
    outside.write_text(json.dumps(chat("elsewhere")), encoding="utf-8")
    for name in (str(outside), "../../../chat.json", "", "none.json", "\0"):
        answer = served.post("/api/v1/deleted-sessions/here", {"name": name})
        assert answer.status_code == 404, name
    assert served.api("GET", "/sessions", q="elsewhere")["sessions"] == []


def test_a_chat_that_is_not_there_is_not_found(served: Served) -> None:
    for path in (
        "/sessions/none",
        "/sessions/here/none",
        "/chat/none",
        "/sessions/here/none/export",
    ):
        assert served.get(path).status_code == 404, path
    assert served.ask("DELETE", "/api/v1/sessions/here/none").status_code == 404


def test_an_id_alone_leads_to_the_bank_that_has_it(served: Served) -> None:
    (one,) = served.api("GET", "/sessions", q="harbour")["sessions"]
    answer = served.get(f"/sessions/{one['id']}")
    assert answer.status_code == 303
    # Both banks may have a chat of that id; the one in force comes first.
    assert answer.headers["location"].endswith(f"/{one['id']}")


def test_a_chat_that_goes_on_is_not_deleted(served: Served, model: Server) -> None:
    model.says(claude("It begins and goes on and on", ending="hang", keep=6))
    talk = served.api("POST", "/chats", {})["id"]
    served.api("POST", f"/chats/{talk}/messages", {"text": "Go on"})
    until(lambda: "delta" in [one["kind"] for one in words(served, talk)])
    name = served.api("GET", f"/chats/{talk}")["session"]
    assert served.ask("DELETE", f"/api/v1/sessions/here/{name}").status_code == 409
    served.api("POST", f"/chats/{talk}/stop")
    until(lambda: not served.api("GET", f"/chats/{talk}")["doing"])
    served.api("DELETE", f"/sessions/here/{name}")
    assert served.get(f"/api/v1/chats/{talk}").status_code == 404


# In a browser


def live(page: Page, path: str) -> None:
    """Open a page that hears of changes from now on."""
    with page.expect_response("**/api/v1/events"):
        page.goto(path)


@pytest.mark.slow
def test_a_chat_is_found_as_one_types_and_read(page: Page) -> None:
    page.goto("/sessions")
    expect(page.locator("[data-item]")).to_have_count(2)
    page.get_by_label("Search in what was said").press_sequentially("lightho")
    expect(page.locator("[data-item]")).to_have_count(1)
    page.get_by_label("Search in what was said").fill("lighthouse")
    expect(page.locator("mark").first).to_have_text("lighthouse")
    expect(page.locator("[data-item]")).to_have_count(1)
    expect(page.locator("mark").first).to_contain_text("lighthouse")
    page.get_by_role("link", name="About the lighthouse", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("About the lighthouse")
    expect(page.locator(".reply strong")).to_have_text("look")
    tool = page.locator(".tool")
    expect(tool.locator(".result")).not_to_be_visible()
    tool.locator("summary").click()
    expect(tool.locator(".result")).to_have_text("the lighthouse stands")
    page.locator(".compaction summary").click()
    expect(page.locator(".compaction em")).to_have_text("measured")
    for selector in ("img", "main script", "[onerror]"):
        assert page.locator(f"#content {selector}").count() == 0


@pytest.mark.slow
def test_a_chat_is_resumed_from_its_page(page: Page, model: Server) -> None:
    page.goto("/sessions?q=lighthouse")
    page.get_by_role("link", name="About the lighthouse", exact=True).click()
    page.get_by_role("link", name="Resume").click()
    page.wait_for_url("**/chat/session_*")
    expect(page.locator(".person").first).to_contain_text("How tall is the lighthouse?")
    expect(page.locator(".tool .result")).to_have_text("the lighthouse stands")
    model.says(claude("Still forty."))
    page.get_by_label("Message", exact=True).fill("And now?")
    page.keyboard.press("Enter")
    expect(page.locator(".reply").last).to_have_text("Still forty.")
    assert "How tall is the lighthouse?" in model.asked[-1].text or "measured" in str(
        model.asked[-1].body["system"]
    )


@pytest.mark.slow
def test_a_chat_is_named_deleted_and_brought_back(
    page: Page, served: Served, trouble: Trouble, tmp_path: Path
) -> None:
    trouble.expects("404")  # the page may hear of the deletion before it leaves
    name = stored(served, tmp_path)
    page.goto(f"/sessions/here/{name}")
    page.get_by_role("button", name="Title and tags").click()
    page.get_by_label("Title", exact=True).fill(f"Quite another {HOSTILE}")
    page.get_by_label("Tags, with commas").fill("red, green")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Quite another")
    expect(page.locator(".tag")).to_have_text(["red", "green"])
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/sessions")
    expect(page.get_by_text("Quite another")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    page.wait_for_url(f"**/sessions/here/{name}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Quite another")
    page.close()  # or it would still ask for it
    served.api("DELETE", f"/sessions/here/{name}")


@pytest.mark.slow
def test_the_list_hears_of_chats_that_come(page: Page, served: Served, tmp_path: Path) -> None:
    live(page, "/sessions")
    expect(page.locator("[data-item]")).to_have_count(2)
    name = stored(served, tmp_path)  # by another process
    expect(page.locator("[data-item]")).to_have_count(3)
    served.api("PUT", f"/sessions/here/{name}", {"title": "Called otherwise"})
    expect(page.get_by_text("Called otherwise")).to_be_visible()
    served.api("DELETE", f"/sessions/here/{name}")
    expect(page.locator("[data-item]")).to_have_count(2)


@pytest.mark.slow
def test_a_chat_that_goes_on_elsewhere_does_so_on_its_open_page(
    page: Page, served: Served, model: Server, tmp_path: Path
) -> None:
    name = stored(served, tmp_path)
    live(page, f"/sessions/here/{name}")
    tool = page.locator(".tool")
    tool.locator("summary").click()
    page.get_by_role("button", name="Title and tags").click()
    page.get_by_label("Title", exact=True).fill("Half a tit")
    page.locator(".reply").first.evaluate("(one) => getSelection().selectAllChildren(one)")
    # In the terminal, which is another process.
    more = {"role": "user", "content": "And how wide?", "timestamp": "2026-11-01T08:05:00Z"}
    stored(served, tmp_path, messages=[*chat("another")["messages"], more])
    expect(page.locator(".person", has_text="And how wide?")).to_be_attached()
    # In another tab.
    model.says(claude("Six **metres**."))
    talk = served.api("POST", "/chats", {"session": name})["id"]
    served.api("POST", f"/chats/{talk}/messages", {"text": "And how deep?"})
    expect(page.locator(".reply strong", has_text="metres")).to_be_attached()
    expect(page.locator(".person", has_text="And how deep?")).to_have_count(1)
    expect(tool.locator(".result")).to_be_visible()
    assert page.evaluate("getSelection().toString()").strip() == "I look."
    expect(page.get_by_label("Title", exact=True)).to_have_value("Half a tit")
    served.api("PUT", f"/sessions/here/{name}", {"title": "Named elsewhere"})
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Named elsewhere")
    until(lambda: not served.api("GET", f"/chats/{talk}")["doing"])
    page.close()  # or it would still ask for it
    served.api("DELETE", f"/sessions/here/{name}")


@pytest.mark.slow
def test_a_long_chat_keeps_its_beginning_on_a_page_while_it_goes_on(
    page: Page, served: Served, tmp_path: Path
) -> None:
    when = "2026-11-02T08:00:00Z"
    said = [
        {"role": "user", "content": f"Number {number}.", "timestamp": when} for number in range(220)
    ]
    given: dict[str, Any] = {"id": "session_20261102_888", "compactions": []}
    name = stored(served, tmp_path, messages=said[:210], **given)
    live(page, f"/sessions/here/{name}")
    first = page.locator(".person").first
    expect(first).to_have_text("Number 10.")
    stored(served, tmp_path, messages=said, **given)
    expect(page.locator(".person").last).to_have_text("Number 219.")
    expect(first).to_have_text("Number 10.")
    page.close()  # or it would still ask for it
    served.api("DELETE", f"/sessions/here/{name}")


@pytest.mark.slow
def test_a_chat_that_is_deleted_elsewhere_says_so_and_stays_in_sight(
    page: Page, served: Served, trouble: Trouble, tmp_path: Path
) -> None:
    trouble.expects("404")
    name = stored(served, tmp_path)
    live(page, f"/sessions/here/{name}")
    served.run("sessions", "delete", name, "--yes")
    expect(page.locator(".toast")).to_contain_text("This chat is gone")
    expect(page.locator(".person").first).to_contain_text("How tall is the another?")


@pytest.mark.slow
def test_a_hit_leads_to_the_very_message(page: Page, served: Served, tmp_path: Path) -> None:
    when = "2026-11-02T08:00:00Z"
    said = [
        {"role": role, "content": f"Number {number} of the long talk.", "timestamp": when}
        for number in range(150)
        for role in ("user", "assistant")
    ]
    said[7]["content"] = ("before " * 80) + "the walrus sings at dawn"
    file = tmp_path / "long.json"
    made = {**chat("longtalk"), "messages": said, "compactions": [], "title": "Long"}
    file.write_text(json.dumps(made), encoding="utf-8")
    served.run("sessions", "import", str(file))
    page.goto("/sessions?q=walrus")
    hit = page.locator("a.hit")
    expect(hit).to_contain_text("the walrus sings")
    hit.click()
    message = page.locator(":target")
    expect(message).to_contain_text("the walrus sings at dawn")
    expect(message).to_be_in_viewport()
    page.goto("/sessions")
    page.get_by_role("link", name="Long", exact=True).click()
    expect(page.get_by_text("earlier pieces")).to_be_visible()
    expect(page.get_by_text("the walrus sings at dawn")).to_have_count(0)


def fact_saved(served: Served, model: Server, fact: str) -> tuple[str, str, str]:
    """A conversation in which a fact was saved: its name, its session, and the fact's reference."""
    model.says(claude(f"[MEMORY] {fact}\n"))
    talk = served.api("POST", "/chats", {})["id"]
    served.api("POST", f"/chats/{talk}/messages", {"text": f"{fact}, you know"})
    until(lambda: any(one["kind"] == "memory" for one in words(served, talk)))
    until(lambda: not served.api("GET", f"/chats/{talk}")["doing"])
    (saved,) = (one for one in words(served, talk) if one["kind"] == "memory")
    return talk, served.api("GET", f"/chats/{talk}")["session"], saved["ref"]


@pytest.mark.slow
def test_a_fact_is_taken_back_on_the_page_of_its_chat(
    page: Page, served: Served, model: Server
) -> None:
    talk, session, _ = fact_saved(served, model, "Ada keeps bees")
    page.goto(f"/sessions/here/{session}")
    line = page.locator("p.memory", has_text="Ada keeps bees")
    line.get_by_role("button", name="Undo").click()
    expect(line).to_contain_text("taken back")
    expect(page.locator("#toasts")).to_contain_text("in the trash")
    # The conversation is open still, and hears of it.
    assert [one["kind"] for one in words(served, talk)].count("undone") == 1
    page.reload()
    expect(page.locator("p.memory")).to_have_count(0)


@pytest.mark.slow
def test_a_fact_that_is_taken_back_elsewhere_leaves_the_page_of_its_chat(
    page: Page, served: Served, model: Server
) -> None:
    _, session, ref = fact_saved(served, model, "Ada keeps goats")
    live(page, f"/sessions/here/{session}")
    line = page.locator("p.memory", has_text="Ada keeps goats")
    expect(line).to_be_visible()
    served.api("POST", f"/sessions/here/{session}/undo", {"ref": ref})
    expect(line).to_have_count(0)


def test_a_fact_is_taken_back_after_a_restart(model: Server, tmp_path: Path) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": model.url}
    with stage.started(tmp_path, project=True, env=env) as server:
        _, first, old = fact_saved(server, model, "Ada uses npm")
        new = "Ada uses pnpm (replaces: Ada uses npm)"
        _, second, ref = fact_saved(server, model, new)
        assert server.end() == 0
    with stage.started(tmp_path, env=env) as server:
        other = server.post(f"/api/v1/sessions/here/{first}/undo", {"ref": ref})
        assert other.status_code == 404  # that chat saved no such fact
        gone = server.post(f"/api/v1/sessions/here/{first}/undo", {"ref": old})
        assert gone.status_code == 404  # it is not in force
        # Taken up again, the conversation shows it where it was saved, and can take it back.
        talk = server.api("POST", "/chats", {"session": second})["id"]
        kinds = [one["kind"] for one in words(server, talk)]
        assert kinds.index("memory") > kinds.index("person")
        done = server.api("POST", f"/sessions/here/{second}/undo", {"ref": ref})
        assert done["back"] == [old]
        assert words(server, talk)[-1]["kind"] == "undone"
        facts = server.home / ".retain" / "facts"
        (kept,) = facts.glob("*.md")
        assert "Ada uses npm" in kept.read_text(encoding="utf-8")
        assert "superseded_by" not in kept.read_text(encoding="utf-8")
        # What is in force again is a fact of the chat that saved it.
        assert server.api("POST", f"/sessions/here/{first}/undo", {"ref": old})["back"] == []
        assert not list(facts.glob("*.md"))


def test_a_chat_that_takes_for_ever_to_lay_out_keeps_nobody_waiting(
    served: Served, tmp_path: Path
) -> None:
    when = "2026-11-01T08:00:00Z"
    said = ["*a_b" * 25_000] * 60 + ["The **last** word."]
    messages = [{"role": "assistant", "content": one, "timestamp": when} for one in said]
    name = stored(served, tmp_path, id="session_20261101_777", messages=messages)
    shown = served.get(f"/sessions/here/{name}")
    assert shown.status_code == 200
    assert "<strong>last</strong>" in shown.text
    assert 'class="as-written"' in shown.text
