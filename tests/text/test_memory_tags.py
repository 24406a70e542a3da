"""What a reply flags with `[MEMORY]`: both forms, anywhere, except in code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.text.memory_tags import (
    TagFilter,
    find_facts,
    find_facts_anywhere,
    hide_tags,
    split_replaced,
)
from tests.growth import grows_linearly

CASES = {
    "nothing": ("Hello.", []),
    "inline": (
        "[MEMORY] Jamie prefers TypeScript over JavaScript",
        ["Jamie prefers TypeScript over JavaScript"],
    ),
    "a heading with bullets": (
        "[MEMORY] Updated facts:\n- Uses Bun as the JS runtime\n- Prefers concise responses",
        ["Uses Bun as the JS runtime", "Prefers concise responses"],
    ),
    "both, with talk around them": (
        "Sure!\n\n[MEMORY] A is B\n\nAnd so on.\n[MEMORY] Facts:\n- C is D\nBye.",
        ["A is B", "C is D"],
    ),
    "in the middle of a line": ("Noted. [MEMORY] JR likes tea", ["JR likes tea"]),
    "indented": ("  [MEMORY] JR likes tea", ["JR likes tea"]),
    "twice in a line": ("[MEMORY] A is B [MEMORY] C is D", ["A is B", "C is D"]),
    "twice the same": ("[MEMORY] A is B\n[MEMORY] a is b.", ["A is B"]),
    "nothing behind it": ("[MEMORY]\n[MEMORY]   \n", []),
    "only a point behind it": ("[MEMORY] .", []),
    "only the first sentence": ("[MEMORY] JR likes tea. Anything else?", ["JR likes tea."]),
    "no point at the end of the only one": ("[MEMORY] JR likes tea!!", ["JR likes tea"]),
    "abbreviations end no sentence": (
        "[MEMORY] Sees Dr. Smith of St. Mary's, e.g. On Mondays",
        ["Sees Dr. Smith of St. Mary's, e.g. On Mondays"],
    ),
    "initials end no sentence": ("[MEMORY] Reads J. R. Tolkien", ["Reads J. R. Tolkien"]),
    "a version is no sentence": ("[MEMORY] Uses Node 18.2 Only", ["Uses Node 18.2 Only"]),
    "capitals of other alphabets": ("[MEMORY] Пьёт чай. Любит снег.", ["Пьёт чай."]),
    "full stops without spaces": ("[MEMORY] 他喜欢茶。他住在北京。", ["他喜欢茶。"]),
    "added to, taken away": ("[MEMORY] Added to MEMORY.md: JR likes tea", ["JR likes tea"]),
    "updated to, taken away": ("[MEMORY] updated to memory: JR likes tea", ["JR likes tea"]),
    "a blank line ends the bullets": ("[MEMORY] Facts:\n- A is B\n\n- C is D", ["A is B"]),
    "other text ends the bullets": ("[MEMORY] Facts:\n- A is B\ntext\n- C is D", ["A is B"]),
    "a blank line before announced bullets": ("[MEMORY] Facts:\n\n- A is B", ["A is B"]),
    "no heading at all": ("[MEMORY]\n- A is B\n- C is D", ["A is B", "C is D"]),
    "a heading without a colon": ("[MEMORY] Updated facts\n- A is B", ["A is B"]),
    "a fact above bullets is kept too": ("[MEMORY] A is B\n- C is D", ["A is B", "C is D"]),
    "a list after a fact and a blank line": ("[MEMORY] A is B\n\n- Step one", ["A is B"]),
    "other bullets and numbers": (
        "[MEMORY] Facts:\n* A is B\n+ C is D\n• E is F\n1. G is H\n2) I is J",
        ["A is B", "C is D", "E is F", "G is H", "I is J"],
    ),
    "a bullet that goes on": ("[MEMORY] Facts:\n- A is B\n  and C\n- D", ["A is B and C", "D"]),
    "tags in a list": ("- [MEMORY] A is B\n- [MEMORY] C is D\n- Done", ["A is B", "C is D"]),
    "a quotation": ("> [MEMORY] A is B", ["A is B"]),
    "a bold tag": ("**[MEMORY]** A is B", ["A is B"]),
    "a bold line": ("**[MEMORY] A is B**", ["A is B"]),
    "a bold tag with a colon": ("**[MEMORY]:** A is B", ["A is B"]),
    "a colon": ("[MEMORY]: A is B", ["A is B"]),
    "emphasis of the fact's own": ("[MEMORY] *Only* A is B", ["*Only* A is B"]),
    "a bold bullet": ("[MEMORY] Facts:\n- **A is B**", ["A is B"]),
    "Windows lines": ("[MEMORY] Facts:\r\n- A is B\r\n- C is D\r\n", ["A is B", "C is D"]),
    "spaces inside": ("[MEMORY]   A   is\tB  ", ["A is B"]),
    "control characters": ("[MEMORY] A \x1b[31mis\x07 B\u202e", ["A [31mis B"]),
    "a fence": ("```\n[MEMORY] A is B\n```\n[MEMORY] C is D", ["C is D"]),
    "a fence of tildes": ("~~~md\n[MEMORY] A is B\n```\n~~~\n[MEMORY] C is D", ["C is D"]),
    "a longer fence": ("````\n```\n[MEMORY] A is B\n```\n````\n[MEMORY] C", ["C"]),
    "a fence that is not closed": ("```\n[MEMORY] A is B\n", []),
    "a fence in a list": ("- x\n  ```\n  [MEMORY] A is B\n  ```\n", []),
    "a fence among bullets": ("[MEMORY] Facts:\n- A is B\n```\n- C is D\n```", ["A is B"]),
    "indented code": ("Like this:\n\n    [MEMORY] A is B\n", []),
    "indented in a list": ("- x\n\n    [MEMORY] A is B\n", ["A is B"]),
    "inline code": ("Write `[MEMORY] A is B` for that.", []),
    "inline code of two ticks": ("Write ``a ` [MEMORY] A`` for that.", []),
    "inline code over two lines": ("Write `a\n[MEMORY] A` for that.", []),
    "a tick that is not closed": ("It`s [MEMORY] A is B", ["A is B"]),
    "ticks of two paragraphs": ("a ` b\n\n[MEMORY] A is B\n\nc ` d", ["A is B"]),
    "code in the fact": ("[MEMORY] Uses `bun run` for tests", ["Uses `bun run` for tests"]),
    "a link": ("See [MEMORY](https://example.com) and [MEMORY][1].", []),
    "a wikilink": ("See [[MEMORY]] for that", []),
    "escaped": (r"Write \[MEMORY] A is B", []),
    "small letters": ("[memory] A is B", []),
}


@pytest.mark.parametrize("reply, facts", CASES.values(), ids=CASES)
def test_flagged_facts_are_found(reply: str, facts: list[str]) -> None:
    assert find_facts(reply) == facts


@given(
    st.lists(
        st.one_of(
            st.text(max_size=20),
            st.sampled_from(
                ["[MEMORY]", "[MEMORY] ", "- ", "\n", "\r\n", "`", "```", "~~~", "    "]
            ),
        ),
        max_size=40,
    )
)
def test_any_reply_is_read(parts: list[str]) -> None:
    for fact in find_facts("".join(parts)):
        assert fact == " ".join(fact.split()) != ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "[MEMORY]", "[MEMORY]\n", "[MEMORY]\n- a\n", "[MEMORY] a\n- b\n", "[", "`", "` `` ``` ",
        "`a``b", "- ", "> ", "[MEMORY] Dr. A ", "[MEMORY] . . .", ".", "!?", "*", "[MEMORY]**",
        "~~~\n",         "[MEMORY] Facts:\n- a\n  b\n", "    \n", "\t", "added to ",
    ],
)  # fmt: skip
def test_long_replies_take_time_in_proportion(piece: str) -> None:
    whole = piece * (100_000 // len(piece))
    assert grows_linearly(find_facts, whole)
    assert grows_linearly(find_facts, f"[MEMORY] {whole}")
    assert grows_linearly(find_facts, f"[MEMORY] Facts:\n- x\n  {whole}\n")


@pytest.mark.parametrize(
    "text",
    [
        "[MEMORY] Jo rows",
        "```\n[MEMORY] Jo rows\n```",
        "    [MEMORY] Jo rows.",
        "`[MEMORY] Jo rows`",
    ],
)
def test_in_what_others_wrote_the_tag_counts_in_code_too(text: str) -> None:
    (fact,) = find_facts_anywhere(f"Look:\n\n{text}\n")
    assert fact.strip("`") == "Jo rows"
    assert find_facts_anywhere("nothing") == []


@pytest.mark.parametrize(
    "text, parts",
    [
        ("Jo uses pnpm (replaces: Jo uses npm)", ("Jo uses pnpm", "Jo uses npm")),
        ("Jo uses pnpm. [Replaces Jo uses npm]", ("Jo uses pnpm", "Jo uses npm")),
        ("Jo uses pnpm (a fork (replaces: npm))", ("Jo uses pnpm (a fork", "npm)")),
        ("Bun replaces: npm", ("Bun replaces: npm", "")),
        ("Jo uses pnpm (at work)", ("Jo uses pnpm (at work)", "")),
        ("(replaces: npm)", ("(replaces: npm)", "")),
    ],
)
def test_a_fact_can_say_which_one_it_replaces(text: str, parts: tuple[str, str]) -> None:
    (fact,) = find_facts(f"[MEMORY] {text}")
    assert split_replaced(fact) == parts


REPLY = """\
Noted.
[MEMORY] The API listens on port 8080.
Next.

