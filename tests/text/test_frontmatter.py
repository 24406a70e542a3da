"""YAML heads: the quick reader and the YAML reader agree, and a change touches one key only."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from retain.errors import LimitExceeded, Unreadable
from retain.text import frontmatter
from retain.text.frontmatter import MAX_CHARS, MAX_DEPTH, change, dump, is_deep, load, same, split
from tests.conftest import ROOT

TRICKY = (
    "yes no on off y n Yes NO true True false null Null NULL ~ nan inf .inf .nan -.inf "
    "1e3 1.5e3 1.5e+3 1e400 0x1f 0o17 012 -012 +1 -1 - -- --- ... 12:30 1:2:3 2026-01-01 "
    "2026-11-15T18:00:00Z 2026-13-45 [a] {a} *x &x !x !!int @x `x %x |x >x |- >+ ?x #x "
    "a:b a: :a a#b a? a?b a! a& a* a| a> a% a@ a` << "
    "= - ' \" '' \"\" \\ \\n 1_000 0b1 .5 5. 1. 1.5 _1 /x ? ; , a,b [] {}"
).split() + [
    "", " ", "a ", " a", "- x", "a: b", "a #b", "# a", "? x", "a, b", "x\ty", "\t", "x\ny", "\n",
    "x\n", "x\n\n", "\nx", "x\n y\nz", " x\ny", "x \ny", "x\n---\ny", "a\r\nb", "\r", "x\u0085y",
    "x\u2028y\n", "x\u2029", "\ufeffx", "x\ufeff", "\u200b", "\ud7ff\ue000\ufffd", "\U0010ffff",
    "👩‍💻", "\x00", "\x1b[31m", "\x7f", "　x　", "x\u00a0", "naïve", "日本語", "мир", "x" * 300,
]  # fmt: skip

# Scalars, spelt in ways a quick reader could get wrong.
SPELLINGS = [
    *(text for text in TRICKY if "\n" not in text and len(text) < 40),
    *"'a' \"b\" 'it''s' \"a\\tb\" \"\\u00e9\" 'a \"a \"a\"b 'a'b a'b a\"b [a,b]".split(),
    *"[a,] [,a] a]".split(),
    "[a, b]", "[ a , 'b' ]", '["a, b"]', "['a, b', c]", "[]", "[ ]", "[[a]]", "[a: b]", "{a: b}",
    "[a #b]", "[a]b", "[a", "[-1, 1.0, true, ~]", "[a, - b]", "['a': b]", "[a?b]", "[*a]", "[a: ]",
    "a b", "a  b", "'a' ", "a # c", "'a' # c", "a\t# c", "a\tb", "!!str a", "! a", "&x a", "*x",
    "|", ">", "|-", "| # c", "- a", "? a", ": a", ":", "a:", "a::b", "http://x.y/z#a", "C:\\x",
    "é: x", "a\u00a0b", "a\u3000", "a\u0085b", "a\u2028b", "\ufeffa", "a\x00", "a\x07", "a\rb: c",
    "1" * 18, "1" * 19, "9" * 120, "1." + "0" * 60, "1.0e999", "x" * 1100, "k: " + "x" * 1100,
]  # fmt: skip
KEYS = [
    *"a b title a-b a_b A9 _x 1 1.0 true null ~ yes << 'q' \"q\" 'a' a.b a:b é -a ? &x".split(),
    *"!t *a %a . [] {} # - : @".split(),
    "a b", "a ", "", "k" * 130, "k" * 1100, "a\tb",
]  # fmt: skip
ODD = [
    *(pad + text for text in SPELLINGS for pad in ("", "  ", "- ", "  - ", "c: ", " d: ", "# ")),
    *(f"{key}:{gap}" for key in KEYS for gap in ("", " ", "x", " x", "  'x'", "\t", "\tx", " \t")),
    *("", " ", "\t", "#", " # c", "...", "---", "%YAML 1.1", ": x", "-", "- ", "- - a", "- a: b"),
]
PLAIN = "a: x,b: 'y',e:,- x,- y,  - z,# c,,f: [x],g: 1.5,h: ".split(",")
ENDS = ["\n", "\n", "\r\n", "\r"]


def heads(odd: int) -> st.SearchStrategy[str]:
    """Heads of ordinary lines with one odd line in `odd` among them."""
    line, plain = st.sampled_from(ODD), st.sampled_from(PLAIN)
    return st.builds(
        lambda lines, newline, last: newline.join(lines) + last,
        st.lists(st.one_of(*[plain] * odd, line), max_size=7),
        st.sampled_from(ENDS),
        st.sampled_from(["\n", "\n", "", "\r"]),
    )


WORDS = st.one_of(
    st.sampled_from(TRICKY),
    st.text(max_size=12),
    st.text(alphabet=" :#-'\"[]{},&*!|>%@`?\n\t\r~ay01.eE+_\u0085\u2028\ufeff", max_size=8),
)
SCALARS = st.one_of(
    WORDS,
    st.none(),
    st.booleans(),
    st.integers(-(10**60), 10**60),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
METADATA = st.dictionaries(WORDS, VALUES.filter(lambda value: value is not None), max_size=5)


def readable(head: str) -> dict[str, object] | None:
    try:
        return load(head)
    except Unreadable:
        return None


def times(factor: int) -> settings:
    """More examples than usual, for work of a few microseconds."""
    usual = settings().max_examples
    return settings(max_examples=factor * usual, suppress_health_check=list(HealthCheck))


def is_quick(head: str) -> bool:
    """Whether the quick reader answers, which then has to be the YAML reader's answer."""
    try:
        quick = frontmatter._load_plain(head)
    except frontmatter._NotPlain:
        return False
    assert same(quick, frontmatter._load_yaml(head).values), head
    return True


