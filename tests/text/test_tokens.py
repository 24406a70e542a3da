"""Terms: what a text is found by, in every script, and how SQLite takes them."""
# ruff: noqa: RUF001 - letters that look alike are what this is about

from __future__ import annotations

import base64
import random
import sqlite3
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.text.tokens import MAX_TERM, is_question, query, words

ANY_TEXT = st.text(max_size=80)
# Letters that meet: marks, joints, humps, scripts with and without spaces.
TRICKY = st.text(
    alphabet="aZtnsv19.-'’_+#/ \n\u0301\u0316éßİıøﬁ½™K使速かガﾞ한\u1112\u1161กำ\u0e38हि्شَ"
    "🎉🇩🇪👍🏽\ufe0f\u200d\xad\x00",
    max_size=30,
)


TERMS = [
    ("The users are running the indexes", "user run index"),
    ("What is this, and why?", ""),
    ("snake_case kebab-case dotted/path", "snake case kebab case dot path"),
    ("sha256 h264 mp3s 42 007", "sha256 h264 mp3s 42 007"),
    ("don't can't won't isn't DON'T", ""),
    ("it's I'm they're we've he'd you'll", ""),
    ("John's dog's Let's", "john dog let"),
    ("don’t it’s John’s", "john"),
    ("O'Brien rock'n'roll", "o brien rock n roll"),
    ("getUserName", "get user name getusernam"),
    ("HTTPServer", "http server httpserver"),
    ("parseHTML5Document", "pars html5 document parsehtml5document"),
    ("GitHub", "git hub github"),
    ("iPhone OAuth eBay LaTeX URLs GPUs", "iphon oauth ebay latex url gpus"),
    ("node.js example.com", "node js nodej exampl com examplecom"),
    ("utf-8 GPT-4o", "utf 8 utf8 gpt 4o gpt4o"),
    ("long-term", "long term"),
    ("e.g. U.S. i.e.", "eg us ie"),
    ("0.5#", "0 5 0·5"),
    ("3.11.2 v3.11.2", "3 11 2 3·11·2 3 11 2 3·11·2"),
    ("2026-11-15", "2026 11 15 2026·11·15"),
    ("2026-11-15T18:30:00Z", "2026 11 15 2026·11·15 18 30 00z"),
    ("C# f#. g++", "csharp fsharp gplusplus"),
    (".NET '.net' .NET-based", "dotnet dotnet dotnet base"),
    ("使用C++。", "使 用 使用 cplusplus"),
    ("done🎉 party🎉🎉", "done 🎉 parti 🎉 🎉"),
    ("👍🏽", "👍"),
    ("👨\u200d👩\u200d👧", "👨 👩 👧"),
    ("🇩🇪🇫🇷", "🇩🇪 🇫🇷"),
    ("हिन्दी में। தமிழ் मराठी", "हिन्दी में தமிழ் मराठी"),  # marks that are vowels
]


@pytest.mark.parametrize("text,terms", TERMS)
def test_text_becomes_the_stems_of_its_words_compounds_and_signs(text: str, terms: str) -> None:
    assert words(text) == terms.split()


@pytest.mark.parametrize(
    "one,other",
    [
        ("café", "CAFE"), ("café", "cafe\u0301"), ("Straße", "STRASSE"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "full width"), ("İstanbul", "istanbul"),
        ("smørrebrød łódź", "smorrebrod lodz"), ("Ὀδυσσεύς", "οδυσσευσ"), ("Ёлка", "елка"),
        ("ﬁle", "file"), ("co\u00adoperate", "cooperate"), ("ÉcoleNormale", "EcoleNormale"),
        ("naïve—Bayes", "naive bayes"), ("عَرَبِيّ أحمد", "عربي احمد"), ("שָׁלוֹם", "שלום"),
        ("می\u200cخواهم", "میخواهم"), ("ｶﾞｷﾞ", "ガギ"),
    ],
)  # fmt: skip
def test_two_ways_of_writing_have_the_same_terms(one: str, other: str) -> None:
    assert words(one) == words(other)
    assert query(one) == query(other)


@pytest.mark.parametrize(
    "text,indexed,sought",
    [
        ("使用GPU加速", "使 用 使用 gpu 加 速 加速", "使用 gpu 加速"),
        ("速", "速", "速"),
        ("東京都に行く", "東 京 都 行 東京 京都 都に に行 行く", "東京 京都 都に に行 行く"),
        ("コンピューター", "コン ンピ ピュ ュー ータ ター", "コン ンピ ピュ ュー ータ ター"),
        ("ภาษา", "ภา าษ ษา", "ภา าษ ษา"),
        ("你好，世界。", "你 好 你好 世 界 世界", "你好 世界"),
    ],
)
def test_script_without_spaces_is_taken_in_pairs(text: str, indexed: str, sought: str) -> None:
    assert words(text) == indexed.split()
    assert query(text) == sought.split()


