// What is typed and not saved anywhere holds its page.

/** Whoever would leave with it is asked first, and a cookie that is no longer good reloads nothing;
 *  gives what ends this. */
export function guard(isUnsaved) {
  const stay = (event) => { if (isUnsaved()) event.preventDefault(); };
  addEventListener("beforeunload", stay);
  document.addEventListener("retain:locked-out", stay);
  return () => {
    removeEventListener("beforeunload", stay);
    document.removeEventListener("retain:locked-out", stay);
  };
}
