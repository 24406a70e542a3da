"""What a new fact has to do with one that is known: nothing new in it, or something in its place.

A model cannot tell `loves` from `hates` or who reports to whom: such pairs are nearer to each other
than most that mean the same. So words decide, by a few rules that are seldom wrong, and a model
only where words leave it open. In doubt the two are different: a fact too many is seen and removed,
one too few is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from retain.search.duplicates import NEAR, SAME
from retain.text.tokens import words

KNOWN: Final = "known"
REPLACES: Final = "replaces"

Nearness = Callable[[str, Sequence[str]], Sequence[float] | None]

_ASKED: Final = 20  # known facts that a model is asked about

_TOKEN: Final = re.compile(r"\w+(?:[.\u00b7'\u2019@:/+#-]+\w+)*[+#]*")
_NUMBER: Final = re.compile(r"v?\d+(?:[.,:]\d+)*%?")
_DATE: Final = re.compile(
    r"\b(?:1[89]|2[01])\d\d\b|"
    r"\b(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)[a-z]{0,6}\.? \d",
    re.IGNORECASE,
)
_CHANGE: Final = re.compile(
    r"\b(?:instead of|no longer|rather than|(?:switched|moved|migrated|changed) (?:away )?from|"
    r"stopped using|any ?more|replaced (?:\S+ ){1,3}(?:with|by)|"
    r"(?:formerly|previously) (?:used|lived|worked|had)|used to (?:be|have|like|live|use|work))\b",
    re.IGNORECASE,
)
_UNSAID: Final = frozenset("a an the now currently".split())
_NEGATIONS: Final = frozenset("not no never without cannot don't doesn't isn't aren't".split())
# Words that a chat uses for one thing; the first stands for all.
_ALIKE: Final = {
    word: group.split()[0]
    for group in (
        "like love enjoy adore fond",
        "use utilise utilize",
        "prefer favour favor",
        "live lives living reside",
        "call name",
        "favourite favorite",
        "need require",
        "is are was were",
        "javascript js",
        "typescript ts",
        "postgres postgresql",
        "reply answer response",
        "short concise brief terse",
    )
    for word in group.split()
}
_OPPOSITES: Final = {
    "dislike": "like",
    "hate": "like",
    "loathe": "like",
    "disabled": "enabled",
    "disable": "enable",
    "disallow": "allow",
    "forbidden": "allowed",
}
_LINKING: Final = frozenset(
    "at in on for with as and when since because from to over by during but via every especially "
    "mostly usually including while after before".split()
)
_LIMITING: Final = frozenset("if unless except only but when until while".split())
_COPULAS: Final = frozenset("is in at on to as".split())
_ONE_ROLE: Final = re.compile(r"\bas (?:the|my|our|his|her|their|its)\b", re.IGNORECASE)
_COUNTS: Final = {
    word: str(number)
    for number, word in enumerate(
        "two three four five six seven eight nine ten eleven twelve".split(), 2
    )
}
# What is said of a thing without naming another: `the editor is slow` leaves it the same editor.
_QUALITY: Final = re.compile(
    r"slow|fast|quick|big|large|huge|small|tiny|old|new|down|up|bad|good|great|nice|fine|ok|okay|"
    r"full|empty|ready|busy|free|open|on|off|public|private|local|remote|missing|wrong|safe|easy|"
    r"here|there|.*(?:ed|ing|able|ible|ful|less|ive)",
    re.IGNORECASE,
)
_CHOSEN: Final = frozenset(["prefer"])  # of these too, if the two choices are of one kind
_EVERYDAY: Final = frozenset("use is has have live work".split())


class Verdict(NamedTuple):
    """What became of a comparison: which known facts, by number, and what they are to the new."""

    status: str = ""
    numbers: tuple[int, ...] = ()
    is_by_words: bool = False  # a model was wanted and there was none


class _Said(NamedTuple):
    """A fact taken apart."""

    text: str
    tokens: tuple[str, ...]
    negations: int
    numbers: tuple[str, ...]
    terms: tuple[str, ...]  # as it would be searched by


def same_key(text: str) -> str:
    """The form in which two facts are one: letters and digits alone, whatever their case."""
    import unicodedata

    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(c if _counts(c) else " " for c in plain).split())


def _counts(char: str) -> bool:
    """Whether a character tells two facts apart: signs part C from C++, and prices."""
    if char.isascii():
        return char.isalnum() or char in "+#%$<>=@"
    import unicodedata

    return unicodedata.category(char)[0] not in "PZC"


def judged(new: str, known: Sequence[str], nearness: Nearness) -> Verdict:
    """Whether one of the known facts says all that a new one does, or which of them it replaces."""
    fact = _said(new)
    others = [_said(text) for text in known]
    certain = [_by_words(fact, other) for other in others]
    if KNOWN in certain:
        return Verdict(KNOWN, (certain.index(KNOWN),))
    open_ = [
        number for number, it in enumerate(certain) if not it and _may_be(fact, others[number])
    ]
    cosines = nearness(new, [known[number] for number in open_[:_ASKED]]) if open_ else ()
    for number, cosine in zip(open_, cosines or (), strict=False):
        certain[number] = _by_model(fact, others[number], cosine)
    if KNOWN in certain:
        return Verdict(KNOWN, (certain.index(KNOWN),))
    replaced = tuple(number for number, it in enumerate(certain) if it == REPLACES)
    return Verdict(REPLACES if replaced else "", replaced, cosines is None)


def is_said(words: str, text: str) -> bool:
    """Whether a fact has every word of a few, whatever their forms and their order."""
    wanted, there = _said(words), _said(text)
    return bool(wanted.tokens) and set(wanted.tokens) <= set(there.tokens)


@lru_cache(maxsize=8_192)  # each new fact is compared with all that are known
def _said(text: str) -> _Said:
    tokens: list[str] = []
    negations = 0
    for raw in _TOKEN.findall(text.casefold().replace("\u2019", "'")):
        if raw in _UNSAID:
            continue
        if raw in _NEGATIONS or raw.endswith("n't"):
            negations += 1
            continue
        token = _root(raw)
        if token in _OPPOSITE_ROOTS:
            token, negations = _OPPOSITE_ROOTS[token], negations + 1
        tokens.append(token)
    if tokens[:1] == ["user"] and len(tokens) > 2:
        tokens = tokens[1:]  # whom else would a fact without a subject be about
    tokens = _settled(tokens)
    if tokens[:1] in (["do"], ["does"]) or "does" in tokens:
        tokens = [token for token in tokens if token not in ("do", "does", "did")]
    numbers = tuple(token for token in tokens if _NUMBER.fullmatch(token))
    return _Said(text, tuple(tokens), negations % 2, numbers, tuple(words(text)))


def _settled(tokens: list[str]) -> list[str]:
    """The same, with who moved to a place living there."""
    for at, pair in enumerate(pairwise(tokens)):
        if pair == ("move", "to"):
            return [*tokens[:at], "live", "in", *tokens[at + 2 :]]
    return tokens


def _root(word: str) -> str:
    """The word that stands for this one."""
    if word in _ALIKE:
        return _ALIKE[word]
    if word in _COUNTS:
        return _COUNTS[word]
    if _NUMBER.fullmatch(word):
        return word
    found = words(word)
    root = found[-1] if found else word
    return _ALIKE_ROOTS.get(root, root)


def _plain_root(word: str) -> str:
    found = words(word)
    return found[-1] if found else word


_ALIKE_ROOTS: Final = {_plain_root(word): first for word, first in _ALIKE.items()}
_OPPOSITE_ROOTS: Final = {
    _plain_root(word): _ALIKE_ROOTS.get(_plain_root(other), _plain_root(other))
    for word, other in _OPPOSITES.items()
}


_STATES: Final = frozenset(
    map(
        _root,
        "is has have need use run listen take cost last support expect allow store keep "
        "limit".split(),
    )
)
# Of these a person or a thing has one at a time.
_SINGLE: Final = frozenset(
    map(
        _root,
        "live call favourite birthday born default timezone email phone deadline host port "
        "version".split(),
    )
)
# The same of what stands in one place: a verb and the word that leads to the place.
_PLACED: Final = frozenset(
    (_root(verb), led)
    for verb, led in (
        ("work", "at"),
        ("work", "for"),
        ("employed", "at"),
        ("employed", "by"),
        ("study", "at"),
        ("based", "in"),
        ("report", "to"),
    )
)
# And of who or what has a part, which a name tells: `the manager is Ana`, `my editor is Helix`.
_PEOPLE: Final = frozenset(
    map(_root, "manager boss wife husband spouse partner mentor landlord lead".split())
)
_TOOLS: Final = frozenset(
    map(
        _root,
        "editor ide shell terminal browser database runtime bundler linter formatter runner "
        "framework distro layout theme font employer title nickname".split(),
    )
)
_PACKAGES: Final = (_root("package"), _root("manager"))


def _by_words(new: _Said, old: _Said) -> str:
    """What words alone can tell."""
    if new.tokens == old.tokens:
        return KNOWN if new.negations == old.negations else REPLACES
    if _tells_change(new, old) or _is_other_number(new, old) or _is_other_role(new, old):
        return REPLACES
    if new.negations != old.negations or len(min(new.tokens, old.tokens, key=len)) < 2:
        return ""
    if _goes_on(old.tokens, new.tokens) and not _LIMITING.intersection(old.tokens):
        return KNOWN
    if _goes_on(new.tokens, old.tokens) or _is_turned(new, old):
        return REPLACES
    value = _value(new, old)
    if value and (_SINGLE.intersection(value) or _is_elsewhere(value, new, old)):
        return REPLACES
    return REPLACES if value and _is_other_holder(value, new, old) else ""


def _may_be(new: _Said, old: _Said) -> bool:
    """Whether it is worth to ask a model."""
    if new.negations != old.negations or new.numbers != old.numbers:
        return False
    value = _value(new, old)
    return bool(value and _CHOSEN.intersection(value)) or _within(new, old) or _within(old, new)


def _by_model(new: _Said, old: _Said, cosine: float) -> str:
    if cosine >= SAME and _within(new, old):
        return KNOWN
    if cosine >= SAME:
        return REPLACES if _within(old, new) else ""
    value = _value(new, old)
    is_choice = bool(value and _CHOSEN.intersection(value))
    return REPLACES if is_choice and cosine >= NEAR else ""


def _goes_on(long: Sequence[str], short: Sequence[str]) -> bool:
    """Whether the longer one says what the shorter one does, and adds to it."""
    count = len(short)
    return len(long) > count and tuple(long[:count]) == tuple(short) and long[count] in _LINKING


def _within(short: _Said, long: _Said) -> bool:
    """Whether all that one says with weight is said by the other, in the same order."""
    later = iter(long.terms)
    return len(short.terms) > 1 and all(term in later for term in short.terms)


def _is_turned(new: _Said, old: _Said) -> bool:
    """Whether a preference has been turned round: `X over Y`, then `Y over X`."""
    is_choice = _CHOSEN.intersection(new.tokens) and {"over", "to", "than"}.intersection(new.tokens)
    return bool(is_choice) and sorted(new.tokens) == sorted(old.tokens)


def _tells_change(new: _Said, old: _Said) -> bool:
    """Whether the new fact says itself that the old one holds no more."""
    if not _CHANGE.search(new.text) or _CHANGE.search(old.text):
        return False
    rest = set(old.tokens) - _EVERYDAY - _LINKING
    if old.tokens[1:2] == new.tokens[:1]:
        rest -= {old.tokens[0]}  # the new one leaves out whom both are about
    return 0 < len(rest) <= 3 and rest <= set(new.tokens)


def _is_other_number(new: _Said, old: _Said) -> bool:
    """Whether nothing but a number has changed, and it is no date and not part of a name."""
    if new.numbers == old.numbers or len(new.tokens) != len(old.tokens):
        return False
    differ = [
        at for at, pair in enumerate(zip(new.tokens, old.tokens, strict=True)) if len({*pair}) > 1
    ]
    is_number = all(
        _NUMBER.fullmatch(new.tokens[at]) and _NUMBER.fullmatch(old.tokens[at]) for at in differ
    )
    if not is_number or _DATE.search(new.text) or _DATE.search(old.text):
        return False
    return new.negations == old.negations and bool(_STATES.intersection(new.tokens[: differ[0]]))


def _is_other_role(new: _Said, old: _Said) -> bool:
    """Whether another thing has the same part now: `uses X as Y`, then `uses Z as Y`."""
    before, after, *middles = _apart(new.tokens, old.tokens)
    role = new.tokens[len(new.tokens) - after :]
    return (
        before > 0
        and new.negations == old.negations
        and role[:1] == ("as",)
        and (len(role) > 2 or all(_ONE_ROLE.search(one.text) for one in (new, old)))
        and all(1 <= len(middle) <= 2 for middle in middles)
    )


def _is_elsewhere(value: tuple[str, ...], new: _Said, old: _Said) -> bool:
    """Whether someone is in another place, which has a name: `works at Acme`, then Globex."""
    return value[-2:] in _PLACED and all(_said_last(one)[:1].isupper() for one in (new, old))


def _is_other_holder(value: tuple[str, ...], new: _Said, old: _Said) -> bool:
    """Whether another one is named in the same part: `the manager is Bob`, then Ana."""
    if value[-1] != "is":
        return False
    # Of `the manager of Jamie`, the part stands before whose it is.
    part = value[: value.index("of")] if "of" in value else value[:-1]
    names = [_said_last(one) for one in (new, old)]
    if _TOOLS.intersection(part[-1:]) or part[-2:] == _PACKAGES:
        return not any(_QUALITY.fullmatch(name) for name in names)
    return bool(_PEOPLE.intersection(part[-1:])) and all(name[:1].isupper() for name in names)


def _said_last(fact: _Said) -> str:
    """The last word of a fact that says something, as it was written."""
    found = (one for one in reversed(_TOKEN.findall(fact.text)) if one.casefold() not in _UNSAID)
    return next(found, "")


def _value(new: _Said, old: _Said) -> tuple[str, ...]:
    """What the two have in common before a short value in which alone they differ."""
    before, after, *middles = _apart(new.tokens, old.tokens)
    common = new.tokens[:before]
    is_short = all(1 <= len(it) <= 2 and not _LINKING.intersection(it) for it in middles)
    is_led_to = common[-1:] and (
        common[-1] in _COPULAS | _SINGLE | _CHOSEN or common[-2:] in _PLACED
    )
    if not is_short or not is_led_to or new.negations != old.negations or after > 1:
        return ()
    return common


def _apart(
    one: Sequence[str], other: Sequence[str]
) -> tuple[int, int, Sequence[str], Sequence[str]]:
    """How many words two facts begin and end with in common, and what differs between."""
    least = min(len(one), len(other))
    before = next((at for at in range(least) if one[at] != other[at]), least)
    rest = least - before
    after = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    return before, after, one[before : len(one) - after], other[before : len(other) - after]
