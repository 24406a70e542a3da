// The list: search as one types, facets without a reload, kept searches, and word of changes.

import { put, remove } from "./api.js";
import { ask } from "./asking.js";
import { isBusy, recheck } from "./bulk.js";
import { attempt, refresh, say } from "./dom.js";
import { whenever } from "./live.js";
import { announce, resume } from "./undo.js";

const WAIT = 120; // after the last key; a fast typist asks once for a word
const field = document.getElementById("q");
let request;
let timer;
let asked = location.href; // what is shown is the answer to
let isTyping = false; // one step of the browser's history for one stretch of typing

/** Put what an address shows in the place of what is there. */
async function shown(address) {
  request?.abort();
  request = new AbortController();
  const url = new URL(address, location.href).href;
  const isAnew = url !== asked;
  const answer = await refresh(url, ["results", "facets"], { signal: request.signal, before: () => { asked = url; }, isAnew });
  recheck();
  document.getElementById("said").textContent = document.getElementById("results").dataset.said;
  return answer;
}

/** The same for who asked for it, and hears when it does not come. */
async function show(address) {
  try {
    const answer = await shown(address);
    if (!answer.ok) say("That could not be shown.", { bad: true });
  } catch (error) {
    if (error.name !== "AbortError") say("Retain does not answer. Is `retain web` still running?", { bad: true });
  }
}

const renew = () => show(location.href);

function typed() {
  const values = new URLSearchParams(location.search);
  values.delete("page");
  values.delete("focus");
  if (field.value.trim()) values.set("q", field.value); else values.delete("q");
  const address = values.size ? `/?${values}` : "/";
  history[isTyping ? "replaceState" : "pushState"](null, "", address);
  isTyping = true;
  return show(address);
}

field.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(typed, WAIT);
});
field.addEventListener("blur", () => { isTyping = false; });
// From the field straight to what it found.
const enter = () => document.querySelector("#results [data-item] a")?.focus();
document.getElementById("search").addEventListener("submit", async (event) => {
  event.preventDefault();
  clearTimeout(timer);
  await typed();
  if (document.activeElement === field && field.value.trim()) enter();
});
field.addEventListener("keydown", (event) => {
  if (event.key !== "ArrowDown") return;
  event.preventDefault();
  enter();
});

function go(address) {
  isTyping = false;
  history.pushState(null, "", address);
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  show(address);
}

// Who comes back from a memory goes on where it was opened.
document.addEventListener("click", (event) => {
  const row = event.target.closest("#results [data-item] h2 a")?.closest("[data-item]");
  if (row) history.replaceState({ row: row.dataset.page }, "");
});
function goOn() {
  const row = [...document.querySelectorAll("#results [data-item]")].find((one) => one.dataset.page === history.state?.row);
  if (document.activeElement === document.body) row?.querySelector("h2 a").focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-soft]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(link.getAttribute("href"));
  if (link.rel) window.scrollTo({ top: 0 });
});

function dated(form) {
  const values = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  go(values.size ? `/?${values}` : "/");
}
document.addEventListener("submit", (event) => {
  if (event.target.id === "dates") { event.preventDefault(); dated(event.target); }
});

addEventListener("popstate", () => {
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  renew();
});

// Kept searches

const one = (name) => `/searches/${encodeURIComponent(name)}`;

async function keep() {
  const values = new URLSearchParams(location.search);
  const given = await ask({
    title: "Keep this search", action: "Keep",
    fields: [{ name: "name", label: "Name", value: values.get("q") ?? [...values.values()].join(", "), required: true }],
  });
  if (!given?.name.trim()) return;
  await attempt(async () => {
    const { undo } = await put(one(given.name.trim()), { query: location.search.slice(1) });
    await renew();
    announce(`Kept as “${given.name.trim()}”.`, undo, renew);
  });
}

async function forget(button) {
  const { forget: name } = button.dataset;
  await attempt(async () => {
    const { undo } = await remove(one(name));
    await renew();
    announce(`Forgot “${name}”.`, undo, renew);
  });
}

document.addEventListener("click", (event) => {
  if (event.target.closest("#keep")) keep();
  const button = event.target.closest("[data-forget]");
  if (button) forget(button);
});

// What others change is shown at once, unless the person is in the middle of something.
whenever(["memories"], () => shown(location.href), { isBusy: () => isBusy() || document.querySelector("dialog[open]") });
document.addEventListener("retain:acted", renew);
resume(renew);
goOn();
