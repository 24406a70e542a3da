"""Why a model did not answer, in one line for a person and one word for a program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from retain.errors import RetainError
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.talk.models.access import Access

Kind = Literal[
    "no_key",
    "bad_key",
    "rate_limited",
    "overloaded",
    "broken_stream",
    "no_network",
    "too_long",
    "refused",
    "other",
]


class ModelError(RetainError):
    """A model that did not answer, or not to the end."""

    code = "model"

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        may_retry: bool = False,
    ) -> None:
        super().__init__(message, hint=hint or _HINTS.get(kind, ""), details={"kind": kind})
        self.kind: Kind = kind
        self.retry_after = retry_after  # seconds, where the server says how long to wait
        self.may_retry = may_retry  # the same request may succeed a little later


_HINTS: Final[dict[Kind, str]] = {
    "rate_limited": "Wait a little and send it again.",
    "overloaded": "Send it again in a moment, or choose another model with /model.",
    "broken_stream": "Send it again; what had come is kept.",
    "no_network": "Check the connection, then send it again.",
    "too_long": "/compact summarises the conversation so far; /new begins another.",
    "refused": "Say it in other words, or choose another model with /model.",
    "other": "`retain config list` shows the chat's settings.",
}


class _Failure(NamedTuple):
    """A way to fail: the sentence about it may name {host}, {model}, {variable}, {status}.

    {said} are the server's own words; where they may repeat a part of the key they are left out.
    """

    kind: Kind
    message: str
    hint: str = ""
    may_retry: bool = False


_FAILURES: Final = {
    "unpaid": _Failure(
        "other",
        "{host} wants to be paid first{said}",
        "Look at the account's plan and limits there.",
    ),
    "too_long": _Failure("too_long", "the conversation is longer than {model} can read"),
    "bad_key": _Failure(
        "bad_key",
        "{host} does not accept the key in {variable}",
        "Check the key, or make a new one there.",
    ),
    "refused": _Failure("refused", "{host} refused to answer{said}"),
    "rate_limited": _Failure("rate_limited", "{host} has had too many requests", may_retry=True),
    "overloaded": _Failure("overloaded", "{host} is overloaded", may_retry=True),
    "no_model": _Failure(
        "other",
        "{host} has no model {model}{said}",
        "Choose another with /model, or check chat.model and chat.base_url.",
    ),
    "redirect": _Failure(
        "other",
        "{host} redirects to another address, and nothing was sent there",
        "If that is right, set it: retain config set chat.base_url ADDRESS --global",
    ),
    "failed": _Failure("other", "{host} failed{status}{said}", may_retry=True),
    "rejected": _Failure("other", "{host} refused the request{status}{said}"),
    "silent": _Failure("overloaded", "nothing came from {host} for {seconds:g} seconds"),
    "broken": _Failure(
        "broken_stream", "the connection to {host} broke off during the reply", may_retry=True
    ),
    "cut_off": _Failure("broken_stream", "{host} ended the reply before it was complete"),
    "garbled": _Failure(
        "broken_stream",
        "{host} sent something that cannot be understood",
        "Check the address: `retain config list` shows the chat's settings.",
    ),
    "no_server": _Failure(
        "no_network", "{host} cannot be reached", "Start the server there, or change chat.base_url."
    ),
    "no_network": _Failure("no_network", "{host} cannot be reached{said}", may_retry=True),
}
# By the server's own name for it, which says more than its status.
_BY_NAME: Final = {
    "insufficient_quota": "unpaid",
    "billing_error": "unpaid",
    "context_length_exceeded": "too_long",
    "exceed_context_size_error": "too_long",
    "request_too_large": "too_long",
    "authentication_error": "bad_key",
    "permission_error": "bad_key",
    "invalid_api_key": "bad_key",
    "invalid_authentication": "bad_key",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "overloaded",
    "not_found_error": "no_model",
    "api_error": "failed",
    "timeout_error": "failed",
    "server_error": "failed",
}
_BY_STATUS: Final = {
    401: "bad_key",
    402: "unpaid",
    403: "bad_key",
    404: "no_model",
    408: "failed",
    409: "failed",
    413: "too_long",
    429: "rate_limited",
    503: "overloaded",
    529: "overloaded",
}
# Anthropic has no name for this, nor have most servers that speak OpenAI's protocol, so their
# words have to do; they are looked at only where the status says that the request is at fault.
_TOO_LONG: Final = re.compile(
    r"prompt is too long|input is too long|too many tokens"
    r"|(exceed|maximum|larger|longer|greater|overflow)[^.]{0,80}\bcontext\b"
    r"|\bcontext[ _](length|window|size|limit)[^.]{0,80}(exceed|overflow|too)",
    re.IGNORECASE,
)


def explain(error: Exception, to: Access, model: str, seconds: float) -> ModelError:
    """Return what an error of a provider's package means, whichever of the two it is."""
    import httpx2

    causes = (error, error.__cause__)
    if any(isinstance(it, httpx2.ReadTimeout | httpx2.WriteTimeout) for it in causes):
        return describe("silent", to, seconds=seconds)
    if any(isinstance(it, httpx2.ReadError | httpx2.RemoteProtocolError) for it in causes):
        return describe("broken", to)
    lost = next((it for it in causes if isinstance(it, httpx2.TransportError)), None)
    if lost is not None:
        return describe("no_server" if to.is_local else "no_network", to, words=str(lost))
    status, body = getattr(error, "status_code", 200), getattr(error, "body", None)
    if status == 200 and body is None:
        return describe("garbled", to)
    return _explain_refusal(error, status, body, to, model)


