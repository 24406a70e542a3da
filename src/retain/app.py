"""The one facade: everything a door can ask for, nothing printed.

A door opens an App for the place it works in, calls one method and renders what comes back.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from retain import config as settings
from retain import drafts, filters, markdown, paths
from retain.bank import Bank, codec, make, now
from retain.drafts import Draft
from retain.errors import ConfigError, Conflict, NotFound, RetainError, Unreadable, UsageError
from retain.fsio import make_folder, write_whole
from retain.model import Memory, Place, Problem, Trashed, Version, Written

if TYPE_CHECKING:
    from retain.doctor import Findings
    from retain.history import History
    from retain.porter import Exported, Imported

__all__ = ["App"]

SORTS: Final = ("collection", "id", "title", "type", "status", "created", "updated")

_SCOPES: Final = {"project": "0", "bank": "0", "global": "1"}  # the project's own come first

# Which variable a host sets in the commands its agent runs, and what the agent is called.
_AGENTS: Final = (
    ("CLAUDECODE", "Claude"),
    ("CODEX_THREAD_ID", "Codex"),
    ("CODEX_SANDBOX", "Codex"),
    ("GEMINI_CLI", "Gemini"),
    ("CURSOR_AGENT", "Cursor"),
    ("OPENCODE", "OpenCode"),
)


class App:
    """Retain, opened for one working directory."""

    def __init__(
        self,
        *,
        bank: str = "",
        local: bool = False,
        everywhere: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._env = os.environ if env is None else env
        self._cwd = os.getcwd() if cwd is None else cwd
        self._named, self._local, self._everywhere = bank, local, everywhere

    # The place and its settings

    @cached_property
    def place(self) -> Place:
        """The bank in force."""
        found = paths.find_bank(
            self._cwd,
            self._env,
            bank=self._named,
            local=self._local,
            everywhere=self._everywhere,
        )
        if found.scope != "project" or self._local:
            return found
        strategy = self._load(found).values["memory.storage_strategy"]
        if strategy.value != "user":
            return found
        reason = f"memory.storage_strategy is user ({strategy.origin})"
        return paths.find_bank(self._cwd, self._env, everywhere=True)._replace(reason=reason)

    @cached_property
    def config(self) -> settings.Config:
        """The settings in force for that bank."""
        return self._load(self.place)

    def _load(self, place: Place) -> settings.Config:
        user = settings.config_file(paths.global_root(self._env))
        foreign = ""
        if place.kind == "arcaneum":
            foreign = os.path.join(_project_of(place), ".arcaneum")
        return settings.load(user, settings.config_file(place.root), self._env, foreign)

    def config_files(self) -> tuple[str, str]:
        """The person's own config file and the bank's."""
        user = settings.config_file(paths.global_root(self._env))
        return user, settings.config_file(self.place.root)

    def set_config(self, setting: settings.Setting, value: settings.Scalar) -> str:
        """Write a setting to the bank's config, or the person's own with --global."""
        user, path = self.config_files()
        if path != user and not setting.project:
            raise UsageError(
                f"{setting.key} is yours to set, not a project's",
                unchanged="Nothing was changed.",
                hint=f"Set it in your own config: `retain config set {setting.key} ... --global`.",
            )
        if self.place.kind != "retain":
            raise UsageError(
                f"{self.place.root} is a store of another kind, with a config of its own",
                unchanged="Nothing was changed.",
                hint="Set it in your own config with --global.",
            )
        self._make()
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8", newline="") as file:
                text = file.read()
        write_whole(path, settings.changed(text, setting, value).encode())
        return path

    @cached_property
    def bank(self) -> Bank:
        """The bank that writes go to."""
        return self._open(self.place, self.config)

    @cached_property
    def history(self) -> History:
        """The earlier texts of the bank's memories."""
        return self._history_of(self.bank)

    def _history_of(self, bank: Bank) -> History:
        from retain.history import History

        return History(
            bank,
            use_git=self.config.text("versioning.mode") == "auto",
            auto_commit=self.config.flag("versioning.auto_commit"),
        )

    def _open(self, place: Place, config: settings.Config) -> Bank:
        if place.scope == "bank" and not place.exists:
            raise NotFound(
                f"there is no bank at {place.root} ({place.reason})",
                hint=f"`retain init --bank {place.root}` makes one.",
            )
        if not config.flag("memory.enabled"):
            origin = config.values["memory.enabled"].origin
            raise ConfigError(
                f"memory is switched off for {place.root} (memory.enabled = false in {origin})",
                unchanged="Nothing was read or changed.",
                hint="Switch it on with `retain config set memory.enabled true`.",
            )
        versions = config.number("versioning.max_versions")
        return Bank(
            place,
            max_bytes=config.number("memory.max_bytes"),
            max_versions=0 if config.text("versioning.mode") == "off" else versions,
        )

    def _readable(self) -> list[Bank]:
        """The banks a read looks in: the project's, then the person's own."""
        banks = [self.bank]
        if self.place.scope == "project" and not self._local:
            own = paths.find_bank(self._cwd, self._env, everywhere=True)
            config = self._load(own)
            if own.exists and config.flag("memory.enabled"):
                banks.append(self._open(own, config))
        return banks

    def init(self) -> tuple[Place, bool]:
        """Make a bank where one was asked for, and say whether it is new."""
        if self._everywhere:
            root, scope = paths.global_root(self._env), "global"
        elif self._named or self._env.get("RETAIN_BANK"):
            named = self._named or self._env["RETAIN_BANK"]
            root, scope = os.path.join(self._cwd, os.path.expanduser(named)), "bank"
        else:
            root, scope = os.path.join(self._cwd, ".retain"), "project"
        root = os.path.abspath(root)
        if os.path.realpath(root) == paths.global_root(self._env):
            scope = "global"  # `retain init` in the home directory
        place = Place(root, "retain", scope, "made by init", True)
        return place, make(root)

    def other_store(self) -> Place | None:
        """The store of another tool that a new bank here would hide."""
        with contextlib.suppress(RetainError):
            found = paths.find_bank(self._cwd, self._env, local=True)
            return found if found.kind != "retain" else None
        return None

    def _ready(self) -> Bank:
        """The bank to write to."""
        self._make()
        return self.bank

    def _make(self) -> None:
        """Make the person's own bank, or a project's configured one, if it is not there yet."""
        if not self.place.exists and self.place.scope in ("global", "project"):
            if self.place.kind == "retain":
                make(self.place.root)
            else:
                make_folder(self.place.root)
            self.__dict__["place"] = self.place._replace(exists=True)
            self.__dict__.pop("bank", None)

    # Memories

    def put(
        self,
        draft: Draft,
        *,
        collection: str | None = None,
        name: str = "",
        created_by: str = "",
        replace: bool = False,
    ) -> Written:
        """Store a memory: a new one, or a new text for the id given."""
        bank = self._ready()
        draft, warnings = self._guarded(_signed(draft, created_by))
        self._refuse_secret_names(draft.allow_secret, name, collection)
        given = drafts.given(draft)
        collection, wanted = self._address(name, collection, draft.title, given)
        fields: dict[str, object] = {
            "id": wanted,
            "created_at": given.meta.get("created_at") or now(),
            "created_by": self._author(),
            **drafts.changes(draft, ()),
        }
        data = given.composed(drafts.ordered(fields))
        try:
            written = bank.create(collection, wanted, data)
        except Conflict as taken:
            written = self._put_again(bank, collection, wanted, data, replace or bool(name), taken)
        return self._done(written, "put", warnings + given.warnings)

    def _address(
        self, name: str, collection: str | None, title: str, given: drafts.Given
    ) -> tuple[str, str]:
        """The collection and id to store under: those given, else made from the text."""
        if name:
            collection, wanted = paths.split_ref(name, collection)
        else:
            title = title or str(given.meta.get("title") or "")
            stated = str(given.meta.get("id") or "")
            wanted = paths.check_id(stated or paths.memory_id(title, given.body))
        if collection is None:
            collection = self.config.text("memory.default_collection")
            collection = collection or self.bank.kind.default_collection
        return collection, wanted

    def _put_again(
        self, bank: Bank, collection: str, name: str, data: bytes, replace: bool, taken: Conflict
    ) -> Written:
        """What a put does when its id is in use: nothing new, a new version, or a refusal."""
        old = bank.find(f"{collection}/{name}")
        if drafts.same_content(old, data):
            return Written(old, "unchanged")
        if not replace or not old.path.endswith(".md"):
            raise Conflict(
                f"{old.ref} exists already, with another text",
                unchanged="It was left as it is, and nothing was stored.",
                hint=f"Store this as another memory with --id NEW, or make it the new text of that "
                f"one with --id {old.id} or --replace.",
            ) from taken
        born = {
            key: old.meta[key]
            for key in ("created_at", "created_by")
            if old.meta.get(key) is not None
        }
        changes = {**born, "updated_at": now()}
        return bank.change(old.address, lambda _: markdown.edit(data, changes), status="replaced")

    def get(self, ref: str, *, collection: str | None = None, version: str = "") -> Memory:
        """A memory as it is, or as it was; the project's before the person's own."""
        missing: NotFound | None = None
        for bank in self._readable():
            try:
                memory = bank.find(ref, collection)
            except NotFound as error:
                missing = missing or error
                continue
            return self._at(bank, memory, version) if version else memory
        raise missing or NotFound(f"there is no memory {ref!r}")

    def _at(self, bank: Bank, memory: Memory, version: str) -> Memory:
        data = self._history_of(bank).read(memory, version)
        document = codec(memory.path).parse(data)
        return memory._replace(
            meta=document.meta, body=document.body, data=data, problem=document.problem
        )

    def list(
        self,
        *,
        collection: str | None = None,
        conditions: Iterable[str] = (),
        kind: str = "",
        status: str = "",
        sort: str = "collection",
        reverse: bool = False,
        problems: list[Problem] | None = None,
    ) -> list[Memory]:
        """Memories that meet every condition; retired ones only when asked for."""
        wanted = [filters.parse(one) for one in conditions]
        collection = None if collection is None else paths.check_collection(collection)
        found = [
            memory
            for bank in self._readable()
            for memory in bank.memories(collection, problems)
            if (not kind or memory.type == kind)
            and _has_status(memory, status)
            and filters.matches(memory, wanted)
        ]
        return sorted(found, key=_sort_key(sort), reverse=reverse)

    def update(
        self, ref: str, draft: Draft, *, collection: str | None = None, expect: str = ""
    ) -> Written:
        """Change a memory's text or metadata; everything not named stays as it is."""
        if draft.text is None and not drafts.changes(draft, ()):
            raise UsageError(
                "there is nothing to change",
                unchanged=f"{ref} is as it was.",
                hint="Give --content, --tags, --title, --metadata or another field.",
            )
        draft, warnings = self._guarded(draft)
        given = drafts.given(draft) if draft.text is not None else None

        def edit(memory: Memory) -> bytes:
            changes = dict(given.meta) if given else {}
            for key in ("id", "created_by"):  # a name and an author are not for a text to say
                changes.pop(key, None)
            changes.update(drafts.changes(draft, memory.tags))
            return drafts.revised(memory, changes, given.body if given else None)

        written = self._writable(ref, collection).change(
            ref, edit, collection=collection, expect=expect
        )
        return self._done(written, "update", warnings + (given.warnings if given else ()))

    def append(
        self, ref: str, draft: Draft, *, collection: str | None = None, expect: str = ""
    ) -> Written:
        """Add text to the end of a memory, two line breaks after what is there."""
        draft, warnings = self._guarded(draft)
        addition = draft.text or ""
        if not addition.strip():
            raise UsageError("there is no text to add", unchanged=f"{ref} is as it was.")

        def edit(memory: Memory) -> bytes:
            if not memory.path.endswith(".md"):
                raise Unreadable(
                    "text cannot be appended to a JSON record",
                    hint="Change its fields with `retain update --metadata` or --content.",
                )
            return drafts.revised(memory, {}, drafts.appended(memory.body, addition))

        written = self._writable(ref, collection).change(
            ref,
            edit,
            collection=collection,
            expect=expect,
            status="appended",
            repeatable=not expect,
        )
        return self._done(written, "append", warnings)

    def edit(
        self,
        ref: str,
        editor: Callable[[Memory], str],
        *,
        collection: str | None = None,
        allow_secret: bool = False,
    ) -> Written:
        """Let a person rewrite the whole file; it is checked before it is saved."""
        bank = self._writable(ref, collection)
        memory = bank.find(ref, collection)
        draft, warnings = self._guarded(Draft(text=editor(memory), allow_secret=allow_secret))
        data = (draft.text or "").encode()
        document = codec(memory.path).parse(data)
        if document.problem:
            raise Unreadable(
                f"not saved: {document.problem}",
                unchanged=f"{memory.path} is as it was.",
            )
        written = bank.change(memory.address, lambda _: data, expect=memory.hash)
        return self._done(written, "edit", warnings)

    def delete(
        self, ref: str, *, collection: str | None = None, expect: str = ""
    ) -> tuple[Trashed, tuple[str, ...]]:
        """Move a memory to the trash."""
        bank = self._writable(ref, collection)
        memory = bank.find(ref, collection)
        trashed = bank.delete(memory.address, expect=expect)
        if not self.config.flag("versioning.auto_commit"):
            return trashed, ()
        outcome = self.history.commit({memory.path: None}, f"retain: delete {memory.ref}")
        return trashed, ((outcome.warning,) if outcome.warning else ())

    def move(
        self, ref: str, *, collection: str | None = None, to_collection: str | None, to_id: str
    ) -> Written:
        """Give a memory another collection or another id."""
        if to_collection is None and not to_id:
            raise UsageError("say where to: --collection NAME, --id NEW, or both")
        self._refuse_secret_names(False, to_id, to_collection)
        bank = self._writable(ref, collection)
        before = bank.find(ref, collection)
        written = bank.move(ref, collection=collection, to_collection=to_collection, to_id=to_id)
        if written.status == "unchanged" or not self.config.flag("versioning.auto_commit"):
            return written
        after = written.memory
        outcome = self.history.commit(
            {before.path: None, after.path: after.data}, f"retain: move {before.ref} to {after.ref}"
        )
        warnings = (outcome.warning,) if outcome.warning else ()
        return written._replace(commit=outcome.commit or "", warnings=warnings)

    # History and trash

    def versions(self, ref: str, *, collection: str | None = None) -> Sequence[Version]:
        """The earlier texts of a memory, newest first."""
        memory, history = self._with_history(ref, collection)
        return history.versions(memory)

    def diff(
        self, ref: str, *, collection: str | None = None, older: str = "", newer: str = ""
    ) -> str:
        """What changed between two versions, as a unified diff."""
        memory, history = self._with_history(ref, collection)
        return history.diff(memory, older, newer)

    def _with_history(self, ref: str, collection: str | None) -> tuple[Memory, History]:
        memory = self.get(ref, collection=collection)
        bank = next(bank for bank in self._readable() if bank.place.scope == memory.scope)
        return memory, self._history_of(bank)

    def restore(self, ref: str, version: str, *, collection: str | None = None) -> Written:
        """Bring an earlier text back; the present one stays in the history."""
        self._writable(ref, collection)
        return self.history.restore(ref, version, collection=collection)

    def trashed(self) -> Sequence[Trashed]:
        """What can be brought back, newest first."""
        return self.bank.trashed()

    def untrash(self, name: str, *, collection: str | None = None, to_id: str = "") -> Written:
        """Bring a deleted memory back."""
        written = self.bank.untrash(name, collection=collection, to_id=to_id)
        return self._done(written, "restore", ())

    def empty_trash(self, before: str = "") -> Sequence[Trashed]:
        """Destroy what is in the trash for good."""
        return self.bank.empty_trash(before)

    # The whole bank

    def collections(self) -> Sequence[tuple[str, str, int]]:
        """Name, scope and number of memories of each collection."""
        rows: Sequence[tuple[str, str, int]] = ()
        for bank in self._readable():
            counts = dict.fromkeys(bank.collections(), 0)
            for memory in bank.memories():
                counts[memory.collection] += 1
            rows = [
                *rows,
                *((name, bank.place.scope, n) for name, n in counts.items() if name or n),
            ]
        return rows

    def status(self) -> Findings:
        """What is in the bank in force, and what is wrong with it."""
        from retain.doctor import examine

        return examine(self.bank)

    def kept_history(self) -> str:
        """In words, which earlier texts the bank keeps."""
        mode = self.config.text("versioning.mode")
        if mode == "off":
            return "off (versioning.mode)"
        numbered = f"the last {self.config.number('versioning.max_versions')} texts of each memory"
        repository = self.history.repository if self.place.exists else None
        return f"git in {repository.root}, and {numbered}" if repository else numbered

    def export(self, target: str) -> Exported:
        """Write the whole bank to a directory or a zip file."""
        from retain import porter

        return porter.export(self.bank, os.path.join(self._cwd, os.path.expanduser(target)))

    def take_over(self, source: str, *, replace: bool, allow_secret: bool) -> Imported:
        """Import another bank, store or export: all of it or nothing."""
        from retain import porter

        wanted = porter.plan(
            os.path.join(self._cwd, os.path.expanduser(source)),
            self.config.number("memory.max_bytes"),
        )
        allow_secret = allow_secret or not self.config.flag("guard.redact_secrets")
        return porter.take_over(self._ready(), wanted, replace=replace, allow_secret=allow_secret)

    # Between the door and the bank

    def _writable(self, ref: str, collection: str | None) -> Bank:
        """The bank in force, with a better answer for a memory that is only in the other one."""
        bank = self.bank
        try:
            bank.find(ref, collection)
        except NotFound as error:
            for other in self._readable()[1:]:
                if _holds(other, ref, collection):
                    error.hint = f"It is in your global bank ({other.root}): add --global."
            raise
        return bank

    def _done(self, written: Written, verb: str, warnings: tuple[str, ...]) -> Written:
        written = written._replace(warnings=warnings + written.warnings)
        if written.status == "unchanged" or not self.config.flag("versioning.auto_commit"):
            return written
        return self.history.committed(written, f"retain: {verb} {written.memory.ref}")

    def _guarded(self, draft: Draft) -> tuple[Draft, tuple[str, ...]]:
        """The draft as it may be stored, and what has to be said about secrets in it."""
        if draft.type:  # a field like the others, and looked at like the others
            draft = draft._replace(type="", fields={**draft.fields, "type": draft.type})
        clean, kinds = drafts.cleaned(draft)
        if not kinds:
            return draft, ()
        names = f"{len(kinds)} secret{'s' * (len(kinds) > 1)} ({', '.join(sorted(set(kinds)))})"
        if draft.allow_secret or not self.config.flag("guard.redact_secrets"):
            return draft, (f"stored as given, with what looks like {names}",)
        note = f"replaced {names} by [REDACTED:...]; --allow-secret stores it as it is"
        return clean, (note,)

    def _refuse_secret_names(self, allowed: bool, *names: str | None) -> None:
        """A name cannot be redacted, and it stands in listings, paths and commit messages."""
        if allowed or not self.config.flag("guard.redact_secrets"):
            return
        from retain.guard.secrets import redact

        for name in filter(None, names):
            if kinds := redact(name)[1]:
                raise UsageError(
                    f"a name looks like a secret ({', '.join(kinds)})",
                    unchanged="Nothing was changed.",
                    hint="Choose another id or collection.",
                )

    def _author(self) -> str:
        """Who is writing: the one configured, the agent that runs this command, or the user."""
        given = self.config.text("memory.created_by")
        if given:
            return given
        for variable, agent in _AGENTS:
            if self._env.get(variable):
                return agent
        return self._env.get("USER") or self._env.get("LOGNAME") or _login()


