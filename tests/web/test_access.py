"""Every page for everyone: names, contrast, focus, keys, narrow windows, and nothing that jumps.

The pages are read from the server's routes, so that a new one cannot be forgotten. What axe-core
knows is asked of axe-core; the rest is tried with keys and looked up in the browser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, expect
from starlette.routing import Route

from retain.web.app import ROUTES
from tests.conftest import ROOT
from tests.talk.servers import running
from tests.web import demo, stage
from tests.web.stage import Begin, Served, Trouble

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
DESK, PHONE = ViewportSize(width=1280, height=800), ViewportSize(width=390, height=844)
NARROW = ViewportSize(width=320, height=640)
ZOOMED = ViewportSize(width=640, height=400)  # a desk at 200 %
SHIFT = 0.05  # of the window's area, in all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Demo:
    """The session of the chat that the bank has, known once the server runs."""

    session = ""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("access")
    demo.fill(home)
    with running() as model, stage.started(home, env=demo.spoken_to(model)) as server:
        demo.enrich(server)
        Demo.session = demo.talk(server, model)
        yield server


def pages() -> list[str]:
    """An address for every page, and for those that look otherwise with something else on them."""
    memory = {"scope": "here", "collection": "knowledge", "id": demo.LONG, "session": Demo.session}
    talk = {**memory, "id": Demo.session}
    found = []
    for route in ROUTES:
        assert isinstance(route, Route)
        if route.path.startswith("/api/") or route.path.endswith("/export"):
            continue  # no page: what is answered, and a file to be kept
        given = talk if "/sessions/" in route.path else memory
        found.append(re.sub(r":\w+}", "}", route.path).format(**given))
    return [
        *found,
        "/?q=database+connections",
        "/?q=zzzqqq&tag=money",
        "/?status=retired",
        f"/memory/here/decisions/{demo.TYPED}",
        f"/memory/here/runbooks/{demo.RUNBOOK}",
        f"/memory/here/decisions/{demo.TYPED}/edit",
        f"/memory/here/runbooks/{demo.RUNBOOK}/edit",
        "/new?type=preference",
        "/memory/here/knowledge/old-host",
        "/memory/here/knowledge/long-name",
        "/memory/here/knowledge/nowhere",  # an error's page
    ]


def test_the_walk_knows_the_pages() -> None:
    Demo.session = Demo.session or "x"
    assert {"/", "/new", "/graph", "/timeline", "/inbox", "/health", "/sessions", "/chat"} <= set(
        pages()
    )


@pytest.fixture
def quiet(trouble: Trouble) -> Trouble:
    trouble.expects("status of 404")
    return trouble


def at_rest(page: Page, path: str) -> None:
    """The page with everything on it that comes by itself."""
    page.goto(path)
    page.wait_for_load_state("load")
    if path == "/graph":
        page.wait_for_selector("canvas[data-state=still]")
    if path == "/health":
        page.wait_for_selector("#going", state="detached")
    if path.startswith("/chat/"):
        expect(page.get_by_role("button", name="Yes, this once")).to_be_enabled()
    settled(page)


_SETTLED = """() => new Promise((done) => {
  let [before, same] = ["", 0];
  const look = () => {
    const { scrollWidth, scrollHeight } = document.documentElement;
    const now = [scrollX, scrollY, scrollWidth, scrollHeight, window.shifts?.length].join();
    same = now === before ? same + 1 : 0;
    before = now;
    if (same === 12) done();
    else requestAnimationFrame(look);
  };
  look();
})"""


def settled(page: Page) -> None:
    """Wait until a dozen frames in a row are as the one before: on a slow machine, slow ones."""
    page.evaluate(_SETTLED)


# Colours do not depend on the size, nor the layout on the colours: two views have all four.
@pytest.fixture(params=["desk-light", "phone-dark"])
def viewed(
    request: pytest.FixtureRequest, browser: Browser, served: Served, quiet: Trouble
) -> Iterator[Page]:
    """A page in each of the two colours and of the two sizes."""
    size, _, scheme = str(request.param).partition("-")
    made = browser.new_context(
        base_url=served.url,
        reduced_motion="reduce",
        color_scheme="dark" if scheme == "dark" else "light",
        viewport=DESK if size == "desk" else PHONE,
    )
    yield stage.enter(made, served, quiet)
    made.close()
    assert not quiet.seen, "\n".join(quiet.seen)


# What axe-core knows

_RULES = """async () => {
  const found = await axe.run(document, {
    resultTypes: ["violations"],
    rules: {
      "target-size": { enabled: true },
      "color-contrast-enhanced": { enabled: false },
      // Titles and fields of memories are long, and people write them.
      "identical-links-same-purpose": { enabled: false },
    },
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  });
  return found.violations.flatMap((one) => one.nodes.map(
    (node) => `${one.id}: ${node.target.join(" ")} ${node.failureSummary.split("\\n")[1].trim()}`));
}"""
# A day of the year is a small square; the field "Day" does the same, and is as large as any.
# And axe takes the links in a closed fold for hidden, which beside the list are always shown.
_SAME_ELSEWHERE = re.compile(r"^target-size: .*data-day|^scrollable-region-focusable: #facets")


def axed(page: Page) -> list[str]:
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return [one for one in page.evaluate(_RULES) if not _SAME_ELSEWHERE.match(one)]


# What it does not know: colours of edges, and what the keys reach

_COLOURS = """
const parsed = (text) => {
  const context = (window.paint ??= Object.assign(document.createElement("canvas"),
    { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true }));
  context.clearRect(0, 0, 1, 1);
  context.fillStyle = text;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data];
};
const ground = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const colour = parsed(getComputedStyle(at).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
const light = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((one) => one / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [a, b] = [light(one), light(other)];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
};
const named = (one) => `${one.tagName.toLowerCase()}${one.id ? "#" + one.id : ""}.${one.className} `
  + (one.getAttribute("aria-label") ?? one.textContent ?? "").trim().slice(0, 40);
"""
_EDGES = (
    "() => {"
    + _COLOURS
    + """
  const fields = "input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea";
  const shown = [...document.querySelectorAll(fields)].filter((one) => one.checkVisibility());
  return shown.flatMap((one) => {
    const [style, around] = [getComputedStyle(one), ground(one.parentElement)];
    const edge = Math.max(
      contrast(parsed(style.borderTopColor), around), contrast(ground(one), around));
    return edge >= 3 ? [] : [`${named(one)} ${edge.toFixed(2)}`];
  });
}"""
)

_TABBABLE = """() => {
  const all = [...document.querySelectorAll(
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]")];
  const found = all.filter((one) => one.tabIndex >= 0 && !one.disabled
    && !one.closest("dialog:not([open])")
    && one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })
    && one.getClientRects().length);
  found.forEach((one, at) => { one.dataset.reach = at; });
  // From the very top, wherever the page has put the focus.
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
  return found.length;
}"""
_STOP = (
    "() => {"
    + _COLOURS
    + """
  const one = document.activeElement;
  if (!one || one === document.body || one === document.documentElement) return null;
  const shown = (at) => {
    const style = getComputedStyle(at);
    const width = parseFloat(style.outlineWidth);
    return style.outlineStyle !== "none" && width >= 2
      && contrast(parsed(style.outlineColor), ground(at.parentElement ?? at)) >= 3;
  };
  const wrong = [];
  if (![one, one.parentElement, one.closest("form")].some((at) => at && shown(at)))
    wrong.push("no focus is seen");
  const box = one.getClientRects()[0];
  const [x, y] = [box.left + Math.min(box.width / 2, 40), box.top + Math.min(box.height / 2, 20)];
  const top = document.elementFromPoint(x, y);
  if (!top) wrong.push(`out of sight at ${x.toFixed()} ${y.toFixed()}`);
  else if (!one.contains(top) && !top.contains(one) && !one.labels?.[0]?.contains(top))
    wrong.push(`covered by ${named(top)}`);
  return { at: one.dataset.reach ?? "", wrong: wrong.map((text) => `${named(one)}: ${text}`) };
}"""
)
_MISSED = (
    "(reached) => {"
    + _COLOURS
    + """
  const seen = new Set(reached);
  return [...document.querySelectorAll("[data-reach]")]
    .filter((one) => !seen.has(one.dataset.reach))
    .filter((one) => one.checkVisibility()).map((one) => `${named(one)}: not reached`);
}"""
)


def walked(page: Page) -> list[str]:
    """Press Tab through the whole page: what is not reached, not seen, or does not let go."""
    count = page.evaluate(_TABBABLE)
    wrong: list[str] = []
    reached: list[str] = []
    rounds = 0
    for _ in range(2 * count + 90):  # a field for a date has several stops of its own
        page.keyboard.press("Tab")
        stop: Any = page.evaluate(_STOP)
        if stop is None:  # out of the page; once more, should it have taken the focus meanwhile
            rounds += 1
            if rounds == 2 or len(set(reached)) >= count:
                break
            continue
        if stop["at"] not in reached and stop["wrong"]:
            settled(page)  # a page that just came may still be on its way there
            again: Any = page.evaluate(_STOP)
            wrong += again["wrong"] if again and again["at"] == stop["at"] else stop["wrong"]
        reached.append(stop["at"])
    else:
        wrong.append("the focus never left the page")
    return [*wrong, *page.evaluate(_MISSED, reached)]


# Narrow windows, large letters, and what moves

_WIDE = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = (one) => one
    && (getComputedStyle(one).overflowX !== "visible" || scrolls(one.parentElement));
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > width + 1 && !scrolls(one.parentElement))
    .slice(0, 5).map((one) =>
      `${one.tagName}.${one.className} ${one.getBoundingClientRect().right} > ${width}`);
}"""


