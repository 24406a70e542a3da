"""What a person allows a chat's tools to do: once, for this session, or always by a pattern.

What is always allowed lies in the person's own bank, never in a project, and counts only in the
project it was said in, a command even only in its repository: `npm test` runs whatever the one at
hand says it does, and that may be a clone within another. A pattern is
held against a command's words as they would be run, so that nothing can be hung on to an allowed
one, and never against what only a shell could take apart.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from retain import locate
from retain.bank.files import Directory, WriteTransaction
from retain.bank.listing import make_bank
from retain.errors import ConfigError, NotFound, RetainError, UsageError
from retain.memory import APPROVALS, now
from retain.talk.files import Change, Target, is_private
from retain.talk.running import Command

ONCE, SESSION, ALWAYS = YES = ("once", "session", "always")
_MOST: Final = 1_000_000
_MOST_PATTERN: Final = 1_000
_KEPT: Final = ("tool", "pattern", "project")  # of a rule, in the file

# What may be allowed with any words behind it: it shows something, or has the project's own tests
# done. Nothing that starts a program it is told of, installs, fetches or sends is here, and nothing
# whose further words are further things to do, as those of make are.
_OPEN: Final = {
    "git": frozenset(
        "status diff log show branch blame shortlog describe grep rev-parse rev-list ls-files "
        "ls-tree cat-file merge-base name-rev".split()
    ),
    "npm": frozenset(["test"]),
    "pnpm": frozenset(["test"]),
    "yarn": frozenset(["test"]),
    "cargo": frozenset("test check clippy".split()),
    "go": frozenset("test vet".split()),
    "pip": frozenset("list show freeze".split()),
    "docker": frozenset("ps images".split()),
}
_SHELLS: Final = frozenset("sh bash dash zsh fish ksh csh tcsh busybox".split())
# Programs that start others.
_LAUNCHERS: Final = frozenset(
    "sh bash dash zsh fish ksh csh tcsh python python2 python3 node nodejs deno bun perl ruby php "
    "lua env xargs nohup timeout nice time setsid stdbuf watch find ssh exec command busybox npx "
    "uvx pipx awk".split()
)
_GRAVE: Final = frozenset(
    "sudo doas su pkexec run0 mkfs dd shutdown reboot halt poweroff eval visudo passwd".split()
)
_FETCHING: Final = frozenset("curl wget fetch aria2c".split())
_Edit = Callable[[list[object]], list[object]]
# Options that a pattern's open end covers: they only say how much is shown.
_HARMLESS: Final = frozenset(
    "-1 -2 -3 -5 -10 -20 -n -p -s -v -q -a -b -- --oneline --stat --short --branch --cached "
    "--staged --name-only --name-status --graph --all --quiet --verbose --no-color "
    "--porcelain".split()
)
_APART: Final = re.compile(r"[\s|&;<>()`\"'\\{}]+")


class Question(NamedTuple):
    """What is to be done, as a person is asked about it; every text in it is safe to show."""

    id: str  # of the call
    tool: str
    title: str  # one line
    detail: str  # all of it: the whole command, the whole difference
    reason: str  # why it is asked
    patterns: tuple[str, ...] = ()  # what `always` can stand for, the narrowest first
    choices: tuple[str, ...] = (ONCE, SESSION, ALWAYS)
    words: tuple[str, ...] = ()  # what a rule is held against: a command's words, a path, a text
    directory: str = ""  # where a command runs, if not where the chat does
    digest: str = ""  # of what is written: another text is another call


class Answer(NamedTuple):
    """What the person said."""

    choice: str  # once, session, always, no
    pattern: str = ""  # for session and always; without one, this very call
    note: str = ""  # what the model is told with a no


class Rule(NamedTuple):
    """Something that is allowed."""

    tool: str
    pattern: str
    project: str  # or the repository in it, for a command
    lasts: str = ALWAYS

    def __str__(self) -> str:
        verb = {"write_file": "write ", "read_file": "read "}.get(self.tool, "")
        return f"{verb}{self.pattern}"


# Questions


def about_command(
    call: str, command: Command, detail: str, title: str, directory: str = ""
) -> Question:
    """The question about a command; one that runs elsewhere is never allowed for good."""
    words, tool, reason = command.words, "run_command", "runs a command"
    patterns: tuple[str, ...] = ()
    if command.needs_shell or _is_shell(words):
        tool, reason = "run_shell", f"needs a shell ({command.shell_signs or words[0]})"
        is_never = is_grave([word for word in _APART.split(command.text) if word])
        words = (command.text,)
    else:
        is_never = is_grave(words)
        patterns = () if is_never or directory else tuple(_command_patterns(words))
    choices = _choices(patterns, is_never)
    return Question(call, tool, title, detail, reason, patterns, choices, words, directory)


def _command_patterns(words: Sequence[str]) -> list[str]:
    if any("*" in word or not word.isprintable() for word in words):
        return []  # a star of its own would stand for more than itself
    found = [shlex.join(words)]
    if _is_open(words):
        found.append(shlex.join(words[:2]) + "*")
    return found


def _is_open(words: Sequence[str]) -> bool:
    """Whether a command does nothing worse with other words behind it."""
    return len(words) > 1 and words[1] in _OPEN.get(words[0], ())


def about_writing(call: str, wanted: Change, title: str) -> Question:
    """The question about a file to be written; one with secrets is asked about every time."""
    target = wanted.target
    reason = "writes a file that may hold secrets" if target.is_private else "writes a file"
    patterns: tuple[str, ...] = ()
    if not target.is_private and target.is_inside and _is_plain(target.shown):
        above = os.path.dirname(target.shown)
        patterns = (target.shown, f"{above}/**") if above else (target.shown,)
    return Question(
        call,
        "write_file",
        title,
        wanted.diff,
        reason,
        patterns,
        _choices(patterns, target.is_private),
        (target.shown,),
        digest=hashlib.sha256(wanted.new).hexdigest(),
    )


def about_reading(call: str, target: Target, detail: str, title: str) -> Question | None:
    """The question about a file to be read; None for one of the project's own."""
    if target.is_inside and not target.is_private:
        return None
    reason = "may hold secrets" if target.is_private else "is outside the project"
    patterns = () if target.is_private or not _is_plain(target.shown) else (target.shown,)
    choices = _choices(patterns, target.is_private)
    return Question(call, "read_file", title, detail, reason, patterns, choices, (target.shown,))


