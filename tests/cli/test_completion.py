"""Shell completion, asked the way a shell asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.door import call, done
from tests.conftest import command


@pytest.fixture(autouse=True)
def bank(home: Path) -> None:
    done("init")
    for name, collection in (("gpu-patterns", "knowledge"), ("gpu-notes", "memories")):
        done("put", "-", "--id", name, "--collection", collection, input="text")


def completions(line: str, **variables: str) -> set[str]:
    """What argcomplete's protocol answers: the words on descriptor 8, nothing else anywhere."""
    reader, writer = os.pipe()
    env = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
        **variables,
    }
    shell = ["bash", "-c", f'exec 8>&{writer}; exec "$@"', "bash", *command()]
    done = subprocess.run(shell, env=env, pass_fds=(writer,), capture_output=True, check=False)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as answer:
        words = answer.read()
    assert done.stdout == b""
    return {word.strip() for word in words.split("\n") if word.strip()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "line, expected",
    [
        ("retain ", {"put", "get", "list", "edit", "config"}),
        ("retain up", {"update"}),
        ("retain list --sort cr", {"created"}),
        ("retain get gpu", {"gpu-patterns", "gpu-notes"}),
        ("retain get knowledge/", {"knowledge/gpu-patterns"}),
        ("retain get --collection kn", {"knowledge"}),
        ("retain --json get gpu-p", {"gpu-patterns"}),
        ("retain config ", {"get", "set", "list", "path", "check"}),
        ("retain new de", {"decision"}),
        ("retain supersede gpu-notes --by gpu-p", {"gpu-patterns"}),
        ("retain record ", {"write", "candidate", "index"}),
        ("retain record write --category run", {"runbook"}),
        ("retain record index --he", {"--health", "--help"}),
    ],
)
def test_shell_is_offered_what_could_come_next(line: str, expected: set[str]) -> None:
    assert expected <= completions(line)


def test_ids_of_the_bank_named_on_the_line_are_offered(home: Path) -> None:
    done("put - --id gpu-mine --global", input="text")
    assert completions("retain get --global gpu") == {"gpu-mine"}


def test_categories_of_ones_own_are_offered_and_asking_makes_no_bank(home: Path) -> None:
    done("config set categories.incident.folder incidents")
    assert completions("retain new inc") == {"incident"}
    assert completions("retain new --global inc") == set()
    assert not (home / ".retain").exists()


def test_broken_bank_offers_nothing_and_says_nothing() -> None:
    Path(".retain/config.toml").write_text("broken = [", encoding="utf-8")
    assert completions("retain get gpu") == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_printed_for_each_shell(shell: str) -> None:
    assert "retain" in done("completion", shell)
    assert call("completion tcsh").code == 2


def test_bash_completes_with_the_script_sourced() -> None:
    ask = """
        eval "$(retain completion bash)"
        COMP_WORDS=(retain get gpu-p) COMP_CWORD=2 COMP_LINE="retain get gpu-p" COMP_TYPE=9
        COMP_POINT=${#COMP_LINE}
        complete -p retain >/dev/null || exit 9
        handler=$(complete -p retain | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        "$handler" retain gpu-p get
        printf '%s\\n' "${COMPREPLY[@]}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "--norc", "-c", ask],
        env={**os.environ, "PATH": path},
        capture_output=True,
        check=False,
    )
    assert ran.stdout.decode().split() == ["gpu-patterns"], ran.stderr.decode()
