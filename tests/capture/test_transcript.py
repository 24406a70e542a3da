"""What was said, from any host's transcript, and nothing that only a hook or the host put there."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.capture.transcript import (
    HEADING,
    Message,
    first_request,
    is_readable,
    last_messages,
    read_excerpt,
    strip_injected,
)
from tests.capture.transcripts import (
    assistant,
    claude_code,
    codex,
    flat,
    result,
    text,
    tool,
    user,
    written,
)

SAMPLE = Path(__file__).parent / "samples" / "claude-code.jsonl"
MEGABYTE = 1 << 20
CONTINUED = "This session is being continued from a previous conversation that ran out of context."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def spoken(messages: list[Message]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(message.role, message.text, message.tools) for message in messages]


def test_a_real_session_of_claude_code() -> None:
    messages = last_messages(str(SAMPLE), 50)
    assert spoken(messages) == [
        ("user", "please USETOOL now", ()),
        ("assistant", "Running.", ("Bash",)),
        ("assistant", "Hello from the fake model.", ()),
    ]
    raw = SAMPLE.read_bytes()
    lines = [raw[message.start : message.end].splitlines() for message in messages]
    contents = [[json.loads(line)["message"]["content"] for line in part] for part in lines]
    assert contents[0] == ["please USETOOL now"]
    assert [content[0]["type"] for content in contents[1]] == ["text", "tool_use"]


@pytest.mark.parametrize("records", [claude_code(), flat(), codex()])
def test_the_same_conversation_is_the_same_in_every_form(path: Path, records: list[object]) -> None:
    everything = last_messages(written(path, records), 50)
    assert spoken(everything) == [
        ("user", "Please look at the build.", ()),
        ("assistant", "I run it.", ("Bash", "Read")),
        ("assistant", "It failed; the fix is one line.", ("Edit",)),
        ("assistant", "Done.", ()),
        ("user", "Thanks.", ()),
        ("assistant", "", ("Bash",)),
        ("assistant", "You are welcome.", ()),
    ]
    assert first_request(str(path)) == "Please look at the build."
    for most in range(8):
        assert last_messages(str(path), most) == (everything[-most:] if most else [])


def test_lines_of_one_answer_are_one_message(path: Path) -> None:
    records = [
        assistant(text("One."), answer="m1"),
        assistant(tool("Bash"), answer="m1"),
        user([result("ok")]),
        assistant(tool("Read"), answer="m1"),
        assistant(text("Two."), answer="m1"),
        assistant(text("Three."), answer="m2"),
        assistant(text("Four.")),
        assistant(text("Five.")),
    ]
    assert spoken(last_messages(written(path, records), 50)) == [
        ("assistant", "One.\nTwo.", ("Bash", "Read")),
        ("assistant", "Three.", ()),
        ("assistant", "Four.", ()),
        ("assistant", "Five.", ()),
    ]


def test_since_takes_only_lines_that_begin_there_or_later(path: Path) -> None:
    everything = last_messages(written(path, flat()), 50)
    for index, message in enumerate(everything):
        assert last_messages(str(path), 50, message.start) == everything[index:]
        assert last_messages(str(path), 50, message.end) == everything[index + 1 :]
    half = last_messages(str(path), 50, everything[1].start + 1)
    # The rest of that message is a tool, on a line of its own.
    assert spoken(half)[0] == ("assistant", "", ("Bash", "Read"))
    assert last_messages(str(path), 50, path.stat().st_size + 100) == []


@pytest.mark.parametrize(
    "record",
    [
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": ["x"]}},
        {"type": "system", "subtype": "compact_boundary", "content": "x"},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "x"}},
        {"type": "response_item", "payload": {"type": "function_call_output", "output": "x"}},
        {"type": "response_item", "payload": "x"},
        {"type": ["user"], "content": "x"},
        {"type": "user", "content": [None, 7, {"type": {}}, {"type": "text", "text": 7}]},
        user("x", isMeta=True),
        user("x", isSidechain=True),
        user([text("x")], isCompactSummary=True),
        assistant(tool("Bash"), isSidechain=True),
        assistant(text("API Error: rate limit"), isApiErrorMessage=True),
        assistant({"type": "thinking", "thinking": "x"}),
        user([result("x")]),
        user("  \n "),
        user("<command-name>/clear</command-name>\n<command-args></command-args>"),
        user([text("<system-reminder>\nx\n</system-reminder>\n")]),
        user("<system-reminder>\nthe end is missing"),
        user([text("[Request interrupted by user for tool use]")]),
        user("Stop hook feedback:\n- [retain]: " + HEADING),
        user(HEADING + "\n- [DECISION] We chose x (score: 0.42)\n\nUse it.\n<triage_data>{}"),
        user('<hook_prompt hook_run_id="stop:0">' + HEADING + "\n</hook_prompt>"),
        user("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"),
        user(CONTINUED),
    ],
)  # fmt: skip
def test_what_nobody_said_is_left_out(path: Path, record: object) -> None:
    written(path, [record, assistant(text("Hello."), answer="m"), record])
    assert spoken(last_messages(str(path), 50)) == [("assistant", "Hello.", ())]
    assert first_request(str(path)) == ""


@pytest.mark.parametrize(
    "words,left",
    [
        ('Yes.\n<memory-context source="x">\n- [DECISION] We chose x\n</memory-context>', "Yes."),
        ("<memory-context>a</memory-context> b <memory-context>c</memory-context>", "b"),
        ('<recalled-memories trust="data">\nx\n</recalled-memories>\nYes.', "Yes."),
        (f"Yes.\n{HEADING}\n- [DECISION] x\n<triage_data>{{}}</triage_data>\nNo.", "Yes.\n\nNo."),
        (f"Yes.\n{HEADING}\n- [DECISION] x", "Yes."),
        ("Yes.\n<memory-context>\nnever closed", "Yes."),
        ("<memory-context>a</memory-context>\n<memory-context>never closed", ""),
        ("We call it <memory-context> from now on.", "We call it <memory-context> from now on."),
        ("<memory-contexts>a</memory-contexts>", "<memory-contexts>a</memory-contexts>"),
        ("half \ud83d of a face", "half ? of a face"),
        ("", ""),
    ],
)
def test_what_hooks_put_in_is_cut_out_of_any_text(path: Path, words: str, left: str) -> None:
    assert strip_injected(words) == left
    written(path, [user(words), assistant(text(words)), {"type": "human", "content": words}])
    assert [message.text for message in last_messages(str(path), 9)] == ([left] * 3 if left else [])


def test_a_person_is_heard_beside_what_the_host_adds(path: Path) -> None:
    records = [
        user([text("<ide_opened_file>a.py</ide_opened_file>"), text("Explain this.")]),
        user([result("x"), text("And that.")]),
        user("<system-reminder>x</system-reminder>\nThank you."),
        assistant(text("<command-name>/x</command-name> clears it.")),
    ]
    assert [message.text for message in last_messages(written(path, records), 9)] == [
        "Explain this.",
        "And that.",
        "Thank you.",
        "<command-name>/x</command-name> clears it.",
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON",
        b"\0" * 500,
        b"[1, 2]",
        b'{"a":' * 100_000,
        b'{"type": "user", "content": ' + b"9" * 5000 + b"}",
        b"\xff\xfe{}",
        b'{"type": "user", "content": "\xed\xa0',
        b"x" * (6 * MEGABYTE),
    ],
)
def test_bad_lines_are_passed_over(path: Path, line: bytes) -> None:
    good = json.dumps(user("Hello.")).encode()
    path.write_bytes(line + b"\n" + good + b"\n" + line)
    assert [message.text for message in last_messages(str(path), 9)] == ["Hello."]
    assert first_request(str(path)) == "Hello."


def test_the_tail_of_a_long_file_costs_no_more_than_that_of_a_short_one(path: Path) -> None:
    lines = (json.dumps(user("x" * 900)) + "\n").encode() * 100
    with path.open("wb") as file:
        file.truncate(1 << 36)  # a hole, which takes no room and would take hours to read
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + lines)
    tracemalloc.start()
    try:
        assert len(last_messages(str(path), 50)) == 50
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * MEGABYTE


def test_what_is_no_file_is_empty_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    (tmp_path / "link").symlink_to(written(tmp_path / "t.jsonl", [user("Hello.")]))
    (tmp_path / "folder").symlink_to(tmp_path)
    others = (tmp_path, tmp_path / "none", tmp_path / "link", "/dev/zero", "a\0b")
    for path in map(str, (pipe, loop, *others)):
        assert last_messages(path, 9) == []
        assert first_request(path) == ""
        assert not is_readable(path, {"HOME": str(tmp_path)})
    assert is_readable(str(tmp_path / "folder" / "t.jsonl"), {"HOME": str(tmp_path)})


def test_only_files_where_hosts_keep_them_are_read() -> None:
    inside = os.path.realpath(json.__file__)  # a file that is not below /tmp
    home = os.path.dirname(inside)
    outside = os.path.realpath(os.__file__)
    for name in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        assert is_readable(inside, {name: f"{home}/"})
        assert not is_readable(outside, {name: home})
        assert not is_readable(f"{home}/../os.py", {name: home})
        assert not is_readable(inside, {name: home[:-1]})
    for env in ({}, {"HOME": "/"}, {"HOME": ""}, {"HOME": "."}, {"HOME": "a\0b"}):
        assert not is_readable(inside, env)


RECORDS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20)
    | st.sampled_from(["user", "assistant", "tool_use", "response_item", "message", "text"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["type", "message", "content", "payload", "role", "text", "name", "id"]),
        inner,
        max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@given(
    data=st.binary(max_size=400)
    | st.lists(RECORDS, max_size=8).map(
        lambda records: "\n".join(map(json.dumps, records)).encode()
    ),
    cut=st.integers(0, 30),
)
def test_anything_is_a_transcript_of_something(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "t.jsonl"
    data = data[: len(data) - cut]
    path.write_bytes(data)
    at = 0
    for message in last_messages(str(path), 50):
        assert message.role in ("user", "assistant")
        assert message.text or message.tools
        message.text.encode("utf-8")
        assert at <= message.start < message.end <= len(data)
        at = message.end
    first_request(str(path)).encode("utf-8")


# An excerpt for a person


def test_an_excerpt_has_the_messages_of_a_span_without_secrets(path: Path) -> None:
    token = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    many = [user(f"token={token} " + "x" * 10_000)] * 60
    records = [user("before"), *many, assistant(text("Postgres."), tool("x")), user("after")]
    lines = [json.dumps(record) + "\n" for record in records]
    path.write_text("".join(lines), encoding="utf-8")
    env = {"HOME": str(path.parent)}
    end = len("".join(lines[:-1]))
    found = read_excerpt(str(path), len(lines[0]), end, env)
    assert (len(found.messages), found.missing, found.is_cut) == (50, "", True)
    assert token not in found.messages[0].text
    assert len(found.messages[0].text) == 4_000
    found = read_excerpt(str(path), end - len(lines[-2]), end, env)
    assert [(one.role, one.text) for one in found.messages] == [("assistant", "Postgres.")]
    assert not found.is_cut


@pytest.mark.parametrize(
    "name, end, missing",
    [
        ("gone.jsonl", 10, "is gone"),
        ("", 10, "does not name"),
        ("real.jsonl", 0, "does not name"),
        ("id_rsa", 10, "is gone"),
        ("link.jsonl", 10, "is gone"),
        ("nul\0.jsonl", 10, "is gone"),
        ("noise.jsonl", 200_000, "holds no messages"),
    ],
)
def test_what_is_no_transcript_is_never_shown(
    tmp_path: Path, name: str, end: int, missing: str
) -> None:
    for real in ("real.jsonl", "id_rsa"):
        written(tmp_path / real, [user("private")])
    (tmp_path / "noise.jsonl").write_text("-----BEGIN KEY-----\n[1]\n" + "[" * 99_999, "utf-8")
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    found = read_excerpt(f"{tmp_path}/{name}" if name else "", 0, end, {"HOME": str(tmp_path)})
    assert (found.messages, missing in found.missing) == ((), True)
