"""chat, ask, sessions, migrate: talking with a model, and the chats that are kept."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.cli.command import (
    Args,
    Argument,
    Output,
    arg,
    command,
    confirm,
    flag,
    open_app,
    plural,
    same_bank,
)
from retain.errors import NotFound, UsageError

if TYPE_CHECKING:
    from retain.app import App
    from retain.chat.plain import Lines
    from retain.sessions.files import ImportReport
    from retain.talk.chat import Chat
    from retain.talk.tools import Asker

_PATIENCE_SECONDS: Final = 3  # for what is piped to begin
_EXCERPT: Final = 200  # characters of a message that a search shows


@command(
    "chat",
    flag("--plain", "lines in and out, as in a pipe, without a screen"),
    arg("--model NAME", "talk to this model", default=""),
    arg("--resume SESSION", "go on with an earlier conversation", default=""),
    arg(
        "-c, --continue",
        "go on with the last conversation; the same as `--resume latest`",
        dest="resume",
        action="store_const",
        const="latest",
    ),
)
def _chat(args: Args) -> Output:
    """Talk with a model that remembers.

    A conversation that remembers: what fits is recalled before each reply, and facts that the
    model flags are kept as memories. `retain` alone opens it too, at a terminal. Without a
    terminal, or with --plain, replies are written to standard output and everything else to
    standard error: a piped text is one message; slash commands in its first lines are done before
    it. It ends with 1 when the model or a command fails, and does nothing that comes after it.

      retain chat
      retain chat --continue
      retain chat --resume session_20261116_001
      retain chat --model openai:gpt-5
      echo "What did we decide about caching?" | retain chat --plain
    """
    if args.json:
        raise UsageError("a chat is not answered in JSON", hint='retain ask "question" --json')
    has_screen = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return Output(
        None, code=_chat_on_screen(args) if has_screen and not args.plain else _chat_in_lines(args)
    )


def _chat_on_screen(args: Args) -> int:
    from retain.chat.screen import Terminal

    chats = contextlib.ExitStack()
    terminal = Terminal(lambda ask: chats.enter_context(_open_chat(args, ask)), resume=args.resume)
    try:
        terminal.run()
    except OSError:
        if not terminal.was_told:  # the terminal itself may be gone
            raise
    finally:
        chats.close()
        if terminal.was_told:
            _drop_lost_streams()
    if terminal.failure:
        raise terminal.failure
    return terminal.return_code or 0


def _drop_lost_streams() -> None:
    """Write nothing more to a terminal that is gone: the end would be told as a failure to."""
    for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
            os.write(stream.fileno(), b"")  # fails too where nothing is left to flush
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _open_chat(
    args: Args, ask: Asker | None, *, is_question: bool = False
) -> contextlib.closing[Chat]:
    from retain.talk.chat import Chat

    app = open_app(args, stays=True)
    return contextlib.closing(Chat(app, ask=ask, model=args.model, is_question=is_question))


def _chat_in_lines(args: Args) -> int:
    import asyncio

    from retain.chat import plain
    from retain.chat.texts import LEAVING_SECONDS

    lines, ask = _typed_lines()
    with _open_chat(args, ask) as chat:
        talk = plain.Plain(chat, sys.stdout, sys.stderr, is_quiet=args.quiet)

        async def converse() -> int:
            if args.resume:
                await chat.resume(args.resume)
            if lines:
                await talk.converse(lines)
                return 0
            text = _read_pipe()
            if not text.strip():
                raise UsageError(
                    "there was nothing to read on standard input",
                    hint='At a terminal `retain chat` talks; `echo "Hello" | retain chat` pipes.',
                )
            code = await talk.pipe(plain.messages(text))
            await chat.leave(0 if code else LEAVING_SECONDS)
            return code

        return asyncio.run(converse())


def _typed_lines() -> tuple[Lines | None, Asker | None]:
    """What is typed at the terminal, and whom a tool can ask there; nothing behind a pipe."""
    from retain.chat.plain import Lines, asker

    lines = Lines(sys.stdin.fileno()) if sys.stdin.isatty() else None
    return lines, asker(lines, sys.stderr) if lines and sys.stderr.isatty() else None


def _read_pipe() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


@command(
    "ask",
    arg("question", "the question; what is piped is added, `-` waits for it", nargs="*"),
    arg("--model NAME", "ask this model", default=""),
)
def _ask(args: Args) -> Output:
    """Ask one question, and get the answer on standard output.

    One question to the model, with what is remembered; the answer is written as it comes. It is
    kept as a conversation like any other, and facts in it are saved. Without a terminal, tools that
    would need your word are refused.

      retain ask "What did we decide about caching?"
      git diff | retain ask "Does this break what we agreed on?"
      retain ask "Which port does the API use?" --json
    """
    import asyncio

    from retain.chat.plain import Exchange, Plain

    question = " ".join(word for word in args.question if word != "-").strip()
    piped = _read_pipe().strip() if "-" in args.question or _is_piped() else ""
    if not question:
        question, piped = piped, ""
    if not question:
        raise UsageError("there is no question", hint='retain ask "What did we decide?"')
    with _open_chat(args, _typed_lines()[1], is_question=True) as chat:
        talk = Plain(chat, sys.stdout, sys.stderr, is_quiet=args.quiet)

        async def exchange() -> Exchange:
            try:  # what is piped may be anyone's text, and is quoted
                return await talk.exchange(question, piped, is_silent=args.json)
            finally:
                await chat.leave(0)  # one question needs no summary of a model's

        answer = asyncio.run(exchange())
        return Output(
            {
                "answer": answer.answer,
                "session": chat.session.id if chat.session else "",
                "model": chat.model_name,
                "usage": answer.usage._asdict(),
                "memories_saved": [
                    {
                        "fact": saved.fact,
                        "ref": saved.ref,
                        "status": saved.status,
                        "replaced": saved.replaced,
                    }
                    for saved in answer.saved
                ],
                "recalled": answer.recalled,
            }
        )


def _is_piped() -> bool:
    """Whether something is piped in; a pipe that only happens to be open keeps nobody waiting."""
    import select
    import stat

    mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin and not sys.stdin.closed else 0
    if not stat.S_ISFIFO(mode):
        return stat.S_ISREG(mode)
    if select.select([sys.stdin], [], [], _PATIENCE_SECONDS)[0]:
        return True
    print("Nothing came on standard input, and it is not waited for.", file=sys.stderr)
    return False


# sessions


def _session_arg(**settings: str) -> Argument:
    about = "a session: its id, how that begins, or latest"
    return arg("session ID", about, **settings)


@command(
    "sessions",
    about="""\
