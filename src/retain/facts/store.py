"""The facts of one bank: saved without doubles, and kept in step with MEMORY.md.

A fact is a memory of type `fact` in the collection `facts`. MEMORY.md lists those in force, for
people to read and edit. A new line is a new fact, a missing line a deleted one, a changed line an
update; facts that change elsewhere take their lines along.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from retain.app import App
from retain.bank.files import Directory, lock_state, saving
from retain.errors import Busy, Conflict, NotFound, RetainError, UsageError
from retain.facts import compare, memory_md
from retain.facts.compare import same_key
from retain.locate import state_directory
from retain.memory import GLOBAL, Memory, slug

TYPE: Final = "fact"
COLLECTION: Final = "facts"

_REDACTED: Final = re.compile(r"\[REDACTED:[^\]]*\]")
_NOTES: Final = "facts.json"  # digests of what the list showed when it was last in step
_LOCK_SECONDS: Final = 30.0
_ATTEMPTS: Final = 50
_SAVE_SECONDS: Final = 0.3  # an editor may empty a file before it writes it
_CLOCK_SECONDS: Final = 0.1  # within which two changes of a file may bear one time
_BATCH: Final = 200  # bullets that become facts at once: each is a file, synced and indexed
_FEW: Final = 5  # a list this long loses no more than half of its lines at once
_LIKE: Final = 0.6  # from which likeness on a new line is the missing one, changed
_BY_WORDS: Final = "there is no embedding model: facts were compared by their words alone"


class Fact(NamedTuple):
    """A fact in force."""

    id: str
    text: str
    hash: str = ""  # of its file
    created: tuple[str, int] = ("", 0)
    sections: tuple[str, ...] = ()  # where in the list it could stand
    twins: tuple[Fact, ...] = ()  # others with the same text

    @property
    def ref(self) -> str:
        return f"{COLLECTION}/{self.id}"


class Added(NamedTuple):
    """What became of a new fact."""

    text: str  # as it was kept, without secrets
    ref: str
    status: str  # saved, known, supersedes
    replaced: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Synced(NamedTuple):
    """What a sync did, as refs of facts."""

    learned: tuple[str, ...] = ()  # new bullets
    changed: tuple[str, ...] = ()  # changed bullets
    forgotten: tuple[str, ...] = ()  # removed bullets: these facts are in the trash
    listed: tuple[str, ...] = ()  # facts that got a bullet
    held: tuple[str, ...] = ()  # facts kept although their bullets went, too many at once
    notes: tuple[str, ...] = ()


class _Plan(NamedTuple):
    """What a sync has to do; bullets are named by their number."""

    learn: list[int]
    change: dict[int, Fact]  # bullets whose text becomes their fact's
    rewrite: dict[int, str]  # bullets that get their fact's text
    orphans: dict[int, str]  # bullets whose fact is no longer in force, with the digest of its id
    forget: list[Fact]
    add: list[Fact]


class _Overtaken(Exception):
    """Someone else wrote in between: look again."""


class _Log:
    """What a sync did, in however many attempts."""

    def __init__(self) -> None:
        self.learned: list[str] = []
        self.changed: list[str] = []
        self.forgotten: list[str] = []
        self.notes: list[str] = []
        self.refused: set[str] = set()  # digests of ids of facts that did not get their new text

    def count_changes(self) -> int:
        return len(self.learned) + len(self.changed) + len(self.forgotten)

    def finish(self, listed: Sequence[Fact] = (), held: Sequence[Fact] = ()) -> Synced:
        return Synced(
            tuple(self.learned),
            tuple(self.changed),
            tuple(self.forgotten),
            tuple(fact.ref for fact in listed),
            tuple(fact.ref for fact in held),
            tuple(self.notes),
        )


class Facts:
    """What a bank knows in one sentence each."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._stamps_in_step: object = None
        self._held: tuple[str, ...] = ()

    def present(self) -> list[Fact]:
        """The facts in force, the oldest first, each text once."""
        return self._load()[0]

    # Saving

    def add(self, text: str, *, by: str = "", replaces: str = "", **fields: str) -> Added:
        """Keep a fact, unless it is known; one that replaces another takes its place.

        `replaces` is the text or the id of a fact whose place it takes, whatever its words say.
        """
        clean, notes = self._clean(text)
        self._app.ensure_bank()
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(Busy):  # a double is the worst that can come of it
                stack.enter_context(self._lock())
            known, old, more = self._compare(clean, replaces)
            ref, is_new = (known.ref, False) if known else self._store(clean, by, fields)
            replaced = []
            for fact in old:
                try:
                    self._app.supersede(fact.ref, ref)
                    replaced.append(fact.ref)
                except RetainError as error:
                    more += (f"{fact.ref} is still in force beside {ref}: {error.message}",)
        status = "supersedes" if replaced else "saved" if is_new else "known"
        return Added(clean, ref, status, tuple(replaced), notes + more)

    def take(self, text: str, *, allow_secret: bool = False, **fields: str) -> Added:
        """Keep a fact of someone's own list as it stands there; only the very same is known."""
        allowed, notes = self._app.clean_text(text, allow_secret=allow_secret)
        clean = plain(allowed)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(Busy):
                stack.enter_context(self._lock())
            ref, is_new = self._store(clean, "", fields, allow_secret=allow_secret)
        return Added(clean, ref, "saved" if is_new else "known", notes=notes)

    def weigh(self, text: str, replaces: str = "") -> tuple[str, tuple[str, ...]]:
        """What a fact is to those that are known, and to which of them; nothing is written."""
        if not self._app.location.exists:
            return "", ()
        known, old, _ = self._compare(self._clean(text)[0], replaces)
        if old:
            return compare.REPLACES, tuple(fact.ref for fact in old)
        return (compare.KNOWN, (known.ref,)) if known else ("", ())

    def _clean(self, text: str) -> tuple[str, tuple[str, ...]]:
        """A fact as it may be kept, and what has to be said about secrets in it."""
        allowed, notes = self._app.clean_text(text)
        clean = plain(allowed)
        if not same_key(_REDACTED.sub("", clean)) or clean.startswith("---"):
            raise UsageError("there is no fact in this text", unchanged="Nothing was stored.")
        return clean, notes

    def _compare(self, text: str, replaces: str) -> tuple[Fact | None, list[Fact], tuple[str, ...]]:
        """The fact that says the same, those whose place the text takes, and notes."""
        facts, key = self.present(), same_key(text)
        named = [fact for fact in _find_named(replaces, facts) if same_key(fact.text) != key]
        others = [fact for fact in facts if fact not in named]
        notes: tuple[str, ...] = ()
        if replaces and not named:
            notes = (f"no fact is known that says: {replaces[:200]}",)
        for fact in others:
            if same_key(fact.text) == key:
                return fact, named, notes
        failures: list[str] = []

        def cosines(one: str, rest: Sequence[str]) -> Sequence[float] | None:
            try:
                return self._app.cosines(one, rest)
            except RetainError as error:
                failures.append(f"facts were compared by their words alone: {error.message}")
                return None

        verdict = compare.compare(text, [fact.text for fact in others], cosines)
        if verdict.is_by_words:
            notes += (*(failures or [_BY_WORDS]),)
        found = [others[number] for number in verdict.numbers]
        if verdict.status == compare.KNOWN:
            return found[0], named, notes
        return None, named + found, notes

    def _store(
        self, text: str, by: str, fields: Mapping[str, str], *, allow_secret: bool = False
    ) -> tuple[str, bool]:
        """The ref of a fact's file, and whether it is new; another process may have made it."""
        given = {key: value for key, value in fields.items() if value}
        for name in _make_ids(text):
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
                    is_same = same_key(there.body) == same_key(text)
                    if is_same and there.type == TYPE and self._is_in_force(there):
                        return there.ref, False
            except UsageError:
                continue  # a name that looks like a secret: the next one is a number
        raise Conflict(f"no name is free for {text[:60]!r}", unchanged="Nothing was stored.")

    # In step with the list

    def sync(self, *, force: bool = False) -> Synced:
        """Bring facts and MEMORY.md in step; with `force` also what looks like an accident.

        It raises nothing that a disk or a file is the reason of: a conversation goes on.
        """
        try:
            kind = self._app.bank.kind
            if not self._app.location.exists or memory_md.NAME not in kind.not_memories:
                return Synced()
            with saving(os.path.join(self._app.bank.root, memory_md.NAME)):
                stamps = self._read_stamps()
                if stamps is not None and stamps == self._stamps_in_step and not force:
                    return Synced(held=self._held)
                with self._lock() as state:
                    done = self._sync(state, force)
        except RetainError as error:
            note = f"{memory_md.NAME} and the facts are not in step: {error.message}"
            return Synced(notes=(note,))
        self._held = done.held
        return done

    def _sync(self, state: Directory, force: bool) -> Synced:
        """Try until nobody else writes in between."""
        log = _Log()
        for _ in range(_ATTEMPTS):
            stamps, before = self._read_stamps(), log.count_changes()
            with contextlib.suppress(_Overtaken):
                held, listed = self._attempt(state, log, force)
                is_quiet = before == log.count_changes() and not listed
                self._stamps_in_step = stamps if is_quiet else None
                return log.finish(listed, held)
        log.notes.append(f"{memory_md.NAME} is being written to all the time; it is left for later")
        return log.finish()

    def _attempt(
        self, state: Directory, log: _Log, force: bool
    ) -> tuple[Sequence[Fact], Sequence[Fact]]:
        """Change the facts as the list says, then the list; the facts held, and those listed."""
        noted, held_before = _read_notes(state)  # first: whatever is read later can only be newer
        data = self._read_list()
        page = memory_md.parse("" if data is None else data.decode("utf-8", "surrogateescape"))
        log.notes.clear()
        if page.is_torn:
            log.notes.append(
                f"{memory_md.NAME} is in the middle of an edit (a merge, or something not closed): "
                "it was left alone"
            )
            return (), ()
        facts, unreadable, put_away = self._load()
        plan = _make_plan(noted, [bullet.text for bullet in page.bullets], facts)
        if plan.forget or plan.learn or plan.change:
            self._wait_for_editor()
        held = [fact for fact in plan.forget if _digest(fact.id) in held_before]
        if _is_accident(len(plan.forget) - len(held), len(noted) - len(held_before)):
            held = plan.forget
        if force:
            held = []
        elif plan.forget and page.is_blank:
            count = len(plan.forget)
            log.notes.append(
                f"{memory_md.NAME} was empty or gone: it lists its {count} facts again"
            )
            plan, held = plan._replace(forget=[], add=plan.forget + plan.add), []
        elif held:
            log.notes.append(
                f"{len(held)} bullets are gone from {memory_md.NAME} at once: their facts were kept"
            )
        plan = plan._replace(forget=[fact for fact in plan.forget if fact not in held])
        log.notes += [
            f"{fact.ref} was changed in {memory_md.NAME} and elsewhere: both texts are kept"
            for fact in plan.add
            if noted.get(_digest(fact.id), _digest(fact.text)) != _digest(fact.text)
        ]
        lost = self._find_lost(set(plan.orphans.values()) - put_away, unreadable, len(noted))
        if lost and not force:
            log.notes.append(
                f"{len(lost)} facts of {memory_md.NAME} cannot be found or read: "
                "their bullets were kept"
            )
        else:
            lost = set()
        self._learn(plan, page, log)
        self._change(plan, page, log)
        self._forget(plan, log)
        drop = [number for number, name in plan.orphans.items() if name not in lost]
        self._write_list(page, plan, drop, data, log)
        held_now = {_digest(fact.id) for fact in held}
        left = self._list_shown(noted, lost | log.refused | held_now)
        if (left, held_now) != (noted, held_before):
            state.put(_NOTES, json.dumps([left, sorted(held_now)]).encode())
        return held, plan.add

    def _wait_for_editor(self) -> None:
        """Wait and look again if the list was written so lately that its editor may go on."""
        with contextlib.suppress(FileNotFoundError):
            path = os.path.join(self._app.bank.root, memory_md.NAME)
            age = time.time() - os.stat(path, follow_symlinks=False).st_mtime
            if 0 <= age < _SAVE_SECONDS:
                time.sleep(_SAVE_SECONDS - age)
                raise _Overtaken

    def _find_lost(self, orphans: set[str], unreadable: set[str], listed: int) -> set[str]:
        """Of the facts of orphaned bullets, those that nobody seems to have put away."""
        gone = orphans - unreadable
        if gone:
            trashed = self._app.bank.trash.entries()
            gone -= {_digest(entry.id) for entry in trashed if entry.collection == COLLECTION}
        return (orphans & unreadable) | (gone if _is_accident(len(gone), listed) else set())

    def _learn(self, plan: _Plan, page: memory_md.Page, log: _Log) -> None:
        is_project = self._app.location.scope == "project"
        by, source = ("project", "the project's ") if is_project else ("", "")
        for number in plan.learn[:_BATCH]:
            try:
                clean, _ = self._clean(page.bullets[number].text)
                _refuse_unfit(clean)
                ref, is_new = self._store(clean, by, {"source": source + memory_md.NAME})
            except RetainError as error:
                log.notes.append(f"a bullet is no fact yet: {error.message}")
                continue
            log.learned += [ref] if is_new else []
            plan.rewrite[number] = clean  # without a secret
        if len(plan.learn) > _BATCH:
            rest = len(plan.learn) - _BATCH
            log.notes.append(f"{rest} more bullets of {memory_md.NAME} become facts next time")

    def _change(self, plan: _Plan, page: memory_md.Page, log: _Log) -> None:
        for number, fact in plan.change.items():
            text = plain(page.bullets[number].text)
            try:
                _refuse_unfit(text)
                written = self._app.update(fact.ref, f"{text}\n", expect=fact.hash)
            except (Conflict, NotFound):
                raise _Overtaken from None
            except RetainError as error:
                log.notes.append(f"{fact.ref} is as it was: {error.message}")
                log.refused.add(_digest(fact.id))
                continue
            log.changed.append(fact.ref)
            plan.rewrite[number] = plain(written.memory.body)

    def _forget(self, plan: _Plan, log: _Log) -> None:
        for fact in plan.forget:
            for twin in (fact, *fact.twins):
                try:
                    self._app.delete(twin.ref, expect=twin.hash)
                    log.forgotten.append(twin.ref)
                except NotFound:
                    continue
                except Conflict:
                    raise _Overtaken from None

    def _write_list(
        self,
        page: memory_md.Page,
        plan: _Plan,
        drop: Sequence[int],
        data: bytes | None,
        log: _Log,
    ) -> None:
        """Write the list if it is still the one that was read."""
        added = [
            (fact.text, next((it for it in fact.sections if it.casefold() in page.headings), ""))
            for fact in plan.add
        ]
        rewrite = {n: it for n, it in plan.rewrite.items() if it != page.bullets[n].text}
        text = page.edit(rewrite, drop, added)
        if text == "".join(page.lines):
            return
        try:
            self._app.bank.rewrite(memory_md.NAME, text.encode("utf-8", "surrogateescape"), data)
        except Conflict:
            raise _Overtaken from None
        log.notes += self._app.commit_profile(memory_md.NAME, f"list facts in {memory_md.NAME}")

    # On disk

    @contextlib.contextmanager
    def _lock(self) -> Iterator[Directory]:
        # Of its own: whoever opens the index locks the directory that it is in.
        folder = os.path.join(state_directory(self._app.bank.root, os.environ), "facts")
        with lock_state(folder, _LOCK_SECONDS) as state:
            yield state

    def _read_list(self) -> bytes | None:
        with contextlib.suppress(NotFound), Directory.open(self._app.bank.root) as root:
            return root.read(memory_md.NAME, self._app.bank.max_bytes)
        return None

    def _list_shown(self, noted: Mapping[str, str], keep: set[str]) -> dict[str, str]:
        """The facts that the list shows now, and `keep`: digests of their ids and texts.

        Digests alone, so that no text outlives its fact here.
        """
        page = memory_md.parse((self._read_list() or b"").decode("utf-8", "surrogateescape"))
        shown = {_digest(bullet.text) for bullet in page.bullets}
        now = {_digest(fact.id): _digest(fact.text) for fact in self.present()}
        # A fact that was changed this moment still has its old text in the list.
        left = {name: mark for name, mark in noted.items() if mark in shown or name in keep}
        return left | {name: mark for name, mark in now.items() if mark in shown}

    def _load(self) -> tuple[list[Fact], set[str], set[str]]:
        """The facts in force; the digests of the ids of unreadable files, and of those put away."""
        by_key: dict[str, list[Fact]] = {}
        unreadable: set[str] = set()
        put_away: set[str] = set()
        for memory in self._app.bank.memories(COLLECTION):
            text = plain(memory.body)
            if memory.problem:
                unreadable.add(_digest(memory.id))
            elif memory.type == TYPE and self._is_in_force(memory) and memory_md.is_showable(text):
                by_key.setdefault(same_key(text), []).append(_make_fact(memory, text))
            else:
                put_away.add(_digest(memory.id))
        groups = [sorted(facts, key=lambda fact: fact.created) for facts in by_key.values()]
        facts = [first._replace(twins=tuple(rest)) for first, *rest in groups]
        return sorted(facts, key=lambda fact: fact.created), unreadable, put_away

    def _is_in_force(self, memory: Memory) -> bool:
        return memory.status == "active" and not self._app.successor(memory)

    def _read_stamps(self) -> object:
        """Stamps that change with the files; None so soon after a change that they might not."""
        root, stamps = self._app.bank.root, []
        for path in (os.path.join(root, memory_md.NAME), os.path.join(root, COLLECTION)):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                stamps.append(_make_stamp(path, os.stat(path, follow_symlinks=False)))
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(os.path.join(root, COLLECTION)) as entries,
        ):
            stamps += sorted(_make_stamp(it.path, it.stat(follow_symlinks=False)) for it in entries)
        newest = max((stamp[3] for stamp in stamps), default=0)
        return stamps if time.time() - newest / 1e9 > _CLOCK_SECONDS else None


