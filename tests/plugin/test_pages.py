"""What the plugin tells an agent to run exists, takes these flags, and does what it says."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from retain.app import App
from retain.categories import DEFAULTS, FIELDS
from retain.cli.command import COMMANDS, build, parse
from retain.config import SETTINGS
from retain.mcp.tools import TOOLS
from tests.conftest import Run
from tests.e2e.claude_code.session import PLUGIN

COMMAND_PAGES = sorted(PLUGIN.glob("commands/*.md"))
SKILL = PLUGIN / "skills" / "memory-management"
PAGES = sorted(PLUGIN.glob("**/*.md"))
NAMES = "put get update delete search list versions diff restore save memory config brief".split()
# A tool of the server as the plugin brings it, and as `retain install` does.
SERVERS = ("mcp__plugin_retain_retain__", "mcp__retain__")
# What the skill uses, for a command that leads to it.
OF_THE_SKILL = {"save.md": ["Skill(retain:memory-management)", "Edit(//tmp/.retain-draft-*)"]}
# What a person may type that is no option of the command.
TYPED_ONLY = {"--include-retired"}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def split(page: Path) -> tuple[dict[str, Any], str]:
    """Frontmatter and body."""
    _, head, body = text_of(page).split("---\n", 2)
    return yaml.safe_load(head), body


def shell_blocks(page: Path) -> list[str]:
    found = re.findall(r"^( *)```sh\n(.*?)^ *```", text_of(page), re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(code) for _, code in found]


def inline(page: Path) -> list[str]:
    """The commands in running text."""
    return re.findall(r"(?<!`)`(retain [^`]+)`", text_of(page))


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option of a parser and of those below it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from options(below)


def named(page: Path) -> str:
    return str(page.relative_to(PLUGIN))


def test_there_is_a_page_for_each_slash_command() -> None:
    assert [page.stem for page in COMMAND_PAGES] == sorted(NAMES)


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=named)
def test_a_slash_command_may_do_no_more_than_it_needs(page: Path) -> None:
    head, body = split(page)
    assert set(head) == {"description", "argument-hint", "allowed-tools"}
    allowed = head["allowed-tools"].split(", ")
    commands = [one for one in allowed if one.startswith("Bash(")]
    assert commands == allowed[: len(commands)]
    for one in commands:  # single commands, by words that the page itself has
        assert (match := re.fullmatch(r"Bash\(retain ([a-z ]+):\*\)", one))
        assert match[1] not in ("config", "config set", "install", "import", "mcp")
    first = [*commands, *OF_THE_SKILL.get(page.name, [])]
    assert allowed[: len(first)] == first
    for name in both_named(allowed[len(first) :]):
        assert f"`{name}`" in body


def both_named(allowed: list[str]) -> list[str]:
    """The server's tools in a list that must have each by both of its names."""
    plugins, own = allowed[::2], allowed[1::2]
    names = [tool.removeprefix(SERVERS[0]) for tool in plugins]
    assert plugins == [f"{SERVERS[0]}{name}" for name in names]
    assert own == [f"{SERVERS[1]}{name}" for name in names]
    assert set(names) <= set(TOOLS)
    return names


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=named)
def test_what_was_typed_is_data_and_reaches_no_shell_line(page: Path) -> None:
    body = split(page)[1]
    assert body.count("$ARGUMENTS") == 1
    assert body.endswith("<arguments>\n$ARGUMENTS\n</arguments>\n")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_shell_line_expands_anything(page: Path) -> None:
    for block in shell_blocks(page):
        assert not re.search(r"[$`\\]|&&|;|\|", block)
        assert all(word == "<<'RETAIN_END'" for word in re.findall(r"<<\S+", block))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_in_running_text_parses(page: Path) -> None:
    for line in inline(page):
        words = shlex.split(line.replace("HASH", "0123abcd"))[1:]
        if not re.fullmatch(r"[a-z ]+( --help)?", line):
            parse(words)
            continue
        # A command that is only named, without what it needs.
        with pytest.raises(SystemExit) as ended:
            parse([*words, "--help"])
        assert ended.value.code == 0


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_option_belongs_to_a_command_of_the_page(page: Path) -> None:
    text = text_of(page)
    commands = set(re.findall(r"\bretain ([a-z-]+)", text)) & COMMANDS.keys()
    if page.parent == SKILL / "reference":
        commands.add("record")
    known = set(options(build(commands))) | TYPED_ONLY
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known


