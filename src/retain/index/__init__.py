"""What makes a bank searchable: one SQLite file, derived from the memories and disposable.

`store` opens it, `rows` fills it, `text`, `vectors` and `graph` answer from it.
"""
