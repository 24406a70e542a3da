// The JSON interface, as every page calls it.

const RELOADED = "retain-locked-out";

export class Refused extends Error {
  constructor(status, error) {
    super(error?.message ?? "That did not work.");
    this.status = status;
    this.error = error ?? {};
  }
}

/** The cookie is no longer good: the page that says so takes this one's place, unless something was
 *  typed here that would go with it. */
export function lockedOut() {
  if (!document.dispatchEvent(new CustomEvent("retain:locked-out", { cancelable: true }))) return;
  // A page that is let in again and refused again would reload for ever.
  const last = Number(sessionStorage.getItem(RELOADED));
  if (Date.now() - last < 30_000) return;
  sessionStorage.setItem(RELOADED, Date.now());
  location.reload();
}

/** Call the interface; what it refuses is thrown, with the reason. */
export async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, { message: "Retain does not answer. Is `retain web` still running?" });
  }
  if (answer.status === 401) lockedOut();
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, found.error);
  return found;
}

/** The path of a memory. */
export function at({ scope, collection, id }) {
  return `/memories/${[scope, collection || ":root", id].map(encodeURIComponent).join("/")}`;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);
