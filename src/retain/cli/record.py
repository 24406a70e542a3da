"""record: typed memories for programs, with the flags, blocks and exit codes of their tools."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from retain import locate
from retain.app import App
from retain.bank import index_md
from retain.bank.files import Directory, saving
from retain.bank.listing import make_bank
from retain.bank.records_json import load
from retain.cli.command import Args, Output, arg, command, command_group, either, flag, open_app
from retain.errors import (
    BadName,
    Conflict,
    LimitExceeded,
    NotFound,
    RecordError,
    RetainError,
    Unreadable,
    Unsafe,
    UsageError,
)
from retain.locate import is_inside, make_private_directory
from retain.memory import SUFFIXES, Memory, check_collection, check_id
from retain.records.match import LIFECYCLE_EVENTS
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.records.service import Outcome

_ACTIONS: Final = ("create", "update", "delete", "retire", "archive", "unarchive", "restore")
_STAGING: Final = "/tmp"  # noqa: S108 - where a draft may come from; it is read, never written
_STORE: Final = re.compile(r"(.*?)/(\.claude/memory|\.retain|\.memories)(?:/(.*))?", re.DOTALL)
_ROOT: Final = ".claude/memory"
_MAX_BYTES: Final = 2_000_000
_ROOT_ARG: Final = arg("--root PATH", "the store (the bank in force)")


# write


@command(
    "record write",
    arg("--action", "delete is retire", required=True, choices=_ACTIONS),
    arg("--category", "needed to create", default=""),
    arg("--target PATH", "the record's file", required=True),
    arg("--input FILE", "the record as JSON: a file in /tmp, - for stdin", default=""),
    arg("--hash", "update only if the file still has this MD5 or SHA-256", default=""),
    arg("--reason", "why it is retired or archived", default=""),
    flag("--force", "create over a record in force, or beyond a limit"),
    "--allow-secret",
)
def _write(args: Args) -> Output:
    """create, change and retire a record"""
    mistake = ""
    if args.action in ("create", "update") and not args.input:
        mistake = "--input is required for create and update actions."
    elif args.action == "create" and not args.category:
        mistake = "--category is required for create action."
    if mistake:
        return Output({"errors": [mistake]}, f"ERROR: {mistake}\n", code=1)
    try:
        return _act(args)
    except RetainError as error:
        blocks = _blocks(error, args.target)
        # An empty line follows each fault of a record, of which there may be several.
        end = "\n\n" if blocks[0].startswith("VALIDATION_ERROR\n") else "\n"
        return Output({"errors": blocks}, "".join(block + end for block in blocks), code=1)


def _blocks(error: RetainError, target: str) -> list[str]:
    """Write an error as blocks: a code, then a name and a value on each line."""
    fix = "" if error.hint == error.usual_hint else error.hint
    named: dict[str, object] = {"target": target}
    match error:
        case RecordError():
            kind = error.kind
            facts = [{**it, **named} if "target" in it else {**it} for it in error.facts]
            if kind == "VALIDATION_ERROR" and not fix:
                for fault in facts:
                    fault["fix"] = f"Correct the value for '{fault['field']}'"
        case BadName() | Unsafe():
            kind, facts, fix = "PATH_ERROR", [named], error.message
        case Conflict():
            kind, facts = "OCC_CONFLICT", [{**named, **error.details}]
        case Unreadable():
            kind, facts, fix = "READ_ERROR", [{**named, "error": error.message}], ""
        case _:
            # The limit that LIMIT_ERROR speaks of is another one: of records, not of bytes.
            code = "size" if isinstance(error, LimitExceeded) else error.code.replace("-", "_")
            kind, facts = f"{code.upper()}_ERROR", [{"error": error.message}]
            fix = " ".join(filter(None, (error.unchanged, error.hint)))
    return [_block(kind, {**fact, "fix": fix} if fix else fact) for fact in facts]


def _block(kind: str, facts: Mapping[str, object]) -> str:
    lines = (visible(f"{name}: {value}", keep_newlines=False) for name, value in facts.items())
    return "\n".join((kind, *lines))


def _act(args: Args) -> Output:
    """Do what --action says, and answer in one line."""
    record = _read_draft(args.input) if args.action in ("create", "update") else {}
    root, collection, name, suffix = _split_target(args)
    if args.action == "create" and not os.path.isdir(root):
        with saving(root):
            is_theirs = root.endswith((_ROOT, ".memories"))
            (make_private_directory if is_theirs else make_bank)(root)
    app = App(bank=root, cwd=os.getcwd())
    args.close = app.close
    if args.action == "create":
        if app.bank.kind.listing and suffix != ".json":
            raise _bad_path(args.target, "Records of this store are .json files.")
        outcome = app.records.create(
            args.category,
            record,
            collection=collection,
            name=name,
            suffix=suffix,
            force=args.force,
            allow_secret=args.allow_secret,
        )
    else:
        outcome = _change(app, _find(app, f"{collection}/{name}", suffix, args), record, args)
    outcome = app.settle(outcome)
    if record and args.input != "-" and not is_inside(args.input, root):
        with contextlib.suppress(OSError):  # someone else took it away
            os.unlink(args.input)
    messages = []
    if args.action == "update" and not args.hash:
        messages.append("WARNING: --hash not provided for update. OCC protection disabled.")
    # To fill in what a draft leaves to Retain is no mending; the scripts of a `.claude/memory`
    # store say all of it.
    says_all = app.location.kind == "claude"
    messages += [
        f"[AUTO-FIX] {note}"
        for note in outcome.notes
        if says_all or note.partition(":")[0] in record
    ]
    messages += [f"[WARN] {warning}" for warning in outcome.warnings]
    answer = _answer(outcome, args)
    text = [json.dumps(answer, ensure_ascii=False)]
    return Output(answer, text, messages=messages, warnings=messages if args.json else ())


def _change(app: App, memory: Memory, record: dict[str, object], args: Args) -> Outcome:
    """Update a record, or take a step with it."""
    action = "retire" if args.action == "delete" else args.action
    try:
        if action != "update":
            return app.records.step(action, memory, args.reason)
        return app.records.update(memory, record, expect=args.hash, allow_secret=args.allow_secret)
    except Conflict as error:
        if not error.details:  # someone saved the file meanwhile
            current = app.bank.find(memory.address).hash
            error.details = {"expected_hash": memory.hash, "current_hash": current}
        if action == "update" and args.input == "-":  # what came through a pipe is nowhere else
            text = json.dumps(record, ensure_ascii=False, indent=2)
            aside = app.bank.trash.keep_conflict(memory, text)
            error.hint += f" Your record is in the trash as {aside.name}."
        raise


def _find(app: App, address: str, suffix: str, args: Args) -> Memory:
    """Return the record that a target names, of that kind of file."""
    hint = "Use --action create instead." if args.action == "update" else "Check the name."
    with contextlib.suppress(NotFound):
        memory = app.bank.find(address)
        if memory.path.endswith(suffix):
            return memory
        hint = f"There is no such file; {os.path.basename(memory.path)} has that name."
    kind = "DELETE" if args.action == "retire" else args.action.upper()
    message = f"there is no record {args.target}"
    raise RecordError(f"{kind}_ERROR", message, {"target": args.target}, hint=hint)


def _answer(outcome: Outcome, args: Args) -> dict[str, object]:
    memory = outcome.memory
    answer: dict[str, object] = {"status": outcome.status, "target": args.target}
    if args.action in ("create", "update"):
        answer |= {"id": memory.id, "title": memory.title}
    if args.action == "update":
        answer["times_updated"] = memory.meta.get("times_updated", 0)
    if outcome.renamed_from:
        folder = os.path.dirname(args.target)
        answer["target"] = os.path.join(folder, os.path.basename(memory.path))
        answer["renamed_from"] = args.target
    if outcome.status in ("retired", "archived"):
        answer["reason"] = memory.text(f"{outcome.status}_reason")
    return answer


# Where a record is


def _split_target(args: Args) -> tuple[str, str, str, str]:
    """Return a target's store, and the record's collection, id and kind of file there."""
    if not args.target.isprintable():
        raise _bad_path(args.target, "Target must be a plain path.")
    path = os.path.join(os.getcwd(), args.target)
    if match := _STORE.fullmatch(path):
        # What lies above a store may be linked as anyone likes; the store itself may not.
        root, inside = os.path.join(os.path.realpath(match[1] or os.sep), match[2]), match[3] or ""
    else:  # it must lie in the bank in force
        root = open_app(args).location.root
        inside = os.path.relpath(path, root)
    parts = [part for part in inside.split(os.sep) if part not in ("", os.curdir)]
    name, suffix = os.path.splitext(parts[-1] if parts else "")
    if len(parts) > 2 or os.pardir in parts or suffix not in SUFFIXES:
        fix = "Target must be <store>/<folder>/<id>.json or .md, for example "
        raise _bad_path(args.target, f"{fix}.claude/memory/decisions/use-postgres.json.")
    collection = check_collection(parts[0] if len(parts) == 2 else "")
    name = check_id(name)
    file = os.path.join(root, *parts)
    if os.path.realpath(file) != file:
        raise _bad_path(args.target, "Symbolic links are not followed.")
    if args.names_bank and (named := open_app(args).location.root) != root:
        raise _bad_path(args.target, f"Target must be inside the bank that is named: {named}")
    return root, collection, name, suffix


def _refusal(kind: str, fix: str, **facts: str) -> RecordError:
    return RecordError(kind, f"{kind}: {', '.join(facts.values())}", facts, hint=fix)


def _bad_path(target: str, fix: str) -> RecordError:
    return _refusal("PATH_ERROR", fix, target=target)


# What is handed in


def _read_draft(path: str) -> dict[str, object]:
    """Read what is handed in; a file only from the place where drafts are staged."""
    real = "" if path == "-" else _check_staged(path)
    try:
        if real:
            with Directory.open(os.path.dirname(real)) as folder:
                return load(folder.read(os.path.basename(real), _MAX_BYTES))
        if sys.stdin is None:
            raise Unreadable("standard input is closed")
        data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise LimitExceeded(f"it is larger than {_MAX_BYTES:,} bytes")
        return load(data)
    except (RetainError, OSError) as error:
        fix = "Give one JSON object, in a plain file or on standard input."
        raise _refusal("INPUT_ERROR", fix, path=path, error=str(error)) from error


def _check_staged(path: str) -> str:
    """Return the real path of a draft; refuse one that lies elsewhere, or in a store.

    A draft is deleted once it has become a record, and a memory must not go that way.
    """
    real = os.path.realpath(path) if "\0" not in path else ""
    fix = ""
    if os.pardir in path.split("/") or not real or not is_inside(real, _STAGING):
        fix = "Input file must be in /tmp/ and its path must not contain '..'."
    elif _STORE.fullmatch(real):
        fix = "Input file must not be in a memory store. Copy it to another place in /tmp/ first."
    if fix:
        raise _refusal("SECURITY_ERROR", fix, path=path, resolved=real)
    return real


# candidate and index


@command(
    "record candidate",
    arg("--category", "decision, runbook, constraint ...", required=True),
    arg("--new-info TEXT", "what is to be saved", required=True),
    arg("--lifecycle-event", "what happened to it", choices=sorted(LIFECYCLE_EVENTS)),
    _ROOT_ARG,
)
def _candidate(args: Args, category: str, new_info: str, lifecycle_event: str | None) -> Output:
    """find the record that news belongs to"""
    app, root = _open_root(args)
    # The bank that the first memory would make may be asked about before it is there.
    is_next = app.location.scope != "bank" and not os.path.lexists(root)
    if not app.location.exists and not is_next:
        return _no_root(root)
    verdict = app.candidate(category, new_info, lifecycle_event)
    return Output(verdict, [json.dumps(verdict, indent=2, ensure_ascii=False)])


@command(
    "record index",
    _ROOT_ARG,
    either(
        flag("--rebuild", "write index.md anew"),
        flag("--validate", "compare index.md with the files"),
        arg("--query KEYWORD", "the entries that hold a word"),
        flag("--health", "counts, and what needs attention"),
        flag("--gc", "remove what was retired long ago"),
        required=True,
    ),
)
def _index(args: Args) -> Output:
    """rebuild, check and query a store's index.md"""
    from retain.records import report

    app, root = _open_root(args)
    if not app.location.exists:
        return _no_root(root)
    records, bank, is_valid = app.records, app.bank, True
    messages = [
        f"WARNING: Could not parse {memory.path}: {memory.problem}"
        for memory in bank.memories()
        if memory.problem and memory.path.endswith(".json") and args.query is None
    ]
    if args.rebuild and bank.kind.listing:
        count = index_md.update(bank, anew=True)
        text = report.report_rebuild(count, os.path.join(bank.root, bank.kind.listing))
    elif args.rebuild:
        app.rebuild()
        text = f"Rebuilt the index with {len(index_md.list_records(bank))} entries at {bank.root}"
    elif args.health:
        text, _ = records.health("memories")
    elif args.gc:
        done = app.gc()
        text = report.report_gc(records.rules.grace_period_days, done.deleted, done.problems)
        messages += [f"[WARN] {warning}" for warning in done.warnings]
        messages += [
            f"Retired {aged.memory.path}: unchanged for {aged.days} days" for aged in done.retired
        ]
    elif (listed := records.read_list()) is None:
        text, is_valid = report.NO_INDEX, not args.validate
    elif args.validate:
        lines = index_md.list_records(bank)
        differences = index_md.differences(listed, lines)
        entries = len(index_md.parse(listed))
        text, is_valid = report.report_validation(entries, len(lines), differences)
    else:
        text = report.report_matches(args.query, index_md.parse(listed))
    warnings = messages if args.json else ()
    code = int(not is_valid)
    return Output({"report": text}, [text], messages=messages, warnings=warnings, code=code)


