"""How much the pages add to what the engine takes: `python bench/web.py`.

    python bench/web.py [--memories 10000] [--rounds 5] [--home DIR]

The installed `retain web` shows a bank of made-up memories (texts and random vectors as in
scale.py, with tags, types, dates, links and files). Every question goes over HTTP to the pages and
to the JSON interface, and in turns with that to the engine in this process, warm: the same question
for as many memories as the page shows. A ratio is the page's time to the engine's, at the same
percentile; processor time stands beside it, which other jobs on the machine disturb less. The
weight of the first page is everything a browser loads for it, as it is sent. Last, files are
replaced as an editor does it, by a rename, and it is timed until the stream of changes tells of it,
and until the list that a page then asks for says the new words.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

# As `retain web` has it: with more threads than free cores the engine alone would be the slower.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import scale

from retain.app import App
from retain.index.embed import embedder
from retain.index.queries import Chosen
from retain.search.request import SearchRequest, parse_filters
from retain.web.search_state import PAGE

LIMIT = 3.0  # times the engine, for lists and searches, at p95
HEAVIEST = 150_000  # bytes of the first page
QUESTIONS = 10
FOLLOWED = 40  # files that are replaced while a page looks
TOKEN = "a-token-for-a-bank-of-made-up-memories-0123456789"
_LOADED = re.compile(r'(?:href|src)="(/static/[^"]+)"')
_IMPORTED = re.compile(r'(?:from|import)\s+"\./([^"]+)"')

Values = Sequence[tuple[str, str]]


class Case(NamedTuple):
    """One kind of question: its address, and how the engine is asked the same."""

    engine: Callable[[], object]
    page: str = ""
    api: str = ""
    is_limited: bool = True


# The bank


def make_bank(root: str, size: int) -> None:
    """Memories as scale.py makes them, with everything that facets, graph and timeline look at."""
    dice = random.Random(scale.SEED)
    random.seed(scale.SEED)
    words = scale.vocabulary()
    weights = np.cumsum([1 / (rank + 10) for rank in range(len(words))])
    kinds = ("fact", "decision", "runbook", "journal")
    for number in range(size):
        folder = Path(root, f"collection-{number % 5}")
        folder.mkdir(parents=True, exist_ok=True)
        body = " ".join(dice.choices(words, cum_weights=weights.tolist(), k=scale.WORDS))
        links = [f"[[note-{dice.randrange(size)}]]" for _ in range(dice.choice((0, 1, 1, 2)))]
        links += [f"[[src/file-{dice.randrange(size // 20 + 1)}.py]]"] if number % 3 == 0 else []
        made = f"20{23 + number % 3}-{number % 11 + 1:02}-{number % 28 + 1:02}T12:00:00Z"
        changed = "updated_at: 2026-11-10T08:00:00Z\n" if number % 10 == 0 else ""
        tags = ", ".join({f"topic-{int(60 * dice.random() ** 2)}", f"area-{number % 7}"})
        Path(folder, f"note-{number}.md").write_text(
            f"---\nid: note-{number}\ntitle: Note {number}\ntype: {kinds[number % 4]}\n"
            f"tags: [{tags}]\ncreated_at: {made}\ncreated_by: claude\n{changed}---\n\n"
            f"{body} {' '.join(links)}\n",
            encoding="utf-8",
        )


def index(root: str, env: dict[str, str]) -> None:
    """Every vector is random, under the name of the model that questions are asked with."""
    real = embedder("bundled")

    class Named(scale.RandomModel):
        name, dimension = real.name, len(real.query(""))

    app = App(bank=root, env=env)
    with scale.model(Named()):
        app.sync()
        app.make_vectors()
    app.close()


def questions(root: str) -> list[str]:
    """Five words of a memory each, so that something fits."""
    dice = random.Random(scale.SEED)
    files = sorted(Path(root).glob("collection-*/*.md"))
    found = []
    for path in dice.sample(files, min(len(files), QUESTIONS)):
        words = path.read_text(encoding="utf-8").rpartition("---")[2].split()
        found.append(" ".join(dice.sample(words[: scale.WORDS], 5)))
    return found


# The server


@contextlib.contextmanager
def served(root: str, env: dict[str, str]) -> Iterator[Client]:
    log = Path(env["HOME"], "log")
    retain = str(Path(sys.executable).with_name("retain"))
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [retain, "web", "--port", "0", "--bank", root],
            env={**env, "RETAIN_MCP_TOKEN": TOKEN},
            cwd=env["HOME"],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        while not (found := re.search(r":(\d+)/enter#", log.read_text(encoding="utf-8"))):
            if process.poll() is not None:
                raise SystemExit(log.read_text(encoding="utf-8"))
            time.sleep(0.05)
        yield Client(int(found[1]), process.pid)
    finally:
        process.terminate()
        process.wait()


class Client:
    """One connection that stays, as a browser's does."""

    def __init__(self, port: int, pid: int) -> None:
        self._tasks = f"/proc/{pid}/task"
        self.port = port
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def processor(self) -> float:
        """Seconds of the processor that the server has used, all threads together."""
        found = 0
        for name in os.listdir(self._tasks):
            with contextlib.suppress(OSError):  # a thread that ended
                text = Path(self._tasks, name, "schedstat").read_text(encoding="ascii")
                found += int(text.split()[0])
        return found / 1e9

    def get(self, path: str) -> bytes:
        self._http.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = self._http.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {data[:300]!r}")
        return data

    def weight(self) -> dict[str, int]:
        """Bytes of the first page by kind, with whatever it loads and that loads."""
        start = self.get("/")
        found = {"html": len(start)}
        left = _LOADED.findall(start.decode())
        seen: set[str] = set()
        while left:
            path = left.pop()
            if path not in seen:
                seen.add(path)
                data = self.get(path)
                kind = path.rpartition(".")[2]
                found[kind] = found.get(kind, 0) + len(data)
                folder = path.rpartition("/")[0]
                left += [f"{folder}/{name}" for name in _IMPORTED.findall(data.decode())]
        return found


