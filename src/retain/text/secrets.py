"""Keep secrets out of the bank: each is replaced by `[REDACTED:kind]` on the way in.

What a secret looks like is data, in `retain.text.secret_rules`. A pattern is compiled when a text
has one of its rule's words: to compile them all would cost more than the rest of a small write.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from retain.errors import LimitExceeded
from retain.text import secret_rules as data
from retain.text.sanitize import strip_invisible, visible

_MAX_PASSES = 8
_MAX_DEPTH = 200
_NEAR = 300  # characters before an argument among which its command must stand
_RUN = r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+"


class Redacted(NamedTuple):
    """A text without its secrets, and their kinds."""

    text: str
    kinds: tuple[str, ...]


def redact(text: str) -> Redacted:
    """Replace every secret in a text by `[REDACTED:kind]`."""
    clean, bare = _redact(text), strip_invisible(text)
    if bare != text and len((joined := _redact(bare)).kinds) > len(clean.kinds):
        return joined  # invisible characters split a secret, and whoever shows it joins it again
    return clean


def _redact(text: str) -> Redacted:
    kinds: list[str] = []
    # A secret glued to another one is seen once its neighbour is gone.
    for _ in range(_MAX_PASSES):
        pieces: list[str] = []
        at = 0
        for start, end, kind in _Scan(text).find():
            pieces += (text[at:start], f"[REDACTED:{kind}]")
            kinds.append(kind)
            at = end
        if not pieces:
            break
        text = "".join((*pieces, text[at:]))
    return Redacted(_quote_frontmatter(text) if kinds else text, tuple(kinds))


@lru_cache(maxsize=128)  # the same files are sent with every message
def redact_with_note(text: str) -> tuple[str, str]:
    """Replace the secrets of a text for a model, and say so in a note where there were any."""
    text, kinds = redact(text)
    what = "1 secret is" if len(kinds) == 1 else f"{len(kinds)} secrets are"
    return text, f"{what} not sent: {', '.join(sorted(set(kinds)))}" if kinds else ""


def redact_visible(text: str) -> Redacted:
    """Replace the secrets of a text and make it inert, for a person and a model to see.

    What cannot be seen is removed first: it could split a secret, which nobody would find then.
    """
    bare = redact(strip_invisible(text))
    if bare.kinds:
        # An escape that is shown splits a word as the character does that it stands for.
        text = re.sub(r"(?<=[!-~])[^\s!-~]+(?=[!-~])", lambda run: strip_invisible(run[0]), text)
    clean = redact(strip_invisible(visible(text)))
    return clean if len(clean.kinds) >= len(bare.kinds) else bare


def redact_value(value: object) -> tuple[object, tuple[str, ...]]:
    """Replace every secret in nested mappings, lists and strings, keys included."""
    kinds: list[str] = []
    return _redact_nested(value, "", kinds, 0), tuple(kinds)


def _redact_nested(value: object, label: str, kinds: list[str], depth: int) -> object:
    """Redact a value; `label` is the kind of secret that the key above it announces."""
    if depth > _MAX_DEPTH:
        raise LimitExceeded(
            f"A value is nested deeper than {_MAX_DEPTH} levels.",
            unchanged="Nothing was written.",
            hint="Flatten the value, or store it as text.",
        )
    if isinstance(value, str):
        clean, found = redact(value)
        if label and not found and _label_check(label)(value):
            clean, found = f"[REDACTED:{label}]", (label,)
        kinds.extend(found)
        return clean
    if isinstance(value, list | tuple):
        items = [_redact_nested(item, label, kinds, depth + 1) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        mapping: dict[object, object] = {}
        for key, item in value.items():
            name = _redact_nested(key, "", kinds, depth) if isinstance(key, str) else key
            inner = (_label_kind(key) if isinstance(key, str) else "") or label
            unique, count = name, 2
            while unique in mapping:
                unique, count = f"{name} ({count})", count + 1
            mapping[unique] = _redact_nested(item, inner, kinds, depth + 1)
        return mapping
    # A number that is someone's password is a long one, not a length or a count.
    if label == "password" and type(value) is int and abs(value) >= 100_000:
        kinds.append(label)
        return f"[REDACTED:{label}]"
    return value


def _label_kind(name: str) -> str:
    """Name the kind of secret that a mapping key, a column or a label announces, or nothing."""
    name = "_" + name.lower().strip(' \t\r"').rstrip("0123456789").rstrip("_-")
    for kind, labels in data.LABELS.items():
        if name.endswith(labels) or name.removesuffix("s").endswith(labels):
            return kind
    return ""


def _quote_frontmatter(text: str) -> str:
    """Quote a frontmatter value that begins with a marker, which YAML would read as a list."""
    head = _compile(r"(?s)\ufeff?---[ \t\r]{0,9}\n.*?\n(?:---|\.\.\.)").match(text)
    if not head:
        return text

    def quote(match: re.Match[str]) -> str:
        value = match[2].replace("\\", "\\\\").replace('"', '\\"')
        return f'{match[1]}"{value}"{match[3]}'

    line = r"(?m)^(.*?[:-][ \t]+)(\[REDACTED:.*?)([ \t\r]{0,9}(?:[ ]#.*)?)$"
    return _compile(line).sub(quote, head[0]) + text[head.end() :]


# Checks: real secrets and their look-alikes


def _is_literal(value: str) -> bool:
    """Tell a value from the word for one, and from what stands for one that is kept elsewhere."""
    folded = value.lower()
    return (
        len(set(value)) >= 4
        and folded not in ("pass", "password", "passwd", "secret")
        and not any(word in folded for word in data.PLACEHOLDERS)
        and not _compile(data.TEMPLATE).match(value)
    )


def _is_token(value: str) -> bool:
    """Tell a token from what only shows what one looks like: ghp_xxxxxxxx, sk-ant-your-key."""
    is_shown = "your-" in value or "your_" in value or "EXAMPLE" in value
    return len(set(value[-12:])) >= 3 and not is_shown


def _is_jwt(value: str) -> bool:
    parts = value.split(".")
    return len(parts) >= 3 and len(parts[0]) >= 10 and len(value) >= 30 and _is_token(value)


def _is_credential(value: str) -> bool:
    return _is_literal(value) and not value.isalpha()


def _is_mixed(value: str) -> bool:
    """Tell whether a prefixed value is random rather than a hyphenated name."""
    return any(map(str.isdigit, value)) and not _is_wordy(value) and _is_literal(value)


def _is_argument(value: str) -> bool:
    """Tell whether what follows a flag for passwords is one, not a port or a variable."""
    return len(value) >= 4 and bool(value.strip("0123456789:.")) and _is_literal(value)


def _is_set(value: str) -> bool:
    """Tell whether `NAME_PASSWORD=value` sets a password, however plain the value is."""
    folded = value.lower()
    is_name = "pass" in folded or "pwd" in folded or folded in data.SETTINGS
    return len(value) >= 6 and len(value.split()) == 1 and not is_name and _is_literal(value)


def _is_password(value: str) -> bool:
    """Tell a password from a word, a reference or a setting: it holds a digit or a symbol."""
    return (
        6 <= len(value) <= 4096
        and len(value.split()) == 1
        and (value.isdigit() or any(map(str.isalpha, value)))
        and bool(_compile(r"[^A-Za-z_./:,-]").search(value[:512]))
        and value.lower() not in data.ALGORITHMS
        and _is_literal(value)
    )


def _is_random(value: str) -> bool:
    """Tell a random value, as tokens and keys are, from a word, a reference or a setting."""
    if not 8 <= len(value) <= 4096 or len(value.split()) > 1 or not _is_literal(value):
        return False
    for piece in _compile(r"[A-Za-z0-9]{5,}").findall(value[:512]):
        digits, runs = sum(map(str.isdigit, piece)), len(_compile(_RUN).findall(piece))
        if digits == len(piece) or piece.lower() in data.ALGORITHMS:
            continue
        density = runs / len(piece)
        if digits and runs >= 3 and density >= 0.25:
            return True
        if (digits >= 5 and len(piece) >= 10 and runs < 3) or (len(piece) >= 16 and density > 0.3):
            return True
    return False


def _is_wordy(value: str) -> bool:
    """Tell whether a value reads as words: its runs of one letter case are long."""
    runs = _compile(_RUN).findall(value)
    ratio = len(runs) / max(1, sum(map(len, runs)))
    return ratio < 0.25 or (ratio < 0.36 and sum(map(str.isdigit, runs)) < 3)


def _is_high_entropy(run: str) -> bool:
    """Tell a random run from a hash, a path or a name."""
    token = run.strip("=-_/+")
    is_hex = not token.lower().removeprefix("0x").strip("0123456789abcdef")
    if len(token) < 28 or len(set(token)) < 15 or is_hex or "EXAMPLE" in token:
        return False
    # A path or a hyphenated name has many joints, or joints and a word.
    joints = sum(map(token.count, "/_-"))
    longest = max(map(len, _compile(_RUN).findall(token)), default=0)
    if joints * 7 >= len(token) or (joints >= 2 and longest >= 8):
        return False
    classes = (str.islower, str.isupper, str.isdigit)
    return all(any(map(test, token)) for test in classes) and not _is_wordy(token)


def _is_passphrase(value: str) -> bool:
    words = value.lower().replace("-", " ").split()
    return len(set(words)) >= 2 and data.FUNCTION_WORDS.isdisjoint(words) and _is_literal(value)


def _is_card(value: str) -> bool:
    """Tell a card's number from any other by its check digit (Luhn)."""
    digits = [int(c) for c in reversed(value) if c.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return len(set(digits)) > 1 and (sum(digits[::2]) + sum(doubled)) % 10 == 0


_Check = Callable[[str], bool]
# A rule names its check without the `_is_`.
_CHECKS: dict[str, _Check] = {
    check.__name__.removeprefix("_is_"): check
    for check in (
        _is_token, _is_jwt, _is_mixed, _is_literal, _is_credential, _is_argument, _is_set,
        _is_password, _is_random, _is_passphrase, _is_card, _is_high_entropy,
    )
}  # fmt: skip


def _label_check(kind: str) -> _Check:
    return _is_password if kind == "password" else _is_random


# Rules


class Rule(NamedTuple):
    """One way to know a secret; an empty kind marks what looks like one and is harmless."""

    kind: str
    words: tuple[str, ...]
    pattern: str
    check: _Check


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _read_rules(table: str) -> list[Rule]:
    rules = []
    for row in table.strip().replace("\n    ", "").splitlines():
        kind, check, listed, pattern = row.split(None, 3)
        words = tuple(listed.strip("*").replace("␣", " ").split("|"))  # * is for every text
        pattern = pattern.replace("«words»", f"(?:{'|'.join(map(re.escape, words))})")
        for name, part in data.PARTS.items():
            pattern = pattern.replace(f"«{name}»", part)
        rules.append(Rule(kind.strip("-") and kind, words, pattern, _CHECKS[check]))
    return rules


_TABLE = _read_rules(data.RULES)
KINDS = frozenset([*[rule.kind for rule in _TABLE], *data.LABELS]) - {""}
# Only our own kinds: a secret in a marker of someone's making is not safe.
_MARKERS = rf"\[REDACTED:(?:{'|'.join(KINDS)})\]"
_LABELLED = [
    Rule(kind, labels, rf"(?iu:{'|'.join(labels)}){data.LABELLED}", _label_check(kind))
    for kind, labels in data.LABELS.items()
]
RULES = (Rule("", ("[redacted:",), _MARKERS, _is_token), *_TABLE[:-3], *_LABELLED, *_TABLE[-3:])


class _Scan:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.taken = bytearray(len(text))
        self.spans: list[tuple[int, int, str]] = []

    def find(self) -> list[tuple[int, int, str]]:
        lower = self.text.lower()
        # A token is at least this long, so few of the words with capitals occur in a note.
        words = "\n".join([lower, *[word for word in self.text.split() if len(word) >= 20]])
        kinds = set()
        for rule in RULES:
            for word in rule.words:  # no function is called for a rule without one
                if word in words:
                    self._apply(rule, lower)
                    kinds.add(rule.kind)
                    break
        if not kinds.isdisjoint(data.LABELS):
            self._find_columns()
        return sorted(self.spans)

    def _apply(self, rule: Rule, lower: str) -> None:
        for match in _compile(rule.pattern).finditer(self.text):
            start, end = match.span(match.lastindex or 0)
            if not rule.kind:
                self.taken[start:end] = b"\x01" * (end - start)
            elif rule.check is not _is_argument or any(
                word in lower[max(0, start - _NEAR) : start] for word in rule.words
            ):
                self._take(start, end, rule.kind, rule.check)

    def _take(self, start: int, end: int, kind: str, check: _Check) -> None:
        """Record a secret, unless it fails its check or something was found there before."""
        value = self.text[start:end]
        if not check(value):
            return
        before = self.text[max(0, start - 12) : start]
        if before.rstrip().endswith(('":', "':", "[")) and not value.strip("0123456789.eE+-"):
            return  # a number of JSON, in whose place a marker would be no value
        slash = self.text.rfind("\\", max(0, start - 5), start)
        if slash >= 0:  # a JSON escape stays whole
            escape = _compile(r"(?s)\\(?:u[0-9a-fA-F]{4}|.)").match(self.text, slash)
            start = max(start, escape.end()) if escape else start
        if start < end and self.taken.find(1, start, end) < 0:
            self.taken[start:end] = b"\x01" * (end - start)
            self.spans.append((start, end, kind))

    def _find_columns(self) -> None:
        """Take the cells below a heading that announces a secret, in Markdown tables and CSV."""
        at = width = 0
        above: list[str] = []
        columns: dict[int, str] = {}
        for line in self.text.split("\n"):
            separator = next((mark for mark in "|\t;," if mark in line), "\n")
            cells = line.split(separator)
            heading: list[str] = []
            if separator == "|" and not line.strip(" \t|:-"):
                heading = above
            elif separator != "|" and not columns and _is_heading(cells):
                heading = cells
            if heading or len(cells) != width:
                columns = {n: kind for n, cell in enumerate(heading) if (kind := _label_kind(cell))}
                width = len(heading)
            start = at
            for number, cell in enumerate(() if heading else cells):
                value = cell.strip(" \t\r`*\"'")
                if number in columns and value and not {*value} & {'"', "'", "\\"}:
                    first, kind = start + cell.index(value), columns[number]
                    self._take(first, first + len(value), kind, _label_check(kind))
                start += len(cell) + 1
            above = cells
            at += len(line) + 1


def _is_heading(cells: list[str]) -> bool:
    """Tell the first line of a CSV file: nothing but names."""
    return len(cells) > 1 and all(
        _compile(r'[\w-]{1,40}|"[\w -]{1,40}"').fullmatch(cell.rstrip("\r")) for cell in cells
    )
