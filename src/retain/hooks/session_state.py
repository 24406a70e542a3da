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

from retain.locate import BankLocation, state_directory

_MAX_SHOWN: Final = 2000
_MAX_AGE: Final = 40 * 86_400  # seconds; a host forgets its own transcripts after thirty days


class SessionState:
    """The state of one session in a JSON file; nothing is kept of a session without a name."""

    def __init__(self, location: BankLocation, session: str, env: Mapping[str, str]) -> None:
        self._folder = os.path.join(state_directory(location.root, env), "hooks")
        name = hashlib.sha256(session.encode(errors="replace")).hexdigest()[:32]
        self._path = os.path.join(self._folder, f"{name}.json") if session else ""
        values: dict[str, Any] = {}
        with (
            contextlib.suppress(OSError, ValueError, RecursionError),
            open(self._path, encoding="utf-8") as file,
        ):
            loaded = json.load(file)
            values = loaded if isinstance(loaded, dict) else {}
        self.shown: dict[str, str] = values.get("shown", {})  # stamps of files by name
        # Up to which byte of the transcript something was found.
        self.judged: int = values.get("judged", 0)
        self.last: str = values.get("last", "")  # a digest of the answer that was judged last
        # Whether a summary of the session was proposed or saved.
        self.is_summarised: bool = values.get("is_summarised", False)
        self.raised_at: float = values.get("raised_at", 0.0)  # when the agent was asked to save
        self.raised: list[dict[str, Any]] = values.get("raised", [])  # and what
        self._saved = self._dump()

    def _dump(self) -> str:
        values = {name: value for name, value in vars(self).items() if name[0] != "_"}
        return json.dumps(values, ensure_ascii=False)

    def is_new(self, name: str, stamp: str) -> bool:
        """Whether a memory, as it is now, is not in the conversation yet."""
        return self.shown.get(name) != stamp

    def show(self, stamps: Mapping[str, str]) -> None:
        """Record which memories were shown, each with the stamp of its file."""
        self.shown = dict(list({**self.shown, **stamps}.items())[-_MAX_SHOWN:])

    def save(self) -> None:
        """Write the file if something changed; a failure is ignored."""
        text = self._dump()
        if not self._path or text == self._saved:
            return
        draft = f"{self._path}.{os.getpid()}"
        mask = os.umask(0o077)  # nobody else reads what is made here
        try:
            os.makedirs(self._folder, exist_ok=True)
            with open(draft, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            os.replace(draft, self._path)
        except OSError:
            pass
        finally:
            os.umask(mask)

    def delete(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def sweep(self) -> None:
        """Delete the files of sessions that are long over."""
        oldest = time.time() - _MAX_AGE
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_mtime < oldest:
                    os.unlink(entry.path)
