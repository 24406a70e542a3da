"""The text of one memory: made, replaced, changed, added to; what follows is the app's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final

from retain import drafts, finding, paths
from retain.bank import Bank, now, restated
from retain.codec import codec
from retain.drafts import Draft
from retain.errors import Conflict, NotFound, Unreadable, UsageError
from retain.gate import Gate, signed
from retain.model import Memory, Written
from retain.workspace import Workspace

__all__ = ["Writing"]

_TRIES: Final = 50  # how often a put may find its memory gone and there again


class Writing:
    """Texts on their way into the bank in force; `in_step` checks those of typed memories."""

    def __init__(
        self, workspace: Workspace, gate: Gate, in_step: Callable[[Memory, bytes], bytes]
    ) -> None:
        self._workspace, self._gate, self._in_step = workspace, gate, in_step

    def put(
        self,
        draft: Draft,
        *,
        collection: str | None = None,
        name: str = "",
        created_by: str = "",
        replace: bool = False,
        is_new: bool = False,
    ) -> Written:
        """Store a memory: a new one, or a new text for the id given unless it must be new."""
        self._workspace.make()
        bank = self._workspace.writable.bank
        draft, warnings = self._gate.admitted(signed(draft, created_by))
        self._gate.refuse_secret_names(draft.allow_secret, name, collection)
        given = drafts.given(draft)
        collection, wanted = self._address(name, collection, draft.title, given)
        fields: dict[str, object] = {
            "id": wanted,
            "created_at": given.meta.get("created_at") or now(),
            "created_by": self._gate.author(),
            **drafts.changes(draft, ()),
        }
        data = given.composed(drafts.ordered(fields))
        unborn = Memory(wanted, collection, f"{wanted}.md", {}, "")
        data = self._in_step(unborn, data)
        for _ in range(_TRIES):
            try:
                written = bank.create(collection, wanted, data)
                break
            except Conflict as taken:
                if is_new:
                    raise
                with contextlib.suppress(NotFound):  # it was deleted in between: store it then
                    old, again = bank.find(f"{collection}/{wanted}"), drafts.unsigned(draft)
                    if (not name and not replace) or paths.nfc(old.id) != wanted:
                        self._refuse_another(old, wanted, again, given, taken)
                    written = self._put_again(bank, old, again, given)
                    break
        else:
            raise Conflict(f"{collection}/{wanted} comes and goes; nothing was stored")
        return _warned(written, warnings + given.warnings)

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
            collection = self._workspace.config.text("memory.default_collection")
            collection = collection or self._workspace.writable.bank.kind.default_collection
        return collection, wanted

    def _refuse_another(
        self, old: Memory, name: str, draft: Draft, given: drafts.Given, taken: Conflict
    ) -> None:
        """Refuse to put a text under an id in use, unless it is there already."""
        if drafts.replaced(old, draft, given) == old.data:
            return
        same = "the same text and other metadata" if old.body == given.body else "another text"
        hint = f"Store this as another memory with --id NEW, or change that one: --id {old.id}."
        if paths.nfc(old.id) != name:
            same = f"{same}; ids that differ only in case are one"
        elif old.body == given.body:
            hint = f"Change its metadata with `retain update {old.address}`."
        raise Conflict(
            f"{old.ref} exists already, with {same}",
            unchanged="It was left as it is, and nothing was stored.",
            hint=hint,
        ) from taken

    def _put_again(self, bank: Bank, old: Memory, draft: Draft, given: drafts.Given) -> Written:
        """Make a text the new one of a memory; metadata that nobody names stays."""
        if not old.path.endswith(".md"):
            raise Conflict(
                f"{old.ref} is a JSON record",
                unchanged="It was left as it is, and nothing was stored.",
                hint=f"Change it with `retain update {old.address}`.",
            )
        return bank.change(
            old.address,
            lambda memory: self._in_step(memory, drafts.replaced(memory, draft, given)),
            status="replaced",
        )

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
        draft, warnings = self._gate.admitted(draft)
        given = drafts.given(draft) if draft.text is not None else None

        def edit(memory: Memory) -> bytes:
            if given:
                return self._in_step(memory, drafts.replaced(memory, draft, given))
            new = drafts.revised(memory, drafts.changes(draft, memory.tags), None)
            return self._in_step(memory, new)

        bank, _ = finding.writable(self._workspace, ref, collection)
        written = bank.change(ref, edit, collection=collection, expect=expect)
        return _warned(written, warnings + (given.warnings if given else ()))

    def append(
        self, ref: str, draft: Draft, *, collection: str | None = None, expect: str = ""
    ) -> Written:
        """Add text to the end of a memory, two line breaks after what is there."""
        draft, warnings = self._gate.admitted(draft)
        addition = draft.text or ""
        if not addition.strip():
            raise UsageError("there is no text to add", unchanged=f"{ref} is as it was.")

        def edit(memory: Memory) -> bytes:
            if not memory.path.endswith(".md"):
                raise Unreadable(
                    "text cannot be appended to a JSON record",
                    hint="Change its fields with `retain update --metadata` or --content.",
                )
            new = drafts.revised(memory, {}, drafts.appended(memory.body, addition))
            return self._in_step(memory, new)

        bank, _ = finding.writable(self._workspace, ref, collection)
        written = bank.change(
            ref,
            edit,
            collection=collection,
            expect=expect,
            status="appended",
            repeatable=not expect,
        )
        return _warned(written, warnings)

    def edit(
        self,
        ref: str,
        editor: Callable[[Memory], str],
        *,
        collection: str | None = None,
        allow_secret: bool = False,
    ) -> Written:
        """Let a person rewrite the whole file; it is checked before it is saved."""
        bank, memory = finding.writable(self._workspace, ref, collection)
        draft, warnings = self._gate.admitted(Draft(text=editor(memory), allow_secret=allow_secret))
        data = (draft.text or "").encode()
        document = codec(memory.path).parse(data)
        if document.problem:
            raise Unreadable(
                f"not saved: {document.problem}",
                unchanged=f"{memory.path} is as it was.",
            )
        if document.meta.get("id", memory.id) != memory.id:
            warnings += (
                f"the file's name is the id; `retain move {memory.address} --id NEW` changes it",
            )
        edited = memory._replace(meta=document.meta, data=data)
        written = bank.change(
            memory.address,
            lambda it: self._in_step(it, drafts.touched(it, restated(edited))),
            expect=memory.hash,
        )
        return _warned(written, warnings)


def _warned(written: Written, warnings: tuple[str, ...]) -> Written:
    return written._replace(warnings=warnings + written.warnings)
