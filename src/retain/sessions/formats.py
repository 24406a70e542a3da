"""Chats as files: written as JSON, JSON lines and Markdown, and read from what other tools export.

Read are chats as Retain writes them, alone or in a list; JSON lines, in which the last line about
a chat itself holds; and the exports of ChatGPT and Claude, whose messages form a tree of which the
branch last shown is the chat. What cannot be used of a file is named, and the rest is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from retain.errors import ImportRefused
from retain.memory import now
from retain.sessions.model import Block, Chat, Compaction, Said, whole
from retain.sessions.rows import MAX_MESSAGE, MAX_TAG, MAX_TAGS
from retain.text.memory_tags import find_facts, hide_tags

_ROLES: Final = {
    "user": "user", "human": "user", "assistant": "assistant", "model": "assistant",
    "system": "system",
}  # fmt: skip
_SPEAKERS: Final = {"user": "You", "assistant": "Assistant", "system": "System"}
_MOST_MESSAGES: Final = 100_000
_MOST_CHATS: Final = 100_000
_DEEPEST: Final = 40
_TITLE: Final = 200
_NAME: Final = 300
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_DAY: Final = re.compile(r"session_(\d{4})(\d\d)(\d\d)_")
_TEXTS: Final = ("text", "multimodal_text")
# The blocks that a message of each side can have.
_KINDS: Final = {"user": ("text", "tool_result"), "assistant": ("text", "tool_use"), "system": ()}

_Record = Mapping[str, object]
_Reader = Callable[[_Record, list[str], str], Chat]


class Read(NamedTuple):
    """The chats of a file, and what in it could not be used."""

    chats: list[Chat]
    problems: list[str]


class _Bad(Exception):
    """An entry that is no chat."""


# Out


def document(chat: Chat) -> dict[str, object]:
    """A chat as plain data; keys beyond the usual ones only where they say something."""
    said = []
    for one in chat.said:
        entry: dict[str, object] = {
            "role": one.role,
            "content": one.content,
            "timestamp": one.timestamp,
        }
        if one.token_count is not None:
            entry["token_count"] = one.token_count
        if one.blocks:
            entry["blocks"] = [dict(block) for block in one.blocks]
        said.append(entry)
    return {**_about(chat), "messages": said, **_more(chat)}


def _about(chat: Chat) -> dict[str, object]:
    return {
        "id": chat.id,
        "created_at": chat.created_at,
        "updated_at": chat.updated_at,
        "title": chat.title,
        "tags": list(chat.tags),
    }


def _more(chat: Chat) -> dict[str, object]:
    more = {
        "summary": chat.summary,
        "model": chat.model,
        "origin": chat.origin,
        "compactions": [one._asdict() for one in chat.compactions],
    }
    return {key: value for key, value in more.items() if value}


def as_json(*chats: Chat) -> str:
    """One chat, or a list of several."""
    data = document(chats[0]) if len(chats) == 1 else [document(chat) for chat in chats]
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def as_jsonl(*chats: Chat) -> str:
    """One line about each chat, then one for each of its messages."""
    records: list[dict[str, object]] = []
    for chat in chats:
        records.append({"type": "meta", **_about(chat), **_more(chat)})
        said = document(chat)["messages"]
        assert isinstance(said, list)  # noqa: S101 - as it was made above
        records += [{"type": "message", **one} for one in said]
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records)


def as_markdown(*chats: Chat) -> str:
    """Chats for reading."""
    return "\n".join(_markdown(chat) for chat in chats)


def _markdown(chat: Chat) -> str:
    facts = [f"- Session: {chat.id}", f"- From: {chat.created_at}", f"- To: {chat.updated_at}"]
    facts += [f"- Model: {chat.model}"] * bool(chat.model)
    facts += [f"- Tags: {', '.join(chat.tags)}"] * bool(chat.tags)
    parts = [f"# {chat.title}", "\n".join(facts)]
    parts += [chat.summary] * bool(chat.summary)
    for message in chat.said:
        text, notes = message.content.strip(), []
        if message.role == "assistant":
            text = hide_tags(text).strip()
            notes = [f"_Memory: {fact}_" for fact in find_facts(message.content)]
        used = [str(it.get("name")) for it in message.blocks if it.get("type") == "tool_use"]
        notes += [f"_Used: {', '.join(used)}_"] * bool(used)
        if text or notes:  # what tools gave back is no part of what was said
            heading = f"## {_SPEAKERS[message.role]}, {message.timestamp}"
            parts += [heading, *filter(None, [text]), *notes]
    return "\n\n".join(parts) + "\n"


FORMATS: Final = {"json": as_json, "jsonl": as_jsonl, "md": as_markdown}


# In


def read(data: bytes, name: str) -> Read | None:
    """The chats in a file's bytes; None for lines that are someone else's transcript."""
    text = _decoded(data, name)
    try:
        value = _loaded(text)
    except RecursionError as error:
        raise ImportRefused(f"{name} is nested too deeply to be read") from error
    except ValueError as error:
        found = _from_lines(text, name)
        if found is None and not name.endswith(".jsonl"):
            raise ImportRefused(f"{name} is not JSON: {error}") from error
        return found
    is_line = isinstance(value, dict) and value.get("type") == "meta"
    if is_line or (name.endswith(".jsonl") and _reader(value) is None):
        return _from_lines(text, name)
    return _from_entries(value, name)


def _loaded(text: str) -> object:
    """A value from JSON; null for numbers that Python reads and no other program would."""
    return json.loads(text, parse_constant=lambda _: None, parse_float=_finite)


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportRefused(f"{name} is not UTF-8 text (byte {error.start})") from error


def _from_entries(value: object, name: str) -> Read:
    entries = _entries(value)
    if not entries or not any(map(_reader, entries)):
        raise ImportRefused(
            f"{name} holds no chats that Retain knows how to read",
            hint="It reads its own exports, those of ChatGPT and Claude, and transcripts of "
            "Claude Code.",
        )
    found = Read([], [])
    for number, entry in enumerate(entries[:_MOST_CHATS], 1):
        where = f"{name}: chat {number}" if len(entries) > 1 else name
        try:
            found.chats.append(_sound(_chat(entry, found.problems, where)))
        except _Bad as bad:
            found.problems.append(f"{where} was left out: {bad}")
    if len(entries) > _MOST_CHATS:
        found.problems.append(f"{name}: only the first {_MOST_CHATS:,} chats were read")
    return found


def _entries(value: object) -> list[object]:
    if isinstance(value, dict) and _reader(value) is None:
        value = value.get("conversations") or value.get("sessions") or []
    return value if isinstance(value, list) else [value]


def _reader(entry: object) -> _Reader | None:
    if isinstance(entry, dict):
        for mark, kind, reader in _READERS:
            if isinstance(entry.get(mark), kind):
                return reader
    return None


def _chat(entry: object, problems: list[str], where: str) -> Chat:
    reader = _reader(entry)
    if reader is None or not isinstance(entry, dict):
        raise _Bad("it is not a chat")
    return reader(entry, problems, where)


def _sound(chat: Chat) -> Chat:
    if not chat.said:
        raise _Bad("nothing was said in it")
    if len(chat.said) > _MOST_MESSAGES:
        raise _Bad(f"it has more than {_MOST_MESSAGES:,} messages")
    return chat


# Retain's own


def _from_lines(text: str, name: str) -> Read | None:
    """JSON lines; a line about another chat begins that one."""
    found = Read([], [])
    about: dict[str, object] = {}
    said: list[object] = []
    chats: list[dict[str, object]] = []
    is_ours = False
    for number, record in _records(text, name, found.problems):
        kind = record.get("type")
        if kind == "meta":
            if about.get("id") not in (None, record.get("id")):
                chats.append({**about, "messages": said})
                about, said = {}, []
            about = {**about, **record}
        elif kind == "message" and "role" in record:
            said.append(record)
        elif not is_ours:
            return None
        else:
            found.problems.append(f"{name}: line {number} is neither meta nor message")
        is_ours = True
    if not is_ours:
        return None
    chats.append({"id": _stem(name), **about, "messages": said})
    for record in chats:
        where = f"{name}: {record.get('id')}" if len(chats) > 1 else name
        chat = chat_of(record, found.problems, where)
        found.chats.extend([chat] if chat else ())
    return found


def _records(text: str, name: str, problems: list[str]) -> Iterator[tuple[int, _Record]]:
    # Not splitlines: a text may hold the separators that only that one knows.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip("\0 \t\r"):
            continue
        try:
            record = _loaded(line.strip("\0 \t\r"))
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict):
            yield number, record
        else:
            problems.append(f"{name}: line {number} is not a JSON object")


def chat_of(record: _Record, problems: list[str], where: str) -> Chat | None:
    """A chat in plain data as Retain writes it; None, and a problem, for one without messages."""
    try:
        return _sound(_own(record, problems, where))
    except _Bad as bad:
        problems.append(f"{where} was left out: {bad}")
        return None


def _stem(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def _own(record: _Record, problems: list[str], where: str) -> Chat:
    name = _text(record, "id")[:_NAME]
    entries = record.get("messages")
    assert isinstance(entries, list)  # noqa: S101 - by this the reader was chosen
    day = _DAY.match(name)
    start = f"{day[1]}-{day[2]}-{day[3]}T00:00:00Z" if day else ""
    created = moment(record.get("created_at")) or _first_time(entries) or moment(start) or now()
    said = []
    for number, entry in enumerate(entries, 1):
        try:
            said.append(_own_message(entry, created))
        except _Bad as bad:
            problems.append(f"{where}: message {number} was left out: {bad}")
    last = said[-1].timestamp if said else created
    return Chat(
        name,
        _title(record.get("title")),
        created,
        moment(record.get("updated_at")) or last,
        _tags(record.get("tags")),
        tuple(said),
        origin=_text(record, "origin")[:_NAME] or _origin(name, said),
        summary=_text(record, "summary"),
        model=_text(record, "model")[:_NAME],
        compactions=tuple(_compactions(record.get("compactions"), created)),
    )


def _first_time(entries: Iterable[object]) -> str:
    times = (moment(one.get("timestamp")) for one in entries if isinstance(one, dict))
    return next(filter(None, times), "")


def _own_message(entry: object, created: str) -> Said:
    if not isinstance(entry, dict):
        raise _Bad("it is not an object")
    role = _ROLES.get(_text(entry, "role"))
    if role is None:
        raise _Bad(f"its role is {str(entry.get('role'))[:40]!r}")
    content = entry.get("content")
    text = content if isinstance(content, str) else _joined(content)
    if text is None:
        raise _Bad("it has no text")
    _within(text)
    tokens = entry.get("token_count")
    return Said(
        role,
        text,
        moment(entry.get("timestamp")) or created,
        tokens if isinstance(tokens, int) and 0 <= tokens < 1 << 40 else None,
        _blocks(entry.get("blocks"), role, text),
    )


def _within(text: str) -> None:
    if len(text) > MAX_MESSAGE // 2:
        raise _Bad(f"it has {len(text):,} characters")


def _joined(content: object) -> str | None:
    """The text of a message that is given as blocks."""
    if not isinstance(content, list):
        return None
    texts = [_text(one, "text") for one in content if isinstance(one, dict)]
    return "\n".join(filter(None, texts)) or None


def _blocks(value: object, role: str, text: str) -> tuple[Block, ...]:
    """The blocks of a message that say nothing else than its text, which is what a person reads.

    A model's thoughts are sealed by its provider, for the chat they were thought in.
    """
    if not isinstance(value, list) or _depth(value) > _DEEPEST:
        return ()
    if len(json.dumps(value)) > MAX_MESSAGE // 2:
        return ()
    kinds = _KINDS[role]
    found = [one for one in value if isinstance(one, dict) and one.get("type") in kinds]
    said = [one for one in found if one.get("type") == "text"]
    if "".join(_text(one, "text") for one in said) != text:
        found = [{"type": "text", "text": text}] * bool(text) + [
            one for one in found if one not in said
        ]
    return tuple(found) if any(one.get("type") != "text" for one in found) else ()


def _depth(value: object) -> int:
    """How deeply a value is nested, told without recursion."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        one, depth = waiting.pop()
        deepest = max(deepest, depth)
        if depth > _DEEPEST:
            break
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [(item, depth + 1) for item in inner]
    return deepest


