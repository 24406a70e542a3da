"""Answers as plain data, in the same shape behind every door; `docs/json.md` describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retain.model import Answer, Degraded, Hit, Linked, Memory, Written

if TYPE_CHECKING:
    from retain.brief import Brief, Item
    from retain.capture.inbox import Proposal
    from retain.library import Stats
    from retain.recall.graph import Graph
    from retain.recall.related import Related
    from retain.review import Refused, Reviewed
    from retain.similar import Alike, Cluster, Member
    from retain.typed.ledger import Outcome
    from retain.typed.upkeep import Change

__all__ = [
    "alike",
    "answer",
    "brief",
    "change",
    "cluster",
    "degraded",
    "graph",
    "hit",
    "linked",
    "member",
    "memory",
    "outcome",
    "proposal",
    "related",
    "reviewed",
    "size",
    "stats",
    "written",
]

Data = dict[str, object]


def memory(one: Memory, *, content: bool = False) -> Data:
    """A memory: what every listing has, and with `content` everything there is."""
    data: Data = {
        "id": one.id,
        "title": one.title,
        "collection": one.collection,
        "type": one.type,
        "status": one.status,
        "tags": list(one.tags),
        "category": one.meta.get("category"),
        "created_at": one.meta.get("created_at"),
        "updated_at": one.meta.get("updated_at"),
        "scope": one.scope,
        "file_path": one.path,
    }
    if content:
        data |= {
            "content": one.body,
            "metadata": dict(one.meta),
            "hash": one.hash,
            "problem": one.problem or None,
        }
    return data


def written(done: Written) -> Data:
    """What a change of one memory did."""
    one = done.memory
    return {
        "id": one.id,
        "collection": one.collection,
        "file_path": one.path,
        "status": done.status,
        "hash": one.hash,
        "created_at": one.meta.get("created_at"),
        "updated_at": one.meta.get("updated_at"),
        "previous_version": done.kept or None,
        "commit": done.commit or None,
        "warnings": list(done.warnings),
    }


def outcome(done: Outcome) -> Data:
    """What a step did to a typed memory."""
    one = done.memory
    return {
        "status": done.status,
        "id": one.id,
        "collection": one.collection,
        "type": one.type,
        "title": one.title,
        "file_path": one.path,
        "hash": one.hash,
        "renamed_from": done.renamed_from or None,
        "commit": done.commit or None,
        "notes": list(done.notes),
        "warnings": list(done.warnings),
    }


def proposal(one: Proposal) -> Data:
    """A proposal in the inbox, without its text."""
    data: Data = one._asdict()
    del data["text"]
    return data


def reviewed(done: Reviewed) -> Data:
    """What became of proposals."""
    return {
        "accepted": [
            {
                **outcome(one.outcome),
                "proposal": one.proposal.id,
                "near": one.near and one.near._asdict(),
            }
            for one in done.accepted
        ],
        "dropped": [one.id for one in done.dropped],
        "restored": [one.id for one in done.restored],
        "kept": [one.id for one in done.kept],
        "refused": list(map(_refused, done.refused)),
    }


def _refused(one: Refused) -> Data:
    error = one.error
    return {
        "id": one.proposal.id,
        "code": error.code,
        "message": error.message,
        "unchanged": error.unchanged,
        "hint": error.hint,
    }


def change(one: Change) -> Data:
    """One entry of a typed memory's own history."""
    return {
        "date": one.date,
        "id": one.memory.id,
        "collection": one.memory.collection,
        "type": one.memory.type,
        "summary": one.summary,
        "field": one.field or None,
        "old_value": one.old_value,
        "new_value": one.new_value,
    }


def degraded(found: Degraded) -> Data | None:
    """In what an answer falls short, None when it does not."""
    return {"pending": found.pending, "reasons": list(found.reasons)} if found else None


def answer(query: str, mode: str, found: Answer) -> Data:
    """What a search found."""
    return {
        "query": query,
        "mode": mode,
        "hits": list(map(hit, found.hits)),
        "confidence": found.confidence,
        "confident": found.is_confident,
        "degraded": degraded(found.degraded),
    }


