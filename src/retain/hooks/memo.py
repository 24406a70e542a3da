"""What hooks remember of one session: which memories it was shown, and how far it was judged.

It stands with the other derived things of the bank. Losing it costs no more than a memory shown
twice, so nothing is synced, and what cannot be read or written is done without.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping

from retain.errors import RetainError
from retain.fsio import Directory
from retain.paths import STATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from retain.place import Place

__all__ = ["Memo"]

_FOLDER: Final = "hooks"
_LONGEST: Final = 64
_MOST_BYTES: Final = 2_000_000  # what six categories may raise, in any script
_MOST_SHOWN: Final = 2000
_DAYS: Final = 40  # a host forgets its own transcripts after thirty


class Memo:
    """The memo of one session, in one bank."""

    def __init__(self, root: str, session: str) -> None:
        self._root = root
        self._name = f"{_plain(session)}.json" if session else ""
        self._values: dict[str, Any] = self._read()
        self._before = dict(self._values)

    @classmethod
    def of(cls, place: Place, session: str, env: Mapping[str, str]) -> Memo:
        """The memo of a session; where there is no bank yet, it is kept in a private folder."""
        return cls(place.root if place.exists else _elsewhere(env, create=True), session)

    def _read(self) -> dict[str, Any]:
        if not self._name:
            return {}
        with contextlib.suppress(RetainError, OSError, ValueError, RecursionError):
            with Directory.open(self._root) as root, root.descend(STATE, _FOLDER) as folder:
                found = json.loads(folder.read(self._name, _MOST_BYTES))
            if isinstance(found, dict):
                return found
        return {}

    # What a session was shown

    def is_new(self, name: str, stamp: str) -> bool:
        """Whether a memory, as it is now, is not in the conversation yet."""
        return self._shown.get(name) != stamp

    def show(self, stamps: Mapping[str, str]) -> None:
        """Note what goes into the conversation."""
        shown = {**self._shown, **stamps}
        self._values["shown"] = dict(list(shown.items())[-_MOST_SHOWN:])

    def forget_shown(self) -> None:
        """Note that the conversation begins anew."""
        self._values.pop("shown", None)

    @property
    def _shown(self) -> dict[str, str]:
        shown = self._values.get("shown")
        return shown if isinstance(shown, dict) else {}

    # How far a session was judged

    @property
    def judged(self) -> int:
        """Up to which byte the transcript was looked at and something was found in it."""
        judged = self._values.get("judged")
        return judged if type(judged) is int and judged >= 0 else 0

    @judged.setter
    def judged(self, at: int) -> None:
        self._values["judged"] = at

    @property
    def last(self) -> str:
        """A digest of the answer that was judged last."""
        return str(self._values.get("last") or "")

    @last.setter
    def last(self, digest: str) -> None:
        self._values["last"] = digest

    @property
    def raised(self) -> tuple[float, list[Mapping[str, Any]]]:
        """When the agent was asked to save something, and what."""
        found = self._values.get("raised")
        if not isinstance(found, dict) or not isinstance(found.get("hits"), list):
            return 0.0, []
        at = found.get("at")
        if not isinstance(at, int | float):
            return 0.0, []
        return float(at), [one for one in found["hits"] if isinstance(one, dict)]

    def raise_now(self, hits: Iterable[Mapping[str, Any]]) -> None:
        """Note what the agent is asked to save; nothing more once nothing is given."""
        listed = list(hits)
        self._values["raised"] = {"at": time.time(), "hits": listed} if listed else None

    @property
    def is_summarised(self) -> bool:
        """Whether a summary of the session was proposed or saved already."""
        return bool(self._values.get("summarised"))

    @is_summarised.setter
    def is_summarised(self, value: bool) -> None:
        self._values["summarised"] = value

    # Keeping

    def save(self) -> None:
        """Keep the memo, if that can be."""
        if not self._name or self._values == self._before:
            return
        data = json.dumps(self._values, ensure_ascii=False).encode(errors="replace")
        with (
            contextlib.suppress(RetainError, OSError),
            Directory.open(self._root) as root,
            root.descend(STATE, _FOLDER, create=True) as folder,
        ):
            folder.put(self._name, data, sync=False)

    @staticmethod
    def sweep(bank: str, env: Mapping[str, str]) -> None:
        """Remove the memos of sessions that are long over, those kept without a bank as well."""
        oldest = time.time() - _DAYS * 86_400
        for path in (bank, _elsewhere(env)):
            with (
                contextlib.suppress(RetainError, OSError),
                Directory.open(path) as root,
                root.descend(STATE, _FOLDER) as folder,
            ):
                folder.sweep(oldest)


def _elsewhere(env: Mapping[str, str], *, create: bool = False) -> str:
    """A folder of the person's own that is gone with their login; empty if there can be none."""
    from retain.warm import is_safe_folder

    given = env.get("XDG_RUNTIME_DIR", "")
    base = given if os.path.isabs(given) else "/tmp"  # noqa: S108 - made and checked to be private
    folder = f"{base}/retain-{os.geteuid()}"
    if create:
        with contextlib.suppress(OSError):
            os.mkdir(folder, 0o700)
    return folder if is_safe_folder(folder) else ""


def _plain(session: str) -> str:
    """A session's id as a file's name; those of the hosts there are can be one as they are."""
    if len(session) <= _LONGEST and session.isascii() and session.replace("-", "").isalnum():
        return session.lower()
    import hashlib  # loads a library of its own, which would cost a prompt a tenth of its time

    return hashlib.sha256(session.encode(errors="replace")).hexdigest()
