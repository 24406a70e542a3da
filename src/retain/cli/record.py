"""record: typed memories for programs, with the flags, blocks and exit codes of their tools."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from retain import locate
from retain.app import App
from retain.bank import index_md
from retain.bank.files import saving
from retain.bank.listing import make_bank
from retain.bank.records_json import load
from retain.cli.command import Args, Output, arg, command, command_group, either, flag, open_app
from retain.config import FILE, rules
from retain.errors import (
    BadName,
    LimitExceeded,
    NotFound,
    RecordError,
    RetainError,
    Unreadable,
    UsageError,
)
from retain.locate import is_inside, make_private_directory
from retain.memory import SUFFIXES, Memory, check_collection, check_id, key
from retain.records.match import LIFECYCLE_EVENTS
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.records.service import Outcome

_ACTIONS: Final = ("create", "update", "delete", "retire", "archive", "unarchive", "restore")
_STAGING: Final = "/tmp"  # noqa: S108 - where a draft may come from; it is read, never written
_STORE: Final = re.compile(r"(.*?)/(\.claude/memory|\.retain)(?:/(.*))?", re.DOTALL)
_STORES: Final = frozenset((".memories", ".arcaneum-retain"))  # by names of other tools
_ROOT: Final = ".claude/memory"
_MAX_BYTES: Final = 2_000_000
_COMMAND: Final = re.compile(r"`retain (new|update|retire|archive|unarchive|restore)`")
_ACTION_OF: Final = {"new": "create", "retire": "delete"}
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
    args.made = []
    try:
        return _act(args)
    except RetainError as error:
        for folder in reversed(args.made):
            with contextlib.suppress(OSError):  # someone else has put something there
                os.rmdir(folder)
        blocks = _blocks(error, args.target)
        # An empty line follows each fault of a record, of which there may be several.
        end = "\n\n" if blocks[0].startswith("VALIDATION_ERROR\n") else "\n"
        return Output({"errors": blocks}, "".join(block + end for block in blocks), code=1)


def _blocks(error: RetainError, target: str) -> list[str]:
    """Write an error as blocks: a code, then a name and a value on each line."""
    if isinstance(error, BadName):
        error = _bad_path(target, error.message)
    if not isinstance(error, RecordError):
        # The limit that LIMIT_ERROR speaks of is another one: of records, not of bytes.
        code = "size" if isinstance(error, LimitExceeded) else error.code.replace("-", "_")
        fix = " ".join(filter(None, (error.unchanged, error.hint)))
        return [_block(f"{code.upper()}_ERROR", {"error": error.message, "fix": fix})]
    fix = "" if error.hint == error.usual_hint else _COMMAND.sub(_name_action, error.hint)
    blocks = []
    for stated in error.facts:
        facts = {**stated, "target": visible(target, keep_newlines=False)}
        facts = {name: facts[name] for name in stated}
        if fix or error.kind == "VALIDATION_ERROR":
            facts["fix"] = fix or f"Correct the value for '{facts.get('field')}'"
        blocks.append(_block(error.kind, facts))
    return blocks


def _block(code: str, facts: Mapping[str, str]) -> str:
    lines = (f"{name}: {value}".replace("\n", "\\n") for name, value in facts.items())
    return "\n".join((code, *lines))


def _name_action(command: re.Match[str]) -> str:
    return f"--action {_ACTION_OF.get(command[1], command[1])}"


def _act(args: Args) -> Output:
    """Do what --action says, and answer in one line."""
    is_new = args.action == "create"
    draft = _read_draft(args.input) if args.action in ("create", "update") else _Draft({}, "")
    app, collection, name, suffix = _open(args, makes=is_new)
    if draft.file and is_inside(draft.path, app.location.root):
        raise _stored_draft(draft.path)
    messages = []
    if is_new:
        outcome = app.records.create(
            args.category,
            draft.record,
            collection=collection,
            name=name,
            suffix=suffix,
            force=args.force,
            allow_secret=args.allow_secret,
        )
    else:
        memory = _find(app, f"{collection}/{name}", suffix, args)
        if args.action == "update":
            if not args.hash:
                messages.append("WARNING: --hash not provided for update. OCC protection disabled.")
            outcome = app.records.update(
                memory,
                draft.record,
                expect=args.hash,
                allow_secret=args.allow_secret,
                # A file stays where it is; what came through a pipe is nowhere else.
                keeps_late=args.input == "-",
            )
        else:
            action = "retire" if args.action == "delete" else args.action
            outcome = app.records.step(action, memory, args.reason)
    outcome = app.settle(outcome)
    # To fill in what a draft leaves to Retain is no mending; the scripts of a `.claude/memory`
    # store say all of it.
    says_all = app.location.kind == "claude"
    messages += [
        f"[AUTO-FIX] {note}"
        for note in outcome.notes
        if says_all or note.partition(":")[0] in draft.record
    ]
    messages += [f"[WARN] {warning}" for warning in outcome.warnings]
    if args.made and app.location.kind == "retain":
        try:  # give a bank that its first record has made what `retain init` gives one
            make_bank(app.location.root)
        except RetainError as error:  # the record is stored all the same
            messages.append(f"[WARN] {error.message}")
    draft.delete()
    answer = _answer(outcome, args)
    text = [json.dumps(answer, ensure_ascii=False)]
    return Output(answer, text, messages=messages, warnings=messages if args.json else ())


def _find(app: App, address: str, suffix: str, args: Args) -> Memory:
    """Return the record that a target names, of that kind of file."""
    hint = "Check the name: `retain list --status all` shows what there is."
    if args.action == "update":
        hint = "Use --action create instead."
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


def _open(args: Args, *, makes: bool) -> tuple[App, str, str, str]:
    """Open the bank that a target's path lies in; return it with the record's place there."""
    if not args.target.isprintable():
        raise _bad_path(args.target, "Target must be a plain path.")
    root, inside = _split_target(args)
    name, suffix = os.path.splitext(inside[-1] if inside else "")
    if len(inside) > 2 or suffix not in SUFFIXES:
        raise _bad_path(args.target, "Target must be <store>/<folder>/<id>.json or .md.")
    collection = check_collection(inside[0] if len(inside) == 2 else "")
    name = check_id(name)
    if makes and not os.path.isdir(root):
        folder = root
        while not os.path.isdir(folder):
            args.made.insert(0, folder)
            folder = os.path.dirname(folder)
        with saving(root):
            make_private_directory(root)
    app = App(bank=root, cwd=os.getcwd())
    args.close = app.close
    if app.location.root != root:  # a link was put there since
        raise _bad_path(args.target, f"{root} leads elsewhere.")
    file, kind = name + suffix, app.bank.kind
    if not collection and key(file) in map(key, kind.not_memories):
        raise _bad_path(args.target, f"{file} is the store's own. Choose another name.")
    if makes and kind.listing and suffix != ".json":
        raise _bad_path(args.target, "Records of this store are .json files.")
    return app, collection, name, suffix


def _split_target(args: Args) -> tuple[str, list[str]]:
    """Return a target's store, and the names that lead from there to its file."""
    links = []
    if match := _STORE.fullmatch(os.path.join(os.getcwd(), args.target)):
        # What lies above a store may be linked as anyone likes; the store itself may not.
        root = os.path.join(os.path.realpath(match[1] or os.sep), match[2])
        names_inside = (match[3] or "").split(os.sep)
        links = [os.path.dirname(root), root] if os.sep in match[2] else [root]
    else:  # it must lie in the bank in force
        root, parts = open_app(args).location.root, os.path.abspath(args.target).split(os.sep)
        depths = range(1, len(parts))
        above = (at for at in depths if os.path.realpath(os.sep.join(parts[:at]) or os.sep) == root)
        names_inside = parts[next(above, len(parts)) :]
        if not names_inside:
            example = ".claude/memory/decisions/use-postgres.json"
            fix = f"Target must be inside a memory store, for example {example}"
            raise _bad_path(args.target, fix)
    inside = [part for part in names_inside if part not in ("", os.curdir)]
    if os.pardir in inside:
        raise _bad_path(args.target, "Target must not lead out of its folder with '..'.")
    links += [os.path.join(root, *inside[:depth]) for depth in range(1, len(inside) + 1)]
    for link in filter(os.path.islink, links):
        raise _bad_path(args.target, f"{link} is a symbolic link, which is not followed.")
    if args.names_bank and (named := open_app(args).location.root) != root:
        raise _bad_path(args.target, f"Target must be inside the bank that is named: {named}")
    return root, inside


