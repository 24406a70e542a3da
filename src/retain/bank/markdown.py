"""Memories as Markdown: input cleaned and composed into files, files parsed and edited.

An edit changes the keys it names, or the body, and leaves every other byte as it was.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from retain.config import Config
from retain.errors import Unreadable, UsageError
from retain.memory import DEFAULT_TYPE, Memory, now, texts
from retain.text import frontmatter

_CONFLICT: Final = "git's marks of an unsettled merge are in it (<<<<<<<); settle it in an editor"
_BOM: Final = "\ufeff"
# Which variable a host sets in the commands its agent runs, and what the agent is called.
_AGENTS: Final = (
    ("CLAUDECODE", "Claude"),
    ("CODEX_THREAD_ID", "Codex"),
    ("CODEX_SANDBOX", "Codex"),
    ("GEMINI_CLI", "Gemini"),
    ("CURSOR_AGENT", "Cursor"),
    ("OPENCODE", "OpenCode"),
)
_ORDER: Final = ("id", "title", "type", "status", "tags", "created_at", "created_by", "context")
_SET_ONCE: Final = ("id", "created_at", "created_by")  # what a memory keeps from its first day
_KEY: Final = "a field's name"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


class Document(NamedTuple):
    """A file's metadata and text; `problem` says what could not be read."""

    meta: dict[str, object]
    body: str
    problem: str = ""


def parse_file(name: str, data: bytes) -> Document:
    """Read a memory's file, by its ending: Markdown, or a JSON record."""
    if name.endswith(".json"):
        from retain.bank import records_json

        return records_json.parse(data)
    return parse(data)


def edit_file(
    name: str, data: bytes, changes: Mapping[str, object], body: str | None = None
) -> bytes:
    """Change keys or the body of a memory's file, by its ending."""
    try:
        if name.endswith(".json"):
            from retain.bank import records_json

            return records_json.edit(data, changes, body)
        return edit(data, changes, body)
    except Unreadable as error:
        is_conflict = _is_conflicted(data.decode("utf-8", "replace"))
        message = f"{name}: {_CONFLICT if is_conflict else error.message}"
        raise Unreadable(message, unchanged=error.unchanged, hint=error.hint) from error


def parse(data: bytes) -> Document:
    """Read a memory; a file that makes no sense is all body, with the problem named."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return Document({}, data.decode("utf-8", "replace"), f"not UTF-8 at byte {error.start}")
    text = text.removeprefix(_BOM)
    problem = ""
    try:
        meta, body = frontmatter.parse(text)
    except Unreadable as error:
        meta, body, problem = {}, text, error.message
    if _is_conflicted(text):
        problem = _CONFLICT
    elif len(body) < len(text) and body.startswith("---") and _has_head(body):
        problem = "a second frontmatter block stands after the first"
    elif not text.strip():
        problem = "the file is empty"
    elif "\0" in text and not problem:
        problem = "the file holds a NUL character"
    return Document(meta, body, problem)


def searchable(memory: Memory) -> str:
    """A memory's text; a typed one has it in its frontmatter."""
    content = memory.meta.get("content")
    if not isinstance(content, dict):
        return memory.body
    from retain.bank.records_json import render

    return f"{memory.body}\n\n{render(content)}".strip("\n") if memory.body else render(content)


def _is_conflicted(text: str) -> bool:
    """Whether git left its marks of a merge that nobody has settled yet."""
    lines = text.splitlines() if "<<<<<<< " in text else []
    marks = ("<<<<<<< ", "=======", ">>>>>>> ")
    return all(any(line.startswith(mark) for line in lines) for mark in marks)


def _has_head(text: str) -> bool:
    """Whether a body starts with a frontmatter block of its own."""
    try:
        return bool(frontmatter.parse(text)[0])
    except Unreadable:
        return False


def compose(meta: Mapping[str, object], body: str) -> bytes:
    """A new file from metadata and a body, which keeps its own line endings."""
    newline = "\r\n" if "\r\n" in body[:4096] else "\n"
    head = frontmatter.dump(meta, newline)
    return f"---{newline}{head}---{newline}{newline}{body}".encode()


