"""The commands about chats, as a person runs them."""

from __future__ import annotations

import json
import os
import sqlite3
import zipfile
from pathlib import Path

import pytest

from retain.app import App
from retain.errors import NotSaved
from retain.facts.store import Facts, Synced
from tests.cli.door import call, done

CHAT = {
    "id": "session_20260218_001",
    "created_at": "2026-02-18T10:00:00Z",
    "updated_at": "2026-02-18T10:05:00Z",
    "title": "Chisels",
    "tags": ["tools"],
    "messages": [
        {"role": "user", "content": "How do I sharpen one?", "timestamp": "2026-02-18T10:00:01Z"},
        {"role": "assistant", "content": "On a stone.", "timestamp": "2026-02-18T10:00:02Z"},
    ],
}


@pytest.fixture(autouse=True)
def bank() -> Path:
    done("init")
    return Path(".retain").resolve()


def write(name: str, value: object) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return name


def messages() -> list[dict[str, str]]:
    found = CHAT["messages"]
    assert isinstance(found, list)
    return found


def lines(*records: object) -> str:
    return "".join(json.dumps(one) + "\n" for one in records)


def test_an_export_goes_into_a_new_file_only(bank: Path) -> None:
    done("sessions", "import", write("a.json", CHAT))
    report = json.loads(done("sessions export --all --out b.json --json"))
    assert report["sessions"] == [CHAT["id"]]
    before = Path("b.json").read_bytes()
    assert Path("b.json").stat().st_mode & 0o777 == 0o600
    assert call("sessions export --all --out b.json").code == 4
    assert Path("b.json").read_bytes() == before
    assert call("sessions export --all --out no/b.json").code == 3
    assert call("sessions export").code == 2
    assert call("sessions export latest --all").code == 2
    assert "  1 already here\n" in done("sessions import b.json")


# Imports


def test_a_directory_is_imported_and_what_is_no_chat_is_named(bank: Path) -> None:
    write("in/a.json", CHAT)
    second = {"type": "meta", "id": "session_20260219_001", "title": "Second", "tags": []}
    message = {"type": "message", **messages()[0], "content": "Another"}
    write("in/deeper/b.jsonl", lines(second, message))
    write("in/c.json", "{not json")
    write("in/notes.txt", "no chat")
    os.symlink(os.path.abspath("in/a.json"), "in/d.json")
    assert "2 new" in done("sessions import in --dry-run")
    assert not (bank / "sessions.db").exists()
    ran = call("sessions import in")
    assert "  2 new\n" in ran.out
    assert ran.err.count("warning: left out:") == 2
    again = call("sessions import in --json")
    assert json.loads(again.out)["unchanged"] == [CHAT["id"], "session_20260219_001"]
    for wrong in ("in/c.json", "in/notes.txt"):
        assert call("sessions", "import", wrong).code == 1
    os.mkdir("empty")
    assert call("sessions import empty").code == 1
    assert call("sessions import nowhere").code == 3


def test_a_claude_code_transcript_is_read_as_it_was_spoken(bank: Path) -> None:
    def line(kind: str, content: object, **more: object) -> dict[str, object]:
        message = {"role": kind, "content": content, "id": "m1"}
        about = {"sessionId": "s-1", "timestamp": "2026-02-18T10:00:00.500Z"}
        return {"type": kind, "message": message, **about, **more}

    hook = "<system-reminder>memory</system-reminder>Fix the <b>test</b>"
    transcript = lines(
        {"type": "summary", "summary": "Fixing a test", "leafUuid": "x"},
        line("user", hook),
        line("assistant", [{"type": "text", "text": "I look."}]),
        line("assistant", [{"type": "tool_use", "name": "Read", "input": {}}]),
        line("user", [{"type": "tool_result", "content": "file"}]),
        line("user", "note", isMeta=True),
        line("assistant", [{"type": "text", "text": "Done."}], message={
            "role": "assistant", "id": "m2", "content": [{"type": "text", "text": "Done."}]}),
    )  # fmt: skip
    done("sessions", "import", write("s-1.jsonl", transcript))
    shown = json.loads(done("sessions show latest --json"))
    assert [(one["role"], one["content"]) for one in shown["messages"]] == [
        ("user", "Fix the <b>test</b>"),
        ("assistant", "I look."),
        ("assistant", "Done."),
    ]
    assert (shown["title"], shown["origin"]) == ("Fixing a test", "claude-code:s-1")
    assert shown["created_at"] == "2026-02-18T10:00:00.500Z"
    assert shown["id"] == "session_20260218_001"
    more = transcript + lines(line("user", "Thanks"))
    assert "went on since" in done("sessions", "import", write("s-1.jsonl", more))
    assert call("sessions", "import", write("x.jsonl", lines({"type": "user"}))).code == 1