def _make_plan(noted: Mapping[str, str], bullets: Sequence[str], facts: Sequence[Fact]) -> _Plan:
    """Decide what becomes of each bullet and each fact.

    `noted` is what the list showed when it was last in step: digests of ids and of texts.
    """
    plan = _Plan([], {}, {}, {}, [], [])
    by_key = {same_key(fact.text): fact for fact in facts}
    owners = {n: by_key[key] for n, text in enumerate(bullets) if (key := same_key(text)) in by_key}
    owned = {fact.id for fact in owners.values()}
    for number, fact in owners.items():
        is_only = list(owners.values()).count(fact) == 1
        if _digest(fact.text) != _digest(bullets[number]) and is_only:
            if noted.get(_digest(fact.id)) == _digest(fact.text):
                plan.change[number] = fact
            elif noted.get(_digest(fact.id)) == _digest(bullets[number]):
                plan.rewrite[number] = fact.text
    by_mark = {mark: name for name, mark in noted.items()}
    by_name = {_digest(fact.id): fact for fact in facts}
    new: list[int] = []
    for number, text in enumerate(bullets):
        name = by_mark.get(_digest(text), "")
        if number in owners:
            continue
        if name not in noted:
            new.append(number)
        elif name not in by_name:
            plan.orphans[number] = name
        elif (fact := by_name[name]).id in owned:
            plan.orphans[number] = ""  # its new text has a bullet already
        else:
            plan.rewrite[number] = fact.text
            owned.add(fact.id)
    missing = [fact for fact in facts if fact.id not in owned]
    as_noted = [fact for fact in missing if noted.get(_digest(fact.id)) == _digest(fact.text)]
    changes = _pair_changes({number: bullets[number] for number in new}, as_noted)
    plan.change.update(changes)
    plan.learn.extend(number for number in new if number not in changes)
    plan.forget.extend(fact for fact in as_noted if fact not in changes.values())
    plan.add.extend(fact for fact in missing if fact not in as_noted)
    return plan


