"""Which bank is in force, and which settings it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retain import locate
from retain.app import App
from retain.errors import (
    ConfigError,
    NewerFormat,
    NotFound,
    RetainError,
    UsageError,
)
from retain.locate import BankLocation, Locator, find_bank, other_stores
from tests.cli.door import done
from tests.conftest import ROOT


@pytest.fixture
def project(home: Path) -> Path:
    project = home / "work" / "project"
    (project / "src" / "deep").mkdir(parents=True)
    return project


def find(cwd: Path, **options: bool | str) -> BankLocation:
    return find_bank(str(cwd), os.environ, **options)  # type: ignore[arg-type]


def arcaneum(project: Path, text: str) -> Path:
    (project / ".arcaneum").write_text(text, encoding="utf-8")
    return project


ENABLED = "version: 1\nretain:\n  enabled: true\n  path: .arcaneum-retain\n"


def test_the_named_bank_comes_first_then_the_variable_then_the_nearest_then_the_global(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = project / "src" / "deep"
    assert (find(deep).root, find(deep).scope) == (str(home / ".retain"), "global")
    with pytest.raises(NotFound):
        find(deep, local=True)
    (project / ".retain").mkdir()
    assert (find(deep).root, find(deep).scope) == (str(project / ".retain"), "project")
    monkeypatch.setenv("RETAIN_BANK", str(home / "by-variable"))
    assert (find(deep).root, find(deep).scope) == (str(home / "by-variable"), "bank")
    named = find(deep, bank="../by-flag")
    assert (named.root, named.scope) == (str(project / "src" / "by-flag"), "bank")
    assert find(deep, everywhere=True).root == str(home / ".retain")
    assert find(deep, local=True).root == str(project / ".retain")


@pytest.mark.parametrize(
    "options",
    [
        {"local": True, "everywhere": True},
        {"bank": "x", "local": True},
        {"bank": "x", "everywhere": True},
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    project: Path, options: dict[str, bool | str]
) -> None:
    with pytest.raises(UsageError):
        find(project, **options)


def test_the_search_stops_before_the_home_directory(project: Path, home: Path) -> None:
    (home / ".memories").mkdir()
    (home.parent / ".memories").mkdir()
    assert find(project).scope == "global"
    assert find(home).scope == "global"
    assert find(home.parent).root == str(home.parent / ".memories")


def test_of_several_stores_in_one_place_the_first_in_the_list_is_in_force(project: Path) -> None:
    (project / ".claude" / "memory").mkdir(parents=True)
    assert find(project).kind == "claude"
    (project / ".memories").mkdir()
    assert find(project).kind == "memories"
    arcaneum(project, ENABLED)
    assert find(project).kind == "arcaneum"
    (project / ".retain").mkdir()
    assert find(project).kind == "retain"
    (project / "src" / ".memories").mkdir()
    assert find(project / "src" / "deep").kind == "memories"


def test_the_persons_own_bank_inside_a_project_is_not_the_projects(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".retain").mkdir()
    monkeypatch.setenv("RETAIN_HOME", str(project / ".retain"))
    assert find(project / "src").scope == "global"
    (project.parent / ".memories").mkdir()
    assert find(project / "src").root == str(project.parent / ".memories")


@pytest.mark.parametrize("name", [".retain", ".memories", ".claude", ".claude/memory"])
def test_a_bank_that_is_a_link_is_refused_until_its_target_is_named(
    project: Path, home: Path, name: str
) -> None:
    target = project / "elsewhere"
    (target / "memory").mkdir(parents=True)
    link = project / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(RetainError) as caught:
        find(project / "src")
    assert "symbolic link" in caught.value.message
    named = caught.value.hint.rpartition("--bank ")[2]
    assert find(project / "src", bank=named).root == os.path.realpath(named)


def test_naming_a_project_names_its_bank(project: Path) -> None:
    (project / ".memories").mkdir()
    for named in (project, project / ".memories"):
        place = find(project.parent, bank=str(named))
        assert (place.root, place.kind, place.scope) == (
            str(project / ".memories"),
            "memories",
            "bank",
        )
    (project / ".claude" / "memory").mkdir(parents=True)
    assert find(project, bank=".claude/memory").kind == "claude"


def test_a_bank_can_be_named_beside_a_broken_one(project: Path) -> None:
    arcaneum(project, "retain: [")
    (project / ".retain").symlink_to(project / "src")
    (project / ".memories").mkdir()
    assert find(project, bank="other").root == str(project / "other")
    assert find(project, bank=".memories").kind == "memories"


@pytest.mark.parametrize(
    "text",
    [
        ENABLED,
        "\ufeff" + ENABLED,
        ENABLED.replace("\n", "\r\n"),
        "retain: {enabled: yes}\n",
        "retain:\n  enabled: true\n",
        json.dumps({"version": 1, "retain": {"enabled": True, "path": ".arcaneum-retain"}}),
        json.dumps({"retain": {"enabled": True}, "note": "\U0001f600"}, indent="\t"),
    ],
)
def test_an_arcaneum_file_names_a_bank_in_yaml_or_json(project: Path, text: str) -> None:
    place = find(arcaneum(project, text) / "src")
    assert (place.root, place.kind) == (str(project / ".arcaneum-retain"), "arcaneum")
    assert not place.exists


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "version: 1\n",
        "retain:\n",
        "retain: true\n",
        "retain: {enabled: false}\n",
        "retain: {enabled: no}\n",
        "retain: {path: x}\n",
    ],
)
def test_an_arcaneum_file_that_does_not_ask_for_a_bank_is_passed_over(
    project: Path, text: str
) -> None:
    assert find(arcaneum(project, text)).scope == "global"


@pytest.mark.parametrize(
    "text",
    [
        *("retain: [", "{", "a: b: c", "- x", "\0", "x" * 70_000, "[" * 50_000),
        ENABLED.encode("utf-16"),
    ],
)
def test_an_arcaneum_file_that_cannot_be_read_is_named(project: Path, text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    (project / ".arcaneum").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        find(project)
    assert str(project / ".arcaneum") in caught.value.message
    arcaneum(project, "version: 1\nretain:\n  enabled: true\n bad: [\n")
    with pytest.raises(ConfigError, match=r"\.arcaneum, line 4, cannot be read: "):
        find(project)


@pytest.mark.parametrize("version", ["2", "99", '"2"', "1.5", "[1]", "true"])
def test_an_arcaneum_file_of_a_newer_version_is_refused_in_one_line(
    project: Path, version: str
) -> None:
    text = ENABLED.replace("version: 1", f"version: {version}")
    memory = project / ".arcaneum-retain" / "m.md"
    memory.parent.mkdir()
    memory.write_text("x", encoding="utf-8")
    arcaneum(project, text)
    with pytest.raises(NewerFormat) as caught:
        App(cwd=str(project)).put("y")
    assert len(caught.value.message.splitlines()) == 1
    assert os.listdir(memory.parent) == ["m.md"]
    assert (project / ".arcaneum").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "path",
    [*"../x .. . a/../.. /tmp/x / out out/x in .git .git/x src/.git/x".split(), '"\\0"'],
)
def test_an_arcaneum_path_out_of_the_project_is_refused(project: Path, path: str) -> None:
    (project / "out").symlink_to(project.parent)
    (project / "in").symlink_to(project / "src")
    arcaneum(project, f"retain:\n  enabled: true\n  path: {path}\n")
    with pytest.raises(ConfigError) as caught:
        find(project)
    assert "leads out of the project" in caught.value.message


def test_reading_never_makes_anything(project: Path, home: Path) -> None:
    before = sorted(os.walk(home))
    for cwd in (project, home):
        app = App(cwd=str(cwd))
        assert app.list() == []
        assert app.status().memories == 0
        assert list(app.collections()) == []
        with pytest.raises(NotFound):
            app.get("x")
        with pytest.raises(NotFound):
            App(cwd=str(cwd), bank="nowhere").get("x")
    arcaneum(project, ENABLED)
    assert App(cwd=str(project)).list() == []
    os.unlink(project / ".arcaneum")
    assert sorted(os.walk(home)) == before


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory like /tmp, where anyone may put things."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o777)
        yield Path(name)


def as_nobody(cwd: Path) -> str:
    """What find_bank answers to a user with few rights: the bank's scope, or the error's name."""
    code = (
        "import encodings.utf_8_sig, os, sys\n"
        "from retain import foreign, locate\n"
        "from retain.text import frontmatter\n"
        "from retain.errors import RetainError\n"
        "frontmatter._load_yaml('a: 1')\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    print(locate.find_bank(sys.argv[1], {}).scope)\n"
        "except RetainError as error:\n"
        "    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(cwd)],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=ROOT,
    )
    return done.stdout.strip()


def made(path: Path, owner: int, make: Callable[[Path], object]) -> None:
    make(path)
    os.chown(path, owner, owner, follow_symlinks=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for other users")
@pytest.mark.parametrize("owner, scope", [(65534, "project"), (0, "project"), (1234, "global")])
def test_a_bank_of_another_user_is_passed_over(shared: Path, owner: int, scope: str) -> None:
    made(shared / ".retain", owner, Path.mkdir)
    (shared / "sub").mkdir()
    assert as_nobody(shared / "sub") == scope


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for other users")
@pytest.mark.parametrize("mark", [".retain", ".memories", ".claude/memory"])
@pytest.mark.parametrize("above, scope", [(0, "global"), (1234, "project"), (65534, "global")])
def test_root_uses_a_bank_of_another_user_only_in_that_user_s_project(
    shared: Path, mark: str, above: int, scope: str
) -> None:
    os.chown(shared, above, above)
    for folder in (*reversed(Path(mark).parents[:-1]), Path(mark)):
        made(shared / folder, 1234, Path.mkdir)
    (shared / "sub").mkdir()
    found = locate.find_bank(str(shared / "sub"), {})
    assert found.scope == scope
    assert ("belongs to another user" in found.reason) == (scope == "global")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for other users")
def test_nobody_can_stop_others_with_a_trap_in_a_shared_directory(shared: Path) -> None:
    made(shared / ".retain", 1234, lambda path: path.symlink_to("/"))
    made(shared / ".arcaneum", 1234, lambda path: path.write_text("retain: [", encoding="utf-8"))
    assert as_nobody(shared) == "global"
    os.chown(shared / ".arcaneum", 65534, 65534)
    assert as_nobody(shared) == "ConfigError"


@pytest.mark.parametrize("name", [".claude", ".codex", ".git", "x/.git/y", ".ssh/z"])
def test_what_is_another_program_s_own_is_no_bank(home: Path, name: str) -> None:
    with pytest.raises(UsageError, match="another program's own"):
        find_bank(str(home), {}, bank=str(home / name))


def test_stores_that_other_tools_keep_for_a_person_are_named(home: Path) -> None:
    env = {"HOME": str(home)}
    assert other_stores(env) == []
    theirs = [
        home / ".arcaneum" / "retain",
        home / ".local" / "share" / "mcp-markdown-ragdocs" / "memories",
        home / ".local" / "share" / "mcp-markdown-ragdocs" / "local-app" / "memories",
    ]
    for path in theirs:
        path.mkdir(parents=True)
    assert other_stores(env) == list(map(str, theirs))
    assert f"retain import {theirs[0]} --global" in done("status")


# Settings


def locator(*, local: bool = False) -> Locator:
    return Locator(os.getcwd(), os.environ, local=local)


def config(root: Path, text: str) -> None:
    (root / "config.toml").write_text(f"format = 1\n{text}\n", encoding="utf-8")


@pytest.fixture
def banks(home: Path) -> tuple[Path, Path]:
    """The project's bank, and the person's own."""
    done("init")
    done("init", "--global")
    return home / "work" / ".retain", home / ".retain"


def test_the_project_s_bank_is_read_before_the_person_s(banks: tuple[Path, Path]) -> None:
    assert [place.root for place, _ in locator().locations()] == list(map(str, banks))
    assert [place.root for place, _ in locator(local=True).locations()] == [str(banks[0])]


def test_a_bank_of_the_person_s_that_is_switched_off_is_not_read(banks: tuple[Path, Path]) -> None:
    config(banks[1], "[memory]\nenabled = false")
    config(banks[0], "[memory]\nenabled = true")
    assert [place.root for place, _ in locator().locations()] == [str(banks[0])]
    config(banks[0], "[memory]\nenabled = false")
    with pytest.raises(ConfigError, match="switched off"):
        locator().locations()


def test_settings_are_read_again_when_the_persons_own_have_changed(
    banks: tuple[Path, Path],
) -> None:
    found = locator()
    config(banks[0], "[retrieval]\nmax_inject = 3")
    first = found.config
    config(banks[0], "[retrieval]\nmax_inject = 4")
    assert found.latest_config() is first
    config(banks[1], '[engine]\ntext = "qdrant"')
    assert found.latest_config().number("retrieval.max_inject") == 4
