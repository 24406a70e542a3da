"""What a person allows a chat's tools to do: once, for this session, or always.

Always means this exact call, or a program with one of the subcommands of a table. Such rules lie in
the person's own bank, never in a project, and count only in the project they were made in, those
for commands only in its repository: `npm test` runs whatever the project at hand says.
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
from retain.talk.process import Command

ONCE, SESSION, ALWAYS = YES = ("once", "session", "always")
_MAX_BYTES: Final = 1_000_000
_RULE_KEYS: Final = ("tool", "pattern", "project")  # of a rule, in the file

# What may be allowed with any words behind it: it shows something, or runs the project's own tests.
# Nothing is here that starts a program it is told of, installs, fetches or sends, and nothing whose
# further words are further things to do, as those of make are.
_SUBCOMMANDS: Final = {
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
# Options that may follow: they only say how much is shown.
_HARMLESS_OPTIONS: Final = frozenset(
    "-1 -2 -3 -5 -10 -20 -n -p -s -v -q -a -b -- --oneline --stat --short --branch --cached "
    "--staged --name-only --name-status --graph --all --quiet --verbose --no-color "
    "--porcelain".split()
)
_SHELLS: Final = frozenset("sh bash dash zsh fish ksh csh tcsh busybox".split())
_LAUNCHERS: Final = _SHELLS | frozenset(
    "python python2 python3 node nodejs deno bun perl ruby php lua env xargs nohup timeout nice "
    "time setsid stdbuf watch find ssh exec command npx uvx pipx awk".split()
)
_DANGEROUS: Final = frozenset(
    "sudo doas su pkexec run0 mkfs dd shutdown reboot halt poweroff eval visudo passwd".split()
)
_DOWNLOADERS: Final = frozenset("curl wget fetch aria2c".split())
_SHELL_SYNTAX: Final = re.compile(r"[\s|&;<>()`\"'\\{}]+")


class Question(NamedTuple):
    """What is to be done, as a person is asked about it; every text in it is safe to show."""

    id: str  # of the call
    tool: str
    title: str  # one line
    detail: str  # all of it: the whole command, the whole difference
    reason: str  # why it is asked
    patterns: tuple[str, ...] = ()  # the rules that would allow it always, the narrowest first
    choices: tuple[str, ...] = (ONCE, SESSION, ALWAYS)
    words: tuple[str, ...] = ()  # what this very call is: a command's words, or a path
    directory: str = ""  # where a command runs, if not where the chat does
    digest: str = ""  # of what is written: another text is another call

    @property
    def call(self) -> tuple[str, ...]:
        """What must be the same for this to be the same call again."""
        return self.tool, self.directory, self.digest, *self.words


class Answer(NamedTuple):
    """What the person said."""

    choice: str  # once, session, always, no
    pattern: str = ""  # for always; without one, the narrowest
    note: str = ""  # what the model is told with a no


class Choice(NamedTuple):
    """One answer, the key for it, and what a yes that lasts will allow."""

    key: str
    label: str
    choice: str
    pattern: str = ""
    allows: str = ""


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


def ask_to_run(
    call: str, command: Command, detail: str, title: str, directory: str = ""
) -> Question:
    """Return the question about a command; one that runs elsewhere is never allowed for good."""
    words, tool, reason = command.words, "run_command", "runs a command"
    patterns: tuple[str, ...] = ()
    if command.shell_operators or _starts_shell(words):
        tool = "run_shell"
        reason = f"runs in a shell ({command.shell_operators or words[0]})"
        is_always_asked = is_dangerous([word for word in _SHELL_SYNTAX.split(command.text) if word])
        words = (command.text,)
    else:
        is_always_asked = is_dangerous(words)
        patterns = () if is_always_asked or directory else _command_patterns(words)
    choices = _offer(patterns, is_always_asked)
    return Question(call, tool, title, detail, reason, patterns, choices, words, directory)


def _command_patterns(words: Sequence[str]) -> tuple[str, ...]:
    if not all(word.isprintable() for word in words):
        return ()
    exact = shlex.join(words)  # it quotes a star, so it is never taken for the other kind
    if (
        words[1:2]
        and words[1] in _SUBCOMMANDS.get(words[0], ())
        and all(map(_may_follow, words[2:]))
    ):
        return (exact, f"{shlex.join(words[:2])}*")
    return (exact,)


def _may_follow(word: str) -> bool:
    """Whether a word behind a subcommand leads nowhere else, and to no file with secrets.

    Of options it is only those that start no program and write no file. `git diff` shows any two
    files of the disk as soon as one is outside its repository.
    """
    if word.startswith("-"):
        return word in _HARMLESS_OPTIONS
    if "=" in word or "://" in word or word.startswith(("/", "~")):
        return False
    return ".." not in re.split("[/:]", word) and not is_private(f"/{word.rpartition(':')[2]}")


def ask_to_write(call: str, change: Change, title: str) -> Question:
    """Return the question about a file to be written; one with secrets is asked every time."""
    target = change.target
    reason = "writes a file that may hold secrets" if target.is_private else "writes a file"
    patterns = (target.shown,) if target.is_inside and _may_be_rule(target) else ()
    choices = _offer(patterns, target.is_private)
    digest = hashlib.sha256(change.new).hexdigest()
    words = (target.shown,)
    return Question(
        call, "write_file", title, change.diff, reason, patterns, choices, words, digest=digest
    )


def ask_to_read(call: str, target: Target, detail: str, title: str) -> Question | None:
    """Return the question about a file to be read; None for one of the project's own."""
    if target.is_inside and not target.is_private:
        return None
    reason = "may hold secrets" if target.is_private else "is outside the project"
    patterns = (target.shown,) if _may_be_rule(target) else ()
    choices = _offer(patterns, target.is_private)
    return Question(call, "read_file", title, detail, reason, patterns, choices, (target.shown,))


