// Writing: with a preview, without losing a word, and with both texts shown when two have written.

import { get, post, put } from "./api.js";
import { attempt, make, parts, say } from "./dom.js";
import { completeLinks } from "./linking.js";
import { carry, warned } from "./undo.js";

const form = document.getElementById("edit");
const text = document.getElementById("text");
const preview = document.getElementById("preview");
const notice = document.getElementById("notice");
const conflict = document.getElementById("conflict");
const { api, page, suffix } = form.dataset;
const isNew = Boolean(form.dataset.new);
const isWhole = Boolean(form.dataset.whole);
const FIELDS = ["title", "tags", "type", "collection", "id", "scope", "text"];
const DRAFTS = `retain-draft:${document.documentElement.dataset.bank}:`; // of this bank, and no other at this port
// Several tabs may write the same at once: each has a draft of its own.
const PLACE = isNew ? `${DRAFTS}/new` : `${DRAFTS}${location.pathname}${isWhole ? "?whole" : ""}#`;
let isSettled = false;
let kept;

let seen = form.dataset.hash; // of the text that these changes were made to
let theirs; // what someone else saved meanwhile
let isSaved = false;
let isSaving = false;

const both = document.getElementById("both");
const merged = document.getElementById("merged");
const isMerging = () => !conflict.hidden && !both.hidden;

/** What is typed; while two texts are merged, the merged one is the text. */
function values() {
  const typed = Object.fromEntries(FIELDS.filter((name) => form.elements[name]).map((name) => [name, form.elements[name].value]));
  return isMerging() ? { ...typed, text: merged.value } : typed;
}
/** What a field was given by the server: someone may type faster than a page's script comes. */
function given(field) {
  if (field.options) return ([...field.options].find((one) => one.defaultSelected) ?? field.options[0])?.value ?? "";
  return field.defaultValue.replace(/\r\n?/g, "\n");
}
let first = Object.fromEntries(Object.keys(values()).map((name) => [name, given(form.elements[name])])); // what these changes were made to
const isTouched = (name, mine = values()) => mine[name] !== first[name];
const isChanged = () => !isSaved && Object.keys(values()).some((name) => isTouched(name));
const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;

// Drafts: what was typed outlives a reload, a closed tab, a refused save, and a server that ended.

const LONGEST = 30 * 24 * 3600 * 1000; // milliseconds after which nobody comes back to it

function keep() {
  if (!isSettled) return;
  if (!isChanged()) { forget(); return; }
  try {
    localStorage.setItem(kept, JSON.stringify({ seen, first, values: values(), at: Date.now() }));
  } catch {
    say("This browser has no room to keep what you type. Save it soon.", { bad: true });
  }
}

const forget = () => localStorage.removeItem(kept);

/** What an earlier page left, unless it is too old to be of use. */
function draft(key = kept) {
  const found = JSON.parse(localStorage.getItem(key) ?? "null");
  return found && Date.now() - found.at < LONGEST ? found : null;
}

// A tab holds a lock on its draft for as long as it is open; a draft that nobody holds was left.

const TAB = "retain-tab";

/** Hold a draft; false if another tab does. A reload may have to wait for the page before it. */
function hold(key) {
  return new Promise((resolve) => {
    navigator.locks.request(key, { signal: AbortSignal.timeout(1000) }, () => {
      resolve(true);
      return new Promise(() => {});
    }).catch(() => resolve(false));
  });
}

/** The draft of this tab; a tab that was duplicated has the other's name, and gets a new one. */
async function settle() {
  const named = (tab) => (isNew ? `${PLACE}${location.search}#${tab}` : `${PLACE}${tab}`);
  const another = () => Math.random().toString(36).slice(2);
  let tab = sessionStorage.getItem(TAB) ?? another();
  kept = named(tab);
  if (!(await hold(kept))) {
    tab = another();
    kept = named(tab);
    await hold(kept);
  }
  sessionStorage.setItem(TAB, tab);
}

/** The drafts of this place whose tabs are gone, the latest first. */
async function left() {
  const { held } = await navigator.locks.query();
  const names = new Set(held.map((one) => one.name));
  const found = [];
  for (const key of Object.keys(localStorage)) {
    if (!key.startsWith(PLACE) || names.has(key)) continue;
    const one = draft(key);
    if (one) found.push([key, one]);
    else localStorage.removeItem(key);
  }
  return found.sort(([, one], [, other]) => other.at - one.at);
}

