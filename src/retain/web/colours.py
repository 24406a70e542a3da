"""Code with a few colours: comments, strings, numbers and the words that a language keeps.

No text can keep it busy: what begins a comment or a string is taken for one also where nothing
ends it, and no rule gives back what it took. So each character is looked at a few times, and never
more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

_HASH: Final = r"(?<![^\s;(){}])#[^\n]*+"
_SLASHES: Final = r"(?<!:)//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_DASHES: Final = r"--[^\n]*+"
_DOUBLE: Final = r'"(?:[^"\\\n]++|\\.)*+"?'
_SINGLE: Final = r"'(?:[^'\\\n]++|\\.)*+'?"
_TICKS: Final = r"`(?:[^`\\]++|\\.)*+`?"
_CHARACTER: Final = r"'(?:[^'\\\n]|\\[^\n][0-9A-Fa-f{}]{0,8})'"  # a quote alone is a lifetime
_LONG: Final = r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:""")?' + r"|'''(?:[^'\\]++|\\.|'(?!''))*+(?:''')?"
_STRING: Final = f"{_LONG}|{_DOUBLE}|{_SINGLE}"
_NEVER: Final = r"(?!)"


class _Rules(NamedTuple):
    """What is what in a language; the rest is what has to be passed over whole."""

    comment: str
    string: str
    word: str
    number: str = r"\d[\w.]*+"
    rest: str = r"\w++"


def _kept(words: str, flags: str = "") -> str:
    return rf"(?=[^\W\d])(?{flags}:{'|'.join(words.split())})\b"


# Languages that look alike share their words: one too many coloured misleads nobody.
_CURLY: Final = r"#[a-z]++|" + _kept(
    "abstract any as async await base bool boolean break byte case catch chan char class comptime "
    "const constexpr continue crate data def default defer delete do double dyn echo else enum "
    "export extends extern extension false final finally float fn for foreach from fun func "
    "function get go guard if impl implements import in inline instanceof int interface internal "
    "is let long loop map match message mod move mut namespace new nil null nullptr object of "
    "oneof operator optional override package private protected protocol pub public range readonly "
    "record ref repeated return rpc sealed self Self select service set short sizeof static string "
    "struct super switch template this throw throws trait true try type typedef typename typeof "
    "undefined unsafe unsigned use using val var virtual void volatile when where while with yield"
)
_WORDY: Final = _kept(
    "after alias and as assert async await begin break case class cond continue def defmodule defp "
    "del do elif else elsif end ensure except false False finally fn for foreach from function "
    "global if import in is lambda last library local match module my next nil None nonlocal not "
    "NULL or our package pass raise require rescue return self sub super then true True TRUE FALSE "
    "try unless until use when while with yield"
)
_SHELL: Final = _kept(
    "begin break case catch cd continue define do done echo elif else elseif end endef endif esac "
    "eval exec exit export fi finally for foreach function if ifdef ifeq ifndef ifneq in include "
    "local param process read return set shift source switch test then throw trap try unset until "
    "while"
)
_DOCKER: Final = _kept(
    "add arg as cmd copy entrypoint env expose from healthcheck label onbuild run shell stopsignal "
    "user volume workdir",
    "i",
)
_SQL: Final = _kept(
    "add all alter and as asc begin between by cascade case check column commit constraint create "
    "cross database default delete desc distinct drop else end exists explain foreign from full "
    "function grant group having if in index inner insert into is join key left like limit not "
    "null offset on or order outer primary references returning right rollback select set table "
    "then trigger union unique update using values view when where with",
    "i",
)
_HASKELL: Final = _kept(
    "case class data deriving do else if import in infix infixl infixr instance let module newtype "
    "of then type where"
)
_LUA: Final = _kept(
    "and break do else elseif end false for function goto if in local nil not or repeat return "
    "then true until while"
)
_SETTING: Final = r"[^\W\d][\w.-]*+(?=[ \t]{0,8}(?:=|:(?!/)))|" + _kept("true false null")
_PROPERTY: Final = r"[@$]?[^\W\d][\w-]*+(?=[ \t]{0,8}:)|@[\w-]++"

# Where words stand without quotes, one within a word is an apostrophe.
_SETTINGS: Final = _Rules(_HASH, rf"{_LONG}|{_DOUBLE}|(?<!\w){_SINGLE}", _SETTING, rest=r"[\w.-]++")
_MARKUP: Final = _Rules(
    comment=r"<!--(?:[^-]++|-(?!->))*+(?:-->)?",
    string=r'"[^"<>]*+"?',
    word=r"</?[A-Za-z][\w:.-]*+|/?>",
    number=_NEVER,
)
_DIFF: Final = _Rules(
    comment=r"^(?:@@|diff |index )[^\n]*+",
    string=r"^\+[^\n]*+",
    word=r"^-[^\n]*+",
    number=_NEVER,
    rest=r"^[^\n]++",
)
_FAMILIES: Final = {
    "c cpp csharp go java kotlin proto rs rust scala swift zig": _Rules(
        _SLASHES, f"{_LONG}|{_DOUBLE}|{_CHARACTER}|{_TICKS}", _CURLY
    ),
    "javascript js jsx ts tsx typescript": _Rules(_SLASHES, f"{_STRING}|{_TICKS}", _CURLY),
    "php": _Rules(f"{_SLASHES}|{_HASH}", _STRING, _CURLY),
    "elixir perl py python r rb ruby": _Rules(_HASH, _STRING, _WORDY),
    "bash make makefile powershell sh shell": _Rules(_HASH, _STRING, _SHELL),
    "docker dockerfile": _Rules(_HASH, _STRING, _DOCKER),
    "sql": _Rules(f"{_DASHES}|{_SLASHES}", _STRING, _SQL),
    "haskell": _Rules(
        rf"\{{-(?:[^-]++|-(?!\}}))*+(?:-\}})?|{_DASHES}", f"{_DOUBLE}|{_CHARACTER}", _HASKELL
    ),
    "lua": _Rules(rf"--\[\[(?:[^\]]++|\](?!\]))*+(?:\]\])?|{_DASHES}", _STRING, _LUA),
    "graphql ini nginx toml yaml yml": _SETTINGS,
    "terraform": _SETTINGS._replace(comment=f"{_HASH}|{_SLASHES}"),
    "json": _SETTINGS._replace(comment=_SLASHES),
    "css scss": _Rules(_SLASHES, _STRING, _PROPERTY, rest=r"[\w-]++"),
    "html xml": _MARKUP,
    "diff": _DIFF,
}
_BY_NAME: Final = {name: rules for names, rules in _FAMILIES.items() for name in names.split()}

LANGUAGES: Final = frozenset(_BY_NAME)


class Piece(NamedTuple):
    """A part of some code, and what it is: a comment, a string, a word, a number, or nothing."""

    kind: str
    text: str


def pieces(code: str, language: str) -> Iterator[Piece]:
    """Code in parts that together are all of it; the kinds are the classes of their colours."""
    done = 0
    for found in _pattern(language).finditer(code):
        if found.lastgroup:
            if found.start() > done:
                yield Piece("", code[done : found.start()])
            yield Piece(found.lastgroup, found[0])
            done = found.end()
    if done < len(code):
        yield Piece("", code[done:])


@cache
def _pattern(language: str) -> re.Pattern[str]:
    it = _BY_NAME[language]
    return re.compile(
        f"(?P<c>{it.comment})|(?P<s>{it.string})|(?P<mi>{it.number})|(?P<k>{it.word})|{it.rest}",
        re.DOTALL | re.MULTILINE,
    )
