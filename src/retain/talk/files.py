"""Files that the model reads and writes: where a path leads, what is shown, how it is written.

A path is resolved once. What was checked, and what the person was asked about, is the resolved
path, and that one is opened by handle without following a link: whoever puts a link in its place
in between gets a refusal.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.bank.files import Directory, saving
from retain.errors import Conflict, LimitExceeded, NotFound, Unreadable, Unsafe, UsageError
from retain.ownership import bank_of
from retain.text.sanitize import reveal, strip_invisible, visible
from retain.text.secrets import redact_visible

if TYPE_CHECKING:
    from retain.locate import BankLocation


MOST_SHOWN: Final = 50_000  # characters of one answer
MOST_BYTES: Final = 1_000_000  # of a file that is read: all of it is searched for secrets
_MOST_OLD: Final = 5_000_000  # of a file that is written anew
MOST_WRITTEN: Final = 1_000_000  # characters
_MOST_PATH: Final = 4_096
_MOST_NAMES: Final = 1_000
_MOST_DIFF: Final = 10_000  # lines of a difference; nobody is asked about a part of one
_MOST_COMPARED: Final = 4_000_000  # pairs of lines, beyond which a fine difference takes too long
_MACHINE: Final = ("/dev", "/proc", "/sys")  # no files, whatever they look like
_MARK: Final = "[REDACTED:"

_PRIVATE_NAMES: Final = frozenset(
    ".netrc _netrc .npmrc .yarnrc .yarnrc.yml .pypirc .pgpass pgpass.conf .my.cnf .mylogin.cnf "
    ".git-credentials .htpasswd .dockercfg .vault-token .envrc .flaskenv .dev.vars .terraformrc "
    "terraform.rc .s3cfg .boto credentials secrets .credentials .secrets token.json "
    "service-account.json service_account.json client_secret.json kubeconfig master.key "
    "auth.json shadow gshadow wp-config.php .msmtprc .fetchmailrc".split()
)
_PRIVATE_STEMS: Final = ("credentials.", "secrets.", "secret.", "kubeconfig.", "client_secret_")
_PRIVATE_ENDINGS: Final = (
    ".pem", ".key", ".p12", ".pfx", ".p8", ".jks", ".keystore", ".kdbx", ".kdb", ".ppk", ".asc",
    ".gpg", ".age", ".env", ".tfstate", ".tfstate.backup", ".tfvars", ".tfvars.json", ".kubeconfig",
    ".ovpn", ".mobileprovision", ".keychain", ".keychain-db", "_history", ".history", ".agekey",
)  # fmt: skip
_PRIVATE_STARTS: Final = ("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_xmss")
_PRIVATE_FOLDERS: Final = frozenset(
    ".ssh .gnupg .aws .azure .kube .docker .password-store .oci .chef .gcloud keyrings".split()
)
# By the folder they are in; elsewhere such a name says nothing.
_PRIVATE_PLACES: Final = frozenset(
    ((".git", "config"), ("gh", "hosts.yml"), ("glab-cli", "config.yml"), ("hub", "config"))
    + ((".m2", "settings.xml"), (".cargo", "credentials.toml"), (".gem", "credentials"))
    + (("containers", "auth.json"), (".config", "hub"), ("rclone", "rclone.conf"))
    + (("gcloud", "credentials.db"), ("gcloud", "access_tokens.db"), (".bundle", "config"))
    + (("gcloud", "application_default_credentials.json"), ("helm", "repositories.yaml"))
)
_EXAMPLES: Final = (".example", ".sample", ".template", ".dist")  # of such a file
_CODE: Final = (".py", ".js", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".rb", ".md", ".html")


class Project(NamedTuple):
    """The directory a chat works in, with its files."""

    root: str
    cwd: str
    env: Mapping[str, str]
    is_wide: bool = False  # a home directory or the whole disk: no file in it is the project's


class Target(NamedTuple):
    """A file that a path leads to, links resolved."""

    path: str
    shown: str  # as the person reads it: from the project's root, where it is in there
    is_inside: bool
    is_private: bool  # it may hold keys or passwords


class Change(NamedTuple):
    """A file's new text, and the one that the person was shown the difference to."""

    target: Target
    old: bytes | None
    new: bytes
    diff: str


