"""What was decided about facts and their list, carried out: facts first, then the list.

A kill in between leaves a fact that is not listed, or one that is listed and known again by its
text; never one that is nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from retain.app import App
from retain.errors import Conflict, LimitExceeded, NotFound, RetainError
from retain.facts import merging, view
from retain.facts.merging import Entry, Fact, digest
from retain.facts.view import Page

COLLECTION: Final = "facts"

_AT_ONCE: Final = 200  # bullets that become facts in one go: each is a file, synced and indexed

Store = Callable[[str], tuple[str, bool]]  # a text to its fact's ref, and whether that is new


class Synced(NamedTuple):
    """What was done to bring facts and list in step, as refs of facts."""

    learned: tuple[str, ...] = ()  # new bullets
    changed: tuple[str, ...] = ()  # changed bullets
    forgotten: tuple[str, ...] = ()  # bullets removed by hand: these facts are in the trash
    listed: tuple[str, ...] = ()  # facts that got a bullet
    rewritten: int = 0  # bullets that got their fact's new text
    unlisted: int = 0  # bullets removed, because their facts are not in force
    held: tuple[str, ...] = ()  # their bullets are gone all at once, and they were kept
    notes: tuple[str, ...] = ()


class Again(Exception):
    """Someone wrote meanwhile: look again."""


class Log(NamedTuple):
    """What was done, in however many attempts."""

    learned: list[str]
    changed: list[str]
    forgotten: list[str]
    notes: list[str]


class Work:
    """A plan, and what came of it."""

    def __init__(
        self,
        app: App,
        store: Store,
        page: Page,
        plan: merging.Plan,
        present: Sequence[Fact],
        log: Log,
    ) -> None:
        self._app, self._store, self._page, self._plan, self._log = app, store, page, plan, log
        # By the digests of their ids, as they were when the plan was made: what another writes
        # meanwhile must still look like a change the next time.
        self._texts = {digest(fact.id): fact.text for fact in present}
        self._owners = list(plan.owners)
        self._refused: set[str] = set()  # facts that did not get their bullet's text
        self._after = page

    @property
    def is_changed(self) -> bool:
        plan = self._plan
        return bool(
            self._log.learned
            or self._log.changed
            or self._log.forgotten
            or plan.rewrite
            or plan.drop
            or plan.add
        )

    def facts(self) -> None:
        """Make, change and remove facts as the list says."""
        for number in self._plan.learn[:_AT_ONCE]:
            self._learn(number)
        rest = len(self._plan.learn) - _AT_ONCE
        if rest > 0:
            self._log.notes.append(f"{rest} more bullets of {view.NAME} become facts next time")
        for number, fact in self._plan.change.items():
            self._change(number, fact)
        for fact in self._plan.forget:
            self._forget(fact)

    def _learn(self, number: int) -> None:
        text = self._page.items[number].text
        try:
            clean = plain(self._app.clean_text(text)[0])
            _refuse_unfit(clean)
            ref, is_new = self._store(clean)
        except RetainError as error:
            self._log.notes.append(f"a bullet is no fact yet: {error.message}")
            return
        self._owners[number] = name = digest(ref.partition("/")[2])
        self._texts[name] = clean
        if is_new:
            self._log.learned.append(ref)

    def _change(self, number: int, fact: Fact) -> None:
        text = plain(self._page.items[number].text)
        try:
            _refuse_unfit(text)
            written = self._app.update(ref_of(fact), f"{text}\n", expect=fact.hash)
        except (Conflict, NotFound):
            raise Again from None
        except RetainError as error:
            self._log.notes.append(f"{ref_of(fact)} is as it was: {error.message}")
            self._refused.add(digest(fact.id))
            return
        self._texts[digest(fact.id)] = plain(written.memory.body)
        self._log.changed.append(ref_of(fact))

    def _forget(self, fact: Fact) -> None:
        for one in (fact, *fact.twins):
            try:
                self._app.delete(ref_of(one), expect=one.hash)
                self._log.forgotten.append(ref_of(one))
            except NotFound:
                continue
            except Conflict:
                raise Again from None

    def write(self, data: bytes | None) -> None:
        """Write the list, if it is still the one that was read."""
        plan, headings = self._plan, {words.casefold() for _, words in self._page.headings}
        added = [
            (fact.text, next((it for it in fact.sections if it.casefold() in headings), ""))
            for fact in plan.add
        ]
        text = self._page.changed(plan.rewrite, plan.drop, added)
        if text == self._page.text:
            return
        new = text.encode("utf-8", "surrogateescape")
        try:
            self._app.bank.rewrite(view.NAME, new, data)
        except Conflict:
            raise Again from None
        self._after = view.page(text)
        self._log.notes.extend(self._app.commit_profile(view.NAME, f"list facts in {view.NAME}"))

    def left(self, base: Sequence[Entry]) -> list[Entry]:
        """How the list is left: what each of its bullets shows, and of which fact."""
        plan = self._plan
        owners = {
            digest(item.text): owner
            for item, owner in reversed([*zip(self._page.items, self._owners, strict=True)])
        }
        for number, text in plan.rewrite.items():
            owners[digest(text)] = self._owners[number]
        owners |= {digest(fact.text): digest(fact.id) for fact in plan.add}
        before = {entry.shown: entry for entry in plan.kept}
        left = [
            before.get(mark) or Entry(owner, mark, digest(self._texts[owner]))
            for item in self._after.items
            if (owner := owners.get(mark := digest(item.text), ""))
            and owner not in self._refused
            and (mark in before or owner in self._texts)
        ]
        # As it was before, so that it is tried again.
        left += [entry for entry in base if entry.fact in self._refused]
        held = {digest(fact.id) for fact in plan.held}
        return left + [entry._replace(is_held=True) for entry in base if entry.fact in held]

    def done(self) -> Synced:
        plan = self._plan
        notes = dict.fromkeys([*self._log.notes, *_said(plan)])
        return Synced(
            tuple(self._log.learned),
            tuple(self._log.changed),
            tuple(self._log.forgotten),
            tuple(map(ref_of, plan.add)),
            len(plan.rewrite),
            len(plan.drop),
            tuple(map(ref_of, plan.held)),
            tuple(notes),
        )


def _said(plan: merging.Plan) -> Iterator[str]:
    for fact in plan.disputed:
        yield f"{ref_of(fact)} was changed in {view.NAME} and elsewhere: both texts are kept"
    if plan.restored:
        count = len(plan.restored)
        yield f"{view.NAME} was empty or gone: it lists its {count} facts again"
    if plan.held:
        count = len(plan.held)
        yield f"{count} bullets are gone from {view.NAME} at once: their facts were kept"
    if plan.kept:
        count = len(plan.kept)
        yield f"{count} facts of {view.NAME} cannot be found or read: their bullets were kept"


def _refuse_unfit(text: str) -> None:
    """Refuse what could not stand in the list: its bullet would be taken for one too many."""
    if not view.is_showable(text):
        raise LimitExceeded(f"{text[:40]!r}... is too long or not of a form to be a fact")


def plain(body: str) -> str:
    """A fact's text as a bullet says it."""
    return "\n".join(line.rstrip() for line in body.strip().splitlines())


def ref_of(fact: Fact) -> str:
    return f"{COLLECTION}/{fact.id}"
