"""Linked files: fresh, changed, moved, gone or planned, and never a look outside the project."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
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


def test_dates_decide_unless_there_is_a_fingerprint(plain: Path) -> None:
    file = plain / "src" / "auth.py"
    seen = Project(str(plain)).fingerprint("src/auth.py")
    for moment, expected in ((BEGIN, "fresh"), (WRITTEN + 0.9, "fresh"), (WRITTEN + 1, "changed")):
        os.utime(file, (moment, moment))
        assert state(plain) == expected, moment
        assert state(plain, seen=seen) == "fresh"
    write(file, CODE + b"more", BEGIN)
    assert (state(plain), state(plain, seen=seen)) == ("fresh", "changed")
    assert state(plain, "src", seen=seen) == "changed"
    file.unlink()
    assert (state(plain), state(plain, seen=seen)) == ("planned", "gone")


def test_what_has_no_hash_was_there_all_the_same(plain: Path) -> None:
    with (plain / "src" / "big.bin").open("wb") as file:
        file.truncate(freshness.LARGEST_FILE + 1)
    os.utime(plain / "src" / "big.bin", (BEGIN, BEGIN))
    targets = ("src", "src/", "src/big.bin")
    for target in targets:
        assert Project(str(plain)).fingerprint(target, WRITTEN) == freshness.THERE
        assert state(plain, target, seen=freshness.THERE) == "fresh"
    shutil.rmtree(plain / "src")
    assert {state(plain, target, seen=freshness.THERE) for target in targets} == {"gone"}


@pytest.mark.parametrize("suffix", ["#L10-L20", "#login", "#", ":42", ":42:7", ":1,5"])
def test_a_place_in_a_file_is_not_part_of_its_path(plain: Path, suffix: str) -> None:
    target = f"src/auth.py{suffix}"
    assert state(plain, target) == "fresh"
    seen = Project(str(plain)).fingerprint(target)
    (plain / "src" / "auth.py").unlink()
    assert state(plain, target, seen=seen) == "gone"
    write(plain / target, CODE, LATER)
    assert state(plain, target) == "changed"


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
        "/etc/passwd", "../secret.py", "src/../../secret.py", "~/secret.py",
        "~root/x.py", "//etc/passwd", ".git/config", "src/.GIT/config",
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
    for seen in ("", "0" * 20):
        assert Project(str(plain)).check(target, WRITTEN, seen) == Freshness("")
    assert Project(str(plain)).fingerprint(target) == ""


def test_a_link_within_the_project_leads_to_its_file(plain: Path) -> None:
    (plain / "CLAUDE.md").symlink_to("AGENTS.md")
    assert state(plain, "CLAUDE.md") == ""
    write(plain / "AGENTS.md", b"agents")
    assert state(plain, "CLAUDE.md") == "fresh"
    write(plain / "AGENTS.md", b"changed", LATER)
    assert state(plain, "CLAUDE.md") == "changed"


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


def test_content_is_compared_with_what_git_had_at_that_time(project: Path) -> None:
    file = project / "src" / "auth.py"
    assert state(project) == "fresh"
    write(file, CODE + b"more", LATER)
    assert state(project) == "changed"
    commit(project, LATER)
    assert state(project) == "changed"
    assert Project(str(project)).check("src/auth.py", LATER).state == "fresh"
    write(file, CODE, LATER + 10)
    assert state(project) == "fresh"  # the change was taken back
    for target in ("src/new.py", "lib/", "src/lib", "lib/new.py:42"):
        assert state(project, target) == "planned"
    run_git(project, "rm", "-q", "-f", "src/auth.py")
    assert state(project) == "gone"
    commit(project, LATER)
    assert state(project) == state(project, "src/") == "gone"


@pytest.mark.parametrize("name", ["--output=x.py", "ä b.py", "new\nline.py"])
def test_strange_names_are_files_like_others(project: Path, name: str) -> None:
    write(project / name, CODE, LATER)
    assert state(project, name) == "changed"
    commit(project, BEGIN)
    assert state(project, name) == "fresh"
    (project / name).unlink()
    commit(project, LATER)
    assert state(project, name) == "gone"


def test_line_ends_that_git_converts_are_no_change(project: Path) -> None:
    run_git(project, "config", "core.autocrlf", "true")
    (project / "src" / "auth.py").unlink()
    run_git(project, "checkout", "-q", "--", "src/auth.py")
    assert b"\r\n" in (project / "src" / "auth.py").read_bytes()
    seen = Project(str(project)).fingerprint("src/auth.py", WRITTEN)
    assert state(project, seen=seen) == state(project) == "fresh"


def test_a_project_within_a_repository_sees_its_own_part(home: Path) -> None:
    whole = new_project(home / "work" / "whole")
    part = whole / "-part"
    write(part / "src" / "auth.py", CODE)
    write(whole / "src" / "auth.py", b"another")
    commit(whole, BEGIN)
    write(whole / "src" / "auth.py", b"changed", LATER)
    commit(whole, LATER)
    age(whole, LATER + 500)
    assert state(part) == "fresh"
    run_git(part, "mv", "src/auth.py", "login.py")
    commit(whole, LATER)
    assert Project(str(part)).check("src/auth.py", WRITTEN) == Freshness("moved", "login.py")
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


def test_a_fingerprint_spares_git(project: Path, asked: list[str]) -> None:
    then = Project(str(project)).fingerprint("src/auth.py")
    write(project / "src" / "auth.py", CODE + b"more", LATER)
    write(project / "new.py", CODE, LATER)
    commit(project, LATER)
    now = Project(str(project)).fingerprint("src/auth.py")
    whole = Project(str(project))
    assert whole.fingerprint("src/auth.py#L1", WRITTEN) == then
    assert whole.fingerprint("src/auth.py", LATER) == now
    assert whole.fingerprint("new.py", WRITTEN) == then  # as it was committed first
    asked.clear()
    assert state(project, seen=then) == "changed"
    assert state(project, seen=now) == "fresh"
    for target in ("src", "../x.py", "some-idea", "knowledge/another-memory"):
        state(project, target)
    age(project, BEGIN)
    assert state(project) == "fresh"
    assert asked == []


# Moved


def test_renames_are_followed_to_their_end(project: Path) -> None:
    names = ("src/auth.py", "b.py", "c.py", "lib/d.py")
    (project / "lib").mkdir()
    for number, (old, new) in enumerate(itertools.pairwise(names)):
        run_git(project, "mv", old, new)
        write(project / new, (project / new).read_bytes() + b"more\n")
        if new != "lib/d.py":  # which is staged only
            commit(project, LATER - 2 + number)
    run_git(project, "add", "-A")
    moved = Freshness("moved", "lib/d.py")
    assert Project(str(project)).check("src/auth.py#L3", WRITTEN) == moved
    commit(project, LATER)
    assert Project(str(project)).check("src/auth.py", WRITTEN) == moved
    run_git(project, "rm", "-q", "lib/d.py")
    commit(project, LATER)
    assert state(project) == "gone"


def _out_of_sight(path: Path) -> None:
    path.rename(path.parent.parent / "b.py")
    path.symlink_to(path.parent.parent / "b.py")


def _unprintable(path: Path) -> None:
    path.rename(path.with_name("bad\u202ename.py"))


@pytest.mark.parametrize("move", [_out_of_sight, _unprintable])
def test_a_new_name_that_may_not_be_shown_is_no_move(
    project: Path, move: Callable[[Path], None]
) -> None:
    run_git(project, "mv", "src/auth.py", "b.py")
    commit(project, LATER)
    move(project / "b.py")
    commit(project, LATER)
    assert state(project) == "gone"


# What git must not do


def test_a_git_that_hangs_is_asked_once_and_nobody_can_tell(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, script = home / "slow.log", home / "bin" / "git"
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
    one = Project(str(project))
    for target in ("src/auth.py", "src/none.py", "none.py"):
        assert one.check(target, WRITTEN).state == ""
    assert log.read_text(encoding="utf-8").count("x") == 2


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
