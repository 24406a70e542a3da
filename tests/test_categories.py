"""The categories of a bank: the six, one's own, and what cannot be one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from retain.categories import DEFAULTS, FIELDS, Category, Rules, gathered, is_name


def test_the_six_are_those_of_document_004() -> None:
    found = DEFAULTS.values()
    assert [(one.name, one.folder, one.retention_days, one.max_retained) for one in found] == [
        ("session_summary", "sessions", 90, 5),
        ("decision", "decisions", 0, 0),
        ("runbook", "runbooks", 0, 0),
        ("constraint", "constraints", 0, 0),
        ("tech_debt", "tech-debt", 0, 0),
        ("preference", "preferences", 0, 0),
    ]  # fmt: skip
    assert all(one.enabled and one.auto_capture for one in DEFAULTS.values())
    assert DEFAULTS["tech_debt"].display == "TECH_DEBT"


def test_every_field_of_a_category_but_its_name_can_be_set() -> None:
    assert {"name", *FIELDS} == set(Category._fields)


def test_rules_are_found_by_name_and_by_folder() -> None:
    rules = Rules(DEFAULTS)
    assert rules.category("tech_debt") == rules.of_folder("tech-debt") == DEFAULTS["tech_debt"]
    assert rules.of_folder("Decisions") == DEFAULTS["decision"]  # one folder on a Mac's disk
    assert rules.category("incident") is rules.of_folder("tech_debt") is rules.of_folder("") is None
    assert rules[1:] == (30, True, 100, "title_tags", ())


@pytest.mark.parametrize("name", ["a", "incident", "on_call_2", "a" * 40])
def test_a_name_of_a_category(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "A", "2nd", "_a", "a-b", "a.b", "a b", "é", "a" * 41, "a\n"])
def test_no_name_of_a_category(name: str) -> None:
    assert not is_name(name)


def test_nothing_set_leaves_the_six() -> None:
    assert gathered({}, "/") == (dict(DEFAULTS), [])


def test_what_is_set_replaces_only_itself() -> None:
    found, warnings = gathered({"session_summary": {"max_retained": 9, "enabled": False}}, "/")
    expected = DEFAULTS["session_summary"]._replace(max_retained=9, enabled=False)
    assert found == {**DEFAULTS, "session_summary": expected}
    assert warnings == []


def test_a_folder_makes_a_category_of_ones_own() -> None:
    found, warnings = gathered({"incident": {"folder": "incidents", "description": "x" * 900}}, "/")
    assert found["incident"] == Category("incident", "incidents", description="x" * 500)
    assert warnings == []
    found, warnings = gathered({"incident": {"retention_days": 3}}, "/")
    assert "incident" not in found
    assert warnings == ["the category incident has no folder; ignored"]


@pytest.mark.parametrize(
    "given, folders, count",
    [
        ({"decision": "runbooks", "runbook": "decisions"}, {}, 0),
        ({"decision": "runbooks"}, {"decision": "decisions"}, 1),
        ({"decision": "Runbooks"}, {"decision": "decisions"}, 1),
        ({"decision": "same", "runbook": "same"}, {"decision": "decisions"}, 1),
        (
            {"tech_debt": "decisions", "decision": "runbooks"},
            {"tech_debt": "tech-debt", "decision": "decisions"},
            2,
        ),
        ({"incident": "decisions"}, {"incident": None}, 1),
        ({"incident": "decisions", "decision": "choices"}, {}, 0),
        ({"incident": "x", "outage": "X"}, {"outage": None}, 1),
        ({"incident": "x", "decision": "x"}, {"decision": "decisions"}, 1),
    ],
)
def test_two_categories_never_share_a_folder(
    given: dict[str, str], folders: dict[str, str | None], count: int
) -> None:
    found, warnings = gathered({name: {"folder": folder} for name, folder in given.items()}, "/")
    wanted = {name: one.folder for name, one in DEFAULTS.items()} | given | folders
    assert {name: one.folder for name, one in found.items()} == {
        name: folder for name, folder in wanted.items() if folder
    }
    assert len(warnings) == count
    assert len({one.folder.lower() for one in found.values()}) == len(found)


SCHEMA = {"type": "object", "required": ["impact"]}


def schema_of(text: str, root: Path) -> tuple[object, list[str]]:
    found, warnings = gathered({"incident": {"folder": "incidents", "schema": text}}, str(root))
    return found["incident"].schema, warnings


def test_a_schema_is_a_file_in_the_bank_or_stands_in_the_setting(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    for name in ("incident.json", "schemas/incident.json"):
        (tmp_path / name).write_text(json.dumps(SCHEMA), encoding="utf-8")
        assert schema_of(name, tmp_path) == (SCHEMA, [])
    assert schema_of(json.dumps(SCHEMA), tmp_path) == (SCHEMA, [])
    (tmp_path / "linked.json").symlink_to("incident.json")
    assert schema_of("linked.json", tmp_path) == (SCHEMA, [])
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
