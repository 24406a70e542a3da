"""A reply, kept while it comes: a killed process loses at most the last moment of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final

from retain.errors import RetainError
from retain.talk import blocks
from retain.talk.events import (
    Block,
    Event,
    Finished,
    Text,
    TextDelta,
    Thought,
    ToolResult,
    ToolUse,
    Usage,
)
from retain.talk.threads import run_in_thread, run_to_end

if TYPE_CHECKING:
    from retain.sessions.model import Message
    from retain.sessions.store import Sessions


_FLUSH_SECONDS: Final = 0.5  # how much of a streamed reply a kill may cost


@contextlib.asynccontextmanager
async def kept(sessions: Sessions, session_id: str, ending: str) -> AsyncIterator[Reply]:
    """A reply, kept as it comes and whatever ends it.

    A tool's use without a result would make the conversation unusable for any model, so each
    gets one: what the tool gave, or the `ending`.
    """
    reply = Reply(sessions, session_id, ending)
    try:
        yield reply
    except (asyncio.CancelledError, GeneratorExit):
        reply.stop()
        raise
    finally:
        # Also where the person has had enough of it, or the connection has.
        await run_to_end(reply.settle())


class Reply:
    """An answer that grows with what its tools give, and its place in the database.

    It is kept without a turn with the App, which a tool that hangs does not give back.
    """

    def __init__(self, sessions: Sessions, session_id: str, ending: str) -> None:
        self._sessions, self._session_id = sessions, session_id
        self.ending = ending  # what is said of calls that have no result
        self._blocks: list[Block] = []
        self._results: list[ToolResult] = []
        self._message: Message | None = None
        self._answers: Message | None = None
        self._output = 0
        self._is_finished = self._is_stopped = False
        self._is_dirty = False
        self._writing = asyncio.Lock()
        self._flush: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        return "".join(one.text for one in self._blocks if isinstance(one, Text))

    @property
    def whole_lines(self) -> str:
        """The text without the line that it broke off in: that may be half a fact."""
        return self.text if self._is_finished else self.text.rpartition("\n")[0]

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come of it."""
        return not self._blocks

    @property
    def calls(self) -> list[ToolUse]:
        """The tools it asks for."""
        return [one for one in self._blocks if isinstance(one, ToolUse)]

    async def take(self, event: Event) -> None:
        """Take in one more event; what there is goes to disk within half a second."""
        if isinstance(event, TextDelta):
            last = self._blocks[-1] if self._blocks else None
            if isinstance(last, Text):
                self._blocks[-1] = Text(last.text + event.text)
            else:
                self._blocks.append(Text(event.text))
        elif isinstance(event, ToolUse | Thought):
            self._blocks.append(event)
        elif isinstance(event, Usage):
            self._output = event.output
        elif not isinstance(event, Finished):
            return
        self._is_dirty = bool(self._blocks)
        if isinstance(event, Finished):
            self._is_finished = True
            await self.keep()
        elif self._is_dirty and self._flush is None:
            # By the clock, and not with the next event: that may be long in coming.
            self._flush = asyncio.create_task(self._soon())

    async def _soon(self) -> None:
        await asyncio.sleep(_FLUSH_SECONDS)
        self._flush = None
        with contextlib.suppress(RetainError):  # the reply's end tries again, and says so
            await self.keep()

    async def answer(self, result: ToolResult) -> None:
        """Take in what a tool gave."""
        self._results.append(result)
        await self._keep_results()

    def stop(self) -> None:
        """The person has had enough; of tools that were to be used, their results say so."""
        if self._blocks and not self._is_finished and not self.calls:
            self._is_stopped = self._is_dirty = True

    async def settle(self) -> None:
        """Put all there is on disk, with a result for each of the calls."""
        if self._flush:
            self._flush.cancel()
        await self.keep()
        if len(self._results) < len(self.calls):
            await self._keep_results()

    async def keep(self) -> None:
        """Put what there is of the reply on disk."""
        async with self._writing:
            if self._is_dirty:
                self._is_dirty = False
                held = tuple(self._blocks)  # it goes on growing while a thread writes
                try:
                    await run_to_end(run_in_thread(lambda: self._keep(held)))
                except BaseException:
                    self._is_dirty = True
                    raise

    def _keep(self, held: Sequence[Block]) -> None:
        is_plain = all(isinstance(one, Text) for one in held) and not self._is_stopped
        text = "".join(one.text for one in held if isinstance(one, Text))
        kept = () if is_plain else blocks.pack(held, is_stopped=self._is_stopped)
        count = self._output or sum(map(blocks.block_size, held))
        self._message = self._put(self._message, "assistant", text, count, kept)

    async def _keep_results(self) -> None:
        missing = self.calls[len(self._results) :]
        results = [
            *self._results,
            *(ToolResult(call.id, self.ending, True) for call in missing),
        ]
        kept, count = blocks.pack(results), sum(map(blocks.block_size, results))

        def work() -> None:
            self._answers = self._put(self._answers, "user", "", count, kept)

        await run_to_end(run_in_thread(work))

    def _put(
        self,
        message: Message | None,
        role: str,
        text: str,
        count: int,
        kept: tuple[dict[str, object], ...],
    ) -> Message:
        if message is None:
            return self._sessions.add(self._session_id, role, text, token_count=count, blocks=kept)
        self._sessions.amend(message.id, text, token_count=count, blocks=kept)
        return message
