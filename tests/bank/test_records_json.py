"""JSON records: the same promises as Markdown, in another spelling."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from retain.bank import records_json
from retain.errors import Unreadable
from retain.text.frontmatter import same
from tests.text.test_frontmatter import TRICKY, VALUES

RECORDS = st.dictionaries(
    st.sampled_from(["id", "category", "record_status", "title", "content", "a", *TRICKY[:20]]),
    VALUES,
    max_size=5,
)
STYLES = st.sampled_from(
    [
        json.dumps,
        lambda record: json.dumps(record, ensure_ascii=False, separators=(",", ":")),
        lambda record: json.dumps(record, indent=2) + "\n",
        lambda record: json.dumps(record, indent=4, ensure_ascii=False).replace("\n", "\r\n"),
        lambda record: "\ufeff" + json.dumps(record, indent="\t"),
        lambda record: json.dumps(record, indent=0).replace(":", " :\n"),
    ]
)


@given(RECORDS, STYLES, st.sampled_from(["title", "new", "type", "status", "a"]), VALUES)
def test_a_changed_key_is_all_that_changes(
    record: dict[str, object], style: Callable[[object], str], key: str, value: object
) -> None:
    text = style(record)
    try:
        assume(json.loads(text.removeprefix("\ufeff")) == record)  # a style may reach into strings
    except ValueError:
        assume(False)
    data = text.encode()
    assert records_json.edit(data, {}) == data
    theirs = {"type": "category", "status": "record_status"}.get(key, key)
    new = records_json.edit(data, {key: value})
    found = json.loads(new.decode("utf-8-sig"))
    wanted = {name: item for name, item in record.items() if name != theirs}
    if value is not None:
        wanted[theirs] = value
    assert same(found, wanted)
    assert new.startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    kept = [name for name in record if name in wanted]
    assert [name for name in found if name in record] == kept
    assert new.endswith(b"\n") == data.endswith(b"\n")
    if b"\r\n" in data:
        assert new.count(b"\n") == new.count(b"\r\n")


def test_content_reads_as_text() -> None:
    content = {"rule": "Always.", "impact": ["a", {"kind": "x"}], "why_not": {"a": [1, 2]}}
    body = records_json.parse(json.dumps({"content": content}).encode()).body
    assert body == "Rule: Always.\nImpact:\n- a\n- kind: x\nWhy not: a: 1, 2"


def test_a_new_key_is_written_as_its_neighbours_are() -> None:
    assert records_json.edit(b'{\r\n\t"a": 1\r\n}', {"b": [1]}) == (
        b'{\r\n\t"a": 1,\r\n\t"b": [\r\n\t\t1\r\n\t]\r\n}'
    )
    assert records_json.edit(b'{"a": 1}', {"b": [1]}) == b'{"a": 1, "b": [1]}'
    assert records_json.edit(b"{}", {"b": 1}) == b'{"b": 1}'


def test_new_content_is_a_json_object_or_refused() -> None:
    assert (
        records_json.edit(b'{"content": {}}', {}, '{"rule": "x"}') == b'{"content": {"rule": "x"}}'
    )
    for text in ("plain text", "[1]", "[" * 100_000, "{"):
        with pytest.raises(Unreadable):
            records_json.edit(b'{"content": {}}', {}, text)


BAD = {
    "empty": b"",
    "cut off": b'{"a": 1',
    "a list": b"[1, 2]",
    "trailing comma": b'{"a": 1,}',
    "key twice": b'{"a": 1, "a": 2}',
    "nested key twice": b'{"content": {"a": 1, "a": 2}}',
    "not a number": b'{"a": NaN}',
    "a number that no float holds": b'{"a": 1e999}',
    "5,000 digits": b'{"a": ' + b"9" * 5000 + b"}",
    "half a character": b'{"title": "\\ud800"}',
    "invalid UTF-8": b'{"a": "\xff"}',
    "nested 100,000": b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_is_all_body_and_is_never_edited(name: str) -> None:
    document = records_json.parse(BAD[name])
    assert document.problem
    assert document.meta == {}
    assert document.body == BAD[name].decode("utf-8", "replace")
    for changes, body in (({"a": "b"}, None), ({}, None), ({}, '{"a": 1}')):
        with pytest.raises(Unreadable):
            records_json.edit(BAD[name], changes, body)


@given(st.binary(max_size=40) | st.text(alphabet='{}[]",:0aé\\u \n', max_size=30).map(str.encode))
@example(b'{"\\uD800": 1}')
def test_any_bytes_are_read_or_named_as_a_problem(data: bytes) -> None:
    document = records_json.parse(data)
    document.body.encode()
    if not document.problem:
        assert records_json.edit(data, {}) == data
