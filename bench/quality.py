"""What the quality benchmarks share: measures, tables, and what to leave out in an ablation."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from retain.search import rank

EMBEDDED = "embedded"
LIMIT = 2  # points that a text engine may be away from it
# Each part of the score, and the weights that switch it off.
_STRUCTURE = {"answer": 0.0, "who": 0.0, "date": 0.0, "question": 0.0, "whole": 0.0, "title": 0.0}
PARTS: Mapping[str, Mapping[str, float]] = {
    "without neighbours": {"before": 0.0, "after": 0.0},
    "without answers to questions": {"answer": 0.0},
    "without the speaker": {"who": 0.0},
    "without dates": {"date": 0.0},
    "without the question penalty": {"question": 0.0},
    "without the whole memory": {"whole": 0.0},
    "without the title": {"title": 0.0},
}
# One arm by itself: how to ask for it, and what to leave out besides.
ARMS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "text only, all parts": ("text", {}),
    "text arm alone": ("text", {"before": 0.0, "after": 0.0, **_STRUCTURE}),
    "vector arm alone": ("semantic", _STRUCTURE),
}


def without_each_part(mode: str) -> Iterator[tuple[str, str]]:
    """Leave out one part after another while the caller measures in the mode that goes with it."""
    arms = ARMS if mode == "hybrid" else {}
    cases = {name: (mode, changes) for name, changes in PARTS.items()} | dict(arms)
    for name, (way, changes) in cases.items():
        with changed(changes):
            yield name, way


@contextlib.contextmanager
def changed(changes: Mapping[str, float]) -> Iterator[None]:
    """Other weights for a while, with vectors and without."""
    before = rank.HYBRID, rank.TEXT
    try:
        rank.HYBRID, rank.TEXT = (one._replace(**changes) for one in before)
        yield
    finally:
        rank.HYBRID, rank.TEXT = before


def asked(bank: Any, text: str, limit: int, mode: str, per: str = "memory") -> Any:
    """An answer to which every arm has had its say; any other would measure something else."""
    answer = bank.search(text, limit, mode=mode, per=per)
    assert not answer.degraded, answer.degraded
    return answer


def recall(found: Sequence[str], wanted: Collection[str], depth: int) -> float:
    return len(set(found[:depth]) & set(wanted)) / len(wanted)


def reciprocal_rank(found: Sequence[str], wanted: Collection[str]) -> float:
    return next((1 / rank for rank, name in enumerate(found, 1) if name in wanted), 0.0)


def ndcg(found: Sequence[str], wanted: Collection[str], depth: int = 10) -> float:
    gain = sum(1 / math.log2(at + 2) for at, name in enumerate(found[:depth]) if name in wanted)
    ideal = sum(1 / math.log2(at + 2) for at in range(min(depth, len(wanted))))
    return gain / ideal if ideal else 0.0


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [mean(column) for column in zip(*rows, strict=True)]


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table with every share in per cent."""
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def noted(name: str, figures: list[float]) -> list[float]:
    """Say what is known by now: with several engines a run takes long."""
    print(f"{name}: {' '.join(f'{100 * one:.2f}' for one in figures)}", file=sys.stderr)
    return figures


def beside(of: str, columns: Sequence[str], rows: Mapping[str, Sequence[float]]) -> str:
    """The embedded index, each engine, and by how many points each of them differs from it."""
    first = rows[EMBEDDED]
    lines: list[Sequence[object]] = []
    furthest = []
    for name, figures in rows.items():
        lines.append((name, *figures))
        if name != EMBEDDED:
            points = [100 * (one - other) for one, other in zip(figures, first, strict=True)]
            lines.append((f"{name}, difference", *(f"{point:+.1f}" for point in points)))
            furthest.append(f"{name} {max(map(abs, points)):.1f}")
    ends = f"Furthest from embedded, in points (limit {LIMIT}): {', '.join(furthest)}.\n"
    return f"{table((of, *columns), lines)}\n{ends}"


def _cell(value: object) -> str:
    return f"{100 * value:.1f}" if isinstance(value, float) else str(value)


def progress(name: str) -> Callable[[int, int], None]:
    """Say on a terminal how far the vectors of a bank are."""

    def show(done: int, of: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{name}: {done}/{of} vectors ", end="", file=sys.stderr)

    return show
