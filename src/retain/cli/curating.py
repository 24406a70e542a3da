"""merge, suggest-merges, dedupe."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from retain import shapes
from retain.app import App
from retain.cli.inputs import (
    add_collection,
    add_fields,
    add_secrets,
    complete,
    count,
    draft_from,
    read_text,
    share,
)
from retain.cli.parser import Command, Parser, open_app, same_bank
from retain.cli.recalling import shortfalls
from retain.cli.render import Output

if TYPE_CHECKING:
    from retain.model import Trashed
    from retain.similar import Alike, Cluster, Member, Proposal

__all__ = [
    "dedupe_command",
    "merge_command",
    "similar_notes",
    "suggest_merges_command",
]


# merge


def _merge_arguments(parser: Parser) -> None:
    sources = parser.add_argument(
        "sources", nargs="+", metavar="ID", help="two memories or more: id or collection/id"
    )
    complete(sources, "memories")
    parser.add_argument("--into", required=True, metavar="NEW", help="the id of the new memory")
    parser.add_argument(
        "--content", required=True, metavar="FILE", help="its text: a file, or - for stdin"
    )
    add_collection(parser, "where to store it (default: where the first one is)")
    add_fields(parser)
    add_secrets(parser)


def _merge(args: argparse.Namespace) -> Output:
    app = open_app(args)
    sources = [app.ours(ref).address for ref in args.sources]
    text = read_text(args.content, app.config.number("memory.max_bytes"))
    done = app.merge(sources, args.into, draft_from(args, text), collection=args.collection)
    memory, commit = done.written.memory, done.written.commit
    lines = [
        f"Merged {len(done.trashed)} memories into: {memory.ref}",
        f"File: {memory.path}",
        *(f"In the trash as: {one.path}" for one in done.trashed),
    ]
    if commit:
        lines.append(f"Committed: {commit[:10]}")
    data = {
        "status": "merged",
        "target": memory.ref,
        "sources_merged": len(done.trashed),
        "trashed": [one.name for one in done.trashed],
        "id": memory.id,
        "collection": memory.collection,
        "file_path": memory.path,
        "hash": memory.hash,
        "commit": commit or None,
        "warnings": list(done.written.warnings),
    }
    return Output(
        data,
        "\n".join(lines) + "\n",
        quiet=f"{memory.ref}\n",
        messages=_undoing(done.trashed, same_bank(args)),
        warnings=done.written.warnings,
    )


def _undoing(trashed: Sequence[Trashed], bank: str) -> list[str]:
    return [
        "Bring one back with:",
        *(f"  retain restore --trash {shlex.quote(one.name)}{bank}" for one in trashed),
    ]


merge_command = Command(
    _merge_arguments,
    _merge,
    """The new text is yours; tags and links of the old memories live on in it, links to them
