"""Write docs/reference.md from the commands and settings themselves.

python scripts/reference.py            # rewrite the file
python scripts/reference.py --check    # fail if it is not up to date
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from retain.categories import DEFAULTS, FIELDS
from retain.cli.command import GROUPS, build, overview
from retain.config import SETTINGS, setting

PATH = os.path.join(os.path.dirname(__file__), os.pardir, "docs", "reference.md")
HEAD = """\
# Reference

Made by `scripts/reference.py` from the commands and settings themselves; edit those, not this page.

- [Commands](#commands)
- [Exit codes](#exit-codes)
- [Settings](#settings)
- [Environment](#environment)

"""
EXIT_CODES = """\
## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | an error: the disk, a damaged file, a limit, git, the configuration, an engine that is \
down or differs |
| 2 | the call was wrong: an unknown option, a bad id, a bad filter |
| 3 | not found: no such memory, version, trash entry, bank or file |
| 4 | conflict: the name is taken, or someone else wrote first |
| 130 | interrupted with Ctrl-C |

Every error says what happened, what was left unchanged and what to run next, on standard error;
with `--json` as `{"error": {"code", "message", "unchanged", "hint"}}`.

"""
ENVIRONMENT = """\
## Environment

| variable | meaning |
|---|---|
| `RETAIN_BANK` | the bank to use, as `--bank` |
| `RETAIN_HOME` | where your global bank is, instead of `~/.retain` |
| `RETAIN_<SECTION>_<KEY>` | any setting, for example `RETAIN_VERSIONING_AUTO_COMMIT=true` |
| `VISUAL`, `EDITOR` | what `retain edit` and `retain inbox edit` open |
| `CLAUDECODE`, `CODEX_THREAD_ID`, `GEMINI_CLI`, `CURSOR_AGENT`, `OPENCODE` | set by an agent's \
host; they name the author of what the agent stores |
"""


def _shown(default: object) -> str:
    """A default as it is written in a config."""
    return str(default).lower() if isinstance(default, bool) else str(default) or "(empty)"


def page() -> str:
    """The whole page."""
    parts = [HEAD, "## Commands\n\n", _block(overview())]
    parsers = _parsers()
    for group, commands in GROUPS.items():
        parts.append(f"### {group}\n\n")
        for name in " ".join(commands.values()).split():
            parts.append(f"#### retain {name}\n\n{_block(parsers[name].format_help())}")
            parts += [
                f"##### retain {name} {action}\n\n{_block(parser.format_help())}"
                for action, parser in _subparsers(parsers[name]).items()
            ]
    return "".join([*parts, EXIT_CODES, _settings(), _categories(), ENVIRONMENT])


def _parsers() -> dict[str, argparse.ArgumentParser]:
    return _subparsers(build())


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, Any]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n\n"


def _settings() -> str:
    rows = [
        f"| `{one.key}` | `{_shown(one.default)}` | {one.about} "
        f"| {'yes' if one.project else 'no'} | `{one.variable}` |"
        for one in SETTINGS.values()
    ]
    return "\n".join(
        [
            "## Settings",
            "",
            "In `config.toml` the part before the dot is the table: `[versioning]`, then",
            "`auto_commit = true`. Later layers win: defaults, your own `~/.retain/config.toml`,",
            "the bank's `config.toml`, the environment. A project's config is by whoever wrote",
            "the repository, so it may set only the keys marked so; others in it are ignored, and",
            "`retain status` and `retain config check` say which. So is what would take something",
            "from you: `memory.storage_strategy` as `user`, `versioning.mode` as `off`,",
            "`records.archive_retired` as `false`.",
            "",
            "| key | default | meaning | a project may set it | environment |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "",
        ]
    )


def _categories() -> str:
    rows = [
        f"| `categories.<name>.{field}` | {_default(field)} | {about} |"
        for field, about in FIELDS.items()
    ]
    return "\n".join(
        [
            "### Categories",
            "",
            "Each category of typed memories has settings of its own, in a table such as",
            "`[categories.decision]`; a project may set them all. The six categories are",
            "`session_summary`, `decision`, `runbook`, `constraint`, `tech_debt` and `preference`;",
            "`retain config set categories.incident.folder incidents` adds one called `incident`.",
            "In a `.claude/memory` store, the `memory-config.json` sets them.",
            "",
            "| key | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
            "A schema may have [some keywords](typed.md#categories-of-your-own) only,",
            "since it may be a stranger's.",
            "",
            "",
        ]
    )


def _default(field: str) -> str:
    """The default of any category, and of those of the six that differ."""
    usual = setting(f"categories.x.{field}").default
    own = [
        f"`{one}` for `{name}`"
        for name in DEFAULTS
        if (one := setting(f"categories.{name}.{field}").default) != usual
    ]
    shown = f"`{str(usual).lower()}`" if usual != "" else "(empty)"
    return ", ".join([shown, *own])


def main() -> int:
    new = page()
    if "--check" in sys.argv:
        with open(PATH, encoding="utf-8") as file:
            return 0 if file.read() == new else 1
    with open(PATH, "w", encoding="utf-8") as file:
        file.write(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
