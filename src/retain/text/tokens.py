"""The terms a text is indexed under and searched by.

A term holds no space, no control character and no ASCII punctuation, and at most 64 characters,
so terms joined by spaces come out of FTS5's `ascii` tokenizer as they went in. A compound counts
as its parts and as one word: `getUserName` is get, user, name and getusername, `node.js` is node,
js and nodejs, `utf-8` is utf, 8 and utf8. Between two digits the one word keeps a middle dot,
3·11·2, or a search for port 112 would find version 1.12. Hyphens between plain words only part
them: a question about `long-term` plans should not lack a word beside a text on `long term` ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Final

MAX_TERM: Final = 64

_STOP = frozenset(
    "a an the is was are were be been being do does did have has had will would could can should "
    "may might shall must i you we they he she it me my your our their his her its this that "
    "these those what which who whom how when where why if then else so and or but not no to of "
    "in on at for with from by about as into than there them us him all any some just also very "
    "too up out".split()
)
# Forms that a stemmer does not bring together, and a few everyday names of one thing; the first
# word of each group stands for all. From the stop words' own groups nothing is left to search.
_GROUPS = """
become became/begin began begun/bend bent/bite bit bitten/bleed bled/blow blew blown/break broke
broken/bring brought/build built/burn burnt/buy bought/catch caught/choose chose chosen/come came/
deal dealt/dig dug/draw drew drawn/dream dreamt/drink drank drunk/drive drove driven/eat ate
eaten/fall fell fallen/feed fed/feel felt/fight fought/find found/fly flew flown/forget forgot
forgotten/forgive forgave forgiven/freeze froze frozen/get got gotten/give gave given/go went gone
goes/grow grew grown/hang hung/hear heard/hide hid hidden/hold held/keep kept/know knew known/lay
laid/lead led/learn learnt/leave left/lend lent/lose lost/make made/mean meant/meet met/pay paid/
ride rode ridden/ring rang rung/rise rose risen/run ran/say said/see saw seen/seek sought/sell sold/
send sent/shake shook shaken/shine shone/shoot shot/show shown/sing sang sung/sink sank sunk/sit
sat/sleep slept/speak spoke spoken/spend spent/spin spun/stand stood/steal stole stolen/stick stuck/
strike struck/swear swore sworn/sweep swept/swim swam swum/swing swung/take took taken/teach taught/
tear tore torn/tell told/think thought/throw threw thrown/understand understood/wake woke woken/wear
wore worn/weave wove woven/win won/wind wound/write wrote written/child children kid kids/man men/
woman women/person people/foot feet/tooth teeth/mouse mice/goose geese/life lives/wife wives/knife
knives/leaf leaves/shelf shelves/half halves/wolf wolves/analysis analyses/thesis theses/hypothesis
hypotheses/criterion criteria/phenomenon phenomena/datum data/index indices/matrix matrices/good
better best/bad worse worst/mom mother mum/dad father/bike bicycle/photo photograph picture pic/
movie film
"""
_BASE = {
    form: forms.split()[0]
    for forms in _GROUPS.replace("\n", " ").split("/")
    for form in forms.split()[1:]
}
_ENDINGS = frozenset("s d m ll re ve".split())  # what an apostrophe parts from a word
_SPOKEN = {
    "c++": "cplusplus", "g++": "gplusplus", "c#": "csharp", "f#": "fsharp", ".net": "dotnet",
}  # fmt: skip
# Letters that Unicode does not take apart into a plain letter and a mark.
_PLAIN = str.maketrans({
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "\u0131": "i",
    "æ": "ae", "œ": "oe", "þ": "th",
})  # fmt: skip

_INNER = ".'+#-"  # punctuation that can be part of a name
_OUTER = "".join([c for c in map(chr, range(128)) if not c.isalnum() and c not in _INNER])
_SPACED = dict.fromkeys(map(ord, _OUTER), " ")
_APOSTROPHES = "'\u2019\u02bc\uff07"

# Han, kana, bopomofo and Hangul, also taken apart and half-width; Thai, Lao, Myanmar, Khmer.
_UNSPACED = (
    "\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb\uffa1-\uffdc"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u109f\ua9e0-\ua9ef\uaa60-\uaa7f\u1780-\u17d3\u17d7\u17dc\u17dd"
)
_FLAG = "\U0001f1e6-\U0001f1ff"
_EMOJI = (
    "\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f000-\U0001f3fa\U0001f400-\U0001faff"  # without the skin tones
)
_SCRIPTS = (
    f"(?P<unspaced>[{_UNSPACED}]+)|(?P<emoji>[{_FLAG}]{{2}}|[{_EMOJI}])"
    f"|(?P<spaced>[^{_UNSPACED}{_EMOJI}]+)"
)
# Patterns are compiled when a text has something for them: plain words, which is all that most
# questions hold, need none of them.
# Putting marks in order takes quadratic time; no script piles up as many on one letter.
_PILE = r"([^\w\s\x00-\x7f]{16})[^\w\s\x00-\x7f]+"

_COMPOUND = r"(?i)^['-]*\.net(?![^.'+#-])|[^.'+#-]+(?:[.'-][^.'+#-]+)*(?:\+\+|#)?"
# What most ids are, and every number: nothing to look for within its parts.
_SLUG = r"(?:[a-z]+|[0-9]+)(?:-(?:[a-z]+|[0-9]+))*"
_JOINT = r"[.-]"
_DIGITS_MEET = r"(?<=[0-9])[.-](?=[0-9])"
_VERSION = r"(?i)v(?=[0-9]+\.)"
_STAMP = r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt](?=[0-9])"
_HUMP = r"[A-Z][A-Z0-9]*(?=[A-Z][a-z]{2})|[A-Z]?[a-z0-9]+|[A-Z0-9]+"
_CLOSING = " \t\r\n\"'*_)\u00bb\u2019\u201d\u300d"
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
_BRACKETED = r"\[[^\[\]]*\]|【[^【】]*】"

_MEMO_ENTRIES = 100_000

_stemming = Lock()


class _Memo(dict[str, str]):
    """The terms of a piece of text, joined by spaces: empty for a stop word."""

    def __missing__(self, piece: str) -> str:
        terms = " ".join(map(_stem, _terms(piece)))
        if terms == piece:
            terms = piece  # one object to fetch from memory, which takes longer than all else
        if len(piece) <= MAX_TERM:
            if len(self) >= _MEMO_ENTRIES:
                self.clear()
            self[piece] = terms
        return terms


_memo: Final = _Memo()


def words(text: str) -> list[str]:
    """The terms of a text, in its order, repeated as often as they occur."""
    return bag(text).split()


def bag(text: str) -> str:
    """The same as one string, in which a space parts one term from the next."""
    return " ".join(filter(None, map(_memo.__getitem__, _pieces(text))))


def query(text: str) -> list[str]:
    """The terms to look for: those of `words`, less what would only weaken an exact match.

    Han and Hangul are indexed as characters and as pairs, but only a lone character is sought as
    one; and a name such as GitHub is one word, whether or not a text writes it with humps.
    """
    return [_stem(term) for piece in _pieces(text) for term in _terms(piece, is_sought=True)]


def is_question(text: str) -> bool:
    """Whether a text ends in a question mark, once bracketed parts are taken out."""
    return _pattern(_BRACKETED).sub("", text).rstrip(_CLOSING).endswith(_QUESTION_MARKS)


def _pieces(text: str) -> list[str]:
    return text.translate(_SPACED).split() if text.isascii() else text.split()


def _terms(piece: str, *, is_sought: bool = False) -> list[str]:
    """The terms of a piece, not yet stemmed."""
    word = piece.rstrip(".'-")
    if word.isalpha() and word.isascii() and (word.islower() or word.istitle() or word.isupper()):
        word = word[:MAX_TERM].lower()
        return [] if word in _STOP else [word]
    if piece.isascii():
        return _names(piece.translate(_SPACED), is_sought=is_sought)
    from unicodedata import normalize

    if len(piece) > MAX_TERM:
        piece = _pattern(_PILE).sub(r"\1", piece)
    terms: list[str] = []
    for run in _pattern(_SCRIPTS).finditer(normalize("NFC", piece)):
        if run.lastgroup == "unspaced":
            terms += _pairs(run[0], is_sought=is_sought)
        elif run.lastgroup == "emoji":
            terms.append(run[0])
        else:
            terms += _names(_fold(run[0]), is_sought=is_sought)
    return terms


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _names(text: str, *, is_sought: bool) -> list[str]:
    if len(text) <= MAX_TERM and _pattern(_SLUG).fullmatch(text):
        parts = text.split("-")
        return _with_whole(text, parts, [part for part in parts if part not in _STOP])
    return [
        word
        for piece in _pattern(_STAMP).sub(r"\1 ", text).split()
        for compound in _pattern(_COMPOUND).findall(piece)
        for word in _parts(compound, is_sought=is_sought)
    ]


def _pairs(run: str, *, is_sought: bool) -> list[str]:
    """Overlapping pairs of characters, for scripts that do not part their words."""
    from unicodedata import category, normalize

    run = normalize("NFKC", run)
    units: list[str] = []
    for char in run:
        if units and category(char)[0] == "M":
            units[-1] = (units[-1] + char)[: MAX_TERM // 2]
        else:
            units.append(char)
    if len(units) == 1:
        return units
    pairs = [one + other for one, other in pairwise(units)]
    # From here on lie Han and Hangul, where one character can be a word and so a question.
    return pairs if is_sought else [unit for unit in units if unit >= "\u3400"] + pairs


def _fold(chunk: str) -> str:
    """A chunk in plain letters, with spaces for what is neither letter, digit nor part of a name.

    Latin, Greek, Cyrillic, Hebrew and Arabic lose their marks, without which they are often
    written; in the scripts of India and beyond marks are vowels and stay.
    """
    from unicodedata import category, normalize

    kept: list[str] = []
    loses_marks = True
    # A single character may stand for eighteen: not in what is too long for words.
    for char in normalize("NFKD" if len(chunk) < 1000 else "NFD", chunk):
        kind = category(char)
        if kind == "Cf" or (loses_marks and kind[0] == "M"):  # the former are invisible
            continue
        if char in _APOSTROPHES:
            kept.append("'")
        else:
            kept.append(char if kind[0] in "LMN" or char in _INNER else " ")
        loses_marks = kept[-1] < "\u0700"
    return normalize("NFC", "".join(kept))


def _parts(compound: str, *, is_sought: bool) -> list[str]:
    if _pattern(_VERSION).match(compound):
        compound = compound[1:]
    parts = [compound] if compound.startswith((".", "'", "-")) else _pattern(_JOINT).split(compound)
    terms = []
    for part in parts:
        head, _, tail = part.rpartition("'")
        ending = tail.casefold()
        if ending == "t" and head[-1:] in ("n", "N"):  # don't, can't: no more than a "not"
            continue
        for name in (head if head and ending in _ENDINGS else part).split("'"):
            words = map(_plain, _humps(name, is_sought=is_sought))
            terms += [word for word in words if word and word not in _STOP]
    return _with_whole(compound, parts, terms)


def _with_whole(compound: str, parts: list[str], terms: list[str]) -> list[str]:
    """Add a compound as one word, unless only hyphens hold plain words together."""
    if len(parts) < 2 or len(compound) > MAX_TERM or "'" in compound:
        return terms
    if "." not in compound and not any(map(str.isdigit, compound)):
        return terms
    name = _pattern(_DIGITS_MEET).sub("·", compound.rstrip("+#"))
    whole = _plain(_pattern(_JOINT).sub("", name))
    if whole and len(whole) == len(parts):  # initials, such as U.S. or e.g.
        return [whole]
    return [*terms, whole] if whole else terms


def _humps(name: str, *, is_sought: bool) -> list[str]:
    spoken = _SPOKEN.get(name.casefold().lstrip("'-"))
    if spoken:
        return [spoken]
    name = name.rstrip("+#")
    if len(name) > MAX_TERM or name.islower() or name.isupper() or not name.isascii():
        return [name]
    humps = _pattern(_HUMP).findall(name)
    # One letter makes no word: iPhone, OAuth, URLs, and what chance makes of base64.
    if len(humps) < 2 or min(map(len, humps)) < 2:
        return [name]
    is_proper = len(humps) == 2 and name[0].isupper()
    return [name] if is_sought and is_proper else [*humps, name]


def _plain(word: str) -> str:
    return word[:MAX_TERM].casefold().translate(_PLAIN)[:MAX_TERM]


def _stem(word: str) -> str:
    """The stem of an English word; what holds a digit or was cut short has none."""
    if not word.isalpha() or not word.isascii() or len(word) >= MAX_TERM:
        return word
    with _stemming:  # a stemmer serves one thread at a time
        return _stemmer()(_BASE.get(word, word))


@cache
def _stemmer() -> Callable[[str], str]:
    import Stemmer  # type: ignore[import-not-found]

    # Without its own cache: a word is remembered here.
    stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord
    return stem
