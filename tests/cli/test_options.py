"""What every command has in common: its options, its JSON, its silence and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retain.capture.proposal import Proposal
from retain.cli.command import COMMANDS
from tests.capture.proposals import inbox
from tests.cli.door import call, done
from tests.conftest import ROOT


def keys(names: str) -> set[str]:
    return set(names.split())


WRITTEN = keys(
    "id collection file_path status hash created_at updated_at previous_version commit warnings"
)
ROW = keys("id title collection type status tags category created_at updated_at scope file_path")
MEMORY = ROW | keys("content metadata hash problem superseded_by supersedes")
VERSION = keys("version time author message source")
TRASHED = keys("name id collection deleted_at path size")
STATUS = keys(
    "root kind scope reason exists enabled other_stores memories bytes collections types "
    "statuses trashed proposals history index engines problems warnings"
)
ANSWER = keys("query mode hits confidence confident degraded notes")
BRIEF = keys("query text items tokens budget left_out confidence confident degraded")
LINKED = keys(
    "memory_id id collection score title type content anchor_context edge_type file_path "
    "freshness line links degraded"
)
MERGED = WRITTEN | keys("target sources_merged trashed")
INDEX = keys("chunks vectors pending held model")
INDEXED = INDEX | keys("added changed removed vectors_made problems")
STATS = INDEX | keys("count total_size bytes tags types memory_path index_size problems")
DOCTOR = keys("healthy dangling memories problems faults repaired notes index states")
OUTCOME = keys(
    "status id collection type title file_path hash renamed_from previous_version commit notes"
    " warnings"
)
CHANGE = keys("date id collection type summary field old_value new_value")
VERDICT = keys("candidate lifecycle_event delete_allowed pre_action structural_cud vetoes hints")
PROPOSAL = keys(
    "id category title score created_at event host session_id transcript_path start end cwd"
)
REVIEWED = keys("accepted dropped restored kept refused")
COLLECTED = keys("dry_run removed retired problems commit")
INSTALLED = keys("status dry_run host scope file backup entry diff warnings")
TRIED = keys("event host_event payload exit_code milliseconds stdout stderr says reason proposals")
IMPORTED = keys("source created unchanged kept replaced commit warnings")
SESSION = keys(
    "id title summary created_at updated_at tags messages tokens model project is_question"
)
CHAT = keys("id created_at updated_at title tags messages origin")
SAID = keys("kind session_id title role text timestamp score message")
CHATS = keys("source new grown unchanged differing messages warnings dry_run")
MIGRATED = keys("source dry_run files facts known_facts sessions warnings")

NEW = "new preference --field topic=a --field value=b --field reason=c --field strength=soft"

# Call -> the keys of its JSON; a list holds rows of those keys. Programs rely on this table.
SHAPES: dict[str, set[str] | list[set[str]]] = {
    "put - --id new": WRITTEN | keys("similar"),
    "get note": MEMORY,
    "get note --show-versions": MEMORY | keys("versions"),
    "get note --format raw": MEMORY,
    "list": [ROW | keys("superseded_by")],
    "update note --tags b": WRITTEN,
    "append note --content -": WRITTEN,
    "edit note": WRITTEN,
    "move note --id moved": WRITTEN,
    "delete note": keys("status id collection moved_to commit warnings"),
    "search second": ANSWER,
    "brief second": BRIEF,
    "linked src/auth.py": [LINKED],
    "related note": [keys("id collection title score reasons degraded")],
    "graph": keys("nodes edges"),
    "graph note --format dot": keys("nodes edges"),
    "merge note memories/twin --into merged --content -": MERGED,
    "suggest-merges --type fact": [keys("cluster_id score reason memory_count memories command")],
    "inbox": [PROPOSAL | keys("number")],
    "inbox list --dropped": [PROPOSAL | keys("number")],
    "inbox show 1": PROPOSAL | keys("text source messages missing"),
    "inbox accept 1": REVIEWED,
    "inbox drop --all": REVIEWED,
    "inbox restore 1": REVIEWED,
    "inbox edit": REVIEWED,
    "dedupe": [keys("action score reason older newer command degraded")],
    NEW: OUTCOME,
    "candidate tabs --category preference": VERDICT,
    "retire note --reason old": OUTCOME,
    "restore note": OUTCOME,
    "archive note": OUTCOME,
    "unarchive shelved": OUTCOME,
    "supersede note --by shelved": OUTCOME | keys("superseded_by"),
    "changes": [CHANGE],
    "gc": COLLECTED,
    "gc --dry-run": COLLECTED,
    "health": keys("healthy report"),
    "record write --action retire --target .retain/memories/note.md": keys("status target reason"),
    "record write --action restore --target .retain/memories/note.md": keys("status target"),
    "record candidate --category runbook --new-info x --root .retain": VERDICT,
    "record index --validate --root .retain": keys("report"),
    "record index --rebuild --root .retain": keys("report"),
    "versions note": [VERSION],
    "diff note": keys("id diff"),
    "restore note --version v1": WRITTEN,
    "restore --trash gone": WRITTEN,
    "trash list": [TRASHED],
    "trash empty --yes": [TRASHED],
    "sessions": [SESSION],
    "sessions list hello": [SESSION],
    "sessions search hello": [SAID],
    "sessions show latest": CHAT,
    "sessions export latest": CHAT,
    "sessions export --all --format md": CHAT,
    "sessions export --all --out out.json": keys("path format sessions"),
    "sessions import workspace": CHATS,
    "sessions delete latest --yes": keys("status id title moved_to"),
    "migrate": MIGRATED,
    "migrate --dry-run": MIGRATED,
    "mcp token": keys("token file"),
    "hook": [keys("event host_event on switch origin about")],
    "hook test pre-tool-use": TRIED,
    "hook test stop": TRIED,
    "init": keys("root scope created"),
    "status": STATUS,
    "collections": [keys("collection scope memories")],
    "config get memory.enabled": keys("key value origin"),
    "config set memory.recency_boost_days 3": keys("key value file"),
    "config unset memory.recency_boost_days": keys("key file changed value origin"),
    "config list": [keys("key value origin about project")],
    "config path": [keys("file exists")],
    "config check": keys("warnings notes"),
    "install claude-code": INSTALLED,
    "install codex --dry-run": INSTALLED,
    "install cursor --uninstall": INSTALLED,
    "export out.zip": keys("path memories warnings"),
    "import other.md": IMPORTED,
    "completion bash": keys("shell script"),
    "stats": STATS,
    "sync": INDEXED,
    "index --rebuild": INDEXED,
    "doctor": DOCTOR,
    "engine": keys("bank arms"),
    "engine status": keys("bank arms"),
    "engine migrate --to sqlite": keys("to arms"),
}
# Commands that do not end by themselves; tests of their own have what they print.
ENDLESS = {"serve", "watch", "web"}
# Commands that need a model to talk to; tests/chat has them.
TALKING = {"ask", "chat"}
# Commands that have something to say only about memories that are alike.
COMPARING = {"related", "suggest-merges", "dedupe"}
# Commands that are about typed memories, or about archived ones.
TYPED = {"unarchive", "supersede", "changes"}
CALLS = sorted(SHAPES)


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A project bank with a memory that has a past, and one in the trash."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")
    words = request.getfixturevalue("words") if "words" in request.fixturenames else ""
    called = words.partition(" ")[0]
    if called == "merge":
        done("put - --id twin", input="a second one, without which nothing is merged")
    if called in TYPED:
        done(*NEW.split(), "--id", "shelved")
        done("archive shelved")
    if called == "inbox":
        for text in ("Always tabs.", "Never tabs."):
            inbox(home / "work" / ".retain").propose(Proposal("", "preference", "Tabs", text))
        done("inbox drop 2")
    if called in ("sessions", "migrate"):
        _write_chat("workspace/sessions")
        done("sessions import workspace")
    done("put - --id note", input="first")
    done("update note --content -", input="second, see [[src/auth.py]]")
    done("put - --id gone", input="gone")
    done("delete gone")
    Path("other.md").write_text("# Other\n", encoding="utf-8")
    monkeypatch.setenv("EDITOR", "sed -i s/second/third/")
    return home / "work" / ".retain"


def _write_chat(folder: str) -> None:
    Path(folder).mkdir(parents=True)
    chat = {"id": "session_20260218_001", "messages": [{"role": "user", "content": "hello"}]}
    Path(folder, "chat.json").write_text(json.dumps(chat), encoding="utf-8")


@pytest.fixture
def twins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For commands that compare memories: two that are alike, and the model that sees it."""
    words = request.getfixturevalue("words")
    if words.partition(" ")[0] in COMPARING:
        monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
        for name in ("one", "two"):
            text = "The kettle boils water, see [[src/auth.py]]."
            done("put", "-", "--id", name, "--type", "fact", "--quiet", input=text)


