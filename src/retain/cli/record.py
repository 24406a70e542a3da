"""record: typed memories for programs, with the flags, blocks and exit codes of their tools."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import stat
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from retain import paths
from retain.app import App
from retain.bank import make
from retain.cli.inputs import add_secrets
from retain.cli.parser import Command, Parser, add_tools, open_app, run_tool
from retain.cli.render import Output
from retain.config import FILE
from retain.errors import BadName, LimitExceeded, RecordError, RetainError, Unreadable, UsageError
from retain.fsio import make_folder, saving
from retain.guard.characters import visible
from retain.typed.candidate import LIFECYCLE_EVENTS
from retain.typed.refusing import Block, refusal

if TYPE_CHECKING:
    from retain.typed.ledger import Outcome, Target

__all__ = ["record_command"]

_ACTIONS: Final = ("create", "update", "delete", "retire", "archive", "unarchive", "restore")
_STAGING: Final = "/tmp"  # noqa: S108 - where a draft may come from; it is read, never written
_STORES: Final = frozenset((".retain", ".memories", ".arcaneum-retain"))
_ROOT: Final = ".claude/memory"
_MOST: Final = 2_000_000


def _arguments(parser: Parser) -> None:
    # One flat parser per tool: their flags have the same names and other meanings.
    add_tools(parser, _TOOLS)


# write


def _write_arguments(parser: Any) -> None:
    parser.add_argument("--action", required=True, choices=_ACTIONS, help="delete is retire")
    parser.add_argument("--category", default="", help="needed to create")
    parser.add_argument("--target", required=True, metavar="PATH", help="the record's file")
    parser.add_argument(
        "--input",
        default="",
        metavar="FILE",
        help="the record as JSON: a file in /tmp, - for stdin",
    )
    parser.add_argument(
        "--hash", default="", help="update only if the file still has this MD5 or SHA-256"
    )
    parser.add_argument("--reason", default="", help="why it is retired or archived")
    parser.add_argument(
        "--force", action="store_true", help="create over a record in force, or beyond a limit"
    )
    add_secrets(parser)


def _write(args: argparse.Namespace) -> Output:
    args.made = []
    try:
        return _written(args)
    except RetainError as error:
        for folder in reversed(args.made):
            with contextlib.suppress(OSError):  # someone else has put something there
                os.rmdir(folder)
        blocks = error.blocks if isinstance(error, RecordError) else ()
        return _refused(blocks or (_block(error),))


def _refused(blocks: Sequence[str]) -> Output:
    # An empty line follows each fault of a record, of which there may be several.
    text = "".join(
        f"{block}\n\n" if block.startswith("VALIDATION_ERROR\n") else f"{block}\n"
        for block in blocks
    )
    return Output({"errors": list(blocks)}, text, code=1)


def _block(error: RetainError) -> str:
    """Any other failure in the form that the reader of blocks knows."""
    # The limit that LIMIT_ERROR speaks of is another one: of records, not of bytes.
    code = "size" if isinstance(error, LimitExceeded) else error.code.replace("-", "_")
    fix = " ".join(filter(None, (error.unchanged, error.hint)))
    return str(Block(f"{code.upper()}_ERROR", [("error", error.message), ("fix", fix)]))


def _written(args: argparse.Namespace) -> Output:
    if args.action in ("create", "update") and not args.input:
        return _mistake("--input is required for create and update actions.")
    if args.action == "create" and not args.category:
        return _mistake("--category is required for create action.")
    takes_input = args.action in ("create", "update")
    source = _taken(args.input) if takes_input else _Source("", b"")
    given = _given(source) if takes_input else {}
    app, at = _opened(args, makes=args.action == "create")
    if source.file and paths.is_inside(source.path, app.place.root):
        raise _stored_input(source.path, os.path.realpath(source.path))
    said, warnings = app.gate.record(
        {"record": given, "reason": args.reason, "name": at.name}, args.allow_secret
    )
    if args.action == "create" and said["name"] != at.name:
        raise _bad_path(args.target, "Its name looks like a secret. Choose another one.")
    messages = [f"[WARN] {one}" for one in warnings]
    args.reason = str(said["reason"])
    done = _done(app, at, args, cast("dict[str, Any]", said["record"]), messages)
    messages += [f"[AUTO-FIX] {one}" for one in _told_of(done.notes, given, app)]
    # A record that is renamed is written twice, and what is amiss with the store said twice.
    messages += dict.fromkeys(f"[WARN] {one}" for one in done.warnings)
    if args.made:
        messages += _completed(app)
    _forget(source)
    data = _answer(done, at, args)
    return Output(data, json.dumps(data, ensure_ascii=False) + "\n", messages=messages)


def _told_of(notes: Sequence[str], given: dict[str, object], app: App) -> list[str]:
    """What is said of what was mended; to fill in what a draft leaves to Retain is no mending.

    The scripts of a `.claude/memory` store say all of it.
    """
    says_all = app.place.kind == "claude"
    return [note for note in notes if says_all or note.partition(":")[0] in given]


def _completed(app: App) -> list[str]:
    """Give a bank that its first record has made what `retain init` gives one."""
    if app.place.kind != "retain":
        return []
    try:
        make(app.place.root)
    except RetainError as error:  # the record is stored all the same
        return [f"[WARN] {error.message}"]
    return []


def _mistake(message: str) -> Output:
    return Output({"errors": [message]}, f"ERROR: {message}\n", code=1)


def _done(
    app: App,
    at: Target,
    args: argparse.Namespace,
    given: dict[str, Any],
    messages: list[str],
) -> Outcome:
    ledger = app.ledger
    match args.action:
        case "create":
            return ledger.create(args.category, at, given, force=args.force)
        case "update":
            if not args.hash:
                messages.append("WARNING: --hash not provided for update. OCC protection disabled.")
            # A file stays where it is; what came through a pipe is nowhere else.
            return ledger.update(at, given, expect=args.hash, puts_aside=args.input == "-")
        case "archive":
            return ledger.archive(at, args.reason)
        case "unarchive":
            return ledger.unarchive(at)
        case "restore":
            return ledger.restore(at)
    return ledger.retire(at, args.reason)


def _answer(done: Outcome, at: Target, args: argparse.Namespace) -> dict[str, object]:
    memory = done.memory
    name = os.path.basename(memory.path)
    target = os.path.join(os.path.dirname(args.target), name) if done.renamed_from else args.target
    answer: dict[str, object] = {"status": done.status, "target": target}
    if args.action in ("create", "update"):
        answer |= {"id": memory.id, "title": memory.title}
    if args.action == "update":
        answer["times_updated"] = memory.meta.get("times_updated", 0)
    if done.renamed_from:
        answer["renamed_from"] = os.path.join(
            os.path.dirname(args.target), done.renamed_from + at.suffix
        )
    for state in ("retired", "archived"):
        if done.status == state:
            answer["reason"] = memory.text(f"{state}_reason")
    return answer


# Where a record is


def _opened(args: argparse.Namespace, *, makes: bool) -> tuple[App, Target]:
    """The bank that a target's path lies in, and the record's place there."""
    from retain.typed.ledger import Target

    if not args.target.isprintable():
        raise _bad_path(args.target, "Target must be a plain path.")
    root, inside = _parted(args)
    collection, name, suffix = _names(args.target, inside)
    if makes and not os.path.isdir(root):
        args.made = _missing(root)
        with saving(root):
            make_folder(root)
    app = App(bank=root, cwd=os.getcwd())
    args.close = app.close
    if app.place.root != root:  # a link was put there since
        raise _bad_path(args.target, f"{root} leads elsewhere.")
    _refuse_reserved(args, app, collection, name + suffix)
    return app, Target(collection, name, suffix, args.target)


def _parted(args: argparse.Namespace) -> tuple[str, list[str]]:
    """A target's store, and the names that lead from there to its file."""
    parts = os.path.join(os.getcwd(), args.target).split(os.sep)
    at = _end_of_store(parts)
    if at:
        # What lies above a store may be linked as anyone likes; the store itself may not.
        marks = 2 if parts[at - 1] == "memory" else 1
        above = os.path.realpath(os.sep.join(parts[: at - marks]) or os.sep)
        root, inside = os.path.join(above, *parts[at - marks : at]), parts[at:]
        links = [os.path.dirname(root)] * (marks - 1) + [root]
    else:
        root, inside = _in_force(args)
        links = []
    inside = [part for part in inside if part not in ("", os.curdir)]
    if os.pardir in inside:
        raise _bad_path(args.target, "Target must not lead out of its folder with '..'.")
    links += [os.path.join(root, *inside[:depth]) for depth in range(1, len(inside) + 1)]
    for link in filter(os.path.islink, links):
        raise _bad_path(args.target, f"{link} is a symbolic link, which is not followed.")
    if _names_bank(args) and (named := open_app(args).place.root) != root:
        raise _bad_path(args.target, f"Target must be inside the bank that is named: {named}")
    return root, inside


