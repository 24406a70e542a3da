"""Slash commands, the same behind every door: a line in, an answer to show out."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import NotFound, RetainError, UsageError
from retain.memory import FAR_BEHIND, GLOBAL
from retain.search.rank import fits, query_terms
from retain.search.request import SearchRequest
from retain.talk import models, skills
from retain.talk.past_sessions import banks
from retain.talk.tools import TOOLS
from retain.text import tokens
from retain.text.sanitize import flat, visible

if TYPE_CHECKING:
    from retain.talk.chat import Chat
    from retain.talk.retention import Saved


_EXCERPT: Final = 200
_LISTED: Final = 15
_QUESTIONS: Final = 5
_OFFERED: Final = 40


class Shown(NamedTuple):
    """What a command has to say, in Markdown, and what a door should do besides."""

    text: str
    action: str = ""  # quit, new, resumed, model, titled
    is_error: bool = False


class Command(NamedTuple):
    """One command as it is listed."""

    name: str
    takes: str
    about: str
    also: tuple[str, ...] = ()  # other names it goes by

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.takes}".rstrip()


COMMANDS: Final = (
    Command("search", "WORDS", "Find what was said, and what is remembered."),
    Command("sessions", "[WORDS]", "List earlier conversations."),
    Command("resume", "ID", "Go on with an earlier conversation."),
    Command("title", "[TEXT]", "Give this conversation a title; without one, its own again."),
    Command("tag", "[WORDS]", "Give this conversation tags, or show those it has."),
    Command("compact", "[WISH]", "Put a summary in the place of what was said so far."),
    Command("memories", "[WORDS]", "Show the facts that chats have kept."),
    Command("remember", "FACT", "Keep a fact."),
    Command("forget", "WORDS or ID", "Move a fact to the trash."),
    Command("context", "", "Show what the model is sent, and what was left out."),
    Command("model", "[NAME]", "Show or choose the model."),
    Command("tools", "[forget N]", "Show the tools and what you allowed; take one of that back."),
    Command("skills", "", "List the skills there are."),
    Command("export", "[FILE]", "Write this conversation to a file, as JSON or Markdown."),
    Command("new", "", "Begin another conversation.", ("clear",)),
    Command("help", "", "Show this list.", ("h", "?")),
    Command("quit", "", "Leave.", ("exit", "q")),
)
_NAMES: Final = {name: one.name for one in COMMANDS for name in (one.name, *one.also)}


def parted(line: str) -> tuple[str, str]:
    """The word that a line begins with if that has a slash before it, and the rest."""
    if not line.startswith("/"):
        return "", line
    word, *rest = line.split(maxsplit=1)
    return word, "".join(rest).strip()


def is_command(text: str) -> bool:
    """Whether a text is meant for the chat itself: a path and a comment begin with a slash too."""
    word, _ = parted(text)
    name = word.removeprefix("/").replace("?", "")
    return bool(word) and "/" not in name and (not name or name.isalpha())


def named(text: str) -> str:
    """The command that a text calls by its whole name or another it goes by; else nothing."""
    return _NAMES.get(parted(text)[0].removeprefix("/").lower(), "")


def completions(start: str) -> list[Command]:
    """The commands that a beginning may become."""
    return [one for one in COMMANDS if one.name.startswith(start.removeprefix("/"))]


def told(saved: Saved) -> str:
    """What became of a fact, in which bank if it is not that in force, and how to take it back."""
    fact = flat(saved.fact)
    where = " · in your own bank" if saved.ref.startswith(GLOBAL) else ""
    notes = f" ({flat('; '.join(saved.notes))})" if saved.notes else ""
    if saved.status == "known":
        return f"✦ Known already: {fact}{where}{notes}"
    if not saved.ref:
        return f"Not saved: {fact}{notes}"
    took = f" · replaces {flat(saved.replaced)}" if saved.replaced else ""
    name = flat(saved.ref.rpartition("/")[2], 80)
    return f"✦ Memory saved: {fact}{where}{notes}{took} · /forget {name}"


class Commands:
    """The commands of one chat."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def run(self, line: str) -> Shown:
        """Do what a line that begins with a slash asks for."""
        word, rest = parted(line.strip())
        word = word.removeprefix("/")
        name = _NAMES.get(word.lower(), word.lower()) or "help"
        if name not in _NAMES:
            likely = completions(name)
            if len(likely) != 1:
                return Shown(_unknown(word, likely), is_error=True)
            name = likely[0].name
        try:
            run: Callable[[str], Awaitable[Shown]] = getattr(self, f"_{name}")
            return await run(rest)
        except RetainError as error:
            hint = f" {error.hint}" if error.hint else ""
            return Shown(visible(f"{error.message}.{hint}", keep_newlines=False), is_error=True)

    async def _away(self, work: Callable[[], str]) -> Shown:
        return Shown(await self._chat.away(work))

    # What was said, and what is remembered

    async def _search(self, words: str) -> Shown:
        if not words:
            raise UsageError("say what to look for", hint="Usage: /search WORDS")

        def work() -> str:
            with banks(self._chat.app, self._chat.sessions) as stores:
                lines = [
                    f"- **[session: {_line(one.title, 40)}]** {_line(one.text)}"
                    f" (`{before}{one.session_id}`)"
                    for before, store in stores.items()
                    for one in store.search(words, 8)
                    if one.kind == "message"
                ]
            known, note = self._known(words)
            lines = [*known, *lines]
            if not lines:
                return f'No results found for "{_line(words)}".{note}'
            return "\n".join([f'Search results for "{_line(words)}":{note}', "", *lines])

        return await self._away(work)

    def _known(self, words: str) -> tuple[list[str], str]:
        """List the memories that speak of something; without an index, chats are still searched.

        What has none of the words is listed only where the answer fits, and not far behind.
        """
        try:
            answer = self._chat.app.search(SearchRequest(words, limit=8))
        except RetainError as error:
            return [], f" (memories cannot be searched: {_line(error.message)})"
        terms = query_terms(words)
        least = FAR_BEHIND * answer.hits[0].score if fits(answer, terms) else math.inf
        return [
            f"- **[memory]** {_line(hit.title)}: {_line(hit.text)}"
            f" ({_line(', '.join((f'`{hit.ref}`', *hit.cautions)))})"
            for hit in answer.hits
            if hit.score >= least
            or terms & set(tokens.words(f"{hit.title} {hit.header_path} {hit.text}"))
        ], ""

    async def _sessions(self, words: str) -> Shown:
        def work() -> str:
            lines = self._list_sessions(words, is_question=False)
            questions = self._list_sessions(words, is_question=True)
            if not lines and not questions:
                return "No conversations yet." if not words else "No conversation speaks of that."
            text = ["Recent sessions:", "", *lines, ""] if lines else []
            text += ["Single questions (`retain ask`):", "", *questions[:_QUESTIONS], ""] * bool(
                questions
            )
            text.append("Use `/resume ID` to go on with one; its beginning is enough.")
            return "\n".join(text)

        return await self._away(work)

    def _list_sessions(self, words: str, *, is_question: bool) -> list[str]:
        with banks(self._chat.app, self._chat.sessions) as stores:
            sessions = [
                session._replace(id=f"{before}{session.id}")
                for before, store in stores.items()
                for session in store.list(_LISTED, words, is_question=is_question)
            ]
        sessions.sort(key=lambda session: session.updated_at, reverse=True)
        return [
            f"- `{one.id}`  {one.updated_at[:10]}  {_line(one.title or 'New session', 60)}"
            f"  ({one.messages} message{'' if one.messages == 1 else 's'})"
            for one in sessions[:_LISTED]
        ]

    async def _memories(self, words: str) -> Shown:
        def work() -> str:
            facts = self._chat.facts(words)
            if not facts:
                return "Nothing is remembered yet." if not words else "No fact speaks of that."
            return "\n".join(f"- {_line(text)} (`{ref}`)" for ref, text in facts)

        return await self._away(work)

    async def _remember(self, fact: str) -> Shown:
        if not fact:
            raise UsageError("say what to remember", hint="Usage: /remember FACT")

        saved = await self._chat.away(lambda: self._chat.keep([fact]))
        text = "\n".join(map(told, saved))
        return Shown(text, is_error=any(one.status == "refused" for one in saved))

    async def _forget(self, words: str) -> Shown:
        if not words:
            raise UsageError("say what to forget", hint="Usage: /forget WORDS or ID")

        def work() -> str:
            one = self._chat.forget(words)
            back = " and ".join(map(_restoring, one.refs))
            return f"Forgotten: {_line(one.text)} ({back} brings it back)"

        return await self._away(work)

    # The conversation

    async def _resume(self, name: str) -> Shown:
        if not name:
            raise UsageError("say which", hint="`/sessions` lists them.")
        if name.startswith(GLOBAL) and self._chat.app.location.scope != "global":
            command = f"retain chat --global --resume {_line(name.removeprefix(GLOBAL), 60)}"
            text = f"That conversation is in your own bank: `{command}` goes on with it."
            return Shown(text, is_error=True)
        try:
            session = await self._chat.resume(name)
        except NotFound:
            text = f'Session "{_line(name, 60)}" not found. `/sessions` lists them.'
            return Shown(text, is_error=True)
        return Shown(f"Resumed: {_line(session.title)} (`{session.id}`)", "resumed")

    async def _title(self, title: str) -> Shown:
        name = self._begun("name")

        def work() -> str:
            self._chat.sessions.retitle(name, title)
            return f"Title: {_line(self._chat.sessions.get(name).title)}"

        return Shown(await self._chat.away(work), "titled")

    async def _tag(self, words: str) -> Shown:
        name = self._begun("tag")

        def work() -> str:
            if words:
                self._chat.sessions.tag(
                    name, () if words == "-" else words.replace(",", " ").split()
                )
            tags = self._chat.sessions.get(name).tags
            if not tags:
                return "No tags."
            return f"Tags: {', '.join(map(_line, tags))} (`/tag -` takes them away)"

        return await self._away(work)

    def _begun(self, what: str) -> str:
        """The id of the conversation, once there is one."""
        if self._chat.session is None:
            raise UsageError(f"there is nothing to {what} yet", hint="Say something first.")
        return self._chat.session.id

    async def _compact(self, wish: str) -> Shown:
        if self._chat.session is None:
            return Shown("There is nothing to compact yet.")
        text = await self._chat.conversation.compact(wish)
        if not text:
            return Shown("There is nothing new to compact.")
        return Shown(f"Compacted. The model goes on from this summary:\n\n{visible(text)}")

    async def _new(self, _: str) -> Shown:
        await self._chat.new()
        return Shown("A new conversation.", "new")

    async def _quit(self, _: str) -> Shown:
        return Shown("", "quit")

    async def _export(self, path: str) -> Shown:
        name = self._begun("export")

        def work() -> str:
            written = self._chat.export(path or f"{name}.json")
            return f"Written: `{_line(written, 4096)}`"

        return await self._away(work)

    # How it is set up

    async def _context(self, _: str) -> Shown:
        prompt = self._chat.prompt
        if prompt is None:
            return Shown("Nothing was sent yet: say something first.")
        lines = [
            f"{prompt.tokens:,} of {prompt.budget:,} tokens, {prompt.recalled} memories recalled.",
            "",
            "| part | tokens | |",
            "|---|---:|---|",
        ]
        lines += [
            f"| {_cell(part.name)} | {part.tokens:,} | {_cell(part.note)} |"
            for part in prompt.parts
        ]
        said = prompt.tokens - sum(part.tokens for part in prompt.parts)
        turns = "1 turn" if len(prompt.turns) == 1 else f"{len(prompt.turns)} turns"
        lines.append(f"| this conversation ({turns}) | {said:,} | |")
        details = [one for part in prompt.parts for one in part.details]
        if details:
            lines += ["", "Recalled:", *(f"- {_line(one)}" for one in details)]
        if prompt.left_out:
            lines += ["", "Left out or cut:", *(f"- {_line(note)}" for note in prompt.left_out)]
        return Shown("\n".join(lines))

    async def _model(self, name: str) -> Shown:
        if name:
            chosen = await self._chat.away(lambda: self._chat.use(name))
            return Shown(f"Now talking to {_line(chosen.name)}.", "model")
        try:
            model = await self._chat.away(lambda: self._chat.model)
            offered = await model.offered()
        except RetainError:
            offered = await self._chat.away(lambda: models.known(self._chat.app.config))
        lines = [f"- {_line(one)}" for one in offered[:_OFFERED]]
        if len(offered) > _OFFERED:
            lines.append(f"- and {len(offered) - _OFFERED} more")
        name = await self._chat.away(lambda: self._chat.model_name)
        return Shown("\n".join([f"Model: **{_line(name)}**", "", *lines]))

    async def _tools(self, words: str) -> Shown:
        if words:
            return await self._away(lambda: self._disallowed(words))
        lines = [f"- **{one.name}**: {one.purpose}" for one in TOOLS]
        approvals = self._chat.toolbox.approvals
        rules = await self._chat.away(approvals.rules)
        if problem := await self._chat.away(lambda: approvals.problem):
            lines += ["", f"What you allowed earlier does not count: {_line(problem)}."]
        if rules:
            allowed = [f"{number}. `{_line(str(rule))}`" for number, rule in enumerate(rules, 1)]
            lines += ["", "Allowed here, `/tools forget N` takes one back:", "", *allowed]
        return Shown("\n".join(lines))

    def _disallowed(self, words: str) -> str:
        verb, _, number = words.partition(" ")
        approvals = self._chat.toolbox.approvals
        rules = approvals.rules()
        if verb != "forget" or not number.strip().isdecimal():
            raise UsageError("say which to take back", hint="Usage: /tools forget N")
        if not 1 <= int(number) <= len(rules):
            raise NotFound(f"nothing allowed has the number {number}", hint="`/tools` lists them.")
        approvals.forget(rules[int(number) - 1])
        return f"You will be asked again before: `{_line(str(rules[int(number) - 1]))}`"

    async def _skills(self, _: str) -> Shown:
        def work() -> str:
            lines = [f"- {skill.title}" for skill in skills.skills(self._chat.app)]
            return "\n".join(lines) or "No skills yet: a skill is `skills/NAME/SKILL.md` in a bank."

        return await self._away(work)

    async def _help(self, _: str) -> Shown:
        return Shown("\n".join(map(_listed, COMMANDS)))


def _unknown(word: str, likely: Sequence[Command]) -> str:
    text = f"Unknown command: /{_line(word, 40)}."
    if likely:
        return f"{text} It could be {', '.join(f'/{one.name}' for one in likely)}."
    return f"{text} `/help` lists them."


def _listed(one: Command) -> str:
    also = f" Also {', '.join(f'`/{name}`' for name in one.also)}." if one.also else ""
    return f"- `{one.usage}`: {one.about}{also}"


def _restoring(ref: str) -> str:
    """The command that brings a fact back out of the trash of its bank."""
    where = " --global" if ref.startswith(GLOBAL) else ""
    return f"`retain restore --trash {ref.removeprefix(GLOBAL)}{where}`"


def _line(text: str, most: int = _EXCERPT) -> str:
    """A text on one line that cannot act on a terminal."""
    return flat(text, most)


def _cell(text: str) -> str:
    """The same, where it cannot part a table either."""
    return _line(text).replace("|", "\\|")
