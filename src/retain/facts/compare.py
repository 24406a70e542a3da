"""Compare a new fact with a known one: it says nothing new, takes its place, or stands beside it.

A model cannot tell `loves` from `hates` or who reports to whom: such pairs are nearer to each other
than most that mean the same. So words decide, by a few rules that are seldom wrong, and a model
only where words leave it open. In doubt both are kept: a fact too many is seen and removed, one too
few is not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from retain.search.duplicates import NEAR, SAME
from retain.text.tokens import words

KNOWN: Final = "known"
REPLACES: Final = "replaces"

Cosines = Callable[[str, Sequence[str]], Sequence[float] | None]

_MAX_ASKED: Final = 20  # known facts that a model is asked about

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
_ONE_ROLE: Final = re.compile(r"\bas (?:the|my|our|his|her|their|its)\b", re.IGNORECASE)
# An adjective says how a thing is: `the editor is slow` leaves it the same editor.
_ADJECTIVE: Final = re.compile(
    r"slow|fast|quick|big|large|huge|small|tiny|old|new|down|up|bad|good|great|nice|fine|ok|okay|"
    r"full|empty|ready|busy|free|open|on|off|public|private|local|remote|missing|wrong|safe|easy|"
    r"here|there|.*(?:ed|ing|able|ible|ful|less|ive)",
    re.IGNORECASE,
)


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _stem(word: str) -> str:
    stems = words(word)
    return stems[-1] if stems else word


_IGNORED: Final = _set("a an the now currently")
_NEGATIONS: Final = _set("not no never without cannot don't doesn't isn't aren't")
# Groups of words that a chat uses for one thing; the first stands for all.
_SYNONYMS: Final = {
    key: group.split()[0]
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
        *(f"{n} {word}" for n, word in enumerate("two three four five six seven eight".split(), 2)),
    )
    for word in group.split()
    for key in (word, _stem(word))
}


def _root(word: str) -> str:
    """The word that stands for this one."""
    return _SYNONYMS.get(word) or _SYNONYMS.get(_stem(word)) or _stem(word)


def _roots(text: str) -> frozenset[str]:
    return frozenset(map(_root, text.split()))


_OPPOSITES: Final = {
    _root(word): _root(other)
    for word, other in (
        pair.split()
        for pair in ("dislike like", "hate like", "loathe like", "disable enable")
        + ("disabled enabled", "disallow allow", "forbidden allowed")
    )
}
_LINKING: Final = _set(
    "at in on for with as and when since because from to over by during but via every especially "
    "mostly usually including while after before"
)
_LIMITING: Final = _set("if unless except only but when until while")
_BEFORE_VALUE: Final = _set("is in at on to as for by")
_EVERYDAY: Final = _set("use is has have live work")
_PREFER: Final = _root("prefer")
# Verbs before a number of which there is one: `needs Node 18`, then `needs Node 20`.
_STATES: Final = _roots(
    "is has have need use run listen take cost last support expect allow store keep limit"
)
# Of these a person or a thing has one at a time, whatever it is.
_SINGLE: Final = _roots(
    "live call favourite birthday born default timezone email phone deadline host port version "
    "editor ide shell terminal browser database runtime bundler linter formatter runner "
    "framework distro layout theme font title nickname"
)
# Of these too, if the value is a name: `the manager is Ana`, `works at Acme`.
_NAMED: Final = _roots("manager boss employer wife husband spouse partner mentor landlord")
_NAMED_PLACES: Final = frozenset(
    (_root(verb), preposition)
    for verb, preposition in (
        ("work", "at"), ("work", "for"), ("employed", "at"), ("employed", "by"), ("study", "at"),
        ("based", "in"), ("report", "to"),
    )
)  # fmt: skip


class Verdict(NamedTuple):
    """What a new fact is to known ones, and to which of them, by number."""

    status: str = ""
    numbers: tuple[int, ...] = ()
    is_by_words: bool = False  # a model was wanted and there was none


class _Parsed(NamedTuple):
    """A fact taken apart."""

    text: str
    tokens: tuple[str, ...]
    is_negated: bool
    numbers: tuple[str, ...]
    terms: tuple[str, ...]  # as it would be searched by
    last: str  # its last word, as it was written


def same_key(text: str) -> str:
    """The form in which two facts are one: letters, digits and signs (C++), whatever their case."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(c if _counts(c) else " " for c in folded).split())


