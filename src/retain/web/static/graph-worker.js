// The layout on a thread of its own, so that drawing, scrolling and typing never wait for it.
// One answer for each time the page asks for the next: a page nobody looks at asks for nothing.

import { Layout } from "./graph-layout.js";

const SLICE = 8; // milliseconds of steps between two pictures

let layout = null;
let round = 0;

function answer() {
  const positions = layout.positions();
  const said = { round, positions, isAtRest: layout.isAtRest };
  postMessage(said, [positions.buffer]);
}

function steps() {
  const end = performance.now() + SLICE;
  do layout.step(); while (!layout.isAtRest && performance.now() < end);
}

const WORK = {
  start({ count, links, placed, stays, still, number }) {
    round = number;
    const heat = stays && layout ? layout.heat : 0;
    layout = new Layout(count, links, placed, stays && layout?.isAtRest);
    layout.warm(heat);
    if (still) while (!layout.isAtRest) layout.step();
    else if (count) layout.step();
    answer();
  },
  next() {
    if (layout && !layout.isAtRest) { steps(); answer(); }
  },
  pin({ node, x, y }) {
    if (!layout) return;
    const wasAtRest = layout.isAtRest;
    layout.pin(node, x, y);
    if (wasAtRest && !layout.isAtRest) { steps(); answer(); }
  },
};

addEventListener("message", ({ data }) => WORK[data.what](data));
