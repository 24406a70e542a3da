"""MEMORY.md as text: its bullets found, and changed without touching a byte of anything else.

A fact's bullet is one at the left edge, with what is indented below it. Bullets in code, comments,
frontmatter and to-do lists are something else, and so is every other line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from retain.errors import Unreadable
from retain.facts.judging import same_key
from retain.text import frontmatter

NAME: Final = "MEMORY.md"
GENERAL: Final = "General Facts"
LONGEST: Final = 2_000  # characters of a fact that still make a bullet
_BEGINNING: Final = f"# MEMORY.md - Persistent Memories\n\n## {GENERAL}\n\n"

_BULLET: Final = re.compile(r"( {0,3}[-*+][ \t]+)(\S.*)")
_TASK: Final = re.compile(r"\[[ xX]\](?:\s|$)")
_RULE: Final = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]+(.*)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_CONFLICT: Final = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_AT_END: Final = -1
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|$)")


class Item(NamedTuple):
    """A bullet: its lines, and the fact it states."""

    first: int
    end: int  # the line after its last one
    text: str
    section: str = ""


class Page(NamedTuple):
    """The file's text, taken apart; its lines put together are the text again."""

    lines: tuple[str, ...]
    items: tuple[Item, ...]
    headings: tuple[tuple[int, str], ...]  # line and words of each
    newline: str = "\n"
    is_torn: bool = False  # someone is in the middle of a merge, or has not closed what they began

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing in it at all."""
        return not self.text.removeprefix("\ufeff").strip()

    def changed(
        self, rewritten: Mapping[int, str], dropped: Iterable[int], added: Sequence[tuple[str, str]]
    ) -> str:
        """The text with bullets (by number) rewritten and dropped, and facts with a section added.

        Everything is put where it belongs from the end to the beginning, so that line numbers stay.
        """
        base = page(_BEGINNING.replace("\n", self.newline)) if self.is_blank and added else self
        # An empty file may still have a mark at its beginning, which says how it is encoded.
        mark = "\ufeff" if base is not self and self.text.startswith("\ufeff") else ""
        lines = list(base.lines)
        places: dict[int, list[str]] = {}
        for text, section in added:
            places.setdefault(base._place(section), []).append(text)
        base._insert(lines, places.pop(_AT_END, []), len(lines), heading=GENERAL)
        for number, item in reversed([*enumerate(base.items)]):
            self._insert_headed(lines, places, item.end)
            base._insert(lines, places.pop(item.end, []), item.end, item)
            if number in rewritten:
                lines[item.first : item.end] = base._rendered(rewritten[number], item)
            elif number in dropped:
                del lines[item.first : item.end]
        self._insert_headed(lines, places, 0)
        return mark + "".join(lines)

    def _insert_headed(self, lines: list[str], places: dict[int, list[str]], end: int) -> None:
        """Begin the lists of sections that have none yet, below a line."""
        for at in sorted((at for at in places if at > end), reverse=True):
            self._insert(lines, places.pop(at), at)

    def _place(self, section: str) -> int:
        """The line before which a new bullet goes; _AT_END, below a heading of its own."""
        for wanted in filter(None, (section, GENERAL)):
            for number, (line, words) in enumerate(self.headings):
                if words.casefold() == wanted.casefold():
                    end = [at for at, _ in self.headings[number + 1 :]] or [len(self.lines)]
                    inside = [item.end for item in self.items if line < item.first < end[0]]
                    if inside or not self._would_take_in(line):
                        return inside[-1] if inside else self._below(line)
        if self.items and not any(item.section for item in self.items):
            return self.items[-1].end  # one list, which nobody has parted into sections
        return _AT_END

    def _would_take_in(self, heading: int) -> bool:
        """Whether what stands below a heading is indented: it would be part of a bullet there."""
        below = (line for line in self.lines[heading + 1 :] if line.strip())
        return next(below, "").startswith(("  ", "\t"))

    def _below(self, heading: int) -> int:
        """The line below a heading and the blank line after it."""
        after = heading + 1
        return after + (after < len(self.lines) and not self.lines[after].strip())

    def _insert(
        self,
        lines: list[str],
        texts: Sequence[str],
        at: int,
        after: Item | None = None,
        heading: str = "",
    ) -> None:
        if not texts:
            return
        new: list[str] = []
        if at and not lines[at - 1].endswith(("\n", "\r")):
            new.append(self.newline)  # the end of the line that had none
        if after is None and at and lines[at - 1].strip():
            new.append(self.newline)
        if heading:
            new += [f"## {heading}{self.newline}", self.newline]
        for text in texts:
            new += self._rendered(text, after)
        if after is None and at < len(lines) and lines[at].strip():
            new.append(self.newline)
        lines[at:at] = new

    def _rendered(self, text: str, like: Item | None) -> list[str]:
        """The lines of a bullet, with the mark and the end of line of the one before."""
        mark = "- "
        if like:
            found = _BULLET.match(self.lines[like.first])
            mark = found[1] if found else mark
        first, *rest = text.split("\n")
        indent = " " * len(mark.expandtabs())
        lines = [mark + first, *(indent + line if line.strip() else "" for line in rest)]
        return [line + self.newline for line in lines]


def is_showable(text: str) -> bool:
    """Whether a fact can stand in the file as a bullet and be read back as it is."""
    if not 0 < len(text) <= LONGEST:
        return False
    made = page("".join(Page((), (), ())._rendered(text, None)))
    return [item.text for item in made.items] == [text]


def shown(text: str) -> frozenset[str]:
    """The facts that a list shows, or as much of one as was kept of it, as `same_key` has them."""
    return frozenset(same_key(item.text) for item in page(text).items)


def without(text: str, known: Collection[str]) -> str:
    """A list without the bullets of facts that stand elsewhere, as `shown` has them."""
    made = page(text)
    doubles = [n for n, item in enumerate(made.items) if same_key(item.text) in known]
    return made.changed({}, doubles, []) if doubles else text


def page(text: str) -> Page:
    """Take the file apart."""
    lines = _LINE.findall(text)
    lines = lines[:-1] if lines and not lines[-1] else lines
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    items: list[Item] = []
    headings: list[tuple[int, str]] = []
    at, fence = _after_head(text, lines), ""
    is_torn = at < 0 or bool(_CONFLICT.search(text))
    at = max(at, 0)
    while at < len(lines):
        line = lines[at].rstrip("\r\n").removeprefix("" if at else "\ufeff")
        mark, comment = _FENCE.fullmatch(line), line.find("<!--")
        if fence or mark:
            fence = fence_after(fence, mark)
            at += 1
        elif comment >= 0 and "-->" not in line[comment:]:
            at = _end_of_comment(lines, at)
            is_torn |= at < 0
            at = len(lines) if at < 0 else at
        elif heading := _HEADING.fullmatch(line):
            headings.append((at, heading[1].strip().rstrip("#").strip()))
            at += 1
        elif (bullet := _BULLET.fullmatch(line)) and not _is_other(line, bullet[2]):
            end = _end(lines, at, len(line) - len(line.lstrip(" ")))
            section = headings[-1][1] if headings else ""
            items.append(Item(at, end, _content(lines[at:end], bullet), section))
            at = end
        else:
            at += 1
    made = Page(tuple(lines), tuple(items), tuple(headings), newline, is_torn or bool(fence))
    return _without_title(made)


def _without_title(made: Page) -> Page:
    """The title of the whole file is no section."""
    if not made.headings:
        return made
    line = made.headings[0][0]
    is_title = made.lines[line].removeprefix("\ufeff").lstrip().startswith("# ")
    if not is_title or any(item.first < line for item in made.items):
        return made
    after = made.headings[1][0] if made.headings[1:] else len(made.lines)
    items = tuple(it._replace(section="") if it.first < after else it for it in made.items)
    return made._replace(headings=made.headings[1:], items=items)


def _after_head(text: str, lines: Sequence[str]) -> int:
    """The first line after the frontmatter; negative where it does not end."""
    body = text.removeprefix("\ufeff")
    try:
        parts = frontmatter.split(body)
    except Unreadable:
        return -1
    if not parts:
        return 0
    count, length = 0, parts[2] + len(text) - len(body)
    while length > 0:
        length -= len(lines[count])
        count += 1
    return count


def _is_other(line: str, words: str) -> bool:
    return bool(_TASK.match(words) or _RULE.fullmatch(line)) or "<!--" in line or words == "-"


def fence_after(fence: str, mark: re.Match[str] | None) -> str:
    """The fence that is open after a line that may open or close one."""
    if not fence:
        return mark[1] if mark and not ("`" in mark[2] and mark[1][0] == "`") else ""
    is_closed = mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence)
    return "" if mark and is_closed and not mark[2].strip() else fence


def _end_of_comment(lines: Sequence[str], at: int) -> int:
    for number in range(at + 1, len(lines)):
        if "-->" in lines[number]:
            return number + 1
    return -1


def _end(lines: Sequence[str], first: int, indent: int) -> int:
    """The line after a bullet's last one: what is indented belongs to it, past blank lines too."""
    end = at = first + 1
    while at < len(lines):
        is_blank = not lines[at].strip()
        if not is_blank and not lines[at].startswith((" " * (indent + 2), "\t")):
            break
        at += 1
        if not is_blank:
            end = at
    return end


def _content(lines: Sequence[str], bullet: re.Match[str]) -> str:
    """What a bullet says, without its mark and its indentation."""
    width = len(bullet[1].expandtabs())
    rest = [_outdented(line.rstrip("\r\n"), width) for line in lines[1:]]
    return "\n".join([bullet[2].rstrip(), *rest])


def _outdented(line: str, width: int) -> str:
    line = line.rstrip()
    taken = 0
    while line[:1] in (" ", "\t") and taken < width:
        taken += 4 if line[0] == "\t" else 1
        line = line[1:]
    return line
