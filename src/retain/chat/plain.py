"""The chat without a screen: replies on one stream, everything else on another.

At a terminal each line is a message. From a pipe the whole input is one message, so that a text
of many lines stays one, whatever stands in it; only commands at its very beginning are done first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from retain.chat import texts
from retain.chat.texts import LEAVING_SECONDS, TWICE_SECONDS
from retain.errors import RetainError
from retain.talk.approval import Answer, Question, choices
from retain.talk.commands import Commands, Shown, is_command, named, told
from retain.talk.events import (
    Assembled,
    Finished,
    MemorySaved,
    Notice,
    Retrying,
    TextDelta,
    ToolDone,
    ToolStarted,
    Usage,
)
from retain.talk.retention import Saved
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.talk.chat import Chat


class Exchange(NamedTuple):
    """What came of one message."""

    answer: str
    usage: Usage
    recalled: int
    saved: tuple[Saved, ...]


def messages(text: str) -> list[str]:
    """What a piped text holds: commands at its beginning, and one message, which is the rest.

    A line further down may look like a command because it was quoted from somewhere.
    """
    found: list[str] = []
    while text:
        line, _, rest = text.partition("\n")
        if line.strip() and not named(line):
            break
        found.append(line.strip())
        text = rest
    return [one for one in (*found, text.strip()) if one]


class Lines:
    """Lines from a terminal, waited for without a thread: that would outlive the chat."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._held = b""

    async def line(self) -> str:
        """The next one with its end; nothing where there are no more."""
        while b"\n" not in self._held:
            await self._readable()
            try:
                part = os.read(self._file, 65536)
            except OSError:
                part = b""  # the terminal is gone
            if not part:
                rest, self._held = self._held, b""
                return rest.decode("utf-8", "replace")
            self._held += part
        line, end, self._held = self._held.partition(b"\n")
        return (line + end).decode("utf-8", "replace")

    async def _readable(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._file, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._file)

    async def message(self) -> str:
        """What is typed next; a backslash at a line's end goes on with the next line."""
        text = await self.line()
        while text.endswith("\\\n"):
            text = f"{text[:-2]}\n{await self.line()}"
        return text

    def forget(self) -> None:
        """Lose what was typed and not read yet."""
        import termios

        self._held = b""
        with contextlib.suppress(termios.error):
            termios.tcflush(self._file, termios.TCIFLUSH)


def asker(lines: Lines, prompts: TextIO) -> Callable[[Question], Coroutine[Any, Any, Answer]]:
    """Puts a tool's question to the person at the terminal, in lines."""

    async def ask(question: Question) -> Answer:
        lines.forget()  # what was typed before the question is no answer to it
        prompts.write(_asked(question))
        prompts.flush()
        answers = _answers(question)
        return answers.get((await lines.line()).strip().lower(), Answer("no"))

    return ask


def _asked(question: Question) -> str:
    said = [
        "",
        f"{flat(question.title)} It {flat(question.reason)}.",
        texts.inert(question.detail),
        *(
            f"  {key:<2}  {flat(one.label)}" + (f" ({flat(one.allows)})" if one.allows else "")
            for key, one in zip(_keys(question), choices(question), strict=True)
        ),
    ]
    return "\n".join([*said, f"{'/'.join(_keys(question))} [n] "])


def _answers(question: Question) -> dict[str, Answer]:
    found = {
        key: Answer(one.choice, one.pattern)
        for key, one in zip(_keys(question), choices(question), strict=True)
    }
    return {**found, "yes": found["y"]}


def _keys(question: Question) -> list[str]:
    """A word for each choice; where one key has several, the later ones get a number."""
    keys = [one.key for one in choices(question)]
    counts = [keys[: at + 1].count(key) for at, key in enumerate(keys)]
    return [f"{key}{count}" if count > 1 else key for key, count in zip(keys, counts, strict=True)]


