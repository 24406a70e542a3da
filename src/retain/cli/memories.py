"""put, get, list, update, append, move, delete."""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from retain import shapes
from retain.app import App
from retain.cli.inputs import (
    add_collection,
    add_fields,
    add_id,
    add_secrets,
    count,
    draft_from,
    read_text,
)
from retain.cli.parser import Command, Parser, open_app, same_bank
from retain.cli.render import Output, Table, as_context, as_versions, wants_json
from retain.drafts import Draft
from retain.errors import RetainError, UsageError
from retain.finding import SORTS
from retain.guard.characters import visible
from retain.model import STATUSES, Memory, Problem, Version, Written

if TYPE_CHECKING:
    from retain.similar import Alike

__all__ = [
    "append_command",
    "delete_command",
    "get_command",
    "list_command",
    "move_command",
    "put_command",
    "update_command",
    "written_output",
]

_VERBS = {
    "created": "Stored memory",
    "replaced": "Replaced memory",
    "updated": "Updated memory",
    "appended": "Appended to memory",
    "moved": "Moved memory",
    "restored": "Restored memory",
    "unchanged": "Unchanged",
}


def written_output(written: Written) -> Output:
    """What every change answers with."""
    memory = written.memory
    lines = [
        f"{_VERBS[written.status]}: {memory.id}",
        f"Collection: {memory.collection or '(root)'}",
        f"File: {memory.path}",
    ]
    if written.kept:
        lines.append(f"Previous text kept as: {written.kept}")
    if written.commit:
        lines.append(f"Committed: {written.commit[:10]}")
    text = "\n".join(lines) + "\n"
    data = functools.partial(shapes.written, written)
    return Output(data, text, quiet=f"{memory.ref}\n", warnings=written.warnings)


# put


def _put_arguments(parser: Parser) -> None:
    parser.add_argument(
        "file", nargs="?", default="-", help="the text to store: a file; - or nothing for stdin"
    )
    parser.add_argument("--id", help="the memory's id or collection/id; else made from the text")
    add_collection(parser, "where to store it (default: memories)")
    add_fields(parser)
    parser.add_argument("--created-by", default="", metavar="WHO", help="who wrote it")
    parser.add_argument(
        "--replace", action="store_true", help="make it the new text if the id is in use"
    )
    add_secrets(parser)


def _put(args: argparse.Namespace) -> Output:
    if args.id == "":
        raise UsageError("--id is empty", unchanged="Nothing was stored.")
    app = open_app(args)
    text = read_text(args.file, app.config.number("memory.max_bytes"))
    written = app.put(
        draft_from(args, text),
        collection=args.collection,
        name=args.id or "",
        created_by=args.created_by,
        replace=args.replace,
    )
    output = written_output(written)
    if getattr(args, "quiet", False) and not wants_json(args):
        return output
    found = _similar(app, written)
    data = {**shapes.written(written), "similar": found and _similar_data(found)}
    return output._replace(data=data, messages=_similar_notes(found, written, args))


def _similar(app: App, written: Written) -> Sequence[Alike]:
    """Memories that seem to state the same fact; what was stored is stored whatever happens."""
    if written.status == "unchanged":
        return []
    with contextlib.suppress(RetainError):
        return app.library.alike(written.memory.collection, written.memory.id)
    return []


def _similar_data(found: Sequence[Alike]) -> list[dict[str, object]]:
    return list(map(shapes.alike, found))


def _similar_notes(
    found: Sequence[Alike], written: Written, args: argparse.Namespace
) -> Sequence[str]:
    if not found:
        return ()
    from retain.cli.curating import similar_notes

    return similar_notes(found, written.memory.address, same_bank(args))


put_command = Command(
    _put_arguments,
    _put,
    """The id is the one given, else made from the title, the first heading, or the content.
With --id, a memory of that id gets the new text and whatever metadata you name, keeps its
other metadata, and its old text becomes a version; an id that was made up never replaces
anything unless you say --replace.

  echo "# GPU Research" | retain put - --collection knowledge --id gpu-patterns --tags gpu,metal
  retain put notes.md
  retain put notes.md --type fact --context "From profiling" --metadata '{"priority": "high"}'""",
)


# get


def _get_arguments(parser: Parser) -> None:
    add_id(parser, handles=True)
    add_collection(parser, "the collection it is in")
    parser.add_argument(
        "--format",
        choices=("context", "json", "raw"),
        default="context",
        help="context: for reading, the default; json; raw: the text alone, byte for byte",
    )
    parser.add_argument(
        "--version", default="", metavar="V", help="as it was: v2, HEAD~1, a commit"
    )
    parser.add_argument("--show-versions", action="store_true", help="list its versions as well")


