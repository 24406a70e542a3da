"""A project with a bank, for chats."""

from __future__ import annotations

import os

import pytest

from retain.app import App


@pytest.fixture(autouse=True)
def bank() -> None:
    """The directory a test works in has a bank."""
    app = App(cwd=os.getcwd())
    app.init()
    app.close()
