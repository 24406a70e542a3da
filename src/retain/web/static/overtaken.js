// A proposal that another changed while somebody wrote into it: both are shown, and the person decides.

import { post } from "./api.js";
import { make, parts } from "./dom.js";

const WORDS = ["title", "category", "text"];

/** Whether a field says something else than it was given. */
export const isTouched = (field) => (field.options ? !field.selectedOptions[0]?.defaultSelected : field.value !== field.defaultValue);

/** Give a field what another wrote; what was written here stays in it. */
function standOn(field, given) {
  const said = isTouched(field) ? field.value : given;
  if (field.options) {
    const chosen = [...field.options].find((one) => one.value === given) ?? field.appendChild(make("option", {}, given));
    for (const one of field.options) one.defaultSelected = one === chosen;
  } else field.defaultValue = given;
  field.value = said;
}

/** Title and category, where the two differ. */
const headsApart = (fields, theirs) => ["title", "category"].filter((name) => fields[name].value !== theirs[name]).map((name) => make("li", {},
  make("strong", {}, name === "title" ? "Title" : "Category"), `: theirs “${theirs[name]}”, yours “${fields[name].value}”.`));

/** The two texts side by side, as the server lays them out. */
async function sideBySide(theirs, mine) {
  const { html } = await post("/compare", { old: theirs, new: mine });
  const found = parts(html);
  const [left, right] = found.querySelectorAll("th");
  if (left) { left.textContent = "Theirs, as it is now"; right.textContent = "Yours"; }
  return found;
}

/** Show what another wrote beside what stands in a form. What nobody has touched here becomes theirs:
 *  only what was written here can be saved over it. */
export async function showOvertaken(form, theirs, { isAccepted, saveMine, takeTheirs }) {
  for (const name of WORDS) standOn(form.elements[name], theirs[name]);
  const differences = await sideBySide(theirs.text, form.elements.text.value);
  const apart = headsApart(form.elements, theirs);
  const title = make("h3", { id: `overtaken-${theirs.id}`, tabindex: "-1" }, "Someone else changed it first");
  form.querySelector(".overtaken")?.remove();
  form.append(make("section", { class: "overtaken", "aria-labelledby": title.id },
    title,
    make("p", {}, "Theirs is below, beside yours. Nothing of yours is lost, and nothing is saved yet."),
    make("div", { class: "row" },
      make("button", { type: "button", onclick: takeTheirs }, "Take theirs"),
      make("button", { type: "button", onclick: saveMine }, `Save mine over it${isAccepted ? " and accept" : ""}`)),
    apart.length ? make("ul", { class: "small" }, ...apart) : null,
    differences));
  title.scrollIntoView({ block: "nearest" });
  title.focus(); // not a button: a key pressed in haste must not decide
}
