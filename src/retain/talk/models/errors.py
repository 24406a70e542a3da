"""Why a model did not answer, in one line for a person and one word for a program."""

from __future__ import annotations

from typing import Final, Literal

from retain.errors import RetainError

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

_HINTS: Final[dict[Kind, str]] = {
    "rate_limited": "Wait a little and send it again.",
    "overloaded": "Send it again in a moment, or choose another model with /model.",
    "broken_stream": "Send it again; what had come is kept.",
    "no_network": "Check the connection, then send it again.",
    "too_long": "/compact summarises the conversation so far; /new begins another.",
    "refused": "Say it in other words, or choose another model with /model.",
    "other": "`retain config list` shows the chat's settings.",
}


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
        again: bool = False,
        said: str = "",
    ) -> None:
        super().__init__(message, hint=hint or _HINTS.get(kind, ""), details={"kind": kind})
        self.kind: Kind = kind
        self.retry_after = retry_after  # seconds, where the server says how long to wait
        self.again = again  # whether the same request may succeed a little later
        self.said = said  # what had come of the reply
