"""A BERT sentence encoder in numpy: no torch, no compiler, no network.

Whatever the encoder does not do is refused with a ValueError: a model run in part gives vectors
that look right and are not. Its tensors are read, not mapped: a map would end the process if
someone shortened the file behind it.
"""

from __future__ import annotations

import ctypes
import glob
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retain.index.embed import EmbedderError, FloatArray
from retain.index.embed.wordpiece import WordPiece

_MAX_TOKENS: Final = 256
_MAX_MEASURE: Final = 1_000_000
# More tokens at once leave the processor's cache, fewer leave its multipliers idle.
_BATCH_TOKENS: Final = 512
# OpenBLAS multiplies four rows at a time; a query of 11 rows takes 40% longer than one of 12.
_ROWS: Final = 4
# A text is cut before it is read token by token; no prose has tokens this long.
_CHARS_PER_TOKEN: Final = 64
_DTYPES: Final = {"F32": "<f4", "F16": "<f2", "I8": "i1"}
_STEPS: Final = ("Transformer", "Pooling", "Normalize")
_POOLING: Final = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
_MEASURES: Final = {  # a field of Architecture, and what config.json calls it
    "dimension": "hidden_size",
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "wide": "intermediate_size",
    "words": "vocab_size",
    "positions": "max_position_embeddings",
}
_MEAN: Final = {"pooling_mode_mean_tokens": True}
_ONLY: Final = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}

# gelu(x) is x / (1 + exp(x * (A + B x^2 + C x^4))) to within 3e-5 of the exact value for every x,
# at a third of the cost of a table: a fit of the logarithm of the normal distribution's odds.
_GELU: Final = tuple(np.float32(n) for n in (-1.59501577, -0.0740112921, 0.000703033579))
_GELU_REACH: Final = np.float32(40)  # beyond it, x^2 has no more to say
_ONE: Final = np.float32(1)


class Architecture(NamedTuple):
    """The measures of a BERT encoder, and how its last layer becomes one vector."""

    dimension: int
    heads: int
    layers: int
    wide: int
    words: int
    positions: int
    epsilon: float
    max_tokens: int
    pooling: str


def read_architecture(files: Mapping[str, Any]) -> Architecture:
    """Read what the JSON files of a sentence-transformers directory say about its model."""
    for name, content in files.items():
        if name != "modules.json" and not isinstance(content, dict):
            raise ValueError(f"{name} is not a JSON object")
    config = files["config.json"]
    for key, only in _ONLY.items():
        if (value := config.get(key, only)) != only:
            raise ValueError(
                f"config.json: {key} is {str(value)[:40]!r}, and only {only!r} can be run"
            )
    # A step after pooling, such as a dense layer, would be left out.
    for step in files.get("modules.json", ()):
        if step["type"].rpartition(".")[2] not in _STEPS:
            raise ValueError(f"modules.json: {step['type'][:60]!r} cannot be run")
    limit = files.get("sentence_bert_config.json", {}).get("max_seq_length") or _MAX_TOKENS
    config = {**config, "max_seq_length": limit}
    for key in (*_MEASURES.values(), "max_seq_length"):
        if not isinstance(config.get(key), int) or not 0 < config[key] <= _MAX_MEASURE:
            raise ValueError(f"its {key} is not a whole number above 0")
    measures = {name: config[key] for name, key in _MEASURES.items()}
    if measures["dimension"] % measures["heads"]:
        raise ValueError(
            f"config.json: {measures['heads']} heads cannot share {measures['dimension']} numbers"
        )
    return Architecture(
        **measures,
        epsilon=float(config.get("layer_norm_eps", 1e-12)),
        max_tokens=min(_MAX_TOKENS, measures["positions"], limit),
        pooling=_read_pooling(files.get("1_Pooling/config.json", _MEAN)),
    )


def _read_pooling(config: Mapping[str, Any]) -> str:
    modes = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in _POOLING:
        raise ValueError(
            f"1_Pooling/config.json: {', '.join(modes)[:80] or 'no pooling'} cannot be run, "
            "only pooling by mean or cls"
        )
    return _POOLING[modes[0]]


