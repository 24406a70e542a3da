"""Files of a bank are written by Retain alone: a tool that writes into one is refused.

What was written all the same, by a host that asks nobody or with the first hook switched off, is
looked at afterwards: what cannot be a memory is put aside under another name. This runs before
every edit an agent makes, so a path is first judged by its spelling alone.
"""

from __future__ import annotations

import os

from retain.hooks.call import Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from retain.hooks.call import Call

__all__ = ["answer", "bank_of"]

_NAMES = (".retain", ".memories")  # directories that are banks, wherever they stand
_PAIR = (".claude", "memory")
# What claude-memory's own skill leaves in /tmp on the way to its store.
_STAGED = (
    (".memory-write-pending", ".json"),
    (".memory-draft-", ".json"),
    (".memory-triage-context-", ".txt"),
)
_WRITERS = ("Write", "Edit", "MultiEdit", "NotebookEdit", "apply_patch")
_REASON = (
    "Direct writes to the memory directory are blocked: Retain checks, versions and indexes what "
    "it stores. Use it via Bash instead: `retain record write --action create|update|retire ...` "
    "for a typed memory, `retain put`, `retain update` or `retain append` for any other, `retain "
    "config set` for a setting (or the MCP tools of the same names)."
)


def answer(call: Call) -> Answer:
    """Refuse a write into a bank; after one, look at what was written."""
    path = _path(call)
    root = bank_of(path, call) if path else ""
    if not root or not _is_on(root, call):
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


def _is_on(root: str, call: Call) -> bool:
    """Whether a bank is guarded: by what the person says, and by its own settings.

    What the project around the host says is not asked, or a stranger's would open every bank.
    """
    from retain import paths
    from retain.errors import RetainError

    try:
        place = paths.find_bank(os.path.dirname(root), call.env, bank=root)
        return call.is_on_by(call.places.load(place))
    except RetainError:
        # Who cannot read the settings still keeps a bank closed, but judges no file by its rules.
        return call.event == "pre-tool-use"


def _path(call: Call) -> str:
    """The file that a tool writes to, links resolved."""
    given = call.payload.get("tool_input")
    if not isinstance(given, dict) or call.payload.get("tool_name", _WRITERS[0]) not in _WRITERS:
        return ""
    path = given.get("file_path") or given.get("notebook_path")
    if not isinstance(path, str) or not path or "\0" in path:
        return ""
    path = os.path.join(call.cwd, os.path.expanduser(path))
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # half a character cannot be looked up, yet a host writes it
        return os.path.normpath(path)


def bank_of(path: str, call: Call) -> str:
    """The bank that a file belongs to and that is not the person's to edit; empty for none."""
    root = _by_name(path) or _by_variable(path, call) or _by_config(path, call)
    if not root or path == root:
        return root
    return "" if _is_free(os.path.relpath(path, root)) else root


def _by_name(path: str) -> str:
    """The bank that a path names, whether it is there yet or not."""
    parts = path.replace("\\", "/").split("/")
    folded = [part.casefold() for part in parts]  # some disks take both cases for one
    if _is_staged(parts):
        return ""
    for at, name in enumerate(folded):
        if name in _NAMES:
            return "/".join(parts[: at + 1])
        if (name, *folded[at + 1 : at + 2]) == _PAIR:
            return "/".join(parts[: at + 2])
    return ""


def _is_staged(parts: list[str]) -> bool:
    """Whether a file lies in /tmp itself, by one of the names that are meant to."""
    return parts[:-1] == ["", "tmp"] and any(
        parts[-1].startswith(first) and parts[-1].endswith(last) for first, last in _STAGED
    )


def _by_variable(path: str, call: Call) -> str:
    """The person's own bank, or one that a variable names, which may be called anything."""
    # The person's own bank may be a link, and then its real path has another name.
    for name, usual in (("RETAIN_HOME", "~/.retain"), ("RETAIN_BANK", "")):
        if given := call.env.get(name) or usual:
            root = os.path.realpath(os.path.join(call.cwd, os.path.expanduser(given)))
            if path == root or path.startswith(f"{root}/"):
                return root
    return ""


def _by_config(path: str, call: Call) -> str:
    """The bank that an `.arcaneum` file further up names; most projects have none."""
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        if os.path.isfile(os.path.join(folder, ".arcaneum")):
            from retain import paths

            found = paths.find_bank(folder, call.env)
            root = os.path.realpath(found.root)
            return root if path.startswith(f"{root}/") else ""
        folder = os.path.dirname(folder)
    return ""


def _is_free(name: str) -> bool:
    """Whether a file of a bank is a person's to write: profiles, skills, and two of others."""
    first, _, rest = name.partition("/")
    if rest:
        return first == "skills"
    return name in (
        "USER.md",
        "PREFERENCES.md",
        "MEMORY.md",
        "memory-config.json",
        ".gitignore",
    )
