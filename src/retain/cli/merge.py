"""merge, suggest-merges, dedupe."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from retain.app import App
from retain.cli.command import Args, Output, arg, command, same_bank
from retain.cli.memories import parse_fields, read_memory_text
from retain.cli.search import shortfalls

if TYPE_CHECKING:
    from retain.search.duplicates import Alike


@command(
    "merge",
    arg("sources ID", "two memories or more: id or collection/id", nargs="+", completes="ref"),
    arg("--into NEW", "the id of the new memory", required=True),
    arg("--content FILE", "its text: a file, - for stdin, or the text itself", required=True),
    arg("--collection NAME", "where to store it (default: where the first one is)"),
    "metadata",
    "--allow-secret",
)
def _merge(app: App, args: Args) -> Output:
    """Replace several memories with one.

    The new text is yours; tags and links of the old memories live on in it, links to them
    lead to it, and they themselves go to the trash: all of it or nothing.

      retain merge auth-1 auth-2 auth-3 --into auth --content summary.md
      echo "# Auth, in short" | retain merge auth-1 auth-2 --into auth --content - --tags auth
    """
    sources = [app.find_own(ref).address for ref in args.sources]
    text = read_memory_text(app, args.content)
    merged = app.merge(sources, args.into, text, collection=args.collection, **parse_fields(args))
    written, trashed = merged
    lines = [
        f"Merged {len(trashed)} memories into: {written.memory.ref}",
        f"File: {written.memory.path}",
        *(f"In the trash as: {entry.path}" for entry in trashed),
        *([f"Committed: {written.commit[:10]}"] if written.commit else []),
    ]
    bank = same_bank(args)
    undo = [f"  retain restore --trash {shlex.quote(entry.name)}{bank}" for entry in trashed]
    messages = ["Bring one back with:", *undo]
    quiet = [written.memory.ref]
    return Output(merged, lines, quiet=quiet, messages=messages, warnings=written.warnings)


@command(
    "suggest-merges",
    arg("--threshold X", "how alike, up to 1 (0.85)", default=0.85),
    arg("--type TYPE", "only of this type (journal); all for any", dest="kind", default="journal"),
    arg("--limit N", "groups (5)", default=5),
)
def _suggest_merges(app: App, threshold: float, kind: str, limit: int, args: Args) -> Output:
    """Find groups of memories that could be one.

    Nothing is merged: each group comes with the command that would do it.

      retain suggest-merges
      retain suggest-merges --threshold 0.7 --type all --json
    """
    kind = "" if kind == "all" else kind
    clusters = app.suggest_merges(threshold, kind, limit)
    data, texts = [], []
    for number, cluster in enumerate(clusters):
        merge = _merge_command([member.address for member in cluster.members], args)
        data.append({**cluster.to_dict(number, threshold), "command": merge})
        lines = [f"{cluster.score:.2f}  group {number}: {len(cluster.members)} memories"]
        lines += [f"      {member.ref}: {member.preview}" for member in cluster.members]
        texts.append("\n".join([*lines, f"      {merge}\n"]))
    messages = _if_none(app, clusters, "No memories are alike enough to be merged.")
    if kind and app.has_model():
        messages.append(f"Only memories of the type {kind} were compared; --type all takes any.")
    quiet = [" ".join(member.ref for member in cluster.members) for cluster in clusters]
    return Output(data, "\n".join(texts), quiet=quiet, messages=messages)


def _merge_command(refs: Sequence[str], args: Args) -> str:
    return f"retain merge {shlex.join(refs)} --into NEW --content FILE{same_bank(args)}"


def _supersede_command(older: str, newer: str, args: Args) -> str:
    return f"retain supersede {shlex.join([older, '--by', newer])}{same_bank(args)}"


def _if_none(app: App, values: Sequence[object], message: str) -> list[str]:
    """Say why there is nothing, where there is nothing."""
    if not app.has_model():
        message = "Memories are compared by a model, and recall.embedder is none."
    return [] if values else [message]


@command("dedupe")
def _dedupe(app: App, args: Args) -> Output:
    """Find facts that are stated twice, and what to do about them.

    Short memories that say the same, or restate a fact. Nothing is changed: each pair
    comes with the command that accepts it. A memory that is superseded stays, is ranked lower
    and says so.

      retain dedupe
      retain dedupe --json | jq -r '.[].command'
    """
    pairs = app.dedupe()
    degraded = app.shortfalls()
    data, texts = [], []
    for pair in pairs:
        older, newer = pair.older, pair.newer
        accept = _supersede_command(older.address, newer.ref, args)
        if pair.action == "merge":
            accept = _merge_command([older.address, newer.address], args)
        data.append({**pair.to_dict(), "command": accept, "degraded": degraded.to_dict()})
        texts.append(
            f"{pair.score:.2f}  {pair.action}: {pair.reason}\n"
            f"      older  {older.ref}: {older.preview}\n"
            f"      newer  {newer.ref}: {newer.preview}\n"
            f"      {accept}\n"
        )
    return Output(
        data,
        "\n".join(texts),
        quiet=[f"{pair.older.ref} {pair.newer.ref}" for pair in pairs],
        messages=_if_none(app, pairs, "No fact seems to be stated twice."),
        warnings=shortfalls(degraded),
    )


def similar_notes(similar: Sequence[Alike], new: str, args: Args) -> list[str]:
    """What `put` says of memories that are like the one just stored, and what can be done."""
    lines = []
    for alike in similar[:3]:
        old = alike.member
        lines += [
            f"Looks like {old.ref} ({alike.score:.2f}): {old.preview}",
            f"  if this one replaces it: {_supersede_command(old.address, new, args)}",
            f"  or make them one: {_merge_command([old.address, new], args)}",
        ]
    return lines
