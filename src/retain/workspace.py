"""Where a command works: the banks it may read and write, each with the settings in force there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from retain import config as settings
from retain import paths
from retain.bank import Bank, make
from retain.errors import ConfigError, NotFound, RetainError, UsageError
from retain.fsio import Directory, Workshop, make_folder, write_whole
from retain.model import Place

if TYPE_CHECKING:
    from retain.history import History

__all__ = ["Opened", "Workspace"]


class Opened(NamedTuple):
    """A bank and its own settings: a project's config says nothing about the person's bank."""

    bank: Bank
    config: settings.Config

    def history(self) -> History:
        """The earlier texts of the bank's memories."""
        from retain.history import History

        return History(self.bank, use_git=self.config.text("versioning.mode") == "auto")


class Workspace:
    """One working directory with its environment and the flags a call was given."""

    def __init__(
        self, bank: str, local: bool, everywhere: bool, cwd: str, env: Mapping[str, str]
    ) -> None:
        self.cwd, self.env = cwd, env
        self._named, self._local, self._everywhere = bank, local, everywhere

    @cached_property
    def place(self) -> Place:
        """The bank in force."""
        found = self._found()
        if found.scope != "project" or self._local:
            return found
        strategy = self._load(found).values["memory.storage_strategy"]
        if strategy.value != "user":
            return found
        return self._own._replace(reason=f"memory.storage_strategy is user ({strategy.origin})")

    def _found(self) -> Place:
        flags = {"local": self._local, "everywhere": self._everywhere}
        return paths.find_bank(self.cwd, self.env, bank=self._named, **flags)

    @property
    def _own(self) -> Place:
        return paths.find_bank(self.cwd, self.env, everywhere=True)

    @cached_property
    def config(self) -> settings.Config:
        """The settings in force for the bank in force."""
        return self._load(self.place)

    def _load(self, place: Place) -> settings.Config:
        user = settings.config_file(paths.global_root(self.env))
        return settings.load(user, settings.config_file(place.root), self.env, _foreign(place))

    @cached_property
    def opened(self) -> Opened:
        """The bank in force, whether or not memory is switched off there."""
        if self.place.scope == "bank" and not self.place.exists:
            raise NotFound(
                f"there is no bank at {self.place.root} ({self.place.reason})",
                hint=f"`retain init --bank {self.place.root}` makes one.",
            )
        return _opened(self.place, self.config)

    @property
    def writable(self) -> Opened:
        """The bank that writes go to, if memory is switched on there."""
        value, origin = self.config.values["memory.enabled"]
        if not value:
            raise ConfigError(
                f"memory is switched off for {self.place.root} (memory.enabled = false: {origin})",
                unchanged="Nothing was read or changed.",
                hint=f"Switch it on where it is switched off: {origin}.",
            )
        return self.opened

    def readable(self) -> list[Opened]:
        """The banks a read looks in: the project's, then the person's own."""
        found = [self.writable]
        if self.place.scope == "project" and not self._local and self._own.exists:
            config = self._load(self._own)
            if config.flag("memory.enabled"):
                found.append(_opened(self._own, config))
        return found

    # Making and setting

    def init(self) -> tuple[Place, bool]:
        """Make a bank where one was asked for, and say whether it is new."""
        named = self._named or self.env.get("RETAIN_BANK", "")
        if self._everywhere:
            root, scope = paths.global_root(self.env), "global"
        elif named:
            root, scope = os.path.join(self.cwd, os.path.expanduser(named)), "bank"
        else:
            root, scope = os.path.join(self.cwd, ".retain"), "project"
            paths.refuse_link(root)
            self._refuse_inside()
        root = os.path.abspath(root)
        if os.path.realpath(root) == paths.global_root(self.env):
            scope = "global"  # `retain init` in the home directory
        return Place(root, "retain", scope, "made by init", True), make(root)

    def above(self) -> Place | None:
        """The bank that a new one here would hide: a project's above, or another tool's store."""
        with contextlib.suppress(RetainError):
            return paths.find_bank(self.cwd, self.env, local=True)
        return None

    def _refuse_inside(self) -> None:
        around = self.above()
        if around and paths.is_inside(os.path.join(self.cwd, "x"), around.root):
            raise UsageError(
                f"{self.cwd} is inside the bank {around.root}",
                unchanged="Nothing was made.",
                hint="Go to a project's root directory first.",
            )

    def make(self) -> None:
        """Make the person's own bank, or a project's configured one, if it is not there yet."""
        if self.place.exists or self.place.scope == "bank":
            return
        if self.place.kind == "retain":
            make(self.place.root)
        else:
            make_folder(self.place.root)
        self._forget("place", "opened")

    def config_files(self) -> tuple[str, str]:
        """The person's own config file and the bank's; neither need be in order."""
        user = settings.config_file(paths.global_root(self.env))
        return user, settings.config_file(self._found().root)

    def set_config(self, setting: settings.Setting, value: settings.Scalar) -> str:
        """Write a setting to the bank's config, or the person's own with --global."""
        user, path = self.config_files()
        if path != user and not setting.project:
            raise UsageError(
                f"{setting.key} is yours to set, not a project's",
                unchanged="Nothing was changed.",
                hint=f"Set it in your own config: `retain config set {setting.key} ... --global`.",
            )
        place = self._found()
        if place.kind != "retain":
            raise UsageError(
                f"{place.root} is a store of another kind, with a config of its own",
                unchanged="Nothing was changed.",
                hint="Set it in your own config with --global.",
            )
        settings.read_file(path)  # a newer format or a broken file is not to be written to
        if not place.exists:
            make(place.root)
        # The person may keep their own config elsewhere, behind a link; a project may not.
        file = os.path.realpath(path) if path == user else path
        with Directory.open(os.path.realpath(place.root)) as root, Workshop.open(root, path):
            write_whole(file, settings.changed(_text_of(file), setting, value).encode())
        self._forget("place", "config", "opened")
        return path

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)


def _opened(place: Place, config: settings.Config) -> Opened:
    versions = config.number("versioning.max_versions")
    bank = Bank(
        place,
        max_bytes=config.number("memory.max_bytes"),
        max_versions=0 if config.text("versioning.mode") == "off" else versions,
    )
    return Opened(bank, config)


def _text_of(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


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