def _refusal(kind: str, fix: str, **facts: str) -> RecordError:
    shown = {name: visible(value, keep_newlines=False) for name, value in facts.items()}
    return RecordError(kind, f"{kind}: {', '.join(shown.values())}", shown, hint=fix)


def _bad_path(target: str, fix: str) -> RecordError:
    return _refusal("PATH_ERROR", fix, target=target)


# What is handed in


class _Draft(NamedTuple):
    """A record that is handed in, and the file it was read from, if any: its device and inode."""

    record: dict[str, object]
    path: str
    file: tuple[int, int] | None = None

    def delete(self) -> None:
        """Delete the draft that has become a record, and no other file that has its name by now."""
        with contextlib.suppress(OSError):  # someone else took it away
            facts = os.stat(self.path)  # of a link it is the link that goes
            if (facts.st_dev, facts.st_ino) == self.file:
                os.unlink(self.path)


def _read_draft(path: str) -> _Draft:
    """Read what is handed in; a file only from the place where drafts are staged."""
    file, fix = None, "Write the record as one JSON object."
    try:
        if path == "-" and sys.stdin is None:
            raise _bad_input(path, "standard input is closed", "Write the record to it.")
        if path == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            # Not blocking: a pipe in the place of a file must not hold the caller for ever.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            with os.fdopen(os.open(_check_staged(path), flags), "rb") as opened:
                facts = os.fstat(opened.fileno())
                if not stat.S_ISREG(facts.st_mode):
                    raise _bad_input(path, "not a plain file", "Give a plain file.")
                file = facts.st_dev, facts.st_ino
                data = opened.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise _bad_input(path, f"larger than {_MAX_BYTES:,} bytes", fix)
        return _Draft(load(data), path, file)
    except OSError as error:
        first = "Write the record to it." if path == "-" else "Write the record to that file first."
        raise _bad_input(path, error.strerror or str(error), first) from error
    except Unreadable as error:
        raise _bad_input(path, error.message, fix) from error


