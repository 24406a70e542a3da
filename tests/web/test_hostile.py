"""Texts that would like to be programs, in every field that a page shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Page
from starlette.routing import Route

from retain.web.app import ROUTES
from tests.web import stage
from tests.web.stage import Served, Trouble

pytestmark = pytest.mark.slow

# What pages may be asked with; one that they do not know must not harm them either.
QUERY = ("q", "tag", "collection", "type", "status", "scope", "since", "until", "sort", "page")

SCRIPT = "window.pwned=1;alert(1)"
PAYLOADS = (
    f"<script>{SCRIPT}</script>",
    f"<img src=x onerror={SCRIPT}>",
    f'"><img src=x onerror="{SCRIPT}">',
    f"'><svg onload='{SCRIPT}'>",
    f"</title></textarea></script><script>{SCRIPT}</script>",
    f"{{{{{SCRIPT}}}}} {{% raw %}} ${{{SCRIPT}}}",
)
LINKS = (
    f"javascript:{SCRIPT}",
    f"JaVaScRiPt:{SCRIPT}",
    f"java&#x09;script:{SCRIPT}",
    f"javascript&colon;{SCRIPT}",
    f"&#106;avascript:{SCRIPT}",
    f"%6aavascript:{SCRIPT}",
    f"\\x01javascript:{SCRIPT}",
    f"vbscript:{SCRIPT}",
    "data:text/html,<script>alert(1)</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "blob:http://x/y",
    "//evil.example/x",
    "\\\\\\\\evil.example/x",
    "file:///etc/passwd",
)


def hostile_text() -> str:
    links = [
        f"[{payload}]({link} '{payload}') <{link}> ![{payload}]({link}) [r{number}]"
        for number, link in enumerate(LINKS)
        for payload in PAYLOADS[:2]
    ]
    references = [f"[r{number}]: {link} '{PAYLOADS[2]}'" for number, link in enumerate(LINKS)]
    fences = [f"```{payload}\n{payload}\n```" for payload in PAYLOADS]
    fences += [f"```html {payload}\n{payload}\n```" for payload in PAYLOADS]
    table = "\n".join(["| a | b |", "|---|---|", *(f"| {one} | `{one}` |" for one in PAYLOADS)])
    wiki = [f"[[{payload}]] [[x|{payload}]] [[{link}]]" for payload in PAYLOADS for link in LINKS]
    headings = [f"# {payload}\n\n> {payload}\n\n- {payload}" for payload in PAYLOADS]
    return "\n\n".join(
        [
            *PAYLOADS,
            *links,
            *fences,
            table,
            *wiki,
            *headings,
            *references,
            "![x](http://e.example/x)",
        ]
    )


def plain(payload: str) -> str:
    """The same as a name of a file can be."""
    return re.sub(r"[/\0]", "", payload)


def free(payload: str) -> dict[str, Any]:
    return {
        "title": payload,
        "type": payload,
        "tags": list(PAYLOADS),
        "source": payload,
        "author": payload,
        "created_by": payload,
        "created_at": payload,
        "status": "active",
        "description": payload,
        "files": [payload],
        "extra": {"deep": [payload]},
    }


# Each says where it stands, so that the page can be asked for every one of them.
def typed(payload: str) -> dict[str, Any]:
    return {
        "title": f"title {payload}",
        "type": "decision",
        "tags": [f"tag {payload}"],
        "status": "retired",
        "retired_at": "2026-11-01T08:00:00Z",
        "retired_reason": f"reason {payload}",
        "superseded_by": f"successor {payload}",
        "context": f"context {payload}",
        "evidence": [f"evidence {payload}"],
        "content": {
            "decision": f"decided {payload}",
            "rationale": [f"because {payload}"],
            "alternatives": [{"option": f"else {payload}"}],
            "deep": {"deeper": f"deep {payload}"},
            payload: f"keyed {payload}",
        },
    }


TYPED = "title tag reason successor context evidence decided because else deep keyed".split()
ASKED = "decided because else".split()  # of these, what the form of a decision asks for


def record(payload: str) -> dict[str, Any]:
    """The same as a program writes it."""
    head = typed(payload)
    kept = {"category": head.pop("type"), "record_status": head.pop("status")}
    return {"schema_version": "1.0", **kept, **head}


def frontmatter(fields: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(name)}: {json.dumps(value)}\n" for name, value in fields.items())


def hostile_bank(bank: Path) -> list[tuple[str, str]]:
    """Memories that are hostile in every field that a file can have; their addresses."""
    found = []
    for number, payload in enumerate(PAYLOADS):
        note = f"---\n{frontmatter(free(payload))}---\n{hostile_text()}"
        decision = f"---\n{frontmatter(typed(payload))}---\n\n{payload}\n"
        name = plain(payload)
        for collection, file, text in (
            ("memories", f"plain-{number}.md", note),
            (name[:40], f"{name[:60]}.md", note),  # its collection and its name are hostile as well
            (f".trash/gone {name[:40]}", f"gone {name[:60]}_20261101_080000.md", "Gone."),
            ("decisions", f"typed-{number}.md", decision),
            (
                "decisions",
                f"record-{number}.json",
                json.dumps({"id": f"record-{number}", **record(payload)}),
            ),
        ):
            folder = bank / collection
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
            if not collection.startswith(".trash"):
                found.append((collection, file.rpartition(".")[0]))
    return found


def chat(number: int, payload: str) -> dict[str, Any]:
    when = "2026-11-01T08:00:00Z"
    return {
        "id": f"session_20261101_{number:03}",
        "title": f"title {payload}",
        "created_at": when,
        "updated_at": when,
        "tags": [f"tag {payload}"],
        "summary": f"summary {payload}",
        "model": f"model {payload}",
        "messages": [{"role": "user", "content": f"message {payload}", "timestamp": when}],
    }


class Hostile:
    """The memories of the bank, known once it is filled."""

    addresses: list[tuple[str, str]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A bank in which everything that anyone can name or write is hostile."""
    home = tmp_path_factory.mktemp("hostile")
    Hostile.addresses = hostile_bank(home / ".retain")
    with stage.started(home) as server:
        server.run("sync", "--no-vectors")
        for number, payload in enumerate(PAYLOADS):
            changed = {"text": f"now {payload}"}
            server.api("PUT", f"/memories/here/memories/plain-{number}", changed)
            kept = urlencode({"q": payload})
            server.api("PUT", f"/searches/{quote(plain(payload)[:80], safe='')}", {"query": kept})
            file = home / f"chat-{number}.json"
            file.write_text(json.dumps(chat(number, payload)), encoding="utf-8")
            server.run("sessions", "import", str(file))
        yield server


