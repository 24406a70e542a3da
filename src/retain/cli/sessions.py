"""sessions, migrate: chats listed, read, searched, taken out and in, and deleted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.cli.inputs import add_secrets, complete, count
from retain.cli.parser import Command, Parser, add_tools, open_app, run_tool, same_bank
from retain.cli.render import Output, Table
from retain.errors import UsageError

if TYPE_CHECKING:
    from retain.chats import Imported
    from retain.migration import Migrated
    from retain.sessions.model import Found, Session

__all__ = ["migrate_command", "sessions_command"]

_NONE: Final = "There are no sessions."
_EXCERPT: Final = 200  # characters of a message that a search shows


def _arguments(parser: Parser) -> None:
    # Without a word it lists.
    parser.set_defaults(tool_run=_list, query="", limit=15, tool="list")
    add_tools(parser, _TOOLS)


def _add_ids(parser: Any, **settings: str) -> None:
    about = "a session: its id, how that begins, or latest"
    complete(parser.add_argument("id", metavar="ID", help=about, **settings), "sessions")


# list and search


def _list_arguments(parser: Any) -> None:
    about = "only those that speak of this"
    parser.add_argument("query", metavar="QUERY", nargs="?", default="", help=about)
    parser.add_argument("--limit", type=count, default=15, metavar="N", help="default: 15")


def _list(args: argparse.Namespace) -> Output:
    found = open_app(args).sessions.list(args.limit, args.query)
    table = Table(
        ("ID", "Last used", "Messages", "Title", "Tags"),
        [
            (one.id, one.updated_at[:16], str(one.messages), one.title, ", ".join(one.tags))
            for one in found
        ],
        empty=f"No session speaks of {args.query!r}." if args.query else _NONE,
        flexible=("Title", "Tags"),
    )
    ids = "".join(f"{one.id}\n" for one in found)
    return Output([_session(one) for one in found], table=table, quiet=ids)


def _session(one: Session) -> dict[str, object]:
    return {
        **one._asdict(),
        "tags": list(one.tags),
        "summary": one.summary or None,
        "model": one.model or None,
    }


def _search_arguments(parser: Any) -> None:
    parser.add_argument("query", metavar="QUERY", help="words to look for")
    parser.add_argument("--limit", type=count, default=10, metavar="N", help="default: 10")


def _search(args: argparse.Namespace) -> Output:
    found = open_app(args).sessions.search(args.query, args.limit)
    text = "".join(f"{_hit(one)}\n" for one in found)
    messages = [] if found else [f"No results found for {args.query!r}."]
    data = [{**one._asdict(), "session_id": one.session_id or None} for one in found]
    ids = "".join(f"{one.session_id}\n" for one in found if one.session_id)
    return Output(data, text, quiet=ids, messages=messages)


def _hit(one: Found) -> str:
    text = " ".join(one.text.split())
    text = f"{text[: _EXCERPT - 1]}…" if len(text) > _EXCERPT else text
    where = "memory" if one.kind == "memory" else f"{one.session_id}: {one.title}"
    return f"[{where}] {text}"


# show and export


def _show_arguments(parser: Any) -> None:
    _add_ids(parser)
    parser.add_argument("--last", type=count, metavar="N", help="only the last N messages")


def _show(args: argparse.Namespace) -> Output:
    from retain.sessions import formats

    sessions = open_app(args).sessions
    chat = sessions.chat(sessions.resolve(args.id).id)
    if args.last:
        chat = chat._replace(said=chat.said[-args.last :])
    return Output(formats.document(chat), formats.as_markdown(chat))


def _export_arguments(parser: Any) -> None:
    from retain.sessions.formats import FORMATS

    _add_ids(parser, nargs="*")
    parser.add_argument("--all", action="store_true", help="every one there is")
    parser.add_argument(
        "--format",
        dest="form",
        choices=tuple(FORMATS),
        default="json",
        help="json (default), jsonl, or md for reading",
    )
    parser.add_argument("--out", metavar="FILE", help="a new file; default: standard output")


def _export(args: argparse.Namespace) -> Output:
    from retain.sessions import formats

    if args.all == bool(args.id):
        raise UsageError("name the sessions, or say --all for every one of them")
    sessions = open_app(args).sessions
    names = [sessions.resolve(name).id for name in args.id]
    if args.all:
        names = [one.id for one in sessions.list(1_000_000_000)][::-1]
    chats = [sessions.chat(name) for name in dict.fromkeys(names)]
    if args.out is None:
        data = formats.FORMATS[args.form](*chats).encode()
        documents = [formats.document(chat) for chat in chats]
        return Output(documents[0] if len(documents) == 1 else documents, raw=data)
    from retain.sessions.exporting import export

    path = os.path.abspath(os.path.expanduser(args.out))
    export(path, *chats, form=args.form)
    text = f"Exported {len(chats)} session{'s' * (len(chats) != 1)} to {path}\n"
    report = {"path": path, "format": args.form, "sessions": [chat.id for chat in chats]}
    return Output(report, text, quiet=f"{path}\n")


# delete


def _delete_arguments(parser: Any) -> None:
    _add_ids(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _delete(args: argparse.Namespace) -> Output:
    import shlex

    sessions = open_app(args).sessions
    one = sessions.resolve(args.id)
    if not args.yes:
        _confirm(one)
    kept = sessions.delete(one.id)
    back = f"retain sessions import {shlex.quote(kept.path)}{same_bank(args)}"
    return Output(
        {"status": "deleted", "id": one.id, "title": one.title, "moved_to": kept.path},
        f"Deleted session: {one.id} ({one.title})\nIn the trash as: {kept.path}\n",
        quiet="",
        messages=[f"Bring it back with: {back}"],
    )


def _confirm(one: Session) -> None:
    """Ask on a terminal; elsewhere nobody could answer."""
    what = f"{one.id} ({one.title}, {one.messages} message{'s' * (one.messages != 1)})"
    if not sys.stdin.isatty():
        raise UsageError(
            f"deleting moves {what} to the trash",
            unchanged="Nothing was deleted.",
            hint="Repeat it with --yes if that is what you want.",
        )
    from retain.guard.characters import visible

    question = visible(f"Move {what} to the trash? [y/N] ", keep_newlines=False)
    print(question, end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed", unchanged="Nothing was deleted.")


# import


def _import_arguments(parser: Any) -> None:
    about = "a .json or .jsonl file, a .zip of them, or a directory"
    parser.add_argument("source", metavar="SRC", nargs="+", help=about)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_secrets(parser)


def _import(args: argparse.Namespace) -> Output:
    app = open_app(args)
    done = [
        app.import_chats(source, allow_secret=args.allow_secret, dry_run=args.dry_run)
        for source in args.source
    ]
    lines = []
    for one in done:
        lines.append(f"{'Would import' if args.dry_run else 'Imported'} from {one.source}:")
        lines += [f"  {line}" for line in _counts(one)]
    data = [{**one._asdict(), "dry_run": args.dry_run} for one in done]
    return Output(
        data[0] if len(data) == 1 else data,
        "\n".join(lines) + "\n",
        quiet="".join(f"{name}\n" for one in done for name in (*one.new, *one.grown)),
        warnings=[warning for one in done for warning in one.warnings],
    )


def _counts(one: Imported) -> Sequence[str]:
    parts = (
        (len(one.new), "new"),
        (len(one.grown), "went on since the last time"),
        (len(one.unchanged), "already here"),
        (len(one.differing), "different here and left as they are"),
    )
    found = [f"{number} {what}" for number, what in parts if number]
    return [*found, f"{one.messages} message{'s' * (one.messages != 1)} added"]


_TOOLS: Final = {
    "list": ("list sessions, the one used last first", _list_arguments, _list),
    "show": ("show what was said in a session", _show_arguments, _show),
    "search": ("find messages and facts in all sessions", _search_arguments, _search),
    "export": ("write sessions as JSON, JSON lines or Markdown", _export_arguments, _export),
    "import": (
        "take in chats of Retain, Claude Code, Codex, ChatGPT and Claude",
        _import_arguments,
        _import,
    ),
    "delete": ("move a session to the trash", _delete_arguments, _delete),
}

sessions_command = Command(
    _arguments,
    run_tool,
    """Chats are kept in the bank's sessions.db, which git ignores. An export can be imported again,
