"""Links are found where a reader sees them, and each is judged by its own words alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.text.links import Link, classify_target, find_links, normalize_target
from tests.text.test_frontmatter import times

PIECES = [
    *["[[a]]", "[[b|B]]", "[[src/auth.py]]", "[[memory:m]]", "[[ghost:g]]", "[[", "]]", "[", "]"],
    *[
        "`", "``", "```", "~~~", "\n", "\n\n", "\r\n", " ", "fix ", "plan ", "supersedes ", ". ",
        ", ",
    ],
    *["|", "#", "\\", "x", "字", "- ", "> ", "word " * 30, "\x0c", "\u2028", "y" * 120],
]  # fmt: skip
BODIES = st.one_of(
    st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
)


def only(body: str) -> Link:
    (link,) = find_links(body)
    return link


def targets(body: str) -> list[str]:
    return [link.target for link in find_links(body)]


# Finding


def test_a_link_tells_all_there_is_to_know() -> None:
    body = "Intro.\n\nPlan to refactor [[./src/auth.py#Login|the login]] soon."
    assert find_links(body) == [
        Link(
            target="src/auth.py",
            kind="ghost",
            label="the login",
            anchor="Login",
            edge="refactors",
            memory_edge="related_to",
            context="Intro. Plan to refactor [[./src/auth.py#Login|the login]] soon.",
            line=3,
        )
    ]


@times(5)
@given(BODIES)
@example("[[a]]" * 3)
@example("`[[a]]``[[b]]`")
def test_a_link_is_on_its_line_and_its_context_is_its_own(body: str) -> None:
    for link in find_links(body):
        assert "[[" in body.split("\n")[link.line - 1]
        assert link.target
        assert link.target == normalize_target(link.target)
        assert link.context == " ".join(link.context.split())
        assert len(link.context) <= 200 + 1000
        assert link.kind in ("memory", "ghost", "")
        assert link.kind != "memory" or link.edge == link.memory_edge
    lines = [link.line for link in find_links(body)]
    assert lines == sorted(lines)


def test_several_links_to_one_target_are_all_kept() -> None:
    found = find_links("Plan [[x]].\nFix [[x]].\n\n[[x]]")
    edges = [(link.target, link.edge, link.line) for link in found]
    assert edges == [("x", "plans", 1), ("x", "debugs", 2), ("x", "related_to", 4)]


@pytest.mark.parametrize(
    "body",
    [
        *["[[]]", "[[ ]]", "[[|x]]", "[[#x]]", "[[a\nb]]", "[[a", "a]]", "[a]", "[[memory:]]"],
        *["[[" + "x" * 501 + "]]", "[[x|" + "y" * 1000 + "]]", "] ]", ""],
    ],
)
def test_brackets_without_a_target_on_one_line_are_no_link(body: str) -> None:
    assert find_links(body) == []


@pytest.mark.parametrize(
    "body,target",
    [
        ("[[a [[b]]", "b"), ("[[[b]]]", "b"), ("x]] [[b]]", "b"), ("![[b]]", "b"), ("[[b]]]]", "b"),
        ("[[app/[id]]]", "app/[id]"), ("[[app/[id]/p.ts]]", "app/[id]/p.ts"), ("[[a]b]]", "a]b"),
        ("[[ a b ]]", "a b"), ("[[字]]", "字"), ("| [[b\\|c]] |", "b"),
    ],
)  # fmt: skip
def test_the_innermost_brackets_hold_the_target(body: str, target: str) -> None:
    assert targets(body) == [target]


@pytest.mark.parametrize(
    "body",
    [
        "```\n[[no]]\n```\n[[yes]]", "~~~sh\n[[no]]\n```\n[[no]]\n~~~\n[[yes]]",
        "- ```\n  [[no]]\n  ```\n- [[yes]]", "`[[no]]` [[yes]]", "``a ` [[no]]`` [[yes]]",
        "`wrapped\n[[no]]` [[yes]]", "`wrapped\ncode` and [[yes]] and `more`", "it`s [[yes]]",
        "- it`s\n- [[yes]]\n- it`s", "it`s\n\n[[yes]]\n\nit`s", "\\`[[yes]]\\`",
        "[[yes]] `[[` and `]]`", "```in a line``` [[yes]]", "[[yes]]\r\n```\r\n[[no]]\r\n```\r\n",
        "[[yes]]\n```\n[[no]]",
    ],
)  # fmt: skip
def test_a_link_in_code_is_none(body: str) -> None:
    assert targets(body) == ["yes"]


# Targets


@pytest.mark.parametrize(
    "text,target,kind",
    [
        *[("memory:use-sql", "use-sql", "memory"), ("Memory: use-sql.md", "use-sql", "memory")],
        *[("memory:team/use-sql", "team/use-sql", "memory"), ("ghost:idea", "idea", "ghost")],
        *[("ghost:./src//a.py", "src/a.py", "ghost"), ("src/auth", "src/auth", "ghost")],
        *[("auth.py", "auth.py", "ghost"), (".env", ".env", "ghost"), ("A.TSX", "A.TSX", "ghost")],
        *[("https://a.test//x", "https://a.test//x", "ghost"), ("src\\auth", "src\\auth", "ghost")],
        *[("use-sql", "use-sql", ""), ("v1.2", "v1.2", ""), ("Dr. Who", "Dr. Who", "")],
        *[
            ("use-sql.md", "use-sql", ""),
            ("docs/a.md", "docs/a.md", "ghost"),
            ("note: x", "note: x", ""),
        ],
    ],
)
def test_a_target_says_what_it_is(text: str, target: str, kind: str) -> None:
    link = only(f"[[{text}]]")
    assert (link.target, link.kind) == (target, kind)


@pytest.mark.parametrize(
    "text,target,kind",
    [
        ("team/use-sql", "team/use-sql", ""), ("use-sql.md", "use-sql", ""),
        ("v1.beta", "v1.beta", ""), ("docs/a.md", "docs/a.md", "ghost"),
        ("src/a.py", "src/a.py", "ghost"), ("memory:a.py", "a.py", "memory"),
    ],
)  # fmt: skip
def test_frontmatter_names_a_memory_by_its_collection(text: str, target: str, kind: str) -> None:
    assert classify_target(text, in_frontmatter=True) == (target, kind)


@pytest.mark.parametrize(
    "target,expected",
    [
        ("./src/a.py", "src/a.py"), (" a ", "a"), ("a//b", "a/b"), ("a/b/../../c", "c"),
        ("/etc//x", "/etc/x"), ("../a", "../a"), ("a/../../b", "a/../../b"), ("a/..", "."),
        ("a\\..\\b", "a\\..\\b"), ("https://a.test//b/../c", "https://a.test//b/../c"),
    ],
)  # fmt: skip
def test_a_path_has_one_normal_form(target: str, expected: str) -> None:
    assert normalize_target(target) == expected


@given(st.lists(st.sampled_from([".", "..", "a", "b", "", " ", "..."]), max_size=8).map("/".join))
def test_a_normal_path_is_its_own_normal_form(path: str) -> None:
    assert normalize_target(normalize_target(path)) == normalize_target(path)


# Context


def test_a_context_holds_whole_words_of_a_hundred_characters_on_each_side() -> None:
    link = only("word " * 50 + "[[x]]" + " word" * 50)
    assert link.context == "word " * 20 + "[[x]]" + " word" * 20
    assert only("prefix " + "a" * 96 + " [[x]]").edge == "related_to"
    assert only("[[x]] " + "a" * 94 + " fixture").edge == "related_to"
    assert len(only("字" * 300 + "[[x]]" + "字" * 300).context) == 205


@pytest.mark.parametrize(
    "body,first,second",
    [
        ("Fix [[a]] one. Plan two [[b]].", "Fix [[a]] one.", "Plan two [[b]]."),
        ("Fix [[a]], plan [[b]]", "Fix [[a]],", "plan [[b]]"),
        ("- fix [[a]]\n- plan [[b]]", "- fix [[a]]", "- plan [[b]]"),
        ("fix [[a]] and plan the [[b]]", "fix [[a]]", "and plan the [[b]]"),
        ("[[a]] refactors [[b]]", "[[a]]", "refactors [[b]]"),
        ("[[a]] one two six ten [[b]]", "[[a]] one two", "six ten [[b]]"),
        ("[[a]]一二三四[[b]]", "[[a]]一二", "三四[[b]]"),
        ("[[a]][[b]]", "[[a]]", "[[b]]"),
        ("修[[a]]。计[[b]]", "修[[a]]。", "计[[b]]"),
    ],
)
def test_text_between_two_links_is_divided(body: str, first: str, second: str) -> None:
    assert [link.context for link in find_links(body)] == [first, second]


# Edges

GHOST_EDGES = {
    "refactors": "Plan to refactor|Rewrote|Cleaned up|a clean-up of|Restructuring|cleanup",
    "plans": "We plan|TODO:|We'll fix|Needs to use|planning|Going\nto see|A note: should",
    "debugs": "Bugs in|Fixed|error, see also|debug",
    "mentions": "Noted in|see also|refers to",
    "related_to": "goodwill of|planet|prefix|issuer|planetary fixture notebook|bug_fix|"
    "see docs/plan.md and",
}
MEMORY_EDGES = {
    "supersedes": "Supersedes|This replaced|deprecating|Slow. This decision supersedes the earlier"
    "|## Supersedes\n\n-",
    "superseded_by": "Superseded by|is replaced by|Status: superseded by",
    "contradicts": "contradicts|in conflict, conflicts with",
    "extends": "Builds on|expanded on|elaborates|extends and needs",
    "depends_on": "needs|requires|depending on",
    "related_to": "We need to see|Fix|conflict|irreplaceable|extension|DHL was replaced by"
    "|The old API is superseded by|We plan what replaces|It was replaced. See",
}
EDGES = {
    "[[memory:x]] supersedes this.": "superseded_by",
    "[[memory:x]] now replaces this note": "superseded_by",
    "[[memory:x]], which has been replaced by this": "supersedes",
    "**Superseded by [[memory:x]]**, see there for DHL.": "superseded_by",
    "The new contract [[memory:x]] replaces DHL.": "related_to",
    "[[memory:x]] replaces DHL, not this.": "related_to",
    "This replaces DHL by what [[memory:x]] says": "related_to",
    "[[a]] is superseded by [[memory:x]].": "related_to related_to",
    "This week [[a]] replaces [[memory:x]].": "related_to related_to",
    "> This replaces [[memory:x]].": "related_to",
    "See [[a]]. This replaces [[memory:x]].": "related_to supersedes",
    # The own sentence comes before the rest of the context.
    "We will refactor it. A bug is in [[x]]. Plan it.": "debugs",
    "Refactor:\n- fix [[x]]\n- plan": "debugs",
    "## TODO\n\n- [[x]]": "plans",
    # Neighbours do not lend their words, and no target or label is a word about itself.
    "Refactor [[a]] soon, fix [[b]]. See [[c]]": "refactors debugs related_to",
    "[[docs/plan.md]] and\n[[fix-it|the bug]]": "related_to related_to",
}


@pytest.mark.parametrize("edge", GHOST_EDGES)
def test_a_ghost_is_related_by_whole_words(edge: str) -> None:
    for text in GHOST_EDGES[edge].split("|"):
        assert only(f"{text} [[src/x.py]]").edge == edge
        assert only(f"[[src/x.py]] {text}").edge == edge


@pytest.mark.parametrize("edge", MEMORY_EDGES)
def test_a_memory_is_related_by_words_of_its_own(edge: str) -> None:
    for text in MEMORY_EDGES[edge].split("|"):
        link = only(f"{text} [[memory:x]]")
        assert (link.edge, link.memory_edge) == (edge, edge), text


@pytest.mark.parametrize("body", EDGES)
def test_each_link_is_judged_by_what_is_said_of_it(body: str) -> None:
    assert [link.edge for link in find_links(body)] == EDGES[body].split()


def test_an_undecided_link_has_both_readings() -> None:
    link = only("This plan replaces [[x]]")
    assert (link.kind, link.edge, link.memory_edge) == ("", "plans", "supersedes")


def test_a_text_without_end_has_so_many_links() -> None:
    found = find_links("".join(f"[[m{number}]] " for number in range(10_100)))
    assert (len(found), found[-1].target) == (10_000, "m9999")
