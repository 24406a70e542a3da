"""Tiny models made by hand, and what they must answer by the textbook."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retain.index.embed.bert import WordPiece

Arrays = dict[str, NDArray[Any]]

WORDS = "[PAD] [UNK] [CLS] [SEP] tea cup ##s is hot cold the rain".split()
CONFIG: dict[str, object] = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 12,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 20,
    "max_position_embeddings": 32,
    "layer_norm_eps": 1e-12,
    "vocab_size": len(WORDS),
}
POOLING = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}
TEXTS = ("tea", "", "the cups is hot", "the tea is cold the rain is hot", "cups rain", "unheard of")


def weights(seed: int = 7) -> Arrays:
    """Random weights of a size that keeps every step of the encoder busy."""
    draw = np.random.default_rng(seed)
    width, wide = 12, 20
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), width),
        "embeddings.position_embeddings.weight": (32, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,),
        "embeddings.LayerNorm.bias": (width,),
    }
    for number in range(2):
        layer = f"encoder.layer.{number}."
        for name, rows, columns in (
            ("attention.self.query", width, width),
            ("attention.self.key", width, width),
            ("attention.self.value", width, width),
            ("attention.output.dense", width, width),
            ("intermediate.dense", wide, width),
            ("output.dense", width, wide),
        ):
            shapes[f"{layer}{name}.weight"] = (rows, columns)
            shapes[f"{layer}{name}.bias"] = (rows,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{layer}{name}.weight"] = shapes[f"{layer}{name}.bias"] = (width,)
    return {name: draw.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def tokenizer(kind: str = "WordPiece") -> dict[str, Any]:
    """What a tokenizer.json says."""
    return {
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": kind, "vocab": {word: n for n, word in enumerate(WORDS)}},
    }


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A safetensors file."""
    kinds = {"float32": "F32", "float16": "F16", "int8": "I8", "int64": "I64"}
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in arrays.items():
        start = len(data)
        data += array.tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [start, len(data)],
        }
    return with_header(json.dumps(header).encode("ascii"), data)


def with_header(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def write(
    where: Path,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    *,
    pooling: str = "",
) -> Path:
    """A model's directory as sentence-transformers lays it out."""
    where.mkdir(parents=True, exist_ok=True)
    write_json(where / "config.json", CONFIG)
    (where / "model.safetensors").write_bytes(packed(weights() if arrays is None else arrays))
    write_json(where / "tokenizer.json", tokenizer())
    if pooling:
        modes = {key: name == pooling for name, key in POOLING.items()}
        write_json(where / "1_Pooling" / "config.json", {"word_embedding_dimension": 12, **modes})
    return where


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def expected(arrays: Arrays, texts: Sequence[str], pooling: str = "mean") -> NDArray[np.float64]:
    """The vectors by the textbook: one text at a time, in float64, with the exact GELU."""
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    pieces = WordPiece(tokenizer())
    return np.stack([_one(wide, pieces.encode(text, 32), pooling) for text in texts])


def _one(w: dict[str, NDArray[Any]], ids: list[int], pooling: str) -> NDArray[np.float64]:
    def dense(x: NDArray[Any], name: str) -> NDArray[Any]:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: NDArray[Any], name: str) -> NDArray[Any]:
        x = x - x.mean(1, keepdims=True)
        x = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-12)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def heads(x: NDArray[Any], name: str) -> NDArray[Any]:
        return dense(x, name).reshape(len(ids), 3, 4).transpose(1, 0, 2)

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    erf = np.vectorize(math.erf)
    for number in range(2):
        at = f"encoder.layer.{number}."
        query, key, value = (heads(x, f"{at}attention.self.{p}") for p in ("query", "key", "value"))
        scores = np.exp(query @ key.transpose(0, 2, 1) / 2)
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        mixed = mixed.transpose(1, 0, 2).reshape(len(ids), 12)
        x = norm(dense(mixed, f"{at}attention.output.dense") + x, f"{at}attention.output.LayerNorm")
        inner = dense(x, f"{at}intermediate.dense")
        inner = inner * (1 + erf(inner / math.sqrt(2))) / 2
        x = norm(dense(inner, f"{at}output.dense") + x, f"{at}output.LayerNorm")
    pooled = x[0] if pooling == "cls" else x.mean(0)
    vector: NDArray[np.float64] = pooled / np.linalg.norm(pooled)
    return vector
