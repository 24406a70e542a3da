"""The graph: what it is made of, how it is filtered, and the picture and the list of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.web import stage
from tests.web.stage import Served, Trouble

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Five memories in a chain of links, one file, three tags, one name that leads nowhere."""
    with stage.started(tmp_path_factory.mktemp("web"), project=True) as server:
        put = server.store
        put("See [[b]] and [[src/login.py]].", title="A", id="a", collection="notes", tags=["x"])
        put("See [[c]].", title="B", id="b", collection="notes", tags=["x", "y"], type="plan")
        put("See [[d]].", title="C", id="c", collection="plans", type="plan")
        put("See [[lost idea]].", title="D", id="d", collection="plans")
        put("Alone.", title=HOSTILE, id="e", collection="plans", tags=[HOSTILE])
        own = {"text": "Of mine. [[src/login.py]]", "title": "Own", "id": "own", "tags": ["x"]}
        server.api("POST", "/memories/global", own)
        yield server


def graph(served: Served, **query: Any) -> Any:
    return served.api("GET", "/graph", **query)


def titles(found: Any, kind: str = "memory") -> set[str]:
    return {node["title"] for node in found["nodes"] if node["kind"] == kind}


def links(found: Any) -> set[tuple[str, str]]:
    nodes = found["nodes"]
    return {
        (nodes[edge["source"]]["title"], nodes[edge["target"]]["title"]) for edge in found["edges"]
    }


def test_graph_has_memories_files_tags_and_dangling_links_of_both_banks(served: Served) -> None:
    found = graph(served)
    assert titles(found) == {"A", "B", "C", "D", HOSTILE, "Own"}
    assert titles(found, "ghost") == {"src/login.py"}
    assert titles(found, "tag") == {"x", "y", HOSTILE}
    assert titles(found, "dangling") == {"lost idea"}
    assert {("A", "B"), ("A", "src/login.py"), ("D", "lost idea"), ("Own", "x")} <= links(found)
    assert found["total"] == len(found["nodes"])
    degrees = {node["title"]: node["degree"] for node in found["nodes"]}
    assert degrees["B"] == 4
    assert degrees["x"] == 3


def test_file_of_one_bank_is_not_that_of_the_other_and_tags_are_shared(served: Served) -> None:
    found = graph(served)
    assert sum(node["kind"] == "ghost" for node in found["nodes"]) == 2
    assert sum(node["title"] == "x" for node in found["nodes"]) == 1
    assert titles(graph(served, scope="global")) == {"Own"}
    assert "Own" not in titles(graph(served, scope="here"))


@pytest.mark.parametrize(
    "query, expected",
    [
        ({"collection": "notes"}, {"A", "B"}),
        ({"type": "plan"}, {"B", "C"}),
        ({"tag": "y"}, {"B"}),
        ({"q": "own"}, {"Own"}),
        ({"q": "login.py"}, {"A", "Own"}),
        ({"q": "LOST"}, {"D"}),
        ({"collection": "notes", "type": "plan"}, {"B"}),
        ({"collection": ":root"}, set()),
        ({"q": "' OR 1=1 --"}, set()),
    ],
)
def test_filter_leaves_the_memories_that_fit(
    query: dict[str, str], expected: set[str], served: Served
) -> None:
    assert titles(graph(served, **query)) == expected


def test_hidden_kinds_are_not_there(served: Served) -> None:
    found = graph(served, hide=["tags", "files", "dangling"])
    assert {node["kind"] for node in found["nodes"]} == {"memory"}
    assert links(found) == {("A", "B"), ("B", "C"), ("C", "D")}


def test_neighbourhood_reaches_as_far_as_was_said(served: Served) -> None:
    query = {"focus": "here:notes/a", "hide": ["tags", "files", "dangling"]}
    assert titles(graph(served, **query)) == {"A", "B"}
    assert titles(graph(served, **query, depth=2)) == {"A", "B", "C"}
    assert titles(graph(served, **query, depth=3)) == {"A", "B", "C", "D"}
    assert graph(served, **query)["nodes"][0]["title"] == "A"


