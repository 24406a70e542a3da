"""inbox: the memories that sessions propose, reviewed by a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from retain.cli.command import Args, Argument, Output, arg, command, flag, same_bank
from retain.cli.edit import EDITED_FILE, edit_text, save_file
from retain.cli.render import Table
from retain.errors import NotFound, UsageError

if TYPE_CHECKING:
    from retain.app import App
    from retain.app.review import Reviewed
    from retain.capture.proposal import Proposal

_EMPTY: Final = "The inbox is empty: nothing waits to be reviewed."
_NEXT: Final = "Next: retain inbox{bank} show 1, accept 1, drop 1 or edit"
_BACK: Final = "Next: retain inbox{bank} restore 1"
_ID_DIGITS: Final = 8  # digits of an id that people see
_ALL: Final = flag("--all", "every one there is")


def _proposal_arg(**settings: Any) -> Argument:
    about = "a proposal: its number in the list, its id, or how that begins"
    return arg("id ID", about, **settings)


@command("inbox")
def _inbox(app: App, args: Args) -> Output:
    """Review the memories that sessions propose.

    Hooks propose memories and store none: what they find in a session waits here until you
    accept it, change it or drop it. Nothing leaves for good: what you drop can be restored.

      retain inbox
      retain inbox show 1
      retain inbox accept 1 3
      retain inbox drop 4f2a
      retain inbox restore 4f2a
      retain inbox edit
    """
    return _list(app, args)


@command("inbox list", flag("--dropped", "those that were dropped"))
def _list(app: App, args: Args, dropped: bool = False) -> Output:
    """list what waits, or what was dropped"""
    proposals, problems = app.inbox.inbox.scan(dropped=dropped)
    numbered = list(enumerate(proposals, 1))
    table = Table(
        ("#", "ID", "Category", "Age", "Title", "From"),
        [(str(n), _short(it), it.category, _age(it), it.title, _origin(it)) for n, it in numbered],
        empty="Nothing was dropped." if dropped else _EMPTY,
        flexible=("Title", "From"),
    )
    next_steps = (_BACK if dropped else _NEXT).format(bank=same_bank(args))
    return Output(
        [{"number": number, **proposal.to_dict()} for number, proposal in numbered],
        table=table,
        quiet=[proposal.id for proposal in proposals],
        messages=[next_steps if proposals else ""],
        warnings=problems,
    )


def _short(proposal: Proposal) -> str:
    return proposal.id[:_ID_DIGITS]


def _age(proposal: Proposal) -> str:
    """How long ago a proposal was made, as short as a column wants it."""
    from datetime import UTC, datetime

    try:
        passed = datetime.now(UTC) - datetime.fromisoformat(proposal.created_at)
    except (ValueError, TypeError):  # no time, or one without a zone, which we never write
        return "?"
    minutes = max(0, int(passed.total_seconds() // 60))
    if minutes < 60:
        return f"{minutes}m"
    return f"{minutes // 60}h" if minutes < 48 * 60 else f"{minutes // (24 * 60)}d"


def _origin(proposal: Proposal) -> str:
    words = (proposal.host, proposal.session_id[:_ID_DIGITS], proposal.event)
    return " ".join(filter(None, words))


@command("inbox show", _proposal_arg())
def _show(app: App, args: Args, id: str) -> Output:  # noqa: A002
    """show proposals with what was said in the session"""
    review = app.inbox
    waiting = review.proposals()
    try:
        (proposal,) = review.find([id], waiting)
    except NotFound:
        # One that was dropped can be looked at as well, by its id.
        (proposal,) = review.find([id], [*waiting, *review.dropped()])
    source, excerpt = review.source(proposal), review.excerpt(proposal)
    facts = {
        "Proposal": proposal.id,
        "Category": proposal.category,
        "Title": proposal.title,
        "Proposed": f"{proposal.created_at} ({_age(proposal)} ago)",
        "From": source,
        "Event": proposal.event and f"{proposal.event}, score {proposal.score:g}",
        "Directory": proposal.cwd,
    }
    lines = [f"{name + ':':<12}{value}" for name, value in facts.items() if value]
    lines += ["", proposal.text, "", "What was said:"]
    for message in excerpt.messages:
        lines += [f"  {message.role}:", *(f"    {line}" for line in message.text.split("\n"))]
    if excerpt.missing:
        lines.append(f"  The transcript cannot be shown: {excerpt.missing}.")
    if excerpt.is_cut:
        lines.append("  ... and more, in the transcript itself.")
    data = {
        **proposal.to_dict(),
        "text": proposal.text,
        "source": source,
        "messages": [{"role": it.role, "text": it.text} for it in excerpt.messages],
        "missing": excerpt.missing or None,
    }
    hint = f"Store it: retain inbox accept {_short(proposal)}{same_bank(args)}"
    return Output(data, lines, messages=[hint if proposal in waiting else ""])


@command("inbox accept", _proposal_arg(nargs="*"), _ALL)
def _accept(app: App, args: Args) -> Output:
    """store proposals as memories"""
    return _report(app.inbox.accept(_choose(app, args, app.inbox.proposals())), args)


@command("inbox drop", _proposal_arg(nargs="*"), _ALL)
def _drop(app: App, args: Args) -> Output:
    """take proposals out of the inbox"""
    return _report(app.inbox.drop(_choose(app, args, app.inbox.proposals())), args)


@command("inbox restore", _proposal_arg(nargs="*"), _ALL)
def _restore(app: App, args: Args) -> Output:
    """put dropped proposals back"""
    return _report(app.inbox.restore(_choose(app, args, app.inbox.dropped())), args)


def _choose(app: App, args: Args, among: Sequence[Proposal]) -> Sequence[Proposal]:
    if args.all == bool(args.id):
        raise UsageError("name the proposals, or say --all for every one of them")
    return among if args.all else app.inbox.find(args.id, among)


def _report(done: Reviewed, args: Args) -> Output:
    lines, messages, warnings = [], [], list[str]()
    for _, outcome, near in done.accepted:
        is_old = outcome.status == "unchanged"
        lines.append(f"{'There already' if is_old else 'Stored'}: {outcome.memory.ref}")
        if near and not is_old:
            lines.append(f"  Near to it: {near['path']} ({near['title']})")
        warnings += outcome.warnings
    for name in ("dropped", "restored", "kept"):
        lines += [f"{name.capitalize()}: {_short(it)} {it.title}" for it in getattr(done, name)]
    for proposal, error in done.refused:
        hint = f" ({error.hint})" if error.hint else ""
        warnings.append(f"{_short(proposal)} was left as it is: {error.message}{hint}")
    if done.dropped:
        ids = " ".join(map(_short, done.dropped))
        what = f"restore {ids}" if len(done.dropped) < 4 else "list --dropped"
        messages.append(f"Nothing is lost: retain inbox {what}{same_bank(args)}")
    if not lines and not done.refused:
        lines = ["Nothing was done."]
    return Output(
        done,
        lines,
        quiet=[accepted.outcome.memory.ref for accepted in done.accepted],
        messages=messages,
        warnings=warnings,
        code=done.refused[0][1].exit_code if done.refused else 0,
    )


@command("inbox edit", _proposal_arg(nargs="*"), EDITED_FILE)
def _edit(app: App, args: Args) -> Output:
    """review proposals in your editor, all in one file"""
    from retain.capture import edit_plan

    review = app.inbox
    waiting = review.proposals()
    chosen = review.find(args.id, waiting) if args.id else waiting
    if not chosen:
        return _report(review.accept([]), args)._replace(text="", messages=[_EMPTY])

    def save(text: str) -> Output:
        return _report(review.apply(edit_plan.parse(text, chosen)), args)

    if args.file is not None:
        return save_file(args.file, save)
    text = edit_plan.compose(chosen, {it.id: f"{_age(it)} ago, {_origin(it)}" for it in chosen})
    return edit_text("inbox.txt", text.encode(), save, f"retain inbox edit{same_bank(args)}")
