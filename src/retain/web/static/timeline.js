// The timeline: a year of days that arrow keys walk through, and filters that act at once.

import { refresh, say } from "./dom.js";
import { whenever } from "./live.js";

const PARTS = ["timeline-heat", "timeline-events"];
const form = document.getElementById("timeline-filter");
const heat = () => document.querySelector("#timeline-heat .heat");
let asked = null;

/** Show what an address has; it is the page's own from now on, whatever becomes of it: word of a
 *  change that comes meanwhile asks for the same. */
async function shown(url) {
  asked?.abort();
  asked = new AbortController();
  history.replaceState(null, "", url);
  const answer = await refresh(url, PARTS, { signal: asked.signal });
  rove(document.activeElement.dataset.day);
  return answer;
}

async function show(url) {
  try {
    const answer = await shown(url);
    if (!answer.ok) say("That could not be shown.", { bad: true });
  } catch (error) {
    if (error.name !== "AbortError") say("Retain does not answer. Is `retain web` still running?", { bad: true });
  }
}

function query() {
  const values = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  return values.size ? `/timeline?${values}` : "/timeline";
}

form.addEventListener("change", () => show(query()));
form.addEventListener("submit", (event) => { event.preventDefault(); show(query()); });

// One day of the year is in the order of the Tab key, and arrows go from it to the others.

const days = () => [...document.querySelectorAll("#timeline-heat a[data-day]")];

/** Let Tab reach the day that was left, or the newest; the focus goes with it if it was there. */
function rove(focused) {
  const all = days();
  const newest = all.reduce((best, one) => (!best || one.dataset.day > best.dataset.day ? one : best), null);
  const chosen = all.find((one) => one.dataset.day === focused) ?? all.find((one) => one.hasAttribute("aria-current")) ?? newest;
  for (const one of all) one.tabIndex = one === chosen ? 0 : -1;
  if (focused) chosen?.focus();
}

const shifted = (day, by) => new Date(Date.parse(`${day}T00:00:00Z`) + by * 86_400_000).toISOString().slice(0, 10);

/** The nearest day with something on it, in one direction; days without are passed over. */
function neighbour(from, step) {
  const all = new Map(days().map((one) => [one.dataset.day, one]));
  for (let day = shifted(from, step), left = 370; left > 0; day = shifted(day, step), left -= 1) {
    if (all.has(day)) return all.get(day);
  }
  return null;
}

const STEPS = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -7, ArrowRight: 7 };

document.addEventListener("keydown", (event) => {
  const here = event.target.closest?.("#timeline-heat a[data-day]");
  if (!here || !(event.key in STEPS)) return;
  event.preventDefault();
  const next = neighbour(here.dataset.day, STEPS[event.key]);
  if (!next) return;
  here.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

document.addEventListener("click", (event) => {
  const day = event.target.closest("#timeline-heat a[data-day]");
  if (!day || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  form.day.value = day.hasAttribute("aria-current") ? "" : day.dataset.day;
  show(query());
});

whenever(["memories", "sessions"], () => shown(location.pathname + location.search), { wait: 150 });

rove();
heat().scrollLeft = heat().scrollWidth; // on a phone the newest weeks are what one looks for
