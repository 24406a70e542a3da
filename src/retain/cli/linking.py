"""linked, related, graph."""

from __future__ import annotations

import argparse

from retain import shapes
from retain.app import App
from retain.cli.inputs import add_id, count
from retain.cli.parser import Command, Parser, open_app
from retain.cli.recalling import INDENT, flat, highlighting, shortfalls
from retain.cli.render import Output, Table
from retain.errors import BadName, NotFound
from retain.model import Hit, Linked

__all__ = ["graph_command", "linked_command", "related_command"]


# linked


def _linked_arguments(parser: Parser) -> None:
    parser.add_argument("document", metavar="DOC", help="a file of the project, or a memory")
    parser.add_argument(
        "query", nargs="?", default="", metavar="QUERY", help="rank by this; else newest first"
    )
    parser.add_argument("--limit", type=count, default=5, metavar="N", help="how many (5)")


def _linked(args: argparse.Namespace) -> Output:
    answer = open_app(args).library.linked(args.document, args.query, args.limit)
    messages = [] if answer.hits else [f"No memory links to {args.document}."]
    return Output(
        [shapes.linked(hit, answer.degraded) for hit in answer.hits],
        "\n".join(_shown_links(hit, bool(args.query)) for hit in answer.hits),
        quiet="".join(f"{hit.ref}\n" for hit in answer.hits),
        messages=messages,
        warnings=shortfalls(answer.degraded),
        paint=highlighting(args.query),
    )


def _shown_links(hit: Hit, is_ranked: bool) -> str:
    head = " · ".join(filter(None, (hit.ref, flat(hit.title), hit.created_at[:10])))
    lines = [f"{hit.score:.2f}  {head}" if is_ranked else head]
    for link in hit.links:
        anchor = f"at #{flat(link.anchor)}" if link.anchor else ""
        about = filter(None, (link.edge, f"line {link.line}", anchor, _state(link)))
        lines += [f"{INDENT}{', '.join(about)}: {flat(link.context)}"]
    return "\n".join(lines) + "\n"


def _state(link: Linked) -> str:
    """How the linked file is now, in words."""
    return f"moved to {link.now_at}" if link.freshness == "moved" else link.freshness


linked_command = Command(
    _linked_arguments,
    _linked,
    """A memory links to a file by naming it in double brackets: [[src/auth.py]]. The words
around it tell how: mentions, plans, refactors, debugs, related_to. Each link says whether
the file is still what it was: fresh, changed, moved or gone; planned is one that never was.
DOC is a path from where you stand, from the project's root as links have it, or a whole one;
a file that moved is found by its new name too.

  retain linked src/auth.py
  retain linked src/auth.py "refactor plans" --limit 10 --json""",
)


# related


def _related_arguments(parser: Parser) -> None:
    add_id(parser, handles=True)
    parser.add_argument("--limit", type=count, default=10, metavar="N", help="how many (10)")


def _related(args: argparse.Namespace) -> Output:
    app = open_app(args)
    found = app.library.related(app.ours(args.id).address, args.limit)
    degraded = app.library.shortfalls()
    table = Table(
        ("Score", "Memory", "Title", "Why"),
        [
            (
                f"{one.score:.2f}",
                f"{one.collection}/{one.id}" if one.collection else one.id,
                one.title,
                ", ".join(f"{why} {value:.2f}" for why, value in one.reasons.items()),
            )
            for one in found
        ],
        empty="Nothing is connected with it.",
        flexible=("Title",),
    )
    return Output(
        [shapes.related(one, degraded) for one in found],
        table=table,
        quiet="".join(f"{one.collection}/{one.id}\n".removeprefix("/") for one in found),
        warnings=shortfalls(degraded),
    )


related_command = Command(
    _related_arguments,
    _related,
    """By links in either direction, files that both link to, tags they share, and meaning.

  retain related auth-plan
  retain related m:4f2a
  retain related auth-plan --limit 3 --quiet""",
)


# graph


def _graph_arguments(parser: Parser) -> None:
    add_id(parser, handles=True, more="; or a file that memories link to", nargs="?")
    parser.add_argument(
        "--depth", type=count, default=2, metavar="N", help="with an ID: how many steps away (2)"
    )
    parser.add_argument(
        "--format",
        choices=("tree", "json", "dot"),
        default="tree",
        help="tree: for reading, the default; json; dot: for Graphviz",
    )


def _graph(args: argparse.Namespace) -> Output:
    from retain.cli.drawing import dot, tree

    app = open_app(args)
    address, start = _start(app, args.id) if args.id else ("", "")
    graph = app.library.graph(address, args.depth)
    text = dot(graph) if args.format == "dot" else tree(graph, start)
    messages = [] if graph.nodes else ["There are no memories yet."]
    names = "".join(f"{node.name}\n" for node in graph.nodes)
    return Output(lambda: shapes.graph(graph), text, quiet=names, messages=messages)


def _start(app: App, ref: str) -> tuple[str, str]:
    """Where a graph begins, as it is asked for and as it is drawn: at a memory, or at a file."""
    try:
        memory = app.ours(ref)
    except (NotFound, BadName):
        ghost = app.library.ghost(ref) if app.place.exists else ""
        if not ghost:
            raise
        return ghost, ghost
    return memory.address, memory.ref


graph_command = Command(
    _graph_arguments,
    _graph,
    """The whole bank, or what is within some steps of one memory or file, in both directions.
Files outside the bank say how they are now; a link that leads nowhere says so; ↑ marks what
is drawn elsewhere already.

  retain graph
  retain graph auth-plan --depth 1
  retain graph src/auth.py
  retain graph --format dot | dot -Tsvg > graph.svg""",
)
