"""mcp, serve, watch, web: processes that stay, for agents, other commands and browsers."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NoReturn

from retain.cli.command import Args, Output, arg, command, either, flag, open_app
from retain.errors import RetainError, UsageError

if TYPE_CHECKING:
    from retain.app import App
    from retain.daemon.server import Server
    from retain.web.serving import Welcome

_WEB_PORT: Final = 7979


@command(
    "mcp",
    arg("action", nargs="?", choices=("token",), metavar="token", help="make the token for --http"),
    flag("--http", "over HTTP, not standard input"),
    arg("--host", "with --http: where (127.0.0.1)", default="127.0.0.1"),
    arg("--port PORT", "with --http (7878)", type=int, default=7878),
    arg(
        "--allow-host NAME",
        "with --http: another name that clients use for it, such as a proxy's",
        action="append",
        default=[],
    ),
    arg("--tools all|core", "core: the seven that matter most"),
    flag("--no-socket", "do not answer hooks and commands meanwhile"),
    flag("--new", "with token: replace the one there is"),
)
def _mcp(args: Args) -> Output:
    """Serve memory to an agent, over MCP.

    An agent's host starts this itself; `retain install` writes its configuration. The bank is
    the one that any command here would use. Over HTTP every request needs the token.

      retain install claude-code
      retain mcp --tools core
      retain mcp token
      retain mcp --http --port 7878
    """
    if args.action != "token":
        _serve_mcp(args)
    from retain.httpd.token import VARIABLE, make_token, token_path

    secret = make_token(os.environ, new=args.new)
    where = f"${VARIABLE}" if os.environ.get(VARIABLE) else token_path(os.environ)
    note = f"Kept in {where}; clients send it as: Authorization: Bearer TOKEN"
    return Output({"token": secret, "file": where}, [secret], quiet=[secret], messages=[note])


def _serve_mcp(args: Args) -> NoReturn:
    _check_port(args.port)
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


def _check_port(port: int) -> None:
    if not 0 <= port <= 65_535:
        raise UsageError(f"{port} is no port")


# watch, serve


@command("watch", "--no-vectors")
def _watch(app: App, no_vectors: bool, quiet: bool) -> Output:
    """Index changes as they happen, until you stop it.

    Keeps the index in step while you or your editor write, so that no search has to. Prints a
    line for each set of changes: the time, then how many were +added, ~changed and -removed.

      retain watch
      retain watch --quiet &
    """
    return Output(None, stream=_watch_bank(app, not no_vectors, quiet))


def _watch_bank(app: App, with_vectors: bool, quiet: bool) -> Iterator[Output]:
    """One line for each set of changes, until a signal ends it."""
    from retain.cli.banks import (
        held_note,
    )  # which an MCP server, in this module too, starts without

    ended = threading.Event()
    with _signals_set(ended):
        batches = app.watch(ended)
        if not quiet:
            print(f"Watching {app.location.root}; Ctrl-C ends it.", file=sys.stderr, flush=True)
        for changes in batches:
            vectors = _make_vectors(app, ended) if with_vectors else 0
            for note in held_note(changes.held):
                print(f"warning: {note}", file=sys.stderr, flush=True)
            data = {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "added": changes.added,
                "changed": changes.changed,
                "removed": changes.removed,
                "vectors": vectors,
                "held": changes.held,
            }
            counts = f"+{changes.added} ~{changes.changed} -{changes.removed}"
            yield Output(data, f"{time.strftime('%H:%M:%S')}  {counts}")


def _make_vectors(app: App, ended: threading.Event) -> int:
    """Make the vectors that are missing; return how many were made."""
    try:
        return app.make_vectors(is_stopped=ended.is_set)
    except RetainError as error:  # words are searchable without; the next change tries again
        print(f"warning: {error.message}", file=sys.stderr, flush=True)
        return 0


@contextlib.contextmanager
def _signals_set(ended: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and a polite kill set an event, so that they end nothing amid a step."""
    signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # a closed terminal, without nohup
        signals.append(signal.SIGHUP)
    handlers = {number: signal.signal(number, lambda *_: ended.set()) for number in signals}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@command(
    "serve",
    either(
        arg(
            "--idle TIME",
            "end when nobody asked for so long: 90s, 30m (default), 8h",
            default="30m",
        ),
        flag("--no-idle", "stay until it is ended"),
    ),
)
def _serve(args: Args) -> Output:
    """Keep the model loaded, so that other commands answer faster.

    A process that stays keeps the model loaded and the index in step, and answers on a socket of
    the bank that only you can open: searches on the command line and an agent's hooks ask it, and
    fall back on doing the work themselves. An MCP server does the same while it runs, so this is
    for those without one. A second one for the same bank says so and ends.

      retain serve
      retain serve --idle 8h &
      retain serve --no-idle --quiet
    """
    lines = _serve_bank(open_app(args, stays=True), None if args.no_idle else args.idle)
    if args.quiet and not args.json:
        lines = filter(lambda _: False, lines)  # it stays as long, and says nothing
    return Output(None, stream=lines)


