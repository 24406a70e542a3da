"""Postgres as a text arm and, with pgvector, as a vector arm.

Each arm has a schema of its own. In it a bank has one row for each memory, and one for each
piece in a table that is partitioned by collection. A memory's row is what two writers meet at:
it is replaced only by a version that is not older, in the same transaction as its pieces.
"""

from __future__ import annotations

from retain.index.engines.postgres.settings import Mark, PostgresSettings, Replica
from retain.index.engines.postgres.text import PostgresText
from retain.index.engines.postgres.vectors import PostgresVectors

__all__ = ["Mark", "PostgresSettings", "PostgresText", "PostgresVectors", "Replica"]
