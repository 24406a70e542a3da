"""Typed memories among many processes, through kills, and in a store another tool has made."""

from __future__ import annotations

import difflib
import functools
import hashlib
import json
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from retain.app import App
from retain.bank import records_json
from retain.bank.index_md import list_records, render
from retain.errors import Conflict, RecordError
from retain.records import codec
from retain.records.service import Outcome, Records
from tests import crash
from tests.cli.door import call, done
from tests.records.filing import CONTENT, FOLDERS, Record, draft

MEMORY = Path("/dev/shm")


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: a killed process does not lose what it wrote."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        yield Path(folder)


def root_of(project: Path, suffix: str) -> Path:
    return project / (".claude/memory" if suffix == ".json" else ".retain")


def opened(project: Path, suffix: str) -> App:
    root = root_of(project, suffix)
    env = {"USER": "tester", "HOME": str(project), "RETAIN_RECALL_EMBEDDER": "none"}
    return App(bank=str(root), cwd=str(project), env=env)


# Many processes


def _adds(project: Path, suffix: str, items: list[str]) -> Callable[[], object]:
    """Adds each item to one list, as often as someone else was faster; how often that was."""

    def work() -> object:
        app, lost = opened(project, suffix), 0
        for item in items:
            while True:
                memory = app.bank.find("decisions/one")
                record = codec.load_record(memory)
                record["content"]["rationale"].append(item)
                expect = hashlib.md5(memory.data).hexdigest()  # noqa: S324 - names a text
                try:
                    app.records.update(memory, record, expect=expect)
                    break
                except Conflict:
                    lost += 1
        app.close()
        return lost

    return work


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".json", ".md"])
def test_eight_processes_add_to_one_list_and_nobody_is_lost(scratch: Path, suffix: str) -> None:
    root_of(scratch, suffix).mkdir(parents=True)
    app = opened(scratch, suffix)
    app.records.create("decision", draft(title="One"), name="one")
    app.close()
    works = [_adds(scratch, suffix, [f"{n}-{i}" for i in range(2)]) for n in range(8)]
    outcomes = crash.together(works)
    assert [outcome.message for outcome in outcomes if outcome.code] == []
    record = codec.load_record(opened(scratch, suffix).bank.find("decisions/one"))
    wanted = {"transactions", *(f"{n}-{i}" for n in range(8) for i in range(2))}
    assert set(record["content"]["rationale"]) == wanted
    assert len(record["content"]["rationale"]) == len(wanted)
    assert (record["times_updated"], len(record["changes"])) == (16, 16)
    print("conflicts:", [outcome.value for outcome in outcomes])
    assert crash.leftovers(root_of(scratch, suffix)) == []


@pytest.mark.parametrize("suffix", [".json", ".md"])
def test_of_four_who_create_one_record_one_does(scratch: Path, suffix: str) -> None:
    root_of(scratch, suffix).mkdir(parents=True)

    def creates(n: int) -> object:
        app = opened(scratch, suffix)
        try:
            done = app.records.create("decision", draft(title=f"Number {n}"), name="one")
            return done.status, done.memory.title
        except RecordError as error:
            return error.kind, ""
        finally:
            app.close()

    outcomes = crash.together([functools.partial(creates, n) for n in range(4)])
    assert [outcome.message for outcome in outcomes if outcome.code] == []
    said = sorted(outcome.value for outcome in outcomes)
    assert [status for status, _ in said] == ["CREATE_ERROR"] * 3 + ["created"]
    assert opened(scratch, suffix).bank.find("decisions/one").title == said[-1][1]


# Kills


Act = Callable[[Records], Outcome]


class Case(NamedTuple):
    """One step, and which files it may leave with a text that is neither old nor new."""

    act: Act
    between: tuple[str, ...] = ()


CHANGED = {**CONTENT["decision"], "decision": "Postgres 18"}
SESSION = {"created_at": "2026-01-09T00:00:00Z"}
CASES = {
    "create": Case(
        lambda records: records.create("runbook", draft("runbook", "Queue stuck"), name="stuck")
    ),
    "update": Case(
        lambda records: records.update(records.bank.find("decisions/one"), draft(content=CHANGED))
    ),
    "update with rename": Case(
        lambda records: records.update(
            records.bank.find("decisions/one"), draft(title="Keep everything in files")
        ),
        # The new title under the old name, then the new name with the old id inside.
        ("decisions/one", "decisions/keep-everything-in-files"),
    ),
    "retire": Case(
        lambda records: records.step("retire", records.bank.find("decisions/one"), "gone")
    ),
    "supersede": Case(
        lambda records: records.supersede(
            records.bank.find("decisions/one"), records.bank.find("decisions/two")
        )[0]
    ),
    "window": Case(
        lambda records: records.create(
            "session_summary", draft("session_summary", "Session 9", **SESSION), name="s9"
        )
    ),
}


