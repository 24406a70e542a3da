"""Whether a host has Retain as a plugin, which brings a server of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final

__all__ = ["plugin"]

_PREFIX: Final = "retain@"  # the plugin's name, before that of the marketplace it is from
_MOST_BYTES: Final = 4_000_000


def plugin(env: Mapping[str, str]) -> str:
    """What Claude Code calls the plugin it has installed; empty if it has none, or none is seen."""
    home = env.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    path = os.path.join(home, "plugins", "installed_plugins.json")
    try:
        with open(path, encoding="utf-8") as file:
            found = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return ""
    plugins = found.get("plugins") if isinstance(found, dict) else None
    names = plugins if isinstance(plugins, dict) else {}
    return next((name for name, where in names.items() if name.startswith(_PREFIX) and where), "")
