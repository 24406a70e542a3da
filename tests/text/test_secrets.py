"""Secrets are replaced, and everything else is kept."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from retain.errors import LimitExceeded
from retain.text.secrets import KINDS, redact, redact_value, redact_visible, redact_with_note
from tests.guard_samples import CONTEXTUAL, HARMLESS, TOKENS, chars, private_key

SAMPLES = dict(reversed(TOKENS))
NPM = SAMPLES["npm-token"]
SURROUNDINGS = (
    "@@", "We use @@ for the build.", "first line\nuse @@\nlast line", "use @@\r\nnext",
    'x = "@@"', "x = '@@'", "run `@@` now", "```sh\nexport X=@@\n```", "(see @@)", "a,@@,b",
    '{"a": "@@", "b": 1}', '{"a": "one\\n@@\\ntwo"}', "a: @@\nb: 1", "- @@\n- b",
    '{"a": "one\\u4e2d@@\\u6587two"}', "令牌是@@。请保密", "使用@@进行测试", "**@@**",
    "curl https://api.test/v1?x=1 -d @@",
)  # fmt: skip


@pytest.mark.parametrize("kind,token", TOKENS, ids=[kind for kind, _ in TOKENS])
def test_token_is_replaced_and_its_surroundings_are_kept(kind: str, token: str) -> None:
    for text in SURROUNDINGS:
        wanted = (text.replace("@@", f"[REDACTED:{kind}]"), (kind,))
        assert redact(text.replace("@@", token)) == wanted


@pytest.mark.parametrize(
    "kind,secret,context", CONTEXTUAL, ids=[context for _, _, context in CONTEXTUAL]
)
def test_secret_known_by_its_context_is_replaced(kind: str, secret: str, context: str) -> None:
    wanted = (context.replace("@@", f"[REDACTED:{kind}]", 1), (kind,))
    assert redact(context.replace("@@", secret, 1)) == wanted


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_not_touched(text: str) -> None:
    assert redact(text) == (text, ())
    assert redact(f"例えば{text}\n") == (f"例えば{text}\n", ())


def test_every_kind_has_a_sample() -> None:
    assert {kind for kind, *_ in (*TOKENS, *CONTEXTUAL)} | {"private-key"} == set(KINDS)


KEY = private_key()
KEY_HEAD, _, KEY_REST = KEY.partition("\n")
KEYS = {
    **{label: private_key(label) for label in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")},
    "no end line": KEY.rpartition("\n")[0],
    "encryption headers": f"{KEY_HEAD}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"
    f"{chars('0123456789ABCDEF', 32)}\n\n{KEY_REST}",
    "PGP": private_key("PGP ").replace("KEY-----", "KEY BLOCK-----"),
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_private_key_is_replaced_whole(key: str) -> None:
    assert redact(f"before\n{key}") == ("before\n[REDACTED:private-key]", ("private-key",))


def test_private_key_without_end_is_replaced_up_to_the_prose() -> None:
    long_lines = KEY.rpartition("\n")[0].rpartition("\n")[0]
    text = redact(f"{long_lines}\n\nNext paragraph.").text
    assert text == "[REDACTED:private-key]\n\nNext paragraph."
    assert redact(f"{KEY}\nafter").text == "[REDACTED:private-key]\nafter"


def test_private_key_inside_json_or_yaml_leaves_it_valid() -> None:
    text = json.dumps({"private_key": KEY + "\n", "client": "x"})
    wanted = {"private_key": "[REDACTED:private-key]\n", "client": "x"}
    assert json.loads(redact(text).text) == wanted
    block = "\n".join("  " + line for line in KEY.split("\n"))
    for end in (block, block.rpartition("\n")[0].rpartition("\n")[0]):
        parsed = yaml.safe_load(redact(f"key: |\n{end}\nother: 1\n").text)
        assert parsed == {"key": "[REDACTED:private-key]\n", "other": 1}


def test_kinds_come_in_order_of_appearance() -> None:
    order = ("npm-token", "aws-access-key-id", "jwt", "npm-token", "github-token")
    assert redact(" then ".join(SAMPLES[kind] for kind in order)).kinds == order


def test_neighbours_of_a_secret_are_judged_on_their_own() -> None:
    assert not re.search("A[KS]IA", redact(SAMPLES["aws-access-key-id"] * 20).text)
    glued = SAMPLES["stripe-key"] + "。" + NPM
    assert redact(glued).kinds == ("stripe-key", "npm-token")
    made_up = f"[REDACTED:{SAMPLES['databricks-token']}]"
    assert SAMPLES["databricks-token"] not in redact(made_up).text
    image = next(text for text in HARMLESS if text.startswith("iVBORw0KGgo"))
    assert redact(f"{image}\n{NPM}").text == f"{image}\n[REDACTED:npm-token]"
    assert redact(f"FOO_BAR={chars('abcXYZ0189defGHJKLmnop', 40)}").text.startswith("FOO_BAR=[RED")


@pytest.mark.parametrize("word", ["token:", "password=", "api_key:"])
def test_a_secret_at_the_end_of_a_long_run_of_words_is_found(word: str) -> None:
    secret = chars("aB3", 8) + "x9!"
    text = word * 200 + secret
    assert secret not in redact(text).text
    assert secret not in redact(text + "/" * 600).text


def test_frontmatter_value_stays_a_string() -> None:
    text = f'---\ntitle: {NPM} is "the" token # old\ntags:\n  - {NPM}\n---\nBody {NPM}\n'
    clean = redact(text).text
    front = yaml.safe_load(clean.split("---\n")[1])
    marker = "[REDACTED:npm-token]"
    assert front == {"title": f'{marker} is "the" token', "tags": [marker]}
    assert clean.endswith(f"Body {marker}\n")
    assert redact(clean) == (clean, ())


def test_text_to_be_shown_hides_no_secret_and_nothing_that_acts() -> None:
    for split in (f"{NPM[:9]}\u200b{NPM[9:]}", f"{NPM[:9]}\x1b{NPM[9:]}"):
        text, kinds = redact_visible(f"\x1b[31m{split}")
        assert kinds == ("npm-token",)
        assert "\x1b" not in text
        assert NPM[9:] not in text


def test_note_says_how_many_secrets_a_model_is_not_sent() -> None:
    assert redact_with_note("plain") == ("plain", "")
    text, note = redact_with_note(f"{NPM} {NPM}")
    assert (text.count("[REDACTED:npm-token]"), note) == (2, "2 secrets are not sent: npm-token")


_SNIPPETS = st.one_of(
    st.text(max_size=30),
    st.sampled_from([token for _, token in TOKENS]),
    st.sampled_from([context.replace("@@", secret, 1) for _, secret, context in CONTEXTUAL]),
    st.sampled_from(HARMLESS),
    st.sampled_from(
        ["password", ": ", "=", "://", "@", "\\n", "\n", '"', "'", "-----BEGIN ", "[REDACTED:", "]"]
    ),
    st.just(KEY),
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
    json.loads(redact(json.dumps(value, ensure_ascii=ascii_only, indent=indent)).text)


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


def test_nested_values_are_cleaned_by_their_keys_and_other_types_kept() -> None:
    marker = "[REDACTED:npm-token]"
    word = "hunt" + "er2"
    value = {
        "a": [{"b": f"x {NPM}"}, (NPM, None)],
        NPM: 1.5,
        "password": word,
        "user": word,
        "tokens": [chars("abc123", 20), 7],
        "old password": True,
        "pin_pwd": 12345678,
    }
    clean, kinds = redact_value(value)
    assert clean == {
        "a": [{"b": f"x {marker}"}, (marker, None)],
        marker: 1.5,
        "password": "[REDACTED:password]",
        "user": word,
        "tokens": ["[REDACTED:token]", 7],
        "old password": True,
        "pin_pwd": "[REDACTED:password]",
    }
    assert kinds == (*("npm-token",) * 3, "password", "token", "password")


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


def test_a_table_of_many_columns_is_read_in_linear_time() -> None:
    rows = ("|password" * 3000, "|---" * 3000, "|hunt3r2x" * 3000)
    assert "hunt3r2x" not in redact("\n".join(rows)).text


@pytest.mark.parametrize("between", ["\u200b", "\u2060", "\u00ad", "\u202e"])
def test_an_invisible_character_hides_no_secret(between: str) -> None:
    clean = redact(f"key AKIA{between}Q7R3T5Y2U8P4L6M9 end")
    assert clean.text == "key [REDACTED:aws-access-key-id] end"
