// Past chats: found as one types, followed where they go on, named, tagged, deleted and brought back.

import { call, post, put } from "./api.js";
import { attempt, make, refresh, say } from "./dom.js";
import { followed } from "./following.js";
import { whenever } from "./live.js";

const at = (id) => document.getElementById(id);

function listPage(field) {
  let waiting = 0;
  let asking = new AbortController();
  const shown = async () => {
    asking.abort();
    asking = new AbortController();
    const url = new URL(location.href);
    if (field.value.trim()) url.searchParams.set("q", field.value.trim());
    else url.searchParams.delete("q");
    history.replaceState(null, "", url);
    return refresh(url.pathname + url.search, ["found"], { signal: asking.signal });
  };
  const look = async () => {
    try {
      const answer = await shown();
      if (!answer.ok) say("That could not be shown.", { bad: true });
    } catch (error) {
      if (error.name !== "AbortError") say("Retain does not answer.", { bad: true });
    }
  };
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(look, 120); });
  at("find").addEventListener("submit", (event) => { event.preventDefault(); look(); });
  whenever(["sessions"], shown);
  offerUndo();
}

/** What was deleted on its own page is told on this one, where it can be brought back. */
function offerUndo() {
  const kept = sessionStorage.getItem("retain-deleted-session");
  sessionStorage.removeItem("retain-deleted-session");
  if (!kept) return;
  const { scope, name } = JSON.parse(kept);
  const undo = () => attempt(async () => {
    const done = await post(`/deleted-sessions/${scope}`, { name });
    location.href = `/sessions/${scope}/${encodeURIComponent(done.id)}`;
  });
  say("The chat is in the trash.", { undo });
}

function sessionPage({ scope, id }) {
  const path = `/sessions/${scope}/${encodeURIComponent(id)}`;
  let [isWriting, isLeaving] = [false, false];
  const takenBack = new Set(); // facts, from the moment that somebody asks for it
  // What is being written stays; and what was taken back here, so that nothing moves below the hand.
  const isKept = (one) => (isWriting && ["about-form", "about-shown"].includes(one.id)) || takenBack.has(one.dataset?.id);
  // What a page began with stays its beginning: a chat that goes on takes nothing off it.
  const renew = () => {
    const url = new URL(location.href);
    url.searchParams.set("hidden", at("conversation").dataset.hidden);
    return refresh(url.href, ["session"], { keeps: isKept });
  };
  const gone = () => "This chat is gone: it was deleted. What is shown here is what it was.";
  // Facts that a chat saved are memories.
  const lookSoon = followed(["sessions", "memories"], renew, gone, { isExpected: () => isLeaving });
  const takeBack = async (button) => {
    const ref = button.dataset.undoFact;
    takenBack.add(ref);
    const done = await post(`${path}/undo`, { ref }).catch((error) => { takenBack.delete(ref); throw error; });
    const line = button.closest("p");
    button.remove();
    line.classList.add("undone");
    line.append(make("span", { class: "soft" }, " · taken back"));
    say(done.back.length ? "Taken back; what it replaced is in force again." : "Taken back: it is in the trash.");
  };
  const edit = (isOpen) => {
    isWriting = isOpen;
    at("about-form").hidden = !isOpen;
    at("about-shown").hidden = isOpen;
    if (isOpen) at("title").focus();
    else { at("about-edit").focus(); lookSoon(0); } // what came meanwhile was not shown here
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest("#about-edit")) edit(true);
    if (event.target.closest("#about-cancel")) edit(false);
    const fact = event.target.closest("[data-undo-fact]");
    if (fact) attempt(() => takeBack(fact));
    if (event.target.closest("#delete")) {
      attempt(async () => {
        const done = await call("DELETE", path);
        isLeaving = true;
        sessionStorage.setItem("retain-deleted-session", JSON.stringify({ scope, name: done.name }));
        location.href = "/sessions";
      });
    }
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "about-form") return;
    event.preventDefault();
    const tags = at("tags").value.split(",").map((tag) => tag.trim()).filter(Boolean);
    attempt(async () => {
      await put(path, { title: at("title").value, tags });
      isWriting = false;
      await renew();
      at("about-edit").focus();
      say("Saved.");
    });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.closest?.("#about-form")) edit(false);
  });
}

if (at("q")) listPage(at("q"));
if (at("session")) sessionPage(at("session").dataset);
