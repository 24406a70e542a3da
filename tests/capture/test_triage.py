from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.capture import triage
from retain.capture.transcript import Message, tail
from retain.capture.triage import CATEGORIES, SIGNALS, Hit, _prose, judged
from tests.capture.settings import ANYTHING, DEFAULTS
from tests.capture.transcripts import claude_code, codex, flat, written
from tests.growth import grows_linearly

FOREVER = "\n".join(["."] * 9)  # far enough to be out of reach of what stands before


def message(text: str, role: str = "user", start: int = 0, *tools: str) -> Message:
    return Message(role, text, tools, start, start + 10)


def scores(text: str) -> dict[str, float]:
    return {hit.category: hit.score for hit in judged([message(text)], ANYTHING)}


def only(category: str, text: str) -> Hit:
    hits = judged([message(text)], ANYTHING._replace(captured=(category,)))
    assert len(hits) == 1
    return hits[0]


PRIMARY = {
    "decision": ["decided", "chose", "selected", "went with", "picked"],
    "runbook": [
        "error", "exception", "traceback", "stack trace", "stacktrace", "failed", "failure",
        "crash",
    ],
    "constraint": [
        "limitation", "api limit", "cannot", "restricted", "not supported", "quota", "rate limit",
    ],
    "tech_debt": [
        "TODO", "deferred", "tech debt", "workaround", "hack", "will address later",
        "technical debt",
    ],
    "preference": [
        "always use", "prefer", "convention", "from now on", "standard", "never use",
        "established",
    ],
}  # fmt: skip
BOOSTERS = {
    "decision": [
        "because", "due to", "reason", "rationale", "over", "instead of", "rather than",
    ],
    "runbook": ["fixed by", "resolved", "root cause", "solution", "workaround", "the fix"],
    "constraint": [
        "discovered", "found that", "turns out", "permanently", "enduring", "platform",
    ],
    "tech_debt": ["because", "for now", "temporary", "acknowledged", "deferring", "cost", "risk"],
    "preference": ["agreed", "going forward", "consistently", "rule", "practice", "workflow"],
}  # fmt: skip
WEIGHTS = {
    "decision": (0.3, 0.5, 1.9),
    "runbook": (0.2, 0.6, 1.8),
    "constraint": (0.3, 0.5, 1.9),
    "tech_debt": (0.3, 0.5, 1.9),
    "preference": (0.35, 0.5, 2.05),
}
NEVER_A_WORD = ["errors", "preferred", "crashed", "conventions", "decide", "overall", "hacky"]


def pairs(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(category, word) for category, words in table.items() for word in words]


def test_a_person_is_shown_code_that_decides_nothing() -> None:
    said = "Fixed by rotating the token: run `make rotate. Now`. The error was a `403 error`.\n"
    code = "```sh\nmake rotate\n```"
    hit = only("runbook", f"{said}\n{code}\nBye.")
    assert hit.title == "The error was a `403 error`."
    assert hit.passage == f"{said}\n{code}"
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
    found = {hit.category: hit.passage for hit in judged(talk, ANYTHING)}
    assert found["runbook"] == (
        "It failed at the lock. The root cause is a stale file. I have removed it."
    )
    assert found["preference"] == (
        "Yes, I shall. From now on use tabs. It is a rule.\n1. Nothing else."
    )


def test_what_backs_a_word_up_is_shown_also_from_another_message() -> None:
    hit = judged(
        [message("There was an error. Why?"), message("Well. See the fix. Bye. Good night.")],
        ANYTHING._replace(captured=("runbook",)),
    )[0]
    assert hit.passage == "There was an error. Why?\n\nWell. See the fix. Bye."


def test_no_secret_is_in_what_a_person_is_shown() -> None:
    token = "ghp_" + "a1B2" * 9
    hit = only("decision", f"We decided on `{token}` because.")
    assert token not in hit.title + hit.passage


def test_the_categories_and_their_thresholds() -> None:
    assert CATEGORIES == (
        "decision", "runbook", "constraint", "tech_debt", "preference", "session_summary",
    )  # fmt: skip
    assert list(DEFAULTS.thresholds.values()) == [0.4, 0.4, 0.5, 0.4, 0.4, 0.6]
    assert list(DEFAULTS.thresholds) == list(CATEGORIES)


@pytest.mark.parametrize("category,word", pairs(PRIMARY))
def test_each_word_alone_weighs_as_much_as_it_should(category: str, word: str) -> None:
    weight, _, whole = WEIGHTS[category]
    for line in (f"We {word} it", word.upper(), word.replace(" ", " \t "), f"({word}.)"):
        assert only(category, line).score == pytest.approx(weight / whole)
    assert only(category, f"x{word}").score == 0
    assert only(category, f"{word}x").score == 0
    assert only(category, word.replace(" ", "\n") if " " in word else "").score == 0


