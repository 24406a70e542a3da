"""Which banks a call may read and write, and the settings in force in each; none is opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property

from retain import config as settings
from retain import paths
from retain.errors import ConfigError
from retain.place import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = ["Places"]


_Stamp = tuple[int, int, int] | None


class _Read(NamedTuple):
    """The settings in force for a bank, and what the person's own file was when they were read."""

    stamp: _Stamp
    config: settings.Config


def _stamp(path: str) -> _Stamp:
    """By what it is seen that a file was written; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _of_engines(config: settings.Config) -> list[settings.Value]:
    return [value for key, value in config.values.items() if key.startswith("engine.")]


class Places:
    """The banks around one working directory, by its environment and a call's flags."""

    def __init__(
        self, bank: str, local: bool, everywhere: bool, cwd: str, env: Mapping[str, str]
    ) -> None:
        self.cwd, self.env = cwd, env
        self.named, self.local, self.everywhere = bank, local, everywhere
        self._loaded: dict[str, _Read] = {}
        self._latest: _Read | None = None
        self._own: Place | None = None

    @cached_property
    def place(self) -> Place:
        """The bank in force."""
        found = self.found()
        if found.scope != "project" or self.local:
            return found
        strategy = self.load(found).values["memory.storage_strategy"]
        if strategy.value != "user":
            return found
        return self.own._replace(reason=f"memory.storage_strategy is user ({strategy.origin})")

    def found(self) -> Place:
        """The bank that flags and directories lead to, whatever its settings say."""
        flags = {"local": self.local, "everywhere": self.everywhere}
        return paths.find_bank(self.cwd, self.env, bank=self.named, **flags)

    @property
    def own(self) -> Place:
        """The person's own bank; one that is not there is looked for again: anyone may make it."""
        if self._own is None or not self._own.exists:
            self._own = paths.find_bank(self.cwd, self.env, everywhere=True)
        return self._own

    @cached_property
    def config(self) -> settings.Config:
        """The settings in force for the bank in force."""
        return self.load(self.place)

    def load(self, place: Place) -> settings.Config:
        """The settings in force for a bank, read once."""
        return self._known(place).config

    def _known(self, place: Place) -> _Read:
        found = self._loaded.get(place.root)
        if found is None:
            found = self._loaded[place.root] = self._read(place)
        return found

    @property
    def latest(self) -> settings.Config:
        """The settings in force, those for engines as the person has them by now.

        Whoever stays open would else tell a server everything again that was left meanwhile. It is
        the same object until one of those changes. They are the person's own or the environment's.
        """
        place = self.place
        known = self._latest or self._known(place)
        if _stamp(self._user_file) != known.stamp:
            found = self._read(place)
            same = _of_engines(found.config) == _of_engines(known.config)
            known = self._latest = found._replace(config=known.config) if same else found
        return known.config

    @property
    def _user_file(self) -> str:
        return settings.config_file(paths.global_root(self.env))

    def _read(self, place: Place) -> _Read:
        user, own = self._user_file, settings.config_file(place.root)
        stamp = _stamp(user)  # before it is read: what is written meanwhile is seen next time
        return _Read(stamp, settings.load(user, own, self.env, _foreign(place)))

    def readable(self) -> list[tuple[Place, settings.Config]]:
        """The banks a read looks in, each with its settings: the project's, then the person's."""
        self.refuse_switched_off()
        found = [(self.place, self.config)]
        if self.place.scope == "project" and not self.local and self.own.exists:
            config = self.load(self.own)
            if config.flag("memory.enabled"):
                found.append((self.own, config))
        return found

    def refuse_switched_off(self) -> None:
        """Raise where memory is switched off for the bank in force."""
        value, origin = self.config.values["memory.enabled"]
        if not value:
            raise ConfigError(
                f"memory is switched off for {self.place.root} (memory.enabled = false: {origin})",
                unchanged="Nothing was read or changed.",
                hint=f"Switch it on where it is switched off: {origin}.",
            )

    def forget(self) -> None:
        """Look again next time: a bank was made, or a setting was changed."""
        for name in ("place", "config"):
            self.__dict__.pop(name, None)
        self._own = self._latest = None
        self._loaded.clear()


def _foreign(place: Place) -> str:
    """The config that another tool's store has of its own."""
    if place.kind == "arcaneum":
        return os.path.join(_project_of(place), ".arcaneum")
    return os.path.join(place.root, settings.CLAUDE_FILE) if place.kind == "claude" else ""


def _project_of(place: Place) -> str:
    """The directory of the `.arcaneum` file that names a bank."""
    directory = os.path.dirname(place.root)
    while not os.path.isfile(os.path.join(directory, ".arcaneum")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return os.path.dirname(place.root)
        directory = parent
    return directory
