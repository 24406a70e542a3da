// A field that two have changed: which of both is kept, chosen field by field.

import { make } from "./dom.js";

const MOST = 120; // characters of what a field says; the comparison below has all of it

/** What a field says, short enough to choose by. */
function excerpt(text) {
  const line = text.split(/\s+/).filter(Boolean).join(" ");
  return line.length > MOST ? `${line.slice(0, MOST)}…` : line || "—";
}

/** Which is kept of a field; yours, unless theirs was chosen before. */
export function choice(name, label, { theirs, mine }, isTheirs) {
  const option = (value, words, checked) => make("label", {},
    make("input", { type: "radio", name: `keep-${name}`, value, checked }), make("span", {}, words));
  return make("fieldset", { class: "choice", "data-apart": name },
    make("legend", {}, make("strong", {}, label), ": both of you changed it."),
    option("theirs", `Keep theirs: “${excerpt(theirs)}”`, isTheirs),
    option("mine", `Keep yours: “${excerpt(mine)}”`, !isTheirs));
}

/** The names of the fields of which theirs is kept. */
export const yielded = (list) => [...list.querySelectorAll("[data-apart]:has([value=theirs]:checked)")].map((one) => one.dataset.apart);
