"""The clients of servers, which come with an extra of the package; whether they are installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from retain.index.engines.arm import EngineRefused

_CLIENTS: Final[Mapping[str, str]] = {
    "qdrant": "qdrant_client",
    "upstash": "upstash_vector",
    "meilisearch": "meilisearch",
    "postgres": "psycopg",
}


def check_installed(kind: str) -> None:
    """Refuse a product whose client is missing, before anyone waits for its server."""
    from importlib.util import find_spec

    if kind in _CLIENTS and find_spec(_CLIENTS[kind]) is None:
        raise not_installed(kind)


def not_installed(kind: str) -> EngineRefused:
    """What is said where a client is missing."""
    return EngineRefused(
        f"{kind.capitalize()}'s client is not installed.",
        hint=f'Install it: pip install "retain-bank[{kind}]", or from a checkout: '
        f'pip install ".[{kind}]"',
    )
