"""The inbox: what sessions propose to remember, accepted, changed, dropped and brought back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.capture.inbox import Inbox as BankInbox
from retain.capture.proposal import MAX_TEXT
from retain.errors import Conflict, NotFound
from retain.web.bank_pool import HERE, OWN, BankPool, Scope
from retain.web.markdown import Renderer
from retain.web.operation import Call, Given, Gives, Many, Name, Operation
from retain.web.rendering import page

if TYPE_CHECKING:
    from retain.app import App
    from retain.app.review import Review
    from retain.capture.proposal import Proposal


class Waiting(NamedTuple):
    """The inbox of one bank, as a page shows it."""

    scope: Scope
    proposals: Sequence[dict[str, Any]]
    dropped: Sequence[dict[str, Any]]
    problems: Sequence[str]
    categories: Sequence[str]


async def waiting(banks: BankPool) -> list[Waiting]:
    """The inboxes there are, the one of the bank in force first."""
    scopes = await banks.use(lambda _app: banks.scopes)
    return [await banks.use(partial(_read, scope=scope), scope) for scope in scopes]


def _read(app: App, scope: Scope) -> Waiting:
    if not app.location.exists:
        return Waiting(scope, (), (), (), ())
    review = app.inbox
    proposals, problems = review.inbox.scan()
    dropped, more = review.inbox.scan(dropped=True)
    categories = [one.name for one in app.records.rules.categories.values() if one.enabled]
    return Waiting(
        scope,
        [shown(review, one, scope) for one in proposals],
        [shown(review, one, scope) for one in reversed(dropped)],
        [*problems, *more],
        categories,
    )


def shown(review: Review, one: Proposal, scope: Scope) -> dict[str, Any]:
    """A proposal, all that is told of it, and the hash of its words."""
    more = {"scope": scope, "source": review.source(one), "hash": hash_of(one)}
    return {**one.to_dict(), "text": one.text, **more}


def hash_of(one: Proposal) -> str:
    """By what the words are known that a person has seen."""
    told = "\0".join((one.category, one.title, one.text))
    return hashlib.sha256(told.encode()).hexdigest()


# The JSON interface

Data = dict[str, Any]
Id = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]


class One(Given):
    """A proposal, and the hash of the words that were seen; without it, whatever it says now."""

    id: Id
    expect: Name = ""


class Several(Given):
    """Proposals that something is to become of."""

    proposals: Annotated[Many[One], Field(min_length=1, max_length=500)]


class Words(Given):
    """What a proposal is to say."""

    category: Name
    title: Name
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    expect: Name = ""


class Back(Given):
    """The memory that a proposal became, and its hash as it was then."""

    memory: Annotated[str, Field(max_length=1_000)]
    expect: Name


class Shown(Gives):
    """A proposal."""

    id: str
    category: str
    title: str
    text: str
    score: float
    created_at: str
    event: str
    host: str
    session_id: str
    transcript_path: str
    start: int
    end: int
    cwd: str
    scope: str
    source: str
    hash: str


class Inbox(Gives):
    """What waits, what was dropped, and files that were passed over."""

    proposals: list[Shown]
    dropped: list[Shown]
    problems: list[str]


class Count(Gives):
    """How many proposals wait."""

    count: int


class Said(Gives):
    """What one side said."""

    role: str
    text: str


class Talk(Gives):
    """The part of a session that a proposal was made from, or why it cannot be shown."""

    messages: list[Said]
    missing: str
    cut: bool


class Near(Gives):
    """A memory to compare."""

    path: str
    title: str


class Accepted(Gives):
    """A memory that was a proposal."""

    status: str
    id: str
    collection: str
    type: str
    title: str
    file_path: str
    hash: str
    renamed_from: str | None
    commit: str | None
    notes: list[str]
    warnings: list[str]
    proposal: str
    near: Near | None


class Refused(Gives):
    """A proposal that nothing was done with, and why."""

    id: str
    code: str
    message: str
    unchanged: str
    hint: str


class Done(Gives):
    """What became of proposals."""

    accepted: list[Accepted]
    dropped: list[str]
    restored: list[str]
    kept: list[str]
    refused: list[Refused]


class Reopened(Gives):
    """A proposal that waits again."""

    id: str


async def count(banks: BankPool) -> int:
    """How many proposals wait, in every bank there is."""
    scopes = await banks.use(lambda _app: banks.scopes)
    return sum([await banks.use(_waiting, scope) for scope in scopes])


def _waiting(app: App) -> int:
    return BankInbox(app.location.root, os.environ).count()


def _scope(call: Call) -> Scope:
    if call.path["scope"] not in (HERE, OWN):
        raise NotFound(f"there is no bank {call.path['scope']!r}", hint="It is here or global.")
    return cast("Scope", call.path["scope"])


def _found(given: Sequence[One], among: Sequence[Proposal]) -> list[Proposal]:
    """The proposals that are meant, if they still say what a person has seen."""
    known = {one.id: one for one in among}
    found = []
    for one in given:
        if one.id not in known:
            raise NotFound(f"the proposal {one.id} is not there any more")
        if one.expect and one.expect != hash_of(known[one.id]):
            raise Conflict(
                f"the proposal {known[one.id].title!r} was changed meanwhile",
                unchanged="Nothing was done.",
                hint="Look at it again.",
            )
        found.append(known[one.id])
    return found


async def _list(call: Call) -> Data:
    found = await waiting(call.banks)
    return {
        "proposals": [one for bank in found for one in bank.proposals],
        "dropped": [one for bank in found for one in bank.dropped],
        "problems": [one for bank in found for one in bank.problems],
    }


async def _count(call: Call) -> Data:
    return {"count": await count(call.banks)}


async def _talk(call: Call) -> Data:
    def work(app: App) -> Data:
        review = app.inbox
        every = [*review.proposals(), *review.dropped()]
        (one,) = _found([One(id=call.path["id"])], every)
        said = review.excerpt(one)
        messages = [{"role": one.role, "text": one.text} for one in said.messages]
        return {"messages": messages, "missing": said.missing, "cut": said.is_cut}

    _refuse_odd(call.path["id"])
    return await call.banks.use(work, _scope(call))


def _refuse_odd(name: str) -> None:
    if len(name) != 16 or not set(name) <= set("0123456789abcdef"):
        raise NotFound("that is not the id of a proposal")


async def _accept(call: Call) -> Data:
    given: Several = call.body

    def work(app: App) -> Data:
        review = app.inbox
        return review.accept(_found(given.proposals, review.proposals())).to_dict()

    return await _told(call, await call.banks.use(work, _scope(call)))


async def _drop(call: Call) -> Data:
    given: Several = call.body

    def work(app: App) -> Data:
        review = app.inbox
        return review.drop(_found(given.proposals, review.proposals())).to_dict()

    return await _told(call, await call.banks.use(work, _scope(call)))


async def _restore(call: Call) -> Data:
    given: Several = call.body

    def work(app: App) -> Data:
        review = app.inbox
        return review.restore(_found(given.proposals, review.dropped())).to_dict()

    return await _told(call, await call.banks.use(work, _scope(call)))


async def _revise(call: Call) -> Data:
    given: Words = call.body
    scope = _scope(call)

    def work(app: App) -> Data:
        review = app.inbox
        wanted = One(id=call.path["id"], expect=given.expect)
        (seen,) = _found([wanted], review.proposals())
        words = seen._replace(category=given.category, title=given.title, text=given.text)
        return shown(review, review.revise(seen, words), scope)

    _refuse_odd(call.path["id"])
    return await _told(call, await call.banks.use(work, scope))


async def _reopen(call: Call) -> Data:
    given: Back = call.body

    def work(app: App) -> Data:
        app.inbox.take_back(call.path["id"], given.memory, given.expect)
        return {"id": call.path["id"]}

    _refuse_odd(call.path["id"])
    return await _told(call, await call.banks.use(work, _scope(call)))


async def _told(call: Call, answer: Data) -> Data:
    """An answer, once every open page has been told what it means for the inbox."""
    call.request.app.state.live.tell("inbox", {"count": await count(call.banks)})
    return answer


OPERATIONS: Final = (
    Operation(
        "GET",
        "/inbox",
        "proposals",
        "What sessions propose to remember",
        _list,
        Inbox,
        subject="inbox",
    ),
    Operation(
        "GET",
        "/inbox/count",
        "count_proposals",
        "How many proposals wait",
        _count,
        Count,
        subject="inbox",
    ),
    Operation(
        "GET",
        "/inbox/{scope}/{id}/talk",
        "talk_of_proposal",
        "The part of a session that a proposal was made from",
        _talk,
        Talk,
        subject="inbox",
    ),
    Operation(
        "PUT",
        "/inbox/{scope}/{id}",
        "revise_proposal",
        "Change what a proposal says",
        _revise,
        Shown,
        body=Words,
        subject="inbox",
    ),
    Operation(
        "POST",
        "/inbox/{scope}/accept",
        "accept_proposals",
        "Make memories of proposals; one that is refused stays, and the others go on",
        _accept,
        Done,
        body=Several,
        subject="inbox",
    ),
    Operation(
        "POST",
        "/inbox/{scope}/drop",
        "drop_proposals",
        "Take proposals out of the inbox",
        _drop,
        Done,
        body=Several,
        subject="inbox",
    ),
    Operation(
        "POST",
        "/inbox/{scope}/restore",
        "restore_proposals",
        "Put dropped proposals back",
        _restore,
        Done,
        body=Several,
        subject="inbox",
    ),
    Operation(
        "POST",
        "/inbox/{scope}/{id}/reopen",
        "reopen_proposal",
        "Undo an acceptance: the memory goes to the trash, the proposal waits again",
        _reopen,
        Reopened,
        body=Back,
        subject="inbox",
    ),
)


# The page

_PAGE: Final = 50
_MOST: Final = 500  # proposals on a page


async def _page(request: Request) -> Response:
    found = await waiting(request.app.state.banks)
    given = request.query_params.get("limit", "")
    asked = int(given) if given.isdecimal() and len(given) < 5 else 0
    limit = min(asked or _PAGE, _MOST)
    every = [(bank, one) for bank in found for one in bank.proposals]
    values = {
        "title": "Inbox",
        "here": "inbox",
        "proposals": every[:limit],
        "count": len(every),
        "rest": max(0, len(every) - limit),
        "more": min(limit + _PAGE, _MOST),
        "dropped": [(bank.scope, one) for bank in found for one in bank.dropped],
        "most_dropped": _MOST,
        "problems": [problem for one in found for problem in one.problems],
        "rendered": Renderer().render,
    }
    return page(request, "inbox.html", values)


ROUTES: Final = (Route("/inbox", _page, methods=["GET"]),)
