"""Slash commands, the same behind every door: a line in, an answer to show out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from retain.errors import NotFound, RetainError, UsageError
from retain.guard.characters import visible
from retain.paths import GLOBAL
from retain.recall.asking import Wanted
from retain.talk import models, skills
from retain.talk.tools import TOOLS

if TYPE_CHECKING:
    from retain.talk.chat import Chat
    from retain.talk.retention import Saved

__all__ = ["COMMANDS", "Command", "Commands", "Shown", "completions", "is_command"]

_EXCERPT: Final = 200
_LISTED: Final = 15
_OFFERED: Final = 40


class Shown(NamedTuple):
    """What a command has to say, in Markdown, and what a door should do besides."""

    text: str
    action: str = ""  # quit, new, resumed, model
    is_error: bool = False


class Command(NamedTuple):
    """One command as it is listed."""

    name: str
    takes: str
    about: str

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.takes}".rstrip()


COMMANDS: Final = (
    Command("search", "WORDS", "Find what was said, and what is remembered."),
    Command("sessions", "[WORDS]", "List earlier conversations."),
    Command("resume", "ID", "Go on with an earlier conversation."),
    Command("compact", "", "Put a summary in the place of what was said so far."),
    Command("memories", "[WORDS]", "Show the facts that chats have kept."),
    Command("remember", "FACT", "Keep a fact."),
    Command("forget", "WORDS or ID", "Move a fact to the trash."),
    Command("context", "", "Show what the model is sent, and what was left out."),
    Command("model", "[NAME]", "Show or choose the model."),
    Command("tools", "", "Show the tools, and what you have allowed."),
    Command("skills", "", "List the skills there are."),
    Command("export", "[FILE]", "Write this conversation to a file, as JSON or Markdown."),
    Command("new", "", "Begin another conversation."),
    Command("help", "", "Show this list."),
    Command("quit", "", "Leave."),
)
_ALSO: Final = {"exit": "quit", "q": "quit", "?": "help", "clear": "new", "h": "help"}


def is_command(text: str) -> bool:
    """Whether a text is meant for the chat itself: a path and a comment begin with a slash too."""
    word = text.split(maxsplit=1)[0] if text.startswith("/") else ""
    name = word.removeprefix("/").replace("?", "")
    return bool(word) and "/" not in name and (not name or name.isalpha())


def completions(start: str) -> list[Command]:
    """The commands that a beginning may become."""
    return [one for one in COMMANDS if one.name.startswith(start.removeprefix("/"))]


class Commands:
    """The commands of one chat."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._table: Mapping[str, Callable[[str], Awaitable[Shown]]] = {
            "search": self._search,
            "sessions": self._sessions,
            "resume": self._resume,
            "compact": self._compact,
            "memories": self._memories,
            "remember": self._remember,
            "forget": self._forget,
            "context": self._context,
            "model": self._model,
            "tools": self._tools,
            "skills": self._skills,
            "export": self._export,
            "new": self._new,
            "help": self._help,
            "quit": self._quit,
        }

    async def run(self, line: str) -> Shown:
        """Do what a line that begins with a slash asks for."""
        word, _, rest = line.strip().removeprefix("/").partition(" ")
        name = _ALSO.get(word.lower(), word.lower()) or "help"
        if name not in self._table:
            likely = completions(name)
            if len(likely) != 1:
                return Shown(_unknown(word, likely), is_error=True)
            name = likely[0].name
        try:
            return await self._table[name](rest.strip())
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
            said = self._chat.sessions.search(words, 8)
            lines = [
                f"- **[session: {_line(one.title, 40)}]** {_line(one.text)} (`{one.session_id}`)"
                for one in said
                if one.kind == "message"
            ]
            known, note = self._known(words)
            lines = [*known, *lines]
            if not lines:
                return f'No results found for "{_line(words)}".{note}'
            return "\n".join([f'Search results for "{_line(words)}":{note}', "", *lines])

        return await self._away(work)

    def _known(self, words: str) -> tuple[list[str], str]:
        """The memories that speak of something; without an index, what was said is still found."""
        try:
            known = self._chat.app.library.search(Wanted(words, limit=8))
        except RetainError as error:
            return [], f" (memories cannot be searched: {_line(error.message)})"
        return [
            f"- **[memory]** {_line(one.title)}: {_line(one.text)} (`{one.ref}`)"
            for one in (known.hits if known.is_confident else ())
        ], ""

    async def _sessions(self, words: str) -> Shown:
        def work() -> str:
            found = self._chat.sessions.list(_LISTED, words)
            if not found:
                return "No conversations yet." if not words else "No conversation speaks of that."
            lines = [
                f"- `{one.id}`  {one.updated_at[:10]}  {_line(one.title or 'New session', 60)}"
                f"  ({one.messages} messages)"
                for one in found
            ]
            ending = "Use `/resume ID` to go on with one; its beginning is enough."
            return "\n".join(["Recent sessions:", "", *lines, "", ending])

        return await self._away(work)

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
        text = "\n".join(map(_remembered, saved))
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
        try:
            session = await self._chat.resume(name)
        except NotFound:
            text = f'Session "{_line(name, 60)}" not found. `/sessions` lists them.'
            return Shown(text, is_error=True)
        return Shown(f"Resumed: {_line(session.title)} (`{session.id}`)", "resumed")

    async def _compact(self, _: str) -> Shown:
        if self._chat.session is None:
            return Shown("There is nothing to compact yet.")
        text = await self._chat.conversation.compact()
        if not text:
            return Shown("There is nothing new to compact.")
        return Shown(f"Compacted. The model goes on from this summary:\n\n{visible(text)}")

    async def _new(self, _: str) -> Shown:
        await self._chat.new()
        return Shown("A new conversation.", "new")

    async def _quit(self, _: str) -> Shown:
        return Shown("", "quit")

    async def _export(self, path: str) -> Shown:
        session = self._chat.session
        if session is None:
            raise UsageError("there is nothing to export yet")

        def work() -> str:
            written = self._chat.export(path or f"{session.id}.json")
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
        lines.append(f"| this conversation ({len(prompt.turns)} turns) | {said:,} | |")
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

    async def _tools(self, _: str) -> Shown:
        lines = [f"- **{one.name}**: {one.description.splitlines()[0]}" for one in TOOLS]
        rules = await self._chat.away(self._chat.toolbox.approvals.rules)
        if rules:
            lines += ["", "Always allowed:", *(f"- {_line(str(rule))}" for rule in rules)]
        return Shown("\n".join(lines))

    async def _skills(self, _: str) -> Shown:
        def work() -> str:
            return skills.catalogue(self._chat.app) or (
                "No skills yet: a skill is `skills/NAME/SKILL.md` in a bank."
            )

        return await self._away(work)

    async def _help(self, _: str) -> Shown:
        return Shown("\n".join(f"- `{one.usage}`: {one.about}" for one in COMMANDS))