here or elsewhere; nothing is doubled, and a chat that went on since is brought up to date.

  retain sessions
  retain sessions show latest
  retain sessions search "postgres migration"
  retain sessions export session_20260218_001 --format md
  retain sessions import ~/Downloads/chatgpt-export.zip
  retain sessions import ~/.claude/projects/-home-ada-app
  retain sessions delete session_20260218_001""",
)


def _migrate_arguments(parser: Parser) -> None:
    about = "the workspace, or the directory it is in; default: here"
    parser.add_argument("path", metavar="PATH", nargs="?", default=".", help=about)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_secrets(parser)


def _migrate(args: argparse.Namespace) -> Output:
    from retain.migration import migrate

    app = open_app(args)
    done = migrate(app, args.path, allow_secret=args.allow_secret, dry_run=args.dry_run)
    data = {
        **done._asdict(),
        "files": [one._asdict() for one in done.files],
        "sessions": {
            key: value
            for key, value in done.sessions._asdict().items()
            if key not in ("source", "warnings")
        },
    }
    return Output(data, _migrated(done, app.place.root), quiet="", warnings=done.warnings)


_SAID: Final = {
    "copied": "copied",
    "unchanged": "already here",
    "kept": "left alone: the bank has its own",
    "deleted": "left alone: it was deleted here",
    "facts": "its bullets are facts",
}


def _migrated(done: Migrated, root: str) -> str:
    verb = "Would migrate" if done.dry_run else "Migrated"
    lines = [f"{verb} {done.source} to {root}:"]
    lines += [f"  {one.name}: {_SAID[one.status]}" for one in done.files]
    lines.append(f"  facts: {len(done.facts)} new, {done.known_facts} already here")
    if any(done.sessions[1:5]):
        lines.append(f"  sessions: {', '.join(_counts(done.sessions))}")
    return "\n".join(lines) + "\n"


migrate_command = Command(
    _migrate_arguments,
    _migrate,
    """Reads a workspace/ with context/system_prompt.md, memories/ (USER.md, PREFERENCES.md,
MEMORY.md) and sessions/ (*.json, *.jsonl), and its retain.db or spark.db if there is one.
Profiles are copied where the bank has none, each bullet of MEMORY.md becomes a fact, any other
*.md in memories/ a memory, or facts if it is a list alone, and sessions are imported.
The workspace is only read; a second time changes nothing.

  retain migrate ~/retain --global --dry-run
  retain migrate ~/retain --global""",
)