**[MEMORY]** Updated facts:

- Jo lives in Oslo
- Jo likes tea
  without milk

> [MEMORY] Jamie uses pnpm (replaces: Jamie uses npm)

- [MEMORY] Jo has a cat
1. [MEMORY] Jo has a dog
- another matter

The end, **[MEMORY]** Jo sings
```
[MEMORY] in code
```
Write `[MEMORY] x`. [MEMORY] Jo runs. The answer is 42.
[MEMORY](https://example.com)
[MEMORY] A is B [MEMORY] C is red. Two
[MEMORY] Jo dances"""

SHOWN = """\
Noted.
Next.
- another matter
The end,
```
[MEMORY] in code
```
Write `[MEMORY] x`. The answer is 42.
[MEMORY](https://example.com)
Two"""


def test_what_flags_facts_is_hidden() -> None:
    lines = [line for line in hide_tags(REPLY).split("\n") if line.strip()]
    assert lines == SHOWN.split("\n")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_the_pieces_a_reply_comes_in_change_nothing(size: int) -> None:
    tags = TagFilter()
    parts = [tags.feed(REPLY[at : at + size]) for at in range(0, len(REPLY), size)]
    assert "".join([*parts, tags.finish()]) == hide_tags(REPLY)


def test_what_cannot_be_a_tag_is_shown_before_its_line_ends() -> None:
    tags = TagFilter()
    assert tags.feed("[ME") == ""
    assert tags.feed("DIA] is") == "[MEDIA] is"
    assert tags.feed(" here [") == " here"
    assert tags.feed("MEMORY] x") == ""
    assert tags.finish() == ""
