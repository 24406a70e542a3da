"""Engines as a person has them: commands and processes that stay, on real servers (R21, S9)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest

import retain
from retain.app import App
from retain.index.engines.client import Breaker, Client
from retain.index.engines.sync import Delivery, Pushed
from retain.memory import Answer
from retain.search.request import SearchRequest
from tests.cli import door
from tests.conftest import Ran, command, own_world
from tests.engines.conftest import KEY, REAL, Bench, Row
from tests.engines.machines import Words, by_words
from tests.engines.servers import Odd, Server, odd
from tests.index.embed.server import Answer as Reply
from tests.index.embed.server import Asked
from tests.index.embed.server import Server as Model
from tests.index.embed.server import running as model_running

slow = pytest.mark.slow

VARIABLES: Final = {
    "qdrant": "QDRANT_API_KEY",
    "meilisearch": "MEILISEARCH_API_KEY",
    "postgres": "PGPASSWORD",
    "upstash": "UPSTASH_VECTOR_REST_TOKEN",
}
PASSWORD: Final = "pw-N0rThis"  # in an address, of servers that ask for a key
WRONG: Final = "sk-0rThat"
SECRETS: Final = (KEY, PASSWORD, WRONG)
PLENTY: Final = 120  # seconds that a process may take on a busy machine; none of them should hang

# What is searched for, stored as a tag and a type, and a word that only its memory has.
HOSTILE: Final = {
    "foo-bar": "kettle",
    "c++": "lantern",
    "it's": "marble",
    '" OR 1=1': "nectar",
    "' OR '1'='1' --": "orchid",
    "*": "pepper",
    "\\": "quartz",
    "a AND NOT b": "ribbon",
    "[x] (y) {z}": "saddle",
    "%_": "timber",
    "title:x^2~": "umbra",
    "日本語": "velvet",
}
ODD_NAMES: Final = ("it's", "c++", "a b", "日本語", "x' OR '1'='1")
SIZE: Final = len(HOSTILE) + len(ODD_NAMES)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    """A model behind an address, which counts what it is asked."""
    with model_running(by_words) as found:
        yield found


class Person:
    """Somebody with two banks and a server."""

    def __init__(self, root: Path, product: str, server: Server, model: Model) -> None:
        self.product, self.server, self.model = product, server, model
        self.rows: list[Row] = [row for row in REAL if row.kind == product]
        self.home, self.work = root / "home", root / "home" / "work"
        self.other = root / "home" / "other"
        self.env = {
            **own_world(self.home),
            "RETAIN_RECALL_EMBEDDER": model.base,
            "RETAIN_RECALL_MODEL": "words",
            "RETAIN_ENGINE_PATIENCE_MS": "10000",
            "OPENBLAS_NUM_THREADS": "1",
        }
        if product != "postgres":  # whose password is in the address
            self.env[VARIABLES[product]] = server.key
        for bank in (self.work, self.other):
            (bank / ".retain").mkdir(parents=True)
            (bank / ".retain" / "config.toml").write_text("format = 1\n", encoding="utf-8")
        (self.home / ".run").mkdir(mode=0o700)

    @property
    def address(self) -> str:
        """The server's address, where there can be one with a password in it."""
        scheme, _, rest = self.server.address.partition("://")
        if self.product == "postgres":
            return f"{scheme}://retain:{KEY}@{rest.partition('@')[2]}"
        if self.product == "qdrant":
            return f"{scheme}://ada:{PASSWORD}@{rest}"
        return self.server.address

    def write(self, bank: Path, ref: str, text: str) -> None:
        path = bank / ".retain" / f"{ref}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    @contextmanager
    def world(self, bank: Path | None, env: Mapping[str, str] | None) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self.env, **(env or {})}.items():
                patch.setenv(name, value)
            patch.chdir(bank or self.work)
            Breaker.servers.clear()  # as in a new process
            yield

    def call(
        self,
        *args: str,
        bank: Path | None = None,
        env: Mapping[str, str] | None = None,
        code: int = 0,
    ) -> Ran:
        """A command; whatever it says holds no secret."""
        with self.world(bank, env):
            ran = door.call(*args)
        assert ran.code == code, ran
        assert not [secret for secret in SECRETS if secret in ran.out + ran.err], ran
        assert "Traceback" not in ran.err
        return ran

    def told(self, *args: str, **options: Any) -> Any:
        """What a command answers in JSON."""
        return json.loads(self.call(*args, "--json", **options).out)

    def search(
        self,
        query: str,
        *,
        bank: Path | None = None,
        env: Mapping[str, str] | None = None,
        **filters: Any,
    ) -> Answer:
        """What a process that stays answers."""
        with self.world(bank, env), closing(App(stays=True)) as app:
            return app.search(SearchRequest(query, 20, **filters))

    def found(self, query: str, **options: Any) -> list[str]:
        """What a search finds; every engine was asked and has answered, or this fails."""
        asked: list[str] = []
        ask = Client.ask

        def counted(client: Client, *args: Any) -> Any:
            asked.append(client.part)
            return ask(client, *args)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Client, "ask", counted)
            answer = self.search(query, **options)
        assert not answer.degraded
        assert sorted(asked) == sorted(row.part for row in self.rows)
        return [hit.id for hit in answer.hits]

    def drift(self, **options: Any) -> int:
        return sum(one["drift"] for one in self.told("engine", "verify", **options).values())


