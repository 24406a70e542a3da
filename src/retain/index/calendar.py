"""When memories were made and changed, and by whom, without a file opened."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from retain.index.catalogue import parsed

__all__ = ["Dated", "dated"]

# A number that JSON does not know (YAML has .nan) makes a memory's fields unreadable here; it is
# still dated by its file.
_QUERY: Final = """
WITH read AS (
  SELECT *, CASE WHEN json_valid(meta) THEN meta ELSE '{}' END AS fields
  FROM memories WHERE NOT is_gone
)
SELECT collection, id, title, type, status, tags, created, modified,
  json_extract(fields, '$.updated_at'), json_extract(fields, '$.created_by'),
  json_extract(fields, '$.source'),
  CASE status WHEN 'retired' THEN json_extract(fields, '$.retired_at')
    WHEN 'archived' THEN json_extract(fields, '$.archived_at') END,
  CASE status WHEN 'retired' THEN json_extract(fields, '$.retired_reason')
    WHEN 'archived' THEN json_extract(fields, '$.archived_reason') END,
  CASE WHEN json_type(fields, '$.changes') = 'array' THEN json_extract(fields, '$.changes') END
FROM read
"""


class Dated(NamedTuple):
    """A memory in time."""

    collection: str
    id: str
    title: str
    type: str
    status: str
    tags: tuple[str, ...]
    created: str
    updated: str
    created_by: str
    source: str
    changes: tuple[Mapping[str, Any], ...]  # what a typed memory tells of itself
    ended: str = ""  # when it was retired or archived, if it is
    reason: str = ""


def dated(connection: sqlite3.Connection) -> list[Dated]:
    """Every memory with its times, in no order."""
    return list(_rows(connection))


def _rows(connection: sqlite3.Connection) -> Iterator[Dated]:
    for (
        *names,
        tags,
        created,
        modified,
        updated,
        author,
        source,
        ended,
        why,
        changes,
    ) in connection.execute(_QUERY):
        since = created or _stamp(modified)
        said = (_text(updated) or since, _text(author), _text(source))
        told = _entries(changes) if changes else ()
        yield Dated._make([*names, parsed(tags), since, *said, told, _text(ended), _text(why)])


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _stamp(modified: int) -> str:
    return datetime.fromtimestamp(modified / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _entries(changes: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(one for one in json.loads(changes) if isinstance(one, dict))
