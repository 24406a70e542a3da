"""How large a text is to a model, and as much of one as there is room for."""

from __future__ import annotations


def count_tokens(text: str) -> int:
    """About how many tokens a model sees in a text; it errs on the high side."""
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return -(-plain // 4) + (len(text) - plain) + text.count("\n") // 2


def truncate(text: str, room: int) -> str:
    """As much of a text as the room allows, to the end of a sentence or a word."""
    if count_tokens(text) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_tokens(text[:middle]) < room else (low, middle - 1)
    kept = text[:low]
    end = max(kept.rfind(mark) for mark in (". ", "\n", "。", "! ", "? "))
    kept = kept[: end + 1] if end > low // 2 else kept.rpartition(" ")[0] or kept
    return f"{kept.rstrip()} …"


def format_size(number: int) -> str:
    """A size as people say it."""
    if number < 1024:
        return f"{number} B"
    amount, unit = number / 1024, "KB"
    for larger in ("MB", "GB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"