def test_quick_reader_answers_as_the_yaml_reader_around_every_odd_line() -> None:
    frames = ["{}", "a: x\n{}\nb: y", "e:\n{}", "e:\n- x\n{}\n- y", "e:\n  - x\n{}\nf: y"]
    answers = [
        is_quick(frame.format(line).replace("\n", newline) + newline)
        for frame in [*frames, "e: [x, {}]", "e: [{}]"]
        for line in ODD
        for newline in ("\n", "\r\n")
    ]
    assert len(answers) > 10_000
    assert sum(answers) > 1_000
    for head in ("# a\rb: c\n", "#\u0085b: c\n", "# \x01\n", "k" * 1100 + ": x\n"):
        is_quick(head)
    assert is_quick("id: gpu\ntitle: GPU patterns\ntags: [gpu]\ncreated_at: 2026-11-15T18:00:00Z\n")


@pytest.mark.parametrize(
    "head",
    [
        "a: no\nb: 012\nc: 12:30\nd: 2026-01-01\ne: 0x1f\nf: 1e3\ng: 1_000\nh: 2026-13-45\n",
        "true: a\n1.0: b\n~: c\n'': d\n<<: e\n",
        *(f"a: {'9' * digits}\nb: {'8' * digits}\n" for digits in (101, 4300, 5000, 30_000)),
    ],
    ids=["words", "keys", "101", "4300", "5000", "30000"],
)
def test_words_keys_and_endless_numbers_are_the_text_that_stands_there(head: str) -> None:
    lines = [line.split(": ") for line in head.splitlines()]
    assert load(head) == {key.strip("'"): value for key, value in lines}