def _tags(value: object) -> tuple[str, ...]:
    tags = value if isinstance(value, list) else []
    return tuple(one for one in tags if isinstance(one, str) and len(one) <= MAX_TAG)[:MAX_TAGS]


def _compactions(value: object, created: str) -> Iterator[Compaction]:
    for one in value if isinstance(value, list) else ():
        count = one.get("messages") if isinstance(one, dict) else None
        if isinstance(count, int) and _text(one, "summary"):
            yield Compaction(count, _text(one, "summary"), moment(one.get("created_at")) or created)


def _origin(name: str, said: Iterable[Said]) -> str:
    """Which chat this is: ids are given out anew in every place, first words are not."""
    first = next(iter(said), None)
    if first is None:
        return ""
    digest = hashlib.sha256(f"{first.role}\n{whole(first.content)}".encode()).hexdigest()
    return f"retain:{name}:{digest[:16]}"


# ChatGPT


def _chatgpt(record: _Record, problems: list[str], where: str) -> Chat:
    created = moment(record.get("create_time")) or now()
    said = []
    for message in _branch(record):
        try:
            one = _chatgpt_message(message, created)
        except _Bad as bad:
            problems.append(f"{where}: a message was left out: {bad}")
            continue
        said += [one] if one else []
    name = _text(record, "conversation_id") or _text(record, "id")
    return Chat(
        "",
        _title(record.get("title")),
        created,
        moment(record.get("update_time")) or (said[-1].timestamp if said else created),
        (),
        tuple(said),
        origin=f"chatgpt:{name}"[:_NAME] if name else _origin("chatgpt", said),
        model=_text(record, "default_model_slug")[:_NAME],
    )