def _bad_input(path: str, error: str, fix: str) -> RecordError:
    return _refusal("INPUT_ERROR", fix, path=path, error=error)


def _check_staged(path: str) -> str:
    """Return the real path of a draft; refuse one that lies elsewhere, or in a store."""
    real = os.path.realpath(path) if "\0" not in path else ""
    if os.pardir in path.split("/") or not real or not is_inside(real, _STAGING):
        fix = "Input file must be in /tmp/ and its path must not contain '..'."
        raise _refusal("SECURITY_ERROR", fix, path=path, resolved=real)
    folders = real.split(os.sep)[:-1]
    around = (os.sep.join(folders[:depth]) for depth in range(len(folders), 2, -1))
    is_named_so = _STORE.fullmatch(real) or not _STORES.isdisjoint(folders)
    if is_named_so or any(map(_is_bank, around)):
        raise _stored_draft(path)
    return real


def _stored_draft(path: str) -> RecordError:
    # A draft is deleted once it has become a record; a memory must not go that way.
    fix = "Input file must not be in a memory store. Copy it to another place in /tmp/ first."
    return _refusal("SECURITY_ERROR", fix, path=path, resolved=os.path.realpath(path))


def _is_bank(folder: str) -> bool:
    """Say whether a folder is a bank: it has a config with a bank's format."""
    config = os.path.join(folder, FILE)
    if not os.path.isfile(config):
        return False
    with open(config, encoding="utf-8", errors="replace") as file:
        return re.search("^format", file.read(100_000), re.MULTILINE) is not None


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
    from retain.records import forms, match

    if app := _open_root(args):
        verdict = app.candidate(category, new_info, lifecycle_event)
    else:
        app = open_app(args)
        # The store that the first memory would make may be asked about before it is there.
        is_next = args.root is None or os.path.realpath(args.where) == app.location.root
        if args.bank is not None or os.path.lexists(args.where) or not is_next:
            return _no_root(args)
        kind = forms.known_category(category, rules(app.config, app.location.root))
        verdict = match.verdict(kind, None, lifecycle_event)
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

    app = _open_root(args)
    if app is None:
        return _no_root(args)
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
        text = f"Rebuilt the index with {len(records.lines())} entries at {bank.root}"
    elif args.health:
        text, _ = records.health("memories")
    elif args.gc:
        done = app.gc()
        text = report.report_gc(records.rules.grace_period_days, done.deleted, done.problems)
        messages += [f"[WARN] {warning}" for warning in done.warnings]
        messages += [
            f"Retired {aged.path}: unchanged for {aged.days} days" for aged in done.retired
        ]
    else:
        listed, differences = records.read_list(), records.list_differences()
        if listed is None or differences is None:
            text, is_valid = report.NO_INDEX, not args.validate
        elif args.validate:
            count = len(records.lines())
            text, is_valid = report.report_validation(len(listed), count, differences)
        else:
            text = report.report_matches(args.query, listed)
    warnings = messages if args.json else ()
    code = int(not is_valid)
    return Output({"report": text}, [text], messages=messages, warnings=warnings, code=code)


def _open_root(args: Args) -> App | None:
    """Open the store a call is about; None when it is not there."""
    if args.names_bank:
        app = open_app(args)
        args.where = app.location.root
        if args.root is not None and os.path.realpath(args.root) != os.path.realpath(args.where):
            raise UsageError(
                f"--root {args.root} is another store than {app.location.root}",
                hint="Name one of them.",
            )
        return app if app.location.exists else None
    args.where = args.root
    if args.root is None:  # the bank in force, or where scripts expect their own
        place = open_app(args).location
        args.where = place.root if place.exists else _ROOT
    root = os.path.abspath(args.where)
    if not os.path.isdir(root):
        return None
    locate.refuse_link(root)
    app = App(bank=root, cwd=os.getcwd())
    args.close = app.close
    return app


def _no_root(args: Args) -> Output:
    error = f"Memory root '{args.where}' is not a directory."
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