def _open_root(args: Args) -> tuple[App, str]:
    """Open the store a call is about, there or not, and return it with its path."""
    app = open_app(args)
    if args.root is None:  # the bank in force, or where scripts expect their own
        is_known = args.names_bank or app.location.exists
        return app, app.location.root if is_known else _ROOT
    root = os.path.abspath(args.root)
    if os.path.realpath(root) != app.location.root:
        if args.names_bank:
            message = f"--root {args.root} is another store than {app.location.root}"
            raise UsageError(message, hint="Name one of them.")
        locate.refuse_link(root)
        app = App(bank=root, cwd=os.getcwd())
        args.close = app.close
    return app, args.root


def _no_root(root: str) -> Output:
    error = f"Memory root '{root}' is not a directory."
    return Output({"error": error}, code=1, messages=[f"ERROR: {error}"])


command_group(
    "record",
    about="""\
Write, match and list records, for programs.

For agents and scripts; people will prefer `retain new`, `retain retire` and their kin.
Errors of `write` are blocks on standard output, one name and value per line, and exit code 1.

  retain record write --action create --category decision \\
    --target .claude/memory/decisions/use-postgres.json --input /tmp/draft.json
  retain record write --action update --target ... --input - --hash "$(md5sum < FILE | cut -c-32)"
  retain record candidate --category decision --new-info "we moved to Postgres 17"
  retain record index --validate""",
)
