"""Where links in double brackets lead: looked up before a text is rendered, many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from retain.text.links import find_links
from retain.web.bank_pool import BankPool
from retain.web.markdown import MAX_TEXT, WIKILINK, LinkTarget, Resolve
from retain.web.rendering import address

if TYPE_CHECKING:
    from retain.app import App


# Of texts that are shown together: links that are looked up, and how many are read to find them.
_MOST: Final = 2_000
_MOST_READ: Final = 20_000

Pages = Mapping[str, LinkTarget]


def find_targets(texts: Iterable[str]) -> list[str]:
    """Return what texts link to, each once; call it without the bank's lock, as it may take long.

    Links beyond the limits are not looked up.
    """
    matches = (match[0] for text in texts for match in WIKILINK.finditer(text, 0, MAX_TEXT))
    written = islice(dict.fromkeys(islice(matches, _MOST_READ)), _MOST)
    return list(dict.fromkeys(link.target for one in written for link in find_links(one)))


def look_up(app: App, banks: BankPool, targets: Sequence[str], near: str = "") -> Pages:
    """Return the page and title of each memory that is linked to, both empty if there is none.

    `near` is the collection of the memory with the links, in which a bare name is sought first.
    """
    if not targets:
        return {}
    memories = app.resolve_links(targets, near)
    with banks.turn:
        pages = {
            target: LinkTarget(address(banks.scope_of(scope), collection, name), title)
            for target, (scope, collection, name, title) in memories.items()
        }
    return {target: pages.get(target, LinkTarget()) for target in targets}


def resolver(pages: Pages) -> Resolve:
    """Return a function that tells where a wikilink leads; None for one that was not looked up."""

    def resolve(target: str) -> LinkTarget | None:
        names = (link.target for link in find_links(f"[[{target}]]"))
        return next((pages[name] for name in names if name in pages), None)

    return resolve
