"""How long a host waits for a hook, as ratios to a bare interpreter: `python bench/hooks.py`.

    python bench/hooks.py [--rounds 100] [--memories 10000]

Retain is installed as a wheel into a fresh environment, byte-compiled, as in speed.py, and called
as a host calls it: `retain hook EVENT`, the payload through a pipe. Every round runs every case
once, in another order; the limits are for the medians. The deadline is lifted, so that a busy
machine makes a hook slow and not silent, and every answer is looked at.

The bank's texts are made up as in scale.py, of the words of our own docs, as often as those have
them, with random vectors; a few memories that make sense have real ones. The warm question shares
no word with the memory that answers it, so without a server it must find nothing, and with one it
must find that memory.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import speed

SESSION = "bench-hooks"
TRANSCRIPT_BYTES = 5_000_000
LIMITS = {"prompt": 5.0, "stop": 6.0, "guard": 2.5}
MEANT = "Who fixes cars here?"
DOCS = os.path.join(speed.ROOT, "docs")

# Runs inside the installed environment: a bank, indexed, and a question that its words answer.
PREPARE = """
import collections, glob, random, re, sys
import scale
from retain.app import App
from retain.index.embed import embedder

root, size, docs = sys.argv[1], int(sys.argv[2]), sys.argv[3]
real = embedder("bundled")
ENGLISH = {
    "automobiles": "# Automobiles\\n\\nThe mechanic repairs automobiles.",
    "deploy": "# Releases\\n\\nA tag on the main branch builds the image; Friday is forbidden.",
    "tea": "# Tea\\n\\nThe green one wants eighty degrees and two minutes, no longer.",
    "keys": "# Keys\\n\\nThe spare one for the shed hangs behind the calendar.",
    "bikes": "# Bicycles\\n\\nThe chain gets oil every three hundred kilometres.",
}

class Mixed(scale.RandomModel):
    name, dimension = real.name, len(real.query(""))

    def embed(self, texts):
        vectors = super().embed(texts)
        for at, text in enumerate(texts):
            if any(said.partition("\\n\\n")[2] in text for said in ENGLISH.values()):
                vectors[at] = real.embed([text])[0]
        return vectors

random.seed(scale.SEED)
texts = [open(path, encoding="utf-8").read() for path in glob.glob(f"{docs}/*.md")]
counts = collections.Counter(re.findall("[a-z]{2,}", " ".join(texts).casefold()))
words = [word for word, _ in counts.most_common()]
scale.write(root, size, words)
for name, text in ENGLISH.items():
    with open(f"{root}/collection-0/{name}.md", "w", encoding="utf-8") as file:
        file.write(text + "\\n")
with open(f"{root}/USER.md", "w", encoding="utf-8") as file:
    file.write("Ada, who works on compilers.\\n")
app = App(bank=root)
with scale.model(Mixed()):
    app.sync()
    app.make_vectors()
app.close()
with open(f"{root}/collection-2/note-1002.md", encoding="utf-8") as file:
    body = file.read().rpartition("---")[2].split()
