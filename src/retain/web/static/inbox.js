// The inbox: each proposal is accepted, edited or dropped by a button or a key, and each of that
// can be undone.

import { get, post, put } from "./api.js";
import { attempt, make, refresh, say } from "./dom.js";
import { whenever } from "./live.js";
import { isTouched, showOvertaken } from "./overtaken.js";
import { announceAll } from "./undo.js";
import { guard } from "./unsaved.js";

const PARTS = ["inbox", "inbox-dropped"];
const VERBS = { accept: "Accepted", drop: "Dropped" };

const cards = () => [...document.querySelectorAll("#inbox .proposal")];
const named = (card) => ({ id: card.dataset.id, expect: card.dataset.hash });
const title = (card) => card.querySelector("h2").textContent;
const form = (card) => card.querySelector("form");
const edited = () => cards().filter((card) => !form(card).hidden);

/** Whether something is written into a proposal that is saved nowhere. */
function isUnsaved(card) {
  return !form(card).hidden && [...form(card).elements].some((one) => one.name && isTouched(one));
}
guard(() => cards().some(isUnsaved));

// What a person did and the word that comes of it both renew the page: one at a time, and the focus
// goes where the person's step wants it.
let goal = null;
let isRenewing = false;
let isDue = false;

/** Show the inbox as it is now, with the focus on a proposal, or where it was. */
async function renew(focus = null) {
  if (focus !== null) goal = { id: focus, step: "accept" };
  isDue = true;
  if (isRenewing) return undefined;
  isRenewing = true;
  let answer;
  try {
    while (isDue) {
      isDue = false;
      answer = await renewed();
    }
  } finally {
    [goal, isRenewing] = [null, false];
  }
  return answer;
}

async function renewed() {
  let writing = [];
  // What someone is writing in stays, also if it is gone meanwhile; and so does what was unfolded.
  const isKept = (one) => writing.includes(one) || Boolean(one.matches?.(".said"));
  const answer = await refresh(location.pathname + location.search, PARTS, { before: () => { writing = edited(); }, keeps: isKept });
  count();
  if (goal) reach(goal);
  return answer;
}

/** Put the focus on a proposal; the last one if it is gone, the page if there is none. */
function reach({ id, step }) {
  const card = cards().find((one) => one.dataset.id === id) ?? cards().at(-1);
  const found = card && (step ? card.querySelector(`[data-step=${step}]`) : box(card));
  (found ?? document.getElementById("content")).focus();
}

// Steps

/** Accept or drop some cards, and offer to undo it. */
async function decide(step, chosen) {
  if (!chosen.length) return;
  if (chosen.some(isUnsaved)) { say("Save or cancel what you are writing there first.", { bad: true }); return; }
  for (const card of chosen) form(card).hidden = true; // opened, and nothing written: it keeps no card here
  const next = after(chosen);
  const done = [];
  for (const scope of new Set(chosen.map((one) => one.dataset.scope))) {
    const proposals = chosen.filter((one) => one.dataset.scope === scope).map(named);
    const answer = await attempt(() => post(`/inbox/${scope}/${step}`, { proposals }));
    if (answer) done.push({ scope, ...answer });
  }
  tell(step, chosen, done);
  await renew(next);
}

function after(chosen) {
  const all = cards();
  const last = all.indexOf(chosen.at(-1));
  const rest = [...all.slice(last + 1), ...all.slice(0, last).reverse()];
  return rest.find((one) => !chosen.includes(one))?.dataset.id ?? "";
}

function tell(step, chosen, done) {
  for (const { refused } of done) {
    for (const one of refused) say(`${one.message} ${one.hint}`, { bad: true, seconds: 12 });
  }
  const settled = done.reduce((sum, one) => sum + one.accepted.length + one.dropped.length, 0);
  if (!settled) return;
  const what = chosen.length === 1 ? `“${title(chosen[0])}”` : `${settled} proposals`;
  const near = done.flatMap((one) => one.accepted).find((one) => one.near)?.near;
  const titles = new Map(chosen.map((one) => [one.dataset.id, title(one)]));
  const said = `${VERBS[step]} ${what}.${near ? ` It is much like “${near.title}”.` : ""}`;
  const [first] = done.flatMap((one) => [...one.accepted.map((it) => it.proposal), ...one.dropped]);
  announceAll(said, done.flatMap((one) => changes(one, titles)), () => renew(first));
}

/** What was done to each proposal, with the call that takes it back. */
function changes({ scope, accepted, dropped }, titles) {
  const change = (id, path, body) => ({ title: titles.get(id), undo: [{ method: "POST", path: `/inbox/${scope}/${path}`, body }] });
  return [
    ...accepted.filter((one) => one.status !== "unchanged") // else the memory was there before
      .map((one) => change(one.proposal, `${one.proposal}/reopen`, { memory: `${one.collection}/${one.id}`, expect: one.hash })),
    ...dropped.map((id) => change(id, "restore", { proposals: [{ id }] })),
  ];
}

async function restore(line) {
  const { scope, id } = line.dataset;
  if (await attempt(() => post(`/inbox/${scope}/restore`, { proposals: [{ id }] }))) await renew(id);
}

// Editing

