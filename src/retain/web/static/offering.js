// What may be meant by what is typed: a list at a field, gone through with the arrow keys.

import { get } from "./api.js";
import { make } from "./dom.js";

const WAIT = 150; // after the last key; a fast typist asks once for a word
const KEYS = ["ArrowUp", "ArrowDown", "Tab", "Enter", "Escape"];

/** Memories of one bank, by what they are called or else by what they say: with `ref`, its name there. */
export async function memories(scope, words) {
  const { memories: found } = await get(`/names?scope=${scope}&q=${encodeURIComponent(words)}`);
  return found.map((one) => ({ ...one, ref: one.collection ? `${one.collection}/${one.id}` : one.id }));
}

/** One of a list: its name, and what it is. */
export function option(id, name, about, data = {}) {
  return make("li", { role: "option", id, ...data }, make("b", {}, name), " ", make("span", {}, about));
}

export class Offers {
  /** `take` is handed what was chosen, and the key that chose it: none for a pointer. */
  constructor(field, list, take) {
    Object.assign(this, { field, list, take, marked: -1, asked: 0 });
    field.setAttribute("aria-controls", list.id);
    field.addEventListener("keydown", (event) => this.key(event));
    field.addEventListener("blur", () => this.close());
    list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the field keeps the focus
      const chosen = event.target.closest("[role=option]");
      if (chosen) this.choose(chosen, "");
    });
    this.close();
  }

  get isOpen() { return !this.list.hidden; }

  /** Offer these options, once they are found, unless something else was asked or done meanwhile. */
  async offer(finding) {
    const mine = ++this.asked;
    // Without an offer it can still be written by hand.
    const found = await Promise.resolve(finding).catch(() => []);
    if (mine !== this.asked) return;
    this.list.replaceChildren(...found);
    this.show(found.length > 0);
  }

  /** The same, when the typing rests. */
  soon(find) {
    clearTimeout(this.timer);
    this.asked += 1;
    this.timer = setTimeout(() => this.offer(find()), WAIT);
  }

  close() {
    clearTimeout(this.timer);
    this.asked += 1;
    this.show(false);
  }

  show(isOpen) {
    this.list.hidden = !isOpen;
    if (this.field.getAttribute("role") === "combobox") this.field.setAttribute("aria-expanded", String(isOpen));
    this.mark(isOpen ? 0 : -1);
  }

  mark(number) {
    this.marked = number;
    [...this.list.children].forEach((one, index) => one.setAttribute("aria-selected", String(index === number)));
    const one = this.list.children[number];
    if (one) { this.field.setAttribute("aria-activedescendant", one.id); one.scrollIntoView({ block: "nearest" }); }
    else this.field.removeAttribute("aria-activedescendant");
  }

  /** Keys that are meant for the list reach nobody else. */
  key(event) {
    const isOther = event.isComposing || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey;
    if (!this.isOpen || isOther || !KEYS.includes(event.key)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const all = [...this.list.children];
    if (event.key === "Escape") this.close();
    else if (event.key === "ArrowDown") this.mark((this.marked + 1) % all.length);
    else if (event.key === "ArrowUp") this.mark((this.marked - 1 + all.length) % all.length);
    else this.choose(all[this.marked], event.key);
  }

  choose(one, key) {
    this.close();
    this.take(one, key);
  }
}
