"""The chat without a screen: replies on one stream, everything else on another.

At a terminal each line is a message. From a pipe the whole input is one message, so that a text
of many lines stays one; lines that are slash commands are done by themselves, where they stand.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from retain.chat import words
from retain.errors import RetainError
from retain.talk.approval import Answer, Question
from retain.talk.commands import COMMANDS, Commands
from retain.talk.events import Finished, Retrying, TextDelta, Usage
from retain.talk.happenings import Assembled, MemorySaved, Notice, ToolDone, ToolStarted
from retain.talk.retention import Saved

if TYPE_CHECKING:
    from retain.talk.chat import Chat

__all__ = ["Exchange", "Plain", "asker", "messages", "typed"]

SUMMARY_SECONDS: Final = 6.0

_NAMES: Final = frozenset(f"/{one.name}" for one in COMMANDS) | {"/exit", "/q", "/?", "/h"}
_ANSWERS: Final = {"y": "once", "yes": "once", "s": "session", "n": "no", "no": "no", "": "no"}


class Exchange(NamedTuple):
    """What came of one message."""

    answer: str
    usage: Usage
    recalled: int
    saved: tuple[Saved, ...]


def messages(text: str) -> list[str]:
    """What a piped text holds: messages, and the commands between them."""
    found: list[str] = []
    lines: list[str] = []

    def flush() -> None:
        if said := "\n".join(lines).strip():
            found.append(said)
        lines.clear()

    for line in text.splitlines():
        if line.split(" ", 1)[0] in _NAMES:
            flush()
            found.append(line.strip())
        else:
            lines.append(line)
    flush()
    return found


def typed(source: TextIO, prompts: TextIO) -> Iterator[str]:
    """What a person types, a line at a time; a backslash at the end goes on with the next."""
    while True:
        prompts.write("> ")
        prompts.flush()
        lines = [source.readline()]
        while lines[-1].rstrip("\n").endswith("\\"):
            lines[-1] = lines[-1].rstrip("\n")[:-1] + "\n"
            lines.append(source.readline())
        text = "".join(lines)
        if not text:
            return
        if text.strip():
            yield text.strip()


def asker(source: TextIO, prompts: TextIO) -> Callable[[Question], asyncio.Future[Answer]]:
    """Puts a tool's question to the person at the terminal, in lines."""

    def ask(question: Question) -> asyncio.Future[Answer]:
        return asyncio.ensure_future(asyncio.to_thread(_asked, question, source, prompts))

    return ask


def _asked(question: Question, source: TextIO, prompts: TextIO) -> Answer:
    prompts.write(f"\n{words.flat(question.title)} It {words.flat(question.reason)}.\n")
    prompts.write(f"{words.inert(question.detail)}\n")
    longer = "s in this session, " if "session" in question.choices else ""
    prompts.write(f"y once, {longer}n no [n] ")
    prompts.flush()
    choice = _ANSWERS.get(source.readline().strip().lower(), "no")
    if choice not in ("no", *question.choices):
        choice = "no"
    return Answer(choice)


class Plain:
    """A chat whose replies go to `out`; what else there is to say goes to `err`."""

    def __init__(self, chat: Chat, out: TextIO, err: TextIO, *, is_quiet: bool = False) -> None:
        self.chat = chat
        self._commands = Commands(chat)
        self._out, self._err = out, err
        self._is_quiet = is_quiet

    async def converse(self, inputs: Iterable[str], *, go_on: bool) -> int:
        """Do one input after the other; 1 where a model failed and that ended it.

        A person can `go_on` after an error; a pipe cannot know of it.
        """
        async for text in _one_by_one(inputs):
            try:
                if not await self._take(text):
                    break
            except RetainError as error:
                self._say(words.error(error))
                if not go_on:
                    return 1
        return 0

    async def _take(self, text: str) -> bool:
        """Do what one input asks for; False to leave."""
        if not text.startswith("/") or text.split(" ", 1)[0] not in _NAMES:
            await self.exchange(text)
            return True
        shown = await self._commands.run(text)
        if shown.action == "quit":
            return False
        if shown.is_error:
            self._say(f"✗ {shown.text}")
        else:
            self._write(f"{words.inert(shown.text)}\n")
        return True

    async def exchange(self, text: str, *, is_silent: bool = False) -> Exchange:
        """Say one thing, and write the reply as it comes."""
        answer: list[str] = []
        saved: list[Saved] = []
        usage, count = Usage(0, 0), 0
        try:
            async with contextlib.aclosing(self.chat.conversation.send(text)) as happenings:
                async for one in happenings:
                    if isinstance(one, TextDelta):
                        answer.append(one.text)
                        if not is_silent:
                            self._write(words.inert(one.text))
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
                self._say(words.saved(done))
        return Exchange("".join(answer), usage, count, tuple(saved))

    def _tell(self, happening: object) -> None:
        """Say what is worth a line."""
        line = ""
        if isinstance(happening, Notice):
            line = words.flat(happening.text)
        elif isinstance(happening, Retrying):
            line = words.retrying(happening)
        elif isinstance(happening, Finished):
            line = words.finished(happening)
        elif isinstance(happening, ToolStarted):
            line = f"○ {words.flat(happening.summary)}"
        elif isinstance(happening, ToolDone):
            mark = "✗" if happening.result.is_error else "●"
            line = f"{mark} {words.flat(happening.result.text, 120)}"
        if line:
            self._say(line)

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()

    def _say(self, line: str) -> None:
        if not self._is_quiet or line.startswith("✗"):
            self._err.write(f"{line}\n")
            self._err.flush()


async def _one_by_one(inputs: Iterable[str]) -> AsyncIterator[str]:
    """Inputs, waited for in a thread: reading a line must not stop what else goes on."""
    left = iter(inputs)
    while (text := await asyncio.to_thread(next, left, None)) is not None:
        yield text


def _sum(before: Usage, now: Usage) -> Usage:
    return Usage(
        before.input + now.input,
        before.output + now.output,
        before.cached + now.cached,
        before.estimated or now.estimated,
    )