def _names_bank(args: argparse.Namespace) -> bool:
    """Whether a call says which bank it is about."""
    return any(hasattr(args, name) for name in ("bank", "local", "everywhere"))


def _end_of_store(parts: Sequence[str]) -> int:
    """After how many parts of a path its first `.claude/memory` or `.retain` is over; 0: none."""
    for at, part in enumerate(parts[:-1], 1):
        if part == ".retain":
            return at
        if (part, parts[at]) == (".claude", "memory"):
            return at + 1
    return 0


def _in_force(args: argparse.Namespace) -> tuple[str, list[str]]:
    """The bank that a call without such a path is about, if the target is in it."""
    root = open_app(args).place.root
    parts = os.path.abspath(args.target).split(os.sep)
    for at in range(1, len(parts)):
        if os.path.realpath(os.sep.join(parts[:at]) or os.sep) == root:
            return root, parts[at:]
    raise _bad_path(
        args.target,
        "Target must be inside a memory store, for example "
        ".claude/memory/decisions/use-postgres.json",
    )


def _names(target: str, inside: Sequence[str]) -> tuple[str, str, str]:
    """The collection, the id and the ending that a path in a store has."""
    name, suffix = os.path.splitext(inside[-1] if inside else "")
    if len(inside) > 2 or suffix not in paths.SUFFIXES:
        raise _bad_path(target, "Target must be <store>/<folder>/<id>.json or .md.")
    collection = inside[0] if len(inside) == 2 else ""
    try:
        return paths.check_collection(collection), paths.check_id(name), suffix
    except BadName as error:
        raise _bad_path(target, error.message) from error


