// What a conversation is made of on the page: each piece has a name, and words that change it.

import { make, parts } from "./dom.js";

const SETTLE = 400; // milliseconds: a click before a question can have been read is no answer

export class Pieces {
  constructor(place, doing) {
    this.place = place;
    this.doing = doing;
    this.known = new Map();
  }

  clear() {
    for (const one of this.known.values()) one.remove();
    this.known.clear();
  }

  take(word) {
    const shows = Object.hasOwn(SHOWS, word.kind) && SHOWS[word.kind];
    if (shows) shows.call(this, word, this.known.get(word.piece));
  }

  put(word, element) {
    element.dataset.piece = word.piece;
    const old = this.known.get(word.piece);
    if (old) old.replaceWith(element);
    else this.place.append(element);
    this.known.set(word.piece, element);
    return element;
  }

  /** The piece of a reply that still grows: blocks that are whole, then loose words. */
  growing(word) {
    const found = this.known.get(word.piece);
    if (found) return found;
    const made = make("article", { class: "reply prose grows", "aria-label": "Reply" }, make("div"), make("p", { class: "loose", dir: "auto" }));
    return this.put(word, made);
  }

  /** While nothing goes on there is nothing to be retried but the last failure. */
  rest(isResting) {
    for (const button of this.place.querySelectorAll(".retry")) button.disabled = !isResting;
  }
}

const SHOWS = {
  person(word) {
    this.put(word, make("article", { class: "person", "aria-label": "You" }, make("p", { dir: "auto" }, word.text)));
  },

  delta(word) {
    this.growing(word).querySelector(".loose").append(word.text);
  },

  block(word) {
    const piece = this.growing(word);
    piece.firstElementChild.append(parts(word.html));
    piece.querySelector(".loose").textContent = word.rest;
  },

  reply(word) {
    this.put(word, make("article", { class: "reply prose", "aria-label": "Reply" }, parts(word.html)));
  },

  answer(word) {
    this.put(word, make("article", { class: "answer prose", "aria-label": "Retain" }, parts(word.html)));
  },

  setup(word) {
    this.put(word, make("article", { class: "card prose setup" }, parts(word.html)));
  },

  summary(word) {
    this.put(word, make("details", { class: "compaction" },
      make("summary", {}, "What was said so far was put into a summary"),
      make("div", { class: "prose" }, parts(word.html))));
  },

  earlier(word) {
    this.put(word, make("p", { class: "note" }, make("a", { href: this.doing.earlier() }, `${word.count} earlier messages`)));
  },

  recalled(word) {
    const button = make("button", { type: "button", class: "link", onclick: this.doing.look }, `◇ ${word.text}`);
    this.put(word, make("p", { class: "note" }, button));
  },

  note(word) {
    const note = make("p", { class: `note ${word.tone}` }, make("span", {}, word.text));
    if (word.retry) {
      const again = make("button", { type: "button", class: "retry" }, "Try again");
      again.addEventListener("click", () => { again.remove(); this.doing.retry(word.retry); });
      note.append(again);
    }
    this.put(word, note);
  },

  tool(word) {
    const given = word.input && word.input !== "{}" ? make("pre", { class: "given" }, word.input) : null;
    this.put(word, make("details", { class: "tool", "data-state": word.state },
      make("summary", {}, make("span", { class: "what" }, word.summary), make("span", { class: "took" })),
      given,
      make("pre", { class: "result" }, word.result || "")));
  },

  result(word, tool) {
    if (!tool) return;
    tool.dataset.state = word.state;
    tool.querySelector(".result").textContent = word.result;
    tool.querySelector(".took").textContent = outcome(word);
  },

  question(word) { this.put(word, question(word, this.doing.decide)); },

  answered(word) {
    this.put(word, make("p", { class: "note" }, `You were asked, and said: ${word.label}`));
  },

  memory(word) { this.put(word, memory(word, this.doing.undo)); },

  undone(word, piece) {
    if (!piece) return;
    piece.classList.add("undone");
    piece.querySelector("button")?.remove();
    piece.append(make("span", { class: "soft" }, " · taken back"));
  },
};

function outcome({ state, seconds }) {
  const took = seconds >= 0.1 ? ` ${seconds} s` : "";
  return state === "failed" ? ` failed${took}` : took;
}

function memory(word, undo) {
  const names = { known: "Known already: ", refused: "Not saved: " };
  const line = make("p", { class: "memory" }, make("span", { class: "star", "aria-hidden": "true" }, "✦ "),
    names[word.status] ?? "Memory saved: ",
    word.page ? make("a", { href: word.page }, word.fact) : word.fact);
  if (word.ref?.startsWith("global:")) line.append(make("span", { class: "soft" }, " · in your own bank"));
  if (word.replaced) line.append(make("span", { class: "soft" }, ` · replaces ${word.replaced}`));
  if (word.notes.length) line.append(make("span", { class: "soft" }, ` (${word.notes.join("; ")})`));
  if (word.can_undo) {
    line.append(make("button", { type: "button", class: "small", onclick: () => undo(word.ref) }, "Undo"));
  }
  return line;
}

function question(word, decide) {
  const id = `${word.piece}-title`;
  const note = make("input", { type: "text", placeholder: "With a no: tell the model why, if you like", "aria-label": "Why not" });
  const answer = (one) => decide({ question: word.piece, choice: one.choice, pattern: one.pattern, note: one.choice === "no" ? note.value.trim() : "" });
  const no = word.choices.at(-1);
  note.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); answer(no); }
  });
  const rows = word.choices.map((one) => make("li", {},
    make("button", { type: "button", class: one === no ? "main" : "", disabled: true, onclick: () => answer(one) }, one.label),
    one.allows ? make("span", { class: "soft small" }, `Allows ${one.allows}`) : null));
  const panel = make("section", { class: "question", role: "group", "aria-labelledby": id },
    make("h2", { id }, word.title),
    word.reason ? make("p", { class: "soft small" }, `It ${word.reason}.`) : null,
    detail(word),
    make("ul", { class: "choices" }, ...rows),
    note);
  setTimeout(() => settle(panel), SETTLE);
  return panel;
}

/** Take answers from now on; no is where the focus is, unless the person is busy elsewhere. */
function settle(panel) {
  for (const button of panel.querySelectorAll("button")) button.disabled = false;
  const [at, box] = [document.activeElement, document.getElementById("say")];
  const isFree = !at || at === document.body || (at === box && !box.value);
  if (isFree) panel.querySelector("button.main").focus({ preventScroll: true });
}

/** All that would be done; a difference as one. */
function detail(word) {
  const pre = make("pre", { tabindex: "0", "aria-label": "What would be done" });
  if (!word.is_diff) {
    pre.textContent = word.detail;
    return pre;
  }
  pre.classList.add("diff");
  for (const line of word.detail.split("\n")) {
    const kind = { "+": "added", "-": "removed", "@": "place" }[line[0]] ?? "same";
    pre.append(make("span", { class: kind }, `${line}\n`));
  }
  return pre;
}