def project(place: BankLocation, cwd: str, env: Mapping[str, str]) -> Project:
    """The project around a working directory: where its bank or its repository is."""
    cwd = os.path.realpath(cwd)
    home = os.path.realpath(os.path.expanduser("~"))
    root = _with_bank(os.path.realpath(place.root), cwd) if place.scope == "project" else ""
    root = root or _with_repository(cwd, home)
    return Project(root, cwd, env, is_wide=_is_at(home, root))


def _with_bank(bank: str, cwd: str) -> str:
    return os.path.dirname(bank) if _is_at(cwd, bank) else os.path.commonpath((bank, cwd))


def _with_repository(cwd: str, home: str) -> str:
    here = cwd
    while not _is_at(home, here):
        if os.path.exists(os.path.join(here, ".git")):
            return here
        here = os.path.dirname(here)
    return cwd


def _is_at(path: str, root: str) -> bool:
    """Whether a path is a directory or something below it, by its spelling."""
    return path == root or path.startswith(os.path.join(root, ""))


# Where a path leads


def target(around: Project, given: str) -> Target:
    """The file that a path names, or a refusal of one that no tool may touch."""
    if not given.strip() or "\0" in given or len(given) > _MOST_PATH:
        raise UsageError("that is not a path: it is empty, too long, or holds a NUL character")
    spelled = os.path.normpath(os.path.join(around.cwd, os.path.expanduser(given)))
    spelled = f"/{spelled.lstrip('/')}"  # two slashes at the start are kept by normpath
    try:
        real = os.path.realpath(spelled)
    except (OSError, ValueError) as error:
        raise UsageError(f"that is not a path: {error}") from error
    is_inside = _is_at(real, around.root)
    if _is_at(spelled, around.root) and not is_inside:
        raise Unsafe(f"{given} is a link that leads out of the project; it is not followed")
    if any(_is_at(real, root) for root in _MACHINE):
        raise Unsafe(f"{given} belongs to the system, not to a person: it is no file to read")
    shown = os.path.relpath(real, around.root) if is_inside else real
    return Target(
        real,
        shown,
        is_inside and not around.is_wide,
        is_private(real) or is_private(spelled),
    )


def is_private(path: str) -> bool:
    """Whether a file is one in which people keep keys and passwords, by its name."""
    *folders, name = path.casefold().split("/")
    if not _PRIVATE_FOLDERS.isdisjoint(folders) or (folders[-1], name) in _PRIVATE_PLACES:
        return True
    if name.endswith(_EXAMPLES):
        return False
    return (
        name in _PRIVATE_NAMES
        or name.endswith(_PRIVATE_ENDINGS)
        or (name.startswith(".env") and name[4:5] in ("", ".", "-", "_"))
        or (name.startswith(_PRIVATE_STARTS) and not name.endswith(".pub"))
        # A module may be about credentials; what has them is data.
        or (name.startswith(_PRIVATE_STEMS) and not name.endswith(_CODE))
    )


def writable(around: Project, given: str) -> Target:
    """The file that a path names, if a tool may write there."""
    found = target(around, given)
    if not _is_at(found.path, around.root) or found.path == around.root:
        raise Unsafe(f"{found.shown} is outside the project ({around.root}); nothing was written")
    parts = found.shown.casefold().split("/")
    if ".git" in parts:
        raise Unsafe(f"{found.shown} is one of git's own files, which only git writes")
    if around.is_wide and any(part.startswith(".") for part in parts):
        raise Unsafe(f"{found.shown} is a hidden file of the home directory; nothing was written")
    if bank_of(found.path, around.cwd, around.env):
        raise Unsafe(
            f"{found.shown} is in a bank, and memories are not written as files: "
            "use save_memory; nothing was written"
        )
    return found