lead to it, and they themselves go to the trash: all of it or nothing.

  retain merge auth-1 auth-2 auth-3 --into auth --content summary.md
  echo "# Auth, in short" | retain merge auth-1 auth-2 --into auth --content - --tags auth""",
)


# suggest-merges


def _suggest_merges_arguments(parser: Parser) -> None:
    parser.add_argument(
        "--threshold", type=share, default=0.85, metavar="X", help="how alike, up to 1 (0.85)"
    )
    parser.add_argument(
        "--type", default="journal", help="only of this type (journal); all for any"
    )
    parser.add_argument("--limit", type=count, default=5, metavar="N", help="groups (5)")


def _suggest_merges(args: argparse.Namespace) -> Output:
    app = open_app(args)
    kind = "" if args.type == "all" else args.type
    found = app.library.suggest_merges(args.threshold, kind, args.limit)
    bank = same_bank(args)
    parts = [_shown_cluster(number, one, bank) for number, one in enumerate(found)]
    return Output(
        [
            {
                **shapes.cluster(number, one, args.threshold),
                "command": _merging(one.members, bank),
            }
            for number, one in enumerate(found)
        ],
        "\n".join(parts),
        quiet="".join(" ".join(one.ref for one in cluster.members) + "\n" for cluster in found),
        messages=_none(app, found, "No memories are alike enough to be merged."),
    )


def _shown_cluster(number: int, cluster: Cluster, bank: str) -> str:
    lines = [f"{cluster.score:.2f}  group {number}: {len(cluster.members)} memories"]
    lines += [f"      {one.ref}: {one.preview}" for one in cluster.members]
    lines.append(f"      {_merging(cluster.members, bank)}")
    return "\n".join(lines) + "\n"


def _merging(members: Sequence[Member], bank: str) -> str:
    refs = " ".join(_argument(one) for one in members)
    return f"retain merge {refs} --into NEW --content FILE{bank}"


def _argument(member: Member) -> str:
    """A memory as an argument that names it alone."""
    return shlex.quote(f"{member.collection}/{member.id}")


def _none(app: App, found: Sequence[object], otherwise: str) -> list[str]:
    if found:
        return []
    if not app.library.has_model():
        return ["Memories are compared by a model, and recall.embedder is none."]
    return [otherwise]


suggest_merges_command = Command(
    _suggest_merges_arguments,
    _suggest_merges,
    """Nothing is merged: each group comes with the command that would do it.

  retain suggest-merges
  retain suggest-merges --threshold 0.7 --type all --json""",
)


# dedupe


def _dedupe_arguments(parser: Parser) -> None:
    """The common options are enough."""


def _dedupe(args: argparse.Namespace) -> Output:
    app = open_app(args)
    found = app.library.dedupe()
    degraded = app.library.shortfalls()
    bank = same_bank(args)
    return Output(
        [{**_proposal_data(one, bank), "degraded": shapes.degraded(degraded)} for one in found],
        "\n".join(_shown_proposal(one, bank) for one in found),
        quiet="".join(f"{one.older.ref} {one.newer.ref}\n" for one in found),
        messages=_none(app, found, "No fact seems to be stated twice."),
        warnings=shortfalls(degraded),
    )


def _proposal_data(one: Proposal, bank: str) -> dict[str, object]:
    return {
        "action": one.action,
        "score": one.score,
        "reason": one.reason,
        "older": shapes.member(one.older),
        "newer": shapes.member(one.newer),
        "command": _accepting(one, bank),
    }


def _shown_proposal(one: Proposal, bank: str) -> str:
    return (
        f"{one.score:.2f}  {one.action}: {one.reason}\n"
        f"      older  {one.older.ref}: {one.older.preview}\n"
        f"      newer  {one.newer.ref}: {one.newer.preview}\n"
        f"      {_accepting(one, bank)}\n"
    )


def _accepting(one: Proposal, bank: str) -> str:
    if one.action == "merge":
        return _merging((one.older, one.newer), bank)
    return _superseding(one.older, one.newer.ref, bank)


def _superseding(older: Member, newer: str, bank: str) -> str:
    return f"retain supersede {_argument(older)} --by {shlex.quote(newer)}{bank}"


dedupe_command = Command(
    _dedupe_arguments,
    _dedupe,
    """Short memories that say the same, or state a fact anew. Nothing is changed: each pair
comes with the command that accepts it. A memory that is superseded stays, is ranked lower
and says so.

  retain dedupe
  retain dedupe --json | jq -r '.[].command'""",
)


# What `put` says about a memory that is like another


def similar_notes(found: Sequence[Alike], new: str, bank: str) -> list[str]:
    """Memories that are like one just stored, and what a person can do about it."""
    lines = []
    for one in found[:3]:
        refs = f"{_argument(one.member)} {shlex.quote(new)}"
        lines += [
            f"Looks like {one.member.ref} ({one.score:.2f}): {one.member.preview}",
            f"  if this one replaces it: {_superseding(one.member, new, bank)}",
            f"  or make them one: retain merge {refs} --into NEW --content FILE{bank}",
        ]
    return lines
