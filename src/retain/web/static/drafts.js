// Drafts: what was typed outlives a reload, a closed tab, a refused save, and a server that ended.
// A tab holds a lock on its draft for as long as it is open; a draft that nobody holds was left.

const LONGEST = 30 * 24 * 3600 * 1000; // milliseconds after which nobody comes back to it
const RELOAD = 2000; // milliseconds that a page may take to come again and hold its draft
const TAB = "retain-tab";

/** The names of all that tabs hold. */
const held = async () => (await navigator.locks.query()).held.map((one) => one.name);

/** Hold a draft; false if another tab does. A reload may have to wait for the page before it, and a
 *  browser that is busy is no other tab. */
function hold(key) {
  return new Promise((resolve) => {
    navigator.locks.request(key, { signal: AbortSignal.timeout(1000) }, () => {
      resolve(true);
      return new Promise(() => {});
    }).catch(async () => resolve((await held()).includes(key) ? false : hold(key)));
  });
}

export class Drafts {
  /** `place` is how the drafts begin that may be meant here; `more` tells apart those of this one. */
  constructor(place, more) {
    Object.assign(this, { place, more, key: undefined });
  }

  /** The draft of this tab; a tab that was duplicated has the other's name, and gets a new one. */
  async settle() {
    const named = (tab) => `${this.place}${this.more}${tab}`;
    const another = () => Math.random().toString(36).slice(2);
    let tab = sessionStorage.getItem(TAB) ?? another();
    let key = named(tab);
    if (!(await hold(key))) {
      tab = another();
      key = named(tab);
      await hold(key);
    }
    sessionStorage.setItem(TAB, tab);
    this.key = key;
  }

  keep(draft) { localStorage.setItem(this.key, JSON.stringify({ ...draft, at: Date.now() })); }

  forget(key = this.key) { localStorage.removeItem(key); }

  /** Take what is kept under one name to another. */
  move(from, to) {
    localStorage.setItem(to, localStorage.getItem(from));
    localStorage.removeItem(from);
  }

  /** What an earlier page left, unless it is too old to be of use. */
  read(key = this.key) {
    const found = JSON.parse(localStorage.getItem(key) ?? "null");
    return found && Date.now() - found.at < LONGEST ? found : null;
  }

  /** The drafts of this place whose tabs are gone, the latest first. `tell` hears of each whose tab is
   *  there still and goes later: one that was just closed may take a while to. */
  async left(tell) {
    const open = await held();
    for (const key of open) {
      if (key.startsWith(this.place) && key !== this.key) this.#abandoned(key).then((one) => { if (one) tell([key, one]); });
    }
    const found = [];
    for (const key of Object.keys(localStorage)) {
      if (!key.startsWith(this.place) || open.includes(key)) continue;
      const one = this.read(key);
      if (one) found.push([key, one]);
      else localStorage.removeItem(key);
    }
    return found.sort(([, one], [, other]) => other.at - one.at);
  }

  async #abandoned(key) {
    do {
      // Shared: who waits here keeps nobody from holding it again.
      await navigator.locks.request(key, { mode: "shared" }, () => {});
      await new Promise((resolve) => { setTimeout(resolve, RELOAD); });
    } while ((await held()).includes(key));
    return this.read(key);
  }
}