@pytest.fixture(scope="module", params=sorted({row.kind for row in REAL}))
def person(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: Model
) -> Iterator[Person]:
    """Somebody whose two banks have moved to a server."""
    product: str = request.param
    root = tmp_path_factory.mktemp(f"engine-{product}")
    (root / "server").mkdir()
    server = next(row for row in REAL if row.kind == product).server(root / "server")
    server.start()
    try:
        made = Person(root, product, server, model)
        for number, (hostile, word) in enumerate(HOSTILE.items()):
            head = f"---\ntype: {json.dumps(hostile)}\ntags: [{json.dumps(hostile)}]\n---\n"
            made.write(made.work, f"notes/h{number}", f"{head}# H{number}\n\n{hostile} {word}.\n")
        for number, name in enumerate(ODD_NAMES):
            made.write(made.work, f"{name}/c{number}", f"# C{number}\n\nA walnut, {number}.\n")
        for number in range(3):
            text = f"# O{number}\n\nA secret zeppelin {number}.\n"
            made.write(made.other, f"notes/o{number}", text)
        made.call("config", "set", f"engine.{product}.url", made.address, "--global")
        for bank in (made.work, made.other):
            made.call("index", bank=bank)
        yield made
    finally:
        server.kill()


def _move(person: Person) -> None:
    """Have the banks moved, whichever test comes first."""
    if person.told("config", "get", f"engine.{person.rows[0].part}")["value"] == person.product:
        return
    before = len(person.model.asked)
    answer = person.told("engine", "migrate", "--to", person.product)
    assert [one["left"] for one in answer["arms"].values()] == [0] * len(person.rows)
    person.call("engine", "push", bank=person.other)
    assert len(person.model.asked) == before  # the vectors were there


@slow
def test_a_bank_moves_without_a_model_and_keeps_to_itself(person: Person) -> None:
    _move(person)
    for bank, size in ((person.work, SIZE), (person.other, 3)):
        state = person.told("engine", "status", bank=bank)
        arms = [arm for arm in state["arms"] if arm["kind"] == person.product]
        assert [arm["part"] for arm in arms] == sorted(row.part for row in person.rows)
        for arm in arms:
            assert (arm["delivered"], arm["waiting"], arm["trouble"]) == (size, 0, "")
            assert (arm["documents"], bool(arm["version"])) == (size, True)
        assert person.drift(bank=bank) == 0
    assert person.found("zeppelin", bank=person.other)[0] in {"o0", "o1", "o2"}
    assert not [name for name in person.found("a secret walnut zeppelin") if name[0] == "o"]


@slow
def test_hostile_words_are_words(person: Person) -> None:
    """S9: a literal search that finds; never an error of the engine's."""
    _move(person)
    for number, (hostile, word) in enumerate(HOSTILE.items()):
        assert person.found(f"{hostile} {word}")[0] == f"h{number}"
        key: dict[str, Any] = {"type": hostile} if number % 2 else {"tags": (hostile.casefold(),)}
        assert _narrowed(person, word, **key) == [f"h{number}"]
    for number, name in enumerate(ODD_NAMES):
        assert _narrowed(person, "walnut", collection=name) == [f"c{number}"]


def _narrowed(person: Person, query: str, **filters: Any) -> list[str]:
    from retain.search.request import Filters

    return person.found(query, filters=Filters(**filters))


