// Links are completed as they are typed: `[[`, then words of the memory that is meant.

import { memories, Offers, option } from "./offering.js";

const BEGUN = /\[\[([^[\]|#\n]{1,100})$/; // a link that is not closed yet, up to the caret

/** Offer memories to link to in a text; `scope` tells the bank that they have to be in. */
export function completeLinks(text, list, scope) {
  const words = () => BEGUN.exec(text.value.slice(0, text.selectionStart))?.[1];
  const find = async () => {
    const found = await memories(scope(), words() ?? "");
    return found.map(({ ref, title }, number) => option(`${list.id}-${number}`, title, ref, { "data-ref": ref }));
  };
  const put = (one) => {
    const end = text.selectionStart;
    const isClosed = text.value.startsWith("]]", end);
    text.setSelectionRange(end - (words()?.length ?? 0), end + (isClosed ? 2 : 0));
    // Deprecated, and the only way that leaves the browser's own undo as it is.
    document.execCommand("insertText", false, `${one.dataset.ref}]]`);
  };
  const offers = new Offers(text, list, put);
  text.addEventListener("input", () => {
    if (words() && !text.readOnly) offers.soon(find);
    else offers.close();
  });
}
