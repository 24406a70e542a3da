r"""Console transcripts: what a person types and what they see, kept true by the tests.

A `.console` file is a session at a terminal:

    # Deleting is not the end of a memory.
    $ echo "Tile to 32." | retain put - --id tiles
    saved tiles ({{time}})

    $ for name in tiles nothing; do
    >   retain delete "$name"
    > done
    deleted tiles
    2> error: no memory is called "nothing"
    2> ...
    [3]

One `bash` runs the whole file in an empty directory, so a `cd`, an `export` or a function stays
for the commands after it. Standard input is empty. After each command come the lines it wrote to
standard output, then those it wrote to standard error, then its exit code unless that is 0.

    $ command       a command; lines that follow with `> ` belong to it
    text            a line of standard output
    1> text         the same, taken literally: for a line that would mean something else here
    2> text         a line of standard error
    ...             any number of lines, or none (`2> ...` on standard error)
    [3]             the exit code, on the last line
    # text          a comment: at the start of the file, or between an empty line and a command

An empty line before a command (or its comment) is for the eye. Empty lines at the very end of what
a command writes, and a missing last newline, make no difference. Inside a line:

    {{time}}   a time in UTC, 2026-11-15T18:00:00Z        {{sha}}    7 to 40 hex digits
    {{hash}}   64 hex digits                              {{path}}   the rest of a word
    {{any}}    anything on that line, even nothing

`pytest --update-transcripts` rewrites what is no longer true of a command. It keeps every line
whose placeholders still match, every command and every comment, but no `...`. In a line that is new
it puts a placeholder for the directory of the run and for a time later than its start.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.console"))
PLACEHOLDERS = {
    "{{time}}": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "{{hash}}": r"[0-9a-f]{64}",
    "{{sha}}": r"[0-9a-f]{7,40}",
    "{{path}}": r"\S+",
    "{{any}}": r".*",
}
_PLACEHOLDER = re.compile("(" + "|".join(map(re.escape, PLACEHOLDERS)) + ")")
_MEANS_SOMETHING = re.compile(r"\$ |>( |$)|[12]>( |$)|\.\.\.$|\[\d+\]$")
# Reads one command per file, so that not even a syntax error reaches the next one.
_SHELL = r"""
__commands=("$1"/*.command)
set --
for __command in "${__commands[@]}"; do
  eval "$(<"$__command")" >"$__command.out" 2>"$__command.err" </dev/null
  echo $? >"$__command.code"
done
"""


class Output(NamedTuple):
    """What a command wrote, or is expected to write."""

    out: Sequence[str] = ()
    err: Sequence[str] = ()
    code: int = 0


class Step(NamedTuple):
    """One command: the lines before it, as they are, what is typed, and what should follow."""

    before: Sequence[str]
    typed: Sequence[str]
    expected: Output


def parse(text: str) -> list[Step]:
    lines = text.removesuffix("\n").split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    heads = [_head(lines, start) for start in starts]
    assert starts, "no line starts with `$ `"
    assert not [line for line in lines[: heads[0]] if line and not line.startswith("#")]
    steps = []
    for start, head, end in zip(starts, [0, *heads[1:]], [*heads[1:], len(lines)], strict=True):
        body = start + 1
        while body < end and re.match(">( |$)", lines[body]):
            body += 1
        steps.append(Step(lines[head:start], lines[start:body], _parse_output(lines[body:end])))
    return steps


def _head(lines: Sequence[str], start: int) -> int:
    """The line where the command at `start` begins: its comment, and the empty line before."""
    head = start
    while head and lines[head - 1].startswith("#"):
        head -= 1
    if head and lines[head - 1]:
        head = start  # no empty line above: these are output that looks like a comment
    return head - 1 if head and not lines[head - 1] else head


def _parse_output(lines: Sequence[str]) -> Output:
    lines = _without_empty_end(lines)
    code = 0
    if lines and (match := re.fullmatch(r"\[(\d+)\]", lines[-1])):
        code, lines = int(match[1]), lines[:-1]
    out = [line for line in lines if not re.match("2>( |$)", line)]
    err = [line[3:] for line in lines if re.match("2>( |$)", line)]
    assert list(lines[: len(out)]) == out, "standard output comes before standard error"
    return Output(_without_empty_end(out), _without_empty_end(err), code)


def _without_empty_end(lines: Sequence[str]) -> Sequence[str]:
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


def play(steps: Sequence[Step], cwd: Path, env: Mapping[str, str]) -> list[Output]:
    """Run every command of a transcript in one shell and return what each wrote."""
    with tempfile.TemporaryDirectory(prefix="transcript-") as folder:
        files = [Path(folder, f"{number:04}.command") for number, _ in enumerate(steps)]
        for file, step in zip(files, steps, strict=True):
            file.write_text("\n".join(line[2:] for line in step.typed), encoding="utf-8")
        shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", _SHELL, "bash", folder],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):  # what hangs is named below
                shell.wait(60)
        finally:  # also of what was started in the background
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        outputs = []
        for file, step in zip(files, steps, strict=True):
            code = Path(f"{file}.code")
            assert code.exists(), f"the shell ended or hung at: {step.typed[0]}"
            out, err = (
                Path(f"{file}.{end}").read_bytes().decode(errors="backslashreplace").split("\n")
                for end in ("out", "err")
            )
            number = int(code.read_text(encoding="ascii"))
            outputs.append(Output(_without_empty_end(out), _without_empty_end(err), number))
        return outputs


def matches(expected: Sequence[str], actual: Sequence[str]) -> bool:
    """Whether lines are what a transcript says."""
    pattern = "".join("(?:.*\n)*" if line == "..." else _pattern(line) for line in expected)
    return bool(re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)))


def _pattern(line: str) -> str:
    if line.startswith("1> "):
        return re.escape(line[3:]) + "\n"
    parts = _PLACEHOLDER.split(line)
    return "".join(PLACEHOLDERS.get(part) or re.escape(part) for part in parts) + "\n"


def rewrite(steps: Sequence[Step], outputs: Sequence[Output], root: str, since: str) -> str:
    """The transcript with what the commands really wrote, in `root` and not before `since`."""

    def update(expected: Sequence[str], actual: Sequence[str]) -> Sequence[str]:
        if matches(expected, actual):
            return expected
        lines = []
        for line in actual:
            fresh = re.sub(
                PLACEHOLDERS["{{time}}"],
                lambda at: at[0] if at[0][:19] < since else "{{time}}",
                line.replace(root, "{{path}}"),
            )
            if _MEANS_SOMETHING.match(line) or _PLACEHOLDER.search(line):
                fresh = f"1> {line}"
            lines.append(next((one for one in expected if matches([one], [line])), fresh))
        return lines

    lines: list[str] = []
    for step, output in zip(steps, outputs, strict=True):
        lines += [*step.before, *step.typed, *update(step.expected.out, output.out)]
        err = update(step.expected.err, output.err)
        lines += [f"2> {line}".rstrip() for line in err]
        lines += [f"[{output.code}]"] if output.code else []
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_transcript(file: Path, home: Path, pytestconfig: pytest.Config) -> None:
    text = file.read_bytes().decode("utf-8")
    steps = parse(text)
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outputs = play(steps, home / "work", {**os.environ, "PATH": path})
    real = rewrite(steps, outputs, str(home), since)
    if real == text:
        return
    if pytestconfig.getoption("--update-transcripts"):
        file.write_bytes(real.encode("utf-8"))
        return
    names = (f"{file.name} (expected)", "what happened")
    diff = difflib.unified_diff(text.split("\n"), real.split("\n"), *names, lineterm="")
    hint = f"If this is right: pytest tests/e2e -k {file.stem} --update-transcripts"
    pytest.fail("\n".join([*diff, hint]), pytrace=False)
