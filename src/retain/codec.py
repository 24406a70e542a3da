"""How one kind of file becomes a memory and back, by its ending."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from retain import markdown

__all__ = ["Codec", "codec"]


class Codec(Protocol):
    """Bytes to values and back, losing none."""

    def parse(self, data: bytes) -> markdown.Document: ...

    def edit(
        self, data: bytes, changes: Mapping[str, object], body: str | None = None
    ) -> bytes: ...


def codec(name: str) -> Codec:
    """The codec for a file, by its ending."""
    if name.endswith(".json"):
        from retain import records

        return records
    return markdown
