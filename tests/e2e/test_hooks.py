"""`retain hook EVENT` as a host runs it: whatever happens, the host goes on (promise R18)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from retain.hooks import EVENTS
from tests.capture.proposals import inbox
from tests.cli.door import done
from tests.conftest import Ran, Run, command
from tests.hooks.door import DECIDED, SESSION, kept, record, said

ASKED = "which oil does the lantern burn"
PATIENT = {"RETAIN_HOOKS_DEADLINE_MS": "10000"}  # a busy machine must not decide a test


@pytest.fixture
def work(home: Path) -> Path:
    return home / "work"


@pytest.fixture
def bank(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bank in which the prompt's hook and the session's have something to say."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")
    done("put", "-", "--id", "lantern", "--title", "Lantern", input="The lantern burns whale oil.")
    kept(work / ".retain", "constraint")
    return work / ".retain"


@pytest.fixture
def payload(work: Path) -> dict[str, object]:
    """One payload that has what every event needs."""
    return {
        "session_id": SESSION,
        "cwd": str(work),
        "transcript_path": said(work / "t.jsonl", "All is well."),
        "prompt": ASKED,
        "source": "startup",
        "tool_name": "Write",
        "tool_input": {"file_path": str(work / ".retain" / "memories" / "new.md"), "content": "x"},
        "stop_hook_active": False,
        "compact_summary": "They mended the lantern.",
    }


def answered(ran: Ran, code: int = 0) -> dict[str, object]:
    """The JSON that a host is told; empty for nothing."""
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err
    answer: dict[str, object] = json.loads(ran.out) if ran.out else {}
    return answer


def context(ran: Ran) -> str:
    answer = answered(ran).get("hookSpecificOutput")
    return str(answer["additionalContext"]) if isinstance(answer, dict) else ""


# What a host sends


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("data", [b"", b"{", b"[]"])
def test_what_is_no_payload_is_answered_with_nothing(event: str, data: bytes, run: Run) -> None:
    assert run("hook", event, input=data) == (0, "", "")


def test_a_session_from_its_start_to_its_compaction(
    bank: Path, work: Path, payload: dict[str, object], run: Run
) -> None:
    def hook(event: str, **more: object) -> Ran:
        return run("hook", event, input=json.dumps({**payload, **more}), env=PATIENT)

    assert "Constraints:\n- [CONSTRAINT] The one of its kind" in context(hook("session-start"))
    assert "The lantern burns whale oil." in context(hook("user-prompt-submit"))
    assert hook("user-prompt-submit") == (0, "", "")
    ran = hook("pre-tool-use")
    assert ('"permissionDecision": "deny"' in ran.out, ran.err) == (True, "")
    assert hook("pre-tool-use", tool_input={"file_path": str(work / "main.py")}) == (0, "", "")
    path = bank / "decisions" / "bad.json"
    path.parent.mkdir()
    path.write_text(json.dumps(record("runbook")), encoding="utf-8")
    ran = hook("post-tool-use", tool_input={"file_path": str(path)})
    assert answered(ran)["decision"] == "block"
    assert "ERROR: Schema validation failed: category 'runbook'" in ran.err
    assert os.listdir(path.parent)[0].startswith("bad.json.invalid.")
    said(work / "t.jsonl", DECIDED)
    ran = hook("stop")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("The following items should be saved as memories before stopping:\n")
    file = json.loads(ran.err.partition("<triage_data>")[2].partition("</triage_data>")[0])
    os.unlink(file["categories"][0]["context_file"])
    assert hook("stop", stop_hook_active=True) == (0, "", "")
    assert hook("post-compact") == (0, "", "")
    kinds = [one.category for one in inbox(bank).proposals()]
    assert sorted(kinds) == ["decision", "session_summary"]


# What may be wrong around it


@pytest.mark.parametrize("event", EVENTS)
def test_without_a_bank(event: str, payload: Mapping[str, object], run: Run, home: Path) -> None:
    ran = run("hook", event, input=json.dumps(payload))
    answered(ran)
    assert not (home / ".retain").exists()


@pytest.mark.parametrize(
    "event, whose", [*((event, "project") for event in EVENTS), ("stop", "person")]
)
def test_with_a_broken_config(
    event: str, whose: str, bank: Path, home: Path, payload: Mapping[str, object], run: Run
) -> None:
    root = bank if whose == "project" else home / ".retain"
    root.mkdir(exist_ok=True)
    (root / "config.toml").write_text("= not [ toml", encoding="utf-8")
    ran = run("hook", event, input=json.dumps(payload))
    if event == "pre-tool-use":  # settings that cannot be read leave the guard on
        assert "deny" in ran.out
        return
    assert answered(ran) == {}
    if event != "post-tool-use":  # nothing was written
        assert ran.err.startswith("retain hook: ConfigError: ")
        assert ran.err.count("\n") == 1


# Takes every lock there is, says so, and keeps them until it is told to let go.
HOLDER = """
import fcntl, os, sqlite3, sys
from retain.locate import state_directory
root = sys.argv[1]
state = state_directory(root, os.environ)
held = [os.open(path, os.O_RDONLY) for path in (state, root)]
for fd in held:
    fcntl.flock(fd, fcntl.LOCK_EX)
