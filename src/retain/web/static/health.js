// Health: works that go on in the background, and what is settled with a button.

import { post } from "./api.js";
import { attempt, refresh, say } from "./dom.js";
import { whenever } from "./live.js";
import { announce, warned } from "./undo.js";

const PARTS = ["health-now", "health-work", "health-files", "health-alike", "health-links", "health-trash"];
const SAID = {
  merge: "Merged into", supersede: "Replaced:", retire: "Retired",
  ignore: "Ignored from now on:", heed: "Spoken of again:",
};

const again = () => refresh(location.pathname + location.search, PARTS);
const { scope } = document.querySelector(".health").dataset;
const named = ({ collection, id }) => (collection ? `${collection}/${id}` : id);

/** What is alike is looked for anew; behind a look that is under way and knows nothing of it yet. */
let isWanted = false;
async function lookAgain() {
  isWanted = false;
  try {
    await post("/health/work", { work: "look" });
  } catch (error) {
    isWanted = error.status === 409;
  }
}

async function settle(button) {
  const { settle: action, keep, others } = button.dataset;
  const done = await post("/health/settle", { action, keep, others: JSON.parse(others ?? "[]") });
  const isSaid = action === "ignore" || action === "heed"; // nothing was changed by it
  if (isSaid) await again();
  else button.closest("[data-pair]").hidden = true;
  announce(`${SAID[action]} ${named(done)}${warned(done)}`, done.undo, isSaid ? again : lookAgain);
  if (!isSaid) await lookAgain();
}

async function untrash(button) {
  const { untrash: name, chat } = button.dataset;
  const done = await post(`/${chat ? "deleted-sessions" : "trash"}/${scope}`, { name: chat || name });
  announce(`Restored ${done.id}${warned(done)}`, done.undo, again);
  await again();
}

async function empty() {
  const dialog = document.getElementById("emptying");
  dialog.returnValue = "no";
  dialog.showModal();
  await new Promise((closed) => dialog.addEventListener("close", closed, { once: true }));
  if (dialog.returnValue !== "yes") return;
  const done = await post("/health/trash/empty", { scope });
  say(`${done.destroyed} destroyed.`);
  await again();
}

async function work(button) {
  await post("/health/work", { work: button.dataset.work });
  await again();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { dataset } = button;
  // A phone has no room for these beside its parts.
  if (dataset.press) document.getElementById(dataset.press).click();
  else if (dataset.work) attempt(() => work(button));
  else if (dataset.settle) attempt(() => settle(button));
  else if (dataset.untrash) attempt(() => untrash(button));
  else if (button.id === "empty") attempt(empty);
});

const lookSoon = whenever(["memories"], again, { wait: 300 });

/** How far a work is; the rest of the page waits for its end. */
function progress({ done, total }) {
  const bar = document.getElementById("going");
  if (!bar) return lookSoon(0);
  bar.max = total;
  bar.value = done;
  document.getElementById("going-count").textContent = ` ${done} of ${total}`;
  return undefined;
}

document.addEventListener("retain:health", (event) => {
  if (event.detail.work) progress(event.detail);
  else if (isWanted) lookAgain();
  else lookSoon(0);
});

// The work may have ended before this page began to listen.
if (document.getElementById("going")) lookSoon(1000);
