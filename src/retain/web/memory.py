"""One memory: its page, its earlier texts, its links, the trash, and texts that are previewed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.errors import HistoryError, RetainError
from retain.memory import Memory
from retain.search.related import MOST_AROUND, Graph, Related
from retain.web import answers, memory_view, undo_steps, wikilinks
from retain.web.bank_pool import BankPool
from retain.web.diff import Diff, compare
from retain.web.memory_api import ONE, Expected, Text, refuse_newer
from retain.web.operation import Call, Given, Name, Operation, collection_of, named
from retain.web.rendering import address, page, part
from retain.web.snippets import plain
from retain.web.undo_steps import api_path

if TYPE_CHECKING:
    from retain.app import App
    from retain.bank.history import History
    from retain.memory import Version


_MOST: Final = 200  # versions; a page with more helps nobody


class Past(NamedTuple):
    """The newest versions, and why those of git are not among them."""

    versions: list[Version]
    problem: str = ""


async def past(history: History, memory: Memory) -> Past:
    """What is known of a memory's earlier texts; without git, the copies that were kept."""
    return await anyio.to_thread.run_sync(_read, history, memory)


def _read(history: History, memory: Memory) -> Past:
    try:
        return Past(history.versions(memory, _MOST))
    except HistoryError as error:
        return Past(history.numbered(memory)[:_MOST], error.message)


# The JSON interface

Data = dict[str, Any]


class Shown(Given):
    """A text to be shown: a body, or with a suffix the whole file of a memory."""

    text: Text
    suffix: Literal["", ".md", ".json"] = ""


class Two(Given):
    """Two texts to compare."""

    old: Text
    new: Text


class Returning(Expected):
    """The same, and whether the text comes back byte by byte, as if nothing had been done to it.

    A record tells of its own changes, also of those that are taken back: without this it would
    go on saying what has taken its place.
    """

    exact: bool = False


class Thrown(Given):
    """An entry of the trash: its name, after its collection's if it has one."""

    name: Name


async def _versions(call: Call) -> Data:
    memory, history = await call.banks.use(
        lambda app: app.with_history(named(call)), call.path["scope"]
    )
    known = await past(history, memory)
    return {"versions": [one.to_dict() for one in known.versions], "problem": known.problem}


async def _version(call: Call) -> Data:
    memory, history = await call.banks.use(
        lambda app: app.with_history(named(call)), call.path["scope"]
    )
    found = await anyio.to_thread.run_sync(history.at, memory, call.path["version"])
    source = found.data.decode("utf-8", "replace")
    return {**found.to_dict(content=True), "source": source}


async def _restore(call: Call) -> Data:
    given: Returning = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        refuse_newer(before, given.expect)
        done = app.restore(
            before.address, call.path["version"], expect=given.expect, exact=given.exact
        )
        undo = undo_steps.to_version(app, scope, before, done)
        return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.banks.use(work, scope)


async def _links(call: Call) -> Data:
    def read(app: App) -> Data:
        ref = app.find_own(named(call)).address
        shortfall = app.shortfalls().to_dict()
        near = [{**one.to_dict(), "degraded": shortfall} for one in app.related(ref)]
        return {**app.connections(ref).to_dict(), "related": near}

    return await call.banks.use(read, call.path["scope"])


async def _trash(call: Call) -> Data:
    found = await call.banks.use(lambda app: app.trashed(), call.path["scope"])
    kept = ("name", "id", "collection", "deleted_at", "size")
    return {"trashed": [{name: getattr(one, name) for name in kept} for one in found]}


async def _untrash(call: Call) -> Data:
    given: Thrown = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        done = app.untrash(given.name)
        undo = [undo_steps.deleting(scope, done.memory)]
        return undo_steps.changed(scope, done.memory, done.status, done.warnings, undo)

    return await call.banks.use(work, scope)


