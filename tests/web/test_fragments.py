"""What a page sends for: the changing part alone on a refresh, and little at its first opening."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retain.web.search_state import PAGE
from tests.web import stage
from tests.web.stage import TOKEN, Served

FIRST = 150_000  # bytes of everything that the first page needs
LOADED = re.compile(r'(?:src|href)="(/static/[^"]+)"')
IMPORTED = re.compile(r'(?:from|import)\s*"\./([^"]+)"')
REFRESHED = {
    "/": ["results", "facets"],
    "/?q=tea": ["results", "facets"],
    "/memory/here/memories/tea": ["memory", "collections"],
    "/memory/here/memories/tea/history": ["history"],
    "/inbox": ["inbox", "inbox-dropped"],
    "/health": ["health-now", "health-work", "health-files", "health-trash"],
    "/graph": ["graph-list", "graph-said"],
    "/sessions": ["found"],
}


def _asked(served: Served, path: str, **more: str) -> str:
    answer = served.ask("GET", path, headers={"Authorization": f"Bearer {TOKEN}", **more})
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("path", REFRESHED)
def test_a_refresh_gets_the_changing_part_alone(served: Served, path: str) -> None:
    if served.get("/api/v1/memories/here/memories/tea").status_code == 404:
        served.store("# Green tea\n\nHot.", id="tea", tags=["hot"])
    whole = _asked(served, path)
    part = _asked(served, path, **{"X-Retain-Fragment": "1"})
    for name in REFRESHED[path]:
        assert f'id="{name}"' in whole
        assert f'id="{name}"' in part
    for tag in ("<html", "<head>", 'class="rail"', 'id="help"', "<script"):
        assert tag in whole
        assert tag not in part
    assert 'id="bulk"' not in part
    assert 'id="search"' not in part


@pytest.mark.slow
def test_the_first_page_is_small_with_every_row_it_can_have(tmp_path: Path) -> None:
    notes = tmp_path / ".retain" / "notes"
    notes.mkdir(parents=True)
    for number in range(PAGE + 10):
        head = f"title: What number {number} of these notes is about\ntags: [tea, note-{number}]"
        text = f"---\n{head}\ntype: fact\ncreated_by: claude\n---\n\n{'Some words of it. ' * 40}\n"
        (notes / f"note-{number}.md").write_text(text, encoding="utf-8")
    with stage.started(tmp_path) as server:
        page, size = weighed(server, "/")
        assert page.count("data-item") == PAGE
        wanted, seen = set(LOADED.findall(page)), {"/": size}
        while wanted:
            path = wanted.pop()
            text, seen[path] = weighed(server, path)
            below = path.rpartition("/")[0]
            wanted |= {f"{below}/{name}" for name in IMPORTED.findall(text)} - seen.keys()
    assert len(seen) > 5  # the modules that modules import are among them
    assert sum(seen.values()) < FIRST, seen


def weighed(served: Served, path: str) -> tuple[str, int]:
    """What is there, and how many bytes of it were sent, its head included."""
    answer = served.get(path)
    assert answer.status_code == 200
    head = sum(len(name) + len(value) + 4 for name, value in answer.headers.raw)
    return answer.text, head + answer.num_bytes_downloaded
