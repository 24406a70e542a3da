// The graph's page: what is asked for, laid out, drawn, and answered to a hand or a key.

import { get } from "./api.js";
import { attempt, make, refresh, worker } from "./dom.js";
import { whenever } from "./live.js";
import { View } from "./graph-view.js";

const KINDS = { memory: "Memory", ghost: "Linked file", dangling: "Dangling link", tag: "Tag" };
const USUAL = { scope: "all", depth: "1" };
const MOST_NEIGHBOURS = 30;
const ZOOM = 1.3;
const PAN = 60;

const canvas = document.getElementById("graph");
const form = document.getElementById("graph-filter");
const card = document.getElementById("graph-chosen");
const view = new View(canvas, document.querySelector(".graph-legend"));
const layout = worker("graph-worker.js");
const still = matchMedia("(prefers-reduced-motion: reduce)");
let number = 0; // of the graph that is shown: an answer about an earlier one is too late
let asked = 0;

// What is shown

/** Where the page stands: its filters, as they are in its address. */
function query() {
  const values = new URLSearchParams();
  for (const [name, value] of new FormData(form)) {
    const isUsual = value === USUAL[name] || (name === "depth" && !form.focus.value);
    if (value && !isUsual) values.append(name, value);
  }
  return values;
}

const address = (values) => (values.size ? `/graph?${values}` : "/graph");
let filters = query().toString();
let from = new URLSearchParams(location.search).get("at"); // where the list's page begins

async function load({ list = true } = {}) {
  asked += 1;
  const [mine, values] = [asked, query()];
  const part = address(values);
  if (values.toString() !== filters) from = null; // another list begins at its start
  filters = values.toString();
  if (from) values.append("at", from);
  history.replaceState(null, "", address(values));
  const found = await attempt(() => get(part));
  if (!found || mine !== asked) return undefined;
  show(found, part);
  return list ? relist(address(values)) : undefined;
}

let listing = new AbortController();

/** The list anew; a slow answer never takes the place of a newer one. */
async function relist(url) {
  listing.abort();
  listing = new AbortController();
  const { signal } = listing;
  const unlessLate = (error) => { if (!signal.aborted) throw error; };
  return attempt(() => refresh(url, ["graph-list", "graph-said"], { signal }).catch(unlessLate));
}

let latest = ""; // the graph that was laid out last, in full
let pending = null; // what is shown as soon as it has its places
let shownPart = null; // the part of the graph that is on the screen
let isAsking = false;

/** Lay a graph out. One that changed while somebody looks stays where it is, and so do they. */
function show({ nodes, edges }, part) {
  const whole = JSON.stringify([part, nodes, edges]);
  if (whole === latest) return;
  latest = whole;
  const before = new Map(view.nodes.map((one, node) => [one.key, node]));
  const links = Int32Array.from(edges.flatMap((one) => [one.source, one.target]));
  const placed = new Float32Array(nodes.length * 2).fill(NaN);
  nodes.forEach((one, node) => {
    const old = before.get(one.key);
    if (old !== undefined) placed.set(view.positions.subarray(old * 2, old * 2 + 2), node * 2);
  });
  number += 1;
  canvas.dataset.state = "moving";
  Object.assign(canvas.dataset, { nodes: nodes.length, links: edges.length });
  pending = { nodes, links, part };
  const stays = part === shownPart;
  layout.postMessage({ what: "start", number, count: nodes.length, links, placed, stays, still: still.matches });
}

/** Put the graph that has its places on the screen; what is chosen and what is held are in it too. */
function change({ nodes, links, part }, positions) {
  const find = (node) => nodes.findIndex((one) => one.key === view.nodes[node]?.key);
  view.chosen = find(view.chosen);
  if (held) held.node = find(held.node);
  if (part !== shownPart) view.isFitted = true;
  shownPart = part;
  view.show(nodes, links, positions);
  tell();
}

layout.addEventListener("message", ({ data }) => {
  if (data.round !== number) return;
  isAsking = false;
  view.isMoving = !data.isAtRest;
  if (view.isMoving) canvas.dataset.state = "moving";
  if (pending) {
    change(pending, data.positions);
    pending = null;
  }
  view.positions = data.positions;
  view.draw();
});

// The next steps are asked for when the last are on the screen: none for a page in the background.
view.onDrawn = () => {
  canvas.dataset.look = [view.scale, view.left, view.top].map((one) => one.toFixed(3)).join(" ");
  if (pending || isAsking || !number) return;
  if (view.isMoving) { isAsking = true; layout.postMessage({ what: "next" }); }
  else canvas.dataset.state = "still";
};

// What is chosen

function choose(node, { centre = false } = {}) {
  view.chosen = node;
  if (centre && node >= 0) view.centre(node);
  tell();
  view.draw();
}

function tell() {
  const node = view.nodes[view.chosen];
  card.hidden = !node;
  canvas.dataset.chosen = node?.key ?? "";
  if (!node) { card.replaceChildren(); return; }
  const open = node.page ? make("a", { class: "button", href: node.page }, "Open") : null;
  const focus = make("button", { type: "button", onclick: () => focusOn(node.key) }, "Show its neighbourhood");
  const close = make("button", { type: "button", class: "quiet", onclick: () => { choose(-1); canvas.focus(); } }, "Close");
  card.replaceChildren(
    make("h2", {}, node.title),
    make("p", { class: "soft small" }, about(node)),
    neighbours(),
    make("div", { class: "row" }, open, focus, close),
  );
}

