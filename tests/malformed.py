"""Files that people, editors and accidents leave in a bank.

Each is a name, the file's bytes, and a word of its text that a reader must still be able to find.
`BROKEN` cannot be parsed, so nothing may change them; `ODD` can, but deserve a mention.
"""

from __future__ import annotations

from typing import Final

WORD: Final = "halcyon"
_BODY: Final = f"\n# Title\n\nThe {WORD} text.\n"


def _head(yaml: str, body: str = _BODY) -> bytes:
    return f"---\n{yaml}---\n{body}".encode()


BROKEN: Final[dict[str, bytes]] = {
    "unclosed.md": f"---\ntitle: x\n{_BODY}".encode(),
    "unclosed-long.md": f"---\ntitle: x\n{_BODY}{'more ' * 20_000}".encode(),
    "only-dashes.md": b"---",
    "only-open.md": b"---\n",
    "indented-close.md": f"---\ntitle: x\n ---\n{_BODY}".encode(),
    "lone-cr.md": f"---\rtitle: x\r---\r\r{WORD}\r".encode(),
    "mixed-cr.md": f"---\rtitle: x\r\n---\r\n{WORD}\r\n".encode(),
    "colon-in-title.md": _head("title: Foo: bar\n"),
    "at-sign.md": _head("title: @x\n"),
    "backtick.md": _head("title: `x`\n"),
    "percent.md": _head("%title: x\n"),
    "tab-indent.md": _head("tags:\n\t- a\n\t- b\n"),
    "tab-value.md": _head("a:\n  b: 1\n\tc: 2\n"),
    "key-twice.md": _head("title: a\ntitle: b\n"),
    "nested-key-twice.md": _head("content:\n  a: 1\n  a: 2\n"),
    "head-list.md": _head("- a\n- b\n"),
    "head-text.md": _head("just some words\n"),
    "head-number.md": _head("42\n"),
    "head-quoted.md": _head("'title: x'\n"),
    "open-quote.md": _head('title: "x\n'),
    "open-list.md": _head("tags: [a, b\n"),
    "open-map.md": _head("a: {b: c\n"),
    "extra-bracket.md": _head("tags: [a]]\n"),
    "bad-indent.md": _head("a: 1\n  b: 2\n"),
    "bad-dedent.md": _head("a:\n    b: 1\n  c: 2\n"),
    "bad-escape.md": _head('title: "\\q"\n'),
    "half-character.md": _head('title: "\\ud800"\n'),
    "tag.md": _head("title: !!python/object/apply:os.getcwd []\n"),
    "custom-tag.md": _head("title: !secret x\n"),
    "alias.md": _head("a: &x [1]\nb: *x\n"),
    "unknown-alias.md": _head("a: *nothing\n"),
    "merge.md": _head("a: &x {b: 1}\nc:\n  <<: *x\n"),
    "complex-key.md": _head("? [a, b]\n: c\n"),
    "map-as-key.md": _head("{a: b}: c\n"),
    "second-document.md": _head("a: 1\n...\n%YAML 1.1\n--- \nb: 2\n"),
    "nul-in-head.md": _head("title: a\x00b\n"),
    "bell-in-head.md": _head("title: a\x07b\n"),
    "deep.md": _head(f"a: {'[' * 2000}{']' * 2000}\n"),
    "huge-head.md": _head("# comment\n" * 7000),
    "invalid-utf8.md": _head("title: x\n").replace(b"text", b"t\xffxt"),
    "latin-1.md": f"---\ntitle: caf\xe9\n---\n\n{WORD}\n".encode("latin-1"),
    "utf-16.md": f"---\ntitle: x\n---\n\n{WORD}\n".encode("utf-16"),
    "cut-utf8.md": f"{WORD} caf\xe9".encode()[:-1],
    "bom-broken.md": b"\xef\xbb\xbf" + _head("title: [x\n"),
    "crlf-broken.md": _head("title: a: b\n").replace(b"\n", b"\r\n"),
    "record-cut.json": f'{{"id": "cut", "content": {{"rule": "{WORD}"'.encode(),
    "record-empty.json": b"",
    "record-list.json": f'["{WORD}"]'.encode(),
    "record-twice.json": f'{{"a": "{WORD}", "a": 2}}'.encode(),
    "record-nan.json": f'{{"a": NaN, "b": "{WORD}"}}'.encode(),
    "record-digits.json": f'{{"b": "{WORD}", "a": {"9" * 5000}}}'.encode(),
    "record-deep.json": f'{{"b": "{WORD}", "a": {"[" * 100_000}{"]" * 100_000}}}'.encode(),
    "record-deepish.json": f'{{"b": "{WORD}", "content": {"[" * 500}{"]" * 500}}}'.encode(),
    "record-half.json": f'{{"b": "{WORD}", "title": "\\ud800"}}'.encode(),
    "record-utf-16.json": f'{{"b": "{WORD}"}}'.encode("utf-16"),
    "record-comma.json": f'{{"b": "{WORD}",}}'.encode(),
}

ODD: Final[dict[str, bytes]] = {
    "empty.md": b"",
    "blank.md": b" \n\t\r\n \n",
    "bom-only.md": b"\xef\xbb\xbf",
    "nul.md": f"a\x00b {WORD}".encode(),
    "utf-16-bare.md": WORD.encode("utf-16-le"),
    "second-head.md": _head("a: 1\n", f"---\nb: 2\n---\n{_BODY}"),
    "second-head-after-blank.md": _head("a: 1\n", f"\n---\nb: 2\n---\n{_BODY}"),
    "bad-date.md": _head("created_at: 2026-13-45\n"),
    "bad-time.md": _head("updated_at: yesterday\n"),
    "number-for-a-date.md": _head("created_at: 20261345\n"),
    "other-id.md": _head("id: something-else\n"),
    "CON.md": _head("title: x\n"),
    "dot..md": _head("title: x\n"),
    "new\nline.md": _head("title: x\n"),
    "zero\u200bwidth.md": _head("title: x\n"),
    "left\u202eright.md": _head("title: x\n"),
    f"{'n' * 252}.md": _head("title: x\n"),
}

# What looks dangerous and is nothing to mention: these read as they are.
FINE: Final[dict[str, bytes]] = {
    "bom.md": b"\xef\xbb\xbf" + _head("title: x\n"),
    "crlf.md": _head("title: x\n").replace(b"\n", b"\r\n"),
    "rule.md": f"----\n\n{WORD}\n".encode(),
    "bare.md": WORD.encode(),
    "no-final-newline.md": f"---\na: 1\n---\n{WORD}".encode(),
    "empty-head.md": _head(""),
    "comment-head.md": _head("# nothing\n"),
    "word-date.md": _head("due: 2026-13-45\n"),
    "digits.md": _head(f"a: {'9' * 5000}\n"),
    "merge-word.md": _head("<<: x\n"),
    "bare-cr.md": f"a\r{WORD}\r".encode(),
    "trailing-space.md": _head("title: x   \n").replace(b"---\n", b"---  \n"),
    "emoji-\U0001f469.md": _head("title: \U0001f600\n"),
}
