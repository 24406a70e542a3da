// Making one element like another. What is alike stays the very element that it is, with its focus,
// the words that are selected in it, what was typed and what is unfolded.

/** What tells an element from others of its kind by itself, the surest first: where a link leads
 *  changes with what is chosen. */
const own = (one) => one.id || one.dataset.page || one.dataset.id || Object.values(one.dataset).join(" ").trim()
  || one.getAttribute("name") || one.getAttribute("href") || "";

/** The name of an element, its own or that of the first thing in it; empty where there is none. */
export function named(one) {
  const name = one.dataset && (own(one) || own(one.querySelector("[id], [name], [data-id], [data-page], a[href], button") ?? one));
  return name ? `${one.nodeName} ${name}` : "";
}
const worded = (one) => (one.dataset && own(one) ? "" : `${one.nodeName} ${one.textContent}`);
const kind = (one) => (one.dataset && own(one) ? "" : one.nodeName);

/** Which of the children there are is which of those that are wanted: by name, by what they say, or
 *  merely the next one of its kind. What has a name of its own is never taken for another. */
function pairs(old, fresh) {
  const found = new Map();
  const taken = new Set();
  for (const call of [named, worded, kind]) {
    const there = new Map();
    for (const one of [...old.childNodes].reverse()) {
      const name = taken.has(one) ? "" : call(one);
      if (there.has(name)) there.get(name).push(one);
      else there.set(name, [one]);
    }
    for (const one of fresh.childNodes) {
      const name = found.has(one) ? "" : call(one);
      const same = name && there.get(name)?.pop();
      if (same) { found.set(one, same); taken.add(same); }
    }
  }
  return { found, taken };
}

function likenChildren(old, fresh, keeps) {
  const { found, taken } = pairs(old, fresh);
  for (const one of [...old.childNodes]) if (!taken.has(one) && !keeps(one)) one.remove();
  let at = old.firstChild;
  for (const one of [...fresh.childNodes]) {
    while (at && !taken.has(at)) at = at.nextSibling; // kept, though it is not wanted any more
    const same = found.get(one);
    if (same) liken(same, one, keeps);
    if (same && same === at) at = at.nextSibling;
    else old.insertBefore(same ?? one, at);
  }
}

/** Give an element the attributes of another. What is unfolded belongs to the person; what a field
 *  says does so until the server says something new. */
function dress(old, fresh) {
  const isNew = (name) => old.getAttribute(name) !== fresh.getAttribute(name);
  const news = old.matches("input, option") ? ["value", "checked", "selected"].filter(isNew) : [];
  for (const name of old.getAttributeNames()) {
    if (!fresh.hasAttribute(name) && !(name === "open" && old.matches("details"))) old.removeAttribute(name);
  }
  for (const name of fresh.getAttributeNames()) if (isNew(name)) old.setAttribute(name, fresh.getAttribute(name));
  for (const name of news) if (name in old) old[name] = fresh[name];
}

/** Make one like the other; what `keeps` says of an element leaves it alone, with all that is in it. */
export function liken(old, fresh, keeps = () => false) {
  if (keeps(old) || old.isEqualNode(fresh)) return;
  if (!old.getAttributeNames) {
    old.data = fresh.data;
    return;
  }
  dress(old, fresh);
  const isSaid = old.matches("textarea") && old.defaultValue !== fresh.defaultValue;
  likenChildren(old, fresh, keeps);
  if (isSaid) old.value = fresh.value;
}
