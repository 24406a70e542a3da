// Writing: with a preview, without losing a word, and with both texts shown when two have written.

import { get, post, put, Refused } from "./api.js";
import { attempt, make, parts, say } from "./dom.js";
import { Drafts } from "./drafts.js";
import { choice, yielded } from "./keeping.js";
import { completeLinks } from "./linking.js";
import { attend, blame, content, fetched, fields, given, put as fillIn, said, stated, worded } from "./sheet.js";
import { carry, warned } from "./undo.js";

const form = document.getElementById("edit");
const text = document.getElementById("text");
const preview = document.getElementById("preview");
const notice = document.getElementById("notice");
const conflict = document.getElementById("conflict");
const { api, page, suffix } = form.dataset;
const isNew = Boolean(form.dataset.new);
const isWhole = Boolean(form.dataset.whole);
const FIELDS = ["scope", "category", "title", "tags", "type", "collection", "id", "text"];
const DRAFTS = `retain-draft:${document.documentElement.dataset.bank}:`; // of this bank, and no other at this port
// Several tabs may write the same at once: each has a draft of its own.
const drafts = isNew ? new Drafts(`${DRAFTS}/new`, `${location.search}#`) : new Drafts(`${DRAFTS}${location.pathname}${isWhole ? "?whole" : ""}#`, "");
let isSettled = false;

let seen = form.dataset.hash; // of the text that these changes were made to
let theirs; // what someone else saved meanwhile
let isSaved = false;
let isSaving = false;
let isOffered = false; // that what is typed becomes a memory of its own

const sheet = () => document.getElementById("sheet");
/** The category whose fields are filled in; none where a text is written. */
const category = () => form.elements.category?.value ?? form.dataset.category;
let spare = {}; // what was typed into fields that the category chosen now does not have

const both = document.getElementById("both");
const merged = document.getElementById("merged");
const chosen = conflict.querySelector("[data-choose=chosen]"); // where there are fields to choose by
const isMerging = () => !conflict.hidden && !both.hidden;

/** Everything that can be typed into, by its name; what is shown now, and no other. */
function places() {
  const plain = FIELDS.filter((name) => form.elements[name]).map((name) => [name, form.elements[name]]);
  return { ...Object.fromEntries(plain), ...(sheet() ? fields(sheet()) : {}) };
}
const each = (read) => Object.fromEntries(Object.entries(places()).map(([name, one]) => [name, read(one)]));

/** What is typed; while two texts are merged, the merged one is the text. */
const values = () => (isMerging() ? { ...each(said), text: merged.value } : each(said));
let first = each(given); // what these changes were made to
const isTouched = (name, mine = values()) => mine[name] !== first[name];
const isChanged = () => !isSaved && Object.keys(values()).some((name) => isTouched(name));
const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;

function keep() {
  if (!isSettled) return;
  if (!isChanged()) { drafts.forget(); return; }
  try {
    drafts.keep({ seen, first, values: { ...spare, ...values() } });
  } catch {
    say("This browser has no room to keep what you type. Save it soon.", { bad: true });
  }
}

/** The words by which a person knows a draft again. */
function begun({ title, text: body, tags: line, ...more }) {
  const words = Object.entries(more).filter(([name, one]) => name.startsWith("content.") && one !== "[]").map(([, one]) => one);
  return [isNew && title, body, ...words, title, line].find((one) => one?.trim())?.trim().slice(0, 60) ?? "";
}

function offerDraft([key, found]) {
  const line = told(`${isNew ? "A new memory" : "Something"} was typed and not saved: “${begun(found.values)}”.`, ["Bring it back", async () => {
    if (isChanged()) { say("Save or clear what is typed here first.", { bad: true }); return false; }
    await takeUp(found);
    drafts.forget(key);
    keep();
    look();
    return true;
  }], ["Discard it", () => { drafts.forget(key); return true; }]);
  notice.append(line);
}

/** Lay what someone typed over what stands here: only what was touched, for the rest may have been
 *  changed by another since. */
function lay(mine, base) {
  const there = places();
  for (const [name, value] of Object.entries(mine)) {
    if (there[name] && value !== (base[name] ?? "")) fillIn(there[name], value);
  }
}

