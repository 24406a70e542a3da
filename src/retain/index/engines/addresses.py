"""Addresses of servers: what of them may be seen, and whether the way there is safe for a key."""

from __future__ import annotations

import base64
import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import unquote

_HIDDEN: Final = "***"
_ESCAPES: Final = "in a user's name or password / ? # and @ are written %2F %3F %23 and %40."
EXPECTED: Final = f"begins with http:// or https://; {_ESCAPES}"
_EXPECTED_OF_POSTGRES: Final = f"looks like postgresql://user@host:5432/database; {_ESCAPES}"
NO_USER: Final = "has neither a user nor a password: its key comes from the environment."
_KEYED: Final = frozenset({"meilisearch", "upstash"})  # whose key is where a password would be sent
_SHOWN: Final = frozenset({"dbname", "host", "hostaddr", "port", "sslmode", "target_session_attrs"})
_ENCRYPTED: Final = frozenset({"require", "verify-ca", "verify-full"})
_MIN_SECRET: Final = 3  # characters: what is shorter would be found in any sentence
_BETWEEN: Final = re.compile(r",\s*(?=\w+://)")
# A password with an unescaped slash, question mark or hash does not match: everybody else would
# take a part of it for a host or a path.
_HOST: Final = r"(?:\[[\w:.%]*\]|[\w.%-]*)(?::[0-9]{1,5})?"
_ADDRESS: Final = re.compile(
    rf"([a-z][a-z0-9+.-]*)://(?:([^@/?#]*)@)?({_HOST}(?:,{_HOST})*)(/[^@?#]*)?(?:\?([^@#]*))?",
    re.IGNORECASE,
)


class Address(NamedTuple):
    """One address, taken apart."""

    scheme: str
    user: str  # with the password
    hosts: str
    path: str
    query: dict[str, str]

    @property
    def place(self) -> str:
        return f"{self.hosts.lower()}{self.path.rstrip('/')}"

    @property
    def password(self) -> str:
        return self.user.partition(":")[2] or self.query.get("password", "")


def parse(text: str) -> list[Address]:
    """The addresses of a server or a cluster; empty where one of them may be read in two ways."""
    found = [_ADDRESS.fullmatch(part.strip()) for part in _BETWEEN.split(text.strip())]
    return [_address(match) for match in found if match] if all(found) else []


def _address(match: re.Match[str]) -> Address:
    scheme, user, hosts, path, query = match.groups(default="")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return Address(scheme.lower(), user, hosts, path, {key: value for key, _, value in pairs})


def place(text: str) -> str:
    """Hosts, ports and paths: enough to know a server by, and nothing that only its owner knows."""
    return ",".join(address.place for address in parse(text)) or "nowhere"


def masked(text: str) -> str:
    """An address as it is written, without a password or anything that may be one."""
    found = parse(text)
    return ",".join(map(_masked, found)) if found else _HIDDEN if text else ""


def _masked(address: Address) -> str:
    name, colon, _ = address.user.partition(":")
    is_name = colon or address.scheme.startswith("postgres")  # else a name alone may be a key
    user = f"{name if is_name else _HIDDEN}{':' + _HIDDEN if colon else ''}@" if name else ""
    shown = "&".join(f"{k}={v if k in _SHOWN else _HIDDEN}" for k, v in address.query.items())
    return f"{address.scheme}://{user}{address.hosts}{address.path}{'?' * bool(shown)}{shown}"


def secrets(text: str) -> set[str]:
    """What of an address only its owner knows, in every way in which a server may repeat it."""
    found = set() if parse(text) else {text}
    for address in parse(text):
        name, colon, password = map(unquote, address.user.partition(":"))
        found |= {address.user, address.user.partition(":")[2], password if colon else name}
        if address.user:  # as a header has it
            found.add(base64.b64encode(f"{name}:{password}".encode()).decode())
        values = {value for key, value in address.query.items() if key not in _SHOWN}
        found |= values | set(map(unquote, values))
    return {secret for secret in found if len(secret) >= _MIN_SECRET}


def fault(kind: str, text: str) -> str:
    """What an address for an engine would have to look like; empty where it does."""
    found = parse(text)
    ports = re.findall(r":(\d+)(?=,|$)", ",".join(address.hosts for address in found))
    if not all(0 < int(port) < 65_536 for port in ports):
        return "has a port between 1 and 65535 after its host."
    if kind == "postgres":
        is_fit = len(found) == 1 and found[0].scheme in {"postgres", "postgresql"}
        return "" if is_fit else _EXPECTED_OF_POSTGRES
    if kind in _KEYED and any(address.user for address in found):
        return NO_USER
    is_fit = bool(found) and all(
        address.scheme in {"http", "https"} and address.hosts and "," not in address.hosts
        for address in found
    )
    return "" if is_fit else EXPECTED


def caution(kind: str, text: str) -> str:
    """Why others on the network may read along on the way to a server; empty if they cannot."""
    for address in parse(text):
        hosts = address.query.get("host", address.hosts).split(",")
        if all(map(_is_here, hosts)):
            continue
        if kind == "postgres" and address.query.get("sslmode") not in _ENCRYPTED:
            return (
                f"the way to {address.place} may be unencrypted, as the server likes it: "
                "?sslmode=verify-full in the address keeps the memories to the server"
            )
        if address.scheme == "http":
            return (
                f"the key and the memories go to {address.place} unencrypted: "
                "whoever is on the way can read them; https:// keeps them to the server"
            )
    return ""


def _is_here(host: str) -> bool:
    """Whether nothing that is sent to a `host:port` leaves this machine."""
    host = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    if host in {"", "localhost"} or host.startswith("/") or host.endswith(".localhost"):
        return True  # a Unix socket, or a name that always stands for this machine
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
