"""One event, made up, answered by a real hook in a process of its own, for a person to look at.

What only reads meets the bank in force. What would propose, block or put something aside meets an
empty bank with the same settings, which is gone afterwards.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from retain.config import CLAUDE_FILE, FILE
from retain.errors import NotFound, RetainError
from retain.hooks import EVENTS, respond
from retain.hooks.call import Call
from retain.paths import STATE

if TYPE_CHECKING:
    from retain.capture.inbox import Proposal
    from retain.place import Place

__all__ = ["NO_FIT", "READS", "SESSION", "Trial", "tried"]

SESSION: Final = "retain-hook-test"
READS: Final = ("session-start", "user-prompt-submit", "pre-tool-use")

NO_FIT: Final = "No memory fits the prompt well enough."

_OUT_OF_TIME: Final = "There was no time: with more than hooks.deadline_ms it has an answer."
_PATIENT: Final = "10000"
_LEAST_CHARS: Final = 10  # of a prompt that asks for anything
_SECONDS: Final = 30
_MOST_BYTES: Final = 2_000_000
_NO_MEMORY: Final = '{"category": "decision", "title": "Written past Retain"}\n'
_LAST: Final = "We decided on Postgres over SQLite because one writer is not enough."
_SUMMARY: Final = (
    "The database was chosen: Postgres, because one writer is not enough. The schema is moved; "
    "the backups are next."
)
_USED: Final = ("Read", "Grep", "Edit", "Bash", "Read", "Edit", "Write", "Bash")


class Trial(NamedTuple):
    """What a hook was told, what it answered, and how long that took from outside."""

    event: str
    payload: Mapping[str, object]
    code: int
    milliseconds: float
    out: str
    err: str
    proposals: tuple[Proposal, ...]
    why: str = ""  # why it said nothing, where it did; empty when that is not known


class _Scene(NamedTuple):
    """Where a hook is tried."""

    root: str
    cwd: str
    transcript: str
    env: Mapping[str, str]


def tried(
    event: str,
    place: Place,
    env: Mapping[str, str],
    given: Mapping[str, object],
    *,
    is_named: bool = False,
    file: str = "",
) -> Trial:
    """Answer one event about a bank; `given` replaces parts of the made-up payload."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="retain-hook-test-") as scratch, _no_traces(place):
        scene = _scene(event, place, os.path.realpath(scratch), env, is_named)
        payload = {**_sample(event, scene), **given, "session_id": SESSION, "cwd": scene.cwd}
        if event in ("pre-tool-use", "post-tool-use"):
            payload["tool_input"] = _written(event, scene, place, file, payload["tool_input"])
        elif file:
            payload["transcript_path"] = os.path.abspath(file)
        start = time.perf_counter()
        done = subprocess.run(
            # -P: a module in the project must not take the place of one of ours.
            [sys.executable, "-P", "-m", "retain", "hook", event],
            input=json.dumps(payload).encode(),
            env={**scene.env},
            cwd=scene.cwd,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        took = (time.perf_counter() - start) * 1000
        out, err = (said.decode(errors="replace") for said in (done.stdout, done.stderr))
        proposals = () if event in READS else _proposed(scene.root)
        told = Trial(event, payload, done.returncode, took, out, err, proposals)
        is_silent = not (out.strip() or err.strip() or proposals)
        return told._replace(why=_reason(told, scene)) if is_silent else told


# Why it says nothing


def _reason(done: Trial, scene: _Scene) -> str:
    """Why a hook had nothing to say: the same questions asked again, with time enough."""
    patient = {**scene.env, "RETAIN_HOOKS_DEADLINE_MS": _PATIENT}
    call = Call(done.event, done.payload, patient, time.monotonic())
    try:
        asks = {
            "session-start": _no_brief,
            "user-prompt-submit": _no_memories,
            "pre-tool-use": _no_guard,
            "post-tool-use": _no_guard,
            "post-compact": _no_summary,
        }
        return asks.get(done.event, _no_signs)(call, scene)
    except RetainError as error:
        return error.message


def _no_bank(call: Call) -> str:
    places = [place for place, _ in call.places.readable() if place.exists]
    return "" if places else "There is no bank here: `retain init` makes one."


def _no_brief(call: Call, scene: _Scene) -> str:  # noqa: ARG001 - one shape for all
    return _no_bank(call) or (
        "The bank has no preference, constraint, open work or session summary in force yet."
    )


def _no_memories(call: Call, scene: _Scene) -> str:  # noqa: ARG001 - one shape for all
    from retain.hooks import prompting

    prompt = (call.text("prompt") or call.text("user_prompt")).strip()
    if len(prompt) < _LEAST_CHARS:
        return f"The prompt is too short: fewer than {_LEAST_CHARS} characters ask for nothing."
    for key in ("retrieval.max_inject", "retrieval.budget"):
        if not call.config.number(key):
            return f"{key} is 0 ({call.config.value(key).origin})."
    if why := _no_bank(call):
        return why
    if respond(call.event, call.payload, call.env, time.monotonic()).out:
        return _OUT_OF_TIME
    places = [place for place, _ in call.places.readable() if place.exists]
    found = prompting.recalled(call, places, prompt)
    if found:
        return f"{found[0].title!r} fits, and finds no room in retrieval.budget."
    return NO_FIT


def _no_guard(call: Call, scene: _Scene) -> str:  # noqa: ARG001 - one shape for all
    given = call.payload.get("tool_input")
    path = str(given.get("file_path")) if isinstance(given, dict) else ""
    from retain.ownership import bank_of

    if not bank_of(os.path.realpath(path), call.cwd, call.env):
        return "That file is in no bank, or yours to write."
    return f"{call.payload.get('tool_name')} is no tool that writes files."


def _no_summary(call: Call, scene: _Scene) -> str:  # noqa: ARG001 - one shape for all
    return "" if call.text("compact_summary") else "The payload has no compact_summary."


def _no_signs(call: Call, scene: _Scene) -> str:  # noqa: ARG001 - one shape for all
    """What a transcript scores, where no category reaches its threshold."""
    from retain.capture import transcript, triage
    from retain.hooks.judging import judge

    if call.payload.get("stop_hook_active") is True:
        return "The agent was asked at the stop before: a second one passes."
    path = call.text("transcript_path")
    found = judge(call)
    if found is None or not found.path:
        return f"{path or 'A transcript'} cannot be read, or lies where no host keeps transcripts."
    said = transcript.tail(found.path, found.settings.max_messages)
    anything = found.settings._replace(thresholds=dict.fromkeys(triage.CATEGORIES, 0.0))
    hits = triage.judged(said, anything, call.text("last_assistant_message"))
    if not hits:
        return "Nothing was said in the transcript, or no category is captured."
    needed = found.settings.thresholds
    if call.event == "session-end":
        hits = [hit for hit in hits if hit.category == "session_summary"]
    if any(hit.score >= needed[hit.category] for hit in hits):
        return _OUT_OF_TIME
    scores = (f"{hit.category} {hit.score:.2f} of {needed[hit.category]:g}" for hit in hits)
    return f"No category reaches its threshold (triage.thresholds): {', '.join(scores)}."


# Where it happens


def _scene(
    event: str, place: Place, scratch: str, env: Mapping[str, str], is_named: bool
) -> _Scene:
    transcript = os.path.join(scratch, f"{SESSION}.jsonl")
    with open(transcript, "w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in _conversation())
    if event in READS:
        named = {"RETAIN_BANK": place.root} if is_named else {}
        return _Scene(place.root, os.getcwd(), transcript, {**env, **named})
    # A hook reads transcripts only where hosts keep them.
    cwd = os.path.join(scratch, "project")
    root = os.path.join(cwd, *((".claude", "memory") if place.kind == "claude" else (".retain",)))
    os.makedirs(root)
    for name in (FILE, CLAUDE_FILE):
        with contextlib.suppress(OSError):
            _copy(os.path.join(place.root, name), os.path.join(root, name))
    where = {"RETAIN_BANK": root, "CODEX_HOME": scratch}
    return _Scene(root, cwd, transcript, {**env, **where})


def _copy(source: str, target: str) -> None:
    with open(source, "rb") as file:
        data = file.read(_MOST_BYTES)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(data)


@contextlib.contextmanager
def _no_traces(place: Place) -> Iterator[None]:
    """Remove what a hook keeps of a session, and the directories that were made for it."""
    state = os.path.join(place.root, STATE)
    folder = os.path.join(state, "hooks")
    made = [path for path in (folder, state) if not os.path.lexists(path)]
    _forget(folder)
    try:
        yield
    finally:
        _forget(folder)
        for path in made:
            with contextlib.suppress(OSError):
                os.rmdir(path)


def _forget(folder: str) -> None:
    import glob

    digest = hashlib.sha256(SESSION.encode()).hexdigest()[:8]
    contexts = glob.glob(f"/tmp/.memory-triage-context-*-{digest}.txt")  # noqa: S108 - the hook's own
    for path in (os.path.join(folder, f"{SESSION}.json"), *contexts):
        with contextlib.suppress(OSError):
            os.unlink(path)


def _proposed(root: str) -> tuple[Proposal, ...]:
    from retain.capture import inbox

    return tuple(inbox.proposals(root))


# What it is told


def _sample(event: str, scene: _Scene) -> dict[str, Any]:
    """A payload as Claude Code sends it."""
    own: dict[str, dict[str, Any]] = {
        "session-start": {"source": "startup"},
        "user-prompt-submit": {"prompt": "What did we decide about the database?"},
        "pre-tool-use": _tool(),
        "post-tool-use": {**_tool(), "tool_response": {"type": "create"}, "duration_ms": 7},
        "stop": {
            "stop_hook_active": False,
            "last_assistant_message": _LAST,
            "background_tasks": [],
        },
        "pre-compact": {"trigger": "manual", "custom_instructions": None},
        "post-compact": {"trigger": "manual", "compact_summary": _SUMMARY},
        "session-end": {"reason": "other"},
    }
    return {
        "session_id": SESSION,
        "transcript_path": scene.transcript,
        "cwd": scene.cwd,
        "permission_mode": "default",
        "hook_event_name": EVENTS[event],
        **own[event],
    }


def _tool() -> dict[str, Any]:
    return {
        "tool_name": "Write",
        "tool_input": {"content": _NO_MEMORY},
        "tool_use_id": "toolu_retain_hook_test",
    }


def _written(
    event: str, scene: _Scene, place: Place, file: str, given: object
) -> Mapping[str, object]:
    """The tool's input: the file that is asked about, or a copy of it where it may be moved."""
    told = dict(given) if isinstance(given, dict) else {}
    made = os.path.join(scene.root, "decisions", "written-past-retain.json")
    wanted = file or str(told.get("file_path") or told.get("notebook_path") or "")
    if event == "pre-tool-use" or not wanted:
        path = os.path.abspath(wanted) if wanted else made
        if event == "post-tool-use":
            os.makedirs(os.path.dirname(made), exist_ok=True)
            with open(made, "w", encoding="utf-8") as new:
                new.write(_NO_MEMORY)
        return {**told, "file_path": path}
    real = os.path.realpath(wanted)
    inside = os.path.relpath(real, place.root)
    if inside.startswith(os.pardir):  # it may be of another bank, where it must stay
        elsewhere = os.path.join(os.path.dirname(scene.transcript), "elsewhere")
        return {**told, "file_path": os.path.join(elsewhere, os.path.basename(real))}
    copied = os.path.join(scene.root, inside)
    try:
        _copy(real, copied)
    except OSError as error:
        hint = "--file takes the path of a file that is there."
        raise NotFound(f"{wanted} cannot be read: {error.strerror}", hint=hint) from error
    return {**told, "file_path": copied}


def _conversation() -> Iterator[dict[str, object]]:
    """A session that decides something, as a host writes it down."""
    asked = "We need a database for the new service. Please choose one and set it up."
    yield _line("user", asked)
    for number, name in enumerate(_USED):
        used = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        yield _line("assistant", [used], f"msg_{number}")
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "ok"}
        yield _line("user", [result])
    said = (
        "I compared both and chose Postgres, because several processes write at once.\n"
        "SQLite was the other candidate: simpler, but a single writer."
    )
    yield _line("assistant", [{"type": "text", "text": said}], "msg_said")
    yield _line("user", "Good. Write down why.")
    yield _line("assistant", [{"type": "text", "text": _LAST}], "msg_last")


def _line(role: str, content: object, answer: str = "") -> dict[str, object]:
    message = {"role": role, "content": content, **({"id": answer} if answer else {})}
    return {"type": role, "isSidechain": False, "sessionId": SESSION, "message": message}
