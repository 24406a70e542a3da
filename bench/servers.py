"""Real servers of engines on this machine, as the benchmarks ask them.

Each is started on a port of its own in a directory of its own, and ended by the id of the process
that was started. They are given more room than the tests give them, and Postgres waits for its
disk, as it does where people use it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import retain
from retain.app import App
from retain.index.engines.client import Client
from tests.engines import servers
from tests.engines.servers import Process

KEY = "a-key-of-the-benchmarks"
# What each product is asked for, and which variable has its key.
PARTS: Mapping[str, tuple[str, ...]] = {
    "qdrant": ("vector",),
    "meilisearch": ("text",),
    "postgres": ("text", "vector"),
}
_KEYS = {
    "qdrant": "QDRANT_API_KEY",
    "meilisearch": "MEILISEARCH_API_KEY",
    "postgres": "PGPASSWORD",
}
PATIENCE = 10_000  # ms: a slow answer is to be seen as one, and not as the local index's
_SETTLING = 900.0  # seconds that a server may work on after it has taken everything


class Weight(NamedTuple):
    """What a server takes of its machine, in bytes."""

    disk: int
    resident: int  # shared pages are counted once
    own: int  # of that, what is no file that the kernel could let go of


class Running:
    """One product's server."""

    def __init__(self, name: str, process: Process) -> None:
        self.name, self._process = name, process

    @property
    def env(self) -> dict[str, str]:
        """The settings that lead to it; which arms it is chosen for is said elsewhere."""
        return {
            f"RETAIN_ENGINE_{self.name.upper()}_URL": self._process.address,
            _KEYS[self.name]: self._process.key,
        }

    def settle(self) -> float:
        """Wait until it has done what it does afterwards; returns the seconds."""
        started = time.monotonic()
        while self.name == "qdrant" and not self._is_green():
            if time.monotonic() - started > _SETTLING:
                raise TimeoutError(f"{self.name} still builds its index")
            time.sleep(0.2)
        return time.monotonic() - started

    def _is_green(self) -> bool:
        names = [one["name"] for one in self._asked("collections")["collections"]]
        return all(self._asked(f"collections/{name}")["status"] == "green" for name in names)

    def _asked(self, path: str) -> Any:
        request = urllib.request.Request(  # noqa: S310 - on this machine
            f"{self._process.address}/{path}", headers={"api-key": self._process.key}
        )
        # A proxy that the person has set is not asked for a server on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=30) as answer:
            return json.load(answer)["result"]

    def cpu(self) -> float:
        """Seconds that it has computed so far, with the processes it has had."""
        pid = self._process.pid
        assert pid is not None
        return _computed(pid, with_ended=True) + sum(map(_computed, _children(pid)))

    def weight(self) -> Weight:
        """What it takes at this moment."""
        pid = self._process.pid
        assert pid is not None
        memory = [_memory(one) for one in (pid, *_children(pid))]
        return Weight(
            disk(self._process.directory), sum(m[0] for m in memory), sum(m[1] for m in memory)
        )


def disk(directory: str | Path) -> int:
    """Bytes that are really taken: files of engines have holes.

    Postgres' log of changes is left out: it is used over and over, and no larger for more memories.
    """
    total = 0
    for folder, _, files in os.walk(directory):
        if os.path.basename(folder) == "pg_wal":
            continue
        for name in files:
            try:
                total += 512 * os.lstat(os.path.join(folder, name)).st_blocks
            except FileNotFoundError:  # a server tidies up while it is looked at
                continue
    return total


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in listed.split()]


def _computed(pid: int, *, with_ended: bool = False) -> float:
    try:
        # The name of the program, in parentheses, may have spaces in it.
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int) -> tuple[int, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()[1:]
    except (FileNotFoundError, ProcessLookupError):  # one of Postgres' many, which has ended
        return 0, 0
    found = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines}
    return found["Pss"], found["Pss"] - found.get("Pss_File", 0)


