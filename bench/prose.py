"""How well recall finds articles for a question (CISI), through the public API.

    python bench/prose.py [--data ../shared/data/cisi-dev.json] [--ablation] [--text]
    python bench/prose.py --engine meilisearch,postgres,qdrant

Each abstract is a memory with its title, all in one bank, with the very settings of every other
bank. Skips clearly without the data; what it lets through is measured with LoCoMo's questions,
which nothing in the bank answers, where those are at hand. Then one, two or three words of a title
are looked for, of such as no more than five titles have: who types so little means that memory.
With engines, their servers are started, given everything, and asked the same beside the embedded
index.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import locomo
import quality

import retain
from retain.text.tokens import words

DATA = os.path.join(os.path.dirname(locomo.DATA), "cisi-dev.json")
DEPTH = 10
_TITLES = 450  # questions of a few words of a title
_MEANT = 5  # documents that such a question may mean, at most
COLUMNS = ("nDCG@10", "R@10", "MRR@10")


class Question(NamedTuple):
    text: str
    relevant: frozenset[str]


class Questions(NamedTuple):
    own: Sequence[Question]
    others: Sequence[str]  # that nothing answers


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", default=DATA)
    options.add_argument("--strangers", default=locomo.DATA, help="questions nothing answers")
    options.add_argument("--ablation", action="store_true", help="leave out one part after another")
    options.add_argument("--text", action="store_true", help="without vectors")
    options.add_argument("--engine", default="", help="engines to compare with embedded")
    args = options.parse_args()
    if not os.path.exists(args.data):
        print(f"skipped: there is no {args.data}")
        return
    with open(args.data, encoding="utf-8") as file:
        collection = json.load(file)
    asked = [Question(one["text"], frozenset(one["rel"])) for one in collection["queries"]]
    with tempfile.TemporaryDirectory(prefix="retain-prose-") as scratch:
        os.environ |= {"HOME": scratch, "RETAIN_HOME": os.path.join(scratch, "home")}
        path = os.path.join(scratch, "prose")
        others = strangers(args.strangers)
        with retain.open(path, background=False) as bank:
            store(bank, collection["docs"])
            mode = "text" if args.text else "hybrid"
            if args.engine:
                questions = Questions(asked, others)
                first = figures(bank, questions, mode)
                beside_engines(path, questions, mode, args.engine, first)
            else:
                report(bank, asked, others, mode, args.ablation)
                of_titles(bank, by_title(collection["docs"]), mode)


def store(bank: Any, documents: Sequence[Mapping[str, str]]) -> None:
    """Every document as a memory, with every vector made."""
    for one in documents:
        # CISI has a few texts that say nothing; the title is then all there is.
        bank.put(one["text"].strip() or one["title"], id=one["id"], title=one["title"])
    bank.make_vectors(progress=quality.progress("prose"))


def strangers(path: str) -> Sequence[str]:
    """Questions about other people's lives, if they are at hand."""
    if not os.path.exists(path):
        return ()
    with open(path, encoding="utf-8") as file:
        conversations = json.load(file)
    return [
        one["question"]
        for conversation in conversations
        for one in conversation["qa"]
        if one["category"] != locomo.ADVERSARIAL
    ]


def report(
    bank: Any, asked: Sequence[Question], others: Sequence[str], mode: str, ablation: bool
) -> None:
    rows = [("all parts", *measured(bank, asked, mode))]
    if ablation:
        rows += [
            (name, *measured(bank, asked, way)) for name, way in quality.without_each_part(mode)
        ]
    print(quality.table(("articles", *COLUMNS), rows))
    kept = answered(bank, [one.text for one in asked], mode)
    through = answered(bank, others, mode) if others else "no other questions"
    print(quality.table(("asked of", "keeps", "lets through"), [("CISI", kept, through)]))


def by_title(documents: Sequence[Mapping[str, str]]) -> Sequence[Question]:
    """A few words of titles, and the documents whose titles have them all."""
    titles = {one["id"]: frozenset(words(one["title"])) for one in documents}
    draw = random.Random(5)
    found: list[Question] = []
    for one in draw.sample(documents, len(documents)):
        telling = sorted({word for word in re.findall("[A-Za-z]{4,}", one["title"]) if words(word)})
        for many in range(1, len(telling) + 1)[:3]:
            text = " ".join(draw.sample(telling, many))
            meant = frozenset(name for name, its in titles.items() if its.issuperset(words(text)))
            if len(meant) <= _MEANT:
                found.append(Question(text, meant))
    return found[:_TITLES]


def of_titles(bank: Any, asked: Sequence[Question], mode: str) -> None:
    rows = [("all parts", *measured(bank, asked, mode))]
    with quality.changed({"title": 0.0}):
        rows.append(("without the title", *measured(bank, asked, mode)))
    print(quality.table((f"{len(asked)} times words of a title", *COLUMNS), rows))


def beside_engines(
    path: str, questions: Questions, mode: str, wanted: str, first: list[float]
) -> None:
    """The same questions of the embedded index and of engines, side by side."""
    import servers

    rows = {quality.EMBEDDED: quality.noted(quality.EMBEDDED, first)}
    for name, counts in servers.in_turns(wanted):
        with servers.opened(path) as bank:
            rows[name] = quality.noted(name, figures(bank, questions, mode))
            servers.check(name, counts, 2 * len(questions.own) + len(questions.others), mode)
    print(quality.beside("articles", (*COLUMNS, "keeps", "lets through"), rows))


def figures(bank: Any, questions: Questions, mode: str) -> list[float]:
    """All that is measured, in one row."""
    own = [one.text for one in questions.own]
    return [
        *measured(bank, questions.own, mode),
        answered(bank, own, mode),
        answered(bank, questions.others, mode),
    ]


def measured(bank: Any, asked: Sequence[Question], mode: str) -> list[float]:
    scores = []
    for question in asked:
        found = [hit.id for hit in quality.asked(bank, question.text, DEPTH, mode).hits]
        scores.append(
            [
                quality.ndcg(found, question.relevant, DEPTH),
                quality.recall(found, question.relevant, DEPTH),
                quality.reciprocal_rank(found, question.relevant),
            ]
        )
    return quality.means(scores)


def answered(bank: Any, questions: Sequence[str], mode: str) -> float:
    """The share of questions that recall says it has an answer to."""
    return quality.mean(
        [float(quality.asked(bank, one, 1, mode).is_confident) for one in questions]
    )


if __name__ == "__main__":
    sys.exit(main())