class Tensors:
    """The tensors of a safetensors file, each read when it is asked for."""

    def __init__(self, data: bytes) -> None:
        start = 8 + int.from_bytes(data[:8], "little")
        try:
            header = dict(json.loads(data[8:start]))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the weights' header cannot be read: {error}") from error
        header.pop("__metadata__", None)
        self._data = memoryview(data)[start:]
        # Checkpoints of a whole BERT keep the encoder under this prefix.
        self._places = {name.removeprefix("bert."): place for name, place in header.items()}

    def names(self) -> list[str]:
        """The names of all tensors, in the order of the header."""
        return list(self._places)

    def read(self, name: str) -> NDArray[Any]:
        """Read one tensor as it is stored."""
        if name not in self._places:
            raise ValueError(f"the weights have no {name}")
        try:
            place = self._places[name]
            first, last = place["data_offsets"]
            # A copy, so that the file's other tensors need not be kept for this one.
            data = bytes(self._data[first:last])
            return np.frombuffer(data, _DTYPES[place["dtype"]]).reshape(place["shape"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{name} cannot be read from the weights: {error}") from error

    def stored(self, name: str, *shape: int) -> tuple[NDArray[Any], FloatArray | None]:
        """Read a tensor that must have a shape; one of 8-bit numbers has a scale for each row."""
        tensor = self.read(name)
        if tensor.shape != shape:
            raise ValueError(f"{name} is {tensor.shape}, where config.json asks for {shape}")
        if tensor.dtype != np.int8:
            return tensor, None
        scales = self.floats(f"{name}.scale", len(tensor))
        return tensor, scales.reshape(-1, *[1] * (tensor.ndim - 1))

    def floats(self, name: str, *shape: int, transposed: bool = False) -> FloatArray:
        """Read a tensor as float32, whatever it is stored as."""
        tensor, scales = self.stored(name, *shape)
        floats: FloatArray = (tensor.T if transposed else tensor).astype(np.float32, order="C")
        if scales is not None:
            floats *= scales.T if transposed else scales
        return floats


# The matrix of a dense layer and what is added, or the scale and shift of a normalisation.
_Pair = tuple[FloatArray, FloatArray]


class _Layer(NamedTuple):
    """One transformer layer."""

    inward: _Pair  # query, key and value in one
    outward: _Pair
    attention_norm: _Pair
    widen: _Pair
    narrow: _Pair
    output_norm: _Pair


class Encoder:
    """Unit vectors of texts; nothing in it changes once it is made, so threads may share it.

    Texts lie end to end in one matrix without padding, so a vector does not depend on the texts
    it was made together with. The large word table stays as it is stored, and only the rows a
    text uses are widened; the layers are kept in float32.
    """

    def __init__(self, plan: Architecture, tokenizer: WordPiece, tensors: Tensors) -> None:
        _use_one_blas_thread()
        if len(tokenizer) > plan.words:
            raise ValueError("its tokenizer knows more words than its weights")
        self._plan = plan
        self._tokenizer = tokenizer
        width = plan.dimension
        self._words, self._word_scales = tensors.stored(
            "embeddings.word_embeddings.weight", plan.words, width
        )
        places = tensors.floats("embeddings.position_embeddings.weight", plan.positions, width)
        kinds = tensors.read("embeddings.token_type_embeddings.weight")
        if kinds.ndim != 2 or kinds.shape[1] != width or kinds.dtype == np.int8:
            raise ValueError("the weights' token types have not the shape config.json asks for")
        # Every token of a text is of the first kind.
        self._places = (places + kinds[0])[: plan.max_tokens]
        self._norm = _read_norm(tensors, "embeddings.LayerNorm", width)
        self._layers = [
            _read_layer(tensors, f"encoder.layer.{number}.", plan) for number in range(plan.layers)
        ]

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order."""
        most = self._plan.max_tokens
        tokens = [self._tokenizer.encode(text[: _CHARS_PER_TOKEN * most], most) for text in texts]
        vectors = np.empty((len(tokens), self._plan.dimension), np.float32)
        # What overflows is caught below, with a name, instead of as a warning.
        with np.errstate(all="ignore"):
            for numbers in _batches([len(ids) for ids in tokens]):
                vectors[numbers] = self._encode([tokens[number] for number in numbers])
        if not np.isfinite(vectors).all():
            raise EmbedderError("the model gives numbers that are not finite: its weights are bad")
        return vectors

    def _encode(self, texts: Sequence[list[int]]) -> FloatArray:
        """Encode texts sorted by length; rows of no text make up a whole number of fours."""
        lengths = [len(ids) for ids in texts]
        starts = np.array([0, *itertools.accumulate(lengths[:-1])])
        stop = sum(lengths)
        ids = np.zeros(-(-stop // _ROWS) * _ROWS, np.int64)
        ids[:stop] = list(itertools.chain.from_iterable(texts))
        places = np.zeros_like(ids)
        places[:stop] = np.arange(stop) - starts.repeat(lengths)
        x: FloatArray = self._words[ids].astype(np.float32)
        if self._word_scales is not None:
            x *= self._word_scales[ids]
        x += self._places[places]
        x = self._normalize(x, self._norm)
        for layer in self._layers:
            y = _attend(_multiply(x, layer.inward), lengths, self._plan.heads)
            y = _multiply(y, layer.outward)
            y += x
            x = self._normalize(y, layer.attention_norm)
            y = _multiply(_gelu(_multiply(x, layer.widen)), layer.narrow)
            y += x
            x = self._normalize(y, layer.output_norm)
        if self._plan.pooling == "cls":
            pooled: FloatArray = x[starts]
        else:
            # The sum points where the mean does, and only the direction is kept.
            pooled = np.add.reduceat(x[:stop], starts, axis=0)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled

    def _normalize(self, x: FloatArray, norm: _Pair) -> FloatArray:
        """Normalise the rows in place."""
        x -= x.mean(1, keepdims=True)
        spread = np.einsum("ij,ij->i", x, x)
        spread /= np.float32(x.shape[1])
        spread += np.float32(self._plan.epsilon)
        x /= np.sqrt(spread)[:, None]
        x *= norm[0]
        x += norm[1]
        return x


def _read_layer(tensors: Tensors, prefix: str, plan: Architecture) -> _Layer:
    width, wide = plan.dimension, plan.wide

    def dense(name: str, outputs: int, inputs: int) -> _Pair:
        weight = tensors.floats(f"{prefix}{name}.weight", outputs, inputs, transposed=True)
        return weight, tensors.floats(f"{prefix}{name}.bias", outputs)

    query, key, value = (
        dense(f"attention.self.{part}", width, width) for part in ("query", "key", "value")
    )
    # Dividing the query's weights once spares dividing every score later.
    share = np.float32(1 / math.sqrt(width // plan.heads))
    return _Layer(
        inward=(
            np.concatenate([query[0] * share, key[0], value[0]], axis=1),
            np.concatenate([query[1] * share, key[1], value[1]]),
        ),
        outward=dense("attention.output.dense", width, width),
        attention_norm=_read_norm(tensors, f"{prefix}attention.output.LayerNorm", width),
        widen=dense("intermediate.dense", wide, width),
        narrow=dense("output.dense", width, wide),
        output_norm=_read_norm(tensors, f"{prefix}output.LayerNorm", width),
    )


def _read_norm(tensors: Tensors, name: str, width: int) -> _Pair:
    return tensors.floats(f"{name}.weight", width), tensors.floats(f"{name}.bias", width)


def _multiply(x: FloatArray, dense: _Pair) -> FloatArray:
    y: FloatArray = x @ dense[0]
    y += dense[1]
    return y


def _attend(parts: FloatArray, lengths: Sequence[int], heads: int) -> FloatArray:
    """What every token takes from the others of its text; texts of one length go in one step."""
    size = parts.shape[1] // (3 * heads)
    mixed = np.zeros((len(parts), heads * size), np.float32)
    start = 0
    for length, same in itertools.groupby(lengths):
        stop = start + sum(same)
        shaped = parts[start:stop].reshape(-1, length, 3, heads, size)
        query, key, value = shaped.transpose(2, 0, 3, 1, 4)
        scores = query @ key.swapaxes(-1, -2)
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        taken = scores @ value
        # Dividing here touches far fewer numbers than dividing the scores would.
        taken /= scores.sum(-1, keepdims=True)
        mixed[start:stop] = taken.transpose(0, 2, 1, 3).reshape(stop - start, -1)
        start = stop
    return mixed


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


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The numbers of the texts in batches, texts of one length together."""
    batch: list[int] = []
    size = 0
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and size + lengths[number] > _BATCH_TOKENS:
            yield batch
            batch, size = [], 0
        batch.append(number)
        size += lengths[number]
    if batch:
        yield batch


def _use_one_blas_thread() -> None:
    """Keep OpenBLAS from threads of its own: texts are shared out among ours.

    Its threads wait for each other: with them a text takes 2 to 20 times as long.
    """
    libraries = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    for path in glob.glob(os.path.join(glob.escape(libraries), "*openblas*")):
        library = ctypes.CDLL(path)  # the one that numpy has loaded
        for name in ("scipy_openblas_set_num_threads64_", "openblas_set_num_threads"):
            if hasattr(library, name):
                getattr(library, name)(1)
