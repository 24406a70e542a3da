"""`retain edit`: whatever a person types is saved or kept, and never damages the memory."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.door import call, done, types
from tests.conftest import Run

pytestmark = pytest.mark.usefixtures("scratch")


@pytest.fixture
def note(home: Path) -> Path:
    done("put - --id note --tags a", input="first\n")
    return home / ".retain" / "memories" / "note.md"


def kept_text(err: str) -> Path:
    found = re.search(r"Your text is in (\S+)\.", err)
    assert found, err
    return Path(found[1])


def test_saved_text_becomes_the_memory_and_the_old_one_a_version(note: Path, editor: Path) -> None:
    types(editor, 'sed -i s/first/second/ "$1"')
    answer = json.loads(done("edit note --json"))
    assert (answer["status"], answer["previous_version"]) == ("updated", "v1")
    assert note.read_text(encoding="utf-8").endswith("second\n")
    assert done("get note --version v1 --format raw") == "first\n"


def test_editor_sees_the_whole_file_in_a_private_place(note: Path, editor: Path) -> None:
    types(editor, 'cp "$1" "$HOME/seen" && stat -c %a "$(dirname "$1")" >"$HOME/mode"')
    done("edit note")
    assert Path("~/seen").expanduser().read_bytes() == note.read_bytes()
    assert Path("~/mode").expanduser().read_text(encoding="utf-8") == "700\n"


@pytest.mark.parametrize(
    "script, message, kept",
    [
        (
            "printf -- '---\\ntags: [a\\n---\\nmy precious text\\n' >\"$1\"",
            "not saved",
            b"---\ntags: [a\n---\nmy precious text\n",
        ),
        ("printf 'caf\\351' >\"$1\"", "not UTF-8 text (byte 3)", b"caf\xe9"),
        ('echo typed >"$1"; exit 3', "ended with code 3", b"typed\n"),
    ],
    ids=["unparsable", "not UTF-8", "editor fails"],
)
def test_what_cannot_be_saved_is_kept_and_the_memory_stays(
    script: str, message: str, kept: bytes, note: Path, editor: Path
) -> None:
    before = note.read_bytes()
    types(editor, script)
    ran = call("edit note")
    assert (ran.code in (1, 2), ran.out, message in ran.err) == (True, "", True)
    assert kept_text(ran.err).read_bytes() == kept
    assert note.read_bytes() == before


def test_text_that_was_kept_is_taken_up_when_it_is_mended(note: Path, editor: Path) -> None:
    types(editor, "printf -- '---\\ntags: [a\\n---\\nnew\\n' > \"$1\"")
    ran = call("edit note")
    kept = re.search(r"`retain edit note --file (\S+)` takes it up", ran.err)
    assert (ran.code, bool(kept)) == (1, True), ran.err
    assert kept
    ran = call("edit", "note", "--file", kept[1])
    assert (ran.code, f"Mend {kept[1]}" in ran.err) == (1, True)
    Path(kept[1]).write_text("---\ntags: [a]\n---\nnew\n", encoding="utf-8")
    done("edit", "note", "--file", kept[1])
    assert json.loads(done("get note --json"))["content"] == "new\n"


@pytest.mark.parametrize(
    "editor, message",
    [
        ("no-such-editor --wait", "'no-such-editor' cannot be started"),
        ("vim 'unclosed", "EDITOR is not a command"),
    ],
)
def test_editor_that_cannot_be_started_is_named(
    editor: str, message: str, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    ran = call("edit note")
    assert (ran.code, ran.out, message in ran.err) == (1, "", True)


def test_change_by_someone_else_meanwhile_is_a_conflict_with_both_texts(
    note: Path, editor: Path, run: Run
) -> None:
    types(editor, f'sed -i s/first/mine/ "$1"; sed -i s/first/theirs/ "{note}"')
    ran = run("edit", "note")
    assert (ran.code, ran.out) == (4, "")
    assert note.read_text(encoding="utf-8").endswith("theirs\n")
    assert kept_text(ran.err).read_text(encoding="utf-8").endswith("mine\n")
    [lost] = json.loads(done("trash list --json"))
    assert Path(lost["path"]).read_text(encoding="utf-8").endswith("mine\n")


def test_secrets_typed_in_an_editor_are_redacted(note: Path, editor: Path) -> None:
    token = "gh" + "p_" + "aB3dE5gH7j" * 3 + "aB3dE5"
    types(editor, f'echo "token {token}" >>"$1"')
    ran = call("edit note")
    assert ran.code == 0
    assert "github-token" in ran.err
    assert token not in note.read_text(encoding="utf-8")
