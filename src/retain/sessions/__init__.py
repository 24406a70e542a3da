"""A person's chats in one SQLite file that is the truth for them: kept, searched, in and out."""

from typing import Final

__all__ = ["FILE"]

FILE: Final = "sessions.db"
