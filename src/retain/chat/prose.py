"""Markdown that only shows: nothing in it acts on the terminal, and no link opens by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Markdown

from retain.chat.words import inert

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

__all__ = ["Prose"]


class Prose(Markdown):
    """A reply, or what a command has to say."""

    def __init__(self, text: str | None = None, *, classes: str = "") -> None:
        super().__init__(
            None if text is None else inert(text),
            classes=classes,
            parser_factory=_parser,
            open_links=False,
        )


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Without `linkify` names of files stay names: README.md is no address in Moldova.
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    parser.core.ruler.push("inert", _make_inert)
    return parser


def _make_inert(state: StateCore) -> None:
    """Take the force from what entities such as `&#x202e;` have become."""
    _calm(state.tokens)


def _calm(tokens: Iterable[Token]) -> None:
    for token in tokens:
        token.content = inert(token.content)
        if token.children:
            _calm(token.children)
