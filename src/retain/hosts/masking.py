"""What a person may see of a configuration on a screen: not the secrets that servers are given."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["MASK", "is_secret", "masked", "masks"]

MASK: Final = "***"

# What a server is given under these names is its own business, whatever it looks like.
_SECRET: Final = frozenset(("env", "environment", "headers", "http_headers", "auth", "oauth"))
_REFERENCE: Final = re.compile(r"(?:Bearer )?(?:\$\{(?:env:)?\w+\}|\{env:\w+\})")


def is_secret(key: str) -> bool:
    """Whether what stands under a key is not to be shown."""
    return key in _SECRET


def masks(value: object) -> bool:
    """Whether a value under such a key says anything: the name of a variable is no secret."""
    is_reference = isinstance(value, str) and _REFERENCE.fullmatch(value)
    return isinstance(value, str | int | float) and not isinstance(value, bool) and not is_reference


def masked(value: Any, *, hides: bool = False) -> Any:
    """A value with what is under such keys hidden."""
    if isinstance(value, dict):
        return {key: masked(one, hides=hides or is_secret(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [masked(one, hides=hides) for one in value]
    return MASK if hides and masks(value) else value