def test_table_names_every_command() -> None:
    assert {words.partition(" ")[0] for words in SHAPES} == set(COMMANDS) - ENDLESS - TALKING


@pytest.mark.parametrize("words", CALLS)
def test_json_is_one_stable_shape_and_all_of_stdout(words: str, twins: None) -> None:
    answer = json.loads(done(*words.split(), "--json", input="text"))
    shape = SHAPES[words]
    if isinstance(shape, set):
        assert set(answer) == shape
    else:
        assert answer
        assert [set(row) for row in answer] == shape * len(answer)


@pytest.mark.slow
@pytest.mark.parametrize("words", CALLS)
def test_options_stand_before_or_after_the_command(words: str, bank: Path) -> None:
    common = ("--bank", str(bank), "--json", "--quiet")
    before = call(*common, *words.split(), input="text")
    assert before.code == 0, before.err
    json.loads(before.out)
    assert call(*words.split(), *common, "--help").code == 0
    for choice in ("--local", "--global"):
        assert call(*words.split(), choice, "--help").code == 0
        assert call(choice, *words.split(), "--help").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("words", CALLS)
def test_quiet_says_nothing_on_stderr(words: str) -> None:
    ran = call(*words.split(), "--quiet", input="text")
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("words", CALLS)
def test_what_is_not_understood_is_a_usage_error_and_changes_nothing(
    words: str, bank: Path
) -> None:
    before = {path: path.read_bytes() for path in bank.rglob("*") if path.is_file()}
    ran = call(*words.split(), "--frobnicate", input="text")
    assert (ran.code, ran.out) == (2, "")
    assert "--frobnicate" in ran.err
    assert f"`retain {words.split(maxsplit=1)[0]}" in ran.err
    assert {path: path.read_bytes() for path in bank.rglob("*") if path.is_file()} == before


