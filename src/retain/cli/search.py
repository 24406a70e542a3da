"""search, brief, linked, related, graph."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from retain.app import App
from retain.cli.command import Args, Output, arg, command, either, flag, memory_arg
from retain.cli.memories import missing_collection, read_text
from retain.cli.render import Bar, Table
from retain.errors import BadName, NotFound, RetainError, UsageError
from retain.memory import Answer, Degraded, Hit, Linked
from retain.search.excerpt import cut_excerpt
from retain.text.tokens import words

if TYPE_CHECKING:
    from retain.search.related import Graph, Node

_INDENT = " " * 6
_MAX_BATCH_BYTES = 100_000_000
_Children = dict[str, list[tuple[str, str, bool]]]  # of a node: label, end, drawn in full there


@command(
    "search",
    arg("words QUERY", "words, or a whole question", nargs="*"),
    arg("--collection NAME", "only in this collection"),
    "--filter",
    "--type",
    "--tags",
    arg("--since WHEN", "7d, 2026-05-08, last week ...", default=""),
    arg("--until WHEN", "the same; that day is included", default=""),
    arg("--limit N", "how many (10)", default=10),
    either(flag("--semantic", "by meaning alone"), flag("--text", "by words alone")),
    arg("--min-score X", "nothing below, from 0 to 1", default=0.0),
    flag("--explain", "say where each score comes from"),
    flag("--full", "whole memories, not excerpts"),
    arg("--per memory|chunk", "each memory once, by its best part (default), or every part"),
    arg("--batch FILE", "a query on each line of a file (- is stdin); a JSON answer on each line"),
)
def _search(app: App, args: Args) -> Output:
    """Find memories by words and by meaning.

    Words and meaning count together; a question may name people, files and dates. Files that
    changed since the last command are indexed first. Each hit shows its score (0 to 1), its place
    in the file, and whether a file it links to has changed, moved or been deleted since it was
    written, or does not exist yet.

      retain search "GPU acceleration"
      retain search "what did we decide about tokens last week" --type decision --since 30d
      retain search "JWT" --tags auth,security --text --explain
      retain search "auth" --filter priority=high --json | jq -r '.hits[].id'
      retain search --batch questions.txt > answers.jsonl
    """
    query = " ".join(args.words)
    if bool(query.strip()) == (args.batch is not None):
        raise UsageError(
            "give a query or --batch FILE, one of the two",
            unchanged="Nothing was searched.",
            hint='retain search "QUERY"; --batch reads its queries from a file, one on each line.',
        )
    options = args.pick("limit per collection type tags since until filter min_score explain")
    options["mode"] = "semantic" if args.semantic else "text" if args.text else "hybrid"
    if args.batch is not None:
        answers = (_answer(app, query, args.full, options) for query in _read_lines(args.batch))
        return Output(None, stream=(Output(answer.data) for answer in answers))
    if sys.stderr.isatty():  # someone is looking on: a first index should not seem to hang
        with Bar("Indexing") as bar:
            app.refresh(bar)
    return _answer(app, query, args.full, options)


def _answer(app: App, query: str, full: bool, options: Mapping[str, Any]) -> Output:
    """Search once, and lay out what was found."""
    answer = app.search(query, **options)
    hits, notes = answer.hits, []
    if not hits:
        notes = _missing_names(app, options["collection"], options["type"])
    bodies = [app.read_body(hit) for hit in hits] if full else []
    data = {"query": query, "mode": options["mode"], **answer.to_dict(), "notes": notes}
    if full:
        data["hits"] = [
            {**hit.to_dict(), "content": body} for hit, body in zip(hits, bodies, strict=True)
        ]
    asked = set(words(query))
    several = any(hit.scope != app.location.scope for hit in hits)
    texts = bodies or [cut_excerpt(hit, asked) for hit in hits]
    return Output(
        data,
        "\n".join(_render_hit(*pair, several) for pair in zip(hits, texts, strict=True)),
        quiet=[hit.ref for hit in hits],
        messages=[_judge(query, answer), *notes],
        warnings=shortfalls(answer.degraded),
    )


def _read_lines(source: str) -> list[str]:
    """The queries in a file, or on standard input for `-`, one on each line, empty ones too."""
    try:
        text = read_text(source, _MAX_BATCH_BYTES, "a batch").removeprefix("\ufeff")
    except RetainError as error:
        error.unchanged = "Nothing was searched."
        error.hint = "Name a file with one query on each line, or - to read standard input."
        raise
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _missing_names(app: App, collection: str | None, kind: str) -> list[str]:
    """What a search without hits asks for that this bank does not have at all."""
    asked = []
    if collection is not None:
        asked.append(missing_collection(app, collection))
    if kind and kind not in (known := app.count_types()):
        there = ", ".join(sorted(known)) or "none yet"
        asked.append(f"there is no memory of the type {kind!r}; there are: {there}")
    return [note for note in asked if note]


def shortfalls(degraded: Degraded) -> list[str]:
    """In what an answer falls short, for a person."""
    notes = list(degraded.reasons)
    if degraded.pending:
        notes.append(
            f"{degraded.pending} parts are found by their words only until they have a vector; "
            "`retain index` makes them"
        )
    return notes


def _judge(query: str, answer: Answer) -> str:
    """What is to be said of an answer that is not simply one."""
    from retain.search.rank import describe_fit, query_terms

    if not answer.hits:
        return "Nothing found."
    return "" if answer.is_confident else describe_fit(answer, query_terms(query))


def _render_hit(hit: Hit, text: str, several: bool) -> str:
    """One hit: where it is and what to beware of, then what it says."""
    about = [
        hit.ref,
        "" if hit.header_path.startswith(hit.title) else hit.title,
        hit.header_path,
        f"line {hit.line}",
        hit.created_at[:10],
        ", ".join(hit.tags),
        hit.scope if several else "",
        *dict.fromkeys(hit.cautions),
    ]
    head = " · ".join(_flat(part) for part in about if part)
    below = [*text.splitlines(), *_explain(hit.explanation)]
    lines = [f"{hit.score:.2f}  {head}", *(f"{_INDENT}{line}" for line in below)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _explain(why: Mapping[str, Any] | None) -> list[str]:
    """Each arm's rank and score, what every part added, and every boost."""
    if why is None:
        return []
    arms = []
    for name in ("text", "vector"):
        rank, score = (why[name]["rank"], why[name]["score"]) if why[name] else (None, 0.0)
        arms.append(f"{name} {f'#{rank} ' if rank else ''}({score:.3f})")
    added = ", ".join(f"{name} {value:+.3f}" for name, value in (why["parts"] or {}).items())
    boosts = ", ".join(f"{name} x{value:g}" for name, value in (why["boosts"] or {}).items())
    step = ""
    if shown := why["shown"]:
        less = f" - {shown['granted']:g} granted" if shown["granted"] else ""
        step = f"sum {why['sum']:.3f}{less}, shown by {shown['slope']:g} around {shown['middle']:g}"
    parts = (", ".join(arms), f"= {added}" if added else "", boosts, step)
    mentions = [(name, ", ".join(map(str, why[name]))) for name in ("names", "dates")]
    return [
        "why: " + "; ".join(filter(None, parts)),
        *(f"{name} in the question: {values}" for name, values in mentions if values),
    ]


