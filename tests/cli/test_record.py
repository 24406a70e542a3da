"""record: the flags, answers and error blocks that scripts and agents rely on."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from retain.errors import NotSaved
from retain.records import merge
from tests.cli.door import call
from tests.conftest import Ran, command
from tests.records.filing import CONTENT, Record, Store, draft, keys

REF = "decisions/use-postgres"
OCC = ("OCC_CONFLICT", "target", "expected_hash", "current_hash", "fix")
CREATE = ("record", "write", "--action", "create", "--category", "decision")
CANDIDATE = ("record", "candidate", "--category", "decision", "--new-info")
TOKEN = "ghp_" + "a1B2" * 9


@pytest.fixture(params=[".json", ".md"])
def store(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    return Store(home / "work", request.param)


@pytest.fixture
def claude(home: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    return Store(home / "work", ".json")


def refused(ran: Ran, first: str, *names: str) -> dict[str, str]:
    """The lines of the one block a call must be refused with."""
    assert (ran.code, keys(ran.out)) == (1, [first, *names]), ran
    lines = ran.out.strip().split("\n")[1:]
    return {name: value for name, _, value in (line.partition(": ") for line in lines)}


def texts(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def changed(**content: object) -> Record:
    return draft(content={**CONTENT["decision"], **content})


# Answers


def test_every_action_answers_in_one_line(store: Store) -> None:
    target = store.target(REF)
    named = {"target": target, "id": "use-postgres", "title": "Use Postgres"}
    ran = store.create()
    assert store.answer(ran) == {"status": "created", **named}
    filled_in = [
        "[AUTO-FIX] schema_version: set to '1.0'",
        "[AUTO-FIX] updated_at: set to current UTC",
        "[AUTO-FIX] created_at: set to current UTC",
        "[AUTO-FIX] category: set to 'decision'",
        "[AUTO-FIX] id: set to match filename 'use-postgres'",
    ]
    assert ran.err.splitlines() == (filled_in if store.is_json else [])
    ran = store.write("update", REF, given=changed(decision="Postgres 18"))
    assert store.answer(ran) == {"status": "updated", **named, "times_updated": 1}
    assert "WARNING: --hash not provided for update. OCC protection disabled." in ran.err
    assert not store.input.exists()
    reason = ("--reason", "we moved on")
    for action, words, status in (
        ("archive", reason, "archived"),
        ("archive", reason, "already_archived"),
        ("unarchive", (), "unarchived"),
        ("delete", reason, "retired"),
        ("retire", reason, "already_retired"),
        ("restore", (), "restored"),
        ("restore", (), "already_active"),
    ):
        before = store.files()
        said = {"status": status, "target": target}
        if status in ("archived", "retired"):
            said["reason"] = "we moved on"
        assert store.answer(store.write(action, REF, *words)) == said
        assert status.startswith("already") == (store.files() == before)
        store.index_agrees()
    record = store.record(REF)
    assert (record["record_status"], record["times_updated"]) == ("active", 1)
    assert [entry["summary"] for entry in record["changes"]] == [
        "content.decision changed",
        "Archived: we moved on",
        "Unarchived: restored to active",
        "Retired: we moved on",
        "Restored: returned to active from retired",
    ]


def test_missing_arguments_are_named(store: Store) -> None:
    words = ("record", "write", "--target", store.target(REF), "--action")
    no_input = Ran(1, "ERROR: --input is required for create and update actions.\n", "")
    assert call(*words, "create") == call(*words, "update") == no_input
    ran = call(*words, "create", "--input", "-")
    assert ran == Ran(1, "ERROR: --category is required for create action.\n", "")
    assert call(*words, "destroy").code == 2
    assert call("record", "write", "--action", "delete").code == call("record").code == 2


# Blocks


def broken(store: Store) -> None:
    store.path(REF).write_bytes(b'{"title": ' if store.is_json else b"---\ntitle: [\n---\n")


STATUS = ("target", "record_status", "fix")
LONG = changed(context="x" * 5000)
# What was done first, what is done then, and the block that refuses it.
Block = tuple[Callable[[Store], object], Callable[[Store], Ran], tuple[str, ...], str]
BLOCKS: dict[str, Block] = {
    "archived": (lambda s: s.write("archive", REF), lambda s: s.write("delete", REF),
                 ("DELETE_ERROR", *STATUS),
                 "Archived memories must be unarchived before retiring."),
    "retired": (lambda s: s.write("delete", REF), lambda s: s.write("archive", REF),
                ("ARCHIVE_ERROR", *STATUS), "Only active memories can be archived."),
    "active": (lambda _: None, lambda s: s.write("unarchive", REF), ("UNARCHIVE_ERROR", *STATUS),
               "Only archived memories can be unarchived."),
    "no record": (lambda _: None, lambda s: s.write("update", "decisions/x", given=draft()),
                  ("UPDATE_ERROR", "target", "fix"), "Use --action create instead."),
    "other file": (lambda s: s.path(REF).rename(s.path(REF).with_suffix(
                       ".md" if s.is_json else ".json")),
                   lambda s: s.write("restore", REF), ("RESTORE_ERROR", "target", "fix"),
                   "There is no such file; use-postgres"),
    "in force": (lambda _: None, lambda s: s.create(), ("CREATE_ERROR", *STATUS),
                 "Update that one with `retain update decisions/use-postgres"),
    "just retired": (lambda s: s.write("delete", REF), lambda s: s.create(REF, "--force"),
                     ("ANTI_RESURRECTION_ERROR", "target", "retired_at", "fix"),
                     "This file was retired less than 24 hours ago."),
    "immutable": (lambda _: None,
                  lambda s: s.write("update", REF, given={**draft(), "category": "runbook"}),
                  ("MERGE_ERROR", "field", "rule", "old", "new", "fix"),
                  "Do not change 'category' during UPDATE"),
    "no news": (lambda _: None, lambda s: s.write("update", REF, given=draft()),
                ("MERGE_ERROR", "field", "rule", "old_count", "total_count", "fix"),
                "At least one new change entry is required per UPDATE"),
    "unreadable": (broken, lambda s: s.write("update", REF, given=draft()),
                   ("READ_ERROR", "target", "error"), ""),
    "unreadable, forced": (broken, lambda s: s.create(REF, "--force"), ("CREATE_ERROR", *STATUS),
                           "Choose another name; a memory of another kind has this one."),
    "switched off": (lambda s: s.configure({"decision": {"enabled": False}}),
                     lambda s: s.create("decisions/x"),
                     ("VALIDATION_ERROR", "field", "expected", "got", "fix"),
                     "Set categories.decision.enabled to true, or use --force."),
    "full": (lambda s: s.configure({}, max_memories_per_category=1),
             lambda s: s.create("decisions/x"),
             ("LIMIT_ERROR", "category", "active", "limit", "fix"), "Retire, archive or merge"),
    "secret": (lambda _: None, lambda s: s.create(f"decisions/{TOKEN}"),
               ("USAGE_ERROR", "error", "fix"), "Nothing was changed. Choose another id"),
    "large": (lambda _: None, lambda s: s.create("decisions/x", given=LONG),
              ("SIZE_ERROR", "error", "fix"), "Nothing was stored. Split it"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_a_refusal_is_a_block_and_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("RETAIN_MEMORY_MAX_BYTES", "4000")
    prepare, act, block, fix = BLOCKS[name]
    store.create()
    prepare(store)
    before = store.files()
    ran = act(store)
    assert refused(ran, *block).get("fix", "").startswith(fix)
    assert store.files() == before
    steps = ("DELETE_ERROR", "ARCHIVE_ERROR", "UNARCHIVE_ERROR", "RESTORE_ERROR")
    assert store.input.exists() == (block[0] not in steps)  # a draft stays


def test_every_fault_of_a_record_has_its_own_block_and_an_empty_line(store: Store) -> None:
    ran = store.create(given=changed(status="maybe"))
    assert ran.code == 1
    assert ran.out == (
        "VALIDATION_ERROR\nfield: content.status\n"
        "expected: one of proposed, accepted, deprecated, superseded\n"
        "got: \"maybe\"\nfix: Correct the value for 'content.status'\n\n"
    )
    ran = store.create(given={**changed(rationale=[], extra=1), "confidence": "high"})
    fields = [line for line in ran.out.split("\n") if line.startswith("field: ")]
    assert sorted(fields) == [
        "field: confidence", "field: content.extra", "field: content.rationale",
    ]  # fmt: skip
    assert ran.out.count("VALIDATION_ERROR\n") == 3
    ran = store.write("create", "recipes/soup", "--category", "recipe", "--json", given=draft())
    (block,) = json.loads(ran.out)["errors"]
    assert (ran.code, keys(block)[0], "field: category" in block) == (1, "VALIDATION_ERROR", True)
    with mock.patch("retain.bank.bank.LockedMemory.create", side_effect=NotSaved("no space")):
        assert refused(store.create(), "NOT_SAVED_ERROR", "error", "fix")["error"] == "no space"
    assert store.files() == {}


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_update_needs_the_hash_of_the_text_that_is_there(store: Store, algorithm: str) -> None:
    store.create()
    before = store.files()
    current = hashlib.new(algorithm, store.path(REF).read_bytes()).hexdigest()
    wrong = hashlib.new(algorithm, b"another text").hexdigest()
    given = changed(context="two writers")
    said = refused(store.write("update", REF, "--hash", wrong, given=given), *OCC)
    assert (said["expected_hash"], said["current_hash"]) == (wrong, current)
    assert said["fix"] == "Re-read the file and retry with its current hash."
    for other in ("abc", "md5:" + "0" * 32, "no hash at all"):
        refused(store.write("update", REF, "--hash", other, given=given), *OCC)
    assert store.files() == before
    ran = store.write("update", REF, "--hash", current.upper(), given=given)
    assert store.answer(ran)["status"] == "updated"
    assert "WARNING" not in ran.err


def test_a_person_who_saves_between_read_and_write_wins(store: Store) -> None:
    store.create()
    theirs = store.path(REF).read_bytes().replace(b"one writer", b"1 writer")
    merged = merge.merge

    def slow(*args: object, **options: object) -> object:
        store.path(REF).write_bytes(theirs)
        return merged(*args, **options)  # type: ignore[arg-type]

    with mock.patch.object(merge, "merge", slow):
        said = refused(store.write("update", REF, given=changed(decision="MySQL")), *OCC)
    assert said["current_hash"] == hashlib.sha256(theirs).hexdigest() != said["expected_hash"]
    assert store.path(REF).read_bytes() == theirs


def test_secrets_are_replaced_in_record_and_reason(store: Store) -> None:
    given = changed(context=f"the token is {TOKEN}")
    ran = store.create(given=given)
    assert store.answer(ran)["status"] == "created"
    assert "[WARN] replaced 1 secret" in ran.err
    said = store.answer(store.write("delete", REF, "--reason", f"leaked {TOKEN}"))
    assert "[REDACTED:" in said["reason"]
    assert not [path for path, data in texts(store.root).items() if TOKEN.encode() in data]
    store.answer(store.create("decisions/kept", "--allow-secret", given=given))
    assert TOKEN in store.record("decisions/kept")["content"]["context"]


# Renaming, and the window


def test_a_title_that_becomes_another_one_renames_the_file(store: Store) -> None:
    store.create()
    said = store.answer(store.write("update", REF, given=draft(title="Keep everything in files")))
    new = "decisions/keep-everything-in-files"
    assert said["renamed_from"] == store.target(REF)
    assert (said["target"], said["id"]) == (store.target(new), "keep-everything-in-files")
    assert not store.path(REF).exists()
    record = store.record(new)
    assert record["id"] == "keep-everything-in-files"
    assert "title changed" in [entry["summary"] for entry in record["changes"]]
    assert not store.is_json or store.target(new) in store.index()
    store.index_agrees()


@pytest.mark.parametrize(
    "title, warning",
    [
        ("Use Postgres always", ""),
        ("使用数据库作为存储", ""),
        ("Keep files", "[WARN] the new title suggests the id 'keep-files', which is taken"),
        ("Con", "[WARN] the new title suggests the id 'con', which no file may have"),
    ],
)
def test_a_name_that_stays(store: Store, title: str, warning: str) -> None:
    store.create()
    store.create("decisions/keep-files", given=draft(title="Keep files"))
    ran = store.write("update", REF, given=draft(title=title))
    said = store.answer(ran)
    assert (said["id"], store.memory(REF).title) == ("use-postgres", title)
    assert "renamed_from" not in said
    assert warning in ran.err
    store.index_agrees()


def test_only_the_newest_sessions_stay(store: Store) -> None:
    def create(name: str, n: int, **content: object) -> Ran:
        given = draft("session_summary", f"Session {n}", created_at=f"2026-01-{n:02}T00:00:00Z")
        given["content"] |= content
        return store.create(f"sessions/{name}", category="session_summary", given=given)

    store.configure({"session_summary": {"max_retained": 2}})
    only = "the flux capacitor wants plutonium"
    create("s1", 1, blockers=[only])
    create("s2", 2)
    ran = create("s3", 3)
    assert store.answer(ran)["status"] == "created"
    assert "[WARN] retired sessions/s1" in ran.err
    assert f"content found nowhere else: {only}" in ran.err
    assert store.record("sessions/s1")["retired_reason"] == "rolling window: max_retained is 2"
    assert "nowhere else" not in create("s4", 4).err
    create("s0", 1)  # one that is dated back stays, and the window holds
    active = [n for n in range(5) if store.record(f"sessions/s{n}")["record_status"] == "active"]
    assert active == [0, 4]
    store.index_agrees()


# Where a record may be


OUTSIDE = [
    "decisions/x{}", "/etc/x{}", "{root}", "{root}/", "{root}/../x{}", "{root}/../../x{}",
    "{root}/decisions/../../x{}", "{root}/decisions/../runbooks/x{}", "{root}/decisions/deeper/x{}",
    "{root}/decisions/x.txt", "{root}/decisions/x", "{root}/decisions/{}", "{root}/.index/x{}",
    "{root}/.git/config{}", "{root}/%2e%2e/x{}", "{root}/..\\x{}", "{root}/decisions/C:\\x{}",
    "{root}/decisions/~x{}", "{root}-beside/decisions/x{}", "{root}/decisions/x\n{}",
    "{root}/decisions/x\0{}", "a\0b/{root}/x{}", "{root}/decisions/x\x1b[2J{}", "~/x{}", "",
    "{root}/decisions/" + "x" * 5000 + "{}", "{root}/" + "x" * 5000 + "/x{}",
]  # fmt: skip


def test_a_target_outside_a_store_is_refused(store: Store) -> None:
    store.create()
    store.input.write_text(json.dumps(draft()), encoding="utf-8")
    world = store.project.parent.parent
    before = texts(world)
    root = store.target("").removesuffix(f"/{store.suffix}").removesuffix(store.suffix)
    wrong = []
    for target in OUTSIDE:
        named = target.replace("{root}", root).replace("{}", store.suffix)
        for words in (
            (*CREATE, "--input", str(store.input)),
            ("record", "write", "--action", "delete"),
        ):
            ran = call(*words, "--target", named)
            is_refused = (ran.code, keys(ran.out)) == (1, ["PATH_ERROR", "target", "fix"])
            if not is_refused or texts(world) != before or "\x1b" in ran.out:
                wrong.append((target, ran))
    assert not wrong


def test_what_the_store_keeps_for_itself_is_no_record(claude: Store) -> None:
    claude.input.write_text(json.dumps(draft()), encoding="utf-8")
    for name in ("index.md", "memory-config.json", "INDEX.md"):
        words = ("--target", f".claude/memory/{name}", "--input", str(claude.input), "--force")
        refused(call(*CREATE, *words), "PATH_ERROR", "target", "fix")
        assert call("record", "write", "--action", "delete", *words[:2]).code == 1
        assert claude.files() == {}, name


@pytest.mark.parametrize("way", ["../{}", "{project}/{}", "{home}/linked/{}"])
def test_a_path_from_below_absolute_or_through_a_link_above_the_store(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    (home / "linked").symlink_to(store.project)
    (store.project / "src").mkdir()
    monkeypatch.chdir(store.project / "src")
    target = way.format(store.target(REF), project=store.project, home=home)
    ran = call(*CREATE, "--target", target, "--input", "-", input=json.dumps(draft()))
    assert store.answer(ran)["target"] == target
    assert store.path(REF).exists()


# What is moved elsewhere and linked to: the store, what is above it, a folder, a file.
LINKS: dict[str, Callable[[Store], Path]] = {
    "store": lambda store: store.root,
    "parent": lambda store: store.root.parent if store.is_json else store.root,
    "folder": lambda store: store.root / "decisions",
    "target": lambda store: store.path(REF),
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("goes", ["out", "beside"])
def test_no_link_is_followed(store: Store, home: Path, link: str, goes: str) -> None:
    store.create()
    linked = LINKS[link](store)
    elsewhere = home / "elsewhere" if goes == "out" else linked.with_name("other" + linked.suffix)
    os.rename(linked, elsewhere)
    linked.symlink_to(elsewhere)
    before = texts(home)
    for action in ("create", "update", "delete"):
        given = draft(title="Another") if action != "delete" else None
        words = ["--category", "decision", "--force"] if action == "create" else []
        refused(store.write(action, REF, *words, given=given), "PATH_ERROR", "target", "fix")
        after = texts(home)
        after.pop(store.input, None)
        assert after == before
    if link == "store" and store.is_json:
        for what in ("--rebuild", "--gc", "--validate"):
            assert call("record", "index", what).code == 1


def test_the_first_record_makes_its_bank_as_init_does(home: Path) -> None:
    for suffix in (".json", ".md"):
        store = Store(home / f"work/{suffix[1:]}", suffix)
        for folder in (store.root, store.root.parent)[: 2 if store.is_json else 1]:
            folder.rmdir()
        words = (*CREATE, "--input", "-", "--target", str(store.path(REF)))
        assert call(*words, input="[]").code == 1
        assert list(store.project.iterdir()) == []
        assert call(*words, input=json.dumps(draft())).code == 0
        names = ["index.md"] if store.is_json else [".gitignore", "config.toml"]
        assert sorted(path.name for path in store.root.iterdir() if path.is_file()) == names
        assert store.root.stat().st_mode & 0o777 == 0o700


def test_a_target_lies_in_the_bank_that_is_named_or_in_force(store: Store, home: Path) -> None:
    bank = home / "elsewhere"
    assert call("init", "--bank", str(bank)).code == 0
    words = (*CREATE, "--input", "-", "--target", str(bank / "decisions/use-postgres.md"))
    refused(call(*words, input=json.dumps(draft())), "PATH_ERROR", "target", "fix")
    assert call(*words, "--bank", str(bank), input=json.dumps(draft())).code == 0
    for flags, named in ((("--bank", str(bank)), bank), (("--global",), home / ".retain")):
        said = refused(store.create(REF, *flags), "PATH_ERROR", "target", "fix")
        assert said["fix"] == f"Target must be inside the bank that is named: {named}"
    assert store.files() == {}
    assert store.answer(store.create(REF, "--bank", str(store.root)))["status"] == "created"
    assert store.answer(store.write("archive", REF, "--local"))["status"] == "archived"


# What is handed in


@pytest.fixture
def place(home: Path) -> Path:
    """A directory below /tmp."""
    folder = home.parent / "staging"
    folder.mkdir()
    return folder


def put_in(store: Store, source: Path | str, action: str = "create") -> Ran:
    words = ("record", "write", "--action", action, "--category", "decision")
    return call(*words, "--target", store.target(REF), "--input", str(source))


def test_input_from_elsewhere_is_refused(claude: Store, place: Path) -> None:
    (place / "draft.json").write_text(json.dumps(draft()), encoding="utf-8")
    (place / "out.json").symlink_to("/etc/hostname")
    sources = [
        "/etc/hostname", "/var/tmp/x.json", "/tmpx/draft.json", "/tmp", str(place / "out.json"),
        f"{place}/../{place.name}/draft.json", "/tmp/x\0y", "/proc/self/environ",
    ]  # fmt: skip
    for source in sources:
        said = refused(put_in(claude, source), "SECURITY_ERROR", "path", "resolved", "fix")
        assert said["fix"].startswith("Input file must be in /tmp/")
    assert claude.files() == {}
    assert len(os.listdir(place)) == 2


NO_RECORDS = [
    ("", "not valid JSON"),
    ("[1]", "not an object"),
    ('{"title": "a", "title": "b"}', "stands twice"),
    ("[" * 100_000, "not valid JSON"),
    ('{"a":' * 500 + "1" + "}" * 500, "nested deeper"),
    (json.dumps({"title": "x" * 3_000_000}), "larger than 2,000,000 bytes"),
]


def test_input_that_is_no_record(claude: Store, place: Path) -> None:
    source = place / "draft.json"
    for text, error in NO_RECORDS:
        source.write_text(text, encoding="utf-8")
        by_pipe = call(*CREATE, "--target", claude.target(REF), "--input", "-", input=text)
        for ran in (put_in(claude, source), by_pipe):
            assert error in refused(ran, "INPUT_ERROR", "path", "error", "fix")["error"]
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    (place / "loop").symlink_to(place / "loop")
    (place / "bytes").write_bytes(b"\xff\xfe{}")
    for name in ("pipe", "folder", "loop", "absent", "bytes", "x" * 300):
        refused(put_in(claude, place / name), "INPUT_ERROR", "path", "error", "fix")
    assert claude.files() == {}
    assert len(os.listdir(place)) == 5


def test_a_stored_memory_is_never_taken_for_a_draft(store: Store, home: Path, place: Path) -> None:
    store.create("decisions/other", given=draft(title="Other"))
    elsewhere = []
    for folder in (home / "x/.claude/memory", home / "x/.memories/notes"):
        folder.mkdir(parents=True)
        elsewhere.append(folder / "a.json")
        elsewhere[-1].write_text(json.dumps(draft(title="News")), encoding="utf-8")
    (place / "link.json").symlink_to(store.path("decisions/other"))
    before = store.files()
    for source in (store.path("decisions/other"), place / "link.json", *elsewhere):
        said = refused(put_in(store, source), "SECURITY_ERROR", "path", "resolved", "fix")
        assert said["fix"].startswith("Input file must not be in a memory store."), source
        assert source.exists()
    assert store.files() == before
    bank = home / "plain"
    bank.mkdir()
    elsewhere[0].rename(bank / "a.json")
    words = ("--target", str(bank / "decisions/b.md"), "--bank", str(bank))
    assert call(*CREATE, *words, "--input", str(bank / "a.json")).code == 0
    assert (bank / "a.json").exists()


def test_standard_input_that_cannot_be_read_is_a_block(claude: Store) -> None:
    words = [*command(), *CREATE, "--target", claude.target(REF), "--input", "-"]
    for redirection in ("<&-", "0>/dev/null"):
        script = ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *words]
        done = subprocess.run(script, capture_output=True, encoding="utf-8", check=False)
        ran = Ran(done.returncode, done.stdout, done.stderr)
        refused(ran, "INPUT_ERROR", "path", "error", "fix")
        assert ran.err == ""


def test_a_record_from_a_pipe_that_comes_too_late_is_kept(store: Store) -> None:
    store.create()
    before = store.files()
    late = changed(decision="MySQL")
    words = ["record", "write", "--action", "update", "--target", store.target(REF)]
    words += ["--hash", "0" * 32, "--input", "-"]
    said = refused(call(*words, input=json.dumps(late)), *OCC)
    (kept,) = (store.root / ".trash/decisions").iterdir()
    assert said["fix"].endswith(f"Your record is in the trash as {kept.name}.")
    aside = json.loads(kept.read_text(encoding="utf-8"))
    assert {**aside, **late} == aside
    assert store.files() == before
    words_back = ("restore", "--trash", kept.name, "--id", "late", "--bank", str(store.root))
    assert call(*words_back).code == 0


# index and candidate


def test_the_reports_of_the_index_are_word_for_word(claude: Store) -> None:
    root = str(claude.root)
    ran = call("record", "index", "--rebuild", "--root", "nowhere")
    assert ran == Ran(1, "", "ERROR: Memory root 'nowhere' is not a directory.\n")
    said = json.loads(call("record", "index", "--health", "--root", "nowhere", "--json").out)
    assert said == {"error": "Memory root 'nowhere' is not a directory."}
    no_index = "ERROR: index.md does not exist. Run --rebuild first.\n"
    assert call("record", "index", "--validate") == Ran(1, no_index, "")
    assert call("record", "index", "--query", "x") == Ran(0, no_index, "")
    assert "  No active memories found.\n" in call("record", "index", "--health").out
    claude.create()
    claude.create("runbooks/stuck", category="runbook", given=draft("runbook", "Queue stuck"))
    said = call("record", "index", "--rebuild").out
    assert said == f"Rebuilt index.md with 2 entries at {root}/index.md\n"
    assert claude.index() == (
        "# Memory Index\n\n"
        "<!-- Auto-generated by memory_index.py. Do not edit manually. -->\n\n"
        "- [DECISION] Use Postgres -> .claude/memory/decisions/use-postgres.json #tags:db\n"
        "- [RUNBOOK] Queue stuck -> .claude/memory/runbooks/stuck.json #tags:db\n"
    )
    ran = call("record", "index", "--validate")
    assert ran == Ran(0, "Index is valid. 2 entries match 2 files.\n", "")
    assert call("record", "index", "--query", "QUEUE").out == (
        "Found 1 match(es) for 'QUEUE':\n"
        "  - [RUNBOOK] Queue stuck -> .claude/memory/runbooks/stuck.json #tags:db\n"
    )
    assert call("record", "index", "--query", "zebra").out == "No matches found for 'zebra'.\n"
    text = claude.index().replace("stuck.json", "gone.json")
    (claude.root / "index.md").write_text(text, encoding="utf-8")
    assert call("record", "index", "--validate") == Ran(
        1,
        "Files NOT in index.md:\n  + .claude/memory/runbooks/stuck.json\n"
        "Index entries with NO matching file:\n  - .claude/memory/runbooks/gone.json\n"
        "\nIndex has mismatches. Run --rebuild to fix.\n",
        "",
    )
    assert "  - Index out of sync or missing\n" in call("record", "index", "--health").out
    assert call("record", "index", "--gc").out == (
        f"Garbage Collection (grace period: 30 days)\n{'=' * 50}\n\n"
        "No retired memories past grace period.\n"
    )


def test_gc_says_what_it_deleted_and_a_file_that_is_no_json_is_named(claude: Store) -> None:
    for ref, retired_at in ((REF, "2020-01-01T00:00:00Z"), ("decisions/odd", "once")):
        claude.create(ref)
        claude.write("delete", ref)
        claude.age(ref, "retired_at", retired_at)
    no_json = claude.path("decisions/broken")
    no_json.write_text("{", encoding="utf-8")
    warning = f"WARNING: Could not parse {no_json}: not valid JSON"
    for what in ("--rebuild", "--validate", "--health"):
        ran = call("record", "index", what)
        assert (ran.code, ran.err.startswith(warning)) == (0, True), what
    ran = call("record", "index", "--gc")
    assert ran.err.startswith(warning)
    assert "\nDeleted 1 file(s):\n  DELETED use-postgres.json (retired " in ran.out
    assert "Warnings/errors (1):\n  SKIP odd.json: invalid retired_at timestamp\n" in ran.out
    assert not claude.path(REF).exists()
    claude.index_agrees()


def test_a_bank_that_is_named_is_the_one_that_is_reported_and_collected(
    claude: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.create()
    claude.write("delete", REF)
    claude.age(REF, "retired_at", "2020-01-01T00:00:00Z")
    other = Store(home / "other", ".json")
    with monkeypatch.context() as there:
        there.chdir(other.project)
        other.answer(other.create(given=draft(tags=["postgres"])))
    named = ("--bank", str(other.root))
    for flags in (named, ("--global",)):
        assert "DELETED" not in call("record", "index", "--gc", *flags).out
        assert call(*CANDIDATE, "x", "--root", str(claude.root), *flags).code == 2
        assert call("record", "index", "--gc", "--root", str(claude.root), *flags).code == 2
    assert claude.path(REF).exists()
    assert "Use Postgres" in call("record", "index", "--query", "postgres", *named).out
    assert "DELETED" in call("record", "index", "--gc", "--local").out
    assert json.loads(call(*CANDIDATE, "postgres 18").out)["candidate"] is None
    said = json.loads(call(*CANDIDATE, "postgres 18", *named).out)
    assert said["candidate"]["title"] == "Use Postgres"


def test_the_first_news_of_a_project_is_a_record_to_create(home: Path) -> None:
    words = (*CANDIDATE, "we use Postgres")
    for flags in ((), ("--global",), ("--root", str(home / ".retain"))):
        ran = call(*words, *flags)
        assert (ran.code, json.loads(ran.out)["structural_cud"]) == (0, "CREATE")
        said = json.loads(call(*words, *flags, "--lifecycle-event", "removed").out)
        assert said["structural_cud"] == "NOOP"
        assert call(*words, *flags, "--category", "nonsense").code == 2
    assert list((home / "work").iterdir()) == []
    assert not (home / ".retain").exists()
    for flag in ("--root", "--bank"):
        ran = call(*words, flag, "nowhere")
        assert ran.code == 1
        assert ran.err.endswith("nowhere' is not a directory.\n")
    (home / "work/.claude").mkdir()
    (home / "work/.claude/memory").touch()
    assert call(*words).code == 1


# The store's own list


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_list_that_cannot_be_written_is_said_and_the_record_stored(
    claude: Store, home: Path, kind: str
) -> None:
    listing, note = claude.root / "index.md", home / "note.md"
    note.write_text("mine", encoding="utf-8")
    if kind == "link":
        listing.symlink_to(note)
    elif kind == "folder":
        listing.mkdir()
    else:
        os.mkfifo(listing)
    told = "index.md could not be written: "
    ran = claude.create()
    assert (claude.answer(ran)["status"], ran.err.count(f"[WARN] {told}")) == ("created", 1)
    ran = call("put", "-", "--id", "plain", input="text")
    assert (ran.code, ran.err.count(f"warning: {told}")) == (0, 1), ran
    assert note.read_text(encoding="utf-8") == "mine"
    listing.rmdir() if kind == "folder" else listing.unlink()
    ran = claude.create("decisions/two", given=draft(title="Two"))
    assert "index.md" not in ran.err
    assert len(claude.entries()) == 2


def test_the_commit_of_a_change_has_the_list_too(claude: Store) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], capture_output=True, encoding="utf-8", check=True)
        return done.stdout

    git("init", "-q")
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    claude.configure({}, auto_commit=True)
    claude.answer(claude.create())
    names = git("show", "--format=", "--name-only", "HEAD").split()
    assert names == [".claude/memory/decisions/use-postgres.json", ".claude/memory/index.md"]
    assert call("retire", "use-postgres").code == 0
    assert git("show", "HEAD:.claude/memory/index.md") == claude.index()


def test_the_next_write_mends_a_stale_doubled_or_missing_index(claude: Store) -> None:
    claude.create()
    right = claude.index()
    entry = right.splitlines()[-1] + "\n"
    gone = "- [DECISION] Gone -> .claude/memory/decisions/gone.json\n"
    for text in (right + entry, right + gone, "", "no index at all\n" + gone):
        (claude.root / "index.md").write_text(text, encoding="utf-8")
        claude.answer(claude.write("archive", REF))
        claude.answer(claude.write("unarchive", REF))
        assert len(claude.entries()) == 1
        assert call("record", "index", "--validate").code == 0
    (claude.root / "index.md").unlink()
    claude.answer(claude.write("restore", REF))  # which changes nothing else
    assert claude.index() == right
    # What a person wrote above the entries stays.
    text = right.replace("\n- [", "\nMy own note.\n\n- [")
    (claude.root / "index.md").write_text(text, encoding="utf-8")
    claude.create("decisions/another", given=draft(title="Another"))
    assert "My own note." in claude.index()
    assert len(claude.entries()) == 2
