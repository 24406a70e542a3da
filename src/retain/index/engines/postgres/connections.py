"""Connections to Postgres: how they are made, kept within time, and what their failures mean."""

from __future__ import annotations

import math
import re
import select
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from retain.index.engines.addresses import is_clear, secrets
from retain.index.engines.arm import EngineDown, EngineError, EngineLocked, EngineRefused
from retain.index.engines.packages import not_installed
from retain.index.engines.wanted import check_wanted
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from psycopg import Connection, Error

    from retain.index.engines.postgres.settings import PostgresSettings


_IDLE: Final = 8  # connections kept open for the next question
# SQLSTATEs that pass; the last two are of a table that another machine has just dropped.
_LATER: Final = ("08", "40", "53", "55", "57", "58", "XX", "25006", "42P01", "3F000")
_FULL: Final = ("53100", "53400", "54")  # and those among them that do not
# While a connection is made Postgres tells only in words what is wrong. Another language of the
# server's makes these a server that is down, which is tried again and shown in its own words.
_REFUSALS: Final[Mapping[str, str]] = {
    r"pg_hba\.conf": "it does not let this machine in",
    r'database "[^"]*" does not exist': "it has no such database",
    r'role "[^"]*" does not exist': "it has no such user",
    r"not permitted": "it does not let this user in",
}
_LOCKED: Final[Mapping[str, str]] = {
    "no password supplied": "it asks for a password",
    "authentication failed": "it did not accept the user or the password",
}
_NO_DATABASE: Final = "`createdb` makes one; engine.postgres.url says which is asked for."
_NO_RIGHT: Final = "42501"
_ROLE: Final = "docs/engines-clusters.md has what it needs, under `A role for Postgres`."
_ADDRESS: Final = "Does engine.postgres.url say the right server, user and database?"
_STATE: Final = re.compile(r"[0-9A-Z]{5}")
_SECRET: Final = ("password", "sslpassword", "oauth_client_secret")


