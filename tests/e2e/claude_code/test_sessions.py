"""Sessions of the real Claude Code with the plugin: what its model is told, and what is kept."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from retain.app import App
from tests.conftest import ROOT, Run
from tests.e2e.claude_code.messages import Model, say, use
from tests.e2e.claude_code.session import CLIENT, Turn, environment, turn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CLIENT is None, reason="scripts/check installs Claude Code"),
]

SERVER = "mcp__plugin_retain_retain__"
DECIDED = """We decided on Postgres 17 because transactional DDL matters to us.
We chose UUID keys instead of integers, rather than leaking counts."""
CANDIDATE = (
    "retain record candidate --category 'decision' --root '.retain' "
    "--new-info 'Postgres 17 is our storage'"
)
RECORD = {
    "title": "Use Postgres 17",
    "tags": ["storage"],
    "confidence": 0.9,
    "content": {
        "status": "accepted",
        "context": "Migrations must be undone as a whole.",
        "decision": "Postgres 17 is the storage.",
        "rationale": ["transactional DDL"],
    },
}


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's bank, searched by words alone."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    App().init()
    return Path(".retain").resolve()


def hooked(done: Turn, event: str) -> list[int]:
    """The exit codes of an event's hooks, in order."""
    return [one["exit_code"] for one in done.named("hook_response") if one["hook_event"] == event]


def proposals(run: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("inbox", "list", "--json").out)
    return found


def test_a_prompt_brings_a_stored_memory_to_the_model_once() -> None:
    App().put("# Staging database\n\nIt listens on port 6432.\n")
    prompt = "Which port does the staging database listen on?"
    with Model(say("staging", "On 6432.")) as model:
        done = turn(model.url, prompt)
        again = turn(model.url, prompt, "--resume", done.session)
    assert (done.code, done.result) == (0, "On 6432."), done.err
    assert hooked(done, "UserPromptSubmit") == hooked(again, "UserPromptSubmit") == [0]
    first, second = model.asked
    for request in (first, second):  # the second has it from the conversation, not again
        assert len(re.findall(r"<memory-context\b", request.text)) == 1
        assert request.text.count("It listens on port 6432") == 1
        assert "hook error" not in request.text


def test_a_session_without_memories_is_left_alone() -> None:
    with Model(say("Say hello", "Hello.")) as model:
        done = turn(model.url, "Say hello to everyone in the room")
    assert (done.code, done.result) == (0, "Hello.")
    assert "memory-context" not in model.asked[0].text
    codes = [one["exit_code"] for one in done.named("hook_response")]
    assert codes == [0, 0, 0]  # the session's start, the prompt and the stop
    assert not [one for one in done.named("hook_response") if one["stderr"] or one["stdout"]]