/** Go on with a draft: with the text it was made to, for what was saved since is a conflict. */
async function takeUp(found) {
  const base = found.first ?? first;
  const wanted = found.values.category ?? "";
  if (isNew && (wanted !== category() || found.values.scope !== values().scope)) {
    spare = { ...found.values };
    if (form.elements.scope && found.values.scope) form.elements.scope.value = found.values.scope;
    await attempt(() => choose(wanted));
  }
  lay(found.values, base);
  if (!isChanged()) return false;
  seen = found.seen;
  // A field that both have touched is theirs here and the draft's there: it stays touched.
  for (const name of Object.keys(first)) if (found.values[name] !== base[name]) first[name] = base[name];
  return true;
}

/** This tab's own draft comes back; without one, the last that was left where this memory is edited. */
async function bringBack(others) {
  if (!isNew && !isChanged() && !drafts.read() && others.length) drafts.move(others.shift()[0], drafts.key);
  const found = drafts.read();
  if (found && !isChanged() && await takeUp(found)) tellOfDraft();
  // This tab may be meant for something else than those.
  others.forEach(offerDraft);
}

function tellOfDraft() {
  tell("What you had typed here and not saved is back.", "Discard it", () => {
    drafts.forget();
    isSaved = true;
    location.reload();
  });
}

/** A line with things to do about it; each says whether that is then done. */
function told(words, ...actions) {
  const line = make("p", { class: "notice" }, make("span", {}, words));
  for (const [action, work] of actions) {
    line.append(make("button", { type: "button", onclick: async () => { if (await work() !== false) line.remove(); } }, action));
  }
  return line;
}

function tell(words, action, work) {
  notice.replaceChildren(told(words, ...(action ? [[action, () => { work(); }]] : [])));
}

// Nobody is let in without a cookie that is good: what was typed waits here for another one.
document.addEventListener("retain:locked-out", (event) => {
  if (!isChanged() && !isSaved) return;
  event.preventDefault();
  if (!isSaved) tell("This browser is no longer let in. Open the link that `retain web` shows, in another tab, and save here again: your text is still here.");
});

addEventListener("beforeunload", (event) => { if (isChanged()) event.preventDefault(); });

// The preview, made by the server as the page itself is.

let timer;
let asked = 0;
async function look() {
  if (!preview?.checkVisibility()) return;
  const mine = ++asked;
  try {
    const { html } = await post("/preview", { text: values().text, suffix });
    if (mine === asked) preview.replaceChildren(parts(html));
  } catch (error) {
    if (mine === asked) preview.replaceChildren(make("p", { class: "error" }, error.message));
  }
}
form.addEventListener("input", () => {
  keep();
  clearTimeout(timer);
  timer = setTimeout(look, 200);
});

if (text) completeLinks(text, document.getElementById("links"), () => form.elements.scope?.value ?? form.dataset.scope);

// Saving

const tags = (line) => [...new Set(line.split(",").map((one) => one.trim()).filter(Boolean))];

async function saving(body) {
  const { title, type, scope = "here", collection, id = "", tags: line } = values();
  const lines = form.dataset.crlf ? body?.replaceAll("\n", "\r\n") : body; // as the file has them
  if (isNew && category()) {
    if (body.trim()) throw new Refused(400, { message: "This form has no field for the text that you typed. Choose “Free text” to see it" });
    return post(`/records/${scope}`, { ...record(), id: id.trim() });
  }
  if (isNew) {
    return post(`/memories/${scope}`, { text: body, title, type, id: id.trim(), tags: tags(line), ...(collection.trim() ? { collection: collection.trim() } : {}) });
  }
  if (isWhole) return put(`${api}/source`, { source: lines, expect: seen });
  // Only what was touched: the rest is as it is in the file, whoever changed it meanwhile.
  const changes = { expect: seen };
  if (isTouched("title")) changes.title = title.trim();
  if (isTouched("tags")) changes.tags = tags(line);
  if (category()) return put(`${api}/content`, { ...changes, content: content(sheet(), (name) => isTouched(name)) });
  if (isTouched("type")) changes.type = type.trim();
  return put(api, { ...changes, text: lines });
}

/** All that the fields say, for a memory that has no file. */
function record() {
  const { title, tags: line } = values();
  const stated = Object.entries(content(sheet(), () => true)).filter(([, value]) => value !== null);
  return { category: category(), content: Object.fromEntries(stated), title: title.trim(), tags: tags(line) };
}