@contextlib.contextmanager
def _naming(shown: str) -> Iterator[None]:
    """Say which file is missing as the model named it, not as a bank."""
    try:
        yield
    except NotFound as error:
        raise NotFound(f"File not found: {shown}") from error


def folder(around: Project, path: str, *, create: bool = False) -> Directory:
    """A directory that was resolved before, reached without following a link."""
    is_inside = _is_at(path, around.root)
    with _naming(path):
        here = Directory.open(around.root if is_inside else path)
    inside = os.path.relpath(path, here.path)
    for name in [] if inside == "." else inside.split("/"):
        with here:
            if create:
                with contextlib.suppress(FileExistsError):
                    # As wide as the person's umask: these are the project's files, not a bank's.
                    os.mkdir(name, 0o777, dir_fd=here.fd)
            here = here.child(name)
    return here


# Reading


def read(around: Project, found: Target, offset: int, limit: int) -> str:
    """A file's text as a model may see it, from a character on; a directory's names."""
    _refuse_internals(around, found)
    if os.path.isdir(found.path):
        return _names(around, found)
    text, notes = _text(around, found)
    if offset and offset >= len(text):
        raise UsageError(f"{found.shown} has {len(text):,} characters; offset {offset} is beyond")
    part = text[offset : offset + min(limit, MOST_SHOWN)]
    end = offset + len(part)
    if offset or end < len(text):
        more = f"; go on with offset={end}" if end < len(text) else ""
        notes.append(f"characters {offset:,} to {end:,} of {len(text):,}{more}")
    tail = "".join(f"\n[{note}]" for note in notes)
    return f"{part or '(the file is empty)'}{tail}"


def _refuse_internals(around: Project, found: Target) -> None:
    """Refuse what a bank keeps for itself; its memories are files that anyone may read."""
    bank = bank_of(found.path, around.cwd, around.env)
    if not bank:
        return
    parts = os.path.relpath(found.path, bank).split("/")
    is_memory = found.path.endswith(".md") or (found.path.endswith(".json") and len(parts) > 1)
    if not is_memory or any(part.startswith(".") for part in parts):
        raise Unsafe(
            f"{found.shown} is a bank's own; what is remembered is found with search_memory"
        )


def _names(around: Project, found: Target) -> str:
    with folder(around, found.path) as here:
        entries = here.entries()
        shown = [
            f"{one.name}/" if one.is_dir(follow_symlinks=False) else one.name
            for one in entries[:_MOST_NAMES]
        ]
    if len(entries) > len(shown):
        shown.append(f"[{len(entries) - len(shown):,} more]")
    return harmless("\n".join([f"{found.shown} is a directory:", *shown]))


def _text(around: Project, found: Target) -> tuple[str, list[str]]:
    """The whole text without its secrets, and what is to be said of it."""
    with _naming(found.shown), folder(around, os.path.dirname(found.path)) as here:
        try:
            data = here.read(os.path.basename(found.path), MOST_BYTES)
        except LimitExceeded as error:
            raise LimitExceeded(
                f"{found.shown} is larger than {MOST_BYTES:,} bytes; look at a part of it with "
                "run_command (head, tail, grep)"
            ) from error
    if b"\0" in data:
        raise Unreadable(f"{found.shown} is a binary file of {len(data):,} bytes, not text")
    text, notes = data.decode("utf-8", "replace").removeprefix("\ufeff"), []
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
        notes.append("the lines end in CRLF; write_file keeps that")
    if "\ufffd" in text:
        notes.append("what is not UTF-8 is shown as \ufffd")
    text, kinds = redact_visible(text)
    if kinds:
        what = "1 secret is" if len(kinds) == 1 else f"{len(kinds)} secrets are"
        notes.append(f"{what} not shown: {', '.join(sorted(set(kinds)))}")
    return text, notes


