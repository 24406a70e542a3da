"""A BERT sentence encoder in numpy: no torch, no compiler, no network.

Texts lie end to end in one matrix without padding, so a vector does not depend on the texts it
was made together with. The large word table stays as it is stored, and only the rows a text uses
are widened; the layers are kept in float32.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retain.embed import EmbedderError, FloatArray
from retain.embed.architecture import Architecture
from retain.embed.safetensors import Tensors
from retain.embed.wordpiece import WordPiece

__all__ = ["Encoder"]

_Ints = NDArray[np.int64]

# More tokens at once leave the processor's cache, fewer leave its multipliers idle.
_BATCH_TOKENS: Final = 512
# OpenBLAS multiplies four rows at a time; a query of 11 rows takes 40% longer than one of 12.
_ROWS: Final = 4
# A text is cut before it is read token by token; no prose has tokens this long.
_CHARS_A_TOKEN: Final = 64

# gelu(x) is x / (1 + exp(x * (A + B x^2 + C x^4))) to within 3e-5 of the exact value for every x,
# at a third of the cost of a table: a fit of the logarithm of the normal distribution's odds.
_GELU: Final = tuple(np.float32(n) for n in (-1.59501577, -0.0740112921, 0.000703033579))
_GELU_REACH: Final = np.float32(40)  # beyond it, x^2 has no more to say
_ONE: Final = np.float32(1)


class _Norm(NamedTuple):
    """The weights of a layer normalisation."""

    scale: FloatArray
    shift: FloatArray


class _Dense(NamedTuple):
    """A matrix that rows of text are multiplied with, and what is added then."""

    weight: FloatArray
    bias: FloatArray


class _Layer(NamedTuple):
    """One transformer layer."""

    inward: _Dense  # query, key and value in one
    outward: _Dense
    attended: _Norm
    widen: _Dense
    narrow: _Dense
    done: _Norm


class _Run(NamedTuple):
    """Neighbouring texts of one length, which attend in one step."""

    start: int
    stop: int
    length: int


class _Batch(NamedTuple):
    """Several texts' tokens end to end."""

    ids: _Ints
    places: _Ints
    starts: _Ints
    stop: int
    runs: list[_Run]


