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
├── ImportRefused           exit 1   an archive or a store that cannot be taken over whole
└── RecordError             exit 1   a typed memory that breaks a rule of its category
"""

from __future__ import annotations

from collections.abc import Mapping

_MAX_FAULTS = 100  # of a record, told one by one in an answer's details
_MAX_FAULT_CHARACTERS = 800  # of each part of one


class RetainError(Exception):
    """A failure a person can act on: what happened, what was left alone, what to run next."""

    exit_code = 1
    code = "error"
    # What is said where the one who raises it knows nothing better; that nothing was changed is
    # claimed only for errors that come before any write.
    usually_unchanged = ""
    usual_hint = "`retain status` shows how the bank is."

    def __init__(
        self,
        message: str,
        *,
        unchanged: str = "",
        hint: str = "",
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.details = details or {}  # for programs: more keys of the error in JSON
        self.message = message
        self.unchanged = unchanged or self.usually_unchanged
        self.hint = hint or self.usual_hint

    def to_dict(self) -> dict[str, object]:
        """The error as every door gives it to programs."""
        return {
            "code": self.code,
            "message": self.message[:800],
            "unchanged": self.unchanged,
            "hint": self.hint,
            **self.details,
        }


class UsageError(RetainError):
    """The call itself is wrong."""

    exit_code = 2
    code = "usage"
    usually_unchanged = "Nothing was changed."
    usual_hint = "`retain --help`, or --help after a command, shows how it is called."


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
    usually_unchanged = "Nothing was changed."
    usual_hint = "`retain list` shows what there is."


class Conflict(RetainError):
    """Someone else wrote first, or the name is taken."""

    exit_code = 4
    code = "conflict"
    usual_hint = "Look at what is there with `retain get`, then try again."


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
    usually_unchanged = "The file was left as it is, byte for byte."
    usual_hint = "Mend it in an editor; `retain status` lists such files."


class Unsafe(RetainError):
    """A link or a special file where a plain file or directory belongs."""

    code = "unsafe"
    usual_hint = "Put a plain file or directory in its place; `retain status` lists such files."


class LimitExceeded(RetainError):
    """Larger than Retain stores."""

    code = "limit"
    usually_unchanged = "Nothing was changed."
    usual_hint = "Split it, or raise memory.max_bytes in your own config."


class ConfigError(RetainError):
    """A setting that cannot be used."""

    code = "config"
    usually_unchanged = "Nothing was changed."
    usual_hint = "`retain config check` says what is wrong, `retain config path` where."


class NewerFormat(RetainError):
    """Made by a later Retain, left untouched."""

    code = "newer-format"


class HistoryError(RetainError):
    """Git or the numbered versions cannot answer."""

    code = "history"
    usual_hint = "`retain versions ID` lists the versions there are."


class ImportRefused(RetainError):
    """An archive or a store that cannot be taken over whole."""

    code = "import"
    usually_unchanged = "Nothing was imported."
    usual_hint = "Mend the source, then import it again: nothing will be doubled."


class RecordError(RetainError):
    """A typed memory that breaks a rule of its category, or a change that its state forbids.

    `kind` names the rule for programs, such as MERGE_ERROR; `facts` has the names and values that
    belong to it, one mapping for each fault where there are several.
    """

    code = "record"
    usually_unchanged = "Nothing was changed."
    usual_hint = "`retain new --help` shows the fields of each category."

    def __init__(
        self,
        kind: str,
        message: str,
        *facts: Mapping[str, str],
        hint: str = "",
        exit_code: int = 1,
    ) -> None:
        details = {}
        if kind == "VALIDATION_ERROR":
            details["faults"] = [
                {name: value[:_MAX_FAULT_CHARACTERS] for name, value in fault.items()}
                for fault in facts[:_MAX_FAULTS]
            ]
        super().__init__(message, hint=hint, details=details)
        self.kind, self.facts, self.exit_code = kind, facts, exit_code