function about(node) {
  const links = `${node.degree} ${node.degree === 1 ? "link" : "links"}`;
  const more = node.kind === "memory" ? [node.collection, node.type, node.status !== "active" && node.status] : [node.freshness];
  return [KINDS[node.kind], ...more.filter(Boolean), links].join(" · ");
}

function neighbours() {
  const beside = [...new Set(view.beside[view.chosen])];
  const button = (at) => make(
    "button",
    { type: "button", class: `tag is-${view.nodes[at].kind}`, onclick: () => choose(at, { centre: true }) },
    view.label(view.nodes[at]),
  );
  const shown = beside.slice(0, MOST_NEIGHBOURS).map(button);
  const more = beside.length - shown.length;
  return make("div", { class: "row near", role: "group", "aria-label": "Linked with" },
    ...shown, more > 0 ? make("span", { class: "soft small" }, `and ${more} more`) : null);
}

function focusOn(key) {
  form.focus.value = key;
  load();
}

function open(node) {
  if (view.nodes[node]?.page) location.href = view.nodes[node].page;
}

// Hands: one finger moves a node or the sheet, two zoom, a wheel zooms.

const fingers = new Map();
let held = null; // the node, or the sheet, that the first finger has

const place = (event) => {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};

canvas.addEventListener("pointerdown", (event) => {
  if (event.button > 0) return;
  canvas.setPointerCapture(event.pointerId);
  const at = place(event);
  fingers.set(event.pointerId, at);
  letGo();
  if (fingers.size === 1) held = { node: view.at(...at), start: at, hasMoved: false };
});

canvas.addEventListener("pointermove", (event) => {
  const [now, before] = [place(event), fingers.get(event.pointerId)];
  if (!before) { point(view.at(...now)); return; }
  if (fingers.size === 2) pinch(event.pointerId, before, now);
  else if (held) drag(before, now);
  fingers.set(event.pointerId, now);
});

function drag(before, now) {
  if (!held.hasMoved && Math.hypot(now[0] - held.start[0], now[1] - held.start[1]) < 5) return;
  held.hasMoved = true;
  if (held.node < 0 || still.matches) view.pan(now[0] - before[0], now[1] - before[1]);
  else if (!pending) { // else it has another number there than here
    const [x, y] = view.place(...now);
    view.isFitted = false;
    layout.postMessage({ what: "pin", node: held.node, x, y });
  }
}

function pinch(id, before, now) {
  const [, other] = [...fingers].find(([one]) => one !== id);
  const far = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]) || 1;
  view.zoom(far(now) / far(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  view.pan((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
}

/** Nothing is held any more: a node that was may move by itself again. */
function letGo() {
  if (held?.node >= 0 && held.hasMoved) layout.postMessage({ what: "pin", node: -1 });
  held = null;
}

function release(event) {
  fingers.delete(event.pointerId);
  letGo();
}

canvas.addEventListener("pointerup", (event) => {
  const was = held;
  release(event);
  if (!was || was.hasMoved) return;
  if (was.node >= 0 && was.node === view.chosen) open(was.node);
  else choose(was.node);
});
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", () => point(-1));
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  view.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), ...place(event));
}, { passive: false });

function point(node) {
  if (node === view.pointed) return;
  view.pointed = node;
  canvas.classList.toggle("pointing", node >= 0);
  view.draw();
}

// Keys

const fitted = () => { view.isFitted = true; view.draw(); };
const KEYS = {
  ArrowLeft: () => view.pan(PAN, 0),
  ArrowRight: () => view.pan(-PAN, 0),
  ArrowUp: () => view.pan(0, PAN),
  ArrowDown: () => view.pan(0, -PAN),
  "+": () => view.zoom(ZOOM),
  "=": () => view.zoom(ZOOM),
  "-": () => view.zoom(1 / ZOOM),
  0: fitted,
  Enter: () => open(view.chosen),
  Escape: () => choose(-1),
};

canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

document.getElementById("graph-nearer").addEventListener("click", () => view.zoom(ZOOM));
document.getElementById("graph-farther").addEventListener("click", () => view.zoom(1 / ZOOM));
document.getElementById("graph-fit").addEventListener("click", fitted);

// The list and the filters

document.addEventListener("click", (event) => {
  const shown = event.target.closest("[data-show]");
  const focus = event.target.closest("[data-focus]");
  if (shown) {
    const node = view.nodes.findIndex((one) => one.key === shown.dataset.show);
    if (node >= 0) { choose(node, { centre: true }); canvas.focus({ preventScroll: true }); canvas.scrollIntoView({ block: "nearest" }); }
  } else if (focus && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    focusOn(focus.dataset.focus);
  }
});

const soon = whenever(["memories"], load, { wait: 200 });
form.addEventListener("input", (event) => soon(event.target.type === "search" ? 180 : 0));
form.addEventListener("submit", (event) => { event.preventDefault(); soon(0); });

// Everything else that may change: the theme, the window.

const recoloured = () => { view.recolour(); view.draw(); };
new MutationObserver(recoloured).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recoloured);
new ResizeObserver(() => view.resize()).observe(canvas);
load({ list: false });
