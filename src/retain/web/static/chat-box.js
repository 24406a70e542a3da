// Where the person writes: it grows, completes commands, and keeps what was not sent.

import { make } from "./dom.js";
import { Offers, option } from "./offering.js";

const field = document.getElementById("say");
const list = document.getElementById("offers");
const queue = document.getElementById("queued");
const grows = CSS.supports("field-sizing", "content");
const hasKeyboard = !matchMedia("(pointer: coarse)").matches;

const draftOf = (address) => `retain-draft:${document.documentElement.dataset.bank}:${address}`;

export class Box {
  constructor(doing) {
    this.doing = doing;
    this.sent = []; // what was sent from here, for the arrow keys
    this.place = -1;
    this.commands = [...list.children];
    this.offers = new Offers(field, list, (one, key) => this.choose(one, key !== "Tab"));
    this.address = location.pathname + location.search;
    const draft = localStorage.getItem(draftOf(this.address)) ?? "";
    // Who typed before this script had come goes on with that; in an empty box, the arrow keys bring the other back.
    if (draft && field.value && draft !== field.value) this.sent.push(draft);
    field.value ||= draft;
    field.addEventListener("input", () => { this.changed(); this.offer(); });
    field.addEventListener("keydown", (event) => this.key(event));
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
    this.offers.close();
    this.fill("");
    this.sent.push(text);
    this.place = -1;
    if (!(await this.doing.send(text)) && !field.value) this.fill(text);
  }

  key(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") { if (this.doing.stop()) event.stopPropagation(); }
    else if (event.key === "Enter" && !event.shiftKey && (hasKeyboard || event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.stopPropagation();
      this.submit();
    } else if (event.key === "ArrowUp" || event.key === "ArrowDown") this.recall(event);
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

  offer() {
    const [word, rest] = split(field.value);
    if (!word.startsWith("/") || field.value.includes("\n")) this.offers.close();
    else if (rest === null) this.offers.offer(this.commands.filter((one) => `/${one.dataset.name}`.startsWith(word)));
    else this.offers.offer(this.values(word, rest));
  }

  async values(word, rest) {
    if (word === "/model") {
      this.models ??= (await this.doing.models()).models;
      return this.models.filter((name) => name.startsWith(rest) && name !== rest).map((name) => value(`/model ${name}`, name, ""));
    }
    if (word !== "/resume") return [];
    this.sessions ??= (await this.doing.sessions()).sessions;
    const wanted = rest.toLowerCase();
    return this.sessions
      .filter((one) => one.id !== rest && (one.id.startsWith(rest) || one.title.toLowerCase().includes(wanted)))
      .slice(0, 8)
      .map((one) => value(`/resume ${one.id}`, one.id, one.title));
  }

  choose(one, isAtOnce) {
    const { line, name, takes } = one.dataset;
    const isWhole = Boolean(line) || !takes || takes.startsWith("[");
    this.fill(line ?? `/${name}${isWhole ? "" : " "}`);
    if (isWhole && isAtOnce) this.submit();
    else field.focus();
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
  return option(`offer-${line.replaceAll(/[^\w-]/g, "_")}`, shown, about, { "data-line": line });
}