def test_tool_inside_a_command_is_named_by_its_errors() -> None:
    ran = call("record index --validate --frobnicate")
    assert "`retain record index` does not take --frobnicate" in ran.err
    assert "`retain record index --help`" in ran.err
    assert "`retain record write --help`" in call("record write").err


@pytest.mark.parametrize(
    "words, code, name",
    [
        ("get nothing", 3, "not-found"),
        ("get ../x", 2, "bad-name"),
        ("list --filter x", 2, "bad-filter"),
        ("list --sideways", 2, "usage"),
        ("put - --title Note", 4, "conflict"),
        ("import nothing.zip", 3, "not-found"),
        ("list --bank nowhere", 3, "not-found"),
        ("related nothing", 3, "not-found"),
        ("search x --since whenever", 2, "usage"),
        ("frobnicate", 2, "usage"),
    ],
)
def test_errors_with_json_are_json_on_stderr_alone(words: str, code: int, name: str) -> None:
    ran = call(*words.split(), "--json", input="other text")
    error = json.loads(ran.err)["error"]
    assert (ran.code, ran.out, error["code"]) == (code, "", name)
    assert set(error) == {"code", "message", "unchanged", "hint"}
    assert call(*words.split(), input="other text").err.startswith(f"retain: {error['message']}")


