"""Search through the public API: what is found, in which order, and what is said about it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retain
from retain.app import App
from retain.errors import BadFilter, BadName, RetainError, UsageError
from retain.memory import Answer, Hit
from retain.search.request import SearchRequest
from tests.growth import grows_linearly

DAY = datetime(2026, 6, 17, 12, tzinfo=UTC)  # a Wednesday


def refs(answer: Answer) -> list[str]:
    return [hit.ref for hit in answer.hits]


def found(memory: App, query: str, **options: object) -> list[str]:
    return refs(memory.search(query, **options))  # type: ignore[arg-type]


def created(days: float, now: datetime | None = None) -> dict[str, object]:
    moment = (now or datetime.now(UTC)) - timedelta(days)
    return {"created_at": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}


def lines_of(hit: Hit) -> list[str]:
    return Path(hit.path).read_text(encoding="utf-8").split("\n")


# The documents' examples


def test_search_over_all_collections_and_in_one_as_in_document_000(notes: App) -> None:
    everywhere = notes.search("security")
    assert {"knowledge", "research"} <= {hit.collection for hit in everywhere.hits[:3]}
    scoped = notes.search("security", collection="knowledge")
    assert scoped.hits
    assert {hit.collection for hit in scoped.hits} == {"knowledge"}
    assert refs(notes.search("GPU acceleration"))[0] == "knowledge/gpu-patterns"
    assert refs(notes.search("GPU acceleration", collection="knowledge"))[0] == (
        "knowledge/gpu-patterns"
    )
    assert found(notes, "GPU acceleration", collection="memory")[:1] != ["knowledge/gpu-patterns"]


def test_meaning_finds_what_shares_no_word(notes: App) -> None:
    answer = notes.search("what does Jonas have as a pet?")
    assert refs(answer)[0] == "memory/dog"
    assert refs(notes.search("how are credentials stored?"))[0] == "knowledge/password-hashing"


# What a hit says


def test_hit_carries_the_line_and_heading_where_its_text_stands(memory: App) -> None:
    parts = ["Before any heading.\n\n# Guide\n\n", "About the weather in general. " * 12]
    parts += ["\n\n## Setup\n\n", "Install the walrus with care. " * 12]
    parts += ["\n\n## Use\n\n", "Feed it every morning. " * 12]
    extra = {"a": [1, 2, 3], "b": {"c": "d\ne"}}
    memory.put("".join(parts), id="guide", title="A guide", tags=["x"], metadata=extra)
    (hit,) = memory.search("walrus").hits
    assert hit.header_path == "Guide > Setup"
    assert lines_of(hit)[hit.line - 1] == hit.text.split("\n")[0] == "## Setup"
    assert (hit.title, hit.scope, hit.who, hit.tags) == ("A guide", "bank", "", ("x",))
    assert hit.created_at == memory.get("guide").meta["created_at"]
    Path("bank/memories/plain.md").write_text("narwhal at the very first line", encoding="utf-8")
    assert memory.search("narwhal").hits[0].line == 1


def test_hit_of_a_typed_memory_leads_to_its_first_field(memory: App) -> None:
    content = {"status": "accepted", "context": "a", "decision": "Walrus", "rationale": ["b"]}
    memory.record("decision", content, title="Animals")
    (hit,) = memory.search("walrus").hits
    assert lines_of(hit)[hit.line - 1].strip() == "status: accepted"


def test_heading_of_a_talk_leads_to_what_was_said_below_it(memory: App) -> None:
    memory.put("# Walrus planning\n\nAnn: We start on Monday.\nBob: Fine by me.", id="talk")
    hit = memory.search("walrus planning").hits[0]
    assert (hit.text, hit.who) == ("Ann: We start on Monday.", "Ann")
    assert lines_of(hit)[hit.line - 1] == hit.text
    assert hit.header_path == "Walrus planning"
    every = memory.search("walrus planning monday", per="chunk").hits
    assert "# Walrus planning" not in [hit.text for hit in every]
    assert len({hit.line for hit in every}) == len(every)


def test_one_hit_per_memory_and_every_chunk_when_asked(memory: App) -> None:
    turns = "\n".join(f"Ann: the walrus said {n}\nBob: which walrus, {n}?" for n in range(5))
    memory.put(turns, id="talk")
    memory.put("walrus", id="note")
    assert sorted(found(memory, "walrus")) == ["memories/note", "memories/talk"]
    chunks = memory.search("walrus", limit=50, per="chunk").hits
    assert [hit.id for hit in chunks].count("talk") == 10
    assert len({(hit.id, hit.line) for hit in chunks}) == 11
    best = next(hit for hit in memory.search("walrus").hits if hit.id == "talk")
    assert best == next(hit for hit in chunks if hit.id == "talk")


def test_score_means_the_same_for_every_question(notes: App) -> None:
    good = notes.search("connection pool holds twenty connections per worker").hits[0].score
    vague = notes.search("connection to the fourth world").hits[0].score
    wrong = notes.search("breeding habits of emperor penguins").hits[0].score
    assert good > 0.8 > vague > wrong
    assert wrong < 0.1


def test_a_low_score_can_be_left_out(notes: App) -> None:
    scores = [hit.score for hit in notes.search("security audit").hits]
    bar = scores[1]
    assert [h.score for h in notes.search("security audit", min_score=bar).hits] == scores[:2]
    assert notes.search("security audit", min_score=1.1).hits == ()


# Order


def test_order_is_the_same_twice_and_after_the_index_was_made_anew(memory: App) -> None:
    for number in range(40):  # many of them equal
        memory.put(f"The walrus number {number % 3} eats fish.", id=f"w{number:02}")
    before = [memory.search(query, 40).hits for query in ("walrus", "walrus fish 2", "number")]
    for work in (lambda: None, memory.rebuild):
        work()
        again = [memory.search(query, 40).hits for query in ("walrus", "walrus fish 2", "number")]
        assert again == before


# Conditions


@pytest.fixture
def shelf(memory: App) -> App:
    """Memories about walruses that differ in everything a condition may ask for."""
    memory.put("walrus one", id="a", collection="sea", type="fact", tags=["Cold", "big"])
    memory.put("walrus two", id="b", collection="sea", type="plan", tags=["warm"])
    memory.put("walrus three", id="c", collection="zoo", type="fact", tags=["big"])
    memory.put("walrus four", id="d", collection="zoo", metadata={"priority": "high", "n": 4})
    memory.put("walrus five", id="e", metadata=created(400))
    memory.put("walrus six", id="f", metadata={"created_at": "2026-05-08T23:30:00Z"})
    return memory


@pytest.mark.parametrize(
    "options, names",
    [
        ({"collection": "sea"}, "ab"),
        ({"collection": "memories"}, "ef"),
        ({"type": "fact"}, "ac"),
        ({"tags": ["BIG"]}, "ac"),
        ({"tags": ["cold", "warm"]}, "ab"),
        ({"tags": [" cold "]}, "a"),
        ({"tags": ["col"]}, ""),
        ({"filter": ["priority=high"]}, "d"),
        ({"filter": ["tags=big,warm"]}, "abc"),
        ({"filter": ["collection=zoo", "type=fact"]}, "c"),
        ({"filter": ["id=e"]}, "e"),
        ({"until": "365d"}, "e"),
        ({"since": "2026-05-08", "until": "2026-05-08"}, "f"),
        ({"since": "2026-05", "until": "2026-05"}, "f"),
        ({"since": "1h"}, "abcd"),
        ({"collection": "sea", "type": "fact", "tags": ["big"], "since": "7d"}, "a"),
        ({"collection": "sea", "type": "fact", "tags": ["warm"]}, ""),
    ],
    ids=str,
)
def test_only_what_meets_every_condition_is_found(
    options: dict[str, object], names: str, shelf: App
) -> None:
    for mode in ("hybrid", "text"):
        answer = shelf.search("walrus", mode=mode, **options)  # type: ignore[arg-type]
        assert sorted(hit.id for hit in answer.hits) == sorted(names)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"filter": ["???"]}, BadFilter),
        ({"filter": ["created_at>=soon"]}, BadFilter),
        ({"since": "some day"}, UsageError),
        ({"until": "30 February"}, UsageError),
        ({"collection": "../x"}, BadName),
        ({"collection": "a/b"}, BadName),
        ({"limit": 0}, UsageError),
        ({"mode": "fuzzy"}, UsageError),
        ({"per": "line"}, UsageError),
    ],
    ids=str,
)
def test_condition_that_cannot_be_understood_says_so(
    options: dict[str, object], error: type[RetainError], shelf: App
) -> None:
    with pytest.raises(error):
        shelf.search("walrus", **options)  # type: ignore[arg-type]


def crowd(number: int = 300) -> Mapping[str, str]:
    return {f"crowd-{n}": "walrus walrus walrus tusk tusk" for n in range(number)}


def write(root: Path, files: Mapping[str, str]) -> None:
    """Files as another program leaves them; the next search takes them in."""
    root.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / f"{name}.md").write_text(text, encoding="utf-8")


def test_rare_match_behind_hundreds_of_better_ones_is_found(memory: App) -> None:
    """Conditions choose among all memories, not among the best of them."""
    write(Path("bank/memories"), crowd())
    long = "A long story about ice and fish and weather. " * 20
    memory.put(f"{long} walrus {long}", id="odd", type="plan", tags=["rare"], collection="other")
    assert "other/odd" not in found(memory, "walrus tusk", limit=100)
    for options in (
        {"type": "plan"},
        {"tags": ["rare"]},
        {"collection": "other"},
        {"filter": ["type=plan"]},
        {"since": "1h", "type": "plan"},
    ):
        for per in ("memory", "chunk"):
            assert set(found(memory, "walrus tusk", per=per, **options)) == {"other/odd"}


def test_common_word_is_searched_where_a_condition_leaves_only_that(memory: App) -> None:
    """In the whole bank a word of thousands of chunks chooses nothing; in a collection it must."""
    memory.put("\n".join(f"Bob: common talk {n}" for n in range(6_100)), id="talk")
    memory.put("A common thing.", id="mine", collection="small")
    memory.put("Something rare.", id="rare")
    assert found(memory, "common", collection="small") == ["small/mine"]
    assert found(memory, "common rare", collection="small") == ["small/mine"]


def test_as_many_hits_as_asked_for(memory: App) -> None:
    write(Path("bank/memories"), crowd(450))
    for limit in (1, 7, 450, 10_000, 10**30):
        assert len(found(memory, "walrus", limit=limit)) == min(limit, 450)
        assert len(found(memory, "walrus", limit=limit, type="journal")) == min(limit, 450)


def test_long_talk_does_not_crowd_out_the_other_memories(memory: App) -> None:
    memory.put("\n".join(f"Bob: walrus {n}" for n in range(400)), id="talk")
    long = "A long story about ice and fish and weather. " * 8
    for number in range(5):
        memory.put(f"{long} walrus {long}", id=f"n{number}")
    assert sorted(found(memory, "walrus")) == [
        *(f"memories/n{n}" for n in range(5)),
        "memories/talk",
    ]
    assert len(found(memory, "walrus", limit=1000, per="chunk")) == 405


# Modes


def test_each_mode_asks_its_own_arms(notes: App) -> None:
    query = "how are credentials stored?"
    assert found(notes, query, mode="text") == []
    assert found(notes, query, mode="semantic")[0] == "knowledge/password-hashing"
    explained = notes.search("argon2id", mode="text", explain=True).hits[0].explanation
    assert explained is not None
    assert set(cast("dict[str, float]", explained["parts"])) <= {"text", "memory", "title"}
    assert found(notes, "argon2id", mode="text") == ["knowledge/password-hashing"]
    assert found(notes, "argon2id", mode="hybrid")[0] == "knowledge/password-hashing"


def test_without_a_model_meaning_falls_back_and_says_so(memory: App) -> None:
    memory.put("walrus", id="a")
    answer = memory.search("walrus", mode="semantic")
    assert answer.degraded.reasons == ("there is no embedding model: recall.embedder is none",)
    assert not memory.search("walrus").degraded
    assert not memory.search("walrus", mode="text").degraded


# Who and when


@pytest.fixture
def talks(memory: App) -> App:
    """Two conversations, in May and in September."""
    for name, day, city in (("may", "05-08", "Berlin"), ("september", "09-08", "Oslo")):
        memory.put(
            f"Alice: I moved to {city} with my cat.\nBob: My dog went to {city} once.\n"
            "Alice: The cat loves it here.",
            id=name,
            metadata={"created_at": f"2026-{day}T10:00:00Z"},
        )
    return memory


def chunk(memory: App, query: str) -> tuple[str, str, int]:
    hit = memory.search(query, per="chunk").hits[0]
    return hit.id, hit.who, hit.line


def test_speaker_and_date_of_a_question_choose_the_turn(talks: App) -> None:
    assert chunk(talks, "Where did Alice move in May?")[:2] == ("may", "Alice")
    assert chunk(talks, "Where did Alice move in September?")[:2] == ("september", "Alice")
    assert chunk(talks, "What did Bob say about his dog in May?")[:2] == ("may", "Bob")
    for hit in talks.search("cat", per="chunk").hits:
        assert lines_of(hit)[hit.line - 1] == hit.text
        assert hit.text.startswith(f"{hit.who}: ")


@pytest.mark.parametrize("query", ["Bob's city", "Bob\u2019s city", "the city, Bob!", "Bob: city?"])
def test_name_is_seen_in_any_form(query: str, talks: App) -> None:
    talks.put("Alice: my city\nBob: my city\nAlice: bye", id="plain")
    hits = talks.search(query, per="chunk", explain=True).hits
    assert (hits[0].id, hits[0].who) == ("plain", "Bob")
    assert hits[0].explanation is not None
    assert hits[0].explanation["names"] == ["Bob"]


@pytest.mark.parametrize(
    "query, day",
    [
        ("deploy last week", "2026-06-10"), ("deploy yesterday", "2026-06-16"),
        ("deploy in April", "2026-04-14"), ("deploy in 2024", "2024-08-01"),
        ("deploy on 2026-03-03", "2026-03-03"),
    ],
)  # fmt: skip
def test_relative_and_absolute_dates_choose_the_day(query: str, day: str, memory: App) -> None:
    days = {"2026-06-10", "2026-06-16", "2026-04-14", "2024-08-01", "2026-03-03", "2026-01-20", day}
    for one in sorted(days):
        memory.put("We had to deploy.", id=f"d{one}", metadata={"created_at": f"{one}T12:00:00Z"})
    answer = memory.search(SearchRequest(query), now=DAY)
    assert answer.hits[0].id == f"d{day}"


def parts(memory: App, query: str, **options: str) -> dict[str, Mapping[str, float]]:
    hits = memory.search(query, explain=True, **options).hits  # type: ignore[arg-type]
    return {hit.id: cast("Mapping[str, float]", (hit.explanation or {})["parts"]) for hit in hits}


def test_a_word_in_a_title_counts_for_more_than_in_a_text(thinking: App) -> None:
    thinking.put("Green tea at 80 degrees, black tea at 95. Tea leaves once.", id="kitchen")
    thinking.put("Boil the water. Wait three minutes, then pour.", id="pouring", title="Tea")
    for mode in ("text", "hybrid"):
        assert next(iter(parts(thinking, "tea", mode=mode))) == "pouring"
        assert next(iter(parts(thinking, "how hot should black tea be?", mode=mode))) == "kitchen"
    assert "title" not in parts(thinking, "tea", mode="semantic")["pouring"]


def test_a_heading_is_a_title_and_a_first_line_or_what_was_replaced_is_none(memory: App) -> None:
    memory.put("# Tea\n\nBoil the water.\n\n## Later\n\nPour it.", id="headed")
    memory.put("Tea.", id="lined")
    memory.put("Green tea only.", id="old", title="Tea", metadata={"superseded_by": "headed"})
    found = parts(memory, "tea")
    assert {name: "title" in one for name, one in found.items()} == {
        "headed": True,
        "lined": False,
        "old": False,
    }
    assert next(iter(found)) == "headed"


# Age and state


def test_newer_statement_stands_above_the_one_it_replaces(memory: App) -> None:
    memory.put("The penguin eats krill.", id="p-old")
    memory.put("The penguin eats fish.", id="p-new", metadata={"supersedes": ["p-old"]})
    memory.put("The heron eats frogs.", id="h-old", metadata={"superseded_by": "h-new"})
    memory.put("The heron eats mice.", id="h-new")
    memory.put("The stork eats frogs.", id="s-old")
    memory.put("The stork eats mice. This supersedes [[s-old]].", id="s-new")
    memory.put("The crane eats frogs. Superseded by [[c-new]].", id="c-old")
    memory.put("The crane eats mice.", id="c-new")
    for query, name in (("penguin", "p"), ("heron", "h"), ("stork", "s"), ("crane", "c")):
        hits = memory.search(query).hits
        assert [(hit.id, hit.is_superseded) for hit in hits] == [
            (f"{name}-new", False),
            (f"{name}-old", True),
        ]
        assert hits[1].score < hits[0].score


def test_archived_is_demoted_and_retired_left_out(memory: App) -> None:
    for status in ("active", "archived", "retired"):
        memory.put("The walrus is here.", id=status, tags=["t"], metadata={"status": status})
    hits = memory.search("walrus").hits
    assert [hit.id for hit in hits] == ["active", "archived"]
    assert hits[1].score < hits[0].score
    for options in ({"tags": ["t"]}, {"collection": "memories"}, {"type": "journal"}):
        assert found(memory, "walrus", **options) == ["memories/active", "memories/archived"]
    assert found(memory, "walrus", filter=["status=retired"]) == ["memories/retired"]


def boosts(memory: App) -> dict[str, object]:
    hits = memory.search("walrus", explain=True).hits
    return {hit.id: cast("Mapping[str, object]", hit.explanation)["boosts"] for hit in hits}


def test_recency_follows_the_settings_and_the_type(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    with retain.open("usual", background=False) as memory:  # as document 003 has it
        for name, days in (("new", 1), ("edge", 7.5), ("old", 9), ("future", -2)):
            memory.put("walrus", id=name, metadata=created(days))
        recent = {"recent": 1.2}
        assert boosts(memory) == {"new": recent, "edge": recent, "old": {}, "future": {}}
    monkeypatch.setenv("RETAIN_MEMORY_RECENCY_BOOST_DAYS", "3")
    monkeypatch.setenv("RETAIN_MEMORY_RECENCY_BOOST_FACTOR", "1.5")
    monkeypatch.setenv("RETAIN_MEMORY_RECENCY_BY_TYPE", "plan=14:1.3, fact=0:1")
    with retain.open("bank", background=False) as memory:
        for kind, days in (("journal", 2), ("journal", 5), ("plan", 10), ("plan", 20), ("fact", 2)):
            memory.put("walrus", id=f"{kind}-{days}", type=kind, metadata=created(days))
        assert boosts(memory) == {
            "journal-2": {"recent": 1.5},
            "journal-5": {},
            "plan-10": {"recent": 1.3},
            "plan-20": {},
            "fact-2": {},
        }


def test_recency_that_cannot_be_read_is_a_clear_error(
    memory: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.put("walrus", id="a")
    monkeypatch.setenv("RETAIN_MEMORY_RECENCY_BY_TYPE", "plan=soon")
    with retain.open("bank", background=False) as again, pytest.raises(RetainError) as caught:
        again.search("walrus")
    assert "memory.recency_by_type" in caught.value.message


# Whether anything fits


@pytest.mark.parametrize(
    "query",
    [
        "What is the capital of Mongolia?", "quarterly sales in Brazil", "asdf qwer zxcv",
        "the of and", "", "\u3000\n",
    ],
)  # fmt: skip
def test_question_that_nothing_fits_is_said_to_be_so(query: str, notes: App) -> None:
    answer = notes.search(query)
    assert not answer.is_confident
    assert answer.confidence < 0.5


# Explanations


@pytest.mark.parametrize("query", ["walrus fish", "What does Ann say about the walrus in May?"])
@pytest.mark.parametrize("mode", ["hybrid", "text", "semantic"])
def test_parts_add_up_to_the_sum(query: str, mode: str, thinking: App) -> None:
    states: list[dict[str, object]] = [{}, {"status": "archived"}, {"superseded_by": "x"}]
    for number in range(9):
        talk = f"Ann: do you see the walrus {number}?\nBob: it eats fish.\nAnn: so much fish!"
        fields = created(300 * (number % 2)) | states[number % 3]
        thinking.put(talk, id=f"t{number}", metadata=fields)
        thinking.put(f"Note {number}: a walrus, a fish, and ice.", id=f"n{number}", metadata=fields)
    hits = thinking.search(query, 60, mode=mode, per="chunk", explain=True).hits
    assert len(hits) > 20
    for hit in hits:
        assert hit.explanation is not None
        parts = cast("Mapping[str, float]", hit.explanation["parts"])
        boosts = cast("Mapping[str, float]", hit.explanation["boosts"])
        total = sum(parts.values()) * math.prod(boosts.values())
        assert total == pytest.approx(cast("float", hit.explanation["sum"]), abs=0.001)
        step = cast("Mapping[str, float]", hit.explanation["shown"])
        distance = total - step["granted"] - step["middle"]
        assert 1 / (1 + math.exp(-step["slope"] * distance)) == pytest.approx(hit.score, abs=0.003)
        assert ("superseded" in boosts) == hit.is_superseded
        assert ("archived" in boosts) == (hit.status == "archived")


# Several banks


def test_project_and_global_banks_answer_together_and_say_which(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    App(everywhere=True).put("The walrus is mine.", id="mine")
    App(everywhere=True).put("walrus walrus walrus", id="much")
    App().init()
    App().put("The walrus is the project's.", id="theirs")
    with retain.open(background=False) as memory:
        answer = memory.search("walrus")
        assert {hit.ref: hit.scope for hit in answer.hits} == {
            "memories/mine": "global",
            "memories/much": "global",
            "memories/theirs": "project",
        }
        assert answer.hits[0].id == "much"
        assert len(memory.search("walrus", 2).hits) == 2
    local = App(local=True)
    assert [hit.id for hit in local.search(SearchRequest("walrus")).hits] == ["theirs"]
    local.close()
    own = App(everywhere=True)
    assert {hit.id for hit in own.search(SearchRequest("walrus")).hits} == {"mine", "much"}
    own.close()


def test_a_text_that_both_banks_have_is_shown_once_from_the_project(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    App(everywhere=True).put("The walrus swims.", id="mine")
    for text in ("Kettles boil.", "Tax is due."):
        App(everywhere=True).put(text)
    App().init()
    for name in ("theirs", "again"):
        App().put("The walrus swims.", id=name)
    with retain.open(background=False) as memory:
        assert {hit.id for hit in memory.search("walrus").hits} == {"theirs", "again"}
        assert len(memory.brief("does the walrus swim").items) == 2


# Every script and every name


# Queries that try something

TRICKS = [
    "foo-bar", "it's", "'; DROP TABLE memories; --", "NEAR(a b, 3)", "wal*", "^walrus",
    "terms:walrus", "{bag terms}: walrus", "- walrus", "walrus NOT tusk", "a AND AND b", '""',
    '"walrus', "walrus + tusk", "(walrus", "walrus\0tusk", "\0", "\ud800", "walrus \udfff",
    "%walrus%", "_", "\\", "$(touch x)", "\u202ewalrus", "[[walrus]]", "../../etc/passwd", "?1",
    ":name", "walrus\n\nUNION SELECT * FROM facts",
]  # fmt: skip


def test_every_text_is_searched_for_literally(memory: App) -> None:
    memory.put("The foo-bar walrus's tusk: it's 1=1, c++ said.", id="note")
    memory.put("Nothing of that kind.", id="other")
    for query in TRICKS:
        for mode in ("hybrid", "text", "semantic"):
            answer = memory.search(query, mode=mode, explain=True)
            assert "memories/other" not in refs(answer), ascii(query)
        with contextlib.suppress(UsageError):  # a path out of the project is refused
            memory.linked(query, query)
        memory.brief(query)
        if "walrus" in query:
            assert refs(memory.search(query)) == ["memories/note"], ascii(query)
    assert sorted(m.id for m in memory.list()) == ["note", "other"]
    assert found(memory, "kind") == ["memories/other"]


def test_condition_takes_every_text_literally_or_refuses_it(memory: App) -> None:
    memory.put("walrus", id="note")
    for text in TRICKS:
        calls: list[dict[str, object]] = [
            {"collection": text},
            {"type": text},
            {"tags": [text]},
            {"filter": [text]},
            {"filter": [f"title={text}"]},
            {"filter": [f"type~{text}"]},
            {"filter": [f"{text}=1"]},
            {"since": text},
            {"until": text},
        ]
        for options in calls:
            try:
                hits = memory.search("walrus", **options).hits  # type: ignore[arg-type]
            except UsageError:
                continue
            assert hits == (), (ascii(text), options)


@given(query=st.text(max_size=200), mode=st.sampled_from(["hybrid", "text", "semantic"]))
def test_any_query_is_answered(query: str, mode: str, notes: App) -> None:
    answer = notes.search(query, mode=mode)
    scores = [hit.score for hit in answer.hits]
    assert len({hit.ref for hit in answer.hits}) == len(answer.hits)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


@pytest.mark.parametrize(
    "query",
    [
        "walrus " * 14_000,
        "e\u0301" * 50_000,
        "Alice's " * 12_500,
        " ".join(map(str, range(17_000))),
    ],
    ids=lambda text: ascii(text[:8]),
)
def test_query_of_a_hundred_thousand_characters_is_answered_in_time(
    query: str, memory: App
) -> None:
    memory.put("Alice: a walrus\nBob: yes\nAlice: no", id="note")
    assert grows_linearly(memory.search, query)
    if query.startswith("walrus"):
        assert found(memory, query) == ["memories/note"]


@pytest.mark.slow
def test_what_is_hidden_takes_no_place(memory: App) -> None:
    for number in range(230):
        memory.put("walrus", id=f"r{number}", metadata={"status": "retired"})
    memory.put("One walrus among many other animals of the far north.", id="live")
    assert found(memory, "walrus") == ["memories/live"]