def zipped(name: str, **files: object) -> str:
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, value in files.items():
            text = value if isinstance(value, str) else json.dumps(value)
            archive.writestr(file.replace("__", "/") + ".json", text)
    return name


@pytest.mark.slow
def test_an_archive_is_read_and_a_bomb_is_not(bank: Path) -> None:
    exported = {"uuid": "u", "name": "N", "chat_messages": [{"sender": "human", "text": "hi"}]}
    good = zipped("good.zip", user={"id": 1}, up__conversations=[exported])
    assert "1 new" in done("sessions", "import", good)
    bomb = zipped("bomb.zip", conversations=" " * 120_000_000)
    refused = call("sessions", "import", bomb)
    assert refused.code == 1
    assert "far more than any text" in refused.err
    half = zipped("half.zip", conversations_a=[{**exported, "uuid": "v"}], conversations_b="{")
    assert call("sessions", "import", half).code == 1
    assert len(json.loads(done("sessions list --json"))) == 1
    Path("not.zip").write_bytes(b"PK\x05\x06" + b"\0" * 17)
    assert call("sessions import not.zip").code == 1


# migrate


def workspace(root: str = "old/workspace") -> str:
    write(f"{root}/context/system_prompt.md", "You are Retain.\n")
    write(f"{root}/memories/USER.md", "# User\n\nName: Jamie\n")
    write(f"{root}/memories/PREFERENCES.md", "# Preferences\n")
    write(
        f"{root}/memories/MEMORY.md",
        "---\nupdated: x\n---\n# Memory\n\n- Uses Bun as the JS runtime\n"
        "- Likes a fact\n  on two lines\n- uses bun as the JS runtime.\n\n"
        "```\n- no fact\n```\n* Another\n",
    )
    write(f"{root}/sessions/session_20260218_001.json", CHAT)
    meta = {"type": "meta", "id": "session_20260219_001", "title": "New session"}
    message = {"type": "message", **messages()[0], "content": "In lines"}
    write(f"{root}/sessions/session_20260219_001.jsonl", lines(meta, message))
    return "old"


def database(root: str = "old/workspace") -> None:
    connection = sqlite3.connect(f"{root}/spark.db")
    connection.executescript(
        """
        CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, summary TEXT,
          created_at TEXT NOT NULL, updated_at TEXT NOT NULL, tags TEXT DEFAULT '[]');
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,
          content TEXT, timestamp TEXT, token_count INTEGER);
        CREATE TABLE memories (id INTEGER PRIMARY KEY, fact TEXT, category TEXT,
          source_session TEXT, created_at TEXT, superseded_by INTEGER);
        INSERT INTO sessions VALUES ('session_20260218_001', 'Chisels', 'About chisels.',
          '2026-02-18T10:00:00.456Z', '2026-02-18T10:05:00Z', '["tools"]');
        INSERT INTO sessions VALUES ('session_20260220_001', 'Empty', NULL, '2026', '2026', '[]');
        INSERT INTO messages VALUES (1, 'session_20260218_001', 'user', 'How do I sharpen one?',
          '2026-02-18T10:00:01Z', 6);
        INSERT INTO messages VALUES (2, 'session_20260218_001', 'assistant', 'On a stone.',
          '2026-02-18T10:00:02Z', 4);
        INSERT INTO messages VALUES (3, 'session_20260218_001', 'user', 'Thanks',
          '2026-02-18T10:00:03Z', NULL);
        INSERT INTO memories VALUES (1, 'Another', 'general', NULL, '2026-02-18T10:00:00Z', NULL);
        INSERT INTO memories VALUES (2, 'Skis in Taos', 'sport', NULL, '2026-02-18T10:00:00Z',
          NULL);
        INSERT INTO memories VALUES (3, 'Outdated', 'general', NULL, '2026-02-18T10:00:00Z', 2);
        """
    )
    connection.commit()
    connection.close()