def _is_plain(path: str) -> bool:
    return "*" not in path and path.isprintable()


def _choices(patterns: tuple[str, ...], is_never: bool) -> tuple[str, ...]:
    if is_never:
        return (ONCE,)
    return (ONCE, SESSION, ALWAYS) if patterns else (ONCE, SESSION)


def _is_shell(words: Sequence[str]) -> bool:
    """Whether a command brings a shell of its own, whose text nobody has taken apart."""
    at = next((at for at, word in enumerate(words) if os.path.basename(word) in _SHELLS), None)
    return at is not None and any(re.match(r"-\w*c", word) for word in words[at:])


def is_grave(words: Sequence[str]) -> bool:
    """Whether a command is asked about every time, whatever was said before."""
    names = {os.path.basename(word).casefold() for word in words}
    return (
        not _GRAVE.isdisjoint(names)
        or any(name.startswith("mkfs.") for name in names)
        or (not _FETCHING.isdisjoint(names) and not _LAUNCHERS.isdisjoint(names))
        or ("rm" in names and _removes_widely(words))
    )


def _removes_widely(words: Sequence[str]) -> bool:
    """Whether whole directories go that are not plainly below the one it runs in."""
    options = [word for word in words if word.startswith("-")]
    if not any(
        word == "--recursive" or (word[1:2] != "-" and "r" in word.lower()) for word in options
    ):
        return False
    return any(
        word.startswith(("/", "~", "*", "$"))
        or ".." in word.split("/")
        or word.rstrip("/") in ("", ".")
        for word in words
    )


# Rules


