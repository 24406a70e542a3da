"""Filters, as document 000 means them and as a person would read them."""

from __future__ import annotations

import pytest

from retain.bank import filters
from retain.errors import BadFilter
from retain.memory import Memory

META = {
    "title": "GPU Patterns",
    "tags": ["gpu", "metal"],
    "priority": "high",
    "score": 9,
    "ratio": 0.5,
    "done": True,
    "open": False,
    "nothing": None,
    "created_at": "2026-11-15T18:00:00Z",
    "updated_at": "2026-11-15T23:30:00.5-02:00",
    "due": "2026-12-01",
    "version": "1.10",
    "word": "abd",
    "since_at": "unknown",
    "number": "10a",
    "date": "2026-13-45",
    "project": {"name": "retain", "stage": {"n": 2}},
    "a.b": "dotted",
    "имя": "да",
}


def holds(*expressions: str, meta: dict[str, object] = META) -> bool:
    memory = Memory("gpu-patterns", "knowledge", "/x.md", meta, "# Body\n", scope="project")
    return filters.matches(memory, [filters.parse(one) for one in expressions])


@pytest.mark.parametrize(
    "expression",
    [
        "tags=gpu", "tags=GPU", "tags=cpu,gpu", "tags = cpu , metal", "tags!=cpu", "tags~met",
        "tags~MET",
        "priority=high", "priority=low,high", "priority!=low,medium", "priority~IG",
        "score=9", "score>=9", "score>8", "score<10", "score<=9.0", "score>-1", "score<1e3",
        "ratio<1", "ratio=0.5", "done=true", "done=True", "open=false", "open!=true",
        "missing!=x", "nothing!=x", "project.name=retain", "project.stage.n>=2", "a.b=dotted",
        "created_at>=2026-01-01", "created_at>=2026-11-15", "created_at<=2026-11-15",
        "created_at=2026-11-15", "created_at<2026-11-16", "created_at>2026-11-14",
        "created_at>=2026-11-15T18:00:00Z", "created_at<2026-11-15T18:00:01Z",
        "created_at>2026-11-15T17:59:59", "created_at<2026-11-15T19:30:00+01:00",
        "updated_at>=2026-11-16T01:30:00Z", "updated_at=2026-11-16", "due>2026-11-30",
        "due=2026-12-01", "due<2026-12-01T00:00:01Z", "created_at!=2026-11-14", "имя=да",
        "id=gpu-patterns", "collection=knowledge", "type=journal", "status=active",
        "word>abc", "number<9", "date>2026-13-44",
        "scope=project", "title~gpu", "title=GPU Patterns", "version>1.09", "created_at~2026-11",
    ],
)  # fmt: skip
def test_holds(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "tags=cpu", "tags!=GPU", "tags!=gpu", "tags!=cpu,metal", "tags=gp", "tags=gpu;metal",
        "priority=hig", "priority!=high", "score>9", "score<9", "score!=9", "score>=10", "done=1",
        "done=false", "open=true", "missing=x", "missing>0", "missing<0", "missing~", "nothing~x",
        "nothing=None", "project=retain", "project.none=x", "project.name.x=retain", "tags.x=gpu",
        "created_at>2026-11-15", "created_at<2026-11-15", "created_at!=2026-11-15",
        "created_at>=2026-11-16", "created_at>2026-11-15T18:00:00Z", "updated_at=2026-11-15",
        "created_at<=2026-11-15T17:59:59Z", "due>2026-12-01", "date<9999-12-31", "word>2026-01-01",
        "since_at>=2026-01-01", "since_at>=2026", "title~cpu", "type=plan", "body~Body",
    ],
)  # fmt: skip
def test_does_not_hold(expression: str) -> None:
    assert not holds(expression)


@pytest.mark.parametrize(
    "text",
    [
        "created_at>=yesterday",
        "created_at>",
        "",
        "tags",
        "=x",
        "1=x",
        "a b=x",
        "~",
        "a.b",
        "-a=b",
        "x" * 200 + "=1",
        "\0=1",
    ],
)
def test_what_is_no_filter_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadFilter) as caught:
        filters.parse(text)
    assert "--filter" in caught.value.hint
    assert len(caught.value.message) < 200
