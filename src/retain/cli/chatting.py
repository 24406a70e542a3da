"""chat and ask."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final

from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Output, wants_json
from retain.errors import UsageError

if TYPE_CHECKING:
    from retain.chat.plain import Exchange, Lines
    from retain.talk.chat import Chat
    from retain.talk.tools import Asker

__all__ = ["ask_command", "chat_command"]

_PATIENCE_SECONDS: Final = 3  # for what is piped to begin


def _chat_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--plain", action="store_true", help="lines in and out, as in a pipe, without a screen"
    )
    parser.add_argument("--model", metavar="NAME", default="", help="talk to this model")
    parser.add_argument(
        "--resume", metavar="ID", default="", help="go on with an earlier conversation"
    )
    parser.add_argument(
        "-c",
        "--continue",
        dest="resume",
        action="store_const",
        const="latest",
        help="go on with the last conversation; the same as `--resume latest`",
    )


def _chat(args: argparse.Namespace) -> Output:
    if wants_json(args):
        raise UsageError("a chat is not answered in JSON", hint='retain ask "question" --json')
    return Output(None, code=_plain(args) if args.plain or not _has_screen() else _screen(args))


def _has_screen() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _screen(args: argparse.Namespace) -> int:
    from retain.chat.screen import Terminal

    chats: list[Chat] = []

    def open_chat(ask: Asker) -> Chat:
        chats.append(_opened(args, ask))
        return chats[0]

    terminal = Terminal(open_chat, resume=args.resume)
    try:
        terminal.run()
    except OSError:
        if not terminal.was_told:  # the terminal itself may be gone
            raise
    finally:
        for chat in chats:
            chat.close()
        if terminal.was_told:
            _let_go()
    if terminal.failure:
        raise terminal.failure
    return terminal.return_code or 0


def _let_go() -> None:
    """Write nothing more to a terminal that is gone: the end would be told as a failure to."""
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _opened(args: argparse.Namespace, ask: Asker | None) -> Chat:
    from retain.talk.chat import Chat

    return Chat(open_app(args, stays=True), ask=ask, model=args.model)


@contextlib.contextmanager
def _talking(args: argparse.Namespace, ask: Asker | None) -> Iterator[Chat]:
    chat = _opened(args, ask)
    try:
        yield chat
    finally:
        chat.close()


def _plain(args: argparse.Namespace) -> int:
    from retain.chat import plain
    from retain.chat.leaving import LEAVING_SECONDS

    lines = _lines()
    with _talking(args, _asker(lines)) as chat:
        talk = plain.Plain(chat, sys.stdout, sys.stderr, is_quiet=getattr(args, "quiet", False))

        async def whole() -> int:
            if args.resume:
                await chat.resume(args.resume)
            if lines:
                await talk.converse(lines)
                return 0
            said = _piped()
            if not said.strip():
                raise UsageError(
                    "there was nothing to read on standard input",
                    hint='At a terminal `retain chat` talks; `echo "Hello" | retain chat` pipes.',
                )
            code = await talk.pipe(plain.messages(said))
            await chat.leave(0 if code else LEAVING_SECONDS)
            return code

        return _run(whole())


def _lines() -> Lines | None:
    """What is typed at the terminal; None behind a pipe."""
    from retain.chat.plain import Lines

    return Lines(sys.stdin.fileno()) if sys.stdin.isatty() else None


def _asker(lines: Lines | None) -> Asker | None:
    """Whoever sits at the terminal, for a tool's questions; nobody behind a pipe."""
    from retain.chat.plain import asker

    return asker(lines, sys.stderr) if lines and sys.stderr.isatty() else None


def _piped() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


def _run(work: Coroutine[Any, Any, int]) -> int:
    import asyncio

    return asyncio.run(work)


# ask


def _ask_arguments(parser: Parser) -> None:
    parser.add_argument(
        "question", nargs="*", help="the question; what is piped is added, `-` waits for it"
    )
    parser.add_argument("--model", metavar="NAME", default="", help="ask this model")


def _ask(args: argparse.Namespace) -> Output:
    from retain.chat.plain import Plain

    question, quoted = _question(args.question)
    if not question:
        raise UsageError("there is no question", hint='retain ask "What did we decide?"')
    found: list[Exchange] = []
    with _talking(args, _asker(_lines())) as chat:
        talk = Plain(chat, sys.stdout, sys.stderr, is_quiet=getattr(args, "quiet", False))

        async def whole() -> int:
            try:
                found.append(await talk.exchange(question, quoted, is_silent=wants_json(args)))
            finally:
                await chat.leave(0)  # one question needs no summary of a model's
            return 0

        _run(whole())
        session = chat.session.id if chat.session else ""
        return Output(_answer(found[0], session, chat.model_name))


def _question(words: list[str]) -> tuple[str, str]:
    """What is asked, and what is piped to a question: that may be anyone's text."""
    text = " ".join(word for word in words if word != "-").strip()
    piped = _piped().strip() if "-" in words or _is_sent() else ""
    return (text, piped) if text else (piped, "")


def _is_sent() -> bool:
    """Whether something is piped in; a pipe that only happens to be open keeps nobody waiting."""
    import select
    import stat

    mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin and not sys.stdin.closed else 0
    if stat.S_ISREG(mode):
        return True
    if not stat.S_ISFIFO(mode):
        return False
    if select.select([sys.stdin], [], [], _PATIENCE_SECONDS)[0]:
        return True
    print("Nothing came on standard input, and it is not waited for.", file=sys.stderr)
    return False


def _answer(found: Exchange, session: str, model: str) -> dict[str, object]:
    return {
        "answer": found.answer,
        "session": session,
        "model": model,
        "usage": {
            "input": found.usage.input,
            "output": found.usage.output,
            "cached": found.usage.cached,
            "estimated": found.usage.estimated,
        },
        "memories_saved": [
            {"fact": one.fact, "ref": one.ref, "status": one.status, "replaced": one.replaced}
            for one in found.saved
        ],
        "recalled": found.recalled,
    }


chat_command = Command(
    _chat_arguments,
    _chat,
    """A conversation that remembers: what fits is recalled before each reply, and facts that the
model flags are kept as memories. `retain` alone opens it too, at a terminal. Without a terminal,
or with --plain, replies are written to standard output and everything else to standard error: a
piped text is one message; slash commands in its first lines are done before it. It ends with 1 when
the model or a command fails, and does nothing that comes after it.

  retain chat
  retain chat --continue
  retain chat --resume session_20261116_001
  retain chat --model openai:gpt-5
  echo "What did we decide about caching?" | retain chat --plain""",
)
ask_command = Command(
    _ask_arguments,
    _ask,
    """One question to the model, with what is remembered; the answer is written as it comes. It is
kept as a conversation like any other, and facts in it are saved. Without a terminal, tools that
would need your word are refused.

  retain ask "What did we decide about caching?"
  git diff | retain ask "Does this break what we agreed on?"
  retain ask "Which port does the API use?" --json""",
)
