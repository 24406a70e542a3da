"""Many tabs at once: a browser has six connections for one server, and none may be left waiting."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.web.stage import Served, Trouble

pytestmark = pytest.mark.slow

# Without a screen a browser shows every tab: one has to be told that it is behind another.
HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def opened(context: BrowserContext, served: Served, trouble: Trouble) -> Page:
    page = context.new_page()
    trouble.watch(page, served.url)
    with page.expect_response("**/api/v1/events"):
        page.goto("/", timeout=20_000)
    return page


def test_a_ninth_tab_loads_and_is_live_and_the_others_catch_up(
    page: Page, context: BrowserContext, served: Served, trouble: Trouble
) -> None:
    page.goto("/")
    page.evaluate(HIDE, True)
    behind = [page]
    for _ in range(7):
        behind.append(opened(context, served, trouble))
        behind[-1].evaluate(HIDE, True)
    ninth = opened(context, served, trouble)
    served.store("# Kettles need descaling", id="kettles")
    expect(ninth.get_by_role("link", name="Kettles need descaling")).to_be_visible()
    for one in behind:
        expect(one.get_by_role("link", name="Kettles need descaling")).to_have_count(0)
    ninth.evaluate(HIDE, True)
    for one in behind[:3]:  # as many as a browser lets listen, and still ask
        one.evaluate(HIDE, False)
        expect(one.get_by_role("link", name="Kettles need descaling")).to_be_visible()
    # And they are live again, not only up to date.
    served.store("# Filters too", id="filters")
    for one in behind[:3]:
        expect(one.get_by_role("link", name="Filters too")).to_be_visible()


def test_the_count_of_the_inbox_is_right_after_a_tab_was_behind(page: Page) -> None:
    page.goto("/")
    page.evaluate("document.getElementById('inbox-count').textContent = '7'")
    page.evaluate(HIDE, True)
    with page.expect_response("**/api/v1/inbox/count"):
        page.evaluate(HIDE, False)
    expect(page.locator("#inbox-count")).to_be_hidden()
