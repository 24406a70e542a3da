"""A delivery that nobody waits for: a process of its own, which ends when all is told."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

__all__ = ["send_off"]

# Those that were started here and may still run: whoever ends is no dead child of a long program.
_LEFT: Final[list[subprocess.Popen[bytes]]] = []


def send_off(root: str, env: Mapping[str, str]) -> None:
    """Start `retain engine push` for a bank, and leave it to itself."""
    command = [sys.executable, "-P", "-m", "retain", "--bank", root, "--quiet", "engine", "push"]
    _LEFT[:] = [one for one in _LEFT if one.poll() is None]
    with contextlib.suppress(OSError):  # what cannot be told now is told by whoever comes next
        _LEFT.append(
            subprocess.Popen(
                command,
                cwd=os.path.dirname(root),
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
