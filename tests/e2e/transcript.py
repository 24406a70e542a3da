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

`pytest --update-transcripts` rewrites what is no longer true. It keeps a line whose placeholders
still match, a `...` whose neighbours are still there, and every command and comment. In a line that
is new it puts a placeholder for the directory of the run and for a time later than its start.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

PLACEHOLDERS = {
    "{{time}}": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "{{hash}}": r"[0-9a-f]{64}",
    "{{sha}}": r"[0-9a-f]{7,40}",
    "{{path}}": r"\S+",
    "{{any}}": r".*",
}
ANY_LINES = "..."

_PLACEHOLDER = re.compile("(" + "|".join(map(re.escape, PLACEHOLDERS)) + ")")
_EXIT_CODE = re.compile(r"\[(\d+)\]")
_TIME = re.compile(PLACEHOLDERS["{{time}}"])
_MEANS_SOMETHING = re.compile(r"\$ |[12]>( |$)|\.\.\.$|\[\d+\]$")

# Reads one command per file, so that not even a syntax error reaches the next one.
_SHELL = r"""
__commands=("$1"/*.command)
set --
for __command in "${__commands[@]}"; do
  eval "$(<"$__command")" >"$__command.out" 2>"$__command.err" </dev/null
  echo $? >"$__command.code"
done
"""


class Malformed(Exception):
    """A transcript that cannot be read."""


class Output(NamedTuple):
    """What a command wrote, or is expected to write."""

    out: tuple[str, ...] = ()
    err: tuple[str, ...] = ()
    code: int = 0


class Step(NamedTuple):
    """One command: the lines before it, as they are, what is typed, and what should follow."""

    before: tuple[str, ...]
    typed: tuple[str, ...]
    expected: Output

    @property
    def command(self) -> str:
        """What the shell gets."""
        return "\n".join(line[2:] for line in self.typed)


def parse(text: str) -> list[Step]:
    """Read a transcript."""
    lines = text.removesuffix("\n").split("\n")
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    if not starts:
        raise Malformed("no line starts with `$ `")
    heads = [_head(lines, start) for start in starts]
    for number, line in enumerate(lines[: heads[0]], 1):
        if line and not line.startswith("#"):
            raise Malformed(f"line {number}: only comments may stand before the first command")
    steps = []
    for start, head, end in zip(starts, [0, *heads[1:]], [*heads[1:], len(lines)], strict=True):
        body = start + 1
        while body < end and (lines[body].startswith("> ") or lines[body] == ">"):
            body += 1
        expected = _parse_output(lines[body:end], body + 1)
        steps.append(Step(tuple(lines[head:start]), tuple(lines[start:body]), expected))
    return steps


def _head(lines: Sequence[str], start: int) -> int:
    """The line where the command at `start` begins: its comment, and the empty line before."""
    head = start
    while head and lines[head - 1].startswith("#"):
        head -= 1
    if head and lines[head - 1]:
        head = start  # no empty line above: these are output that looks like a comment
    return head - 1 if head and not lines[head - 1] else head


def _parse_output(lines: Sequence[str], first: int) -> Output:
    lines = without_empty_end(lines)
    code = 0
    if lines and (found := _EXIT_CODE.fullmatch(lines[-1])):
        code, lines = int(found[1]), lines[:-1]
    out = [line for line in lines if not _is_error(line)]
    err = [line.removeprefix("2>").removeprefix(" ") for line in lines if _is_error(line)]
    if any(map(_is_error, lines[: len(out)])):
        raise Malformed(f"line {first}: standard output comes before standard error")
    return Output(without_empty_end(out), without_empty_end(err), code)


def _is_error(line: str) -> bool:
    return line == "2>" or line.startswith("2> ")


