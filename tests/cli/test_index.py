"""stats, sync, index, watch and doctor: the index is derived, always right, and made anew."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from retain.index.database import Database
from tests import indexes
from tests.cli.door import call, done
from tests.conftest import command


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")
    put("plan", "# Plan\n\nWe plan [[src/a.py]].\n", "--type", "plan", "--tags", "auth,ui")
    put("note", "# Note\n\n" + "\n\n".join(f"## Part {n}\n\n{'word ' * 150}" for n in range(4)))
    return home / "work" / ".retain"


def put(name: str, text: str, *words: str) -> None:
    done("put", "-", "--id", name, "--quiet", *words, input=text)


def many(bank: Path, count: int) -> list[Path]:
    files = [bank / "memories" / f"many-{n}.md" for n in range(count)]
    for n, file in enumerate(files):
        file.write_text(f"Memory number{n} of many.\n", encoding="utf-8")
    return files


# sync


def test_loss_of_most_memories_at_once_is_held_until_it_is_meant(bank: Path) -> None:
    files = many(bank, 30)
    done("sync")
    for file in files[:25]:
        file.unlink()
    ran = call("sync")
    assert ran.code == 0
    assert "25 memories are missing from disk at once" in ran.err
    assert "retain sync --force" in ran.err
    assert call("status").err.startswith("warning: 25 memories are missing")
    assert json.loads(done("status --json"))["index"]["held"] == 25
    assert call("doctor").code == 1
    assert call("index --rebuild").code == 4
    assert json.loads(done("sync --json"))["held"] == 25
    assert json.loads(done("sync --force --json"))["removed"] == 25
    assert call("sync").err == ""
    assert call("doctor").code == 0


# index


def test_rebuilt_index_answers_as_before_and_keeps_its_vectors(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
    later = json.loads(done("index --no-vectors --json"))
    assert (later["vectors"], later["pending"]) == (0, later["chunks"])
    assert "to be made (in the background, or now: retain index)" in done("status")
    first = json.loads(done("index --json"))
    assert first["vectors_made"] == first["vectors"] == first["chunks"] > 2
    assert first["pending"] == 0
    before = done("search", "plan words", "--json")
    files = {path: path.read_bytes() for path in (bank / "memories").iterdir()}
    again = json.loads(done("index --rebuild --json"))
    assert (again["added"], again["vectors_made"]) == (2, 0)
    assert again["vectors"] == first["vectors"]
    assert done("search", "plan words", "--json") == before
    assert {path: path.read_bytes() for path in (bank / "memories").iterdir()} == files


# watch


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_watch_takes_in_every_change_and_ends_politely(end: signal.Signals, bank: Path) -> None:
    with subprocess.Popen(
        [*command(), "watch", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as child:
        assert child.stdout
        assert child.stderr
        try:
            assert child.stderr.readline().startswith("Watching ")
            file = bank / "fresh" / "new.md"
            file.parent.mkdir()
            for text, change in (("A zebra.", "added"), ("A walrus.", "changed"), ("", "removed")):
                file.write_text(text, encoding="utf-8") if text else file.unlink()
                told = json.loads(child.stdout.readline())
                counts = {name: told[name] for name in ("added", "changed", "removed")}
                assert counts == {"added": 0, "changed": 0, "removed": 0, change: 1}
            assert set(told) == {"time", "added", "changed", "removed", "vectors", "held"}
            child.send_signal(end)
            assert (*child.communicate(timeout=30), child.returncode) == ("", "", 0)
        finally:
            child.kill()
    assert json.loads(done("sync --json"))["added"] == 0
    assert call("doctor").code == 0


# doctor


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE totals SET chunks = chunks + 1",
        "UPDATE totals SET length = 0",
        "UPDATE totals SET wholes = 9",
        "DELETE FROM terms WHERE rowid = 1",
        "DELETE FROM wholes",
        "DELETE FROM chunks WHERE number = 1",
        "DELETE FROM pending WHERE chunk = 1",
        "INSERT INTO pending VALUES (999)",
        "INSERT INTO vectors VALUES (1, 1, 'other', 0, x'00', x'00')",
        "DELETE FROM links",
        "UPDATE chunks SET text = 'forged' WHERE number = 1",
        "UPDATE terms SET bag = 'forged' WHERE rowid = 1",
        "UPDATE memories SET title = 'forged'",
        "UPDATE terms_content SET c0 = 'forged' WHERE id = 1",
    ],
)
def test_faulty_index_is_found_out_and_repaired(damage: str, bank: Path) -> None:
    done("sync")
    store = Database(str(indexes.state(bank)))
    with store.writing() as connection:
        connection.execute("PRAGMA defensive = 0")
        connection.execute(damage)
    store.close()  # sealed, so that nothing but the doctor notices
    ran = call("doctor")
    assert ran.code == 1
    assert " faults\n  " in ran.out
    assert "retain doctor --repair" in ran.err
    files = {path: path.read_bytes() for path in (bank / "memories").iterdir()}
    repaired = done("doctor --repair")
    assert "rebuilt, and now in order" in repaired
    assert done("doctor").rstrip().endswith("in order")
    assert {path: path.read_bytes() for path in (bank / "memories").iterdir()} == files


def test_spoilt_vector_is_found_by_its_check_sum(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "bundled")
    done("index")
    store = Database(str(indexes.state(bank)))
    with store.writing() as connection:
        connection.execute("UPDATE vectors SET vector = zeroblob(388) WHERE chunk = 1")
    store.close()
    assert "check sum" in call("doctor").out
    done("doctor --repair")
    told = json.loads(done("index --json"))
    assert told["vectors"] == told["chunks"]


def test_file_that_cannot_be_parsed_makes_the_doctor_unhappy(bank: Path) -> None:
    (bank / "memories" / "bad.md").write_text("---\na: [\n---\nbody\n", encoding="utf-8")
    ran = call("doctor --repair")
    assert ran.code == 1
    assert "memories/bad.md: the frontmatter is not valid YAML" in ran.out


def test_doctor_names_links_that_lead_to_no_memory(bank: Path) -> None:
    put("loose", "See [[nowhere]] and [[plan]].")
    ran = call("doctor")
    assert ran.code == 1
    assert "Links: 1 to no memory\n  memories/loose: [[nowhere]]\n" in ran.out