def _may_be_rule(target: Target) -> bool:
    return target.shown.isprintable() and not target.is_private


def _offer(patterns: tuple[str, ...], is_always_asked: bool) -> tuple[str, ...]:
    if is_always_asked:
        return (ONCE,)
    return (ONCE, SESSION, ALWAYS) if patterns else (ONCE, SESSION)


def _starts_shell(words: Sequence[str]) -> bool:
    """Whether a command brings a shell of its own, whose text nobody has taken apart."""
    at = next((at for at, word in enumerate(words) if os.path.basename(word) in _SHELLS), None)
    return at is not None and any(re.match(r"-\w*c", word) for word in words[at:])


def is_dangerous(words: Sequence[str]) -> bool:
    """Whether a command is asked about every time, whatever was said before."""
    names = {os.path.basename(word).casefold() for word in words}
    return (
        not _DANGEROUS.isdisjoint(names)
        or any(name.startswith("mkfs.") for name in names)
        or (not _DOWNLOADERS.isdisjoint(names) and not _LAUNCHERS.isdisjoint(names))
        or ("rm" in names and _removes_widely(words))
    )


def _removes_widely(words: Sequence[str]) -> bool:
    """Whether whole directories go that are not plainly below the one it runs in."""
    is_recursive = any(
        word == "--recursive" or re.match(r"-[a-z]*r", word, re.IGNORECASE) for word in words
    )
    return is_recursive and any(
        word.startswith(("/", "~", "*", "$"))
        or ".." in word.split("/")
        or word.rstrip("/") in ("", ".")
        for word in words
    )


def choices(question: Question) -> list[Choice]:
    """List the answers in their order; the last is no, which is also what no answer means."""
    offered = [Choice("y", "Yes, this once", ONCE)]
    if SESSION in question.choices:
        allows = "exactly this, again and again, until you leave"
        offered.append(Choice("s", "Yes, and again in this session", SESSION, allows=allows))
    if ALWAYS in question.choices:
        offered += [
            Choice("a", f"Always in this project: {pattern}", ALWAYS, pattern, allows)
            for pattern, allows in zip(question.patterns, _explain(question), strict=True)
        ]
    return [*offered, Choice("n", "No", "no")]


def _explain(question: Question) -> list[str]:
    """Say what each pattern of a question allows."""
    exact = {"write_file": "any change to this file", "read_file": "reading this file"}
    lines = [f"{exact.get(question.tool, 'exactly this command')}, in every session"]
    lines += [
        f"{pattern.removesuffix('*')} with any words behind it, "
        "and options that only change what is shown"
        for pattern in question.patterns[1:]
    ]
    return lines


# Rules


