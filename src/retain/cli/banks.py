"""init, status, collections, export, import, stats, sync, index, doctor."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from retain.app import App
from retain.cli.command import Output, arg, command, flag, plural
from retain.cli.render import Bar, Table
from retain.config import switched_off
from retain.errors import RetainError
from retain.locate import other_stores
from retain.text.sizes import format_size

if TYPE_CHECKING:
    from retain.index.queries import Facts
    from retain.index.sync import Changes
    from retain.memory import Problem
    from retain.remote import State

_ENGINE_FIELDS: Final = ("part", "kind", "address", "waiting", "trouble")
_KEPT: Final = "What is indexed so far is kept; run it again and it goes on where it stopped."


@command("init")
def _init(app: App) -> Output:
    """Make a bank for this project.

    Makes .retain/ here, with its config and a .gitignore; what exists is left alone.
    With --global it makes your own bank, with --bank PATH one anywhere.

      retain init
      retain init --global
    """
    hidden = app.bank_above()
    location, is_new = app.init()
    root = location.root
    warnings = []
    if is_new and hidden and location.scope == "project":
        warnings.append(
            f"{hidden.root} was the bank here and is not read from here any more; "
            f"`retain import {shlex.quote(hidden.root)}` takes it over"
        )
    return Output(
        {"root": root, "scope": location.scope, "created": is_new},
        {
            "Made a bank" if is_new else "There is a bank already": root,
            "Settings": os.path.join(root, "config.toml"),
        },
        quiet=[root],
        messages=['Store something: retain put "what you learned"' if is_new else ""],
        warnings=warnings,
    )


@command("status")
def _status(app: App) -> Output:
    """Show which bank is in use, why, and what state it is in.

    Also lists every file that is skipped, cannot be parsed or should be looked at.

      retain status
      retain status --json
    """
    location, findings, config = app.location, app.status(), app.config
    history = app.kept_history()
    index, index_line, engines = _index_status(app)
    others = other_stores(os.environ) if location.scope in ("project", "global") else []
    new = "" if location.exists else "; the bank is made with the first memory"
    waiting = findings.proposals
    facts = [
        ("Bank", f"{location.root} ({location.kind}, {location.scope})"),
        ("Why", location.reason),
        ("Memory", switched_off(config)),
        ("Memories", f"{findings.memories} ({format_size(findings.bytes)}){new}"),
        ("Collections", _counts(findings.collections)),
        ("Types", _counts(findings.types)),
        ("Statuses", _counts(findings.statuses)),
        ("Trash", str(findings.trashed)),
        ("History", history),
        ("Inbox", f"{plural(waiting, 'proposal')} to review: retain inbox" if waiting else ""),
        ("Index", index_line),
    ]
    for engine in engines:
        to_tell = f", {engine.waiting} to be told" if engine.waiting else ""
        where = f"{engine.part} in {engine.kind} at {engine.address}"
        facts.append(("Engine", where + to_tell))
    lines = [f"{name + ':':<13}{value}" for name, value in facts if value]
    if findings.problems:
        lines += ["", f"Files left out or in need of repair ({len(findings.problems)}):"]
        lines += [f"  {problem.path}: {problem.reason}" for problem in findings.problems]
    lines += [f"Elsewhere:   {path}: retain import {shlex.quote(path)} --global" for path in others]
    data = {
        **{name: getattr(location, name) for name in ("root", "kind", "scope", "reason", "exists")},
        "enabled": config.flag("memory.enabled"),
        **findings.to_dict(),
        "history": history,
        "index": index.to_dict() if index else None,
        "engines": [{name: getattr(engine, name) for name in _ENGINE_FIELDS} for engine in engines],
        "warnings": list(config.warnings),
        "other_stores": others,
    }
    warnings = [*config.warnings, *held_note(index.held if index else 0)]
    warnings += [f"{engine.part}: {engine.trouble}" for engine in engines if engine.trouble]
    return Output(data, lines, warnings=warnings)


def _index_status(app: App) -> tuple[Facts | None, str, Sequence[State]]:
    """What the index holds, or why that cannot be said, and its engines; this never fails."""
    if not app.location.exists or not app.config.flag("memory.enabled"):
        return None, "", []
    try:
        facts = app.index_facts(is_fresh=True)  # the files were counted just now
    except RetainError as error:
        return None, error.message, []
    engines: Sequence[State] = []
    if any(app.config.text(f"engine.{part}") != "sqlite" for part in ("text", "vector")):
        with contextlib.suppress(RetainError):  # the line about the index has said why
            states = app.remote.status(is_asked=False)
            engines = [state for state in states if state.kind != "sqlite"]
    return facts, _describe(facts), engines


def _counts(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name or '(root)'} {count}" for name, count in sorted(values.items()))


def _describe(facts: Facts) -> str:
    """What an index holds, in a line."""
    parts = [plural(facts.chunks, "chunk"), plural(facts.vectors, "vector")]
    if facts.vectors:
        parts.append(f"by {facts.model}")
    if facts.pending:
        to_make = plural(facts.pending, "vector")
        parts.append(f"{to_make} to be made (in the background, or now: retain index)")
    return ", ".join(parts)


def held_note(held: int) -> list[str]:
    """What is said when so much is gone that it was hardly meant."""
    note = (
        f"{held} memories are missing from disk at once; they are left out and not forgotten. "
        "Bring the files back, or confirm that they are deleted: retain sync --force"
    )
    return [note] if held else []


@command("collections")
def _collections(app: App) -> Output:
    """List the collections.

    A collection is a directory of the bank; `put --collection NAME` makes one.

      retain collections
    """
    rows = app.collections()
    return Output(
        [dict(zip(("collection", "scope", "memories"), row, strict=True)) for row in rows],
        table=Table(
            ("Collection", "Scope", "Memories"),
            [(name or "(root)", scope, str(count)) for name, scope, count in rows],
            empty="No collections yet.",
        ),
        quiet=[name for name, _, _ in rows if name],
    )


@command("export", arg("target OUT", "a new .zip file, or a new directory"))
def _export(app: App, target: str) -> Output:
    """Write all memories to a directory or a zip file.

    Every memory as it is, with a manifest of hashes; `retain import` takes it back. Earlier
    versions, the trash, the config and chats are left out.

      retain export backup.zip
      retain export ../memories-2026-11
    """
    export = app.export(target)
    noun = "memory" if export.memories == 1 else "memories"
    text = [f"Exported {export.memories} {noun} to {export.path}"]
    messages = ["Versions, trash, config and chats are not part of an export."]
    return Output(export, text, quiet=[export.path], messages=messages, warnings=export.warnings)


@command(
    "import",
    arg("source SRC", "a zip, a bank, a project, or a .md file"),
    flag("--replace", "where a memory differs take theirs, not yours (which becomes a version)"),
    "--allow-secret",
)
def _import(app: App, source: str, replace: bool, allow_secret: bool) -> Output:
    """Import another bank, store or export.

    Takes a zip or directory from `retain export`, another bank, a project with .arcaneum,
    .memories/ or .claude/memory/, a directory of Markdown files, or one file. All of it or
    nothing; a second import of the same source changes nothing.

      retain import backup.zip
      retain import ~/old-project --global
    """
    with Bar("Indexing") as bar:
        done = app.import_bank(source, replace=replace, allow_secret=allow_secret, progress=bar)
    counts = {
        "new": len(done.created),
        "replaced": len(done.replaced),
        "already here": len(done.unchanged),
        "different here and kept; --replace takes theirs": len(done.kept),
    }
    lines = [f"  {count} {what}" for what, count in counts.items() if count]
    text = [f"Imported from {done.source}:", *lines]
    return Output(done, text, quiet="", warnings=done.warnings)


@command("stats")
def _stats(app: App) -> Output:
    """Count memories, tags, types, and what the index holds.

    Of the bank in use; its index is brought up to date first.

      retain stats
      retain stats --json | jq .tags
    """
    stats = app.stats()
    facts, root = stats.facts, app.location.root
    rows = {
        "Memories": f"{facts.memories} ({format_size(facts.size)})",
        "Tags": ", ".join(f"{tag} {count}" for tag, count in stats.tags.items()),
        "Types": ", ".join(f"{name} {count}" for name, count in stats.types.items()),
        "Path": root,
        "Index": f"{_describe(facts)} ({format_size(stats.index_size)})",
    }
    problems = [problem.to_dict() for problem in stats.problems]
    return Output(
        {
            **stats.to_dict(root),
            **facts.to_dict(),
            "index_size": stats.index_size,
            "problems": problems,
        },
        [f"{name + ':':<10}{value}" for name, value in rows.items() if value],
        warnings=_index_warnings(stats.problems, facts.held),
    )


def _index_warnings(problems: Iterable[Problem], held: int) -> list[str]:
    return [*(f"{problem.path}: {problem.reason}" for problem in problems), *held_note(held)]


@command("sync", flag("--force", "forget also what went missing all at once"), "--no-vectors")
def _sync(app: App, force: bool, no_vectors: bool) -> Output:
    """Index what changed on disk.

    Searches do this by themselves. When more than half of twenty or more memories are gone
    at once, they are left out and not forgotten, in case a disk is missing; --force confirms
    that they are deleted.

      retain sync
      retain sync --force
    """
    with Bar("Indexing", _KEPT) as bar:
        changes = app.sync(force=force, progress=bar)
    return _finish_index(app, changes, no_vectors)


@command(
    "index", flag("--rebuild", "discard the index and rebuild it from the files"), "--no-vectors"
)
def _index(app: App, rebuild: bool, no_vectors: bool) -> Output:
    """Bring the index up to date, or rebuild it.

    Indexes what changed and makes every vector that is missing. It can be interrupted and
    goes on where it stopped. The index is derived: --rebuild makes it from the files alone, and
    keeps the vectors that still fit.

      retain index
      retain index --rebuild
    """
    with Bar("Indexing", _KEPT) as bar:
        changes = app.rebuild(bar) if rebuild else app.sync(progress=bar)
    return _finish_index(app, changes, no_vectors)


def _finish_index(app: App, changes: Changes, no_vectors: bool) -> Output:
    """Make the vectors, then say what was done."""
    vectors = 0
    if not no_vectors:
        with Bar("Vectors", _KEPT) as bar:
            vectors = app.make_vectors(progress=bar)
    facts = app.index_facts()
    counts = {name: getattr(changes, name) for name in ("added", "changed", "removed")}
    problems = [problem.to_dict() for problem in changes.problems]
    summary = ", ".join(f"{count} {what}" for what, count in counts.items())
    return Output(
        {**counts, "vectors_made": vectors, **facts.to_dict(), "problems": problems},
        [summary, f"Index: {_describe(facts)}"],
        quiet="",
        warnings=_index_warnings(changes.problems, changes.held),
    )


@command(
    "doctor",
    flag("--repair", "rebuild a faulty index, remove those of banks that are gone"),
)
def _doctor(app: App, repair: bool) -> Output:
    """Check the files and the index, and repair the index.

    Reads every file, and compares the index with what they say, down to each word and check
    sum. It ends with code 1 when something is wrong that was not repaired. Files are never
    changed; --repair rebuilds a faulty index. It also names what is kept in your state
    directory for banks that are gone, and removes it with --repair; proposals are left.

      retain doctor
      retain doctor --repair
    """
    from retain.doctor import Health, orphaned_states, remove_state
    from retain.index.queries import Facts

    findings, root = app.status(), app.location.root
    problems = [problem for problem in findings.problems if not problem.is_minor]
    summary = f"{len(problems)} to be looked at" if problems else "all in order"
    lines = [f"Files: {findings.memories} memories ({format_size(findings.bytes)}), {summary}"]
    lines += [f"  {os.path.relpath(item.path, root)}: {item.reason}" for item in problems]
    messages = []
    health, dangling = Health(Facts(), ()), []
    if app.location.exists:
        with Bar("Indexing", _KEPT) as bar:
            health = app.health(repair=repair, progress=bar)
        if dangling := app.dangling_links():
            lines.append(f"Links: {len(dangling)} to no memory")
            lines += [f"  {source}: [[{name}]]" for source, name in dangling]
        state = "rebuilt, and now in order" if health.is_rebuilt else "in order"
        if health.faults:
            state = f"{len(health.faults)} faults" + " even when rebuilt" * health.is_rebuilt
        lines.append(f"Index: {_describe(health.facts)}, {state}")
        lines += [f"  {note}" for note in health.faults]
        lines += [f"  {note}" for note in health.notes if not health.is_rebuilt]
        if health.faults and not repair:
            messages = ["`retain doctor --repair` rebuilds the index; the memories stay."]
    else:
        lines.append("Index: there is no bank yet")
    if states := orphaned_states(app.env):
        lines.append(f"States: {len(states)} of banks that are gone{', removed' * repair}")
        for orphan in states:
            waiting = f", with {plural(orphan.proposals, 'proposal')} in its inbox"
            lines.append(f"  {orphan.path}: {orphan.bank}{waiting if orphan.proposals else ''}")
        messages += [] if repair else ["`retain doctor --repair` removes what is kept for them."]
    for orphan in states if repair else ():
        remove_state(orphan)
    is_ill = bool(problems or health.faults or health.facts.held or dangling)
    data = {
        "healthy": not is_ill,
        "memories": findings.memories,
        "problems": [problem.to_dict() for problem in findings.problems],
        "dangling": [{"source": source, "target": name} for source, name in dangling],
        "faults": health.faults,
        "repaired": health.is_rebuilt,
        "notes": health.notes,
        "index": health.facts.to_dict() if app.location.exists else None,
        "states": [orphan.to_dict() for orphan in states],
    }
    return Output(
        data,
        lines,
        quiet=None if is_ill else "",
        messages=messages,
        warnings=[*app.config.warnings, *held_note(health.facts.held)],
        code=int(is_ill),
    )
