"""Linked files: fresh, changed, moved, gone or planned, and never a look outside the project."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from retain.bank import git
from retain.index import freshness
from retain.index.freshness import Freshness, Project
from tests.bank.test_git import make_hostile, new_project, run_git

pytestmark = pytest.mark.slow

# The order of things: the project begins, a memory is written, and later something happens.
BEGIN = 1_700_000_000
WRITTEN = BEGIN + 1000
LATER = WRITTEN + 1000

CODE = b"".join(b"def function_%d() -> None: ...\n" % number for number in range(30))


@pytest.fixture
def plain(home: Path) -> Path:
    """A project without git that holds src/auth.py."""
    plain = home / "work" / "plain"
    write(plain / "src" / "auth.py", CODE)
    return plain


@pytest.fixture
def project(home: Path) -> Path:
    """A repository that holds src/auth.py, with dates as a clone leaves them: all of them late."""
    project = new_project(home / "work" / "project")
    write(project / "src" / "auth.py", CODE)
    commit(project, BEGIN)
    age(project, LATER + 500)
    return project


@pytest.fixture
def canary(home: Path) -> Path:
    return home / "canary"


@pytest.fixture
def trap(home: Path, canary: Path) -> str:
    script = home / "trap.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $@" >> {canary}\nexit 0\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The git commands that were started."""
    asked: list[str] = []
    real = git.run

    def run(arguments: tuple[str, ...], *rest: object) -> git.Answer:
        asked.append(arguments[0])
        return real(arguments, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(git, "run", run)
    return asked


def write(path: Path, content: bytes, when: float = BEGIN) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (when, when))
    return path


def age(root: Path, when: float) -> None:
    for path in (path for path in root.rglob("*") if ".git" not in path.parts and path.is_file()):
        os.utime(path, (when, when))


def commit(project: Path, when: int) -> None:
    """Commit all there is, at a moment of one's choice."""
    run_git(project, "add", "-A")
    date = {"GIT_AUTHOR_DATE": f"@{when} +0000", "GIT_COMMITTER_DATE": f"@{when} +0000"}
    subprocess.run(
        ["git", "commit", "-q", "--allow-empty", "-m", "m"],
        cwd=project,
        env={**os.environ, **date},
        check=True,
    )


def state(root: Path, target: str = "src/auth.py", *, seen: str = "") -> str:
    return Project(str(root)).check(target, WRITTEN, seen).state


# Without git


def test_a_file_is_fresh_unless_it_is_younger_than_the_memory(plain: Path) -> None:
    assert Project(str(plain)).check("src/auth.py", WRITTEN) == Freshness("fresh")
    write(plain / "src" / "auth.py", CODE, LATER)
    assert Project(str(plain)).check("src/auth.py", WRITTEN) == Freshness("changed")


def test_a_whole_second_stands_for_any_moment_in_it(plain: Path) -> None:
    write(plain / "src" / "auth.py", CODE, WRITTEN + 0.9)
    assert state(plain) == "fresh"
    assert Project(str(plain)).check("src/auth.py", WRITTEN + 0.5).state == "changed"
    write(plain / "src" / "auth.py", CODE, WRITTEN + 1.0)
    assert state(plain) == "changed"


def test_with_a_fingerprint_content_alone_decides(plain: Path) -> None:
    seen = Project(str(plain)).fingerprint("src/auth.py")
    os.utime(plain / "src" / "auth.py", (LATER, LATER))
    assert state(plain, seen=seen) == "fresh"
    write(plain / "src" / "auth.py", CODE + b"more", BEGIN)
    assert state(plain) == "fresh"
    assert state(plain, "src", seen=seen) == "changed"
    found = Project(str(plain)).check("src/auth.py", WRITTEN, seen)
    assert found == Freshness("changed")


def test_a_file_that_went_is_gone(plain: Path) -> None:
    seen = Project(str(plain)).fingerprint("src/auth.py")
    (plain / "src" / "auth.py").unlink()
    found = Project(str(plain)).check("src/auth.py", WRITTEN, seen)
    assert found == Freshness("gone")
    (plain / "src").rmdir()
    assert state(plain, seen=seen) == "gone"


def test_a_file_that_never_was_is_planned_and_not_gone(plain: Path, project: Path) -> None:
    for root in (plain, project):
        found = Project(str(root)).check("src/new.py", WRITTEN)
        assert found == Freshness("planned")
        for target in ("lib/", "src/lib", "src/lib/", "lib/new.py:42"):
            assert state(root, target) == "planned", target
    run_git(project, "rm", "-q", "src/auth.py")
    assert state(project) == "gone"
    commit(project, LATER)
    assert state(project) == "gone"
    assert state(project, "src/") == "gone"
    assert state(project, "src/new.py") == "planned"


