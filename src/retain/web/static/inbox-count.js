// How many proposals wait, beside the inbox's name on every page.

import { get } from "./api.js";

const mark = document.getElementById("inbox-count");

function show(count) {
  mark.hidden = !count;
  mark.textContent = count > 99 ? "99+" : String(count);
  mark.title = `${count} ${count === 1 ? "proposal waits" : "proposals wait"}`;
}

const look = () => get("/inbox/count").then(({ count }) => show(count), () => {}); // a rail without a number will do
document.addEventListener("retain:inbox", ({ detail }) => (detail.count === undefined ? look() : show(detail.count)));
look();
