// Several memories at once: chosen with x, by a click or a range of them; one undo for all.

import { at as path, call, get, post } from "./api.js";
import { BANKS, STEPS, ask } from "./asking.js";
import { attempt, make, say } from "./dom.js";
import { mergeInto } from "./merging.js";
import { announceAll, carry, fallenShort } from "./undo.js";

const bar = document.getElementById("bulk");
const said = document.getElementById("chosen");
const chosen = new Map(); // by page, what is chosen: it outlives a refresh of the list
let last; // the page of the row whose box was clicked before, where a range begins
let isRunning = false;

export const isBusy = () => isRunning;

const items = () => [...document.querySelectorAll("#results [data-item]")];
const box = (item) => item.querySelector("input[type=checkbox]");

function show() {
  bar.hidden = chosen.size === 0;
  said.textContent = `${chosen.size} chosen`;
  bar.querySelector("[data-bulk=revive]").hidden = [...chosen.values()].every((one) => one.status === "active");
  const all = document.querySelector("#results [data-all]");
  if (!all) return;
  all.checked = chosen.size > 0 && chosen.size === items().length;
  all.indeterminate = chosen.size > 0 && !all.checked;
}

/** The hash of what a memory is now; whoever asks for it later hears of a failure, nobody before. */
function seen(item) {
  const hash = get(path(item)).then((found) => found.hash);
  hash.catch(() => {});
  return hash;
}

function choose(item, isOn) {
  box(item).checked = isOn;
  const { page } = item.dataset;
  // What was chosen is deleted only as it was then, however often the list is shown anew.
  if (isOn) chosen.set(page, { ...item.dataset, title: item.querySelector("h2").textContent, seen: chosen.get(page)?.seen ?? seen(item.dataset) });
  else chosen.delete(page);
}

/** After the list was replaced: what is still there stays chosen, what is gone does not. */
export function recheck() {
  const there = new Map(items().map((item) => [item.dataset.page, item]));
  for (const page of [...chosen.keys()]) {
    if (there.has(page)) choose(there.get(page), true);
    else chosen.delete(page);
  }
  show();
  if (isReturning) goBack();
}

// Who came to the actions from the list goes on there afterwards, at the same place.
let place; // the row that had the focus, and how far down it stood
let isReturning = false;
document.addEventListener("focusin", (event) => {
  const item = event.target.closest("#results [data-item]");
  if (item) place = { page: item.dataset.page, at: items().indexOf(item) };
});

function goBack() {
  isReturning = false;
  if (!place || (document.activeElement !== document.body && !bar.contains(document.activeElement))) return;
  const all = items();
  const row = all.find((one) => one.dataset.page === place.page) ?? all[Math.min(place.at, all.length - 1)];
  row?.querySelector("a")?.focus();
}
bar.addEventListener("keydown", (event) => { if (event.key === "Escape") goBack(); });

document.addEventListener("click", (event) => {
  if (!event.target.matches("#results [data-item] input[type=checkbox]")) return;
  const item = event.target.closest("[data-item]");
  const all = items();
  const [from, to] = [all.findIndex((one) => one.dataset.page === last), all.indexOf(item)];
  if (event.shiftKey && from >= 0) {
    for (const each of all.slice(Math.min(from, to), Math.max(from, to) + 1)) choose(each, event.target.checked);
  }
  choose(item, event.target.checked);
  last = item.dataset.page;
  show();
});

document.addEventListener("change", (event) => {
  if (!event.target.matches("#results [data-all]")) return;
  for (const item of items()) choose(item, event.target.checked);
  show();
});