def edit(data: bytes, changes: Mapping[str, object], body: str | None = None) -> bytes:
    """Change keys (None removes one) or the body; every other byte stays as it was."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error
    mark = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    parts = frontmatter.split(text)
    if parts is None:
        # It gets frontmatter only when there is something to put in it, or a body that would be
        # taken to start with one.
        wanted = {key: value for key, value in changes.items() if value is not None}
        new = text if body is None else body
        is_headed = wanted or (new != text and _looks_headed(new))
        return mark.encode() + (compose(wanted, new) if is_headed else new.encode())
    start, end, rest = parts
    # Read even when no key changes: a head that makes no sense is not to be built upon.
    head = frontmatter.change(text[start:end], changes)
    after = text[end:]
    if body is not None and body != text[rest:]:
        after = _parted(text[end:rest], body) + body
    return (mark + text[:start] + head + after).encode()


def _parted(closing: str, body: str) -> str:
    """The closing mark with the line breaks that keep it and the body apart."""
    newline = "\r\n" if "\r\n" in closing else "\n"
    lines = closing.count("\n")
    if not lines:
        closing += newline  # it was the file's last line
    if lines < 2 and body.startswith(("\n", "\r\n")):
        closing += newline  # or the body's own first line would be taken for the blank one
    return closing


def _looks_headed(text: str) -> bool:
    """Whether a text without frontmatter would be taken to start with one."""
    try:
        return text.startswith(_BOM) or frontmatter.split(text) is not None
    except Unreadable:
        return True


# What a person or an agent hands in


class MemoryInput(NamedTuple):
    """What somebody wants to store or change; empty and None mean not given."""

    text: str | None = None
    fields: Mapping[str, object] = {}
    tags: Sequence[str] | None = None
    merge_tags: bool = False
    allow_secret: bool = False

    def changes(
        self, meta: Mapping[str, object], present_tags: Sequence[str] = ()
    ) -> dict[str, object]:
        """The frontmatter keys that this sets; `content.decision` is a field of `content`."""
        changes: dict[str, object] = {}
        for key, value in self.fields.items():
            name = key if key in meta else key.partition(".")[0]
            changes[name] = _set_field({**meta, **changes}, key, value).get(name)
        if self.tags is not None:
            tags = [*present_tags, *self.tags] if self.merge_tags else self.tags
            changes["tags"] = list(dict.fromkeys(tags))
        return changes

    def changes_to(self, memory: Memory) -> dict[str, object]:
        """The keys that this sets in a memory."""
        meta = memory.meta
        if memory.path.endswith(".json"):  # whose content is its text
            from retain.bank import records_json

            meta = {**records_json.load(memory.data), **meta}
        return self.changes(meta, memory.tags)

    def for_existing(self) -> MemoryInput:
        """The same for a memory that exists: what it was created with, it keeps."""
        return self._replace(fields=_without_set_once(self.fields))


def _set_field(values: Mapping[str, Any], key: str, value: object) -> dict[str, Any]:
    """Values with one set, or removed by None; a dotted key leads into a mapping that is there."""
    name, dot, rest = key.partition(".")
    if dot and key not in values:
        if not isinstance(values.get(name), dict):
            raise UsageError(
                f"{key!r} cannot be set: the memory has no fields in {name!r}",
                unchanged="Nothing was stored.",
                hint="Name a key without a dot, or one that has fields, as content.decision.",
            )
        key, value = name, _set_field(values[name], rest, value)
    others = {other: kept for other, kept in values.items() if other != key}
    return {**values, key: value} if value is not None else others


class ParsedText(NamedTuple):
    """A text as it was handed in: its own frontmatter, if it has any, and its body."""

    text: str
    meta: Mapping[str, object]
    body: str
    warnings: tuple[str, ...] = ()

    def compose(self, fields: Mapping[str, object]) -> bytes:
        """The file to store: the text's own frontmatter with these fields set, or a new one."""
        first = {key: fields[key] for key in _ORDER if fields.get(key) is not None}
        fields = first | {key: value for key, value in fields.items() if key not in first}
        has_head = len(self.body) < len(self.text)
        return edit(self.text.encode(), fields) if has_head else compose(fields, self.body)


