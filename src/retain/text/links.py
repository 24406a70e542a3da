"""Find the wikilinks of a body, and tell from the words around each how it relates."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from typing import Final, NamedTuple

from retain.text.chunks import find_fences

MAX_LINKS: Final = 10_000  # of one text; a memory that has more is no longer one
_MAX_TARGET: Final = 500  # characters of a target, and of its anchor and label together
_AROUND: Final = 100  # characters of context on each side


class Link(NamedTuple):
    """One `[[wikilink]]`; `memory_edge` is its edge if the target turns out to be a memory."""

    target: str
    kind: str  # memory, ghost, or empty: a memory if there is one of that id
    label: str
    anchor: str
    edge: str
    memory_edge: str
    context: str
    line: int


class _Brackets(NamedTuple):
    line: int
    start: int
    end: int
    text: str


def find_links(body: str) -> list[Link]:
    """Find the links outside code, in order; several to one target are all kept."""
    found = list(islice(_find_brackets(body), MAX_LINKS))
    cuts = [0, *(_divide(body, one.end, other.start) for one, other in pairwise(found)), len(body)]
    links = []
    for brackets, (first, last) in zip(found, pairwise(cuts), strict=False):
        line, start, end, text = brackets
        target, kind, label, anchor = _parse_target(text)
        before, after = _context(body, first, start, end, last)
        said = body[max(0, start - 4 * _AROUND) : start].rpartition("\n")[2]
        edge, memory_edge = _edges(before, after, _is_own_words(said))
        context = " ".join((before + body[start:end] + after).split())
        edge = memory_edge if kind == "memory" else edge
        links.append(Link(target, kind, label, anchor, edge, memory_edge, context, line))
    return links


def count_links(body: str) -> int:
    """Count the links outside code, those beyond the first MAX_LINKS among them."""
    return sum(1 for _ in _find_brackets(body))


def classify_target(text: str, *, in_frontmatter: bool = False) -> tuple[str, str]:
    """The target that a text names, and its kind as a Link has it.

    In a body `a/b` is a path, in frontmatter a memory and its collection.
    """
    name = text.strip()
    prefix, colon, rest = name.partition(":")
    kind = prefix.strip().lower()
    if colon and kind == "memory":
        return normalize_target(rest.strip().removesuffix(".md")), kind
    if colon and kind == "ghost":
        return normalize_target(rest), kind
    stem, dot, ending = name.rpartition(".")
    is_markdown = ending.lower() == "md"
    is_path = "/" in name and (is_markdown or not in_frontmatter)
    if is_path or "\\" in name or (dot and (not stem or ending.lower() in _ENDINGS)):
        return normalize_target(name), "ghost"
    return normalize_target(stem if is_markdown and dot else name), ""


def normalize_target(target: str) -> str:
    """A path as lookups compare it: no `./`, `//` or `a/..`; one that leaves the root is kept."""
    target = target.strip()
    if "/" not in target or "://" in target:
        return target
    path = posixpath.normpath("/".join(map(str.strip, target.split("/"))))
    return target if path.startswith("..") and path[2:3] in ("", "/") else path.replace("//", "/")


# Brackets

# Endings of files that people point at; a memory is meant by a bare `name.md`.
_ENDINGS: Final = frozenset(
    """
    asm astro avif bash bat bin bz2 c cc cfg cjs clj cmake cmd conf cpp cs css csv cts cxx dart db
    diff dll doc docx ejs elm env erl ex exs fish gif go gradle graphql groovy gz h hbs hcl hh hpp
    hrl hs htm html hxx ico ini ipynb jar java jl jpeg jpg js json json5 jsonc jsonl jsx kt kts less
    lock log lua m mdx mjs mk ml mm mts nim nix odt org parquet patch pdf php pl plist png pptx
    prisma properties proto ps1 psd1 psm1 py pyc pyi pyx r rb rs rst sass scala scss sh sln so sol
    sql sqlite svelte svg swift tar tex tf tfvars tgz tmpl toml ts tsv tsx txt vim vue wasm webp
    whl xls xlsx xml yaml yml zig zip zsh
    """.split()
)


# The innermost brackets, in which others may be paired: [[app/[id]]].
_BRACKETS: Final = re.compile(
    r"\[\[(?!\[)((?:[^\[\]\n]|\[(?!\[)[^\[\]\n]{0,200}\]|\](?!\])){1,1000}?)\]\]"
)


def _find_brackets(body: str) -> Iterator[_Brackets]:
    """Find the links outside code that have a target."""
    line, counted = 1, 0
    for match in _BRACKETS.finditer(blank_code(body) if "[[" in body else ""):
        if 0 < len(_parse_target(match[1])[0]) <= _MAX_TARGET:
            line += body.count("\n", counted, match.start())
            counted = match.start()
            yield _Brackets(line, *match.span(), match[1])


def _parse_target(text: str) -> tuple[str, str, str, str]:
    """Parse what stands between the brackets: the target, its kind, its label and anchor."""
    place, _, label = text.partition("|")
    # In a table the bar is written `\|`.
    place = place.removesuffix("\\") if label else place
    name, _, anchor = place.partition("#")
    target, kind = classify_target(name)
    return target, kind, label.strip(), anchor.strip()


_TICKS: Final = re.compile(r"(?<!\\)`+")
# No code within a line reaches beyond its block of text.
_NEW_BLOCK: Final = re.compile(r"\n(?=[^\S\n]*(?:\n|$)|[ \t]*(?:[#>|]|(?:[-*+]|\d{1,9}[.)])[ \t]))")


def blank_code(body: str) -> str:
    """Put spaces in the place of all code, so that every other character stays where it is."""
    if "`" not in body and "~~~" not in body:
        return body
    lines = body.split("\n")
    for first, last in find_fences(lines):
        lines[first:last] = [" " * len(line) for line in lines[first:last]]
    blocks = []
    for block in _NEW_BLOCK.split("\n".join(lines)):
        pieces: list[str] = []
        at = 0
        for start, end in _code_spans(block):
            pieces += (block[at:start], re.sub(r"[^\n]", " ", block[start:end]))
            at = end
        blocks.append("".join(pieces) + block[at:])
    return "\n".join(blocks)


def _code_spans(block: str) -> Iterator[tuple[int, int]]:
    """Pair each run of backticks with the next one of the same length."""
    runs = list(_TICKS.finditer(block))
    later = Counter(len(run[0]) for run in runs)
    opened: re.Match[str] | None = None
    for run in runs:
        size = len(run[0])
        later[size] -= 1
        if opened is None:
            opened = run if later[size] else None
        elif len(opened[0]) == size:
            yield opened.start(), run.end()
            opened = None


# Context

_SENTENCE_END: Final = re.compile(r"[.!?\u2026][\"')\]*_\u2019\u201d]*\s|[\u3002\uff01\uff1f]")
_LINE_END: Final = re.compile(r"\n")
_CLAUSE_END: Final = re.compile(
    r"[,;:]\s|[\uff0c\uff1b\u3001\u2014]|\s[-\u2013]\s|\s(?=(?:and|but|or|then|while)\s)"
)
_CUT_START: Final = re.compile(r"\w{1,30}(?!\w)")
_CUT_END: Final = re.compile(r"(?<!\w)\w{1,30}$")


def _divide(body: str, start: int, end: int) -> int:
    """Where the text between two links stops to be about the first of them."""
    middle = (start + end) // 2
    if start == end or end - start > 2 * _AROUND:  # neither reaches as far
        return middle
    for pattern in (_LINE_END, _SENTENCE_END, _CLAUSE_END):
        cuts = [match.end() for match in pattern.finditer(body, start, end)]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    # A word in the middle goes to the second: verbs stand before what they are about.
    space = body.rfind(" ", start, middle + 1)
    return space if space >= 0 else middle


def _context(body: str, first: int, start: int, end: int, last: int) -> tuple[str, str]:
    """The text around a link, without a word that is cut at its far ends."""
    left, right = max(first, start - _AROUND), min(last, end + _AROUND)
    if left > first and body[left - 1].isalnum() and (cut := _CUT_START.match(body, left, start)):
        left = cut.end()
    if right < last and body[right].isalnum() and (cut := _CUT_END.search(body[end:right])):
        right = end + cut.start()
    return body[left:start], body[end:right]


# Edges


# The first edge of which a word occurs wins.
_GHOST_EDGES: Final = {
    "refactors": r"refactor(?:s|ed|ings?)?|rewr(?:ites?|ote|itten|iting)"
    r"|restructur(?:e[sd]?|ing)|reorgani[sz](?:e[sd]?|ing)"
    r"|clean-?ups?|clean(?:s|ed|ing)? up",
    "plans": r"plan(?:s|ned|ning)?|to-?dos?|will|ll|shouldn?|(?:need(?:s|ed)?|going) to|gonna",
    "debugs": r"bugs?|buggy|debug(?:s|ged|ging)?|(?:bug|hot)?fix(?:es)?|fixed|fixing"
    r"|issues?|errors?|problems?|broken",
    "mentions": r"not(?:e[sd]?|ing)|remember(?:s|ed|ing)?|mention(?:s|ed|ing)?|see also"
    r"|refer(?:s|red|ring)?|referenc(?:e[sd]?|ing)",
}
_MEMORY_EDGES: Final = {
    "contradicts": r"contradict(?:s|ed|ing)?|(?:conflict(?:s|ed|ing)?|disagree(?:s|d|ing)?)"
    r" with",
    "extends": r"extend(?:s|ed|ing)?|(?:buil(?:ds?|t|ding)|expand(?:s|ed|ing)?) on"
    r"|elaborat(?:e[sd]?|ing)",
    "depends_on": r"depend(?:s|ed|ing|ent)? on|requir(?:e[sd]?|ing)"
    r"|need(?:s|ed)?(?! to\b)|needing",
}
_SUPERSEDING: Final = r"(?:supersed|replac|obsolet|deprecat)"
_VERB: Final = re.compile(rf"{_SUPERSEDING}(?:ed by|e[sd]?|ing)")
_WORD: Final = re.compile(rf"{_SUPERSEDING}ed by\b|\w+(?:[./\\]\w+)*")
# What a memory calls itself, and what may stand between that, the verb and the link.
_THIS: Final = frozenset("this it itself here".split())
_FILLERS: Final = _THIS | frozenset(
    """
    memory note notes decision plan record fact page document entry rule adr status update edit one
    is are was were has have had been being be now which that also then fully partly largely thus
    the a an old older earlier previous former our my and of in as from
    """.split()
)


def _is_own_words(line: str) -> bool:
    """Whether what a line says before a link can be about this memory: no quote, no other link."""
    sentence = _SENTENCE_END.split(line)[-1]
    return not line.lstrip().startswith(">") and "[[" not in sentence


def _edges(before: str, after: str, is_own: bool) -> tuple[str, str]:
    """The edge of a ghost and that of a memory, by the link's own sentence or else by all."""
    own_before, own_after = before.rpartition("\n")[2], after.partition("\n")[0]
    for match in [*_SENTENCE_END.finditer(own_before)][-1:]:
        own_before = own_before[match.end() :]
    if match_after := _SENTENCE_END.search(own_after):
        own_after = own_after[: match_after.end()]
    edge, memory_edge = (
        _find_edge(edges, own_before, own_after) or _find_edge(edges, before, after)
        for edges in (_GHOST_EDGES, _MEMORY_EDGES)
    )
    words_before, words_after = _words(own_before), _words(own_after)
    if not words_before and not words_after:
        # Alone in a list, below a line that says what it is.
        words_before = _words(before.rstrip(" \t\n-*+").rpartition("\n")[2])
    superseding = _find_supersession(words_before, words_after) if is_own else ""
    return edge or "related_to", superseding or memory_edge or "related_to"


