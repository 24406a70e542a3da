"""Addresses of servers: what of them may be seen, and whether the way there is safe for a key."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

EXPECTED: Final = (
    "begins with http:// or https://; "
    "in a user's name or password / ? # and @ are written %2F %3F %23 and %40."
)
_EXPECTED_OF_POSTGRES: Final = (
    "looks like postgresql://user@host:5432/database; "
    "in a user's name or password / ? # and @ are written %2F %3F %23 and %40."
)

NO_USER: Final = "has neither a user nor a password: its key comes from the environment."
_KEYED: Final = frozenset({"meilisearch", "upstash"})  # whose key is where a password would be sent

_POSTGRES: Final = frozenset({"postgres", "postgresql"})
# "Do you speak TLS?", eight bytes; one comes back, whatever the answer is.
_SSL_REQUEST: Final = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"

_HIDDEN: Final = "***"
_NOWHERE: Final = "nowhere"
# `host=db password='a b'`, which Postgres takes as well as a URL: one pair of it.
_PAIR: Final = re.compile(
    r"\s*(\w+)(\s*=\s*)('(?:[^'\\]|\\.)*'|(?!')(?:[^\s\\]|\\.)*)(?=\s|\Z)", re.DOTALL
)
_SHOWN: Final = frozenset({"dbname", "host", "hostaddr", "port", "sslmode"})
_SECRET: Final = frozenset({"oauth_client_secret", "password", "sslpassword"})
_LEAST: Final = 3  # characters of a secret: what is shorter would be found in any sentence
_BETWEEN: Final = re.compile(r"(?<!\s)\s*,\s*(?=\w+://)")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_END: Final = re.compile(r"[/?#]")  # of what names a user and hosts
_ASIDE: Final = re.compile(r"[?#]")
_HOST: Final = re.compile(r"(?:\[[\w:.%]*\]|[\w.%-]*)(?::[0-9]*)?")
_ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})


class _Parts(NamedTuple):
    """An address taken apart."""

    scheme: str  # with what parts it from the rest
    user: str
    hosts: str
    rest: str  # path, query and fragment


def _parts(address: str) -> _Parts | None:
    """The parts of one address; None where it cannot be told which they are.

    A password may have a slash, a question mark or a hash that someone forgot to escape. Then
    everybody else would take a part of it for a host, a port or a path.
    """
    found = _SCHEME.match(address)
    scheme = found[0] if found else ""
    bare = address[len(scheme) :]
    end = _END.search(bare)
    front, rest = (bare[: end.start()], bare[end.start() :]) if end else (bare, "")
    user, _, hosts = front.rpartition("@")
    if "@" in rest or "@" in user or not all(map(_HOST.fullmatch, hosts.split(","))):
        return None
    return _Parts(scheme, user, hosts, rest)


def is_clear(address: str) -> bool:
    """Whether it can be told what of an address is a password; no other is ever asked or shown."""
    if _is_pairs(address):
        return _pairs(address) is not None
    return all(_parts(one) is not None for one in each(address))


def secrets(address: str) -> set[str]:
    """What of an address only its owner knows, in every way in which a server may repeat it."""
    if _is_pairs(address):
        found = {value for key, value in _said(address).items() if key in _SECRET}
    else:
        found = {secret for one in each(address) for secret in _secrets(one)}
    return {secret for secret in found if len(secret) >= _LEAST}


def has_user(address: str) -> bool:
    """Whether an address names a user, with a password or without."""
    return any(parts.user for one in each(address) if (parts := _parts(one)))


def has_password(address: str) -> bool:
    """Whether an address of Postgres' has a password in it."""
    if _is_pairs(address):
        return bool(_said(address).get("password"))
    parts = _parts(address)
    query = dict(parse_qsl(_split(address).query))
    return bool(query.get("password") or (parts and parts.user.partition(":")[2]))


def _secrets(address: str) -> Iterator[str]:
    parts = _parts(address)
    if parts is None:
        yield address
        return
    name, colon, password = parts.user.partition(":")
    raw = [parts.user, password if colon else name]
    for pair in parts.rest.partition("#")[0].partition("?")[2].split("&"):
        key, _, value = pair.partition("=")
        if not _is_shown(key, value):
            raw.append(value)
    for secret in raw:
        yield secret
        yield unquote(secret)
    if parts.user:  # as a header has it
        both = f"{unquote(name)}:{unquote(password)}"
        yield base64.b64encode(both.encode("utf-8", "surrogateescape")).decode()


def place(address: str) -> str:
    """Hosts, ports and paths: enough to know a server by, and nothing that only its owner knows."""
    if not is_clear(address):
        return _NOWHERE
    if _is_pairs(address):
        said = _said(address)
        host = said.get("host") or said.get("hostaddr") or "localhost"
        port, name = said.get("port"), said.get("dbname", "")
        name = name if _is_shown("dbname", name) else _HIDDEN
        return (host + (f":{port}" if port else "") + (f"/{name}" if name else "")).replace(" ", "")
    return ",".join(map(_place, each(address))) or _NOWHERE


def _place(address: str) -> str:
    parts = _parts(address)
    path = _ASIDE.split(parts.rest, maxsplit=1)[0] if parts else ""
    return f"{parts.hosts.lower()}{path.rstrip('/')}".replace(" ", "") if parts else ""


