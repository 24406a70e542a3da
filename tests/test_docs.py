"""The documentation says what is true: commands, settings, links and the README's own session."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from retain.cli.command import COMMANDS
from retain.config import SETTINGS
from retain.mcp.prompts import PROMPTS
from retain.mcp.tools import TOOLS, Tool

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse words its help differently")
def test_the_reference_is_what_the_commands_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/reference.py"), "--check"], check=False
    )
    assert done.returncode == 0, "run: .venv/bin/python scripts/reference.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_reference_and_in_a_page_that_explains_it(name: str) -> None:
    assert f"#### retain {name}\n" in text_of(ROOT / "docs/reference.md")
    explained = text_of(ROOT / "docs/guide.md") + text_of(ROOT / "README.md")
    assert f"retain {name}" in explained or f"`{name}`" in explained


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
def test_every_tool_for_agents_is_documented_with_what_it_takes(tool: Tool) -> None:
    page = text_of(ROOT / "docs/mcp.md")
    (row,) = re.findall(rf"^\| `{tool.name}` \| (.*?) \|", page, re.MULTILINE)
    needed = tool.input_schema.get("required", [])
    required, _, optional = row.partition(";") if needed else ("", "", row)
    assert re.findall(r"`(\w+)`", required) == needed
    assert set(re.findall(r"`(\w+)`", optional)) == set(tool.input_schema["properties"]) - {*needed}


def test_every_prompt_for_agents_is_documented() -> None:
    page = text_of(ROOT / "docs/mcp.md")
    for prompt in PROMPTS.values():
        assert f"| `{prompt.name}` | `{prompt.argument}`" in page


@pytest.mark.parametrize("key", SETTINGS)
def test_every_setting_is_documented_with_its_variable(key: str) -> None:
    reference = text_of(ROOT / "docs/reference.md")
    assert f"| `{key}` |" in reference
    assert f"`{SETTINGS[key].variable}`" in reference


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        file, _, anchor = target.partition("#")
        if file.startswith("http"):
            continue
        there = page.parent / file if file else page
        assert there.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", text_of(there), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


def test_no_page_waits_for_something_to_be_filled_in() -> None:
    waiting = {page.name: re.findall(r"@@[A-Z0-9]+@@|\bTODO\b", text_of(page)) for page in PAGES}
    assert {name: marks for name, marks in waiting.items() if marks} == {}


@pytest.mark.slow
def test_the_readme_shows_what_really_happens(tmp_path: Path) -> None:
    """Each `$` command of the README's console blocks prints what stands under it."""
    blocks = re.findall(r"```console\n(.*?)```", text_of(ROOT / "README.md"), re.DOTALL)
    session = [step for block in blocks for step in _steps(block)]
    assert len(session) >= 4
    project = tmp_path / "app"
    project.mkdir()
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "RETAIN_HOME": str(tmp_path / "home"),
        "CLAUDECODE": "1",
    }
    for command, expected in session:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=project,
            env=env,
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        shown = done.stdout.replace(str(project), "/home/ada/app")
        shown = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-11-15T18:00:00Z", shown)
        shown = re.sub(r"\b\d{4}-\d\d-\d\d\b(?!T)", "2026-11-15", shown)
        assert shown.strip() == expected.strip(), command


def _steps(block: str) -> list[tuple[str, str]]:
    steps = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        length = next(n for n, line in enumerate(lines) if not line.endswith("\\")) + 1
        steps.append(("\n".join(lines[:length]), "\n".join(lines[length:])))
    return steps
