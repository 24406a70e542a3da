"""Which banks a server shows: those that were asked for, whatever an address says (S21)."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any, ClassVar

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from retain.app import App
from retain.errors import NotFound
from retain.web import sessions as pages
from retain.web.app import build
from retain.web.auth import Auth
from retain.web.bank_pool import BankPool
from retain.web.checkup import Checkup
from retain.web.live import Live

pytestmark = pytest.mark.slow

PARTS = {"scope": "global", "collection": "memories", "id": "hello", "version": "1"}
# What each operation with a body would do to the memory, were it allowed to.
BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/memories/global": {"text": "# Intruder"},
    "/api/v1/memories/global/memories/hello": {"text": "# Changed"},
    "/api/v1/memories/global/memories/hello/source": {"source": "# Changed", "expect": "0" * 64},
    "/api/v1/memories/global/memories/hello/tags": {"add": ["intruder"]},
    "/api/v1/memories/global/memories/hello/move": {"id": "intruder"},
    "/api/v1/memories/global/memories/hello/supersede": {"by": "memories/other"},
    "/api/v1/merges/global": {
        "sources": ["memories/hello", "memories/other"],
        "id": "intruder",
        "text": "# Intruder",
    },
    "/api/v1/trash/global": {"name": "hello.md"},
}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's own bank, with two memories that no other bank's page may show."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    root = Path(App(everywhere=True).location.root)
    (root / "memories").mkdir(parents=True)
    for name in ("hello", "other"):
        text = "A kumquat that is mine alone.\n"
        (root / "memories" / f"{name}.md").write_text(text, encoding="utf-8")
    return root


def served(**where: Any) -> tuple[BankPool, Starlette]:
    banks = BankPool(lambda own: App(everywhere=True) if own else App(**where))
    live = Live(banks)
    checkup = Checkup(lambda _own: App(**where), live.tell)
    return banks, build(banks, live, Auth("a-token-of-at-least-16", 1), checkup)


def asked(app: Starlette, *calls: tuple[str, str, Any]) -> list[httpx2.Response]:
    async def ask() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            return [await http.request(method, path, json=body) for method, path, body in calls]

    return anyio.run(ask)


def scoped(app: Starlette) -> list[tuple[str, str, Any]]:
    """Every method and address with the name of a bank in it, for the person's own."""
    found = []
    for route in app.routes:
        if isinstance(route, Route) and "{scope}" in route.path:
            path = re.sub(r"{(\w+)(?::\w+)?}", lambda it: PARTS.get(it[1], "1"), route.path)
            for method in sorted(route.methods or ()):
                body = BODIES.get(path, {}) if method in ("POST", "PUT", "PATCH") else None
                found.append((method, path, body))
    return found


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(root)): one.read_bytes()
        for one in sorted(root.rglob("*"))
        if one.is_file() and ".local" not in one.parts
    }


