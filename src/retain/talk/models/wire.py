"""The way to a server, and what went wrong on it; the only module that knows of httpx."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Collection, Iterator, Mapping, Set
from functools import cache
from typing import TYPE_CHECKING, Final

from retain.talk.models.access import Access
from retain.talk.models.errors import ModelError
from retain.talk.models.patience import Patience
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx2


# What the packages raise on answers that make no sense.
ERRORS_OF_GARBAGE: Final = (
    ValueError,
    TypeError,
    AttributeError,
    KeyError,
    ArithmeticError,
    RecursionError,
)

# Anthropic has no code for this, nor have most servers that speak OpenAI's protocol, so their
# words have to do; they are looked at only where the status says that the request is at fault.
_TOO_LONG: Final = re.compile(
    r"prompt is too long|input is too long|too many tokens"
    r"|(exceed|maximum|larger|longer|greater|overflow)[^.]{0,80}\bcontext\b"
    r"|\bcontext[ _](length|window|size|limit)[^.]{0,80}(exceed|overflow|too)",
    re.IGNORECASE,
)
_TOO_LONG_NAMES: Final = frozenset(
    "context_length_exceeded exceed_context_size_error request_too_large".split()
)
_BAD_KEY_NAMES: Final = frozenset(
    "authentication_error permission_error invalid_api_key invalid_authentication".split()
)
_REFUSED_NAMES: Final = frozenset("content_filter content_policy_violation".split())
_NO_MONEY: Final = frozenset("insufficient_quota billing_error".split())
_AGAIN: Final = (408, 409, 500, 502, 504)


@cache
def tls() -> SSLContext:
    """The certificates that are trusted; they take longer to load than anything else here."""
    import httpx2

    return httpx2.create_ssl_context()


def client(to: Access, patience: Patience) -> httpx2.AsyncClient:
    """Connections for one reply; they are gone when it is closed.

    Redirects are not followed: the key and the conversation go where the person said. A proxy has
    no way to a server on this machine.
    """
    import httpx2

    return httpx2.AsyncClient(
        verify=tls(),
        timeout=httpx2.Timeout(patience.chunk, connect=patience.connect),
        follow_redirects=False,
        trust_env=not to.is_local,
    )


def transport_errors() -> tuple[type[Exception], ...]:
    """What a connection that fails under a stream raises."""
    import httpx2

    return (httpx2.HTTPError, httpx2.StreamError)


def refusal(
    to: Access, model: str, status: int, names: Collection[str | None], words: str
) -> ModelError:
    """What a server's refusal means, by its names for it first and then by its status."""
    named = {name for name in names if name}
    host = to.host
    if named & _NO_MONEY or status == 402:
        return ModelError(
            "other",
            f"{host} wants to be paid first{_said(to, words)}",
            hint="Look at the account's plan and limits there.",
        )
    if _is_too_long(status, named, words):
        return ModelError("too_long", f"the conversation is longer than {model} can read")
    if status in (401, 403) or named & _BAD_KEY_NAMES:
        # Its words are left out: some repeat a part of the key.
        return ModelError(
            "bad_key",
            f"{host} does not accept the key in {to.variable}",
            hint=f"Check {to.variable}, or make a new key there.",
        )
    if named & _REFUSED_NAMES:
        return ModelError("refused", f"{host} refused to answer{_said(to, words)}")
    return _by_status(to, model, status, named, words)


def _by_status(to: Access, model: str, status: int, named: Set[str], words: str) -> ModelError:
    host = to.host
    if status == 429 or "rate_limit_error" in named:
        return ModelError("rate_limited", f"{host} has had too many requests", again=True)
    if status in (503, 529) or "overloaded_error" in named:
        return ModelError("overloaded", f"{host} is overloaded", again=True)
    if status == 404 or "not_found_error" in named:
        return ModelError(
            "other",
            f"{host} has no model {visible(model)!r}{_said(to, words)}",
            hint="Choose another with /model, or check chat.model and chat.base_url.",
        )
    if 300 <= status < 400:
        return ModelError(
            "other",
            f"{host} redirects to another address, and nothing was sent there",
            hint="If that is right, set it: retain config set chat.base_url ADDRESS",
        )
    if status in _AGAIN or named & {"api_error", "timeout_error", "server_error"}:
        what = f"{host} failed ({status})" if status >= 400 else f"{host} failed"
        return ModelError("other", f"{what}{_said(to, words)}", again=True)
    return ModelError("other", f"{host} refused the request ({status}){_said(to, words)}")


def _is_too_long(status: int, named: Set[str], words: str) -> bool:
    if status == 413 or named & _TOO_LONG_NAMES:
        return True
    return status in (200, 400, 422, 500) and _TOO_LONG.search(words[:2_000]) is not None


def _said(to: Access, words: str) -> str:
    """The server's own words, on one line and without the key."""
    if words.lstrip().startswith("<"):
        return ""  # a web page: the status says as much
    flat = visible(" ".join(to.without_key(words).split()), keep_newlines=False)
    return f": {flat[:200]}" if flat else ""


def waiting(error: ModelError, headers: Mapping[str, str]) -> ModelError:
    """The same, with how long the server asks to wait."""
    asked = _seconds(headers)
    if asked is not None and error.again:
        error.retry_after = asked
        if error.kind == "rate_limited":
            error.message = f"{error.message} and asks to wait {asked:g} seconds"
    return error


def _seconds(headers: Mapping[str, str]) -> float | None:
    precise, usual = headers.get("retry-after-ms", ""), headers.get("retry-after", "").strip()
    try:
        if precise:
            return max(float(precise) / 1000, 0)
        if usual.replace(".", "", 1).isdecimal():
            return float(usual)
        at = email.utils.parsedate_to_datetime(usual) if usual else None
    except ValueError:
        return None
    return max(round(at.timestamp() - time.time()), 0) if at else None


def lost(to: Access, error: BaseException, patience: Patience) -> ModelError:
    """What a failed connection means."""
    import ssl

    import httpx2

    chain = list(_causes(error))
    if any(isinstance(one, httpx2.ReadTimeout | httpx2.WriteTimeout) for one in chain):
        silence = f"nothing came from {to.host} for {patience.chunk:g} seconds"
        return ModelError("overloaded", silence)
    if any(isinstance(one, httpx2.ReadError | httpx2.RemoteProtocolError) for one in chain):
        return ModelError(
            "broken_stream", f"the connection to {to.host} broke off during the reply", again=True
        )
    why = next((one.strerror for one in chain if isinstance(one, OSError) and one.strerror), "")
    failed = any(isinstance(one, ssl.SSLError) for one in chain)
    return ModelError(
        "no_network",
        f"{to.host} cannot be reached{_said(to, why)}",
        hint="Start the server there, or change chat.base_url." if to.is_local else "",
        again=not to.is_local and not failed,
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _causes(one)
        error = error.__cause__ or error.__context__


def garbled(to: Access) -> ModelError:
    """For an answer that is none."""
    return ModelError(
        "broken_stream",
        f"{to.host} sent something that cannot be understood",
        hint="Check the address: `retain config list` shows the chat's settings.",
    )


def cut_off(to: Access) -> ModelError:
    """For an answer that stops before its end, though its connection was closed in order."""
    return ModelError("broken_stream", f"{to.host} ended the reply before it was complete")
