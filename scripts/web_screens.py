"""Takes the pictures in docs/web.md: `.venv/bin/python scripts/web_screens.py [DIRECTORY]`.

A made-up bank is served to Chromium from a home directory that is thrown away; the chat speaks with
a model's server on this machine. Pictures are WebP, so that a page of documentation stays light.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

MOST: Final = 60_000  # bytes of one picture


class Picture(NamedTuple):
    """What is shown, and how."""

    name: str
    path: str
    scheme: str = "light"
    width: int = 1180
    height: int = 720


def pictures(session: str) -> tuple[Picture, ...]:
    return (
        Picture("search", "/?q=database+connections"),
        Picture("memory", "/memory/here/knowledge/connection-pool", "dark"),
        Picture("graph", "/graph"),
        Picture("timeline", "/timeline", "dark"),
        Picture("chat", f"/chat/{session}"),
        Picture("phone", "/", "dark", 390, 720),
    )


def main(target: Path) -> None:
    from tests.talk.servers import running
    from tests.web import demo, stage

    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        demo.fill(Path(home))
        with (
            running() as model,
            stage.started(Path(home), env=demo.spoken_to(model)) as served,
            sync_playwright() as play,
        ):
            demo.enrich(served)
            session = demo.talk(served, model)
            browser = play.chromium.launch(
                executable_path=stage.chromium(), args=["--no-sandbox", "--disable-gpu"]
            )
            cookie = served.cookie()
            for one in pictures(session):
                _take(browser, served.url, cookie, one, target / f"web-{one.name}.webp")
            browser.close()


def _take(browser: Browser, url: str, cookie: tuple[str, str], one: Picture, path: Path) -> None:
    context = browser.new_context(
        base_url=url,
        color_scheme="dark" if one.scheme == "dark" else "light",
        reduced_motion="reduce",
        viewport={"width": one.width, "height": one.height},
    )
    context.add_cookies([{"name": cookie[0], "value": cookie[1], "url": url, "httpOnly": True}])
    page = context.new_page()
    page.goto(one.path)
    _settle(page, one.name)
    path.write_bytes(_smallest(page))
    context.close()


def _settle(page: Page, name: str) -> None:
    if name == "graph":
        page.wait_for_selector("canvas[data-state=still]")
    if name == "search":
        page.locator(".why summary").first.click()
        page.locator("h1").evaluate("one => { document.activeElement.blur(); }")
    if name == "chat":
        page.get_by_role("button", name="Yes, this once").wait_for()
    page.wait_for_timeout(600)


def _smallest(page: Page) -> bytes:
    """The best picture that is light enough."""
    session = page.context.new_cdp_session(page)
    for quality in (90, 80, 70, 60, 50, 40):
        given = {"format": "webp", "quality": quality}
        found = base64.b64decode(session.send("Page.captureScreenshot", given)["data"])
        if len(found) < MOST:
            return found
    raise SystemExit("the picture is too large; make its window smaller")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute() if sys.argv[1:] else ROOT / "docs")
