// Where the person writes: it grows, completes commands, and keeps what was not sent.

import { make } from "./dom.js";

const field = document.getElementById("say");
const offers = document.getElementById("offers");
const queue = document.getElementById("queued");
const grows = CSS.supports("field-sizing", "content");
const hasKeyboard = !matchMedia("(pointer: coarse)").matches;

const draftOf = (address) => `retain-draft:${document.documentElement.dataset.bank}:${address}`;

export class Box {
  constructor(doing) {
    this.doing = doing;
    this.marked = -1;
    this.sent = []; // what was sent from here, for the arrow keys
    this.place = -1;
    this.commands = [...offers.children];
    this.address = location.pathname + location.search;
    field.value = localStorage.getItem(draftOf(this.address)) ?? "";
    field.addEventListener("input", () => { this.changed(); this.offer(); });
    field.addEventListener("keydown", (event) => this.key(event));
    field.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    offers.addEventListener("mousedown", (event) => {
      const chosen = event.target.closest("li");
      if (chosen) { event.preventDefault(); this.choose(chosen, true); }
    });
    document.getElementById("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.changed();
  }

  focus() { if (hasKeyboard) field.focus({ preventScroll: true }); }

  /** Show all of it, and keep it, should the page close. */
  changed() {
    if (!grows) {
      field.style.height = "auto";
      field.style.height = `${field.scrollHeight + 2}px`;
    }
    if (field.value) localStorage.setItem(draftOf(this.address), field.value);
    else localStorage.removeItem(draftOf(this.address));
  }

  moveDraft(address) {
    localStorage.removeItem(draftOf(this.address));
    this.address = address;
    this.changed();
  }

  fill(text) {
    field.value = text;
    field.setSelectionRange(text.length, text.length);
    this.changed();
  }

  async submit() {
    const text = field.value.trim();
    if (!text) return;
    this.close();
    this.fill("");
    this.sent.push(text);
    this.place = -1;
    if (!(await this.doing.send(text)) && !field.value) this.fill(text);
  }

  key(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") this.escape(event);
    else if (!offers.hidden && ["ArrowUp", "ArrowDown", "Tab", "Enter"].includes(event.key) && !event.shiftKey) this.pick(event);
    else if (event.key === "Enter" && !event.shiftKey && (hasKeyboard || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.stopPropagation();
      this.submit();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") this.recall(event);
  }

  escape(event) {
    if (!offers.hidden) { event.stopPropagation(); this.close(); }
    else if (this.doing.stop()) event.stopPropagation();
  }

  /** What was sent before, from a box in which nothing of one's own would be lost. */
  recall(event) {
    const isOwn = field.value && field.value !== this.sent[this.place];
    if (isOwn || !this.sent.length) return;
    const from = this.place < 0 ? this.sent.length : this.place;
    const next = from + (event.key === "ArrowUp" ? -1 : 1);
    if (next < 0 || (this.place < 0 && next > from)) return;
    event.preventDefault();
    this.place = next < this.sent.length ? next : -1;
    this.fill(this.sent[next] ?? "");
  }

  // Commands

  async offer() {
    const text = field.value;
    const [word, rest] = split(text);
    let found = [];
    if (text.startsWith("/") && !text.includes("\n")) {
      found = rest === null
        ? this.commands.filter((one) => `/${one.dataset.name}`.startsWith(word))
        : await this.values(word, rest);
    }
    if (field.value !== text) return; // it went on while the values were fetched
    offers.replaceChildren(...found);
    offers.hidden = !found.length;
    this.mark(found.length ? 0 : -1);
  }

  async values(word, rest) {
    try {
      if (word === "/model") {
        this.models ??= (await this.doing.models()).models;
        return this.models.filter((name) => name.startsWith(rest) && name !== rest).map((name) => value(`/model ${name}`, name, ""));
      }
      if (word === "/resume") {
        this.sessions ??= (await this.doing.sessions()).sessions;
        const wanted = rest.toLowerCase();
        return this.sessions
          .filter((one) => one.id !== rest && (one.id.startsWith(rest) || one.title.toLowerCase().includes(wanted)))
          .slice(0, 8)
          .map((one) => value(`/resume ${one.id}`, one.id, one.title));
      }
    } catch { /* without values it can be written by hand */ }
    return [];
  }

  pick(event) {
    event.preventDefault();
    event.stopPropagation();
    const all = [...offers.children];
    if (event.key === "ArrowDown") this.mark((this.marked + 1) % all.length);
    else if (event.key === "ArrowUp") this.mark((this.marked - 1 + all.length) % all.length);
    else this.choose(all[this.marked], event.key === "Enter");
  }

  choose(one, isAtOnce) {
    const { line, name, takes } = one.dataset;
    const isWhole = Boolean(line) || !takes || takes.startsWith("[");
    this.fill(line ?? `/${name}${isWhole ? "" : " "}`);
    this.close();
    if (isWhole && isAtOnce) this.submit();
    else field.focus();
  }

  mark(number) {
    this.marked = number;
    [...offers.children].forEach((one, index) => one.setAttribute("aria-selected", String(index === number)));
    const one = offers.children[number];
    if (one) { field.setAttribute("aria-activedescendant", one.id); one.scrollIntoView({ block: "nearest" }); }
    else field.removeAttribute("aria-activedescendant");
  }

  close() {
    offers.hidden = true;
    this.mark(-1);
  }

  // What waits

  showQueued(texts, takeBack) {
    queue.hidden = !texts.length;
    queue.replaceChildren(...texts.map((text) => make("p", { class: "small" }, `Next: ${text.slice(0, 200)}`)));
    if (texts.length) queue.append(make("button", { type: "button", class: "link", onclick: takeBack }, "Stop, and put it back into the box"));
  }

  giveBack(texts) {
    if (texts.length) this.fill([...texts, field.value].join("\n\n").trim());
    this.focus();
  }
}

function split(text) {
  const space = text.indexOf(" ");
  return space < 0 ? [text, null] : [text.slice(0, space), text.slice(space + 1)];
}

function value(line, shown, about) {
  const id = `offer-${line.replaceAll(/[^\w-]/g, "_")}`;
  return make("li", { role: "option", id, "data-line": line }, make("b", {}, shown), " ", make("span", {}, about));
}
