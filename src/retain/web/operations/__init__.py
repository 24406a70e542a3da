"""The operations of the JSON interface, by subject; a new one is added to its subject's table."""

from retain.web.operation import Operation
from retain.web.operations import health, links, memories

__all__ = ["OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (*memories.OPERATIONS, *links.OPERATIONS, *health.OPERATIONS)
