"""How far a call walks: the modules and functions of Retain that one command passes.

    python bench/walk.py

Runs `put`, `update`, `get`, `search` and the prompt hook in processes of their own, with a profile
hook that counts calls to functions of Retain, and says how often a memory's file was read.
A number here is a sign of how much a reader has to know to follow one call.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

COUNT = r"""
import json, os, sys

OPTIMIZED = 1  # set for functions alone
COMPREHENSIONS = ("<dictcomp>", "<genexpr>", "<listcomp>", "<setcomp>")
calls, functions, modules, crossings, reads = 0, set(), set(), 0, 0

def is_loading(frame):
    return frame is not None and not frame.f_code.co_flags & OPTIMIZED

def profile(frame, event, arg):
    global calls, crossings
    if event != "call":
        return
    name = frame.f_globals.get("__name__", "")
    code = frame.f_code
    # Not the body of a module or a class, nor what one calls: that is loading, not walking.
    is_body = not code.co_flags & OPTIMIZED or code.co_qualname in COMPREHENSIONS
    if not name.startswith("retain") or is_body or is_loading(frame.f_back):
        return
    calls += 1
    functions.add((name, code.co_qualname))
    modules.add(name)
    back = frame.f_back
    if back is not None and back.f_globals.get("__name__", "") != name:
        crossings += 1

def audit(event, args):
    global reads
    if event == "open" and isinstance(args[0], (str, bytes)):
        path = os.fsdecode(args[0])
        flags = args[2] if isinstance(args[2], int) else 0
        if path.endswith("note.md") and not flags & (os.O_WRONLY | os.O_RDWR):
            reads += 1

def report(*_):
    sys.setprofile(None)
    answer = [calls, len(functions), len(modules), crossings, reads]
    os.write(3, json.dumps([answer, sorted(modules)]).encode())

leave = os._exit
def leaving(code):
    report()
    leave(code)
os._exit = leaving
sys.addaudithook(audit)
from retain.cli import main
sys.setprofile(profile)
try:
    main()
except SystemExit:
    pass
report()
"""
CASES = (
    ("put", ["put", "-", "--id", "new", "--quiet"], "# New\n\nThe walrus sleeps on the ice.\n"),
    ("update", ["update", "note", "--tags", "b", "--quiet"], ""),
    ("get", ["get", "note"], ""),
    ("list", ["list"], ""),
    ("search, words", ["search", "walrus", "--text"], ""),
    ("search", ["search", "walrus"], ""),
    ("prompt hook", ["hook", "user-prompt-submit"], ""),
)


def walk(words: list[str], text: str, cwd: str, env: dict[str, str]) -> tuple[list[int], list[str]]:
    """Run one command under the profile hook: its counts, and the modules it passed."""
    read, write = os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-c", f"import os\nos.dup2({write}, 3)\n{COUNT}", *words],
            input=text.encode(),
            cwd=cwd,
            env=env,
            pass_fds=(write,),
            stdout=subprocess.DEVNULL,
            check=False,
        )
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as stream:
            counts, modules = json.load(stream)
    except BaseException:
        os.close(read)
        raise
    return counts, modules


def main() -> None:
    """Print a row for each command."""
    names = "--modules" in sys.argv[1:]
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, "RETAIN_RECALL_DEADLINE": "60"}
        project = os.path.join(home, "project")
        os.mkdir(project)
        retain = [sys.executable, "-m", "retain"]
        subprocess.run([*retain, "init", "--quiet"], cwd=project, env=env, check=True)
        note = "# Note\n\nThe walrus is a large mammal of the Arctic sea.\n"
        subprocess.run(
            [*retain, "put", "-", "--id", "note", "--tags", "walrus", "--quiet"],
            input=note.encode(),
            cwd=project,
            env=env,
            check=True,
        )
        print(
            f"{'walk':16}{'modules':>8}{'functions':>11}{'calls':>8}{'crossings':>11}{'reads':>7}"
        )
        for label, words, text in CASES:
            event = {"session_id": "s", "cwd": project, "prompt": "the arctic walrus"}
            stdin = json.dumps(event) if words[0] == "hook" else text
            counts, modules = walk(words, stdin, project, env)
            calls, functions, passed, crossings, reads = counts
            print(f"{label:16}{passed:>8}{functions:>11}{calls:>8}{crossings:>11}{reads:>7}")
            if names:
                print("   " + " ".join(name.removeprefix("retain.") for name in modules))


if __name__ == "__main__":
    main()