def test_a_workspace_is_migrated_and_a_second_time_changes_nothing(bank: Path) -> None:
    source = workspace()
    done("migrate", source, "--dry-run")
    assert not list(bank.glob("*.md"))
    (bank / "USER.md").write_text("mine", encoding="utf-8")
    assert not (bank / "sessions.db").exists()
    first = json.loads(done("migrate", source, "--json"))
    assert {one["name"]: one["status"] for one in first["files"]} == {
        "context/system_prompt.md": "copied",
        "USER.md": "kept",
        "PREFERENCES.md": "copied",
        "MEMORY.md": "copied",
    }
    assert first["facts"] == [
        "facts/uses-bun-as-the-js-runtime",
        "facts/likes-a-fact",
        "facts/another",
    ]
    assert first["sessions"]["new"] == ["session_20260218_001", "session_20260219_001"]
    fact = json.loads(done("get facts/another --json"))
    assert (fact["type"], fact["content"], fact["metadata"]["source"]) == (
        "fact",
        "Another\n",
        "workspace MEMORY.md",
    )
    before = sorted((bank / "facts").iterdir())
    second = json.loads(done("migrate", source, "--json"))
    assert {one["status"] for one in second["files"]} == {"unchanged", "kept"}
    assert (bank / "USER.md").read_text(encoding="utf-8") == "mine"
    assert (second["facts"], second["known_facts"]) == ([], 3)
    assert (second["sessions"]["new"], second["sessions"]["messages"]) == ([], 0)
    assert sorted((bank / "facts").iterdir()) == before
    assert [one["text"] for one in json.loads(done("sessions search bun --json"))] == [
        "Uses Bun as the JS runtime"
    ]
    done("delete facts/another")
    done("sessions delete session_20260219_001 --yes")
    third = json.loads(done("migrate", source, "--json"))
    assert (third["facts"], third["sessions"]["new"]) == ([], []), "what was deleted stays so"


