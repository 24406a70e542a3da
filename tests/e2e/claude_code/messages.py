"""A model whose part is written beforehand, line by line, for the real client to talk to."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.talk.servers import Answer, Asked, Server, Use, claude, running

__all__ = ["Line", "Model", "say", "use"]


class Line(NamedTuple):
    """One line of the model's part: said once, when the last message has these words."""

    cue: str
    answer: Answer


def say(cue: str, text: str) -> Line:
    """Answers with a text."""
    return Line(cue, claude(text))


def use(cue: str, tool: str, **arguments: Any) -> Line:
    """Answers by using a tool."""
    return Line(cue, claude(Use(tool, arguments)))


class Model:
    """Serves the Messages API and keeps every request; `with Model(...) as model`."""

    _server: Server

    def __init__(self, *lines: Line) -> None:
        self._lines = lines
        self._open = ExitStack()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def unsaid(self) -> list[str]:
        """The cues that never came."""
        return self._server.unheard

    @property
    def asked(self) -> list[Asked]:
        """The requests of the conversation: those for titles and the like offer no tools."""
        return [one for one in self._server.asked if one.path == "/v1/messages" and one.tools]

    def __enter__(self) -> Self:
        self._server = self._open.enter_context(running())
        for line in self._lines:
            self._server.hears(*line)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()