def admit(
    memory_input: MemoryInput, *, redact_secrets: bool
) -> tuple[MemoryInput, tuple[str, ...]]:
    """The input as it may be stored, and what has to be said about secrets in it."""
    from retain.text.secrets import redact_value  # large, and reads never need it

    if frontmatter.is_deep(memory_input.fields):
        raise UsageError("the metadata is nested too deeply", unchanged="Nothing was stored.")
    plain: dict[str, Any] = {
        "text": _clean(memory_input.text, "text"),
        "tags": _clean(memory_input.tags, "tags"),
        "fields": {
            _clean(key, _KEY): _clean(item, key) for key, item in memory_input.fields.items()
        },
    }
    admitted = memory_input._replace(**plain)
    clean, kinds = redact_value(plain)
    if not kinds:
        return admitted, ()
    names = f"{len(kinds)} secret{'s' * (len(kinds) > 1)} ({', '.join(sorted(set(kinds)))})"
    if admitted.allow_secret or not redact_secrets:
        return admitted, (f"stored as given, with what looks like {names}",)
    assert isinstance(clean, dict)  # noqa: S101 - shapes are kept
    warning = f"replaced {names} by [REDACTED:...]; --allow-secret stores it as it is"
    return admitted._replace(**clean), (warning,)


def _clean(value: Any, name: str) -> Any:
    """A value as a file can hold it; titles and tags lose what breaks a line or a terminal."""
    if isinstance(value, dict):
        return {_clean(key, _KEY): _clean(item, f"{name}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item, name) for item in value]
    if not isinstance(value, str):
        return value
    if name.rpartition(".")[2] in ("title", "tags"):
        value = _CONTROL.sub("", value)
    reason = "holds a NUL character" if "\0" in value else ""
    try:
        value.encode()
    except UnicodeEncodeError:
        reason = "is not valid UTF-8"
    if reason:
        name = _CONTROL.sub("", name.removeprefix("record.")).encode("utf-8", "replace").decode()
        what = "the text" if name == "text" else name
        raise UsageError(f"{what} {reason}", unchanged="Nothing was stored.")
    return value


def refuse_secret_names(*names: str | None) -> None:
    """Refuse an id or a collection that looks like a secret.

    A name cannot be redacted, and it stands in listings, paths and commit messages.
    """
    from retain.text.secrets import redact

    for name in filter(None, names):
        if kinds := redact(name)[1]:
            raise UsageError(
                f"a name looks like a secret ({', '.join(kinds)})",
                unchanged="Nothing was changed.",
                hint="Choose another id or collection.",
            )


def find_author(config: Config, env: Mapping[str, str]) -> str:
    """Who is writing: the one configured, the agent that runs this command, or the user."""
    configured = config.text("memory.created_by")
    return configured or find_agent(env) or env.get("USER") or env.get("LOGNAME") or _login()


def find_agent(env: Mapping[str, str]) -> str:
    """The agent that runs this command, as its host says; empty where a person does."""
    return next((agent for variable, agent in _AGENTS if env.get(variable)), "")


def _login() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def clean_tags(tags: Sequence[str]) -> list[str]:
    """Tags as they are written: without spaces around them, none twice, and none that is empty."""
    found = dict.fromkeys(" ".join(tag.split()) for tag in tags)
    if any("," in tag for tag in found):
        raise UsageError("a tag has no comma in it", hint="Give several tags one by one.")
    return [tag for tag in found if tag]


def parse_text(text: str | None) -> ParsedText:
    """Take a text apart; one with broken frontmatter is kept whole as the body."""
    text = (text or "").removeprefix(_BOM)
    try:
        meta, body = frontmatter.parse(text)
    except Unreadable as error:
        return ParsedText(text, {}, text, (f"{error.message}; all of it was kept as text",))
    if not body.strip() and not meta:
        raise UsageError("there is no text to store", unchanged="Nothing was changed.")
    return ParsedText(text, meta, body)


def compose_new(memory_input: MemoryInput, parsed: ParsedText, name: str, author: str) -> bytes:
    """The file of a new memory."""
    return parsed.compose(
        {
            "id": name,
            "created_at": parsed.meta.get("created_at") or now(),
            "created_by": author,
            **memory_input.changes(parsed.meta),
        }
    )


def compose_merged(
    memories: Sequence[Memory],
    name: str,
    memory_input: MemoryInput,
    parsed: ParsedText,
    author: str,
) -> bytes:
    """The file that stands for several: their tags, their links and their common type live on."""
    types = {memory.type for memory in memories}
    is_plain = not any(isinstance(memory.meta.get("content"), dict) for memory in memories)
    common = types.pop() if len(types) == 1 and is_plain else DEFAULT_TYPE
    tags = list(dict.fromkeys(tag for memory in memories for tag in memory.tags))
    former = (old for memory in memories for old in (memory.ref, *memory.merged_from))
    related = [*texts(parsed.meta.get("related_to")), *_lost_links(memories, parsed.body)]
    fields: dict[str, object] = {
        "id": name,
        "type": parsed.meta.get("type") or (common if common != DEFAULT_TYPE else None),
        "tags": parsed.meta.get("tags") or tags,
        "created_at": parsed.meta.get("created_at") or now(),
        "created_by": parsed.meta.get("created_by") or author,
        "merged_from": list(dict.fromkeys(former)),
        "related_to": related,
        **memory_input.changes(parsed.meta),
    }
    return parsed.compose({key: value for key, value in fields.items() if value})


def _lost_links(memories: Sequence[Memory], body: str) -> list[str]:
    """What the memories link to and the text that replaces them does not."""
    from retain.text.links import find_links  # many patterns, which only a merge needs

    there = {link.target for link in find_links(body)}
    old = dict.fromkeys(
        target
        for memory in memories
        for target in (*(link.target for link in find_links(memory.body)), *memory.related_to)
    )
    own = {name for memory in memories for name in (memory.id, memory.ref)}
    return [target for target in old if target not in there and target not in own]


def replace_text(memory: Memory, memory_input: MemoryInput, parsed: ParsedText) -> bytes:
    """A memory's bytes with a new text; metadata that neither input nor text names stays."""
    # A text that is all frontmatter speaks of metadata alone.
    body = parsed.body if parsed.body.strip() or not parsed.meta else None
    changes = {**_without_set_once(parsed.meta), **memory_input.changes_to(memory)}
    return revise(memory, changes, body)


def _without_set_once(fields: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in fields.items() if key not in _SET_ONCE}


def append_text(memory: Memory, addition: str) -> bytes:
    """A memory's bytes with more text at the end, two line breaks after what is there."""
    if not memory.path.endswith(".md"):
        raise Unreadable(
            f"{memory.path}: text cannot be appended to a JSON record",
            hint="Change its fields with `retain update --metadata` or --content.",
        )
    body = memory.body
    newline = "\r\n" if "\r\n" in body else "\n"
    end = newline if body.endswith("\n") and not addition.endswith("\n") else ""
    before = body.rstrip()
    return revise(memory, {}, f"{before}{newline * 2 if before else ''}{addition}{end}")


def revise(memory: Memory, changes: Mapping[str, object], body: str | None) -> bytes:
    """A memory's new bytes; `updated_at` moves only when something else did."""
    data = edit_file(memory.path, memory.data, changes, body)
    stated = {key: value for key, value in changes.items() if value is not None}
    return touch(memory, {**memory.meta, **stated}, data)


def touch(memory: Memory, meta: Mapping[str, object], data: bytes) -> bytes:
    """Bytes that replace a memory's, with `updated_at` moved unless they move it themselves."""
    is_moved = meta.get("updated_at") != memory.meta.get("updated_at")
    if data == memory.data or is_moved or not meta:
        return data
    return edit_file(memory.path, data, {"updated_at": now()})


def set_own_id(memory: Memory) -> bytes:
    """A memory's bytes with its own `id:` set to its name, if it states one."""
    if memory.problem or str(memory.meta.get("id", memory.id)) == memory.id:
        return memory.data
    return edit_file(memory.path, memory.data, {"id": memory.id})
