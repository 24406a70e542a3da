"""All memories, looked through and searched; one memory, read and edited."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from retain.errors import NotFound
from retain.index.catalogue import Chosen, Shelf
from retain.recall.asking import Wanted
from retain.web.office import Office
from retain.web.operation import collection_of
from retain.web.prose import rendered
from retain.web.rendering import page

__all__ = ["ROUTES"]

_PAGE: Final = 50


async def _all(request: Request) -> Response:
    office: Office = request.app.state.office
    question = request.query_params.get("q", "").strip()
    values: dict[str, object] = {"answer": None, "shelf": None}
    if question:
        wanted = Wanted(question, explain=True)
        values["answer"] = await office.use(lambda app: app.library.search(wanted))
    else:
        values["shelf"] = await _shelf(office)
    return page(
        request,
        "memories.html",
        {"title": "Memories", "here": "memories", "question": question, **values},
    )


async def _shelf(office: Office) -> Shelf:
    try:
        return await office.use(lambda app: app.library.shelf(Chosen(), "updated", _PAGE, 0))
    except NotFound:  # no bank yet: it is made with the first memory
        return Shelf(0, (), {})


async def _one(request: Request) -> Response:
    office: Office = request.app.state.office
    scope, name = request.path_params["scope"], request.path_params["id"]
    ref = f"{collection_of(request.path_params['collection'])}/{name}"
    memory = await office.use(lambda app: app.ours(ref), scope)
    values = {
        "title": memory.title,
        "here": "memories",
        "memory": memory,
        "scope": scope,
        "body": rendered(memory.body),
    }
    return page(request, "memory.html", values)


ROUTES: Final = (
    Route("/", _all, methods=["GET"]),
    Route("/memory/{scope}/{collection}/{id}", _one, methods=["GET"]),
)
