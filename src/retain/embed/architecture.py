"""What the JSON files of a sentence-transformers directory say about its model.

Whatever the encoder does not do is refused with a ValueError: a model run in part gives vectors
that look right and are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["MAX_TOKENS", "Architecture", "Read", "architecture"]

MAX_TOKENS: Final = 256

# The bytes of one file of the directory, or None where it does not have that file.
Read = Callable[[str], bytes | None]

_MOST: Final = 1_000_000
_STEPS: Final = ("Transformer", "Pooling", "Normalize")
_POOLING: Final = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


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


def architecture(read: Read) -> Architecture:
    """The architecture that a directory's files describe."""
    config = _object(read, "config.json")
    if config is None:
        raise ValueError("it has no config.json")
    _check_family(config)
    _check_steps(read)
    found = Architecture(
        dimension=_number(config, "hidden_size"),
        heads=_number(config, "num_attention_heads"),
        layers=_number(config, "num_hidden_layers"),
        wide=_number(config, "intermediate_size"),
        words=_number(config, "vocab_size"),
        positions=_number(config, "max_position_embeddings"),
        epsilon=_epsilon(config),
        max_tokens=_max_tokens(config, _object(read, "sentence_bert_config.json")),
        pooling=_pooling(_object(read, "1_Pooling/config.json")),
    )
    if found.dimension % found.heads:
        raise ValueError(f"config.json: {found.heads} heads cannot share {found.dimension} numbers")
    return found


def _check_family(config: dict[str, object]) -> None:
    for key, wanted in (
        ("model_type", "bert"),
        ("hidden_act", "gelu"),
        ("position_embedding_type", "absolute"),
    ):
        if (given := config.get(key, wanted)) != wanted:
            raise ValueError(
                f"config.json: {key} is {str(given)[:40]!r}, and only {wanted!r} can be run"
            )


def _check_steps(read: Read) -> None:
    """Refuse a model with a step after pooling, such as a dense layer."""
    steps = _json(read, "modules.json")
    for step in steps if isinstance(steps, list) else ():
        kind = str(step.get("type") if isinstance(step, dict) else step)
        if kind.rpartition(".")[2] not in _STEPS:
            raise ValueError(f"modules.json: {kind[:60]!r} cannot be run")


def _pooling(config: dict[str, object] | None) -> str:
    if config is None:
        return "mean"
    modes = [key for key, on in config.items() if key.startswith("pooling_mode_") and on is True]
    if len(modes) != 1 or modes[0] not in _POOLING:
        raise ValueError(
            f"1_Pooling/config.json: {', '.join(modes)[:80] or 'no pooling'} cannot be run, "
            "only pooling by mean or cls"
        )
    return _POOLING[modes[0]]


def _max_tokens(config: dict[str, object], sentence: dict[str, object] | None) -> int:
    limits = [MAX_TOKENS, _number(config, "max_position_embeddings")]
    if sentence and sentence.get("max_seq_length") is not None:
        limits.append(_number(sentence, "max_seq_length"))
    return min(limits)


def _epsilon(config: dict[str, object]) -> float:
    value = config.get("layer_norm_eps", 1e-12)
    if not isinstance(value, float) or not 0 < value < 1:
        raise ValueError("config.json: layer_norm_eps is not a small number")
    return value


def _number(config: dict[str, object], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or not 0 < value <= _MOST:
        raise ValueError(f"its {key} is not a whole number above 0")
    return value


def _object(read: Read, name: str) -> dict[str, object] | None:
    found = _json(read, name)
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"{name} is not a JSON object")
    return found


def _json(read: Read, name: str) -> object:
    data = read(name)
    if data is None:
        return None
    try:
        found: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} is not valid JSON: {error}") from error
    return found
