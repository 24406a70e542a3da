"""One command at a time: no shell unless it was allowed, no secrets, and never without an end.

A command runs in a session of its own. When it ends, by itself, at its limit or because the person
stopped the reply, nothing of that session goes on: not a child that ignores SIGTERM, not a
grandchild in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import NotFound, UsageError
from retain.text.secrets import redact, redact_visible

if TYPE_CHECKING:
    from retain.bank.files import Directory


USUAL_SECONDS: Final = 30
MAX_SECONDS: Final = 600
MAX_SHOWN: Final = 20_000  # characters, half of them from the start and half from the end
_MAX_COMMAND: Final = 10_000
_MAX_PRINTED: Final = 50_000_000  # bytes, after which a command is ended
_PART_BYTES: Final = MAX_SHOWN * 2  # of each half: most characters have one or two
_GRACE: Final = 2.0  # seconds to end after SIGTERM
_DRAIN_SECONDS: Final = 0.5  # for what is still in the pipe once a command has ended

_GAP: Final = re.compile(r"\s{100}")
_QUOTED: Final = re.compile(r"\\.|'[^']*+'|\"(?:\\.|[^\"\\])*+\"", re.DOTALL)
_OPERATOR: Final = re.compile(r"[|&;<>()$`*?\[\n\r]|(?<!\S)[~#]")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")

_SECRET_PARTS: Final = frozenset(
    "KEY KEYS PASS PAT DSN AUTH AUTHORIZATION PWD JWT OTP BEARER CREDS".split()
)
_SECRET_WORDS: Final = (
    "APIKEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "ASKPASS",
    "COOKIE", "UNSEAL", "PRIVATEKEY", "ACCESSKEY",
)  # fmt: skip
_SECRET_ENDINGS: Final = ("PASS", "AUTH")
_PLAIN: Final = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE PWD TMPDIR TZ VIRTUAL_ENV SSH_AUTH_SOCK "
    "XDG_RUNTIME_DIR DISPLAY XAUTHORITY OLDPWD".split()
)
_QUIET: Final = {
    "GIT_TERMINAL_PROMPT": "0",  # nobody is there to answer
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "NO_COLOR": "1",
    "TERM": "dumb",
}
# Every branch begins with its own character and is bounded by a class, so no text is slow.
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*+[ -/]*+[@-~]?"  # colours and cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)?"  # titles, links, clipboards
    r"|\x1b[ -/]*+[0-~]?"
)


class Command(NamedTuple):
    """A command as it was given, and taken apart."""

    text: str
    words: tuple[str, ...]
    shell_operators: str = ""  # what in it only a shell understands; it has no words then


class Ran(NamedTuple):
    """What became of a command."""

    status: int
    output: str
    ended: str = ""  # why it was ended, if it did not end by itself


def parse_command(text: str) -> Command:
    """Split a command into its words; where only a shell could, name the operators instead."""
    text = text.strip()
    if not text or "\0" in text or len(text) > _MAX_COMMAND:
        raise UsageError("that is not a command: it is empty, too long, or holds a NUL character")
    if _GAP.search(text):
        raise UsageError("that command has a long gap in it, behind which nobody would look")
    if operators := _find_operators(text):
        return Command(text, (), operators)
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"that command cannot be taken apart: {error}") from error
    if not words or not words[0]:
        raise UsageError("that is not a command: it names no program")
    if _ASSIGNMENT.match(words[0]):
        return Command(text, (), words[0])
    return Command(text, words)


def _find_operators(text: str) -> str:
    """Name what a shell would act upon, each once: outside quotes, `$` and "`" in double ones."""

    def unquote(quoted: re.Match[str]) -> str:
        active = re.findall("[$`]", re.sub(r"\\.", "", quoted[0])) if quoted[0][0] == '"' else []
        return "".join(["x", *active])

    operators = dict.fromkeys(_OPERATOR.findall(_QUOTED.sub(unquote, text)))
    return " ".join(operators).replace("\n", "\\n").replace("\r", "\\r")


def find_program(word: str, cwd: str, env: Mapping[str, str]) -> str:
    """Return the file to start; a relative entry of PATH could name one in the project."""
    if "/" in word:
        paths = [os.path.join(cwd, os.path.expanduser(word))]
    else:
        folders = env.get("PATH", os.defpath).split(os.pathsep)
        paths = [os.path.join(folder, word) for folder in folders if os.path.isabs(folder)]
    for path in paths:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise NotFound(f"there is no program {word!r}")


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables a command gets: none that holds a secret or asks for answers."""
    return {name: text for name, text in env.items() if not _is_secret(name, text)} | _QUIET


