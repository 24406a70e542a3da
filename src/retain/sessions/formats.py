"""Chats as text: written as JSON, JSON lines and Markdown, and read from what other tools export.

Read are chats as Retain writes them, alone or in a list; JSON lines, in which the last line about
a chat itself holds; and the exports of ChatGPT and Claude, whose messages form a tree of which the
branch last shown is the chat. What cannot be used of a file is named, and the rest is read.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from retain.errors import ImportRefused
from retain.memory import now
from retain.sessions.database import MAX_MESSAGE
from retain.sessions.model import Block, Chat, ChatMessage, Compaction, clean_unicode
from retain.text.memory_tags import find_facts, hide_tags

MAX_TAGS: Final = 100
MAX_TAG: Final = 100
_MAX_TITLE: Final = 200
_MAX_NAME: Final = 300
_ROLES: Final = {
    "user": "user", "human": "user", "assistant": "assistant", "model": "assistant",
    "system": "system",
}  # fmt: skip
_SPEAKERS: Final = {"user": "You", "assistant": "Assistant", "system": "System"}
_UTC_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z")
_ID_DAY: Final = re.compile(r"session_(\d{4})(\d\d)(\d\d)_")
# The blocks that a message of each side can have.
_BLOCKS: Final = {"user": ("text", "tool_result"), "assistant": ("text", "tool_use"), "system": ()}
UNKNOWN: Final = (
    "It reads its own exports, those of ChatGPT and Claude, and transcripts of Claude Code and "
    "Codex."
)

_Record = Mapping[str, object]


class ReadChats(NamedTuple):
    """The chats of a file, and what in it could not be used."""

    chats: list[Chat]
    problems: list[str]


class _Unusable(Exception):
    """An entry that is no message, with the reason."""


# Out


def to_dict(chat: Chat) -> dict[str, object]:
    """A chat as plain data; keys beyond the usual ones only where they say something."""
    messages = []
    for message in chat.messages:
        entry: dict[str, object] = {
            "role": message.role,
            "content": message.content,
            "timestamp": message.timestamp,
        }
        if message.token_count is not None:
            entry["token_count"] = message.token_count
        if message.blocks:
            entry["blocks"] = [dict(block) for block in message.blocks]
        messages.append(entry)
    more = {
        "summary": chat.summary,
        "model": chat.model,
        "origin": chat.origin,
        "compactions": [compaction._asdict() for compaction in chat.compactions],
    }
    return {
        "id": chat.id,
        "created_at": chat.created_at,
        "updated_at": chat.updated_at,
        "title": chat.title,
        "tags": list(chat.tags),
        "messages": messages,
        **{key: value for key, value in more.items() if value},
    }


def as_json(*chats: Chat) -> str:
    """One chat, or a list of several."""
    data = to_dict(chats[0]) if len(chats) == 1 else [to_dict(chat) for chat in chats]
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def as_jsonl(*chats: Chat) -> str:
    """One line about each chat, then one for each of its messages."""
    records: list[dict[str, object]] = []
    for chat in chats:
        record = to_dict(chat)
        messages = record.pop("messages")
        records.append({"type": "meta", **record})
        if isinstance(messages, list):
            records += [{"type": "message", **message} for message in messages]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def as_markdown(*chats: Chat) -> str:
    """Chats for reading; the rounds of a tool stand under the heading of who called it."""
    parts = []
    for chat in chats:
        about = [f"- Session: {chat.id}", f"- From: {chat.created_at}", f"- To: {chat.updated_at}"]
        if chat.model:
            about.append(f"- Model: {chat.model}")
        if chat.tags:
            about.append(f"- Tags: {', '.join(chat.tags)}")
        parts += [f"# {chat.title}", "\n".join(about), chat.summary]
        speaker = ""
        for message in chat.messages:
            text, notes = message.content.strip(), []
            if message.role == "assistant":
                text = hide_tags(text).strip()
                notes = [f"_Memory: {fact}_" for fact in find_facts(message.content)]
            calls = [block for block in message.blocks if block.get("type") == "tool_use"]
            if calls:
                notes.append(f"_Used: {', '.join(str(block.get('name')) for block in calls)}_")
            is_said = bool(text or notes)  # what tools gave back is no part of what was said
            if is_said and (message.role, speaker) != ("assistant", "assistant"):
                parts.append(f"## {_SPEAKERS[message.role]}, {message.timestamp}")
            speaker = message.role if is_said else speaker
            parts += [text, *notes]
    return "\n\n".join(filter(None, parts)) + "\n"


FORMATS: Final = {"json": as_json, "jsonl": as_jsonl, "md": as_markdown}


# In


def parse(data: bytes, name: str) -> ReadChats | None:
    """The chats in a file's bytes; None for lines that are someone else's transcript."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ImportRefused(f"{name} is not UTF-8 text (byte {error.start})") from error
    try:
        value = _load(text)
    except RecursionError as error:
        raise ImportRefused(f"{name} is nested too deeply to be read") from error
    except ValueError as error:
        chats = _parse_lines(text, name)
        if chats is None and not name.endswith(".jsonl"):
            raise ImportRefused(f"{name} is not JSON: {error}") from error
        return chats
    is_line = isinstance(value, dict) and value.get("type") == "meta"
    if is_line or (name.endswith(".jsonl") and _reader_of(value) is None):
        return _parse_lines(text, name)
    if isinstance(value, dict) and _reader_of(value) is None:
        value = value.get("conversations") or value.get("sessions") or []
    entries = value if isinstance(value, list) else [value]
    if not any(map(_reader_of, entries)):
        raise ImportRefused(f"{name} holds no chats that Retain knows how to read", hint=UNKNOWN)
    return _read_entries(
        [
            (f"{name}: chat {number}" if len(entries) > 1 else name, entry)
            for number, entry in enumerate(entries, 1)
        ]
    )


