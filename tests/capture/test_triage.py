"""Which kinds of memories a conversation calls for, by the tables of claude-memory."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.capture import triage
from retain.capture.transcript import Message
from retain.capture.triage import CATEGORIES, EXCERPTS, SIGNALS, Finding
from tests.capture.settings import ANYTHING, DEFAULTS
from tests.growth import grows_linearly


def judge(
    messages: list[Message],
    thresholds: dict[str, float],
    last: str = "",
    is_late: Callable[[], bool] = lambda: False,
) -> list[Finding]:
    return triage.judge(messages, thresholds, last, is_late).findings


def message(text: str, role: str = "user", start: int = 0, *tools: str) -> Message:
    return Message(role, text, tools, start, start + 10)


def only(category: str, text: str) -> Finding:
    (hit,) = judge([message(text)], {category: 0.0})
    return hit


def prose(text: str) -> str:
    """What is left of a text of a few lines, by what stands around a word before it."""
    return only("decision", f"decided\n{text}").context.removeprefix(f"{EXCERPTS}decided\n")


def words(alternatives: str) -> list[str]:
    return re.sub(r"\\s[*+]", " ", alternatives).split("|")


PRIMARY = {category: words(signals.primary) for category, signals in SIGNALS.items()}
BOOSTERS = {category: words(signals.booster) for category, signals in SIGNALS.items()}
NEVER_A_WORD = ["errors", "preferred", "crashed", "conventions", "decide", "overall", "hacky"]
WORDS = [word for table in (PRIMARY, BOOSTERS) for words in table.values() for word in words]


def test_a_person_is_shown_code_that_decides_nothing() -> None:
    said = "Fixed by rotating the token: run `make rotate. Now`. The error was a `403 error`.\n"
    code = "```sh\nmake rotate\n```"
    hit = only("runbook", f"{said}\n{code}\nBye.")
    assert hit.title == "The error was a `403 error`."
    assert hit.text == f"{said}\n{code}"
    assert hit.snippets == ("Fixed by rotating the token: run . The error was a .",)
    assert "make rotate" not in hit.context  # as claude-memory has it


def test_what_a_person_is_shown_is_what_was_said_around_the_words_that_decide() -> None:
    talk = [
        message("It does not start. What now?"),
        message(
            "It failed at the lock. The root cause is a stale file. I have removed it. "
            "Tests are green. Shall I go on? Yes, I shall. From now on use tabs. It is a rule."
            "\n1. Nothing else.\n2. At all.",
            "assistant",
        ),
    ]
    found = {hit.category: hit.text for hit in judge(talk, ANYTHING)}
    assert found["runbook"] == (
        "It failed at the lock. The root cause is a stale file. I have removed it."
    )
    assert found["preference"] == (
        "Yes, I shall. From now on use tabs. It is a rule.\n1. Nothing else."
    )


@pytest.mark.parametrize(
    "category, word, support, plain, boosted",
    [
        ("decision", "went with", "rather than", 0.3 / 1.9, 0.5 / 1.9),
        ("runbook", "stacktrace", "root cause", 0.2 / 1.8, 0.6 / 1.8),
        ("constraint", "cannot", "turns out", 0.3 / 1.9, 0.5 / 1.9),
        ("tech_debt", "TODO", "for now", 0.3 / 1.9, 0.5 / 1.9),
        ("preference", "from now on", "going forward", 0.35 / 2.05, 0.5 / 2.05),
    ],
)
def test_scores_are_those_of_claude_memory(
    category: str, word: str, support: str, plain: float, boosted: float
) -> None:
    assert only(category, word).score == pytest.approx(plain)
    assert only(category, f"{word} {support}").score == pytest.approx(boosted)


@pytest.mark.parametrize(
    "tools,distinct,exchanges,score",
    [
        (0, 0, 1, 0.02),
        (1, 1, 0, 0.15),
        (10, 1, 0, 0.6),
        (9, 1, 2, 0.59),
        (3, 3, 7, 0.59),
        (0, 0, 30, 0.6),
        (100, 20, 49, 1.0),
    ],
)
def test_a_session_is_judged_by_its_activity(
    tools: int, distinct: int, exchanges: int, score: float
) -> None:
    names = [f"tool{index % max(distinct, 1)}" for index in range(tools)]
    messages = [message("hm")] * exchanges + [message("", "assistant", 0, *names)] * bool(names)
    (hit,) = judge(messages, {"session_summary": 0.0})
    assert hit.score == score
    assert hit.snippets == (f"{tools} tool uses across {distinct} tools, {exchanges} exchanges",)
    fired = [hit.category for hit in judge(messages, DEFAULTS)]
    assert ("session_summary" in fired) is (score >= 0.6)


def test_hits_come_in_the_order_of_the_categories_and_only_for_those_wanted() -> None:
    text = "\n".join(words[0] for words in PRIMARY.values())
    assert tuple(hit.category for hit in judge([message(text)], ANYTHING)) == CATEGORIES
    wanted = dict.fromkeys(("preference", "decision", "unknown"), 0.0)
    assert [hit.category for hit in judge([message(text)], wanted)] == ["decision", "preference"]
    for nothing in (judge([message(text)], {}), judge([], ANYTHING)):
        assert nothing == []
    last = "<memory-context>\nWe decided x because y.\n</memory-context>\nFine."
    assert judge([], ANYTHING, last)[0].score == 0  # a hook put it in


def test_the_last_words_count_before_the_host_has_written_them() -> None:
    messages = [message("picked"), message("decided ", "assistant", 100)]
    assert judge(messages, ANYTHING, "I chose")[0].score == pytest.approx(0.9 / 1.9)
    assert judge(messages, ANYTHING, "decided")[0].score == pytest.approx(0.6 / 1.9)
    assert judge(messages, ANYTHING, "picked")[0].score == pytest.approx(0.9 / 1.9)
    hit = judge([], ANYTHING, "decided")[0]
    assert hit.score == pytest.approx(0.3 / 1.9)
    assert (hit.start, hit.end) == (0, 0)
    hit = judge([message("hm")], ANYTHING, "I chose")[0]
    assert (hit.start, hit.end) == (10, 10)


@given(text=st.text(alphabet="a`\n", max_size=10))
@example("````a```")
@example("``a``")
@example("`a``b`")
def test_code_is_what_two_patterns_call_code(text: str) -> None:
    expected = re.sub(r"`[^`]+`", "", re.sub(r"```[\s\S]*?```", "", text))
    assert prose(text) == expected


def test_a_hit_points_to_the_messages_it_came_from() -> None:
    texts = ["Hello.", "`code` ```\nmore\n``` we decided", "Hm.", "`x` picked", "Bye."]
    messages = [message(text, start=100 * index) for index, text in enumerate(texts)]
    decision, *_, session = judge(messages, ANYTHING)
    assert (decision.start, decision.end) == (100, 310)
    assert (session.start, session.end) == (0, 410)


@pytest.mark.parametrize("word", NEVER_A_WORD)
def test_a_part_of_a_word_counts_for_nothing(word: str) -> None:
    assert not any(only(category, word).score for category in SIGNALS)


@given(st.lists(st.sampled_from([*WORDS, "\n", "\n\n\n"]), max_size=40))
def test_scores_follow_the_tables(parts: list[str]) -> None:
    text = " ".join(parts)
    lines = text.split("\n")
    for category, signals in SIGNALS.items():
        primary = re.compile(rf"\b({signals.primary})\b", re.IGNORECASE)
        booster = re.compile(rf"\b({signals.booster})\b", re.IGNORECASE)
        plain = boosted = 0
        for number, line in enumerate(lines):
            if not primary.search(line):
                continue
            around = lines[max(0, number - 4) : number + 5]
            if boosted < 2 and any(booster.search(other) for other in around):
                boosted += 1
            else:
                plain = min(3, plain + 1)
        weight = plain * signals.primary_weight + boosted * signals.boosted_weight
        expected = min(1.0, weight / signals.denominator)
        assert only(category, text).score == pytest.approx(expected)


def test_no_secret_leaves_a_conversation() -> None:
    token = "gh" + "p_" + "aB3" * 12
    parted = "\u200b".join((token[:10], token[10:]))
    hit = only("decision", f"We decided on {parted} because.\nWe chose {'x' * 90} token {token}.")
    assert "aB3aB3" not in " ".join((hit.title, hit.text, hit.context, *hit.snippets))
    assert "[REDACTED" in hit.snippets[1]  # though it would be cut


@pytest.mark.parametrize("lines, score", [(9, 1.3 / 1.9), (2, 0.5 / 1.9), (0, 0.0)])
def test_who_is_late_judges_by_what_was_found(lines: int, score: float) -> None:
    words = [message("decided because"), message("x" * 20_000), message("picked\npicked")]
    looks = iter([False] * lines)
    verdict = triage.judge(words, {"decision": 1.0}, "", lambda: next(looks, True))
    assert verdict.scores["decision"] == pytest.approx(score)


def test_of_a_huge_message_only_its_ends_are_judged() -> None:
    filler = "x" * 30_000
    assert only("decision", f"decided\n{filler}\n{filler}\npicked").score > 0.31
    assert only("decision", f"{filler}\ndecided\n{filler}").score == 0
    assert only("decision", f"{'x' * 19_000}\ndecided\n{'x' * 20_000}").score > 0


@pytest.mark.parametrize(
    "text",
    [
        "stack" + " " * 40_000,
        "will address " * 3_000,
        "rate  " * 6_000,
        "`" * 40_000,
        "```a" * 10_000,
        "`a" * 20_000,
        "error the fix\n" * 2_800,
        "from now " * 4_000,
    ],
)
def test_judging_grows_with_the_text_and_no_faster(text: str) -> None:
    def run(part: str) -> object:
        return judge([message(part)], ANYTHING)

    assert grows_linearly(run, text)
