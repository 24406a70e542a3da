"""`retain web`: one process, one port, and a link that opens it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from retain.httpd.address import listen
from retain.httpd.security import Limits, SecurityMiddleware
from retain.httpd.server import run
from retain.web.app import build
from retain.web.checkup import Checkup
from retain.web.entrance import Entrance, name
from retain.web.live import Live
from retain.web.office import Office

if TYPE_CHECKING:
    from starlette.types import Scope

    from retain.app import App


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
    """Where a server is reached, by whom it was not yet asked."""

    url: str
    link: str  # good once
    plain: str  # the same for a browser that does not find the name in it
    bank: str
    shown: str  # the bank as people call it


def serve(
    open_app: Callable[[bool], App], host: str, port: int, opened: Callable[[Welcome], None]
) -> NoReturn:
    """Show the bank at http://host:port until a signal comes; `opened` is told the link."""
    limits = Limits()
    address = listen(host, port)
    entrance = Entrance(address.token, address.port)
    own = f"{name(address.token, address.port)}:{address.port}"
    names = {own, own.removesuffix(":80")}  # as browsers write it
    office = Office(open_app)
    live = Live(office)
    app = build(office, live, entrance, Checkup(open_app, live.tell))
    hosts, origins = address.hosts | names, address.origins | {f"http://{one}" for one in names}
    secured = SecurityMiddleware(app, entrance, hosts, origins, limits, _HEADERS, is_page=_is_page)
    with office.turn:
        location = office.app().location
        bank = location.root

    def ready() -> None:
        path = f"/enter#{entrance.code()}"
        link, plain = f"http://{own}{path}", f"{address.url}{path}"
        opened(Welcome(address.url, link, plain, bank, office.where))

    run(secured, address.socks, limits, ready=ready, ending=live.close, cleanup=office.close)
