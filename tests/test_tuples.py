"""Our named tuples are those of `typing` in all but what they cost."""

from __future__ import annotations

import copy
import pickle
import typing

from retain import tuples
from retain.place import Place

if typing.TYPE_CHECKING:
    from typing import NamedTuple
else:
    from retain.tuples import NamedTuple


class Pair(NamedTuple):
    """Two things."""

    left: int
    right: str = "r"

    @property
    def both(self) -> str:
        return f"{self.left}{self.right}"


def test_fields_defaults_docs_and_properties_are_those_of_the_class() -> None:
    assert Pair(1) == (1, "r")
    assert Pair(1).both == "1r"
    assert Pair(right="x", left=2)._replace(left=3)._asdict() == {"left": 3, "right": "x"}
    assert (Pair.__name__, Pair.__doc__, Pair.__module__) == ("Pair", "Two things.", __name__)
    assert Pair._fields == tuple(Pair.__annotations__) == ("left", "right")
    assert typing.get_type_hints(Pair) == {"left": int, "right": str}


def test_values_travel_between_processes() -> None:
    place = Place("/a", "retain", "project", "why", True)
    assert pickle.loads(pickle.dumps(place)) == copy.copy(place) == place  # noqa: S301 - our own


def test_it_is_not_the_one_of_typing() -> None:
    assert tuples.NamedTuple is not typing.NamedTuple
