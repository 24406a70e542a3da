"""What is seen of a server's address, and when a person is told that others may read along."""

from __future__ import annotations

import pytest

from retain.index.engines.addresses import (
    caution,
    fault,
    has_password,
    is_clear,
    masked,
    place,
    secrets,
)


@pytest.mark.parametrize(
    "address, seen, where",
    [
        ("http://127.0.0.1:6333", "http://127.0.0.1:6333", "127.0.0.1:6333"),
        ("http://ada:pw@h:1/x/", "http://ada:***@h:1/x/", "h:1/x"),
        ("https://pw@h", "https://***@h", "h"),
        ("https://h/?token=pw&port=5#pw", "https://h/?token=***&port=5", "h"),
        (
            "postgresql://ada:p%40pw@h1:1,h2:2/db?sslmode=require&password=pw",
            "postgresql://ada:***@h1:1,h2:2/db?sslmode=require&password=***",
            "h1:1,h2:2/db",
        ),
        ("host=h port=5 user=ada password=pw", "host=h port=5 user=*** password=***", "h:5"),
        (
            "password = 'pw host=no \\' pw' dbname=d host=h",
            "password = *** dbname=d host=h",
            "h/d",
        ),
        ("http://a:1, http://ada:pw@b:2/x", "http://a:1,http://ada:***@b:2/x", "a:1,b:2/x"),
        ("", "", "nowhere"),
        ("http://[", "http://***", "nowhere"),
        ("bob:pw@db.example:7700", "bob:***@db.example:7700", "db.example:7700"),
        ("pw@db.example", "***@db.example", "db.example"),
        ("http://bob:x@pw@h:1", "http://***", "nowhere"),
        ("http://bob:hun/pw@127.0.0.1:9", "http://***", "nowhere"),
        ("http://bob:1/pw@127.0.0.1:9", "http://***", "nowhere"),
        ("postgresql://u:x/pw@127.0.0.1:9/db", "postgresql://***", "nowhere"),
        ("postgresql://h/db?user=a@pw", "postgresql://***", "nowhere"),
        ("http://bob:pw#x@h", "http://***", "nowhere"),
        ("http://bob:x?pw@h", "http://***", "nowhere"),
        ("bob:x/pw@h", "***", "nowhere"),
        ("http:/bob:pw@h", "***", "nowhere"),
        ("http://bob:pw", "http://***", "nowhere"),
        ("http://bob:pw,x://y@h", "http://***,x://***@h", "nowhere"),
        ("http://a:1,http://bob:x/pw@h", "http://a:1,http://***", "nowhere"),
        ("host=h password='it''s a pw'", "***", "nowhere"),
        ("host=h password='pw", "***", "nowhere"),
        ("host=h password=x pw", "***", "nowhere"),
        ("password=x://pw host=h", "password=*** host=h", "h"),
        ("host=h dbname='postgresql://u:pw@h/x'", "host=h dbname=***", "h/***"),
    ],
)
def test_an_address_is_seen_without_passwords(address: str, seen: str, where: str) -> None:
    assert masked(address) == seen
    assert place(address) == where
    assert "pw" not in seen + where


@pytest.mark.parametrize(
    "address",
    ["http://u:a/b@h", "h?a@b", "http://h:x", "a=b c", "http://h,http://u:a#b@h", "u:a/b@h"],
)
def test_an_address_that_may_be_read_in_two_ways_is_not_clear(address: str) -> None:
    assert not is_clear(address)
    assert is_clear("http://u:a%2Fb@h:1/x?y=z,https://[::1]:1")
    assert is_clear("postgresql://u:a@h1:1,h2/db")
    assert is_clear("host=/run/postgresql dbname=x")
    assert is_clear("")


@pytest.mark.parametrize(
    "address, found",
    [
        ("http://h:1/path", set()),
        ("http://the-key@h", {"the-key", "dGhlLWtleTo="}),
        ("http://a:p%40ss@h", {"a:p%40ss", "a:p@ss", "p%40ss", "p@ss", "YTpwQHNz"}),
        ("http://h:1, http://h:2?token=t0ken&port=2", {"t0ken"}),
        ("host=h user=ada password='a \\' b'", {"a ' b"}),
    ],
)
def test_what_a_server_must_not_repeat_is_known(address: str, found: set[str]) -> None:
    assert secrets(address) == found


def test_a_password_is_seen_wherever_an_address_may_have_it() -> None:
    for address in (
        "postgresql://a:p%40ss@h/d",
        "postgresql://a@h/d?password=p",
        "host=h password='p'",
    ):
        assert has_password(address), address
    for address in ("postgresql://a@h/d", "postgresql://h/d?sslmode=require", "host=h user=a"):
        assert not has_password(address), address


@pytest.mark.parametrize("user", ["ada@", "ada:pw@", ":pw@"])
def test_a_user_in_an_address_is_refused_where_the_key_would_take_its_place(user: str) -> None:
    for kind in ("meilisearch", "upstash"):
        assert "neither a user nor a password" in fault(kind, f"https://{user}h:1")
        assert fault(kind, "https://h:1") == ""
    assert fault("qdrant", f"https://{user}h:1,https://h:2") == ""
    assert fault("postgres", f"postgresql://{user}h:1/d") == ""


@pytest.mark.parametrize(
    "kind, address",
    [
        ("qdrant", "http://127.0.0.1:6333"),
        ("qdrant", "http://localhost:6333"),
        ("qdrant", "http://[::1]:6333"),
        ("qdrant", "https://qdrant.example.com"),
        ("qdrant", "http://127.0.0.1:1, https://b.example.com"),
        ("postgres", "postgresql:///retain"),
        ("postgres", "postgresql://ada@127.0.0.1/retain"),
        ("postgres", "postgresql://[::1]:5432/retain"),
        ("postgres", "postgresql:///retain?host=/run/postgresql"),
        ("postgres", "postgresql://ada@db.example.com/retain?sslmode=verify-full"),
        ("postgres", "host=db.example.com sslmode=require"),
    ],
)
def test_a_way_that_nobody_reads_along_needs_no_caution(kind: str, address: str) -> None:
    assert caution(kind, address) == ""


@pytest.mark.parametrize(
    "kind, address, advice",
    [
        ("qdrant", "http://qdrant.example.com:6333", "https://"),
        ("qdrant", "http://127.0.0.1:1,http://b.example.com:2", "https://"),
        ("meilisearch", "http://10.0.0.7:7700", "https://"),
        ("upstash", "http://ada:pw@0.0.0.0:1", "https://"),
        ("postgres", "postgresql://ada:pw@db.example.com/retain", "sslmode"),
        ("postgres", "postgresql://127.0.0.1,db.example.com/retain", "sslmode"),
        ("postgres", "postgresql://ada:pw@db.example.com/retain?sslmode=prefer", "sslmode"),
        ("postgres", "host=db.example.com password=pw", "sslmode"),
    ],
)
def test_a_way_that_others_may_read_along_is_told_of(kind: str, address: str, advice: str) -> None:
    said = caution(kind, address)
    assert advice in said
    assert "pw" not in said