class Encoder:
    """Unit vectors of texts; nothing in it changes once it is made, so threads may share it."""

    def __init__(self, plan: Architecture, tokenizer: bytes, tensors: Tensors) -> None:
        self._plan = plan
        self._tokenizer = _tokenizer(tokenizer, plan)
        weights = _Weights(tensors, plan)
        self._words, self._word_scales = weights.words()
        self._places = weights.places()
        self._first = weights.norm("embeddings.LayerNorm")
        self._layers = [weights.layer(f"encoder.layer.{n}.") for n in range(plan.layers)]

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order."""
        tokens = [self._tokens(text) for text in texts]
        vectors = np.empty((len(tokens), self._plan.dimension), np.float32)
        # What overflows is caught below, with a name, instead of as a warning.
        with np.errstate(all="ignore"):
            for numbers in _batches(tokens):
                vectors[numbers] = self._encoded(_batch([tokens[n] for n in numbers]))
        if not np.isfinite(vectors).all():
            raise EmbedderError("the model gives numbers that are not finite: its weights are bad")
        return vectors

    def _tokens(self, text: str) -> _Ints:
        cut = text[: _CHARS_A_TOKEN * self._plan.max_tokens]
        return np.array(self._tokenizer.encode(cut, self._plan.max_tokens), np.int64)

    def _encoded(self, batch: _Batch) -> FloatArray:
        x = self._embedded(batch)
        for layer in self._layers:
            x = self._attend(x, layer, batch.runs)
            x = self._feed(x, layer)
        if self._plan.pooling == "cls":
            pooled: FloatArray = x[batch.starts]
        else:
            # The sum points where the mean does, and only the direction is kept.
            pooled = np.add.reduceat(x[: batch.stop], batch.starts, axis=0)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled

    def _embedded(self, batch: _Batch) -> FloatArray:
        x: FloatArray = self._words[batch.ids].astype(np.float32)
        if self._word_scales is not None:
            x *= self._word_scales[batch.ids, None]
        x += self._places[batch.places]
        return self._normed(x, self._first)

    def _attend(self, x: FloatArray, layer: _Layer, runs: list[_Run]) -> FloatArray:
        parts = _times(x, layer.inward)
        mixed = np.zeros_like(x)
        for run in runs:
            rows = slice(run.start, run.stop)
            mixed[rows] = _mixed(parts[rows], run.length, self._plan.heads)
        y = _times(mixed, layer.outward)
        y += x
        return self._normed(y, layer.attended)

    def _feed(self, x: FloatArray, layer: _Layer) -> FloatArray:
        y = _times(_gelu(_times(x, layer.widen)), layer.narrow)
        y += x
        return self._normed(y, layer.done)

    def _normed(self, x: FloatArray, norm: _Norm) -> FloatArray:
        """Normalise the rows in place."""
        x -= x.mean(1, keepdims=True)
        spread = np.einsum("ij,ij->i", x, x)
        spread /= np.float32(x.shape[1])
        spread += np.float32(self._plan.epsilon)
        x /= np.sqrt(spread)[:, None]
        x *= norm.scale
        x += norm.shift
        return x


def _times(x: FloatArray, dense: _Dense) -> FloatArray:
    y: FloatArray = x @ dense.weight
    y += dense.bias
    return y


def _mixed(parts: FloatArray, length: int, heads: int) -> FloatArray:
    """What every token of texts of one length takes from the others of its text."""
    size = parts.shape[1] // (3 * heads)
    shaped = parts.reshape(-1, length, 3, heads, size)
    query, key, value = shaped.transpose(2, 0, 3, 1, 4)
    scores = query @ key.swapaxes(-1, -2)
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    mixed: FloatArray = scores @ value
    # Dividing here touches far fewer numbers than dividing the scores would.
    mixed /= scores.sum(-1, keepdims=True)
    return mixed.transpose(0, 2, 1, 3).reshape(len(parts), -1)


def _gelu(x: FloatArray) -> FloatArray:
    """Put every number through GELU, in place."""
    first, third, fifth = _GELU
    square = x * x
    np.minimum(square, _GELU_REACH, out=square)
    odds = square * fifth
    odds += third
    odds *= square
    odds += first
    odds *= x
    np.exp(odds, out=odds)
    odds += _ONE
    x /= odds
    return x


def _batches(tokens: Sequence[_Ints]) -> Iterator[list[int]]:
    """The numbers of the texts in batches, texts of one length together."""
    batch: list[int] = []
    size = 0
    for number in sorted(range(len(tokens)), key=lambda n: len(tokens[n])):
        if batch and size + len(tokens[number]) > _BATCH_TOKENS:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += len(tokens[number])
    if batch:
        yield batch


def _batch(texts: Sequence[_Ints]) -> _Batch:
    """Lay texts, sorted by length, end to end; rows of no text make up a whole number of fours."""
    lengths = np.array([len(text) for text in texts])
    stops = lengths.cumsum()
    starts = stops - lengths
    stop = int(stops[-1])
    ids = np.zeros(-(-stop // _ROWS) * _ROWS, np.int64)
    ids[:stop] = np.concatenate(texts)
    places = np.zeros_like(ids)
    places[:stop] = np.arange(stop) - starts.repeat(lengths)
    return _Batch(ids, places, starts, stop, list(_runs(lengths.tolist())))


def _runs(lengths: Sequence[int]) -> Iterator[_Run]:
    start = 0
    for length, same in itertools.groupby(lengths):
        stop = start + sum(same)
        yield _Run(start, stop, length)
        start = stop


def _tokenizer(data: bytes, plan: Architecture) -> WordPiece:
    tokenizer = WordPiece.read(data.decode("utf-8"))
    if len(tokenizer) > plan.words:
        raise ValueError("its tokenizer knows more words than its weights")
    return tokenizer


class _Weights:
    """The tensors of a model under their names, with the shapes that its plan asks for."""

    def __init__(self, tensors: Tensors, plan: Architecture) -> None:
        self._tensors = tensors
        self._plan = plan

    def words(self) -> tuple[NDArray[Any], FloatArray | None]:
        """The word table as it is stored, and the scale of each of its rows."""
        name = "embeddings.word_embeddings.weight"
        stored = self._stored(name, (self._plan.words, self._plan.dimension))
        return stored, self._scales(name, stored)

    def places(self) -> FloatArray:
        """What is added to a token for its place in the text, and for being of the first kind."""
        width = self._plan.dimension
        places = self._wide("embeddings.position_embeddings.weight", (self._plan.positions, width))
        kinds = self._tensors.read("embeddings.token_type_embeddings.weight")
        if kinds.ndim != 2 or kinds.shape[1] != width or kinds.dtype == np.int8:
            raise ValueError("the weights' token types have not the shape config.json asks for")
        places[:] += kinds[0]
        return places[: self._plan.max_tokens]

    def norm(self, name: str) -> _Norm:
        """The weights of a layer normalisation."""
        shape = (self._plan.dimension,)
        return _Norm(self._wide(f"{name}.weight", shape), self._wide(f"{name}.bias", shape))

    def layer(self, prefix: str) -> _Layer:
        """The weights of one transformer layer."""
        width, wide = self._plan.dimension, self._plan.wide
        return _Layer(
            inward=self._inward(f"{prefix}attention.self."),
            outward=self._dense(f"{prefix}attention.output.dense", width, width),
            attended=self.norm(f"{prefix}attention.output.LayerNorm"),
            widen=self._dense(f"{prefix}intermediate.dense", wide, width),
            narrow=self._dense(f"{prefix}output.dense", width, wide),
            done=self.norm(f"{prefix}output.LayerNorm"),
        )

    def _inward(self, prefix: str) -> _Dense:
        width = self._plan.dimension
        query, key, value = (
            self._dense(prefix + part, width, width) for part in ("query", "key", "value")
        )
        # Dividing the query's weights once spares dividing every score later.
        share = np.float32(1 / math.sqrt(width // self._plan.heads))
        return _Dense(
            np.concatenate([query.weight * share, key.weight, value.weight], axis=1),
            np.concatenate([query.bias * share, key.bias, value.bias]),
        )

    def _dense(self, name: str, outputs: int, inputs: int) -> _Dense:
        stored = self._stored(f"{name}.weight", (outputs, inputs))
        weight: FloatArray = stored.T.astype(np.float32, order="C")
        scales = self._scales(f"{name}.weight", stored)
        if scales is not None:
            weight *= scales
        return _Dense(weight, self._wide(f"{name}.bias", (outputs,)))

    def _wide(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """A tensor in float32, whatever it is stored as."""
        stored = self._stored(name, shape)
        wide: FloatArray = stored.astype(np.float32)
        scales = self._scales(name, stored)
        if scales is not None:
            wide *= scales[:, None]
        return wide

    def _scales(self, name: str, stored: NDArray[Any]) -> FloatArray | None:
        if stored.dtype != np.int8:
            return None
        scales: FloatArray = self._stored(f"{name}.scale", (len(stored),)).astype(np.float32)
        return scales

    def _stored(self, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        found = self._tensors.read(name)
        if found.shape != shape:
            raise ValueError(f"{name} is {found.shape}, where config.json asks for {shape}")
        return found
