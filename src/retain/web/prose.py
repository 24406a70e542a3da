"""Markdown as HTML that can do nothing: no HTML of the text's own, no pictures, no odd links."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from typing import Any, Final
from urllib.parse import quote, unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from retain.text.links import find_links
from retain.web.colours import LANGUAGES, pieces

_WEB: Final = ("http://", "https://")
_LINKS: Final = ("http", "https", "mailto")
_WIKI: Final = re.compile(r"\[\[([^\[\]\n]{1,300})\]\]")
_UNSEEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\ufeff]+")
_PART: Final = re.compile(r"[/?#]")
_MOST: Final = 200_000  # characters that are laid out; what follows is shown as it is written
_STEPS: Final = 120_000  # of the parser for one page; some are made to take for ever
_SECONDS: Final = 2.0  # of a processor for one page, where its steps are slow ones
_EVERY: Final = 64  # steps between two looks at the clock
_MOST_COLOURED: Final = 20_000  # characters of code that get colours
_MOST_MARKED: Final = 32  # words of a question that are marked

# The page of what stands in double brackets: empty if there is none, None if nobody looked.
Resolve = Callable[[str], str | None]


def linked(text: str) -> Iterator[str]:
    """What stands in double brackets in the part of a text that is laid out, brackets and all."""
    return (found[0] for found in _WIKI.finditer(text, 0, _MOST))


def rendered(
    text: str, resolve: Resolve = lambda _target: None, budget: Budget | None = None
) -> Markup:
    """A text as HTML; `resolve` gives the page of what stands in double brackets.

    Texts that are shown together share a budget, else many of them would take for ever after all.
    """
    if budget and budget.is_spent():
        return Markup(_as_written(text))  # noqa: S704 - all that is given is escaped
    cut = len(text) if len(text) <= _MOST else text.rfind("\n", 0, _MOST) + 1 or _MOST
    budget = budget or Budget()
    try:
        made: str = _parser().render(text[:cut], {"resolve": resolve, "budget": budget})
    except (_TooLong, RecursionError):
        made, cut = "", 0
    return Markup(made + _as_written(text[cut:]))  # noqa: S704 - all that is given is escaped


def _as_written(text: str) -> str:
    return f'<pre class="as-written">{escape(text)}</pre>\n' if text.strip() else ""


class _TooLong(Exception):
    """A text takes longer to lay out than anyone waits."""


class Budget:
    """So many steps, and so much of a processor's time; what others use of that does not count.

    It is for the thread that made it, whose clock it looks at.
    """

    def __init__(self) -> None:
        self._end = time.thread_time() + _SECONDS
        self._steps = 0

    def is_spent(self) -> bool:
        return self._steps > _STEPS or time.thread_time() > self._end

    def step(self) -> None:
        self._steps += 1
        if self._steps % _EVERY == 0 and self.is_spent():
            raise _TooLong


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_harmless  # type: ignore[method-assign]
    parser.inline.ruler.before("link", "wiki", _wiki)
    # First among the rules, and never one that fits: it is only asked whether to go on.
    parser.inline.ruler.before("text", "budget", _spend)
    parser.block.ruler.before("table", "budget", _spend)
    parser.add_render_rule("wiki", _shown_wiki)
    parser.add_render_rule("image", _shown_picture)
    parser.add_render_rule("link_open", _shown_link)
    parser.add_render_rule("fence", _shown_code)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _shown_cell)
    return parser


def _spend(state: Any, *_: Any) -> bool:
    state.env["budget"].step()
    return False


def _is_harmless(url: str) -> bool:
    """Whether a link leads to the web or into a page, and not into a script."""
    # As the most generous reader would take it: escapes undone, spaces and controls left out, a
    # backslash read as a slash, as browsers do.
    plain = _UNSEEN.sub("", unquote(url)).replace("\\", "/")
    start = _PART.split(plain, maxsplit=1)[0]
    scheme, colon, _ = start.partition(":")
    return scheme.lower() in _LINKS if colon else not plain.startswith("//")


def _wiki(state: Any, silent: bool) -> bool:
    found = _WIKI.match(state.src, state.pos)
    if not found:
        return False
    if not silent:
        token = state.push("wiki", "", 0)
        token.content = found[1]
    state.pos = found.end()
    return True


def _shown_wiki(_self: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:
    target, _, label = tokens[index].content.partition("|")
    shown = escape(label.strip() or target.strip())
    page = env["resolve"](target.strip())
    if not page and _is_file(target):
        return f'<code class="file">{shown}</code>'
    if page is None:
        return escape(f"[[{tokens[index].content}]]")
    if not page:
        name = quote(target.strip(), safe="", errors="replace")
        said = "There is no such memory: write it"
        return f'<a class="ghost" href="/new?id={name}" title="{said}">{shown}</a>'
    return f'<a class="wiki" href="{escape(page)}">{shown}</a>'


def _is_file(target: str) -> bool:
    """Whether double brackets name a file of the project, which has no page here."""
    return any(link.kind == "ghost" for link in find_links(f"[[{target}]]"))


def _shown_picture(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A picture is named and linked: loading it would tell its server who reads what."""
    token = tokens[index]
    shown = escape(self.renderInlineAsText(token.children or [], options, env) or "picture")
    source = str(token.attrs.get("src", ""))
    if not _is_harmless(source) or not source.lower().startswith(_WEB):
        return f'<span class="picture">{shown}</span>'
    return f'<a class="picture" rel="noreferrer noopener" href="{escape(source)}">{shown}</a>'