async def _preview(call: Call) -> Data:
    given: Shown = call.body
    read = partial(memory_view.parsed, given.suffix or ".md", given.text, is_body=not given.suffix)
    # Not while the bank waits: a long text takes its time.
    memory = await anyio.to_thread.run_sync(read)
    linked = await anyio.to_thread.run_sync(memory_view.targets, memory)
    places = await call.banks.use(lambda app: wikilinks.look_up(app, call.banks, linked))
    return await anyio.to_thread.run_sync(partial(_laid_out, memory, places))


def _laid_out(memory: Memory, pages: wikilinks.Pages) -> Data:
    made = memory_view.content(memory, pages)
    return {"html": part("content.html", {"content": made, "problem": memory.problem})}


async def _compare(call: Call) -> Data:
    given: Two = call.body

    def work() -> Data:
        found = compare(given.old, given.new)
        html = part("diff.html", {"diff": found})
        return {"html": html, "removed": found.removed, "added": found.added}

    return await anyio.to_thread.run_sync(work)


OPERATIONS: Final = (
    Operation(
        "GET", f"{ONE}/versions", "versions", "List a memory's earlier texts", _versions,
        answers.Versions,
    ),
    Operation(
        "GET", f"{ONE}/versions/{{version}}", "version", "Read an earlier text", _version,
        answers.Memory,
    ),
    Operation(
        "POST", f"{ONE}/versions/{{version}}/restore", "restore_version",
        "Bring an earlier text back", _restore, answers.Changed, body=Returning,
    ),
    Operation(
        "GET", f"{ONE}/links", "links", "Show what is around a memory", _links, answers.Links
    ),
    Operation("GET", "/trash/{scope}", "trash", "List the trash", _trash, answers.Trash),
    Operation(
        "POST", "/trash/{scope}", "untrash", "Bring a deleted memory back", _untrash,
        answers.Changed, body=Thrown,
    ),
    Operation(
        "POST", "/preview", "preview", "Show a text as it would look", _preview, answers.Preview,
        body=Shown,
    ),
    Operation(
        "POST", "/compare", "compare", "Show two texts side by side", _compare, answers.Compared,
        body=Two,
    ),
)  # fmt: skip


# The page

_MOST_SHOWN: Final = 200  # links, each way
_NEAR: Final = 6  # memories that are shown as related
# What stands elsewhere on the page, or is of no use to a reader.
_ELSEWHERE: Final = frozenset(
    ("id", "title", "type", "status", "tags", "content", "changes", "schema_version", "category")
)
_STATES: Final = {
    "fresh": "as it was",
    "changed": "changed since",
    "moved": "moved",
    "gone": "gone",
    "planned": "not there yet",
}


class Link(NamedTuple):
    """A memory or a file on the other side of a link."""

    name: str
    kind: str  # memory, ghost, dangling
    page: str
    edge: str
    context: str
    state: str = ""
    said: str = ""  # the state in words


class _Around(NamedTuple):
    """What is around a memory, as it was read in one go."""

    pages: wikilinks.Pages
    links: Sequence[Link]
    backlinks: Sequence[Link]
    near: list[tuple[Related, str]]
    collections: list[str]
    several: bool  # whether there is another bank to move it to

    @property
    def shown(self) -> list[tuple[str, Sequence[Link], str]]:
        """Both kinds of links, each with its heading and a word about those that are too many."""
        sides = (("Links to", self.links), ("Linked from", self.backlinks))
        return [(name, found[:_MOST_SHOWN], _more(found)) for name, found in sides if found]


def _more(found: Sequence[Link]) -> str:
    more = len(found) - _MOST_SHOWN
    if more <= 0:
        return ""
    return f"and {more:,} more" if len(found) < MOST_AROUND else f"and more than {more:,} others"