def _model(project: Path, suffix: str) -> Path:
    """A store with a history: a record that has been updated, another, and a full window."""
    root_of(project, suffix).mkdir(parents=True)
    app = opened(project, suffix)
    records = app.records
    first = draft(content={**CONTENT["decision"], "context": "at first"})
    records.create("decision", first, name="one")
    records.update(app.bank.find("decisions/one"), draft())
    records.create("decision", draft(title="Two"), name="two")
    for n in range(1, 6):
        given = draft("session_summary", f"Session {n}", created_at=f"2026-01-0{n}T00:00:00Z")
        records.create("session_summary", given, name=f"s{n}")
    app.close()
    return project


def _texts(root: Path) -> crash.Snapshot:
    return {name: data for name, data in crash.memories(root).items() if name != "index.md"}


def _is_whole(name: str, data: bytes) -> bool:
    if name.endswith(".json"):
        return "title" in records_json.load(data)
    return data.startswith(b"---\n") and b"\n---\n" in data


def _settled(project: Path, suffix: str) -> None:
    """The next record command works, and the store's list is what a rebuild makes."""
    app = opened(project, suffix)
    root = root_of(project, suffix)
    done = app.records.create("preference", draft("preference", "Later"), name="later")
    assert done.status == "created"
    app.settle(app.records.step("retire", done.memory))
    if suffix == ".json":
        assert (root / "index.md").read_text(encoding="utf-8") == render(list_records(app.bank))
    assert not [memory for memory in app.list(status="all") if memory.problem]
    app.close()
    assert crash.leftovers(root) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "suffix", [".json", pytest.param(".md", marks=pytest.mark.slow)], ids=["json", "md"]
)
@pytest.mark.parametrize("name", CASES)
def test_kill_before_every_step_leaves_old_or_new(scratch: Path, name: str, suffix: str) -> None:
    case = CASES[name]
    model = _model(scratch / "model", suffix)

    def act(project: Path) -> object:
        app = opened(project, suffix)
        outcome = case.act(app.records)
        return bool(app.settle(outcome))

    whole = scratch / "finished"
    shutil.copytree(model, whole)
    finished = crash.in_child(crash.at_noon(functools.partial(act, whole)))
    assert not finished.code, finished.message
    old, new = _texts(root_of(model, suffix)), _texts(root_of(whole, suffix))
    assert old != new
    kept = {data for file, data in crash.files(model).items() if file.endswith(suffix)}
    number = 0
    while True:
        number += 1
        project = scratch / f"kill-{number}"
        shutil.copytree(model, project)
        work = crash.at_noon(functools.partial(act, project))
        outcome = crash.killed_at(number, work, after=False)
        root = root_of(project, suffix)
        for file, data in _texts(root).items():
            assert _is_whole(file, data), file
            if file.removesuffix(suffix) not in case.between:
                assert data in (old.get(file), new.get(file)), file
        _settled(project, suffix)
        present = _texts(root)
        if name == "supersede":
            pair = [f"decisions/{it}{suffix}" for it in ("one", "two")]
            assert [present[it] for it in pair] in ([s[it] for it in pair] for s in (old, new))
        assert kept <= set(crash.files(project).values()), "a text that was there is gone"
        shutil.rmtree(project)
        if outcome.signal != signal.SIGKILL:
            assert not outcome.code, outcome.message
            break
    print(f"{number - 1} kills")
    assert number > 8


def test_a_window_left_half_done_is_closed_by_the_next_session(scratch: Path) -> None:
    model = _model(scratch / "model", ".json")
    root = root_of(model, ".json")
    # What a kill after the create and before the retirement leaves behind.
    sixth = records_json.load((root / "sessions/s5.json").read_bytes())
    sixth |= {"id": "s6", "created_at": "2026-01-06T00:00:00Z"}
    (root / "sessions/s6.json").write_text(json.dumps(sixth), encoding="utf-8")
    app = opened(model, ".json")
    given = draft("session_summary", "Session 9", **SESSION)
    app.records.create("session_summary", given, name="s9")
    active = [it.id for it in app.bank.memories("sessions") if it.status == "active"]
    app.close()
    assert active == ["s3", "s4", "s5", "s6", "s9"]


# A store that another tool has made


CONFIG: Record = {
    "memory_root": ".claude/memory",
    "categories": {
        name: {"enabled": True, "folder": folder, "auto_capture": True, "retention_days": 0}
        for name, folder in FOLDERS.items()
    },
    "auto_commit": False,
    "max_memories_per_category": 100,
    "delete": {"grace_period_days": 30, "archive_retired": True},
}
CONFIG["categories"]["session_summary"] |= {"retention_days": 90, "max_retained": 5}