@command(
    "brief",
    arg("words QUERY", "what you are about to do", nargs="+"),
    arg("--budget N", "tokens it may have (2000)", default=2000),
    arg("--limit N", "memories (12)", default=12),
)
def _brief(app: App, args: Args, budget: int, limit: int) -> Output:
    """Pack the best hits into a token budget, for a prompt.

    What an agent should know before it starts: the best hits with title, date, source and a
    handle, fenced as data. `retain get m:4f2a` gives the whole memory. When nothing fits, it
    says so on standard error and prints nothing else.

      retain brief "move the login to JWT"
      retain brief "GPU kernels" --budget 800 --json
    """
    query = " ".join(args.words)
    brief = app.brief(query, budget, limit)
    message = "Nothing fits well enough; `retain search` lists what is nearest."
    if brief.left_out:
        message = f"{brief.left_out} memories fit the question, but not into {budget} tokens."
    return Output(
        {"query": query, **brief.to_dict()},
        brief.text,
        quiet=brief.text,
        messages=[] if brief.items else [message],
        warnings=shortfalls(brief.degraded),
    )


@command(
    "linked",
    arg("document DOC", "a file of the project, or a memory"),
    arg("query QUERY", "rank by this; else newest first", nargs="?", default=""),
    arg("--limit N", "how many (5)", default=5),
)
def _linked(app: App, document: str, query: str, limit: int) -> Output:
    """Find the memories that link to a document.

    A memory links to a file by naming it in double brackets: [[src/auth.py]]. The words
    around it tell how: mentions, plans, refactors, debugs, related_to. Each link says whether
    the file is still what it was: fresh, changed, moved or gone; planned is one that never was.
    DOC is a path from the current directory or from the project's root, or an absolute one. A file
    that was renamed in git is found by its new name too.

      retain linked src/auth.py
      retain linked src/auth.py "refactor plans" --limit 10 --json
    """
    answer = app.linked(document, query, limit)
    none = f"No memory links to {document}: a link is written [[{document}]]."
    several = any(hit.scope != app.location.scope for hit in answer.hits)
    texts = []
    for hit in answer.hits:
        about = (hit.ref, _flat(hit.title), hit.created_at[:10], hit.scope if several else "")
        head = " · ".join(filter(None, about))
        texts.append(f"{hit.score:.2f}  {head}\n" if query else f"{head}\n")
        for link in hit.links:
            anchor = f"at #{_flat(link.anchor)}" if link.anchor else ""
            about = (link.edge, f"line {link.line}", anchor, _freshness(link))
            texts[-1] += f"{_INDENT}{', '.join(filter(None, about))}: {_flat(link.context)}\n"
    return Output(
        [{**hit.to_backlink(), "degraded": answer.degraded.to_dict()} for hit in answer.hits],
        "\n".join(texts),
        quiet=[hit.ref for hit in answer.hits],
        messages=[none if not answer.hits else ""],
        warnings=shortfalls(answer.degraded),
    )