def each(address: str) -> list[str]:
    """The addresses of a cluster; Postgres' own way to write several hosts stays one of them."""
    return _BETWEEN.split(address.strip())


def masked(address: str) -> str:
    """An address as it is written, without a password or anything that may be one."""
    if _is_pairs(address):
        pairs = _pairs(address)
        return _HIDDEN if pairs is None else "".join(map(_masked_pair, pairs))
    return ",".join(map(_masked, each(address)))


def _masked(address: str) -> str:
    parts = _parts(address)
    if parts is None:
        found = _SCHEME.match(address)
        return (found[0] if found else "") + _HIDDEN
    name, colon, _ = parts.user.partition(":")
    # A name alone may be a key, but not in Postgres; with a password after it, it is a name.
    alone = name if parts.scheme.startswith("postgres") else _HIDDEN
    user = f"{name}:{_HIDDEN}@" if colon else f"{alone}@" if name else ""
    path, mark, query = parts.rest.partition("#")[0].partition("?")
    shown = "&".join(_masked_value(*one.partition("=")) for one in query.split("&") if one)
    return parts.scheme + user + parts.hosts + path + mark + shown


def _masked_value(key: str, sign: str, value: str) -> str:
    return f"{key}{sign}{value}" if _is_shown(key, value) else f"{key}={_HIDDEN}"


def _masked_pair(pair: re.Match[str]) -> str:
    if _is_shown(pair[1], pair[3]):
        return pair[0]
    return pair[0][: pair.start(3) - pair.start()] + _HIDDEN


def _is_shown(key: str, value: str) -> bool:
    # What looks like an address is one within the other.
    return key.strip().lower() in _SHOWN and "@" not in value and "://" not in value


def _is_pairs(address: str) -> bool:
    return "=" in address and not _SCHEME.match(address.strip())


def _pairs(address: str) -> list[re.Match[str]] | None:
    """The pairs of such an address; None if there is anything in it that is none."""
    found: list[re.Match[str]] = []
    text, at = address.rstrip(), 0
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            return None
        found.append(pair)
        at = pair.end()
    return found


def _said(address: str) -> dict[str, str]:
    return {pair[1]: re.sub(r"\\(.)", r"\1", pair[3].strip("'")) for pair in _pairs(address) or ()}


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address if "://" in address else f"//{address}")
    except ValueError:
        return urlsplit("")


def fault(kind: str, address: str) -> str:
    """What an address for an engine would have to look like; empty where it does."""
    if not all(map(_has_ports, each(address))):
        return "has a port between 1 and 65535 after its host."
    if kind == "postgres":
        is_fit = _is_pairs(address) or _split(address).scheme in _POSTGRES
        return "" if is_fit and is_clear(address) else _EXPECTED_OF_POSTGRES
    if kind in _KEYED and has_user(address):
        return NO_USER
    ways = map(_split, each(address))
    is_fit = all(
        way.scheme in {"http", "https"} and way.netloc and "," not in way.netloc for way in ways
    )
    return "" if is_fit and is_clear(address) else EXPECTED


def _has_ports(address: str) -> bool:
    parts = _parts(address)
    ports = [one.rpartition(":")[2] for one in parts.hosts.split(",")] if parts else []
    return not any(port.isdecimal() and not 0 < int(port) < 65_536 for port in ports)


def hello(address: str) -> bytes:
    """What a server answers at once, whoever asks: plain HTTP, or Postgres; else nothing."""
    if _is_pairs(address) or _split(address).scheme in _POSTGRES:
        return _SSL_REQUEST
    if any(_split(one).scheme != "http" for one in each(address)):
        return b""
    return b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def caution(kind: str, address: str) -> str:
    """Why others on the network may read along on the way to a server; empty if they cannot."""
    tell: Callable[[str], str] = _of_postgres if kind == "postgres" else _of_http
    return tell(address)


def _of_http(address: str) -> str:
    bare = [one for one in each(address) if _split(one).scheme == "http"]
    bare = [one for one in bare if not _is_here(_host(_split(one).netloc.rpartition("@")[2]))]
    if not bare:
        return ""
    return (
        f"the key and the memories go to {place(bare[0])} unencrypted: "
        "whoever is on the way can read them; https:// keeps them to the server"
    )


def _of_postgres(address: str) -> str:
    if _is_pairs(address):
        said = _said(address)
        hosts = said.get("hostaddr") or said.get("host") or ""
    else:
        parts = _split(address)
        said = dict(parse_qsl(parts.query))
        named = parts.netloc.rpartition("@")[2]
        hosts = said.get("host") or ",".join(_host(one) for one in named.split(","))
    if said.get("sslmode") in _ENCRYPTED or all(map(_is_here, hosts.split(","))):
        return ""
    return (
        f"the way to {place(address)} may be unencrypted, as the server likes it: "
        "?sslmode=verify-full in the address keeps the memories to the server"
    )


def _host(named: str) -> str:
    """The host of `host:port`."""
    return named.partition("]")[0][1:] if named.startswith("[") else named.partition(":")[0]


def _is_here(host: str) -> bool:
    """Whether nothing that is sent to a host leaves this machine."""
    host = host.strip("[]").lower()
    if host in {"", "localhost"} or host.startswith("/") or host.endswith(".localhost"):
        return True  # a Unix socket, or a name that always stands for this machine
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
