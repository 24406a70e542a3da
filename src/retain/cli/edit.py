"""edit: a memory in the person's own editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING

from retain.cli.command import Args, Output, arg, ask, command, same_bank
from retain.cli.memories import read_text, written_output
from retain.errors import RetainError, Unreadable

if TYPE_CHECKING:
    from retain.app import App

EDITED_FILE = arg("--file PATH", "what an earlier edit left there, without an editor")
_MAX_BYTES = 32_000_000  # of what is read back; what may be stored is decided elsewhere


@command("edit", "ID", "--collection", EDITED_FILE, "--allow-secret")
def _edit(app: App, args: Args) -> Output:
    """Change a memory in your editor.

    Opens $VISUAL or $EDITOR on a copy. What you save is checked first; if it cannot be
    parsed, or someone changed the memory meanwhile, your text is kept and nothing is lost.

      EDITOR=nano retain edit gpu-patterns
    """
    memory = app.find_own(args.ref, args.collection)

    def save(text: str) -> Output:
        return written_output(app.rewrite(memory, text, allow_secret=args.allow_secret))

    if args.file is not None:
        return save_file(args.file, save)
    again = f"retain edit {shlex.quote(args.ref)}{same_bank(args)}"
    return edit_text(os.path.basename(memory.path), memory.data, save, again)


def save_file(path: str, save: Callable[[str], Output]) -> Output:
    """Save what an earlier edit left in a file."""
    try:
        return save(read_text(path, _MAX_BYTES))
    except Unreadable as error:
        error.hint = f"Mend {path}, and run the command again."
        raise


def edit_text(name: str, data: bytes, save: Callable[[str], Output], again: str) -> Output:
    """Have a person edit a copy, and save it; what they typed survives every refusal.

    `again` is the command that takes it up with --file.
    """
    folder = tempfile.mkdtemp(prefix="retain-edit-")
    path = os.path.join(folder, name)
    with open(path, "xb") as file:
        file.write(data)
    keeps = False
    try:
        output = None
        while output is None:
            _run_editor(path)
            try:
                output = save(read_text(path, _MAX_BYTES))
            except Unreadable as error:
                error.hint = f"Mend it there: `{again} --file {path}` takes it up."
                question = f"retain: {error.message}\nEdit it again? [Y/n]"
                if not sys.stdin.isatty() or ask(question).lower() in ("n", "no"):
                    raise
        if output.code:  # not all of it was saved
            keeps = True
            return output._replace(warnings=[*output.warnings, f"Your text is in {path}."])
        return output
    except (RetainError, KeyboardInterrupt) as error:
        with open(path, "rb") as file:
            keeps = file.read() != data
        if keeps and isinstance(error, RetainError):
            error.hint = f"Your text is in {path}. {error.hint}"
            error.unchanged = error.unchanged or "Nothing was changed."
        elif keeps:
            print(f"\nretain: your text is in {path}", file=sys.stderr)
        raise
    finally:
        if not keeps:
            shutil.rmtree(folder, ignore_errors=True)


def _run_editor(path: str) -> None:
    """Open the person's editor on a file, and wait until it is closed."""
    named = (os.environ.get("VISUAL") or os.environ.get("EDITOR") or "").strip()
    installed = (found for name in ("editor", "nano", "vim", "vi") if (found := shutil.which(name)))
    hint = "Set EDITOR to a command that edits the file it is given, such as nano."
    try:
        command = shlex.split(named)
        if not command and sys.stdin.isatty():  # else an editor would wait for nobody
            command = [next(installed, "nano")]
        if not command:
            raise RetainError("there is no terminal to edit on, and no editor is named", hint=hint)
        subprocess.run([*command, path], check=True)
    except ValueError as error:
        raise RetainError(f"EDITOR is not a command: {named} ({error})", hint=hint) from error
    except OSError as error:
        message = f"the editor {command[0]!r} cannot be started: {error.strerror}"
        raise RetainError(message, hint=hint) from error
    except subprocess.CalledProcessError as error:
        message = f"the editor {command[0]!r} ended with code {error.returncode}"
        raise RetainError(message) from error