function offerDraft([key, found]) {
  const start = ((isNew && found.values.title) || found.values.text).trim().slice(0, 60);
  const line = told(`${isNew ? "A new memory" : "Something"} was typed and not saved: “${start}”.`, ["Bring it back", () => {
    if (isChanged()) { say("Save or clear what is typed here first.", { bad: true }); return false; }
    takeUp(found);
    localStorage.removeItem(key);
    keep();
    look();
    return true;
  }], ["Discard it", () => { localStorage.removeItem(key); return true; }]);
  notice.append(line);
}

/** Lay what someone typed over what stands here: only what was touched, for the rest may have been
 *  changed by another since. */
function lay(mine, base) {
  for (const [name, value] of Object.entries(mine)) {
    if (form.elements[name] && value !== base[name]) form.elements[name].value = value;
  }
}

/** Go on with a draft: with the text it was made to, for what was saved since is a conflict. */
function takeUp(found) {
  const base = found.first ?? first;
  lay(found.values, base);
  if (!isChanged()) return false;
  seen = found.seen;
  // A field that both have touched is theirs here and the draft's there: it stays touched.
  for (const name of Object.keys(first)) if (found.values[name] !== base[name]) first[name] = base[name];
  return true;
}

/** This tab's own draft comes back; without one, the last that was left where this memory is edited. */
function bringBack(others) {
  if (!isNew && !isChanged() && !draft() && others.length) {
    const [key] = others.shift();
    localStorage.setItem(kept, localStorage.getItem(key));
    localStorage.removeItem(key);
  }
  const found = draft();
  if (found && !isChanged() && takeUp(found)) tellOfDraft();
  // This tab may be meant for something else than those.
  others.forEach(offerDraft);
}

function tellOfDraft() {
  tell("What you had typed here and not saved is back.", "Discard it", () => {
    forget();
    isSaved = true;
    location.reload();
  });
}

