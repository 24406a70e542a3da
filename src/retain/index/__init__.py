"""What makes a bank searchable: one SQLite file, derived from the memories and disposable."""

from retain.index.store import Damaged, Replaced, Store

__all__ = ["Damaged", "Replaced", "Store"]
