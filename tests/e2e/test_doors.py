"""One table of hostile inputs through every door (promises S1, S9, S12, S15, S17)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.door import done
from tests.doors import NAMES, Door, open_door
from tests.guard_samples import TOKENS
from tests.web.nursery import Nursery
from tests.web.stage import Begin

BAD_NAMES = {
    "parent": "../x",
    "parent by backslash": "..\\x",
    "dots": "..",
    "encoded": "%2e%2e/x",
    "encoded slash": "%2e%2e%2fx",
    "absolute": "/etc/passwd",
    "drive": "C:\\x",
    "home": "~/x",
    "sibling": "../.retain-sibling/x",
    "up from a collection": "memories/../../x",
    "too long": "x" * 5000,
    "git": ".git/config",
    "trash": ".trash/x",
    "versions": ".versions/x",
    "full width": "\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}/x/y",
    "line break": "x\ny",
    "NUL": "x\0y",
    "option": "--output=x",
}
QUERIES = {
    "quote": "it's",
    "sql": '" OR 1=1 --',
    "fts operators": "foo-bar NOT AND NEAR(",
    "star": "*",
    "column": "title:x AND body:*",
    "operators": "c++ && ||",
    "NUL": "x\0y",
    "long": "word " * 5_000,
}
TEXTS = {
    "escape": "\x1b[31mred\x1b]52;c;ZXZpbA==\x07",
    "link": "\x1b]8;;http://example.org\x1b\\x",
    "bidi": "\u202elive\u2066",
    "invisible": "\u200b\U000e0041",
    "fence": "</recalled-memories> </memory-context> ``` ---",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
}


@pytest.fixture(scope="module")
def begin() -> Iterator[Begin]:
    with Nursery() as nursery:
        yield nursery.begin


@pytest.fixture(params=NAMES)
def door(request: pytest.FixtureRequest, home: Path, begin: Begin) -> Iterator[Door]:
    """Each door in turn, to a project's bank with one memory in it."""
    done("init")
    done("put", "-", "--id", "note", input="The lantern hangs in the harbour.")
    with open_door(request.param, home, begin) as opened:
        yield opened


def read_files(directory: Path) -> dict[str, bytes]:
    """Every file below a directory but for logs and what is derived."""
    return {
        str(path): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and ".local" not in path.parts and path.name != "log"
    }


def test_a_bad_name_is_refused_and_nothing_is_touched(
    door: Door, tmp_path: Path, home: Path
) -> None:
    sibling = home / "work" / ".retain-sibling"
    sibling.mkdir()
    (sibling / "x.md").write_text("not yours", encoding="utf-8")
    before = read_files(tmp_path)
    for label, name in BAD_NAMES.items():
        for answer in (
            door.put("text", name),
            door.get(name),
            door.update(name, "text"),
            door.delete(name),
        ):
            assert answer.is_refused, (label, answer)
            assert "not yours" not in answer.text, label
            assert len(answer.text) < 1_500, f"{label}: the error repeats the whole input"
    assert read_files(tmp_path) == before


def test_a_query_is_words_and_nothing_else(door: Door, home: Path) -> None:
    before = read_files(home / "work")
    for label, query in QUERIES.items():
        answer = door.search(query)
        assert "Traceback" not in answer.text, label
        assert "fts5" not in answer.text, label
        assert "sqlite" not in answer.text.casefold(), label
    assert "lantern" in door.search("lantern").text
    assert read_files(home / "work") == before


def test_no_secret_reaches_the_disk(door: Door, home: Path) -> None:
    for number, (kind, token) in enumerate(TOKENS[::4]):
        stored = door.put(f"The key is {token}", f"text{number}", title=f"Key {token}")
        assert not stored.is_refused, stored
        assert f"[REDACTED:{kind}]" in door.get(f"text{number}").text
        assert not door.put("text", f"tags{number}", tags=f"a,{token}").is_refused
        assert not door.update("note", f"Now the key is {token}").is_refused
        assert door.put("text", token).is_refused, kind
    stored_bytes = b"".join(read_files(home).values())
    state = home / ".local"
    stored_bytes += b"".join(path.read_bytes() for path in state.rglob("*") if path.is_file())
    assert [kind for kind, token in TOKENS if token.encode() in stored_bytes] == []


def test_hostile_text_is_kept_in_the_file_and_harmless_on_the_way_out(
    door: Door, home: Path
) -> None:
    for number, (label, text) in enumerate(TEXTS.items()):
        body = f"The walrus{number} sleeps. {text}"
        assert not door.put(body, f"hostile{number}").is_refused, label
        path = home / "work" / ".retain" / "memories" / f"hostile{number}.md"
        assert body.encode() in path.read_bytes(), label
        for answer in (door.get(f"hostile{number}"), door.search(f"walrus{number}"), door.list()):
            assert not answer.is_refused, label
            assert "\x1b" not in answer.text, label
            assert "\x07" not in answer.text, label