def without_empty_end(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines up to the last one that says something."""
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return tuple(lines[:end])


def play(steps: Sequence[Step], cwd: Path, env: Mapping[str, str], timeout: float) -> list[Output]:
    """Run every command of a transcript in one shell and return what each wrote."""
    with tempfile.TemporaryDirectory(prefix="transcript-") as kept:
        files = [Path(kept, f"{number:04}.command") for number, _ in enumerate(steps)]
        for file, step in zip(files, steps, strict=True):
            file.write_text(step.command, encoding="utf-8")
        shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-c", _SHELL, "bash", kept],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            shell.wait(timeout)
        except subprocess.TimeoutExpired:
            pass  # the command that hangs has no exit code, and is named below
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        return [_written(file, step) for file, step in zip(files, steps, strict=True)]


def _written(file: Path, step: Step) -> Output:
    try:
        code = int(Path(f"{file}.code").read_text(encoding="ascii"))
    except (OSError, ValueError):
        raise Malformed(f"the shell ended or hung at: {step.typed[0]}") from None
    out, err = (
        without_empty_end(
            Path(f"{file}.{end}").read_bytes().decode(errors="backslashreplace").split("\n")
        )
        for end in ("out", "err")
    )
    return Output(out, err, code)


def matches(expected: Output, actual: Output) -> bool:
    """Whether a command wrote what the transcript says."""
    return (
        expected.code == actual.code
        and _lines_match(expected.out, actual.out)
        and _lines_match(expected.err, actual.err)
    )


def _lines_match(expected: Sequence[str], actual: Sequence[str]) -> bool:
    """Match the lines between one `...` and the next at the first place they fit."""
    *parts, last = _split(expected)
    at = 0
    for number, part in enumerate(parts):
        places = [at] if number == 0 else range(at, len(actual) - len(part) + 1)
        found = next((place for place in places if _fits(part, actual[place:])), None)
        if found is None:
            return False
        at = found + len(part)
    if not parts:
        return len(last) == len(actual) and _fits(last, actual)
    return len(actual) - at >= len(last) and _fits(last, actual[len(actual) - len(last) :])


def _split(lines: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for line in lines:
        if line == ANY_LINES:
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def _fits(expected: Sequence[str], actual: Sequence[str]) -> bool:
    return len(expected) <= len(actual) and all(map(line_matches, expected, actual))


def line_matches(expected: str, actual: str) -> bool:
    """Whether one line is what the transcript says."""
    if expected.startswith("1> "):
        return expected[3:] == actual
    pattern = "".join(
        PLACEHOLDERS.get(part) or re.escape(part) for part in _PLACEHOLDER.split(expected)
    )
    return re.fullmatch(pattern, actual) is not None


class Fresh(NamedTuple):
    """How a new line is written down: in `root`, not before `since`."""

    root: str
    since: str

    def __call__(self, line: str) -> str:
        """The line, with a placeholder for what differs in every run."""
        if _MEANS_SOMETHING.match(line) or _PLACEHOLDER.search(line):
            return f"1> {line}"
        line = line.replace(self.root, "{{path}}")
        return _TIME.sub(lambda at: at[0] if at[0][:19] < self.since else "{{time}}", line)


def rewrite(steps: Sequence[Step], actual: Sequence[Output], fresh: Fresh) -> str:
    """The transcript with what the commands really wrote."""
    lines: list[str] = []
    for step, output in zip(steps, actual, strict=True):
        if lines and not step.before and not lines[-1].startswith(("$ ", "> ")):
            lines.append("")
        lines += [*step.before, *step.typed]
        out = _merged(step.expected.out, output.out, fresh)
        if out and out[0].startswith(">"):
            out[0] = f"1> {out[0]}"  # here it would belong to the command
        lines += out
        err = _merged(step.expected.err, output.err, fresh)
        lines += [f"2> {line}" if line else "2>" for line in err]
        if output.code:
            lines.append(f"[{output.code}]")
    return "\n".join(lines) + "\n"


def _merged(expected: Sequence[str], actual: Sequence[str], fresh: Fresh) -> list[str]:
    """The actual lines, each as the transcript had it where that still matches."""
    if _lines_match(expected, actual):
        return list(expected)
    place = {-1: -1, **_aligned(expected, actual), len(expected): len(actual)}
    gaps = {
        place[number - 1] + 1: place[number + 1]
        for number, line in enumerate(expected)
        if line == ANY_LINES and number - 1 in place and number + 1 in place
    }
    kept = {there: expected[here] for here, there in place.items() if 0 <= here < len(expected)}
    merged: list[str] = []
    resume = 0
    for number in range(len(actual) + 1):
        if number in gaps:
            merged.append(ANY_LINES)
            resume = gaps[number]
        if resume <= number < len(actual):
            merged.append(kept.get(number) or fresh(actual[number]))
    return merged


def _aligned(expected: Sequence[str], actual: Sequence[str]) -> dict[int, int]:
    """The longest run of expected lines that match actual lines in order, by their numbers."""
    rows, columns = len(expected), len(actual)
    same = [
        [line != ANY_LINES and line_matches(line, other) for other in actual] for line in expected
    ]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for row in reversed(range(rows)):
        for column in reversed(range(columns)):
            best[row][column] = (
                best[row + 1][column + 1] + 1
                if same[row][column]
                else max(best[row + 1][column], best[row][column + 1])
            )
    pairs = {}
    row = column = 0
    while row < rows and column < columns:
        if same[row][column]:
            pairs[row] = column
            row, column = row + 1, column + 1
        elif best[row + 1][column] >= best[row][column + 1]:
            row += 1
        else:
            column += 1
    return pairs


def check(
    file: Path, *, cwd: Path, env: Mapping[str, str], root: Path, timeout: float = 60
) -> tuple[str, str]:
    """Play a file; return the text it should have and the difference, empty when it is true."""
    text = file.read_bytes().decode("utf-8")
    steps = parse(text)
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    actual = play(steps, cwd, env, timeout)
    if all(map(matches, (step.expected for step in steps), actual)):
        return text, ""
    real = rewrite(steps, actual, Fresh(str(root), since))
    diff = difflib.unified_diff(
        text.split("\n"), real.split("\n"), f"{file.name} (expected)", "what happened", lineterm=""
    )
    return real, "\n".join(diff)
