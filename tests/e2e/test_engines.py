"""Engines as a person has them: through the command line, on real servers (promises R21, S9)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from retain.index.engines.arm import Held
from retain.index.engines.choosing import VECTOR
from retain.index.engines.naming import Names
from retain.index.engines.wire import Wire
from tests.cli import door
from tests.conftest import Ran, command, own_world
from tests.engines.contract import KEY, Row
from tests.engines.machines import Words, by_words
from tests.engines.rows import ROWS
from tests.engines.servers import Server, odd
from tests.index.embed.server import Answer as Reply
from tests.index.embed.server import Asked
from tests.index.embed.server import Server as Model
from tests.index.embed.server import running as model_running

pytestmark = pytest.mark.slow

PRODUCTS: Final = ("qdrant", "meilisearch", "postgres", "upstash")
VARIABLES: Final = {
    "qdrant": "QDRANT_API_KEY",
    "meilisearch": "MEILISEARCH_API_KEY",
    "postgres": "PGPASSWORD",
    "upstash": "UPSTASH_VECTOR_REST_TOKEN",
}
CLIENTS: Final = {
    "qdrant": "qdrant_client",
    "meilisearch": "meilisearch",
    "postgres": "psycopg",
    "upstash": "upstash_vector",
}
PASSWORD: Final = "pw-N0rThis"  # in an address, of servers that ask for a key
WRONG: Final = "sk-0rThat"
UNFIT: Final = "sk-N0th1ng"  # the beginning of a key that cannot be sent
SECRETS: Final = (KEY, PASSWORD, WRONG, UNFIT)
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
# Collections that a person may have, and some that nobody can.
ODD_NAMES: Final = ("it's", "c++", "a b", "日本語", "x' OR '1'='1")
BAD_NAMES: Final = ('" OR 1=1', "a*", "\\", "../x")


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    """A model behind an address, which counts what it is asked."""
    with model_running(by_words) as found:
        yield found


class Person:
    """Somebody with two banks and a server."""

    def __init__(self, root: Path, product: str, server: Server, model: Model) -> None:
        self.product, self.server, self.model = product, server, model
        self.home, self.work = root / "home", root / "home" / "work"
        self.other = root / "home" / "other"
        self.env = {
            **own_world(self.home),
            "RETAIN_RECALL_EMBEDDER": model.base,
            "RETAIN_RECALL_MODEL": "words",
            "OPENBLAS_NUM_THREADS": "1",
        }
        if product != "postgres":  # whose password is in the address
            self.env[VARIABLES[product]] = server.key
        self.has_moved = False
        for bank in (self.work, self.other):
            (bank / ".retain").mkdir(parents=True)
            (bank / ".retain" / "config.toml").write_text("format = 1\n", encoding="utf-8")
        (self.home / ".run").mkdir(mode=0o700)

    @property
    def port(self) -> int:
        return int(urlsplit(self.server.address).port or 0)

    @property
    def address(self) -> str:
        """The server's address, where there can be one with a password in it."""
        scheme, _, rest = self.server.address.partition("://")
        if self.product == "postgres":
            return f"{scheme}://retain:{KEY}@{rest.partition('@')[2]}"
        return (
            f"{scheme}://ada:{PASSWORD}@{rest}" if self.product == "qdrant" else self.server.address
        )

    def write(self, bank: Path, ref: str, text: str) -> None:
        path = bank / ".retain" / f"{ref}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(
        self,
        *args: str,
        input: str = "",
        bank: Path | None = None,
        env: Mapping[str, str] | None = None,
        code: int = 0,
    ) -> Ran:
        """A process of its own; whatever it says holds no secret."""
        done = subprocess.run(
            [*command(), *args],
            input=input.encode("utf-8"),
            env={**os.environ, **self.env, **(env or {})},
            cwd=bank or self.work,
            capture_output=True,
            timeout=PLENTY,
            check=False,
        )
        return self._checked(
            Ran(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8")), code
        )

    def call(
        self,
        *args: str,
        bank: Path | None = None,
        env: Mapping[str, str] | None = None,
        code: int = 0,
    ) -> Ran:
        """The same in this process, where the server's client is loaded already."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self.env, **(env or {})}.items():
                patch.setenv(name, value)
            patch.chdir(bank or self.work)
            return self._checked(door.call(*args), code)

    def _checked(self, ran: Ran, code: int) -> Ran:
        assert ran.code == code, ran
        assert not [secret for secret in SECRETS if secret in ran.out + ran.err], ran
        assert "Traceback" not in ran.err
        return ran

    def told(self, *args: str, **options: Any) -> Any:
        """What a call answers in JSON."""
        return json.loads(self.call(*args, "--json", **options).out)

    def found(self, *args: str, is_asked: bool = True, **options: Any) -> list[str]:
        """What a search finds; the engine was asked and has answered, or this fails."""
        with _asking() as asked:
            answer = self.told("search", *args, **options)
        assert answer["degraded"] is None
        assert bool(asked) == is_asked
        return [hit["id"] for hit in answer["hits"]]

    def push_all(self) -> None:
        """Have the server told by each bank that is searched, so that none waits for a next try."""
        for scope in ("--local", "--global"):
            self.call("engine", "push", scope)

    def drift(self, **options: Any) -> int:
        return sum(one["drift"] for one in self.told("engine", "verify", **options).values())

    @cached_property
    def rows(self) -> list[Row]:
        return [row for row in ROWS if row.product == self.product]

    def settle(self) -> None:
        """Wait for what commands have started and left to itself."""
        end = time.monotonic() + PLENTY
        mark = f"RETAIN_HOME={self.env['RETAIN_HOME']}".encode()
        while _has_any(mark):
            assert time.monotonic() < end, "a delivery does not end"
            time.sleep(0.3)


@contextmanager
def _asking() -> Iterator[list[str]]:
    """Which engines are asked meanwhile in this process."""
    asked: list[str] = []
    ask = Wire.ask

    def counted(wire: Wire[Any], *args: Any) -> Any:
        asked.append(wire.kind)
        return ask(wire, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wire, "ask", counted)
        yield asked


def _has_any(mark: bytes) -> bool:
    """Whether a process runs that was started with this in its environment."""
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes().split(b"\0"):
                return True
        except OSError:  # it has just ended, or is not ours
            continue
    return False


def _fill(person: Person) -> None:
    for number, (hostile, word) in enumerate(HOSTILE.items()):
        head = f"---\ntype: {json.dumps(hostile)}\ntags: [{json.dumps(hostile)}]\n---\n"
        person.write(person.work, f"notes/h{number}", f"{head}# H{number}\n\n{hostile} {word}.\n")
    for number, name in enumerate(ODD_NAMES):
        person.write(
            person.work, f"{name}/c{number}", f"# C{number}\n\nA walnut, number {number}.\n"
        )
    for number in range(3):
        person.write(
            person.other, f"notes/o{number}", f"# O{number}\n\nA secret zeppelin {number}.\n"
        )


@pytest.fixture(scope="module", params=PRODUCTS)
def person(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model: Model
) -> Iterator[Person]:
    """Somebody whose two banks have moved to a server."""
    product: str = request.param
    row = next(row for row in ROWS if row.product == product)
    root = tmp_path_factory.mktemp(f"engine-{product}")
    (root / "server").mkdir()
    server = row.server(root / "server")
    server.start()
    try:
        made = Person(root, product, server, model)
        _fill(made)
        made.call("config", "set", f"engine.{product}.url", made.address, "--global")
        for bank in (made.work, made.other):
            made.call("index", bank=bank)
        yield made
        made.settle()
    finally:
        server.kill()


def _moved(person: Person) -> None:
    """Have the banks moved, whichever test comes first."""
    if person.told("config", "get", f"engine.{person.rows[0].kind}")["value"] == person.product:
        return
    before = len(person.model.asked)
    # A process is started for the first time only: some clients take seconds to load.
    ask = person.call if person.has_moved else person.run
    answer = json.loads(ask("engine", "migrate", "--to", person.product, "--json").out)
    person.has_moved = True
    assert set(answer) == {"to", "arms"}
    size = len(list(person.work.glob(".retain/*/*.md")))
    assert [one["sent"] for one in answer["arms"].values()] == [size] * len(person.rows)
    person.call("engine", "push", bank=person.other)
    assert len(person.model.asked) == before  # the vectors were there


def test_a_bank_moves_without_a_model_and_keeps_to_itself(person: Person) -> None:
    _moved(person)
    for bank in (person.work, person.other):
        size = len(list(bank.glob(".retain/*/*.md")))
        state = person.told("engine", "status", bank=bank)
        arms = [arm for arm in state["arms"] if arm["kind"] == person.product]
        assert [arm["part"] for arm in arms] == sorted(row.kind for row in person.rows)
        for arm in arms:
            assert (arm["delivered"], arm["waiting"], arm["trouble"]) == (size, 0, "")
            assert arm["pieces"] >= size
            assert arm["version"]
        assert person.drift(bank=bank) == 0
    assert person.found("zeppelin", bank=person.other)[0] in {"o0", "o1", "o2"}
    everything = person.found("a secret walnut zeppelin", "--limit", "50")
    assert not [name for name in everything if name.startswith("o")]


def test_hostile_words_are_words(person: Person) -> None:
    """S9: a literal search that finds, or an error of ours; never one of the engine's."""
    _moved(person)
    lines = [*HOSTILE, *(f"{hostile} {word}" for hostile, word in HOSTILE.items())]
    ran = person.run("search", "--batch", "-", input="".join(f"{line}\n" for line in lines))
    answers = [json.loads(line) for line in ran.out.splitlines()]
    assert [answer["query"] for answer in answers] == lines
    assert [answer["degraded"] for answer in answers] == [None] * len(lines)
    first = [answer["hits"][0]["id"] for answer in answers[len(HOSTILE) :]]
    assert first == [f"h{number}" for number in range(len(HOSTILE))]
    assert not [hit for answer in answers for hit in answer["hits"] if hit["id"][0] == "o"]
    for number, hostile in enumerate(HOSTILE):
        kind = ("--type", "--tags")[number % 2]
        assert person.found(HOSTILE[hostile], kind, hostile) == [f"h{number}"]
    for number, name in enumerate(ODD_NAMES):
        assert person.found("walnut", "--collection", name) == [f"c{number}"]
    for name in BAD_NAMES:
        ran = person.call("search", "walnut", "--collection", name, "--json", code=2)
        assert "bad-name" in ran.out + ran.err


def test_what_a_person_wrote_by_hand_is_delivered_by_any_command(person: Person) -> None:
    _moved(person)
    ran = person.call("engine", "migrate", "--to", "sqlite", "--only", person.rows[-1].kind)
    # Of Postgres the other arm is still asked.
    assert (f"drop --from {person.product}" in ran.err) == (len(person.rows) == 1)
    assert person.told("config", "get", f"engine.{person.rows[-1].kind}")["value"] == "sqlite"
    person.call("engine", "migrate", "--to", person.product, "--only", person.rows[-1].kind)
    person.write(person.work, "notes/byhand", "# By hand\n\nA quince in the garden.\n")
    end = time.monotonic() + PLENTY
    while any(one["waiting"] for one in person.told("engine", "status")["arms"]):
        assert time.monotonic() < end, "nobody is told"
        # No command that writes; a server that was too slow for it is told after the next one.
        person.run("search", "quince", "--text")
        person.settle()


def test_settings_that_make_no_sense_cost_no_answer(person: Person) -> None:
    _moved(person)
    unclear = {"RETAIN_ENGINE_BANKS": "no name at all"}
    answer = person.told("search", "walnut", env=unclear)
    assert answer["hits"]
    assert "engine.banks" in str(answer["degraded"])
    assert "engine.banks" in person.call("engine", "status", env=unclear, code=1).err


def test_a_lost_engine_costs_no_answer_and_no_memory(person: Person) -> None:
    """R21: hanging, answering nonsense, gone; then back, and nothing is missing."""
    _moved(person)
    person.server.kill()
    try:
        with odd("hang", person.port):
            _answers_here(person, person.run)
        with odd("error", person.port):
            arms = person.told("engine", "status", code=1)["arms"]
            there = [arm for arm in arms if arm["kind"] == person.product]
            assert all(arm["trouble"] and not arm["version"] for arm in there)
        person.run("put", "-", "--id", "late", "--tags", "o'clock", input="A late wombat.\n")
        _answers_here(person, person.call)
        assert "late" in [hit["id"] for hit in person.told("search", "wombat")["hits"]]
        assert "cannot be reached" in person.call("engine", "status", code=1).err
        assert "engine-down" in person.call("engine", "push", "--json", code=1).err
    finally:
        person.server.start()
    person.run("put", "-", "--id", "later", input="A later wombat.\n")  # which is told behind it
    person.settle()
    person.push_all()
    assert person.drift() == 0
    has_words = "text" in [row.kind for row in person.rows]
    assert set(person.found("wombat", "--text", is_asked=has_words)) == {"late", "later"}
    assert person.found("wombat", "--tags", "o'clock") == ["late"]


def _answers_here(person: Person, ask: Callable[..., Ran]) -> None:
    answer = json.loads(ask("search", "kettle", "--json").out)
    assert answer["hits"][0]["id"] == "h0"
    assert all("answered from the local index" in one for one in answer["degraded"]["reasons"])


def test_a_wrong_key_is_said_and_told_to_nobody(person: Person) -> None:
    _moved(person)
    key = {VARIABLES[person.product]: WRONG}
    if person.product == "postgres":
        address = person.address.replace(KEY, WRONG)
        key = {"RETAIN_ENGINE_POSTGRES_URL": address}
    ran = person.call("engine", "status", env=key, code=1)
    assert "key" in ran.err or "password" in ran.err
    assert "refused" in ran.out
    assert "no answer" not in ran.out
    assert VARIABLES[person.product] in ran.err  # where to look
    assert person.told("search", "kettle", env=key)["hits"][0]["id"] == "h0"
    none = {VARIABLES[person.product]: ""}
    if person.product == "postgres":
        none = {"RETAIN_ENGINE_POSTGRES_URL": person.address.replace(f":{KEY}@", "@")}
    ran = person.call("engine", "status", env=none, code=1)
    assert "asks for a" in ran.err
    assert f"Set {VARIABLES[person.product]}" in ran.err
    person.push_all()
    assert person.found("kettle")[0] == "h0"


def test_a_key_that_cannot_be_sent_costs_neither_an_answer_nor_a_memory(person: Person) -> None:
    _moved(person)
    key = {VARIABLES[person.product]: f"{UNFIT}\N{SNOWMAN}"}
    if person.product == "postgres":
        key = {
            "PGPASSWORD": f"{UNFIT}\udcff",
            "RETAIN_ENGINE_POSTGRES_URL": person.address.replace(f":{KEY}@", "@"),
        }
    for words in (("engine", "status"), ("engine", "status", "--json")):
        ran = person.call(*words, env=key, code=1)
        assert VARIABLES[person.product] in ran.out + ran.err
    person.call("status", env=key)
    person.call("status", "--json", env=key)
    answer = person.told("search", "kettle", env=key)
    assert answer["hits"][0]["id"] == "h0"
    assert "answered from the local index" in str(answer["degraded"])
    ran = person.run("put", "-", "--id", "unfit", input="A fig.\n", env=key)
    person.settle()
    person.call("engine", "push", env=key, code=1)
    person.call("engine", "push")
    assert person.drift() == 0
    assert person.found("fig")[0] == "unfit"


def test_a_search_that_finds_nothing_is_an_answer_and_loads_no_more(person: Person) -> None:
    """A client takes longer to load than a person waits, and no server is to blame for that."""
    _moved(person)
    script = (
        "import sys\nfrom retain.cli.command import run\ncode = run(sys.argv[1:])\n"
        "print('qdrant_client' in sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    words = ("search", "kettle", "--tags", "nothing-has-this", "--json")
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env={**os.environ, **person.env, "RETAIN_ENGINE_PATIENCE_MS": "10000"},
        cwd=person.work, capture_output=True, timeout=PLENTY, check=True, encoding="utf-8",
    )  # fmt: skip
    answer = json.loads(done.stdout)
    assert (answer["hits"], answer["degraded"]) == ([], None)
    assert done.stderr.splitlines()[-1] == "False"
    assert not [arm for arm in person.told("engine", "status")["arms"] if arm["trouble"]]


def test_no_secret_is_shown_or_kept(person: Person) -> None:
    """Every other call here is looked through as well, by `Person`."""
    _moved(person)
    for words in (
        ("config", "list", "--json"),
        ("config", "get", f"engine.{person.product}.url"),
        ("config", "check"),
        ("status", "--json"),
        ("stats",),
        ("doctor", "--json"),
        ("engine",),
    ):
        person.call(*words)
    kept = person.home / ".retain" / "config.toml"
    if person.product in {"qdrant", "postgres"}:
        assert PASSWORD in kept.read_text("utf-8") or KEY in kept.read_text("utf-8")
    for path in person.home.rglob("*"):
        if path.is_file() and path != kept:
            data = path.read_bytes()
            assert not [secret for secret in SECRETS if secret.encode() in data], path


def test_damage_is_named_and_mended(person: Person) -> None:
    _moved(person)
    names = Names(person.told("engine", "status")["bank"])
    lost = ["notes/h0.md", "it's/c0.md"]
    for row in person.rows:
        arm = row.arm(person.server.address, person.server.key, names, 30.0)
        arm.remove(lost)
        arm.close()
    ran = person.call("engine", "verify", code=1)
    assert all(name in ran.out for name in lost)
    assert "engine repair" in ran.err
    found = person.told("engine", "verify", code=1)
    assert [set(one["missing"]) for one in found.values()] == [set(lost)] * len(person.rows)
    mended = person.told("engine", "repair")
    assert [one["drift"] for one in mended.values()] == [0] * len(person.rows)
    assert [one["mended"] for one in mended.values()] == [len(lost)] * len(person.rows)
    assert person.found("kettle")[0] == "h0"
    assert "nothing to mend" in person.call("engine", "repair").out


def _longer(asked: Asked) -> Reply:
    """A model whose vectors are twice as long."""
    found = [
        {"index": at, "embedding": [*Words().query(text).tolist()] * 2}
        for at, text in enumerate(asked.body["input"])
    ]
    return Reply(body=json.dumps({"object": "list", "data": found}))


@pytest.fixture
def nobody_sent_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is delivered by this test alone."""
    monkeypatch.setattr("retain.index.engines.sending.send_off", lambda *_args: None)


def test_another_model_is_told_anew_where_nobody_else_is_told_of_it(
    person: Person, nobody_sent_off: None
) -> None:
    if VECTOR not in [row.kind for row in person.rows]:
        pytest.skip("words need no model")
    _moved(person)
    own = {"RETAIN_ENGINE_BANKS": ""}
    with model_running(_longer) as longer:
        same, other = {"RETAIN_RECALL_MODEL": "others"}, {"RETAIN_RECALL_EMBEDDER": longer.base}
        for env, deliver in ((same, "push"), (other, "repair"), (own, "repair")):
            person.call("index", env=env)
            if env is other and person.product == "upstash":  # whose owner makes it
                ran = person.call("engine", "push", env=env, code=1)
                assert "Upstash console" in ran.err
                assert "Upstash console" in str(person.told("search", "kettle", env=env))
                continue
            person.call("engine", deliver, env=env)
            assert person.drift(env=env) == 0
            assert person.found("kettle", env=env)[0] == "h0"


def test_another_model_is_refused_where_machines_share_a_name(
    person: Person, nobody_sent_off: None
) -> None:
    if VECTOR not in [row.kind for row in person.rows]:
        pytest.skip("words need no model")
    _moved(person)
    team = {"RETAIN_ENGINE_BANKS": f"team={person.other}"}
    others = {**team, "RETAIN_RECALL_MODEL": "others"}
    person.call("engine", "push", bank=person.other, env=team)
    person.call("index", bank=person.other, env=others)
    ran = person.call("engine", "push", bank=person.other, env=others, code=1)
    begins_anew = f"`retain engine drop --from {person.product} --yes`"
    assert begins_anew in ran.err
    assert "The server said" not in ran.err
    assert begins_anew in str(person.told("search", "zeppelin", bank=person.other, env=others))
    drop = begins_anew.strip("`").split()[1:]
    person.call(*drop, bank=person.other, env=others)
    person.call("engine", "push", bank=person.other, env=others)
    assert person.drift(bank=person.other, env=others) == 0
    person.call(*drop, bank=person.other, env=others)
    person.call("index", bank=person.other)
    person.call("engine", "push", bank=person.other)


def _left(person: Person) -> list[Held]:
    """What the server holds of the bank, whatever the bank knows of it."""
    names = Names(person.told("engine")["bank"])
    found: list[Held] = []
    for row in person.rows:
        arm = row.arm(person.server.address, person.server.key, names, 30.0)
        found += arm.manifest()
        arm.close()
    return found


def test_a_bank_goes_back_and_leaves_nothing_behind(person: Person) -> None:
    _moved(person)
    assert "--yes" in person.call("engine", "drop", code=2).err
    assert "filled again" in person.call("engine", "drop", "--yes", bank=person.other).err
    assert "There was nothing" in person.call("engine", "drop", "--yes", bank=person.other).out
    assert person.drift() == 0  # what is another bank's stays
    person.call("engine", "migrate", "--to", "sqlite")
    person.server.kill()
    try:
        assert person.found("kettle", is_asked=False)[0] == "h0"
        assert person.told("engine", "status")["arms"] == [
            {**arm, "kind": "sqlite"} for arm in person.told("engine")["arms"]
        ]
    finally:
        person.server.start()
    assert "lives elsewhere" in person.call("engine", "verify", code=2).err
    # What lies there under another name is removed by that name, from any bank.
    name = person.told("engine")["bank"]
    assert "needs --from" in person.call("engine", "drop", "--name", name, code=2).err
    gone = person.told(
        *("engine", "drop", "--from", person.product, "--name", name, "--yes"), bank=person.other
    )
    assert gone["dropped"] == name
    assert gone["pieces"] >= len(HOSTILE)
    ran = person.call("engine", "drop", "--from", person.product, "--yes")
    assert "There was nothing" in ran.out
    assert "filled again" not in ran.err
    assert _left(person) == []
    _moved(person)  # and there again
    assert person.drift() == 0


def test_a_bank_is_dropped_also_where_no_model_is_set_any_more(person: Person) -> None:
    _moved(person)
    without = {"RETAIN_RECALL_EMBEDDER": "none"}
    drop = ("engine", "drop", "--from", person.product, "--yes")
    if person.product == "postgres":  # which words are still asked of
        assert person.told("engine", "drop", "--yes", env=without)["pieces"] >= 2 * len(HOSTILE)
        assert _left(person) == []
        person.call("engine", "push")
    person.call("engine", "migrate", "--to", "sqlite")
    assert person.told(*drop, env=without)["pieces"] >= len(person.rows) * len(HOSTILE)
    assert _left(person) == []
    assert "There was nothing" in person.call(*drop, env=without).out
    _moved(person)  # what was noted of the server went with it: it is told all again
    assert person.drift() == 0


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


def test_a_project_cannot_send_memories_anywhere(home: Path) -> None:
    bank = home / "work" / ".retain"
    with _counting() as (port, came):
        urls = "".join(
            f'[engine.{kind}]\nurl = "{scheme}://127.0.0.1:{port}"\n'
            for kind, scheme in (
                ("qdrant", "http"), ("upstash", "http"), ("meilisearch", "http"),
                ("postgres", "postgresql"),
            )
        )  # fmt: skip
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


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("qdrant.url", "127.0.0.1:6333", "begins with http:// or https://"),
        ("meilisearch.url", "localhost", "begins with http:// or https://"),
        ("upstash.url", "ftp://x", "begins with http:// or https://"),
        ("qdrant.url", "http://a:1,b:2", "begins with http:// or https://"),
        ("postgres.url", "http://127.0.0.1/x", "looks like postgresql://"),
        ("postgres.read_url", "127.0.0.1", "looks like postgresql://"),
    ],
)
def test_an_address_is_looked_at_when_it_is_set(
    home: Path, key: str, value: str, said: str
) -> None:
    ran = door.call("config", "set", f"engine.{key}", value, "--global")
    assert ran.code == 2
    assert said in ran.err
    for fine in ("", "http://127.0.0.1:1") if "postgres" not in key else ("", "host=x dbname=y"):
        assert door.call("config", "set", f"engine.{key}", fine, "--global").code == 0


def test_a_bank_that_is_named_and_is_not_there_is_told(home: Path) -> None:
    door.call("config", "set", "engine.banks", "team=~/wrong/.retain", "--global")
    assert "team is to be" in door.call("engine", "status").err


@pytest.mark.parametrize("product", PRODUCTS)
def test_a_client_that_is_missing_is_named_with_what_to_install(
    product: str, home: Path, model: Model
) -> None:
    script = (
        f"import sys; sys.modules[{CLIENTS[product]!r}] = None\n"
        "from retain.cli.command import run\nsys.exit(run(sys.argv[1:]))"
    )
    door.done("init")
    (home / "work" / ".retain" / "memories").mkdir(exist_ok=True)
    scheme = "postgresql" if product == "postgres" else "http"
    env = {
        **os.environ,
        "RETAIN_RECALL_EMBEDDER": model.base,
        "RETAIN_RECALL_MODEL": "words",
        # Nobody is there, which is not what a person has to hear first.
        f"RETAIN_ENGINE_{product.upper()}_URL": f"{scheme}://127.0.0.1:9",
    }
    done = subprocess.run(
        [sys.executable, "-c", script, "engine", "migrate", "--to", product],
        env=env, capture_output=True, timeout=PLENTY, check=False, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 1
    assert f"{product.capitalize()}'s client is not installed." in done.stderr
    assert f'pip install "retain-bank[{product}]"' in done.stderr
    assert f'pip install ".[{product}]"' in done.stderr
    assert "Nothing has moved" in done.stderr
    assert door.done("config", "get", "engine.vector") == "sqlite\n"
