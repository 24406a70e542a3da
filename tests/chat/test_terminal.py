"""The installed program in a real terminal: typed at, killed, hung up, suspended, two at once."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retain.app import App
from retain.sessions.model import Message
from tests.chat.stage import KEY
from tests.conftest import command
from tests.talk.servers import Server, Use, claude, running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed"),
]

_SECONDS = 60


class Terminal:
    """A terminal of 80 by 24 with a program in it."""

    def __init__(self, name: str, program: str, *, is_deaf: bool = False) -> None:
        self._socket = ["tmux", "-L", f"retain-{os.getpid()}-{name}", "-f", os.devnull]
        self.raw = Path(f"{name}.raw")
        self._pid = Path(f"{name}.pid").absolute()
        self._session = Path(f"{name}.session").absolute()
        self._ended = Path(f"{name}.ended").absolute()
        self._tmux("new-session", "-d", "-x", "80", "-y", "24", "sh")
        self._tmux("set-option", "-g", "remain-on-exit", "on")
        self._tmux("pipe-pane", f"cat > {shlex.quote(str(self.raw.absolute()))}")
        self._tmux("respawn-pane", "-k", self._watched(program, is_deaf))
        self._tmux("pipe-pane", f"cat > {shlex.quote(str(self.raw.absolute()))}")

    def _watched(self, program: str, is_deaf: bool) -> str:
        """`program`, with its number and how it ended written down by a shell around it.

        tmux is not asked for them: it may lose the word of a child that ended, and then never
        tells. A deaf shell outlives its terminal, and nobody tells the program that it went.
        """
        named = f"echo $$ >{shlex.quote(str(self._pid))}; {program}"
        written = shlex.quote(str(self._ended))
        deaf = f"trap : INT{' HUP' if is_deaf else ''}; "  # Ctrl+C is for the program
        own = f"echo $$ >{shlex.quote(str(self._session))}"
        return f"{deaf}{own}; sh -c {shlex.quote(named)}; echo $? >{written}"

    def _tmux(self, *words: str) -> str:
        ran = subprocess.run(
            [*self._socket, *words],
            check=True,
            capture_output=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        return ran.stdout.decode("utf-8", "replace")

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def pid(self) -> int:
        return int(self._pid.read_text(encoding="utf-8"))

    @property
    def is_dead(self) -> bool:
        return bool(self.status)

    @property
    def status(self) -> str:
        """What the program ended with; nothing while it runs."""
        return self._ended.read_text(encoding="utf-8").strip() if self._ended.exists() else ""

    def types(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < end, f"it never came; the screen shows:\n{self.text}"
            time.sleep(0.05)

    def sees(self, *words: str) -> None:
        self.until(lambda: all(word in self.text for word in words))

    def close(self) -> None:
        """Take the terminal away."""
        subprocess.run([*self._socket, "kill-server"], check=False, capture_output=True)

    def is_left(self) -> bool:
        """Whether all that ran in it ended by itself; what did not is ended now."""
        end = time.monotonic() + _SECONDS
        while (alive := self._alive()) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        return not alive

    def _alive(self) -> list[int]:
        """The processes of its session, and no others."""
        if not self._session.exists():
            return []
        session = int(self._session.read_text(encoding="utf-8"))
        ran = subprocess.run(["ps", "-A", "-o", "pid="], check=True, capture_output=True)
        return [pid for pid in map(int, ran.stdout.split()) if _session_of(pid) == session]


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


Open = Callable[..., Terminal]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with running() as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        yield server


@pytest.fixture
def opened(server: Server) -> Iterator[Open]:
    terminals: list[Terminal] = []

    def new(program: str = "", *, is_deaf: bool = False) -> Terminal:
        chat = f"exec {shlex.join(command())}"
        terminals.append(Terminal(str(len(terminals)), program or chat, is_deaf=is_deaf))
        if not program:
            terminals[-1].sees("Say something")  # before that, nobody has taken the keyboard
        return terminals[-1]

    yield new
    for terminal in terminals:
        terminal.close()
    left = [terminal.is_left() for terminal in terminals]
    assert all(left), "a process outlived its terminal"


def kept() -> list[list[Message]]:
    """All that the database has, session by session, the newest first."""
    app = App()
    sessions = app.sessions
    try:
        return [list(sessions.messages(one.id)) for one in sessions.list()]
    finally:
        sessions.close()
        app.close()


def summaries() -> list[str]:
    sessions = App().sessions
    try:
        return [one.summary for one in sessions.list()]
    finally:
        sessions.close()


def test_a_fact_is_saved_and_the_next_session_knows_it(opened: Open, server: Server) -> None:
    server.says(claude("Good choice.\n\n[MEMORY] Jamie uses Bun as the JavaScript runtime\n"))
    first = opened()
    first.types("I use Bun for JavaScript now")
    first.press("Enter")
    first.sees("Good choice.", "✦ Memory saved: Jamie uses Bun as the JavaScript runtime")
    server.says(claude("Jamie said which runtime is used."))
    first.types("/quit")
    first.press("Enter")
    first.until(lambda: first.is_dead)
    assert first.status == "0"
    assert "Traceback" not in first.text
    assert summaries() == ["Jamie said which runtime is used."]
    second = opened()
    second.types("Which JavaScript runtime do I use?")
    second.press("Enter")
    second.sees("recalled", "Done.")
    asked = server.asked[-1].body
    assert "Jamie uses Bun as the JavaScript runtime" in str(asked)
    assert "Jamie said which runtime is used." in str(asked)
    second.press("C-c")
    second.press("C-c")
    second.until(lambda: second.is_dead)


def test_a_kill_loses_no_message_and_little_of_the_reply(opened: Open, server: Server) -> None:
    server.says(claude("It was a dark and stormy night", ending="hang", keep=9))
    first = opened()
    first.types("Tell me a story")
    first.press("Enter")
    first.sees("It was a dark and sto")
    first.until(lambda: kept()[0][-1].content.startswith("It was a dark and sto"))
    os.kill(first.pid, signal.SIGKILL)
    first.until(lambda: first.is_dead)
    user, reply = kept()[0]
    assert user.content == "Tell me a story"
    assert reply.content.startswith("It was a dark and sto")
    second = opened(f"exec {shlex.join([*command(), 'chat', '--resume', 'session_'])}")
    second.sees("Tell me a story", "It was a dark and sto")
    second.types("Go on")
    second.press("Enter")
    second.sees("Done.")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order(opened: Open, server: Server, number: signal.Signals) -> None:
    server.says(claude("It was a dark and stormy night", ending="hang", keep=9))
    terminal = opened()
    terminal.types("Tell me a story")
    terminal.press("Enter")
    terminal.sees("It was a dark and sto")
    os.kill(terminal.pid, number)
    terminal.until(lambda: terminal.is_dead)
    assert "Traceback" not in terminal.raw.read_text(encoding="utf-8", errors="replace")
    assert [one.role for one in kept()[0]] == ["user", "assistant"]
    assert summaries()[0].startswith("Asked: Tell me a story")
    assert terminal.status == str(128 + number)


@pytest.mark.parametrize("is_deaf", [False, True], ids=["told", "untold"])
def test_a_terminal_that_goes_takes_nothing_with_it(
    opened: Open, server: Server, is_deaf: bool
) -> None:
    terminal = opened(is_deaf=is_deaf)
    terminal.types("Hello")
    terminal.press("Enter")
    terminal.sees("Done.")
    terminal.close()
    assert terminal.is_left()
    assert [one.content for one in kept()[0]] == ["Hello", "Done."]
    assert summaries()[0].startswith("Asked: Hello")
    if is_deaf:
        assert terminal.status == str(128 + signal.SIGHUP)


@pytest.mark.parametrize("is_deaf", [False, True], ids=["told", "untold"])
@pytest.mark.parametrize("has_begun", [False, True], ids=["silent", "streaming"])
def test_a_terminal_that_goes_during_a_reply_ends_the_chat(
    opened: Open, server: Server, is_deaf: bool, has_begun: bool
) -> None:
    hung = claude("It was a dark and stormy night", ending="hang", keep=9 if has_begun else 0)
    server.says(hung)
    terminal = opened(is_deaf=is_deaf)
    terminal.types("Tell me a story")
    terminal.press("Enter")
    if has_begun:
        terminal.sees("It was a dark and sto")
    else:
        terminal.sees("waiting for the model")
        terminal.until(lambda: server.asked)
    terminal.close()
    assert terminal.is_left()
    assert kept()[0][0].content == "Tell me a story"
    assert summaries()[0].startswith("Asked: Tell me a story")


def test_it_can_be_suspended_and_brought_back(opened: Open, server: Server) -> None:
    terminal = opened("exec bash --norc -i")
    terminal.types(f"{shlex.join(command())}\n")
    terminal.sees("Say something")
    terminal.types("half a ques")
    terminal.sees("half a ques")
    terminal.press("C-z")
    terminal.sees("Stopped")
    terminal.types("fg\n")
    terminal.sees("half a ques", "claude-sonnet-5-5")
    terminal.types("tion")
    terminal.press("Enter")
    terminal.sees("half a question", "Done.")


def test_without_a_screen_ctrl_c_stops_a_reply_and_twice_leaves(
    opened: Open, server: Server
) -> None:
    server.says(claude("It was a dark and stormy night", ending="hang", keep=9))
    terminal = opened(f"exec {shlex.join([*command(), 'chat', '--plain'])}")
    terminal.sees(">")
    terminal.types("Tell me a story\n")
    terminal.sees("It was a dark and sto")
    terminal.press("C-c")
    terminal.sees("Press Ctrl+C again to leave.")
    terminal.types("Go on\n")
    terminal.sees("Done.")

    def is_leaving() -> bool:
        """Press twice; on a busy machine that may take longer than two presses belong together."""
        terminal.press("C-c")
        terminal.press("C-c")
        end = time.monotonic() + 5
        while not (found := "Saving a summary" in terminal.text) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    time.sleep(2.5)  # the press that stopped the reply is no half of this
    terminal.until(is_leaving)
    terminal.until(lambda: terminal.is_dead)
    assert terminal.status == "0"
    assert "Traceback" not in terminal.text
    assert [one.content for one in kept()[0]][2:] == ["Go on", "Done."]


def test_without_a_screen_a_question_is_answered_in_a_line(opened: Open, server: Server) -> None:
    use = Use("run_command", {"command": "echo hello there"})
    server.says(claude("Looking.", use), claude("I see."))
    terminal = opened(f"exec {shlex.join([*command(), 'chat', '--plain'])}")
    terminal.sees(">")
    terminal.types("Look\n")
    terminal.sees("y/s/a/n [n]")
    terminal.types("a\n")
    terminal.sees("I see.")
    terminal.types("/tools\n")
    terminal.sees("1. `echo hello there`")
    terminal.press("C-d")
    terminal.until(lambda: terminal.is_dead)
    assert terminal.status == "0"


def test_two_chats_share_a_bank(opened: Open, server: Server) -> None:
    server.hears("the first", claude("One.\n\n[MEMORY] The first chat likes tea\n"))
    server.hears("the second", claude("Two.\n\n[MEMORY] The second chat drinks coffee\n"))
    first, second = opened(), opened()
    for terminal, name in ((first, "the first"), (second, "the second")):
        terminal.types(f"I am {name}")
    for terminal in (first, second):
        terminal.press("Enter")
    first.sees("✦ Memory saved: The first chat likes tea")
    second.sees("✦ Memory saved: The second chat drinks coffee")
    said = sorted(messages[0].content for messages in kept())
    assert said == ["I am the first", "I am the second"]
    facts = App().list(collection="facts")
    assert len(facts) == 2
    for terminal in (first, second):
        assert "locked" not in terminal.text


def test_no_escape_of_a_model_reaches_the_terminal(opened: Open, server: Server) -> None:
    server.says(claude("See \x1b]52;c;aGk=\x07 and \x1b]8;;http://evil.example\x07this\n"))
    terminal = opened()
    terminal.types("Say it")
    terminal.press("Enter")
    terminal.sees("\\x1b]52;c;aGk=")
    raw = terminal.raw.read_bytes()
    assert b"\x1b]52" not in raw
    assert b"\x1b]8;" not in raw


def test_alt_enter_begins_a_line_in_any_terminal(opened: Open, server: Server) -> None:
    terminal = opened()
    terminal.sees("Say something")
    terminal.types("one")
    terminal.press("M-Enter")
    terminal.types("two")
    terminal.press("Enter")
    terminal.sees("Done.")
    assert server.asked[0].last == "one\ntwo"


def test_a_bank_that_cannot_be_used_is_said_after_the_screen_is_gone(opened: Open) -> None:
    Path("file").write_text("no bank", encoding="utf-8")
    terminal = opened(f"exec {shlex.join([*command(), '--bank', 'file'])}")
    terminal.until(lambda: terminal.is_dead)
    assert terminal.status != "0"
    assert "config.toml cannot be read" in terminal.text
    assert "Traceback" not in terminal.text
