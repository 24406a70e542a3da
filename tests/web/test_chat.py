"""A conversation in the browser, with a model's server on this machine."""

from __future__ import annotations

import asyncio
import cProfile
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from markupsafe import Markup
from playwright.sync_api import BrowserContext, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request

from retain.app import App
from retain.capture.inbox import Inbox
from retain.errors import Busy, Conflict, NotFound
from retain.web import chat as chatting
from retain.web import chat_session, wikilinks
from retain.web.bank_pool import BankPool
from retain.web.chat_registry import ChatRegistry
from retain.web.event_log import EventLog
from retain.web.live import Live
from retain.web.markdown import LinkTarget, Renderer
from retain.web.operation import Call
from retain.web.stream import Stream, _Blocks
from tests.conftest import command
from tests.talk.servers import Server, Thought, Use, claude, claude_error, running
from tests.web import stage
from tests.web.stage import TOKEN, Served, Trouble

KEY = "sk-test-0123456789abcdef"
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    "<svg onload=\"document.title='owned'\"></svg> [link](javascript:alert(1)) "
    "![picture](https://elsewhere.example/x.png) <a href='data:text/html,x'>data</a>"
)


@pytest.fixture(scope="module")
def model() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def served(model: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}
    with stage.started(tmp_path_factory.mktemp("chat"), project=True, env=env) as server:
        yield server


@pytest.fixture(autouse=True)
def forgetful(model: Server) -> None:
    """No test hears the answers that another one left behind."""
    model._queue.clear()


class Talk:
    """A conversation, as a program has it."""

    def __init__(self, served: Served, **opening: str) -> None:
        self.served = served
        self.id = served.api("POST", "/chats", opening)["id"]

    def ask(self, method: str, path: str, body: object = None, **params: Any) -> Any:
        return self.served.api(method, f"/chats/{self.id}{path}", body, **params)

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", "")
        return found

    def words(self, *kinds: str, after: int = 0) -> list[dict[str, Any]]:
        found = self.ask("GET", "/words", after=after)["words"]
        return [one for one in found if one["kind"] in kinds or not kinds]

    def until(self, condition: Callable[[], Any]) -> Any:
        for _ in range(1_200):
            if found := condition():
                return found
            time.sleep(0.05)
        raise AssertionError(f"it never came: {json.dumps(self.words(), indent=1)}")

    def rest(self) -> None:
        self.until(lambda: not self.state["doing"])

    def says(self, text: str) -> None:
        self.ask("POST", "/messages", {"text": text})
        self.rest()


# The interface


def test_a_reply_is_laid_out_and_kept(served: Served, model: Server) -> None:
    model.says(claude("It is **one** file.\n\n- easy\n"))
    talk = Talk(served)
    assert talk.state["session"] == ""
    talk.says("Where do sessions live?")
    (person,) = talk.words("person")
    (reply,) = talk.words("reply")
    assert person["text"] == "Where do sessions live?"
    assert "<strong>one</strong>" in reply["html"]
    assert not talk.words("delta", "block")  # what the whole makes needless is not told again
    session = talk.state["session"]
    kept = served.api("GET", f"/sessions/here/{session}")
    assert [one["role"] for one in kept["messages"]] == ["user", "assistant"]


def test_a_link_in_a_chat_leads_to_the_memory_that_it_names(served: Served, model: Server) -> None:
    served.api("POST", "/memories/here", {"id": "queue-choice", "text": "Redis it is."})
    model.says(claude("As [[queue-choice]] says.\n\nNothing of [[no-such-choice|that]].\n"))
    there = '<a class="wiki" href="/memory/here/memories/queue-choice">Redis it is.</a>'
    missing = 'title="There is no such memory: write it">that</a>'
    talk = Talk(served)
    talk.says("Which queue?")
    (reply,) = talk.words("reply")
    assert there in reply["html"]
    assert missing in reply["html"]
    kept = served.ask("GET", f"/sessions/here/{talk.state['session']}").text
    assert there in kept
    assert missing in kept
    found = talk.ask("POST", "/commands", {"line": "/search queue-choice"})
    assert there in found["html"]


