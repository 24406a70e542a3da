"""The engines of the bank in force, looked after: how they are, what they lack, where to move."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from retain.config import setting
from retain.errors import Busy, RetainError, UsageError
from retain.index.engines import sync
from retain.index.engines.addresses import caution
from retain.index.engines.client import describe
from retain.index.engines.engine import Engine, EngineDown, EngineError, EngineRefused
from retain.index.engines.server import check_installed
from retain.index.engines.settings import (
    EMBEDDED,
    ENGINES,
    PARTS,
    TEXT,
    Engines,
    choose,
    given_name,
    is_name,
    own_name,
    parse_banks,
)
from retain.index.engines.sync import Delivery, Drift, Progress, Pushed, locked

if TYPE_CHECKING:
    import sqlite3

    from retain.app import App
    from retain.index.index import Index

_T = TypeVar("_T")

_STATUS_SECONDS: Final = 10.0  # who asks how an engine is would rather wait than not know
_BUSY_SECONDS: Final = 60.0  # that another process may take to deliver
_UNMOVED: Final = "Nothing has moved: searches are answered as before."
_NO_MODEL: Final = "none"  # by which vectors are removed where no model is set any more


class State(NamedTuple):
    """How one arm of the index is."""

    part: str
    kind: str  # the product, or EMBEDDED
    address: str = ""
    container: str = ""  # what holds the bank's documents there
    version: str = ""  # of the server; empty when it does not answer
    documents: int = 0  # that the server holds
    delivered: int = 0  # memories it was given
    waiting: int = 0  # memories it has yet to be given
    trouble: str = ""  # what went wrong last
    server_said: str = ""  # in its own words
    is_refused: bool = False  # it did answer, and would not

    @property
    def answer(self) -> str:
        """The server's version, or why there is none."""
        return self.version or ("refused" if self.is_refused else "no answer")


class Repaired(NamedTuple):
    """What a repair found, and what it left."""

    before: Drift
    after: Drift


