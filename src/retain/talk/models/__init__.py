"""Models to talk to: one protocol, and a table of those who keep it.

Nothing here connects to anyone before a model is asked, and no provider's package is loaded
before that either.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Final, Protocol

from retain.config import Config
from retain.talk.events import Ask, Event
from retain.talk.models.access import access
from retain.talk.models.errors import Kind, ModelError
from retain.talk.models.remote import RetryPolicy

__all__ = [
    "PROVIDERS",
    "Kind",
    "Model",
    "ModelError",
    "RetryPolicy",
    "context_tokens",
    "full_name",
    "known",
    "model",
    "parted",
    "provider",
]

PROVIDERS: Final = ("anthropic", "openai")

_USUAL_CONTEXT: Final = 128_000
# By how a name begins, the longer beginnings first.
_CONTEXTS: Final[Mapping[str, int]] = {
    "claude-fable-5": 1_000_000,
    "claude-mythos-5": 1_000_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "claude-": 200_000,
    "gpt-4.1": 1_000_000,
    "gpt-5": 272_000,
    "o3": 200_000,
    "o4": 200_000,
}
_CLAUDES: Final = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5")


class Model(Protocol):
    """A model that can be talked to."""

    name: str
    provider: str
    context_tokens: int

    async def prepare(self) -> None:
        """Load what the first reply needs, away from the event loop."""

    async def offered(self) -> list[str]:
        """The names of the models that the same server has."""

    def stream(self, ask: Ask) -> AsyncGenerator[Event, None]:
        """The reply as it comes, to its `Finished`, or a ModelError.

        It may be closed at any moment (`contextlib.aclosing`), and the connection is gone then.
        """


def model(
    name: str, config: Config, env: Mapping[str, str], *, policy: RetryPolicy | None = None
) -> Model:
    """A model by its name, or the configured one; raises where its key is missing.

    `openai:NAME` and `anthropic:NAME` say whose it is, where the name alone would mislead.
    """
    named, name = parted(name.strip() or config.text("chat.model").strip(), config)
    to = access(named, config, env)
    size = context_tokens(name, config)
    if named == "anthropic":
        from retain.talk.models.anthropic import Claude

        return Claude(name, to, size, policy or RetryPolicy())
    from retain.talk.models.openai import Compatible

    return Compatible(name, to, size, policy or RetryPolicy())


def full_name(one: Model) -> str:
    """A model's name with whose it is: it means the same whatever is configured later."""
    return f"{one.provider}:{one.name}"


def provider(name: str, config: Config) -> str:
    """Whose protocol a model is asked by."""
    return parted(name, config)[0]


def known(config: Config) -> list[str]:
    """Names to choose from before anyone was asked; `Model.offered` asks."""
    return list(dict.fromkeys([config.text("chat.model"), *_CLAUDES]))


def context_tokens(name: str, config: Config) -> int:
    """How many tokens a model can read: as configured, else by its name."""
    if given := config.number("chat.context_tokens"):
        return given
    return next(
        (size for start, size in _CONTEXTS.items() if name.startswith(start)), _USUAL_CONTEXT
    )


def parted(name: str, config: Config) -> tuple[str, str]:
    """Whose a model is, as its full name says or else by what is configured; and its own name."""
    # A colon alone says nothing: Ollama's names have one (`qwen3:8b`).
    start, colon, rest = name.partition(":")
    if colon and rest and start in PROVIDERS:
        return start, rest
    chosen = config.text("chat.provider")
    if chosen == "auto":
        chosen = "anthropic" if name.startswith("claude") else "openai"
    return chosen, name