function edit(card, isOpen) {
  if (!isOpen && isUnsaved(card)) offerAgain(card);
  form(card).hidden = !isOpen;
  card.querySelector("[data-step=edit]").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) form(card).elements.title.focus();
  else leave(card);
}

/** Nothing is written here any more: what another changed meanwhile can be shown. */
function leave(card) {
  form(card).querySelector(".overtaken")?.remove();
  form(card).reset();
  card.querySelector("[data-step=edit]").focus();
  lookSoon(0);
}

/** What was written and then cancelled can be taken up again. */
function offerAgain(card) {
  const written = [...new FormData(form(card))];
  say("What you wrote is discarded.", { undo: () => {
    const there = cards().find((one) => one.dataset.id === card.dataset.id) ?? card;
    if (!there.isConnected) document.getElementById("inbox").append(there); // someone else decided it
    edit(there, true);
    for (const [name, value] of written) form(there).elements[name].value = value;
  } });
}

async function save(card, step) {
  const { scope, id, hash } = card.dataset;
  const { title: heading, category, text } = form(card).elements;
  const words = { title: heading.value, category: category.value, text: text.value, expect: hash };
  const saved = await attempt(() => put(`/inbox/${scope}/${id}`, words).catch((error) => {
    if (error.status === 409) return disagree(card, step);
    throw error;
  }));
  if (!saved) return;
  form(card).querySelector(".overtaken")?.remove();
  card.dataset.hash = saved.hash;
  card.querySelector("h2").textContent = saved.title;
  form(card).hidden = true;
  if (step === "accept") await decide("accept", [card]);
  else { say("Saved."); await renew(card.dataset.id); }
}

/** Another was faster: what they made of it is shown, and is what can be saved over from now on. */
async function disagree(card, step) {
  const { scope, id } = card.dataset;
  const { proposals } = await get("/inbox");
  const theirs = proposals.find((one) => one.scope === scope && one.id === id);
  if (!theirs) throw new Error("The proposal is not there any more. What you wrote still is.");
  await showOvertaken(form(card), theirs, {
    isAccepted: step === "accept",
    saveMine: () => { card.dataset.hash = theirs.hash; return save(card, step); },
    takeTheirs: () => edit(card, false),
  });
}

// Several at once

const box = (card) => card.querySelector("input[type=checkbox]");
const isChosen = (card) => box(card).checked;

function count() {
  const chosen = cards().filter(isChosen).length;
  for (const button of document.querySelectorAll("[data-bulk]")) button.disabled = !chosen;
  const all = document.getElementById("inbox-all");
  if (all) { all.checked = chosen > 0 && chosen === cards().length; all.indeterminate = chosen > 0 && !all.checked; }
}

document.addEventListener("change", (event) => {
  if (event.target.id === "inbox-all") for (const card of cards()) box(card).checked = event.target.checked;
  count();
});

// What was said

async function unfold(talk) {
  const said = talk.querySelector(".said");
  if (!talk.open || said.childElementCount) return;
  const card = talk.closest(".proposal");
  const found = await attempt(() => get(`/inbox/${card.dataset.scope}/${card.dataset.id}/talk`));
  if (!found) return;
  const lines = found.messages.map((one) => make("p", {}, make("strong", {}, one.role), one.text));
  if (found.missing) lines.push(make("p", { class: "soft" }, `It cannot be shown: ${found.missing}.`));
  if (found.cut) lines.push(make("p", { class: "soft" }, "There is more in the transcript."));
  said.replaceChildren(...lines);
}

document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("[data-talk]")) unfold(event.target);
}, true);

// Hands and keys

document.addEventListener("click", (event) => {
  const bulk = event.target.closest("[data-bulk]");
  const step = event.target.closest("[data-step]");
  if (bulk) decide(bulk.dataset.bulk, cards().filter(isChosen));
  else if (step) act(step.dataset.step, step);
});

function act(step, button) {
  const card = button.closest(".proposal");
  if (step === "restore") restore(button.closest("li"));
  else if (step === "edit") edit(card, form(card).hidden);
  else if (step === "cancel") edit(card, false);
  else if (step === "accept" && isUnsaved(card)) form(card).requestSubmit();
  else decide(step, [card]);
}

document.addEventListener("submit", (event) => {
  const card = event.target.closest(".proposal");
  if (!card) return;
  event.preventDefault();
  save(card, event.submitter?.value ?? "accept");
});

const KEYS = { a: "accept", d: "drop", e: "edit" };

// Before the keys of every page, whose "e" knows nothing of several things to edit.
document.addEventListener("keydown", (event) => {
  const card = event.target.closest?.(".proposal");
  if (!card || !Object.hasOwn(KEYS, event.key) || event.target.closest("form, [contenteditable]")) return;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  card.querySelector(`[data-step=${KEYS[event.key]}]`).click();
}, true);

// Escape leaves a form: one in which nothing is written is closed, and the place in the list stays.
document.addEventListener("keydown", (event) => {
  const card = event.key === "Escape" && event.target.closest?.(".proposal form")?.closest(".proposal");
  if (!card) return;
  event.stopImmediatePropagation();
  if (isUnsaved(card)) card.focus();
  else edit(card, false);
}, true);

const lookSoon = whenever(["inbox"], () => renew());
