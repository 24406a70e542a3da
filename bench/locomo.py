"""How well recall finds what was said in long conversations (LoCoMo), through the public API.

    python bench/locomo.py [--data ../shared/data/locomo-dev.json] [--ablation] [--text]
    python bench/locomo.py --engine meilisearch,postgres,qdrant

Each conversation is a bank and each session a memory dated by its session, one line per turn.
A question counts as answered by the turns its evidence names. Skips clearly without the data.
With engines, their servers are started, given everything, and asked the same beside the embedded
index.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import quality

import retain

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(os.path.dirname(ROOT), "shared", "data", "locomo-dev.json")
KINDS = {1: "several memories", 2: "time", 3: "open", 4: "single fact"}
ADVERSARIAL = 5
COLUMNS = ("R@5", "R@10", "Hit@10", "MRR", "session R@5", "session R@10")
MONTHS = "January February March April May June July August September October November December"


class Question(NamedTuple):
    text: str
    kind: int
    evidence: frozenset[str]


class Conversation(NamedTuple):
    path: str
    bank: Any
    turns: Mapping[tuple[str, int], str]  # memory and line, to the turn's name
    questions: Sequence[Question]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", default=DATA)
    options.add_argument("--ablation", action="store_true", help="leave out one part after another")
    options.add_argument("--text", action="store_true", help="without vectors")
    options.add_argument("--engine", default="", help="engines to compare with embedded")
    args = options.parse_args()
    if not os.path.exists(args.data):
        print(f"skipped: there is no {args.data}")
        return
    with open(args.data, encoding="utf-8") as file:
        conversations = json.load(file)
    with tempfile.TemporaryDirectory(prefix="retain-locomo-") as scratch:
        os.environ |= {"HOME": scratch, "RETAIN_HOME": os.path.join(scratch, "home")}
        banks = [
            stored(conversation, os.path.join(scratch, str(number)))
            for number, conversation in enumerate(conversations)
        ]
        mode = "text" if args.text else "hybrid"
        try:
            if args.engine:
                beside_engines(banks, mode, args.engine)
            else:
                report(banks, mode, args.ablation)
        finally:
            for one in banks:
                one.bank.close()


def stored(conversation: Mapping[str, Any], path: str) -> Conversation:
    """A conversation as a bank, with every vector made."""
    bank = retain.open(path, background=False)
    turns: dict[tuple[str, int], str] = {}
    talk = conversation["conversation"]
    numbers = sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        said = talk[f"session_{number}"]
        memory = bank.put(
            "\n".join(map(line, said)),
            id=f"session-{number}",
            metadata={"created_at": moment(talk[f"session_{number}_date_time"])},
        ).memory
        first = memory.data.count(b"\n") - memory.body.count("\n") + 1
        turns |= {(memory.id, first + at): turn["dia_id"] for at, turn in enumerate(said)}
    bank.make_vectors(progress=quality.progress(os.path.basename(path)))
    known = set(turns.values())
    return Conversation(path, bank, turns, list(questions(conversation, known)))


def line(turn: Mapping[str, Any]) -> str:
    caption = turn.get("blip_caption")
    text = " ".join(turn["text"].split())
    return f"{turn['speaker']}: {text}" + (f" [shares {caption}]" if caption else "")


def moment(text: str) -> str:
    """`1:56 pm on 8 May, 2023` as Retain writes times."""
    hour, minute, half, day, month, year = re.fullmatch(
        r"(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d+)", text
    ).groups()
    hours = int(hour) % 12 + 12 * (half == "pm")
    number = MONTHS.split().index(month) + 1
    return f"{year}-{number:02}-{int(day):02}T{hours:02}:{minute}:00Z"


def questions(conversation: Mapping[str, Any], known: set[str]) -> Iterator[Question]:
    for one in conversation["qa"]:
        named = re.findall(r"D\d+:\d+", " ".join(one.get("evidence") or ()))
        evidence = frozenset(named) & known
        if one["category"] != ADVERSARIAL and evidence:
            yield Question(one["question"], one["category"], evidence)


def report(banks: Sequence[Conversation], mode: str, ablation: bool) -> None:
    rows = [("all parts", *measured(banks, mode))]
    if ablation:
        rows += [(name, *measured(banks, way)) for name, way in quality.without_each_part(mode)]
    print(
        quality.table(
            ("turns", *COLUMNS, *KINDS.values()),
            [(name, *head, *kinds) for name, head, kinds in rows],
        )
    )
    print(quality.table(("asked of", "keeps", "lets through"), abstention(banks, mode)))


def beside_engines(banks: Sequence[Conversation], mode: str, wanted: str) -> None:
    """The same questions of the embedded index and of engines, side by side."""
    import servers

    asked = sum(len(one.questions) for one in banks)
    rows = {quality.EMBEDDED: quality.noted(quality.EMBEDDED, figures(banks, mode))}
    for name, counts in servers.in_turns(wanted):
        opened = [one._replace(bank=servers.opened(one.path)) for one in banks]
        try:
            rows[name] = quality.noted(name, figures(opened, mode))
            servers.check(name, counts, 4 * asked, mode)
        finally:
            for one in opened:
                one.bank.close()
    columns = (*COLUMNS, *KINDS.values(), "keeps", "lets through")
    print(quality.beside("turns", columns, rows))


def figures(banks: Sequence[Conversation], mode: str) -> list[float]:
    """All that is measured, in one row."""
    head, kinds = measured(banks, mode)
    return [*head, *kinds, *abstention(banks, mode)[0][1:]]


def measured(banks: Sequence[Conversation], mode: str) -> tuple[list[float], list[float]]:
    scores: list[list[float]] = []
    kinds = defaultdict(list)
    for one in banks:
        for question in one.questions:
            hits = quality.asked(one.bank, question.text, 10, mode, per="chunk").hits
            found = [one.turns.get((hit.id, hit.line), "") for hit in hits]
            sessions = [
                f"D{hit.id.split('-')[1]}"
                for hit in quality.asked(one.bank, question.text, 10, mode).hits
            ]
            wanted = {name.split(":")[0] for name in question.evidence}
            recall = quality.recall(found, question.evidence, 10)
            kinds[question.kind].append(recall)
            scores.append(
                [
                    quality.recall(found, question.evidence, 5),
                    recall,
                    float(recall > 0),
                    quality.reciprocal_rank(found, question.evidence),
                    quality.recall(sessions, wanted, 5),
                    quality.recall(sessions, wanted, 10),
                ]
            )
    return quality.means(scores), [quality.mean(kinds[kind]) for kind in KINDS]


def abstention(banks: Sequence[Conversation], mode: str) -> list[tuple[str, float, float]]:
    """How many questions are answered at all: of their own conversation, and of the next one."""
    own, other = [], []
    for at, one in enumerate(banks):
        stranger = banks[(at + 1) % len(banks)]
        for question in one.questions:
            own.append(float(quality.asked(one.bank, question.text, 1, mode).is_confident))
            text = without_names(question.text, one)
            other.append(float(quality.asked(stranger.bank, text, 1, mode).is_confident))
    return [("LoCoMo", quality.mean(own), quality.mean(other))]


def without_names(text: str, one: Conversation) -> str:
    for name in {
        hit.who for hit in one.bank.search(text, 10, per="chunk", mode="text").hits if hit.who
    }:
        text = re.sub(rf"\b{re.escape(name)}\b(?:'s)?", " ", text)
    return text


if __name__ == "__main__":
    sys.exit(main())