class Connections:
    """Connections, each used by one at a time, with one end to what is asked: in time or not."""

    def __init__(self, address: str, key: str, patience: float, settings: PostgresSettings) -> None:
        self._options, self.address = _parsed(address)
        # As Postgres itself has it: a password in the address is for that server, and one in the
        # environment may be for another.
        if key and self._options and not self._options.get("password"):
            self._options["password"] = key
        known = {str(self._options[n]) for n in _SECRET if self._options.get(n)}
        self._secrets = sorted(known | secrets(address), key=len, reverse=True)
        self._patience = patience
        self._synchronous = settings.synchronous
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    @contextmanager
    def transaction(self, more: float = 0.0) -> Iterator[Connection]:
        """A connection for one transaction, which is over in time or broken off.

        It may take so many seconds more than others, but not to wait for what someone else holds.
        """
        from psycopg import Error

        check_wanted()
        try:
            connection = self._taken() or self._connected()
            try:
                with self._watched(connection, more), connection.transaction():
                    self._set(connection, more)
                    yield connection
            finally:
                self._give(connection)
        except Error as error:
            raise self._failed(error) from None
        except OSError:
            raise self.failure("it cannot be reached") from None

    def _set(self, connection: Connection, more: float) -> None:
        """Say how long a statement may take, and whether a write waits for the disk."""
        # For each transaction anew: a pooler may give each to another of its own connections.
        connection.execute(
            "SELECT set_config('statement_timeout', %s, true), "
            "set_config('lock_timeout', %s, true), set_config('synchronous_commit', %s, true)",
            (
                str(math.ceil((self._patience + more) * 1000)),
                str(max(1, math.ceil(self._patience * 1000))),
                "on" if self._synchronous else "off",
            ),
        )

    def _taken(self) -> Connection | None:
        """An idle connection that the server has not ended."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            # A server that waits for a question says nothing, unless it is going.
            if not connection.closed and not select.select([connection], [], [], 0)[0]:
                return connection
            connection.close()

    def _connected(self) -> Connection:
        import psycopg

        if not self._options:
            raise EngineRefused(
                "The address of Postgres cannot be read.",
                hint="It looks like postgresql://user@host:5432/database.",
            )
        if not _is_text(self._options.values()):
            raise self.failure("its password or address has bytes that are no text", EngineLocked)
        options = {
            "connect_timeout": max(2, math.ceil(self._patience)),  # libpq knows no shorter one
            "application_name": "retain",
            **self._options,
            "client_encoding": "utf8",
        }
        # A pooler between would not know what was prepared, so nothing is.
        return psycopg.connect(**options, autocommit=True, prepare_threshold=None)

    @contextmanager
    def _watched(self, connection: Connection, more: float) -> Iterator[None]:
        """Break a connection off whose server neither answers nor goes away."""
        from psycopg import Error

        is_over = threading.Event()

        def break_off() -> None:
            is_over.set()
            with suppress(OSError, Error), socket.socket(fileno=connection.fileno()) as ours:
                try:
                    ours.shutdown(socket.SHUT_RDWR)
                finally:
                    ours.detach()  # it stays psycopg's

        # The server itself ends a statement in time; so this is for one that cannot.
        timer = threading.Timer(self._patience + more + 0.5, break_off)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if is_over.is_set():
                connection.close()

    def _give(self, connection: Connection) -> None:
        from psycopg.pq import TransactionStatus

        is_free = connection.info.transaction_status == TransactionStatus.IDLE
        with self._lock:
            if is_free and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _failed(self, error: Error) -> EngineError:
        from psycopg.errors import ConnectionTimeout, QueryCanceled

        if isinstance(error, ConnectionTimeout | QueryCanceled):
            return self.failure(f"it did not answer within {self._patience:g} seconds")
        said, state = str(error), error.sqlstate or ""
        if not state:
            return self._unconnected(said)
        later = state.startswith(_LATER) and not state.startswith(_FULL)
        why = "it cannot do that at the moment" if later else "it refused"
        code = f" ({state})" if _STATE.fullmatch(state) else ""
        if state == _NO_RIGHT:
            return self.failure(
                f"its user may not do that{code}", EngineRefused, hint=_ROLE, words=said
            )
        return self.failure(why + code, EngineDown if later else EngineRefused, words=said)

    def _unconnected(self, said: str) -> EngineError:
        """Why there is no connection, as far as the server's words tell."""
        for sign, why in _LOCKED.items():
            if sign in said:
                return self.failure(why, EngineLocked, words=said)
        for sign, why in _REFUSALS.items():
            if re.search(sign, said):
                hint = _NO_DATABASE if sign.startswith("database") else _ADDRESS
                return self.failure(why, EngineRefused, hint=hint, words=said)
        return self.failure("it cannot be reached", words=said)

    def failure(
        self, why: str, kind: type[EngineError] = EngineDown, *, hint: str = "", words: str = ""
    ) -> EngineError:
        """What is raised; the server's own words are kept apart, shortened and made harmless."""
        for secret in self._secrets:
            words = words.replace(secret, "***")
        return kind(f"Postgres at {self.address}: {why}.", words=flat(words, 200), hint=hint)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _is_text(values: Iterable[Any]) -> bool:
    """Whether Postgres can be told all of these; in the environment there may be any bytes."""
    try:
        return b"\0" not in "".join(map(str, values)).encode()
    except UnicodeEncodeError:
        return False


def _parsed(address: str) -> tuple[dict[str, Any], str]:
    """What a DSN says, and what of it may be seen."""
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        raise not_installed("postgres") from None
    try:
        # What is not clear Postgres would read in a way of its own, and ask a part of a password.
        options = dict(conninfo_to_dict(address)) if is_clear(address) else {}
    except ProgrammingError:  # whose words hold parts of the address
        options = {}
    if not options:
        return {}, "an address that cannot be read"
    hosts = str(options.get("host") or options.get("hostaddr") or "localhost").split(",")
    ports = str(options.get("port") or "5432").split(",")
    places = [f"{host}:{ports[min(at, len(ports) - 1)]}" for at, host in enumerate(hosts)]
    name = str(options.get("dbname") or "")
    name = "***" if "@" in name else name  # an address within the address
    return options, flat(f"postgresql://{','.join(places)}" + (f"/{name}" if name else ""), 120)
