"""Keep secrets out of the bank: each is replaced by `[REDACTED:kind]` on the way in."""

from __future__ import annotations

from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from retain.errors import LimitExceeded
from retain.text import secret_rules as rules
from retain.text.sanitize import strip_invisible, visible
from retain.text.secret_rules import Check, compiled

_MAX_PASSES = 8
_MAX_DEPTH = 200


class Redacted(NamedTuple):
    """A text without its secrets, and the kind of each one in order of appearance."""

    text: str
    kinds: tuple[str, ...]


class _Span(NamedTuple):
    start: int
    end: int
    kind: str


def redact(text: str) -> Redacted:
    """Replace every secret in a text by `[REDACTED:kind]`."""
    clean = text
    replaced: list[_Span] = []
    # A secret glued to another one is seen once its neighbour is gone.
    for _ in range(_MAX_PASSES):
        spans = _Scan(clean).find()
        if not spans:
            break
        clean, replaced = _replace(clean, spans, replaced)
    if not replaced:
        return Redacted(text, ())
    return Redacted(_quote_frontmatter(clean), tuple(span.kind for span in replaced))


@lru_cache(maxsize=128)  # the same files are sent with every message
def redact_with_note(text: str) -> tuple[str, str]:
    """Replace the secrets of a text for a model, and say so in a note where there were any."""
    text, kinds = redact(text)
    what = "1 secret is" if len(kinds) == 1 else f"{len(kinds)} secrets are"
    return text, f"{what} not sent: {', '.join(sorted(set(kinds)))}" if kinds else ""


# What acts on a screen, in the middle of a word.
_ACTING_INSIDE = (
    r"(?<=[!-~])[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e"
    r"\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]+(?=[!-~])"
)


def redact_visible(text: str) -> Redacted:
    """Replace the secrets of a text and make it inert, for a person and a model to see.

    What cannot be seen is removed first: it could split a secret, which nobody would find then.
    """
    bare = redact(strip_invisible(text))
    if bare.kinds:
        # An escape that is shown splits a secret as the character does that it stands for.
        text = compiled(_ACTING_INSIDE).sub("", text)
    clean = redact(strip_invisible(visible(text)))
    return clean if len(clean.kinds) >= len(bare.kinds) else bare


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
        clean, found = redact(value)
        if label and not found and rules.CHECKS[label](value):
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
    name = "_" + name.lower().strip().rstrip("0123456789").rstrip("_-")
    name = name if name.endswith("pass") else name.removesuffix("s")
    if name.endswith("key"):
        is_secret = name.removesuffix("key").rstrip("_- ").endswith(rules.KEY_OWNERS)
        return "api-key" if is_secret else ""
    for kind, words in rules.LABELS.items():
        if name.endswith(words):
            return kind
    return ""