# How soon a page follows its files


class Listener:
    """The stream of changes, read line by line on a connection of its own."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._http.request("GET", "/api/v1/events", headers={"Authorization": f"Bearer {TOKEN}"})
        self._answer = self._http.getresponse()

    def hear(self, event: str) -> None:
        """Wait for a change of this kind."""
        while self._answer.readline().decode().strip() != f"event: {event}":
            pass

    def close(self) -> None:
        self._http.close()


def followed(client: Client, root: str, times: int) -> dict[str, list[float]]:
    """Milliseconds from a file's rename to the word of it, and to the list with what it says."""
    found: dict[str, list[float]] = {"event": [], "list": []}
    with contextlib.closing(Listener(client.port)) as listener:
        for number in range(times + 1):
            title = f"Followed for the {number}. time"
            fresh = Path(root, ".index", "fresh.md")  # beside the bank's files, and none of them
            fresh.write_text(f"---\ntitle: {title}\n---\n\nAnew.\n", encoding="utf-8")
            start = time.perf_counter()
            os.replace(fresh, Path(root, "collection-0", "followed.md"))
            listener.hear("memories")
            heard = time.perf_counter()
            while title.encode() not in client.get("/"):
                pass
            if number:  # the first is a new memory, and the others changed ones
                found["event"].append((heard - start) * 1000)
                found["list"].append((time.perf_counter() - start) * 1000)
    Path(root, "collection-0", "followed.md").unlink()
    return found


# What is asked


def cases(app: App, asked: Sequence[str]) -> dict[str, list[Case]]:
    def lists(chosen: Chosen, *values: tuple[str, str]) -> Case:
        query = urlencode(values)
        return Case(
            lambda: app.browse(chosen, "updated", PAGE, 0), f"/?{query}", f"/memories?{query}"
        )

    def search(text: str, values: Values, **narrow: object) -> Case:
        wanted = SearchRequest(text, limit=PAGE, filters=parse_filters(**narrow), explain=True)  # type: ignore[arg-type]
        query = urlencode([("q", text), *values])
        api = f"/search?{query}&limit={PAGE}"
        return Case(lambda: app.search(wanted), f"/?{query}", api)

    def searches(*values: tuple[str, str], **narrow: object) -> list[Case]:
        return [search(text, values, **narrow) for text in asked]

    return {
        "list": [lists(Chosen())],
        "list, one tag": [lists(Chosen(tag=("topic-3",)), ("tag", "topic-3"))],
        "search": searches(),
        "search, common tag": searches(("tag", "area-1"), tags=("area-1",)),
        "search, rare tag": searches(("tag", "topic-50"), tags=("topic-50",)),
        "search, collection": searches(("collection", "collection-1"), collection="collection-1"),
        "search, type": searches(("type", "decision"), kind="decision"),
        "search, dates": searches(
            ("since", "2025-01-01"), ("until", "2025-12-31"), since="2025-01-01", until="2025-12-31"
        ),
        "graph": [Case(lambda: (app.graph(), app.dated_memories()), "/graph", "/graph", False)],
        "timeline": [Case(app.timeline, "/timeline", "/timeline", False)],
    }