def _freshness(file: Linked | Node) -> str:
    """How a linked file is now, in words."""
    return f"moved to {file.now_at}" if file.freshness == "moved" else file.freshness


@command("related", "ID or handle", arg("--limit N", "how many (10)", default=10))
def _related(app: App, ref: str, limit: int) -> Output:
    """Find the memories connected with one.

    By links in either direction, files that both link to, tags they share, and meaning.

      retain related auth-plan
      retain related m:4f2a
      retain related auth-plan --limit 3 --quiet
    """
    related = app.related(app.find_own(ref).address, limit)
    degraded = app.shortfalls()
    rows = []
    for memory in related:
        reasons = ", ".join(f"{why} {value:.2f}" for why, value in memory.reasons.items())
        name = f"{memory.collection}/{memory.id}".removeprefix("/")
        rows.append((f"{memory.score:.2f}", name, memory.title, reasons))
    empty = "Nothing is connected with it."
    return Output(
        [{**memory.to_dict(), "degraded": degraded.to_dict()} for memory in related],
        table=Table(("Score", "Memory", "Title", "Why"), rows, empty=empty, flexible=("Title",)),
        quiet=[row[1] for row in rows],
        warnings=shortfalls(degraded),
    )


# graph


@command(
    "graph",
    memory_arg("id, collection/id or handle (m:4f2a); or a file that memories link to", nargs="?"),
    arg("--depth N", "with an ID: how many steps away (2)", default=2),
    arg("--format tree|json|dot", "tree: for reading (default); dot: for Graphviz"),
)
def _graph(app: App, ref: str | None, depth: int, args: Args) -> Output:
    """Draw links, backlinks, linked files and dangling links.

    Shows the whole bank, or what is within a few steps of one memory or file, in both directions.
    Linked files show their state, and links that lead nowhere say so; ↑ marks what is drawn in
    full elsewhere.

      retain graph
      retain graph auth-plan --depth 1
      retain graph src/auth.py
      retain graph --format dot | dot -Tsvg > graph.svg
    """
    address = start = ""  # as it is asked for, and as it is drawn
    if ref:
        try:
            memory = app.find_own(ref)
            address, start = memory.address, memory.ref
        except (NotFound, BadName):
            address = start = app.find_ghost(ref) if app.location.exists else ""
            if not start:
                raise
    graph = app.graph(address, depth)
    return Output(
        graph,
        render_dot(graph) if args.format == "dot" else render_tree(graph, start),
        quiet=[node.name for node in graph.nodes],
        messages=[] if graph.nodes else ["There are no memories yet."],
    )


