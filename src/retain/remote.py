"""The engines of the bank in force, looked after: how they are, what they lack, where to move."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from retain.errors import Busy, RetainError, UsageError
from retain.index.engines import looking, outbox
from retain.index.engines.arm import EngineDown, EngineError
from retain.index.engines.checking import Drift, compared
from retain.index.engines.choosing import EMBEDDED, KINDS, TEXT, VECTOR, Engines, chosen
from retain.index.engines.delivery import Pushed, mistrust, turn
from retain.index.engines.naming import is_identity
from retain.index.engines.packages import check_installed

if TYPE_CHECKING:
    import sqlite3

    from retain.app import App
    from retain.config import Config
    from retain.index.engines.arm import Arm
    from retain.index.engines.choosing import Maker
    from retain.index.engines.wire import Trouble, Wire
    from retain.index.index import Index


_PARTS: Final = (TEXT, VECTOR)
_STATUS: Final = 10.0  # seconds: who asks how an engine is would rather wait than not know
_LONG: Final = 600.0  # seconds until a server has removed everything
_OTHERS: Final = 60.0  # seconds that another process may take to deliver
_ANEW: Final = 3600.0  # seconds that may pass while a server builds its graphs anew
_UNMOVED: Final = "Nothing has moved: searches are answered as before."


class State(NamedTuple):
    """How one arm is."""

    part: str
    kind: str  # the product, or EMBEDDED
    address: str = ""
    version: str = ""  # of the server; empty when it does not answer
    pieces: int = 0  # that the server holds
    delivered: int = 0  # memories it was given
    waiting: int = 0  # memories it has yet to be told of
    trouble: Trouble | None = None
    otherwise: tuple[str, ...] = ()  # what is made otherwise there than the settings want
    ahead: int = 0  # memories of which the server holds something newer, as far as is known
    has_lost: bool = False  # something of what it was told

    @property
    def answers(self) -> str:
        """The server's version, or why there is none."""
        is_refused = self.trouble is not None and self.trouble.is_refusal
        return self.version or ("refused" if is_refused else "no answer")


class _Model(NamedTuple):
    """A model by its name alone."""

    name: str
    dimension: int = 0


# Vectors that some model made lie on a server whether or not there is a model now. To remove them
# none is asked, and the name only tells apart what is noted.
_NO_MODEL: Final = _Model("none")


class Mended(NamedTuple):
    """What a repair found, and what it left."""

    before: Drift
    after: Drift
    replaced: tuple[str, ...] = ()  # that were newer there, or deleted there