def _is_secret(name: str, text: str) -> bool:
    if name in _PLAIN:
        return False
    upper = name.upper()
    return (
        not _SECRET_PARTS.isdisjoint(upper.split("_"))
        or upper.endswith(_SECRET_ENDINGS)
        or any(word in upper for word in _SECRET_WORDS)
        or bool(redact(f"{name}={text}").kinds)
    )


class _Output(asyncio.Protocol):
    """What a command prints."""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()
        self.is_flooded = asyncio.Event()
        self._data = bytearray()

    def data_received(self, data: bytes) -> None:
        if len(self._data) > _MAX_PRINTED:
            self.is_flooded.set()
        else:
            self._data += data

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the end is the end
        self.is_over.set()

    @property
    def text(self) -> str:
        """All of it, or the start and the end with a word about what is between."""
        data, half = self._data, MAX_SHOWN // 2
        if len(data) > 2 * _PART_BYTES:
            head, tail = clean(data[:_PART_BYTES]), clean(data[-_PART_BYTES:])
            return f"{head[:half]}\n[... {len(data):,} bytes in all ...]\n{tail[-half:]}"
        text = clean(data)
        if len(text) <= MAX_SHOWN:
            return text
        left_out = f"[... {len(text) - 2 * half:,} characters left out ...]"
        return f"{text[:half]}\n{left_out}\n{text[-half:]}"


def clean(data: bytes | bytearray) -> str:
    """Decode what a command printed: no colours, no secrets, nothing that acts on a screen."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return redact_visible(_ESCAPES.sub("", text)).text


async def run(
    words: Sequence[str], here: Directory, env: Mapping[str, str], seconds: float = USUAL_SECONDS
) -> Ran:
    """Run a program in a directory that is held open, until it ends or has to."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as pipe, os.fdopen(writing, "wb") as other_end:
        transport, output = await asyncio.get_running_loop().connect_read_pipe(_Output, pipe)
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=_directory(here),
                env={**env, "PWD": here.path},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=other_end,
                stderr=other_end,
                start_new_session=True,
            )
            other_end.close()  # or its end would never be seen
            try:
                ended = await _wait(process, output, seconds)
            finally:
                # Also when the reply was stopped: then this is all that is still done.
                await _end(process, output)
        finally:
            transport.close()
    return Ran(process.returncode or 0, output.text, ended)


def _directory(here: Directory) -> str:
    """Name a directory by its handle where the system has names for those: it cannot be swapped."""
    path = f"/proc/self/fd/{here.fd}"
    return path if os.path.isdir(path) else here.path


async def _wait(process: asyncio.subprocess.Process, output: _Output, seconds: float) -> str:
    """Wait for a command, and say why it must be ended if it must."""
    waits = [asyncio.ensure_future(process.wait()), asyncio.ensure_future(output.is_flooded.wait())]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in waits:
            waiting.cancel()
    if process.returncode is not None:
        return ""
    if output.is_flooded.is_set():
        return f"it printed more than {_MAX_PRINTED:,} bytes"
    return f"it did not end within {seconds:g} seconds"


async def _end(process: asyncio.subprocess.Process, output: _Output) -> None:
    """End a command and all it started; first in the way that lets it clean up after itself."""
    try:
        if process.returncode is None:
            _signal(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _GRACE)
        else:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(output.is_over.wait(), _DRAIN_SECONDS)
    finally:
        _signal(process.pid, signal.SIGKILL)
    await process.wait()
    with contextlib.suppress(TimeoutError):  # one that left the session may hold the pipe
        await asyncio.wait_for(output.is_over.wait(), _DRAIN_SECONDS)


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
