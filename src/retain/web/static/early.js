// What is done to a page before its scripts have come is done once they are there: through a slow
// tunnel that takes a moment. It is held back until then, so that nobody hears of it twice. Keys
// without Ctrl are not: where "/" did not lead to the search, what was typed into it would be commands.

{
  const held = [];
  const PRESSED = "button, input[type=checkbox]";
  const isBox = (target) => target.type === "checkbox";
  const isSending = ({ key, target }) => key === "Enter" && target.form;
  const fired = ({ type, target }) => target.dispatchEvent(new Event(type, { bubbles: true }));

  const AGAIN = {
    click: ({ target }) => {
      const pressed = target.closest(PRESSED);
      if (!pressed) return; // its icon was taken out meanwhile
      if (isBox(pressed)) pressed.checked = !pressed.checked; // it shows already what a press makes of it
      pressed.click();
    },
    submit: ({ target }) => target.requestSubmit(),
    keydown: (event) => event.target.dispatchEvent(new KeyboardEvent("keydown", event)),
    input: fired,
    change: fired,
  };

  /** What is meant, and of what: who presses twice for want of an answer means it once. */
  function meant(event) {
    const { type, target, key = "" } = event;
    const pressed = type === "click" ? target.closest(PRESSED) : target;
    if (type === "submit" || (type === "keydown" && isSending(event))) return ["send", target.form ?? target];
    return type === "click" && pressed.type === "submit" && pressed.form ? ["send", pressed.form] : [type + key, pressed];
  }

  function hold(event) {
    const { type, target } = event;
    if (type === "click" && !target.closest?.(PRESSED)) return;
    if (type === "keydown" && !(event.ctrlKey || event.metaKey)) return;
    // Where a link leads, what is typed and what a box shows is the browser's own affair, and goes on.
    if (type === "submit" || (type === "click" && !isBox(target))) event.preventDefault();
    event.stopImmediatePropagation();
    if (isBox(target) && type !== "click") return; // comes with the press
    const [what, whom] = meant(event);
    if (!held.some((one) => one.what === what && one.whom === whom)) held.push({ event, what, whom });
  }

  function release() {
    for (const type of Object.keys(AGAIN)) removeEventListener(type, hold, true);
    for (const { event, whom } of held) {
      // Whatever came after what opened a dialog was meant for the page behind it.
      if (document.querySelector("dialog[open]")) return;
      if (whom.isConnected && event.target.isConnected) AGAIN[event.type](event);
    }
  }

  for (const type of Object.keys(AGAIN)) addEventListener(type, hold, true);
  document.addEventListener("DOMContentLoaded", release);
}
