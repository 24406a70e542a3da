"""One conversation: a message goes in, what happens comes out as events, and nothing is lost.

What the person says is on disk before the model is asked, and a reply is kept while it streams.
Blocking work runs in threads: what needs the App one at a time, because it serves one thread; what
is said and kept of it whenever it comes, because the database serves any.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from retain.errors import NotFound, RetainError
from retain.facts.store import Synced
from retain.talk.events import (
    Ask,
    Assembled,
    ChatEvent,
    Finished,
    MemorySaved,
    Notice,
    TextDelta,
    ToolDone,
    ToolResult,
    ToolStarted,
    ToolUse,
    Usage,
    describe_sync,
    notice,
)
from retain.talk.models import full_name
from retain.talk.models.errors import ModelError
from retain.talk.prompt import Prompt, assembled
from retain.talk.reply import Reply, kept
from retain.talk.retention import Retention
from retain.talk.summaries import SUMMARY_SECONDS, Summaries
from retain.talk.threads import run_alone, run_in_thread, run_to_end
from retain.talk.tools import summary
from retain.text.memory_tags import TagFilter
from retain.text.sizes import count_tokens

if TYPE_CHECKING:
    from retain.app import App
    from retain.sessions.model import Session
    from retain.talk.models import Model
    from retain.talk.profile import Profile
    from retain.talk.tools import Toolbox


ROUNDS: Final = 10  # of tools before a model must answer
CALLS: Final = 32  # of tools in one round

_REPLY: Final = 16_000  # tokens kept free for an answer, at most, where nothing else is set
_LAST_ROUND: Final = "No more tools: answer with what there is."
_STOPPED: Final = "This was stopped before it was done."
_NO_MORE: Final = f"Not done: this was the last of {ROUNDS} rounds of tools."
_TOO_MANY: Final = f"Not done: one reply can use at most {CALLS} tools."
_NARROWED: Final = 0.6  # of what was too long for a model, the next time

_Result = TypeVar("_Result")


class Conversation:
    """One chat, from its first message on or taken up again."""

    def __init__(
        self,
        app: App,
        profile: Profile,
        model: Model,
        toolbox: Toolbox,
        *,
        session: Session | None = None,
        turn: threading.RLock | None = None,
        untold: Iterable[ChatEvent] = (),
        is_question: bool = False,
    ) -> None:
        self.app, self.sessions, self.profile = app, app.sessions, profile
        self.model, self.toolbox = model, toolbox
        self.session = session
        self._is_question = is_question
        self.prompt: Prompt | None = None
        self.spent = Usage(0, 0)
        self.retention = Retention(app, self.sessions)
        self._is_taken_up = session is not None
        toolbox.own.clear()  # calls of another conversation may have the same names
        self._turn = turn or threading.RLock()
        self._most_tokens = 0  # of a reply, as it is configured
        self._summaries = Summaries(app, self.sessions, self.away, session)
        # What happened when nobody listened any more; it comes with the next message.
        self._untold: list[ChatEvent] = list(untold)
        self._is_unsent_told = False
        self._rooms: dict[str, int] = {}  # by model, where one has refused what was too long

    # Talking

    async def send(self, text: str, quoted: str = "") -> AsyncGenerator[ChatEvent, None]:
        """Say something; the reply comes as it is made, to the last thing that is done with it.

        What is `quoted` goes with it, and is not what the person says themselves.
        """
        said = text
        text = "\n\n".join(filter(None, (said, quoted)))
        if not text.strip():
            return
        await run_to_end(run_in_thread(lambda: self._begin(text)))
        # Those of a tool that the person stopped, and that came to its end all the same.
        self._untold += map(MemorySaved, self.retention.unsaid())
        self._untold += (*await self._synced(), *self._left_out())
        for told in self._told():
            yield told
        self.retention.begin(said, quoted)
        for number in range(ROUNDS + 1):
            for one in await self._assembled(self.prompt if number else None):
                yield one
            is_last = number == ROUNDS
            async with (
                self._kept_reply(_NO_MORE if is_last else _STOPPED) as reply,
                contextlib.aclosing(self._round(reply, is_last)) as happenings,
            ):
                async for happening in happenings:
                    yield happening
            if not reply.calls:
                break
        else:
            yield Notice(f"Stopped after {ROUNDS} rounds of tools.")
        for told in self._left_out():
            yield told
        self._summaries.catch_up(self.session)

    async def _round(self, reply: Reply, is_last: bool) -> AsyncGenerator[ChatEvent, None]:
        """One answer of the model's, the facts in it, and the tools that it asks for."""
        try:
            async with contextlib.aclosing(self._answered(reply, is_last)) as stream:
                async for event in stream:
                    yield event
        except ModelError:
            await run_to_end(self._save(reply.whole_lines))
            for told in self._told():
                yield told
            raise
        except (asyncio.CancelledError, GeneratorExit):
            # The person has had enough of it, and what it flagged before that is no less true.
            await run_to_end(self._save(reply.whole_lines))
            raise
        await run_to_end(self._save(reply.text))
        for told in self._told():
            yield told
        if not is_last:
            async with contextlib.aclosing(self._used(reply)) as used:
                async for happening in used:
                    yield happening

    def _begin(self, text: str) -> None:
        if self.session is not None:
            try:
                self._summaries.outdated()
                said = self.sessions.since_compaction(self.session.id)
                last = said[-1] if said else None
                if last and (last.role, last.content, last.blocks) == ("user", text, ()):
                    return  # there was no answer, and it is sent again
                self._say(self.session, text)
            except NotFound:  # another window has deleted it
                self.session = None
        if self.session is None:
            self.session = self.sessions.create(
                full_name(self.model), is_question=self._is_question
            )
            self._say(self.session, text)

    def _say(self, session: Session, text: str) -> None:
        self.sessions.add(session.id, "user", text, token_count=count_tokens(text))

    def _left_out(self) -> list[Notice]:
        """What of the messages is not in the history, as a person is told."""
        kinds = ", ".join(self.sessions.left_out())
        return [notice(f"A secret was not kept in the chat's history: {kinds}.")] if kinds else []

    async def _synced(self) -> list[Notice]:
        """Take in what was written into MEMORY.md by hand."""
        try:
            done = await self.away(self.profile.sync)
        except RetainError as error:
            return [notice(f"MEMORY.md: {error.message}")]
        return describe_sync(done)

    async def _assembled(self, before: Prompt | None) -> list[ChatEvent]:
        """Put together what is sent next, and say what the person should know of it."""
        prompt = self.prompt = await self.away(lambda: self._assemble(before))
        return [Assembled(prompt), *self._unsent(prompt)]

    def _unsent(self, prompt: Prompt) -> Iterator[Notice]:
        """That a conversation has outgrown the model's room, once."""
        if prompt.unsent and not self._is_unsent_told:
            self._is_unsent_told = True
            yield Notice(
                f"The conversation is longer than {self.model.name} has room for: from here on "
                "its oldest messages are not sent. /compact puts a summary in their place."
            )

    def _assemble(self, before: Prompt | None) -> Prompt:
        assert self.session  # noqa: S101 - `send` has begun it
        context = self.model.context_tokens
        self._most_tokens = self.app.config.number("chat.max_tokens")
        free = self._most_tokens or min(_REPLY, context // 4)
        room = max(context - free, context // 2)
        messages = self.sessions.since_compaction(self.session.id)
        if self._is_taken_up and any(one.role == "system" for one in messages):
            self.retention.provenance.distrust()  # nobody knows what that summary was made of
        self.toolbox.session_id = self.session.id
        prompt = assembled(
            self.app,
            self.sessions,
            self.profile,
            messages,
            session_id=self.session.id,
            room=min(room, self._rooms.get(self.model.name, room)),
            tools=self.toolbox.specs,
            before=before,
        )
        self.retention.provenance.read(prompt, self.toolbox.own)
        return prompt

    def _kept_reply(self, ending: str) -> contextlib.AbstractAsyncContextManager[Reply]:
        assert self.session  # noqa: S101 - `send` has begun it
        return kept(self.sessions, self.session.id, ending)

    async def _answered(self, reply: Reply, is_last: bool) -> AsyncGenerator[ChatEvent, None]:
        """The model's answer; one that could not read all of it is sent less, once."""
        for is_again in (False, True):
            prompt = self.prompt
            assert prompt  # noqa: S101 - `send` has put it together
            try:
                async with contextlib.aclosing(self._streamed(prompt, reply, is_last)) as stream:
                    async for event in stream:
                        yield event
            except ModelError as error:
                if is_again or error.kind != "too_long" or not reply.is_empty:
                    raise
                # Counts are estimates, and a server may have less room than its model is known
                # for: what was refused says more than either.
                self._rooms[self.model.name] = int(prompt.tokens * _NARROWED)
                happenings = await self._assembled(None)
                if self.prompt and _words(self.prompt) == _words(prompt):
                    raise  # there is nothing that could be left out
                for one in happenings:
                    yield one
            else:
                return

    async def _streamed(
        self, prompt: Prompt, reply: Reply, is_last: bool
    ) -> AsyncGenerator[ChatEvent, None]:
        system = (*prompt.system, _LAST_ROUND) if is_last else prompt.system
        # They are named in the last round as well: a provider wants to know every tool that the
        # conversation speaks of.
        specs = self.toolbox.specs
        ask = Ask(system, prompt.messages, specs, self._most_tokens, may_use_tools=not is_last)
        tags = TagFilter()  # every door shows what became of the facts instead
        try:
            async with contextlib.aclosing(self.model.stream(ask)) as stream:
                async for event in stream:
                    await reply.take(event)
                    if isinstance(event, TextDelta):
                        if text := tags.feed(event.text):
                            yield TextDelta(text)
                        continue
                    if isinstance(event, Usage):
                        self._count(event)
                    elif isinstance(event, ToolUse | Finished) and (text := tags.finish()):
                        yield TextDelta(text)
                    yield event
        except ModelError:
            if text := tags.finish():
                yield TextDelta(text)
            raise

    def _count(self, usage: Usage) -> None:
        spent = self.spent
        self.spent = Usage(
            usage.input,  # what the last request took of the model's room
            spent.output + usage.output,
            usage.cached,
            spent.estimated or usage.estimated,
        )

    async def _used(self, reply: Reply) -> AsyncGenerator[ChatEvent, None]:
        """Use the tools that a reply asks for, one after the other."""
        for call in reply.calls[:CALLS]:
            yield ToolStarted(call, summary(call.name, call.input))
            start = time.monotonic()
            result = await self._result(call)
            await reply.answer(result)
            yield ToolDone(call, result, time.monotonic() - start)
            for saved in self.retention.unsaid():
                yield MemorySaved(saved)
        if more := len(reply.calls[CALLS:]):
            reply.ending = _TOO_MANY
            yield Notice(f"{more:,} more tools were not used: at most {CALLS} are in one reply.")

    async def _result(self, call: ToolUse) -> ToolResult:
        if call.broken:
            return ToolResult(call.id, f"The input is not a JSON object: {call.broken[:200]}", True)
        text, is_error = await self.toolbox.run(call.id, call.name, call.input)
        return ToolResult(call.id, text, is_error)

    # Facts

    async def _save(self, reply: str) -> None:
        """Keep the facts that a reply flags, each once, and none that it only repeats.

        Done to the end, also where the person stops the reply meanwhile: it is kept with these
        facts in it, and no later one would flag them again.
        """
        assert self.session  # noqa: S101 - `send` has begun it
        facts, notes = self.retention.heard(reply)
        name, by = self.session.id, self.model.name
        for fact in facts:
            keep = partial(self.retention.keep, fact, name, by=by)
            self._untold.append(MemorySaved(await self.away(keep)))
        synced = await self.away(self.retention.facts.sync) if facts else Synced()
        self._untold += (*describe_sync(synced), *map(notice, notes))

    def _told(self) -> Iterator[ChatEvent]:
        """What there is to tell; the rest stays where nobody listens to the end."""
        while self._untold:
            yield self._untold.pop(0)

    # Summaries

    async def compact(self, wish: str = "") -> str:
        """Put a summary in the place of everything said so far; every message is kept.

        The `wish` says what the summary should heed besides.
        """
        return await self._summaries.compact(self.session, self.model, wish)

    async def close(self, seconds: float = SUMMARY_SECONDS) -> None:
        """Leave a summary of the conversation behind, if there was one worth it.

        The model has so many seconds for it; without any, or without a model, it is a plain one.
        """
        await self.leave_plainly()
        await self.leave_well(seconds)

    async def leave_plainly(self) -> None:
        """Leave the summary that costs nothing, for whoever does not wait for a better one."""
        await self._summaries.leave_plainly(self.session)

    async def leave_well(self, seconds: float = SUMMARY_SECONDS) -> None:
        """Leave the model's summary after the plain one."""
        await self._summaries.leave_well(self.session, self.model, seconds)

    async def away(self, work: Callable[[], _Result]) -> _Result:
        """Do blocking work in a thread, alone with the App."""
        return await run_alone(self._turn, work)


def _words(prompt: Prompt) -> tuple[object, ...]:
    """All that is sent of a prompt."""
    return prompt.system, prompt.messages