def _load(text: str) -> object:
    # Null for numbers that Python reads and no other program would.
    return json.loads(text, parse_constant=lambda _: None)


def _parse_lines(text: str, name: str) -> ReadChats | None:
    """JSON lines; a line about another chat begins that one."""
    problems: list[str] = []
    chats: list[dict[str, object]] = []
    about: dict[str, object] = {}
    messages: list[object] = []
    is_ours = False
    # Not splitlines: a text may hold the separators that only that one knows.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip("\0 \t\r"):
            continue
        try:
            record = _load(line.strip("\0 \t\r"))
        except (ValueError, RecursionError):
            record = None
        kind = record.get("type") if isinstance(record, dict) else None
        if not isinstance(record, dict):
            problems.append(f"{name}: line {number} is not a JSON object")
            continue
        if kind == "meta":
            if about.get("id") not in (None, record.get("id")):
                chats.append({**about, "messages": messages})
                about, messages = {}, []
            about = {**about, **record}
        elif kind == "message" and "role" in record:
            messages.append(record)
        elif not is_ours:
            return None
        else:
            problems.append(f"{name}: line {number} is neither meta nor message")
        is_ours = True
    if not is_ours:
        return None
    stem = name.rpartition("/")[2].partition(".")[0]
    chats.append({"id": stem, **about, "messages": messages})
    entries = [(f"{name}: {chat['id']}" if len(chats) > 1 else name, chat) for chat in chats]
    found = _read_entries(entries)
    return ReadChats(found.chats, [*problems, *found.problems])


def _read_entries(entries: Iterable[tuple[str, object]]) -> ReadChats:
    """The chats among entries, each with the words that name it in a problem."""
    found = ReadChats([], [])
    for where, entry in entries:
        reader = _reader_of(entry)
        if reader is None or not isinstance(entry, dict):
            found.problems.append(f"{where} was left out: it is not a chat")
        elif (chat := reader(entry, found.problems, where)).messages:
            found.chats.append(chat)
        else:
            found.problems.append(f"{where} was left out: nothing was said in it")
    return found


def chat_from_dict(record: _Record, problems: list[str], where: str) -> Chat | None:
    """A chat in plain data as Retain writes it; None, and a problem, for one without messages."""
    found = _read_entries([(where, record)])
    problems += found.problems
    return found.chats[0] if found.chats else None


def _read_messages(
    entries: Iterable[object],
    read: Callable[[_Record, str], ChatMessage | None],
    created: str,
    problems: list[str],
    where: str,
) -> tuple[ChatMessage, ...]:
    messages = []
    for number, entry in enumerate(entries, 1):
        message, reason = None, ""
        try:
            message = read(entry, created) if isinstance(entry, dict) else None
            reason = "" if isinstance(entry, dict) else "it is not an object"
        except _Unusable as error:
            reason = str(error)
        if message and len(message.content) > MAX_MESSAGE // 2:
            reason = f"it has {len(message.content):,} characters"
        if reason:
            problems.append(f"{where}: message {number} was left out: {reason}")
        elif message:
            messages.append(message)
    return tuple(messages)


