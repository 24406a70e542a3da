"""A table in a person's TOML file, put in and taken out with everything else left alone."""

from __future__ import annotations

import tomllib

import pytest

from retain.errors import Unreadable
from retain.hosts import tomledit

PATH = ("mcp_servers", "retain")
ENTRY = {"command": "retain", "args": ["mcp"]}
FULL = """\
# my settings
model = "gpt-5"   # the best
notify = [
  "a",  # one
]

[mcp_servers.other]
command = "x"

# about the profile
[profiles.fast]
text = \"\"\"
[mcp_servers.retain]
\"\"\"
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a remark\n",
        'model = "x"\n',
        FULL,
        FULL.replace("\n", "\r\n"),
        "[[a]]\nb = 1\n[[a]]\nb = 2\n",
        "[mcp_servers]\n",
        "[mcp_servers.retainer]\ncommand = 'x'\n",
        "mcp_servers.other.command = 'x'\n",
    ],
)
def test_put_in_and_taken_out_is_what_it_was(text: str) -> None:
    new = tomledit.insert(text, PATH, ENTRY)
    assert new.startswith(text)
    assert tomllib.loads(new)["mcp_servers"]["retain"] == ENTRY
    assert new.count("\r\n") in (0, new.count("\n"))
    assert tomledit.remove(new, PATH) == text


def test_last_line_without_an_end_gets_one() -> None:
    assert tomledit.insert("a = 1", PATH, {"b": 2}) == "a = 1\n\n[mcp_servers.retain]\nb = 2\n"


@pytest.mark.parametrize(
    "text",
    ["mcp_servers = {other = {command = 'x'}}  # all of them\n", "mcp_servers = {}\n"],
)
def test_servers_on_one_line_are_added_to(text: str) -> None:
    new = tomledit.insert(text, PATH, ENTRY)
    assert tomllib.loads(new)["mcp_servers"]["retain"] == ENTRY
    assert ("# all of them" in new) == ("# all of them" in text)
    gone = tomllib.loads(tomledit.remove(new, PATH)).get("mcp_servers", {})
    assert gone == tomllib.loads(text)["mcp_servers"]


def test_one_key_is_changed_where_it_stands() -> None:
    text = "[mcp_servers.retain]\n# why\ncommand = 'old'  # since May\nstartup_timeout_sec = 30\n"
    new = tomledit.insert(text, (*PATH, "command"), "new")
    assert new == text.replace("'old'", '"new"')
    assert tomledit.remove(new, (*PATH, "command")) == (
        "[mcp_servers.retain]\n# why\nstartup_timeout_sec = 30\n"
    )


def test_tables_below_go_too_and_comments_after_stay() -> None:
    text = (
        "[a]\nb = 1\n\n[mcp_servers.retain]\ncommand = 'retain'\n\n"
        "[mcp_servers.retain.tools.search]\napproval_mode = 'approve'\n\n"
        "# my other server\n[mcp_servers.other]\ncommand = 'x'\n"
    )
    assert tomledit.remove(text, PATH) == (
        "[a]\nb = 1\n\n# my other server\n[mcp_servers.other]\ncommand = 'x'\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "a = ",
        "a = 1\na = 2\n",
        "mcp_servers = 1\n",
        "[mcp_servers]\nretain = \n",
        "[[mcp_servers]]\na = 1\n",
        "a = " + "[" * 100_000,
        "{}",
    ],
    ids=lambda text: text[:20],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        tomledit.insert(text, PATH, ENTRY)


def test_what_is_not_there_is_not_taken_out() -> None:
    assert tomledit.remove("a = 1\n", PATH) == "a = 1\n"
    assert tomledit.remove("mcp_servers = 1\n", PATH) == "mcp_servers = 1\n"


SECRETS = """# mine
[mcp_servers.a]
command = "x" # stays
env = { K = "hunter2", N = 12345 }
http_headers.Authorization = "Bearer hunter2"
[mcp_servers.b.env]
K = '''
hunter2
'''
L = ["hunter2"]
"""


def test_what_is_shown_hides_what_servers_are_given() -> None:
    shown = tomledit.masked(SECRETS)
    assert "hunter2" not in shown
    assert "12345" not in shown
    assert shown.startswith('# mine\n[mcp_servers.a]\ncommand = "x" # stays\nenv = { K = "***"')
    plain = '\ufeffmodel = "x" # best\r\n[a.b]\r\nc = 1\r\n'
    assert tomledit.masked(plain) == plain.removeprefix("\ufeff")


def test_text_that_cannot_be_masked_is_shown_without_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tomledit, "_hide", lambda _, **__: None)
    shown = tomledit.masked(SECRETS)
    assert "hunter2" not in shown
    assert "12345" not in shown
    assert "[mcp_servers.a]\ncommand = ***\n" in shown
