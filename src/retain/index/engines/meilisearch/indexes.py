"""A bank's indexes on a Meilisearch server: made as they should be, and told to change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from retain.index.engines.arm import EngineDown, EngineRefused
from retain.text.sanitize import flat

if TYPE_CHECKING:
    from retain.index.engines.meilisearch.connection import Connection
    from retain.index.engines.naming import Names


_PAGE: Final = 1_000  # indexes that are asked for at once
_MOST: Final = 10_000  # of them on a server, of all its banks
_INDEXING: Final = 60.0  # seconds that a change may wait for its turn
_ANEW: Final = 3_600.0  # seconds in which everything is read again
_OLDEST: Final = (1, 14)  # that can be told which filters a field is for
_NOTHING: Final = {"numberOfDocuments": 0}
_SETTINGS: Final[dict[str, Any]] = {
    "searchableAttributes": ["terms"],
    "filterableAttributes": [
        {
            "attributePatterns": ["owner", "type", "status", "tags"],
            "features": {"facetSearch": False, "filter": {"equality": True, "comparison": False}},
        },
        {
            "attributePatterns": ["place", "created", "slot"],
            "features": {"facetSearch": False, "filter": {"equality": True, "comparison": True}},
        },
    ],
    "rankingRules": ["words"],
    "typoTolerance": {"enabled": False},
    "prefixSearch": "disabled",
    "facetSearch": False,
    "proximityPrecision": "byWord",
    "stopWords": [],
    "synonyms": {},
    "dictionary": [],
    "separatorTokens": [],
    "nonSeparatorTokens": [],
    # Else it guesses a language, and some it parts words in.
    "localizedAttributes": [{"attributePatterns": ["*"], "locales": ["eng"]}],
}


class Indexes:
    """The bank's indexes, and the tasks in which the server changes them."""

    def __init__(self, wire: Connection, names: Names) -> None:
        self._wire, self._names = wire, names
        self.address = wire.address

    def all(self) -> list[str]:
        """The bank's indexes that are there."""
        found: list[str] = []
        with self._wire.reading():
            for offset in range(0, _MOST, _PAGE):
                page = self._wire.ask("get", f"indexes?limit={_PAGE}&offset={offset}")
                found += [str(index["uid"]) for index in page["results"]]
                # Not by the total alone, which may be any number.
                if not page["results"] or offset + _PAGE >= int(page["total"]):
                    return [quote(uid) for uid in found if uid.startswith(self._names.prefix)]
        raise self._wire.speaker.endless()

    def ready(self, indexes: Iterable[str]) -> None:
        """Have them there, as they should be."""
        tasks = [task for index in sorted(indexes) for task in self._made(index)]
        self.done(tasks, lenient=True)

    def _made(self, index: str) -> list[int]:
        """The tasks that make an index as it should be; none where it is."""
        found = self._wire.ask("get", f"indexes/{index}/settings", missing={})
        if found and _agree(_SETTINGS, found):
            return []
        tasks = []
        if found:
            self._check_empty(index)
        else:
            self._wire.speaker.check_version(self.version(), _OLDEST)
            body = {"uid": index, "primaryKey": "id"}
            tasks.append(self.task("post", "indexes", body))
        return [*tasks, self.task("patch", f"indexes/{index}/settings", _SETTINGS)]

    def _check_empty(self, index: str) -> None:
        if not self.is_empty(index):
            raise EngineRefused(
                f"The index {index} at {self.address} (Meilisearch) has other settings.",
                hint="`retain engine repair` gives it those that it needs.",
            )

    def is_empty(self, index: str) -> bool:
        """Whether nothing is in it, as in one that was made and has not been told how yet.

        Another machine is about to, or was ended in between. It refuses every filter.
        """
        with self._wire.reading():
            stats = self._wire.ask("get", f"indexes/{index}/stats", missing=_NOTHING)
            return not int(stats["numberOfDocuments"])

    def filled(self, indexes: Iterable[str]) -> list[str]:
        """Those of these in which there is anything."""
        with self._wire.reading():
            stats = self._wire.ask("get", "stats")["indexes"]
            return [i for i in indexes if int(stats.get(unquote(i), _NOTHING)["numberOfDocuments"])]

    def version(self) -> str:
        with self._wire.reading():
            return flat(str(self._wire.ask("get", "version")["pkgVersion"]), 40)

    def odd(self) -> list[str]:
        """The indexes whose settings are not ours; one that is gone by now has none."""
        found = []
        for index in self.all():
            settings = self._wire.ask("get", f"indexes/{index}/settings", missing=_SETTINGS)
            if not _agree(_SETTINGS, settings):
                found.append(index)
        return found

    def adapt(self) -> None:
        """Meilisearch reads everything again by itself when its settings change."""
        tasks = [self.task("patch", f"indexes/{index}/settings", _SETTINGS) for index in self.odd()]
        self.done(tasks, seconds=_ANEW)

    def drop(self) -> None:
        self.done([self.task("delete", f"indexes/{index}") for index in self.all()])

    def task(self, method: str, path: str, body: Any = None) -> int:
        """Ask for a change, which the server carries out in its own time."""
        with self._wire.reading():
            return int(self._wire.ask(method, path, body)["taskUid"])

    def done(
        self, tasks: Sequence[int], *, lenient: bool = False, seconds: float | None = None
    ) -> None:
        """Wait for tasks; two machines that make one index at once both have it (`lenient`)."""
        seconds = seconds or _INDEXING
        deadline = time.monotonic() + seconds
        waiting, pause = list(tasks), 0.005
        while waiting:
            asked = ",".join(map(str, waiting[:100]))
            with self._wire.reading():
                found = self._wire.ask("get", f"tasks?limit=100&uids={asked}")["results"]
                ended = {int(task["uid"]) for task in found if self._ended(task, lenient)}
            waiting = [task for task in waiting if task not in ended]
            if waiting and time.monotonic() > deadline:
                raise EngineDown(
                    f"Meilisearch at {self.address} took a change and has not carried it out in "
                    f"{seconds:g} seconds."
                )
            if waiting and not ended:
                time.sleep(pause)
                pause = min(0.25, pause * 1.5)

    def _ended(self, task: Mapping[str, Any], lenient: bool) -> bool:
        status = task["status"]
        if status in ("failed", "canceled"):
            error = task.get("error") or {}
            if not (lenient and error.get("code") == "index_already_exists"):
                raise self._wire.failed(error)
        return status not in ("enqueued", "processing")


def _agree(wanted: Any, found: Any) -> bool:
    """Whether settings are as they should be; those that we say nothing of may be anything."""
    if isinstance(wanted, dict) and wanted:
        return isinstance(found, dict) and all(
            _agree(value, found.get(key)) for key, value in wanted.items()
        )
    return bool(wanted == found)
