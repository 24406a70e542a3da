"""The index's file: private, with every setting in force, and never anybody else's."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from retain import notice
from retain.app import App
from retain.drafts import Draft
from retain.errors import Busy, NewerFormat, RetainError
from retain.index import schema, store
from retain.index.store import PRAGMAS, Store
from tests import crash, indexes
from tests.e2e.test_disk import _tmpfs
from tests.test_notice import mount_table

LANTERN = "harbour lantern"
ASIDE = ".damaged-"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = indexes.new(tmp_path / "bank")
    indexes.many(root, 8)
    return root


def _settings(connection: sqlite3.Connection) -> dict[str, object]:
    names = [name for name, _ in PRAGMAS] + ["journal_mode", "application_id", "user_version"]
    return {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names}


def _folder(root: Path) -> list[str]:
    return sorted(path.name for path in (root / ".index").iterdir())


AT_REST = [".gitignore", "index.db", "index.lock", "index.seal"]


# Settings


def _opened(root: Path) -> Store:
    return Store(str(root))


def _opened_again(root: Path) -> Store:
    indexes.build(root)
    return Store(str(root))


def _built_anew(root: Path) -> Store:
    indexes.build(root)
    indexes.database(root).write_bytes(b"not a database at all")
    return Store(str(root))


def _set_aside(root: Path) -> Store:
    held = Store(str(root))
    with held.reading():
        pass
    held.set_aside("for the test")
    return held


def _deleted_meanwhile(root: Path) -> Store:
    held = Store(str(root))
    with held.reading():
        pass
    shutil.rmtree(root / ".index")
    return held


@pytest.mark.parametrize(
    "make", [_opened, _opened_again, _built_anew, _set_aside, _deleted_meanwhile]
)
def test_every_connection_has_every_setting(root: Path, make: Callable[[Path], Store]) -> None:
    held = make(root)
    for transaction in (held.reading, held.writing):
        with transaction() as connection:
            found = _settings(connection)
        assert found == {
            **dict(PRAGMAS),
            "journal_mode": "wal",
            "application_id": schema.APPLICATION,
            "user_version": schema.LATEST,
        }
    held.close()
    assert _folder(root) == AT_REST


def test_the_settings_are_the_ones_that_keep_promises() -> None:
    found = dict(PRAGMAS)
    assert found["busy_timeout"] >= 5_000
    assert found["secure_delete"] == 1
    assert found["trusted_schema"] == 0
    assert found["synchronous"] >= 1


def test_a_setting_that_does_not_take_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PRAGMAS", (*PRAGMAS, ("max_page_count", 0)))
    held = Store(str(root))
    with pytest.raises(RetainError, match=r"max_page_count is \d+, not 0"), held.reading():
        pass


# Network file systems


@pytest.fixture
def network(home: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice, "_MOUNTS", mount_table(home, root, "nfs4"))


@pytest.mark.usefixtures("network")
def test_on_a_network_the_journal_is_safe_and_the_answer_says_so(root: Path) -> None:
    for _ in range(2):
        with indexes.opened(root) as bank:
            answer = indexes.ask(bank, LANTERN)
            assert len(answer.hits) == 8
            assert answer.degraded.reasons == (
                "the bank is on a network file system: the index uses a safe journal",
            )
            with bank.store.writing() as connection:
                assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
                assert _settings(connection).items() >= dict(PRAGMAS).items()
            assert not set(_folder(root)) & {"index.db-wal", "index.db-shm"}


def test_an_index_in_wal_that_is_moved_to_a_network_loses_its_log(
    home: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = indexes.Letters()
    indexes.build(root, letters)
    made = len(letters.texts)
    monkeypatch.setattr(notice, "_MOUNTS", mount_table(home, root, "cifs"))
    with indexes.opened(root, letters) as bank:
        assert len(indexes.ask(bank, LANTERN).hits) == 8
        assert indexes.value(bank, "PRAGMA journal_mode") == "delete"
    assert len(letters.texts) == made


# Private


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277, 0o777])
def test_files_are_private_whatever_the_umask(root: Path, umask: int) -> None:
    def work() -> object:
        os.umask(umask)
        with indexes.opened(root) as bank:
            indexes.ask(bank, LANTERN)
            return _modes(root)

    during = crash.in_child(work).value
    assert during.pop(".") == 0o700
    assert {"index.db", "index.db-wal", "index.db-shm", "index.lock"} <= set(during)
    assert set(during.values()) == {0o600}
    assert set(_modes(root).values()) == {0o600, 0o700}
    assert _folder(root) == AT_REST


def _modes(root: Path) -> dict[str, int]:
    folder = root / ".index"
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode)
        for path in (folder, *folder.iterdir())
    }


# Links and strangers in its place


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_bytes(b"precious")
    return path


@pytest.mark.parametrize(
    "name",
    ["index.db", "index.db-wal", "index.db-shm", "index.db-journal", "index.lock", "index.seal"],
)
@pytest.mark.parametrize("is_built", [False, True])
def test_a_link_in_a_files_place_is_never_followed(
    root: Path, victim: Path, name: str, is_built: bool
) -> None:
    (root / ".index").mkdir()
    if is_built:
        indexes.build(root)
        (root / ".index" / name).unlink(missing_ok=True)
    (root / ".index" / name).symlink_to(victim)
    for _ in range(2):
        with indexes.opened(root) as bank:
            assert len(indexes.ids(bank, LANTERN)) == 8
        assert (victim.read_bytes(), victim.stat().st_mode & 0o777) == (b"precious", 0o644)
    assert not [one for one in _folder(root) if ASIDE in one]


def test_a_linked_index_of_another_bank_is_not_shared(root: Path, tmp_path: Path) -> None:
    other = indexes.new(tmp_path / "other")
    indexes.write(other, "notes/secret", "the secret harbour of another bank")
    indexes.build(other)
    before = indexes.database(other).read_bytes()
    (root / ".index").mkdir()
    indexes.database(root).symlink_to(indexes.database(other))
    with indexes.opened(root) as bank:
        assert "secret" not in indexes.ids(bank, "secret harbour")
        indexes.agrees(bank)
    assert indexes.database(other).read_bytes() == before


def test_a_linked_folder_is_refused_and_nothing_is_made_in_it(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / ".index").symlink_to(elsewhere)
    with indexes.opened(root) as bank, pytest.raises(RetainError, match="does not follow it"):
        indexes.ids(bank, LANTERN)
    assert list(elsewhere.iterdir()) == []


def test_a_directory_in_the_files_place_is_put_aside_with_what_it_holds(root: Path) -> None:
    indexes.database(root).mkdir(parents=True)
    (indexes.database(root) / "kept").write_bytes(b"kept")
    with indexes.opened(root) as bank:
        assert len(indexes.ids(bank, LANTERN)) == 8
    (aside,) = (root / ".index").glob(f"*{ASIDE}*")
    assert (aside / "kept").read_bytes() == b"kept"


def test_a_pipe_in_the_files_place_keeps_nobody_waiting(root: Path) -> None:
    (root / ".index").mkdir()
    os.mkfifo(indexes.database(root))
    with indexes.opened(root) as bank:
        assert len(indexes.ids(bank, LANTERN)) == 8
    assert _folder(root) == AT_REST


def test_somebody_elses_database_is_replaced_and_not_read(root: Path) -> None:
    (root / ".index").mkdir()
    with indexes.plain(root) as connection:
        connection.execute("CREATE TABLE chunks (text)")
        connection.execute("INSERT INTO chunks VALUES ('strange harbour')")
    with indexes.opened(root) as bank:
        assert len(indexes.ids(bank, LANTERN)) == 8
        assert bank.store.notes == ["the index was built anew: it was changed from outside"]
        indexes.agrees(bank)
    assert _folder(root) == AT_REST


def test_a_copied_bank_keeps_its_vectors_and_has_an_index_of_its_own(
    root: Path, tmp_path: Path
) -> None:
    indexes.build(root, indexes.Letters())
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    indexes.write(copy, "notes/m000", "quite another text")
    letters = indexes.Letters()
    with indexes.opened(copy, letters) as bank:
        assert indexes.ids(bank, "quite another text", "hybrid")[0] == "m000"
        indexes.agrees(bank)
    assert letters.texts == ["quite another text"]


# Schemas


NEXT = ("a table more", "CREATE TABLE more (x); INSERT INTO more VALUES (1)")


@pytest.fixture
def newer(root: Path) -> Path:
    """An index that a Retain of the future made, with a schema of one migration more."""

    def future() -> None:
        with (
            mock.patch.object(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT)),
            mock.patch.object(schema, "LATEST", schema.LATEST + 1),
        ):
            indexes.build(root)

    assert not crash.in_child(future).message
    return root


def test_a_newer_schema_is_refused_in_one_line_and_left_untouched(newer: Path) -> None:
    before = crash.files(newer), indexes.database(newer).stat()
    for _ in range(3):
        with indexes.opened(newer) as bank:
            with pytest.raises(NewerFormat, match="newer Retain and is left untouched") as caught:
                indexes.ids(bank, LANTERN)
            assert "\n" not in caught.value.message
    assert (crash.files(newer), indexes.database(newer).stat()) == before


def test_a_newer_schema_with_another_seal_is_left_untouched_too(newer: Path) -> None:
    (newer / ".index" / "index.seal").write_text("sealed in another way", encoding="ascii")
    before = crash.files(newer)
    with indexes.opened(newer) as bank, pytest.raises(NewerFormat):
        indexes.ids(bank, LANTERN)
    assert crash.files(newer) == before


def test_a_newer_schema_whose_user_was_killed_is_refused_again_and_again(root: Path) -> None:
    indexes.build(root)

    def future() -> None:
        bank = indexes.indexed(root)
        with bank.store.writing() as connection:
            connection.execute("CREATE TABLE more (x)")
            connection.execute(f"PRAGMA user_version = {schema.LATEST + 1}")
        os.kill(os.getpid(), 9)

    assert crash.in_child(future).signal == 9
    for _ in range(3):
        with indexes.opened(root) as bank, pytest.raises(NewerFormat):
            indexes.ids(bank, LANTERN)
    with indexes.plain(root) as connection:
        assert connection.execute("SELECT count(*) FROM more").fetchone() == (0,)


def test_writing_a_memory_beside_a_newer_index_works_and_says_so(newer: Path) -> None:
    app = crash.open_bank(newer)
    before = indexes.database(newer).read_bytes()
    written = app.put(Draft(text="stored all the same"), name="stored")
    assert written.status == "created"
    assert [note for note in written.warnings if "newer Retain" in note]
    assert indexes.database(newer).read_bytes() == before


def test_every_migration_leads_from_the_first_schema_to_the_latest(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = indexes.Letters()
    with monkeypatch.context() as earlier:
        earlier.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        earlier.setattr(schema, "LATEST", 1)
        indexes.build(root, letters)
    made, first = len(letters.texts), indexes.database(root).stat().st_ino
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT))
    monkeypatch.setattr(schema, "LATEST", len(schema.MIGRATIONS))
    works = [lambda: _migrated(root)] * 4
    outcomes = crash.together(works)
    assert [outcome.value for outcome in outcomes] == [(schema.LATEST, 1, 8)] * 4, outcomes
    assert indexes.database(root).stat().st_ino == first
    with indexes.opened(root, letters) as bank:
        indexes.agrees(bank)
        assert bank.store.notes == []
    assert len(letters.texts) == made


def test_an_index_from_before_headings_were_known_is_filled_anew_with_its_own_vectors(
    root: Path,
) -> None:
    letters = indexes.Letters()
    indexes.build(root, letters)
    made = len(letters.texts)
    with indexes.opened(root) as bank, bank.store.writing() as connection:
        connection.execute("ALTER TABLE chunks DROP COLUMN is_heading")
        connection.execute("DROP TABLE delivered")
        connection.execute("PRAGMA user_version = 1")
    with indexes.opened(root, letters) as bank:
        assert len(indexes.ids(bank, LANTERN)) == 8
        indexes.fill(bank)
        indexes.agrees(bank)
        assert bank.store.notes == []
    assert len(letters.texts) == made


def _migrated(root: Path) -> tuple[int, int, int]:
    with indexes.opened(root) as bank:
        found = len(indexes.ids(bank, LANTERN))
        rows = int(indexes.value(bank, "SELECT count(*) FROM more"))
        return bank.look(schema.version), rows, found


def test_a_migration_that_is_killed_is_wholly_undone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes.build(root)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, NEXT))
    monkeypatch.setattr(schema, "LATEST", len(schema.MIGRATIONS))

    def doomed() -> None:
        connection = sqlite3.connect(indexes.database(root), isolation_level=None)
        connection.set_trace_callback(_kill_at("INSERT INTO more"))
        schema.migrate(connection)

    assert crash.in_child(doomed).signal == 9
    assert _migrated(root) == (schema.LATEST, 1, 8)


def _kill_at(statement: str) -> Callable[[str], None]:
    def look(seen: str) -> None:
        if statement in seen:
            os.kill(os.getpid(), 9)

    return look


# Disks that refuse


def test_a_read_only_bank_is_searched_by_an_index_in_memory(tmp_path: Path) -> None:
    disk = _tmpfs(tmp_path / "disk", "8m")
    try:
        root = indexes.new(disk / "bank")
        indexes.many(root, 8)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = crash.files(root)
        with indexes.opened(root, indexes.Letters(), stays=True) as bank:
            answer = indexes.ask(bank, LANTERN)
            assert len(answer.hits) == 8
            (reason,) = answer.degraded.reasons
            assert reason.startswith(f"the index is kept in memory only: {root}/.index: ")
            assert indexes.ids(bank, indexes.word(3)) == ["m003"]
            indexes.agrees(bank)
            bank.store.set_aside("it was asked for")
            assert len(indexes.ids(bank, LANTERN)) == 8
        assert crash.files(root) == before
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_read_only_bank_with_an_index_sees_what_changed_before(tmp_path: Path) -> None:
    disk = _tmpfs(tmp_path / "disk", "8m")
    try:
        root = indexes.new(disk / "bank")
        indexes.many(root, 8)
        indexes.build(root)
        indexes.write(root, "notes/m000", "changed before the disk was locked")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = crash.files(root)
        with indexes.opened(root) as bank:
            assert indexes.ids(bank, "disk locked") == ["m000"]
        app = App(bank=str(root), cwd=str(root), env={"RETAIN_RECALL_EMBEDDER": "none"})
        assert app.library.facts().memories == 8
        assert app.library.rebuild().added == 8
        app.close()
        assert crash.files(root) == before
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_still_answers(tmp_path: Path) -> None:
    disk = _tmpfs(tmp_path / "disk", "100k")
    try:
        root = indexes.new(disk / "bank")
        indexes.many(root, 8)
        with indexes.opened(root) as bank:
            assert len(indexes.ids(bank, LANTERN)) == 8
            assert "memory only" in " ".join(bank.store.notes)
            subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
            bank.store.close()
            answer = indexes.ask(bank, LANTERN, "text")
            assert (len(answer.hits), answer.degraded.reasons) == (8, ())
            assert "memory only" not in " ".join(bank.store.notes)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


# Deleted, busy


def test_deleting_the_index_under_an_open_process_harms_nobody(root: Path) -> None:
    letters = indexes.Letters()
    with indexes.opened(root, letters, stays=True) as bank, indexes.opened(root) as other:
        for delete in (_rmtree, _unlink, _unlink_all):
            assert len(indexes.ids(bank, LANTERN)) == len(indexes.ids(other, LANTERN)) == 8
            delete(root)
            assert indexes.ids(bank, indexes.word(5), "hybrid")[0] == "m005"
            indexes.agrees(other)
            indexes.agrees(bank)
    assert _folder(root) == AT_REST


def _rmtree(root: Path) -> None:
    shutil.rmtree(root / ".index")


def _unlink(root: Path) -> None:
    indexes.database(root).unlink()


def _unlink_all(root: Path) -> None:
    for path in (root / ".index").iterdir():
        path.unlink()


def test_a_busy_index_is_said_to_be_busy_and_left_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes.build(root)
    monkeypatch.setattr(store, "WAIT_SECONDS", 0.05)
    short = tuple((name, 50 if name == "busy_timeout" else value) for name, value in PRAGMAS)
    monkeypatch.setattr(store, "PRAGMAS", short)
    first = indexes.database(root).stat().st_ino
    with indexes.plain(root) as holder, indexes.opened(root, stays=True) as bank:
        assert len(indexes.ids(bank, LANTERN)) == 8
        holder.execute("BEGIN IMMEDIATE")
        indexes.write(root, "notes/m000", "an albatross came by")
        with pytest.raises(Busy, match=r"has held the index .* for 0.05 seconds"):
            indexes.ids(bank, "albatross")
        holder.execute("ROLLBACK")
        assert indexes.ids(bank, "albatross") == ["m000"]
        assert bank.store.notes == []
    assert indexes.database(root).stat().st_ino == first
