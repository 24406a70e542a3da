"""Chats of a bank, in one SQLite file that is the truth for them: kept, searched, in and out."""

from typing import Final

__all__ = ["BESIDE", "FILE"]

FILE: Final = "sessions.db"
BESIDE: Final = ("", "-wal", "-shm", "-journal")  # the file, and what SQLite keeps beside it
