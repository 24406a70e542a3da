// Earlier texts: compared as they are now, and one of them brought back, which can be undone.

import { get, post } from "./api.js";
import { attempt, refresh } from "./dom.js";
import { GONE, followed } from "./following.js";
import { carry } from "./undo.js";

const page = document.getElementById("history").dataset;
let isLeaving = false;

/** What is compared: what the address says, and without that the last change. Who is about to
 *  restore a version keeps that one: a button must not come to mean another under a hand. */
function address() {
  const url = new URL(location.href);
  const button = document.querySelector("#restore:is(:hover, :focus)");
  if (button) url.searchParams.set("older", button.dataset.version);
  return url.href;
}

/** The memory may be there all the same: of the oldest versions only so many are kept. */
const gone = () => get(page.api).then(() => "The version that is shown here is no longer kept.", () => GONE);

async function restore({ version }) {
  const done = await post(`${page.api}/versions/${encodeURIComponent(version)}/restore`, { expect: page.hash });
  isLeaving = true;
  carry(done.status === "unchanged" ? "It says that already." : `Restored ${version}.`, done.undo, done.page);
}

// The button comes with the first version, which may come later than this page.
document.addEventListener("click", (event) => {
  const button = event.target.closest("#restore");
  if (button) attempt(() => restore(button.dataset));
});

followed(["memories"], () => refresh(address(), ["history"]), gone, { isExpected: () => isLeaving });