def too_wide(page: Page) -> list[str]:
    """What does not fit a small window; a desk that is zoomed in is one as well."""
    before, wrong = page.viewport_size, []
    for size in (PHONE, NARROW, ZOOMED):
        page.set_viewport_size(size)
        wrong += [f"at {size['width']}: {one}" for one in page.evaluate(_WIDE)]
    page.set_viewport_size(before or DESK)
    return wrong


_WATCH = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) {
    const from = one.sources.map(({ node, previousRect: a, currentRect: b }) =>
      `${node?.nodeName}.${node?.className} ${[a.y, a.height, b.y, b.height].map(Math.round)}`);
    shifts.push([one.value, from.join("; ")]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


def shifted(page: Page) -> tuple[float, str]:
    """How much has jumped so far, whether somebody typed or not."""
    found: list[tuple[float, str]] = page.evaluate("shifts.splice(0)")
    return sum(value for value, _ in found), "\n".join(words for _, words in found)


def jumped(page: Page) -> list[str]:
    """What has jumped until the page was at rest, if that is much."""
    value, words = shifted(page)
    return [f"{value:.3f} {words}"] if value >= SHIFT else []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_results_take_each_others_place_without_a_jump(
    page: Page, context: BrowserContext, size: Any
) -> None:
    context.add_init_script(_WATCH)
    page.set_viewport_size(size)
    at_rest(page, "/")
    page.locator("#q").focus()
    shifted(page)
    for word in ("pool", "payments", "zzz", "mail"):
        with page.expect_response(lambda answer: "q=" in answer.url):
            page.locator("#q").fill(word)
        expect(page.locator("#said")).to_contain_text("found")
        settled(page)
        value, words = shifted(page)
        assert value < SHIFT, f"{word}: {words}"


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_the_first_look_at_a_bank_makes_nothing_jump(
    browser: Browser, tmp_path: Path, begin: Begin, size: Any
) -> None:
    demo.fill(tmp_path / "web")
    trouble = Trouble()
    with stage.started(tmp_path / "web", begin=begin) as server:
        context = browser.new_context(base_url=server.url, viewport=size)
        context.add_init_script(_WATCH)
        page = stage.enter(context, server, trouble)
        came = page.goto("/health")
        assert came
        assert "is being looked over" in came.text()
        expect(page.get_by_text("Collections", exact=True)).to_be_visible()
        settled(page)
        assert not jumped(page)
        context.close()
    assert not trouble.seen


_MOVING = """() => [
  ...document.getAnimations().map((one) => `${one.effect.target.className} is moved`),
  ...[...document.querySelectorAll("*")].filter((one) => {
    const style = getComputedStyle(one);
    return style.scrollBehavior === "smooth"
      || (style.animationName !== "none" && parseFloat(style.animationDuration) > 0)
      || style.transitionDuration.split(",").some((time) => parseFloat(time) > 0);
  }).map((one) => `${one.tagName}.${one.className} may move`)]"""


def test_nothing_moves_where_motion_is_reduced(page: Page) -> None:
    at_rest(page, "/")
    page.locator("[data-item] input").first.check()
    assert page.evaluate(_MOVING) == []


# All of that, page by page


# In this order: what comes by itself is looked at first, what changes the page last.
_LOOKS: dict[str, Callable[[Page], list[str]]] = {
    "jumps": jumped,
    "moves": lambda page: page.evaluate(_MOVING),
    "has no edge": lambda page: page.evaluate(_EDGES),
    "axe": axed,
    "too wide": too_wide,
    "keys": walked,
}


def test_every_page_is_sound_and_tab_reaches_all_of_it(viewed: Page) -> None:
    """One test and not one for each look: to load the pages costs more than to look at them."""
    viewed.context.add_init_script(_WATCH)
    looks = {name: look for name, look in _LOOKS.items() if look is not axed or AXE.exists()}
    wrong = []
    for path in pages():
        at_rest(viewed, path)
        for name, look in looks.items():
            wrong += [f"{path}: {name}: {one}" for one in look(viewed)]
    assert not wrong, "\n".join(wrong)
    if not AXE.exists():
        pytest.skip("all is well but for what axe-core knows: scripts/check installs it")


# Dialogs, and what is said to who does not see

_INSIDE = "() => Boolean(document.activeElement.closest('dialog[open]'))"


@pytest.mark.parametrize(
    "path, before, opener",
    [
        ("/", "", "#keys"),
        ("/?q=pool", "", "#keep"),
        (f"/memory/here/knowledge/{demo.LONG}", ".menu summary", "[data-act=move]"),
        (f"/memory/here/knowledge/{demo.LONG}", ".menu summary", "[data-act=retire]"),
        (f"/memory/here/knowledge/{demo.LONG}", ".menu summary", "[data-act=merge]"),
        ("/chat", "", "#context"),
    ],
)
def test_a_dialog_takes_the_focus_and_gives_it_back(
    page: Page, path: str, before: str, opener: str
) -> None:
    at_rest(page, path)
    if before:
        page.locator(before).press("Enter")
    page.locator(opener).press("Enter")
    dialog = page.locator("dialog[open]")
    expect(dialog).to_have_count(1)
    assert page.evaluate(_INSIDE)
    for _ in range(12):  # round and round, but never to the page behind
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body") or page.evaluate(_INSIDE)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator(before or opener)).to_be_focused()


def test_what_a_search_found_is_said(page: Page) -> None:
    at_rest(page, "/")
    said = page.locator("#said")
    expect(said).to_have_role("status")
    page.locator("#q").fill("postgres")
    expect(said).to_contain_text(re.compile(r"\d+ found"))


def test_what_was_saved_is_said(page: Page) -> None:
    at_rest(page, "/memory/here/knowledge/staging-port/edit")
    page.locator("textarea").first.fill("The proxy took 443. Scripts read `STAGING_URL`.")
    page.locator("textarea").first.press("Control+Enter")
    page.wait_for_url("**/staging-port")
    said = page.locator("#toasts")
    expect(said).to_have_role("status")
    expect(said).to_contain_text("Saved")


# Who has not been let in


@pytest.mark.skipif(not AXE.exists(), reason="scripts/check installs axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_way_in_is_for_everyone_too(browser: Browser, served: Served, scheme: str) -> None:
    made = browser.new_context(
        base_url=served.url, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = made.new_page()
    for size in (DESK, NARROW):
        page.set_viewport_size(size)
        page.goto("/enter")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert page.evaluate(_RULES) == []
        assert page.evaluate(_WIDE) == []
    made.close()
