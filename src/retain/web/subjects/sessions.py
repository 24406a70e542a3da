"""Past chats of all banks, listed and found, and where one goes on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

import anyio.to_thread

from retain.text.sanitize import flat
from retain.web.office import HERE, Office

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retain.app import App
    from retain.sessions.model import Session


_EXCERPT: Final = 240
_HITS: Final = 200
_MOST_WORDS: Final = 64  # that are looked for in a message


class Listed(NamedTuple):
    """A chat in a list, the bank it is in, and what in it answers the words that were asked for."""

    scope: str
    session: Session
    excerpt: str = ""
    message: int = 0  # the one that the excerpt is from

    @property
    def data(self) -> dict[str, Any]:
        one = self.session
        return {
            **one._asdict(),
            "scope": self.scope,
            "tags": list(one.tags),
            "excerpt": self.excerpt,
            "message": self.message,
        }


async def listed(office: Office, words: str, limit: int, offset: int = 0) -> list[Listed]:
    """Chats of all banks, the one that was used last first."""
    found: list[Listed] = []
    for scope in await office.use(lambda _app: office.scopes):
        work = partial(_listed, scope=scope, words=words, limit=offset + limit)
        found += await office.use(work, scope)
    found.sort(key=lambda one: one.session.updated_at, reverse=True)
    # Not while the bank waits, and only for those that are shown: messages can be long.
    return await anyio.to_thread.run_sync(_excerpted, found[offset : offset + limit], words)


def _listed(app: App, scope: str, words: str, limit: int) -> list[Listed]:
    """Chats, each with the whole message that answers the words best."""
    sessions = app.sessions.list(limit, words)
    best: dict[str, tuple[str, int]] = {}
    for hit in app.sessions.search(words, _HITS) if words.strip() else ():
        best.setdefault(hit.session_id, (hit.text, hit.message))
    return [Listed(scope, one, *best.get(one.id, ("", 0))) for one in sessions]


def _excerpted(found: Sequence[Listed], words: str) -> list[Listed]:
    wanted = [*dict.fromkeys(words.casefold().split())][:_MOST_WORDS]
    return [one._replace(excerpt=_around(one.excerpt, wanted)) for one in found]


def _around(text: str, words: Sequence[str]) -> str:
    """The part of a message that has the words in it; its beginning where none is found."""
    text = flat(text, len(text) + 1)
    folded = text.casefold()
    places = [folded.find(word) for word in words]
    start = max(0, min((at for at in places if at >= 0), default=0) - _EXCERPT // 4)
    start = text.rfind(" ", 0, start) + 1
    return ("… " if start else "") + flat(text[start:], _EXCERPT)


def page_of_session(session: str, scope: str) -> str:
    """Where a conversation goes on."""
    return f"/chat/{quote(session, safe='')}" + ("" if scope == HERE else f"?bank={scope}")
