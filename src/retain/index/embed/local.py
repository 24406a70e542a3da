"""Models that lie on this machine: the one Retain ships, and any a person has fetched."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from retain.daemon import client
from retain.index.embed import Embedder, EmbedderError, FloatArray

if TYPE_CHECKING:
    from retain.index.embed.bert import Architecture, Encoder

WEIGHTS: Final = "model.safetensors"
TOKENIZER: Final = "tokenizer.json"
CONFIG: Final = "config.json"

_OPTIONAL: Final = ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
_MAX_WORKERS: Final = 4
_LEAST_SHARE: Final = 8  # texts that are worth a thread
_WARM_TIMEOUT: Final = 0.5  # seconds; loading the model takes about as long

# What scripts/convert_model.py makes of the official weights.
MINILM_SHA256: Final[Mapping[str, str]] = {
    WEIGHTS: "40d267bc67a201b5ae6d07dd60a71325b2668aa682c5f1398045a4957a30ede3",
    TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    CONFIG: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}


class LocalModel(Embedder):
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
        self._is_shipped = sha256 is not None
        self._sha256 = dict(sha256 or {})
        self._lock = threading.Lock()
        self._encoder: Encoder | None = None

    @property
    def name(self) -> str:
        """The model's title and the start of its weights' checksum."""
        if WEIGHTS not in self._sha256:
            self._read(WEIGHTS)
        return f"{self._title}:{self._sha256[WEIGHTS][:12]}"

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        if not self._dimension:
            self._dimension = self._read_architecture().dimension
        return self._dimension

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order, made in several threads, which numpy lets run."""
        with self._lock:
            if self._encoder is None:
                self._encoder = self._load()
            encoder = self._encoder
        workers = min(os.cpu_count() or 1, _MAX_WORKERS, len(texts) // _LEAST_SHARE)
        if workers < 2:
            return encoder.embed(texts)
        from concurrent.futures import ThreadPoolExecutor

        import numpy as np

        vectors = np.empty((len(texts), self.dimension), np.float32)
        with ThreadPoolExecutor(workers) as pool:
            shares = [texts[start::workers] for start in range(workers)]
            for start, part in enumerate(pool.map(encoder.embed, shares)):
                vectors[start::workers] = part
        return vectors

    def embed_ready(self, texts: Sequence[str]) -> FloatArray | None:
        """The same, if the model is loaded already."""
        return self.embed(texts) if self._encoder is not None else None

    def _load(self) -> Encoder:
        plan = self._read_architecture()
        from retain.index.embed.bert import Encoder, Tensors
        from retain.index.embed.wordpiece import WordPiece

        tokenizer, weights = self._read(TOKENIZER), self._read(WEIGHTS)
        try:
            return Encoder(plan, WordPiece.read(tokenizer), Tensors(weights))
        except ValueError as error:
            raise self._unusable(str(error)) from error

    def _read_architecture(self) -> Architecture:
        from retain.index.embed.bert import read_architecture  # brings numpy: 60 ms

        files = {}
        for name in (CONFIG, *_OPTIONAL):
            if name == CONFIG or os.path.exists(os.path.join(self._directory, name)):
                try:
                    files[name] = json.loads(self._read(name))
                except (ValueError, RecursionError) as error:
                    raise self._unusable(f"{name} is not valid JSON: {error}") from error
        try:
            return read_architecture(files)
        except ValueError as error:
            raise self._unusable(str(error)) from error

    def _read(self, name: str) -> bytes:
        """Read a file; its checksum is the one that is known, or that it had the first time."""
        try:
            with open(os.path.join(self._directory, name), "rb") as file:
                data = file.read()
        except OSError as error:
            raise self._unusable(f"{name}: {error.strerror}") from error
        sha256 = hashlib.sha256(data).hexdigest()
        if self._sha256.setdefault(name, sha256) == sha256:
            return data
        if self._is_shipped:
            raise self._unusable(f"{name} is damaged: it is not the file that was shipped")
        raise self._unusable(f"{name} has changed since it was first read")

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
    dimension=384,
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

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._local.dimension

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, made here; from then on nobody else needs to be asked."""
        vectors = self._local.embed(texts)
        self._banks = []
        return vectors

    def embed_ready(self, texts: Sequence[str]) -> FloatArray | None:
        """The vectors of a few texts, if someone has the model loaded."""
        vectors = self._local.embed_ready(texts)
        return self._ask(texts) if vectors is None else vectors

    def query(self, text: str) -> FloatArray:
        """The unit vector of one text."""
        vectors = self._ask([text])
        return self._local.query(text) if vectors is None else vectors[0]

    def _ask(self, texts: Sequence[str]) -> FloatArray | None:
        """Ask the warm processes; who does not answer once is not asked again."""
        request = {"op": "embed", "texts": list(texts), "model": self.name}
        while banks := self._banks:
            answer = client.ask(banks[0], request, _WARM_TIMEOUT)
            if answer is not None and answer.get("model") == self.name:
                with contextlib.suppress(KeyError, TypeError, ValueError):
                    return _decode(answer["vectors"], (len(texts), self.dimension))
            self._banks = banks[1:]
        return None


def _decode(encoded: Sequence[str], shape: tuple[int, int]) -> FloatArray:
    """The vectors of an answer; a ValueError for anything that is not so many unit vectors."""
    import base64

    import numpy as np

    data = b"".join(base64.b64decode(text, validate=True) for text in encoded)
    vectors: FloatArray = np.frombuffer(data, "<f4").astype(np.float32).reshape(shape)
    if len(encoded) != len(vectors) or not np.allclose((vectors**2).sum(axis=1), 1, atol=1e-3):
        raise ValueError("not unit vectors")
    return vectors
