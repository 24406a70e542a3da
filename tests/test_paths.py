"""Names that may become files, and the bank that is in force."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retain import paths
from retain.app import App
from retain.drafts import Draft
from retain.errors import (
    BadName,
    ConfigError,
    Conflict,
    NewerFormat,
    NotFound,
    RetainError,
    UsageError,
)
from retain.paths import check_collection, check_id, find_bank, key, memory_id, slug, split_ref
from retain.place import Place
from tests.conftest import ROOT
from tests.test_frontmatter import times

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


@pytest.mark.parametrize("name", [name for name in BAD_NAMES if name])
def test_no_bad_name_reaches_the_disk(home: Path, name: str) -> None:
    App().init()
    before = sorted(os.walk(home))
    attempts: list[Callable[[], object]] = [
        lambda: App().put(Draft(text="x"), name=name if name != "a/b" else "a//b"),
        lambda: App().put(Draft(text="x"), name="x", collection=name),
        lambda: App().get(name),
        lambda: App().delete(name),
        lambda: App().update(name, Draft(tags=["a"])),
    ]
    for attempt in attempts:
        with pytest.raises(NotFound if name == "a/b" and attempt in attempts[2:] else BadName):
            attempt()
    assert sorted(os.walk(home)) == before


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


@given(st.text(alphabet="abcXYZ 123-_.", max_size=40))
def test_accents_fold_and_change_nothing_else(text: str) -> None:
    marks = str.maketrans("aceXYZ", "áçêẌŶŹ")
    assert slug(text.translate(marks)) == slug(text)
    assert slug(unicodedata.normalize("NFD", text.translate(marks))) == slug(text)


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
    with (
        contextlib.nullcontext()
        if paths.nfc(on_disk) == paths.nfc(asked)
        else pytest.raises(Conflict)
    ):
        App().put(Draft(text="other"), name=asked, collection="C")
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


# Banks


@pytest.fixture
def project(home: Path) -> Path:
    project = home / "work" / "project"
    (project / "src" / "deep").mkdir(parents=True)
    return project


def find(cwd: Path, **options: bool | str) -> Place:
    return find_bank(str(cwd), os.environ, **options)  # type: ignore[arg-type]


def arcaneum(project: Path, text: str) -> Path:
    (project / ".arcaneum").write_text(text, encoding="utf-8")
    return project


ENABLED = "version: 1\nretain:\n  enabled: true\n  path: .arcaneum-retain\n"


def test_the_named_bank_comes_first_then_the_variable_then_the_nearest_then_the_global(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = project / "src" / "deep"
    assert (find(deep).root, find(deep).scope) == (str(home / ".retain"), "global")
    (project / ".retain").mkdir()
    assert (find(deep).root, find(deep).scope) == (str(project / ".retain"), "project")
    monkeypatch.setenv("RETAIN_BANK", str(home / "by-variable"))
    assert (find(deep).root, find(deep).scope) == (str(home / "by-variable"), "bank")
    named = find(deep, bank="../by-flag")
    assert (named.root, named.scope) == (str(project / "src" / "by-flag"), "bank")
    assert find(deep, everywhere=True).root == str(home / ".retain")
    assert find(deep, local=True).root == str(project / ".retain")


@pytest.mark.parametrize(
    "options",
    [
        {"local": True, "everywhere": True},
        {"bank": "x", "local": True},
        {"bank": "x", "everywhere": True},
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    project: Path, options: dict[str, bool | str]
) -> None:
    with pytest.raises(UsageError):
        find(project, **options)


def test_a_project_bank_that_must_be_there_and_is_not(project: Path) -> None:
    with pytest.raises(NotFound):
        find(project, local=True)


def test_the_search_stops_before_the_home_directory(project: Path, home: Path) -> None:
    (home / ".memories").mkdir()
    (home.parent / ".memories").mkdir()
    assert find(project).scope == "global"
    assert find(home).scope == "global"
    assert find(home.parent).root == str(home.parent / ".memories")


def test_of_several_stores_in_one_place_the_first_in_the_list_is_in_force(project: Path) -> None:
    (project / ".claude" / "memory").mkdir(parents=True)
    assert find(project).kind == "claude"
    (project / ".memories").mkdir()
    assert find(project).kind == "memories"
    arcaneum(project, ENABLED)
    assert find(project).kind == "arcaneum"
    (project / ".retain").mkdir()
    assert find(project).kind == "retain"


def test_the_inner_of_two_projects_is_in_force(project: Path) -> None:
    (project / ".retain").mkdir()
    (project / "src" / ".memories").mkdir()
    assert find(project / "src" / "deep").kind == "memories"
    assert find(project).kind == "retain"


def test_the_persons_own_bank_inside_a_project_is_not_the_projects(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".retain").mkdir()
    monkeypatch.setenv("RETAIN_HOME", str(project / ".retain"))
    assert find(project / "src").scope == "global"
    (project.parent / ".memories").mkdir()
    assert find(project / "src").root == str(project.parent / ".memories")


@pytest.mark.parametrize("name", [".retain", ".memories", ".claude", ".claude/memory"])
def test_a_bank_that_is_a_link_is_refused_until_its_target_is_named(
    project: Path, home: Path, name: str
) -> None:
    target = project / "elsewhere"
    (target / "memory").mkdir(parents=True)
    link = project / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    with pytest.raises(RetainError) as caught:
        find(project / "src")
    assert "symbolic link" in caught.value.message
    named = caught.value.hint.rpartition("--bank ")[2]
    assert find(project / "src", bank=named).root == os.path.realpath(named)


def test_a_dangling_link_is_no_bank(project: Path) -> None:
    (project / ".retain").symlink_to(project / "nothing")
    assert find(project).scope == "global"


def test_naming_a_project_names_its_bank(project: Path) -> None:
    (project / ".memories").mkdir()
    for named in (project, project / ".memories"):
        place = find(project.parent, bank=str(named))
        assert (place.root, place.kind, place.scope) == (
            str(project / ".memories"),
            "memories",
            "bank",
        )
    (project / ".claude" / "memory").mkdir(parents=True)
    assert find(project, bank=".claude/memory").kind == "claude"


def test_a_bank_can_be_named_beside_a_broken_one(project: Path) -> None:
    arcaneum(project, "retain: [")
    (project / ".retain").symlink_to(project / "src")
    (project / ".memories").mkdir()
    assert find(project, bank="other").root == str(project / "other")
    assert find(project, bank=".memories").kind == "memories"


@pytest.mark.parametrize(
    "text",
    [
        ENABLED,
        "\ufeff" + ENABLED,
        ENABLED.replace("\n", "\r\n"),
        "retain: {enabled: yes}\n",
        "retain:\n  enabled: true\n",
        json.dumps({"version": 1, "retain": {"enabled": True, "path": ".arcaneum-retain"}}),
        json.dumps({"retain": {"enabled": True}, "note": "\U0001f600"}, indent="\t"),
    ],
)
def test_an_arcaneum_file_names_a_bank_in_yaml_or_json(project: Path, text: str) -> None:
    place = find(arcaneum(project, text) / "src")
    assert (place.root, place.kind) == (str(project / ".arcaneum-retain"), "arcaneum")
    assert not place.exists
    assert (
        os.listdir(project) == ["src", ".arcaneum"] or not (project / ".arcaneum-retain").exists()
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "version: 1\n",
        "retain:\n",
        "retain: true\n",
        "retain: {enabled: false}\n",
        "retain: {enabled: no}\n",
        "retain: {path: x}\n",
    ],
)
def test_an_arcaneum_file_that_does_not_ask_for_a_bank_is_passed_over(
    project: Path, text: str
) -> None:
    assert find(arcaneum(project, text)).scope == "global"


@pytest.mark.parametrize(
    "text", ["retain: [", "{", "a: b: c", "- x", "\0", "x" * 70_000, "[" * 50_000]
)
def test_an_arcaneum_file_that_cannot_be_read_is_named(project: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find(arcaneum(project, text))
    assert str(project / ".arcaneum") in caught.value.message


def test_an_arcaneum_file_in_another_encoding_is_named(project: Path) -> None:
    (project / ".arcaneum").write_bytes(ENABLED.encode("utf-16"))
    with pytest.raises(ConfigError):
        find(project)


@pytest.mark.parametrize("version", ["2", "99", '"2"', "1.5", "[1]", "true"])
def test_an_arcaneum_file_of_a_newer_version_is_refused_in_one_line(
    project: Path, version: str
) -> None:
    text = ENABLED.replace("version: 1", f"version: {version}")
    memory = project / ".arcaneum-retain" / "m.md"
    memory.parent.mkdir()
    memory.write_text("x", encoding="utf-8")
    arcaneum(project, text)
    with pytest.raises(NewerFormat) as caught:
        App(cwd=str(project)).put(Draft(text="y"))
    assert len(caught.value.message.splitlines()) == 1
    assert os.listdir(memory.parent) == ["m.md"]
    assert (project / ".arcaneum").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "path",
    [*"../x .. . a/../.. /tmp/x / out out/x in .git .git/x src/.git/x".split(), '"\\0"'],
)
def test_an_arcaneum_path_out_of_the_project_is_refused(project: Path, path: str) -> None:
    (project / "out").symlink_to(project.parent)
    (project / "in").symlink_to(project / "src")
    arcaneum(project, f"retain:\n  enabled: true\n  path: {path}\n")
    with pytest.raises(ConfigError) as caught:
        find(project)
    assert "leads out of the project" in caught.value.message


def test_reading_never_makes_anything(project: Path, home: Path) -> None:
    before = sorted(os.walk(home))
    for cwd in (project, home):
        app = App(cwd=str(cwd))
        assert app.list() == []
        assert app.status().memories == 0
        assert list(app.collections()) == []
        with pytest.raises(NotFound):
            app.get("x")
        with pytest.raises(NotFound):
            App(cwd=str(cwd), bank="nowhere").get("x")
    arcaneum(project, ENABLED)
    assert App(cwd=str(project)).list() == []
    os.unlink(project / ".arcaneum")
    assert sorted(os.walk(home)) == before


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory like /tmp, where anyone may put things."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o777)
        yield Path(name)


def as_nobody(cwd: Path) -> str:
    """What find_bank answers to a user with few rights: the bank's scope, or the error's name."""
    code = (
        "import encodings.utf_8_sig, os, sys\n"
        "from retain import frontmatter, paths\n"
        "from retain.errors import RetainError\n"
        "frontmatter._load_yaml('a: 1')\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try:\n"
        "    print(paths.find_bank(sys.argv[1], {}).scope)\n"
        "except RetainError as error:\n"
        "    print(type(error).__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(cwd)],
        capture_output=True,
        encoding="utf-8",
        check=True,
        cwd=ROOT,
    )
    return done.stdout.strip()


def made(path: Path, owner: int, make: Callable[[Path], object]) -> None:
    make(path)
    os.chown(path, owner, owner, follow_symlinks=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for other users")
@pytest.mark.parametrize("owner, scope", [(65534, "project"), (0, "project"), (1234, "global")])
def test_a_bank_of_another_user_is_passed_over(shared: Path, owner: int, scope: str) -> None:
    made(shared / ".retain", owner, Path.mkdir)
    (shared / "sub").mkdir()
    assert as_nobody(shared / "sub") == scope


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for other users")
@pytest.mark.parametrize("mark", [".retain", ".memories", ".claude/memory"])
@pytest.mark.parametrize("above, scope", [(0, "global"), (1234, "project"), (65534, "global")])
def test_root_uses_a_bank_of_another_user_only_in_that_user_s_project(
    shared: Path, mark: str, above: int, scope: str
) -> None:
    os.chown(shared, above, above)
    for folder in (*reversed(Path(mark).parents[:-1]), Path(mark)):
        made(shared / folder, 1234, Path.mkdir)
    (shared / "sub").mkdir()
    found = paths.find_bank(str(shared / "sub"), {})
    assert found.scope == scope
    assert ("belongs to another user" in found.reason) == (scope == "global")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files for other users")
def test_nobody_can_stop_others_with_a_trap_in_a_shared_directory(shared: Path) -> None:
    made(shared / ".retain", 1234, lambda path: path.symlink_to("/"))
    made(shared / ".arcaneum", 1234, lambda path: path.write_text("retain: [", encoding="utf-8"))
    assert as_nobody(shared) == "global"
    os.chown(shared / ".arcaneum", 65534, 65534)
    assert as_nobody(shared) == "ConfigError"


def test_every_kind_of_store_has_a_mark() -> None:
    assert set(paths._MARKS.values()) == set(paths.KINDS)


@pytest.mark.parametrize(
    "path, home, shown",
    [
        ("/home/ada/a.md", "/home/ada", "~/a.md"),
        ("/home/ada/a.md", "/home/ada/", "~/a.md"),
        ("/home/adam/a.md", "/home/ada", "/home/adam/a.md"),
        ("/home/ada", "/home/ada", "/home/ada"),
        ("/a.md", "", "/a.md"),
        ("/a.md", "/", "/a.md"),
    ],
)
def test_a_path_is_shown_from_home(path: str, home: str, shown: str) -> None:
    assert paths.from_home(path, home) == shown


@pytest.mark.parametrize("name", [".claude", ".codex", ".git", "x/.git/y", ".ssh/z"])
def test_what_is_another_program_s_own_is_no_bank(home: Path, name: str) -> None:
    with pytest.raises(UsageError, match="another program's own"):
        find_bank(str(home), {}, bank=str(home / name))