@pytest.mark.parametrize("category,word", pairs(BOOSTERS))
def test_each_word_that_backs_another_up(category: str, word: str) -> None:
    _, weight, whole = WEIGHTS[category]
    first = PRIMARY[category][0]
    for line in (f"{first} {word}", f"{word.upper()}\n{first}", f"{first}\n\n{word}"):
        assert only(category, line).score == pytest.approx(weight / whole)
    if word not in PRIMARY[category]:
        assert only(category, word).score == 0


@pytest.mark.parametrize("word", NEVER_A_WORD)
def test_only_whole_words_count(word: str) -> None:
    assert set(scores(word).values()) == {0.0, 0.02}  # one exchange


def test_the_patterns_are_the_words_of_the_table() -> None:
    def words(alternatives: str) -> set[str]:
        return set(alternatives.replace(r"\s+", " ").replace(r"\s*", " ").split("|"))

    for category, signals in SIGNALS.items():
        assert words(signals.primary) == set(PRIMARY[category]) - {"stacktrace"}
        assert words(signals.booster) == set(BOOSTERS[category])


@pytest.mark.parametrize("distance,score", [(0, 0.5), (1, 0.5), (4, 0.5), (5, 0.3), (6, 0.3)])
@pytest.mark.parametrize("before", [True, False])
def test_support_reaches_four_lines(distance: int, score: float, before: bool) -> None:
    words = ["because", "decided"] if before else ["decided", "because"]
    text = (" " if distance == 0 else "\n" * distance).join(words)
    assert only("decision", text).score == pytest.approx(score / 1.9)


@pytest.mark.parametrize("category", SIGNALS)
@pytest.mark.parametrize(
    "primary,boosted,counted",
    [
        (0, 0, (0, 0)),
        (1, 0, (1, 0)),
        (2, 0, (2, 0)),
        (3, 0, (3, 0)),
        (9, 0, (3, 0)),
        (0, 1, (0, 1)),
        (0, 2, (0, 2)),
        (0, 3, (1, 2)),  # what is one too many to be boosted counts as a plain one
        (0, 4, (2, 2)),
        (0, 9, (3, 2)),
        (3, 2, (3, 2)),
        (9, 9, (3, 2)),
    ],
)
def test_weights_caps_and_overflow(
    category: str, primary: int, boosted: int, counted: tuple[int, int]
) -> None:
    weight, more, whole = WEIGHTS[category]
    word, backing = PRIMARY[category][0], BOOSTERS[category][0]
    text = f"\n{FOREVER}\n".join([word] * primary + [f"{word} {backing}"] * boosted)
    expected = (counted[0] * weight + counted[1] * more) / whole
    assert only(category, text).score == pytest.approx(expected)
    assert expected <= 1.0 + 1e-9


def test_a_line_counts_once() -> None:
    assert only("decision", "chose and picked and decided").score == pytest.approx(0.3 / 1.9)


@pytest.mark.parametrize(
    "category,primary,boosted,fires",
    [
        ("decision", 2, 0, False),
        ("decision", 3, 0, True),  # 0.4737
        ("decision", 0, 1, False),
        ("decision", 1, 1, True),  # 0.4211
        ("runbook", 3, 0, False),  # 0.3333
        ("runbook", 0, 1, False),  # 0.3333
        ("runbook", 1, 1, True),  # 0.4444
        # Without support a constraint reaches 0.4737 at most, which is never enough.
        ("constraint", 3, 0, False),
        ("constraint", 1, 1, False),  # 0.4211
        ("constraint", 2, 1, True),  # 0.5789
        ("constraint", 0, 2, True),  # 0.5263
        ("tech_debt", 3, 0, True),
        ("preference", 2, 0, False),  # 0.3415
        ("preference", 3, 0, True),  # 0.5122
        ("preference", 1, 1, True),  # 0.4146
    ],
)
def test_what_it_takes_to_fire(category: str, primary: int, boosted: int, fires: bool) -> None:
    word, backing = PRIMARY[category][1], BOOSTERS[category][1]
    text = f"\n{FOREVER}\n".join([word] * primary + [f"{word} {backing}"] * boosted)
    fired = [hit.category for hit in judged([message(text)], DEFAULTS)]
    assert (category in fired) is fires


def test_a_score_that_equals_the_threshold_fires() -> None:
    score = only("decision", "decided").score
    for least, fires in ((score, True), (score + 1e-9, False)):
        settings = DEFAULTS._replace(thresholds={"decision": least}, captured=("decision",))
        assert bool(judged([message("decided")], settings)) is fires


