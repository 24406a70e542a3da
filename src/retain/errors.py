"""Everything Retain raises on purpose.

RetainError                 exit 1
├── UsageError              exit 2   the call itself is wrong
│   ├── BadName             exit 2   an id or a collection that cannot name a memory
│   └── BadFilter           exit 2   a --filter expression that cannot be read
├── NotFound                exit 3   no such memory, version, trash entry or bank
├── Conflict                exit 4   someone else wrote first, or the name is taken
│   └── Ambiguous           exit 4   one id in several collections
├── NotSaved                exit 1   the disk refused; the old file is intact
├── Busy                    exit 1   another process held the bank's lock for too long
├── Unreadable              exit 1   a file that cannot be parsed, and so is never modified
├── Unsafe                  exit 1   a link or a special file where a plain one belongs
├── LimitExceeded           exit 1   larger than Retain stores
├── ConfigError             exit 1   a setting that cannot be used
├── NewerFormat             exit 1   made by a later Retain, left untouched
├── HistoryError            exit 1   git or the numbered versions cannot answer
└── ImportRefused           exit 1   an archive or a store that cannot be taken over whole
"""

from __future__ import annotations

__all__ = [
    "Ambiguous",
    "BadFilter",
    "BadName",
    "Busy",
    "ConfigError",
    "Conflict",
    "HistoryError",
    "ImportRefused",
    "LimitExceeded",
    "NewerFormat",
    "NotFound",
    "NotSaved",
    "RetainError",
    "Unreadable",
    "Unsafe",
    "UsageError",
]


class RetainError(Exception):
    """A failure a person can act on: what happened, what was left alone, what to run next."""

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, unchanged: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.unchanged = unchanged
        self.hint = hint


class UsageError(RetainError):
    """The call itself is wrong."""

    exit_code = 2
    code = "usage"


class BadName(UsageError):
    """An id or a collection that cannot name a memory."""

    code = "bad-name"


class BadFilter(UsageError):
    """A filter expression that cannot be read."""

    code = "bad-filter"


class NotFound(RetainError):
    """No such memory, version, trash entry or bank."""

    exit_code = 3
    code = "not-found"


class Conflict(RetainError):
    """Someone else wrote first, or the name is taken."""

    exit_code = 4
    code = "conflict"


class Ambiguous(Conflict):
    """One id in several collections."""

    code = "ambiguous"


class NotSaved(RetainError):
    """The disk refused a write; the old file is intact."""

    code = "not-saved"


class Busy(RetainError):
    """Another process held the bank's lock for too long."""

    code = "busy"


class Unreadable(RetainError):
    """A file that cannot be parsed, and so is never modified."""

    code = "unreadable"


class Unsafe(RetainError):
    """A link or a special file where a plain file or directory belongs."""

    code = "unsafe"


class LimitExceeded(RetainError):
    """Larger than Retain stores."""

    code = "limit"


class ConfigError(RetainError):
    """A setting that cannot be used."""

    code = "config"


class NewerFormat(RetainError):
    """Made by a later Retain, left untouched."""

    code = "newer-format"


class HistoryError(RetainError):
    """Git or the numbered versions cannot answer."""

    code = "history"


class ImportRefused(RetainError):
    """An archive or a store that cannot be taken over whole."""

    code = "import"
