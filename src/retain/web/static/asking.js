// A question in a dialog: a few fields, and a button that says what will happen.

import { make } from "./dom.js";

/** The banks there may be, for a field that chooses one. */
export const BANKS = [["here", "project"], ["global", "yours"]];

/** What a step does to a memory: four that stand side by side sound alike. */
export const STEPS = {
  archive: "It stays where it is and can still be found, but ranks lower.",
  retire: "It is no longer in force: lists, searches and agents leave it out unless they ask for retired ones.",
};

let count = 0;

function control(field, id) {
  const { name, value = "", rows, list, placeholder, required = false, options } = field;
  if (options) {
    return make("select", { id, name }, ...options.map(([key, label]) => make("option", { value: key, selected: key === value }, label)));
  }
  if (rows) {
    const area = make("textarea", { id, name, rows, required });
    area.value = value;
    return area;
  }
  return make("input", { type: "text", id, name, value, list, placeholder, required, autocomplete: "off" });
}

/** Ask; gives the fields' values, or null when the person thinks better of it. */
export function ask({ title, about, fields = [], action = "OK", bad = false, below = [] }) {
  return new Promise((resolve) => {
    const at = `ask-${++count}`;
    const form = make("form", { class: "asking", method: "dialog" },
      make("h2", { id: at }, title),
      about ? make("p", { class: "soft" }, about) : null,
      ...fields.map((field, number) => make("div", {},
        make("label", { for: `${at}-${number}` }, field.label), control(field, `${at}-${number}`))),
      ...below,
      make("div", { class: "row" },
        make("button", { type: "button", class: "quiet", onclick: () => dialog.close("") }, "Cancel"),
        make("button", { class: bad ? "bad" : "main", value: "yes" }, action)));
    const dialog = make("dialog", { "aria-labelledby": at }, form);
    const before = document.activeElement;
    dialog.addEventListener("close", () => {
      const values = dialog.returnValue === "yes" ? Object.fromEntries(new FormData(form)) : null;
      dialog.remove();
      before?.focus?.();
      resolve(values);
    });
    // Enter in a field chooses the first button otherwise, which is the one that cancels.
    form.addEventListener("submit", (event) => { event.preventDefault(); dialog.close("yes"); });
    document.body.append(dialog);
    dialog.showModal();
    // What is filled in is a proposal: the first key replaces it.
    if (document.activeElement.matches("input[type=text]")) document.activeElement.select();
  });
}

/** Show something that has to be read, with one button. */
export function tell(title, ...content) {
  const dialog = make("dialog", { "aria-label": title },
    make("h2", {}, title), ...content, make("form", { method: "dialog" }, make("button", { class: "main" }, "Close")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
