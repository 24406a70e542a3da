// The fields of a typed memory: what stands in each as a text, and the value that the text means.

import { lockedOut, Refused } from "./api.js";
import { make, parts } from "./dom.js";

const boxes = (root) => [...root.querySelectorAll("[data-in]")];
const control = (one) => (one.matches("input, select, textarea") ? one : one.querySelector("select, input, textarea"));
const rows = (field) => [...field.querySelectorAll(":scope > .rows > li")];
const hasRows = (one) => ["rows", "group"].includes(one.dataset.kind) && one.matches("fieldset");

/** What a plain control was given by the server: someone may type faster than a page's script comes. */
function first(box) {
  if (box.options) return ([...box.options].find((one) => one.defaultSelected) ?? box.options[0])?.value ?? "";
  return box.defaultValue.replace(/\r\n?/g, "\n");
}

const texts = (field, read) => JSON.stringify(rows(field)
  .map((row) => Object.fromEntries(boxes(row).map((one) => [one.dataset.in, read(control(one))])))
  .filter((row) => Object.values(row).some(Boolean)));

/** What stands in a field, as a text; of several rows, as the JSON of their texts. */
export const said = (one) => (hasRows(one) ? texts(one, (box) => box.value) : control(one).value);

/** The same as the server gave it. */
export const given = (one) => (hasRows(one) ? texts(one, first) : first(control(one)));

/** Put a text into a field. */
export function put(one, text) {
  if (!hasRows(one)) {
    const box = control(one);
    box.value = text;
    // A word that is none of those to choose from is no less what was there.
    if (box.options && box.value !== text) { box.append(make("option", { value: text }, text)); box.value = text; }
    return;
  }
  const wanted = JSON.parse(text || "[]");
  if (one.dataset.kind === "group" && !wanted.length) wanted.push({});
  one.querySelector(":scope > .rows").replaceChildren(...wanted.map((row) => {
    const made = blank(one);
    for (const box of boxes(made)) control(box).value = row[box.dataset.in] ?? "";
    return made;
  }));
}

const blank = (field) => field.querySelector("template").content.cloneNode(true).querySelector("li");

/** JSON as it is written; what a browser would round is refused. */
function parsed(text) {
  return JSON.parse(text, (_, value) => {
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new RangeError("a number of fewer digits");
    return value;
  });
}

const number = (text) => (text.trim() && Number.isFinite(Number(text)) ? Number(text) : text.trim() || null);
const lines = (text, isRequired) => {
  const found = text.split("\n").map((one) => one.trim()).filter(Boolean);
  return found.length || isRequired ? found : null;
};
const VALUES = {
  text: (text) => (text.trim() ? text : null),
  list: lines,
  number,
  flag: (text) => (text ? text === "yes" : null),
  json: (text) => (text.trim() ? parsed(text) : null),
};

function row(one) {
  const found = boxes(one).map((box) => [box.dataset.in, valued(box, Boolean(box.dataset.required))]);
  return Object.fromEntries(found.filter(([, value]) => value !== null));
}

function valued(one, isRequired) {
  const box = control(one);
  return VALUES[box.dataset.kind](box.value, isRequired);
}

/** What a field means: null if it says nothing. */
function value(field) {
  const isRequired = Boolean(field.dataset.required);
  if (!hasRows(field)) return valued(field, isRequired);
  const isFilled = (one) => boxes(one).some((box) => control(box).value.trim());
  const found = rows(field).filter(isFilled).map(row);
  if (field.dataset.kind === "group") return found[0] ?? (isRequired ? {} : null);
  return found.length || isRequired ? found : null;
}

const PREFIX = "content.";

/** Each field of a sheet, by the name that the interface has for it. */
export const fields = (sheet) => Object.fromEntries([...sheet.querySelectorAll("[data-field]")]
  .map((one) => [`${PREFIX}${one.dataset.field}`, one]));