INERT = """() => {
  const wrong = [];
  if (window.pwned) wrong.push("a script ran");
  for (const one of document.querySelectorAll("*")) {
    for (const { name, value } of one.attributes) {
      if (/^on/i.test(name)) wrong.push(`${one.tagName} ${name}`);
      if (name === "style") wrong.push(`${one.tagName} style`);
      if (["href", "src", "action", "formaction", "data", "xlink:href"].includes(name)) {
        const { protocol } = new URL(value, document.baseURI);
        if (!["http:", "https:", "mailto:"].includes(protocol)) wrong.push(`${name}=${value}`);
      }
    }
    if (["IFRAME", "OBJECT", "EMBED", "BASE", "META"].includes(one.tagName)
        && !(one.tagName === "META" && one.closest("head"))) wrong.push(one.tagName);
    if (one.tagName === "SCRIPT" && new URL(one.src || "none:", location).origin !== location.origin
        && one.type !== "application/json") wrong.push("a script of another's");
    if (one.tagName === "IMG" && new URL(one.src, location).origin !== location.origin)
      wrong.push(`a picture from elsewhere: ${one.src}`);
  }
  return wrong;
}"""


def page_paths(addresses: list[tuple[str, str]]) -> list[str]:
    """Every page there is, for every hostile memory and with hostile questions."""
    found = []
    for route in (*ROUTES, Route("/enter", lambda _request: None)):
        parts = re.findall(r"{(\w+)(?::\w+)?}", route.path)
        if not parts:
            found.append(route.path)
            found += [
                f"{route.path}?{urlencode(dict.fromkeys(QUERY, payload))}" for payload in PAYLOADS
            ]
            found += [f"{route.path}?{urlencode({'q': payload})}" for payload in PAYLOADS]
        elif "collection" in parts and "id" in parts:
            found += [
                filled(route.path, {"scope": "here", "collection": collection, "id": name})
                for collection, name in addresses
            ]
        else:
            found += [filled(route.path, dict.fromkeys(parts, payload)) for payload in PAYLOADS]
            chats = [chat(number, "")["id"] for number in range(len(PAYLOADS))]
            if "/sessions/" in route.path and not route.path.endswith("/export"):
                found += [filled(route.path, {"scope": "here", "id": one}) for one in chats]
    return found


def filled(path: str, values: Mapping[str, str]) -> str:
    return re.sub(
        r"{(\w+)(?::\w+)?}", lambda it: quote(values.get(it[1], PAYLOADS[2]), safe=""), path
    )


def looked_at(page: Page, trouble: Trouble, path: str) -> str:
    """All that a page says, after nothing of it has become a program."""
    answer = page.goto(path, wait_until="load")
    assert answer is not None
    assert answer.status < 500, path
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert page.evaluate(INERT) == [], path
    assert trouble.seen == [], path
    return str(page.evaluate("document.body.textContent"))


@pytest.mark.timeout(900)
def test_hostile_texts_are_inert_on_every_page(page: Page, trouble: Trouble) -> None:
    trouble.expects("the server responded with a status of 4")
    for path in page_paths(Hostile.addresses):
        looked_at(page, trouble, path)


def test_hostile_words_are_shown_as_they_are_written(page: Page, trouble: Trouble) -> None:
    """What is shown in pieces would be no proof: the words have to be there, in each place."""
    missing = []
    for number, payload in enumerate(PAYLOADS):
        name = plain(payload)
        session = f"/sessions/here/{chat(number, payload)['id']}"
        for path, words in (
            (f"/memory/here/decisions/typed-{number}", [f"{one} {payload}" for one in TYPED]),
            (f"/memory/here/decisions/record-{number}", [f"{one} {payload}" for one in TYPED]),
            (f"/memory/here/decisions/typed-{number}/edit", [f"{one} {payload}" for one in ASKED]),
            (f"/memory/here/decisions/record-{number}/edit", [f"{one} {payload}" for one in ASKED]),
            (f"/memory/here/memories/plain-{number}/history", [f"now {payload}", payload]),
            ("/", [name[:40], name[:80]]),  # a collection, a kept search
            ("/health", [f"gone {name[:40]}/gone {name[:60]}"]),
            ("/sessions", [f"title {payload}", f"tag {payload}"]),
            (session, [f"{one} {payload}" for one in "title tag summary model message".split()]),
        ):
            said = looked_at(page, trouble, path)
            missing += [f"{path}: {one}" for one in words if one not in said]
    assert not missing, "\n".join(missing)
