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
    from retain.config import Config
    from retain.hooks.call import Call
    from retain.place import Place

__all__ = ["answer"]

_WRITERS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_REASON = (
    "Direct writes to the memory directory are blocked: Retain checks, versions and indexes what "
    "it stores. Use it via Bash instead: `retain record write --action create|update|retire ...` "
    "for a typed memory, `retain put`, `retain update` or `retain append` for any other, `retain "
    "config set` for a setting (or the MCP tools of the same names)."
)


def answer(call: Call) -> Answer:
    """Refuse a write into a bank; after one, look at what was written."""
    paths = ((path, bank_of(path, call.cwd, call.env)) for path in _paths(call))
    path, root = next((pair for pair in paths if pair[1]), ("", ""))
    if not root:
        return Answer()
    try:
        place, config = _settled(root, call)
    except Exception:  # noqa: BLE001 - whatever a hostile name does to those who look it up
        # Who cannot read the settings still keeps a bank closed, but judges no file by its rules.
        return _denied(call) if call.event == "pre-tool-use" else Answer()
    if not call.is_on_by(config):
        return Answer()
    if call.event == "pre-tool-use":
        return _denied(call)
    from retain.hooks import checking

    call.heed(config)
    return checking.answer(call, path, place, config)


def _denied(call: Call) -> Answer:
    said = {"permissionDecision": "deny", "permissionDecisionReason": _REASON}
    return Answer.special(call, said)


def _settled(root: str, call: Call) -> tuple[Place, Config]:
    """A bank, with what the person says and its own settings.

    What the project around the host says is not asked, or a stranger's would open every bank.
    """
    from retain import paths

    place = paths.find_bank(os.path.dirname(root), call.env, bank=root)
    return place, call.places.load(place)


def _paths(call: Call) -> list[str]:
    """The files that a tool may write to: links resolved, and as a host might spell them out."""
    given = call.payload.get("tool_input")
    if not isinstance(given, dict) or call.payload.get("tool_name", _WRITERS[0]) not in _WRITERS:
        return []
    found = []
    for name in ("file_path", "notebook_path"):
        path = given.get(name)
        if isinstance(path, str) and path and "\0" not in path:
            # Half a character cannot be looked up, yet a host writes something in its place.
            path = path.encode(errors="replace").decode()
            path = os.path.join(call.cwd, os.path.expanduser(path))
            found.append(os.path.realpath(path))
            if call.event == "pre-tool-use":
                found.append(os.path.normpath(path))
    return found