def test_what_has_no_hash_was_there_all_the_same(plain: Path) -> None:
    with (plain / "src" / "big.bin").open("wb") as file:
        file.truncate(freshness.LARGEST_FILE + 1)
    write(plain / "src" / "later.py", b"x", LATER)
    one = Project(str(plain))
    targets = ("src", "src/big.bin", "src/later.py")
    seen = {target: one.fingerprint_at(target, WRITTEN) for target in targets}
    os.utime(plain / "src" / "big.bin", (BEGIN, BEGIN))
    assert state(plain, "src", seen=seen["src"]) == "fresh"
    assert state(plain, "src/big.bin", seen=seen["src/big.bin"]) == "fresh"
    shutil.rmtree(plain / "src")
    assert {state(plain, target, seen=seen[target]) for target in targets} == {"gone"}


@pytest.mark.parametrize("suffix", ["#L10-L20", "#login", "#", ":42", ":42:7", ":1,5"])
def test_a_place_in_a_file_is_not_part_of_its_path(plain: Path, suffix: str) -> None:
    target = f"src/auth.py{suffix}"
    assert Project(str(plain)).check(target, WRITTEN) == Freshness("fresh")
    seen = Project(str(plain)).fingerprint(target)
    assert len(seen) == 20
    (plain / "src" / "auth.py").unlink()
    assert state(plain, target, seen=seen) == "gone"
    write(plain / target, CODE, LATER)
    assert state(plain, target) == "changed"


@pytest.mark.parametrize("name", ["--output=x.py", "ä b.py", "new\nline.py"])
def test_strange_names_are_files_like_others(plain: Path, project: Path, name: str) -> None:
    write(plain / name, CODE)
    assert state(plain, name) == "fresh"
    write(project / name, CODE, LATER)
    assert state(project, name) == "changed"
    commit(project, BEGIN)
    assert state(project, name) == "fresh"
    write(project / name, CODE + b"more", LATER)
    commit(project, LATER)
    assert state(project, name) == "changed"
    (project / name).unlink()
    commit(project, LATER)
    assert state(project, name) == "gone"


@pytest.mark.parametrize(
    "target",
    [
        "Some Idea", "auth-flow", "Node.js", "TCP/IP", "and/or", "https://example.org/a.py", "",
        ".", "./", "mailto:someone/x.py", "C:/src/auth.py", "knowledge", "a" * 300, "a/" * 3000,
    ],
)  # fmt: skip
def test_what_was_never_meant_as_a_file_is_unknown(plain: Path, project: Path, target: str) -> None:
    for root in (plain, project):
        assert Project(str(root)).check(target, WRITTEN) == Freshness("")
        assert Project(str(root)).fingerprint(target) == ""


# Never outside, and nothing but plain files


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd", "../secret.py", "src/../../secret.py", "src/../src/auth.py", "~/secret.py",
        "~root/x.py", "src//auth.py", "//etc/passwd", ".git/config", "src/.GIT/config",
        "src/auth.py\0", "\0", "\ud800.py", "out/secret.py", "out.py", "src/out.py", "loop/x.py",
        "loop", "file:///etc/passwd",
    ],
)  # fmt: skip
def test_nothing_outside_the_project_is_looked_at(plain: Path, target: str) -> None:
    secret = write(plain.parent / "secret.py", b"secret", LATER)
    (plain / "out").symlink_to("..")
    (plain / "out.py").symlink_to(secret)
    (plain / "src" / "out.py").symlink_to("../../secret.py")
    (plain / "loop").symlink_to("loop")
    write(plain / ".git" / "config", b"")
    assert Project(str(plain)).check(target, WRITTEN) == Freshness("")
    assert Project(str(plain)).check(target, WRITTEN, "0" * 20) == Freshness("")
    assert Project(str(plain)).fingerprint(target) == ""


def test_a_link_within_the_project_leads_to_its_file(plain: Path, project: Path) -> None:
    for root in (plain, project):
        (root / "CLAUDE.md").symlink_to("AGENTS.md")
        (root / "code").symlink_to(root / "src")
        assert state(root, "CLAUDE.md") == ""
        write(root / "AGENTS.md", b"agents")
        assert state(root, "CLAUDE.md") == "fresh"
        whole = Project(str(root))
        assert whole.fingerprint("code/auth.py") == whole.fingerprint("src/auth.py")
        assert whole.check("code/auth.py", WRITTEN).state == "fresh"
        write(root / "AGENTS.md", b"changed", LATER)
        assert state(root, "CLAUDE.md") == "changed"


