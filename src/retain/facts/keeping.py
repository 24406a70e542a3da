"""The facts of one bank: saved without doubles, and kept in step with MEMORY.md.

A fact is a memory of type `fact` in the collection `facts`. MEMORY.md lists those in force, for
people to read and to edit; whichever side changes, the other follows.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from retain.app import App
from retain.bank.files import Directory, saving, turn
from retain.errors import Busy, Conflict, NotFound, RetainError, UsageError
from retain.facts import judging, merging, view
from retain.facts.carrying import COLLECTION, Again, Log, Synced, Work, plain, ref_of
from retain.facts.merging import Entry, Fact
from retain.locate import state_directory
from retain.memory import GLOBAL, Memory, slug

TYPE: Final = "fact"

_LOCK: Final = "facts.lock"
_LEFT: Final = "facts.json"  # how the list was left the last time
_FORMAT: Final = 1
_PATIENCE: Final = 30.0
_TRIES: Final = 50
_AT_REST: Final = 0.3  # seconds after which a file is no longer being saved
_LONGEST: Final = 5.0  # seconds that a file which is saved again and again is waited for
_TICK: Final = 0.1  # within which two changes of a file may bear one time
_LARGEST: Final = 1 << 24  # bytes of the file above
_BY_WORDS: Final = "there is no embedding model: facts were compared by their words alone"


class Added(NamedTuple):
    """What became of a fact."""

    text: str  # as it was kept, without secrets
    ref: str
    status: str  # saved, known, supersedes
    replaced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class _Weighed(NamedTuple):
    """What a new fact is to those that are there."""

    notes: tuple[str, ...]
    old: Sequence[Fact]  # whose place it takes
    known: Fact | None = None  # which says the same already


class _Present(NamedTuple):
    """The facts on disk."""

    facts: list[Fact]
    unreadable: list[str]
    put_away: list[str]  # superseded, retired, archived, or nothing that a list can show

    def planned(
        self, base: Sequence[Entry], bullets: Sequence[str], *, is_blank: bool, force: bool
    ) -> merging.Plan:
        return merging.plan(
            base,
            bullets,
            self.facts,
            unreadable=self.unreadable,
            put_away=self.put_away,
            is_blank=is_blank,
            force=force,
        )


class Facts:
    """What a bank knows in one sentence each."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._quiet: object = None  # the stamps of everything, when it was in step
        self._held: tuple[str, ...] = ()

    def present(self) -> list[Fact]:
        """The facts in force."""
        return self._present().facts

    # Saving

    def add(self, text: str, *, by: str = "", replaces: str = "", **fields: str) -> Added:
        """Keep a fact, unless it is known; one that replaces another takes its place.

        `replaces` is the text or the id of a fact whose place it takes, whatever words tell.
        """
        clean, notes = self._admitted(text)
        self._app.ensure_bank()
        with contextlib.ExitStack() as held:
            with contextlib.suppress(Busy):  # a double is the worst that can come of it
                held.enter_context(self._turn())
            weighed = self._weighed(clean, replaces)
            if weighed.known:
                ref, is_new = ref_of(weighed.known), False
            else:
                ref, is_new = self._stored(clean, by, fields)
            replaced, more = self._superseded(weighed.old, ref)
            status = "supersedes" if replaced else "saved" if is_new else "known"
            return Added(clean, ref, status, replaced, notes + weighed.notes + more)

    def weighed(self, text: str, replaces: str = "") -> tuple[str, tuple[str, ...]]:
        """What a fact is to those that are known, and to which of them; nothing is written."""
        if not self._app.location.exists:
            return "", ()
        _, old, known = self._weighed(self._admitted(text)[0], replaces)
        if old:
            return judging.REPLACES, tuple(map(ref_of, old))
        return (judging.KNOWN, (ref_of(known),)) if known else ("", ())

    def _weighed(self, text: str, replaces: str) -> _Weighed:
        present, key = self.present(), judging.same_key(text)
        meant = [fact for fact in _meant(replaces, present) if judging.same_key(fact.text) != key]
        rest = [fact for fact in present if fact not in meant]
        verdict, notes = self._judged(text, rest)
        if replaces and not meant:
            notes += (f"no fact is known that says: {replaces[:200]}",)
        others = [rest[number] for number in verdict.numbers]
        if verdict.status == judging.KNOWN:
            return _Weighed(notes, meant, others[0])
        return _Weighed(notes, [*meant, *others])

    def _admitted(self, text: str) -> tuple[str, tuple[str, ...]]:
        """A fact as it may be kept, and what is to be said of it."""
        allowed, notes = self._app.clean_text(text)
        clean = plain(allowed)
        if not judging.same_key(clean) or clean.startswith("---"):
            raise UsageError("there is no fact in this text", unchanged="Nothing was stored.")
        return clean, notes

    def _judged(self, text: str, known: Sequence[Fact]) -> tuple[judging.Verdict, tuple[str, ...]]:
        """What a fact is to those that are known; a model that fails is one that is not there."""
        failed: list[str] = []

        def nearness(one: str, others: Sequence[str]) -> Sequence[float] | None:
            try:
                return self._app.cosines(one, others)
            except RetainError as error:
                failed.append(f"facts were compared by their words alone: {error.message}")
                return None

        exactly = {judging.same_key(fact.text): number for number, fact in enumerate(known)}
        if (number := exactly.get(judging.same_key(text))) is not None:
            return judging.Verdict(judging.KNOWN, (number,)), ()
        verdict = judging.judged(text, [fact.text for fact in known], nearness)
        return verdict, tuple(failed or [_BY_WORDS] * verdict.is_by_words)

    def take(self, text: str, *, allow_secret: bool = False, **fields: str) -> Added:
        """Keep a fact of someone's own list as it stands there; only the very same one is known."""
        allowed, notes = self._app.clean_text(text, allow_secret=allow_secret)
        clean = plain(allowed)
        with contextlib.ExitStack() as held:
            with contextlib.suppress(Busy):
                held.enter_context(self._turn())
            ref, is_new = self._stored(clean, "", fields, allow_secret=allow_secret)
        return Added(clean, ref, "saved" if is_new else "known", notes=notes)

    def _stored(
        self, text: str, by: str, fields: Mapping[str, str], *, allow_secret: bool = False
    ) -> tuple[str, bool]:
        """The ref of a fact's file, and whether it is new; another process may have made it."""
        given = {key: value for key, value in fields.items() if value}
        for name in _names(text):
            address = f"{COLLECTION}/{name}"
            try:
                written = self._app.put(
                    f"{text}\n",
                    id=address,
                    is_new=True,
                    type=TYPE,
                    metadata=given,
                    created_by=by,
                    allow_secret=allow_secret,
                )
                return written.memory.ref, True
            except Conflict:
                with contextlib.suppress(NotFound):
                    there = self._app.bank.find(address)
                    is_same = judging.same_key(there.body) == judging.same_key(text)
                    if is_same and there.type == TYPE and self._is_in_force(there):
                        return there.ref, False
            except UsageError:
                continue  # a name that looks like a secret: the next one is a number
        raise Conflict(f"no name is free for {text[:60]!r}", unchanged="Nothing was stored.")

    def _by_hand(self, text: str) -> tuple[str, bool]:
        if self._app.location.scope == "project":  # whoever wrote the repository wrote this, too
            return self._stored(text, "project", {"source": f"the project's {view.NAME}"})
        return self._stored(text, "", {"source": view.NAME})

    def _superseded(self, old: Sequence[Fact], ref: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        done: list[str] = []
        notes: list[str] = []
        for fact in old:
            try:
                self._app.supersede(f"{COLLECTION}/{fact.id}", ref)
                done.append(ref_of(fact))
            except RetainError as error:
                notes.append(f"{ref_of(fact)} is still in force beside {ref}: {error.message}")
        return tuple(done), tuple(notes)

    # In step with the list

    def sync(self, *, force: bool = False) -> Synced:
        """Bring facts and MEMORY.md in step; with `force` also what looks like an accident.

        It never raises what a disk or a file may be the reason of: a conversation goes on.
        """
        try:
            if not self._app.location.exists or view.NAME not in self._app.bank.kind.not_memories:
                return Synced()
            with saving(os.path.join(self._app.bank.root, view.NAME)):
                stamps = self._stamps()
                if stamps is not None and stamps == self._quiet and not force:
                    return Synced(held=self._held)
                with self._turn() as state:
                    done = self._synced(state, force)
        except RetainError as error:
            return Synced(notes=(f"{view.NAME} and the facts are not in step: {error.message}",))
        self._held = done.held
        return done

    def _synced(self, state: Directory, force: bool) -> Synced:
        log = Log([], [], [], [])
        give_up = time.monotonic() + _LONGEST
        for number in range(_TRIES):
            if time.monotonic() > give_up:
                break
            stamps = self._stamps()
            with contextlib.suppress(Again):
                done, is_changed = self._tried(state, log, force, is_first=not number)
                # What was written during a change may be someone else's: look once more then.
                self._quiet = None if is_changed else stamps
                return done
        return Synced(
            notes=(f"{view.NAME} is being written to all the time; it is left for later",)
        )

    def _tried(
        self, state: Directory, log: Log, force: bool, *, is_first: bool
    ) -> tuple[Synced, bool]:
        """One attempt. What was left last is read first: whatever is newer can only be newer."""
        base = _left(state)
        data = self._read()
        page = view.page("" if data is None else data.decode("utf-8", "surrogateescape"))
        if page.is_torn:
            note = f"{view.NAME} is in the middle of an edit (a merge, or something not closed)"
            return Synced(notes=(f"{note}: it was left alone",)), False
        present = self._present()
        texts = [item.text for item in page.items]
        plan = present.planned(base, texts, is_blank=page.is_blank, force=force)
        if plan.kept:
            # What was deleted on purpose is in the trash, and no accident.
            thrown = [it.id for it in self._app.bank.trashed() if it.collection == COLLECTION]
            present.put_away.extend(thrown)
            plan = present.planned(base, texts, is_blank=page.is_blank, force=force)
        if plan.forget or plan.restored:
            self._wait_for_rest(is_first)
        work = Work(self._app, self._by_hand, page, plan, present.facts, log)
        work.facts()
        work.write(data)
        left = work.left(base)
        if left != base:
            state.put(_LEFT, json.dumps([_FORMAT, left]).encode())
        return work.done(), work.is_changed or left != base

    def _wait_for_rest(self, is_first: bool) -> None:
        """Look again once a file that lost bullets has not been written to for a moment.

        Some editors empty a file before they write it, or remove it.
        """
        age = 0.0 if is_first else _AT_REST
        with contextlib.suppress(FileNotFoundError):
            facts = os.stat(os.path.join(self._app.bank.root, view.NAME), follow_symlinks=False)
            age = time.time() - facts.st_mtime
        if 0 <= age < _AT_REST:
            time.sleep(_AT_REST - age)
            raise Again

    # On disk

    @contextlib.contextmanager
    def _turn(self) -> Iterator[Directory]:
        folder = state_directory(self._app.bank.root, os.environ)
        with turn(folder, _LOCK, patience=_PATIENCE) as state:
            yield state

    def _read(self) -> bytes | None:
        with contextlib.suppress(NotFound), Directory.open(self._app.bank.root) as root:
            return root.read(view.NAME, self._app.bank.max_bytes)
        return None

    def _present(self) -> _Present:
        found = _Present([], [], [])
        for memory in self._app.bank.memories(COLLECTION):
            if memory.problem:
                found.unreadable.append(memory.id)
            elif (
                memory.type == TYPE
                and self._is_in_force(memory)
                and view.is_showable(text := plain(memory.body))
            ):
                found.facts.append(_fact(memory, text))
            else:
                found.put_away.append(memory.id)
        found.facts.sort(key=lambda fact: fact.age)
        return found._replace(facts=_without_twins(found.facts))

    def _is_in_force(self, memory: Memory) -> bool:
        return memory.status == "active" and not self._app.successor(memory)

    def _stamps(self) -> object:
        """By what a change is seen without reading anything; None so soon that it might not be."""
        root = self._app.bank.root
        stamps: list[tuple[str, int, int, int]] = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            stamps.append(
                _stamp(view.NAME, os.stat(os.path.join(root, view.NAME), follow_symlinks=False))
            )
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(os.path.join(root, COLLECTION)) as entries,
        ):
            stamps += sorted(_stamp(one.name, one.stat(follow_symlinks=False)) for one in entries)
        newest = max((stamp[3] for stamp in stamps), default=0)
        return stamps if time.time() - newest / 1e9 > _TICK else None