class Remote:
    """The engines of one bank, and what can be done about them."""

    def __init__(self, app: App, index: Index) -> None:
        self._app, self._index = app, index

    @property
    def name(self) -> str:
        """What the bank is called on a server."""
        root = self._index.bank.root
        return given_name(self._app.latest_config(), root) or own_name(self._app.env, root)

    @property
    def in_use(self) -> list[str]:
        """The products that searches ask."""
        engines = self._index.engines
        deliveries = engines.deliveries.values() if engines else ()
        return list(dict.fromkeys(delivery.client.kind for delivery in deliveries))

    def check(self) -> Engines:
        """The engines; refused where there are none."""
        engines = self._index.engines
        if engines is None or not engines.deliveries:
            raise UsageError(
                "no part of this bank's index lives elsewhere",
                hint="`retain engine migrate --to qdrant` moves one; what lies on a server that is "
                "no longer asked is removed by `retain engine drop --from qdrant`.",
            )
        return engines

    def cautions(self, kind: str = "") -> list[str]:
        """What a person should know about the ways to the engines in use, or to one to be used."""
        config = self._app.latest_config()
        kinds = [kind] if kind else [config.text(f"engine.{part}") for part in PARTS]
        ways = [(one, config.text(f"engine.{one}.url")) for one in kinds if one in ENGINES]
        if "postgres" in kinds:
            ways.append(("postgres", config.text("engine.postgres.read_url")))
        unsafe = dict.fromkeys(filter(None, (caution(*way) for way in ways)))
        # A slip of the pen in the environment is ignored, and would be noticed by nobody.
        ignored = [warning for warning in config.warnings if "engine." in warning]
        missing = [
            f"engine.banks: {name} is to be {path}, and there is nothing"
            for name, path in parse_banks(config.text("engine.banks"))
            if not os.path.isdir(path)
        ]
        return [*ignored, *unsafe, *missing]

    def contradictions(self, kind: str, only: str = "") -> list[str]:
        """The variables of the environment that keep a move from taking effect."""
        variables = [setting(f"engine.{part}").variable for part in moving(kind, only)]
        env = self._app.env
        return [
            f"{variable} in the environment says {env[variable]}"
            for variable in variables
            if env.get(variable, kind) != kind
        ]

    def status(self, *, is_asked: bool = True) -> list[State]:
        """Each arm; without `is_asked` only what is known here is told, and no server is asked."""
        if is_asked:
            self._index.refresh()
        engines = self._index.engines
        deliveries = engines.deliveries if engines else {}
        return [
            self._state(deliveries[part], is_asked) if part in deliveries else State(part, EMBEDDED)
            for part in PARTS
        ]

    def _state(self, delivery: Delivery, is_asked: bool) -> State:
        client = delivery.client

        def look(connection: sqlite3.Connection) -> State:
            query = "SELECT count(*) FROM memories WHERE NOT is_gone"
            (memories,) = connection.execute(query).fetchone()
            waiting = len(sync.waiting(connection, client.key))
            failure = sync.failure(connection, client.key)
            why = f"the last delivery failed: {failure}" if failure else ""
            where = (client.part, client.kind, client.address, client.container)
            return State(*where, delivered=memories - waiting, waiting=waiting, trouble=why)

        state = self._index.look(look)
        if not is_asked:
            return state
        try:
            version, count = client.call(_examine, _STATUS_SECONDS)
        except EngineError as error:
            return state._replace(
                trouble=describe(error),
                server_said=error.words,
                is_refused=isinstance(error, EngineRefused),
            )
        return state._replace(version=version, documents=count)

    def push(
        self,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
        progress: Progress | None = None,
        seconds: float = _BUSY_SECONDS,
    ) -> dict[str, Pushed]:
        """Deliver what waits to every engine; a failure of one does not keep the others waiting."""
        self._index.has_news = False
        engines = self.check()

        def is_over() -> bool:  # also where the person has chosen others meanwhile
            return is_stopped() or self._index.engines is not engines

        return _each(
            engines,
            lambda delivery: delivery.push(is_stopped=is_over, progress=progress, seconds=seconds),
        )

    def verify(self) -> dict[str, Drift]:
        """Compare the ids on every server with those of the bank."""
        self._index.refresh()
        return _each(self.check(), Delivery.verify)

    def repair(
        self, progress: Progress | None = None, *, is_mine: bool = False
    ) -> dict[str, Repaired]:
        """Send what lacks, and remove what no file here has.

        What other machines may have put there stays, unless `is_mine`.
        """
        self._index.refresh()

        def repair(delivery: Delivery) -> Repaired:
            before = delivery.verify()
            delivery.push(progress=progress, seconds=_BUSY_SECONDS, compare=True, is_mine=is_mine)
            return Repaired(before, delivery.verify())

        return _each(self.check(), repair)

    def drop(self, kind: str = "", name: str = "") -> int:
        """Remove everything of this bank from its engines, or from one that it had before.

        With a name, what lies there under that one. The files and the index stay.
        """
        if name and not is_name(name):
            raise UsageError(f"{name[:80]!r} is no name that a bank could have on a server")
        if not kind:
            self.check()
        engines = self._choose(kind, ENGINES.get(kind, {}), name, self._model or _NO_MODEL)
        try:
            with locked(self._index.database, _BUSY_SECONDS) as is_ours:
                if not is_ours:  # whoever delivers would fill it again
                    raise Busy(
                        "another process delivers just now",
                        unchanged="Nothing was removed.",
                        hint="Run it again in a while.",
                    )
                return sum(_each(engines, Delivery.drop).values())
        finally:
            engines.close()

    def migrate(
        self, kind: str, progress: Progress | None = None, only: str = ""
    ) -> dict[str, Pushed]:
        """Move arms, or one of them, to another product: filled and compared first, then chosen."""
        parts = moving(kind, only)
        pushed: dict[str, Pushed] = {}
        if kind != EMBEDDED:
            self._index.refresh()
            engines = self._choose(kind, parts, "", self._model)
            try:
                pushed = {part: _fill(engines, part, progress) for part in parts}
            except EngineError as error:
                error.unchanged = _UNMOVED
                if isinstance(error, EngineDown):
                    error.hint = f"Is it running? `retain config get engine.{kind}.url` says where."
                raise
            finally:
                engines.close()
        for part in parts:
            self._app.own.set_config(setting(f"engine.{part}"), kind)
        return pushed

    @property
    def _model(self) -> str:
        embedder = self._index.embedder
        return embedder.name if embedder else ""

    def _choose(self, kind: str, parts: object, name: str, model: str) -> Engines:
        """The engines as they would be with one product for some parts, or as they are set."""
        config = self._app.latest_config()
        if kind:
            values = dict(config.values)
            for part in PARTS:
                value = kind if part in parts else EMBEDDED  # type: ignore[operator]
                values[f"engine.{part}"] = values[f"engine.{part}"]._replace(value=value)
            config = config._replace(values=values)
        root, database = self._index.bank.root, self._index.database
        return choose(config, self._app.env, root, database, model, name=name)


def moving(kind: str, only: str) -> tuple[str, ...]:
    """The arms that a move is about; refused where they cannot move there."""
    parts = PARTS if kind == EMBEDDED else tuple(ENGINES[kind])
    if only and only not in parts:
        others = ", ".join(name for name in sorted(ENGINES) if only in ENGINES[name])
        raise UsageError(
            f"{kind} has no part for {'words' if only == TEXT else 'vectors'}",
            unchanged="Nothing was moved.",
            hint=f"These have: {others}.",
        )
    if kind != EMBEDDED:
        check_installed(kind)
    return (only,) if only else parts


def _fill(engines: Engines, part: str, progress: Progress | None) -> Pushed:
    """Give a server all there is, without asking any model again."""
    if part not in engines.deliveries:
        raise UsageError(
            "there are no vectors to move: recall.embedder is none",
            unchanged="Nothing was moved.",
        )
    delivery = engines.deliveries[part]
    pushed = delivery.push(progress=progress, seconds=_BUSY_SECONDS, compare=True)
    drift = delivery.verify().total
    if drift:
        raise RetainError(
            f"{delivery.client.kind} still differs from the bank in {drift} places",
            unchanged="The settings were left as they are.",
            hint="Run it again; it goes on where it stopped.",
        )
    return pushed


def _examine(engine: Engine) -> tuple[str, int]:
    return engine.version(), engine.count()


def _each(engines: Engines, work: Callable[[Delivery], _T]) -> dict[str, _T]:
    """Do something with every engine; the first failure is raised when all have had their turn."""
    found: dict[str, _T] = {}
    failure: EngineError | None = None
    for part, delivery in engines.deliveries.items():
        try:
            found[part] = work(delivery)
        except EngineError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return found
