from __future__ import annotations

import json
import os
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.capture.transcript import (
    HEADING,
    Message,
    between,
    is_readable,
    opening,
    said,
    size,
    tail,
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
    messages = tail(str(SAMPLE), 50)
    assert spoken(messages) == [
        ("user", "please USETOOL now", ()),
        ("assistant", "Running.", ("Bash",)),
        ("assistant", "Hello from the fake model.", ()),
    ]
    assert opening(str(SAMPLE)) == "please USETOOL now"


def test_offsets_are_the_bytes_of_the_lines_of_a_message() -> None:
    raw = SAMPLE.read_bytes()
    first, both, last = tail(str(SAMPLE), 50)
    assert json.loads(raw[first.start : first.end])["message"]["content"] == "please USETOOL now"
    lines = raw[both.start : both.end].splitlines()
    assert [json.loads(line)["message"]["content"][0]["type"] for line in lines] == [
        "text",
        "tool_use",
    ]
    assert raw[: last.start].endswith(b"\n")
    assert raw[: last.end].endswith(b"\n")


@pytest.mark.parametrize("records", [claude_code(), flat(), codex()])
def test_the_same_conversation_is_the_same_in_every_form(path: Path, records: list[object]) -> None:
    assert spoken(tail(written(path, records), 50)) == [
        ("user", "Please look at the build.", ()),
        ("assistant", "I run it.", ("Bash", "Read")),
        ("assistant", "It failed; the fix is one line.", ("Edit",)),
        ("assistant", "Done.", ()),
        ("user", "Thanks.", ()),
        ("assistant", "", ("Bash",)),
        ("assistant", "You are welcome.", ()),
    ]
    assert opening(str(path)) == "Please look at the build."


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
    assert spoken(tail(written(path, records), 50)) == [
        ("assistant", "One.\nTwo.", ("Bash", "Read")),
        ("assistant", "Three.", ()),
        ("assistant", "Four.", ()),
        ("assistant", "Five.", ()),
    ]


@pytest.mark.parametrize("most", range(8))
def test_the_last_messages_are_whole(path: Path, most: int) -> None:
    everything = tail(written(path, claude_code()), 50)
    assert tail(str(path), most) == (everything[-most:] if most else [])


def test_since_takes_only_lines_that_begin_there_or_later(path: Path) -> None:
    everything = tail(written(path, flat()), 50)
    for index, message in enumerate(everything):
        assert tail(str(path), 50, message.start) == everything[index:]
        assert tail(str(path), 50, message.end) == everything[index + 1 :]
    half = tail(str(path), 50, everything[1].start + 1)
    # The rest of that message is a tool, on a line of its own.
    assert spoken(half)[0] == ("assistant", "", ("Bash", "Read"))
    assert tail(str(path), 50, -5) == everything
    assert tail(str(path), 50, path.stat().st_size + 100) == []


@pytest.mark.parametrize(
    "record",
    [
        {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": ["x"]}},
        {"type": "system", "subtype": "compact_boundary", "content": "x"},
        {"type": "summary", "summary": "x"},
        {"type": "queue-operation", "operation": "enqueue", "content": "x"},
        {"type": "progress", "content": "x"},
        {"type": "event_msg", "payload": {"type": "user_message", "message": "x"}},
        {"type": "compacted", "payload": {"message": "x"}},
        {"type": "response_item", "payload": {"type": "message", "role": "developer"}},
        {"type": "response_item", "payload": {"type": "reasoning", "summary": []}},
        {"type": "response_item", "payload": {"type": "function_call_output", "output": "x"}},
        {"type": "response_item", "payload": "x"},
        {"type": ["user"], "content": "x"},
        {"type": "user"},
        {"type": "user", "content": 7},
        {"type": "user", "content": [None, 7, {"type": {}}, {"type": "text", "text": 7}]},
        {"content": "x"},
        user("x", isMeta=True),
        user("x", isSidechain=True),
        user("x", teamName="builders"),
        user([text("x")], isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("x", isVisibleInTranscriptOnly=True),
        assistant(text("x"), isSidechain=True),
        assistant(tool("Bash"), isSidechain=True),
        assistant(text("API Error: rate limit"), isApiErrorMessage=True),
        assistant({"type": "thinking", "thinking": "x"}),
        user([result("x")]),
        user([result("x" * 9000)]),
        user([tool("Bash")]),
        user([{"type": "image", "source": {}}]),
        user("  \n "),
        user("<command-name>/clear</command-name>\n<command-args></command-args>"),
        user("<command-message>retain</command-message>\n<command-name>/retain</command-name>"),
        user("<local-command-stdout>x</local-command-stdout>"),
        user("<bash-input>ls</bash-input>"),
        user("<system-reminder>x</system-reminder>"),
        user([text("<system-reminder>\nx\n</system-reminder>\n")]),
        user("<system-reminder>\nthe end is missing"),
        user([text("[Request interrupted by user for tool use]")]),
        user("Stop hook feedback:\n- [retain]: " + HEADING),
        user(HEADING + "\n- [DECISION] We chose x (score: 0.42)\n\nUse it.\n<triage_data>{}"),
        user('<hook_prompt hook_run_id="stop:0">' + HEADING + "\n</hook_prompt>"),
        user("<environment_context>\n<cwd>/x</cwd>\n</environment_context>"),
        user("# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"),
        user(CONTINUED),
    ],
)  # fmt: skip
def test_what_nobody_said_is_left_out(path: Path, record: object) -> None:
    written(path, [record, assistant(text("Hello."), answer="m"), record])
    assert spoken(tail(str(path), 50)) == [("assistant", "Hello.", ())]
    assert opening(str(path)) == ""


@pytest.mark.parametrize(
    "words,left",
    [
        ('Yes.\n<memory-context source="x">\n- [DECISION] We chose x\n</memory-context>', "Yes."),
        ("<memory-context>a</memory-context> b <memory-context>c</memory-context>", "b"),
        ('<recalled-memories trust="data">\nx\n</recalled-memories>\nYes.', "Yes."),
        ("Yes.\n<triage_data>\n{}\n</triage_data>\nNo.", "Yes.\n\nNo."),
        (f"Yes.\n{HEADING}\n- [DECISION] x\n<triage_data>{{}}</triage_data>\nNo.", "Yes.\n\nNo."),
        (f"Yes.\n{HEADING}\n- [DECISION] x", "Yes."),
        ("Yes.\n<memory-context>\nnever closed", "Yes."),
        ("<memory-context>a</memory-context>\n<memory-context>never closed", ""),
        ("We call it <memory-context> from now on.", "We call it <memory-context> from now on."),
        ("<memory-contexts>a</memory-contexts>", "<memory-contexts>a</memory-contexts>"),
        ("half \ud83d of a face, \ud83d\ude00", "half \ufffd of a face, 😀"),
        ("", ""),
    ],
)
def test_what_hooks_put_in_is_cut_out_of_any_text(path: Path, words: str, left: str) -> None:
    assert said(words) == left
    written(path, [user(words), assistant(text(words)), {"type": "human", "content": words}])
    assert [message.text for message in tail(str(path), 9)] == ([left] * 3 if left else [])


def test_a_person_is_heard_beside_what_the_host_adds(path: Path) -> None:
    written(
        path,
        [
            user([text("<ide_opened_file>a.py</ide_opened_file>"), text("Explain this.")]),
            user([result("x"), text("And that.")]),
            user("<system-reminder>x</system-reminder>\nThank you."),
        ],
    )
    assert [message.text for message in tail(str(path), 9)] == [
        "Explain this.",
        "And that.",
        "Thank you.",
    ]
    assert opening(str(path)) == "Explain this."


@pytest.mark.parametrize("size", [1, 9000])
def test_results_of_tools_do_not_hide_what_stands_with_them(path: Path, size: int) -> None:
    call = {"type": "tool_use", "name": "Write", "input": {"tool_result": "x" * size}}
    output = {"type": "function_call_output", "output": "x" * size}
    about = {"type": "input_text", "text": 'a "function_call_output"' + "." * size}
    said_of_it = {"type": "message", "role": "user", "content": [about]}
    written(
        path,
        [
            user([result("x" * size), text("And that.")]),
            assistant(call),
            {"type": "response_item", "payload": output},
            user('He wrote "tool_result".' + "." * size),
            {"type": "response_item", "payload": said_of_it},
        ],
    )
    assert [(message.text.strip("."), message.tools) for message in tail(str(path), 9)] == [
        ("And that", ()),
        ("", ("Write",)),
        ('He wrote "tool_result"', ()),
        ('a "function_call_output"', ()),
    ]


def test_an_assistant_may_write_the_tags_of_the_host(path: Path) -> None:
    written(path, [assistant(text("<command-name>/x</command-name> clears it."))])
    assert tail(str(path), 1)[0].text == "<command-name>/x</command-name> clears it."


@pytest.mark.parametrize(
    "line",
    [
        b"not JSON",
        b"",
        b"\0" * 500,
        b"[1, 2]",
        b'"text"',
        b"null",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"type": "user", "content": ' + b"9" * 5000 + b"}",
        b"\xff\xfe{}",
        b'{"type": "user", "content": "\xed\xa0',
    ],
)
def test_bad_lines_are_passed_over(path: Path, line: bytes) -> None:
    good = json.dumps(user("Hello.")).encode()
    path.write_bytes(line + b"\n" + good + b"\n" + line)
    assert [message.text for message in tail(str(path), 9)] == ["Hello."]
    assert opening(str(path)) == "Hello."


def test_a_line_is_read_around_its_damage(path: Path) -> None:
    path.write_bytes(
        b'\xef\xbb\xbf{"type": "human", "content": "one"}\r\n'
        b'\0\0\0{"type": "human", "content": "tw\xff"}\n'
        b'{"type": "human", "content": "thr\\ud800e"}\n'
        b'{"type": "human", "content": "four"}'
    )
    texts = [message.text for message in tail(str(path), 9)]
    assert texts == ["one", "tw\ufffd", "thr\ufffde", "four"]


def test_a_half_written_last_line_waits_for_its_rest(path: Path) -> None:
    whole = written(path, [user("one"), user("two")])
    raw = path.read_bytes()
    path.write_bytes(raw[:-10])
    assert [message.text for message in tail(whole, 9)] == ["one"]
    path.write_bytes(raw)
    assert [message.text for message in tail(whole, 9)] == ["one", "two"]


def test_a_picture_does_not_hide_the_words_beside_it(path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "A" * (2 * MEGABYTE)}}
    written(path, [user([picture, text("What is this?")])])
    assert tail(str(path), 9)[0].text == "What is this?"
    assert opening(str(path)) == "What is this?"


@pytest.mark.parametrize("newline", [b"\n", b""])
def test_an_endless_line_is_not_held_in_memory(path: Path, newline: bytes) -> None:
    good = json.dumps(user("Hello.")).encode()
    with path.open("wb") as file:
        file.write(good + b"\n")
        for _ in range(6):
            file.write(b"x" * MEGABYTE)
        file.write(newline + (good if newline else b""))
    tracemalloc.start()
    try:
        found = [message.text for message in tail(str(path), 9)]
        first = opening(str(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == ["Hello.", "Hello."][: 1 + bool(newline)]
    assert first == "Hello."
    assert peak < 5 * MEGABYTE


def test_a_line_of_a_hundred_megabytes_ends_the_search(path: Path) -> None:
    with path.open("wb") as file:
        file.write(json.dumps(user("Hello.")).encode() + b"\n")
        file.truncate(100 * MEGABYTE)
    assert tail(str(path), 9) == []
    assert opening(str(path)) == "Hello."


def test_the_tail_of_a_long_file_costs_no_more_than_that_of_a_short_one(path: Path) -> None:
    lines = (json.dumps(user("x" * 900)) + "\n").encode() * 100
    with path.open("wb") as file:
        file.truncate(1 << 36)  # a hole, which takes no room and would take hours to read
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + lines)
    tracemalloc.start()
    try:
        assert len(tail(str(path), 50)) == 50
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTE


def test_what_is_no_file_is_empty_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    pipe, loop = tmp_path / "pipe", tmp_path / "loop"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    for path in (str(pipe), str(loop), str(tmp_path), str(tmp_path / "none"), "/dev/zero", "a\0b"):
        assert tail(path, 9) == []
        assert opening(path) == ""
        assert not is_readable(path, {"HOME": str(tmp_path)})


def test_only_files_where_hosts_keep_them_are_read(tmp_path: Path) -> None:
    inside = os.path.realpath(json.__file__)  # a file that is not below /tmp
    home = os.path.dirname(inside)
    outside = os.path.realpath(os.__file__)
    for name in ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        assert is_readable(inside, {name: home})
        assert is_readable(inside, {name: f"{home}/"})
        assert not is_readable(outside, {name: home})
        assert not is_readable(f"{home}/../os.py", {name: home})
        assert not is_readable(inside, {name: home[:-1]})
    for env in ({}, {"HOME": "/"}, {"HOME": ""}, {"HOME": "."}, {"HOME": "a\0b"}):
        assert not is_readable(inside, env)


def test_a_link_is_not_followed_but_a_folder_may_be_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real = written(tmp_path / "real" / "t.jsonl", [user("Hello.")])
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    env = {"HOME": str(tmp_path)}
    link, inside = str(tmp_path / "link"), str(tmp_path / "folder" / "t.jsonl")
    assert not is_readable(link, env)
    assert (tail(link, 9), opening(link), between(link, 0, 999)) == ([], "", [])
    assert is_readable(inside, env)
    assert opening(inside) == "Hello."


@pytest.mark.parametrize("records", [claude_code(), flat(), codex()])
def test_a_part_of_a_file_has_the_messages_that_its_end_has(
    tmp_path: Path, records: list[object]
) -> None:
    path = written(tmp_path / "t.jsonl", records)
    whole = tail(path, 50)
    assert between(path, 0, size(path)) == whole
    assert between(path, whole[1].start, whole[3].end) == whole[1:4]
    assert between(path, whole[1].start, whole[3].end - 2) == whole[1:3]
    assert between(path, size(path), size(path) + 99) == []


def test_a_file_below_the_shared_temporary_folder_is_read() -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        assert is_readable(file.name, {})


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


@given(data=st.binary(max_size=400))
def test_any_bytes_are_a_transcript_of_something(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    check_any(tmp_path_factory.mktemp("any") / "t.jsonl", data)


@given(records=st.lists(RECORDS, max_size=8), cut=st.integers(0, 30))
def test_any_records_are_a_transcript_of_something(
    tmp_path_factory: pytest.TempPathFactory, records: list[object], cut: int
) -> None:
    data = "\n".join(json.dumps(record) for record in records).encode()
    check_any(tmp_path_factory.mktemp("any") / "t.jsonl", data[: len(data) - cut])


def check_any(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    at = 0
    for message in tail(str(path), 50):
        assert message.role in ("user", "assistant")
        assert message.text or message.tools
        message.text.encode("utf-8")
        assert at <= message.start < message.end <= len(data)
        at = message.end
    opening(str(path)).encode("utf-8")


@given(sizes=st.lists(st.integers(0, 200_000), max_size=5))
def test_lines_are_found_wherever_blocks_end(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "t.jsonl"
    words = ["é" * (size // 2) + str(index) for index, size in enumerate(sizes)]
    path.write_text(
        "".join(json.dumps(user(word), ensure_ascii=False) + "\n" for word in words),
        encoding="utf-8",
    )
    assert [message.text for message in tail(str(path), 50)] == words
    assert opening(str(path)) == (words[0] if words else "")
