"""Which engines a person has chosen for a bank, and under which name the bank is known there.

A project's config has no say in this: a repository must not send anybody's memories anywhere, nor
give itself the name of another bank.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.errors import ConfigError
from retain.index.engines.addresses import parse, place
from retain.index.engines.client import Client
from retain.index.engines.server import Server
from retain.index.engines.sync import Delivery
from retain.locate import make_private_directory, state_home

if TYPE_CHECKING:
    from retain.config import Config
    from retain.index.database import Database
    from retain.index.engines.engine import Engine

EMBEDDED: Final = "sqlite"
TEXT: Final = "text"
VECTOR: Final = "vector"
PARTS: Final = (TEXT, VECTOR)
_FOLDER: Final = ".retain"
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9_-]{0,22}[a-z0-9])?")
_KEY_BYTES: Final = 32


# Each product, and the class that is each part; another one is a module of its own and a line here.
ENGINES: Final[Mapping[str, Mapping[str, str]]] = {
    "qdrant": {VECTOR: "Qdrant"},
    "upstash": {VECTOR: "Upstash"},
    "meilisearch": {TEXT: "Meilisearch"},
    "postgres": {TEXT: "PostgresText", VECTOR: "PostgresVectors"},
}


def make_engine(server: Server, part: str) -> Engine:
    """An engine of a product; this loads its client, which takes up to two seconds."""
    server.check()
    module = import_module(f"retain.index.engines.{server.kind}")
    engine: Engine = getattr(module, ENGINES[server.kind][part])(server)
    return engine


class Engines(NamedTuple):
    """The engines of one bank, by what they are for."""

    bank: str  # what the bank is called on servers
    is_shared: bool  # a person named it so, and other machines may fill the same copy
    deliveries: Mapping[str, Delivery]

    def close(self) -> None:
        """Have nobody wait for a server any longer, and let go of connections."""
        for delivery in self.deliveries.values():
            delivery.client.close()


def choose(
    config: Config,
    env: Mapping[str, str],
    root: str,
    database: Database,
    model: str,
    *,
    name: str = "",
) -> Engines:
    """The engines of a bank as a person has set them.

    `model` made the vectors, empty where there are none; `name` is one that the bank had before.
    """
    given = name or given_name(config, root)
    bank = given or own_name(env, root)
    deliveries = {}
    for part in PARTS:
        kind = config.text(f"engine.{part}")
        if kind == EMBEDDED or (part == VECTOR and not model):
            continue
        container = f"{bank}-retain"
        if part == VECTOR:  # models are kept apart: their vectors differ in length and meaning
            container += f"-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
        url = config.text(f"engine.{kind}.url")
        client = Client(
            part,
            kind,
            place(url),
            container,
            partial(_make, config, env, (part, kind, container), database.directory),
            config.number("engine.patience_ms") / 1000,
        )
        of_model = model if part == VECTOR else ""
        deliveries[part] = Delivery(database, client, bank, of_model, is_shared=bool(given))
    return Engines(bank, bool(given), deliveries)


def _make(
    config: Config,
    env: Mapping[str, str],
    target: tuple[str, str, str],
    notes: str,
    seconds: float,
) -> Engine:
    part, kind, container = target
    url, variable = config.text(f"engine.{kind}.url"), config.text(f"engine.{kind}.key_env")
    key = env.get(variable, "")
    hint = f"Is what {variable} holds right, and may it be used for this?"
    if kind == "postgres" and any(address.password for address in parse(url)):
        hint = f"Is the password in engine.postgres.url right? It goes before {variable}."
    elif not key:
        hint = f"Set {variable} in the environment; engine.{kind}.key_env can name another."
    server = Server(
        kind,
        url,
        key,
        container,
        seconds=seconds,
        settings=product_settings(config, kind),
        key_hint=hint,
        notes=notes,
    )
    return make_engine(server, part)


def product_settings(config: Config, kind: str) -> dict[str, Any]:
    """What a person has set about a product."""
    prefix = f"engine.{kind}."
    return {
        key.removeprefix(prefix): setting.value
        for key, setting in config.values.items()
        if key.startswith(prefix)
    }


# What a bank is called


def is_name(name: str) -> bool:
    """Whether a bank may be called so: letters, digits and dashes, as every server takes them."""
    # Else one bank's containers could begin like another's.
    return _NAME.fullmatch(name) is not None and "-retain-" not in f"-{name}-"


def given_name(config: Config, root: str) -> str:
    """The name that a person gave a bank, if they gave it one."""
    here = _standing(root)
    named = parse_banks(config.text("engine.banks"))
    return next((name for name, path in named if path == here), "")


def own_name(env: Mapping[str, str], root: str) -> str:
    """A name for a bank that nobody gave one: nobody can guess it, and no two machines share it."""
    path = os.fsencode(os.path.realpath(root))
    return "b" + hmac.new(_machine_key(env), path, "sha256").hexdigest()[:16]


def _machine_key(env: Mapping[str, str]) -> bytes:
    """The key of this machine, in the person's own state directory; made when it is needed."""
    directory = state_home(env)
    path, draft = (os.path.join(directory, name) for name in ("machine.key", f".{os.getpid()}.key"))
    if not os.path.exists(path):
        with contextlib.suppress(OSError):
            make_private_directory(directory)
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(os.urandom(_KEY_BYTES))
            try:
                os.link(draft, path)  # whole, and never over another one: several may try
            finally:
                os.unlink(draft)
    try:
        with open(path, "rb") as file:
            return file.read(_KEY_BYTES)
    except OSError:
        return b""


def parse_banks(text: str) -> list[tuple[str, str]]:
    """The banks that a person has named, as `engine.banks` has them: each name with a path."""
    banks: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, path = map(str.strip, part.partition("="))
        path = os.path.expanduser(path)
        why = ""
        if not is_name(name):
            why = "A name is of small letters, digits and single dashes."
        # A path from where one happens to be would give any repository the name of this bank.
        elif not os.path.isabs(path) or ";" in path:
            why = "A path begins with / or ~, and a comma parts two banks."
        elif (where := _bank_at(path)) in banks:
            why = f"That bank is called {banks[where]} already."
        if why:
            example = "Write name=/path/to/bank, for example team-notes=~/work/app/.retain"
            raise ConfigError(
                f"engine.banks is not understood at {part[:80]!r}", hint=f"{why} {example}"
            )
        banks[where] = name
    return [(name, path) for path, name in banks.items()]


def _bank_at(path: str) -> str:
    """A bank's own folder, also where a person names the project around it."""
    within = os.path.join(path, _FOLDER)
    # A folder of that name inside a bank is a repository's own, and changes no bank's name.
    is_project = os.path.basename(os.path.normpath(path)) != _FOLDER and os.path.isdir(within)
    return _standing(within if is_project else path)


def _standing(path: str) -> str:
    """Where something stands, links on the way resolved, but not what it leads to itself.

    A repository's `.retain` may be a link to the person's own bank, which must not get the name of
    a team's by that.
    """
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(folder), name)
