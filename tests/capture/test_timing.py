"""What transcripts say of our hooks is counted once, and nobody else's is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from retain.capture import timing
from retain.hooks.context import Entry, Part, fenced
from retain.sizes import tokens

BRIEF, _ = fenced(
    [Part("", [Entry("decision", "Use Postgres", ".retain/a.md"), Entry("fact", "Tea", "b.md")])],
    ".retain/",
    500,
)
REFUSAL = "Direct writes to the memory directory are blocked: Retain checks, versions and indexes"


def attachment(kind: object = "hook_success", **values: object) -> dict[str, object]:
    return {
        "type": "attachment",
        "timestamp": "2026-11-16T05:30:22.128Z",
        "attachment": {"type": kind, "hookEvent": "UserPromptSubmit", **values},
    }


def ran(took: float, **values: object) -> dict[str, object]:
    told: dict[str, object] = {"command": "retain hook user-prompt-submit", "stdout": ""}
    return attachment(**told | {"exitCode": 0, "durationMs": took} | values)


def stop(infos: object, errors: object = ()) -> dict[str, object]:
    return {"type": "system", "subtype": "stop_hook_summary", "hookInfos": infos,
            "hookErrors": errors}  # fmt: skip


def read(tmp_path: Path, *records: object, since: str = "") -> Mapping[str, timing.Tally]:
    path = tmp_path / "session.jsonl"
    lines = (one if isinstance(one, str) else json.dumps(one) for one in records)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return timing.read([str(path)], since).events


def one(tmp_path: Path, *records: object) -> timing.Tally:
    (tally,) = read(tmp_path, *records).values()
    return tally


@pytest.mark.parametrize("took", ["1e999", "-1e999", "NaN", "1" + "0" * 400, "1e9", "-1"])
def test_a_time_that_is_none_is_not_counted(tmp_path: Path, took: str) -> None:
    line = json.dumps(ran(25)).replace('"durationMs": 25', f'"durationMs": {took}')
    tally = one(tmp_path, line, ran(25))
    assert (tally.runs, tally.times) == (2, [25])


# Whose hooks they are


@pytest.mark.parametrize(
    "command",
    [
        "retain hook user-prompt-submit",
        "/home/ada/.local/bin/retain hook user-prompt-submit",
        '"/opt/my tools/retain" hook user-prompt-submit',
        "python3 -m retain hook user-prompt-submit",
        "Retain: recalling memories",
        "retain",
    ],
)
def test_commands_of_ours_count(tmp_path: Path, command: str) -> None:
    assert one(tmp_path, ran(31, command=command)).times == [31]


@pytest.mark.parametrize(
    "command",
    ["", "echo retained hook", "${CLAUDE_PLUGIN_ROOT}/hooks/log.sh", "retainer hook x", "mem hook"],
)
def test_commands_of_others_do_not(tmp_path: Path, command: str) -> None:
    foreign = '<memory-context source=".claude/memory/">\n- [X] y -> z\n</memory-context>'
    assert read(tmp_path, ran(31, command=command, stdout=foreign)) == {}


def test_a_command_of_another_name_is_known_by_what_it_said(tmp_path: Path) -> None:
    assert one(tmp_path, ran(31, command="memory.sh", stdout=BRIEF)).memories == 2


# What is counted


def test_injected_text_is_counted_in_memories_characters_and_tokens(tmp_path: Path) -> None:
    said = {"hookSpecificOutput": {"hookEventName": "x", "additionalContext": BRIEF}}
    for stdout in (BRIEF, json.dumps(said)):
        tally = one(tmp_path, ran(31, stdout=stdout))
        assert (tally.runs, tally.memories) == (1, 2)
        assert (tally.characters, tally.tokens) == (len(BRIEF), tokens(BRIEF))


def test_json_without_a_context_injects_nothing(tmp_path: Path) -> None:
    for stdout in ('{"systemMessage": "hi"}', "[1]", '{"hookSpecificOutput": 3}'):
        assert one(tmp_path, ran(31, stdout=stdout)).characters == (
            0 if stdout != "[1]" else len(stdout)
        )


def test_context_alone_is_a_run_without_a_time(tmp_path: Path) -> None:
    tally = one(tmp_path, attachment("hook_additional_context", content=[BRIEF]))
    assert (tally.runs, tally.memories, tally.times) == (1, 2, [])


def test_context_beside_its_run_is_counted_once(tmp_path: Path) -> None:
    said = json.dumps({"hookSpecificOutput": {"additionalContext": BRIEF}})
    noted = attachment("hook_additional_context", content=[BRIEF])
    tally = one(tmp_path, ran(31, stdout=said), noted)
    assert (tally.runs, tally.memories) == (1, 2)


def test_context_of_others_is_not_ours(tmp_path: Path) -> None:
    assert read(tmp_path, attachment("hook_additional_context", content=["- [X] y"])) == {}


def test_failures_and_blocks_are_told_apart(tmp_path: Path) -> None:
    tally = one(
        tmp_path,
        ran(1),
        ran(2, exitCode=1),
        ran(3, type="hook_cancelled", exitCode=None),
        ran(4, type="hook_blocking_error", exitCode=None),
        ran(5, exitCode=2),
    )
    assert (tally.runs, tally.failures, tally.blocks) == (5, 2, 2)


def test_stops_are_in_a_line_of_their_own(tmp_path: Path) -> None:
    ours = "Retain: looking for memories to save"
    events = read(
        tmp_path,
        stop([{"command": ours, "durationMs": 25}, {"command": "other", "durationMs": 9}]),
        stop(
            [{"command": ours}], ["[retain hook stop]: The following items\n", "[x]: retain hook"]
        ),
        stop([{"command": "other"}], ["[other]: no"]),
        stop([{"command": "Looking for memories"}], ["[retain hook stop]: The following"]),
        stop("nonsense", 3),
    )
    tally = events["Stop"]
    assert (tally.runs, tally.times, tally.blocks) == (3, [25], 2)


def test_a_stop_that_said_something_has_two_lines_and_is_one_run(tmp_path: Path) -> None:
    ours = {"command": "Retain: looking for memories to save", "durationMs": 96}
    said = attachment(hookEvent="Stop", exitCode=0, stderr="a note", toolUseID="s1", **ours)
    tally = one(tmp_path, said, {**stop([ours]), "toolUseID": "s1"})
    assert (tally.runs, tally.times) == (1, [96])
    tally = one(tmp_path, said, {**stop([ours]), "toolUseID": "s2"})
    assert (tally.runs, tally.times) == (2, [96, 96])


def test_a_run_that_failed_is_not_timed(tmp_path: Path) -> None:
    ours = {"command": "Retain: looking for memories to save", "durationMs": 2}
    failed = attachment(
        "hook_non_blocking_error", hookEvent="Stop", exitCode=1, toolUseID="s1", **ours
    )
    summary = {**stop([ours], ['Executable not found in $PATH: "retain"']), "toolUseID": "s1"}
    tally = one(tmp_path, failed, summary)
    assert (tally.runs, tally.failures, tally.times) == (1, 1, [])


def test_refused_writes_are_in_the_results_of_tools(tmp_path: Path) -> None:
    def result(said: object) -> dict[str, object]:
        content = [{"type": "tool_result", "content": said, "is_error": True}]
        return {"type": "user", "message": {"role": "user", "content": content}}

    refused = result(f"PreToolUse:Write hook error: {REFUSAL}")
    quoted = result(f"the file says: {REFUSAL}")
    tally = one(tmp_path, refused, quoted, result([REFUSAL]), result(None))
    assert (tally.runs, tally.blocks) == (1, 1)


def test_the_refusal_is_the_one_that_the_guard_gives() -> None:
    from retain.hooks import guarding

    assert guarding._REASON.startswith(timing._REFUSED)


# Which lines


def test_what_is_no_line_of_a_transcript_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    lines = [b'{"hook_', b'["hook_"]', b'"hook_"', b"\xff\xfe", b'{"attachment": 3, "hook_": 1}']
    lines += [json.dumps(attachment(hookEvent=None)).encode(), json.dumps(ran(7)).encode()]
    path.write_bytes(b"\n".join(lines))
    found = timing.read([str(path)])
    assert found.events["UserPromptSubmit"].times == [7]
    assert found.bad_lines == 1


def test_a_line_that_a_session_took_along_counts_once(tmp_path: Path) -> None:
    copied = {**ran(7), "uuid": "aca195b5"}
    assert one(tmp_path, copied, copied, {**ran(8), "uuid": "other"}).times == [7, 8]


def test_only_what_is_new_enough_counts(tmp_path: Path) -> None:
    old = {**ran(1), "timestamp": "2026-11-14T00:00:00.000Z"}
    unknown = {**ran(2), "timestamp": None}
    found = read(tmp_path, old, unknown, ran(3), since="2026-11-15T00:00:00")
    assert found["UserPromptSubmit"].times == [3]


def test_a_line_without_end_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_LONGEST_LINE", 1000)
    long = json.dumps(ran(1, stdout="x" * 5000))
    assert one(tmp_path, ran(2), long, ran(3)).times == [2, 3]


def test_progress_reaches_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_OFTEN", 300)
    paths = []
    for name in ("a", "b"):
        path = tmp_path / name
        path.write_text(f"{json.dumps(ran(1))}\n" * 5, encoding="utf-8")
        paths.append(str(path))
    seen: list[tuple[int, int]] = []
    timing.read(paths, progress=lambda done, total: seen.append((done, total)))
    total = sum(map(os.path.getsize, paths))
    assert seen[-1] == (total, total)
    assert len(seen) > 2
    assert seen == sorted(seen)


# Which files


def folder_of(base: Path, cwd: Path) -> Path:
    name = "".join(char if char.isalnum() and char.isascii() else "-" for char in str(cwd))
    folder = base / "projects" / name
    folder.mkdir(parents=True)
    return folder


def env(base: Path) -> dict[str, str]:
    return {"CLAUDE_CONFIG_DIR": str(base)}


def test_transcripts_are_those_of_the_project_around(home: Path, tmp_path: Path) -> None:
    base, work = tmp_path / "claude", Path.cwd()
    own, other = folder_of(base, work), folder_of(base, home / "other_place")
    for folder in (own, other):
        (folder / "s.jsonl").touch()
        (folder / "s.json").touch()
        (folder / "s").mkdir()
    (work / "src").mkdir()
    for cwd in (work, work / "src"):
        assert timing.transcripts(env(base), str(cwd)) == [str(own / "s.jsonl")]
    assert timing.transcripts(env(base), str(home / "nowhere")) == []
    found = timing.transcripts(env(base), str(work), everywhere=True)
    assert sorted(found) == sorted([str(own / "s.jsonl"), str(other / "s.jsonl")])


def test_the_host_s_own_directory_is_the_default(home: Path) -> None:
    (folder_of(home / ".claude", Path.cwd()) / "s.jsonl").touch()
    assert len(timing.transcripts({}, os.getcwd())) == 1


def test_home_is_not_the_project_of_everything_in_it(home: Path, tmp_path: Path) -> None:
    (folder_of(tmp_path, home) / "s.jsonl").touch()
    assert timing.transcripts(env(tmp_path), os.getcwd()) == []


def test_a_long_path_has_a_folder_with_a_digest(tmp_path: Path) -> None:
    cwd = "/srv/" + "deep/" * 50 + "end"
    name = cwd.replace("/", "-")[:200]
    folder = tmp_path / "projects" / f"{name}-1x2y3z"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").touch()
    assert len(timing.transcripts(env(tmp_path), cwd)) == 1


def test_links_lead_nowhere(tmp_path: Path) -> None:
    base, outside = tmp_path / "claude", tmp_path / "outside"
    outside.mkdir()
    (outside / "s.jsonl").write_text(json.dumps(ran(1)), encoding="utf-8")
    own = folder_of(base, Path.cwd())
    (own / "linked.jsonl").symlink_to(outside / "s.jsonl")
    (base / "projects" / "linked").symlink_to(outside)
    os.mkfifo(own / "pipe.jsonl")
    assert timing.transcripts(env(base), os.getcwd(), everywhere=True) == []
    paths = [str(own / "linked.jsonl"), str(own / "pipe.jsonl"), str(own / "missing.jsonl")]
    assert timing.read(paths).events == {}


@pytest.mark.parametrize(
    "times, share, expected",
    [([], 0.5, None), ([7], 0.99, 7), ([1, 2, 3, 4], 0.5, 2), ([4, 3, 2, 1], 0.99, 4)],
)
def test_percentiles_are_times_that_were_measured(
    times: list[float], share: float, expected: Any
) -> None:
    assert timing.percentile(times, share) == expected
