"""What the chat says besides the model: the same words on the screen and in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from retain.guard.characters import visible

if TYPE_CHECKING:
    from retain.errors import RetainError
    from retain.talk.events import Finished, Retrying
    from retain.talk.retention import Saved

__all__ = [
    "LEAVE_AGAIN",
    "SAVING",
    "STOPPED",
    "amount",
    "error",
    "finished",
    "flat",
    "inert",
    "recalled",
    "retrying",
    "saved",
    "setup",
    "welcome",
]

STOPPED: Final = "■ Stopped. What had come is kept."
LEAVE_AGAIN: Final = "Press Ctrl+C again to leave."
SAVING: Final = "Saving a summary of this conversation… (Ctrl+C skips it)"

_MOST: Final = 300
_SETUP: Final = """\
## There is no model to talk to yet

{message}. Choose one of these, then start `retain` again:

- **Claude**: set `ANTHROPIC_API_KEY` in your environment.
- **OpenAI or a service like it**: set `OPENAI_API_KEY`, and name the model:
  `retain config set chat.model NAME`.
- **A model on this machine** (Ollama, LM Studio, vLLM), without a key:
  `retain config set chat.base_url http://127.0.0.1:11434/v1` and
  `retain config set chat.model NAME`.

A key may also stand as `{variable}=...` in `{file}`, readable by you alone
(`chmod 600`). It is never written anywhere else.

All that needs no model works now: `/search`, `/memories`, `/remember`, `/sessions`, `/help`.
"""


def inert(text: str) -> str:
    """A text whose characters cannot act on a terminal; line ends of any kind are one kind."""
    return visible(text.replace("\r\n", "\n"))


def flat(text: str, most: int = _MOST) -> str:
    """A text on one line, no longer than that, whose characters cannot act on a terminal."""
    line = visible(" ".join(text.split()), keep_newlines=False)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def saved(one: Saved) -> str:
    """What became of a fact, with how to take it back."""
    fact = flat(one.fact)
    if one.status == "known":
        return f"✦ Known already: {fact}"
    if not one.ref:
        why = f" ({flat('; '.join(one.notes))})" if one.notes else ""
        return f"✦ Not saved: {fact}{why}"
    took = f" · replaces {flat(one.replaced)}" if one.replaced else ""
    return f"✦ Memory saved: {fact}{took} · /forget {flat(one.ref.rpartition('/')[2], 80)}"


def recalled(count: int) -> str:
    """How much of what is remembered the model was shown."""
    return f"◇ {count} {'memory' if count == 1 else 'memories'} recalled · /context shows them"


def error(what: RetainError) -> str:
    """An error in one line, with what to do about it."""
    message = flat(what.message)
    hint = f" {flat(what.hint)}" if what.hint else ""
    return f"✗ {message[:1].upper()}{message[1:]}.{hint}"


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


def setup(message: str, variable: str, file: str) -> str:
    """How a model gets its key, as Markdown."""
    said = flat(message)
    return _SETUP.format(message=said[:1].upper() + said[1:], variable=variable, file=flat(file))


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
