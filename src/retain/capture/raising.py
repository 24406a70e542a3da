"""What was found in a session, put before its agent: a message, and a file for each category.

The skill that saves memories reads both, so their form is that of claude-memory. The files lie in
a folder that everyone may write to; nothing that is found there is trusted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from retain.capture.transcript import HEADING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from retain.capture.triage import Hit, Settings

__all__ = ["remove_context", "sanitized", "suffix", "told", "write_context"]

_FOLDER: Final = "/tmp"  # noqa: S108 - where the skill looks
_MOST_BYTES: Final = 50_000
_CUT_OFF: Final = "\n</transcript_data>\n[Truncated: context exceeded 50KB]"
_SNIPPET: Final = 120
_DESCRIPTION: Final = 500
_HEX: Final = 8
_FENCE_WORD: Final = r"(?i)<(?=/?\s*transcript_data)"
# No O_TRUNC: what a stranger put there is looked at before it is emptied. O_NONBLOCK: a pipe
# there must not keep the host waiting.
_FLAGS: Final = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ACTIVITY: Final = "Significant activity detected"
_ADVICE: Final = "Use the memory-management skill to save each item. After saving, you may stop."


def told(hits: Sequence[Hit], settings: Settings, files: Mapping[str, str]) -> str:
    """Return what the agent is told before it may stop, with the same as data for its skill."""
    if not hits:
        return ""
    import json

    data = {
        "categories": [_data(hit, files.get(hit.category, "")) for hit in hits],
        "parallel_config": dict(settings.parallel),
    }
    return "\n".join(
        (
            HEADING,
            *(_item(hit) for hit in hits),
            "",
            _ADVICE,
            "",
            "<triage_data>",
            json.dumps(data, indent=2),
            "</triage_data>",
        )
    )


def suffix(session: str) -> str:
    """Return what keeps the context files of two sessions apart."""
    import hashlib

    digest = hashlib.sha256(session.encode(errors="replace")).hexdigest()[:_HEX]
    return f"-{digest}" if session else ""


def write_context(hit: Hit, folder: str = _FOLDER, suffix: str = "") -> str:
    """Write what a memory can be drafted from, and return the path, or "" if that cannot be."""
    path = _context_file(hit.category, folder, suffix)
    try:
        handle = os.open(path, _FLAGS, 0o600)
    except (OSError, ValueError):
        return ""
    try:
        if not _is_own(handle):
            return ""
        _write(handle, _limited(_context(hit)))
    except OSError:
        return ""
    finally:
        os.close(handle)
    return path


def remove_context(category: str, folder: str = _FOLDER, suffix: str = "") -> None:
    """Remove what was written for an agent that has done with it, if it is ours."""
    path = _context_file(category, folder, suffix)
    try:
        if os.lstat(path).st_uid == os.geteuid():
            os.unlink(path)
    except (OSError, ValueError):
        return


def sanitized(text: str, most: int = _SNIPPET) -> str:
    """Return one line that can neither hide anything nor close the block it stands in."""
    from retain.guard.characters import escaped, strip_invisible

    text = strip_invisible(text)
    for char in "\n\t`":
        text = text.replace(char, "")
    return escaped(text).strip()[:most]


def _context_file(category: str, folder: str, suffix: str) -> str:
    name = f".memory-triage-context-{category}{suffix}.txt"
    # A suffix may come from a payload; no file can have an empty name.
    return "" if "/" in name else os.path.join(folder, name)


def _described(hit: Hit) -> str:
    return sanitized(hit.description, _DESCRIPTION)


def _item(hit: Hit) -> str:
    snippet = next(filter(None, map(sanitized, hit.snippets)), _ACTIVITY)
    description = _described(hit)
    label = f"({description}) {snippet}" if description else snippet
    return f"- [{hit.category.upper()}] {label} (score: {hit.score:.2f})"


def _data(hit: Hit, path: str) -> dict[str, object]:
    data: dict[str, object] = {"category": hit.category, "score": round(hit.score, 4)}
    if description := _described(hit):
        data["description"] = description
    if path:
        data["context_file"] = path
    return data


def _context(hit: Hit) -> str:
    import re

    lines = [f"Category: {hit.category}", f"Score: {hit.score:.2f}"]
    if description := _described(hit):
        lines.append(f"Description: {description}")
    inside = re.sub(_FENCE_WORD, "&lt;", hit.context)
    lines += ["", "<transcript_data>", inside, "</transcript_data>", "", "Key snippets:"]
    lines += [f"  - {sanitized(snippet)}" for snippet in hit.snippets]
    return "\n".join(lines) + "\n"


def _limited(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    if len(data) <= _MOST_BYTES:
        return data
    mark = _CUT_OFF.encode()
    kept = data[: _MOST_BYTES - len(mark)].decode("utf-8", "ignore")
    return kept.encode() + mark


def _is_own(handle: int) -> bool:
    """Tell whether an opened file is ours alone: anyone may have put one into a shared folder."""
    status = os.fstat(handle)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1


def _write(handle: int, data: bytes) -> None:
    os.fchmod(handle, 0o600)  # it may be older than this session
    os.ftruncate(handle, 0)
    while data:
        data = data[os.write(handle, data) :]
