"""Every failure has a class and an exit code; no text takes long to read or to refuse."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

import retain
from retain import errors, memory
from retain.bank import filters
from retain.errors import RecordError, RetainError
from retain.text import frontmatter
from tests.growth import grows_linearly


def classes(top: type[RetainError]) -> Iterator[type[RetainError]]:
    yield top
    for one in top.__subclasses__():
        yield from classes(one)


def test_the_picture_shows_every_class_with_its_exit_code() -> None:
    assert errors.__doc__
    shown = dict(re.findall(r"^[│├└─ ]*(\w+) +exit (\d)", errors.__doc__, re.MULTILINE))
    own = {one for one in classes(RetainError) if one.__module__ == errors.__name__}
    assert shown == {one.__name__: str(one.exit_code) for one in own}


def test_every_class_has_a_code_of_its_own() -> None:
    public = [one for one in classes(RetainError) if not one.__name__.startswith("_")]
    codes = [one.code for one in public if one.__module__.startswith("retain.")]
    assert len(set(codes)) == len(codes)


# Patterns


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(retain.__path__, "retain."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def patterns() -> Iterator[tuple[str, re.Pattern[str], bool]]:
    """Every pattern of the package, and whether it is searched for or matched from the start.

    Some are strings in rules, compiled on first use: those are all searched for.
    """
    for module in modules():
        source = inspect.getsource(module)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                uses = rf"\b{name}\.(search|finditer|findall|sub|subn|split)\("
                yield f"{module.__name__}.{name}", value, bool(re.search(uses, source))
            elif isinstance(value, tuple):
                rules = {text for rule in value if (text := getattr(rule, "pattern", None))}
                for number, text in enumerate(sorted(rules)):
                    yield f"{module.__name__}.{name}-{number}", re.compile(text, re.ASCII), True


PATTERNS = {name: (pattern, searched) for name, pattern, searched in patterns()}

# What makes a pattern that goes back on itself try again and again.
SEEDS = [
    *"a 0 - _ . [ [[ ] ( { ' / : = A ! aA0 a. a- a_ a: a= .a -a _0 0- a/ =a eyJ key=".split(),
    *' |\n|a |\t | \n|- |token: |http://a|-----BEGIN |20261115_|"|="|\\'.split("|"),
]


def texts(seed: str, size: int) -> list[str]:
    run = seed * (size // len(seed))
    return [f"{run}\0", f"key: {run}!"]


def grows_gently(work: Callable[[str], object], step: float) -> None:
    """Whatever the text, the time grows with its length.

    What goes back on itself needs hundreds of times `step` for 20 kB; only what needs more
    than that is compared at two sizes.
    """
    for seed in SEEDS:
        for text in texts(seed, 20_000):
            assert grows_linearly(work, text, step), seed


def search(pattern: re.Pattern[str], text: str) -> None:
    for _ in pattern.finditer(text):
        pass


def match(pattern: re.Pattern[str], text: str) -> None:
    pattern.match(text)
    pattern.fullmatch(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_time_in_proportion_to_the_text(name: str) -> None:
    pattern, searched = PATTERNS[name]
    grows_gently(functools.partial(search if searched else match, pattern), step=0.02)


READERS: dict[str, Callable[[str], object]] = {
    "heading": memory.heading,
    "heading after one": lambda text: memory.heading(f"# \n{text}\n# x"),
    "split": frontmatter.split,
    "split of many marks": lambda text: frontmatter.split("---\n" + text.replace("a", "---x\n")),
    "slug": memory.slug,
    "slug of letters": lambda text: memory.slug(text.replace("a", "é\u0301")),
    "key": memory.key,
    "check_id": memory.check_id,
    "split_ref": memory.split_ref,
    "filter": filters.parse,
    "filter value": lambda text: filters.parse(f"a={text}"),
    "filter key": lambda text: filters.parse(f"{text}=a"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_time_in_proportion_to_the_text(name: str) -> None:
    def work(text: str) -> None:
        with contextlib.suppress(RetainError):
            READERS[name](text)

    grows_gently(work, step=0.1)


@pytest.mark.parametrize(
    "kind", [one for one in classes(RetainError) if one.__module__ == errors.__name__]
)
def test_every_error_says_what_to_run_next(kind: type[RetainError]) -> None:
    words = ("RULE", "what happened") if kind is RecordError else ("what happened",)
    assert kind(*words).hint
    assert kind(*words, hint="mine").hint == "mine"


def test_an_error_that_may_come_after_a_write_does_not_claim_that_nothing_changed() -> None:
    assert errors.RetainError("x").unchanged == ""
    assert errors.NotSaved("x").unchanged == ""
