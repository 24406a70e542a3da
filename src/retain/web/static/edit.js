// Writing: with a preview, without losing a word, and with both texts shown when two have written.

import { get, post, put } from "./api.js";
import { attempt, make, parts, say } from "./dom.js";
import { carry, warned } from "./undo.js";

const form = document.getElementById("edit");
const text = document.getElementById("text");
const preview = document.getElementById("preview");
const notice = document.getElementById("notice");
const conflict = document.getElementById("conflict");
const { api, page, suffix } = form.dataset;
const isNew = Boolean(form.dataset.new);
const isWhole = Boolean(form.dataset.whole);
const FIELDS = ["title", "tags", "type", "collection", "scope", "text"];
const DRAFT = `retain-draft:${location.pathname}${isWhole ? "?whole" : ""}`;

let seen = form.dataset.hash; // of the text that these changes were made to
let theirs; // what someone else saved meanwhile
let isSaved = false;

const values = () => Object.fromEntries(FIELDS.filter((name) => form.elements[name]).map((name) => [name, form.elements[name].value]));
const first = JSON.stringify(values());
const isChanged = () => !isSaved && JSON.stringify(values()) !== first;

// Drafts: what was typed outlives a reload, a crash of the tab's page, and a refused save.

function keep() {
  if (isChanged()) sessionStorage.setItem(DRAFT, JSON.stringify({ seen, values: values() }));
  else sessionStorage.removeItem(DRAFT);
}

function bringBack() {
  const draft = JSON.parse(sessionStorage.getItem(DRAFT) ?? "null");
  if (!draft || JSON.stringify(draft.values) === first) return;
  for (const [name, value] of Object.entries(draft.values)) if (form.elements[name]) form.elements[name].value = value;
  seen = draft.seen;
  tell("What you had typed here and not saved is back.", "Discard it", () => {
    sessionStorage.removeItem(DRAFT);
    isSaved = true;
    location.reload();
  });
}

function tell(words, action, work) {
  const line = make("p", { class: "notice" }, make("span", {}, words));
  if (action) line.append(make("button", { type: "button", onclick: () => { line.remove(); work(); } }, action));
  notice.replaceChildren(line);
}

addEventListener("beforeunload", (event) => { if (isChanged()) event.preventDefault(); });

// The preview, made by the server as the page itself is.

let timer;
let asked = 0;
async function look() {
  const mine = ++asked;
  try {
    const { html } = await post("/preview", { text: text.value, suffix });
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

// Saving

const tags = (line) => [...new Set(line.split(",").map((one) => one.trim()).filter(Boolean))];

function saving(body) {
  const { title, type, scope = "here", collection, tags: line } = values();
  const lines = form.dataset.crlf ? body.replaceAll("\n", "\r\n") : body; // as the file has them
  if (isNew) {
    return post(`/memories/${scope}`, { text: body, title, type, tags: tags(line), ...(collection.trim() ? { collection: collection.trim() } : {}) });
  }
  if (isWhole) return put(`${api}/source`, { source: lines, expect: seen });
  // Only what was touched: the rest is as it is in the file, whoever changed it meanwhile.
  const old = JSON.parse(first);
  const changes = { text: lines, expect: seen };
  if (title !== old.title) changes.title = title.trim();
  if (type !== old.type) changes.type = type.trim();
  if (line !== old.tags) changes.tags = tags(line);
  return put(api, changes);
}

async function save(body = text.value) {
  const button = document.getElementById("save");
  button.disabled = true;
  try {
    const done = await saving(body);
    isSaved = true;
    sessionStorage.removeItem(DRAFT);
    carry(`${isNew ? "Stored" : done.status === "unchanged" ? "Nothing had changed" : "Saved"}.${warned(done)}`, done.undo, done.page);
  } catch (error) {
    keep();
    if (error.status === 409 && !isNew) await attempt(disagree);
    else say(`${error.message} What you typed is still here.`, { bad: true, seconds: 10 });
  } finally {
    button.disabled = false;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  save();
});

// Two have written: both texts are shown, and the person decides.

async function disagree() {
  theirs = await get(api);
  const said = isWhole ? theirs.source : theirs.content;
  const { html } = await post("/compare", { old: said, new: text.value });
  document.getElementById("differences").replaceChildren(parts(html));
  document.getElementById("theirs").value = said;
  document.getElementById("merged").value = text.value;
  const [left, right] = document.querySelectorAll("#differences th");
  if (left) { left.textContent = "Theirs, as it is saved"; right.textContent = "Yours"; }
  notice.replaceChildren();
  conflict.hidden = false;
  conflict.scrollIntoView({ block: "start" });
  conflict.querySelector("button").focus();
}

function takeTheirs() {
  const mine = text.value;
  text.value = isWhole ? theirs.source : theirs.content;
  if (!isWhole) {
    form.elements.tags.value = theirs.tags.join(", ");
    form.elements.title.value = theirs.metadata.title ?? "";
  }
  seen = theirs.hash;
  conflict.hidden = true;
  look();
  keep();
  tell("This is the saved text now. Yours is not lost.", "Bring mine back", () => { text.value = mine; keep(); look(); });
  text.focus();
}

const CHOICES = {
  mine: () => { seen = theirs.hash; conflict.hidden = true; return save(); },
  theirs: takeTheirs,
  merge: () => {
    document.getElementById("both").hidden = false;
    document.getElementById("merged").focus();
  },
  merged: () => {
    seen = theirs.hash;
    text.value = document.getElementById("merged").value;
    conflict.hidden = true;
    keep();
    look();
    return save();
  },
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
    if (now.hash === seen) return;
    if (!isChanged()) { isSaved = true; location.reload(); return; }
    tell("This memory was changed elsewhere. Your text is untouched.", "Compare", () => attempt(disagree));
  } catch (error) {
    if (error.status === 404) tell("This memory is gone: moved, or deleted. Your text is still here.");
  }
});

bringBack();
look();
