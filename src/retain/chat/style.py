"""How the chat looks: the terminal's own colours, so that it fits light and dark ones."""

from __future__ import annotations

from typing import Final

CSS: Final = """
Screen { layers: base; overflow: hidden; }

#talk {
    height: 1fr;
    padding: 0 1;
    scrollbar-size-vertical: 1;
    scrollbar-color: ansi_bright_black;
    scrollbar-background: ansi_default;
}

#below { height: auto; dock: bottom; }

Person {
    margin: 1 0 1 0;
    padding: 0 1;
    border-left: outer ansi_cyan;
    text-style: bold;
}

Markdown { padding: 0 1; margin: 1 0 0 0; }
Markdown > MarkdownBlock:last-child { margin-bottom: 0; }
MarkdownH1, MarkdownH2, MarkdownH3 {
    content-align: left middle; text-style: bold; margin: 0 0 1 0; color: ansi_cyan;
}
MarkdownFence {
    margin: 0 0 1 0; padding: 0 1; border-left: outer ansi_bright_black;
    & > Label { padding: 0; width: 100%; }
}
MarkdownTable { background: ansi_default; }
MarkdownTableContent {
    grid-gutter: 0 1; keyline: none;
    & > .header { color: ansi_cyan; text-style: bold; }
}
MarkdownBlockQuote { margin: 0 0 1 0; border-left: outer ansi_bright_black; }

Note { margin: 0; padding: 0 1; }
Note.-dim { text-style: dim; }
Note.-welcome { text-style: dim; margin: 0 0 0 0; }
Note.-memory { color: ansi_green; }
Note.-warning { color: ansi_yellow; margin: 1 0 0 0; }
Note.-error { color: ansi_red; margin: 1 0 0 0; }

Tool { margin: 1 0 0 0; padding: 0 1; &:focus { text-style: underline; } }

#queued {
    height: auto; padding: 0 2; text-style: dim; text-wrap: nowrap; text-overflow: ellipsis;
}

#doing { height: 1; padding: 0 2; color: ansi_yellow; }

Entry, Entry:focus {
    height: auto;
    max-height: 10;
    min-height: 3;
    border: round ansi_bright_black;
    padding: 0 1;
    background: ansi_default;
    scrollbar-size-vertical: 1;
}
Entry:focus { border: round ansi_cyan; }
Entry .text-area--placeholder { text-style: dim; color: ansi_default; }

#suggestions {
    height: auto; max-height: 8; margin: 0 1; padding: 0 1;
    border-left: outer ansi_cyan; text-wrap: nowrap; text-overflow: ellipsis;
}

#status { height: 1; padding: 0 1; text-style: dim; }

#approving {
    height: auto; padding: 0 1; border: round ansi_yellow;
    &.-tight { border: none; padding: 0 2; }
    &.-tight #choices { margin: 0; }
    & > Static { height: auto; }
    #detail {
        height: auto; max-height: 1; margin: 0 0 0 1;
        scrollbar-size-vertical: 1; padding: 0 1;
        & > Static { height: auto; }
    }
    #choices { margin: 1 0 0 0; text-wrap: nowrap; text-overflow: ellipsis; }
    #allows { padding: 0 0 0 2; }
    Input { height: 1; border: none; padding: 0 1; background: ansi_default; }
}
"""