@pytest.mark.parametrize(
    "tools,distinct,exchanges,score",
    [
        (0, 0, 1, 0.02),
        (1, 1, 0, 0.15),
        (10, 1, 0, 0.6),
        (9, 1, 2, 0.59),
        (6, 3, 0, 0.6),
        (3, 3, 7, 0.59),
        (0, 0, 30, 0.6),
        (0, 0, 29, 0.58),
        (100, 20, 49, 1.0),
    ],
)
def test_a_session_is_judged_by_its_activity(
    tools: int, distinct: int, exchanges: int, score: float
) -> None:
    names = [f"tool{index % max(distinct, 1)}" for index in range(tools)]
    messages = [message("hm") for _ in range(exchanges)]
    if names:
        messages.insert(0, message("", "assistant", 0, *names))
    settings = ANYTHING._replace(captured=("session_summary",))
    hit = judged(messages, settings)[0]
    assert hit.score == score
    assert hit.snippets == (f"{tools} tool uses across {distinct} tools, {exchanges} exchanges",)
    fired = [hit.category for hit in judged(messages, DEFAULTS)]
    assert ("session_summary" in fired) is (score >= 0.6)


@pytest.mark.parametrize("records", [claude_code(), flat(), codex()])
def test_every_host_gives_the_same_activity(tmp_path: Path, records: list[object]) -> None:
    messages = tail(written(tmp_path / "t.jsonl", records), 50)
    hit = judged(messages, ANYTHING)[-1]
    assert hit.snippets == ("4 tool uses across 3 tools, 6 exchanges",)


def test_hits_come_in_the_order_of_the_categories_and_only_for_those_wanted() -> None:
    text = "\n".join(words[0] for words in PRIMARY.values())
    assert tuple(hit.category for hit in judged([message(text)], ANYTHING)) == CATEGORIES
    wanted = ANYTHING._replace(captured=("preference", "decision", "unknown"))
    assert [hit.category for hit in judged([message(text)], wanted)] == ["decision", "preference"]
    assert judged([message(text)], ANYTHING._replace(captured=())) == []


def test_nothing_said_is_nothing_to_judge() -> None:
    assert judged([], ANYTHING) == []
    assert judged([], ANYTHING, "   ") == []
    assert judged([message("decided")], ANYTHING._replace(max_messages=0)) == []


def test_only_the_last_messages_are_judged() -> None:
    messages = [message("decided"), message("chose"), message("picked")]
    for most, score in ((3, 0.9), (2, 0.6), (1, 0.3)):
        hit = judged(messages, ANYTHING._replace(max_messages=most))[0]
        assert hit.score == pytest.approx(score / 1.9)
    hit = judged(messages, ANYTHING._replace(max_messages=1), "Well.")[0]
    assert hit.score == 0


def test_the_last_words_count_before_the_host_has_written_them() -> None:
    messages = [message("picked"), message("decided ", "assistant", 100)]
    assert judged(messages, ANYTHING, "I chose")[0].score == pytest.approx(0.9 / 1.9)
    assert judged(messages, ANYTHING, "decided")[0].score == pytest.approx(0.6 / 1.9)
    assert judged(messages, ANYTHING, "picked")[0].score == pytest.approx(0.9 / 1.9)
    hit = judged([], ANYTHING, "decided")[0]
    assert hit.score == pytest.approx(0.3 / 1.9)
    assert (hit.start, hit.end) == (0, 0)
    hit = judged(messages[:1], ANYTHING._replace(max_messages=1), "I chose")[0]
    assert (hit.start, hit.end) == (10, 10)


def test_the_last_words_are_heard_without_what_a_hook_put_in() -> None:
    last = "<memory-context>\nWe decided x because y.\n</memory-context>\nFine."
    assert judged([], ANYTHING, last)[0].score == 0


@pytest.mark.parametrize(
    "text,left",
    [
        ("a `decided` b", "a  b"),
        ("a\n```py\ndecided\n```\nb", "a\n\nb"),
        ("```a``` decided ```b```", " decided "),
        ("``` never closed decided", "``` never closed decided"),
        ("`never closed", "`never closed"),
        ("``decided``", "``"),
        ("a `two\nlines` b", "a  b"),
        ("", ""),
    ],
)
def test_code_is_no_speech(text: str, left: str) -> None:
    assert _prose(text)[1].text == left


@given(text=st.text(alphabet="a`\n", max_size=40))
@example("````a```")
@example("`a``b`")
def test_code_is_what_two_patterns_call_code(text: str) -> None:
    expected = re.sub(r"`[^`]+`", "", re.sub(r"```[\s\S]*?```", "", text))
    assert _prose(text)[1].text == expected


def test_a_fence_may_reach_from_one_message_into_the_next() -> None:
    messages = [message("```\ndecided"), message("picked\n```\nchose", start=50)]
    hit = judged(messages, ANYTHING)[0]
    assert hit.score == pytest.approx(0.3 / 1.9)
    assert (hit.start, hit.end) == (50, 60)


