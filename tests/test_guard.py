"""Secrets are replaced, everything else is kept, and stored text cannot act on its reader."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from retain.errors import LimitExceeded
from retain.guard import secrets as guard
from retain.guard.characters import strip_invisible, visible, visible_json
from retain.guard.secrets import KINDS, redact, redact_value
from tests.growth import grows_linearly
from tests.guard_samples import CONTEXTUAL, HARMLESS, TOKENS, chars, private_key

SURROUNDINGS = {
    "alone": "@@",
    "sentence": "We use @@ for the build.",
    "line end": "first line\nuse @@\nlast line",
    "windows line end": "use @@\r\nnext",
    "double quotes": 'x = "@@"',
    "single quotes": "x = '@@'",
    "backticks": "run `@@` now",
    "fence": "```sh\nexport X=@@\n```",
    "parentheses": "(see @@)",
    "comma": "a,@@,b",
    "json": '{"a": "@@", "b": 1}',
    "json text with escaped newlines": '{"a": "one\\n@@\\ntwo"}',
    "yaml": "a: @@\nb: 1",
    "yaml list": "- @@\n- b",
    "json text in ascii": '{"a": "one\\u4e2d@@\\u6587two"}',
    "cjk": "令牌是@@。请保密",
    "cjk glued": "使用@@进行测试",
    "bold": "**@@**",
    "url query": "curl https://api.test/v1?x=1 -d @@",
}


@pytest.mark.parametrize("kind,token", TOKENS, ids=[kind for kind, _ in TOKENS])
def test_token_is_replaced_and_its_surroundings_are_kept(kind: str, token: str) -> None:
    found = {name: redact(text.replace("@@", token)) for name, text in SURROUNDINGS.items()}
    wanted = {
        name: (text.replace("@@", f"[REDACTED:{kind}]"), (kind,))
        for name, text in SURROUNDINGS.items()
    }
    assert {name: (one.text, one.kinds) for name, one in found.items()} == wanted


@pytest.mark.parametrize(
    "kind,secret,context", CONTEXTUAL, ids=[context for _, _, context in CONTEXTUAL]
)
def test_secret_known_by_its_context_is_replaced(kind: str, secret: str, context: str) -> None:
    result = redact(context.replace("@@", secret, 1))
    assert result.text == context.replace("@@", f"[REDACTED:{kind}]", 1)
    assert result.kinds == (kind,)


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_not_touched(text: str) -> None:
    assert redact(text) == (text, ())
    assert redact(f"例えば{text}\n") == (f"例えば{text}\n", ())


def test_every_kind_has_a_sample() -> None:
    sampled = {kind for kind, *_ in (*TOKENS, *CONTEXTUAL)} | {"private-key"}
    assert sampled == set(KINDS)
    assert len(KINDS) >= 30


@pytest.mark.parametrize("label", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_private_key_block_is_replaced_whole(label: str) -> None:
    key = private_key(label)
    assert redact(f"before\n{key}\nafter") == (
        "before\n[REDACTED:private-key]\nafter",
        ("private-key",),
    )


def test_private_key_without_end_line_is_replaced_up_to_the_prose() -> None:
    key = private_key().rpartition("\n")[0]
    assert redact(key).text == "[REDACTED:private-key]"
    long_lines = key.rpartition("\n")[0]
    assert redact(f"{long_lines}\n\nNext paragraph.").text == (
        "[REDACTED:private-key]\n\nNext paragraph."
    )


def test_private_key_with_encryption_headers_is_replaced() -> None:
    head, _, rest = private_key().partition("\n")
    headers = f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{chars('0123456789ABCDEF', 32)}\n"
    assert redact(f"{head}\n{headers}\n{rest}").text == "[REDACTED:private-key]"


def test_pgp_private_key_block_is_replaced() -> None:
    key = private_key("PGP ").replace("KEY-----", "KEY BLOCK-----")
    assert redact(key).text == "[REDACTED:private-key]"


def test_private_key_inside_json_leaves_valid_json() -> None:
    text = json.dumps({"private_key": private_key() + "\n", "client": "x"})
    assert json.loads(redact(text).text) == {
        "private_key": "[REDACTED:private-key]\n",
        "client": "x",
    }


def test_private_key_inside_yaml_leaves_valid_yaml() -> None:
    block = "\n".join("  " + line for line in private_key().split("\n"))
    for end in (block, block.rpartition("\n")[0].rpartition("\n")[0]):
        parsed = yaml.safe_load(redact(f"key: |\n{end}\nother: 1\n").text)
        assert parsed == {"key": "[REDACTED:private-key]\n", "other": 1}


def test_kinds_come_in_order_of_appearance() -> None:
    samples = dict(reversed(TOKENS))
    order = ("npm-token", "aws-access-key-id", "jwt", "npm-token", "github-token")
    text = " then ".join(samples[kind] for kind in order)
    assert redact(text).kinds == order


def test_glued_tokens_are_all_replaced() -> None:
    samples = dict(reversed(TOKENS))
    text = samples["aws-access-key-id"] * 20
    assert not re.search("A[KS]IA", redact(text).text)
    text = samples["stripe-key"] + "。" + samples["npm-token"]
    assert redact(text).kinds == ("stripe-key", "npm-token")


def test_secret_hidden_in_a_made_up_marker_is_found() -> None:
    token = dict(TOKENS)["databricks-token"]
    assert token not in redact(f"[REDACTED:{token}]").text


def test_token_after_a_base64_image_is_found() -> None:
    image = next(text for text in HARMLESS if text.startswith("iVBORw0KGgo"))
    token = dict(TOKENS)["npm-token"]
    assert redact(f"{image}\n{token}") == (f"{image}\n[REDACTED:npm-token]", ("npm-token",))


def test_name_of_an_unlabelled_variable_is_kept() -> None:
    assert redact(f"FOO_BAR={chars('abcXYZ0189defGHJKLmnop', 40)}").text.startswith("FOO_BAR=[RED")


def test_frontmatter_value_stays_a_string() -> None:
    token = dict(TOKENS)["npm-token"]
    text = f'---\ntitle: {token} is "the" token # old\ntags:\n  - {token}\n---\nBody {token}\n'
    clean = redact(text).text
    front = yaml.safe_load(clean.split("---\n")[1])
    assert front == {
        "title": '[REDACTED:npm-token] is "the" token',
        "tags": ["[REDACTED:npm-token]"],
    }
    assert clean.endswith("Body [REDACTED:npm-token]\n")
    assert redact(clean) == (clean, ())


_SNIPPETS = st.one_of(
    st.text(max_size=30),
    st.sampled_from([token for _, token in TOKENS]),
    st.sampled_from([context.replace("@@", secret, 1) for _, secret, context in CONTEXTUAL]),
    st.sampled_from(HARMLESS),
    st.sampled_from(
        ["password", ": ", "=", "://", "@", "\\n", "\n", '"', "'", "-----BEGIN ", "[REDACTED:", "]"]
    ),
    st.builds(private_key),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_SNIPPETS, max_size=8), st.sampled_from(["", " ", "\n", ", ", "。"]))
def test_redacting_twice_changes_nothing_more(snippets: list[str], joint: str) -> None:
    once = redact(joint.join(snippets))
    assert redact(once.text) == (once.text, ())


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _SNIPPETS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "password", "api_key", "b c"]), inner, max_size=4),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_redacted_json_text_is_still_json(
    value: object, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    json.loads(redact(text).text)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["a", "password", "api_key", "note"]),
        st.sampled_from([token for _, token in TOKENS] + ["plain text", "c0rrect" + "-horse!"]),
        min_size=1,
    ),
    st.sampled_from([None, '"', "'"]),
)
def test_redacted_yaml_text_is_still_yaml(value: dict[str, str], style: str | None) -> None:
    text = yaml.safe_dump(value, default_style=style, width=1000)
    assert set(yaml.safe_load(redact(text).text)) == set(value)


def test_mapping_key_gives_context_to_its_value() -> None:
    value = {"password": "hunt" + "er2", "user": "hunt" + "er2", "tokens": [chars("abc123", 20), 7]}
    clean, kinds = redact_value(value)
    assert clean == {
        "password": "[REDACTED:password]",
        "user": "hunt" + "er2",
        "tokens": ["[REDACTED:token]", 7],
    }
    assert kinds == ("password", "token")


def test_nested_values_are_cleaned_and_other_types_kept() -> None:
    token = dict(TOKENS)["npm-token"]
    value = {"a": [{"b": f"x {token}"}, (token, None)], token: 1.5, "n": 3, "password": True}
    clean, kinds = redact_value(value)
    marker = "[REDACTED:npm-token]"
    assert clean == {
        "a": [{"b": f"x {marker}"}, (marker, None)],
        marker: 1.5,
        "n": 3,
        "password": True,
    }
    assert kinds == ("npm-token",) * 3


def test_two_secret_keys_keep_both_values() -> None:
    tokens = [token for kind, token in TOKENS if kind == "stripe-key"]
    clean, _ = redact_value({token: number for number, token in enumerate(tokens)})
    assert isinstance(clean, dict)
    assert sorted(clean.values()) == [0, 1, 2]


def test_absurd_nesting_is_refused_with_a_named_error() -> None:
    value: object = "x"
    for _ in range(5000):
        value = [value]
    with pytest.raises(LimitExceeded):
        redact_value(value)


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
HINDI = "\u0915\u094d\u200d\u0937 \u0930\u094d\u200d"
SCOTLAND = "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in "gbsct") + "\U000e007f"

KEPT = {
    "plain": "a line\n\tindented",
    "family": FAMILY,
    "heart on fire": "\u2764\ufe0f\u200d\U0001f525",
    "skin tone": "\U0001f469\U0001f3fd\u200d\U0001f4bb",
    "warning sign": "\u26a0\ufe0f",
    "keycap": "1\ufe0f\u20e3",
    "persian": PERSIAN,
    "hindi": HINDI,
    "flag": "\U0001f1e9\U0001f1ea",
    "flag of scotland": SCOTLAND,
    "rainbow flag": "\U0001f3f3\ufe0f\u200d\U0001f308",
    "japanese variant": "\u845b\U000e0100\u57ce",
    "mongolian": "\u1820\u180b",
    "combining": "e\u0301 \u00fc \u4e2d\u6587",
}
STRIPPED = {
    "zero width space": ("a\u200bb", "ab"),
    "joiner in latin": ("pass\u200dword", "password"),
    "non-joiner in latin": ("a\u200cb", "ab"),
    "byte order mark": ("\ufeffa", "a"),
    "bidi": ("a\u202eb\u2066c\u2069\u200f", "abc"),
    "tags": ("a" + "".join(chr(0xE0000 + ord(c)) for c in "evil"), "a"),
    "tags after a flag": (SCOTLAND + chr(0xE0041), SCOTLAND),
    "made-up flag": ("\U0001f3f4" + chr(0xE0061) + "\U000e007f", "\U0001f3f4"),
    "soft hyphen": ("co\u00adop", "coop"),
    "word joiner": ("a\u2060b\u2063c", "abc"),
    "hangul filler": ("a\u3164b", "ab"),
    "selectors after a letter": ("a\ufe0f\U000e0110\U000e0111", "a"),
    "selectors after a selector": ("\u26a0\ufe0f\ufe0e\U000e0111", "\u26a0\ufe0f"),
    "controls": ("a\x00\x1b[31mb\x7f\x9bc\r\n", "a[31mbc\n"),
    "line separator": ("a\u2028b", "a b"),
    "trailing joiner": (PERSIAN + "\u200c", PERSIAN),
    "doubled joiner": ("\U0001f468\u200d\u200d\U0001f469", "\U0001f468\U0001f469"),
    "lone surrogate": ("a\ud800b", "ab"),
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_a_script_or_an_emoji_needs_is_kept(text: str) -> None:
    assert strip_invisible(text) == text


@pytest.mark.parametrize("text,clean", STRIPPED.values(), ids=STRIPPED)
def test_invisible_characters_are_removed(text: str, clean: str) -> None:
    assert strip_invisible(text) == clean


@given(
    st.text(st.one_of(st.characters(), st.sampled_from(FAMILY + HINDI + SCOTLAND + "\ufe0f\u200b")))
)
def test_stripping_twice_changes_nothing_more(text: str) -> None:
    assert strip_invisible(strip_invisible(text)) == strip_invisible(text)


ESCAPED = {
    "colour": ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
    "hyperlink": ("\x1b]8;;http://x\x1b\\y\x07", r"\x1b]8;;http://x\x1b" + "\\" + r"y\x07"),
    "clipboard": ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),
    "one-byte sequence introducer": ("\x9b31m", r"\x9b31m"),
    "carriage return": ("safe\rrm", r"safe\x0drm"),
    "backspace and delete": ("a\x08\x7f", r"a\x08\x7f"),
    "bidi": ("a\u202eb\u2066", r"a\u202eb\u2066"),
    "separators": ("a\u2028b\u2029\x85", r"a\u2028b\u2029\x85"),
    "tags": ("a\U000e0041", r"a\U000e0041"),
    "lone surrogate": ("a\ud800", r"a\ud800"),
    "nothing": (f"ok \u4e2d\u00a0{FAMILY}\n\tx", f"ok \u4e2d\u00a0{FAMILY}\n\tx"),
}


@pytest.mark.parametrize("text,shown", ESCAPED.values(), ids=ESCAPED)
def test_characters_that_act_on_a_terminal_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_newlines_and_tabs_are_escaped_on_request() -> None:
    assert visible("a\n\tb", keep_newlines=False) == r"a\n\tb"


@given(st.text(st.characters()))
def test_nothing_that_acts_is_left(text: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", visible(text))
    assert "\n" not in visible(text, keep_newlines=False)


@given(_VALUES | st.text(st.characters(exclude_categories=["Cs"])))
def test_visible_json_holds_the_same_value(value: object) -> None:
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(text) == value
    assert not re.search("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", text)


def test_visible_json_escapes_tags_and_surrogates() -> None:
    text = visible_json(json.dumps("\U000e0041\u202e\ud800", ensure_ascii=False))
    assert text == r'"\udb40\udc41\u202e\ud800"'


_KEY_LINE = "-----BEGIN PRIVATE" + " KEY-----"
_UNITS = (
    "a",
    "A",
    "0",
    "=",
    "-",
    "_",
    ".",
    "/",
    "\\",
    "\\n",
    '"',
    "'",
    "`",
    " ",
    "\n",
    "\r\n",
    "\t",
    "@",
    ":",
    "://",
    "a://",
    "://a:",
    "://a:b@",
    "x:",
    "sk-",
    "eyJ.",
    "eyJ",
    "-eyJ",
    "eyJa.a",
    "AKIA",
    "SG.",
    "1:A",
    "MT",
    "MTa.",
    "key-",
    "password",
    "password:",
    "token:",
    "password=password=token:secret:",
    "пароль:",
    "tokens::",
    "password=a1",
    'password="',
    "api_key: a1b2c3 ",
    "token is ",
    "--token ",
    "aws_secret",
    "heroku_key",
    "authorization:",
    "bearer ",
    _KEY_LINE,
    _KEY_LINE + "\n",
    _KEY_LINE + "\\n",
    "-----BEGIN CERTIFICATE-----\n",
    "-----END",
    "[REDACTED:",
    ";base64,",
    "iVBORw0KGgo",
    "ssh-rsa AAAA",
    "sha512-",
    "aB3",
    "aB3/",
    "aB3-_",
    "a.",
    "A_",
    "&a=",
    "AC" + "0" * 32 + " ",
    "a1" * 40 + "\n",
    "密码\uff1a",
    "\u200d",
    "\U000e0041",
)


def _search(pattern: re.Pattern[str], text: str) -> None:
    for _ in pattern.finditer(text):
        pass


def _match_at_some_places(pattern: re.Pattern[str], text: str) -> None:
    for at in range(8):
        pattern.match(text, at)


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(set(guard._searched())))
def test_searched_pattern_is_linear_on_hostile_text(source: str) -> None:
    search = partial(_search, re.compile(source, re.ASCII))
    for unit in _UNITS:
        assert grows_linearly(search, (unit * 100_000)[:100_000]), unit


@pytest.mark.slow
@pytest.mark.parametrize("source", sorted(set(guard._anchored())))
def test_anchored_pattern_is_linear_on_hostile_text(source: str) -> None:
    match = partial(_match_at_some_places, re.compile(source, re.ASCII))
    for unit in _UNITS:
        assert grows_linearly(match, (unit * 100_000)[:100_000]), unit


@pytest.mark.slow
@pytest.mark.parametrize("unit", _UNITS)
def test_whole_scan_is_linear_on_hostile_text(unit: str) -> None:
    text = (unit * 100_000)[:100_000]
    for scan in (redact, strip_invisible, visible, visible_json):
        assert grows_linearly(scan, text), scan.__name__


@pytest.mark.parametrize("unit", ["token:", "password=password=token:secret:", "tokens::"])
def test_what_follows_many_words_is_not_judged_for_each_of_them(unit: str) -> None:
    text, judged = (unit * 50_000)[:50_000], 0
    original = guard._looks_secret

    def spy(value: str, kind: str) -> bool:
        nonlocal judged
        judged += len(value)
        return original(value, kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "_looks_secret", spy)
        redact(text)
    assert judged < 2 * len(text)


@pytest.mark.parametrize("word", ["token:", "password=", "api_key:"])
def test_a_secret_at_the_end_of_a_long_run_of_words_is_found(word: str) -> None:
    secret = chars("aB3", 8) + "x9!"
    text = word * 200 + secret
    assert secret not in redact(text).text
    assert secret not in redact(text + "/" * 600).text


def test_every_compiled_pattern_is_listed_for_the_linearity_test() -> None:
    listed = {*guard._searched(), *guard._anchored()}
    seen: set[str] = set()
    original = guard._compiled

    def spy(pattern: str) -> re.Pattern[str]:
        seen.add(pattern)
        return original(pattern)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "_compiled", spy)
        for text in (*HARMLESS, *(token for _, token in TOKENS), private_key()):
            redact(text)
        for _, secret, context in CONTEXTUAL:
            redact(context.replace("@@", secret, 1))
    assert seen <= listed


def test_plain_note_compiles_no_pattern() -> None:
    guard._compiled.cache_clear()
    redact(
        "The build takes four minutes; the token budget is small, the password field is long.\n"
        * 30
    )
    assert guard._compiled.cache_info().currsize == 0


def test_importing_the_guard_loads_nothing_heavy() -> None:
    code = "import sys, retain.guard.secrets, retain.guard.characters; print(*sys.modules)"
    command = [sys.executable, "-S", "-c", code]
    path = str(guard.__file__).rsplit("/retain/", 1)[0]
    done = subprocess.run(
        command, env={"PYTHONPATH": path}, capture_output=True, encoding="utf-8", check=True
    )
    assert {"dataclasses", "pathlib", "inspect", "json"}.isdisjoint(done.stdout.split())
