"""The operations of the JSON interface, by subject; a new one is added to its subject's table."""

from retain.web.operation import Operation
from retain.web.operations import (
    chat,
    graph,
    health,
    history,
    inbox,
    lifecycle,
    memories,
    records,
    searching,
    sessions,
    timeline,
)

__all__ = ["OPERATIONS"]

OPERATIONS: tuple[Operation, ...] = (
    *searching.OPERATIONS,
    *memories.OPERATIONS,
    *records.OPERATIONS,
    *lifecycle.OPERATIONS,
    *history.OPERATIONS,
    *graph.OPERATIONS,
    *timeline.OPERATIONS,
    *inbox.OPERATIONS,
    *health.OPERATIONS,
    *sessions.OPERATIONS,
    *chat.OPERATIONS,
)
