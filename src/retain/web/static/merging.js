// Several memories become one: their texts are put together, and set in order by hand.

import { at, get, post } from "./api.js";
import { ask } from "./asking.js";
import { make } from "./dom.js";

/** Merge memories of one bank, given as they were read; gives what was done, or null. */
export function mergeInto(scope, memories) {
  const [first] = memories;
  const changed = make("div", { class: "changed-since" });
  let seen = memories;
  const work = async ({ id, title, text }) => {
    // Only if they are still what was shown: a change made meanwhile would go to the trash with them.
    const sources = seen.map((one) => ({ ref: `${one.collection}/${one.id}`, expect: one.hash }));
    try {
      return await post(`/merges/${encodeURIComponent(scope)}`, { sources, id, title, text, collection: first.collection || ":root" });
    } catch (error) {
      if (error.status === 409) seen = await seenAnew(scope, seen, changed);
      throw error;
    }
  };
  return ask({
    title: `Merge ${memories.length} memories`, action: "Merge", work, below: [changed],
    about: "One memory takes their place; they go to the trash, and their links stay.",
    fields: [
      { name: "title", label: "Title", value: first.title, required: true },
      { name: "id", label: "Id of the new memory", value: `${first.id}-merged`, required: true },
      { name: "text", label: "Text", rows: 12, value: memories.map((one) => one.content.trim()).join("\n\n"), required: true },
    ],
  });
}

/** The memories as they are now; those that another changed are shown, to be merged as well. */
async function seenAnew(scope, before, place) {
  const now = await Promise.all(before.map((one) => get(at({ ...one, scope }))));
  const others = now.filter((one, number) => one.hash !== before[number].hash);
  if (others.length) place.replaceChildren(...others.map(shown));
  return now;
}

function shown(memory, number) {
  const area = make("textarea", { id: `changed-since-${number}`, rows: 5, readonly: true });
  area.value = memory.content.trim();
  return make("div", {}, make("label", { for: area.id }, `“${memory.title}”, as it is now`), area);
}
