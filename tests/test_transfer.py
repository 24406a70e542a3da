"""Whole banks in and out: every byte, all or nothing (promise S18)."""

from __future__ import annotations

import errno
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from retain import transfer
from retain.app import App
from retain.bank.files import WriteTransaction
from retain.errors import Conflict, ImportRefused, NotFound, NotSaved, UsageError
from tests.conftest import Run

ODD_FILES: dict[str, bytes] = {
    "memories/plain.md": b"---\nid: plain\ntags: [a, b]  # comment\n---\n\n# Plain\n",
    "memories/crlf.md": b"---\r\ntitle: CRLF\r\n---\r\n\r\nline\r\n",
    "memories/bom.md": b"\xef\xbb\xbf---\ntitle: BOM\n---\nbody",
    "memories/no-frontmatter.md": b"just text, no newline",
    "memories/empty.md": b"",
    "memories/only-dashes.md": b"---\n",
    "memories/unclosed.md": b"---\ntitle: x\nbody without an end",
    "memories/broken.md": b"---\ntitle: [unclosed\n---\nbody\n",
    "memories/not-utf8.md": b"---\ntitle: x\n---\n\xff\xfe\x00",
    "memories/a-nul.md": b"a\x00b",
    "knowledge/Größe 日本 🌵.md": b"unicode name",
    "decisions/record.json": b'{"category": "decision", "id": "r",\r\n "content": {"x": [1]} }',
    "decisions/bad.json": b'{"category": ',
    "at-the-root.md": b"# At the root\n",
}


def memories(bank: Path) -> dict[str, bytes]:
    """Every memory file of a bank by its name."""
    return {
        path.relative_to(bank).as_posix(): path.read_bytes()
        for path in bank.rglob("*")
        if path.suffix in (".md", ".json") and not path.relative_to(bank).as_posix().startswith(".")
    }


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(directory.rglob("*"))}


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


@pytest.fixture
def app(home: Path) -> App:
    """An empty project bank that has been written to before."""
    App().init()
    app = App()
    app.put("mine", id="mine")
    return app


@pytest.fixture
def bank(home: Path, app: App) -> Path:
    return home / "work" / ".retain"


def take(app: App, source: Path, *, replace: bool = False) -> transfer.Imported:
    return app.import_bank(str(source), replace=replace, allow_secret=False)


# Out and in again


@pytest.mark.parametrize("target", ["out.zip", "out", "new/deep/out"])
def test_export_then_import_reproduces_every_byte(target: str, home: Path) -> None:
    full, empty = home / "full" / ".retain", home / "empty" / ".retain"
    for root in (full, empty):
        App(bank=str(root)).init()
    write(full, ODD_FILES)
    (home / "new" / "deep").mkdir(parents=True)
    done = App(bank=str(full), cwd=str(home)).export(target)
    assert (done.memories, done.warnings) == (len(ODD_FILES), [])
    got = App(bank=str(empty)).import_bank(done.path, replace=False, allow_secret=False)
    assert len(got.created) == len(ODD_FILES)
    assert memories(empty) == memories(full) == ODD_FILES
    again = App(bank=str(empty)).import_bank(done.path, replace=False, allow_secret=False)
    assert (again.created, len(again.unchanged)) == ([], len(ODD_FILES))


def test_import_keeps_what_differs_and_replaces_when_told(
    app: App, bank: Path, tmp_path: Path
) -> None:
    source = write(tmp_path / "source", {"mine.md": b"theirs"})
    mine = (bank / "memories" / "mine.md").read_bytes()
    assert take(app, source).kept == ["memories/mine"]
    assert (bank / "memories" / "mine.md").read_bytes() == mine
    assert take(app, source, replace=True).replaced == ["memories/mine"]
    assert (bank / "memories" / "mine.md").read_bytes() == b"theirs"
    assert app.get("mine", version="v1").data == mine


def test_export_never_overwrites_and_never_goes_into_the_bank(app: App, home: Path) -> None:
    (home / "full").mkdir()
    (home / "full" / "x").write_bytes(b"x")
    (home / "file.zip").write_bytes(b"x")
    (home / "link.zip").symlink_to(home / "nowhere")
    before = snapshot(home)
    for target in ("full", "file.zip", "link.zip"):
        with pytest.raises(Conflict):
            app.export(str(home / target))
    for target in (".retain/out", ".retain/out.zip", ".retain"):
        with pytest.raises(UsageError):
            app.export(str(home / "work" / target))
    assert snapshot(home) == before


