"""What is said when an engine fails: who, where and why, in one line that holds no secret."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit, urlunsplit

from retain.index.engines import addresses
from retain.index.engines.arm import (
    EngineAbsent,
    EngineDown,
    EngineError,
    EngineLocked,
    EngineRefused,
    EngineUnfit,
)
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from ssl import SSLError


# What it comes to where an answer lacks something, or has it in another shape; a client asserts.
UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    AssertionError,
    RecursionError,
    OSError,
)

_NOWHERE: Final = "an address that cannot be read"
_WORDS: Final = 200  # characters of a stranger's message that are shown
_PASSING: Final = frozenset({408, 425, 429})  # of the errors that are not the server's own
_FULL: Final = 507
_MUCH: Final = 2_000  # characters that are looked through for what an answer says in words
_VERSION: Final = re.compile(r"[\w.+-]{1,20}", re.ASCII)
_NUMBERS: Final = re.compile(r"(\d{1,9})\.(\d{1,9})", re.ASCII)
_ERROR: Final = re.compile(r'"(?:error|message)"\s*:\s*"([^"]*)"')


def plain(address: str) -> str:
    """An address as anyone may see it: without the person's name, password, query or fragment."""
    if not addresses.is_clear(address):
        return _NOWHERE
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return _NOWHERE
    whole = urlunsplit((parts.scheme, host + port, parts.path.rstrip("/"), "", ""))
    return flat(whole.removeprefix("//"), _WORDS)


def release(said: str) -> str:
    """A version as a server tells it, where it is one and no sentence."""
    return said if _VERSION.fullmatch(said) else "unknown"


def _said(answer: str) -> str:
    """What an answer says in words, if it says anything in a way that is known."""
    found = _ERROR.search(answer[:_MUCH])
    return found[1] if found else answer.strip()


def _tls_fault(error: BaseException) -> SSLError | None:
    """The fault of TLS itself, however many clients have wrapped it."""
    from ssl import SSLError

    inside: list[object] = [error]
    seen: list[object] = []
    while inside:
        one = inside.pop()
        if isinstance(one, SSLError):
            return one
        if isinstance(one, BaseException) and one not in seen:
            seen.append(one)
            inside += [one.__cause__, one.__context__, *one.args]
    return None


class Speaker:
    """Turns the failures of one server into errors."""

    def __init__(self, name: str, address: str, *secrets: str) -> None:
        self.name, self.address = name, plain(address)
        self._has_key = any(secrets)
        self._has_user = addresses.has_user(address)
        found = {*filter(None, secrets), *addresses.secrets(address)}
        found |= {json.dumps(secret)[1:-1] for secret in found}  # as an answer may quote it
        self._secrets = sorted(found, key=len, reverse=True)

    def down(self, why: str, words: str = "") -> EngineDown:
        """It could not be reached, or has trouble of its own."""
        hint = "Nothing is lost: it is told as soon as it is up."
        return EngineDown(self._line(why), words=self._clean(words), hint=hint)

    def refused(self, why: str, hint: str = "", words: str = "") -> EngineRefused:
        """It will not do this however often it is asked."""
        return EngineRefused(self._line(why), words=self._clean(words), hint=hint)

    def unfit(self, why: str) -> EngineUnfit:
        """It is made for another model's vectors."""
        return EngineUnfit(self._line(why))

    def absent(self, status: int, words: str) -> EngineAbsent:
        """What was asked about is not there."""
        return EngineAbsent(
            self._line(f"refused ({status})"), words=self._clean(_said(self._hidden(words)))
        )

    def answered(self, status: int, said: str) -> EngineError:
        """It answered with a status that is no success, and in words that are its own."""
        words = _said(self._hidden(said))
        if status in {401, 403}:
            return EngineLocked(self._line(self._locked(status)), words=self._clean(words))
        if status == _FULL:
            return self.refused(f"has no room left ({status})", words=words)
        if status >= 500 or status in _PASSING:
            return self.down(f"cannot answer at the moment ({status})", words)
        return self.refused(f"refused ({status})", words=words)

    def keyless(self) -> EngineLocked:
        """It is known to ask for a key, and there is none."""
        return EngineLocked(self._line("asks for a key"))

    def check_key(self, key: str) -> None:
        """Refuse a key that no header can hold, before anybody else shows it in saying so."""
        if not (key.isascii() and key.isprintable() and key == key.strip()):
            raise EngineLocked(
                self._line(
                    "cannot be given its key: that has a line break, a space at an end or"
                    " a character that is not ASCII"
                )
            )

    def _locked(self, status: int) -> str:
        if not self._has_key:
            return f"asks for a key ({status})"
        return (
            "did not accept the key (401)"
            if status == 401
            else "does not let this key do that (403)"
        )

    def endless(self) -> EngineRefused:
        """It tells of more than there can be: listened to, it would go on for ever."""
        return self.refused("gave an answer without an end", self._else)

    def unusable(self) -> EngineRefused:
        """Its address may be read in more ways than one: a part of a password could be asked."""
        sets = f"`retain config set {self._setting} https://... --global` sets it."
        hint = f"{sets} It {addresses.EXPECTED}"
        return self.refused("has no address that can be used", hint)

    def check_no_user(self) -> None:
        """Refuse an address with a user: what would be sent for it is sent for the key."""
        if self._has_user:
            hint = f"{self._setting} {addresses.NO_USER}"
            raise self.refused("takes no user and no password in its address", hint)

    def check_version(self, said: str, oldest: tuple[int, int]) -> None:
        """Refuse a server that is older than what Retain needs, or that is something else."""
        numbers = _NUMBERS.match(said)
        if numbers is None:
            raise self.refused("does not say which version it is", self._else)
        if (int(numbers[1]), int(numbers[2])) < oldest:
            wanted = ".".join(map(str, oldest))
            raise self.refused(f"is {release(said)}, and {wanted} or newer is needed")

    def untrusted(self, error: BaseException) -> EngineRefused | None:
        """What TLS found fault with, if that is what an error came of."""
        from ssl import SSLCertVerificationError

        fault = _tls_fault(error)
        if fault is None:
            return None
        if isinstance(fault, SSLCertVerificationError):
            return self.refused("has a certificate that is not to be trusted")
        return self.refused("does not speak the encryption of https://", "Is it http:// there?")

    def unreadable(self) -> EngineRefused:
        """What it said makes no sense: something else may be listening there."""
        return self.refused("gave an answer that cannot be read", self._else)

    @property
    def _setting(self) -> str:
        return f"engine.{self.name.lower()}.url"

    @property
    def _else(self) -> str:
        """What to look at where something else may be listening."""
        return f"Is that {self.name}? {self._setting} says where it is."

    def _line(self, why: str) -> str:
        return f"{self.name} at {self.address} {why}." if self.address else f"{self.name} {why}."

    def _clean(self, said: str) -> str:
        return flat(self._hidden(said), _WORDS)

    def _hidden(self, said: str) -> str:
        """What was said without what is secret: a server may repeat what it was given."""
        for secret in self._secrets:
            said = said.replace(secret, "***")
        return said