def _left(state: Directory) -> list[Entry]:
    """How the list was left; nothing, where a file is missing or none of ours."""
    try:
        number, entries = json.loads(state.read(_LEFT, _LARGEST))
        if number != _FORMAT:
            return []
        return [Entry(str(a), str(b), str(c), bool(held)) for a, b, c, held in entries]
    except (RetainError, ValueError, TypeError, RecursionError):
        return []


def _names(text: str) -> Iterator[str]:
    """Ids for a fact, the best first; the same for the same fact, so that two processes agree."""
    number = hashlib.sha256(judging.same_key(text).encode()).hexdigest()
    if name := slug(text.partition("\n")[0]):
        yield name
        yield f"{name}-{number[:6]}"
    yield number[:12]
    for count in range(2, 1000):
        yield f"{number[:12]}-{count}"


def _meant(words: str, facts: Sequence[Fact]) -> list[Fact]:
    """The fact that someone calls by its id, by its text, or by words that only it has."""
    key = judging.same_key(words)
    if not key:
        return []
    name = words.strip().removeprefix(GLOBAL).removeprefix(f"{COLLECTION}/")
    for found in (
        [fact for fact in facts if fact.id == name],
        [fact for fact in facts if judging.same_key(fact.text) == key],
        [fact for fact in facts if judging.is_said(words, fact.text)],
    ):
        if len(found) == 1:
            return found
    return []


def _without_twins(facts: Sequence[Fact]) -> list[Fact]:
    """Each fact once: one bullet stands for all files that say the same."""
    by_key: dict[str, list[Fact]] = {}
    for fact in facts:
        by_key.setdefault(judging.same_key(fact.text), []).append(fact)
    return [first._replace(twins=tuple(rest)) for first, *rest in by_key.values()]


def _fact(memory: Memory, text: str) -> Fact:
    sections = tuple(filter(None, (memory.text("category"), *memory.tags)))
    written = 0
    with contextlib.suppress(OSError):
        written = os.stat(memory.path, follow_symlinks=False).st_mtime_ns
    return Fact(memory.id, text, memory.hash, (memory.text("created_at"), written), sections)


def _stamp(name: str, facts: os.stat_result) -> tuple[str, int, int, int]:
    return name, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