def test_devices_pipes_and_sockets_are_not_opened(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(plain / "pipe.py")
    monkeypatch.chdir(plain)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.py")
        for name in ("pipe.py", "socket.py"):
            assert state(plain, name, seen="0" * 20) == ""
            assert Project(str(plain)).fingerprint(name) == freshness.THERE


# With git


def test_a_change_taken_back_is_no_change(project: Path) -> None:
    write(project / "src" / "auth.py", CODE + b"more", LATER)
    commit(project, LATER)
    write(project / "src" / "auth.py", CODE, LATER + 10)
    assert state(project) == "fresh"
    commit(project, LATER + 10)
    assert state(project) == "fresh"


def test_line_ends_that_git_converts_are_no_change(project: Path) -> None:
    run_git(project, "config", "core.autocrlf", "true")
    (project / "src" / "auth.py").unlink()
    run_git(project, "checkout", "-q", "--", "src/auth.py")
    assert b"\r\n" in (project / "src" / "auth.py").read_bytes()
    seen = Project(str(project)).fingerprint_at("src/auth.py", WRITTEN)
    assert state(project, seen=seen) == "fresh"
    assert state(project) == "fresh"


def test_a_project_within_a_repository_sees_its_own_part(home: Path) -> None:
    whole = new_project(home / "work" / "whole")
    write(whole / "-part" / "src" / "auth.py", CODE)
    write(whole / "src" / "auth.py", b"another")
    commit(whole, BEGIN)
    age(whole, LATER + 500)
    part = whole / "-part"
    assert state(part) == "fresh"
    write(whole / "src" / "auth.py", b"changed", LATER)
    commit(whole, LATER)
    assert state(part) == "fresh"
    run_git(part, "mv", "src/auth.py", "login.py")
    commit(whole, LATER)
    found = Project(str(part)).check("src/auth.py", WRITTEN)
    assert found == Freshness("moved", "login.py")
    run_git(whole, "mv", "./-part/login.py", "login.py")
    commit(whole, LATER)
    assert state(part) == "gone"


def test_in_a_clone_that_lacks_a_part_nobody_can_tell(
    project: Path, home: Path, trap: str, canary: Path
) -> None:
    write(project / "docs" / "a.md", b"a")
    commit(project, BEGIN)
    run_git(project, "mv", "src/auth.py", "c.py")
    write(project / "c.py", CODE + b"more")
    commit(project, LATER)
    run_git(project, "config", "uploadpack.allowFilter", "true")
    for name, how in {"shallow": "--depth=1", "partial": "--filter=blob:none"}.items():
        clone = home / "work" / name
        run_git(home, "clone", "-q", how, f"file://{project}", str(clone))
        run_git(clone, "config", "remote.origin.uploadpack", trap)
        run_git(clone, "config", "remote.origin.url", f"ext::{trap} %S")
        run_git(clone, "config", "protocol.allow", "always")
        assert {state(clone, target) for target in ("src/auth.py", "c.py", "no/file.py")} == {""}
    run_git(project, "sparse-checkout", "set", "--no-cone", "docs/*")
    assert not (project / "c.py").exists()
    assert (state(project, "c.py"), state(project, "docs/a.md")) == ("", "fresh")
    assert not canary.exists(), canary.read_text(encoding="utf-8")


def test_the_fingerprint_of_that_time_comes_from_git_and_spares_it_later(
    project: Path, asked: list[str]
) -> None:
    then = Project(str(project)).fingerprint("src/auth.py")
    write(project / "src" / "auth.py", CODE + b"more", LATER)
    write(project / "new.py", CODE, LATER)
    assert Project(str(project)).fingerprint_at("src/auth.py#L1", WRITTEN) == then
    assert Project(str(project)).fingerprint_at("new.py", WRITTEN) == freshness.THERE
    commit(project, LATER)
    now = Project(str(project)).fingerprint("src/auth.py")
    whole = Project(str(project))
    assert whole.fingerprint_at("src/auth.py", WRITTEN) == then
    assert whole.fingerprint_at("src/auth.py", LATER) == now
    assert whole.fingerprint_at("new.py", WRITTEN) == then
    assert whole.fingerprint_at("src", WRITTEN) == freshness.THERE
    assert whole.fingerprint_at("../x.py", WRITTEN) == ""
    asked.clear()
    assert state(project, seen=then) == "changed"
    assert state(project, seen=now) == "fresh"
    assert asked == []


# Moved


def test_a_chain_of_renames_is_followed_to_its_end(project: Path) -> None:
    for number, (old, new) in enumerate(
        [("src/auth.py", "b.py"), ("b.py", "c.py"), ("c.py", "d.py")]
    ):
        run_git(project, "mv", old, new)
        write(project / new, (project / new).read_bytes() + b"more\n")
        commit(project, LATER - 2 + number)
    found = Project(str(project)).check("src/auth.py", WRITTEN)
    assert found == Freshness("moved", "d.py")


@pytest.mark.parametrize(
    "name", ["bad\nname.py", "bad\x1b[31m.py", "bad\u202ename.py", "b\udcff.py"]
)
def test_a_new_name_that_is_no_text_is_not_passed_on(project: Path, name: str) -> None:
    (project / "src" / "auth.py").rename(project / name)
    assert state(project) == "gone"
    commit(project, LATER)
    assert state(project) == "gone"


def test_a_rename_to_a_link_or_out_of_sight_is_no_move(project: Path, home: Path) -> None:
    run_git(project, "mv", "src/auth.py", "b.py")
    commit(project, LATER)
    (project / "b.py").rename(home / "b.py")
    (project / "b.py").symlink_to(home / "b.py")
    assert state(project) == "gone"


# What git costs, and what it must not do


def test_files_not_touched_since_cost_no_process(project: Path, asked: list[str]) -> None:
    age(project, BEGIN)
    one = Project(str(project))
    seen = one.fingerprint("src/auth.py")
    assert one.check("src/auth.py", WRITTEN).state == "fresh"
    assert one.check("src/auth.py", WRITTEN, seen).state == "fresh"
    assert one.check("src", WRITTEN).state == "fresh"
    assert one.check("../x.py", WRITTEN).state == ""
    assert one.check("some-idea", WRITTEN).state == ""
    assert one.check("knowledge/another-memory", WRITTEN).state == ""
    write(project / "src" / "auth.py", b"changed", LATER)
    assert Project(str(project)).check("src/auth.py", WRITTEN, seen).state == "changed"
    assert asked == []


@pytest.fixture
def slow_git(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git that answers the first question and hangs from then on."""
    log = home / "slow.log"
    script = home / "bin" / "git"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        f"echo x >> {log}\n"
        'case "$*" in *show-toplevel*)\n'
        f"printf '%s\\n' {project} {project}/.git sha1;;\n"
        "*) exec sleep 60;; esac\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    # Long enough for the answer to the first question on a busy machine.
    monkeypatch.setattr(git, "TIMEOUT_SECONDS", 2.0)
    return log


def test_a_git_that_hangs_is_asked_once_and_nobody_can_tell(project: Path, slow_git: Path) -> None:
    one = Project(str(project))
    assert one.check("src/auth.py", WRITTEN).state == ""
    assert one.check("src/auth.py", WRITTEN - 500).state == ""
    assert one.check("src/none.py", WRITTEN).state == ""
    assert one.check("none.py", WRITTEN).state == ""
    assert slow_git.read_text(encoding="utf-8").count("x") == 2


def test_hostile_repository_settings_start_nothing_and_change_no_answer(
    project: Path, trap: str, canary: Path, home: Path
) -> None:
    write(project / "b.py", b"b\n")
    commit(project, BEGIN)
    run_git(project, "mv", "b.py", "d.py")
    commit(project, LATER)
    for name, value in {
        "log.follow": "true", "log.diffMerges": "on", "diff.renames": "false",
        "diff.relative": "true", "format.pretty": "full", "core.abbrev": "5", "log.date": "human",
        "color.ui": "always", "diff.noprefix": "true", "core.quotePath": "true",
        "diff.renameLimit": "1", "log.showRoot": "false", "status.renames": "false",
    }.items():  # fmt: skip
        run_git(project, "config", name, value)
    make_hostile(project, trap, home)
    # In the same instant as the index, so that git would have to look at the content again.
    os.utime(project / ".git" / "index", (LATER, LATER))
    age(project, LATER)
    assert state(project) == "fresh"
    assert Project(str(project)).check("b.py", WRITTEN).now_at == "d.py"
    write(project / "src" / "auth.py", CODE + b"more", LATER)
    assert state(project) == "changed"
    assert state(project, "src/none.py") == "planned"
    assert not canary.exists(), canary.read_text(encoding="utf-8")
