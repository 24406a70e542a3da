"""What a warm process is worth to a search on the command line, as ratios to a bare interpreter.

    python bench/warm.py [--rounds 15] [--memories 100]

The same search is run in turn with nobody listening and with `retain serve` running for a copy of
the bank, from a wheel that is installed and byte-compiled as in speed.py.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable

import speed

QUERY = "readable diff"
ASK = """
import sys
from retain.daemon.client import ask
assert "text" in ask(sys.argv[1], {"op": "brief", "query": sys.argv[2]}, 10)
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--memories", type=int, default=100)
    args = options.parse_args()
    scratch = tempfile.mkdtemp(prefix="retain-bench-")
    try:
        run(scratch, args.rounds, args.memories)
    finally:
        shutil.rmtree(scratch)


def run(scratch: str, rounds: int, memories: int) -> None:
    python = speed.installed(scratch)
    retain = os.path.join(os.path.dirname(python), "retain")
    env = {**os.environ, "HOME": scratch, "RETAIN_HOME": os.path.join(scratch, "home")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    cold, warm = (speed.ensure_bank(scratch, name, memories) for name in ("cold", "warm"))

    def call(*command: str) -> Callable[[], None]:
        return lambda: subprocess.run(command, env=env, check=True, capture_output=True) and None

    for bank in (cold, warm):
        call(retain, "index", "--bank", bank)()
    cases = {
        "python -c pass": call(python, "-c", "pass"),
        "python -c 'import numpy'": call(python, "-c", "import numpy"),
        "retain search --text": call(retain, "search", QUERY, "--text", "--bank", cold),
        "retain search, cold": call(retain, "search", QUERY, "--bank", cold),
        "retain search, warm": call(retain, "search", QUERY, "--bank", warm),
        "a brief, asked for as a hook does": call(python, "-c", ASK, warm, QUERY),
    }
    with subprocess.Popen(
        [retain, "serve", "--bank", warm], env=env, stdout=subprocess.PIPE, encoding="utf-8"
    ) as serving:
        try:
            assert serving.stdout
            assert serving.stdout.readline().startswith("Listening")
            times = speed.measure(cases, rounds)
        finally:
            serving.terminate()
    bare = times["python -c pass"].median
    print("| command | median ms | x bare python |\n|---|---|---|")
    for name, values in times.items():
        print(f"| {name} | {values.median * 1000:.1f} | {values.median / bare:.2f} |")


if __name__ == "__main__":
    main()
