"""Keep stored text from acting on whoever reads it: invisible and control characters."""

from __future__ import annotations

__all__ = ["escaped", "flat", "revealed", "spelled", "strip_invisible", "visible", "visible_json"]

_Ranges = tuple[tuple[int, int], ...]

_CONTROLS: _Ranges = ((0x00, 0x1F), (0x7F, 0x9F))
_BIDI: _Ranges = ((0x61C, 0x61C), (0x200E, 0x200F), (0x202A, 0x202E), (0x2066, 0x2069))
_LINE_SEPARATORS: _Ranges = ((0x2028, 0x2029),)
_SURROGATES: _Ranges = ((0xD800, 0xDFFF),)
_TAGS: _Ranges = ((0xE0000, 0xE007F),)
_SELECTORS: _Ranges = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
_JOINERS: _Ranges = ((0x200C, 0x200D),)
_MONGOLIAN_SELECTORS: _Ranges = ((0x180B, 0x180F),)
_INVISIBLE: _Ranges = (
    *_CONTROLS, *_BIDI, *_SURROGATES, (0xAD, 0xAD), (0x34F, 0x34F), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x200B, 0x200B), (0x2060, 0x206F), (0x3164, 0x3164), (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A),
    (0xE0000, 0xE001F), (0xE0080, 0xE00FF), (0xE01F0, 0xE0FFF),
)  # fmt: skip
_SOMETIMES_NEEDED: _Ranges = (*_JOINERS, *_SELECTORS, *_MONGOLIAN_SELECTORS, (0xE0020, 0xE007F))
_ACTING: _Ranges = (*_CONTROLS, *_BIDI, *_LINE_SEPARATORS, *_SURROGATES, *_TAGS)

_EMOJI: _Ranges = (
    (0xA9, 0xA9), (0xAE, 0xAE), (0x203C, 0x203C), (0x2049, 0x2049), (0x2122, 0x2122),
    (0x2139, 0x2139), (0x2194, 0x21AA), (0x231A, 0x23FF), (0x24C2, 0x24C2), (0x25AA, 0x25FE),
    (0x2600, 0x27BF), (0x2934, 0x2935), (0x2B05, 0x2B55), (0x3030, 0x3030), (0x303D, 0x303D),
    (0x3297, 0x3299), (0x1F000, 0x1FAFF),
)  # fmt: skip
# Arabic to N'Ko, Indic to Sinhala, Tibetan and Myanmar, Khmer, Mongolian, Arabic forms.
_JOINING: _Ranges = (
    (0x610, 0x8FF), (0x900, 0xDFF), (0xF00, 0x109F), (0x1780, 0x180A), (0x1810, 0x18AF),
    (0xFB50, 0xFDFF), (0xFE70, 0xFEFC),
)  # fmt: skip
_MONGOLIAN: _Ranges = ((0x1810, 0x18AF),)
_IDEOGRAPHS: _Ranges = ((0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))
_VIRAMAS = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_BLACK_FLAG = "\U0001f3f4"
# England, Scotland and Wales: the only flags in use that are spelled with TAG characters.
_FLAG_TAGS = tuple(
    "".join(chr(0xE0000 + ord(c)) for c in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)


def _within(char: str, ranges: _Ranges) -> bool:
    if char:
        code = ord(char)
        for first, last in ranges:
            if first <= code <= last:
                return True
    return False


def strip_invisible(text: str) -> str:
    """Remove characters a reader cannot see, except where a script or an emoji needs them."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    table: dict[int, str | None] = {
        ord(c): None for c in set(text) if c not in "\n\t" and _within(c, _INVISIBLE)
    }
    # A space, not a newline: removing something must never start a line that was not there.
    table.update({0x2028: " ", 0x2029: " "})
    text = text.translate(table)
    doubtful = {c for c in set(text) if _within(c, _SOMETIMES_NEEDED)}
    if not doubtful:
        return text
    return "".join(c for at, c in enumerate(text) if c not in doubtful or _is_needed(text, at))


def _is_needed(text: str, at: int) -> bool:
    char, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if char in "\u200c\u200d":
        return _joins(text, at, before, after)
    if _within(char, _TAGS):
        return _is_flag_tag(text, at)
    if _within(char, _MONGOLIAN_SELECTORS):
        return _within(before, _MONGOLIAN)
    if char in "\ufe0e\ufe0f" and (_within(before, _EMOJI) or after == "\u20e3"):
        return True
    return _within(before, _IDEOGRAPHS)


def _joins(text: str, at: int, before: str, after: str) -> bool:
    if _within(before, _JOINING) and _within(after, _JOINING):
        return True
    if text[at] == "\u200c" or not before:
        return False
    if before in _VIRAMAS:  # a half form, whatever follows
        return True
    base = text[at - 2 : at - 1] if before == "\ufe0f" else before
    return _within(base, _EMOJI) and _within(after, _EMOJI)


def _is_flag_tag(text: str, at: int) -> bool:
    flag = text.rfind(_BLACK_FLAG, max(0, at - 6), at)
    return flag >= 0 and text.startswith(_FLAG_TAGS, flag + 1)


def escaped(text: str) -> str:
    """Make a text unable to open or close a block of marks that it stands in."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def visible(text: str, *, keep_newlines: bool = True) -> str:
    """Show every character that could act on a terminal as an escape such as `\\x1b`."""
    flat = text.replace("\n", "").replace("\t", "") if keep_newlines else text
    if flat.isprintable():
        return text
    return text.translate({ord(c): _escape(c) for c in set(flat) if _within(c, _ACTING)})


def revealed(line: str) -> str:
    """Show also what cannot be seen as an escape: someone is to agree to the whole of a text."""
    line = visible(line, keep_newlines=False)
    return line.translate({ord(c): _escape(c) for c in set(line) if _within(c, _INVISIBLE)})


def spelled(line: str) -> str:
    """Show all but plainly seen characters and the plain space as escapes: it is to be run."""
    doubtful = (*_INVISIBLE, *_SOMETIMES_NEEDED)
    odd = {c for c in set(line) if not c.isprintable() or _within(c, doubtful)}
    return line.translate({ord(c): _escape(c) for c in odd})


def flat(text: str, most: int = 300) -> str:
    """A text on one line, no longer than that, whose characters cannot act on a terminal."""
    # Nobody reads all of a megabyte to show a line of it.
    line = visible(" ".join(text[: most * 8].split()), keep_newlines=False)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _escape(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return "\\n" if char == "\n" else "\\t"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible_json(text: str) -> str:
    """Escape the same characters in serialised JSON without changing the value it holds."""
    if text.isprintable():
        return text
    # Below the space only the line breaks and tabs between values can occur in valid JSON.
    acting = (c for c in set(text) if c > " " and _within(c, _ACTING))
    return text.translate({ord(c): _escape_json(c) for c in acting})


def _escape_json(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
