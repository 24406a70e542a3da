"""Persistent memory for AI agents and the people who work with them.

>>> import retain
>>> with retain.open("notes") as memory:
...     memory.put("The build needs Node 20.", tags=["build"])
...     for hit in memory.search("which node version?").hits:
...         print(hit.score, hit.id, hit.text)
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it; `typing` would cost every hook 6 ms
if TYPE_CHECKING:
    from retain.app import App
    from retain.errors import RetainError
    from retain.memory import Answer, Hit, Memory, Written

__all__ = ["Answer", "Hit", "Memory", "RetainError", "Written", "__version__", "open"]

__version__ = "0.1.0"


def open(path: str = "", *, create: bool = True, background: bool = True) -> App:  # noqa: A001 - retain.open reads as it is meant
    """Open the bank at a path, or the one in force here; makes it unless told not to.

    With `background`, missing vectors are made in a thread while the program goes on; without,
    `make_vectors()` makes them, and a search makes up to a hundred.
    """
    from retain.app import App  # the command line must not pay for it

    app = App(bank=path, stays=True)
    if create and path and not app.location.exists:
        app.init()
        app.forget()
    if background:
        app.start_worker()
    return app


def __getattr__(name: str) -> object:
    """The public classes, loaded when somebody asks for one."""
    if name not in __all__:
        raise AttributeError(f"module 'retain' has no attribute {name!r}")
    from retain import errors, memory

    return getattr(errors if name == "RetainError" else memory, name)
