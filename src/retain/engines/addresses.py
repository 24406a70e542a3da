"""Addresses of servers: what of them may be seen, and whether the way there is safe for a key."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlsplit

__all__ = ["caution", "each", "hello", "masked", "place"]

_HIDDEN: Final = "***"
# `host=db password='a b'`, which Postgres takes as well as a URL.
_WORDS: Final = re.compile(r"(?<!\w)(\w+)(\s*=\s*)('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)", re.DOTALL)
_SHOWN: Final = frozenset({"dbname", "host", "hostaddr", "port", "sslmode"})
_BETWEEN: Final = re.compile(r"(?<!\s)\s*,\s*(?=\w+://)")
_USER: Final = re.compile(r"(?<=://)[^/?#]*@")
_ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})


def place(address: str) -> str:
    """Hosts, ports and paths: enough to know a server by, and nothing that only its owner knows."""
    if _is_words(address):
        found = _of_words(address)
        host = found.get("host") or found.get("hostaddr") or "localhost"
        port, name = found.get("port"), found.get("dbname")
        return (host + (f":{port}" if port else "") + (f"/{name}" if name else "")).replace(" ", "")
    return ",".join(map(_place, each(address))) or "nowhere"


def _place(address: str) -> str:
    parts = _split(address)
    named = parts.netloc.rpartition("@")[2].lower()
    return f"{named}{parts.path.rstrip('/')}".replace(" ", "")


def each(address: str) -> list[str]:
    """The addresses of a cluster; Postgres' own way to write several hosts stays one of them."""
    return _BETWEEN.split(address.strip())


def masked(address: str) -> str:
    """An address as it is written, without a password or anything that may be one."""
    if _is_words(address):
        return _WORDS.sub(lambda one: one[0] if _is_shown(one[1]) else _without(one), address)
    return ",".join(map(_masked, each(address)))


def _masked(address: str) -> str:
    if "://" not in address:
        return address
    start, mark, query = _USER.sub(_user, address.partition("#")[0]).partition("?")
    kept = [
        part if _is_shown(part.partition("=")[0]) else f"{part.partition('=')[0]}={_HIDDEN}"
        for part in query.split("&")
        if part
    ]
    return start + mark + "&".join(kept)


def _user(found: re.Match[str]) -> str:
    name, colon, _ = found[0][:-1].partition(":")
    # A name alone may be a key; with a password after it, it is a name.
    return f"{name}:{_HIDDEN}@" if colon else f"{_HIDDEN}@"


def _without(found: re.Match[str]) -> str:
    return found[1] + found[2] + _HIDDEN


def _is_shown(key: str) -> bool:
    return key.strip().lower() in _SHOWN


def _is_words(address: str) -> bool:
    return "://" not in address and "=" in address


def _of_words(address: str) -> dict[str, str]:
    return {key: value.strip("'") for key, _, value in _WORDS.findall(address)}


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address if "://" in address else f"//{address}")
    except ValueError:
        return urlsplit("")


def hello(address: str) -> bytes:
    """What any server that speaks plain HTTP answers at once, whoever asks; else nothing."""
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
    if _is_words(address):
        said = _of_words(address)
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
