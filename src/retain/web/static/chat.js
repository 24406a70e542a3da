// The chat page: one conversation, which goes on in the server whether this page looks or not.

import { get, post } from "./api.js";
import { attempt, say } from "./dom.js";
import { Box } from "./chat-box.js";
import { chooseModel, showContext } from "./chat-looking.js";
import { Pieces } from "./chat-pieces.js";

const page = document.getElementById("talk");
const script = document.getElementById("script");
const at = (id) => document.getElementById(id);

let chat = ""; // the conversation's name in the server
let last = 0; // the number of the last word that is on the page
let stream = null;
let state = { doing: "", queued: [], session: page.dataset.session, scope: page.dataset.scope };
let isFollowing = true; // the end of the conversation stays in sight
let isAsked = false; // a question waits for its answer, and keeps its place
let since = 0;

let isOpen = () => {};
const opened = new Promise((resolve) => { isOpen = resolve; }); // what is sent before waits for it
const path = (rest) => `/chats/${chat}${rest}`;

// Following the end, unless the person has scrolled up to read: a step up on a page that is as long
// as before. One that has become shorter moves by itself.
let seen = { top: scrollY, length: 0 };
addEventListener("scroll", () => {
  const length = document.documentElement.scrollHeight;
  if (scrollY < seen.top - 4 && length === seen.length) isFollowing = false;
  if (innerHeight + scrollY >= length - 40) isFollowing = true;
  seen = { top: scrollY, length };
}, { passive: true });

function follow() {
  requestAnimationFrame(() => {
    if (isFollowing && !isAsked) scrollTo(0, document.documentElement.scrollHeight);
  });
}

const pieces = new Pieces(script, {
  retry: (text) => send(text),
  undo: (ref) => attempt(async () => {
    const done = await post(path("/undo"), { ref });
    say(done.back.length ? "Taken back; what it replaced is in force again." : "Taken back: it is in the trash.");
  }),
  decide: (given) => attempt(() => post(path("/answers"), given)),
  look: () => showContext(() => get(path("/context"))),
  earlier: () => `/sessions/${state.scope}/${encodeURIComponent(state.session)}`,
});

const box = new Box({
  send: (text) => send(text),
  stop: () => (state.doing ? stop() : false),
  models: () => opened.then(() => get(path("/models"))),
  sessions: () => get("/sessions?limit=20"),
});

async function send(text) {
  isFollowing = true;
  await opened;
  const done = await attempt(() => post(path("/messages"), { text }));
  if (!done) return false;
  if (done.page) location.href = done.page;
  return true;
}

function stop() {
  attempt(async () => {
    const { queued } = await post(path("/stop"));
    box.giveBack(queued);
  });
  return true;
}

// What the server tells

function take(event) {
  const word = JSON.parse(event.data);
  if (word.number <= last) return;
  last = word.number;
  if (word.kind === "state") show(word);
  else {
    at("welcome")?.remove();
    pieces.take(word);
  }
  if (word.kind === "answered") {
    isAsked = false;
    if (document.activeElement === document.body) box.focus(); // the buttons are gone
  }
  if (word.kind === "question") {
    // It is read from its beginning, however long it is.
    isAsked = true;
    pieces.known.get(word.piece).scrollIntoView({ block: "start" });
  }
  follow();
}

function show(given) {
  if (given.doing && !state.doing) since = Date.now();
  state = given;
  at("talk-title").textContent = given.title || (given.session ? "Chat" : "New chat");
  document.title = `${given.doing ? "… " : ""}${given.title || "Chat"} · Retain`;
  at("model-name").textContent = given.model;
  at("used").textContent = given.budget ? ` ${amount(given.tokens)} of ${amount(given.budget)}` : "";
  at("stop").hidden = !given.doing;
  script.setAttribute("aria-busy", String(Boolean(given.doing)));
  pieces.rest(!given.doing);
  box.showQueued(given.queued, () => stop());
  tick();
  keepAddress(given);
}

function amount(count) {
  if (count < 1000) return String(count);
  return count < 1e6 ? `${(count / 1000).toFixed(count < 1e4 ? 1 : 0)}k` : `${(count / 1e6).toFixed(1).replace(".0", "")}M`;
}

function tick() {
  const seconds = Math.floor((Date.now() - since) / 1000);
  at("doing").textContent = state.doing ? `${state.doing}…${seconds > 1 ? ` ${seconds} s` : ""}` : "";
  page.classList.toggle("busy", Boolean(state.doing));
}
setInterval(() => { if (state.doing) tick(); }, 1000);

/** Once something was said the page has an address of its own, to which a reload comes back. */
function keepAddress({ session, scope }) {
  if (!session) return;
  const bank = scope === "here" ? "" : `?bank=${scope}`;
  const wanted = `/chat/${encodeURIComponent(session)}${bank}`;
  if (location.pathname + location.search !== wanted) {
    history.replaceState(null, "", wanted);
    box.moveDraft(wanted);
  }
}

// Being told

async function open() {
  const { session, scope } = state;
  const found = await attempt(() => post("/chats", { session, scope }));
  if (!found) return setTimeout(open, 3000);
  if (found.id !== chat) {
    pieces.clear();
    isAsked = false;
    last = 0;
  }
  chat = found.id;
  isOpen();
  listen();
}

function listen() {
  stream?.close();
  stream = new EventSource(`/api/v1${path(`/stream?after=${last}`)}`);
  stream.addEventListener("message", take);
  stream.addEventListener("error", () => {
    // Closed for good: the server began anew, or has left a conversation that nobody looked at.
    if (stream?.readyState === EventSource.CLOSED) { stream = null; setTimeout(open, 500); }
  });
}

// A browser has few connections for one server: a page that is not seen, and waits for nothing,
// leaves its own to others. Nothing is missed, because words have numbers.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !stream && chat) listen();
  else if (document.hidden && !state.doing) { stream?.close(); stream = null; }
});

at("stop").addEventListener("click", stop);
at("context").addEventListener("click", () => showContext(() => opened.then(() => get(path("/context")))));
at("model").addEventListener("click", () => opened.then(() => chooseModel(path)));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.doing && !document.querySelector("dialog[open]")) stop();
});

box.focus();
open();
