"""A memory that was found for a hook: apart from what finds it, which a warm process may do."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = ["Found"]


class Found(NamedTuple):
    """A memory that fits, as much of it as a prompt needs."""

    id: str
    collection: str
    title: str
    type: str
    tags: tuple[str, ...]
    created_at: str
    text: str
    path: str
    scope: str
    score: float
    cautions: tuple[str, ...] = ()
    size: int = -1  # of the file, and when it was modified, as the index knows it
    modified: int = -1

    @property
    def ref(self) -> str:
        return f"{self.collection}/{self.id}" if self.collection else self.id
