"""What is said of an engine's failure: one line, the right kind, and no secret."""

from __future__ import annotations

import pytest

from retain.engines.arm import EngineDown, EngineError, EngineRefused
from retain.engines.trouble import Speaker, plain


@pytest.mark.parametrize(
    "address, expected",
    [
        ("https://db.example.com", "https://db.example.com"),
        ("http://user:pass@127.0.0.1:6333/x/?key=1#frag", "http://127.0.0.1:6333/x"),
        ("http://[::1]:6333", "http://[::1]:6333"),
        ("localhost:6333", "//localhost:6333"),
        ("http://host:port", "an address that cannot be read"),
        ("http://h/\x1b[2J", "http://h/\\x1b[2J"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(address: str, expected: str) -> None:
    assert plain(address) == expected


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, EngineRefused),
        (401, EngineRefused),
        (403, EngineRefused),
        (404, EngineRefused),
        (408, EngineDown),
        (413, EngineRefused),
        (429, EngineDown),
        (500, EngineDown),
        (503, EngineDown),
        (507, EngineRefused),
        (302, EngineRefused),
    ],
)
def test_a_status_says_whether_trying_again_helps(status: int, kind: type[EngineError]) -> None:
    found = Speaker("Qdrant", "http://h:1").answered(status, "")
    assert type(found) is kind
    assert str(found).startswith("Qdrant at http://h:1 ")


def test_a_server_that_repeats_the_key_does_not_give_it_away() -> None:
    speaker = Speaker("Qdrant", "http://h", "sk-1234", "")
    found = speaker.answered(403, '{"status": {"error": "no key sk-1234 here"}}')
    assert "sk-1234" not in str(found)
    assert "no key *** here" in str(found)


def test_what_a_server_says_is_shortened_to_one_harmless_line() -> None:
    found = str(Speaker("Qdrant", "http://h").answered(500, "a\n\x1b[31m" + "b" * 10_000))
    assert len(found) < 300
    assert "\n" not in found
    assert "\x1b" not in found