def _read_own(record: _Record, problems: list[str], where: str) -> Chat:
    name = _text(record, "id")[:_MAX_NAME]
    entries = _list(record, "messages")
    times = [utc_time(entry.get("timestamp")) for entry in entries if isinstance(entry, dict)]
    day = _ID_DAY.match(name)
    start = utc_time(f"{day[1]}-{day[2]}-{day[3]}T00:00:00Z") if day else ""
    first = next(filter(None, times), "")
    created = utc_time(record.get("created_at")) or first or start or now()
    messages = _read_messages(entries, _own_message, created, problems, where)
    return Chat(
        name,
        _title(record, "title"),
        created,
        utc_time(record.get("updated_at")) or _last_time(messages, created),
        tuple(tag for tag in _list(record, "tags") if isinstance(tag, str) and len(tag) <= MAX_TAG)[
            :MAX_TAGS
        ],
        messages,
        origin=_text(record, "origin")[:_MAX_NAME] or _origin(f"retain:{name}", messages),
        summary=_text(record, "summary"),
        model=_text(record, "model")[:_MAX_NAME],
        compactions=tuple(
            Compaction(count, _text(entry, "summary"), utc_time(entry.get("created_at")) or created)
            for entry in _list(record, "compactions")
            if isinstance(entry, dict)
            and isinstance(count := entry.get("messages"), int)
            and _text(entry, "summary")
        ),
    )


def _own_message(entry: _Record, created: str) -> ChatMessage:
    role = _ROLES.get(_text(entry, "role"))
    if role is None:
        raise _Unusable(f"its role is {str(entry.get('role'))[:40]!r}")
    content = entry.get("content")
    if isinstance(content, list):
        content = "\n".join(filter(None, (_text(part, "text") for part in content))) or None
    if not isinstance(content, str):
        raise _Unusable("it has no text")
    tokens = entry.get("token_count")
    return ChatMessage(
        role,
        content,
        utc_time(entry.get("timestamp")) or created,
        tokens if isinstance(tokens, int) and 0 <= tokens < 1 << 40 else None,
        _own_blocks(_list(entry, "blocks"), role, content),
    )


def _own_blocks(values: Iterable[object], role: str, text: str) -> tuple[Block, ...]:
    """The blocks of a message, unless they say something else than its text, which people read.

    A model's thoughts are sealed by its provider, for the chat they were thought in.
    """
    blocks = [
        block for block in values if isinstance(block, dict) and block.get("type") in _BLOCKS[role]
    ]
    texts = [_text(block, "text") for block in blocks if block.get("type") == "text"]
    has_tools = len(texts) < len(blocks)
    return tuple(blocks) if has_tools and "".join(texts) in ("", text) else ()


def _read_chatgpt(record: _Record, problems: list[str], where: str) -> Chat:
    created = utc_time(record.get("create_time")) or now()
    nodes = record.get("mapping")
    nodes = nodes if isinstance(nodes, dict) else {}
    leaf = record.get("current_node")
    if not isinstance(leaf, str) or leaf not in nodes:
        leaf = next(reversed(nodes), "")
    branch = (node.get("message") for node in _follow_parents(nodes, leaf, "parent"))
    shown = [message for message in branch if message is not None]
    messages = _read_messages(shown, _chatgpt_message, created, problems, where)
    name = _text(record, "conversation_id") or _text(record, "id")
    return Chat(
        "",
        _title(record, "title"),
        created,
        utc_time(record.get("update_time")) or _last_time(messages, created),
        (),
        messages,
        origin=f"chatgpt:{name}"[:_MAX_NAME] if name else _origin("chatgpt", messages),
        model=_text(record, "default_model_slug")[:_MAX_NAME],
    )


def _chatgpt_message(message: _Record, created: str) -> ChatMessage | None:
    """A message; None for what was never shown: tools, notes and thoughts."""
    author, content, about = (message.get(key) for key in ("author", "content", "metadata"))
    if not isinstance(author, dict) or not isinstance(content, dict):
        raise _Unusable("it has no author or no content")
    role = author.get("role")
    is_hidden = isinstance(about, dict) and about.get("is_visually_hidden_from_conversation")
    is_aside = message.get("recipient") not in (None, "all") or message.get("weight") == 0
    is_text = content.get("content_type") in ("text", "multimodal_text")
    if role not in ("user", "assistant") or is_hidden or is_aside or not is_text:
        return None
    parts = [
        part if isinstance(part, str) else _text(part, "text") for part in _list(content, "parts")
    ]
    text = "\n".join(filter(None, parts))
    when = utc_time(message.get("create_time")) or created
    return ChatMessage(str(role), text, when) if text else None