def test_a_migration_that_was_interrupted_is_completed_by_the_next(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = workspace()
    with monkeypatch.context() as broken:

        def fail(*_: object, **__: object) -> None:
            raise NotSaved("not saved: the disk is full")

        broken.setattr("retain.sessions.store.Sessions.import_chats", fail)
        assert call("migrate", source).code == 1
    done_now = json.loads(done("migrate", source, "--json"))
    assert (done_now["facts"], done_now["known_facts"]) == ([], 3)
    assert len(done_now["sessions"]["new"]) == 2
    assert len(list((bank / "facts").iterdir())) == 3


def test_other_notes_of_a_workspace_come_along_once(bank: Path) -> None:
    source = workspace()
    text = "# Projects\n\nRetain, since May.\n\n- in Python\n"
    write("old/workspace/memories/PROJECTS.md", text)
    write("old/workspace/memories/Tools.md", "- Has a lathe\n- Has a plane\n")
    write("old/workspace/memories/people.md", "Ada is a colleague.\n")
    done("put --id people -", input="Something else")
    said = done("migrate", source, "--dry-run")
    assert "  PROJECTS.md: copied\n" in said
    assert "  Tools.md: its bullets are facts\n" in said
    assert not (bank / "memories" / "projects.md").exists()
    write("old/workspace/skills/review/SKILL.md", "---\nname: review\n---\nLook twice.\n")
    write("old/workspace/skills/review/notes/list.md", "- tests\n")
    said = done("migrate", source)
    assert "  people.md: left alone: the bank has its own\n" in said
    assert "  skills/review/notes/list.md: copied\n" in said
    assert (bank / "skills" / "review" / "SKILL.md").read_text("utf-8").endswith("Look twice.\n")
    note = json.loads(done("get memories/projects --json"))
    assert (note["content"], note["metadata"]["source"]) == (text, "workspace PROJECTS.md")
    assert json.loads(done("get facts/has-a-lathe --json"))["content"] == "Has a lathe\n"
    before = sorted(bank.glob("*/*.md"))
    assert "  PROJECTS.md: already here\n" in done("migrate", source)
    assert sorted(bank.glob("*/*.md")) == before
    done("delete memories/projects")
    assert "  PROJECTS.md: left alone: it was deleted here\n" in done("migrate", source)
    assert not (bank / "memories" / "projects.md").exists()


def test_a_list_that_was_migrated_is_in_step_with_its_facts(bank: Path) -> None:
    source = workspace()
    text = (
        "# Memory\n\n- Uses Bun\n  - as the runtime\n  - and as the bundler\n"
        "- Lives in Berlin\n\n  since May\n- [ ] no fact\n<!--\n- no fact\n-->\n* Speaks French\n"
    )
    write("old/workspace/memories/MEMORY.md", text)
    database()
    assert len(json.loads(done("migrate", source, "--json"))["facts"]) == 5
    listed = (bank / "MEMORY.md").read_text(encoding="utf-8")
    assert listed.startswith(text)
    assert listed.removeprefix(text) == "* Another\n* Skis in Taos\n"
    for app in (App(bank=str(bank)), App(bank=str(bank))):
        synced = Facts(app).sync()
        assert synced == Synced()
        app.close()
    assert json.loads(done("migrate", source, "--json"))["facts"] == []
    assert (bank / "MEMORY.md").read_text(encoding="utf-8") == listed
    assert len(list((bank / "facts").iterdir())) == 5


def test_a_database_beside_the_files_doubles_nothing(bank: Path) -> None:
    source = workspace()
    done("migrate", source)
    database()
    held = Path("old/workspace/spark.db").read_bytes()
    ran = json.loads(done("migrate", f"{source}/workspace", "--json"))
    assert (ran["sessions"]["new"], ran["sessions"]["grown"]) == ([], ["session_20260218_001"])
    assert ran["facts"] == ["facts/skis-in-taos"]
    assert json.loads(done("get facts/skis-in-taos --json"))["category"] == "sport"
    assert json.loads(done("sessions list --json"))[0]["messages"] in (1, 3)
    assert Path("old/workspace/spark.db").read_bytes() == held
    again = json.loads(done("migrate", source, "--json"))
    assert (again["facts"], again["sessions"]["messages"]) == ([], 0)
    Path("old/workspace/spark.db").write_bytes(b"no database")
    assert "left behind" in call("migrate", source).err


def test_what_is_no_workspace_is_refused(bank: Path) -> None:
    assert call("migrate nowhere").code == 3
    os.mkdir("empty")
    assert call("migrate empty").code == 1
    os.mkdir(".memories")
    assert call("migrate", workspace(), "--bank", ".memories").code == 2


def test_a_secret_in_a_workspace_does_not_come_along(bank: Path) -> None:
    key = "sk-ant-" + "api03-Zx9" * 6
    source = workspace()
    write("old/workspace/memories/MEMORY.md", f"- The key is {key}\n")
    assert "replaced" in call("migrate", source).err
    assert key not in "".join(
        path.read_text(encoding="utf-8") for path in bank.rglob("*.md") if path.is_file()
    )
    assert json.loads(done("migrate", source, "--json"))["facts"] == []