/** What can be wrong and is said where it is: each field, and the heads. */
const blamable = () => ({ ...fields(sheet()), title: form.elements.title.parentElement, tags: form.elements.tags.parentElement });

/** Say why nothing was saved: at the fields, if it is about those. */
function refuse(error) {
  const faults = (category() && error.error.faults) || [];
  const isSaid = faults.length > 0 && !blame(faults, blamable()).length;
  const words = isSaid ? `Not saved: ${faults.length === 1 ? "one thing has" : `${faults.length} things have`} to be put right first` : error.message;
  say(`${sentence(words)} What you typed is still here.`, { bad: true, seconds: 10 });
}

async function save() {
  if (isSaving) return;
  const button = document.getElementById("save");
  button.disabled = true;
  isSaving = true;
  isOffered = false;
  try {
    const done = await saving(values().text);
    isSaved = true;
    drafts.forget();
    carry(`${isNew ? "Stored" : done.status === "unchanged" ? "Nothing had changed" : "Saved"}.${warned(done)}`, done.undo, done.page);
  } catch (error) {
    keep();
    if (error.status === 409 && !isNew) await attempt(disagree);
    else if (error.status !== 401) refuse(error);
    const isBroken = error.status === 422 && !(category() && error.error.code === "record");
    if (!isNew && (error.status === 404 || isBroken)) offerNew(error.status === 404);
  } finally {
    isSaving = false;
    button.disabled = false;
  }
}

/** The file is gone, or cannot be written any more: what was typed can still become a memory. */
function offerNew(isGone) {
  if (suffix === ".json") return;
  isOffered = true;
  const words = isGone ? "This memory is gone: moved, or deleted." : "The file cannot be changed as it is now.";
  tell(`${words} Your text is still here.`, "Store it as a new memory", () => attempt(storeAnew));
}

async function storeAnew() {
  const [, , scope, collection, id] = api.split("/").map(decodeURIComponent);
  const { title = "", type = "", tags: line = "", text: body } = values();
  const [kind, mine] = category() ? ["records", record()]
    : ["memories", { text: body, title: title.trim(), type: type.trim(), tags: tags(line), collection }];
  let done;
  try {
    done = await post(`/${kind}/${scope}`, { ...mine, id });
  } catch (error) {
    if (error.status !== 409 && !(error.error.code === "record" && !error.error.faults)) throw error;
    done = await post(`/${kind}/${scope}`, { ...mine, id: `${id.slice(0, 60)}-${Date.now().toString(36)}` });
  }
  isSaved = true;
  drafts.forget();
  carry(`Stored as ${done.id}.${warned(done)}`, done.undo, done.page);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  // Whichever key asks for it: what stands in the box in which two texts are merged is what is saved.
  if (isMerging()) CHOICES.merged();
  else save();
});

// Two have written: both texts are shown, and the person decides.

const SHOWN = { title: "Title", type: "Type", tags: "Tags" };

/** What is saved now: its hash, its title, and what it says in the fields of this form. */
async function now() {
  if (category()) {
    const found = await fetched(location.pathname);
    if (found.dataset.category !== category()) throw new Refused(422, { message: "This memory cannot be shown in these fields any more." });
    const boxes = fields(found.querySelector("#sheet"));
    const said = Object.fromEntries(Object.entries(boxes).map(([name, one]) => [name, given(one)]));
    const heads = { title: given(found.elements.title), tags: given(found.elements.tags) };
    return { hash: found.dataset.hash, title: found.querySelector("h1").textContent, values: { ...said, ...heads }, form: found };
  }
  const { hash, title, source, content: body, metadata, tags: line } = await get(api);
  const heads = { title: metadata.title ?? "", type: metadata.type ?? "", tags: line.join(", ") };
  return { hash, title, values: isWhole ? { text: source } : { text: body, ...heads } };
}

const apart = document.getElementById("heads-apart");

/** A field as people know it, and what the two have in it. */
function inWords(name, mine) {
  if (name in SHOWN) return { label: SHOWN[name], theirs: theirs.values[name], mine: mine[name] };
  const [saved, own] = [theirs.form.querySelector("#sheet"), sheet()].map((one) => fields(one)[name]);
  return { label: own.dataset.label, theirs: stated(saved), mine: stated(own) };
}

