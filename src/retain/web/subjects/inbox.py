"""What waits in the inboxes of the banks there are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from retain.web.office import Office, Scope

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


async def waiting(office: Office) -> list[Waiting]:
    """The inboxes there are, the one of the bank in force first."""
    scopes = await office.use(lambda _app: office.scopes)
    return [await office.use(partial(_waiting, scope=scope), scope) for scope in scopes]


def _waiting(app: App, scope: Scope) -> Waiting:
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
