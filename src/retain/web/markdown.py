"""Markdown as HTML that can do nothing: no HTML of the text's own, no pictures, no odd links."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from retain.text.links import find_links

WIKILINK: Final = re.compile(r"\[\[([^\[\]\n]{1,300})\]\]")
MAX_TEXT: Final = 100_000  # characters of one text that are rendered
_MAX_PAGE: Final = 500_000  # characters of HTML on one page
# Characters of code with colours: some lexers are quadratic (2.5 s for 10,000 empty lines of Java).
_MAX_CODE: Final = 10_000
_MAX_PAGE_CODE: Final = 20_000
_WEB: Final = ("http://", "https://")
_SCHEMES: Final = ("http", "https", "mailto")
_INVISIBLE: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\ufeff]+")
_PART: Final = re.compile(r"[/?#]")
_COPY: Final = '<div class="code"><button type="button" class="copy" aria-label="Copy"></button>'
_LANGUAGES: Final = frozenset(
    "bash c cpp csharp css diff docker dockerfile elixir go graphql haskell html ini java "
    "javascript js json jsx kotlin lua make makefile nginx perl php powershell proto py python r "
    "rb rs ruby rust scala scss sh shell sql swift terraform toml ts tsx typescript xml "
    "yaml yml zig".split()
)


class LinkTarget(NamedTuple):
    """The memory that a wikilink leads to; without a page there is none."""

    page: str = ""
    title: str = ""


# What a wikilink leads to; None if it was not looked up.
Resolve = Callable[[str], LinkTarget | None]


def resolve_nothing(_target: str) -> None:
    """Leave every wikilink as it is written."""


class Renderer:
    """Renders the texts of one page, which share its limits; what exceeds them is shown as written.

    The limits bound the work for hostile texts, of which some take quadratic time.
    """

    def __init__(self, resolve: Resolve = resolve_nothing) -> None:
        self._resolve = resolve
        self._html_left = _MAX_PAGE
        self._code_left = _MAX_PAGE_CODE

    def render(self, text: str) -> Markup:
        """Return a text as HTML."""
        end = len(text) if len(text) <= MAX_TEXT else text.rfind("\n", 0, MAX_TEXT) + 1 or MAX_TEXT
        html = ""
        if self._html_left > 0:
            html = _parser().render(text[:end], {"renderer": self})
            self._html_left -= len(html)
        else:
            end = 0
        rest = text[end:]
        if rest.strip():
            html += f'<pre class="as-written">{escape(rest)}</pre>\n'
        return Markup(html)  # noqa: S704 - everything from the text is escaped

    def wikilink(self, content: str) -> str:
        """Return what stands in double brackets as a link, labelled with the memory's title."""
        name, _, label = (part.strip() for part in content.partition("|"))
        target = self._resolve(name)
        if not (target and target.page) and _is_file(name):
            return f'<code class="file">{escape(label or name)}</code>'
        if target is None:
            return escape(f"[[{content}]]")
        if not target.page:
            new = quote(name, safe="", errors="replace")
            title = "There is no such memory: write it"
            return (
                f'<a class="ghost" href="/new?id={new}" title="{title}">{escape(label or name)}</a>'
            )
        shown = escape(label or target.title or name)
        return f'<a class="wiki" href="{escape(target.page)}">{shown}</a>'

    def code(self, code: str, info: str) -> str:
        """Return code with the colours of its language, as classes.

        Only known languages become a class: pages act upon classes.
        """
        language = next(iter(info.lower().split()), "")
        if language not in _LANGUAGES:
            return f"{_COPY}<pre><code>{escape(code)}</code></pre></div>\n"
        if len(code) <= min(_MAX_CODE, self._code_left):
            self._code_left -= len(code)
            html = highlight(code, _lexer(language), HtmlFormatter(nowrap=True))
        else:
            html = escape(code)
        return f'{_COPY}<pre><code class="language-{language}">{html}</code></pre></div>\n'


def render(text: str, resolve: Resolve = resolve_nothing) -> Markup:
    """Return a single text as HTML."""
    return Renderer(resolve).render(text)


@cache
def _lexer(language: str) -> Any:
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


def _is_file(name: str) -> bool:
    """Whether double brackets name a file of the project, which has no page here."""
    return any(link.kind == "ghost" for link in find_links(f"[[{name}]]"))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = _is_harmless  # type: ignore[method-assign]
    parser.inline.ruler.before("link", "wiki", _parse_wikilink)
    parser.core.ruler.push("direction", _set_direction)
    parser.add_render_rule("wiki", _render_wikilink)
    parser.add_render_rule("image", _render_image)
    parser.add_render_rule("link_open", _render_link)
    parser.add_render_rule("fence", _render_code)
    for cell in ("th_open", "td_open"):
        parser.add_render_rule(cell, _render_cell)
    return parser


def _set_direction(state: Any) -> None:
    """Let each block run in the direction of its own script."""
    for token in state.tokens:
        if token.level == 0 and token.nesting == 1:
            token.attrSet("dir", "auto")


def _is_harmless(url: str) -> bool:
    """Whether a link leads to the web or into a page, and not into a script."""
    # As the most generous reader would take it: escapes undone, spaces and controls left out, a
    # backslash read as a slash, as browsers do.
    plain = _INVISIBLE.sub("", unquote(url)).replace("\\", "/")
    start = _PART.split(plain, maxsplit=1)[0]
    scheme, colon, _ = start.partition(":")
    return scheme.lower() in _SCHEMES if colon else not plain.startswith("//")


def _parse_wikilink(state: Any, silent: bool) -> bool:
    match = WIKILINK.match(state.src, state.pos)
    if not match:
        return False
    if not silent:
        token = state.push("wiki", "", 0)
        token.content = match[1]
    state.pos = match.end()
    return True


def _render_wikilink(_: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:
    renderer: Renderer = env["renderer"]
    return renderer.wikilink(tokens[index].content)


def _render_code(_: Any, tokens: Sequence[Token], index: int, _options: Any, env: Any) -> str:
    renderer: Renderer = env["renderer"]
    return renderer.code(tokens[index].content, tokens[index].info)


def _render_image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Name and link a picture: loading it would tell its server who reads what."""
    token = tokens[index]
    shown = escape(self.renderInlineAsText(token.children or [], options, env) or "picture")
    source = str(token.attrs.get("src", ""))
    if not _is_harmless(source) or not source.lower().startswith(_WEB):
        return f'<span class="picture">{shown}</span>'
    return f'<a class="picture" rel="noreferrer noopener" href="{escape(source)}">{shown}</a>'


def _render_link(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    tokens[index].attrSet("rel", "noreferrer noopener nofollow")
    return str(self.renderToken(tokens, index, options, env))


def _render_cell(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Say a column's alignment with a class: pages take no style from a text."""
    token = tokens[index]
    side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
    if side:
        token.attrSet("class", f"to-{side}")
    return str(self.renderToken(tokens, index, options, env))
