"""Markdown that is hostile, endless or both comes out harmless, and soon."""

from __future__ import annotations

import html.parser
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.sessions.model import Message
from retain.web import markdown, memory_view, message_view
from retain.web.markdown import LinkTarget, Renderer, render
from retain.web.rendering import _mark_words

KNOWN = {
    *(
        "a",
        "blockquote",
        "br",
        "button",
        "code",
        "div",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
    ),
    *("p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
GIVEN = {"aria-label", "class", "dir", "href", "rel", "title", "type", "start", "style"}
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
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.wrong += [tag] if tag not in KNOWN else []
        for name, value in attrs:
            self.wrong += [f"{tag} {name}"] if name not in GIVEN else []
            self.links += [value or ""] if name == "href" else []

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"a comment: {data}")


def is_harmless(link: str) -> bool:
    return link.startswith(("http://", "https://", "mailto:", "/", "#", "?")) or ":" not in link


@given(st.text(alphabet=st.sampled_from(list("<>&\"'`[]()!*_#|\n -:/\\ajs;=~")), max_size=300))
def test_no_text_becomes_more_than_text(text: str) -> None:
    seen = Seen(
        render(text, lambda target: LinkTarget(f"/memory/here/x/{target}" if "a" in target else ""))
    )
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
        assert Seen(render(text)).links == [], text
    assert Seen(render(f"![a]({link})")).links == []


def test_links_to_the_web_into_pages_and_to_memories_work() -> None:
    assert Seen(render("[a](https://x.example/y?z=1) <mailto:a@b.example>")).links == [
        "https://x.example/y?z=1",
        "mailto:a@b.example",
    ]
    assert Seen(render("[a](/graph#x)")).links == ["/graph#x"]
    found = render('[[it|"><b>]]', lambda target: LinkTarget(f"/memory/{target}", "It <i>"))
    assert found == '<p dir="auto"><a class="wiki" href="/memory/it">&quot;&gt;&lt;b&gt;</a></p>\n'
    titled = render("[[it]]", lambda target: LinkTarget(f"/memory/{target}", "It <i>"))
    assert titled == '<p dir="auto"><a class="wiki" href="/memory/it">It &lt;i&gt;</a></p>\n'


def test_a_link_that_nobody_looked_up_is_as_it_is_written() -> None:
    assert render("See [[tea|the <tea>]].") == '<p dir="auto">See [[tea|the &lt;tea&gt;]].</p>\n'
    assert "There is no such memory" in render("[[tea]]", lambda _target: LinkTarget())


@pytest.mark.slow
@pytest.mark.parametrize("name", ENDLESS)
def test_an_endless_text_comes_out_harmless(name: str) -> None:
    assert Seen(render(ENDLESS[name])).wrong == []


def test_texts_of_one_page_share_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "_MAX_PAGE", 1_000)
    items = ["The **first** one.", "x" * 1_000, "The **last** one."]
    record = json.dumps({"id": "x", "type": "runbook", "content": {"steps": items}})
    found = memory_view.content(memory_view.parsed(".json", record), {})
    steps = next(one for one in found.fields if one.kind == "steps").value
    assert "<strong>first</strong>" in steps[0]
    assert steps[-1] == '<pre class="as-written">The **last** one.</pre>\n'


def test_of_a_long_conversation_the_oldest_is_shown_as_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was said last is what somebody wants to read."""
    monkeypatch.setattr(markdown, "_MAX_PAGE", 1_000)
    said = ["The **first**.", "x" * 1_000, "The **last**."]
    when = "2026-11-01T08:00:00Z"
    messages = [
        Message(number, "x", "assistant", text, when, None, ()) for number, text in enumerate(said)
    ]
    first, *_, last = (one["html"] for one in message_view.dressed(message_view.outlined(messages)))
    assert "<strong>last</strong>" in last
    assert first == '<pre class="as-written">The **first**.</pre>\n'


def test_what_is_too_long_is_shown_as_it_is_written() -> None:
    text = "**bold**\n\n" + "A line of words that goes on and on.\n" * 8_000 + "<b>the end</b>"
    made = render(text)
    assert made.startswith('<p dir="auto"><strong>bold</strong>')
    assert made.endswith("&lt;b&gt;the end&lt;/b&gt;</pre>\n")


def test_code_has_colours_up_to_a_limit() -> None:
    made = render('```python\ndef f(a: int) -> str: return "<b>"\n```')
    assert '<code class="language-python"><span class="k">def</span>' in made
    assert "&lt;b&gt;" in made
    block = "```python\n" + "def f(): pass\n" * 600 + "```\n"
    assert render(block * 3).count('<span class="k">def</span>') == 1_200
    assert "<span" not in render(block.replace("pass", "pass; pass"))


@pytest.mark.parametrize(
    "info", ["x\tproposal", "x proposal", "python\tproposal", "x\u00a0proposal", 'x"y', "wiki", "é"]
)
def test_a_language_names_no_class_but_its_own(info: str) -> None:
    """Pages act upon classes: a text that could choose one would have a hand in that."""
    made = render(f"~~~{info}\nproposal()\n~~~")
    assert set(re.findall(r'class="([^"]*)"', made)) <= {
        "language-python",
        "n",
        "p",
        "code",
        "copy",
    }


@given(st.text(alphabet=st.sampled_from(list("\"'`\\/*-<>!#{}[]()@+=:;$ \t\na1é"))))
def test_colours_leave_out_no_letter(code: str) -> None:
    for language in sorted(markdown._LANGUAGES):
        seen = Seen(Renderer().code(f"{code}\n", language))
        assert seen.wrong == [], language
        assert seen.text == f"{code}\n\n", language


def test_words_are_marked_and_nothing_else() -> None:
    assert _mark_words("<b>Kettles</b> & kettle", ["kettle"]) == (
        "&lt;b&gt;<mark>Kettles</mark>&lt;/b&gt; &amp; <mark>kettle</mark>"
    )
    assert _mark_words("a <script>", ["(", "\\", "a|", "[a-z]", ".*"]) == "a &lt;script&gt;"
    many = [f"word{number}" for number in range(50_000)]
    assert "<mark>word1</mark>" in _mark_words("word1 " * 1_000, many)
