"""Which engines a person has chosen for a bank, and under which name the bank is known there.

A project's config has no say in this: a repository must not send anybody's memories anywhere, nor
give itself the name of another bank.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from retain.errors import RetainError
from retain.index import database
from retain.index.engines import machine
from retain.index.engines.addresses import has_password, hello, place
from retain.index.engines.arm import Arm, TextArm, VectorArm
from retain.index.engines.delivery import Sender
from retain.index.engines.naming import Names, banks, standing
from retain.index.engines.wire import Wire

if TYPE_CHECKING:
    from retain.config import Config
    from retain.index.database import Database
    from retain.index.engines.postgres import Replica


EMBEDDED: Final = "sqlite"
TEXT: Final = "text"
VECTOR: Final = "vector"
_SCALE: Final = 4  # bytes after a stored vector that say how large its numbers are


_Settings = TypeVar("_Settings")


class Engines(NamedTuple):
    """The arms of one bank that live elsewhere; None for one that is embedded."""

    names: Names
    text: Wire[TextArm] | None
    vector: Wire[VectorArm] | None
    senders: Mapping[str, Sender]
    is_alone: bool = False  # no other machine can know what the bank is called there

    @property
    def wires(self) -> dict[str, Wire[Arm]]:
        """Those that there are, by what they are for."""
        found: dict[str, Wire[Arm] | None] = {TEXT: self.text, VECTOR: self.vector}  # type: ignore[dict-item]
        return {part: wire for part, wire in found.items() if wire is not None}

    def leave(self) -> None:
        """Have nobody wait for a server any longer: the program ends."""
        for wire in self.wires.values():
            wire.leave()

    def close(self) -> None:
        """Let go of every connection as soon as nothing is asked through it."""
        for wire in self.wires.values():
            wire.close()


def identity(config: Config, root: str) -> str:
    """The name of a bank on servers: the one a person gave it, else one that nobody can guess."""
    return _given_name(config, root) or _own_name(root)


def _given_name(config: Config, root: str) -> str:
    here = standing(root)
    return next((name for name, path in banks(config.text("engine.banks")) if path == here), "")


def _own_name(root: str) -> str:
    real = os.path.realpath(root)
    return "b" + machine.digest(b"engine", os.fsencode(real))[:16]


class Maker(Protocol):
    """The model that vectors come from; neither of these has it loaded."""

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...


def chosen(
    config: Config,
    env: Mapping[str, str],
    root: str,
    store: Database,
    model: Maker | None,
    *,
    name: str = "",
) -> Engines:
    """The engines of a bank as a person has set them; `name` is one that it had there before."""
    given = name or _given_name(config, root)
    name = given or _own_name(root)
    names = Names(name)
    patience = _patience(config)
    way = _Way(config, env, names, lambda: _dimension(store, model), store)

    def wire(part: str, kind: str, vectors_of: str) -> Wire[Arm]:
        def make(patience: float) -> Arm:
            return _MAKERS[part, kind](way, patience)

        address = config.text(f"engine.{kind}.url")
        target = " ".join(filter(None, (kind, place(address), name, vectors_of)))
        hint = _key_hint(config, env, kind)
        return Wire(part, target, make, store, patience, hello(address), key_hint=hint)

    text = vector = None
    senders = {}
    if (kind := config.text("engine.text")) != EMBEDDED:
        text = wire(TEXT, kind, "")
        senders[TEXT] = Sender(store, text, names, is_alone=not given, root=root)
    if (kind := config.text("engine.vector")) != EMBEDDED and model is not None:
        vector = wire(VECTOR, kind, model.name)
        senders[VECTOR] = Sender(store, vector, names, model.name, is_alone=not given, root=root)
    return Engines(names, text, vector, senders, not given)  # type: ignore[arg-type]


def _dimension(store: Database, model: Maker | None) -> int:
    """How long vectors are: as those that are there, before a model far away is asked for one."""
    if model is None:
        return 0
    query = "SELECT length(vector) FROM vectors WHERE model = ? LIMIT 1"
    with store.reading() as connection:
        row = connection.execute(query, (model.name,)).fetchone()
    return int(row[0]) - _SCALE if row else model.dimension


def _patience(config: Config) -> float:
    return config.number("engine.patience_ms") / 1000


def _key(config: Config, env: Mapping[str, str], kind: str) -> str:
    """The key to a server, from the environment variable that a setting names."""
    return env.get(config.text(f"engine.{kind}.key_env"), "")


def _key_hint(config: Config, env: Mapping[str, str], kind: str) -> str:
    """What to do where a server does not take the key; the variable is named, never its value."""
    variable = config.text(f"engine.{kind}.key_env")
    if kind == "postgres" and has_password(config.text("engine.postgres.url")):
        return f"Is the password in engine.postgres.url right? It goes before {variable}."
    if not env.get(variable):
        return (
            f"Set {variable} in the environment; engine.{kind}.key_env can name another variable."
        )
    return f"Is what {variable} holds right, and may it be used for this?"


def _settings(config: Config, kind: str, made: type[_Settings]) -> _Settings:
    """A product's settings: what can be set is, and the rest is as the adapter would have it."""
    prefix = f"engine.{kind}."
    fields = {
        key.removeprefix(prefix): one.value
        for key, one in config.values.items()
        if key.startswith(prefix) and key.removeprefix(prefix) in made._fields  # type: ignore[attr-defined]
    }
    return made(**fields)