/** How the two differ in a field: what one has not touched stays as the other has it; where a form has
 *  a field that both have changed, the person chooses. */
function difference(name, mine, isTheirs) {
  const { label, ...both } = inWords(name, mine);
  const isMine = isTouched(name, mine);
  if (category() && isMine && theirs.values[name] !== first[name]) return [choice(name, label, both, mine[name], isTheirs)];
  const words = name in SHOWN
    ? `: theirs “${both.theirs}”, ${isMine ? `yours “${both.mine}”.` : "which stays: you did not change it."}`
    : `: ${isMine ? "yours stays, they" : "theirs stays, you"} did not change it.`;
  return [make("strong", {}, label), words];
}

/** What the two have, where they differ; what was chosen before stays chosen. */
function headsApart(kept) {
  const [mine, other] = [values(), theirs.values];
  return [...Object.keys(SHOWN), ...Object.keys(other).filter((name) => name.startsWith("content."))]
    .filter((name) => name in other && name in mine && mine[name] !== other[name])
    .map((name) => make("li", {}, ...difference(name, mine, kept.includes(name))));
}

/** The two texts to compare: of fields, what is saved, and what it would be with these changes. */
function bothTexts() {
  if (!category()) return [theirs.values.text, values().text];
  const saved = fields(theirs.form.querySelector("#sheet"));
  const mine = Object.entries(fields(sheet())).map(([name, one]) => (isTouched(name) || !saved[name] ? one : saved[name]));
  return [Object.values(saved), mine].map((all) => all.map(worded).join("\n\n"));
}

async function disagree() {
  theirs = await now();
  await contrast();
}

/** Show what is saved beside what is typed, and of which fields theirs is kept so far. */
async function contrast(kept = yielded(apart, values())) {
  const [old, mine] = bothTexts();
  const { html } = await post("/compare", { old, new: mine });
  document.getElementById("differences").replaceChildren(parts(html));
  document.getElementById("theirs").value = old;
  if (isMerging()) say("Someone else saved again. Their new text is shown, and your merged one is as it was.", { bad: true });
  else merged.value = mine;
  const [left, right] = document.querySelectorAll("#differences th");
  if (left) { left.textContent = "Theirs, as it is saved"; right.textContent = "Yours"; }
  apart.replaceChildren(...headsApart(kept));
  if (chosen) chosen.hidden = !apart.querySelector("[data-apart]");
  notice.replaceChildren();
  conflict.hidden = false;
  conflict.scrollIntoView({ block: "start" });
  // Not a button: a key pressed in haste must not decide.
  document.getElementById("conflict-title").focus();
}

/** What is saved stands in the form then, and nothing is changed. */
function fill() {
  const found = theirs.values;
  const had = document.activeElement;
  const at = had.selectionStart === undefined ? [] : [had.selectionStart, had.selectionEnd];
  if (theirs.form) sheet().replaceWith(theirs.form.querySelector("#sheet"));
  for (const name of Object.keys(SHOWN).concat("text")) if (name in found && form.elements[name]) form.elements[name].value = found[name];
  const like = had.isConnected ? had : had.id && document.getElementById(had.id);
  if (like && like !== document.body) like.focus({ preventScroll: true });
  if (at.length && like?.setSelectionRange) like.setSelectionRange(...at);
  form.dataset.crlf = found.text?.includes("\r\n") ? "1" : "";
  form.querySelector("h1").textContent = theirs.title;
  first = values();
  seen = theirs.hash;
  look();
}

/** Merging begins or is over: there is one text to write in at a time. */
function merging(isOn) {
  both.hidden = !isOn;
  if (text) text.readOnly = isOn;
  if (isOn) merged.focus();
  else conflict.hidden = true;
}

function takeTheirs() {
  const [mine, base] = [values(), first];
  merging(false);
  fill();
  // The draft stays what it was: a reload brings back what the person typed, not what is saved.
  tell("This is the saved text now. Yours is not lost.", "Bring mine back", () => { lay(mine, base); keep(); look(); });
  (text ?? form.elements.title).focus();
}

