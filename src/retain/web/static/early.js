// What is done to a page before its scripts have come is done once they are there: through a slow
// tunnel that takes a moment. It is held back until then, so that nobody hears of it twice.

{
  const held = [];
  const PRESSED = "button, input[type=checkbox], input[type=radio]";
  const fired = ({ type, target }) => target.dispatchEvent(new Event(type, { bubbles: true }));
  const AGAIN = {
    click: ({ target }) => target.closest(PRESSED).click(),
    submit: ({ target, submitter }) => target.requestSubmit(submitter),
    keydown: (event) => event.target.dispatchEvent(new KeyboardEvent("keydown", event)),
    input: fired,
    change: fired,
  };

  function hold(event) {
    const isPress = event.type === "click";
    if (isPress && !event.target.closest(PRESSED)) return;
    // Where a link leads and what a key types is the browser's own affair, and goes on.
    if (isPress || event.type === "submit") event.preventDefault();
    event.stopImmediatePropagation();
    held.push(event);
  }

  function release() {
    for (const type of Object.keys(AGAIN)) removeEventListener(type, hold, true);
    let isTaken = false; // an Enter that a script takes for itself presses no button besides
    for (const event of held.filter(({ target }) => target.isConnected)) {
      if (event.type === "keydown") isTaken = !AGAIN.keydown(event) && event.key === "Enter";
      else if (!isTaken || event.detail) AGAIN[event.type](event);
    }
  }

  for (const type of Object.keys(AGAIN)) addEventListener(type, hold, true);
  document.addEventListener("DOMContentLoaded", release);
}