def render_tree(graph: Graph, start: str = "") -> str:
    """Draw an indented tree: from one memory outwards, or every memory with its links."""
    nodes = {_end(node): node for node in graph.nodes}
    edges = Counter((edge.source, edge.target, edge.edge) for edge in graph.edges)
    branches: dict[str, list[tuple[str, str, object]]] = defaultdict(list)  # label, end, edge
    for (source, target, kind), number in edges.items():
        edge = (source, target, kind)
        times = f" x{number}" if number > 1 else ""
        branches[source].append((f"{kind}{times} → ", target, edge))
        if start and source != target:
            branches[target].append((f"{kind}{times} ← ", source, edge))
    children: _Children = defaultdict(list)
    placed: set[str] = set()
    used: set[object] = set()
    lines: list[str] = []
    for root in [start] if start else _find_roots(nodes, edges):
        if root in placed:
            continue
        placed.add(root)
        queue = deque([root])
        while queue:  # a node is drawn in full where there are the fewest steps to it
            name = queue.popleft()
            for label, other, link in branches[name]:
                if link not in used:
                    children[name].append((label, other, other not in placed))
                    queue += {other} - placed
                    placed.add(other)
                used.add(link)
        for name, lead, is_first in _walk(root, children):
            mark = "" if is_first or not branches[name] else " ↑"
            lines.append(f"{lead}{_node_label(nodes[name])}{mark}\n")
    return "".join(lines)


def _find_roots(nodes: Mapping[str, Node], edges: Iterable[tuple[str, str, str]]) -> list[str]:
    """Every memory, those first that nothing leads to; what is left then leads round in circles."""
    linked = {target for source, target, _ in edges if target != source}
    memories = [name for name, node in nodes.items() if node.kind == "memory"]
    return sorted(memories, key=lambda name: name in linked)


def _walk(root: str, children: _Children) -> Iterator[tuple[str, str, bool]]:
    """Each node below one, with the lines that lead to it, and whether it is in full there."""
    stack = [(root, "", "", True)]
    while stack:
        name, lead, indent, is_full = stack.pop()
        yield name, lead, is_full
        turn, rail = "└── ", "    "  # of the last one, which is put on the stack first
        for label, other, is_new in reversed(children[name] if is_full else []):
            stack.append((other, f"{indent}{turn}{label}", indent + rail, is_new))
            turn, rail = "├── ", "│   "


def _end(node: Node) -> str:
    """A node as edges name it."""
    return f"?{node.name}" if node.kind == "dangling" else node.name


def _node_label(node: Node) -> str:
    if node.kind == "dangling":
        return f"{node.name} (nothing has this name)"
    if node.kind == "ghost":
        state = ", ".join(filter(None, ("file", _freshness(node))))
        return f"{node.name.removeprefix('ghost:')} ({state})"
    return f"{node.name}  {_flat(node.title)}".rstrip()


def render_dot(graph: Graph) -> str:
    """Write the graph in the language of Graphviz."""
    looks = {
        "memory": "shape=box, style=solid",
        "ghost": "shape=note, style=dashed",
        "dangling": "shape=ellipse, style=dotted",
    }
    lines = ["digraph retain {", "  rankdir=LR;"]
    for node in graph.nodes:
        label = _quote_dot(_node_label(node))
        lines.append(f"  {_quote_dot(_end(node))} [label={label}, {looks[node.kind]}];")
    for edge in graph.edges:
        ends = f"{_quote_dot(edge.source)} -> {_quote_dot(edge.target)}"
        lines.append(f"  {ends} [label={_quote_dot(edge.edge)}];")
    return "\n".join([*lines, "}", ""])


def _quote_dot(text: str) -> str:
    """A string that DOT takes for nothing but its characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
