// What every page has: keys, colours, help, and word of changes.

import { attempt, say, undoLast } from "./dom.js";
import "./inbox-count.js";
import "./live.js";

const PARTS = { m: "/", g: "/graph", t: "/timeline", i: "/inbox", s: "/sessions", c: "/chat", h: "/health" };
let isGoing = false;

const isTyping = (target) => target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");

function items() {
  return [...document.querySelectorAll("[data-item]")].filter((one) => one.offsetParent);
}

/** Where to begin when none of the items has the focus: with what is in sight. */
function beginning(all, by) {
  if (by < 0) return all.length - 1;
  return Math.max(0, all.findIndex((one) => one.getBoundingClientRect().top >= 0));
}

/** Put the focus on the next of a page's items, or on the one before. */
function step(by) {
  const all = items();
  const at = all.findIndex((one) => one.contains(document.activeElement));
  const next = all[at < 0 ? beginning(all, by) : Math.min(all.length - 1, Math.max(0, at + by))];
  if (!next) return;
  (next.querySelector("a, button") ?? next).focus();
  next.scrollIntoView({ block: "nearest" });
}

function press(selector) {
  const found = document.querySelector(selector);
  if (found) found.click();
  return Boolean(found);
}

/** Edit what the focus is on in a list. */
function editItem() {
  const { page } = document.activeElement.closest("[data-item]")?.dataset ?? {};
  if (page) location.href = `${page}/edit`;
}

function search() {
  const field = document.querySelector("[data-search]");
  if (field) { field.focus(); field.select(); } else location.href = "/?focus=1";
}

const KEYS = {
  "/": search,
  j: () => step(1),
  k: () => step(-1),
  x: () => document.activeElement.closest("[data-item]")?.querySelector("input[type=checkbox]")?.click(),
  X: () => press("[data-all]"),
  b: () => document.querySelector("#bulk:not([hidden]) button")?.focus(),
  e: () => press("[data-key=e]") || editItem(),
  n: () => press("[data-key=n]") || (location.href = "/new"),
  u: undoLast,
  g: () => { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); },
  "?": () => document.getElementById("help").showModal(),
};

// Who speaks to the computer, or strikes keys by mistake, can turn letters off: before any page hears them.
const letters = document.getElementById("letters");
letters.checked = localStorage.getItem("retain-letters") !== "off";
letters.addEventListener("change", () => localStorage.setItem("retain-letters", letters.checked ? "on" : "off"));
addEventListener("keydown", (event) => {
  const isPlain = !(event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target));
  if (isPlain && !letters.checked && /^[\p{L}/?]$/u.test(event.key)) event.stopImmediatePropagation();
}, true);

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
  if ((event.ctrlKey || event.metaKey) && event.key === "k" && !document.querySelector("dialog[open]")) {
    event.preventDefault();
    search();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  if (isGoing && PARTS[event.key]) {
    event.preventDefault();
    location.href = PARTS[event.key];
  } else if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

document.getElementById("keys").addEventListener("click", () => document.getElementById("help").showModal());

// First the other colours, then back to the system's.
document.getElementById("theme").addEventListener("click", () => {
  const { dataset } = document.documentElement;
  if (dataset.theme) {
    delete dataset.theme;
    localStorage.removeItem("retain-theme");
    say("Colours are your system's.");
  } else {
    dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "light" : "dark";
    localStorage.setItem("retain-theme", dataset.theme);
    say(`Colours are ${dataset.theme}, whatever your system's are.`);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    const form = event.target.closest("form");
    if (form) { event.preventDefault(); form.requestSubmit(); }
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  attempt(async () => {
    await navigator.clipboard.writeText(button.nextElementSibling.textContent);
    say("Copied.");
  });
});
