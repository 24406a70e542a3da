"""The description of the JSON interface, made from the table of its operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from retain import __version__
from retain.web.bank_pool import HERE, OWN
from retain.web.operation import Operation

_REF: Final = "#/components/schemas/{model}"
_PART: Final = re.compile(r"{(\w+)(?::\w+)?}")
_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "unchanged", "hint"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "unchanged": {"type": "string"},
                "hint": {"type": "string"},
                "faults": {
                    "description": "What is wrong with which field of a typed memory",
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["field", "expected", "got"],
                        "properties": {
                            "field": {"type": "string"},
                            "expected": {"type": "string"},
                            "got": {"type": "string"},
                        },
                    },
                },
            },
        }
    },
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole interface as an OpenAPI document."""
    schemas: dict[str, Any] = {"Error": _ERROR}
    paths: dict[str, Any] = {}
    for one in operations:
        path = _PART.sub(r"{\1}", f"/api/v1{one.path}")
        paths.setdefault(path, {})[one.method.lower()] = _described(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Retain",
            "version": __version__,
            "summary": "A memory bank over HTTP, as its own pages use it.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(one: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    failure = {
        "description": "Refused, with the reason",
        "content": {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}},
    }
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.about,
        "tags": [one.subject],
        "parameters": [*_parts(one), *_queries(one, schemas)],
        "responses": {
            "200": {
                "description": "Done",
                "content": {"application/json": {"schema": _given(one.gives, schemas)}},
            },
            "4XX": failure,
            "5XX": failure,
        },
    }
    if one.takes:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _given(one.takes, schemas)}},
        }
    return found


def _parts(one: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _part(name)}
        for name in _PART.findall(one.path)
    ]


def _part(name: str) -> dict[str, Any]:
    return {"enum": [HERE, OWN]} if name == "scope" else {"type": "string", "minLength": 1}


def _queries(one: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if one.query is None:
        return []
    _, made = models_json_schema([(one.query, "validation")], ref_template=_REF)
    schema = one.query.model_json_schema(ref_template=_REF)
    schemas |= made.get("$defs", {})
    wanted = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in wanted, "schema": value}
        for name, value in schema.get("properties", {}).items()
    ]


def _given(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; those it is made of stand among the others, once."""
    if kind is None:
        return {"type": "object"}
    made = TypeAdapter(kind).json_schema(ref_template=_REF)
    schemas |= made.pop("$defs", {})
    return made
