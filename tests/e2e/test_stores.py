"""Stores made by other tools open in place for every command, and banks of every version open."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.door import call, done
from tests.conftest import ROOT

ARCANEUM_YAML = "version: 1\nretain:\n  enabled: true\n  path: .arcaneum-retain\n"
ARCANEUM_JSON = '{"version": 1, "retain": {"enabled": true, "path": "notes/memory"}}'
NOTE = (
    '---\ntype: "plan"   # ours\nstatus: "active"\ntags: ["refactor", "auth"]\n'
    'created_at: "2025-01-10T10:00:00Z"\nunknown: {a: 1}\n---\n\nPlan for [[src/auth.py]].\n'
)
RECORD = """{
  "schema_version": "1.0",
  "category": "decision",
  "id": "use-jwt",
  "title": "Use JWT",
  "created_at": "2026-02-01T00:00:00Z",
  "updated_at": "2026-02-01T00:00:00Z",
  "tags": ["auth"],
  "record_status": "active",   \

  "confidence": 0.90,
  "content": {"status": "accepted", "context": "Stateless", "decision": "JWT",
              "rationale": ["simple", "known"]}
}
"""
INDEX = (
    "# Memory Index\n\n- [DECISION] Use JWT -> .claude/memory/decisions/use-jwt.json #tags:auth\n"
)
AGENT_FILE = (
    "---\ninjection_id: 0d9d4e9e-6f0c-4a41-9c1f-2f6a5f1c8b11\ninjected_at: 2025-10-30T14:23:45\n"
    "injected_by: claude\ntitle: GPU Patterns\ncategory: research\ntags: [gpu, metal]\n"
    "collection: research\n---\n\n# GPU Patterns\n"
)


class Store(NamedTuple):
    """Another tool's store: its files, where it lies and how its first memory is called."""

    kind: str
    files: dict[str, str]
    root: str
    ref: str
    default: str


STORES = {
    "arcaneum yaml": Store(
        "arcaneum",
        {".arcaneum": ARCANEUM_YAML, ".arcaneum-retain/knowledge/auth-plan.md": NOTE},
        ".arcaneum-retain",
        "knowledge/auth-plan",
        "memories",
    ),
    "arcaneum json": Store(
        "arcaneum",
        {".arcaneum": ARCANEUM_JSON, "notes/memory/knowledge/auth-plan.md": NOTE},
        "notes/memory",
        "knowledge/auth-plan",
        "memories",
    ),
    "memories": Store(
        "memories",
        {
            ".memories/auth-plan.md": NOTE,
            ".memories/indices/vector.json": "{}",
            ".memories/indices/readme.md": "not a memory",
        },
        ".memories",
        "auth-plan",
        "",
    ),
    "claude": Store(
        "claude",
        {
            ".claude/memory/decisions/auth-plan.md": NOTE,
            ".claude/memory/index.md": INDEX,
            ".claude/memory/memory-config.json": '{"max_inject": 5}',
        },
        ".claude/memory",
        "decisions/auth-plan",
        "memories",
    ),
}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


def data(*words: str, input: str = "") -> dict[str, object]:
    answer = json.loads(done(*words, "--json", input=input))
    assert isinstance(answer, dict)
    return answer


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, home: Path) -> Store:
    found = STORES[request.param]
    write(home / "work", found.files)
    return found


def plain(path: Path) -> bytes:
    """A memory's bytes but for the time of its last change."""
    return re.sub(rb"updated_at: .*\n", b"", path.read_bytes())


