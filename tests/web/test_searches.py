"""Kept searches: several servers write one file, and none loses what another kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from retain.errors import Unreadable
from retain.web.searches import Searches
from tests.web.stage import Served, world

_KEEP = """
import sys
from retain.web.searches import Searches
for number in range(40):
    Searches().keep(f"{sys.argv[1]} {number}", "q=x")
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the searches of a person lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "retain" / "searches.json"


def test_two_who_keep_at_once_lose_nothing(tmp_path: Path, file: Path) -> None:
    env = {**world(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", _KEEP, one], env=env) for one in "ab"]
    assert [one.wait(120) for one in both] == [0, 0]
    assert len(Searches().all()) == 80


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"a": "q=x"'])
def test_a_file_that_makes_no_sense_is_not_written_over(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text, encoding="utf-8")
    assert Searches().all() == []
    with pytest.raises(Unreadable):
        Searches().keep("mine", "q=x")
    with pytest.raises(Unreadable):
        Searches().forget("a")
    assert file.read_text(encoding="utf-8") == text


def test_a_name_that_was_taken_gets_its_old_search_back(served: Served) -> None:
    path = "/searches/Hot%20%26%20cold"
    served.api("PUT", path, {"query": "q=old"})
    done = served.api("PUT", path, {"query": "q=new"})
    for one in done["undo"]:
        served.api(one["method"], one["path"], one["body"])
    assert done["searches"] == [{"name": "Hot & cold", "query": "q=new"}]
    assert served.api("GET", "/searches")["searches"] == [{"name": "Hot & cold", "query": "q=old"}]
    gone = served.api("DELETE", path)
    assert gone["searches"] == []
    for one in gone["undo"]:
        again = served.api(one["method"], one["path"], one["body"])
    for one in again["undo"]:
        served.api(one["method"], one["path"], one["body"])
    assert served.api("GET", "/searches")["searches"] == []