class Remote:
    """The arms of one bank that live elsewhere, and what can be done about them."""

    def __init__(self, app: App, bank: Index) -> None:
        self._app, self._bank = app, bank

    @property
    def identity(self) -> str:
        """What the bank is called on a server."""
        from retain.index.engines.choosing import identity

        return identity(self._app.latest_config(), self._bank.bank.root)

    @property
    def is_any(self) -> bool:
        return self._bank.engines is not None

    @property
    def in_use(self) -> list[str]:
        """The products that searches ask."""
        engines = self._bank.engines
        return list(dict.fromkeys(one.kind for one in engines.wires.values())) if engines else []

    @property
    def told(self) -> list[str]:
        """Those of them that were given anything from this machine, and may still have it."""
        engines = self._bank.engines
        wires = engines.wires.values() if engines else ()
        return list(dict.fromkeys(one.kind for one in wires if self._told(one)[0]))

    def cautions(self, kind: str = "") -> list[str]:
        """What a person should know about the ways to the engines in use, or to one to be used."""
        from retain.index.engines.addresses import caution

        config = self._app.latest_config()
        kinds = [kind] if kind else [config.text(f"engine.{part}") for part in _PARTS]
        ways = [(one, config.text(f"engine.{one}.url")) for one in kinds if one in KINDS]
        if "postgres" in kinds:
            ways.append(("postgres", config.text("engine.postgres.read_url")))
        found = [caution(*way) for way in ways]
        # A slip of the pen in the environment is ignored, and would be noticed by nobody.
        ignored = [one for one in config.warnings if "engine." in one]
        return [*ignored, *dict.fromkeys(filter(None, found)), *self._misnamed()]

    def _misnamed(self) -> list[str]:
        """The named banks that are not there: a slip in a path leaves a bank without its name."""
        from retain.index.engines.naming import banks

        named = banks(self._app.latest_config().text("engine.banks"))
        return [
            f"engine.banks: {name} is to be {path}, and there is nothing"
            for name, path in named
            if not os.path.isdir(path)
        ]

    def former(self) -> list[tuple[str, str]]:
        """Names that the bank had before on servers that are still known, each with the product.

        It had another one before its folder was moved, or before it was given a name.
        """
        from retain.index.engines.addresses import place

        config, here = self._app.latest_config(), self.identity
        found = {}
        for target in self._bank.look(outbox.servers).values():
            kind, where, name = target.split(" ")[:3]
            if name != here and where == place(config.text(f"engine.{kind}.url")):
                found[kind, name] = True
        return list(found)

    def contradicted(self, kind: str, only: str = "") -> list[str]:
        """The variables of the environment that keep a move from taking effect."""
        from retain.config import setting

        variables = [setting(f"engine.{part}").variable for part in moving(kind, only)]
        env = self._app.env
        return [
            f"{one} in the environment says {env[one]}"
            for one in variables
            if env.get(one, kind) != kind
        ]

    def status(self) -> list[State]:
        """Each arm; a server is asked for its version, within a person's patience."""
        self._bank.refresh()
        engines = self._bank.engines
        wires = engines.wires if engines else {}
        begun = {part: self._state(part, wires.get(part)) for part in _PARTS}
        return [state() for state in begun.values()]  # both are asked: who waits, waits once

    def glance(self) -> list[State]:
        """The arms that live elsewhere, with what is known of them; they are asked but briefly."""
        engines = self._bank.engines
        return [self._seen(*one) for one in engines.wires.items()] if engines else []

    def _seen(self, part: str, wire: Wire[Arm]) -> State:
        version = ""
        with contextlib.suppress(EngineError):  # the wire has noted why
            version = wire.ask(lambda arm: arm.version())()
        given, waits = self._told(wire)
        trouble = wire.trouble() or wire.delivery()
        return State(part, wire.kind, wire.address, version, 0, given, waits, trouble)

    def _told(self, wire: Wire[Arm]) -> tuple[int, int]:
        """How many memories a server was told of, and of how many it has yet to be."""

        def count(connection: sqlite3.Connection) -> tuple[int, int]:
            if outbox.is_met(connection, wire.key):
                return outbox.told(connection, wire.key), outbox.left(connection, wire.key)
            query = "SELECT count(*) FROM memories WHERE NOT is_gone"
            return 0, int(connection.execute(query).fetchone()[0])

        return self._bank.look(count)

    def _state(self, part: str, wire: Wire[Arm] | None) -> Callable[[], State]:
        if wire is None:
            return lambda: State(part, EMBEDDED)
        some = self._bank.look(partial(looking.witnesses, arm=wire.key))
        asking = wire.insisting(partial(_about, some=some), _STATUS)
        return lambda: self._answered(part, wire, asking)

    def _answered(self, part: str, wire: Wire[Arm], asking: Callable[[], _About]) -> State:
        about = _About()
        with contextlib.suppress(EngineError):  # the wire has noted why
            about = asking()
        given, waits = self._told(wire)
        if about.has_lost:
            with self._bank.database.writing() as connection:
                mistrust(connection, wire.key)
        return State(
            part,
            wire.kind,
            wire.address,
            about.version,
            about.pieces,
            given,
            waits,
            wire.trouble() or _past(wire.delivery()),
            about.otherwise,
            self._bank.look(partial(outbox.ahead, arm=wire.key)),
            about.has_lost,
        )

    def push(
        self,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] | None = None,
        patience: float = _OTHERS,
    ) -> dict[str, Pushed]:
        """Deliver what waits to every engine; a failure of one does not keep the others waiting."""
        self._bank.has_news = False  # so that nobody else is sent off for it
        return _each(
            self._needed,
            lambda engines, part: engines.senders[part].push(
                is_stopped=lambda: is_stopped() or self._has_left(engines),
                progress=progress,
                patience=patience,
            ),
        )

    def _has_left(self, engines: Engines) -> bool:
        """Whether the person has chosen others meanwhile: these are told nothing more."""
        return self._bank.engines is not engines

    def waiting(self) -> int:
        """How many changes engines have yet to be told of, those without vectors among them."""
        return sum(sender.left for sender in self._needed.senders.values())

    def check(self) -> None:
        """Refuse where nothing lives elsewhere, before any work is done."""
        _ = self._needed

    @property
    def _needed(self) -> Engines:
        engines = self._bank.engines
        if engines is None or not engines.senders:
            raise UsageError(
                "no part of this bank's index lives elsewhere",
                hint="`retain engine migrate --to qdrant` moves one; what lies on a server that is "
                "no longer asked is removed by `retain engine drop --from qdrant`.",
            )
        return engines

    def verify(self) -> dict[str, Drift]:
        """Compare every engine's manifest with the bank."""
        self._bank.refresh()
        return _each(self._needed, self._drift)

    def _drift(self, engines: Engines, part: str) -> Drift:
        held = engines.senders[part].manifest()
        return self._bank.look(
            partial(
                compared,
                arm=engines.wires[part].key,
                held=held,
                model=self._model(part),
                is_alone=engines.is_alone,
            )
        )

    def _model(self, part: str) -> str:
        embedder = self._bank.embedder if part == VECTOR else None
        return embedder.name if embedder else ""

    def repair(
        self, progress: Callable[[int, int], None] | None = None, *, is_mine: bool = False
    ) -> dict[str, Mended]:
        """Tell every engine again what it is wrong about; what is newer there too, if told so.

        What was made otherwise than the settings want is changed as well, and old marks go.
        """
        self._bank.refresh()
        return _each(
            self._needed, lambda engines, part: self._mended(engines, part, progress, is_mine)
        )

    def _mended(
        self,
        engines: Engines,
        part: str,
        progress: Callable[[int, int], None] | None,
        is_mine: bool,
    ) -> Mended:
        before = self._drift(engines, part)
        if before.total:
            # What is deleted here stays noted: by that note it is known to have been here.
            engines.senders[part].forget([*before.missing, *before.differing])
            engines.senders[part].claim(before.undead)
        if is_mine:
            engines.senders[part].claim(before.ahead)
        engines.wires[part].insist(lambda arm: arm.adapt(), _ANEW)
        engines.senders[part].push(
            is_stopped=lambda: self._has_left(engines), progress=progress, patience=_OTHERS
        )
        engines.senders[part].prune()
        after = self._drift(engines, part)
        left = {*after.ahead} if is_mine else {*before.ahead}
        return Mended(before, after, tuple(name for name in before.ahead if name not in left))

    def drop(self, kind: str = "", name: str = "") -> int:
        """Remove everything of this bank from its engines, or from one that it had before.

        With a name, what lies there under that one. The files and the index stay. Tells how many
        pieces there were.
        """
        in_use = None if kind else self._needed
        if in_use and self._bank.embedder:
            return self._drop(in_use)
        if name and not is_identity(name):
            raise UsageError(f"{name[:80]!r} is no name that a bank could have on a server")
        model = self._bank.embedder or _NO_MODEL
        if in_use:  # and beside it the vectors that nobody can ask for without a model
            engines = self._made(self._app.latest_config(), model)
        else:
            engines = self._as_if(kind, KINDS[kind], model, name)
        try:
            return self._drop(engines)
        finally:
            engines.close()

    def _drop(self, engines: Engines) -> int:
        found = 0
        store = self._bank.database
        with turn(store, _OTHERS) as is_ours:  # else whoever delivers would fill it again
            if not is_ours:
                raise Busy(
                    "another process delivers just now",
                    unchanged="Nothing was removed.",
                    hint="Run it again in a while; `retain engine migrate --to sqlite` ends that.",
                )
            for wire in engines.wires.values():
                found += wire.insist(_dropped, _LONG)
                with store.writing() as connection:
                    for arm in {wire.key, *outbox.namesakes(connection, wire.part, wire.target)}:
                        outbox.forget(connection, arm)
        return found

    def migrate(
        self, kind: str, progress: Callable[[int, int], None] | None = None, only: str = ""
    ) -> dict[str, Pushed]:
        """Move arms, or one of them, to another product: filled and compared first, then chosen."""
        parts = moving(kind, only)
        done: dict[str, Pushed] = {}
        if kind != EMBEDDED:
            try:
                done = self._filled(kind, parts, progress)
            except EngineError as error:
                error.unchanged = _UNMOVED
                if isinstance(error, EngineDown):
                    error.hint = f"Is it running? `retain config get engine.{kind}.url` says where."
                raise
        for part in parts:
            self._choose(part, kind)
        return done

    def _filled(
        self, kind: str, parts: tuple[str, ...], progress: Callable[[int, int], None] | None
    ) -> dict[str, Pushed]:
        """Give a server all there is, without asking any model again."""
        self._bank.refresh()
        engines = self._as_if(kind, parts, self._bank.embedder)
        done = {}
        try:
            for part in parts:
                if part not in engines.senders:
                    raise UsageError(
                        "there are no vectors to move: recall.embedder is none",
                        unchanged="Nothing was moved.",
                    )
                done[part] = engines.senders[part].push(progress=progress, patience=_OTHERS)
                drift = self._drift(engines, part)
                if drift.total:
                    raise RetainError(
                        f"{kind} still differs from the bank in {drift.total} memories",
                        unchanged="The settings were left as they are.",
                        hint="Run it again; it goes on where it stopped.",
                    )
        finally:
            engines.close()
        return done

    def _as_if(
        self, kind: str, parts: tuple[str, ...], model: Maker | None, name: str = ""
    ) -> Engines:
        """The engines as they would be; the others stay embedded meanwhile."""
        config = self._app.latest_config()
        values = dict(config.values)
        for part in _PARTS:
            key = f"engine.{part}"
            values[key] = values[key]._replace(value=kind if part in parts else EMBEDDED)
        return self._made(config._replace(values=values), model, name)

    def _made(self, config: Config, model: Maker | None, name: str = "") -> Engines:
        env, root = self._app.env, self._bank.bank.root
        return chosen(config, env, root, self._bank.database, model, name=name)

    def _choose(self, part: str, kind: str) -> None:
        from retain.config import setting

        self._app.own.set_config(setting(f"engine.{part}"), kind)


