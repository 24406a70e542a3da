"""What a bank is called on a server, and what is seen of a server's address."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retain.errors import ConfigError
from retain.index.engines.addresses import caution, fault, masked, place, secrets
from retain.index.engines.settings import is_name, own_name, parse_banks
from tests.cli import door


def test_banks_are_named_by_whole_paths(home: Path) -> None:
    assert parse_banks("") == []
    (home / "app/.retain/.retain").mkdir(parents=True)
    found = parse_banks(f"team = ~/work/.retain, other={home}/b , third=~/app")
    paths = [os.path.realpath(home / name) for name in ("work/.retain", "b", "app/.retain")]
    assert found == list(zip(["team", "other", "third"], paths, strict=True))
    assert parse_banks("team=~/app/.retain")[0][1] == paths[2]  # nor what lies within a bank


@pytest.mark.parametrize(
    "text, why",
    [
        ("team=.retain", "A path begins with"),
        ("team=", "A path begins with"),
        ("team", "A path begins with"),
        ("team=/a; other=/b", "a comma parts"),
        ("Te am=/a", "A name is of"),
        ("a-retain-b=/a", "A name is of"),
        ("one=/a, two=/a/", "is called one already"),
    ],
)
def test_what_names_no_bank_is_told(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match="not understood") as caught:
        parse_banks(text)
    assert why in caught.value.hint


def test_a_link_in_a_repository_gives_what_it_leads_to_no_name(home: Path) -> None:
    (home / ".retain").mkdir()
    (home / "app").mkdir()
    (home / "app/.retain").symlink_to(home / ".retain")
    own = str(home / ".retain")
    for text in ("team=~/app/.retain", "team=~/app"):
        assert own not in [path for _, path in parse_banks(text)]


def test_a_bank_without_a_name_has_one_of_its_own(tmp_path: Path) -> None:
    worlds = [{"XDG_STATE_HOME": str(tmp_path / name)} for name in ("one", "two")]
    names = [own_name(env, path) for env in worlds for path in ("/a", "/b", "/a")]
    assert names[0] == names[2] != names[1]
    assert len(set(names)) == 4  # no two machines share one
    assert all(map(is_name, names))


@pytest.mark.parametrize(
    "address, seen, where",
    [
        ("http://127.0.0.1:6333", "http://127.0.0.1:6333", "127.0.0.1:6333"),
        ("http://ada:pw@h:1/x/", "http://ada:***@h:1/x/", "h:1/x"),
        ("https://pw@h", "https://***@h", "h"),
        ("https://h/?token=pw&port=5", "https://h/?token=***&port=5", "h"),
        (
            "postgresql://ada:p%40pw@h1:1,h2:2/db?sslmode=require&password=pw",
            "postgresql://ada:***@h1:1,h2:2/db?sslmode=require&password=***",
            "h1:1,h2:2/db",
        ),
        ("http://a:1, http://ada:pw@b:2/x", "http://a:1,http://ada:***@b:2/x", "a:1,b:2/x"),
        ("", "", "nowhere"),
        *(
            (unclear, "***", "nowhere")
            for unclear in (
                "http://[", "bob:pw@h:7700", "http://bob:x@pw@h:1", "http://bob:hun/pw@h:9",
                "http://bob:1/pw@h:9", "postgresql://h/db?user=a@pw", "http://bob:pw#x@h",
                "http://bob:x?pw@h", "http:/bob:pw@h", "http://bob:pw", "host=h password=pw",
                "http://a:1,http://bob:x/pw@h",
            )
        ),
    ],
)  # fmt: skip
def test_an_address_is_seen_without_passwords(address: str, seen: str, where: str) -> None:
    assert masked(address) == seen
    assert place(address) == where
    assert "pw" not in seen + where


@pytest.mark.parametrize(
    "address, found",
    [
        ("http://h:1/path", set()),
        ("http://the-key@h", {"the-key", "dGhlLWtleTo="}),
        ("http://a:p%40ss@h", {"a:p%40ss", "p%40ss", "p@ss", "YTpwQHNz"}),
        ("http://h:1, http://h:2?token=t0ken&port=2", {"t0ken"}),
        ("unclear/pw@x", {"unclear/pw@x"}),
    ],
)
def test_what_a_server_must_not_repeat_is_known(address: str, found: set[str]) -> None:
    assert secrets(address) == found


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("qdrant.url", "127.0.0.1:6333", "begins with http:// or https://"),
        ("qdrant.url", "http://a:1,b:2", "begins with http:// or https://"),
        ("qdrant.url", "http://a:0", "a port between"),
        ("upstash.url", "ftp://x", "begins with http:// or https://"),
        ("meilisearch.url", "http://ada:pw@h", "neither a user nor a password"),
        ("postgres.url", "http://127.0.0.1/x", "looks like postgresql://"),
        ("postgres.url", "host=x dbname=y", "looks like postgresql://"),
        ("postgres.read_url", "127.0.0.1", "looks like postgresql://"),
    ],
)
def test_an_address_is_looked_at_when_it_is_set(
    home: Path, key: str, value: str, said: str
) -> None:
    ran = door.call("config", "set", f"engine.{key}", value, "--global")
    assert ran.code == 2
    assert said in ran.err
    assert "pw" not in ran.err
    fine = "postgresql://u:p@h1,h2/x" if "postgres" in key else "https://h:1/x"
    for other in ("", fine):
        assert door.call("config", "set", f"engine.{key}", other, "--global").code == 0
    assert fault("qdrant", "https://ada:pw@h:1,https://h:2") == ""


@pytest.mark.parametrize(
    "kind, address, advice",
    [
        ("qdrant", "http://127.0.0.1:6333", ""),
        ("qdrant", "http://localhost:6333", ""),
        ("qdrant", "http://[::1]:6333", ""),
        ("qdrant", "http://127.0.0.1:1, https://b.example.com", ""),
        ("postgres", "postgresql:///retain", ""),
        ("postgres", "postgresql://[::1]:5432/retain", ""),
        ("postgres", "postgresql:///retain?host=/run/postgresql", ""),
        ("postgres", "postgresql://ada@db.example.com/retain?sslmode=verify-full", ""),
        ("qdrant", "http://127.0.0.1:1,http://b.example.com:2", "https://"),
        ("meilisearch", "http://10.0.0.7:7700", "https://"),
        ("postgres", "postgresql://ada:pw@db.example.com/retain", "sslmode"),
        ("postgres", "postgresql://127.0.0.1,db.example.com/retain", "sslmode"),
        ("postgres", "postgresql://db.example.com/retain?sslmode=prefer", "sslmode"),
    ],
)
def test_a_way_that_others_may_read_along_is_told_of(kind: str, address: str, advice: str) -> None:
    said = caution(kind, address)
    assert advice in said
    assert bool(said) == bool(advice)
    assert "pw" not in said
