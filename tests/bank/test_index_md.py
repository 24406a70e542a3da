"""index.md: one line per file, whatever a title says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.bank.index_md import (
    HEADER,
    Line,
    clean_title,
    differences,
    format_line,
    parse,
    parse_line,
    refresh,
    render,
)

# How the tool that made these stores reads a line.
ORIGINAL = re.compile(r"^-\s+\[([A-Z_]+)\]\s+(.+?)\s+->\s+(\S+)(?:\s+#tags:(.+))?$")

SQLITE = Line("DECISION", "Use SQLite", "m/decisions/use-sqlite.json", ("db", "sql"))
CACHE = Line("CONSTRAINT", "cache is small", "m/constraints/cache.json")
API = Line("CONSTRAINT", "API has a quota", "m/constraints/api.json", ("api",))

HOSTILE = st.lists(
    st.sampled_from(
        ["->", " -> ", "#tags:", "#tag", "s:", "-", ">", " ", "\n", "\r", "\u2028", "\x0b", "\x85",
         "- [DECISION] x -> evil.json", "evil.json", ",", "\u200b", "\u202e", "[", "]", "\u3000",
         "👩\u200d🔧", "\ud800", "\U000e0041", "é", "a"]
    ),
    max_size=12,
).map("".join)  # fmt: skip
TITLES = st.one_of(st.text(max_size=60), HOSTILE)
TAGS = st.lists(TITLES, max_size=4).map(tuple)
WORDS = st.text(alphabet="abc-09 _#>é\u3000.", max_size=12)
PATHS = st.builds("m/{}/{}.json".format, WORDS, st.from_regex(r"[a-z0-9-]{1,9}", fullmatch=True))


@pytest.mark.parametrize(
    "line,text",
    [
        (SQLITE, "- [DECISION] Use SQLite -> m/decisions/use-sqlite.json #tags:db,sql"),
        (CACHE, "- [CONSTRAINT] cache is small -> m/constraints/cache.json"),
        (
            Line("TECH_DEBT", "a", "my notes/a.json", ("x",)),
            "- [TECH_DEBT] a -> my notes/a.json #tags:x",
        ),
        (Line("PLAN-2", "a", "p.json"), "- [PLAN-2] a -> p.json"),
        (Line("D", "a", "x -> y/p.json", ("t",)), "- [D] a -> x -> y/p.json #tags:t"),
    ],
)
def test_line_is_written_and_read_back(line: Line, text: str) -> None:
    assert format_line(line) == text
    assert parse_line(text) == line


@pytest.mark.parametrize(
    "text,line",
    [
        (
            "-   [DECISION]\tA  title   ->   p.json   #tags:a",
            Line("DECISION", "A  title", "p.json", ("a",)),
        ),
        ("  - [DECISION] a -> p.json\r\n", Line("DECISION", "a", "p.json")),
        (
            "- [DECISION] a -> p.json #tags:One, two ,,three",
            Line("DECISION", "a", "p.json", ("one", "two", "three")),
        ),
        ("- [DECISION] a -> p.json #tags:", Line("DECISION", "a", "p.json")),
        ("- [DECISION] -> x -> p.json", Line("DECISION", "-> x", "p.json")),
        ("- [decision] a -> p.json", None),
        ("- [DECISION] a", None),
        ("- [DECISION] -> p.json", None),
        ("- [DECISION] a -> #tags:b", None),
        ("- [DECISION] a -> p\x1b.json", None),
        ("* [DECISION] a -> p.json", None),
        ("# Memory Index", None),
        ("", None),
    ],
)
def test_line_is_read_as_laxly_as_the_original_did(text: str, line: Line | None) -> None:
    assert parse_line(text) == line


@pytest.mark.parametrize(
    "title,shown",
    [
        ("a -> b", "a - b"),
        ("-> b ->", "- b -"),
        ("a\u00a0->\u3000b", "a - b"),
        ("a->b", "a->b"),
        ("a -#tags:> b", "a - b"),
        ("x #tags:y", "x y"),
        ("#tag#tags:s:evil", "evil"),
        ("#ta\u200bgs:evil", "evil"),
        ("a\nb\tc\u2028d", "a b c d"),
        ("\x00a\x1b[31m\x7f", "a[31m"),
        ("a\u202eb\u2066c\ufeff\u200b", "abc"),
        ("a\u200db", "ab"),
        ("می\u200cبینم 👩\u200d🔧", "می\u200cبینم 👩\u200d🔧"),
        ("  a   b ", "a b"),
    ],
)
def test_title_is_made_harmless(title: str, shown: str) -> None:
    assert clean_title(title) == shown
    assert format_line(Line("D", title, "p.json")) == f"- [D] {shown} -> p.json"


@pytest.mark.parametrize(
    "line,text",
    [
        (Line("D", "", "m/use-sqlite.json"), "- [D] use-sqlite -> m/use-sqlite.json"),
        (Line("D", "\u200b\n", "m/a.json"), "- [D] a -> m/a.json"),
        (Line("D", "", "->"), "- [D] untitled -> ->"),
        (Line("my kind", "a", "p.json"), "- [MY_KIND] a -> p.json"),
        (Line("", "a", "p.json"), "- [_] a -> p.json"),
        (
            Line("D", "a", "p.json", ("x,y", "", "#tags:", "x y", "z")),
            "- [D] a -> p.json #tags:x y,z",
        ),
    ],
)
def test_what_is_missing_or_out_of_form_still_gives_a_line_that_parses(
    line: Line, text: str
) -> None:
    assert format_line(line) == text
    assert parse_line(text) is not None


@pytest.mark.parametrize(
    "path",
    ["", " ", "x #tags:y.json", "a\nb.json", "a\tb", "a\u2028b", " a", "a ", "\udcff", "a\u202eb"],
)
def test_path_that_cannot_stand_in_a_line_is_refused_and_reported_as_not_listed(path: str) -> None:
    line = Line("D", "a", path)
    with pytest.raises(ValueError, match="cannot stand in an index"):
        format_line(line)
    assert render([line]) == HEADER
    assert differences(render([line]), [line]) == ([path], [])


def test_index_has_the_header_and_is_sorted_by_category_title_and_path() -> None:
    twin = API._replace(path="m/constraints/aaa.json", title="api HAS a quota")
    assert render([SQLITE, CACHE, API, twin]).split("\n") == [
        "# Memory Index",
        "",
        "<!-- Auto-generated by memory_index.py. Do not edit manually. -->",
        "",
        "- [CONSTRAINT] api HAS a quota -> m/constraints/aaa.json #tags:api",
        "- [CONSTRAINT] API has a quota -> m/constraints/api.json #tags:api",
        "- [CONSTRAINT] cache is small -> m/constraints/cache.json",
        "- [DECISION] Use SQLite -> m/decisions/use-sqlite.json #tags:db,sql",
        "",
    ]


def test_refreshing_a_generated_index_is_rendering_it() -> None:
    for old in ("", HEADER, render([API]), render([API, SQLITE]).replace("\n", "\r\n")):
        assert refresh(old, [CACHE, SQLITE]) == render([CACHE, SQLITE])
    assert refresh(render([API]), []) == HEADER


def test_lines_that_a_person_wrote_stay_above_the_entries() -> None:
    old = (
        f"{HEADER}Read the decisions first.  \n\n- a plain point\n\n{render([API])[len(HEADER) :]}"
    )
    new = refresh(old, [SQLITE])
    assert new == (
        f"{HEADER}Read the decisions first.  \n\n- a plain point\n\n{format_line(SQLITE)}\n"
    )
    assert refresh(new, [SQLITE]) == new


def test_refreshing_resolves_a_merge_conflict() -> None:
    one, other = format_line(API), format_line(CACHE)
    old = f"{HEADER}<<<<<<< HEAD\n{one}\n||||||| base\n=======\n{other}\n>>>>>>> topic\n"
    assert refresh(old, [API, CACHE]) == render([API, CACHE])


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x0b", "\x0c", "\x1e", "\x85"])
def test_only_a_newline_ends_a_line(separator: str) -> None:
    text = f"- [DECISION] a{separator}- [DECISION] forged -> evil.json -> real.json"
    assert [line.title.startswith("a") for line in parse(text)] == [True]


def test_differences_name_files_not_listed_and_entries_without_a_file() -> None:
    other = Line("RUNBOOK", "Restart", "m/runbooks/restart.json")
    text = render([API, CACHE])
    assert differences(text, [API, CACHE]) == ([], [])
    assert differences(text, [SQLITE, other]) == (
        ["m/decisions/use-sqlite.json", "m/runbooks/restart.json"],
        ["m/constraints/api.json", "m/constraints/cache.json"],
    )


def test_a_doubled_entry_is_one_without_a_file() -> None:
    text = f"{render([API, SQLITE])}{format_line(API)}\n"
    assert differences(text, [API, SQLITE]) == ([], [API.path])
    other = format_line(API._replace(title="API has no quota"))
    assert differences(f"{render([API])}{other}\n", [API]) == ([], [API.path])
    assert differences(f"{text}{format_line(API)}\n", [SQLITE]) == ([], [API.path])


@pytest.mark.parametrize(
    "line",
    [
        SQLITE._replace(title="Use something else"),
        SQLITE._replace(tags=("db",)),
        SQLITE._replace(tags=("db", "sql", "x")),
        SQLITE._replace(tags=()),
        SQLITE._replace(display="RUNBOOK"),
    ],
)
def test_an_entry_that_says_something_else_than_its_file_is_missing_and_stale(line: Line) -> None:
    assert differences(render([API, line]), [API, SQLITE]) == ([SQLITE.path], [SQLITE.path])
    assert differences(render([line, API]) + format_line(line), [API, SQLITE]) == (
        [SQLITE.path],
        [SQLITE.path],
    )


@given(st.dictionaries(PATHS, st.tuples(TITLES, TAGS), max_size=5))
def test_no_title_or_tag_forges_a_line_or_a_path(
    files: dict[str, tuple[str, tuple[str, ...]]],
) -> None:
    lines = [Line("DECISION", title, path, tags) for path, (title, tags) in files.items()]
    text = render(lines)
    found = parse(text)
    assert sorted(line.path for line in found) == sorted(files)
    assert len(text.splitlines()) == 4 + len(files)
    for line in found:
        assert line.title == (clean_title(files[line.path][0]) or line.title)
    assert {line.display for line in found} <= {"DECISION"}
    assert differences(text, lines) == ([], [])
    assert refresh(text, lines) == text


@given(TITLES, TAGS)
def test_original_reads_the_same_file_from_a_line(title: str, tags: tuple[str, ...]) -> None:
    line = Line("DECISION", title, ".claude/memory/decisions/use-sqlite.json", tags)
    text = format_line(line)
    match = ORIGINAL.match(text)
    assert match
    assert match[3] == line.path
    ours = parse_line(text)
    assert ours
    assert (ours.title, ours.path) == (match[2], match[3])


@given(st.text(max_size=200))
def test_any_text_can_be_read_and_refreshed_for_good(text: str) -> None:
    new = refresh(text, [SQLITE])
    assert [line.path for line in parse(new)] == [SQLITE.path]
    assert refresh(new, [SQLITE]) == new