def test_limit_keeps_the_best_connected_and_says_how_many_there_are(served: Served) -> None:
    found = graph(served, limit=3)
    assert len(found["nodes"]) == 3
    assert found["total"] > 3
    assert all(edge["target"] < 3 and edge["source"] < 3 for edge in found["edges"])
    assert titles(found, "dangling") == {"lost idea"}


@pytest.mark.parametrize("query", ["depth=4", "depth=x", "limit=0", "hide=all", "odd=1"])
def test_what_is_not_understood_is_refused(query: str, served: Served) -> None:
    assert served.get(f"/api/v1/graph?{query}").status_code == 400
    assert served.get(f"/graph?{query}").status_code == 400


def test_focus_on_what_is_not_there_is_refused_and_the_page_shows_the_rest(served: Served) -> None:
    assert served.get("/api/v1/graph", focus="here:nobody").status_code == 404
    answer = served.get("/graph", focus="here:nobody")
    assert answer.status_code == 200
    assert "is not in this part of the graph" in answer.text


def test_page_lists_every_node_with_its_links_in_words(served: Served) -> None:
    text = served.get("/graph", scope="here").text
    assert 'href="/memory/here/notes/a"' in text
    assert "(leads nowhere)" in text
    assert HOSTILE not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


@pytest.mark.slow
def test_bank_without_memories_has_an_empty_graph(tmp_path: Path) -> None:
    with stage.started(tmp_path) as server:
        assert graph(server)["nodes"] == []
        assert "There is nothing to draw yet" in server.get("/graph").text


# In a browser


