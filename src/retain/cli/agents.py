"""mcp: the doors for agents."""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Output
from retain.errors import UsageError

__all__ = ["mcp_command"]


def _mcp_arguments(parser: Parser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=("token",), metavar="token", help="make the token for --http"
    )
    parser.add_argument("--http", action="store_true", help="over HTTP, not standard input")
    parser.add_argument("--host", default="127.0.0.1", help="with --http: where (127.0.0.1)")
    parser.add_argument("--port", type=int, default=7878, metavar="N", help="with --http (7878)")
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="with --http: another name that clients use for it, such as a proxy's",
    )
    parser.add_argument(
        "--tools", choices=("core", "all"), default="all", help="core: the seven that matter most"
    )
    parser.add_argument(
        "--no-socket", action="store_true", help="do not answer hooks and commands meanwhile"
    )
    parser.add_argument("--new", action="store_true", help="with token: replace the one there is")


def _mcp(args: argparse.Namespace) -> Output:
    if args.action != "token":
        _serve(args)
    return _token(args)


def _serve(args: argparse.Namespace) -> NoReturn:
    if not 0 <= args.port <= 65_535:
        raise UsageError(f"{args.port} is no port")
    # Loaded before anything else: a host waits for the first answer.
    from retain.mcp.server import Memory, build

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    memory = Memory(lambda: open_app(args, stays=True))
    server = build(memory, tools=args.tools)
    if not args.no_socket:
        memory.listen()
    if args.http:
        from retain.mcp.http import serve as serve_http

        serve_http(server, args.host, args.port, memory.close, allow=args.allow_host)
    else:
        from retain.mcp.stdio import serve

        serve(server, memory.close)


def _token(args: argparse.Namespace) -> Output:
    from retain.httpd.token import VARIABLE, path, token

    made = token(os.environ, new=args.new)
    where = f"${VARIABLE}" if os.environ.get(VARIABLE) else path(os.environ)
    return Output(
        {"token": made, "file": where},
        f"{made}\n",
        quiet=f"{made}\n",
        messages=[f"Kept in {where}; clients send it as: Authorization: Bearer TOKEN"],
    )


mcp_command = Command(
    _mcp_arguments,
    _mcp,
    """An agent's host starts this itself; `retain install` writes its configuration. The bank is
the one that any command here would use. Over HTTP every request needs the token.

  retain install claude-code
  retain mcp --tools core
  retain mcp token
  retain mcp --http --port 7878""",
)
