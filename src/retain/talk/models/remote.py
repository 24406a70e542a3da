"""What models behind a server have in common, whoever's protocol they speak."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from retain.talk.events import Ask, Event
from retain.talk.models import wire
from retain.talk.models.access import Access
from retain.talk.models.errors import ModelError
from retain.talk.models.patience import Patience, patiently


class Growing(Protocol):
    """A reply being put together from the pieces of its stream."""

    begun: bool
    stop: str  # why it ended, once it has

    def take(self, piece: Any) -> Iterator[Event]:
        """What one more piece brings."""
        ...

    def ending(self, ask: Ask) -> Iterator[Event]:
        """What there is to say when the stream is at its end."""
        ...


class Remote(ABC):
    """A model that is asked through its provider's own package."""

    provider: str

    def __init__(self, name: str, to: Access, context_tokens: int, patience: Patience) -> None:
        self.name = name
        self.context_tokens = context_tokens
        self._to = to
        self._patience = patience

    async def prepare(self) -> None:
        """Load the package, away from the event loop: it takes a second or two."""
        await asyncio.to_thread(self._load)

    async def offered(self) -> list[str]:
        """The names of the models that there are."""
        await self.prepare()
        try:
            async with self._client() as client:
                return [one.id async for one in self._listed(client)]
        except self._errors() as error:
            raise self._failure(error) from None

    def stream(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """The reply as it comes; closing the generator closes the connection."""
        request = self._request(ask)
        return patiently(lambda: self._attempt(request, ask), self._patience)

    async def _attempt(self, request: dict[str, Any], ask: Ask) -> AsyncGenerator[Event, None]:
        await self.prepare()
        reply = self._reply()
        try:
            async with self._client() as client, await self._opened(client, request) as stream:
                async for piece in stream:
                    for one in reply.take(piece):
                        yield one
            if not reply.stop:
                raise wire.cut_off(self._to) if reply.begun else wire.garbled(self._to)
            # What a server says at the end can make as little sense as anything before.
            for one in reply.ending(ask):
                yield one
        except self._errors() as error:
            raise self._failure(error) from None

    # What each does in its own way

    @abstractmethod
    def _load(self) -> None:
        """Load the package; blocking."""

    @abstractmethod
    def _client(self) -> AbstractAsyncContextManager[Any]:
        """The package's client, with the connections of one reply."""

    @abstractmethod
    def _listed(self, client: Any) -> AsyncIterator[Any]:
        """The models that the server has."""

    @abstractmethod
    def _request(self, ask: Ask) -> dict[str, Any]:
        """The request's body."""

    @abstractmethod
    async def _opened(self, client: Any, request: dict[str, Any]) -> Any:
        """The stream of the reply to a request."""

    @abstractmethod
    def _reply(self) -> Growing:
        """A reply of which nothing has come yet."""

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """All that can go wrong in the package."""

    @abstractmethod
    def _failure(self, error: Exception) -> ModelError:
        """What one of these means."""