class Approvals:
    """What is allowed in one project, by the person whose environment this is."""

    def __init__(self, env: Mapping[str, str], project: str, cwd: str = "") -> None:
        self._root = locate.global_root(env)
        self._project = os.path.realpath(project)
        self._repository = _find_repository(os.path.realpath(cwd or project), self._project)
        self._session: dict[tuple[str, ...], Rule] = {}  # by the call

    @property
    def path(self) -> str:
        """Where what is always allowed is kept."""
        return os.path.join(self._root, APPROVALS)

    def decide(self, question: Question) -> str:
        """Return `allow` where the person has said so before, else `ask`."""
        if question.choices == (ONCE,):
            return "ask"
        is_allowed = question.call in self._session or any(
            rule.tool == question.tool and rule.pattern in question.patterns
            for rule in self._kept_rules()
        )
        return "allow" if is_allowed else "ask"

    def remember(self, question: Question, answer: Answer) -> Rule | None:
        """Keep an answer for as long as it says; return the rule, None for `once`."""
        if answer.choice not in YES:
            raise UsageError(f"{answer.choice!r} allows nothing")
        if answer.choice == ONCE:
            return None
        pattern = answer.pattern or (question.patterns or ("",))[0]
        if answer.choice not in question.choices:
            raise UsageError(f"this cannot be allowed for longer: it {question.reason}")
        if answer.choice == SESSION:
            words = question.words
            text = shlex.join(words) if question.tool == "run_command" else " ".join(words)
            place = question.directory or self._place(question.tool)
            rule = self._session[question.call] = Rule(question.tool, text, place, SESSION)
            return rule
        if pattern not in question.patterns:
            raise UsageError(f"{pattern!r} was not offered", unchanged="Nothing was kept.")
        rule = Rule(question.tool, pattern, self._place(question.tool))
        make_bank(self._root)
        entry = {key: getattr(rule, key) for key in _RULE_KEYS} | {"since": now()}
        self._edit(lambda entries: [*(it for it in entries if _parse_rule(it) != rule), entry])
        return rule

    def rules(self) -> list[Rule]:
        """List all that can be taken back: calls of this session, then what is always allowed."""
        return [*dict.fromkeys(self._session.values()), *self._kept_rules()]

    def _kept_rules(self) -> list[Rule]:
        try:
            entries = self._entries()
        except RetainError:
            return []  # then everything is asked about; `problem` says why
        rules = [rule for entry in entries if (rule := _parse_rule(entry))]
        return [rule for rule in rules if rule.project == self._place(rule.tool)]

    def _place(self, tool: str) -> str:
        """Return where a rule counts; paths begin at the project's root."""
        return self._repository if tool == "run_command" else self._project

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
        is_known = rule in self.rules()
        if rule.lasts == SESSION:
            self._session = {call: kept for call, kept in self._session.items() if kept != rule}
        elif is_known:
            self._edit(lambda entries: [it for it in entries if _parse_rule(it) != rule])
        return is_known

    def _edit(self, edit: Callable[[list[object]], list[object]]) -> None:
        """Write the rules anew under the bank's lock: another chat may keep one at this moment."""
        with Directory.open(self._root) as root, WriteTransaction.open(root, self.path):
            entries = self._entries()
            text = json.dumps({"version": 1, "approvals": edit(entries)}, indent=2)
            root.put(APPROVALS, f"{text}\n".encode())

    def _entries(self) -> list[object]:
        """Read the rules on disk; none that someone else could have put there."""
        if not os.path.lexists(self.path):
            return []
        try:
            with Directory.open(self._root) as root:
                data, facts = root.read_with_facts(APPROVALS, _MAX_BYTES)
        except NotFound:
            return []
        hint = "Until it is in order, everything is asked about."
        if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
            raise ConfigError(f"{self.path} can be written by others", hint=hint)
        try:
            content = json.loads(data)
            entries = content["approvals"] if content["version"] == 1 else None
        except (ValueError, RecursionError, KeyError, TypeError):
            entries = None
        if not isinstance(entries, list):
            raise ConfigError(f"{self.path} cannot be read", hint=hint)
        return entries


def _find_repository(cwd: str, project: str) -> str:
    """Return the repository around a directory, up to the project's root."""
    here = cwd
    while here.startswith(os.path.join(project, "")):
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        here = os.path.dirname(here)
    return project


def _parse_rule(entry: object) -> Rule | None:
    """Return a rule as a file states it; None for what is not one."""
    if not isinstance(entry, dict):
        return None
    values = [entry.get(key) for key in _RULE_KEYS]
    return Rule(*map(str, values)) if all(isinstance(it, str) for it in values) else None
