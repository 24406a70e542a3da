"""What models behind a server have in common, whoever's protocol they speak."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from retain.talk.events import Ask, Event, Retrying, Thinking
from retain.talk.models.access import Access
from retain.talk.models.errors import ModelError, describe, explain

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx2


class RetryPolicy(NamedTuple):
    """Seconds: before each new attempt, and at most for each step of one.

    The packages' own retries wait as long as a server asks them to, unseen, so they are off.
    """

    pauses: tuple[float, ...] = (1, 2, 4, 8)
    longest: float = 60  # a server that asks for a longer wait is not waited for
    connect: float = 10
    # A model may think for minutes, or have to be loaded first, and not every server sends signs of
    # life meanwhile.
    read: float = 300


class PartialReply(Protocol):
    """A reply being put together from the pieces of its stream."""

    has_begun: bool
    stop: str  # why it ended, once it has

    def take(self, piece: Any) -> Iterator[Event]:
        """Return what one more piece brings."""
        ...

    def finish(self, ask: Ask) -> Iterator[Event]:
        """Return what there is to say when the stream is at its end."""
        ...


class RemoteModel(ABC):
    """A model that is asked through its provider's own package."""

    provider: str

    def __init__(self, name: str, to: Access, context_tokens: int, policy: RetryPolicy) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self._to = to
        self._policy = policy

    async def prepare(self) -> None:
        """Load the package, away from the event loop: it takes a second or two."""
        await asyncio.to_thread(self._load)

    async def offered(self) -> list[str]:
        """List the names of the models that there are."""
        await self.prepare()
        try:
            async with self._client() as client:
                return [model.id async for model in self._list(client)]
        except Exception as error:  # noqa: BLE001 - the packages raise anything on nonsense
            raise explain(error, self._to, self.name, self._policy.read) from None

    async def stream(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """Yield the reply as it comes; one that has begun is never repeated.

        Closing the generator closes the connection.
        """
        request = self._request(ask)
        pauses = iter(self._policy.pauses)
        while True:
            has_begun = False
            try:
                async with aclosing(self._attempt(request, ask)) as events:
                    async for event in events:
                        has_begun = has_begun or not isinstance(event, Thinking)
                        yield event
                    return
            except ModelError as error:
                if has_begun:
                    raise _break(error) from None
                seconds = max(next(pauses, self._policy.longest + 1), error.retry_after or 0)
                if not (error.may_retry and seconds <= self._policy.longest):
                    raise
                retrying = Retrying(seconds, error.message)
            yield retrying
            await asyncio.sleep(retrying.seconds)

    async def _attempt(self, request: dict[str, Any], ask: Ask) -> AsyncGenerator[Event, None]:
        await self.prepare()
        reply = self._reply()
        try:
            async with self._client() as client, await self._open(client, request) as stream:
                async for piece in stream:
                    for event in reply.take(piece):
                        yield event
            # What a server says at the end can make as little sense as anything before.
            last = list(reply.finish(ask)) if reply.stop else []
        except Exception as error:  # noqa: BLE001 - the packages raise anything on nonsense
            raise explain(error, self._to, self.name, self._policy.read) from None
        if not reply.stop:
            raise describe("cut_off" if reply.has_begun else "garbled", self._to)
        for event in last:
            yield event

    def _http_client(self) -> httpx2.AsyncClient:
        """Return connections for one reply; they are gone when it is closed.

        Redirects are not followed: the key and the conversation go where the person said. A proxy
        has no way to a server on this machine.
        """
        import httpx2

        return httpx2.AsyncClient(
            verify=tls(),
            timeout=httpx2.Timeout(self._policy.read, connect=self._policy.connect),
            follow_redirects=False,
            trust_env=not self._to.is_local,
        )

    # What each does in its own way

    @abstractmethod
    def _load(self) -> None:
        """Load the package; blocking."""

    @abstractmethod
    def _client(self) -> AbstractAsyncContextManager[Any]:
        """Return the package's client, with the connections of one reply."""

    @abstractmethod
    def _list(self, client: Any) -> AsyncIterator[Any]:
        """List the models that the server has."""

    @abstractmethod
    def _request(self, ask: Ask) -> dict[str, Any]:
        """Return the request's body."""

    @abstractmethod
    async def _open(self, client: Any, request: dict[str, Any]) -> Any:
        """Return the stream of the reply to a request."""

    @abstractmethod
    def _reply(self) -> PartialReply:
        """Return a reply of which nothing has come yet."""


@cache
def tls() -> SSLContext:
    """Return the certificates that are trusted; nothing else here takes as long to load."""
    import httpx2

    return httpx2.create_ssl_context()


def _break(error: ModelError) -> ModelError:
    if error.kind == "broken_stream":
        return error
    return ModelError("broken_stream", f"the reply broke off: {error.message}", hint=error.hint)
