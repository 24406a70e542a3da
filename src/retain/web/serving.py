"""`retain web`: one process, one port, and a link that opens it."""

from __future__ import annotations

import fcntl
import os
import webbrowser
from collections.abc import Callable
from html import escape
from typing import IO, TYPE_CHECKING, Final, NamedTuple, NoReturn
from urllib.parse import quote

from retain.bank.files import write_whole
from retain.errors import RetainError
from retain.httpd.address import listen
from retain.httpd.security import Limits, SecurityMiddleware
from retain.httpd.server import run
from retain.locate import make_private_directory, state_directory, state_home
from retain.web.app import build
from retain.web.auth import Auth, make_code, own_name
from retain.web.bank_pool import BankPool
from retain.web.checkup import Checkup
from retain.web.live import Live

if TYPE_CHECKING:
    from starlette.types import Scope

    from retain.app import App


HOST: Final = "127.0.0.1"

# No word of a page may load, run or send anything elsewhere, whatever a memory says.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; "
    "trusted-types retain; require-trusted-types-for 'script'"
)
_HEADERS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=()"),
    (b"cache-control", b"no-store"),
)


def _is_page(scope: Scope) -> bool:
    """Whether an address is a page; what the pages call is for them alone."""
    return not str(scope["path"]).startswith("/api/")


class Welcome(NamedTuple):
    """Where a server is reached, with a new link into it."""

    url: str
    link: str  # good once
    plain: str  # the same for a browser that does not find the name in it
    bank: str

    @classmethod
    def make(cls, port: int, token: str, bank: str) -> Welcome:
        url, path = f"http://{HOST}:{port}", f"/enter#{make_code(token, port)}"
        return cls(url, f"http://{own_name(token, port)}:{port}{path}", f"{url}{path}", bank)


def find_server(bank: str) -> int:
    """Return the port of the server that shows a bank; 0 if none does."""
    try:
        with open(_port_file(bank), "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # its server holds it
                return int(file.read(10))
    except (OSError, ValueError):
        pass  # no server ever, or one that has just begun
    return 0


def _announce(bank: str, port: int) -> IO[bytes] | None:
    """Write down the port of a bank's server; the file stays locked while it is open."""
    path = _port_file(bank)
    make_private_directory(os.path.dirname(path))
    file = open(path, "ab")  # noqa: SIM115 - open as long as the server runs
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another server shows the same bank
        file.close()
        return None
    file.truncate(0)
    file.write(b"%d" % port)
    file.flush()
    return file


def _port_file(bank: str) -> str:
    name = os.path.basename(state_directory(bank, os.environ))
    return os.path.join(state_home(os.environ), "web", f"{name}.port")


def open_browser(link: str) -> bool:
    """Open a link in a browser, which may be waited for until it ends.

    The browser is started with the name of a file that leads to the link and that only its owner
    can read: every program can read what another was started with.
    """
    path = os.path.join(state_home(os.environ), "web", "link.html")
    page = f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(link)}">'
    try:
        make_private_directory(os.path.dirname(path))
        write_whole(path, page.encode())
        return webbrowser.open(f"file://{quote(path)}")
    except (OSError, RetainError):
        return False


def serve(
    open_app: Callable[[bool], App], port: int, opened: Callable[[Welcome, str], None]
) -> NoReturn:
    """Show the bank at a port until a signal comes; `opened` gets a link and the bank's name."""
    limits = Limits()
    address = listen(HOST, port)
    auth = Auth(address.token, address.port)
    own = f"{own_name(address.token, address.port)}:{address.port}"
    names = {own, own.removesuffix(":80")}  # as browsers write it
    banks = BankPool(open_app)
    live = Live(banks)
    app = build(banks, live, auth, Checkup(open_app, live.tell))
    hosts, origins = address.hosts | names, address.origins | {f"http://{one}" for one in names}
    guarded = SecurityMiddleware(app, auth, hosts, origins, limits, _HEADERS, is_page=_is_page)
    with banks.turn:
        bank = banks.app().location.root
    announced = _announce(bank, address.port)

    def ready() -> None:
        opened(Welcome.make(address.port, address.token, bank), banks.where)

    def cleanup() -> None:
        banks.close()
        if announced:
            announced.close()

    run(guarded, address.socks, limits, ready=ready, ending=live.close, cleanup=cleanup)
