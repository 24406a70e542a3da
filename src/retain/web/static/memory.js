// One memory: its tags, its steps through life, and word of changes; every action can be undone.

import { at, call, get, post } from "./api.js";
import { BANKS, STEPS, ask } from "./asking.js";
import { attempt, refresh } from "./dom.js";
import { GONE, followed } from "./following.js";
import { mergeInto } from "./merging.js";
import { memories } from "./offering.js";
import { announce, carry, isTakingBack, resume, warned } from "./undo.js";

const shown = () => document.getElementById("memory");
const data = () => shown().dataset;
const renew = () => refresh(location.href, ["memory", "collections"]);

/** What an action did: said here, or on the page where the memory is now. */
async function finish(text, done) {
  const said = `${text}${warned(done)}`;
  if (done.page && done.page !== data().page) {
    isLeaving = true;
    return carry(said, done.undo, done.page);
  }
  await renew();
  return announce(said, done.undo, returned);
}

let isLeaving = false; // this page's memory went by the person's own hand

/** After an undo: back to where the memory is then, or to the others if it is nowhere. */
async function returned(last) {
  const isDeleted = last?.status === "deleted";
  const isElsewhere = Boolean(last?.page) && last.page !== location.pathname;
  isLeaving = isDeleted || isElsewhere;
  if (isDeleted) carry(`Undone: “${data().title}” is in the trash.`, last.undo, "/");
  else if (isElsewhere) location.href = last.page;
  else await renew();
}

async function tagged(change, text) {
  await attempt(async () => finish(text, await post(`${data().api}/tags`, change)));
}

async function others(words) {
  const found = await memories(data().scope, words);
  return found.filter((one) => one.page !== data().page).map((one) => [one.ref, one.title]);
}

/** Choose another memory, and do something with it. */
function another(title, about, action, work) {
  const field = { name: "ref", label: "The other memory: search, then choose it", required: true, find: others };
  return ask({ title, about, action, fields: [field], work: ({ ref }) => work(ref.trim()) });
}

const address = (ref) => {
  const cut = ref.lastIndexOf("/");
  return at({ scope: data().scope, collection: cut > 0 ? ref.slice(0, cut) : "", id: ref.slice(cut + 1) });
};

async function move() {
  const done = await ask({
    title: "Move or rename", action: "Move",
    fields: [
      { name: "collection", label: "Collection", value: data().collection, list: "collections" },
      { name: "id", label: "Id, which is the file's name", value: data().id, required: true },
      ...(data().several ? [{ name: "scope", label: "Bank", value: data().scope, options: BANKS }] : []),
    ],
    work: ({ collection, id, scope }) => post(`${data().api}/move`, { collection: collection.trim() || ":root", id: id.trim(), ...(scope ? { scope } : {}) }),
  });
  if (done) await finish("Moved.", done);
}

async function withReason(step, title, text) {
  const done = await ask({
    title, about: STEPS[step], action: title, fields: [{ name: "reason", label: "Why" }],
    work: ({ reason }) => post(`${data().api}/${step}`, { reason }),
  });
  if (done) await finish(text, done);
}

async function supersede() {
  const done = await another("Supersede by another", "It stays and points to the one that took its place; searches prefer that one.", "Supersede",
    (by) => post(`${data().api}/supersede`, { by }));
  if (done) await finish("Superseded.", done);
}

async function merge() {
  const two = await another("Merge with another", "First choose which one.", "Go on", (ref) => Promise.all([get(data().api), get(address(ref))]));
  const done = two && await mergeInto(data().scope, two);
  if (done) await finish("Merged.", done);
}

const ACTIONS = {
  move,
  supersede,
  merge,
  archive: () => withReason("archive", "Archive", "Archived."),
  retire: () => withReason("retire", "Retire", "Retired."),
  restore: async () => finish("In force again.", await post(`${data().api}/restore`)),
  unarchive: async () => finish("Off the shelf.", await post(`${data().api}/unarchive`)),
  delete: async () => {
    const done = await call("DELETE", `${data().api}?expect=${data().hash}`);
    isLeaving = true;
    carry(`“${data().title}” is in the trash.`, done.undo, "/");
  },
};

document.addEventListener("click", (event) => {
  // What is missing is written into the bank that links to it.
  const ghost = event.target.closest("a.ghost");
  if (ghost && !ghost.search.includes("&scope=")) ghost.search += `&scope=${encodeURIComponent(data().scope)}`;
  const action = event.target.closest("[data-act]")?.dataset.act;
  if (action) {
    const menu = event.target.closest(".menu");
    // What the menu hides cannot have the focus again when a dialog gives it back.
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
    attempt(() => ACTIONS[action]());
  }
  const tag = event.target.closest("[data-untag]")?.dataset.untag;
  if (tag !== undefined) tagged({ remove: [tag] }, `Removed “${tag}”.`);
  const open = document.querySelector(".menu[open]");
  if (open && !open.contains(event.target)) open.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector(".menu[open]");
  if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
});
document.addEventListener("submit", async (event) => {
  if (event.target.id !== "tagging") return;
  event.preventDefault();
  const field = document.getElementById("newtag");
  const add = field.value.split(",").map((one) => one.trim()).filter(Boolean);
  if (!add.length) return;
  field.value = "";
  await tagged({ add }, `Tagged “${add.join(", ")}”.`);
  document.getElementById("newtag").focus();
});

// Shown anew when it changes; nothing moves below a hand that is at a menu or a dialog.
followed(["memories"], renew, () => GONE, {
  isExpected: () => isLeaving || isTakingBack(),
  isBusy: () => document.querySelector("dialog[open], .menu[open]"),
});
resume(returned);
