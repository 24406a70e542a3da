"""A reader of safetensors files: a header in JSON, then the bytes of every tensor.

Nothing a file says is believed before it is compared with the file's own size; a ValueError says
what is wrong. Tensors are read, not mapped: a map would end the process if someone shortened the
file behind it.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Tensors"]

_KINDS: Final = {"F32": "<f4", "F16": "<f2", "I8": "i1"}
_MAX_HEADER: Final = 10_000_000


class _Slot(NamedTuple):
    """Where in the file a tensor lies, and as what."""

    kind: str
    shape: tuple[int, ...]
    start: int
    size: int


class Tensors:
    """The tensors of an open file, each read when it is asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(_MAX_HEADER, size - 8):
            raise ValueError("the weights have no header of a believable size")
        self._slots = _slots(file.read(length), 8 + length, size)

    def names(self) -> list[str]:
        """The names of all tensors, in the order of the header."""
        return list(self._slots)

    def read(self, name: str) -> NDArray[Any]:
        """One tensor as it is stored."""
        slot = self._slots.get(name)
        if slot is None:
            raise ValueError(f"the weights have no {name}")
        if slot.kind not in _KINDS:
            raise ValueError(f"{name} is stored as {slot.kind[:20]}, not as {', '.join(_KINDS)}")
        stored = np.dtype(_KINDS[slot.kind])
        if math.prod(slot.shape) * stored.itemsize != slot.size:
            raise ValueError(f"{name} has not the size its shape asks for")
        self._file.seek(slot.start)
        data = self._file.read(slot.size)
        if len(data) != slot.size:
            raise ValueError(f"the weights end within {name}")
        return np.frombuffer(data, stored).reshape(slot.shape)


def _slots(header: bytes, start: int, size: int) -> dict[str, _Slot]:
    """Where a file of some size holds its tensors, the first of them at `start`."""
    try:
        places = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the weights' header is not JSON: {error}") from error
    if not isinstance(places, dict):
        raise ValueError("the weights' header is no JSON object")  # noqa: TRY004 - a bad file
    return {
        # Checkpoints of a whole BERT keep the encoder under this prefix.
        name.removeprefix("bert."): _slot(name, place, start, size)
        for name, place in places.items()
        if name != "__metadata__"
    }


def _slot(name: str, place: object, start: int, size: int) -> _Slot:
    match place:
        case {
            "dtype": str(kind),
            "shape": [*shape],
            "data_offsets": [int(first), int(last)],
        } if all(isinstance(n, int) and 0 <= n <= size for n in shape):
            if 0 <= first <= last <= size - start:
                return _Slot(kind, tuple(shape), start + first, last - first)
    raise ValueError(f"the weights' header places {name[:80]!r} outside the file")