@slow
@pytest.mark.parametrize("how", ["killed", "hang", "error", "garbage"])
def test_while_a_server_is_away_the_bank_answers_and_nothing_is_lost(
    person: Person, how: Literal["killed"] | Odd
) -> None:
    """R21."""
    _move(person)
    short = {"RETAIN_ENGINE_PATIENCE_MS": "300"}
    port = urlsplit(person.server.address).port or 0
    person.server.kill()
    try:
        with odd(how, port) if how != "killed" else nullcontext():
            answer = person.search("kettle", env=short)
            assert answer.hits[0].id == "h0"
            reasons = answer.degraded.reasons if answer.degraded else ()
            assert all("answered from the local index" in reason for reason in reasons)
            assert reasons
            person.write(person.work, f"notes/away-{how}", f"A quince of the {how}.\n")
            person.call("search", "quince")  # a cold command never waits for a server
            assert any(one["waiting"] for one in person.told("status")["engines"])
    finally:
        person.server.start()
    person.call("engine", "push")
    assert person.drift() == 0
    assert f"away-{how}" in person.found(f"quince {how}")
    (person.work / ".retain" / "notes" / f"away-{how}.md").unlink()
    person.call("engine", "push")
    assert person.drift() == 0


@slow
def test_a_key_that_is_wrong_missing_or_unfit_is_said_and_told_to_nobody(person: Person) -> None:
    _move(person)
    variable = VARIABLES[person.product]
    bare = {"RETAIN_ENGINE_POSTGRES_URL": person.address.replace(f":{KEY}@", "@")}
    for key, said in ((WRONG, "refused"), ("", "refused"), (f"{WRONG}\N{SNOWMAN}", "not ASCII")):
        env = {variable: key, **(bare if person.product == "postgres" else {})}
        ran = person.call("engine", "status", env=env, code=1)
        assert said in ran.out + ran.err
        assert variable in ran.err  # where to look
        answer = person.search("kettle", env=env)
        assert answer.hits[0].id == "h0"
        assert variable in str(answer.degraded)
        person.call("engine", "push", env=env, code=1)
    person.call("engine", "push")
    assert person.drift() == 0


@slow
def test_no_secret_is_shown_or_kept(person: Person) -> None:
    """Every other call here is looked through as well, by `Person`."""
    _move(person)
    for words in (
        ("config", "list", "--json"),
        ("config", "get", f"engine.{person.product}.url"),
        ("status", "--json"),
        ("doctor", "--json"),
        ("engine",),
    ):
        person.call(*words)
    kept = person.home / ".retain" / "config.toml"
    for path in person.home.rglob("*"):
        if path.is_file() and path != kept:
            data = path.read_bytes()
            assert not [secret for secret in SECRETS if secret.encode() in data], path


@slow
def test_damage_is_named_and_mended(person: Person) -> None:
    _move(person)
    state = person.told("engine", "status")
    for row in person.rows:
        bench = Bench(row, person.server, state["bank"])
        (arm,) = (arm for arm in state["arms"] if arm["part"] == row.part)
        engine = bench.another(container=arm["container"])
        lost = next(iter(engine.ids()))
        engine.delete([lost])
        bench.close()
    ran = person.call("engine", "verify", code=1)
    assert ".md" in ran.out
    assert "engine repair" in ran.err
    mended = person.told("engine", "repair")
    assert [one["drift"] for one in mended.values()] == [0] * len(person.rows)
    assert [one["mended"] for one in mended.values()] == [1] * len(person.rows)
    assert "nothing to mend" in person.call("engine", "repair").out


def _longer(asked: Asked) -> Reply:
    """A model whose vectors are twice as long."""
    found = [
        {"index": at, "embedding": [*Words().query(text).tolist()] * 2}
        for at, text in enumerate(asked.body["input"])
    ]
    return Reply(body=json.dumps({"object": "list", "data": found}))


@slow
def test_another_model_has_a_copy_of_its_own(person: Person) -> None:
    if "vector" not in [row.part for row in person.rows]:
        pytest.skip("words need no model")
    _move(person)
    with model_running(_longer) as longer:
        for env in ({"RETAIN_RECALL_MODEL": "others"}, {"RETAIN_RECALL_EMBEDDER": longer.base}):
            person.call("index", env=env)
            if "RETAIN_RECALL_EMBEDDER" in env and person.product == "upstash":
                ran = person.call("engine", "push", env=env, code=1)
                assert "Upstash console" in ran.err  # whose owner makes it
                continue
            person.call("engine", "push", env=env)
            assert person.drift(env=env) == 0
            assert person.found("kettle", env=env)[0] == "h0"
    person.call("index")
    person.call("engine", "repair")
    assert person.drift() == 0


