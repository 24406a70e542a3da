"""Texts as vectors: one small interface, and its implementations by name.

Vectors of two models must never be compared, so an embedder's name says which weights made them;
it is known before any weights are loaded. Nothing heavy is imported before the first vector.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from retain.daemon import client
from retain.errors import RetainError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from retain.index.embed.bert import Encoder

FloatArray: TypeAlias = "NDArray[np.float32]"

BUNDLED: Final = "bundled"
NONE: Final = "none"
WEIGHTS: Final = "model.safetensors"
# The weights that scripts/convert_model.py makes of the official ones.
MINILM_SHA256: Final = "40d267bc67a201b5ae6d07dd60a71325b2668aa682c5f1398045a4957a30ede3"

_MAX_WORKERS: Final = 4
_LEAST_SHARE: Final = 8  # texts that are worth a thread
_BAD_FILES: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_WARM_TIMEOUT: Final = 0.5  # seconds; loading the model takes about as long


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

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order, as the rows of one array."""
        ...

    def query(self, text: str) -> FloatArray:
        """The unit vector of one text."""
        vector: FloatArray = self.embed([text])[0]
        return vector


def embedder(
    spec: str = BUNDLED, *, model: str = "", api_key: str = "", warm: Sequence[str] = ()
) -> Embedder | None:
    """The embedder a setting names: `bundled`, `none`, a model's directory or an http address.

    `warm` are banks whose warm processes may be asked before the bundled model is loaded here.
    """
    if spec == NONE:
        return None
    if spec == BUNDLED:
        return WarmModel(MINILM, warm) if warm else MINILM
    if spec.startswith(("http://", "https://")):
        from retain.index.embed.http import RemoteModel

        return RemoteModel(spec, model, api_key=api_key)
    if spec.startswith(("/", "~", ".")):
        return LocalModel(spec)
    raise EmbedderError(
        f"there is no embedder {spec[:60]!r}",
        hint="It is `bundled`, `none`, a directory such as ./model, or an http(s) address.",
    )


class LocalModel(Embedder):
    """The model in a directory, read when its first vector is wanted."""

    def __init__(self, directory: str, *, title: str = "", sha256: str = "") -> None:
        self._directory = os.path.abspath(os.path.expanduser(directory))
        self._title = title or f"local:{os.path.basename(self._directory)}"
        self._is_shipped = bool(sha256)
        self._sha256 = sha256  # of the weights
        self._lock = threading.Lock()
        self._encoder: Encoder | None = None

    @property
    def name(self) -> str:
        """The model's title and the start of its weights' checksum."""
        if not self._sha256:
            self._sha256 = hashlib.sha256(self._read(WEIGHTS)).hexdigest()
        return f"{self._title}:{self._sha256[:12]}"

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order, made in several threads, which numpy lets run."""
        encoder = self._load()
        workers = min(os.cpu_count() or 1, _MAX_WORKERS, len(texts) // _LEAST_SHARE)
        if workers < 2:
            return encoder.embed(texts)
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        vectors = np.empty((len(texts), encoder.dimension), np.float32)
        with ThreadPoolExecutor(workers) as pool:
            shares = [texts[start::workers] for start in range(workers)]
            for start, part in enumerate(pool.map(encoder.embed, shares)):
                vectors[start::workers] = part
        return vectors

    def _load(self) -> Encoder:
        with self._lock:
            if self._encoder is None:
                from retain.index.embed.bert import OPTIONAL, REQUIRED, Encoder  # numpy: 60 ms

                optional = [name for name in OPTIONAL if os.path.exists(self._path(name))]
                files = {name: self._read(name) for name in (*REQUIRED, *optional)}
                sha256 = hashlib.sha256(files[WEIGHTS]).hexdigest()
                if self._sha256 not in ("", sha256):
                    raise self._unusable(f"{WEIGHTS} is damaged, or was changed meanwhile")
                self._sha256 = sha256
                try:
                    self._encoder = Encoder(files)
                except _BAD_FILES as error:
                    what = "it lacks " if isinstance(error, LookupError) else ""
                    raise self._unusable(f"{what}{error}") from error
            return self._encoder

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _read(self, name: str) -> bytes:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except OSError as error:
            raise self._unusable(f"{name}: {error.strerror}") from error

    def _unusable(self, why: str) -> EmbedderError:
        return EmbedderError(
            f"the model in {self._directory} cannot be used: {why}",
            hint="Install Retain again: pip install --force-reinstall retain-bank"
            if self._is_shipped
            else "Models with a BERT encoder can be used: all-MiniLM, bge, e5 and gte.",
        )


MINILM: Final = LocalModel(
    os.path.join(os.path.dirname(__file__), "minilm"),
    title="minilm-l6-v2-int8",
    sha256=MINILM_SHA256,
)


class WarmModel(Embedder):
    """A model on this machine, and the banks whose warm processes may answer in its place.

    Texts to be stored are embedded here: they are many, and nobody should wait behind them.
    """

    def __init__(self, local: LocalModel, banks: Sequence[str]) -> None:
        self._local = local
        self._banks = list(dict.fromkeys(banks))

    @property
    def name(self) -> str:
        """The model's own name: its vectors are the same, wherever they are made."""
        return self._local.name

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, made here; from then on nobody else needs to be asked."""
        vectors = self._local.embed(texts)
        self._banks = []
        return vectors

    def query(self, text: str) -> FloatArray:
        """The unit vector of one text; who does not answer once is not asked again."""
        import numpy as np

        request = {"op": "embed", "texts": [text], "model": self.name}
        while self._banks:
            answer = client.ask(self._banks[0], request, _WARM_TIMEOUT) or {}
            with contextlib.suppress(KeyError, TypeError, ValueError):
                (encoded,) = answer["vectors"]
                vector = np.frombuffer(base64.b64decode(encoded, validate=True), "<f4").astype(
                    np.float32
                )
                if answer["model"] == self.name:
                    return vector
            self._banks = self._banks[1:]
        return self._local.query(text)
