// Word of changes: whether it comes, and what a page does with it.

import { get } from "./api.js";
import { say } from "./dom.js";

const NEWS = ["memories", "inbox", "sessions", "health"];
const BUSY = 300; // between two looks whether someone is still in the middle of something
const LONGEST = 30_000;
const lost = document.getElementById("unheard");
const tell = (name, detail) => document.dispatchEvent(new CustomEvent(`retain:${name}`, { detail }));
/** How long to wait after so many failures: ever longer. */
const pause = (failures) => Math.min(LONGEST, 500 * 2 ** failures);

let live = null;
let isBehind = false; // it did not listen for a while
let failures = 0;
let again = 0;

function listen() {
  live = new EventSource("/api/v1/events");
  for (const name of NEWS) live.addEventListener(name, (event) => tell(name, JSON.parse(event.data)));
  live.addEventListener("error", fail);
  // Something may have been told after this page was made, and while it did not listen.
  live.addEventListener("count", (event) => {
    const { dataset } = document.documentElement;
    if (isBehind || event.data !== dataset.told) for (const name of NEWS) tell(name, {});
    [dataset.told, isBehind] = [event.data, false];
  });
  live.addEventListener("open", () => {
    if (lost.textContent) say("Retain answers again.");
    [lost.textContent, failures] = ["", 0];
  });
}

/** A browser tries again by itself only where nobody answered: who was refused is left for good. */
function fail() {
  lost.textContent = "Not connected: what changes is not shown.";
  isBehind = true;
  if (live?.readyState !== EventSource.CLOSED) return;
  live = null;
  failures += 1;
  get("/inbox/count").catch(() => {}); // only a call can tell that the cookie is no longer good
  clearTimeout(again);
  again = setTimeout(follow, pause(failures));
}

// A browser has six connections for one server: a page that is not seen leaves its own to others,
// and looks once at everything when it is seen again.
function follow() {
  if (!document.hidden && !live) listen();
  else if (document.hidden && live) {
    live.close();
    live = null;
    isBehind = true;
    lost.textContent = "";
  }
}
document.addEventListener("visibilitychange", follow);
follow();

/** Show what changed when word of it comes: once for several words that come together, as soon as
 *  nobody is in the middle of something, and again for as long as the server cannot answer. Gives
 *  what asks for the same after some milliseconds. */
export function whenever(news, show, { isBusy = () => false, wait = 100 } = {}) {
  let [timer, refused] = [0, 0];
  const soon = (time) => { clearTimeout(timer); timer = setTimeout(look, time); };
  async function look() {
    if (isBusy()) return soon(BUSY);
    const answer = await show().catch(() => undefined); // whoever does not answer at all is waited for above
    refused = answer && (answer.status === 429 || answer.status >= 500) ? refused + 1 : 0;
    return refused ? soon(pause(refused)) : undefined;
  }
  for (const name of news) document.addEventListener(`retain:${name}`, () => soon(wait));
  return soon;
}
