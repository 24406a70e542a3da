"""What is seen of a server's address, and when a person is told that others may read along."""

from __future__ import annotations

import pytest

from retain.engines.addresses import caution, masked, place


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
        ("http://[", "http://[", "nowhere"),
    ],
)
def test_an_address_is_seen_without_passwords(address: str, seen: str, where: str) -> None:
    assert masked(address) == seen
    assert place(address) == where
    assert "pw" not in seen + where


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