def test_every_command_works_in_place(store: Store, home: Path) -> None:
    """One memory's whole life, in the other tool's own files."""
    root = home / "work" / store.root
    place, ref = root / f"{store.ref}.md", store.ref

    status = data("status")
    assert (status["kind"], status["root"], status["memories"]) == (store.kind, str(root), 1)
    assert done("list", "--quiet") == f"{ref}\n"
    assert done("get", "auth-plan", "--format", "raw") == "\nPlan for [[src/auth.py]].\n".lstrip()
    assert data("get", ref)["type"] == "plan"

    done("update", ref, "--tags", "x", "--merge-tags")
    changed = place.read_bytes().decode()
    assert changed.startswith('---\ntype: "plan"   # ours\nstatus: "active"\n')
    assert "unknown: {a: 1}" in changed
    done("append", ref, "--content", "-", input="More.")
    assert done("get", ref, "--format", "raw").endswith("\n\nMore.\n")
    versions = json.loads(done("versions", ref, "--json"))
    assert [one["version"] for one in versions] == ["v2", "v1"]
    assert "+More." in done("diff", ref)
    done("restore", ref, "--version", "v1")
    assert plain(place) == NOTE.encode()

    done("delete", ref)
    assert not place.exists()
    assert json.loads(done("trash", "list", "--json"))[0]["id"] == "auth-plan"
    done("restore", "--trash", "auth-plan")
    assert plain(place) == NOTE.encode()

    done("move", ref, "--id", "renamed")
    done("move", "renamed", "--collection", "elsewhere")
    assert plain(root / "elsewhere" / "renamed.md") == NOTE.encode()
    done("put", "-", "--id", "fresh", input="# Fresh\n")
    assert (root / store.default / "fresh.md").exists()
    assert done("collections", "--json").count('"memories": 1') == 2
    assert data("export", "out.zip")["memories"] == 2
    assert done("list", "--quiet", "--sort", "id").split() == [
        f"{store.default}/fresh".strip("/"),
        "elsewhere/renamed",
    ]
    assert not (home / ".retain").exists()
    for name, text in store.files.items():
        # A store's own list is made from its records; this one named a record that is not there.
        if "auth-plan" not in name and not name.endswith("index.md"):
            assert (home / "work" / name).read_text(encoding="utf-8") == text


def test_what_another_tool_keeps_for_itself_is_no_memory(store: Store, home: Path) -> None:
    for name in ("index", "memory-config", "indices/readme", "vector"):
        assert call("get", name).code in (2, 3)
    assert call("put", "-", "--collection", "indices", input="x").code == (
        2 if store.kind == "memories" else 0
    )


def test_store_is_reached_from_below_and_by_its_name(store: Store, home: Path) -> None:
    (home / "work" / "src").mkdir()
    os.chdir(home / "work" / "src")
    assert done("list", "--quiet") == f"{store.ref}\n"
    os.chdir(home)
    for name in (home / "work", home / "work" / store.root):
        assert done("list", "--quiet", "--bank", str(name)) == f"{store.ref}\n"


@pytest.fixture
def record(home: Path) -> Path:
    write(home / "work", {".claude/memory/decisions/use-jwt.json": RECORD})
    return home / "work" / ".claude" / "memory" / "decisions" / "use-jwt.json"


def test_record_update_keeps_all_other_values_and_their_order(record: Path) -> None:
    done("update", "use-jwt", "--status", "retired", "--tags", "auth,jwt")
    before, after = json.loads(RECORD), json.loads(record.read_bytes())
    assert [key for key in after if key in before] == list(before)
    changed = {key for key in before if after[key] != before[key]}
    assert changed <= {"record_status", "tags", "updated_at", "changes", "times_updated"}
    assert after["record_status"] == "retired"
    assert after["retired_at"]
    assert done("list", "--quiet") == ""
    assert done("list", "--quiet", "--status", "retired") == "decisions/use-jwt\n"


def test_record_is_read_and_its_content_replaced_whole(record: Path) -> None:
    seen = data("get", "use-jwt")
    assert (seen["type"], seen["status"], seen["title"]) == ("decision", "active", "Use JWT")
    assert "Decision: JWT" in done("get", "use-jwt")
    new = {"status": "superseded", "context": "x", "decision": "PASETO", "rationale": ["y"]}
    done("update", "use-jwt", "--content", "-", input=json.dumps(new))
    assert json.loads(record.read_bytes())["content"] == new
    before = record.read_bytes()
    assert call("update", "use-jwt", "--content", "-", input="just text").code == 1
    assert call("append", "use-jwt", "--content", "-", input="more").code == 1
    assert record.read_bytes() == before
    done("restore", "use-jwt", "--version", "v1")
    back = json.loads(record.read_bytes())
    assert back["content"] == json.loads(RECORD)["content"]
    assert len(back["changes"]) > len(json.loads(before)["changes"])  # a history only grows
    before = record.read_bytes()
    done("move", "use-jwt", "--id", "use-tokens")
    moved = record.with_name("use-tokens.json").read_bytes()
    assert moved.startswith(before[: before.index(b'"id"')])
    assert json.loads(moved)["content"] == json.loads(before)["content"]
    assert json.loads(moved)["changes"][-1]["summary"] == "Moved from decisions/use-jwt"


# Imports

