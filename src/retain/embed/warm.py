"""A model that a warm process has loaded: asked for a question's vector, before it is loaded here.

Texts to be stored are embedded here: they are many, and nobody should wait behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from retain import warm
from retain.embed import Embedder, FloatArray

__all__ = ["WarmModel"]

_PATIENCE_SECONDS: Final = 0.5  # loading the model takes about as long
_NEARLY: Final = 1e-3


class WarmModel:
    """A model on this machine, and the banks whose warm processes may answer in its place."""

    def __init__(self, local: Embedder, banks: Sequence[str]) -> None:
        self._local = local
        self._banks = list(dict.fromkeys(banks))

    @property
    def name(self) -> str:
        """The model's own name: its vectors are the same, wherever they are made."""
        return self._local.name

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._local.dimension

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, made here; from then on nobody else needs to be asked."""
        vectors = self._local.embed(texts)
        self._banks = []
        return vectors

    def query(self, text: str) -> FloatArray:
        """The unit vector of one text; who does not answer once is not asked again."""
        while banks := self._banks:
            vector = self._asked(banks[0], text)
            if vector is not None:
                return vector
            self._banks = banks[1:]
        return self._local.query(text)

    def _asked(self, bank: str, text: str) -> FloatArray | None:
        request = {"op": "embed", "texts": [text], "model": self.name}
        answer = warm.ask(bank, request, _PATIENCE_SECONDS)
        if answer is None or answer.get("model") != self.name:
            return None
        return _decoded(answer.get("vectors"), self.dimension)


def _decoded(vectors: Any, dimension: int) -> FloatArray | None:
    """The one vector of an answer; None for anything that is no unit vector."""
    import base64

    import numpy as np

    try:
        (text,) = vectors
        vector = np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float32)
    except (TypeError, ValueError):
        return None
    # Written so that a NaN fails it.
    if vector.size != dimension or not abs(float(vector @ vector) - 1) < _NEARLY:
        return None
    return vector
