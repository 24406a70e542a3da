"""The message to an agent that is to save something, and a file of context for each category.

The skill that saves memories reads both, so their form is that of claude-memory. The files lie in
a folder that everyone may write to; nothing that is found there is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from retain.capture.transcript import HEADING
from retain.capture.triage import Finding
from retain.text.sanitize import escape_markup, strip_invisible

_FOLDER: Final = "/tmp"  # noqa: S108 - where the skill looks
_MAX_BYTES: Final = 50_000
_MAX_LINE: Final = 120  # characters of a snippet or a description, which may be a stranger's
_TRUNCATED: Final = b"\n</transcript_data>\n[Truncated: context exceeded 50KB]"
_FENCE: Final = re.compile(r"<(?=/?\s*transcript_data)", re.I)
# No O_TRUNC: what a stranger put there is looked at before it is emptied. O_NONBLOCK: a pipe
# there must not keep the host waiting.
_FLAGS: Final = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def compose(
    findings: Sequence[Finding],
    files: Mapping[str, str],
    descriptions: Mapping[str, str],
    parallel: Mapping[str, object],
) -> str:
    """The message for the agent, with the same as data for its skill.

    Files and descriptions are by category; `parallel` says which models the skill is to use.
    """
    items, categories = [], []
    for finding in findings:
        description = sanitize(descriptions.get(finding.category, ""))
        snippets = filter(None, map(sanitize, finding.snippets))
        label = f"({description}) " if description else ""
        label += next(snippets, "Significant activity detected")
        items.append(f"- [{finding.category.upper()}] {label} (score: {finding.score:.2f})")
        data: dict[str, Any] = {"category": finding.category, "score": round(finding.score, 4)}
        if description:
            data["description"] = description
        if path := files.get(finding.category):
            data["context_file"] = path
        categories.append(data)
    triage = {"categories": categories, "parallel_config": parallel}
    return "\n".join([HEADING, *items]) + (
        "\n\nUse the memory-management skill to save each item. After saving, you may stop.\n\n"
        f"<triage_data>\n{json.dumps(triage, indent=2)}\n</triage_data>"
    )


def write_context(
    finding: Finding, session: str, description: str = "", folder: str = _FOLDER
) -> str:
    """Write what a memory can be drafted from; return the path, or "" if that failed."""
    path = _context_file(finding.category, session, folder)
    with suppress(OSError, ValueError), open(os.open(path, _FLAGS, 0o600), "wb") as file:
        status = os.fstat(file.fileno())
        is_own = status.st_uid == os.geteuid() and status.st_nlink == 1
        if is_own and stat.S_ISREG(status.st_mode):
            os.fchmod(file.fileno(), 0o600)  # it may be older than this session
            file.truncate()
            file.write(_context(finding, sanitize(description)))
            file.flush()
            return path
    return ""


def remove_context(category: str, session: str, folder: str = _FOLDER) -> None:
    """Delete the file of context of a category, if it is ours."""
    path = _context_file(category, session, folder)
    with suppress(OSError, ValueError):
        if os.lstat(path).st_uid == os.geteuid():
            os.unlink(path)


def _context_file(category: str, session: str, folder: str) -> str:
    """The file of a category, with a digest that keeps those of two sessions apart."""
    digest = hashlib.sha256(session.encode(errors="replace")).hexdigest()[:8]
    suffix = f"-{digest}" if session else ""
    return os.path.join(folder, f".memory-triage-context-{category}{suffix}.txt")


def _context(finding: Finding, description: str) -> bytes:
    lines = [f"Category: {finding.category}", f"Score: {finding.score:.2f}"]
    if description:
        lines.append(f"Description: {description}")
    inside = _FENCE.sub("&lt;", finding.context)
    lines += ["", "<transcript_data>", inside, "</transcript_data>", "", "Key snippets:"]
    lines += [f"  - {sanitize(snippet)}" for snippet in finding.snippets]
    data = ("\n".join(lines) + "\n").encode(errors="replace")
    if len(data) <= _MAX_BYTES:
        return data
    kept = data[: _MAX_BYTES - len(_TRUNCATED)].decode("utf-8", "ignore")
    return kept.encode() + _TRUNCATED


def sanitize(text: str) -> str:
    """One line that can neither hide anything nor close the block it stands in."""
    line = re.sub("[\n\t`]", "", strip_invisible(text))
    return escape_markup(line).strip()[:_MAX_LINE]
