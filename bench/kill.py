"""Kill writers at random, again and again, and count what was lost: `python bench/kill.py`.

Four workers create, replace, append to, move, delete and bring back memories, each among its
own names and all of them in one shared log. A worker writes down what was acknowledged. They are
killed with SIGKILL at random moments and replaced. At the end every acknowledged text must be in
a memory, a version or the trash, the shared log must hold each of its entries once, and nothing
may be torn or left behind.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from retain.app import App

SHARED = "shared-log"
END = "<end>"
MANY = 1000


def open_bank(root: Path) -> App:
    return App(bank=str(root), cwd=str(root), env={"USER": "bench", "HOME": str(root)})


# A worker


def work(root: Path, journal: Path, seed: str) -> None:
    """Change memories until killed; `journal` gets a line before and after each operation."""
    dice = random.Random(seed)
    with open(journal, "a", encoding="ascii", buffering=1) as log:
        for number in range(1_000_000):
            token = f"{seed}.{number}"
            operation = dice.choice(("put", "put", "append", "shared", "move", "delete"))
            done = _operate(open_bank(root), operation, token, dice)
            log.write(f"{done} {token}\n")


def _operate(app: App, operation: str, token: str, dice: random.Random) -> str:
    """Do an operation, or a put where there is nothing yet to do it to; which one it was."""
    text = f"<{token}>\n" + "filling " * dice.randrange(2000) + END
    worker = token.partition("-")[0]
    if operation == "shared":
        app.append(SHARED, f"<{token}>")
        return operation
    name = f"{worker}-{dice.randrange(5)}"
    mine = [memory.id for memory in app.list() if memory.id == name]
    if operation == "put" or not mine:
        app.put(text, id=name, collection="mine")
        return "put"
    if operation == "append":
        app.append(name, text)
    elif operation == "move":
        app.move(name, to_collection="moved", to_id=f"{name}-{token.partition('-')[2]}")
    else:
        app.delete(name)
        if dice.random() < 0.5:
            app.untrash(name)
    return operation


# The one who kills


class Count(NamedTuple):
    """What a run came to."""

    kills: int
    acknowledged: int
    refused: int
    lost: int
    torn: int
    leftovers: int
    seconds: float


def start(root: Path, logs: Path, worker: int, life: int) -> subprocess.Popen[bytes]:
    seed = f"w{worker}-{life}"
    command = [sys.executable, __file__, "--worker", str(root), str(logs / seed), seed]
    with open(logs / f"{seed}.err", "wb") as errors:
        return subprocess.Popen(command, stderr=errors)


def acknowledged(logs: Path) -> list[list[str]]:
    """The operations and tokens that workers had time to write down."""
    written = [log.read_text("ascii") for log in logs.iterdir() if log.suffix != ".err"]
    return [
        line.split() for log in written for line in log.splitlines(keepends=True) if "\n" in line
    ]


def examine(root: Path, logs: Path, kills: int, seconds: float) -> Count:
    """Count what should not be, after one more write has tidied up."""
    app = open_bank(root)
    app.put(f"the last word {END}", id="last")
    done = acknowledged(logs)
    log = app.get(SHARED).body
    somewhere = "".join(path.read_text("utf-8", "replace") for path in root.rglob("*.md"))
    lost = [
        token
        for operation, token in done
        if (operation == "shared" and log.count(f"<{token}>") != 1)
        or (operation in ("put", "append") and f"<{token}>" not in somewhere)
    ]
    torn = [
        memory.ref
        for memory in app.list()
        if memory.problem or (memory.id != SHARED and not memory.body.rstrip().endswith(END))
    ]
    refused = [log for log in logs.glob("*.err") if log.stat().st_size]
    left = os.listdir(root / ".index" / "unfinished")
    left += [name for name in os.listdir(root / ".index") if name.startswith("journal")]
    return Count(kills, len(done), len(refused), len(lost), len(torn), len(left), seconds)


def run(root: Path, logs: Path, kills: int, workers: int, limit: float) -> Count:
    open_bank(root).init()
    # Every text is to be found again, however often it was replaced.
    config = f"format = 1\n[versioning]\nmax_versions = {MANY}\n"
    (root / "config.toml").write_text(config, "utf-8")
    open_bank(root).put("start", id=SHARED)
    dice, begun, life = random.Random(), time.monotonic(), 0
    alive = [start(root, logs, worker, 0) for worker in range(workers)]
    killed = 0
    while killed < kills and time.monotonic() - begun < limit:
        time.sleep(dice.uniform(0.02, 0.25))
        worker = dice.randrange(workers)
        alive[worker].send_signal(signal.SIGKILL)
        alive[worker].wait()
        killed, life = killed + 1, life + 1
        alive[worker] = start(root, logs, worker, life)
    for process in alive:
        process.kill()
        process.wait()
    return examine(root, logs, killed, time.monotonic() - begun)


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill writers at random and count the losses.")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600, help="stop after this time")
    parser.add_argument("--worker", nargs=3, metavar=("BANK", "LOG", "SEED"), help="(internal)")
    args = parser.parse_args()
    if args.worker:
        root, journal, seed = args.worker
        work(Path(root), Path(journal), seed)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        root, logs = Path(folder) / "bank", Path(folder) / "logs"
        logs.mkdir()
        count = run(root, logs, args.kills, args.workers, args.seconds)
        for log in logs.glob("*.err"):
            sys.stderr.write(log.read_text("utf-8"))
    for name, value in count._asdict().items():
        print(f"{name:14}{value:10,.0f}")
    return 1 if count.refused or count.lost or count.torn or count.leftovers else 0


if __name__ == "__main__":
    sys.exit(main())