class Approvals:
    """What is allowed in one project, by the person whose environment this is."""

    def __init__(self, env: Mapping[str, str], project: str, cwd: str = "") -> None:
        self._root = locate.global_root(env)
        self._project = os.path.realpath(project)
        self._repository = _repository(os.path.realpath(cwd or project), self._project)
        self._calls: dict[tuple[str, ...], Rule] = {}
        self._rules: list[Rule] = []

    @property
    def path(self) -> str:
        """Where what is always allowed is kept."""
        return os.path.join(self._root, APPROVALS)

    def decide(self, question: Question) -> str:
        """`allow` where the person has said so before, else `ask`."""
        if question.choices == (ONCE,):
            return "ask"
        if _call(question) in self._calls:
            return "allow"
        kept = self.rules() if ALWAYS in question.choices else []
        return "allow" if any(_allows(rule, question) for rule in kept) else "ask"

    def remember(self, question: Question, answer: Answer) -> Rule | None:
        """Keep an answer for as long as it says; None where there is nothing to be kept."""
        if answer.choice not in YES:
            raise UsageError(f"{answer.choice!r} allows nothing")
        if answer.choice == ONCE:
            return None
        if answer.choice not in question.choices:
            raise UsageError(f"this cannot be allowed for longer: it {question.reason}")
        if answer.choice == SESSION and not answer.pattern:
            self._calls[_call(question)] = self._named(question)
            return None
        rule = self._rule(question, answer.pattern or question.patterns[0])
        if answer.choice == ALWAYS:
            self._keep(rule)
        else:
            self._rules.append(rule._replace(lasts=SESSION))
        return rule

    def _named(self, question: Question) -> Rule:
        """This very call, as it is listed."""
        words = question.words
        text = shlex.join(words) if question.tool == "run_command" else " ".join(words)
        return Rule(question.tool, text, question.directory or self._place(question.tool), SESSION)

    def _place(self, tool: str) -> str:
        """Where a rule counts; what a path is allowed by begins at the project's root."""
        return self._repository if tool == "run_command" else self._project

    def _rule(self, question: Question, pattern: str) -> Rule:
        rule = Rule(question.tool, pattern.strip(), self._place(question.tool))
        fault = _fault(rule)
        if not fault and not _allows(rule, question):
            fault = "it does not fit what was asked about"
        if fault:
            raise UsageError(
                f"{pattern!r} cannot be a pattern: {fault}", unchanged="Nothing was kept."
            )
        return rule

    def rules(self) -> list[Rule]:
        """Every pattern that is allowed here, for this session and always."""
        try:
            entries = self._entries()
        except RetainError:
            entries = []  # then everything is asked about; `problem` says why
        rules = [_rule_of(entry) for entry in entries]
        kept = [rule for rule in rules if rule and self._is_here(rule) and not _fault(rule)]
        return [*self._rules, *kept]

    def retired(self) -> list[Rule]:
        """Take out the patterns of an earlier day that allow too much, and name them this once."""
        try:
            rules = [rule for entry in self._entries() if (rule := _rule_of(entry))]
            found = [rule for rule in rules if self._is_here(rule) and _is_too_wide(rule)]
            if found:
                self._change(lambda entries: [it for it in entries if _rule_of(it) not in found])
        except RetainError:
            return []  # none of them is obeyed, and `problem` says what is amiss
        return found

    def _is_here(self, rule: Rule) -> bool:
        return rule.project == self._place(rule.tool)

    def listed(self) -> list[Rule]:
        """All that can be taken back, in an order that stays: single calls, then patterns."""
        return [*dict.fromkeys(self._calls.values()), *self.rules()]

    @property
    def problem(self) -> str:
        """Why what was once allowed does not count, empty if it does."""
        try:
            self._entries()
        except RetainError as error:
            return error.message
        return ""

    def forget(self, rule: Rule) -> bool:
        """Take back what was allowed, as it is listed; False if it was not."""
        known = rule in self.listed()
        if rule.lasts == ALWAYS:
            if os.path.lexists(self.path):
                self._change(lambda entries: [one for one in entries if _rule_of(one) != rule])
            return known
        self._calls = {call: one for call, one in self._calls.items() if one != rule}
        self._rules = [one for one in self._rules if one != rule]
        return known

    def _keep(self, rule: Rule) -> None:
        make_bank(self._root)
        new = {key: getattr(rule, key) for key in _KEPT} | {"since": now()}
        self._change(lambda entries: entries if rule in map(_rule_of, entries) else [*entries, new])

    def _change(self, edit: _Edit) -> None:
        """Write the rules anew under the bank's lock: another chat may keep one at this moment."""
        with Directory.open(self._root) as root, WriteTransaction.open(root, self.path):
            entries = self._entries()
            text = json.dumps({"version": 1, "approvals": edit(entries)}, indent=2)
            root.put(APPROVALS, f"{text}\n".encode())

    def _entries(self) -> list[object]:
        """The rules as they are on disk; none that someone else could have put there."""
        if not os.path.lexists(self.path):
            return []
        try:
            with Directory.open(self._root) as root:
                data, facts = root.read_with_facts(APPROVALS, _MOST)
        except NotFound:
            return []
        hint = "Until it is in order, everything is asked about."
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise ConfigError(f"{self.path} can be written by others", hint=hint)
        try:
            found = json.loads(data)
            entries = found["approvals"] if found["version"] == 1 else None
        except (ValueError, RecursionError, KeyError, TypeError):
            entries = None
        if not isinstance(entries, list):
            raise ConfigError(f"{self.path} cannot be read", hint=hint)
        return entries