def _read_claude(record: _Record, problems: list[str], where: str) -> Chat:
    created = utc_time(record.get("created_at")) or now()
    entries = _list(record, "chat_messages")
    nodes = {_text(entry, "uuid"): entry for entry in entries if isinstance(entry, dict)}
    if any(_text(node, "parent_message_uuid") in nodes for node in nodes.values()):
        leaf = _text(record, "current_leaf_message_uuid")
        leaf = leaf if leaf in nodes else next(reversed(nodes))
        entries = [*_follow_parents(nodes, leaf, "parent_message_uuid")]
    messages = _read_messages(entries, _claude_message, created, problems, where)
    name = _text(record, "uuid")
    return Chat(
        "",
        _title(record, "name"),
        created,
        utc_time(record.get("updated_at")) or _last_time(messages, created),
        (),
        messages,
        origin=f"claude:{name}"[:_MAX_NAME] if name else _origin("claude", messages),
        summary=_text(record, "summary"),
        model=_text(record, "model")[:_MAX_NAME],
    )


def _claude_message(entry: _Record, created: str) -> ChatMessage:
    role = _ROLES.get(_text(entry, "sender"))
    if role is None:
        raise _Unusable(f"its sender is {str(entry.get('sender'))[:40]!r}")
    blocks = [block for block in _list(entry, "content") if isinstance(block, dict)]
    texts = [_text(block, "text") for block in blocks if block.get("type") == "text"]
    texts = [*filter(None, texts)] or [_text(entry, "text")]
    texts += [_text(pasted, "extracted_content") for pasted in _list(entry, "attachments")]
    text = "\n\n".join(filter(None, texts))
    if not text:
        raise _Unusable("it has no text")
    return ChatMessage(role, text, utc_time(entry.get("created_at")) or created)


_Reader = Callable[[_Record, list[str], str], Chat]
_READERS: Final[tuple[tuple[str, type, _Reader], ...]] = (
    ("messages", list, _read_own),
    ("mapping", dict, _read_chatgpt),
    ("chat_messages", list, _read_claude),
)


def _reader_of(entry: object) -> _Reader | None:
    if isinstance(entry, dict):
        for key, kind, reader in _READERS:
            if isinstance(entry.get(key), kind):
                return reader
    return None


# Values


def _follow_parents(nodes: Mapping[str, object], leaf: str, key: str) -> list[_Record]:
    """The nodes from the first one to a leaf; a circle ends where it began."""
    branch: list[_Record] = []
    seen: set[str] = set()
    while leaf in nodes and leaf not in seen:
        seen.add(leaf)
        node = nodes[leaf]
        if not isinstance(node, dict):
            break
        branch.append(node)
        leaf = _text(node, key)
    return branch[::-1]


def _origin(source: str, messages: Iterable[ChatMessage]) -> str:
    """Which chat this is: ids are given out anew in every place, first words are not."""
    first = next(iter(messages), None)
    if first is None:
        return ""
    digest = hashlib.sha256(f"{first.role}\n{clean_unicode(first.content)}".encode()).hexdigest()
    return f"{source}:{digest[:16]}"


def _last_time(messages: tuple[ChatMessage, ...], created: str) -> str:
    return messages[-1].timestamp if messages else created


def _text(record: object, key: str) -> str:
    value = record.get(key) if isinstance(record, Mapping) else None
    return value if isinstance(value, str) else ""


def _list(record: _Record, key: str) -> list[object]:
    value = record.get(key)
    return value if isinstance(value, list) else []


def _title(record: _Record, key: str) -> str:
    return " ".join(clean_unicode(_text(record, key)).split())[:_MAX_TITLE]


def utc_time(value: object) -> str:
    """A time in UTC; one that is written so already stays as it is, what is none is empty."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            when = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str) and value:
            when = datetime.fromisoformat(value)
            if _UTC_TIME.fullmatch(value):
                return value
        else:
            return ""
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
