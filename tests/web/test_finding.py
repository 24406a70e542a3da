"""What a search shows: what fits, without the tail that is only near, and how it was scored."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import unescape

import pytest
from playwright.sync_api import Page, expect
from starlette.datastructures import QueryParams

from retain.web.search_state import sought
from tests.web import stage
from tests.web.stage import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Notes that have little to do with each other; by meaning, all come near any question."""
    with stage.started(tmp_path_factory.mktemp("finding")) as server:
        server.store("# Sessions live in Redis\n\nThe shop keeps them for a day.", id="redis")
        server.store("# Staging answers on port 8443\n\nBehind the proxy.", id="port", tags=["net"])
        server.store("# Grandmother and Valkey\n\nShe never met it.", id="both", tags=["old"])
        server.store("# Valkey is a fork\n\nOf a store of keys.", id="fork", tags=["net"])
        for number, about in enumerate(("bread", "bees", "roses", "trains", "paint", "violins")):
            text = f"# Of {about}\n\nWhat grandmother knew about {about}."
            server.store(text, id=f"note-{number}", tags=["old"])
        yield server


def test_a_search_shows_what_has_the_word_and_the_rest_behind_a_link(served: Served) -> None:
    text = served.get("/", q="redis").text
    assert re.findall(r'data-id="([^"]+)"', text) == ["redis"]
    assert 'data-said="1 found.' in text
    assert '"tag:old"' not in text  # counted is what is found, and no more
    (link,) = re.findall(r'href="([^"]+near=1[^"]*)"', text)
    assert len(re.findall(r"data-item", served.get(unescape(link)).text)) > 1
    # Programs are given all of it, with the scores, and cut where they like.
    assert served.api("GET", "/search", q="redis")["total"] > 1


def test_counts_and_hits_agree_when_something_is_chosen(served: Served) -> None:
    text = served.get("/", q="valkey", tag="old").text
    assert re.findall(r'data-id="([^"]+)"', text) == ["both"]
    assert re.search(r'data-focus="tag:old"[^>]*>.*?number">1<', text)


def test_an_exact_word_is_never_said_not_to_fit(served: Served) -> None:
    text = served.get("/", q="8443").text
    assert re.findall(r'data-id="([^"]+)"', text)[0] == "port"
    assert "Nothing fits" not in text


def test_the_parts_of_a_score_add_up(served: Served) -> None:
    text = served.get("/", q="redis sessions").text
    first = text[: text.index("</dl>")]
    parts = sum(map(float, re.findall(r'number">([+-][\d.]+)<', first)))
    (told,) = re.findall(r"<dt>sum</dt>.*?>([\d.]+), shown as ([\d.]+)<", first)
    factors = [float(one) for one in re.findall(r"\u00d7 ([\d.]+)", first)]
    assert parts * math.prod(factors) == pytest.approx(float(told[0]), abs=0.03)
    assert f'score number">{told[1]}<' in first


def test_a_list_and_a_search_tell_the_same_date_and_an_undone_step_changes_none(
    served: Served,
) -> None:
    old = "2020-05-06T07:08:09Z"
    dates = f"created_at: 2019-01-01T00:00:00Z\nupdated_at: {old}"
    head = f"---\nid: aged\ntitle: Marzipan\n{dates}\n---\n"
    file = served.bank / "memories" / "aged.md"
    file.write_text(f"{head}\nText.\n", encoding="utf-8")  # a file of this very moment
    listed = served.get("/").text
    assert re.findall(r'data-id="([^"]+)"', listed)[-1] == "aged"
    for text in (listed, served.get("/", q="marzipan").text):
        row = text[text.index('data-id="aged"') :]
        assert 'title="Changed 2020-05-06T07:08:09+00:00"' in row[: row.index("</article>")]


@pytest.mark.slow
def test_a_phone_has_colours_and_keys_on_the_page_about_health(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/health")
    page.get_by_role("button", name="Theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", re.compile("dark|light"))
    page.get_by_role("button", name="Keys").click()
    expect(page.locator("#help")).to_be_visible()


@pytest.mark.slow
def test_each_step_says_what_it_does_before_it_is_taken(page: Page) -> None:
    page.goto("/memory/here/memories/redis")
    for name, said in (("Archive", "ranks lower"), ("Retire", "no longer in force")):
        page.locator(f"[data-act={name.lower()}]").first.evaluate("one => one.click()")
        expect(page.locator("dialog[open]")).to_contain_text(said)
        page.get_by_role("button", name="Cancel").click()


def test_a_page_is_a_number_within_reason() -> None:
    for given, page in (
        ("", 1), ("0", 1), ("1", 1), ("7", 7), ("007", 7), ("x", 1), ("-1", 1), ("1.5", 1),
        ("\u0663", 1), ("999999", 999_999), ("1000000", 1_000_000), ("1" * 5_000, 1_000_000),
        ("0" * 5_000, 1), ("0" * 5_000 + "7", 7),
    ):  # fmt: skip
        assert sought(QueryParams({"page": given})).page == page, given[:20]


@pytest.mark.slow
def test_keys_lead_from_the_search_to_a_hit_and_into_its_text(page: Page) -> None:
    page.goto("/timeline")
    page.keyboard.press("Control+k")  # a page without a search of its own leads to the list's
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("redis")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Sessions live in Redis")).to_be_focused()
    page.keyboard.press("Control+k")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("/memory/here/memories/redis/edit$"))


@pytest.mark.slow
def test_colours_are_others_and_then_the_systems_again(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto("/")
    theme = page.get_by_role("button", name="Theme")
    theme.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    theme.click()
    expect(page.locator(".toast").last).to_contain_text("your system's")
    page.reload()
    expect(page.locator("html")).not_to_have_attribute("data-theme", re.compile("."))


@pytest.mark.slow
def test_what_a_search_says_beside_the_list_moves_no_facet(page: Page) -> None:
    page.goto("/")
    first = page.locator("#facets h2").first
    before = first.bounding_box()
    page.locator("#q").fill("grandmother")
    expect(page.locator("#said")).to_contain_text("found")
    assert first.bounding_box() == before
