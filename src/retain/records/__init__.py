"""Typed memories: schema-checked records with a lifecycle that cannot lose knowledge.

`schema` says what a record must look like, `normalize` mends what is handed in, `merge` says what
an update may change, `lifecycle` what each step does, `match` which record new information belongs
to, `report` what is due and what is said; `codec` turns files of both kinds into records and back.
All of them work on plain values; `service` alone reads and writes.
"""
