"""A link handed to a browser without standing in its command line, which every program can read.

The browser is given the address of a file instead. It leads on to the link, only its owner can
read it, and it is gone soon after.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import threading
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Final

from retain.bank.files import write_whole
from retain.daemon.client import is_private

_SECONDS: Final = 20  # a browser that has to be started first needs some
_PAGE: Final = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}">
<title>Retain</title>
"""


def laid(link: str, env: Mapping[str, str]) -> str:
    """The file that leads to a link; empty where there is no folder that is this person's alone."""
    given = env.get("XDG_RUNTIME_DIR", "")
    base = given if os.path.isabs(given) else "/tmp"  # noqa: S108 - made and checked to be private
    folder = f"{base}/retain-{os.geteuid()}"
    with contextlib.suppress(OSError):
        os.mkdir(folder, 0o700)
    if not is_private(folder):
        return ""
    path = Path(folder, f"open-{secrets.token_hex(8)}.html")
    write_whole(str(path), _PAGE.format(link=escape(link)).encode())
    return str(path)


def taken_away(path: str) -> None:
    """Remove the file soon, also when this process ends before."""
    removing = subprocess.Popen(
        ["/bin/sh", "-c", f'sleep {_SECONDS}; rm -f -- "$1"', "sh", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=removing.wait, daemon=True).start()  # else it stays as a dead child
