"""Texts as vectors: one small interface, and its implementations by name.

Vectors of two models must never be compared, so an embedder's name says which weights made them;
it is known before any weights are loaded. Nothing heavy is imported before the first vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from retain.errors import RetainError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[np.float32]"

BUNDLED: Final = "bundled"
NONE: Final = "none"


class EmbedderError(RetainError):
    """Texts cannot be turned into vectors."""

    code = "embedder"
    usual_hint = "Words are still found without it; `retain config list` shows what is set."


class Embedder(Protocol):
    """Something that turns texts into unit vectors; several threads may use it at once."""

    @property
    def name(self) -> str:
        """Which model this is; vectors of two names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        ...

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order, as the rows of one array."""
        ...

    def query(self, text: str) -> FloatArray:
        """The unit vector of one text."""
        vector: FloatArray = self.embed([text])[0]
        return vector


def embedder(
    spec: str = BUNDLED,
    *,
    model: str = "",
    api_key: str = "",
    timeout: float = 10.0,
    warm: Sequence[str] = (),
) -> Embedder | None:
    """The embedder a setting names: `bundled`, `none`, a model's directory or an http address.

    `warm` are banks whose warm processes may be asked before the bundled model is loaded here.
    """
    if spec == NONE:
        return None
    if spec == BUNDLED:
        from retain.index.embed.local import MINILM, WarmModel

        return WarmModel(MINILM, warm) if warm else MINILM
    if spec.startswith(("http://", "https://")):
        from retain.index.embed.http import RemoteModel

        return RemoteModel(spec, model, api_key=api_key, timeout=timeout)
    if spec.startswith(("/", "~", ".")):
        from retain.index.embed.local import LocalModel

        return LocalModel(spec)
    raise EmbedderError(
        f"there is no embedder {spec[:60]!r}",
        hint="It is `bundled`, `none`, a directory such as ./model, or an http(s) address.",
    )
