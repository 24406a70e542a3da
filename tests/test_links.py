"""Links are found where a reader sees them, and each is judged by its own words alone."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.links import Link, links, normal
from tests.growth import grows_linearly
from tests.test_frontmatter import times

PIECES = [
    *["[[a]]", "[[b|B]]", "[[src/auth.py]]", "[[memory:m]]", "[[ghost:g]]", "[[", "]]", "[", "]"],
    *[
        "`",
        "``",
        "```",
        "~~~",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "fix ",
        "plan ",
        "supersedes ",
        ". ",
        ", ",
    ],
    *["|", "#", "\\", "x", "字", "- ", "> ", "word " * 30, "\x0c", "\u2028", "y" * 120],
]
BODIES = st.one_of(
    st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
)


def only(body: str) -> Link:
    (link,) = links(body)
    return link


def targets(body: str) -> list[str]:
    return [link.target for link in links(body)]


def edges(body: str) -> list[str]:
    return [link.edge for link in links(body)]


# Finding


def test_a_link_tells_all_there_is_to_know() -> None:
    body = "Intro.\n\nPlan to refactor [[./src/auth.py#Login|the login]] soon."
    assert links(body) == [
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
    for link in links(body):
        assert "[[" in body.split("\n")[link.line - 1]
        assert link.target
        assert link.target == normal(link.target)
        assert link.context == " ".join(link.context.split())
        assert len(link.context) <= 200 + 1000
        assert link.kind in ("memory", "ghost", "")
        assert link.kind != "memory" or link.edge == link.memory_edge
    assert [link.line for link in links(body)] == sorted(link.line for link in links(body))


@times(2)
@given(BODIES)
def test_contexts_of_neighbours_do_not_overlap(body: str) -> None:
    shared = "".join("".join(link.context.split()) for link in links(body))
    assert len(shared) <= len("".join(body.split()))


def test_several_links_to_one_target_are_all_kept() -> None:
    found = links("Plan [[x]].\nFix [[x]].\n\n[[x]]")
    assert [(link.target, link.edge, link.line) for link in found] == [
        ("x", "plans", 1),
        ("x", "debugs", 2),
        ("x", "related_to", 4),
    ]


@pytest.mark.parametrize(
    "body",
    [
        *["[[]]", "[[ ]]", "[[|x]]", "[[#x]]", "[[a\nb]]", "[[a", "a]]", "[a]", "[[memory:]]"],
        *["[[" + "x" * 501 + "]]", "[[x|" + "y" * 1000 + "]]", "] ]", ""],
    ],
)
def test_brackets_without_a_target_on_one_line_are_no_link(body: str) -> None:
    assert links(body) == []


@pytest.mark.parametrize(
    "body,target",
    [
        *[
            ("[[a [[b]]", "b"),
            ("[[[b]]]", "b"),
            ("x]] [[b]]", "b"),
            ("![[b]]", "b"),
            ("[[b]]]]", "b"),
        ],
        *[("[[app/[id]]]", "app/[id]"), ("[[app/[id]/p.ts]]", "app/[id]/p.ts")],
        *[("[[a]b]]", "a]b"), ("[[ a b ]]", "a b"), ("[[a\x0cb]]", "a\x0cb"), ("[[字]]", "字")],
        *[
            ("[[src\\auth.py]]", "src\\auth.py"),
            ("| [[b\\|c]] |", "b"),
            ("[[" + "x" * 500 + "]]", "x" * 500),
        ],
    ],
)
def test_the_innermost_brackets_hold_the_target(body: str, target: str) -> None:
    assert targets(body) == [target]


@pytest.mark.parametrize(
    "body",
    [
        "```\n[[no]]\n```\n[[yes]]",
        "~~~sh\n[[no]]\n```\n[[no]]\n~~~\n[[yes]]",
        "- ```\n  [[no]]\n  ```\n- [[yes]]",
        "`[[no]]` [[yes]]",
        "``a ` [[no]]`` [[yes]]",
        "`wrapped\n[[no]]` [[yes]]",
        "`wrapped\ncode` and [[yes]] and `more`",
        "it`s [[yes]]",
        "- it`s\n- [[yes]]\n- it`s",
        "it`s\n\n[[yes]]\n\nit`s",
        "\\`[[yes]]\\`",
        "[[yes]] `[[` and `]]`",
        "```in a line``` [[yes]]",
        "[[yes]]\r\n```\r\n[[no]]\r\n```\r\n",
        "[[yes]]\n```\n[[no]]",
    ],
)
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
        *[("use-sql.md", "use-sql.md", ""), ("note: x", "note: x", "")],
    ],
)
def test_a_target_says_what_it_is(text: str, target: str, kind: str) -> None:
    link = only(f"[[{text}]]")
    assert (link.target, link.kind) == (target, kind)


@pytest.mark.parametrize(
    "target,expected",
    [
        *[
            ("./src/a.py", "src/a.py"),
            (" a ", "a"),
            ("a//b", "a/b"),
            ("a/./b", "a/b"),
            ("././a", "a"),
        ],
        *[
            ("a/../b", "b"),
            ("a/b/../../c", "c"),
            ("a/b/", "a/b"),
            ("/etc//x", "/etc/x"),
            ("/", "/"),
        ],
        *[("../a", "../a"), ("a/../../b", "a/../../b"), ("/../a", "/../a"), ("./../a", "./../a")],
        *[
            ("a/..", "."),
            ("./", "."),
            (".", "."),
            ("", ""),
            ("a\\..\\b", "a\\..\\b"),
            ("~/a", "~/a"),
        ],
        *[("https://a.test//b/../c", "https://a.test//b/../c"), ("...", "..."), ("a/...", "a/...")],
    ],
)
def test_a_path_has_one_normal_form(target: str, expected: str) -> None:
    assert normal(target) == expected


@given(st.lists(st.sampled_from([".", "..", "a", "b", "", " ", "..."]), max_size=8).map("/".join))
def test_a_normal_path_is_its_own_normal_form(path: str) -> None:
    assert normal(normal(path)) == normal(path)


# Context


def test_a_context_holds_whole_words_of_a_hundred_characters_on_each_side() -> None:
    link = only("word " * 50 + "[[x]]" + " word" * 50)
    assert link.context == "word " * 20 + "[[x]]" + " word" * 20
    assert only("prefix " + "a" * 96 + " [[x]]").edge == "related_to"
    assert only("[[x]] " + "a" * 94 + " fixture").edge == "related_to"
    assert len(only("字" * 300 + "[[x]]" + "字" * 300).context) == 205


def test_white_space_in_a_context_is_collapsed() -> None:
    assert only("a\r\n\tb  [[x]]\n\n\x0cc").context == "a b [[x]] c"


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
    assert [link.context for link in links(body)] == [first, second]


# Edges


@pytest.mark.parametrize(
    "text,edge",
    [
        *[("Plan to refactor", "refactors"), ("Rewrote", "refactors"), ("Cleaned up", "refactors")],
        *[("a clean-up of", "refactors"), ("Restructuring", "refactors"), ("cleanup", "refactors")],
        *[
            ("We plan", "plans"),
            ("TODO:", "plans"),
            ("We'll fix", "plans"),
            ("Needs to use", "plans"),
        ],
        *[("planning", "plans"), ("Going\nto see", "plans"), ("A note: should", "plans")],
        *[
            ("Bugs in", "debugs"),
            ("Fixed", "debugs"),
            ("error, see also", "debugs"),
            ("debug", "debugs"),
        ],
        *[("Noted in", "mentions"), ("see also", "mentions"), ("refers to", "mentions")],
        *[("goodwill of", "related_to"), ("planet", "related_to"), ("prefix", "related_to")],
        *[("issuer", "related_to"), ("planetary fixture notebook", "related_to")],
        *[("see docs/plan.md and", "related_to"), ("bug_fix", "related_to"), ("", "related_to")],
    ],
)
def test_a_ghost_is_related_by_whole_words(text: str, edge: str) -> None:
    assert only(f"{text} [[src/x.py]]").edge == edge
    assert only(f"[[src/x.py]] {text}").edge == edge


@pytest.mark.parametrize(
    "text,edge",
    [
        *[
            ("Supersedes", "supersedes"),
            ("This replaced", "supersedes"),
            ("deprecating", "supersedes"),
        ],
        *[("Superseded by", "superseded_by"), ("is replaced by", "superseded_by")],
        *[("contradicts", "contradicts"), ("in conflict, conflicts with", "contradicts")],
        *[("Builds on", "extends"), ("expanded on", "extends"), ("elaborates", "extends")],
        *[("needs", "depends_on"), ("requires", "depends_on"), ("depending on", "depends_on")],
        *[("We need to see", "related_to"), ("Fix", "related_to"), ("conflict", "related_to")],
        *[
            ("irreplaceable", "related_to"),
            ("extension", "related_to"),
            ("extends and needs", "extends"),
        ],
    ],
)
def test_a_memory_is_related_by_words_of_its_own(text: str, edge: str) -> None:
    link = only(f"{text} [[memory:x]]")
    assert (link.edge, link.memory_edge) == (edge, edge)


def test_a_link_that_is_the_subject_is_what_supersedes() -> None:
    assert edges("[[memory:x]] supersedes this.") == ["superseded_by"]
    assert edges("[[memory:x]], which has been replaced by this") == ["supersedes"]


def test_an_undecided_link_has_both_readings() -> None:
    link = only("We plan what replaces [[x]]")
    assert (link.kind, link.edge, link.memory_edge) == ("", "plans", "supersedes")


def test_the_own_sentence_comes_before_the_rest_of_the_context() -> None:
    assert edges("We will refactor it. A bug is in [[x]]. Plan it.") == ["debugs"]
    assert edges("Refactor:\n- fix [[x]]\n- plan") == ["debugs"]
    assert edges("## TODO\n\n- [[x]]") == ["plans"]


def test_neighbours_do_not_lend_their_words() -> None:
    assert edges("Refactor [[a]] soon, fix [[b]]. See [[c]]") == [
        "refactors",
        "debugs",
        "related_to",
    ]


def test_a_target_or_label_is_not_a_word_about_itself() -> None:
    assert edges("[[docs/plan.md]] and\n[[fix-it|the bug]]") == ["related_to", "related_to"]


# Time


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        *[
            "[[",
            "[[a",
            "]]",
            "[[a]]",
            "[[a]] ",
            "fix [[a]] ",
            "[[a|",
            "[[a#b]]",
            "[[]]",
            "[[a\n",
            "[",
        ],
        *[
            "`",
            "` `` ``` [[a]] ",
            "[[x]]`",
            "`[[x]]` ",
            "```\n[[a]]\n",
            "[[a/../b]]",
            "[[a]]\n",
            "x",
        ],
        *[
            ". [[a]]",
            "[[a]] need to ",
            "- `[[a]]\n",
            "]]]",
            "[[[",
            "[[" + "a/../" * 100 + "]]",
            "\n",
        ],
    ],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(seed: str) -> None:
    text = seed * (20_000 // len(seed))
    assert grows_linearly(links, text)
    assert grows_linearly(lambda part: links(f"[[{part}]] `{part}"), text)
    assert grows_linearly(normal, text)


def test_backticks_of_every_length_are_paired_in_one_pass() -> None:
    body = "".join("`" * size + " " for size in range(1, 400)) + "` " * 20_000 + "[[a]]"
    assert targets(body) == ["a"]


def test_a_text_without_end_has_so_many_links() -> None:
    found = links("".join(f"[[m{number}]] " for number in range(10_100)))
    assert (len(found), found[-1].target) == (10_000, "m9999")
