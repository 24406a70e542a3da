"""Typed memories: schema-checked records with a lifecycle that cannot lose knowledge.

`fixing` mends what is handed in, `merging` says what an update may change, `lifecycle` what each
step does to a record, `candidate` which record new information belongs to, `listing` keeps a
store's index.md; `shape` turns files of both kinds into records and back. All of them work on
plain values; `ledger` alone reads and writes.
"""