def _past(trouble: Trouble | None) -> Trouble | None:
    """What kept a delivery from its end, told as what was: the server may be well by now."""
    if trouble is None:
        return None
    why = f"the last delivery failed: {trouble.why} `retain engine push` tries it again."
    return trouble._replace(why=why)


class _About(NamedTuple):
    version: str = ""
    pieces: int = 0
    has_lost: bool = False  # something of what it was told
    otherwise: tuple[str, ...] = ()


def moving(kind: str, only: str) -> tuple[str, ...]:
    """The arms that a move is about; refused where they cannot move there."""
    parts = _PARTS if kind == EMBEDDED else KINDS[kind]
    if only and only not in parts:
        raise UsageError(
            f"{kind} has no part for {'words' if only == TEXT else 'vectors'}",
            unchanged="Nothing was moved.",
            hint=f"These have: {', '.join(one for one in sorted(KINDS) if only in KINDS[one])}.",
        )
    try:
        check_installed(kind)
    except EngineError as error:
        error.unchanged = _UNMOVED
        raise
    return (only,) if only else parts


def _about(arm: Arm, some: Mapping[str, tuple[str, float]]) -> _About:
    from retain.index.engines.arm import EngineRefused, Sieve

    version, pieces = arm.version(), arm.count(Sieve())
    has_lost = bool(some) and looking.has_lost(some, arm.held(list(some)))
    try:
        return _About(version, pieces, has_lost, tuple(arm.otherwise()))
    except EngineRefused:  # a key need not open what only says how things are made
        return _About(version, pieces, has_lost)


def _dropped(arm: Arm) -> int:
    """How many pieces there were."""
    from retain.index.engines.arm import Sieve

    found = arm.count(Sieve())
    arm.drop()
    return found


_Outcome = TypeVar("_Outcome")


def _each(engines: Engines, work: Callable[[Engines, str], _Outcome]) -> dict[str, _Outcome]:
    """Do something with every arm; the first failure is raised when all have had their turn."""
    found: dict[str, _Outcome] = {}
    failure: EngineError | None = None
    for part in engines.senders:
        try:
            found[part] = work(engines, part)
        except EngineError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return found
