"""What waits is delivered: in batches, again after a kill, and never over what is newer."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.index import database
from retain.index.engines import locating, locks, looking, outbox
from retain.index.engines.arm import (
    GRAVE,
    Arm,
    EngineError,
    EngineRefused,
    EngineUnfit,
    Held,
    Piece,
    wins,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from retain.index.database import Database
    from retain.index.engines.naming import Names
    from retain.index.engines.wire import Wire


Progress = Callable[[int, int], None]  # done, of how many

# Memories that are told of together.
_BATCH: Final = 256
_PIECES: Final = 256  # of which so many go in one request, about
_SLOW: Final = 30.0  # seconds that a server may take for one of them while nobody waits
MANIFEST: Final = 3_600.0  # and to say all it holds, page by page
# To store a batch: each request has limits of its own, but a server may build a graph on that way.
_STORED: Final = 1_200.0
_MADE: Final = 600.0  # and to make collections, on which all nodes of a cluster have to agree
_LOCK: Final = "engine.lock"
_GLANCE: Final = 0.2  # seconds between looks whether another process has done
_DAY: Final = 86_400.0
# Seconds until a server is asked again what it holds: the longest, and where other machines tell it
# things as well the shortest, or so many times as long as it takes.
_ACQUAINTED: Final = _DAY / 4
_SHARED: Final = 300.0
_TIMES: Final = 200
# A machine that was away for longer may bring what others deleted back into the index, though never
# into a file. Half a year is longer than anyone's leave, and short enough that marks stay few.
_MARKED: Final = 180 * _DAY  # seconds that the mark of a deleted memory is kept
_SWEEP: Final = 30 * _DAY  # seconds between looks for older ones


class Pushed(NamedTuple):
    """What a delivery did, and what it left."""

    sent: int = 0
    removed: int = 0
    known: int = 0  # that the engine had already
    ahead: int = 0  # of which it has something newer, from another machine
    left: int = 0
    lacking: int = 0  # that wait for their vectors
    is_busy: bool = False  # another process delivers just now

    def plus(self, other: Pushed) -> Pushed:
        """Both together; what is left is what the later one left."""
        return other._replace(
            sent=self.sent + other.sent,
            removed=self.removed + other.removed,
            known=self.known + other.known,
            ahead=self.ahead + other.ahead,
        )

    @property
    def settled(self) -> int:
        """The memories that need not wait any longer."""
        return self.sent + self.removed + self.known + self.ahead


def met(arm: str) -> str:
    """The fact that says when an engine was last asked what it holds; none: ask before all else."""
    return f"engine:{arm}:met"


def mistrust(connection: sqlite3.Connection, arm: str) -> None:
    """Have an engine asked what it holds before it is told anything, or believed."""
    outbox.doubt(connection, arm)
    connection.execute("DELETE FROM facts WHERE name = ?", (met(arm),))


@contextlib.contextmanager
def turn(store: Database, patience: float = 0.0) -> Iterator[bool]:
    """One process of a machine at a time, so that no older state can overtake a newer one.

    Others are waited for so many seconds; whether it is ours then.
    """
    if store.is_temporary:
        yield True
        return
    fd = _opened(store)
    try:
        end = time.monotonic() + patience
        while not (is_ours := locks.is_taken(fd)) and time.monotonic() < end:
            time.sleep(_GLANCE)
        yield is_ours
    finally:
        os.close(fd)


def _opened(store: Database) -> int:
    """The open lock of a bank's deliveries; EngineError where something else lies in its place."""
    path = os.path.join(os.path.dirname(store.path), _LOCK)
    try:
        return locks.opened(path)
    except OSError as error:
        raise EngineRefused(
            f"nothing can be delivered: {path} cannot be used as a lock ({error.strerror})",
            hint="Remove it: it is made anew.",
        ) from error


