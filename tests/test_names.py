"""Names that may become files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain.app import App
from retain.errors import (
    BadName,
    Conflict,
    UsageError,
)
from retain.memory import check_collection, check_id, key, memory_id, nfc, slug, split_ref
from tests.text.test_frontmatter import times

NFC, NFD = "café", "cafe\u0301"


# Names


@pytest.mark.parametrize(
    "name",
    [
        *"gpu-patterns a A.b_c-1 日本語 हिन्दी مرحبا привет 😀 ❤️ con-memory a.con 100%".split(),
        "a b",
        "x" * 180,
    ],
)
def test_a_good_name_is_kept(name: str) -> None:
    assert check_id(name) == name
    assert check_id(unicodedata.normalize("NFD", name)) == unicodedata.normalize("NFC", name)


BAD_NAMES = [
    *"../x ..\\x %2e%2e/ %2e%2e%2f a%5Cb /etc/passwd C:\\x C:x ~ ~/x ~root -rf --output=x".split(),
    *'. .. .git .git/config .index/x .hidden a/b a\\b a:b a*b a?b a"b a<b a>b a|b a.'.split(),
    *"CON con NUL.txt com1 LPT9.x a\u200bb a\u200db a\u202eb a\ufeffb a\u00ad \u3164".split(),
    *("", " ", "\t", "a ", " a", "a\nb", "a\rb", "a\0b", "a\x1bb", "a\u2028b", "\ud800"),
    *("x" * 181, "é" * 91, "x" * 255, "x" * 5000),
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_do_harm_is_refused(name: str) -> None:
    with pytest.raises(BadName) as caught:
        check_id(name)
    assert len(caught.value.message) < 250
    caught.value.message.encode()
    if name:
        with pytest.raises(BadName):
            check_collection(name)


@given(st.text(max_size=200))
def test_a_checked_name_is_one_plain_file_in_its_directory(name: str) -> None:
    try:
        good = check_id(name)
    except BadName:
        return
    path = os.path.normpath(os.path.join("/bank/c", good + ".md"))
    assert os.path.dirname(path) == "/bank/c"
    assert good.isprintable()
    assert len(os.fsencode(good)) <= 180
    assert check_id(good) == good


@given(st.text(max_size=20))
def test_key_is_the_same_for_every_spelling(name: str) -> None:
    assert key(key(name)) == key(name)
    for form in ("NFC", "NFD"):
        assert key(unicodedata.normalize(form, name)) == key(name)
    assert key(name.casefold()) == key(name)


@pytest.mark.parametrize(
    "ref, parts",
    [
        ("a", (None, "a")),
        ("a.md", (None, "a")),
        ("a.json", (None, "a")),
        ("c/a", ("c", "a")),
        ("c/a.md", ("c", "a")),
        ("/a", ("", "a")),
        ("a.b", (None, "a.b")),
        (NFD, (None, NFC)),
    ],
)
def test_split_ref_finds_collection_and_id(ref: str, parts: tuple[str | None, str]) -> None:
    assert split_ref(ref) == parts


def test_split_ref_and_a_collection_must_agree() -> None:
    assert split_ref("a", "c") == ("c", "a")
    assert split_ref("C/a", "c") == ("C", "a")
    with pytest.raises(UsageError):
        split_ref("d/a", "c")
    for ref in ("a/b/c", "../a", "c/../a", "/", "c/", ".md", "c/.md", "//a"):
        with pytest.raises(BadName):
            split_ref(ref)


# Slugs


def as_in_document_000(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:50].strip("-")


@times(5)
@given(st.text(max_size=70))
@example("❤️ love")
@example("1️⃣ one")
@example("\u3164")
@example("ﬁ ẞ İ ŉ")
@example("\u0301a")
def test_a_slug_is_empty_or_an_id_and_stays_as_it_is(text: str) -> None:
    made = slug(text)
    assert len(made) <= 50
    assert slug(made) == made
    assert key(made) == made
    if made:
        assert check_id(made) == made


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=80))
@example("con")
def test_a_latin_title_gives_the_slug_of_document_000(text: str) -> None:
    assert slug(text).removesuffix("-memory") == as_in_document_000(text).removesuffix("-memory")


@pytest.mark.parametrize(
    "title, name",
    [
        ("GPU Acceleration: Patterns & Tips", "gpu-acceleration-patterns-tips"),
        ("Čeština für Übung: ½ naïve", "cestina-fur-ubung-1-2-naive"),
        ("使用 Postgres 数据库", "使用-postgres-数据库"),
        ("हिन्दी में शीर्षक", "हिन्दी-में-शीर्षक"),
        ("عنوان بالعربية", "عنوان-بالعربية"),
        ("می‌خواهم", "می-خواهم"),
        ("Заголовок на русском", "заголовок-на-русском"),
        ("Ελληνικά Σύμβολα", "ελληνικά-σύμβολα"),
        ("한국어 제목", "한국어-제목"),
        ("ガイド\uff08第2版\uff09", "ガイド-第2版"),
        ("tiếng Việt", "tieng-viet"),
        ("1️⃣ one", "1-one"),
        ("❤️ love", "love"),
        ("!!!", ""),
        ("😀", ""),
        ("CON", "con-memory"),
        ("../../etc/passwd", "etc-passwd"),
        ("x" * 80, "x" * 50),
        ("a" * 49 + " b", "a" * 49),
    ],
)
def test_a_title_gives_a_name_a_person_recognises(title: str, name: str) -> None:
    assert slug(title) == name


def test_the_id_comes_from_title_heading_or_content() -> None:
    assert memory_id("A Title", "# H") == "a-title"
    assert memory_id("", "# The H") == "the-h"
    assert memory_id("!!!", "text") == hashlib.sha256(b"text").hexdigest()[:12]
    assert re.fullmatch("[0-9a-f]{12}", memory_id("", "\ud800"))


# Names by hand in a real bank


@pytest.mark.parametrize(
    "on_disk, asked", [(NFC, NFD), (NFD, NFC), ("MiXed", "mixed"), ("ẞ", "ss")]
)
def test_a_memory_is_found_by_any_spelling_of_its_name(
    home: Path, on_disk: str, asked: str
) -> None:
    App().init()
    file = home / "work" / ".retain" / "c" / f"{on_disk}.md"
    file.parent.mkdir()
    file.write_text("text\n", encoding="utf-8")
    assert App().get(asked).path == str(file)
    assert App().get(f"C/{asked}.md").path == str(file)
    with pytest.raises(Conflict):
        App().bank.create("C", asked, b"other")
    # Written alike but for the Unicode form, it is the same id; in another case, a mistake.
    with contextlib.nullcontext() if nfc(on_disk) == nfc(asked) else pytest.raises(Conflict):
        App().put("other", id=asked, collection="C")
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize("one, other", [(NFC, NFD), ("Twin", "twin"), ("straße", "STRASSE")])
def test_of_two_files_with_one_name_one_is_a_memory_and_the_other_is_named(
    home: Path, one: str, other: str
) -> None:
    App().init()
    for name in (one, other):
        (home / "work" / ".retain" / f"{name}.md").write_text(name, encoding="utf-8")
    listed = App().list()
    problems = App().status().problems
    assert len(listed) == 1
    assert len(problems) == 1
    assert {listed[0].path, problems[0].path} == {
        str(home / "work" / ".retain" / f"{name}.md") for name in (one, other)
    }
    assert os.path.basename(listed[0].path) in problems[0].reason


@pytest.mark.parametrize("name", ["CON", "dot.", "a\nb", "a\u200bb", "\u202eabc", "n" * 252])
def test_a_file_that_cannot_be_named_is_refused_clearly_and_reported(home: Path, name: str) -> None:
    App().init()
    file = home / "work" / ".retain" / f"{name}.md"
    file.write_text("text", encoding="utf-8")
    with pytest.raises(BadName):
        App().get(name)
    assert [problem.path for problem in App().status().problems] == [str(file)]
    assert file.read_text(encoding="utf-8") == "text"
