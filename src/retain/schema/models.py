"""The model of each of the six categories, and the same as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from retain.categories import is_name

__all__ = ["CATEGORIES", "DRAFT", "ID", "NAME", "json_schema", "model_of", "whole"]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_HOME: Final = "https://claude-memory.dev/schemas"
ID: Final = "^[a-z0-9]([a-z0-9-]{0,78}[a-z0-9])?$"
NAME: Final = "^[a-z][a-z0-9_]{0,39}$"


def whole(value: object) -> object:
    """JSON has one kind of number: 2.0 is as whole as 2."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Texts = list[str]
Some = Annotated[list[str], Field(min_length=1)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Reason = Annotated[str, Field(max_length=300)]
Share = Annotated[float, Field(ge=0, le=1)]
Whole = Annotated[int, BeforeValidator(whole)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Alternative(_Strict):
    """An option that was not taken, and why."""

    option: str
    rejected_reason: str


class _Decision(_Strict):
    """What was decided, and why."""

    status: Literal["proposed", "accepted", "deprecated", "superseded"]
    context: str
    decision: str
    alternatives: list[_Alternative] | None = None
    rationale: Some
    consequences: Texts | None = None


class _SessionSummary(_Strict):
    """What a session set out to do, and what came of it."""

    goal: str
    outcome: Literal["success", "partial", "blocked", "abandoned"]
    completed: Texts
    in_progress: Texts | None = None
    blockers: Texts | None = None
    next_actions: Texts
    key_changes: Texts | None = None


class _Runbook(_Strict):
    """What to do when something happens, and how to know that it helped."""

    trigger: str
    symptoms: Texts | None = None
    steps: Some
    verification: str
    root_cause: str | None = None
    environment: str | None = None


class _Constraint(_Strict):
    """A limit that stays, and what follows from it."""

    kind: Literal["limitation", "gap", "policy", "technical"]
    rule: str
    impact: Some
    workarounds: Texts | None = None
    severity: Literal["high", "medium", "low"]
    active: bool
    expires: str | None = None


class _TechDebt(_Strict):
    """Work that was put off, and why."""

    status: Literal["open", "in_progress", "resolved", "wont_fix"]
    priority: Literal["critical", "high", "medium", "low"]
    description: str
    reason_deferred: str
    impact: Texts | None = None
    suggested_fix: Texts | None = None
    acceptance_criteria: Texts | None = None


class _Examples(_Strict):
    """What the preference looks like in practice."""

    prefer: Texts | None = None
    avoid: Texts | None = None


class _Preference(_Strict):
    """How things are done here, and how strictly."""

    topic: str
    value: str
    reason: str
    strength: Literal["strong", "default", "soft"]
    examples: _Examples | None = None


class _Change(_Strict):
    """One change of the record, the oldest first."""

    date: str
    summary: Reason
    field: str | None = None
    old_value: Any = None
    new_value: Any = None


class _Record(_Strict):
    """A typed memory."""

    schema_version: Literal["1.0"]
    category: Annotated[str, Field(pattern=NAME)]
    # A `$` of Python's matches before a last line break as well; there is none in an id.
    id: Annotated[str, Field(pattern=ID, json_schema_extra={"not": {"pattern": r"\s"}})]
    title: Annotated[str, Field(max_length=120)]
    record_status: Literal["active", "retired", "archived"] = "active"
    created_at: Time
    updated_at: Time
    tags: Some
    related_files: Texts | None = None
    confidence: Share | None = None
    content: dict[Any, Any]
    changes: Annotated[list[_Change], Field(max_length=50)] | None = None
    times_updated: Whole = 0
    retired_at: Time | None = None
    retired_reason: Reason | None = None
    archived_at: Time | None = None
    archived_reason: Reason | None = None


_CONTENT: Final[Mapping[str, type[_Strict]]] = {
    "session_summary": _SessionSummary,
    "decision": _Decision,
    "runbook": _Runbook,
    "constraint": _Constraint,
    "tech_debt": _TechDebt,
    "preference": _Preference,
}
CATEGORIES: Final = tuple(_CONTENT)


@cache
def model_of(category: str) -> type[_Record]:
    """The model of one of the six; any other category's content may be any object."""
    if category not in _CONTENT:
        return _Record
    named: Any = Literal[category]
    return create_model(
        category, __base__=_Record, category=(named, ...), content=(_CONTENT[category], ...)
    )


def json_schema(category: str) -> dict[str, Any]:
    """A category's rules as JSON Schema, draft 2020-12; `base` is what all six have in common."""
    made = model_of(category).model_json_schema()
    plain = _plain(made, made.get("$defs", {}))
    properties = plain["properties"]
    if category == "base":
        properties["category"] = {"enum": list(CATEGORIES)}
    elif category not in _CONTENT and is_name(category):
        properties["category"] = {"const": category}
    return {
        "$schema": DRAFT,
        "$id": f"{_HOME}/{category}.schema.json",
        "title": f"{category.replace('_', ' ').capitalize()} memory",
        "type": "object",
        "required": plain["required"],
        "properties": properties,
        "additionalProperties": False,
    }


def _plain(node: Any, named: Mapping[str, Any]) -> Any:
    """What pydantic says, with nothing to look up and nothing said twice."""
    if isinstance(node, list):
        return [_plain(one, named) for one in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(named[node["$ref"].rpartition("/")[2]], named)
    noise = [name for name in ("title", "$defs") if not isinstance(node.get(name), dict)]
    if node.get("default", ...) is None:
        noise.append("default")
    if node.get("additionalProperties") is True:
        noise.append("additionalProperties")
    rest = {name: _plain(one, named) for name, one in node.items() if name not in noise}
    if "anyOf" in rest:
        value, null = rest.pop("anyOf")
        rest |= value | {"type": [value["type"], null["type"]]}
    if "const" in rest:
        rest.pop("type", None)
    return rest