class Sender:
    """Delivers the changes of one bank to one arm."""

    def __init__(
        self,
        store: Database,
        wire: Wire[Arm],
        names: Names,
        model: str = "",
        *,
        is_alone: bool = False,
        root: str = "",
    ) -> None:
        self._store, self._wire, self._names, self._root = store, wire, names, root
        self._model = model  # whose vectors are sent; empty for the text arm
        self._is_alone = is_alone  # no other machine can know what this bank is called

    def push(
        self,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
        progress: Progress | None = None,
        patience: float = 0.0,
    ) -> Pushed:
        """Deliver what waits; a failure is noted until one succeeds.

        Where another process delivers, it is waited for so many seconds.
        """
        try:
            done = self._pushed(is_stopped, progress, patience)
        except EngineError as error:
            self._wire.note_delivery(error)
            raise
        if not done.is_busy:
            self._wire.note_delivery(None)
        return done

    def _pushed(
        self, is_stopped: Callable[[], bool], progress: Progress | None, patience: float
    ) -> Pushed:
        done = Pushed()
        with turn(self._store, patience) as is_ours:
            if not is_ours:
                return Pushed(is_busy=True, left=self.left)
            if is_stopped():  # while another process was waited for
                return Pushed(left=self.left)
            self._look()
            self._meet()
            total = self.left if progress else 0
            after = 0
            while not is_stopped():
                step = self._step(after)
                if step is None and not after:
                    break
                if step is None:  # once more from the start: something may have changed since
                    after = 0
                    continue
                done, after = done.plus(step[0]), step[1]
                if progress:
                    progress(done.settled, max(total, done.settled))
            self._settle()
            if self._is_time_to_sweep():
                self._note_sweep()
                with contextlib.suppress(EngineError):  # all is told; marks may wait for another
                    self.prune()
        lacking = self._lacking()
        return done._replace(left=self.left - lacking, lacking=lacking)

    def waits(self, *, for_vectors: bool) -> bool:
        """Whether there is anything to deliver, or the server has to be asked what it holds.

        What still waits for its vectors counts for who would make them.
        """
        with self._store.reading() as connection:
            if not self._is_known(connection):
                return True
        return self.left > (0 if for_vectors else self._lacking())

    @property
    def left(self) -> int:
        """How many changes wait, those without vectors among them."""
        with self._store.reading() as connection:
            return outbox.left(connection, self._wire.key)

    def forget(self, memories: Sequence[str]) -> None:
        """Have memories delivered again, whatever was noted about them."""
        with self._store.writing() as connection:
            outbox.spoil(connection, self._wire.key, memories)

    def claim(self, memories: Sequence[str]) -> None:
        """Have memories told as they are here, or as deleted, whatever the server holds of them."""
        with self._store.writing() as connection:
            outbox.claim(connection, self._wire.key, memories)

    def prune(self, age: float = _MARKED) -> int:
        """Have the marks of memories removed that were deleted so many seconds ago or earlier."""
        before = time.time() - age
        found = self._wire.insist(lambda arm: arm.prune(before), MANIFEST)
        with self._store.writing() as connection:
            outbox.unbury(connection, self._wire.key, before)
        self._note_sweep()
        return found

    def _is_time_to_sweep(self) -> bool:
        """Whether nobody here has looked for old marks for long; the first time is put off."""
        with self._store.reading() as connection:
            last = database.fact(connection, self._swept)
        if last is None:
            self._note_sweep()
        # A clock that was ahead once must not put it off for ever.
        return last is not None and not 0 <= time.time() - float(str(last)) <= _SWEEP

    def _note_sweep(self) -> None:
        with self._store.writing() as connection:
            database.set_fact(connection, self._swept, int(time.time()))

    @property
    def _swept(self) -> str:
        return f"engine:{self._wire.key}:swept"

    def _look(self) -> None:
        """See whether the server still has what it was given, before it is told the rest alone."""
        with self._store.reading() as connection:
            if not self._is_known(connection):
                return
            some = looking.witnesses(connection, self._wire.key)
        if not some:
            return
        held = self._wire.insist(lambda arm: arm.held(list(some)), _SLOW)
        if not looking.differs(some, held):
            return
        key = self._wire.key
        with self._store.writing() as connection:
            if self._is_alone or looking.has_lost(some, held):
                mistrust(connection, key)
            else:  # what another machine has changed is no reason to ask about all the others
                outbox.mark(connection, key, looking.changed(some, held), ())

    def _meet(self) -> None:
        """Ask a server what it holds, before telling it anything: one we know nothing about, one
        that seems to have lost what it had, and now and then every one.

        What it holds of memories that are not here is left alone: another machine may have told it
        of them, and this one has not been given them yet.
        """
        with self._store.reading() as connection:
            if self._is_known(connection):
                return
            collections = [name for (name,) in connection.execute(_COLLECTIONS)]
        self._ready(collections)
        self._learn()

    def _ready(self, collections: Sequence[str]) -> None:
        """Have collections there; what a model of another dimension has left makes room for it.

        Where other machines use it that is not ours to remove.
        """
        try:
            self._wire.insist(lambda arm: arm.ready(collections), _MADE)
        except EngineUnfit as error:
            if not self._is_alone:
                error.hint = self._anew
                raise
            self._wire.insist(lambda arm: arm.drop(), _MADE)
            self._wire.insist(lambda arm: arm.ready(collections), _MADE)
            self._learn()

    @property
    def _anew(self) -> str:
        """What to do about vectors of another model that several machines share."""
        return (
            "Machines that share an engine need the same recall.embedder. "
            f"`retain engine drop --from {self._wire.kind} --yes` begins anew, "
            "and `retain engine push` on each of them fills it."
        )

    def manifest(self) -> list[Held]:
        """What the server says it holds; that is noted as well, unless another process delivers."""
        with turn(self._store) as is_ours:
            return self._learn() if is_ours else self._asked()

    def _asked(self) -> list[Held]:
        return self._wire.insist(lambda arm: list(arm.manifest()), MANIFEST)

    def _learn(self) -> list[Held]:
        started = time.monotonic()
        held = self._asked()
        took = time.monotonic() - started
        key = self._wire.key
        with self._store.writing() as connection:
            here = {name: (hash_, at) for name, hash_, at in connection.execute(_HERE)}
            notes = outbox.known(connection, key, self._wire.target)
            known = {}
            for one in held:
                note = outbox.about(notes, one)
                if one.memory in here:
                    known[one.memory] = self._noted(one, *here[one.memory], note)
                elif not one.is_grave and self._was_deleted(note, one):
                    known[one.memory] = outbox.BEGUN + one.hash
            known = {name: note for name, note in known.items() if note}
            outbox.learn(connection, key, self._wire.target, known, here)
            if self._is_alone:  # what another model's vectors were noted as is theirs no longer
                for other in outbox.namesakes(connection, self._wire.part, self._wire.target):
                    if other != key:
                        outbox.forget(connection, other)
            database.set_fact(connection, self._met, f"{int(time.time())} {took:.3f}")
        return held

    def _is_known(self, connection: sqlite3.Connection) -> bool:
        last, _, took = str(database.fact(connection, self._met) or "").partition(" ")
        if not last:
            return False
        longest = _ACQUAINTED
        if not self._is_alone:
            longest = min(longest, max(_SHARED, _TIMES * float(took or 0)))
        return 0 <= time.time() - float(last) + 1 < longest  # whatever the clock was then

    @property
    def _met(self) -> str:
        return met(self._wire.key)

    def _was_deleted(self, note: str, held: Held) -> bool:
        """Whether what a server holds and the index does not was deleted here.

        So it is where it was told from here; and where nobody else could tell it, unless its file
        is there: an index that is made anew has yet to come to that.
        """
        if not self._is_alone:
            return outbox.is_ours(note, held)
        return not os.path.lexists(f"{self._root}/{held.memory}")

    def _noted(self, held: Held, hash_: str, written: float, note: str) -> str:
        """What to note of a memory that a server holds; nothing where there is nothing of it."""
        if held.hash == hash_:
            is_there = held.is_whole and held.model == self._model
            return hash_ if is_there else outbox.BEGUN + hash_
        if self._is_alone:  # nobody else can have told it
            return outbox.BEGUN + outbox.ANY
        if outbox.is_ours(note, held):
            return note if held.is_grave else outbox.BEGUN + held.hash
        if not wins(hash_, written, held):
            return outbox.AHEAD + hash_
        # Older than ours, so it is ours to replace; and to bury, should it be deleted before that.
        return "" if held.is_grave else outbox.BEGUN + held.hash

    def _step(self, after: int) -> tuple[Pushed, int] | None:
        """One batch of what comes after a number, and the last in it; None when nothing waits."""
        waits = self._waiting(_BATCH, after)
        if not waits.changed and not waits.deleted:
            return None
        with self._store.reading() as connection:
            groups = list(outbox.pieces(connection, self._names, waits.changed, self._model))
        groups = [group for group in groups if group]
        names = [*(group[0].memory for group in groups), *waits.deleted]
        held = self._wire.insist(lambda arm: arm.held(names), _SLOW)
        notes = self._given(names)
        if self._is_alone:  # whatever it holds nobody else can have told it
            notes = {name: outbox.owned(notes.get(name, "")) for name in names}
        self._refuse_other_model(
            held[group[0].memory] for group in groups if group[0].memory in held
        )
        plan = _plan(groups, waits.deleted, held, self._model, notes)
        fresh = sorted({group[0].collection for group in plan.send})
        if fresh:
            self._ready(fresh)
        graves = [_grave(self._names, name, held.get(name)) for name in plan.bury]
        self._begin(plan)
        for part in _parts([*plan.send, *([grave] for grave in graves)]):
            self._wire.insist(lambda arm, part=part: arm.put(part), _STORED)  # type: ignore[misc]
        with self._store.writing() as connection:
            given = {group[0].memory: group[0].hash for group in groups}
            given |= {name: outbox.AHEAD + given[name] for name in plan.behind}
            gone = set(waits.deleted) - set(plan.lost)
            dated = {grave.memory: grave.written for grave in graves}
            for name in gone:
                known = held.get(name)
                at = dated.get(name, known.written if known else time.time())
                given[name] = outbox.buried(notes.get(name, ""), at)
            outbox.mark(connection, self._wire.key, given, plan.lost)
        done = Pushed(len(plan.send), len(plan.bury), plan.known, plan.ahead)
        return done, max(waits.changed, default=after)

    def _refuse_other_model(self, held: Iterable[Held]) -> None:
        """Another model's vectors are sent anew where they are ours; others' are left alone."""
        others = (one for one in held if one.model != self._model and not one.is_grave)
        if not self._is_alone and any(others):
            where = f"{self._wire.kind} at {self._wire.address}"
            raise EngineRefused(f"{where} holds vectors of another model.", hint=self._anew)

    def _begin(self, plan: _Plan) -> None:
        """Note what is about to be told: the server may hear it and the answer be lost."""
        told = {group[0].memory: group[0].hash for group in plan.send}
        with self._store.writing() as connection:
            outbox.begin(connection, self._wire.key, told | dict.fromkeys(plan.bury, ""))

    def _given(self, memories: Sequence[str]) -> dict[str, str]:
        with self._store.reading() as connection:
            return outbox.given(connection, self._wire.key, memories)

    def _waiting(self, most: int, after: int) -> outbox.Waiting:
        needs = bool(self._model)
        with self._store.reading() as connection:
            return outbox.waiting(
                connection, self._wire.key, most, needs_vectors=needs, after=after
            )

    def _lacking(self) -> int:
        with self._store.reading() as connection:
            return outbox.lacking(connection, self._wire.key) if self._model else 0

    def _settle(self) -> None:
        """Note what searches want to know: how much is there, and what all have in common."""
        # All that takes long is read before anyone is kept from writing.
        with self._store.reading() as connection:
            mean = locating.counted(connection, self._model) if self._model else None
        with self._store.writing() as connection:
            outbox.raise_floor(connection, self._wire.key)
            if mean is not None:
                locating.note_mean(connection, self._model, mean)