/** What fields mean, as a memory's content; thrown with the field's name if one of them is no JSON. */
export function content(sheet, isWanted) {
  const found = {};
  const faults = [];
  for (const [name, field] of Object.entries(fields(sheet)).filter(([name]) => isWanted(name))) {
    try {
      found[name.slice(PREFIX.length)] = value(field);
    } catch (error) {
      faults.push({ field: name, expected: error instanceof RangeError ? error.message : "JSON", got: said(field).slice(0, 60) });
    }
  }
  if (faults.length) throw new Refused(422, { code: "record", message: "A field is no JSON", faults });
  return found;
}

/** What a field says, in words. */
export const stated = (field) => (hasRows(field)
  ? rows(field).map((row) => boxes(row).map((one) => `${one.querySelector("span").firstChild.data.trim()}: ${control(one).value}`).join("\n")).join("\n\n")
  : control(field).value);

/** A field in words, to be compared. */
export const worded = (field) => `${field.dataset.label}\n${stated(field) || "—"}`;

// What is wrong is said at its field.

function clear(field) {
  field.querySelector(".fault")?.remove();
  for (const one of field.querySelectorAll("[aria-invalid]")) {
    one.removeAttribute("aria-invalid");
    one.removeAttribute("aria-describedby");
  }
}

/** The part of a field that a fault is about: its box, or the one in the row that is meant. */
function blamed(field, rest) {
  if (!hasRows(field)) return control(field);
  const [number, name] = field.dataset.kind === "group" ? [0, rest[0]] : [Number(rest[0]), rest[1]];
  const filled = rows(field).filter((one) => boxes(one).some((box) => control(box).value.trim()));
  const box = boxes(filled[number] ?? field).find((one) => one.dataset.in === name);
  return box ? control(box) : field.querySelector("[data-row=add]") ?? field;
}

/** Say what is wrong at each field, with the focus on the first; gives what there is no field for. */
export function blame(faults, places) {
  Object.values(places).forEach(clear);
  const rest = [];
  let target;
  for (const { field: name, expected, got } of faults) {
    const found = Object.keys(places).find((one) => name === one || name.startsWith(`${one}.`));
    if (!found) { rest.push(name); continue; }
    const field = places[found];
    const box = blamed(field, name.slice(found.length + 1).split("."));
    // What is missing is told last, wherever it stands.
    if (!target || box.compareDocumentPosition(target) & Node.DOCUMENT_POSITION_FOLLOWING) target = box;
    box.setAttribute("aria-invalid", "true");
    const words = `Expected ${expected}; got ${got}.`;
    const line = field.querySelector(".fault");
    if (line) line.append(make("br"), words);
    else field.append(make("p", { class: "fault", id: `fault-${found}`.replace(/\s/g, "-") }, words));
    box.setAttribute("aria-describedby", field.querySelector(".fault").id);
  }
  target?.focus();
  return rest;
}

const GROWS = CSS.supports("field-sizing", "content"); // by itself, with what is in it

/** Rows come and go, and what is typed anew is no longer wrong. */
export function attend(form, changed) {
  form.addEventListener("input", (event) => {
    const field = event.target.closest("[data-field], .heads > div");
    if (field) clear(field);
    if (event.target.closest("#sheet textarea") && !GROWS) event.target.rows = Math.min(16, event.target.value.split("\n").length + 1);
  });
  form.addEventListener("click", (event) => {
    const what = event.target.closest("[data-row]")?.dataset.row;
    const field = event.target.closest("[data-field]");
    if (!what || !field) return;
    if (what === "add") {
      const made = blank(field);
      field.querySelector(":scope > .rows").append(made);
      control(boxes(made)[0]).focus();
    } else {
      event.target.closest("li").remove();
      field.querySelector("[data-row=add]").focus();
    }
    changed();
  });
}

/** The form of a page as the server has it now. */
export async function fetched(path) {
  const answer = await fetch(path, { headers: { "X-Retain-Fragment": "1" } }).catch(() => null);
  if (!answer) throw new Refused(0, { message: "Retain does not answer. Is `retain web` still running?" });
  if (answer.status === 401) lockedOut();
  if (!answer.ok) throw new Refused(answer.status, { message: "This page is not there any more." });
  return parts(await answer.text()).querySelector("#edit");
}
