"""The chat's screen, driven by keys against the real engine and a real model server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from textual.events import MouseScrollUp
from textual.widgets.markdown import MarkdownFence

from retain.chat import approval
from retain.chat.widgets import Person, Tool
from retain.talk.chat import Chat
from retain.talk.events import Text
from tests.chat.stage import Stage, played
from tests.talk.servers import Use, claude, claude_error

pytestmark = pytest.mark.slow

REPLY = """\
Here is a **plan** with `redis`:

1. Keep keys short.
2. Expire after an hour.

```python
def ttl() -> int:
    return 3600
```
"""


def said(stage: Stage) -> list[tuple[str, str]]:
    """What the database has of the conversation."""
    session = stage.chat.session
    assert session
    return [(one.role, one.content) for one in stage.chat.sessions.messages(session.id)]


def test_what_is_typed_is_sent_and_the_reply_is_shown_as_markdown() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude(REPLY))
        await stage.types("How do we cache?")
        await stage.sees("How do we cache?")
        await stage.pilot.press("enter")
        await stage.rest()
        await stage.sees("Here is a plan with redis:", "1. Keep keys short.", "return 3600")
        assert "**" not in stage.text
        assert stage.app.entry.text == ""
        assert said(stage)[-2:] == [("user", "How do we cache?"), ("assistant", REPLY)]
        assert "claude-sonnet-5-5" in stage.text
        assert "tokens" in stage.text

    played(scene)


def test_code_that_is_wider_than_the_screen_is_all_shown() -> None:
    line = " + ".join(f"value_{number}" for number in range(30))

    async def scene(stage: Stage) -> None:
        stage.server.says(claude(f"Code:\n\n```python\n{line}\n{'x' * 200}Z\n```\n"))
        await stage.says("Show it")
        await stage.sees("value_0 ", "value_15", "value_29", "xZ")

    played(scene)


def test_a_long_block_of_code_that_comes_in_small_pieces_is_shown_to_its_end() -> None:
    lines = [f"print({number})" for number in range(200)]

    async def scene(stage: Stage) -> None:
        stage.server.says(claude("\n".join(["Code:", "", "```python", *lines, "```", "", "End."])))
        await stage.says("Show it")
        await stage.sees("print(199)", "End.")
        assert stage.app.query_one(MarkdownFence).code.split("\n") == lines

    played(scene)


def test_enter_sends_and_three_keys_begin_a_line() -> None:
    async def scene(stage: Stage) -> None:
        await stage.types("one")
        await stage.pilot.press("shift+enter")
        await stage.types("two")
        await stage.pilot.press("alt+enter")
        await stage.types("three")
        await stage.pilot.press("ctrl+j")
        await stage.types("four\\")
        await stage.pilot.press("enter")
        await stage.types("five")
        await stage.pilot.press("enter")
        await stage.rest()
        assert stage.server.asked[0].last == "one\ntwo\nthree\nfour\nfive"

    played(scene)


def test_escape_stops_a_reply_and_what_came_is_kept_and_marked() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("The beginning of it", ending="hang", keep=7))
        await stage.sends("Tell me")
        await stage.sees("The beginning of")
        await stage.pilot.press("escape")
        await stage.rest()
        await stage.sees("Stopped")
        assert stage.server.gone.wait(60)
        assert said(stage)[-1][0] == "assistant"
        assert said(stage)[-1][1].startswith("The beginning of")
        await stage.says("Go on")
        await stage.sees("Done.")

    played(scene)


def test_a_flagged_fact_is_saved_and_a_later_one_says_what_it_replaces() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Noted.\n\n[MEMORY] The API listens on port 8080\n"))
        await stage.says("The API listens on port 8080")
        await stage.sees("✦ Memory saved: The API listens on port 8080", "/forget")
        assert "[MEMORY]" not in stage.text
        assert "[MEMORY] The API" in said(stage)[-1][1]
        await stage.says("/memories")
        await stage.sees("facts/")
        name = stage.chat.facts()[0][0].partition("/")[2]
        await stage.says(f"/forget {name}")
        await stage.sees("Forgotten")
        assert stage.chat.facts() == []

    played(scene)


def test_what_was_recalled_is_a_line_and_a_number() -> None:
    async def scene(stage: Stage) -> None:
        await stage.says("/remember The cache of the billing service is Redis")
        await stage.sees("Memory saved")
        await stage.says("Which cache does the billing service have?")
        await stage.sees("◇ 1 memory recalled", "Done.")

    played(scene)


# Tools


def needs(command: str) -> Use:
    return Use("run_command", {"command": command})


@pytest.mark.parametrize("keys, times", [("y", 2), ("s enter", 1), ("down enter", 2)])
def test_a_command_is_asked_about_with_a_key_for_each_answer(keys: str, times: int) -> None:
    async def scene(stage: Stage) -> None:
        asked = 0
        for _ in range(2):
            stage.server.says(claude("Looking.", needs("echo hello there")), claude("I see."))
            await stage.sends("Look")
            await stage.until(lambda: stage.app.query("#approving") or not stage.app.replying)
            if stage.app.query("#approving"):
                asked += 1
                await stage.asked()
                await stage.sees("echo hello there", "Yes, this once", "No")
                await stage.pilot.press(*keys.split())
            await stage.rest()
            await stage.sees("● run_command echo hello there", "└ hello there", "I see.")
        assert asked == times

    played(scene)


def test_what_lasts_is_shown_and_allowed_only_by_enter() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("git log")), claude("I see."))
        await stage.sends("Look")
        await stage.asked()
        await stage.pilot.press("s")
        await stage.sees("> s", "Enter allows exactly this, again and again")
        await stage.pilot.press("a")
        await stage.sees("> a", "Enter allows exactly this command, in every session")
        await stage.pilot.press("a")
        await stage.sees("Enter allows git log with any words behind it")
        assert stage.chat.toolbox.approvals.rules() == []
        await stage.pilot.press("n", "enter")
        await stage.rest()
        assert stage.chat.toolbox.approvals.rules() == []
        assert "The person said no." in stage.server.asked[-1].last

    played(scene)


def test_enter_alone_says_no() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("touch made")), claude("I see."))
        await stage.sends("Look")
        await stage.asked()
        await stage.sees("> n  No")
        await stage.pilot.press("enter", "enter")
        await stage.rest()
        assert "The person said no." in stage.server.asked[-1].last
        assert not os.path.exists("made")

    played(scene)


def test_what_was_always_allowed_is_taken_back_in_the_chat() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("echo hello")), claude("I see."))
        await stage.sends("Look")
        await stage.asked()
        await stage.pilot.press("a", "enter")
        await stage.rest()
        await stage.says("/tools")
        await stage.sees("1. echo hello")
        await stage.says("/tools forget 1")
        await stage.sees("You will be asked again before: echo hello")
        assert stage.chat.toolbox.approvals.rules() == []

    played(scene, size=(80, 40))


def test_always_is_chosen_among_patterns_and_kept_for_the_next_session() -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)

    async def first(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("git status --short")), claude("I see."))
        await stage.sends("Look")
        await stage.asked()
        await stage.sees("Always in this project: git status*", "n  No")
        await stage.pilot.press("a", "a", "enter")
        await stage.rest()
        assert [str(rule) for rule in stage.chat.toolbox.approvals.rules()] == ["git status*"]

    async def second(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("git status --branch")), claude("I see."))
        await stage.says("Look")
        await stage.sees("● run_command git status --branch", "I see.")

    played(first)
    played(second)


def test_a_no_can_tell_the_model_why() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("echo hello")), claude("I will not."))
        await stage.sends("Look")
        await stage.asked()
        await stage.pilot.press("n")
        await stage.types("not now")
        await stage.pilot.press("enter")
        await stage.rest()
        assert "The person said no. not now" in stage.server.asked[-1].last
        await stage.sees("✗ run_command echo hello", "I will not.")

    played(scene)


def test_a_file_is_written_only_after_its_difference_was_shown() -> None:
    Path("notes.md").write_text("old line\n", encoding="utf-8")

    async def scene(stage: Stage) -> None:
        write = Use("write_file", {"path": "notes.md", "content": "new line\n"})
        stage.server.says(claude("Writing.", write), claude("Written."))
        await stage.sends("Write")
        await stage.asked()
        await stage.sees("-old line", "+new line", "Write notes.md?")
        assert Path("notes.md").read_text(encoding="utf-8") == "old line\n"
        await stage.pilot.press("y")
        await stage.rest()
        assert Path("notes.md").read_text(encoding="utf-8") == "new line\n"

    played(scene)


def is_on_screen(stage: Stage, name: str) -> bool:
    region = stage.app.query_one(name).region
    return region.area > 0 and stage.app.screen.region.contains_region(region)


@pytest.mark.parametrize("lines", [30, 300])
def test_however_long_a_difference_is_the_question_is_all_on_the_screen(lines: int) -> None:
    content = "".join(f"line {number}\n" for number in range(lines))

    async def scene(stage: Stage) -> None:
        write = Use("write_file", {"path": "notes.md", "content": content})
        stage.server.says(claude("Writing.", write), claude("Written."))
        await stage.sends("Write")
        await stage.asked()
        detail = stage.app.query_one("#detail")
        for size in ((80, 24), (120, 40), (40, 12)):
            await stage.pilot.resize_terminal(*size)
            await stage.sees("Create notes.md?", "y  Yes, this once", "> n  No")
            for name in ("#title", "#detail", "#choices", "#allows"):
                assert is_on_screen(stage, name), (name, size)
            assert detail.size.height >= 3
            assert detail.max_scroll_y > 0
        await stage.pilot.press("pagedown")
        await stage.until(lambda: detail.scroll_y > 0)
        await stage.pilot.press("n")
        await stage.sees("Tell the model why")
        for name in ("#title", "#choices", "#note"):
            assert is_on_screen(stage, name), name
        await stage.pilot.press("enter")
        await stage.rest()
        assert not Path("notes.md").exists()

    played(scene)


def test_no_yes_counts_before_the_end_was_seen() -> None:
    async def scene(stage: Stage) -> None:
        write = Use("write_file", {"path": "notes.md", "content": "line\n" * 100})
        stage.server.says(claude("Writing.", write), claude("Written."))
        await stage.sends("Write")
        await stage.asked()
        for key in ("y", "s"):
            await stage.pilot.press(key, "enter")
            await stage.sees("There is more of it")
        detail = stage.app.query_one("#detail")
        await stage.pilot.press("end")
        await stage.until(lambda: detail.scroll_y == detail.max_scroll_y)
        assert not Path("notes.md").exists()
        await stage.pilot.press("y")
        await stage.rest()
        assert Path("notes.md").exists()

    played(scene)


def test_a_question_that_is_not_all_on_the_screen_is_not_answered() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("touch made")), claude("I see."))
        await stage.sends("Look")
        await stage.asked()
        await stage.pilot.resize_terminal(40, 5)
        await stage.pilot.press("y", "enter")
        assert stage.app.query("#approving")
        await stage.pilot.resize_terminal(40, 14)
        await stage.sees("y  Yes, this once")
        await stage.pilot.press("y")
        await stage.rest()
        assert Path("made").exists()

    played(scene)


def test_keys_typed_before_a_question_could_be_read_do_not_answer_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("touch made")), claude("I see."))
        await stage.sends("Look")
        await stage.until(lambda: stage.app.query("#approving"))
        stage.app.query_one("#approving")._since += 3600  # type: ignore[attr-defined]
        await stage.pilot.press("y", "s", "a", "enter")
        assert stage.app.query("#approving")
        await stage.pilot.press("escape")
        await stage.rest()
        assert not os.path.exists("made")
        await stage.sees("Stopped")

    played(scene)


def test_a_question_takes_no_answer_before_there_was_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(approval, "SETTLE_SECONDS", 3600)

    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("touch made")), claude("I see."))
        await stage.sends("Look")
        await stage.until(lambda: stage.app.query("#approving"))
        panel = stage.app.query_one(approval.ApprovalPanel)
        for _ in range(3):  # each key comes when the question is nearly settled
            panel._since -= 3000
            await stage.pilot.press("y")
        assert not panel.answered.done()
        panel._since -= 3600
        await stage.pilot.press("y")
        await stage.rest()
        assert os.path.exists("made")

    played(scene)


def test_a_tool_shows_one_line_and_unfolds() -> None:
    async def scene(stage: Stage) -> None:
        Path("three.txt").write_text("first\nsecond\nthird\n", encoding="utf-8")
        stage.server.says(
            claude("Reading.", Use("read_file", {"path": "three.txt"})), claude("So.")
        )
        await stage.says("Read it")
        await stage.sees("● read_file three.txt", "lines, Ctrl+O unfolds")
        assert "third" not in stage.text
        await stage.pilot.press("ctrl+o")
        await stage.sees("third")
        await stage.pilot.press("ctrl+o")
        await stage.until(lambda: "third" not in stage.text)

    played(scene)


# What is sent while a reply comes


def test_what_is_sent_during_a_reply_waits_and_comes_back_with_escape() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("The beginning of it", ending="hang", keep=7))
        await stage.sends("Tell me")
        await stage.sees("The beginning of")
        await stage.sends("And then?")
        await stage.sends("And\nnow?")
        await stage.sees("↳ queued: And then?", "↳ queued: And now?")
        await stage.types("half")
        await stage.pilot.press("escape")
        await stage.rest()
        assert stage.app.entry.text == "And then?\n\nAnd\nnow?\n\nhalf"
        await stage.until(lambda: "queued" not in stage.text)
        assert len(stage.server.asked) == 1

    played(scene)


@pytest.mark.parametrize(
    "waiting, draft, box, undone",
    [
        (["/remember Jo likes tea", "And lunch?"], "", "And lunch?", "/remember Jo likes tea"),
        (["And lunch?", "/new"], "half", "And lunch?\n\nhalf", "/new"),
        (["And lunch?"], "/remember Jo", "And lunch?", "/remember Jo"),
        (["/new"], "half", "half", "/new"),
        (["/new"], "", "/new", ""),
    ],
)
def test_a_command_that_waits_is_joined_with_nothing(
    waiting: list[str], draft: str, box: str, undone: str
) -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("The beginning of it", ending="hang", keep=7))
        await stage.sends("Tell me")
        await stage.sees("The beginning of")
        for text in waiting:
            stage.app.entry.fill(text)
            stage.app.entry.send()
            await stage.sees(f"↳ queued: {text}")
        stage.app.entry.fill(draft)
        await stage.pilot.press("ctrl+c")
        await stage.rest()
        await stage.until(lambda: "queued" not in stage.text)
        assert stage.app.entry.whole == box
        assert (f"Not done: {undone}" in stage.text) is bool(undone)
        assert stage.chat.facts() == []

    played(scene)


async def queued(stage: Stage, *texts: str) -> None:
    """Send texts while a question keeps a reply from its end, then answer it."""
    await stage.asked()
    for text in texts:
        stage.app.entry.fill(text)
        stage.app.entry.send()
        await stage.sees(f"↳ queued: {text}")
    await stage.pilot.press("y")
    await stage.rest()


def test_what_waits_is_sent_when_the_reply_is_done_one_after_the_other() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("Looking.", needs("echo hello")), claude("I see."))
        await stage.sends("Look")
        await queued(stage, "And then?", "/remember Jo lives in Oslo", "And now?")
        assert [one.last for one in stage.server.asked[2:]] == ["And then?", "And now?"]
        assert len(stage.chat.facts()) == 1
        roles = [role for role, text in said(stage) if text]
        assert roles == ["user", "assistant", "assistant", *["user", "assistant"] * 2]
        assert "queued" not in stage.text

    played(scene)


def test_what_waits_goes_on_waiting_where_the_model_fails() -> None:
    async def scene(stage: Stage) -> None:
        failure = claude_error(401, "authentication_error", "invalid x-api-key")
        stage.server.says(claude("Looking.", needs("echo hello")), failure)
        await stage.sends("Look")
        await queued(stage, "And then?")
        await stage.sees("✗ ", "↳ queued: And then?")
        assert stage.app.entry.text == "Look"
        await stage.pilot.press("enter")
        await stage.rest()
        assert stage.server.asked[-1].last == "And then?"

    played(scene)


def test_leaving_does_not_wait_for_the_reply() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("The beginning of it", ending="hang", keep=7))
        await stage.sends("Tell me")
        await stage.sees("The beginning of")
        await stage.sends("/q")
        await stage.until(lambda: not stage.app.is_running)

    played(scene)


# Writing


def test_commands_are_completed_as_they_are_typed() -> None:
    async def scene(stage: Stage) -> None:
        await stage.types("/me")
        await stage.sees("/memories [WORDS]", "Show the facts")
        await stage.pilot.press("tab")
        assert stage.app.entry.text == "/memories"
        await stage.pilot.press("ctrl+c")
        await stage.types("/s")
        await stage.sees("/search WORDS", "/sessions [WORDS]")
        await stage.pilot.press("down", "tab")
        assert stage.app.entry.text == "/sessions"
        await stage.pilot.press("escape", "enter")
        await stage.rest()
        await stage.sees("No conversations yet.")
        await stage.types("/rem")
        await stage.pilot.press("enter")
        await stage.until(lambda: stage.app.entry.text == "/remember ")

    played(scene)


def test_the_arrow_keys_go_past_commands_that_were_sent() -> None:
    async def scene(stage: Stage) -> None:
        for text in ("/memories", "/sessions", "/tools"):
            await stage.says(text)
        for text in ("/tools", "/sessions", "/memories"):
            await stage.pilot.press("up")
            assert stage.app.entry.text == text
            assert not stage.app.entry.has_suggestions
        await stage.pilot.press("down")
        assert stage.app.entry.text == "/sessions"
        await stage.pilot.press("backspace")
        await stage.until(lambda: stage.app.entry.has_suggestions)

    played(scene)


def test_the_arrow_keys_bring_back_what_was_said_also_in_earlier_sessions() -> None:
    async def first(stage: Stage) -> None:
        await stage.says("an early question")
        await stage.says("a later question")

    async def second(stage: Stage) -> None:
        await stage.until(lambda: stage.app.entry.earlier.back("") is not None)
        stage.app.entry.earlier.forward()
        await stage.types("half")
        await stage.pilot.press("up")
        assert stage.app.entry.text == "a later question"
        await stage.pilot.press("up")
        assert stage.app.entry.text == "an early question"
        await stage.pilot.press("down", "down")
        assert stage.app.entry.text == "half"

    played(first)
    played(second)


def test_a_large_paste_is_folded_and_sent_whole() -> None:
    async def scene(stage: Stage) -> None:
        from textual.events import Paste

        text = "\n".join(f"line {number}" for number in range(200))
        stage.app.entry.post_message(Paste(text.replace("\n", "\r\n")))
        await stage.sees("[pasted #1: 200 lines")
        assert "line 199" not in stage.text
        await stage.pilot.press("enter")
        await stage.rest()
        assert stage.server.asked[0].last == text
        await stage.sees("more lines")

    played(scene)


# Layout


def test_it_is_usable_on_a_small_screen_and_follows_a_resize() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude(REPLY))
        await stage.says("How do we cache?")
        await stage.pilot.resize_terminal(60, 15)
        await stage.sees("Say something", "claude-sonnet-5-5", "return 3600")
        await stage.pilot.resize_terminal(24, 8)
        await stage.types("hi")
        await stage.sees("hi", "claude-sonnet-5-5")
        await stage.pilot.resize_terminal(5, 3)
        await stage.pilot.resize_terminal(100, 40)
        await stage.sees("How do we cache?", "Here is a plan")

    played(scene)


def test_a_reply_does_not_pull_down_who_has_scrolled_up() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("\n\n".join(f"Paragraph {number}" for number in range(40))))
        await stage.says("Tell me")
        await stage.sees("Paragraph 39")
        await stage.pilot.press("pageup", "pageup")
        await stage.until(lambda: "Paragraph 39" not in stage.text)
        seen = stage.app.talk.scroll_y
        await stage.app.note("something new")
        await stage.pilot.pause()
        assert stage.app.talk.scroll_y == seen
        await stage.says("More")
        await stage.sees("Done.")

    played(scene)


def test_the_wheel_scrolls_the_conversation() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("\n\n".join(f"Paragraph {number}" for number in range(40))))
        await stage.says("Tell me")
        before = stage.app.talk.scroll_y
        wheel = MouseScrollUp(stage.app.talk, 5, 5, 0, -1, 0, False, False, False)
        stage.app.talk.post_message(wheel)
        await stage.until(lambda: stage.app.talk.scroll_y < before)

    played(scene)


def test_without_colours_everything_is_still_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def scene(stage: Stage) -> None:
        stage.server.says(claude(REPLY))
        await stage.says("How do we cache?")
        await stage.sees("return 3600")
        assert stage.app.no_color

    played(scene)


@pytest.mark.parametrize("ground, theme", [("15;0", "ansi-dark"), ("0;15", "ansi-light")])
def test_the_terminals_own_colours_are_used(
    ground: str, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", ground)

    async def scene(stage: Stage) -> None:
        assert stage.app.theme == theme

    played(scene)


# Without a model, and with one that fails


def test_without_a_key_it_says_how_to_set_one_and_the_rest_works() -> None:
    async def scene(stage: Stage) -> None:
        await stage.sees("There is no model to talk to yet", "ANTHROPIC_API_KEY", "chat.env")
        await stage.says("/remember Jamie lives in Oslo")
        await stage.sees("Memory saved: Jamie lives in Oslo")
        await stage.says("/search Oslo")
        await stage.sees("Search results")
        await stage.says("hello")
        await stage.sees("There is no key for the model", "There is no model to talk to yet")
        assert stage.text.count("There is no model to talk to yet") == 1
        assert stage.text.index("hello") < stage.text.index("There is no model to talk to yet")
        assert stage.app.entry.text == "hello"

    played(scene, has_key=False, size=(80, 40))


def test_after_an_error_the_same_text_is_sent_again_with_a_key_press() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude_error(401, "authentication_error", "invalid x-api-key"))
        await stage.says("What now?")
        await stage.sees("✗ ")
        assert stage.app.entry.text == "What now?"
        await stage.pilot.press("enter")
        await stage.rest()
        await stage.sees("Done.")
        assert said(stage) == [("user", "What now?"), ("assistant", "Done.")]

    played(scene)


def test_a_broken_stream_keeps_what_had_come() -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("The beginning of it", ending="cut", keep=7))
        await stage.says("Tell me")
        await stage.sees("✗ ", "The beginning")
        assert said(stage)[1][1].startswith("The beginning")

    played(scene)


def test_without_a_key_it_names_the_variable_of_the_model_that_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RETAIN_CHAT_MODEL", "gpt-5")

    async def scene(stage: Stage) -> None:
        await stage.sees("OPENAI_API_KEY is not set", "To talk to gpt-5,")
        await stage.sees(
            "OPENAI_API_KEY=...", "http://127.0.0.1:11434/v1", "http://127.0.0.1:1234/v1"
        )
        assert "ANTHROPIC_API_KEY=..." not in stage.text

    played(scene, has_key=False)


# Sessions


def test_a_title_is_shown_and_completes_what_to_resume() -> None:
    async def scene(stage: Stage) -> None:
        await stage.says("How do we cache?")
        await stage.says("/title Caching for the shop")
        await stage.sees("· Caching for the shop")
        assert stage.chat.session
        await stage.types("/resume shop")
        await stage.sees(stage.chat.session.id, "Caching for the shop")
        await stage.pilot.press("tab")
        assert stage.app.entry.text == f"/resume {stage.chat.session.id}"

    played(scene)


def test_a_session_is_resumed_with_what_was_said_in_it() -> None:
    async def first(stage: Stage) -> None:
        stage.server.says(claude("Reading.", Use("read_file", {"path": "."})), claude("**So.**"))
        await stage.says("What is here?")
        found = stage.chat.session
        assert found
        names.append(found.id)

    async def second(stage: Stage) -> None:
        await stage.says(f"/resume {names[0]}")
        await stage.sees("What is here?", "● read_file .", "So.", "Resumed")
        await stage.says("And now?")
        assert [turn["role"] for turn in stage.server.asked[0].body["messages"]][-1] == "user"
        assert "What is here?" in stage.server.asked[0].text

    async def third(stage: Stage) -> None:
        await stage.sees("And now?")
        await stage.says("/new")
        await stage.until(lambda: "And now?" not in stage.text)

    names: list[str] = []
    played(first)
    played(second)
    played(third, resume="session_")


def test_what_is_sent_before_a_resumed_chat_has_loaded_stays_on_the_screen() -> None:
    async def first(stage: Stage) -> None:
        stage.server.says(claude("It is 8080."))
        await stage.says("Which port?")

    async def second(stage: Stage) -> None:
        await stage.rest()
        await stage.sees("Which port?", "It is 8080.", "And the host?", "Done.")
        texts = ["Which port?", "It is 8080.", "And the host?", "Done."]
        places = [stage.text.index(text) for text in texts]
        assert places == sorted(places)

    played(first)
    played(second, resume="latest", early="And the host?")


def test_a_second_interrupt_leaves_with_a_summary() -> None:
    async def scene(stage: Stage) -> None:
        await stage.says("Hello")
        stage.server.says(claude("They greeted each other."))
        await stage.types("some words")
        await stage.pilot.press("ctrl+c")
        assert stage.app.entry.text == ""
        await stage.sees("Press Ctrl+C again to leave.")
        await stage.types("more words")
        await stage.pilot.press("ctrl+c")  # it takes what was typed since, and stays
        assert stage.app.entry.text == ""
        assert stage.app.is_running
        await stage.pilot.press("ctrl+c")
        await stage.until(lambda: not stage.app.is_running)
        session = stage.chat.session
        assert session
        assert stage.chat.sessions.get(session.id).summary == "They greeted each other."

    played(scene)


def test_a_summary_that_takes_too_long_is_skipped_and_a_plain_one_left() -> None:
    async def scene(stage: Stage) -> None:
        await stage.says("Hello")
        stage.server.says(claude("never", ending="hang", keep=1))
        await stage.sends("/quit")
        await stage.sees("Saving a summary")
        await stage.pilot.press("ctrl+c")
        await stage.until(lambda: not stage.app.is_running)
        session = stage.chat.session
        assert session
        assert stage.chat.sessions.get(session.id).summary.startswith("Asked: Hello")

    played(scene)


def test_a_fault_of_ours_keeps_nobody_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Chat, seconds: float) -> None:
        raise ValueError("a fault")

    async def scene(stage: Stage) -> None:
        await stage.sends("/quit")
        await stage.until(lambda: not stage.app.is_running)
        assert isinstance(stage.app.failure, ValueError)

    monkeypatch.setattr(Chat, "leave", broken)
    played(scene)


# What others wrote does not act


HOSTILE = (
    "\x1b]52;c;aGk=\x07 \x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\ \x1b[2J\u202egpj "
    "&#x202e; [bold red]markup[/] <b>html</b>"
)


def test_nothing_that_a_model_a_tool_or_a_memory_says_acts_on_the_terminal() -> None:
    Path("evil.txt").write_text(HOSTILE, encoding="utf-8")

    async def scene(stage: Stage) -> None:
        run = Use("read_file", {"path": "evil.txt"})
        stage.server.says(
            claude(f"```\n{HOSTILE}\n```\n\n{HOSTILE}\n", run),
            claude(f"[MEMORY] Jamie likes tea {HOSTILE}\n\n| {HOSTILE} |\n|---|\n| x |\n"),
        )
        await stage.sends(f"Say it {HOSTILE}")
        await stage.rest()
        await stage.pilot.press("ctrl+o")
        await stage.pilot.pause()
        everything = stage.app.export_screenshot() + stage.text
        for char in "\x1b\x07\u202e\x9c":
            assert char not in everything
        await stage.sees("[bold red]markup[/]", "\\x1b")
        assert "http://evil" not in str([node.styles for node in stage.app.query("*")])

    played(scene, size=(100, 80))


def test_a_link_is_named_and_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    async def scene(stage: Stage) -> None:
        monkeypatch.setattr(stage.app, "open_url", opened.append)
        stage.server.says(claude("[a link](https://evil.example/path)"))
        await stage.says("Link?")
        block = stage.app.query("MarkdownParagraph").last()
        await block.action_link("https://evil.example/path")  # type: ignore[attr-defined]
        await stage.sees("evil.example")
        assert opened == []

    played(scene)


def test_pieces_never_read_markup() -> None:
    for piece in (Person("[red]x[/]"), Tool("[red]x[/]")):
        assert "[red]x[/]" in str(piece.visual)
    assert Text("x").text == "x"
