"""Hostile text takes every reader of text time in proportion to its length."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from retain.text.chunks import split_chunks
from retain.text.dates import find_dates, remove_relative
from retain.text.links import find_links, normalize_target
from retain.text.sanitize import strip_invisible, visible, visible_json
from retain.text.secrets import RULES, redact, redact_visible
from retain.text.tokens import is_question, query, words
from tests.growth import grows_linearly

LENGTH = 60_000
TODAY = date(2026, 11, 18)
KEY_LINE = "-----BEGIN PRIVATE" + " KEY-----"
UNITS = (
    # What every text may hold
    *"a A 0 aB aB3 aB3/ aB3-_ a. A_ a- é é- 漢 字 。 🎉 ? = - _ . / \\ \" ' ` @ : # [ ] |".split(),
    " ", "\n", "\r\n", "\t", "\x00", "\x0c", "a ", "a\n", "a\n\n", "Sentence. ", "\u200d",
    "\u0316\u0300", "\u0e38\u0e48", "\u1112\u1161\u11ab", "ﷺ", "ﾞ", "a\u200d", "\U000e0041",
    # Markdown, speakers and links
    "# ", "# a\n", "## a\n# b\n", "```\n", "~~~ `\n", "> ```\n", "a\n==\n", "--\n", "- ", "- - ",
    "1. ", ".'", "**", "A: ", "Bob: \n", "Bob: b\n", "**Bob:** b\n", "- **Bob:** b\n", "**Bob:**\n",
    "10:32 ", "[1", "[[", "]]", "[[[", "[[a", "[[a|", "[[a\n", "[[a]]", "[[a]] need to ",
    "fix [[a]] ", ". [[a]]", "` `` ``` [[a]] ", "`[[x]]` ", "- `[[a]]\n",
    "[[" + "a/../" * 100 + "]]",
    # Dates and names
    "1 ", "8 of ", "May ", "May" + " " * 500, "8" + " " * 500, "last ", "in the ", "a couple of ",
    "2023-05-08 ", "2026-11-15T", "in" + " " * 500 + "the", "the day ", "v1.", "n't", "c++", ".net",
    # Secrets
    *"://a: ://a:b@ sk- eyJ. -eyJ AKIA SG. 1:A MTa. key- password: tokens::".split(),
    "password=a1",
    *"пароль: aws_secret heroku_key authorization: -----END [REDACTED: ;base64,".split(),
    "iVBORw0KGgo", "sha512-",
    "password=password=token:secret:", 'password="', "api_key: a1b2c3 ", "token is ", "a:5432:b:c:",
    "password for ", "curl -u a:", "mysql -p", "| password |\n|---|\n", "passphrase: a b c ",
    "4111 ",
    "|password|x1|\n|---|---|\n|hunt3r2x|y|\n", "user,password\nbob,hunt3r2x\n", "bearer ",
    "seed phrase: abandon ", "machine a login ", "--token ", KEY_LINE, KEY_LINE + "\\n",
    "-----BEGIN CERTIFICATE-----\n", "ssh-rsa AAAA", "AC" + "0" * 32 + " ", "a1" * 40 + "\n",
)  # fmt: skip


def ask(text: str) -> None:
    question = f"{text} last week"  # so that there is something to look for
    remove_relative(question, find_dates(question, TODAY))


READERS: tuple[Callable[[str], object], ...] = (
    split_chunks, find_links, normalize_target, ask, words, query, is_question, redact,
    redact_visible, strip_invisible, visible, visible_json,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_every_reader_takes_linear_time(unit: str) -> None:
    text = (unit * LENGTH)[:LENGTH]
    for read in READERS:
        assert grows_linearly(read, text), read.__name__
    assert grows_linearly(lambda part: split_chunks(f"# T\n\nAnn: {part}\nBob: {part}"), text)
    assert grows_linearly(lambda part: find_links(f"[[{part}]] `{part}"), text)
    assert grows_linearly(lambda part: words(f"ก{part}"), text)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind or rule.words[0])
def test_every_rule_of_secrets_takes_linear_time(rule: tuple[str, tuple[str, ...]]) -> None:
    for word in rule[1]:
        assert grows_linearly(redact, (f"{word} " * LENGTH)[:LENGTH]), word
        assert grows_linearly(redact, (f"{word}a1" * LENGTH)[:LENGTH]), word
