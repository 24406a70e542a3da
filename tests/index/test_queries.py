"""Lists from the index: what was chosen, in which order, and how many there are of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from retain.app import App
from retain.index.queries import Chosen, Page

MEMORIES = {
    "notes/tea": ("fact", "active", "[drinks, hot]", "2026-01-05", "Tea"),
    "notes/coffee": ("fact", "active", "[drinks, hot]", "2026-02-05", "coffee"),
    "notes/juice": ("plan", "active", "[drinks]", "2026-02-20", "Juice"),
    "ops/backup": ("plan", "active", "[]", "2025-12-31", "Backup"),
    "ops/old": ("plan", "retired", "[drinks]", "2024-06-01", "Old"),
}


def _write(root: Path, memories: Mapping[str, tuple[str, str, str, str, str]]) -> None:
    for ref, (kind, status, tags, day, title) in memories.items():
        path = root / f"{ref}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"title: {title}\ntype: {kind}\nstatus: {status}\ntags: {tags}"
        path.write_text(
            f"---\n{head}\ncreated_at: {day}T10:00:00Z\n---\nAbout {title}.\n", encoding="utf-8"
        )


@pytest.fixture
def app(home: Path) -> App:
    app = App(everywhere=True)
    app.init()
    _write(home / ".retain", MEMORIES)
    return app


def _ids(shelf: Page) -> list[str]:
    return [one.id for one in shelf.memories]


def _shelf(
    app: App,
    order: str = "title",
    limit: int = 50,
    offset: int = 0,
    **chosen: str | tuple[str, ...],
) -> Page:
    return app.browse(Chosen(**chosen), order, limit, offset)  # type: ignore[arg-type]


def test_retired_memories_are_listed_only_when_they_are_named(app: App) -> None:
    assert _ids(_shelf(app)) == ["backup", "coffee", "juice", "tea"]
    assert _ids(_shelf(app, status=("retired",))) == ["old"]


def test_several_values_of_one_facet_mean_either_and_two_facets_mean_both(app: App) -> None:
    assert _ids(_shelf(app, type=("fact", "plan"), collection=("notes",))) == [
        "coffee",
        "juice",
        "tea",
    ]
    assert _ids(_shelf(app, tag=("hot",), month=("2026-02",))) == ["coffee"]


def test_a_facet_counts_as_if_nothing_of_it_were_chosen_and_all_else_were(app: App) -> None:
    facets = _shelf(app, type=("fact",), tag=("hot",)).facets
    assert dict(facets["type"]) == {"fact": 2}  # the juice is not hot
    assert dict(facets["tag"]) == {"drinks": 2, "hot": 2}
    assert dict(facets["month"]) == {"2026-01": 1, "2026-02": 1}
    assert dict(_shelf(app, type=("fact",)).facets["type"]) == {"fact": 2, "plan": 2}
    assert dict(_shelf(app).facets["status"]) == {"active": 4, "retired": 1}


def test_dates_include_their_first_and_last_day_and_nothing_undated(app: App, home: Path) -> None:
    for number, day in enumerate(("unknown", "2026-01-32", "2026-01", "now", "2026")):
        text = f"---\ncreated_at: {day}\n---\nUndated.\n"
        (home / ".retain" / "notes" / f"undated-{number}.md").write_text(text, encoding="utf-8")
    assert [_shelf(app).total, _shelf(app, since="0001-01-01").total] == [9, 4]
    found = _shelf(app, since="2026-01-05", until="2026-02-05")
    assert _ids(found) == ["coffee", "tea"]
    assert dict(found.facets["collection"]) == {"notes": 2}


@pytest.mark.parametrize(
    "order, ids",
    [
        ("created", ["juice", "coffee", "tea", "backup"]),
        ("oldest", ["backup", "tea", "coffee", "juice"]),
        ("title", ["backup", "coffee", "juice", "tea"]),  # whatever the case
    ],
)
def test_a_list_has_its_order(app: App, order: str, ids: list[str]) -> None:
    assert _ids(_shelf(app, order)) == ids


def test_pages_follow_each_other_without_a_gap(app: App) -> None:
    pages = [_shelf(app, limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [_ids(page) for page in pages] == [["backup", "coffee", "juice"], ["tea"], []]
    assert {page.total for page in pages} == {4}


def test_both_banks_are_one_list_with_a_facet_for_each(app: App, home: Path) -> None:
    project = home / "work"
    both = App(cwd=str(project))
    both.init()
    both = App(cwd=str(project))
    _write(
        project / ".retain", {"notes/milk": ("fact", "active", "[drinks]", "2026-01-20", "Milk")}
    )
    found = _shelf(both, "created")
    assert [(one.id, one.scope) for one in found.memories] == [
        ("juice", "global"),
        ("coffee", "global"),
        ("milk", "project"),
        ("tea", "global"),
        ("backup", "global"),
    ]
    assert dict(found.facets["scope"]) == {"project": 1, "global": 4}
    assert _ids(_shelf(both, scope=("project",))) == ["milk"]
    assert dict(_shelf(both, scope=("project",)).facets["type"]) == {"fact": 1}


def test_a_memory_is_called_by_the_beginning_of_its_title_or_its_name(app: App, home: Path) -> None:
    more = {
        "ops/use-postgres": ("decision", "active", "[]", "2026-01-01", "Use Postgres"),
        "ops/mail": ("fact", "active", "[]", "2026-01-01", "Mail goes through Postmark"),
        "notes/postmortem": ("fact", "active", "[]", "2026-01-01", "Postmortem"),
        "notes/compost": ("fact", "active", "[]", "2026-01-01", "Compost"),
        "ops/posted": ("fact", "retired", "[]", "2026-01-01", "Posted"),
    }
    _write(home / ".retain", more)

    def called(words: str, limit: int = 8) -> list[str]:
        return [one.id for one in app.find_by_name(words, limit)]

    assert called("post") == ["postmortem", "use-postgres", "mail", "compost"]
    assert called("POST", 1) == ["postmortem"]
    assert called("ops/use") == called("postgres use") == ["use-postgres"]
    assert called("po%t") == called("p_st") == called("") == called("   ") == []
