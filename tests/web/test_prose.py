"""Markdown that is hostile, endless or both comes out harmless, and soon."""

from __future__ import annotations

import cProfile
import html.parser
import json
import re
from collections.abc import Callable
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.sessions.model import Message
from retain.web import colours, contents, prose, spoken
from retain.web.colours import LANGUAGES, pieces
from retain.web.prose import marked, rendered
from tests.growth import grows_linearly

KNOWN = {
    *("a", "blockquote", "br", "code", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol"),
    *("p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
GIVEN = {"class", "href", "rel", "title", "start", "style"}
N = 100_000
ENDLESS = {
    "brackets": "[" * N,
    "wiki": "[[a|" * (N // 4),
    "links": "[a](" * (N // 4),
    "pictures": "![" * (N // 2),
    "emphasis": "*a_b" * (N // 4),
    "stars": "*" * N,
    "ticks": " ".join("`" * count for count in range(1, 440)),
    "quotes": ">" * N,
    "deep quotes": ("> " * 50 + "a\n") * (N // 101),
    "deep lists": "".join("  " * depth + "- a\n" for depth in range(400)),
    "references": "".join(f"[r{number}]: /x\n" for number in range(N // 12)),
    "a table": "|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n" + "|x\n" * 5_000,
    "angles": "<" * N,
    "entities": "&amp" * (N // 4),
    "fences": "```js\n" * (N // 6),
    "code": "```html\n" + "<a b=" * 3_900 + "\n```",
    "a word": "```bash\n<\u2039" + "a" * 19_000 + "\n```",
    "spaces": "```c\n$" + " " * 19_000 + "x\n```",
    "a book": "Some **bold** words with [a link](http://x.y) and `code`.\n\n" * 20_000,
}


class Seen(html.parser.HTMLParser):
    """What a text became: elements, and the addresses that they lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.wrong += [tag] if tag not in KNOWN else []
        for name, value in attrs:
            self.wrong += [f"{tag} {name}"] if name not in GIVEN else []
            self.links += [value or ""] if name == "href" else []

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"a comment: {data}")


def is_harmless(link: str) -> bool:
    return link.startswith(("http://", "https://", "mailto:", "/", "#", "?")) or ":" not in link


@given(st.text(alphabet=st.sampled_from(list("<>&\"'`[]()!*_#|\n -:/\\ajs;=~")), max_size=300))
def test_no_text_becomes_more_than_text(text: str) -> None:
    seen = Seen(rendered(text, lambda target: f"/memory/here/x/{target}" if "a" in target else ""))
    assert seen.wrong == []
    assert [link for link in seen.links if not is_harmless(link)] == []


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "&#106;avascript:alert(1)",
        "javascript&colon;alert(1)",
        "java&#x09;script:alert(1)",
        "java&Tab;script:alert(1)",
        "vbscript:x",
        "data:text/html,x",
        "data:image/svg+xml;base64,x",
        "file:///etc/passwd",
        "blob:x",
        "view-source:x",
        "//evil.example",
        "\\\\\\\\evil.example",
        "/\\\\evil.example",
    ],
)
def test_a_link_that_is_no_link_is_text(link: str) -> None:
    for text in (f"[a]({link})", f"[a](<{link}>)", f"<{link}>", f"[a][r]\n\n[r]: {link}"):
        assert Seen(rendered(text)).links == [], text
    assert Seen(rendered(f"![a]({link})")).links == []


def test_links_to_the_web_into_pages_and_to_memories_work() -> None:
    assert Seen(rendered("[a](https://x.example/y?z=1) <mailto:a@b.example>")).links == [
        "https://x.example/y?z=1",
        "mailto:a@b.example",
    ]
    assert Seen(rendered("[a](/graph#x)")).links == ["/graph#x"]
    found = rendered('[[it|"><b>]]', lambda target: f"/memory/{target}")
    assert found == '<p><a class="wiki" href="/memory/it">&quot;&gt;&lt;b&gt;</a></p>\n'


def test_a_link_that_nobody_looked_up_is_as_it_is_written() -> None:
    assert rendered("See [[tea|the <tea>]].") == "<p>See [[tea|the &lt;tea&gt;]].</p>\n"
    assert "There is no such memory" in rendered("[[tea]]", lambda _target: "")


class Counted(prose.Budget):
    """A budget of which a test sees what was spent."""

    made: ClassVar[list[Counted]] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[str, int]]:
    """What a text becomes, and in how many steps; of the clock there is as much as it takes."""
    monkeypatch.setattr(prose, "Budget", Counted)
    monkeypatch.setattr(prose, "_SECONDS", float("inf"))

    def count(text: str) -> tuple[str, int]:
        Counted.made.clear()
        made = rendered(text)
        (budget,) = Counted.made
        return made, budget._steps

    return count


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_text_has_an_end(
    name: str, counted: Callable[[str], tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prose, "_STEPS", 10_000)  # which each text that is not tame would pass
    made, steps = counted(ENDLESS[name])
    assert steps <= 10_000 + prose._EVERY
    assert Seen(made).wrong == []


def test_a_memory_of_many_fields_has_one_end_for_all_of_them(
    counted: Callable[[str], tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prose, "_STEPS", 10_000)
    monkeypatch.setattr(contents, "Budget", Counted, raising=False)
    Counted.made.clear()
    items = ["The **first** one.", *["*a_b" * 2_000] * 40, "The **last** one."]
    inner = {"context": "Some **words**.", "steps": items, "rows": [{"why": "*x* " * 4_000}] * 5}
    head = json.dumps({"id": "x", "type": "runbook", "content": inner})
    found = contents.content(contents.parsed(".json", head), {})
    assert sum(one._steps for one in Counted.made) <= 10_000 + prose._EVERY
    steps = next(one for one in found.fields if one.kind == "steps").value
    assert "<strong>first</strong>" in steps[0]
    assert steps[-1] == '<pre class="as-written">The **last** one.</pre>\n'


def test_a_conversation_has_one_end_for_all_that_was_said(
    counted: Callable[[str], tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said last is what somebody wants to read."""
    monkeypatch.setattr(prose, "_STEPS", 10_000)
    monkeypatch.setattr(spoken, "Budget", Counted, raising=False)
    Counted.made.clear()
    said = ["The **first**.", *["*a_b" * 2_000] * 40, "The **last**."]
    when = "2026-11-01T08:00:00Z"
    messages = [
        Message(number, "x", "assistant", text, when, None, ()) for number, text in enumerate(said)
    ]
    first, *_, last = (one["html"] for one in spoken.dressed(spoken.outlined(messages)))
    assert sum(one._steps for one in Counted.made) <= 10_000 + prose._EVERY
    assert "<strong>last</strong>" in last
    assert first == '<pre class="as-written">The **first**.</pre>\n'


def calls(text: str) -> int:
    """How many functions are called for a text, which is the same on any machine."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        rendered(text)
    finally:
        profile.disable()
    return sum(one.callcount for one in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ENDLESS.keys() - {"a table"}))
def test_a_step_is_a_small_one(name: str, counted: Callable[[str], tuple[str, int]]) -> None:
    """Twice the text is about twice the work, within the steps as well as in their number."""
    text = ENDLESS[name][: N // 16]
    rendered(text[:1_000])  # what is made once is made now
    more = calls(text)
    assert more <= 2.5 * max(calls(text[: N // 32]), 1_000)
    assert more < 220 * N // 16


@pytest.mark.slow
def test_a_table_has_only_so_many_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more row is as many cells as there are columns."""
    monkeypatch.setattr(prose, "_SECONDS", 60.0)  # the cells are to end it, not the clock
    env = {"resolve": lambda _: "", "budget": prose.Budget()}
    tokens = prose._parser().parse(ENDLESS["a table"], env)
    assert len([one for one in tokens if one.type in ("td_open", "th_open")]) < 70_000


def test_a_text_whose_steps_are_slow_ends_by_the_clock(
    monkeypatch: pytest.MonkeyPatch, counted: Callable[[str], tuple[str, int]]
) -> None:
    monkeypatch.setattr(prose, "_SECONDS", -1.0)
    made, steps = counted("*<b>* " * 1_000)
    assert steps == prose._EVERY
    assert made.startswith('<pre class="as-written">*&lt;b&gt;*')
    code = f"```python\n{'a = 1 # <b>' * 10}\n```"
    assert "<span" not in counted(code)[0]


def test_what_is_too_long_is_shown_as_it_is_written() -> None:
    text = "**bold**\n\n" + "A line of words that goes on and on.\n" * 8_000 + "<b>the end</b>"
    made = rendered(text)
    assert made.startswith("<p><strong>bold</strong>")
    assert made.endswith("&lt;b&gt;the end&lt;/b&gt;</pre>\n")


def test_code_has_colours_and_every_letter() -> None:
    made = rendered('```python\ndef f(a: int) -> str: return "<b>"\n```')
    assert '<code class="language-python"><span class="k">def</span>' in made
    assert '<span class="s">&quot;&lt;b&gt;&quot;</span>' in made
    for language in sorted(LANGUAGES):
        code = "a = '<b>' # \"&\n\tif (x) { y }\n\n"
        seen = Seen(rendered(f"~~~{language}\n{code}~~~"))
        assert seen.wrong == [], language


def test_an_ordinary_piece_of_code_has_colours_to_its_end() -> None:
    lines = [f"def step_{number}(): return {number}  # one of many" for number in range(80)]
    made = rendered("```python\n" + "\n".join(lines) + "\n```")
    assert made.count('<span class="k">def</span>') == 80


@pytest.mark.parametrize(
    "info", ["x\tproposal", "x proposal", "python\tproposal", "x\u00a0proposal", 'x"y', "wiki", "é"]
)
def test_a_language_names_no_class_but_its_own(info: str) -> None:
    """Pages act upon classes: a text that could choose one would have a hand in that."""
    made = rendered(f"~~~{info}\nproposal()\n~~~")
    assert set(re.findall(r'class="([^"]*)"', made)) <= {"language-python"}


@given(st.text(alphabet=st.sampled_from(list("\"'`\\/*-<>!#{}[]()@+=:;$ \t\na1é"))))
def test_colours_leave_out_no_letter(code: str) -> None:
    for language in sorted(LANGUAGES):
        assert "".join(one.text for one in pieces(code, language)) == code, language


def test_colours_are_those_of_the_language() -> None:
    cases = {
        ("rust", "fn f<'a>(x: &'a str) {} // it's"): {"k": ["fn"], "c": ["// it's"]},
        ("js", "const a = `x\ny`; /* b */"): {"k": ["const"], "s": ["`x\ny`"], "c": ["/* b */"]},
        ("yaml", "url: http://x.y # it's\nn: 1"): {"k": ["url", "n"], "c": ["# it's"], "mi": ["1"]},
        ("sql", "SELECT 1 -- x"): {"k": ["SELECT"], "mi": ["1"], "c": ["-- x"]},
        ("diff", "-a 1\n+b\n c"): {"k": ["-a 1"], "s": ["+b"]},
        ("html", '<!-- a --><p class="b">c</p>'): {
            "c": ["<!-- a -->"],
            "k": ["<p", ">", "</p", ">"],
            "s": ['"b"'],
        },
        ("sh", 'curl "a" b#c # d'): {"s": ['"a"'], "c": ["# d"]},
        ("python", '"""a\nb"""\nx = 1'): {"s": ['"""a\nb"""'], "mi": ["1"]},
    }
    for (language, code), wanted in cases.items():
        found: dict[str, list[str]] = {}
        for kind, text in pieces(code, language):
            if kind:
                found.setdefault(kind, []).append(text)
        assert found == wanted, language


TIRING = [
    *r"' ` \ \" '\{ 'a / /* * // # ;# - -- {- --[[ ] < <!-- <a <a.b= @ @a $ a a. a- a:".split(),
    *(
        "true",
        "true-",
        "1",
        "1.",
        "é=",
        '"',
        '"' * 3,
        "'" * 3,
        " ",
        "\t",
        "\n",
        '"\n',
        "+\n",
        "-\n",
    ),
    *("a ", "a" + " " * 8, "$" + " " * 40),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "language", {colours._pattern(one): one for one in sorted(LANGUAGES)}.values()
)
def test_no_code_keeps_the_colours_busy(language: str) -> None:
    """Whatever a text begins, it is as much work as it is long; one language of each kind."""

    def run(code: str) -> object:
        return sum(1 for _ in pieces(code, language))

    for unit in TIRING:
        for start in ("", "<\u2039", '"'):
            text = start + unit * (prose._MOST_COLOURED // len(unit))
            assert grows_linearly(run, text), (start, unit)


def test_words_are_marked_and_nothing_else() -> None:
    assert marked("<b>Kettles</b> & kettle", ["kettle"]) == (
        "&lt;b&gt;<mark>Kettles</mark>&lt;/b&gt; &amp; <mark>kettle</mark>"
    )
    assert marked("a <script>", ["(", "\\", "a|", "[a-z]", ".*"]) == "a &lt;script&gt;"
    many = [f"word{number}" for number in range(50_000)]
    assert "<mark>word1</mark>" in marked("word1 " * 1_000, many)
