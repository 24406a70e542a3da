"""Files of a bank are written by Retain alone: a tool that writes into one is refused.

What was written all the same, by a host that asks nobody or with the first hook switched off, is
looked at afterwards: what cannot be a memory is put aside under another name.
"""

from __future__ import annotations

import os

from retain.hooks import Answer, Call
from retain.ownership import bank_of

# Few imports, as in `hooks`: this runs before every edit.

_WRITERS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_REASON = (
    "Direct writes to the memory directory are blocked: Retain checks, versions and indexes what "
    "it stores. Use it via Bash instead: `retain record write --action create|update|retire ...` "
    "for a typed memory, `retain put`, `retain update` or `retain append` for any other, `retain "
    "config set` for a setting (or the MCP tools of the same names)."
)


def answer(call: Call) -> Answer:
    """Deny a write into a bank; after one, check what was written."""
    tool = call.payload.get("tool_name", _WRITERS[0])
    if tool not in _WRITERS:
        return Answer(reason=f"{tool} is no tool that writes files.")
    banks = ((path, bank_of(path, call.cwd, call.env)) for path in _paths(call))
    path, root = next((pair for pair in banks if pair[1]), ("", ""))
    if not root:
        return Answer(reason="That file is in no bank, or yours to write.")
    denial = {"permissionDecision": "deny", "permissionDecisionReason": _REASON}
    try:
        from retain.locate import find_bank

        # The bank's own settings and the person's: what the project around the host says is not
        # asked, or a stranger's would open every bank.
        place = find_bank(os.path.dirname(root), call.env, bank=root)
        config = call.locator.load_config(place)
    except Exception:  # noqa: BLE001 - whatever a hostile name does to those who look it up
        # Without the settings a bank is still kept closed, but no file is judged by its rules.
        return call.reply(denial) if call.event == "pre-tool-use" else Answer()
    if reason := call.find_off_reason(config):
        return Answer(reason=reason)
    if call.event == "pre-tool-use":
        return call.reply(denial)
    from retain.hooks import post_tool

    call.set_deadline(config)
    return post_tool.answer(call, path, place, config)


def _paths(call: Call) -> list[str]:
    """The files that a tool may write to: links resolved, and as a host might spell them out."""
    fields = call.payload.get("tool_input")
    paths: list[str] = []
    if not isinstance(fields, dict):
        return paths
    for name in ("file_path", "notebook_path"):
        path = fields.get(name)
        if isinstance(path, str) and path and "\0" not in path:
            # Half a character cannot be looked up, yet a host writes something in its place.
            path = path.encode(errors="replace").decode()
            path = os.path.join(call.cwd, os.path.expanduser(path))
            paths.append(os.path.realpath(path))
            if call.event == "pre-tool-use":
                paths.append(os.path.normpath(path))
    return paths
