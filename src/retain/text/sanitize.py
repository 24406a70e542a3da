"""Keep stored text from acting on its reader: a terminal, a person who approves, a prompt.

| to | use |
|---|---|
| store text | `strip_invisible` |
| print text | `visible`, `flat` (one line), `visible_json` |
| have a person approve it | `reveal` |
| put it into a prompt | `escape_markup`, `escape_fences`, `fence` |
"""

from __future__ import annotations

import json
import re

# Sets of characters, as they stand between the brackets of a pattern. The patterns are compiled
# when a text needs them: plain text, which nearly every text is, never does.
_CONTROLS = r"\x00-\x1f\x7f-\x9f"
_BIDI = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SURROGATES = r"\ud800-\udfff"
_SELECTORS = r"\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE = (
    rf"\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDI}{_SURROGATES}\u00ad\u034f\u115f\u1160\u17b4\u17b5\u200b\u2060-\u206f"
    r"\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e001f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
)
_SOMETIMES_NEEDED = rf"\u200c\u200d{_SELECTORS}\u180b-\u180f\U000e0020-\U000e007f"
_ACTING = rf"{_CONTROLS}{_BIDI}\u2028\u2029{_SURROGATES}\U000e0000-\U000e007f"
_EMOJI = (
    r"\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe"
    r"\u2600-\u27bf\u2934\u2935\u2b05-\u2b55\u3030\u303d\u3297-\u3299\U0001f000-\U0001faff"
)
# Arabic to N'Ko, Indic to Sinhala, Tibetan and Myanmar, Khmer, Mongolian, Arabic forms.
_JOINING = (
    r"\u0610-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u180a\u1810-\u18af\ufb50-\ufdff"
    r"\ufe70-\ufefc"
)
_VIRAMAS = r"\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_IDEOGRAPHS = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"
# England, Scotland and Wales: the only flags in use that are spelled with TAG characters.
_FLAGS = "|".join(
    ["".join([chr(0xE0000 + ord(c)) for c in region]) for region in ("gbeng", "gbsct", "gbwls")]
)
_NEEDED = (
    rf"(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])"
    rf"|(?<=[{_VIRAMAS}])\u200d"  # a half form, whatever follows
    rf"|(?:(?<=[{_EMOJI}])|(?<=[{_EMOJI}]\ufe0f))\u200d(?=[{_EMOJI}])"
    rf"|(?<=\U0001f3f4)(?:{_FLAGS})\U000e007f"
    r"|(?<=[\u1810-\u18af])[\u180b-\u180f]"
    rf"|(?<=[{_EMOJI}])[\ufe0e\ufe0f]|[\ufe0e\ufe0f](?=\u20e3)"
    rf"|(?<=[{_IDEOGRAPHS}])[{_SELECTORS}]"
)


def strip_invisible(text: str) -> str:
    """Remove characters a reader cannot see, except where a script or an emoji needs them."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    if not re.search(f"[{_INVISIBLE}{_SOMETIMES_NEEDED}\u2028\u2029]", text):
        return text  # the pattern below takes 2 ms to compile
    text = re.sub(f"[{_INVISIBLE}]", "", text)
    # A space, not a newline: removing something must never start a line that was not there.
    text = text.replace("\u2028", " ").replace("\u2029", " ")
    return re.sub(rf"({_NEEDED})|[{_SOMETIMES_NEEDED}]", r"\1", text)


def visible(text: str, *, keep_newlines: bool = True) -> str:
    """Show every character that could act on a terminal as an escape such as `\\x1b`."""
    flat = text.replace("\n", "").replace("\t", "") if keep_newlines else text
    if flat.isprintable():
        return text
    acting = set(re.findall(f"[{_ACTING}]", flat))
    return text.translate({ord(char): escape(char) for char in acting})


def reveal(line: str, *, is_command: bool = False) -> str:
    """Show what cannot be seen as an escape, for a person who is to approve the whole line.

    In a command all but plainly seen characters and the plain space are escaped.
    """
    more = _SOMETIMES_NEEDED if is_command else ""
    odd = set(re.findall(f"[{_ACTING}{_INVISIBLE}{more}]", line))
    if is_command:
        odd.update(char for char in set(line) if not char.isprintable())
    return line.translate({ord(char): escape(char) for char in odd})


def flat(text: str, most: int = 300) -> str:
    """Put a text on one line of at most that length, unable to act on a terminal."""
    # Splitting all of a megabyte to show one line of it would be slow.
    line = visible(" ".join(text[: most * 8].split()), keep_newlines=False)
    return shorten(line, most)


def shorten(text: str, most: int) -> str:
    """A text no longer than that; one that is cut ends after a word, and with a sign."""
    if len(text) <= most:
        return text
    kept = text[:most].rpartition(" ")[0].rstrip(" ,;:")
    # A word longer than half of it, or a script without spaces, is cut where it must be.
    return f"{kept if 2 * len(kept) > most else text[: most - 1]}…"


def escape(char: str) -> str:
    """A character as an escape that people and YAML read, such as `\\x1b`."""
    return char.encode("unicode_escape").decode()


def visible_json(text: str) -> str:
    """Escape the same characters in serialised JSON without changing the value it holds."""
    if text.isprintable():
        return text
    # Below the space only the line breaks and tabs between values can occur in valid JSON.
    acting = {char for char in re.findall(f"[{_ACTING}]", text) if char > " "}
    escapes = {ord(char): json.dumps(char)[1:-1] for char in acting}
    return text.translate({**escapes, 0x7F: r"\u007f"})


# Every fence a prompt has: no text inside one may look like the end or the start of another.
_FENCE = (
    r"(?i)<(?=[\s/]*(?:recalled-memories|memory-context|past-conversations|known-facts"
    r"|project-instructions|project-notes|earlier-in-this-conversation|conversation"
    r"|available-skills|skill))"
)


def escape_markup(text: str) -> str:
    """Make a text unable to open or close any tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_fences(text: str) -> str:
    """Make a text unable to hide anything, or to open or close a fence of a prompt."""
    return re.sub(_FENCE, "&lt;", strip_invisible(text))


def fence(mark: str, note: str, text: str, /, **facts: str) -> str:
    """Put a text of others between marks it cannot close; note and facts say what it is."""
    import hashlib  # loads OpenSSL: 10 ms that hooks, which use this module, do not have

    text = escape_fences(text).strip("\n")
    # Its own digest is the one mark that no text inside can contain.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    attributes = [f' {name}="{_attribute(value)}"' for name, value in facts.items()]
    opening = f'<{mark} id="{digest}"{"".join(attributes)} note="{note}">'
    return f'{opening}\n{text}\n</{mark} id="{digest}">'


def _attribute(text: str) -> str:
    return " ".join(escape_fences(text).split()).translate({34: "'", 60: "&lt;", 62: "&gt;"})