def test_a_link_is_as_it_is_written_where_the_index_cannot_tell(
    model: Server, banks: BankPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise Busy("somebody else has it")

    monkeypatch.setattr(App, "resolve_links", broken)

    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        assert await talk.laid_out("See [[tea]].") == '<p dir="auto">See [[tea]].</p>\n'
        await talks.close()

    played(scene)


def test_of_very_many_links_some_are_looked_up(
    banks: BankPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def addresses(_: App, named: Sequence[str], __: str) -> dict[str, object]:
        asked.append(len(named))
        return {}

    monkeypatch.setattr(App, "resolve_links", addresses)
    texts = [" ".join(f"[[n{number}]]" for number in range(9_000))] * 2
    found = banks.at_once(lambda app: wikilinks.look_up(app, banks, wikilinks.find_targets(texts)))
    assert asked == [wikilinks._MOST]
    assert wikilinks.resolver(found)("n1") == LinkTarget()
    assert wikilinks.resolver(found)("n8999") is None


def test_a_session_that_is_open_is_not_opened_twice(served: Served, model: Server) -> None:
    model.says(claude("Yes."))
    talk = Talk(served)
    talk.says("Are you there?")
    assert Talk(served, session=talk.state["session"]).id == talk.id


def test_a_fact_is_saved_and_taken_back(served: Served, model: Server) -> None:
    model.says(claude("[MEMORY] Ada drinks green tea\n"))
    talk = Talk(served)
    talk.says("I drink green tea")
    (saved,) = talk.words("memory")
    assert saved["status"] == "saved"
    assert saved["can_undo"]
    assert served.ask("GET", saved["page"]).status_code == 200
    told = served.ask("GET", f"/sessions/here/{talk.state['session']}").text
    assert "Memory saved: " in told
    assert "in your own bank" in told  # a project's is in force
    assert talk.ask("POST", "/undo", {"ref": saved["ref"]})["back"] == []
    assert served.ask("GET", saved["page"]).status_code == 404
    assert talk.words("undone")[0]["piece"] == saved["piece"]
    assert served.post(f"/api/v1/chats/{talk.id}/undo", {"ref": saved["ref"]}).status_code == 404


def test_what_a_fact_replaced_is_in_force_again(served: Served, model: Server) -> None:
    model.says(
        claude("[MEMORY] Ada uses npm\n"), claude("[MEMORY] Ada uses pnpm (replaces: Ada uses npm)")
    )
    talk = Talk(served)
    talk.says("I use npm")
    talk.says("Now I use pnpm")
    first, second = talk.words("memory")
    assert second["status"] == "supersedes"
    assert first["ref"] in second["replaced"]
    known = "/memories"
    assert "Ada uses npm" not in talk.ask("POST", "/commands", {"line": known})["text"]
    assert talk.ask("POST", "/undo", {"ref": second["ref"]})["back"] == [first["ref"]]
    listed = talk.ask("POST", "/commands", {"line": known})["text"]
    assert "Ada uses npm" in listed
    assert "pnpm" not in listed
    talk.ask("POST", "/undo", {"ref": first["ref"]})


def asking(served: Served, model: Server, command: str) -> tuple[Talk, dict[str, Any]]:
    model.says(claude("Let me.", Use("run_command", {"command": command})))
    talk = Talk(served)
    talk.ask("POST", "/messages", {"text": "Please do"})
    return talk, talk.until(lambda: talk.words("question"))[0]


def test_an_approval_is_the_persons_and_what_is_always_allowed_is_shown(
    served: Served, model: Server
) -> None:
    talk, question = asking(served, model, "git --version")
    assert "git --version" in question["detail"]
    labels = [one["choice"] for one in question["choices"]]
    assert labels[0] == "once"
    assert labels[-1] == "no"
    always = next(one for one in question["choices"] if one["choice"] == "always")
    assert always["pattern"] == "git --version"
    assert always["allows"]
    wrong = {"question": question["piece"], "choice": "always", "pattern": "*"}
    assert served.post(f"/api/v1/chats/{talk.id}/answers", wrong).status_code == 400
    talk.ask("POST", "/answers", {"question": question["piece"], "choice": "once"})
    talk.rest()
    (result,) = talk.words("result")
    assert result["state"] == "done"
    assert "git version" in result["result"]
    late = {"question": question["piece"], "choice": "once"}
    assert served.post(f"/api/v1/chats/{talk.id}/answers", late).status_code == 409


def test_a_no_is_told_to_the_model_with_the_reason(served: Served, model: Server) -> None:
    talk, question = asking(served, model, "touch never")
    said = {"question": question["piece"], "choice": "no", "note": "not on my machine"}
    talk.ask("POST", "/answers", said)
    talk.rest()
    (result,) = talk.words("result")
    assert result["state"] == "failed"
    assert "not on my machine" in result["result"]
    assert "not on my machine" in model.asked[-1].last
    assert not (served.work / "never").exists()


def test_reading_an_approval_allows_nothing(served: Served, model: Server) -> None:
    talk, question = asking(served, model, "touch never")
    given = {"question": question["piece"], "choice": "once"}
    answer = served.get(f"/api/v1/chats/{talk.id}/answers", **given)
    assert answer.status_code == 405
    assert talk.words("question")
    talk.ask("POST", "/stop")
    talk.rest()
    assert not (served.work / "never").exists()


def test_stopping_keeps_what_came_and_gives_back_what_waits(served: Served, model: Server) -> None:
    model.says(claude("It begins and goes on and on", ending="hang", keep=6))
    talk = Talk(served)
    talk.ask("POST", "/messages", {"text": "Tell me"})
    talk.until(lambda: talk.words("delta"))
    talk.ask("POST", "/messages", {"text": "And then?"})
    assert talk.state["queued"] == ["And then?"]
    assert talk.ask("POST", "/stop")["queued"] == ["And then?"]
    talk.rest()
    assert "It be" in talk.words("reply")[0]["html"]
    assert talk.words("note")[-1]["tone"] == "warning"
    session = talk.state["session"]
    assert "Stopped here." in served.get(f"/sessions/here/{session}").text


def test_what_is_sent_meanwhile_is_answered_next(served: Served, model: Server) -> None:
    talk, question = asking(served, model, "touch never")
    talk.ask("POST", "/messages", {"text": "And the second?"})
    model.says(claude("As you wish."), claude("The second answer."))
    talk.ask("POST", "/answers", {"question": question["piece"], "choice": "no"})
    talk.rest()
    assert [one["text"] for one in talk.words("person")] == ["Please do", "And the second?"]
    assert "The second answer." in talk.words("reply")[-1]["html"]


def test_an_error_is_one_line_with_a_retry(served: Served, model: Server) -> None:
    model.says(claude_error(400, "invalid_request_error", "that is wrong"), claude("Better."))
    talk = Talk(served)
    talk.says("Try this")
    (note,) = talk.words("note")
    assert note["tone"] == "error"
    assert note["retry"] == "Try this"
    assert "\n" not in note["text"]
    talk.says(note["retry"])
    assert "Better." in talk.words("reply")[0]["html"]
    kept = served.api("GET", f"/sessions/here/{talk.state['session']}")
    assert [one["content"] for one in kept["messages"]] == ["Try this", "Better."]


def test_the_context_names_what_was_recalled_and_left_out(served: Served, model: Server) -> None:
    served.store("The tide tables are in the blue binder.", title="Tide tables", id="tide-tables")
    talk = Talk(served)
    assert talk.ask("GET", "/context")["parts"] == []
    talk.says("Where are the tide tables?")
    found = talk.ask("GET", "/context")
    assert found["tokens"]
    assert found["parts"]
    pages = {one["page"]: one["title"] for one in found["memories"]}
    (page,) = [one for one, title in pages.items() if title == "Tide tables"]
    assert served.get(page).status_code == 200


def test_the_model_is_changed_and_noted(served: Served, model: Server) -> None:
    talk = Talk(served)
    talk.says("Hello")
    assert talk.ask("GET", "/models")["models"] == ["model-a", "model-b"]
    assert talk.ask("PUT", "/model", {"name": "claude-model-b"})["model"] == "claude-model-b"
    session = talk.state["session"]
    assert served.api("GET", f"/sessions/here/{session}")["model"] == ("anthropic:claude-model-b")
    talk.says("And now?")
    assert model.asked[-1].body["model"] == "claude-model-b"


def test_commands_answer_and_lead_elsewhere(served: Served, model: Server) -> None:
    talk = Talk(served)
    talk.says("/help")
    assert "/remember" in talk.words("answer")[0]["html"]
    talk.says("Hello")
    session = talk.state["session"]
    assert talk.ask("POST", "/messages", {"text": "/new"})["page"] == "/chat"
    assert talk.ask("POST", "/messages", {"text": "/quit"})["page"] == "/sessions"
    found = talk.ask("POST", "/messages", {"text": f"/resume {session[8:]}"})
    assert found["page"] == f"/chat/{session}"
    assert (
        served.post(f"/api/v1/chats/{talk.id}/messages", {"text": "/resume no"}).status_code == 404
    )
    talk.says("/title  Tea  and tides")
    assert talk.state["title"] == "Tea and tides"
    assert served.post(f"/api/v1/chats/{talk.id}/commands", {"line": "hello"}).status_code == 400


def test_a_message_of_200_kilobytes_is_sent_and_kept(served: Served, model: Server) -> None:
    model.says(claude("That is much."))
    text = "word " * 40_000
    talk = Talk(served)
    talk.says(text)
    assert talk.words("reply")
    kept = served.api("GET", f"/sessions/here/{talk.state['session']}")
    assert kept["messages"][0]["content"] == text.strip()


def in_terminal(served: Served, model: Server, session: str, text: str) -> str:
    """What the terminal's chat answers, on the same bank."""
    given = ["--resume", session] if session else []
    done = subprocess.run(
        [*command(), "chat", "--plain", *given],
        input=text.encode(),
        env={
            **stage.world(served.home),
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": model.url,
        },
        cwd=served.work,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_chat_goes_on_in_the_terminal_and_in_the_browser_again(
    served: Served, model: Server
) -> None:
    model.says(claude("Begun in the browser."))
    talk = Talk(served)
    talk.says("Where do we begin?")
    session = talk.state["session"]
    model.says(claude("Now in the terminal."))
    assert "Now in the terminal." in in_terminal(served, model, session, "And where now?")
    roles = [one["role"] for one in served.api("GET", f"/sessions/here/{session}")["messages"]]
    assert roles == ["user", "assistant"] * 2
    # The conversation is open still: its pages see the other's words before the next ones.
    model.says(claude("Here again."))
    talk.says("Back here")
    assert [one["text"] for one in talk.words("person")] == [
        "Where do we begin?",
        "And where now?",
        "Back here",
    ]
    assert len(talk.words("reply")) == 3
    # A chat of the terminal's own is taken up in the browser, with all that was said.
    model.says(claude("A chat of its own."))
    in_terminal(served, model, "", "Something else")
    (other,) = (
        one["id"]
        for one in served.api("GET", "/sessions")["sessions"]
        if one["title"] == "Something else"
    )
    taken = Talk(served, session=other)
    assert [one["kind"] for one in taken.words("person", "reply")] == ["person", "reply"]
    model.says(claude("Going on."))
    taken.says("Go on")
    assert any("Something else" in asked.words for asked in model.asked[-3:])


def test_a_conversation_that_is_not_open_is_not_found(served: Served) -> None:
    for path in ("", "/words", "/context", "/models", "/stream"):
        assert served.get(f"/api/v1/chats/none{path}").status_code == 404


def events(served: Served, talk: Talk, **headers: str) -> list[tuple[int, dict[str, Any]]]:
    """What the stream tells first, to the state with which it ends for now."""
    found = []
    sent = {"Authorization": f"Bearer {TOKEN}", **headers}
    with (
        httpx2.Client(transport=httpx2.HTTPTransport(verify=False), timeout=30) as http,
        http.stream("GET", f"{served.url}/api/v1/chats/{talk.id}/stream", headers=sent) as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        number = 0
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            if line.startswith("data: "):
                found.append((number, json.loads(line[6:])))
                if found[-1][1]["kind"] == "state":
                    return found
    raise AssertionError("the stream ended")


def test_a_page_that_comes_again_is_told_what_it_missed(served: Served, model: Server) -> None:
    model.says(claude("First."), claude("Second."))
    talk = Talk(served)
    talk.says("One")
    before = events(served, talk)
    assert [one["kind"] for _, one in before] == ["person", "reply", "state"]
    talk.says("Two")
    after = events(served, talk, **{"Last-Event-ID": str(before[-1][0])})
    assert [one["kind"] for _, one in after] == ["person", "reply", "state"]
    assert "Second." in after[1][1]["html"]
    assert all(number > before[-1][0] for number, _ in after)


def test_a_conversation_of_the_persons_own_bank_goes_on_there(
    served: Served, model: Server
) -> None:
    talk = Talk(served, scope="global")
    talk.says("This is mine alone")
    session = talk.state["session"]
    scopes = {
        (one["scope"], one["id"])
        for one in served.api("GET", "/sessions", q="mine alone")["sessions"]
    }
    assert scopes == {("global", session)}
    assert served.get(f"/chat/{session}", bank="global").status_code == 200


def test_what_is_written_is_made_of_the_text_alone(served: Served, model: Server) -> None:
    model.says(claude(HOSTILE + "\n\n" + HOSTILE))
    talk = Talk(served)
    talk.says(HOSTILE)
    html = talk.words("reply")[0]["html"]
    for tag in ("<script", "<img", "<svg", 'href="javascript', "onerror=x"):
        assert tag not in html


# At the end


@pytest.mark.slow
def test_a_server_that_ends_leaves_every_conversation_in_order(
    model: Server, tmp_path: Path
) -> None:
    env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}
    with stage.started(tmp_path, env=env) as served:
        model.says(claude("An answer that stays."))
        done, cut = Talk(served), Talk(served)
        done.says("The first question")
        model.says(claude("It begins and goes on and on", ending="hang", keep=6))
        cut.ask("POST", "/messages", {"text": "The second question"})
        cut.until(lambda: cut.words("delta"))
        assert served.end() == 0
        found = json.loads(served.run("sessions", "list", "--json"))
        assert sorted(one["title"] for one in found) == [
            "The first question",
            "The second question",
        ]
        for one in found:
            assert one["summary"].startswith("Asked: The ")
            assert one["messages"] == 2


# Without a server between


@pytest.fixture
def banks(model: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BankPool]:
    """One bank alone, the person's own, and a model to talk to."""
    for name, value in {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}.items():
        monkeypatch.setenv(name, value)
    work = tmp_path / "work"
    work.mkdir()
    made = BankPool(lambda own: App(everywhere=own, cwd=str(work), stays=True))
    yield made
    made.close()


def played(scene: Callable[[], Awaitable[None]]) -> None:
    """Play a scene in a thread of its own: this one's loop may be a browser's."""

    async def whole() -> None:
        await scene()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, whole()).result(120)


async def comes(condition: Callable[[], Any]) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it never came")


def replies(talk: chat_session.ChatSession) -> list[str]:
    return [one.data["html"] for one in talk.script.since(0) if one.kind == "reply"]


def long_ago(talk: chat_session.ChatSession) -> None:
    talk.script.alone_since = time.monotonic() - 86_400


def test_a_conversation_that_nobody_looks_at_is_left_with_a_summary(
    model: Server, banks: BankPool
) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks), long=0.0, short=0.0)
        seen, unseen = await talks.open(), await talks.open()
        looking = seen.script.listen(0)
        await anext(looking)
        for talk in (seen, unseen):
            model.says(claude("An answer."))
            talk.send("What of the tides?")
            while talk.is_busy:
                await asyncio.sleep(0.02)
        model.says(claude("They spoke of tides."))
        await talks.tidy()
        assert talks.get(seen.name) is seen
        with pytest.raises(NotFound):
            talks.get(unseen.name)
        with pytest.raises(NotFound):
            unseen.send("Too late")
        assert unseen.session
        summaries = {one.session_id: one.summary for one in banks.app().sessions.summaries()}
        assert summaries[unseen.session.id] == "They spoke of tides."
        await looking.aclose()
        await talks.close()

    played(scene)