@times(1)
@given(METADATA, st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_reads_back_here_and_in_any_yaml_reader(
    meta: dict[str, object], newline: str
) -> None:
    try:
        head = dump(meta, newline)
    except Unreadable:
        # A key of over a thousand characters has no short form in YAML, and nothing else fails.
        assert any(len(frontmatter.dump_scalar(key, flow=True)) > 1000 for key in meta)
        return
    assert same(load(head), meta)
    assert same(yaml.safe_load(head) or {}, meta)


def test_long_texts_are_written_line_by_line() -> None:
    head = dump({"content": {"rule": "One.\nTwo.\n", "impact": ["a", {"b": "c", "d": []}]}})
    assert head == (
        "content:\n  rule: |\n    One.\n    Two.\n  impact:\n    - a\n    - b: c\n      d: []\n"
    )


# Every part of a head that a change of `title` must leave alone.
BEFORE = st.sampled_from(
    [
        "", "# first\n", "a: 1\n", "a:   1   # why\n", "list:\n- x\n-   y # z\n",
        "list: [x,\n  y, # c\n  z]\n", "text: |\n  one\n\n  two\n\n\n",
        "text: >-\n    folded\n    text\n", "map:\n    deep:   {k: v}\n    other:\n        - 1\n",
        "'quoted key' : 'it''s'\n", "? explicit\n: value\n", "empty:\n", "empty:    \n",
        "plain: over\n  two lines\n", "é: 日本語 👩‍💻\n", "date: 2026-01-01\n\n\n",
        "anchor: &a x\n",
    ]
)  # fmt: skip
TITLES = st.sampled_from(
    [
        "title: old", "title:   old   ", "title: old # comment", "title: 'o''ld'",
        'title: "old\\n"', "title:", "title: ", "title: |\n  old\n  older", "title: >+\n  old\n\n",
        "title: [a,\n  b]", "title: {a: b}", "title:\n  - a\n  - b # c",
        "title:\n  # above\n  - a", "title: # beside\n  a: 1", "title:\n  a:\n    b: c",
        "title: old\n  goes on", "'title': old", "title : old", "title: old\u3000",
        "title: &x old", "? title\n: old",
    ]
)  # fmt: skip


@times(1)
@given(st.lists(BEFORE, max_size=3), TITLES, st.lists(BEFORE, max_size=3), VALUES, st.booleans())
def test_changing_one_key_leaves_every_other_byte(
    above: list[str], title: str, below: list[str], value: object, crlf: bool
) -> None:
    before, after = "".join(above), "".join(below)
    head = f"{before}{title}\n{after}"
    if crlf:
        before, head, after = (text.replace("\n", "\r\n") for text in (before, head, after))
    old = readable(head)
    assume(old is not None)  # two of the parts may share a key
    assert old is not None
    new = change(head, {"title": value})
    assert new.startswith(before)
    assert new.endswith(after)
    for comment in ("# comment", "# above", "# beside"):
        assert value is None or (comment in title) == (comment in new[len(before) :])
    assert same(load(new), {**old, "title": value} if value is not None else without(old, "title"))
    # And back: what was changed can be changed again.
    assert same(load(change(new, {"title": "old"}))["title"], "old")


def without(values: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in values.items() if name != key}


@pytest.mark.parametrize(
    "head,changes,changed",
    [
        ("title: old   \nb: 1\n", {"title": "x\ny"}, 'title: "x\\ny"   \nb: 1\n'),
        ("a: 1\ncontext:\nb: 2\n", {"context": None}, "a: 1\nb: 2\n"),
        ("a: 1 # x\n", {"b": None}, "a: 1 # x\n"),
        ("a: 1\n", {"a": "1"}, 'a: "1"\n'),
        ("a: 1\n", {"a": True}, "a: true\n"),
        ("a: [x]\n# end\n", {"b": "c", "d": [1]}, "a: [x]\n# end\nb: c\nd: [1]\n"),
        (
            "a: 1\n",
            {"created_at": "2026-02-30T00:00:00Z"},
            'a: 1\ncreated_at: "2026-02-30T00:00:00Z"\n',
        ),
        (
            "a: 1\n",
            {"created_at": "2026-02-28T00:00:00Z"},
            "a: 1\ncreated_at: 2026-02-28T00:00:00Z\n",
        ),
    ],
)
def test_a_change_writes_just_this(head: str, changes: dict[str, object], changed: str) -> None:
    assert change(head, changes) == changed


def test_what_would_not_read_back_is_never_written() -> None:
    for number in (float("inf"), float("nan"), 10**200):
        with pytest.raises(Unreadable):
            dump({"a": number})
    with pytest.raises(Unreadable):
        change("{a: 1}\n", {"b": 2})
    with pytest.raises(LimitExceeded):
        dump({"context": "x" * MAX_CHARS})
    with pytest.raises(LimitExceeded):
        change("a: 1\n", {"context": "x" * MAX_CHARS})
    deep: object = "x"
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert is_deep({"a": deep})
    with pytest.raises(LimitExceeded):
        dump({"a": deep})
    assert isinstance(deep, list)
    assert load(dump({"a": deep[0]}))["a"] == deep[0]


@pytest.mark.parametrize(
    "text, parts",
    [
        ("", None), ("x", None), ("----\n", None), ("--- x\n---\n", None), (" ---\n---\n", None),
        ("---\n---\n", (4, 4, 8)), ("---\n---", (4, 4, 7)),
        ("---  \t\na: 1\n---  \n\nb", (7, 12, 19)), ("---\r\na: 1\r\n---\r\n\r\nb", (5, 11, 18)),
        ("---\n---\n\n\nb", (4, 4, 9)), ("---\n ---\n---\nb", (4, 9, 13)),
    ],
)  # fmt: skip
def test_split_finds_the_head_and_the_body(text: str, parts: tuple[int, int, int] | None) -> None:
    assert split(text) == parts


@pytest.mark.parametrize(
    "text", ["---", "---\n", "---\na: 1", "---\n ---\n", "---\r", "---\ra: 1\r---\r"]
)
def test_split_refuses_a_head_that_is_not_closed(text: str) -> None:
    with pytest.raises(Unreadable):
        split(text)


BOMBS = {
    "alias bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{y}: &{y} [{','.join(['*' + x] * 9)}]\n" for x, y in pairwise("abcdefghi")),
    "merge bomb": "a: &a {x: 1}\nb: &b {<<: [*a, *a]}\nc: {<<: [*b, *b, *b]}\n",
    "python tag": "a: !!python/object/apply:os.system ['true']\n",
    "tagged key": "!!int 1: a\n",
    "binary tag": "a: !!binary aGk=\n",
    "second document": "a: 1\n---\nb: 2\n",
    "flow 2,000": "a: " + "[" * 2000 + "]" * 2000 + "\n",
    "flow 30,000": "a: " + "[" * 30000 + "]" * 30000 + "\n",
    "flow maps": "a: " + "{a: " * 15000 + "}" * 4000 + "\n",
    "open 60,000": "a: " + "[" * 60000 + "\n",
    "open over lines": "a: " + "[\n" * 30000 + "\n",
    "block 2,000": "a:\n  " + "- " * 2000 + "x\n",
    "block 30,000": "a:\n  " + "- " * 30000 + "x\n",
    "question 30,000": "? " * 30000 + "x\n",
    "question in flow": "a: {" + "? " * 30000 + "x}\n",
    "staircase": "".join(" " * level + "a:\n" for level in range(340)),
    "anchors": "a: " + "&x " * 20000 + "y\n",
    "tags": "a: " + "!x " * 20000 + "y\n",
    "1 MB": "a: x\n" + "# comment\n" * 100_000,
    "1 MB in one line": "a: " + "x" * 1_000_000 + "\n",
}  # fmt: skip


def test_no_head_can_end_the_process() -> None:
    """In a child with a small stack: a crash of the C parser would be its exit code."""
    code = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, 1 << 20))\n"
        "from retain.errors import Unreadable\n"
        "from retain.text.frontmatter import load\n"
        "from tests.text.test_frontmatter import BOMBS\n"
        "for head in BOMBS.values():\n"
        "    try:\n"
        "        load(head)\n"
        "    except Unreadable:\n"
        "        continue\n"
        "    sys.exit('accepted: ' + head[:60])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, b"")