def _counts(char: str) -> bool:
    if char.isascii():
        return char.isalnum() or char in "+#%$<>=@"
    return unicodedata.category(char)[0] not in "PZC"


def compare(text: str, known: Sequence[str], cosines: Cosines) -> Verdict:
    """Find the known fact that says all that a new one does, or those whose place it takes."""
    new, others = _parse(text), [_parse(other) for other in known]
    verdicts = [_compare_words(new, old) for old in others]
    unsure = [n for n, it in enumerate(verdicts) if not it and _needs_model(new, others[n])]
    unsure = [] if KNOWN in verdicts else unsure[:_MAX_ASKED]
    scores = cosines(text, [known[number] for number in unsure]) if unsure else ()
    for number, cosine in zip(unsure, scores or (), strict=False):
        verdicts[number] = _compare_meaning(new, others[number], cosine)
    if KNOWN in verdicts:
        return Verdict(KNOWN, (verdicts.index(KNOWN),))
    replaced = tuple(number for number, verdict in enumerate(verdicts) if verdict == REPLACES)
    return Verdict(REPLACES if replaced else "", replaced, scores is None)


def has_words(few: str, text: str) -> bool:
    """Whether a fact has every one of a few words, whatever their forms and their order."""
    wanted = _parse(few).tokens
    return bool(wanted) and set(wanted) <= set(_parse(text).tokens)


@lru_cache(maxsize=8_192)  # each new fact is compared with all that are known
def _parse(text: str) -> _Parsed:
    found = [word for word in _TOKEN.findall(text) if word.casefold() not in _IGNORED]
    tokens: list[str] = []
    is_negated = False
    for word in (word.casefold().replace("\u2019", "'") for word in found):
        if word in _NEGATIONS or word.endswith("n't"):
            is_negated = not is_negated
            continue
        token = word if _NUMBER.fullmatch(word) else _root(word)
        if token in _OPPOSITES:
            token, is_negated = _OPPOSITES[token], not is_negated
        tokens.append(token)
    if tokens[:1] == ["user"] and len(tokens) > 2:
        del tokens[0]  # whom else would a fact without a subject be about
    if "move" in tokens[:-1] and tokens[(at := tokens.index("move")) + 1] == "to":
        tokens[at : at + 2] = ["live", "in"]
    if tokens[:1] == ["do"] or "does" in tokens:
        tokens = [token for token in tokens if token not in ("do", "does", "did")]
    numbers = tuple(token for token in tokens if _NUMBER.fullmatch(token))
    last = found[-1] if found else ""
    return _Parsed(text, tuple(tokens), is_negated, numbers, tuple(words(text)), last)


def _compare_words(new: _Parsed, old: _Parsed) -> str:
    """What words alone can tell."""
    is_same_sense = new.is_negated == old.is_negated
    if new.tokens == old.tokens:
        return KNOWN if is_same_sense else REPLACES
    if _says_change(new, old):
        return REPLACES
    if not is_same_sense or min(len(new.tokens), len(old.tokens)) < 2:
        return ""
    if _extends(old.tokens, new.tokens) and not _LIMITING.intersection(old.tokens):
        return KNOWN
    is_turned = _PREFER in new.tokens and sorted(new.tokens) == sorted(old.tokens)
    is_other = _is_other_number(new, old) or _is_other_role(new, old) or _is_other_value(new, old)
    return REPLACES if _extends(new.tokens, old.tokens) or is_turned or is_other else ""


def _needs_model(new: _Parsed, old: _Parsed) -> bool:
    if new.is_negated != old.is_negated or new.numbers != old.numbers:
        return False
    return _is_choice(new, old) or _contains(new, old) or _contains(old, new)


def _compare_meaning(new: _Parsed, old: _Parsed, cosine: float) -> str:
    if cosine >= SAME:
        return KNOWN if _contains(old, new) else REPLACES if _contains(new, old) else ""
    return REPLACES if cosine >= NEAR and _is_choice(new, old) else ""


