"""Facts of a chat taken back: only what that chat made, and only as it was saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from retain.app import App
from retain.errors import Conflict, NotFound
from retain.facts.retraction import kept, retract
from retain.talk.retention import Retention
from tests.facts.test_known import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def saved(app: App, fact: str) -> tuple[str, str]:
    """A chat that saved a fact, and what the fact is called."""
    session = app.sessions.create("m").id
    retention = Retention(app, app.sessions)
    (one,) = retention.save([fact], session, by="m")
    return session, one.ref


def file_of(world: World, ref: str) -> Path:
    return world.own / f"{ref.removeprefix('global:')}.md"


def test_a_fact_is_taken_back_and_what_it_replaced_comes_back(world: World) -> None:
    app = world.app()
    first, old = saved(app, "Ada uses npm")
    second, new = saved(app, "Ada uses pnpm (replaces: Ada uses npm)")
    assert retract(app, second, new) == [old]
    assert not file_of(world, new).exists()
    assert "superseded_by" not in file_of(world, old).read_text(encoding="utf-8")
    assert [one.ref for one in kept(app, first)] == [old]


@pytest.mark.parametrize("ref", ["global:memories/diary", "memories/diary", "global:facts/diary"])
def test_a_database_takes_nothing_away_that_no_chat_made(world: World, ref: str) -> None:
    app = world.app()
    home = app.own if ref.startswith("global:") else app
    home.init()
    name = ref.removeprefix("global:")
    home.put("Dear diary\n", type="fact", id=name)
    session = app.sessions.create("m").id
    app.sessions.remember("Dear diary", "facts", session, ref)
    assert kept(app, session) == []
    with pytest.raises(NotFound):
        retract(app, session, ref)
    assert home.find_own(name).body == "Dear diary\n"


def test_a_database_revives_nothing_that_the_fact_did_not_replace(world: World) -> None:
    app = world.app()
    session, ref = saved(app, "Ada uses npm")
    app.own.put("First\n", id="memories/diary")
    app.own.update("memories/diary", "Second\n")
    number = next(one.id for one in app.sessions.facts() if one.ref == ref)
    planted = app.sessions.remember("First", "facts", session, "global:memories/diary")
    app.sessions.supersede(planted, number)
    assert retract(app, session, ref) == []
    assert app.own.find_own("memories/diary").body == "Second\n"


def test_a_fact_that_was_edited_since_stays(world: World) -> None:
    app = world.app()
    session, ref = saved(app, "Ada uses npm")
    with file_of(world, ref).open("a", encoding="utf-8") as file:
        file.write("\nAnd she wrote down why.\n")
    with pytest.raises(Conflict, match="edited since"):
        retract(app, session, ref)
    assert "wrote down why" in file_of(world, ref).read_text(encoding="utf-8")
    assert kept(app, session)


def test_what_was_replaced_and_edited_since_is_not_put_back(world: World) -> None:
    app = world.app()
    _, old = saved(app, "Ada uses npm")
    session, new = saved(app, "Ada uses pnpm (replaces: Ada uses npm)")
    with file_of(world, old).open("a", encoding="utf-8") as file:
        file.write("\nUntil the spring.\n")
    with pytest.raises(Conflict, match="edited since"):
        retract(app, session, new)
    assert file_of(world, new).exists()
    assert "Until the spring" in file_of(world, old).read_text(encoding="utf-8")
