"""The token of the HTTP door: made once, read by its owner only, never in a project."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from retain.errors import ConfigError, Unsafe, UsageError
from retain.httpd.token import make_token, read_token, token_path
from tests.conftest import Run

GIVEN = "given-by-the-person-0123456789"


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    return {"RETAIN_HOME": str(home / ".retain")}


@pytest.fixture
def file(home: Path) -> Path:
    return home / ".retain" / "mcp-token"


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_a_token_is_made_once_and_kept_for_its_owner(
    env: dict[str, str], file: Path, umask: int
) -> None:
    assert not read_token(env)
    before = os.umask(umask)
    try:
        made = make_token(env)
    finally:
        os.umask(before)
    assert len(made) == 43
    assert made == make_token(env) == read_token(env)
    assert token_path(env) == str(file)
    assert file.read_text(encoding="ascii") == f"{made}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_new_token_takes_the_place_of_the_old(env: dict[str, str], file: Path) -> None:
    old = make_token(env)
    made = make_token(env, new=True)
    assert made != old
    assert read_token(env) == made
    assert sorted(one.name for one in file.parent.iterdir()) == [
        ".gitignore",
        "config.toml",
        "mcp-token",
    ]


@pytest.mark.slow
def test_many_that_make_it_at_once_have_the_same(home: Path, file: Path) -> None:
    code = "import os; from retain.httpd.token import make_token; print(make_token(os.environ))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        for _ in range(8)
    ]
    said = {one.communicate(timeout=60)[0].strip() for one in running}
    assert said == {file.read_text(encoding="ascii").strip()}
    assert not list(file.parent.glob("mcp-token.*"))


@pytest.mark.parametrize("kind", ["link", "dangling", "directory", "pipe", "linked ignore"])
def test_what_is_no_plain_file_is_refused_and_not_followed(
    env: dict[str, str], file: Path, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "target"
    file.parent.mkdir()
    if kind in ("link", "linked ignore"):
        target.write_text("x" * 30, encoding="ascii")
        target.chmod(0o600)
    if kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file, 0o600)
    else:
        (file.parent / ".gitignore" if kind == "linked ignore" else file).symlink_to(target)
    with pytest.raises(Unsafe):
        make_token(env)
    assert (target.read_text(encoding="ascii") if target.exists() else "") in ("", "x" * 30)
    if kind == "link":
        assert make_token(env, new=True) == read_token(env) != "x" * 30
        assert not file.is_symlink()


def test_a_file_of_another_owner_is_refused(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_token(env)
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(Unsafe, match="another user"):
        read_token(env)


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o602])
def test_a_file_that_others_can_reach_is_refused(
    env: dict[str, str], file: Path, mode: int
) -> None:
    old = make_token(env)
    file.chmod(mode)
    with pytest.raises(Unsafe) as caught:
        make_token(env)
    assert old not in caught.value.message
    assert "--new" in caught.value.hint
    assert make_token(env, new=True) != old
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "short", "with a space in the middle", "x" * 600, "ü" * 30])
def test_a_file_without_a_usable_token_is_refused(
    env: dict[str, str], file: Path, text: str
) -> None:
    make_token(env)
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        make_token(env)
    assert not text or text not in str(caught.value)


def test_the_variable_overrides_the_file(env: dict[str, str], file: Path) -> None:
    given = {**env, "RETAIN_MCP_TOKEN": GIVEN}
    assert make_token(given) == read_token(given) == GIVEN
    assert not file.exists()
    with pytest.raises(UsageError):
        make_token(given, new=True)
    assert make_token({**env, "RETAIN_MCP_TOKEN": ""}) == read_token(env)
    with pytest.raises(ConfigError) as caught:
        make_token({**env, "RETAIN_MCP_TOKEN": "guessable"})
    assert "guessable" not in str(caught.value)


def test_it_never_reaches_a_repository_or_a_list(run: Run, home: Path, file: Path) -> None:
    subprocess.run(["git", "init", "-q", file.parent], check=True)
    (file.parent / ".gitignore").write_text("*.bak", encoding="utf-8")
    assert run("mcp", "token").code == 0
    shown = subprocess.run(
        ["git", "status", "--porcelain", "-uall"],
        cwd=file.parent,
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    ).stdout
    assert "mcp-token" not in shown
    ignored = (file.parent / ".gitignore").read_text(encoding="utf-8")
    assert ignored == "*.bak\nmcp-token*\n"
    run("mcp", "token", "--new")
    assert (file.parent / ".gitignore").read_text(encoding="utf-8") == ignored
    assert "mcp-token" not in run("list", "--global").out
    assert file.read_text(encoding="ascii").strip() not in run("status", "--global", "--json").out


def test_the_command_says_where_it_comes_from(run: Run, file: Path) -> None:
    assert run("init").code == 0  # a project's bank, where it is never kept
    first = run("mcp", "token")
    assert first.out.strip() == file.read_text(encoding="ascii").strip()
    assert str(file) in first.err
    assert run("mcp", "token").out == first.out
    assert run("mcp", "token", "--new").out != first.out
    given = run("mcp", "token", env={"RETAIN_MCP_TOKEN": GIVEN})
    assert given.out.strip() == GIVEN
    assert "$RETAIN_MCP_TOKEN" in given.err