print("please look at", *body[20:32])
"""


class Case(NamedTuple):
    """One thing that is timed, and what must come out of it."""

    words: list[str]
    env: dict[str, str]
    cwd: str
    payload: dict[str, Any]
    limit: float = 0.0
    code: int = 0
    has: str = ""  # in what it prints; empty: it prints nothing


class Times:
    """What a case took, by the clock and of the processor, in seconds."""

    def __init__(self) -> None:
        self.clock: list[float] = []
        self.processor: list[float] = []

    def p(self, share: float) -> float:
        ordered = sorted(self.clock)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--memories", type=int, default=10_000)
    options.add_argument("--python", default="", help="an environment that has Retain installed")
    args = options.parse_args()
    scratch = os.path.realpath(tempfile.mkdtemp(prefix="retain-bench-"))
    try:
        python = args.python or speed.installed(scratch)
        with cases(python, scratch, args.memories) as found:
            report(measured(found, args.rounds), found, args.rounds)
    finally:
        shutil.rmtree(scratch)
        for path in glob.glob("/tmp/.memory-triage-context-*.txt"):
            if os.path.getmtime(path) > START and _is_ours(path):
                os.unlink(path)


START = time.time()


def _is_ours(path: str) -> bool:
    import hashlib

    return path.endswith(f"-{hashlib.sha256(SESSION.encode()).hexdigest()[:8]}.txt")


# What is timed


@contextlib.contextmanager
def cases(python: str, scratch: str, memories: int) -> Iterator[dict[str, Case]]:
    """Every case, while a server runs for one of two equal banks."""
    retain = os.path.join(os.path.dirname(python), "retain")
    env = world(scratch)
    cold, warm = (os.path.join(scratch, name) for name in ("cold", "warm"))
    prompt, _ = (prepared(python, project, memories, env) for project in (cold, warm))
    quiet, loud = (os.path.join(scratch, f"{name}.jsonl") for name in ("quiet", "loud"))
    write_transcript(quiet, tools=False)
    write_transcript(loud, tools=True)

    def hook(event: str, cwd: str, **payload: Any) -> tuple[list[str], dict[str, str], str, Any]:
        base = {"session_id": SESSION, "cwd": cwd, "permission_mode": "default"}
        return [retain, "hook", event], env, cwd, {**base, **payload}

    def write(path: str) -> dict[str, Any]:
        return {"tool_name": "Write", "tool_input": {"file_path": path, "content": "x" * 4000}}

    stop = {"stop_hook_active": False, "last_assistant_message": "That is all for today."}
    inside = os.path.join(cold, ".retain", "collection-0", "note-0.md")
    made = {
        "python -I -c pass": Case([python, "-I", "-c", "pass"], env, cold, {}),
        "import json, sqlite3, re": Case(
            [python, "-I", "-c", "import json, sqlite3, re"], env, cold, {}
        ),
        "prompt, no server": Case(
            *hook("user-prompt-submit", cold, prompt=prompt), LIMITS["prompt"], has="note-1002"
        ),
        "prompt, no server, nothing fits": Case(
            *hook("user-prompt-submit", cold, prompt=MEANT), LIMITS["prompt"]
        ),
        "prompt, warm server": Case(
            *hook("user-prompt-submit", warm, prompt=MEANT), LIMITS["prompt"], has="Automobiles"
        ),
        # Fifty messages are worth a summary, whatever is in them, unless it is switched off.
        "stop, 5 MB, passes": Case(
            *hook("stop", cold, transcript_path=quiet, **stop), LIMITS["stop"]
        )._replace(env={**env, "RETAIN_CATEGORIES_SESSION_SUMMARY_AUTO_CAPTURE": "false"}),
        "stop, 5 MB, blocks": Case(
            *hook("stop", cold, transcript_path=loud, **stop), LIMITS["stop"], 2, "[DECISION]"
        ),
        "guard allows": Case(
            *hook("pre-tool-use", cold, **write(os.path.join(cold, "src", "main.py"))),
            LIMITS["guard"],
        ),
        "guard denies": Case(
            *hook("pre-tool-use", cold, **write(inside)), LIMITS["guard"], has='"deny"'
        ),
        "session start": Case(*hook("session-start", cold, source="startup"), has="Ada"),
        "session end": Case(*hook("session-end", cold, transcript_path=loud, reason="other")),
    }
    serving = subprocess.Popen(
        [retain, "serve"],  # not with --bank: a hook asks for the project's bank and one's own
        env=env,
        cwd=warm,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert serving.stdout
        assert serving.stdout.readline().startswith("Listening")
        yield made
    finally:
        serving.terminate()
        serving.wait(30)


def world(home: str) -> dict[str, str]:
    """A person's environment with nothing in it but a home directory."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    run = os.path.join(home, ".run")
    os.makedirs(run, 0o700, exist_ok=True)
    return {
        **kept,
        "HOME": home,
        "RETAIN_HOME": os.path.join(home, "own"),
        "XDG_RUNTIME_DIR": run,
        "RETAIN_HOOKS_DEADLINE_MS": "10000",
        "OPENBLAS_NUM_THREADS": "1",
    }


