"""search, brief, linked, related and graph, as people and programs call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from retain.cli.search import render_dot, render_tree
from retain.search.related import Graph, Node, Relation
from tests.cli.door import call, done

PLAN = """\
# Auth plan

Plan to refactor [[src/auth.py]] to use JWT tokens.

## Later

See [[session-notes]] and [[missing-note]].
"""
NOTES = """\
# Session notes

Debugging [[src/auth.py]]: the token expired. It depends on [[auth-plan]].

Fixed in [[src/auth.py]] and [[src/lost.py]].
"""


@pytest.fixture(autouse=True)
def bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file, two memories that link to it, and one about something else."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    done("init")
    Path("src").mkdir()
    Path("src/auth.py").write_text("token = 1\n", encoding="utf-8")
    put("auth-plan", PLAN, "--type", "plan", "--tags", "auth,security")
    put("session-notes", NOTES, "--tags", "auth", "--collection", "journal")
    put("cooking", "# Cooking\n\nSalt the water before the pasta.\n", "--metadata", '{"n": 3}')
    return home / "work" / ".retain"


def put(name: str, text: str, *words: str) -> None:
    done("put", "-", "--id", name, "--quiet", *words, input=text)


def found(*words: str) -> list[str]:
    return done("search", *words, "--quiet").split()


def answer(*words: str) -> dict:
    return json.loads(done("search", *words, "--json"))


# search


@pytest.mark.parametrize(
    "words, note",
    [
        (
            ("--collection", "diary"),
            "there is no collection 'diary'; there are: journal, memories",
        ),
        (("--type", "fakt"), "there is no memory of the type 'fakt'; there are: journal, plan"),
    ],
    ids=str,
)
def test_search_for_what_is_not_there_at_all_says_so(words: tuple[str, ...], note: str) -> None:
    ran = call("search", "token", *words)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"Nothing found.\n{note}\n"
    assert answer("token", *words)["notes"] == [note]
    assert answer("token")["notes"] == []
    Path("queries.txt").write_text("token\n", encoding="utf-8")
    (line,) = done("search", "--batch", "queries.txt", *words).splitlines()
    assert json.loads(line)["notes"] == [note]


def test_json_carries_what_a_program_needs() -> None:
    told = answer("JWT tokens", "--limit", "1")
    assert told["query"] == "JWT tokens"
    assert told["mode"] == "hybrid"
    assert told["confident"] is True
    assert told["degraded"] is None
    (hit,) = told["hits"]
    assert (hit["id"], hit["collection"], hit["type"]) == ("auth-plan", "memories", "plan")
    assert hit["tags"] == ["auth", "security"]
    assert hit["header_path"] == "Auth plan"
    assert hit["superseded"] is False
    assert "content" not in hit
    assert "explanation" not in hit
    (link,) = hit["links"]
    assert (link["target"], link["freshness"], link["now_at"]) == ("src/auth.py", "fresh", None)
    lines = Path(hit["file_path"]).read_text(encoding="utf-8").split("\n")
    assert lines[hit["line"] - 1] == "# Auth plan"
    assert lines[link["line"] - 1].startswith("Plan to refactor [[src/auth.py]]")


def test_whole_memories_and_single_parts_can_be_asked_for() -> None:
    assert answer("JWT", "--full")["hits"][0]["content"] == PLAN
    assert "      See [[session-notes]] and [[missing-note]].\n" in done("search JWT --full")
    long = "# Long\n\n" + "\n\n".join(f"## Part {n}\n\n" + "zebra word " * 60 for n in range(5))
    put("long", long)
    assert found("zebra") == ["memories/long"]
    assert found("zebra", "--per", "chunk", "--limit", "3") == ["memories/long"] * 3


def test_semantic_search_without_a_model_says_why_it_finds_nothing() -> None:
    ran = call("search JWT --semantic")
    assert ran.code == 0
    assert "warning: " in ran.err
    assert "recall.embedder" in ran.err
    assert answer("JWT", "--semantic")["degraded"]["reasons"]


def test_each_line_of_a_batch_answers_the_query_on_that_line() -> None:
    Path("queries").write_text("JWT\n\nsalt water\r\nxylophone", encoding="utf-8")
    out = done("search --batch queries --limit 1")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["query"] for one in told] == ["JWT", "", "salt water", "xylophone"]
    assert [[hit["id"] for hit in one["hits"]] for one in told] == [
        ["auth-plan"],
        [],
        ["cooking"],
        [],
    ]
    assert told[0] == answer("JWT", "--limit", "1")
    assert done("search --batch - --limit 1", input="JWT\n") == out.splitlines()[0] + "\n"
    assert done("search --batch -") == ""


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("JWT", "--batch", "-"),
        ("JWT", "--text", "--semantic"),
        ("JWT", "--limit", "0"),
        ("JWT", "--min-score", "2"),
        ("JWT", "--since", "whenever"),
        ("JWT", "--filter", "n"),
        ("JWT", "--collection", "../x"),
        ("--batch", "nothing.txt"),
        ("--batch", "src"),
    ],
    ids=str,
)
def test_search_that_makes_no_sense_is_refused(words: tuple[str, ...]) -> None:
    ran = call("search", *words)
    assert ran.code in (2, 3)
    assert ran.out == ""
    assert ("--batch" not in words) or "Nothing was searched." in ran.err


def test_hit_from_the_global_bank_says_so() -> None:
    put("mine", "The walrus is mine.", "--global")
    assert " · global" in done("search walrus")
    assert "global" not in done("search JWT")
    assert found("walrus", "--local") == []


# linked


def test_links_show_the_place_in_the_file_that_they_name() -> None:
    put("anchored", "See [[src/auth.py#login|the login]].")
    assert "at #login, fresh: See [[src/auth.py#login|the login]]." in done("linked src/auth.py")
    rows = json.loads(done("linked src/auth.py --json"))
    (row,) = (one for one in rows if one["id"] == "anchored")
    assert [(one["anchor"], one["label"]) for one in row["links"]] == [("login", "the login")]


def test_answers_about_links_say_what_they_had_to_do_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = (("related", "auth-plan"), ("linked", "src/auth.py", "tokens"))
    for words in calls:
        assert {row["degraded"] for row in json.loads(done(*words, "--json"))} == {None}
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "./no-such-model")
    for words in calls:
        ran = call(*words, "--json")
        rows = json.loads(ran.out)
        assert rows
        for row in rows:
            assert "no-such-model" in row["degraded"]["reasons"][0]
        assert "warning: " in ran.err


# graph


def test_dot_takes_every_name_for_a_name() -> None:
    graph = Graph(
        (Node('a"b\\', "memory", "x\n}"), Node("ghost:c", "ghost", "", "moved", "d")),
        (Relation('a"b\\', "ghost:c", "plans", "", 1),),
    )
    assert render_dot(graph) == (
        "digraph retain {\n"
        "  rankdir=LR;\n"
        '  "a\\"b\\\\" [label="a\\"b\\\\  x }", shape=box, style=solid];\n'
        '  "ghost:c" [label="c (file, moved to d)", shape=note, style=dashed];\n'
        '  "a\\"b\\\\" -> "ghost:c" [label="plans"];\n'
        "}\n"
    )


def test_circle_is_drawn_once() -> None:
    nodes = tuple(Node(name, "memory") for name in "abc")
    edges = tuple(Relation(x, y, "mentions", "", 1) for x, y in ("ab", "bc", "ca", "ab"))
    assert render_tree(Graph(nodes, edges)) == (
        "a\n└── mentions x2 → b\n    └── mentions → c\n        └── mentions → a ↑\n"
    )
    assert render_tree(Graph(nodes, edges), "b") == (
        "b\n├── mentions x2 ← a\n│   └── mentions ← c ↑\n└── mentions → c\n"
    )


@pytest.mark.slow
def test_long_chain_can_be_drawn() -> None:
    nodes = tuple(Node(str(n), "memory") for n in range(3_000))
    edges = tuple(Relation(str(n), str(n + 1), "mentions", "", 1) for n in range(2_999))
    assert render_tree(Graph(nodes, edges)).count("\n") == 3_000
    assert render_tree(Graph(nodes, edges), "0").count("\n") == 3_000


def test_two_banks_name_each_collection_once_and_say_whose_a_memory_is() -> None:
    done("put - --id mine --global", input="Debug [[src/auth.py]].")
    for words in ("list", "search token"):
        ran = call(f"{words} --collection diary")
        assert "there is no collection 'diary'; there are: journal, memories" in ran.err
    lines = done("linked src/auth.py").splitlines()
    scopes = {line.rpartition(" · ")[2] for line in lines if not line.startswith(" ")}
    assert scopes == {"", "global", "project"}
