"""A BERT sentence encoder in numpy: no torch, no compiler, no network.

Whatever the encoder does not do is refused: a model run in part gives vectors that look right and
are not. Its tensors are read, not mapped: a map would end the process if someone shortened the
file behind it.

The tokenizer is written out because it is small, and the library that has it brings a client of a
model hub with it. `tests/index/embed/` holds it to that library's answers.
"""

from __future__ import annotations

import ctypes
import glob
import itertools
import json
import math
import os
import re
import string
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retain.index.embed import WEIGHTS, EmbedderError, FloatArray

_TOKENIZER: Final = "tokenizer.json"
_CONFIG: Final = "config.json"
_MODULES: Final = "modules.json"
_LENGTH: Final = "sentence_bert_config.json"
_POOLING: Final = "1_Pooling/config.json"
REQUIRED: Final = (WEIGHTS, _TOKENIZER, _CONFIG)
OPTIONAL: Final = (_MODULES, _LENGTH, _POOLING)

_MAX_TOKENS: Final = 256
# More tokens at once leave the processor's cache, fewer leave its multipliers idle.
_BATCH_TOKENS: Final = 512
# OpenBLAS multiplies four rows at a time; a query of 11 rows takes 40% longer than one of 12.
_ROWS: Final = 4
# A text is cut before it is read token by token; no prose has tokens this long.
_CHARS_PER_TOKEN: Final = 64
_DTYPES: Final = {"F32": "<f4", "F16": "<f2", "I8": "i1"}
_ONLY: Final = {"model_type": "bert", "hidden_act": "gelu", "position_embedding_type": "absolute"}
_STEPS: Final = ("Transformer", "Pooling", "Normalize")
_MEAN: Final = "pooling_mode_mean_tokens"
_CLS: Final = "pooling_mode_cls_token"

# gelu(x) is x / (1 + exp(x * (A + B x^2 + C x^4))) to within 3e-5 of the exact value for every x,
# at a third of the cost of a table: a fit of the logarithm of the normal distribution's odds.
_GELU: Final = tuple(np.float32(n) for n in (-1.59501577, -0.0740112921, 0.000703033579))
_GELU_REACH: Final = np.float32(40)  # beyond it, x^2 has no more to say
_ONE: Final = np.float32(1)

_LONGEST_WORD: Final = 100  # characters; a longer word is unknown, as it was in training
_CONTROL: Final = ("Cc", "Cf", "Co", "Cs")
_CACHED: Final = 50_000
_PLAIN: Final = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_HAN: Final = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f"
)
_IS_HAN: Final = re.compile(f"([{_HAN}])")


class WordPiece:
    """BERT's tokenizer: a text as the numbers of the word pieces a model knows."""

    def __init__(self, tokenizer: Mapping[str, Any]) -> None:
        """Take a `tokenizer.json`; one of another kind is refused, not misread."""
        model, normalizer = tokenizer["model"], tokenizer["normalizer"] or {}
        if model["type"] != "WordPiece" or normalizer.get("type") != "BertNormalizer":
            raise ValueError("its tokenizer is not BERT's WordPiece")
        self._vocabulary: Mapping[str, int] = model["vocab"]
        self._lower = bool(normalizer.get("lowercase", True))
        self._unknown, self._first, self._last = (
            self._vocabulary[mark] for mark in ("[UNK]", "[CLS]", "[SEP]")
        )
        self._pieces = lru_cache(_CACHED)(self._cut)

    def __len__(self) -> int:
        return max(self._vocabulary.values()) + 1

    def encode(self, text: str, most: int) -> list[int]:
        """The pieces of a text between their first and last marks, cut at `most` in all."""
        pieces: list[int] = [self._first]
        for word in self._words(text):
            pieces += self._pieces(word)
            if len(pieces) >= most:
                break
        return [*pieces[: most - 1], self._last]

    def _words(self, text: str) -> list[str]:
        if text.isascii():
            # Control characters vanish, so that the letters around them meet.
            plain = text if text.isprintable() else _clean(text)
            return _PLAIN.findall(plain.lower() if self._lower else plain)
        text = _IS_HAN.sub(r" \1 ", _clean(text))
        if self._lower:
            letters = unicodedata.normalize("NFD", text)
            text = "".join(c for c in letters if unicodedata.category(c) != "Mn").lower()
        # Every punctuation mark is a word by itself.
        return "".join(f" {c} " if _is_punctuation(c) else c for c in text).split()

    def _cut(self, word: str) -> tuple[int, ...]:
        """The longest pieces from the left; a word that does not come out even is unknown."""
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        pieces: list[int] = []
        start = 0
        while start < len(word):
            end, mark = len(word), "##" if start else ""
            while end > start and mark + word[start:end] not in self._vocabulary:
                end -= 1
            if end == start:
                return (self._unknown,)
            pieces.append(self._vocabulary[mark + word[start:end]])
            start = end
        return tuple(pieces)


def _clean(text: str) -> str:
    """Remove control characters, and make every space the same."""
    return "".join(
        " " if c in "\t\n\r" or unicodedata.category(c) == "Zs" else c
        for c in text
        if c in "\t\n\r" or not (c in "\0\ufffd" or unicodedata.category(c) in _CONTROL)
    )


def _is_punctuation(char: str) -> bool:
    return char in string.punctuation or unicodedata.category(char)[0] == "P"


# The matrix of a dense layer and what is added, or the scale and shift of a normalisation.
_Pair = tuple[FloatArray, FloatArray]