def test_a_conversation_that_is_used_is_not_left(model: Server, banks: BankPool) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        model.says(claude("It begins and goes on and on", ending="hang", keep=6))
        talk.send("Tell me")
        await comes(lambda: talk.session and talk.script.since(3))
        long_ago(talk)
        await talks.tidy()  # while a reply comes, although no page looks
        talk.stop()
        await comes(lambda: not talk.is_busy)
        await talks.tidy()  # nor right after it
        long_ago(talk)
        assert talks.get(talk.name) is talk
        await talks.tidy()  # nor when a program has just asked for it
        long_ago(talk)
        assert talk.session
        assert await talks.open(talk.session.id) is talk
        await talks.tidy()
        assert talks.get(talk.name) is talk
        long_ago(talk)
        await talks.tidy()
        with pytest.raises(NotFound):
            talks.get(talk.name)

    played(scene)


def test_a_stop_before_anything_began_gives_the_message_back(
    model: Server, banks: BankPool
) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        talk.send("hello")
        assert talk.stop() == ["hello"]
        await comes(lambda: not talk.is_busy)
        assert talk.state()["doing"] == ""
        model.says(claude("Here I am."))
        talk.send("hello again")
        await comes(lambda: not talk.is_busy)
        assert "Here I am." in replies(talk)[0]
        await talks.close()

    played(scene)


