// Looking into a conversation: what the model was sent, and which model that is.

import { get, put } from "./api.js";
import { attempt, make } from "./dom.js";

const at = (id) => document.getElementById(id);
const number = (count) => count.toLocaleString("en");

/** A drawer with the parts of the prompt, what was recalled, and what was left out and why. */
export async function showContext(fetchIt) {
  const found = await attempt(fetchIt);
  if (!found) return;
  const place = at("drawer-content");
  if (!found.parts.length) {
    place.replaceChildren(make("p", { class: "soft" }, "Nothing was sent yet: say something first."));
  } else {
    place.replaceChildren(
      make("p", {}, `${number(found.tokens)} of ${number(found.budget)} tokens`),
      make("meter", { min: 0, max: found.budget, value: found.tokens, "aria-label": "Tokens used" }),
      ...section("Recalled memories", found.memories.map((one) => make("li", {}, make("a", { href: one.page }, one.title || one.ref), " ", make("span", { class: "soft small" }, one.ref)))),
      ...section("Left out or cut", found.left_out.map((note) => make("li", {}, note))),
      make("h3", {}, "Parts"),
      ...found.parts.map(part),
      make("p", { class: "part-line" }, make("span", {}, `This conversation, ${found.turns} turns`), make("span", { class: "number soft" }, number(found.turns_tokens))),
    );
  }
  at("drawer").showModal();
}

function section(title, lines) {
  return lines.length ? [make("h3", {}, title), make("ul", {}, ...lines)] : [];
}

function part(one) {
  const head = [make("span", {}, one.name), make("span", { class: "number soft" }, number(one.tokens))];
  const note = one.note ? make("p", { class: "small soft" }, one.note) : null;
  if (!one.text) return make("div", { class: "part" }, make("p", { class: "part-line" }, ...head), note);
  return make("details", { class: "part" }, make("summary", { class: "part-line" }, ...head), note, make("pre", {}, one.text));
}

/** A dialog with the models there are; what is typed counts as well. */
export async function chooseModel(path) {
  const dialog = at("models");
  const field = at("models-name");
  const list = at("models-list");
  const use = (name) => attempt(() => put(path("/model"), { name }));
  field.value = "";
  list.replaceChildren(make("p", { class: "soft" }, "Asking which there are…"));
  dialog.onclose = () => { if (dialog.returnValue === "use" && field.value.trim()) use(field.value.trim()); };
  dialog.showModal();
  const found = await attempt(() => get(path("/models")));
  if (!found) return;
  list.replaceChildren(...[...new Set([found.model, ...found.models])].map((name) => make("button", {
    type: "button",
    "aria-pressed": String(name === found.model),
    onclick: () => { dialog.close(""); if (name !== found.model) use(name); },
  }, name)));
}
