"""How a bank is, and what puts it in order; `checkup` finds out what takes longer."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import TypedDict

from retain.bank.trash import CHATS
from retain.errors import Conflict, NotFound, UsageError
from retain.index.queries import Facts
from retain.text.sizes import format_size
from retain.web import answers, undo_steps
from retain.web.bank_pool import HERE, BankPool, Scope
from retain.web.checkup import Checkup, Found, Work
from retain.web.operation import Call, Given, Many, Operation
from retain.web.rendering import page

if TYPE_CHECKING:
    from retain.app import App
    from retain.memory import Trashed
    from retain.web.live import Live


class Now(NamedTuple):
    """What can be said at once."""

    facts: Facts = Facts()
    trashed: Sequence[Trashed] = ()
    apart: Sequence[frozenset[str]] = ()


def now(app: App) -> Now:
    """How a bank is; one that is not there yet is empty."""
    if not app.location.exists:
        return Now()
    return Now(app.index_facts(), app.trashed(), app.ignored_pairs())


# The JSON interface

Data = dict[str, Any]

Ref = Annotated[str, Field(min_length=1, max_length=600)]


class Index(TypedDict):
    """What the index holds."""

    chunks: int
    vectors: int
    pending: int
    held: int
    model: str


class Under(TypedDict):
    """What is under way, and how far it is; what the last work came to."""

    work: str
    done: int
    total: int
    said: str
    bad: bool


class Fault(TypedDict):
    """A file that is left alone or read only in part, and why."""

    path: str
    reason: str


class Like(TypedDict):
    """A memory that is like another."""

    id: str
    collection: str
    title: str
    preview: str


class Pair(TypedDict):
    """Two memories that state one fact, and what could be done about it."""

    action: Literal["merge", "supersede"]
    score: float
    reason: str
    older: Like
    newer: Like


class Group(TypedDict):
    """Memories that could be one."""

    score: float
    memories: list[Like]


class LooseLink(TypedDict):
    """A link that leads nowhere, or to a file that is no longer what it was."""

    source: str
    target: str
    state: str
    now_at: str


class Looked(TypedDict):
    """What looking the bank over found."""

    at: float
    memories: int
    bytes: int
    index_bytes: int
    collections: dict[str, int]
    types: dict[str, int]
    statuses: dict[str, int]
    problems: list[Fault]
    faults: list[str]
    notes: list[str]
    pairs: list[Pair]
    groups: list[Group]
    links: list[LooseLink]
    ignored: list[list[str]]
    unsure: str  # why pairs and groups are not known; empty if they are


class Health(TypedDict):
    """How the bank is; `found` is null until it was looked over."""

    memories: int
    bytes: int
    index: Index
    trashed: int
    under: Under
    found: Looked | None


class Begun(TypedDict):
    """A work that was begun; events tell how it goes on."""

    status: Literal["begun"]


class Emptied(TypedDict):
    """How many memories are gone for good."""

    destroyed: int


class Wanted(Given):
    """A work to be begun."""

    work: Work


class Settling(Given):
    """What to do about memories that are alike: which one stays, and which do not.

    They can also be ignored: that is kept with the bank, for everyone who asks it.
    """

    action: Literal["merge", "supersede", "retire", "restore", "ignore", "heed"]
    keep: Ref
    others: Annotated[Many[Ref], Field(max_length=50)] = ()


class Emptying(Given):
    """Whose trash it is."""

    scope: Scope = "here"


async def _report(call: Call) -> Health:
    checkup: Checkup = call.request.app.state.checkup
    facts, trashed, apart = await call.banks.use(now)
    state = checkup.state
    return {
        "memories": facts.memories,
        "bytes": facts.size,
        "index": {
            "chunks": facts.chunks,
            "vectors": facts.vectors,
            "pending": facts.pending,
            "held": facts.held,
            "model": facts.model,
        },
        "trashed": len(trashed),
        "under": {
            "work": state.work,
            "done": state.done,
            "total": state.total,
            "said": state.said,
            "bad": state.is_bad,
        },
        "found": _looked(state.found, apart) if state.found else None,
    }


def _looked(every: Found, apart: Sequence[frozenset[str]]) -> Looked:
    found, _ = every.without(apart)
    return {
        "ignored": sorted(map(sorted, apart)),
        "unsure": found.unsure,
        "at": found.at,
        "memories": found.memories,
        "bytes": found.size,
        "index_bytes": found.index_size,
        "collections": dict(found.collections),
        "types": dict(found.types),
        "statuses": dict(found.statuses),
        "problems": [{"path": one.path, "reason": one.reason} for one in found.problems],
        "faults": list(found.faults),
        "notes": list(found.notes),
        "pairs": [
            {
                "action": "merge" if one.action == "merge" else "supersede",
                "score": one.score,
                "reason": one.reason,
                "older": _like(one.older),
                "newer": _like(one.newer),
            }
            for one in found.pairs
        ],
        "groups": [
            {"score": one.score, "memories": [_like(member) for member in one.members]}
            for one in found.groups
        ],
        "links": [
            {"source": one.source, "target": one.target, "state": one.state, "now_at": one.now_at}
            for one in found.loose
        ],
    }


def _like(member: Any) -> Like:
    return {
        "id": member.id,
        "collection": member.collection,
        "title": member.title,
        "preview": member.preview,
    }


async def _work(call: Call) -> Begun:
    checkup: Checkup = call.request.app.state.checkup
    given: Wanted = call.body
    checkup.start(given.work)
    return {"status": "begun"}


async def _settle(call: Call) -> Data:
    given: Settling = call.body
    settled = await call.banks.use(lambda app: _done(app, given))
    live: Live = call.request.app.state.live
    if given.action in ("ignore", "heed"):
        live.tell("health", {"work": ""})
    else:
        live.tell("memories", {"changed": 1})
    return settled


def _done(app: App, given: Settling) -> Data:
    if not app.location.exists:
        raise NotFound("there is no bank yet")
    return _SETTLING[given.action](app, given)


def _ref(text: str) -> str:
    return text if "/" in text else f"/{text}"


def _superseded(app: App, given: Settling) -> Data:
    if len(given.others) != 1:
        raise UsageError("one memory takes the place of one other", hint="Name it in others.")
    older, newer = app.find_own(_ref(given.others[0])), app.find_own(_ref(given.keep))
    done, taking = app.supersede(older.address, newer.address)
    undo = [
        *undo_steps.restoring(app, HERE, older, done),
        *undo_steps.restoring(app, HERE, newer, taking),
    ]
    return undo_steps.changed(HERE, done.memory, done.status, done.warnings, undo)


def _stepped(app: App, given: Settling) -> Data:
    before = app.find_own(_ref(given.keep))
    if given.action == "retire":
        done = app.retire(before.address, "stated twice")
    else:
        done = app.unretire(before.address)
    undo = undo_steps.restoring(app, HERE, before, done)
    return undo_steps.changed(HERE, done.memory, done.status, done.warnings, undo)


def _merged(app: App, given: Settling) -> Data:
    done = app.merge_into_first(_ref(given.keep), [_ref(ref) for ref in given.others])
    after = done.written.memory
    undo = [undo_steps.deleting(HERE, after), *undo_steps.untrashing(HERE, done.trashed)]
    return undo_steps.changed(HERE, after, "merged", done.written.warnings, undo)


def _set_apart(app: App, given: Settling) -> Data:
    """Say of memories that are alike that they may be, or take that back."""
    found = [app.find_own(_ref(ref)) for ref in (given.keep, *given.others)]
    is_again = given.action == "heed"
    refs = [one.ref for one in found]
    app.ignore_pair(refs, again=is_again)
    body = {"keep": refs[0], "others": refs[1:], "action": "ignore" if is_again else "heed"}
    undo = [undo_steps.to_call("POST", "/health/settle", body)]
    return undo_steps.changed(HERE, found[0], "heeded" if is_again else "ignored", (), undo)


_SETTLING: Final = {
    "merge": _merged,
    "supersede": _superseded,
    "retire": _stepped,
    "restore": _stepped,
    "ignore": _set_apart,
    "heed": _set_apart,
}


async def _empty(call: Call) -> Emptied:
    given: Emptying = call.body
    gone = await call.banks.use(lambda app: app.empty_trash(), given.scope)
    call.request.app.state.live.tell("health", {"work": ""})
    return {"destroyed": len(gone)}


def _operation(method: str, path: str, name: str, about: str, **more: Any) -> Operation:
    return Operation(method, path, name, about, subject="health", **more)


OPERATIONS: Final = (
    _operation("GET", "/health", "health", "Say how the bank is", handler=_report, gives=Health),
    _operation(
        "POST", "/health/work", "work", "Begin a work", handler=_work, gives=Begun, body=Wanted
    ),
    _operation(
        "POST",
        "/health/settle",
        "settle",
        "Settle memories that are alike",
        handler=_settle,
        gives=answers.Changed,
        body=Settling,
    ),
    _operation(
        "POST",
        "/health/trash/empty",
        "empty_trash",
        "Destroy what is in the trash, for good",
        handler=_empty,
        gives=Emptied,
        body=Emptying,
    ),
)


# The page

_DOING: Final = {
    "look": "Looking the bank over",
    "sync": "Taking in what changed",
    "vectors": "Making vectors",
    "rebuild": "Making the index anew",
    "repair": "Comparing the index with every file",
}
_MOST_TRASHED: Final = 100
_STALE_SECONDS: Final = 30.0
# The states of links, in words for people.
_STATES: Final = {
    "dangling": "no such memory",
    "changed": "file changed",
    "moved": "file moved",
    "gone": "file gone",
}


async def _page(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    checkup: Checkup = request.app.state.checkup
    scope = await banks.settled(request.query_params.get("bank", HERE))
    checkup.look_first()
    known, place = await banks.use(lambda app: (now(app), app.location), scope)
    facts, trashed, _ = known
    _look_again(checkup)
    values = {
        "title": "Health",
        "here": "health",
        "scope": scope,
        "scopes": await banks.use(lambda _app: banks.scopes),
        "facts": facts,
        "size": format_size,
        "trashed": trashed[:_MOST_TRASHED],
        "chats": CHATS,
        "trashed_count": len(trashed),
        "has_bank": place.exists,
        **_looked_over(checkup, known, place.root, shows_all="ignored" in request.query_params),
    }
    return page(request, "health.html", values)


def _looked_over(checkup: Checkup, known: Now, root: str, *, shows_all: bool) -> dict[str, object]:
    """What looking over the bank in force has found, and what is under way in it."""
    state = checkup.state
    found, ignored = state.found, 0
    if found and not shows_all:
        found, ignored = found.without(known.apart)
    return {
        "state": state,
        "doing": _DOING.get(state.work, ""),
        "found": found,
        "ignored": ignored,
        "shows_ignored": shows_all and bool(known.apart),
        "is_apart": lambda *refs: any(set(refs) <= one for one in known.apart),
        "problems": [(_shown(one.path, root), one.reason) for one in found.problems]
        if found
        else [],
        "suggestions": len(found.pairs) + len(found.groups) + len(found.loose) if found else 0,
        "states": _STATES,
        "looked": datetime.fromtimestamp(found.at, UTC).isoformat() if found else "",
        "parted": _parted,
    }


def _look_again(checkup: Checkup) -> None:
    """What was found a while ago may be settled by now: other pages would say otherwise."""
    found = checkup.state.found
    if found and time.time() - found.at > _STALE_SECONDS:
        with contextlib.suppress(Conflict):  # something is under way, which ends with a look
            checkup.start("look")


def _shown(path: str, root: str) -> str:
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path


def _parted(ref: str) -> tuple[str, str]:
    """The collection and the id that a reference names."""
    collection, _, name = ref.rpartition("/")
    return collection, name


ROUTES: Final = (Route("/health", _page, methods=["GET"]),)