@pytest.mark.parametrize(
    "text,terms",
    [
        ("GitHub actions", "github action"),
        ("getUserName", "get user name getusernam"),
        ("node.js 3.11", "node js nodej 3 11 3·11"),
        ("What's new in the café?", "new cafe"),
    ],
)
def test_question_looks_for_names_as_one_word(text: str, terms: str) -> None:
    assert query(text) == terms.split()


def test_long_run_is_cut() -> None:
    assert words("x" * 1000) == ["x" * MAX_TERM]
    assert words("ß" * 1000) == ["s" * MAX_TERM]
    assert words("running" * 20) == [("running" * 20)[:MAX_TERM]]
    assert len(words("字" * 100)) == 199


def test_base64_has_no_more_terms_than_prose() -> None:
    blob = base64.b64encode(random.Random(1).randbytes(7500)).decode()
    assert len(words(blob)) < 1000  # 10 kB of English has as many
    assert len(words(base64.b16encode(random.Random(1).randbytes(5000)).decode())) == 1


@given(ANY_TEXT | TRICKY)
def test_terms_are_short_and_free_of_ascii_signs(text: str) -> None:
    for term in words(text):
        assert 0 < len(term) <= MAX_TERM
        assert all(char.isalnum() for char in term if char.isascii())
        assert not {unicodedata.category(char) for char in term} & {"Cc", "Cf", "Cs", "Zs"}
        assert term.split() == [term]


@given(ANY_TEXT | TRICKY)
def test_a_text_is_found_by_every_term_of_the_question_it_equals(text: str) -> None:
    assert set(query(text)) <= set(words(text))
    assert bool(query(text)) == bool(words(text))


@given(TRICKY | ANY_TEXT, TRICKY | ANY_TEXT)
def test_terms_of_two_texts_are_those_of_each(one: str, other: str) -> None:
    assert words(f"{one} {other}") == words(one) + words(other)


@given(ANY_TEXT | TRICKY)
def test_composed_and_decomposed_text_have_the_same_terms(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert words(composed) == words(decomposed)


def fts(*texts: str) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE memories USING fts5(terms, tokenize = 'ascii')")
    database.execute("CREATE VIRTUAL TABLE vocabulary USING fts5vocab(memories, instance)")
    rows = [(" ".join(words(text)),) for text in texts]
    database.executemany("INSERT INTO memories (terms) VALUES (?)", rows)
    return database


@given(ANY_TEXT | TRICKY)
def test_sqlite_takes_the_terms_as_they_are(text: str) -> None:
    with closing(fts(text)) as database:
        rows = database.execute("SELECT term FROM vocabulary ORDER BY doc, col, offset").fetchall()
    assert [term for (term,) in rows] == words(text)


@pytest.mark.parametrize(
    "text,question",
    [
        ("图形处理器加速了训练", "速"),
        ("데이터베이스를 설정", "데이터베이스"),
        ("ฉันรักภาษาไทย", "ภาษา"),
        ("released 🎉 today", "🎉"),
        ("call getUserName first", "user name"),
        ("written in C++", "c++"),
        ("runs on node.js", "nodejs"),
        ("pushed to GitHub", "github"),
    ],
)
def test_sqlite_finds_the_text(text: str, question: str) -> None:
    sought = " OR ".join(f'"{term}"' for term in query(question))
    with closing(fts("something else", text, "又一个")) as database:
        rows = database.execute("SELECT rowid FROM memories WHERE memories MATCH ?", [sought])
        assert rows.fetchall() == [(2,)]


@pytest.mark.parametrize(
    "text,expected",
    [
        ("How are you?", True), ("How are you? [shares a photo of a dog]", True),
        ("你好吗？【图】", True), ("كيف حالك؟", True), ('He asked "why?"', True),
        ("**Why?**\n", True),
        ("Why? Because.", False), ("[why?]", False), ("", False),
    ],
)  # fmt: skip
def test_question_is_told_by_its_end(text: str, expected: bool) -> None:
    assert is_question(text) is expected


def test_terms_are_the_same_in_every_thread() -> None:
    chosen = random.Random(7)
    stems = "run index generat happi memori relat oper nation".split()
    texts = [
        " ".join(chosen.choice(stems) + chosen.choice(["ing", "ed", "s", "al"]) for _ in range(40))
        for _ in range(200)
    ]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(words, texts)) == [words(text) for text in texts]