def harmless(text: str) -> str:
    """A text in which nothing acts on a screen and nothing is hidden from whoever reads along."""
    return strip_invisible(visible(text))


# Writing


def change(around: Project, found: Target, content: str) -> Change:
    """What writing a text would change, with the difference for a person to look at."""
    if len(content) > MOST_WRITTEN:
        raise LimitExceeded(f"that is more than {MOST_WRITTEN:,} characters; nothing was written")
    if os.path.isdir(found.path):
        raise Unsafe(f"{found.shown} is a directory; nothing was written")
    old = _bytes(around, found)
    before = (old or b"").decode("utf-8", "replace")
    if content.count(_MARK) > before.count(_MARK):
        raise Unsafe(
            f"the text holds {_MARK}...], which stands for a secret that was not shown: writing "
            "it would destroy the secret. Leave that line out, or have the person write it."
        )
    after = content
    if "\r\n" in before and "\r\n" not in after:
        after = after.replace("\n", "\r\n")
    if before.startswith("\ufeff") and not after.startswith("\ufeff"):
        after = f"\ufeff{after}"
    return Change(found, old, after.encode(), _difference(before, after, found.shown, old is None))


def _bytes(around: Project, found: Target) -> bytes | None:
    """What is there now; None for a file that is not there yet."""
    try:
        with folder(around, os.path.dirname(found.path)) as here:
            return here.read(os.path.basename(found.path), _MOST_OLD)
    except NotFound:
        return None


def write(around: Project, wanted: Change) -> str:
    """Write what the person was shown, whole, unless the file is another one by now."""
    found = wanted.target
    name = os.path.basename(found.path)
    with saving(found.shown), folder(around, os.path.dirname(found.path), create=True) as here:
        mode = os.fstat(here.fd).st_mode & 0o666  # a new file is as private as its directory
        now = None
        with contextlib.suppress(NotFound):
            now, facts = here.read_with_facts(name, _MOST_OLD)
            mode = facts.st_mode & 0o777
        if now != wanted.old:
            raise Conflict(
                f"{found.shown} was changed meanwhile; nothing was written. Read it again first."
            )
        here.put(name, wanted.new, mode)
    return f"File written: {harmless(found.shown)} ({len(wanted.new.decode()):,} chars)"


def _difference(old: str, new: str, name: str, is_new: bool) -> str:
    """A unified difference, with everything in it inert."""
    if _has_windows_breaks(old) and _has_windows_breaks(new):
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    before, after = _lines(old), _lines(new)
    if len(before) * len(after) > _MOST_COMPARED:
        lines = _coarse(before, after, name)
    else:
        import difflib

        source = "/dev/null" if is_new else f"a/{name}"
        lines = list(difflib.unified_diff(before, after, source, f"b/{name}", lineterm=""))
    if not lines and old != new:
        lines = ["(only line breaks change)"]
    if len(lines) > _MOST_DIFF:
        raise LimitExceeded(
            f"the difference has {len(lines):,} lines, more than the {_MOST_DIFF:,} that a person "
            "can be shown; nothing was written. Change less at once."
        )
    return "\n".join(map(reveal, lines))


def _has_windows_breaks(text: str) -> bool:
    return "\n" in text and text.count("\n") == text.count("\r\n")


def _lines(text: str) -> list[str]:
    # Not splitlines: whatever else parts lines for some program would not be seen in them.
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _coarse(before: Sequence[str], after: Sequence[str], name: str) -> list[str]:
    """What lies between the first and the last line that differ, of texts too long to compare."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    rest = most - start
    end = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    out, into = before[start : len(before) - end], after[start : len(after) - end]
    return [
        f"--- a/{name}",
        f"+++ b/{name}",
        f"@@ -{start + 1},{len(out)} +{start + 1},{len(into)} @@",
        *(f"-{line}" for line in out),
        *(f"+{line}" for line in into),
    ]
