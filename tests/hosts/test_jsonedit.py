"""One key in, one key out: every other byte of a person's file stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.errors import Unreadable
from retain.hosts import jsonedit

ENTRY = {"command": "retain", "args": ["mcp"]}
PATH = ("mcpServers", "retain")

KEYS = st.one_of(
    st.sampled_from(["mcpServers", "retain", "a", "", "//", "/*", ",", "}", 'q"', "\\", "é", "\n"]),
    st.text(max_size=4),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["", "a // b", "/* x */"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)
SPACES = st.sampled_from(["", " ", "\n", "\r\n", "\n  ", "\t", "\n\n    ", "\r", "  \n"])
COMMENTS = st.sampled_from(["// c\n", '// }, "a": {\r\n', "/* c */", "/* \n, { */", "//\n", "/**/"])


@st.composite
def spelled(draw: st.DrawFn, value: object) -> str:
    """A value as JSON with any space, comments and trailing commas a person could write."""

    def gap() -> str:
        parts = [draw(SPACES)]
        if draw(st.integers(0, 5)) == 0:
            parts += [draw(COMMENTS), draw(SPACES)]
        return "".join(parts)

    def spell(one: object) -> str:
        if isinstance(one, dict):
            inner = [
                f"{gap()}{json.dumps(k)}{gap()}:{gap()}{spell(v)}{gap()}" for k, v in one.items()
            ]
            return _enclosed("{", inner, "}")
        if isinstance(one, list):
            return _enclosed("[", [f"{gap()}{spell(v)}{gap()}" for v in one], "]")
        return json.dumps(one, ensure_ascii=draw(st.booleans()))

    def _enclosed(first: str, inner: list[str], last: str) -> str:
        tail = "," + gap() if inner and draw(st.integers(0, 3)) == 0 else ""
        return f"{first}{','.join(inner) or gap()}{tail}{last}"

    return f"{draw(st.sampled_from(['', chr(0xFEFF)]))}{gap()}{spell(value)}{gap()}"


STYLES = st.sampled_from(
    [
        json.dumps,
        lambda value: json.dumps(value, separators=(",", ":")),
        lambda value: json.dumps(value, indent=2) + "\n",
        lambda value: json.dumps(value, indent=4).replace("\n", "\r\n"),
        lambda value: "\ufeff" + json.dumps(value, indent="\t"),
        lambda value: json.dumps(value, indent=0),
    ]
)
TEXTS = st.one_of(
    DOCUMENTS.flatmap(spelled), st.tuples(DOCUMENTS, STYLES).map(lambda pair: pair[1](pair[0]))
)


def missing(text: str) -> int | None:
    """How much of the path a text has already; None when nothing can or need be put in."""
    servers = jsonedit.load(text).get("mcpServers", ...)
    if servers is ...:
        return 0
    return 1 if isinstance(servers, dict) and "retain" not in servers else None


@given(TEXTS)
@example("{}")
@example("{\n}")
@example("\n{\r}")
@example('{"mcpServers": {}}')
@example('{"mcpServers": {\n}}')
@example('{\n  "a": 1, // the last\n}')
@example('{\n  "a": 1 // the last\n  // and more\n}')
@example("{ // nothing yet\n}")
@example('{"a": 1 /* c */}')
def test_put_in_and_taken_out_is_what_it_was(text: str) -> None:
    had = missing(text)
    if had is None:
        return
    new = jsonedit.insert(text, PATH, ENTRY)
    assert jsonedit.load(new)["mcpServers"]["retain"] == ENTRY
    assert jsonedit.remove(new, PATH, keep=had) == text


@given(TEXTS, KEYS, VALUES)
def test_only_that_key_changes_and_no_comment_goes(text: str, key: str, value: object) -> None:
    before = jsonedit.load(text)
    new = jsonedit.insert(text, (key,), value)
    assert jsonedit.load(new) == {**before, key: value}
    gone = jsonedit.remove(new, (key,))
    assert jsonedit.load(gone) == {name: one for name, one in before.items() if name != key}
    if key not in before:
        rest = iter(new)
        assert all(char in rest for char in text)  # all of it, in the order in which it stood
        assert gone == text


@given(TEXTS, KEYS)
def test_any_key_can_be_taken_out(text: str, key: str) -> None:
    before = jsonedit.load(text)
    for name in [*before, key]:
        after = jsonedit.load(jsonedit.remove(text, (name,)))
        assert after == {other: one for other, one in before.items() if other != name}


@given(TEXTS)
def test_put_in_twice_is_put_in_once(text: str) -> None:
    if missing(text) is None:
        return
    once = jsonedit.insert(text, PATH, ENTRY)
    assert jsonedit.load(jsonedit.insert(once, PATH, ENTRY)) == jsonedit.load(once)


def test_new_entry_is_indented_as_the_file_is() -> None:
    text = '{\n    "mcpServers": {\n        "other": {}\n    },\n    "theme": "x"\n}\n'
    assert jsonedit.insert(text, PATH, ENTRY) == (
        '{\n    "mcpServers": {\n        "other": {},\n        "retain": {\n'
        '            "command": "retain",\n            "args": [\n                "mcp"\n'
        '            ]\n        }\n    },\n    "theme": "x"\n}\n'
    )


def test_comment_stays_with_what_it_is_about() -> None:
    text = '{\n  // mine\n  "mcpServers": {\n    "a": {}, // first\n    "b": {} // second\n  }\n}\n'
    new = jsonedit.insert(text, PATH, {})
    assert '"b": {}, // second\n    "retain": {}\n  }' in new
    assert jsonedit.remove(new, PATH) == text


def test_empty_object_is_opened_over_lines() -> None:
    assert jsonedit.insert('{\n  "mcpServers": {}\n}\n', PATH, {}) == (
        '{\n  "mcpServers": {\n    "retain": {}\n  }\n}\n'
    )


def test_object_with_a_comment_is_not_taken_for_empty() -> None:
    text = '{"mcpServers": {"retain": {} /* do not touch */}}'
    assert jsonedit.remove(text, PATH) == '{"mcpServers": { /* do not touch */}}'


def test_member_after_a_line_comment_is_not_swallowed_by_it() -> None:
    text = '{ // c\n "retain": {}, "b": 2}'
    assert jsonedit.load(jsonedit.remove(text, ("retain",))) == {"b": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "{} {}",
        "{,}",
        '{"a": 1,, }',
        '{"a": [,]}',
        "{'a': 1}",
        "{a: 1}",
        '{"a": NaN}',
        '{"a": "unended}',
        '{"a": 1 /* unended }',
        '{"a": 1} / 2',
        '{"a":' * 100_000,
        "[" * 100_000,
        '{"a": "' + "\\" * 99_999,
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"mcpServers": {"retain": 1, "retain": 2}}',
        '{"a": "\x01"}',
    ],
    ids=lambda text: text[:30],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        jsonedit.insert(text, PATH, ENTRY)


@pytest.mark.slow
def test_large_file_is_no_trouble() -> None:
    text = json.dumps({"history": [{"n": n, "l": [n, "x"]} for n in range(40_000)]}, indent=2)
    new = jsonedit.insert(text, PATH, ENTRY)
    assert jsonedit.remove(new, PATH) == text


def test_what_is_shown_hides_what_servers_are_given() -> None:
    text = """\ufeff{ // mine
  "a": {"env" /* x */ : {"K": "hunter2", "N": [1], "on": true, "env": "b"}, "args": ["env"]},
  "b": {"headers": { // Authorization: hunter2
    "Authorization": "Bearer ${TOKEN}", /* hunter2 */ "X": "${T:-hunter2}", },},
}"""
    assert (
        jsonedit.masked(text)
        == """\ufeff{ // mine
  "a": {"env" /* *** */ : {"K": "***", "N": ["***"], "on": true, "env": "***"}, "args": ["env"]},
  "b": {"headers": { // ***
    "Authorization": "Bearer ${TOKEN}", /* *** */ "X": "***", },},
}"""
    )


@given(DOCUMENTS)
def test_what_is_shown_is_otherwise_the_text(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert jsonedit.masked(text) == text