def _refuse_reserved(args: argparse.Namespace, app: App, collection: str, name: str) -> None:
    """Refuse what a store keeps for itself, and a file that its own list would never name."""
    kind = app.bank.kind
    if not collection and paths.key(name) in map(paths.key, kind.not_memories):
        raise _bad_path(args.target, f"{name} is the store's own. Choose another name.")
    if args.action == "create" and kind.listing and not name.endswith(".json"):
        raise _bad_path(args.target, "Records of this store are .json files.")


def _missing(folder: str) -> list[str]:
    """A directory and those above it that are not there, the topmost first."""
    found = []
    while not os.path.isdir(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found[::-1]


def _bad_path(target: str, fix: str) -> RecordError:
    named = visible(target, keep_newlines=False)
    return refusal(Block("PATH_ERROR", [("target", named), ("fix", fix)]))


# What is handed in


class _Source(NamedTuple):
    """What a caller hands in, and the file it was read from, if any: its device and inode."""

    path: str
    data: bytes
    file: tuple[int, int] | None = None


def _taken(source: str) -> _Source:
    """What is handed in; from a file only of the place where drafts are staged."""
    if source != "-":
        return _staged(source)
    if sys.stdin is None:
        raise _bad_input(source, "Write the record to it.", "standard input is closed")
    try:
        return _Source(source, sys.stdin.buffer.read(_MOST + 1))
    except OSError as error:
        raise _bad_input(source, "Write the record to it.", str(error)) from error


def _given(source: _Source) -> dict[str, object]:
    """The record a caller hands in."""
    from retain.records import load

    fix = "Write the record as one JSON object."
    if len(source.data) > _MOST:
        raise _bad_input(source.path, fix, f"larger than {_MOST:,} bytes")
    try:
        return load(source.data)
    except Unreadable as error:
        raise _bad_input(source.path, fix, error.message) from error


def _bad_input(source: str, fix: str, error: str) -> RecordError:
    lines = [("path", source), ("error", error), ("fix", fix)]
    shown = [(name, visible(value, keep_newlines=False)) for name, value in lines]
    return refusal(Block("INPUT_ERROR", shown))


def _unsafe_input(source: str, real: str, fix: str) -> RecordError:
    lines = [("path", source), ("resolved", real), ("fix", fix)]
    shown = [(name, visible(value, keep_newlines=False)) for name, value in lines]
    return refusal(Block("SECURITY_ERROR", shown))


def _stored_input(source: str, real: str) -> RecordError:
    # A draft is deleted once it has become a record; a memory must not go that way.
    fix = "Input file must not be in a memory store. Copy it to another place in /tmp/ first."
    return _unsafe_input(source, real, fix)


def _is_stored(path: str) -> bool:
    """Whether a file lies in a store: by the names on its path, or by what only a bank has."""
    *folders, _ = parts = path.split(os.sep)
    if _end_of_store(parts) or not _STORES.isdisjoint(folders):
        return True
    around = (os.sep.join(folders[:depth]) for depth in range(len(folders), 2, -1))
    return any(map(_is_bank, around))


def _is_bank(folder: str) -> bool:
    """Whether Retain has written here, or would: a lock, or a config with a bank's format."""
    if os.path.lexists(os.path.join(folder, paths.STATE, "lock")):
        return True
    config = os.path.join(folder, FILE)
    if not os.path.isfile(config):
        return False
    with open(config, encoding="utf-8", errors="replace") as file:
        return any(line.startswith("format") for line in file.read(100_000).splitlines())


def _staged(source: str) -> _Source:
    real = os.path.realpath(source) if "\0" not in source else ""
    if os.pardir in source.split("/") or not real or not paths.is_inside(real, _STAGING):
        fix = "Input file must be in /tmp/ and its path must not contain '..'."
        raise _unsafe_input(source, real, fix)
    if _is_stored(real):
        raise _stored_input(source, real)
    try:
        # Not blocking: a pipe in the place of a file must not hold the caller for ever.
        fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        fix = "Write the record to that file first."
        raise _bad_input(source, fix, error.strerror or str(error)) from error
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise _bad_input(source, "Give a plain file.", "not a plain file")
        with os.fdopen(fd, "rb", closefd=False) as file:
            return _Source(source, file.read(_MOST + 1), (facts.st_dev, facts.st_ino))
    finally:
        os.close(fd)


def _forget(source: _Source) -> None:
    """Delete the draft that has become a record, and no other file that has its name by now."""
    with contextlib.suppress(OSError):  # someone else took it away
        facts = os.stat(source.path)  # of a link it is the link that goes
        if (facts.st_dev, facts.st_ino) == source.file:
            os.unlink(source.path)


# candidate


def _candidate_arguments(parser: Any) -> None:
    parser.add_argument("--category", required=True, help="decision, runbook, constraint ...")
    parser.add_argument("--new-info", required=True, metavar="TEXT", help="what is to be saved")
    parser.add_argument(
        "--lifecycle-event",
        choices=sorted(LIFECYCLE_EVENTS),
        default=None,
        help="what happened to it",
    )
    _add_root(parser)


def _candidate(args: argparse.Namespace) -> Output:
    app = _at_root(args)
    if app:
        verdict = app.desk.candidate(args.category, args.new_info, args.lifecycle_event)
    elif _is_yet_to_come(args):
        verdict = _of_nothing(args)
    else:
        return _no_root(args)
    return Output(verdict, json.dumps(verdict, indent=2, ensure_ascii=False) + "\n")


def _is_yet_to_come(args: argparse.Namespace) -> bool:
    """Whether the store a call is about is the one that the first memory would make."""
    if hasattr(args, "bank") or os.path.lexists(args.where):
        return False
    return args.root is None or os.path.realpath(args.where) == open_app(args).place.root


def _of_nothing(args: argparse.Namespace) -> dict[str, Any]:
    """What is said where the first memory has yet to make the store."""
    from retain.config import rules
    from retain.typed import upkeep

    app = open_app(args)
    return upkeep.unfiled(rules(app.config, app.place.root), args.category, args.lifecycle_event)


# index


def _index_arguments(parser: Any) -> None:
    _add_root(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--rebuild", action="store_true", help="write index.md anew")
    what.add_argument("--validate", action="store_true", help="compare index.md with the files")
    what.add_argument("--query", metavar="KEYWORD", help="the entries that hold a word")
    what.add_argument("--health", action="store_true", help="counts, and what needs attention")
    what.add_argument("--gc", action="store_true", help="remove what was retired long ago")


def _index(args: argparse.Namespace) -> Output:
    app = _at_root(args)
    if app is None:
        return _no_root(args)
    if args.query is not None:
        return _queried(app, args.query)
    unread = [
        f"WARNING: Could not parse {memory.path}: {memory.problem}"
        for memory in app.bank.memories()
        if memory.problem and memory.path.endswith(".json")
    ]
    scan = next(run for name, run in _SCANS.items() if getattr(args, name))
    output = scan(app)
    return output._replace(messages=[*unread, *output.messages])


def _rebuilt(app: App) -> Output:
    from retain.typed import reports, upkeep

    bank = app.bank
    if not bank.kind.listing:
        app.library.rebuild()
        return _said(
            f"Rebuilt the index with {len(upkeep.lines(app.ledger))} entries at {bank.root}"
        )
    count = bank.relist(anew=True)
    return _said(reports.rebuilt(count, os.path.join(bank.root, bank.kind.listing)))


def _validated(app: App) -> Output:
    from retain.typed import reports, upkeep

    there, found = upkeep.listed(app.ledger), upkeep.unlisted(app.ledger)
    if there is None or found is None:
        return _said(reports.NO_INDEX, code=1)
    text, is_valid = reports.validated(len(there), len(upkeep.lines(app.ledger)), *found)
    return _said(text, code=0 if is_valid else 1)


def _queried(app: App, keyword: str) -> Output:
    from retain.typed import reports, upkeep

    there = upkeep.listed(app.ledger)
    return _said(reports.NO_INDEX if there is None else reports.queried(keyword, there))


def _healthy(app: App) -> Output:
    from retain.typed import upkeep

    return _said(upkeep.health(app.ledger)[0])


def _collected(app: App) -> Output:
    from retain.typed import reports, upkeep

    done = upkeep.gc(app.ledger)
    days = app.ledger.rules.grace_period_days
    text = reports.collected(days, done.deleted, done.problems, needs_rebuild=False)
    messages = [f"[WARN] {one}" for one in done.warnings]
    messages += [f"Retired {one.path}: unchanged for {one.days} days" for one in done.retired]
    return _said(text)._replace(messages=messages)


_SCANS: Final = {
    "rebuild": _rebuilt,
    "validate": _validated,
    "health": _healthy,
    "gc": _collected,
}


def _said(text: str, code: int = 0) -> Output:
    return Output({"report": text}, f"{text}\n", code=code)


def _add_root(parser: Any) -> None:
    parser.add_argument(
        "--root", default=None, metavar="PATH", help="the store (the bank in force)"
    )


def _at_root(args: argparse.Namespace) -> App | None:
    """The store a call is about; None when it is not there."""
    if _names_bank(args):
        app = open_app(args)
        given = app.place.root if args.root is None else args.root
        if os.path.realpath(given) != os.path.realpath(app.place.root):
            raise UsageError(
                f"--root {args.root} is another store than {app.place.root}",
                hint="Name one of them.",
            )
        args.where = app.place.root
        return app if app.place.exists else None
    args.where = _meant(args) if args.root is None else args.root
    root = os.path.abspath(args.where)
    if not os.path.isdir(root):
        return None
    paths.refuse_link(root)
    app = App(bank=root, cwd=os.getcwd())
    args.close = app.close
    return app


def _meant(args: argparse.Namespace) -> str:
    """The store of a call that names none: the bank in force, or where scripts expect their own."""
    place = open_app(args).place
    return place.root if place.exists else _ROOT


def _no_root(args: argparse.Namespace) -> Output:
    error = f"Memory root '{args.where}' is not a directory."
    return Output({"error": error}, code=1, messages=[f"ERROR: {error}"])


_TOOLS: Final = {
    "write": ("create, change and retire a record", _write_arguments, _write),
    "candidate": ("find the record that news belongs to", _candidate_arguments, _candidate),
    "index": ("rebuild, check and query a store's index.md", _index_arguments, _index),
}

record_command = Command(
    _arguments,
    run_tool,
    """For agents and scripts; people will prefer `retain new`, `retain retire` and their kin.
Errors of `write` are blocks on standard output, one name and value per line, and exit code 1.

  retain record write --action create --category decision \\
    --target .claude/memory/decisions/use-postgres.json --input /tmp/draft.json
  retain record write --action update --target ... --input - --hash "$(md5sum < FILE | cut -c-32)"
  retain record candidate --category decision --new-info "we moved to Postgres 17"
  retain record index --validate""",
)