def _shown_link(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    token.attrSet("rel", "noreferrer noopener nofollow")
    return str(self.renderToken(tokens, index, options, env))


def _shown_cell(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A column's side is said with a class: pages take no style from a text."""
    env["budget"].step()  # a short text can make very many cells
    token = tokens[index]
    side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
    if side:
        token.attrSet("class", f"to-{side}")
    return str(self.renderToken(tokens, index, options, env))


def _shown_code(_self: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:
    """Code with the colours of its language, as classes; only a language that is known is named.

    Any other word could be the class of something that pages act upon.
    """
    token = tokens[index]
    language = next(iter(token.info.lower().split()), "")
    if language not in LANGUAGES:
        return f"<pre><code>{escape(token.content)}</code></pre>\n"
    made = "".join(_coloured(token.content, language, env["budget"]))
    return f'<pre><code class="language-{language}">{made}</code></pre>\n'


def _coloured(code: str, language: str, budget: Budget) -> Iterator[str]:
    if len(code) > _MOST_COLOURED or budget.is_spent():
        yield escape(code)
        return
    for kind, text in pieces(code, language):
        shown = escape(text)
        yield f'<span class="{kind}">{shown}</span>' if kind else shown


def marked(text: str, words: Sequence[str]) -> Markup:
    """A passage, plain, with the words of a question marked."""
    wanted = [re.escape(word[:100]) for word in words if len(word) > 1][:_MOST_MARKED]
    if not wanted:
        return Markup(escape(text))  # noqa: S704 - escaped just now
    parts = re.split(rf"(\b(?:{'|'.join(wanted)})\w*)", text, flags=re.IGNORECASE)
    made = (
        f"<mark>{escape(one)}</mark>" if at % 2 else escape(one) for at, one in enumerate(parts)
    )
    return Markup("".join(made))  # noqa: S704 - each part is escaped


def ago(text: object) -> str:
    """How long ago a time is, as people say it; the date where it is long ago."""
    try:
        then = datetime.fromisoformat(str(text))
    except ValueError:
        return str(text or "")
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    seconds = (datetime.now(UTC) - then).total_seconds()
    for limit, size, name in (
        (90, 1, "just now"),
        (5_400, 60, "minute"),
        (129_600, 3_600, "hour"),
        (1_209_600, 86_400, "day"),
    ):
        if -60 < seconds < limit:
            count = round(seconds / size)
            return name if size == 1 else f"{count} {name}{'' if count == 1 else 's'} ago"
    return str(text)[:10]