def _serve_bank(app: App, idle: int | None) -> Iterator[Output]:
    """A line when it listens and one when it ends."""
    from retain.daemon.client import ask
    from retain.daemon.server import Server  # sockets: an MCP server starts without

    root = app.location.root
    ended = threading.Event()
    server = Server(app, app.lock)
    with _signals_set(ended), contextlib.ExitStack() as undo:
        batches = app.watch(ended)
        undo.callback(server.stop)
        if not server.take():
            pid = (ask(root, {"op": "ping"}) or {}).get("pid")
            who = f"process {pid}" if pid else "another process"
            data = {"status": "there already", "bank": root, "pid": pid}
            yield Output(data, f"There is one for {root} already: {who}.")
            return
        server.warm_up()
        server.start()
        data = {"status": "listening", "address": server.address, "bank": root}
        yield Output(data, f"Listening for {root} at {server.address}; Ctrl-C ends it.")
        if idle is not None:
            timer = threading.Thread(target=_end_idle, args=(server, ended, idle), daemon=True)
            timer.start()
            undo.callback(timer.join)
            undo.callback(ended.set)  # also where something fails
        if app.has_engines:
            app.start_worker()  # which delivers, also what a server was away for
        _make_vectors(app, ended)
        for _ in batches:
            _make_vectors(app, ended)
    yield Output({"status": "ended", "bank": root}, "Ended.")


def _end_idle(server: Server, ended: threading.Event, idle: int) -> None:
    """Set the event when nobody has asked for long enough."""
    left: float = idle
    while not ended.wait(left):
        left = server.last_asked + idle - time.monotonic()
        if left <= 0:
            ended.set()


# web


@command(
    "web",
    arg("--port PORT", f"where to listen ({_WEB_PORT}; 0: any that is free)", type=int),
    flag("--open", "open it in your browser"),
)
def _web(app: App, args: Args) -> Output:
    """See, search, edit and chat in the browser.

    Your memories in the browser: looked through, searched, edited, as a graph and over time,
    with the inbox, past chats and a chat. It listens on this machine alone and prints a link that
    lets one browser in, once; after that the browser has its own key. Where a server shows the bank
    already, this prints another link into it, and ends.

      retain web --open
      retain web --port 8080
    """
    from retain.httpd.address import is_free
    from retain.httpd.token import read_token
    from retain.web.serving import HOST, Welcome, find_server

    port = _WEB_PORT if args.port is None else args.port
    _check_port(port)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    running = find_server(app.location.root)
    if running and args.port in (None, running):
        server = Welcome.make(running, read_token(os.environ), app.location.root)
        if args.open:
            _open_browser(server.link)
        text = f"Already running at {_entrance(server)}.\n{_link_lines(server)}"
        data = {
            "status": "there already",
            "url": server.url,
            "link": server.link,
            "bank": server.bank,
        }
        return Output(data, text, quiet=[server.link])
    if args.port is None and not is_free(HOST, port):
        port = 0  # nobody asked for this very one
    return _serve_web(args, port)


def _serve_web(args: Args, port: int) -> NoReturn:
    from retain.web.serving import serve

    def open_bank(own: bool) -> App:
        from retain.app import App

        return App(everywhere=True, stays=True) if own else open_app(args, stays=True)

    def welcome(server: Welcome, bank: str) -> None:
        if args.json:
            import json

            facts = {"url": server.url, "link": server.link, "bank": server.bank}
            print(json.dumps({"status": "listening", **facts}), flush=True)
        elif args.quiet:
            print(server.link, flush=True)
        else:
            where = f"Retain shows {bank} at {_entrance(server)}; Ctrl-C ends it."
            print(f"{where}\n{_link_lines(server)}", end="", file=sys.stderr, flush=True)
        if args.open:  # beside the server: some browsers are waited for until they end
            threading.Thread(target=_open_browser, args=(server.link,), daemon=True).start()

    serve(open_bank, port, welcome)


def _entrance(server: Welcome) -> str:
    """Where the browser that opens the link is let in again, with its cookie."""
    return server.link.partition("/enter#")[0]


def _link_lines(server: Welcome) -> str:
    return (
        f"Open this link, which is good once: {server.link}\n"
        f"Or this, in a browser that does not find it: {server.plain}\n"
    )


def _open_browser(link: str) -> None:
    from retain.web.serving import open_browser

    if not open_browser(link):
        print("No browser could be started here; open the link yourself.", file=sys.stderr)
