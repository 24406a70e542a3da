"""One event as the host tells it, how long there is to answer it, and the answer."""

from __future__ import annotations

import json
import os
import time

from retain.hooks import EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from retain.config import Config
    from retain.places import Places

__all__ = ["Answer", "Call", "printed", "received"]

MOST_BYTES = 32_000_000  # of a payload: a tool's whole input is in it
DEADLINE = 0.12  # seconds, until the settings are known
_FIRST = 2000  # milliseconds to wait for a host that does not begin
_NEXT = 1000  # and for one that neither goes on nor says that it is done
_GROWN = 2  # how many times longer a text that was not whole must be to be tried again


class Answer:
    """What the host is told: nothing, unless something is said."""

    __slots__ = ("code", "err", "out")

    def __init__(self, out: str = "", err: str = "", code: int = 0) -> None:
        self.out, self.err, self.code = out, err, code

    @classmethod
    def of(cls, data: Mapping[str, object], err: str = "") -> Answer:
        """An answer in JSON."""
        return cls(json.dumps(data) + "\n", err)

    @classmethod
    def special(cls, call: Call, said: Mapping[str, object], **more: object) -> Answer:
        """What only an event of this kind may say, and what any may say besides."""
        own = {"hookSpecificOutput": {"hookEventName": EVENTS[call.event], **said}} if said else {}
        return cls.of({**own, **more}) if own or more else cls()

    @classmethod
    def noting(cls, notes: Iterable[str]) -> Answer:
        """Nothing for the host; what went wrong, for whoever reads its log."""
        return cls(err="".join(f"retain hook: {note}\n" for note in notes if note))


class Call:
    """One event, in its place and with its time."""

    def __init__(
        self, event: str, payload: Mapping[str, object], env: Mapping[str, str], start: float
    ) -> None:
        self.event, self.payload, self.env = event, payload, env
        self._start, self.end = start, start + DEADLINE
        self._places: Places | None = None
        self._config: Config | None = None

    def text(self, key: str) -> str:
        """A text of the payload's; empty when there is none."""
        value = self.payload.get(key)
        return value if isinstance(value, str) else ""

    @property
    def cwd(self) -> str:
        """Where the host works."""
        given = self.text("cwd")
        return given if os.path.isabs(given) and "\0" not in given else os.getcwd()

    @property
    def places(self) -> Places:
        """The banks in force there."""
        if self._places is None:
            from retain.places import Places

            self._places = Places("", False, False, self.cwd, self.env)
        return self._places

    @property
    def config(self) -> Config:
        """The settings in force there."""
        if self._config is None:
            self._config = self.places.config
            self.heed(self._config)
        return self._config

    def heed(self, config: Config) -> None:
        """Take the time to answer from some settings."""
        self.end = self._start + config.number("hooks.deadline_ms") / 1000

    @property
    def is_on(self) -> bool:
        """Whether memory, and this hook, are switched on where the host works."""
        return self.is_on_by(self.config)

    def is_on_by(self, config: Config) -> bool:
        """Whether some settings have memory, and this hook, switched on."""
        switch = f"hooks.{self.event.replace('-', '_')}"
        return config.flag("memory.enabled") and config.flag(switch)

    @property
    def left(self) -> float:
        """How many seconds there are until an answer is due."""
        return self.end - time.monotonic()

    def is_late(self) -> bool:
        """Whether an answer is due by now."""
        return self.left < 0


def received() -> dict[str, object] | None:
    """The host's JSON object from standard input; None for anything else.

    Some hosts never close the other end, so a whole object ends the reading as well. A long text
    may look whole at the end of many of its parts, and is tried only a few times.
    """
    import select

    if os.isatty(0):
        text = "retain hook: the host's JSON belongs on standard input; try `retain hook test`\n"
        os.write(2, text.encode())
        return None
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    data, tried, patience = bytearray(), 0, _FIRST
    while waiting.poll(patience):
        part = os.read(0, 1 << 16)
        data += part
        if not part or len(data) > MOST_BYTES:
            break
        patience = _NEXT
        if part.rstrip().endswith(b"}") and len(data) >= _GROWN * tried:
            tried = len(data)
            payload = _parsed(data)
            if payload is not None:
                return payload
    return _parsed(data) if len(data) <= MOST_BYTES else None


def _parsed(data: bytearray) -> dict[str, object] | None:
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None


def printed(answer: Answer) -> int:
    """Write an answer, each stream at once, and give its exit code."""
    for number, text in ((1, answer.out), (2, answer.err)):
        data = text.encode(errors="replace")
        while data:
            try:
                data = data[os.write(number, data) :]
            except OSError:  # nobody listens, and nobody need be told
                break
    return answer.code
