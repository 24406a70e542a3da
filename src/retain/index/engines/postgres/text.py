"""Terms in Postgres, and how what has them is ranked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from retain.index.engines.arm import Match, Piece, Sieve
from retain.index.engines.postgres.conditions import condition_of
from retain.index.engines.postgres.rows import Rows
from retain.index.engines.postgres.settings import PostgresSettings, Replica
from retain.index.engines.postgres.tables import estimate
from retain.index.engines.spelling import digest, kept, meant

if TYPE_CHECKING:
    from psycopg.sql import Composable, Composed

    from retain.index.engines.naming import Names


_TERMS: Final = 64  # asked for at once
_LONGEST: Final = 255  # bytes of a term as it is; Postgres takes 2046
_TIMES: Final = 16  # a term counts in one piece: more make no difference to the rank
_RANKED: Final = 6_000  # pieces that common terms may bring in to be ranked
_BYTES: Final = 1_200  # of one on disk, about
_B: Final = 0.4  # how much a piece's length counts against it, as in the embedded index


class PostgresText(Rows):
    """A bank's terms in Postgres, each a lexeme of its own."""

    _kind = "text"
    _columns = ("memory", "words", "bag")

    def __init__(
        self,
        address: str,
        key: str,
        names: Names,
        *,
        patience: float,
        settings: PostgresSettings = PostgresSettings(),  # noqa: B008 - a tuple
        replica: Replica | None = None,
    ) -> None:
        super().__init__(address, key, names, patience, settings, replica)

    def _own_columns(self) -> list[Composable]:
        from psycopg.sql import SQL

        return [SQL("memory text NOT NULL"), SQL("words int NOT NULL"), SQL("bag tsvector")]

    def _foundation(self) -> Iterator[Composed]:
        from psycopg.sql import SQL

        yield from super()._foundation()
        yield SQL("CREATE INDEX ON {} USING gin (bag)").format(self._pieces)

    def _own_values(self, piece: Piece) -> tuple[object, ...]:
        terms = piece.terms.split()
        return kept(piece.memory), len(terms), _tsvector(terms)

    def matching(self, terms: Mapping[str, float], sieve: Sieve, limit: int) -> list[Match]:
        best = sorted(((w, term) for term, w in terms.items() if w > 0), reverse=True)[:_TERMS]
        if not best or limit <= 0:
            return []
        condition, values = condition_of(sieve, self._names)
        with self._asking() as connection:
            if connection is None:
                return []
            pieces = 0
            # Every search leaves out what is retired, which are few; other conditions leave few in.
            if sieve._replace(without_statuses=()) == Sieve():
                pieces = estimate(connection, self._space, self._bank, _BYTES)
            rows = connection.execute(
                self._ranking(condition),
                {
                    **values,
                    "any": _telling(best, pieces),
                    "terms": [_lexeme(term) for _, term in best],
                    "weights": [weight for weight, _ in best],
                    "b": _B,
                    "limit": limit,
                },
            ).fetchall()
        return [Match(meant(name), place, mark, score) for name, place, mark, score in rows]

    def _ranking(self, condition: Composable) -> Composed:
        """BM25 in Postgres' words.

        With weights of 1 `ts_rank` of one term is a sum of 1/n² over its places, as a part of the
        sum of all: 0.61, 0.76, 0.83 ... That is n / (n + 0.645) but for a hundredth, BM25's own
        saturation, which the piece's length then bends.
        """
        from psycopg.sql import SQL

        return SQL(
            "WITH found AS MATERIALIZED (SELECT p.memory, p.place, p.digest, p.words, p.bag "
            "FROM {} p WHERE p.bag @@ %(any)s::tsquery AND {}), "
            "mean AS (SELECT greatest(avg(words), 1) AS words FROM found) "
            "SELECT f.memory, f.place, f.digest, s.score FROM found f CROSS JOIN mean "
            "CROSS JOIN LATERAL (SELECT sum(t.weight * r.rank / (r.rank + (1 - r.rank) * "
            "(1 - %(b)s + %(b)s * f.words / mean.words))) AS score "
            "FROM unnest(%(terms)s::text[], %(weights)s::float8[]) AS t (term, weight) "
            "CROSS JOIN LATERAL (SELECT ts_rank('{{1,1,1,1}}', f.bag, t.term::tsquery)::float8 "
            "AS rank) r) s ORDER BY s.score DESC, f.memory, f.place LIMIT %(limit)s"
        ).format(self._pieces, condition)


def _telling(best: Sequence[tuple[float, str]], pieces: int) -> str:
    """Which pieces are ranked: those with the rarest terms; the others still count in these.

    The same are as in the embedded index. A weight is a rarity, the logarithm of one in how many
    pieces has the term.
    """
    ranked, most = 0.0, 0
    for weight, _ in best:
        ranked += pieces * math.exp(-weight)
        if ranked > _RANKED:
            break
        most += 1
    if most:
        return " | ".join(_lexeme(term) for _, term in best[:most])
    return " & ".join(_lexeme(term) for _, term in best[:3])  # all are common: where they meet


def _tsvector(terms: Sequence[str]) -> str:
    """Terms as a tsvector is written; no configuration looks at them, so they stay as they are."""
    return " ".join(
        f"{_lexeme(term)}:{','.join(map(str, range(1, min(times, _TIMES) + 1)))}"
        for term, times in Counter(terms).items()
    )


def _lexeme(term: str) -> str:
    """A term between quotes, where only quotes and backslashes mean anything."""
    term = kept(term)
    if len(term.encode()) > _LONGEST:
        term = digest(term)
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
