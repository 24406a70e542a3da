"""The chat in a pipe: replies on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.app import App
from retain.chat.plain import messages
from retain.talk.chat import Chat
from tests.chat.stage import KEY
from tests.conftest import Run
from tests.talk.servers import Server, Use, claude, claude_error, running

pytestmark = pytest.mark.slow


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with running() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server


def test_a_piped_text_is_one_message_and_the_reply_comes_on_standard_output(
    run: Run, server: Server
) -> None:
    server.says(claude("**Hello** back."))
    ran = run("chat", "--plain", input="hi\nthere\n")
    assert (ran.code, ran.out, ran.err) == (0, "**Hello** back.\n", "")
    assert server.asked[0].last == "hi\nthere"


def test_without_a_terminal_it_is_plain_anyway(run: Run, server: Server) -> None:
    assert run("chat", input="hi").out == "Done.\n"


def test_commands_in_a_pipe_are_done_where_they_stand(run: Run, server: Server) -> None:
    server.says(claude("Noted.\n\n[MEMORY] Jamie lives in Oslo"))
    ran = run("chat", input="I live in Oslo\n/memories\n/nonsense is said\n/quit\nnever said\n")
    assert ran.code == 0
    assert "- Jamie lives in Oslo (`facts/" in ran.out
    assert "✦ Memory saved: Jamie lives in Oslo" in ran.err
    assert "never said" not in str([asked.text for asked in server.asked])


@pytest.mark.parametrize(
    "text, parts",
    [
        ("", []),
        ("one\n\ntwo", ["one\n\ntwo"]),
        ("one\n/help\ntwo", ["one", "/help", "two"]),
        ("/usr/bin is a directory", ["/usr/bin is a directory"]),
        ("/search a b\n/quit", ["/search a b", "/quit"]),
    ],
)
def test_what_a_piped_text_holds(text: str, parts: list[str]) -> None:
    assert messages(text) == parts


def test_a_model_that_fails_is_said_in_one_line_and_ends_with_1(run: Run, server: Server) -> None:
    server.says(claude_error(401, "authentication_error", "invalid x-api-key"))
    ran = run("chat", "--plain", input="hi")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("✗ ")
    assert ran.err.count("\n") == 1


def test_without_a_key_it_says_how_to_set_one(run: Run) -> None:
    ran = run("chat", "--plain", input="hi")
    assert ran.code == 1
    assert "ANTHROPIC_API_KEY" in ran.err
    ran = run("chat", "--plain", input="/remember Jamie lives in Oslo\n/memories\n")
    assert ran.code == 0
    assert "Jamie lives in Oslo" in ran.out


def test_what_needs_a_persons_word_is_refused_in_a_pipe(run: Run, server: Server) -> None:
    server.says(claude(Use("run_command", {"command": "touch made"})), claude("I could not."))
    ran = run("chat", "--plain", input="make it")
    assert (ran.code, ran.out) == (0, "I could not.\n")
    assert "nobody can be asked here" in ran.err
    assert not Path("made").exists()


def test_nothing_in_a_reply_acts_on_a_terminal(run: Run, server: Server) -> None:
    server.says(claude("\x1b]52;c;aGk=\x07 and \u202egpj"))
    ran = run("ask", "Say it")
    assert ran.out == "\\x1b]52;c;aGk=\\x07 and \\u202egpj\n"


def test_a_question_is_answered_and_kept_like_a_chat(run: Run, server: Server) -> None:
    server.says(claude("It is 8080.\n\n[MEMORY] The API listens on port 8080"))
    ran = run("ask", "Which", "port?", "-", input="EXPOSE 8080\n")
    assert ran.code == 0
    assert ran.out.startswith("It is 8080.")
    assert server.asked[0].last == "Which port?\n\nEXPOSE 8080"
    assert len(server.asked) == 1
    with_memory = run("ask", "Which port does the API have?", "--json")
    answer = json.loads(with_memory.out)
    assert answer["answer"] == "Done."
    assert answer["model"] == "claude-sonnet-5-5"
    assert answer["recalled"] == 1
    assert answer["memories_saved"] == []
    assert answer["usage"]["output"] == 10
    assert answer["session"].startswith("session_")
    assert with_memory.err == ""


def test_facts_of_an_answer_are_named_in_json(run: Run, server: Server) -> None:
    server.says(claude("[MEMORY] The API listens on port 8080"))
    answer = json.loads(run("ask", "Which port?", "--json").out)
    (saved,) = answer["memories_saved"]
    assert (saved["fact"], saved["status"]) == ("The API listens on port 8080", "saved")


def test_a_question_that_fails_fails(run: Run, server: Server) -> None:
    server.says(claude_error(401, "authentication_error", "invalid x-api-key"))
    ran = run("ask", "Which port?")
    assert ran.code != 0
    assert ran.out == ""
    server.says(claude_error(401, "authentication_error", "invalid x-api-key"))
    ran = run("ask", "Which port?", "--json")
    assert "error" in json.loads(ran.err or ran.out)


def test_a_chat_is_resumed_and_another_model_asked(run: Run, server: Server) -> None:
    run("ask", "Which port?")
    (session,) = _chat().sessions.list()
    run("chat", "--resume", session.id, "--model", "claude-haiku-5-5", input="And now?")
    assert "Which port?" in server.asked[1].text
    assert server.asked[1].body["model"] == "claude-haiku-5-5"
    assert run("chat", "--resume", "nothing", input="hi").code == 3


def _chat() -> Chat:
    return Chat(App())


def test_mistakes(run: Run) -> None:
    assert run("chat", "--json", input="hi").code == 2
    assert run("ask", "-", input=" \n").code == 2
    assert run("ask").code == 2
    assert run("").code == 2
    ran = run()
    assert ran.out.startswith("usage: retain")