def _extends(long: Sequence[str], short: Sequence[str]) -> bool:
    """Whether the longer one says what the shorter one does, and adds to it."""
    count = len(short)
    return len(long) > count and tuple(long[:count]) == tuple(short) and long[count] in _LINKING


def _contains(long: _Parsed, short: _Parsed) -> bool:
    """Whether one says all terms of the other, in the same order."""
    later = iter(long.terms)
    return len(short.terms) > 1 and all(term in later for term in short.terms)


def _says_change(new: _Parsed, old: _Parsed) -> bool:
    """Whether the new fact says itself that the old one holds no more."""
    if not _CHANGE.search(new.text) or _CHANGE.search(old.text):
        return False
    rest = set(old.tokens) - _EVERYDAY - _LINKING
    if old.tokens[1:2] == new.tokens[:1]:
        rest -= {old.tokens[0]}  # the new one leaves out whom both are about
    return 0 < len(rest) <= 3 and rest <= set(new.tokens)


def _is_other_number(new: _Parsed, old: _Parsed) -> bool:
    """Whether nothing but a number has changed, and it is no date and not part of a name."""
    if new.numbers == old.numbers or len(new.tokens) != len(old.tokens):
        return False
    pairs = list(zip(new.tokens, old.tokens, strict=True))
    differ = [number for number, (one, other) in enumerate(pairs) if one != other]
    if not all(_NUMBER.fullmatch(token) for number in differ for token in pairs[number]):
        return False
    is_date = _DATE.search(new.text) or _DATE.search(old.text)
    return not is_date and bool(_STATES.intersection(new.tokens[: differ[0]]))


def _is_other_role(new: _Parsed, old: _Parsed) -> bool:
    """Whether another thing has the same part now: `uses X as the Y`, then `uses Z as the Y`."""
    before, after, *middles = _split_common(new.tokens, old.tokens)
    role = new.tokens[len(new.tokens) - after :]
    is_one = len(role) > 2 or all(_ONE_ROLE.search(fact.text) for fact in (new, old))
    return before > 0 and role[:1] == ("as",) and is_one and all(0 < len(it) <= 2 for it in middles)


def _is_other_value(new: _Parsed, old: _Parsed) -> bool:
    """Whether the two differ in the value alone of something that has one value at a time."""
    frame = _find_frame(new, old)
    if not frame:
        return False
    # Of `the manager of Jamie is`, the part stands before whose it is.
    part = frame[: frame.index("of")] if "of" in frame else frame
    part = part[:-1] if part[-1] == "is" else part
    is_name = all(fact.last[:1].isupper() for fact in (new, old))
    if frame[-2:] in _NAMED_PLACES or (frame[-1] == "is" and part[-1:] and part[-1] in _NAMED):
        return is_name or part[-2:] == (_root("package"), _root("manager"))
    is_adjective = any(_ADJECTIVE.fullmatch(fact.last) for fact in (new, old))
    return bool(_SINGLE.intersection(frame)) and not is_adjective


def _is_choice(new: _Parsed, old: _Parsed) -> bool:
    return _PREFER in _find_frame(new, old)


def _find_frame(new: _Parsed, old: _Parsed) -> tuple[str, ...]:
    """What two facts have in common before a short value in which alone they differ."""
    before, after, *middles = _split_common(new.tokens, old.tokens)
    frame = new.tokens[:before]
    is_short = all(1 <= len(it) <= 2 and not _LINKING.intersection(it) for it in middles)
    is_value = frame and (frame[-1] in _BEFORE_VALUE or frame[-1] in _SINGLE | {_PREFER})
    return frame if is_short and is_value and after <= 1 else ()


def _split_common(
    one: Sequence[str], other: Sequence[str]
) -> tuple[int, int, Sequence[str], Sequence[str]]:
    """How many words two facts begin and end with in common, and what differs between."""
    least = min(len(one), len(other))
    before = next((at for at in range(least) if one[at] != other[at]), least)
    rest = least - before
    after = next((at for at in range(rest) if one[-1 - at] != other[-1 - at]), rest)
    return before, after, one[before : len(one) - after], other[before : len(other) - after]
