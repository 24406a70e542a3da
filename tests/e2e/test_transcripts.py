"""Every transcript beside this file is played; the engine that plays them is tested first."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.e2e.transcript import (
    Fresh,
    Malformed,
    Output,
    check,
    line_matches,
    matches,
    parse,
    play,
    rewrite,
    without_empty_end,
)

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.console"))


@pytest.fixture
def env(home: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path}


@pytest.mark.slow
@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_transcript(
    file: Path, home: Path, env: dict[str, str], pytestconfig: pytest.Config
) -> None:
    text, difference = check(file, cwd=home / "work", env=env, root=home)
    if difference and pytestconfig.getoption("--update-transcripts"):
        file.write_bytes(text.encode("utf-8"))
    elif difference:
        pytest.fail(
            f"{difference}\nIf this is right: pytest tests/e2e -k {file.stem} --update-transcripts",
            pytrace=False,
        )


def played(text: str, env: dict[str, str]) -> list[Output]:
    return play(parse(text), Path.cwd(), env, timeout=60)


def updated(text: str, *actual: Output) -> str:
    return rewrite(parse(text), actual, Fresh("/tmp/run", "2026-11-15T18:00:00"))


@pytest.mark.parametrize(
    "expected, actual, same",
    [
        ("plain", "plain", True),
        ("plain", "plain ", False),
        ("a.c", "abc", False),
        ("at {{time}}.", "at 2026-11-15T18:00:00Z.", True),
        ("at {{time}}.", "at 2026-11-15T18:00:00.123Z.", True),
        ("at {{time}}.", "at 2026-11-15 18:00:00.", False),
        ("{{hash}}", "0f" * 32, True),
        ("{{hash}}", "0f" * 20, False),
        ("{{sha}} first", "0f0f0f0 first", True),
        ("{{sha}} first", "0f0f0 first", False),
        ("saved {{path}} now", "saved /tmp/a/b.md now", True),
        ("saved {{path}} now", "saved /tmp/a b.md now", False),
        ("{{path}}/b.md", "/tmp/a/b.md", True),
        ("a{{any}}", "a", True),
        ("a{{any}}z", "a b c z", True),
        ("{{other}}", "{{other}}", True),
        ("1> {{any}}", "{{any}}", True),
        ("1> {{any}}", "else", False),
        ("1> ...", "...", True),
    ],
)
def test_line_is_literal_but_for_its_placeholders(expected: str, actual: str, same: bool) -> None:
    assert line_matches(expected, actual) is same


@pytest.mark.parametrize(
    "expected, actual, same",
    [
        ("", "", True),
        ("", "a", False),
        ("a", "", False),
        ("a b", "a b", True),
        ("a b", "a b c", False),
        ("...", "", True),
        ("...", "a b", True),
        ("a ...", "a", True),
        ("a ...", "b a", False),
        ("... z", "a b z", True),
        ("... z", "z a", False),
        ("a ... a", "a", False),
        ("a ... m n ... z", "a m m n x z", True),
        ("a ... m n ... z", "a m x n z", False),
        ("... m ... m ...", "m x", False),
    ],
)
def test_three_dots_stand_for_any_lines(expected: str, actual: str, same: bool) -> None:
    assert matches(Output(tuple(expected.split())), Output(tuple(actual.split()))) is same
    assert matches(Output((), tuple(expected.split())), Output((), tuple(actual.split()))) is same


def test_exit_code_must_be_the_one_stated(env: dict[str, str]) -> None:
    assert parse("$ false\n[3]\n")[0].expected == Output(code=3)
    assert played("$ false\n$ (exit 3)\n$ true\n", env) == [
        Output(code=1),
        Output(code=3),
        Output(),
    ]
    assert not matches(Output(), Output(code=1))
    assert not matches(Output(code=1), Output())


def test_output_that_looks_like_a_comment_is_output() -> None:
    first, second = parse("# About\n\n$ get\n---\n\n# Title\n\n# Next.\n# More.\n$ list\n# a\n")
    assert first.before == ("# About", "")
    assert first.expected.out == ("---", "", "# Title")
    assert second.before == ("", "# Next.", "# More.")
    assert second.expected.out == ("# a",)


def test_long_command_goes_on_in_the_next_lines(env: dict[str, str]) -> None:
    text = "$ cat <<end\n> one\n>\n> # two\n> end\none\n"
    assert parse(text)[0].command == "cat <<end\none\n\n# two\nend"
    assert played(text, env) == [Output(("one", "", "# two"))]


def test_syntax_error_leaves_the_next_command_alone(env: dict[str, str]) -> None:
    broken, fine = played("$ if\n$ echo fine\n", env)
    assert broken.code
    assert broken.err
    assert fine == Output(("fine",))


@pytest.mark.slow
@pytest.mark.parametrize("last", ["exit 0", "sleep 60"])
def test_command_that_ends_or_hangs_the_shell_is_named(last: str, env: dict[str, str]) -> None:
    steps = parse(f"$ echo one\n$ {last}\n$ echo two\n")
    with pytest.raises(Malformed, match=last):
        play(steps, Path.cwd(), env, timeout=5)


@pytest.mark.slow
def test_nothing_started_in_the_background_stays(env: dict[str, str]) -> None:
    played("$ (sleep 1; touch late) &\n", env)
    time.sleep(1.2)
    assert not Path("late").exists()


@pytest.mark.parametrize("text", ["", "echo\n", "hello\n$ echo\n", "$ a\n2> late\nearly\n"])
def test_text_that_is_no_transcript_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        parse(text)


def test_update_keeps_what_is_still_true() -> None:
    before = (
        "# Why\n$ a\nsaved {{path}} at {{time}}\n...\nend\n\n# Then\n$ b\nold\n2> {{any}}\n[1]\n"
    )
    after = updated(
        before,
        Output(("new", "saved /x at 2026-11-15T18:00:00Z", "1", "2", "end"), (), 2),
        Output(("old",), ("why",), 0),
    )
    assert after == (
        "# Why\n$ a\nnew\nsaved {{path}} at {{time}}\n...\nend\n[2]\n\n"
        "# Then\n$ b\nold\n2> {{any}}\n"
    )


def test_update_leaves_a_true_transcript_as_it_is() -> None:
    text = "# Why\n\n$ a\n\n> quoted\n...\n\n$ b\n1> [1]\n2> no\n2>\n2> ...\n[1]\n"
    actual = Output(("", "> quoted", "x")), Output(("[1]",), ("no", "", "x"), 1)
    assert updated(text, *actual) == text


def test_update_puts_placeholders_for_what_differs_in_every_run() -> None:
    lines = ("in /tmp/run/work/a.md", "at 2026-11-15T18:00:01Z", "from 2026-11-14T00:00:00Z")
    assert updated("$ a\n", Output(lines)) == (
        "$ a\nin {{path}}/work/a.md\nat {{time}}\nfrom 2026-11-14T00:00:00Z\n"
    )


LOOKALIKES = ["", "a", "b", "# c", "$ d", "> e", ">", "1> f", "2> g", "2>", "...", "[3]", "{{any}}"]
LINES = st.lists(
    st.sampled_from(LOOKALIKES)
    | st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=4),
    max_size=6,
).map(without_empty_end)
OUTPUTS = st.builds(Output, LINES, LINES, st.integers(0, 3))


@given(st.tuples(OUTPUTS, OUTPUTS, OUTPUTS))
def test_updated_transcript_is_true(actual: tuple[Output, ...]) -> None:
    text = updated("# Top\n\n$ one\n\n# And\n$ two\n$ three\n", *actual)
    steps = parse(text)
    assert [step.command for step in steps] == ["one", "two", "three"]
    assert all(map(matches, (step.expected for step in steps), actual))
    assert updated(text, *actual) == text
