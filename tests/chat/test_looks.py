"""The main screens look as they did when somebody last looked at them.

`pytest tests/chat/test_looks.py --update-transcripts` writes them anew; read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chat.stage import Stage, played
from tests.talk.servers import Use, claude

SCREENS = Path(__file__).parent / "screens"
REPLY = """\
Two steps, with `redis`:

1. Keep keys **short**.
2. Expire after an hour.

```python
def ttl() -> int:
    return 3600
```

[MEMORY] Jamie prefers Redis over Memcached
"""

Looks = Callable[[Stage, str], None]


@pytest.fixture
def looks(request: pytest.FixtureRequest) -> Looks:
    """Compares the screen with the one that is kept under a name."""

    def compare(stage: Stage, name: str) -> None:
        path = SCREENS / f"{name}.txt"
        text = stage.text + "\n"
        if request.config.getoption("--update-transcripts"):
            SCREENS.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


def test_a_new_chat(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        await stage.sees("project bank")
        looks(stage, "new")

    played(scene)


def test_a_conversation_with_a_fact_saved(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        stage.server.says(claude(REPLY))
        await stage.says("How do we cache?")
        await stage.sees("Memory saved", "How do we cache?")
        looks(stage, "conversation")

    played(scene, size=(80, 30))


def test_the_commands_that_are_offered(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        await stage.types("/s")
        await stage.sees("/search")
        looks(stage, "commands")

    played(scene, size=(60, 15))


def test_a_question_about_a_file(looks: Looks) -> None:
    Path("notes.md").write_text("one\ntwo\nthree\n", encoding="utf-8")

    async def scene(stage: Stage) -> None:
        write = Use("write_file", {"path": "notes.md", "content": "one\n2\nthree\n"})
        stage.server.says(claude("I will change it.", write))
        await stage.sends("Change two to 2")
        await stage.asked()
        looks(stage, "question")
        await stage.pilot.press("escape")
        await stage.rest()

    played(scene)


def test_no_key(looks: Looks) -> None:
    async def scene(stage: Stage) -> None:
        await stage.sees("There is no model to talk to yet")
        looks(stage, "no-key")

    played(scene, has_key=False)
