"""Links: how linked files are now, who links to a document, the graph, and what is related."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import retain
from retain.app import App
from retain.errors import NotFound, UsageError
from retain.memory import Hit, Linked
from retain.search.related import Graph
from tests.bank.test_git import new_project, run_git

CODE = "".join(f"def function_{number}() -> None: ...\n" for number in range(30))


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """A git repository with code in it and a bank, searched by words alone."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    root = new_project(home / "work" / "project")
    for name in ("auth", "db", "old", "lost"):
        path = root / "src" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# {name}\n{CODE}", encoding="utf-8")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "code")
    monkeypatch.chdir(root)
    App().init()
    with retain.open(background=False) as memory:
        yield memory


def link(memory: App, query: str) -> Linked:
    (hit,) = memory.search(query).hits
    (found,) = hit.links
    return found


def edges(graph: Graph) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.edge, edge.target) for edge in graph.edges}


def kinds(graph: Graph) -> dict[str, str]:
    return {node.name: node.kind for node in graph.nodes}


# Freshness


def test_hits_say_how_the_files_they_link_to_are_now(project: App) -> None:
    states = {"auth": "fresh", "db": "changed", "old": "moved", "lost": "gone"}
    for name in states:
        project.put(f"About {name}: see [[src/{name}.py]].", id=name)
    assert {link(project, name).freshness for name in states} == {"fresh"}
    Path("src/db.py").write_text("# rewritten\n", encoding="utf-8")
    run_git(Path(), "mv", "src/old.py", "src/new.py")
    Path("src/lost.py").unlink()
    assert {name: link(project, name).freshness for name in states} == states
    assert link(project, "old").now_at == "src/new.py"
    project.update("db", "About db: see [[src/db.py]] as it is now.")
    assert link(project, "db").freshness == "fresh"


def test_file_that_is_still_to_be_made_is_planned_everywhere(project: App) -> None:
    project.put("We will write [[src/token.py]], a walrus.", id="note")
    (hit,) = project.search("walrus").hits
    assert [one.freshness for one in hit.links] == ["planned"]
    assert list(hit.cautions) == ["src/token.py is not there yet"]
    changed = hit.links[0]._replace(target="src/auth.py", freshness="changed")
    both = hit._replace(links=(*hit.links, changed))
    assert list(both.cautions) == ["src/auth.py has changed", "src/token.py is not there yet"]
    (found,) = project.linked("src/token.py").hits
    assert [one.freshness for one in found.links] == ["planned"]
    assert {node.freshness for node in project.graph().nodes if node.kind == "ghost"} == {"planned"}


def test_links_to_memories_are_no_files(project: App) -> None:
    project.put("The walrus. See [[other]], [[memories/other]] and [[nothing]].", id="note")
    project.put("Other.", id="other")
    (hit,) = project.search("walrus").hits
    assert hit.links == ()


# Who links to a document


def linked(memory: App, target: str, query: str = "", limit: int = 5) -> dict[str, Hit]:
    return {hit.ref: hit for hit in memory.linked(target, query, limit).hits}


def test_memories_that_link_to_a_document_as_in_document_003(project: App) -> None:
    text = "Plan to refactor [[src/auth.py]] to use JWT tokens.\n\n## Goals\n- Remove sessions"
    project.put(text, id="auth-refactor-plan", tags=["refactor", "auth"], type="plan")
    project.put("The kitchen is on fire. Mentioned in [[src/auth.py]].", id="kitchen")
    project.put("Nothing about that, see [[src/db.py]].", id="db")
    found = project.linked("src/auth.py", "refactor plans", 5).hits
    assert [hit.id for hit in found] == ["auth-refactor-plan", "kitchen"]
    first = found[0]
    assert first.text.startswith("Plan to refactor [[src/auth.py]] to use JWT")
    (anchor,) = first.links
    assert "refactor [[src/auth.py]] to use JWT tokens" in anchor.context
    assert (anchor.edge, anchor.freshness) == ("refactors", "fresh")
    assert first.path == os.path.abspath(".retain/memories/auth-refactor-plan.md")
    assert 0 <= found[1].score < first.score <= 1
    assert found[1].links[0].edge == "mentions"


