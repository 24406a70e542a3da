"""The script that makes the bundled model from the official weights."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from retain.index.embed import LocalModel
from retain.index.embed.bert import Tensors
from scripts import convert_model
from tests.index.embed import models


def test_a_quantised_model_answers_nearly_as_the_original(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert_model, "LEAST_ROWS", 3)
    arrays = models.weights()
    original = {**arrays, "pooler.dense.weight": np.ones((12, 12), np.float32)}
    original["embeddings.position_ids"] = np.arange(32)
    small = convert_model.quantised(Tensors(models.packed(original)))
    assert small["embeddings.word_embeddings.weight"].dtype == np.int8
    assert small["embeddings.token_type_embeddings.weight"].dtype == np.float32
    assert "pooler.dense.weight" not in small
    directory = models.write(tmp_path / "tiny")
    (directory / "model.safetensors").write_bytes(convert_model.packed(small))
    found = LocalModel(str(directory)).embed(models.TEXTS)
    near = (found * models.expected(arrays, models.TEXTS)).sum(1)
    assert near.min() > 0.995


def test_weights_that_are_not_the_official_ones_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "target"
    with pytest.raises(SystemExit, match=r"model\.safetensors is not the official file"):
        convert_model.main([convert_model.TARGET, str(target)])
    assert not os.path.exists(target)


@pytest.mark.parametrize("arguments", [[], ["a", "b", "c"]])
def test_a_wrong_call_shows_how_it_is_called(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"convert_model\.py SOURCE"):
        convert_model.main(arguments)
