"""What the chat says besides the model: the same words on the screen and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from retain.text.sanitize import flat, visible

if TYPE_CHECKING:
    from retain.errors import RetainError
    from retain.talk.events import Finished, Retrying


# For the model's summary while the person waits; one that is made behind may take longer.
LEAVING_SECONDS: Final = 6.0
TWICE_SECONDS: Final = 2.0  # within which a second Ctrl+C leaves

STOPPED: Final = "■ Stopped. What had come is kept."
LEAVE_AGAIN: Final = "Press Ctrl+C again to leave."
SAVING: Final = "Saving a summary of this conversation… (Ctrl+C skips it)"

_SETUP: Final = """\
## There is no model to talk to yet

{message}. To talk to `{model}`, set `{variable}` in your environment, or write
`{variable}=...` into `{file}`, readable by you alone (`chmod 600`). Then start `retain` again.

To talk to another:

{local}

**Claude** with `ANTHROPIC_API_KEY`, **OpenAI** with `OPENAI_API_KEY`: set it, and
`retain config set chat.model NAME --global`.

Without a model: `/search`, `/memories`, `/remember`, `/sessions`, `/help`.
"""


def inert(text: str) -> str:
    """A text whose characters cannot act on a terminal; line ends of any kind are one kind."""
    return visible(text.replace("\r\n", "\n"))


def recalled(count: int) -> str:
    """How much of what is remembered the model was shown."""
    what, which = ("memory", "it") if count == 1 else ("memories", "them")
    return f"◇ {count} {what} recalled · /context shows {which}"


def error(what: RetainError | OSError) -> str:
    """An error in one line, with what to do about it where that is known."""
    if isinstance(what, OSError):
        where = f"{flat(what.filename)}: " if isinstance(what.filename, str) else ""
        return f"✗ {where}{flat(what.strerror or str(what))}."
    message = flat(what.message)
    hint = f" {flat(what.hint)}" if what.hint else ""
    return f"✗ {message[:1].upper()}{message[1:]}.{hint}"


def undone(commands: Sequence[str]) -> str:
    """Which commands waited and are not done."""
    return f"Not done: {', '.join(flat(one, 100) for one in commands)} (Up brings it back)"


def retrying(what: Retrying) -> str:
    """That the model is asked again, and when."""
    return f"{flat(what.why)}: asking again in {what.seconds:.0f} s"


def finished(what: Finished) -> str:
    """Why a reply ended early; empty for one that is complete."""
    if what.reason == "length":
        return "The reply was cut: it reached its greatest length (chat.max_tokens)."
    if what.reason == "refused":
        return "The model declined to answer. Say it in other words, or choose another with /model."
    return ""


def setup(message: str, model: str, variable: str, file: str) -> str:
    """How a model gets its key, and which ones need none, as Markdown."""
    from retain.talk.models.access import LOCAL  # not before the first paint

    said = flat(message)
    return _SETUP.format(
        message=said[:1].upper() + said[1:],
        model=flat(model, 60),
        variable=flat(variable, 60),
        file=flat(file),
        local=LOCAL,
    )


def welcome(place: str) -> str:
    """The first line of a chat."""
    where = f" · {flat(place, 60)}" if place else ""
    return f"Retain remembers what matters{where}\n/help lists commands · Ctrl+C twice leaves"


def amount(count: int) -> str:
    """A number of tokens in few characters: 950, 3.2k, 195k, 1M."""
    if count < 1000:
        return str(count)
    if count < 1_000_000:
        return f"{count / 1000:.1f}k" if count < 10_000 else f"{count // 1000}k"
    return f"{count / 1_000_000:.1f}M".replace(".0M", "M")