connection = sqlite3.connect(f"{state}/index.db")
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
connection.execute("ROLLBACK")
print("let go", flush=True)
"""


@pytest.mark.parametrize("event", EVENTS)
def test_an_answer_does_not_wait_for_who_holds_the_locks(
    event: str, bank: Path, work: Path, payload: Mapping[str, object], run: Run
) -> None:
    """Who waited would wait for ever, or give up and say so."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(bank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        ran = run("hook", event, input=json.dumps(payload), env=PATIENT, timeout=60)
        assert holder.poll() is None
        holder.stdin.close()
        assert holder.stdout.read() == b"let go\n"
    answered(ran)
    assert ran.err == ""
    # A prompt has no answer while nobody can read the index.
    said = {"session-start": "[CONSTRAINT]", "pre-tool-use": "deny"}
    assert said.get(event, "") in ran.out
    waiting = [one.text for one in inbox(bank).proposals()]
    assert waiting == (["They mended the lantern."] if event == "post-compact" else [])


def test_in_a_directory_that_is_gone(payload: Mapping[str, object]) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    words = ["sh", "-c", script, "sh", *command(), "hook", "stop"]
    ran = subprocess.run(
        words, input=b'{"transcript_path": "/tmp/x"}', capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, b"")


@pytest.mark.parametrize(
    "event, closed",
    [
        *((event, "<&- >&- 2>&-") for event in ("stop", "session-start")),
        *(("user-prompt-submit", closed) for closed in ("<&-", ">&-", "2>&-")),
    ],
)
def test_with_closed_streams(
    event: str, closed: str, bank: Path, payload: Mapping[str, object]
) -> None:
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", *command(), "hook", event]
    ran = subprocess.run(
        words, input=json.dumps(payload).encode(), capture_output=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert bool(ran.stdout) <= (closed == "2>&-")


# A host that does not let go


@contextlib.contextmanager
def _asked(event: str, data: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """A hook whose input stays open."""
    child = subprocess.Popen(
        [*command(), "hook", event],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **PATIENT},
    )
    with child:
        try:
            assert child.stdin
            child.stdin.write(data)
            child.stdin.flush()
            yield child
        finally:
            child.kill()


def _output(child: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    """What a process says until it leaves, with its input open all the while."""
    assert child.stdout
    assert child.stderr
    out, err = child.stdout.read(), child.stderr.read()
    return child.wait(60), out, err


def test_an_answer_comes_once_the_object_is_whole(
    bank: Path, payload: Mapping[str, object]
) -> None:
    with _asked("user-prompt-submit", json.dumps(payload).encode()) as child:
        code, out, err = _output(child)
    assert (code, err) == (0, b"")
    assert b"whale oil" in out


@pytest.mark.parametrize("data", [b"", b'{"prompt": "half of', b'{"a": {}'], ids=ascii)
def test_a_host_that_never_goes_on_is_not_waited_for(data: bytes, bank: Path) -> None:
    with _asked("user-prompt-submit", data) as child:
        assert _output(child) == (0, b"", b"")


def test_a_host_that_has_gone_is_not_complained_about(
    bank: Path, payload: Mapping[str, object]
) -> None:
    with _asked("user-prompt-submit", b"") as child:
        assert child.stdin
        assert child.stdout
        assert child.stderr
        child.stdout.close()
        child.stdin.write(json.dumps(payload).encode())
        child.stdin.close()
        assert (child.wait(60), child.stderr.read()) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="/proc tells what is caught")
@pytest.mark.parametrize("event", ["user-prompt-submit", "pre-tool-use", "stop"])
def test_a_host_that_has_no_more_time(event: str, bank: Path) -> None:
    with _asked(event, b"") as child:
        while not _catches(child.pid, signal.SIGTERM):
            assert child.poll() is None
            time.sleep(0.002)
        child.send_signal(signal.SIGTERM)
        assert _output(child) == (0, b"", b"")


def _catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal by now."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


# What is loaded

PROGRAM = """
import os, sys
before = set(sys.modules)
leave = os._exit
def say(code):
    os.write(2, ("LOADED " + " ".join(sorted(set(sys.modules) - before))).encode())
    leave(code)
os._exit = say
from retain.cli import main
main()
"""


def loaded(event: str, payload: Mapping[str, object]) -> set[str]:
    """The modules that an event needs beyond a bare interpreter."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "hook", event],
        input=json.dumps(payload).encode(),
        env={**os.environ, **PATIENT, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    errors, mark, names = ran.stderr.decode().rpartition("LOADED ")
    assert (errors, mark) == ("", "LOADED ")
    return set(names.split())


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_loads_no_large_library(
    event: str, bank: Path, payload: Mapping[str, object]
) -> None:
    elsewhere = {"file_path": str(bank.parent / "main.py"), "content": "x"}
    names = loaded(event, {**payload, "tool_input": elsewhere})
    tops = {name.partition(".")[0] for name in names} - {"retain"}
    foreign = {name for name in tops if name not in sys.stdlib_module_names}
    stemming = {name for name in foreign if name == "Stemmer" or "cython" in name}
    assert foreign <= (stemming if event == "user-prompt-submit" else set())
    assert not tops & {"argparse", "asyncio", "email", "http", "multiprocessing", "ssl", "urllib"}