class Tensors:
    """The tensors of a safetensors file, each read when it is asked for."""

    def __init__(self, data: bytes) -> None:
        start = 8 + int.from_bytes(data[:8], "little")
        header = dict(_parse("the weights' header", data[8:start]))
        header.pop("__metadata__", None)
        self._data = memoryview(data)[start:]
        # Checkpoints of a whole BERT keep the encoder under this prefix.
        self._places = {name.removeprefix("bert."): place for name, place in header.items()}

    def names(self) -> list[str]:
        """The names of all tensors, in the order of the header."""
        return list(self._places)

    def read(self, name: str) -> NDArray[Any]:
        """Read one tensor as it is stored."""
        place = self._places[name]
        first, last = place["data_offsets"]
        # A copy, so that the file's other tensors need not be kept for this one.
        data = bytes(self._data[first:last])
        return np.frombuffer(data, _DTYPES[place["dtype"]]).reshape(place["shape"])

    def scales(self, name: str, tensor: NDArray[Any]) -> FloatArray | None:
        """The scale of each row, for a tensor of 8-bit numbers."""
        if tensor.dtype != np.int8:
            return None
        return self.read(f"{name}.scale").reshape(-1, *[1] * (tensor.ndim - 1))

    def floats(self, name: str) -> FloatArray:
        """Read a tensor as float32, whatever it is stored as; a matrix is transposed."""
        tensor = self.read(name)
        floats: FloatArray = tensor.T.astype(np.float32, order="C")
        scales = self.scales(name, tensor)
        if scales is not None:
            floats *= scales.T
        return floats

    def pair(self, name: str) -> _Pair:
        """Read the weight and the bias of a layer."""
        return self.floats(f"{name}.weight"), self.floats(f"{name}.bias")


def _parse(name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not valid JSON: {error}") from error


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

    def __init__(self, files: Mapping[str, bytes]) -> None:
        """Take a model's files, by name; an error for one that cannot be run."""
        _use_one_blas_thread()
        parsed = {name: _parse(name, data) for name, data in files.items() if name != WEIGHTS}
        config, tensors = parsed[_CONFIG], Tensors(files[WEIGHTS])
        self._pools_first = _pools_first(parsed)
        self._tokenizer = WordPiece(parsed[_TOKENIZER])
        self._heads = int(config["num_attention_heads"])
        self._epsilon = np.float32(config.get("layer_norm_eps", 1e-12))
        name = "embeddings.word_embeddings.weight"
        self._words = tensors.read(name)
        self._word_scales = tensors.scales(name, self._words)
        self.dimension = self._words.shape[1]
        if len(self._tokenizer) > len(self._words):
            raise ValueError("its tokenizer knows more words than its weights")
        # Every token of a text is of the first kind.
        kind = tensors.floats("embeddings.token_type_embeddings.weight")[:, 0]
        places = tensors.floats("embeddings.position_embeddings.weight").T + kind
        limit = parsed.get(_LENGTH, {}).get("max_seq_length") or _MAX_TOKENS
        self._max_tokens = min(_MAX_TOKENS, len(places), limit)
        self._places = np.ascontiguousarray(places[: self._max_tokens])
        self._norm = tensors.pair("embeddings.LayerNorm")
        layers = range(config["num_hidden_layers"])
        self._layers = [_read_layer(tensors, number, self._heads) for number in layers]
        self.embed([""])  # what does not fit together fails here

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order."""
        most = self._max_tokens
        tokens = [self._tokenizer.encode(text[: _CHARS_PER_TOKEN * most], most) for text in texts]
        vectors = np.empty((len(tokens), self.dimension), np.float32)
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
            y = _attend(_multiply(x, layer.inward), lengths, self._heads)
            y = _multiply(y, layer.outward)
            y += x
            x = self._normalize(y, layer.attention_norm)
            y = _multiply(_gelu(_multiply(x, layer.widen)), layer.narrow)
            y += x
            x = self._normalize(y, layer.output_norm)
        if self._pools_first:
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
        spread += self._epsilon
        x /= np.sqrt(spread)[:, None]
        x *= norm[0]
        x += norm[1]
        return x


def _pools_first(files: Mapping[str, Any]) -> bool:
    """Whether a text's vector is that of its first token; an error for what cannot be run."""
    for key, only in _ONLY.items():
        if (value := files[_CONFIG].get(key, only)) != only:
            raise ValueError(f"its {key} is {str(value)[:40]!r}, and only {only!r} can be run")
    # A step after pooling, such as a dense layer, would be left out.
    for step in files.get(_MODULES, ()):
        if step["type"].rpartition(".")[2] not in _STEPS:
            raise ValueError(f"{_MODULES}: {step['type'][:60]!r} cannot be run")
    pooling = files.get(_POOLING, {_MEAN: True})
    modes = [key for key, on in pooling.items() if key.startswith("pooling_mode_") and on is True]
    if modes not in ([_MEAN], [_CLS]):
        raise ValueError(f"{_POOLING}: only pooling by mean or cls can be run, not {modes}")
    return modes == [_CLS]


def _read_layer(tensors: Tensors, number: int, heads: int) -> _Layer:
    prefix = f"encoder.layer.{number}."
    parts = [tensors.pair(f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
    # Dividing the query's weights once spares dividing every score later.
    share = np.float32(1 / math.sqrt(len(parts[0][1]) // heads))
    parts[0] = (parts[0][0] * share, parts[0][1] * share)
    return _Layer(
        inward=(
            np.concatenate([weight for weight, _ in parts], axis=1),
            np.concatenate([bias for _, bias in parts]),
        ),
        outward=tensors.pair(f"{prefix}attention.output.dense"),
        attention_norm=tensors.pair(f"{prefix}attention.output.LayerNorm"),
        widen=tensors.pair(f"{prefix}intermediate.dense"),
        narrow=tensors.pair(f"{prefix}output.dense"),
        output_norm=tensors.pair(f"{prefix}output.LayerNorm"),
    )


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
