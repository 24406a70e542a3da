"""The facade: which bank, who writes, what a door gets back."""

from __future__ import annotations

import concurrent.futures
import gc
import importlib
import os
import pkgutil
import types
import weakref
from pathlib import Path

import pytest

import retain
from retain.app import App
from retain.config import setting
from retain.drafts import Draft
from retain.errors import BadName, ConfigError, Conflict, NotFound, UsageError

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(retain.__path__, "retain.")
    if module.name != "retain.__main__"
)


def put(text: str, *, app: App | None = None, **options: object) -> str:
    written = (app or App()).put(Draft(text=text), **options)  # type: ignore[arg-type]
    return written.memory.ref


# What is public


@pytest.mark.parametrize("name", MODULES)
def test_module_says_what_is_public(name: str) -> None:
    module = importlib.import_module(name)
    if not hasattr(module, "__all__"):
        # A package that only holds modules has no names of its own.
        assert hasattr(module, "__path__")
        assert not [n for n, v in vars(module).items() if getattr(v, "__module__", "") == name]
        return
    public = list(module.__all__)
    assert len(set(public)) == len(public)
    assert [one for one in public if not hasattr(module, one)] == []
    assert [one for one in public if one.startswith("_") and one != "__version__"] == []
    for one in public:
        value = getattr(module, one)
        if isinstance(value, type | types.FunctionType):
            home = value.__module__
            # A package may hand on what is at home in one of its own modules.
            assert home == name or home.startswith(f"{name}."), f"{one} is at home in {home}"


def test_doors_and_the_facade_use_only_what_is_public() -> None:
    """A function or class that another module imports stands in its home's `__all__`."""
    doors = [name for name in MODULES if name.startswith(("retain.cli", "retain.app"))]
    used = [
        (value.__module__, one, name)
        for name in doors
        for one, value in vars(importlib.import_module(name)).items()
        if isinstance(value, type | types.FunctionType) and value.__module__ != name
    ]
    assert [
        f"{home}.{one} (used by {name})"
        for home, one, name in used
        if home.startswith("retain") and one not in importlib.import_module(home).__all__
    ] == []


# Which bank


def test_nearest_bank_is_used_and_the_global_one_read_as_well(home: Path) -> None:
    put("mine", name="mine", app=App(everywhere=True))
    App().init()
    put("project", name="theirs")
    assert [(m.ref, m.scope) for m in App().list()] == [
        ("memories/theirs", "project"),
        ("memories/mine", "global"),
    ]
    assert [m.ref for m in App(local=True).list()] == ["memories/theirs"]
    assert App().get("mine").scope == "global"
    with pytest.raises(NotFound) as caught:
        App().delete("mine")
    assert "--global" in caught.value.hint


def test_project_memory_hides_the_global_one_of_the_same_name(home: Path) -> None:
    put("mine", name="note", app=App(everywhere=True))
    App().init()
    put("project", name="note")
    assert App().get("note").body == "project"
    assert App(everywhere=True).get("note").body == "mine"


def test_variable_names_a_bank_and_an_option_beats_it(home: Path) -> None:
    env = {**os.environ, "RETAIN_BANK": str(home / "named")}
    App(env=env).init()
    assert App(env=env).place.root == str(home / "named")
    App(bank="other", env=env).init()
    assert App(bank="other", env=env).place.root == str(home / "work" / "other")
    assert App(everywhere=True, env=env).place.scope == "global"


def test_write_makes_the_global_bank_private(home: Path) -> None:
    old = os.umask(0)
    try:
        put("text", name="note")
    finally:
        os.umask(old)
    modes = {oct((home / ".retain" / p).stat().st_mode & 0o777) for p in ("", "memories")}
    assert modes == {"0o700"}
    assert (home / ".retain" / "memories" / "note.md").stat().st_mode & 0o777 == 0o600


def test_memory_that_is_switched_off_can_be_switched_on(home: Path) -> None:

    App().init()
    App().workspace.set_config(setting("memory.enabled"), False)
    with pytest.raises(ConfigError):
        App().list()
    App().workspace.set_config(setting("memory.enabled"), True)
    assert App().list() == []


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
    put("text", name="note")
    assert App().get("note").meta["created_by"] == author


