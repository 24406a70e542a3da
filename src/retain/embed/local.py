"""Models that lie on this machine: the one Retain ships, and any a person has fetched."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from io import BufferedReader
from typing import TYPE_CHECKING, Final

from retain.embed import EmbedderError, FloatArray
from retain.embed.architecture import Architecture, architecture

if TYPE_CHECKING:
    from retain.embed.bert import Encoder

__all__ = ["MINILM", "MINILM_SHA256", "WEIGHTS", "LocalModel"]

WEIGHTS: Final = "model.safetensors"
TOKENIZER: Final = "tokenizer.json"

_MOST: Final = 100_000_000  # no JSON file of a model is larger
_HEX: Final = 12
_MOST_WORKERS: Final = 4
_LEAST_SHARE: Final = 8  # texts that are worth a thread

# What scripts/convert_model.py makes of the official weights.
MINILM_SHA256: Final[Mapping[str, str]] = {
    WEIGHTS: "40d267bc67a201b5ae6d07dd60a71325b2668aa682c5f1398045a4957a30ede3",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}


class LocalModel:
    """The model in a directory, read when its first vector is wanted."""

    def __init__(
        self,
        directory: str,
        *,
        title: str = "",
        dimension: int = 0,
        sha256: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = os.path.abspath(os.path.expanduser(directory))
        self._title = title or f"local:{os.path.basename(self._directory)}"
        self._dimension = dimension
        self._shipped = sha256 is not None
        self._sha256 = dict(sha256 or {})
        self._lock = threading.Lock()
        self._encoder: Encoder | None = None

    @property
    def name(self) -> str:
        """The model's title and the start of its weights' checksum."""
        if WEIGHTS not in self._sha256:
            with self._lock, self._open(WEIGHTS) as file:
                self._check(WEIGHTS, _sha256(file))
        return f"{self._title}:{self._sha256[WEIGHTS][:_HEX]}"

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        if not self._dimension:
            self._dimension = self._architecture().dimension
        return self._dimension

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order, made on every core there is."""
        encoder = self._loaded()
        workers = min(os.cpu_count() or 1, _MOST_WORKERS, len(texts) // _LEAST_SHARE)
        if workers < 2:
            return encoder.embed(texts)
        return _spread(encoder, texts, workers)

    def query(self, text: str) -> FloatArray:
        """The unit vector of one text."""
        vector: FloatArray = self.embed([text])[0]
        return vector

    def _loaded(self) -> Encoder:
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load()
            return self._encoder

    def _load(self) -> Encoder:
        plan = self._architecture()
        tokenizer = self._read(TOKENIZER)
        if tokenizer is None:
            raise self._unusable(f"it has no {TOKENIZER}")
        with self._open(WEIGHTS) as file:
            # The checksum is that of the open file: what is read next cannot be another one.
            self._check(WEIGHTS, _sha256(file))
            from retain.embed.bert import Encoder
            from retain.embed.safetensors import Tensors

            try:
                return Encoder(plan, tokenizer, Tensors(file))
            except (OSError, ValueError) as error:
                raise self._unusable(str(error)) from error

    def _architecture(self) -> Architecture:
        try:
            return architecture(self._read)
        except ValueError as error:
            raise self._unusable(str(error)) from error

    def _open(self, name: str) -> BufferedReader:
        try:
            return open(os.path.join(self._directory, name), "rb")
        except OSError as error:
            raise self._unusable(f"{name}: {error.strerror}") from error

    def _read(self, name: str) -> bytes | None:
        try:
            with open(os.path.join(self._directory, name), "rb") as file:
                data = file.read(_MOST)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unusable(f"{name}: {error.strerror}") from error
        if self._shipped and name in self._sha256:
            self._check(name, hashlib.sha256(data).hexdigest())
        return data

    def _check(self, name: str, found: str) -> None:
        """Compare a checksum with the one that is known, or take it as the one to expect."""
        if self._sha256.setdefault(name, found) == found:
            return
        if self._shipped:
            raise self._unusable(f"{name} is damaged: it is not the file that was shipped")
        raise self._unusable(f"{name} has changed since it was first read")

    def _unusable(self, why: str) -> EmbedderError:
        return EmbedderError(
            f"the model in {self._directory} cannot be used: {why}",
            hint="Install Retain again: pip install --force-reinstall retain-bank"
            if self._shipped
            else "Models with a BERT encoder can be used: all-MiniLM, bge, e5 and gte.",
        )


def _sha256(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


MINILM: Final = LocalModel(
    os.path.join(os.path.dirname(__file__), "minilm"),
    title="minilm-l6-v2-int8",
    dimension=384,
    sha256=MINILM_SHA256,
)


def _spread(encoder: Encoder, texts: Sequence[str], workers: int) -> FloatArray:
    """Vectors made in several threads, which numpy lets run at once."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    shares = [texts[start::workers] for start in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        made = list(pool.map(encoder.embed, shares))
    vectors = np.empty((len(texts), made[0].shape[1]), np.float32)
    for start, part in enumerate(made):
        vectors[start::workers] = part
    return vectors
