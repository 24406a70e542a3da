"""What a failed connection to a server far away means; a local one shows the rest."""

from __future__ import annotations

import ssl

import httpx2
import pytest

from retain.talk.models.access import Access
from retain.talk.models.errors import ModelError
from retain.talk.models.patience import Patience
from retain.talk.models.wire import client, lost, waiting

FAR = Access("https://api.example", "key", "X_API_KEY")


def caused(by: Exception) -> httpx2.ConnectError:
    error = httpx2.ConnectError("All connection attempts failed")
    error.__cause__ = by
    return error


def test_a_network_that_is_down_is_tried_again() -> None:
    error = lost(FAR, caused(OSError(101, "Network is unreachable")), Patience())
    assert (error.kind, error.again) == ("no_network", True)
    assert error.message == "api.example cannot be reached: Network is unreachable"


def test_a_certificate_that_is_wrong_is_not() -> None:
    error = lost(FAR, caused(ssl.SSLError(1, "certificate verify failed")), Patience())
    assert (error.kind, error.again) == ("no_network", False)
    assert "certificate" in error.message


def test_a_connection_that_takes_too_long_to_make_is_tried_again() -> None:
    error = lost(FAR, httpx2.ConnectTimeout("timed out"), Patience())
    assert (error.kind, error.again) == ("no_network", True)


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "nan?"}, None),
        ({}, None),
    ],
)
def test_how_long_to_wait_is_read_in_every_form(
    headers: dict[str, str], seconds: float | None
) -> None:
    error = waiting(ModelError("overloaded", "x", again=True), headers)
    assert error.retry_after == seconds


@pytest.mark.parametrize("to", [FAR, FAR._replace(base_url="http://127.0.0.1:1/v1")])
def test_a_model_may_think_for_minutes_wherever_it_is(to: Access) -> None:
    timeout = client(to, Patience()).timeout
    assert timeout.read == 300
    assert timeout.connect == 10