def _unknown(word: str, likely: Sequence[Command]) -> str:
    text = f"Unknown command: /{_line(word, 40)}."
    if likely:
        return f"{text} It could be {', '.join(f'/{one.name}' for one in likely)}."
    return f"{text} `/help` lists them."


def _restoring(ref: str) -> str:
    """The command that brings a fact back out of the trash of its bank."""
    where = " --global" if ref.startswith(GLOBAL) else ""
    return f"`retain restore --trash {ref.removeprefix(GLOBAL)}{where}`"


def _remembered(saved: Saved) -> str:
    """What became of a fact, as the person is told."""
    notes = f" ({'; '.join(map(_line, saved.notes))})" if saved.notes else ""
    match saved.status:
        case "known":
            return f"Known already: {_line(saved.fact)}{notes}"
        case "refused":
            return f"Not saved: {_line(saved.fact)}{notes}"
        case "supersedes":
            return f"✦ Memory saved: {_line(saved.fact)}, in place of {saved.replaced}{notes}"
    return f"✦ Memory saved: {_line(saved.fact)}{notes}"


def _line(text: str, most: int = _EXCERPT) -> str:
    """A text on one line that cannot act on a terminal."""
    flat = visible(" ".join(text[: most * 8].split()), keep_newlines=False)
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _cell(text: str) -> str:
    """The same, where it cannot part a table either."""
    return _line(text).replace("|", "\\|")
