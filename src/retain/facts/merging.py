"""Three ways to one: the list as it was left last, the list now, and the facts now.

Everything is decided here, on plain values; nothing is read or written. What stood in the list last
is known by digests alone, so that no text outlives its fact in a derived file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from retain.facts.judging import same_key

_FEW: Final = 5  # so many facts at least make a list that nobody empties in one go
_LIKE: Final = 0.5  # from which likeness on a bullet is the old one, changed
_IN_PLACE: Final = 0.25  # what it counts that it stands where the old one stood
_MOST_PAIRS: Final = 10_000


class Fact(NamedTuple):
    """A fact in force."""

    id: str
    text: str
    hash: str = ""  # of its file
    age: tuple[str, int] = ("", 0)  # when it was created, and when its file was written
    sections: tuple[str, ...] = ()  # where in the list it could belong
    twins: tuple[Fact, ...] = ()  # others that say just the same


class Entry(NamedTuple):
    """A bullet as it was left: digests of its fact's id, of what it showed, of the fact's text."""

    fact: str
    shown: str
    text: str
    is_held: bool = False  # its bullet is gone, and nobody has said yet that it is meant


class Plan(NamedTuple):
    """What is to be done; bullets are named by their number."""

    owners: Sequence[str]  # the digest of the fact that each bullet states, empty for a new one
    learn: Sequence[int]  # bullets that are new facts
    change: Mapping[int, Fact]  # bullets whose text is their fact's new one
    forget: Sequence[Fact]
    rewrite: Mapping[int, str]  # bullets that get their fact's new text
    drop: Sequence[int]
    add: Sequence[Fact]
    held: Sequence[Fact]  # whose bullets are gone, all at once
    kept: Sequence[Entry]  # bullets whose facts are gone all at once, or cannot be read
    disputed: Sequence[Fact]  # changed here and elsewhere
    restored: Sequence[Fact] = ()  # listed again, because the whole list was gone


def digest(text: str) -> str:
    """By what a text is known again, however its lines are broken."""
    plain = " ".join(text.split()).encode("utf-8", "surrogateescape")
    return hashlib.sha256(plain).hexdigest()[:32]


def plan(
    base: Sequence[Entry],
    bullets: Sequence[str],
    facts: Sequence[Fact],
    *,
    unreadable: Collection[str] = (),
    put_away: Collection[str] = (),
    is_blank: bool = False,
    force: bool = False,
) -> Plan:
    """Decide what becomes of each bullet and each fact.

    `unreadable` and `put_away` are ids of facts that are there and not in force. A list that
    `is_blank` was not written by anyone: it forgets nothing, unless `force` says so.
    """
    merge = _Merge(base, bullets, facts)
    merge.own()
    lost = merge.lost({digest(one) for one in unreadable}, {digest(one) for one in put_away}, force)
    rewrite, change = merge.texts()
    gone, disputed, new = merge.unlisted()
    held = [] if force else [fact for fact in gone if digest(fact.id) in merge.held]
    forget = [fact for fact in gone if fact not in held]
    restored: list[Fact] = []
    if not force and is_blank:
        restored, held, forget = gone, [], []
    elif not force and len(merge.listed) >= _FEW and len(forget) * 2 > len(merge.listed):
        held, forget = gone, []
    return Plan(
        owners=merge.owners,
        learn=[number for number, owner in enumerate(merge.owners) if not owner],
        change=change,
        forget=forget,
        rewrite=rewrite,
        drop=[n for n, owner in enumerate(merge.owners) if owner and merge.is_gone(owner, lost)],
        add=[*disputed, *restored, *new],
        held=held,
        kept=[entry for entry in base if entry.fact in lost],
        disputed=disputed,
        restored=restored,
    )


class _Merge:
    """The three, matched with each other."""

    def __init__(
        self, base: Sequence[Entry], bullets: Sequence[str], facts: Sequence[Fact]
    ) -> None:
        self.base, self.bullets = base, bullets
        self.facts = {digest(fact.id): fact for fact in facts}
        self.held = {entry.fact for entry in base if entry.is_held}
        self.owners = [""] * len(bullets)
        self._marks = [digest(text) for text in bullets]
        self._entries: dict[str, list[Entry]] = {}
        for entry in base:
            self._entries.setdefault(entry.fact, []).append(entry)
        # The facts that were listed, and are in force still.
        self.listed = [one for one in self._entries if one in self.facts and one not in self.held]

    def own(self) -> None:
        """Say which fact each bullet states: by what it showed, by what it says, by likeness."""
        shown = {entry.shown: entry.fact for entry in reversed(self.base)}
        said = {digest(fact.text): name for name, fact in reversed(self.facts.items())}
        loosely = {same_key(fact.text): name for name, fact in reversed(self.facts.items())}
        for number, mark in enumerate(self._marks):
            owner = shown.get(mark, "")
            if owner not in self.facts:
                owner = said.get(mark, owner) or loosely.get(same_key(self.bullets[number]), "")
            self.owners[number] = owner
        for number, owner in self._pairs():
            self.owners[number] = owner

    def _pairs(self) -> list[tuple[int, str]]:
        """New bullets and missing facts that belong together: someone has changed the text."""
        owned = set(self.owners)
        new = [number for number, owner in enumerate(self.owners) if not owner]
        missing = [one for one in self.listed if one not in owned and self._is_as_left(one)]
        if not new or not missing or len(new) * len(missing) > _MOST_PAIRS:
            return []
        before = self._before()
        above = {n: self.owners[n - 1] if n else "" for n in new}
        scores = sorted(
            (
                (
                    _likeness(self.bullets[number], self.facts[one].text)
                    + _IN_PLACE * (above[number] == before[one]),
                    number,
                    one,
                )
                for number in new
                for one in missing
            ),
            key=lambda it: (-it[0], it[1]),
        )
        pairs: dict[int, str] = {}
        for score, number, one in scores:
            if score >= _LIKE and number not in pairs and one not in pairs.values():
                pairs[number] = one
        return list(pairs.items())

    def _before(self) -> dict[str, str]:
        """The fact whose bullet stood before each one's."""
        names = [entry.fact for entry in self.base if not entry.is_held]
        return dict(reversed(list(zip(names, ["", *names[:-1]], strict=True))))

    def _is_as_left(self, name: str) -> bool:
        """Whether a fact has the text that it had when it was listed."""
        mark = digest(self.facts[name].text)
        return any(entry.text == mark for entry in self._entries.get(name, ()))

    def lost(self, unreadable: set[str], put_away: set[str], force: bool) -> set[str]:
        """The facts of bullets that stay, although they are not there."""
        vanished = {
            owner
            for owner in self.owners
            if owner and owner not in self.facts and owner not in unreadable | put_away
        }
        is_strange = len(self._entries) >= _FEW and len(vanished) * 2 > len(self._entries)
        return unreadable | (vanished if is_strange and not force else set())

    def is_gone(self, owner: str, lost: set[str]) -> bool:
        return owner not in self.facts and owner not in lost

    def texts(self) -> tuple[dict[int, str], dict[int, Fact]]:
        """Bullets that get their fact's text, and those whose fact gets theirs."""
        rewrite: dict[int, str] = {}
        change: dict[int, Fact] = {}
        for number, owner in enumerate(self.owners):
            fact = self.facts.get(owner)
            if fact is None or digest(fact.text) == self._marks[number]:
                continue
            entries = self._entries.get(owner, ())
            was_shown = any(entry.shown == self._marks[number] for entry in entries)
            if was_shown and not self._is_as_left(owner):
                rewrite[number] = fact.text
            elif not was_shown and entries and self._is_as_left(owner) and self._is_only(owner):
                change[number] = fact
        return rewrite, change

    def _is_only(self, owner: str) -> bool:
        """Whether one bullet alone states a fact: of two, one that differs is only another way."""
        return self.owners.count(owner) == 1

    def unlisted(self) -> tuple[list[Fact], list[Fact], list[Fact]]:
        """Facts without a bullet: those whose bullet is gone, those changed since, new ones."""
        owned = set(self.owners)
        gone: list[Fact] = []
        disputed: list[Fact] = []
        new: list[Fact] = []
        for name, fact in self.facts.items():
            if name in owned:
                continue
            if name not in self._entries:
                new.append(fact)
            else:
                (gone if self._is_as_left(name) else disputed).append(fact)
        return gone, disputed, new


def _likeness(one: str, other: str) -> float:
    from difflib import SequenceMatcher

    one, other = one.casefold(), other.casefold()
    if one.startswith(other) or other.startswith(one):
        return 1.0  # however much was added or taken away at the end
    return SequenceMatcher(None, one[:400], other[:400], False).ratio()