@slow
def test_a_bank_goes_back_and_leaves_nothing_behind(person: Person) -> None:
    _move(person)
    assert "--yes" in person.call("engine", "drop", code=2).err
    assert "filled again" in person.call("engine", "drop", "--yes", bank=person.other).err
    assert "There was nothing" in person.call("engine", "drop", "--yes", bank=person.other).out
    assert person.drift() == 0  # what is another bank's stays
    named = {"RETAIN_ENGINE_BANKS": f"team={person.work}"}
    person.call("engine", "push", env=named)
    assert person.told("engine", env=named)["bank"] == "team"
    drop = ("engine", "drop", "--from", person.product, "--yes")
    assert person.told(*drop, "--name", "team")["documents"] >= SIZE
    without = {"RETAIN_RECALL_EMBEDDER": "none"}
    ran = person.call("engine", "migrate", "--to", "sqlite")
    assert f"drop --from {person.product}" in ran.err
    assert person.told(*drop, env=without)["documents"] >= SIZE * len(person.rows)
    assert "There was nothing" in person.call(*drop).out
    assert "lives elsewhere" in person.call("engine", "verify", code=2).err
    _move(person)  # and there again
    assert person.drift() == 0


@slow
def test_a_process_that_stays_delivers_by_itself(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    _move(person)
    told = threading.Event()
    push = Delivery.push

    def noted(delivery: Delivery, **options: Any) -> Pushed:
        pushed = push(delivery, **options)
        if pushed.sent and not pushed.left + pushed.lacking:
            told.set()
        return pushed

    monkeypatch.setattr(Delivery, "push", noted)
    with person.world(None, None), retain.open(str(person.work / ".retain")) as bank:
        bank.put("A damson in the garden.", id="damson")
        assert told.wait(PLENTY)
    person.call("engine", "push")
    assert person.drift() == 0
    assert person.found("damson")[0] == "damson"
    person.call("delete", "damson")
    person.call("engine", "push")


# What needs no server


@contextmanager
def _counting() -> Iterator[tuple[int, list[str]]]:
    """A port, and who came to it."""
    came: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        is_over = threading.Event()

        def listen() -> None:
            while not is_over.is_set():
                try:
                    found, peer = listener.accept()
                except TimeoutError:
                    continue
                came.append(str(peer))
                found.close()

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield int(listener.getsockname()[1]), came
        finally:
            is_over.set()
            thread.join()


@slow
def test_a_project_cannot_send_memories_anywhere(home: Path) -> None:
    bank = home / "work" / ".retain"
    with _counting() as (port, came):
        urls = "".join(
            f'[engine.{kind}]\nurl = "{"postgresql" if kind == "postgres" else "http"}'
            f'://127.0.0.1:{port}"\n'
            for kind in VARIABLES
        )
        bank.mkdir()
        text = f'[engine]\ntext = "meilisearch"\nvector = "qdrant"\nbanks = "theirs=."\n{urls}'
        (bank / "config.toml").write_text(f"format = 1\n{text}", encoding="utf-8")
        env = {**os.environ, "RETAIN_RECALL_EMBEDDER": "none"}
        for words in (("put", "-", "--id", "mine"), ("search", "wombat", "--json"), ("engine",)):
            done = subprocess.run(
                [*command(), *words], input=b"A wombat.\n", env=env, capture_output=True,
                timeout=PLENTY, check=True,
            )  # fmt: skip
        assert done.stdout.count(b"sqlite") == 2
        said = door.call("config", "check")
        for key in ("text", "vector", "banks", "qdrant.url", "postgres.url"):
            assert f"engine.{key} may only be set in your own config" in said.out
        assert came == []


def test_a_bank_that_is_named_and_is_not_there_is_told(home: Path) -> None:
    door.call("config", "set", "engine.banks", "team=~/wrong/.retain", "--global")
    assert "team is to be" in door.call("engine", "status").err


@pytest.mark.parametrize("product", sorted(VARIABLES))
def test_a_client_that_is_missing_is_named_with_what_to_install(
    product: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retain.index.engines.server.find_spec", lambda _: None)
    door.done("init")
    ran = door.call("engine", "migrate", "--to", product)
    assert ran.code == 1
    assert f"{product.capitalize()}'s client is not installed." in ran.err
    assert f'pip install "retain-bank[{product}]"' in ran.err
    assert door.done("config", "get", "engine.vector") == "sqlite\n"