def test_what_is_sent_right_after_a_stop_is_answered(model: Server, banks: BankPool) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        model.says(claude("The first."))
        talk.send("not this")
        talk.stop()
        talk.send("but this")
        await comes(lambda: not talk.is_busy)
        assert "The first." in replies(talk)[0]
        model.says(claude("It begins and goes on and on", ending="hang", keep=6))
        talk.send("nor this")
        await comes(lambda: any(one.kind == "delta" for one in talk.script.since(0)))
        model.says(claude("The last."))
        talk.stop()
        talk.send("but that")
        await comes(lambda: not talk.is_busy)
        assert "The last." in replies(talk)[-1]
        said = [one.data["text"] for one in talk.script.since(0) if one.kind == "person"]
        assert said == ["but this", "nor this", "but that"]
        await talks.close()

    played(scene)


def test_a_message_waits_for_the_end_of_a_command(model: Server, banks: BankPool) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        with talk.chat.turn:  # for which the command has to wait
            doing = asyncio.create_task(talk.command("/memories"))
            await asyncio.sleep(0)
            assert talk.is_busy
            assert talk.state()["doing"] == "/memories"
            model.says(claude("After the command."))
            talk.send("And then?")
            assert talk.state()["queued"] == ["And then?"]
            with pytest.raises(Busy):
                await talk.command("/memories")
        assert not (await doing).is_error
        await comes(lambda: not talk.is_busy)
        assert "After the command." in replies(talk)[0]
        with talk.chat.turn:
            doing = asyncio.create_task(talk.command("/memories"))
            await asyncio.sleep(0)
            talk.stop()
            with pytest.raises(Conflict):
                await doing
        assert not talk.is_busy
        await talks.close()

    played(scene)


