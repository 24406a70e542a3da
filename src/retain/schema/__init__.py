"""What a typed memory must look like: one model per category, and the same as JSON Schema.

Importing this package takes as long as pydantic does, so it is imported where a record is checked.
Model and JSON Schema agree on every JSON value: nothing is coerced, a field nobody declared is
refused, an optional field may also be null, and a time is any string.
"""

from __future__ import annotations

from retain.schema.checking import Fault, faults, schema_fault
from retain.schema.models import CATEGORIES, json_schema

__all__ = ["CATEGORIES", "Fault", "faults", "json_schema", "schema_fault"]
