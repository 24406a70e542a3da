"""The facts around a chat: the person's own, and those of the project they are in.

What a chat learns is the person's, so it goes to their own bank also within a project, whose bank
may be everyone's: also where the project's list says otherwise, or a list with the right baits
would bring private facts into a repository. What either bank knows is known. A new fact is one
write in one bank, which is done whole or not at all.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import NamedTuple

from retain.app import App
from retain.errors import Ambiguous, NotFound
from retain.facts.compare import KNOWN, REPLACES, same_key
from retain.facts.store import Added, Facts, Synced
from retain.locate import from_home, project_of
from retain.memory import GLOBAL

PERSON = "person"  # of the setting chat.facts


class One(NamedTuple):
    """A fact in force, and every memory that states it."""

    text: str
    refs: tuple[str, ...]


class _Home(NamedTuple):
    """A bank's facts, and how its memories are called in the bank in force."""

    facts: Facts
    app: App
    prefix: str = ""

    @property
    def whose(self) -> str:
        return {"global": "your own", "project": "the project's"}.get(self.app.location.scope, "")

    def called(self, added: Added) -> Added:
        replaced = tuple(f"{self.prefix}{ref}" for ref in added.replaced)
        return added._replace(ref=f"{self.prefix}{added.ref}", replaced=replaced)


class Known:
    """The facts of the banks in force; new ones go to the first of them."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._homes = _homes(app)
        place = app.location
        is_project = place.scope == "project"
        self._project = os.path.basename(project_of(place.root)) if is_project else ""

    def add(self, text: str, *, by: str = "", source: str = "", replaces: str = "") -> Added:
        """Keep a fact, unless it is known; one that replaces another takes its place."""
        home, notes, is_of_other = self._chosen(text, replaces)
        replaces = "" if is_of_other else replaces
        is_new = not home.app.location.exists
        # A project's own facts need not say whose they are.
        project = self._project if home.app.location.scope == "global" else ""
        if project and source:  # each bank counts its chats alone: say whose this one is
            source = f"{source} in {_where(self._app)}"
        added = home.facts.add(text, by=by, replaces=replaces, source=source, project=project)
        if is_new:
            self._app.forget()  # there is one bank more to look into
        return home.called(added._replace(notes=(*added.notes, *notes)))

    def _chosen(self, text: str, replaces: str) -> tuple[_Home, list[str], bool]:
        """The bank that a fact goes to or is known in, what is to be said of the other one, and
        whether what it replaces stands in that one alone.
        """
        first, *rest = self._homes
        if not rest:
            return first, [], False
        verdicts = [(home, *home.facts.weigh(text, replaces)) for home in self._homes]
        holders = [home for home, status, _ in verdicts if status == REPLACES]
        knowing = [home for home, status, _ in verdicts if status == KNOWN]
        chosen = next(iter((*holders, *knowing, first)))
        if holders and first.app.location.scope == "global":
            chosen = first  # nothing that stands in a project draws what the person says there
        notes = [
            f"{home.whose} list says otherwise, and was left alone: {home.prefix}{ref}"
            for home, status, refs in verdicts
            if status == REPLACES and home is not chosen
            for ref in refs
        ]
        return chosen, notes, bool(holders) and chosen not in holders

    def present(self, words: str = "") -> list[One]:
        """The facts in force, each once; those with all of some words."""
        wanted = words.casefold().split()
        found: dict[str, One] = {}
        for home in self._homes:
            for fact in home.facts.present():
                refs = tuple(f"{home.prefix}{it.ref}" for it in (fact, *fact.twins))
                one = found.setdefault(same_key(fact.text), One(fact.text, ()))
                found[same_key(fact.text)] = one._replace(refs=(*one.refs, *refs))
        return [
            one for one in found.values() if all(word in one.text.casefold() for word in wanted)
        ]

    def meant(self, words: str) -> One:
        """The one fact that words or an id mean."""
        known = self.present()
        named = [one for one in known if any(words in _names(ref) for ref in one.refs)]
        exact = [one for one in known if same_key(one.text) == same_key(words)]
        found = named or exact or self.present(words)
        if not found:
            raise NotFound(f"no fact speaks of {words[:60]!r}", hint="`/memories` lists them.")
        if len(found) > 1:
            raise Ambiguous(
                f"that could be several: {', '.join(one.refs[0] for one in found[:5])}",
                unchanged="Nothing was forgotten.",
                hint="Name one by its id.",
            )
        return found[0]

    def forget(self, one: One) -> None:
        """Move a fact to the trash, wherever it stands."""
        for home in self._homes:
            for ref in one.refs:
                if ref.startswith(GLOBAL) == bool(home.prefix):
                    home.app.delete(ref.removeprefix(GLOBAL))
        self.sync()

    def sync(self, *, force: bool = False) -> Synced:
        """Bring each bank's MEMORY.md in step with its facts; nearly free when nothing changed."""
        done = [home.facts.sync(force=force) for home in self._homes]
        if len(done) == 1:
            return done[0]
        notes = [
            f"{note} ({home.whose})"
            for home, one in zip(self._homes, done, strict=True)
            for note in one.notes
        ]
        joined = [tuple(chain.from_iterable(refs)) for refs in zip(*done, strict=True)]
        return Synced(*joined)._replace(notes=tuple(notes))


def source_of(app: App, session: str, *, is_own: bool) -> str:
    """What a fact of a chat says of where it comes from, here or in the person's own bank."""
    source = f"session:{session}"
    return f"{source} in {_where(app)}" if is_own else source


def _where(app: App) -> str:
    """The project at hand, as the person would find it."""
    return from_home(project_of(app.location.root), os.path.expanduser("~"))


def _homes(app: App) -> tuple[_Home, ...]:
    """The banks whose facts count; a bank or `--local` that was asked for counts alone."""
    here = _Home(Facts(app), app)
    if app.is_alone:
        return (here,)
    own = app.own
    if not own.config.flag("memory.enabled"):
        return (here,)
    person = _Home(Facts(own), own, GLOBAL)
    return (person, here) if app.config.text("chat.facts") == PERSON else (here, person)


def _names(ref: str) -> tuple[str, ...]:
    """All that a memory may be called by."""
    bare = ref.removeprefix(GLOBAL)
    return ref, bare, bare.partition("/")[2]
