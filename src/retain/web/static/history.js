// Earlier texts: one of them brought back, which can be undone.

import { post } from "./api.js";
import { attempt } from "./dom.js";
import { carry } from "./undo.js";

const page = document.getElementById("history").dataset;

document.getElementById("restore")?.addEventListener("click", (event) => attempt(async () => {
  const { version } = event.currentTarget.dataset;
  const done = await post(`${page.api}/versions/${encodeURIComponent(version)}/restore`, { expect: page.hash });
  carry(done.status === "unchanged" ? "It says that already." : `Restored ${version}.`, done.undo, done.page);
}));
