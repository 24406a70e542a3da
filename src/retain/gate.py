"""What may come into a bank, and in whose name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from retain import drafts
from retain.config import Config
from retain.drafts import Draft
from retain.errors import UsageError

__all__ = ["Gate", "agent_in", "signed"]

# Which variable a host sets in the commands its agent runs, and what the agent is called.
_AGENTS: Final = (
    ("CLAUDECODE", "Claude"),
    ("CODEX_THREAD_ID", "Codex"),
    ("CODEX_SANDBOX", "Codex"),
    ("GEMINI_CLI", "Gemini"),
    ("CURSOR_AGENT", "Cursor"),
    ("OPENCODE", "OpenCode"),
)


class Gate:
    """Looks at everything on its way in, by the settings of the bank it goes to."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env

    def record(
        self, record: Mapping[str, object], allow_secret: bool
    ) -> tuple[dict[str, object], tuple[str, ...]]:
        """A record as it may be stored, and what has to be said about secrets in it."""
        draft, warnings = self.admitted(Draft(fields=record, allow_secret=allow_secret))
        return dict(draft.fields), warnings

    def admitted(self, draft: Draft) -> tuple[Draft, tuple[str, ...]]:
        """The draft as it may be stored, and what has to be said about secrets in it."""
        if draft.type:  # a field like the others, and looked at like the others
            draft = draft._replace(type="", fields={**draft.fields, "type": draft.type})
        clean, kinds = drafts.cleaned(draft)
        if not kinds:
            return draft, ()
        names = f"{len(kinds)} secret{'s' * (len(kinds) > 1)} ({', '.join(sorted(set(kinds)))})"
        if draft.allow_secret or not self._config.flag("guard.redact_secrets"):
            return draft, (f"stored as given, with what looks like {names}",)
        note = f"replaced {names} by [REDACTED:...]; --allow-secret stores it as it is"
        return clean, (note,)

    def refuse_secret_names(self, allowed: bool, *names: str | None) -> None:
        """A name cannot be redacted, and it stands in listings, paths and commit messages."""
        if allowed or not self._config.flag("guard.redact_secrets"):
            return
        from retain.guard.secrets import redact

        for name in filter(None, names):
            if kinds := redact(name)[1]:
                raise UsageError(
                    f"a name looks like a secret ({', '.join(kinds)})",
                    unchanged="Nothing was changed.",
                    hint="Choose another id or collection.",
                )

    def author(self) -> str:
        """Who is writing: the one configured, the agent that runs this command, or the user."""
        given = self._config.text("memory.created_by")
        if given:
            return given
        if agent := agent_in(self._env):
            return agent
        return self._env.get("USER") or self._env.get("LOGNAME") or _login()


def agent_in(env: Mapping[str, str]) -> str:
    """The agent that runs this command, as its host says; empty where a person does."""
    return next((agent for variable, agent in _AGENTS if env.get(variable)), "")


def signed(draft: Draft, author: str) -> Draft:
    """The draft with its author among its fields, so that the guard sees it too."""
    return draft._replace(fields={**draft.fields, "created_by": author}) if author else draft


def _login() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
