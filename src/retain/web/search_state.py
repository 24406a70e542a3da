"""What a person looks for among the memories, as an address says it, and what there is of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from retain.bank.filters import Filter
from retain.errors import UsageError
from retain.index.queries import FACETS, ORDERS, Chosen, Listed
from retain.memory import Answer, Hit
from retain.search.request import Filters, SearchRequest, parse_filters

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

    from retain.app import App


PAGE: Final = 50
LONGEST: Final = 4_000  # characters of a question; in any script they fit into an address
_MOST_HITS: Final = 10_000  # before a page; a search considers far fewer
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOST_PAGES: Final = 1_000_000
_SHARE: Final = 0.35  # of the best score, below which a memory without the words is only near


class SearchState(NamedTuple):
    """A question or none, what was chosen of each facet, in which order, and which page."""

    question: str = ""
    chosen: Chosen = Chosen()
    order: str = "updated"
    page: int = 1
    mode: str = "hybrid"
    is_wide: bool = False  # also what only comes near a question, without a word of it

    @property
    def values(self) -> list[tuple[str, str]]:
        """The same as the values of an address, without the page."""
        values = [("q", self.question)] if self.question else []
        values += [(name, one) for name in FACETS for one in getattr(self.chosen, name)]
        values += [
            (name, day) for name in ("since", "until") if (day := str(getattr(self.chosen, name)))
        ]
        values += [("sort", self.order)] if self.order != "updated" else []
        return values + ([("near", "1")] if self.is_wide else [])

    @property
    def query(self) -> str:
        """The same as the end of an address."""
        return urlencode(self.values)

    def at(self, page: int) -> str:
        """The address of another page."""
        return _address([*self.values, *([("page", str(page))] if page > 1 else [])])

    def toggled(self, facet: str, value: str) -> str:
        """The address with one value of a facet chosen, or not any more."""
        now: tuple[str, ...] = getattr(self.chosen, facet)
        new = tuple(one for one in now if one != value) if value in now else (*now, value)
        changed: dict[str, Any] = {facet: new}
        return _address(self._replace(chosen=self.chosen._replace(**changed)).values)

    def without(self, *facets: str) -> str:
        """The address with nothing chosen of these facets."""
        none: dict[str, Any] = {
            facet: "" if facet in ("since", "until") else () for facet in facets
        }
        return _address(self._replace(chosen=self.chosen._replace(**none)).values)

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is chosen at all."""
        return self.chosen != Chosen()


def _address(values: Sequence[tuple[str, str]]) -> str:
    return f"/?{urlencode(values)}" if values else "/"


class Found(NamedTuple):
    """One page of what was looked for."""

    total: int
    hits: tuple[Hit, ...]  # for a question
    listed: tuple[Listed, ...]  # without one
    facets: Mapping[str, Mapping[str, int]]
    answer: Answer | None = None  # with all hits up to the end of the page
    considered: int = 0  # memories that facets count
    near: int = 0  # memories that only come near the question and are left out


def sought(values: QueryParams) -> SearchState:
    """What an address asks for, or a UsageError that says what is wrong with it."""
    several: dict[str, Any] = {
        name: tuple(dict.fromkeys(filter(None, values.getlist(name)))) for name in FACETS
    }
    if "" in values.getlist("collection"):  # memories at the root of a bank
        several["collection"] = ("", *several["collection"])
    several |= {name: _day(values.get(name, "")) for name in ("since", "until")}
    question = values.get("q", "").strip()
    if len(question) > LONGEST:
        raise UsageError(
            f"a question has at most {LONGEST:,} characters, and this one {len(question):,}",
            hint="Ask for the few words that matter most.",
        )
    order = values.get("sort", "updated")
    return SearchState(
        question,
        Chosen(**several),
        order if order in ORDERS else "updated",
        _page(values.get("page", "")),
        is_wide=bool(question and values.get("near")),
    )