def test_a_stop_is_blocked_once_and_what_was_decided_is_saved(bank: Path, run: Run) -> None:
    """The whole flow of the skill, and nothing is allowed but the skill, which allows the rest."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix=".retain-draft-") as folder:
        draft = f"{folder}.json"  # beside it: the directory makes the name nobody else's
        save = (
            "retain record write --action create --category 'decision' "
            f"--target '.retain/decisions/use-postgres-17.md' --input '{draft}'"
        )
        with Model(
            say("Which database", DECIDED),
            use("should be saved as memories", "Skill", skill="retain:memory-management"),
            use("Phase 0", "Bash", command=CANDIDATE, description="Which memory is it?"),
            use('"structural_cud": "CREATE"', "Write", file_path=draft, content=json.dumps(RECORD)),
            use("created successfully", "Bash", command=save, description="Save it"),
            say('"status": "created"', "Saved one decision."),
        ) as model:
            allowed = ["Skill(retain:memory-management)"]
            done = turn(model.url, "Which database do we take?", tools=allowed)
    assert (done.code, done.result) == (0, "Saved one decision."), model.asked[-1].last
    assert model.unsaid == []
    assert hooked(done, "Stop") == [2, 0]
    told = model.asked[1].last
    assert "- [DECISION]" in told
    (category,) = json.loads(re.findall(r"<triage_data>(.*)</triage_data>", told, re.DOTALL)[0])[
        "categories"
    ]
    assert category["category"] == "decision"
    kept = (bank / "decisions/use-postgres-17.md").read_text(encoding="utf-8")
    assert "Postgres 17 is the storage." in kept
    assert not os.path.exists(draft)
    assert [one for one in proposals(run) if one["category"] == "decision"] == []


def test_a_direct_write_into_the_bank_is_denied_and_the_model_is_told_the_way(bank: Path) -> None:
    beside = Path("notes.md").resolve()
    with Model(
        use("Write it", "Write", file_path=str(bank / "memories/x.md"), content="sneaked in"),
        use("hook error", "Write", file_path=str(beside), content="all right"),
        say("created successfully", "Done as it should be."),
    ) as model:
        done = turn(model.url, "Write it down, please", tools=["Write"])
    assert (done.code, done.result) == (0, "Done as it should be."), done.err
    assert not (bank / "memories/x.md").exists()
    assert beside.read_text(encoding="utf-8") == "all right"
    denied = model.asked[1].last
    assert "PreToolUse:Write hook error" in denied
    assert "retain " in denied


def test_the_tools_of_the_server_are_called_and_answer(bank: Path) -> None:
    with Model(
        use("Keep this", f"{SERVER}create_memory", filename="gpu.md", content="Metal is faster."),
        use("created", f"{SERVER}search_memories", query="Metal"),
        say("confident", "Found it."),
    ) as model:
        done = turn(
            model.url,
            "Keep this about the GPU",
            tools=[f"{SERVER}create_memory", f"{SERVER}search_memories"],
        )
    assert (done.code, done.result) == (0, "Found it."), done.err
    (start,) = done.named("init")
    assert {one["name"]: one["status"] for one in start["mcp_servers"]} == {
        "plugin:retain:retain": "connected"
    }
    assert (bank / "memories/gpu.md").read_text(encoding="utf-8").endswith("Metal is faster.")
    assert '"memory_id":"memory:memories/gpu"' in model.asked[2].last


def test_a_compaction_leaves_its_summary_in_the_inbox(run: Run) -> None:
    summary = "<summary>The storage moved to Postgres 17; the reports come next.</summary>"
    with Model(
        say("Move the storage", "The storage is moved."), say("<summary>", summary)
    ) as model:
        done = turn(model.url, "Move the storage to Postgres")
        compacted = turn(model.url, "/compact", "--resume", done.session)
    assert compacted.code == 0, compacted.err
    assert compacted.named("compact_boundary")
    (proposal,) = proposals(run)
    assert proposal["category"] == "session_summary"
    shown = json.loads(run("inbox", "show", "1", "--json").out)
    assert "the reports come next" in json.dumps(shown)


def test_a_slash_command_may_run_retain_and_what_was_typed_is_data() -> None:
    App().put("# GPU\n\nMetal is faster.\n", id="gpu")
    with Model(
        use("</arguments>", "Bash", command="retain get 'gpu'", description="Show it"),
        say("Metal is faster.", "It says that Metal is faster."),
    ) as model:
        done = turn(model.url, "/retain:get gpu")
    assert (done.code, done.result) == (0, "It says that Metal is faster."), done.err
    assert "<arguments>\ngpu\n</arguments>" in model.asked[0].last


def test_the_command_that_saves_may_hand_in_a_draft_as_the_skill_does(bank: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix=".retain-draft-") as folder:
        draft = f"{folder}.json"
        save = (
            "retain record write --action create --category 'decision' "
            f"--target '.retain/decisions/use-postgres-17.md' --input '{draft}'"
        )
        with Model(
            use("</arguments>", "Write", file_path=draft, content=json.dumps(RECORD)),
            use("created successfully", "Bash", command=save, description="Save it"),
            say('"status": "created"', "Saved."),
        ) as model:
            done = turn(model.url, "/retain:save decision Postgres 17 is our storage")
    assert (done.code, done.result) == (0, "Saved."), model.asked[-1].last
    assert (bank / "decisions/use-postgres-17.md").exists()


def test_the_plugin_installs_from_the_repository() -> None:
    def claude(*words: str) -> str:
        done = subprocess.run(
            [str(CLIENT), "plugin", *words],
            capture_output=True,
            check=False,
            encoding="utf-8",
            env=environment("http://127.0.0.1:9"),
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    claude("marketplace", "add", str(ROOT))
    claude("install", "retain@retain")
    assert "retain@retain" in claude("list")
    assert os.listdir(Path(os.environ["HOME"], ".claude/plugins/cache/retain/retain"))
