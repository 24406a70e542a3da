r"""Keep secrets out of the bank: each is replaced by `[REDACTED:kind]` on the way in.

Every pattern is linear: what repeats without a bound is one character class with nothing required
after it, or is possessive. Groups are never repeated possessively, because early releases of
Python 3.11 lose their place when the last repetition fails half way.

Patterns are compiled on first use and only when one of their keywords occurs in the text, because
compiling them all would cost more than the rest of a small write.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from retain.errors import LimitExceeded

__all__ = ["KINDS", "Redacted", "redact", "redact_value"]


class Redacted(NamedTuple):
    """A text without its secrets, and the kind of each one in order of appearance."""

    text: str
    kinds: tuple[str, ...]


class _Rule(NamedTuple):
    kind: str
    keywords: tuple[str, ...]
    pattern: str
    group: int = 0
    accept: Callable[[str], bool] | None = None


class _Public(NamedTuple):
    keywords: tuple[str, ...]
    pattern: str


class _Span(NamedTuple):
    start: int
    end: int
    kind: str


def _is_template(value: str) -> bool:
    """Tell whether a value stands for a secret that is kept somewhere else."""
    folded = value.lower()
    return (
        len(set(value)) < 4
        or any(word in folded for word in _PLACEHOLDERS)
        or _compiled(_TEMPLATE).match(value) is not None
    )


def _is_literal(value: str) -> bool:
    return not _is_template(value)


def _is_jwt(value: str) -> bool:
    parts = value.split(".")
    return len(parts) >= 3 and len(parts[0]) >= 10 and len(value) >= 30


def _is_mixed(value: str) -> bool:
    """Tell whether a prefixed value is random rather than a hyphenated name."""
    return any(c.isdigit() for c in value) and not _is_wordy(value)


_PLACEHOLDERS = (
    "changeme", "change-me", "change_me", "example", "placeholder", "your", "dummy", "redacted",
    "replace", "insert", "xxxx", "****", "...", "…", "todo", "<",
)  # fmt: skip
_TEMPLATE = (
    r"[$%#@&!]?[{(\[]"  # ${VAR} {{var}} %(var)s $(command) [placeholder]
    r"|[$%][A-Za-z_]\w{0,64}%?$"  # $VAR %VAR% %s
    r"|:[A-Za-z_]\w{0,64}$"  # :bind
    r"|[A-Za-z_]\w{0,64}+(?:(?:\.|::|\?\.)\w{1,64}+){0,8}[(\[]"  # os.environ[...] get_token(...)
    r"|[A-Z][A-Z0-9]{0,32}+(?:_[A-Z0-9]{1,32}+){1,12}$"  # NAME_OF_A_VARIABLE
    r"|(?:process\.env|env|secrets|vars|config|settings|self|this)[.:]"
    r"|(?:op|vault|https?|file|arn|ref\+\w{1,20}):"
    r"|(?:\.{0,2}|~)/[\w.@-]{1,64}+/[\w./@-]{0,256}+$"  # a file that holds it
    r"|\d{4}-\d\d-\d\d"
)

# A token may follow an escape such as \n or \u4e2d when JSON is scanned as text.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\\u[0-9a-f]{4}))"
_ASSIGN_TO = r"""["']?[ \t]{0,4}[:=]{1,2}>?[ \t]{0,4}["']?"""

# The keyword is part of the same word as the secret.
_TOKENS = (
    _Rule("age-secret-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    _Rule(
        "jwt",
        ("eyJ",),
        # Always matches at the first eyJ and swallows the run, so no start is tried twice.
        _START + r"eyJ[A-Za-z0-9_-]*+(?:\.{1,2}[A-Za-z0-9_-]++){0,4}",
        accept=_is_jwt,
    ),
    _Rule("anthropic-key", ("sk-ant-",), r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _Rule("openrouter-key", ("sk-or-",), r"sk-or-(?:v1-)?[A-Za-z0-9]{32,}"),
    _Rule("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-"),
          r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}"),
    _Rule("openai-key", ("sk-",), _START + r"sk-[A-Za-z0-9_-]{20,}", accept=_is_mixed),
    _Rule("aws-access-key-id", ("AKIA", "ASIA", "ABIA", "ACCA"),
          _START + r"(?:A(?:KI|SI|BI|CC)A[A-Z0-9]{16})+"),
    _Rule("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
          r"gh[pousr]_[A-Za-z0-9]{20,}"),
    _Rule("github-token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,}"),
    _Rule("gitlab-token", ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "glft-",
                           "glagent-", "gloas-"),
          r"gl(?:pat|dt|rt|ptt|cbt|soat|ft|agent|oas)-[A-Za-z0-9_-]{20,}+"
          r"(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?"),
    _Rule("slack-webhook", ("hooks.slack.com/",),
          r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/+-]{20,})", 1),
    _Rule("slack-token", ("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-",
                          "xoxr-", "xoxs-", "xapp-"),
          r"(?:xox[a-eoprs](?:\.xox[bp])?|xapp)-[A-Za-z0-9%-]{15,}"),
    _Rule("stripe-key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"),
          r"(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    _Rule("google-api-key", ("AIza",), _START + r"AIza[A-Za-z0-9_-]{30,}"),
    _Rule("google-oauth-secret", ("GOCSPX-",), r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    _Rule("google-oauth-token", ("ya29.",), r"ya29\.[A-Za-z0-9_-]{20,}"),
    _Rule("google-oauth-token", ("1//0",), _START + r"1//0[A-Za-z0-9_-]{30,}"),
    _Rule("npm-token", ("npm_",), r"npm_[A-Za-z0-9]{30,}"),
    _Rule("pypi-token", ("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{30,}"),
    _Rule("huggingface-token", ("hf_",), _START + r"hf_[A-Za-z0-9]{30,}"),
    _Rule("sendgrid-key", ("SG.",), _START + r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,}"),
    _Rule("twilio-key", ("SK",), _START + r"(?:SK[0-9a-f]{32})+"),
    _Rule("twilio-auth-token", ("AC",),
          _START + r"AC[0-9a-f]{32}[^0-9A-Za-z][^\n]{0,60}?(?<![0-9A-Za-z])"
          r"([0-9a-f]{32})(?![0-9A-Za-z])", 1),
    _Rule("mailgun-key", ("key-",), _START + r"key-[0-9a-f]{32}"),
    _Rule("telegram-bot-token", (":A",), r"(?<![0-9])[0-9]{6,12}:A[A-Za-z0-9_-]{32,}"),
    _Rule("discord-webhook", ("/api/webhooks/", "/api/v"),
          r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{1,24}/([A-Za-z0-9_-]{20,})", 1),
    # A bot token starts with a number in base64, which can begin in ten ways only.
    _Rule("discord-bot-token", ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
          _START + r"[MNO][DTjz][A-Za-z0-9_-]{21,28}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}"),
    _Rule("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"do[opr]_v1_[0-9a-f]{40,}"),
    _Rule("heroku-key", ("HRKU-",), r"HRKU-[A-Za-z0-9_-]{30,}"),
    _Rule("azure-storage-key", ("AccountKey=", "AccessKey="),
          r"(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})", 1),
    _Rule("azure-sas", ("sig=",), r"[?&;]sig=([A-Za-z0-9%+/=]{40,})", 1),
    _Rule("azure-client-secret", ("Q~",), r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,}"),
    _Rule("databricks-token", ("dapi",), _START + r"dapi[0-9a-f]{32}(?:-\d)?"),
    _Rule("linear-key", ("lin_api_", "lin_oauth_"), r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}"),
    _Rule("notion-token", ("ntn_",), _START + r"ntn_[A-Za-z0-9]{40,}"),
    _Rule("notion-token", ("secret_",), _START + r"secret_[A-Za-z0-9]{40,}"),
    _Rule("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"),
          r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _Rule("square-token", ("sq0atp-", "sq0csp-"), r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}"),
    _Rule("square-token", ("EAAA",), _START + r"(?<![+/_-])EAAA[A-Za-z0-9_-]{56,}"),
    _Rule("atlassian-token", ("ATATT3", "ATCTT3", "ATSTT3"), r"AT[ACS]TT3[A-Za-z0-9_=-]{40,}"),
    _Rule("vault-token", ("hvs.", "hvb.", "hvr."), _START + r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),
    _Rule("doppler-token", ("dp.",),
          _START + r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}"),
    _Rule("groq-key", ("gsk_",), _START + r"gsk_[A-Za-z0-9]{40,}"),
    _Rule("xai-key", ("xai-",), _START + r"xai-[A-Za-z0-9]{60,}"),
    _Rule("perplexity-key", ("pplx-",), r"pplx-[A-Za-z0-9]{40,}"),
    _Rule("replicate-token", ("r8_",), _START + r"r8_[A-Za-z0-9]{30,}"),
    _Rule("docker-token", ("dckr_pat_", "dckr_oat_"), r"dckr_[po]at_[A-Za-z0-9_-]{20,}"),
    _Rule("grafana-token", ("glsa_", "glc_eyJ"), r"(?:glsa_|glc_eyJ)[A-Za-z0-9_+/=]{30,}"),
    _Rule("sentry-token", ("sntrys_", "sntryu_"), r"sntry[su]_[A-Za-z0-9_+/=]{40,}"),
    _Rule("supabase-token", ("sbp_", "sb_secret_"), r"(?:sbp|sb_secret)_[A-Za-z0-9_-]{30,}"),
    _Rule("figma-token", ("figd_",), r"figd_[A-Za-z0-9_-]{30,}"),
    _Rule("postman-key", ("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _Rule("newrelic-key", ("NRAK-",), r"NRAK-[A-Z0-9]{27}"),
    _Rule("brevo-key", ("xkeysib-", "xsmtpsib-"),
          r"x(?:key|smtp)sib-[0-9a-f]{60,}-[A-Za-z0-9]{16}"),
    _Rule("tailscale-key", ("tskey-",), r"tskey-[a-z]{2,10}-[A-Za-z0-9-]{16,}"),
    _Rule("terraform-token", (".atlasv1.",),
          _START + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"),
    _Rule("planetscale-token", ("pscale_",), r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{30,}"),
    _Rule("rubygems-key", ("rubygems_",), r"rubygems_[0-9a-f]{48}"),
    _Rule("netlify-token", ("nfp_",), _START + r"nfp_[A-Za-z0-9]{36,}"),
)  # fmt: skip
# The keyword, in lower case, may stand apart from the secret.
_CONTEXTUAL = (
    _Rule("aws-secret-key", ("secret_access_key", "secretaccesskey", "aws_secret", "secret access"),
          r"(?i:aws_secret|secret[_ ]?access)[A-Za-z_ ]{0,16}" + _ASSIGN_TO
          + r"([A-Za-z0-9+/]{40,}={0,2})", 1),
    _Rule("mailgun-key", ("mailgun",),
          r"(?<![0-9a-f])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f-])"),
    _Rule("heroku-key", ("heroku",),
          r"(?i:heroku[a-z_ .-]{0,24}(?:key|token|secret|auth))" + _ASSIGN_TO
          + r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})", 1),
    # A password cannot contain "://", so that two addresses in one word stay two.
    _Rule("url-password", ("@",),
          r"://[^\s:@/?#\[\]\"'`<>\\]{0,128}:(?!\d{1,5}/)"
          r"((?:(?!://)[^\s\"'`<>\\\[\]{}]){1,256})@(?=[^\s@])", 1, _is_literal),
    _Rule("url-password", ("@",),
          r"://([A-Za-z0-9_.~-]{20,256})@", 1, _is_mixed),
    _Rule("authorization", ("authorization",),
          r"(?i:authorization)[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"']?"
          r"(?i:bearer|basic|token|apikey|digest|negotiate)[ \t]{1,4}([A-Za-z0-9+/._~=-]{8,})", 1,
          lambda value: _is_literal(value) and not value.isalpha()),
    _Rule("authorization", ("bearer ", "basic "),
          _START + r"(?i:bearer|basic)[ \t]{1,4}([A-Za-z0-9+/._~=-]{16,})", 1,
          lambda value: _is_literal(value) and _is_mixed(value)),
)  # fmt: skip

# Wrapped base64 goes on while whole lines are base64; a line of prose or a token ends it.
_WRAPPED = r"(?:(?:\\r)?(?:\\n|\r?\n)[ \t>]*+[A-Za-z0-9+/]{20,}+={0,2}(?=[\s\\\"'`)]|\Z))*"
_PUBLIC = (
    _Public(("base64,",), r";base64,[A-Za-z0-9+/]++={0,2}" + _WRAPPED),
    _Public(("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR"),
            r"(?<![A-Za-z0-9+/=])(?:iVBORw0KGgo|/9j/|R0lGOD|UklGR)[A-Za-z0-9+/]{16,}+={0,2}"
            + _WRAPPED),
    _Public(("sha256-", "sha384-", "sha512-"),
            r"sha(?:256|384|512)-[A-Za-z0-9+/]{40,}+={0,2}"),
    _Public(("SHA256:", "sha256:", "h1:"), r"(?:SHA256|sha256|h1):[A-Za-z0-9+/]{40,}+={0,2}"),
    _Public(("ssh-", "ecdsa-"),
            r"(?:ssh-[a-z0-9]{3,8}|ecdsa-sha2-[a-z0-9]{3,10})(?:@openssh\.com)?[ \t]{1,4}"
            r"AAAA[A-Za-z0-9+/]++={0,3}"),
    _Public(("-----BEGIN ",),
            r"-----BEGIN (?:[A-Z0-9 ]{0,20} )?(?:CERTIFICATE(?: REQUEST)?|PUBLIC KEY(?: BLOCK)?"
            r"|PGP SIGNATURE|PGP MESSAGE|X509 CRL)-----"
            r"(?:(?:\\{1,2}[rn]|[\s>])*(?:[A-Z][A-Za-z]{2,12}: [^\n\\\"]{0,200}"
            r"|[A-Za-z0-9+/]{24,}+={0,2}))*"),
)  # fmt: skip
_URL = r"://[^\s\"'`<>]*+"

_KEY_BEGIN = (
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"|---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
)
_KEY_END = r"----[- ]END [A-Z0-9 ]{0,40}KEY(?: BLOCK)?[- ]----"
_KEY_GAP = r"(?:\\{1,4}[rn]|[\s>|#]){0,40}"
_KEY_BODY = (
    rf"(?:{_KEY_GAP}(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): [^\n\\\"]{{0,200}}"
    r"|=?[A-Za-z0-9+/]{24,}+={0,2}))*"
    # The last line is short; without an END line only the end of the text proves it belongs.
    rf"(?:{_KEY_GAP}=?[A-Za-z0-9+/]{{1,23}}+={{0,2}}(?={_KEY_GAP}(?:----|[\"'`]|\Z)))?"
)

_SECRET_WORDS = {
    "password": "password",
    "passwd": "password",
    "passphrase": "password",
    "_pass": "password",
    "-pass": "password",
    "pwd": "password",
    "passwort": "password",
    "kennwort": "password",
    "mot de passe": "password",
    "contraseña": "password",
    "senha": "password",
    "пароль": "password",
    "密码": "password",
    "密碼": "password",
    "パスワード": "password",
    "비밀번호": "password",
    "secret": "secret",
    "credential": "secret",
    "token": "token",
    "_auth": "token",
    "key": "api-key",
}
_KEY_OWNERS = (
    "api", "access", "secret", "private", "auth", "encryption", "signing", "master", "account",
    "storage", "service", "admin", "app", "license", "shared",
)  # fmt: skip
_BETWEEN = " \t\"'`*_])\\s0123456789"
_SEPARATOR = (
    r"s?\d{0,2}[\])\"'`*_\\]{0,4}[ \t]{0,16}"
    r"(?::[ \t]{0,4}(?:str|[Ss]tring|&str)[ \t]{0,4}=|:=|=>|={1,3}|[:\uff1a\uff1d]"
    # A table cell, an XML element, a sentence.
    r"|(?<=[ \t])\|(?=[ \t])|>(?=[^\s<>]{1,256}</)|(?:is|was|ist)(?=[ \t]))"
    r"[ \t*]{0,16}"
)
_FLAG_SEPARATOR = r"[ \t]{1,4}"
_QUOTED = (
    r"\\\"([^\"\\\n]{1,512})\\\""
    r"|\"((?:[^\"\\\n]|\\[^\n]){1,512})\""
    r"|'([^'\n]{1,512})'"
    r"|`([^`\n]{1,512})`"
)
_LONGEST = 512  # of a bare value
_BARE = r"[^\s\"'`\\<|]++"
_CJK = "\u3000"
_NEXT_FIELD = r"[&;,][\w.-]{1,40}[=:]"
_NOT_SECRETS = frozenset(
    "argon2 argon2i argon2id base64 base64url bcrypt2 ed25519 es256 hs256 hs512 md5 oauth2 pbkdf2"
    " rs256 secp256k1 sha1 sha256 sha512 totp2 utf8mb4".split()
)

_LONG_RUN = r"[A-Za-z0-9+/_-]{28,}+={0,2}"
_PIECE = r"[A-Za-z0-9]{5,}"
_RUN = r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+"
_NOT_A_WORD = r"[^A-Za-z_./:,-]"
_LINE_END = r"[ \t]{0,8}\r?\n"
_HARMLESS_LABELS = (
    "public", "pubkey", "fingerprint", "integrity", "checksum", "digest", "hash", "etag", "sha",
)  # fmt: skip

_MARKER = r"\[REDACTED:([a-z0-9-]{1,32})\]"
_FREE, _TAKEN, _IN_URL = 0, 1, 2
_MAX_PASSES = 8
_MAX_DEPTH = 200

KINDS: tuple[str, ...] = tuple(
    dict.fromkeys(
        (
            "private-key",
            *(rule.kind for rule in _TOKENS + _CONTEXTUAL),
            *_SECRET_WORDS.values(),
            "high-entropy",
        )
    )
)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


class _Scan:
    """One pass over one text: what is taken, what is off limits, what was found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = _lower(text)
        # A token is at least this long, so an ordinary note leaves next to nothing to search.
        self.long_words = "\n".join(word for word in text.split() if len(word) >= 20)
        self.mask = bytearray(len(text))
        self.found: list[_Span] = []
        self._announced: list[int] | None = None
        self._run = (0, 0)

    def run_end(self, start: int) -> int:
        """Where the characters end that a bare value can have; a long run is looked at once."""
        if not self._run[0] <= start < self._run[1]:
            match = _compiled(_BARE).match(self.text, start)
            self._run = (start, match.end() if match else start)
        return self._run[1]

    def next_announced(self, start: int) -> int:
        """Where the next word stands that announces a secret of its own."""
        if self._announced is None:
            self._announced = sorted(
                at
                for word in _SECRET_WORDS
                for at in _places(self, word)
                if _value_start(self.text, at, at + len(word)) >= 0
            )
        found = bisect_left(self._announced, start)
        return self._announced[found] if found < len(self._announced) else len(self.text)

    def take(self, start: int, end: int, kind: str) -> None:
        start = _after_escape(self.text, start)
        if start < end and self.mask.find(_TAKEN, start, end) < 0:
            self.hide(start, end)
            self.found.append(_Span(start, end, kind))

    def hide(self, start: int, end: int, how: int = _TAKEN) -> None:
        self.mask[start:end] = bytes((how,)) * (end - start)


def _after_escape(text: str, start: int) -> int:
    """Move a start that lies inside a JSON escape behind it, so that the escape stays whole."""
    slash = text.rfind("\\", max(0, start - 5), start)
    if slash < 0:
        return start
    if text[slash + 1] == "u" and _is_hex(text[slash + 2 : slash + 6]):
        return max(start, slash + 6)
    return max(start, slash + 2)


def redact(text: str) -> Redacted:
    """Replace every secret in a text by `[REDACTED:kind]`."""
    current = text
    done: list[_Span] = []
    # A secret glued to another one is seen once its neighbour is gone.
    for _ in range(_MAX_PASSES):
        found = _find(current)
        if not found:
            break
        current, done = _replace(current, found, done)
    if not done:
        return Redacted(text, ())
    return Redacted(_quote_frontmatter(current), tuple(span.kind for span in done))


def redact_value(value: object) -> tuple[object, tuple[str, ...]]:
    """Replace every secret in nested mappings, lists and strings, keys included."""
    kinds: list[str] = []
    return _redact_nested(value, "", kinds, 0), tuple(kinds)


def _redact_nested(value: object, label: str, kinds: list[str], depth: int) -> object:
    if depth > _MAX_DEPTH:
        raise LimitExceeded(
            f"A value is nested deeper than {_MAX_DEPTH} levels.",
            unchanged="Nothing was written.",
            hint="Flatten the value, or store it as text.",
        )
    if isinstance(value, str):
        return _redact_labelled(value, label, kinds)
    if isinstance(value, list):
        return [_redact_nested(item, label, kinds, depth + 1) for item in value]
    if isinstance(value, tuple):
        return tuple(_redact_nested(item, label, kinds, depth + 1) for item in value)
    if isinstance(value, dict):
        return _redact_mapping(value, label, kinds, depth)
    if label == "password" and isinstance(value, int) and not isinstance(value, bool):
        return _redact_number(value, kinds)
    return value


def _redact_mapping(
    mapping: dict[object, object], outer: str, kinds: list[str], depth: int
) -> dict[object, object]:
    clean: dict[object, object] = {}
    for key, item in mapping.items():
        name = _redact_labelled(key, "", kinds) if isinstance(key, str) else key
        label = (_label_kind(key) if isinstance(key, str) else "") or outer
        count = 2
        unique: object = name
        while unique in clean:
            unique = f"{name} ({count})"
            count += 1
        clean[unique] = _redact_nested(item, label, kinds, depth + 1)
    return clean


def _redact_number(value: int, kinds: list[str]) -> object:
    """A number that is someone's password: a long one, not a length or a count."""
    if abs(value) < 100_000:
        return value
    kinds.append("password")
    return "[REDACTED:password]"


def _redact_labelled(value: str, label: str, kinds: list[str]) -> str:
    result = redact(value)
    if label and not result.kinds and _looks_secret(value, label):
        result = Redacted(f"[REDACTED:{label}]", (label,))
    kinds.extend(result.kinds)
    return result.text


def _label_kind(key: str) -> str:
    """Name the kind of secret that a mapping key announces, or nothing."""
    name = "_" + _lower(key).strip().rstrip("0123456789").rstrip("_-")
    name = name.removesuffix("s") if not name.endswith("pass") else name
    for word, kind in _SECRET_WORDS.items():
        if name.endswith(word) and (word != "key" or _is_owned_key(name, len(name) - 3)):
            return kind
    return ""


def _find(text: str) -> list[_Span]:
    scan = _Scan(text)
    _shield_markers(scan)
    _find_private_keys(scan)
    if scan.long_words:
        _shield_public(scan)
        _apply(_TOKENS, scan, scan.long_words)
    _apply(_CONTEXTUAL, scan, scan.lower)
    _find_assignments(scan)
    if scan.long_words:
        _find_high_entropy(scan)
    scan.found.sort()
    return scan.found


def _mentions(text: str, keywords: tuple[str, ...]) -> bool:
    for keyword in keywords:  # noqa: SIM110  (any() with a generator doubles the cost)
        if keyword in text:
            return True
    return False


def _apply(rules: tuple[_Rule, ...], scan: _Scan, where: str) -> None:
    for rule in rules:
        if not _mentions(where, rule.keywords):
            continue
        for match in _compiled(rule.pattern).finditer(scan.text):
            if rule.accept is None or rule.accept(match[rule.group]):
                scan.take(match.start(rule.group), match.end(rule.group), rule.kind)


def _shield_markers(scan: _Scan) -> None:
    if "[REDACTED:" in scan.text:
        for match in _compiled(_MARKER).finditer(scan.text):
            # Only our own kinds: a secret written into a marker of someone's making is not safe.
            if match[1] in KINDS:
                scan.hide(*match.span())


def _shield_public(scan: _Scan) -> None:
    for keywords, pattern in _PUBLIC:
        if _mentions(scan.text, keywords):
            for match in _compiled(pattern).finditer(scan.text):
                scan.hide(*match.span())


def _find_private_keys(scan: _Scan) -> None:
    if "PRIVATE KEY" not in scan.text:
        return
    begins = list(_compiled(_KEY_BEGIN).finditer(scan.text))
    limits = [*(begin.start() for begin in begins[1:]), len(scan.text)]
    for begin, limit in zip(begins, limits, strict=False):
        end = _private_key_end(scan.text, begin.end(), limit)
        if end > begin.end():
            scan.hide(begin.start(), end, _FREE)
            scan.take(begin.start(), end, "private-key")


def _private_key_end(text: str, start: int, limit: int) -> int:
    """Find where a key that begins before `start` ends; `start` itself means there is no key."""
    body = _compiled(_KEY_BODY).match(text, start, limit)
    body_end = body.end() if body else start
    tail = _compiled(_KEY_GAP + _KEY_END).match(text, body_end, limit)
    if tail:
        return tail.end()
    end = _compiled(_KEY_END).search(text, start, limit)
    if end and _is_block(text, start, end.start()):
        return end.end()
    return body_end


def _is_block(text: str, start: int, end: int) -> bool:
    if _compiled(_LINE_END).match(text, start):
        return True
    escaped = text.startswith(("\\n", "\\r", "\\\\n"), start)
    return escaped and text.find('"', start, end) < 0 and text.find("'", start, end) < 0


def _places(scan: _Scan, word: str) -> Iterator[int]:
    at = scan.lower.find(word)
    while at >= 0:
        if word != "key" or _is_owned_key(scan.lower, at):
            yield at
        at = scan.lower.find(word, at + len(word))


def _find_assignments(scan: _Scan) -> None:
    for word, kind in _SECRET_WORDS.items():
        at = scan.lower.find(word)
        while at >= 0:
            end = at + len(word)
            if word != "key" or _is_owned_key(scan.lower, at):
                end = _take_assigned(scan, at, end, kind)
            at = scan.lower.find(word, end)


def _is_owned_key(lower: str, at: int) -> bool:
    return lower[max(0, at - 12) : at].rstrip("_- ").endswith(_KEY_OWNERS)


def _take_assigned(scan: _Scan, at: int, after: int, kind: str) -> int:
    """Take the value assigned to the word that ends at `after`; return where to look on."""
    start = _value_start(scan.text, at, after)
    if start < 0:
        return after
    span = _value_span(scan, start)
    if span is None or not _looks_secret(scan.text[slice(*span)], kind):
        return after
    # A bare number after a quoted name is JSON, where a marker would not be a value.
    if scan.text[after : after + 1] in ('"', "'") and _is_number(scan.text, *span):
        return after
    scan.take(*span, kind)
    return span[1]


def _is_number(text: str, start: int, end: int) -> bool:
    bare = text[start - 1] not in ('"', "'", "`")
    return bare and not text[start:end].strip("0123456789.eE+-")


def _value_start(text: str, at: int, after: int) -> int:
    ahead = text[after : after + 24].lstrip(_BETWEEN)
    if ahead.startswith((":", "=", "|", ">", "\uff1a", "\uff1d", "is ", "was ", "ist ")):
        match = _compiled(_SEPARATOR).match(text, after)
        if match:
            return match.end()
    if _is_flag(text, at):
        match = _compiled(_FLAG_SEPARATOR).match(text, after)
        if match:
            return match.end()
    return -1


def _is_flag(text: str, at: int) -> bool:
    """Tell whether the word at a position belongs to an option such as `--db-password`."""
    dashes = text.rfind("--", max(0, at - 24), at + 1)
    if dashes < 0 or text[max(0, dashes - 1) : dashes].isalnum():
        return False
    return " " not in text[dashes:at]


def _value_span(scan: _Scan, start: int) -> tuple[int, int] | None:
    text = scan.text
    if text[start : start + 1] in ('"', "'", "`", "\\"):
        match = _compiled(_QUOTED).match(text, start)
        return match.span(match.lastindex or 0) if match else None
    end = scan.run_end(start)
    if end == start or text[start] >= _CJK:
        return None
    if end - start >= _LONGEST:
        # No secret is as long. To look at all that follows each word in such a run would take
        # for ever, and the next word is looked at for its own sake.
        end = min(start + _LONGEST, scan.next_announced(start))
    follower = _compiled(_NEXT_FIELD).search(text, start, end)
    end = follower.start() if follower else end
    return start, start + len(_trim(_before_cjk(text[start:end])))


def _before_cjk(value: str) -> str:
    """Stop at the letters and punctuation that follow a value without a space."""
    if value.isascii():
        return value
    return value[: next((i for i, c in enumerate(value) if c >= _CJK), len(value))]


def _trim(value: str) -> str:
    """Drop the punctuation of the sentence or the brackets around a bare value."""
    while value and value[-1] in ".,;:*)]}>":
        opener = {")": "(", "]": "[", "}": "{"}.get(value[-1])
        if opener and opener in value:
            break
        value = value[:-1]
    return value


def _looks_secret(value: str, kind: str) -> bool:
    """Tell a real secret from a placeholder, a word, a reference or a setting."""
    if not 6 <= len(value) <= 4096 or value.lower() in _NOT_SECRETS:
        return False
    if value.isalpha() or (kind == "password" and not _compiled(_NOT_A_WORD).search(value)):
        return False
    if len(value.split()) != 1 or _is_template(value):
        return False
    if kind == "password":
        return value.isdigit() or any(c.isalpha() for c in value)
    return len(value) >= 8 and any(map(_is_random, _pieces(value)))


def _pieces(value: str) -> list[str]:
    return _compiled(_PIECE).findall(value)


def _is_random(piece: str) -> bool:
    runs = _compiled(_RUN).findall(piece)
    digits = sum(map(str.isdigit, piece))
    if digits == len(piece) or piece.lower() in _NOT_SECRETS:
        return False
    chopped = len(runs) / len(piece)
    if digits and len(runs) >= 3:
        return len(piece) < 12 or chopped >= 0.25
    return (digits >= 5 and len(piece) >= 10) or (len(piece) >= 16 and chopped > 0.3)


def _is_wordy(token: str) -> bool:
    """Tell whether a token reads as words: its runs of one letter case are long."""
    runs = _compiled(_RUN).findall(token)
    letters = sum(map(len, runs))
    numbers = sum(run.isdigit() for run in runs)
    ratio = len(runs) / max(1, letters)
    return ratio < 0.25 or (ratio < 0.36 and numbers < 3)


def _find_high_entropy(scan: _Scan) -> None:
    text = _without_taken(scan)
    runs = [m for m in _compiled(_LONG_RUN).finditer(text) if _is_high_entropy(m[0])]
    if runs and "://" in text:
        for url in _compiled(_URL).finditer(text):
            scan.hide(*url.span(), _IN_URL)
    for run in runs:
        if scan.mask[run.start()] != _IN_URL and not _is_labelled_harmless(scan, run.start()):
            scan.take(*run.span(), "high-entropy")


def _is_labelled_harmless(scan: _Scan, at: int) -> bool:
    label = scan.lower[max(0, at - 24) : at].rpartition("\n")[2]
    return _mentions(label, _HARMLESS_LABELS)


def _without_taken(scan: _Scan) -> str:
    if not scan.mask.count(_TAKEN):
        return scan.text
    pieces: list[str] = []
    at = 0
    for match in re.finditer(rb"\x01+", scan.mask):
        pieces += (scan.text[at : match.start()], "]" * (match.end() - match.start()))
        at = match.end()
    return "".join((*pieces, scan.text[at:]))


def _is_high_entropy(run: str) -> bool:
    token = run.strip("=-_/+")
    if len(token) < 28 or len(set(token)) < 15 or _is_hex(token) or _is_name(token):
        return False
    classes = (str.islower, str.isupper, str.isdigit)
    return all(any(map(test, token)) for test in classes) and not _is_wordy(token)


def _is_hex(token: str) -> bool:
    return not token.lower().removeprefix("0x").strip("0123456789abcdef")


def _is_name(token: str) -> bool:
    """Tell whether a token is a path or a hyphenated name: many joints, or joints and a word."""
    joints = sum(map(token.count, "/_-"))
    if joints * 7 >= len(token):
        return True
    return joints >= 2 and max(map(len, _compiled(_RUN).findall(token)), default=0) >= 8


def _lower(text: str) -> str:
    """Lower-case a text without moving any position."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _replace(text: str, found: list[_Span], done: list[_Span]) -> tuple[str, list[_Span]]:
    """Put markers in place of the found spans and carry the earlier markers along."""
    pieces: list[str] = []
    placed: list[_Span] = []
    at = length = 0
    for span in sorted(found + done):
        if span.start < at:
            continue
        marker = f"[REDACTED:{span.kind}]"
        length += span.start - at
        pieces += (text[at : span.start], marker)
        placed.append(_Span(length, length + len(marker), span.kind))
        length += len(marker)
        at = span.end
    pieces.append(text[at:])
    return "".join(pieces), placed


def _quote_frontmatter(text: str) -> str:
    """Quote a frontmatter value that begins with a marker, which YAML would read as a list."""
    lines = text.split("\n")
    if lines[0].lstrip("\ufeff").rstrip() != "---":
        return text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            break
        lines[number] = _quote_value(line)
    return "\n".join(lines)


def _quote_value(line: str) -> str:
    head, marker, rest = line.partition("[REDACTED:")
    if not marker or not head.rstrip().endswith((":", "-")) or not head.endswith((" ", "\t")):
        return line
    value, hash_mark, comment = (marker + rest).partition(" #")
    content = value.rstrip()
    escaped = content.replace("\\", "\\\\").replace('"', '\\"')
    return f'{head}"{escaped}"{value[len(content) :]}{hash_mark}{comment}'


def _searched() -> Iterator[str]:
    """List every pattern that is searched for in a whole text, for the test of linearity."""
    yield from (rule.pattern for rule in (*_TOKENS, *_CONTEXTUAL, *_PUBLIC))
    yield from (_URL, _KEY_BEGIN, _KEY_END, _NEXT_FIELD, _LONG_RUN, _PIECE, _RUN, _MARKER)
    yield _NOT_A_WORD


def _anchored() -> Iterator[str]:
    """List every pattern that is tried at one position only."""
    yield from (_TEMPLATE, _KEY_BODY, _KEY_GAP + _KEY_END, _LINE_END)
    yield from (_SEPARATOR, _FLAG_SEPARATOR, _QUOTED, _BARE)
