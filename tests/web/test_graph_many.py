"""A graph of many nodes, which is sketched for as long as it moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.web import stage
from tests.web.stage import Served

pytestmark = pytest.mark.slow

MEMORIES = 700
# How often the picture was put on the canvas pixel by pixel, how many of those were not empty, and
# how many shapes were drawn after the last.
_COUNTED = """
window.sketches = { all: 0, drawn: 0, shapes: 0 };
const put = CanvasRenderingContext2D.prototype.putImageData;
CanvasRenderingContext2D.prototype.putImageData = function (image, ...more) {
  window.sketches.all += 1;
  window.sketches.drawn += image.data.some(Boolean);
  window.sketches.shapes = 0;
  return put.call(this, image, ...more);
};
const fill = CanvasRenderingContext2D.prototype.fill;
CanvasRenderingContext2D.prototype.fill = function (...given) {
  window.sketches.shapes += 1;
  return fill.apply(this, given);
};
"""
_INK = """() => {
  const canvas = document.getElementById("graph");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 3; at < data.length; at += 4) found += data[at] > 0;
  return found;
}"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A tree of memories, each with two below it; every fiftieth is about a file."""
    home = tmp_path_factory.mktemp("many")
    folder = home / ".retain" / "notes"
    folder.mkdir(parents=True)
    for number in range(MEMORIES):
        above = f"[[n{(number - 1) // 2}]]" if number else ""
        about = f"[[src/f{number}.py]]" if number % 50 == 0 else ""
        text = f"---\nid: n{number}\ntitle: Note {number}\n---\n\nSee {above} {about}\n"
        (folder / f"n{number}.md").write_text(text, encoding="utf-8")
    with stage.started(home, env={"RETAIN_RECALL_EMBEDDER": "none"}) as server:
        yield server


def shown(page: Page, context: BrowserContext, motion: Any = "no-preference") -> Any:
    context.add_init_script(_COUNTED)
    page.emulate_media(reduced_motion=motion)
    page.goto("/graph")
    canvas = page.locator("#graph")
    expect(canvas).to_have_attribute("data-nodes", str(MEMORIES + MEMORIES // 50))
    expect(canvas).to_have_attribute("data-state", "still")
    return canvas


def sketches(page: Page) -> tuple[int, int]:
    found = page.evaluate("[sketches.all, sketches.drawn]")
    return found[0], found[1]


def test_many_nodes_are_sketched_while_they_move_and_drawn_when_they_rest(
    page: Page, context: BrowserContext
) -> None:
    shown(page, context)
    count, drawn = sketches(page)
    assert count == drawn > 0
    stage.until(page, "sketches.shapes > 0")
    assert page.evaluate(_INK) > MEMORIES


def test_many_nodes_are_sketched_while_the_sheet_moves(page: Page, context: BrowserContext) -> None:
    canvas = shown(page, context, "reduce")
    assert sketches(page) == (0, 0)  # it never moved by itself
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -200)
    stage.until(page, "sketches.drawn > 0")
    stage.until(page, "sketches.shapes > 0")  # and at rest it is drawn as it should be


def test_many_nodes_are_filtered_chosen_and_opened(page: Page, context: BrowserContext) -> None:
    canvas = shown(page, context)
    page.locator("#graph-q").fill("src/f650")
    expect(canvas).to_have_attribute("data-nodes", "2")
    expect(canvas).to_have_attribute("data-state", "still")
    page.locator("#graph-q").fill("")
    expect(canvas).to_have_attribute("data-nodes", str(MEMORIES + MEMORIES // 50))
    expect(canvas).to_have_attribute("data-state", "still")
    page.get_by_role("button", name="Show Note 50 in the picture").click()
    expect(canvas).to_have_attribute("data-chosen", "here:notes/n50")
    box = canvas.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url("**/memory/here/notes/n50")


@pytest.mark.parametrize("size", [(1280, 700), (390, 600)])
def test_fitted_picture_has_no_node_below_the_legend(
    page: Page, context: BrowserContext, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    shown(page, context, "reduce")
    covered = page.evaluate(
        """() => {
          const canvas = document.getElementById("graph");
          const legend = document.querySelector(".graph-legend").getBoundingClientRect();
          const box = canvas.getBoundingClientRect();
          const top = Math.floor((legend.top - box.top) * canvas.height / box.height);
          const context = canvas.getContext("2d");
          const { data } = context.getImageData(0, top, canvas.width, canvas.height - top);
          return data.filter((one, at) => at % 4 === 3 && one).length;
        }"""
    )
    assert covered == 0