class Plain:
    """A chat whose replies go to `out`; what else there is to say goes to `err`."""

    def __init__(self, chat: Chat, out: TextIO, err: TextIO, *, is_quiet: bool = False) -> None:
        self.chat = chat
        self._commands = Commands(chat)
        self._out, self._err = out, err
        self._is_quiet = is_quiet

    async def pipe(self, messages: Iterable[str]) -> int:
        """Do one thing after the other; 1 where one fails, which ends it.

        What follows a command was meant for what that was to do.
        """
        for text in messages:
            try:
                shown = await self._take(text, is_command=bool(named(text)))
            except RetainError as error:
                self._say(texts.error(error))
                return 1
            if shown.is_error:
                return 1
            if shown.action == "quit":
                break
        return 0

    async def converse(self, lines: Lines) -> None:
        """Do what is typed until the person leaves, and leave a summary behind.

        Ctrl+C stops what goes on, and a second one soon after leaves; then it skips the summary.
        """
        loop, stopping = asyncio.get_running_loop(), _Stopping()
        loop.add_signal_handler(signal.SIGINT, stopping.pressed)
        try:
            while (goes_on := await stopping.result(self._next(lines))) is not False:
                if goes_on is None and stopping.is_twice:
                    break
                if goes_on is None:
                    self._say(f"\n{texts.LEAVE_AGAIN}")
            if self.chat.session:
                self._say(f"\n{texts.SAVING}")
            if not await stopping.result(self._left()):
                await self.chat.leave(0)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _left(self) -> bool:
        await self.chat.leave(LEAVING_SECONDS)
        return True

    async def _next(self, lines: Lines) -> bool:
        """Do the next thing that is typed; False to leave."""
        self._err.write("> ")
        self._err.flush()
        text = await lines.message()
        if not text.strip():
            return bool(text)
        try:
            shown = await self._take(text.strip(), is_command=is_command(text))
        except BrokenPipeError:
            raise  # nobody reads the replies any more
        except (RetainError, OSError) as error:
            self._say(texts.error(error))
            return True
        return shown.action != "quit"

    async def _take(self, text: str, *, is_command: bool) -> Shown:
        """Do what one input asks for; what a command has to say is said already."""
        if not is_command:
            await self.exchange(text)
            return Shown("")
        shown = await self._commands.run(text)
        if shown.is_error:
            self._say(f"✗ {shown.text}")
        elif shown.action != "quit":
            self._write(f"{texts.inert(shown.text)}\n")
        return shown

    async def exchange(self, text: str, quoted: str = "", *, is_silent: bool = False) -> Exchange:
        """Say one thing, with what is quoted to it, and write the reply as it comes."""
        answer: list[str] = []
        saved: list[Saved] = []
        usage, count = Usage(0, 0), 0
        try:
            async with contextlib.aclosing(self.chat.conversation.send(text, quoted)) as happenings:
                async for one in happenings:
                    if isinstance(one, TextDelta):
                        answer.append(one.text)
                        if not is_silent:
                            self._write(texts.inert(one.text))
                    elif isinstance(one, Usage):
                        usage = _sum(usage, one)
                    elif isinstance(one, Assembled):
                        count = one.prompt.recalled
                    elif isinstance(one, MemorySaved):
                        saved.append(one.saved)
                    elif isinstance(one, ToolStarted) and answer:
                        answer.append("\n\n")
                    self._tell(one)
        finally:
            if answer and not is_silent and not answer[-1].endswith("\n"):
                self._write("\n")
            for done in saved:
                self._say(told(done))
        return Exchange("".join(answer), usage, count, tuple(saved))

    def _tell(self, happening: object) -> None:
        """Say what is worth a line."""
        line = ""
        if isinstance(happening, Notice):
            line = flat(happening.text)
        elif isinstance(happening, Retrying):
            line = texts.retrying(happening)
        elif isinstance(happening, Finished):
            line = texts.finished(happening)
        elif isinstance(happening, ToolStarted):
            line = f"○ {flat(happening.summary)}"
        elif isinstance(happening, ToolDone):
            mark = "✗" if happening.result.is_error else "●"
            line = f"{mark} {flat(happening.result.text, 120)}"
        if line:
            self._say(line)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _say(self, line: str) -> None:
        if not self._is_quiet or line.startswith("✗"):
            with contextlib.suppress(OSError):  # a terminal that is gone: there is still to leave
                self._err.write(f"{line}\n")
                self._err.flush()


class _Stopping:
    """Ctrl+C: it stops what goes on, and says whether it came twice in a short time."""

    def __init__(self) -> None:
        self.is_twice = False
        self._pressed_at = -TWICE_SECONDS
        self._doing: asyncio.Task[bool] | None = None

    async def result(self, work: Coroutine[Any, Any, bool]) -> bool | None:
        """What comes of something; None where it was stopped."""
        self._doing = asyncio.create_task(work)
        await asyncio.wait([self._doing])
        return None if self._doing.cancelled() else self._doing.result()

    def pressed(self) -> None:
        before, self._pressed_at = self._pressed_at, time.monotonic()
        self.is_twice = self._pressed_at - before < TWICE_SECONDS
        if self._doing:
            self._doing.cancel()


def _sum(before: Usage, now: Usage) -> Usage:
    return Usage(
        before.input + now.input,
        before.output + now.output,
        before.cached + now.cached,
        before.estimated or now.estimated,
    )