@pytest.fixture
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project in which everything exists that the pages speak of."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    App().init()
    for name in ("notes.md", "updated.md"):
        Path(name).write_text(f"# GPU patterns\n\nFrom {name}.\n", encoding="utf-8")
    app = App()
    for name in ("knowledge/gpu-patterns", "old-research", "deleted-notes", "use-mysql"):
        app.put("# GPU patterns\n\nFirst.\n", id=name)
    app.update("gpu-patterns", "# GPU patterns\n\nSecond.\n")
    app.delete("deleted-notes")
    app.retire("use-mysql")


@pytest.fixture
def draft() -> Iterator[Path]:
    """Where a draft can be: in /tmp, as the door for programs wants it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder, "draft.json")


@pytest.mark.slow
@pytest.mark.usefixtures("bank")
@pytest.mark.parametrize("page", [page for page in PAGES if shell_blocks(page)], ids=named)
def test_every_shell_block_runs(page: Path, draft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.findall(r"^```json\n(.*?)^```", text_of(page), re.DOTALL | re.MULTILINE)
    draft.write_text("".join(shown), encoding="utf-8")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for block in shell_blocks(page):
        done = subprocess.run(
            ["bash", "-euc", re.sub(r"/tmp/\.retain-draft[\w.-]+", str(draft), block)],
            capture_output=True,
            check=False,
            encoding="utf-8",
            timeout=60,
        )
        assert done.returncode == 0, block + done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    named_here = re.findall(r"`'?((?:categories|hooks|records|triage)\.[\w.]+)", text_of(page))
    for key in named_here:
        assert key in SETTINGS or key.split(".")[-1] in FIELDS, key


def drafts() -> dict[str, str]:
    text = text_of(SKILL / "reference" / "categories.md")
    return dict(re.findall(r"```json (\w+)\n(.*?)```", text, re.DOTALL))


def test_there_is_a_draft_for_each_category() -> None:
    assert set(drafts()) == set(DEFAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("category", drafts())
def test_each_draft_is_a_record_that_is_stored(category: str, run: Run) -> None:
    App().init()
    page = text_of(SKILL / "reference" / "categories.md")
    (folder,) = re.findall(rf"^## {category}\n\n.*Folder: `([\w-]+)`", page, re.MULTILINE)
    target = f".retain/{folder}/draft.md"
    words = ("--action", "create", "--category", category, "--target", target, "--input", "-")
    done = run("record", "write", *words, input=drafts()[category])
    assert json.loads(done.out)["status"] == "created"


def test_the_skill_is_short_and_leads_to_its_references() -> None:
    head, body = split(SKILL / "SKILL.md")
    assert head["name"] == SKILL.name
    assert len(head["description"]) <= 1024
    assert len(body.splitlines()) < 200
    links = set(re.findall(r"\]\((reference/\w+\.md)\)", body))
    assert links == {f"reference/{page.name}" for page in (SKILL / "reference").iterdir()}


def test_the_skill_may_use_what_its_steps_need() -> None:
    head, body = split(SKILL / "SKILL.md")
    allowed = head["allowed-tools"].split(", ")
    server = [tool for tool in allowed if tool.startswith("mcp__")]
    assert both_named(server)
    for tool in OF_THE_SKILL["save.md"][1:]:
        assert tool in allowed
    # A subagent in the background ends after the session that waits for nobody.
    assert "`run_in_background: false`" in body
