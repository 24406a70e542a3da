"""Chats of a bank, in one SQLite file that is the truth for them: kept, searched, in and out."""
