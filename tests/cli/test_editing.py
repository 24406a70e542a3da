"""`retain edit`: whatever a person types is saved or kept, and never damages the memory."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from tests.cli.door import call, done, types
from tests.conftest import Run

pytestmark = pytest.mark.usefixtures("scratch")


@pytest.fixture
def note(home: Path) -> Path:
    done("put", "-", "--id", "note", "--tags", "a", input="first\n")
    return home / ".retain" / "memories" / "note.md"


def kept_text(err: str) -> Path:
    found = re.search(r"Your text is in (\S+)\.", err)
    assert found, err
    return Path(found[1])


def test_saved_text_becomes_the_memory_and_the_old_one_a_version(note: Path, editor: Path) -> None:
    types(editor, 'sed -i s/first/second/ "$1"')
    answer = json.loads(done("edit", "note", "--json"))
    assert (answer["status"], answer["previous_version"]) == ("updated", "v1")
    assert note.read_text(encoding="utf-8").endswith("second\n")
    assert done("get", "note", "--version", "v1", "--format", "raw") == "first\n"


def test_unsaved_text_changes_nothing(note: Path, editor: Path) -> None:
    before = note.read_bytes()
    assert done("edit", "note").startswith("Unchanged: note")
    assert note.read_bytes() == before


def test_editor_sees_the_whole_file_in_a_private_place(note: Path, editor: Path) -> None:
    types(editor, 'cp "$1" "$HOME/seen" && stat -c %a "$(dirname "$1")" >"$HOME/mode"')
    done("edit", "note")
    assert Path("~/seen").expanduser().read_bytes() == note.read_bytes()
    assert Path("~/mode").expanduser().read_text(encoding="utf-8") == "700\n"


def test_unparsable_text_is_kept_and_the_memory_stays(note: Path, editor: Path) -> None:
    before = note.read_bytes()
    types(editor, "printf -- '---\\ntags: [a\\n---\\nmy precious text\\n' >\"$1\"")
    ran = call("edit", "note")
    assert (ran.code, ran.out) == (1, "")
    assert "not saved" in ran.err
    assert kept_text(ran.err).read_text(encoding="utf-8").endswith("my precious text\n")
    assert note.read_bytes() == before


def test_text_that_is_not_utf8_is_kept_and_the_memory_stays(note: Path, editor: Path) -> None:
    before = note.read_bytes()
    types(editor, "printf 'caf\\351' >\"$1\"")
    ran = call("edit", "note")
    assert ran.code == 1
    assert kept_text(ran.err).read_bytes() == b"caf\xe9"
    assert note.read_bytes() == before


def test_editor_that_fails_changes_nothing(note: Path, editor: Path) -> None:
    before = note.read_bytes()
    types(editor, 'echo typed >"$1"; exit 3')
    ran = call("edit", "note")
    assert (ran.code, ran.out) == (1, "")
    assert "ended with code 3" in ran.err
    assert kept_text(ran.err).read_text(encoding="utf-8") == "typed\n"
    assert note.read_bytes() == before


def test_editor_that_does_not_exist_is_named(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "no-such-editor --wait")
    ran = call("edit", "note")
    assert ran.code == 1
    assert "'no-such-editor' cannot be started" in ran.err


def test_editor_that_cannot_be_split_into_words_is_an_error(
    note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "vim 'unclosed")
    ran = call("edit", "note")
    assert (ran.code, ran.out) == (1, "")
    assert "EDITOR" in ran.err


def test_change_by_someone_else_meanwhile_is_a_conflict_with_both_texts(
    note: Path, editor: Path, run: Run
) -> None:
    types(editor, f'sed -i s/first/mine/ "$1"; sed -i s/first/theirs/ "{note}"')
    ran = run("edit", "note")
    assert (ran.code, ran.out) == (4, "")
    assert note.read_text(encoding="utf-8").endswith("theirs\n")
    assert kept_text(ran.err).read_text(encoding="utf-8").endswith("mine\n")
    [lost] = json.loads(done("trash", "list", "--json"))
    assert Path(lost["path"]).read_text(encoding="utf-8").endswith("mine\n")


def test_secrets_typed_in_an_editor_are_redacted(note: Path, editor: Path) -> None:
    token = "gh" + "p_" + "aB3dE5gH7j" * 3 + "aB3dE5"
    types(editor, f'echo "token {token}" >>"$1"')
    ran = call("edit", "note")
    assert ran.code == 0
    assert "github-token" in ran.err
    assert token not in note.read_text(encoding="utf-8")


def test_mode_of_the_file_stays(note: Path, editor: Path) -> None:
    types(editor, 'echo more >>"$1"')
    done("edit", "note")
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
