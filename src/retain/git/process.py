"""One git process: from an absolute path, with nothing inherited, and with a deadline."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from retain.errors import HistoryError

__all__ = [
    "NOBODY",
    "TIMEOUT_SECONDS",
    "YES_OR_NO",
    "Answer",
    "failed",
    "is_encodable",
    "run",
    "shown",
]

TIMEOUT_SECONDS = 10.0
# Any other status, also that of a killed process, is a failure and not an answer.
YES_OR_NO = (0, 1)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

# The command line is the last word in git's configuration, so these win over the repository's own.
SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=",
    "core.sshCommand=false",
    "core.gitProxy=none",
    "core.alternateRefsCommand=false",
    "core.quotePath=false",
    # A split index would leave its shared half in the git directory.
    "core.splitIndex=false",
    "core.untrackedCache=keep",
    "credential.helper=",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "commit.gpgSign=false",
    "gpg.program=false",
    "log.showSignature=false",
    "log.showRoot=true",
    "diff.external=",
    "diff.orderFile=/dev/null",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
    "user.useConfigOnly=true",
    "gc.auto=0",
    "maintenance.auto=false",
)

VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    # protocol.allow alone loses to a hostile protocol.<name>.allow; an empty list loses to nothing.
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_TRACE2": "0",
    "GIT_TRACE2_EVENT": "0",
    "GIT_TRACE2_PERF": "0",
}

NOBODY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Retain"), ("EMAIL", "retain@localhost"))
}


class Answer(NamedTuple):
    """What a git process leaves behind."""

    status: int
    out: bytes
    err: str

    @property
    def line(self) -> str:
        return os.fsdecode(self.out).rstrip("\n")


def run(
    arguments: Iterable[str],
    directory: str,
    stdin: str = os.devnull,
    variables: Mapping[str, str] | None = None,
) -> Answer:
    """Run one git command with a file as its input, and return what it says."""
    settings = [word for setting in SETTINGS for word in ("-c", setting)]
    command = [_executable(), "--no-pager", *settings, *arguments]
    try:
        return _spawn(command, directory, stdin, _environment(variables or {}))
    except (OSError, ValueError) as error:
        raise HistoryError(f"git could not be started: {error}") from error


def _spawn(command: list[str], directory: str, stdin: str, environment: dict[str, str]) -> Answer:
    with (
        open(stdin, "rb") as given,
        subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A session of its own has no terminal to prompt on, and is stopped as a whole.
            start_new_session=True,
        ) as process,
    ):
        try:
            out, err = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            _stop(process)
            raise HistoryError(f"git did not answer within {TIMEOUT_SECONDS:g} s") from None
        except BaseException:
            _stop(process)
            raise
    return Answer(process.returncode, out, err.decode("utf-8", "replace"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a git process and its children, first in the way that lets git remove its lock files."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1.0)


def _executable() -> str:
    """Return git's absolute path; a relative entry of PATH could name a file in the work tree."""
    for directory in os.get_exec_path():
        candidate = os.path.join(directory, "git")
        if os.path.isabs(directory) and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise HistoryError("git is not installed", hint="install git 2.31 or later")


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GIT_")}
    kept.pop("SSH_ASKPASS", None)
    return kept | VARIABLES | dict(variables)


def failed(what: str, answer: Answer) -> HistoryError:
    last = answer.err.strip().rpartition("\n")[2]
    return HistoryError(f"{what}: {shown(last)}" if last else what)


def shown(text: str) -> str:
    """Return text that is safe in a message: no control characters, no broken encoding."""
    readable = text.encode("utf-8", "surrogateescape" if is_encodable(text) else "replace")
    return CONTROL.sub("?", readable.decode("utf-8", "replace"))


def is_encodable(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
