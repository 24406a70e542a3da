"""How soon the chat is there and takes a message: `python bench/chat.py`.

Each round starts the chat and, in turns with it, a bare Textual app of one input and one log, both
in a terminal of their own. The first paint is timed from the start of the process to the words in
the empty box. Then a word and Enter are typed at once, and the time is taken until the box is empty
again, and until the request has reached a model's server on this machine. The bare app loads the
provider's package in a thread as soon as it has painted, and sends the word and nothing else.

Then blocks of code of two lengths come word by word, at one pace: four times the lines should take
about four times as much of the processor, and not sixteen times.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import io
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll

from retain.chat.prose import Prose, Stream
from tests.talk.servers import Server, running

PAINT_LIMIT = 1.5  # times the bare app
SEND_LIMIT = 3.0
REQUEST_LIMIT = 2.0
CODE_LINES = (75, 300)
CODE_LIMIT = 6.0  # times the shorter block
WORD_SECONDS = 0.004
MARK = b"ay something"  # the first letter stands under the cursor
BARE = """
import threading
from textual.app import App
from textual.widgets import Input, RichLog

class Bare(App):
    def compose(self):
        yield RichLog()
        yield Input(placeholder="Say something")

    def on_mount(self):
        self.query_one(Input).focus()
        self.call_after_refresh(threading.Thread(target=self.load, daemon=True).start)

    def load(self):
        import anthropic

    def on_input_submitted(self, event):
        self.query_one(RichLog).write(event.value)
        event.input.value = ""
        threading.Thread(target=self.ask, args=(event.value,), daemon=True).start()

    def ask(self, text):
        import anthropic

        said = [{"role": "user", "content": text}]
        create = anthropic.Anthropic().messages.create
        with create(model="claude-sonnet-5-5", max_tokens=100, messages=said, stream=True) as reply:
            list(reply)

Bare().run()
"""


class Times(NamedTuple):
    """Seconds of one round."""

    paint: float
    send: float
    request: float


class Screen:
    """A program in a terminal of its own."""

    def __init__(self, words: Sequence[str], env: dict[str, str]) -> None:
        self._side, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._seen = b""
        self.start = time.perf_counter()
        self._process = subprocess.Popen(
            words, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=env["HOME"]
        )
        os.close(theirs)

    def until(self, mark: bytes) -> float:
        """The moment at which some bytes were written, after those waited for before."""
        end = time.perf_counter() + 60
        while mark not in self._seen:
            if time.perf_counter() > end:
                raise SystemExit(f"never seen: {mark!r}")
            self.read(0.5)
        self._seen = self._seen.partition(mark)[2]
        return time.perf_counter()

    def read(self, seconds: float) -> None:
        """Take in what is written; a program whose terminal is full would wait."""
        if select.select([self._side], [], [], seconds)[0]:
            self._seen += os.read(self._side, 65536)

    def type(self, keys: bytes) -> None:
        os.write(self._side, keys)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._side)


def round_of(words: Sequence[str], env: dict[str, str], server: Server) -> Times:
    before = len(server.asked)
    screen = Screen(words, env)
    try:
        painted = screen.until(MARK)
        screen.type(b"zebra\r")
        screen.until(b"zebra")
        sent = screen.until(MARK)
        reached = sent
        while len(server.asked) == before:
            screen.read(0.005)
            reached = time.perf_counter()
        return Times(painted - screen.start, sent - painted, reached - painted)
    finally:
        screen.end()


class Page(App[None]):
    """One reply."""

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Prose()


async def streamed(lines: int) -> float:
    """Seconds of the processor for a block of code that comes word by word."""
    app = Page()
    async with app.run_test(size=(80, 24)):
        stream = Stream(app.query_one(Prose))
        before = time.process_time()
        stream.write("```python\n")
        for number in range(lines):
            for word in (f"value_{number}", " = ", "compute(", f"{number}, ", "other)", "\n"):
                stream.write(word)
                await asyncio.sleep(WORD_SECONDS)
        stream.write("```\n")
        await stream.stop()
        return time.process_time() - before


def report_code() -> int:
    few, many = (asyncio.run(streamed(lines)) for lines in CODE_LINES)
    print(
        f"long code     {many * 1000:5.0f} ms of the processor for {CODE_LINES[1]} lines,", end=" "
    )
    print(f"{few * 1000:.0f} for {CODE_LINES[0]}: {many / few:.1f} times (at most {CODE_LIMIT})")
    return int(many > CODE_LIMIT * few)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    rounds = parser.parse_args().rounds
    retain = [str(Path(sys.executable).with_name("retain")), "chat"]
    bare = [sys.executable, "-c", BARE]
    # The server complains of clients that are killed.
    quiet = contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory() as home, quiet, running() as server:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
        }
        round_of(bare, env, server)  # the disk is warm from here on
        round_of(retain, env, server)
        ours, theirs = [], []
        for _ in range(rounds):
            theirs.append(round_of(bare, env, server))
            ours.append(round_of(retain, env, server))
    return report(ours, theirs) | report_code()


def report(ours: Sequence[Times], theirs: Sequence[Times]) -> int:
    paint, send, request = (statistics.median(values) for values in zip(*ours, strict=True))
    bare_paint, bare_send, bare_request = (
        statistics.median(values) for values in zip(*theirs, strict=True)
    )
    print(f"first paint   {paint * 1000:5.0f} ms, bare {bare_paint * 1000:5.0f} ms,", end=" ")
    print(f"{paint / bare_paint:.2f} times (at most {PAINT_LIMIT})")
    print(f"time to send  {send * 1000:5.0f} ms, bare {bare_send * 1000:5.0f} ms,", end=" ")
    print(f"{send / bare_send:.2f} times (at most {SEND_LIMIT})")
    print(f"first request {request * 1000:5.0f} ms, bare {bare_request * 1000:5.0f} ms,", end=" ")
    print(f"{request / bare_request:.2f} times (at most {REQUEST_LIMIT}), from the first paint on")
    return int(
        paint > PAINT_LIMIT * bare_paint
        or send > SEND_LIMIT * bare_send
        or request > REQUEST_LIMIT * bare_request
    )


if __name__ == "__main__":
    sys.exit(main())
