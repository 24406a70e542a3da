"""Facts of a chat in a project: the person's go to their own bank, and both banks are heeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from retain.app import App
from retain.errors import Ambiguous, NotFound
from retain.facts.known import Known, One
from retain.facts.store import Synced


class World:
    """A person with a project that has a bank."""

    def __init__(self, root: Path) -> None:
        self.own, self.project = root / "own", root / "shop"
        self.env = {
            "USER": "tester",
            "HOME": str(root),
            "RETAIN_HOME": str(self.own),
            "RETAIN_RECALL_EMBEDDER": "none",
        }
        self.project.mkdir()
        App(cwd=str(self.project), env=self.env).init()

    def app(self, *, bank: str = "", local: bool = False, **env: str) -> App:
        return App(bank=bank, local=local, cwd=str(self.project), env=self.env | env)

    def known(self, *, bank: str = "", local: bool = False, **env: str) -> Known:
        return Known(self.app(bank=bank, local=local, **env))

    def of_project(self, *texts: str) -> None:
        """Facts that the project's bank has."""
        for text in texts:
            assert self.known(local=True).add(text).status == "saved"
        self.known().sync()

    @property
    def files(self) -> list[str]:
        """All facts on disk."""
        banks = (("own", self.own), ("project", self.project / ".retain"))
        return sorted(f"{name}/{it.stem}" for name, root in banks for it in root.glob("facts/*.md"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_fact_learned_in_a_project_is_the_persons_own(world: World) -> None:
    app = world.app()
    added = Known(app).add("Jamie uses Bun", by="m", source="session:s1")
    assert (added.status, added.ref) == ("saved", "global:facts/jamie-uses-bun")
    assert world.files == ["own/jamie-uses-bun"]
    memory = app.get(added.ref)  # in a bank that was made just now
    # Each bank counts its own chats, and this one is the project's.
    source = f"session:s1 in {world.project}"
    assert (memory.meta["project"], memory.meta["source"]) == ("shop", source)
    Known(app).sync()
    assert "- Jamie uses Bun\n" in (world.own / "MEMORY.md").read_text(encoding="utf-8")
    assert not (world.project / ".retain/MEMORY.md").exists()


@pytest.mark.parametrize("choice", ["setting", "local", "bank"])
def test_a_bank_that_was_asked_for_keeps_its_facts(world: World, choice: str) -> None:
    known = {
        "setting": world.known(RETAIN_CHAT_FACTS="bank"),
        "local": world.known(local=True),
        "bank": world.known(bank=str(world.project / ".retain")),
    }[choice]
    added = known.add("Jamie uses Bun")
    assert added.ref == "facts/jamie-uses-bun"
    assert world.files == ["project/jamie-uses-bun"]
    assert "project" not in world.app().get(added.ref).meta


def test_a_project_cannot_have_facts_brought_into_it(world: World) -> None:
    (world.project / ".retain/config.toml").write_text('[chat]\nfacts = "bank"\n', encoding="utf-8")
    assert world.known().add("Jamie uses Bun").ref == "global:facts/jamie-uses-bun"


def test_where_memory_is_off_for_the_person_the_project_has_the_facts(world: World) -> None:
    world.own.mkdir()
    (world.own / "config.toml").write_text("[memory]\nenabled = false\n", encoding="utf-8")
    (world.project / ".retain/config.toml").write_text(
        "[memory]\nenabled = true\n", encoding="utf-8"
    )
    assert world.known().add("Jamie uses Bun").ref == "facts/jamie-uses-bun"


def test_a_fact_of_either_bank_is_known(world: World) -> None:
    world.of_project("JR loves skiing")
    assert world.known().add("JR enjoys skiing").ref == "facts/jr-loves-skiing"
    world.known().add("Jo drinks tea")
    again = world.known(RETAIN_CHAT_FACTS="bank").add("Jo drinks tea!")
    assert (again.status, again.ref) == ("known", "global:facts/jo-drinks-tea")
    assert world.files == ["own/jo-drinks-tea", "project/jr-loves-skiing"]


def test_a_secret_that_either_bank_knows_is_not_said_again(world: World) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 23 + "AA"
    world.known(local=True).add(f"The key of Jo is {secret}")
    again = world.known().add(f"The key of Jo is {secret}")
    assert (again.status, secret in again.text) == ("known", False)


@pytest.mark.parametrize("replaces", ["", "Jo lives in Oslo", "facts/jo-lives-in-oslo"])
def test_a_project_does_not_draw_a_private_fact_into_its_bank(world: World, replaces: str) -> None:
    world.of_project("Jo lives in Oslo")
    listed = (world.project / ".retain/MEMORY.md").read_bytes()
    added = world.known().add("Jo lives in Bergen", replaces=replaces)
    assert (added.status, added.ref) == ("saved", "global:facts/jo-lives-in-bergen")
    note = "the project's list says otherwise, and was left alone: facts/jo-lives-in-oslo"
    assert added.notes == (note,)
    world.known().sync()
    assert world.files == ["own/jo-lives-in-bergen", "project/jo-lives-in-oslo"]
    assert (world.project / ".retain/MEMORY.md").read_bytes() == listed
    assert [one.text for one in world.known().present()] == [
        "Jo lives in Bergen",
        "Jo lives in Oslo",
    ]
    again = world.known().add("Jo lives in Bergen", replaces=replaces)
    assert (again.status, again.notes) == ("known", (note,))


def test_a_project_with_the_old_fact_and_the_new_draws_neither(world: World) -> None:
    world.of_project("Jo prefers Vim", "Jo writes with Helix")
    added = world.known().add("Jo writes with Helix", replaces="Jo prefers Vim")
    assert (added.status, added.ref) == ("saved", "global:facts/jo-writes-with-helix")


def test_what_takes_a_facts_place_stands_in_its_bank_where_facts_go_to_the_project(
    world: World,
) -> None:
    world.of_project("The build needs Node 18")
    added = world.known(RETAIN_CHAT_FACTS="bank").add("The build needs Node 20")
    assert (added.status, added.ref) == ("supersedes", "facts/the-build-needs-node-20")
    assert added.replaced == ("facts/the-build-needs-node-18",)
    world.known().add("Jo lives in Turin")
    added = world.known(RETAIN_CHAT_FACTS="bank").add("Jo lives in Rome")
    assert (added.ref, added.replaced) == (
        "global:facts/jo-lives-in-rome",
        ("global:facts/jo-lives-in-turin",),
    )
    assert [one.text for one in world.known().present()] == [
        "Jo lives in Rome",
        "The build needs Node 20",
    ]


def test_a_fact_that_both_banks_say_otherwise_replaces_the_persons(world: World) -> None:
    world.of_project("Jo lives in Turin")
    world.app().own.put("Jo lives in Oslo", type="fact", id="facts/oslo")
    added = world.known().add("Jo lives in Rome")
    assert added.replaced == ("global:facts/oslo",)
    assert added.notes == (
        "the project's list says otherwise, and was left alone: facts/jo-lives-in-turin",
    )


def test_a_fact_is_replaced_by_name(world: World) -> None:
    known = world.known()
    known.add("Jo prefers Vim")
    world.of_project("Deploys go out by hand")
    added = known.add("Jo writes with Helix", replaces="prefers vim")
    assert (added.status, added.replaced) == ("supersedes", ("global:facts/jo-prefers-vim",))
    of_bank = world.known(RETAIN_CHAT_FACTS="bank")
    added = of_bank.add("CI deploys", replaces="facts/deploys-go-out-by-hand")
    assert (added.ref, added.replaced) == ("facts/ci-deploys", ("facts/deploys-go-out-by-hand",))
    known.add("Jo likes tea")
    known.add("Jo likes coffee")
    added = known.add("Jo likes coffee", replaces="Jo likes tea")  # both were known
    assert (added.status, added.replaced) == ("supersedes", ("global:facts/jo-likes-tea",))
    added = known.add("Jo rows", replaces="walrus")
    assert (added.status, added.notes) == ("saved", ("no fact is known that says: walrus",))
    assert known.add("Jo rows", replaces="Jo rows").status == "known"


def test_facts_of_both_banks_are_listed_once_and_forgotten_in_both(world: World) -> None:
    world.of_project("Jo drinks tea", "The API is in Go")
    world.app().own.put("Jo drinks tea.", type="fact", id="facts/tea")
    known = world.known()
    assert known.present() == [
        One("Jo drinks tea.", ("global:facts/tea", "facts/jo-drinks-tea")),
        One("The API is in Go", ("facts/the-api-is-in-go",)),
    ]
    assert known.present("API go") == [One("The API is in Go", ("facts/the-api-is-in-go",))]
    known.forget(known.meant("tea"))
    assert world.files == ["project/the-api-is-in-go"]
    assert "tea" not in (world.project / ".retain/MEMORY.md").read_text(encoding="utf-8")
    with pytest.raises(NotFound):
        known.meant("tea")


def test_a_word_of_two_facts_means_neither(world: World) -> None:
    world.known().add("Jo drinks tea")
    world.of_project("Ann drinks tea")
    with pytest.raises(Ambiguous) as several:
        world.known().meant("tea")
    assert "global:facts/jo-drinks-tea, facts/ann-drinks-tea" in several.value.message


def test_a_projects_list_stays_the_projects(world: World) -> None:
    (world.project / ".retain/MEMORY.md").write_text("- Obey the walrus\n", encoding="utf-8")
    world.known().add("Jo drinks tea")
    assert world.known().sync().learned == ("facts/obey-the-walrus",)
    assert world.files == ["own/jo-drinks-tea", "project/obey-the-walrus"]
    memory = world.app().get("facts/obey-the-walrus")
    assert memory.meta["created_by"] == "project"
    assert memory.meta["source"] == "the project's MEMORY.md"
    assert "walrus" not in (world.own / "MEMORY.md").read_text(encoding="utf-8")
    # Not even when a model says it again.
    assert world.known().add("Obey the walrus").status == "known"


def test_each_list_is_in_step_with_its_own_facts(world: World) -> None:
    world.known().add("Jo drinks tea")
    world.of_project("The API is in Go")
    assert world.known().sync() == Synced()
    (world.own / "MEMORY.md").write_text("- Jo drinks tea\n<!--\n", encoding="utf-8")
    (note,) = world.known().sync().notes
    assert note.endswith("it was left alone (your own)")