def _find_edge(edges: Mapping[str, str], before: str, after: str) -> str:
    # The link between them is no word of either.
    text = f"{' '.join(before.lower().split())} | {' '.join(after.lower().split())}"
    for edge, words in edges.items():
        # Whole words only, and none of a path, which names something and says nothing.
        if re.search(rf"(?<![\w./\\])(?:{words})(?!\w|[./\\]\w)", text):
            return edge
    return ""


def _find_supersession(before: list[str], after: list[str]) -> str:
    """Whether this memory replaces the linked one or is replaced by it, by its own words.

    "This replaces [[old]]", "superseded by [[new]]" and "[[new]] replaces this" count. With any
    other subject or object, as in "DHL was replaced by [[new]]", nothing is said of this memory.
    """
    verbs = [word for word in before if _VERB.fullmatch(word)]
    if verbs and all(word in _FILLERS or word in verbs or word.isdigit() for word in before):
        return "superseded_by" if verbs[-1].endswith(" by") else "supersedes"
    said = [word for word in after if word not in _FILLERS or word in _THIS]
    if len(said) > 1 and _VERB.fullmatch(said[0]) and said[1] in _THIS:
        return "supersedes" if said[0].endswith(" by") else "superseded_by"
    return ""


def _words(text: str) -> list[str]:
    return _WORD.findall(" ".join(text.lower().split()))
