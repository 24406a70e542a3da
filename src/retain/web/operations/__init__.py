"""The operations of the JSON interface, by subject; a new one is added to its subject's table."""

from retain.web.operation import Operation
from retain.web.operations import chat, memories, sessions

__all__ = ["OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (
    *memories.OPERATIONS,
    *sessions.OPERATIONS,
    *chat.OPERATIONS,
)