def prepared(python: str, project: str, memories: int, env: dict[str, str]) -> str:
    """Make an indexed bank in a project; a prompt that one of its memories answers."""
    done = subprocess.run(
        [python, "-c", PREPARE, os.path.join(project, ".retain"), str(memories), DOCS],
        env={**env, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))},
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    print(f"{memories:,} memories indexed", file=sys.stderr)
    return done.stdout.strip()


def write_transcript(path: str, *, tools: bool) -> None:
    """Five megabytes of a session: results of tools, at the end plain talk or a decision."""
    used = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/src/main.py"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "line of code\n" * 1500}
    talk = "The next page shows the same figures, with another colour for each of the rows. " * 20
    chosen = "We decided on Postgres because one writer is not enough."
    pair = [line("assistant", [used]), line("user", [result])]
    ending = []
    for number in range(30):
        ending.append(line("user", f"And page {number}?"))
        ending += pair if tools else []
        said = f"{talk}\n{chosen}" if tools and number > 20 else talk
        ending.append(line("assistant", [{"type": "text", "text": said}]))
    size = sum(map(len, ending))
    with open(path, "w", encoding="utf-8") as file:
        while size < TRANSCRIPT_BYTES:
            file.writelines(pair)
            size += sum(map(len, pair))
        file.writelines(ending)


def line(role: str, content: object) -> str:
    message = {"role": role, "content": content, "id": f"msg_{random.random()}"}
    common = {"isSidechain": False, "userType": "external", "cwd": "/p", "sessionId": SESSION}
    return json.dumps({**common, "type": role, "message": message, "uuid": "u"}) + "\n"


# Timing it


def measured(found: dict[str, Case], rounds: int) -> dict[str, Times]:
    times = {name: Times() for name in found}
    for number in range(rounds + 2):
        for name in random.sample(list(found), len(found)):
            forget(found[name].cwd, found[name].env["HOME"])
            clock, processor = once(name, found[name])
            if number > 1:  # the first rounds fill the caches
                times[name].clock.append(clock)
                times[name].processor.append(processor)
        print(f"\rround {number}/{rounds + 1}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return times


def forget(project: str, home: str) -> None:
    """Make every run the first one of its session."""
    states = os.path.join(home, ".local", "state", "retain", "banks", "*", "hooks", "*.json")
    for path in (*glob.glob(states), os.path.join(project, ".claude", ".stop_hook_active")):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def once(name: str, case: Case) -> tuple[float, float]:
    payload = json.dumps(case.payload).encode()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        case.words, env=case.env, cwd=case.cwd, input=payload, check=False, capture_output=True
    )
    took = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = (done.stdout + done.stderr).decode()
    if done.returncode != case.code or case.has not in said or (said and not case.has):
        sys.exit(f"{name}: exit code {done.returncode}, not expected: {said[:2000]!r}")
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(times: dict[str, Times], found: dict[str, Case], rounds: int) -> None:
    bare = times["python -I -c pass"]
    cpu = statistics.median(bare.processor)
    load = os.getloadavg()[1]
    print(f"{rounds} rounds, {os.cpu_count()} cores, load {load:.1f}; ratios to the first line\n")
    print("| hook | p50 ms | p99 ms | best ms | x p50 | x p99 | x best | x processor | limit | |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, one in times.items():
        ratio = one.p(0.5) / bare.p(0.5)
        limit = found[name].limit
        verdict = "" if not limit else "met" if ratio <= limit else "MISSED"
        print(
            f"| {name} | {one.p(0.5) * 1000:.1f} | {one.p(0.99) * 1000:.1f} "
            f"| {min(one.clock) * 1000:.1f} | {ratio:.2f} | {one.p(0.99) / bare.p(0.99):.2f} "
            f"| {min(one.clock) / min(bare.clock):.2f} "
            f"| {statistics.median(one.processor) / cpu:.2f} | {limit or ''} | {verdict} |"
        )


if __name__ == "__main__":
    main()