/** Do the same to each, one after the other; say how far it is, and what was refused. */
async function each(doing, done, work) {
  const several = [...chosen.values()];
  const changes = []; // the last one first, as they are undone
  const failures = [];
  isRunning = true;
  for (const button of bar.querySelectorAll("button")) button.disabled = true;
  for (const [number, item] of several.entries()) {
    said.textContent = `${doing} ${number + 1} of ${several.length}…`;
    try {
      changes.unshift({ title: item.title, undo: (await work(item)).undo });
    } catch (error) {
      failures.push([item.title, error]);
    }
  }
  isRunning = false;
  for (const button of bar.querySelectorAll("button")) button.disabled = false;
  chosen.clear();
  for (const item of items()) box(item).checked = false;
  show();
  const renew = () => document.dispatchEvent(new CustomEvent("retain:acted"));
  isReturning = true; // as soon as the list is shown anew
  renew();
  const count = several.length - failures.length;
  if (count) announceAll(`${count} ${count === 1 ? "memory" : "memories"} ${done}.`, changes, renew);
  if (failures.length) fallenShort(failures);
}

const tags = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

/** The collections there are; and whether there is more than one bank. */
async function places() {
  const { facets } = await get("/memories?limit=1");
  const list = make("datalist", { id: "bulk-collections" },
    ...Object.keys(facets.collection ?? {}).filter(Boolean).map((value) => make("option", { value })));
  return [list, Object.keys(facets.scope ?? {}).length > 1];
}

async function move() {
  const [list, isSeveral] = await places();
  const bank = { name: "scope", label: "Bank", options: [["", "where each is"], ...BANKS] };
  const given = await ask({
    title: `Move ${chosen.size} memories`, action: "Move", below: [list],
    fields: [{ name: "collection", label: "Collection", list: "bulk-collections", required: !isSeveral, placeholder: isSeveral ? "as it is" : "" }, ...(isSeveral ? [bank] : [])],
  });
  if (!given) return;
  const place = {};
  if (given.collection.trim()) place.collection = given.collection.trim();
  if (given.scope) place.scope = given.scope;
  await each("Moving", "moved", (item) => post(`${path(item)}/move`, place));
}

async function merge() {
  const several = [...chosen.values()];
  const scopes = new Set(several.map((one) => one.scope));
  if (several.length < 2) return say("Choose at least two to merge.", { bad: true });
  if (scopes.size > 1) return say("Memories of two banks cannot be merged.", { bad: true });
  const full = await Promise.all(several.map((one) => get(path(one))));
  const done = await mergeInto(several[0].scope, full);
  if (!done) return undefined;
  chosen.clear();
  return carry(`Merged ${several.length} memories.`, done.undo, done.page);
}

const ACTIONS = {
  tag: async () => {
    const given = await ask({ title: `Tag ${chosen.size} memories`, action: "Add tags", fields: [{ name: "tags", label: "Tags, with commas", required: true }] });
    if (given) await each("Tagging", "tagged", (item) => post(`${path(item)}/tags`, { add: tags(given.tags) }));
  },
  untag: async () => {
    const given = await ask({ title: `Untag ${chosen.size} memories`, action: "Remove tags", fields: [{ name: "tags", label: "Tags, with commas", required: true }] });
    if (given) await each("Untagging", "untagged", (item) => post(`${path(item)}/tags`, { remove: tags(given.tags) }));
  },
  move,
  archive: () => each("Archiving", "archived", (item) => post(`${path(item)}/archive`)),
  retire: async () => {
    const given = await ask({ title: `Retire ${chosen.size} memories`, about: STEPS.retire, action: "Retire", fields: [{ name: "reason", label: "Why" }] });
    if (given) await each("Retiring", "retired", (item) => post(`${path(item)}/retire`, { reason: given.reason }));
  },
  revive: () => each("Putting in force", "in force again", (item) => post(`${path(item)}/${item.status === "archived" ? "unarchive" : "restore"}`)),
  delete: () => each("Deleting", "moved to the trash", async (item) => call("DELETE", `${path(item)}?expect=${await item.seen}`)),
  merge,
  none: () => { for (const item of items()) choose(item, false); chosen.clear(); goBack(); show(); },
};

bar.addEventListener("click", (event) => {
  const action = event.target.closest("[data-bulk]")?.dataset.bulk;
  if (action && !isRunning) attempt(() => ACTIONS[action]());
});