def _page(text: str) -> int:
    """The page that an address names; the first where it names none, the last for any number."""
    if not (text.isascii() and text.isdecimal()):
        return 1
    digits = text.lstrip("0")
    return _MOST_PAGES if len(digits) >= len(str(_MOST_PAGES)) else int(digits or 1)


def _day(text: str) -> str:
    if text and not _DAY.fullmatch(text):
        raise UsageError(f"{text[:40]!r} is no date", hint="Write a date as 2026-01-31.")
    return text


def found(app: App, wanted: SearchState, limit: int = PAGE, offset: int | None = None) -> Found:
    """One page of what is looked for."""
    start = (wanted.page - 1) * limit if offset is None else offset
    if wanted.question:
        return _searched(app, wanted, limit, start)
    shelf = app.browse(wanted.chosen, wanted.order, limit, start)
    facets = {name: _ordered(shelf.facets.get(name, {}), wanted, name) for name in FACETS}
    return Found(shelf.total, (), shelf.memories, facets)


def _searched(app: App, wanted: SearchState, limit: int, start: int) -> Found:
    """The best hits that were chosen; facets count everything that the search has considered.

    A facet counts also what its own choice leaves out. So where something is chosen, the question
    is asked twice: of what was chosen, for the hits, and of everything, for the counts alone.
    """
    asking = _asking(wanted, min(start, _MOST_HITS) + limit)
    # The conditions know dates to the second, and facets to the day: the conditions decide.
    chosen = wanted.chosen._replace(since="", until="")
    if chosen == Chosen():
        answer, tally = app.search_with_tally(asking)
        every = tally
    else:
        _, every = app.search_with_tally(asking._replace(limit=1, explain=False))
        narrow = asking._replace(filters=_narrowed(wanted.chosen, asking.filters))
        # What is far below the best of all is so among fewer as well, or the counts would lie.
        answer, tally = app.search_with_tally(narrow._replace(best=every.best), chosen.scope)
    facets = every.count_facets(chosen)
    shown = {name: _ordered(facets[name], wanted, name) for name in FACETS}
    total, considered = (sum(map(len, search.memories)) for search in (tally, every))
    return Found(total, answer.hits[start:], (), shown, answer, considered, tally.left)


def _asking(wanted: SearchState, limit: int) -> SearchRequest:
    asked: Filters = parse_filters(since=wanted.chosen.since, until=wanted.chosen.until)
    if wanted.chosen.status:
        # A search shows retired memories to whoever speaks of the status, and to nobody else.
        asked = asked._replace(metadata=(Filter("status", "!=", ("",)),))
    wide = SearchRequest(wanted.question, mode=wanted.mode, filters=asked, breadth=PAGE)
    return wide._replace(limit=limit, explain=True, share=0.0 if wanted.is_wide else _SHARE)


def _narrowed(chosen: Chosen, asked: Filters) -> Filters:
    """Conditions that leave what was chosen and nothing else."""
    # An engine takes one collection and one type by itself; either of several is for a filter.
    filtered = {"status": chosen.status} if chosen.status else {}
    for name, values in (("collection", chosen.collection), ("type", chosen.type)):
        filtered |= {name: values} if len(values) > 1 else {}
    return asked._replace(
        collection=chosen.collection[0] if len(chosen.collection) == 1 else None,
        type=chosen.type[0] if len(chosen.type) == 1 else "",
        tags=tuple(tag.casefold() for tag in chosen.tag),
        months=chosen.month,
        metadata=tuple(Filter(name, "=", values) for name, values in filtered.items()),
    )


def _ordered(counts: Mapping[str, int], wanted: SearchState, facet: str) -> dict[str, int]:
    """A facet's values, the most frequent first, months by date; also what is chosen and absent."""
    missing = {value: 0 for value in getattr(wanted.chosen, facet) if value not in counts}
    every = [*counts.items(), *missing.items()]
    if facet == "month":
        return dict(sorted(every, reverse=True))
    return dict(sorted(every, key=lambda one: (-one[1], one[0])))
