// One memory: its tags, its steps through life, and word of changes; every action can be undone.

import { call, get, post } from "./api.js";
import { BANKS, STEPS, ask } from "./asking.js";
import { attempt, make, refresh, say } from "./dom.js";
import { whenever } from "./live.js";
import { announce, carry, isTakingBack, resume, warned } from "./undo.js";

const shown = () => document.getElementById("memory");
const data = () => shown().dataset;
const renew = () => refresh(location.href, ["memory", "collections"]);

/** What an action did: said here, or on the page where the memory is now. */
async function finish(text, done) {
  const said = `${text}${warned(done)}`;
  if (done.page && done.page !== data().page) return carry(said, done.undo, done.page);
  await renew();
  return announce(said, done.undo, returned);
}

let isLeaving = false; // this page's memory went by the person's own hand

/** After an undo: back to where the memory is then, or to the others if it is nowhere. */
async function returned(last) {
  isLeaving = last?.status === "deleted";
  if (isLeaving) carry(`Undone: “${data().title}” is in the trash.`, last.undo, "/");
  else if (last?.page && last.page !== location.pathname) location.href = last.page;
  else await renew();
}

async function tagged(change, text) {
  await attempt(async () => finish(text, await post(`${data().api}/tags`, change)));
}

/** Choose another memory of this bank by what it says. */
async function another(title, about, action, more = []) {
  const list = make("datalist", { id: "others" });
  const asking = ask({
    title, about, action, below: [list],
    fields: [{ name: "ref", label: "The other memory: search, then choose its name", list: "others", required: true }, ...more],
  });
  const field = document.querySelector("dialog[open] input[name=ref]");
  let timer;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => attempt(async () => {
      const found = await get(`/search?limit=8&q=${encodeURIComponent(field.value)}`);
      const mine = found.hits.filter((hit) => hit.page.startsWith(`/memory/${data().scope}/`));
      list.replaceChildren(...mine
        .map((hit) => [`${hit.collection}/${hit.id}`.replace(/^\//, ""), hit.title])
        .filter(([ref]) => ref !== data().ref.replace(/^\//, ""))
        .map(([value, label]) => make("option", { value, label })));
    }), 150);
  });
  const given = await asking;
  return given;
}

const address = (ref) => {
  const at = ref.lastIndexOf("/");
  const parts = [data().scope, at > 0 ? ref.slice(0, at) : ":root", ref.slice(at + 1)];
  return `/memories/${parts.map(encodeURIComponent).join("/")}`;
};

async function move() {
  const given = await ask({
    title: "Move or rename", action: "Move",
    fields: [
      { name: "collection", label: "Collection", value: data().collection, list: "collections" },
      { name: "id", label: "Id, which is the file's name", value: data().id, required: true },
      ...(data().several ? [{ name: "scope", label: "Bank", value: data().scope, options: BANKS }] : []),
    ],
  });
  if (!given) return;
  const place = { collection: given.collection.trim() || ":root", id: given.id.trim() };
  if (given.scope) place.scope = given.scope;
  await finish("Moved.", await post(`${data().api}/move`, place));
}

async function withReason(step, title, text) {
  const given = await ask({ title, about: STEPS[step], action: title, fields: [{ name: "reason", label: "Why" }] });
  if (given) await finish(text, await post(`${data().api}/${step}`, { reason: given.reason }));
}

async function supersede() {
  const given = await another("Supersede by another", "It stays and points to the one that took its place; searches prefer that one.", "Supersede");
  if (given) await finish("Superseded.", await post(`${data().api}/supersede`, { by: given.ref.trim() }));
}

async function merge() {
  const given = await another("Merge with another", "First choose which one.", "Go on");
  if (!given) return;
  const [mine, other] = await Promise.all([get(data().api), get(address(given.ref.trim()))]);
  const text = await ask({
    title: "Merge into one", action: "Merge", about: "The two go to the trash, and their links stay.",
    fields: [
      { name: "title", label: "Title", value: mine.title, required: true },
      { name: "id", label: "Id of the new memory", value: `${mine.id}-merged`, required: true },
      { name: "text", label: "Text", rows: 12, value: `${mine.content.trim()}\n\n${other.content.trim()}`, required: true },
    ],
  });
  if (!text) return;
  const done = await post(`/merges/${encodeURIComponent(data().scope)}`, {
    // Only if they are still what was shown: a change made meanwhile would go to the trash with them.
    sources: [mine, other].map((one) => ({ ref: `${one.collection}/${one.id}`, expect: one.hash })),
    id: text.id, title: text.title, text: text.text, collection: mine.collection || ":root",
  });
  await finish("Merged.", done);
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
async function look() {
  if (isLeaving || isTakingBack()) return undefined;
  const answer = await renew();
  const isGone = answer.status === 404 && !isLeaving && !isTakingBack();
  if (isGone) say("This memory is gone: moved, or deleted. What is shown here is what it was.", { bad: true });
  return answer;
}
whenever(["memories"], look, { isBusy: () => document.querySelector("dialog[open], .menu[open]") });
resume(returned);