def test_author_is_set_by_the_door_never_by_the_text(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ada")
    put("---\ncreated_by: The Boss\ncreated_at: 2020-01-01T00:00:00Z\n---\ntext", name="note")
    memory = App().get("note")
    assert memory.meta["created_by"] == "ada"
    assert memory.meta["created_at"] == "2020-01-01T00:00:00Z"
    put("text", name="signed", created_by="Grace")
    assert App().get("signed").meta["created_by"] == "Grace"


# Putting again


def test_put_again_keeps_who_wrote_it_first_and_when(home: Path) -> None:
    app = App()
    app.put(
        Draft(text="one", fields={"created_at": "2020-01-01T00:00:00Z"}),
        name="note",
        created_by="A",
    )
    written = app.put(Draft(text="two"), name="note", created_by="B")
    assert (written.status, written.kept) == ("replaced", "v1")
    assert written.memory.meta["created_by"] == "A"
    assert written.memory.meta["created_at"] == "2020-01-01T00:00:00Z"
    assert "updated_at" in written.memory.meta


def test_made_up_id_never_replaces_anything(home: Path) -> None:
    put("# Title\n\none")
    with pytest.raises(Conflict):
        put("# Title\n\ntwo")
    assert App().get("title").body == "# Title\n\none"
    assert put("# Title\n\ntwo", replace=True) == "memories/title"
    assert App().get("title").body == "# Title\n\ntwo"


def test_same_id_in_another_collection_is_a_warning(home: Path) -> None:
    put("one", name="note", collection="a")
    written = App().put(Draft(text="two"), name="note", collection="b")
    assert "also in a" in written.warnings[0]
    with pytest.raises(Conflict, match="a/note, b/note"):
        App().get("note")


# Changing


def test_update_with_stale_hash_changes_nothing(home: Path) -> None:
    put("one", name="note")
    stale = App().get("note").hash
    App().update("note", Draft(text="two"))
    with pytest.raises(Conflict):
        App().update("note", Draft(text="three"), expect=stale)
    with pytest.raises(Conflict):
        App().delete("note", expect=stale)
    assert App().get("note").body == "two"
    assert App(cwd=str(home)).trashed()[0].id == "note.conflict"


def test_update_without_a_change_is_a_usage_error(home: Path) -> None:
    put("one", name="note")
    with pytest.raises(UsageError):
        App().update("note", Draft())


def test_type_is_a_field_like_the_others(home: Path) -> None:
    App().put(Draft(text="one", type="fact"), name="note")
    assert App().get("note").type == "fact"
    App().update("note", Draft(type="plan"))
    assert App().get("note").type == "plan"
    assert App().list(kind="plan")[0].id == "note"


@pytest.mark.parametrize("sort", ["id", "title", "type", "status", "created", "updated"])
def test_lists_are_sorted_and_turned_round(sort: str, home: Path) -> None:
    for number, name in enumerate("cab"):
        fields = {"created_at": f"2026-01-0{3 - number}T00:00:00Z", "title": name}
        App().put(Draft(text="x", fields=fields), name=name)
    ids = [memory.id for memory in App().list(sort=sort)]
    assert ids == (["b", "a", "c"] if sort in ("created", "updated") else ["a", "b", "c"])
    assert sorted(m.id for m in App().list(sort=sort, reverse=True)) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["USER", "user", "MEMORY", "PREFERENCES"])
def test_a_profile_file_is_never_stored_or_moved_over_as_a_memory(home: Path, name: str) -> None:
    App().init()
    put("text", name="note")
    with pytest.raises(BadName):
        put("text", name=name, collection="")
    with pytest.raises(BadName):
        App().move("note", to_collection="", to_id=name)
    assert App().get("note").body == "text"
    assert put("text", name=name, collection="people") == f"people/{name}"


def test_a_new_text_for_an_id_keeps_the_metadata_nobody_named(home: Path) -> None:
    draft = Draft(text="one", title="T", tags=["a", "b"], fields={"status": "archived"})
    App().put(draft, name="note")
    App().put(Draft(text="two", tags=["c"]), name="note")
    memory = App().get("note")
    assert (memory.body, memory.title, memory.tags, memory.status) == (
        "two",
        "T",
        ("c",),
        "archived",
    )


def test_the_same_text_with_other_metadata_is_refused_for_what_it_is(home: Path) -> None:
    App().put(Draft(text="# Same\n", tags=["a"]))
    assert App().put(Draft(text="# Same\n")).status == "unchanged"
    assert App().put(Draft(text="# Same\n", tags=["a"])).status == "unchanged"
    with pytest.raises(Conflict, match="the same text and other metadata"):
        App().put(Draft(text="# Same\n", tags=["b"]))


def test_status_answers_even_where_memory_is_switched_off(home: Path) -> None:
    App().init()
    put("text", name="note")
    App().workspace.set_config(setting("memory.enabled"), False)
    assert App().status().memories == 1
    with pytest.raises(ConfigError):
        App().get("note")


def test_a_projects_settings_say_nothing_about_the_persons_own_bank(home: Path) -> None:
    App(everywhere=True).put(Draft(text="one"), name="mine")
    App(everywhere=True).put(Draft(text="two"), name="mine")
    App().init()
    config = home / "work" / ".retain" / "config.toml"
    config.write_text('[versioning]\nmode = "numbered"\nmax_versions = 1\n', encoding="utf-8")
    own = App().workspace.banks()[1]
    assert own.config.text("versioning.mode") == "auto"
    assert own.bank.max_versions == 10


def test_settings_set_at_the_same_time_are_all_kept(home: Path) -> None:
    App().init()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for key, value in (("memory.recency_boost_days", 3), ("versioning.max_versions", 4)) * 4:
            pool.submit(App().workspace.set_config, setting(key), value)
    config = App().config
    assert config.number("memory.recency_boost_days") == 3
    assert config.number("versioning.max_versions") == 4


def test_a_bank_is_not_made_inside_a_bank(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    App().init()
    put("text", name="note")
    monkeypatch.chdir(home / "work" / ".retain" / "memories")
    with pytest.raises(UsageError, match="inside the bank"):
        App().init()


# Its end


def test_an_app_that_nobody_wants_any_more_is_gone_at_once() -> None:
    """With it goes its index; where it knew itself, both would wait for a collection."""
    app = App()
    app.init()
    app.put(Draft(text="# One"), name="one")
    app.update("one", Draft(text="# Two"))
    app.append("one", Draft(text="three"))
    left = weakref.ref(app)
    gc.disable()
    try:
        del app
        assert left() is None
    finally:
        gc.enable()
