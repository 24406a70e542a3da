"""The pages, by subject; a new one is added to its subject's table."""

from starlette.routing import Route

from retain.web.pages import chat, memories, sessions

__all__ = ["ROUTES"]

ROUTES: tuple[Route, ...] = (*memories.ROUTES, *sessions.ROUTES, *chat.ROUTES)
