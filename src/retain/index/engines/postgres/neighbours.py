"""The nearest vectors looked for in Postgres, by a graph and, where that finds too few, without."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from retain.index.engines.arm import Match
from retain.index.engines.spelling import meant

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

    from retain.index.vectors import Floats


class Search:
    """One question's search for neighbours, within one transaction."""

    def __init__(
        self, connection: Connection, query: Composed, values: Mapping[str, object], ef: int
    ) -> None:
        self._connection, self._query, self._values, self._ef = connection, query, values, ef

    def nearest(self, vector: str, limit: int) -> list[Match]:
        found = self._rows(
            vector,
            limit,
            {
                "hnsw.ef_search": str(min(1_000, max(self._ef, limit))),
                "hnsw.iterative_scan": "strict_order",
                "enable_indexscan": "on",
                "enable_seqscan": "off",  # where there is a graph: a collection without is read
            },
        )
        if len(found) < limit:
            # Too few passed the condition among all that the graphs came by, or there are no more.
            found = self._rows(vector, limit, {"enable_indexscan": "off", "enable_seqscan": "on"})
        return found

    def _rows(self, vector: str, limit: int, options: Mapping[str, str]) -> list[Match]:
        for name, value in options.items():
            self._connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        rows = self._connection.execute(
            self._query, {**self._values, "vector": vector, "limit": limit}
        ).fetchall()
        return [Match(meant(name), place, mark, score) for name, place, mark, score in rows]


def spelt(vector: Floats) -> str:
    # Nine digits are all that a number of 32 bits has.
    return "[" + ("%.9g," * len(vector) % tuple(vector.tolist()))[:-1] + "]"
