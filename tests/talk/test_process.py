"""Commands: without a shell, without secrets, within limits, and nothing outlives them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from retain.bank.files import Directory
from retain.errors import NotFound, UsageError
from retain.talk import process
from retain.talk.process import Ran, environment, find_program, parse_command
from tests.talk.box import Box

PYTHON = sys.executable


def run(*words: str, seconds: float = 30, env: dict[str, str] | None = None) -> Ran:
    async def within() -> Ran:
        with Directory.open(os.getcwd()) as here:
            return await process.run(words, here, env or environment(os.environ), seconds)

    return asyncio.run(within())


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended; one that nobody reaped has."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def appeared(path: Path) -> int:
    """The number that another process writes into a file."""
    for _ in range(3_000):
        if path.exists() and path.read_text(encoding="utf-8").endswith("\n"):
            return int(path.read_text(encoding="utf-8"))
        time.sleep(0.01)
    raise AssertionError(f"{path} did not appear")


def gone(pid: int) -> bool:
    """Whether a process ends; the kernel may take a moment over it."""
    for _ in range(500):
        if not is_running(pid):
            return True
        time.sleep(0.01)
    return False


# Taking apart


@pytest.mark.parametrize(
    "text, words",
    [
        ("git status", ("git", "status")),
        ("  git log --format='%H | %s'  ", ("git", "log", "--format=%H | %s")),
        ('grep "a > b" file', ("grep", "a > b", "file")),
        (r"echo a\;b", ("echo", "a;b")),
        ("git show HEAD~1", ("git", "show", "HEAD~1")),
        ("git stash show stash@{0}", ("git", "stash", "show", "stash@{0}")),
        ("echo it#s", ("echo", "it#s")),
    ],
)
def test_plain_command_is_a_list_of_words(text: str, words: tuple[str, ...]) -> None:
    command = parse_command(text)
    assert command.words == words
    assert not command.shell_operators


@pytest.mark.parametrize(
    "text",
    [
        "git status; rm -rf x",
        "git status && rm x",
        "a | b",
        "a > b",
        "a < b",
        "a &",
        "echo $(id)",
        "echo `id`",
        'echo "$(id)"',
        'echo "`id`"',
        "echo $HOME",
        "ls *.py",
        "ls ~",
        "git status\nrm -rf x",
        "git status\rrm",
        "FOO=1 make",
        "(cd x)",
        "a || b",
        'echo "it\'s" ; id',
        "echo 'a'; id",
        "echo '\\'; id",
        "ls # comment",
    ],
)
def test_what_only_a_shell_understands_is_seen(text: str) -> None:
    command = parse_command(text)
    assert command.shell_operators
    assert command.words == ()


@pytest.mark.parametrize("text", ["", "   ", "a\0b", "echo 'open", "x" * 10_001, "''"])
def test_what_is_no_command_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_command(text)


def test_program_of_a_relative_path_entry_is_not_started(home: Path) -> None:
    evil = home / "work" / "git"
    evil.write_text("#!/bin/sh\necho evil\n", encoding="utf-8")
    evil.chmod(0o755)
    with pytest.raises(NotFound):
        find_program("git", str(home / "work"), {"PATH": ".::bin"})
    assert find_program("./git", str(home / "work"), {}) == f"{home}/work/./git"


def test_environment_has_no_secrets() -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/home/a",
        "EDITOR": "vim",
        "KEYBOARD": "us",
        "SSH_AUTH_SOCK": "/run/agent",
        "ANTHROPIC_API_KEY": "x",
        "GITHUB_TOKEN": "x",
        "GH_PAT": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "PGPASSWORD": "x",
        "my_secret": "x",
        "GIT_ASKPASS": "/x",
        "DATABASE_URL": "postgres://me:hunter2hunter2@db.internal/app",
        "HARMLESS": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    }
    kept = environment(given)
    assert {name for name in given if name in kept} == {
        "PATH",
        "HOME",
        "EDITOR",
        "KEYBOARD",
        "SSH_AUTH_SOCK",
    }
    assert kept["GIT_TERMINAL_PROMPT"] == "0"


@pytest.mark.parametrize(
    "name, is_given",
    [
        ("SSHPASS", False),
        ("PGPASS", False),
        ("DB_PASS", False),
        ("DBPASSWD", False),
        ("MYSQL_PWD", False),
        ("GPG_PASSPHRASE", False),
        ("NPM_CONFIG__AUTH", False),
        ("REGISTRYAUTH", False),
        ("DOCKER_AUTH_CONFIG", False),
        ("HTTP_AUTHORIZATION", False),
        ("VAULT_UNSEAL_1", False),
        ("VAULTUNSEALKEYS", False),
        ("SESSIONCOOKIE", False),
        ("COOKIE_JAR", False),
        ("AWS_ACCESSKEYID", False),
        ("MY_CREDS", False),
        ("PWD", True),
        ("OLDPWD", True),
        ("SSH_AUTH_SOCK", True),
        ("XAUTHORITY", True),
        ("AUTHOR", True),
        ("PASSENGER_COUNT", True),
        ("KEYMAP", True),
        ("PATHEXT", True),
    ],
)
def test_variable_is_handed_on_by_its_name(name: str, is_given: bool) -> None:
    assert (name in environment({name: "x"})) == is_given


# Running


def test_command_runs_in_its_directory_without_input(home: Path) -> None:
    assert run("/bin/pwd") == Ran(0, f"{home}/work\n")
    assert run("/bin/cat") == Ran(0, "")
    assert run("/bin/sh", "-c", "echo out; echo err >&2; exit 3") == Ran(3, "out\nerr\n")


def test_command_at_its_limit_is_ended() -> None:
    ran = run("/bin/sleep", "60", seconds=0.3)
    assert ran.ended == "it did not end within 0.3 seconds"
    assert ran.status == -15


def test_command_that_ignores_a_polite_signal_is_ended_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_GRACE", 0.1)
    # So long that it has begun to ignore the signal also on a busy machine.
    ran = run("/bin/sh", "-c", "trap '' TERM; echo up; sleep 60; sleep 60", seconds=2)
    assert ran.ended
    assert ran.output == "up\n"
    assert ran.status == -9


def test_endless_output_is_bounded_and_keeps_both_ends() -> None:
    code = "print('first'); print('x' * 200_000); print('last')"
    ran = run(PYTHON, "-c", code)
    assert ran.output.startswith("first\nxxx")
    assert ran.output.endswith("xxx\nlast\n")
    assert "bytes in all" in ran.output
    assert len(ran.output) < process.MAX_SHOWN + 100


def test_flood_of_output_ends_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_MAX_PRINTED", 1_000_000)
    ran = run("/usr/bin/env", "yes", seconds=60)
    assert ran.ended == "it printed more than 1,000,000 bytes"
    assert len(ran.output) < process.MAX_SHOWN + 100


def test_output_of_two_byte_letters_is_kept_to_the_limit() -> None:
    ran = run(PYTHON, "-c", "import sys; sys.stdout.buffer.write('é'.encode() * 30_000)")
    assert ran.output.count("é") == process.MAX_SHOWN


def test_grandchild_in_the_background_does_not_outlive_its_command(home: Path) -> None:
    note = home / "pid"
    # It holds the pipe, has a child of its own, and ignores the polite signal.
    script = f"(trap '' TERM; sh -c 'echo $$ > {note}; sleep 60'; true) & sleep 0.3; echo done"
    ran = run("/bin/sh", "-c", script)
    assert ran.output == "done\n"
    assert gone(appeared(note))


def test_process_that_left_the_session_does_not_hold_up_the_answer(home: Path) -> None:
    note = home / "pid"
    script = f"setsid sh -c 'echo $$ > {note}; exec sleep 60' & sleep 0.2; echo done"
    assert run("/bin/sh", "-c", script).output == "done\n"
    os.kill(appeared(note), signal.SIGKILL)


def test_stopped_reply_ends_the_command_and_what_it_started(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_GRACE", 0.1)
    note = home / "pid"

    async def stopped() -> None:
        with Directory.open(os.getcwd()) as here:
            words = (
                "/bin/sh",
                "-c",
                f"trap '' TERM; (echo $PPID; sleep 60) & echo $$ > {note}; wait",
            )
            task = asyncio.ensure_future(process.run(words, here, environment(os.environ), 60))
            await asyncio.to_thread(appeared, note)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(stopped())
    assert gone(appeared(note))


def test_colours_secrets_and_controls_are_taken_out_of_output() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    script = (
        r"printf '\033[31mred\033[0m \033]8;;http://x\033\\link\033]8;;\033\\ \007\a' ; echo $1"
    )
    ran = run("/bin/sh", "-c", script, "x", token)
    assert ran.output.startswith("red link \\x07\\x07")
    assert token not in ran.output
    assert all(char.isprintable() or char in "\n\t" for char in ran.output)


@pytest.mark.parametrize("between", ["\u200b", "\u2060", "\x01", "\x1b[0m", "\u202e", "\u00ad"])
def test_secret_that_is_parted_by_what_cannot_be_seen_is_taken_out(between: str) -> None:
    token = f"ghp_a1B2c3D4e5{between}F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert process.clean(f"it is {token}\n".encode()) == "it is [REDACTED:github-token]\n"


def test_escape_sequences_are_taken_out_in_no_time() -> None:
    for part in (b"\x1b[", b"\x1b]", b"\x1b[0;", b"\x1b", b"\x1b]8;;a"):
        process.clean(part * 20_000)


def test_program_that_cannot_be_started_leaves_nothing_open() -> None:
    with pytest.raises(OSError, match="No such file"):
        run("/nowhere/program")


# The tool


def test_running_asks_and_gives_the_output(box: Box) -> None:
    assert box.good("run_command", command="echo 'a  b'") == "a  b"
    (question,) = box.asked
    assert question.title == "Run: echo 'a  b'"
    assert question.detail == "echo 'a  b'"
    assert question.patterns == ("echo 'a  b'",)
    assert box.good("run_command", command="true") == "(no output)"
    assert box.bad("run_command", command="false") == "Command failed (exit status 1):\n(no output)"


def test_hanging_command_is_ended_and_says_so(box: Box) -> None:
    said = box.bad("run_command", command="sleep 60", timeout=1)
    assert said.startswith("Command ended: it did not end within 1 seconds.")


def test_shell_is_asked_for_as_one(box: Box) -> None:
    assert box.good("run_command", command="echo a b | tr ab xy") == "x y"
    (question,) = box.asked
    assert question.reason == "runs in a shell (|)"
    assert question.title == "Run in a shell: echo a b | tr ab xy"
    assert "always" not in question.choices


def test_no_shell_without_a_yes(box: Box) -> None:
    box.answer = box.answer._replace(choice="no")
    assert box.bad("run_command", command="echo x > made.txt") == "The person said no."
    assert not (box.work / "made.txt").exists()


@pytest.mark.parametrize(
    "cwd", ["..", "/", "~", "/etc", "nowhere", "a\0b", "../work2", "/proc/self"]
)
def test_directory_outside_the_project_is_refused(box: Box, home: Path, cwd: str) -> None:
    (home / "work2").mkdir()
    assert box.bad("run_command", command="pwd", cwd=cwd).startswith("Error: ")
    assert not box.asked


def test_directory_swapped_while_the_person_thinks_is_not_entered(box: Box, home: Path) -> None:
    (box.work / "sub").mkdir()
    assert box.good("run_command", command="pwd", cwd="sub") == f"{box.work}/sub"
    assert box.asked[0].detail == f"pwd\nin {box.work}/sub"

    def swap() -> None:
        (box.work / "sub").rmdir()
        (box.work / "sub").symlink_to(home)

    box.before = swap
    assert str(home) not in box.bad("run_command", command="pwd", cwd="sub").replace(
        f"{box.work}/sub", ""
    )


def test_question_shows_the_whole_command_and_nothing_acts(box: Box) -> None:
    command = "echo " + "a" * 300 + " '\x1b[2K\u202eevil'"
    box.good("run_command", command=command)
    (question,) = box.asked
    assert "\\x1b[2K\\u202eevil" in question.detail
    assert question.title.isprintable()
    assert question.patterns == ()


@pytest.mark.parametrize(
    "command, shown",
    [
        ("echo a\u200bb", "echo a\\u200bb"),
        ("echo a\u200db", "echo a\\u200db"),
        ("echo a\u00a0b", "echo a\\xa0b"),
        ("echo a\u2003b", "echo a\\u2003b"),
        ("echo a\u3164b", "echo a\\u3164b"),
        ("echo a\ufe0fb", "echo a\\ufe0fb"),
        ("echo \U000e0041", "echo \\U000e0041"),
        ("echo caf\u00e9 \u65e5\u672c", "echo caf\u00e9 \u65e5\u672c"),
        ("echo a; echo\tb\necho c", "echo a; echo\\tb\necho c"),
    ],
)
def test_question_shows_what_cannot_be_seen(box: Box, command: str, shown: str) -> None:
    box.good("run_command", command=command)
    assert box.asked[0].detail == shown


@pytest.mark.parametrize("gap", [" " * 100, "\n" * 100, "\u2003" * 100, " \n\t" * 50])
def test_nothing_hides_behind_a_long_gap(box: Box, gap: str) -> None:
    assert "long gap" in box.bad("run_command", command=f"echo a{gap}; touch made")
    assert not box.asked


def test_unknown_program_is_said_before_asking(box: Box) -> None:
    assert box.bad("run_command", command="no-such-program") == (
        "Error: there is no program 'no-such-program'"
    )
    assert not box.asked
