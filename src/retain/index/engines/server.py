"""What every adapter is made from: where its server is, and how its failures are told.

A message names the server and the fault in one line and holds no secret; the server's own words
are kept apart from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from retain.index.engines import addresses
from retain.index.engines.engine import EngineDown, EngineError, EngineRefused
from retain.text.sanitize import flat

_CLIENTS: Final[Mapping[str, str]] = {
    "qdrant": "qdrant_client",
    "upstash": "upstash_vector",
    "meilisearch": "meilisearch",
    "postgres": "psycopg",
}
# What reading an answer comes to that lacks something, or has it in another shape.
UNREADABLE: Final = (
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError,
    RecursionError, OSError,
)  # fmt: skip
MAX_BYTES: Final = 64 * 1024 * 1024  # of an answer
MAX_PAGES: Final = 20_000  # of a listing; a server that makes them up has always one more
_MAX_WORDS: Final = 200  # characters of a stranger's message
_MAX_SEEN: Final = 2_000  # characters that are looked through for what an answer says in words
_ERROR: Final = re.compile(r'"(?:error|message)"\s*:\s*"([^"]*)"')
_PASSING: Final = frozenset({408, 425, 429})  # of the errors that are not the server's own


class Server:
    """One server, and the bank's place on it."""

    def __init__(
        self,
        kind: str,
        url: str,
        key: str,
        container: str,
        *,
        seconds: float = 30.0,
        settings: Mapping[str, Any] | None = None,
        key_hint: str = "",
        notes: str = "",
    ) -> None:
        self.kind, self.name = kind, kind.capitalize()
        self.url, self.key = url, key
        self.urls = [part.strip().rstrip("/") for part in url.split(",")]
        self.container = container  # what holds the bank's documents; all of a bank's begin alike
        self.prefix = container.partition("-retain")[0] + "-retain"
        self.seconds = seconds  # for one request
        self.settings = settings or {}
        self.notes = notes  # a directory in which an adapter may remember something
        self.address = addresses.place(url)
        self._key_hint = key_hint
        hidden = {*filter(None, [key]), *addresses.secrets(url)}
        hidden |= {json.dumps(secret)[1:-1] for secret in hidden}  # as an answer may quote it
        self._hidden = sorted(hidden, key=len, reverse=True)

    def is_of_bank(self, container: str) -> bool:
        """Whether a container on the server holds documents of this bank."""
        return container == self.prefix or container.startswith(f"{self.prefix}-")

    def check(self) -> None:
        """Refuse a client that is missing, and an address or a key that no request can carry."""
        check_installed(self.kind)
        if fault := addresses.fault(self.kind, self.url):
            hint = f"engine.{self.kind}.url {fault}"
            raise self.refused("has no address that can be used", hint)
        if not (self.key.isascii() and self.key.isprintable() and self.key == self.key.strip()):
            why = "cannot be given its key: that has a line break, a space at an end or"
            raise self.locked(f"{why} a character that is not ASCII")

    def check_version(
        self, version: str, oldest: tuple[int, int], product: str = "version"
    ) -> None:
        """Refuse a server that is older than what Retain needs, or that is something else."""
        numbers = re.match(r"(\d{1,9})\.(\d{1,9})", version)
        if numbers is None:
            raise self.unreadable()
        if (int(numbers[1]), int(numbers[2])) < oldest:
            wanted = ".".join(map(str, oldest))
            why = f"has {product} {flat(version, 20)}, and {wanted} or newer is needed"
            raise self.refused(why)

    def down(self, why: str, words: str = "") -> EngineDown:
        """It cannot be asked now."""
        hint = "Nothing is lost: it is sent when the server is up again."
        return EngineDown(f"{self} {why}.", words=self._clean(words), hint=hint)

    def refused(self, why: str, hint: str = "", words: str = "") -> EngineRefused:
        """It will not do this however often it is asked."""
        return EngineRefused(f"{self} {why}.", words=self._clean(words), hint=hint)

    def locked(self, why: str, words: str = "") -> EngineRefused:
        """It wants another key, or any."""
        return self.refused(why, self._key_hint, words)

    def unreadable(self) -> EngineRefused:
        """What it said makes no sense: something else may be listening there."""
        hint = f"Is that {self.name}? engine.{self.kind}.url says where it is."
        return self.refused("gave an answer that cannot be read", hint)

    def unfit(self, made: int, wanted: int, hint: str = "") -> EngineRefused:
        """It holds vectors of another length."""
        return self.refused(f"holds vectors of {made} numbers, and these have {wanted}", hint)

    def answered(self, status: int, text: str) -> EngineError:
        """It answered with a status that is no success."""
        text = self._clean(text, _MAX_SEEN)
        found = _ERROR.search(text)
        words = found[1] if found else text
        if status in {401, 403}:
            why = "did not accept the key" if self.key else "asks for a key"
            why = "does not let this key do that" if self.key and status == 403 else why
            return self.locked(f"{why} ({status})", words)
        if status == 507:
            return self.refused(f"has no room left ({status})", words=words)
        if status >= 500 or status in _PASSING:
            return self.down(f"cannot answer at the moment ({status})", words)
        return self.refused(f"refused ({status})", words=words)

    def _clean(self, text: str, most: int = _MAX_WORDS) -> str:
        """A server's words without what is secret: it may repeat what it was given."""
        for secret in self._hidden:
            text = text.replace(secret, "***")
        return flat(text, most)

    def __str__(self) -> str:
        return f"{self.name} at {self.address}"


def check_installed(kind: str) -> None:
    """Refuse a product whose client is missing."""
    if kind in _CLIENTS and find_spec(_CLIENTS[kind]) is None:
        raise EngineRefused(
            f"{kind.capitalize()}'s client is not installed.",
            hint=f'Install it: pip install "retain-bank[{kind}]", or from a checkout: '
            f'pip install ".[{kind}]"',
        )