_COLLECTIONS: Final = "SELECT DISTINCT collection FROM memories"
_HERE: Final = (
    f"SELECT m.collection || '/' || m.file, {outbox.HASH}, m.written "  # noqa: S608 - our own words
    "FROM memories m"
)


class _Plan(NamedTuple):
    send: list[list[Piece]]
    bury: list[str]
    known: int
    ahead: int
    behind: list[str]  # that are here in an older version than there
    lost: list[str]  # that are deleted here, and someone has written anew there


def _plan(
    groups: Sequence[list[Piece]],
    deleted: Sequence[str],
    held: Mapping[str, Held],
    model: str,
    given: Mapping[str, str],
) -> _Plan:
    """What of all that waits the engine is to be told: the last writer of a memory wins."""
    send: list[list[Piece]] = []
    behind, known = [], 0
    for group in groups:
        first = group[0]
        found, note = held.get(first.memory), given.get(first.memory, "")
        if found and found.hash == first.hash:
            is_there = found.is_whole and found.model == model
            if is_there and not note.startswith(outbox.BEGUN):
                known += 1
            else:
                send.append(group)
        elif found and outbox.is_ours(note, found):
            send.append([_later(piece, found) for piece in group])
        elif wins(first.hash, first.written, found):
            send.append(group)
        else:
            behind.append(first.memory)
    bury, lost = _farewells(deleted, held, given)
    known += len(deleted) - len(bury) - len(lost)
    return _Plan(send, bury, known, len(behind) + len(lost), behind, lost)