def _get(args: argparse.Namespace) -> Output:
    app = open_app(args)
    memory = app.get(args.id, collection=args.collection, version=args.version)
    versions = app.versions(memory.address) if args.show_versions else None
    table = None if versions is None else as_versions(versions)
    successor = app.successor(memory)
    data = functools.partial(_get_data, memory, versions, successor)
    warnings = [f"{memory.path}: {memory.problem}"] if memory.problem else []
    messages = []
    if memory.scope != app.place.scope:
        messages = [f"(from your global bank: {memory.path})"]
    if successor:
        messages.append(f"{memory.ref} is superseded by {successor}")
    if args.format == "raw":
        raw = _raw(memory)
        return Output(data, raw=raw, table=table, messages=messages, warnings=warnings)
    text = as_context(memory)
    text = text if text.endswith("\n") else f"{text}\n"
    return Output(data, text, table=table, messages=messages, warnings=warnings)


def _get_data(
    memory: Memory, versions: Sequence[Version] | None, successor: str
) -> dict[str, object]:
    data = {**shapes.memory(memory, content=True), "superseded_by": successor or None}
    if versions is not None:
        data["versions"] = [one._asdict() for one in versions]
    return data


def _raw(memory: Memory) -> bytes:
    """The body as it stands in the file; a file that cannot be parsed is all body."""
    body = memory.body.encode("utf-8", "surrogateescape")
    return memory.data if memory.problem and not memory.data.endswith(body) else body


get_command = Command(
    _get_arguments,
    _get,
    """An id alone is looked for in every collection, in the project's bank and then in yours.
A brief calls each memory by a handle, which is understood here too. What was merged or
superseded says by which.

  retain get gpu-patterns
  retain get m:4f2a
  retain get knowledge/gpu-patterns --format raw
  retain get gpu-patterns --version HEAD~2
  retain get gpu-patterns --json | jq -r .hash""",
)


# list


def _list_arguments(parser: Parser) -> None:
    add_collection(parser, "only this collection")
    parser.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="EXPR",
        help="key=a,b (either), key!=v, key>=v, key<=v, key~text; several must all hold",
    )
    parser.add_argument("--type", default="", help="only this type")
    parser.add_argument(
        "--status",
        choices=(*STATUSES, "all"),
        default="",
        help="only this status, or all (default: all but retired)",
    )
    parser.add_argument("--sort", choices=SORTS, default="collection", help="what to sort by")
    parser.add_argument("--reverse", action="store_true", help="turn the order round")
    parser.add_argument("--limit", type=count, default=0, metavar="N", help="the first N only")
    parser.add_argument("--format", choices=("table", "json"), default="table")


def _list(args: argparse.Namespace) -> Output:
    problems: list[Problem] = []
    app = open_app(args)
    memories = app.list(
        collection=args.collection,
        conditions=args.filter,
        kind=args.type,
        status=args.status,
        sort=args.sort,
        reverse=args.reverse,
        problems=problems,
    )
    memories = memories[: args.limit] if args.limit else memories
    left_out = sum(not problem.is_minor for problem in problems)
    warnings = [f"{left_out} file(s) left out; `retain status` says why"] if left_out else []
    return Output(
        lambda: [shapes.memory(memory) for memory in memories],
        table=_listing(memories, "" if memories else _none_found(app, args.collection)),
        quiet="".join(f"{name}\n" for name in _names(memories)),
        warnings=warnings,
    )


def _names(memories: list[Memory]) -> list[str]:
    """What each memory is called in another command."""
    counts = Counter(memory.id for memory in memories)
    names = (memory.address if counts[memory.id] > 1 else memory.ref for memory in memories)
    return [visible(name, keep_newlines=False) for name in names]


def _none_found(app: App, collection: str | None) -> str:
    """What to say to an empty list: that there is no such collection, if that is the reason."""
    names = [name for name, _, _ in app.collections()] if collection else []
    if not collection or collection in names:
        return "No memories found."
    return f"No memories found: there is no collection {collection!r}, only {', '.join(names)}."


def _listing(memories: list[Memory], empty: str) -> Table:
    columns = ["ID", "Title", "Collection", "Tags", "Created"]
    rows: list[list[Any]] = [
        [
            memory.id,
            memory.title,
            memory.collection,
            ", ".join(memory.tags),
            memory.text("created_at")[:10],
        ]
        for memory in memories
    ]
    if len({memory.scope for memory in memories}) > 1:
        columns.append("Scope")
        for row, memory in zip(rows, memories, strict=True):
            row.append(memory.scope)
    if any(memory.status != "active" for memory in memories):
        columns.append("Status")
        for row, memory in zip(rows, memories, strict=True):
            row.append(memory.status)
    title = f"Memories ({len(rows)})"
    return Table(columns, rows, title, empty, flexible=("Title", "Collection", "Tags"))


