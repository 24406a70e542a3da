"""Engines: servers that hold a copy of an arm of the index. Files and local index stay complete."""
