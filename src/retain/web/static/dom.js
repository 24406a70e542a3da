// Making and replacing parts of a page. Text is only ever set as text.

import { lockedOut } from "./api.js";

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

/** Fetch a page's changing parts and put them in the place of the old ones, by their ids.
 *  `before` is called in the last moment in which the old ones are there. */
export async function refresh(url, ids, signal, before = () => {}) {
  const answer = await fetch(url, { headers: { "X-Retain-Fragment": "1" }, signal });
  if (answer.status === 401) lockedOut();
  if (!answer.ok) return false;
  const page = new DOMParser().parseFromString(policy.createHTML(await answer.text()), "text/html");
  before();
  for (const id of ids) {
    const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
    if (old && fresh) old.replaceWith(fresh);
  }
  document.dispatchEvent(new CustomEvent("retain:refreshed"));
  return true;
}

/** Say something in the corner; with an undo, for as long as that is of use. */
export function say(text, { undo, bad = false, seconds = undo ? 12 : 5 } = {}) {
  const toast = make("div", { class: bad ? "toast bad" : "toast" }, make("span", {}, text));
  const leave = () => toast.remove();
  if (undo) {
    const back = make("button", { type: "button" }, "Undo");
    back.addEventListener("click", () => { leave(); undo(); });
    toast.append(back);
    toast.undo = () => back.click();
  }
  document.getElementById("toasts").append(toast);
  setTimeout(leave, seconds * 1000);
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
