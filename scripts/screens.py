"""Takes the pictures in docs/chat.md: `.venv/bin/python scripts/screens.py [DIRECTORY]`.

A chat is driven against a model's server on this machine, in a home directory that is thrown away.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

REPLY = """\
Redis fits: you need expiry by key, and two services share the data.

1. Keep keys short: `user:42:cart`.
2. Expire after an hour.

```python
def cached(key: str, seconds: int = 3600) -> Cart:
    if found := redis.get(key):  # most of the time
        return Cart.loads(found)
    return load(key)
```

[MEMORY] The shop caches carts in Redis for an hour
"""
CHANGED = "[cache]\nurl = redis://cache:6379\nseconds = 3600\n"


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as home:
        work = Path(home, "shop")
        work.mkdir()
        os.environ.update(HOME=home, RETAIN_HOME=f"{home}/.retain", COLORFGBG="15;0")
        os.chdir(work)
        _take(target)
        os.chdir("/")


def _take(target: Path) -> None:
    from retain.app import App
    from tests.chat.stage import Stage, played
    from tests.talk.servers import Use, claude

    app = App(cwd=os.getcwd())
    app.init()
    app.close()
    subprocess.run(["git", "init", "--quiet"], check=True)
    Path("settings.ini").write_text("[cache]\nseconds = 60\n", encoding="utf-8")

    def keep(stage: Stage, name: str) -> None:
        picture = stage.app.export_screenshot(title="retain")
        # No fonts from the net: a page about a tool that connects to nobody must not either.
        picture = re.sub(r"@font-face \{.*?\}\n", "", picture, flags=re.DOTALL)
        path = target / f"chat-{name}.svg"
        path.write_text(re.sub(r"[ \t]+\n", "\n", picture), encoding="utf-8")

    async def talk(stage: Stage) -> None:
        await stage.says("/remember The shop runs on two services, web and billing")
        await stage.says("/new")
        stage.server.says(claude(REPLY))
        await stage.says("What should the shop's two services use as a cache?")
        await stage.sees("Memory saved")
        keep(stage, "conversation")
        write = Use("write_file", {"path": "settings.ini", "content": CHANGED})
        stage.server.says(claude("I will put that into the settings.", write))
        await stage.sends("Good. Set it up.")
        await stage.asked()
        keep(stage, "question")
        await stage.pilot.press("escape")
        await stage.rest()
        await stage.types("/s")
        await stage.sees("/search")
        keep(stage, "commands")

    async def empty(stage: Stage) -> None:
        await stage.sees("There is no model to talk to yet")
        keep(stage, "no-key")

    played(talk, size=(80, 26))
    played(empty, size=(80, 26), has_key=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if sys.argv[1:] else ROOT / "docs")