def refused(where: dict[str, Any], own: Path) -> None:
    """No address leads from this bank to the person's own."""
    banks, app = served(**where)
    here = asked(app, ("POST", "/api/v1/memories/here", {"text": "# Here", "id": "here"}))
    assert here[0].status_code == 200, here[0].text
    before = tree(own)
    calls = scoped(app)
    assert len(calls) > 30
    page = here[0].json()["page"].replace("/memory/", "/api/v1/memories/")
    calls.append(("POST", f"{page}/move", {"scope": "global"}))
    calls.append(("POST", "/api/v1/chats", {"scope": "global"}))
    calls.append(("GET", "/chat/1?bank=global", None))
    wrong = []
    for (method, path, body), answer in zip(calls, asked(app, *calls), strict=True):
        # A body that is no good for an operation is told before any bank is looked for.
        is_refused = answer.status_code == 404 or (body == {} and answer.status_code == 400)
        if not is_refused or "kumquat" in answer.text:
            wrong.append(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
    assert not wrong, "\n".join(wrong)
    assert tree(own) == before
    (told,) = asked(app, ("GET", "/api/v1/memories/global/memories/hello", None))
    assert told.json()["error"]["code"] == "not-found"
    assert asked(app, ("GET", "/", None))[0].status_code == 200
    banks.close()


def test_a_bank_that_was_asked_for_is_shown_alone(own: Path, tmp_path: Path) -> None:
    where: dict[str, Any] = {"bank": str(tmp_path / "elsewhere")}
    App(**where).init()
    refused(where, own)


def test_a_project_that_was_asked_for_is_shown_alone(own: Path, tmp_path: Path) -> None:
    App(cwd=str(tmp_path)).init()
    refused({"local": True, "cwd": str(tmp_path)}, own)


def test_no_name_means_another_bank_than_the_pages_do(own: Path, tmp_path: Path) -> None:
    banks, _ = served(bank=str(tmp_path / "elsewhere"))
    for find in (banks.app, banks.another):
        with pytest.raises(NotFound):
            find("global")
        with pytest.raises(NotFound):
            find("nowhere")
    with pytest.raises(NotFound):
        anyio.run(banks.settled, "global")
    banks.close()


@pytest.mark.parametrize("is_named", [False, True])
def test_where_ones_own_bank_is_the_one_shown_both_names_mean_it(own: Path, is_named: bool) -> None:
    banks, app = served(**({"bank": str(own)} if is_named else {"everywhere": True}))
    assert banks.app("global") is banks.app("here")
    assert anyio.run(banks.settled, "global") == "here"
    (found,) = asked(app, ("GET", "/api/v1/memories/global/memories/hello", None))
    assert found.status_code == 200
    banks.close()


class Filler:
    """What makes a bank's vectors, as far as it is told to."""

    woken: ClassVar[list[App]] = []
    made: ClassVar[list[App]] = []

    def __init__(self, app: App, _failed: object) -> None:
        self._app = app
        self.made.append(app)

    def notice(self) -> None:
        self.woken.append(self._app)

    def end(self) -> None:
        pass


@pytest.fixture
def filler(monkeypatch: pytest.MonkeyPatch) -> type[Filler]:
    monkeypatch.setattr("retain.app.worker.EmbeddingWorker", Filler)
    Filler.woken.clear()
    Filler.made.clear()
    return Filler


def test_a_bank_with_two_names_has_its_vectors_made_once(own: Path, filler: type[Filler]) -> None:
    banks, _ = served(everywhere=True)
    for scope in ("here", "global"):
        banks.at_once(lambda app: app.location, scope)
    assert len(filler.made) == 1
    banks.close()


def test_a_memory_that_goes_to_the_other_bank_has_its_vectors_made_there(
    own: Path, tmp_path: Path, filler: type[Filler]
) -> None:
    App(cwd=str(tmp_path)).init()
    banks, app = served(cwd=str(tmp_path))
    asked(app, ("POST", "/api/v1/memories/here", {"text": "# Here", "id": "mine"}))
    filler.woken.clear()
    move = ("POST", "/api/v1/memories/here/memories/mine/move", {"scope": "global"})
    assert asked(app, move)[0].status_code == 200
    assert set(filler.woken) == {banks.app("here"), banks.app("global")}
    banks.close()


def test_more_leads_to_every_chat_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_PAGE", 2)
    monkeypatch.setattr(pages, "_MOST", 4)
    banks, app = served(everywhere=True)
    made = set()
    for number in range(11):
        session = banks.app().sessions.create()
        banks.app().sessions.add(session.id, "user", f"message {number}")
        made.add(session.id)
    seen: set[str] = set()

    path = "/sessions"
    for _ in range(20):
        text = asked(app, ("GET", path, None))[0].text
        found = set(re.findall(r'<h2 dir="auto"><a href="/sessions/here/([^"]+)"', text))
        assert 0 < len(found) <= 4
        seen |= found
        more = re.search(r'href="(/sessions\?[^"]+)">More<', text)
        if more is None:
            break
        path = unescape(more[1])
    assert more is None
    assert '">Newest<' in text
    banks.close()
    assert seen == made