def test_export_that_fails_half_way_leaves_nothing(
    app: App, bank: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(bank, ODD_FILES)
    real, calls = os.fsync, []

    def full_disk(fd: int) -> None:
        calls.append(fd)
        if len(calls) > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(fd)

    monkeypatch.setattr(os, "fsync", full_disk)
    for target in ("out", "out.zip"):
        with pytest.raises(NotSaved):
            app.export(str(home / target))
    assert not (home / "out.zip").exists()
    assert not list((home / "out").rglob("*"))
    assert not [name for name in os.listdir(home) if name.startswith(".out")]


def test_profiles_are_exported_and_left_behind_on_the_way_in(
    app: App, bank: Path, home: Path
) -> None:
    (bank / "USER.md").write_bytes(b"# Ada\n")
    for name in ("out.zip", "out"):
        assert app.export(str(home / name)).memories == 1
        other = App(bank=str(home / f"for-{name}"))
        other.init()
        got = App(bank=str(home / f"for-{name}")).import_bank(
            str(home / name), replace=False, allow_secret=False
        )
        assert "USER.md" in got.warnings[0]
        assert not (home / f"for-{name}" / "USER.md").exists()


# All or nothing


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def a_link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def bomb(path: Path) -> Path:
    return zipped(path, ("a.md", b"fine"), ("b.md", b"\0" * 50_000_000))


def many_bombs(path: Path) -> Path:
    return zipped(path, *((f"{n}.md", b"\0" * 1_900_000) for n in range(60)))


def liar(path: Path) -> Path:
    """An archive that states a small size for a large entry."""
    bomb(path)
    data = bytearray(path.read_bytes())
    size = struct.pack("<L", 50_000_000)
    path.write_bytes(bytes(data).replace(size, struct.pack("<L", 10)))
    return path


def encrypted(path: Path) -> Path:
    zipped(path, ("a.md", b"fine"), ("b.md", b"secret"))
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rindex(mark) + offset] |= 1
    path.write_bytes(bytes(data))
    return path


def truncated(path: Path) -> Path:
    zipped(path, ("a.md", os.urandom(5000)))
    path.write_bytes(path.read_bytes()[:2500])
    return path


def entries(*names: str | zipfile.ZipInfo) -> Callable[[Path], Path]:
    return lambda path: zipped(path, ("fine.md", b"fine"), *((name, b"x") for name in names))


BAD_ARCHIVES: dict[str, Callable[[Path], Path]] = {
    "bomb": bomb,
    "many bombs": many_bombs,
    "liar": liar,
    "encrypted": encrypted,
    "truncated": truncated,
    "parent": entries("../x.md"),
    "backslash": entries("..\\x.md"),
    "absolute": entries("/x.md"),
    "drive": entries("C:\\x.md"),
    "home": entries("~/x.md"),
    "link": entries(a_link("x.md")),
    "nested": entries("a/b/x.md"),
    "reserved": entries("con.md"),
    "control": entries("a\x1b.md"),
    "twins": entries("memories/x.md", "memories/X.md"),
    "two kinds": entries("x.md", "x.json"),
    "long": entries("x" * 300 + ".md"),
    "skills": entries("skills/x.md"),
    "nothing": lambda path: zipped(path, ("readme.txt", b"x")),
}


@pytest.mark.parametrize("name", BAD_ARCHIVES)
def test_bad_archive_is_refused_whole(name: str, app: App, bank: Path, tmp_path: Path) -> None:
    archive = BAD_ARCHIVES[name](tmp_path / "bad.zip")
    before = snapshot(tmp_path)
    with pytest.raises((ImportRefused, UsageError)):
        take(app, archive)
    assert snapshot(tmp_path) == before


def test_what_a_mac_adds_to_an_archive_is_passed_over(app: App, tmp_path: Path) -> None:
    archive = entries("__MACOSX/._fine.md", ".DS_Store", "memories/.hidden.md")(tmp_path / "m.zip")
    assert take(app, archive).created == ["fine"]


