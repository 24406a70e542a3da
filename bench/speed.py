"""How fast the command line is, as ratios to a bare interpreter and to the bare work.

    python bench/speed.py [--rounds 25] [--memories 10000] [--sizes 1000,10000,100000]

Makes a fresh environment with Retain installed as a wheel, byte-compiled, because an editable
install or one without bytecode measures the compiler. Every round runs every case once, so a
noisy machine is noisy for all of them; the table shows medians and the ratio of medians.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTE = """---
id: note-{n}
title: Note {n} about things worth remembering
type: fact
tags: [bench, topic-{topic}, memory]
created_at: 2026-11-{day:02}T18:00:00Z
created_by: bench
context: Written for the benchmark
priority: high
---

# Note {n}

{body}
"""
NEW = "The ferry to the island leaves at seven and takes bicycles on weekdays only. " * 9
BODY = "A memory is a file you can read, edit, diff and commit. " * 12

# The floor for listing: read the same files and parse their heads with PyYAML's C loader.
FLOOR = """
import os, sys, yaml
for folder in sorted(os.scandir(sys.argv[1]), key=lambda e: e.name):
    if folder.is_dir() and folder.name[0] != ".":
        for entry in sorted(os.scandir(folder.path), key=lambda e: e.name):
            with open(entry.path, encoding="utf-8") as file:
                text = file.read()
            yaml.load(text.split("---", 2)[1], Loader=yaml.CSafeLoader)
"""
# What a put must cost at least: a file and its directory brought to the disk.
SYNCS = """
import os, sys
path = os.path.join(sys.argv[1], "synced")
fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
os.write(fd, b"x" * 900)
os.fsync(fd)
folder = os.open(sys.argv[1], os.O_RDONLY)
os.fsync(folder)
os.unlink(path)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=25)
    options.add_argument("--memories", type=int, default=10_000)
    options.add_argument(
        "--sizes", default="1000,10000,100000", help="banks to search; empty: none"
    )
    options.add_argument(
        "--no-commands", action="store_true", help="only what happens in a process"
    )
    args = options.parse_args()
    scratch = tempfile.mkdtemp(prefix="retain-bench-")
    try:
        if not args.no_commands:
            run(scratch, args.rounds, args.memories)
        if args.sizes:
            import scale

            os.environ |= {"HOME": scratch, "RETAIN_HOME": os.path.join(scratch, "home")}
            sizes = [int(size) for size in args.sizes.split(",")]
            scale.report(scratch, sizes)
            scale.model_report(scratch, sizes)
    finally:
        shutil.rmtree(scratch)


def run(scratch: str, rounds: int, memories: int) -> None:
    python = installed(scratch)
    retain = os.path.join(os.path.dirname(python), "retain")
    env = {**os.environ, "HOME": scratch, "RETAIN_HOME": os.path.join(scratch, "home")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    small, large = (
        make_bank(scratch, name, n) for name, n in (("small", 100), ("large", memories))
    )
    numbers = iter(range(10**9))

    def call(*command: str, text: str = "") -> Callable[[], None]:
        def once() -> None:
            words = [word.replace("{n}", str(next(numbers))) for word in command]
            subprocess.run(words, env=env, input=text.encode(), check=True, capture_output=True)

        return once

    cases = {
        "python -c pass": call(python, "-c", "pass"),
        "two fsyncs alone": call(python, "-c", SYNCS, scratch),
        "retain --help": call(retain, "--help"),
        "retain get, 100 memories": call(retain, "get", "note-50", "--bank", small),
        "retain get --json": call(retain, "get", "note-50", "--bank", small, "--json"),
        "retain list, 100 memories": call(retain, "list", "--bank", small),
        "retain put": call(
            retain, "put", "-", "--id", "put-{n}", "--bank", small, text="# Hi\n" + NEW
        ),
        "retain put, like a stored one": call(
            retain, "put", "-", "--id", "like-{n}", "--bank", small, text="# Hi\n" + BODY
        ),
        "retain search --text": call(retain, "search", "readable diff", "--text", "--bank", small),
        "retain search": call(retain, "search", "readable diff", "--bank", small),
        "retain update": call(retain, "update", "note-1", "--bank", small, "--tags", "a-{n}"),
    }
    call(retain, "index", "--bank", small)()  # a hundred vectors, made once
    times = measure(cases, rounds)
    bare = times["python -c pass"]
    sync = max(0.0, times["two fsyncs alone"].median - bare.median)
    print("\n| command | median ms | x bare python | best ms |\n|---|---|---|---|")
    for name, values in times.items():
        median, best, ratio = values.median * 1000, values.best * 1000, values.median / bare.median
        print(f"| {name} | {median:.1f} | {ratio:.2f} | {best:.1f} |")
    put = (times["retain put"].median - sync) / bare.median
    print(f"\n`put` less its two fsyncs: {put:.2f}x. Limits: get 4, list 4.5, put 9.")

    call(retain, "sync", "--bank", large)()
    listing = measure(
        {
            "read and parse alone": call(python, "-c", FLOOR, large),
            "retain list": call(retain, "list", "--bank", large),
            "retain list --limit 20": call(retain, "list", "--limit", "20", "--bank", large),
            "retain status": call(retain, "status", "--bank", large),
            "retain get": call(retain, "get", "note-50", "--bank", large),
        },
        max(3, rounds // 5),
    )
    for name, limit in (("list --limit 20", 8), ("status", 12), ("get", 6)):
        ratio = listing[f"retain {name}"].median / bare.median
        print(f"`{name}` of {memories:,} memories: {ratio:.1f}x bare python (limit {limit}).")
    floor_ratio = listing["retain list"].median / listing["read and parse alone"].median
    print(f"\nListing {memories:,} memories: {listing['retain list'].median:.2f} s,")
    print(
        f"{floor_ratio:.2f}x of reading the files and parsing with PyYAML's C loader (limit 1.5)."
    )


class Times:
    """What one case took, round by round."""

    def __init__(self) -> None:
        self.values: list[float] = []

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def best(self) -> float:
        return min(self.values)


def measure(cases: dict[str, Callable[[], None]], rounds: int) -> dict[str, Times]:
    times = {name: Times() for name in cases}
    for number in range(rounds + 1):
        for name, once in cases.items():
            start = time.perf_counter()
            once()
            if number:  # the first round warms the caches
                times[name].values.append(time.perf_counter() - start)
        print(f"\rround {number}/{rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return times


def installed(scratch: str) -> str:
    where = os.path.join(scratch, "env")
    venv.create(where, with_pip=True)
    python = os.path.join(where, "bin", "python")
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    subprocess.run([python, "-m", "pip", "install", "--quiet", ROOT], check=True, env=env)
    subprocess.run(
        [python, "-m", "compileall", "-q", where], check=False, env=env, capture_output=True
    )
    return python


def make_bank(scratch: str, name: str, count: int) -> str:
    root = os.path.join(scratch, name, ".retain")
    for number in range(count):
        folder = os.path.join(root, f"collection-{number % 5}")
        os.makedirs(folder, exist_ok=True)
        note = NOTE.format(n=number, topic=number % 50, day=number % 28 + 1, body=BODY)
        with open(os.path.join(folder, f"note-{number}.md"), "w", encoding="utf-8") as file:
            file.write(note)
    return root


if __name__ == "__main__":
    main()
