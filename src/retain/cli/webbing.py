"""web."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Final, NoReturn

from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Output, wants_json
from retain.errors import RetainError, UsageError

if TYPE_CHECKING:
    from retain.app import App
    from retain.web.neighbour import Neighbour
    from retain.web.serving import Welcome

__all__ = ["web_command"]

_HOST: Final = "127.0.0.1"  # no other is offered: a bank is shown to nobody else's machine
_PORT: Final = 7979


def _web_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"where to listen ({_PORT}; 0: any that is free)"
    )
    parser.add_argument("--open", action="store_true", help="open it in your browser")


def _web(args: argparse.Namespace) -> Output:
    port = _PORT if args.port is None else args.port
    if not 0 <= port <= 65_535:
        raise UsageError(f"{port} is no port")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    app = open_app(args)
    root = app.place.root
    there = _there(port)
    if there and there.bank == root:
        return _known(there, args)
    if args.port is None and (there or not _is_free(port)):
        port = 0  # nobody asked for this very one
    elif there:
        raise _refused(port, there)
    return _serve(args, port)


def _there(port: int) -> Neighbour | None:
    """The server of this person's that listens at a port already."""
    from retain.httpd import token
    from retain.web import neighbour

    secret = token.kept(os.environ) if port else ""
    return neighbour.find(port, secret) if secret else None


def _is_free(port: int) -> bool:
    from retain.httpd.address import is_free

    return is_free(_HOST, port)


def _refused(port: int, there: Neighbour) -> RetainError:
    return RetainError(
        f"cannot serve at {_HOST}:{port}: it shows {there.bank} already",
        unchanged="Nothing was started.",
        hint="Choose another with --port N; --port 0 takes any that is free.",
    )


def _known(there: Neighbour, args: argparse.Namespace) -> Output:
    """One server is enough for a bank: it lets another browser in."""
    if args.open:
        _browse(there.link)
    data = {"status": "there already", "url": there.url, "link": there.link, "bank": there.bank}
    return Output(
        data,
        f"{_own(there)} shows this bank already.\n{_links(there)}",
        quiet=f"{there.link}\n",
    )


def _own(to: Neighbour | Welcome) -> str:
    """Where the browser that opens the link is let in again, with its cookie."""
    return to.link.partition("/enter#")[0]


def _links(to: Neighbour | Welcome) -> str:
    return (
        f"Open this link, which is good once: {to.link}\n"
        f"Or this, in a browser that does not find it: {to.plain}\n"
    )


def _serve(args: argparse.Namespace, port: int) -> NoReturn:
    import threading

    from retain.web.serving import serve

    def opened(own: bool) -> App:
        from retain.app import App

        return App(everywhere=True, stays=True) if own else open_app(args, stays=True)

    def welcome(to: Welcome) -> None:
        _say(to, args)
        if args.open:  # beside the server: some browsers are waited for until they end
            threading.Thread(target=_browse, args=(to.link,), daemon=True).start()

    serve(opened, _HOST, port, welcome)


def _say(to: Welcome, args: argparse.Namespace) -> None:
    if wants_json(args):
        data = {"status": "listening", "url": to.url, "link": to.link, "bank": to.bank}
        print(json.dumps(data), flush=True)
    elif getattr(args, "quiet", False):
        print(to.link, flush=True)
    else:
        print(f"Retain shows {to.shown} at {_own(to)}; Ctrl-C ends it.", file=sys.stderr)
        print(_links(to), end="", file=sys.stderr, flush=True)


def _browse(link: str) -> None:
    try:
        is_open = _is_shown(link)
    except OSError:
        is_open = False
    if not is_open:
        print("No browser could be started here; open the link yourself.", file=sys.stderr)


def _is_shown(link: str) -> bool:
    """Whether a browser was started; one without a window of its own is waited for."""
    import webbrowser
    from pathlib import Path

    from retain.web.doorstep import laid, taken_away

    path = laid(link, os.environ)
    if not path:
        return False
    taken_away(path)
    return webbrowser.open(Path(path).as_uri())


web_command = Command(
    _web_arguments,
    _web,
    """Your memories in the browser: looked through, searched, edited, as a graph and over time,
with the inbox, past chats and a chat. It listens on this machine alone and prints a link that
lets one browser in, once; after that the browser has its own key. Where the bank is shown
already, the server that shows it gives another link, and this one ends.

  retain web --open
  retain web --port 8080""",
)