def _pair_changes(bullets: Mapping[int, str], facts: Sequence[Fact]) -> dict[int, Fact]:
    """Each new bullet that is like a fact whose bullet is missing, with that fact."""
    pairs: dict[int, Fact] = {}
    if len(bullets) * len(facts) > 10_000:
        return pairs
    scores = sorted(
        (
            (_likeness(text, fact.text), -number, fact)
            for number, text in bullets.items()
            for fact in facts
        ),
        reverse=True,
    )
    for score, number, fact in scores:
        if score >= _LIKE and -number not in pairs and fact not in pairs.values():
            pairs[-number] = fact
    return pairs


def _likeness(one: str, other: str) -> float:
    one, other = one.casefold(), other.casefold()
    if one.startswith(other) or other.startswith(one):
        return 1.0  # however much was added or taken away at the end
    return SequenceMatcher(None, one[:400], other[:400], False).ratio()


def _is_accident(gone: int, listed: int) -> bool:
    return listed >= _FEW and gone * 2 > listed


def _digest(text: str) -> str:
    """A mark by which a text is known again, however its lines are broken."""
    words = " ".join(text.split()).encode("utf-8", "surrogateescape")
    return hashlib.sha256(words).hexdigest()[:32]


def _read_notes(state: Directory) -> tuple[dict[str, str], set[str]]:
    """What the list showed, and what was held; nothing, where the file is missing or not ours."""
    try:
        noted, held = json.loads(state.read(_NOTES, 1 << 24))
        return {str(name): str(mark) for name, mark in noted.items()}, set(map(str, held))
    except (RetainError, ValueError, TypeError, AttributeError, RecursionError):
        return {}, set()


