"""State that hooks keep for one session: which memories it was shown, how far it was judged.

It lies with the other state of the bank. Losing it costs no more than a memory shown twice, so
nothing is synced, and what cannot be read or written is done without.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any, Final

from retain.locate import BankLocation, state_directory, state_home

_MAX_NAME: Final = 64
_MAX_SHOWN: Final = 2000
_MAX_AGE: Final = 40 * 86_400  # seconds; a host forgets its own transcripts after thirty days


class SessionState:
    """The state of one session in a JSON file, beside the banks' states where there is no bank."""

    def __init__(self, location: BankLocation, session: str, env: Mapping[str, str]) -> None:
        self._path = os.path.join(_folder(location, env), _file_name(session)) if session else ""
        values: dict[str, Any] = {}
        with (
            contextlib.suppress(OSError, ValueError, RecursionError),
            open(self._path, encoding="utf-8") as file,
        ):
            loaded = json.load(file)
            values = loaded if isinstance(loaded, dict) else {}
        self._shown: dict[str, str] = values.get("shown", {})
        # Up to which byte of the transcript something was found.
        self.judged: int = values.get("judged", 0)
        self.last: str = values.get("last", "")  # a digest of the answer that was judged last
        # Whether a summary of the session was proposed or saved.
        self.is_summarised: bool = values.get("is_summarised", False)
        self.raised_at: float = values.get("raised_at", 0.0)  # when the agent was asked to save
        self.raised: list[dict[str, Any]] = values.get("raised", [])  # and what
        self._saved = self._to_dict()

    def _to_dict(self) -> dict[str, Any]:
        return {
            "shown": self._shown,
            "judged": self.judged,
            "last": self.last,
            "is_summarised": self.is_summarised,
            "raised_at": self.raised_at,
            "raised": self.raised,
        }

    def is_new(self, name: str, stamp: str) -> bool:
        """Whether a memory, as it is now, is not in the conversation yet."""
        return self._shown.get(name) != stamp

    def show(self, stamps: Mapping[str, str]) -> None:
        """Record which memories were shown, each with the stamp of its file."""
        shown = {**self._shown, **stamps}
        self._shown = dict(list(shown.items())[-_MAX_SHOWN:])

    def forget_shown(self) -> None:
        """Forget which memories were shown: the conversation begins anew."""
        self._shown = {}

    def save(self) -> None:
        """Write the file if something changed; a failure is ignored."""
        values = self._to_dict()
        if not self._path or values == self._saved:
            return
        draft = f"{self._path}.{os.getpid()}"
        mask = os.umask(0o077)  # nobody else reads what is made here
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(draft, "w", encoding="utf-8", errors="replace") as file:
                json.dump(values, file, ensure_ascii=False)
            os.replace(draft, self._path)
        except OSError:
            pass
        finally:
            os.umask(mask)

    def delete(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def sweep(location: BankLocation, env: Mapping[str, str]) -> None:
    """Delete the files of sessions that are long over."""
    oldest = time.time() - _MAX_AGE
    with contextlib.suppress(OSError), os.scandir(_folder(location, env)) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)


def _folder(location: BankLocation, env: Mapping[str, str]) -> str:
    base = state_directory(location.root, env) if location.exists else state_home(env)
    return os.path.join(base, "hooks")


def _file_name(session: str) -> str:
    """The name of a session's file: its id where that is safe, else a digest of it."""
    if len(session) <= _MAX_NAME and session.isascii() and session.replace("-", "").isalnum():
        return f"{session.lower()}.json"
    return f"{hashlib.sha256(session.encode(errors='replace')).hexdigest()}.json"
