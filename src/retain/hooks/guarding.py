"""Files of a bank are written by Retain alone: a tool that writes into one is refused.

What was written all the same, by a host that asks nobody or with the first hook switched off, is
looked at afterwards: what cannot be a memory is put aside under another name.
"""

from __future__ import annotations

import os

from retain.hooks.call import Answer
from retain.ownership import bank_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from retain.hooks.call import Call

__all__ = ["answer"]

_REASON = (
    "Direct writes to the memory directory are blocked: Retain checks, versions and indexes what "
    "it stores. Use it via Bash instead: `retain record write --action create|update|retire ...` "
    "for a typed memory, `retain put`, `retain update` or `retain append` for any other, `retain "
    "config set` for a setting (or the MCP tools of the same names)."
)


def answer(call: Call) -> Answer:
    """Refuse a write into a bank; after one, look at what was written."""
    path = _path(call)
    root = bank_of(path, call.cwd, call.env) if path else ""
    if not root or not call.is_on:
        return Answer()
    if call.event == "post-tool-use":
        from retain.hooks import checking

        return checking.answer(call, path, root)
    said = {
        "hookEventName": "PreToolUse",
        "permissionDecision": "deny",
        "permissionDecisionReason": _REASON,
    }
    return Answer.of({"hookSpecificOutput": said})


def _path(call: Call) -> str:
    """The file that a tool writes to, links resolved."""
    given = call.payload.get("tool_input")
    if not isinstance(given, dict):
        return ""
    path = given.get("file_path") or given.get("notebook_path")
    if not isinstance(path, str) or not path or "\0" in path:
        return ""
    path = os.path.join(call.cwd, os.path.expanduser(path))
    try:
        return os.path.realpath(path)
    except OSError:
        return os.path.normpath(path)