list_command = Command(
    _list_arguments,
    _list,
    """In a project, its own memories come first and then those of your global bank.

  retain list
  retain list --collection knowledge --filter tags=gpu,metal --filter priority=high
  retain list --type decision --sort updated --reverse --limit 5
  retain list --filter created_at>=2026-01-01 --filter title~auth --json""",
)


# update, append


def _update_arguments(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in")
    parser.add_argument("--content", metavar="FILE", help="the new text: a file, or - for stdin")
    add_fields(parser)
    parser.add_argument(
        "--merge-tags", action="store_true", help="add --tags to the ones there, do not replace"
    )
    _add_expect(parser)
    add_secrets(parser)


def _update(args: argparse.Namespace) -> Output:
    app = open_app(args)
    limit = app.config.number("memory.max_bytes")
    text = read_text(args.content, limit) if args.content is not None else None
    draft = draft_from(args, text)._replace(merge_tags=args.merge_tags)
    return written_output(
        app.update(args.id, draft, collection=args.collection, expect=args.expect or "")
    )


update_command = Command(
    _update_arguments,
    _update,
    """Everything you do not name stays as it is, byte for byte; the text before is kept as a
version. --metadata sets any other key, and null removes one.

  retain update gpu-patterns --content updated.md
  retain update gpu-patterns --tags metal,cuda --merge-tags
  retain update gpu-patterns --metadata '{"priority": "high", "draft": null}'
  retain update gpu-patterns --content new.md --expect 3f2a9c01...""",
)


def _append_arguments(parser: Parser) -> None:
    add_id(parser)
    parser.add_argument(
        "file", nargs="?", help="the text to add: a file; - or nothing for stdin, as with put"
    )
    add_collection(parser, "the collection it is in")
    parser.add_argument("--content", metavar="FILE", help="the same, as with update")
    _add_expect(parser)
    add_secrets(parser)


def _append(args: argparse.Namespace) -> Output:
    if None not in (args.file, args.content):
        raise UsageError("the text to add was named twice", unchanged="Nothing was changed.")
    app = open_app(args)
    source = next(one for one in (args.file, args.content, "-") if one is not None)
    text = read_text(source, app.config.number("memory.max_bytes"))
    draft = Draft(text=text, allow_secret=args.allow_secret)
    return written_output(
        app.append(args.id, draft, collection=args.collection, expect=args.expect or "")
    )


append_command = Command(
    _append_arguments,
    _append,
    """The text is added two line breaks after what is there.

  echo "- Metal 3 has mesh shaders" | retain append gpu-patterns -
  retain append gpu-patterns more.md""",
)


def _add_expect(parser: Parser) -> None:
    parser.add_argument(
        "--expect",
        type=_hash,
        metavar="HASH",
        help="change it only if its hash is still this one (from `get --json`)",
    )


def _hash(text: str) -> str:
    digits = text.removeprefix("sha256:").lower()
    if not 8 <= len(digits) <= 64 or digits.strip("0123456789abcdef"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a hash: 8 to 64 hexadecimal digits")
    return digits


# move, delete


def _move_arguments(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in", "--from", dest="source")
    add_collection(parser, "the collection to move it to")
    parser.add_argument("--id", dest="new", default="", metavar="NEW", help="its new id")


def _move(args: argparse.Namespace) -> Output:
    return written_output(
        open_app(args).move(
            args.id, collection=args.source, to_collection=args.collection, to_id=args.new
        )
    )


move_command = Command(
    _move_arguments,
    _move,
    """Its versions go with it. Nothing is ever moved over another memory.

  retain move gpu-patterns --collection archive
  retain move knowledge/gpu-patterns --id metal-patterns""",
)


def _delete_arguments(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in")
    _add_expect(parser)


def _delete(args: argparse.Namespace) -> Output:
    done = open_app(args).delete(args.id, collection=args.collection, expect=args.expect or "")
    trashed = done.trashed
    text = f"Deleted memory: {trashed.id}\nIn the trash as: {trashed.path}\n"
    if done.commit:
        text += f"Committed: {done.commit[:10]}\n"
    data = {
        "status": "deleted",
        "id": trashed.id,
        "collection": trashed.collection,
        "moved_to": trashed.path,
        "commit": done.commit or None,
        "warnings": list(done.warnings),
    }
    message = f"Bring it back with: retain restore --trash {trashed.id}{same_bank(args)}"
    return Output(data, text, quiet="", messages=[message], warnings=done.warnings)


delete_command = Command(
    _delete_arguments,
    _delete,
    """The file goes to .trash/ with the time in its name, and can be brought back.

  retain delete gpu-patterns
  retain restore --trash gpu-patterns""",
)
