"""The facade: which bank, who writes, what a door gets back."""

from __future__ import annotations

import concurrent.futures
import os
from pathlib import Path

import pytest

from retain.app import App
from retain.bank.markdown import searchable
from retain.config import setting
from retain.errors import BadName, ConfigError, Conflict, NotFound, UsageError


def put(text: str, *, app: App | None = None, **options: object) -> str:
    written = (app or App()).put(text, **options)  # type: ignore[arg-type]
    return written.memory.ref


# Which bank


def test_nearest_bank_is_used_and_the_global_one_read_as_well(home: Path) -> None:
    put("mine", id="mine", app=App(everywhere=True))
    App().init()
    put("project", id="theirs")
    assert [(m.ref, m.scope) for m in App().list()] == [
        ("memories/theirs", "project"),
        ("memories/mine", "global"),
    ]
    assert [m.ref for m in App(local=True).list()] == ["memories/theirs"]
    assert App().get("mine").scope == "global"
    put("project", id="mine")
    assert (App().get("mine").body, App(everywhere=True).get("mine").body) == ("project", "mine")
    App().delete("mine")
    with pytest.raises(NotFound) as caught:
        App().delete("mine")
    assert "--global" in caught.value.hint


# Who writes


@pytest.mark.parametrize(
    "variables, author",
    [
        ({"CLAUDECODE": "1"}, "Claude"),
        ({"CODEX_SANDBOX": "seatbelt"}, "Codex"),
        ({"GEMINI_CLI": "1"}, "Gemini"),
        ({"USER": "ada"}, "ada"),
        ({"CLAUDECODE": "1", "USER": "ada"}, "Claude"),
        ({"CLAUDECODE": "1", "RETAIN_MEMORY_CREATED_BY": "Team"}, "Team"),
    ],
)
def test_author_is_the_agent_or_the_user(
    variables: dict[str, str], author: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("USER", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    put("text", id="note")
    assert App().get("note").meta["created_by"] == author


def test_author_is_set_by_the_door_never_by_the_text(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ada")
    put("---\ncreated_by: The Boss\ncreated_at: 2020-01-01T00:00:00Z\n---\ntext", id="note")
    memory = App().get("note")
    assert memory.meta["created_by"] == "ada"
    assert memory.meta["created_at"] == "2020-01-01T00:00:00Z"
    put("text", id="signed", created_by="Grace")
    assert App().get("signed").meta["created_by"] == "Grace"


# Putting again


def test_put_again_keeps_who_wrote_it_first_and_when(home: Path) -> None:
    app = App()
    app.put(
        "one",
        metadata={"created_at": "2020-01-01T00:00:00Z"},
        id="note",
        created_by="A",
    )
    written = app.put("two", id="note", created_by="B")
    assert (written.status, written.kept) == ("replaced", "v1")
    assert written.memory.meta["created_by"] == "A"
    assert written.memory.meta["created_at"] == "2020-01-01T00:00:00Z"
    assert "updated_at" in written.memory.meta


# Changing


def test_update_with_stale_hash_changes_nothing(home: Path) -> None:
    put("one", id="note")
    stale = App().get("note").hash
    App().update("note", "two")
    with pytest.raises(Conflict):
        App().update("note", "three", expect=stale)
    with pytest.raises(Conflict):
        App().delete("note", expect=stale)
    assert App().get("note").body == "two"
    assert App(cwd=str(home)).trashed()[0].id == "note.conflict"


@pytest.mark.parametrize("name", ["USER", "user", "MEMORY", "PREFERENCES"])
def test_a_profile_file_is_never_stored_or_moved_over_as_a_memory(home: Path, name: str) -> None:
    App().init()
    put("text", id="note")
    with pytest.raises(BadName):
        put("text", id=name, collection="")
    with pytest.raises(BadName):
        App().move("note", to_collection="", to_id=name)
    assert App().get("note").body == "text"
    assert put("text", id=name, collection="people") == f"people/{name}"


def test_a_new_text_for_an_id_keeps_the_metadata_nobody_named(home: Path) -> None:
    App().put("one", title="T", tags=["a", "b"], metadata={"status": "archived"}, id="note")
    App().put("two", tags=["c"], id="note")
    memory = App().get("note")
    assert (memory.body, memory.title, memory.tags, memory.status) == (
        "two",
        "T",
        ("c",),
        "archived",
    )


def test_the_same_text_with_other_metadata_is_refused_for_what_it_is(home: Path) -> None:
    App().put("# Same\n", tags=["a"])
    assert App().put("# Same\n").status == "unchanged"
    assert App().put("# Same\n", tags=["a"]).status == "unchanged"
    with pytest.raises(Conflict, match="the same text and other metadata"):
        App().put("# Same\n", tags=["b"])


def test_status_answers_even_where_memory_is_switched_off(home: Path) -> None:
    App().init()
    put("text", id="note")
    App().set_config(setting("memory.enabled"), False)
    assert App().status().memories == 1
    with pytest.raises(ConfigError):
        App().get("note")
    App().set_config(setting("memory.enabled"), True)
    assert App().get("note").body == "text"


def test_a_projects_settings_say_nothing_about_the_persons_own_bank(home: Path) -> None:
    App(everywhere=True).put("one", id="mine")
    App(everywhere=True).put("two", id="mine")
    App().init()
    config = home / "work" / ".retain" / "config.toml"
    config.write_text('[versioning]\nmode = "numbered"\nmax_versions = 1\n', encoding="utf-8")
    app = App()
    assert [bank.max_versions for bank in app.readable()] == [1, 10]
    app.get("global:mine", version="v1")


def test_settings_set_at_the_same_time_are_all_kept(home: Path) -> None:
    App().init()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for key, value in (("memory.recency_boost_days", 3), ("versioning.max_versions", 4)) * 4:
            pool.submit(App().set_config, setting(key), value)
    config = App().config
    assert config.number("memory.recency_boost_days") == 3
    assert config.number("versioning.max_versions") == 4


def test_a_bank_is_not_made_inside_a_bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    App().init()
    put("text", id="note")
    monkeypatch.chdir(home / "work" / ".retain" / "memories")
    with pytest.raises(UsageError, match="inside the bank"):
        App().init()


def test_a_deleted_memory_is_said_to_be_in_the_trash_and_comes_back(home: Path) -> None:
    app = App()
    app.put("first", id="notes/x")
    app.delete("x")
    app.put("second", id="notes/x")
    app.delete("x")
    with pytest.raises(NotFound, match="and is in the trash") as caught:
        app.get("x")
    assert caught.value.hint == "Bring it back: retain restore x"
    assert app.is_deleted("notes/x")
    assert not app.is_deleted("y")
    assert app.untrash("x").memory.body == "second"
    assert not app.is_deleted("x")


def test_an_update_warns_of_marks_of_an_unsettled_merge(home: Path) -> None:
    app = App()
    app.put("text", id="x")
    file = Path(app.get("x").path)
    marks = "<<<<<<< ours\none\n=======\ntwo\n>>>>>>> theirs\n"
    file.write_text(f"{file.read_text(encoding='utf-8')}\n{marks}", encoding="utf-8")
    warnings = app.update("x", tags=["a"]).warnings
    assert any("unsettled merge" in warning for warning in warnings)


@pytest.mark.parametrize("kind", [".retain", ".claude/memory"])
def test_a_dotted_key_sets_a_field_of_a_mapping_that_is_there(home: Path, kind: str) -> None:
    os.makedirs(kind)
    app = App(bank=kind)
    content = dict.fromkeys(("context", "decision"), "a") | {"status": "accepted"}
    app.record("decision", {**content, "rationale": ["b"]}, title="Use Postgres")
    app.update("use-postgres", metadata={"content.decision": "Postgres 18"})
    assert "Decision: Postgres 18" in searchable(app.get("use-postgres"))
    assert "content.decision" not in app.get("use-postgres").meta
    for key in ("contents.decision", "content.decision.year", ".x"):
        with pytest.raises(UsageError, match="cannot be set"):
            app.update("use-postgres", metadata={key: "x"})