class _Scan:
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = text.lower()
        if len(self.lower) != len(text):  # a few letters become two: no position may move
            self.lower = "".join([c.lower() if len(c.lower()) == 1 else c for c in text])
        self.taken = bytearray(len(text))
        self.spans: list[_Span] = []

    def find(self) -> list[_Span]:
        # A token is at least this long, so an ordinary note leaves next to nothing to search.
        long_words = "\n".join([word for word in self.text.split() if len(word) >= 20])
        for marker in compiled(r"\[REDACTED:([a-z0-9-]{1,32})\]").finditer(self.text):
            # Only our own kinds: a secret in a marker of someone's making is not safe.
            if marker[1] in rules.KINDS:
                self._hide(*marker.span())
        self._apply(rules.BLOCKS, self.text)
        self._apply(rules.TOKENS, long_words)
        self._apply(rules.PHRASES, self.lower)
        self._find_labelled()
        if "|" in self.text and "---" in self.text:
            self._find_columns()
        if long_words:
            self._find_high_entropy()
        return sorted(self.spans)

    def _hide(self, start: int, end: int) -> None:
        self.taken[start:end] = b"\x01" * (end - start)

    def _take(self, start: int, end: int, kind: str, check: Check) -> None:
        """Record a secret, unless it fails its check or something was found there before."""
        value = self.text[start:end]
        if not check(value):
            return
        before = self.text[max(0, start - 12) : start].rstrip()
        if before.endswith(('":', "':", "[")) and not value.strip("0123456789.eE+-"):
            return  # a number of JSON, in whose place a marker would be no value
        slash = self.text.rfind("\\", max(0, start - 5), start)
        if slash >= 0:  # a JSON escape stays whole
            is_code = self.text[slash + 1] == "u" and rules.is_hex(self.text[slash + 2 : slash + 6])
            start = max(start, slash + (6 if is_code else 2))
        if start < end and self.taken.find(1, start, end) < 0:
            self._hide(start, end)
            self.spans.append(_Span(start, end, kind))

    def _apply(self, table: tuple[rules.Rule, ...], where: str) -> None:
        """Apply the rules of a table of which a word occurs; no function is called for others."""
        for rule in table:
            for word in rule.words:
                if word in where:
                    break
            else:
                continue
            for match in compiled(rule.pattern).finditer(self.text):
                start, end = match.span(match.lastindex or 0)
                if not rule.kind:
                    self._hide(start, end)
                    continue
                before = self.lower[max(0, start - 300) : start]
                is_told = rule.check is not rules.is_argument
                if not is_told and not any(word in before for word in rule.words):
                    continue
                if rule.check in rules.CHECKS_OF_BARE_VALUES:
                    end = self._trim(start, end)
                self._take(start, end, rule.kind, rule.check)

    def _trim(self, start: int, end: int) -> int:
        """Move the end of a bare value before the next field and a sentence's punctuation."""
        if self.text[end : end + 1] in ('"', "'", "`", "\\") and self.text[start - 1] in "\"'`":
            return end
        field = compiled(rules.NEXT_FIELD).search(self.text, start, end)
        value = self.text[start : field.start() if field else end]
        while value and value[-1] in ".,;:*)]}>":
            opener = {")": "(", "]": "[", "}": "{"}.get(value[-1])
            if opener and opener in value:
                break
            value = value[:-1]
        return start + len(value)

    def _find_labelled(self) -> None:
        """Take the values after words that announce a secret."""
        for word in rules.EVERY_LABEL:
            if word in self.lower:
                break
        else:
            return
        labels = list(compiled(rules.LABEL).finditer(self.lower))
        run_end = 0
        for label, following in zip_longest(labels, labels[1:]):
            start = label.end()
            if self.text[start : start + 1] in ('"', "'", "`", "\\"):
                quoted = compiled(rules.QUOTED).match(self.text, start)
                start, end = quoted.span(quoted.lastindex or 0) if quoted else (0, 0)
            else:
                if start >= run_end:  # a long run is looked at once, however many labels it has
                    run = compiled(rules.BARE + "*+").match(self.text, start)
                    run_end = run.end() if run else start
                end = run_end
                if end - start >= rules.LONGEST:
                    end = min(start + rules.LONGEST, following.start() if following else end)
                end = self._trim(start, end)
            kind = _label_kind(self.lower[max(0, label.start() - 12) : label.end(1)])
            if kind:
                self._take(start, end, kind, rules.CHECKS[kind])

    def _find_columns(self) -> None:
        """Take the cells of a Markdown table below a heading that announces a secret."""
        at = 0
        columns: dict[int, str] = {}
        heading: list[str] = []
        for line in self.text.split("\n"):
            cells = line.split("|")
            if len(cells) < 3:
                columns = {}
            elif not line.strip(" \t|:-"):
                columns = {n: kind for n, cell in enumerate(heading) if (kind := _label_kind(cell))}
            start = at
            for number, cell in enumerate(cells if columns else ()):
                value = cell.strip(" \t`*")
                if number in columns and value and not {*value} & {'"', "'", "\\"}:
                    first = start + cell.index(value)
                    kind = columns[number]
                    self._take(first, first + len(value), kind, rules.CHECKS[kind])
                start += len(cell) + 1
            heading = cells
            at += len(line) + 1

    def _find_high_entropy(self) -> None:
        """Take long random runs that lie in no address and have no harmless label."""
        for match in compiled(rf"{rules.URL}|({rules.LONG_RUN})").finditer(self.text):
            if match[1] and rules.is_high_entropy(match[1]):
                start, end = match.span()
                label = self.lower[max(0, start - 24) : start].rpartition("\n")[2]
                if not any(word in label for word in rules.HARMLESS_LABELS):
                    self._take(start, end, "high-entropy", rules.is_high_entropy)


def _replace(text: str, spans: list[_Span], replaced: list[_Span]) -> tuple[str, list[_Span]]:
    """Put markers in place of spans; return the text and where all markers of ours are in it."""
    pieces: list[str] = []
    markers: list[_Span] = []
    at = length = 0
    for span in sorted(spans + replaced):
        marker = f"[REDACTED:{span.kind}]"
        length += span.start - at
        pieces += (text[at : span.start], marker)
        markers.append(_Span(length, length + len(marker), span.kind))
        length += len(marker)
        at = span.end
    return "".join((*pieces, text[at:])), markers


def _quote_frontmatter(text: str) -> str:
    """Quote a frontmatter value that begins with a marker, which YAML would read as a list."""
    lines = text.split("\n")
    if lines[0].lstrip("\ufeff").rstrip() != "---":
        return text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() in ("---", "..."):
            break
        head, marker, rest = line.partition("[REDACTED:")
        if marker and head.rstrip().endswith((":", "-")) and head.endswith((" ", "\t")):
            value, hash_mark, comment = (marker + rest).partition(" #")
            content = value.rstrip()
            escaped = content.replace("\\", "\\\\").replace('"', '\\"')
            spaces = value[len(content) :]
            lines[number] = f'{head}"{escaped}"{spaces}{hash_mark}{comment}'
    return "\n".join(lines)
