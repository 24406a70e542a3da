"""Every example in a command's help and in the docs works when it is typed into a shell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from retain.cli.command import DECLARED, build
from tests.cli.door import done
from tests.conftest import ROOT

# Examples that talk to a model, a server or a person, stay, or change the person's shell.
_ELSEWHERE = re.compile(
    r"retain (chat|ask|web|mcp|serve|watch|engine|install|completion|migrate)\b|nano|"
    r"sessions (import|export|show|delete)|hook test stop|inbox|\.\.\. |new decision$|pbpaste|"
    r"retain edit|trash empty|retain +#|hash"
)
_MEMORIES = (
    "knowledge/gpu-patterns",
    *(f"memories/auth-{name}" for name in ("plan", 1, 2, 3)),
    *(f"memories/{name}" for name in ("use-mysql", "use-postgres", "q3-migration")),
    *(f"memories/{name}" for name in ("scratch-1", "scratch-2", "how-we-deploy", "metal-patterns")),
    "security/audit-2026",
)
_FILES = "notes.md updated.md new.md more.md summary.md audit.md gpu.md".split()


def examples() -> list[str]:
    build()  # declares every command
    texts = [command.about for command in DECLARED.values()]
    for page in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        texts += [re.sub("^", "  ", block, flags=re.MULTILINE) for block in blocks]
    lines = re.findall(
        r"^  ((?:[^#\n ].*)?\bretain .*)", re.sub(r"\\\n\s*", "", "\n".join(texts)), re.MULTILINE
    )
    return sorted({line.strip() for line in lines if not _ELSEWHERE.search(line)})


@pytest.fixture
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    done("init")
    work = Path.cwd()
    for name in ("knowledge", "memories", "security"):
        (work / ".retain" / name).mkdir()
    for name in _MEMORIES:
        (work / ".retain" / f"{name}.md").write_text(
            f"# {name}\n\nAbout [[src/auth.py]], in its own words.\n", encoding="utf-8"
        )
    for name in ("gpu-patterns", "gpu-patterns", "how-we-deploy"):
        done("append", name, "more", "--quiet")
    for name in _FILES:
        (work / name).write_text(f"# {name}\n", encoding="utf-8")
    (work / "questions.txt").write_text("auth\n", encoding="utf-8")
    (work / "src").mkdir()
    (work / "src/auth.py").write_text("pass\n", encoding="utf-8")
    (home / "old-project").mkdir()
    (home / "old-project/a.md").write_text("# A\n", encoding="utf-8")
    return work


@pytest.mark.slow
@pytest.mark.parametrize("line", examples())
def test_example_works_in_a_shell(line: str, bank: Path) -> None:
    ready(line)
    before = set(bank.iterdir())
    ran = subprocess.run(
        ["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    said = ran.stderr.decode()
    assert "Traceback" not in said
    assert not re.search(r"does not take|invalid|unrecognized|shows how it is called", said), said
    assert ran.returncode == 0 or needs_more(line), said
    made = {path.name for path in set(bank.iterdir()) - before}
    assert made <= {"answers.jsonl", "graph.svg", "backup.zip"}, made


def ready(line: str) -> None:
    """Do what has to come before an example."""
    if "HEAD" in line or ("use-mysql" in line and "restore" in line):
        done("retire use-mysql")
    if re.match("retain (restore how-we-deploy *#|put .*How we deploy)", line):
        done("delete how-we-deploy")
    if re.search("--id metal-patterns", line):
        done("delete metal-patterns")
    if "move audit --to" in line:
        done("move audit-2026 --id audit")
    if "--trash" in line:
        done("delete gpu-patterns")
    if "unarchive" in line:
        done("archive q3-migration")
    if "import backup.zip" in line:
        done("export backup.zip")


def needs_more(line: str) -> bool:
    """Whether an example names what only its reader has: a handle, a hash, a commit, a draft."""
    return bool(re.search(r"4f2a|3f2a9c01|HEAD|jq|dot -T|/tmp/draft.json", line))