async def _one(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    scope = request.path_params["scope"]
    (memory, history), app = await banks.use(
        lambda app: (app.with_history(ref(request)), app), scope
    )
    # Not while the bank waits: git takes its time, and so does a long text.
    known = await past(history, memory)
    targets = await anyio.to_thread.run_sync(memory_view.targets, memory)
    successors = await anyio.to_thread.run_sync(app.successors, [memory])
    successor = successors.get(memory.path, "")
    read = await banks.use(lambda app: _around(app, banks, memory, scope, targets), scope)
    values = {
        **page_values(request, memory),
        "read": read,
        "past": known,
        "successor": successor,
        "content": await anyio.to_thread.run_sync(memory_view.content, memory, read.pages),
        "details": _details(memory),
    }
    return page(request, "memory.html", values)


def page_values(request: Request, memory: Memory) -> dict[str, Any]:
    """What every page of one memory has to know."""
    scope = request.path_params["scope"]
    return {
        "title": memory.title,
        "here": "memories",
        "memory": memory,
        "scope": scope,
        "page": address(scope, memory.collection, memory.id),
        "api": api_path(scope, memory.collection, memory.id),
    }


def ref(request: Request) -> str:
    """The memory that a page's address means, as a bank calls it."""
    return f"{collection_of(request.path_params['collection'])}/{request.path_params['id']}"


def _around(
    app: App, banks: BankPool, memory: Memory, scope: str, targets: Sequence[str]
) -> _Around:
    try:
        graph = app.connections(memory.address)
        near = app.related(memory.address, _NEAR)
    except RetainError:  # an index that cannot be used hides what is around, not the memory
        graph, near = Graph((), ()), []
    links, backlinks = _sides(graph, memory, scope)
    there = {link.page for link in (*links, *backlinks)}
    places = [(one, address(scope, one.collection, one.id)) for one in near]
    others = [(one, where) for one, where in places if where not in there]
    return _Around(
        wikilinks.look_up(app, banks, targets, memory.collection),
        links,
        backlinks,
        others,
        sorted({name for name, where, _ in app.collections() if where == memory.scope}),
        not banks.is_one,
    )


def _sides(graph: Graph, memory: Memory, scope: str) -> tuple[list[Link], list[Link]]:
    """What a memory links to and what links to it, each once."""
    nodes = {node.name: node for node in graph.nodes}
    links: dict[str, Link] = {}
    backlinks: dict[str, Link] = {}
    for edge in graph.edges:
        is_out = edge.source == memory.ref
        node = nodes[(edge.target if is_out else edge.source).removeprefix("?")]
        where = ""
        if node.kind == "memory":
            collection, _, name = node.name.rpartition("/")
            where = address(scope, collection, name)
        said = _STATES.get(node.freshness, node.freshness)
        said = f"{said} to {node.now_at}" if node.now_at else said
        shown = node.title or node.name.removeprefix("ghost:")
        how = edge.edge.replace("_", " ")
        link = Link(shown, node.kind, where, how, plain(edge.context), node.freshness, said)
        (links if is_out else backlinks).setdefault(node.name, link)
    return list(links.values()), list(backlinks.values())


def _details(memory: Memory) -> list[tuple[str, str]]:
    """The rest of what stands in a memory's head, in words."""
    return [
        (str(name).replace("_", " "), _said(value))
        for name, value in memory.meta.items()
        if name not in _ELSEWHERE and value not in (None, "", [], {})
    ]


def _said(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_said, value))
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_said(one)}" for name, one in value.items())
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


# What it was


async def _history(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    older = request.query_params.get("older", "")
    newer = request.query_params.get("newer", "") or "current"
    scope = request.path_params["scope"]
    memory, history = await banks.use(lambda app: app.with_history(ref(request)), scope)
    known = await past(history, memory)
    first = older or (known.versions[0].version if known.versions else "current")

    def beside() -> Diff:
        texts = (history.read(memory, one).decode("utf-8", "replace") for one in (first, newer))
        return compare(*texts)

    values = {
        **page_values(request, memory),
        "versions": known.versions,
        "problem": known.problem,
        "older": first,
        "newer": newer,
        "diff": await anyio.to_thread.run_sync(beside),
    }
    return page(request, "history.html", values)


PAGE: Final = "/memory/{scope}/{collection}/{id}"

ROUTES: Final = (
    Route(PAGE, _one, methods=["GET"]),
    Route(f"{PAGE}/history", _history, methods=["GET"]),
)