class Times:
    """Milliseconds of the engine, the page and the interface."""

    def __init__(self) -> None:
        self.clock: dict[str, list[float]] = {"engine": [], "page": [], "api": []}
        self.processor: dict[str, list[float]] = {"engine": [], "page": [], "api": []}

    def p(self, who: str, share: float) -> float:
        return _p(self.clock[who], share)

    def ratio(self, who: str, share: float) -> float:
        return self.p(who, share) / self.p("engine", share)

    def of_processor(self, who: str, share: float) -> float:
        return _p(self.processor[who], share) / _p(self.processor["engine"], share)


def _p(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def measured(client: Client, found: dict[str, list[Case]], rounds: int) -> dict[str, Times]:
    times = {name: Times() for name in found}
    for number in range(rounds + 1):
        for name, several in found.items():
            # What has one question is asked as often as what has a dozen, if it does not take long.
            again = QUESTIONS if len(several) == 1 and several[0].is_limited else 1
            asked = several * again
            for at, case in enumerate(asked):
                # Another question, because a server remembers the vector of the last one.
                other = asked[(at + len(asked) // 2) % len(asked)]
                for who, clock, once in (
                    ("engine", time.process_time, case.engine),
                    ("page", client.processor, partial(client.get, case.page)),
                    ("api", client.processor, partial(client.get, f"/api/v1{other.api}")),
                ):
                    used, start = clock(), time.perf_counter()
                    once()
                    took, used = time.perf_counter() - start, clock() - used
                    if number:  # the first round fills the caches
                        times[name].clock[who].append(took * 1000)
                        times[name].processor[who].append(used * 1000)
        print(f"\rround {number}/{rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return times


def report(times: dict[str, Times], found: dict[str, list[Case]], weight: dict[str, int]) -> int:
    print(
        "| question | engine p50 / p95 ms | page | JSON | page x p50 | x p95 | JSON x p95 "
        "| processor, page x p95 | JSON x p95 | |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    is_missed = False
    for name, one in times.items():
        shown = " | ".join(
            f"{one.p(who, 0.5):.1f} / {one.p(who, 0.95):.1f}" for who in ("engine", "page", "api")
        )
        limited = one.ratio("page", 0.95), one.ratio("api", 0.95)
        used = one.of_processor("page", 0.95), one.of_processor("api", 0.95)
        ratios = " | ".join(f"{it:.2f}" for it in (one.ratio("page", 0.5), *limited, *used))
        verdict = ""
        if found[name][0].is_limited:
            verdict = "met" if max(limited) <= LIMIT else "MISSED"
        is_missed |= verdict == "MISSED"
        print(f"| {name} | {shown} | {ratios} | {verdict} |")
    whole = sum(weight.values())
    parts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(weight.items()))
    print(f"\nLists and searches: at most {LIMIT} times the engine at p95.")
    print(f"First page: {whole:,} bytes ({parts}); at most {HEAVIEST:,}.")
    return int(is_missed or whole > HEAVIEST)


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--memories", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--home", default="", help="where a bank is kept for the next run")
    given = options.parse_args()
    with contextlib.ExitStack() as stack:
        home = given.home or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="retain-bench-")
        )
        root = os.path.join(home, ".retain")
        # An index is trusted only where the same person made it: both sides have one home.
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
        env |= {"HOME": home, "XDG_RUNTIME_DIR": home}
        os.environ |= env
        if not os.path.isdir(root):
            make_bank(root, given.memories)
            index(root, env)
        app = stack.enter_context(contextlib.closing(App(bank=root, env=env, stays=True)))
        found = cases(app, questions(root))
        client = stack.enter_context(served(root, env))
        times = measured(client, found, given.rounds)
        weight = client.weight()
        soon = followed(client, root, FOLLOWED)
    print(f"{given.memories:,} memories, {given.rounds} rounds, load {os.getloadavg()[0]:.1f}")
    code = report(times, found, weight)
    for name, values in soon.items():
        print(f"File to {name}: median {_p(values, 0.5):.0f} ms, p95 {_p(values, 0.95):.0f} ms.")
    return code


if __name__ == "__main__":
    sys.exit(main())
