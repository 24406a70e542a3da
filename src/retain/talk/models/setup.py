"""What to do where there is no key for a model: the same words at every door."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from retain.locate import from_home, global_root

FILE: Final = "chat.env"
_SETS: Final = ("retain config set chat.model NAME", "retain config set chat.base_url")
_OLLAMA: Final = "http://127.0.0.1:11434/v1"

# Without a key, in Markdown, and in the one line of an error.
LOCAL: Final = f"""\
**Without a key**, with Ollama on this machine: `{_SETS[0]}` and
`{_SETS[1]} {_OLLAMA}`; for LM Studio the same with
`http://127.0.0.1:1234/v1`."""
LOCALLY: Final = f"For a model on this machine: `{_SETS[0]}` and `{_SETS[1]} {_OLLAMA}`."


def key_file(env: Mapping[str, str]) -> str:
    """The file that keys are read from, as a person would write its path."""
    return from_home(os.path.join(global_root(env), FILE), env.get("HOME", ""))
