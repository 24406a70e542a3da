"""Secrets that are said in a chat are not kept with it, in no row and in no byte of the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retain.sessions.redaction import redact_chat, redact_message
from retain.sessions.store import Sessions

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
MARK = "[REDACTED:github-token]"


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    opened = Sessions(str(tmp_path))
    yield opened
    opened.close()


def everything(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_no_row_keeps_a_secret_and_the_kinds_are_told_once(
    tmp_path: Path, sessions: Sessions
) -> None:
    name = sessions.create().id
    blocks = (
        {"type": "text", "text": f"look: {KEY}"},
        {"type": "tool_use", "id": "toolu_01", "name": "x", "input": {"a": [KEY]}, "broken": KEY},
        {"type": "tool_result", "id": "toolu_01", "text": f"{KEY}\n", "is_error": False},
    )
    sessions.add(name, "user", f"my token is {KEY}")
    reply = sessions.add(name, "assistant", f"look: {KEY}", blocks=blocks)
    sessions.amend(reply.id, f"look: {KEY} again", blocks=blocks)
    sessions.summarise(name, f"About {KEY}.")
    sessions.compact(name, f"They used {KEY}.")
    sessions.remember(f"The token is {KEY}", "general", name, "facts/x")
    sessions.tag(name, [KEY])
    assert sessions.get(name).title == f"my token is {MARK}"
    sessions.retitle(name, f"The token {KEY}")
    assert KEY.encode() not in everything(tmp_path)
    assert everything(tmp_path).count(MARK.encode()) > 9
    assert sessions.get(name).title == f"The token {MARK}"
    assert sessions.messages(name)[0].content == f"my token is {MARK}"
    assert sessions.left_out() == ["github-token"]
    assert sessions.left_out() == []


def test_a_key_in_the_place_of_a_models_name_is_not_kept(
    tmp_path: Path, sessions: Sessions
) -> None:
    for model in ("anthropic/claude-sonnet-4-20250514", "ft:gpt-4o-2024-08-06:acme:wood:9a1BcDeF"):
        assert sessions.create(model).model == model
    begun = sessions.create(KEY)
    assert begun.model == MARK
    sessions.set_model(begun.id, "gpt")
    sessions.set_model(begun.id, f"gpt {KEY}")
    assert sessions.get(begun.id).model == f"gpt {MARK}"
    moved = sessions.chat(begun.id)._replace(id="2025-01-02-001", model=KEY)
    assert redact_chat(moved)[0].model == MARK
    assert KEY.encode() not in everything(tmp_path)


def test_what_a_reply_only_seemed_to_hold_is_not_told(sessions: Sessions) -> None:
    name = sessions.create().id
    reply = sessions.add(name, "assistant", KEY)
    sessions.amend(reply.id, "Nothing of the kind.")
    assert sessions.left_out() == []


def test_the_model_of_this_process_is_sent_what_was_said(
    tmp_path: Path, sessions: Sessions
) -> None:
    name = sessions.create().id
    use = {"type": "tool_use", "id": "toolu_01", "name": "x", "input": {"a": KEY}, "broken": ""}
    sessions.add(name, "user", f"my token is {KEY}")
    reply = sessions.add(name, "assistant", "one moment")
    sessions.amend(reply.id, f"your {KEY}", blocks=(use,))
    said = [(one.content, one.blocks) for one in sessions.since_compaction(name)]
    assert said == [(f"my token is {KEY}", ()), (f"your {KEY}", (use,))]
    other = Sessions(str(tmp_path))
    assert [one.content for one in other.since_compaction(name)] == [
        f"my token is {MARK}",
        f"your {MARK}",
    ]
    other.close()
    sessions.amend(reply.id, "nothing")
    assert sessions.since_compaction(name)[1].content == "nothing"


def test_secrets_are_kept_where_the_person_wants_them_to_be(tmp_path: Path) -> None:
    sessions = Sessions(str(tmp_path), redacts=lambda: False)
    name = sessions.create().id
    sessions.add(name, "user", KEY)
    sessions.summarise(name, KEY)
    assert sessions.messages(name)[0].content == sessions.get(name).summary == KEY
    assert sessions.left_out() == []
    sessions.close()


def test_a_beginning_of_a_secret_does_not_outlive_the_reply(
    tmp_path: Path, sessions: Sessions
) -> None:
    name = sessions.create().id
    reply = sessions.add(name, "assistant", f"Take {KEY[:14]}")
    assert KEY[:14].encode() in everything(tmp_path)  # too little to be told from a word
    sessions.amend(reply.id, f"Take {KEY}")
    sessions.amend(reply.id, f"Take {KEY}, and go on.")
    assert sessions.messages(name)[0].content == f"Take {MARK}, and go on."
    assert KEY[:14].encode() not in everything(tmp_path)
    assert KEY[4:14].lower().encode() not in everything(tmp_path)  # as the index has it


def test_ids_and_seals_stay_and_a_thought_with_a_secret_goes() -> None:
    sealed = "Zk3vQ9xT7mB2nL5pR8sW1yC4dF6gH0jK" * 4
    thought = {
        "type": "thought",
        "model": "m",
        "data": {"type": "thinking", "thinking": "Hm.", "signature": sealed},
    }
    telling = {**thought, "data": {"type": "thinking", "thinking": KEY, "signature": sealed}}
    use = {"type": "tool_use", "id": f"toolu_{KEY[4:]}", "name": "x", "input": {}, "broken": ""}
    clean = redact_message("", (thought, telling, use))
    assert clean.blocks == (thought, use)
    assert clean.kinds == ("github-token",)


def test_a_secret_hides_in_no_name_id_or_seal() -> None:
    use = {"type": "tool_use", "id": KEY, "name": KEY, "input": {KEY: "x"}, "broken": ""}
    result = {"type": "tool_result", "id": KEY, "text": "x", "is_error": False}
    sealed = [
        {"type": "thought", "model": "m", "data": {"type": "thinking", key: KEY}}
        for key in ("signature", "data")
    ]
    (used,) = redact_message("", (use, *sealed)).blocks
    (gave,) = redact_message("", (result,)).blocks
    assert KEY not in repr((used, gave))
    assert used["name"] == MARK
    assert used["id"] == gave["id"]


def test_a_value_that_is_nested_beyond_reason_is_not_kept() -> None:
    deep: object = KEY
    for _ in range(500):
        deep = [deep]
    (kept,) = redact_message("", ({"type": "tool_use", "id": "1", "input": {"a": deep}},)).blocks
    assert kept == {"type": "tool_use", "id": "1", "input": {}}
    thought = {"type": "thought", "model": "m", "data": {"signature": deep}}
    assert redact_message("", (thought,)).blocks == ()
