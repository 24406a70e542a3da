"""Markdown memories: whatever is not changed comes back byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from retain.app import App
from retain.bank import markdown
from retain.bank.markdown import MemoryInput, admit, append_text, parse_text
from retain.errors import Unreadable, UsageError
from retain.memory import Memory
from retain.text.frontmatter import same
from tests.text.test_frontmatter import METADATA, heads, times

BODIES = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(
            ["---", "--- ", "a: 1", "", "# H", "text", " ", "\t", "```", "...", "\ufeff", "é"]
        ),
        max_size=6,
    ).flatmap(lambda lines: st.sampled_from(["\n", "\r\n", "\r"]).map(lambda end: end.join(lines))),
)
FILES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "\ufeff"]),
    st.one_of(
        st.just(""),
        heads(odd=6).map("---\n{}---\n".format),
        heads(odd=6).map("---\r\n{}\r\n---\r\n\r\n".format),
        heads(odd=6).map("---  \n{}\n--- \n\n\n".format),
        st.just("---\na: 1\n---"),
    ),
    BODIES,
)


@times(1)
@given(METADATA, BODIES)
@example({}, "---\na: 1\n---\n")
@example({"a": "b"}, "\n\n---\n")
@example({"a": "b"}, "\r\nx")
@example({}, "")
def test_compose_then_parse_gives_back_metadata_and_body(
    meta: dict[str, object], body: str
) -> None:
    assume(all(len(key) < 100 for key in meta))
    document = markdown.parse(markdown.compose(meta, body))
    assert same(document.meta, meta)
    assert document.body == body


@times(1)
@given(FILES)
def test_an_edit_that_changes_nothing_returns_the_same_bytes(text: str) -> None:
    data = text.encode()
    assume(not unreadable(data))
    document = markdown.parse(data)
    assert markdown.edit(data, {}) == data
    present = {key: value for key, value in document.meta.items() if value is not None}
    assert markdown.edit(data, present) == data
    assert markdown.edit(data, {}, document.body) == data


@times(1)
@given(FILES, BODIES)
@example("---\na: 1\n---\nx", "\ny")
@example("---\na: 1\n---", "\r\ny")
@example("bare", "---\nnot closed")
@example("bare", "---\na: 1\n---\n")
@example("bare", "\ufeffx")
@example("\ufeffbare", "\ufeffx")
def test_a_new_body_is_the_body_and_the_head_stays(text: str, body: str) -> None:
    data = text.encode()
    assume(not unreadable(data))
    before = markdown.parse(data)
    after = markdown.parse(markdown.edit(data, {}, body))
    assert same(after.meta, before.meta)
    assert after.body == body
    if before.meta:
        head = data[: data.rindex(before.body.encode())].rstrip()
        assert markdown.edit(data, {}, body).startswith(head)


@given(st.binary(max_size=60))
@example(b"\xff\xfe-\x00-\x00-\x00\n\x00")
@example(b"---\n\x00: 1\n---\n")
def test_any_bytes_can_be_read_and_none_are_lost(data: bytes) -> None:
    document = markdown.parse(data)
    assert isinstance(document.body, str)
    if not unreadable(data):
        assert markdown.edit(data, {}) == data
    elif document.problem:
        assert document.meta == {}
        assert document.body == data.decode("utf-8", "replace").removeprefix("\ufeff")


def unreadable(data: bytes) -> bool:
    try:
        markdown.edit(data, {})
    except Unreadable:
        return True
    return False


def test_a_head_that_makes_no_sense_is_not_built_upon() -> None:
    data = b"---\ntitle: a: b\n---\n\nbody\n"
    for changes, body in (({}, "new"), ({"a": "b"}, None), ({}, None)):
        with pytest.raises(Unreadable):
            markdown.edit(data, changes, body)


def test_a_file_without_frontmatter_gets_one_only_for_a_value() -> None:
    assert markdown.edit(b"text\n", {"a": None}) == b"text\n"
    assert markdown.edit(b"text\n", {}, "new\n") == b"new\n"
    assert markdown.edit(b"text\r\n", {"a": "b"}) == b"---\r\na: b\r\n---\r\n\r\ntext\r\n"
    assert (
        markdown.edit(b"\xef\xbb\xbftext\n", {"a": "b"}) == b"\xef\xbb\xbf---\na: b\n---\n\ntext\n"
    )


CONFLICT = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"


@pytest.mark.parametrize(
    "text", [CONFLICT, f"---\ntitle: x\n---\n\n{CONFLICT}", f"---\n{CONFLICT}---\n\nbody\n"]
)
def test_an_unsettled_merge_is_called_by_its_name(text: str) -> None:
    assert "unsettled merge" in markdown.parse(text.encode()).problem
    assert markdown.parse(b"git writes `<<<<<<< HEAD` and `>>>>>>> branch`\n").problem == ""
    with pytest.raises(Unreadable, match="unsettled merge"):
        markdown.edit_file("m.md", f"---\n{CONFLICT}---\n".encode(), {"a": "b"})


# What is handed in, and what becomes of it


def test_frontmatter_in_a_text_is_taken_over() -> None:
    given = parse_text("---\ntitle: T # why\nx: [a]\n---\n\nbody\n")
    assert (given.meta, given.body) == ({"title": "T", "x": ["a"]}, "body\n")
    assert given.compose({"id": "t", "title": "New"}) == (
        b"---\ntitle: New # why\nx: [a]\nid: t\n---\n\nbody\n"
    )


@pytest.mark.parametrize(
    "text", ["---\nnot closed", "---\na: b: c\n---\nx", "---\n- x\n---\n", "---"]
)
def test_a_text_that_only_looks_like_frontmatter_is_kept_whole(text: str) -> None:
    given = parse_text(text)
    assert (given.meta, given.body) == ({}, text)
    assert given.warnings
    with pytest.raises(UsageError):
        parse_text("---\n---\n")
    assert markdown.parse(given.compose({"id": "x"})).body == text


@pytest.mark.parametrize(
    "memory_input, field",
    [
        (MemoryInput(text="a\udcffb"), "the text"),
        (MemoryInput(fields={"title": "\ud800"}), "title"),
        (MemoryInput(tags=["a", "\ud800"]), "tags"),
        (MemoryInput(fields={"\ud800": 1}), "a field's name"),
        (MemoryInput(text="a\0b"), "the text"),
        (MemoryInput(text="x", fields={"context": "a\0b"}), "context"),
        (MemoryInput(fields={"content": {"rule": ["a\0b"]}}), "content.rule"),
    ],
)
def test_text_that_no_file_can_hold_is_refused_with_its_field(
    memory_input: MemoryInput, field: str
) -> None:
    with pytest.raises(UsageError, match=f"^{field} (holds a NUL|is not valid UTF-8)"):
        admit(memory_input, redact_secrets=True)


def test_control_characters_are_taken_out_of_titles_and_tags() -> None:
    given = MemoryInput(fields={"title": "a\0b\x1b[31m"}, tags=["x\x07y"])
    admitted, _ = admit(given, redact_secrets=True)
    assert (admitted.fields["title"], admitted.tags) == ("ab[31m", ["xy"])


@pytest.mark.parametrize("levels", [41, 500, 5000])
def test_metadata_nested_too_deeply_is_refused(levels: int) -> None:
    deep: object = "x"
    for _ in range(levels):
        deep = {"a": deep}
    with pytest.raises(UsageError):
        admit(MemoryInput(text="x", fields={"deep": deep}), redact_secrets=True)


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_appended_text_stands_two_lines_below(body: str, addition: str) -> None:
    memory = Memory("m", "", "m.md", {}, body, body.encode())
    result = markdown.parse(append_text(memory, addition)).body
    assert result.startswith(body.rstrip())
    assert addition in result
    if body.strip():
        between = result[len(body.rstrip()) :]
        assert between.startswith(("\n\n", "\r\n\r\n"))


def test_updated_at_moves_only_when_something_else_does(home: Path) -> None:
    App().init()
    App().put("x", tags=["a"], id="m")
    assert App().update("m", tags=["a"]).status == "unchanged"
    assert "updated_at" not in App().get("m").meta
    assert App().update("m", tags=["b"], merge_tags=True).memory.tags == ("a", "b")
    assert "updated_at" in App().get("m").meta
