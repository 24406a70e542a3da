"""Categories and the settings of typed memories: the six, one's own, and those of other stores."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain import config
from retain.app import App
from retain.categories import DEFAULTS, Category, Rules, load_categories
from retain.config import Config, parse_value, rules, setting
from retain.errors import UsageError
from tests.cli.door import call


@pytest.fixture
def bank(home: Path) -> Path:
    root = home / "work" / ".retain"
    root.mkdir()
    return root


@pytest.fixture
def claude(home: Path) -> Path:
    root = home / "work" / ".claude" / "memory"
    root.mkdir(parents=True)
    return root


def load(root: Path, text: str = "", env: dict[str, str] | None = None) -> Config:
    (root / "config.toml").write_text(text, encoding="utf-8")
    return config.load(str(root / "none.toml"), str(root / "config.toml"), env or {})


def of_claude(root: Path, theirs: object) -> tuple[Config, Rules]:
    text = theirs if isinstance(theirs, str) else json.dumps(theirs)
    (root / "memory-config.json").write_text(text, encoding="utf-8")
    found = App().config
    return found, rules(found, str(root))


def test_the_six_are_those_of_document_004() -> None:
    found = DEFAULTS.values()
    assert [(one.name, one.folder, one.retention_days, one.max_retained) for one in found] == [
        ("session_summary", "sessions", 90, 5),
        ("decision", "decisions", 0, 0),
        ("runbook", "runbooks", 0, 0),
        ("constraint", "constraints", 0, 0),
        ("tech_debt", "tech-debt", 0, 0),
        ("preference", "preferences", 0, 0),
    ]
    assert all(one.enabled and one.auto_capture for one in DEFAULTS.values())


@pytest.mark.parametrize(
    "given, folders, count",
    [
        ({"decision": "choices"}, {}, 0),
        ({"incident": "incidents"}, {}, 0),
        ({"incident": ""}, {}, 1),
        ({"decision": "Runbooks"}, {"decision": "decisions"}, 1),
        ({"decision": "same", "runbook": "same"}, {"runbook": "runbooks"}, 1),
        ({"decision": "tech-debt", "tech_debt": "runbooks"},
         {"decision": "decisions", "tech_debt": "tech-debt"}, 2),
        ({"incident": "decisions"}, {"incident": ""}, 1),
        ({"incident": "x", "outage": "X"}, {"outage": ""}, 1),
    ],
)  # fmt: skip
def test_two_categories_never_share_a_folder(
    given: dict[str, str], folders: dict[str, str], count: int
) -> None:
    found, warnings = load_categories(
        {name: {"folder": folder} for name, folder in given.items()}, "/"
    )
    wanted = {name: one.folder for name, one in DEFAULTS.items()} | given | folders
    assert {name: one.folder for name, one in found.items()} == {
        name: folder for name, folder in wanted.items() if folder
    }
    assert len(warnings) == count


SCHEMA = {"type": "object", "required": ["impact"]}


def schema_of(text: str, root: Path) -> tuple[object, list[str]]:
    found, warnings = load_categories(
        {"incident": {"folder": "incidents", "schema": text}}, str(root)
    )
    return found["incident"].schema, warnings


def test_a_schema_is_a_file_in_the_bank_or_stands_in_the_setting(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/incident.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (tmp_path / "linked.json").symlink_to("schemas/incident.json")
    for text in ("schemas/incident.json", "linked.json", json.dumps(SCHEMA)):
        assert schema_of(text, tmp_path) == (SCHEMA, [])
    assert schema_of("", tmp_path) == (None, [])


@pytest.mark.parametrize(
    "name",
    [
        "../secret.json", "bank/../../secret.json", "{outside}", "away.json", "dir/secret.json",
        "none.json", "text.txt", "pipe.json", "folder.json", "list.json", "broken.json",
        "deep.json", "large.json", "latin.json", "a\0.json", "{", "[]", ".json", "~/x.json",
    ],
)  # fmt: skip
def test_a_schema_that_is_not_in_the_bank_or_no_object_is_not_used(
    tmp_path: Path, name: str
) -> None:
    bank = tmp_path / "bank"
    bank.mkdir()
    (tmp_path / "secret.json").write_text("{}", encoding="utf-8")
    (bank / "away.json").symlink_to(tmp_path / "secret.json")
    (bank / "dir").symlink_to(tmp_path)
    os.mkfifo(bank / "pipe.json")
    (bank / "folder.json").mkdir()
    texts = {
        "text.txt": "{}", "list.json": "[]", "broken.json": "{", "deep.json": "[" * 100_000,
        "large.json": "{" + " " * 100_000 + "}",
    }  # fmt: skip
    for file, text in texts.items():
        (bank / file).write_text(text, encoding="utf-8")
    (bank / "latin.json").write_bytes(b'{"title": "\xe9"}')
    found, warnings = schema_of(name.replace("{outside}", str(tmp_path / "secret.json")), bank)
    assert found is None
    assert len(warnings) == 1
    assert "the schema of the category incident is not used" in warnings[0]
    assert len(warnings[0]) < 500


# A bank's own config


def test_a_project_may_set_every_rule(bank: Path) -> None:
    found = load(
        bank,
        "[records]\ngrace_period_days = 7\narchive_retired = true\nmax_per_category = 0\n"
        'match_strategy = "hybrid"\n[categories.decision]\nretention_days = 365\n'
        "[categories.preference]\nenabled = false\nauto_capture = false\n"
        '[categories.incident]\nfolder = "incidents"\nmax_retained = 3\n'
        f'description = "{"x" * 900}"\n[categories.incident.schema]\nrequired = ["impact"]\n',
    )
    categories = {
        **DEFAULTS,
        "decision": DEFAULTS["decision"]._replace(retention_days=365),
        "preference": DEFAULTS["preference"]._replace(enabled=False, auto_capture=False),
        "incident": Category(
            "incident", "incidents", max_retained=3, description="x" * 500,
            schema={"required": ["impact"]},
        ),
    }  # fmt: skip
    assert rules(found, str(bank)) == Rules(categories, 7, True, 0, "hybrid", ())


@pytest.mark.parametrize(
    "text",
    [
        *(f"[categories.decision]\n{line}" for line in (
            'enabled = "yes"', "enabled = 1", "retention_days = -1", 'retention_days = "30"',
            "retention_days = 1.5", "retention_days = true", "max_retained = []",
            "max_retained = 1" + "0" * 30, "description = 5", "folder = 5", 'folder = ""',
            'folder = "a/b"', 'folder = "../out"', 'folder = ".trash"', 'folder = "skills"',
            'folder = "con"', "schema = 5", "schema = {d = 2026-01-01}", "colour = 1",
            "folder.name = 1", 'name = "x"',
        )),
        "categories = 5", "[categories]\ndecision = 5", '[categories.""]\nfolder = "x"',
        '[categories.Incident]\nfolder = "x"', '[categories."a.b"]\nfolder = "x"',
        f'[categories.{"a" * 41}]\nfolder = "x"', "[categories.decision.folder]\na = 1",
        '[records]\nmatch_strategy = "magic"', "[records]\nother = 1",
    ],
)  # fmt: skip
def test_what_cannot_be_set_is_ignored_and_said_so(bank: Path, text: str) -> None:
    found = load(bank, text)
    assert len(found.warnings) == 1
    assert found.warnings[0].startswith(f"{bank}/config.toml: ")
    assert rules(found, str(bank)) == rules(load(bank), str(bank))


def test_a_person_sets_categories_for_all_banks_and_a_project_its_own(
    home: Path, bank: Path
) -> None:
    (home / ".retain").mkdir()
    own = home / ".retain" / "config.toml"
    own.write_text(
        "[categories.decision]\nretention_days = 9\nmax_retained = 9\n"
        '[categories.incident]\nfolder = "incidents"\n',
        encoding="utf-8",
    )
    (bank / "config.toml").write_text(
        "[categories.decision]\nretention_days = 5\n[categories.incident]\nenabled = false\n",
        encoding="utf-8",
    )
    found = rules(App().config, str(bank))
    assert found.categories["decision"][4:6] == (5, 9)
    assert found.categories["incident"] == Category("incident", "incidents", enabled=False)


def test_variables_set_categories_too(bank: Path) -> None:
    env = {
        "RETAIN_CATEGORIES_TECH_DEBT_RETENTION_DAYS": "4",
        "RETAIN_CATEGORIES_MAX_RETAINED_FOLDER": "odd",
        "RETAIN_CATEGORIES_DECISION_ENABLED": "off",
        "RETAIN_CATEGORIES_DECISION_COLOUR": "red",
        "RETAIN_CATEGORIES_FOLDER": "x",
    }
    found = load(bank, "", env)
    assert found.warnings == ()
    categories = rules(found, str(bank)).categories
    assert categories["tech_debt"].retention_days == 4
    assert categories["max_retained"].folder == "odd"
    assert not categories["decision"].enabled
    bad = load(bank, "", {"RETAIN_CATEGORIES_DECISION_FOLDER": "a/b"})
    assert "RETAIN_CATEGORIES_DECISION_FOLDER is ignored" in bad.warnings[0]


@pytest.mark.parametrize(
    "key",
    ["categories", "categories.", "categories.decision", "categories.decision.colour",
     "categories.decision.name", "categories.A.folder", "categories..folder",
     "categories.a.b.folder", "categories.decision.folder.x"],
)  # fmt: skip
def test_an_unknown_setting_of_a_category_is_refused(key: str) -> None:
    with pytest.raises(UsageError):
        setting(key)


@given(st.text(max_size=30))
def test_any_folder_a_person_types_is_a_collection_or_refused(text: str) -> None:
    one = setting("categories.incident.folder")
    try:
        value = parse_value(one, text)
    except UsageError:
        return
    assert isinstance(value, str)
    assert value
    assert "/" not in value
    assert value not in (".", "..", "skills")


# The stores of other tools


@pytest.mark.parametrize(
    "theirs, mode, kept",
    [
        ("versioning: git", "auto", 10),
        ("history: false", "auto", 1),
        ("versioning: custom\n  max_versions: 3", "numbered", 3),
        ("versioning: custom\n  auto_version: false", "numbered", 1),
        ("max_versions: many", "auto", 10),
        ("collections:\n    - notes", "auto", 10),
    ],
)
def test_an_arcaneum_files_settings_are_understood(
    home: Path, theirs: str, mode: str, kept: int
) -> None:
    text = f"version: 1\nretain:\n  enabled: true\n  {theirs}\n"
    (home / "work" / ".arcaneum").write_text(text, encoding="utf-8")
    found = App().config
    assert (found.text("versioning.mode"), found.number("versioning.max_versions")) == (mode, kept)
    is_told = "retain.collections has no effect" in " ".join(found.warnings)
    assert is_told == theirs.startswith("collections")


DOCUMENT: dict[str, Any] = {
    "memory_root": ".claude/memory",
    "categories": {
        one.name: {
            "enabled": True, "folder": one.folder, "auto_capture": True,
            "retention_days": one.retention_days,
            **({"max_retained": 5} if one.max_retained else {}),
        }
        for one in DEFAULTS.values()
    },
    "auto_commit": False,
    "max_memories_per_category": 100,
    "retrieval": {"max_inject": 5, "match_strategy": "title_tags"},
    "triage": {"enabled": True, "thresholds": {"decision": 0.4}, "parallel": {"enabled": True}},
    "delete": {"grace_period_days": 30, "archive_retired": True},
}  # fmt: skip


def test_the_default_file_of_document_004_means_the_defaults(claude: Path) -> None:
    found, said = of_claude(claude, DOCUMENT)
    assert found.warnings == ()
    assert said == Rules(dict(DEFAULTS))
    assert found.values["records.grace_period_days"].origin == f"{claude}/memory-config.json"


def test_its_settings_are_understood(claude: Path) -> None:
    found, said = of_claude(
        claude,
        {
            "delete": {"grace_period_days": 5, "archive_retired": True},
            "max_memories_per_category": 7,
            "auto_commit": True,
            "retrieval": {"match_strategy": "tags", "enabled": False},
            "categories": {
                "decision": {"retention_days": 3, "description": "Why.", "colour": "red"},
                "outage": {"folder": "outages", "schema": {"type": "object"}},
                "runbook": {"enabled": False},
            },
            "log": {"level": 3},
        },
    )
    assert found.warnings == ()
    assert found.flag("versioning.auto_commit")
    assert said[1:] == (5, True, 7, "tags", ())
    assert said.categories["decision"][4:7] == (3, 0, "Why.")
    assert not said.categories["runbook"].enabled
    assert said.categories["outage"].schema == {"type": "object"}


@pytest.mark.parametrize(
    "theirs, warned",
    [
        ({"delete": {"grace_period_days": -1}}, 1), ({"delete": {"grace_period_days": None}}, 1),
        ({"delete": {"archive_retired": "true"}}, 1), ({"delete": {"archive_retired": False}}, 1),
        ({"delete": 5, "retrieval": [], "triage": "x"}, 3), ({"retrieval": None}, 1),
        ({"max_memories_per_category": 1.5}, 1), ({"auto_commit": 1}, 1),
        ({"retrieval": {"match_strategy": "magic"}}, 1),
        ({"categories": {"decision": {"folder": "../x", "enabled": 0}}}, 2),
        ({"categories": {"Bad Name": {"folder": "x"}}}, 1),
        ({"categories": {"decision": {"colour": "red"}}}, 0),
        ({"categories": {"tech_debt": 5, "x" * 1000: 5}}, 2), ({"categories": {"\x1b[2J": 5}}, 1),
        ({"categories": []}, 1), ({}, 0), ("", 1), ("{", 1), ("[]", 1),
        ('"' + "x" * 100_001 + '"', 1), ("[" * 50_000, 1),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_a_broken_file_leaves_the_defaults_and_is_said(
    claude: Path, theirs: object, warned: int
) -> None:
    found, said = of_claude(claude, theirs)
    assert len(found.warnings) == warned
    assert all(len(one) < 500 for one in found.warnings)
    assert not any("\x1b" in one for one in found.warnings)
    assert said == Rules(dict(DEFAULTS))


@pytest.mark.parametrize("target", ["/dev/zero", "/etc/passwd"])
def test_a_file_that_is_a_link_is_not_followed(claude: Path, target: str) -> None:
    (claude / "memory-config.json").symlink_to(target)
    found = App().config
    assert len(found.warnings) == 1
    assert {value.origin for value in found.values.values()} == {"default"}


@pytest.mark.parametrize(
    "theirs, key, value",
    [
        ({"triage": {"thresholds": {"DECISION": 0.9}}}, "triage.thresholds.decision", 0.9),
        ({"triage": {"thresholds": {"runbook": 7}}}, "triage.thresholds.runbook", 1.0),
        ('{"triage": {"thresholds": {"runbook": NaN}}}', "triage.thresholds.runbook", 0.4),
        ({"triage": {"parallel": {"category_models": {"runbook": "OPUS"}}}},
         "triage.parallel.category_models.runbook", "opus"),
        ({"triage": {"parallel": {"default_model": "gpt"}}}, "triage.parallel.default_model",
         "haiku"),
        ({"retrieval": {"enabled": False}}, "retrieval.enabled", False),
        ({"retrieval": {"max_inject": 7.9}}, "retrieval.max_inject", 5),
        ({"retrieval": {"max_inject": 999}}, "retrieval.max_inject", 20),
        ({"hooks": {"pre_tool_use": False}}, "hooks.pre_tool_use", True),
    ],
)  # fmt: skip
def test_the_hooks_settings_in_a_memory_config(
    claude: Path, theirs: object, key: str, value: object
) -> None:
    assert of_claude(claude, theirs)[0].value(key).value == value


# The command line


def test_status_doctor_and_check_tell_of_categories_that_are_not_as_the_config_says(
    bank: Path,
) -> None:
    load(
        bank,
        '[categories.decision]\nfolder = "runbooks"\n[categories.incident]\nfolder = "sessions"\n'
        '[categories.outage]\nfolder = "outages"\nschema = "none.json"\n'
        "[categories.b]\nfolder = 'b'\nschema = '{\"type\": \"thing\"}'\n",
    )
    told = [
        "the folder runbooks is taken; the category decision keeps decisions",
        "the folder sessions is session_summary's; the category incident is ignored",
        "the schema of the category outage is not used",
    ]
    for command in (["status"], ["doctor"], ["config", "check"]):
        ran = call(*command)
        assert all(one in ran.out for one in told), ran.out
    assert "the schema of the category b cannot be used" in ran.out
    assert ran.code == 1
