"""edit: a memory in the person's own editor."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from retain.cli.inputs import add_collection, add_id, add_secrets
from retain.cli.memories import written_output
from retain.cli.parser import Command, Parser, open_app
from retain.cli.render import Output
from retain.errors import RetainError, Unreadable
from retain.guard.characters import visible

__all__ = ["Sheet", "asks_again", "edit_command"]

_FALLBACKS = ("editor", "nano", "vim", "vi")


def _edit_arguments(parser: Parser) -> None:
    add_id(parser)
    add_collection(parser, "the collection it is in")
    add_secrets(parser)


def _edit(args: argparse.Namespace) -> Output:
    app = open_app(args)
    with Sheet("The memory is as it was.") as sheet:
        while True:
            try:
                written = app.edit(
                    args.id,
                    lambda memory: sheet.edited(os.path.basename(memory.path), memory.data),
                    collection=args.collection,
                    allow_secret=args.allow_secret,
                )
            except Unreadable as error:
                if not asks_again(error):
                    raise sheet.kept(error) from error
            except RetainError as error:
                raise sheet.kept(error) from error
            else:
                return written_output(written)


def asks_again(error: RetainError) -> bool:
    """Whether the person wants to mend what was refused; nobody to ask means no."""
    if not sys.stdin.isatty():
        return False
    question = f"retain: {visible(error.message)}\nEdit it again? [Y/n] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() not in ("n", "no")


class Sheet:
    """A private copy to edit; what was typed survives every refusal."""

    def __init__(self, unchanged: str) -> None:
        self._unchanged = unchanged
        self._folder = tempfile.mkdtemp(prefix="retain-edit-")
        self._path = ""
        self._given = b""
        self._keep = False

    def __enter__(self) -> Sheet:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and not self._keep and self._is_changed():
            self._keep = True  # interrupted: what was typed is not ours to throw away
            print(f"\nretain: your text is in {visible(self._path)}", file=sys.stderr)
        if not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _is_changed(self) -> bool:
        try:
            with open(self._path, "rb") as file:
                return file.read() != self._given
        except OSError:
            return False

    def edited(self, name: str, data: bytes) -> str:
        """The text after the editor is closed; a second time it is the one typed before."""
        if not self._path:
            self._path = os.path.join(self._folder, name)
            self._given = data
            with open(self._path, "xb") as file:
                file.write(data)
        command = [*_editor(self._unchanged), self._path]
        try:
            code = subprocess.run(command, check=False).returncode
        except OSError as error:
            raise RetainError(
                f"the editor {command[0]!r} cannot be started: {error.strerror}",
                unchanged=self._unchanged,
                hint="Set EDITOR to an editor you have.",
            ) from error
        if code != 0:
            raise RetainError(
                f"the editor {command[0]!r} ended with code {code}",
                unchanged=self._unchanged,
            )
        try:
            return self._typed().decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unreadable(f"not saved: not UTF-8 at byte {error.start}") from error

    def kept(self, error: RetainError, takes_up: str = "") -> RetainError:
        """The same refusal, with the place of the typed text and a command that takes it up."""
        if self._path and os.path.exists(self._path) and self._typed() != self._given:
            self._keep = True
            then = f"Mend it there: `{takes_up} {self._path}` takes it up." if takes_up else ""
            error.hint = f"Your text is in {self._path}. {then or error.hint}".strip()
        return error

    def keep(self) -> str:
        """The place of the typed text, which stays there."""
        self._keep = True
        return self._path

    def _typed(self) -> bytes:
        with open(self._path, "rb") as file:
            return file.read()


def _editor(unchanged: str) -> list[str]:
    given = (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip()
    if given:
        try:
            return shlex.split(given)
        except ValueError as error:
            raise RetainError(
                f"EDITOR is not a command: {given} ({error})",
                unchanged=unchanged,
            ) from error
    if not sys.stdin.isatty():  # an editor that nobody asked for would wait for nobody
        raise RetainError(
            "there is no terminal to edit on, and no editor is named",
            unchanged=unchanged,
            hint="Set EDITOR to a command that edits the file it is given.",
        )
    for name in _FALLBACKS:
        if found := shutil.which(name):
            return [found]
    raise RetainError("no editor was found", hint="Set EDITOR to one, for example EDITOR=nano.")


edit_command = Command(
    _edit_arguments,
    _edit,
    """Opens $VISUAL or $EDITOR on a copy. What you save is checked first; if it cannot be
parsed, or someone changed the memory meanwhile, your text is kept and nothing is lost.

  EDITOR=nano retain edit gpu-patterns""",
)
