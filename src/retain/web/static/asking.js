// A question in a dialog: a few fields, and a button that says what will happen.

import { make } from "./dom.js";
import { Offers, option } from "./offering.js";
import { guard } from "./unsaved.js";

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

/** A field that is completed: `find` gives what a text may mean, each with its value and what it is. */
function completed({ name, label, required, find }, id) {
  const input = make("input", { type: "text", role: "combobox", "aria-autocomplete": "list", id, name, required, autocomplete: "off" });
  const list = make("ul", { id: `${id}-offers`, class: "offers", role: "listbox", "aria-label": label });
  const offers = new Offers(input, list, (one) => { input.value = one.dataset.value; });
  const found = async () => (await find(input.value)).map(([value, about], number) => option(`${id}-offer-${number}`, about, value, { "data-value": value }));
  input.addEventListener("input", () => offers.soon(found));
  return [input, list];
}

const labelled = (field, id) => make("div", {},
  make("label", { for: id }, field.label), ...(field.find ? completed(field, id) : [control(field, id)]));

/** The dialog; `leave` is what its button to cancel does. */
function built({ title, about, fields = [], action = "OK", bad = false, below = [] }, trouble, leave) {
  const at = `ask-${++count}`;
  const form = make("form", { class: "asking" },
    make("h2", { id: at }, title),
    about ? make("p", { class: "soft" }, about) : null,
    ...fields.map((field, number) => labelled(field, `${at}-${number}`)),
    ...below,
    trouble,
    make("div", { class: "row" },
      make("button", { type: "button", class: "quiet", onclick: leave }, "Cancel"),
      make("button", { class: bad ? "bad" : "main" }, action)));
  return [make("dialog", { "aria-labelledby": at }, form), form];
}

/** Ask, and do something with the fields' values; gives what that gave, or null when the person
 *  thinks better of it. What is refused is said where it was written, and can be tried again. */
export function ask({ work = (values) => values, ...question }) {
  let answer = null;
  let isBusy = false;
  const trouble = make("div", { role: "alert", class: "error" });
  const warn = (...words) => {
    trouble.replaceChildren(make("p", {}, ...words));
    trouble.scrollIntoView({ block: "nearest" });
  };
  const leave = () => {
    if (isBusy) return;
    if (!isWritten()) dialog.close();
    else warn("What you wrote here is not saved. ", make("button", { type: "button", class: "bad", onclick: () => dialog.close() }, "Discard it"));
  };
  const [dialog, form] = built(question, trouble, leave);
  const written = () => [...form.querySelectorAll("textarea:not([readonly])")].map((one) => one.value).join("\0");
  const first = written();
  const isWritten = () => written() !== first;
  const unguard = guard(isWritten);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (isBusy) return;
    isBusy = true;
    trouble.replaceChildren();
    try {
      answer = await work(Object.fromEntries(new FormData(form)));
      dialog.close();
    } catch (error) {
      warn(error.message);
    } finally {
      isBusy = false;
    }
  });
  // The browser closes a dialog at the second Escape, whatever the first one was told.
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); leave(); }
  });
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); leave(); });
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.showModal();
  // What is filled in is a proposal: the first key replaces it.
  if (document.activeElement.matches("input[type=text]")) document.activeElement.select();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      unguard();
      dialog.remove();
      before?.focus?.();
      resolve(answer);
    });
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