SOURCES: dict[str, tuple[dict[str, str], str, set[str]]] = {
    "a bank": (
        {".retain/config.toml": "format = 1\n", ".retain/k/a.md": NOTE, ".retain/root.md": "x"},
        ".retain",
        {"k/a.md", "root.md"},
    ),
    "a project with a bank": (
        {".retain/config.toml": "format = 1\n", ".retain/k/a.md": NOTE, "README.md": "no"},
        ".",
        {"k/a.md"},
    ),
    "a project with .arcaneum": (
        {".arcaneum": ARCANEUM_YAML, ".arcaneum-retain/k/a.md": NOTE, "README.md": "no"},
        ".",
        {"k/a.md"},
    ),
    ".memories": (
        {".memories/a.md": NOTE, ".memories/indices/i.md": "no"},
        ".memories",
        {"memories/a.md"},
    ),
    "a project with .memories": ({".memories/a.md": NOTE, "b.md": "no"}, ".", {"memories/a.md"}),
    ".claude/memory": (
        {
            ".claude/memory/decisions/use-jwt.json": RECORD,
            ".claude/memory/index.md": INDEX,
            ".claude/memory/memory-config.json": "{}",
        },
        ".claude/memory",
        {"decisions/use-jwt.json"},
    ),
    "a project with .claude/memory": (
        {".claude/memory/decisions/use-jwt.json": RECORD, ".claude/memory/index.md": INDEX},
        ".",
        {"decisions/use-jwt.json"},
    ),
    "arcaneum's agent memory": (
        {"agent-memory/research/20251030_claude_gpu-patterns.md": AGENT_FILE},
        "agent-memory",
        {"research/20251030_claude_gpu-patterns.md"},
    ),
    "a directory of Markdown": (
        {"notes/a.md": "# A\n", "notes/b.md": NOTE, "notes/sub/c.md": "c", "notes/x.png": "no"},
        "notes",
        {"memories/a.md", "memories/b.md", "sub/c.md"},
    ),
    "one file": ({"notes/a.md": "# A\n", "notes/b.md": "# B\n"}, "notes/a.md", {"memories/a.md"}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_store_is_imported_byte_for_byte_and_twice_without_doubling(name: str, home: Path) -> None:
    files, source, expected = SOURCES[name]
    write(home / "theirs", files)
    first = data("import", str(home / "theirs" / source))
    second = data("import", str(home / "theirs" / source))
    bank = home / ".retain"
    found = {
        path.relative_to(bank).as_posix(): path.read_bytes().decode()
        for path in bank.rglob("*")
        if path.suffix in (".md", ".json") and "/." not in str(path.relative_to(home / ".retain"))
    }
    assert set(found) == expected
    assert set(found.values()) <= set(files.values())
    assert (len(first["created"]), second["created"]) == (len(expected), [])  # type: ignore[arg-type]
    assert len(second["unchanged"]) == len(expected)  # type: ignore[arg-type]


def test_import_into_another_tools_store_works_too(store: Store, home: Path) -> None:
    write(home / "theirs", {"b.md": "# B\n"})
    assert data("import", str(home / "theirs"))["created"] == ["memories/b"]
    assert done("get", "b", "--format", "raw") == "# B\n"


# R20

BANKS = sorted((ROOT / "tests" / "banks").iterdir())


@pytest.mark.parametrize("released", BANKS, ids=lambda path: path.name)
def test_bank_of_every_released_version_opens(released: Path, home: Path) -> None:
    """Dot-names are stored as `dot-name`: what a bank hides from git must be in git here."""
    bank = home / "work" / ".retain"
    shutil.copytree(released, bank)
    for path in bank.glob("dot-*"):
        path.rename(bank / path.name.replace("dot-", ".", 1))
    before = {path: path.read_bytes() for path in bank.rglob("*") if path.is_file()}

    assert done("list", "--quiet").split() == [
        "at-the-root",
        "decisions/use-postgres",
        "knowledge/gpu-patterns",
        "memories/8a3315205b76",
        "memories/grosse",
        "memories/malformed",
    ]
    memory = data("get", "gpu-patterns")
    assert memory["tags"] == ["gpu", "metal", "cuda"]
    assert memory["content"] == "# GPU Research\n\nTile to 64 threads.\n"
    assert "日本語 🌵" in done("get", "grosse")
    assert "Rationale" in done("get", "use-postgres")
    versions = json.loads(done("versions", "gpu-patterns", "--json"))
    assert [one["version"] for one in versions] == ["v2", "v1"]
    assert "32 threads" in done("get", "gpu-patterns", "--version", "v1")
    assert json.loads(done("trash", "list", "--json"))[0]["id"] == "old-idea"
    assert {path: path.read_bytes() for path in before} == before
    done("restore", "--trash", "old-idea")
    done("restore", "gpu-patterns", "--version", "v1")
