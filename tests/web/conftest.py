"""A server, a browser, and a page of it that has been let in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.web import stage
from tests.web.nursery import Nursery
from tests.web.stage import Begin, Served, Trouble

expect.set_options(timeout=60_000)  # what is waited for comes; on a busy machine it comes late


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a module, on an empty bank of the person's own."""
    with stage.started(tmp_path_factory.mktemp("web")) as server:
        yield server


@pytest.fixture(scope="session")
def begin() -> Iterator[Begin]:
    """Begins a server faster, for tests that each need one: `stage.started(..., begin=begin)`."""
    with Nursery() as nursery:
        yield nursery.begin


# For a module and not for the session: while playwright runs, its loop counts as running in this
# thread, and tests elsewhere that start a loop of their own would fail.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    program = stage.chromium()
    if not program:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_playwright() as play:
        found = play.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield found
        found.close()


@pytest.fixture
def trouble() -> Trouble:
    """What went wrong on the test's page; it fails the test unless it was expected."""
    return Trouble()


@pytest.fixture
def context(browser: Browser, served: Served) -> Iterator[BrowserContext]:
    """A browser as a person starts it for the first time."""
    made = browser.new_context(base_url=served.url, reduced_motion="reduce")
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, served: Served, trouble: Trouble) -> Iterator[Page]:
    """A page of a browser that has been let in, on nothing yet; `page.goto("/")` opens one."""
    made = stage.enter(context, served, trouble)
    yield made
    assert not trouble.seen, "\n".join(trouble.seen)
