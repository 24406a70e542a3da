"""Markdown as HTML that can do nothing: no HTML of the text's own, no pictures, no odd links."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from typing import Any, Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

__all__ = ["ago", "marked", "rendered"]

_LINKS: Final = ("http", "https", "mailto")
_WIKI: Final = re.compile(r"\[\[([^\[\]\n]{1,300})\]\]")
_MOST_COLOURED: Final = 50_000  # characters of code that get colours

Resolve = Callable[[str], str]


def rendered(text: str, resolve: Resolve = lambda _target: "") -> Markup:
    """A text as HTML; `resolve` gives the page of what stands in double brackets, or nothing."""
    made: str = _parser().render(text, {"resolve": resolve})
    return Markup(made)  # noqa: S704 - the renderer escapes everything it is given


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "highlight": _coloured}).enable(
        ["table", "strikethrough"]
    )
    parser.validateLink = _is_harmless  # type: ignore[method-assign]
    parser.inline.ruler.before("link", "wiki", _wiki)
    parser.add_render_rule("wiki", _shown_wiki)
    parser.add_render_rule("image", _shown_picture)
    parser.add_render_rule("link_open", _shown_link)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _shown_cell)
    return parser


def _is_harmless(url: str) -> bool:
    """Whether a link leads to the web or into a page, and not into a script."""
    try:
        scheme = urlsplit(url.strip()).scheme.lower()
    except ValueError:
        return False
    return scheme in _LINKS or (not scheme and not url.startswith(("//", "\\")))


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
    if not page:
        return f'<span class="ghost" title="There is no such memory">{shown}</span>'
    return f'<a class="wiki" href="{escape(page)}">{shown}</a>'


def _shown_picture(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A picture is named and linked: loading it would tell its server who reads what."""
    token = tokens[index]
    shown = escape(self.renderInlineAsText(token.children or [], options, env) or "picture")
    source = str(token.attrs.get("src", ""))
    if not _is_harmless(source) or not urlsplit(source).scheme:
        return f'<span class="picture">{shown}</span>'
    return f'<a class="picture" rel="noreferrer noopener" href="{escape(source)}">{shown}</a>'


def _shown_link(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    token.attrSet("rel", "noreferrer noopener nofollow")
    return str(self.renderToken(tokens, index, options, env))


def _shown_cell(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A column's side is said with a class: pages take no style from a text."""
    token = tokens[index]
    side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
    if side:
        token.attrSet("class", f"to-{side}")
    return str(self.renderToken(tokens, index, options, env))


def _coloured(code: str, language: str, _attrs: str) -> str:
    """Code with the colours of its language, as classes."""
    if not language or len(code) > _MOST_COLOURED:
        return ""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def marked(text: str, words: Sequence[str]) -> Markup:
    """A passage, plain, with the words of a question marked."""
    wanted = [re.escape(word) for word in words if len(word) > 1]
    if not wanted:
        return Markup(escape(text))  # noqa: S704
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
