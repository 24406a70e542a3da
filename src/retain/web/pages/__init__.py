"""The pages, by subject; a new one is added to its subject's table."""

from starlette.routing import Route

from retain.web.pages import graph, inbox, memories, timeline

__all__ = ["ROUTES"]

ROUTES: tuple[Route, ...] = (
    *memories.ROUTES,
    *graph.ROUTES,
    *timeline.ROUTES,
    *inbox.ROUTES,
)