def test_without_a_question_the_newest_come_first(project: App) -> None:
    for name, year in (("a", 2024), ("b", 2026), ("c", 2025)):
        fields = {"created_at": f"{year}-01-01T00:00:00Z"}
        project.put("See [[src/auth.py]].", id=name, metadata=fields)
    assert [hit.id for hit in project.linked("src/auth.py").hits] == ["b", "c", "a"]
    assert [hit.id for hit in project.linked("src/auth.py", limit=2).hits] == ["b", "c"]


def test_document_means_the_same_file_however_and_from_wherever_it_is_named(
    project: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.put("See [[./src/auth.py]].", id="note")
    project.put("See [[src/later.py]], not there yet.", id="plan")
    project.put("See [[auth.py]] beside the bank.", id="other")
    root = Path.cwd()
    (root.parent / "link").symlink_to(root)
    for target in (
        "./src/auth.py",
        "src//auth.py",
        "src/x/../auth.py",
        "ghost:src/auth.py",
        " src/auth.py ",
        str(root / "src" / "auth.py"),
        str(root.parent / "link" / "src" / "auth.py"),
    ):
        assert set(linked(project, target)) == {"memories/note"}, target
    monkeypatch.chdir("src")
    with retain.open(background=False) as below:
        for target in ("auth.py", "./auth.py", "../src/auth.py", "src/auth.py", "./src/auth.py"):
            assert set(linked(below, target)) == {"memories/note"}, target
        for target in ("later.py", "./later.py", "src/later.py"):
            assert set(linked(below, target)) == {"memories/plan"}, target
        assert set(linked(below, "../auth.py")) == {"memories/other"}


def test_document_outside_the_project_is_refused_in_words(project: App) -> None:
    project.put("See [[/etc/hosts]].", id="note")
    for target in ("/etc/passwd", "../secret.txt", "src/../../x.py"):
        with pytest.raises(UsageError, match="outside the project"):
            project.linked(target)
    with pytest.raises(UsageError, match="which document"):
        project.linked(" ")
    assert set(linked(project, "/etc/hosts")) == {"memories/note"}


def test_file_that_moved_is_found_under_its_new_name(project: App) -> None:
    project.put("See [[src/old.py]].", id="old")
    project.put("See [[src/new.py]], to be.", id="new")
    project.put("See [[src/lost.py]].", id="lost")
    run_git(Path(), "mv", "src/old.py", "src/new.py")
    Path("src/lost.py").unlink()
    run_git(Path(), "commit", "-q", "-a", "-m", "move")
    found = linked(project, "src/new.py")
    assert set(found) == {"memories/old", "memories/new"}
    assert [(one.freshness, one.now_at) for one in found["memories/old"].links] == [
        ("moved", "src/new.py")
    ]
    assert set(linked(project, "src/old.py")) == {"memories/old"}


def test_link_is_reason_enough_to_be_listed_unless_the_memory_is_retired(project: App) -> None:
    project.put("See [[src/auth.py]].", id="note")
    project.put("See [[src/auth.py]].", id="old", metadata={"status": "retired"})
    assert set(linked(project, "src/auth.py", "penguins in Antarctica")) == {"memories/note"}
    assert linked(project, "src/other.py", "auth") == {}


def test_memory_is_a_document_too(project: App) -> None:
    project.put("The plan.", id="Plan")
    project.put("This extends [[plan]].", id="more")
    project.put("See [[memories/plan]].", id="full")
    project.put("Related.", id="meta", metadata={"related_to": ["Plan"]})
    project.put("See [[plan.md]].", id="file")
    project.put("Related.", id="meta-file", metadata={"related_to": "plan.md"})
    names = {f"memories/{name}" for name in ("more", "full", "meta", "file", "meta-file")}
    for target in ("plan", "Plan", "memories/plan", "memory:plan"):
        assert set(linked(project, target)) == names


# The graph


@pytest.fixture
def web(project: App) -> App:
    """a links to b, b to c, c to d; files, a name that nothing has, and a loner."""
    project.put("This extends [[b]]. Will change [[src/auth.py]]. See [[nowhere]].", id="a")
    project.put("This depends on [[c]].", id="b", collection="other")
    project.put("See [[memories/d]].", id="c")
    project.put("The end. It contradicts [[d]].", id="d")
    project.put("Alone.", id="alone")
    return project


def test_a_bare_name_means_the_memory_beside_it_in_every_answer(project: App) -> None:
    for collection in ("one", "two"):
        project.put(f"Note of {collection}.", id="note", collection=collection)
    project.put("This replaces [[note]].", id="newer", collection="two")
    assert ("two/newer", "supersedes", "two/note") in edges(project.graph())
    assert [one.id for one in project.related("one/note") if "linked" in one.reasons] == []
    with contextlib.closing(App()) as app:
        memories = [app.get("one/note"), app.get("two/note")]
        assert [*app.successors(memories).values()] == ["two/newer"]
        assert app.resolve_links(["note"], "two")["note"][1:3] == ("two", "note")


def test_whole_graph_holds_every_memory_and_link(web: App) -> None:
    graph = web.graph()
    assert edges(graph) >= {
        ("memories/a", "extends", "other/b"),
        ("other/b", "depends_on", "memories/c"),
        ("memories/c", "related_to", "memories/d"),
        ("memories/d", "contradicts", "memories/d"),
        ("memories/a", "plans", "ghost:src/auth.py"),
    }
    found = kinds(graph)
    assert found["ghost:src/auth.py"] == "ghost"
    assert found["nowhere"] == "dangling"
    assert found["memories/alone"] == "memory"
    (ghost,) = (node for node in graph.nodes if node.kind == "ghost")
    assert ghost.freshness == "fresh"


@pytest.mark.parametrize(
    "depth, names",
    [(0, "c"), (1, "bcd"), (2, "abcd"), (9, "abcd")],
)
def test_graph_around_a_memory_reaches_as_far_as_asked(depth: int, names: str, web: App) -> None:
    graph = web.graph("c", depth)
    memories = {node.name.split("/")[1] for node in graph.nodes if node.kind == "memory"}
    assert memories == set(names)
    assert ("memories/alone" in kinds(graph)) is False


def test_graph_starts_at_a_file_as_well(web: App) -> None:
    for ref in ("src/auth.py", "./src/auth.py", "ghost:src/auth.py"):
        assert kinds(web.graph(ref, 1)) == {"ghost:src/auth.py": "ghost", "memories/a": "memory"}
    assert "other/b" in kinds(web.graph(os.path.abspath("src/auth.py"), 2))


def test_graph_of_an_unknown_memory_is_an_error(web: App) -> None:
    for ask in (web.graph, web.related):
        for name in ("nothing", "src/db.py"):
            with pytest.raises(NotFound):
                ask(name)


def test_deleted_memory_leaves_a_dangling_link(web: App) -> None:
    web.delete("c")
    graph = web.graph("other/b", 1)
    assert kinds(graph) == {"memories/a": "memory", "other/b": "memory", "c": "dangling"}


def test_names_of_merged_memories_lead_to_the_new_one(web: App) -> None:
    web.put("See [[c]], [[memories/D]] and [[other/b]].", id="reader")
    web.merge(["memories/c", "d"], "cd", "Both, in one.")
    graph = web.graph("reader", 1)
    assert edges(graph) >= {
        ("memories/reader", "related_to", "memories/cd"),
        ("memories/reader", "related_to", "other/b"),
    }
    assert "dangling" not in {kind for name, kind in kinds(graph).items() if name in ("c", "d")}
    assert set(linked(web, "cd")) == {"memories/reader", "other/b"}
    assert set(linked(web, "memories/c")) == {"memories/reader", "other/b"}


# What took a memory's place


def superseded_by(memory: App, query: str) -> dict[str, str]:
    return {hit.ref: hit.superseded_by for hit in memory.search(query).hits}


def test_hits_name_what_supersedes_them(project: App) -> None:
    project.put("A walrus, first.", id="one", metadata={"superseded_by": "memories/Two"})
    project.put("A walrus, second.", id="Two")
    project.put("A walrus, third.", id="three", collection="notes")
    project.put("A walrus, fourth. It supersedes [[three]].", id="four")
    project.put("A walrus, fifth. It was superseded by [[nobody]].", id="five")
    found = superseded_by(project, "walrus")
    assert found == {
        "memories/one": "memories/Two",
        "memories/Two": "",
        "notes/three": "memories/four",
        "memories/four": "",
        "memories/five": "nobody",
    }
    (old,) = (hit for hit in project.search("walrus").hits if hit.id == "one")
    assert list(old.cautions) == ["superseded by memories/Two"]


def test_what_is_merged_is_the_successor_that_was_named(project: App) -> None:
    project.put("A walrus.", id="old", metadata={"superseded_by": "a"})
    project.put("A tusk.", id="a")
    project.put("A fin.", id="b")
    project.merge(["a", "b"], "both", "Tusk and fin.")
    assert superseded_by(project, "walrus") == {"memories/old": "memories/both"}


# What is related


def test_related_by_links_files_and_tags(project: App) -> None:
    project.put("About [[src/auth.py]]. See [[b]].", id="a", tags=["x", "y"])
    project.put("Second.", id="b")
    project.put("Third, about [[src/auth.py]].", id="c", tags=["x"])
    project.put("Fourth.", id="d", tags=["x", "y"])
    project.put("Fifth.", id="e")
    project.put("Sixth.", id="f", tags=["x", "y"], metadata={"status": "retired"})
    found = {one.id: one.reasons for one in project.related("a")}
    assert {name: set(why) for name, why in found.items()} == {
        "b": {"linked"},
        "c": {"shared files", "shared tags"},
        "d": {"shared tags"},
    }
    scores = [one.score for one in project.related("a")]
    assert scores == sorted(scores, reverse=True)
    assert [one.id for one in project.related("a", limit=1)] == [project.related("a")[0].id]
    assert {one.id for one in project.related("b")} == {"a"}


def test_related_by_meaning(notes: App) -> None:
    first = notes.related("knowledge/rollback")[0]
    assert (first.id, set(first.reasons)) == ("deploy", {"similar", "shared tags"})
    assert 0 < first.score <= 1
    assert "rollback" not in {one.id for one in notes.related("knowledge/rollback")}


def test_a_link_that_is_repeated_is_one_edge(project: App) -> None:
    project.put("Plain.", id="target")
    project.put("[[target]] and [[src/auth.py]]\n\n" * 300, id="many")
    project.put("It supersedes [[target]]. See [[src/auth.py]].", id="one")
    expected = {
        ("memories/many", "related_to", "memories/target"),
        ("memories/one", "supersedes", "memories/target"),
    }
    app = App()
    around = app.connections("memories/target")
    assert len(around.edges) == 2
    assert edges(around) == expected
    whole = app.graph()
    assert len(whole.edges) == 4
    assert edges(whole) >= expected
    assert app.connections("memories/many").edges[0].line < 10  # the first of them
    (shared,) = [one for one in app.related("many") if one.id == "one"]
    assert shared.reasons["shared files"] == 0.15


def test_a_memory_that_another_one_replaces_says_so_when_read_and_listed(project: App) -> None:
    project.put("Parcels go by DHL.", id="use-dhl")
    project.put("We met. The new contract [[use-dpd]] replaces DHL.", id="meeting")
    project.put("Parcels go by DPD. This replaces [[use-dhl]].", id="use-dpd")
    found = superseded_by(project, "parcels DHL contract met")
    assert (found["memories/use-dhl"], found["memories/meeting"]) == ("memories/use-dpd", "")
    app = App()
    memories = app.list()
    successors = app.successors(memories)
    assert {one.id: successors.get(one.path) for one in memories} == {
        "use-dhl": "memories/use-dpd",
        "meeting": None,
        "use-dpd": None,
    }