def hit(one: Hit) -> Data:
    """One hit of a search."""
    from retain.brief import cautions

    data: Data = {
        "id": one.id,
        "collection": one.collection,
        "score": one.score,
        "text": one.text,
        "header_path": one.header_path,
        "line": one.line,
        "title": one.title,
        "type": one.type,
        "status": one.status,
        "tags": list(one.tags),
        "created_at": one.created_at or None,
        "who": one.who or None,
        "scope": one.scope,
        "file_path": one.path,
        "superseded": one.is_superseded,
        "superseded_by": one.superseded_by or None,
        "links": list(map(_link, one.links)),
        "cautions": list(cautions(one)),
    }
    if one.explanation is not None:
        data["explanation"] = dict(one.explanation)
    return data


def linked(one: Hit, shortfall: Degraded) -> Data:
    """A memory that links to a document, with how it does."""
    first = _link(one.links[0])
    return {
        "memory_id": f"memory:{one.ref}",
        "id": one.id,
        "collection": one.collection,
        "score": one.score,
        "title": one.title,
        "type": one.type,
        "content": one.text,
        "anchor_context": first["anchor_context"],
        "edge_type": first["edge_type"],
        "file_path": one.path,
        "freshness": first["freshness"],
        "line": first["line"],
        "links": list(map(_link, one.links)),
        "degraded": degraded(shortfall),
    }


def _link(one: Linked) -> Data:
    return {
        "target": one.target,
        "edge_type": one.edge,
        "anchor_context": one.context,
        "line": one.line,
        "freshness": one.freshness or None,
        "now_at": one.now_at or None,
        "anchor": one.anchor or None,
        "label": one.label or None,
    }


def brief(query: str, found: Brief) -> Data:
    """Hits packed into a token budget."""
    return {
        "query": query,
        "text": found.text,
        "items": list(map(_item, found.items)),
        "tokens": found.tokens,
        "budget": found.budget,
        "left_out": found.left_out,
        "confidence": found.confidence,
        "confident": found.is_confident,
        "degraded": degraded(found.degraded),
    }


def _item(item: Item) -> Data:
    one = item.hit
    return {
        "handle": item.handle,
        "id": one.id,
        "collection": one.collection,
        "title": one.title,
        "created_at": one.created_at or None,
        "score": one.score,
        "scope": one.scope,
        "file_path": one.path,
        "line": one.line,
        "superseded": one.is_superseded,
        "superseded_by": one.superseded_by or None,
        "links": list(map(_link, one.links)),
        "text": item.text,
        "tokens": item.tokens,
        "cut": item.is_cut,
    }


def related(one: Related, shortfall: Degraded) -> Data:
    """A memory connected with another one."""
    return {**one._asdict(), "reasons": dict(one.reasons), "degraded": degraded(shortfall)}


def graph(found: Graph) -> Data:
    """Memories, files and the links between them."""
    return {
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "title": node.title or None,
                "freshness": node.freshness or None,
                "now_at": node.now_at or None,
            }
            for node in found.nodes
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target.removeprefix("?"),
                "edge_type": edge.edge,
                "anchor_context": edge.context,
                "line": edge.line,
            }
            for edge in found.edges
        ],
    }


def member(one: Member) -> Data:
    """A memory of a group of like ones."""
    return {
        "id": one.id,
        "collection": one.collection,
        "title": one.title,
        "created_at": one.created_at or None,
        "file_path": one.path,
        "preview": one.preview,
    }


def alike(one: Alike) -> Data:
    """A memory that is like one just stored."""
    return {
        "id": one.member.id,
        "collection": one.member.collection,
        "score": one.score,
        "same": one.is_same,
        "preview": one.member.preview,
    }


def cluster(number: int, one: Cluster, threshold: float) -> Data:
    """A group of memories that could be one."""
    return {
        "cluster_id": number,
        "score": one.score,
        "reason": f"High vector similarity (> {threshold:g})",
        "memory_count": len(one.members),
        "memories": [
            {"id": member.ref, "file_path": member.path, "preview": member.preview}
            for member in one.members
        ],
    }


def stats(found: Stats, root: str) -> Data:
    """How much there is in a bank, and of what."""
    return {
        "count": found.facts.memories,
        "total_size": size(found.facts.size).replace(" ", ""),
        "bytes": found.facts.size,
        "tags": dict(found.tags),
        "types": dict(found.types),
        "memory_path": root,
    }


def size(number: int) -> str:
    """A size as people say it."""
    if number < 1024:
        return f"{number} B"
    amount, unit = number / 1024, "KB"
    for larger in ("MB", "GB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"
