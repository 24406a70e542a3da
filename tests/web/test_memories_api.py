"""Memories over the interface: found, written, taken through life, and every step undone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.web import stage
from tests.web.stage import Begin, Served

ONE = "/memories/here/memories"
BEARER = {"Authorization": f"Bearer {stage.TOKEN}"}


@pytest.fixture
def served(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    """A server of its own for each test: what one stores would be counted by the others."""
    # Words are enough here, and no model has to be loaded.
    plain = {"RETAIN_RECALL_EMBEDDER": "none"}
    with stage.started(tmp_path / "web", env=plain, begin=begin) as server:
        yield server


def _file(served: Served, name: str, collection: str = "memories") -> str:
    return (served.bank / collection / f"{name}.md").read_text(encoding="utf-8")


def _undo(served: Served, done: dict[str, Any]) -> Any:
    """Make the calls that a change handed out; there have to be some."""
    assert done["undo"], done
    for one in done["undo"]:
        answer = served.ask(one["method"], f"/api/v1{one['path']}", json=one["body"])
        assert answer.status_code == 200, f"{one}: {answer.text}"
    return answer.json()


def _ids(found: dict[str, Any]) -> list[str]:
    return [one["id"] for one in found.get("memories", found.get("hits", []))]


# Finding


def test_a_list_narrows_down_and_counts(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea", tags=["drinks"], type="fact")
    served.store("# Juice\n\nCold.", id="juice", tags=["drinks", "cold"])
    served.store("# Bread\n\nWarm.", id="bread", collection="food")
    assert served.api("GET", "/memories")["total"] == 3
    found = served.api("GET", "/memories", tag="drinks", sort="title")
    assert _ids(found) == ["juice", "tea"]
    assert found["facets"]["collection"] == {"memories": 2}
    assert found["memories"][0]["page"] == "/memory/here/memories/juice"
    assert _ids(served.api("GET", "/memories", collection=["food"])) == ["bread"]
    assert _ids(served.api("GET", "/memories", limit=1, offset=1, sort="title")) == ["juice"]


def test_a_search_is_narrowed_by_the_same_facets_and_says_why(served: Served) -> None:
    served.store("# Tea\n\nBoil the water for green tea.", id="tea", tags=["hot"])
    served.store("# Iced tea\n\nGreen tea over ice.", id="iced", tags=["cold"])
    found = served.api("GET", "/search", q="green tea", mode="text")
    assert sorted(_ids(found)) == ["iced", "tea"]
    assert found["hits"][0]["explanation"]["parts"]["text"] > 0
    assert found["facets"]["tag"] == {"cold": 1, "hot": 1}
    assert _ids(served.api("GET", "/search", q="green tea", mode="text", tag="cold")) == ["iced"]


def _many(served: Served, count: int) -> None:
    """Notes that all speak of tea; every third is hot."""
    served.store("# Bread\n\nWarm.", id="bread")  # makes the bank
    folder = served.bank / "memories"
    for number in range(count):
        tag = "hot" if number % 3 == 0 else "cold"
        head = f"---\nid: n{number}\ntitle: Tea {number}\ntags: [{tag}]\n---\n"
        text = f"{head}\nGreen tea of garden {number}.\n"
        (folder / f"n{number}.md").write_text(text, encoding="utf-8")


def test_a_search_goes_on_where_a_page_ends_and_counts_all_it_considered(served: Served) -> None:
    _many(served, 130)
    found = served.api("GET", "/search", q="green tea", mode="text")
    assert (found["total"], found["facets"]["tag"]) == (130, {"cold": 86, "hot": 44})
    narrow = served.api("GET", "/search", q="green tea", mode="text", tag="hot", limit=10)
    assert (narrow["total"], len(narrow["hits"])) == (44, 10)
    assert narrow["facets"]["tag"] == {"cold": 86, "hot": 44}  # what one could choose instead
    assert all("hot" in hit["tags"] for hit in narrow["hits"])


def test_pages_of_a_search_fit_together_however_many_there_are(served: Served) -> None:
    """More fits than a search considers, and the last pages ask for more hits than it looks for."""
    _many(served, 450)
    seen: list[str] = []
    totals = set()
    for offset in range(0, 500, 50):
        found = served.api("GET", "/search", q="green tea", mode="text", limit=50, offset=offset)
        totals.add(found["total"])
        seen += _ids(found)
    assert totals == {len(set(seen))} == {len(seen)}


def test_more_hits_are_a_link_away_without_javascript(served: Served) -> None:
    _many(served, 130)
    seen: list[str] = []
    address = "/?q=green+tea&tag=cold"
    for _ in range(2):
        text = served.get(address).text
        seen += re.findall(r'data-id="([^"]+)"', text)
        following = re.search(r'rel="next" href="([^"]+)"', text)
        address = unescape(following[1]) if following else ""
    assert not address
    assert len(seen) == len(set(seen)) == 86
    assert "Counted in the 130 best hits" in text


@pytest.mark.parametrize("letter", ["a", "\U0001f375"])
def test_the_longest_question_fits_into_an_address_and_a_longer_one_is_told_so(
    served: Served, letter: str
) -> None:
    for path in ("/", "/api/v1/search"):
        assert served.get(path, q=letter * 4_000).status_code == 200
        answer = served.get(path, q=letter * 4_001)
        assert answer.status_code == 400
        assert re.search(r"at most 4,?000 characters", answer.text)


def test_a_search_finds_retired_memories_only_when_they_are_named(served: Served) -> None:
    served.store("# Tea\n\nGreen tea.", id="tea")
    served.api("POST", f"{ONE}/tea/retire", {"reason": "gone off"})
    assert _ids(served.api("GET", "/search", q="green tea", mode="text")) == []
    assert _ids(served.api("GET", "/search", q="green tea", mode="text", status="retired")) == [
        "tea"
    ]


@pytest.mark.parametrize("query", ["sort=size", "since=yesterday", "limit=0", "colour=red"])
def test_a_list_refuses_what_it_does_not_know(served: Served, query: str) -> None:
    assert served.get(f"/api/v1/memories?{query}").status_code == 400


def test_there_are_two_banks_and_no_third(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    assert served.get("/api/v1/memories/elsewhere/memories/tea").status_code == 404
    assert served.get("/memory/elsewhere/memories/tea").status_code == 404


@pytest.fixture
def beside(tmp_path: Path, begin: Begin) -> Iterator[Served]:
    """A project's bank and the person's own, with one name in both."""
    env = {"RETAIN_RECALL_EMBEDDER": "none"}
    with stage.started(tmp_path / "web", project=True, env=env, begin=begin) as server:
        made = {"id": "a", "collection": "notes"}
        for scope, kind in (("here", "plan"), ("global", "journal")):
            server.api("POST", f"/memories/{scope}", {"text": "# Green tea", "type": kind, **made})
        server.api("POST", "/memories/here", {"text": "# Green leaves", "type": "fact", "id": "b"})
        yield server


@pytest.mark.parametrize("chosen", ["type=plan&type=fact", "type=plan&type=fact&scope=here"])
def test_what_is_chosen_in_one_bank_is_not_its_namesake_in_the_other(
    beside: Served, chosen: str
) -> None:
    found = beside.get(f"/api/v1/search?q=green&mode=text&{chosen}").json()
    assert {one["page"] for one in found["hits"]} == {
        "/memory/here/notes/a",
        "/memory/here/memories/b",
    }
    listed = beside.get(f"/api/v1/memories?{chosen}").json()
    assert {one["page"] for one in listed["memories"]} == {one["page"] for one in found["hits"]}


def test_a_search_keeps_to_the_months_that_are_chosen(beside: Served) -> None:
    month = beside.api("GET", "/memories")["memories"][0]["created_at"][:7]
    found = beside.api("GET", "/search", q="green", mode="text", month=month)
    assert found["total"] == beside.api("GET", "/memories", month=month)["total"] > 0
    assert beside.api("GET", "/search", q="green", mode="text", month="1999-01")["total"] == 0


def test_banks_have_one_name_in_the_whole_interface(beside: Served) -> None:
    listed = beside.api("GET", "/memories", scope="global")
    assert [one["page"] for one in listed["memories"]] == ["/memory/global/notes/a"]
    assert listed["facets"]["scope"] == {"here": 2, "global": 1}
    assert beside.get("/api/v1/memories?scope=project").status_code == 400


def test_names_are_completed_in_one_bank_and_by_what_a_memory_says_if_by_no_name(
    beside: Served,
) -> None:
    beside.store("# Iced\n\nBrewed the night before.", id="iced")

    def pages(words: str, scope: str = "here") -> list[str]:
        found = beside.api("GET", "/names", q=words, scope=scope)
        return [one["page"] for one in found["memories"]]

    assert pages("gre") == ["/memory/here/notes/a", "/memory/here/memories/b"]
    assert pages("gre", "global") == ["/memory/global/notes/a"]
    assert pages("brewed") == ["/memory/here/memories/iced"]
    assert pages("brewed", "global") == pages(" ") == []


def test_searches_are_kept_by_name_for_the_person(served: Served) -> None:
    served.api("PUT", "/searches/Hot drinks", {"query": "?q=tea&tag=hot&page=3"})
    kept = served.api("GET", "/searches")["searches"]
    assert kept == [{"name": "Hot drinks", "query": "q=tea&tag=hot"}]
    assert "Hot drinks" in served.get("/").text
    assert served.api("DELETE", "/searches/Hot drinks")["searches"] == []
    assert served.ask("DELETE", "/api/v1/searches/Hot drinks").status_code == 404


@pytest.mark.parametrize("name", ["%20", "a" * 81, "x%1bx"])
def test_a_search_needs_a_name_that_can_be_read(served: Served, name: str) -> None:
    assert served.put(f"/api/v1/searches/{name}", {"query": "q=x"}).status_code == 400
    assert served.api("GET", "/searches")["searches"] == []


# Writing


def test_an_update_is_taken_back_to_the_very_bytes(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea", tags=["drinks"])
    before = _file(served, "tea")
    done = served.api("PUT", f"{ONE}/tea", {"text": "# Tea\n\nCold."})
    assert "Cold." in _file(served, "tea")
    _undo(served, done)
    assert _file(served, "tea") == before


def test_without_versions_a_change_is_taken_back_all_the_same(served: Served) -> None:
    served.run("config", "set", "versioning.mode", "off")
    served.store("# Tea\n\nHot.", id="tea")
    done = served.api("PUT", f"{ONE}/tea", {"text": "# Tea\n\nCold."})
    _undo(served, done)
    assert "Hot." in _file(served, "tea")


def test_a_title_and_a_type_that_are_emptied_are_gone(served: Served) -> None:
    served.store("# Heading\n\nText.", id="emptied", title="Stated", type="plan")
    path = "/memories/here/memories/emptied"
    done = served.api("PUT", path, {"title": "", "type": ""})
    assert done["status"] == "updated"
    source = served.api("GET", path)["source"]
    assert "title:" not in source
    assert "type:" not in source
    assert done["title"] == "Heading"
    for one in done["undo"]:
        served.api(one["method"], one["path"], one["body"])
    assert served.api("GET", path)["title"] == "Stated"
    served.api("PUT", path, {"text": "# Heading\n\nOther."})  # what is not named stays
    assert served.api("GET", path)["title"] == "Stated"


def test_a_tag_has_no_comma_whoever_brings_it(served: Served) -> None:
    served.store("# Tagged", id="tagged")
    path = "/api/v1/memories/here/memories/tagged"
    assert served.put(path, {"tags": ["x, y"]}).status_code == 400
    assert served.post(f"{path}/tags", {"add": ["x, y"]}).status_code == 400
    new = {"text": "# New", "id": "tagged-too", "tags": ["x, y"]}
    assert served.post("/api/v1/memories/here", new).status_code == 400
    assert served.put(path, {"tags": ["  x ", "", "x"]}).status_code == 200
    assert served.api("GET", "/memories/here/memories/tagged")["tags"] == ["x"]


def test_a_stale_update_changes_nothing_and_says_so(served: Served) -> None:
    seen = served.store("# Tea\n\nHot.", id="tea")["hash"]
    served.run("update", "tea", "--content", "-", input="# Tea\n\nLukewarm.")
    answer = served.put(f"/api/v1{ONE}/tea", {"text": "# Tea\n\nCold.", "expect": seen})
    assert answer.status_code == 409
    assert "Lukewarm." in _file(served, "tea")
    source = {"source": "# Tea\n\nCold.", "expect": seen}
    assert served.put(f"/api/v1{ONE}/tea/source", source).status_code == 409
    assert "Lukewarm." in _file(served, "tea")


def test_an_undo_does_not_write_over_what_came_after(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    (undo,) = served.api("PUT", f"{ONE}/tea", {"text": "# Tea\n\nCold."})["undo"]
    served.run("update", "tea", "--content", "-", input="# Tea\n\nLukewarm.")
    answer = served.ask(undo["method"], f"/api/v1{undo['path']}", json=undo["body"])
    assert answer.status_code == 409
    assert "Lukewarm." in _file(served, "tea")


def test_a_whole_file_is_rewritten_and_read_back(served: Served) -> None:
    done = served.store("# Tea\n\nHot.", id="tea")
    source = served.api("GET", f"{ONE}/tea")["source"].replace("Hot.", "Cold.")
    served.api("PUT", f"{ONE}/tea/source", {"source": source, "expect": done["hash"]})
    assert "Cold." in served.api("GET", f"{ONE}/tea")["content"]
    broken = served.put(f"/api/v1{ONE}/tea/source", {"source": "---\na: [\n---\nx"})
    assert broken.status_code == 422
    assert "Cold." in _file(served, "tea")


def test_tags_come_and_go_and_come_back(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea", tags=["drinks", "hot"])
    done = served.api("POST", f"{ONE}/tea/tags", {"add": [" green "], "remove": ["hot"]})
    assert served.api("GET", f"{ONE}/tea")["tags"] == ["drinks", "green"]
    _undo(served, done)
    assert served.api("GET", f"{ONE}/tea")["tags"] == ["drinks", "hot"]
    same = served.api("POST", f"{ONE}/tea/tags", {"add": ["hot"]})
    assert (same["status"], same["undo"]) == ("unchanged", [])
    assert served.post(f"/api/v1{ONE}/tea/tags", {"add": ["a,b"]}).status_code == 400


def test_what_is_stored_moved_or_deleted_can_be_taken_back(served: Served) -> None:
    stored = served.store("# Tea\n\nHot.", id="tea")
    moved = served.api("POST", f"{ONE}/tea/move", {"collection": "food", "id": "green-tea"})
    assert moved["page"] == "/memory/here/food/green-tea"
    assert _undo(served, moved)["page"] == stored["page"]
    deleted = served.api("DELETE", f"{ONE}/tea")
    assert not (served.bank / "memories" / "tea.md").exists()
    assert [one["id"] for one in served.api("GET", "/trash/here")["trashed"]] == ["tea"]
    assert _undo(served, deleted)["id"] == "tea"
    again = served.store("# Milk\n\nCold.", id="milk")
    _undo(served, again)
    assert not (served.bank / "memories" / "milk.md").exists()


def test_a_memory_at_the_root_of_a_bank_has_an_address(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea", collection=":root")
    assert served.api("GET", "/memories/here/:root/tea")["collection"] == ""
    assert served.get("/memory/here/:root/tea").status_code == 200


# Through life


@pytest.mark.parametrize(
    "step, status, back",
    [("retire", "retired", "active"), ("archive", "archived", "active")],
)
def test_a_step_is_taken_and_taken_back_and_that_as_well(
    served: Served, step: str, status: str, back: str
) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    done = served.api("POST", f"{ONE}/tea/{step}", {"reason": "gone off"})
    assert served.api("GET", f"{ONE}/tea")["status"] == status
    undone = _undo(served, done)
    assert served.api("GET", f"{ONE}/tea")["status"] == back
    _undo(served, undone)
    found = served.api("GET", f"{ONE}/tea")
    assert found["status"] == status
    assert found["metadata"][f"{status}_reason"] == "gone off"


def test_a_successor_is_named_by_both_and_then_by_none(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    served.store("# Coffee\n\nHotter.", id="coffee")
    texts = [_file(served, "tea"), _file(served, "coffee")]
    done = served.api("POST", f"{ONE}/tea/supersede", {"by": "coffee"})
    assert "memories/coffee" in _file(served, "tea")
    assert "memories/tea" in _file(served, "coffee")
    _undo(served, done)
    assert [_file(served, "tea"), _file(served, "coffee")] == texts


def test_a_merge_is_taken_apart_again(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    served.store("# Coffee\n\nHotter.", id="coffee")
    texts = [_file(served, "tea"), _file(served, "coffee")]
    merging = {"sources": ["memories/tea", "coffee"], "id": "drinks", "text": "# Drinks\n\nHot."}
    done = served.api("POST", "/merges/here", merging)
    assert _ids(served.api("GET", "/memories")) == ["drinks"]
    _undo(served, done)
    assert [_file(served, "tea"), _file(served, "coffee")] == texts
    assert sorted(_ids(served.api("GET", "/memories"))) == ["coffee", "tea"]


def test_a_merge_leaves_alone_what_was_changed_since_it_was_seen(served: Served) -> None:
    seen = [served.store(f"# {name}\n\nHot.", id=name) for name in ("tea", "coffee")]
    sources = [{"ref": f"memories/{one['id']}", "expect": one["hash"]} for one in seen]
    merging = {"sources": sources, "id": "drinks", "text": "# Drinks\n\nHot."}
    served.api("PUT", "/memories/here/memories/coffee", {"text": "# coffee\n\nIced."})
    answer = served.post("/api/v1/merges/here", merging)
    assert answer.status_code == 409
    assert "coffee" in answer.json()["error"]["message"]
    assert sorted(_ids(served.api("GET", "/memories"))) == ["coffee", "tea"]
    assert "Iced." in _file(served, "coffee")
    sources[1]["expect"] = served.api("GET", "/memories/here/memories/coffee")["hash"]
    served.api("POST", "/merges/here", merging)
    assert _ids(served.api("GET", "/memories")) == ["drinks"]


@pytest.mark.parametrize("step", ["retire", "archive", "move"])
def test_a_step_with_the_hash_that_was_seen_leaves_a_newer_text_alone(
    served: Served, step: str
) -> None:
    seen = served.store("# Tea\n\nHot.", id="tea")["hash"]
    file = served.bank / "memories" / "tea.md"
    newer = file.read_text(encoding="utf-8") + "\nSweet.\n"
    file.write_text(newer, encoding="utf-8")
    body = {"expect": seen, **({"id": "tee"} if step == "move" else {})}
    assert served.post(f"/api/v1{ONE}/tea/{step}", body).status_code == 409
    assert file.read_text(encoding="utf-8") == newer


STEPS = [("retire", {}), ("archive", {}), ("move", {"id": "tee"})]


def _refused(served: Served, done: dict[str, Any]) -> Any:
    """What is said where an undo is not carried out, as nobody's text may be the worse for it."""
    (call,) = done["undo"]
    answer = served.ask(call["method"], f"/api/v1{call['path']}", json=call["body"])
    assert answer.status_code == 409, answer.text
    error = answer.json()["error"]
    assert "was changed after" in error["message"]
    assert error["hint"]
    return error