List, read, search, export, import and delete chats.

Chats are kept in your own bank, in sessions.db. An export can be imported again,
here or elsewhere; nothing is doubled, and a chat that went on since is brought up to date.

  retain sessions
  retain sessions show latest
  retain sessions search "postgres migration"
  retain sessions export session_20260218_001 --format md
  retain sessions import ~/Downloads/chatgpt-export.zip
  retain sessions import ~/.claude/projects/-home-ada-app
  retain sessions delete session_20260218_001""",
)
@command(
    "sessions list",
    arg("query QUERY", "only those that speak of this", nargs="?", default=""),
    arg("--limit N", "default: 15", default=15),
)
def _list(app: App, query: str = "", limit: int = 15) -> Output:
    """list sessions, the one used last first"""
    from retain.cli.render import Table

    sessions = app.sessions.list(limit, query)
    data, rows = [], []
    for session in sessions:
        optional = {"summary": session.summary or None, "model": session.model or None}
        data.append({**session._asdict(), "tags": list(session.tags), **optional})
        tags = ", ".join(session.tags)
        rows.append(
            (session.id, session.updated_at[:16], str(session.messages), session.title, tags)
        )
    table = Table(
        ("ID", "Last used", "Messages", "Title", "Tags"),
        rows,
        empty=f"No session speaks of {query!r}." if query else "There are no sessions.",
        flexible=("Title", "Tags"),
    )
    return Output(data, table=table, quiet=[session.id for session in sessions])


@command(
    "sessions search",
    arg("query QUERY", "words to look for"),
    arg("--limit N", "default: 10", default=10),
)
def _search(app: App, query: str, limit: int) -> Output:
    """find messages and facts in all sessions"""
    found = app.sessions.search(query, limit)
    lines = []
    for hit in found:
        text = " ".join(hit.text.split())
        text = f"{text[: _EXCERPT - 1]}…" if len(text) > _EXCERPT else text
        where = "memory" if hit.kind == "memory" else f"{hit.session_id}: {hit.title}"
        lines.append(f"[{where}] {text}")
    return Output(
        [{**hit._asdict(), "session_id": hit.session_id or None} for hit in found],
        lines,
        quiet=[hit.session_id for hit in found if hit.session_id],
        messages=[] if found else [f"No results found for {query!r}."],
    )


@command(
    "sessions show",
    _session_arg(),
    arg("--last N", "only the last N messages"),
)
def _show(app: App, session: str, last: int | None) -> Output:
    """show what was said in a session"""
    from retain.sessions import formats

    chat = app.sessions.chat(app.sessions.resolve(session).id)
    if last:
        chat = chat._replace(messages=chat.messages[-last:])
    return Output(formats.to_dict(chat), formats.as_markdown(chat))


@command(
    "sessions export",
    _session_arg(nargs="*"),
    flag("--all", "every one there is"),
    arg("--format json|jsonl|md", "json (default), jsonl, or md for reading", dest="form"),
    arg("--out FILE", "a new file; default: standard output"),
)
def _export(app: App, args: Args) -> Output:
    """write sessions as JSON, JSON lines or Markdown"""
    from retain.sessions.files import export
    from retain.sessions.formats import FORMATS, to_dict

    if args.all == bool(args.session):
        raise UsageError("name the sessions, or say --all for every one of them")
    sessions = app.sessions
    names = [sessions.resolve(name).id for name in args.session]
    if args.all:
        names = [session.id for session in sessions.list(1_000_000_000)][::-1]
    chats = [sessions.chat(name) for name in dict.fromkeys(names)]
    if args.out is None:
        documents = [to_dict(chat) for chat in chats]
        data = documents[0] if len(documents) == 1 else documents
        return Output(data, raw=FORMATS[args.form](*chats).encode())
    path = os.path.abspath(os.path.expanduser(args.out))
    export(path, *chats, form=args.form)
    text = f"Exported {plural(len(chats), 'session')} to {path}\n"
    report = {"path": path, "format": args.form, "sessions": [chat.id for chat in chats]}
    return Output(report, text, quiet=[path])


@command("sessions delete", _session_arg(), "--yes")
def _delete(app: App, session: str, yes: bool, args: Args) -> Output:
    """move a session to the trash"""
    import shlex

    chat = app.sessions.resolve(session)
    if not yes:
        what = f"{chat.id} ({chat.title}, {plural(chat.messages, 'message')})"
        warning = f"deleting moves {what} to the trash"
        confirm(f"Move {what} to the trash?", warning, "Nothing was deleted.")
    path = app.sessions.delete(chat.id).path
    back = f"retain sessions import {shlex.quote(path)}{same_bank(args)}"
    return Output(
        {"status": "deleted", "id": chat.id, "title": chat.title, "moved_to": path},
        [f"Deleted session: {chat.id} ({chat.title})", f"In the trash as: {path}"],
        quiet="",
        messages=[f"Bring it back with: {back}"],
    )


@command(
    "sessions import",
    arg("sources SRC", "a .json or .jsonl file, a .zip of them, or a directory", nargs="+"),
    "--dry-run",
    "--allow-secret",
)
def _import(app: App, sources: Sequence[str], dry_run: bool, allow_secret: bool) -> Output:
    """take in chats of Retain, Claude Code, Codex, ChatGPT and Claude"""
    try:
        done = [
            app.import_chats(source, allow_secret=allow_secret, dry_run=dry_run)
            for source in sources
        ]
    except NotFound as error:
        error.hint = "Give a .json, .jsonl or .zip file, or a directory of them."
        raise
    lines = []
    for imported in done:
        lines.append(f"{'Would import' if dry_run else 'Imported'} from {imported.source}:")
        lines += [f"  {line}" for line in _count_chats(imported)]
    data = [{**imported._asdict(), "dry_run": dry_run} for imported in done]
    return Output(
        data[0] if len(data) == 1 else data,
        lines,
        quiet=[name for imported in done for name in (*imported.new, *imported.grown)],
        warnings=[warning for imported in done for warning in imported.warnings],
    )


def _count_chats(imported: ImportReport) -> list[str]:
    counts = (
        (len(imported.new), "new"),
        (len(imported.grown), "went on since the last time"),
        (len(imported.unchanged), "already here"),
        (len(imported.differing), "different here and left as they are"),
    )
    lines = [f"{number} {what}" for number, what in counts if number]
    return [*lines, f"{plural(imported.messages, 'message')} added"]


@command(
    "migrate",
    arg("path PATH", "the workspace, or its directory (default: here)", nargs="?", default="."),
    "--dry-run",
    "--allow-secret",
)
def _migrate(app: App, path: str, dry_run: bool, allow_secret: bool) -> Output:
    """Bring a chat workspace of plain files into the bank.

    Reads a workspace/ with context/system_prompt.md, memories/ (USER.md, PREFERENCES.md,
    MEMORY.md), skills/ and sessions/ (*.json, *.jsonl), and its retain.db or spark.db if there is
    one. Profiles and skills are copied where the bank has none, each bullet of MEMORY.md becomes a
    fact, any other *.md in memories/ a memory, or facts if it is a list alone, and sessions are
    imported.
    The workspace is only read; a second time changes nothing.

      retain migrate ~/retain --global --dry-run
      retain migrate ~/retain --global
    """
    from retain.migration import migrate

    done = migrate(app, path, allow_secret=allow_secret, dry_run=dry_run)
    sessions = done.sessions._asdict()
    del sessions["source"], sessions["warnings"]
    data: dict[str, Any] = {**done._asdict(), "sessions": sessions}
    data["files"] = [file._asdict() for file in done.files]
    outcomes = {
        "copied": "copied",
        "unchanged": "already here",
        "kept": "left alone: the bank has its own",
        "deleted": "left alone: it was deleted here",
        "facts": "its bullets are facts",
    }
    verb = "Would migrate" if done.dry_run else "Migrated"
    lines = [f"{verb} {done.source} to {app.location.root}:"]
    lines += [f"  {file.name}: {outcomes[file.status]}" for file in done.files]
    lines.append(f"  facts: {len(done.facts)} new, {done.known_facts} already here")
    if any(done.sessions[1:5]):
        lines.append(f"  sessions: {', '.join(_count_chats(done.sessions))}")
    return Output(data, lines, quiet="", warnings=done.warnings)
