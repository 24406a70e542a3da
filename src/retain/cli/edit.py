"""edit: a memory in the person's own editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from retain.cli.command import Args, Output, arg, command, same_bank
from retain.cli.memories import read_memory_text, written_output
from retain.errors import RetainError, Unreadable
from retain.text.sanitize import visible

if TYPE_CHECKING:
    from retain.app import App


@command(
    "edit",
    "ID",
    "--collection",
    arg("--file PATH", "what an earlier edit left there, without an editor"),
    "--allow-secret",
)
def _edit(app: App, args: Args) -> Output:
    """Change a memory in your editor.

    Opens $VISUAL or $EDITOR on a copy. What you save is checked first; if it cannot be
    parsed, or someone changed the memory meanwhile, your text is kept and nothing is lost.

      EDITOR=nano retain edit gpu-patterns
    """
    memory = app.find_own(args.ref, args.collection)
    if args.file is not None:
        text = read_memory_text(app, args.file)
        try:
            return written_output(app.rewrite(memory, text, allow_secret=args.allow_secret))
        except Unreadable as error:
            error.hint = f"Mend {args.file}, and run the command again."
            raise
    again = f"retain edit {shlex.quote(args.ref)}{same_bank(args)} --file"
    with EditSession("The memory is as it was.") as session:
        while True:
            try:
                text = session.edit(os.path.basename(memory.path), memory.data)
                return written_output(app.rewrite(memory, text, allow_secret=args.allow_secret))
            except Unreadable as error:
                if not asks_again(error):
                    raise session.keep_text(error, again) from error
            except RetainError as error:
                raise session.keep_text(error) from error


def asks_again(error: RetainError) -> bool:
    """Whether the person wants to mend what was refused; nobody to ask means no."""
    if not sys.stdin.isatty():
        return False
    question = f"retain: {visible(error.message)}\nEdit it again? [Y/n] "
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() not in ("n", "no")


class EditSession:
    """A private copy to edit; what was typed survives every refusal."""

    def __init__(self, unchanged: str) -> None:
        self._unchanged = unchanged
        self._folder = tempfile.mkdtemp(prefix="retain-edit-")
        self._path = ""
        self._original = b""
        self._keeps = False

    def __enter__(self) -> EditSession:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and not self._keeps and self._is_changed():
            self._keeps = True  # interrupted: what was typed is not ours to throw away
            print(f"\nretain: your text is in {visible(self._path)}", file=sys.stderr)
        if not self._keeps:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _is_changed(self) -> bool:
        try:
            with open(self._path, "rb") as file:
                return file.read() != self._original
        except OSError:
            return False

    def edit(self, name: str, data: bytes) -> str:
        """Open the editor; return its text. A second time it begins with the one typed before."""
        if not self._path:
            self._path = os.path.join(self._folder, name)
            self._original = data
            with open(self._path, "xb") as file:
                file.write(data)
        command = [*_find_editor(self._unchanged), self._path]
        editor = f"the editor {command[0]!r}"
        try:
            subprocess.run(command, check=True)
        except OSError as error:
            raise RetainError(
                f"{editor} cannot be started: {error.strerror}",
                unchanged=self._unchanged,
                hint="Set EDITOR to an editor you have.",
            ) from error
        except subprocess.CalledProcessError as error:
            message = f"{editor} ended with code {error.returncode}"
            raise RetainError(message, unchanged=self._unchanged) from error
        try:
            with open(self._path, "rb") as file:
                return file.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unreadable(f"not saved: not UTF-8 at byte {error.start}") from error

    def keep_text(self, error: RetainError, again: str = "") -> RetainError:
        """Keep what was typed; the error says where, and the command that takes it up."""
        if self._is_changed():
            hint = f"Mend it there: `{again} {self._path}` takes it up." if again else error.hint
            error.hint = f"Your text is in {self.keep()}. {hint}".strip()
        return error

    def keep(self) -> str:
        """Keep the typed text; return its place."""
        self._keeps = True
        return self._path


def _find_editor(unchanged: str) -> list[str]:
    editor = (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip()
    if editor:
        try:
            return shlex.split(editor)
        except ValueError as error:
            raise RetainError(
                f"EDITOR is not a command: {editor} ({error})", unchanged=unchanged
            ) from error
    if not sys.stdin.isatty():  # an editor that nobody asked for would wait for nobody
        raise RetainError(
            "there is no terminal to edit on, and no editor is named",
            unchanged=unchanged,
            hint="Set EDITOR to a command that edits the file it is given.",
        )
    for name in ("editor", "nano", "vim", "vi"):
        if path := shutil.which(name):
            return [path]
    raise RetainError("no editor was found", hint="Set EDITOR to one, for example EDITOR=nano.")
