// A field that two have changed: which of both is kept, chosen field by field.

import { make } from "./dom.js";

const MOST = 120; // characters of what a field says; the comparison below has all of it

/** What a field says, short enough to choose by. */
function excerpt(text) {
  const line = text.split(/\s+/).filter(Boolean).join(" ");
  return line.length > MOST ? `${line.slice(0, MOST)}…` : line || "—";
}

/** Which is kept of a field, of which `typed` stands in the form; yours, unless theirs was chosen before. */
export function choice(name, label, { theirs, mine }, typed, isTheirs) {
  const option = (value, words, checked) => make("label", {},
    make("input", { type: "radio", name: `keep-${name}`, value, checked }), make("span", {}, words));
  return make("fieldset", { class: "choice", "data-apart": name, "data-typed": typed },
    make("legend", {}, make("strong", {}, label), ": both of you changed it."),
    option("theirs", `Keep theirs: “${excerpt(theirs)}”`, isTheirs),
    option("mine", `Keep yours: “${excerpt(mine)}”`, !isTheirs));
}

/** The names of the fields of which theirs is kept; not of those that were typed into since. */
export const yielded = (list, mine) => [...list.querySelectorAll("[data-apart]:has([value=theirs]:checked)")]
  .filter(({ dataset }) => dataset.typed === mine[dataset.apart]).map(({ dataset }) => dataset.apart);