def test_a_hit_points_to_the_messages_it_came_from() -> None:
    texts = ["Hello.", "`code` ```\nmore\n``` we decided", "Hm.", "`x` picked", "Bye."]
    messages = [message(text, start=100 * index) for index, text in enumerate(texts)]
    decision, *_, session = judged(messages, ANYTHING)
    assert (decision.start, decision.end) == (100, 310)
    assert (session.start, session.end) == (0, 410)


WORDS = [word for _, word in pairs(PRIMARY) + pairs(BOOSTERS)]


@given(
    st.lists(
        st.sampled_from(
            [
                *WORDS,
                *NEVER_A_WORD,
                "\n",
                "\n\n\n",
                "\u0130",
                "\u017felected",
                "cras\u017fh",
                "l\u0131mit",
            ]
        )
        | st.text(alphabet="aeio kK\u212a\u0307\u0130\u0131\u017fs\r\x85\u2028.", max_size=4),
        max_size=40,
    )
)
@example(["we", "P\u0130CKED"])
@example(["\u017felected", "becau\u017fe"])
@example(["hac\u212a", "PIC\u212aED"])
def test_plain_searching_finds_what_the_patterns_find(parts: list[str]) -> None:
    text = " ".join(parts)
    lines = text.split("\n")
    found = scores(text)
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
        weight, more, whole = WEIGHTS[category]
        expected = min(1.0, (plain * weight + boosted * more) / whole)
        assert found[category] == pytest.approx(expected)


def test_snippets_are_the_lines_that_counted_each_once() -> None:
    text = "\n".join(["  decided  ", "decided", "chose " + "x" * 200, "picked", "selected"])
    snippets = only("decision", text).snippets
    assert snippets == ("decided", "chose " + "x" * 114)


def test_a_secret_is_out_of_a_hit_even_where_it_would_be_cut() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    line = f"decided {'x' * 90} token {secret}"
    hit = only("decision", line)
    (snippet,) = hit.snippets
    assert secret not in hit.context
    assert "ghp_" not in snippet
    assert "[REDACTED" in snippet


@pytest.mark.parametrize("distance,parts", [(21, 1), (22, 2)])
def test_windows_that_touch_are_one(distance: int, parts: int) -> None:
    lines = ["."] * 60
    lines[10] = lines[10 + distance] = "decided"
    assert only("decision", "\n".join(lines)).context.count("\n---\n") == parts - 1


class Clock:
    """Says that it is late after so many looks at it."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.looked = 0

    def is_late(self) -> bool:
        self.looked += 1
        return self.looked > self.looks


FLOOD = [message("error the fix, we decided because of it\n" * 1_000)] * 50


@pytest.mark.parametrize("category", ["decision", "runbook"])
def test_of_a_flood_of_words_only_the_first_are_looked_at(category: str) -> None:
    clock = Clock(1_000_000)
    (hit,) = judged(FLOOD, ANYTHING._replace(captured=(category,)), "", clock.is_late)
    assert hit.score == 1.0
    assert len(hit.context) == 100_000 + len(triage.EXCERPTS)
    assert clock.looked < 10


def test_words_that_nothing_backs_up_are_not_looked_for_without_end() -> None:
    clock = Clock(1_000_000)
    flood = [message("we decided overall\n" * 2_000)] * 50
    (hit,) = judged(flood, ANYTHING._replace(captured=("decision",)), "", clock.is_late)
    assert hit.score == pytest.approx(0.9 / 1.9)
    assert clock.looked < 20


def test_who_is_late_judges_by_what_was_found() -> None:
    words = [message("decided because"), message("x" * 20_000), message("picked\npicked")]
    full = {hit.category: hit.score for hit in judged(words, ANYTHING)}
    assert full["decision"] == pytest.approx(1.3 / 1.9)
    found = {hit.category: hit.score for hit in judged(words, ANYTHING, "", Clock(1).is_late)}
    assert found["decision"] == pytest.approx(0.5 / 1.9)
    none = {hit.category: hit.score for hit in judged(words, ANYTHING, "", Clock(0).is_late)}
    assert none == {**dict.fromkeys(CATEGORIES, 0.0), "session_summary": 0.06}


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
        return judged([message(part)], ANYTHING)

    assert grows_linearly(run, text)


def test_a_secret_that_something_invisible_parts_is_known_all_the_same() -> None:
    token = "gh" + "p_" + "aB3" * 12
    parted = "\u200b".join((token[:10], token[10:]))
    hit = only("decision", f"We decided on {parted} because of it.\nWe chose {parted} over all.")
    assert all("aB3aB3" not in snippet for snippet in hit.snippets)