def _signed(draft: Draft, author: str) -> Draft:
    """The draft with its author among its fields, so that the guard sees it too."""
    return draft._replace(fields={**draft.fields, "created_by": author}) if author else draft


def _login() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _project_of(place: Place) -> str:
    """The directory of the `.arcaneum` file that names a bank."""
    directory = os.path.dirname(place.root)
    while not os.path.isfile(os.path.join(directory, ".arcaneum")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return os.path.dirname(place.root)
        directory = parent
    return directory


def _holds(bank: Bank, ref: str, collection: str | None) -> bool:
    try:
        bank.find(ref, collection)
    except NotFound:
        return False
    return True


def _has_status(memory: Memory, wanted: str) -> bool:
    if wanted:
        return wanted in ("all", memory.status)
    return memory.status != "retired"


def _sort_key(sort: str) -> Callable[[Memory], tuple[str, ...]]:
    if sort in ("created", "updated"):
        field = f"{sort}_at"
        return lambda memory: (
            memory.text(field) or memory.text("created_at"),
            memory.collection,
            memory.id,
        )
    if sort == "collection":
        return lambda memory: (_SCOPES[memory.scope], memory.collection, memory.id)
    return lambda memory: (str(getattr(memory, sort)).casefold(), memory.collection, memory.id)
