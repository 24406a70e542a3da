"""Writing a memory: its page, and typed memories over the JSON interface."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import TypeAliasType

from retain.bank.markdown import clean_tags
from retain.errors import BadName, RetainError, UsageError
from retain.memory import FREE_TYPES, Memory, check_collection, check_id
from retain.records import forms
from retain.records.codec import is_record, load_record
from retain.web import answers, undo_steps
from retain.web.bank_pool import HERE, OWN, BankPool
from retain.web.memory import PAGE, page_values, ref
from retain.web.memory_api import ONE, Tags, Text
from retain.web.operation import Call, Given, Name, Operation, named
from retain.web.rendering import page

if TYPE_CHECKING:
    from retain.app import App
    from retain.records.service import Outcome


Data = dict[str, Any]

_MOST: Final = 2_000  # values in a list, and fields; a request has 10,000 at most
# Whatever JSON can say: which of it a field takes, the category's own schema knows.
Value = TypeAliasType("Value", "bool | int | float | Text | Items | Content | None")
Items = Annotated[list[Value], Field(max_length=_MOST, fail_fast=True)]
Content = Annotated[dict[Name, Value], Field(max_length=_MOST, fail_fast=True)]


class Record(Given):
    """A typed memory to be stored: a category, and what its fields say."""

    category: Name
    content: Content
    title: Name = ""
    id: Name = ""
    tags: Tags = ()


class Revised(Given):
    """Fields that change in a typed memory; `expect` is the hash of the text that was seen.

    A field of the content that is null is taken out, and what is not named stays as it is.
    """

    content: Content = Field(default_factory=dict)
    title: Name | None = None
    tags: Tags | None = None
    expect: Name = ""


async def _create(call: Call) -> Data:
    given: Record = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        done = app.record(
            given.category,
            given.content,
            id=given.id,
            title=given.title.strip(),
            tags=clean_tags(given.tags),
        )
        undo = [undo_steps.deleting(scope, done.memory)]
        return undo_steps.changed(scope, done.memory, done.status, _said(done), undo)

    return await call.banks.use(work, scope)


async def _revise(call: Call) -> Data:
    given: Revised = call.body
    scope = call.path["scope"]

    def work(app: App) -> Data:
        before = app.find_own(named(call))
        done = app.revise(
            named(call),
            given.content,
            expect=given.expect or before.hash,
            title=None if given.title is None else given.title.strip(),
            tags=None if given.tags is None else clean_tags(given.tags),
        )
        undo = undo_steps.restoring(app, scope, before, done)
        return undo_steps.changed(scope, done.memory, done.status, _said(done), undo)

    return await call.banks.use(work, scope)


def _said(done: Outcome) -> list[str]:
    """What is to be said of it: what was mended in what was given, and what to be careful with."""
    return [*(f"mended: {note}" for note in done.notes), *done.warnings]


OPERATIONS: Final = (
    Operation(
        "POST", "/records/{scope}", "create_record", "Store a typed memory", _create,
        answers.Changed, body=Record,
    ),
    Operation(
        "PUT", f"{ONE}/content", "revise", "Change fields of a typed memory", _revise,
        answers.Changed, body=Revised,
    ),
)  # fmt: skip


# The page

_BANKS: Final = {"here": "project", "global": "yours"}
_ABOUT: Final = {"list": "One item on each line.", "json": "As JSON.", "number": "A number."}


class FormField(NamedTuple):
    """One field on the page: how it is asked for, and what it says."""

    name: str
    label: str
    kind: str  # text, number, flag, list, rows, group, json
    text: str  # what stands in its box; of rows and groups, and of what fits no box, its JSON
    is_required: bool
    choices: Sequence[str] = ()
    rows: Sequence[Sequence[FormField]] = ()  # of rows, each one; of a group, the one it has
    blank: Sequence[FormField] = ()  # a row that is yet to be filled in
    about: str = ""


def lay_out(field: forms.Field, value: Any) -> FormField:
    """Lay out a field with what a content says there.

    What a box would not give back as it was, as an item of several lines, is shown as JSON.
    """
    kind = field.kind
    rows: Sequence[Any] = ()
    if kind in ("rows", "group") and not field.fields:
        kind = "json"
    if value is not None and not _fits(field, value):
        kind = "json"
    if kind in ("rows", "group"):
        rows = [value or {}] if kind == "group" else value or []
    text = ""
    if kind in ("text", "list") and value is not None:
        text = value if kind == "text" else "\n".join(value)
    elif kind == "flag" and value is not None:
        text = "yes" if value else "no"
    elif value is not None:
        indent = 2 if kind == "json" else None
        text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    choices = [] if kind == "json" else list(field.choices)
    if choices and text and text not in choices:  # a record that was written by hand
        choices.append(text)
    return FormField(
        field.name,
        forms.label(field.name),
        kind,
        text,
        field.is_required,
        choices,
        [[lay_out(inner, row.get(inner.name)) for inner in field.fields] for row in rows],
        [lay_out(inner, None) for inner in field.fields] if kind in ("rows", "group") else (),
        "" if choices else _ABOUT.get(kind, ""),
    )


def _fits(field: forms.Field, value: object) -> bool:
    """Whether the box of a field can show a value, and give it back."""
    match field.kind:
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "list":
            return isinstance(value, list) and all(
                isinstance(item, str) and item == item.strip() and len(item.splitlines()) == 1
                for item in value
            )
        case "rows" | "group":
            rows = value if field.kind == "rows" else [value]
            known = {inner.name: inner for inner in field.fields}
            return isinstance(rows, list) and all(
                isinstance(row, dict)
                and row.keys() <= known.keys()
                and all(_fits(known[name], item) for name, item in row.items())
                for row in rows
            )
        case kind:
            return isinstance(value, bool if kind == "flag" else str)


class _Sheet(NamedTuple):
    """The form of a category, with what a memory says in it."""

    category: str
    folder: str
    says: str  # the field that a text without fields goes to
    entries: Sequence[FormField]
    others: Sequence[str]  # what the memory says besides, which stays as it is


def _sheet(app: App, category: str, content: Mapping[str, object]) -> _Sheet | None:
    """The sheet of a category; None where there is no such category."""
    try:
        form = forms.make_form(category, app.records.rules)
    except UsageError:
        return None
    known = {field.name for field in form.fields}
    return _Sheet(
        category,
        form.folder,
        form.main_field,
        [lay_out(field, content.get(field.name)) for field in form.fields],
        [name for name in map(str, content) if name not in known],
    )


async def _edit(request: Request) -> Response:
    banks: BankPool = request.app.state.banks

    def read(app: App) -> tuple[Memory, _Sheet | None, list[str]]:
        memory = app.find_own(ref(request))
        return memory, _laid_out(app, memory), _types(app)

    memory, sheet, types = await banks.use(read, request.path_params["scope"])
    # What cannot be read has neither text nor fields to show, and JSON has no text.
    is_plain = memory.path.endswith(".md") and not memory.problem and not is_record(memory)
    is_whole = "whole" in request.query_params or not (is_plain or sheet)
    values = {
        **page_values(request, memory),
        "title": f"Edit {memory.title}",
        "is_new": False,
        "is_whole": is_whole,
        "sheet": None if is_whole else sheet,
        "part": "the fields" if sheet else "the text alone" if is_plain else "",
        "text": _text(memory, is_whole),
        "stated_title": memory.text("title"),
        "suffix": _suffix(memory) if is_whole else "",
        "has_more": bool(memory.body.strip()) and memory.path.endswith(".md"),
        "types": types,
        "categories": [],
        "collections": [],
        "scopes": [],
    }
    return page(request, "edit.html", values)


def _laid_out(app: App, memory: Memory) -> _Sheet | None:
    """A typed memory's content on the sheet of its category, if it can be."""
    content = load_record(memory).get("content") if is_record(memory) else None
    return _sheet(app, memory.type, content) if isinstance(content, dict) else None


