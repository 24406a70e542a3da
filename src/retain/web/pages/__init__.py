"""The pages, by subject; a new one is added to its subject's table."""

from starlette.routing import Route

from retain.web.pages import (
    chat,
    graph,
    health,
    inbox,
    memories,
    memory,
    sessions,
    timeline,
    writing,
)

__all__ = ["ROUTES"]

ROUTES: tuple[Route, ...] = (
    *memories.ROUTES,
    *memory.ROUTES,
    *writing.ROUTES,
    *graph.ROUTES,
    *timeline.ROUTES,
    *inbox.ROUTES,
    *health.ROUTES,
    *sessions.ROUTES,
    *chat.ROUTES,
)