@pytest.mark.parametrize("sent", ["one", "three"])
def test_what_waits_behind_a_failure_is_said_in_its_order(
    model: Server, banks: BankPool, sent: str
) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        model.says(claude_error(400, "invalid_request_error", "that is wrong"))
        talk.send("one")
        talk.send("two")
        await comes(lambda: not talk.is_busy)
        assert talk.state()["queued"] == ["two"]  # to be seen, and to be taken back
        model.says(claude("First."), claude("Second."))
        talk.send(sent)
        await comes(lambda: not talk.is_busy)
        said = [one.data["text"] for one in talk.script.since(0) if one.kind == "person"]
        assert said == (["one", "one", "two"] if sent == "one" else ["one", "two", "three"])
        assert talk.state()["queued"] == []
        await talks.close()

    played(scene)


def test_one_bank_has_one_conversation_for_a_session(model: Server, banks: BankPool) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open(scope="global")
        assert talk.scope == "here"
        model.says(claude("It begins and goes on and on", ending="hang", keep=6))
        talk.send("Tell me")
        await comes(lambda: talk.session)
        assert talk.session
        for scope in ("here", "global"):
            assert await talks.open(talk.session.id, scope) is talk
            with pytest.raises(Conflict):
                await talks.let_go(scope, talk.session.id)
            with pytest.raises(NotFound, match="saved here"):
                await talks.undo(scope, talk.session.id, "none")
        await talks.close()

    played(scene)


class Broken:
    """Something that fails as nobody expects, so many times."""

    def __init__(self, times: int = 1) -> None:
        self.left = times

    async def __call__(self, *_: object) -> Any:
        self.fails()

    def fails(self) -> None:
        if self.left:
            self.left -= 1
            raise ZeroDivisionError("a secret that no log may hold")


def test_a_fault_in_leaving_one_conversation_keeps_no_other(
    banks: BankPool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks), short=0.0, pause=0.01)
        bad, good = await talks.open(), await talks.open()
        closed: list[bool] = []
        real = bad.chat.close

        def close() -> None:
            real()
            closed.append(True)

        monkeypatch.setattr(bad.chat, "leave", Broken())
        monkeypatch.setattr(bad.chat, "close", close)
        talks.start()
        await comes(lambda: not talks._open)
        await comes(lambda: closed)
        another = await talks.open()
        await comes(lambda: another.name not in talks._open)
        assert good.script._is_over
        await talks.close()

    played(scene)
    said = capfd.readouterr().err
    assert "leaving a conversation: ZeroDivisionError" in said
    assert re.search(r"web/chat_session\.py:\d+ in leave", said)
    assert "secret" not in said


def test_what_looks_after_conversations_survives_a_fault(
    banks: BankPool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks), short=0.0, pause=0.01)
        talk = await talks.open()
        broken = Broken()

        def alone_for() -> float:
            broken.fails()
            return 1.0

        monkeypatch.setattr(talk, "alone_for", alone_for)
        talks.start()
        await comes(lambda: not talks._open)
        await talks.close()

    played(scene)
    assert "looking after conversations: ZeroDivisionError" in capfd.readouterr().err


