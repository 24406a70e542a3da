"""Where a command works: the banks it may read and write, each with the settings in force there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from retain import config as settings
from retain import paths
from retain.bank import Bank, make
from retain.errors import NotFound, RetainError, UsageError
from retain.fsio import Directory, Workshop, make_folder, write_whole
from retain.gate import agent_in
from retain.place import Place
from retain.places import Places

if TYPE_CHECKING:
    from retain.history import History
    from retain.settings import Scalar, Setting

__all__ = ["Opened", "Workspace"]


class Opened(NamedTuple):
    """A bank and its own settings: a project's config says nothing about the person's bank."""

    bank: Bank
    config: settings.Config

    def history(self) -> History:
        """The earlier texts of the bank's memories."""
        from retain.history import History

        return History(self.bank, use_git=self.config.text("versioning.mode") == "auto")


class Workspace(Places):
    """One working directory with its environment and the flags a call was given."""

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
        self.refuse_switched_off()
        return self.opened

    def banks(self) -> list[Opened]:
        """The banks a read looks in: the project's, then the person's own."""
        (_, *others) = self.readable()
        return [self.opened, *(_opened(place, config) for place, config in others)]

    # Making and setting

    def init(self) -> tuple[Place, bool]:
        """Make a bank where one was asked for, and say whether it is new."""
        named = self.named or self.env.get("RETAIN_BANK", "")
        if self.everywhere:
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
        self.forget()

    def config_files(self) -> tuple[str, str]:
        """The person's own config file and the bank's; neither need be in order."""
        user = settings.config_file(paths.global_root(self.env))
        return user, settings.config_file(self.found().root)

    def set_config(self, setting: Setting, value: Scalar) -> str:
        """Write a setting to the bank's config, or the person's own with --global."""
        user, path = self.config_files()
        if path != user and not setting.project:
            raise UsageError(
                f"{setting.key} is yours to set, not a project's",
                unchanged="Nothing was changed.",
                hint=f"Set it in your own config: `retain config set {setting.key} ... --global`.",
            )
        self._refuse_agents(setting)
        place = self.found()
        _refuse_foreign(place, setting.key, value)
        settings.read_file(path)  # a newer format or a broken file is not to be written to
        if not place.exists:
            make(place.root)
        self._rewrite(path, place, lambda text: settings.changed(text, setting, value))
        return path

    def unset_config(self, setting: Setting) -> tuple[str, bool]:
        """Take a setting out of that config; the file, and whether it was there."""
        _, path = self.config_files()
        self._refuse_agents(setting)
        place = self.found()
        _refuse_foreign(place, setting.key, None)
        settings.read_file(path)
        text = _text_of(path)
        after = _without(text, setting.key)
        if after != text:
            self._rewrite(path, place, lambda text: _without(text, setting.key))
        return path, after != text

    def _refuse_agents(self, setting: Setting) -> None:
        """Models, addresses and guards are not an agent's to set: it may do a stranger's will."""
        agent = "" if setting.project else agent_in(self.env)
        if agent:
            raise UsageError(
                f"{setting.key} is the person's own to set, and {agent} runs this command",
                unchanged="Nothing was changed.",
                hint=f"Ask them to run it themselves: `retain config set {setting.key} ...`",
            )

    def _rewrite(self, path: str, place: Place, edit: Callable[[str], str]) -> None:
        # The person may keep their own config elsewhere, behind a link; a project may not.
        file = os.path.realpath(path) if path == self.config_files()[0] else path
        with Directory.open(os.path.realpath(place.root)) as root, Workshop.open(root, path):
            write_whole(file, edit(_text_of(file)).encode())
        self.forget()

    def forget(self) -> None:
        super().forget()
        self.__dict__.pop("opened", None)


def _opened(place: Place, config: settings.Config) -> Opened:
    versions = config.number("versioning.max_versions")
    bank = Bank(
        place,
        max_bytes=config.number("memory.max_bytes"),
        max_versions=0 if config.text("versioning.mode") == "off" else versions,
    )
    return Opened(bank, config)


def _refuse_foreign(place: Place, key: str, value: Scalar | None) -> None:
    """Refuse to write to another tool's config, and say what belongs into it."""
    if place.kind == "retain":
        return
    file = os.path.join(place.root, settings.CLAUDE_FILE)
    said = f"{place.root} is a store of another kind, with a config of its own"
    hint = "Set it in your own config with --global."
    if place.kind == "claude" and (theirs := _in_claude(key)):
        said = f"the settings of {place.root} are in {file}, which is yours to edit"
        whole: object = value
        for part in reversed(theirs.split(".")):
            whole = {part: whole}
        import json

        hint = f"Put this into it: {json.dumps(whole)}; or set it for yourself with --global."
        if value is None:
            hint = f"Take {theirs} out of it in an editor."
    raise UsageError(said, unchanged="Nothing was changed.", hint=hint)


# Settings that `memory-config.json` has other names for.
_CLAUDES: Final = {
    "records.grace_period_days": "delete.grace_period_days",
    "records.archive_retired": "delete.archive_retired",
    "records.max_per_category": "max_memories_per_category",
    "records.match_strategy": "retrieval.match_strategy",
    "versioning.auto_commit": "auto_commit",
}


def _in_claude(key: str) -> str:
    """What a `memory-config.json` calls a setting; empty if it has none such."""
    is_same = key.startswith(("retrieval.", "triage.", "hooks.", "categories."))
    return key if is_same else _CLAUDES.get(key, "")


def _without(text: str, key: str) -> str:
    """A config file's text without a key; all else stays as it is."""
    import tomlkit

    document = tomlkit.parse(text)
    *sections, name = key.split(".")
    table: object = document
    for part in sections:
        table = table.get(part) if isinstance(table, MutableMapping) else None
    if not isinstance(table, MutableMapping) or name not in table:
        return text
    del table[name]
    return tomlkit.dumps(document)


def _text_of(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()
