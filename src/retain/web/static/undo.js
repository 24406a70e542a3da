// Taking back what was done: the interface hands out the calls with every change.

import { call } from "./api.js";
import { tell } from "./asking.js";
import { attempt, make, say } from "./dom.js";

const WAITING = "retain-said";

let running = 0;

/** Whether something is being taken back: what then goes from a page is no surprise. */
export const isTakingBack = () => running > 0;

/** Make the calls that take one change back, in their order; each one that is made is done with, so
 *  that who tries again goes on where it stopped. */
async function takeBack(calls) {
  let last;
  while (calls.length) {
    const [{ method, path, body }] = calls;
    last = await call(method, path, body ?? undefined);
    if (last.refused?.length) throw new Error(`${last.refused[0].message} ${last.refused[0].hint}`);
    calls.shift();
  }
  return last;
}

/** Why something was refused; where another was faster, also what can be done about it. */
const reason = ({ message, error }) => (error?.code === "conflict" ? `${message}. ${error.hint}` : message);

/** What was refused of several, each with its reason. */
export function fallenShort(failures) {
  tell("Some were left as they were", make("ul", { class: "failures" },
    ...failures.map(([title, error]) => make("li", {}, make("strong", {}, title), ` — ${reason(error)}`))));
}

/** Say what was done to several, with one undo for all: a refusal of one keeps no other from it.
 *  A change is a `title` and the calls that `undo` it; `after` hears what the last undo did. */
export function announceAll(text, changes, after = () => {}) {
  const left = changes.filter(({ undo }) => undo.length).map(({ title, undo }) => ({ title, undo: [...undo] }));
  const undoAll = async () => {
    const failures = [];
    let last;
    for (const { title, undo } of left) {
      try {
        last = await takeBack(undo);
      } catch (error) {
        failures.push([title, error]);
      }
    }
    if (failures.length < left.length) {
      say(failures.length ? `${left.length - failures.length} of ${left.length} undone.` : "Undone.");
      await after(last);
    }
    const isUnheard = failures.some(([, error]) => error.status === 0); // it can be tried again
    if (isUnheard) announceAll(failures[0][1].message, left, after);
    else if (left.length > 1 && failures.length) fallenShort(failures);
    else if (failures.length) say(reason(failures[0][1]), { bad: true, seconds: 12 });
  };
  const back = async () => {
    running += 1;
    try {
      await undoAll();
    } finally {
      running -= 1;
    }
  };
  say(text, left.length ? { undo: () => attempt(back) } : {});
}

/** Say what was done, with an undo if there is one. */
export const announce = (text, undo = [], after = () => {}) => announceAll(text, [{ title: "", undo }], after);

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
