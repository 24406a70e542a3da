"""What makes a bank searchable: one SQLite file, derived from the memories and disposable.

`index` is the way in, `sync` fills it with `entries`, `fulltext`, `vectors` and `graph` answer.
"""
