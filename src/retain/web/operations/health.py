"""How the bank is, and what puts it in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field
from typing_extensions import TypedDict

from retain.errors import NotFound, UsageError
from retain.web import answers, undoing
from retain.web.checkup import Checkup, Found, Work
from retain.web.office import HERE, Scope
from retain.web.operation import Call, Given, Many, Operation
from retain.web.subjects.health import now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retain.app import App
    from retain.web.live import Live


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


async def _health(call: Call) -> Health:
    checkup: Checkup = call.request.app.state.checkup
    facts, trashed, apart = await call.office.use(now)
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
    settled = await call.office.use(lambda app: _done(app, given))
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
        *undoing.restoring(app, HERE, older, done),
        *undoing.restoring(app, HERE, newer, taking),
    ]
    return undoing.changed(HERE, done.memory, done.status, done.warnings, undo)


def _stepped(app: App, given: Settling) -> Data:
    before = app.find_own(_ref(given.keep))
    if given.action == "retire":
        done = app.retire(before.address, "stated twice")
    else:
        done = app.unretire(before.address)
    undo = undoing.restoring(app, HERE, before, done)
    return undoing.changed(HERE, done.memory, done.status, done.warnings, undo)


def _merged(app: App, given: Settling) -> Data:
    done = app.merge_into_first(_ref(given.keep), [_ref(ref) for ref in given.others])
    after = done.written.memory
    undo = [undoing.deleting(HERE, after), *undoing.untrashing(HERE, done.trashed)]
    return undoing.changed(HERE, after, "merged", done.written.warnings, undo)


def _set_apart(app: App, given: Settling) -> Data:
    """Say of memories that are alike that they may be, or take that back."""
    found = [app.find_own(_ref(ref)) for ref in (given.keep, *given.others)]
    is_again = given.action == "heed"
    refs = [one.ref for one in found]
    app.ignore_pair(refs, again=is_again)
    body = {"keep": refs[0], "others": refs[1:], "action": "ignore" if is_again else "heed"}
    undo = [undoing.to_call("POST", "/health/settle", body)]
    return undoing.changed(HERE, found[0], "heeded" if is_again else "ignored", (), undo)


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
    gone = await call.office.use(lambda app: app.empty_trash(), given.scope)
    call.request.app.state.live.tell("health", {"work": ""})
    return {"destroyed": len(gone)}


def _operation(method: str, path: str, name: str, about: str, **more: Any) -> Operation:
    return Operation(method, path, name, about, subject="health", **more)


OPERATIONS: Final = (
    _operation("GET", "/health", "health", "Say how the bank is", handler=_health, gives=Health),
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