def _made(name: str, directory: Path) -> Process:
    if name == "qdrant":
        return servers.qdrant(directory, KEY)
    if name == "meilisearch":
        cores = str(os.cpu_count() or 1)
        return servers.meilisearch(
            directory, KEY, max_indexing_memory="1GiB", max_indexing_threads=cores
        )
    return servers.postgres(directory, KEY, shared_buffers="256MB", max_connections=200, fsync="on")


@contextmanager
def running(names: Iterable[str]) -> Iterator[dict[str, Running]]:
    """Start servers; those whose program is not installed are said to be missing."""
    with ExitStack() as stack:
        found = {}
        for name in names:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"retain-{name}-"))
            try:
                process = _made(name, Path(scratch))
            except BaseException as error:
                # How the tests say that a program is missing is no Exception.
                if type(error).__name__ != "Skipped":
                    raise
                print(f"{name} is left out: {error}", file=sys.stderr)
                continue
            process.start()
            stack.callback(process.stop)
            found[name] = Running(name, process)
        yield found


def settings(chosen: Sequence[Running]) -> dict[str, str]:
    """The environment in which these engines are asked: each for all that it can do."""
    env = {"RETAIN_ENGINE_PATIENCE_MS": str(PATIENCE)}
    for one in chosen:
        env |= one.env
        env |= {f"RETAIN_ENGINE_{part.upper()}": one.name for part in PARTS[one.name]}
    return env


@contextmanager
def chosen(together: Sequence[Running]) -> Iterator[Counter[str]]:
    """Have every bank that is opened meanwhile ask these, and count how often they are asked."""
    counts: Counter[str] = Counter()
    before, ask = dict(os.environ), Client.ask

    def counted(client: Client, work: Callable[[Any], Any], spent: float = 0.0) -> Any:
        counts[client.kind] += 1
        return ask(client, work, spent)

    os.environ |= settings(together)
    Client.ask = counted  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        Client.ask = ask  # type: ignore[method-assign]
        os.environ.clear()
        os.environ |= before


def in_turns(wanted: str) -> Iterator[tuple[str, Counter[str]]]:
    """Each of the engines wanted while banks that are opened ask it, and how often they do."""
    together = parsed(wanted)
    with running(dict.fromkeys(name for names in together for name in names)) as found:
        for names in together:
            if all(name in found for name in names):
                with chosen([found[name] for name in names]) as counts:
                    yield "+".join(names), counts


def opened(path: str) -> Any:
    """A bank all of which its engines have been given."""
    bank = retain.open(path, background=False)
    pushed(bank)
    return bank


def check(name: str, counts: Mapping[str, int], least: int, mode: str) -> None:
    """Whether the engines were really asked, and not the bank's own index in their place."""
    least = least * 9 // 10  # of a question none of whose words is known, no text engine is asked
    for one in name.split("+"):
        if counts[one] < least and (mode != "text" or "text" in PARTS[one]):
            raise RuntimeError(f"{one} was asked {counts[one]} times, for {least} questions")


def pushed(app: App) -> None:
    """Deliver everything; raises where anything is left."""
    for part, done in app.remote.push(progress=progress(app.remote.name)).items():
        if done.left or done.lacking or done.is_busy:
            raise RuntimeError(f"not all could be delivered ({part}): {done}")


def progress(name: str) -> Callable[[int, int], None]:
    """Say every few seconds how far a delivery is."""
    last = time.monotonic()

    def show(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > 5:
            last = time.monotonic()
            print(f"{name}: {done:,} of {of:,} delivered", file=sys.stderr)

    return show


def parsed(text: str) -> list[tuple[str, ...]]:
    """`qdrant,meilisearch+qdrant` as products that are asked together."""
    found = [tuple(filter(None, part.split("+"))) for part in text.split(",") if part.strip()]
    for name in {name for together in found for name in together} - PARTS.keys():
        sys.exit(f"there is no engine {name!r}: {', '.join(PARTS)}")
    return found
