"""Every rule of a typed memory applied, every change kept, nothing half done."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from retain.app import App
from retain.errors import Conflict, RecordError, RetainError, UsageError
from retain.schema import faults
from retain.typed import lifecycle
from retain.typed.ledger import Ledger, Target, at_memory, checked, in_step
from retain.typed.shape import record
from tests.typed.filing import CONTENT, draft, keys


class Filed:
    """A store of one kind of file and its ledger."""

    def __init__(self, project: Path, suffix: str) -> None:
        self.suffix = suffix
        self.root = project / (".claude/memory" if suffix == ".json" else ".retain")
        self.root.mkdir(parents=True)
        self.project = project

    @functools.cached_property
    def app(self) -> App:
        env = {"USER": "tester", "HOME": str(self.project), "RETAIN_RECALL_EMBEDDER": "none"}
        return App(bank=str(self.root), cwd=str(self.project), env=env)

    @property
    def ledger(self) -> Ledger:
        return self.app.ledger

    def at(self, ref: str) -> Target:
        folder, _, name = ref.rpartition("/")
        return Target(folder, name, self.suffix, ref)

    def create(self, ref: str = "decisions/one", **fields: Any) -> None:
        self.ledger.create("decision", self.at(ref), draft(**fields))

    def record(self, ref: str) -> dict[str, Any]:
        return record(self.app.bank.find(ref))

    def path(self, ref: str) -> Path:
        return self.root / f"{ref}{self.suffix}"


@pytest.fixture(params=[".json", ".md"])
def filed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filed]:
    found = Filed(tmp_path / "project", request.param)
    yield found
    found.app.close()


def test_what_was_mended_and_what_follows_is_told(filed: Filed) -> None:
    done = filed.ledger.create("decision", filed.at("decisions/one"), draft(tags="DB"))
    assert done.status == "created"
    assert "tags: wrapped string in array" in done.notes
    assert filed.record("decisions/one")["tags"] == ["db"]


def test_fields_of_a_state_cannot_be_smuggled_in(filed: Filed) -> None:
    filed.create(record_status="archived", archived_at="x", retired_reason="y", times_updated=9)
    found = filed.record("decisions/one")
    assert (found["record_status"], found["times_updated"]) == ("active", 0)
    assert not set(lifecycle.STATE_FIELDS) & set(found)


def test_a_record_without_a_name_is_told_what_is_missing_first(filed: Filed) -> None:
    with pytest.raises(RecordError) as caught:
        filed.ledger.create("decision", filed.at("decisions/"), draft(content={}))
    assert not any("field: id" in block for block in caught.value.blocks)
    with pytest.raises(UsageError):
        filed.ledger.create("decision", filed.at("decisions/"), draft())
    assert not (filed.root / "decisions").exists()


def test_the_second_of_two_who_read_the_same_is_refused(filed: Filed) -> None:
    filed.create()
    read = filed.app.bank.find("decisions/one")
    for n, code in ((1, ""), (2, "OCC_CONFLICT")):
        given = draft(content={**CONTENT["decision"], "context": f"writer {n}"})
        try:
            filed.ledger.update(filed.at("decisions/one"), given, expect=read.hash)
            said = ""
        except RecordError as error:
            said = keys(error.blocks[0])[0]
        assert said == code
    assert filed.record("decisions/one")["content"]["context"] == "writer 1"


def test_a_record_that_appears_while_one_is_forced_is_not_written_over(filed: Filed) -> None:
    filed.create()
    theirs = filed.path("decisions/one").read_bytes().replace(b"one writer", b"1 writer")
    allow = lifecycle.may_create_over

    def slow(*args: Any, **options: Any) -> None:
        filed.path("decisions/one").write_bytes(theirs)
        allow(*args, **options)

    with mock.patch.object(lifecycle, "may_create_over", slow), pytest.raises(RecordError) as it:
        filed.ledger.create("decision", filed.at("decisions/one"), draft(), force=True)
    assert keys(it.value.blocks[0])[0] == "OCC_CONFLICT"
    assert filed.path("decisions/one").read_bytes() == theirs


def test_supersede_is_both_or_neither_when_someone_else_writes(filed: Filed) -> None:
    filed.create("decisions/one")
    filed.create("decisions/two", title="Two")
    path = filed.path("decisions/two")
    before, theirs = filed.path("decisions/one").read_bytes(), path.read_bytes() + b"\n"
    step = lifecycle.superseding

    def slow(*args: Any) -> Any:
        path.write_bytes(theirs)
        return step(*args)

    with mock.patch.object(lifecycle, "superseding", slow), pytest.raises(Conflict):
        filed.ledger.supersede(filed.at("decisions/one"), filed.at("decisions/two"))
    assert filed.path("decisions/one").read_bytes() == before
    assert path.read_bytes() == theirs


def test_the_history_of_a_replacement_outlives_fifty_changes(filed: Filed) -> None:
    filed.create("decisions/one")
    filed.create("decisions/two", title="Two")
    ledger = filed.ledger
    ledger.supersede(filed.at("decisions/one"), filed.at("decisions/two"))
    entries = [{"date": "2026-01-01T00:00:00Z", "summary": f"c{n}"} for n in range(60)]
    given = filed.record("decisions/two")
    given["changes"] = [*given["changes"], *entries]
    ledger.update(filed.at("decisions/two"), given)
    found = filed.record("decisions/two")
    assert len(found["changes"]) == 50
    assert found["changes"][0]["summary"] == "Supersedes decisions/one"
    assert faults(found) == []


def test_a_rename_carries_the_versions_and_tells_git_and_index_both_names(filed: Filed) -> None:
    filed.create()
    app = filed.app
    app.ledger.update(filed.at("decisions/one"), draft(title="Use Postgres always"))
    seen: list[dict[str, bytes | None]] = []

    def settle(changes: Any, what: str) -> tuple[str, tuple[str, ...]]:
        seen.append(dict(changes))
        return "", ()

    ledger = Ledger(app.bank, app.ledger.rules, "tester", settle)
    done = ledger.update(filed.at("decisions/one"), draft(title="Keep all in files"))
    assert (done.memory.id, done.renamed_from) == ("keep-all-in-files", "one")
    assert set(seen[-1]) == {
        str(filed.path("decisions/one")),
        str(filed.path("decisions/keep-all-in-files")),
    }
    assert seen[-1][str(filed.path("decisions/one"))] is None
    texts = [
        app.get("keep-all-in-files", version=it.version) for it in app.versions(done.memory.id)
    ]
    assert "Use Postgres" in [text.title for text in texts]
    assert not (filed.root / ".versions/decisions/one").exists()


def test_an_id_that_a_killed_rename_left_is_set_right_by_the_next_step(filed: Filed) -> None:
    filed.create()
    filed.path("decisions/one").rename(filed.path("decisions/uno"))
    found = filed.record("decisions/uno")
    if found["id"] == "uno":
        pytest.skip("the file does not say")
    filed.ledger.archive(filed.at("decisions/uno"))
    assert filed.record("decisions/uno")["id"] == "uno"


def test_a_related_file_is_looked_for_in_the_project(filed: Filed) -> None:
    (filed.project / "src").mkdir()
    (filed.project / "src/there.py").touch()
    filed.create(related_files=["src/there.py", "src/gone.py"])
    with pytest.raises(RecordError) as caught:
        filed.ledger.update(filed.at("decisions/one"), draft(related_files=["src/gone.py"]))
    assert "cannot remove existing file reference" in caught.value.blocks[0]
    filed.ledger.update(filed.at("decisions/one"), draft(related_files=["src/there.py"]))
    assert filed.record("decisions/one")["related_files"] == ["src/there.py"]


def test_a_list_that_shrinks_is_warned_about_and_kept_in_a_version(filed: Filed) -> None:
    filed.create(content={**CONTENT["decision"], "rationale": ["a", "b"]})
    done = filed.ledger.update(filed.at("decisions/one"), draft())
    assert any("list shrank from 2 to 1" in one for one in done.warnings)
    assert len(filed.app.versions("decisions/one")) == 1


def test_a_plain_memory_has_no_fields_to_update(filed: Filed) -> None:
    (filed.root / "decisions").mkdir()
    path = filed.path("decisions/one")
    path.write_text('{"a": 1}' if filed.suffix == ".json" else "just text\n", encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(RecordError):
        filed.ledger.update(filed.at("decisions/one"), draft())
    with pytest.raises(RecordError) as caught:
        filed.ledger.create("decision", filed.at("decisions/one"), draft(), force=True)
    assert keys(caught.value.blocks[0]) == ["CREATE_ERROR", "target", "record_status", "fix"]
    assert path.read_bytes() == before


def test_names_are_those_of_the_project(filed: Filed) -> None:
    filed.create()
    memory = filed.app.bank.find("decisions/one")
    folder = ".claude/memory" if filed.suffix == ".json" else ".retain"
    assert filed.ledger.named(memory.path) == f"{folder}/decisions/one{filed.suffix}"
    assert at_memory(memory) == Target("decisions", "one", filed.suffix, "decisions/one")


def test_every_fault_is_a_block_and_a_sentence(filed: Filed) -> None:
    with pytest.raises(RecordError) as caught:
        checked({"category": "decision", "content": {}}, filed.ledger.rules)
    error = caught.value
    assert len(error.blocks) == len(error.message.split("\n"))
    assert all(block.startswith("VALIDATION_ERROR\nfield: ") for block in error.blocks)
    assert "VALIDATION_ERROR" not in error.message


def test_hand_edits_are_checked_and_noted(filed: Filed) -> None:
    filed.create()
    memory, rules = filed.app.bank.find("decisions/one"), filed.ledger.rules
    assert in_step(memory, memory.data, rules) == memory.data
    changed = in_step(memory, memory.data.replace(b"Postgres 17", b"Postgres 18"), rules)
    assert b"content.decision changed" in changed
    with pytest.raises(RetainError):
        in_step(memory, memory.data.replace(b"accepted", b"perhaps"), rules)
    with pytest.raises(RetainError):
        in_step(memory, b'{"title": ' if filed.suffix == ".json" else b"---\ntype: [\n---\n", rules)


def test_the_changes_of_a_window_are_told_once(filed: Filed) -> None:
    config = {"categories": {"session_summary": {"max_retained": 1}}}
    if filed.suffix == ".json":
        text = json.dumps(config)
        (filed.root / "memory-config.json").write_text(text, encoding="utf-8")
    else:
        text = "format = 1\n[categories.session_summary]\nmax_retained = 1\n"
        (filed.root / "config.toml").write_text(text, encoding="utf-8")
    ledger = filed.ledger
    for n in range(3):
        given = draft("session_summary", f"Session {n}")
        done = ledger.create("session_summary", filed.at(f"sessions/s{n}"), given)
        retired = [one for one in done.warnings if one.startswith("retired ")]
        assert len(retired) == (1 if n else 0)
    active = [it.id for it in filed.app.bank.memories("sessions") if it.status == "active"]
    assert active == ["s2"]
