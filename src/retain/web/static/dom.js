// Making and replacing parts of a page. Text is only ever set as text.

import { lockedOut } from "./api.js";
import { liken, named } from "./likening.js";

/** An element with attributes and children; strings become text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((one) => one != null));
  return element;
}

// The one place where HTML becomes elements: parts of our own pages, made and escaped by the server.
const rules = { createHTML: (html) => html, createScriptURL: (url) => url };
const policy = window.trustedTypes?.createPolicy("retain", rules) ?? rules;

/** A thread of our own that runs one of our own files; what is no plain name is refused. */
export function worker(name) {
  if (!/^[a-z-]+\.js$/.test(name)) throw new TypeError(name);
  return new Worker(policy.createScriptURL(new URL(`./${name}`, import.meta.url).href), { type: "module" });
}

/** Where the focus is, to be given back: to the element, to its like, or to what stands in its place. */
function focused() {
  const had = document.activeElement;
  const items = () => [...document.querySelectorAll("[data-item]")];
  const [name, place] = [named(had), items().indexOf(had.closest("[data-item]"))];
  return () => {
    if (had === document.body || document.activeElement !== document.body) return;
    const like = () => name && [...document.querySelectorAll(had.localName)].find((one) => named(one) === name);
    const next = () => items()[Math.min(place, items().length - 1)]?.querySelector("a, button");
    const found = (had.isConnected && had) || like() || next() || document.getElementById("content");
    found.focus({ preventScroll: true });
  };
}

/** Put one in the place of another; what was unfolded stays so. */
function replace(old, fresh) {
  const open = new Set([...old.querySelectorAll("details[open]")].map(named));
  for (const one of fresh.querySelectorAll("details")) one.open ||= open.has(named(one));
  old.replaceWith(fresh);
}

const turns = new Map(); // by part, how often it was asked for

/** Fetch a page's changing parts and make the ones that are there like them, by their ids; gives the
 *  answer. `before` is called in the last moment in which they are as they were, and what `keeps`
 *  says of an element leaves it alone. Where they are about something else now, `isAnew`, the parts take
 *  the place of the old ones: nothing is to be seen wandering from one place to another. */
export async function refresh(url, ids, { signal, before = () => {}, keeps, isAnew = false } = {}) {
  const [part, turn] = [ids[0], (turns.get(ids[0]) ?? 0) + 1];
  turns.set(part, turn);
  const answer = await fetch(url, { headers: { "X-Retain-Fragment": "1" }, signal });
  if (answer.status === 401) lockedOut();
  if (!answer.ok) return answer;
  const page = new DOMParser().parseFromString(policy.createHTML(await answer.text()), "text/html");
  if (turns.get(part) !== turn) return answer; // someone has asked since, and gets what is newer
  before();
  const refocus = focused();
  for (const id of ids) {
    const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
    if (old && fresh && isAnew) replace(old, fresh);
    else if (old && fresh) liken(old, fresh, keeps);
  }
  refocus();
  return answer;
}

const undoable = []; // the last one last; each is there until it is used, also without its words

/** Say something in the corner; with an undo, for as long as that is of use, and for as long as
 *  someone is at it. */
export function say(text, { undo, bad = false, seconds = undo ? 12 : 5 } = {}) {
  const toast = make("div", { class: bad ? "toast bad" : "toast" }, make("span", {}, text));
  const isUsed = () => undo && toast.matches(":hover, :focus-within");
  const leave = () => (isUsed() ? wait() : toast.remove());
  const wait = () => setTimeout(leave, seconds * 1000);
  if (undo) {
    const back = () => {
      undoable.splice(undoable.indexOf(back), 1);
      toast.remove();
      undo();
    };
    undoable.push(back);
    toast.append(make("button", { type: "button", onclick: back }, "Undo"));
  }
  document.getElementById("toasts").append(toast);
  wait();
}

/** Take back what was done last on this page, whether its words are still there or not. */
export function undoLast() {
  const last = undoable.at(-1);
  if (last) last();
  else say("Nothing was done on this page that could be undone.");
}

/** Do something; what is refused is said. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    say(error.message, { bad: true, seconds: 8 });
    return undefined;
  }
}

/** Elements from HTML that the interface made and escaped; nothing else may be handed in. */
export function parts(html) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  return template.content;
}