/** What is saved is put into the fields of which theirs is kept, and the rest is saved over it. Where
 *  that is refused, all stands again as it was typed, and is chosen anew. */
async function saveChosen() {
  const [mine, base, before] = [values(), { ...first }, seen];
  const kept = yielded(apart, mine);
  for (const name of kept) {
    fillIn(places()[name], theirs.values[name]);
    first[name] = said(places()[name]);
  }
  seen = theirs.hash;
  merging(false);
  await save();
  if (isSaved) return;
  first = base;
  seen = before;
  for (const [name, one] of Object.entries(places())) if (mine[name] !== said(one)) fillIn(one, mine[name]);
  keep();
  await attempt(() => contrast(kept));
}

const CHOICES = {
  chosen: saveChosen,
  mine: () => { seen = theirs.hash; merging(false); return save(); },
  theirs: takeTheirs,
  merge: () => merging(true),
  merged: () => { seen = theirs.hash; return save(); },
};
conflict.addEventListener("click", (event) => {
  const choice = event.target.closest("[data-choose]")?.dataset.choose;
  if (choice) attempt(async () => CHOICES[choice]());
});

// Someone else's change is said, and touches nothing that is being typed.

document.addEventListener("retain:memories", async () => {
  if (isNew || isSaved || isOffered || !conflict.hidden) return;
  try {
    const found = await now();
    // Word of one's own save may come before its answer.
    if (isSaved || isSaving || isOffered || !conflict.hidden || found.hash === seen) return;
    if (!isChanged()) { theirs = found; fill(); return; }
    tell("This memory was changed elsewhere. Your text is untouched.", "Compare", () => attempt(disagree));
  } catch (error) {
    if (error.status === 404) offerNew(true);
    if (error.status === 422) tell(error.message, "Edit the whole file", () => { location.href = `${page}/edit?whole=1`; });
  }
});

// A new memory gets the fields of the category that is chosen for it.

/** Show the fields of a category, or the text; what was typed stays, in whichever of them takes it. */
async function choose(wanted) {
  const scope = form.elements.scope?.value ?? "here";
  const fresh = await fetched(`/new?type=${encodeURIComponent(wanted)}&scope=${encodeURIComponent(scope)}`);
  const main = (one) => fields(one)[`content.${one.dataset.says}`];
  const [old, made] = [sheet(), fresh.querySelector("#sheet")];
  const body = main(old) ? said(main(old)) : text.value;
  for (const [name, one] of Object.entries(fields(old))) if (one !== main(old)) spare[name] = said(one);
  form.elements.category.replaceChildren(...fresh.elements.category.children);
  form.elements.category.value = fresh.dataset.category;
  old.replaceWith(made);
  first = { ...first, ...Object.fromEntries(Object.entries(fields(made)).map(([name, one]) => [name, given(one)])) };
  for (const [name, one] of Object.entries(fields(made))) if (spare[name]) { fillIn(one, spare[name]); delete spare[name]; }
  if (main(made) && !said(main(made))) { fillIn(main(made), body); if (!main(old)) text.value = ""; }
  else if (!main(made) && !text.value) text.value = body;
  else if (main(old)) spare[`content.${old.dataset.says}`] = body;
  for (const one of form.querySelectorAll("[data-plain]")) one.hidden = Boolean(fresh.dataset.category);
  keep();
  look();
}

form.elements.category?.addEventListener("change", (event) => attempt(() => choose(event.target.value)));
form.elements.scope?.addEventListener("change", () => attempt(() => choose(category())));
// Whoever writes the name of a category into the field for types means its form.
if (isNew) form.elements.type.addEventListener("change", ({ target }) => {
  if (![...form.elements.category.options].some((one) => one.value && one.value === target.value.trim())) return;
  const wanted = target.value.trim();
  target.value = "";
  attempt(() => choose(wanted));
});
attend(form, keep);

await drafts.settle();
const others = await drafts.left((one) => bringBack([one]));
// Someone typed faster than that: what an earlier page left is offered instead of brought back.
if (isChanged() && drafts.read()) {
  const before = `${drafts.key}-before`;
  drafts.move(drafts.key, before);
  others.unshift([before, drafts.read(before)]);
}
isSettled = true;
if (isChanged()) keep();
await bringBack(others);
look();