class _Way(NamedTuple):
    """What every adapter is made from."""

    config: Config
    env: Mapping[str, str]
    names: Names
    dimension: Callable[[], int]
    store: Database

    def address(self, kind: str) -> tuple[str, str]:
        return self.config.text(f"engine.{kind}.url"), _key(self.config, self.env, kind)


def _qdrant(way: _Way, patience: float) -> Arm:
    from retain.index.engines.qdrant import QdrantSettings, QdrantVectors

    return QdrantVectors(
        *way.address("qdrant"),
        way.names,
        patience=patience,
        dimension=way.dimension(),
        settings=_settings(way.config, "qdrant", QdrantSettings),
    )


def _upstash(way: _Way, patience: float) -> Arm:
    from retain.index.engines.upstash import UpstashVectors

    return UpstashVectors(
        *way.address("upstash"), way.names, patience=patience, dimension=way.dimension()
    )


def _meilisearch(way: _Way, patience: float) -> Arm:
    from retain.index.engines.meilisearch import MeilisearchText

    return MeilisearchText(*way.address("meilisearch"), way.names, patience=patience)


class _Kept(NamedTuple):
    """A mark that is kept in the bank's own index."""

    store: Database
    part: str

    def read(self) -> str:
        with self.store.reading() as connection:
            return str(database.fact(connection, self._name) or "")

    def note(self, place: str) -> None:
        # Where the index cannot be written nothing was delivered either.
        with suppress(RetainError), self.store.writing() as connection:
            database.set_fact(connection, self._name, place)

    @property
    def _name(self) -> str:
        return f"engine:{self.part}:mark"


def _replica(way: _Way, part: str) -> Replica | None:
    from retain.index.engines.postgres import Replica

    address = way.config.text("engine.postgres.read_url")
    return Replica(address, _Kept(way.store, part)) if address else None


def _postgres_text(way: _Way, patience: float) -> Arm:
    from retain.index.engines.postgres import PostgresSettings, PostgresText

    return PostgresText(
        *way.address("postgres"),
        way.names,
        patience=patience,
        settings=_settings(way.config, "postgres", PostgresSettings),
        replica=_replica(way, TEXT),
    )


def _postgres_vectors(way: _Way, patience: float) -> Arm:
    from retain.index.engines.postgres import PostgresSettings, PostgresVectors

    return PostgresVectors(
        *way.address("postgres"),
        way.names,
        patience=patience,
        dimension=way.dimension(),
        settings=_settings(way.config, "postgres", PostgresSettings),
        replica=_replica(way, VECTOR),
    )


_MAKERS: Final[Mapping[tuple[str, str], Callable[[_Way, float], Arm]]] = {
    (TEXT, "meilisearch"): _meilisearch,
    (TEXT, "postgres"): _postgres_text,
    (VECTOR, "postgres"): _postgres_vectors,
    (VECTOR, "qdrant"): _qdrant,
    (VECTOR, "upstash"): _upstash,
}
# What each product can be, in the order in which it is filled.
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    kind: tuple(part for part, name in _MAKERS if name == kind)
    for kind in ("qdrant", "upstash", "meilisearch", "postgres")
}