@pytest.mark.parametrize(
    "words, printed",
    [
        ("list", "memories/note\n"),
        ("put - --id x", "memories/x\n"),
        ("versions note", "v1\n"),
        ("search second", "memories/note\n"),
        ("linked src/auth.py", "memories/note\n"),
        ("graph note", "ghost:src/auth.py\nmemories/note\n"),
        ("merge note twin --into new --content -", "memories/new\n"),
        ("sync", ""),
        ("doctor", ""),
        ("collections", "memories\n"),
        ("delete note", ""),
        ("trash empty --yes", ""),
        ("config get memory.enabled", "true\n"),
    ],
)
def test_quiet_prints_the_bare_result(words: str, printed: str) -> None:
    assert done(*words.split(), "--quiet", input="text") == printed


def test_bank_that_was_named_and_is_not_there_is_not_an_empty_bank() -> None:
    wrong = []
    for words in "list;get note;status;collections;search x;graph;stats;sync;doctor".split(";"):
        ran = call(*words.split(), "--bank", "nowhere")
        is_refused = (ran.code, ran.out) == (3, "") and "retain init --bank" in ran.err
        if not is_refused or Path("nowhere").exists():
            wrong.append((words, ran))
    assert not wrong


READING = (
    "list;get x;status;collections;trash list;search x;brief x;linked x;related x;graph;"
    "suggest-merges;dedupe;stats;sync;index;doctor;changes;health;inbox;inbox edit;"
    "inbox accept --all;gc;gc --dry-run;candidate x --category decision;retire x;restore x"
).split(";")


def test_reading_never_makes_a_bank(home: Path) -> None:
    for words in READING:
        call(*words.split(), "--global")
        assert not (home / ".retain").exists(), words


def test_help_is_printed_on_stdout() -> None:
    wrong = []
    for words in ["--help", "-h", "", *(f"{name} --help" for name in COMMANDS)]:
        ran = call(*words.split())
        if (ran.code, ran.err) != (0, "") or not ran.out.startswith("usage: retain"):
            wrong.append((words, ran))
    assert not wrong


@pytest.mark.parametrize(
    "words, text",
    [
        ("-v", "`retain` does not take -v"),
        ("--foo", "`retain` does not take --foo"),
        ("--limit 3", "`retain` does not take --limit"),
        ("update note", "nothing to change"),
        ("append note --content -", "no text to add"),
        ("append note -", "no text to add"),
        ("append note", "no text to add"),
        ("append note - --content -", "not allowed with"),
        ("put -", "no text to store"),
        ('update note --metadata {"id":"x"}', "cannot set the id"),
        ("update note --metadata [1]", "JSON object"),
        (r'put - --id x --metadata {"a":"\ud800"}', "not valid UTF-8"),
        ("put - --id x --title a\udcffb", "not valid UTF-8"),
        ("move note", "say where to"),
        ("update note --tags x --expect abc", "not a hash"),
        ("list --limit 0", "not a whole number of at least 1"),
        ("search second --min-score 1.5", "not a number between 0 and 1"),
        ("trash empty --older-than soon", "not a time such as 90s"),
        ("list --bank=", "--bank needs a path"),
        ("put - --id=", "not a name"),
        ("restore --trash", "name a memory"),
        ("restore --version v1", "name a memory"),
        ("restore note gone --version v1", "about one memory"),
    ],
)
def test_calls_that_make_no_sense_are_refused_and_change_nothing(
    words: str, text: str, bank: Path
) -> None:
    before = (bank / "memories" / "note.md").read_bytes()
    ran = call(*words.split(), input="hello" if " x" in words else "")
    assert (ran.code, ran.out) == (2, "")
    assert text in ran.err
    assert (bank / "memories" / "note.md").read_bytes() == before
    assert not (bank / "memories" / "x.md").exists()


def test_every_key_is_on_the_page_about_json() -> None:
    page = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    shapes = [shape if isinstance(shape, set) else set().union(*shape) for shape in SHAPES.values()]
    assert {key for shape in shapes for key in shape if f"`{key}`" not in page} == set()
