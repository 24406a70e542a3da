"""One conversation, written the way each host writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

CONVERSATION = (
    ("user", "Please look at the build."),
    ("assistant", "I run it."),
    ("tool", "Bash"),
    ("tool", "Read"),
    ("assistant", "It failed; the fix is one line."),
    ("tool", "Edit"),
    ("assistant", "Done."),
    ("user", "Thanks."),
    ("tool", "Bash"),
    ("assistant", "You are welcome."),
)


def written(path: Path, records: Iterable[object]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def user(content: object, **more: object) -> dict[str, object]:
    return {"type": "user", "uuid": "u", "message": {"role": "user", "content": content}, **more}


def assistant(*blocks: object, answer: str = "", **more: object) -> dict[str, object]:
    message = {"id": answer, "role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "uuid": "a", "message": message, **more}


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def tool(name: str) -> dict[str, object]:
    return {"type": "tool_use", "id": "t", "name": name, "input": {"command": "true"}}


def result(words: str) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": "t", "content": words}


def claude_code() -> list[object]:
    """Each block on a line, a result after each tool, and an id that changes with each result."""
    records: list[object] = []
    answer = 0
    for kind, words in CONVERSATION:
        if kind == "user":
            records.append(user(words))
        elif kind == "assistant":
            answer += 1
            records.append(assistant({"type": "thinking", "thinking": "…"}, answer=f"m{answer}"))
            records.append(assistant(text(words), answer=f"m{answer}"))
        else:
            records.append(assistant(tool(words), answer=f"m{answer}"))
            records.append(user([result("an error")]))
    return records


def flat() -> list[object]:
    def record(kind: str, words: str) -> object:
        if kind == "tool":
            return {"type": "tool_use", "name": words}
        if kind == "user":
            return {"type": "human", "content": words}
        return {"type": "assistant", "content": [text(words)]}

    return [record(kind, words) for kind, words in CONVERSATION]


def codex() -> list[object]:
    def item(kind: str, words: str) -> list[object]:
        if kind == "tool":
            call = {"type": "function_call", "name": words, "arguments": "{}", "call_id": "c"}
            output = {"type": "function_call_output", "call_id": "c", "output": "an error"}
            return [
                {"type": "response_item", "payload": call},
                {"type": "response_item", "payload": output},
            ]
        block = {"type": "input_text" if kind == "user" else "output_text", "text": words}
        message = {"type": "message", "role": kind, "content": [block]}
        event = {"type": "event_msg", "payload": {"type": f"{kind}_message", "message": words}}
        return [{"type": "response_item", "payload": message}, event]

    return [record for kind, words in CONVERSATION for record in item(kind, words)]