def shown(page: Page, path: str = "/graph") -> Any:
    page.goto(path)
    canvas = page.locator("#graph")
    expect(canvas).to_have_attribute("data-state", "still")
    return canvas


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_graph_is_drawn_in_the_colours_of_the_theme(page: Page, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    shown(page, "/graph?scope=here")
    accent = {"light": [15, 107, 92], "dark": [116, 205, 185]}[scheme]
    count = page.evaluate(
        """([r, g, b]) => {
          const canvas = document.getElementById("graph");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          let found = 0;
          for (let at = 0; at < data.length; at += 4)
            found += data[at] === r && data[at + 1] === g && data[at + 2] === b;
          return found;
        }""",
        accent,
    )
    assert count > 50


@pytest.mark.slow
def test_layout_with_motion_comes_to_rest_and_asks_for_no_frame_after_it(page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    shown(page)
    frames = page.evaluate(
        """async () => {
          const before = window.requestAnimationFrame;
          let count = 0;
          window.requestAnimationFrame = (work) => { count += 1; return before(work); };
          await new Promise((done) => setTimeout(done, 300));
          window.requestAnimationFrame = before;
          return count;
        }"""
    )
    assert frames == 0


@pytest.mark.slow
def test_node_is_chosen_in_the_list_and_a_click_on_it_opens_its_page(page: Page) -> None:
    canvas = shown(page)
    page.get_by_role("button", name="Show B in the picture").click()
    expect(canvas).to_have_attribute("data-chosen", "here:notes/b")
    expect(page.locator("#graph-chosen")).to_contain_text("4 links")
    page.mouse.click(*middle(canvas))
    page.wait_for_url("**/memory/here/notes/b")


class Look(NamedTuple):
    """Where one looks: how near, and where the middle of the graph is on the screen."""

    scale: float
    left: float
    top: float


def look(canvas: Locator, after: Look | None = None) -> Look:
    """Where one looks now; after another look, as soon as that has changed."""
    if after:
        said = " ".join(f"{one:.3f}" for one in after)
        expect(canvas).not_to_have_attribute("data-look", said)
    return Look(*map(float, (canvas.get_attribute("data-look") or "").split()))


def middle(canvas: Locator) -> tuple[float, float]:
    box = canvas.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def near(page: Page, canvas: Locator, name: str) -> Look:
    """Choose a node in the list, and go nearer: it is in the middle of the picture."""
    before = look(canvas)
    page.get_by_role("button", name=f"Show {name} in the picture").click()
    before = look(canvas, before)
    page.keyboard.press("+")
    return look(canvas, before)


@pytest.mark.slow
def test_keys_move_zoom_and_open(page: Page) -> None:
    canvas = shown(page)
    whole = look(canvas)
    at = near(page, canvas, "A")
    for key, across, down in (
        ("ArrowLeft", 1, 0),
        ("ArrowRight", -1, 0),
        ("ArrowUp", 0, 1),
        ("ArrowDown", 0, -1),
    ):
        page.keyboard.press(key)
        before, at = at, look(canvas, at)
        assert at.scale == before.scale, key
        assert ((at.left - before.left) * across > 0) == bool(across), key
        assert ((at.top - before.top) * down > 0) == bool(down), key
    for key, is_nearer in (("+", True), ("-", False), ("=", True)):
        page.keyboard.press(key)
        before, at = at, look(canvas, at)
        assert (at.scale > before.scale) == is_nearer, key
    page.keyboard.press("0")
    assert look(canvas, at) == pytest.approx(whole, abs=0.01)
    page.keyboard.press("Enter")
    page.wait_for_url("**/memory/here/notes/a")


@pytest.mark.slow
def test_filter_acts_at_once_on_picture_list_and_address(page: Page) -> None:
    canvas = shown(page)
    page.locator("#graph-q").fill("login")
    expect(canvas).to_have_attribute("data-nodes", re.compile("^[2-9]$"))
    expect(page.locator("#graph-list")).to_contain_text("linked file")
    page.wait_for_url("**/graph?q=login*")
    page.get_by_label("Files").check()
    expect(page.locator("#graph-list")).not_to_contain_text("linked file")
    expect(page.locator("#graph-list")).to_contain_text("Own")
    page.locator("#graph-q").fill("nothing like it")
    expect(page.locator("#graph-list")).to_contain_text("Nothing fits")


@pytest.mark.slow
def test_neighbourhood_is_shown_and_left_again(page: Page) -> None:
    canvas = shown(page, "/graph?hide=tags&hide=files&hide=dangling")
    page.get_by_role("link", name="Neighbourhood of A").click()
    expect(canvas).to_have_attribute("data-nodes", "2")
    expect(page.locator("#graph-said")).to_contain_text("Around A")
    page.locator("#graph-depth").select_option("2")
    expect(canvas).to_have_attribute("data-nodes", "3")
    page.get_by_role("link", name="Show all").click()
    expect(canvas).to_have_attribute("data-nodes", "6")


@pytest.mark.slow
def test_picture_is_dragged_and_zoomed_by_hand(page: Page) -> None:
    canvas = shown(page)
    box = canvas.bounding_box()
    assert box
    before, picture = look(canvas), canvas.screenshot()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 60)
    page.mouse.up()
    dragged = look(canvas, before)
    assert dragged == pytest.approx((before.scale, before.left + 70, before.top + 40), abs=0.01)
    assert canvas.screenshot() != picture
    page.mouse.wheel(0, -300)
    assert look(canvas, dragged).scale > dragged.scale


@pytest.mark.slow
def test_two_fingers_zoom(page: Page) -> None:
    canvas = shown(page)
    x, y = middle(canvas)
    touch = page.context.new_cdp_session(page)
    before = look(canvas)
    for kind, apart in (("touchStart", 20), ("touchMove", 60), ("touchMove", 110)):
        points = [{"x": x + side * apart, "y": y, "id": side + 1} for side in (-1, 1)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert look(canvas, before).scale > before.scale
    expect(page.locator("#graph-chosen")).to_be_hidden()


@pytest.mark.slow
def test_node_is_dragged_and_the_others_follow(page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    canvas = shown(page)
    page.get_by_role("button", name="Show B in the picture").click()
    x, y = middle(canvas)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 80, y - 60, steps=6)
    page.mouse.up()
    expect(canvas).to_have_attribute("data-state", "still")
    assert page.url.endswith("/graph")


# What the page tells the thread that lays out, in order.
_TOLD = """
window.told = [];
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (...given) {
  window.told.push(given[0]);
  return post.apply(this, given);
};
"""


@pytest.mark.slow
def test_node_is_let_go_when_a_second_finger_comes(page: Page, context: BrowserContext) -> None:
    context.add_init_script(_TOLD)
    page.emulate_media(reduced_motion="no-preference")
    canvas = shown(page)
    near(page, canvas, "B")
    x, y = middle(canvas)
    touch = page.context.new_cdp_session(page)

    def fingers(kind: str, *at: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(at)]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    pins = "told.filter((one) => one.what === 'pin').map((one) => one.node)"
    fingers("touchStart", (x, y))
    fingers("touchMove", (x + 30, y))
    stage.until(page, f"{pins}.at(-1) >= 0")
    fingers("touchStart", (x + 30, y), (x + 90, y))
    stage.until(page, f"{pins}.at(-1) === -1")
    fingers("touchEnd")
    expect(canvas).to_have_attribute("data-state", "still")
    assert page.evaluate(pins)[-1] == -1


@pytest.mark.slow
def test_new_memory_appears_while_one_looks(page: Page, served: Served) -> None:
    canvas = shown(page, "/graph?scope=here&q=latecomer")
    expect(canvas).to_have_attribute("data-nodes", "0")
    (served.bank / "notes" / "late.md").write_text("# Latecomer\n", encoding="utf-8")
    expect(canvas).to_have_attribute("data-nodes", "1")


def written(page: Page, served: Served, name: str, text: str) -> None:
    """Write a file as an agent does; the page has drawn the graph and its list anew after it."""
    with page.expect_response(lambda answer: "/api/" not in answer.url and "/graph" in answer.url):
        (served.bank / "notes" / f"{name}.md").write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_who_looks_at_a_part_still_does_after_a_write(
    page: Page, served: Served, motion: Any
) -> None:
    page.emulate_media(reduced_motion=motion)
    canvas = shown(page, "/graph?scope=here")
    before = near(page, canvas, "B")
    count = int(canvas.get_attribute("data-nodes") or "")
    written(page, served, f"more-{motion}", f"# More {motion}\n\nSee [[b]].\n")
    expect(canvas).to_have_attribute("data-nodes", str(count + 1))
    expect(canvas).to_have_attribute("data-state", "still")
    assert look(canvas) == before
    expect(canvas).to_have_attribute("data-chosen", "here:notes/b")
    page.mouse.click(*middle(canvas))  # it has kept its place, too
    page.wait_for_url("**/memory/here/notes/b")


@pytest.mark.slow
def test_write_that_changes_no_link_lays_nothing_out(
    page: Page, context: BrowserContext, served: Served
) -> None:
    (served.bank / "notes" / "steady.md").write_text("# Steady\n", encoding="utf-8")
    context.add_init_script(_TOLD)
    canvas = shown(page, "/graph?q=steady")
    expect(canvas).to_have_attribute("data-nodes", "1")
    before = page.evaluate("told.length")
    written(page, served, "steady", "# Steady\n\nIn other words.\n")
    assert page.evaluate("told.length") == before


@pytest.mark.slow
def test_page_of_the_list_stays_after_a_write_and_ends_with_another_filter(
    page: Page, served: Served
) -> None:
    shown(page, "/graph?scope=here&at=1")
    first = page.locator(".graph-line h2").first.inner_text()
    served.store("Another.", title="Another", id="another", collection="plans")
    expect(page.locator("#graph-said")).to_contain_text("memories")
    expect(page.locator("#graph-list")).to_contain_text("Another")
    assert page.locator(".graph-line h2").first.inner_text() == first
    assert page.url.endswith("/graph?scope=here&at=1")
    page.get_by_label("Tags").check()
    page.wait_for_url("**/graph?scope=here&hide=tags")


@pytest.mark.slow
def test_list_that_comes_late_does_not_replace_a_newer_one(page: Page, trouble: Trouble) -> None:
    trouble.expects("ERR_ABORTED")
    shown(page)
    page.route(re.compile(r"(?<!v1)/graph\?q=lost"), lambda _route: None)  # it is never answered
    with page.expect_request(
        lambda request: request.url.endswith("/graph?q=lost") and "/api/" not in request.url
    ):
        page.locator("#graph-q").fill("lost")
    with page.expect_event("requestfailed"):  # the list that nobody waits for any more
        page.locator("#graph-q").fill("login")
    expect(page.locator("#graph-list")).to_contain_text("linked file")
    expect(page.locator("#graph-list")).not_to_contain_text("lost idea")


@pytest.mark.slow
def test_phone_has_the_picture_first_and_nothing_sticks_out(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    canvas = shown(page)
    box = canvas.bounding_box()
    assert box
    assert box["y"] < 200
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