def _repository(cwd: str, project: str) -> str:
    """The repository around a directory, up to the project's root."""
    here = cwd
    while here.startswith(os.path.join(project, "")):
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        here = os.path.dirname(here)
    return project


def _call(question: Question) -> tuple[str, ...]:
    return question.tool, question.directory, question.digest, *question.words


def _rule_of(entry: object) -> Rule | None:
    """A rule as a file states it; None for what is not one."""
    if not isinstance(entry, dict):
        return None
    values = [entry.get(key) for key in _KEPT]
    return Rule(*map(str, values)) if all(isinstance(one, str) for one in values) else None


def _fault(rule: Rule) -> str:
    """Why a pattern allows too much or makes no sense; empty if it is in order."""
    pattern = rule.pattern
    if not pattern or len(pattern) > _MOST_PATTERN or not pattern.isprintable():
        return "it is empty, too long, or not to be read"
    if rule.tool != "run_command":
        return "" if pattern.split("/")[0].strip("*") or "/" in pattern else "it names everything"
    try:
        words = shlex.split(pattern)
    except ValueError as error:
        return str(error)
    if not words or "*" in words[0]:
        return "its first word is a program, without a star"
    if "*" in pattern and not (
        pattern.index("*") == len(pattern) - 1
        and words[-1] != "*"
        and _is_open([word.removesuffix("*") for word in words])
    ):
        return "with other words it may start programs, install something or send it"
    return "it is asked about every time" if is_grave(words) else ""


def _is_too_wide(rule: Rule) -> bool:
    return rule.tool == "run_command" and "*" in rule.pattern and bool(_fault(rule))


def _allows(rule: Rule, question: Question) -> bool:
    if rule.tool != question.tool or question.directory:
        return False
    if rule.tool == "run_command":
        return _fits_words(shlex.split(rule.pattern), question.words)
    return _fits_path(rule.pattern.split("/"), question.words[0].split("/"))


def _fits_words(pattern: Sequence[str], words: Sequence[str]) -> bool:
    """Whether the words are the pattern's; a star at its very end stands for further ones.

    What comes before that star is a whole word, or `diff` would stand for `difftool`.
    """
    *before, last = pattern
    exact = [*before, last.removesuffix("*")]
    if not last.endswith("*"):
        return [*words] == exact
    return [*words[: len(exact)]] == exact and all(map(_is_covered, words[len(exact) :]))


def _is_covered(word: str) -> bool:
    """Whether an open end stands for a word: one that leads nowhere else, and hides nothing.

    Of options it is only those that start no program and write no file. `git diff` shows any two
    files of the disk as soon as one is outside its repository, and a file of secrets is asked
    about whoever reads it.
    """
    if word.startswith("-"):
        return word in _HARMLESS
    if "=" in word or "://" in word or word.startswith(("/", "~")):
        return False
    return ".." not in re.split("[/:]", word) and not is_private(f"/{word.rpartition(':')[2]}")


def _fits_path(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a path fits; `**` at the end is anything below, hidden files excepted."""
    if pattern[-1] == "**":
        head, rest = pattern[:-1], parts[len(pattern) - 1 :]
        if not rest or any(part.startswith(".") for part in rest):
            return False
        return _fits_path(head, parts[: len(head)]) if head else True
    return len(pattern) == len(parts) and all(
        _like(one, part) and not (part.startswith(".") and one.startswith("*"))
        for one, part in zip(pattern, parts, strict=True)
    )


def _like(pattern: str, text: str) -> bool:
    """Whether a text fits a pattern in which a star is anything, and nothing else is special."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    *middle, last = rest
    at = len(first)
    if not text.startswith(first):
        return False
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(last) and text.endswith(last)