def _text(memory: Memory, is_whole: bool) -> str:
    return memory.data.decode("utf-8", "replace") if is_whole else memory.body


def _suffix(memory: Memory) -> str:
    return ".json" if memory.path.endswith(".json") else ".md"


async def _new(request: Request) -> Response:
    banks: BankPool = request.app.state.banks
    wanted = _wanted(request)
    scope = OWN if wanted["wanted_scope"] == OWN else HERE

    def read(app: App) -> dict[str, Any]:
        found = [name for name, _, _ in app.collections() if name]
        scopes = banks.scopes
        bank = banks.app(scope if scope in scopes else HERE)
        kinds = [one.name for one in bank.records.rules.categories.values() if one.enabled]
        asked = request.query_params.get("type", "")[:400]
        return {
            "types": _types(app),
            "collections": sorted(set(found)),
            "scopes": [(scope, _BANKS[scope]) for scope in scopes],
            "categories": [(name, forms.label(name)) for name in sorted(kinds)],
            "sheet": _sheet(bank, asked, {}) if asked in kinds else None,
            "stated_type": "" if asked in kinds else asked,
        }

    values = {
        **await banks.use(read),
        "title": "New memory",
        "here": "memories",
        "memory": None,
        "scope": "here",
        "page": "/",
        "api": "",
        "is_new": True,
        "is_whole": False,
        "part": "",
        "text": request.query_params.get("text", "")[:100_000],
        "suffix": "",
        "has_more": False,
        **wanted,
    }
    return page(request, "edit.html", values)


def _wanted(request: Request) -> dict[str, str]:
    """The name that a link has for what is to be written; a title, if it can be no name."""
    asked = request.query_params
    collection, _, name = asked.get("id", "").removeprefix("memory:").rpartition("/")
    found = {
        "stated_title": asked.get("title", "")[:400],
        "wanted_id": name,
        "wanted_collection": collection,
        "wanted_scope": asked.get("scope", ""),
    }
    try:
        check_id(name)
        check_collection(collection)
    except BadName:
        plain = found["stated_title"] or asked.get("id", "")[:400]
        found |= {"stated_title": plain, "wanted_id": "", "wanted_collection": ""}
    return found


def _types(app: App) -> list[str]:
    """The types that a plain memory can have: the usual ones, and those in use."""
    try:
        used = app.count_types()
    except RetainError:
        used = {}
    return list(dict.fromkeys((*FREE_TYPES, *sorted(used))))


ROUTES: Final = (
    Route("/new", _new, methods=["GET"]),
    Route(f"{PAGE}/edit", _edit, methods=["GET"]),
)
