"""What a page sends for: the changing part alone on a refresh, and little at its first opening."""

from __future__ import annotations

import re

import pytest

from tests.web.stage import TOKEN, Served

FIRST = 150_000  # bytes of everything that the first page needs
REFRESHED = {
    "/": ["results", "facets"],
    "/?q=tea": ["results", "facets"],
    "/memory/here/memories/tea": ["memory", "collections"],
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


def test_the_first_page_is_small(served: Served) -> None:
    page = _asked(served, "/")
    wanted = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    seen: dict[str, int] = {}
    while wanted:
        path = wanted.pop()
        text = _asked(served, path)
        seen[path] = len(text.encode())
        below = path.rpartition("/")[0]
        names = re.findall(r'(?:from|import)\s*"\./([^"]+)"', text)
        wanted |= {f"{below}/{name}" for name in names} - seen.keys()
    assert len(seen) > 5  # the modules that modules import are among them
    assert sum(seen.values()) + len(page.encode()) < FIRST, seen
