"""What is handed in, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.app import App
from retain.bank import markdown
from retain.bank.markdown import MemoryInput, admit, append_text, parse_text
from retain.errors import RetainError, UsageError
from retain.memory import Memory


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
    assert markdown.parse(given.compose({"id": "x"})).body == text


@pytest.mark.parametrize("text", ["", " \n", "\ufeff", "---\n---\n", None])
def test_nothing_is_not_stored(text: str | None) -> None:
    with pytest.raises(UsageError):
        parse_text(text)


@pytest.mark.parametrize("bad", ["a\udcffb", "\ud800"])
@pytest.mark.parametrize(
    "draft",
    [
        lambda bad: {"text": bad},
        lambda bad: {"text": "x", "title": bad},
        lambda bad: {"text": "x", "tags": ["a", bad]},
        lambda bad: {"text": "x", "metadata": {"a": [{"b": bad}]}},
        lambda bad: {"text": "x", "metadata": {bad: 1}},
    ],
    ids=["text", "title", "tags", "fields", "key"],
)
def test_text_that_no_file_can_hold_is_refused_before_anything_is_written(
    home: Path, bad: str, draft: Callable[[str], dict[str, Any]]
) -> None:
    App().init()
    App().put("good", id="good")
    before = App().get("good").data
    calls: list[Callable[[], object]] = [
        lambda: App().put(**draft(bad), id="new"),
        lambda: App().update("good", **draft(bad)),
    ]
    for call in calls:
        with pytest.raises(UsageError):
            call()
    assert [memory.id for memory in App().list()] == ["good"]
    assert App().get("good").data == before


@pytest.mark.parametrize(
    "given, field",
    [
        (MemoryInput(text="a\0b"), "the text"),
        (MemoryInput(text="x", fields={"context": "a\0b"}), "context"),
        (MemoryInput(fields={"content": {"rule": ["a\0b"]}}), "content.rule"),
    ],
)
def test_nul_is_refused_with_the_name_of_its_field(given: MemoryInput, field: str) -> None:
    with pytest.raises(UsageError, match=f"^{field} holds a NUL"):
        admit(given, redact_secrets=True)


def test_control_characters_are_taken_out_of_titles_and_tags() -> None:
    given = MemoryInput(title="a\0b\x1b[31m", tags=["x\x07y"], fields={"title": "\x9bT"})
    admitted, _ = admit(given, redact_secrets=True)
    assert (admitted.title, admitted.tags) == ("ab[31m", ["xy"])
    assert admitted.fields["title"] == "T"


@pytest.mark.parametrize("levels", [41, 500, 5000])
def test_metadata_nested_too_deeply_is_refused(levels: int) -> None:
    deep: object = "x"
    for _ in range(levels):
        deep = {"a": deep}
    with pytest.raises(UsageError):
        admit(MemoryInput(text="x", fields={"deep": deep}), redact_secrets=True)


def test_metadata_too_large_to_be_read_again_is_refused(home: Path) -> None:
    App().init()
    App().put("x", id="good")
    before = App().get("good").data
    calls: list[Callable[[], object]] = [
        lambda: App().put("x", metadata={"context": "x" * 70_000}, id="new"),
        lambda: App().update("good", metadata={"context": "x" * 70_000}),
    ]
    for call in calls:
        with pytest.raises(RetainError) as caught:
            call()
        assert "65,536" in caught.value.message
    assert [memory.data for memory in App().list()] == [before]


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_appended_text_stands_two_lines_below(body: str, addition: str) -> None:
    memory = Memory("m", "", "m.md", {}, body, body.encode())
    result = markdown.parse(append_text(memory, addition)).body
    assert result.startswith(body.rstrip())
    assert addition in result
    if body.strip():
        between = result[len(body.rstrip()) :]
        assert between.startswith(("\n\n", "\r\n\r\n"))


def test_append_keeps_the_files_line_endings() -> None:
    for before, after in (("a\r\n", "a\r\n\r\nb\r\n"), ("a", "a\n\nb"), ("", "b")):
        memory = Memory("m", "", "m.md", {}, before, before.encode())
        assert append_text(memory, "b") == after.encode()


def test_updated_at_moves_only_when_something_else_does(home: Path) -> None:
    App().init()
    App().put("x", tags=["a"], id="m")
    assert App().update("m", tags=["a"]).status == "unchanged"
    assert "updated_at" not in App().get("m").meta
    assert App().update("m", tags=["b"], merge_tags=True).memory.tags == ("a", "b")
    assert "updated_at" in App().get("m").meta


def test_a_bare_file_stays_bare_when_only_its_text_changes(home: Path) -> None:
    App().init()
    file = home / "work" / ".retain" / "m.md"
    file.write_text("text\n", encoding="utf-8")
    App().append("m", "more")
    assert file.read_text(encoding="utf-8") == "text\n\nmore\n"


def test_new_frontmatter_is_in_the_order_a_person_reads_it() -> None:
    fields = {"x": 1, "created_by": "me", "tags": ["a"], "title": "T", "id": "t"}
    meta = markdown.parse(parse_text("body").compose(fields)).meta
    assert list(meta) == ["id", "title", "tags", "created_by", "x"]
