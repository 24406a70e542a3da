"""The banks around one working directory: found, opened, indexed, and their settings changed."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from retain.bank.bank import Bank
from retain.bank.files import Directory, WriteTransaction, write_whole
from retain.bank.history import History
from retain.bank.listing import make_bank
from retain.bank.markdown import find_agent, find_author
from retain.config import Config, config_file, read_file, rules, set_key
from retain.errors import Ambiguous, NotFound, RetainError, UsageError
from retain.index.index import Index, Model
from retain.locate import (
    BankLocation,
    Locator,
    find_bank,
    global_root,
    is_inside,
    make_private_directory,
    project_of,
    refuse_link,
)
from retain.memory import GLOBAL, Memory

if TYPE_CHECKING:
    from retain.app.worker import EmbeddingWorker
    from retain.categories import Rules
    from retain.config import Scalar, Setting
    from retain.index.engines.settings import Engines
    from retain.index.sync import Progress
    from retain.records.service import Records

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_HANDLE: Final = re.compile(r"m:[0-9a-f]{4,64}")  # as a brief calls a memory


def verb(
    function: Callable[Concatenate[Banks, _Arguments], _Result],
) -> Callable[Concatenate[Banks, _Arguments], _Result]:
    """Make a method of a function on banks: one call at a time, refused once they are closed."""

    @functools.wraps(function)
    def call(self: Banks, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with self.turn():
            return function(self, *args, **kwargs)

    return call


class Banks(Locator):
    """What all verbs of the app work on: the bank in force, and the others that a read looks in."""

    def __init__(
        self,
        *,
        bank: str = "",
        local: bool = False,
        everywhere: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stays: bool = False,
    ) -> None:
        super().__init__(
            os.getcwd() if cwd is None else cwd,
            os.environ if env is None else env,
            bank=bank,
            local=local,
            everywhere=everywhere,
        )
        self._stays = stays  # in a process that lives on
        self.lock = threading.RLock()  # which every verb takes
        self._is_closed = False
        self._indexes: dict[str, Index] = {}
        self._worker: EmbeddingWorker | None = None
        self.closers: list[Callable[[], object]] = []  # of what else was opened
        # An index is closed in good order also where nobody thinks of it.
        self._finalizer: weakref.finalize[..., Banks] = weakref.finalize(
            self, _close_all, self._indexes
        )

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One call at a time, as long as nobody closed the app; vectors are made afterwards."""
        with self.lock:
            if self._is_closed:
                raise UsageError(
                    "this bank is closed",
                    hint="Open it again: retain.open(path), or stay in `with`.",
                )
            yield
            if self._worker:
                self._worker.notice()

    def start_worker(self, failed: Callable[[Exception], object] | None = None) -> None:
        """Make missing vectors in a thread, now and after every call; see EmbeddingWorker."""
        from retain.app.worker import EmbeddingWorker  # for those who stay

        self._worker = EmbeddingWorker(self, failed)
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _shut_down, self._worker, self._indexes)
        self._worker.notice()

    # Opening

    @cached_property
    def opened(self) -> Bank:
        """The bank in force, whether or not memory is switched off there."""
        location = self.location
        if location.scope == "bank" and not location.exists:
            raise NotFound(
                f"there is no bank at {location.root} ({location.reason})",
                hint=f"`retain init --bank {location.root}` makes one.",
            )
        return _open(location, self.config)

    @property
    def bank(self) -> Bank:
        """The bank that writes go to, if memory is switched on there."""
        self.refuse_switched_off()
        return self.opened

    def readable(self) -> list[Bank]:
        """The banks a read looks in: the project's, then the person's own."""
        (_, *others) = self.locations()
        return [self.opened, *(_open(*other) for other in others)]

    @property
    def author(self) -> str:
        """In whose name this app writes."""
        return find_author(self.config, self.env)

    @cached_property
    def rules(self) -> Rules:
        """How the bank in force keeps its typed memories."""
        return rules(self.config, self.bank.root)

    @cached_property
    def records(self) -> Records:
        """The typed memories of the bank in force; what changes them goes through the app."""
        from retain.records.service import Records

        redact_secrets = self.config.flag("guard.redact_secrets")
        return Records(self.bank, self.rules, self.author, redact_secrets=redact_secrets)

    def history(self, bank: Bank) -> History:
        """The earlier texts of a bank's memories."""
        config = self.load_config(bank.location)
        return History(bank, use_git=config.text("versioning.mode") == "auto")

    def forget(self) -> None:
        """Look again next time: a bank was made, or a setting was changed."""
        super().forget()
        self.__dict__.pop("opened", None)

    def init(self) -> tuple[BankLocation, bool]:
        """Make a bank where one was asked for, and say whether it is new."""
        named = self.named or self.env.get("RETAIN_BANK", "")
        if self.everywhere:
            root, scope = global_root(self.env), "global"
        elif named:
            root, scope = os.path.join(self.cwd, os.path.expanduser(named)), "bank"
        else:
            root, scope = os.path.join(self.cwd, ".retain"), "project"
            refuse_link(root)
            around = self.bank_above()
            if around and is_inside(os.path.join(self.cwd, "x"), around.root):
                raise UsageError(
                    f"{self.cwd} is inside the bank {around.root}",
                    unchanged="Nothing was made.",
                    hint="Go to a project's root directory first.",
                )
        root = os.path.abspath(root)
        if os.path.realpath(root) == global_root(self.env):
            scope = "global"  # `retain init` in the home directory
        return BankLocation(root, "retain", scope, "made by init", True), make_bank(root)

    def bank_above(self) -> BankLocation | None:
        """The bank that a new one here would hide: a project's above, or another tool's store."""
        with contextlib.suppress(RetainError):
            return find_bank(self.cwd, self.env, local=True)
        return None

    def ensure_bank(self) -> None:
        """Make the person's own bank, or a project's configured one, if it is not there yet."""
        if self.location.exists or self.location.scope == "bank":
            return
        make = make_bank if self.location.kind == "retain" else make_private_directory
        make(self.location.root)
        self.forget()

    # Settings

    def config_files(self) -> tuple[str, str]:
        """The person's own config file and the bank's; neither need be in order."""
        return self.user_file, config_file(self.find_location().root)

    def set_config(self, setting: Setting, value: Scalar | None) -> tuple[str, bool]:
        """Write a setting to the bank's config, or the person's own with --global.

        None takes it out again. Returns the file, and whether it was changed.
        """
        location, (user, path) = self.find_location(), self.config_files()
        if value is not None and path != user and not setting.project:
            raise UsageError(
                f"{setting.key} is yours to set, not a project's",
                unchanged="Nothing was changed.",
                hint=f"Set it in your own config: `retain config set {setting.key} ... --global`.",
            )
        # Models, addresses and guards are not an agent's to set: it may do a stranger's will.
        agent = "" if setting.project else find_agent(self.env)
        if agent:
            raise UsageError(
                f"{setting.key} is the person's own to set, and {agent} runs this command",
                unchanged="Nothing was changed.",
                hint=f"Ask them to run it themselves: `retain config set {setting.key} ...`",
            )
        if location.kind != "retain":
            from retain.foreign import refuse_setting

            refuse_setting(location.root, location.foreign_config, setting.key)
        read_file(path)  # a newer format or a broken file is not to be written to
        text = _read_text(path)
        if value is None and set_key(text, setting.key, None) == text:
            return path, False
        if not location.exists:
            make_bank(location.root)
        # The person may keep their own config elsewhere, behind a link; a project may not.
        file = os.path.realpath(path) if path == user else path
        with (
            Directory.open(os.path.realpath(location.root)) as root,
            WriteTransaction.open(root, path),
        ):
            write_whole(file, set_key(_read_text(file), setting.key, value).encode())
        self.forget()
        return path, True

    # Finding memories

    def find_memory(self, ref: str, collection: str | None = None) -> tuple[Memory, Bank]:
        """A memory and the bank it is in; the project's before the person's own."""
        banks = self.readable()
        ref = _resolve_handle(ref, banks)
        if ref.startswith(GLOBAL):
            ref = ref.removeprefix(GLOBAL)
            banks = [bank for bank in banks if bank.location.scope == "global"] or banks
        errors = []
        for bank in banks:
            try:
                return bank.find(ref, collection), bank
            except NotFound as error:
                errors.append(error)
        raise _explain(errors[0], ref, collection, banks)

    def find_own(self, ref: str, collection: str | None = None) -> Memory:
        """A memory of the bank in force, the only one that writes change."""
        with self.explaining(ref, collection) as own_ref:
            return self.bank.find(own_ref, collection)

    @contextlib.contextmanager
    def explaining(self, ref: str, collection: str | None) -> Iterator[str]:
        """A reference within the bank in force; if no memory has it, the error says where it is."""
        ref = _resolve_handle(ref, [self.bank])
        name = ref.removeprefix(GLOBAL)
        if ref.startswith(GLOBAL) and self.location.scope != "global":
            raise NotFound(
                f"{name!r} is in your global bank, and writes go to {self.location.root}",
                unchanged="Nothing was changed.",
                hint="Change it with --global.",
            )
        try:
            yield name
        except NotFound as error:
            for other in self.readable()[1:]:
                if other.holds(name, collection):
                    raise NotFound(
                        f"{name!r} is not in {self.location.root}",
                        unchanged="Nothing was changed.",
                        hint=f"It is in your global bank ({other.root}): add --global.",
                    ) from None
            raise _explain(error, name, collection, [self.bank]) from None

    # Indexes

    def index(self) -> Index:
        """The index of the bank in force, which must exist."""
        index = self.index_of(self.bank)
        if not index.location.exists:
            raise NotFound(
                f"there is no bank at {index.bank.root} yet",
                hint="It is made with the first memory: echo '# Title' | retain put -",
            )
        return index

    def indexes(self) -> list[Index]:
        """The indexes of the banks a read looks in, the project's own first."""
        return [self.index_of(bank) for bank in self.readable() if bank.location.exists]

    def index_of(self, bank: Bank) -> Index:
        root, location = bank.root, bank.location
        if root in self._indexes and self._indexes[root].location != location:
            self._indexes.pop(root).close()  # it was looked for before it was made
        if root not in self._indexes:
            config = self.config
            # Not held by its indexes: those are closed when nobody else holds it any more.
            locator: Locator = weakref.proxy(self)
            # Who comes and goes asks someone who has the model loaded: any bank's has the same.
            warm = () if self._stays else (self.location.root, global_root(self.env))
            key = self.env.get("RETAIN_RECALL_API_KEY", "")
            self._indexes[root] = Index(
                bank,
                self.env,
                Model(config.text("recall.embedder"), config.text("recall.model"), key, warm),
                functools.partial(_make_engines, locator),
                settings=lambda: locator.latest_config(),  # noqa: PLW0108 - a method would hold it
                project="" if location.scope == "global" else project_of(root),
                stays=self._stays,
            )
        return self._indexes[root]

    def make_vectors(
        self,
        *,
        progress: Progress | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> int:
        """Make the vectors that are missing in the bank in force; nobody waits for it meanwhile."""
        with self.turn():
            index = self.index()
            index.refresh()
        return index.make_vectors(
            progress=progress, is_stopped=lambda: self._is_closed or is_stopped()
        )

    def close(self) -> None:
        """Let go of what was opened; every file is safe already."""
        self._is_closed = True
        if self._worker:
            self._worker.end()
        with self.lock:
            self._finalizer()
            while self.closers:
                self.closers.pop()()

    # Engines

    @property
    def has_engines(self) -> bool:
        """Whether a person has chosen that parts of the index live elsewhere."""
        return _has_engines(self.latest_config())

    @property
    def has_news(self) -> bool:
        """Whether something was taken in that nobody has told engines of yet."""
        return any(index.has_news for index in list(self._indexes.values()))

    def deliver(self, *, is_stopped: Callable[[], bool] = lambda: False) -> bool:
        """Tell engines what they lack, except those that are down; whether something still waits.

        It is for the bank in force and for those that were looked in. Nobody waits for this: what
        cannot be delivered now is told later, by whoever comes next.
        """
        if not self.has_engines:
            for index in list(self._indexes.values()):
                index.has_news = False
            return False
        with contextlib.suppress(NotFound):  # a bank that is not made yet has nothing to tell
            self.index()
        indexes = [index for index in list(self._indexes.values()) if index.location.exists]
        waits = [_deliver(index, is_stopped) for index in indexes]
        return any(waits)

    def stop_waiting(self) -> None:
        """Have nobody wait for an engine any longer: the program ends."""
        for index in list(self._indexes.values()):
            index.stop_waiting()


def _open(location: BankLocation, config: Config) -> Bank:
    """A bank with its own settings: a project's config says nothing about the person's bank."""
    is_off = config.text("versioning.mode") == "off"
    max_versions = 0 if is_off else config.number("versioning.max_versions")
    return Bank(location, max_bytes=config.number("memory.max_bytes"), max_versions=max_versions)


def _close_all(indexes: dict[str, Index]) -> None:
    while indexes:
        indexes.popitem()[1].close()


def _shut_down(worker: EmbeddingWorker, indexes: dict[str, Index]) -> None:
    worker.end()
    _close_all(indexes)


def _has_engines(config: Config) -> bool:
    return any(config.text(f"engine.{part}") != "sqlite" for part in ("text", "vector"))


def _make_engines(locator: Locator, index: Index) -> Engines | None:
    """The engines a person chose; what loads them is imported where any was."""
    config = locator.latest_config()
    if not _has_engines(config):
        return None
    from retain.index.engines.settings import choose

    model = ""
    with contextlib.suppress(RetainError):  # a model that cannot be had makes no vectors to send
        model = index.embedder.name if index.embedder else ""
    return choose(config, locator.env, index.bank.root, index.database, model)


def _deliver(index: Index, is_stopped: Callable[[], bool]) -> bool:
    """Tell the engines of one bank what they lack; whether something still waits."""
    engines, index.has_news = index.engines, False
    if engines is None:
        return False

    def is_over() -> bool:  # also where the person has chosen others meanwhile
        return is_stopped() or index.engines is not engines

    waits = False
    for delivery in engines.deliveries.values():
        try:
            waits = bool(delivery.push(is_stopped=is_over).left) or waits
        except RetainError:  # `retain engine status` tells
            waits = True
    return waits


def _resolve_handle(ref: str, banks: Sequence[Bank]) -> str:
    """The reference of the memory that a brief called by a handle; any other as it is."""
    if not _HANDLE.fullmatch(ref):
        return ref
    from retain.search import brief

    length = len(ref) - len("m:")
    refs = dict.fromkeys(
        brief.scoped(f"{collection}/{name}", scope)
        for bank in banks
        for scope in [bank.location.scope]
        for collection, name in bank.names()
        if ref == brief.handle(f"{collection}/{name}".removeprefix("/"), length, scope)
    )
    if not refs:
        raise NotFound(
            f"no memory has the handle {ref}",
            hint="It may be moved or deleted by now; `retain search` finds it by its text.",
        )
    if len(refs) > 1:
        raise Ambiguous(
            f"{ref} stands for several memories: {', '.join(refs)}",
            unchanged="Nothing was changed.",
            hint="Name the one you mean by its id.",
        )
    return next(iter(refs))


def _explain(error: NotFound, ref: str, collection: str | None, banks: Sequence[Bank]) -> NotFound:
    """The same error for a memory that was merged or deleted, or whose name is misspelt."""
    for bank in banks:
        if heir := bank.merged_into(ref, collection):
            return NotFound(
                f"{ref} was merged into {heir}",
                hint=f"See: retain get {heir}",
                details={"merged_into": heir},
            )
    for bank in banks:
        if trashed := bank.trash.find(ref, collection):
            return NotFound(
                f"{ref!r} was deleted on {trashed.deleted_at} and is in the trash",
                hint=f"Bring it back: retain restore {ref}",
                details={"trashed": trashed.name},
            )
    if near := banks[0].similar_ids(ref, collection):
        error.hint = f"Did you mean {' or '.join(near)}?"
    elif near := banks[0].trash.similar_ids(ref):
        error.hint = f"Did you mean {' or '.join(near)}, in the trash? `retain restore ID`"
    return error


def _read_text(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()
