"""How smooth the graph is in a browser: `python bench/graph.py`.

A bank of made-up memories with about as many nodes as are asked for is shown by `retain web` to
Chromium. Frames are timed by the browser's own clock, as the time between two calls of
requestAnimationFrame, while the layout moves, while a person drags the sheet or a node, zooms, and
passes over nodes; and in turns with that on a page of the same size whose canvas is
only wiped. Ratios are to that page at the same percentile. Without a graphics card, as here,
everything is drawn by the processor.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

LIMIT = 2.0  # times an empty canvas, at the median
_FRAMES = """
async (count) => {
  const found = [];
  let last = await new Promise(requestAnimationFrame);
  while (found.length < count) {
    const now = await new Promise(requestAnimationFrame);
    found.push(now - last);
    last = now;
  }
  return found;
}
"""
_EMPTY = """
() => {
  document.querySelector(".graph-page").replaceChildren();
  const canvas = document.createElement("canvas");
  canvas.width = 900; canvas.height = 650;
  document.querySelector(".graph-page").append(canvas);
  const context = canvas.getContext("2d");
  const wipe = () => { context.clearRect(0, 0, 900, 650); requestAnimationFrame(wipe); };
  wipe();
}
"""
_HAND = """
([x, y, isDown]) => {
  const canvas = document.getElementById("graph");
  const box = canvas.getBoundingClientRect();
  const tell = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind, {
    pointerId: 1, clientX: box.left + x, clientY: box.top + y, bubbles: true }));
  canvas.setPointerCapture = () => {};
  if (isDown) tell("pointerdown", x, y);
  let step = 0;
  const move = () => {
    step += 1;
    tell("pointermove", x + 150 * Math.sin(step / 20), y + 100 * Math.sin(step / 31));
    requestAnimationFrame(move);
  };
  move();
}
"""
_ZOOM = """
() => {
  const canvas = document.getElementById("graph");
  const box = canvas.getBoundingClientRect();
  let step = 0;
  const turn = () => {
    step += 1;
    canvas.dispatchEvent(new WheelEvent("wheel", {
      deltaY: 60 * Math.sin(step / 25), cancelable: true,
      clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 }));
    requestAnimationFrame(turn);
  };
  turn();
}
"""


def make_bank(root: Path, nodes: int) -> None:
    """Memories with links, files and tags; one node in eight is a file or a tag."""
    dice = random.Random(7)
    folder = root / "notes"
    folder.mkdir(parents=True)
    count = nodes * 7 // 8
    files, tags = nodes // 10, nodes - count - nodes // 10
    for number in range(count):
        links = [f"[[n{dice.randrange(max(1, number))}]]" for _ in range(dice.choice((0, 1, 2, 3)))]
        links += [f"[[src/f{number % files}.py]]"] if dice.random() < 0.4 else []
        tag = f"t{int(tags * dice.random() ** 2)}"
        head = f"---\nid: n{number}\ntitle: Memory number {number}\ntags: [{tag}]\n---\n"
        text = f"{head}\nIt is about {tag}. {' '.join(links)}\n"
        (folder / f"n{number}.md").write_text(text, encoding="utf-8")


def started(home: Path) -> tuple[subprocess.Popen[bytes], str]:
    log = home / "log"
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "RETAIN_RECALL_EMBEDDER": "none"}
    retain = str(Path(sys.executable).with_name("retain"))
    with log.open("wb") as stderr:
        process = subprocess.Popen([retain, "web", "--port", "0"], env=env, cwd=home, stderr=stderr)
    while process.poll() is None:
        if found := re.search(r"http://\S+/enter#\S+", log.read_text(encoding="utf-8")):
            return process, found[0]
        time.sleep(0.05)
    raise SystemExit(log.read_text(encoding="utf-8"))


def frames(page: Page, count: int) -> list[float]:
    found: list[float] = page.evaluate(_FRAMES, count)
    return found


def measured(page: Page, url: str, count: int) -> dict[str, list[float]]:
    found = {}
    page.goto(f"{url}/graph")
    page.wait_for_selector("canvas[data-state=still]", timeout=120_000)
    page.evaluate(_EMPTY)
    found["empty canvas"] = frames(page, count)
    page.goto(f"{url}/graph")
    page.wait_for_selector("canvas[data-nodes]", timeout=120_000)
    found["layout moving"] = frames(page, count)
    page.wait_for_selector("canvas[data-state=still]", timeout=120_000)
    found["at rest"] = frames(page, count)
    for name, move in MOVES.items():
        page.goto(f"{url}/graph")
        page.wait_for_selector("canvas[data-state=still]", timeout=120_000)
        move(page)
        found[name] = frames(page, count)
    return found


def drag_node(page: Page) -> None:
    """A node that is chosen in the list is in the middle, where a hand takes it."""
    page.click("#graph-list [data-show]")
    page.evaluate(_HAND, [*middle(page), True])


def middle(page: Page) -> tuple[float, float]:
    box = page.locator("#graph").bounding_box()
    return (box["width"] / 2, box["height"] / 2) if box else (0, 0)


MOVES: dict[str, Callable[[Page], object]] = {
    "sheet dragged": lambda page: page.evaluate(_HAND, [3, 3, True]),
    "node dragged": drag_node,
    "hovered": lambda page: page.evaluate(_HAND, [*middle(page), False]),
    "zoomed": lambda page: page.evaluate(_ZOOM),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home, sync_playwright() as play:
        make_bank(Path(home) / ".retain", given.nodes)
        server, link = started(Path(home))
        try:
            browser = play.chromium.launch(
                executable_path=given.chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto(link)
            url = link.partition("/enter")[0]
            page.wait_for_url(f"{url}/")
            for _ in range(given.rounds):
                for name, found in measured(page, url, given.frames).items():
                    times.setdefault(name, []).extend(found)
            nodes, links = page.evaluate(
                "() => { const { nodes, links } = document.getElementById('graph').dataset;"
                " return [nodes, links]; }"
            )
            browser.close()
        finally:
            server.terminate()
            server.wait()
    print(f"{nodes} nodes, {links} links, load {os.getloadavg()[0]:.1f}")
    return report(times)


def report(times: dict[str, list[float]]) -> int:
    bare = percentiles(times["empty canvas"])
    worst = 0.0
    print("| frames | median ms | p95 ms | x empty, median | p95 |")
    print("|---|---|---|---|---|")
    for name, found in times.items():
        usual, slow = percentiles(found)
        ratios = usual / bare[0], slow / bare[1]
        print(f"| {name} | {usual:.1f} | {slow:.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
        worst = max(worst, ratios[0])
    print(f"at most {LIMIT} times an empty canvas, at the median")
    return int(worst > LIMIT)


def percentiles(found: list[float]) -> tuple[float, float]:
    return statistics.median(found), statistics.quantiles(found, n=20)[-1]


if __name__ == "__main__":
    sys.exit(main())