def test_a_fault_in_an_exchange_stands_in_the_log(
    banks: BankPool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        monkeypatch.setattr(talk._commands, "run", Broken())
        talk.send("/memories")
        await comes(lambda: not talk.is_busy)
        (note,) = [one for one in talk.script.since(0) if one.kind == "note"]
        assert note.data["tone"] == "error"
        await talks.close()

    played(scene)
    said = capfd.readouterr().err
    assert re.search(r"web/chat_session\.py:\d+ in _command", said)
    assert "secret" not in said


def test_pages_hear_of_changes_after_a_fault(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = Broken(3)  # once for each of those who watch

    def opened(own: bool) -> App:
        broken.fails()
        return App(everywhere=own, cwd=str(tmp_path), stays=True)

    banks = BankPool(opened)

    async def scene() -> None:
        live = Live(banks, again=0.01)
        live.start()
        await comes(lambda: not broken.left)
        await banks.use(lambda app: app.put("There is a bank now."))
        heard: list[str] = []

        async def listen() -> None:
            async for line in live.listen():
                heard[:] = [*heard, line]

        listening = asyncio.create_task(listen())
        number = 0
        while not any("event: memories" in line for line in heard):
            number += 1
            await banks.use(partial(App.put, text=f"It is number {number}."))
            await asyncio.sleep(0.2)
            assert number < 100
        live.close()
        await listening

    try:
        played(scene)
    finally:
        banks.close()
    said = capfd.readouterr().err
    assert "watching for changes: ZeroDivisionError" in said
    assert "secret" not in said


def test_pages_hear_of_the_inbox_after_a_fault(
    banks: BankPool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broken, real = Broken(), banks.roots

    def roots() -> list[str]:
        broken.fails()
        return real()

    monkeypatch.setattr(banks, "roots", roots)

    async def scene() -> None:
        await banks.use(lambda app: app.put("There is a bank now."))
        folder = Path(Inbox(real()[0], os.environ).path)
        folder.mkdir(parents=True, exist_ok=True)
        live = Live(banks, again=0.01)
        live.start()
        heard = live.listen()
        await anext(heard)

        async def fills() -> None:
            for number in range(100):
                (folder / f"{number}.md").write_text("A proposal.", encoding="utf-8")
                await asyncio.sleep(0.3)

        filling = asyncio.create_task(fills())
        while "event: inbox" not in await anext(heard):
            assert not filling.done()
        filling.cancel()
        live.close()

    played(scene)
    assert not broken.left
    assert re.search(r"web/live\.py:\d+ in _watch_others", capfd.readouterr().err)


def test_nothing_is_laid_out_in_the_servers_loop(
    model: Server, banks: BankPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[threading.Thread] = []
    real = Renderer.render

    def render(self: Renderer, text: str) -> Markup:
        inside.append(threading.current_thread())
        return real(self, text)

    monkeypatch.setattr(Renderer, "render", render)

    async def scene() -> None:
        talks = ChatRegistry(banks, Live(banks))
        talk = await talks.open()
        model.says(claude("Hello to you."))
        talk.send("Hello")
        await comes(lambda: not talk.is_busy)
        assert talk.session
        talk._last = 0  # as if all of it had been said in a terminal
        inside.clear()
        await talk.catch_up()
        assert inside
        app = Starlette()
        app.state.talks = talks
        request = Request({"type": "http", "app": app})
        line = chatting.Line(line="/help")
        done = await chatting._command(Call(banks, {"id": talk.name}, None, line, request))
        assert "/remember" in done["html"]
        assert len(inside) > 1
        assert threading.current_thread() not in inside
        await talks.close()

    played(scene)


def numbers(script: EventLog, after: int = 0) -> Sequence[tuple[int, str]]:
    return [(one.number, one.kind) for one in script.since(after)]


def test_a_page_is_told_that_the_beginning_is_gone() -> None:
    script = EventLog()
    script.say("earlier", script.piece(), count=40)
    script.say("state", "state", covers=("state",), doing="")
    for _ in range(1_000):
        script.say("person", script.piece(), text="word")
    first, second, third = script.since(0)[:3]
    assert (first.kind, first.data["doing"]) == ("state", "")
    assert (second.number, second.kind, second.data["count"]) == (3, "earlier", 41)
    assert (third.number, third.kind) == (4, "person")
    # Who has more is told of less, and who misses nothing of nothing.
    assert script.since(1)[1].data["count"] == 1
    assert numbers(script, 3)[0] == (4, "person")
    # Numbers go up, for a page takes no word that is behind another.
    found = [number for number, _ in numbers(script)]
    assert found == sorted(set(found))


def test_a_conversation_keeps_only_so_much_for_pages_that_come_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retain.web.event_log._MOST_CHARACTERS", 1_000)
    script = EventLog()
    script.say("state", "state", covers=("state",), doing="x" * 5_000)
    for _ in range(30):
        script.say("tool", script.piece(), lines=[{"text": "x" * 100}])
    state, earlier, *rest = script.since(0)
    assert (state.kind, earlier.kind) == ("state", "earlier")
    assert earlier.data["count"] + len(rest) == 30
    assert 5 <= len(rest) <= 10
    script.say("person", script.piece(), text="x" * 5_000)  # the last word is always there
    assert [one.kind for one in script.since(0)] == ["state", "earlier", "person"]


def test_only_what_failed_last_is_offered_again() -> None:
    script = EventLog()
    for text in ("one", "two"):
        script.withdraw("retry")
        script.say("note", script.piece(), text="It failed.", retry=text)
    assert [one.data.get("retry") for one in script.since(0)] == [None, "two"]
    assert [one.data["text"] for one in script.since(0)] == ["It failed."] * 2


@pytest.mark.parametrize(
    "text, whole",
    [
        ("One.", ""),
        ("One.\n\n", ""),
        ("One.\n\nTwo", "One.\n\n"),
        ("- a\n\n  still a\n", ""),
        ("```\na\n\nb", ""),
        ("```\na\n\nb\n```\n\nC", "```\na\n\nb\n```\n\n"),
        ("~~~\n```\n\nb", ""),
        ("\n\nOne", "\n\n"),
    ],
)
def test_only_blocks_that_are_whole_are_laid_out(text: str, whole: str) -> None:
    assert text[: _Blocks().add(text)] == whole
    for size in range(1, len(text)):  # however it comes
        blocks = _Blocks()
        ends = [blocks.add(text[at : at + size]) for at in range(0, len(text), size)]
        assert text[: ends[-1]] == whole
        assert ends == sorted(ends)


def test_each_line_of_a_reply_is_looked_at_once() -> None:
    """A long piece of code comes line by line, in the loop that everyone else waits for."""

    async def lay_out(text: str) -> str:
        return text

    def calls(lines: int) -> int:
        growing = Stream(EventLog(), lay_out)
        profile = cProfile.Profile()

        async def reply() -> None:
            await growing.add("~~~\n")
            for number in range(lines):
                await growing.add(f"line {number}\n")
            growing._hush()

        profile.enable()
        with asyncio.Runner() as runner:
            runner.run(reply())
        profile.disable()
        return sum(one.callcount for one in profile.getstats())

    with ThreadPoolExecutor(1) as pool:  # this thread's loop may be a browser's
        few, many = pool.submit(lambda: (calls(300), calls(1_200))).result(120)
    assert many < 6 * few


@pytest.mark.slow
def test_without_a_key_the_page_says_how_to_set_one(tmp_path: Path) -> None:
    with stage.started(tmp_path) as served:
        talk = Talk(served)
        (setup,) = talk.words("setup")
        assert "ANTHROPIC_API_KEY" in setup["html"]
        talk.says("Hello?")
        note = talk.words("note")[-1]
        assert note["tone"] == "error"
        for one in (
            "~/.retain/chat.env",
            "chat.model NAME",
            "chat.base_url http://127.0.0.1:11434",
        ):
            assert one in setup["html"]
            assert one in note["text"]
        talk.says("/remember Ada has no key yet")
        assert "Ada has no key yet" in talk.words("answer")[0]["html"]
        bank = served.home / ".retain"
        file = bank / "chat.env"
        file.write_text(f"ANTHROPIC_API_KEY={KEY}\n", encoding="utf-8")
        file.chmod(0o600)
        assert not Talk(served).words("setup")


# In a browser


def sends(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def rests(page: Page) -> None:
    expect(page.locator("#talk")).not_to_have_class("talk column busy")
    expect(page.locator("#doing")).to_have_text("")


@pytest.mark.slow
def test_a_reply_comes_on_the_page_and_a_reload_shows_it_again(page: Page, model: Server) -> None:
    model.says(claude(Thought("let me see"), "## Heading\n\nSome **bold** words.\n"))
    page.goto("/chat")
    expect(page.locator("#model-name")).to_have_text("claude-sonnet-5-5")
    sends(page, "What is it?")
    expect(page.locator(".reply strong")).to_have_text("bold")
    expect(page.locator(".person")).to_have_text("What is it?")
    rests(page)
    assert "/chat/session_" in page.url
    page.reload()
    expect(page.locator(".reply h2")).to_have_text("Heading")
    expect(page.locator(".person")).to_have_count(1)


@pytest.mark.slow
def test_a_reload_in_the_middle_shows_what_came_and_goes_on(page: Page, model: Server) -> None:
    model.says(claude("First block.\n\nThen it goes on and never ends", ending="hang", keep=12))
    page.goto("/chat")
    sends(page, "Tell me all")
    expect(page.locator(".grows p").first).to_have_text("First block.")
    expect(page.locator(".grows .loose")).to_contain_text("Then it")
    page.wait_for_url("**/chat/session_*")
    shown = page.locator(".grows").inner_text()
    page.reload()
    expect(page.locator(".grows .loose")).to_contain_text("Then it")
    assert page.locator(".grows").inner_text() == shown
    expect(page.locator("#stop")).to_be_visible()
    page.get_by_label("Message", exact=True).press("Escape")
    expect(page.locator(".note.warning")).to_contain_text("Stopped")
    rests(page)


@pytest.mark.slow
def test_two_pages_see_the_same(
    page: Page, context: BrowserContext, model: Server, served: Served, trouble: Trouble
) -> None:
    model.says(claude("For both of you."))
    page.goto("/chat")
    sends(page, "Who is there?")
    expect(page.locator(".reply")).to_contain_text("For both")
    page.wait_for_url("**/chat/session_*")
    other = context.new_page()
    trouble.watch(other, served.url)
    other.goto(page.url)
    expect(other.locator(".reply")).to_contain_text("For both")
    model.says(claude("Again, for both."))
    sends(other, "And now?")
    expect(page.locator(".reply").nth(1)).to_contain_text("Again, for both.")
    expect(page.locator(".person").nth(1)).to_have_text("And now?")


@pytest.mark.slow
def test_a_saved_fact_is_taken_back_with_a_button(page: Page, model: Server) -> None:
    model.says(claude("Noted.\n\n[MEMORY] Ada sails on Sundays\n"))
    page.goto("/chat")
    sends(page, "I sail on Sundays")
    memory = page.locator(".memory")
    expect(memory).to_contain_text("Memory saved: Ada sails on Sundays")
    memory.get_by_role("button", name="Undo").click()
    expect(memory).to_contain_text("taken back")
    expect(memory.get_by_role("button")).to_have_count(0)


@pytest.mark.slow
def test_a_question_waits_for_the_first_page_that_looks(
    page: Page, served: Served, model: Server
) -> None:
    talk, _ = asking(served, model, "git --version")
    model.says(claude("Thank you."))
    page.goto(f"/chat/{talk.state['session']}")
    question = page.locator(".question")
    expect(question).to_contain_text("git --version")
    question.get_by_role("button", name=re.compile("once|Yes", re.IGNORECASE)).first.click()
    expect(page.locator(".reply", has_text="Thank you.")).to_be_visible()
    expect(question).to_have_count(0)


@pytest.mark.slow
def test_a_question_shows_the_difference_and_no_is_the_default(
    page: Page, model: Server, served: Served
) -> None:
    file = served.work / "greeting.txt"
    file.write_text("hello\n", encoding="utf-8")
    use = Use("write_file", {"path": "greeting.txt", "content": "goodbye\n"})
    model.says(claude("I change it.", use), claude("As you wish."))
    page.goto("/chat")
    sends(page, "Change the greeting")
    question = page.locator(".question")
    expect(question.locator(".removed", has_text="-hello")).to_be_visible()
    expect(question.locator(".added", has_text="+goodbye")).to_be_visible()
    expect(question.get_by_role("button", name="No")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".tool")).to_have_attribute("data-state", "failed")
    rests(page)
    assert file.read_text(encoding="utf-8") == "hello\n"
    model.says(claude("Once more.", use), claude("Done."))
    sends(page, "Do change it")
    page.get_by_role("button", name="Yes, this once").click()
    expect(page.locator(".tool").nth(1)).to_have_attribute("data-state", "done")
    rests(page)
    assert file.read_text(encoding="utf-8") == "goodbye\n"


@pytest.mark.slow
def test_hostile_words_are_inert(page: Page, model: Server) -> None:
    use = Use("read_file", {"path": f"{HOSTILE}.txt"})
    model.says(claude(HOSTILE + "\n\n" + HOSTILE, use), claude(f"[MEMORY] {HOSTILE[:80]}\n"))
    page.goto("/chat")
    sends(page, HOSTILE)
    expect(page.locator(".reply")).to_have_count(1)  # a line that is remembered is not said
    rests(page)
    for selector in ("script", "img", "svg", "[onerror]", "a[href^=javascript]", "a[href^=data]"):
        assert page.locator(f"#script {selector}").count() == 0, selector
    assert "owned" not in page.title().replace(HOSTILE[:60], "").split(" · ")[-1]
    page.reload()
    expect(page.locator(".reply").first).to_contain_text("onerror")
    assert page.locator("#script img").count() == 0


@pytest.mark.slow
def test_commands_complete_and_the_arrow_brings_back_what_was_sent(
    page: Page, model: Server
) -> None:
    page.goto("/chat")
    expect(page.locator("#model-name")).not_to_have_text("…")
    field = page.get_by_label("Message", exact=True)
    field.press_sequentially("/mem")
    expect(page.get_by_role("option")).to_have_count(1)
    field.press("Enter")
    expect(page.locator(".answer")).to_be_visible()
    field.press("ArrowUp")
    expect(field).to_have_value("/memories")
    field.fill("half a thought")
    page.reload()
    expect(field).to_have_value("half a thought")
    field.press("Shift+Enter")
    field.press_sequentially("and more")
    expect(field).to_have_value("half a thought\nand more")


@pytest.mark.slow
def test_the_context_and_the_model_are_looked_into(page: Page, model: Server) -> None:
    page.goto("/chat")
    sends(page, "Hello")
    expect(page.locator(".reply")).to_be_visible()
    rests(page)
    page.get_by_role("button", name="Context").click()
    expect(page.get_by_role("dialog")).to_contain_text("how memory works")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Model:").click()
    page.get_by_role("textbox", name="Another, by its name").fill("claude-another")
    page.get_by_role("button", name="Use it").click()
    expect(page.locator("#model-name")).to_have_text("claude-another")


@pytest.mark.slow
def test_a_page_finds_its_conversation_when_the_server_has_left_it(
    page: Page, model: Server, served: Served, trouble: Trouble
) -> None:
    model.says(claude("Still here."))
    page.goto("/chat")
    sends(page, "Stay")
    expect(page.locator(".reply")).to_contain_text("Still here.")
    rests(page)
    page.wait_for_url("**/chat/session_*")
    # Deleting closes it; brought back, it is another conversation with the same session.
    name = page.url.rpartition("/")[2]
    kept = served.api("DELETE", f"/sessions/here/{name}")["name"]
    served.api("POST", "/deleted-sessions/here", {"name": kept})
    trouble.expects("404")
    page.reload()
    expect(page.locator(".reply")).to_contain_text("Still here.")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_page(page: Page, model: Server, scheme: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 780})
    page.emulate_media(color_scheme=scheme)
    long = "w" * 300
    model.says(claude(f"{long}\n\n| a | b |\n|---|--:|\n| {long} | 2 |\n\n```\n{long}\n```\n"))
    page.goto("/chat")
    page.get_by_label("Message", exact=True).fill(long)
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".reply table")).to_be_visible()
    rests(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    box = page.locator("#composer").bounding_box()
    rail = page.locator(".rail").bounding_box()
    assert box
    assert rail
    assert box["y"] < rail["y"]
    send = page.get_by_role("button", name="Send").bounding_box()
    assert send
    assert send["y"] + send["height"] <= rail["y"]