BAD_SOURCES: dict[str, Callable[[Path], object]] = {
    "too large": lambda root: write(root, {"a.md": b"fine", "b.md": b"x" * 2_000_001}),
    "link": lambda root: (write(root, {"a.md": b"fine"}) / "b.md").symlink_to("a.md"),
    "linked directory": lambda root: (write(root, {"a.md": b"fine"}) / "c").symlink_to("/etc"),
    "twins": lambda root: write(root, {"x.md": b"1", "X.md": b"2"}),
    "bad name": lambda root: write(root, {"a.md": b"fine", "b:c.md": b"x"}),
    "nothing": lambda root: write(root, {"readme.txt": b"x"}),
    "special": lambda root: os.mkfifo(write(root, {"a.md": b"fine"}) / "b.md"),
}


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_bad_directory_is_refused_whole(name: str, app: App, bank: Path, tmp_path: Path) -> None:
    BAD_SOURCES[name](tmp_path / "source")
    before = snapshot(bank)
    with pytest.raises(ImportRefused):
        take(app, tmp_path / "source")
    assert snapshot(bank) == before


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("point", range(1, 9))
def test_disk_that_fails_half_way_leaves_the_bank_as_it_was(
    point: int,
    replace: bool,
    app: App,
    bank: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {f"memories/{n}.md": b"new" for n in range(4)} | {"memories/mine.md": b"theirs"}
    source = write(tmp_path / "source", files)
    before = memories(bank)
    calls: list[str] = []
    for name in ("create", "replace"):
        real = getattr(WriteTransaction, name)

        def place(*args: object, real: Callable[..., None] = real) -> None:
            calls.append("write")
            if len(calls) == point:
                raise NotSaved("not saved: no space")
            real(*args)

        monkeypatch.setattr(WriteTransaction, name, place)
    if point > (5 if replace else 4):
        take(app, source, replace=replace)
        assert len(memories(bank)) == len(before) + 4
        return
    with pytest.raises(NotSaved):
        take(app, source, replace=replace)
    assert memories(bank) == before


def test_source_that_is_no_store_is_refused(app: App, tmp_path: Path, run: Run) -> None:
    (tmp_path / "x.bin").write_bytes(b"x")
    with pytest.raises(ImportRefused):
        take(app, tmp_path / "x.bin")
    with pytest.raises(NotFound):
        take(app, tmp_path / "nowhere")
    ran = run("import", tmp_path / "x.bin")
    assert (ran.code, ran.out) == (1, "")
    assert "Nothing was imported" in ran.err


def test_secrets_in_a_record_are_redacted_without_touching_the_rest(
    app: App, bank: Path, tmp_path: Path
) -> None:
    token = "gh" + "p_" + "aB3dE5gH7j" * 3 + "aB3dE5"
    text = f'{{"id": "r",   "title": "x",\n  "content": {{"rule": "use {token}"}},\t"n": 1.50}}\n'
    got = take(app, write(tmp_path / "source", {"r.json": text.encode()}))
    stored = (bank / "memories" / "r.json").read_text(encoding="utf-8")
    assert stored == text.replace(token, "[REDACTED:github-token]")
    assert got.warnings == ["memories/r.json: replaced github-token"]


def test_an_export_that_lost_a_file_is_refused_and_a_changed_one_is_said(
    app: App, bank: Path, tmp_path: Path
) -> None:
    app.put("one", id="one")
    app.put("two", id="two")
    app.export(str(tmp_path / "out"))
    changed = tmp_path / "out" / "memories" / "one.md"
    changed.write_bytes(changed.read_bytes() + b"more")
    other = App(bank=str(tmp_path / "other"))
    other.init()
    warnings = take(other, tmp_path / "out").warnings
    assert [one for one in warnings if "changed since it was exported: memories/one.md" in one]
    changed.unlink()
    with pytest.raises(ImportRefused, match=r"memories/one\.md is missing"):
        take(other, tmp_path / "out")


@pytest.mark.parametrize("name", ["note.md", ""])
def test_a_source_behind_a_link_is_taken_over(app: App, tmp_path: Path, name: str) -> None:
    write(tmp_path / "real", {"note.md": b"text"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert take(app, tmp_path / "link" / name).created == ["memories/note"]


def test_a_head_of_another_tool_that_is_no_yaml_keeps_its_title_and_tags(
    app: App, tmp_path: Path
) -> None:
    head = b"---\r\ntitle: GPU: a survey\r\ntags: [gpu, cuda]\r\nnote: @x\r\n---\r\n\r\nText\r\n"
    files = {"gpu.md": head, "bad.md": b"---\ntags: [unclosed\n  - x: [\n---\nText\n"}
    done = take(app, write(tmp_path / "arc", files))
    memory = app.get("gpu")
    assert (memory.title, memory.tags, memory.problem) == ("GPU: a survey", ("gpu", "cuda"), "")
    assert memory.data == head.replace(b"GPU: a survey", b'"GPU: a survey"').replace(b"@x", b'"@x"')
    warnings = sorted(done.warnings)
    assert warnings[0].startswith("memories/bad.md: its title, tags and other fields are not")
    assert warnings[1:] == ["memories/gpu.md: its frontmatter was no YAML, and values were quoted"]
    assert take(app, tmp_path / "arc").created == []
