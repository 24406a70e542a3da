"""What every test stands on: a world of its own, and the installed command."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

ROOT = Path(__file__).resolve().parent.parent
_NUMBERS = itertools.count()
# Fixtures that start the installed command, or a server of it: the start is most of their time.
_STARTING = frozenset(("run", "served", "begin"))
# Of a whole file, and of all below a directory where everything stands on real processes.
_SLOW_FILE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow\b", re.MULTILINE)
_SLOW_FOLDER = ROOT / "tests" / "e2e"

# Set before anything loads numpy: on a busy machine its threads wait for each other, and a
# question takes six times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A check that was started with nohup or in the background ignores these, and so would every
# process that a test starts in order to send it one.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hypothesis keeps its files beside the other caches, never in a test's working directory.
set_hypothesis_home_dir(ROOT / ".cache" / "hypothesis")
settings.register_profile(
    "fast",
    max_examples=20,
    deadline=None,
    database=DirectoryBasedExampleDatabase(ROOT / ".cache" / "hypothesis" / "examples"),
)
# The same examples on every run: a failure is the change's, not the dice's.
settings.register_profile(
    "ci", max_examples=200, deadline=None, derandomize=True, database=None, print_blob=True
)
settings.load_profile("fast")

# Settings of the person, their editor, their agent or their terminal that could reach the code.
FOREIGN_PREFIXES = (
    "ANTHROPIC_",
    "CLAUDE",
    "CODEX_",
    "CURSOR_",
    "GEMINI_",
    "GIT_",
    "OPENAI_",
    "OPENCODE",
    "RETAIN_",
    "XDG_",
)
FOREIGN_NAMES = (
    "AI_AGENT",
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "EDITOR",
    "EMAIL",
    "FORCE_COLOR",
    "LANGUAGE",
    "LESS",
    "LINES",
    "NO_COLOR",
    "PAGER",
    "PYTHONIOENCODING",
    "PYTHONPATH",
    "PYTHONUTF8",
    "TERM",
    "VISUAL",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-transcripts",
        action="store_true",
        help="rewrite tests/e2e/*.console with what the commands print now",
    )
    parser.addoption(
        "--update-snapshots",
        action="store_true",
        help="rewrite tests/chat/snapshots/*.svg with what the chat's screens look like now",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Of several workers each begins to collect at another place.

    In a fresh tree every test file has to be compiled: what one worker has done the others find
    done when they come there, where all at the same place would do all of it at once.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or [ROOT / one for one in config.args] != [ROOT / "tests"]:
        return
    found = [path for path in sorted((ROOT / "tests").iterdir()) if _has_tests(path)]
    start = len(found) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args = [str(path) for path in found[start:] + found[:start]]


def _has_tests(path: Path) -> bool:
    return path.name.startswith("test_") or (path.is_dir() and path.name[0] not in "._")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where no slow test is wanted, a file that has no other is not even loaded."""
    if config.getoption("markexpr") != "not slow":
        return None
    if collection_path == _SLOW_FOLDER:
        return True
    is_file = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return (is_file and bool(_SLOW_FILE.search(collection_path.read_text("utf-8")))) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in one order for every worker; and what starts the installed command is slow."""
    items.sort(key=lambda item: item.nodeid.partition("::")[0])
    for item in items:
        starts = isinstance(item, pytest.Function) and not _STARTING.isdisjoint(item.fixturenames)
        if starts or _SLOW_FOLDER in item.path.parents:
            item.add_marker(pytest.mark.slow)


def own_world(home: Path) -> dict[str, str]:
    """The environment variables that make `home` the only place a person has."""
    return {
        "HOME": str(home),
        "RETAIN_HOME": str(home / ".retain"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "XDG_RUNTIME_DIR": str(home / ".run"),
        "GIT_CEILING_DIRECTORIES": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As pytest's own, without the link to the newest, which costs more than many a test."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}-{next(_NUMBERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an empty home directory, and works in an empty directory inside it.

    Inside, because the search for a bank stops at the home directory: no test can see a bank
    that happens to lie above the temporary directory.
    """
    for name in os.environ:
        if name.startswith(FOREIGN_PREFIXES) or name in FOREIGN_NAMES:
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    for name, value in own_world(home).items():
        monkeypatch.setenv(name, value)
    (home / "work").mkdir(parents=True)
    (home / ".run").mkdir(mode=0o700)
    monkeypatch.chdir(home / "work")
    return home


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Run(Protocol):
    """Runs `retain` with these arguments."""

    def __call__(
        self,
        *args: str | os.PathLike[str],
        input: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float = 60,
    ) -> Ran: ...


def command() -> list[str]:
    """The installed command, or the module where there is none."""
    script = Path(sys.executable).with_name("retain")
    return [str(script)] if script.exists() else [sys.executable, "-m", "retain"]


@pytest.fixture
def run() -> Run:
    """`run("list", "--json", input=..., env=..., cwd=...)` is the installed command, for real.

    Line endings come back as they were written; `env` adds to the test's own environment.
    """

    def run(
        *args: str | os.PathLike[str],
        input: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        timeout: float = 60,
    ) -> Ran:
        done = subprocess.run(
            [*command(), *(os.fspath(arg) for arg in args)],
            input=input.encode("utf-8") if isinstance(input, str) else input,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        ran = Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))
        assert "EncodingWarning" not in ran.err, ran.err
        return ran

    return run
