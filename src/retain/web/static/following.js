// A page about one thing that may go: it follows it for as long as it is there, and then says so.

import { say } from "./dom.js";
import { whenever } from "./live.js";

/** Show it anew when word of changes comes. That it is gone is said once, in words that `gone` gives,
 *  and what is shown stays; unless it is expected to go. Gives what `whenever` gives. */
export function followed(news, renew, gone, { isExpected = () => false, ...options } = {}) {
  let isGone = false;
  async function look() {
    if (isExpected()) return undefined;
    const answer = await renew();
    const isNews = answer.status === 404 && !isGone && !isExpected();
    isGone = answer.status === 404;
    if (isNews) say(await gone(), { bad: true });
    return answer;
  }
  return whenever(news, look, options);
}

/** What is said of a memory that has no page any more. */
export const GONE = "This memory is gone: moved, or deleted. What is shown here is what it was.";
