// Taking back what was done: the interface hands out the calls with every change.

import { call } from "./api.js";
import { attempt, say } from "./dom.js";

const WAITING = "retain-said";

let running = 0;

/** Whether something is being taken back: what then goes from a page is no surprise. */
export const isTakingBack = () => running > 0;

/** Make the calls that undo something, in their order. */
export async function takeBack(calls) {
  let last;
  for (const one of calls) last = await call(one.method, one.path, one.body ?? undefined);
  return last;
}

/** Say what was done, with an undo if there is one; `after` hears what the undo did. */
export function announce(text, undo = [], after = () => {}) {
  const back = () => attempt(async () => {
    running += 1;
    try {
      const last = await takeBack(undo);
      say("Undone.");
      await after(last);
    } finally {
      running -= 1;
    }
  });
  say(text, undo.length ? { undo: back } : {});
}

/** Go to another page and say it there. */
export function carry(text, undo, page) {
  sessionStorage.setItem(WAITING, JSON.stringify({ text, undo }));
  location.href = page;
}

/** Say what the page before left to be said. */
export function resume(after) {
  const waiting = sessionStorage.getItem(WAITING);
  if (!waiting) return;
  sessionStorage.removeItem(WAITING);
  const { text, undo } = JSON.parse(waiting);
  announce(text, undo, after);
}

/** What a change has to say besides. */
export const warned = (done) => (done.warnings?.length ? ` (${done.warnings.join("; ")})` : "");
