"""MEMORY.md as text: find its bullets, and change them without touching any other byte.

A fact's bullet is a list item at the left edge with the lines indented right below it. Bullets in
code, comments and frontmatter are none, and neither are to-do items.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from retain.errors import Unreadable
from retain.facts.compare import same_key
from retain.text import frontmatter

NAME: Final = "MEMORY.md"
GENERAL: Final = "General Facts"
MAX_LENGTH: Final = 2_000  # characters of a fact that still make a bullet
_NEW_FILE: Final = f"# MEMORY.md - Persistent Memories\n\n## {GENERAL}\n\n"

_BULLET: Final = re.compile(r"( {0,3}[-*+][ \t]+)(\S.*)")
_TASK: Final = re.compile(r"\[[ xX]\](?:\s|$)")
_RULE: Final = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_CONFLICT: Final = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$")


class Bullet(NamedTuple):
    """A bullet: its lines, the fact it states and the heading it stands under."""

    first: int
    end: int  # the line after its last one
    text: str
    section: str = ""


class Page(NamedTuple):
    """The file taken apart; its lines joined are its text again."""

    lines: Sequence[str]
    bullets: Sequence[Bullet]
    headings: Mapping[str, int]  # casefolded words to the line
    newline: str = "\n"
    is_torn: bool = False  # a merge is under way, or something is not closed

    @property
    def is_blank(self) -> bool:
        return not "".join(self.lines).removeprefix("\ufeff").strip()

    def edit(
        self, rewrite: Mapping[int, str], drop: Collection[int], add: Sequence[tuple[str, str]]
    ) -> str:
        """The text with some bullets rewritten or dropped, and facts added to their sections."""
        if self.is_blank and add:
            mark = "\ufeff" if "".join(self.lines).startswith("\ufeff") else ""
            return mark + parse(_NEW_FILE.replace("\n", self.newline)).edit({}, (), add)
        ends = {bullet.first: bullet.end for n, bullet in enumerate(self.bullets) if n in drop}
        texts: dict[int, list[str]] = {}
        for number, text in rewrite.items():
            bullet = self.bullets[number]
            ends[bullet.first] = bullet.end
            texts[bullet.first] = self._render(text, bullet)
        new: dict[int, list[tuple[str, Bullet | None]]] = {}
        for text, section in add:
            place, neighbour = self._find_place(section)
            new.setdefault(place, []).append((text, neighbour))
        out: list[str] = []
        at = 0
        while at <= len(self.lines):
            if at in new:
                self._insert(out, new[at], self.lines[at : at + 1])
            out += texts.get(at, self.lines[at : at + 1] if at not in ends else ())
            at = ends.get(at, at + 1)
        return "".join(out)

    def _find_place(self, section: str) -> tuple[int, Bullet | None]:
        """The line before which a new bullet goes, and the bullet it follows."""
        for wanted in (section.casefold(), GENERAL.casefold()):
            inside = [bullet for bullet in self.bullets if bullet.section.casefold() == wanted]
            if inside and wanted:
                return inside[-1].end, inside[-1]
            if wanted in self.headings:
                below = self.headings[wanted] + 1
                is_blank = below < len(self.lines) and not self.lines[below].strip()
                return below + is_blank, None
        if self.bullets and not any(bullet.section for bullet in self.bullets):
            return self.bullets[-1].end, self.bullets[-1]
        return len(self.lines), None

    def _insert(
        self, out: list[str], new: Sequence[tuple[str, Bullet | None]], following: Sequence[str]
    ) -> None:
        """Add bullets to the lines written so far, with blank lines around a list of their own."""
        is_list = new[0][1] is None
        if out and not out[-1].endswith(("\n", "\r")):
            out[-1] += self.newline
        if is_list and out and out[-1].strip():
            out.append(self.newline)
        if is_list and not following and GENERAL.casefold() not in self.headings:
            out += [f"## {GENERAL}{self.newline}", self.newline]
        for text, neighbour in new:
            out += self._render(text, neighbour)
        if is_list and following and following[0].strip():
            out.append(self.newline)

    def _render(self, text: str, like: Bullet | None) -> list[str]:
        """The lines of a bullet, with the mark of another one."""
        match = _BULLET.match(self.lines[like.first]) if like else None
        mark = match[1] if match else "- "
        first, *rest = text.split("\n")
        indent = " " * len(mark.expandtabs())
        return [line + self.newline for line in (mark + first, *(indent + line for line in rest))]


def parse(text: str) -> Page:
    """Take the file apart."""
    lines = _LINE.findall(text)
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    bullets: list[Bullet] = []
    headings: dict[str, int] = {}
    fence = section = ""
    is_comment, at = False, _skip_frontmatter(text, lines)
    is_torn = at < 0 or bool(_CONFLICT.search(text))
    at = max(at, 0)
    while at < len(lines):
        line = lines[at].rstrip("\r\n").removeprefix("" if at else "\ufeff")
        at += 1
        mark = _FENCE.fullmatch(line)
        if is_comment:
            is_comment = "-->" not in line
        elif fence or mark:
            fence = fence_after(fence, mark)
        elif "<!--" in line:
            is_comment = "-->" not in line[line.find("<!--") :]
        elif heading := _HEADING.fullmatch(line):
            words = heading[2].strip().rstrip("#").strip()
            # The title of the whole file is no section.
            is_title = heading[1] == "#" and not headings and not bullets
            section = "" if is_title else words
            if not is_title:
                headings.setdefault(words.casefold(), at - 1)
        elif (bullet := _BULLET.fullmatch(line)) and not _is_other(line, bullet[2]):
            first, content = at - 1, [bullet[2].rstrip()]
            indent = len(line) - len(line.lstrip(" ")) + 2
            while at < len(lines) and _is_indented(lines[at], indent):
                content.append(_outdent(lines[at], len(bullet[1].expandtabs())))
                at += 1
            bullets.append(Bullet(first, at, "\n".join(content), section))
    return Page(lines, bullets, headings, newline, is_torn or is_comment or bool(fence))


def is_showable(text: str) -> bool:
    """Whether a fact can stand in the file as a bullet and be read back as it is."""
    if not 0 < len(text) <= MAX_LENGTH:
        return False
    page = parse("".join(Page((), (), {})._render(text, None)))
    return [bullet.text for bullet in page.bullets] == [text]


def list_keys(text: str) -> frozenset[str]:
    """The facts that a list shows, or the part of one that was kept, as `same_key` has them."""
    return frozenset(same_key(bullet.text) for bullet in parse(text).bullets)


def without(text: str, keys: Collection[str]) -> str:
    """A list without the bullets that stand elsewhere, as `list_keys` has them."""
    page = parse(text)
    doubles = [n for n, bullet in enumerate(page.bullets) if same_key(bullet.text) in keys]
    return page.edit({}, doubles, []) if doubles else text


def fence_after(fence: str, mark: re.Match[str] | None) -> str:
    """The code fence that is open after a line that may open or close one."""
    if not fence:
        return mark[1] if mark and not ("`" in mark[2] and mark[1][0] == "`") else ""
    is_closed = mark and mark[1].startswith(fence) and not mark[2].strip()
    return "" if is_closed else fence


def _skip_frontmatter(text: str, lines: Sequence[str]) -> int:
    """The first line after the frontmatter; negative where it does not end."""
    body = text.removeprefix("\ufeff")
    try:
        parts = frontmatter.split(body)
    except Unreadable:
        return -1
    count, length = 0, parts[2] + len(text) - len(body) if parts else 0
    while length > 0:
        length -= len(lines[count])
        count += 1
    return count


def _is_other(line: str, words: str) -> bool:
    return bool(_TASK.match(words) or _RULE.fullmatch(line)) or words == "-"


def _is_indented(line: str, indent: int) -> bool:
    return bool(line.strip()) and line.startswith((" " * indent, "\t"))


def _outdent(line: str, width: int) -> str:
    """A line of a bullet without its indentation, of which a tab is four columns."""
    line, taken = line.rstrip(), 0
    while line[:1] in (" ", "\t") and taken < width:
        taken += 4 if line[0] == "\t" else 1
        line = line[1:]
    return line
