"""Named tuples for what a hook loads: type checkers take them for those of `typing`.

`typing` and what it does for each class would cost a hook a third of a bare interpreter's start.
"""

from __future__ import annotations

from collections import namedtuple

__all__ = ["NamedTuple"]

_NOT_TAKEN = ("__annotations__", "__module__", "__qualname__", "__dict__")


class _Maker(type):
    """Makes a named tuple of a class that says which fields it has."""

    def __new__(cls, name: str, _bases: tuple[type, ...], space: dict[str, object]) -> type:
        fields = space["__annotations__"]
        assert isinstance(fields, dict)  # noqa: S101 - the compiler makes it
        defaults = [space[field] for field in fields if field in space]
        made = namedtuple(name, fields, defaults=defaults, module=str(space["__module__"]))  # type: ignore[misc]
        for key, value in space.items():
            if key not in fields and key not in _NOT_TAKEN:
                setattr(made, key, value)
        made.__annotations__ = fields
        return made


NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