def _refuse_unfit(text: str) -> None:
    """Refuse what could not stand in the list: its bullet would be taken for one too many."""
    if not memory_md.is_showable(text):
        raise UsageError(f"{text[:40]!r}... is too long or not of a form to be a fact")


def plain(body: str) -> str:
    """A fact's text as a bullet says it."""
    return "\n".join(line.rstrip() for line in body.strip().splitlines())


def _make_ids(text: str) -> Iterator[str]:
    """Ids for a fact, the best first; the same for the same fact, so that two processes agree."""
    digest = hashlib.sha256(same_key(text).encode()).hexdigest()
    if name := slug(text.partition("\n")[0]):
        yield name
        yield f"{name}-{digest[:6]}"
    yield digest[:12]
    for count in range(2, 1000):
        yield f"{digest[:12]}-{count}"


def _find_named(words: str, facts: Sequence[Fact]) -> list[Fact]:
    """The fact that someone calls by its id, by its text, or by words that only it has."""
    key = same_key(words)
    if not key:
        return []
    name = words.strip().removeprefix(GLOBAL).removeprefix(f"{COLLECTION}/")
    for found in (
        [fact for fact in facts if fact.id == name],
        [fact for fact in facts if same_key(fact.text) == key],
        [fact for fact in facts if compare.has_words(words, fact.text)],
    ):
        if len(found) == 1:
            return found
    return []


def _make_fact(memory: Memory, text: str) -> Fact:
    sections = tuple(filter(None, (memory.text("category"), *memory.tags)))
    written = 0
    with contextlib.suppress(OSError):
        written = os.stat(memory.path, follow_symlinks=False).st_mtime_ns
    return Fact(memory.id, text, memory.hash, (memory.text("created_at"), written), sections)


def _make_stamp(path: str, facts: os.stat_result) -> tuple[str, int, int, int]:
    return path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