def _branch(record: _Record) -> list[_Record]:
    """The messages from the first to the one last shown."""
    nodes = record.get("mapping")
    assert isinstance(nodes, dict)  # noqa: S101 - by this the reader was chosen
    at = record.get("current_node")
    if at not in nodes:
        at = next((one for one in reversed(nodes) if _message_of(nodes[one])), None)
    seen: set[object] = set()
    found: list[_Record] = []
    while isinstance(at, str) and at in nodes and at not in seen:
        seen.add(at)
        found += [message] if (message := _message_of(nodes[at])) else []
        at = nodes[at].get("parent") if isinstance(nodes[at], dict) else None
    return found[::-1]


def _message_of(node: object) -> _Record | None:
    message = node.get("message") if isinstance(node, dict) else None
    return message if isinstance(message, dict) else None


def _chatgpt_message(message: _Record, created: str) -> Said | None:
    """What someone said; None for what was never shown: tools, notes and thoughts."""
    author, content = message.get("author"), message.get("content")
    if not isinstance(author, dict) or not isinstance(content, dict):
        raise _Bad("it has no author or no content")
    role = author.get("role")
    about = message.get("metadata")
    is_hidden = isinstance(about, dict) and about.get("is_visually_hidden_from_conversation")
    is_aside = message.get("recipient") not in (None, "all") or message.get("weight") == 0
    if role not in ("user", "assistant") or is_hidden or is_aside:
        return None
    if content.get("content_type") not in _TEXTS:
        return None
    parts = content.get("parts")
    texts = [
        one if isinstance(one, str) else _text(one, "text") if isinstance(one, dict) else ""
        for one in (parts if isinstance(parts, list) else ())
    ]
    text = "\n".join(filter(None, texts))
    _within(text)
    return Said(str(role), text, moment(message.get("create_time")) or created) if text else None


