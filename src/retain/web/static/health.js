// Health: works that go on in the background, and what is settled with a button.

import { post } from "./api.js";
import { attempt, refresh, say } from "./dom.js";

const PARTS = ["health-now", "health-work", "health-files", "health-alike", "health-links", "health-trash"];
const IGNORED = "retain-ignored";

const ignored = () => new Set(JSON.parse(localStorage.getItem(IGNORED) ?? "[]"));
const keepIgnored = (pairs) => localStorage.setItem(IGNORED, JSON.stringify([...pairs].slice(-500)));

/** Leave out what the person does not want to be asked about again. */
function hideIgnored() {
  const known = ignored();
  let hidden = 0;
  for (const pair of document.querySelectorAll("[data-pair]")) {
    pair.hidden = known.has(pair.dataset.pair);
    hidden += pair.hidden;
  }
  document.getElementById("ignored").hidden = hidden === 0;
}

async function again() {
  await refresh("/health", PARTS);
  hideIgnored();
}

async function settle(button) {
  const { settle: action, keep, others } = button.dataset;
  const body = { action, keep, others: JSON.parse(others ?? "[]") };
  const done = await post("/health/settle", body);
  button.closest("[data-pair]").hidden = true;
  const words = { merge: "Merged into", supersede: "Replaced:", retire: "Retired" }[action];
  const undo = action === "retire"
    ? () => attempt(async () => {
      await post("/health/settle", { action: "restore", keep });
      say("It is in force again.");
      button.closest("[data-pair]").hidden = false;
    })
    : undefined;
  say(`${words} ${done.collection ? `${done.collection}/` : ""}${done.id}`, { undo });
  if (action !== "retire") await post("/health/work", { work: "look" }).catch(() => {});
}

async function untrash(button) {
  const { untrash: name, collection } = button.dataset;
  const done = await post("/health/trash/restore", { name, collection });
  say(`Restored ${done.id}`);
  await again();
}

async function empty() {
  const dialog = document.getElementById("emptying");
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((closed) => dialog.addEventListener("close", closed, { once: true }));
  if (dialog.returnValue !== "yes") return;
  const done = await post("/health/trash/empty");
  say(`${done.destroyed} destroyed.`);
  await again();
}

function ignore(button) {
  const pair = button.closest("[data-pair]").dataset.pair;
  keepIgnored(ignored().add(pair));
  hideIgnored();
  say("Ignored in this browser.", {
    undo: () => {
      const known = ignored();
      known.delete(pair);
      keepIgnored(known);
      hideIgnored();
    },
  });
}

async function work(button) {
  await post("/health/work", { work: button.dataset.work });
  await again();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { dataset } = button;
  if (dataset.work) attempt(() => work(button));
  else if (dataset.settle) attempt(() => settle(button));
  else if (dataset.untrash) attempt(() => untrash(button));
  else if ("ignore" in dataset) ignore(button);
  else if (button.id === "empty") attempt(empty);
  else if (button.id === "unignore") { keepIgnored([]); hideIgnored(); }
});

/** How far a work is; the rest of the page waits for its end. */
function progress({ done, total }) {
  const bar = document.getElementById("going");
  if (!bar) return again();
  bar.max = total;
  bar.value = done;
  document.getElementById("going-count").textContent = ` ${done} of ${total}`;
  return undefined;
}

document.addEventListener("retain:health", (event) => {
  if (event.detail.work) progress(event.detail);
  else again();
});

let waiting;
document.addEventListener("retain:memories", () => {
  clearTimeout(waiting);
  waiting = setTimeout(again, 300);
});

hideIgnored();
// The work may have ended before this page began to listen.
if (document.getElementById("going")) setTimeout(again, 1000);
