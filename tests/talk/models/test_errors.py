"""What a failed connection to a server far away means; a local one shows the rest."""

from __future__ import annotations

import httpx2
import pytest

from retain.talk.models.access import Access
from retain.talk.models.errors import ModelError, explain

FAR = Access("https://api.example", "key", "X_API_KEY")


class Limited(Exception):
    """An error as both packages raise them."""

    status_code, body = 429, None

    def __init__(self, headers: dict[str, str]) -> None:
        self.response = httpx2.Response(429, headers=headers)


def explained(error: Exception) -> ModelError:
    return explain(error, FAR, "a-model", 300)


def test_network_that_is_down_is_tried_again() -> None:
    error = explained(httpx2.ConnectError("certificate verify failed"))
    assert (error.kind, error.may_retry) == ("no_network", True)
    assert error.message == "api.example cannot be reached: certificate verify failed"
    assert explained(httpx2.ConnectTimeout("timed out")).may_retry


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "nan?"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read(headers: dict[str, str], seconds: float | None) -> None:
    error = explained(Limited(headers))
    assert (error.kind, error.retry_after) == ("rate_limited", seconds)
