"""web."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Output
from retain.errors import UsageError

if TYPE_CHECKING:
    from retain.app import App

__all__ = ["web_command"]

_PORT: Final = 7979


def _web_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--port", type=int, default=_PORT, metavar="N", help=f"where to listen ({_PORT}; 0: any)"
    )
    parser.add_argument("--open", action="store_true", help="open it in your browser")


def _web(args: argparse.Namespace) -> Output:
    if not 0 <= args.port <= 65_535:
        raise UsageError(f"{args.port} is no port")
    _serve(args)


def _serve(args: argparse.Namespace) -> NoReturn:
    from retain.web.serving import serve

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    def opened(own: bool) -> App:
        from retain.app import App

        return App(everywhere=True, stays=True) if own else open_app(args, stays=True)

    serve(opened, "127.0.0.1", args.port, _browser if args.open else lambda _link: None)


def _browser(link: str) -> None:
    import webbrowser

    if not webbrowser.open(link):
        print("No browser could be started here; open the link yourself.", file=sys.stderr)


web_command = Command(
    _web_arguments,
    _web,
    """Your memories in the browser: looked through, searched, edited, as a graph and over time,
with the inbox, past chats and a chat. It listens on this machine alone and prints a link that
lets one browser in, once; after that the browser has its own key.

  retain web --open
  retain web --port 8080""",
)
