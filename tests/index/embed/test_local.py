"""Models on this machine: the shipped one says what it should, a bad one says what is wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import retain.index.embed.local
from retain.index.embed import EmbedderError
from retain.index.embed.local import MINILM, MINILM_SHA256, WEIGHTS, LocalModel
from tests.index.embed import models

BUNDLE = Path(retain.index.embed.local.__file__).parent / "minilm"

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


def test_texts_that_mean_the_same_are_near_and_others_far() -> None:
    vectors = MINILM.embed(
        [
            "Which database did we choose?",
            "We decided to store everything in PostgreSQL.",
            "The cat sleeps on the warm windowsill.",
            "A kitten is napping by the window.",
        ]
    )
    near = vectors @ vectors.T
    assert near[0, 1] > 0.3
    assert near[2, 3] > 0.5
    assert near[0, 2] < 0.15
    assert near[1, 3] < 0.15


def test_the_shipped_model_is_known_without_its_files() -> None:
    assert MINILM.name == f"minilm-l6-v2-int8:{MINILM_SHA256[WEIGHTS][:12]}"
    assert MINILM.dimension == 384


def test_the_shipped_files_are_those_of_the_checksums_and_have_a_licence() -> None:
    for name, sha256 in MINILM_SHA256.items():
        assert hashlib.sha256((BUNDLE / name).read_bytes()).hexdigest() == sha256
    assert "all-MiniLM-L6-v2" in (BUNDLE / "NOTICE").read_text(encoding="utf-8")
    assert "Apache License" in (BUNDLE / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MINILM_SHA256)
def test_a_shipped_file_that_is_damaged_or_missing_is_named(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "minilm"
    shutil.copytree(BUNDLE, directory)
    data = bytearray((directory / name).read_bytes())
    data[-3] ^= 1
    (directory / name).write_bytes(data)
    error = refused(LocalModel(str(directory), sha256=MINILM_SHA256))
    assert f"{name} is damaged" in error.message
    assert "pip install" in error.hint
    (directory / name).unlink()
    assert name in refused(LocalModel(str(directory), sha256=MINILM_SHA256)).message


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
    model = LocalModel(str(models.write(tmp_path / "tiny", arrays)))  # and no word on pooling
    wanted = models.expected(models.weights(), models.TEXTS)
    assert model.embed(models.TEXTS) == pytest.approx(wanted, abs=1e-4)


def test_a_vector_does_not_depend_on_its_company(tmp_path: Path) -> None:
    model = LocalModel(str(models.write(tmp_path / "tiny")))
    texts = ["tea " * (n % 23) + "rain" for n in range(150)]
    backwards = model.embed(texts[::-1])[::-1]
    assert model.embed(texts) == pytest.approx(backwards, abs=1e-5)


def test_a_directory_is_named_by_its_weights_as_they_were_first(home: Path) -> None:
    directory = models.write(home / "tiny")
    digest = hashlib.sha256((directory / WEIGHTS).read_bytes()).hexdigest()
    model = LocalModel("~/tiny/")
    assert (model.name, model.dimension) == (f"local:tiny:{digest[:12]}", 12)
    models.write(directory, models.weights(seed=8))
    assert "has changed" in refused(model).message
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


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", WEIGHTS])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    directory = models.write(tmp_path / "tiny")
    (directory / name).unlink()
    error = refused(LocalModel(str(directory)))
    assert name in error.message
    assert str(directory) in error.message


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    model = LocalModel(str(tmp_path / "nowhere"))
    assert "nowhere" in refused(model).message
    with pytest.raises(EmbedderError, match="nowhere"):
        _ = model.name
    with pytest.raises(EmbedderError, match="nowhere"):
        _ = model.dimension


@pytest.mark.parametrize(
    "config, said",
    [
        ({"model_type": "roberta"}, "roberta"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"num_attention_heads": 5}, "5 heads"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"vocab_size": 5}, "more words"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_hidden_layers": 3}, "have no encoder.layer.2"),
        ({"layer_norm_eps": "tiny"}, "tiny"),
    ],
)
def test_a_model_that_cannot_be_run_is_refused(
    config: dict[str, object], said: str, tmp_path: Path
) -> None:
    directory = models.write(tmp_path / "tiny")
    models.write_json(directory / "config.json", {**models.CONFIG, **config})
    model = LocalModel(str(directory))
    assert said in refused(model).message


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("config.json", b"[]", "not a JSON object"),
        ("config.json", b"{", "not valid JSON"),
        ("config.json", b"[" * 100_000, "not valid JSON"),
        ("tokenizer.json", json.dumps(models.tokenizer("Unigram")).encode(), "tokenizer"),
        ("tokenizer.json", b"", "tokenizer"),
        ("modules.json", b'[{"type": "sentence_transformers.models.Dense"}]', "Dense"),
        ("1_Pooling/config.json", b'{"pooling_mode_max_tokens": true}', "max_tokens"),
        ("1_Pooling/config.json", b"{}", "no pooling"),
        ("sentence_bert_config.json", b'{"max_seq_length": -1}', "max_seq_length"),
    ],
)
def test_a_file_that_says_something_else_is_refused(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    directory = models.write(tmp_path / "tiny", pooling="mean")
    (directory / name).write_bytes(content)
    assert said in refused(LocalModel(str(directory))).message


def test_steps_that_can_be_run_are_accepted(tmp_path: Path) -> None:
    directory = models.write(tmp_path / "tiny")
    steps = ["Transformer", "Pooling", "Normalize"]
    models.write_json(
        directory / "modules.json", [{"type": f"sentence_transformers.models.{s}"} for s in steps]
    )
    assert LocalModel(str(directory)).query("tea").shape == (12,)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_weights_that_give_no_finite_numbers_are_refused(bad: float, tmp_path: Path) -> None:
    arrays = models.weights()
    arrays["encoder.layer.1.output.dense.weight"][:] = bad
    error = refused(LocalModel(str(models.write(tmp_path / "tiny", arrays))))
    assert "not finite" in error.message


# Damaged weights

Damage = Callable[[bytes], bytes]


def header(**changes: object) -> Damage:
    """Change what the header says about the word table."""

    def damage(data: bytes) -> bytes:
        length = int.from_bytes(data[:8], "little")
        facts = json.loads(data[8 : 8 + length])
        facts["embeddings.word_embeddings.weight"].update(changes)
        return models.with_header(json.dumps(facts).encode("ascii"), data[8 + length :])

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "empty": (lambda _: b"", "header cannot be read"),
    "a header larger than the file": (lambda data: b"\xff" * 8 + data[8:], "header cannot"),
    "a header that is not JSON": (lambda _: models.with_header(b"nothing"), "header cannot"),
    "a header that is too deep": (lambda _: models.with_header(b"[" * 100_000), "header cannot"),
    "a tensor that is a word": (
        lambda _: models.with_header(b'{"embeddings.word_embeddings.weight": "b"}'),
        "cannot be read",
    ),
    "cut short": (lambda data: data[:-40], "cannot be read"),
    "offsets behind the end": (header(data_offsets=[0, 10**12]), "cannot be read"),
    "offsets turned round": (header(data_offsets=[576, 0]), "cannot be read"),
    "a negative shape": (header(shape=[-12, -12]), "cannot be read"),
    "another shape": (header(shape=[144]), "config.json asks for"),
    "a type that is not read": (header(dtype="BF16", shape=[12, 24]), "BF16"),
    "8-bit numbers without scales": (header(dtype="I8", shape=[12, 48]), "asks for"),
    "no tensors": (lambda _: models.with_header(b"{}"), "have no"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_weights_are_refused(name: str, tmp_path: Path) -> None:
    damage, said = DAMAGES[name]
    directory = models.write(tmp_path / "tiny")
    path = directory / WEIGHTS
    path.write_bytes(damage(path.read_bytes()))
    assert said in refused(LocalModel(str(directory))).message
