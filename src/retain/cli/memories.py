"""put, get, list, update, append, move, delete, and the text that people hand in."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from retain.app import App
from retain.app.memories import SORTS
from retain.cli.command import Args, Output, arg, command, either, flag, plural, same_bank
from retain.cli.render import Table
from retain.errors import LimitExceeded, NotFound, RetainError, UsageError
from retain.memory import FREE_TYPES, STATUSES, Memory, Problem, Version, Written
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.search.duplicates import Alike

_VERBS = {
    "created": "Stored memory",
    "replaced": "Replaced memory",
    "updated": "Updated memory",
    "appended": "Appended to memory",
    "moved": "Moved memory",
    "restored": "Restored memory",
    "unchanged": "Unchanged",
}
_TEXT = arg(
    "words FILE", "a file, or the text itself; nothing or - for stdin", nargs="*", default=[]
)


def written_output(written: Written, note: str = "") -> Output:
    """The answer of every change."""
    memory = written.memory
    facts = {
        _VERBS[written.status]: memory.id,
        "Collection": memory.collection or "(root)",
        "File": memory.path,
        "Previous text kept as": written.kept,
        "Committed": written.commit[:10],
    }
    return Output(written, facts, quiet=[memory.ref], messages=[note], warnings=written.warnings)


@command(
    "put",
    _TEXT,
    arg("--id ID", "the memory's id or collection/id; else made from the text"),
    arg("--collection NAME", "where to store it (default: memories)"),
    "metadata",
    arg("--created-by WHO", "who wrote it", default=""),
    flag("--replace", "make it the new text if the id is in use"),
    "--allow-secret",
)
def _put(app: App, args: Args) -> Output:
    """Store a memory: a text, a file or standard input.

    The id is the one given, else made from the title, the first heading, or the content.
    With --id, a memory of that id gets the new text and whatever metadata you name, keeps its
    other metadata, and its old text becomes a version; an id that was made up never replaces
    anything unless you say --replace.

      echo "# GPU Research" | retain put - --collection knowledge --id gpu-patterns --tags gpu,metal
      retain put "The staging database is reset every night." --tags staging
      retain put notes.md
      retain put notes.md --type fact --context "From profiling" --metadata '{"priority": "high"}'
    """
    text, note = _read_words(app, args.words)
    options = {**args.pick("collection replace created_by"), **parse_fields(args)}
    written = app.put(text, id=args.id or "", **options)
    similar: Sequence[Alike] = []
    if written.status != "unchanged" and (args.json or not args.quiet):
        with contextlib.suppress(RetainError):  # what was stored is stored whatever happens
            similar = app.alike(written.memory.collection, written.memory.id)
    messages = [note]
    if similar:
        from retain.cli.merge import similar_notes  # few memories are like another

        messages += similar_notes(similar, written.memory.address, args)
    data = {**written.to_dict(), "similar": [alike.to_dict() for alike in similar]}
    return written_output(written)._replace(data=data, messages=messages)


@command(
    "get",
    "ID or handle",
    "--collection",
    arg("--format context|json|raw", "context: for reading (default); raw: the exact text"),
    arg("--version V", "as it was: v2, HEAD~1, a commit", default=""),
    flag("--show-versions", "list its versions as well"),
)
def _get(app: App, args: Args) -> Output:
    """Show a memory, as it is or as it was.

    An id alone is looked for in every collection, in the project's bank and then in yours.
    The handles of a brief work too. A memory that was merged or superseded names its successor.

      retain get gpu-patterns
      retain get m:4f2a
      retain get knowledge/gpu-patterns --format raw
      retain get gpu-patterns --version HEAD~2
      retain get gpu-patterns --json | jq -r .hash
    """
    memory = app.get(args.ref, collection=args.collection, version=args.version)
    successor = app.successors([memory]).get(memory.path, "")
    replaced = app.predecessors(memory)
    data = memory.to_dict(content=True)
    data |= {"superseded_by": successor or None, "supersedes": replaced}
    table = raw = None
    if args.show_versions:
        versions = app.versions(memory.address)
        data["versions"] = [version.to_dict() for version in versions]
        table = versions_table(versions)
    messages = []
    if memory.scope != app.location.scope:
        messages.append(f"(from your global bank: {memory.path})")
    if args.format == "raw":
        raw = memory.body.encode("utf-8", "surrogateescape")
        if memory.problem and not memory.data.endswith(raw):
            raw = memory.data  # a file that cannot be parsed is all body
        if status := _status(memory, successor):
            messages.append(f"{memory.ref} is {status}")
    return Output(
        data,
        "" if raw is not None else _context(memory, successor, replaced),
        table,
        raw,
        messages=messages,
        warnings=[f"{memory.path}: {memory.problem}"] if memory.problem else [],
    )


def _status(memory: Memory, successor: str) -> str:
    """How a memory stands, if it is not simply in force."""
    status = "" if memory.status == "active" else memory.status
    return ", ".join(filter(None, (status, f"superseded by {successor}" if successor else "")))


def _context(memory: Memory, successor: str, replaced: Sequence[str]) -> str:
    """A memory as an agent reads it: what it is, where it comes from, then its text."""
    created_by = memory.text("created_by") or "unknown"
    facts = {
        "ID": memory.id,
        "Created": f"{memory.text('created_at') or 'unknown'} by {created_by}",
        "Status": _status(memory, successor),
        "Supersedes": ", ".join(replaced),
        "Type": "" if memory.type in FREE_TYPES else memory.type,
        "Context": memory.text("context"),
        "Tags": ", ".join(memory.tags),
        "Category": memory.text("category"),
        "Related": ", ".join(memory.related_to),
        "Source": memory.text("source"),
    }
    lines = [f"# {memory.title}", *(f"{name}: {value}" for name, value in facts.items() if value)]
    body = memory.body
    content = memory.meta.get("content")
    if isinstance(content, dict):  # the text of a typed memory is in its fields
        from retain.bank.records_json import render

        body = "\n\n".join(filter(None, (render(content), body)))
    return "\n".join([*lines, "", body.removesuffix("\n"), ""])


def versions_table(versions: Sequence[Version]) -> Table:
    """Versions as rows."""
    columns = {
        "Version": [item.version for item in versions],
        "Time": [item.time for item in versions],
        "Author": [item.author for item in versions],
        "What": [item.message for item in versions],
    }
    if not any(columns["Author"]):
        del columns["Author"]
    return Table(
        tuple(columns),
        list(zip(*columns.values(), strict=True)),
        empty="No earlier versions.",
        flexible=("Author", "What"),
    )


@command(
    "list",
    arg("--collection NAME", "only this collection"),
    "--filter",
    "--tags",
    "--type",
    arg("--status", "this one, or all (default: all but retired)", choices=(*STATUSES, "all")),
    arg("--sort", "what to sort by", choices=SORTS, default="collection"),
    flag("--reverse", "reverse the order"),
    arg("--limit N", "the first N only"),
    arg("--format table|json"),
)
def _list(app: App, args: Args) -> Output:
    """List memories, filtered and sorted.

    In a project, its own memories come first, then those of your global bank.

      retain list
      retain list --collection knowledge --tags gpu,metal --filter priority=high
      retain list --type decision --sort updated --reverse --limit 5
      retain list --filter 'created_at>=2026-01-01' --filter title~auth --json
    """
    problems: list[Problem] = []
    tags = [f"tags={','.join(args.tags)}"] if args.tags else []
    memories = app.list(
        filter=[*args.filter, *tags],
        status=args.status or "",
        problems=problems,
        **args.pick("collection type sort reverse limit"),
    )
    left_out = sum(not problem.is_minor for problem in problems)
    successors = app.successors(memories)
    data = [(memory, successors.get(memory.path)) for memory in memories]
    empty = "No memories found."
    if args.collection and not memories and (missing := missing_collection(app, args.collection)):
        empty = f"No memories found: {missing}."
    return Output(
        lambda: [{**memory.to_dict(), "superseded_by": newer} for memory, newer in data],
        table=_memories_table(memories, successors, empty),
        quiet=[visible(memory.ref, keep_newlines=False) for memory in memories],
        warnings=[f"{plural(left_out, 'file')} left out; `retain status` says why"]
        if left_out
        else [],
    )


def missing_collection(app: App, name: str) -> str:
    """What is said of a collection that is in none of the banks."""
    known = {each or "(root)" for each, _, _ in app.collections()}
    there = ", ".join(sorted(known)) or "none yet"
    wanted = name or "(root)"
    return "" if wanted in known else f"there is no collection {wanted!r}; there are: {there}"


def _memories_table(memories: Sequence[Memory], successors: Mapping[str, str], empty: str) -> Table:
    columns = {
        "ID": [memory.id for memory in memories],
        "Title": [memory.title for memory in memories],
        "Collection": [memory.collection for memory in memories],
        "Tags": [", ".join(memory.tags) for memory in memories],
        "Created": [memory.text("created_at")[:10] for memory in memories],
    }
    scopes = [memory.scope for memory in memories]
    if len(set(scopes)) > 1:
        columns["Scope"] = scopes
    statuses = [
        memory.problem or _status(memory, successors.get(memory.path, "")) for memory in memories
    ]
    if any(statuses):
        columns["Status"] = [status or "active" for status in statuses]
    return Table(
        tuple(columns),
        list(zip(*columns.values(), strict=True)),
        empty,
        flexible=("Title", "Collection", "Tags", "Status"),
    )


@command(
    "update",
    "ID",
    either(
        arg("words FILE", "the new text: a file, or the text itself", nargs="*", default=[]),
        arg("--content FILE", "the same; - for stdin"),
    ),
    "--collection",
    "metadata",
    flag("--merge-tags", "add --tags to the ones there, do not replace"),
    "--expect",
    "--allow-secret",
)
def _update(app: App, args: Args) -> Output:
    """Change a memory's text, title, tags or other metadata.

    Everything you do not name stays as it is, byte for byte; the text before is kept as a
    version. --metadata sets any other key, and null removes one.

      retain update gpu-patterns --content updated.md
      retain update gpu-patterns "Tile to 32 threads."
      retain update gpu-patterns --tags metal,cuda --merge-tags
      retain update gpu-patterns --metadata '{"priority": "high", "draft": null}'
      retain update gpu-patterns --content new.md --expect 3f2a9c01
    """
    text, note = _read_input(app, args) if args.words or args.content is not None else (None, "")
    options = {**args.pick("collection merge_tags"), **parse_fields(args)}
    return written_output(app.update(args.ref, text, expect=args.expect or "", **options), note)


@command(
    "append",
    "ID",
    either(_TEXT, arg("--content FILE", "the same, as with update")),
    "--collection",
    "--expect",
    "--allow-secret",
)
def _append(app: App, args: Args) -> Output:
    """Add text to the end of a memory.

    The text is added after an empty line.

      retain append gpu-patterns "- Metal 3 has mesh shaders"
      echo "- Metal 3 has mesh shaders" | retain append gpu-patterns -
      retain append gpu-patterns more.md
    """
    text, note = _read_input(app, args)
    options = args.pick("collection allow_secret")
    return written_output(app.append(args.ref, text, expect=args.expect or "", **options), note)


@command(
    "move",
    "ID",
    arg("--from NAME", "the collection it is in", dest="source", completes="collection"),
    arg("--collection NAME", "the collection to move it to"),
    arg("--id NEW", "its new id", dest="new", default=""),
    arg("--to BANK", "another bank: its path, or global for your own"),
)
def _move(
    app: App, ref: str, source: str | None, collection: str | None, new: str, to: str | None
) -> Output:
    """Give a memory another id or collection.

    Its versions go with it, except to another bank: there its old file stays in the trash of the
    first bank, and its versions stay there too. Nothing is ever moved over another memory.

      retain move gpu-patterns --collection archive
      retain move knowledge/gpu-patterns --id metal-patterns
      retain move gpu-patterns --to global
    """
    if to is None:
        return written_output(app.move(ref, collection=source, to_collection=collection, to_id=new))
    address = app.find_own(ref, source).address
    with App(everywhere=True) if to == "global" else App(bank=to) as other:
        root = other.location.root
        if to != "global" and not other.location.exists:
            hint = f"`retain init --bank {root}` makes one."
            raise NotFound(f"there is no bank at {root} (named by --to)", hint=hint)
        if root == app.location.root:
            raise UsageError(f"{ref} is in {root} already", unchanged="Nothing was moved.")
        written, deleted = app.move_over(address, other, to_collection=collection, to_id=new)
    return written_output(written, f"The original is in the trash: {deleted.trashed.path}")


@command(
    "delete",
    arg("ref ID", "the memory: id or collection/id", nargs="+"),
    "--collection",
    "--expect",
)
def _delete(app: App, args: Args) -> Output:
    """Move a memory to the trash.

    The file goes to .trash/ with the time in its name, and can be brought back. Where one of
    several is not found, none is deleted.

      retain delete gpu-patterns
      retain delete scratch-1 scratch-2
      retain restore scratch-1 scratch-2
    """
    if args.expect and len(args.ref) > 1:
        raise UsageError("--expect is about one memory", unchanged="Nothing was deleted.")
    memories = [app.find_own(ref, args.collection) for ref in args.ref]
    addresses = dict.fromkeys(memory.address for memory in memories)
    deleted = [app.delete(address, expect=args.expect or "") for address in addresses]
    lines = []
    for trashed, commit, _ in deleted:
        lines += [f"Deleted memory: {trashed.id}", f"In the trash as: {trashed.path}"]
        lines += [f"Committed: {commit[:10]}"] if commit else []
    what = "it" if len(deleted) == 1 else "them"
    names = {
        memory.address if "/" in ref or args.collection else memory.id: None
        for ref, memory in zip(args.ref, memories, strict=True)
    }
    return Output(
        deleted[0] if len(args.ref) == 1 else deleted,
        lines,
        quiet="",
        messages=[f"Bring {what} back with: retain restore {shlex.join(names)}{same_bank(args)}"],
        warnings=[warning for item in deleted for warning in item.warnings],
    )


# What people hand in

# What is meant as a path even where there is no such file: a slash, or an ending.
_PATH = re.compile(r"\S*/\S*|\S+\.\w{1,8}")


def parse_fields(args: Args) -> dict[str, Any]:
    """What the options of `put`, `update` and `merge` ask to store beside the text."""
    fields: dict[str, object] = {"title": None} if args.title == "" else {}
    if args.metadata is not None:
        try:
            fields |= dict(json.loads(args.metadata))
        except (ValueError, TypeError, RecursionError) as error:
            hint = 'Write an object, such as \'{"priority": "high"}\'.'
            raise UsageError(f"--metadata is not a JSON object: {error}", hint=hint) from error
        if "id" in fields:
            raise UsageError("--metadata cannot set the id", hint="`retain move ID --id NEW` does.")
    named = ("status", "category", "context", "project", "priority", "related_to")
    fields |= {name: value for name in named if (value := getattr(args, name)) is not None}
    title = args.title or ""
    return {**args.pick("type tags allow_secret"), "title": title, "metadata": fields}


def _read_input(app: App, args: Args) -> tuple[str, str]:
    """The text of --content, or that which words mean."""
    if args.content is None:
        return _read_words(app, args.words)
    return read_memory_text(app, args.content), ""


def _read_words(app: App, words: Sequence[str]) -> tuple[str, str]:
    """The text that words mean, and a note if it is the words themselves.

    They name a file, or `-` for standard input; what cannot be the name of a file is the text.
    """
    source = " ".join(words) or "-"
    if source == "-" or os.path.lexists(source) or _PATH.fullmatch(source):
        return read_memory_text(app, source), ""
    if files := [word for word in words if os.path.lexists(word)]:
        raise UsageError(
            f"{files[0]} is a file, but other text was given with it",
            unchanged="Nothing was stored.",
            hint="Name one file, or put the text in quotes.",
        )
    is_name = len(source.split()) == 1  # which may be that of a file, mistyped
    return f"{source}\n", "No file has that name, so the word was stored as the text." * is_name


def read_memory_text(app: App, source: str) -> str:
    """The text of a memory, in a file or on standard input, as large as the bank allows.

    Several words that name no file are the text itself.
    """
    if len(source.split()) > 1 and not os.path.lexists(source):
        return f"{source}\n"
    return read_text(source, app.config.number("memory.max_bytes"))


def read_text(source: str, limit: int, what: str = "a memory") -> str:
    """The text in a file, or on standard input for `-`."""
    name = "standard input" if source == "-" else source
    try:
        if source != "-":
            with open(source, "rb") as file:
                data = file.read(limit + 1)
        else:
            if sys.stdin.isatty():
                print("Type the text; Ctrl-D on a new line ends it.", file=sys.stderr)
            data = sys.stdin.buffer.read(limit + 1)
        if len(data) <= limit:
            return data.decode("utf-8")
    except UnicodeDecodeError as error:
        message, hint = f"{name} is not UTF-8 text (byte {error.start})", "Convert it to UTF-8."
        raise UsageError(message, unchanged="Nothing was stored.", hint=hint) from error
    except FileNotFoundError as error:
        message, hint = f"there is no file {source}", "Name a file, or - to read standard input."
        raise NotFound(message, unchanged="Nothing was stored.", hint=hint) from error
    except IsADirectoryError as error:
        hint = f"`retain import {source}` takes over a whole directory."
        raise UsageError(f"{source} is a directory", hint=hint) from error
    raise LimitExceeded(
        f"{name} has more than {limit:,} bytes, the most {what} may have",
        unchanged="Nothing was stored.",
        hint="Split it, or raise memory.max_bytes in your own config.",
    )
