"""What the JSON interface can do, said once: how it is called, checked, carried out, described."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_origin

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from retain.errors import LimitExceeded, NotSaved, RetainError, UsageError
from retain.web.bank_pool import BankPool

ROOT: Final = (
    ":root"  # in an address: the collection without a name; no collection can be so called
)

_STATUSES: Final[Mapping[str, int]] = {
    "usage": 400,
    "bad-name": 400,
    "bad-filter": 400,
    "not-found": 404,
    "conflict": 409,
    "ambiguous": 409,
    "limit": 413,
    "busy": 503,
}
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_REFUSED: Final = 422  # whatever else a bank refuses: it was understood, and cannot be done
_MOST_VALUES: Final = 10_000  # of one request, however they are nested; the limits allow far fewer
_DEEPEST: Final = 8
_MOST_FAULTS: Final = 5  # that are told

Name = Annotated[str, Field(max_length=400)]
_Value = TypeVar("_Value")
# The first fault of a list ends the look at it: one for each of a million would fill the memory.
Many = Annotated[tuple[_Value, ...], Field(fail_fast=True)]


class Given(BaseModel):
    """Values that a request brings; what nobody asked for is refused, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Nothing(Given):
    """No values: what brings none says so with an empty object, which no form can send."""


class Gives(BaseModel):
    """What an answer is made of, for the description; nothing else is in it."""

    model_config = ConfigDict(extra="forbid")


class Call(NamedTuple):
    """One call of an operation, its values checked."""

    banks: BankPool
    path: Mapping[str, str]
    query: Any
    body: Any
    request: Request


Handler = Callable[[Call], Awaitable[object]]


class Operation(NamedTuple):
    """One thing that the interface can do."""

    method: str
    path: str  # below /api/v1
    name: str
    about: str  # one line for the description
    handler: Handler
    gives: Any = None  # a type that describes the answer
    query: type[Given] | None = None
    body: type[Given] | None = None
    subject: str = "memories"

    @property
    def takes(self) -> type[Given] | None:
        """What the body of a call has to be; None where there is none."""
        return self.body or (Nothing if self.method in ("POST", "PUT", "PATCH") else None)

    async def __call__(self, request: Request) -> Response:
        """Check what came, do it, answer in JSON."""
        banks: BankPool = request.app.state.banks
        try:
            asked = self.query or Nothing
            query = _checked(asked, _values(request, asked))
            body = await _body(request, taken) if (taken := self.takes) else None
            path = {key: str(value) for key, value in request.path_params.items()}
            found = await self.handler(Call(banks, path, query, body, request))
        except RetainError as error:
            return failed(error)
        except OSError as error:  # the disk's word, without the place where it stands
            said = {"error": RetainError(error.strerror or "the disk refused").to_dict()}
            return Answer(said, _disk_status(error))
        return found if isinstance(found, Response) else Answer(found)


class Answer(JSONResponse):
    """JSON of whatever there is: a file's name may hold bytes that are no text."""

    def render(self, content: Any) -> bytes:
        """Bytes that are no text become escapes, which every reader of JSON takes."""
        made = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return made.encode("utf-8", "backslashreplace")


def failed(error: RetainError) -> JSONResponse:
    """A refusal as an answer."""
    return Answer({"error": error.to_dict()}, status_of(error))


def status_of(error: RetainError) -> int:
    """The status of a refusal; what the disk refused is no fault of who asked."""
    if isinstance(error, NotSaved):
        return _disk_status(error.__cause__)
    return _STATUSES.get(error.code, _REFUSED)


def _disk_status(cause: BaseException | None) -> int:
    is_full = isinstance(cause, OSError) and cause.errno in _FULL
    if isinstance(cause, sqlite3.Error):
        is_full = getattr(cause, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
    return 507 if is_full else 500


_Given = TypeVar("_Given", bound=Given)


def queried(request: Request, model: type[_Given]) -> _Given:
    """What a page's address asks for, checked as the interface checks it."""
    return _checked(model, _values(request, model))


def collection_of(part: str) -> str:
    """The collection that a part of an address means."""
    return "" if part == ROOT else part


def named(call: Call) -> str:
    """The memory that an address means, as a bank calls it."""
    return f"{collection_of(call.path['collection'])}/{call.path['id']}"


def _values(request: Request, model: type[Given]) -> dict[str, Any]:
    """A query's values; what there may be several of is a list also when it is there once."""
    found: dict[str, Any] = {}
    for key in request.query_params:
        values = request.query_params.getlist(key)
        field = model.model_fields.get(key)
        is_one = len(values) == 1 and get_origin(field and field.annotation) is not tuple
        found[key] = values[0] if is_one else values
    return found


async def body_of(request: Request) -> object:
    """The JSON that a request brings; read on a thread, for a long one takes its time."""
    return await anyio.to_thread.run_sync(_parsed, await request.body())


async def _body(request: Request, model: type[_Given]) -> _Given:
    data = await request.body()
    return await anyio.to_thread.run_sync(lambda: _checked(model, _parsed(data)))


def _parsed(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError("the body is no JSON", hint="Send one JSON object.") from None


def _checked(model: type[_Given], values: object) -> _Given:
    _refuse_many(values)
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {one['msg']}"
            for one in error.errors(include_url=False, include_context=False, include_input=False)
        ]
        raise UsageError(
            "; ".join(faults[:_MOST_FAULTS]), hint="/api/v1/openapi.json describes every call."
        ) from None


def _refuse_many(values: object) -> None:
    """Refuse more than any call takes, before each value and each unknown key is looked at."""
    level, count = [values], 0
    for _ in range(_DEEPEST):
        inner = [_inside(one) for one in level]
        count += sum(map(len, inner))
        if count > _MOST_VALUES:
            break
        if not (level := [value for one in inner for value in one]):
            return
    raise LimitExceeded(
        "the request has more values in it than any call takes", unchanged="Nothing was changed."
    )


def _inside(value: object) -> Collection[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
