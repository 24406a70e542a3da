"""A body is cut where its author parted it, nothing is lost, and turns know who speaks."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.text.chunks import Chunk, split_chunks
from tests.text.test_frontmatter import times

MOST = 1200
LINES = [
    *["", "", " ", "\t", "text", "two words", "  indented", "trailing  ", "#", "# One", "## Two"],
    *["### Three ##", "#### Four", "#no heading", "===", "---", "--", "-", "```", "```python"],
    *["~~~", "````", "- item", "1. item", "| a | b |", "|---|---|", "> quoted", "**Ann:** hello"],
    *["**Bob**: yes", "Ann: hi there", "Bob: hello.", "- Ann: why?", "[10:32] Ann: me", "Note: no"],
    *[
        "2023-05-08 10:32 Bob: ok", "**User:**", "小明\uff1a你好", "form\x0cfeed", "\x0c",
        "a\u2028b",
    ],
    *["a\x85b", "a\x0bb", "a\rb", "\ufeff", "long " * 30, "word " * 300, "字" * 1300, "。" * 10],
    *["Sentence one. Two! Three? " * 60, "x" * 2500, " " * 1300 + "x", "x" + " " * 1300],
]  # fmt: skip
BODIES = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(LINES), max_size=30).flatmap(
        lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda end: end.join(lines))
    ),
)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def texts(body: str) -> list[str]:
    return [chunk.text for chunk in split_chunks(body)]


def spoken(body: str) -> list[tuple[str, str]]:
    return [(chunk.who, chunk.spoken) for chunk in split_chunks(body) if chunk.who]


def paths(body: str) -> list[str]:
    return [chunk.header_path for chunk in split_chunks(body)]


def words(size: int) -> str:
    """Text of about a size, in sentences and without line breaks."""
    return ("These are some words of a sentence. " * (size // 36 + 1))[:size].strip()


# Nothing is lost


@times(5)
@given(BODIES)
@example("\n\n# A\n\x0c\ntext\n")
@example("**User:**\n\n" + "x" * 1300)
def test_every_character_but_white_space_is_kept_once_and_in_order(body: str) -> None:
    kept = "".join(chain.from_iterable(text.split() for text in texts(body)))
    assert kept == "".join(body.split())


@times(5)
@given(BODIES)
def test_a_chunk_is_an_excerpt_that_starts_on_its_line(body: str) -> None:
    own = body.split("\n")
    for chunk in split_chunks(body):
        assert chunk.text.strip()
        assert len(chunk.text) <= MOST
        assert chunk.text in body
        line = own[chunk.line - 1]
        assert chunk.text.split("\n")[0] in line
        if all(len(one) <= MOST - 200 for one in own):
            assert "\n".join(own[chunk.line - 1 :]).startswith(chunk.text)
    if all(len(one) <= MOST - 200 for one in own):
        assert [line for text in texts(body) for line in lines(text)] == lines(body)


def test_only_a_line_feed_ends_a_line() -> None:
    body = "one\x0ctwo\u2028three\x85four\rfive\nsix\x0b# no heading\n\nseven # eight"
    assert split_chunks(body) == [Chunk(body, "", 1)]
    after = "\x0c\n\u2028\n# A\nx"
    assert split_chunks(after) == [Chunk("# A\nx", "A", 3)]


# Headings


def test_a_chunk_knows_the_headings_above_it() -> None:
    body = "".join(
        f"{mark} {title}\n\n{words(300)}\n\n"
        for mark, title in [
            *[("#", "Setup"), ("##", "Linux"), ("###", "Arch #"), ("##", "Mac ##")],
            *[("####", "Brew"), ("#", "Use"), ("###### ", "Deep")],
        ]
    )
    assert paths(f"{words(300)}\n{body}") == [
        "",
        "Setup",
        "Setup > Linux",
        "Setup > Linux > Arch",
        "Setup > Mac",
        "Setup > Mac > Brew",
        "Use",
        "Use > Deep",
    ]


LONG = words(300)
PATHS = {
    "underlined": (f"Setup\n=====\n\n{LONG}\n\nLinux\n-----\n{LONG}", "Setup|Setup > Linux"),
    "a rule of its own and a lone dash": (f"---\n\n{LONG}\n\n---\n\nitem\n-\n\n***\n", ""),
    "no words": (f"#\n{LONG}\n## ##\n{LONG}\n### A\n{LONG}", "||A"),
    "text before the first": (f"{LONG}\n\n# A\n\n{LONG}", "|A"),
    "a fence": (f"{LONG}\n\n```\n# no\nno\n==\n```\n\n# Yes\n\n{LONG}", "|Yes"),
    "a fence of tildes": (f"{LONG}\n\n~~~ sh\n# no\n~~~~\n\n# Yes\n\n{LONG}", "|Yes"),
    "a fence in a list": (f"{LONG}\n\n- ```\n# no\n  ```\n\n# Yes\n\n{LONG}", "|Yes"),
    "a fence in a longer one": (
        f"{LONG}\n````md\n```\n# no\n```\n~~~\n````\n# Yes\n{LONG}",
        "|Yes",
    ),
    "a short section joins one below the same heading": (
        f"# T\n{LONG}\n## A\n{LONG}\n## B\nshort\n# U\n{LONG}",
        "T|T|U",
    ),
    "long sections are not joined": (f"# A\n{words(250)}\n# B\n{words(250)}", "A|B"),
}


@pytest.mark.parametrize("body,expected", PATHS.values(), ids=PATHS)
def test_headings_give_their_paths(body: str, expected: str) -> None:
    assert paths(body) == expected.split("|")


@pytest.mark.parametrize(
    "text",
    [
        "- item", "1. item", "> quote", "| a |", "two\nlines", "x" * 130, "    code", "<br>",
        "```\n```",
    ],
)  # fmt: skip
def test_a_rule_below_other_text_makes_no_heading(text: str) -> None:
    assert set(paths(f"{text}\n---\n{LONG}\n# End\n{LONG}")) == {"", "End"}


# Short sections


def test_a_short_memory_is_one_chunk() -> None:
    body = "# Use Postgres\n\n## Context\n\nWe need SQL.\n\n## Decision\n\nPostgres.\n"
    assert split_chunks(body) == [Chunk(body.strip(), "Use Postgres", 1)]


def test_a_heading_stays_with_what_it_is_about() -> None:
    body = f"# A\nshort\n# B\n## b\n{words(1185)}\n"
    assert texts(body)[-1].startswith("# B\n## b")


# Long sections


def test_a_long_section_is_cut_between_paragraphs() -> None:
    paragraphs = [words(500) for _ in range(5)]
    found = texts("\n\n".join(paragraphs))
    assert all(part in paragraphs for text in found for part in text.split("\n\n"))
    assert len(found) == 3


def test_long_text_is_cut_at_the_best_place_there_is() -> None:
    items = texts("\n".join(f"- item {n}\n  {words(100)}" for n in range(30)))
    assert all(text.startswith("- item") for text in items)
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {words(60)} |" for n in range(60))
    rows = [line for text in texts(table) for line in text.split("\n")]
    assert len(texts(table)) > 3
    assert all(row[0] == row[-1] == "|" for row in rows)
    sentences = texts(words(5000))
    assert all(text.endswith("sentence.") for text in sentences[:-1])
    assert all(text.startswith("These") for text in sentences)
    assert {word for text in texts("word " * 1000) for word in text.split()} == {"word"}
    assert all(text.endswith("。") for text in texts(("字" * 99 + "。") * 30))
    assert [len(text) for text in texts("字" * 3000)] == [1200, 1200, 600]


def test_a_code_fence_is_kept_together_if_it_fits() -> None:
    fence = "```\n" + "\n\n".join(["code"] * 150) + "\n```"
    found = texts(f"# T\n\n{words(900)}\n{fence}\n{words(900)}")
    assert any(fence in text for text in found)
    longer = texts("```\n" + "\n\n".join(["code"] * 500) + "\n```")
    assert len(longer) == 3


# Turns


@pytest.mark.parametrize(
    "mark",
    [
        *["**{}:** ", "**{}**: ", "{}: ", "- {}: ", "* **{}:** ", "[10:32] {}: ", "  {}: "],
        *["2023-05-08 10:32 {}: ", "[2023-05-08T10:32:01Z] **{}:** ", "10:32 PM {}: "],
        *["12/05/2023, 10:32 - {}: ", "(10:32:07) {}: ", "{}\uff1a", "- [10:32] {}: ", "**{}:**"],
    ],
)
@pytest.mark.parametrize(
    "names", [("Ann", "Bob"), ("Dr. Ann O'Neil-Smith", "user"), ("Émile", "AI")]
)
def test_each_turn_is_a_chunk_with_its_speaker(mark: str, names: tuple[str, str]) -> None:
    said = ["Can you: help me?", "Yes, I can.", "http://a.test: thank you!"]
    who = [names[0], names[1], names[0]]
    own = [mark.format(name) + text for name, text in zip(who, said, strict=True)]
    for body in ("\n".join(own), "\n\n".join(own), "\r\n".join(own), "# T\n\n" + "\n".join(own)):
        found = [chunk for chunk in split_chunks(body) if chunk.who]
        assert [(c.who, c.spoken, c.text) for c in found] == list(zip(who, said, own, strict=True))
        assert [body.split("\n")[c.line - 1].rstrip() for c in found] == own


def test_the_heading_of_a_transcript_is_a_chunk_before_its_turns() -> None:
    found = split_chunks("# Call\n\n**Ann:** hi\n\n## Later\n\n**Bob:** yes")
    assert [(c.text, c.header_path, c.line, c.who) for c in found] == [
        ("# Call", "Call", 1, ""),
        ("**Ann:** hi", "Call", 3, "Ann"),
        ("## Later", "Call > Later", 5, ""),
        ("**Bob:** yes", "Call > Later", 7, "Bob"),
    ]
    assert [c.is_heading for c in found] == [True, False, True, False]


def test_a_heading_without_a_text_joins_the_section_below_it() -> None:
    long = "word " * 400
    found = split_chunks(f"# T\n\n## Part\n\n### First\n\n{long}\n\n## Empty\n\n## Other\n\n{long}")
    assert [(c.text.partition("word")[0], c.line) for c in found[::2]] == [
        ("# T\n\n## Part\n\n### First\n\n", 1),
        ("## Empty\n\n## Other\n\n", 9),
    ]
    assert [c.header_path for c in found] == ["T > Part > First"] * 2 + ["T > Other"] * 2
    assert not any(c.is_heading for c in found)


def test_one_bold_name_is_enough() -> None:
    found = split_chunks("We met.\n\n**Ann Lee:** Use Redis.\nAnd soon.\n\nSo we did.")
    assert [c.text for c in found] == [
        "We met.",
        "**Ann Lee:** Use Redis.\nAnd soon.",
        "So we did.",
    ]
    assert (found[1].who, found[1].spoken) == ("Ann Lee", "Use Redis.\nAnd soon.")


def test_following_lines_belong_to_the_turn() -> None:
    body = "Ann: see:\n- one\n- two\n```\na\n\nb: c\n```\nNote: mind it\nBob: ok\n\nThe end."
    assert spoken(body) == [
        ("Ann", "see:\n- one\n- two\n```\na\n\nb: c\n```\nNote: mind it"),
        ("Bob", "ok"),
    ]
    assert texts(body)[-1] == "The end."


def test_a_name_on_a_line_of_its_own_speaks_up_to_the_next() -> None:
    body = "**User:**\n\nHow?\n\nTell me.\n\n**Assistant:**\n\nSo:\n\n- a\n\n# End\n\nx"
    assert spoken(body) == [("User", "How?\n\nTell me."), ("Assistant", "So:\n\n- a")]


def test_a_short_exchange_without_a_returning_name_is_talk() -> None:
    assert spoken("Ann: Is it done?\nBob: Yes") == [("Ann", "Is it done?"), ("Bob", "Yes")]
    assert spoken("Ann: The build is red.\nBob: Fixed.") != []


def test_a_long_turn_is_cut_and_every_piece_keeps_its_speaker() -> None:
    body = f"**Ann:** {words(2500)}\nmore\n**Bob:** ok"
    found = [chunk for chunk in split_chunks(body) if chunk.who == "Ann"]
    assert len(found) == 3
    assert " ".join(chunk.spoken for chunk in found).split() == f"{words(2500)} more".split()
    assert all(chunk.spoken for chunk in split_chunks("**Ann:** " + "x" * 3000))


@pytest.mark.parametrize(
    "body",
    [
        "Backend: FastAPI\nFrontend: React", "Vendor: Acme\nShade: red", "Ann: can you?",
        "Note: you should see this.\nTodo: call me!", "**Note:** you should see this.",
        "**Key points:** we agreed.", "**Overview:**\n\nAll is well.",
        "- **Redis:** holds the cache.\n- **Kafka:** the queue.", "ann: hi\nbob: hello\nann: bye",
        "- Integration test: one\n- Integration test: two\n- Edge case: three",
        "Ann: can you?\n\n" + "A line of prose.\n\n" * 3 + "Bob: yes",
        "Ann: a\nBob: b\nCarl: c\nDora: d.", "```\nAnn: hi\nBob: hello\nAnn: you\n```",
        "https://a.test: x\nC:\\x: y\n10:32: z\n10:32: z", f"{'A' * 41}: a\n{'A' * 41}: b",
        "ERROR: disk full\nINFO: done\nERROR: again", "Monday: run\nTuesday: rest\nMonday: run",
    ],
)  # fmt: skip
def test_a_label_before_a_colon_speaks_not(body: str) -> None:
    assert spoken(body) == []
    assert len(split_chunks(body)) == 1


def test_each_section_decides_for_itself() -> None:
    body = "# A\n\nAnn: hi\nBob: hello\nAnn: bye\n\n# B\n\nAnn: alone\n"
    assert spoken(body) == [("Ann", "hi"), ("Bob", "hello"), ("Ann", "bye")]