/** A line with things to do about it; each says whether that is then done. */
function told(words, ...actions) {
  const line = make("p", { class: "notice" }, make("span", {}, words));
  for (const [action, work] of actions) {
    line.append(make("button", { type: "button", onclick: () => { if (work() !== false) line.remove(); } }, action));
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

completeLinks(text, document.getElementById("links"), () => form.elements.scope?.value ?? form.dataset.scope);

// Saving

const tags = (line) => [...new Set(line.split(",").map((one) => one.trim()).filter(Boolean))];

function saving(body) {
  const { title, type, scope = "here", collection, id = "", tags: line } = values();
  const lines = form.dataset.crlf ? body.replaceAll("\n", "\r\n") : body; // as the file has them
  if (isNew) {
    return post(`/memories/${scope}`, { text: body, title, type, id: id.trim(), tags: tags(line), ...(collection.trim() ? { collection: collection.trim() } : {}) });
  }
  if (isWhole) return put(`${api}/source`, { source: lines, expect: seen });
  // Only what was touched: the rest is as it is in the file, whoever changed it meanwhile.
  const changes = { text: lines, expect: seen };
  if (isTouched("title")) changes.title = title.trim();
  if (isTouched("type")) changes.type = type.trim();
  if (isTouched("tags")) changes.tags = tags(line);
  return put(api, changes);
}

async function save() {
  if (isSaving) return;
  const button = document.getElementById("save");
  button.disabled = true;
  isSaving = true;
  try {
    const done = await saving(values().text);
    isSaved = true;
    forget();
    carry(`${isNew ? "Stored" : done.status === "unchanged" ? "Nothing had changed" : "Saved"}.${warned(done)}`, done.undo, done.page);
  } catch (error) {
    keep();
    if (error.status === 409 && !isNew) await attempt(disagree);
    else if (error.status !== 401) say(`${sentence(error.message)} What you typed is still here.`, { bad: true, seconds: 10 });
    if (!isNew && (error.status === 404 || error.status === 422)) offerNew(error.status === 404);
  } finally {
    isSaving = false;
    button.disabled = false;
  }
}

/** The file is gone, or cannot be written any more: what was typed can still become a memory. */
function offerNew(isGone) {
  if (suffix === ".json") return;
  const words = isGone ? "This memory is gone: moved, or deleted." : "The file cannot be changed as it is now.";
  tell(`${words} Your text is still here.`, "Store it as a new memory", () => attempt(storeAnew));
}

async function storeAnew() {
  const [, , scope, collection, id] = api.split("/").map(decodeURIComponent);
  const { title = "", type = "", tags: line = "", text: body } = values();
  const given = { text: body, title: title.trim(), type: type.trim(), tags: tags(line), collection };
  let done;
  try {
    done = await post(`/memories/${scope}`, { ...given, id });
  } catch (error) {
    if (error.status !== 409) throw error;
    done = await post(`/memories/${scope}`, { ...given, id: `${id.slice(0, 80)}-${Date.now().toString(36)}` });
  }
  isSaved = true;
  forget();
  carry(`Stored as ${done.id}.${warned(done)}`, done.undo, done.page);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  // Whichever key asks for it: what stands in the box in which two texts are merged is what is saved.
  if (isMerging()) CHOICES.merged();
  else save();
});

// Two have written: both texts are shown, and the person decides.

/** What another saved, in the fields of this form. */
const saved = () => (isWhole ? { text: theirs.source } : {
  text: theirs.content,
  title: theirs.metadata.title ?? "",
  type: theirs.metadata.type ?? "",
  tags: theirs.tags.join(", "),
});

/** Title, type and tags, where the two differ: what one has not touched stays as the other saved it. */
function headsApart() {
  const [mine, other] = [values(), saved()];
  return ["title", "type", "tags"].filter((name) => name in other && mine[name] !== other[name]).map((name) => make("li", {},
    make("strong", {}, sentence(name).slice(0, -1)), `: theirs “${other[name]}”, `,
    isTouched(name, mine) ? `yours “${mine[name]}”.` : "which stays: you did not change it."));
}

async function disagree() {
  theirs = await get(api);
  const said = saved().text;
  const { html } = await post("/compare", { old: said, new: values().text });
  document.getElementById("differences").replaceChildren(parts(html));
  document.getElementById("theirs").value = said;
  if (isMerging()) say("Someone else saved again. Their new text is shown, and your merged one is as it was.", { bad: true });
  else merged.value = text.value;
  const [left, right] = document.querySelectorAll("#differences th");
  if (left) { left.textContent = "Theirs, as it is saved"; right.textContent = "Yours"; }
  document.getElementById("heads-apart").replaceChildren(...headsApart());
  notice.replaceChildren();
  conflict.hidden = false;
  conflict.scrollIntoView({ block: "start" });
  // Not a button: a key pressed in haste must not decide.
  document.getElementById("conflict-title").focus();
}

/** What is saved stands in the form then, and nothing is changed. */
function fill() {
  const found = saved();
  const at = [text.selectionStart, text.selectionEnd];
  for (const [name, value] of Object.entries(found)) form.elements[name].value = value;
  text.setSelectionRange(...at);
  form.dataset.crlf = found.text.includes("\r\n") ? "1" : "";
  form.querySelector("h1").textContent = theirs.title;
  first = values();
  seen = theirs.hash;
  look();
}

/** Merging begins or is over: there is one text to write in at a time. */
function merging(isOn) {
  both.hidden = !isOn;
  text.readOnly = isOn;
  if (isOn) merged.focus();
  else conflict.hidden = true;
}

function takeTheirs() {
  const [mine, base] = [values(), first];
  merging(false);
  fill();
  // The draft stays what it was: a reload brings back what the person typed, not what is saved.
  tell("This is the saved text now. Yours is not lost.", "Bring mine back", () => { lay(mine, base); keep(); look(); });
  text.focus();
}

const CHOICES = {
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
  if (isNew || isSaved || !conflict.hidden) return;
  try {
    const now = await get(api);
    // Word of one's own save may come before its answer.
    if (isSaved || isSaving || !conflict.hidden || now.hash === seen) return;
    if (!isChanged()) { theirs = now; fill(); return; }
    tell("This memory was changed elsewhere. Your text is untouched.", "Compare", () => attempt(disagree));
  } catch (error) {
    if (error.status === 404) offerNew(true);
  }
});

await settle();
const others = await left();
// Someone typed faster than that: what an earlier page left is offered instead of brought back.
if (isChanged() && draft()) {
  localStorage.setItem(`${kept}-before`, localStorage.getItem(kept));
  others.unshift([`${kept}-before`, draft()]);
}
isSettled = true;
if (isChanged()) keep();
bringBack(others);
look();