@pytest.mark.parametrize("step, body", STEPS)
def test_an_undo_of_a_step_leaves_alone_what_was_changed_since(
    served: Served, step: str, body: dict[str, str]
) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    done = served.api("POST", f"{ONE}/tea/{step}", body)
    served.run("update", done["id"], "--content", "-", input="# Tea\n\nLukewarm.")
    newer = _file(served, done["id"])
    assert _refused(served, done)["code"] == "conflict"
    assert _file(served, done["id"]) == newer


@pytest.mark.parametrize("step", ["restore", "unarchive"])
def test_an_undo_of_a_step_back_leaves_alone_what_was_changed_since(
    served: Served, step: str
) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    served.api("POST", f"{ONE}/tea/{'retire' if step == 'restore' else 'archive'}")
    done = served.api("POST", f"{ONE}/tea/{step}")
    served.run("update", "tea", "--title", "Changed elsewhere")
    _refused(served, done)
    assert served.api("GET", f"{ONE}/tea")["status"] == "active"


def test_an_undo_of_a_step_does_not_take_back_the_step_of_another(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    done = served.api("POST", f"{ONE}/tea/archive", {"reason": "rarely needed"})
    served.run("unarchive", "tea")
    served.run("archive", "tea", "--reason", "asked for by the auditors")
    _refused(served, done)
    assert "auditors" in _file(served, "tea")
    served.run("unarchive", "tea")
    served.run("retire", "tea")
    _refused(served, done)
    assert served.api("GET", f"{ONE}/tea")["status"] == "retired"


def test_an_undo_of_a_move_leaves_alone_another_memory_in_its_place(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    done = served.api("POST", f"{ONE}/tea/move", {"id": "tee"})
    served.run("delete", "tee")
    served.run("put", "-", "--id", "tee", input="# Golf\n\nThe first stroke.")
    _refused(served, done)
    assert not (served.bank / "memories" / "tea.md").exists()
    assert "stroke" in _file(served, "tee")


def test_several_steps_are_taken_back_one_after_the_other(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    taken = [
        served.api("POST", f"{ONE}/{path}", body)
        for path, body in (
            ("tea/move", {"id": "tee"}),
            ("tee/archive", {"reason": "tidied"}),
            ("tee/unarchive", {}),
            ("tee/retire", {"reason": "gone off"}),
            ("tee/restore", {}),
        )
    ]
    time.sleep(1.1)  # times are written in seconds, and differ from here on
    for done in reversed(taken):
        undone = _undo(served, done)
    assert (undone["id"], served.api("GET", f"{ONE}/tea")["status"]) == ("tea", "active")


# History, links, looks


def test_earlier_texts_are_listed_read_and_restored(served: Served) -> None:
    served.store("# Tea\n\nHot.", id="tea")
    served.api("PUT", f"{ONE}/tea", {"text": "# Tea\n\nCold."})
    versions = served.api("GET", f"{ONE}/tea/versions")["versions"]
    assert [one["version"] for one in versions] == ["v1"]
    assert "Hot." in served.api("GET", f"{ONE}/tea/versions/v1")["content"]
    done = served.api("POST", f"{ONE}/tea/versions/v1/restore")
    assert "Hot." in _file(served, "tea")
    _undo(served, done)
    assert "Cold." in _file(served, "tea")
    assert served.get(f"/api/v1{ONE}/tea/versions/v9").status_code == 404


def test_a_git_that_takes_its_time_keeps_nobody_waiting(tmp_path: Path, begin: Begin) -> None:
    real, own = shutil.which("git"), tmp_path / "bin" / "git"
    began, goes_on = tmp_path / "began", tmp_path / "goes on"
    own.parent.mkdir()
    own.write_text(
        f"""#!/bin/sh
case " $* " in
*" log "*) touch '{began}'; while [ ! -e '{goes_on}' ]; do sleep 0.05; done; exit 1 ;;
esac
exec {real} "$@"
""",
        encoding="utf-8",
    )
    own.chmod(0o700)
    work = tmp_path / "web" / "work"
    work.mkdir(parents=True)
    told = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (["init", "-q"], [*told, "commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([str(real), *words], cwd=work, check=True)
    env = {"RETAIN_RECALL_EMBEDDER": "none", "PATH": f"{own.parent}:{os.environ['PATH']}"}
    with (
        stage.started(tmp_path / "web", project=True, env=env, begin=begin) as served,
        ThreadPoolExecutor(1) as pool,
    ):
        served.store("# Tea\n\nHot.", id="tea")
        served.api("PUT", f"{ONE}/tea", {"text": "# Tea\n\nCold."})
        for path in ("/memory/here/memories/tea", "/memory/here/memories/tea/history"):
            waiting = pool.submit(httpx2.get, f"{served.url}{path}", headers=BEARER, timeout=60)
            while not began.exists() and not waiting.done():
                time.sleep(0.02)
            assert _ids(served.api("GET", "/memories")) == ["tea"]
            assert not waiting.done()
            goes_on.touch()
            shown = waiting.result()
            assert shown.status_code == 200
            assert "Without what git knows: git could not list the history" in shown.text
            assert "older=v1" in shown.text
            began.unlink()
            goes_on.unlink()
        goes_on.touch()
        assert "git" in served.api("GET", f"{ONE}/tea/versions")["problem"]


def test_what_links_to_a_memory_is_shown_once_and_not_without_end(served: Served) -> None:
    served.store("# Day\n\nSunny.", id="day")
    served.store("[[day]] " * 9_000, id="flood")
    page = served.get("/memory/here/memories/day").text
    assert page.count('href="/memory/here/memories/flood"') == 1
    assert len(page) < 50_000
    found = served.api("GET", f"{ONE}/day/links")
    assert [(one["source"], one["target"]) for one in found["edges"]] == [
        ("memories/flood", "memories/day")
    ]
    for number in range(250):
        file = served.bank / "memories" / f"n{number}.md"
        file.write_text(f"Of [[day]], {number}.", encoding="utf-8")
    page = served.get("/memory/here/memories/day").text
    assert page.count('class="to"') == 200
    assert "and 51 more" in page


def test_links_go_both_ways_with_their_context(served: Served) -> None:
    served.store("# Tea\n\nGoes with [[bread]] and [[cake]], see [[src/kettle.py]].", id="tea")
    served.store("# Bread\n\nWarm.", id="bread")
    found = served.api("GET", f"{ONE}/bread/links")
    ((edge),) = found["edges"]
    assert edge["source"] == "memories/tea"
    assert "Goes with" in edge["anchor_context"]
    kinds = {one["name"]: one["kind"] for one in served.api("GET", f"{ONE}/tea/links")["nodes"]}
    assert kinds == {
        "memories/tea": "memory",
        "memories/bread": "memory",
        "cake": "dangling",
        "ghost:src/kettle.py": "ghost",
    }


def test_a_preview_resolves_links_and_runs_nothing(served: Served) -> None:
    served.store("# Bread\n\nWarm.", id="bread")
    text = "# T\n\n[[bread]] [[cake]] <script>alert(1)</script> [x](javascript:alert(1))"
    html = served.api("POST", "/preview", {"text": text})["html"]
    assert '<a class="wiki" href="/memory/here/memories/bread">Bread</a>' in html
    assert 'class="ghost"' in html
    assert "<script" not in html
    assert 'href="javascript' not in html


def test_a_bare_link_on_a_page_leads_to_the_memory_beside_it(served: Served) -> None:
    for collection in ("one", "two"):
        served.store("# Tea", id="tea", collection=collection)
    served.store("Goes with [[tea]].", id="bread", collection="two")
    html = served.ask("GET", "/memory/here/two/bread").text
    assert '<a class="wiki" href="/memory/here/two/tea">' in html


def test_a_preview_lays_a_record_out_by_its_fields(served: Served) -> None:
    record = {
        "type": "runbook",
        "content": {
            "trigger": "It is <b>stuck</b>",
            "steps": ["Look", "Push"],
            "verification": "ok",
        },
    }
    text = f"---\n{json.dumps(record)}\n---\n"
    html = served.api("POST", "/preview", {"text": text, "suffix": ".md"})["html"]
    assert "<dt>Steps</dt>" in html
    assert html.count("<li>") == 2
    assert "<b>" not in html


def test_of_very_many_lines_that_differ_the_first_are_shown(served: Served) -> None:
    new = "\n".join(f"line {number}" for number in range(5_000))
    found = served.api("POST", "/compare", {"old": "", "new": new})
    assert found["added"] == 5_000
    assert found["html"].count('<tr class="added">') == 2_000
    assert "3000 more lines, too many to show" in found["html"]


def test_a_record_with_a_number_that_no_float_holds_is_shown_as_written(served: Served) -> None:
    served.store("# Tea", id="tea")
    file = served.bank / "memories" / "huge.json"
    file.write_text('{"id": "huge", "content": {"size": -1e999}}', encoding="utf-8")
    assert "-1e999" in served.api("GET", f"{ONE}/huge")["content"]
    assert served.get("/memory/here/memories/huge").status_code == 200


def test_a_flood_of_values_is_refused(served: Served) -> None:
    answer = served.post("/api/v1/memories/here", {"text": "x", "tags": [1] * 200_000})
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "limit"
    assert served.api("GET", "/memories")["total"] == 0


def test_two_texts_are_compared_word_by_word(served: Served) -> None:
    found = served.api(
        "POST", "/compare", {"old": "a hot <tea>\nsame", "new": "a cold <tea>\nsame"}
    )
    assert (found["removed"], found["added"]) == (1, 1)
    assert "<del>hot</del>" in found["html"]
    assert "<ins>cold</ins>" in found["html"]
    assert "<tea>" not in found["html"]


def test_reading_pages_changes_no_file(served: Served) -> None:
    served.store("# Tea\n\nGoes with [[bread]].", id="tea")
    served.api("PUT", f"{ONE}/tea", {"text": "# Tea\n\nCold, with [[bread]]."})

    def files() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes())
            for path in served.bank.rglob("*.md")
        }

    before = files()
    page = "/memory/here/memories/tea"
    for path in ("/", "/?q=tea", "/new", page, f"{page}/history", f"{page}/edit"):
        assert served.get(path).status_code == 200
    assert files() == before


@pytest.mark.parametrize("step, status", [("retire", 200), ("archive", 422)])
def test_an_undo_whose_answer_was_lost_blames_nobody_when_it_is_asked_for_again(
    served: Served, step: str, status: int
) -> None:
    served.store("# Twice\n\nUndone.", id=f"twice-{step}")
    done = served.api("POST", f"/memories/here/memories/twice-{step}/{step}", {"reason": "old"})
    (undo,) = done["undo"]
    first, again = (
        served.ask(undo["method"], f"/api/v1{undo['path']}", json=undo["body"]) for _ in range(2)
    )
    assert (first.status_code, again.status_code) == (200, status)
    assert "active" in again.text
    assert "was changed after" not in again.text