def _farewells(
    deleted: Sequence[str], held: Mapping[str, Held], given: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Which deletions the engine is to be told of, and which someone has undone meanwhile."""
    bury, lost = [], []
    for name in deleted:
        found, note = held.get(name), given.get(name, "")
        if found is None or found.is_grave:
            if note.startswith(outbox.BEGUN):
                bury.append(name)
        elif outbox.is_ours(note, found):
            bury.append(name)
        else:  # someone has written it anew since we last told of it
            lost.append(name)
    return bury, lost


def _later(piece: Piece, held: Held | None) -> Piece:
    """The same, later than what it takes the place of, whatever clock or hand dated that."""
    return piece._replace(written=max(piece.written, held.written + 1)) if held else piece


def _grave(names: Names, memory: str, held: Held | None) -> Piece:
    """What is left of a deleted memory, so that no machine that still has it brings it back."""
    grave = Piece(
        id=names.piece(memory, GRAVE),
        memory=memory,
        place=GRAVE,
        pieces=1,
        collection=memory.rpartition("/")[0],
        type="",
        status="",
        tags=(),
        created=0.0,
        hash="",
        written=time.time(),
        digest="",
    )
    return _later(grave, held)


def _parts(groups: Sequence[list[Piece]]) -> Iterator[list[Piece]]:
    """Whole memories together, as many as go into one request."""
    part: list[Piece] = []
    for group in groups:
        if part and len(part) + len(group) > _PIECES:
            yield part
            part = []
        part += group
    if part:
        yield part
