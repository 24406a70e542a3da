"""Questions are asked only of a person at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.door import answered, call, done


@pytest.mark.parametrize(
    "words, question",
    [
        ("trash empty", "Destroy 1 trashed file for good? [y/N]"),
        ("sessions delete latest", "Move session_1 (Chisels, 1 message) to the trash? [y/N]"),
    ],
)
@pytest.mark.parametrize("answer, is_done", [("n", False), ("", False), ("y", True), ("yes", True)])
def test_what_is_hard_to_undo_is_done_only_after_a_yes(
    words: str, question: str, answer: str, is_done: bool, home: Path
) -> None:
    done("put - --id x", input="x")
    done("delete x")
    chat = {"id": "session_1", "title": "Chisels", "messages": [{"role": "user", "content": "?"}]}
    Path("chat.json").write_text(json.dumps(chat), encoding="utf-8")
    done("sessions import chat.json")
    listing = f"{words.split(maxsplit=1)[0]} list --json"
    code, screen = answered(answer, *words.split())
    assert (code, question in screen) == (0 if is_done else 2, True)
    assert "--help" not in screen
    assert len(json.loads(done(listing))) == (0 if is_done else 1)
    assert "--yes" in call(words).err or is_done


def test_text_that_cannot_be_saved_may_be_mended(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done("put - --id x", input="x")
    script = tmp_path / "editor"
    script.write_text(
        "#!/bin/sh\n"
        "if [ -e ~/again ]; then printf 'mended\\n' >\"$1\"; exit; fi\n"
        "touch ~/again\n"
        "printf -- '---\\na: [\\n---\\nnew\\n' >\"$1\"\n",
        encoding="utf-8",
    )
    script.chmod(0o700)
    monkeypatch.setenv("EDITOR", str(script))
    code, screen = answered("y", "edit", "x")
    assert code == 0, screen
    assert "Edit it again?" in screen
    assert done("get x --format raw") == "mended\n"
