"""The main screens look as they did when somebody last looked at them.

`pytest tests/chat/test_looks.py --update-snapshots` takes the pictures anew; look at them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.chat.stage import Stage, played
from tests.talk.servers import Use, claude

pytestmark = pytest.mark.slow

SNAPSHOTS = Path(__file__).parent / "snapshots"
REPLY = """\
Two steps, with `redis`:

1. Keep keys **short**.
2. Expire after an hour.

```python
def ttl(key: str) -> int:
    return 3600  # seconds
```

[MEMORY] Jamie prefers Redis over Memcached
"""

# How many tokens things have is another test's.
_COUNTS = r"[\d.]+k?/[\d.]+[kM]|[\d,]+\sof\s[\d,]+\stokens|(?<=>)[\d,]+(?=<)"

Looks = Callable[[Stage, str], Awaitable[None]]


@pytest.fixture
def looks(request: pytest.FixtureRequest) -> Looks:
    """Compares the screen with the one that is kept under a name."""

    async def compare(stage: Stage, name: str) -> None:
        stage.app.entry.cursor_blink = False
        await stage.pilot.pause()
        path = SNAPSHOTS / f"{name}.svg"
        picture = normal(stage.app.export_screenshot(title="retain"))
        if request.config.getoption("--update-snapshots"):
            SNAPSHOTS.mkdir(exist_ok=True)
            path.write_text(picture, encoding="utf-8")
        assert picture == path.read_text(encoding="utf-8")

    return compare


def normal(picture: str) -> str:
    """A picture without what differs from day to day, and without what nobody sees."""
    for pattern, instead in (
        (r"&#160;", "\N{NO-BREAK SPACE}"),
        (r"@font-face \{.*?\}\n", ""),
        (r"<!--.*?-->", ""),
        (r"<clipPath id=\S+?-line-.*?</clipPath>\n?", ""),
        (r' clip-path="url\(\S+?-line-\d+\)"', ""),
        (r"<text [^>]*>\n</text>", "\n"),
        (r"<text [^>]*>\s*\d+\.\d\ss</text>", ""),  # how long a tool took
        (r"terminal-\d+-", ""),
        (r"\b20\d\d(-?)\d\d\1\d\d\b", r"2026\g<1>11\g<1>16"),
        (r"(?<!\d)20\d{6}_", "20261116_"),
        (r"[ \t]*\n(\s*\n)*", "\n"),
    ):
        picture = re.sub(pattern, instead, picture, flags=re.DOTALL)
    return re.sub(_COUNTS, lambda found: re.sub(r"\d", "0", found[0]), picture)


def colours(stage: Stage, words: str) -> set[object]:
    """The colours of the line on the screen that has these words."""
    for strip in stage.app.screen._compositor.render_strips():
        if words in "".join(part.text for part in strip):
            return {part.style.color for part in strip if part.style and part.text.strip()}
    raise AssertionError(f"{words!r} is not on the screen")


# Talking


def test_a_new_chat(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        await stage.sees("project bank")
        await looks(stage, "welcome")

    played(scene)


@pytest.mark.parametrize("ground, name", [("15;0", "reply"), ("0;15", "reply-light")])
def test_a_reply_with_code_and_a_fact(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, ground: str, name: str
) -> None:
    monkeypatch.setenv("COLORFGBG", ground)

    async def scene(stage: Stage) -> None:
        stage.server.says(claude(REPLY))
        await stage.says("How do we cache?")
        await stage.sees("Memory saved", "How do we cache?")
        await looks(stage, name)
        assert len(colours(stage, "def ttl(key: str)")) > 3
        assert len(colours(stage, "return 3600  # seconds")) > 3
        assert len(colours(stage, "Expire after an hour.")) <= 2

    played(scene)


def test_a_message_that_waits(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude("The beginning of it", ending="hang", keep=7))
        await stage.sends("Tell me")
        await stage.sees("The beginning of")
        await stage.sends("And what about Memcached?")
        await stage.sees("↳ queued")
        stage.app.do("")  # its seconds go on
        await looks(stage, "queued")
        await stage.pilot.press("escape")
        await stage.rest()

    played(scene, size=(60, 15))


def test_the_commands_that_are_offered(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        await stage.types("/s")
        await stage.sees("/search")
        await looks(stage, "commands")

    played(scene, size=(60, 15))


# Tools


def test_a_question_about_a_file(looks: Looks) -> None:
    Path("src").mkdir()
    Path("src/notes.md").write_text("one\ntwo\nthree\n", encoding="utf-8")

    async def scene(stage: Stage) -> None:
        write = Use("write_file", {"path": "src/notes.md", "content": "one\n2\nthree\n"})
        stage.server.says(claude("I will change it.", write))
        await stage.sends("Change two to 2")
        await stage.asked()
        await looks(stage, "approval")
        await stage.pilot.press("a", "a")
        await stage.sees("Enter allows")
        await looks(stage, "approval-always")
        await stage.pilot.press("escape")
        await stage.rest()

    played(scene)


def test_a_question_about_a_long_file(looks: Looks) -> None:
    content = "".join(f"line {number}\n" for number in range(300))

    async def scene(stage: Stage) -> None:
        write = Use("write_file", {"path": "src/notes.md", "content": content})
        stage.server.says(claude("I will write it.", write))
        await stage.sends("Write it")
        await stage.asked()
        await looks(stage, "approval-long")
        await stage.pilot.press("escape")
        await stage.rest()

    played(scene)


def test_a_tool_folded_and_unfolded(looks: Looks) -> None:
    Path("three.txt").write_text("first\nsecond\nthird\n", encoding="utf-8")

    async def scene(stage: Stage) -> None:
        read = Use("read_file", {"path": "three.txt"})
        stage.server.says(claude("Reading.", read), claude("Three lines."))
        await stage.says("What is in it?")
        await stage.sees("Three lines.")
        await looks(stage, "tool-folded")
        await stage.pilot.press("ctrl+o")
        await stage.sees("third")
        await looks(stage, "tool-unfolded")

    played(scene)


# What the chat says itself


@pytest.mark.parametrize("model, name", [("", "no-key"), ("gpt-5", "no-key-openai")])
def test_no_key(looks: Looks, monkeypatch: pytest.MonkeyPatch, model: str, name: str) -> None:
    if model:
        monkeypatch.setenv("RETAIN_CHAT_MODEL", model)

    async def scene(stage: Stage) -> None:
        await stage.sees("There is no model to talk to yet")
        await looks(stage, name)

    played(scene, has_key=False)


def test_what_the_model_is_sent(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        await stage.says("How do we cache?")
        await stage.says("/context")
        await stage.sees("this conversation")
        await looks(stage, "context")

    played(scene)


def test_earlier_conversations(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        for text in ("How do we cache?", "Which port does the API listen on?"):
            await stage.says(text)
            await stage.says("/new")
        await stage.says("/sessions")
        await stage.sees("Recent sessions")
        await looks(stage, "sessions")

    played(scene)
