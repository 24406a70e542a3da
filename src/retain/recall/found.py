"""A memory that was found for a hook: apart from what finds it, which a warm process may do.

What is said of memories wherever they are shown is here as well, as this is light.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = ["FAR_BEHIND", "MOST_CAUTIONS", "Found", "lowered", "outdated"]

FAR_BEHIND: Final = 0.25  # of the best score: what is below it is noise
MOST_CAUTIONS: Final = 3


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


def outdated(is_superseded: bool, successor: str, status: str) -> tuple[str, ...]:
    """What to beware of in a memory whose time may be over, in words."""
    replaced = f"superseded by {successor or 'a newer memory'}" if is_superseded else ""
    return tuple(filter(None, (replaced, status if status != "active" else "")))


def lowered(score: float, is_superseded: bool, status: str) -> float:
    """A score of the text arm's, less for such a memory."""
    from retain.recall.scoring import ARCHIVED, SUPERSEDED

    score *= SUPERSEDED if is_superseded else 1.0
    return score * (ARCHIVED if status == "archived" else 1.0)
