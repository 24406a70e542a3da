"""A host's configuration file: JSON or TOML, parsed, changed as data and written back."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from retain.errors import Unreadable

_BOM: Final = "\ufeff"
_COMMENT: Final = re.compile(r"(?:^|[,{\[])[ \t]*(?://|/\*)", re.MULTILINE)
_INDENT: Final = re.compile(r'\n([ \t]+)"')
_MASK: Final = "***"
# Values below these keys are a server's secrets; a reference to a variable is none.
_SECRET_KEYS: Final = frozenset(("env", "environment", "headers", "http_headers", "auth", "oauth"))
_REFERENCE: Final = re.compile(r"(?:Bearer )?(?:\$\{(?:env:)?\w+\}|\{env:\w+\})")


def parse(text: str, *, is_toml: bool) -> Any:
    """The document in a file: a dict, or tomlkit's document, which keeps comments and order."""
    text = text.removeprefix(_BOM)
    if is_toml:
        import tomlkit
        from tomlkit.exceptions import TOMLKitError

        try:
            return tomlkit.parse(text)
        except (TOMLKitError, ValueError, RecursionError) as error:
            raise Unreadable(f"it is not valid TOML: {error}") from error
    if not text.strip():
        return {}
    try:
        document = json.loads(text, object_pairs_hook=_refuse_repeated_keys)
    except (ValueError, RecursionError) as error:
        if _COMMENT.search(text):
            raise Unreadable("it has comments, which a change would lose") from error
        raise Unreadable(f"it is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise Unreadable("it is not an object")
    return document


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key stands twice in it")
    return document


def render(document: Any, like: str, *, is_toml: bool) -> str:
    """The document as text, with the indentation and the line ends of another text."""
    if is_toml:
        import tomlkit

        text = tomlkit.dumps(document)
    else:
        indent: str | int | None = 2
        if found := _INDENT.search(like):
            indent = found[1]
        elif like.strip() and "\n" not in like.strip() and like.strip(f"{_BOM}{{}} \r\n"):
            indent = None  # it is all on one line
        text = json.dumps(document, indent=indent, ensure_ascii=False)
        text += "\n" if not like.strip() or like.endswith("\n") else ""
    if "\r\n" in like:
        text = re.sub(r"\r?\n", "\r\n", text)
    return (_BOM if like.startswith(_BOM) else "") + text


def plain(document: Any) -> dict[str, Any]:
    """The document as plain values."""
    values: dict[str, Any] = document.unwrap() if hasattr(document, "unwrap") else document
    return values


def mask(value: Any, *, is_secret: bool = False) -> Any:
    """Plain values as a person may see them: without the secrets that servers are given."""
    if isinstance(value, dict):
        return {
            key: mask(inner, is_secret=is_secret or key in _SECRET_KEYS)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [mask(inner, is_secret=is_secret) for inner in value]
    if not is_secret or value is None or isinstance(value, bool):
        return value
    return value if _REFERENCE.fullmatch(str(value)) else _MASK
