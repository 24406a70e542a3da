"""Which model, at which address, with which key; and what is said when there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retain import config
from retain.talk.models import Model, ModelError, context_tokens, known, model, provider
from retain.talk.models.access import Access, access, environment

KEY = "sk-test-0123456789abcdef"


def settings(**values: str) -> config.Config:
    env = {f"RETAIN_CHAT_{name.upper()}": value for name, value in values.items()}
    return config.load("", "", env)


def at(chosen: str, found: config.Config, **env: str) -> Access:
    return access(chosen, found, env)


def made(name: str, found: config.Config, **env: str) -> Model:
    return model(name, found, {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, **env})


@pytest.fixture
def own(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file for keys in the person's own bank."""
    (home / ".retain").mkdir()
    return home / ".retain" / "chat.env"


def written(path: Path, text: str, mode: int = 0o600) -> dict[str, str]:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return {"RETAIN_HOME": str(path.parent)}


@pytest.mark.parametrize(
    "name, chosen, expected",
    [
        ("claude-opus-5-5", "auto", "anthropic"),
        ("gpt-5", "auto", "openai"),
        ("qwen3:8b", "auto", "openai"),
        ("claude-opus-5-5", "openai", "openai"),
        ("anthropic:opus", "auto", "anthropic"),
        ("openai:claude-x", "auto", "openai"),
        ("anthropic/claude-opus", "auto", "openai"),
    ],
)
def test_whose_model_it_is_follows_from_name_and_setting(
    name: str, chosen: str, expected: str
) -> None:
    assert provider(name, settings(provider=chosen)) == expected
    assert made(name, settings(provider=chosen)).provider == expected


def test_a_prefix_that_names_the_provider_is_no_part_of_the_name() -> None:
    assert made("openai:claude-x", settings()).name == "claude-x"
    assert made("qwen3:8b", settings()).name == "qwen3:8b"


def test_without_a_name_it_is_the_configured_model() -> None:
    assert made("", settings(model="gpt-5")).name == "gpt-5"
    assert made("", settings()).name == "claude-sonnet-5-5"


@pytest.mark.parametrize(
    "name, size",
    [
        ("claude-sonnet-5-5", 1_000_000),
        ("claude-haiku-4-5", 200_000),
        ("gpt-5-mini", 272_000),
        ("llama3.2", 128_000),
    ],
)
def test_how_much_a_model_reads_is_known_by_its_name(name: str, size: int) -> None:
    assert context_tokens(name, settings()) == made(name, settings()).context_tokens == size
    assert context_tokens(name, settings(context_tokens="4096")) == 4096


def test_the_configured_model_is_the_first_to_choose_from() -> None:
    assert known(settings(model="qwen3:8b"))[0] == "qwen3:8b"
    assert len(set(known(settings()))) == len(known(settings()))


@pytest.mark.parametrize(
    "chosen, variable", [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")]
)
def test_without_a_key_it_is_said_how_to_set_one(chosen: str, variable: str) -> None:
    for env in ({}, {variable: " "}):
        with pytest.raises(ModelError) as caught:
            access(chosen, settings(), env)
        assert caught.value.kind == "no_key"
        assert variable in caught.value.message
        assert "chat.env" in caught.value.hint
        assert "/.retain/chat.env" in caught.value.hint
        assert "chat.model NAME" in caught.value.hint
        assert "chat.base_url" in caught.value.hint


def test_a_named_variable_that_is_empty_is_named() -> None:
    with pytest.raises(ModelError, match="MY_KEY") as caught:
        at("openai", settings(api_key_env="MY_KEY"), OPENAI_API_KEY=KEY)
    assert caught.value.kind == "no_key"


@pytest.mark.parametrize("key", [f"{KEY}\nX-Evil: 1", f"{KEY} x", "schlüssel"])
def test_a_key_that_no_header_takes_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ModelError) as caught:
        at("anthropic", settings(), ANTHROPIC_API_KEY=key)
    assert caught.value.kind == "bad_key"
    assert key not in caught.value.message + caught.value.hint


def test_the_address_of_other_models_is_not_claudes() -> None:
    own = settings(base_url="http://127.0.0.1:11434/v1")
    assert at("anthropic", own, ANTHROPIC_API_KEY=KEY).host == "api.anthropic.com"
    own = settings(base_url="http://127.0.0.1:4000", provider="anthropic")
    assert at("anthropic", own).host == "127.0.0.1:4000"


def test_the_usual_key_goes_to_a_configured_server_only_under_encryption() -> None:
    safe = at("openai", settings(base_url="https://models.example/v1"), OPENAI_API_KEY=KEY)
    open_ = at("openai", settings(base_url="http://gpu-box:8000/v1"), OPENAI_API_KEY=KEY)
    assert safe.key == KEY
    assert open_.key != KEY


@pytest.mark.parametrize(
    "chosen, given, expected",
    [
        ("openai", "http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("openai", "http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/v1"),
        ("openai", "http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("openai", "http://127.0.0.1:8000/api/openai", "http://127.0.0.1:8000/api/openai"),
        ("anthropic", "http://127.0.0.1:4000/v1", "http://127.0.0.1:4000"),
        ("anthropic", "http://127.0.0.1:4000/claude/", "http://127.0.0.1:4000/claude"),
    ],
)
def test_an_address_is_understood_as_people_write_it(
    chosen: str, given: str, expected: str
) -> None:
    assert at(chosen, settings(base_url=given, provider=chosen)).base_url == expected


@pytest.mark.parametrize(
    "address",
    ["ftp://x/v1", "http://", "http://me:secret@host/v1", "http://host:0/v1", "http://[", "a b"],
)
def test_an_address_that_cannot_be_one_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(ModelError) as caught:
        at("openai", settings(base_url=address))
    assert "secret" not in caught.value.message + caught.value.hint


def test_the_file_has_keys_with_comments_and_quotes(own: Path) -> None:
    env = written(
        own,
        "\ufeff# mine\n\nANTHROPIC_API_KEY=a=b\nexport OPENAI_API_KEY='c d'\n"
        'X = "e"\n#Y=f\nnonsense\n=g\nZ="h\n',
    )
    found = dict(environment(env))
    assert found == {
        **env,
        "ANTHROPIC_API_KEY": "a=b",
        "OPENAI_API_KEY": "c d",
        "X": "e",
        "Z": '"h',
    }
    assert "X" not in os.environ


def test_the_file_never_replaces_what_the_environment_has(own: Path) -> None:
    env = {**written(own, "ANTHROPIC_API_KEY=other\n"), "ANTHROPIC_API_KEY": KEY}
    assert access("anthropic", settings(), env).key == KEY


def test_a_key_in_the_file_is_used(own: Path) -> None:
    env = written(own, f"ANTHROPIC_API_KEY={KEY}\n")
    assert access("anthropic", settings(), env).key == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_can_read_is_refused(own: Path, mode: int) -> None:
    env = written(own, f"ANTHROPIC_API_KEY={KEY}\n", mode)
    with pytest.raises(ModelError, match=f"others can read it .*{mode:o}") as caught:
        access("anthropic", settings(), env)
    assert caught.value.hint == f"Make it yours alone: chmod 600 {own}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_someone_else_is_refused(own: Path) -> None:
    env = written(own, "X=1\n")
    os.chown(own, 65534, 65534)
    with pytest.raises(ModelError, match="someone else"):
        environment(env)


def test_a_file_that_is_none_is_refused(own: Path) -> None:
    os.mkfifo(own, 0o600)
    with pytest.raises(ModelError, match="no plain file"):
        environment({"RETAIN_HOME": str(own.parent)})
