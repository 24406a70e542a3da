"""inbox: the memories that sessions propose, reviewed by a person."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from retain import shapes
from retain.cli.inputs import complete
from retain.cli.parser import Command, Parser, add_tools, open_app, run_tool, same_bank
from retain.cli.render import Output, Table
from retain.errors import NotFound, RetainError, Unreadable, UsageError

if TYPE_CHECKING:
    from retain.capture.inbox import Proposal
    from retain.capture.plan import Step
    from retain.capture.span import Span
    from retain.review import Accepted, Refused, Review, Reviewed

__all__ = ["inbox_command"]

_EMPTY: Final = "The inbox is empty: nothing waits to be reviewed."
_NEXT: Final = "Next: retain inbox{bank} show 1, accept 1, drop 1 or edit"
_BACK: Final = "Next: retain inbox{bank} restore 1"
_MOST: Final = 32_000_000  # bytes of a saved plan
_SHOWN: Final = 8  # digits of an id that people see


def _arguments(parser: Parser) -> None:
    # Without a word it lists.
    parser.set_defaults(tool_run=_list, dropped=False, tool="list")
    add_tools(parser, _TOOLS)


def _add_ids(parser: Any, **settings: str) -> None:
    about = "a proposal: its number in the list, its id, or how that begins"
    complete(parser.add_argument("id", metavar="ID", help=about, **settings), "proposals")


# list


def _list_arguments(parser: Any) -> None:
    parser.add_argument("--dropped", action="store_true", help="those that were dropped")


def _list(args: argparse.Namespace) -> Output:
    problems: list[str] = []
    review = open_app(args).inbox
    found = review.dropped(problems) if args.dropped else review.proposals(problems)
    table = Table(
        ("#", "ID", "Category", "Age", "Title", "From"),
        [
            (str(number), one.id[:_SHOWN], one.category, _age(one), one.title, _from(one))
            for number, one in enumerate(found, 1)
        ],
        empty="Nothing was dropped." if args.dropped else _EMPTY,
        flexible=("Title", "From"),
        least="From",
    )
    data = [{"number": number, **shapes.proposal(one)} for number, one in enumerate(found, 1)]
    ids = "".join(f"{one.id}\n" for one in found)
    next_steps = _BACK if args.dropped else _NEXT
    messages = [next_steps.format(bank=same_bank(args))] if found else []
    return Output(data, table=table, quiet=ids, messages=messages, warnings=problems)


def _age(one: Proposal) -> str:
    """How long ago a proposal was made, as short as a column wants it."""
    from datetime import UTC, datetime

    try:
        at = datetime.fromisoformat(one.created_at)
    except ValueError:
        return "?"
    passed = datetime.now(UTC) - (at if at.tzinfo else at.replace(tzinfo=UTC))
    minutes = max(0, int(passed.total_seconds() // 60))
    if minutes < 60:
        return f"{minutes}m"
    return f"{minutes // 60}h" if minutes < 48 * 60 else f"{minutes // (24 * 60)}d"


def _from(one: Proposal) -> str:
    return " ".join(filter(None, (one.host, one.session_id[:_SHOWN], one.event)))


# show


def _show_arguments(parser: Any) -> None:
    _add_ids(parser)


def _show(args: argparse.Namespace) -> Output:
    review = open_app(args).inbox
    waiting = review.proposals()
    try:
        (one,) = review.find([args.id], waiting)
    except NotFound:
        # One that was dropped can be looked at as well, by its id.
        (one,) = review.find([args.id], [*waiting, *review.dropped()])
    hint = f"Store it: retain inbox accept {one.id[:_SHOWN]}{same_bank(args)}"
    source, said = review.source(one), review.span(one)
    data = _shown_data(one, source, said)
    return Output(data, _shown(one, source, said), messages=[hint] if one in waiting else [])


def _shown(one: Proposal, source: str, found: Span) -> str:
    lines = [
        f"Proposal:   {one.id}",
        f"Category:   {one.category}",
        f"Title:      {one.title}",
        f"Proposed:   {one.created_at} ({_age(one)} ago)",
        f"From:       {source}",
    ]
    if one.event:
        lines.append(f"Event:      {one.event}, score {one.score:g}")
    if one.cwd:
        lines.append(f"Directory:  {one.cwd}")
    lines += ["", one.text, "", "What was said:"]
    for said in found.messages:
        lines += [f"  {said.role}:", *(f"    {line}" for line in said.text.split("\n"))]
    if found.missing:
        lines.append(f"  The transcript cannot be shown: {found.missing}.")
    if found.is_cut:
        lines.append("  ... and more, in the transcript itself.")
    return "\n".join(lines) + "\n"


def _shown_data(one: Proposal, source: str, found: Span) -> dict[str, object]:
    return {
        **shapes.proposal(one),
        "text": one.text,
        "source": source,
        "messages": [said._asdict() for said in found.messages],
        "missing": found.missing or None,
    }


# accept, drop, restore


def _some_arguments(parser: Any) -> None:
    _add_ids(parser, nargs="*")
    parser.add_argument("--all", action="store_true", help="every one there is")


def _chosen(
    review: Review, args: argparse.Namespace, among: Sequence[Proposal]
) -> Sequence[Proposal]:
    if args.all == bool(args.id):
        raise UsageError("name the proposals, or say --all for every one of them")
    return among if args.all else review.find(args.id, among)


def _accept(args: argparse.Namespace) -> Output:
    review = open_app(args).inbox
    return _reviewed(review.accept(_chosen(review, args, review.proposals())), args)


def _drop(args: argparse.Namespace) -> Output:
    review = open_app(args).inbox
    return _reviewed(review.drop(_chosen(review, args, review.proposals())), args)


def _restore(args: argparse.Namespace) -> Output:
    review = open_app(args).inbox
    return _reviewed(review.restore(_chosen(review, args, review.dropped())), args)


def _reviewed(done: Reviewed, args: argparse.Namespace) -> Output:
    lines = [line for one in done.accepted for line in _accepted(one)]
    lines += [f"Dropped: {_called(one)}" for one in done.dropped]
    lines += [f"Restored: {_called(one)}" for one in done.restored]
    lines += [f"Kept: {_called(one)}" for one in done.kept]
    warnings = [note for one in done.accepted for note in one.outcome.warnings]
    warnings += [_refused(one) for one in done.refused]
    messages = []
    if done.dropped:
        ids = " ".join(one.id[:_SHOWN] for one in done.dropped)
        what = f"restore {ids}" if len(done.dropped) < 4 else "list --dropped"
        messages.append(f"Nothing is lost: retain inbox {what}{same_bank(args)}")
    nothing = "" if done.refused else "Nothing was done.\n"
    return Output(
        shapes.reviewed(done),
        "".join(f"{line}\n" for line in lines) or nothing,
        quiet="".join(f"{one.outcome.memory.ref}\n" for one in done.accepted),
        messages=messages,
        warnings=warnings,
        code=done.refused[0].error.exit_code if done.refused else 0,
    )


def _accepted(one: Accepted) -> list[str]:
    said = "There already" if one.outcome.status == "unchanged" else "Stored"
    lines = [f"{said}: {one.outcome.memory.ref}"]
    if one.near and one.outcome.status != "unchanged":
        lines.append(f"  Near to it: {one.near.path} ({one.near.title})")
    return lines


def _called(one: Proposal) -> str:
    return f"{one.id[:_SHOWN]} {one.title}"


def _refused(one: Refused) -> str:
    error = one.error
    said = f"{one.proposal.id[:_SHOWN]} was left as it is: {error.message}"
    return f"{said} ({error.hint})" if error.hint else said


# edit


def _edit_arguments(parser: Any) -> None:
    _add_ids(parser, nargs="*")
    parser.add_argument(
        "--file", metavar="PATH", help="what an earlier edit left there, without an editor"
    )


def _edit(args: argparse.Namespace) -> Output:
    from retain.review import Reviewed

    review = open_app(args).inbox
    waiting = review.proposals()
    chosen = review.find(args.id, waiting) if args.id else waiting
    if not chosen:
        return _reviewed(Reviewed(), args)._replace(text="", messages=[_EMPTY])
    if args.file is not None:
        return _reviewed(review.carry_out(_planned(review, args.file, chosen)), args)
    return _edited(review, chosen, args)


def _planned(review: Review, path: str, chosen: Sequence[Proposal]) -> Sequence[Step]:
    """The steps that a saved plan asks for, checked."""
    from retain.capture import plan
    from retain.cli.inputs import read_text

    try:
        steps = plan.read(read_text(path, _MOST), chosen)
        review.check(steps)
    except Unreadable as error:
        error.hint = f"Mend {path}, and run the command again."
        raise
    return steps


def _edited(review: Review, chosen: Sequence[Proposal], args: argparse.Namespace) -> Output:
    from retain.capture import plan
    from retain.cli.editing import Sheet, asks_again

    text = plan.composed(chosen, {one.id: f"{_age(one)} ago, {_from(one)}" for one in chosen})
    with Sheet("The inbox is as it was.") as sheet:
        while True:
            try:
                steps = plan.read(sheet.edited("inbox.txt", text.encode()), chosen)
                review.check(steps)
                break
            except RetainError as error:
                if not isinstance(error, Unreadable) or not asks_again(error):
                    raise sheet.kept(error, "retain inbox edit --file") from error
        done = review.carry_out(steps)
        output = _reviewed(done, args)
        if not done.refused:
            return output
        return output._replace(messages=[*output.messages, f"Your text is in {sheet.keep()}."])


_TOOLS: Final = {
    "list": ("list what waits, or what was dropped", _list_arguments, _list),
    "show": ("show proposals with what was said in the session", _show_arguments, _show),
    "accept": ("store proposals as memories", _some_arguments, _accept),
    "drop": ("take proposals out of the inbox", _some_arguments, _drop),
    "restore": ("put dropped proposals back", _some_arguments, _restore),
    "edit": ("review proposals in your editor, all in one file", _edit_arguments, _edit),
}

inbox_command = Command(
    _arguments,
    run_tool,
    """Hooks propose memories and store none: what they find in a session waits here until you
accept it, change it or drop it. Nothing leaves for good: what you drop can be restored.

  retain inbox
  retain inbox show 1
  retain inbox accept 1 3
  retain inbox drop 4f2a
  retain inbox restore 4f2a
  retain inbox edit""",
)
