"""What is said of an engine's failure: one line, the right kind, and no secret."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from retain.index.engines.arm import EngineDown, EngineError, EngineLocked, EngineRefused
from retain.index.engines.naming import Names
from retain.index.engines.trouble import Speaker, plain, release
from tests.engines.rows import ROWS
from tests.engines.servers import odd


@pytest.mark.parametrize(
    "address, expected",
    [
        ("https://db.example.com", "https://db.example.com"),
        ("http://user:pass@127.0.0.1:6333/x/?key=1#frag", "http://127.0.0.1:6333/x"),
        ("http://[::1]:6333", "http://[::1]:6333"),
        ("localhost:6333", "localhost:6333"),
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
        (401, EngineLocked),
        (403, EngineLocked),
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


@pytest.mark.parametrize(
    "key, status, said",
    [
        ("", 401, "asks for a key (401)"),
        ("", 403, "asks for a key (403)"),
        ("sk-1234", 401, "did not accept the key (401)"),
        ("sk-1234", 403, "does not let this key do that (403)"),
    ],
)
def test_a_key_that_is_missing_wrong_or_small_is_told_apart(
    key: str, status: int, said: str
) -> None:
    found = Speaker("Qdrant", "http://h:1", key).answered(status, "")
    assert str(found) == f"Qdrant at http://h:1 {said}."


@pytest.mark.parametrize(
    "version, said",
    [
        ("1.15.9", "is 1.15.9, and 1.16 or newer is needed"),
        ("Do as I say", "does not say which version it is"),
        ("", "does not say which version it is"),
    ],
)
def test_a_server_that_is_old_or_something_else_is_refused(version: str, said: str) -> None:
    speaker = Speaker("Qdrant", "http://h:1")
    speaker.check_version("1.16.0", (1, 16))
    speaker.check_version("2.0", (1, 16))
    with pytest.raises(EngineRefused, match=said):
        speaker.check_version(version, (1, 16))


def test_a_server_without_an_address_is_told_which_setting_it_lacks() -> None:
    found = Speaker("Upstash", "").unusable()
    assert str(found) == "Upstash has no address that can be used."
    assert "config set engine.upstash.url" in found.hint


def test_a_server_that_repeats_the_key_does_not_give_it_away() -> None:
    speaker = Speaker("Qdrant", "http://h", "sk-1234", "")
    found = speaker.answered(403, '{"status": {"error": "no key sk-1234 here"}}')
    assert "sk-1234" not in str(found)
    assert found.words == "no key *** here"


def test_what_a_server_says_is_shortened_to_one_harmless_line() -> None:
    found = Speaker("Qdrant", "http://h").answered(500, "a\n\x1b[31m" + "b" * 10_000)
    assert str(found) == "Qdrant at http://h cannot answer at the moment (500)."
    assert found.words.startswith("a ")
    assert len(found.words) < 300
    assert "\n" not in found.words
    assert "\x1b" not in found.words


@pytest.mark.parametrize("said, shown", [("1.16.2-dev", "1.16.2-dev"), ("Do as I say", "unknown")])
def test_a_version_is_told_only_where_it_is_one(said: str, shown: str) -> None:
    assert release(said) == shown


class _Encrypted(HTTPServer):
    """A server whose certificate nobody has signed but itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), BaseHTTPRequestHandler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificate(folder / "certificate.pem"))
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def get_request(self) -> tuple[socket.socket, Any]:
        with suppress(ssl.SSLError):  # which is what a client does that does not trust it
            return super().get_request()
        raise ConnectionError


def _certificate(path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
    return path


@contextmanager
def _encrypted(folder: Path) -> Iterator[int]:
    with _Encrypted(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("product", ["qdrant", "upstash", "meilisearch"])
def test_a_certificate_that_nobody_signed_is_told_from_a_server_without_encryption(
    tmp_path: Path, product: str
) -> None:
    row = next(row for row in ROWS if row.product == product)
    with _encrypted(tmp_path) as port, odd("html") as other:
        for where, told in ((port, "not to be trusted"), (other, "does not speak")):
            arm = row.arm(f"https://127.0.0.1:{where}", "k", Names("b"), 60.0)
            with pytest.raises(EngineRefused, match=told):
                arm.version()
            arm.close()
