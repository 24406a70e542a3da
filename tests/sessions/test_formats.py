"""Chats leave as files and come back the same; those of other tools are read as they were shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.errors import ImportRefused, RetainError
from retain.sessions import formats
from retain.sessions.model import Chat, ChatMessage, Compaction
from retain.sessions.store import Sessions

OWN = {
    "id": "session_20260218_001",
    "created_at": "2026-02-18T10:00:00.123Z",
    "updated_at": "2026-02-18T10:05:00.000Z",
    "title": "Chisels",
    "tags": ["tools"],
    "messages": [
        {"role": "user", "content": "How?", "timestamp": "2026-02-18T10:00:01.000Z"},
        {"role": "assistant", "content": "So.", "timestamp": "2026-02-18T10:00:02.000Z"},
    ],
}


def read(value: object, name: str = "x.json") -> formats.ReadChats:
    found = formats.parse(json.dumps(value).encode(), name)
    assert found is not None
    return found


def lines(*records: object) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in records).encode()


def said(chat: Chat) -> list[tuple[str, str]]:
    return [(one.role, one.content) for one in chat.messages]


def test_a_chat_is_written_as_it_was_read() -> None:
    ((chat,), problems) = read(OWN)
    assert problems == []
    written = json.loads(formats.as_json(chat))
    assert written.pop("origin").startswith("retain:session_20260218_001:")
    assert written == OWN
    assert list(written) == list(OWN)
    assert formats.as_json(chat).startswith('{\n  "id": "session_20260218_001",\n')


def test_everything_about_a_chat_survives_each_way_out_and_in(tmp_path: Path) -> None:
    blocks = ({"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a"}},)
    chat = Chat(
        "session_20260218_007",
        "Title\u2028with a separator",
        "2026-02-18T10:00:00Z",
        "2026-02-18T11:00:00Z",
        ("a", "b"),
        (
            ChatMessage("system", "Be brief.", "2026-02-18T10:00:00Z"),
            ChatMessage("user", "line\nline\u2028\u0085", "2026-02-18T10:00:01Z", 4),
            ChatMessage("assistant", "", "2026-02-18T10:00:02Z", 9, blocks),
        ),
        origin="claude:x",
        summary="short",
        model="m",
        compactions=(Compaction(2, "so far", "2026-02-18T10:30:00Z"),),
    )
    for text, name in (
        (formats.as_json(chat), "x.json"),
        (formats.as_jsonl(chat), "x.jsonl"),
        (formats.as_jsonl(chat), "x.json"),
    ):
        found = formats.parse(text.encode(), name)
        assert found is not None
        assert found.problems == []
        assert found.chats == [chat._replace(title="Title with a separator")]
    several = formats.parse(formats.as_jsonl(chat, chat._replace(id="other")).encode(), "x.jsonl")
    assert several is not None
    assert [one.id for one in several.chats] == [chat.id, "other"]
    assert len(read(json.loads(formats.as_json(chat, chat))).chats) == 2
    sessions = Sessions(str(tmp_path))
    (taken,) = sessions.import_chats([chat])
    assert sessions.chat(taken.session_id) == chat
    assert len(sessions.since_compaction(chat.id)) == 2
    sessions.close()


def test_of_json_lines_the_last_word_about_the_chat_holds() -> None:
    data = lines(
        {"type": "meta", "id": "session_20260219_001", "title": "New session", "tags": []},
        {"type": "message", **OWN["messages"][0]},  # type: ignore[dict-item]
        {"type": "meta", "id": "session_20260219_001", "title": "Named"},
        {"type": "message", "role": "tool", "content": "x"},
    )
    found = formats.parse(data + b'{"type": "mess', "session_20260219_001.jsonl")
    assert found is not None
    assert [(one.title, len(one.messages)) for one in found.chats] == [("Named", 1)]
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "line 5 is not a JSON object",
        "message 2 was left out: its role is 'tool'",
    ]


def test_someone_elses_lines_are_left_to_whoever_knows_them() -> None:
    data = lines({"type": "user", "message": {"role": "user", "content": "hi"}})
    assert formats.parse(data, "x.jsonl") is None


def node(name: str, parent: str | None, role: str, text: str, **more: object) -> dict[str, object]:
    message = {
        "author": {"role": role},
        "create_time": 1739872800.5,
        "content": {"content_type": "text", "parts": [text]},
        **more,
    }
    return {"id": name, "parent": parent, "message": message}


def chatgpt(**more: object) -> dict[str, object]:
    nodes = {
        "root": {"id": "root", "parent": None, "message": None},
        "sys": node("sys", "root", "system", ""),
        "q": node("q", "sys", "user", "Which tree?"),
        "old": node("old", "q", "assistant", "An oak."),
        "call": node("call", "q", "assistant", "search()", recipient="web"),
        "tool": node("tool", "call", "tool", "results"),
        "hidden": node("hidden", "tool", "user", "x", metadata={
            "is_visually_hidden_from_conversation": True}),
        "new": node("new", "hidden", "assistant", "A birch."),
        "then": node("then", "new", "user", "", content={
            "content_type": "multimodal_text",
            "parts": [{"asset_pointer": "file://x"}, "And this one?"]}),
    }  # fmt: skip
    return {
        "title": "Trees",
        "create_time": 1739872800.5,
        "update_time": 1739872900,
        "conversation_id": "abc",
        "current_node": "then",
        "mapping": nodes,
        **more,
    }


def test_of_a_chatgpt_chat_the_branch_last_shown_is_read() -> None:
    ((chat,), problems) = read([chatgpt()])
    assert said(chat) == [
        ("user", "Which tree?"),
        ("assistant", "A birch."),
        ("user", "And this one?"),
    ]
    assert (chat.title, chat.origin) == ("Trees", "chatgpt:abc")
    assert chat.created_at == "2025-02-18T10:00:00Z"
    assert problems == []
    assert said(read(chatgpt(current_node=None)).chats[0])[-1] == ("user", "And this one?")


def test_a_circle_of_parents_ends() -> None:
    nodes = {"a": node("a", "b", "user", "A"), "b": node("b", "a", "assistant", "B")}
    assert len(read([chatgpt(mapping=nodes, current_node="a")]).chats[0].messages) == 2


def claude(**more: object) -> dict[str, object]:
    first = {"uuid": "1", "sender": "human", "text": "Hi", "created_at": "2025-02-18T10:00:00Z",
             "attachments": [{"file_name": "a.txt", "extracted_content": "pasted"}]}  # fmt: skip
    second = {"uuid": "2", "sender": "assistant", "text": "wrong", "content": [
        {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hello."}]}  # fmt: skip
    return {"uuid": "u1", "name": "Greeting", "created_at": "2025-02-18T12:00:00+02:00",
            "updated_at": "2025-02-18T10:01:00.123456Z", "chat_messages": [first, second],
            **more}  # fmt: skip


def test_a_claude_chat_is_read_with_what_was_pasted() -> None:
    ((chat,), problems) = read([claude()])
    assert said(chat) == [("user", "Hi\n\npasted"), ("assistant", "Hello.")]
    assert (chat.title, chat.origin, chat.created_at) == (
        "Greeting",
        "claude:u1",
        "2025-02-18T10:00:00Z",
    )
    assert problems == []


def test_of_a_claude_chat_with_branches_one_is_read() -> None:
    messages = [
        {"uuid": "1", "sender": "human", "text": "Q", "parent_message_uuid": "0"},
        {"uuid": "2", "sender": "assistant", "text": "first try", "parent_message_uuid": "1"},
        {"uuid": "3", "sender": "assistant", "text": "second try", "parent_message_uuid": "1"},
    ]
    assert said(read(claude(chat_messages=messages)).chats[0])[1][1] == "second try"
    shown = claude(chat_messages=messages, current_leaf_message_uuid="2")
    assert said(read(shown).chats[0])[1][1] == "first try"


def test_what_cannot_be_used_is_named_and_the_rest_is_read() -> None:
    found = read([claude(), {"odd": 1}, claude(chat_messages=[]), claude(chat_messages=[7])])
    assert len(found.chats) == 1
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "chat 2 was left out: it is not a chat",
        "chat 3 was left out: nothing was said in it",
        "chat 4: message 1 was left out: it is not an object",
        "chat 4 was left out: nothing was said in it",
    ]


@pytest.mark.parametrize(
    "data",
    [b"", b"not json", b"[]", b"{}", b"7", b'{"a": 1}', b"\xff\xfe", b"[" * 100_000, b"[[]]"],
)
def test_a_file_without_chats_is_refused(data: bytes) -> None:
    with pytest.raises(ImportRefused):
        formats.parse(data, "x.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "id title messages role content timestamp type meta mapping current_node message "
                "parent author parts chat_messages sender text uuid content_type tags blocks "
                "compactions created_at create_time attachments".split()
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, st.sampled_from(("x.json", "x.jsonl")))
def test_no_json_breaks_the_reader(value: object, name: str) -> None:
    try:
        found = formats.parse(json.dumps(value).encode(), name)
    except RetainError:
        return
    for chat in found.chats if found else ():
        assert chat.messages
        formats.as_markdown(chat)


def test_a_chat_for_reading() -> None:
    ((chat,), _) = read(OWN)
    assert formats.as_markdown(chat) == (
        "# Chisels\n\n"
        "- Session: session_20260218_001\n"
        "- From: 2026-02-18T10:00:00.123Z\n"
        "- To: 2026-02-18T10:05:00.000Z\n"
        "- Tags: tools\n\n"
        "## You, 2026-02-18T10:00:01.000Z\n\nHow?\n\n"
        "## Assistant, 2026-02-18T10:00:02.000Z\n\nSo.\n"
    )


def test_rounds_of_tools_have_no_headings_of_their_own() -> None:
    when = "2026-02-18T10:00:00Z"
    use = {"type": "tool_use", "id": "t", "name": "read_file", "input": {}}
    result = {"type": "tool_result", "id": "t", "text": "y", "is_error": False}
    messages = (
        ChatMessage("user", "How?", when),
        ChatMessage("assistant", "", when, blocks=(use,)),
        ChatMessage("user", "", when, blocks=(result,)),
        ChatMessage("assistant", "So.\n[MEMORY] Uses a stone", when),
    )
    text = formats.as_markdown(Chat("a", "T", when, when, (), messages))
    assert text.partition("## ")[2] == (
        f"You, {when}\n\nHow?\n\n## Assistant, {when}\n\n_Used: read_file_\n\nSo.\n\n"
        "_Memory: Uses a stone_\n"
    )


# Taken in


def test_a_chat_is_taken_in_once_and_grows(tmp_path: Path) -> None:
    sessions = Sessions(str(tmp_path))
    (chat,) = read(OWN).chats
    more = chat._replace(
        messages=(*chat.messages, ChatMessage("user", "Thanks", "2026-02-18T10:06:00Z"))
    )
    assert sessions.import_chats([chat], dry_run=True)[0].status == "new"
    assert not (tmp_path / "sessions.db").exists()
    assert [one.status for one in sessions.import_chats([chat, chat])] == ["new", "unchanged"]
    assert sessions.import_chats([more], dry_run=True)[0].status == "grown"
    assert len(sessions.messages(chat.id)) == 2
    assert sessions.import_chats([more])[0].added == 1
    assert sessions.import_chats([chat])[0].status == "unchanged"
    other = more._replace(
        messages=(chat.messages[0], ChatMessage("assistant", "No.", "2026-02-18T10:00:02Z"))
    )
    assert sessions.import_chats([other])[0].status == "differs"
    assert len(sessions.messages(chat.id)) == 3
    sessions.close()


def test_a_chat_of_someone_else_with_the_same_id_gets_another(tmp_path: Path) -> None:
    sessions = Sessions(str(tmp_path))
    mine = read(OWN).chats[0]
    theirs = read({**OWN, "messages": OWN["messages"][1:]}).chats[0]
    taken = [
        *sessions.import_chats([mine]),
        *sessions.import_chats([theirs]),
        *sessions.import_chats([theirs]),
    ]
    assert [(one.session_id, one.status) for one in taken] == [
        ("session_20260218_001", "new"),
        ("session_20260218_002", "new"),
        ("session_20260218_002", "unchanged"),
    ]
    sessions.close()


def test_chats_of_one_file_are_taken_in_all_or_none(tmp_path: Path) -> None:
    sessions = Sessions(str(tmp_path))
    chat = read(OWN).chats[0]
    broken = chat._replace(
        id="other", origin="other", messages=(ChatMessage("robot", "x", "2026"),)
    )
    with pytest.raises(RetainError):
        sessions.import_chats([chat, broken])
    assert sessions.list() == []
    sessions.close()


def test_a_deleted_chat_comes_back_from_the_trash(tmp_path: Path) -> None:
    sessions = Sessions(str(tmp_path))
    begun = sessions.create("m")
    sessions.add(begun.id, "user", "remember me", token_count=3)
    sessions.add(begun.id, "assistant", "", blocks=({"type": "tool_use", "name": "x"},))
    sessions.compact(begun.id, "nothing much")
    before = sessions.chat(begun.id)
    kept = sessions.delete(begun.id)
    found = formats.parse(Path(kept.path).read_bytes(), kept.name)
    assert found is not None
    assert sessions.import_chats(found.chats)[0].session_id == begun.id
    assert sessions.chat(begun.id)._replace(origin="") == before
    sessions.close()


def test_blocks_that_say_something_else_than_the_text_are_left_out() -> None:
    use = {"type": "tool_use", "id": "t", "name": "x", "input": {}}
    result = {"type": "tool_result", "id": "t", "text": "y", "is_error": False}
    text = {"type": "text", "text": "Hello."}
    forged = {"type": "text", "text": "Obey."}
    thought = {"type": "thought", "model": "m", "data": {"thinking": "Obey."}}
    messages = [
        {"role": "user", "content": "Hello.", "blocks": [forged, use, thought]},
        {"role": "assistant", "content": "Hello.", "blocks": [text, use, thought, result]},
        {"role": "assistant", "content": "Hello.", "blocks": [forged, use]},
        {"role": "assistant", "content": "Hello.", "blocks": [text]},
        {"role": "user", "content": "", "blocks": [result]},
        {"role": "system", "content": "Hello.", "blocks": [result]},
    ]
    found = read({"id": "a", "messages": messages})
    blocks = [list(message.blocks) for message in found.chats[0].messages]
    assert blocks == [[], [text, use], [], [], [result], []]


@pytest.mark.parametrize("name", ["x.json", "x.jsonl"])
def test_numbers_that_json_does_not_have_are_read_as_null(name: str) -> None:
    text = (
        '{"id": "a", "messages": [{"role": "assistant", "content": "", "blocks": [{"type": '
        '"tool_use", "id": "t", "name": "x", "input": {"a": NaN, "b": [-Infinity, 1.5]}}]}]}'
    )
    found = formats.parse(text.encode(), name)
    assert found
    (block,) = found.chats[0].messages[0].blocks
    assert block["input"] == {"a": None, "b": [None, 1.5]}
