"""Models on this machine: the shipped one says what it should, a bad one says what is wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import retain.index.embed
from retain.index.embed import MINILM, MINILM_SHA256, WEIGHTS, EmbedderError, LocalModel
from tests.index.embed import models

BUNDLE = Path(retain.index.embed.__file__).parent / "minilm"

# The first numbers of the vectors that the official float32 weights give, in float64.
REFERENCE = {
    "The cache is cleared every night at two.": (
        [0.0423, -0.0045, 0.0142, 0.0150, 0.0008, -0.1118, -0.0294, -0.0733]
    ),
    "Wir haben uns für PostgreSQL entschieden.": (
        [-0.0450, -0.0058, -0.0495, 0.0196, -0.1321, 0.0479, 0.0783, 0.0715]
    ),
    "When the deployment fails, roll back first and read the logs afterwards; "
    "ask Mira if in doubt.": (
        [0.0595, -0.0987, 0.0859, -0.0021, 0.0647, -0.0619, -0.0096, -0.0453]
    ),
}


def refused(model: LocalModel) -> EmbedderError:
    with pytest.raises(EmbedderError) as caught:
        model.query("tea")
    assert caught.value.hint
    return caught.value


# The shipped model


def test_the_shipped_model_agrees_with_the_official_weights() -> None:
    vectors = MINILM.embed(list(REFERENCE))
    assert vectors[:, :8] == pytest.approx(np.array(list(REFERENCE.values())), abs=0.005)
    assert MINILM.name == f"minilm-l6-v2-int8:{MINILM_SHA256[:12]}"
    assert vectors.shape[1] == 384


def test_the_shipped_model_has_a_licence() -> None:
    assert "all-MiniLM-L6-v2" in (BUNDLE / "NOTICE").read_text(encoding="utf-8")
    assert "Apache License" in (BUNDLE / "LICENSE").read_text(encoding="utf-8")


def test_shipped_weights_that_are_damaged_or_missing_are_named(tmp_path: Path) -> None:
    directory = tmp_path / "minilm"
    shutil.copytree(BUNDLE, directory)
    data = bytearray((directory / WEIGHTS).read_bytes())
    data[-3] ^= 1
    (directory / WEIGHTS).write_bytes(data)
    error = refused(LocalModel(str(directory), sha256=MINILM_SHA256))
    assert f"{WEIGHTS} is damaged" in error.message
    assert "pip install" in error.hint
    (directory / WEIGHTS).unlink()
    assert WEIGHTS in refused(LocalModel(str(directory), sha256=MINILM_SHA256)).message


# A person's own model


@pytest.mark.parametrize("pooling", ["mean", "cls"])
@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_a_model_answers_by_the_textbook(kind: str, pooling: str, tmp_path: Path) -> None:
    arrays = {name: array.astype(kind) for name, array in models.weights().items()}
    model = LocalModel(str(models.write(tmp_path / "tiny", arrays, pooling=pooling)))
    wanted = models.expected(arrays, models.TEXTS, pooling)
    assert model.embed(models.TEXTS) == pytest.approx(wanted, abs=1e-4)


def test_a_model_within_a_larger_checkpoint_is_found(tmp_path: Path) -> None:
    arrays = {f"bert.{name}": array for name, array in models.weights().items()}
    arrays["bert.embeddings.position_ids"] = np.arange(32)
    directory = models.write(tmp_path / "tiny", arrays)  # without a word on pooling
    steps = [{"type": f"x.{name}"} for name in ("Transformer", "Pooling", "Normalize")]
    models.write_json(directory / "modules.json", steps)
    wanted = models.expected(models.weights(), models.TEXTS)
    assert LocalModel(str(directory)).embed(models.TEXTS) == pytest.approx(wanted, abs=1e-4)


def test_a_vector_does_not_depend_on_its_company(tmp_path: Path) -> None:
    model = LocalModel(str(models.write(tmp_path / "tiny")))
    texts = ["tea " * (n % 23) + "rain" for n in range(150)]
    backwards = model.embed(texts[::-1])[::-1]
    assert model.embed(texts) == pytest.approx(backwards, abs=1e-5)


def test_a_directory_is_named_by_its_weights_as_they_were_first(home: Path) -> None:
    directory = models.write(home / "tiny")
    digest = hashlib.sha256((directory / WEIGHTS).read_bytes()).hexdigest()
    model = LocalModel("~/tiny/")
    assert model.name == f"local:tiny:{digest[:12]}"
    models.write(directory, models.weights(seed=8))
    assert "changed meanwhile" in refused(model).message
    assert LocalModel(str(directory)).name != model.name


@pytest.mark.parametrize("limit", [4, 32])
def test_a_text_is_cut_where_the_model_ends(limit: int, tmp_path: Path) -> None:
    directory = models.write(tmp_path / "tiny")
    if limit == 4:
        models.write_json(directory / "sentence_bert_config.json", {"max_seq_length": 4})
    model = LocalModel(str(directory))
    kept = "tea " * (limit - 2)
    assert model.query(kept + "rain rain") == pytest.approx(model.query(kept), abs=1e-6)
    assert model.query(kept) != pytest.approx(model.query("tea " * (limit - 3)), abs=1e-3)


# What cannot be used


def config(**changes: object) -> bytes:
    return json.dumps({**models.CONFIG, **changes}).encode()


FAULTS = [
    ("config.json", None, "config.json"),
    ("tokenizer.json", None, "tokenizer.json"),
    (WEIGHTS, None, WEIGHTS),
    ("config.json", config(model_type="roberta"), "roberta"),
    ("config.json", config(position_embedding_type="relative_key"), "relative_key"),
    ("config.json", config(num_attention_heads=5), ""),
    ("config.json", config(num_hidden_layers=3), "lacks 'encoder.layer.2"),
    ("config.json", config(layer_norm_eps="tiny"), "tiny"),
    ("config.json", b"[]", ""),
    ("config.json", b"{", "not valid JSON"),
    ("config.json", b"[" * 100_000, "not valid JSON"),
    ("tokenizer.json", json.dumps(models.tokenizer("Unigram")).encode(), "tokenizer"),
    ("tokenizer.json", b"", "tokenizer"),
    ("modules.json", b'[{"type": "sentence_transformers.models.Dense"}]', "Dense"),
    ("1_Pooling/config.json", b'{"pooling_mode_max_tokens": true}', "max_tokens"),
    ("1_Pooling/config.json", b"{}", "only pooling"),
]


@pytest.mark.parametrize("name, content, said", FAULTS)
def test_a_model_that_cannot_be_run_is_refused(
    name: str, content: bytes | None, said: str, tmp_path: Path
) -> None:
    directory = models.write(tmp_path / "tiny", pooling="mean")
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    error = refused(LocalModel(str(directory)))
    assert said in error.message
    assert str(directory) in error.message


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    model = LocalModel(str(tmp_path / "nowhere"))
    assert "nowhere" in refused(model).message
    with pytest.raises(EmbedderError, match="nowhere"):
        _ = model.name


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_weights_that_give_no_finite_numbers_are_refused(bad: float, tmp_path: Path) -> None:
    arrays = models.weights()
    arrays["encoder.layer.1.output.dense.weight"][:] = bad
    error = refused(LocalModel(str(models.write(tmp_path / "tiny", arrays))))
    assert "not finite" in error.message


def header(**changes: object) -> Callable[[bytes], bytes]:
    """Change what the header says about the word table."""

    def damage(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        facts = json.loads(data[8 : 8 + length])
        facts["embeddings.word_embeddings.weight"].update(changes)
        return models.with_header(json.dumps(facts).encode("ascii"), data[8 + length :])

    return damage


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "a header larger than the file": lambda data: b"\xff" * 8 + data[8:],
    "a header that is not JSON": lambda _: models.with_header(b"nothing"),
    "a header that is too deep": lambda _: models.with_header(b"[" * 100_000),
    "a tensor that is a word": lambda _: models.with_header(
        b'{"embeddings.word_embeddings.weight": "b"}'
    ),
    "cut short": lambda data: data[:-40],
    "offsets behind the end": header(data_offsets=[0, 10**12]),
    "offsets turned round": header(data_offsets=[576, 0]),
    "a negative shape": header(shape=[-12, -12]),
    "another shape": header(shape=[144]),
    "a type that is not read": header(dtype="BF16", shape=[12, 24]),
    "8-bit numbers without scales": header(dtype="I8", shape=[12, 48]),
    "no tensors": lambda _: models.with_header(b"{}"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_weights_are_refused(name: str, tmp_path: Path) -> None:
    directory = models.write(tmp_path / "tiny")
    path = directory / WEIGHTS
    path.write_bytes(DAMAGES[name](path.read_bytes()))
    assert "cannot be used" in refused(LocalModel(str(directory))).message
