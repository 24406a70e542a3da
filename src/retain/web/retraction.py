"""A fact that a conversation saved, taken back: it goes to the trash, what it replaced returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retain.errors import NotFound
from retain.facts.carrying import COLLECTION
from retain.paths import GLOBAL

if TYPE_CHECKING:
    from retain.app import App
    from retain.talk.chat import Chat
    from retain.talk.retention import Saved

__all__ = ["home_of", "retract"]


def home_of(app: App, ref: str) -> tuple[App, str]:
    """The bank that a reference leads to, and what it is called there."""
    return (app.own if ref.startswith(GLOBAL) else app), ref.removeprefix(GLOBAL)


def retract(chat: Chat, saved: Saved) -> list[str]:
    """Move a fact to the trash and put those it replaced in force again; blocking."""
    back = [ref for ref in saved.replaced.split(", ") if ref and _revived(chat, ref)]
    app, ref = home_of(chat.app, saved.ref)
    app.delete(ref)
    chat.sessions.forget(saved.ref)
    session = chat.session.id if chat.session else ""
    for one in back:
        home, name = home_of(chat.app, one)
        chat.sessions.remember(home.ours(name).body.strip(), COLLECTION, session, one)
    chat.profile.facts.sync()
    return back


def _revived(chat: Chat, ref: str) -> bool:
    """Bring back the last text of a fact in which nothing has taken its place yet."""
    app, name = home_of(chat.app, ref)
    try:
        for version in app.versions(name):
            if not app.get(name, version=version.version).superseded_by:
                app.restore(name, version.version)
                return True
    except NotFound:  # somebody has deleted it meanwhile
        pass
    return False