def _explain_refusal(
    error: Exception, status: int, body: object, to: Access, model: str
) -> ModelError:
    """Return what a server's refusal means: by its name for it, its words or its status."""
    names, words = [], body if isinstance(body, str) else ""
    if isinstance(body, Mapping):
        stated = body.get("error")
        stated = stated if isinstance(stated, Mapping) else body
        names, words = [stated.get("code"), stated.get("type")], str(stated.get("message") or "")
    failure = next((_BY_NAME[it] for it in names if isinstance(it, str) and it in _BY_NAME), "")
    # The names that come with every failure of a kind say less than the words.
    if failure in ("", "failed") and status in (200, 400, 422, 500):
        failure = "too_long" if _TOO_LONG.search(words[:2_000]) else failure
    if not failure or failure == "failed":
        failure = _BY_STATUS.get(status, failure)
    if not failure:
        usual = "failed" if status >= 500 else "rejected"
        failure = "redirect" if 300 <= status < 400 else usual
    explained = describe(failure, to, model, words, status)
    if explained.may_retry:
        explained.retry_after = _retry_after(getattr(error, "response", None))
        if explained.retry_after and failure == "rate_limited":
            explained.message += f" and asks to wait {explained.retry_after:g} seconds"
    return explained


def _retry_after(response: object) -> float | None:
    headers: Mapping[str, str] = getattr(response, "headers", {})
    try:
        if precise := headers.get("retry-after-ms"):
            return max(float(precise) / 1000, 0)
        return max(float(headers.get("retry-after", "")), 0)
    except ValueError:
        return None  # there is none, or it is a date


def describe(
    name: str,
    to: Access,
    model: str = "",
    words: str = "",
    status: int = 0,
    *,
    seconds: float = 0,
) -> ModelError:
    """Return the error of a name in the table, about one server."""
    failure = _FAILURES[name]
    said = ""
    if not words.lstrip().startswith("<"):  # a web page: the status says as much
        said = visible(" ".join(to.without_key(words).split()), keep_newlines=False)[:200]
    message = failure.message.format(
        host=to.host,
        model=visible(model, keep_newlines=False),
        variable=to.variable,
        status=f" ({status})" if status >= 400 else "",
        said=f": {said}" if said else "",
        seconds=seconds,
    )
    return ModelError(failure.kind, message, hint=failure.hint, may_retry=failure.may_retry)