# Claude


def _claude(record: _Record, problems: list[str], where: str) -> Chat:
    created = moment(record.get("created_at")) or now()
    said = []
    for message in _thread(record):
        try:
            said.append(_claude_message(message, created))
        except _Bad as bad:
            problems.append(f"{where}: a message was left out: {bad}")
    name = _text(record, "uuid")
    return Chat(
        "",
        _title(record.get("name")),
        created,
        moment(record.get("updated_at")) or (said[-1].timestamp if said else created),
        (),
        tuple(said),
        origin=f"claude:{name}"[:_NAME] if name else _origin("claude", said),
        summary=_text(record, "summary"),
        model=_text(record, "model")[:_NAME],
    )


def _thread(record: _Record) -> list[object]:
    """The messages from the first to the one last shown; all of them where they form no tree."""
    entries = record.get("chat_messages")
    assert isinstance(entries, list)  # noqa: S101 - by this the reader was chosen
    named = {_text(one, "uuid"): one for one in entries if isinstance(one, dict)}
    if not any(_text(one, "parent_message_uuid") in named for one in named.values()):
        return entries
    at = _text(record, "current_leaf_message_uuid")
    at = at if at in named else next(reversed(named))
    seen: set[str] = set()
    found: list[object] = []
    while at in named and at not in seen:
        seen.add(at)
        found.append(named[at])
        at = _text(named[at], "parent_message_uuid")
    return found[::-1]


def _claude_message(entry: object, created: str) -> Said:
    if not isinstance(entry, dict):
        raise _Bad("it is not an object")
    role = _ROLES.get(_text(entry, "sender"))
    if role is None:
        raise _Bad(f"its sender is {str(entry.get('sender'))[:40]!r}")
    blocks = entry.get("content")
    shown = [one for one in blocks if isinstance(one, dict)] if isinstance(blocks, list) else []
    texts = [_text(one, "text") for one in shown if one.get("type") == "text"]
    texts = [*filter(None, texts)] or [_text(entry, "text")]
    pasted = entry.get("attachments")
    for one in pasted if isinstance(pasted, list) else ():
        texts += [_text(one, "extracted_content")] if isinstance(one, dict) else []
    text = "\n\n".join(filter(None, texts))
    if not text:
        raise _Bad("it has no text")
    _within(text)
    return Said(role, text, moment(entry.get("created_at")) or created)


_READERS: Final[tuple[tuple[str, type, _Reader], ...]] = (
    ("messages", list, _own),
    ("mapping", dict, _chatgpt),
    ("chat_messages", list, _claude),
)


# Values


def _text(record: _Record, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def _title(value: object) -> str:
    return " ".join(whole(value).split())[:_TITLE] if isinstance(value, str) else ""


def moment(value: object) -> str:
    """A time in UTC; one that is written so already stays as it is, what is none is empty."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            when = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str) and value:
            when = datetime.fromisoformat(value)
            if _STAMP.fullmatch(value):
                return value
        else:
            return ""
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