def _made(category: str, name: str, title: str, **fields: Any) -> Record:
    return {
        "schema_version": "1.0",
        "category": category,
        "id": name,
        "title": title,
        "created_at": "2026-02-01T10:00:00Z",
        "updated_at": "2026-02-02T10:00:00Z",
        "tags": ["grün", category.replace("_", "-")],
        "related_files": ["src/app.py"],
        "confidence": 0.85,
        "record_status": "active",
        "changes": [
            {"date": "2026-02-02T10:00:00Z", "summary": "Initial version, “quoted”"},
            {
                "date": "2026-02-02T10:00:00Z",
                "summary": "content changed",
                "field": "content",
                "old_value": None,
                "new_value": "x",
            },
        ],
        "times_updated": 1,
        **fields,
        "content": CONTENT[category],
    }


RETIRED = {
    "record_status": "retired",
    "retired_at": "2026-02-03T00:00:00Z",
    "retired_reason": "gone",
}
ARCHIVED = {
    "record_status": "archived",
    "archived_at": "2026-02-03T00:00:00Z",
    "archived_reason": "done",
}


@pytest.fixture
def theirs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store as document 004 describes it, written by hand."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    root = home / "work/.claude/memory"
    lines = []
    for category, folder in FOLDERS.items():
        (root / folder).mkdir(parents=True)
        title = f"About {category.replace('_', ' ')} zebra"
        _file(root, folder, _made(category, "kept", title))
        path = f".claude/memory/{folder}/kept.json"
        tags = f"grün,{category.replace('_', '-')}"
        lines.append(f"- [{category.upper()}] {title} -> {path} #tags:{tags}\n")
    _file(root, "decisions", _made("decision", "gone", "Gone", **RETIRED))
    _file(root, "runbooks", _made("runbook", "shelved", "Shelved", **ARCHIVED))
    head = "# Memory Index\n\n<!-- Auto-generated by memory_index.py. Do not edit manually. -->\n\n"
    lines.sort(key=str.lower)
    (root / "index.md").write_text(head + "".join(lines), encoding="utf-8")
    (root / "memory-config.json").write_text(json.dumps(CONFIG, indent=2), encoding="utf-8")
    return root


def _file(root: Path, folder: str, record: Record) -> None:
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    (root / folder / f"{record['id']}.json").write_text(text, encoding="utf-8")


def _bytes(root: Path) -> crash.Snapshot:
    return {name: data for name, data in crash.files(root).items() if not name.startswith(".")}


def test_their_store_is_read_as_it_is(theirs: Path) -> None:
    before = _bytes(theirs)
    assert json.loads(done("status", "--json"))["problems"] == []
    assert done("record", "index", "--validate") == "Index is valid. 6 entries match 6 files.\n"
    assert "Health: GOOD" in done("record", "index", "--health")
    listed = set(done("list", "--quiet").split())
    assert listed == {f"{folder}/kept" for folder in FOLDERS.values()} | {"runbooks/shelved"}
    assert done("list", "--status", "retired", "--quiet") == "decisions/gone\n"
    assert "Decision: Postgres 17" in done("get", "decisions/kept")
    hits = json.loads(done("search", "zebra", "--json"))["hits"]
    assert {hit["collection"] for hit in hits} <= set(FOLDERS.values())
    assert hits
    assert len(json.loads(done("changes", "--json"))) == 16
    assert call("config", "check").code == 0
    assert _bytes(theirs) == before


@pytest.mark.parametrize("indent", [2, 4, None])
def test_an_update_of_one_field_leaves_every_other_line(theirs: Path, indent: int | None) -> None:
    path = theirs / "decisions/kept.json"
    record = json.loads(path.read_bytes())
    path.write_text(json.dumps(record, indent=indent, ensure_ascii=False), encoding="utf-8")
    before = _bytes(theirs)
    record["content"]["decision"] = "Postgres 18"
    target = ".claude/memory/decisions/kept.json"
    write = ("record", "write", "--action", "update", "--input", "-", "--target", target)
    done(*write, "--hash", hashlib.md5(path.read_bytes()).hexdigest(), input=json.dumps(record))  # noqa: S324 - as theirs
    after = _bytes(theirs)
    name = "decisions/kept.json"
    assert {it for it in after if after[it] != before.get(it)} == {name}
    old, new = (text[name].decode().splitlines(keepends=True) for text in (before, after))
    if indent is None:
        old, new = ([f"{word}\n" for word in lines[0].split(', "')] for lines in (old, new))
    gone = [line[2:] for line in difflib.ndiff(old, new) if line.startswith("- ")]
    assert len(gone) <= 5
    for line in gone:
        words = ("decision", "updated_at", "times_updated", "}", "]", "new_value")
        assert any(word in line for word in words), line
    record = json.loads(after[name])
    assert (record["times_updated"], len(record["changes"])) == (2, 3)
    assert list(record) == list(_made("decision", "kept", "x"))
